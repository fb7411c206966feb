"""The best rung known for a problem: from tuned tables, and between and beyond them from the cost model."""

import math
import statistics
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from tilewright.analysis.cost import predict
from tilewright.errors import ConfigError, DtypeError, KernelNotFoundError
from tilewright.gpus import Gpu, find_gpu
from tilewright.kernels import LADDER, find, resolve
from tilewright.kernels.spec import VECTOR_BYTES, Config, Kernel
from tilewright.problem import ITEM_BYTES, RESULT_DTYPE, Problem

if TYPE_CHECKING:
    from tilewright.tables.table import Entry, Table

_NEIGHBOURS = 6
"""Tabled shapes whose configs are candidates for a shape between them."""

_OF_EACH = 4
"""Of each of them, its fastest."""

_SAME = 0.1
"""Added to distances: how much more the same shape counts, on another GPU or in another alignment, than one nearby."""

_FAR = 3.0
"""Where no tabled shape is as near as this, the ladder's own configs are candidates too."""

_OTHER_ALIGNMENT = 2.0
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
    factor: float
    """Its time over what the cost model says of it."""
    accurate: bool
    """Whether it errs little more than cuBLAS, as far as is known."""


class _Expected(NamedTuple):
    """A kernel and config, and the microseconds that it should take."""

    kernel: Kernel
    config: Config
    time_us: float


class _Shape(NamedTuple):
    """A tabled problem, and what was measured on it: what is accurate comes first, the fastest of it at the head."""

    problem: Problem
    known: tuple[_Known, ...]


_Addresses = tuple[int, int, int]
"""Base addresses of A, B and C, as far as they tell what 16-byte alignment they have."""


def select(
    problem: Problem, capability: tuple[int, int] | None, device: str = "", addresses: _Addresses = (0, 0, 0)
) -> tuple[Kernel, Config]:
    """The kernel and config to run a problem with.

    In this order: what the user's table has for the problem; what the shipped table of this GPU has; between tabled
    shapes, the configs that do well on the nearest of them, ranked by the cost model times what each measured there
    over what the model says of it; far from all, and on GPUs of which there is no table, also the ladder's own configs,
    ranked by the cost model times the same factor of each kernel in the shipped tables. Never a kernel that rounds its
    operands, or one that cannot take them.

    Args:
        problem: the product to compute.
        capability: the GPU's compute capability, None on the emulator.
        device: the name that the GPU's driver gives it.
        addresses: of A, B and C, or what they leave when divided by 16: kernels differ in the alignment they need.

    Raises:
        DtypeError: no kernel multiplies this element type on this GPU.
    """
    return _select(problem, capability, device, (addresses[0] % 16, addresses[1] % 16, addresses[2] % 16))


@lru_cache(maxsize=4096)
def _select(
    problem: Problem, capability: tuple[int, int] | None, device: str, addresses: _Addresses
) -> tuple[Kernel, Config]:
    if capability is None:
        return _for_emulator(problem)
    gpu = find_gpu(device, capability)
    takers = frozenset(kernel for kernel in LADDER if _takes(kernel, problem, capability, addresses))
    if not takers:
        raise DtypeError(
            f"no kernel takes {problem.dtype} operands like these on compute capability {capability[0]}.{capability[1]}"
        )
    aligned = _rows_aligned(problem) and not any(addresses)
    for shape in _tabled(device, problem.dtype):
        if _sizes(shape.problem) == _sizes(problem) and _rows_aligned(shape.problem) == aligned:
            for known in shape.known:
                if known.kernel in takers:
                    return known.kernel, known.config
    shapes = _tabled(device, problem.dtype) or _tabled_alike(capability, problem.dtype)
    candidates = _between(shapes, problem, gpu, aligned, takers)
    if not candidates or min(_distance(shape.problem, problem, aligned) for shape in shapes) > _FAR:
        candidates += _untabled(problem, gpu, takers)
    kernel, config, _ = min(candidates, key=lambda candidate: candidate.time_us)
    return kernel, config


