"""Launches that a GPU refuses, hangs at or faults on are errors on the emulator, after which it goes on working."""

import ctypes
import os
import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from emulator_helpers import launch

from tilewright.core.errors import LaunchError, MemoryFullError
from tilewright.emulator.compiler import compile_kernel
from tilewright.emulator.program import THREADS_VARIABLE, load

DOUBLE = """
extern "C" __global__ void kernel(int* cells) {
    __shared__ int shared[64];
    shared[threadIdx.x] = cells[threadIdx.x];
    __syncthreads();
    cells[threadIdx.x] = shared[threadIdx.x] + shared[63 - threadIdx.x];
}
"""


def body(statements):
    return "\n".join(['extern "C" __global__ void kernel(int* cells) {', *statements, "}"])


def assert_the_emulator_works():
    cells = np.arange(64, dtype=np.int32)
    launch(DOUBLE, cells, block=(64, 1, 1))
    np.testing.assert_array_equal(cells, 63)


DEADLOCKS = {
    "at different calls": (
        ["if (threadIdx.x < 10)", "__syncthreads();", "else", "__syncthreads();"],
        r"10 threads wait at __syncthreads \(kernel.cu:3\), 54 threads wait at __syncthreads \(kernel.cu:5\), 0 ",
    ),
    "at different kinds of barrier": (
        ["if (threadIdx.x)", "__syncthreads_count(1);", "else", "__syncthreads_or(1);"],
        r"63 threads wait at __syncthreads_count \(kernel.cu:3\), 1 thread waits at __syncthreads_or \(kernel.cu:5\)",
    ),
    "in the second round of a loop": (
        ["for (int i = 0; i <= int(threadIdx.x == 7); ++i)", "__syncthreads();", "__syncthreads();"],
        r"1 thread waits at __syncthreads \(kernel.cu:3\), 63 threads wait at __syncthreads \(kernel.cu:4\), 0 ",
    ),
    "at a warp operation": (
        ["if (threadIdx.x != 40)", "__syncwarp();", "else", "__syncthreads();"],
        r"31 threads wait at __syncwarp \(kernel.cu:3\) with the mask 0xffffffff, "
        r"1 thread waits at __syncthreads \(kernel.cu:5\), 32 threads have returned",
    ),
    "with different masks": (
        ["if (threadIdx.x > 1) return;", "cells[0] = __any_sync(threadIdx.x ? 2 : 3, 1);", "__syncwarp(3);"],
        r"1 thread waits at __any_sync \(kernel.cu:3\) with the mask 0x00000003, "
        r"1 thread waits at __syncwarp \(kernel.cu:4\) with the mask 0x00000003, 62 threads have returned",
    ),
    "at different warp operations": (
        ["if (threadIdx.x % 2)", "__ballot_sync(-1, 1);", "else", "__all_sync(-1, 1);"],
        r"32 threads wait at __ballot_sync \(kernel.cu:3\) with .*, 32 threads wait at __all_sync \(kernel.cu:5\) with",
    ),
}


@pytest.mark.first(2)
@pytest.mark.parametrize("case", DEADLOCKS)
def test_threads_that_wait_for_ever_are_named(case):
    statements, message = DEADLOCKS[case]
    with pytest.raises(LaunchError, match=r"^kernel: in block \(0, 0, 0\) threads wait for others .*: " + message):
        launch(body(statements), np.zeros(1, dtype=np.int32), block=(64, 1, 1))
    assert_the_emulator_works()


def test_the_block_that_waits_for_ever_is_named():
    one = "blockIdx.x == 5 && blockIdx.y == 2 && threadIdx.x == 0"
    source = body([f"if ({one})", "__syncthreads();", "else __syncthreads();"])
    with pytest.raises(LaunchError, match=r"in block \(5, 2, 0\) .* 1 thread waits .* 31 threads wait "):
        launch(source, np.zeros(1, dtype=np.int32), grid=(100, 4, 1), block=(32, 1, 1))


