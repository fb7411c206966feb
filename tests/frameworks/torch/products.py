"""Products that tests compute with tilewright and with PyTorch itself."""

import torch

import tilewright
from tilewright.frameworks.torch.library import ACTIVATIONS

matmul = tilewright.matmul

SHAPES = {
    "matrices": ((4, 5), (5, 6)),
    "vector x matrix": ((5,), (5, 6)),
    "matrix x vector": ((4, 5), (5,)),
    "vectors": ((5,), (5,)),
    "batches": ((3, 4, 5), (3, 5, 6)),
    "batch x matrix": ((2, 3, 4, 5), (5, 6)),
    "matrix x batch": ((4, 5), (3, 5, 6)),
    "batch x vector": ((3, 4, 5), (5,)),
    "vector x batch": ((5,), (3, 5, 6)),
    "batches that broadcast": ((3, 1, 4, 5), (2, 5, 6)),
    "empty": ((0, 5), (5, 6)),
    "no sums": ((4, 0), (0, 6)),
}


def stock(a, b, *, bias=None, c=None, alpha=1.0, beta=0.0, activation=None, out_dtype=None):
    """Product of matmul's arguments by PyTorch's own operators."""
    result = alpha * torch.matmul(a, b)
    result = result if out_dtype is None else result.to(out_dtype)
    if c is not None and beta:
        result = result + beta * c
    if bias is not None:
        vectors = (a.dim(), b.dim()).count(1)
        result = result + (bias if not vectors else bias.reshape(result.shape if vectors == 2 else -1))
    return ACTIVATIONS[activation](result) if activation else result


def draw(*shape, grad=True, dtype=torch.float32):
    return torch.randn(shape, dtype=dtype).requires_grad_(grad)


def same(ours, theirs, tolerance=2e-5):
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)
