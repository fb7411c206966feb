"""NVRTC compiles real kernels here, with no GPU: code, reports, errors, and the cache on disk."""

import dataclasses
import multiprocessing
import os
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from cuda.bindings import nvrtc as bindings

from tilewright.core.errors import CompileError, EngineUnavailableError
from tilewright.kernels.config import Config
from tilewright.kernels.kernel import Kernel, Parameter, Tile
from tilewright.kernels.support import Support, Variant
from tilewright.runtime import cache, nvrtc

ARCHS = ("sm_75", "sm_80", "sm_89", "sm_90a", "sm_120")

COPY = """
extern "C" __global__ void __launch_bounds__(THREADS) copy(const float* from, float* to) {
  __shared__ float tile[THREADS];
  tile[threadIdx.x] = from[threadIdx.x];
  __syncthreads();
  to[threadIdx.x] = tile[THREADS - 1 - threadIdx.x];
}
"""

# A block of 1024 leaves 64 registers to a thread, and 100 sums are live at once.
SPILLING = """
extern "C" __global__ void __launch_bounds__(1024) spilling(const float* x, float* y) {
  float sums[100] = {};
  for (int j = 0; j < 64; ++j) {
    #pragma unroll
    for (int i = 0; i < 100; ++i) sums[i] += x[j * 100 + i] * x[threadIdx.x];
  }
  #pragma unroll
  for (int i = 0; i < 100; ++i) y[threadIdx.x * 100 + i] = sums[i];
}
"""

TENSOR = """
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>
extern "C" __global__ void tensor(const half* a, const half* b, float* c) {
  using namespace nvcuda;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> right;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
  wmma::fill_fragment(sum, 0.0f);
  wmma::load_matrix_sync(left, a, 16);
  wmma::load_matrix_sync(right, b, 16);
  wmma::mma_sync(sum, left, right, sum);
  wmma::store_matrix_sync(c, sum, 16, wmma::mem_row_major);
}
"""


@pytest.fixture(autouse=True)
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv(cache.FOLDER_VARIABLE, str(tmp_path))
    return tmp_path


@pytest.fixture
def compiler(monkeypatch):
    """Counts the compilations."""

    counting = SimpleNamespace(calls=0)
    compile_program = bindings.nvrtcCompileProgram

    def compiled(*arguments):
        counting.calls += 1
        return compile_program(*arguments)

    monkeypatch.setattr(bindings, "nvrtcCompileProgram", compiled)
    return counting


def compile_copy(arch="sm_80", threads=256):
    return nvrtc.compile_source(COPY, "copy.cu", "copy", {"THREADS": threads}, arch)


@pytest.mark.parametrize("arch", ARCHS)
def test_real_machine_code_for_every_architecture(arch):
    cubin = compile_copy(arch)
    assert cubin.code[:4] == b"\x7fELF"
    assert b"copy" in cubin.code
    assert (cubin.entry, cubin.arch) == ("copy", arch)
    assert 8 <= cubin.report.registers <= 32
    assert cubin.report.spill_bytes == 0
    assert cubin.report.shared_bytes == 1024


def test_a_kernel_is_compiled_with_its_config_and_specialization(tmp_path):
    source = tmp_path / "named.cu"
    source.write_text(
        'extern "C" __global__ void named(float* x) { __shared__ float s[BM * (1 + EDGES + 2 * ALIGNED)];'
        "s[threadIdx.x] = x[0]; __syncthreads(); x[threadIdx.x] = s[threadIdx.x ^ 1]; }"
    )
    kernel = Kernel(
        rung=1,
        name="other",
        idea="",
        source=source,
        support=Support(vectorized=False),
        parameters=(Parameter("BM", 32, (32,), ""),),
        tile=lambda config: Tile(config.BM, 1, 1),
        block=lambda _: (32, 1, 1),
    )
    for edges, aligned in ((False, False), (True, False), (True, True)):
        cubin = nvrtc.compile(kernel, Config({"BM": 64}), Variant(edges, aligned), "sm_80")
        assert cubin.entry == "named"
        assert cubin.report.shared_bytes == 4 * 64 * (1 + edges + 2 * aligned)


