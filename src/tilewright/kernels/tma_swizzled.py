"""Rung 18, tma_swizzled: A brought as it lies in memory and transposed between two places in shared memory.

Sources: the CUDA C++ Programming Guide's swizzled tensor maps; the paper named in `stream_k` for sharing tiles.
"""

from pathlib import Path

from tilewright.kernels import stream_k, tiling
from tilewright.kernels.spec import Config, Constraint, Kernel, Parameter, TensorBox, Tile

_LANES_M, _LANES_N = 4, 8
_SLICE = 32


def _part(config: Config) -> int:
    """Threads of a slice."""
    return 32 * (config.BM // (_LANES_M * config.TM)) * (config.BN // (_LANES_N * config.TN))


def _threads(config: Config) -> int:
    return config.SLICES * _part(config)


def _shared_bytes(config: Config) -> int:
    """Three tiles of A, one of them as it came, and two of B; at the end of a tile, a slice's sums in their place."""
    return tiling.FLOAT_BYTES * config.SLICES * _SLICE * (3 * config.BM + 2 * config.BN)


KERNEL = Kernel(
    rung=18,
    name="tma_swizzled",
    idea="nothing packed: TMA brings A as it lies, swizzled, and the block transposes it while it multiplies",
    source=Path(__file__).with_suffix(".cu"),
    parameters=(
        Parameter("BM", 64, (32, 64, 128), "rows of C that a block computes"),
        Parameter("BN", 128, (64, 128), "columns of C that a block computes"),
        Parameter("TM", 8, (8,), "rows of C that a thread computes"),
        Parameter("TN", 8, (8,), "columns of C that a thread computes"),
        Parameter("SLICES", 2, (1, 2, 4), "parts of a block's threads, each with 32 k of every tile"),
        stream_k.parameter(264, (1, 128, 132, 256, 264)),
        Parameter("BLOCKS", 2, (1, 2), "blocks that a multiprocessor shall hold, which bounds the registers"),
    ),
    constraints=(
        Constraint(
            lambda c: c.BM % (_LANES_M * c.TM) == 0, "BM must be a multiple of 4*TM: 4 lanes of a warp stand along m"
        ),
        Constraint(
            lambda c: c.BN % (_LANES_N * c.TN) == 0, "BN must be a multiple of 8*TN: 8 lanes of a warp stand along n"
        ),
        Constraint(
            lambda c: _threads(c) == 256,
            "SLICES*32*(BM/(4*TM))*(BN/(8*TN)) must be 256 threads: their eight warps transpose the pieces of a row",
        ),
        *tiling.FRAGMENTS_OF_FOURS,
        Constraint(
            lambda c: max(c.BM, c.BN, c.SLICES * _SLICE) <= 256,
            "BM, BN and SLICES*32 must be at most 256, the extents of a tensor box",
        ),
        tiling.shared_memory_fits(lambda c: _shared_bytes(c) + 16, "SLICES*32*(3*BM+2*BN) floats"),
        tiling.registers_fit(_threads),
    ),
    tile=lambda config: Tile(m=config.BM, n=config.BN, k=config.SLICES * _SLICE),
    block=lambda config: (_threads(config), 1, 1),
    vectorized=True,
    least_capability=(9, 0),
    shared_bytes=_shared_bytes,
    tensor_maps=lambda config: (TensorBox(config.BM, _SLICE, 128), TensorBox(config.SLICES * _SLICE, config.BN)),
    packs="aligned",
    overlaps=True,
    blocks=stream_k.blocks,
    workspace_bytes=stream_k.workspace_bytes,
)
