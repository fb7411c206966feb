"""The emulator's products of warpgroups: what they are, when they are computed, and what is refused."""

import numpy as np
import pytest
from emulator_helpers import launch

from async_kernels import warpgroup_product
from tilewright.core.errors import LaunchError
from tilewright.emulator.engine import EmulatorEngine

ENGINE = EmulatorEngine()


@pytest.mark.parametrize(
    ("dtype", "across_a", "across_b"),
    [("float16", False, False), ("bfloat16", False, True), ("float16", True, True), ("bfloat16", True, False)],
)
def test_a_product_of_tiles_in_either_order(tmp_path, dtype, across_a, across_b):
    random = np.random.default_rng(7)
    a, b = (random.integers(-8, 9, (64, 64)).astype(dtype) for _ in "ab")
    left, right = a.astype(np.float32), b.astype(np.float32)
    expected = (left.T if across_a else left) @ (right if across_b else right.T)
    np.testing.assert_array_equal(warpgroup_product(ENGINE, tmp_path, a, b, across_a, across_b), expected)


# A is 64 x 16 and B 16 x COLUMNS, of small integers in half; both along k in the first 16 k of lines. Line 15 is the
# first of the statements.

SOURCE = """
#include "ptx/wgmma.cuh"
constexpr int COLUMNS = {columns};
extern "C" __global__ void kernel(const unsigned short* a, const unsigned short* b, float* to) {{
    __shared__ __align__(1024) unsigned char As[64 * 128];
    __shared__ __align__(1024) unsigned char Bs[256 * 128];
    const int self = threadIdx.x;
    float sums[COLUMNS / 2] = {{}};
    for (int i = self; i < 64 * 16; i += 128) *(unsigned short*)(As + swizzled(i / 16, i % 16 / 8) + i % 8 * 2) = a[i];
    for (int i = self; i < COLUMNS * 16; i += 128) {{
        *(unsigned short*)(Bs + swizzled(i / 16, i % 16 / 8) + i % 8 * 2) = b[i];
    }}
    __syncthreads();
    MatrixDescriptor A = matrix_descriptor(As), B = matrix_descriptor(Bs);
{statements}
    const int row = self / 32 * 16 + self % 32 / 4, col = self % 4 * 2;
    for (int i = 0; i < COLUMNS / 2; ++i) to[(row + i / 2 % 2 * 8) * COLUMNS + col + i / 4 * 8 + i % 2] = sums[i];
}}
"""
FENCE = "fence_sums(sums);"
MULTIPLY = "multiply_async<Major::along_k, Major::along_k, __half>(sums, A, B);"
COMMIT = "commit_products();"
WAIT = "wait_products<0>(sums);"
READY = (FENCE, MULTIPLY, COMMIT)
OVERWRITE = "__syncthreads(); if (self < 64) *(unsigned short*)(As + swizzled(self, 0)) = 0; __syncthreads();"

RANDOM = np.random.default_rng(3)
LEFT, RIGHT = (RANDOM.integers(-8, 9, (sides, 16)).astype(np.float16) for sides in (64, 256))


def run(*statements, columns=64, threads=128):
    result = np.zeros((64, columns), np.float32)
    source = SOURCE.format(columns=columns, statements="\n".join(statements))
    launch(source, LEFT.view(np.uint16), RIGHT.view(np.uint16), result, block=(threads, 1, 1))
    return result


def product(columns=64, left=LEFT):
    return left.astype(np.float32) @ RIGHT[:columns].astype(np.float32).T


@pytest.mark.parametrize("columns", [8, 136, 256])
def test_every_width_has_its_place_in_registers(columns):
    np.testing.assert_array_equal(run(*READY, WAIT, columns=columns), product(columns))


def test_products_add_up_unless_asked_otherwise():
    np.testing.assert_array_equal(run(FENCE, MULTIPLY, MULTIPLY, COMMIT, WAIT), 2 * product())
    alone = MULTIPLY.replace("A, B", "A, B, false")
    np.testing.assert_array_equal(run(FENCE, MULTIPLY, alone, COMMIT, WAIT), product())
    np.testing.assert_array_equal(run(*READY, WAIT, MULTIPLY, COMMIT, WAIT), 2 * product())


# When it is computed.


