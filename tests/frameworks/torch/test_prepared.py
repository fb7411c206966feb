"""Prepared factors and tensors that PyTorch records; on the emulator."""

import pytest

torch = pytest.importorskip("torch")

import tilewright  # noqa: E402
from tilewright import ArrayError  # noqa: E402

NAMED = {"kernel": "gemm_bf16x6", "engine": "emulator"}


@pytest.fixture
def weights():
    return torch.nn.Parameter(torch.randn(66, 40, generator=torch.Generator().manual_seed(0)))


def test_a_factor_that_wants_a_gradient_is_not_prepared(weights):
    with pytest.raises(ArrayError, match=r"b wants a gradient, .* pass an array that is not recorded, as b.detach\(\)"):
        tilewright.prepare(weights, engine="emulator")
    a = torch.randn(5, 66)
    with torch.no_grad():
        prepared = tilewright.prepare(weights, engine="emulator")
        expected = tilewright.matmul(a, weights, **NAMED)
        assert torch.equal(tilewright.matmul(a, prepared, **NAMED), expected)
    with pytest.raises(ArrayError, match="b is prepared, and a product with it cannot be recorded"):
        tilewright.matmul(a, prepared, **NAMED)
    detached = tilewright.prepare(weights.detach(), engine="emulator")
    assert torch.equal(tilewright.matmul(a, detached, **NAMED), expected)


def test_a_product_with_it_is_not_recorded(weights):
    prepared, a = tilewright.prepare(weights.detach(), engine="emulator"), torch.randn(5, 66, requires_grad=True)
    with pytest.raises(ArrayError, match="b is prepared, and a product with it cannot be recorded"):
        tilewright.matmul(a, prepared, engine="emulator")
    with pytest.raises(ArrayError, match="a plan cannot be recorded"):
        tilewright.plan(a, prepared, engine="emulator")
    compiled = torch.compile(lambda x: tilewright.matmul(x, prepared), backend="eager", fullgraph=True)
    with pytest.raises(Exception, match="b is prepared"):
        compiled(a.detach())
