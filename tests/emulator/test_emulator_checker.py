"""Accesses that the checker takes for ordered, and for a race, one by one."""

import ctypes

import numpy as np
import pytest

from tilewright.core.errors import LaunchError
from tilewright.emulator.checker import Checker, padded
from tilewright.emulator.compiler import CHECKED, OPTIMIZE_VARIABLE, compile_kernel
from tilewright.emulator.engine import Array
from tilewright.emulator.program import Watch, load
from tilewright.runtime.base import Matrix

FIRST = 8
"""Line of a kernel's first statement."""

HEADERS = {"copy_async": "ptx/async_copy.cuh", "wmma": "ptx/wmma.cuh", "multiply_async": "ptx/wgmma.cuh"}
"""Headers that a kernel with these words needs."""

HEADER = """#include "ptx/tensor_map.cuh"
#include "{}"
extern "C" __global__ void kernel(float* C, int rows, float* out, unsigned* counters, const float* input) {{
    __shared__ __align__(128) float s[256];
    __shared__ short halves[64]; __shared__ bool flag; __shared__ Barrier full, empty;
    const int self = threadIdx.x, lane = self % 32, block = blockIdx.x;
    if (rows == 9) out[block] = lane + s[rows]++ + halves[rows]++ + flag + full.state + empty.state;
"""


def look(*statements, **options):
    """Run a kernel of these statements; what is found, by kind and line of the statement, counted from 0."""
    return {
        (finding.kind, *sorted({line.line - FIRST for line in finding.lines if line}))
        for finding in look_at(*statements, **options)
    }


def look_at(*statements, threads=64, blocks=1, schedule=0, written=True):
    """Run a kernel of these statements; the findings."""
    body = "\n".join([*statements, "}"])
    header = next((header for word, header in HEADERS.items() if word in body), "ptx/mbarrier.cuh")
    library = compile_kernel(HEADER.format(header) + body, "kernel", build=CHECKED)
    arrays = {name: np.zeros((8, 32), np.float32) for name in ("C", "out", "input")} | {
        "counters": np.zeros((1, 64), np.uint32)
    }
    checked = []
    for name, array in arrays.items():
        rows, cols = array.shape
        shown = cols - 2 if name == "C" else cols  # its rows end in gaps
        matrix = Matrix(array.ctypes.data, rows, shown, cols, array.dtype.name)
        checked.append(Array(name, matrix, constant=name == "input", written=written or name != "C"))
    checker = Checker(library, checked)
    pointers = {name: ctypes.c_void_p(array.ctypes.data) for name, array in arrays.items()}
    arguments = [pointers["C"], ctypes.c_int(8), pointers["out"], pointers["counters"], pointers["input"]]
    watch = Watch(checker, schedule=schedule)
    try:
        load(library, "kernel", CHECKED).launch((blocks, 1, 1), (threads, 1, 1), arguments, 0, watch)
    except LaunchError:
        assert checker.findings()
    return checker.findings()


