"""enable(): which of PyTorch's products tilewright computes, on tensors of the host instead of a GPU."""

import logging
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import Future
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from products import draw, same  # noqa: E402

import tilewright.torch  # noqa: E402
from tilewright import EngineUnavailableError, ProblemError  # noqa: E402
from tilewright.api import front  # noqa: E402
from tilewright.api.request import Request  # noqa: E402
from tilewright.core.errors import LibraryError  # noqa: E402
from tilewright.frameworks.torch.enable import decisions, routing  # noqa: E402
from tilewright.runtime import background  # noqa: E402
from tilewright.select.speedup import Speedup  # noqa: E402

enable, disable, report = tilewright.torch.enable, tilewright.torch.disable, tilewright.torch.report


@pytest.fixture(autouse=True)
def speedups(monkeypatch):
    """Speedups by m, of problems on the host; those of other m are not known."""
    known = {4: Speedup(1.25, 2.0), 8: Speedup(0.5, -3.0)}
    monkeypatch.setattr(routing, "_KEY", "CPU")
    monkeypatch.setattr(routing, "_routes", {})
    monkeypatch.setattr(routing, "expect", lambda problem, device: known.get(problem.m))
    yield known
    disable()


def ran():
    """How often each operator ran where."""
    found = Counter()
    for row in report():
        found[row.operator, row.where] += row.calls
    return found


def both(function):
    """Results of a function with tilewright and without."""
    with enable():
        ours = function()
    return ours, function()


A, B, BIAS = draw(4, 5, grad=False), draw(5, 6, grad=False), draw(6, grad=False)
C, W = draw(4, 6, grad=False), draw(6, 5, grad=False)
INTEGERS = torch.arange(-128, 128, 4, dtype=torch.int8).reshape(4, 16)
BATCH_A, BATCH_B = draw(3, 4, 5, grad=False), draw(3, 5, 6, grad=False)

OPERATIONS = {
    "mm": ("mm", lambda: torch.mm(A, B)),
    "@": ("mm", lambda: A @ W.T),
    "matmul of a batch and a matrix": ("mm", lambda: torch.matmul(BATCH_A[:1], B)),
    "linear": ("mm", lambda: torch.nn.functional.linear(A, W)),
    "linear with bias": ("addmm", lambda: torch.nn.functional.linear(A, W, BIAS)),
    "linear of a batch": ("addmm", lambda: torch.nn.functional.linear(BATCH_A[:1], W, BIAS)),
    "addmm": ("addmm", lambda: torch.addmm(C, A, B, beta=0.5, alpha=2)),
    "addmm with a column": ("addmm", lambda: torch.addmm(C[:, :1].contiguous(), A, B)),
    "addmm without c": ("addmm", lambda: torch.addmm(C * torch.nan, A, B, beta=0)),
    "bmm": ("bmm", lambda: torch.bmm(BATCH_A, BATCH_B)),
    "baddbmm": ("baddbmm", lambda: torch.baddbmm(torch.bmm(BATCH_A, BATCH_B), BATCH_A, BATCH_B, beta=-1)),
    "mm with out": ("mm", lambda: torch.mm(A, B, out=torch.empty(4, 6))),
    "mm by columns": ("mm", lambda: torch.mm(A, B, out=torch.empty(6, 4).T)),
    "addmm with out": ("addmm", lambda: torch.addmm(BIAS, A, B, out=torch.empty(4, 6))),
    "_int_mm": ("_int_mm", lambda: torch._int_mm(INTEGERS, INTEGERS.T)),
    "_int_mm with out": (
        "_int_mm",
        lambda: torch._int_mm(INTEGERS, INTEGERS.T, out=torch.empty(4, 4, dtype=torch.int32)),
    ),
    "bmm with out": ("bmm", lambda: torch.bmm(BATCH_A, BATCH_B, out=torch.empty(3, 4, 6))),
}


