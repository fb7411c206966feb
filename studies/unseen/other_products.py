"""PyTorch's products on a survey's operands, and those of cuBLASLt's heuristics, recorded to be timed in turns."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from cuda.bindings import driver

from tilewright.core.dtypes import INT8, default_result
from tilewright.core.errors import LaunchError, TilewrightError
from tilewright.core.problem import Layout, Problem
from tilewright.runtime.plan import Pointers
from tilewright.tools.bench.cublas import CublasBaseline
from tilewright.tools.tune import survey

HEURISTICS = 8
"""Algorithms of cuBLASLt's that are timed."""


class TorchReplay(NamedTuple):
    """A graph of PyTorch's that is launched as ours are: PyTorch's own replay sets the states of random generators
    first, which takes the host longer than small products take the GPU."""

    graph: Any

    def launch(self, stream: Any) -> None:
        """Start the graph on a stream."""
        (status,) = driver.cuGraphLaunch(self.graph.raw_cuda_graph_exec(), int(stream.handle))
        if status != driver.CUresult.CUDA_SUCCESS:
            raise LaunchError(f"a graph of PyTorch's did not start: {status!r}")


def of_torch(engine: Any, memory: survey.SurveyMemory, dtype: str) -> survey.Others:
    """torch.mm, torch.bmm or torch._int_mm on the operands of a survey."""
    import torch  # noqa: PLC0415

    stream = torch.cuda.ExternalStream(int(engine.stream.handle))
    bases = memory._factors.pointer, memory._results.pointer
    factors, results = (
        torch.as_tensor(_Bytes(base, size), device="cuda").view(getattr(torch, kind))
        for base, size, kind in zip(
            bases, (survey.FACTOR_BYTES, survey.RESULT_BYTES), (dtype, default_result(dtype)), strict=True
        )
    )
    assert (factors.data_ptr(), results.data_ptr()) == bases

    def view(of: Any, pointer: int, layout: Layout, batch: int, rows: int, cols: int) -> Any:
        begin = (pointer - of.data_ptr()) // of.itemsize
        found = of[begin : begin + batch * rows * cols].view(batch, *layout.lines(rows, cols))
        if layout.order == "column":
            found = found.transpose(1, 2)
        return found[0] if batch == 1 else found

    def recorded(problem: Problem, sets: Sequence[Pointers], launches: int) -> Mapping[str, Any]:
        m, n, k, batch = problem.m, problem.n, problem.k, problem.batch
        multiply = torch._int_mm if dtype in INT8 else torch.mm if batch == 1 else torch.bmm

        def product(index: int) -> None:
            one = sets[index % len(sets)]
            a, b = view(factors, one.a, problem.a, batch, m, k), view(factors, one.b, problem.b, batch, k, n)
            multiply(a, b, out=view(results, one.d, problem.d, batch, m, n))

        with engine.current, torch.cuda.stream(stream):
            product(0)
            graph = torch.cuda.CUDAGraph()
            graph.capture_begin(capture_error_mode="relaxed")
            for index in range(launches):
                product(index)
            graph.capture_end()
        return {multiply.__name__: TorchReplay(graph)}

    return recorded


class _Bytes:
    """SurveyMemory as PyTorch takes it."""

    def __init__(self, pointer: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,), "typestr": "|u1", "data": (pointer, False), "version": 3, "strides": None
        }  # fmt: skip


class _Operand(NamedTuple):
    """A matrix as cuBLAS takes it."""

    pointer: int


def of_cublaslt(engine: Any, memory: survey.SurveyMemory, dtype: str) -> survey.Others:
    """The first algorithms that cuBLASLt's heuristics offer."""
    cublas = CublasBaseline(engine)

    def recorded(problem: Problem, sets: Sequence[Pointers], launches: int) -> Mapping[str, Any]:
        operands = [[_Operand(one.a), _Operand(one.b), _Operand(one.d)] for one in sets]
        works = cublas.heuristics(problem, operands, HEURISTICS)
        return {f"cuBLASLt {number}": engine.record(work, launches) for number, work in enumerate(works)}

    return recorded


LIBRARIES: Mapping[str, Callable[[Any, survey.SurveyMemory, str], survey.Others]] = {
    "torch.mm": of_torch,
    "cuBLASLt": of_cublaslt,
}


def others(engine: Any, memory: survey.SurveyMemory, dtype: str, libraries: Iterable[str] = LIBRARIES) -> survey.Others:
    """Products of libraries; those that are missing, or refuse a problem, are named and left out."""
    found: list[survey.Others] = []
    for name in libraries:
        try:
            found.append(LIBRARIES[name](engine, memory, dtype))
        except (ImportError, RuntimeError, AssertionError, TypeError, TilewrightError) as error:
            print(f"no {name}: {error!r}", flush=True)

    def recorded(problem: Problem, sets: Sequence[Pointers], launches: int) -> Mapping[str, Any]:
        replays: dict[str, Any] = {}
        for one in found:
            try:
                replays |= one(problem, sets, launches)
            except Exception as error:
                print(f"{problem.shape}: {error}", flush=True)
        return replays

    return recorded
