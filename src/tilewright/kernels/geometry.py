"""Launch geometry: what a block computes, how tiles are divided among blocks, what is launched."""

from typing import NamedTuple

from tilewright.core.hardware import ceil_div


class Tile(NamedTuple):
    """What one block computes (m x n elements of C) and how far along k it goes in one step."""

    m: int
    n: int
    k: int


class Division(NamedTuple):
    """How a launch's tiles are divided among its blocks (stream-K): what the source reads of it."""

    whole: int
    """Tiles with a block of their own."""
    workers: int
    """Blocks that share the tiles left over, each with steps along k of its own."""
    share: int
    """Steps of a worker."""
    longer: int
    """How many workers have one step more."""


UNDIVIDED = Division(0, 0, 0, 0)
"""The division of kernels whose source does not ask for one."""


class Schedule(NamedTuple):
    """How the work of a problem is divided among blocks on a GPU."""

    blocks: int
    """Blocks in the grid."""
    workspace_bytes: int = 0
    """Bytes of memory that these blocks share and no other launch uses. With them comes a counter for each block, which
    is 0 when a launch begins, and must be when it ends. Both addresses are null where there are 0 bytes."""
    division: Division = UNDIVIDED


class Workspace(NamedTuple):
    """Memory that a launch needs besides its operands: bytes for anything, and counters that are 0 before and after."""

    bytes: int
    tickets: int


class Launch(NamedTuple):
    """Launch geometry: blocks in the grid, threads in a block, bytes of dynamic shared memory."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int

    def bundled(self, count: int) -> "Launch":
        """This launch as the hardware takes it, with bundles of this many blocks for its blocks (`bundle.cuh`)."""
        if count == 1:
            return self
        return Launch((ceil_div(self.grid[0], count), 1, 1), (self.block[0], count, 1), count * self.shared_bytes)
