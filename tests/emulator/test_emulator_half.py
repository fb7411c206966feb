"""The emulator's 16-bit types against NumPy's float16, and against rounding done in float64."""

from pathlib import Path

import ml_dtypes
import numpy as np
from emulator_helpers import kinds_found, launch

from tilewright.runtime import nvrtc

PATTERNS = np.arange(65536, dtype=np.uint32).astype(np.uint16)

SOURCE = Path(__file__).with_name("half_conversions.cu")


def convert(entry, values, out):
    threads = 256
    launch(
        SOURCE, values, out, values.size, entry=entry, grid=(-(-values.size // threads), 1, 1), block=(threads, 1, 1)
    )
    return out


def hard_floats():
    """Floats of every kind: random bits, small and large magnitudes, and what lies at and next to every half's ties."""
    random = np.random.default_rng(0)
    bits = random.integers(0, 2**32, 200_000, dtype=np.uint32).view(np.float32)
    with np.errstate(invalid="ignore"):
        halves = PATTERNS.view(np.float16).astype(np.float32)
    finite = np.sort(halves[np.isfinite(halves)])
    ties = (finite[1:] + finite[:-1]) / 2
    ties = np.concatenate([ties, [65520, -65520]]).astype(np.float32)  # beyond which infinity is nearest
    near = [np.nextafter(ties, np.float32(side)) for side in (-np.inf, np.inf)]
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan], dtype=np.float32)
    return np.concatenate([bits, halves, ties, *near, special])


def assert_same(actual, expected):
    """Equal bit by bit, but for which NaN it is."""
    np.testing.assert_array_equal(np.isnan(actual), np.isnan(expected))
    whole = ~np.isnan(expected)
    unsigned = np.uint16 if expected.itemsize == 2 else np.uint32
    np.testing.assert_array_equal(actual[whole].view(unsigned), expected[whole].view(unsigned))


def test_every_half_becomes_its_float():
    out = convert("half_to_float", PATTERNS, np.zeros(65536, dtype=np.float32))
    assert_same(out, PATTERNS.view(np.float16).astype(np.float32))


def test_every_half_survives_a_round_trip():
    out = convert("half_round_trip", PATTERNS, np.zeros(65536, dtype=np.uint16))
    assert_same(out.view(np.float16), PATTERNS.view(np.float16))


def test_floats_round_to_the_nearest_half():
    values = hard_floats()
    out = convert("float_to_half", values, np.zeros(values.size, dtype=np.uint16))
    with np.errstate(over="ignore", invalid="ignore"):
        assert_same(out.view(np.float16), values.astype(np.float16))


def test_a_half_that_is_no_number_is_cudas():
    values = np.array([np.nan, -np.nan], dtype=np.float32)
    out = convert("float_to_half", values, np.zeros(2, dtype=np.uint16))
    np.testing.assert_array_equal(out, [0x7FFF, 0x7FFF])


def test_every_bfloat16_becomes_its_float_and_survives_a_round_trip():
    floats = (PATTERNS.astype(np.uint32) << 16).view(np.float32)
    assert_same(convert("bfloat16_to_float", PATTERNS, np.zeros(65536, dtype=np.float32)), floats)
    back = convert("bfloat16_round_trip", PATTERNS, np.zeros(65536, dtype=np.uint16))
    assert_same((back.astype(np.uint32) << 16).view(np.float32), floats)


