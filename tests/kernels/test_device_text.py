"""Text that compilers get of a user's source: without host code, and with the values that are asked for."""

import re

import numpy as np
import pytest
from typer.testing import CliRunner

import tilewright
from tilewright.core.errors import CompileError, ConfigError
from tilewright.emulator.launches import check_launch
from tilewright.kernels.source.device_text import device_text
from tilewright.kernels.source.host_code import without_host_code
from tilewright.kernels.source.lines import Known
from tilewright.kernels.source.products import START, from_source
from tilewright.kernels.source.source_launch import read_launch
from tilewright.tools.cli import main

KERNEL = "__global__ void own(float* x) { x[threadIdx.x] = twice(x[threadIdx.x]); }\n"
TWICE = "__device__ float twice(float v) { return 2 * v; }\n"


def left(text):
    """The words that stay."""
    return " ".join(without_host_code(text).split())


HOST = {
    "a launcher": 'extern "C" void solve(float* x) { own<<<1, 32>>>(x); cudaDeviceSynchronize(); }',
    "main": "int main(int argc, char** argv) { if (argc > 1) { return 1; } return 0; }",
    "in a block": 'extern "C" {\nvoid solve(float* x) { own<<<1, 32>>>(x); }\n}',
    "a template": "template <typename T, int N>\nvoid run(T* x) { own<<<1, N>>>(x); }",
    "a declaration": "void solve(float* x);",
    "a class and a variable": "struct Timer { cudaEvent_t start; void go() { cudaEventRecord(start); } };\n"
    "static Timer timer;\nvoid solve(float* x) { timer.go(); }",
    "what it calls": "static void fill(std::vector<float>& x) { x[0] = 1; }\n"
    "int main() { std::vector<float> x(9); fill(x); }",
    "a type": "using Clock = std::chrono::steady_clock;\ntypedef std::vector<float> Floats;\n"
    "Floats now() { return {}; }",
    "bound": 'PYBIND11_MODULE(NAME, m) { m.def("own", &solve); }',
    "marked": "__host__ void solve(float* x) { own<<<1, 32>>>(x); }",
    "of a name": "__host__ inline float twice(float v) { std::vector<float> two{v, v}; return two[0] + two[1]; }",
    "launching, of a name": "template <class T>\nvoid twice(T* x) { own<<<1, 32>>>(x); }",
    "an operator": "std::ostream& operator<<(std::ostream& to, const dim3& of) { return to << of.x; }",
}


@pytest.mark.parametrize("host", HOST.values(), ids=HOST)
def test_host_code_is_left_out(host):
    found = without_host_code(f"{TWICE}{host}\n{KERNEL}")
    words = " ".join(found.split()).replace('extern "C" { } ', "")
    assert words == f"{TWICE}{KERNEL}".replace("\n", " ").strip()
    assert found.count("\n") == f"{TWICE}{host}\n{KERNEL}".count("\n")
    assert found.split("\n")[-2] == KERNEL.strip()


NEEDED = {
    "called": "constexpr int four() { return 4; }\n__device__ float twice(float v) { return four() * v / 2; }\n",
    "by a macro": "#define TIMES(v) both(v)\nconstexpr float both(float v) { return 2 * v; }\n"
    "__device__ float twice(float v) { return TIMES(v); }\n",
    "marked by a macro": "#define ON_GPU __device__ __forceinline__\nON_GPU float twice(float v) { return 2 * v; }\n",
    "a class": "struct Pair { float a, b; };\n__device__ float twice(float v) { Pair p{v, v}; return p.a + p.b; }\n",
    "a variable": "const int two = 2;\n__device__ float twice(float v) { return two * v; }\n",
    "specialised": "template <typename T> struct Two;\n"
    "template <> struct Two<float> { static constexpr int value = 2; };\n"
    "__device__ float twice(float v) { return Two<float>::value * v; }\n",
    "an enum": "enum Kinds { ONE = 1, TWO };\n__device__ float twice(float v) { return TWO * v; }\n",
    "in a namespace": "namespace maths {\n__device__ float two(float v) { return 2 * v; }\n}\nusing namespace maths;\n"
    "__device__ float twice(float v) { return two(v); }\n",
}