def test_without_the_wait_the_sums_are_poison():
    late = "float early[COLUMNS / 2]; for (int i = 0; i < COLUMNS / 2; ++i) early[i] = sums[i];"
    give = "for (int i = 0; i < COLUMNS / 2; ++i) sums[i] = early[i];"
    assert np.isnan(run(*READY, late, WAIT, give)).all()


def test_a_wait_for_all_but_one_leaves_the_youngest_group():
    second = "float others[COLUMNS / 2] = {}; fence_sums(others);"
    other = MULTIPLY.replace("sums", "others")
    early = "float now[COLUMNS / 2]; for (int i = 0; i < COLUMNS / 2; ++i) now[i] = others[i] + 0 * sums[i];"
    give = "for (int i = 0; i < COLUMNS / 2; ++i) sums[i] = now[i];"
    wait_one = WAIT.replace("0", "1")
    assert np.isnan(run(*READY, second, other, COMMIT, wait_one, early, WAIT, give)).all()
    both = run(*READY, second, other, COMMIT, wait_one, early.replace("others[i] + 0 * ", ""), WAIT, give)
    np.testing.assert_array_equal(both, product())


def test_products_of_no_group_are_not_waited_for():
    with pytest.raises(LaunchError, match=r"nobody has waited for the product of multiply_async \(kernel.cu:16\)"):
        run(FENCE, MULTIPLY, WAIT)


def test_it_is_computed_from_what_shared_memory_holds_at_the_wait():
    changed = LEFT.copy()
    changed[:, 0] = 0
    np.testing.assert_array_equal(run(*READY, OVERWRITE, WAIT), product(left=changed))
    np.testing.assert_array_equal(run(*READY, WAIT, OVERWRITE), product())


def test_a_product_that_nobody_waits_for_is_an_error():
    with pytest.raises(LaunchError, match=r"nobody has waited for the product of multiply_async \(kernel.cu:16\)"):
        run(*READY)


# Descriptors.


@pytest.mark.first(2)
@pytest.mark.parametrize(
    "wrong",
    [
        "B = matrix_descriptor(Bs + 1024);",  # eight lines too far
        "A = A + 16;",  # a piece too far along k
        "A.bits ^= 1ull << 62;",  # no swizzle
        "B.bits ^= 1ull << 63;",  # another swizzle
        "B.bits ^= 3ull << 37;",  # another stride
    ],
)
def test_a_wrong_descriptor_gives_a_wrong_result(wrong):
    result = run(wrong, *READY, WAIT)
    assert not np.array_equal(result, product(), equal_nan=True)


REFUSED = {
    "a place that is not in shared memory": (
        ["A.bits |= 0x3fff;", *READY],
        r"multiply_async \(kernel.cu:17\) with a descriptor of A by which row \d+ has its k \d+ outside of shared mem",
    ),
    "a stride past the end": (
        ["B.bits |= 0x1000ull << 32;", *READY],
        r"multiply_async .* with a descriptor of B by which column \d+ has its k 0 outside of shared memory",
    ),
    "a line too far": (
        ["B = matrix_descriptor(Bs + 128);", *READY],
        r"a descriptor of B whose first line is \d+ bytes past a multiple of 1024, where .* takes alignas\(1024\)",
    ),
    "a base offset": (
        ["B.bits |= 1ull << 49;", *READY],
        r"a descriptor of B whose base offset, bits 49 to 51, is not 0",
    ),
    "descriptors of its own for a thread": (
        ["if (self == 77) A = A + 32;", *READY],
        r"calls multiply_async \(kernel.cu:17\) with descriptors that are not the same in all threads",
    ),
    "no fence": (
        [MULTIPLY],
        r"calls multiply_async \(kernel.cu:15\) without a fence_sums since thread \(0, 0, 0\) has touched the sums",
    ),
    "no fence after a change": (
        [*READY, WAIT, "if (self == 9) sums[3] += 1;", MULTIPLY],
        r"calls multiply_async \(kernel.cu:20\) without a fence_sums since thread \(9, 0, 0\) has touched the sums",
    ),
    "a thread that is missing": (
        ["if (self == 5) return;", FENCE, MULTIPLY],
        r"threads wait for others that never come: 127 threads wait at multiply_async \(kernel.cu:17\), 1 thread has",
    ),
    "threads at two places": (
        [FENCE, f"if (self < 32) {{ {MULTIPLY} }} else", MULTIPLY],
        r"32 threads wait at multiply_async \(kernel.cu:16\), 96 threads wait at multiply_async \(kernel.cu:17\)",
    ),
}


