"""Copies of A and B as kernels want them that say so (`Kernel.packs`): with aligned rows, A perhaps transposed."""

from functools import lru_cache
from typing import NamedTuple

from tilewright.engines.base import Matrix
from tilewright.kernels.library import relayout
from tilewright.kernels.spec import VECTOR_BYTES, Config, Kernel
from tilewright.problem import ITEM_BYTES, Problem

_NONE, _COPIED, _TRANSPOSED = 0, 1, 2


class Packing(NamedTuple):
    """A launch of the kernel `pack`, and what it leaves."""

    config: Config
    problem: Problem
    target: Matrix
    a: Matrix
    b: Matrix


def needed_bytes(kernel: Kernel, a: Matrix, b: Matrix) -> int:
    """Bytes of memory for the copies of operands that a kernel wants; 0 where it takes them as they lie."""
    of_a, of_b = _wanted(kernel, a, b)
    return 4 * (_floats(_copied(a, of_a)) + _floats(_copied(b, of_b)))


def packing(kernel: Kernel, a: Matrix, b: Matrix, memory: int) -> Packing:
    """The launch that makes A and B as a kernel wants them.

    Args:
        kernel: it packs, and does not take these operands as they lie.
        a, b: operands, m x k and k x n.
        memory: address of `needed_bytes` bytes, a multiple of 16.
    """
    of_a, of_b = _wanted(kernel, a, b)
    copies, floats = [], 0
    for matrix, how in ((a, of_a), (b, of_b)):
        rows, cols = shape = _copied(matrix, how)
        copies.append(Matrix(memory + 4 * floats, rows, cols, _aligned(cols), a.dtype) if how else matrix)
        floats += _floats(shape)
    problem = _problem(a.rows, b.cols, a.cols, a.ld, b.ld)
    return Packing(_config(of_a, of_b), problem, Matrix(memory, 1, floats, floats, a.dtype), *copies)


def _wanted(kernel: Kernel, a: Matrix, b: Matrix) -> tuple[int, int]:
    """What a kernel wants of A and of B."""
    of_a = _TRANSPOSED if kernel.packs == "transposed" else _NONE if _rows_aligned(a) else _COPIED
    return of_a, _NONE if _rows_aligned(b) else _COPIED


def _copied(matrix: Matrix, how: int) -> tuple[int, int]:
    """Rows and columns of a copy; none where there is none."""
    if how == _NONE:
        return 0, 0
    return (matrix.cols, matrix.rows) if how == _TRANSPOSED else (matrix.rows, matrix.cols)


def _floats(shape: tuple[int, int]) -> int:
    rows, cols = shape
    return rows * _aligned(cols)


@lru_cache
def _config(of_a: int, of_b: int) -> Config:
    return relayout.KERNEL.config({"OF_A": of_a, "OF_B": of_b})


@lru_cache(maxsize=1024)
def _problem(m: int, n: int, k: int, lda: int, ldb: int) -> Problem:
    return Problem(m, n, k, lda=lda, ldb=ldb, ldc=_aligned(n))


def _aligned(length: int) -> int:
    """The length of a row, in elements, that keeps the next one aligned."""
    vector = VECTOR_BYTES // ITEM_BYTES["float32"]
    return -(-length // vector) * vector


def _rows_aligned(matrix: Matrix) -> bool:
    one_row = matrix.rows == 1
    return matrix.pointer % VECTOR_BYTES == 0 and (one_row or matrix.ld * ITEM_BYTES[matrix.dtype] % VECTOR_BYTES == 0)
