"""Matrices of more than 2^32 elements: indices that have lost their high bits are found and named, in little memory."""

import ctypes
import mmap
import re
import resource

import numpy as np
import pytest
from emulator_helpers import launch
from hypothesis import given, settings
from hypothesis import strategies as st

from all_stages import own_cases
from tilewright.core.dtypes import ITEM_BYTES
from tilewright.core.errors import ConfigError, MemoryFullError, ProblemError
from tilewright.core.problem import LAYOUTS, Arithmetic, Layout, Problem, Scalars, orders
from tilewright.emulator.checker import Checker
from tilewright.emulator.compiler import OVERFLOWS, compile_kernel
from tilewright.emulator.engine import Array
from tilewright.emulator.program import GRID_LIMITS, Watch, load
from tilewright.emulator.repeating import Repeating, zeros
from tilewright.emulator.sampled import chosen_blocks
from tilewright.kernels import find
from tilewright.kernels.source.products import from_source
from tilewright.runtime.base import Matrix
from tilewright.tools.bench import check_cases
from tilewright.tools.bench.case import CheckCase
from tilewright.tools.bench.check_cases import huge_cases
from tilewright.tools.bench.checking import outcomes
from tilewright.tools.bench.huge import REACH, huge_problems, with_far_lines

WIDE = {"A": "size_t", "B": "size_t", "C": "size_t"}
"""The type of each array's indices."""

LOOP = """{
    const int tiles_n = (N + 15) / 16;
    const int row = blockIdx.x / tiles_n * 16 + threadIdx.y, col = blockIdx.x % tiles_n * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k)
        sum += A[INDEX_A] *
               B[INDEX_B];
    C[INDEX_C] = sum;
}
"""
LINES = {"A": 8, "B": 9, "C": 10}


def kernel(types, gaps, columns=False):
    """A kernel whose indices of each array are of a type; with leading dimensions, or of columns, where asked for."""
    lda, ldb, ldc = ("lda", "ldb", "ldc") if gaps else ("M", "K", "M") if columns else ("K", "N", "N")
    lines = {"A": ("row", lda, "k"), "B": ("k", ldb, "col"), "C": ("row", ldc, "col")}
    if columns:
        lines = {name: (other, ld, line) for name, (line, ld, other) in lines.items()}
    body = LOOP
    for name, (line, ld, other) in lines.items():
        body = body.replace(f"INDEX_{name}", f"({types[name]}){line} * ({types[name]}){ld} + {other}")
    given = ", int lda, int ldb, int ldc" if gaps else ""
    words = " layout=TT C=column" if columns else ""
    return from_source(
        f"// tilewright: block=(16,16) grid=ceil(M/16)*ceil(N/16){words}\n"
        f"__global__ void own(const float* A, const float* B, float* C, int M, int N, int K{given}) {body}"
    )


def outcome(of, number):
    """Outcome of one of a kernel's cases."""
    case = huge_cases(of, of.config(), [Scalars()])[number]
    (found,) = outcomes(of, [case])
    return found


@pytest.mark.further
@pytest.mark.parametrize(("array", "columns"), [("A", False), ("B", True), ("C", False)], ids=str)
def test_an_int_index_of_far_lines_is_named(array, columns):
    found = outcome(kernel({**WIDE, array: "int"}, gaps=True, columns=columns), 0)
    said = {one.kind: str(one) for one in found.checked.findings}
    line = rf"kernel.cu:{LINES[array]}"
    assert re.fullmatch(
        rf"thread \(.*\) of block \(.*\) computes \d+ \* \d+ beyond the range of int at {line}", said["overflow"]
    )
    does = "writes" if array == "C" else "reads"
    assert re.fullmatch(
        rf"thread \(.*\) of block \(.*\) {does} {array}\[-.*\], outside of its .* elements at {line}",
        said["out of bounds"],
    )


# Of the sizes that a source without leading dimensions is checked on, C is the largest matrix of the first, A of the
# second, B of the third.
@pytest.mark.first(1)
@pytest.mark.parametrize("number", range(3), ids="CAB")
def test_an_int_index_of_a_large_matrix_is_named(number):
    array = "CAB"[number]
    found = outcome(kernel({**WIDE, array: "int"}, gaps=False), number)
    (over, outside) = sorted(found.checked.findings, key=lambda one: one.kind != "overflow")
    assert (over.kind, outside.kind) == ("overflow", "out of bounds")
    assert {one.lines[0].line for one in (over, outside)} == {LINES[array]}
    assert outside.memory.startswith(f"{array}[-")


