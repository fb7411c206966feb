"""The best rung known for a problem: from tuned tables, and between and beyond them from the cost model."""

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.analysis.cost import Cost, predict
from tilewright.analysis.gaussian_process import GaussianProcess
from tilewright.errors import ConfigError, DtypeError, KernelNotFoundError
from tilewright.gpus import Gpu, find_gpu
from tilewright.kernels import LADDER, find, resolve
from tilewright.kernels.spec import Config, Kernel
from tilewright.kernels.takes import Addresses, all_aligned
from tilewright.problem import ITEM_BYTES, Arithmetic, Problem
from tilewright.tables.cover import does_for, fewest

if TYPE_CHECKING:
    from tilewright.tables.table import Entry, Table

_LENGTH = 3.0
"""Over so many doublings of a size, what was measured of a config loses most of its weight."""

_DEVIATION = 0.1
"""How far the cost model errs of a config, as a logarithm."""

_NOISE = 0.02
"""How far measurements do."""

_CAUTION = 0.05
"""Logarithm of how many times longer than the model says a config should take that was not measured on such a GPU."""

_FAR = 3.0
"""Where no tabled shape is as near as this, the ladder's own configs are candidates too."""

_OTHER_ALIGNMENT = 0.5
"""How far apart, in doublings of a size, rows that are aligned and rows that are not put two problems."""

_EMULATED = ("warptiled", "vectorized:fastcuda_v3")
"""For the emulator, the first whose tile fits into the matrix: large tiles are emulated in the fewest steps."""

_SMALLEST = "coalesced"
"""One thread an element and nothing staged: for the emulator, where no tile fits."""


class _Known(NamedTuple):
    """A kernel and config as measured on a tabled problem."""

    kernel: Kernel
    config: Config
    time_us: float
    accurate: bool
    """Whether it errs little more than cuBLAS, as far as is known."""


class _Expected(NamedTuple):
    """A kernel and config, and what is expected of it."""

    inaccurate: bool
    """Whether it errs more than cuBLAS by much."""
    time_us: float
    kernel: Kernel
    config: Config


class _Place(NamedTuple):
    """Where a problem lies among others: logarithms of its sizes to base 2, and whether its rows are aligned."""

    m: float
    n: float
    k: float
    aligned: bool


class _Shape(NamedTuple):
    """A tabled problem, and what was measured on it: what is accurate comes first, the fastest of it at the head."""

    problem: Problem
    place: _Place
    gpu: Gpu
    known: tuple[_Known, ...]


class _Candidate(NamedTuple):
    """A kernel and config that may be the fastest on a problem in no table."""

    kernel: Kernel
    config: Config
    error: GaussianProcess
    """Logarithm of its time over the cost model's, as far as that is not so for all configs."""
    accurate: NDArray[np.float64]
    """Of each measurement, whether it errs little: 1, or 0."""


class _Candidates(NamedTuple):
    """What there is to choose from, for a problem in no table."""

    factor: float
    """The median of measured over predicted times."""
    all: tuple[_Candidate, ...]


@dataclass(frozen=True, eq=False)
class _Knowledge:
    """What the tables of a GPU, or of one like it, tell."""

    shapes: tuple[_Shape, ...]


def select(
    problem: Problem, capability: tuple[int, int] | None, device: str = "", addresses: Addresses = Addresses()
) -> tuple[Kernel, Config]:
    """The kernel and config to run a problem with.

    In this order: what the user's table has for the problem; what the shipped table of this GPU has; for shapes in no
    table, the few configs that come near to the fastest on all that are, ranked by the cost model, corrected by what
    each measured on tabled shapes, those alike counting most; far from all, and on GPUs of which there is no table,
    also the ladder's own configs, ranked by the cost model, corrected by what their kernels measured in the shipped
    tables.
    Never a kernel that rounds its operands, or one that cannot take them.

    Args:
        problem: the product to compute.
        capability: the GPU's compute capability, None on the emulator.
        device: the name that the GPU's driver gives it.
        addresses: of A, B and C, or what they leave when divided by 16: kernels differ in the alignment they need.

    Raises:
        DtypeError: no kernel multiplies this element type on this GPU.
    """
    return _select(problem, capability, device, Addresses(*(address % 16 for address in addresses)))


