"""The best kernel and config known for a problem: from tuned tables, and beyond them from the cost model.

No table has grouped products, so the cost model alone picks their config. How many rows each group has is known on the
GPU alone. A group of r rows takes r / H rows of tiles and, where it ends anywhere within one, half a row of them more,
H being a row's height; at least one. So the product is taken for a tall one of that many rows of tiles, whose factor B
is as large as the matrices of all groups.
"""

import math
from collections.abc import Iterator
from functools import lru_cache
from operator import itemgetter

import numpy as np

from tilewright.core.dtypes import FLOAT8, ITEM_BYTES, RESULTS
from tilewright.core.errors import DtypeError, TilewrightError
from tilewright.core.gpus import Gpu, find_gpu
from tilewright.core.hardware import ceil_div
from tilewright.core.problem import Layout, Problem
from tilewright.kernels import KERNELS, resolve
from tilewright.kernels.config import Config
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.library.grouped_sm90 import kernel_for
from tilewright.kernels.support import Addresses
from tilewright.select import orders
from tilewright.select.cost.prediction import CostModel, Dims
from tilewright.select.measured import Tabled, nearest_measured, shipped_factors
from tilewright.select.positions import FAR, LENGTH
from tilewright.select.tables.cases import Case

_NEIGHBOURS = 16
"""Tabled problems that are asked."""

_CANDIDATES = 7
"""Configs that came nearest to the fastest there, whose times are predicted."""

LEAST_VOTES = 0.12
"""Share of the first one's votes below which a config is no candidate."""

_CAUTION = 1.05
"""How many times longer than the model says a config is assumed to take that was not measured on such a GPU."""

_UNMEASURED = 1.25
"""Factor like `_CAUTION` for a kernel that was measured on no GPU: the model's mean error is less than this for every
one that was. Next to kernels that were measured, it counts twice."""

_MUCH_FASTER = 0.9
"""Share of a measured time below which what was not measured is taken instead, where few were."""

_EMULATED = ("warptiled", "vectorized:fastcuda_v3")
"""For the emulator, the first whose tile fits into the matrix: large tiles are emulated in the fewest steps."""

_SMALLEST = ("coalesced", "split_k:tiny")
"""For the emulator, where no such tile fits: one thread an element and nothing staged, or small tiles."""

_EMULATED_GROUPS = {"BM": 64, "BN": 64, "STAGES": 2, "PINGPONG": 1}
"""For the emulator, of grouped products: small tiles, of which most are used."""

_ACTIVATION_NS = {"relu": 0.023, "gelu": 0.054, "gelu_tanh": 0.064, "silu": 0.059}
"""Nanoseconds that an activation adds for each element that a multiprocessor has, with a bias: on an H100 at
1024x1024x1024 in bfloat16."""

_Expected = tuple[bool, bool, float, Kernel, Config]
"""Whether it errs much more than cuBLAS; whether it costs a copy of C; the microseconds expected; kernel and config."""

_rank = itemgetter(0, 1, 2)
"""The smallest is the best; of equal ones, the one that was found first."""


def select(
    problem: Problem,
    capability: tuple[int, int] | None,
    device: str = "",
    addresses: Addresses = Addresses(),
    *,
    adds_c: bool = False,
    cached: str | None = None,
) -> tuple[Kernel, Config]:
    """The kernel and config to run a problem with.

    In this order: what the user's table has for the problem; what the shipped table of this GPU has; what shipped
    tables of others with its compute capability have; for problems in no table, of the configs that did best on the
    nearest tabled ones the one that the cost model expects to be fastest, corrected by what each measured there. Far
    from all of them, and on GPUs without tables, the kernels' own configs are candidates too, corrected by what their
    kernels measured in the shipped tables; and so are those of kernels of the precision that is asked for, where tables
    have none.
    To each time what an activation adds is added, which tables do not have.
    A case that is in no table takes the candidates of the nearest that is. Never a kernel that does not keep the
    precision that the problem promises, or does not take its operands. Where a weaker precision than float32's is asked
    for, what tables have for the problem counts only if a kernel of that precision is among it. Of a batch-invariant
    problem only configs that have the order of sums which `orders.order_of` names, so that every m has the same.

    Args:
        problem: the product to compute.
        capability: the GPU's compute capability, None on the emulator.
        device: the name that the GPU's driver gives it.
        addresses: of the operands, or what they leave when divided by 16: kernels differ in the alignment they need.
        adds_c: whether C is read. Kernels that add it where the result goes, the course's, then come last: they cost a
            copy of C, which not every library can make.
        cached: the operand, A or B, whose copy is cached where a kernel wants one. What was measured made the copy in
            every
            run: the cost model says how much less time a run takes without.

    Raises:
        ConfigError: the problem is grouped, and the kernel for its factors does not run on this GPU.
        DtypeError: no kernel multiplies this element type on this GPU.
        ProblemError: none takes the problem otherwise; the message says why the last one does not.
        ProblemError: the problem is batch-invariant, and the GPU has no kernel that is.
    """
    if problem.grouped:
        kernel = kernel_for(problem.dtype)
        return kernel, _for_groups(kernel, problem, capability, device)
    if capability is None and problem.arithmetic.batch_invariant:
        return _invariant_for_emulator(problem, addresses)
    if capability is None:
        return _for_emulator(problem, addresses)
    return _fastest(_TabledProblem(problem, capability, device, addresses, cached), adds_c)