@pytest.mark.further
@pytest.mark.parametrize("gaps", [True, False], ids=["far lines", "large"])
def test_unsigned_indices_are_named_and_lead_elsewhere(gaps):
    """They leave no range that a sanitizer knows: they come back to the matrix, or lead between lines."""
    found = outcome(kernel(dict.fromkeys("ABC", "unsigned"), gaps), 0)
    named = [one for one in found.checked.findings if one.kind == "overflow"]
    over = (
        r"thread \(.*\) of block \(.*\) computes \d+ \* \d+ beyond the range of unsigned for an index at kernel.cu:\d+"
    )
    assert all(re.fullmatch(over, str(one)) for one in named)
    assert {one.lines[0].line for one in named} == {8, 9, 10} if gaps else {10}
    outside = {one.memory[0] for one in found.checked.findings if one.kind == "out of bounds"}
    assert outside == (set("ABC") if gaps else set())
    if not gaps:
        assert re.fullmatch(r"C\[\d+, \d+\] is \S+, and \S+ by float64", found.wrong)


WRAPS = """
#define AT(i) in[(i) * large + 1]
__device__ float first(const float* p) { return p[0]; }
__device__ __forceinline__ unsigned place(unsigned row, int col, unsigned ld) { return row * ld + col; }
__device__ size_t hashed(unsigned key) { return key * 2654435761u >> 26; }
__global__ void kernel(const float* in, float* out, unsigned large, int n, const uint i) {
    const unsigned row = blockIdx.x * 4 + threadIdx.x, at = row * large + i;
    constexpr unsigned COUNT = 4;
    const size_t low = row * large, high = (size_t)row * large;
    float sums[COUNT] = {};
    const float* moved = in;
    const float* const whole = in + high - row * (size_t)large;
    for (uint k = 0; k < COUNT; ++k) sums[k] = in[k * 4 * large];  // wraps
    sums[0] += in[at];  // wraps
    sums[1] += in[low + 1];  // wraps
    sums[2] += AT(row);  // wraps
    moved += row * large;  // wraps
    sums[3] += moved[0] + first(&in[(unsigned)n * 8u]);  // wraps
    unsigned narrow = high;
    out[narrow] = sums[0];  // wraps
    sums[1] += *(in + (row << 30));  // wraps
    sums[1] += in[place(row, 1, large)];  // wraps
    sums[2] += in[place(1, 2, 3)] + in[hashed(row)];
    const unsigned hash = (row + 7) * 2654435761u, before = i - 2u, mixed = (hash ^ hash >> 15) * 2246822519u;
    sums[0] += in[hash >> 26] + in[hash % 61] + in[mixed & 63u] + in[before + 2] + in[(i - 2u) % 64];
    sums[1] += in[row ? hash / 67108864u : 0u] + in[(uint)(i - 1 + 1)] + first(whole) + in[min(hash, 9u)];
    const size_t wide = i - 2u;
    sums[3] += in[(unsigned)(wide + 2)];
    for (unsigned k = COUNT; k-- > 0;) sums[2] += in[k] + in[(k - 1u) & (COUNT - 1)];
    unsigned seed = row;
    for (int k = 0; k < 9; ++k) seed = seed * 1664525u + 1013904223u;
    out[seed >> 27] += sums[0] + sums[1] + sums[2] + sums[3];
}
"""


def wraps_found(source):
    """Lines on which an index of a kernel wraps, and what is found there."""
    library = compile_kernel(source, "kernel", {}, OVERFLOWS, is_user_kernel=True)
    arrays = np.zeros(64, np.float32), np.zeros(64, np.float32)
    held = [Array("array", Matrix(one.ctypes.data, 1, 64, 64, "float32")) for one in arrays]
    checker = Checker(library, held)
    pointers = [ctypes.c_void_p(one.ctypes.data) for one in arrays]
    values = [ctypes.c_uint32(2**30), ctypes.c_int32(2**29), ctypes.c_uint32(1)]
    program = load(library, "kernel", OVERFLOWS)
    program.launch((2, 1, 1), (1, 1, 1), [*pointers, *values], watch=Watch(checker))
    return {one.lines[0].line: str(one) for one in checker.findings() if one.kind == "overflow"}


