"""NumPy on the CPU: the reference next to the emulator, where there is no GPU to compare on."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tilewright.bench.measure import OperandSet
from tilewright.bench.records import LaunchedKernel
from tilewright.bench.verify import Operands
from tilewright.core.problem import UNSCALED, Arithmetic, Problem, Scalars
from tilewright.engines.base import Work


class NumpyBaseline:
    """NumPy's matrix product, on host arrays of its own, in float32 whatever the problem's element type is."""

    version = np.__version__

    def works(
        self,
        problem: Problem,
        sets: Sequence[OperandSet],
        precision: str | None = None,
        scalars: Scalars = Scalars(),
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
