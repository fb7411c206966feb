"""The emulator's tiles of tensor maps: what they load and store, how it lies, and when that happens."""

import ctypes
from dataclasses import replace

import numpy as np
import pytest

from async_kernels import BOXES, LOAD_STARTS, STARTS, box_as_it_lies, dump, dump_kernel, store, stored_as_a_gpu_does
from launching import launch_source
from tilewright.core.errors import ConfigError, LaunchError, ProblemError
from tilewright.core.problem import Layout, Problem
from tilewright.emulator.engine import EmulatorEngine, tensor_map
from tilewright.kernels.support import Addresses
from tilewright.kernels.tensor_box import TensorBox
from tilewright.runtime.tensor_maps import TensorLayout, layouts

ENGINE = EmulatorEngine()
MATRIX = np.arange(1, 50 * 44 + 1, dtype=np.float32).reshape(50, 44)


@pytest.mark.first(2)
@pytest.mark.parametrize("box", BOXES[1::2], ids=str)
def test_a_box_lies_as_a_gpu_puts_it(tmp_path, box):
    kernel = dump_kernel(tmp_path)
    for start in LOAD_STARTS:
        expected = box_as_it_lies(MATRIX, *start, *box)
        np.testing.assert_array_equal(dump(ENGINE, kernel, MATRIX, start, box), expected, err_msg=str(start))


@pytest.mark.parametrize("box", [(8, 4, 0), (64, 32, 128)], ids=str)
@pytest.mark.parametrize(("row", "col"), [(1, 3), (40, 30), (-2, -5), (-300, 46)])
def test_a_box_that_begins_off_16_bytes_is_refused(tmp_path, row, col, box):
    message = rf"calls load_tile \(dump.cu:10\) with a column that must be a multiple of 4, .* 16 bytes, got {col}$"
    with pytest.raises(LaunchError, match=message):
        dump(ENGINE, dump_kernel(tmp_path), MATRIX, (row, col), box)


def test_the_swizzle_moves_16_byte_pieces_within_lines_of_128():
    matrix = np.repeat(np.arange(16, dtype=np.float32), 2 * 4).reshape(16, 8)  # each row says its number
    lines = box_as_it_lies(matrix, 0, 0, 16, 8, 32).reshape(4, 8, 4)[:, :, 0]
    np.testing.assert_array_equal(lines[0], [0, 0, 1, 1, 2, 2, 3, 3])
    columns = np.tile(np.repeat(np.arange(8, dtype=np.float32), 4), (8, 1))  # each piece says its place
    lines = box_as_it_lies(columns, 0, 0, 8, 32, 128).reshape(8, 8, 4)[:, :, 0]
    np.testing.assert_array_equal(lines, [[place ^ line for place in range(8)] for line in range(8)])


# When it comes. The box is all of an 8 x 32 matrix; line 7 is the first of the statements.

SOURCE = """
#include "ptx/tensor_map.cuh"
extern "C" __global__ void kernel(const __grid_constant__ TensorMap map, float* to) {
    __shared__ __align__(1024) float tile[512];
    __shared__ Barrier barrier;
    const int self = threadIdx.x;
"""
MAKE = "if (self == 0) { barrier_init(&barrier, 1); fence_barrier_init(); }"
LOAD = "if (self == 0) { barrier_expect_bytes(&barrier, 1024); load_tile(tile, &map, 0, 0, 0, &barrier); }"
MEET = "__syncthreads();"
WAIT = "barrier_wait(&barrier, 0);"
READ = "for (int i = self; i < 256; i += 64) to[i] = tile[i];"
TILE = np.arange(1, 257, dtype=np.float32).reshape(8, 32)


def run(*statements, swizzle=0):
    memory = ENGINE.upload(TILE)
    return run_on(
        TensorLayout(memory.pointer, (32, 8, 1), (128, 128), "float32", TensorBox(8, 32, swizzle)), *statements
    )


def as_argument(template):
    """A parameter of these bytes, aligned as a tensor map is."""
    memory = (ctypes.c_ubyte * (len(template) + 64))()
    start = -ctypes.addressof(memory) % 64
    argument = (ctypes.c_ubyte * len(template)).from_buffer(memory, start)
    argument[:] = template
    return argument


