"""Language of sources for nvcc: dim3, vectors, printf, assert, qualifiers, templates and the usual includes."""

import re

import numpy as np
import pytest
from emulator_helpers import launch

from tilewright.core.errors import CompileError, LaunchError
from tilewright.emulator.compiler import CHECKED, FAST
from tilewright.emulator.counting import COUNTED

BUILDS = pytest.mark.parametrize("build", [FAST, CHECKED], ids=["fast", "checked"])


def test_dim3():
    source = """
    extern "C" __global__ void kernel(unsigned* out) {
        const dim3 none, one(5), two(6, 7), three = {1, 2, 3}, block = blockDim, index(threadIdx);
        const uint3 grid = gridDim;
        const dim3 all[] = {none, one, two, three, block, index, dim3(grid)};
        if (threadIdx.y == 1 && threadIdx.x == 0)
            for (int i = 0; i < 7; ++i) { out[3 * i] = all[i].x; out[3 * i + 1] = all[i].y; out[3 * i + 2] = all[i].z; }
    }
    """
    out = np.zeros((7, 3), np.uint32)
    launch(source, out, block=(4, 2, 1), grid=(1, 1, 1))
    expected = [[1, 1, 1], [5, 1, 1], [6, 7, 1], [1, 2, 3], [4, 2, 1], [0, 1, 0], [1, 1, 1]]
    np.testing.assert_array_equal(out, expected)


VECTORS = {  # name, element, bytes of an element
    "char": ("signed char", 1),
    "uchar": ("unsigned char", 1),
    "short": ("short", 2),
    "ushort": ("unsigned short", 2),
    "int": ("int", 4),
    "uint": ("unsigned", 4),
    "float": ("float", 4),
    "longlong": ("long long", 8),
    "ulonglong": ("unsigned long long", 8),
    "double": ("double", 8),
}


@pytest.mark.first(4)
@pytest.mark.parametrize("name", VECTORS)
def test_vector_types(name):
    element, size = VECTORS[name]
    source = f"""
    extern "C" __global__ void kernel({element}* out, int* facts) {{
        *({name}1*)out = make_{name}1(1);
        *({name}2*)(out + 4) = make_{name}2(2, 3);
        *({name}3*)(out + 8) = make_{name}3(4, 5, 6);
        *({name}4*)(out + 12) = make_{name}4(7, 8, 9, 10);
        const int made[] = {{sizeof({name}1), sizeof({name}2), sizeof({name}3), sizeof({name}4),
                            alignof({name}1), alignof({name}2), alignof({name}3), alignof({name}4)}};
        for (int i = 0; i < 8; ++i) facts[i] = made[i];
    }}
    """
    dtype = {"float": np.float32, "double": np.float64}.get(name, np.dtype(f"i{size}"))
    out, facts = np.zeros(16, dtype), np.zeros(8, np.int32)
    launch(source, out, facts)
    np.testing.assert_array_equal(out, [1, 0, 0, 0, 2, 3, 0, 0, 4, 5, 6, 0, 7, 8, 9, 10])
    np.testing.assert_array_equal(facts[:4], size * np.arange(1, 5))
    np.testing.assert_array_equal(facts[4:], [size, 2 * size, size, min(4 * size, 16)])


PRINTING = """{include}
extern "C" __global__ void kernel(int unused) {{
    {call}("block %d thread %2u: %s %.3f %c\\n", blockIdx.x, threadIdx.x, "text", 0.5f * threadIdx.x, '!');
    if (threadIdx.x + blockIdx.x == 0) {{ {call}("plain\\n"); {call}("%s\\n", "one"); {call}("x"); {call}("\\n"); }}
}}
"""


@pytest.mark.first(2)
@BUILDS
@pytest.mark.parametrize(
    ("include", "call"),
    [("", "printf"), ("#include <stdio.h>", "printf"), ("#include <cstdio>", "std::printf")],
)
def test_printf_writes_whole_lines_before_the_launch_returns(include, call, build, capfd):
    launch(PRINTING.format(include=include, call=call), 0, grid=(50, 1, 1), block=(8, 1, 1), build=build)
    lines = capfd.readouterr().out.splitlines()
    expected = [f"block {b} thread {t:2}: text {t / 2:.3f} !" for b in range(50) for t in range(8)]
    assert sorted(lines) == sorted([*expected, "plain", "one", "x"])


ASSERTING = """{include}
extern "C" __global__ void kernel(int* out) {{

    assert((blockIdx.x != 2 || threadIdx.x != 3) && "odd, %d");
    out[threadIdx.x] = 1;
}}
"""


@BUILDS
@pytest.mark.parametrize("include", ["", "#include <assert.h>", "#include <cassert>"])
def test_an_assertion_that_fails_ends_the_launch(include, build):
    source, out = ASSERTING.format(include=include), np.zeros(8, np.int32)
    expression = 'assert((blockIdx.x != 2 || threadIdx.x != 3) && "odd, %d")'
    message = f"kernel: in block (2, 0, 0) thread (3, 0, 0) stops at {expression} (kernel.cu:4)"
    with pytest.raises(LaunchError, match=re.escape(message)):
        launch(source, out, grid=(4, 1, 1), block=(8, 1, 1), build=build)
    launch(source, out, grid=(2, 1, 1), block=(8, 1, 1), build=build)
    np.testing.assert_array_equal(out, 1)


