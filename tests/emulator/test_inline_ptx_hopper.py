"""Inline PTX on the emulator: barriers in shared memory, the copy engine and warpgroups, as published kernels of Hopper
have them."""

import numpy as np
import pytest
from emulator_helpers import kinds_found, launch

from tilewright.core.errors import CompileError, LaunchError
from tilewright.runtime import nvrtc

RNG = np.random.default_rng(2)

PIPELINE = r"""
#include <cstdint>

__device__ static __forceinline__ void init_barrier(uint64_t* bar, int count) {
    uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(bar));
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" :: "r"(at), "r"(count));
}
__device__ static __forceinline__ void expect_bytes(uint64_t* bar, uint32_t bytes) {
    uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(bar));
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;\n" :: "r"(at), "r"(bytes));
}
__device__ static __forceinline__ void load_async(float* dst, const float* src, uint64_t* bar, uint32_t bytes) {
    uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(bar));
    uint32_t to = static_cast<uint32_t>(__cvta_generic_to_shared(dst));
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 :: "r"(to), "l"(src), "r"(bytes), "r"(at) : "memory");
}
__device__ static __forceinline__ void wait(uint64_t* bar, int parity) {
    uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(bar));
    asm volatile(
        "{\n"
        ".reg .pred P1;\n"
        "LAB_WAIT:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1;\n"
        "@P1 bra.uni DONE;\n"
        "bra.uni LAB_WAIT;\n"
        "DONE:\n"
        "}\n"
        :: "r"(at), "r"(parity));
}
__device__ static __forceinline__ bool has_ended(uint64_t* bar, uint32_t parity) {
    uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(bar)), ended;
    asm volatile("{ .reg .pred p;\n mbarrier.test_wait.parity.acquire.cta.shared::cta.b64 p, [%1], %2;\n"
                 " selp.u32 %0, 1, 0, p; }" : "=r"(ended) : "r"(at), "r"(parity) : "memory");
    return ended;
}
__device__ static __forceinline__ void arrive(uint64_t* bar) {
    uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(bar));
    asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];\n" : : "r"(at) : "memory");
}

// One warp loads lines of 64 numbers, another one adds them up and stores a line of sums.
extern "C" __global__ void kernel(const float* from, float* to) {
    __shared__ alignas(128) float lines[2][64];
    __shared__ alignas(128) float sums[64];
    __shared__ uint64_t full[2], empty[2];
    const int lane = threadIdx.x % 32, steps = 5;
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; ++i) { init_barrier(&full[i], 1); init_barrier(&empty[i], 32); }
        asm volatile("fence.mbarrier_init.release.cluster;");
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        uint32_t leads;
        asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(leads));
        for (int step = 0; leads && step < steps; ++step) {
            if (step >= 2) wait(&empty[step % 2], step / 2 % 2 ^ 1);
            expect_bytes(&full[step % 2], 256);
            load_async(lines[step % 2], from + 64 * step, &full[step % 2], 256);
        }
    } else {
        float2 sum = {0, 0};
        for (int step = 0; step < steps; ++step) {
            while (!has_ended(&full[step % 2], step / 2 % 2)) { }
            sum.x += lines[step % 2][2 * lane];
            sum.y += lines[step % 2][2 * lane + 1];
            arrive(&empty[step % 2]);
        }
        sums[2 * lane] = sum.x, sums[2 * lane + 1] = sum.y;
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncwarp();
        if (lane == 0) {
            uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(sums));
            asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" :: "l"(to), "r"(at), "n"(256));
            asm volatile("cp.async.bulk.commit_group;");
            asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        }
    }
}
"""
FAULTS = {
    "no wait for the line": ("            while (!has_ended(&full[step % 2], step / 2 % 2)) { }\n", "", "race"),
    "a test whose answer is not looked at": ("while (!has_ended(", "(void)(!has_ended(", "race"),
    "the other phase": ("full[step % 2], step / 2 % 2)", "full[step % 2], step / 2 % 2 ^ 1)", "race"),
    "no wait for the readers": ("if (step >= 2) wait", "if (step >= 9) wait", "misuse"),
    "no fence for the engine": ('asm volatile("fence.proxy.async.shared::cta;" ::: "memory");', "", "missing fence"),
    "a fence after the meeting": ("        __syncwarp();\n", "", "race"),
    "too few bytes": ("full[step % 2], 256);\n            load", "full[step % 2], 192);\n            load", "barrier"),
    "no fence of the barriers": ('        asm volatile("fence.mbarrier_init.release.cluster;");\n', "", "misuse"),
    "a line past the end": ("steps = 5", "steps = 6", "out of bounds"),
}  # fmt: skip


