"""Code that GPUs cannot run and a host's compiler accepts: functions and variables of the host."""

import re

import pytest
from typer.testing import CliRunner

from tilewright.core.errors import CompileError
from tilewright.emulator.launches import check_launch
from tilewright.kernels.source.source_launch import read_launch
from tilewright.runtime import nvrtc
from tilewright.runtime.device_errors import check_for_gpu
from tilewright.tools.cli import main

KERNEL = """
// tilewright: grid=1 block=32 x=float32[32] y=out:float32[32]
#include "own.cuh"
{declared}
__global__ void each(const float* x, float* y) {{
    y[threadIdx.x] = {value};
}}
"""
HEADER = """
struct Pair { float first; float sum() { return first; } };
inline float by_header(float v) { return v; }
"""
CLIP = "float clip(float v) { return v < 0 ? 0 : v; }"

WRONG = {
    "a function": (CLIP, "clip(x[0])", 4),
    "a constexpr function": (f"constexpr {CLIP}", "clip(x[0])", 4),
    "a function template": ("template <class T> T clip(T v) { return v; }", "clip(x[0])", 4),
    "a function of a namespace": (f"namespace host {{ {CLIP} }}", "host::clip(x[0])", 4),
    "a function that says so": (f"__host__ {CLIP}", "clip(x[0])", 6),
    "a template's argument": (f"{CLIP}\ntemplate <class F> __device__ int run(F f) {{ return f(1); }}", "run(clip)", 7),
    "a default argument": (f"{CLIP}\n__device__ float at(float v = clip(1)) {{ return v; }}", "at()", 4),
    "a function of a header": ("", "by_header(x[0])", 3),
    "a method of a header": ("", "Pair{x[0]}.sum()", 2),
    "a constructor": ("struct Of { float v; Of(float v) : v(v) {} };", "Of(x[0]).v", 4),
    "a lambda": ("auto clip = [](float v) { return v; };", "clip(x[0])", 6),
    "a variable": ("float scale = 2;", "x[0] * scale", 6),
    "an array": ("static float scales[] = {1, 2};", "x[0] * scales[threadIdx.x % 2]", 6),
    "a static member": ("struct Of { static float scale; };\nfloat Of::scale = 2;", "x[0] * Of::scale", 7),
    "a function of C++'s library": ("#include <algorithm>", "(std::sort(y, y + 1), x[0])", 6),
}  # fmt: skip
RIGHT = {
    "constants": ("constexpr float A = 2; const int B = 3; static const float C = 2;", "x[0] * A * B * C"),
    "constant arrays": ("constexpr float A[] = {2, 3};", "x[0] * A[threadIdx.x % 2]"),
    "constant members": ("struct Of { static constexpr float a = 2; static const int b = 3; };", "Of::a * Of::b"),
    "functions of both": (f"__host__ __device__ {CLIP}", "clip(x[0])"),
    "what only the host uses": ('const char* NAME = "x"; int unused; struct Of { int v; int of_host(); };', "Of{1}.v"),
    "the rest of a class": ("", "Pair{x[0]}.first"),
    "functions of C++'s library": ("#include <algorithm>\n#include <cmath>", "std::max(std::sqrt(x[0]), 1.f)"),
    "headers that NVRTC lacks": ("#include <array>\n#include <tuple>", "std::array<float, 2>{x[0]}[0]"),
}  # fmt: skip


def launch_of(folder, declared, value):
    (folder / "own.cuh").write_text(HEADER)
    file = folder / "each.cu"
    file.write_text(KERNEL.format(declared=declared, value=value))
    return read_launch(str(file))


@pytest.mark.first(5)
@pytest.mark.parametrize("what", WRONG)
def test_what_only_the_host_has_is_an_error_with_its_line(what, tmp_path):
    declared, value, line = WRONG[what]
    launch = launch_of(tmp_path, declared, value)
    with pytest.raises(CompileError):
        nvrtc.user_source_ptx(launch.file, launch.entry, launch.defines, "sm_90a")
    with pytest.raises(CompileError, match=rf"\b(?:each\.cu|own\.cuh)\({line}\): error: ") as error:
        check_for_gpu(launch.file, launch.entry, launch.defines)
    assert "JIT" not in str(error.value) and str(error.value).count("error: ") == 1


@pytest.mark.parametrize("what", RIGHT)
def test_what_a_gpu_has_or_never_meets_is_none(what, tmp_path):
    launch = launch_of(tmp_path, *RIGHT[what])
    check_for_gpu(launch.file, launch.entry, launch.defines)


@pytest.mark.further
def test_a_launch_is_checked_for_it(tmp_path):
    with pytest.raises(CompileError, match=r"each\.cu\(4\): error: .* write __device__ ahead of it"):
        check_launch(launch_of(tmp_path, CLIP, "clip(x[0])"))


def test_a_product_is_checked_for_it(tmp_path):
    file = tmp_path / "product.cu"
    file.write_text(f"""// tilewright: grid=(N,M) block=1
{CLIP}
__global__ void product(const float* A, const float* B, float* C, int M, int N, int K) {{
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += A[blockIdx.y * K + k] * B[k * N + blockIdx.x];
    C[blockIdx.y * N + blockIdx.x] = sum + 0 * clip(sum);
}}
""")
    result = CliRunner().invoke(main.app, ["check", str(file), "--shape", "4"])
    assert result.exit_code == 1
    assert re.search(r"product\.cu\(2\): error: .* write __device__ ahead of it", str(result.exception))
