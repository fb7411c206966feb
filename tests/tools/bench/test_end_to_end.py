"""Times of calls: taken with a clock that the calls themselves move on; and PyTorch's calls, on the CPU where it is."""

import itertools
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from tilewright.core.errors import DtypeError, EngineUnavailableError
from tilewright.core.problem import LAYOUTS, Arithmetic, Epilogue, Problem, Scalars, orders
from tilewright.emulator.engine import EmulatorEngine
from tilewright.kernels import find
from tilewright.kernels.kernel import Choice
from tilewright.tools.bench import end_to_end, run
from tilewright.tools.bench.end_to_end import QUEUE, WALL_S, WALL_SAMPLES, Stopwatch, TorchCalls
from tilewright.tools.bench.records import EndToEnd, PerCall


class Gpu:
    """A host's clock and a GPU's queue: calls take the host some time, and their work the GPU."""

    def __init__(self):
        self.time = self.done = 0.0
        self.calls, self.waits = [], 0
        self.stopwatch = Stopwatch(self.wait, lambda: self.time)

    def wait(self):
        self.waits += 1
        self.time = max(self.time, self.done)

    def call(self, name, host_s, gpu_s):
        """A call that returns after host_s, and whose work takes gpu_s."""

        def one():
            self.calls.append(name)
            self.time += next(host_s) if hasattr(host_s, "__next__") else host_s
            self.done = max(self.done, self.time) + gpu_s

        return one


def test_host_time_is_that_until_calls_return():
    gpu = Gpu()
    calls = [gpu.call("ours", 4e-6, 100e-6), gpu.call("theirs", 9e-6, 1e-6)]
    assert gpu.stopwatch.host_us(calls) == pytest.approx([4.0, 9.0])


def test_wall_time_is_that_until_their_work_has_ended():
    gpu = Gpu()
    calls = [gpu.call("ours", 4e-6, 100e-6), gpu.call("theirs", 9e-6, 1e-6)]
    assert gpu.stopwatch.wall_us(calls) == pytest.approx([100.0, 9.0], rel=0.02)


def test_the_first_call_in_a_context_is_not_timed():
    gpu = Gpu()
    first = True

    @contextmanager
    def switched():
        nonlocal first
        first = True
        yield

    def one():
        nonlocal first
        gpu.time += 0.3 if first else 0.1
        first = False

    assert gpu.stopwatch.wall_us([one], [switched], samples=5) == pytest.approx([1e5])


def test_what_comes_before_a_sample_does_not_count_once_its_effect_has_faded():
    gpu = Gpu()
    last, since = None, 0

    def kind(name, seconds):
        def one():
            nonlocal last, since
            since = since + 1 if last == name else 0
            last = name
            gpu.time += seconds * (2 if since < 3 else 1)

        return one

    calls = [kind("ours", 0.1), kind("theirs", 0.2)]
    assert gpu.stopwatch.wall_us(calls, untimed=3) == pytest.approx([1e5, 2e5])
    assert gpu.stopwatch.wall_us(calls, untimed=2) == pytest.approx([2e5, 4e5])


def test_blocks_in_random_order_are_timed_when_a_switch_has_faded():
    gpu = Gpu()
    entered, since = [], 0

    def within(name):
        @contextmanager
        def switched():
            nonlocal since
            since = 0
            entered.append(name)
            yield

        return switched

    def one():
        nonlocal since
        since += 1
        gpu.time += (0.3 if since <= 4 else 0.1) + (0.05 if entered[-1] == "slow" else 0)

    slow, alone = gpu.stopwatch.blocks_us(one, [within("slow"), within("alone")], turns=20, untimed=4, timed=2)
    assert (slow, alone) == (pytest.approx([1.5e5] * 20), pytest.approx([1e5] * 20))
    pairs = list(zip(entered[::2], entered[1::2], strict=True))
    assert set(pairs) == {("slow", "alone"), ("alone", "slow")}


def test_a_few_slow_calls_do_not_count():
    gpu = Gpu()
    slow_at_first = itertools.chain([5.0], itertools.repeat(4e-6))
    host, _ = gpu.stopwatch.host_us([gpu.call("ours", slow_at_first, 0), gpu.call("theirs", 4e-6, 0)])
    assert host == pytest.approx(4.0)


def test_both_take_turns_and_the_queue_is_empty_before_each_burst():
    gpu = Gpu()
    gpu.stopwatch.host_us([gpu.call("ours", 1e-6, 1e-6), gpu.call("theirs", 1e-6, 1e-6)])
    bursts = [list(names) for _, names in itertools.groupby(gpu.calls)]
    assert {len(burst) for burst in bursts} == {QUEUE}
    assert [burst[0] for burst in bursts[:4]] == ["ours", "theirs", "ours", "theirs"]
    assert gpu.waits == len(bursts) + 1


def test_the_host_time_of_long_calls_takes_no_minutes():
    gpu = Gpu()
    assert gpu.stopwatch.host_us([gpu.call("ours", 1e-5, 0.1)]) == pytest.approx([10.0])
    assert len(gpu.calls) == QUEUE * end_to_end.LEAST_SAMPLES


