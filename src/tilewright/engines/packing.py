"""Copies of A and B as kernels want them that say so (`Kernel.packs`): A transposed, B with aligned rows."""

from functools import lru_cache
from typing import NamedTuple

from tilewright.engines.base import Matrix
from tilewright.kernels import pack
from tilewright.kernels.spec import VECTOR_BYTES, Config
from tilewright.problem import ITEM_BYTES, Problem

_TRANSPOSED = pack.KERNEL.config({"TRANSPOSE": 1})
_COPIED = pack.KERNEL.config({"TRANSPOSE": 0})


class Packing(NamedTuple):
    """One launch of the kernel `pack`."""

    config: Config
    problem: Problem
    source: Matrix
    target: Matrix


def needed_bytes(problem: Problem, b: Matrix) -> int:
    """Bytes of memory for the copies of a problem's operands."""
    return 4 * problem.k * (_aligned(problem.m) + (0 if _rows_aligned(problem, b) else _aligned(problem.n)))


def packed(problem: Problem, a: Matrix, b: Matrix, memory: int) -> tuple[Matrix, Matrix, list[Packing]]:
    """A transposed and B with aligned rows, and the launches that make them.

    Args:
        problem: the product.
        a, b: its operands, m x k and k x n.
        memory: address of `needed_bytes` bytes, a multiple of 16.
    """
    transposed = Matrix(memory, problem.k, problem.m, _aligned(problem.m), problem.dtype)
    steps = [Packing(_TRANSPOSED, _copying(problem.k, problem.m, a.ld), a, transposed)]
    if _rows_aligned(problem, b):
        return transposed, b, steps
    behind = memory + 4 * problem.k * transposed.ld
    copy = Matrix(behind, problem.k, problem.n, _aligned(problem.n), problem.dtype)
    return transposed, copy, [*steps, Packing(_COPIED, _copying(problem.k, problem.n, b.ld), b, copy)]


@lru_cache(maxsize=1024)
def _copying(rows: int, cols: int, source_ld: int) -> Problem:
    """The problem that `pack` takes a copy of rows x cols elements for."""
    ld = _aligned(cols)
    return Problem(rows, cols, 1, lda=source_ld, ldb=ld, ldc=ld)


def _aligned(length: int) -> int:
    """The length of a row, in elements, that keeps the next one aligned."""
    vector = VECTOR_BYTES // ITEM_BYTES["float32"]
    return -(-length // vector) * vector


def _rows_aligned(problem: Problem, b: Matrix) -> bool:
    return b.pointer % VECTOR_BYTES == 0 and (
        problem.k == 1 or problem.ldb * ITEM_BYTES[problem.dtype] % VECTOR_BYTES == 0
    )
