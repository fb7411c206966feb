"""Few combinations of values that together have every value, and most pairs: for what a check runs of a kernel."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
"""A value of each axis, by the axis's name; of some axes while it is being made."""


def cover(
    axes: Mapping[str, Sequence[Any]], fits: Callable[[Row], bool], pairs: Iterable[tuple[str, str]] = ()
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
        if _key(begin) in met or not fits(begin):
            continue
        row = _completed(begin, axes, fits, met, [_key(one) for one in wanted])
        if row is not None:
            rows.append(row)
            met.update((*_singles(row), *_pairs(row)))
    return rows


def _completed(
    begin: Row, axes: Mapping[str, Sequence[Any]], fits: Callable[[Row], bool], met: Counter[Any], wanted: Sequence[Any]
) -> dict[str, Any] | None:
    """The row that begins so; None where some axis has no value that fits."""
    left = {one for one in wanted if one not in met}
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


def _key(some: Row) -> frozenset[tuple[str, Any]]:
    return frozenset(some.items())


def _singles(row: Row) -> list[frozenset[tuple[str, Any]]]:
    return [frozenset((item,)) for item in row.items()]


def _pairs(row: Row) -> list[frozenset[tuple[str, Any]]]:
    items = list(row.items())
    return [frozenset((one, other)) for i, one in enumerate(items) for other in items[:i]]