@pytest.mark.parametrize("seconds", [1e-6, 1e-3, 0.2])
def test_a_sample_of_calls_back_to_back_lasts_long_enough(seconds):
    gpu = Gpu()
    gpu.stopwatch.wall_us([gpu.call("ours", 1e-7, seconds), gpu.call("theirs", 1e-7, 2 * seconds)])
    bursts = [len(list(names)) for _, names in itertools.groupby(gpu.calls)][-2 * (WALL_SAMPLES - 1) :]
    assert all(count * seconds >= 0.9 * WALL_S for count in bursts[::2])
    assert all(count * 2 * seconds >= 0.9 * WALL_S for count in bursts[1::2])


# A bench run.


def test_records_have_the_times_of_what_matmul_was_asked_to_take():
    asked = []
    times = [EndToEnd(framework="X 1", host_us=PerCall(ours=n, baseline=2), wall_us=PerCall(ours=3, baseline=4))
             for n in (1, 5)]  # fmt: skip

    def measure(problem, scalars, choice, prepared):
        asked.append((problem, scalars, choice))
        return times

    choice, problem = Choice(find("naive"), find("naive").config()), Problem(8, 9, 10)
    framework = SimpleNamespace(measure=measure)
    options = {"samples": 1, "library": None, "scalars": Scalars(2.0), "framework": framework}
    (records,) = run.bench(EmulatorEngine(), [([choice, run.BEST], problem)], **options)
    assert asked == [(problem, Scalars(2.0), choice), (problem, Scalars(2.0), None)]
    assert [(record.end_to_end, record.end_to_end_out) for record in records] == [tuple(times)] * 2


# PyTorch.


@pytest.fixture
def calls():
    torch = pytest.importorskip("torch", reason="pip install torch")
    return TorchCalls(torch, "cpu", 0)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("batch", [1, 3])
def test_tensors_lie_as_the_problem_says(calls, layout, batch):
    a, b = orders(layout)
    problem = Problem(4, 6, 5, Arithmetic("bfloat16", "float32"), batch, a, b, epilogue=Epilogue("row"))
    (one,) = calls.tensors(problem, Scalars(beta=1.0))
    count = () if batch == 1 else (batch,)
    shapes = [(*count, 4, 5), (*count, 5, 6), (*count, 4, 6), (*count, 4, 6), (6,)]
    assert [tuple(tensor.shape) for tensor in one] == shapes
    for tensor, letter in ((one.a, layout[0]), (one.b, layout[1])):
        assert (tensor if letter == "N" else tensor.transpose(-1, -2)).is_contiguous()
        assert str(tensor.dtype) == "torch.bfloat16"
    assert str(one.c.dtype) == str(one.bias.dtype) == str(one.out.dtype) == "torch.float32"


def test_operands_fill_the_cache_twice(calls):
    size = 3 * 4 * 16 * 16
    filling = TorchCalls(calls.torch, "cpu", 10 * size)
    sets = filling.tensors(Problem(16, 16, 16), Scalars())
    assert len(sets) == 21 and len({one.a.data_ptr() for one in sets}) == 21
    assert (sets[0].c, sets[0].bias) == (None, None)


@pytest.mark.one_of_each("scalars", "activation", "bias", "batch")
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("bias", [None, "row"])
@pytest.mark.parametrize("activation", [None, "relu", "gelu", "gelu_tanh", "silu"])
@pytest.mark.parametrize("scalars", [Scalars(), Scalars(1.5), Scalars(0.5, 2.0)])
def test_both_compute_the_same(calls, batch, bias, activation, scalars, monkeypatch):
    monkeypatch.setattr(end_to_end, "WALL_S", 1e-4)
    monkeypatch.setattr(end_to_end, "HOST_SAMPLES", 1)
    a, b = orders("NT")
    problem = Problem(20, 30, 40, batch=batch, a=a, b=b, epilogue=Epilogue(bias, activation))
    new, out = calls.measure(problem, scalars, None)  # which compares them
    assert new.framework == out.framework == calls.name
    assert min(new.host_us.ours, new.host_us.baseline, out.wall_us.ours, out.wall_us.baseline) > 0


@pytest.mark.parametrize("before", [False, True])
def test_tf32_is_allowed_again_where_it_was(before):
    settings = SimpleNamespace(allow_tf32=before)
    torch = SimpleNamespace(backends=SimpleNamespace(cuda=SimpleNamespace(matmul=settings)))
    with pytest.raises(KeyError), end_to_end.exact(torch):
        assert not settings.allow_tf32
        raise KeyError
    assert settings.allow_tf32 == before


def test_what_pytorch_does_not_multiply_is_refused(calls):
    with pytest.raises(DtypeError, match="PyTorch multiplies float32 to that or to float32, got out_dtype float16"):
        calls.measure(Problem(4, 4, 4, Arithmetic("float32", "float16")), Scalars(), None)


def test_without_pytorch_or_its_gpu_it_says_which(monkeypatch):
    def gone(name):
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(end_to_end.importlib, "import_module", gone)
    with pytest.raises(EngineUnavailableError, match=r"--end-to-end needs PyTorch: pip install torch. No module named"):
        TorchCalls.on_gpu()
    torch = SimpleNamespace(__version__="2.11", cuda=SimpleNamespace(is_available=lambda: False))
    monkeypatch.setattr(end_to_end.importlib, "import_module", lambda name: torch)
    with pytest.raises(EngineUnavailableError, match=r"--end-to-end needs a GPU, and PyTorch 2.11 sees none"):
        TorchCalls.on_gpu()