def lines():
    numbers = RNG.integers(-5, 6, (5, 64)).astype(np.float32)
    return numbers, np.zeros(64, np.float32)


def test_lines_come_when_their_barrier_says_so():
    numbers, sums = lines()
    assert kinds_found(PIPELINE, numbers, sums, block=(64, 1, 1)) == set()
    np.testing.assert_array_equal(sums, numbers.sum(0))
    assert nvrtc.compile_source(PIPELINE, "kernel.cu", "kernel", {}, "sm_90a").code


@pytest.mark.first(3)
@pytest.mark.parametrize("case", FAULTS)
def test_faults_at_barriers_are_found(case):
    text, instead, kind = FAULTS[case]
    assert PIPELINE.count(text) == 1
    source = PIPELINE.replace(text, instead).replace("(void)(!has_ended(&full[step % 2], step / 2 % 2)) { }",
                                                     "(void)(!has_ended(&full[step % 2], step / 2 % 2));")  # fmt: skip
    assert kind in kinds_found(source, *lines(), block=(64, 1, 1))


def test_stores_must_be_waited_for():
    source = PIPELINE.replace("wait_group.read 0", "wait_group.read 1")
    with pytest.raises(
        LaunchError, match=r"has returned without a cp.async.bulk.wait_group.read for cp.async.bulk.global\S+ \(kernel"
    ):
        launch(source, *lines(), block=(64, 1, 1))


PHASES = """
extern "C" __global__ void kernel(unsigned* to) {
    __shared__ __align__(8) unsigned long long barriers[2];
    const unsigned one = __cvta_generic_to_shared(&barriers[0]), two = one + 8;
    unsigned long long state;
    unsigned ended[4], first = threadIdx.x == 0;
    if (first) asm volatile("mbarrier.init.shared.b64 [%0], 32; mbarrier.init.shared.b64 [%1], 33;"
                            :: "r"(one), "r"(two));
    __syncthreads();
    if (first) asm volatile("mbarrier.arrive.shared.b64 _, [%1]; mbarrier.arrive.shared.b64 %0, [%2], 2;"
                            : "=l"(state) : "r"(one), "r"(two));
    asm volatile("{ .reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(ended[0]) : "r"(two), "l"(0ull) : "memory");
    if (!first) asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];" : "=l"(state) : "r"(two));
    if (!first) asm volatile("{ .reg .b64 s; mbarrier.arrive.shared::cta.b64 s, [%0]; }" :: "r"(one));
    for (ended[1] = ended[2] = 0; !ended[1] || !ended[2];) {  // whichever comes first
        asm volatile("{ .reg .pred p, q; mbarrier.try_wait.parity.shared.b64 p, [%2], 0; selp.u32 %0, 1, 0, p;"
                     "mbarrier.try_wait.shared::cta.b64 q, [%3], %4, 1000; selp.u32 %1, 1, 0, q; }"
                     : "=r"(ended[1]), "=r"(ended[2]) : "r"(one), "r"(two), "l"(state) : "memory");
    }
    __syncthreads();
    if (first) asm volatile("mbarrier.inval.shared.b64 [%0]; mbarrier.init.shared.b64 [%0], 1;" :: "r"(two));
    if (first) asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], 4;" :: "r"(one));
    to[threadIdx.x] = ended[0] << 8 | ended[1] << 4 | ended[2];
}
"""


def test_phases_by_states_and_counts():
    out = np.zeros(32, np.uint32)
    launch(PHASES, out, block=(32, 1, 1))
    assert out[0] == 0x011
    assert set(out) <= {0x011, 0x111}
    assert nvrtc.compile_source(PHASES, "kernel.cu", "kernel", {}, "sm_90").code
    with pytest.raises(
        LaunchError, match=r"calls mbarrier.arrive.shared.b64 \(kernel.cu:10\) for a phase in which all 33"
    ):
        launch(PHASES.replace("[%2], 2", "[%2], 34"), out, block=(32, 1, 1))


