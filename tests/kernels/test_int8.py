"""Kernels for integers of 8 bits on the emulator: sums that are exact modulo 2^32, and what scales make of them."""

import numpy as np
import pytest
from test_library_compiles import SHIPPED, config_of, sample, turn_of

import tilewright
from sass_cases import of_loop
from tilewright.core.dtypes import INT8, RESULTS
from tilewright.core.errors import ConfigError, DtypeError, ProblemError
from tilewright.core.problem import LAYOUTS, Arithmetic, Problem, Scale, Scaling, orders
from tilewright.emulator.compiler import OPTIMIZE_VARIABLE
from tilewright.emulator.engine import EmulatorEngine
from tilewright.kernels import find
from tilewright.select.selector import select

ENGINE = EmulatorEngine()
SIGNED, UNSIGNED = INT8
SHARED = {"BM": 128, "BN": 64, "STAGES": 2}
ALTERNATING = {"BM": 64, "BN": 48, "STAGES": 3, "PINGPONG": 1, "CLUSTER_M": 2, "GROUP_M": 1}
SPLIT = {"BM": 64, "BN": 48, "STAGES": 3, "CONSUMERS": 1, "SPLITS": 2}
STORED = {"BM": 128, "BN": 64, "STAGES": 2, "TMA_STORE_STAGES": 1}
OF_COLUMNS = {"BM": 192, "BN": 24, "STAGES": 3, "CONSUMERS": 3, "CLUSTER_N": 2}
BY_WARPS = {"BM": 64, "BN": 64, "WM": 32, "WN": 32}
FEW_ROWS = {"BM": 16, "BN": 64, "BK": 128, "WM": 16, "WN": 16}
FEW = {"TM": 4, "TN": 2, "THREADS_N": 1}
TALL = {"TM": 4, "TN": 1, "THREADS_N": 1, "THREADS_M": 8}

CASES = [
    ("gemm_int8", SHARED, "NT", (SIGNED, SIGNED), (128, 64, 256)),
    ("gemm_int8", SHARED, "TN", (SIGNED, UNSIGNED), (131, 77, 150)),
    ("gemm_int8", ALTERNATING, "NN", (UNSIGNED, SIGNED), (150, 101, 145)),
    ("gemm_int8", SPLIT, "NT", (UNSIGNED, UNSIGNED), (70, 50, 272)),
    ("gemm_int8", STORED, "TT", (SIGNED, SIGNED), (130, 144, 300)),
    ("gemm_int8", SHARED, "NT", (SIGNED, UNSIGNED), (1, 1, 1)),
    ("gemm_int8", {**STORED, "BN": 80, "SWAP_AB": 1}, "NT", (SIGNED, UNSIGNED), (75, 144, 300)),
    ("gemm_int8", {**ALTERNATING, "SWAP_AB": 1}, "TN", (UNSIGNED, SIGNED), (101, 150, 145)),
    ("gemm_int8", {**SPLIT, "SWAP_AB": 1}, "NN", (SIGNED, SIGNED), (50, 70, 272)),
    ("gemm_int8_nn", {"BM": 256, "BN": 64, "STAGES": 2}, "NN", (SIGNED, UNSIGNED), (77, 272, 150)),
    ("gemm_int8_nn", ALTERNATING, "TT", (UNSIGNED, SIGNED), (101, 150, 145)),
    ("gemm_int8_nn", {**SPLIT, "BM": 128, "CONSUMERS": 2}, "NT", (SIGNED, SIGNED), (50, 144, 272)),
    ("gemm_int8_nn", OF_COLUMNS, "NN", (UNSIGNED, UNSIGNED), (90, 208, 400)),
    ("gemm_mma_int8", BY_WARPS, "TN", (SIGNED, UNSIGNED), (131, 77, 150)),
    ("gemm_mma_int8", BY_WARPS, "NN", (UNSIGNED, SIGNED), (128, 64, 256)),
    ("gemm_mma_int8", FEW_ROWS, "TT", (UNSIGNED, UNSIGNED), (5, 70, 272)),
    ("skinny_int8", {}, "NT", (SIGNED, SIGNED), (1, 96, 512)),
    ("skinny_int8", FEW, "NT", (SIGNED, UNSIGNED), (5, 67, 331)),
    ("skinny_int8", {"TM": 1, "TN": 4, "THREADS_N": 8}, "NN", (UNSIGNED, SIGNED), (1, 300, 3000)),
    ("skinny_int8", {"TM": 4, "TN": 1, "THREADS_N": 1}, "TN", (UNSIGNED, UNSIGNED), (130, 1, 160)),
    ("skinny_int8", TALL, "TT", (SIGNED, UNSIGNED), (70, 3, 90)),
]
of_kernels = pytest.mark.parametrize(("kernel", "config", "layout", "types", "sizes"), CASES, ids=str)


