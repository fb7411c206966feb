"""Markdown that the pages are made of."""

from collections.abc import Iterable, Sequence


def table(heads: Sequence[str], rows: Iterable[Sequence[object]], align: str) -> str:
    """A Markdown table; align holds l or r for each column."""
    rule = ["---:" if side == "r" else "---" for side in align]
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in (heads, rule, *rows))