def test_wraps_on_the_way_to_an_address_are_named_and_those_that_are_meant_are_not():
    wrapped = [i for i, line in enumerate(WRAPS.split("\n"), 1) if "// wraps" in line]
    found = wraps_found(WRAPS)
    assert sorted(found) == wrapped
    assert "computes 4 * 1073741824 beyond" in found[wrapped[1]]
    assert "computes unsigned(4294967296) beyond" in found[wrapped[6]]
    assert "computes 4 << 30 beyond" in found[wrapped[7]]


@pytest.mark.further
def test_a_source_that_looks_at_the_bits_of_its_indices_is_checked_without_exact_values():
    source = WRAPS.replace("unsigned seed = row;", "unsigned seed = row; unsigned& same = seed; same += 1;")
    assert wraps_found(source) == {}


@pytest.mark.further
@pytest.mark.parametrize(("gaps", "columns"), [(True, False), (False, True)], ids=["far lines", "large, of columns"])
def test_indices_of_64_bits_are_right(gaps, columns):
    of = kernel(WIDE, gaps, columns)
    cases = huge_cases(of, of.config(), [Scalars()])
    for found in outcomes(of, cases):
        assert found.clean, found


def test_nothing_is_found_where_there_is_nothing_to_write():
    of = kernel(WIDE, gaps=False)
    (found,) = outcomes(of, [CheckCase(Problem(0, 2**20, 2**12), Scalars(), of.config(), sampled=True)])
    assert found.clean
    assert found.error == 0


@pytest.mark.further
def test_little_memory_is_taken():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for gaps, cases in ((True, slice(None)), (False, slice(1))):  # of the others one page of elements counts many times
        of = kernel(WIDE, gaps)
        list(outcomes(of, huge_cases(of, of.config(), [Scalars()])[cases]))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024  # KiB


@pytest.mark.further
def test_blocks_that_write_nothing_are_named():
    """As where a number of elements that has become negative guards the stores."""
    text = kernel(WIDE, gaps=False).source.read_text()
    of = from_source(text.replace("C[(", "if ((int)((size_t)M * N) > 0) C[("))
    problem = Problem(50000, 50000, 64)
    (found,) = outcomes(of, [CheckCase(problem, Scalars(), of.config(), sampled=True)])
    assert found.checked.findings[0].kind == "unwritten"
    assert str(found.checked.findings[0]) == "block (0, 0, 0) writes no element of C"


def test_results_may_be_stored_in_pieces():
    """Shadow memory has a cell for each byte then, of all that was touched before."""
    text = kernel(WIDE, gaps=True).source.read_text()
    store = "unsigned char* bytes = (unsigned char*)&C[(size_t)row * (size_t)ldc + col]; const float had = sum;"
    pieces = "for (int i = 0; i < 4; ++i) bytes[i] = ((const volatile unsigned char*)&had)[i];"
    of = from_source(text.replace("C[(size_t)row * (size_t)ldc + col] = sum;", f"{store} {pieces}"))
    case = huge_cases(of, of.config(), [Scalars()])[0]
    (found,) = outcomes(of, [case])
    assert found.clean, found


def test_partial_sums_of_some_blocks_are_no_results():
    text = kernel(WIDE, gaps=False).source.read_text()
    text = text.replace("C[(", "atomicAdd(&C[(").replace("] = sum", "], sum)").replace("int K)", "int K, float beta)")
    text = (
        text.replace("k = 0", "k = blockIdx.z")
        .replace("++k", "k += 2")
        .replace("ceil(M/16)*ceil(N/16)", "(ceil(M/16)*ceil(N/16),1,2)")
    )
    of = from_source(text)
    (found,) = outcomes(of, [CheckCase(Problem(50000, 50000, 64), Scalars(1, 1), of.config(), sampled=True)])
    assert found.clean


