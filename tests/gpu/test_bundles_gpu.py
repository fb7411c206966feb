"""Blocks that start as one on a real GPU. On the emulator each is launched by itself."""

import pytest

from this_gpu import HAS_TENSOR_MAPS
from tilewright.bench.verify import Operands, limit
from tilewright.engines.base import poisoned, run
from tilewright.kernels.library import tma_transposed
from tilewright.problem import Problem

SMALL = {"BM": 32, "BN": 64, "BK": 64, "SLICES": 4, "PLACES": 1, "UNROLL": 16}
LARGE = {"BM": 64, "BN": 128, "BK": 48, "SLICES": 1, "PLACES": 1, "UNROLL": 16}


@pytest.mark.parametrize("_", HAS_TENSOR_MAPS)
@pytest.mark.parametrize("bundle", [1, 2, 3, 4])
@pytest.mark.parametrize("wave", [5, 132, 264])
@pytest.mark.parametrize("shape", [(1120, 256, 1312), (777, 777, 777), (331, 1777, 130), (31, 65, 7), (400, 320, 0)])
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 0.0), (-0.5, 1.5)])
def test_blocks_in_bundles_compute_their_tiles(engine, shape, wave, bundle, alpha, beta, _):
    """With a WAVE of 5, bundles of 3 have room for a block more than there are."""
    problem = Problem(*shape, alpha=alpha, beta=beta)
    operands = Operands.draw(problem)
    a, b = engine.upload(operands.a), engine.upload(operands.b)
    for form in (SMALL, LARGE) if bundle < 4 else (SMALL,):
        config = tma_transposed.KERNEL.config({**form, "WAVE": wave, "BLOCKS": bundle, "BUNDLE": bundle})
        c = engine.upload(operands.c if beta else poisoned(problem.m, problem.n))
        run(engine, tma_transposed.KERNEL, config, problem, a, b, c)
        assert operands.error(engine.download(c)) <= limit(problem), config