@pytest.mark.parametrize("device", NEEDED.values(), ids=NEEDED)
def test_what_kernels_need_stays(device):
    host = "int main() { own<<<1, 32>>>(nullptr); }"
    assert left(f"{device}{KERNEL}{host}") == " ".join(f"{device}{KERNEL}".split())
    assert without_host_code(device + KERNEL) == device + KERNEL


def test_a_name_of_another_namespace_calls_nothing_here():
    """As reduce of CUDA's samples, which cg::reduce has the name of; it is instantiated too."""
    device = "namespace cg = cooperative_groups;\n__device__ float twice(float v) { return cg::solve(v) + v; }\n"
    host = "template <class T> void solve(T* x) { x[0] = 1; }\ntemplate void solve<int>(int* x);\n"
    assert left(f"{device}{host}{KERNEL}") == " ".join(f"{device}{KERNEL}".split())
    own = "namespace maths {\nconstexpr float two(float v) { return 2 * v; }\n}\n"
    assert left(f"{own}{TWICE.replace('2 * v', 'maths::two(v)')}{host}{KERNEL}").startswith(" ".join(own.split()))


def test_headers_for_hosts_are_left_out():
    named = ["<iostream>", "<vector>", "<cublas_v2.h>", '"helper_cuda.h"', "<sys/time.h>", "<torch/extension.h>"]
    cached = ["<cuda_runtime.h>", "<cooperative_groups.h>", '"own.h"', "<cstdint>", "<cub/cub.cuh>"]
    text = "".join(f"#include {name}\n" for name in [*named, *cached])
    assert left(text + KERNEL) == " ".join((text.split("\n", len(named))[-1] + KERNEL).split())


def test_brackets_that_do_not_match_leave_a_source_as_it_is():
    text = f"#ifdef A\nvoid f() {{\n#else\nint f() {{\n#endif\n}}\n{KERNEL}"
    assert without_host_code(text) == text


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("#define TS 16\n", "#define TS 32\n"),
        ("#define TS 16  // rows\n", "#define TS 32  // rows\n"),
        ("#  define TS (4 * 4)\n", "#  define TS 32\n"),
        ("#define TS\n", "#define TS 32\n"),
        ("constexpr int A = 1, TS = f(2, 3), B = 4;", "constexpr int A = 1, TS = 32, B = 4;"),
        ("static const unsigned int TS = 16;", "static const unsigned int TS = 32;"),
        ("#define TSX 16\n#define XTS 16\n#define TS(x) 16\n", "#define TSX 16\n#define XTS 16\n#define TS(x) 16\n"),
        ("// #define TS 16\n", "// #define TS 16\n"),
        ("const float TS = 1.5f, S = 2.0f;", "const float TS = 32, S = 2.0f;"),
    ],
)
def test_a_source_s_own_value_is_replaced(text, found):
    given = device_text(text, {"TS": 32})
    assert given.text == found
    assert given.ahead == ("" if "=" in text else "#define TS 32\n")


OWN = f"#define TILE 16\n{START.read_text().replace('TILE=16:8,16,32', 'TILE=16:8,32')}"


@pytest.mark.first(1)
@pytest.mark.parametrize(
    "before", ["#define TILE 16\n", "constexpr int TILE = 16;\n", "#ifndef TILE\n#define TILE 16\n#endif\n"]
)
def test_a_parameter_replaces_a_source_s_own_value(before):
    kernel = from_source(OWN.replace("#define TILE 16\n", before))
    a, b = np.ones((40, 30), "f4"), np.ones((30, 50), "f4")
    for tile in (8, 16):
        found = tilewright.matmul(a, b, kernel=kernel, config=f"TILE={tile}", engine="emulator")
        assert (found == 30).all()


def test_a_header_that_defines_a_parameter_anew_is_named(tmp_path):
    (tmp_path / "own.h").write_text("#undef TILE\n#define TILE 16\n")
    (tmp_path / "own.cu").write_text(OWN.replace("#define TILE 16", '#include "own.h"'))
    ones = np.ones((4, 4), "f4")
    assert tilewright.matmul(ones, ones, kernel=f"{tmp_path}/own.cu", engine="emulator")[0, 0] == 4
    with pytest.raises(CompileError, match="TILE=8 was asked for, and a header of the source defines TILE anew"):
        tilewright.matmul(ones, ones, kernel=f"{tmp_path}/own.cu", config="TILE=8", engine="emulator")


