"""Rung 17, skinny: products of few rows or few columns, bound by memory, which stage nothing.

Source: the decomposition along k of "Stream-K: Work-centric Parallel Decomposition for Dense Matrix-Matrix
Multiplication on the GPU", Osama et al., 2023, in its simplest form: ranges of equal length (split-K).
"""

from dataclasses import replace
from functools import lru_cache

from tilewright.core.dtypes import FLOAT8, INT8, RESULTS, results_of
from tilewright.core.hardware import WARP
from tilewright.core.problem import Problem
from tilewright.kernels import tiling
from tilewright.kernels.config import Config, listed_configs, named_configs
from tilewright.kernels.cost_family import Fragment, Streaming
from tilewright.kernels.kernel import LIBRARY_ARGUMENTS, Kernel, Parameter, Schedule, Sums, Tile
from tilewright.kernels.orders import EXACT
from tilewright.kernels.support import EVERYTHING

_NAMES = "TM TN THREADS_N THREADS_M GROUPS DEPTH AHEAD MIN_BLOCKS"
_REGISTERS = 65536
_REGISTERS_PER_THREAD = 255
_OTHER_REGISTERS = 16
"""Registers of a thread besides sums and fragments: addresses and counters, as an estimate."""


def _threads_wide(config: Config) -> int:
    """Threads arranged along the sides of the wide factor: columns of B, or rows of A."""
    return config.THREADS_M if config.THREADS_M > 1 else config.THREADS_N


def _group(config: Config) -> int:
    """Threads that go along k together."""
    return max(_threads_wide(config), WARP)


def _threads(config: Config) -> int:
    return config.GROUPS * _group(config)


@lru_cache(maxsize=1024)
def _tile(config: Config) -> Tile:
    depth = _threads(config) // _threads_wide(config) * config.DEPTH
    return Tile(m=config.THREADS_M * config.TM, n=config.THREADS_N * config.TN, k=depth)


