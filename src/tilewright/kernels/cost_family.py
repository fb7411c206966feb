"""Cost-model families: what a kernel declares of itself so that its time can be predicted
(`tools/explain/cost/models`).

A family says how tiles of A and B reach the threads. Functions of a config say what its formulas need besides the
kernel's tile, threads and shared memory.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from tilewright.kernels.config import Config

Count = Callable[["Config"], int]


class Fragment(NamedTuple):
    """Results of one thread: rows x cols elements of D, in pieces of neighbours.

    lanes_n: lanes of a warp that are arranged along n, a piece apart; the others are arranged along m.
    pieces_m, pieces_n: pieces that the rows and the columns are cut into.
    """

    rows: float
    cols: float
    lanes_n: int = 32
    pieces_m: int = 1
    pieces_n: int = 1


@dataclass(frozen=True, kw_only=True)
class _Family:
    """Fields of all families.

    min_blocks: blocks that a multiprocessor must have registers for.
    workers: blocks a multiprocessor that share the tiles left over (stream-K); 0: each block has a tile of its own.
    """

    min_blocks: Count = lambda config: 1
    workers: Count = lambda config: 0


@dataclass(frozen=True, kw_only=True)
class Staging(_Family):
    """Tiles pass through registers into shared memory, or nothing is staged at all.

    fragment: of a thread; None where it is as square as may be: one element, or a piece of a tensor core's fragment.
    tensor_cores: whether products are made there.
    copies: whether threads ask for copies into shared memory instead (`cp.async`), of a user's source.
    """

    fragment: Callable[["Config"], Fragment] | None = None
    tensor_cores: bool = False
    copies: bool = False


@dataclass(frozen=True, kw_only=True)
class Copying(_Family):
    """Tiles are copied into shared memory while others are multiplied.

    copies: by 'cp.async', or by tensor maps.
    fragment: as in `Staging`.
    transposes: whether an operand that is contiguous along k is transposed on its way: by copies of 4 bytes, or
        behind a tensor map from one buffer to another. Without it, 16-byte pieces are copied as they lie.
    stages: tiles of each operand in shared memory or in flight.
    k_slices: parts of a block's threads, which divide the k of each tile among them.
    """

    copies: Literal["cp.async", "tensor maps"]
    fragment: Callable[["Config"], Fragment]
    transposes: bool = False
    stages: Count = lambda config: 2
    k_slices: Count = lambda config: 1


@dataclass(frozen=True, kw_only=True)
class Streaming(_Family):
    """Nothing is staged: elements go from memory to the registers of the threads that multiply them.

    fragment: as in `Staging`.
    tall: whether A is the large factor, and not B.
    threads_wide: threads arranged along the large factor's side of D; the others divide k among them.
    depth: elements along k that a thread loads in one step.
    ahead: steps that the large operand's elements are loaded ahead of their use.
    """

    fragment: Callable[["Config"], Fragment]
    tall: Callable[["Config"], bool]
    threads_wide: Count
    depth: Count
    ahead: Count = lambda config: 0


@dataclass(frozen=True, kw_only=True)
class Warpgroups(_Family):
    """Warpgroups multiply tiles in shared memory by Hopper's tensor cores (wgmma).

    copies: through registers, all threads together, or by tensor maps ahead of the products.
    stages: tiles of each operand in shared memory or in flight.
    persistent: whether one block a multiprocessor computes tile after tile, and its loads go on while it stores one.
    cluster: blocks, one above the other in D, each of which loads a part of their tile of B for all of them.
    across: the same of their tile of A, side by side.
    group_m: rows of tiles, or of clusters' tiles, that are computed column by column; 1: tiles are computed row by row.
    alternates: whether each of two multiplying warpgroups has tiles of its own, so that one stores while the other
        multiplies.
    splits: blocks of a cluster that divide the k of a tile among them and then exchange their sums. Where there are
        several, a cluster computes one tile.
    run: neighbours in a row of D that one store instruction of a warp writes, where rows are aligned.
    realigns: whether it writes as many where 16-bit rows are not aligned, but for the ends of a tile's rows.
    in_registers: whether threads hand the tensor cores A in registers.
    """

    copies: Literal["registers", "tensor maps"] = "tensor maps"
    stages: Count = lambda config: config.STAGES
    persistent: bool = False
    cluster: Count = lambda config: 1
    across: Count = lambda config: 1
    group_m: Count = lambda config: 1
    alternates: Callable[["Config"], bool] = lambda config: False
    splits: Count = lambda config: 1
    run: Count = lambda config: 8
    realigns: bool = False
    in_registers: bool = False


@dataclass(frozen=True, kw_only=True)
class SmallM(Warpgroups):
    """Warpgroups multiply parts of float32 factors: of the large one, B, they split what they read of shared memory in
    registers, while others split the other, of few rows.

    parts: of each element.
    consumers: warpgroups that multiply.
    slices: of these, those that have the same columns of B, and multiply steps in turns.
    """

    parts: int
    consumers: Count
    slices: Count


@dataclass(frozen=True, kw_only=True)
class Warps(_Family):
    """Warps multiply tiles in shared memory by tensor cores (mma.sync), while asynchronous copies load the next ones.

    part: rows and columns of D that a warp computes.
    stages: tiles of each operand in shared memory or in flight.
    group_m: rows of tiles that are computed column by column.
    anew: whether sums of tensor cores begin anew, so that threads have sums of their own besides.
    """

    part: Callable[["Config"], tuple[int, int]]
    anew: bool = False
    stages: Count = lambda config: config.STAGES
    group_m: Count = lambda config: config.GROUP_M


CostFamily = Staging | Copying | Streaming | Warpgroups | Warps

PLAIN = Staging()
"""The family of kernels that declare none."""
