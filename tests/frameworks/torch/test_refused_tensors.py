"""Tensors that matmul() and grouped_matmul() cannot read: on other devices, without elements, of other layouts."""

import re

import pytest

torch = pytest.importorskip("torch")

from products import draw, matmul, same  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

import tilewright  # noqa: E402
import tilewright.torch  # noqa: E402
from tilewright import ArrayError, DtypeError, ProblemError  # noqa: E402

A, B, BIAS, C = (draw(*shape, grad=False) for shape in ((6, 5), (5, 7), (7,), (6, 7)))
ROWS, EXPERTS = draw(6, 8, grad=False).half(), draw(3, 8, 8, grad=False).half()
ENDS = torch.tensor([2, 4, 6], dtype=torch.int32)
OPERATOR = torch.ops.tilewright.matmul.default


def meta(array):
    return array.to("meta")


MIXED = {
    "a": lambda: matmul(meta(A), B),
    "b": lambda: matmul(A, meta(B)),
    "bias": lambda: matmul(A, B, bias=meta(BIAS)),
    "c": lambda: matmul(A, B, c=meta(C), beta=1.0),
    "c that is not read": lambda: matmul(A, B, c=meta(C)),
    "out": lambda: matmul(A, B, out=meta(C)),
    "out of meta tensors": lambda: matmul(meta(A), meta(B), out=C.clone()),
    "b, and a gradient": lambda: matmul(A.clone().requires_grad_(), meta(B)),
    "b, mapped": lambda: torch.vmap(lambda row: matmul(row, meta(B)))(A),
    "b of the operator": lambda: OPERATOR(A, meta(B)),
    "c of the operator": lambda: OPERATOR(A, B, None, meta(C), 1.0, 1.0),
    "b of groups": lambda: tilewright.grouped_matmul(ROWS, meta(EXPERTS), ENDS),
    "offsets of groups": lambda: tilewright.grouped_matmul(ROWS, EXPERTS, meta(ENDS)),
    "out of groups": lambda: tilewright.grouped_matmul(ROWS, EXPERTS, ENDS, out=meta(ROWS)),
    "b of the grouped operator": lambda: torch.ops.tilewright.grouped_matmul(ROWS, meta(EXPERTS), ENDS),
    "dy of the outer operator": lambda: torch.ops.tilewright.grouped_outer(ROWS, meta(ROWS), ENDS),
}


@pytest.mark.parametrize("case", MIXED)
def test_a_meta_tensor_next_to_others_is_refused_by_name(case):
    name = case.split()[0].rstrip(",")
    with pytest.raises(ArrayError, match=f"{'b' if name == 'a' else name} must lie where a does: got device "):
        MIXED[case]()


def test_a_meta_tensor_is_refused_under_autocast():
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(ArrayError, match="b must lie where a does"):
        matmul(A, meta(B))


@pytest.mark.parametrize("device", ["meta", "cuda"])
@pytest.mark.parametrize("name", ["b", "bias", "c", "out"])
def test_fake_tensors_of_two_devices_are_refused(name, device):
    with FakeTensorMode():
        arrays = {"b": torch.empty(5, 7), "bias": torch.empty(7), "c": torch.empty(6, 7), "out": torch.empty(6, 7)}
        arrays[name] = torch.empty(arrays[name].shape, device=device)
        with pytest.raises(ArrayError, match=f"{name} must lie where a does: got device {device}"):
            matmul(torch.empty(6, 5), **arrays)


def test_meta_tensors_alone_give_shapes():
    arrays = {"b": meta(B), "bias": meta(BIAS), "c": meta(C), "beta": 1.0, "activation": "gelu"}
    found = matmul(meta(A), **arrays)
    assert (found.device.type, found.shape, found.dtype) == ("meta", (6, 7), torch.float32)
    out = meta(C)
    assert matmul(meta(A), **arrays, out=out) is out
    found = tilewright.grouped_matmul(meta(ROWS), meta(EXPERTS), meta(ENDS))
    assert (found.device.type, found.shape) == ("meta", (6, 8))


def test_meta_tensors_have_no_plan_no_copy_and_no_scale():
    with pytest.raises(ArrayError, match="a plan cannot be recorded"):
        tilewright.plan(A, meta(B))
    with pytest.raises(ArrayError, match="b must have elements to be prepared, and is a meta tensor"):
        tilewright.prepare(meta(B), engine="emulator")
    with pytest.raises(ArrayError, match="devices and memory_limit cannot be recorded"):
        matmul(A, meta(B), memory_limit=10**9)
    a, b = A.to(torch.float8_e4m3fn), B.to(torch.float8_e4m3fn)
    with pytest.raises(ArrayError, match="scale_b must lie on the host or an NVIDIA GPU, got device meta"):
        matmul(a, b, scale_a=torch.ones(1), scale_b=torch.ones(1, device="meta"))