@lru_cache(maxsize=4096)
def _select(
    problem: Problem, capability: tuple[int, int] | None, device: str, addresses: Addresses
) -> tuple[Kernel, Config]:
    if capability is None:
        return _for_emulator(problem)
    gpu = find_gpu(device, capability)
    takers = frozenset(kernel for kernel in LADDER if _takes(kernel, problem, capability, addresses))
    if not takers:
        raise DtypeError(
            f"no kernel takes {problem.dtype} operands like these on compute capability {capability[0]}.{capability[1]}"
        )
    aligned = all_aligned(problem) and not any(addresses)
    known = _tabled(device, problem.dtype)
    for shape in known.shapes:
        if _sizes(shape.problem) == _sizes(problem) and shape.place.aligned == aligned:
            for one in shape.known:
                if one.kernel in takers:
                    return one.kernel, one.config
    if not known.shapes:
        known = _tabled_alike(capability, problem.dtype)
    expected = _between(known, problem, aligned, gpu, takers)
    place = _place(problem, aligned)
    if not expected or min(_distance(shape.place, place) for shape in known.shapes) > _FAR:
        expected += _untabled(problem, gpu, takers)
    _, _, kernel, config = min(expected, key=lambda one: one[:2])
    return kernel, config


def _between(
    known: _Knowledge, problem: Problem, aligned: bool, gpu: Gpu, takers: frozenset[Kernel]
) -> list[_Expected]:
    """What the candidates should take on a problem: what the cost model says, corrected by what was measured."""
    found = []
    factor, candidates = _candidates(known, takers)
    for kernel, config, error, accurate in candidates:
        if cost := predict(kernel, config, problem, gpu):
            near = error.covariance(_circumstances(problem, aligned, cost))
            time_us = cost.us * factor * math.exp(error.expected(near))
            inaccurate = float(near @ (1 - accurate)) > (float(near.sum()) + error.deviation**2) / 2
            found.append(_Expected(inaccurate, time_us, kernel, config))
    return found


def _untabled(problem: Problem, gpu: Gpu, takers: frozenset[Kernel]) -> list[_Expected]:
    """The ladder's own configs, with the times that the cost model expects, corrected by kernel."""
    factors = _kernel_factors()
    # Where some kernels were measured, the guess at one that was not must not win over them.
    kernels = {kernel for kernel in takers if kernel.name in factors} or takers
    found = []
    for kernel in (kernel for kernel in LADDER if kernel in kernels):
        for config in _own_configs(kernel, gpu.capability):
            cost = predict(kernel, config, problem, gpu)
            if cost:
                time_us = cost.us * factors.get(kernel.name, 1.0) * math.exp(_CAUTION)
                found.append(_Expected(False, time_us, kernel, config))
    return found


@lru_cache
def _own_configs(kernel: Kernel, capability: tuple[int, int]) -> tuple[Config, ...]:
    """A kernel's defaults, and those of its presets and of other GPUs' tuned configs that differ from them."""
    configs = [kernel.config(capability=capability)]
    configs += [kernel.config(overrides) for overrides in (*kernel.presets.values(), *kernel.tuned.values())]
    return tuple(dict.fromkeys(configs))


@lru_cache
def _kernel_factors() -> dict[str, float]:
    """By kernel, the median of its measured over its predicted times in all shipped tables."""
    from tilewright.tables import store  # noqa: PLC0415 reading tables takes pydantic, which is slow to import

    factors: dict[str, list[float]] = {}
    for shape in (shape for dtype in ITEM_BYTES for shape in _shapes(store.shipped(), dtype)):
        for known in shape.known:
            if cost := predict(known.kernel, known.config, shape.problem, shape.gpu):
                factors.setdefault(known.kernel.name, []).append(known.time_us / cost.us)
    return {name: statistics.median(of_kernel) for name, of_kernel in factors.items()}


@lru_cache
def _candidates(known: _Knowledge, takers: frozenset[Kernel]) -> _Candidates:
    """The fewest configs, of kernels that may be picked, that come near to the fastest on all shapes."""
    does = does_for(
        (index, (one.kernel, one.config), one.accurate, one.time_us)
        for index, shape in enumerate(known.shapes)
        for one in shape.known
        if one.kernel in takers
    )
    measured: dict[tuple[Kernel, Config], list[tuple[NDArray[np.float64], float, bool]]] = {
        choice: [] for choice in fewest(does)
    }
    for shape in known.shapes:
        for one in shape.known:
            of_choice = measured.get((one.kernel, one.config))
            if of_choice is None:
                continue
            if cost := predict(one.kernel, one.config, shape.problem, shape.gpu):
                circumstances = _circumstances(shape.problem, shape.place.aligned, cost)
                of_choice.append((circumstances, math.log(one.time_us / cost.us), one.accurate))
    errors = [error for of_choice in measured.values() for _, error, _ in of_choice]
    usual = statistics.median(errors) if errors else 0.0
    candidates = []
    for (kernel, config), of_choice in measured.items():
        if of_choice:
            places, values, accurate = map(np.array, zip(*of_choice, strict=True))
            process = GaussianProcess.fitted(places, values - usual, _LENGTH, _DEVIATION, _NOISE)
            candidates.append(_Candidate(kernel, config, process, accurate.astype(float)))
    return _Candidates(math.exp(usual), tuple(candidates))


