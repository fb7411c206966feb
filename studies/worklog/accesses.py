"""How often kernels access memory for each result, as their sources make the accesses: counted on the emulator."""

from collections.abc import Mapping, Sequence
from fractions import Fraction

from studies.templates import block
from tilewright.core.problem import Problem, Scalars
from tilewright.kernels import find
from tilewright.tools.bench.records import Facts
from tilewright.tools.explain import traffic

_TEMPLATE = "worklog/tables.md.j2"
_SHAPE = "512x256x384"
"""Which the tiles of RUNGS divide."""
RUNGS = ("shared_tiled", "thread_tiled_1d", "thread_tiled_2d")
_TOY_SHAPE = "4x4x7"
TOYS: Mapping[str, tuple[str, Mapping[str, int]]] = {
    "one result": ("naive", {"BLOCK_X": 4, "BLOCK_Y": 4}),
    "four in a column": ("thread_tiled_1d", {"BM": 4, "BN": 4, "BK": 7, "TM": 4, "TN": 1}),
    "four in a 2 x 2 square": ("thread_tiled_2d", {"BM": 4, "BN": 4, "BK": 7, "TM": 2, "TN": 2}),
}
"""Results that a thread computes, by name, and the kernel and config that do so."""


class Accesses(Facts):
    """Accesses by single threads for each element of the result."""

    kernel: str
    shape: str
    global_loads: float
    shared_loads: float
    stores: float


def counted(name: str, shape: str, config: Mapping[str, int], beta: float = 0.0) -> Accesses:
    """Count one kernel's on the emulator.

    Raises:
        EngineUnavailableError: there is no C++ compiler.
    """
    kernel, problem = find(name), Problem.parse(shape)
    groups = traffic.count(kernel, kernel.config(config), problem, scalars=Scalars(beta=beta)).groups
    loads, shared, stores = (
        groups[kind].accesses / (problem.m * problem.n) for kind in ("global_load", "shared_load", "global_store")
    )
    return Accesses(kernel=name, shape=shape, global_loads=loads, shared_loads=shared, stores=stores)


def all_counted() -> list[Accesses]:
    """Everything that pages show.

    Raises:
        EngineUnavailableError: there is no C++ compiler.
    """
    toys = [counted(name, _TOY_SHAPE, config, beta=1.0) for name, config in TOYS.values()]
    return [*(counted(name, _SHAPE, {}) for name in RUNGS), *toys]


def of_rungs(found: Sequence[Accesses]) -> str:
    """A table of RUNGS: accesses a result, in multiples of k."""
    of = {one.kernel: one for one in found if one.shape == _SHAPE}
    rungs = [(find(name), of[name]) for name in RUNGS]
    return block(_TEMPLATE, "accesses", rungs=rungs, k=Problem.parse(_SHAPE).k, of_k=_of_k)


def of_toys(found: Sequence[Accesses]) -> str:
    """A table of TOYS: what a thread loads and stores for each of its results."""
    of = {one.kernel: one for one in found if one.shape == _TOY_SHAPE}
    return block(_TEMPLATE, "toys", toys=[(what, of[name]) for what, (name, _) in TOYS.items()])


def _of_k(accesses: float, k: int) -> str:
    """As in 'K/16', '2K' and '9K/8'."""
    share = Fraction(accesses / k).limit_denominator(1000)
    above = "K" if share.numerator == 1 else f"{share.numerator}K"
    return above if share.denominator == 1 else f"{above}/{share.denominator}"
