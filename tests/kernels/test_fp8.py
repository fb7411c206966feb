"""Kernels for float8 on the emulator: products of float8 factors with scales, against float64."""

import ml_dtypes  # noqa: F401 - teaches NumPy the names of float8
import numpy as np
import pytest

import tilewright
from tilewright.core.dtypes import FLOAT8
from tilewright.core.errors import ArrayError, DtypeError, ProblemError
from tilewright.core.problem import FAST, LAYOUTS, Arithmetic, Problem, Scaling, orders
from tilewright.emulator.checker import Checker, arrays_of
from tilewright.emulator.compiler import CHECKED
from tilewright.emulator.engine import EmulatorEngine
from tilewright.emulator.program import Watch
from tilewright.kernels import find
from tilewright.runtime import relayouts
from tilewright.select.selector import select
from tilewright.tools.bench.verify import limit

ENGINE = EmulatorEngine()
E4M3, E5M2 = FLOAT8
SHARED = {"BM": 128, "BN": 64, "STAGES": 2}
ALTERNATING = {"BM": 64, "BN": 48, "STAGES": 3, "PINGPONG": 1, "CLUSTER_M": 2, "GROUP_M": 1}
BY_WARPS = {"BM": 64, "BN": 64, "WM": 32, "WN": 32}
FEW_ROWS = {"BM": 16, "BN": 64, "WM": 16, "WN": 16}
SPLIT = {"BM": 64, "BN": 48, "STAGES": 3, "CONSUMERS": 1, "SPLITS": 2}
SWAPPED = {"BM": 64, "BN": 40, "STAGES": 3, "PINGPONG": 1, "TMA_STORE_STAGES": 1, "SWAP_AB": 1}
OF_COLUMNS = {"BM": 192, "BN": 24, "STAGES": 3, "CONSUMERS": 3, "CLUSTER_N": 2}
"""Rows of gemm_fp8_nn's tiles are columns of D, here in three blocks of 64, of which each block loads half of k."""


def drawn(layout, m, n, k, of_a=E4M3, of_b=E4M3, seed=0):
    """Factors of these orders and types."""
    random = np.random.default_rng(seed)
    shapes = ((m, k), of_a), ((k, n), of_b)
    factors = [random.standard_normal(shape).astype(np.float32).astype(dtype) for shape, dtype in shapes]
    return [one if order == "N" else one.T.copy().T for one, order in zip(factors, layout, strict=True)]


def scales_of(m, n):
    random = np.random.default_rng(m + n)
    return (random.uniform(0.5, 2, shape).astype(np.float32) for shape in ((m, 1), (1, n)))


