"""Products of PyTorch that take the shortcut to the launcher, on the host and with a stand-in for the driver."""

import cProfile
import pstats
import struct
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from launcher_products import CONTEXT, SLOTS, STEP  # noqa: E402

import tilewright.torch  # noqa: E402
from tilewright.api import gpu as on_gpu  # noqa: E402
from tilewright.api.request import Request  # noqa: E402
from tilewright.frameworks.torch.enable import routing, shortcut  # noqa: E402
from tilewright.runtime.plan import Needs  # noqa: E402
from tilewright.select.speedup import Speedup  # noqa: E402

ON_HOST = 1  # DLPack's number
M, N, K = 4, 5, 3


@pytest.fixture
def routed(driver, launcher_module, monkeypatch):
    """enable() on tensors of the host, where all but TF32 is faster, with a launcher that a test has remember plans."""
    if shortcut.load() is None:
        pytest.skip("the shortcut cannot be built here")
    launcher = launcher_module.Launcher(driver.path, ON_HOST)
    monkeypatch.setattr(routing, "_KEY", "CPU")
    monkeypatch.setattr(routing, "_routes", {})
    speedups = lambda problem, device: None if problem.arithmetic.precision == "tf32" else Speedup(1.1, 1.0)  # noqa: E731
    monkeypatch.setattr(routing, "expect", speedups)
    monkeypatch.setattr(on_gpu, "fast", launcher)
    monkeypatch.setattr(on_gpu, "miss", launcher_module.MISS)
    step = STEP._replace(slots=(SLOTS[0], SLOTS[1]._replace(shift=0), *SLOTS[2:]))
    driver.takes(step)

    def remember(a, b, c=None, out=None, bias=None, beta=0.0, options=None, function=step.function):
        new = None if out is not None else (torch.empty, (*a.shape[:-1], b.shape[-1]), {})
        plan = {"needs": Needs(), "context": CONTEXT, "memory": None, "new": new, "scaled": beta != 0}
        steps = (step._replace(function=function),)
        if not launcher.remember(a, b, c, out, bias, options, steps=steps, **plan):
            pytest.skip("this PyTorch has no exchange API")

    with tilewright.torch.enable(wait=True):
        yield SimpleNamespace(remember=remember, driver=driver)


def python_calls(function, times=1):
    """How often calls of a function reach Python's kernels, and the last result."""
    profile = cProfile.Profile()
    with profile:
        for _ in range(times):
            result = function()
    stats = pstats.Stats(profile).stats
    calls = [found[0] for (file, _, name), found in stats.items() if file == routing.__file__ and name == "multiply"]
    return sum(calls), result


def parameters(a, b, d, c=None, bias=None, alpha=1.0, beta=0.0):
    """Parameters of the launch that a product is."""
    addresses = [0 if one is None else one.data_ptr() for one in (a, b, c, d, bias)]
    return struct.pack("5Q2f", *addresses, alpha, beta)


def ran():
    """Calls by where they ran."""
    rows = tilewright.torch.report()
    return {where: sum(row.calls for row in rows if row.where == where) for where in ("tilewright", "PyTorch")}


def test_a_product_is_launched_without_python(routed):
    a, b = torch.ones(M, K), torch.ones(K, N)
    routed.remember(a, b)
    assert python_calls(lambda: torch.mm(a, b))[0] == 1
    other = torch.ones(M, K)
    for left in (a, other):
        calls, result = python_calls(lambda left=left: torch.mm(left, b))
        assert calls == 0
        assert result.shape == (M, N) and result.is_contiguous() and result.dtype == torch.float32
        assert routed.driver.launches[-1].parameters == parameters(left, b, result)
        assert routed.driver.launches[-1].context == CONTEXT
    assert len(routed.driver.launches) == 3
    assert ran() == {"tilewright": 3, "PyTorch": 0}


