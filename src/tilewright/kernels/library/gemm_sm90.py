"""gemm_sm90: products by Hopper's warpgroups, of 16-bit factors in either order, of terms, of TF32, of float8."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TypeVar

from tilewright.core.dtypes import FLOAT8, ITEM_BYTES, RESULTS
from tilewright.core.gpus import clusters
from tilewright.core.hardware import ceil_div, round_up
from tilewright.core.problem import FAST, SCALED_BLOCK, Order, Problem
from tilewright.kernels import warpgroups
from tilewright.kernels.config import Config, listed_configs
from tilewright.kernels.library import splitting
from tilewright.kernels.spec import SCALED_K, Constraints, Kernel, Parameter, Split, Sums, Tile
from tilewright.kernels.takes import EVERYTHING
from tilewright.kernels.tensor_box import BOX_SIDE, TensorBox

_T = TypeVar("_T")

_CONSUMERS = 2
"""By default."""
SUMS = {1: 192, 2: 192, 3: 100}
"""By consumers, those that a thread's registers have room for: NVRTC then spills none, with any epilogue."""
_REPEATS = 8
"""Lines after which the swizzle's pattern begins anew."""
_SOURCE = Path(__file__).with_suffix(".cu")
_INSTRUCTION_BYTES = 32
"""Of a line along k, that one instruction multiplies."""
_ORDERS: dict[str | None, tuple[Order, Order]] = {
    None: ("row", "column"),
    "A": ("column", "column"),
    "B": ("row", "row"),
}
"""In which TF32 and float8 are read, by the factor that lies across k and is multiplied from registers."""
_WIDTHS = (32, 48, 64, 96, 112, 128, 160, 176, 192, 208, 224, 256)


def _in_parts(lines: int, blocks: int) -> int:
    """As many as these lines or more, that blocks load equal parts of, each of whole patterns: `StageTiles::LOADED`."""
    part = blocks * _REPEATS
    return round_up(lines, part)