WGMMA = r"""
typedef unsigned short bf16;
__device__ static inline unsigned long long matrix_descriptor_encode(unsigned long long x) {
    return (x & 0x3FFFF) >> 0x4;
}
__device__ unsigned long long make_smem_desc(bf16* ptr) {
    unsigned addr = static_cast<unsigned>(__cvta_generic_to_shared(ptr));
    unsigned long long desc = 0;
    desc |= matrix_descriptor_encode(addr);
    desc |= matrix_descriptor_encode((unsigned long long)16) << 16;
    desc |= matrix_descriptor_encode((unsigned long long)1024) << 32;
    desc |= 1llu << 62;  // 128B swizzle
    return desc;
}
__device__ void warpgroup_arrive() { asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory"); }
__device__ void warpgroup_commit_batch() { asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory"); }
template <int N>
__device__ void warpgroup_wait() {
    static_assert(N >= 0 && N <= 7, "WGMMA wait: N must be in range [0, 7]");
    asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(N) : "memory");
}
template <int ScaleD, int ScaleA, int ScaleB, int TransA, int TransB>
__device__ void wgmma16(float d[8], bf16* sA, bf16* sB) {
    unsigned long long desc_a = make_smem_desc(&sA[0]);
    unsigned long long desc_b = make_smem_desc(&sB[0]);
    asm volatile(
        "{\n"
        "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 "
        "{%0,   %1,   %2,   %3,   %4,   %5,   %6,   %7},"
        " %8,"
        " %9,"
        " %10, %11, %12, %13, %14;\n"
        "}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
        : "l"(desc_a), "l"(desc_b), "n"(int(ScaleD)), "n"(int(ScaleA)),
          "n"(int(ScaleB)), "n"(int(TransA)), "n"(int(TransB)));
}
__device__ void of_registers(float (&d)[8], const unsigned (&a)[4], unsigned long long desc_b, int adds) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %13, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9, %10, %11},"
        "%12, p, 1, 1, 0; }"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(desc_b), "r"(adds));
}

// A is 64 x 64, B 16 x 64, both with their k together.
extern "C" __global__ void kernel(const bf16* A, const bf16* B, float* C, float* D) {
    __shared__ alignas(1024) bf16 sA[64 * 64];
    __shared__ alignas(1024) bf16 sB[16 * 64];
    for (int i = threadIdx.x; i < 80 * 64; i += 128) {
        const int row = i / 64, col = i % 64, at = row * 64 + (col ^ (row % 8) * 8);
        if (row < 64) sA[at] = A[i]; else sB[at - 64 * 64] = B[i - 64 * 64];
    }
    asm volatile("fence.proxy.async;");
    __syncthreads();
    float d[8], e[8];
    unsigned a[4];
    const int t = threadIdx.x, row = t / 32 * 16 + t % 32 / 4, col = t % 4 * 2;
    memset(d, 0, sizeof(d));
    for (int i = 0; i < 4; ++i) {
        a[i] = A[64 * (row + i % 2 * 8) + col + i / 2 * 8] | A[64 * (row + i % 2 * 8) + col + i / 2 * 8 + 1] << 16;
    }
    warpgroup_arrive();
    wgmma16<1, 1, 1, 0, 0>(d, &sA[0], &sB[0]);
    wgmma16<1, 1, 1, 0, 0>(d, &sA[16], &sB[16]);
    wgmma16<1, 1, 1, 0, 0>(d, &sA[32], &sB[32]);
    wgmma16<1, 1, 1, 0, 0>(d, &sA[48], &sB[48]);
    of_registers(e, a, make_smem_desc(sB), 0);
    warpgroup_commit_batch();
    warpgroup_wait<0>();
    for (int i = 0; i < 8; ++i) {
        C[16 * (row + i / 2 % 2 * 8) + i / 4 * 8 + col + i % 2] = d[i];
        D[16 * (row + i / 2 % 2 * 8) + i / 4 * 8 + col + i % 2] = e[i];
    }
}
"""
GROUP_FAULTS = {
    "no wait": ("    warpgroup_wait<0>();\n", "", None),
    "no fence for the tensor cores": ('    asm volatile("fence.proxy.async;");\n', "", "missing fence"),
    "no fence of the sums": ("    warpgroup_arrive();\n", "", "misuse"),
    "no barrier": ('async;");\n    __syncthreads();', 'async;");', "race"),
}


def factors():
    a, b = RNG.integers(-3, 4, (64, 64)), RNG.integers(-3, 4, (16, 64))
    of_a, of_b = ((one.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16) for one in (a, b))
    return (
        (of_a, of_b, np.zeros((64, 16), np.float32), np.zeros((64, 16), np.float32)),
        a @ b.T,
        a[:, :16] @ b[:, :16].T,
    )


def test_products_of_a_warpgroup():
    arrays, c, d = factors()
    assert kinds_found(WGMMA, *arrays, block=(128, 1, 1)) == set()
    np.testing.assert_array_equal(arrays[2], c)
    np.testing.assert_array_equal(arrays[3], d)
    assert nvrtc.compile_source(WGMMA, "kernel.cu", "kernel", {}, "sm_90a").code


