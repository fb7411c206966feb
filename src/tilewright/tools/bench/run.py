"""A bench run: which kernels, which problems, next to which library."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple, TypeVar

import numpy as np

from tilewright.core.problem import UNSCALED, Arithmetic, Problem, Scalars
from tilewright.emulator.host import cores
from tilewright.kernels import BEST
from tilewright.kernels.kernel import Choice
from tilewright.runtime.base import Engine, Work
from tilewright.runtime.side_by_side import Workers
from tilewright.select.selector import select
from tilewright.tools.bench import measure
from tilewright.tools.bench.end_to_end import TorchCalls
from tilewright.tools.bench.measure import BaselineLibrary, OnStep, OperandSet
from tilewright.tools.bench.records import LaunchedKernel, Record, Result
from tilewright.tools.bench.verify import Operands

_Found = TypeVar("_Found", bound=Result)


class NumpyBaseline:
    """NumPy's matrix product on the CPU, next to the emulator where there is no GPU.

    It is made of host arrays of its own, in float32 whatever the problem's element type is.
    """

    version = np.__version__

    def works(
        self, problem: Problem, sets: Sequence[OperandSet], precision: str | None = None, scalars: Scalars = Scalars()
    ) -> Mapping[str, Work]:
        """One way: numpy.matmul, on random operands of the problem's sizes and layouts, whatever the sets and precision
        are."""
        operands = Operands.draw(replace(problem, arithmetic=Arithmetic(), scaling=UNSCALED), scalars)
        a, b, c = operands.a, operands.b, operands.c
        product = np.empty_like(c)

        def work(index: int, stream: object) -> None:
            np.matmul(a, b, out=product)
            if scalars.alpha != 1:
                np.multiply(product, scalars.alpha, out=product)
            if scalars.beta:
                np.add(product, scalars.beta * c, out=product)

        return {"NumPy": work}

    def result(self, work: Work, sets: Sequence[OperandSet]) -> None:
        """None: it has operands of its own."""

    def kernels(self, work: Work) -> list[LaunchedKernel]:
        """None: it runs on the CPU."""
        return []


def baseline_library(engine: Engine) -> BaselineLibrary:
    """Library that an engine's kernels are compared with: cuBLAS on a GPU, NumPy on the emulator.

    Raises:
        EngineUnavailableError: cuBLAS or its bindings are not installed; the message says how to.
    """
    if engine.capability is None:
        return NumpyBaseline()
    from tilewright.runtime.cuda import CudaEngine  # noqa: PLC0415
    from tilewright.tools.bench.cublas import CublasBaseline  # noqa: PLC0415 its imports need a GPU's libraries

    assert isinstance(engine, CudaEngine)
    return CublasBaseline(engine)


def bench(
    engine: Engine,
    tasks: Sequence[tuple[Sequence[Choice | str], Problem]],
    *,
    samples: int,
    library: BaselineLibrary | None,
    scalars: Scalars = Scalars(),
    prepared: bool = False,
    batch_invariant: bool = False,
    name_kernels: bool = False,
    framework: TorchCalls | None = None,
    on_step: OnStep = lambda what, done, total: None,
) -> Iterator[list[Record]]:
    """Measure choices on one problem after the other; yields the records of each as they come.

    A choice may be `BEST`: its records say so for a kernel, and have the rung, the config and in `picked` the name of
    what the selector picked.

    Args:
        engine, samples, library, scalars, name_kernels, on_step: see `measure.measure`.
        tasks: what to run on each problem, and the problem; its matrices have no gaps.
        prepared: whether each choice is measured with b prepared too, in the same run; its record is the next.
        batch_invariant: whether what the selector picks of one order of sums is measured too, in the same run, after
            what it picks of all; other choices must have an order.
        framework: whose own calls matmul is timed next to, end to end; None leaves that out.

    Raises:
        DtypeError, ProblemError: a kernel does not take a problem; raised before anything runs.
        CompileError, LaunchError: a kernel cannot be run.
    """
    asked_of = [[one for choice in some for one in _asked(choice, prepared, batch_invariant)] for some, _ in tasks]
    picked = [[_pick(engine, one, task[1]) for one in asked] for asked, task in zip(asked_of, tasks, strict=True)]
    for (_, problem), asked, chosen in zip(tasks, asked_of, picked, strict=True):
        records = measure.measure(
            engine,
            chosen,
            problem,
            samples=samples,
            library=library,
            scalars=scalars,
            prepared=[number for number, one in enumerate(asked) if one.cached],
            name_kernels=name_kernels,
            on_step=on_step,
        )
        records = [one.noted(record) for one, record in zip(asked, records, strict=True)]
        if framework:
            for number, (one, choice) in enumerate(zip(asked, chosen, strict=True)):
                given = None if one.choice == BEST else choice
                new, out = framework.measure(one.problem_of(problem), scalars, given, records[number].prepared)
                records[number] = records[number].model_copy(update={"end_to_end": new, "end_to_end_out": out})
        yield records


def verify(
    engine: Engine,
    tasks: Sequence[tuple[Choice | str, Problem]],
    *,
    scalars: Scalars = Scalars(),
    prepared: bool = False,
    batch_invariant: bool = False,
    on_step: OnStep = lambda what, done, total: None,
) -> list[Result]:
    """Run each choice once on its problem and compare the result with float64; nothing is timed.

    Kernels are compiled side by side, and run in turn as soon as they are.

    Args:
        engine, scalars, prepared, batch_invariant: see `bench`.
        tasks: what to run, and on which problem.
        on_step: called after every result.

    Raises:
        DtypeError, ProblemError: a kernel does not take a problem; raised before anything runs.
        CompileError, LaunchError: a kernel cannot be run.
    """
    asked = [(one, problem) for choice, problem in tasks for one in _asked(choice, prepared, batch_invariant)]
    picked = [_pick(engine, *one) for one in asked]
    seen = list(dict.fromkeys(problem for _, problem in asked))
    order = sorted(range(len(asked)), key=lambda index: seen.index(asked[index][1]))  # one problem's operands at a time
    results: dict[int, Result] = {}

    def compile_one(index: int) -> None:
        one, problem = asked[index]
        engine.plan(*picked[index], problem if scalars.alpha else problem.without_products, cached=one.cached)

    with Workers(cores()) as threads:
        compiled = [threads.submit(compile_one, index) for index in order]
        for problem, indices in groupby(zip(order, compiled, strict=True), key=lambda one: asked[one[0]][1]):
            operands = Operands.draw(problem, scalars)
            for index, ready in indices:
                ready.result()
                (one, _), choice = asked[index], picked[index]
                _, error = measure.verify(engine, *choice, operands, one.cached)
                results[index] = one.noted(measure.result_of(engine, choice, operands, error, bool(one.cached)))
                on_step(f"{problem.shape}: verified {choice.kernel.name}", len(results), len(asked))
    return [results[index] for index in range(len(asked))]


class _Measurements(NamedTuple):
    """Choices of kernels to measure on a problem, and how."""

    choice: Choice | str
    cached: str | None
    """The operand whose copy is cached."""
    batch_invariant: bool

    def problem_of(self, problem: Problem) -> Problem:
        """The problem as it is asked for."""
        if not self.batch_invariant:
            return problem
        return replace(problem, arithmetic=replace(problem.arithmetic, batch_invariant=True))

    def noted(self, found: _Found) -> _Found:
        """A result or record of it that says so."""
        picked = {"kernel": BEST, "picked": found.kernel} if self.choice == BEST else {}
        return found.model_copy(update={**picked, "batch_invariant": self.batch_invariant})


def _asked(choice: Choice | str, prepared: bool, batch_invariant: bool) -> list[_Measurements]:
    return [
        _Measurements(choice, cached, invariant)
        for cached in ((None, "B") if prepared else (None,))
        for invariant in ((False, True) if batch_invariant and choice == BEST else (batch_invariant,))
    ]


def pick(engine: Engine, problem: Problem, cached: str | None = None) -> Choice:
    """Kernel and config that `matmul` runs a problem with on an engine; cached: the operand whose copy is cached.

    Raises:
        DtypeError, ProblemError: no kernel takes the problem there.
    """
    return Choice(*select(problem, engine.capability, engine.device_name, cached=cached))


def _pick(engine: Engine, asked: _Measurements, problem: Problem) -> Choice:
    """The choice itself, or what the selector picks.

    Raises:
        DtypeError, ProblemError: the kernel does not take the problem.
    """
    choice = pick(engine, asked.problem_of(problem), asked.cached) if isinstance(asked.choice, str) else asked.choice
    choice.kernel.check(problem)
    choice.kernel.check_order(asked.problem_of(problem), choice.config)
    return choice