@pytest.mark.first(3)
@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_use_is_named(case):
    statements, message = REFUSED[case]
    with pytest.raises(LaunchError, match=message):
        run(*statements)


def test_a_warpgroup_has_128_threads():
    with pytest.raises(LaunchError, match="takes the 128 threads of a warpgroup, and this one has 96"):
        run(FENCE, MULTIPLY, threads=96)


# A in registers: 64 x 16 of bfloat16, pairs of which are words, or 64 x 8 of floats; and B 16 x 64 or 8 x 64.

IN_REGISTERS = """
#include "ptx/wgmma.cuh"
using Element = {element};
extern "C" __global__ void kernel(const unsigned char* a, const unsigned char* b, float* to) {{
    __shared__ __align__(1024) unsigned char Bs[64 * {line}];
    const int self = threadIdx.x, row = self / 32 * 16 + self % 32 / 4, of_quad = self % 4;
    float sums[32] = {{}};
    unsigned left[4];
    for (int i = 0; i < 4; ++i) left[i] = ((const unsigned*)a)[(row + i % 2 * 8) * 8 + of_quad + i / 2 * 4];
    for (int i = self; i < 64 * 8; i += 128) {{
        *(unsigned*)(Bs + swizzled<{line}>(i / 8, i % 8 / 4) + i % 4 * 4) = ((const unsigned*)b)[i];
    }}
    __syncthreads();
    const MatrixDescriptor B = matrix_descriptor<{line}>(Bs);
{statements}
    for (int i = 0; i < 32; ++i) to[(row + i / 2 % 2 * 8) * 64 + of_quad * 2 + i / 4 * 8 + i % 2] = sums[i];
}}
"""
FENCE_LEFT = "fence_sums(sums, left);"
MULTIPLY_LEFT = "multiply_async<Element>(sums, left, B);"
WAIT_LEFT = "wait_products<0>(sums, left);"
CHANGE = "if (self == 70) left[2] ^= 1;"


def run_left(*statements, line=128, element="__nv_bfloat16"):
    source = IN_REGISTERS.format(statements="\n".join(statements), line=line, element=element)
    result = np.zeros((64, 64), np.float32)
    if element == "float":
        left, right = (np.ascontiguousarray(values[:64, :8], np.float32) for values in (LEFT, RIGHT))
    else:
        left, right = (values.astype("bfloat16").view(np.uint16) for values in (LEFT, RIGHT[:64]))
    launch(source, left, right, result, block=(128, 1, 1))
    return result


@pytest.mark.parametrize(("line", "element"), [(64, "__nv_bfloat16"), (128, "__nv_bfloat16"), (128, "float")])
def test_a_factor_may_be_in_registers(line, element):
    result = run_left(FENCE_LEFT, MULTIPLY_LEFT, COMMIT, WAIT_LEFT, line=line, element=element)
    k = 8 if element == "float" else 16
    np.testing.assert_array_equal(result, LEFT[:, :k].astype(np.float32) @ RIGHT[:64, :k].astype(np.float32).T)


def test_registers_are_read_until_the_wait():
    message = r"multiply_async \(kernel.cu:16\) whose A in registers has been written before the product was waited for"
    with pytest.raises(LaunchError, match=message):
        run_left(FENCE_LEFT, MULTIPLY_LEFT, COMMIT, CHANGE, WAIT_LEFT)
    run_left(FENCE_LEFT, MULTIPLY_LEFT, COMMIT, WAIT_LEFT, CHANGE)


def test_registers_that_were_written_need_a_fence():
    again = (MULTIPLY_LEFT, COMMIT, WAIT_LEFT)
    message = r"without a fence_sums since thread \(70, 0, 0\) has written A's registers"
    with pytest.raises(LaunchError, match=message):
        run_left(FENCE_LEFT, *again, CHANGE, *again)
    run_left(FENCE_LEFT, *again, CHANGE, FENCE_LEFT, *again)