def error(result, exact):
    return np.linalg.norm(result.astype(np.float64) - exact) / np.linalg.norm(exact)


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("kernel", "config", "layout", "types", "result", "sizes"),
    [
        ("gemm_fp8", SHARED, "NT", (E4M3, E4M3), "bfloat16", (128, 64, 256)),
        ("gemm_fp8", SHARED, "TN", (E4M3, E5M2), "float16", (131, 77, 150)),
        ("gemm_fp8", ALTERNATING, "NN", (E5M2, E4M3), "float32", (150, 101, 145)),
        ("gemm_fp8", SPLIT, "NT", (E5M2, E5M2), E4M3, (70, 50, 272)),
        ("gemm_fp8", SWAPPED, "NT", (E4M3, E5M2), "float16", (77, 136, 272)),
        ("gemm_fp8", {**SPLIT, "SWAP_AB": 1}, "TN", (E5M2, E4M3), E4M3, (70, 131, 272)),
        ("gemm_fp8_nn", {"BM": 256, "BN": 64, "STAGES": 2}, "NN", (E4M3, E5M2), "float16", (77, 272, 150)),
        ("gemm_fp8_nn", ALTERNATING, "TT", (E5M2, E4M3), "float32", (101, 150, 145)),
        ("gemm_fp8_nn", {**SPLIT, "BM": 128, "CONSUMERS": 2}, "NT", (E5M2, E5M2), E4M3, (50, 144, 272)),
        ("gemm_fp8_nn", OF_COLUMNS, "NN", (E5M2, E5M2), "bfloat16", (90, 208, 400)),
        ("skinny_fp8", {}, "NT", (E4M3, E4M3), "bfloat16", (1, 96, 512)),
        ("skinny_fp8", "weights_rows", "NT", (E4M3, E5M2), "float32", (5, 67, 331)),
        ("skinny_fp8", "column", "TN", (E4M3, E4M3), "float16", (130, 1, 160)),
        ("skinny_fp8", {"TM": 4, "TN": 1, "THREADS_N": 1, "THREADS_M": 8}, "TT", (E4M3, E5M2), "float32", (70, 3, 90)),
        ("gemm_fp8", SHARED, "NT", (E4M3, E4M3), "bfloat16", (5, 9, 400)),
        ("gemm_mma_fp8", BY_WARPS, "TN", (E4M3, E5M2), "float16", (131, 77, 150)),
        ("gemm_mma_fp8", BY_WARPS, "NN", (E5M2, E4M3), "float32", (128, 64, 256)),
        ("gemm_mma_fp8", FEW_ROWS, "TT", (E5M2, E5M2), E4M3, (5, 70, 272)),
    ],
    ids=str,
)
def test_scaled_products_are_those_of_float64(kernel, config, layout, types, result, sizes):
    m, n, k = sizes
    a, b = drawn(layout, *sizes, *types)
    of_rows, of_columns = scales_of(m, n)
    config = find(kernel).presets[config] if isinstance(config, str) else config
    named = {"kernel": kernel, "config": config, "engine": ENGINE, "out_dtype": result}
    exact = a.astype(np.float64) @ b.astype(np.float64)
    allowed = limit(Problem(m, n, k, Arithmetic(types[0], result, of_b=types[1])))
    lines = tilewright.matmul(a, b, scale_a=of_rows, scale_b=of_columns, **named)
    assert lines.dtype == np.dtype(result)
    assert error(lines, exact * of_rows * of_columns) <= allowed
    whole = tilewright.matmul(a, b, scale_a=of_rows[:1], **named, alpha=2.0)
    assert error(whole, 2 * exact * of_rows[0]) <= allowed
    out = np.empty((m, n), result, order="F")  # computed as its transpose
    tilewright.matmul(a, b, scale_b=of_columns, out=out, **named)
    assert error(out, exact * of_columns) <= allowed