ORDERED = {
    "each thread to itself": ["s[self] = 1; s[self] += 1;"],
    "by a barrier": ["s[self] = 1;", "__syncthreads();", "out[self] = s[63 - self];"],
    "by a barrier, for those that have not returned": [
        "s[self] = 1; __syncthreads();",
        "if (self >= 40) return;",
        "if (self < 24) s[self] += s[self + 40]; __syncthreads();",
        "if (self >= 16) return;",
        "out[self] = s[39 - self] + s[self + 48]; __syncthreads(); out[15 - self] = 0;",
    ],
    "by a barrier that votes": ["s[self] = 1;", "__syncthreads_or(1);", "out[self] = s[63 - self];"],
    "by __syncwarp, within the warp": ["s[self] = 1;", "__syncwarp();", "out[self] = s[self ^ 31];"],
    "by __syncwarp, after a read": [
        "s[self] = 1; __syncwarp();",
        "out[self] = s[self ^ 1];",
        "__syncwarp();",
        "s[self] = 2;",
    ],
    "by __syncwarp of some lanes": ["s[self] = 1;", "if (lane < 4) { __syncwarp(15); out[self] = s[self ^ 3]; }"],
    "by __syncwarps one after the other": [
        "if (self < 32) { s[self] = 1;",
        "if (lane < 16) __syncwarp(0x0000ffff); if (lane >= 8) __syncwarp(0xffffff00);",
        "if (lane == 20) out[0] = s[3]; }",
    ],
    "reads": ["s[self] = 1; __syncthreads();", "out[self] = s[0];"],
    "parts of a word": ["halves[self] = 1;", "__syncthreads();", "out[self] = halves[63 - self];"],
    "by an mbarrier": [
        "if (self == 0) barrier_init(&full, 64); __syncthreads();",
        "s[self] = 1;",
        "barrier_arrive(&full); barrier_wait(&full, 0);",
        "out[self] = s[63 - self];",
    ],
    "a producer and consumers, in turns": [
        "if (self == 0) { barrier_init(&full, 1); barrier_init(&empty, 32); } __syncthreads();",
        "for (int i = 0; i < 6; ++i) {",
        "if (self < 32) { barrier_wait(&full, i % 2); out[self] = s[0]; barrier_arrive(&empty); }",
        "else if (self == 32) { if (i > 0) barrier_wait(&empty, (i + 1) % 2); s[0] = i; barrier_arrive(&full); } }",
    ],
    "an asynchronous copy": [
        "copy_async<4>(&s[self], &input[self], true); commit_copies(); wait_copies<0>(); __syncthreads();",
        "out[self] = s[63 - self];",
    ],
    "fragments": [
        "using namespace wmma; s[self] = s[self + 64] = s[self + 128] = s[self + 192] = 1; __syncthreads();",
        "fragment<accumulator, 16, 16, 16, float> f; if (self < 32) { load_matrix_sync(f, s, 16, mem_row_major);",
        "__syncwarp(); store_matrix_sync(s, f, 16, mem_row_major); __syncwarp();",
        "out[self] = s[self]; }",
    ],
    "atomic operations": ["atomicAdd(&counters[0], 1); atomicAdd(&C[0], 1);"],
    "a vector that begins in its row": ["float2 two = *(float2*)&C[28 + 32 * (self % 8)]; out[self] = two.x;"],
}


UPDATES = {
    "an integer": "atomicAdd((int*)&s[self], 1);",
    "a float": "atomicAdd(&s[self], 1.0f);",
    "the larger": "atomicMax((int*)&s[self], 1);",
    "a comparison": "atomicCAS((int*)&s[self], 0, 1);",
}


@pytest.mark.first(2)
@pytest.mark.parametrize("case", UPDATES)
def test_an_atomic_update_needs_a_value(case):
    assert look(UPDATES[case]) == {("uninitialized read", 0)}
    assert look("s[self] = 0; __syncthreads();", UPDATES[case]) == set()


def test_an_atomic_exchange_gives_one():
    assert look("atomicExch(&s[self], 1.0f); __syncthreads();", "out[self] = s[self];") == set()


def test_shared_memory_that_nobody_writes_has_no_value():
    assert look("__shared__ int least; __shared__ float tile[64];", "out[self] = least + tile[self];") == {
        ("uninitialized read", 1)
    }


@pytest.mark.first(6)
@pytest.mark.parametrize("case", ORDERED)
@pytest.mark.parametrize("schedule", [0, 1, 7])
def test_what_is_ordered_is_no_race(case, schedule):
    assert look(*ORDERED[case], schedule=schedule) == set()


def test_bytes_that_are_read_one_by_one_need_not_be_aligned(monkeypatch):
    monkeypatch.setenv(OPTIMIZE_VARIABLE, "3")
    found = look(
        "s[self] = 1; __syncthreads();",
        "const unsigned char* at = (const unsigned char*)s + 1 + 4 * (self / 2);",
        "out[self] = at[0] | at[1] << 8 | at[2] << 16 | at[3] << 24;",
    )
    assert found == set()


