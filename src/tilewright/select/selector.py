"""The kernel and config for a problem: what tables have of it, and else what the model expects to be fastest.

Grouped products are chosen for by the model too. How many rows each group has is known on the GPU alone. A group of r
rows takes r / H rows of tiles and, where it ends anywhere within one, half a row of them more, H being a row's height;
at least one. So the product is taken for a tall one of that many rows of tiles, whose factor B is as large as the
matrices of all groups.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import inf, prod
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from tilewright.core.dtypes import ITEM_BYTES
from tilewright.core.errors import DtypeError
from tilewright.core.gpus import Gpu, find_gpu
from tilewright.core.problem import Layout, Order, Problem
from tilewright.kernels import KERNELS, find, resolve
from tilewright.kernels.config import Config
from tilewright.kernels.kernel import Choice, Kernel
from tilewright.kernels.library.grouped_sm90 import kernel_for
from tilewright.kernels.support import Addresses
from tilewright.select import orders
from tilewright.select.model import Floats, Models, ProblemSizes, lent
from tilewright.select.tables import store

_UNMEASURED = 1.1
"""How many times as fast as what was measured on the problem a config must be expected to be, to be picked instead."""

_COPY_OF_C_US = 1e6
"""Puts kernels last which cost a copy of C."""

_EMULATED = ("warptiled", "vectorized:fastcuda_v3")
"""For the emulator, the first whose tile fits into the matrix: large tiles are emulated in the fewest steps."""

_SMALLEST = ("coalesced", "split_k:tiny")
"""For the emulator, where no such tile fits: one thread an element and nothing staged, or small tiles."""

_EMULATED_GROUPS = {"BM": 64, "BN": 64, "STAGES": 2, "PINGPONG": 1}
"""For the emulator, of grouped products: small tiles, of which most are used."""

_FEW_ROWS = 64
"""Rows of a group, in the mean, up to which tiles have no more of them: taller ones are for the most part empty."""

_ACTIVATION_NS: dict[str | None, float] = {"relu": 0.023, "gelu": 0.054, "gelu_tanh": 0.064, "silu": 0.059}
"""Nanoseconds that an activation adds for each element that a multiprocessor has, with a bias: on an H100 at
1024x1024x1024 in bfloat16."""

_COPY_US = 3.0
"""Microseconds to start a copy of an operand, and the product after it."""

_MOVED = 4.0
"""Bytes that such a copy moves, or the time of as many, for each byte of an operand: single elements are moved."""


def select(
    problem: Problem,
    capability: tuple[int, int] | None,
    device: str = "",
    addresses: Addresses = Addresses(),
    *,
    adds_c: bool = False,
    cached: str | None = None,
    spares: tuple[Kernel, float] | None = None,
) -> tuple[Kernel, Config]:
    """The kernel and config to run a problem with.

    The fastest that the user's table has for the problem, or else the shipped table of this GPU; for problems in
    neither, the config of the kernels' portfolios that the model expects to be fastest: fitted to this GPU's survey, or
    else to that of another. Never a kernel that does not meet the precision that the problem asks for, or does not
    support its operands. Where a weaker precision than float32's is asked for, or batch invariance, what tables have is
    compared with the model's. Of a batch-invariant problem only configs that have the order of sums which
    `orders.order_of` names, so that every m has the same.

    Args:
        problem: the product to compute.
        capability: the GPU's compute capability, None on the emulator.
        device: the name that the GPU's driver gives it.
        addresses: of the operands, or what they leave when divided by 16: kernels differ in the alignment they need.
        adds_c: whether C is read. Kernels that add it where the result goes, the course's, then come last: they cost a
            copy of C, which not every library can make.
        cached: the operand, A or B, whose copy is cached where a kernel wants one. What was measured made the copy in
            every run: the model says how much less time a run takes without.
        spares: a kernel with which a plan needs no other launches, and their traffic with memory in bytes, which the
            model counts for all others.

    Raises:
        ConfigError: the problem is grouped, and the kernel for its factors does not run on this GPU.
        DtypeError: no kernel multiplies this element type on this GPU.
        ProblemError: none takes the problem otherwise; the message says why the last one does not.
        ProblemError: the problem is batch-invariant, and the GPU has no kernel that is.
    """
    if problem.grouped:
        kernel = kernel_for(problem.dtype)
        return kernel, _for_groups(kernel, problem, capability, device)
    if capability is None:
        return _for_emulator(problem, addresses)
    asked = _GpuProblem(problem, capability, addresses, find_gpu(device, capability), cached)
    order, precision = orders.order_of(problem.arithmetic, capability), problem.arithmetic.precision
    measured_us, measured = _measured(asked, device, order, adds_c)
    if measured and order is None and precision in (None, "ieee"):
        return measured
    compared = compared_on(device, capability, problem.dtype, precision, order, grouped=False)
    if compared is None:
        return measured or _any(asked)
    expected = asked.us(compared)
    if adds_c:
        expected += _COPY_OF_C_US * compared.copies_c
    if measured:
        # The model is as far off for others as for what was measured.
        expected *= _UNMEASURED if (at := compared.numbers.get(measured)) is None else measured_us / expected[at]
    if spares:
        spared_bytes = np.array([spares[1] * (one.kernel is spares[0]) for one in compared.models.fitted])
        expected -= spared_bytes / (1e3 * asked.gpu.dram_gbs)
    for number in expected.argsort():
        if measured and expected[number] >= measured_us / _UNMEASURED:
            return measured
        kernel, config = compared.models.fitted[number][:2]
        if (problem.k or not kernel.split) and kernel.support.why_not(kernel.name, problem, addresses) is None:
            return kernel, config
    return _any(asked)


class _GpuProblem(NamedTuple):
    """A problem on a GPU."""

    problem: Problem
    capability: tuple[int, int]
    addresses: Addresses
    gpu: Gpu
    cached: str | None

    def takes(self, kernel: Kernel) -> bool:
        """Whether a kernel may be picked."""
        of = self.problem, self.capability, self.addresses
        return _may_be_picked(kernel, self.problem) and kernel.why_not(*of) is None

    def us(self, compared: "_Candidates") -> Floats:
        """Microseconds that configs are expected to take."""
        sizes = ProblemSizes.of(self.problem, self.addresses, self.cached)
        found = compared.models.us(sizes)
        layouts, of_bytes = (self.problem.a, self.problem.b), (sizes.a_bytes, sizes.b_bytes)
        for wanted, reading in compared.relaid:
            if us := sum(map(self._copied_us, "AB", wanted, layouts, of_bytes)):
                found += us * reading
        if self.cached:
            found -= compared.split * self.cached_us
        if self.problem.epilogue.activation is not None:
            found += unhidden_us(compared.tiles, self.problem, self.gpu)
        return found

    @property
    def cached_us(self) -> float:
        """Microseconds in which the operand is read whose copy is cached."""
        sizes = ProblemSizes.of(self.problem)
        return float(sizes.a_bytes if self.cached == "A" else sizes.b_bytes) / (1e3 * self.gpu.dram_gbs)

    def _copied_us(self, name: str, wanted: Order | None, given: Layout, size: int) -> float:
        """Microseconds that a copy of an operand takes in the order that kernels want."""
        copied = wanted not in (None, given.order) and self.cached != name
        return _COPY_US + _MOVED * size / (1e3 * self.gpu.dram_gbs) if copied else 0.0


def _split(kernel: Kernel) -> float:
    """Bytes that a kernel's own launch moves for each byte of a factor that it splits: read, and written as parts."""
    return 1 + kernel.parts * ITEM_BYTES[kernel.split.dtype] / ITEM_BYTES["float32"] if kernel.split else 0.0


