"""Kernels with one fault each, for tests of the checker: sources in planted_faults/; `right` ones have none."""

import re
from pathlib import Path

from tilewright.kernels.kernel import RUNG_ARGUMENTS, TMA_RUNG_ARGUMENTS, Kernel, Schedule, Tile
from tilewright.kernels.support import Support
from tilewright.kernels.tensor_box import TensorBox

PLANTED = Path(__file__).with_name("planted_faults")
TENSOR_MAPS = ("wrong_phase", "right_cluster")
CLUSTERS = ("right_cluster",)
"""Kernels of clusters of two blocks."""
STORING = ("right_store", "store_without_fence", "late_fence", "store_before_the_barrier", "reuse_before_it_is_read")
"""Kernels whose results the copy engine stores."""
SHARING = ("missing_fence", "before_the_counter", "right")
"""Kernels of which four blocks share a tile."""
OVERLAPPING = ("early_access", "one_thread_waits")
"""Kernels that may begin while the launch before them runs."""
THREE_WARPGROUPS = ("take_without_give", "give_of_more")
"""Kernels of blocks of 384 threads, of which the last 128 compute nothing."""
PER_ELEMENT = ("missing_syncwarp", "unordered_sum")
"""Kernels in which a warp computes an element."""


def faulty(name):
    """The kernel of a file: blocks of 256 threads that compute, tiles of 16 x 16."""
    shares = name in SHARING
    blocks_of_tile = 4 if shares else 32 if name in PER_ELEMENT else 1
    return Kernel(
        rung=0,
        name=name,
        idea="",
        source=PLANTED / f"{name}.cu",
        parameters=(),
        tile=lambda config: Tile(16, 16, 16),
        stored_box=(lambda config, item_bytes: TensorBox(8, 16)) if name in STORING else None,
        block=lambda config: (384 if name in THREE_WARPGROUPS else 256, 1, 1),
        support=Support(vectorized=name in STORING, aligned=name in TENSOR_MAPS),
        arguments=_arguments(name),
        schedule=lambda problem, config, multiprocessors: Schedule(
            blocks_of_tile * tiles_of(problem), 4 * 256 * 4 * tiles_of(problem) if shares else 0
        ),
        tensor_maps=(lambda *_: (TensorBox(16, 32), TensorBox(1, 4))) if name in TENSOR_MAPS else None,
        shared_bytes=lambda config, layout: 3088 if name in CLUSTERS else 0,
        cluster=lambda config: 2 if name in CLUSTERS else 1,
        overlaps=name in OVERLAPPING,
    )


def _arguments(name):
    if name in TENSOR_MAPS:
        return TMA_RUNG_ARGUMENTS
    if name in STORING:
        return (*RUNG_ARGUMENTS, "D_map")
    return (*RUNG_ARGUMENTS, "sums", "counters") if name in SHARING else RUNG_ARGUMENTS


def tiles_of(problem):
    return -(-problem.m // 16) * -(-problem.n // 16)


def marks(name):
    """Lines by what is written behind them: `// <- KIND`, and `// <- other` for the access that it conflicts with."""
    lines = (PLANTED / f"{name}.cu").read_text().splitlines()
    return {mark[1]: number for number, line in enumerate(lines, 1) if (mark := re.search(r"// <- (.*)", line))}