def _boxes(config: Config, layout: str, sides: tuple[int, int], item_bytes: int) -> tuple[TensorBox, TensorBox]:
    """What one load moves: lines along k of a tile; or of a block of it lines of rows of A, or of columns of B, one for
    each element of a line along k.

    Where blocks load for each other, it is a part of these lines; else lines along k are no more than the factor has,
    in eights, after which the swizzle repeats (`SwizzledTile::bytes`).
    """
    line = warpgroups.LINE_BYTES // item_bytes

    def box(of_tile: int, of_factor: int, along_k: bool, sharing: int) -> TensorBox:
        if not along_k:
            width = warpgroups.block_width(of_tile, item_bytes)
            return TensorBox(line // sharing, width, width * item_bytes)
        if sharing == 1:
            of_tile = min(of_tile, _in_parts(of_factor, 1))
        return TensorBox(_in_parts(of_tile, sharing) // sharing, line, warpgroups.LINE_BYTES)

    m, n = sides
    return box(config.BM, m, layout[0] == "N", config.CLUSTER_N), box(config.BN, n, layout[1] == "T", config.CLUSTER)


def _consumers(config: Config) -> int:
    """Warpgroups that multiply."""
    return config.get("CONSUMERS", _CONSUMERS)


def together(config: Config) -> int:
    """Consumers of a tile."""
    return 1 if config.PINGPONG else _consumers(config)


def _tiles_bytes(config: Config, layout: str, terms: int, item_bytes: int) -> int:
    """Of all stages."""
    rows = config.BM if layout[0] == "N" else warpgroups.in_blocks(config.BM, item_bytes)
    columns = _in_parts(config.BN, config.CLUSTER) if layout[1] == "T" else warpgroups.in_blocks(config.BN, item_bytes)
    return terms * config.STAGES * warpgroups.LINE_BYTES * (rows + columns)


def _stored_box(config: Config, item_bytes: int) -> TensorBox | None:
    """What it stores at a time, of 16-bit results."""
    return warpgroups.STORED_BOX if config.STORED and item_bytes == warpgroups.ITEM_BYTES else None


def _stores_evenly(config: Config) -> bool:
    """Whether results of a consumer's tile, a line of each row at a time, fill the memory for them evenly."""
    columns, parts = config.BN // config.SPLITS, config.BM // (warpgroups.ROWS * together(config))
    lines, rest = divmod(columns, warpgroups.LINE)
    return config.STORED == 0 or (rest == 0 and parts * lines % config.STORED == 0)


def _shared_bytes(config: Config, layout: str, terms: int, item_bytes: int) -> int:
    """Of a block: results that wait; its stages, or what splits factors and what multiplies in float32 in their place;
    for each stage two barriers; for each consumer one; those of the float32 way, and four numbers.
    """
    stages, consumers = _tiles_bytes(config, layout, terms, item_bytes), _consumers(config)
    if terms > 1:
        wide = splitting.float32_warpgroups_bytes(config.BM, config.BN // config.SPLITS)
        not_finite = splitting.non_finite_bytes(config.BM, config.BN // config.SPLITS)
        stages = max(stages, splitting.splitter_bytes(1 + consumers), wide, not_finite)
    barriers = 2 * config.STAGES + consumers + splitting.PART_BARRIERS
    stored = config.get("STORED", 0) * consumers * warpgroups.ROWS * warpgroups.LINE_BYTES
    return stored + stages + barriers * warpgroups.BARRIER_BYTES + 16


def _blocks(exchanged: bool, problem: Problem, config: Config, multiprocessors: int) -> int:
    """One a multiprocessor, whose registers hold no second, in whole clusters; or one for each part of a tile's k."""
    batch, m, n = problem.batch, problem.m, problem.n
    if exchanged:
        m, n = n, m
    if config.SPLITS > 1:
        return batch * ceil_div(m, config.BM) * ceil_div(n, config.BN) * config.SPLITS
    sharing = config.CLUSTER * config.CLUSTER_N
    down, across = ceil_div(m, config.BM * config.CLUSTER), ceil_div(n, config.BN * config.CLUSTER_N)
    return min(batch * down * across, clusters(multiprocessors, sharing)) * sharing


def sums(config: Config, anew: bool, held: bool) -> int:
    """Registers of a thread for its sums, and for those that tensor cores begin anew, if they do, or for A, if held."""
    rows = config.BM // together(config)
    sums = rows * config.BN // warpgroups.THREADS
    if anew:
        return sums + warpgroups.ROWS * config.BN // warpgroups.THREADS
    return sums + (rows * warpgroups.LINE_BYTES // 4 // warpgroups.THREADS if held else 0)


def _made(config: Config, promotes: bool) -> int:
    """How many steps' sums, begun anew, a thread holds: two where registers have room, so that it adds up one while
    tensor cores make the other."""
    begun = warpgroups.ROWS * config.BN // warpgroups.THREADS
    alone = warpgroups.ROWS * together(config) == config.BM  # an instruction has all rows of a consumer
    return 2 if promotes and alone and 3 * begun <= SUMS[_consumers(config)] else 1


def _sum_order(config: Config, split: Split | None, item_bytes: int) -> str | None:
    """One chain of instructions over all of k, for whatever tile. Whether terms hold the factors is decided for all of
    them together, and blocks that share k are as many as there is room for."""
    if split or config.SPLITS > 1 or item_bytes == 1:  # float8 has a kernel for each way of its sums, and of its scales
        return None
    return f"wgmma {_INSTRUCTION_BYTES // item_bytes}"


TILES: Constraints = {
    "BM must be a multiple of 64 rows for each consumer of a tile, at most 256, the rows of a tensor box": lambda c: (
        c.BM % (64 * together(c)) == 0 and c.BM <= BOX_SIDE
    ),
    "BN must be a multiple of 8, at most 256, the columns of one instruction": lambda c: (
        c.BN % _REPEATS == 0 and c.BN <= BOX_SIDE
    ),
    **warpgroups.TWO_STAGES,
    "CLUSTER must be 1, 2, 4 or 8 and CLUSTER_N 1, 2 or 4": lambda c: (
        c.CLUSTER in (1, 2, 4, 8) and c.CLUSTER_N in (1, 2, 4)
    ),
}
"""What tiles, stages and clusters must be, whoever computes them."""


def of_type(
    name: str,
    idea: str,
    *,
    factors: tuple[str, ...] = ("float32",),
    split: Split | None = None,
    fast: bool = True,
    blocks: bool = False,
    bn: int = 256,
    stages: int = 4,
    across_k: str | None = None,
    presets: dict[str, dict[str, int]] | None = None,
    portfolio: Sequence[Mapping[str, int]] = (),
) -> Kernel:
    """A kernel of this source: for 16-bit or float8 factors, or for float32 factors, rounded to TF32 or split so.

    fast: whether tensor cores add up all products of factors that are not split; else threads do, with every step.
        Threads add up products of terms in any case.
    blocks: whether float8 factors have scales of blocks, which promotion multiplies by.
    bn, stages: what BN and STAGES are by default.
    across_k: of TF32 and float8, the factor that lies across k and is multiplied from registers, 'A' or 'B'. With 'B'
        it computes D^T = B^T A^T, and parameters are those of this product.
    presets, portfolio: see `Kernel`.
    """

    def of_d(of_rows: _T, of_columns: _T) -> tuple[_T, _T]:
        """What belongs to rows and columns of the product, as those of D; and the other way round."""
        return (of_columns, of_rows) if exchanged else (of_rows, of_columns)

    held, exchanged = across_k is not None, across_k == "B"
    below, next_to = of_d("CLUSTER", "CLUSTER_N")
    terms = 1 if split is None else split.terms
    results = (*RESULTS, FLOAT8[0]) if factors == FLOAT8 else RESULTS
    item_bytes = ITEM_BYTES[split.dtype if split else factors[0]]
    along_k = item_bytes != warpgroups.ITEM_BYTES  # as wgmma takes TF32 and float8
    in_stages = "TT" if held else "NT" if along_k else None  # the orders of tiles, of 16 bits as memory has them
    line = warpgroups.LINE_BYTES // item_bytes
    anew = split is not None or not fast
    sums_of_float8 = FAST if factors == FLOAT8 and fast else None
    more = " and BN/2 together" if anew else " and BM/4, of A, together" if held else ""
    more_parameters: list[Parameter] = []
    more_constraints: dict[str, Callable[[Config], bool]] = {}
    limits = str(SUMS[_CONSUMERS])
    of_factors = 0 if factors != FLOAT8 else 2 if blocks else 1
    constants = {"TERMS": terms, "SCALED": int(split is not None and split.scaled), "FACTOR_SCALES": of_factors}
    constants |= {"HOLDS_A": int(held), "EXCHANGED": int(exchanged), "PROMOTE": line if anew else 0}
    stores = factors != ("float32",) and not exchanged  # by the copy engine, where a config says so
    if not stores:
        constants["STORED"] = 0
    if split is None:
        more_parameters.append(Parameter("CONSUMERS", _CONSUMERS, (1, 2, 3), "warpgroups that multiply"))
        more_constraints["CONSUMERS must be 2, or with PINGPONG=0 be 1 or 3"] = lambda c: (
            c.CONSUMERS in SUMS and (c.CONSUMERS == 2 or c.PINGPONG == 0)
        )
        limits += f" (with CONSUMERS=3 {SUMS[3]})"
        if stores:
            more_parameters.append(
                Parameter("STORED", 0, (0, 1, 2), "128 bytes of each row of results that wait to be stored", least=0)
            )
            more_constraints[
                "with STORED above 0, BN/SPLITS must be a multiple of 64, and STORED a divisor of BN/SPLITS/64 times "
                "BM/64, over the consumers of a tile"
            ] = _stores_evenly
        if blocks:
            of_scale = f"BN must divide {SCALED_BLOCK}, the columns of a scale of B"
            more_constraints[of_scale] = lambda c: SCALED_BLOCK % c.BN == 0
    else:
        constants["CONSUMERS"] = _CONSUMERS
        if split.scaled:
            of_scale = f"BN must be a multiple of {SCALED_K}: columns of a scale"
            more_constraints[of_scale] = lambda c: c.BN % SCALED_K == 0
    return Kernel(
        name=name,
        idea=idea,
        source=_SOURCE,
        parameters=(
            Parameter("BM", 128, (64, 128, 192, 256), "rows of D that a block computes at a time"),
            Parameter("BN", bn, _WIDTHS, "its columns"),
            Parameter("STAGES", stages, tuple(range(2, 8)), "tiles of A and of B in shared memory or on their way"),
            Parameter("BAND", 16, (1, 2, 4, 8, 16, 32), "rows of tiles whose columns are computed one after the other"),
            Parameter("PINGPONG", 0, (0, 1), "whether each consumer computes tiles of its own", least=0),
            Parameter("CLUSTER", 1, (1, 2), "blocks one below the other that load tiles of B for each other"),
            Parameter("CLUSTER_N", 1, (1, 2), "blocks side by side that load tiles of A for each other"),
            Parameter("SPLITS", 1, (1, 2, 4, 8), "blocks that share the k of a tile"),
            *more_parameters,
        ),
        constraints={
            **TILES,
            f"BM*BN/128 over the consumers of a tile{more} must be at most {limits}, "
            "a thread's registers for sums": lambda c: sums(c, anew, held) <= SUMS.get(_consumers(c), 0),
            "SPLITS must be 1, or with PINGPONG=0, CLUSTER=1 and CLUSTER_N=1 be 2, 4 or 8, "
            "the most of a cluster": lambda c: (
                c.SPLITS == 1 or (c.SPLITS in (2, 4, 8) and c.PINGPONG == 0 and c.CLUSTER * c.CLUSTER_N == 1)
            ),
            "with SPLITS above 1, BM must be 64 rows for each consumer: the sums of one instruction are "
            "exchanged": lambda c: c.SPLITS == 1 or warpgroups.ROWS * together(c) == c.BM,
            "with SPLITS above 1, BN must be a multiple of 8*SPLITS, "
            "and BM*BN float32 sums fit into STAGES tiles": lambda c: (
                c.SPLITS == 1
                or (c.BN % (8 * c.SPLITS) == 0 and _tiles_bytes(c, "NT", terms, item_bytes) >= 4 * c.BM * c.BN)
            ),
            **more_constraints,
            **warpgroups.shared_memory_fits(lambda c: _shared_bytes(c, in_stages or "NN", terms, item_bytes)),
        },
        constants=lambda config: constants | {"MADE": _made(config, promotes=of_factors > 0 and not fast and not held)},
        tile=(lambda c: Tile(c.BN, c.BM, line)) if exchanged else (lambda c: Tile(c.BM, c.BN, line)),
        block=lambda config: ((1 + _consumers(config)) * warpgroups.THREADS, 1, 1),
        cost=replace(
            warpgroups.PERSISTENT,
            band=lambda config: config.BAND,
            cluster=attrgetter(below),
            across=attrgetter(next_to),
            alternates=lambda config: bool(config.PINGPONG),
            splits=lambda config: config.SPLITS,
            run=lambda config: 32,
            realigns=not held,
            held=held,
        ),
        cluster=lambda config: config.CLUSTER * config.CLUSTER_N * config.SPLITS,
        takes=replace(
            EVERYTHING,
            factors=factors,
            results=results,
            block_scales=blocks,
            least_capability=(9, 0),
            architectures=("sm_90a",),
        ),
        precision=name.split("_")[1] if factors == ("float32",) else sums_of_float8,
        arguments=("sizes", "A_map", "B_map", "output", "copy_a", "copy_b", "scales", "tickets", "D_map"),
        stored_box=_stored_box if stores else None,
        shared_bytes=lambda config, layout: _shared_bytes(config, in_stages or layout, terms, item_bytes),
        tensor_maps=lambda config, layout, sides: of_d(*_boxes(config, in_stages or layout, of_d(*sides), item_bytes)),
        relayouts=lambda config: _ORDERS[across_k] if along_k else (None, None),
        split=split,
        sum_order=lambda config: _sum_order(config, split, item_bytes),
        sums=(lambda config: Sums(line, apart=True) if split else Sums(None)) if factors == ("float32",) else None,
        overlaps=True,
        blocks=partial(_blocks, exchanged),
        exchanged=exchanged,
        presets=presets or {},
        portfolio=portfolio,
    )


PORTFOLIO = listed_configs(
    "BM BN STAGES BAND PINGPONG CLUSTER CLUSTER_N SPLITS CONSUMERS",
    (
        (64, 64, 7, 16, 1, 2, 1, 1, 2),
        (64, 64, 14, 4, 0, 1, 1, 8, 1),
        (128, 192, 5, 8, 1, 2, 1, 1, 2),
        (64, 128, 7, 16, 1, 1, 1, 1, 2),
        (64, 32, 8, 4, 0, 1, 1, 1, 1),
        (64, 64, 14, 4, 0, 1, 1, 4, 1),
        (128, 256, 4, 8, 0, 2, 1, 1, 2),
        (64, 192, 7, 4, 0, 1, 1, 4, 1),
        (64, 96, 7, 16, 1, 2, 1, 1, 2),
        (64, 64, 7, 16, 1, 1, 1, 1, 2),
        (64, 128, 9, 4, 0, 1, 1, 4, 1),
        (64, 144, 6, 4, 0, 4, 1, 1, 1),
        (192, 176, 4, 8, 0, 1, 2, 1, 3),
        (64, 64, 14, 4, 0, 1, 1, 1, 1),
        (64, 32, 12, 4, 0, 1, 1, 4, 1),
        (128, 160, 5, 8, 0, 2, 1, 1, 2),
        (128, 192, 5, 16, 0, 1, 1, 4, 2),
        (128, 64, 7, 8, 1, 2, 1, 1, 2),
        (192, 96, 5, 8, 0, 1, 1, 1, 3),
        (128, 64, 9, 4, 0, 1, 1, 4, 2),
        (64, 32, 7, 4, 1, 1, 1, 1, 2),
        (128, 192, 5, 16, 0, 1, 1, 1, 2),
        (64, 16, 14, 4, 0, 1, 1, 1, 1),
    ),
)
"""Configs that together are near the fastest, those first that most problems need."""

OF_OTHER_TYPES = PORTFOLIO[:16]
"""Those of them that kernels for TF32 and float8 have, where they have the registers and memory."""

KERNEL = of_type(
    "gemm_sm90",
    "16-bit factors on Hopper's tensor cores by warpgroups, in every order of A and B",
    factors=("float16", "bfloat16"),
    portfolio=(*PORTFOLIO, {"BAND": 1, "CLUSTER": 2, "BN": 128, "STAGES": 6, "STORED": 2}),
)
