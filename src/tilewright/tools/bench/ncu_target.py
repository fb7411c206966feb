"""Target of Nsight Compute: `python -m tilewright.tools.bench.ncu_target LAUNCHES.json` runs each launch once."""

import json
import sys
from pathlib import Path

from cuda.bindings import driver

from tilewright.core.problem import Scalars
from tilewright.kernels import find
from tilewright.runtime.base import run
from tilewright.runtime.cuda import CudaEngine
from tilewright.runtime.driver import check
from tilewright.tools.bench.cublas import CublasBaseline
from tilewright.tools.bench.measure import OperandSet, operand_sets
from tilewright.tools.bench.ncu import CUBLAS, CUBLAS_TF32, ProfiledLaunch
from tilewright.tools.bench.verify import Operands


def main() -> None:
    """Launch everything in order, on random operands."""
    engine = CudaEngine()
    for one in json.loads(Path(sys.argv[1]).read_text()):
        launch = ProfiledLaunch(**one)
        scalars = Scalars(launch.alpha, launch.beta)
        (operands,) = operand_sets(engine, Operands.draw(launch.problem, scalars), count=1)
        if launch.kernel in (CUBLAS, CUBLAS_TF32):
            _run_cublas(engine, launch, operands)
        else:
            kernel = find(launch.kernel)
            run(engine, kernel, kernel.config(launch.config), launch.problem, *operands[:3], scalars)
        engine.synchronize()


def _run_cublas(engine: CudaEngine, launch: ProfiledLaunch, operands: OperandSet) -> None:
    """Its default, twice: the first call may launch what later ones do not. The profiler is given the second."""
    precision = "tf32" if launch.kernel == CUBLAS_TF32 else None
    work = CublasBaseline(engine).default(launch.problem, [operands], precision)
    with engine.current:
        work(0, engine.stream)
        engine.synchronize()
        check(driver.cuProfilerStart())
        work(0, engine.stream)
        engine.synchronize()
        check(driver.cuProfilerStop())


if __name__ == "__main__":
    main()
