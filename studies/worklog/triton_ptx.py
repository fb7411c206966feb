"""Counts and lines of the PTX that Triton's compiler made of a product (`triton_product.py`)."""

import re
from functools import cache

from studies.results import path
from tilewright.tools.bench.records import RunFile


class TritonProduct(RunFile):
    """The PTX of a product that Triton compiled."""

    shared_bytes: int
    """Shared memory of a block."""
    tiles: dict[str, int]
    options: dict[str, int]
    ptx: list[str]
    """Lines."""


@cache
def product() -> TritonProduct:
    """The record.

    Raises:
        RecordsError: there is none.
    """
    return TritonProduct.load(path("triton"))


def instructions(name: str, where: str = "") -> list[str]:
    """Instructions whose names begin so, of the whole kernel or, where 'loop', of its main loop.

    Raises:
        LookupError: there are none, or the kernel has no loop.
    """
    text = "\n".join(product().ptx)
    if where:
        branch = re.search(r"^(\$L__BB\w+):(?:(?!^\1:).)*?\bbra[.\w]*\s+\1;", text, re.DOTALL | re.MULTILINE)
        if where != "loop" or not branch:
            raise LookupError(f"the PTX has no {where!r}")
        text = branch[0]
    if found := re.findall(rf"^\s*((?:@!?%p\d+\s+)?{re.escape(name)}\b[^;]*;)", text, re.MULTILINE):
        return found
    raise LookupError(f"the PTX has no {name!r}")


def count(name: str, where: str = "") -> str:
    """How many there are: see `instructions`."""
    return str(len(instructions(name, where)))


def line(name: str, where: str = "") -> str:
    """The first of `instructions` as a Markdown block, long lists of registers shortened."""
    shown = re.sub(r"\{(%\w+),[^}]*,\s*(%\w+)\}", r"{\1, ..., \2}", instructions(name, where)[0])
    return f"```text\n{' '.join(shown.split())}\n```"


def value(name: str) -> str:
    """The version of Triton, the bytes of shared memory, or a tile or an option by name.

    Raises:
        LookupError: there is no such value.
    """
    one = product()
    values = {"version": one.environment["triton"], "shared_bytes": f"{one.shared_bytes:,}", **one.tiles, **one.options}
    return str(values[name])
