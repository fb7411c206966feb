"""Inline PTX on the emulator: numbers, memory and the machine's registers, against the PTX ISA manual."""

import re

import numpy as np
import pytest
from emulator_helpers import kinds_found, launch

from tilewright.core.errors import CompileError, LaunchError
from tilewright.emulator.ptx import translated
from tilewright.runtime import nvrtc

COUNT = 64
RNG = np.random.default_rng(0)
A, B, C = (RNG.integers(0, 1 << 32, COUNT, dtype=np.uint32) for _ in "abc")
A[:4], B[:4], C[:4] = (0, 1, 1 << 31, 0xFFFFFFFF), (3, 1 << 31, 7, 0xFFFFFFFF), (0, 1, 2, 0xFFFFFFFF)
X, Y, Z = (RNG.normal(size=COUNT).astype(np.float32) for _ in "xyz")
SHIFTS = B % 40
SIGNED = A.astype(np.int32), B.astype(np.int32)


def fields(values, first, count, signed):
    """Bits of numbers, of which those beyond the last are the sign, or 0."""
    whole = values.astype(np.int64) if signed else values.astype(np.uint32).astype(np.int64)
    found = []
    for value, at, bits in zip(whole, first % 40, count % 40, strict=True):
        field = (int(value) >> int(at)) & ((1 << int(bits)) - 1) if not signed else int(value) >> int(at)
        if signed and bits:
            field &= (1 << int(bits)) - 1
            sign = int(value) >> min(31, int(at) + int(bits) - 1) & 1
            field -= sign << int(bits)
        found.append(field if bits else 0)
    return np.array(found)


def bytes_of(a, b, selector):
    """prmt, byte for byte."""
    found = np.zeros(COUNT, np.uint32)
    for i in range(COUNT):
        both = int(b[i]) << 32 | int(a[i])
        for digit in range(4):
            choice = int(selector[i]) >> 4 * digit & 15
            byte = both >> 8 * (choice & 7) & 255
            found[i] |= np.uint32((255 * (byte >> 7) if choice & 8 else byte) << 8 * digit)
    return found


