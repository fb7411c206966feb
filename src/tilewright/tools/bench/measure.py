"""The timing protocol: kernels and baselines on one problem, verified, then timed against each other."""

import itertools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tilewright.core.hardware import round_up
from tilewright.core.problem import Epilogue, Order, Problem, Scalars
from tilewright.kernels.config import Config
from tilewright.kernels.kernel import Choice, Kernel
from tilewright.kernels.support import VECTOR_BYTES
from tilewright.runtime.base import Engine, Matrix, Work, matrix_at, memory_lines, run
from tilewright.runtime.plan import Plan, Pointers
from tilewright.tools.bench.environment import gpu_state
from tilewright.tools.bench.records import Baseline, Error, GpuState, LaunchedKernel, Record, Result, Timed, Times
from tilewright.tools.bench.verify import Operands, limit

_MOST_SETS = 4096  # of operands; reached only where one set is smaller than 30 kB


OnStep = Callable[[str, int, int], None]
"""Called with the work in progress, the number of its steps that are done, and the number of all."""


class OperandSet(NamedTuple):
    """One set of operands in the engine's memory."""

    a: Matrix
    b: Matrix
    c: Matrix
    """C and D: updated in place."""
    bias: Matrix | None = None
    scale_a: Matrix | None = None
    scale_b: Matrix | None = None

    @property
    def pointers(self) -> Pointers:
        rest = {
            name: matrix.pointer if (matrix := getattr(self, name)) else 0 for name in ("bias", "scale_a", "scale_b")
        }
        return Pointers(self.a.pointer, self.b.pointer, self.c.pointer, **rest)


class BaselineLibrary(Protocol):
    """A library that computes the same product, to compare with."""

    version: str

    def works(
        self, problem: Problem, sets: Sequence[OperandSet], precision: str | None = None, scalars: Scalars = Scalars()
    ) -> Mapping[str, Work]:
        """Ways to compute the product, by name; the fastest is the baseline. Empty where the library has none.

        Their factors are rounded to this precision (see `Support.precision`), and the names are others for each.
        """

    def result(self, work: Work, sets: Sequence[OperandSet]) -> NDArray[Any] | None:
        """C of the first set after one run of such a work; None where it computes with operands of its own."""

    def kernels(self, work: Work) -> list[LaunchedKernel]:
        """The kernels that one run of such a work launches on a GPU, in order; none where it uses no GPU."""


def measure(
    engine: Engine,
    choices: Sequence[Choice],
    problem: Problem,
    *,
    samples: int,
    library: BaselineLibrary | None,
    scalars: Scalars = Scalars(),
    prepared: Collection[int] = (),
    name_kernels: bool = False,
    on_step: OnStep = lambda what, done, total: None,
) -> list[Record]:
    """Verify each choice, then time all of them and the baseline, their samples interleaved.

    A kernel that rounds its operands is compared with the library doing so too, not with its exact product.

    Operands rotate through sets that together fill the last-level cache twice, so that no run finds its own in it.

    Args:
        engine: where to run.
        choices: what to run.
        problem: what to compute; its matrices have no gaps.
        samples: timed samples of each choice and baseline.
        library: what to compare with.
        scalars: alpha and beta.
        prepared: numbers of the choices for which B's copy is made beforehand, and not timed.
        name_kernels: whether the records name the kernels that the baseline launches.
        on_step: called after every verification and every sample.

    Raises:
        DtypeError, CompileError, LaunchError: a choice cannot be run.
    """
    operands = Operands.draw(problem, scalars)
    sets = operand_sets(engine, operands)
    precisions = dict.fromkeys(_rounding(kernel) for kernel, _ in choices)
    rivals_by_precision = {
        named: library.works(problem, sets, named, scalars) if library else {} for named in precisions
    }
    rivals = {name: work for works in rivals_by_precision.values() for name, work in works.items()}
    total = len(choices) + samples * series(engine, len(choices) + len(rivals))
    done = itertools.count(1)

    plans, results = [], []
    for number, choice in enumerate(choices):
        plan, error = verify(engine, *choice, operands, "B" if number in prepared else None)
        plans.append(plan)
        results.append(result_of(engine, choice, operands, error, number in prepared))
        on_step(f"{problem.shape}: verified {choice.kernel.name}", next(done), total)

    works = [work_on(engine, plan, sets, scalars) for plan in plans]
    times = time_both(
        engine,
        [*works, *rivals.values()],
        samples,
        rotation=len(sets),
        on_sample=lambda: on_step(f"{problem.shape}: timing", next(done), total),
    )
    state = gpu_state(engine)
    rival_times = dict(zip(rivals, times[len(works) :], strict=True))
    baselines = {
        precision: _baseline(operands, sets, library, named, rival_times, name_kernels)
        for precision, named in rivals_by_precision.items()
    }
    return [
        _record(result, time, baselines[_rounding(choice.kernel)], state)
        for choice, result, time in zip(choices, results, times[: len(works)], strict=True)
    ]