def test_launches_know_a_source_s_own_constants():
    text = (
        "#define TS 16u\nconst int HALF = TS / 2, MORE = N * 2;\n#define THREADS (TS * (HALF))\n// const int NO = 4;\n"
    )
    assert Known(text, {"N": 3}).names == {"TS": 16, "HALF": 8, "MORE": 6, "THREADS": 128, "N": 3}
    known = Known(text, {"TS": 4})
    assert known({"TS": 8})["THREADS"] == 32
    kernel = from_source(
        START.read_text().replace("TILE=16:8,16,32", "").replace("__global__", "#define TILE 8\n__global__", 1)
    )
    assert (kernel.parameters, kernel.block(kernel.config()), kernel.tile(kernel.config())[:2]) == (
        (),
        (8, 8, 1),
        (8, 8),
    )


def test_launches_know_constants_that_only_the_host_uses(tmp_path):
    text = (
        "const int THREADS = 64;\ntemplate <int THREADS>\n"
        "__global__ void own(float* x) { x[threadIdx.x + blockIdx.x * THREADS] *= 2; }\n"
        "void solve(float* x, int n) { const int BLOCKS = 9; own<THREADS><<<BLOCKS, THREADS>>>(x); }\n"
    )
    (tmp_path / "own.cu").write_text(text)
    launch = read_launch(f"{tmp_path}/own.cu", "x=inout:float32[2*THREADS]", block="THREADS", grid="2")
    assert (launch.entry, launch.block, launch.contents.buffers[0].shape) == ("own<64>", (64, 1, 1), (128,))
    assert check_launch(launch).findings == []
    with pytest.raises(ConfigError, match="nothing is called 'BLOCKS'"):
        read_launch(f"{tmp_path}/own.cu", "x=inout:float32[2*THREADS]", block="THREADS", grid="BLOCKS")


WHOLE_FILE = """#include <cuda_runtime.h>
#include <iostream>
#include <vector>
#include <cstdio>
using namespace std;
#define CHECK(call) if ((call) != cudaSuccess) { cerr << "failed" << endl; exit(1); }
static vector<float> results;
// tilewright: block=256 grid=ceil(n/256) x=float32[n] y=out:float32[n] n=1000
__global__ void scale(const float* x, float* y, uint n) {
    const uint i = blockIdx.x * blockDim.x + threadIdx.x;
    const ulong at = i; const ushort two = 2;
    if (i < n) y[at] = two * x[i];
}
float seconds() { struct Both { int a; } both{1}; return both.a; }
extern "C" void solve(const float* x, float* y, int n) {
    scale<<<(n + 255) / 256, 256>>>(x, y, n);
    CHECK(cudaDeviceSynchronize());
}
int main() { cout << seconds() << endl; printf("%d\\n", 3); }
"""


def test_a_whole_program_runs_and_compiles(tmp_path):
    (tmp_path / "scale.cu").write_text(WHOLE_FILE)
    result = CliRunner().invoke(main.app, ["check", str(tmp_path / "scale.cu")])
    assert "nothing found" in result.output, (result.output, result.exception)
    pytest.importorskip("cuda.core")
    result = CliRunner().invoke(main.app, ["sass", str(tmp_path / "scale.cu"), "--ptx"])
    assert ".visible .entry" in result.output, (result.output, result.exception)


@pytest.mark.parametrize(
    "own",
    ["typedef unsigned int uint;", "using uint = unsigned;", "#define uint unsigned int", "using uint = uint32_t;"],
)
def test_a_source_may_define_uint_itself(own):
    pytest.importorskip("cuda.core")
    from tilewright.runtime import nvrtc  # noqa: PLC0415 it is slow to load

    arguments = "float* C, float* A, float* B, uint M, uint N, uint K"
    text = f"#include <cstdint>\n{own}\n__global__ void f({arguments}) {{ C[0] = M; }}"
    kernel = from_source(text, block=32, grid=1)
    config = kernel.config()
    problem = tilewright.core.problem.Problem(8, 8, 8)
    assert nvrtc.compile(kernel, config, kernel.variant(problem, config), "sm_80").entry


def test_kernels_that_launch_kernels_are_refused():
    text = START.read_text().replace("float sum = 0.0f;", "own<<<1, 1>>>(); float sum = 0.0f;")
    with pytest.raises(ConfigError, match=re.escape("launches kernels (<<<) on the GPU")):
        from_source(text)
