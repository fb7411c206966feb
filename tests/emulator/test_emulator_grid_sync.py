"""Grids that synchronise, on the emulator: all blocks run together, each with shared memory of its own."""

import re
from dataclasses import replace

import numpy as np
import pytest
from emulator_helpers import launch

from tilewright.core.errors import LaunchError
from tilewright.core.gpus import gpu_named
from tilewright.emulator.compiler import CHECKED, FAST
from tilewright.emulator.launches import check_launch
from tilewright.kernels.source.source_launch import read_launch
from tilewright.runtime import nvrtc
from tilewright.tools.explain.launch_explanation import explain_launch

pytestmark = pytest.mark.usefixtures("unasked_nvrtc")

BUILDS = pytest.mark.parametrize("build", [FAST, CHECKED], ids=["fast", "checked"])

HEAD = "#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;\n"

# In each step, a block adds a number that it keeps in shared memory to what its neighbour had before.
STEPS = """// tilewright: grid=BLOCKS block=64 BLOCKS=11 cells=zeros:int32[2*BLOCKS] steps=5
__global__ void around(int* cells, int steps) {
    cg::grid_group grid = cg::this_grid();
    __shared__ int own[64];
    extern __shared__ int more[];
    own[threadIdx.x] = blockIdx.x + threadIdx.x;
    if (threadIdx.x == 0) more[0] = 1;
    __syncthreads();
    for (int step = 0; step < steps; ++step) {
        const int *from = cells + step % 2 * BLOCKS;
        int* to = cells + (step + 1) % 2 * BLOCKS;
        if (threadIdx.x == 0) to[blockIdx.x] = from[(blockIdx.x + 1) % BLOCKS] + own[63 - threadIdx.x] + more[0];
        grid.sync();
    }
}
""".replace("BLOCKS block=64", "BLOCKS shared=16 block=64")


def checked(folder, text, args=""):
    (folder / "kernel.cu").write_text(HEAD + text)
    return check_launch(read_launch(str(folder / "kernel.cu"), args))


@pytest.mark.further
@pytest.mark.parametrize("blocks", [2, 11, 40])
def test_blocks_see_what_others_wrote_before_and_keep_their_shared_memory(blocks, tmp_path):
    result = checked(tmp_path, STEPS, f"BLOCKS={blocks}")
    assert result.findings == []
    cells = np.zeros(blocks, int)
    for _ in range(5):
        cells = np.roll(cells, -1) + np.arange(blocks) + 64
    np.testing.assert_array_equal(result.outputs["cells"][blocks:], cells)


def test_a_sync_that_is_missing_is_a_race(tmp_path):
    text = STEPS.replace("grid.sync();", "if (step % 2) grid.sync();")
    found = [one for one in checked(tmp_path, text).findings if one.kind == "race"]
    words = (
        r"of block \((\d+), 0, 0\) (reads|writes) cells\[\d+\] at kernel.cu:14; .* of block (?!\(\1,).* nothing orders"
    )
    assert any(re.search(words, str(one)) for one in found), found


@pytest.mark.further
def test_a_barrier_of_the_block_orders_no_other_block(tmp_path):
    text = STEPS.replace("grid.sync();", "__syncthreads(); if (step == 4) grid.sync();")
    assert {one.kind for one in checked(tmp_path, text).findings} == {"race"}


@pytest.mark.further
def test_races_within_a_block_are_reported_between_syncs(tmp_path):
    text = STEPS.replace("__syncthreads();", "")
    found = checked(tmp_path, text).findings
    words = r"thread \(0, 0, 0\) of block \((\d+), 0, 0\) .* own\[63\] .* thread \(63, 0, 0\) of block \(\1, 0, 0\)"
    words = rf"{words}|thread \(63, 0, 0\) of block \((\d+), 0, 0\) .* own\[63\] .* thread \(0, 0, 0\) of block \(\2, 0"
    assert any(one.kind == "race" and re.search(words, str(one)) for one in found), found


