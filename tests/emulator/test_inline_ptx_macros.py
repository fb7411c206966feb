"""Inline PTX whose text or names macros make, on the emulator: as nvcc's preprocessor leaves it."""

import contextlib
import ctypes

import numpy as np
import pytest
from emulator_helpers import launch

from tilewright.core.errors import CompileError, LaunchError
from tilewright.emulator.checker import Checker
from tilewright.emulator.compiler import CHECKED, compile_kernel
from tilewright.emulator.engine import Array
from tilewright.emulator.program import Watch, load
from tilewright.runtime import nvrtc
from tilewright.runtime.base import Matrix

HEADER = """#pragma once
#define TYPE "u32"
#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define BARRIER "bar.sync 0;"
__device__ __forceinline__ unsigned sum(unsigned a, unsigned b) {
    unsigned r;
    asm("add." TYPE " %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
    return r;
}
"""

SOURCE = """#include "names.cuh"
#include <cstdio>
#define PTX asm volatile
#define SHIFT 2
#define OF(name) name##_both
#define first_both "mul.lo." TYPE " %0, %1, %1;"
#define COMPUTE(op, type, to, ...)                         \\
    asm(#op "." #type " %0, %1, " TEXT(SHIFT) ";"          \\
        : "=r"(to##_value)                                 \\
        : __VA_ARGS__)
#define LOAD_4(f) f(0, 0) f(1, 4) f(2, 8) f(3, 12)
#define LOAD(i, at) asm volatile("ld.global." TYPE " %0, [%1+" #at "];" : "=r"(held[i]) : "l"(in));
#if __CUDA_ARCH__ >= 900
#define EITHER "or"
#else
#define EITHER "xor"
#endif
extern "C" __global__ void kernel(const unsigned* in, unsigned* out) {
    __shared__ unsigned tile[64];
    unsigned my_value, square, held[4];
    const unsigned thread = threadIdx.x;
    PTX(OF(first) : "=r"(square) : "r"(thread));
    COMPUTE(shl, b32, my, "r"(thread));
    LOAD_4(LOAD)
    asm(EITHER ".b32 %0, %0, %1;" : "+r"(square) : "r"(held[0] & 1u));
    tile[thread] = square;
    asm volatile(BARRIER ::: "memory");
    out[thread] = sum(tile[thread ^ 33], my_value + held[3]);
}
"""


@pytest.fixture
def source(tmp_path):
    (tmp_path / "names.cuh").write_text(HEADER)
    path = tmp_path / "kernel.cu"
    path.write_text(SOURCE)
    return path


def findings(path, *arrays, block):
    library = compile_kernel(path, "kernel", build=CHECKED)
    held = [Array("array", Matrix(one.ctypes.data, 1, one.size, one.size, "uint32")) for one in arrays]
    checker = Checker(library, held)
    pointers = [ctypes.c_void_p(one.ctypes.data) for one in arrays]
    with contextlib.suppress(LaunchError):
        load(library, "kernel", CHECKED).launch((1, 1, 1), (block, 1, 1), pointers, watch=Watch(checker))
    return [(one.kind, str(one.lines[0])) for one in checker.findings()]


def test_text_and_names_may_be_made_by_macros(source):
    numbers, out = np.arange(101, 105, dtype=np.uint32), np.zeros(64, np.uint32)
    launch(source, numbers, out, block=(64, 1, 1))
    thread = np.arange(64)
    np.testing.assert_array_equal(out, ((thread ^ 33) ** 2 | 1) + 4 * thread + 104)
    whole = HEADER.replace("#pragma once", "") + SOURCE.partition("<cstdio>")[2]
    assert nvrtc.compile_source(whole, "kernel.cu", "kernel", {}, "sm_90a").code


def test_faults_are_found_on_their_lines(source):
    numbers, out = np.arange(4, dtype=np.uint32), np.zeros(64, np.uint32)
    source.write_text(SOURCE.replace("    asm volatile(BARRIER", "    // asm volatile(BARRIER"))
    lines = SOURCE.split("\n")
    read = next(i for i, line in enumerate(lines, 1) if "tile[thread ^ 33]" in line)
    found = findings(source, numbers, out, block=64)
    assert sorted(found) == [("race", f"kernel.cu:{read - 2}"), ("uninitialized read", f"kernel.cu:{read}")]
    few = np.arange(3, dtype=np.uint32)
    source.write_text(SOURCE)
    load_line = next(i for i, line in enumerate(lines, 1) if line.startswith("    LOAD_4"))
    assert findings(source, few, out, block=64) == [("out of bounds", f"kernel.cu:{load_line}")]


def test_what_is_not_known_is_named_where_its_macro_is_used(source):
    source.write_text(SOURCE.replace("OF(first) :", '"vabsdiff." TYPE " %0, %1, %1;" :'))
    line = next(i for i, text in enumerate(SOURCE.split("\n"), 1) if "PTX(OF" in text)
    with pytest.raises(CompileError, match=rf"the inline PTX at kernel.cu:{line}: vabsdiff.u32. Of PTX it knows"):
        launch(source, np.zeros(4, np.uint32), np.zeros(64, np.uint32))
    (source.parent / "names.cuh").write_text(HEADER.replace('"add."', '"vadd." '))
    source.write_text(SOURCE)
    with pytest.raises(CompileError, match=r"the inline PTX at names.cuh:8: vadd"):
        launch(source, np.zeros(4, np.uint32), np.zeros(64, np.uint32))


def test_a_header_that_changes_is_read_anew(source):
    numbers, out = np.zeros(4, np.uint32), np.zeros(64, np.uint32)
    launch(source, numbers, out, block=(64, 1, 1))
    before = out.copy()
    (source.parent / "names.cuh").write_text(HEADER.replace('"add."', '"sub."'))
    launch(source, numbers, out, block=(64, 1, 1))
    assert (out != before).any()
