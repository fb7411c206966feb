"""batch_invariant of the operator and of enable(): the emulator multiplies tensors of the host."""

from importlib import import_module

import pytest

torch = pytest.importorskip("torch")

from products import draw, same  # noqa: E402

import tilewright.torch  # noqa: E402
from small_gpt import Model  # noqa: E402
from tilewright import EngineUnavailableError, ProblemError  # noqa: E402
from tilewright.api.request import Request  # noqa: E402
from tilewright.emulator.engine import EmulatorEngine  # noqa: E402
from tilewright.frameworks.torch.enable import decisions, routing  # noqa: E402

matmul, enable, report = tilewright.matmul, tilewright.torch.enable, tilewright.torch.report

A, B, BIAS = draw(70, 40, grad=False), draw(40, 24, grad=False), draw(24, grad=False)


@pytest.fixture
def emulated(monkeypatch):
    """Arrays of the host are multiplied by the emulator, as if it were this machine's GPU; nothing is known to be
    faster."""
    engine = EmulatorEngine()
    monkeypatch.setattr(import_module("tilewright.api.call"), "_host_engine", lambda request: engine)
    monkeypatch.setattr(routing, "_KEY", "CPU")
    monkeypatch.setattr(routing, "_routes", {})
    monkeypatch.setattr(routing, "expect", lambda problem, device: None)
    yield
    tilewright.torch.disable()


def test_the_logits_of_a_prompt_are_the_same_in_every_batch(emulated):
    model, ids = Model().eval(), torch.randint(48, (33, 7))
    with torch.no_grad(), enable(batch_invariant=True):
        alone = model(ids[:1])
        for batch, location in ((2, 1), (5, 0), (33, 20)):
            others = torch.randint(48, (batch, 7))
            others[location] = ids[0]
            assert torch.equal(model(others)[location], alone[0])
    ran = report()
    assert {row.where for row in ran} == {"tilewright"}
    assert {row.operator for row in ran} == {"mm", "addmm", "bmm"}
    assert all("batch_invariant" in row.problem for row in ran)
    with torch.no_grad():
        same(model(ids[:1]), alone)


HERE = {
    "scaled bias": lambda a: torch.addmm(BIAS, a, B, beta=2),
    "bias with gaps": lambda a: torch.addmm(torch.cat([BIAS, BIAS])[::2], a, B),
    "scalar": lambda a: torch.addmm(BIAS[0], a, B),
    "every other": lambda a: torch.mm(torch.cat([a, a], 1)[:, ::2], B),
    "a matrix": lambda a: torch.addmm(a[:, :24].contiguous(), a, B, beta=-0.5, alpha=0.7),
    "bias of a batch": lambda a: torch.baddbmm(BIAS, a[None], B[None])[0],
    "bfloat16": lambda a: torch.mm(a.bfloat16(), B.bfloat16()),
}


@pytest.mark.first(2)
@pytest.mark.parametrize("function", HERE.values(), ids=HERE)
def test_all_products_run_here_whatever_they_gain(emulated, function):
    with enable(batch_invariant=True):
        whole, some = function(A), function(A[11:14])
        for _ in range(2 * decisions._MISSES):
            function(A[:1])
    assert torch.equal(whole[11:14], some)
    same(function(A), whole, 2e-2 if whole.dtype == torch.bfloat16 else 2e-5)
    assert {row.where for row in report()} == {"tilewright"}


def test_what_stays_with_pytorch(emulated):
    with enable(batch_invariant=True):
        torch.mm(A.double(), B.double())
        torch.mm(A, B, out=torch.empty(0))
    assert [row.where for row in report()] == 2 * ["PyTorch"]


def test_tf32_is_followed_where_no_precision_is_given(emulated, monkeypatch):
    by = {asked: routing._options_by(asked, batch_invariant=True).by for asked in (None, "float32", "tf32")}
    assert [by[None][said].precision for said in ("none", "tf32")] == [None, "tf32"]
    assert by["float32"]["tf32"] == Request(batch_invariant=True)
    assert by["tf32"]["none"].precision == "tf32"
    assert all(options.batch_invariant for options in [*by[None].values(), *by["float32"].values()])


def test_what_cannot_be_is_raised_and_not_left_to_pytorch(monkeypatch):
    monkeypatch.setattr(routing, "_KEY", "CPU")
    monkeypatch.setattr(routing, "_routes", {})
    monkeypatch.setattr(routing, "expect", lambda problem, device: None)
    with enable(batch_invariant=True), pytest.raises(EngineUnavailableError, match="batch_invariant needs a GPU"):
        torch.mm(A, B)
    with pytest.raises(ProblemError, match="batch_invariant must be True or False"):
        enable(batch_invariant=1)


def test_switches_of_both_kinds_nest(emulated):
    with enable(batch_invariant=True):
        with enable():
            torch.mm(A, B)
        torch.mm(A, B)
    torch.mm(A, B)
    assert sorted((row.where, "batch_invariant" in row.problem, row.calls) for row in report()) == [
        ("PyTorch", False, 1),
        ("tilewright", True, 1),
    ]


def test_the_operator_its_gradients_and_maps(emulated):
    def function(a, b, bias):
        return matmul(a, b, bias=bias, activation="relu", batch_invariant=True)

    tensors = [one.clone().requires_grad_() for one in (A, B, BIAS)]

    def found(rows):
        result = function(tensors[0][rows], *tensors[1:])
        return result, torch.autograd.grad(result.square().sum(), tensors[0])[0][rows]

    for some, whole in zip(found(slice(11, 14)), found(slice(None)), strict=True):
        assert torch.equal(some, whole[11:14])
    by_map = torch.vmap(lambda one: matmul(one, B, batch_invariant=True))(A[:6].view(2, 3, 40))
    assert torch.equal(by_map.view(6, 24), matmul(A, B, batch_invariant=True)[:6])
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="eager", fullgraph=True)
    assert torch.equal(compiled(A, B, BIAS), function(A, B, BIAS))
