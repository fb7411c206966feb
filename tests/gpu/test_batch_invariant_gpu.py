"""Batch invariance on a GPU: rows, configs with one order of sums, and the logits of a model."""

import numpy as np
import pytest

import tilewright
from tilewright.kernels import find
from tilewright.kernels.config import Config
from tilewright.select.orders import keeping
from tilewright.select.selector import select
from tilewright.select.tables import store

BATCHES = (1, 2, 3, 5, 8, 16, 24, 33, 48, 64)
PLACES = ((1, 77), (2, 2998), (7, 0), (16, 40), (33, 11), (64, 128), (100, 1), (257, 300), (1024, 5), (2047, 1))
"""Rows that are multiplied alone, and where they begin."""
TYPES = {
    "bfloat16": ("bfloat16", {}),
    "float16": ("float16", {}),
    "tf32": ("float32", {"precision": "tf32"}),
    "float32": ("float32", {}),
}


@pytest.fixture
def torch():
    library = pytest.importorskip("torch")
    library.manual_seed(0)
    library._dynamo.reset()
    return library


@pytest.fixture
def invariant(torch):
    """enable(batch_invariant=True), while a test runs."""
    from tilewright.torch import enable  # noqa: PLC0415 - imports PyTorch

    with enable(batch_invariant=True):
        yield torch


def bits(torch, tensor):
    return tensor.view(torch.int16 if tensor.element_size() == 2 else torch.int32)


@pytest.mark.parametrize(("n", "k"), [(4096, 4096), (1024, 4096), (1000, 777), (4096, 14336), (24, 8192)])
@pytest.mark.parametrize(("dtype", "options"), TYPES.values(), ids=TYPES)
def test_rows_are_those_of_the_whole_product(torch, dtype, options, n, k):
    typed, most = getattr(torch, dtype), 3000
    a = torch.randn(most, k, device="cuda").to(typed)
    w = torch.randn(n, k, device="cuda").to(typed)
    bias = torch.randn(n, device="cuda").to(typed)

    def product(some):
        return tilewright.matmul(some, w.T, bias=bias, activation="gelu", batch_invariant=True, **options)

    whole = bits(torch, product(a))
    for m, start in (
        (1, 77),
        (2, 2998),
        (7, 0),
        (16, 40),
        (33, 11),
        (64, 128),
        (100, 1),
        (257, 300),
        (1024, 5),
        (2047, 1),
    ):
        some = a[start : start + m]
        assert torch.equal(bits(torch, product(some)), whole[start : start + m]), m
        others = torch.full_like(a[: m + 200], torch.nan)
        others[150 : 150 + m] = some
        assert torch.equal(bits(torch, product(others))[150 : 150 + m], whole[start : start + m]), m
    by_columns = a[:300].T.contiguous().T
    assert torch.equal(bits(torch, product(by_columns)), whole[:300])
    batches = product(a.view(30, 100, k))
    assert torch.equal(bits(torch, batches).view(most, n), whole)


def configs(order):
    """One config of each tile among those that tables and sources have."""
    found = {}
    for kernel, own in keeping(order).items():
        for config in own:
            found.setdefault((kernel.name, *kernel.tile(config)), (kernel, config))
    for table in store.shipped():
        for entry in table.entries:
            kernel, config = find(entry.kernel), Config(entry.config)
            if kernel.sums(config).order == order:
                found.setdefault((kernel.name, *kernel.tile(config)), (kernel, config))
    return list(found.values())


@pytest.mark.parametrize(
    ("order", "dtype"),
    [
        ("wgmma 16", "bfloat16"),
        ("wgmma 16", "float16"),
        ("wgmma 8", "float32"),
        ("mma 16", "bfloat16"),
        ("mma 8", "float32"),
        ("fma 64/4", "float32"),
    ],
)
@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
def test_every_tile_of_an_order_makes_the_same_bits(torch, engine, order, dtype, layout):
    """On the tensor cores too: whatever the columns of an instruction, and whether lines lie along k or across it."""
    if engine.capability != (9, 0) and order.startswith("wgmma"):
        pytest.skip("wgmma is Hopper's")
    if engine.capability < (8, 0) and order.startswith("mma"):
        pytest.skip("mma.sync of these is Ampere's and newer")
    typed = getattr(torch, dtype)
    a, b = (torch.randn(shape, device="cuda").to(typed) for shape in ((403, 1117), (1117, 523)))
    a = a if layout[0] == "N" else a.T.contiguous().T
    b = b if layout[1] == "N" else b.T.contiguous().T
    expected = None
    for kernel, config in configs(order)[:: 1 if layout == "NT" else 4]:
        result = bits(torch, tilewright.matmul(a, b, kernel=kernel, config=dict(config), batch_invariant=True))
        expected = result if expected is None else expected
        assert torch.equal(result, expected), f"{kernel.name} {config}"


