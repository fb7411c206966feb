"""enable() never waits for a compiler: PyTorch computes until a background thread has compiled; `warm` waits."""

import logging
import threading
from collections import Counter
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from products import draw, same  # noqa: E402

import tilewright.torch  # noqa: E402
from tilewright import CompileError, ProblemError  # noqa: E402
from tilewright.api import gpu as on_gpu  # noqa: E402
from tilewright.frameworks.torch.enable import decisions, routing, shortcut  # noqa: E402
from tilewright.runtime.background import Background  # noqa: E402
from tilewright.select.speedup import Speedup  # noqa: E402

enable, disable, report, warm = (getattr(tilewright.torch, name) for name in ("enable", "disable", "report", "warm"))

A, B, BIAS = draw(4, 5, grad=False), draw(5, 6, grad=False), draw(6, grad=False)
WAITING = "waiting for a compiler"


@pytest.fixture
def compiler(monkeypatch):
    """A stand-in for the compiler, which works when `go` is set; a job a number of rows. What is asked for is noted."""
    background, go, compiled, found = Background(), threading.Event(), set(), SimpleNamespace(error=None, asked=[])

    def compile_(rows):
        go.wait(20)
        if found.error:
            raise found.error
        compiled.add(rows)

    def check_loaded(call):
        rows = call.a.shape[0]
        found.asked.append(rows)
        if rows not in compiled:
            raise on_gpu.AwaitedError(background.start(rows, lambda: compile_(rows)))

    monkeypatch.setattr(routing, "_KEY", "CPU")
    monkeypatch.setattr(routing, "_routes", {})
    monkeypatch.setattr(routing, "background", background)
    monkeypatch.setattr(routing, "expect", lambda problem, device: Speedup(1.1, 1.0))
    monkeypatch.setattr(on_gpu, "check_loaded", check_loaded)
    found.go, found.wait, found.compiled = go, background.wait, compiled
    yield found
    go.set()
    disable()


def rows():
    """Calls by where they ran, and why."""
    found = Counter()
    for row in report():
        found[row.where, row.why] += row.calls
    return found


def test_pytorch_computes_until_the_code_is_there(compiler):
    with enable():
        for _ in range(3):
            same(torch.mm(A, B), torch.from_numpy(A.numpy() @ B.numpy()))
        assert rows() == {("PyTorch", WAITING): 3}
        assert compiler.asked == [4]  # a kind that waits asks no more
        compiler.go.set()
        compiler.wait()
        for _ in range(2):
            same(torch.mm(A, B), torch.from_numpy(A.numpy() @ B.numpy()))
        assert rows() == {("PyTorch", WAITING): 3, ("tilewright", ""): 2}


def test_what_does_not_compile_is_left_to_pytorch_and_the_account_says_why(compiler):
    compiler.error = CompileError("ptxas is out of registers")
    compiler.go.set()
    with enable():
        torch.mm(A, B)
        compiler.wait()
        for _ in range(2):
            torch.mm(A, B)
    assert rows() == {("PyTorch", WAITING): 1, ("PyTorch", "ptxas is out of registers"): 2}
    assert compiler.asked == [4]


def test_backward_products_do_not_wait_either(compiler):
    x, w = draw(4, 5), draw(5, 6)
    expected = torch.autograd.grad((x @ w).square().sum(), (x, w))
    with enable():
        torch.testing.assert_close(torch.autograd.grad((x @ w).square().sum(), (x, w)), expected)
        assert rows() == {("PyTorch", WAITING): 3}
        compiler.go.set()
        compiler.wait()
        torch.testing.assert_close(torch.autograd.grad((x @ w).square().sum(), (x, w)), expected)
    assert rows() == {("PyTorch", WAITING): 3, ("tilewright", ""): 3}


def test_with_wait_code_is_compiled_by_the_call(compiler):
    with enable(wait=True):
        torch.mm(A, B)
    assert not compiler.asked
    assert rows() == {("tilewright", ""): 1}


def test_a_kind_that_waited_is_waited_for_after_enable_says_so(compiler):
    with enable():
        torch.mm(A, B)
        threading.Timer(0.2, compiler.go.set).start()
        with enable(wait=True):
            torch.mm(A, B)
        torch.mm(draw(3, 5, grad=False), B)
    assert rows() == {("PyTorch", WAITING): 2, ("tilewright", ""): 1}


