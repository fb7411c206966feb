"""Arithmetic of the emulator's 16-bit types against exact fractions, rounded once."""

import math
import operator
from fractions import Fraction
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from emulator_helpers import launch

from tilewright.runtime import nvrtc

SOURCE = Path(__file__).with_name("half_arithmetic.cu")
DTYPES = {"half": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}
DEFINES = {
    "half": {"T": "__half", "PAIR": "__half2", "NAME": "half"},
    "bfloat16": {"T": "__nv_bfloat16", "PAIR": "__nv_bfloat162", "NAME": "bfloat16"},
}
MANTISSA = {"half": 10, "bfloat16": 7}
LEAST = {"half": -14, "bfloat16": -126}
"""Exponent of the smallest normal number."""
MOST = {"half": 15, "bfloat16": 127}
COUNT = 3000

types = pytest.mark.parametrize("name", DTYPES)


def drawn(name, seed):
    """Bit patterns of every kind: uniform over all, near 1, and special ones."""
    random = np.random.default_rng(seed)
    bits = random.integers(0, 65536, COUNT, dtype=np.uint16)
    near = (random.uniform(0.5, 2, COUNT) * random.choice([-1, 1], COUNT)).astype(DTYPES[name]).view(np.uint16)
    patterns = np.where(random.random(COUNT) < 0.5, bits, near)
    infinity = ((2 * MOST[name] + 1) << MANTISSA[name]) & 0x7FFF
    special = np.array([0, 0x8000, 1, 0x8001, infinity, infinity | 0x8000, 0x7FFF, infinity - 1], np.uint16)
    chosen = random.random(COUNT) < 0.1
    patterns[chosen] = random.choice(special, chosen.sum())
    return patterns.view(DTYPES[name])