class _Candidates:
    """The configs among which is chosen on a GPU, for factors of a type and an order of sums."""

    def __init__(self, models: Models, surveyed: set[Kernel]) -> None:
        kernels = [one.kernel for one in models.fitted]
        self.models = models
        self.numbers = {(one.kernel, one.config): number for number, one in enumerate(models.fitted)}
        self.copies_c = np.array([not kernel.support.separate_c for kernel in kernels], np.float64)
        """1 where a kernel adds C where the result goes."""
        self.split = np.array([_split(kernel) for kernel in kernels], np.float64)
        self.tiles = np.array([tile_of(*one[:2]) for one in models.fitted], np.float64).T
        wanted = [None if kernel in surveyed else kernel.relayouts(kernel.config()) for kernel in kernels]
        self.relaid = [
            (orders, np.array([one == orders for one in wanted], np.float64))
            for orders in dict.fromkeys(wanted)
            if orders not in (None, (None, None))
        ]
        """Orders that kernels read the factors in, each with 1 for their configs and 0 for others. Surveyed kernels are
        in none: their models have what a copy takes."""


@lru_cache
def compared_on(
    device: str, capability: tuple[int, int], dtype: str, precision: str | None, order: str | None, grouped: bool
) -> _Candidates | None:
    """The configs among which is chosen for factors of a type, with their models on a GPU; None if there are none.

    Models were fitted to the survey of this GPU, or else of another of its compute capability, or else of any.

    precision: what kernels meet. order: of their sums; None for any. grouped: whether they take grouped products.
    """
    _, fitted = store.fitted(device, capability, dtype)
    kernels, known = (kernel_for(dtype),) if grouped else KERNELS, fitted.choices
    surveyed = {kernel for kernel, _ in known}
    configs = [
        (kernel, config)
        for kernel in kernels
        if dtype in kernel.support.factors and kernel.support.runs_on(capability, dtype) and kernel.meets(precision)
        for config in dict.fromkeys((*kernel.candidates(capability), *(orders.own(kernel) if order else ())))
        # Lent models err more, and the one that promises too much would be picked.
        if (kernel.sums(config).order == order if order else kernel not in surveyed or (kernel, config) in known)
    ]
    if not (configs and known):
        return None
    return _Candidates(_models(configs, device, find_gpu(device, capability), dtype), surveyed)