def _circumstances(problem: Problem, aligned: bool, cost: Cost) -> NDArray[np.float64]:
    """What the cost model's error depends on, as coordinates: the logarithms of the sizes, whether rows are aligned,
    how many blocks a multiprocessor gets and how many share a tile, as logarithms, and which part of the
    multiprocessors has the last of these blocks, and of the GPU's room the last wave."""
    blocks, parts = max(cost.blocks, 1e-3), max(cost.parts, 1.0)
    return np.array(
        [*_place(problem, aligned), math.log2(blocks), math.log2(parts), _last(cost.blocks), _last(cost.waves)]
    )


def _last(count: float) -> float:
    """Of so many, the part that is in the last one."""
    return count - math.ceil(count) + 1


@lru_cache
def _tabled(device: str, dtype: str) -> _Knowledge:
    """What the tables of a GPU tell; on a shape that the user measured, only what the user did."""
    from tilewright.tables import store  # noqa: PLC0415

    return _Knowledge(_shapes(store.load(device), dtype) if device else ())


@lru_cache
def _tabled_alike(capability: tuple[int, int], dtype: str) -> _Knowledge:
    """What the shipped tables of other GPUs of this compute capability tell."""
    from tilewright.tables import store  # noqa: PLC0415

    tables = [table for table in store.shipped() if table.capability == capability]
    return _Knowledge(_shapes(tables, dtype))


def _shapes(tables: Iterable["Table"], dtype: str) -> tuple[_Shape, ...]:
    shapes: dict[tuple[int, int, int], _Shape] = {}
    for table in tables:
        gpu = find_gpu(table.gpu, table.capability)
        measured: dict[tuple[int, int, int], list[_Known]] = {}
        for entry in table.entries:
            sizes = entry.m, entry.n, entry.k
            if entry.dtype == dtype and sizes not in shapes and (known := _known(entry)):
                measured.setdefault(sizes, []).append(known)
        for sizes, of_shape in measured.items():
            of_shape.sort(key=lambda known: (not known.accurate, known.time_us))
            problem = Problem(*sizes, Arithmetic(dtype))
            shapes[sizes] = _Shape(problem, _place(problem, all_aligned(problem)), gpu, tuple(of_shape))
    return tuple(shapes.values())


def _known(entry: "Entry") -> _Known | None:
    """What an entry says; None where the ladder does not have its kernel or config any more."""
    try:
        kernel = find(entry.kernel)
        config = _config(kernel, frozenset(entry.config.items()))
    except (KernelNotFoundError, ConfigError):
        return None
    return _Known(kernel, config, entry.time_us, entry.accurate)


@lru_cache(maxsize=4096)
def _config(kernel: Kernel, values: frozenset[tuple[str, int]]) -> Config:
    """One object for each config, which caches then find without a comparison of its values."""
    return kernel.config(dict(values))


def _takes(kernel: Kernel, problem: Problem, capability: tuple[int, int], addresses: Addresses) -> bool:
    """Whether a kernel may be picked: it runs on the GPU, takes the operands, and rounds nothing."""
    return (
        kernel.refusal(problem, addresses) is None
        and kernel.precision is None
        and kernel.runs_on(capability, problem.dtype)
    )


def _place(problem: Problem, aligned: bool) -> _Place:
    m, n, k = (math.log2(max(size, 1)) for size in _sizes(problem))
    return _Place(m, n, k, aligned)


def _distance(one: _Place, other: _Place) -> float:
    """How far apart two problems lie, in doublings of a size."""
    apart = math.hypot(one.m - other.m, one.n - other.n, one.k - other.k)
    return apart if one.aligned == other.aligned else apart + _OTHER_ALIGNMENT


def _sizes(problem: Problem) -> tuple[int, int, int]:
    return problem.m, problem.n, problem.k


def _for_emulator(problem: Problem) -> tuple[Kernel, Config]:
    for name in _EMULATED:
        kernel, overrides = resolve(name)
        config = kernel.config(overrides)
        tile = kernel.tile(config)
        if kernel.refusal(problem) is None and problem.m >= tile.m and problem.n >= tile.n:
            return kernel, config
    kernel, overrides = next(
        (kernel, {})
        for kernel in (resolve(_SMALLEST)[0], *reversed(LADDER))
        if kernel.refusal(problem) is None and kernel.precision is None
    )
    return kernel, kernel.config(overrides)
