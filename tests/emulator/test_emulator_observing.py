"""How launches are looked at: chosen blocks, schedules, places in the source."""

import ctypes
import itertools
from pathlib import Path

import numpy as np
import pytest

from async_kernels import split_k_kernel
from launching import launch_source
from tilewright.core.errors import EngineUnavailableError, LaunchError
from tilewright.core.problem import Problem, Scalars
from tilewright.emulator import symbols
from tilewright.emulator.checker import Checker
from tilewright.emulator.compiler import CHECKED, FAST, compile_kernel
from tilewright.emulator.engine import EmulatorEngine
from tilewright.emulator.program import Watch
from tilewright.kernels import find
from tilewright.runtime.base import run

ORDER = """extern "C" __global__ void kernel(int* order, int* count) {
    order[atomicAdd(count, 1)] = blockIdx.x * blockDim.x + threadIdx.x;
}"""


def order(grid=3, threads=40, **watch):
    """Numbers of the threads of a grid in the order in which they begin."""
    result, count = np.full(grid * threads, -1, np.int32), np.zeros(1, np.int32)
    arguments = [ctypes.c_void_p(array.ctypes.data) for array in (result, count)]
    launch_source(ORDER, "kernel", (grid, 1, 1), (threads, 1, 1), arguments, watch=Watch(**watch))
    return result[: count[0]].tolist()


def test_a_schedule_changes_the_order_and_nothing_else():
    assert order(schedule=1) == list(range(120))[::-1]
    shuffled = order(schedule=5)
    assert sorted(shuffled) == list(range(120))
    assert shuffled not in (list(range(120)), list(range(120))[::-1])
    assert order(schedule=5) == shuffled
    assert order(schedule=6) != shuffled
    assert order(grid=1, threads=1, schedule=5) == [0]


def test_chosen_blocks_run_and_no_others():
    assert sorted(order(grid=5, threads=2, blocks=[3, 1])) == [2, 3, 6, 7]
    assert order(grid=5, threads=2, blocks=[3, 1], schedule=1) == [3, 2, 7, 6]
    assert order(grid=5, blocks=[]) == []
    with pytest.raises(LaunchError, match="numbers of blocks must be 0 to 4, got 5"):
        order(grid=5, blocks=[5])


def test_an_engine_asks_its_watcher_before_each_launch(tmp_path):
    seen = []
    engine = EmulatorEngine(FAST, lambda facts: seen.append(facts) or Watch(blocks=[1]))
    kernel, problem, scalars = split_k_kernel(tmp_path), Problem(40, 100, 30), Scalars(beta=1.0)
    config = kernel.config()
    a, b, c = (engine.upload(np.ones(shape, np.float32)) for shape in ((40, 30), (30, 100), (40, 100)))
    plan = run(engine, kernel, config, problem, a, b, c, scalars)
    (facts,) = seen
    assert [(one.name, one.written) for one in facts.arrays] == [
        ("A", True),
        ("B", True),
        ("C", True),
        ("D", False),
        ("workspace", False),
        ("counters", True),
    ]
    assert facts.executable == plan.executable
    assert facts.grid == plan.steps[0].grid


def test_observers_need_accesses_that_are_announced():
    library = compile_kernel(ORDER, "kernel")
    with pytest.raises(LaunchError, match="observers see kernels of the CHECKED build only"):
        order(observer=Checker(library, []))


SHARED = """template <int N> __device__ int& nested(int i) { __shared__ int inner[N]; return inner[i]; }
extern "C" __global__ void kernel(float* out) {
    __shared__ float first[10];
    __shared__ __align__(128) float4 vec_0[3], E5tail[2];
    first[threadIdx.x] = vec_0[0].x + E5tail[1].y++;
    vec_0[threadIdx.x].x = first[1] + nested<7>(3)++;
    out[0] = vec_0[0].x;
}"""


@pytest.mark.parametrize("build", [FAST, CHECKED], ids=["fast", "checked"])
def test_shared_variables_have_their_own_names(build):
    variables = symbols.shared_variables(compile_kernel(SHARED, "kernel", build=build))
    assert {(variable.name, variable.bytes) for variable in variables} == {
        ("first", 40),
        ("vec_0", 48),
        ("E5tail", 32),
        ("inner", 28),
    }
    of_kernel = [one.name for one in variables if one.name != "inner"]
    assert of_kernel == ["first", "vec_0", "E5tail"]  # in the order of their declarations, as on a GPU
    gaps = [after.offset - before.offset - before.bytes for before, after in itertools.pairwise(variables)]
    assert min(gaps) >= build.spacing


def test_shared_memory_counts_without_the_room_between_variables():
    shared = [EmulatorEngine(build).compile(*shared_tiled()).report.shared_bytes for build in (FAST, CHECKED)]
    assert shared == [8192, 8192]


def shared_tiled():
    kernel = find("shared_tiled")
    config = kernel.config()
    return kernel, config, kernel.variant(Problem(32, 32, 32), config)


def test_without_binutils_a_message_says_where_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setattr(symbols.shutil, "which", lambda tool: None)
    with pytest.raises(
        EngineUnavailableError, match="takes addr2line or llvm-addr2line, and there is none: get one with"
    ):
        symbols.places(tmp_path / "library", [1])
    assert symbols.places(Path("nowhere"), []) == {}