def test_a_fake_tensor_next_to_a_real_one_is_refused_by_name():
    fake = FakeTensorMode().from_tensor(B)
    with pytest.raises(ArrayError, match=r"b must be a tensor whose elements lie at strides .* got torch.FakeTensor"):
        matmul(A, fake)


LAYOUTS = {
    "nested": (lambda x: torch.nested.nested_tensor([x, x]), "a nested tensor", "multiply the tensors of {}.unbind()"),
    "jagged": (
        lambda x: torch.nested.nested_tensor([x, x], layout=torch.jagged),
        "a nested tensor",
        "multiply the tensors of {}.unbind()",
    ),
    "coo": (lambda x: x.to_sparse(), "one of layout torch.sparse_coo", "pass {}.to_dense()"),
    "csr": (lambda x: x.to_sparse_csr(), "one of layout torch.sparse_csr", "pass {}.to_dense()"),
    "csc": (lambda x: x.to_sparse_csc(), "one of layout torch.sparse_csc", "pass {}.to_dense()"),
    "mkldnn": (lambda x: x.to_mkldnn(), "one of layout torch._mkldnn", "pass {}.to_dense()"),
    "quantized": (
        lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8),
        "a quantized tensor of torch.qint8",
        "pass {}.dequantize()",
    ),
}


