"""The timing protocol: kernels and baselines on one problem, verified, then timed against each other."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tilewright.bench.records import Baseline, Error, Record, Times
from tilewright.bench.verify import Operands, limit
from tilewright.engines.base import Engine, Executable, Matrix, Work, run
from tilewright.kernels.spec import Config, Kernel
from tilewright.problem import Problem

_MOST_SETS = 4096  # of operands; reached only where one set is smaller than 30 kB


OnStep = Callable[[str, int, int], None]
"""Told what is going on, how many steps of it are done, and how many there are."""


class Choice(NamedTuple):
    """A kernel and the config to run it with."""

    kernel: Kernel
    config: Config


class OperandSet(NamedTuple):
    """One A, B and C in the engine's memory."""

    a: Matrix
    b: Matrix
    c: Matrix


class BaselineLibrary(Protocol):
    """A library that computes the same product, to compare with."""

    version: str

    def works(self, problem: Problem, sets: Sequence[OperandSet]) -> Mapping[str, Work]:
        """Ways to compute the product, by name; the fastest is the baseline. Empty where the library has none."""


def measure(
    engine: Engine,
    choices: Sequence[Choice],
    problem: Problem,
    *,
    samples: int,
    library: BaselineLibrary | None,
    on_step: OnStep = lambda what, done, total: None,
) -> list[Record]:
    """Verify each choice, then time all of them and the baseline, their samples interleaved.

    Operands rotate through sets that together fill the last-level cache twice, so that no run finds its own in it.

    Args:
        engine: where to run.
        choices: what to run.
        problem: what to compute; leading dimensions are the tight ones.
        samples: timed samples of each choice and baseline.
        library: what to compare with.
        on_step: called after every verification and every sample.

    Raises:
        DtypeError, CompileError, LaunchError: a choice cannot be run.
    """
    operands = Operands.draw(problem)
    sets = _operand_sets(engine, operands)
    rivals = library.works(problem, sets) if library else {}
    total = len(choices) + samples * (len(choices) + len(rivals))
    done = itertools.count(1)

    executables, errors = [], []
    for kernel, config in choices:
        executable, error = _verify(engine, kernel, config, operands)
        executables.append(executable)
        errors.append(error)
        on_step(f"{problem.shape}: verified {kernel.name}", next(done), total)

    works = [_work(engine, executable, problem, sets) for executable in executables]
    times = [
        Times.of(sampled)
        for sampled in engine.time(
            [*works, *rivals.values()],
            samples,
            rotation=len(sets),
            on_sample=lambda: on_step(f"{problem.shape}: timing", next(done), total),
        )
    ]
    baseline = None
    if library and rivals:
        name, best = min(zip(rivals, times[len(works) :], strict=True), key=lambda rival: rival[1].median)
        baseline = Baseline(name=name, version=library.version, time_us=best, gflops=problem.gflops(best.median))
    return [
        _record(engine, choice, problem, time, error, baseline)
        for choice, time, error in zip(choices, times[: len(works)], errors, strict=True)
    ]


def _verify(engine: Engine, kernel: Kernel, config: Config, operands: Operands) -> tuple[Executable, float]:
    """Run a kernel once; what was run, and its relative error."""
    a, b, c = (engine.upload(array) for array in (operands.a, operands.b, operands.c))
    executable = run(engine, kernel, config, operands.problem, a, b, c)
    return executable, operands.error(engine.download(c))


def _work(engine: Engine, executable: Executable, problem: Problem, sets: Sequence[OperandSet]) -> Work:
    def work(index: int, stream: object) -> None:
        engine.launch(executable, problem, *sets[index % len(sets)], stream)

    return work


def _operand_sets(engine: Engine, operands: Operands) -> list[OperandSet]:
    """Copies of the operands, enough of them to fill the engine's last-level cache twice."""
    size = operands.a.nbytes + operands.b.nbytes + operands.c.nbytes
    count = 1
    if engine.capability is not None and size:
        count = min(max(math.ceil(2 * engine.cache_bytes / size), 1), _MOST_SETS)
    copies = (_copies(engine, array, count) for array in (operands.a, operands.b, operands.c))
    return [OperandSet(*matrices) for matrices in zip(*copies, strict=True)]


def _copies(engine: Engine, array: NDArray[np.float32], count: int) -> list[Matrix]:
    """Copies of an array in one allocation, each at an address that is a multiple of 16."""
    rows, cols = array.shape
    stride = -(-rows // 4) * 4  # four rows of any length are a multiple of 16 bytes
    stack = np.zeros((count, stride, cols), np.float32)
    stack[:, :rows] = array
    whole = engine.upload(stack.reshape(count * stride, cols))
    step = stride * cols * array.itemsize
    return [replace(whole, pointer=whole.pointer + index * step, rows=rows) for index in range(count)]


def _record(
    engine: Engine, choice: Choice, problem: Problem, time: Times, error: float, baseline: Baseline | None
) -> Record:
    allowed = limit(problem)
    return Record(
        kernel=choice.kernel.name,
        rung=choice.kernel.rung,
        config=dict(choice.config),
        m=problem.m,
        n=problem.n,
        k=problem.k,
        alpha=problem.alpha,
        beta=problem.beta,
        dtype=problem.dtype,
        engine=engine.name,
        time_us=time,
        gflops=problem.gflops(time.median),
        baseline=baseline,
        ratio=baseline.time_us.median / time.median if baseline and time.median > 0 else None,
        error=Error(relative_frobenius=error if math.isfinite(error) else None, limit=allowed),
        verified=bool(error <= allowed),
    )
