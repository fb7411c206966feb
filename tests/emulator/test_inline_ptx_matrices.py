"""Inline PTX on the emulator: asynchronous copies and a warp's matrices, as published kernels of Ampere have them."""

import numpy as np
import pytest
from emulator_helpers import kinds_found, launch

from tilewright.core.errors import CompileError, LaunchError
from tilewright.core.gpus import gpu_named
from tilewright.kernels.source.source_launch import read_launch
from tilewright.runtime import nvrtc
from tilewright.tools.explain.launch_explanation import explain_launch

RNG = np.random.default_rng(1)
LANES = np.arange(32)
GROUP, IN_GROUP = LANES // 4, LANES % 4


def words_of(matrix, rows, cols):
    """Registers of each lane: elements that lie together along the last axis, from these rows and columns on."""
    parts = 4 // matrix.itemsize
    found = np.stack([matrix[rows, cols + i] for i in range(parts)], axis=-1)
    return np.ascontiguousarray(found).view(np.uint32)[..., 0]


def fragments(a, b):
    """The registers of A and B of mma.sync, by lane."""
    parts, half = 4 // a.itemsize, 16 // a.itemsize
    rows, cols = GROUP[:, None], IN_GROUP[:, None] * parts
    halves = range(a.shape[1] // half)
    of_a = [words_of(a, rows + 8 * i, cols + half * j)[:, 0] for j in halves for i in range(2)]
    of_b = [words_of(np.ascontiguousarray(b.T), rows, cols + half * j)[:, 0] for j in halves]
    return np.stack(of_a, -1), np.stack(of_b, -1)


def as_float8(values):
    """e4m3 of integers from -3 to 3."""
    magnitudes = np.array([0, 0x38, 0x40, 0x44], np.uint8)
    return magnitudes[np.abs(values)] | np.where(values < 0, 0x80, 0).astype(np.uint8)


def as_bfloat16(values):
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


SHAPES = {
    "m16n8k16.row.col.f32.f16.f16.f32": (16, lambda values: values.astype(np.float16)),
    "m16n8k8.row.col.f32.f16.f16.f32": (8, lambda values: values.astype(np.float16)),
    "m16n8k16.row.col.f16.f16.f16.f16": (16, lambda values: values.astype(np.float16)),
    "m16n8k16.row.col.f32.bf16.bf16.f32": (16, as_bfloat16),
    "m16n8k8.row.col.f32.tf32.tf32.f32": (8, lambda values: values.astype(np.float32)),
    "m16n8k4.row.col.f32.tf32.tf32.f32": (4, lambda values: values.astype(np.float32)),
    "m16n8k32.row.col.f32.e4m3.e4m3.f32": (32, as_float8),
    "m16n8k32.row.col.s32.s8.s8.s32": (32, lambda values: values.astype(np.int8)),
    "m16n8k16.row.col.s32.s8.s8.s32": (16, lambda values: values.astype(np.int8)),
}
"""Products by their names, with k and what makes their elements of integers."""


def mma_source(shape, words):
    a, b = words
    halves, integers = ".f16.f16.f16.f16" in shape, ".s32." in shape
    count, kind, letter = (2, "unsigned", "r") if halves else (4, "int", "r") if integers else (4, "float", "f")
    registers = [
        "{" + ", ".join(f"%{i}" for i in range(first, last)) + "}"
        for first, last in ((0, count), (count, count + a), (count + a, count + a + b))
    ]
    operands = ", ".join(f'"r"({name}[{i}])' for name, n in (("a", a), ("b", b)) for i in range(n))
    sums = ", ".join(f'"+{letter}"(d[{i}])' for i in range(count))
    return f"""
    extern "C" __global__ void kernel(const unsigned* of_a, const unsigned* of_b, {kind}* to) {{
        {kind} d[{count}];
        const unsigned *a = of_a + {a} * threadIdx.x, *b = of_b + {b} * threadIdx.x;
        for (int i = 0; i < {count}; ++i) d[i] = to[{count} * threadIdx.x + i];
        asm volatile("mma.sync.aligned.{shape} " "{registers[0]}, {registers[1]},\\n"
                     "{registers[2]}, {registers[0]};\\n"
                     : {sums} : {operands});
        for (int i = 0; i < {count}; ++i) to[{count} * threadIdx.x + i] = d[i];
    }}"""


@pytest.mark.first(3)
@pytest.mark.parametrize("shape", SHAPES)
def test_products_of_a_warp(shape):
    depth, made = SHAPES[shape]
    a, b = RNG.integers(-3, 4, (16, depth)), RNG.integers(-3, 4, (depth, 8))
    c = RNG.integers(-9, 9, (16, 8))
    of_a, of_b = fragments(made(a), made(b))
    rows, cols = GROUP[:, None] + [[0, 0, 8, 8]], 2 * IN_GROUP[:, None] + [[0, 1, 0, 1]]
    of_sums = np.float16 if ".f16.f16.f16.f16" in shape else np.int32 if ".s32." in shape else np.float32
    sums = np.ascontiguousarray(c[rows, cols].astype(of_sums))
    source = mma_source(shape, (of_a.shape[1], of_b.shape[1]))
    launch(source, np.ascontiguousarray(of_a), np.ascontiguousarray(of_b), sums, block=(32, 1, 1))
    np.testing.assert_array_equal(sums, (a @ b + c)[rows, cols])
    assert nvrtc.compile_source(source, "kernel.cu", "kernel", {}, "sm_89").code


@pytest.mark.parametrize(
    "shape", ["m8n8k16.row.col.s32.s8.s8.s32", "m8n8k4.row.col.f32.f16.f16.f32", "m16n8k8.row.col.f32.e4m3.e4m3.f32"]
)
def test_other_products_are_named(shape):
    with pytest.raises(CompileError, match=f"the inline PTX at kernel.cu:6: mma.sync.aligned.{shape}. Of PTX"):
        launch(mma_source(shape, (4, 2)), np.zeros(128, np.uint32), np.zeros(64, np.uint32), np.zeros(128, np.float32))


LDMATRIX = """
extern "C" __global__ void kernel(const uint4* from, unsigned* to) {
    __shared__ uint4 tile[32];
    tile[threadIdx.x] = from[threadIdx.x];
    __syncthreads();
    unsigned r[8], at = __cvta_generic_to_shared(&tile[threadIdx.x]);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared::cta.b16 {%0, %1}, [%2];"
                 : "=r"(r[4]), "=r"(r[5]) : "r"(at));
    const unsigned low = threadIdx.x < 8 ? at : 0;
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r[6]) : "r"(low));
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];" : "=r"(r[7]) : "r"(low));
    for (int i = 0; i < 8; ++i) to[8 * threadIdx.x + i] = r[i];
}
"""


def test_matrices_are_loaded():
    elements = RNG.integers(0, 1 << 16, (4, 8, 8), dtype=np.uint16)
    out = np.zeros((32, 8), np.uint32)
    launch(LDMATRIX, elements, out, block=(32, 1, 1))
    assert nvrtc.compile_source(LDMATRIX, "kernel.cu", "kernel", {}, "sm_80").code
    matrices = [*elements, elements[0].T, elements[1].T, elements[0], elements[0].T]
    expected = [words_of(np.ascontiguousarray(one), GROUP, 2 * IN_GROUP) for one in matrices]
    np.testing.assert_array_equal(out, np.stack(expected, -1))


STMATRIX = """
extern "C" __global__ void kernel(const unsigned* from, uint4* to) {
    __shared__ uint4 tile[64];
    const unsigned* r = &from[4 * threadIdx.x];
    const unsigned at = __cvta_generic_to_shared(&tile[threadIdx.x]);
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                 :: "r"(at), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0 + 512], {%1, %2};"
                 :: "r"(at), "r"(r[0]), "r"(r[1]) : "memory");
    const unsigned low = threadIdx.x < 8 ? at + 768 : 0;
    asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" :: "r"(low), "r"(r[2]) : "memory");
    asm volatile("stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%0 + 128], {%1};" :: "r"(low), "r"(r[3]) : "memory");
    __syncwarp();
    for (int i = threadIdx.x; i < 64; i += 32) to[i] = tile[i];
}
"""


def test_matrices_are_stored():
    elements = RNG.integers(0, 1 << 16, (4, 8, 8), dtype=np.uint16)
    words = np.ascontiguousarray(np.stack([words_of(one, GROUP, 2 * IN_GROUP) for one in elements], -1))
    out = np.zeros((8, 8, 8), np.uint16)
    launch(STMATRIX, words, out, block=(32, 1, 1))
    assert nvrtc.compile_source(STMATRIX, "kernel.cu", "kernel", {}, "sm_90a").code
    expected = [*elements, elements[0].T, elements[1].T, elements[2], elements[3].T]
    np.testing.assert_array_equal(out, np.stack(expected))


def test_rows_are_stored_at_multiples_of_16_bytes():
    words = np.zeros((32, 4), np.uint32)
    with pytest.raises(LaunchError, match="calls stmatrix"):
        launch(STMATRIX.replace("at + 768", "at + 776"), words, np.zeros((8, 8, 8), np.uint16), block=(32, 1, 1))


STAGES = """
#define CP_ASYNC_CG(dst, src) \\
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], %2;\\n" ::"r"(dst), "l"(src), "n"(16))
#define CP_ASYNC_COMMIT_GROUP() asm volatile("cp.async.commit_group;\\n" ::)
#define CP_ASYNC_WAIT_GROUP(n) asm volatile("cp.async.wait_group %0;\\n" ::"n"(n))

__device__ __forceinline__ void part_of_4(unsigned to, const float* from, int bytes) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" :: "r"(to), "l"(from), "r"(bytes) : "memory");
}

// Sums over steps of 16 x 32 elements, of which the last is cut off.
extern "C" __global__ void kernel(const float* from, float* to) {
    __shared__ __align__(16) float tile[2][32][16];
    const int row = threadIdx.x, steps = 5;
    const auto load = [&](int step) {
        const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(tile[step % 2][row]));
        const float* line = from + 16 * (32 * step + row);
        for (int i = 0; i < 12; i += 4) CP_ASYNC_CG(at + 4 * i, line + i);
        for (int i = 12; i < 16; ++i) part_of_4(at + 4 * i, line + i, i < 15 ? 4 : 0);
    };
    float sum = 0;
    load(0);
    CP_ASYNC_COMMIT_GROUP();
    for (int step = 0; step < steps; ++step) {
        if (step + 1 < steps) load(step + 1);
        CP_ASYNC_COMMIT_GROUP();
        CP_ASYNC_WAIT_GROUP(1);
        __syncthreads();
        for (int i = 0; i < 16; ++i) sum += tile[step % 2][row ^ 5][i];
        __syncthreads();
    }
    to[row] = sum;
}
"""
STAGE_FAULTS = {
    "no wait": ("        CP_ASYNC_WAIT_GROUP(1);\n", "", "unfinished copy"),
    "a wait for the tile before": ("WAIT_GROUP(1)", "WAIT_GROUP(2)", "unfinished copy"),
    "no barrier": ("WAIT_GROUP(1);\n        __syncthreads();", "WAIT_GROUP(1);", "race"),
    "a stage that is refilled too early": ("        __syncthreads();\n    }", "    }", "race"),
    "no group": ("        CP_ASYNC_COMMIT_GROUP();\n        CP", "        CP", "unfinished copy"),
    "a line past the end": ("steps = 5", "steps = 6", "out of bounds"),
}


def stages():
    numbers = RNG.integers(-5, 6, (5, 32, 16)).astype(np.float32)
    return numbers, np.zeros(32, np.float32)


def test_copies_come_when_they_are_waited_for():
    numbers, sums = stages()
    assert kinds_found(STAGES, numbers, sums, block=(32, 1, 1)) == set()
    np.testing.assert_array_equal(sums, numbers[:, np.arange(32) ^ 5, :15].sum((0, 2)))
    assert nvrtc.compile_source(STAGES, "kernel.cu", "kernel", {}, "sm_80").code


@pytest.mark.first(2)
@pytest.mark.parametrize("case", STAGE_FAULTS)
def test_faults_of_copies_are_found(case):
    text, instead, kind = STAGE_FAULTS[case]
    assert STAGES.count(text) == 1
    assert kind in kinds_found(STAGES.replace(text, instead), *stages(), block=(32, 1, 1))


def test_copies_of_wrong_sizes_are_named():
    wrong = STAGES.replace("16))", "8))").replace("%2;", "8;", 1)
    with pytest.raises(CompileError, match=r"kernel.cu:3: cp.async.cg\S* of 8 bytes, where it copies 16"):
        launch(wrong, *stages(), block=(32, 1, 1))
    with pytest.raises(
        LaunchError, match=r"calls cp.async.ca.shared.global \(kernel.cu:8\) to read bytes that must be"
    ):
        launch(STAGES.replace("? 4 : 0", "? 5 : 0"), *stages(), block=(32, 1, 1))


BY_HEADER = (
    ("CP_ASYNC_CG(at + 4 * i, line + i);", "copy_async<16>(&tile[step % 2][row][i], line + i, true);"),
    ("part_of_4(at + 4 * i, line + i, i < 15 ? 4 : 0);", "copy_async<4>(&tile[step % 2][row][i], line + i, i < 15);"),
)


@pytest.mark.further
def test_copies_are_counted_as_those_of_the_headers(tmp_path):
    pytest.importorskip("cuda.core")
    found = []
    for name, changes in (("ptx", ()), ("header", BY_HEADER)):
        source = STAGES
        for text, instead in changes:
            assert source.count(text) == 1
            source = source.replace(text, instead)
        (tmp_path / f"{name}.cu").write_text('#include "ptx/async_copy.cuh"\n' + source)
        launch_ = read_launch(f"{tmp_path}/{name}.cu", "from=float32[5,32,16] to=out:float32[32]", block="32", grid="1")
        found.append(explain_launch(launch_, gpu_named("H200")).traffic.groups)
    assert found[0] == found[1]
    assert sum(group.requests for group in found[0].values()) > 0