RACES = {
    "a write and a read": (["s[self] = 1;", "out[self] = s[self ^ 1];"], {("race", 0, 1), ("uninitialized read", 1)}),
    "a thread that has returned since, and was not at the barrier": (
        ["if (self == 40) {", "s[0] = 1; return; }", "__syncthreads();", "if (self < 8) out[self] = s[0];"],
        {("race", 1, 3), ("uninitialized read", 3)},
    ),
    "a thread that has read and returned since": (
        [
            "s[self] = 1; __syncthreads();",
            "if (self == 40) { out[0] = s[0]; return; }",
            "__syncthreads(); __syncthreads();",
            "s[self] = 2;",
        ],
        {("race", 1, 3)},
    ),
    "two writes": (["s[self / 2] = self;"], {("race", 0)}),
    "stores of one value, and a read by another thread": (
        ["if (self < 2) s[0] = 1;", "__syncwarp();", "if (self == 40) out[0] = s[0];"],
        {("race", 0, 2), ("same value", 0), ("uninitialized read", 2)},
    ),
    "stores of one value, one of them before a read": (
        ["if (self < 2) s[0] = 1;", 'asm volatile("" ::: "memory"); if (self == 1) out[0] = s[0];'],
        {("race", 0, 1), ("same value", 0)},
    ),
    "another value behind one of two stores": (
        ["if (self == 7 || self == 40) s[0] = 1;", "__syncwarp(); if (self == 8)", "s[0] = 8;"],
        {("race", 0, 2), ("same value", 0)},
    ),
    "vectors of which one half is the same": (["*(float2*)&s[0] = {1, self * 1.f};"], {("race", 0), ("same value", 0)}),
    "a read and a write": (
        ["s[self] = 1; __syncthreads();", "out[self] = s[self ^ 1];", "s[self] = 2;"],
        {("race", 1, 2)},
    ),
    "across warps that synced only for themselves": (
        ["s[self] = 1;", "__syncwarp();", "if (self >= 32) out[self] = s[63 - self];"],
        {("race", 0, 2), ("uninitialized read", 2)},
    ),
    "a read in another warp, among many in this one": (
        [
            "s[self] = 1; __syncthreads();",
            "out[self] = s[self % 32 == 7 ? 0 : self];",
            "__syncwarp();",
            "if (self == 0) s[0] = 2;",
        ],
        {("race", 1, 3)},
    ),
    "a shuffle, which orders nothing": (
        ["s[self] = 1;", "__shfl_xor_sync(0xffffffff, 1, 1);", "out[self] = s[self ^ 1];"],
        {("race", 0, 2)},
    ),
    "lanes that a mask leaves out": (
        ["s[self] = 1;", "if (lane < 4) __syncwarp(15);", "if (lane == 0) out[self] = s[self + 4];"],
        {("race", 0, 2), ("uninitialized read", 2)},
    ),
    "an mbarrier of which three phases end in the place of one": (
        [
            "if (self == 0) barrier_init(&full, 16); s[self] = 0; __syncthreads();",
            "s[self] = 1;",
            "if (lane < 24) barrier_arrive(&full);",
            "if (self == 0) { barrier_wait(&full, 0);",
            "out[0] = s[40]; }",
        ],
        {("race", 1, 4)},
    ),
    "an mbarrier waited for too early": (
        [
            "if (self == 0) barrier_init(&full, 64); __syncthreads();",
            "s[self] = 1; __syncwarp();",
            "barrier_wait(&full, 1);",
            "if (self == 63) out[self] = s[0];",
            "barrier_arrive(&full);",
        ],
        {("race", 1, 3)},
    ),
    "a producer that nobody waits for": (
        [
            "if (self == 0) { barrier_init(&full, 1); } __syncthreads();",
            "if (self == 32) { s[0] = 1; barrier_arrive(&full); barrier_wait(&full, 0);",
            "s[0] = 2; }",
            "if (self < 32) { barrier_wait(&full, 0);",
            "out[self] = s[0]; }",
        ],
        {("race", 2, 4)},
    ),
    "a fragment and what its lane wrote": (
        [
            "using namespace wmma; if (self < 32) { for (int i = 0; i < 8; ++i)",
            "s[self * 8 + i] = 1;",
            "fragment<accumulator, 16, 16, 16, float> f;",
            "load_matrix_sync(f, s, 16, mem_row_major); }",
        ],
        {("race", 1, 3)},
    ),
    "a fragment that is read before the warp has synced": (
        [
            "using namespace wmma; fragment<accumulator, 16, 16, 16, float> f; fill_fragment(f, 1.0f);",
            "if (self < 32) { store_matrix_sync(s, f, 16, mem_row_major);",
            "for (int i = 0; i < 8; ++i) out[self] = s[self * 8 + i]; }",
        ],
        {("race", 1, 2)},
    ),
    "an atomic operation and a write": (
        ["if (self == 0)", "counters[0] = 1;", "else atomicAdd(&counters[0], 1);"],
        {("race", 1, 2)},
    ),
    "an atomic operation and a read": (
        ["if (self == 0) atomicAdd(&counters[0], 1);", "if (self == 40) out[0] = counters[0];"],
        {("race", 0, 1)},
    ),
    "parts of words, one of them twice": (["halves[self / 2] = self;"], {("race", 0)}),
    "blocks": (["if (self == 0) C[0] = block;"], {("race", 0)}),
}


