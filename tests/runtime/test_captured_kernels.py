"""Reading the kernels of a captured run, with a stand-in for the driver."""

from types import SimpleNamespace

import pytest
from cuda.bindings import driver

from tilewright.core.errors import LaunchError
from tilewright.runtime import captured_kernels as module
from tilewright.runtime.captured_kernels import CapturedKernel, captured_kernels, demangle, short_name

SUCCESS = driver.CUresult.CUDA_SUCCESS
KERNEL, MEMSET = (
    driver.CUgraphNodeType.CU_GRAPH_NODE_TYPE_KERNEL,
    driver.CUgraphNodeType.CU_GRAPH_NODE_TYPE_MEMSET,
)
STREAM = SimpleNamespace(handle=77)
REDUCE = "_ZN8cublasLt19splitKreduce_kernelILi32EEEvPf"


class Driver:
    """The functions of the driver that are called here; what is not replaced is the bindings' own."""

    def __init__(self, nodes=(), edges=(), end=SUCCESS):
        self.nodes, self.edges, self.end = dict(nodes), edges, end
        self.calls = []

    def __getattr__(self, name):
        return getattr(driver, name)

    def cuStreamBeginCapture(self, stream, mode):  # noqa: N802
        self.calls.append(("begin", stream))
        return (SUCCESS,)

    def cuStreamEndCapture(self, stream):  # noqa: N802
        self.calls.append(("end", stream))
        return self.end, "graph"

    def cuGraphDestroy(self, graph):  # noqa: N802
        self.calls.append(("destroy", graph))
        return (SUCCESS,)

    def cuGraphGetNodes(self, graph, count=0):  # noqa: N802
        return SUCCESS, list(map(driver.CUgraphNode, self.nodes))[:count] or None, len(self.nodes)

    def cuGraphGetEdges(self, graph, count=0):  # noqa: N802
        before = [driver.CUgraphNode(first) for first, _ in self.edges][:count]
        after = [driver.CUgraphNode(second) for _, second in self.edges][:count]
        return SUCCESS, before or None, after or None, None, len(self.edges)

    def cuGraphNodeGetType(self, node):  # noqa: N802
        return SUCCESS, KERNEL if self.nodes[int(node)] else MEMSET

    def cuGraphKernelNodeGetParams(self, node):  # noqa: N802
        _, function, kernel, grid = self.nodes[int(node)]
        parameters = driver.CUDA_KERNEL_NODE_PARAMS()
        parameters.func, parameters.kern = driver.CUfunction(function), driver.CUkernel(kernel)
        parameters.gridDimX, parameters.gridDimY, parameters.gridDimZ = grid
        parameters.blockDimX, parameters.blockDimY, parameters.blockDimZ = 256, 1, 1
        return SUCCESS, parameters

    def cuFuncGetName(self, function):  # noqa: N802
        return SUCCESS, self._name(1, int(function))

    def cuKernelGetName(self, kernel):  # noqa: N802
        return SUCCESS, self._name(2, int(kernel))

    def _name(self, which, handle):
        assert handle, "a null handle has no name"
        (name,) = {node[0] for node in self.nodes.values() if node and node[which] == handle}
        return name.encode()


@pytest.fixture
def use(monkeypatch):
    def replace(stand_in):
        monkeypatch.setattr(module, "driver", stand_in)
        return stand_in

    return replace


def test_kernels_come_in_the_order_of_their_launches(use):
    nodes = {30: (REDUCE, 0, 8, (4, 1, 1)), 20: None, 10: ("sgemm_128x128_nn", 9, 0, (32, 16, 2))}
    stand_in = use(Driver(nodes, edges=[(20, 30), (10, 20)]))
    runs = []
    found = captured_kernels(lambda index, stream: runs.append((index, stream)), STREAM)
    assert found == [
        CapturedKernel("sgemm_128x128_nn", (32, 16, 2), (256, 1, 1)),
        CapturedKernel("cublasLt::splitKreduce_kernel<32>", (4, 1, 1), (256, 1, 1)),
    ]
    assert runs == [(0, STREAM)]
    assert stand_in.calls == [("begin", 77), ("end", 77), ("destroy", "graph")]


def test_one_launch_has_no_edges(use):
    use(Driver({10: ("gemv", 9, 0, (1, 1, 1))}))
    assert [kernel.name for kernel in captured_kernels(lambda index, stream: None, STREAM)] == ["gemv"]


def test_nothing_launched(use):
    use(Driver())
    assert captured_kernels(lambda index, stream: None, STREAM) == []


def test_a_failing_work_ends_the_capture(use):
    stand_in = use(Driver())

    def broken(index, stream):
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        captured_kernels(broken, STREAM)
    assert stand_in.calls == [("begin", 77), ("end", 77), ("destroy", "graph")]


def test_a_work_that_cannot_be_captured_is_the_drivers_error(use, monkeypatch):
    error = driver.CUresult.CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
    stand_in = use(Driver(end=error))
    monkeypatch.setattr("tilewright.runtime.driver._words", lambda status: status.name)
    with pytest.raises(LaunchError, match="CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"):
        captured_kernels(lambda index, stream: None, STREAM)
    assert ("destroy", "graph") not in stand_in.calls


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("ampere_sgemm_128x128_nn", "ampere_sgemm_128x128_nn"),
        (REDUCE, "void cublasLt::splitKreduce_kernel<32>(float*)"),
        ("_Z1fIN1a1bEEvNT_6ParamsE", "void f<a::b>(a::b::Params)"),
        ("_Zbroken", "_Zbroken"),
    ],
)
def test_demangling(symbol, name):
    assert demangle(symbol) == name


def test_without_a_cpp_runtime_names_stay(monkeypatch):
    monkeypatch.setattr(module, "_cpp_runtime", lambda: None)
    assert demangle(REDUCE) == REDUCE


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("void f<a::b>(a::b::Params)", "f<a::b>"),
        ("void f<(int)4>(void (*)(int), float)", "f<(int)4>"),
        ("f<(int)4>", "f<(int)4>"),
        ("sgemm_nn", "sgemm_nn"),
    ],
)
def test_short_names(name, short):
    assert short_name(name) == short