@pytest.mark.further
def test_atomic_operations_between_fences_order_blocks_too(tmp_path):
    text = """// tilewright: grid=12 block=32 ready=zeros:uint32[1] part=out:int32[12] total=out:int32[1]
    __global__ void sum(unsigned* ready, int* part, int* total) {
        __shared__ bool last;
        if (threadIdx.x == 0) {
            part[blockIdx.x] = blockIdx.x;
            __threadfence();
            last = atomicAdd(ready, 1) == gridDim.x - 1;
            __threadfence();
        }
        __syncthreads();
        if (last && threadIdx.x == 0) {
            int all = 0;
            for (int i = 0; i < gridDim.x; ++i) all += part[i];
            *total = all;
        }
        cg::this_grid().sync();
    }"""
    result = checked(tmp_path, text)
    assert (result.findings, result.outputs["total"][0]) == ([], 66)
    kinds = {one.kind for one in checked(tmp_path, text.replace("__threadfence();", "", 1)).findings}
    assert "race" in kinds


@BUILDS
def test_a_thread_that_does_not_come_is_named(build):
    source = (
        HEAD
        + """extern "C" __global__ void kernel(int* out) {
        if (blockIdx.x == 9 && threadIdx.x == 3) return;
        cg::this_grid().sync();
        *out = 1;
    }"""
    )
    words = (
        r"in block \(0, 0, 0\) threads wait for others that never come: 32 threads wait at grid_group::sync "
        r"\(kernel.cu:5\), 0 threads have returned; .*; and so on"
    )
    with pytest.raises(LaunchError, match=words):
        launch(source, np.zeros(1, np.int32), grid=(12, 1, 1), block=(32, 1, 1), build=build)


def test_a_grid_of_more_threads_than_run_together_is_refused():
    source = HEAD + 'extern "C" __global__ void kernel(int* out) { cg::this_grid().sync(); *out = 1; }'
    with pytest.raises(LaunchError, match="a grid that synchronises has at most 131072 threads, got 132096"):
        launch(source, np.zeros(1, np.int32), grid=(129, 1, 1), block=(1024, 1, 1))


def test_a_large_grid_runs_and_leaves_the_emulator_as_it_was():
    source = (
        HEAD
        + """extern "C" __global__ void kernel(int* out) {
        __shared__ int own;
        if (threadIdx.x == 0) own = blockIdx.x;
        atomicAdd(out, 1);
        cg::this_grid().sync();
        if (threadIdx.x == 0) out[1 + own] = out[0];
    }"""
    )
    out = np.zeros(201, np.int32)
    launch(source, out, grid=(200, 1, 1), block=(256, 1, 1))
    assert (out == 200 * 256).all()


def test_a_grid_that_only_asks_for_its_size_runs_as_any(tmp_path):
    source = HEAD + 'extern "C" __global__ void kernel(int* out) { atomicAdd(out, int(cg::this_grid().size())); }'
    out = np.zeros(1, np.int32)
    launch(source, out, grid=(1000, 1, 1), block=(1, 1, 1))
    assert out[0] == 1000 * 1000


@pytest.mark.further
def test_an_explanation_says_where_a_gpu_refuses_the_launch(tmp_path):
    pytest.importorskip("cuda.core")
    if not nvrtc.pathfinder.find_nvidia_header_directory("cccl"):
        pytest.skip("cooperative_groups.h needs headers that are not installed")
    (tmp_path / "kernel.cu").write_text(HEAD + STEPS)
    launch = read_launch(str(tmp_path / "kernel.cu"), "BLOCKS=40", shared="60000")
    for multiprocessors, refused in ((20, False), (10, True)):
        one = explain_launch(launch, replace(gpu_named("A100 40GB"), multiprocessors=multiprocessors))
        assert any("refuses the launch" in note for note in one.notes) == refused
        assert one.traffic.groups["global_store"].requests == 5 * 40
