"""Arguments that cuBLAS is given, on a stand-in that computes as its documentation says: no GPU is needed."""

import ctypes

import ml_dtypes
import numpy as np
import pytest

from tilewright.core.problem import LAYOUTS, Arithmetic, Problem, Scalars, orders
from tilewright.emulator.engine import EmulatorEngine
from tilewright.tools.bench import cublas
from tilewright.tools.bench.measure import operand_sets
from tilewright.tools.bench.verify import Operands, limit

ENGINE = EmulatorEngine()
TYPES = {0: np.float32, 2: np.float16, 14: ml_dtypes.bfloat16}  # cudaDataType


def by_columns(pointer, kind, rows, cols, ld, stride, batch):
    """Matrices in memory, whose columns' elements are neighbours."""
    size = np.dtype(TYPES[kind]).itemsize
    elements = stride * (batch - 1) + ld * (cols - 1) + rows
    memory = np.ctypeslib.as_array((ctypes.c_ubyte * (elements * size)).from_address(pointer)).view(TYPES[kind])
    return np.lib.stride_tricks.as_strided(memory, (batch, rows, cols), (stride * size, size, ld * size))


def gemm_strided_batched_ex(
    op_a, op_b, m, n, k, alpha, a, a_type, lda, stride_a, b, b_type, ldb, stride_b,
    beta, c, c_type, ldc, stride_c, batch, compute, algorithm
):  # fmt: skip
    """cublasGemmStridedBatchedEx in float32."""
    assert (compute, algorithm) in ((68, -1), (77, -1))
    first = by_columns(a, a_type, *((k, m) if op_a else (m, k)), lda, stride_a, batch)
    second = by_columns(b, b_type, *((n, k) if op_b else (k, n)), ldb, stride_b, batch)
    first, second = (
        (factor.swapaxes(1, 2) if transposed else factor).astype(np.float32)
        for factor, transposed in ((first, op_a), (second, op_b))
    )
    alpha, beta = (ctypes.c_float.from_address(scalar).value for scalar in (alpha, beta))
    result = by_columns(c, c_type, m, n, ldc, stride_c, batch)
    sums = np.float32(alpha) * (first @ second)
    result[...] = sums + np.float32(beta) * result.astype(np.float32) if beta else sums


def gemm_ex(op_a, op_b, m, n, k, alpha, a, a_type, lda, b, b_type, ldb, beta, c, c_type, ldc, compute, algorithm):
    """cublasGemmEx."""
    a, b, c = (a, a_type, lda, 0), (b, b_type, ldb, 0), (c, c_type, ldc, 0)
    gemm_strided_batched_ex(op_a, op_b, m, n, k, alpha, *a, *b, beta, *c, 1, compute, algorithm)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("arithmetic", [Arithmetic(), Arithmetic("float16"), Arithmetic("bfloat16", "bfloat16")])
@pytest.mark.parametrize("scalars", [Scalars(), Scalars(-1.5, 0.5)])
def test_the_product_is_asked_for(layout, batch, arithmetic, scalars):
    a, b = orders(layout)
    problem = Problem(5, 7, 9, arithmetic, batch, a, b)
    operands = Operands.draw(problem, scalars)
    (one,) = operand_sets(ENGINE, operands)
    numbers = np.array(scalars, np.float32)
    addresses = numbers.ctypes.data, numbers.ctypes.data + 4
    arguments = cublas.gemm_arguments(problem, None, one.pointers[:3], *addresses)
    (gemm_ex if batch == 1 else gemm_strided_batched_ex)(*arguments)
    assert operands.error(ENGINE.download(one.c)) <= limit(problem)


def test_tf32_is_asked_for_by_its_name():
    assert cublas.gemm_arguments(Problem(1, 1, 1), "tf32", (0, 0, 0), 0, 0)[-2] == 77
    assert cublas.gemm_arguments(Problem(1, 1, 1), None, (0, 0, 0), 0, 0)[-2] == 68