def run_on(layout, *statements):
    result = np.zeros(256, np.float32)
    arguments = [as_argument(tensor_map(layout)), ctypes.c_void_p(result.ctypes.data)]
    launch_source(SOURCE + "\n".join([*statements, "}"]), "kernel", (1, 1, 1), (64, 1, 1), arguments)
    return result


def test_what_was_waited_for_is_there():
    np.testing.assert_array_equal(run(MAKE, LOAD, MEET, WAIT, READ), TILE.ravel())


def test_without_the_wait_it_is_not_there():
    assert np.isnan(run(MAKE, LOAD, MEET, READ, WAIT)).all()


def test_a_wait_on_the_wrong_phase_does_not_bring_it():
    wrong = WAIT.replace("0", "1")
    assert np.isnan(run(MAKE, LOAD, MEET, wrong, READ, WAIT)).all()


def test_a_barrier_of_threads_does_not_bring_it():
    assert np.isnan(run(MAKE, LOAD, MEET, MEET, READ, WAIT)).all()


def test_a_tile_that_nobody_waits_for_is_an_error():
    with pytest.raises(LaunchError, match=r"nobody has waited for a tile of load_tile \(kernel.cu:8\)"):
        run(MAKE, LOAD, MEET, READ)


def test_bytes_that_nobody_announced():
    arrive = "if (self == 0) { load_tile(tile, &map, 0, 0, 0, &barrier); barrier_arrive(&barrier); }"
    with pytest.raises(LaunchError, match="nobody has waited for a tile"):
        run(MAKE, arrive, MEET, WAIT, READ)


def test_no_arrival_at_all():
    load = "if (self == 0) load_tile(tile, &map, 0, 0, 0, &barrier);"
    with pytest.raises(LaunchError, match="1 of 1 arrivals and -1024 bytes of its phase 0 are missing"):
        run(MAKE, load, MEET, WAIT, READ)


def test_too_many_bytes_announced():
    with pytest.raises(LaunchError, match=r"64 threads wait at barrier_wait .* and 4 bytes of its phase 0 are missing"):
        run(MAKE, LOAD.replace("1024", "1028"), MEET, WAIT, READ)


def test_too_few_bytes_announced():
    with pytest.raises(LaunchError, match="and -4 bytes of its phase 0 are missing"):
        run(MAKE, LOAD.replace("1024", "1020"), MEET, WAIT, READ)


def test_the_phase_ends_with_the_bytes_announced_though_more_are_coming():
    second = "if (self == 0) load_tile(tile + 256, &map, 0, 0, 0, &barrier);"
    late = READ.replace("tile[i]", "tile[256 + i]")
    with pytest.raises(LaunchError, match="nobody has waited for a tile"):
        run(MAKE, LOAD, second, MEET, WAIT, late)
    both = LOAD.replace("1024", "2048")
    np.testing.assert_array_equal(run(MAKE, both, second, MEET, WAIT, late), TILE.ravel())


def test_bytes_may_be_announced_after_the_load():
    load = "if (self == 0) { load_tile(tile, &map, 0, 0, 0, &barrier); barrier_expect_bytes(&barrier, 1024); }"
    np.testing.assert_array_equal(run(MAKE, load, MEET, WAIT, READ), TILE.ravel())


def test_a_load_into_what_others_still_read_destroys_it():
    turn = "if (self == 0) barrier_init(&barrier, 1), fence_barrier_init(); tile[self] = 1; __syncthreads();"
    read = "to[self] = tile[63 - self];"
    right = run(turn, read, MEET, LOAD, WAIT)
    wrong = run(turn, LOAD, read, WAIT)
    np.testing.assert_array_equal(right[:64], 1)
    assert np.isnan(wrong[:64]).any()