@pytest.mark.parametrize(
    ("dtype", "tf32"), [("bfloat16", False), ("float16", False), ("float32", False), ("float32", True)]
)
def test_the_logits_of_a_prompt_are_the_same_in_every_batch(invariant, monkeypatch, dtype, tf32):
    from small_gpt import Model  # noqa: PLC0415 - imports PyTorch

    torch = invariant
    monkeypatch.setattr(torch.backends.cuda.matmul, "fp32_precision", "tf32" if tf32 else "none")
    model = Model(vocabulary=50257, width=768, heads=12, layers=4, longest=32).to("cuda", getattr(torch, dtype)).eval()
    prompt = torch.randint(50257, (32,), device="cuda")
    tilewright.torch.report(reset=True)
    with torch.no_grad():
        alone = bits(torch, model(prompt[None]))[0]
        for batch in BATCHES:
            ids = torch.randint(50257, (batch, 32), device="cuda")
            ids[batch // 2] = prompt
            assert torch.equal(bits(torch, model(ids))[batch // 2], alone), batch
    assert {row.where for row in tilewright.torch.report()} == {"tilewright"}


def test_a_captured_graph_and_inductor_have_the_same_bits(invariant):
    torch = invariant
    layer = torch.nn.Linear(768, 3072, device="cuda", dtype=torch.bfloat16)
    x = torch.randn(48, 768, device="cuda", dtype=torch.bfloat16)
    with torch.no_grad():
        expected = bits(torch, layer(x))
        assert torch.equal(bits(torch, torch.compile(layer)(x[:5])), expected[:5])
        stream = torch.cuda.Stream()
        some = x[:5].clone()
        with torch.cuda.stream(stream):
            layer(some)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            result = layer(some)
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(bits(torch, result), expected[:5])


@pytest.mark.parametrize(
    "options", [{}, {"precision": "ieee"}, {"precision": "fp16x3"}, {"precision": "tf32"}], ids=str
)
@pytest.mark.parametrize(("m", "n", "k"), [(1, 4096, 4096), (64, 512, 8192), (1000, 1000, 1000), (300, 200, 65536)])
def test_a_product_has_the_same_bits_from_run_to_run_in_every_mode(torch, options, m, n, k):
    a, b = torch.randn(m, k, device="cuda"), torch.randn(k, n, device="cuda")
    b[0, 0] = 1e-38  # what parts do not represent, in some tiles
    first = bits(torch, tilewright.matmul(a, b, **options))
    for _ in range(5):
        assert torch.equal(bits(torch, tilewright.matmul(a, b, **options)), first)


def test_arrays_on_the_host_go_by_panels_of_rows(engine):
    random = np.random.default_rng(0)
    a, b = (
        random.standard_normal((20000, 512)).astype(np.float32),
        random.standard_normal((512, 640)).astype(np.float32),
    )
    whole = tilewright.matmul(a, b, batch_invariant=True)
    for rows in (slice(5, 6), slice(19990, None), slice(700, 1900)):
        np.testing.assert_array_equal(tilewright.matmul(a[rows], b, batch_invariant=True), whole[rows])


def test_what_is_picked_on_this_gpu_is_of_one_order(engine):
    from tilewright.core.problem import Arithmetic, Problem  # noqa: PLC0415
    from tilewright.select.orders import order_of  # noqa: PLC0415

    for factors in ("float32", "bfloat16"):
        arithmetic = Arithmetic(factors, factors, batch_invariant=True)
        for m in (1, 17, 64, 300, 4096):
            kernel, config = select(Problem(m, 4096, 4096, arithmetic), engine.capability, engine.device_name)
            assert kernel.sums(config).order == order_of(arithmetic, engine.capability)
