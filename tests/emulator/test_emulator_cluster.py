"""The emulator's clusters: blocks that run together, sync, and reach each other's shared memory.

What the checker finds in them is in test_emulator_check.py.
"""

import re

import numpy as np
import pytest
from emulator_helpers import launch

from faulty import faulty
from tilewright.core.errors import LaunchError
from tilewright.core.problem import Problem, Scalars
from tilewright.emulator.counting import BlockCounter, LaunchOperands
from tilewright.emulator.engine import EmulatorEngine
from tilewright.emulator.launches import check_launch
from tilewright.emulator.program import Watch
from tilewright.kernels.source.source_launch import read_launch
from tilewright.kernels.support import Variant
from tilewright.runtime.base import run

pytestmark = pytest.mark.usefixtures("unasked_nvrtc")

KERNEL = """
#include "ptx/cluster.cuh"
#include "ptx/dynamic_shared.cuh"
struct Shared {{ Barrier barrier; int value; }};
extern "C" __global__ void __cluster_dims__(4, 1, 1) kernel(int* out) {{
    DYNAMIC_SHARED(Shared, shared);
    const int rank = cluster_rank(), self = threadIdx.x;
    {}
}}
"""
MADE = "if (self == 0) barrier_init(&shared->barrier, {}); cluster_sync();"


def cells(*statements, blocks=8, **options):
    """64 integers that blocks of 32 threads write, four blocks to a cluster."""
    out = np.full(64, -1, np.int32)
    launch(
        KERNEL.format("\n".join(statements)),
        out,
        grid=(blocks, 1, 1),
        block=(32, 1, 1),
        shared_bytes=16,
        cluster=4,
        **options,
    )
    return out.tolist()


def test_blocks_in_a_row_have_ranks():
    assert cells("if (self == 0) out[blockIdx.x] = rank;")[:8] == [0, 1, 2, 3] * 2


def test_every_block_has_shared_memory_of_its_own():
    statements = ["if (self == 0) shared->value = blockIdx.x;", "cluster_sync();", "out[blockIdx.x] = shared->value;"]
    assert cells(*statements)[:8] == list(range(8))


@pytest.mark.parametrize("schedule", [0, 1, 7])
def test_cluster_sync_waits_for_all_blocks(schedule):
    """Between two of them every block adds its number."""
    statements = [
        "for (int turn = 0; turn < 3; ++turn) {",
        "if (self == 0) atomicAdd(&out[blockIdx.x / 4], 1);",
        "cluster_sync();",
        "if (self == 5) out[4 + 4 * turn + rank] = out[0];",
        "cluster_sync(); }",
    ]
    assert cells(*statements, blocks=4, watch=Watch(schedule=schedule))[4:16] == [3] * 4 + [7] * 4 + [11] * 4


def test_warps_may_call_cluster_sync_at_several_places():
    statements = [
        "if (rank % 2) { if (self == 0) atomicAdd(out, 1); cluster_sync(); }",
        "else { if (self == 0) atomicAdd(out, 1); cluster_sync(); }",
        "if (self == 0) out[1 + rank] = out[0];",
    ]
    assert cells(*statements, blocks=4)[:5] == [3] * 5


@pytest.mark.parametrize("schedule", [0, 1, 7])
def test_threads_load_from_and_store_to_other_blocks(schedule):
    statements = [
        "cluster_sync();",
        "if (self == 0) *in_block(&shared->value, (rank + 1) % 4) = blockIdx.x;",
        "cluster_sync();",
        "if (self == 0) { out[blockIdx.x] = shared->value; out[8 + blockIdx.x] = *in_block(&shared->value, 2); }",
        "cluster_sync();",
    ]
    expected = [3, 0, 1, 2, 7, 4, 5, 6, *[1] * 4, *[5] * 4]
    assert cells(*statements, watch=Watch(schedule=schedule))[:16] == expected


@pytest.mark.parametrize("schedule", [0, 1, 7])
def test_arrivals_reach_barriers_of_other_blocks(schedule):
    statements = [
        MADE.format(4),
        "if (self < 4) barrier_arrive_at(&shared->barrier, self);",
        "barrier_wait(&shared->barrier, 0);",
        "if (self == 0) out[blockIdx.x] = 1;",
        "cluster_sync();",
    ]
    assert cells(*statements, watch=Watch(schedule=schedule))[:9] == [1] * 8 + [-1]


def test_chosen_blocks_run_with_their_clusters():
    assert cells("out[blockIdx.x] = rank;", blocks=12, watch=Watch(blocks=[9]))[:12] == [-1] * 8 + [0, 1, 2, 3]