def drawn(layout, m, n, k, of_a, of_b):
    """Factors of all values of their types, in these orders; of the first row and column the extremes."""
    random, found = np.random.default_rng(m + n + k), []
    for dtype, shape, order in ((of_a, (m, k), layout[0]), (of_b, (k, n), layout[1])):
        info = np.iinfo(dtype)
        factor = random.integers(info.min, info.max + 1, shape).astype(dtype)
        factor[0] = info.max if dtype == UNSIGNED else info.min
        factor[:, 0] = info.min
        found.append(factor if order == "N" else factor.T.copy().T)
    return found


def exact(a, b):
    return a.astype(np.int64) @ b.astype(np.int64)


def wrapped(sums):
    return sums.astype(np.int32)  # of the 32 lower bits


@of_kernels
def test_sums_are_exact_with_whatever_is_added_to_them(kernel, config, layout, types, sizes):
    m, n, k = sizes
    a, b = drawn(layout, *sizes, *types)
    named = {"kernel": kernel, "config": config, "engine": ENGINE}
    out = np.full((m, n), 0x7FC00000, np.int32)
    assert tilewright.matmul(a, b, out=out, **named) is out
    np.testing.assert_array_equal(out, exact(a, b), strict=False)
    random = np.random.default_rng(k)
    c, bias = (random.integers(-(2**31), 2**31, shape).astype(np.int32) for shape in ((m, n), (n,)))
    more = tilewright.matmul(a, b, c=c, alpha=3, beta=-2, bias=bias, **named)
    assert more.dtype == np.int32
    np.testing.assert_array_equal(more, wrapped(3 * exact(a, b) - 2 * c.astype(np.int64) + bias))
    column = tilewright.matmul(a, b, bias=c[:, :1].copy(), out=np.empty((m, n), np.int32, order="F"), **named)
    np.testing.assert_array_equal(column, wrapped(exact(a, b) + c[:, :1]))


@of_kernels
@pytest.mark.parametrize("result", RESULTS)
def test_scaled_results_are_rounded_once(kernel, config, layout, types, sizes, result):
    m, n, _ = sizes
    a, b = drawn(layout, *sizes, *types)
    random = np.random.default_rng(m)
    of_rows, of_columns = (random.uniform(0.5, 2, one).astype(np.float32) / 128 for one in ((m, 1), (1, n)))
    bias = random.uniform(-1, 1, n).astype(np.float32).astype(result)
    scaled = exact(a, b) * of_rows.astype(np.float64) * of_columns
    got = tilewright.matmul(
        a, b, scale_a=of_rows, scale_b=of_columns, bias=bias, activation="relu",
        out_dtype=result, kernel=kernel, config=config, engine=ENGINE,
    )  # fmt: skip
    assert got.dtype == np.dtype(result)
    digits = {"float32": 22, "float16": 11, "bfloat16": 8}[result]
    expected = np.maximum(scaled + bias.astype(np.float64), 0)
    np.testing.assert_allclose(got.astype(np.float64), expected, rtol=2.0**-digits, atol=2.0**-20 * abs(scaled).max())
    whole = tilewright.matmul(
        a, b, scale_a=of_rows[:1], alpha=2.0**-8, out_dtype=result, kernel=kernel, config=config, engine=ENGINE
    )
    parts = 2.0**-8 * exact(a, b) * float(of_rows[0, 0])
    np.testing.assert_allclose(whole.astype(np.float64), parts, rtol=2.0**-digits)


@pytest.mark.parametrize(
    ("kernel", "config"),
    [
        ("gemm_int8_blocks", SHARED),
        ("gemm_int8_blocks", {"BM": 256, "STAGES": 2}),
        ("gemm_int8_blocks", {**SPLIT, "BN": 64}),
        ("gemm_mma_int8_blocks", BY_WARPS),
    ],
    ids=str,
)
@pytest.mark.parametrize("types", [(SIGNED, SIGNED), (UNSIGNED, SIGNED)], ids=str)
@pytest.mark.parametrize("result", RESULTS)
def test_blocks_of_128_of_k_have_scales_of_their_own(kernel, config, types, result):
    m, n, k = 200, 150, 300
    a, b = drawn("NT", m, n, k, *types)
    random, steps = np.random.default_rng(1), 3
    of_rows, of_blocks = (random.uniform(0.5, 2, one).astype(np.float32) / 128 for one in ((m, steps), (steps, 2)))
    whole = sum(
        exact(a[:, at : at + 128], b[at : at + 128])
        * of_rows[:, [i]].astype(np.float64)
        * np.repeat(of_blocks[[i]].astype(np.float64), 128, 1)[:, :n]
        for i, at in enumerate(range(0, k, 128))
    )
    for named in ({"kernel": kernel, "config": config, "engine": ENGINE}, {}):
        got = tilewright.matmul(a, b, scale_a=of_rows, scale_b=of_blocks, out_dtype=result, **named)
        digits = {"float32": 19, "float16": 10, "bfloat16": 7}[result]
        np.testing.assert_allclose(got.astype(np.float64), whole, rtol=2.0**-digits, atol=2.0**-18 * abs(whole).max())
    with pytest.raises(DtypeError, match="scale_a is for an out_dtype of float32, float16, bfloat16: without one"):
        tilewright.matmul(a, b, scale_a=of_rows, scale_b=of_blocks, engine=ENGINE)


