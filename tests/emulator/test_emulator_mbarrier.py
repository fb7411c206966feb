"""The emulator's mbarriers: phases, arrivals and announced bytes, exactly (PTX manual, "mbarrier")."""

import numpy as np
import pytest
from emulator_helpers import launch

from tilewright.core.errors import LaunchError

THREADS = 64


def source(statements):
    """A kernel of statements from line 5 on; `made` makes the barrier and syncs."""
    return "\n".join(
        [
            '#include "ptx/mbarrier.cuh"',
            'extern "C" __global__ void kernel(int* cells) {',
            "__shared__ Barrier barrier; __shared__ int shared[64]; const int self = threadIdx.x;",
            "const auto made = [&](int count) { if (self == 0) { barrier_init(&barrier, count); } __syncthreads(); };",
            *statements,
            "}",
        ]
    )


def run(*statements):
    cells = np.zeros(THREADS, np.int32)
    launch(source(statements), cells, block=(THREADS, 1, 1))
    return cells


def test_a_phase_ends_when_all_have_arrived():
    cells = run(
        "made(64);",
        "shared[self] = self;",
        "barrier_arrive(&barrier);",
        "barrier_wait(&barrier, 0);",
        "cells[self] = shared[63 - self];",
    )
    np.testing.assert_array_equal(cells, np.arange(64)[::-1])


def test_the_parity_alternates_and_counts_begin_anew():
    cells = run(
        "made(64);",
        "for (int i = 0; i < 5; ++i) {",
        "shared[self] = i;",
        "barrier_arrive(&barrier); barrier_wait(&barrier, 0);",
        "cells[self] += shared[63 - self];",
        "barrier_arrive(&barrier); barrier_wait(&barrier, 1);",
        "}",
    )
    np.testing.assert_array_equal(cells, 0 + 1 + 2 + 3 + 4)


def test_a_wait_for_the_phase_before_returns_at_once():
    cells = run("made(1);", "barrier_wait(&barrier, 1);", "cells[self] = 1;")
    np.testing.assert_array_equal(cells, 1)


def test_producer_and_consumers_take_turns():
    cells = run(
        "__shared__ Barrier full, empty;",
        "if (self == 0) { barrier_init(&full, 1); barrier_init(&empty, 32); }",
        "__syncthreads();",
        "if (self < 32) {",
        "for (int i = 0; i < 7; ++i) { barrier_wait(&full, i % 2); cells[self] += shared[0]; barrier_arrive(&empty); }",
        "} else if (self == 32) {",
        "for (int i = 0; i < 7; ++i) { barrier_wait(&empty, (i + 1) % 2); shared[0] = i; barrier_arrive(&full); }",
        "}",
    )
    np.testing.assert_array_equal(cells[:32], 21)


def test_a_producer_that_does_not_wait_for_the_consumers_runs_ahead_of_them():
    # The phases end before the consumers have looked, so that they miss some and wait for ever.
    with pytest.raises(LaunchError, match=r"32 threads wait at barrier_wait \(kernel.cu:8\)"):
        run(
            "__shared__ Barrier full;",
            "if (self == 0) barrier_init(&full, 1);",
            "__syncthreads();",
            "if (self < 32) for (int i = 0; i < 3; ++i) barrier_wait(&full, i % 2);",
            "else if (self == 32) for (int i = 0; i < 2; ++i) barrier_arrive(&full);",
        )


DEADLOCKS = {
    "an arrival is missing": (
        ["made(64);", "if (self != 5) barrier_arrive(&barrier);", "barrier_wait(&barrier, 0);"],
        r"64 threads wait at barrier_wait \(kernel.cu:7\), "
        r"where 1 of 64 arrivals and 0 bytes of its phase 0 are missing",
    ),
    "the wrong parity": (
        ["made(64);", "barrier_arrive(&barrier);", "barrier_wait(&barrier, 1);"],
        r"1 thread waits at barrier_wait \(kernel.cu:7\), "
        r"where 64 of 64 arrivals and 0 bytes of its phase 1 are missing, 63 threads have returned",
    ),
    "bytes that never come": (
        ["made(1);", "if (self == 0) barrier_expect_bytes(&barrier, 128);", "barrier_wait(&barrier, 0);"],
        r"64 threads wait at barrier_wait \(kernel.cu:7\), "
        r"where 0 of 1 arrivals and 128 bytes of its phase 0 are missing",
    ),
    "only the lanes of a warp that return": (
        ["made(32);", "if (self < 31) { barrier_arrive(&barrier); return; }", "barrier_wait(&barrier, 0);"],
        r"33 threads wait at barrier_wait \(kernel.cu:7\), where 1 of 32 arrivals .*, 31 threads have returned",
    ),
}


