"""The emulator's named barriers: each opens when as many threads have come as these say (PTX manual, "barrier")."""

import numpy as np
import pytest
from emulator_helpers import launch

from tilewright.core.errors import CompileError, LaunchError

THREADS = 128


def run(*statements, header="ptx/named_barrier.cuh"):
    """Cells of the threads after statements, from line 4 on. header: one that they need besides."""
    source = "\n".join(
        [
            f'#include "ptx/named_barrier.cuh"\n#include "{header}"\n#line 2',
            'extern "C" __global__ void kernel(int* cells) {',
            "__shared__ int shared[128]; const int self = threadIdx.x, warp = self / 32;",
            *statements,
            "}",
        ]
    )
    cells = np.zeros(THREADS, np.int32)
    launch(source, cells, block=(THREADS, 1, 1))
    return cells


def test_only_some_warps_meet():
    cells = run("if (warp < 2) { shared[self] = self; sync_named<64>(1); cells[self] = shared[63 - self]; }")
    np.testing.assert_array_equal(cells, [*range(63, -1, -1), *[0] * 64])


def test_warps_meet_at_barriers_of_their_own_again_and_again():
    cells = run(
        "for (int i = 0; i < 5; ++i) {",
        "shared[self] = i * (1 + warp / 2);",
        "sync_named<64>(1 + warp / 2);",
        "cells[self] += shared[self ^ 63];",
        "sync_named<64>(1 + warp / 2);",
        "}",
    )
    np.testing.assert_array_equal(cells, [*[10] * 64, *[20] * 64])


def test_who_arrives_goes_on():
    """Warp 0 has written everything before any other warp has come."""
    cells = run(
        "if (warp == 0) { shared[self] = 7; arrive_named<128>(15); cells[self] = 1; }",
        "else { sync_named<128>(15); cells[self] = shared[self % 32]; }",
    )
    np.testing.assert_array_equal(cells, [*[1] * 32, *[7] * 96])


def test_consumers_take_turns():
    """Each pair of warps adds to the sum when the other has."""
    cells = run(
        "__shared__ int sum; if (self == 0) sum = 1; __syncthreads();",
        "const int pair = warp / 2;",
        "if (pair == 1) arrive_named<128>(1);",
        "for (int i = 0; i < 4; ++i) {",
        "sync_named<128>(1 + pair);",
        "if (self % 64 == 0) sum = sum * 2 + pair;",
        "if (i < 3 || pair == 0) arrive_named<128>(2 - pair);",
        "}",
        "__syncthreads(); cells[self] = sum;",
    )
    np.testing.assert_array_equal(cells, 0b101010101)


def test_an_mbarrier_is_seen_once_the_whole_block_has_met():
    made = ("__shared__ Barrier barrier;", "if (self == 0) barrier_init(&barrier, 128);")
    use = "barrier_arrive(&barrier); barrier_wait(&barrier, 0); cells[self] = 1;"
    np.testing.assert_array_equal(run(*made, "sync_named<128>(1);", use, header="ptx/mbarrier.cuh"), 1)
    with pytest.raises(
        LaunchError, match=r"for a barrier that thread \(0, 0, 0\) made, without a __syncthreads between"
    ):
        run(*made, "if (warp < 2) sync_named<64>(1);", use, header="ptx/mbarrier.cuh")


def test_counts_begin_anew_in_every_block():
    source = """
    #include "ptx/named_barrier.cuh"
    extern "C" __global__ void kernel(int* cells) {
        if (blockIdx.x == 0 && threadIdx.x < 32) return arrive_named<64>(1);
        if (blockIdx.x == 0) return;
        sync_named<64>(1);
        cells[threadIdx.x] = 1;
    }"""
    cells = np.zeros(64, np.int32)
    launch(source, cells, grid=(2, 1, 1), block=(64, 1, 1))
    np.testing.assert_array_equal(cells, 1)


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        (
            "if (warp > 0) sync_named<128>(1);",
            r"96 threads wait at sync_named \(kernel.cu:4\), where 96 of 128 threads have come to barrier 1, "
            r"32 threads have returned",
        ),
        (
            "warp ? sync_named<128>(1) : sync_named<128>(2);",
            r"32 threads wait at sync_named \(kernel.cu:4\), where 32 of 128 threads have come to barrier 2",
        ),
        (
            "warp ? sync_named<96>(1) : sync_named<128>(1);",
            r"calls sync_named \(kernel.cu:4\) for \d+ threads at barrier 1, to which \d+ have come for \d+",
        ),
        ("sync_named<128>(16);", r"calls sync_named \(kernel.cu:4\) with the number 16, which must be 1 to 15"),
        ("arrive_named<128>(-1);", r"calls arrive_named \(kernel.cu:4\) with the number -1, which must be 1 to 15"),
    ],
)
def test_misuse_is_reported(statement, words):
    with pytest.raises(LaunchError, match=words):
        run(statement)


def test_parts_of_warps_are_refused_when_compiled():
    with pytest.raises(CompileError, match="whole warps come to a barrier"):
        run("sync_named<48>(1);")
