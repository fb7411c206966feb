"""Copies of A and B as kernels want them that say so (`Kernel.packs`): with aligned rows, A perhaps transposed."""

from functools import lru_cache
from typing import NamedTuple

from tilewright.engines.base import Matrix
from tilewright.kernels import pack
from tilewright.kernels.spec import VECTOR_BYTES, Config, Kernel
from tilewright.problem import ITEM_BYTES, Problem

_TRANSPOSED = pack.KERNEL.config({"TRANSPOSE": 1})
_COPIED = pack.KERNEL.config({"TRANSPOSE": 0})


class Packing(NamedTuple):
    """One launch of the kernel `pack`."""

    config: Config
    problem: Problem
    source: Matrix
    target: Matrix


def needed_bytes(kernel: Kernel, a: Matrix, b: Matrix) -> int:
    """Bytes of memory for the copies of operands that a kernel wants; 0 where it takes them as they lie."""
    return sum(4 * rows * _aligned(cols) for rows, cols in _copies(kernel, a, b) if rows)


def packed(kernel: Kernel, a: Matrix, b: Matrix, memory: int) -> tuple[Matrix, Matrix, list[Packing]]:
    """A and B as a kernel wants them, and the launches that make them so.

    Args:
        kernel: it packs.
        a, b: operands, m x k and k x n.
        memory: address of `needed_bytes` bytes, a multiple of 16.
    """
    factors, steps = [a, b], []
    for i, (rows, cols) in enumerate(_copies(kernel, a, b)):
        if rows == 0:
            continue
        source, copy = factors[i], Matrix(memory, rows, cols, _aligned(cols), a.dtype)
        config = _TRANSPOSED if i == 0 and kernel.packs == "transposed" else _COPIED
        steps.append(Packing(config, _copying(rows, cols, source.ld), source, copy))
        factors[i] = copy
        memory += 4 * rows * copy.ld
    return factors[0], factors[1], steps


def _copies(kernel: Kernel, a: Matrix, b: Matrix) -> tuple[tuple[int, int], tuple[int, int]]:
    """Rows and columns of a kernel's copies of A and of B; no rows where it takes the operand itself."""
    of_b = (0, 0) if _rows_aligned(b) else (b.rows, b.cols)
    if kernel.packs == "transposed":
        return (a.cols, a.rows), of_b
    return (0, 0) if _rows_aligned(a) else (a.rows, a.cols), of_b


@lru_cache(maxsize=1024)
def _copying(rows: int, cols: int, source_ld: int) -> Problem:
    """The problem that `pack` takes a copy of rows x cols elements for."""
    ld = _aligned(cols)
    return Problem(rows, cols, 1, lda=source_ld, ldb=ld, ldc=ld)


def _aligned(length: int) -> int:
    """The length of a row, in elements, that keeps the next one aligned."""
    vector = VECTOR_BYTES // ITEM_BYTES["float32"]
    return -(-length // vector) * vector


def _rows_aligned(matrix: Matrix) -> bool:
    one_row = matrix.rows == 1
    return matrix.pointer % VECTOR_BYTES == 0 and (one_row or matrix.ld * ITEM_BYTES[matrix.dtype] % VECTOR_BYTES == 0)
