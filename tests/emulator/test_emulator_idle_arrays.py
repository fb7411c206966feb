"""Static shared memory: of all functions that a kernel reaches, in whatever way, and of nothing else."""

import pytest

from tilewright.core.gpus import STATIC_SHARED_LIMIT, gpu_named
from tilewright.emulator.compiler import CHECKED, FAST
from tilewright.emulator.launches import check_launch, compile_launch
from tilewright.emulator.symbols import shared_variables
from tilewright.kernels.source.source_launch import read_launch
from tilewright.runtime import nvrtc
from tilewright.tools.explain.launch_explanation import explain_launch

SOURCE = """
// tilewright: grid=64 block=32 a=float32[32] b=out:float32[64,32]
#define BACKWARDS(x, array)                                   \\
    __shared__ float array[32];                               \\
    __syncthreads();                                          \\
    array[threadIdx.x] = x;                                   \\
    __syncthreads();                                          \\
    return array[31 - threadIdx.x]
#define CALL(a, b) a##b
#define NAME_OF_MACRO by_macro
#define REPEATED(one) one one one one one one one one
#include "used.cuh"
using Step = float (*)(float);

__device__ float big(float x) {  // longer than all else, and left out: lines of what stays must not be taken for its
    volatile __shared__ float of_big[9000];
    int i = 0;
    REPEATED(REPEATED(REPEATED(of_big[i++] = x;)))
    return of_big[0];
}
__device__ float directly(float x) { BACKWARDS(x, of_directly); }
__device__ float by_template(float x) { BACKWARDS(x, of_template); }
__device__ float by_template(int x) { BACKWARDS(x, of_idle_overload); }
__device__ float pasted(float x) { BACKWARDS(x, of_pasting); }
__device__ float pointed(float x) { BACKWARDS(x, of_pointer); }
__device__ float listed(float x) { BACKWARDS(x, of_table); }
__device__ float overloaded(int x) { BACKWARDS(x, of_idle_int); }
__device__ float overloaded(float x) { BACKWARDS(x, of_float); }
namespace inner {
__device__ float spaced(float x) { BACKWARDS(x, of_namespace); }
}
namespace other {
__device__ float spaced(float x) { BACKWARDS(x, of_idle_namespace); }
}
struct Functor {
    __device__ float operator()(float x) const { BACKWARDS(x, of_functor); }
    __device__ float operator-(float x) const { BACKWARDS(x, of_operator); }
    __device__ float operator+(float x) const { BACKWARDS(x, of_idle_operator); }
    __device__ float method(float x) const { BACKWARDS(x, of_method); }
    static __device__ float member(float x) { BACKWARDS(x, of_static_member); }
};
template <class Run>
__device__ float through(Run run, float x) {
    return run(x);
}
template <int N>
__device__ float recursion(float x) {
    if constexpr (N > 0) return recursion<N - 1>(x) + 1;
    BACKWARDS(x, of_recursion);
}
template <class T>
__device__ float instance(T x) {
    BACKWARDS(x, of_instance);
}
template __device__ float instance<int>(int);
__shared__ float outside[32], outside_and_idle[32];

__global__ void other_kernel(const float* a, float* b) {
    __shared__ __align__(16) float of_other_kernel[9000];
    of_other_kernel[threadIdx.x] = a[threadIdx.x];
    b[0] = of_other_kernel[1] + big(a[0]);
}
template <Step RUN>
__global__ void kernel(const float* a, float* b) {
    __shared__ float unused[9000], unused_too[4];  // unused
    volatile __shared__ __align__(16) float unused_aligned[4];
    __shared__ float by_macro[32], never[2];
    float x = a[threadIdx.x];
    NAME_OF_MACRO[threadIdx.x] = outside[threadIdx.x] = x;
    constexpr Step table[] = {listed};
    Step pointer = pointed;
    Functor functor;
    x = RUN(directly(x)) + CALL(pas, ted)(x) + pointer(x) + table[0](x) + overloaded(x) + inner::spaced(x);
    x += through(functor, x) + (functor - x) + functor.method(x) + Functor::member(x) + recursion<3>(x);
    x += through([](float x) -> float { BACKWARDS(x, of_lambda); }, x) + instance(x) + by_header(x);
    __syncthreads();
    b[blockIdx.x * 32 + threadIdx.x] = x * by_macro[31 - threadIdx.x] + outside[31 - threadIdx.x];
}
"""
HEADER = """
inline __device__ float by_header(float x) { BACKWARDS(x, of_header); }
inline __device__ float by_header_and_idle(float x) { BACKWARDS(x, of_idle_header); }
"""
REACHED = {
    "of_directly", "of_template", "of_pasting", "of_pointer", "of_table", "of_float", "of_namespace", "of_functor",
    "of_operator", "of_method", "of_static_member", "of_recursion", "of_lambda", "of_instance", "of_header", "outside",
    "by_macro",
}  # fmt: skip


@pytest.fixture
def source(tmp_path):
    (tmp_path / "used.cuh").write_text(HEADER)
    file = tmp_path / "idle.cu"
    file.write_text(SOURCE)
    return file


def launch_of(source):
    return read_launch(f"{source}:kernel<by_template>")


@pytest.mark.further
def test_shared_memory_is_of_what_a_kernel_reaches(source):
    launch = launch_of(source)
    program = compile_launch(launch, CHECKED)
    found = {one.name for one in shared_variables(program.library)}
    assert found == REACHED
    assert program.static_shared_bytes == 128 * len(REACHED) < STATIC_SHARED_LIMIT < 3 * 4 * 9000
    assert compile_launch(launch, FAST).static_shared_bytes == program.static_shared_bytes
    report = nvrtc.compile_user_source(launch.file, launch.entry, launch.defines, "sm_90a").report
    assert report.shared_bytes == program.static_shared_bytes
    assert check_launch(launch).findings == []
    explained = explain_launch(launch, gpu_named("H200")).traffic.groups
    assert min(explained[f"shared_{kind}"].requests for kind in ("load", "store")) == 64 * len(REACHED)


@pytest.mark.further
def test_what_is_wrong_there_is_found_with_its_line(source):
    text = source.read_text()
    body = "{\n__shared__ float array[32];\narray[threadIdx.x] = x;\nreturn array[31 - threadIdx.x];\n}"
    source.write_text(
        text.replace("by_template(float x) { BACKWARDS(x, of_template); }", f"by_template(float x) {body}")
    )
    found = check_launch(launch_of(source)).findings
    assert [(one.kind, one.memory) for one in found] == [("uninitialized read", "array[1]"), ("race", "array[0]")]
    line = text[: text.index("by_template(float x)")].count("\n") + 3
    assert [str(one) for one in found[1].lines] == [f"idle.cu:{line}", f"idle.cu:{line + 1}"]
