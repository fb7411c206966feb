"""The best kernel and config known for a problem: from tuned tables, and beyond them from the cost model."""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from tilewright.analysis.cost import CostModel, Sizes
from tilewright.errors import DtypeError, TilewrightError
from tilewright.gpus import Gpu, find_gpu
from tilewright.kernels import KERNELS, resolve
from tilewright.kernels.spec import Config, Kernel
from tilewright.kernels.takes import Addresses
from tilewright.problem import DTYPES, Problem
from tilewright.select.measured import FAR, LENGTH, Case, Measured, identity, measured, shipped_factors

_NEIGHBOURS = 16
"""Tabled problems that are asked."""

_CANDIDATES = 8
"""Configs that came nearest to the fastest there, whose times are predicted."""

_UNKNOWN = 0.1
"""Weight of the assumption that the cost model is off by as much as it usually is."""

_CAUTION = 1.05
"""How many times longer than the model says a config is assumed to take that was not measured on such a GPU."""

_EMULATED = ("warptiled", "vectorized:fastcuda_v3")
"""For the emulator, the first whose tile fits into the matrix: large tiles are emulated in the fewest steps."""

_SMALLEST = ("coalesced", "split_k:tiny")
"""For the emulator, where no such tile fits: one thread an element and nothing staged, or small tiles."""

_Expected = tuple[bool, float, Kernel, Config]
"""Whether it errs much more than cuBLAS, the microseconds expected, kernel and config."""


def select(
    problem: Problem,
    capability: tuple[int, int] | None,
    device: str = "",
    addresses: Addresses = Addresses(),
    *,
    adds_c: bool = False,
) -> tuple[Kernel, Config]:
    """The kernel and config to run a problem with.

    In this order: what the user's table has for the problem; what the shipped table of this GPU has; for problems in no
    table, of the configs that did best on the nearest tabled ones the one that the cost model expects to be fastest,
    corrected by what each measured there. Far from all of them, and on GPUs without tables, the kernels' own configs
    are candidates too, corrected by what their kernels measured in the shipped tables.
    A case that is in no table takes the candidates of the nearest that is. Never a kernel that rounds its operands, or
    one that does not take them.

    Args:
        problem: the product to compute.
        capability: the GPU's compute capability, None on the emulator.
        device: the name that the GPU's driver gives it.
        addresses: of the operands, or what they leave when divided by 16: kernels differ in the alignment they need.
        adds_c: whether C is read. Kernels that add it where the result goes, the course's, then come last: they cost a
            copy of C, which not every library can make.

    Raises:
        DtypeError: no kernel multiplies this element type on this GPU.
        LaunchError, ProblemError: none takes the problem otherwise; the message says why the last one does not.
    """
    if capability is None:
        return _for_emulator(problem, addresses)
    sizes = Sizes.of(problem, addresses)
    case = Case.of(problem)
    tables = measured(device, capability)
    known = tables.get(case) or _nearest(tables, case)
    expected: list[_Expected] = []
    distance = math.inf
    if known is not None:
        taken: dict[Kernel, bool] = {}

        def takes(kernel: Kernel) -> bool:
            answer = taken.get(kernel)
            if answer is None:
                answer = taken[kernel] = _refusal(kernel, problem, capability, addresses) is None
            return answer

        if case in tables and (row := known.rows.get(identity(sizes))) is not None:
            ranked = [known.choices[number][:2] for number in known.ranked(row)]
            taking = [choice for choice in ranked if takes(choice[0])]
            if taking:
                return next((choice for choice in taking if choice[0].takes.separate_c or not adds_c), taking[0])
        expected, distance = _between(known, sizes, takes)
    fit = [one for one in expected if one[2].takes.separate_c or not adds_c]
    if not fit or distance > FAR:  # the kernels' own configs are candidates too
        expected += _untabled(problem, sizes, find_gpu(device, capability), addresses)
    if not expected:
        raise _no_kernel(problem, capability, addresses)
    _, _, kernel, config = min(expected, key=lambda one: (one[0], adds_c and not one[2].takes.separate_c, one[1]))
    return kernel, config


