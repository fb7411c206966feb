"""PyTorch's samples of its operators, by tilewright.matmul: `python -m pytest tests/peers/test_torch.py`.

The samples are those of the installed PyTorch, which its own tests take from `op_db` in
torch/testing/_internal/common_methods_invocations.py. Results and gradients are compared with the operator's in
float64. No sample of a type that matmul supports is left out; those of other types must be refused.
"""

from functools import partial

import pytest

torch = pytest.importorskip("torch")

import tilewright  # noqa: E402
from tilewright import DtypeError, ProblemError  # noqa: E402

pytestmark = pytest.mark.further

OPERATORS = ("matmul", "mm", "bmm", "mv", "dot", "addmm", "baddbmm", "nn.functional.linear")
TYPES = (torch.float32, torch.bfloat16, torch.float16, torch.complex64)
OTHER_TYPES = (torch.float64, torch.complex128, torch.int64)


@pytest.fixture(scope="module")
def op_db():
    """PyTorch's list of operators. It takes 3 seconds to load: too long to make each sample a parameter of a test."""
    reason = "PyTorch's samples need expecttest"
    with torch.backends.__allow_nonbracketed_mutation():  # else tests that set torch.backends fail after this import
        return pytest.importorskip("torch.testing._internal.common_methods_invocations", reason=reason).op_db


def samples_of(op_db, name, dtype):
    """Each sample of an operator and its variants, contiguous and strided: its name, operator, tensors and scalars."""
    found = [
        (f"sample {number} of {op.full_name}: {one.summary()}", op, (one.input, *one.args), one.kwargs)
        for op in op_db
        if op.name == name and dtype in op.supported_dtypes("cpu")
        for number, sample in enumerate(op.sample_inputs("cpu", dtype))
        for one in (sample, sample.noncontiguous())
    ]
    assert found, f"PyTorch has no samples of {name} in {dtype}"
    return found


def product(name, first, *others, **scalars):
    """The operator of this name, by tilewright.matmul."""
    if name == "nn.functional.linear":
        weight, *bias = others
        return tilewright.matmul(first, weight.T, bias=bias[0] if bias else None)
    if name in ("addmm", "baddbmm"):
        a, b = others
        return tilewright.matmul(a, b, c=first.expand(*a.shape[:-1], b.shape[-1]), **scalars)
    return tilewright.matmul(first, *others)


def with_gradients(function, tensors, weights, scalars):
    """The result, and the gradients of its weighted sum with respect to each tensor."""
    tensors = [tensor.detach().requires_grad_() for tensor in tensors]
    result = function(*tensors, **scalars)
    return [result, *torch.autograd.grad(result, tensors, weights)]


def check(op, tensors, scalars):
    """Compare with the operator in float64, within the error of sums in float32 that are rounded to the type.

    The operator gives the bounds too: of absolute values the sum of magnitudes, of ones the number of terms.
    """
    weights = torch.randn_like(op(*tensors, **scalars))
    found = with_gradients(partial(product, op.name), tensors, weights, scalars)
    wide = torch.complex128 if tensors[0].is_complex() else torch.float64
    doubles, weights = [tensor.to(wide) for tensor in tensors], weights.to(wide)
    exact = with_gradients(op, doubles, weights, scalars)
    sizes = {name: abs(value) for name, value in scalars.items()} if tensors[0].is_complex() else scalars
    magnitudes = with_gradients(op, [one.abs() for one in doubles], weights.abs(), sizes)
    ones = [torch.ones_like(one.abs()) for one in doubles]
    terms = with_gradients(op, ones, torch.ones_like(weights.abs()), dict.fromkeys(scalars, 1))
    kind = torch.finfo(tensors[0].dtype)
    for one, expected, magnitude, count in zip(found, exact, magnitudes, terms, strict=True):
        assert (one.dtype, one.shape) == (tensors[0].dtype, expected.shape)
        count = 2 * count if one.is_complex() else count  # products of parts
        bound = (kind.eps + count * torch.finfo(torch.float32).eps) * (magnitude + kind.smallest_normal)
        assert bool(((one - expected).abs() <= bound).all()), f"got {one}, expected {expected}"


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", OPERATORS)
def test_samples(name, dtype, op_db):
    torch.manual_seed(0)
    for sample, op, tensors, scalars in samples_of(op_db, name, dtype):
        try:
            check(op, tensors, scalars)
        except Exception as error:
            raise AssertionError(sample) from error


@pytest.mark.parametrize("dtype", OTHER_TYPES, ids=str)
@pytest.mark.parametrize("name", OPERATORS)
def test_samples_of_other_types_are_refused(name, dtype, op_db):
    for _, _, tensors, scalars in samples_of(op_db, name, dtype):
        with pytest.raises((DtypeError, ProblemError)):  # a ProblemError of a complex beta
            product(name, *tensors, **scalars)
