"""Products that enable() leaves to PyTorch: decided once by Python, then computed and counted without it."""

import cProfile
import pstats
from concurrent.futures import ThreadPoolExecutor

import pytest

torch = pytest.importorskip("torch")

from products import draw  # noqa: E402

import tilewright.torch  # noqa: E402
from tilewright.frameworks.torch.enable import routing, shortcut  # noqa: E402
from tilewright.runtime import background  # noqa: E402

INTEGERS = torch.arange(-128, 128, 4, dtype=torch.int8).reshape(4, 16)
A, B, BIAS = draw(4, 5, grad=False), draw(5, 6, grad=False), draw(6, grad=False)


@pytest.fixture(params=["shortcut", "without a compiler"])
def built(request, monkeypatch):
    """Nothing is faster, on the host; whether there is a shortcut."""
    if request.param == "without a compiler":
        monkeypatch.setattr(routing, "load_shortcut", lambda: None)
    elif shortcut.load() is None:
        pytest.skip("the shortcut cannot be built here")
    monkeypatch.setattr(routing, "_KEY", "CPU")
    monkeypatch.setattr(routing, "_routes", {})
    monkeypatch.setattr(routing, "expect", lambda problem, device: None)
    yield request.param == "shortcut"
    tilewright.torch.disable()


def python_calls(function, times=5):
    """How often calls of a function reach Python's kernels."""
    profile = cProfile.Profile()
    with profile:
        for _ in range(times):
            function()
    stats = pstats.Stats(profile).stats
    return sum(found[0] for (file, _, name), found in stats.items() if file == routing.__file__ and name == "multiply")


def left():
    """Calls that PyTorch computed."""
    return sum(row.calls for row in tilewright.torch.report() if row.where == "PyTorch")


FUNCTIONS = {
    "mm": lambda: torch.mm(A, B),
    "mm with out": lambda: torch.mm(A, B, out=torch.empty(4, 6)),
    "addmm": lambda: torch.addmm(BIAS, A, B),
    "addmm with scalars": lambda: torch.addmm(BIAS, A, B, beta=2, alpha=0.5),
    "_int_mm": lambda: torch._int_mm(INTEGERS, INTEGERS.T),
    "bmm": lambda: torch.bmm(A[None], B[None]),
    "baddbmm": lambda: torch.baddbmm(BIAS, A[None], B[None]),
}


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_python_decides_once(built, function):
    expected = function()
    with tilewright.torch.enable(wait=True):
        torch.testing.assert_close(function(), expected, rtol=0, atol=0)
        assert python_calls(function) == (0 if built else 5)
        torch.testing.assert_close(function(), expected, rtol=0, atol=0)
        assert left() == 7
        function()
    assert left() == 8


def test_every_kind_of_call_is_decided(built):
    kinds = [
        lambda: torch.addmm(BIAS, A, B),
        lambda: torch.addmm(BIAS, A, B, beta=2),
        lambda: torch.addmm(BIAS, A.T.contiguous().T, B),
        lambda: torch.addmm(BIAS[None], A, B),
        lambda: torch.addmm(BIAS.double(), A.double(), B.double()),
        lambda: torch.addmm(BIAS, A[:3], B),
    ]
    with tilewright.torch.enable(wait=True):
        for function in kinds:
            assert python_calls(function) == (1 if built else 5)
        assert all(python_calls(function) == (0 if built else 5) for function in kinds)


def test_what_was_left_is_known_after_disable(built):
    for round_ in (1, 2):
        with tilewright.torch.enable(wait=True):
            assert python_calls(lambda: A @ B) == (5 if not built else 2 - round_)
        assert left() == 5 * round_
        assert python_calls(lambda: A @ B) == 0


def test_errors_are_those_of_pytorch(built):
    with tilewright.torch.enable(wait=True):
        for _ in range(3):
            with pytest.raises(RuntimeError, match="cannot be multiplied"):
                torch.mm(A, A)
        torch.mm(A, B)
    assert left() >= 1


def test_threads_are_counted(built):
    def work(_):
        for _ in range(500):
            torch.mm(A, B)

    with tilewright.torch.enable(wait=True), ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))
        assert left() == 2000


def test_gradients_of_what_is_left(built):
    x, w = draw(4, 5), draw(5, 6)
    expected = torch.autograd.grad((x @ w).square().sum(), (x, w))
    with tilewright.torch.enable(wait=True):
        for _ in range(3):
            found = torch.autograd.grad((x @ w).square().sum(), (x, w))
            torch.testing.assert_close(found, expected)
    assert left() == 9


def test_calls_take_python_s_way_until_the_shortcut_is_built(built):
    """Nobody waits for it; the first call after takes it into use."""
    with tilewright.torch.enable():
        background.finish()
        assert python_calls(lambda: A @ B) == (2 if built else 5)
        assert left() == 5
    assert python_calls(lambda: A @ B) == 0