FORMS = {
    "mm with out": lambda x: (torch.mm(x.a, x.b, out=x.out), {}),
    "addmm of a matrix": lambda x: (torch.addmm(x.c, x.a, x.b, beta=0.5, alpha=2), {"c": x.c, "alpha": 2, "beta": 0.5}),
    "addmm of a bias": lambda x: (torch.addmm(x.bias, x.a, x.b, alpha=3), {"bias": x.bias, "alpha": 3}),
    "addmm of nothing": lambda x: (torch.addmm(x.c, x.a, x.b, beta=0), {}),
    "addmm with out": lambda x: (torch.addmm(x.bias, x.a, x.b, out=x.out), {"bias": x.bias}),
    "linear": lambda x: (torch.nn.functional.linear(x.a, x.bt, x.bias), {"b": x.bt, "bias": x.bias}),
    "bmm": lambda x: (torch.bmm(x.a3, x.b3), {"a": x.a3, "b": x.b3}),
    "baddbmm with out": lambda x: (
        torch.baddbmm(x.c3, x.a3, x.b3, out=x.out3),
        {"a": x.a3, "b": x.b3, "c": x.c3, "beta": 1.0},
    ),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_operands_and_scalars_are_those_of_the_call(routed, form):
    x = SimpleNamespace(
        a=torch.ones(M, K), b=torch.ones(K, N), c=torch.ones(M, N), out=torch.empty(M, N), bias=torch.ones(N),
        bt=torch.ones(N, K), a3=torch.ones(2, M, K), b3=torch.ones(2, K, N), c3=torch.ones(2, M, N),
        out3=torch.empty(2, M, N),
    )  # fmt: skip
    _, given = form(x)
    factors = {"a": x.a, "b": x.b} | {name: given[name] for name in ("a", "b") if name in given}
    a, b = factors["a"], factors["b"].T if given.get("b") is x.bt else factors["b"]
    into = {id(one) for one in (x.out, x.out3)}
    result = form(x)[0]
    out = result if id(result) in into else None
    routed.remember(a, b, given.get("c"), out, given.get("bias"), given.get("beta", 0.0))
    assert python_calls(lambda: form(x))[0] == 1
    launched = len(routed.driver.launches)
    assert launched >= 1
    calls, (result, _) = python_calls(lambda: form(x))
    assert calls == 0
    assert out is None or result is out
    expected = parameters(a, b, result, given.get("c"), given.get("bias"), given.get("alpha", 1), given.get("beta", 0))
    assert [launch.parameters for launch in routed.driver.launches[launched:]] == [expected]


def test_pytorch_computes_what_gains_nothing_while_it_may_round(routed, monkeypatch):
    a, b = torch.ones(M, K), torch.ones(K, N)
    routed.remember(a, b)
    for _ in range(2):
        torch.mm(a, b)
    monkeypatch.setattr(routing, "_precision", lambda backend, operator: "tf32")
    assert torch.mm(a, b).eq(K).all()
    monkeypatch.setattr(routing, "_precision", lambda backend, operator: "none")
    assert python_calls(lambda: torch.mm(a, b))[0] == 0
    assert ran() == {"tilewright": 3, "PyTorch": 1}


def test_a_plan_that_is_not_known_any_more_is_python_s(routed):
    a, b = torch.ones(M, K), torch.ones(K, N)
    routed.remember(a, b)
    for _ in range(2):
        torch.mm(a, b)
    on_gpu.fast.forget()
    calls, result = python_calls(lambda: torch.mm(a, b))
    assert calls == 1
    assert result.eq(K).all()


def test_memory_of_another_alignment_is_python_s(routed):
    a, b = torch.ones(M, K), torch.ones(K, N)
    routed.remember(a, b)
    for _ in range(2):
        torch.mm(a, b)
    calls, result = python_calls(lambda: torch.mm(torch.ones(M * K + 1)[1:].view(M, K), b))
    assert calls == 1
    assert result.eq(K).all()


def test_errors_of_the_driver_are_raised(routed):
    a, b = torch.ones(M, K), torch.ones(K, N)
    routed.remember(a, b)
    for _ in range(2):
        torch.mm(a, b)
    routed.driver.failing = 700
    with pytest.raises(tilewright.LaunchError):
        torch.mm(a, b)


def test_gradients_are_launched_too(routed):
    a, b = torch.ones(M, K).requires_grad_(), torch.ones(K, N).requires_grad_()
    with torch.no_grad():
        routed.remember(a, b)
        d = torch.ones(M, N)
        routed.remember(d, b.T)
        routed.remember(a.T, d)

    def step():
        return torch.autograd.grad(torch.mm(a, b), (a, b), d)

    step()
    calls, _ = python_calls(step)
    assert calls == 0
    assert len(routed.driver.launches) == 6


def test_the_precision_of_a_call_finds_its_own_plan(routed, monkeypatch):
    a, b = torch.ones(M, K), torch.ones(K, N)
    routed.remember(a, b)
    routed.remember(a, b, options=Request(precision="ieee"), function=7)
    for _ in range(2):
        torch.mm(a, b)
    for said in ("ieee", "none"):  # the same to enable(), which has no precision here
        monkeypatch.setattr(routing, "_precision", lambda backend, operator, said=said: said)
        assert python_calls(lambda: torch.mm(a, b))[0] == 0
    assert [launch.function == 7 for launch in routed.driver.launches] == [False] * 4
    with tilewright.torch.enable("ieee", wait=True):
        torch.mm(a, b)
        assert python_calls(lambda: torch.mm(a, b))[0] == 0
    assert python_calls(lambda: torch.mm(a, b))[0] == 0
    assert [launch.function == 7 for launch in routed.driver.launches[4:]] == [True, True, False]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_batch_invariant_product_finds_its_own_plan(routed, dtype):
    a, b = torch.ones(M, K, dtype=dtype), torch.ones(K, N, dtype=dtype)
    routed.remember(a, b)
    routed.remember(a, b, options=Request(batch_invariant=True), function=7)
    with tilewright.torch.enable(batch_invariant=True):
        torch.mm(a, b)
        assert python_calls(lambda: torch.mm(a, b))[0] == 0
    torch.mm(a, b)
    assert python_calls(lambda: torch.mm(a, b))[0] == 0
    assert [launch.function == 7 for launch in routed.driver.launches] == [True, True, False, False]
