"""Source files that say nothing of how they are launched: what the commands make of them with options."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tilewright.core.errors import ConfigError, KernelNotFoundError
from tilewright.tools.cli import explain as explain_command
from tilewright.tools.cli import main

PRODUCT = """#include <iostream>
template <typename T, int TS>
__global__ void tiled(const T* in_a, const T* in_b, float* to, int rows, int cols, int depth) {
    __shared__ float tile_a[TS][TS], tile_b[TS][TS];
    const int row = blockIdx.y * TS + threadIdx.y, col = blockIdx.x * TS + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < depth; k += TS) {
        const int of_a = k + threadIdx.x, of_b = k + threadIdx.y;
        tile_a[threadIdx.y][threadIdx.x] = row < rows && of_a < depth ? in_a[row * depth + of_a] : 0;
        tile_b[threadIdx.y][threadIdx.x] = col < cols && of_b < depth ? in_b[of_b * cols + col] : 0;
        __syncthreads();
        for (int i = 0; i < TS; ++i) sum += tile_a[threadIdx.y][i] * tile_b[i][threadIdx.x];
        __syncthreads();
    }
    if (row < rows && col < cols) to[row * cols + col] = sum * FACTOR;
}
int main() { std::cout << "host"; }
"""
SCALE = """
__global__ void scale(const float* x, float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = FACTOR * x[i];
}
"""
LAUNCH = ("--args", "A,B,C,M,N,K", "--block", "TS,TS", "--grid", "ceil(N/TS),ceil(M/TS)")
DEFINES = ("--define", "T=float,TS=16:8,16", "--define", "FACTOR=1")


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs a command in a folder that has the sources; gives its words."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(explain_command, "present_gpu", lambda: None)
    (tmp_path / "tiled.cu").write_text(PRODUCT)
    (tmp_path / "scale.cu").write_text(SCALE)

    def command(*arguments, status=0):
        result = CliRunner().invoke(main.app, [*map(str, arguments)], env={"COLUMNS": "300"})
        assert result.exit_code == status, (result.output, result.exception)
        return " ".join(result.output.split())

    return command


def test_check(run):
    found = run("check", "tiled.cu", "naive", *LAUNCH, *DEFINES, "--shape", "20x30x40")
    assert "tiled.cu:tiled nothing found TS=16" in found
    assert "2 kernels checked" in found
    found = run("check", "tiled.cu", *LAUNCH, *DEFINES, "--define", "FACTOR=2", "--shape", 16, status=1)
    assert "wrong result 16x16x16, beta 0 the relative error" in found


def test_explain_counts(run):
    pytest.importorskip("cuda.core")
    run("explain", "tiled.cu", *LAUNCH, *DEFINES, "--config", "TS=8", "--shape", 64, "--json", "found.json")
    found = json.loads(Path("found.json").read_text())
    assert (found["kernel"], found["config"]) == ("tiled.cu:tiled", {"TS": 8, "FACTOR": 1})
    # 8 x 8 blocks read a tile of A and of B in each of 8 steps, by 2 warps.
    assert found["global_load"]["requests"] == 64 * 8 * 2 * 2


def test_bench_and_tune(run):
    found = run("bench", "tiled.cu", *LAUNCH, *DEFINES, "--shape", 32, "--engine", "emulator")
    assert re.search(r"tiled.cu:tiled TS=16 FACTOR=1 \S+ \S+ ok", found)
    tuned = ("tune", "tiled.cu", *LAUNCH, "--shape", 32, "--engine", "emulator", "--journal", "journal.jsonl")
    assert "2 of 2 configs tried" in run(*tuned, *DEFINES)
    assert "2 of 2 configs tried, 2 of them in earlier runs" in run(*tuned, *DEFINES)
    # Another factor is another kernel, whose results are wrong.
    assert "2 of 2 configs tried: 2 wrong" in run(*tuned, *DEFINES, "--define", "FACTOR=3", status=1)


def test_sass_needs_only_what_compilers_need(run):
    pytest.importorskip("cuda.core")
    assert "tiled.cu:tiled<float,16> for sm_90a" in run("sass", "tiled.cu", *DEFINES)
    assert "tiled.cu:tiled TS=16,FACTOR=1 for sm_90a" in run("sass", "tiled.cu", *LAUNCH, *DEFINES)
    facts = ("--define", "FACTOR=2.5f", "--arch", "sm_80", "--json", "code.json")
    assert "scale.cu:scale for sm_80" in run("sass", "scale.cu", *facts)
    Path("code.json").unlink()
    assert ".visible .entry" in run("sass", "scale.cu", *facts, "--ptx")
    assert json.loads(Path("code.json").read_text())["config"] == {"FACTOR": "2.5f"}


TRANSPOSED = """
// tilewright: block=64 grid=(ceil(N/8),ceil(M/8)) layout=NT
__global__ void of_columns(const float* A, const float* B, float* C, int M, int N, int K) {
    const int row = blockIdx.y * 8 + threadIdx.x / 8, col = blockIdx.x * 8 + threadIdx.x % 8;
    if (row >= M || col >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[col * K + k];
    C[row * N + col] = sum;
}
"""


@pytest.mark.further
def test_a_sources_own_orders_are_what_is_meant(run, tmp_path):
    (tmp_path / "own.cu").write_text(TRANSPOSED)
    assert "own.cu:of_columns nothing found" in run("check", "own.cu", "--shape", "20x30x40")
    assert "20x30x40, NT float32" in run("bench", "own.cu", "--shape", "20x30x40", "--engine", "emulator")
    pytest.importorskip("cuda.core")
    assert "20x30x40, NT float32" in run("explain", "own.cu", "--shape", "20x30x40")
    assert "own.cu:of_columns for sm_90a" in run("sass", "own.cu", "--arch", "sm_90a")
    tuned = run(
        "tune", "own.cu", "--shape", "20x30x40", "--engine", "emulator", "--budget", "9", "--journal", tmp_path / "j"
    )
    assert "20x30x40, NT float32" in tuned
    refused = CliRunner().invoke(main.app, ["check", "own.cu", "--layout", "TN"])
    assert "takes layouts NT of A and B, got TN" in str(refused.exception)


def test_kernels_that_are_no_products(run):
    words = ("--args", "x=float32[n] y=out:float32[n] n=100", "--grid", "ceil(n/64)", "--block", 64)
    found = run("check", "scale.cu", *words, "--define", "FACTOR=2.5f")
    assert "scale.cu:scale nothing found x=float32[100] y=out:float32[100] n=100 FACTOR=2.5f grid=2 block=64" in found


def test_a_kernel_without_pointers_is_no_product(run):
    Path("counted.cu").write_text(
        "// tilewright: grid=2 block=32 n=64\n__device__ int count;\n"
        "__global__ void counted(int n) { if (blockIdx.x * 32 + threadIdx.x < n) atomicAdd(&count, 1); }\n"
    )
    assert "counted.cu:counted nothing found n=64 grid=2 block=32" in run("check", "counted.cu")
    refused = CliRunner().invoke(main.app, ["bench", "counted.cu"])
    assert "counted.cu:counted is no matrix product, by its parameters and what is said" in str(refused.exception)


def test_buffers_make_a_product_none(run):
    """Whatever its parameters are called."""
    Path("tiled.cu").write_text(
        PRODUCT.replace("in_a", "A").replace("in_b", "B").replace("to[", "C[").replace("* to", "* C")
    )
    sizes = {"M": "rows", "N": "cols", "K": "depth"}
    buffers = "A=float32[rows,depth] B=float32[depth,cols] C=out:float32[rows,cols] rows=20 cols=30 depth=40"
    grid = re.sub("[MNK]", lambda one: sizes[one[0]], "ceil(N/TS),ceil(M/TS)")
    words = ("--args", buffers, "--grid", grid, "--block", "TS,TS", *DEFINES)
    assert "C=out:float32[20,30] rows=20 cols=30 depth=40" in run("check", "tiled.cu", *words)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (
            ("check", "naive", "--define", "A=1"),
            ConfigError,
            "--define takes a source file, as in softmax.cu, got naive",
        ),
        (("bench", "naive", "--block", "1"), ConfigError, "--block takes one source file, as in softmax.cu, got naive"),
        (("tune", "a.cu", "b.cu", "--grid", "1"), ConfigError, "--grid takes one source file, .* got a.cu b.cu"),
        (
            ("check", "tiled.cu", *DEFINES[:1], "16"),
            ConfigError,
            "--define must read NAME=VALUE, as in TS=16 or T=half, got '16'",
        ),
        (
            ("check", "tiled.cu", *DEFINES),
            ConfigError,
            "nothing says what 'to' is: (.|\n)*or give --args A,B,C,M,N,K",
        ),
        (
            ("check", "scale.cu", "--grid", "1", "--block", "32", "--define", "FACTOR=2"),
            ConfigError,
            "nothing says what 'x' is: (.|\n)*of a kernel that is no matrix product, (.|\n)*x=float32\\[rows,cols\\]",
        ),
        (("check", "scale.cu", "--args", "m=3"), ConfigError, "m=3 is nothing that scale takes: there are x, y, n, "),
        (("check", "scale.cu", "--args", "n=3"), ConfigError, "nothing says what x of scale is: .*give as --args"),
        (
            ("check", "tiled.cu", *LAUNCH[:2], *DEFINES),
            ConfigError,
            "does not say how tiled .*\n.*\nor give --block and",
        ),
        (("check", "tiled.cu", *LAUNCH), ConfigError, "nothing says what T of tiled is: .*\n.*\nor give --define T=16"),
        (("check", "tiled.cu", "--args", "A,B C,D"), ConfigError, "--args takes one list of parameters"),
        (("check", "tiled.cu", *LAUNCH, *DEFINES, "--define", "T=int"), Exception, "in_a of tiled points to int"),
        (("explain", "gone.cu", "--block", "1"), KernelNotFoundError, "no kernel can be read from gone.cu"),
    ],
)
def test_wrong_usage_is_said(run, arguments, error, words):
    result = CliRunner().invoke(main.app, [*arguments])
    assert isinstance(result.exception, error)
    assert re.search(words, str(result.exception)), str(result.exception)