def time_both(
    engine: Engine, works: Sequence[Work], samples: int, *, rotation: int, on_sample: Callable[[], None] = lambda: None
) -> list[Timed]:
    """Time works back to back, and each run after a short piece of other work, whose own time is taken off.

    The second is what a product costs among other kernels. Back to back, where a launch may begin while the one before
    it ends, blocks of a launch start one after the other; after other work all start at once, and load the same lines
    of memory at the same time: what is fastest then is often another config.

    Args: see `Engine.time`; it takes `series(engine, len(works))` series of samples.
    """
    if engine.capability is None:
        sampled = engine.time(works, samples, rotation=rotation, on_sample=on_sample)
        return [Timed(time_us=Times.of(one)) for one in sampled]

    def after_other(work: Work, index: int, stream: object) -> None:
        engine.start_other(stream)
        work(index, stream)

    following = [partial(after_other, work) for work in works]
    *sampled, other = engine.time(
        [*works, *following, lambda index, stream: engine.start_other(stream)],
        samples,
        rotation=rotation,
        on_sample=on_sample,
    )
    together, both = sampled[: len(works)], sampled[len(works) :]
    after_other_work = [[max(us - before, 0.0) for us, before in zip(one, other, strict=True)] for one in both]
    return [
        Timed(time_us=Times.of(one), after_other_work_us=Times.of(after))
        for one, after in zip(together, after_other_work, strict=True)
    ]


def series(engine: Engine, works: int) -> int:
    """How many series of samples `time_both` takes of this many works."""
    return works if engine.capability is None else 2 * works + 1


def _rounding(kernel: Kernel) -> str | None:
    """Type to which the baseline rounds factors: the kernel's. No library has products of bfloat16 or float16 parts: a
    kernel of these is compared with the product of the factors as they are."""
    return None if kernel.support.multiplies_parts else kernel.support.precision


def _baseline(
    operands: Operands,
    sets: Sequence[OperandSet],
    library: BaselineLibrary | None,
    works: Mapping[str, Work],
    times: Mapping[str, Timed],
    name_kernels: bool,
) -> Baseline | None:
    """The fastest of a library's ways; times may hold those of others too."""
    if library is None or not works:
        return None
    name = min(works, key=lambda way: times[way].time_us.median)
    after_other_work = [time for way in works if (time := times[way].after_other_work_us)]
    # With another beta, C is not what it was: the runs have added to it again and again. And libraries compute the
    # product alone, without bias and activation.
    comparable = operands.scalars.beta == 0 and operands.problem.epilogue == Epilogue()
    result = library.result(works[name], sets) if comparable else None
    error = math.nan if result is None else operands.error(result)
    return Baseline(
        name=name,
        version=library.version,
        time_us=times[name].time_us,
        after_other_work_us=min(after_other_work, key=lambda time: time.median, default=None),
        gflops=operands.problem.gflops(times[name].time_us.median),
        kernels=library.kernels(works[name]) if name_kernels else None,
        error=error if math.isfinite(error) else None,
    )


def verify(
    engine: Engine, kernel: Kernel, config: Config, operands: Operands, cached: str | None = None
) -> tuple[Plan, float]:
    """Run a kernel once; its plan, and its relative error. cached: see `Engine.plan`."""
    (one,) = operand_sets(engine, operands, count=1)
    problem, scalars = operands.problem, operands.scalars
    plan = run(
        engine, kernel, config, problem, one.a, one.b, one.c, scalars, bias=one.bias, scales=one[-2:], cached=cached
    )
    return plan, operands.error(engine.download(one.c))


