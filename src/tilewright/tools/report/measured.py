"""Measured speeds of a launch: of the rungs of the course, and of the tables that ship."""

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
    case, measured = timed_case(problem), course.measured()
    if find_gpu(measured.gpu, measured.capability).name == gpu.name and case == f"NN {kernel.support.arithmetic()}":
        for one in measured.rungs:
            if (one.kernel, one.shape) == (kernel.name, problem.shape) and recorded(kernel.name, one.config) == config:
                return MeasuredSpeed(one.gflops, f"the bench of {one.date} on an {measured.gpu}")
    problem_of = problem.m, problem.n, problem.k, problem.batch, case
    for table in store.shipped():
        if find_gpu(table.gpu, table.capability).name == gpu.name:
            for entry in table.entries:
                if entry.kernel == kernel.name and entry.problem == problem_of and entry.config == dict(config):
                    return MeasuredSpeed(entry.gflops, f"the tuned table of an {table.gpu}")
    return None