@pytest.mark.one_of_each("case")
@pytest.mark.parametrize("case", RACES)
@pytest.mark.parametrize("schedule", [0, 1])
def test_a_race_is_found_in_whichever_order_the_threads_run(case, schedule):
    statements, expected = RACES[case]
    found = look(*statements, blocks=2 if case == "blocks" else 1, schedule=schedule)
    assert {one for one in found if one[0] == "race"} == {one for one in expected if one[0] == "race"}
    assert found <= expected


SAME = {
    "by many threads": ["s[0] = 1;", "__syncthreads(); out[self + 64 * block] = s[0];"],
    "by one after the other": [
        "if (self % 2) s[0] = 1; __syncwarp(); s[0] = 1;",
        "__syncthreads(); out[self + 64 * block] = s[0];",
    ],
    "in parts of words": ["halves[self / 2] = 7;"],
    "in vectors": ["*(float2*)&s[0] = {1, 2};"],
    "by blocks": ["C[self % 30] = 1;"],
    "as the last thing that threads do": ["if (self > 7) s[200] = 3;"],
}


@pytest.mark.first(2)
@pytest.mark.parametrize("case", SAME)
@pytest.mark.parametrize("schedule", [0, 1, 7])
def test_stores_of_one_value_by_several_threads_are_no_race(case, schedule):
    assert look(*SAME[case], blocks=2, schedule=schedule) == {("same value", 0)}


def test_a_null_pointer_is_no_array_s_element():
    (finding,) = look_at("if (self == 5) ((volatile float*)nullptr)[self] = 1;")
    assert str(finding) == (
        "thread (5, 0, 0) of block (0, 0, 0) writes address 0x00000014 (of a null pointer) at kernel.cu:8"
    )


def test_a_value_that_is_stored_twice_counts_once_for_each_thread():
    (finding,) = look_at("s[0] = 1;")
    assert (finding.is_note, finding.count) == (True, 63)
    assert str(finding).endswith("wrote it at kernel.cu:8, the same value, and nothing orders the two")


def test_shared_memory_is_not_the_block_before_s():
    assert look("if (block == 0) s[self] = 1;", "out[self] = s[self];", blocks=2) == {
        ("uninitialized read", 1),
        ("race", 1),
    }


@pytest.mark.first(2)
@pytest.mark.parametrize(
    "case",
    [
        ("a release and an acquire", "__threadfence(); __syncthreads();", "__threadfence();", True),
        (
            "a fence by one thread, for all",
            "__syncthreads(); if (self == 0) __threadfence();",
            "__threadfence();",
            True,
        ),
        ("no fence before", "__syncthreads();", "__threadfence();", False),
        ("no barrier before", "__threadfence();", "__threadfence();", False),
        ("no fence after", "__threadfence(); __syncthreads();", "", False),
    ],
    ids=lambda case: case[0],
)
def test_blocks_know_of_each_other_by_an_atomic_operation_between_fences(case):
    _, before, after, ordered = case
    found = look(
        "if (self < 30) C[block * 32 + self] = 1;",
        before,
        "if (self == 0) flag = atomicAdd(&counters[0], 1) == 1; __syncthreads();",
        f"if (flag) {{ {after}",
        "if (self < 30) out[self] = C[29 - self] + C[32 + 29 - self]; }",
        blocks=2,
    )
    assert found == (set() if ordered else {("race", 0, 4)})


LANES = {
    "fences of the lane that counts": ("", "__threadfence();", "__threadfence();", "__syncwarp();", "", True),
    "fences of all lanes": ("__threadfence();", "", "", "__syncwarp();", "__threadfence();", True),
    "no fence before": ("", "", "__threadfence();", "__syncwarp();", "", False),
    "no fence after": ("", "__threadfence();", "", "__syncwarp();", "", False),
    "a shuffle alone": ("", "__threadfence();", "__threadfence();", "", "", False),
}


@pytest.mark.first(2)
@pytest.mark.parametrize("case", LANES)
@pytest.mark.parametrize("schedule", [0, 1, 7])
def test_lanes_pass_on_what_they_know_of_other_blocks_at_a_syncwarp(case, schedule):
    all_before, before, after, meet, all_after, ordered = LANES[case]
    found = look(
        "if (self < 30) C[block * 32 + self] = 1;",
        f"{all_before} __syncwarp(); bool last = false;",
        f"if (self == 0) {{ {before} last = atomicAdd(&counters[0], 1) == 1; {after} }}",
        f"{meet} last = __shfl_sync(~0u, last, 0); {all_after}",
        "if (last && self < 30) out[self] = C[29 - self] + C[32 + 29 - self];",
        blocks=2,
        schedule=schedule,
    )
    assert found == (set() if ordered else {("race", 0, 4)})