@pytest.mark.parametrize("level", "13")
@pytest.mark.parametrize(("kernel", "config"), [("gemm_int8_blocks", SHARED), ("gemm_mma_int8_blocks", BY_WARPS)])
def test_blocks_are_scaled_and_added_by_one_rounding(kernel, config, level, monkeypatch):
    """As on a GPU; GCC makes an FMA of a product and a sum from -O2 on alone."""
    monkeypatch.setenv(OPTIMIZE_VARIABLE, level)
    m, n, k = 70, 150, 300
    a, b = drawn("NT", m, n, k, SIGNED, SIGNED)
    random = np.random.default_rng(2)
    of_rows, of_blocks = (random.uniform(0.5, 2, one).astype(np.float32) for one in ((m, 3), (3, 2)))
    expected = np.zeros((m, n), np.float32)
    for i, at in enumerate(range(0, k, 128)):
        scale = of_rows[:, [i]] * np.repeat(of_blocks[[i]], 128, 1)[:, :n]
        product = exact(a[:, at : at + 128], b[at : at + 128]) * scale.astype(np.longdouble)
        expected = (product + expected).astype(np.float32)
    scales = {"scale_a": of_rows, "scale_b": of_blocks}
    named = {"kernel": kernel, "config": config, "engine": EmulatorEngine()}
    got = tilewright.matmul(a, b, **scales, out_dtype="float32", **named)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("kernel", ["gemm_int8", "gemm_int8_nn", "gemm_mma_int8", "skinny_int8"])
@pytest.mark.parametrize("extremes", [(-128, -128), (255, 255), (255, -128)])
def test_sums_wrap_as_32_bits_do(kernel, extremes):
    """Sums of products of extremes, more than 2^31 in magnitude."""
    at_a, at_b = extremes
    of_a, of_b = (UNSIGNED if at > 0 else SIGNED for at in extremes)
    k = 2**31 // abs(at_a * at_b) + 37
    a, b = np.full((2, k), at_a, of_a), np.full((k, 3), at_b, of_b)
    expected = wrapped(np.full((2, 3), k * at_a * at_b, np.int64))
    assert np.sign(expected[0, 0]) != np.sign(at_a * at_b)
    config = {"gemm_int8": SHARED, "gemm_int8_nn": {**SHARED, "BN": 16}, "gemm_mma_int8": FEW_ROWS}.get(kernel, FEW)
    for engine in (None, ENGINE):
        named = {"kernel": kernel, "config": config, "engine": engine} if engine else {}
        np.testing.assert_array_equal(tilewright.matmul(a, b, **named), expected)
        floats = tilewright.matmul(a, b, out_dtype="float32", **named)
        np.testing.assert_array_equal(floats, expected.astype(np.float32))


@pytest.mark.parametrize("types", [(SIGNED, SIGNED), (UNSIGNED, SIGNED)], ids=str)
@pytest.mark.parametrize(
    "config", [{"BM": 64, "BN": 32, "STAGES": 2, "PINGPONG": 1}, {"BM": 256, "BN": 48, "STAGES": 2}]
)
@pytest.mark.parametrize("order", "NT")
def test_groups_have_exact_sums_and_scales(types, config, order):
    rows, n, k = (5, 0, 70, 1), 40, 150
    offsets, m = np.cumsum(rows).astype(np.int32), sum(rows)
    a, _ = drawn("NN", m, 8, k, *types)
    b = np.stack([drawn(f"N{order}", 8, n, k + number, *types)[1][:k] for number in range(len(rows))])
    b = b if order == "N" else b.mT.copy().mT
    parts = [exact(a[end - count : end], one) for count, end, one in zip(rows, offsets, b, strict=True)]
    random = np.random.default_rng(0)
    scale_a, scale_b = (random.uniform(0.5, 2, one).astype(np.float32) / 64 for one in ((m, 1), (len(rows), n)))
    scaled = (
        np.concatenate([one * scales.astype(np.float64) for one, scales in zip(parts, scale_b, strict=True)]) * scale_a
    )
    for named in ({"engine": ENGINE, "config": config}, {}):
        got = tilewright.grouped_matmul(a, b, offsets, **named)
        assert got.dtype == np.int32
        np.testing.assert_array_equal(got, np.concatenate(parts))
        got = tilewright.grouped_matmul(a, b, offsets, scale_a=scale_a, scale_b=scale_b, out_dtype="bfloat16", **named)
        np.testing.assert_allclose(got.astype(np.float64), scaled, rtol=2.0**-8, atol=2.0**-20 * abs(scaled).max())
        with pytest.raises(DtypeError, match="scale_a is for an out_dtype of float32"):
            tilewright.grouped_matmul(a, b, offsets, scale_a=scale_a, **named)


