"""Registers that warpgroups of a block give and take on the emulator."""

import numpy as np
import pytest
from emulator_helpers import launch

from tilewright.core.errors import LaunchError

# Line 5 is the first of the statements.
SOURCE = """#include "ptx/register_budget.cuh"
#include "ptx/cluster.cuh"
extern "C" __global__ void kernel(int* to) {{
    const int self = threadIdx.x, group = self / 128;
{statements}
    to[blockIdx.x * blockDim.x + self] = 1;
}}
"""


def run(*statements, threads=384, **options):
    blocks = options.get("cluster", 1)
    result = np.zeros(blocks * threads, np.int32)
    source = SOURCE.format(statements="\n".join(statements))
    launch(source, result, grid=(blocks, 1, 1), block=(threads, 1, 1), **options)
    assert result.all()


ONE_GIVES = "if (group == GIVER) setmaxnreg_dec<40>(); else setmaxnreg_inc<232>();"


@pytest.mark.parametrize("giver", [0, 1, 2])
def test_who_takes_waits_until_others_have_given(giver):
    run(ONE_GIVES.replace("GIVER", str(giver)))


def test_what_was_taken_can_be_given_again():
    run(
        "if (group == 0) setmaxnreg_dec<24>();",
        "if (group == 1) setmaxnreg_inc<256>();",
        "if (group == 2) setmaxnreg_inc<224>();",
        "__syncthreads();",
        "if (group == 0) setmaxnreg_inc<168>();",
        "if (group == 1) setmaxnreg_dec<152>();",
        "if (group == 2) setmaxnreg_dec<128>();",
    )


def test_an_increase_that_fits_does_not_wait_for_an_earlier_one():
    run(
        "if (group == 0) setmaxnreg_inc<256>();",
        "if (group == 1) { setmaxnreg_inc<176>(); setmaxnreg_dec<80>(); }",
        "if (group == 2) setmaxnreg_dec<160>();",
    )


@pytest.mark.first(2)
@pytest.mark.parametrize(
    ("threads", "registers"), [(128, 256), (256, 256), (384, 168), (512, 128), (640, 96), (1024, 64)]
)
def test_a_block_starts_with_equal_shares_of_a_multiprocessor(threads, registers):
    run(f"setmaxnreg_dec<{registers}>(); setmaxnreg_inc<{registers}>();", threads=threads)
    if registers < 256:
        with pytest.raises(LaunchError, match=f"registers a thread, and has only {registers}$"):
            run(f"setmaxnreg_dec<{registers + 8}>();", threads=threads)


REFUSED = {
    "giving more than it has": (
        ["if (group == 1) setmaxnreg_dec<176>();"],
        r"calls setmaxnreg_dec \(kernel.cu:5\) to have 176 registers a thread, and has only 168",
    ),
    "taking fewer than it has": (
        ["if (group == 1) setmaxnreg_inc<160>();"],
        r"calls setmaxnreg_inc \(kernel.cu:5\) to have 160 registers a thread, and has already 168",
    ),
    "taking what nobody gives": (
        ["if (group == 0) setmaxnreg_dec<144>();", "else setmaxnreg_inc<184>();"],
        r"threads wait for others that never come: 128 threads wait at setmaxnreg_inc \(kernel.cu:6\), where their "
        r"warpgroup waits for 184 registers a thread: it has 168, and 8 more are free, 256 threads have returned",
    ),
    "a thread that is missing where it gives": (
        ["if (self == 5) return;", ONE_GIVES.replace("GIVER", "0")],
        r"127 threads wait at setmaxnreg_dec \(kernel.cu:6\), 256 threads wait at setmaxnreg_inc .*, where "
        r"their warpgroup waits for 232 registers a thread: it has 168, and 0 more are free, 1 thread has returned",
    ),
    "a thread that is missing where it takes": (
        ["if (self == 5) return;", ONE_GIVES.replace("GIVER", "2")],
        r"127 threads wait at setmaxnreg_inc \(kernel.cu:6\), 257 threads have returned",
    ),
    "threads at two places": (
        ["if (self < 32) setmaxnreg_dec<40>();", "else if (group == 0) setmaxnreg_dec<40>();"],
        r"32 threads wait at setmaxnreg_dec \(kernel.cu:5\), 96 threads wait at setmaxnreg_dec \(kernel.cu:6\)",
    ),
    "two counts": (
        ["if (self < 32) setmaxnreg_dec<40>(); else if (group == 0) setmaxnreg_dec<48>();"],
        r"calls setmaxnreg_dec \(kernel.cu:5\) with counts that are not the same in all threads of the warpgroup",
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
        run("setmaxnreg_dec<40>();", threads=96)


def test_each_block_of_a_cluster_has_registers_of_its_own():
    give = "if (group == 0) setmaxnreg_dec<40>();"
    take = "else setmaxnreg_inc<232>();"
    run(give, take, "cluster_sync();", cluster=2)
    with pytest.raises(
        LaunchError, match=r"in block \(0, 0, 0\) .* cluster_sync .*; in block \(1, 0, 0\) .* 0 more are free"
    ):
        run(
            give.replace("group == 0", "group == 0 && cluster_rank() == 0"),
            take.replace("else", "else if (group > 0)"),
            "cluster_sync();",
            cluster=2,
        )