@pytest.mark.parametrize("case", DEADLOCKS)
def test_waits_that_never_end_are_named(case):
    statements, message = DEADLOCKS[case]
    with pytest.raises(LaunchError, match=r"in block \(0, 0, 0\) threads wait for others that never come: " + message):
        run(*statements)
    assert run("made(64);", "barrier_arrive(&barrier);", "barrier_wait(&barrier, 0);", "cells[self] = 1;").all()


REFUSED = {
    "a barrier that nobody made": (
        ["barrier_wait(&barrier, 0);"],
        r"thread \(0, 0, 0\) calls barrier_wait \(kernel.cu:5\) for a barrier that was never made, or has been overw",
    ),
    "a barrier that was overwritten": (
        ["made(1);", "barrier.state = 0;", "barrier_arrive(&barrier);"],
        r"calls barrier_arrive \(kernel.cu:7\) for a barrier that was never made, or has been overwritten",
    ),
    "a barrier that was copied": (
        ["made(1);", "__shared__ Barrier other; other = barrier; barrier_arrive(&other);"],
        r"calls barrier_arrive \(kernel.cu:6\) for a barrier that was never made",
    ),
    "a barrier made twice": (
        ["made(1);", "if (self == 3) barrier_init(&barrier, 1);"],
        r"thread \(3, 0, 0\) calls barrier_init \(kernel.cu:6\) for a barrier that has been made before",
    ),
    "a barrier outside of shared memory": (
        ["Barrier own; barrier_init(&own, 1);"],
        r"calls barrier_init \(kernel.cu:5\) for 8 bytes that are not all in shared memory",
    ),
    "no __syncthreads after it was made": (
        ["if (self == 0) barrier_init(&barrier, 64);", "barrier_arrive(&barrier);"],
        r"thread \(1, 0, 0\) calls barrier_arrive \(kernel.cu:6\) for a barrier that thread \(0, 0, 0\) made, "
        r"without a __syncthreads between",
    ),
    "only a __syncwarp after it was made": (
        ["if (self == 0) barrier_init(&barrier, 64);", "__syncwarp();", "barrier_arrive(&barrier);"],
        r"thread \(63, 0, 0\) calls barrier_arrive \(kernel.cu:7\) for a barrier that thread \(0, 0, 0\) made",
    ),
    "one arrival too many": (
        ["made(1);", "if (self < 2) barrier_expect_bytes(&barrier, 4);"],
        r"thread \(1, 0, 0\) calls barrier_expect_bytes \(kernel.cu:6\) for a phase in which all 1 arrivals happened",
    ),
    "no arrivals": (
        ["made(0);"],
        r"calls barrier_init \(kernel.cu:4\) with a count that must be 1 to 1048575, got 0",
    ),
    "too many bytes": (
        ["made(2);", "if (self < 2) barrier_expect_bytes(&barrier, 600000);"],
        r"with which 1200000 bytes are to come in a phase, which may have at most 1048575",
    ),
    "a parity that is none": (
        ["made(1);", "barrier_wait(&barrier, 2);"],
        r"calls barrier_wait \(kernel.cu:6\) with a parity that must be 0 or 1, got 2",
    ),
}


@pytest.mark.first(4)
@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_use_is_named(case):
    statements, message = REFUSED[case]
    with pytest.raises(LaunchError, match=message):
        run(*statements)


def test_within_a_warp_a_syncwarp_shows_a_new_barrier():
    cells = run(
        "if (self == 0) barrier_init(&barrier, 32);",
        "__syncwarp();",
        "if (self < 32) { barrier_arrive(&barrier); barrier_wait(&barrier, 0); cells[self] = 1; }",
    )
    assert cells.sum() == 32


def test_every_block_makes_its_own():
    cells = np.zeros(1, np.int32)
    statements = ["made(64);", "barrier_arrive(&barrier);", "barrier_wait(&barrier, 0);", "atomicAdd(cells, 1);"]
    launch(source(statements), cells, grid=(50, 1, 1), block=(THREADS, 1, 1))
    assert cells[0] == 50 * THREADS