@pytest.mark.parametrize(("operator", "function"), OPERATIONS.values(), ids=OPERATIONS)
def test_products_that_gain_run_here(speedups, operator, function):
    speedups.update({3: Speedup(1.1, 1.0), 6: Speedup(1.1, 1.0)})
    ours, stock = both(function)
    same(ours, stock)
    assert ours.stride() == stock.stride()
    assert ran()[operator, "tilewright"] == 1


STAY = {
    "slower": (lambda: torch.mm(draw(8, 5, grad=False), B), "cuBLAS is expected to be faster"),
    "not measured": (lambda: torch.mm(draw(9, 5, grad=False), B), "nothing like it was measured"),
    "float64": (lambda: torch.mm(A.double(), B.double()), "element type float64"),
    "integers that mm wraps at 8 bits": (lambda: torch.mm(INTEGERS, INTEGERS.T), "element type int8"),
    "complex": (lambda: torch.mm(A * 1j, (B * 1j).conj()), "element type complex64"),
    "integers": (lambda: torch.mm(A.int(), B.int()), "element type int32"),
    "every other": (lambda: torch.mm(draw(4, 10, grad=False)[:, ::2], B), "an operand that would be copied first"),
    "expanded": (lambda: torch.mm(A[:1, :1].expand(4, 5), B), "an operand that would be copied first"),
    "resized": (lambda: torch.mm(A, B, out=torch.empty(0)), "shapes that PyTorch refuses, or a result that it resizes"),
    "scaled bias": (lambda: torch.addmm(BIAS, A, B, beta=2), "what is added is neither a matrix nor a bias"),
    "bias with gaps": (lambda: torch.addmm(draw(12, grad=False)[::2], A, B), "what is added is neither"),
    "scalar": (lambda: torch.addmm(BIAS[0], A, B), "what is added is neither"),
    "bias of a batch": (lambda: torch.baddbmm(BIAS, BATCH_A, BATCH_B), "what is added is neither"),
}


@pytest.mark.parametrize(("function", "why"), STAY.values(), ids=STAY)
def test_what_stays_with_pytorch_and_why(function, why):
    torch.manual_seed(0)
    with enable():
        ours = function()
    torch.manual_seed(0)
    torch.testing.assert_close(ours, function())
    (row,) = report()
    assert (row.where, row.calls) == ("PyTorch", 1)
    assert row.why.startswith(why)


REFUSED = {
    "inner": lambda: torch.mm(A, A),
    "types": lambda: torch.mm(A, B.half()),
    "batches": lambda: torch.bmm(BATCH_A, BATCH_B[:2]),
    "rank": lambda: torch.mm(BATCH_A, B),
    "vector": lambda: torch.mm(A, B[:, 0]),
    "types of _int_mm": lambda: torch._int_mm(INTEGERS, INTEGERS.T.int()),
    "out's type": lambda: torch.mm(A, B, out=torch.empty(4, 6, dtype=torch.float64)),
}


@pytest.mark.parametrize("function", REFUSED.values(), ids=REFUSED)
def test_what_pytorch_refuses_it_still_refuses_in_its_words(function):
    words = []
    for context in (torch.no_grad(), enable()):
        with context, pytest.raises(RuntimeError) as caught:
            function()
        words.append(str(caught.value))
    assert words[0] == words[1]


def test_backward_products_run_here_too():
    x, w, bias = draw(4, 4), draw(4, 4), draw(4)

    def gradients():
        result = torch.nn.functional.linear(x, w, bias)
        return result, *torch.autograd.grad(result.pow(2).sum(), (x, w, bias))

    same(*both(gradients))
    assert ran() == {("addmm", "tilewright"): 1, ("mm", "tilewright"): 2}


def test_a_function_that_was_compiled_before_follows_the_switch():
    torch._dynamo.reset()
    compiled = torch.compile(torch.mm, backend="aot_eager", fullgraph=True)
    expected = compiled(A, B)
    with enable():
        same(compiled(A, B), expected)
        assert ran() == {("mm", "tilewright"): 1}
    compiled(A, B)
    assert ran() == {("mm", "tilewright"): 1}


