"""Blocks that start as one on a real GPU. On the emulator each is launched by itself."""

import pytest

from starting import poisoned
from this_gpu import HAS_TENSOR_MAPS
from tilewright.core.problem import Problem, Scalars
from tilewright.kernels.library import tma_transposed
from tilewright.runtime.base import run
from tilewright.tools.bench.verify import Operands, limit

SMALL = {"BM": 32, "BN": 64, "BK": 64, "K_SLICES": 4, "A_BUFFERS": 1, "UNROLL": 16}
LARGE = {"BM": 64, "BN": 128, "BK": 48, "K_SLICES": 1, "A_BUFFERS": 1, "UNROLL": 16}


@pytest.mark.parametrize("_", HAS_TENSOR_MAPS)
@pytest.mark.parametrize("bundle", [1, 2, 3, 4])
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("shape", [(1120, 256, 1312), (777, 777, 777), (331, 1777, 130), (31, 65, 7), (400, 320, 0)])
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 0.0), (-0.5, 1.5)])
def test_blocks_in_bundles_compute_their_tiles(engine, shape, workers, bundle, alpha, beta, _):
    problem, scalars = Problem(*shape), Scalars(alpha, beta)
    operands = Operands.draw(problem, scalars)
    a, b = engine.upload(operands.a), engine.upload(operands.b)
    for form in (SMALL, LARGE) if bundle < 4 else (SMALL,):
        config = tma_transposed.KERNEL.config({**form, "WORKERS": workers, "MIN_BLOCKS": bundle, "BUNDLE": bundle})
        c = engine.upload(operands.c if beta else poisoned(problem.m, problem.n))
        run(engine, tma_transposed.KERNEL, config, problem, a, b, c, scalars)
        assert operands.error(engine.download(c)) <= limit(problem), config