def test_ptx_of_a_kernel(tmp_path):
    source = tmp_path / "named.cu"
    source.write_text('extern "C" __global__ void named(float* x) { x[BM + 2 * EDGES + ALIGNED] = 1; }')
    parameters = (Parameter("BM", 32, (32,), ""),)
    kernel = Kernel(
        name="other",
        idea="",
        source=source,
        support=Support(vectorized=False),
        parameters=parameters,
        tile=lambda _: Tile(1, 1, 1),
        block=lambda _: (32, 1, 1),
    )
    text = nvrtc.ptx(kernel, Config({"BM": 64}), Variant(edges=True, aligned=True), "sm_90a")
    assert ".target sm_90a" in text and ".entry named(" in text
    assert f"+{4 * 67}]" in text
    assert text.endswith("\n") and "\0" not in text
    source.write_text("int broken = ;")
    with pytest.raises(CompileError) as caught:
        nvrtc.ptx(kernel, Config({"BM": 64}), Variant(edges=True, aligned=True), "sm_90a")
    assert "named.cu does not compile for sm_90a -DBM=64 -DEDGES=1 -DALIGNED=1\n" in str(caught.value)
    assert "named.cu(1): error: expected an expression" in str(caught.value)


def test_cuda_headers_are_found():
    assert nvrtc.compile_source(TENSOR, "tensor.cu", "tensor", {}, "sm_80").report.registers > 0


def test_the_report_counts_spills():
    assert nvrtc.compile_source(SPILLING, "spilling.cu", "spilling", {}, "sm_80").report.spill_bytes > 100


def test_the_report_is_of_the_kernel_asked_for():
    both = COPY + SPILLING
    assert nvrtc.compile_source(both, "both.cu", "copy", {"THREADS": 32}, "sm_80").report.shared_bytes == 128
    spilling = nvrtc.compile_source(both, "both.cu", "spilling", {"THREADS": 32}, "sm_80").report
    assert spilling.shared_bytes == 0
    assert spilling.spill_bytes > 100


def test_the_report_adds_up_what_ptxas_prints():
    log = """
ptxas info    : Compiling entry function 'other' for 'sm_80'
ptxas         .     8 bytes stack frame, 9 bytes spill stores, 9 bytes spill loads
ptxas info    : Used 99 registers, used 1 barriers, 99 bytes smem
ptxas info    : Compiling entry function 'mine' for 'sm_80'
    456 bytes stack frame, 600 bytes spill stores, 40 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 456 bytes cumulative stack size, 8192 bytes smem, 360 bytes cmem[0]
"""
    assert dataclasses.astuple(nvrtc.parse_report(log, "mine")) == (255, 640, 8192)


def test_a_source_that_does_not_compile_shows_the_compilers_words():
    with pytest.raises(CompileError) as caught:
        nvrtc.compile_source(COPY + "int broken = ;", "copy.cu", "copy", {"THREADS": 64}, "sm_80")
    message = str(caught.value)
    assert message.startswith("copy.cu does not compile for sm_80 -DTHREADS=64\n")
    assert "copy.cu(8): error: expected an expression" in message
    assert "\0" not in message


def test_too_much_shared_memory_is_the_compilers_error():
    with pytest.raises(CompileError, match="too much shared data"):
        compile_copy(threads=2**20)


def test_an_unknown_architecture_is_an_error():
    with pytest.raises(CompileError, match="gpu-architecture"):
        compile_copy("sm_12")


def test_an_entry_that_is_not_there_is_an_error(compiler):
    for _ in range(2):  # nothing of it is cached
        with pytest.raises(CompileError, match=r"copy\.cu has no kernel paste"):
            nvrtc.compile_source(COPY, "copy.cu", "paste", {"THREADS": 64}, "sm_80")
    assert compiler.calls == 2


def test_the_second_time_comes_from_the_cache(compiler):
    first = compile_copy()
    assert compile_copy() == first
    assert compiler.calls == 1


def test_what_the_cache_has_needs_no_search_for_headers(monkeypatch):
    """Where one of CUDA's packages of headers is missing, that search starts another Python."""
    first = compile_copy()
    monkeypatch.setattr(nvrtc, "_cuda_headers", lambda: pytest.fail("CUDA's headers are looked for"))
    assert compile_copy() == first