def test_float32_stays_with_pytorch_while_that_rounds_and_is_not_known_to_be_slower(monkeypatch):
    says = ["none", "tf32", "none"]  # the first is asked for as the kind is decided
    monkeypatch.setattr(routing, "_precision", lambda backend, operator: says.pop(0) if says else "none")
    tabled = {None: Speedup(1.25, 2.0), "tf32": None}
    monkeypatch.setattr(routing, "expect", lambda problem, device: tabled[problem.arithmetic.precision])
    with enable():
        torch.mm(A, B)
        torch.mm(A, B)
        torch.mm(A.half(), B.half())
    assert not says
    assert ran() == {("mm", "PyTorch"): 1, ("mm", "tilewright"): 2}


def test_what_fails_here_is_left_to_pytorch_from_then_on(monkeypatch):
    calls = []

    def fails(*arguments):
        calls.append(arguments)
        raise EngineUnavailableError("no compiler")

    monkeypatch.setattr(front, "multiply", fails)
    with enable():
        for _ in range(3):
            same(torch.mm(A, B), torch.from_numpy(A.numpy() @ B.numpy()))
    assert len(calls) == 1
    assert [(row.calls, row.why) for row in report()] == [(3, "no compiler")]


@pytest.mark.parametrize(("saved_us", "here"), [(2.0, 32), (200.0, 40)])
def test_what_the_launcher_never_knows_stays_here_only_for_a_large_gain(speedups, saved_us, here):
    speedups[4] = Speedup(1.25, saved_us)
    with enable():
        for _ in range(40):
            torch.mm(A, B)
    assert ran()["mm", "tilewright"] == here
    assert ran()["mm", "PyTorch"] == 40 - here


def test_a_scalar_that_is_no_number_is_pytorchs():
    with enable():
        assert torch.addmm(C, A, B, alpha=float("nan")).isnan().all()
        same(torch.addmm(C, A, B, alpha=True), C + A @ B)
    assert ran()["addmm", "PyTorch"] == 2


def test_switch_context_and_decorator():
    def counted():
        report(reset=True)
        torch.mm(A, B)
        return sum(row.calls for row in report())

    @enable()
    def decorated():
        return counted()

    assert [counted(), decorated(), decorated(), counted()] == [0, 1, 1, 0]
    enable()
    with enable():
        assert counted() == 1
    assert [counted(), decorated(), counted()] == [1, 1, 1]
    disable()
    disable()
    assert counted() == 0
    with pytest.raises(RuntimeError, match="in between"), enable():
        raise RuntimeError("in between")
    assert counted() == 0


def test_what_was_decided_is_known_after_the_next_enable(monkeypatch):
    with enable():
        torch.mm(A, B)
    monkeypatch.setattr(routing, "decide", None)
    with enable():
        same(torch.mm(A, B), torch.from_numpy(A.numpy() @ B.numpy()))
    assert ran() == {("mm", "tilewright"): 2}


def test_more_kinds_than_are_remembered_are_counted_all_the_same(monkeypatch):
    monkeypatch.setattr(decisions, "MOST_KINDS", 3)
    with enable():
        for k in (3, 4, 5, 6, 7, 3, 4, 5, 6, 7):
            a, b = draw(4, k, grad=False), draw(k, 6, grad=False)
            same(torch.mm(a, b), torch.from_numpy(a.numpy() @ b.numpy()))
        torch.mm(draw(8, 5, grad=False), B)
    assert ran() == {("mm", "tilewright"): 10, ("mm", "PyTorch"): 1}
    assert {row.problem: row.calls for row in report()}["4x6x3 NN float32"] == 2
    assert max(map(len, routing._routes[None, False, False].decisions.values())) <= 3