def test_floats_round_to_the_nearest_bfloat16():
    values = hard_floats()
    out = convert("float_to_bfloat16", values, np.zeros(values.size, dtype=np.uint16))
    actual = (out.astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_array_equal(np.isnan(actual), np.isnan(values))
    finite = np.abs(values) < 2.0**127
    exact, chosen = values[finite].astype(np.float64), out[finite]
    below = (values[finite].view(np.uint32) & 0xFFFF0000).view(np.float32).astype(np.float64)  # towards zero
    above = ((values[finite].view(np.uint32) & 0xFFFF0000) + 0x10000).view(np.float32).astype(np.float64)
    to_below, to_above = np.abs(exact - below), np.abs(above - exact)
    even_below = (values[finite].view(np.uint32) >> 16) % 2 == 0
    expected = np.where((to_below < to_above) | ((to_below == to_above) & even_below), below, above)
    np.testing.assert_array_equal((chosen.astype(np.uint32) << 16).view(np.float32), expected)
    assert np.isinf(convert("float_to_bfloat16_float", np.array([3.4e38], np.float32), np.zeros(1, np.float32))).all()


def test_pairs_hold_low_and_high():
    values = np.array([1.5, -2.25, 0.1, 3e-6], dtype=np.float32)
    out = convert("pairs", values, np.zeros((4, 8), dtype=np.float32))
    for row, x in zip(out, values, strict=True):
        half, bfloat = (
            np.float32(np.float16(x)),
            (np.array([x]).view(np.uint32) + 0x8000 & 0xFFFF0000).view(np.float32)[0],
        )
        np.testing.assert_array_equal(row, [half, -half, half, -half, bfloat, -bfloat, bfloat, -bfloat])


def test_the_gpus_compiler_takes_the_same_source():
    for entry in ("half_to_float", "pairs"):
        assert nvrtc.compile_source(SOURCE.read_text(), SOURCE.name, entry, {}, "sm_90a").code


FLOAT8_SOURCE = """
#include "elements.cuh"
extern "C" __global__ void kernel(const unsigned char* bits, float* of_e4m3, float* of_e5m2, const float* floats,
                                  unsigned char* rounded, int count) {
    for (int i = 0; i < 256; ++i) of_e4m3[i] = to_float(float8_e4m3{bits[i]});
    for (int i = 0; i < 256; ++i) of_e5m2[i] = to_float(float8_e5m2{bits[i]});
    for (int i = 0; i < count; ++i) rounded[i] = from_float<float8_e4m3>(floats[i]).bits;
}
"""


def test_float8_is_that_of_ml_dtypes_and_floats_beyond_it_become_its_largest():
    patterns = np.arange(256, dtype=np.uint8)
    of_e4m3, of_e5m2 = np.zeros(256, np.float32), np.zeros(256, np.float32)
    values = hard_floats()
    numbers = np.sort(patterns.view(ml_dtypes.float8_e4m3fn).astype(np.float32)[:127])
    ties = (numbers[1:] + numbers[:-1]) / 2
    values = np.concatenate([values, ties, -ties, np.nextafter(ties, np.float32(0)), np.float32([464, -1e9])])
    rounded = np.zeros(values.size, np.uint8)
    launch(FLOAT8_SOURCE, patterns, of_e4m3, of_e5m2, values, rounded, values.size)
    assert_same(of_e4m3, patterns.view(ml_dtypes.float8_e4m3fn).astype(np.float32))
    assert_same(of_e5m2, patterns.view(ml_dtypes.float8_e5m2).astype(np.float32))
    expected = np.nan_to_num(np.clip(values, -448, 448)).astype(ml_dtypes.float8_e4m3fn)
    numbers = ~np.isnan(values)
    np.testing.assert_array_equal(rounded[numbers], expected[numbers].view(np.uint8))
    assert (rounded[~numbers] == 0x7F).all()


ARRAYS = """
#include <cuda_fp16.h>
template <int N> __device__ float other(const float* in) {
    __shared__ half inner[N][64];
    inner[1][threadIdx.x] = __float2half(in[threadIdx.x]);
    BARRIER;
    return __half2float(inner[1][63 - threadIdx.x]);
}
extern "C" __global__ void kernel(const float* in, float* out) {
    __shared__ half2 pairs[2][64];
    pairs[1][threadIdx.x] = __float2half2_rn(1);
    out[threadIdx.x] = other<3>(in) + __half2float(pairs[1][threadIdx.x].x);
}
"""


def test_arrays_in_shared_memory_are_seen_as_those_of_any_type():
    """GCC adds variables to them, of which nothing is said."""
    numbers, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    assert kinds_found(ARRAYS.replace("BARRIER", "__syncthreads()"), numbers, out, block=(64, 1, 1)) == set()
    np.testing.assert_array_equal(out, numbers[::-1] + 1)
    assert "race" in kinds_found(ARRAYS.replace("BARRIER", ""), numbers, out, block=(64, 1, 1))
