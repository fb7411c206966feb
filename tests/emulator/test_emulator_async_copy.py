"""The emulator's cp.async: data come when their thread waits for them, and not before (PTX manual, "cp.async")."""

import numpy as np
import pytest
from emulator_helpers import launch

from tilewright.core.errors import LaunchError

THREADS = 64
ELEMENTS = THREADS * 4


def source(statements, bytes_each=4):
    """A kernel in which each thread copies its share of `from` to `shared`; `place` is its first element."""
    return f"""
#include "ptx/async_copy.cuh"
extern "C" __global__ void kernel(const float* from, float* to) {{
    __shared__ __align__(16) float shared[2][{ELEMENTS}];
    const int each = {bytes_each} / 4;
    const int place = threadIdx.x * each;
    const int neighbour = (threadIdx.x + 1) % blockDim.x * each;
{statements}
}}
"""


def run(statements, bytes_each=4):
    start = np.arange(1, 4 * ELEMENTS + 1, dtype=np.float32)
    result = np.zeros(ELEMENTS, np.float32)
    launch(source(statements, bytes_each), start, result, block=(THREADS, 1, 1))
    return start, result


@pytest.mark.parametrize("bytes_each", [4, 8, 16])
def test_what_was_waited_for_is_there(bytes_each):
    each = bytes_each // 4
    start, result = run(
        f"""
        copy_async<{bytes_each}>(&shared[0][place], from + place, true);
        commit_copies();
        wait_copies<0>();
        __syncthreads();
        for (int i = 0; i < each; ++i) to[place + i] = shared[0][neighbour + i];
        """,
        bytes_each,
    )
    count = THREADS * each
    np.testing.assert_array_equal(result[:count], np.roll(start[:count], -each))


def test_outside_zeros_are_written_and_nothing_is_read():
    start, result = run("""
        copy_async<4>(&shared[0][place], threadIdx.x < 10 ? from + place : nullptr, threadIdx.x < 10);
        commit_copies();
        wait_copies<0>();
        to[place] = shared[0][place];
    """)
    np.testing.assert_array_equal(result[:10], start[:10])
    np.testing.assert_array_equal(result[10:THREADS], 0)


def test_of_16_bytes_only_the_first_may_be_read():
    start, result = run("""
        if (threadIdx.x >= 5) return;
        copy_async_first(&shared[0][threadIdx.x * 4], threadIdx.x ? from : nullptr, threadIdx.x * 4);
        commit_copies();
        to[80 + threadIdx.x] = shared[0][threadIdx.x * 4 + 3];
        wait_copies<0>();
        for (int i = 0; i < 4; ++i) to[threadIdx.x * 4 + i] = shared[0][threadIdx.x * 4 + i];
    """)
    for count in range(5):
        expected = np.where(np.arange(4) < count, start[:4], 0)
        np.testing.assert_array_equal(result[count * 4 : count * 4 + 4], expected)
    assert np.isnan(result[80:85]).all()


def test_of_the_groups_the_oldest_come_first():
    start, result = run("""
        for (int i = 0; i < 3; ++i) {
            copy_async<4>(&shared[0][i * 64 + place], from + i * 64 + place, true);
            commit_copies();
        }
        wait_copies<1>();
        for (int i = 0; i < 3; ++i) to[i * 64 + place] = shared[0][i * 64 + place];
        wait_copies<0>();
        to[192 + place] = shared[0][128 + place];
    """)
    np.testing.assert_array_equal(result[:128], start[:128])
    assert np.isnan(result[128:192]).all()
    np.testing.assert_array_equal(result[192:], start[128:192])


def test_a_group_may_be_empty():
    start, result = run("""
        copy_async<4>(&shared[0][place], from + place, true);
        commit_copies();
        commit_copies();
        commit_copies();
        wait_copies<2>();
        to[place] = shared[0][place];
    """)
    np.testing.assert_array_equal(result[:THREADS], start[:THREADS])


COPY = "copy_async<4>(&shared[0][place], from + place, true);"

TOO_EARLY = {
    "no wait": [COPY, "commit_copies();", "__syncthreads();"],
    "a wait for too few groups": [COPY, "commit_copies();", "wait_copies<1>();", "__syncthreads();"],
    "no commit": [COPY, "wait_copies<0>();", "__syncthreads();"],
    "a commit after the wait": [COPY, "wait_copies<0>();", "commit_copies();", "__syncthreads();"],
}


@pytest.mark.parametrize("case", TOO_EARLY)
def test_what_was_not_waited_for_is_not_there(case):
    _, result = run("\n".join([*TOO_EARLY[case], "to[place] = shared[0][place];"]))
    assert np.isnan(result[:THREADS]).all()


def test_a_wait_without_a_barrier_does_not_bring_the_data_of_others():
    _, result = run(COPY + "commit_copies(); wait_copies<0>(); to[place] = shared[0][neighbour];")
    assert np.isnan(result[: THREADS - 1]).all()


def test_a_copy_into_what_others_still_read_destroys_it():
    statements = """
        shared[0][place] = 1;
        __syncthreads();
        {barrier}
        copy_async<4>(&shared[0][place], from + place, true);
        commit_copies();
        wait_copies<0>();
    """
    read = "to[place] = shared[0][THREADS - 1 - place];".replace("THREADS", str(THREADS))
    _, right = run(statements.format(barrier=read + "__syncthreads();"))
    _, wrong = run(statements.format(barrier=read))
    np.testing.assert_array_equal(right[:THREADS], 1)
    assert (wrong[:THREADS] != 1).any()


def test_copies_of_a_block_are_not_those_of_the_next():
    start = np.arange(1, 129, dtype=np.float32)
    result = np.zeros(128, np.float32)
    statements = """
        float mine = shared[1][place];
        copy_async<4>(&shared[1][place], from + blockIdx.x * 64 + place, true);
        commit_copies();
        if (blockIdx.x == 1) wait_copies<1>();
        to[blockIdx.x * 64 + place] = shared[1][place] + mine;
    """
    launch(source(statements), start, result, grid=(2, 1, 1), block=(THREADS, 1, 1))
    assert np.isnan(result).all()


REFUSED = {
    "a place in global memory": (
        "copy_async<16>(&shared[0][place * 4], from + 1, true);",
        r"a place in global memory that must be at a multiple of 16 bytes, got 4 bytes past one",
    ),
    "a place in shared memory": (
        "copy_async<8>(&shared[0][1], from, true);",
        r"a place in shared memory that must be at a multiple of 8 bytes, got 4 bytes past one",
    ),
    "more than 16 bytes": (
        "copy_async_first(&shared[0][0], from, 20);",
        r"read bytes that must be 0 to 16, got 20",
    ),
    "fewer than none": (
        "copy_async_first(&shared[0][0], from, -4);",
        r"read bytes that must be 0 to 16, got -4",
    ),
    "memory that is not shared": (
        "copy_async<4>(to, from, true);",
        r"for 4 bytes that are not all in shared memory",
    ),
    "memory past the end": (
        f"copy_async<16>(&shared[0][{2 * ELEMENTS}], from, true);",
        r"for 16 bytes that are not all in shared memory",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_gpu_faults_on_is_an_error(case):
    statement, message = REFUSED[case]
    with pytest.raises(LaunchError, match=r"thread \(0, 0, 0\) calls copy_async\w* \(kernel.cu:8\) .*" + message):
        run(statement)
