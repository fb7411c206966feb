"""Inline PTX whose text follows from arguments of templates, on the emulator: as nvcc fills it in for each instance."""

import numpy as np
import pytest
from emulator_helpers import kinds_found, launch

from tilewright.core.errors import CompileError
from tilewright.emulator.ptx import made_text, translated
from tilewright.emulator.ptx.parse import parse
from tilewright.runtime import nvrtc

SOURCE = r"""
enum class Sign { plus, minus };
template <Sign SIGN> struct Names { static constexpr char kind[] = "s32"; static constexpr char way[] = "add"; };
template <> struct Names<Sign::plus> {
    static constexpr const char kind[] = "u32";  // "s8"
    static constexpr const char way[] = {'s', 'u', 'b', 0};
};

// A name's end, or a part of it, given as a string; two in one text.
template <Sign SIGN, int ADDED>
__device__ unsigned least(unsigned x) {
    unsigned r;
    asm("{ .reg .%2 low;\n\t min.%2 low, %1, 5;\n\t %3.%2 %0, low, %4; }"
        : "=r"(r) : "r"(x), "C"(Names<SIGN>::kind), "C"(Names<SIGN>::way), "n"(ADDED + 1));
    return r;
}

// A number within a name, and one that is added to an address.
template <int COUNT, int OFFSET>
__device__ void load(unsigned (&r)[COUNT], unsigned from) {
    static_assert(COUNT == 2 || COUNT == 4);
    if constexpr (COUNT == 4) {
        asm volatile("ldmatrix.sync.aligned.m8n8.x%5.shared.b16 {%0, %1, %2, %3}, [%4+%6];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(from), "n"(COUNT), "n"(OFFSET) : "memory");
    } else {
        asm volatile("ldmatrix.sync.aligned.m8n8.x%3.shared.b16 {%0, %1}, [%2+%4+16];"
                     : "=r"(r[0]), "=r"(r[1]) : "r"(from), "n"(COUNT), "n"(OFFSET - 16) : "memory");
    }
}

// A name's end.
template <int COUNT>
__device__ unsigned shifted(unsigned x) {
    unsigned r;
    asm("shl.b%3 %0, %1, %2;" : "=r"(r) : "r"(x), "n"(COUNT), "n"(COUNT * 16));
    return r;
}

extern "C" __global__ void kernel(const unsigned* in, unsigned* out) {
    __shared__ __align__(16) unsigned words[160];
    for (unsigned i = threadIdx.x; i < 160; i += 32) words[i] = in[i];
    __syncthreads();
    unsigned four[4], two[2];
    load<4, 128>(four, (unsigned)__cvta_generic_to_shared(words + threadIdx.x * 4));
    load<2, 0>(two, (unsigned)__cvta_generic_to_shared(words + threadIdx.x % 16 * 4));
    out += threadIdx.x * 8;
    for (int i = 0; i < 4; ++i) out[i] = four[i] + two[i % 2];
    out[4] = least<Sign::plus, 1>(threadIdx.x - 16);
    out[5] = least<Sign::minus, 2>(threadIdx.x - 16);
    out[6] = shifted<2>(threadIdx.x);
    out[7] = 0;
}
"""


BY_MACROS = '#define BITS "b"' + SOURCE.replace('asm("shl.b%3', 'asm("shl." BITS "%3')


@pytest.mark.parametrize("source", [SOURCE, BY_MACROS], ids=["literals", "macros too"])
def test_each_instance_has_its_own_text(source):
    words, out = np.arange(1000, 1160, dtype=np.uint32), np.zeros((32, 8), np.uint32)
    launch(source, words, out, block=(32, 1, 1))
    lanes = np.arange(32)
    matrices = words.reshape(5, 32)  # a lane has the word of its number in each
    four, two = matrices[1:].T, matrices[:2].T
    np.testing.assert_array_equal(out[:, :4], four + np.tile(two, 2))
    np.testing.assert_array_equal(out[:, 4], np.minimum((lanes - 16).astype("u4"), 5) - np.uint32(2))
    np.testing.assert_array_equal(out[:, 5].astype(np.int32), np.minimum(lanes - 16, 5) + 3)
    np.testing.assert_array_equal(out[:, 6], lanes << 2)
    assert nvrtc.compile_source(source, "kernel.cu", "kernel", {}, "sm_90a").code


