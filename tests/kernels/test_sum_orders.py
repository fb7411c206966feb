"""Kernel.sums: configs with the same text make the same bits of a row, wherever it is and whatever m is."""

from functools import lru_cache

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from library_cases import Case, Operands, multiply
from tilewright import ProblemError
from tilewright.core.dtypes import INT8
from tilewright.core.problem import Arithmetic, Epilogue, Layout, Problem, Scalars
from tilewright.emulator.check import check_rows
from tilewright.emulator.engine import EmulatorEngine
from tilewright.kernels import KERNELS, find
from tilewright.kernels.config import Config
from tilewright.kernels.support import Variant
from tilewright.select.orders import CONFIGS, keeping, order_of, own
from tilewright.select.tables import store

ENGINE = EmulatorEngine()
ROWS, N = 300, 51

# Of each order that products are added in, configs of all kernels that have it, and the types of factors and results.
GROUPS = {
    "fma 64/4": (
        ("split_k", {"BM": 16, "BN": 32, "BK": 64, "TN": 4, "K_SLICES": 4, "MIN_BLOCKS": 4}),
        ("split_k", {"BM": 32, "BN": 64, "BK": 64, "TM": 8, "K_SLICES": 4}),
        ("tma_transposed", {"BM": 32, "BN": 64, "K_SLICES": 4, "UNROLL": 16, "WORKERS": 0, "A_BUFFERS": 1}),
    ),
    "wgmma 16": (
        ("gemm_sm90", {"BM": 64, "BN": 48, "STAGES": 3, "PINGPONG": 1, "CLUSTER_M": 2, "GROUP_M": 1}),
        ("gemm_sm90", {"BM": 192, "BN": 72, "STAGES": 2, "CONSUMERS": 3, "CLUSTER_N": 2}),
        ("gemm_sm90", {"BM": 64, "BN": 40, "STAGES": 2, "PINGPONG": 1, "TMA_STORE_STAGES": 1, "SWAP_AB": 1}),
    ),
    "wgmma 8": (
        ("gemm_tf32", {"BM": 64, "BN": 32, "STAGES": 3, "CONSUMERS": 1}),
        ("gemm_tf32_nn", {"BM": 64, "BN": 48, "STAGES": 2, "PINGPONG": 1, "CLUSTER_N": 2}),
        ("gemm_tf32_tt", {"BM": 128, "BN": 24, "STAGES": 3, "CONSUMERS": 1}),
    ),
    "mma 16": (
        ("gemm_mma", {"BM": 64, "BN": 64, "BK": 64, "WM": 32, "WN": 32, "STAGES": 2}),
        ("gemm_mma", {"BM": 16, "BN": 128, "BK": 32, "WM": 16, "WN": 64, "STAGES": 4, "GROUP_M": 2}),
    ),
    "mma 8": (
        ("gemm_mma_tf32", {"BM": 64, "BN": 64, "BK": 32, "WM": 32, "WN": 32, "STAGES": 2, "GROUP_M": 1}),
        ("gemm_mma_tf32", {"BM": 16, "BN": 64, "BK": 32, "WM": 16, "WN": 16, "STAGES": 4}),
    ),
    "wmma 16, 32 at a time": (
        ("gemm_wmma", {"BM": 64, "BN": 64, "WM": 32, "WN": 32, "MIN_BLOCKS": 4}),
        ("gemm_wmma", {"BM": 32, "BN": 32, "WM": 16, "WN": 16}),
    ),
}
NARROW = ("wgmma 16", "mma 16", "wmma 16, 32 at a time")


def case_of(order, m, k, layout="NN"):
    arithmetic = Arithmetic("bfloat16", "bfloat16") if order in NARROW else Arithmetic()
    a, b = (Layout("row" if name == "N" else "column") for name in layout)
    return Case(Problem(m, N, k, arithmetic, 1, a, b, epilogue=Epilogue("row", "gelu_tanh")), Scalars(0.75, -0.5))


@lru_cache
def whole(order, k):
    """Operands of all rows, and what the first config makes of them."""
    name, overrides = GROUPS[order][0]
    case = case_of(order, ROWS, k)
    operands = Operands.draw(case)
    kernel = find(name)
    return operands, multiply(ENGINE, kernel, kernel.config(overrides), case, copied(operands))


def copied(operands, rows=slice(None)):
    """Operands of some rows; C is updated in place."""
    return Operands(operands.a[:, rows].copy(), operands.b, operands.c[:, rows].copy(), operands.bias)


def bits(values):
    return values.view(f"u{values.itemsize}")