@pytest.mark.first(1)
@pytest.mark.parametrize("name", ["skinny", "persistent"])
def test_our_kernels_count_in_64_bits(name):
    of = find(name)
    cases = [
        case for case in own_cases(of, of.config(), [Scalars(1.5, 0.5)], others=False) if case.problem.a.ld > 2**20
    ]
    assert {case.problem.a.ld * 4 % 16 == 0 for case in cases} == {True, of.support.aligned}
    for found in outcomes(of, cases[:2]):
        assert found.clean, found


@pytest.mark.further
@pytest.mark.parametrize("name", ["rasterized", "clusters"])
def test_some_blocks_of_ours_make_right_results(name):
    """Though of persistent ones the last block may have no tile."""
    of = find(name)
    case = CheckCase(Problem(50000, 50000, 64, of.support.arithmetic()), Scalars(), of.config(), sampled=True)
    (found,) = outcomes(of, [case])
    assert found.clean, found
    assert found.error > 0


def test_what_some_blocks_cannot_do_alone_is_refused():
    for name, words in (
        (
            "tma_packed",
            "shares tiles between blocks, so no few of its blocks can be checked on 70000x70000x64: leave ",
        ),
        ("gemm_fp8_blocks", "on one product alone, without bias and scales"),
    ):
        of = find(name)
        problem = of.support.scaled(Problem(70000, 70000, 64, of.support.arithmetic()))
        with pytest.raises(ProblemError, match=words):
            list(outcomes(of, [CheckCase(problem, Scalars(), of.config(), sampled=True)]))
    text = kernel(WIDE, gaps=False).source.read_text().replace("ceil(M/16)*ceil(N/16)", "8")
    for_all = from_source(text)
    with pytest.raises(ProblemError, match="computes many tiles with each block"):
        list(outcomes(for_all, [CheckCase(Problem(70000, 70000, 64), Scalars(), for_all.config(), sampled=True)]))
    with pytest.raises(ConfigError, match="has no grid that GPUs take"):
        huge_cases(of := from_source(text.replace("grid=8", "grid=(1,M*N)")), of.config(), [Scalars()])


def test_every_operation_of_an_int_is_named_and_gives_its_low_bits():
    out = np.zeros(5, np.int32)
    source = """extern "C" __global__ void kernel(int* out, int large, int least, int one) {
        out[0] = large + one; out[1] = least - one; out[2] = large * 2; out[3] = -least; out[4] = least / -one;
    }"""
    least = -(2**31)
    launch(source.replace(" out[4] = least / -one;", ""), out, 2**31 - 1, least, 1, build=OVERFLOWS)
    assert out.tolist() == [least, 2**31 - 1, -2, least, 0]


@settings(max_examples=40, deadline=None)
@given(
    m=st.integers(5, 400), n=st.integers(5, 400), k=st.integers(5, 300), layout=st.sampled_from(LAYOUTS),
    factors=st.sampled_from(["float32", "bfloat16", "float8_e4m3fn"]), aligned=st.booleans(),
)  # fmt: skip
def test_what_loses_its_high_bits_misses_far_lines(m, n, k, layout, factors, aligned):
    a, b = orders(layout)
    problem = with_far_lines(Problem(m, n, k, Arithmetic(factors), a=a, b=b), aligned)
    for of, rows, cols, dtype in ((problem.a, m, k, factors), (problem.b, k, n, factors), (problem.d, m, n, "float32")):
        lines, length = of.lines(rows, cols)
        item = ITEM_BYTES[dtype]
        assert of.extent(rows, cols, 1) >= REACH
        assert (of.ld * item % 16 == 0) is aligned
        elements = np.arange(lines)[:, np.newaxis] * of.ld + [0, length - 1]
        for unit in (1, item):
            lost = elements * unit % 2**32 // unit
            wrong = lost != elements
            assert wrong.any()
            assert (lost % of.ld >= length)[wrong].all()


