"""What Nsight Compute profiles: `python -m tilewright.bench.ncu_target LAUNCHES.json` runs each launch once."""

import json
import sys
from pathlib import Path

import numpy as np

from tilewright.bench.ncu import Launch
from tilewright.engines.base import run
from tilewright.engines.cuda import CudaEngine
from tilewright.kernels import find
from tilewright.problem import Scalars


def main() -> None:
    """Launch everything in order, on operands of zeros."""
    engine = CudaEngine()
    for one in json.loads(Path(sys.argv[1]).read_text()):
        launch = Launch(**one)
        kernel, problem = find(launch.kernel), launch.problem
        a = engine.upload(np.zeros((problem.m, problem.k), dtype=problem.dtype), order=problem.a.order)
        b = engine.upload(np.zeros((problem.k, problem.n), dtype=problem.dtype), order=problem.b.order)
        c = engine.upload(np.zeros((problem.m, problem.n), dtype=problem.result))
        run(engine, kernel, kernel.config(launch.config), problem, a, b, c, Scalars(launch.alpha, launch.beta))
        engine.synchronize()


if __name__ == "__main__":
    main()
