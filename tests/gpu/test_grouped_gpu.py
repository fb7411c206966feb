"""Grouped products on a real GPU: next to float64 and PyTorch's own, in streams and graphs, and in gradients."""

import pytest

from this_gpu import CAPABILITY
from tilewright import LaunchError, grouped_matmul
from tilewright.kernels.library.grouped_sm90 import FP8, KERNEL

pytestmark = pytest.mark.skipif(CAPABILITY != (9, 0), reason="wgmma is Hopper's alone")
torch = pytest.importorskip("torch")

GROUPS = {
    "even": (256,) * 8,
    "odd": (1, 0, 777, 130, 63, 64, 65, 0),
    "one": (0, 0, 3000, 0),
    "none": (0, 0, 0),
    "many": (*range(40), 0, 500, *range(60)),
    "few": (1, 2, 0, 1, 3, 1, 0, 5),
}


def operands(sizes, rest=0, n=512, k=384, dtype="bfloat16", order="NT", gap=0):
    """Normal ones; gap: elements between rows, which are NaN."""
    torch.manual_seed(len(sizes))

    def normal(*shape):
        whole = torch.full((*shape[:-1], shape[-1] + gap), torch.nan, device="cuda", dtype=getattr(torch, dtype))
        whole[..., : shape[-1]] = torch.randn(*shape, device="cuda")
        return whole[..., : shape[-1]]

    rows = sum(sizes) + rest
    a = normal(rows, k) if order[0] == "N" else normal(k, rows).mT
    b = normal(len(sizes), k, n) if order[1] == "N" else normal(len(sizes), n, k).mT
    return a, b, torch.tensor(sizes, device="cuda").cumsum(0).to(torch.int32)


def exact(a, b, sizes):
    parts = a[: sum(sizes)].double().split(list(sizes))
    return torch.cat([rows @ matrix.double() for rows, matrix in zip(parts, b, strict=True)])


def error(result, reference):
    return float((result.double() - reference).norm() / reference.norm().clamp(min=1e-30))


def check(result, a, b, sizes):
    limit = {torch.float32: 1e-5, torch.float16: 5e-4, torch.bfloat16: 3e-3}[result.dtype]
    assert error(result[: sum(sizes)], exact(a, b, sizes)) < limit


@pytest.mark.parametrize("name", GROUPS)
@pytest.mark.parametrize("order", ["NN", "NT", "TN"])
def test_groups_of_any_size_are_right(name, order):
    sizes = GROUPS[name]
    a, b, offsets = operands(sizes, rest=3, order=order)
    out = torch.full((sum(sizes) + 3, 512), -77.0, device="cuda", dtype=torch.bfloat16)
    assert grouped_matmul(a, b, offsets, out=out) is out
    check(out, a, b, sizes)
    assert bool((out[sum(sizes) :] == -77).all())


@pytest.mark.parametrize("preset", [None, *KERNEL.presets])
@pytest.mark.parametrize("sizes", [GROUPS["odd"], GROUPS["many"]], ids=["odd", "many"])
def test_every_shipped_config_is_right(preset, sizes):
    a, b, offsets = operands(sizes, n=520, k=200)
    result = grouped_matmul(a, b, offsets, config=KERNEL.presets[preset] if preset else {})
    check(result, a, b, sizes)


@pytest.mark.parametrize("preset", [None, *FP8.presets])
@pytest.mark.parametrize(("n", "k"), [(512, 384), (520, 200), (72, 77)], ids=str)
@pytest.mark.parametrize("order", ["NN", "NT"])
def test_float8_with_scales_is_right(order, n, k, preset):
    sizes = GROUPS["odd"]
    a, b, offsets = operands(sizes, rest=3, n=n, k=k, order=order)
    a, b = a.contiguous().to(torch.float8_e4m3fn), b.to(torch.float8_e5m2)
    of_a, of_b = (torch.rand(*shape, device="cuda") + 0.5 for shape in ((sum(sizes) + 3, 1), (len(sizes), n)))
    config = FP8.presets[preset] if preset else {}
    for out_dtype, limit in (("float32", 2e-4), ("bfloat16", 3e-3)):
        ours = grouped_matmul(a, b, offsets, scale_a=of_a, scale_b=of_b, out_dtype=out_dtype, config=config)
        assert error(ours[: sum(sizes)], exact(a.double() * of_a, b.double() * of_b[:, None], sizes)) < limit