def _between(
    shapes: Sequence[_Shape], problem: Problem, gpu: Gpu, aligned: bool, takers: frozenset[Kernel]
) -> list[_Expected]:
    """What did well on the tabled shapes nearest to a problem, with the times expected on it."""
    near = sorted((_distance(shape.problem, problem, aligned), index) for index, shape in enumerate(shapes))
    candidates: dict[tuple[str, Config], Kernel] = {}
    factors: dict[tuple[str, Config], list[tuple[float, float]]] = {}
    for distance, index in near[:_NEIGHBOURS]:
        weight = 1 / (_SAME + distance) ** 2
        taken = [known for known in shapes[index].known if known.kernel in takers]
        candidates.update({(known.kernel.name, known.config): known.kernel for known in taken[:_OF_EACH]})
        for known in taken:
            factors.setdefault((known.kernel.name, known.config), []).append((weight, math.log(known.factor)))
    found = []
    for (name, config), kernel in candidates.items():
        if cost := predict(kernel, config, problem, gpu):
            weighted = factors[name, config]
            mean = sum(weight * log for weight, log in weighted) / sum(weight for weight, _ in weighted)
            found.append(_Expected(kernel, config, cost.us * math.exp(mean)))
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
                found.append(_Expected(kernel, config, cost.us * factors.get(kernel.name, 1.0)))
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
    for dtype in ITEM_BYTES:
        for known in (known for shape in _shapes(store.shipped(), dtype) for known in shape.known):
            factors.setdefault(known.kernel.name, []).append(known.factor)
    return {name: statistics.median(of_kernel) for name, of_kernel in factors.items()}


@lru_cache
def _tabled(device: str, dtype: str) -> tuple[_Shape, ...]:
    """What the tables of a GPU know; on a shape that the user measured, only what the user did."""
    from tilewright.tables import store  # noqa: PLC0415

    return _shapes(store.load(device), dtype) if device else ()


@lru_cache
def _tabled_alike(capability: tuple[int, int], dtype: str) -> tuple[_Shape, ...]:
    """What the shipped tables of other GPUs of this compute capability know."""
    from tilewright.tables import store  # noqa: PLC0415

    return _shapes([table for table in store.shipped() if table.capability == capability], dtype)


def _shapes(tables: Iterable["Table"], dtype: str) -> tuple[_Shape, ...]:
    shapes: dict[tuple[int, int, int], _Shape] = {}
    for table in tables:
        gpu = find_gpu(table.gpu, table.capability)
        measured: dict[tuple[int, int, int], list[_Known]] = {}
        for entry in table.entries:
            sizes = entry.m, entry.n, entry.k
            if entry.dtype == dtype and sizes not in shapes and (known := _known(entry, gpu)):
                measured.setdefault(sizes, []).append(known)
        for sizes, of_shape in measured.items():
            of_shape.sort(key=lambda known: (not known.accurate, known.time_us))
            shapes[sizes] = _Shape(Problem(*sizes, dtype), tuple(of_shape))
    return tuple(shapes.values())


def _known(entry: "Entry", gpu: Gpu) -> _Known | None:
    """What an entry says; None where the ladder does not have its kernel or config any more."""
    try:
        kernel = find(entry.kernel)
        config = kernel.config(entry.config)
    except (KernelNotFoundError, ConfigError):
        return None
    cost = predict(kernel, config, Problem(entry.m, entry.n, entry.k, entry.dtype), gpu)
    return _Known(kernel, config, entry.time_us, entry.time_us / cost.us, entry.accurate) if cost else None


def _takes(kernel: Kernel, problem: Problem, capability: tuple[int, int], addresses: _Addresses) -> bool:
    """Whether a kernel may be picked: it runs on the GPU, takes the operands, and rounds nothing."""
    return (
        problem.dtype in kernel.dtypes
        and kernel.precision is None
        and capability >= kernel.capability_for(problem.dtype)
        and kernel.takes_rows(problem, addresses)
    )


def _distance(tabled: Problem, problem: Problem, aligned: bool) -> float:
    """How far a tabled problem lies from another one, in doublings of a size."""
    doublings = (math.log2(max(a, 1) / max(b, 1)) for a, b in zip(_sizes(tabled), _sizes(problem), strict=True))
    return math.hypot(*doublings) + (0.0 if _rows_aligned(tabled) == aligned else _OTHER_ALIGNMENT)


def _sizes(problem: Problem) -> tuple[int, int, int]:
    return problem.m, problem.n, problem.k


def _rows_aligned(problem: Problem) -> bool:
    item, result_item = ITEM_BYTES[problem.dtype], ITEM_BYTES[RESULT_DTYPE]
    return not (problem.lda * item % VECTOR_BYTES or problem.ldb * item % VECTOR_BYTES
                or problem.ldc * result_item % VECTOR_BYTES)  # fmt: skip


def _for_emulator(problem: Problem) -> tuple[Kernel, Config]:
    for name in _EMULATED:
        kernel, overrides = resolve(name)
        config = kernel.config(overrides)
        tile = kernel.tile(config)
        if problem.dtype in kernel.dtypes and problem.m >= tile.m and problem.n >= tile.n:
            return kernel, config
    kernel, overrides = next(
        (kernel, {}) for kernel in (resolve(_SMALLEST)[0], *reversed(LADDER)) if problem.dtype in kernel.dtypes
    )
    return kernel, kernel.config(overrides)