@pytest.mark.further
@pytest.mark.parametrize("order", GROUPS)
@given(data=st.data())
@settings(max_examples=16, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
def test_configs_with_the_same_order_make_the_same_bits_of_a_row(order, data):
    name, overrides = data.draw(st.sampled_from(GROUPS[order]))
    k = data.draw(st.sampled_from((3, 37, 150)))
    m = data.draw(st.integers(1, ROWS))
    start = data.draw(st.integers(0, ROWS - m))
    kernel = find(name)
    config = kernel.config(overrides)
    assert kernel.sums(config).order == order
    operands, expected = whole(order, k)
    own = copied(operands, slice(start, start + m))
    cached = data.draw(st.integers(0, m - 1))
    others = data.draw(st.sampled_from((None, np.nan, np.inf, 0.0, 2.0**60)))
    if others is not None:
        row = own.a[:, cached].copy()
        own.a[:] = others
        own.a[:, cached] = row
    result = multiply(ENGINE, kernel, config, case_of(order, m, k), own)
    rows = slice(cached, cached + 1) if others is not None else slice(None)
    np.testing.assert_array_equal(bits(result)[:, rows], bits(expected[:, start : start + m])[:, rows])


@pytest.mark.first(1)
@pytest.mark.parametrize("order", GROUPS)
def test_the_orders_of_a_and_b_and_the_guards_change_no_bit(order):
    """Tiles divide the matrices, whose rows are aligned, in the other orders."""
    name, overrides = GROUPS[order][-1]
    kernel = find(name)
    config = kernel.config(overrides)
    tile = kernel.tile(config)
    arithmetic = case_of(order, 1, 1).problem.arithmetic
    found = []
    for layout, gap in (("NN", 3), ("TT", 8)):
        m, n, k = tile.m, 2 * tile.n, 2 * tile.k
        a, b = (
            Layout("row", cols + gap) if of == "N" else Layout("column", rows + gap)
            for of, (rows, cols) in zip(layout, ((m, k), (k, n)), strict=True)
        )
        rows = Layout("row", n + gap)
        problem = Problem(m, n, k, arithmetic, 1, a, b, rows, rows, epilogue=Epilogue("row", "gelu_tanh"))
        case = Case(problem, Scalars(0.75, -0.5))
        found.append(bits(multiply(ENGINE, kernel, config, case, Operands.draw(case))))
    np.testing.assert_array_equal(*found)


def test_the_check_of_rows_finds_blocks_that_share_tiles_and_parts_that_do_not_hold():
    random = np.random.default_rng(0)

    def found(name, overrides, m, n, k):
        kernel = find(name)
        a, b, c = (random.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n), (m, n)))
        return {str(one.kind) for one in check_rows(kernel, kernel.config(overrides), Problem(m, n, k), a, b, c)}

    tile = {"BM": 16, "BN": 32, "BK": 64, "TN": 4, "K_SLICES": 4, "MIN_BLOCKS": 4}
    assert found("split_k", {**tile, "WORKERS": 4}, 70, 40, 200) == {"rows"}
    assert found("split_k", tile, 70, 40, 200) == set()


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_what_depends_on_other_rows_promises_no_order(kernel):
    for config in own(kernel):
        shares = config.get("WORKERS", 0) or config.get("SPLITS", 1) > 1
        exact = set(kernel.support.factors) == set(INT8)
        if not exact and (kernel.support.multiplies_parts or shares or kernel.name == "skinny"):
            assert kernel.sums(config).order is None


ARITHMETICS = (
    *(Arithmetic(precision=one) for one in (None, "ieee", "tf32", "bf16x3")),
    Arithmetic("float16"),
    Arithmetic("bfloat16"),
)
CAPABILITIES = ((8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0), None)


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize(
    "arithmetic",
    [
        *(Arithmetic(precision=one) for one in (None, "ieee", "tf32", "bf16x3")),
        Arithmetic("float16"),
        Arithmetic("bfloat16"),
    ],
    ids=str,
)
def test_every_gpu_has_an_order_that_some_kernel_keeps_for_every_problem(capability, arithmetic):
    invariant = Arithmetic(arithmetic.factors, "float32", arithmetic.precision, batch_invariant=True)
    assert order_of(arithmetic, capability) is None
    order = order_of(invariant, capability)
    universal = [
        kernel
        for kernel in keeping(order)
        if (capability is None or kernel.support.runs_on(capability, arithmetic.factors))
        and kernel.meets(arithmetic.precision)
        and kernel.support.batches
        and kernel.support.epilogue
        and len(kernel.support.layouts) == 4
        and not kernel.support.aligned
        and kernel.support.separate_c
    ]
    assert universal


def test_a_gpu_without_such_a_kernel_is_refused_in_words():
    with pytest.raises(ProblemError, match=r"no kernel for compute capability 7.5 .* same order for every m"):
        order_of(Arithmetic(batch_invariant=True), (7, 5))
    assert order_of(Arithmetic("float16", batch_invariant=True), (7, 5)) == "wmma 16, 32 at a time"


@pytest.mark.parametrize(("name", "number"), [(name, i) for name, some in CONFIGS.items() for i in range(len(some))])
def test_configs_that_come_with_an_order_do_not_spill(name, number, report_of):
    kernel = find(name)
    arch = ("sm_80", "sm_120", "sm_90a")[number] if name == "split_k" else "sm_90a"
    aligned, layout, epilogue = ((True, "NT", Epilogue("row", "gelu")), (False, "TN", Epilogue("column", "silu")))[
        number % 2
    ]
    types = ("bfloat16", "bfloat16") if name == "gemm_sm90" else ("float32", "float32")
    variant = Variant(True, aligned, *types, find(name).layout_read(find(name).config(), layout), epilogue)
    assert report_of(kernel, kernel.config(CONFIGS[name][number]), variant, arch).report.spill_bytes == 0


def test_tables_have_configs_of_the_orders_that_are_picked():
    (table,) = (one for one in store.shipped() if one.gpu == "NVIDIA H200")
    for order in ("fma 64/4", "wgmma 16"):
        configs = {(entry.kernel, Config(entry.config)) for entry in table.entries}
        assert sum(find(name).sums(config).order == order for name, config in configs) > 20
