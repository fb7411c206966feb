"""Predicted errors of products of parts, next to those of kernels on the emulator, which adds as tensor cores do."""

import numpy as np
import pytest

from tilewright.core.problem import Problem
from tilewright.emulator.engine import EmulatorEngine
from tilewright.kernels import KERNELS, find
from tilewright.tools.bench.measure import verify
from tilewright.tools.bench.verify import Operands
from tilewright.tools.explain.accuracy import error_in_order, predicted_error

ENGINE = EmulatorEngine()
KINDS = [
    ("split", {"BN": 64}),
    ("promoted", {"BN": 64, "PROMOTE": 16}),
    ("promoted", {"BN": 64, "PROMOTE": 128}),
    ("interleaved", {"BN": 64}),
    ("gemm_bf16x6", {}),
    ("small_m_bf16x6", {}),
    ("gemm_fp16x3", {}),
    ("small_m_fp16x3", {}),
    ("gemm_bf16x3", {}),
]

LENGTHS = [(16, 0.8, 2), (200, 0.8, 1.6), (1024, 0.9, 1.2), (4096, 0.9, 1.1)]
"""k, and how far off what is predicted may be. Kinds take turns at two of them."""


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("name", "overrides", "k", "least", "most"),
    [(*kind, *LENGTHS[(number + more) % 4]) for number, kind in enumerate(KINDS) for more in (0, 2)],
    ids=str,
)
def test_errors_are_as_predicted(name, overrides, k, least, most):
    kernel = find(name)
    config = kernel.config(overrides)
    _, error = verify(ENGINE, kernel, config, Operands.draw(Problem(64, 64, k)))
    assert least * error <= predicted_error(kernel, config, k) <= most * error


@pytest.mark.parametrize("k", [16, 256, 4096])
def test_the_error_of_sums_in_order_is_as_predicted(k):
    operands = Operands.draw(Problem(64, 64, k))
    sums = np.zeros((64, 64), np.float32)
    for i in range(k):
        sums += operands.a[:, i : i + 1] * operands.b[i]
    assert error_in_order(k) == pytest.approx(operands.error(sums), rel=0.1)


def test_kernels_of_parts_and_of_tf32_say_how_they_add_and_no_others():
    for kernel in KERNELS:
        says = kernel.split is not None or kernel.has_fallback or kernel.name.startswith(("gemm_tf32", "gemm_mma_tf32"))
        assert (predicted_error(kernel, kernel.config(), 512) is not None) == says
    assert predicted_error(find("split"), find("split").config(), 0) is None