def test_what_a_block_has_learnt_it_passes_on():
    passed_on = [
        "if (block == self) C[self] = 1;",
        "__threadfence(); __syncthreads();",
        "if (self == 0) atomicAdd(&counters[block > 1], 1); __syncthreads();",
        "if (block == 1 && self == 0) { __threadfence(); atomicAdd(&counters[1], 1); }",
        "__threadfence(); __syncthreads();",
        "if (block == 2) out[self] = C[0];",
    ]
    assert look(*passed_on, blocks=3) == set()
    assert look(*[line.replace("block == 1 &&", "block == 3 &&") for line in passed_on], blocks=3) == {("race", 0, 5)}


OUTSIDE = {
    "behind a shared variable": ("s[self + 200] = 1;", "out of bounds"),
    "before a shared variable": ("s[self - 2] = 1;", "out of bounds"),
    "the gap between rows": ("C[self + 2] = 1;", "out of bounds"),
    "a vector behind its row": ("float2 two = *(float2*)&C[30]; out[self] = two.x;", "out of bounds"),
    "the end of an array": ("if (self == 0) out[255 + rows / 8] = 1;", "out of bounds"),
    "what may not be written": ("const_cast<float*>(input)[self] = 1;", "write to an input"),
    "a null pointer": ("if (self == 5) *(volatile float*)nullptr = 1;", "out of bounds"),
    "a misaligned float2": ("float2 two = *(float2*)&s[1]; out[self] = two.x;", "misaligned access"),
    "a misaligned float": ("out[self] = *(float*)((char*)input + 2);", "misaligned access"),
    "shared memory that nobody wrote": ("out[self] = s[self];", "uninitialized read"),
    "a barrier that some skip": ("if (self < 32) __syncthreads(); else __syncthreads_or(1);", "barrier"),
    "a barrier that nobody made": ("barrier_wait(&full, 0);", "misuse"),
}


@pytest.mark.parametrize("case", OUTSIDE)
def test_what_is_outside_is_found_at_its_line(case):
    statement, kind = OUTSIDE[case]
    assert look("__syncwarp();", statement, "__syncwarp();") == {(kind, 1)}


def test_c_that_has_no_values_yet_must_not_be_read():
    statements = ["if (self < 30) {", "C[self] = C[self] + 1; }"]
    assert look(*statements) == set()
    assert look(*statements, written=False) == {("uninitialized read", 1)}


STAGED = {
    "all": ("true", "true", False),
    "the first eight rows": ("i < 8 * 32", "true", False),
    "the first two columns": ("true", "i < 2 * 32", False),
    "no row, as where the next warpgroup has all": ("false", "true", False),
    "all of a row but its first two k": ("i > 0 && i < 8 * 32", "true", True),
    "all of a column but its last two k": ("true", "i != 7", True),
}
"""Words of A (64 lines of 32) and of B (8) that are written before a product of 16 k; whether a read is a fault."""


@pytest.mark.first(2)
@pytest.mark.parametrize("case", STAGED)
def test_a_product_may_read_whole_rows_and_columns_that_nobody_wrote(case):
    """An instruction multiplies 64 rows, and a matrix may have fewer. The sums of the others need not be used."""
    of_a, of_b, found = STAGED[case]
    statements = [
        "__shared__ __align__(1024) unsigned As[64 * 32], Bs[8 * 32];",
        f"for (int i = self; i < 64 * 32; i += 128) if ({of_a}) As[i] = 0;",
        f"for (int i = self; i < 8 * 32; i += 128) if ({of_b}) Bs[i] = 0;",
        "fence_async_shared(); __syncthreads(); float sums[4] = {}; fence_sums(sums);",
        "constexpr Major K = Major::along_k;",
        "multiply_async<K, K, __half>(sums, matrix_descriptor(As), matrix_descriptor(Bs));",
        "commit_products(); wait_products<0>(sums);",
    ]
    assert look(*statements, threads=128) == ({("uninitialized read", 5)} if found else set())


@pytest.mark.parametrize("shape", [(1, 2**24), (3000, 5000)])
def test_what_lies_around_an_array_is_a_part_of_it(shape):
    array = np.zeros(shape, np.float32)
    around = padded(array, shape[1]).owner
    assert 2**16 <= around.slack <= 2**24
    assert around.memory.nbytes < 2 * array.nbytes