REFUSED = {
    "no whole clusters": ({"grid": (6, 1, 1)}, "grid along x must be a multiple of the 4 blocks of a cluster, got 6"),
    "a cluster of none": ({"cluster": 0}, "a cluster must have 1 to 8 blocks, got 0"),
    "too large a cluster": ({"cluster": 16, "grid": (16, 1, 1)}, "a cluster must have 1 to 8 blocks, got 16"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_launch_that_no_gpu_takes_is_refused(case):
    options, message = REFUSED[case]
    options = {"grid": (8, 1, 1), "cluster": 4, **options}
    with pytest.raises(LaunchError, match=f"^kernel: {message}$"):
        launch(KERNEL.format(""), np.zeros(1, np.int32), block=(32, 1, 1), shared_bytes=16, **options)


@pytest.mark.parametrize("schedule", [0, 1, 7])
def test_static_shared_memory_is_each_block_s_own_and_others_reach_it(schedule):
    statements = [
        "__shared__ int own[32]; own[self] = 10 * blockIdx.x; cluster_sync();",
        "if (self == 0) atomicAdd(in_block(&own[3], (rank + 1) % 4), 1 + rank);",
        "cluster_sync();",
        "if (self == 0) { out[blockIdx.x] = own[3]; out[8 + blockIdx.x] = *in_block(own, 2); }",
        "cluster_sync();",
    ]
    expected = [4, 11, 22, 33, 44, 51, 62, 73, *[20] * 4, *[60] * 4]
    assert cells(*statements, watch=Watch(schedule=schedule))[:16] == expected


def test_barriers_of_clusters_in_static_shared_memory_are_refused():
    message = (
        r"calls barrier_init \(.*\) for a barrier in static shared memory: on the emulator those of clusters lie in"
    )
    with pytest.raises(LaunchError, match=message):
        cells("__shared__ Barrier own; if (self == 0) barrier_init(&own, 1);")


PAIRS = """#include <cooperative_groups.h>
namespace cg = cooperative_groups;
// tilewright: grid=4 block=64 x=float32[256] y=out:float32[2]
__global__ void __cluster_dims__(2, 1, 1) pairs(const float* x, float* y) {
    __shared__ float mine[64];
    cg::cluster_group cluster = cg::this_cluster();
    mine[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];
    cluster.sync();
    if (cluster.block_rank() == 0 && threadIdx.x == 0) {
        const float* other = cluster.map_shared_rank(mine, 1);
        float sum = 0;
        for (int i = 0; i < 64; ++i) sum += mine[i] * other[i];
        y[blockIdx.x / 2] = sum;
    }
    cluster.sync();
}
"""
OTHER = r"mine\[0\] of block \(1, 0, 0\) at pairs.cu:11"
PLANTED = {
    "nothing": ("", "", set()),
    "no barrier": ("    cluster.sync();\n    if", "    if", {f"uninitialized read: .* reads {OTHER}"}),
    "too far": (
        "other[i];",
        "other[i + 1];",
        {r"out of bounds: .* reads mine\[64\], outside of its 64 elements of block"},
    ),
    "not waited for": (
        "    }\n    cluster.sync();",
        "    }",
        {r"misuse: .* for block \(1, 0, 0\) .*, which has ended"},
    ),
}


@pytest.mark.first(1)
@pytest.mark.parametrize(("before", "after", "faults"), PLANTED.values(), ids=PLANTED)
def test_a_launch_has_clusters_and_faults_in_the_memory_of_others_are_named(tmp_path, before, after, faults):
    (tmp_path / "pairs.cu").write_text(PAIRS.replace(before, after, 1))
    launch = read_launch(str(tmp_path / "pairs.cu"))
    assert launch.cluster == 2
    checked = check_launch(launch)
    found = [f"{one.kind}: {one}" for one in checked.findings]
    assert all(any(re.match(words, one) for one in found) for words in faults), found
    if not faults:
        assert not found
        x = checked.inputs["x"].reshape(2, 2, 64)
        np.testing.assert_allclose(checked.outputs["y"], (x[:, 0] * x[:, 1]).sum(1), rtol=1e-4)


@pytest.mark.parametrize("schedule", [0, 1, 5])
def test_a_tile_goes_to_all_blocks_of_its_mask(schedule):
    kernel, engine = faulty("right_cluster"), EmulatorEngine(watcher=lambda facts: Watch(schedule=schedule))
    problem = Problem(24, 64, 100)
    a = np.random.default_rng(1).standard_normal((24, 100), dtype=np.float32)
    memory = [engine.upload(array) for array in (a, np.ones((100, 64), np.float32), np.zeros((24, 64), np.float32))]
    run(engine, kernel, kernel.config(), problem, *memory)
    expected = np.broadcast_to(a.sum(axis=1, keepdims=True), (24, 64))
    np.testing.assert_allclose(engine.download(memory[2]), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("blocks", "share"), [(None, 8), ([5], 1)])
def test_a_tile_for_two_blocks_is_loaded_once_and_written_twice(blocks, share):
    """Each of the 8 blocks loads half of the tiles of its rows and gets all of them."""
    kernel, problem = faulty("right_cluster"), Problem(24, 64, 128)
    counter = BlockCounter(kernel, kernel.config(), Variant(edges=True, aligned=False))
    shapes = ((24, 128), (128, 64), (24, 64))
    memory = [counter.engine.upload(np.ones(shape, np.float32)) for shape in shapes]
    counts = counter.memory(problem, LaunchOperands(*memory, Scalars()), blocks)
    assert (counts.blocks, counts.tiles, counts.tile_bytes) == (share, 2 * share, 2 * share * 2048)
    assert counts.tile_shared_bytes == 4 * share * 2048
