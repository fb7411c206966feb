"""Rung 17, skinny: products of few rows or few columns, bound by memory, which stage nothing.

Source: the decomposition along k of "Stream-K: Work-centric Parallel Decomposition for Dense Matrix-Matrix
Multiplication on the GPU", Osama et al., 2023, in its simplest form: ranges of equal length (split-K).
"""

from pathlib import Path

from tilewright.kernels import tiling
from tilewright.kernels.families import Fragment, Streaming
from tilewright.kernels.spec import RUNG_ARGUMENTS, Config, Constraint, Kernel, Parameter, Tile
from tilewright.problem import Problem

_WARP = 32
_REGISTERS = 65536
_REGISTERS_PER_THREAD = 255
_OTHER_REGISTERS = 16
"""Of a thread, besides sums and fragments: addresses and counters, as an estimate."""


def _group(config: Config) -> int:
    """Threads that walk along k together."""
    return max(config.THREADS_N, _WARP)


def _threads(config: Config) -> int:
    return config.GROUPS * _group(config)


def _tile(config: Config) -> Tile:
    depth = _threads(config) // config.THREADS_N * config.DEPTH
    return Tile(m=config.TM, n=config.THREADS_N * config.TN, k=depth)


def _tiles(problem: Problem, config: Config) -> int:
    tile = _tile(config)
    return -(-problem.m // tile.m) * -(-problem.n // tile.n)


def _blocks(problem: Problem, config: Config, multiprocessors: int) -> int:
    """As many blocks for each tile as run at a time."""
    tiles = _tiles(problem, config)
    return tiles * max(config.MULTIPROCESSORS * config.BLOCKS // max(tiles, 1), 1)


def _workspace_bytes(problem: Problem, config: Config, multiprocessors: int) -> int:
    """The sums of a block for each of those that share tiles."""
    blocks = _blocks(problem, config, multiprocessors)
    return blocks * _part(config) * tiling.FLOAT_BYTES if blocks > _tiles(problem, config) else 0


def _part(config: Config) -> int:
    """Sums that a block leaves for others: what its threads keep after lanes that stand along k exchanged theirs."""
    count, apart = config.TM * config.TN, _WARP // 2
    while apart >= config.THREADS_N:
        count //= 2 if count % 2 == 0 else 1
        apart //= 2
    return count * _group(config)


def _registers(config: Config) -> int:
    """Of a thread, at least: its sums, and of each operand the elements that are on their way together."""
    rows = config.TM if config.THREADS_N == 1 else min(config.TM, 2)
    of_b = (1 + config.AHEAD) * config.TN
    return config.TM * config.TN + config.DEPTH * (rows + of_b) + _OTHER_REGISTERS


KERNEL = Kernel(
    rung=17,
    name="skinny",
    idea="nothing is staged where operands are read once: many loads on their way, k divided among all threads",
    source=Path(__file__).with_suffix(".cu"),
    parameters=(
        Parameter("TM", 16, (1, 2, 4, 8, 16), "rows of C that a block computes, all of them in each thread"),
        Parameter("TN", 4, (1, 2, 4, 8), "columns of C that a thread computes"),
        Parameter("THREADS_N", 32, (1, 8, 32), "threads that stand side by side along n; the others stand along k"),
        Parameter("GROUPS", 12, (8, 16), "warps of a block, or groups of THREADS_N threads, that divide k among them"),
        Parameter("DEPTH", 4, (4, 8, 16), "elements along k that a thread takes in one step"),
        Parameter("AHEAD", 1, (0, 1), "1: the next step's elements of B are loaded a step ahead", least=0),
        Parameter("BLOCKS", 1, (1, 2, 4), "blocks that a multiprocessor shall hold, which bounds the registers"),
        Parameter("MULTIPROCESSORS", 132, (132,), "multiprocessors among which tiles and ranges of k are divided"),
    ),
    constraints=(
        Constraint(
            lambda c: (_WARP % c.THREADS_N if c.THREADS_N < _WARP else c.THREADS_N % _WARP) == 0,
            "THREADS_N must divide 32 or be a multiple of it: a warp's lanes make whole rows",
        ),
        Constraint(lambda c: _threads(c) <= 1024, "GROUPS*max(THREADS_N,32) must be at most 1024, a block's threads"),
        Constraint(lambda c: c.DEPTH % 4 == 0, "DEPTH must be a multiple of 4: A is read as float4s along k"),
        Constraint(
            lambda c: c.AHEAD == 0 or (c.AHEAD == 1 and c.THREADS_N > 1),
            "AHEAD must be 0 or 1, and 0 where THREADS_N is 1: it is A that comes from afar there",
        ),
        Constraint(
            lambda c: _registers(c) <= min(_REGISTERS // (c.BLOCKS * _threads(c)), _REGISTERS_PER_THREAD),
            "TM*TN+DEPTH*(min(TM,2)+(1+AHEAD)*TN)+16, with TM for min(TM,2) where THREADS_N is 1, must be at most "
            "65536/(BLOCKS*threads) and 255, a thread's registers",
        ),
    ),
    tile=_tile,
    cost=Streaming(
        fragment=lambda config: Fragment(config.TM, config.TN),
        threads_n=lambda config: config.THREADS_N,
        depth=lambda config: config.DEPTH,
        ahead=lambda config: config.AHEAD,
        min_blocks=lambda config: config.MIN_BLOCKS,
    ),
    block=lambda config: (_threads(config), 1, 1),
    vectorized=True,
    overlaps=True,
    arguments=(*RUNG_ARGUMENTS, "sums", "tickets"),
    blocks=_blocks,
    workspace_bytes=_workspace_bytes,
    presets={
        "row": {"TM": 1, "TN": 4, "THREADS_N": 8, "GROUPS": 16, "DEPTH": 16, "AHEAD": 0, "BLOCKS": 1},
        "rows": {"TM": 16, "TN": 4, "THREADS_N": 32, "GROUPS": 12, "DEPTH": 4, "AHEAD": 1, "BLOCKS": 1},
        "dot": {"TM": 16, "TN": 2, "THREADS_N": 1, "GROUPS": 16, "DEPTH": 4, "AHEAD": 0, "BLOCKS": 1},
        "column": {"TM": 8, "TN": 1, "THREADS_N": 1, "GROUPS": 8, "DEPTH": 4, "AHEAD": 0, "BLOCKS": 4},
    },
)
