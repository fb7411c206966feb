"""Atomic operations that only work where no other thread comes between them fail when threads take turns."""

import pytest

from left_out import copied
from tilewright.core.problem import Problem
from tilewright.emulator.check import check as check_product
from tilewright.emulator.launches import check_launch
from tilewright.kernels import find
from tilewright.kernels.source.source_launch import read_launch
from tilewright.runtime.nvrtc import INCLUDE
from tilewright.tools.bench.verify import Operands

TURNS = "when threads run in turns at atomic operations and fences"

COUNTS = """// tilewright: grid=4 block=32 count=zeros:int32[1] done=out:int32[1]
__global__ void counts(int* count, int* done) {
    if (threadIdx.x != 0) return;
    COUNT
    __threadfence();
    if (seen + 1 == gridDim.x) *done = 1;
}
"""


@pytest.mark.parametrize(
    ("count", "found"),
    [
        ("const int seen = atomicAdd(count, 1);", False),
        ("const int seen = atomicAdd(count, 0);\n    atomicExch(count, seen + 1);", True),
        (
            "const int seen = *(volatile int*)count;\n    __threadfence();\n    *(volatile int*)count = seen + 1;",
            True,
        ),
    ],
    ids=["counted at once", "read, then exchanged", "read and written behind a fence"],
)
def test_a_count_that_is_lost_between_blocks_is_found(count, found, tmp_path):
    (tmp_path / "counts.cu").write_text(COUNTS.replace("COUNT", count))
    findings = check_launch(read_launch(str(tmp_path / "counts.cu"))).findings
    assert bool(findings) == found
    assert all(one.kind == "order" and TURNS in one.message for one in findings)


def test_sums_that_two_blocks_take_for_another_s_are_found_in_a_product(tmp_path):
    """The last of a tile's blocks adds up what all made: it must be known at once which is the last."""
    kernel, problem = find("skinny"), Problem(1, 40, 3000)
    of, config = Operands.draw(problem), kernel.config()
    assert check_product(kernel, config, problem, of.a, of.b, of.c).findings == []
    planted = copied(kernel, tmp_path)
    text, counter = (INCLUDE / "pipeline/block_sums.cuh").read_text(), "&workspace.counters[tile]"
    counted = f"last = atomicInc({counter}, splits - 1) == splits - 1;"
    assert text.count(counted) == 1
    seen = f"const int seen = atomicAdd({counter}, 0u); atomicExch({counter}, (seen + 1) % splits);"
    (tmp_path / "pipeline/block_sums.cuh").write_text(text.replace(counted, f"{seen} last = seen == splits - 1;"))
    (finding,) = check_product(planted, config, problem, of.a, of.b, of.c).findings
    assert (finding.kind, finding.message) == ("order", "skinny leaves counters other than 0 to the next launch")
