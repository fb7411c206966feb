"""Measured speeds of a launch: of the rungs of the course, and of the tables that ship."""

import itertools
from collections.abc import Iterator

from tilewright.core.gpus import Gpu, find_gpu
from tilewright.core.problem import Problem
from tilewright.kernels import recorded
from tilewright.kernels.config import Config
from tilewright.kernels.kernel import Kernel
from tilewright.select.tables import store
from tilewright.select.tables.cases import timed_case
from tilewright.tools.explain.explanation import MeasuredSpeed
from tilewright.tools.report import course


def find_measured(kernel: Kernel, config: Config, problem: Problem, gpu: Gpu) -> MeasuredSpeed | None:
    """The speed of a launch on a GPU of this product; None where it was not measured.

    Alpha, beta and what the problem promises are not compared: they make no difference that shows next to a product.
    """
    found = itertools.chain(_of_course(kernel, config, problem, gpu), _of_tables(kernel, config, problem, gpu))
    return next(found, None)


def _of_course(kernel: Kernel, config: Config, problem: Problem, gpu: Gpu) -> Iterator[MeasuredSpeed]:
    measured = course.measured()
    if find_gpu(measured.gpu, measured.capability).name != gpu.name:
        return
    case = f"NN {kernel.support.arithmetic()}"
    launch = kernel.name, problem.shape, timed_case(problem)
    for one in measured.rungs:
        if (one.kernel, one.shape, case) == launch and recorded(kernel.name, one.config) == config:
            yield MeasuredSpeed(one.gflops, f"the bench of {one.date} on an {measured.gpu}")


def _of_tables(kernel: Kernel, config: Config, problem: Problem, gpu: Gpu) -> Iterator[MeasuredSpeed]:
    problem_of = problem.m, problem.n, problem.k, problem.batch, timed_case(problem)
    for table in store.shipped():
        if find_gpu(table.gpu, table.capability).name != gpu.name:
            continue
        for entry in table.entries:
            if entry.kernel == kernel.name and entry.problem == problem_of and entry.config == dict(config):
                yield MeasuredSpeed(entry.gflops, f"the tuned table of an {table.gpu}")