def reads_c(engine: Engine, kernel: Kernel, config: Config, operands: Operands) -> bool:
    """Whether what is wrong with a kernel is that it reads C where beta is 0: with zeros in C it is right."""
    if operands.scalars.beta or "beta" not in kernel.scalars:
        return False
    _, error = verify(engine, kernel, config, replace(operands, c=np.zeros_like(operands.c)))
    return error <= limit(operands.problem, kernel.support.precision)


def work_on(engine: Engine, plan: Plan, sets: Sequence[OperandSet], scalars: Scalars = Scalars()) -> Work:
    """Runs of a plan, each on the next set of operands; of copies of B that are cached, each set has its own."""
    copies = [engine.keep(plan.cached, one.b.pointer, None) if plan.cached else None for one in sets]

    def work(index: int, stream: object) -> None:
        pointers, copy = sets[index % len(sets)].pointers, copies[index % len(sets)]
        engine.start(plan, pointers._replace(cached=copy.pointer) if copy else pointers, scalars, stream)

    return work


def operand_sets(engine: Engine, operands: Operands, count: int | None = None) -> list[OperandSet]:
    """Copies of the operands; if not said how many, enough of them to fill the engine's last-level cache twice."""
    size = operands.a.nbytes + operands.b.nbytes + operands.c.nbytes
    if count is None:
        rotates = engine.capability is not None and size
        count = min(max(math.ceil(2 * engine.cache_bytes / size), 1), _MOST_SETS) if rotates else 1
    problem = operands.problem
    a, b = _copies(engine, operands.a, count, problem.a.order), _copies(engine, operands.b, count, problem.b.order)
    c = _copies(engine, operands.c, count)
    bias = None if operands.bias is None else operands.bias[np.newaxis]
    rest = [
        [None] * count if array is None else _copies(engine, array, count)
        for array in (bias, operands.scale_a, operands.scale_b)
    ]
    return [OperandSet(*matrices) for matrices in zip(a, b, c, *rest, strict=True)]


def _copies(engine: Engine, array: NDArray[Any], count: int, order: Order = "row") -> list[Matrix]:
    """Copies of an array in one allocation, each at an address that is a multiple of 16."""
    lines = memory_lines(array, 0, order)
    whole = VECTOR_BYTES // array.itemsize
    size = round_up(lines.size, whole)
    stack = np.zeros((count, size), array.dtype)
    stack[:, : lines.size] = lines.reshape(-1)
    memory = engine.upload(stack)
    step, ld = size * array.itemsize, lines.shape[1]
    return [matrix_at(memory.pointer + index * step, array, ld, order, memory.owner) for index in range(count)]


def result_of(engine: Engine, choice: Choice, operands: Operands, error: float, prepared: bool) -> Result:
    """Record of a kernel's result, without times. prepared: whether B's copy was made beforehand."""
    problem = operands.problem
    allowed = limit(problem, choice.kernel.support.precision)
    return Result(
        kernel=choice.kernel.name,
        rung=choice.kernel.rung,
        config=dict(choice.config),
        **{name: getattr(problem, name) for name in ("m", "n", "k", "dtype", "layout", "batch")},
        **asdict(problem.epilogue),
        **operands.scalars.named,
        dtype_b=problem.arithmetic.of_b,
        promise=problem.arithmetic.precision,
        batch_invariant=problem.arithmetic.batch_invariant,
        engine=engine.name,
        error=Error(relative_frobenius=error if math.isfinite(error) else None, limit=allowed),
        verified=bool(error <= allowed),
        prepared=prepared,
        precision=choice.kernel.support.precision,
        out_dtype=problem.result,
        scaling=problem.scaling.kind,
    )


def _record(result: Result, time: Timed, baseline: Baseline | None, state: GpuState | None) -> Record:
    median = time.time_us.median
    return Record(
        **dict(result),
        **dict(time),
        gflops=result.problem.gflops(median),
        baseline=baseline,
        ratio=baseline.time_us.median / median if baseline and median > 0 else None,
        gpu_state=state,
    )