@pytest.mark.filterwarnings("ignore")  # of sparse and nested tensors, which PyTorch calls unfinished
@pytest.mark.parametrize("recorded", [False, True], ids=["plain", "recorded"])
@pytest.mark.parametrize("name", ["a", "b", "c", "out"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_is_not_dense_is_refused_by_name(layout, name, recorded):
    make, kind, advice = LAYOUTS[layout]
    arrays = {"a": A, "b": B, "c": C, "out": C.clone()}
    arrays["b" if name == "a" else "a"] = arrays["b" if name == "a" else "a"].clone().requires_grad_(recorded)
    arrays[name] = make(arrays[name])
    said = f"{name} must be a dense tensor, got {kind}" + (f": {advice.format(name)}" if name != "out" else "$")
    with pytest.raises(ArrayError, match=said if name == "out" else re.escape(said)):
        matmul(**arrays, beta=1.0)


def test_what_is_advised_gives_the_product():
    sparse, quantized = torch.relu(A).to_sparse(), torch.quantize_per_tensor(A, 0.1, 0, torch.qint8)
    same(matmul(sparse.to_dense(), B), torch.relu(A) @ B)
    same(matmul(quantized.dequantize(), B), quantized.dequantize() @ B)
    values = torch.complex(A, A.flip(0))
    with pytest.raises(DtypeError, match=r"a has element type complex128; .*: pass a.to\(torch.complex64\)"):
        matmul(values.to(torch.complex128), B)
    same(matmul(values, B.to(torch.complex64)), values @ B.to(values.dtype))
    negated = values.conj().imag
    with pytest.raises(ArrayError, match=re.escape("a is a view that negates when it is read: pass a.resolve_neg()")):
        matmul(negated, B)
    same(matmul(negated.resolve_neg(), B), -A.flip(0) @ B)


def test_an_out_that_negates_is_not_to_be_copied():
    out = torch.zeros(6, 7, dtype=torch.complex64).conj().imag
    with pytest.raises(ArrayError, match=r"out is a view that negates .*: call without it, and write .* out.copy_\(\)"):
        matmul(A, B, out=out)
    assert not out.any()
    same(out.copy_(matmul(A, B)), A @ B)


def test_a_type_that_pytorch_does_not_convert_is_refused_without_advice():
    with pytest.raises(DtypeError, match=r"a has element type float4_e2m1fn_x2; matmul takes [^:]*$"):
        matmul(torch.empty(6, 5, dtype=torch.float4_e2m1fn_x2), B)


def test_a_tensor_whose_memory_was_freed_is_refused():
    freed, zeros = A.clone(), torch._efficientzerotensor((6, 5))
    freed.untyped_storage().resize_(0)
    for tensor in (freed, zeros):
        with pytest.raises(ArrayError, match="a has no memory: its storage was freed, or it stands for zeros"):
            matmul(tensor, B)
    with pytest.raises(ArrayError, match="out has no memory"):
        matmul(A, B, out=torch._efficientzerotensor((6, 7)))


class Wrapper(torch.Tensor):
    """A tensor whose elements are in another."""

    @staticmethod
    def __new__(cls, values):
        return torch.Tensor._make_wrapper_subclass(cls, values.shape, dtype=values.dtype)

    def __init__(self, values):
        self.values = values

    @classmethod
    def __torch_dispatch__(cls, function, types, arguments=(), keywords=None):
        return NotImplemented


@pytest.mark.parametrize("name", ["a", "b", "bias", "c", "out"])
def test_a_subclass_without_this_product_is_refused_by_name(name):
    arrays = {"a": A, "b": B, "bias": BIAS, "c": C, "out": C.clone()}
    arrays[name] = Wrapper(arrays[name])
    with pytest.raises(ArrayError, match=f"{name} must be a tensor whose .* got test_refused_tensors.Wrapper"):
        matmul(**arrays)


def test_scalars_may_be_tensors():
    expected = 2 * A @ B + 0.5 * C
    for alpha, beta in ((torch.tensor(2.0), torch.tensor(0.5)), (torch.tensor(2), torch.tensor(0.5).bfloat16())):
        same(matmul(A, B, c=C, alpha=alpha, beta=beta), expected)
        same(matmul(A.clone().requires_grad_(), B, c=C, alpha=alpha, beta=beta), expected)


NO_SCALARS = {
    "one dimension": (torch.tensor([2.0]), r"must be a number, got tensor\(\[2.\]\)"),
    "bool": (torch.tensor(True), "must be a number, got True"),
    "complex": (torch.tensor(2j), "must be a number, got 2j"),
    "NaN": (torch.tensor(float("nan")), "must be a number, got nan"),
    "too large": (torch.tensor(1e300, dtype=torch.float64), "must be infinite or at most 3.40"),
    "meta": (torch.tensor(2.0, device="meta"), "must be a number, got a meta tensor, which has none"),
    "a gradient": (
        torch.tensor(2.0, requires_grad=True),
        r"must be a number where PyTorch records .*: pass float\(\w+\), which is not",
    ),
}


@pytest.mark.parametrize("recorded", [False, True], ids=["plain", "recorded"])
@pytest.mark.parametrize("name", ["alpha", "beta"])
@pytest.mark.parametrize(("value", "words"), NO_SCALARS.values(), ids=NO_SCALARS)
def test_what_is_no_number_is_no_scalar(value, words, name, recorded):
    with pytest.raises(ProblemError, match=f"{name} {words}"):
        matmul(A.clone().requires_grad_(recorded), B, c=C, **{name: value})


def test_a_scalar_that_is_mapped_is_refused():
    with pytest.raises(ProblemError, match="alpha must be a number where PyTorch records"):
        torch.vmap(lambda alpha: matmul(A, B, alpha=alpha))(torch.ones(3))


@pytest.mark.parametrize("way", ["plain", "recorded", "the operator", "mapped", "forward"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_what_scalars_of_zero_leave_out_is_not_read(dtype, way):
    a, b, c, bias = (array.to(dtype) for array in (A, B, C, BIAS))
    nan_a, nan_b, nan_c = (torch.full_like(array, float("nan")) for array in (a, b, c))

    def product(a, b, **named):
        if way == "recorded":
            return matmul(a.clone().requires_grad_(), b, **named).detach()
        if way == "the operator":
            return OPERATOR(a, b, **named)
        if way == "mapped":
            return torch.vmap(lambda a: matmul(a, b, **named))(a[None])[0]
        if way == "forward":
            return torch.func.jvp(lambda a: matmul(a, b, **named), (a,), (a,))[0]
        return matmul(a, b, **named)

    z = 2 * c.float() + bias.float()
    same(product(nan_a, nan_b, alpha=0.0).float(), torch.zeros(6, 7))
    same(product(nan_a, nan_b, c=nan_c, alpha=0.0, bias=bias).float(), bias.float().expand(6, 7))
    found = product(nan_a, nan_b, c=c, alpha=0.0, beta=2.0, bias=bias, activation="relu")
    same(found.float(), torch.relu(z), tolerance=0.05 if dtype != torch.float32 else 1e-5)
    same(product(a, b, c=nan_c).float(), a.float() @ b.float(), tolerance=0.05 if dtype != torch.float32 else 1e-5)


def test_gradients_read_no_more_than_the_product():
    a, b, c = (torch.full_like(array, float("nan"), requires_grad=True) for array in (A, B, C))
    for gradient in torch.autograd.grad(matmul(a, b, c=C.requires_grad_(False), alpha=0.0, beta=2.0).sum(), (a, b)):
        same(gradient, torch.zeros_like(gradient))
    x = A.clone().requires_grad_()
    same(torch.autograd.grad(matmul(x, B, c=c).sum(), x)[0], torch.ones(6, 7) @ B.T)
