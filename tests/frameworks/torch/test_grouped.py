"""grouped_matmul() where PyTorch records it: gradients, compiled, under autocast."""

import pytest

from tilewright import ArrayError, DtypeError, grouped_matmul

torch = pytest.importorskip("torch")

ROWS, REST = (5, 0, 17, 1, 30), 3
END = sum(ROWS)


def operands(grad=True, dtype=None):
    torch.manual_seed(0)
    a = torch.randn(END + REST, 24).to(dtype or torch.bfloat16).requires_grad_(grad)
    b = torch.randn(len(ROWS), 24, 16).to(dtype or torch.bfloat16).requires_grad_(grad)
    return a, b, torch.tensor(ROWS).cumsum(0).to(torch.int32)


def exact(a, b):
    """Grouped product by PyTorch's own products, of the rows that belong to groups."""
    parts = a[:END].split(ROWS)
    return torch.cat([rows @ matrix for rows, matrix in zip(parts, b, strict=True)])


def close(one, other):
    torch.testing.assert_close(one, other, rtol=1e-2, atol=6e-2)


def test_the_meaning_is_that_of_pytorchs_own():
    a, b, offsets = operands(grad=False)
    result = grouped_matmul(a, b, offsets)
    assert result.shape == (END + REST, 16)
    close(result[:END], torch._grouped_mm(a, b, offs=offsets)[:END])


@pytest.mark.parametrize("wanted", [(True, True), (True, False), (False, True)], ids=str)
def test_gradients_are_those_of_the_products(wanted):
    a, b, offsets = operands()
    a.requires_grad_(wanted[0])
    b.requires_grad_(wanted[1])
    inputs = [one for one, grad in zip((a, b), wanted, strict=True) if grad]
    weights = torch.randn(END, 16).bfloat16()
    found = torch.autograd.grad((grouped_matmul(a, b, offsets)[:END] * weights).sum(), inputs)
    expected = torch.autograd.grad((exact(a, b) * weights).sum(), inputs)
    for one, other in zip(found, expected, strict=True):
        close(one, other)
    if wanted[0]:
        assert not found[0][END:].any()


def test_gradients_of_gradients_are_those_of_the_products():
    def second(function):
        a, b, offsets = operands(dtype=torch.float16)
        result = function(a, b, offsets)[:END].float()
        da, db = torch.autograd.grad((result**2).sum() / 64, (a, b), create_graph=True)
        return torch.autograd.grad((da.float() ** 2).sum() / 64 + (db.float() ** 2).sum() / 512, (a, b))

    for one, other in zip(second(grouped_matmul), second(lambda a, b, _: exact(a, b)), strict=True):
        assert (one[:END].float() - other[:END].float()).norm() <= 1e-2 * other.float().norm()


def test_pytorch_finds_the_operators_in_order():
    a, b, offsets = operands()
    operator, outer = torch.ops.tilewright.grouped_matmul.default, torch.ops.tilewright.grouped_outer.default
    whole = a.detach()[:END].requires_grad_()  # of the other rows nobody knows the values
    tests = ("test_schema", "test_autograd_registration", "test_faketensor")
    torch.library.opcheck(operator, (whole, b, offsets), test_utils=tests)
    dy = torch.randn(END, 16).bfloat16().requires_grad_()
    torch.library.opcheck(outer, (whole, dy, offsets), test_utils=tests)


def test_it_is_compiled_as_one_operator():
    a, b, offsets = operands()
    compiled = torch.compile(lambda *of: grouped_matmul(*of) * 2, backend="aot_eager", fullgraph=True)
    result = compiled(a, b, offsets)
    close(result[:END], 2 * exact(a, b))
    assert torch.autograd.grad(result[:END].sum(), b)[0].shape == b.shape
    with torch.no_grad():
        close(compiled(a, b, offsets)[:END], 2 * exact(a, b))


def test_autocast_decides_the_type():
    a, b, offsets = operands(dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        result = grouped_matmul(a, b, offsets)
    assert result.dtype == torch.bfloat16
    close(result[:END].float(), exact(a, b))


def test_what_cannot_be_recorded_is_refused():
    a, b, offsets = operands()
    with pytest.raises(ArrayError, match="out, config and engine cannot be named where PyTorch records"):
        grouped_matmul(a, b, offsets, out=torch.empty(END + REST, 16, dtype=torch.bfloat16))
    with pytest.raises(ArrayError, match="offsets must be a tensor as the other arrays are, got list"):
        grouped_matmul(a, b, offsets.tolist())
    meta = [one.detach().to("meta") for one in (a, b, offsets)]
    assert grouped_matmul(*meta, out_dtype="float32").dtype == torch.float32
    with pytest.raises(DtypeError, match="offsets must have element type int32, got int64"):
        grouped_matmul(*meta[:2], meta[2].long())
    with pytest.raises(ArrayError, match="offsets must be 5 numbers"):
        grouped_matmul(*meta[:2], meta[2][1:])
    with pytest.raises(DtypeError, match="a has element type float32"):
        grouped_matmul(meta[0].float(), *meta[1:])
