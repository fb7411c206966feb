"""CUDA's arithmetic functions on the emulator, against NumPy and Python's integers."""

import math
import time
from fractions import Fraction

import numpy as np
import pytest
from emulator_helpers import kinds_found, launch

RANDOM = np.random.default_rng(5)
EDGES = [0, 1, 2, 31, 32, 0x7F, 0x80, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x12345678, 0x00F00000]


def evaluated(expressions, *inputs, result="unsigned long long"):
    """Values of expressions of a, b and c, a row each, for elements of these arrays."""
    dtypes = {"int": np.int32, "unsigned": np.uint32, "long long": np.int64, "unsigned long long": np.uint64}
    dtypes |= {"float": np.float32, "double": np.float64}
    types = {np.dtype(dtype): name for name, dtype in dtypes.items()}
    parameters = ", ".join(f"const {types[array.dtype]}* in{i}" for i, array in enumerate(inputs))
    count = inputs[0].size
    names = " ".join(f"const auto {'abc'[i]} = in{i}[threadIdx.x];" for i in range(len(inputs)))
    rows = "\n".join(f"out[{i * count} + threadIdx.x] = {text};" for i, text in enumerate(expressions))
    source = f'extern "C" __global__ void kernel({parameters}, {result}* out) {{ {names}\n{rows}\n}}'
    out = np.zeros((len(expressions), count), dtypes[result])
    launch(source, *inputs, out, block=(count, 1, 1))
    return out


def signed(x, bits=32):
    return (int(x) ^ 1 << bits - 1) - (1 << bits - 1) if int(x) < 1 << bits else signed(int(x) % (1 << bits), bits)


def permuted(x, y, selector):
    digits = [selector >> 4 * i & 15 for i in range(4)]
    parts = [(y << 32 | x) >> 8 * (digit & 7) & 255 for digit in digits]
    chosen = [255 * (part >> 7) if digit & 8 else part for digit, part in zip(digits, parts, strict=True)]
    return sum(part << 8 * i for i, part in enumerate(chosen))


INTEGER = {
    "__popc(a)": lambda x, y, z: bin(x).count("1"),
    "__clz(a)": lambda x, y, z: 32 - x.bit_length(),
    "__ffs(a)": lambda x, y, z: (x & -x).bit_length(),
    "__brev(a)": lambda x, y, z: int(f"{x:032b}"[::-1], 2),
    "__brevll((unsigned long long)a << 32 | b)": lambda x, y, z: int(f"{x << 32 | y:064b}"[::-1], 2),
    "__popcll((unsigned long long)a << 32 | b)": lambda x, y, z: bin(x << 32 | y).count("1"),
    "__clzll((unsigned long long)a << 32 | b)": lambda x, y, z: 64 - (x << 32 | y).bit_length(),
    "__ffsll((unsigned long long)a << 32 | b)": lambda x, y, z: ((x << 32 | y) & -(x << 32 | y)).bit_length(),
    "__byte_perm(a, b, c)": permuted,
    "__funnelshift_l(a, b, c)": lambda x, y, z: ((y << 32 | x) << z % 32) >> 32,
    "__funnelshift_r(a, b, c)": lambda x, y, z: (y << 32 | x) >> z % 32,
    "__funnelshift_lc(a, b, c)": lambda x, y, z: ((y << 32 | x) << min(z, 32)) >> 32,
    "__funnelshift_rc(a, b, c)": lambda x, y, z: (y << 32 | x) >> min(z, 32),
    "__umul24(a, b)": lambda x, y, z: (x % 2**24) * (y % 2**24),
    "unsigned(__mul24(a, b))": lambda x, y, z: signed(x, 24) * signed(y, 24),
    "__umulhi(a, b)": lambda x, y, z: x * y >> 32,
    "unsigned(__mulhi(a, b))": lambda x, y, z: signed(x) * signed(y) >> 32,
    "__sad(a, b, c)": lambda x, y, z: abs(signed(x) - signed(y)) + z,
    "__usad(a, b, c)": lambda x, y, z: abs(x - y) + z,
}
WIDE = {"__brevll((unsigned long long)a << 32 | b)"}