def of_integers(source):
    """The products of bytes: a line has 128 of k, of an instruction 32, and sums are int."""
    for text, instead in (
        ("float* C, float* D", "int* C, int* D"),
        ("float d[8], e[8]", "int d[8], e[8]"),
        ("float d[8]", "int d[8]"),
        ("float (&d)[8]", "int (&d)[8]"),
        ('"+f"', '"+r"'),
        ("k16.f32.bf16.bf16", "k32.s32.s8.u8"),
        (" %10, %11, %12, %13, %14;", " %10;"),
        (
            '"n"(int(ScaleD)), "n"(int(ScaleA)),\n          "n"(int(ScaleB)), "n"(int(TransA)), "n"(int(TransB))',
            '"n"(int(ScaleD))',
        ),
        ("%12, p, 1, 1, 0;", "%12, p;"),
    ):
        assert text in source, text
        source = source.replace(text, instead)
    return source


def test_products_of_integers_of_a_warpgroup():
    a, b = RNG.integers(-128, 128, (64, 128)), RNG.integers(0, 256, (16, 128))
    words = a.astype(np.int8).view(np.uint16), b.astype(np.uint8).view(np.uint16)
    found = np.zeros((2, 64, 16), np.int32)
    assert kinds_found(of_integers(WGMMA), *words, *found, block=(128, 1, 1)) == set()
    np.testing.assert_array_equal(found[0], a @ b.T)
    np.testing.assert_array_equal(found[1], a[:, :32] @ b[:, :32].T)
    assert nvrtc.compile_source(of_integers(WGMMA), "kernel.cu", "kernel", {}, "sm_90a").code


@pytest.mark.first(2)
@pytest.mark.parametrize("case", GROUP_FAULTS)
def test_faults_of_products_are_found(case):
    text, instead, kind = GROUP_FAULTS[case]
    assert WGMMA.count(text) == 1
    arrays, c, _ = factors()
    kinds = kinds_found(WGMMA.replace(text, instead), *arrays, block=(128, 1, 1))
    assert kind in kinds if kind else not np.array_equal(arrays[2], c)


def test_what_products_cannot_be_is_named():
    arrays, *_ = factors()
    with pytest.raises(
        CompileError, match=r"the inline PTX at kernel.cu:26: wgmma.mma_async\S+m64n16k16.f16.f16.f16. Of"
    ):
        launch(WGMMA.replace("f32.bf16.bf16", "f16.f16.f16", 1), *arrays, block=(128, 1, 1))
    with pytest.raises(LaunchError, match="wgmma of negated factors"):
        launch(WGMMA.replace("<1, 1, 1, 0, 0>(d, &sA[0]", "<1, -1, 1, 0, 0>(d, &sA[0]"), *arrays, block=(128, 1, 1))
    with pytest.raises(LaunchError, match="wgmma with registers that are no neighbours in an array"):
        launch(WGMMA.replace('"+f"(d[0]), "+f"(d[1])', '"+f"(d[1]), "+f"(d[0])', 1), *arrays, block=(128, 1, 1))


def test_a_fence_that_is_missing_is_named_as_in_ptx():
    arrays, *_ = factors()
    with pytest.raises(
        LaunchError, match=r"calls wgmma.mma_async\S+ \(kernel.cu:26\) without a wgmma.fence since thread"
    ):
        launch(WGMMA.replace("    warpgroup_arrive();\n", ""), *arrays, block=(128, 1, 1))


EITHER = """
__device__ bool has_ended(unsigned at) {
    unsigned p;
    asm volatile("{ .reg .pred r; mbarrier.try_wait.parity.shared.b64 r, [%1], 0; selp.u32 %0, 1, 0, r; }"
                 : "=r"(p) : "r"(at) : "memory");
    return p;
}
extern "C" __global__ void kernel(float* out) {
    __shared__ unsigned long long barriers[2];
    const unsigned at = __cvta_generic_to_shared(barriers);
    if (threadIdx.x == 0)
        asm volatile("mbarrier.init.shared.b64 [%0], 32; mbarrier.init.shared.b64 [%0+8], 33;" :: "r"(at));
    __syncthreads();
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" :: "r"(at));
    while (!has_ended(at + 8) && !has_ended(at)) { }
    out[threadIdx.x] = 1;
}
"""


def test_several_barriers_are_tested_in_turns():
    out = np.zeros(32, np.float32)
    assert kinds_found(EITHER, out, block=(32, 1, 1)) == set()
    assert out.all()
    never = EITHER.replace("[%0], 32;", "[%0], 33;")
    assert kinds_found(never, out, block=(32, 1, 1)) == {"endless wait"}