def test_float8_is_what_pytorchs_own_is():
    sizes = GROUPS["even"]
    a, b, offsets = operands(sizes, n=1024, k=2048)
    a, b = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn)
    of_a, of_b = torch.rand(sum(sizes), device="cuda") + 0.5, torch.rand(len(sizes), 1024, device="cuda") + 0.5
    reference = exact(a.double() * of_a[:, None], b.double() * of_b[:, None], sizes)
    theirs = torch._scaled_grouped_mm(a, b, of_a, of_b, offs=offsets, out_dtype=torch.bfloat16)
    ours = grouped_matmul(a, b, offsets, scale_a=of_a, scale_b=of_b, out_dtype="bfloat16")
    assert error(ours, reference) <= 1.2 * error(theirs, reference)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("out_dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(("n", "k", "gap"), [(512, 384, 8), (77, 131, 0), (72, 64, 1), (1, 1, 0)], ids=str)
def test_every_type_and_alignment_is_right(dtype, out_dtype, n, k, gap):
    sizes = GROUPS["odd"]
    a, b, offsets = operands(sizes, n=n, k=k, dtype=dtype, gap=gap)
    result = grouped_matmul(a, b, offsets, out_dtype=out_dtype)
    assert str(result.dtype) == f"torch.{out_dtype}"
    check(result, a, b, sizes)


def test_it_errs_as_pytorchs_own_does():
    sizes = GROUPS["even"]
    a, b, offsets = operands(sizes, n=1024, k=4096)
    reference = exact(a, b, sizes)
    theirs = torch._grouped_mm(a, b, offs=offsets)
    assert error(grouped_matmul(a, b, offsets), reference) <= 1.2 * error(theirs, reference)


def test_offsets_are_read_when_the_kernel_runs():
    """They are written by the launch before; and a graph is replayed with others."""
    a, b, offsets = operands((100, 50, 10, 2000), n=1024)
    other = torch.tensor((7, 7, 900, 2160), device="cuda", dtype=torch.int32)
    first, second = (torch.empty(2160, 1024, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    grouped_matmul(a, b, offsets, out=first)
    live = torch.zeros_like(offsets)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        live.copy_(offsets)
        captured = grouped_matmul(a, b, live)
        live.copy_(other)
        grouped_matmul(a, b, live, out=second)
    for _ in range(3):
        graph.replay()
    check(captured, a, b, (100, 50, 10, 2000))
    check(second, a, b, (7, 0, 893, 1260))
    assert torch.equal(captured, first)


def test_what_is_not_compiled_cannot_be_captured():
    a, b, offsets = operands((100, 50), n=136, k=72)
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(LaunchError, match="the stream is being captured"), torch.cuda.graph(graph):
        grouped_matmul(a, b, offsets, config={"BM": 64, "BN": 40, "STAGES": 3, "PINGPONG": 1})


@pytest.mark.parametrize("ends", [(-5, 10**6, 2**31 - 1, 7), (600, 20, -1, 1340), (2**31 - 1,) * 4], ids=str)
def test_offsets_that_make_no_sense_write_nothing_else(ends):
    a, b, _ = operands((0, 0, 0, 0), rest=1340)
    whole = torch.full((1340 + 512, 512), -77.0, device="cuda", dtype=torch.bfloat16)
    grouped_matmul(a, b, torch.tensor(ends, device="cuda", dtype=torch.int32), out=whole[256:-256])
    torch.cuda.synchronize()
    assert bool((whole[:256] == -77).all())
    assert bool((whole[-256:] == -77).all())


def test_nan_stays_in_its_row():
    sizes = GROUPS["odd"]
    a, b, offsets = operands(sizes)
    a[[5, 800]] = torch.nan
    found = grouped_matmul(a, b, offsets).isnan().any(dim=1)
    assert found.nonzero().flatten().tolist() == [5, 800]


def test_gradients_are_those_of_the_products():
    sizes = GROUPS["odd"]
    a, b, offsets = (one.requires_grad_(one.is_floating_point()) for one in operands(sizes, rest=5))
    weights = torch.randn(sum(sizes), 512, device="cuda").bfloat16()
    found = torch.autograd.grad((grouped_matmul(a, b, offsets)[: sum(sizes)] * weights).sum(), (a, b))
    expected = torch.autograd.grad((exact(a, b, sizes) * weights).sum(), (a, b))
    for one, other in zip(found, expected, strict=True):
        assert error(one, other) < 5e-3
    assert not bool(found[0][sum(sizes) :].any())


def test_arrays_of_numpy_are_copied_there_and_back():
    sizes = GROUPS["odd"]
    a, b, offsets = operands(sizes, rest=3, dtype="float16")
    result = grouped_matmul(*(one.contiguous().cpu().numpy() for one in (a, b, offsets)))
    check(torch.from_numpy(result).cuda(), a, b, sizes)


def test_arrays_of_cupy_are_multiplied_in_place():
    cupy = pytest.importorskip("cupy")
    sizes = GROUPS["odd"]
    a, b, offsets = operands(sizes, dtype="float16")
    result = grouped_matmul(*(cupy.asarray(one) for one in (a, b, offsets)))
    check(torch.as_tensor(result, device="cuda"), a, b, sizes)
