"""What a check runs where nobody says: problems, values and configs, in stages."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from tilewright.bench.covering import Row, cover
from tilewright.bench.vast import vast_problems, with_far_lines
from tilewright.engines.emulator.check import is_vast, steps_in_flight, telling_shapes
from tilewright.engines.emulator.engine import MULTIPROCESSORS
from tilewright.engines.emulator.zero_pages import has_room
from tilewright.errors import ConfigError
from tilewright.kernels.families import Warpgroups
from tilewright.kernels.spec import Config, Kernel, valid_configs
from tilewright.kernels.takes import VECTOR_BYTES
from tilewright.problem import (
    ACTIVATIONS,
    FLOAT8,
    ITEM_BYTES,
    SCALED_BLOCK,
    UNSCALED,
    Arithmetic,
    Epilogue,
    Layout,
    Problem,
    Scalars,
    Scale,
    Scaling,
)
from tilewright.tables.shipped import shipped_configs

_MANY = 12
"""Multiprocessors that share two tiles: more than the emulator has, so that partial sums are added in several steps."""

_LAPS = 9
"""How often each stage of a pipeline is filled: what is one arrival of eight off shows then."""

_FEW, _TILES = 2, 8
"""Multiprocessors, and tiles of each of their blocks, where warpgroups take turns."""

_MATRICES = 3
"""Of a batch."""

_GROUPS = 4
"""Of a grouped product."""

_LINES = 37
"""At least, where they are far apart."""

_NARROW_BYTES = 2
"""Of results that kernels store in other ways than float32."""

NAN, INFINITY, TINY = "NaN", "infinity", "tiny"
VALUES = {
    NAN: "NaN in A and in C",
    INFINITY: "infinities in A and in B",
    TINY: "products that float32 holds with fewer bits",
}
"""What elements are besides random numbers, in words."""

INFINITE, _NEAR_OVERFLOW, _FAR_ABOVE = 128, 126, 60
UNFIT = {
    INFINITE: "an infinity in each factor",
    _NEAR_OVERFLOW: "an element near overflow",
    _FAR_ABOVE: "an element far above all others",
}
"""By exponent. Kernels of terms put the first on a list. No term holds the second: they multiply in float32. Next to
the last, scaled terms lose bits of all others, so that they look for small sums and find them."""


class Case(NamedTuple):
    """One run of a check."""

    problem: Problem
    scalars: Scalars
    config: Mapping[str, int]
    multiprocessors: int = MULTIPROCESSORS
    """For how many of them the launch is made."""
    sampled: bool = False
    """Whether some of the blocks run, on matrices that no memory holds (`check_sample`)."""
    unfit: int | None = None
    """The exponent of an element that terms may not hold, one of `UNFIT`."""
    kept: str | None = None
    """The operand, A or B, whose copy is made by a launch of its own."""
    values: str = ""
    """What some elements are, one of `VALUES`; else all are random numbers."""


def in_words(case: Case, kernel: Kernel, config: Config) -> str:
    """A case in words, for messages; its config and what else all cases of a kernel may share only where it differs."""
    problem, usual = case.problem, kernel.takes.arithmetic()
    words = [problem.shape, *([problem.layout] if problem.layout != "NN" else []), f"beta {case.scalars.beta:g}"]
    if problem.dtype != usual.factors or problem.dtype_b != problem.dtype:
        words.append(f"factors of {' and '.join(dict.fromkeys((problem.dtype, problem.dtype_b)))}")
    if problem.result != kernel.takes.arithmetic(problem.dtype).result:
        words.append(f"results of {problem.result}")
    words += filter(None, (str(problem.epilogue).replace("+", " and "),))
    if problem.scaling != kernel.takes.scaled(replace(problem, scaling=UNSCALED)).scaling:
        words.append(str(problem.scaling))
    if problem.batch > 1 and not problem.grouped:
        sides = {"A": problem.a, "B": problem.b, "C": problem.addend}
        words += [f"one {name} for all" for name, layout in sides.items() if not layout.batch_stride]
    if is_vast(problem) and problem.d.ld != problem.n:
        words.append(f"{problem.d.ld} elements from row to row")
    elif problem.d.ld != problem.n:
        words.append("aligned rows")
    if problem.addend != problem.d:
        words.append("C apart from D")
    if case.unfit is not None:
        words.append(UNFIT[case.unfit])
    if case.values:
        words.append(VALUES[case.values])
    if case.kept:
        words.append(f"a copy of {case.kept} that is kept")
    if case.multiprocessors != MULTIPROCESSORS:
        words.append(f"{case.multiprocessors} multiprocessors")
    words += [f"{name}={value}" for name, value in case.config.items() if config[name] != value]
    return ", ".join(words)


def own_cases(
    kernel: Kernel,
    config: Config,
    scalars: Sequence[Scalars],
    dtype: str = "",
    layouts: Sequence[str] = (),
    others: bool = True,
) -> list[Case]:
    """The cases of all stages of a check: see `stages`, whose arguments and errors these are."""
    return list(itertools.chain(*stages(kernel, config, scalars, dtype, layouts, others)))


def stages(
    kernel: Kernel,
    config: Config,
    scalars: Sequence[Scalars],
    dtype: str = "",
    layouts: Sequence[str] = (),
    others: bool = True,
) -> list[list[Case]]:
    """The cases of a kernel that nobody gave any for, each once. What finds most in the least time comes first:

    1. odd sizes, and such that tiles divide (`telling_shapes`), with the last of the scalars;
    2. of a source file rows that are aligned though their width is no multiple of 4, and odd sizes with other configs.
       Of our own kernels a step of one tile, a tile and a half with the other scalars, a deep tile, lines far apart
       (`vast_cases`), where the address space has room for them, a batch, two tiles that all blocks share, where blocks
       share tiles, elements that terms may not hold (`UNFIT`), where it multiplies terms, many tiles, where warpgroups
       take turns at them, and k = 0;
    3. of our own kernels every feature, and every value of a parameter that ships (`feature_cases`).

    Args:
        kernel, config: what is checked.
        scalars: the last of them is that of most cases.
        dtype: of the factors; if empty, those that the kernel takes.
        layouts: orders of A and B; if empty, those that the kernel takes.
        others: whether other configs are to be checked too.

    Raises:
        ConfigError: a source's grid is whole for none of these sizes.
    """
    divided, odd = telling_shapes(kernel, config)
    usual = layouts or ("NN" if "NN" in kernel.takes.layouts else kernel.takes.layouts[0],)
    # With k = 0 it takes any.
    usual = [order for order in usual if kernel.refusal(_problem(kernel, divided, dtype, order)) is None]
    one = scalars[-1:]
    first: list[Case] = []
    second: list[Case] = []

    def add(
        found: list[Case],
        shape: tuple[int, int, int],
        scalars: Sequence[Scalars] = one,
        config: Config = config,
        aligned: bool = False,
        batch: int = 1,
        multiprocessors: int = MULTIPROCESSORS,
        unfit: int | None = None,
    ) -> None:
        for layout in usual:
            problem = _problem(kernel, shape, dtype, layout, aligned, batch)
            if kernel.refusal(problem) is None and _has_grid(kernel, problem, config):
                found.extend(Case(problem, of, config, multiprocessors, unfit=unfit) for of in scalars)

    if kernel.foreign:
        add(first, divided, scalars)
        add(first, odd, scalars)
        if kernel.takes.gaps:
            add(second, odd, aligned=True)
        for other in other_configs(kernel, config) if others else ():
            add(second, telling_shapes(kernel, other)[1], config=other)
        if not first and not second and usual:
            kernel.grid(_problem(kernel, divided, dtype, usual[0]), config, MULTIPROCESSORS)  # says what it wants
        return _distinct([*first, *second])
    add(first, odd)
    add(first, divided)
    if has_room():
        second += vast_cases(kernel, config, one, dtype, usual)
    tile = kernel.tile(config)
    small = tile.m + tile.m // 2 + 3, tile.n // 2 + 5, odd[2]
    add(second, tile, scalars)
    add(second, small, scalars[:-1])
    add(second, (tile.m - tile.m // 8, max(tile.n - 3, 1), _LAPS * steps_in_flight(kernel, config) * tile.k - 3))
    if kernel.takes.batches:
        add(second, (tile.m // 2 + 3, tile.n // 2 + 5, odd[2]), batch=_MATRICES)
    if _shares(kernel, config):
        add(second, _shared(kernel, config), multiprocessors=_MANY)
    if kernel.notices:
        add(second, small, scalars[:1], unfit=INFINITE)
        add(second, small, unfit=_NEAR_OVERFLOW)
        if kernel.constants(config).get("SCALED"):
            add(second, small, unfit=_FAR_ABOVE)
    for m, n, _ in (divided, odd):
        add(second, (m, n, 0))
    configs = [config, *(shipped_configs(kernel) if others else ()), *(other_configs(kernel, config) if others else ())]
    for alternating in itertools.islice(filter(partial(_alternates, kernel), configs), 1):
        shape = _turns(kernel, alternating, _problem(kernel, divided, dtype, "NN"))
        add(second, shape, config=alternating, multiprocessors=_FEW)
    types = [dtype] if dtype else kernel.takes.factors
    return _distinct(first, second, feature_cases(kernel, configs, scalars, types, layouts or kernel.takes.layouts))


def _distinct(*found: list[Case]) -> list[list[Case]]:
    """Stages without the cases that earlier ones have; none that is empty."""
    seen: set[Case] = set()
    stages = []
    for stage in found:
        stages.append([case for case in dict.fromkeys(stage) if case not in seen])
        seen.update(stage)
    return [stage for stage in stages if stage]


def feature_cases(
    kernel: Kernel,
    configs: Sequence[Config],
    scalars: Sequence[Scalars],
    factors: Sequence[str],
    layouts: Sequence[str],
) -> list[Case]:
    """Cases that together have all that a kernel takes, in few launches (`cover`): each value of a parameter that
    some config has, each element type, order, alignment, kind of scales, way of a batch, scalars, bias and activation,
    C in place and apart from D, and elements of `VALUES`. Results that the copy engine stores come with each epilogue.
    """
    axes: dict[str, Sequence[Any]] = {
        "config": _few(configs),
        "factors": _factors(factors),
        "result": kernel.takes.results[::-1],
        "values": _values(kernel),
        "lines": _lines(kernel),
        "layout": [layout for layout in layouts if layout in kernel.takes.layouts],
        "scaling": _scalings(kernel),
        "batch": _BATCHES if kernel.takes.batches and not kernel.takes.grouped else _BATCHES[:1],
        "multiprocessors": (MULTIPROCESSORS, _MANY) if kernel.workspace_bytes else (MULTIPROCESSORS,),
        "apart": (False, True) if kernel.takes.separate_c else (False,),
        "kept": (None, "A", "B") if _copies(kernel, configs) else (None,),
        "scalars": scalars,
        "activation": (None, *ACTIVATIONS) if kernel.takes.epilogue else (None,),
        "bias": (None, "row", "column") if kernel.takes.epilogue else (None,),
    }
    stores = [by_engine for by_engine in (False, True) if any(_has_box(kernel, one) == by_engine for one in configs)]
    axes = {"stored": stores, **axes}
    of_epilogue = ("result", "apart", "scalars", "batch", "activation", "bias")
    pairs = [("lines", axis) for axis in ("result", "apart", "scalars", "bias")] + [("result", "bias")]
    pairs += [("multiprocessors", "lines")]
    pairs += [("stored", axis) for axis in of_epilogue] if len(stores) > 1 else []
    rows = cover(axes, partial(_fits, kernel, frozenset(axes)), pairs)
    return [
        Case(
            _posed(kernel, row),
            row["scalars"],
            row["config"],
            row["multiprocessors"],
            kept=row["kept"],
            values=row["values"],
        )
        for row in rows
    ]


_BATCHES = "one", "each", "one A", "one B", "one C"
"""One product; a batch, of which every matrix is its own, or one serves all."""


_ANYWHERE, _ALIGNED, _WHOLE, _DIVIDED = "anywhere", "aligned", "whole", "divided"
"""Where lines of A, B, C and D begin: anywhere; at multiples of 16 bytes; and those of D are whole pieces of these; and
tiles divide all sizes."""


def _lines(kernel: Kernel) -> Sequence[str]:
    takes = kernel.takes
    if takes.aligned_result:
        return (_WHOLE, _DIVIDED)
    if takes.aligned:
        return (_ALIGNED, _WHOLE, _DIVIDED)
    return (_ANYWHERE, _ALIGNED, _WHOLE, _DIVIDED) if takes.gaps else (_ANYWHERE, _DIVIDED)


def _few(configs: Sequence[Config]) -> list[Config]:
    """Configs that together have each value of each parameter that some of them have; the first is the first given."""
    left = {item for config in configs for item in config.items()}
    found: list[Config] = []
    while left:
        best = max(configs, key=lambda config: len(left & set(config.items()))) if found else configs[0]
        found.append(best)
        left -= set(best.items())
    return found


def _factors(types: Sequence[str]) -> list[tuple[str, str]]:
    """Element types of A and of B."""
    found = [(one, one) for one in types]
    return found + ([(FLOAT8[0], FLOAT8[1]), (FLOAT8[1], FLOAT8[0])] if set(FLOAT8) <= set(types) else [])


def _values(kernel: Kernel) -> list[str]:
    """What elements may be: where terms cannot hold what is not finite, and nothing looks for it, random numbers."""
    return ["", *VALUES] if kernel.notices or not kernel.multiplies_terms else ["", TINY]


def _scalings(kernel: Kernel) -> list[Scaling]:
    tensor, line, deep, square = (Scale(kind) for kind in ("tensor", "line", "1x128", "128x128"))
    if not set(kernel.takes.factors) & set(FLOAT8):
        return [UNSCALED]
    if kernel.takes.block_scales:
        return [Scaling(deep, square), Scaling(square, square), Scaling(deep, tensor), Scaling(tensor, square)]
    return [UNSCALED, Scaling(tensor, tensor), Scaling(line, line), Scaling(line, tensor), Scaling(tensor, line)]


def _copies(kernel: Kernel, configs: Sequence[Config]) -> bool:
    """Whether some config reads copies of A and B, which callers may keep."""
    return not kernel.takes.grouped and any(kernel.relayouts(config) is not None for config in configs)


def _has_box(kernel: Kernel, config: Config) -> bool:
    """Whether the copy engine stores results of 16 bits, whose rows are whole pieces of 16 bytes."""
    return bool(kernel.stored_box and kernel.stored_box(config, _NARROW_BYTES))


def _fits(kernel: Kernel, axes: frozenset[str], row: Row) -> bool:
    """Whether values of some axes can come together."""
    result, (factors, _) = row.get("result"), row.get("factors", (None, None))
    narrow = result is not None and ITEM_BYTES[result] == _NARROW_BYTES
    has_box = "config" in row and _has_box(kernel, row["config"])
    if row.get("stored"):
        fits = (
            (has_box or "config" not in row)
            and (narrow or result is None)
            and row.get("lines", _WHOLE) in (_WHOLE, _DIVIDED)
        )
    else:
        fits = "stored" not in row or not (has_box and narrow and row.get("lines") in (_WHOLE, _DIVIDED))
    if row.get("batch") == _BATCHES[-1]:
        fits &= row.get("apart", True)
    if row.get("multiprocessors") == _MANY:
        fits &= row.get("batch", _BATCHES[0]) == _BATCHES[0]
        if "config" in row:
            fits &= _shares(kernel, row["config"])
            fits &= row.get("lines") != _WHOLE or _shared(kernel, row["config"])[1] >= VECTOR_BYTES
        fits &= row.get("lines") != _DIVIDED
    if row.get("values"):
        fits &= result not in FLOAT8
        if kernel.multiplies_terms:  # the way of float32 takes long
            fits &= row.get("batch", _BATCHES[0]) == _BATCHES[0]
    if row.get("values") == TINY:
        fits &= factors in (None, "float32", "bfloat16") and result in (None, "float32")
        fits &= row.get("bias") is None and row.get("activation") is None
    if not fits:
        return False
    return axes > set(row) or kernel.refusal(_posed(kernel, row)) is None


def _alternates(kernel: Kernel, config: Config) -> bool:
    """Whether two warpgroups of a block take turns at tiles."""
    return isinstance(kernel.cost, Warpgroups) and kernel.cost.alternates(config)


def _turns(kernel: Kernel, config: Config, problem: Problem) -> tuple[int, int, int]:
    """Sizes of which each block has tiles for some turns of both of its warpgroups: what is one arrival of four off
    shows in the third."""
    assert isinstance(kernel.cost, Warpgroups)
    tile, across = kernel.tile(config), kernel.cost.across(config)
    blocks = kernel.grid(replace(problem, m=2**20, a=Layout(problem.a.order), d=Layout(), c=None), config, _FEW)
    return _TILES * blocks // across * tile.m - 3, across * tile.n - 3, 2 * tile.k - 3


def _shares(kernel: Kernel, config: Config) -> bool:
    """Whether so many multiprocessors share two tiles."""
    shared = _problem(kernel, _shared(kernel, config), "", "NN")
    return bool(kernel.workspace_bytes and kernel.workspace_bytes(shared, config, _MANY))


def _shared(kernel: Kernel, config: Config) -> tuple[int, int, int]:
    """Sizes of two tiles, neither of which is whole, with a step for each of many blocks."""
    tile = kernel.tile(config)
    return tile.m + tile.m // 2 + 1, max(tile.n - 3, 1), (_MANY + 1) * tile.k - 5


def _posed(kernel: Kernel, row: Row) -> Problem:
    """The problem of a combination of features: of a few tiles, with parts of tiles at the ends, and k that fills every
    stage of a pipeline and begins anew. Where blocks go on from tile to tile, each has two, but for products of parts
    of factors, which take several times as long."""
    config, lines, batch, result = row["config"], row["lines"], row["batch"], row["result"]
    factors, of_b = row["factors"]
    tile, steps = kernel.tile(config), steps_in_flight(kernel, config) + 1
    rows = 3 * tile.m if kernel.blocks and batch == _BATCHES[0] and not kernel.multiplies_terms else tile.m
    beyond = VECTOR_BYTES if lines == _WHOLE else 5
    columns = tile.n if batch == _BATCHES[0] or kernel.cluster(config) > 1 else 0
    m, n = rows + tile.m // 2 + 3, columns + -(-tile.n // 2 // VECTOR_BYTES) * VECTOR_BYTES + beyond
    k = max(steps * tile.k + tile.k // 2, SCALED_BLOCK if factors in FLOAT8 else 0) + 5
    if lines == _DIVIDED:
        m, n, k = rows + tile.m, columns or tile.n, -(-steps // 2) * 2 * tile.k
    count = 1 if batch == _BATCHES[0] else 2
    if row["multiprocessors"] == _MANY:
        m, n, k = _shared(kernel, config)
        n = n // VECTOR_BYTES * VECTOR_BYTES if lines == _WHOLE else n
    problem = replace(
        _problem(kernel, (m, n, k), factors, row["layout"], batch=count),
        arithmetic=Arithmetic(factors, result, of_b=of_b),
        epilogue=Epilogue(row["bias"], row["activation"]),
        scaling=row["scaling"],
        d=Layout(),
        c=None,
    )
    a, b, c, d = problem.a, problem.b, problem.d, problem.d
    if lines != _ANYWHERE:
        a, b, c = _aligned(a, factors), _aligned(b, of_b), _aligned(d, result)
        d = c
    if row["apart"]:
        c = d._replace(ld=d.ld + 2 * VECTOR_BYTES + (lines == _ANYWHERE), batch_stride=None)
    a, b, c = (
        one._replace(batch_stride=0) if batch == serves_all else one
        for one, serves_all in zip((a, b, c), _BATCHES[2:], strict=True)
    )
    return replace(problem, a=a, b=b, d=d, c=c if row["apart"] else None)


def vast_cases(
    kernel: Kernel, config: Config, scalars: Sequence[Scalars], dtype: str = "", layouts: Sequence[str] = ("NN",)
) -> list[Case]:
    """Matrices that reach past 2^32 elements: small ones whose lines are far apart, one at a time and in a batch, and
    with aligned lines. Where a kernel takes no lines apart, sizes of which some blocks are run.

    Args:
        kernel, config, scalars, dtype, layouts: as `own_cases`.

    Raises:
        ConfigError: no grid of such sizes is one that GPUs take.
    """
    problems: list[tuple[Problem, bool]] = []
    for layout in layouts:
        if not kernel.takes.gaps:
            posed = partial(_problem, kernel, dtype=dtype, layout=layout)
            problems += [(problem, True) for problem in vast_problems(kernel, config, posed)]
            continue
        tile = kernel.tile(config)
        sides = max(tile.m + tile.m // 2 + 3, _LINES), max(tile.n // 2 + 5, _LINES)
        shape = (131, 77, 45) if kernel.foreign else (*sides, max(tile.k + 13, _LINES))
        one = _problem(kernel, shape, dtype, layout)
        if not _has_grid(kernel, one, config):
            one = _problem(kernel, telling_shapes(kernel, config)[0], dtype, layout)
        problems += [(with_far_lines(one, aligned), False) for aligned in (True, False)]
        if kernel.takes.batches:
            problems.append((with_far_lines(_problem(kernel, shape, dtype, layout, batch=2), True), False))
    found = [
        Case(problem, of, config, sampled=sampled)
        for problem, sampled in problems
        if kernel.refusal(problem) is None
        for of in scalars
    ]
    if not found and not kernel.takes.gaps:
        raise ConfigError(f"{kernel.name} has no grid that GPUs take for matrices of more than 2^32 elements")
    return found


def more_cases(kernel: Kernel, config: Config, dtype: str = "") -> list[Case]:
    """Cases beyond a kernel's own, by hand: every preset, smaller and deeper problems, one row or column."""
    scalars = Scalars(1.5 if "alpha" in kernel.scalars else 1.0, 0.5 if "beta" in kernel.scalars else 0.0)
    tile = kernel.tile(config)
    shapes = [(tile.m + 1, tile.n - 1, 9 * tile.k), (tile.m, tile.n, tile.k), (1, 67, 50), (67, 1, 50), (5, 7, 1)]
    named = [(config, shape) for shape in shapes]
    for preset in valid_configs(kernel, kernel.presets.values()):
        named += [(preset, shape) for shape in telling_shapes(kernel, preset)]
    problems = [(config, _problem(kernel, shape, dtype, "NN")) for config, shape in named]
    return [Case(problem, scalars, config) for config, problem in problems if kernel.refusal(problem) is None]


