"""The launcher with tensors of PyTorch: it must not answer calls that PyTorch records."""

import struct

import pytest

torch = pytest.importorskip("torch")

from launcher_products import CONTEXT  # noqa: E402
from torch.autograd import forward_ad  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

import tilewright.torch  # noqa: E402
from tilewright.api import gpu as on_gpu  # noqa: E402
from tilewright.core.errors import LaunchError  # noqa: E402
from tilewright.runtime.plan import Memory, Needs, Slot, Step  # noqa: E402

ON_HOST = 1  # DLPack's number


@pytest.fixture
def call(driver, launcher_module):
    """A product of two matrices that the launcher knows; it answers with a new tensor and launches nothing."""
    tensors = launcher_module.Launcher(driver.path, ON_HOST)

    def multiply(a, b):
        return tensors.call(a, b, None, None, None, 1.0, 0.0, None)

    a, b = torch.zeros(4, 3), torch.zeros(3, 5)
    new = torch.empty, (4, 5), {}
    memory = {"context": CONTEXT, "memory": None, "needs": Needs(), "new": new, "scaled": False}
    if not tensors.remember(a, b, None, None, None, None, steps=(), **memory):
        pytest.skip("this PyTorch has no exchange API")
    assert type(multiply(a, b)) is torch.Tensor
    multiply.launcher = tensors
    multiply.misses = lambda *arrays: multiply(*arrays) is launcher_module.MISS
    return multiply


def test_a_tensor_that_wants_a_gradient(call):
    weights = torch.nn.Parameter(torch.zeros(4, 3))
    assert call.misses(weights, torch.zeros(3, 5))
    with torch.no_grad():
        assert not call.misses(weights, torch.zeros(3, 5))


def test_conjugated_tensors_are_of_a_kind_of_their_own(driver, launcher_module):
    """Each of a and b, as they are read by the kernel that writes them for a real product; nothing else may be so."""
    tensors, miss = launcher_module.Launcher(driver.path, ON_HOST), launcher_module.MISS
    a, b, out = (torch.zeros(*shape, dtype=torch.complex64) for shape in ((4, 3), (3, 5), (4, 5)))
    memory = {"context": CONTEXT, "memory": None, "needs": Needs(), "new": None, "scaled": False}
    known = [(x, y) for x in (a, a.conj()) for y in (b, b.conj())]
    for number, (x, y) in enumerate(known):
        assert tensors.call(x, y, None, out, None, 1.0, 0.0, None) is miss
        if not tensors.remember(x, y, None, out, None, None, steps=(), **memory):
            pytest.skip("this PyTorch has no exchange API")
        assert len(tensors) == number + 1
        assert tensors.call(x, y, None, out, None, 1.0, 0.0, None) is out
    assert tensors.call(a, b, None, out.conj(), None, 1.0, 0.0, None) is miss
    assert tensors.call(a, b, None, out, None, 1j, 0.0, None) is miss


def test_tensors_with_tangents(call):
    a, b = torch.zeros(4, 3), torch.zeros(3, 5)
    with forward_ad.dual_level():
        assert call.misses(forward_ad.make_dual(a, a), b)
    assert not call.misses(a, b)


@pytest.mark.first(2)
@pytest.mark.parametrize("transform", ["vmap", "grad", "jvp", "functionalize"])
def test_tensors_in_transforms(call, transform):
    a, b, missed = torch.zeros(4, 3), torch.zeros(3, 5), []

    def function(x):
        missed.append(call.misses(x, b))
        return x.sum()

    if transform == "vmap":
        torch.vmap(function)(torch.zeros(2, 4, 3))
    elif transform == "jvp":
        torch.func.jvp(function, (a,), (a,))
    else:
        getattr(torch.func, transform)(function)(a)
    assert missed == [True]


def test_tensors_under_a_mode_that_sees_operators(call):
    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
            return function(*arguments, **(keywords or {}))

    a, b = torch.zeros(4, 3), torch.zeros(3, 5)
    with Mode():
        assert call.misses(a, b)
    assert not call.misses(a, b)


def test_tensors_under_autocast(call):
    a, b = torch.zeros(4, 3), torch.zeros(3, 5)
    torch.set_autocast_enabled("cuda", True)  # as torch.autocast does where there is a GPU
    try:
        assert call.misses(a, b)
    finally:
        torch.set_autocast_enabled("cuda", False)
    assert not call.misses(a, b)


