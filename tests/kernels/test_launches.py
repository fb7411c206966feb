"""Sources of a launch's parts, for a kernel that is no matrix product."""

from pathlib import Path

import pytest

from tilewright.core.errors import ConfigError, DtypeError
from tilewright.kernels.source.buffers import Buffer, NumberArgument, Range
from tilewright.kernels.source.lines import read
from tilewright.kernels.source.source_launch import launch_of, read_launch

HEAD = (
    "// tilewright: grid=ceil(n/T) block=T T=64 x=float32[rows,cols] y=out:float32[n] n=rows*cols rows=4 cols=5 s=2\n"
)
SOURCE = HEAD + "__global__ void own(const float* x, float* y, size_t n, int rows, int cols, float s) {}\n"


@pytest.fixture
def place(tmp_path):
    path = tmp_path / "own.cu"
    path.write_text(SOURCE)
    return str(path)


def test_a_launch_is_read_from_its_head(place):
    one = read_launch(place)
    assert not one.product
    assert one.contents.arguments == (
        Buffer("x", "in", "float32", (4, 5)),
        Buffer("y", "out", "float32", (20,)),
        NumberArgument("n", "uint64", 20),
        NumberArgument("rows", "int32", 4),
        NumberArgument("cols", "int32", 5),
        NumberArgument("s", "float32", 2.0),
    )
    assert (one.grid, one.block, one.shared_bytes, one.macros) == ((1, 1, 1), (64, 1, 1), 0, {"T": 64})


def test_words_that_are_given_replace_those_of_the_source(place):
    one = read_launch(place, "rows=100 T=32 s=-1.5 x=float32[rows, cols]:-1..1", shared="4*T", block="(T,2)")
    assert (one.grid, one.block, one.shared_bytes) == ((16, 1, 1), (32, 2, 1), 128)
    assert one.contents.arguments[0] == Buffer("x", "in", "float32", (100, 5), Range(-1, 1))
    assert one.contents.arguments[-1].value == -1.5


REFUSED = {
    "typo": ("row=3", ConfigError, "row=3 is nothing that own takes: there are x, y, .*; did you mean 'rows'"),
    "no number": ("rows=many", ConfigError, "rows of own must be a whole number, got 'many': nothing is called 'many'"),
    "circle": ("rows=cols cols=rows", ConfigError, "rows and cols of own follow from each other|n and rows and cols"),
    "buffer for a number": (
        "rows=int32[4]",
        ConfigError,
        r"rows of own is an integer, got int32\[4\]: it takes",
    ),
    "number for a buffer": ("x=3", ConfigError, "x of own is a pointer, got 3: it takes an element type and a shape"),
    "role": (
        "x=output:float32[3]",
        ConfigError,
        "x of own may be one of in, out, inout, zeros, got output",
    ),
    "dtype": ("x=float[3]", DtypeError, "x of own may have elements float16, .*, got float; did you mean 'float"),
    "other dtype": ("x=int32[3]", DtypeError, "x of own points to float, which is float32, got int32"),
    "shape": ("x=float32[z]", ConfigError, "the shape of x of own must be .* nothing is called 'z'"),
    "no elements": ("x=float32[rows-4]", ConfigError, "the shape of x of own must have extents of 1 and more"),
    "too large": ("x=float32[1000000,1000000]", ConfigError, "buffers of own may have 2,147,483,648 bytes together"),
    "out of range": (
        "rows=3000000000",
        ConfigError,
        "rows of own is of type int, which holds -2147483648 to",
    ),
    "range of an output": ("y=out:float32[n]:0..1", ConfigError, "y of own is out, of which nothing is drawn"),
    "backwards": ("x=float32[n]:3..1", ConfigError, "x of own must be drawn from the smaller to the larger number"),
    "float": ("s=fast", ConfigError, "s of own is of type float and takes a number, got fast"),
    "no word": ("rows", ConfigError, "--args must read NAME=VALUE ..., got 'rows'"),
}


@pytest.mark.parametrize(("args", "error", "words"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_understood_is_said(place, args, error, words):
    with pytest.raises(error, match=words):
        read_launch(place, args)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (" s=2", "", "nothing says what s of own is: write above it"),
        ("grid=ceil(n/T) ", "", "own.cu does not say how own is launched"),
        ("float s)", "float4 s)", "s of own has the type float4: parameters may be pointers, half"),
    ],
)
def test_a_source_that_says_too_little(tmp_path, before, after, words):
    path = tmp_path / "own.cu"
    path.write_text(SOURCE.replace(before, after))
    with pytest.raises((ConfigError, DtypeError), match=words):
        read_launch(str(path))


PRODUCT = "float* A, float* B, float* C, int M, int N, int K"


@pytest.mark.parametrize(
    ("words", "arguments", "product"),
    [
        ("", PRODUCT, True),
        ("C=column args=A,B,C,M,N,K", PRODUCT, True),
        ("", "float* x, float* y, int n", True),  # what its parameters are is to be said
        ("n=5", "float* x, float* y, int n", False),
        ("A=float32[5]", PRODUCT, False),
        ("reference=own.py:f", PRODUCT, False),
        ("", "int n", False),
    ],
)
def test_which_kernels_are_taken_for_matrix_products(words, arguments, product):
    text = f"// tilewright: block=32 grid=32 {words}\n__global__ void own({arguments}) {{}}"
    assert launch_of(Path("own.cu"), text, "").product is product


def test_a_matrix_product_has_roles(tmp_path):
    path = tmp_path / "own.cu"
    path.write_text(f"// tilewright: block=32 grid=M*N C=column\n__global__ void own({PRODUCT}) {{}}")
    assert list(launch_of(*read(str(path))).roles) == ["B_data", "A_data", "D_data", "N", "M", "K"]


def test_a_kernel_without_parameters_is_launched(tmp_path):
    path = tmp_path / "own.cu"
    path.write_text("// tilewright: block=32 grid=COUNT COUNT=3\n__global__ void own() {}")
    one = read_launch(str(path))
    assert (one.contents.arguments, one.grid, one.block) == ((), (3, 1, 1), (32, 1, 1))
