"""Cases that together have all that a kernel takes, and each value of a parameter that ships, in few launches."""

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tilewright.core.dtypes import FLOAT8, INT8, ITEM_BYTES, SUMS_OF_INT8
from tilewright.core.hardware import ceil_div, round_up
from tilewright.core.problem import (
    ACTIVATIONS,
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
from tilewright.emulator.check import steps_in_flight
from tilewright.emulator.engine import MULTIPROCESSORS
from tilewright.kernels.config import Config
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.support import VECTOR_BYTES
from tilewright.tools.bench.case import (
    MANY,
    TINY,
    VALUES,
    CheckCase,
    fitting,
    problem_of,
    shared_sizes,
    shares_tiles,
    with_aligned_lines,
)

Combination = Mapping[str, Any]
"""A value of each axis, by the axis's name; of some axes while it is being made."""

_NARROW_BYTES = 2
"""Bytes of an element of results that the copy engine stores."""


def feature_cases(
    kernel: Kernel,
    configs: Sequence[Config],
    scalars: Sequence[Scalars],
    factors: Sequence[str],
    layouts: Sequence[str],
) -> list[CheckCase]:
    """Cases that together have all that a kernel takes, in few launches (`cover`): each value of a parameter that
    some config has, each element type, order, alignment, kind of scales, way of a batch, scalars, bias and activation,
    C in place and separate from D, and elements of `VALUES`. Results that the copy engine stores come with each
    epilogue, and so do those of D^T.
    """
    few = _few(configs)
    stores = sorted({(_has_box(kernel, one), kernel.swap_ab(one)) for one in few})
    axes: dict[str, Sequence[Any]] = {
        "stored": stores,
        "config": few,
        "factors": _factors(factors),
        "result": kernel.support.results[::-1],
        # Finite ones alone where parts represent no others and nothing looks for them.
        "values": ["", *VALUES] if kernel.has_fallback or not kernel.support.multiplies_parts else ["", TINY],
        "lines": _lines(kernel),
        "layout": [layout for layout in layouts if layout in kernel.support.layouts],
        "scaling": _scalings(kernel),
        "batch": _BATCHES if kernel.support.batches and not kernel.support.grouped else _BATCHES[:1],
        "multiprocessors": (MULTIPROCESSORS, MANY) if kernel.has_workspace else (MULTIPROCESSORS,),
        "separate_c": (False, True) if kernel.support.separate_c else (False,),
        "cached": (None, "A", "B") if _copies(kernel, configs) else (None,),
        "scalars": scalars,
        "activation": (None, *ACTIVATIONS) if kernel.support.epilogue else (None,),
        "bias": (None, "row", "column") if kernel.support.epilogue else (None,),
    }
    of_epilogue = ("result", "separate_c", "scalars", "batch", "activation", "bias")
    pairs = [("lines", axis) for axis in ("result", "separate_c", "scalars", "bias")] + [("result", "bias")]
    pairs += [("multiprocessors", "lines")]
    pairs += [("stored", axis) for axis in of_epilogue] if len(stores) > 1 else []
    rows = cover(axes, partial(_fits, kernel, frozenset(axes)), pairs)
    return [
        CheckCase(
            _combined(kernel, row),
            fitting(row["scalars"], row["result"]),
            row["config"],
            row["multiprocessors"],
            cached=row["cached"],
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
    support = kernel.support
    if support.aligned_result:
        return (_WHOLE, _DIVIDED)
    if support.aligned:
        return (_ALIGNED, _WHOLE, _DIVIDED)
    return (_ANYWHERE, _ALIGNED, _WHOLE, _DIVIDED) if support.gaps else (_ANYWHERE, _DIVIDED)


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
    for one, other in (FLOAT8, INT8):
        found += [(one, other), (other, one)] if {one, other} <= set(types) else []
    return found


def _scalings(kernel: Kernel) -> list[Scaling]:
    tensor, line, deep, square = (Scale(kind) for kind in ("tensor", "line", "1x128", "128x128"))
    if not set(kernel.support.factors) & {*FLOAT8, *INT8}:
        return [UNSCALED]
    if kernel.support.block_scales:
        return [Scaling(deep, square), Scaling(square, square), Scaling(deep, tensor), Scaling(tensor, square)]
    return [UNSCALED, Scaling(tensor, tensor), Scaling(line, line), Scaling(line, tensor), Scaling(tensor, line)]


def _copies(kernel: Kernel, configs: Sequence[Config]) -> bool:
    """Whether some config reads copies of A and B, which callers may keep."""
    return not kernel.support.grouped and any(kernel.relayouts(config) is not None for config in configs)


def _has_box(kernel: Kernel, config: Config) -> bool:
    """Whether the copy engine stores results of 16 bits, whose rows are whole pieces of 16 bytes."""
    return bool(kernel.stored_box and kernel.stored_box(config, _NARROW_BYTES))


def _fits(kernel: Kernel, axes: frozenset[str], row: Combination) -> bool:
    """Whether values of some axes can come together."""
    result, (factors, _) = row.get("result"), row.get("factors", (None, None))
    narrow = ITEM_BYTES[result] == _NARROW_BYTES if result else None
    has_box = _has_box(kernel, row["config"]) if "config" in row else None
    whole = row["lines"] in (_WHOLE, _DIVIDED) if "lines" in row else None
    stores = narrow, has_box, whole  # the copy engine stores where all hold; None: not known yet
    by_engine, swapped = row.get("stored", (None, None))
    fits = by_engine is None or (False not in stores if by_engine else not all(stores))
    if swapped is not None and "config" in row:
        fits &= kernel.swap_ab(row["config"]) == swapped
    if result == SUMS_OF_INT8:
        fits &= row.get("activation") is None and row.get("scaling", UNSCALED) == UNSCALED
    if row.get("batch") == _BATCHES[-1]:
        fits &= row.get("separate_c", True)
    if row.get("multiprocessors") == MANY:
        fits &= row.get("batch", _BATCHES[0]) == _BATCHES[0]
        if "config" in row:
            fits &= shares_tiles(kernel, row["config"])
            fits &= row.get("lines") != _WHOLE or shared_sizes(kernel, row["config"])[1] >= VECTOR_BYTES
        fits &= row.get("lines") != _DIVIDED
    if row.get("values"):
        fits &= result not in FLOAT8 and factors not in INT8
        if kernel.support.multiplies_parts:  # the way of float32 takes long
            fits &= row.get("batch", _BATCHES[0]) == _BATCHES[0]
    if row.get("values") == TINY:
        fits &= factors in (None, "float32", "bfloat16") and result in (None, "float32")
        fits &= row.get("bias") is None and row.get("activation") is None
    if not fits:
        return False
    return axes > set(row) or kernel.why_not(_combined(kernel, row)) is None


def _combined(kernel: Kernel, row: Combination) -> Problem:
    """The problem of a combination of features: of a few tiles, with parts of tiles at the ends, and k that fills every
    stage of a pipeline and begins anew. Where blocks go on from tile to tile, each has two, but for products of parts
    of factors, which take several times as long."""
    config, lines, batch, result = row["config"], row["lines"], row["batch"], row["result"]
    factors, of_b = row["factors"]
    tile, steps = kernel.tile(config), steps_in_flight(kernel, config) + 1
    rows = 3 * tile.m if kernel.schedule and batch == _BATCHES[0] and not kernel.support.multiplies_parts else tile.m
    beyond = VECTOR_BYTES if lines == _WHOLE else 5
    columns = tile.n if batch == _BATCHES[0] or kernel.cluster(config) > 1 else 0
    m, n = rows + tile.m // 2 + 3, columns + round_up(ceil_div(tile.n, 2), VECTOR_BYTES) + beyond
    k = max(steps * tile.k + tile.k // 2, SCALED_BLOCK if factors in FLOAT8 else 0) + 5
    if lines == _DIVIDED:
        m, n, k = rows + tile.m, columns or tile.n, round_up(steps, 2) * tile.k
    count = 1 if batch == _BATCHES[0] else 2
    if row["multiprocessors"] == MANY:
        m, n, k = shared_sizes(kernel, config)
        n = n // VECTOR_BYTES * VECTOR_BYTES if lines == _WHOLE else n
    problem = replace(
        problem_of(kernel, (m, n, k), factors, row["layout"], batch=count),
        arithmetic=Arithmetic(factors, result, of_b=of_b),
        epilogue=Epilogue(row["bias"], row["activation"]),
        scaling=row["scaling"],
        d=Layout(),
        c=None,
    )
    if lines != _ANYWHERE:
        problem = with_aligned_lines(problem)
    a, b, c, d = problem.a, problem.b, problem.d, problem.d
    if row["separate_c"]:
        c = d._replace(ld=d.ld + 2 * VECTOR_BYTES + (lines == _ANYWHERE), batch_stride=None)
    a, b, c = (
        one._replace(batch_stride=0) if batch == serves_all else one
        for one, serves_all in zip((a, b, c), _BATCHES[2:], strict=True)
    )
    return replace(problem, a=a, b=b, d=d, c=c if row["separate_c"] else None)


def cover(
    axes: Mapping[str, Sequence[Any]], fits: Callable[[Combination], bool], pairs: Iterable[tuple[str, str]] = ()
) -> list[dict[str, Any]]:
    """Rows that together have every value of every axis, and every pair of values of some pairs of axes.

    A row begins with something that none has yet. Of each other axis, in their order, it then takes the value that
    makes the most new pairs with what it has, and of such the one that fewest rows have: so pairs of all other axes are
    met too, as far as the rows last. The same arguments give the same rows.

    Args:
        axes: values of each, by its name; those that come first decide which values of the others fit.
        fits: whether values may come together; also asked of rows that have values of some axes alone.
        pairs: axes of which all pairs of values that fit are wanted.
    """
    order = {axis: place for place, axis in enumerate(axes)}
    wanted = [{axis: value} for axis, values in axes.items() for value in values]
    for one, other in pairs:
        first, second = sorted((one, other), key=order.__getitem__)
        wanted += [{first: a, second: b} for a in axes[first] for b in axes[second]]
    met: Counter[Any] = Counter()
    rows: list[dict[str, Any]] = []
    for begin in wanted:
        if _key_of(begin) in met or not fits(begin):
            continue
        row = _completed(begin, axes, fits, met, {key for one in wanted if (key := _key_of(one)) not in met})
        if row is not None:
            rows.append(row)
            met.update(_key_of({axis: value}) for axis, value in row.items())
            met.update(map(frozenset, itertools.combinations(row.items(), 2)))
    return rows


def _completed(
    begin: Combination,
    axes: Mapping[str, Sequence[Any]],
    fits: Callable[[Combination], bool],
    met: Counter[Any],
    left: Collection[Any],
) -> dict[str, Any] | None:
    """The row that begins so; None where some axis has no value that fits. left: what no row has yet."""
    row = dict(begin)
    for axis, values in axes.items():
        if axis in row:
            continue

        def new(value: Any, axis: str = axis) -> tuple[int, int, int]:
            single = frozenset(((axis, value),))
            made = [frozenset(((axis, value), (other, had))) for other, had in row.items()]
            wanted = (single in left) + sum(pair in left for pair in made)
            return wanted, sum(pair not in met for pair in made), -met[single]

        possible = [value for value in values if fits({**row, axis: value})]
        if not possible:
            return None
        row[axis] = max(possible, key=new)
    return {axis: row[axis] for axis in axes}


def _key_of(some: Combination) -> frozenset[tuple[str, Any]]:
    return frozenset(some.items())
