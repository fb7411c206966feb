"""A model like GPT-2, whose attention is two products and a softmax: for tests that need a whole model."""

import torch


class Block(torch.nn.Module):
    """A layer of GPT-2."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.first, self.second = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.attend, self.project = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.widen, self.narrow = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.attend(self.first(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = parts.unbind()
        scores = q @ k.mT / q.shape[-1] ** 0.5
        hidden = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        mixed = scores.masked_fill(hidden, -torch.inf).softmax(-1) @ v
        x = x + self.project(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.narrow(torch.nn.functional.gelu(self.widen(self.second(x)), approximate="tanh"))


class Model(torch.nn.Module):
    """GPT-2, but small: of prompts batch x length it makes logits batch x length x vocabulary."""

    def __init__(self, vocabulary=48, width=16, heads=2, layers=2, longest=8):
        super().__init__()
        self.tokens, self.positions = torch.nn.Embedding(vocabulary, width), torch.nn.Embedding(longest, width)
        self.blocks = torch.nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = torch.nn.LayerNorm(width)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        return self.norm(self.blocks(x)) @ self.tokens.weight.T