def unhidden_us(kernel: Kernel, config: Config, sizes: Dims, gpu: Gpu) -> float:
    """Microseconds that tensor cores wait for a problem's activation; 0 where there is none.

    Threads compute it at the end of a tile. Tensor cores wait, unless another consumer of the block has a tile of its
    own (`PINGPONG`) and multiplies meanwhile.
    """
    activation = sizes.problem.epilogue.activation
    if activation is None or config.get("PINGPONG", 1):
        return 0.0
    tile = kernel.tile(config)
    tiles = sizes.batch * ceil_div(sizes.m, tile.m) * ceil_div(sizes.n, tile.n)
    return ceil_div(tiles, gpu.multiprocessors) * tile.m * tile.n * _ACTIVATION_NS[activation] / 1e3


class _Supporting(dict[Kernel, bool]):
    """Whether a kernel may be picked for a problem, found where it is asked for the first time."""

    def __init__(self, problem: Problem, capability: tuple[int, int], addresses: Addresses) -> None:
        self._operands = problem, capability, addresses

    def __missing__(self, kernel: Kernel) -> bool:
        problem = self._operands[0]
        takes = self[kernel] = _may_be_picked(kernel, problem) and kernel.why_not(*self._operands) is None
        return takes


class _TabledProblem:
    """A problem on a GPU, and what tables say there."""

    def __init__(
        self,
        problem: Problem,
        capability: tuple[int, int],
        device: str,
        addresses: Addresses,
        cached: str | None,
    ) -> None:
        self.problem, self.capability, self.device, self.addresses = problem, capability, device, addresses
        arithmetic = problem.arithmetic
        self.sizes = Dims.of(problem, addresses, cached)
        self.order = orders.order_of(arithmetic, capability) if arithmetic.batch_invariant else None
        """The only order of sums that will do; None for any."""
        case = Case.of(problem)
        self.known, self.tabled = nearest_measured(device, capability, case, arithmetic.precision, cached, self.order)
        """Measurements of the problem's case, or else of the nearest, and whether they are its own; None if there are
        none."""
        self.support = _Supporting(problem, capability, addresses)
        self.activates = problem.epilogue.activation is not None

    def unhidden_us(self, kernel: Kernel, config: Config) -> float:
        """Microseconds that its activation adds."""
        return unhidden_us(kernel, config, self.sizes, find_gpu(self.device, self.capability))

    def ranked(self, known: Tabled, row: int) -> Iterator[tuple[Kernel, int]]:
        """The kernels that may be picked, and the numbers of their choices, which were measured on a tabled problem,
        the best first; tables are of products without activations."""
        numbers = known.ranked(row)
        if self.activates:
            numbers.sort(
                key=lambda number: (
                    known.inaccurate[row, number],
                    known.times[row, number] + self.unhidden_us(known.kernels[number], known.config(number)),
                )
            )
        return ((known.kernels[number], number) for number in numbers if self.support[known.kernels[number]])

    @property
    def row(self) -> int | None:
        """Where it is tabled itself."""
        return self.known.row(self.sizes) if self.known and self.tabled else None


