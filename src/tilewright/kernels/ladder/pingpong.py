"""Rung 24, pingpong: consumers with tiles of their own take turns, and the copy engine stores what one has computed.

Source: "CUTLASS: Efficient GEMM in CUDA", NVIDIA, for the name and the turns; NVIDIA's PTX ISA manual,
"cp.async.bulk.tensor", for stores.
"""

from dataclasses import replace
from pathlib import Path

from tilewright.kernels import warpgroups
from tilewright.kernels.ladder import clusters
from tilewright.kernels.spec import TMA_STORE_RUNG_ARGUMENTS, Config, Constraint, Kernel, Parameter, TensorBox

_CONSUMERS = 2
_SUMS = 192
"""That a thread's 232 registers have room for."""
_STORED_ROWS = 16
"""That a warp has sums of, and stores at a time."""


def _shared_bytes(config: Config) -> int:
    """Of a block: its stages, each with two barriers; for each consumer 64 columns of results, and a barrier."""
    stages = config.STAGES * (warpgroups.tiles_bytes(config) + 2 * warpgroups.BARRIER_BYTES)
    results = warpgroups.ITEM_BYTES * config.BM * warpgroups.LINE
    return stages + _CONSUMERS * (results + warpgroups.BARRIER_BYTES)


def _stored_box(config: Config) -> TensorBox:
    """What one store moves: 64 columns of a warp's rows."""
    return TensorBox(_STORED_ROWS, warpgroups.LINE, warpgroups.LINE * warpgroups.ITEM_BYTES)


KERNEL: Kernel = replace(
    clusters.KERNEL,
    rung=24,
    name="pingpong",
    idea="consumers take turns: one stores its tile, by the copy engine, while the other multiplies",
    source=Path(__file__).with_suffix(".cu"),
    parameters=(
        Parameter("BM", 128, (64, 128, 192), "rows of C that a consumer computes"),
        Parameter("BN", 128, (64, 128, 192, 256), "its columns"),
        Parameter("STAGES", 6, (3, 4, 5, 6), "tiles of A and of B in shared memory or on their way"),
        clusters.KERNEL.parameters[-1],
        Parameter("BAND", 8, (1, 4, 8, 16), "rows of clusters' tiles whose columns are computed one after the other"),
    ),
    constraints=(
        *warpgroups.WHOLE_INSTRUCTIONS,
        Constraint(lambda c: c.BM <= 256, "BM must be at most 256, the rows of a tensor box"),
        Constraint(
            lambda c: c.BM * c.BN <= _SUMS * warpgroups.THREADS, "BM*BN must be at most 24576: a thread has 192 sums"
        ),
        Constraint(lambda c: c.STAGES >= 2, "STAGES must be at least 2: one is loaded while another is multiplied"),
        clusters.KERNEL.constraints[-1],
        warpgroups.shared_memory_fits(_shared_bytes, "STAGES tiles of A and of B, results and barriers"),
    ),
    shared_bytes=lambda config, layout: _shared_bytes(config),
    stored_box=_stored_box,
    arguments=TMA_STORE_RUNG_ARGUMENTS,
    cost=replace(
        warpgroups.PERSISTENT,
        cluster=lambda config: config.CLUSTER,
        band=lambda config: config.BAND,
        alternates=lambda config: True,
        run=lambda config: warpgroups.LINE,
    ),
)