def test_what_is_traced_is_not_launched(call, launcher_module, monkeypatch):
    """The launcher is asked in the operator's first kernel, which a tracer's tensors pass through too."""
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode  # noqa: PLC0415
    from torch.fx.experimental.proxy_tensor import make_fx  # noqa: PLC0415

    monkeypatch.setattr(on_gpu, "fast", call.launcher)
    monkeypatch.setattr(on_gpu, "miss", launcher_module.MISS)
    a, b = torch.ones(4, 3), torch.ones(3, 5)
    operator = torch.ops.tilewright.matmul.default
    with FakeTensorMode():
        assert type(operator(torch.empty(4, 3), torch.empty(3, 5))) is FakeTensor
    graph = make_fx(operator)(a, b)
    assert [node.target for node in graph.graph.nodes if node.op == "call_function"] == [operator]
    assert torch.vmap(operator, in_dims=(0, None))(torch.ones(2, 4, 3), b).eq(3).all()
    assert torch.func.jvp(lambda x: operator(x, b), (a,), (a,))[1].eq(3).all()
    assert torch.func.grad(lambda x: operator(x, b).sum())(a).eq(5).all()
    with torch.autocast("cpu", torch.bfloat16):
        assert operator(a, b).dtype == torch.bfloat16
    programs = []

    def backend(program, inputs):
        programs.append(program)
        return program

    compiled = torch.compile(tilewright.matmul, backend=backend, fullgraph=True)
    assert compiled(a, b).shape == (4, 5)
    assert [node.target for node in programs[0].graph.nodes if node.op == "call_function"] == [operator]


SLOTS = (Slot(0, "pointer", "workspace"), Slot(8, "pointer", "counters"), Slot(16, "pointer", "relayout"))
STEP = Step(0xF00D, (3, 2, 1), (128, 1, 1), 4096, 0, bytes(24), (0,), SLOTS)


class Caching:
    """Stand-in for PyTorch's allocator of a GPU's memory."""

    def __init__(self):
        self.lent, self.taken, self.full = {}, [], False

    def take(self, size, stream):
        if self.full:
            raise torch.OutOfMemoryError("no memory is left")
        address = 0x7F00_0000_0000 + 0x100 * len(self.taken)
        self.lent[address] = size
        self.taken.append((size, stream))
        return address

    def give_back(self, address):
        del self.lent[address]


ALLOCATOR = {"take": "_cuda_cudaCachingAllocator_raw_alloc", "give_back": "_cuda_cudaCachingAllocator_raw_delete"}


@pytest.fixture
def caching(monkeypatch):
    """The allocator that launchers find from now on."""
    found = Caching()
    for method, name in ALLOCATOR.items():
        monkeypatch.setattr(torch._C, name, getattr(found, method), raising=False)
    return found


@pytest.fixture
def without_caching(monkeypatch):
    for name in ALLOCATOR.values():
        monkeypatch.delattr(torch._C, name, raising=False)


@pytest.fixture
def launched(call, driver):
    """Launches a product that needs memory; returns the addresses that it was given, and notes what was asked for."""

    def launch(needs, lent=True):
        def memory(stream, needs):
            launch.asked.append(needs)
            return Memory(0x1000, 1 << 20, 0x2000, 1 << 10, 0x3000, 1 << 20)

        driver.takes(STEP)
        a, b = torch.zeros(4, 3), torch.zeros(3, 5)
        plan = {"context": CONTEXT, "memory": memory, "new": (torch.empty, (4, 5), {}), "scaled": False}
        plan["lent"] = lent
        assert call.launcher.remember(a, b, None, None, None, None, steps=(STEP,), needs=needs, **plan)
        before = driver.launch_count
        if call.misses(a, b):
            assert driver.launch_count == before
            return None
        return struct.unpack("3Q", driver.launches[before].parameters)

    launch.asked = []
    return launch


def test_sums_and_copies_lie_in_memory_of_pytorch(caching, launched):
    assert launched(Needs(1000, 3, 50)) == (0x7F00_0000_0000, 0x2000, 0x7F00_0000_0400)
    assert caching.taken == [(1024 + 256, 0)]
    assert launched.asked == [(0, 3, 0)]
    assert launched(Needs(0, 0, 50)) == (0, 0, 0x7F00_0000_0100)
    assert launched(Needs(0, 2, 0)) == (0, 0x2000, 0)
    assert len(launched.asked) == 1
    assert launched(Needs(1000, 3, 50), lent=False) == (0x1000, 0x2000, 0x3000)
    assert len(caching.taken) == 2


def test_memory_of_pytorch_is_given_back(caching, launched, driver):
    launched(Needs(2**26))
    assert caching.lent == {}
    driver.failing = 719
    with pytest.raises(LaunchError, match="the GPU reports CUDA_ERROR_LAUNCH_FAILED"):
        launched(Needs(2**26, 0, 2**26))
    assert len(caching.taken) == 2
    assert caching.lent == {}


def test_where_pytorch_lends_none_the_stream_has_memory_of_its_own(without_caching, launched):
    assert launched(Needs(1000, 3, 50)) == (0x1000, 0x2000, 0x3000)


def test_a_capture_has_memory_of_its_own(caching, launched, driver):
    driver.capture_status = 1
    assert launched(Needs(1000, 3, 50)) == (0x1000, 0x2000, 0x3000)
    assert launched.asked == [(1000, 3, 50)]
    assert caching.taken == []


def test_where_pytorch_has_no_memory_nothing_is_launched(caching, launched):
    caching.full = True
    assert launched(Needs(relayout_bytes=2**10)) is None
    caching.full = False
    assert launched(Needs(relayout_bytes=2**10)) is not None
