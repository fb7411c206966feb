"""Static shared memory that a kernel has no use for: of other kernels of its file, or named nowhere."""

from tilewright.engines import nvrtc
from tilewright.engines.emulator.compiler import CHECKED
from tilewright.engines.emulator.launches import check_launch, compile_launch
from tilewright.engines.emulator.symbols import shared_variables
from tilewright.gpus import STATIC_SHARED_LIMIT
from tilewright.kernels.host_code import without_idle_arrays
from tilewright.kernels.launches import read_launch

IDLE = """
// tilewright: grid=1 block=32 a=float32[32] b=out:float32[32]
#include "used.cuh"
#define NAME_OF_MACRO by_macro[0]
__device__ void helper(float* b) {
    __shared__ float of_helper[9000];
    of_helper[threadIdx.x] = 1;
    b[0] += of_helper[1];
}
__device__ float called(float x) {
    static __shared__ float of_called[32];
    of_called[threadIdx.x] = x;
    return of_called[threadIdx.x];
}
__device__ float by_header(float x) {
    __shared__ float of_header[32];
    of_header[threadIdx.x] = x;
    return of_header[threadIdx.x];
}
__global__ void other(const float* a, float* b) {
    __shared__ __align__(16) float tile[9000];
    tile[threadIdx.x] = a[threadIdx.x];
    helper(b);
}
template <int N>
__global__ void kernel(const float* a, float* b) {
    __shared__ float unused[9000], unused_too[N];  // unused
    volatile __shared__ __align__(16) float unused_aligned[4];
    __shared__ __align__(16) float tile[9000];
    __shared__ float by_macro[1], never[2];
    tile[threadIdx.x] = called(a[threadIdx.x]);
    if (threadIdx.x == 0) NAME_OF_MACRO = by_header_too(1);
    __syncthreads();
    b[threadIdx.x] = tile[31 - threadIdx.x] * by_macro[0];
}
"""


def test_shared_memory_that_a_kernel_does_not_use_is_not_there(tmp_path):
    """As under nvcc, but that variables declared with others that are used keep their place."""
    (tmp_path / "used.cuh").write_text(
        "__device__ float by_header(float x);\n__device__ float by_header_too(float x) { return by_header(x); }\n"
    )
    file = tmp_path / "idle.cu"
    file.write_text(IDLE)
    launch = read_launch(f"{file}:kernel<4>")
    program = compile_launch(launch, CHECKED)
    found = {one.name for one in shared_variables(program.library)}
    assert found == {"tile", "by_macro", "never", "of_called", "of_header"}
    assert program.static_shared_bytes < STATIC_SHARED_LIMIT < 4 * 4 * 9000
    assert check_launch(launch).findings == []
    report = nvrtc.compile_foreign(launch.file, launch.entry, launch.defines, "sm_90a").report
    assert report.shared_bytes == 4 * (9000 + 1 + 32 + 32)


def test_of_sources_that_are_not_understood_all_shared_memory_stays():
    text = IDLE + "}\n"
    assert without_idle_arrays(text, "kernel") == text
    assert without_idle_arrays(IDLE, "missing") == IDLE
    assert len(without_idle_arrays(IDLE, "other").splitlines()) == len(IDLE.splitlines())