def spread(scale, shape):
    """Scales of blocks of 128, one for each element."""
    for axis, length in enumerate(shape):
        if scale.shape[axis] != length:
            scale = np.repeat(scale, 128, axis).take(range(length), axis)
    return scale


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("config", "layout", "rows", "sizes"),
    [
        ({**SHARED, "BN": 128}, "NT", 131, (131, 150, 300)),
        ({**SPLIT, "BN": 32}, "NN", 2, (150, 290, 272)),
        ({**ALTERNATING, "BN": 64}, "NT", 1, (1, 40, 130)),
        ("BY_WARPS", "NT", 131, (131, 150, 300)),
        ("BY_WARPS", "TN", 2, (150, 290, 272)),
        ("FEW_ROWS", "NT", 1, (1, 40, 130)),
        ({**SPLIT, "BM": 128, "BN": 64, "SPLITS": 1}, "NT", 150, (150, 70, 600)),
    ],
    ids=str,
)
def test_scales_of_blocks(config, layout, rows, sizes):
    """Scales of each row and 128 of k, or of 128 rows and 128 of k; in either order of memory."""
    m, n, k = sizes
    a, b = drawn(layout, *sizes)
    random, deep = np.random.default_rng(k), -(-k // 128)
    of_a = random.uniform(0.5, 2, (rows, deep)).astype(np.float32)
    of_b = random.uniform(0.5, 2, (deep, -(-n // 128))).astype(np.float32)
    exact = (a.astype(np.float64) * spread(of_a, (m, k))) @ (b.astype(np.float64) * spread(of_b, (k, n)))
    kernel = "gemm_fp8_blocks"
    if isinstance(config, str):
        kernel, config = "gemm_mma_fp8_blocks", globals()[config]
    named = {"kernel": kernel, "config": config, "engine": ENGINE}
    allowed = limit(Problem(m, n, k, Arithmetic(E4M3)))
    assert error(tilewright.matmul(a, b, scale_a=of_a, scale_b=of_b, **named), exact) <= allowed
    out = np.empty((m, n), np.float32, order="F")
    tilewright.matmul(a, b, scale_a=np.asfortranarray(of_a), scale_b=of_b, out=out, **named)
    assert error(out, exact) <= allowed
    assert error(tilewright.matmul(a, b, scale_a=of_a, scale_b=of_b), exact) < 1e-6, "NumPy"


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("gemm_fp8", SPLIT),
        ("gemm_fp8_fast", SPLIT),
        ("gemm_mma_fp8", BY_WARPS),
        ("gemm_mma_fp8_fast", {**BY_WARPS, "BK": 64}),
    ],
)
def test_long_sums_are_those_of_128_k_where_threads_add_them_up(name, config):
    """Ada's tensor cores, which add 16 products at a time and not 32, lose a little more."""
    a, b = drawn("NT", 64, 48, 4096)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    fast = name.endswith("fast")
    found = error(tilewright.matmul(a, b, kernel=name, config=config, engine=ENGINE, fast_accumulate=fast), exact)
    assert (5e-4, 1e-4)[not fast] < found < (2e-3, 1.5e-4)[not fast]
    problem = Problem(64, 48, 4096, Arithmetic(E4M3, precision=FAST if fast else None))
    assert found < limit(problem, problem.arithmetic.precision)


@pytest.mark.further
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_bits_do_not_depend_on_when_sums_are_promoted(steps):
    """64 rows a warpgroup: while the next step is multiplied; 128: after the own. An infinite scale makes no NaN."""
    sizes = (130, 60, 128 * steps - 5)
    a, b = drawn("NT", *sizes)
    random = np.random.default_rng(steps)
    of_a = random.uniform(0.5, 2, (130, steps)).astype(np.float32)
    of_b = random.uniform(0.5, 2, (steps, 1)).astype(np.float32)
    of_a[7, 0], of_a[9, -1] = np.inf, np.nan
    forms = [{**SPLIT, "BM": rows, "BN": 64, "SPLITS": 1} for rows in (64, 128)]
    for kernel, scales in (("gemm_fp8", {}), ("gemm_fp8_blocks", {"scale_a": of_a, "scale_b": of_b})):
        if scales and steps == 1:  # of rows then, not of blocks
            continue
        assert [find(kernel).constants(find(kernel).config(form))["PARTIAL_BUFFERS"] for form in forms] == [2, 1]
        first, second = (tilewright.matmul(a, b, kernel=kernel, config=c, engine=ENGINE, **scales) for c in forms)
        np.testing.assert_array_equal(first, second)
        if scales:
            assert np.isinf(first[7]).all()
            assert np.isnan(first[9]).all()


def test_what_is_copied_and_picked():
    kernel = find("gemm_fp8")
    for layout, expected in zip(LAYOUTS, (("B",), (), ("A", "B"), ("A",)), strict=True):
        a, b = orders(layout)
        problem = Problem(256, 256, 256, Arithmetic(E4M3), a=a, b=b)
        assert relayouts.jobs(kernel, kernel.config(), problem, relayouts.Addresses()).relaid == expected
        picked = "gemm_fp8_nn" if layout[1] == "N" else "gemm_fp8"  # of the other orders, that of B's decides
        assert select(problem, (9, 0), "NVIDIA H200")[0].name == picked
    problem = Problem(4096, 4096, 4096, Arithmetic(E5M2, "bfloat16", FAST, of_b=E4M3))
    assert select(problem, (9, 0), "NVIDIA H200")[0].name == "gemm_fp8_fast"
    with pytest.raises(
        DtypeError, match=r"no kernel takes NN float8_e4m3fn operands like these on compute capability 8.6"
    ):
        select(Problem(64, 64, 64, Arithmetic(E4M3)), (8, 6))
    with pytest.raises(DtypeError, match=r"no kernel takes NN float8_e4m3fn operands like these on .* 8.0"):
        select(Problem(64, 64, 64, Arithmetic(E4M3)), (8, 0))


@pytest.mark.parametrize("gpu", [((8, 9), "NVIDIA L4"), ((12, 0), "NVIDIA GeForce RTX 5090"), ((10, 0), "NVIDIA B200")])
def test_what_is_picked_without_warpgroups(gpu):
    """Tensor cores where there is enough to multiply; else threads that read the factors at the speed of memory."""

    def picked(sizes, **fields):
        return select(Problem(*sizes, Arithmetic(E4M3, "bfloat16", fields.pop("precision", None)), **fields), *gpu)[
            0
        ].name

    large, column = (4096, 4096, 4096), orders("NT")[1]
    assert picked(large) == picked(large, b=column) == picked((512, 4096, 4096)) == "gemm_mma_fp8"
    assert picked(large, precision=FAST) == "gemm_mma_fp8_fast"
    assert picked(large, scaling=Scaling.dense("blocks", *large[1:])) == "gemm_mma_fp8_blocks"
    assert picked((1, 4096, 4096), b=column) in {"skinny_fp8", "gemm_mma_fp8"}


@pytest.mark.first(1)
@pytest.mark.parametrize(("name", "config"), [("gemm_fp8", SPLIT), ("gemm_mma_fp8", BY_WARPS)])
def test_special_numbers(name, config):
    """NaN and infinity as IEEE has them; what is larger than e4m3's largest number becomes it."""
    a, b = drawn("NT", 64, 48, 128, E4M3, E5M2)
    a[3, 5], b[7, 11], b[9, 13] = np.nan, np.inf, -np.inf
    a[5, 7], a[6, 7], a[:, 9] = 0, -1, 1
    named = {"kernel": name, "config": config, "engine": ENGINE}
    with np.errstate(invalid="ignore"):
        exact = a.astype(np.float32) @ b.astype(np.float32)
    result = tilewright.matmul(a, b, **named)
    np.testing.assert_array_equal(np.isnan(result), np.isnan(exact))
    np.testing.assert_array_equal(result[np.isinf(exact)], exact[np.isinf(exact)])
    narrow = tilewright.matmul(a, b, **named, alpha=100, out_dtype=E4M3).astype(np.float32)
    clipped = np.clip(100 * exact, -448, 448)
    np.testing.assert_allclose(narrow, clipped, rtol=2.0**-4, atol=2)
    with np.errstate(invalid="ignore"):
        numpys = tilewright.matmul(a, b, alpha=100, out_dtype=E4M3, scale_a=np.ones(1, np.float32)).astype(np.float32)
    np.testing.assert_allclose(numpys, clipped, rtol=2.0**-4, atol=2)
    zero = tilewright.matmul(a, b, **named, alpha=0, scale_a=np.full((64, 1), np.nan, np.float32))
    np.testing.assert_array_equal(zero, 0)


@pytest.mark.first(1)
@pytest.mark.parametrize(("name", "config"), [("gemm_fp8", SPLIT), ("gemm_mma_fp8", BY_WARPS)])
def test_a_prepared_factor_and_a_plan(name, config):
    a, b = drawn("NN", 64, 50, 140)
    of_rows, of_columns = scales_of(64, 50)
    named = {"kernel": name, "config": config, "engine": ENGINE, "scale_b": of_columns}
    expected = tilewright.matmul(a, b, **named)
    np.testing.assert_array_equal(tilewright.matmul(a, tilewright.prepare(b, engine=ENGINE), **named), expected)
    plan = tilewright.plan(a, b, **named)
    np.testing.assert_array_equal(plan(a, b, scale_b=of_columns), expected)
    assert "in float32 every 128 of k; scales of A: none, of B: one of each row or column" in plan.describe()
    with pytest.raises(ArrayError, match="there are scales of A: one of each row or column, of B: one"):
        plan(a, b, scale_a=of_rows, scale_b=of_columns)


def test_tensors_of_pytorch_as_its_own_product_has_them():
    torch = pytest.importorskip("torch")
    a, b = (torch.from_numpy(one.view(np.uint8)).view(torch.float8_e4m3fn) for one in drawn("NT", 64, 48, 256))
    of_rows, of_columns = map(torch.from_numpy, scales_of(64, 48))
    ours = tilewright.matmul(
        a, b, scale_a=of_rows, scale_b=of_columns, out_dtype=torch.bfloat16, kernel="gemm_fp8", config=SPLIT
    )
    own = torch._scaled_mm(a, b, of_rows, of_columns, out_dtype=torch.bfloat16)
    torch.testing.assert_close(ours, own, rtol=2.0**-7, atol=1e-2)


@pytest.mark.first(1)
@pytest.mark.parametrize(("name", "config"), [("gemm_fp8", SPLIT), ("gemm_mma_fp8", BY_WARPS)])
def test_the_checker_finds_nothing(name, config):
    a, b = drawn("NT", 72, 56, 200)  # lines of 208 bytes, copied first
    checkers = []

    def watch(facts):
        checkers.append(Checker(facts.executable.program.library, arrays_of(facts), facts.executable.kernel.overlaps))
        return Watch(checkers[-1])

    of_rows, of_columns = scales_of(72, 56)
    engine = EmulatorEngine(CHECKED, watch)
    tilewright.matmul(a, b, scale_a=of_rows, scale_b=of_columns, kernel=name, config=config, engine=engine)
    assert len(checkers) == 2
    assert [str(finding) for checker in checkers for finding in checker.findings()] == []


A, B = drawn("NN", 5, 3, 7)
REFUSED = {
    "another length": (
        {"scale_a": np.ones((1, 3), np.float32)},
        ArrayError,
        "scale_a must have 1 element, or be of 5 x 1",
    ),
    "another type": (
        {"scale_b": np.ones(3, np.float16)},
        DtypeError,
        "scale_b must have element type float32, got flo",
    ),
    "blocks of one alone": (
        {"a": np.tile(A, 20), "b": np.tile(B, (20, 1)), "scale_a": np.ones((5, 2), np.float32)},
        ArrayError,
        "scale_a and scale_b must both be given where one differs along k",
    ),
    "blocks of b's columns": (
        {"a": np.tile(A, 20), "b": np.tile(B, (20, 1)), "scale_b": np.ones((2, 3), np.float32)},
        ArrayError,
        "scale_b must have 1 element, or be of 1 x 3 or 2 x 1, got shape (2, 3)",
    ),
    "blocks, and another kernel": (
        {
            "a": np.tile(A, 20),
            "b": np.tile(B, (20, 1)),
            "scale_a": np.ones((1, 2), np.float32),
            "scale_b": np.ones((2, 1), np.float32),
            "kernel": "gemm_fp8",
        },
        ProblemError,
        "gemm_fp8 takes no scales of blocks, got scales of A: one of each 128x128, of B: one of each 128x128",
    ),
    "a number": ({"scale_a": 2.0}, ArrayError, "scale_a must be an array"),
    "a batch": (
        {"a": A[None], "scale_a": np.ones((5, 1), np.float32)},
        ArrayError,
        "scale_a must have 1 element where",
    ),
    "a limit": ({"memory_limit": 100_000}, DtypeError, "devices and memory_limit are for factors of float32, float16"),
    "no such result": (
        {"out_dtype": E5M2},
        DtypeError,
        "out_dtype must be one of float32, float16, bfloat16, float8",
    ),
    "a precision": ({"precision": "ieee"}, DtypeError, "precision is for float32 factors, got precision='ieee'"),
    "two": ({"precision": "tf32", "fast_accumulate": True}, ProblemError, "fast_accumulate is for float8 factors and"),
    "float32 scaled": (
        {"a": A.astype("f4"), "b": B.astype("f4"), "scale_a": np.ones(1, np.float32)},
        DtypeError,
        "scale_a is for factors of float8_e4m3fn, float8_e5m2, int8, uint8, got float32",
    ),
    "float32, fast": (
        {"a": A.astype("f4"), "b": B.astype("f4"), "fast_accumulate": True},
        DtypeError,
        "fast_accumulate is for float8 factors, got factors of float32",
    ),
    "mixed": ({"a": A.astype("f4")}, DtypeError, "b must have the element type of a: got float8_e4m3fn, and float32"),
    "another kernel": ({"kernel": "split_k"}, DtypeError, "split_k takes float32, got float8_e4m3fn"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_is_named(case):
    arguments, error_type, words = REFUSED[case]
    with pytest.raises(error_type) as caught:
        tilewright.matmul(**{"a": A, "b": B, **arguments})
    assert words in str(caught.value)
