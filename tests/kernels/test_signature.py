"""Facts about kernels that are read from their sources."""

import pytest

from tilewright.kernels import LADDER
from tilewright.kernels.source.signature import Argument, signatures, without_comments


def test_every_rung_declares_one_kernel_with_as_many_parameters_as_it_is_called_with():
    for kernel in LADDER:
        (found,) = signatures(kernel.source.read_text())
        assert found.name == kernel.source.stem
        assert len(found.arguments) == len(kernel.arguments), kernel


def test_names_types_and_pointers():
    source = """
    // __global__ void commented(int a) {}
    __global__ void declared(int a);
    template <const int BM, typename T = float>
    __global__ __launch_bounds__((BM * 4) / 2, 1) void product(
        size_t m, const unsigned int n, float alpha = 1.0f, const half* __restrict__ A, __nv_bfloat16 const* const B,
        float C[], std::pair<int, int> pair) {
        printf("__global__ void quoted(int a) {");
    }
    extern "C" __global__ void __cluster_dims__(2, 1, 1) empty() {}
    static __global__ void *odd(void);
    """
    first, second = signatures(source)
    assert (first.name, first.template, first.cluster) == ("product", ("BM", "T"), "")
    assert second == ("empty", (), (), "2, 1, 1")
    assert first.arguments == (
        Argument("size_t", "m", False, False),
        Argument("unsigned int", "n", False, True),
        Argument("float", "alpha", False, False),
        Argument("half", "A", True, True),
        Argument("__nv_bfloat16", "B", True, True),
        Argument("float", "C", True, False),
        Argument("std::pair<int, int>", "pair", False, False),
    )


@pytest.mark.parametrize("text", ["// a\nb", "/* a\n */b", '"a // b"', "'\"' // a", '"\\"//" b'])
def test_lines_stay_where_they_are_without_comments(text):
    found = without_comments(text)
    assert len(found) == len(text)
    assert [place for place, letter in enumerate(found) if letter == "\n"] == [
        place for place, letter in enumerate(text) if letter == "\n"
    ]
    assert "a" not in found
