"""Rung 30, wgmma_tf32: float32 matrices rounded to TF32, of which threads hand the tensor cores B in registers.

Source: the PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Operation using wgmma.mma_async": of TF32
a matrix in shared memory lies along k.
"""

from dataclasses import replace

from tilewright.core.hardware import ceil_div
from tilewright.core.problem import Problem
from tilewright.kernels import warpgroups
from tilewright.kernels.config import Config
from tilewright.kernels.cost_family import Warpgroups
from tilewright.kernels.kernel import Kernel, Parameter, Schedule, Tile
from tilewright.kernels.ladder import persistent
from tilewright.kernels.support import Support
from tilewright.kernels.tensor_box import TensorBox

_BN = 2 * warpgroups.ROWS  # two consumers with 64 columns of C each
_BK = warpgroups.LINE_BYTES // 4


def _schedule(problem: Problem, config: Config, multiprocessors: int) -> Schedule:
    """A block a multiprocessor, fewer where D has fewer tiles."""
    return Schedule(min(ceil_div(problem.m, config.BM) * ceil_div(problem.n, _BN), multiprocessors))


def _boxes(config: Config, layout: str, sides: tuple[int, int]) -> tuple[TensorBox, TensorBox]:
    """Boxes of one load: a tile of A, or 32 columns of one of B."""
    return TensorBox(config.BM, _BK, warpgroups.LINE_BYTES), TensorBox(_BK, _BK, warpgroups.LINE_BYTES)


def _shared_bytes(config: Config) -> int:
    """Bytes of a block: its stages, each with two barriers."""
    return config.STAGES * (warpgroups.LINE_BYTES * (config.BM + _BN) + 2 * warpgroups.BARRIER_BYTES)


KERNEL: Kernel = replace(
    persistent.KERNEL,
    rung=30,
    name="wgmma_tf32",
    idea="wgmma in TF32: B from registers, since tensor cores read 32-bit elements along k alone",
    parameters=(
        Parameter("BM", 256, (64, 128, 192, 256), "rows of C that a block computes, of 128 columns"),
        Parameter("STAGES", 4, (2, 3, 4, 5, 6), "tiles of A and of B in shared memory or in flight"),
    ),
    constraints={
        "BM must be a multiple of 8 up to 256, the columns of one instruction": lambda c: c.BM % 8 == 0 and c.BM <= 256,
        **warpgroups.TWO_STAGES,
        **warpgroups.shared_memory_fits(_shared_bytes),
    },
    tile=lambda config: Tile(m=config.BM, n=_BN, k=_BK),
    cost=Warpgroups(persistent=True, run=lambda config: 4, in_registers=True),
    support=Support(precision="tf32", least_capability=(9, 0), architectures=("sm_90a",)),
    shared_bytes=lambda config, layout: _shared_bytes(config),
    tensor_maps=_boxes,
    schedule=_schedule,
)
