"""Sources of a launch's parts, for a kernel that is no matrix product."""

import pytest

from tilewright.core.errors import ConfigError, DtypeError
from tilewright.kernels.source.launches import Buffer, Number, Range, is_launch, read_launch

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
    assert is_launch(place)
    one = read_launch(place)
    assert one.arguments == (
        Buffer("x", "in", "float32", (4, 5)),
        Buffer("y", "out", "float32", (20,)),
        Number("n", "uint64", 20),
        Number("rows", "int32", 4),
        Number("cols", "int32", 5),
        Number("s", "float32", 2.0),
    )
    assert (one.grid, one.block, one.shared_bytes, one.macros) == ((1, 1, 1), (64, 1, 1), 0, {"T": 64})


def test_words_that_are_given_replace_those_of_the_source(place):
    one = read_launch(place, "rows=100 T=32 s=-1.5 x=float32[rows, cols]:-1..1", shared="4*T", block="(T,2)")
    assert (one.grid, one.block, one.shared_bytes) == ((16, 1, 1), (32, 2, 1), 128)
    assert one.arguments[0] == Buffer("x", "in", "float32", (100, 5), Range(-1, 1))
    assert one.arguments[-1].value == -1.5


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
        ("grid=ceil(n/T) ", "", "nothing says how own is launched"),
        ("float s)", "float4 s)", "s of own has the type float4: parameters may be pointers, half"),
    ],
)
def test_a_source_that_says_too_little(tmp_path, before, after, words):
    path = tmp_path / "own.cu"
    path.write_text(SOURCE.replace(before, after))
    with pytest.raises((ConfigError, DtypeError), match=words):
        read_launch(str(path))


def test_a_matrix_product_is_no_launch(tmp_path):
    path = tmp_path / "own.cu"
    arguments = "float* A, float* B, float* C, int M, int N, int K"
    path.write_text(f"// tilewright: block=32 grid=M*N\n__global__ void own({arguments}) {{}}")
    assert not is_launch(str(path))
    assert not is_launch(str(tmp_path / "none.cu"))
