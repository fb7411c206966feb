"""Rung 15, tma_packed: both operands k-major, brought by the Tensor Memory Accelerator.

Sources: the GotoBLAS papers for packing an operand ("Anatomy of High-Performance Matrix Multiplication", Goto and van
de Geijn, 2008); CUTLASS for visiting a thread's tile in serpentine; the paper named in `stream_k` for sharing tiles.
"""

from pathlib import Path

from tilewright.kernels import tiling
from tilewright.kernels.families import Copying
from tilewright.kernels.library import stream_k
from tilewright.kernels.spec import Config, Constraint, Kernel, Parameter, TensorBox
from tilewright.kernels.takes import Takes


def _shared_bytes(config: Config) -> int:
    """The stages, or in their place a tile of C on its way to unaligned rows."""
    return max(config.STAGES * tiling.shared_tiles_bytes(config), tiling.result_tile_bytes(config))


KERNEL = Kernel(
    rung=15,
    name="tma_packed",
    idea="A packed k-major, tiles brought by TMA: an inner loop of shared loads and multiply-adds alone",
    source=Path(__file__).with_suffix(".cu"),
    parameters=(
        Parameter("BM", 128, (64, 128, 256), "rows of C that a block computes"),
        Parameter("BN", 128, (64, 128, 256), "columns of C that a block computes"),
        Parameter("BK", 32, (16, 32, 48, 52, 56), "how far along k a block's tiles of A and B reach"),
        Parameter("TM", 8, (8, 16), "rows of C that a thread computes"),
        Parameter("TN", 8, (8, 16), "columns of C that a thread computes"),
        Parameter("STAGES", 3, (2, 3, 4, 6), "tiles of A and B that are in shared memory or on their way", least=2),
        stream_k.parameter(264, (0, 132, 264)),
        Parameter(
            "CHUNK", 2048, (0, 1024, 2048), "k after which a block adds its sums to C; 0: only at the end", least=0
        ),
        Parameter("RASTER", 1, (1, 8), "rows of tiles in a band, which blocks take column by column; 1: row by row"),
        Parameter("BLOCKS", 2, (1, 2, 3, 4), "blocks that a multiprocessor shall hold, which bounds the registers"),
    ),
    constraints=(
        *tiling.WARPS_OF_4_BY_8,
        Constraint(
            lambda c: tiling.threads_of_4_by_8(c) <= 1024,
            "32*(BM/(4*TM))*(BN/(8*TN)) must be at most 1024, a block's threads",
        ),
        *tiling.FRAGMENTS_OF_FOURS,
        Constraint(
            lambda c: c.BK % (2 if c.BK <= 32 else 4) == 0,
            "BK must be a multiple of 2, above 32 of 4: the loop, over BK or BK/2 k, takes fragments in turns",
        ),
        Constraint(
            lambda c: max(c.BM, c.BN, c.BK) <= 256, "BM, BN and BK must be at most 256, the extents of a tensor box"
        ),
        tiling.shared_memory_fits(
            lambda c: _shared_bytes(c) + 8 * c.STAGES, "STAGES*BK*(BM+BN) floats, or BM*BN if more,"
        ),
        tiling.registers_fit(tiling.threads_of_4_by_8),
    ),
    tile=tiling.tile,
    cost=Copying(
        copies="tensor maps",
        fragment=tiling.fragment_of_4_by_8,
        transposes=True,
        k_slices=lambda config: config.K_SLICES,
        workers=lambda config: config.WORKERS,
        min_blocks=lambda config: config.MIN_BLOCKS,
    ),
    block=lambda config: (tiling.threads_of_4_by_8(config), 1, 1),
    vectorized=True,
    takes=Takes(layouts=("TN",), least_capability=(9, 0)),
    arguments=("M", "N", "K", "alpha", "A_map", "B_map", "beta", "D_data", "ldd", "sums", "tickets"),
    shared_bytes=_shared_bytes,
    tensor_maps=lambda config: (TensorBox(config.BK, config.BM), TensorBox(config.BK, config.BN)),
    relayouts=("column", "row"),
    overlaps=True,
    blocks=stream_k.blocks,
    workspace_bytes=stream_k.workspace_bytes,
)
