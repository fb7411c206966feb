"""gemm_mma's copies of lines that start at any address: every start, with and without gaps, of few and many words."""

import ml_dtypes
import numpy as np
import pytest

from tilewright.core.problem import LAYOUTS, Arithmetic, Layout, Problem
from tilewright.emulator.engine import EmulatorEngine
from tilewright.kernels import find
from tilewright.kernels.support import Addresses
from tilewright.runtime.plan import Pointers

KERNEL = find("gemm_mma")
CONFIGS = [
    {"BM": 128, "BN": 128, "BK": 64, "WM": 64, "WN": 32, "STAGES": 3},
    {"BM": 32, "BN": 64, "BK": 32, "WM": 16, "WN": 32, "STAGES": 2},
]
BFLOAT16, OFFSETS = np.dtype(ml_dtypes.bfloat16), range(8)


def placed(engine, lines, length, offset, gap, seed):
    """Small integers in lines of an engine's memory, NaN between and around them: the address of the first, and all."""
    memory = np.full(offset + lines * (length + gap) + 8, np.nan, BFLOAT16)
    strides = (length + gap) * BFLOAT16.itemsize, BFLOAT16.itemsize
    inside = np.lib.stride_tricks.as_strided(memory[offset:], (lines, length), strides)
    inside[:] = np.random.default_rng(seed).integers(-4, 5, inside.shape).astype(BFLOAT16)
    held = engine.upload(memory.reshape(1, -1))
    return held, held.pointer + offset * BFLOAT16.itemsize, inside.astype(np.float32)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("config", CONFIGS, ids=["many words", "few words"])
def test_every_start_is_right(config, layout):
    engine, (m, n, k) = EmulatorEngine(), (67, 133, 35)
    for offset in OFFSETS:
        for gap in (0, 1, 2, 3):
            factors = []
            for order, rows, cols in zip(layout, (m, k), (k, n), strict=True):
                lines, length = (rows, cols) if order == "N" else (cols, rows)
                held, pointer, values = placed(engine, lines, length, (offset + len(factors)) % 8, gap, offset)
                whole = Layout("row" if order == "N" else "column", length + gap)
                factors.append((held, pointer, values if order == "N" else values.T, whole))
            (_, at_a, a, of_a), (_, at_b, b, of_b) = factors
            d = engine.upload(np.full((m, n), np.nan, BFLOAT16))
            problem = Problem(m, n, k, Arithmetic("bfloat16", "bfloat16"), 1, of_a, of_b)
            plan = engine.plan(KERNEL, KERNEL.config(config), problem, Addresses(at_a % 16, at_b % 16, 0, 0))
            engine.start(plan, Pointers(at_a, at_b, d.pointer))
            np.testing.assert_array_equal(engine.download(d), (a @ b).astype(BFLOAT16))