def test_integers():
    a, b, c = (
        np.concatenate([RANDOM.permutation(EDGES), RANDOM.integers(0, 2**32, 40)]).astype(np.uint32) for _ in "abc"
    )
    found = evaluated(INTEGER, a, b, c)
    for (text, function), row in zip(INTEGER.items(), found, strict=True):
        numbers = zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
        bits = 64 if text in WIDE else 32
        expected = [function(*three) % 2**bits for three in numbers]
        np.testing.assert_array_equal(row, np.array(expected, np.uint64), err_msg=text)


def test_the_high_half_of_64_bit_products():
    edges = np.array([0, 2**64 - 1, 2**63], np.uint64)
    a, b = (np.concatenate([edges, RANDOM.integers(0, 2**64, 20, np.uint64)]) for _ in "ab")
    unsigned_half, signed_half = evaluated(["__umul64hi(a, b)", "__mul64hi(a, b)"], a, b)
    pairs = list(zip(a.tolist(), b.tolist(), strict=True))
    np.testing.assert_array_equal(unsigned_half, np.array([x * y >> 64 for x, y in pairs], np.uint64))
    halves = [(signed(x, 64) * signed(y, 64) >> 64) % 2**64 for x, y in pairs]
    np.testing.assert_array_equal(signed_half, np.array(halves, np.uint64))


def test_bits_as_another_type():
    a = np.array([0.0, -0.0, 1.5, -2.75, np.inf, 1e-42], np.float32)
    texts = ["__float_as_uint(a)", "unsigned(__float_as_int(a))"]
    for row in evaluated(texts, a, result="unsigned"):
        np.testing.assert_array_equal(row, a.view(np.uint32))
    texts = ["__uint_as_float(__float_as_uint(a))", "__int_as_float(__float_as_int(a))"]
    for row in evaluated(texts, a, result="float"):
        np.testing.assert_array_equal(row.view(np.uint32), a.view(np.uint32))
    d = a.astype(np.float64)
    np.testing.assert_array_equal(evaluated(["__double_as_longlong(a)"], d)[0], d.view(np.uint64))
    (back,) = evaluated(["__longlong_as_double(a)"], d.view(np.int64), result="double")
    np.testing.assert_array_equal(back.view(np.uint64), d.view(np.uint64))


def test_conversions_round_as_they_say_and_saturate():
    a = np.array([0.5, 1.5, 2.5, -0.5, -1.5, -2.3, 2.7, 1e7, 3e9, -3e9, 5e9, np.inf, -np.inf, np.nan], np.float32)
    rounding = {"rn": np.rint, "rz": np.trunc, "ru": np.ceil, "rd": np.floor}
    for name, least, most in (("int", -(2**31), 2**31 - 1), ("uint", 0, 2**32 - 1)):
        found = evaluated([f"__float2{name}_{mode}(a)" for mode in rounding], a, result="long long")
        for row, function in zip(found, rounding.values(), strict=True):
            expected = [0 if np.isnan(x) else min(max(float(x), least), most) for x in function(a)]
            np.testing.assert_array_equal(row, np.array(expected, np.int64))
    i = np.array([0, -1, 16777217, 16777219, 2**31 - 1], np.int32)
    np.testing.assert_array_equal(evaluated(["__int2float_rn(a)"], i, result="float")[0], i.astype(np.float32))


