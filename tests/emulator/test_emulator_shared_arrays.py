"""Elements of `__shared__` arrays, from their declarations."""

import pytest

from tilewright.emulator.shared_arrays import SharedArray, alignments, array_of, shared_arrays
from tilewright.kernels import KERNELS, find

MACROS = {"BM": 64, "BN": 128, "FACTOR": "__nv_bfloat16"}

DECLARED = {
    "__shared__ float s[256];": {"s": SharedArray(4, (256,))},
    "__shared__ __align__(16) float As[BM][BN + 4];": {"As": SharedArray(4, (64, 132))},
    "constexpr int BK = BM / 3 * 2; __shared__ half x[2][BK];": {"x": SharedArray(2, (2, 42))},
    "#define PAD (BN / 32)\n__shared__ FACTOR x[BM][PAD];": {"x": SharedArray(2, (64, 4))},
    "__shared__ unsigned char a[BM], b[2][BM];": {"a": SharedArray(1, (64,)), "b": SharedArray(1, (2, 64))},
    "// __shared__ float old[4];\n__shared__ float4 now[BM / 4];": {"now": SharedArray(16, (16,))},
    "__shared__ Tiles tiles[4]; __shared__ bool last; extern __shared__ float bytes[];": {},
    "template <int K> void f() { __shared__ float x[K]; }": {},
    "constexpr int A = B; constexpr int B = A; __shared__ float x[A];": {},
}


@pytest.mark.parametrize("text", DECLARED)
def test_declarations_are_understood_or_left_out(text, tmp_path):
    source = tmp_path / "kernel.cu"
    source.write_text(text)
    found = shared_arrays(source, MACROS)
    assert {name: array_of(found, name, arrays[0].bytes) for name, arrays in found.items()} == DECLARED[text]


def test_what_arrays_are_aligned_to_is_known_whatever_their_extents(tmp_path):
    source = tmp_path / "kernel.cu"
    source.write_text(
        "typedef __nv_bfloat16 bf16; constexpr int TO = 1024; struct Own {};\n"
        "template <int K> void f() { __shared__ alignas(128) bf16 a[K]; __shared__ __align__(TO) float b[K], c[K]; }\n"
        "void g() { __shared__ alignas(1024) float a[4]; __shared__ double d[4]; __shared__ Own e[4]; }\n"
        "void h() { __shared__ alignas(alignof(Own)) float f[4]; }"
    )
    assert alignments(source, {}) == {"a": 128, "b": 1024, "c": 1024, "d": 8}


def test_headers_are_read_and_arrays_of_one_name_are_distinguished_by_their_bytes(tmp_path):
    (tmp_path / "tile.cuh").write_text("__shared__ float tile[8][4];")
    source = tmp_path / "kernel.cu"
    source.write_text(
        '#include "tile.cuh"\n__shared__ float tile[2][8]; __shared__ float s[4][2]; __shared__ float s[2][4];'
    )
    found = shared_arrays(source, {})
    assert array_of(found, "tile", 128) == SharedArray(4, (8, 4))
    assert array_of(found, "tile", 64) == SharedArray(4, (2, 8))
    assert array_of(found, "tile", 32) is array_of(found, "s", 32) is array_of(found, "other", 32) is None


def test_elements_are_named_inside_and_outside():
    array = SharedArray(4, (8, 32))
    assert array.element("As", 0) == "As[0][0]"
    assert array.element("As", (4 * 32 + 17) * 4) == "As[4][17]"
    assert array.element("As", 6) == "byte 2 of As[0][1]"
    assert array.element("As", 8 * 32 * 4) == "As[8][0], outside of its 8 x 32 elements"
    assert array.element("As", -4) == "As[-1][31], outside of its 8 x 32 elements"


@pytest.mark.further
def test_arrays_of_the_ladder_are_understood():
    named = {
        kernel.name
        for kernel in KERNELS
        if shared_arrays(kernel.source, {**kernel.compiled(kernel.config()), **kernel.constants(kernel.config())})
    }
    assert named >= {"shared_tiled", "thread_tiled_1d", "vectorized", "padded", "warptiled", "double_buffered", "wgmma"}
    arrays = shared_arrays(
        find("double_buffered").source, find("double_buffered").compiled(find("double_buffered").config())
    )
    assert arrays["As"] == [SharedArray(4, (2, 16, 64))]