@pytest.mark.parametrize("wait", [1, None])
def test_wait_is_a_bool(compiler, wait):
    with pytest.raises(ProblemError, match=f"wait must be True or False, got {wait}"):
        enable(wait=wait)
    assert not routing._routes


def test_more_kinds_than_are_remembered_keep_the_count(compiler, monkeypatch):
    monkeypatch.setattr(decisions, "MOST_KINDS", 2)
    with enable():
        for k in (3, 4, 5, 6, 7):
            torch.mm(draw(4, k, grad=False), draw(k, 6, grad=False))
    assert rows() == {("PyTorch", WAITING): 5}


class Layers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(5, 7), torch.nn.Linear(7, 3)
        self.drop = torch.nn.Dropout(0.5)

    def forward(self, x, scale=1.0):
        return {"logits": self.second(self.drop(self.first(x).relu())) * scale}


@pytest.mark.parametrize("inputs", [A, (A,), [A, 2.0], {"x": A, "scale": 0.5}], ids=["tensor", "tuple", "list", "dict"])
def test_warm_returns_when_all_that_a_model_needs_is_there(compiler, inputs):
    model = Layers()
    threading.Timer(0.2, compiler.go.set).start()
    with enable():
        warm(model, inputs)
        assert compiler.compiled == {4, 7, 3}  # forward, and gradients of both weights
        report(reset=True)
        model(A)
    assert {row.where for row in report()} == {"tilewright"}
    assert all(one.grad is None for one in model.parameters())


def test_warm_leaves_random_numbers_and_the_switch_as_they_were(compiler):
    model = Layers()
    compiler.go.set()
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    warm(model, A)
    assert torch.equal(torch.rand(2), expected)
    assert not any(routes.installed for routes in routing._routes.values())
    assert compiler.compiled == {4, 7, 3}
    with enable("fp16x3", wait=True):
        warm(lambda a: a @ B, A)
        assert routing._routes["fp16x3", False].waits


def test_warm_says_what_does_not_compile(compiler):
    compiler.error = CompileError("no such instruction")
    compiler.go.set()
    with pytest.raises(CompileError, match="no such instruction"):
        warm(lambda a: a @ B, A)


def test_the_shortcut_is_put_in_place_once_it_is_built(compiler, monkeypatch):
    if shortcut.load() is None:
        pytest.skip("the shortcut cannot be built here")
    built = threading.Event()
    monkeypatch.setattr(routing, "load_shortcut", lambda: built.wait(20) and shortcut.load())
    monkeypatch.setattr(routing, "expect", lambda problem, device: None)
    expected = torch.addmm(BIAS, A, B)

    def python_calls():
        counted = []
        monkeypatch.setattr(routing.Decisions, "get", lambda self, kind: counted.append(kind) or dict.get(self, kind))
        for _ in range(3):
            same(torch.addmm(BIAS, A, B), expected)
        return len(counted)

    with enable():
        assert python_calls() == 3
        built.set()
        compiler.wait()
        assert python_calls() == 2  # in the first it is put in place, in the second it hears of the decision
        assert python_calls() == 0
    with enable():
        assert python_calls() == 0
    assert torch.equal(torch.addmm(BIAS, A, B), expected)
    assert rows() == {("PyTorch", "nothing like it was measured"): 12}


def test_without_a_compiler_python_routes(compiler, monkeypatch):
    compiler.go.set()
    monkeypatch.setattr(routing, "load_shortcut", lambda: None)
    with enable():
        for _ in range(3):
            torch.mm(A, B)
            compiler.wait()
    assert rows() == {("PyTorch", WAITING): 1, ("tilewright", ""): 2}


def test_a_capture_of_what_did_not_run_before_is_logged_once(monkeypatch):
    lines = []
    routing._log_capture.cache_clear()
    monkeypatch.setattr(logging.getLogger("tilewright.torch"), "info", lines.append)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    on_a_gpu = SimpleNamespace(is_cuda=True)
    for _ in range(2):
        assert routing._first(routing.Decision(""), {"a": on_a_gpu}, 1.0, 0.0, None, waits=False) is None
    (line,) = lines
    assert "tilewright.torch.warm" in line
