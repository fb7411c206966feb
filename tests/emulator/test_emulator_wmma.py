"""The emulator's matrix fragments against NumPy, and against the rules of the CUDA guide's "Warp Matrix Functions"."""

from pathlib import Path

import numpy as np
import pytest
from emulator_helpers import launch

from tilewright.core.errors import CompileError, LaunchError
from tilewright.runtime import nvrtc

SOURCE = Path(__file__).with_name("wmma_product.cu")

TYPES = {
    "float16": {"ELEMENT": "__half", "STORED": "__half", "DEPTH": 16},
    "bfloat16": {"ELEMENT": "__nv_bfloat16", "STORED": "__nv_bfloat16", "DEPTH": 16},
    "float32": {"ELEMENT": "wmma::precision::tf32", "STORED": "float", "DEPTH": 8},
}
LAYOUTS = ("rows", "columns")
WARP = (32, 1, 1)


def aligned(rows, cols, dtype, fill=0):
    """A matrix whose memory begins at a multiple of 32 bytes."""
    size = rows * cols * np.dtype(dtype).itemsize
    memory = np.zeros(size + 32, np.uint8)
    start = -memory.ctypes.data % 32
    matrix = memory[start : start + size].view(dtype).reshape(rows, cols)
    matrix[:] = fill
    return matrix


def laid_out(matrices, layout, ld, dtype):
    """Matrices in one memory with this leading dimension, each 16 rows of it after the last; the rest is NaN."""
    memory = aligned(16 * len(matrices), ld, dtype, np.nan)
    for index, matrix in enumerate(matrices):
        lines = matrix if layout == "rows" else matrix.T
        memory[16 * index : 16 * index + lines.shape[0], : lines.shape[1]] = lines
    return memory


def product(a, lda, b, ldb, c, ldc, dtype, layouts=("rows", "rows", "rows"), block=WARP):
    """Run the kernel of that name on matrices in memory; what it leaves in a copy of C's memory."""
    out = aligned(*c.shape, np.float32, np.nan)
    by_a, by_b, by_c = (int(layout == "columns") for layout in layouts)
    arguments = (a, lda, by_a, b, ldb, by_b, c, out, ldc, by_c)
    launch(SOURCE, *arguments, entry="product", block=block, defines=TYPES[dtype])
    return out


@pytest.mark.first(4)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("layout_a", LAYOUTS)
@pytest.mark.parametrize("layout_b", LAYOUTS)
def test_a_product_in_every_type_and_layout(dtype, layout_a, layout_b):
    depth, layouts = TYPES[dtype]["DEPTH"], (layout_a, layout_b, layout_a)
    random = np.random.default_rng(0)
    # Small integers, so that a result is either exact or wrong; three warps, each with a product of its own.
    a, b, c = (random.integers(-8, 9, (3, *shape)) for shape in ((16, depth), (depth, 16), (16, 16)))
    lds, dtypes = (24, 40, 28), (dtype, dtype, np.float32)
    memories = [laid_out(*these) for these in zip((a, b, c), layouts, lds, dtypes, strict=True)]
    operands = [part for pair in zip(memories, lds, strict=True) for part in pair]
    out = product(*operands, dtype, layouts, (96, 1, 1))
    np.testing.assert_array_equal(out, laid_out(a @ b + c, layout_a, 28, np.float32))


@pytest.mark.first(1)
@pytest.mark.parametrize("dtype", TYPES)
def test_lanes_hold_every_element_once(dtype):
    depth = TYPES[dtype]["DEPTH"]
    a = aligned(16, depth, dtype, np.random.default_rng(0).integers(-8, 9, (16, depth)))
    out = aligned(16, 16, np.float32, np.nan)
    one = aligned(depth, 16, dtype, np.eye(depth, 16))
    launch(SOURCE, a, depth, one, 16, out, 16, entry="doubled", block=WARP, defines=TYPES[dtype])
    expected = np.full((16, 16), 3.0)
    expected[:, :depth] += 2 * a.astype(float)
    np.testing.assert_array_equal(out, expected)