@settings(max_examples=30, deadline=None)
@given(
    block=st.tuples(*[st.sampled_from([1, 4, 16, 32])] * 2), tile=st.tuples(*[st.sampled_from([1, 2, 8])] * 2),
    by_x=st.booleans(), grid=st.sampled_from(["ceil", "floor"]),
)  # fmt: skip
def test_sizes_are_such_that_gpus_take_the_grid(block, tile, by_x, grid):
    m, n = (a * b for a, b in zip(block, tile, strict=True))
    rows, cols = f"{grid}(M/{m})", f"{grid}(N/{n})"
    of = from_source(
        f"// tilewright: block=({block[1]},{block[0]})\n"
        "__global__ void own(const float* A, const float* B, float* C, int M, int N, int K) {}",
        grid=(rows, cols) if by_x else (cols, rows),
    )
    config = of.config()
    found = list(huge_problems(of, config, lambda shape: Problem(*shape)))
    sides = [(one.m * one.n, one.m * one.k, one.k * one.n) for one in found]
    assert [least >= REACH for least in (sides[0][0], sides[1][1], sides[2][2])] == [True] * 3
    for one in found:
        assert max(one.m, one.n, one.k) < 2**31 - 2**12
        assert one.m % m == one.n % n == 0
        assert all(
            1 <= extent <= most for extent, most in zip(of.launch(one, config, 4).grid, GRID_LIMITS, strict=True)
        )


@settings(max_examples=60, deadline=None)
@given(
    grid=st.tuples(st.integers(1, 10**7), st.integers(1, 65535), st.integers(1, 4)), cluster=st.sampled_from([1, 2, 4])
)
def test_few_blocks_are_chosen_at_both_ends_and_between_them(grid, cluster):
    x, y, z = grid[0] * cluster, *grid[1:]
    blocks = chosen_blocks((x, y, z), cluster)
    assert len(set(blocks)) == len(blocks) <= 4**3 * cluster
    assert (min(blocks), max(blocks)) == (0, x * y * z - 1)
    assert {number // cluster * cluster + rank for number in blocks for rank in range(cluster)} == set(blocks)
    for extent, step in ((x // cluster, cluster), (y, x), (z, x * y)):
        assert len({number // step % extent for number in blocks}) == len(
            {0, extent * 55 // 100, extent * 8 // 10, extent - 1}
        )


REPEATED = {dtype: Repeating(dtype) for dtype in ("float32", "float16")}


@pytest.mark.further
@settings(max_examples=10, deadline=None)
@given(
    dtype=st.sampled_from(list(REPEATED)), order=st.sampled_from(["row", "column"]), ld=st.integers(10**6, 10**7),
    page=st.integers(0, 2000), row=st.integers(0, 999), col=st.integers(0, 999), other=st.integers(0, 999),
)  # fmt: skip
def test_elements_are_known_without_memory(dtype, order, ld, page, row, col, other):
    of, layout = REPEATED[dtype], Layout(order, ld)
    matrix = of.matrix(layout, 1000, 1000, page)
    item = np.dtype(dtype).itemsize
    begin = matrix.pointer - matrix.owner.ctypes.data

    def held(row, col):
        line, at = (row, col) if order == "row" else (col, row)
        first = begin + (line * ld + at) * item
        return matrix.owner[first : first + item].view(dtype)[0]

    found = of.block(layout, np.array([row, other]), np.array([col]), page)
    assert found.ravel().tolist() == [held(row, col), held(other, col)]
    lost = (row * ld + col + 2**32 * np.arange(1, 4)) % len(of.elements)
    assert (row * ld + col) % len(of.elements) not in lost


def test_elements_that_are_changed_are_nobody_elses():
    of = REPEATED["float32"]
    first, second = (of.matrix(Layout("row", 2**20), 4096, 64) for _ in range(2))
    begin = first.pointer - first.owner.ctypes.data
    first.owner[begin : begin + 4 * mmap.PAGESIZE] = 0
    begin = second.pointer - second.owner.ctypes.data
    np.testing.assert_array_equal(second.owner[begin : begin + 256].view(np.float32), of.elements[:64])


def test_kernels_are_checked_on_far_lines_where_there_are_addresses(monkeypatch):
    of = find("naive")
    known = len(own_cases(of, of.config(), [Scalars()]))
    monkeypatch.setattr(check_cases, "has_room", lambda: False)
    assert len(own_cases(of, of.config(), [Scalars()])) == known - 2


def test_address_space_that_is_not_there_is_said():
    with pytest.raises(MemoryFullError, match=r"no room for 4,194,304 GiB .*ulimit -v.*overcommit"):
        zeros(2**52)