def test_whatever_the_result_depends_on_is_compiled_anew(compiler, monkeypatch, tmp_path):
    compile_copy()
    compile_copy(threads=128)
    compile_copy(arch="sm_89")
    nvrtc.compile_source(COPY + "\n", "copy.cu", "copy", {"THREADS": 256}, "sm_80")
    nvrtc.compile_source(COPY, "renamed.cu", "copy", {"THREADS": 256}, "sm_80")
    assert compiler.calls == 5
    include = tmp_path / "include"
    include.mkdir()
    monkeypatch.setattr(nvrtc, "INCLUDE", include)
    compile_copy()
    (include / "shared.cuh").write_text("#define X 1\n")
    compile_copy()
    (include / "shared.cuh").write_text("#define X 2\n")
    compile_copy()
    assert compiler.calls == 8
    monkeypatch.setattr(nvrtc, "version", lambda: (99, 0))
    compile_copy()
    assert compiler.calls == 9


def test_a_source_includes_the_shared_headers(monkeypatch, tmp_path):
    (tmp_path / "answer.cuh").write_text("#define ANSWER 42\n")
    monkeypatch.setattr(nvrtc, "INCLUDE", tmp_path)
    source = (
        '#include "answer.cuh"\n'
        'extern "C" __global__ void f(int* x) { __shared__ int s[ANSWER]; s[x[0]] = 1; x[1] = s[x[2]]; }'
    )
    assert nvrtc.compile_source(source, "f.cu", "f", {}, "sm_80").report.shared_bytes == 168


@pytest.mark.first(2)
@pytest.mark.parametrize("suffix", [".cubin", ".log"])
@pytest.mark.parametrize("damage", [b"", b"damaged", None])
def test_a_damaged_entry_is_compiled_anew(compiler, empty_cache, suffix, damage):
    first = compile_copy()
    (entry,) = empty_cache.rglob(f"*{suffix}")
    entry.unlink() if damage is None else entry.write_bytes(damage)
    assert compile_copy() == first
    assert compiler.calls == 2
    assert compile_copy() == first
    assert compiler.calls == 2


def compile_in_child(folder, start, results):
    os.environ[cache.FOLDER_VARIABLE] = folder
    start.wait()
    results.put(compile_copy("sm_90a"))


@pytest.mark.further
def test_two_processes_at_once(empty_cache):
    context = multiprocessing.get_context("spawn")
    start, results = context.Event(), context.Queue()
    children = [context.Process(target=compile_in_child, args=(str(empty_cache), start, results)) for _ in range(2)]
    for child in children:
        child.start()
    start.set()
    first, second = results.get(timeout=60), results.get(timeout=60)
    for child in children:
        child.join()
    assert first == second == compile_copy("sm_90a")
    assert not list(empty_cache.rglob("*.part"))


def test_threads_compile_at_once():
    with ThreadPoolExecutor(4) as pool:
        cubins = list(pool.map(lambda threads: compile_copy(threads=threads), range(32, 32 * 9, 32)))
    assert [cubin.report.shared_bytes for cubin in cubins] == [4 * threads for threads in range(32, 32 * 9, 32)]


def test_a_machine_without_nvrtc_says_what_to_install(monkeypatch):
    def missing():
        raise RuntimeError("Failed to dlopen libnvrtc.so.13")

    monkeypatch.setattr(bindings, "nvrtcVersion", missing)
    with pytest.raises(EngineUnavailableError, match=r"pip install 'nvidia-cuda-nvrtc==13\.\*'.*libnvrtc.so.13"):
        compile_copy()


def test_without_the_wheel_of_crt_headers_a_toolkit_is_added(monkeypatch, tmp_path):
    wheel, toolkit = tmp_path / "wheel", tmp_path / "toolkit"
    wheel.mkdir()
    (toolkit / "include").mkdir(parents=True)
    monkeypatch.setattr(nvrtc.pathfinder, "find_nvidia_header_directory", {"cudart": str(wheel), "cccl": "core"}.get)
    monkeypatch.setenv("CUDA_PATH", str(toolkit))
    find = nvrtc._cuda_headers.__wrapped__
    assert find() == (str(wheel), str(toolkit / "include"), "core")
    (wheel / "crt").mkdir()
    assert find() == (str(wheel), "core")


@pytest.mark.further
def test_code_says_whether_a_source_synchronises_its_grid():
    text = """#include <cooperative_groups.h>
    extern "C" __global__ void kernel(float* x) {
        cooperative_groups::grid_group grid = cooperative_groups::this_grid();
        x[grid.thread_rank()] = 1;
        %s
        x[0] += x[grid.size() - 1];
    }"""
    for arch, statement in (("sm_80", ""), ("sm_90a", "grid.sync();")):
        found = nvrtc.compile_source(text % statement, "kernel.cu", "kernel", {}, arch)
        assert found.cooperative == bool(statement)