FLOATS = {
    "__expf(a)": np.exp,
    "__logf(a)": np.log,
    "__log2f(a)": np.log2,
    "__log10f(a)": np.log10,
    "__sinf(a)": np.sin,
    "__cosf(a)": np.cos,
    "__tanf(a)": np.tan,
    "__powf(a, 1.5f)": lambda x: x**1.5,
    "__exp10f(a)": lambda x: 10**x,
    "__fdividef(a, 3.0f)": lambda x: x / 3,
    "__fdiv_rn(3.0f, a)": lambda x: 3 / x,
    "__frcp_rn(a)": lambda x: 1 / x,
    "__fsqrt_rn(a)": np.sqrt,
    "__frsqrt_rn(a)": lambda x: 1 / np.sqrt(x),
    "rsqrtf(a)": lambda x: 1 / np.sqrt(x),
    "float(rsqrt(double(a)))": lambda x: 1 / np.sqrt(x),
    "__saturatef(a - 1)": lambda x: np.clip(x - 1, 0, 1),
}


def test_functions_of_floats():
    a = np.linspace(0.1, 3, 50, dtype=np.float32)
    for (text, function), row in zip(FLOATS.items(), evaluated(FLOATS, a, result="float"), strict=True):
        np.testing.assert_allclose(row, function(a.astype(np.float64)), rtol=2e-6, atol=1e-6, err_msg=text)
    assert evaluated(["__saturatef(a)"], np.array([np.nan], np.float32), result="float")[0] == 0


def test_products_and_sums_that_become_no_fma():
    a, b, c = (RANDOM.standard_normal(200).astype(np.float32) for _ in "abc")
    texts = ["__fadd_rn(__fmul_rn(a, b), c)", "__fmul_rn(a, b) + c", "__fadd_rn(a * b, c)", "__fsub_rn(a * b, c)"]
    for text, row in zip(texts, evaluated(texts, a, b, c, result="float"), strict=True):
        np.testing.assert_array_equal(row, a * b - c if "sub" in text else a * b + c, err_msg=text)
    (fused,) = evaluated(["__fmaf_rn(a, b, c)"], a, b, c, result="float")
    exact = a.astype(np.float64) * b + c
    np.testing.assert_array_equal(fused, exact.astype(np.float32))
    assert (fused != a * b + c).any()


MOVES = """
extern "C" __global__ void kernel(const float4* from, float4* to, int* words) {
    const int i = threadIdx.x;
    __stcg(to + i, __ldcg(from + i));
    __stcs(to + 8 + i, __ldca(from + i));
    __stwb(to + 16 + i, __ldcs(from + i));
    __stwt(to + 24 + i, __ldcv(from + i));
    words[i] = __ldlu(words + i) + __ldg(words + i);
}
"""


def test_loads_and_stores_with_a_hint():
    values, words = RANDOM.random((8, 4), np.float32), np.arange(8, dtype=np.int32)
    out = np.zeros((4, 8, 4), np.float32)
    launch(MOVES, values, out, words, block=(8, 1, 1))
    np.testing.assert_array_equal(out, np.broadcast_to(values, out.shape))
    np.testing.assert_array_equal(words, 2 * np.arange(8))
    assert kinds_found(MOVES, values, out, words, block=(8, 1, 1)) == set()
    racing = MOVES.replace("to + 24 + i", "to + 24")
    assert kinds_found(racing, values, out, words, block=(8, 1, 1)) == {"race"}


@pytest.mark.parametrize("waiter", [0, 40])
def test_a_thread_that_naps_lets_others_go_on(waiter):
    source = """
    extern "C" __global__ void kernel(int waiter, unsigned* flag, int* out) {
        if (threadIdx.x == waiter) {
            while (atomicAdd(flag, 0) != 63) __nanosleep(100);
            out[0] = 5;
        } else {
            atomicAdd(flag, 1);
        }
        __syncthreads();
        out[1 + threadIdx.x] = out[0];
    }
    """
    out = np.zeros(65, np.int32)
    launch(source, waiter, np.zeros(1, np.uint32), out, block=(64, 1, 1))
    np.testing.assert_array_equal(out, 5)


def test_clocks_run():
    source = """
    extern "C" __global__ void kernel(long long* out) {
        const auto ticks = clock();
        out[0] = clock64();
        while (clock() - ticks < 2000000) __nanosleep(0);
        out[1] = clock64();
    }
    """
    out = np.zeros(2, np.int64)
    begin = time.perf_counter()
    launch(source, out)
    assert time.perf_counter() - begin >= 2e-3
    assert math.isfinite(out[0]) and out[1] - out[0] >= 1_900_000