INTEGERS = [
    ("mov.u32 %0, %1;", A),
    ("mov.b32 %0, 0x1F;", 31 + 0 * A),
    ("add.u32 %0, %1, %2;", A + B),
    ("add.s32 %0, %1, -5;", A - np.uint32(5)),
    ("sub.s32 %0, %1, %2;", A - B),
    ("mul.lo.u32 %0, %1, %2;", A * B),
    ("mul.hi.u32 %0, %1, %2;", (A.astype(np.uint64) * B) >> 32),
    ("mul.hi.s32 %0, %1, %2;", (SIGNED[0].astype(np.int64) * SIGNED[1]) >> 32),
    ("mad.lo.s32 %0, %1, %2, %3;", A * B + C),
    ("div.u32 %0, %1, %2;", A // B),
    ("rem.u32 %0, %1, %2;", A % B),
    ("min.s32 %0, %1, %2;", np.minimum(*SIGNED)),
    ("max.u32 %0, %1, %2;", np.maximum(A, B)),
    ("and.b32 %0, %1, %2;", A & B),
    ("or.b32 %0, %1, %2;", A | B),
    ("xor.b32 %0, %1, %2;", A ^ B),
    ("not.b32 %0, %1;", ~A),
    ("neg.s32 %0, %1;", 0 - A),
    ("abs.s32 %0, %1;", np.abs(SIGNED[0])),
    ("shl.b32 %0, %1, %4;", np.where(SHIFTS < 32, A << (SHIFTS % 32), 0)),
    ("shr.u32 %0, %1, %4;", np.where(SHIFTS < 32, A >> (SHIFTS % 32), 0)),
    ("shr.s32 %0, %1, %4;", SIGNED[0] >> np.minimum(SHIFTS, 31).astype(np.int32)),
    ("popc.b32 %0, %1;", np.array([int(one).bit_count() for one in A])),
    ("clz.b32 %0, %1;", np.array([32 - int(one).bit_length() for one in A])),
    ("brev.b32 %0, %1;", np.array([int(f"{one:032b}"[::-1], 2) for one in A])),
    ("bfe.u32 %0, %1, %4, 5;", fields(A, SHIFTS, 0 * A + 5, False)),
    ("bfe.s32 %0, %1, 3, %4;", fields(SIGNED[0], 0 * A + 3, SHIFTS, True)),
    ("bfi.b32 %0, %1, %2, 4, 8;", (B & ~np.uint32(0xFF0)) | (A & 0xFF) << 4),
    ("prmt.b32 %0, %1, %2, %3;", bytes_of(A, B, C)),
    ("lop3.b32 %0, %1, %2, %3, 0xE8;", A & B | A & C | B & C),
    ("shf.l.wrap.b32 %0, %1, %2, 8;", B << 8 | A >> 24),
    ("{ .reg .pred p; setp.lt.u32 p, %1, %2; selp.b32 %0, %1, %2, p; }", np.minimum(A, B)),
    ("{ .reg .pred p, q; setp.gt.s32 p|q, %1, %2; @p mov.u32 %0, 7; @!p mov.u32 %0, 8; @q add.u32 %0, %0, 1; }",
     np.where(SIGNED[0] > SIGNED[1], 7, 9)),
    ("{ .reg .pred p; .reg .u32 t<2>; setp.eq.u32 p, %1, 1; mov.u32 t0, 3; mov.u32 t1, 4; // either\n"
     "@p bra SAME; /* or */ mov.u32 t0, t1; SAME: mov.u32 %0, t0; }", np.where(A == 1, 3, 4)),
    ("{ .reg .u64 w; mul.wide.u32 w, %1, %2; shr.u64 w, w, 16; cvt.u32.u64 %0, w; }", (A.astype(np.uint64) * B) >> 16),
    ("{ .reg .b16 l, h; mov.b32 {l, h}, %1; mov.b32 %0, {h, l}; }", A >> 16 | A << 16),
    ("cvt.u32.u16 %0, %5;", A & 0xFFFF),
    ("cvt.s32.s8 %0, %1;", A.astype(np.int8).astype(np.int32)),
    ("mov.u32 %0, %%laneid;", np.arange(COUNT) % 32),
    ("mov.u32 %0, %%tid.x;", np.arange(COUNT)),
    ("mov.u32 %0, %%ntid.x;", 0 * A + COUNT),
    ("mov.u32 %0, %%warpid;", np.arange(COUNT) // 32),
    ("mov.u32 %0, %%lanemask_lt;", (1 << np.arange(COUNT) % 32) - 1),
    ("shfl.sync.bfly.b32 %0, %1, 3, 0x1f, 0xffffffff;", A[np.arange(COUNT) ^ 3]),
    ("shfl.sync.down.b32 %0, %1, 1, 0x1f, 0xffffffff;", A[np.arange(COUNT) + (np.arange(COUNT) % 32 < 31)]),
    ("{ .reg .pred p; .reg .u32 t; mov.u32 t, %%laneid; setp.ne.u32 p, t, 5;"
     "vote.sync.ballot.b32 %0, p, 0xffffffff; }", 0 * A + 0xFFFFFFDF),
]  # fmt: skip
"""Instructions with %0 as their result, of %1 to %3 (a, b, c), %4 (b modulo 40) and %5, of 16 bits; what it is."""


FLOATS = [
    ("add.f32 %0, %1, %2;", X + Y),
    ("sub.rn.f32 %0, %1, %2;", X - Y),
    ("mul.ftz.f32 %0, %1, %2;", X * Y),
    ("fma.rn.f32 %0, %1, %2, %3;", (X.astype(np.float64) * Y + Z)),
    ("add.f32 %0, %1, 0f3F800000;", X + np.float32(1)),
    ("min.f32 %0, %1, %2;", np.minimum(X, Y)),
    ("max.f32 %0, %1, %2;", np.maximum(X, Y)),
    ("neg.f32 %0, %1;", -X),
    ("abs.f32 %0, %1;", np.abs(X)),
    ("div.rn.f32 %0, %1, %2;", X / Y),
    ("ex2.approx.ftz.f32 %0, %1;", np.exp2(X)),
    ("rcp.approx.f32 %0, %1;", 1 / X),
    ("{ .reg .f32 t; abs.f32 t, %1; sqrt.rn.f32 %0, t; }", np.sqrt(np.abs(X))),
    ("{ .reg .f32 t; abs.f32 t, %1; rsqrt.approx.f32 t, t; mov.f32 %0, t; }", 1 / np.sqrt(np.abs(X))),
    ("{ .reg .f32 t; abs.f32 t, %1; lg2.approx.f32 %0, t; }", np.log2(np.abs(X))),
    ("tanh.approx.f32 %0, %1;", np.tanh(X)),
    ("mul.sat.f32 %0, %1, %2;", np.clip(X * Y, 0, 1)),
    ("{ .reg .pred p; setp.ltu.f32 p, %1, %2; selp.f32 %0, %1, %2, p; }", np.minimum(X, Y)),
    ("{ .reg .pred p; .reg .f32 t; mov.f32 t, 0f7FC00000; setp.ltu.f32 p, t, %2; selp.f32 %0, %1, %2, p; }", X),
    ("{ .reg .pred p; .reg .f32 t; mov.f32 t, 0f7FC00000; setp.lt.f32 p, t, %2; selp.f32 %0, %1, %2, p; }", Y),
    ("cvt.rni.f32.f32 %0, %1;", np.rint(X)),
    ("{ .reg .s32 t; cvt.rzi.s32.f32 t, %1; cvt.rn.f32.s32 %0, t; }", np.trunc(X)),
    ("{ .reg .f64 t; cvt.f64.f32 t, %1; add.f64 t, t, 0d3FF0000000000000; cvt.rn.f32.f64 %0, t; }", X + 1.0),
    ("{ .reg .b16 t; cvt.rn.f16.f32 t, %1; cvt.f32.f16 %0, t; }", X.astype(np.float16)),
    ("{ .reg .b16 l, h; .reg .b32 t; cvt.rn.f16x2.f32 t, %1, %2; mov.b32 {l, h}, t; cvt.f32.f16 %0, h; }",
     X.astype(np.float16)),
    ("{ .reg .b32 t, u; .reg .b16 l, h; cvt.rn.f16x2.f32 t, %1, %1; fma.rn.f16x2 u, t, t, t; mov.b32 {l, h}, u;"
     "cvt.f32.f16 %0, l; }", (X.astype(np.float16).astype(np.float64) ** 2 + X.astype(np.float16)).astype(np.float16)),
    ("{ .reg .b32 t; cvt.rna.tf32.f32 t, %1; mov.b32 %0, t; }",
     ((X.view(np.uint32) + 0x1000) & 0xFFFFE000).view(np.float32)),
]  # fmt: skip


def numbers():
    """A kernel that carries out all of them, for each of its threads."""
    statements = [
        f'asm volatile("{text}" : "=r"(r) : "r"(a), "r"(b), "r"(c), "r"(b % 40), "h"((unsigned short)a));\n'
        f"out[{i * COUNT} + threadIdx.x] = r;"
        for i, (text, _) in enumerate(INTEGERS)
    ] + [
        f'asm("{text}" : "=f"(f) : "f"(x), "f"(y), "f"(z));\nfloats[{i * COUNT} + threadIdx.x] = f;'
        for i, (text, _) in enumerate(FLOATS)
    ]
    body = "\n".join(statements).replace("\n//", "//").replace("// either\n", "// either\\n")
    return f"""
    #include <cuda_fp16.h>
    extern "C" __global__ void kernel(const unsigned* numbers, const float* of, unsigned* out, float* floats) {{
        unsigned a = numbers[threadIdx.x], b = numbers[threadIdx.x + {COUNT}], r;
        unsigned c = numbers[threadIdx.x + {2 * COUNT}];
        float x = of[threadIdx.x], y = of[threadIdx.x + {COUNT}], z = of[threadIdx.x + {2 * COUNT}], f;
        {body}
    }}"""


def test_numbers_are_those_of_the_manual():
    out = np.zeros((len(INTEGERS), COUNT), np.uint32)
    floats = np.zeros((len(FLOATS), COUNT), np.float32)
    launch(numbers(), np.concatenate([A, B, C]), np.concatenate([X, Y, Z]), out, floats, block=(COUNT, 1, 1))
    for (text, expected), found in zip(INTEGERS, out, strict=True):
        np.testing.assert_array_equal(found, np.asarray(expected).astype(np.int64).astype(np.uint32), err_msg=text)
    for (text, expected), found in zip(FLOATS, floats, strict=True):
        np.testing.assert_allclose(found, np.asarray(expected).astype(np.float32), rtol=3e-7, err_msg=text)


def test_nvrtc_takes_the_same():
    assert nvrtc.compile_source(numbers(), "kernel.cu", "kernel", {}, "sm_80").code


MEMORY = r"""
#define LOAD(to, from) \
    asm volatile("ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];" \
                 : "=f"(to.x), "=f"(to.y), "=f"(to.z), "=f"(to.w) : "l"(from))
__device__ unsigned in_window(const void* shared) {
    return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}
extern "C" __global__ void kernel(const float4* in, float* out, unsigned* counts) {
    __shared__ __align__(16) float tile[4 * 64];
    extern __shared__ float more[];
    const unsigned at = in_window(tile) + 16 * threadIdx.x;
    float4 v;
    LOAD(v, in + threadIdx.x);
    if (threadIdx.x % 2)
        asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" :: "r"(at), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w));
    else
        asm volatile("st.shared.v2.f32 [%0], {%1, %2}; st.shared.v2.f32 [%0 + 8], {%3, %4};"
                     :: "r"(at), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w) : "memory");
    asm volatile("st.shared.f32 [%0], %1;" :: "r"(in_window(more + threadIdx.x)), "f"(v.x));
    asm volatile("bar.sync 0;" ::: "memory");
    float next, other, generic;
    asm volatile("{ .reg .u64 t; .reg .u32 s; cvta.to.shared.u64 t, %2; cvt.u32.u64 s, t; ld.shared.f32 %0, [s];"
                 "ld.f32 %1, [%2]; }" : "=f"(next), "=f"(generic) : "l"(&tile[(4 * threadIdx.x + 5) % 256]));
    asm volatile("ld.volatile.shared.f32 %0, [%1+-4];" : "=f"(other) : "r"(in_window(&more[63 - threadIdx.x]) + 4u));
    asm volatile("st.global.cs.f32 [%0], %1;" :: "l"(out + threadIdx.x), "f"(next + generic));
    out[64 + threadIdx.x] = other;
    asm volatile("red.global.add.u32 [%0], %1;" :: "l"(counts), "r"(threadIdx.x));
    unsigned old;
    asm volatile("atom.global.cas.b32 %0, [%1], %2, %3;" : "=r"(old) : "l"(counts + 1), "r"(0), "r"(9) : "memory");
    asm volatile("membar.gl; fence.acq_rel.gpu;");
}
"""


def test_memory_is_read_and_written():
    numbers, out, counts = RNG.normal(size=256).astype(np.float32), np.zeros(128, np.float32), np.zeros(2, np.uint32)
    launch(MEMORY, numbers, out, counts, block=(64, 1, 1), shared_bytes=256)
    np.testing.assert_array_equal(out[:64], 2 * np.roll(numbers, -5)[::4])
    np.testing.assert_array_equal(out[64:], numbers[::4][::-1])
    np.testing.assert_array_equal(counts, [64 * 63 // 2, 9])
    assert nvrtc.compile_source(MEMORY, "kernel.cu", "kernel", {}, "sm_90a").code


def kernel_of(statement):
    return f"""
    extern "C" __global__ void kernel(const float* in, float* out) {{
        __shared__ __align__(128) float tile[64];
        const unsigned at = (unsigned)__cvta_generic_to_shared(tile), thread = threadIdx.x;
        float x = 0; unsigned r = 0;
        {statement}
        out[thread] = x + r;
    }}"""


UNKNOWN = {
    "an instruction": ('asm("vabsdiff.u32.u32.u32 %0, %1, %1;" : "=r"(r) : "r"(at));', "vabsdiff.u32.u32.u32"),
    "a form of one": ('asm("add.rz.f32 %0, %1, %1;" : "=f"(x) : "f"(x));', r"add.rz.f32 \(its .rz\)"),
    "a register": ('asm("mov.u32 %0, %%smid;" : "=r"(r));', "%smid"),
    "an operand that is not there": (
        'asm("mov.u32 %0, %1;" : "=r"(r));', "mov.u32 with %1, which the statement has not",
    ),
    "an output that is none": ('asm("mov.u32 %0, 1;" :: "r"(r));', "mov.u32 that writes %0, which is no output"),
    "too few operands": ('asm("add.u32 %0, 1;" : "=r"(r));', "add.u32 with 2 operands"),
    "an operand's kind": ('asm("mov.u32 %0, 1;" : "=q"(r));', "an operand of the kind '=q'"),
    "what is no PTX": ('asm("mov.u32 %0, (1);" : "=r"(r));', r"'\(' where an operand is expected"),
    "a block that is not open": ('asm("mov.u32 %0, 1; }" : "=r"(r));', "a brace closes that was not opened"),
    "half an instruction": ('asm("@" : "=r"(r));', "its end is missing"),
    "registers by an operand": ('asm("{ .reg .u32 t<%1>; mov.u32 %0, t0; }" : "=r"(r) : "n"(2));', r"\.reg"),
    "pixels": (
        'asm("cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%0, %0, '
        '%0}], [%0], {%0};" :: "r"(at), "l"(in));', r"cp\S* \(its .im2col\)"),
    "a tile without dimensions": (
        'asm("cp.async.bulk.tensor.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%0}], [%0];" '
        ':: "r"(at), "l"(in));', r"cp\S* without dimensions"),
}  # fmt: skip


@pytest.mark.first(5)
@pytest.mark.parametrize("case", UNKNOWN)
def test_what_is_not_known_is_named_with_its_place(case):
    statement, named = UNKNOWN[case]
    expected = (
        f"kernel.cu does not compile on the emulator, which does not know the inline PTX at kernel.cu:6: {named}. "
    )
    with pytest.raises(CompileError, match=rf"^{expected}Of PTX it knows abs, activemask, add, and, .*, xor$"):
        launch(kernel_of(statement), np.zeros(1, np.float32), np.zeros(1, np.float32))


def test_what_is_not_compiled_may_be_unknown():
    out = np.zeros(1, np.float32)
    unused = '__device__ __forceinline__ void unused() { asm volatile("tcgen05.fence::before_thread_sync;"); }'
    launch(unused + kernel_of('#if 0\n asm("add.rz.f32");\n#endif\n x = 2;'), out, out)
    assert out[0] == 2


def test_statements_that_only_keep_accesses_in_place_stay():
    out = np.zeros(1, np.float32)
    launch(
        kernel_of('x = 3; asm volatile("" : "+f"(x) : "l"(in) : "memory"); asm volatile ("" ::: "memory");'), out, out
    )
    assert out[0] == 3


def test_lines_of_a_source_stay_where_they_are():
    source = """
    asm volatile(  // (
        R"(mov.u32 %0,)" " 1;\n"  /* : */
        "add.u32 %0, %0, %1;"
        : "=r"(x)
        : "r"(a ? b : c::d[0])
        : "memory"
    ); y;
#define SET(x) asm("mov.u32 %0, 1;" \\
                   : "=r"(x))
    const char* no = "asm(1)"; // asm("none")
    """
    (text,), unknown = translated([("a.cu", source)])
    assert not unknown
    assert text.count("\n") == source.count("\n")
    assert re.search(r"a \? b : c::d\[0\].* while \(0\)\n{7} *; y;\n", text), text
    assert re.search(r"#define SET\(x\) do .* while \(0\)\\\n *", text), text


def test_faults_of_memory_are_found_where_they_are():
    arrays = np.zeros(64, np.float32), np.zeros(64, np.float32)
    right = 'asm volatile("st.shared.f32 [%0], %1;" :: "r"(at + 4 * thread), "f"(x) : "memory");'
    read = 'asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(at + 4 * (thread ^ 33)));'
    assert kinds_found(kernel_of(f"{right} __syncthreads(); {read}"), *arrays, block=(64, 1, 1)) == set()
    assert kinds_found(kernel_of(f"{right} {read}"), *arrays, block=(64, 1, 1)) == {"race", "uninitialized read"}
    past = 'asm volatile("ld.global.f32 %0, [%1+256];" : "=f"(x) : "l"(in + thread));'
    assert kinds_found(kernel_of(past), *arrays, block=(64, 1, 1)) == {"out of bounds"}
    outside = 'asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(thread + 0x123456));'
    with pytest.raises(LaunchError, match=r"calls ld.shared.f32 \(kernel.cu:6\) for the address 0x00123456, which is"):
        launch(kernel_of(outside), *arrays)
    misaligned = 'asm volatile("ld.shared.b32 %0, [%1];" : "=r"(r) : "r"(at + 2));'
    with pytest.raises(LaunchError, match="must be at a multiple of 4 bytes"):
        launch(kernel_of(misaligned), *arrays)