REFUSED = {
    "no fence": (
        [MAKE.replace("fence_barrier_init();", ""), LOAD],
        r"load_tile \(kernel.cu:8\) for a barrier that the copy engine may not see yet: fence_barrier_init must follow",
    ),
    "a fence of another thread": (
        [
            MAKE.replace("fence_barrier_init();", ""),
            "if (self == 1) { fence_barrier_init(); fence_async_shared(); }",
            MEET,
            LOAD,
        ],
        r"load_tile \(kernel.cu:10\) for a barrier that the copy engine may not see yet",
    ),
    "a fence before the barrier is made": (
        ["fence_barrier_init();", MAKE.replace("fence_barrier_init();", ""), LOAD],
        r"load_tile \(kernel.cu:9\) for a barrier that the copy engine may not see yet",
    ),
    "a place at no boundary": (
        [MAKE, LOAD.replace("tile,", "tile + 4,")],
        r"load_tile .* with a place in shared memory that must be at a multiple of 128 bytes, got 16 bytes past one",
    ),
    "past the end": (
        [MAKE, LOAD.replace("tile,", "tile + 288,")],
        r"load_tile .* for 1024 bytes that are not all in shared memory",
    ),
    "no barrier": (
        [LOAD.replace("barrier_expect_bytes(&barrier, 1024);", "")],
        r"load_tile \(kernel.cu:7\) for a barrier that was never made",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_use_is_named(case):
    statements, message = REFUSED[case]
    with pytest.raises(LaunchError, match=message):
        run(*statements)


def test_either_fence_shows_a_barrier_to_the_copy_engine():
    make = MAKE.replace("fence_barrier_init", "fence_async_shared")
    np.testing.assert_array_equal(run(make, LOAD, MEET, WAIT, READ), TILE.ravel())


def test_the_pattern_of_a_swizzle_goes_by_addresses():
    pieces = run(
        MAKE, LOAD.replace("tile,", "tile + 32,"), MEET, WAIT, READ.replace("tile[i]", "tile[32 + i]"), swizzle=128
    )
    lines = TILE.reshape(8, 8, 4)
    expected = [[lines[line, piece ^ (line + 1) % 8] for piece in range(8)] for line in range(8)]
    np.testing.assert_array_equal(pieces, np.ravel(expected))


def test_a_tile_without_swizzle_begins_at_128_bytes():
    shifted = run(MAKE, LOAD.replace("tile,", "tile + 32,"), MEET, WAIT, READ.replace("tile[i]", "tile[32 + i]"))
    np.testing.assert_array_equal(shifted, TILE.ravel())


def test_elements_of_two_bytes_make_the_columns_to_begin_at_twice_as_far_apart():
    memory = ENGINE.upload(TILE)
    halves = TensorLayout(memory.pointer, (64, 8, 1), (128, 128), "float16", TensorBox(8, 64, 0))
    right, wrong = (LOAD.replace("0, 0, 0, &barrier", f"{col}, 0, 0, &barrier") for col in (8, 12))
    moved = np.pad(TILE[:, 4:], ((0, 0), (0, 4)))
    np.testing.assert_array_equal(run_on(halves, MAKE, right, MEET, WAIT, READ), moved.ravel())
    with pytest.raises(LaunchError, match="a multiple of 8, the elements in 16 bytes, got 12"):
        run_on(halves, MAKE, wrong)


@pytest.mark.parametrize("matrix", [0, 1, 2, 3, -1])
def test_a_box_is_of_one_matrix_of_the_batch(matrix):
    batch = np.stack([TILE, TILE + 1000, TILE + 2000])
    memory = ENGINE.upload(np.pad(batch.reshape(3, 256), ((0, 0), (0, 12))))  # matrices 1072 bytes apart
    layout = TensorLayout(memory.pointer, (32, 8, 3), (128, 1072), "float32", TensorBox(8, 32))
    load = LOAD.replace("0, 0, 0, &barrier", f"0, 0, {matrix}, &barrier")
    expected = batch[matrix] if 0 <= matrix < 3 else np.zeros((8, 32))
    np.testing.assert_array_equal(run_on(layout, MAKE, load, MEET, WAIT, READ), expected.ravel())


# Stores.


@pytest.mark.first(2)
@pytest.mark.parametrize("box", BOXES[::2], ids=str)
def test_a_box_is_stored_as_a_gpu_does(tmp_path, box):
    """Elements outside of the matrix are not written, though memory may go on there."""
    for start in STARTS:
        found = store(ENGINE, tmp_path, (50, 44), start, box)
        np.testing.assert_array_equal(found, stored_as_a_gpu_does((50, 44), start, box), err_msg=str(start))


def test_a_stored_box_must_begin_at_16_bytes(tmp_path):
    message = r"calls store_tile_async \(store.cu:9\) with a column that must be a multiple of 4, .* got 3$"
    with pytest.raises(LaunchError, match=message):
        store(ENGINE, tmp_path, (50, 44), (0, 3), (8, 4, 0))


@pytest.mark.parametrize("start", [(-1, 0), (0, -4), (-300, 44)])
def test_a_stored_box_begins_at_no_negative_row_or_column(tmp_path, start):
    row, col = start
    message = rf"store_tile_async \(store.cu:9\) with the first element \(0, {row}, {col}\), .* none may be negative"
    with pytest.raises(LaunchError, match=message):
        store(ENGINE, tmp_path, (50, 44), start, (8, 4, 0))


# When shared memory is read, and the matrix written. There are two tiles; line 7 is the first of the statements.

STORES = """
#include "ptx/tensor_map.cuh"
extern "C" __global__ void kernel(const __grid_constant__ TensorMap map, const float* memory, float* seen) {
    __shared__ __align__(1024) float tiles[2][256];
    const int self = threadIdx.x;
    for (int i = self; i < 512; i += 64) tiles[i / 256][i % 256] = i + 1; fence_async_shared(); __syncthreads();
"""
PUT = "if (self == 0) { store_tile_async(&map, 0, 0, 0, tiles[0]); commit_tiles(); }"
PUT_SECOND = PUT.replace("0, 0, 0, tiles[0]", "0, 8, 0, tiles[1]")
WAIT_READ = "if (self == 0) wait_tiles_read<0>();"
CLEAR = "for (int i = self; i < 512; i += 64) tiles[i / 256][i % 256] = 0;"
ALL = np.arange(1, 513, dtype=np.float32)


def run_stores(*statements):
    """A matrix of 16 x 32 zeros after them, and what they have put down."""
    memory = ENGINE.upload(np.zeros((16, 32), np.float32))
    layout = TensorLayout(memory.pointer, (32, 16, 1), (128, 128), "float32", TensorBox(8, 32))
    seen = np.full(2, -1, np.float32)
    arguments = [as_argument(tensor_map(layout)), *(ctypes.c_void_p(at) for at in (memory.pointer, seen.ctypes.data))]
    launch_source(STORES + "\n".join([*statements, "}"]), "kernel", (1, 1, 1), (64, 1, 1), arguments)
    return ENGINE.download(memory).ravel(), seen


def test_what_was_read_may_be_overwritten():
    stored, _ = run_stores(PUT, PUT_SECOND, WAIT_READ, MEET, CLEAR)
    np.testing.assert_array_equal(stored, ALL)


def test_what_is_overwritten_too_early_is_stored_wrong():
    stored, _ = run_stores(PUT, PUT_SECOND, MEET, CLEAR, MEET, WAIT_READ)
    assert (stored == 0).all()


def test_the_youngest_group_is_not_waited_for():
    stored, _ = run_stores(PUT, PUT_SECOND, WAIT_READ.replace("0>", "1>"), MEET, CLEAR, MEET, WAIT_READ)
    np.testing.assert_array_equal(stored, np.where(ALL <= 256, ALL, 0))


def test_a_store_that_was_read_need_not_be_written():
    look = "if (self == 0) seen[{}] = memory[255];"
    after_all = WAIT_READ.replace("wait_tiles_read", "wait_tiles")
    stored, seen = run_stores(PUT, WAIT_READ, look.format(0), after_all, look.format(1))
    assert seen.tolist() == [0, 256]
    np.testing.assert_array_equal(stored, np.where(ALL <= 256, ALL, 0))
    stored, seen = run_stores(PUT, PUT_SECOND, after_all.replace("0>", "1>"), look.format(0), WAIT_READ)
    assert seen.tolist() == [256, -1]
    np.testing.assert_array_equal(stored, ALL)


UNREAD = {
    "no wait": [PUT],
    "no commit": [PUT.replace("commit_tiles();", ""), WAIT_READ],
    "a wait of another thread": [PUT, WAIT_READ.replace("self == 0", "self == 1")],
}


@pytest.mark.parametrize("case", UNREAD)
def test_a_store_that_may_read_after_the_block_is_an_error(case):
    message = r"thread \(0, 0, 0\) has returned without a wait_tiles_read for store_tile_async \(kernel.cu:7\)"
    with pytest.raises(LaunchError, match=message):
        run_stores(*UNREAD[case])


# What a map can say.


@pytest.mark.parametrize(
    ("box", "message"),
    [
        (TensorBox(257, 4), "1 to 256 elements along each dimension, got 1 x 257 x 4"),
        (TensorBox(1, 512), "1 to 256 elements along each dimension, got 1 x 1 x 512"),
        (TensorBox(8, 4, outer=(0, 2)), "1 to 256 elements along each dimension, got 2 x 0 x 8 x 4"),
        (TensorBox(8, 5), "row must be a multiple of 16 bytes, got 20"),
        (TensorBox(8, 4, 16), "swizzle must be 0, 32, 64 or 128 bytes, got 16"),
        (TensorBox(8, 16, 128), "row must be as long as its swizzle of 128 bytes, got 64"),
    ],
)
def test_a_box_that_no_gpu_takes(box, message):
    with pytest.raises(ConfigError, match=message):
        box.check(4)


def test_elements_of_two_bytes_make_rows_half_as_long():
    TensorBox(8, 64, 128).check(2)
    with pytest.raises(ConfigError, match="got 64"):
        TensorBox(8, 32, 128).check(2)


def small_box(kernel):
    return kernel.config({"ROWS": 8, "COLS": 4, "BYTES": 128})


@pytest.mark.parametrize(
    ("problem", "addresses"),
    [
        (Problem(8, 8, 8, a=Layout(ld=9)), Addresses()),
        (Problem(8, 8, 8, b=Layout(ld=10)), Addresses()),
        (Problem(8, 8, 8), Addresses(a=4)),
        (Problem(8, 8, 8), Addresses(b=8)),
    ],
)
def test_rows_off_a_16_byte_boundary_are_refused(tmp_path, problem, addresses):
    kernel = dump_kernel(tmp_path)
    with pytest.raises(ProblemError, match="needs rows of A and B that start at multiples of 16 bytes"):
        ENGINE.plan(kernel, small_box(kernel), problem, addresses)


def test_the_stride_of_a_single_row_does_not_matter(tmp_path):
    kernel = dump_kernel(tmp_path)
    of = layouts(kernel, small_box(kernel), Problem(1, 8, 3), aligned=True)
    assert (of["A"].extents, of["A"].strides) == ((3, 1, 1), (16, 16))
    assert (of["B"].extents, of["B"].strides) == ((8, 3, 1), (32, 32))


def test_matrices_without_elements_have_no_maps(tmp_path):
    kernel = dump_kernel(tmp_path)
    assert layouts(kernel, small_box(kernel), Problem(3, 3, 0), aligned=True) == {}


def test_a_result_has_a_map_where_its_rows_are_aligned(tmp_path):
    """Though A and B have none where k = 0."""
    kernel = replace(dump_kernel(tmp_path), stored_box=lambda config, item_bytes: TensorBox(8, 8))
    problem = Problem(16, 24, 0, "float16", d=Layout(ld=32))
    found = layouts(kernel, small_box(kernel), problem, aligned=True)
    assert list(found) == ["D"]
    assert found["D"][1:] == ((24, 16, 1), (128, 128), "float32", TensorBox(8, 8), False)
    assert layouts(kernel, small_box(kernel), problem, aligned=False) == {}
    assert not any(tensor_map(None))
