"""Models of the usual architectures with random weights, each with inputs and the loss of a training step."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional


class Sizes(NamedTuple):
    """Sizes that all models share."""

    width: int = 768
    heads: int = 12
    layers: int = 4
    vocabulary: int = 8192
    batch: int = 8
    length: int = 512
    """Tokens of a sequence."""
    rank: int = 16
    """Rank of the update that LoRA trains."""


class Task(NamedTuple):
    """A model, and what a step of its training computes."""

    model: nn.Module
    loss: Callable[[nn.Module], Any]


class LowRank(nn.Module):
    """A frozen linear layer with a low-rank update that is trained (LoRA)."""

    def __init__(self, inputs: int, outputs: int, rank: int) -> None:
        super().__init__()
        self.frozen = nn.Linear(inputs, outputs).requires_grad_(False)
        self.down = nn.Parameter(torch.randn(inputs, rank) / rank)
        self.up = nn.Parameter(torch.zeros(rank, outputs))

    def forward(self, x: Any) -> Any:
        """The layer's result."""
        return self.frozen(x) + x @ self.down @ self.up


def regression(model: nn.Module, *shape: int) -> Task:
    """A model that learns to turn the last dimension of its input by one."""
    drawn = torch.randn(*shape)

    def loss(one: nn.Module) -> Any:
        x = drawn.to(next(one.parameters()).dtype)
        return (one(x) - x.roll(1, -1)).square().mean()

    return Task(model, loss)


def _mlp(sizes: Sizes) -> Task:
    width = sizes.width
    layers = nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, 4 * width), nn.SiLU()
    return regression(nn.Sequential(*layers, nn.Linear(4 * width, width)), sizes.batch, sizes.length, width)


def _encoder(sizes: Sizes) -> Task:
    layer = nn.TransformerEncoderLayer(
        sizes.width, sizes.heads, 4 * sizes.width, dropout=0.0, batch_first=True, activation="gelu"
    )
    model = nn.TransformerEncoder(layer, sizes.layers, enable_nested_tensor=False)
    return regression(model, sizes.batch, sizes.length, sizes.width)


def _low_rank(sizes: Sizes) -> Task:
    width, rank = sizes.width, sizes.rank
    model = nn.Sequential(LowRank(width, 4 * width, rank), nn.GELU(), LowRank(4 * width, width, rank))
    return regression(model, sizes.batch, sizes.length, width)


def _language_model(name: str, sizes: Sizes, **config: Any) -> Task:
    import transformers  # noqa: PLC0415 - slow to import, and the other models need none of it

    library: Any = transformers
    settings = getattr(library, f"{name}Config")(vocab_size=sizes.vocabulary, **config)
    model = library.AutoModelForCausalLM.from_config(settings, attn_implementation="sdpa")
    tokens = torch.randint(0, sizes.vocabulary, (sizes.batch, sizes.length))

    def loss(one: nn.Module) -> Any:
        logits = one(input_ids=tokens, use_cache=False).logits
        return functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())

    return Task(model, loss)


def _gpt2(sizes: Sizes) -> Task:
    return _language_model(
        "GPT2",
        sizes,
        n_embd=sizes.width,
        n_layer=sizes.layers,
        n_head=sizes.heads,
        n_positions=sizes.length,
        resid_pdrop=0,
        embd_pdrop=0,
        attn_pdrop=0,
    )


def _llama(sizes: Sizes) -> Task:
    return _language_model(
        "Llama",
        sizes,
        hidden_size=sizes.width,
        intermediate_size=8 * sizes.width // 3,
        num_hidden_layers=sizes.layers,
        num_attention_heads=sizes.heads,
        num_key_value_heads=sizes.heads // 2,
        max_position_embeddings=sizes.length,
    )


TASKS: dict[str, Callable[[Sizes], Task]] = {
    "GPT-2": _gpt2,
    "Llama": _llama,
    "TransformerEncoder": _encoder,
    "MLP": _mlp,
    "LoRA": _low_rank,
}
"""By name; tensors are made on PyTorch's default device."""


def training(task: Task, model: Any = None, learning_rate: float = 1e-4) -> Callable[[], Any]:
    """A training step, which returns its loss; of the compiled model, if one is given."""
    parameters = [one for one in task.model.parameters() if one.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=learning_rate, fused=True)

    def step() -> Any:
        optimizer.zero_grad(set_to_none=True)
        loss = task.loss(task.model if model is None else model)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step