def _models(configs: Sequence[tuple[Kernel, Config]], device: str, gpu: Gpu, dtype: str) -> Models:
    """The models of configs on a GPU, for factors of a type."""
    measured_on, fitted = store.fitted(device, gpu.capability, dtype)
    known = fitted.choices
    models = [lent(*choice, fitted.configs, measured_on, gpu) for choice in configs]
    return Models(gpu, models, fitted.correction, [choice in known for choice in configs])


def expected_us(kernel: Kernel, config: Config, problem: Problem, gpu: Gpu, device: str = "") -> float:
    """Microseconds that a config is expected to take on a problem."""
    return float(_models([(kernel, config)], device, gpu, problem.dtype).us(ProblemSizes.of(problem))[0])


def _measured(asked: _GpuProblem, device: str, order: str | None, adds_c: bool) -> tuple[float, Choice | None]:
    """The best that a table has of a problem and that may be picked, of the first table that has one, and its
    microseconds; None where no table has one."""
    for table in store.load(device):
        found, baselines = list[tuple[tuple[bool, bool, float], Choice]](), dict[bool, float | None]()
        for entry in table.measured(asked.problem, asked.addresses):
            kernel, config = choice = Choice(find(entry.kernel), Config(entry.config))
            if asked.takes(kernel) and order in (None, kernel.sums(config).order):
                # The GPU may have been slower in one run than in another, which cuBLAS tells.
                first = baselines.setdefault(kernel.support.precision == "tf32", entry.baseline_gflops)
                us = entry.time_us * (entry.baseline_gflops / first if entry.baseline_gflops and first else 1.0)
                if asked.problem.epilogue.activation:
                    us += float(unhidden_us(np.array(tile_of(*choice)), asked.problem, asked.gpu))
                if asked.cached:  # what was measured made the copy
                    us -= _split(kernel) * asked.cached_us
                found.append(((adds_c and not kernel.support.separate_c, not entry.accurate, us), choice))
        if found:
            (*_, us), choice = min(found, key=itemgetter(0))
            return us, choice
    return inf, None


def unhidden_us(tiles: Floats, problem: Problem, gpu: Gpu) -> Floats:
    """Microseconds that tensor cores wait for a problem's activation, a config each; 0 where there is none.

    Threads compute it at the end of a tile. Tensor cores wait, unless another consumer of the block has a tile of its
    own (`PINGPONG`) and multiplies meanwhile.

    tiles: `tile_of` configs, a column each.
    """
    rows, cols, waits = tiles
    waves = np.ceil(np.ceil(problem.m / rows) * np.ceil(problem.n / cols) * problem.batch / gpu.multiprocessors)
    elements: Floats = waits * waves * rows * cols
    return elements * _ACTIVATION_NS.get(problem.epilogue.activation, 0.0) / 1e3