def test_a_block_after_one_that_was_abandoned_starts_afresh(monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_EMULATOR_THREADS", "1")  # so that both launches run on the same fibers
    for _ in range(3):
        with pytest.raises(LaunchError, match="63 threads wait at __syncthreads"):
            launch(
                body(["if (threadIdx.x != 9)", "__syncthreads();", "else __syncthreads_or(1);"]),
                np.zeros(1, np.int32),
                block=(64, 1, 1),
            )
        assert_the_emulator_works()


def test_a_mask_without_the_lane_itself():
    source = body(["if (threadIdx.x > 2)", "__syncwarp(1u << 9);"])
    with pytest.raises(
        LaunchError,
        match=r"in block \(0, 0, 0\) thread \(3, 0, 0\) calls __syncwarp \(kernel.cu:3\) "
        r"with the mask 0x00000200, which leaves out its own lane 3",
    ):
        launch(source, np.zeros(1, dtype=np.int32), block=(32, 1, 1))
    assert_the_emulator_works()


@pytest.mark.parametrize(
    ("statement", "type_name", "alignment"),
    [
        ("cells[0] = reinterpret_cast<float4*>(cells + 1)->w;", "float4", 16),
        ("*reinterpret_cast<double*>(cells + 3) = 1;", "double", 8),
        ("*reinterpret_cast<int*>(reinterpret_cast<char*>(cells) + 2) = 1;", "int", 4),
    ],
)
def test_a_misaligned_access(statement, type_name, alignment):
    cells = np.zeros(64, dtype=np.int32)[:16]
    with pytest.raises(
        LaunchError,
        match=rf"block \(2, 0, 0\) thread \(4, 0, 0\) uses the address 0x\w+ for '[a-z ]*{type_name}', "
        rf"which must be at a multiple of {alignment} bytes \(kernel.cu:3\)",
    ):
        launch(
            body(["if (blockIdx.x == 2 && threadIdx.x == 4) {", statement, "}"]), cells, grid=(3, 1, 1), block=(8, 1, 1)
        )
    assert_the_emulator_works()


REFUSED = {
    "threads": ({"block": (1024, 2, 1)}, "a block has at most 1024 threads, got 2048"),
    "block x": ({"block": (1025, 1, 1)}, "block along x must be 1 to 1024 threads, got 1025"),
    "block z": ({"block": (1, 1, 65)}, "block along z must be 1 to 64 threads, got 65"),
    "no threads": ({"block": (1, 0, 1)}, "block along y must be 1 to 1024 threads, got 0"),
    "grid x": ({"grid": (2**31, 1, 1)}, "grid along x must be 1 to 2147483647 blocks, got 2147483648"),
    "grid y": ({"grid": (1, 65536, 1)}, "grid along y must be 1 to 65535 blocks, got 65536"),
    "grid z": ({"grid": (1, 1, 65536)}, "grid along z must be 1 to 65535 blocks, got 65536"),
    "no blocks": ({"grid": (0, 1, 1)}, "grid along x must be 1 to 2147483647 blocks, got 0"),
    "dynamic": (
        {"shared_bytes": 227 * 1024 - 255},
        "at most 232448 bytes of shared memory, got 256 static and 232193 dynamic",
    ),
    "negative": ({"shared_bytes": -1}, "at most 232448 bytes of shared memory, got 256 static and -1 dynamic"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_launch_that_a_gpu_refuses(case):
    options, message = REFUSED[case]
    cells = np.zeros(64, dtype=np.int32)
    with pytest.raises(LaunchError, match=f"^kernel: .*{message}$"):
        launch(DOUBLE, cells, **options)


def test_too_much_static_shared_memory():
    source = body(["__shared__ int shared[48 * 256 + 1];", "cells[0] = shared[cells[0]]++;"])
    with pytest.raises(LaunchError, match="at most 49152 bytes of static shared memory, the kernel declares 49156"):
        launch(source, np.zeros(1, dtype=np.int32))


def test_as_much_static_shared_memory_as_there_is():
    cells = np.zeros(1, dtype=np.int32)
    launch(
        body(["__shared__ int shared[48 * 256];", "shared[cells[0]] = 0;", "cells[0] = shared[48 * 256 - 1];"]), cells
    )
    assert cells[0] == -1


@pytest.mark.parametrize("arguments", [(), (1,), (np.zeros(1), 1)])
def test_arguments_that_are_not_the_kernels(arguments):
    sizes = tuple(8 if isinstance(argument, np.ndarray) else 4 for argument in arguments)
    with pytest.raises(LaunchError, match=re.escape(f"takes parameters of (8,) bytes, got {sizes}")):
        launch(DOUBLE, *arguments)


ENDLESS = {
    "many blocks": ["for (int i = 0; i < 100000; ++i) atomicAdd(cells, 1);"],
    "a loop of barriers": ["for (;;) __syncthreads();"],
    "a loop of shuffles": ["for (;;) cells[0] = __shfl_xor_sync(0xffffffff, cells[0], 1);"],
}


@pytest.mark.first(1)
@pytest.mark.parametrize("case", ENDLESS)
def test_an_interrupt_ends_a_launch(case):
    cells = np.zeros(1, dtype=np.int32)
    compile_kernel(body(ENDLESS[case]), "kernel")  # before the clock runs
    interrupt = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    start = time.monotonic()
    interrupt.start()
    with pytest.raises(KeyboardInterrupt):
        launch(body(ENDLESS[case]), cells, grid=(2**31 - 1, 1, 1), block=(64, 1, 1))
    assert time.monotonic() - start < 5
    assert_the_emulator_works()


def test_too_little_memory_of_a_thread_is_no_fault_of_the_kernel():
    source = f"#include <new>\n{body(['if (threadIdx.x == 3) throw std::bad_alloc();'])}"
    with pytest.raises(MemoryFullError, match="too little memory: kernel: "):
        launch(source, np.zeros(1, np.int32), block=(32, 1, 1))
    assert_the_emulator_works()


LITTLE_MEMORY = """
import resource
import numpy as np
from emulator_helpers import launch
SOURCE = 'extern "C" __global__ void kernel(int* cells) { __syncthreads(); }'
launch(SOURCE, np.zeros(1, np.int32))
mapped = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (mapped + 2**25, resource.RLIM_INFINITY))
try:
    launch(SOURCE, np.zeros(1, np.int32), grid=(64, 1, 1), block=(64, 1, 1))
except MemoryError as error:
    print(error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
def test_too_little_memory_for_blocks_is_no_fault_of_the_kernel():
    paths = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), THREADS_VARIABLE: "1"}
    command = [sys.executable, "-c", LITTLE_MEMORY.replace("grid=(64", "cluster=8, grid=(64")]
    done = subprocess.run(command, env=paths, capture_output=True, text=True, check=False)
    assert "too little memory: kernel: the emulator cannot run it: no memory for stacks" in done.stdout, done.stderr


def test_threads_of_python_launch_at_the_same_time():
    arrays = [np.arange(64, dtype=np.int32) for _ in range(8)]
    threads = [threading.Thread(target=launch, args=(DOUBLE, cells), kwargs={"block": (64, 1, 1)}) for cells in arrays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(arrays, 63)


@pytest.mark.further
def test_launches_that_end_with_an_error_while_other_blocks_begin(monkeypatch):
    """A worker that has just taken a block, and finds the launch stopped, goes on to the next launch."""
    monkeypatch.setenv("TILEWRIGHT_EMULATOR_THREADS", "4")
    program = load(compile_kernel(body(["__syncwarp(1 << (threadIdx.x + 1) % 8);"]), "kernel"), "kernel")
    for _ in range(1000):
        with pytest.raises(LaunchError, match="leaves out its own lane"):
            program.launch((8, 1, 1), (8, 1, 1), [ctypes.c_void_p(0)])
    assert_the_emulator_works()