def test_what_integers_have_not_is_refused():
    a, b = np.ones((2, 4), np.int8), np.ones((4, 3), np.uint8)
    scale = np.ones(1, np.float32)
    for engine in (None, ENGINE):
        named = {"engine": engine}
        for keywords, error, words in (
            (
                {"alpha": 0.5},
                ProblemError,
                "alpha must be an integer from .* where the result is int32, got 0.5",
            ),
            ({"c": np.ones((2, 3), np.int32), "beta": 2.0**25}, ProblemError, "beta must be an integer"),
            ({"alpha": np.inf}, ProblemError, "alpha must be an integer"),
            (
                {"activation": "relu"},
                DtypeError,
                "activation is for an out_dtype of float32, .*: without one, results of 8-bit integers are int32",
            ),
            (
                {"scale_a": scale},
                DtypeError,
                "scale_a is for an out_dtype of float32, .*: without one, results of 8-bit integers are int32",
            ),
            ({"out_dtype": "int8"}, DtypeError, "out_dtype must be one of int32, float32, float16, bfloat16, got int8"),
            (
                {"bias": np.ones(3, np.float32)},
                DtypeError,
                "bias must have the result's element type int32",
            ),
            ({"precision": "tf32"}, DtypeError, "precision is for float32 factors"),
            ({"fast_accumulate": True}, DtypeError, "fast_accumulate is for float8 factors"),
        ):
            with pytest.raises(error, match=words):
                tilewright.matmul(a, b, **keywords, **named)
    with pytest.raises(DtypeError, match=r"a has element type int32; matmul takes .*, uint8, complex64: pass a as"):
        tilewright.matmul(a.astype(np.int32), b.astype(np.int32))
    with pytest.raises(DtypeError, match="b must have the element type of a"):
        tilewright.matmul(a, b.astype(np.float32))
    with pytest.raises(DtypeError, match="out_dtype must be one of float32, float16, bfloat16, got int32"):
        tilewright.matmul(a.astype(np.float16), b.astype(np.float16), out_dtype="int32")
    with pytest.raises(ConfigError, match="BN must be at most 24 or a multiple of 16"):
        find("gemm_int8").config({"BN": 40})


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("capability", [(7, 5), (8, 0), (9, 0), (12, 0)])
@pytest.mark.parametrize("sizes", [(1, 4096, 4096), (16, 4096, 512), (4096, 4096, 4096)])
def test_a_kernel_is_picked(sizes, capability, layout):
    a, b = orders(layout)
    for types in ((SIGNED, None), (SIGNED, UNSIGNED)):
        for result in ("int32", "bfloat16"):
            for invariant in (False, True):
                arithmetic = Arithmetic(types[0], result, of_b=types[1], batch_invariant=invariant)
                kernel, _ = select(Problem(*sizes, arithmetic, a=a, b=b), capability)
                assert set(kernel.support.factors) == set(INT8)
        if capability > (7, 5):
            blocks = Scaling(Scale("1x128"), Scale("128x128"))
            kernel, _ = select(Problem(*sizes, Arithmetic(types[0], "float32"), a=a, b=b, scaling=blocks), capability)
            assert kernel.support.block_scales


@pytest.mark.parametrize("kernel", ["gemm_int8", "gemm_int8_nn", "gemm_mma_int8", "skinny_int8"])
def test_an_empty_k_leaves_what_is_added(kernel):
    c = np.arange(6, dtype=np.int32).reshape(2, 3)
    got = tilewright.matmul(
        np.ones((2, 0), np.int8), np.ones((0, 3), np.int8), c=c, beta=2, kernel=kernel, engine=ENGINE
    )
    np.testing.assert_array_equal(got, 2 * c)


@pytest.mark.parametrize("preset", [preset for kernel, preset in SHIPPED if kernel.name == "gemm_int8_nn"])
def test_registers_that_tensor_cores_read_are_written_after_the_wait(preset, report_of):
    """As of TF32: the compiler does not know how long they are read."""
    kernel = find("gemm_int8_nn")
    for variant in sample(kernel, preset, turn_of(kernel, preset)):
        found = report_of(kernel, config_of(kernel, preset), variant, "sm_90a", of_loop).read
        assert found["products"] == 4
        assert found["written early"] == []
        assert found["found with a shorter wait"]