def _schedule(problem: Problem, config: Config, multiprocessors: int) -> Schedule:
    """For each tile all blocks that run at a time; where several share one, each with memory for its sums."""
    tiles = KERNEL.tiles(problem, config)
    blocks = tiles * max(multiprocessors * config.MIN_BLOCKS // max(tiles, 1), 1)
    return Schedule(blocks, blocks * _sums(config) * tiling.FLOAT_BYTES if blocks > tiles else 0)


def _sums(config: Config) -> int:
    """Sums that a block stores for others: what its threads keep once the lanes along k have added theirs."""
    count, stride = config.TM * config.TN, WARP // 2
    while stride >= _threads_wide(config):
        count //= 2 if count % 2 == 0 else 1
        stride //= 2
    return count * _group(config)


def _registers(config: Config) -> int:
    """Registers of a thread, at least: its sums, and of each factor the elements that are on their way together."""
    few, wide = (config.TN, config.TM) if config.THREADS_M > 1 else (config.TM, config.TN)
    together = few if _threads_wide(config) == 1 and not config.AHEAD else min(few, 2)
    return few * wide + config.DEPTH * (together + (1 + config.AHEAD) * wide) + _OTHER_REGISTERS


_PRESETS = named_configs(
    _NAMES,
    {
        # Few rows and a row-major B; transposed_rows has registers for guards where A is column-major.
        "row": (1, 4, 8, 1, 16, 16, 0, 1),
        "rows": (16, 4, 32, 1, 12, 4, 1, 1),
        "transposed_rows": (16, 4, 32, 1, 8, 4, 1, 1),
        # Few rows and a column-major B, as the weights of a linear layer.
        "weights_row": (1, 8, 1, 1, 8, 8, 0, 2),
        "weights_rows": (16, 4, 8, 1, 12, 4, 1, 1),
        # Few columns and a row-major A.
        "column": (8, 1, 1, 1, 8, 4, 0, 3),
        "dot": (16, 2, 1, 1, 16, 4, 0, 1),
        # Few columns and a column-major A.
        "transposed_column": (4, 1, 1, 8, 16, 16, 0, 1),
        "transposed_columns": (4, 8, 1, 32, 12, 4, 1, 1),
    },
)

_MORE = listed_configs(
    _NAMES,
    (
        (16, 2, 1, 1, 16, 4, 0, 1),
        (1, 4, 8, 1, 16, 8, 0, 1),
        (4, 4, 1, 1, 8, 8, 0, 1),
        (1, 4, 8, 1, 16, 16, 0, 1),
    ),
)

KERNEL: Kernel = Kernel(
    rung=17,
    name="skinny",
    idea="few rows: nothing staged, many loads in flight, k divided among all threads",
    parameters=(
        Parameter("TM", 16, (1, 2, 4, 8, 16), "rows of D that a thread computes"),
        Parameter("TN", 4, (1, 2, 4, 8, 16), "columns of D that a thread computes"),
        Parameter("THREADS_N", 32, (1, 8, 32), "threads arranged along n; the others are arranged along k"),
        Parameter("THREADS_M", 1, (1, 8, 32), "threads arranged along m, where A is large and column-major"),
        Parameter("GROUPS", 12, (8, 16), "warps of a block, or more threads along m or n, that divide k among them"),
        Parameter("DEPTH", 4, (4, 8, 16), "elements along k that a thread takes in one step"),
        Parameter(
            "AHEAD", 1, (0, 1), "1: the next step's elements of the large factor are loaded a step ahead", least=0
        ),
        Parameter("MIN_BLOCKS", 1, (1, 2, 4), "blocks that a multiprocessor must hold, which bounds the registers"),
    ),
    constraints={
        "THREADS_M and THREADS_N must divide 32 or be multiples of it: a warp's lanes make whole rows": lambda c: all(
            WARP % t == 0 if t < WARP else t % WARP == 0 for t in (c.THREADS_M, c.THREADS_N)
        ),
        "THREADS_M or THREADS_N must be 1: threads are arranged along one of m and n": lambda c: (
            c.THREADS_M == 1 or c.THREADS_N == 1
        ),
        "GROUPS*max(THREADS_M,THREADS_N,32) must be at most 1024, a block's threads": lambda c: _threads(c) <= 1024,
        "DEPTH must be a multiple of 4: k is loaded as float4s": lambda c: c.DEPTH % 4 == 0,
        "AHEAD must be 0 or 1": lambda c: c.AHEAD <= 1,
        "TM*TN+DEPTH*(min(TM,2)+(1+AHEAD)*TN)+16 must be at most 65536/(MIN_BLOCKS*threads) and 255, a thread's "
        "registers; TM for min(TM,2) if THREADS_N is 1 and AHEAD 0; TM and TN swapped if THREADS_M is not "
        "1": lambda c: _registers(c) <= min(_REGISTERS // (c.MIN_BLOCKS * _threads(c)), _REGISTERS_PER_THREAD),
    },
    tile=_tile,
    block=lambda config: (_threads(config), 1, 1),
    cost=Streaming(
        fragment=lambda config: Fragment(config.TM, config.TN),
        tall=lambda config: config.THREADS_M > 1,
        threads_wide=_threads_wide,
        depth=lambda config: config.DEPTH,
        ahead=lambda config: config.AHEAD,
        min_blocks=lambda config: config.MIN_BLOCKS,
    ),
    overlaps=True,
    support=replace(EVERYTHING, factors=RESULTS, least_capability=(7, 5)),
    arguments=(*LIBRARY_ARGUMENTS, "scales"),
    constants=lambda config: {"FACTOR_SCALES": 0},
    schedule=_schedule,
    presets=_PRESETS,
    portfolio=(*_PRESETS.values(), *_MORE),
)

_OF_FLOAT8 = {"TM": 1, "THREADS_N": 1, "GROUPS": 8, "DEPTH": 16, "AHEAD": 0, "MIN_BLOCKS": 2}
"""Other defaults, of 8 bits: 16 elements are one load."""

FP8 = replace(
    KERNEL,
    rung=0,
    name="skinny_fp8",
    parameters=tuple(replace(one, default=_OF_FLOAT8.get(one.name, one.default)) for one in KERNEL.parameters),
    idea="skinny for float8 factors, which threads convert and add up in float32",
    support=replace(KERNEL.support, factors=FLOAT8, results=results_of(FLOAT8[0]), least_capability=(8, 9)),
    constants=lambda config: {"FACTOR_SCALES": 1},
    portfolio=(),
    presets=named_configs(
        _NAMES,
        {
            "row": (1, 4, 8, 1, 16, 16, 0, 1),
            "weights_rows": (4, 2, 1, 1, 8, 16, 0, 2),
            "column": (4, 1, 1, 1, 8, 16, 0, 2),
        },
    ),
)

OF_INT8 = replace(
    FP8,
    name="skinny_int8",
    idea="skinny for 8-bit integers: threads add four products by an instruction, exactly",
    support=replace(FP8.support, factors=INT8, results=results_of(INT8[0]), least_capability=(7, 5)),
    portfolio=tuple(FP8.presets[name] for name in ("weights_rows", "column")),
    sums=lambda config: Sums(EXACT),
)

KERNELS = KERNEL, FP8, OF_INT8