def tile(a, b, dtype):
    """A @ B of matrices that are whole fragments."""
    return product(a, a.shape[1], b, 16, aligned(16, 16, np.float32), 16, dtype)


def test_a_float_that_is_not_rounded_to_tf32_is_cut_off():
    ulp = 2.0**-10
    factors = [1 + ulp * 0.75, 1 + ulp, -1 - ulp * 1.99]
    a = aligned(16, 8, np.float32)
    a[:3, 0] = factors
    one = aligned(8, 16, np.float32, np.eye(8, 16))
    np.testing.assert_array_equal(tile(a, one, "float32")[:3, 0], [1, 1 + ulp, -1 - ulp])


def test_sums_are_float():
    a, one = aligned(16, 16, np.float16, 1), aligned(16, 16, np.float16, 60000)
    np.testing.assert_array_equal(tile(a, one, "float16"), np.full((16, 16), 960000.0))
    a[0, :] = np.inf
    a[1, 3] = np.nan
    result = tile(a, one, "float16")
    assert np.isposinf(result[0]).all() and np.isnan(result[1]).all() and np.isfinite(result[2:]).all()


def test_rounding_to_tf32_is_to_nearest_and_ties_go_away_from_zero():
    random = np.random.default_rng(0)
    values = random.integers(0, 2**32, 100_000, dtype=np.uint32).view(np.float32)
    ties = (random.integers(0, 2**32, 1000, dtype=np.uint32) & 0xFFFFE000 | 0x1000).view(np.float32)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 3.4e38, -3.4e38, 1e-45, -1e-40], np.float32)
    values = np.concatenate([values, ties, special])
    out = np.zeros_like(values)
    launch(
        SOURCE, values, out, values.size, entry="rounded", grid=(-(-values.size // 256), 1, 1), block=(256, 1, 1),
        defines=TYPES["float32"],
    )  # fmt: skip
    finite = np.isfinite(values)
    np.testing.assert_array_equal(np.isnan(out), np.isnan(values))
    np.testing.assert_array_equal(out[np.isinf(values)], values[np.isinf(values)])
    assert not (out[finite].view(np.uint32) & 0x1FFF).any()
    below = (values[finite].view(np.uint32) & 0xFFFFE000).view(np.float32).astype(np.float64)
    exponent = np.maximum(np.frexp(values[finite].astype(np.float64))[1] - 1, -126)
    above = below + np.copysign(np.ldexp(1.0, exponent - 10), values[finite])
    near = np.where(np.abs(values[finite] - below) < np.abs(above - values[finite]), below, above)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(out[finite], near.astype(np.float32))


# Each as what is done in a kernel that has a fragment of each kind, and words of the error. The place of the first call
# is kernel.cu:1000, of the second kernel.cu:1001.
ALL_LANES = (
    "takes all 32 lanes of a warp, and the lanes 0x7fffffff have arrived: the others have returned or never were"
)
POINTER, LEADING = "a pointer that is no multiple of 32 bytes", "a leading dimension that is no multiple of 16 bytes"
DIFFERS = "a pointer, leading dimension or layout that is not the same in all lanes"
BROKEN = {
    "a lane has returned": (
        "if (lane < 31) wmma::load_matrix_sync(a, tile, 16);",
        f"load_matrix_sync (kernel.cu:1000), which {ALL_LANES}",
    ),
    "a lane leaves out a product": (
        "if (lane < 31) wmma::mma_sync(sums, a, b, sums);",
        f"mma_sync (kernel.cu:1000), which {ALL_LANES}",
    ),
    "a lane waits elsewhere": (
        "if (lane < 31) wmma::store_matrix_sync(results, sums, 16, wmma::mem_row_major);\n__syncthreads();",
        "31 threads wait at store_matrix_sync (kernel.cu:1000) with the mask 0xffffffff, "
        "1 thread waits at __syncthreads (kernel.cu:1001)",
    ),
    "lanes at two calls": (
        "if (lane < 16) wmma::load_matrix_sync(a, tile, 16);\nelse wmma::load_matrix_sync(a, tile, 16);",
        "16 threads wait at load_matrix_sync (kernel.cu:1000) with the mask 0xffffffff, "
        "16 threads wait at load_matrix_sync (kernel.cu:1001)",
    ),
    "load off alignment": (
        "wmma::load_matrix_sync(a, tile + 8, 16);",
        f"load_matrix_sync (kernel.cu:1000) with {POINTER}",
    ),
    "load of a wrong leading dimension": (
        "wmma::load_matrix_sync(a, tile, 20);",
        f"load_matrix_sync (kernel.cu:1000) with {LEADING}",
    ),
    "store off alignment": (
        "wmma::store_matrix_sync(results + 4, sums, 16, wmma::mem_row_major);",
        f"store_matrix_sync (kernel.cu:1000) with {POINTER}",
    ),
    "store of a wrong leading dimension": (
        "wmma::store_matrix_sync(results, sums, 18, wmma::mem_row_major);",
        f"store_matrix_sync (kernel.cu:1000) with {LEADING}",
    ),
    "a pointer of its own": ("wmma::load_matrix_sync(a, tile + (lane == 7) * 16, 16);", DIFFERS),
    "a leading dimension of its own": ("wmma::load_matrix_sync(a, tile, lane == 7 ? 24 : 16);", DIFFERS),
    "a layout of its own": (
        "wmma::store_matrix_sync(results, sums, 16, lane ? wmma::mem_row_major : wmma::mem_col_major);",
        DIFFERS,
    ),
}
RIGHT = "wmma::load_matrix_sync(a, tile, 16);\nwmma::load_matrix_sync(b, tile, 16);\nwmma::mma_sync(sums, a, b, sums);"


def kernel(*cases, fragments=""):
    """A kernel that does what its argument says: a case by number."""
    text = "".join(f"case {number}: {{\n#line 1000\n{case}\n}} break;\n" for number, case in enumerate(cases))
    return f"""
    #include <ptx/wmma.cuh>
    extern "C" __global__ void kernel(int number) {{
        __shared__ __align__(32) __half tile[16 * 32];
        __shared__ __align__(32) float results[16 * 32];
        wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> a;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> b;
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums;
        {fragments}
        const int lane = threadIdx.x % 32;
        wmma::fill_fragment(sums, 0.0f);
        switch (number) {{
        {text}
        }}
    }}
    """


CASES = kernel(RIGHT, *(statement for statement, _ in BROKEN.values()))


@pytest.mark.parametrize(("number", "words"), list(enumerate((words for _, words in BROKEN.values()), 1)), ids=BROKEN)
def test_a_call_that_breaks_a_rule_is_named(number, words):
    with pytest.raises(LaunchError) as caught:
        launch(CASES, number, block=WARP)
    assert words in str(caught.value)
    launch(CASES, 0, block=WARP)  # the thread that ran it is as good as before


def test_a_warp_that_is_not_whole_cannot_multiply():
    launch(CASES, 0, block=(64, 1, 1))
    with pytest.raises(LaunchError, match=r"and the lanes 0x0000ffff have arrived"):
        launch(CASES, 0, block=(48, 1, 1))


def test_a_fragment_that_there_is_not_does_not_compile():
    wide = "wmma::fragment<wmma::matrix_a, 32, 8, 16, __half, wmma::row_major> wide;"
    with pytest.raises(CompileError, match="the emulator lacks fragments of this shape"):
        launch(kernel(fragments=wide), 0, block=WARP)


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("dtype", "arch"), [("float16", "sm_75"), ("float16", "sm_90a"), ("bfloat16", "sm_80"), ("float32", "sm_80")]
)
def test_the_gpus_compiler_takes_the_same_source(dtype, arch):
    for entry in ("product", "doubled"):
        assert nvrtc.compile_source(SOURCE.read_text(), SOURCE.name, entry, TYPES[dtype], arch).code