def _fastest(asked: _TabledProblem, adds_c: bool) -> tuple[Kernel, Config]:
    """`select` for a GPU."""
    problem, known, promise = asked.problem, asked.known, asked.problem.arithmetic.precision
    expected: list[_Expected] = []
    distance = math.inf
    if known is not None:
        if (row := asked.row) is not None:
            ranked = list(asked.ranked(known, row))
            precisions = {kernel.support.precision for kernel, _ in ranked}
            if ranked and (promise in (None, "ieee") or promise in precisions):
                separate = (one for one in ranked if one[0].support.separate_c or not adds_c)
                kernel, number = next(separate, ranked[0])
                if asked.order is None:
                    return kernel, known.config(number)
                return _unless_slow(asked, known, row, number, adds_c)
        expected, distance = _between(asked, known, adds_c)
    if distance > FAR or not expected or (adds_c and all(one[1] for one in expected)):
        # The kernels' own configs are candidates too.
        expected += _untabled(asked, adds_c)
    elif promise not in (None, "ieee") and known and promise not in known.precisions:
        expected += _untabled(asked, adds_c, promise)  # none of this precision was measured
    if not expected:
        raise _no_kernel(problem, asked.capability, asked.addresses)
    return min(expected, key=_rank)[3:]


def _unless_slow(asked: _TabledProblem, known: Tabled, row: int, number: int, adds_c: bool) -> tuple[Kernel, Config]:
    """The fastest that was measured of one order on a problem, unless another is expected to be much faster: few were
    measured that have the order and are slow, since tables are of what is fast of all."""
    expected = [*_between(asked, known, adds_c)[0], *_untabled(asked, adds_c)]
    *_, us, kernel, config = min(expected, key=_rank)
    if us < _MUCH_FASTER * float(known.times[row, number]):
        return kernel, config
    return known.kernels[number], known.config(number)


def _between(asked: _TabledProblem, known: Tabled, adds_c: bool) -> tuple[list[_Expected], float]:
    """Times that candidates should take on a problem, and how far the nearest tabled one is."""
    distances = known.distances(asked.sizes)
    near = distances.argsort()[:_NEIGHBOURS]
    distances = distances.take(near)
    weights = np.exp(distances / -LENGTH)
    expected: list[_Expected] = []
    for group in known.groups:
        sums = group.sums(near, weights)
        candidates = _candidates(asked, known, group.numbers, sums)
        for number, us, errs in known.expected(group, candidates, sums, asked.sizes, near, weights):
            kernel, config = known.kernels[number], known.config(number)
            copies = adds_c and not kernel.support.separate_c
            if asked.activates:
                us += asked.unhidden_us(kernel, config)
            expected.append((errs, copies, us, kernel, config))
        if expected:
            break
    return expected, distances.item(0)


def _candidates(asked: _TabledProblem, known: Tabled, numbers: list[int], votes: list[float]) -> list[int]:
    """The places among choices of those that may be picked and came nearest to the fastest on the problems near."""
    takes, kernels = asked.support, known.kernels
    found: list[int] = []
    least = 0.0
    for position in sorted(range(len(numbers)), key=votes.__getitem__, reverse=True):
        own = votes[position]
        if not own or own < least:
            break
        if takes[kernels[numbers[position]]]:
            found.append(position)
            if len(found) == _CANDIDATES:
                break
            least = least or own * LEAST_VOTES
    return found


def _untabled(asked: _TabledProblem, adds_c: bool, precision: str | None = None) -> list[_Expected]:
    """The kernels' own configs, with the times that the cost model expects, corrected by kernel.

    precision: only of kernels of this one.
    """
    gpu = find_gpu(asked.device, asked.capability)
    running = _running(KERNELS, asked.capability, asked.problem.dtype)
    takers = [one for one in running if precision in (None, one.support.precision) and asked.support[one]]
    factors = shipped_factors(asked.problem.dtype)
    # Where some kernels were measured, with factors of another type if need be, the guess at one that was not must not
    # win over them, unless none of them makes such products, or all were measured on GPUs of another compute
    # capability, which may have what makes them fast there. Rungs that no table has are there to be read. Kernels for
    # float8 take no other type.
    others = () if asked.problem.dtype in FLOAT8 else RESULTS
    names = factors.keys() or {name for dtype in others for name in shipped_factors(dtype)}
    precisions = {kernel.support.precision for kernel in takers if kernel.name in names}
    found: list[_Expected] = []
    for kernel in takers:
        known, rivals = kernel.name in names, kernel.support.precision in precisions
        if not known and rivals and (asked.known is not None or kernel.rung):
            continue
        doubt = _CAUTION if known else _UNMEASURED * (_UNMEASURED if rivals else 1.0)
        factor = factors.get(kernel.name, 1.0) * doubt
        copies = adds_c and not kernel.support.separate_c
        for config, model in _own(kernel, gpu, asked.order):
            if cost := model.predict(asked.sizes):
                us = cost.us * factor + asked.unhidden_us(kernel, config)
                found.append((False, copies, us, kernel, config))
    return found