def parts(x, kind):
    return np.array([x], np.uint32).view(kind).astype(np.int64)


def packed(values, kind):
    return int(values.astype(kind).view(np.uint32)[0])


def clipped(values, kind):
    return np.clip(values, np.iinfo(kind).min, np.iinfo(kind).max)


PACKED = {
    "vadd": ("u", lambda a, b, kind: a + b),
    "vsub": ("u", lambda a, b, kind: a - b),
    "vaddss": ("i", lambda a, b, kind: clipped(a + b, kind)),
    "vaddus": ("u", lambda a, b, kind: clipped(a + b, kind)),
    "vsubss": ("i", lambda a, b, kind: clipped(a - b, kind)),
    "vsubus": ("u", lambda a, b, kind: clipped(a - b, kind)),
    "vmaxs": ("i", lambda a, b, kind: np.maximum(a, b)),
    "vmaxu": ("u", lambda a, b, kind: np.maximum(a, b)),
    "vmins": ("i", lambda a, b, kind: np.minimum(a, b)),
    "vminu": ("u", lambda a, b, kind: np.minimum(a, b)),
    "vavgu": ("u", lambda a, b, kind: (a + b + 1) // 2),
    "vabsdiffs": ("i", lambda a, b, kind: abs(a - b)),
    "vabsdiffu": ("u", lambda a, b, kind: abs(a - b)),
    "vcmpeq": ("u", lambda a, b, kind: -1 * (a == b)),
    "vcmpgts": ("i", lambda a, b, kind: -1 * (a > b)),
    "vcmpgeu": ("u", lambda a, b, kind: -1 * (a >= b)),
    "vcmpltu": ("u", lambda a, b, kind: -1 * (a < b)),
    "vsetgtu": ("u", lambda a, b, kind: a > b),
}


@pytest.mark.parametrize(("width", "bytes_"), [(4, 1), (2, 2)])
def test_packed_integers(width, bytes_):
    a, b = RANDOM.integers(0, 2**32, (2, 64), np.uint32)
    b[:16] = a[:16] ^ 0x00FF0000
    out = evaluated([f"__{name}{width}(a, b)" for name in PACKED], a, b)
    for (letter, function), row in zip(PACKED.values(), out, strict=True):
        kind = np.dtype(f"{letter}{bytes_}")
        wanted = [packed(function(parts(x, kind), parts(y, kind), kind) * 1, kind) for x, y in zip(a, b, strict=True)]
        assert row.tolist() == wanted
    sums = evaluated([f"__vsadu{width}(a, b)"], a, b)[0]
    assert sums.tolist() == [
        abs(parts(x, f"u{bytes_}") - parts(y, f"u{bytes_}")).sum() for x, y in zip(a, b, strict=True)
    ]


def test_products_of_packed_integers():
    a, b, c = RANDOM.integers(0, 2**32, (3, 64), np.uint32)
    texts = [
        "__dp4a(int(a), int(b), int(c))",
        "__dp4a(a, b, c)",
        "__dp2a_lo(int(a), int(b), int(c))",
        "__dp2a_hi(a, b, c)",
    ]
    out = evaluated([f"unsigned({text})" for text in texts], a, b, c)
    for i, (x, y, z) in enumerate(zip(a, b, c, strict=True)):
        wanted = [
            parts(x, "i1") @ parts(y, "i1"),
            parts(x, "u1") @ parts(y, "u1"),
            parts(x, "i2") @ parts(y, "i1")[:2],
            parts(x, "u2") @ parts(y, "u1")[2:],
        ]
        assert out[:, i].tolist() == [(int(one) + int(z)) % 2**32 for one in wanted]


def test_halves_of_doubles_and_sums():
    a, b = RANDOM.integers(0, 2**32, (2, 64), np.uint32)
    texts = ["__double_as_longlong(__hiloint2double(a, b))", "unsigned(__double2hiint(__hiloint2double(a, b)))",
             "unsigned(__double2loint(__hiloint2double(a, b)))", "__uhadd(a, b)", "__urhadd(a, b)",
             "unsigned(__hadd(int(a), int(b)))", "unsigned(__rhadd(int(a), int(b)))"]  # fmt: skip
    out = evaluated(texts, a, b)
    for i, (x, y) in enumerate(zip(map(int, a), map(int, b), strict=True)):
        sums = signed(x) + signed(y)
        assert out[:, i].tolist() == [
            x << 32 | y, x, y, (x + y) // 2, (x + y + 1) // 2, sum_of(sums // 2), sum_of((sums + 1) // 2),
        ]  # fmt: skip


def sum_of(value):
    return value % 2**32


def test_functions_of_floats_that_the_host_has_not():
    x = RANDOM.uniform(-3, 3, 64).astype(np.float32)
    out = evaluated(
        [
            "sinpif(a)",
            "cospif(a)",
            "rcbrtf(a)",
            "normcdff(a)",
            "norm3df(a, 1, 2)",
            "rnorm3df(a, 1, 2)",
            "rhypotf(a, 2)",
        ],
        x,
        result="float",
    )
    d = x.astype(np.float64)
    wanted = [
        np.sin(np.pi * d), np.cos(np.pi * d), 1 / np.cbrt(d), [math.erfc(-v / math.sqrt(2)) / 2 for v in d],
        np.sqrt(d * d + 5), 1 / np.sqrt(d * d + 5), 1 / np.sqrt(d * d + 4),
    ]  # fmt: skip
    np.testing.assert_allclose(out, np.array(wanted), rtol=3e-7, atol=1e-7)


def exactly(operation, a, b, c):
    """The exact value as a fraction; a root to 200 bits."""
    a, b, c = (Fraction(float(x)) for x in (a, b, c))
    if operation == "sqrt":
        return Fraction(math.isqrt(a.numerator * a.denominator << 400), a.denominator << 200)
    return {"add": a + b, "sub": a - b, "mul": a * b, "div": a / b, "rcp": 1 / a, "fma": a * b + c}[operation]


def rounded(exact, suffix, dtype):
    """It, in a direction."""
    nearest = dtype(float(exact))  # of floats by way of a double: neighbours are looked at
    near = sorted({dtype(np.nextafter(nearest, dtype(-np.inf))), nearest, dtype(np.nextafter(nearest, dtype(np.inf)))})
    below = max(one for one in near if Fraction(float(one)) <= exact)
    above = min(one for one in near if Fraction(float(one)) >= exact)
    return above if suffix == "_ru" or (suffix == "_rz" and exact < 0) else below


@pytest.mark.first(2)
@pytest.mark.parametrize("suffix", ["_rz", "_ru", "_rd"])
@pytest.mark.parametrize(("kind", "dtype"), [("float", np.float32), ("double", np.float64)])
def test_arithmetic_rounds_in_the_direction_of_its_name(suffix, kind, dtype):
    a, b, c = (RANDOM.standard_normal(30) * 10.0 ** RANDOM.integers(-6, 6, 30) for _ in "abc")
    a, b, c = np.abs(a).astype(dtype), b.astype(dtype), c.astype(dtype)
    letter = kind[0]
    calls = {one: f"__{letter}{one}{suffix}" for one in ("add", "sub", "mul", "div", "rcp", "sqrt")}
    calls["fma"] = f"__fmaf{suffix}" if kind == "float" else f"__fma{suffix}"
    given = {"rcp": "(a)", "sqrt": "(a)", "fma": "(a, b, c)"}
    found = evaluated([name + given.get(one, "(a, b)") for one, name in calls.items()], a, b, c, result=kind)
    for operation, row in zip(calls, found, strict=True):
        expected = [rounded(exactly(operation, *three), suffix, dtype) for three in zip(a, b, c, strict=True)]
        np.testing.assert_array_equal(row, expected, err_msg=operation)


@pytest.mark.parametrize("suffix", ["_rz", "_ru", "_rd"])
def test_numbers_become_floats_in_the_direction_of_the_name(suffix):
    wide = RANDOM.standard_normal(20)
    whole = RANDOM.integers(-(2**31), 2**31, 20).astype(np.int32)
    calls = [f"__double2float{suffix}(a)", f"__int2float{suffix}(b)", f"__uint2float{suffix}((unsigned)b)"]
    found = evaluated(calls, wide, whole, result="float")
    for row, values in zip(found, (wide, whole, whole.astype(np.uint32)), strict=True):
        exact = [Fraction(float(value)) for value in values]
        np.testing.assert_array_equal(row, [rounded(one, suffix, np.float32) for one in exact])


def test_inverses_of_error_functions():
    inside = np.concatenate([np.linspace(-0.999, 0.999, 41), [1e-30, -1e-7, 1 - 2**-24]]).astype(np.float32)
    tails = np.array([1e-30, 1e-6, 0.3, 1, 1.7, 1.999999], np.float32)
    (of_erf,) = evaluated(["erfinvf(a)"], inside, result="float")
    np.testing.assert_allclose([math.erf(x) for x in of_erf], inside, rtol=3e-7)
    of_erfc, of_normal = evaluated(["erfcinvf(a)", "normcdfinvf(a / 2)"], tails, result="float")
    np.testing.assert_allclose([math.erfc(x) for x in of_erfc], tails, rtol=2e-5)  # steep where it is small
    np.testing.assert_allclose(of_normal, -math.sqrt(2) * of_erfc, rtol=3e-7, atol=1e-7)
    doubles = np.array([-0.9, 1e-100, 0.25, 0.99999], np.float64)
    (of_doubles,) = evaluated(["erfinv(a)"], doubles, result="double")
    np.testing.assert_allclose([math.erf(x) for x in of_doubles], doubles, rtol=1e-14)


def nth_set(mask, base, offset):
    """As the PTX manual has it."""
    if offset == 0:
        return base if mask >> base & 1 else 2**32 - 1
    places = range(base, 32) if offset > 0 else range(base, -1, -1)
    found = [place for place in places if mask >> place & 1]
    return found[abs(offset) - 1] if len(found) >= abs(offset) else 2**32 - 1


def test_the_nth_set_bit():
    masks = RANDOM.integers(0, 2**32, 60).astype(np.uint32)
    bases, offsets = RANDOM.integers(0, 32, 60).astype(np.int32), RANDOM.integers(-9, 10, 60).astype(np.int32)
    (found,) = evaluated(["__fns(a, b, c)"], masks, bases, offsets)
    expected = [nth_set(*three) for three in zip(masks.tolist(), bases.tolist(), offsets.tolist(), strict=True)]
    assert found.tolist() == expected


def test_what_addresses_are_of():
    text = """
        __shared__ int shared; int local = threadIdx.x; __prof_trigger(0);
        out[threadIdx.x] = __isGlobal(out) + 2 * __isGlobal(&shared) + 4 * __isGlobal(&local)
            + 8 * __isLocal(&local) + 16 * __isLocal(out) + 32 * __isShared(&local);"""
    out = np.zeros(2, np.int32)
    launch(f'extern "C" __global__ void kernel(int* out) {{ {text} }}', out, block=(2, 1, 1))
    assert out.tolist() == [9, 9]


def test_vectors_are_added_element_by_element():
    text = """
        out[4 * 32 + threadIdx.x] = atomicAdd((float2*)out, float2{1, 2}).y;
        atomicAdd((float4*)out + 1, float4{1, 2, 3, 4});"""
    out = np.zeros(160, np.float32)
    launch(f'extern "C" __global__ void kernel(float* out) {{ {text} }}', out, block=(32, 1, 1))
    assert out[:8].tolist() == [32, 64, 0, 0, 32, 64, 96, 128]
    assert sorted(out[128:].tolist()) == [2 * i for i in range(32)]