def problem_of(kernel: Kernel, problem: Problem, dtype: str = "") -> Problem:
    """A problem of which sizes and orders are given, as a kernel takes it: its element types, its scales and groups."""
    takes = kernel.takes
    count = _GROUPS if takes.grouped else problem.batch
    return takes.scaled(replace(problem, arithmetic=takes.arithmetic(dtype), batch=count, grouped=takes.grouped))


def other_configs(kernel: Kernel, config: Config) -> list[Config]:
    """Other configs of a kernel: its first preset that differs; one of which every parameter differs as far as the
    constraints allow, with the first such values; and one of the same tile, with the last."""
    compiled = kernel.compiled(config)
    presets = (other for other in valid_configs(kernel, kernel.presets.values()) if kernel.compiled(other) != compiled)
    first = last = config
    for one in kernel.parameters:
        values = [value for value in one.values if one.compiled and value != config[one.name]]
        first = next(valid_configs(kernel, ({**first, one.name: value} for value in values)), first)
        others = valid_configs(kernel, ({**last, one.name: value} for value in reversed(values)))
        last = next((other for other in others if kernel.tile(other) == kernel.tile(config)), last)
    found = [*itertools.islice(presets, 1), first, last]
    return [other for i, other in enumerate(found) if other != config and other not in found[:i]]