def _between(known: Measured, sizes: Sizes, takes: Callable[[Kernel], bool]) -> tuple[list[_Expected], float]:
    """What candidates should take on a problem, and how far the nearest tabled one is."""
    distances = known.distances(sizes)
    near = distances.argsort()[:_NEIGHBOURS]
    weights = np.exp(distances[near] / -LENGTH)
    expected: list[_Expected] = []
    for others in (False, True):
        for number, error, times, inaccurate in known.voted(near, weights, others=others):
            kernel, config, model = known.choices[number]
            if takes(kernel) and (cost := model.predict(sizes)):
                certain = times + _UNKNOWN
                correction = math.exp(known.usual + error / certain)
                expected.append((inaccurate > certain / 2, cost.us * correction, kernel, config))
                if len(expected) == _CANDIDATES:
                    break
        if expected:
            break
    return expected, float(distances[near[0]])


def _untabled(problem: Problem, sizes: Sizes, gpu: Gpu, addresses: Addresses) -> list[_Expected]:
    """The kernels' own configs, with the times that the cost model expects, corrected by kernel."""
    takers = [kernel for kernel in KERNELS if _refusal(kernel, problem, gpu.capability, addresses) is None]
    factors = shipped_factors(problem.dtype)
    # Where some kernels were measured, with factors of another type if need be, the guess at one that was not must not
    # win over them.
    names = factors.keys() or {name for dtype in DTYPES for name in shipped_factors(dtype)}
    found = []
    for kernel in [kernel for kernel in takers if kernel.name in names] or takers:
        overrides = [*kernel.presets.values(), *kernel.tuned.values()]
        configs = [kernel.config(capability=gpu.capability), *map(kernel.config, overrides)]
        for config in dict.fromkeys(configs):
            if cost := CostModel(kernel, config, gpu).predict(sizes):
                found.append((False, cost.us * factors.get(kernel.name, 1.0) * _CAUTION, kernel, config))
    return found


def _nearest(tables: dict[Case, Measured], case: Case) -> Measured | None:
    """What was measured of the nearest case: the same factors; then row-major operands, and the same result."""
    alike = [one for one in tables if one.factors == case.factors]
    if not alike:
        return None
    return tables[
        min(alike, key=lambda one: (one.layout != case.layout, one.layout != "NN", one.result != case.result))
    ]


def _refusal(
    kernel: Kernel, problem: Problem, capability: tuple[int, int], addresses: Addresses
) -> TilewrightError | None:
    """Why a kernel may not be picked; None where it runs on the GPU, takes the operands and rounds nothing."""
    if kernel.precision is not None:
        return DtypeError(f"{kernel.name} rounds its operands to {kernel.precision}")
    if not _runs_on(kernel, capability, problem.dtype):
        return DtypeError(f"{kernel.name} does not run on compute capability {capability[0]}.{capability[1]}")
    return kernel.refusal(problem, addresses)


_runs_on = lru_cache(Kernel.runs_on)


def _no_kernel(problem: Problem, capability: tuple[int, int], addresses: Addresses) -> TilewrightError:
    refusals = [_refusal(kernel, problem, capability, addresses) for kernel in KERNELS]
    reason = next((refusal for refusal in reversed(refusals) if not isinstance(refusal, DtypeError)), None)
    words = f"no kernel takes {problem.case} operands like these on compute capability {capability[0]}.{capability[1]}"
    return DtypeError(words) if reason is None else type(reason)(f"{words}: {reason}")


def _for_emulator(problem: Problem, addresses: Addresses) -> tuple[Kernel, Config]:
    def takes(kernel: Kernel) -> bool:
        return kernel.precision is None and kernel.refusal(problem, addresses) is None

    for name in _EMULATED:
        kernel, overrides = resolve(name)
        config = kernel.config(overrides)
        tile = kernel.tile(config)
        if takes(kernel) and problem.m >= tile.m and problem.n >= tile.n:
            return kernel, config
    for kernel, overrides in (*map(resolve, _SMALLEST), *((kernel, {}) for kernel in reversed(KERNELS))):
        if takes(kernel):
            return kernel, kernel.config(overrides)
    raise DtypeError(f"no kernel takes {problem.case} operands like these")
