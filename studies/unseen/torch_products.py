"""PyTorch's products on a survey's operands, and those of cuBLASLt's heuristics, recorded to be timed in turns."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tilewright.core.dtypes import ITEM_BYTES
from tilewright.core.problem import Layout, Problem
from tilewright.runtime.plan import Pointers
from tilewright.tools.bench.cublas import CublasBaseline
from tilewright.tools.tune import survey

HEURISTICS = 8
"""Algorithms of cuBLASLt's that are timed."""


class TorchReplay:
    """A graph of PyTorch's."""

    def __init__(self, torch: Any, graph: Any, stream: Any) -> None:
        self._torch, self._graph, self._stream = torch, graph, stream

    def launch(self, stream: Any) -> None:
        """Start it on the engine's stream."""
        with self._torch.cuda.stream(self._stream):
            self._graph.replay()


class TorchProducts:
    """torch.mm or torch.bmm on the operands of a survey."""

    def __init__(self, engine: Any, memory: survey.Memory, dtype: str) -> None:
        import torch  # noqa: PLC0415

        self._torch, self._dtype = torch, getattr(torch, dtype)
        self._stream = torch.cuda.ExternalStream(int(engine.stream.handle))
        self._engine = engine
        self._bases = memory._factors.pointer, memory._results.pointer
        self._factors, self._results = (
            torch.as_tensor(_Bytes(base, size), device="cuda").view(self._dtype)
            for base, size in zip(self._bases, (survey.FACTOR_BYTES, survey.RESULT_BYTES), strict=True)
        )
        assert (self._factors.data_ptr(), self._results.data_ptr()) == self._bases

    def __call__(self, problem: Problem, sets: Sequence[Pointers], launches: int) -> Mapping[str, Any]:
        """A graph of this many products."""
        torch, (m, n, k, batch) = self._torch, (problem.m, problem.n, problem.k, problem.batch)
        multiply = torch.mm if batch == 1 else torch.bmm

        def view(memory: Any, base: int, pointer: int, layout: Layout, rows: int, cols: int) -> Any:
            begin = (pointer - base) // ITEM_BYTES[problem.dtype]
            flat = memory[begin : begin + batch * rows * cols]
            lines, length = layout.lines(rows, cols)
            found = flat.view(batch, lines, length)
            if layout.order == "column":
                found = found.transpose(1, 2)
            return found[0] if batch == 1 else found

        def product(index: int) -> None:
            one = sets[index % len(sets)]
            a = view(self._factors, self._bases[0], one.a, problem.a, m, k)
            b = view(self._factors, self._bases[0], one.b, problem.b, k, n)
            multiply(a, b, out=view(self._results, self._bases[1], one.d, problem.d, m, n))

        with self._engine.current, torch.cuda.stream(self._stream):
            product(0)
            graph = torch.cuda.CUDAGraph()
            graph.capture_begin(capture_error_mode="relaxed")
            for index in range(launches):
                product(index)
            graph.capture_end()
        return {multiply.__name__: TorchReplay(torch, graph, self._stream)}


class _Bytes:
    """Memory as PyTorch takes it."""

    def __init__(self, pointer: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,), "typestr": "|u1", "data": (pointer, False), "version": 3, "strides": None
        }  # fmt: skip


class _Operand(NamedTuple):
    """A matrix as cuBLAS takes it."""

    pointer: int


class LtProducts:
    """The first algorithms that cuBLASLt's heuristics offer."""

    def __init__(self, engine: Any) -> None:
        self._engine, self._cublas = engine, CublasBaseline(engine)

    def __call__(self, problem: Problem, sets: Sequence[Pointers], launches: int) -> Mapping[str, Any]:
        """A graph of this many products by each algorithm."""
        operands = [[_Operand(one.a), _Operand(one.b), _Operand(one.d)] for one in sets]
        works = self._cublas.heuristics(problem, operands, HEURISTICS)
        return {f"cuBLASLt {number}": self._engine.record(work, launches) for number, work in enumerate(works)}