def tile_of(kernel: Kernel, config: Config) -> tuple[int, int, bool]:
    """Rows and columns of a config's tile, and whether tensor cores wait for its activation."""
    return *kernel.tile(config)[:2], not config.get("PINGPONG", 1)


def _may_be_picked(kernel: Kernel, problem: Problem) -> bool:
    """Whether a kernel that nobody named may be picked, if `Kernel.why_not` says nothing against it: it keeps float32's
    precision where the problem promises none, and has something to split."""
    return (problem.arithmetic.precision is not None or kernel.meets(None)) and not (kernel.split and not problem.k)


def _any(asked: _GpuProblem) -> tuple[Kernel, Config]:
    """The last kernel that may be picked at all: one without a portfolio.

    Raises:
        DtypeError, ProblemError: there is none.
    """
    problem, capability, errors = asked.problem, asked.capability, list[Exception | None]()
    for kernel in reversed(KERNELS):
        if kernel.support.runs_on(capability, problem.dtype) and _may_be_picked(kernel, problem):
            errors.append(kernel.why_not(problem, capability, asked.addresses))
            if errors[-1] is None:
                return kernel, kernel.config(capability=capability)
    reason = next((error for error in errors if not isinstance(error, DtypeError)), None)
    words = f"no kernel takes {problem.case} operands like these on compute capability {capability[0]}.{capability[1]}"
    raise DtypeError(words) if reason is None else type(reason)(f"{words}: {reason}")


def _for_groups(kernel: Kernel, problem: Problem, capability: tuple[int, int] | None, device: str) -> Config:
    if capability is None:
        return kernel.config(_EMULATED_GROUPS)
    if error := kernel.support.why_not_on(kernel.name, capability, problem.dtype):
        raise error
    compared = compared_on(device, capability, problem.dtype, problem.arithmetic.precision, None, grouped=True)
    assert compared is not None
    models = compared.models
    few = problem.m <= _FEW_ROWS * problem.batch
    numbers = [number for number, one in enumerate(models.fitted) if (one.config.BM <= _FEW_ROWS) == few]

    def us(number: int) -> float:
        config = models.fitted[number].config
        return float(models.us(expected_of_groups(problem, config.BM * config.CLUSTER_M))[number])

    return models.fitted[min(numbers, key=us)].config


def expected_of_groups(problem: Problem, height: int) -> ProblemSizes:
    """The tall product that a grouped one is taken for, with clusters' tiles of `height` rows."""
    m, n, k, groups = problem.m, problem.n, problem.k, min(problem.batch, problem.m)
    rows, item = max(m + groups * height // 2, groups * height, 1), ITEM_BYTES[problem.dtype]
    sizes = ProblemSizes.of(problem)._replace(m=rows, batch=1, a_bytes=item * m * k, b_bytes=item * groups * k * n)
    return sizes._replace(d_bytes=ITEM_BYTES[problem.result] * m * n)


def _for_emulator(problem: Problem, addresses: Addresses) -> tuple[Kernel, Config]:
    for kernel, config in _emulated(problem):
        if kernel.meets(problem.arithmetic.precision) and kernel.why_not(problem, addresses=addresses) is None:
            return kernel, config
    raise DtypeError(f"no kernel takes {problem.case} operands like these")


def _emulated(problem: Problem) -> Iterator[tuple[Kernel, Config]]:
    """Kernels and configs for the emulator, in the order in which they are preferred: of a batch-invariant problem
    those with the one order of sums, whose tiles reach least beyond D first."""
    if order := orders.order_of(problem.arithmetic, None):
        choices = [Choice(kernel, config) for kernel, configs in orders.keeping(order).items() for config in configs]
        yield from sorted(choices, key=lambda one: one.kernel.tiles(problem, one.config) * prod(tile_of(*one)[:2]))
        return
    for kernel, overrides in map(resolve, _EMULATED):
        config = kernel.config(overrides)
        tile = kernel.tile(config)
        if problem.m >= tile.m and problem.n >= tile.n:
            yield kernel, config
    for kernel, overrides in (*map(resolve, _SMALLEST), *((kernel, {}) for kernel in reversed(KERNELS))):
        yield kernel, kernel.config(overrides)