def test_assertions_are_not_looked_at_where_ndebug_says_so():
    source = "#define NDEBUG\n" + ASSERTING.format(include="#include <cassert>")
    out = np.zeros(8, np.int32)
    launch(source, out, grid=(4, 1, 1), block=(8, 1, 1))
    np.testing.assert_array_equal(out, 1)
    source = ASSERTING.format(include="#include <assert.h>")
    launch(source, out, grid=(4, 1, 1), block=(8, 1, 1), defines={"NDEBUG": 1})


def test_a_trap_ends_the_launch():
    source = 'extern "C" __global__ void kernel(int* out) {\n if (threadIdx.x == 3) __trap();\n}'
    with pytest.raises(LaunchError, match=re.escape("thread (3, 0, 0) stops at __trap() (kernel.cu:2)")):
        launch(source, np.zeros(1, np.int32), block=(8, 1, 1))


QUALIFIERS = """
#include <cuda_runtime.h>
#include <device_launch_parameters.h>
#include <algorithm>
#include <cstdint>
#include <limits>

__constant__ float weights[4] = {1.0f, 2.0f, 3.0f, 4.0f};
__device__ const int offsets[] = {10, 20};
__device__ __managed__ int calls = 0;
constexpr int COUNT = 4;
static __device__ __forceinline__ float first(const float* __restrict__ from) { return from[0]; }
static inline __device__ float second(const float* __restrict from) { return from[1]; }
__noinline__ __device__ float third(const float* from) { return from[2]; }
__device__ __host__ constexpr int square(int x) { return x * x; }
template <typename T, int N>
__device__ T dot(const T (&a)[N], const T* b) {
    T sum = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) sum += a[i] * b[i];
    return sum;
}
template <typename T, int N>
__global__ void __launch_bounds__(32, 2) kernel(const T* __restrict__ in, T* __restrict__ out) {
    static_assert(square(N) == 16);
    __shared__ T own[N];
    const int lane = threadIdx.x & (warpSize - 1);
    if (lane < N) own[lane] = in[lane];
    __syncthreads();
    if (lane == 0) {
        out[0] = dot(weights, own);
        out[1] = first(own) + 10 * second(own) + 100 * third(own);
        out[2] = offsets[1] + std::min(COUNT, 9);
        out[3] = T(std::numeric_limits<std::uint8_t>::max());
        atomicAdd(&calls, 1);
    }
}
"""


@pytest.mark.first(1)
@pytest.mark.parametrize("build", [FAST, CHECKED, COUNTED], ids=["fast", "checked", "counted"])
def test_qualifiers_templates_and_constants(build):
    out = np.zeros(4, np.float32)
    inputs = np.array([1, 2, 3, 4], np.float32)
    launch(QUALIFIERS, inputs, out, entry="kernel<float, 4>", block=(32, 1, 1), build=build)
    np.testing.assert_array_equal(out, [30, 321, 24, 255])


def test_headers_of_half_types_and_fragments():
    source = """
    #include <cuda_fp16.h>
    #include <cuda_bf16.h>
    #include <mma.h>
    using namespace nvcuda;
    extern "C" __global__ void kernel(const float* in, float* out) {
        __shared__ __align__(32) half a[256];
        __shared__ __align__(32) half b[256];
        for (int i = threadIdx.x; i < 256; i += 32) {
            a[i] = __float2half(in[i]);
            b[i] = __float2half(__bfloat162float(__float2bfloat16(i % 17 == 0 ? 2.0f : 0.0f)));
        }
        __syncwarp();
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> right;
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums;
        wmma::fill_fragment(sums, 1.0f);
        wmma::load_matrix_sync(left, a, 16);
        wmma::load_matrix_sync(right, b, 16);
        wmma::mma_sync(sums, left, right, sums);
        wmma::store_matrix_sync(out, sums, 16, wmma::mem_row_major);
    }
    """
    memory = np.zeros(2 * 256 + 32, np.float32)
    start = -memory.ctypes.data % 128 // 4
    inputs, out = memory[start : start + 256], memory[start + 256 : start + 512]
    inputs[:] = np.arange(256)
    launch(source, inputs, out, block=(32, 1, 1))
    np.testing.assert_array_equal(out, 2 * np.arange(256) + 1)


@pytest.mark.parametrize("name", ["__nv_fast_thing", "cudaMalloc", "surf2Dread", "tex2D"])
def test_what_the_emulator_does_not_have_is_named(name):
    source = f'#include <cuda_fp16.h>\nextern "C" __global__ void kernel(int* out) {{\n out[0] = {name}(1, 2);\n}}'
    with pytest.raises(CompileError, match=rf"kernel.cu:3:.*{name}"):
        launch(source, np.zeros(1, np.int32))


def test_a_header_next_to_a_source_may_end_in_h(tmp_path):
    path = tmp_path / "kernel.cu"
    path.write_text('#include "value.h"\nextern "C" __global__ void kernel(int* out) { *out = VALUE; }')
    out = np.zeros(1, np.int32)
    for value in (3, 4):
        (tmp_path / "value.h").write_text(f"#define VALUE {value}\n")
        launch(path, out)
        assert out[0] == value


def test_code_is_that_for_a_gpu():
    source = """
    __host__ __device__ int where() {
    #if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
        return 1;
    #else
        return 0;
    #endif
    }
    extern "C" __global__ void kernel(int* out) { *out = where(); }
    """
    out = np.zeros(1, np.int32)
    launch(source, out)
    assert out[0] == 1