@lru_cache
def _own(kernel: Kernel, gpu: Gpu, order: str | None = None) -> list[tuple[Config, CostModel]]:
    """A kernel's own configs, or those of an order of sums, with what predicts them."""
    configs = [kernel.config(capability=gpu.capability), *map(kernel.config, kernel.presets.values())]
    if order is not None:
        configs = list(orders.keeping(order).get(kernel, ()))
    return [(config, CostModel(kernel, config, gpu)) for config in dict.fromkeys(configs)]


def _may_be_picked(kernel: Kernel, problem: Problem) -> bool:
    """Whether a kernel that nobody named may be picked, if `Kernel.why_not` says nothing against it: it keeps float32's
    precision where the problem promises none, and has something to split."""
    promised = problem.arithmetic.precision is not None or kernel.meets(None)
    return promised and not (kernel.split and not problem.k)


@lru_cache
def _running(kernels: tuple[Kernel, ...], capability: tuple[int, int], dtype: str) -> tuple[Kernel, ...]:
    """Kernels that run on the GPU: fewer are asked for each problem then."""
    return tuple(kernel for kernel in kernels if kernel.support.runs_on(capability, dtype))


def _no_kernel(problem: Problem, capability: tuple[int, int], addresses: Addresses) -> TilewrightError:
    running = [one for one in _running(KERNELS, capability, problem.dtype) if _may_be_picked(one, problem)]
    errors = [kernel.why_not(problem, capability, addresses) for kernel in running]
    reason = next((error for error in reversed(errors) if not isinstance(error, DtypeError)), None)
    words = f"no kernel takes {problem.case} operands like these on compute capability {capability[0]}.{capability[1]}"
    return DtypeError(words) if reason is None else type(reason)(f"{words}: {reason}")


def _for_groups(kernel: Kernel, problem: Problem, capability: tuple[int, int] | None, device: str) -> Config:
    if capability is None:
        return kernel.config(_EMULATED_GROUPS)
    if error := kernel.support.why_not_on(kernel.name, capability, problem.dtype):
        raise error
    best, least = kernel.config(), float("inf")
    for config, model in _own(kernel, find_gpu(device, capability)):
        cost = model.predict(expected_of_groups(problem, config))
        if cost is not None and cost.us < least:
            best, least = config, cost.us
    return best


def expected_of_groups(problem: Problem, config: Config) -> Dims:
    """The tall product that a grouped one is taken for, with tiles of this config."""
    m, n, k = problem.m, problem.n, problem.k
    groups, height = min(problem.batch, m), config.BM * config.CLUSTER_M
    rows = max(m + groups * height // 2, groups * height)
    a, b = problem.a, Layout(problem.b.order, problem.b.ld, 0)
    if a.order == "column":
        a = a._replace(ld=max(a.ld, rows))
    sizes = Dims.of(Problem(rows, n, k, problem.arithmetic, 1, a, b, problem.d))
    item = ITEM_BYTES[problem.dtype]
    return sizes._replace(
        a_bytes=item * m * k, b_bytes=item * groups * k * n, result_bytes=ITEM_BYTES[problem.result] * m * n
    )


def _for_emulator(problem: Problem, addresses: Addresses) -> tuple[Kernel, Config]:
    def takes(kernel: Kernel) -> bool:
        return kernel.meets(problem.arithmetic.precision) and kernel.why_not(problem, addresses=addresses) is None

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


def _invariant_for_emulator(problem: Problem, addresses: Addresses) -> tuple[Kernel, Config]:
    """Kernel and config with the one order of sums of batch invariance, whose tiles reach least beyond D."""
    order = orders.order_of(problem.arithmetic, None)
    assert order is not None

    def covered(choice: tuple[Kernel, Config]) -> int:
        kernel, config = choice
        tile = kernel.tile(config)
        return kernel.tiles(problem, config) * tile.m * tile.n

    candidates = [
        (kernel, config)
        for kernel, configs in orders.keeping(order).items()
        if kernel.why_not(problem, addresses=addresses) is None
        for config in configs
    ]
    if not candidates:
        raise DtypeError(f"no kernel takes {problem.case} operands like these")
    return min(candidates, key=covered)