def test_the_report_is_a_table():
    with enable():
        for _ in range(3):
            torch.mm(A, B)
        torch.mm(draw(8, 5, grad=False), B)
        torch.mm(A.T.contiguous().T, B)
        torch.mm(A, B.T.contiguous().T)
    found = report()
    assert [(row.problem, row.where, row.calls, row.saved_us) for row in found] == [
        ("4x6x5 NN float32", "tilewright", 3, 6.0),
        ("4x6x5 TN float32", "tilewright", 1, 2.0),
        ("4x6x5 NT float32", "tilewright", 1, 2.0),
        ("8x6x5 NN float32", "PyTorch", 1, 0.0),
    ]
    lines = str(found).splitlines()
    assert lines[0].split() == ["operator", "problem", "ran", "on", "calls", "saved", "ms", "why"]
    assert lines[4].endswith("cuBLAS is expected to be faster")
    assert lines[-1] == "0.01 ms saved, as tables expect"


def test_an_older_pytorch_says_so(monkeypatch):
    monkeypatch.delattr(torch.library, "get_kernel")
    with pytest.raises(LibraryError, match=r"enable\(\) needs PyTorch 2.9 or newer"):
        enable()


@pytest.mark.further
def test_what_inductor_compiles_follows_the_switch_too(speedups, tmp_path, monkeypatch):
    """Products alone: a gradient of the bias would be a kernel in C++, which takes seconds."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    speedups.update({5: Speedup(1.1, 1.0), 6: Speedup(1.1, 1.0)})
    torch._dynamo.reset()
    x, w, bias = draw(4, 5), draw(6, 5), draw(6).detach()

    def step(function):
        return torch.autograd.grad(function(x, w, bias).relu().square().sum(), (x, w))

    compiled = torch.compile(torch.nn.functional.linear, fullgraph=True)
    with enable():
        ours = step(compiled)
    same(ours, step(torch.nn.functional.linear))
    assert ran()["addmm", "tilewright"] == 1
    assert ran()["mm", "tilewright"] >= 1


@pytest.fixture
def asked(monkeypatch):
    """Precisions of the requests that reach matmul, and a way to set what PyTorch says of its own."""
    found = []
    multiply = front.multiply

    def noted(request, library, arrays, alpha, beta, options):
        found.append(request.precision)
        assert options == Request(precision=request.precision).key
        return multiply(request, library, arrays, alpha, beta, options)

    monkeypatch.setattr(front, "multiply", noted)
    found_by = lambda word: monkeypatch.setattr(routing, "_precision", lambda backend, operator: word)  # noqa: E731
    return found, found_by


@pytest.mark.parametrize(
    ("precision", "torch_s", "wanted"),
    [
        (None, "none", None),
        (None, "ieee", None),
        ("float32", "none", None),
        ("float32", "ieee", None),
        ("fp16x3", "none", "fp16x3"),
        ("fp16x3", "ieee", "fp16x3"),
        ("ieee", "none", "ieee"),
    ],
)
def test_the_precision_is_that_of_enable_or_else_pytorch_s(asked, precision, torch_s, wanted):
    found, says = asked
    says(torch_s)
    with enable(precision):
        same(torch.mm(A, B), torch.from_numpy(A.numpy() @ B.numpy()))
        torch.mm(A.half(), B.half())
    assert found == [wanted, None]
    assert {row.problem for row in report()} == {
        "4x6x5 NN float32" + (f":{wanted}" if wanted else ""),
        "4x6x5 NN float16->float16",
    }


def test_pytorch_s_precision_counts_in_every_call(asked):
    found, says = asked
    with enable():
        for word in ("none", "ieee", "tf32", "none"):
            says(word)
            torch.mm(A, B)
    assert found == [None, None, "tf32", None]
    assert ran() == {("mm", "tilewright"): 4}


@pytest.mark.parametrize(("precision", "noted"), [(None, True), ("fp16x3", False), ("ieee", False)])
def test_how_allow_tf32_is_taken_is_said(asked, precision, noted):
    """In the account, where nobody gave enable() a precision; a process says it once in a log."""
    _, says = asked
    says("ieee")
    with enable(precision):
        torch.mm(A, B)
        assert ('enable("ieee") computes them on CUDA cores' in str(report())) == noted
    says("none")
    assert not report().note


def test_how_allow_tf32_is_taken_is_logged_once(asked, monkeypatch):
    _, says = asked
    decisions.log_ieee.cache_clear()
    lines = []
    monkeypatch.setattr(logging.getLogger("tilewright.torch"), "info", lines.append)
    says("ieee")
    with enable():
        torch.mm(A, B)
        torch.mm(A, torch.cat([B, B], 1))
    (line,) = lines
    assert "allow_tf32 = False" in line


@pytest.mark.parametrize("first", ["none", "tf32"])
def test_what_pytorch_rounds_is_decided_apart(asked, monkeypatch, first):
    """By what is gained over cuBLAS in TF32, whichever setting a kind is first seen with."""
    found, says = asked
    speedups = {None: Speedup(0.5, -1.0), "tf32": Speedup(1.5, 1.0)}
    monkeypatch.setattr(routing, "expect", lambda problem, device: speedups[problem.arithmetic.precision])
    with enable():
        for word in (first, "none", "tf32", "ieee", "tf32"):
            says(word)
            torch.mm(A, B)
    assert found == ["tf32"] * (3 if first == "tf32" else 2)
    assert {row.problem for row in report()} == {"4x6x5 NN float32:tf32"}


def test_tf32_may_be_asked_for_while_pytorch_does_not_round(asked, monkeypatch):
    """Then it is at least as fast as the next promise over float32."""
    found, says = asked
    speedups = {"bf16x3": Speedup(1.5, 1.0), "tf32": None}
    monkeypatch.setattr(routing, "expect", lambda problem, device: speedups[problem.arithmetic.precision])
    with enable("tf32"):
        for word in ("none", "ieee", "tf32"):
            says(word)
            torch.mm(A, B)
    assert found == ["tf32", "tf32"]


@pytest.mark.further
def test_pytorch_s_own_default_is_not_ieee():
    code = "import torch; print(torch.backends.cuda.matmul.fp32_precision)"
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert said.strip() == "none"


def test_tf32_stays_with_pytorch_where_a_stricter_precision_was_asked_for(asked):
    found, says = asked
    says("tf32")
    with enable("fp16x3"):
        torch.mm(A, B)
    assert not found
    assert ran() == {("mm", "PyTorch"): 1}


def test_contexts_of_several_precisions_restore_what_was_before(asked):
    found, _ = asked
    with enable("fp16x3"):
        torch.mm(A, B)
        with enable("ieee"):
            torch.mm(A, B)
        torch.mm(A, B)

        @enable("bf16x3")
        def product():
            return torch.mm(A, B)

        product()
        torch.mm(A, B)
    torch.mm(A, B)
    assert found == ["fp16x3", "ieee", "fp16x3", "bf16x3", "fp16x3"]
    report(reset=True)
    assert not report()
    assert str(report()).startswith("no products to report: ")


def test_each_precision_is_decided_for_itself(monkeypatch):
    expected = {None: Speedup(0.5, -1.0), "fp16x3": Speedup(2.0, 1.0), "tf32": None}
    monkeypatch.setattr(routing, "expect", lambda problem, device: expected[problem.arithmetic.precision])
    for precision, where in ((None, "PyTorch"), ("fp16x3", "tilewright"), (None, "PyTorch")):
        report(reset=True)
        with enable(precision):
            torch.mm(A, B)
        assert ran() == {("mm", where): 1}


def test_an_unknown_precision_is_refused_and_nothing_is_enabled():
    with pytest.raises(ProblemError, match="did you mean 'fp16x3'"):
        enable("fp16x2")
    torch.mm(A, B)
    assert not report()


def test_pytorch_multiplies_while_code_is_compiled(monkeypatch):
    """And the account says how often; what is compiled then runs here."""
    multiply, pending = front.multiply, Future()

    def compiles(*arguments):
        if not (pending.done() or background.waits()):
            raise background.PendingCode([pending])
        return multiply(*arguments)

    monkeypatch.setattr(front, "multiply", compiles)
    expected = torch.from_numpy(A.numpy() @ B.numpy())
    with enable():
        for _ in range(3):
            same(torch.mm(A, B), expected)
        pending.set_result(None)
        same(torch.mm(A, B), expected)
    assert {(row.where, row.calls, row.why) for row in report()} == {
        ("PyTorch", 3, "while its code was compiled"),
        ("tilewright", 1, ""),
    }


@pytest.mark.parametrize("keywords", [{"wait": True}, {"batch_invariant": True}])
def test_products_wait_where_they_are_to(monkeypatch, keywords):
    waited = []
    monkeypatch.setattr(front, "multiply", lambda *_: waited.append(background.waits()) or C)
    with enable(**keywords):
        torch.mm(A, B)
    assert waited[0]


def test_warm_runs_a_step_until_nothing_of_it_is_compiled(monkeypatch):
    steps, waits = [], iter([True, True, False])
    monkeypatch.setattr(background, "finish", lambda: next(waits))

    def step(*given, **more):
        steps.append((given, more))
        return len(steps)

    with pytest.raises(LibraryError, match="not in force"):
        tilewright.torch.warm(step)
    with enable():
        assert tilewright.torch.warm(step, 1, two=2) == 3
    assert steps == 3 * [((1,), {"two": 2})]


def test_warm_goes_on_where_all_was_compiled_before_the_step_ended(monkeypatch):
    """As from a cache on disk: what was compiled has no plan yet."""
    multiply, done = front.multiply, Future()
    done.set_result(None)
    calls = []

    def compiles(*arguments):
        calls.append(background.waits())
        if len(calls) < 3:
            raise background.PendingCode([done])
        return multiply(*arguments)

    monkeypatch.setattr(front, "multiply", compiles)
    with enable():
        tilewright.torch.warm(torch.mm, A, B)
        report(reset=True)
        torch.mm(A, B)
    assert ran() == {("mm", "tilewright"): 1}
    assert calls[:3] == [False] * 3


def test_warm_ends_where_each_step_has_new_shapes(monkeypatch):
    def compiles(*arguments):
        raise background.PendingCode([Future()])

    monkeypatch.setattr(front, "multiply", compiles)
    sizes = iter(range(3, 100))
    with enable():
        tilewright.torch.warm(lambda: torch.mm(A, draw(5, next(sizes), grad=False)))
    assert next(sizes) < 15


def test_a_capture_of_what_did_not_run_before_is_logged_once(monkeypatch):
    lines = []
    routing._log_capture.cache_clear()
    monkeypatch.setattr(logging.getLogger("tilewright.torch"), "info", lines.append)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    on_a_gpu, route = SimpleNamespace(is_cuda=True), SimpleNamespace(never_waits=True)
    for _ in range(2):
        assert routing._first(routing.Decision(""), route, {"a": on_a_gpu}, 1.0, 0.0, None) is None
    (line,) = lines
    assert "tilewright.torch.warm" in line


def test_the_engine_of_a_gpu_is_loaded_in_the_background(monkeypatch):
    """And where it cannot be, the account has its words."""
    go, opened = threading.Event(), []
    monkeypatch.setattr(background, "_compilers", background._Compilers())
    monkeypatch.setattr(routing.on_gpu, "open_engine", lambda device: go.wait(20) and opened.append(device))
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(routing, "library_of", lambda *_: None)
    monkeypatch.setattr(front, "multiply", lambda *_: "the product")
    on_a_gpu, route = SimpleNamespace(is_cuda=True, device=SimpleNamespace(index=1)), SimpleNamespace(never_waits=True)
    decision = routing.Decision("")
    assert routing._first(decision, route, {"a": on_a_gpu}, 1.0, 0.0, None) is None
    assert decision.is_pending
    go.set()
    background.finish()
    assert not decision.is_pending
    assert routing._first(decision, route, {"a": on_a_gpu}, 1.0, 0.0, None) == "the product"
    assert opened == [1]


def test_wait_is_a_bool():
    with pytest.raises(ProblemError, match="wait must be True or False, got 1"):
        enable(wait=1)
