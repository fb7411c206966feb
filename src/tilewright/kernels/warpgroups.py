"""Shared by kernels whose warpgroups multiply (wgmma: rungs 19 on, gemm_sm90): tile, parameters, constraints."""

from collections.abc import Callable

from tilewright.core.gpus import COMPUTE_CAPABILITIES
from tilewright.core.hardware import round_up
from tilewright.kernels.config import Config
from tilewright.kernels.cost_family import Warpgroups
from tilewright.kernels.kernel import Constraints, Parameter, Tile
from tilewright.kernels.support import Support
from tilewright.kernels.tensor_box import TensorBox

BFLOAT16 = Support(factors=("bfloat16",), results=("bfloat16",), least_capability=(9, 0), architectures=("sm_90a",))
"""Support of the rungs for bfloat16."""
SPLIT_FLOAT32 = Support(precision="bf16x6", least_capability=(9, 0), architectures=("sm_90a",))
"""Support of the rungs whose factors are split into parts."""

ITEM_BYTES = 2
THREADS = 128
"""In a warpgroup."""
LINE_BYTES = 128
"""Over which the swizzle exchanges pieces."""
LINE = LINE_BYTES // ITEM_BYTES
"""Elements in them: a tile's k, as BK in the sources."""
ROWS = 64
"""Rows of A in one instruction."""
STORED_BOX = TensorBox(ROWS // 4, LINE, LINE_BYTES)
"""Results of 16 bits that the copy engine stores at a time: 64 columns of a warp's rows."""


def tile(config: Config) -> Tile:
    """The tile of a block, and its step along k."""
    return Tile(m=config.BM, n=config.BN, k=LINE)


def tiles_bytes(config: Config) -> int:
    """A tile of A and one of B."""
    return LINE_BYTES * (config.BM + config.BN)


def tile_parameters(bm: int, bn: int) -> tuple[Parameter, ...]:
    """The sides of a block's tile, with these defaults."""
    return (
        Parameter("BM", bm, (64, 128), "rows of C that a block computes"),
        Parameter("BN", bn, (64, 128, 192, 256), "columns of C that a block computes"),
    )


TWO_STAGES = {"STAGES must be at least 2: one is loaded while another is multiplied": lambda c: c.STAGES >= 2}

WHOLE_COLUMNS: Constraints = {
    "BN must be a multiple of 64: rows of B come in lines of 128 bytes": lambda c: c.BN % LINE == 0,
    "BN must be at most 256, the columns of one instruction": lambda c: c.BN <= 256,
}

WHOLE_INSTRUCTIONS: Constraints = {
    "BM must be a multiple of 64: an instruction multiplies 64 rows of A": lambda c: c.BM % ROWS == 0,
    **WHOLE_COLUMNS,
}

PIPELINED = Warpgroups()
"""How those that load by TMA are predicted."""
PERSISTENT = Warpgroups(persistent=True)
"""... with one block a multiprocessor."""

BARRIER_BYTES = 8


def block_width(side: int, item_bytes: int) -> int:
    """Width in elements of the blocks that make a tile across k of `side` rows or columns: `SwizzledTile::WIDTH`."""
    line = LINE_BYTES // item_bytes
    return line // 2 if side % line == line // 2 else line


def in_blocks(side: int, item_bytes: int) -> int:
    """Rows or columns that are loaded of a tile across k: its last block is loaded whole."""
    return round_up(side, block_width(side, item_bytes))


def boxes(config: Config, layout: str, sides: tuple[int, int]) -> tuple[TensorBox, TensorBox]:
    """Boxes of one load: a tile of A, or 64 columns of one of B."""
    return TensorBox(config.BM, LINE, LINE_BYTES), TensorBox(LINE, LINE, LINE_BYTES)


def shared_memory_fits(
    bytes_of: Callable[[Config], int], parts: str = "STAGES tiles of A and of B, and their barriers,"
) -> Constraints:
    """A block's parts fit; bytes_of counts all of its shared memory."""
    most = COMPUTE_CAPABILITIES[9, 0].shared_per_block
    return {f"{parts} must take at most {most} bytes, a block's shared memory": lambda c: bytes_of(c) <= most}