def ties(name, seed):
    """a, b, c for which a * b lies halfway between two numbers, and c is 0, or so small that it breaks the tie."""
    random, bits = np.random.default_rng(seed), MANTISSA[name]
    a = 1 + (2 * random.integers(0, 2 ** (bits // 2 - 1), COUNT) + 1) / 2.0 ** (bits // 2)
    b = 1 + (2 * random.integers(0, 2 ** (bits - bits // 2), COUNT) + 1) / 2.0 ** (bits - bits // 2 + 1)
    c = random.choice([-1, 0, 1], COUNT) * 2.0 ** random.integers(LEAST[name] - bits, -bits - 4, COUNT)
    return tuple(x.astype(DTYPES[name]) for x in (a, b, c))


def run(name, entry, *arguments):
    grid = (-(-COUNT // 128), 1, 1)
    launch(SOURCE, *arguments, COUNT, entry=entry, grid=grid, block=(128, 1, 1), defines=DEFINES[name])


def nearest(name, exact):
    """An exact fraction as the nearest number of the type."""
    bits = MANTISSA[name]
    if exact == 0:
        return 0.0
    exponent = max(math.floor(math.log2(abs(exact))), LEAST[name])
    exponent += (abs(exact) >= Fraction(2) ** (exponent + 1)) - (
        exponent > LEAST[name] and abs(exact) < Fraction(2) ** exponent
    )
    unit = Fraction(2) ** (exponent - bits)
    rounded = round(exact / unit) * unit  # to even
    return math.copysign(math.inf if abs(rounded) >= Fraction(2) ** (MOST[name] + 1) else float(rounded), exact)


def exactly(name, function, *operands):
    """Results of a function of fractions, for numbers, and of floats, for special values."""
    results = np.empty(COUNT)
    for i, values in enumerate(zip(*(x.astype(np.float64).tolist() for x in operands), strict=True)):
        exact = function(*map(Fraction, values)) if all(map(math.isfinite, values)) else 0
        results[i] = nearest(name, exact) if exact != 0 else function(*values)
    return results.astype(DTYPES[name])


def assert_same(actual, expected):
    """Equal bit by bit, but for which NaN it is."""
    actual, expected = actual.ravel(), expected.ravel()
    numbers = ~np.isnan(expected.astype(np.float32))
    np.testing.assert_array_equal(np.isnan(actual.astype(np.float32)), ~numbers)
    np.testing.assert_array_equal(actual[numbers].view(np.uint16), expected[numbers].view(np.uint16))


def larger(a, b):
    """0 is larger than -0; a NaN is given up for a number."""
    if math.isnan(a) or math.isnan(b):
        return b if math.isnan(a) else a
    return max(a, b, key=lambda x: (x, math.copysign(1, x)))


def saturated(x):
    return min(x, 1) if x > 0 else 0


def with_nan(function):
    return lambda a, b: math.nan if math.isnan(a) or math.isnan(b) else function(a, b)


def elementwise(function, *operands):
    values = zip(*(x.astype(np.float64).tolist() for x in operands), strict=True)
    return np.array([function(*one) for one in values])


@pytest.mark.further
@types
@pytest.mark.parametrize("operands", ["drawn", "ties"])
def test_results_are_exact_ones_rounded_once(name, operands):
    a, b, c = ties(name, 3) if operands == "ties" else (drawn(name, seed) for seed in range(3))
    dtype = DTYPES[name]
    out, pairs = np.zeros((18, COUNT), dtype), np.zeros((18, COUNT, 2), dtype)
    run(name, "arithmetic", a, b, c, out, pairs)

    def of(x, y, z):
        fused = exactly(name, lambda p, q, r: p * q + r, x, y, z)
        least = lambda p, q: -larger(-p, -q)  # noqa: E731
        plus = exactly(name, operator.add, x, y)
        rounders = [np.floor, np.ceil, np.trunc, np.rint]
        yield plus
        yield exactly(name, operator.sub, x, y)
        yield exactly(name, operator.mul, x, y)
        yield fused
        yield elementwise(saturated, plus).astype(dtype)
        yield elementwise(saturated, fused).astype(dtype)
        yield elementwise(lambda p: math.nan if math.isnan(p) else larger(p, 0.0), fused).astype(dtype)
        for function in (larger, least, with_nan(larger), with_nan(least)):
            yield elementwise(function, x, y).astype(dtype)
        yield -x
        yield abs(x)
        yield from (one(x.astype(np.float64)).astype(dtype) for one in rounders)
        yield exactly(name, operator.add, plus, np.ones_like(x))

    with np.errstate(invalid="ignore", over="ignore"):
        for row, (low, high) in enumerate(zip(of(a, b, c), of(-a, -b, -c), strict=True)):
            assert_same(out[row], low)
            assert_same(pairs[row, :, 0], low)
            assert_same(pairs[row, :, 1], high)


@pytest.mark.first(1)
@types
def test_functions_are_those_of_float64_rounded(name):
    a, b = drawn(name, 5), drawn(name, 6)
    out = np.zeros((12, COUNT), DTYPES[name])
    run(name, "functions", a, b, out)
    x, y = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(all="ignore"):
        expected = (
            x / y, np.sqrt(x), 1 / np.sqrt(x), 1 / x, np.exp(x), np.exp2(x), np.power(10, x), np.log(x), np.log2(x),
            np.log10(x), np.sin(x), np.cos(x),
        )  # fmt: skip
        for row, exact in zip(out, expected, strict=True):
            numbers = np.isfinite(exact) & (abs(exact) > 1e-36)  # below ml_dtypes rounds by way of float32
            error = abs(row[numbers].astype(np.float64) - exact[numbers])
            unit = 2.0 ** (np.maximum(np.floor(np.log2(abs(exact[numbers]))), LEAST[name]) - MANTISSA[name])
            held = abs(exact[numbers]) < 2.0 ** MOST[name]
            assert (error[held] <= 0.5001 * unit[held]).all()
            assert np.isnan(row.astype(np.float32)[np.isnan(exact)]).all()


@pytest.mark.first(1)
@types
def test_comparisons(name):
    a, b = drawn(name, 7), drawn(name, 8)
    b[::3] = a[::3]
    out, masks = np.zeros(COUNT, np.uint32), np.zeros((COUNT, 2), np.uint32)
    run(name, "comparisons", a, b, out, masks)
    x, y = a.astype(np.float64), b.astype(np.float64)
    ordered = ~(np.isnan(x) | np.isnan(y))
    plain = [x == y, ordered & (x != y), x < y, x <= y, x > y, x >= y]
    expected = [*plain, *(one | ~ordered for one in plain), *plain]
    expected[13] = ~(x == y)  # the operator's
    expected += [np.isnan(x), x == np.inf, x == -np.inf]
    for bit, one in enumerate(expected):
        np.testing.assert_array_equal(out >> bit & 1, one, str(bit))
    np.testing.assert_array_equal(masks[:, 0], np.where(x < y, 0xFFFF, 0) + np.where(y < x, 0xFFFF0000, 0))
    np.testing.assert_array_equal(masks[:, 1], (x >= y) & (y >= x) | ~ordered)


@pytest.mark.first(1)
@types
def test_integers(name):
    random = np.random.default_rng(9)
    a = drawn(name, 9)
    numbers = random.integers(-(2**31), 2**31, COUNT).astype(np.int32) >> random.integers(0, 31, COUNT)
    numbers = numbers.astype(np.int32)
    longs = random.integers(-(2**63), 2**63 - 1, COUNT) >> random.integers(0, 62, COUNT)
    out, back = np.zeros((8, COUNT), np.int64), np.zeros((6, COUNT), DTYPES[name])
    run(name, "integers", a, numbers, longs, out, back)
    x = a.astype(np.float64)
    limits = {"int": (-(2**31), 2**31 - 1), "uint": (0, 2**32 - 1), "short": (-(2**15), 2**15 - 1)}
    limits |= {"ushort": (0, 2**16 - 1), "ll": (-(2**63), 2**63 - 1)}
    rounders = [np.rint, np.trunc, np.ceil, np.floor, np.rint, np.trunc, np.trunc, np.rint]
    kinds = ["int", "int", "int", "int", "uint", "short", "ushort", "ll"]
    for row, kind, one in zip(out, kinds, rounders, strict=True):
        low, high = limits[kind]
        nan = -(2**63) if kind == "ll" else 0
        expected = [nan if math.isnan(v) else int(min(max(v, low), high)) for v in one(x).tolist()]
        np.testing.assert_array_equal(row, np.clip(np.array(expected, object), low, high).astype(np.int64))
    for row, values in ((0, numbers), (4, numbers), (5, longs)):
        assert_same(back[row], np.array([nearest(name, Fraction(int(v))) for v in values]).astype(DTYPES[name]))
    zero, up, down = (back[row].astype(np.float64) for row in (1, 2, 3))
    exact = numbers.astype(np.float64)
    assert (abs(zero) <= abs(exact)).all() and (up >= exact).all() and (down <= exact).all()
    held = np.isfinite(up) & np.isfinite(down)
    assert ((up == exact) == (down == exact))[held].all()
    next_to = np.isfinite(up) & np.isfinite(down) & (up != down)
    steps = up[next_to].astype(DTYPES[name]).view(np.int16).astype(int) - down[next_to].astype(DTYPES[name]).view(
        np.int16
    )
    assert (abs(steps) == 1).all()
    assert ((zero == up) | (zero == down)).all()


@pytest.mark.first(1)
@types
def test_atomic_sums(name):
    values = np.full(COUNT, 0.5, DTYPES[name])
    values[100:] = 0
    total, totals = np.zeros(1, DTYPES[name]), np.zeros(2, DTYPES[name])
    run(name, "atomics", values, total, totals)
    assert (total[0], totals[0], totals[1]) == (50, 50, -50)


@pytest.mark.further
@types
def test_the_gpus_compiler_takes_the_same_source(name):
    for entry in ("arithmetic", "functions", "comparisons", "integers", "atomics"):
        assert nvrtc.compile_source(SOURCE.read_text(), SOURCE.name, entry, DEFINES[name], "sm_90a").code


def test_a_product_with_a_float_is_for_neither_compiler():
    """It might be one of halves or of floats."""
    from tilewright.core.errors import CompileError  # noqa: PLC0415

    source = '#include <cuda_fp16.h>\nextern "C" __global__ void kernel(__half* x) { x[0] = x[0] * 2.0f; }'
    with pytest.raises(CompileError, match="ambiguous"):
        launch(source, np.zeros(1, np.float16))
    with pytest.raises(CompileError, match="more than one operator"):
        nvrtc.compile_source(source, "kernel.cu", "kernel", {}, "sm_90a")