CHOSEN = r"""
constexpr char ADD[] = "add.u32", SUB[] = "sub.u32", GUARD[] = "@p ", NOTHING[] = "", SEVEN[] = "7", LOW[] = "low";
__device__ constexpr const char* pick(bool adds) { return adds ? ADD : SUB; }

template <bool ADDS, int N>
__device__ unsigned chosen(unsigned x) {
    static constexpr const char mine[] = {'a', 'd', 'd', '.', 'u', '3', '2', 0};
    constexpr const char* pointer = SUB;
    unsigned r = 100, s, t;
    // A guard, or none; an operand that is a number, or a register.
    asm("{ .reg .pred p; .reg .u32 low; setp.gt.u32 p, %1, 15; mov.u32 low, 5; %2 add.u32 %0, %1, %3; }"
        : "+r"(r) : "r"(x), "C"(ADDS ? GUARD : NOTHING), "C"(ADDS ? SEVEN : LOW));
    asm("%2 %0, %1, 1;" : "=r"(s) : "r"(x), "C"(pick(ADDS)));
    if constexpr (N == 1) {
        asm("%2 %0, %1, 2;" : "=r"(t) : "r"(x), "C"(mine));
    } else {
        asm("%2 %0, %1, 2;" : "=r"(t) : "r"(x), "C"(pointer));
    }
    return r + 1000 * s + 1000000 * t;
}

extern "C" __global__ void kernel(unsigned* out) {
    out[threadIdx.x] = chosen<true, 1>(threadIdx.x + 2);
    out[32 + threadIdx.x] = chosen<false, 2>(threadIdx.x + 2);
}
"""


def test_any_part_may_be_chosen_as_text_at_compile_time():
    out = np.zeros((2, 32), "u4")
    launch(CHOSEN, out, block=(32, 1, 1))
    x = np.arange(2, 34, dtype="u4")
    guarded = np.where(x > 15, x + 7, 100)
    np.testing.assert_array_equal(out[0], guarded + 1000 * (x + 1) + 1000000 * (x + 2))
    np.testing.assert_array_equal(out[1], x + 5 + 1000 * (x - 1) + 1000000 * (x - 2))
    assert nvrtc.compile_source(CHOSEN, "kernel.cu", "kernel", {}, "sm_90a").code


@pytest.mark.parametrize(("ptx", "readings"), [("%2.%3 %0, %1, 1;", 1), ("%2.u32 %0, %3, 1;", 5)])
def test_text_that_makes_names_alone_is_read_once_and_not_for_each_value(ptx, readings, monkeypatch):
    read = []
    monkeypatch.setattr(made_text, "parse", lambda text: read.append(text) or parse(text))
    words = " ".join(f'char word{i}[] = "{word}";' for i, word in enumerate(("add", "7", "u32", "%1")))
    words += " char letters[] = {'s', '3', '2'};"
    made = translated([("file", f'{words} asm("{ptx}" : "=r"(x) : "r"(y), "C"(Z::way), "C"(Z::kind));')])
    assert len(read) == readings, "and no string has operands"
    assert '(Z::way, "add")' in made.texts[0] and '(Z::kind, "add")' not in made.texts[0]


@pytest.mark.first(1)
@pytest.mark.parametrize("text", ["TEXT", "(TEXT)", 'N > 1 ? "mov.u32 %0, 1;" : "mov.u32 %0, 2;"'])
def test_statements_of_other_text_are_refused_as_by_nvrtc(text):
    source = (
        'constexpr const char* TEXT = "mov.u32 %0, 1;";\ntemplate <int N> __device__ unsigned one() {\n'
        f'    unsigned r;\n    asm({text} : "=r"(r));\n    return r;\n}}\n'
        'extern "C" __global__ void kernel(unsigned* out) { *out = one<1>(); }\n'
    )
    with pytest.raises(
        CompileError, match=r"kernel.cu:4: its text is no string literal. NVRTC takes nothing else .*if constexpr"
    ):
        launch(source, np.zeros(1, "u4"))
    with pytest.raises(CompileError, match="expected an asm string"):
        nvrtc.compile_source(source, "kernel.cu", "kernel", {}, "sm_90a")