def _has_grid(kernel: Kernel, problem: Problem, config: Config) -> bool:
    """Whether a source's grid is whole for a problem, which says that it takes such sizes."""
    try:
        kernel.grid(problem, config, MULTIPROCESSORS)
    except ConfigError:
        return False
    return True


def _problem(
    kernel: Kernel,
    shape: tuple[int, int, int],
    dtype: str,
    layout: str,
    aligned: bool = False,
    batch: int = 1,
) -> Problem:
    takes = kernel.takes
    a, b = (Layout("row" if order == "N" else "column") for order in layout)
    count = _GROUPS if takes.grouped else batch
    problem = Problem(*shape, takes.arithmetic(dtype), count, a=a, b=b, grouped=takes.grouped)
    if aligned:
        a, b = _aligned(problem.a, problem.dtype), _aligned(problem.b, problem.dtype_b)
        problem = replace(problem, a=a, b=b, c=None, d=_aligned(problem.d, problem.result))
    return takes.scaled(problem)


def _aligned(layout: Layout, dtype: str) -> Layout:
    """The same with lines that begin at multiples of 16 bytes."""
    vector = VECTOR_BYTES // ITEM_BYTES[dtype]
    return layout._replace(ld=-(-layout.ld // vector) * vector, batch_stride=None)
