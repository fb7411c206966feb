"""Training steps of small models: with tilewright's products the losses are those of stock PyTorch, to rounding."""

from functools import lru_cache

import pytest

torch = pytest.importorskip("torch")

import tilewright.torch  # noqa: E402
from studies.frameworks.models import TASKS, Sizes, regression, training  # noqa: E402
from tilewright.frameworks.torch.enable import routing  # noqa: E402
from tilewright.select.speedup import Speedup  # noqa: E402

STEPS = 4
SIZES = Sizes(width=32, heads=4, layers=2, vocabulary=96, batch=2, length=16, rank=4)


def losses(task, model=None):
    """The losses of training steps; of the compiled model, if one is given."""
    step = training(task, model, learning_rate=1e-3)
    return [float(step()) for _ in range(STEPS)]


@pytest.fixture
def everything_is_faster(monkeypatch):
    """enable() on tensors of the host, for every problem."""
    monkeypatch.setattr(routing, "_KEY", "CPU")
    monkeypatch.setattr(routing, "_routes", {})
    monkeypatch.setattr(routing, "expect", lambda problem, device: Speedup(1.1, 1.0))
    yield
    tilewright.torch.disable()


def trained(name, compiled):
    torch.manual_seed(1)
    torch._dynamo.reset()
    if name in ("GPT-2", "Llama"):
        pytest.importorskip("transformers")
    task = TASKS[name](SIZES)
    model = torch.compile(task.model, backend="aot_eager", fullgraph=True) if compiled else None
    return losses(task, model)


@lru_cache
def stock(name):
    """The losses of PyTorch's own products."""
    return trained(name, compiled=False)


# One is compiled: the products of the others, with a bias, without one and in batches, are among its own.
@pytest.mark.further
@pytest.mark.parametrize(
    ("name", "compiled"),
    [*((name, False) for name in TASKS), ("Llama", True)],
    ids=lambda value: ("eager", "compiled")[value] if isinstance(value, bool) else value,
)
def test_training_a_model_with_products_routed_here(everything_is_faster, name, compiled):
    expected = stock(name)
    with tilewright.torch.enable():
        ours = trained(name, compiled)
    ran = tilewright.torch.report()
    assert ours == pytest.approx(expected, rel=1e-4)
    assert sum(row.calls for row in ran if row.where == "tilewright") >= 6 * STEPS
    assert expected[-1] < expected[0]


class Layer(torch.nn.Module):
    """A linear layer with its activation, by tilewright.matmul."""

    def __init__(self, inputs, outputs, activation):
        super().__init__()
        self.inner, self.activation = torch.nn.Linear(inputs, outputs), activation

    def forward(self, x):
        return tilewright.matmul(x, self.inner.weight.T, bias=self.inner.bias, activation=self.activation)


class Stock(Layer):
    """A linear layer with its activation, by PyTorch."""

    def forward(self, x):
        result = self.inner(x)
        return torch.nn.functional.gelu(result) if self.activation else result


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_training_layers_that_call_matmul(compiled):
    found = []
    for kind in (Layer, Stock):
        torch.manual_seed(1)
        torch._dynamo.reset()
        task = regression(torch.nn.Sequential(kind(32, 64, "gelu"), kind(64, 32, None)), 3, 8, 32)
        model = torch.compile(task.model, backend="aot_eager", fullgraph=True) if compiled else None
        found.append(losses(task, model))
    assert found[0] == pytest.approx(found[1], rel=1e-4)