PRODUCT = r"""
#include <cuda_bf16.h>
#include <stdint.h>
__device__ unsigned address(const void* shared) { return (unsigned)__cvta_generic_to_shared(shared); }
// Matrices of 8 x 8 lie one after the other along k, then along the side.
__device__ uint64_t descriptor(const void* tile) {
    return (uint64_t)(address(tile) >> 4) | (uint64_t)(128 >> 4) << 16 | (uint64_t)(256 >> 4) << 32;
}

template <int N>
__device__ void multiply(float (&sums)[N / 2], uint64_t a, uint64_t b) {
    if constexpr (N == 8) {
        asm volatile("wgmma.mma_async.sync.aligned.m64n%6k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
                     : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]) : "l"(a), "l"(b), "n"(N));
    } else {
        asm volatile("wgmma.mma_async.sync.aligned.m64n%10k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7}, "
                     "%8, %9, %11, 1, 1, 0, 0;"
                     : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]),
                       "+f"(sums[6]), "+f"(sums[7]) : "l"(a), "l"(b), "n"(N), "n"(int(N == 16)));
    }
}

template <int N>
__device__ void product(const __nv_bfloat16* a, const __nv_bfloat16* b, float* out) {
    float sums[N / 2] = {};
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    multiply<N>(sums, descriptor(a), descriptor(b));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(N * 0) : "memory");
    for (int i = 0; i < N / 2; ++i) {
        const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + i / 2 % 2 * 8;
        out[row * N + i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2] = sums[i];
    }
}

extern "C" __global__ void kernel(const __nv_bfloat16* a, const __nv_bfloat16* b, float* eight, float* sixteen) {
    __shared__ __align__(128) __nv_bfloat16 of_a[64 * 16], of_b[16 * 16];
    for (int i = threadIdx.x; i < 64 * 16; i += 128) {
        const int side = i / 16, k = i % 16, at = side / 8 * 128 + k / 8 * 64 + side % 8 * 8 + k % 8;
        of_a[at] = a[i];
        if (side < 16) of_b[at] = b[i];
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    product<8>(of_a, of_b, eight);
    product<16>(of_a, of_b, sixteen);
}
"""


@pytest.mark.further
def test_products_of_as_many_columns_as_an_argument_says():
    numbers = np.random.default_rng(0)
    a, b = (numbers.integers(-4, 5, (rows, 16)).astype("bfloat16") for rows in (64, 16))
    eight, sixteen = np.zeros((64, 8), "f4"), np.zeros((64, 16), "f4")
    arrays = a.view("u2"), b.view("u2"), eight, sixteen
    launch(PRODUCT, *arrays, block=(128, 1, 1))
    expected = a.astype("f4") @ b.astype("f4").T
    np.testing.assert_array_equal(sixteen, expected)
    np.testing.assert_array_equal(eight, expected[:, :8])
    assert nvrtc.compile_source(PRODUCT, "kernel.cu", "kernel", {}, "sm_90a").code
    assert not kinds_found(PRODUCT, *arrays, block=(128, 1, 1))
    unseen = PRODUCT.replace('    asm volatile("fence.proxy', '    // asm volatile("fence.proxy')
    assert "missing fence" in kinds_found(unseen, *arrays, block=(128, 1, 1))


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("shifted<2>(", "shifted<3>(", r"kernel.cu:35: 'shl.b%3 .*', in which %3, COUNT \* 16, makes what"),
        ('kind[] = "s32"', 'kind[] = "f80"', r"kernel.cu:13: .* in which %2, Names<SIGN>::kind, and %3, Names"),
        ('"C"(Names<SIGN>::way)', '"C"(Names<SIGN>::way), "C"("x"), "C"("y"), "C"("z"), "C"("w"), "C"("v")',
         r"kernel.cu:13: text that 7 operands make"),
    ],
)  # fmt: skip
def test_values_that_make_no_ptx_are_named(before, after, words):
    with pytest.raises(CompileError, match=words):
        launch(SOURCE.replace(before, after), np.zeros(160, "u4"), np.zeros((32, 8), "u4"), block=(32, 1, 1))


def test_code_that_no_instance_has_is_no_error():
    """As under nvcc: of an if constexpr only the branch that is taken is compiled."""
    unknown = SOURCE.replace('asm volatile("ldmatrix.sync.aligned.m8n8.x%3', 'asm volatile("vabsdiff.u32 %3')
    unknown = unknown.replace("load<2, 0>(two,", "load<4, 0>(four,").replace(
        "unsigned four[4], two[2]", "unsigned four[4], two[2] = {}"
    )
    launch(unknown, np.zeros(160, "u4"), np.zeros((32, 8), "u4"), block=(32, 1, 1))
