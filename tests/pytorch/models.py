"""Small models of the usual architectures with random weights, each with inputs and the loss of a training step."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn
from torch.nn import functional

import tilewright


class Task(NamedTuple):
    """A model, and what a step of its training computes."""

    model: nn.Module
    loss: Callable[[nn.Module], Any]


class Layer(nn.Module):
    """A linear layer with its activation, by tilewright.matmul."""

    def __init__(self, inputs: int, outputs: int, activation: str | None) -> None:
        super().__init__()
        self.inner, self.activation = nn.Linear(inputs, outputs), activation

    def forward(self, x: Any) -> Any:
        return tilewright.matmul(x, self.inner.weight.T, bias=self.inner.bias, activation=self.activation)


class Stock(Layer):
    """The same by PyTorch."""

    def forward(self, x: Any) -> Any:
        result = self.inner(x)
        return functional.gelu(result) if self.activation else result


class LowRank(nn.Module):
    """A frozen linear layer with a low-rank update that is trained (LoRA)."""

    def __init__(self, inputs: int, outputs: int, rank: int) -> None:
        super().__init__()
        self.frozen = nn.Linear(inputs, outputs).requires_grad_(False)
        self.down = nn.Parameter(torch.randn(inputs, rank) / rank)
        self.up = nn.Parameter(torch.zeros(rank, outputs))

    def forward(self, x: Any) -> Any:
        return self.frozen(x) + x @ self.down @ self.up


def regression(model: nn.Module, *shape: int) -> Task:
    x = torch.randn(*shape)
    return Task(model, lambda one: (one(x) - x.roll(1, -1)).square().mean())


def mlp() -> Task:
    return regression(
        nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 32)), 24, 32
    )


def encoder() -> Task:
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True, activation="gelu")
    return regression(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), 2, 12, 32)


def low_rank() -> Task:
    return regression(nn.Sequential(LowRank(32, 64, 4), nn.GELU(), LowRank(64, 32, 4)), 2, 12, 32)


def language_model(name: str, **config: Any) -> Task:
    transformers = pytest.importorskip("transformers")
    settings = getattr(transformers, f"{name}Config")(vocab_size=96, **config)
    model = transformers.AutoModelForCausalLM.from_config(settings, attn_implementation="eager")
    tokens = torch.randint(0, 96, (2, 16))

    def loss(one: nn.Module) -> Any:
        logits = one(input_ids=tokens, use_cache=False).logits
        return functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())

    return Task(model, loss)


def gpt2() -> Task:
    return language_model(
        "GPT2", n_embd=32, n_layer=2, n_head=4, n_positions=32, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0
    )


def llama() -> Task:
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    return language_model("Llama", **sizes, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=32)


TASKS = {"MLP": mlp, "TransformerEncoder": encoder, "LoRA": low_rank, "GPT-2": gpt2, "Llama": llama}


def losses(task: Task, steps: int, model: Any = None) -> list[float]:
    """The losses of training steps; of the compiled model, if one is given."""
    parameters = [one for one in task.model.parameters() if one.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=1e-3, foreach=False)
    found = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = task.loss(task.model if model is None else model)
        loss.backward()
        optimizer.step()
        found.append(float(loss.detach()))
    return found
