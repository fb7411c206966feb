"""Launches that may overlap the one before them. The driver here is made up, and notes what it gets."""

import contextlib
import ctypes
import struct
from dataclasses import replace
from types import SimpleNamespace

import pytest
from cuda.bindings.driver import CUresult, CUstream

from async_kernels import dump_kernel
from tilewright.engines import cuda, cuda_executable, nvrtc, packing
from tilewright.engines.base import CompileReport, Matrix, run
from tilewright.engines.plan import Memory
from tilewright.kernels import LADDER
from tilewright.kernels.library import relayout, split_k, tma_packed, tma_transposed
from tilewright.problem import Problem

OK = CUresult.CUDA_SUCCESS
KERNEL = tma_packed.KERNEL
PROGRAMMATIC_STREAM_SERIALIZATION = 6

MULTIPROCESSORS, SHARED_BYTES, RESERVED_BYTES = 132, 228 << 10, 1 << 10

IN_TURN, OVERLAPS = "after all before it", "may overlap"


def fields(config):
    """Of a struct CUlaunchConfig, as the driver reads it: grid, block, shared bytes, stream, [(attribute, value)]."""
    *sizes, stream, attributes, count = struct.unpack("=7I4xQQI4x", ctypes.string_at(int(config.getPtr()), 56))
    bytes_each = 72
    values = [
        struct.unpack("=I4xI60x", ctypes.string_at(attributes + bytes_each * i, bytes_each)) for i in range(count)
    ]
    return tuple(sizes[:3]), tuple(sizes[3:6]), sizes[6], stream, values


def stream(handle):
    return SimpleNamespace(handle=CUstream(handle))


@pytest.fixture
def gpu(monkeypatch):
    """Makes engines; .launches are (kernel, how), .configs what the driver got with those that may overlap."""
    log = SimpleNamespace(launches=[], configs=[])

    def launch(_, config, function, *arguments):
        log.launches.append((function.handle, OVERLAPS if config.programmatic_stream_serialization else IN_TURN))

    def launch_raw(function, *geometry_and_arguments):
        log.launches.append((function, IN_TURN))
        return (OK,)

    def launch_with(config, function, arguments, extra):
        assert fields(config)[4] == [(PROGRAMMATIC_STREAM_SERIALIZATION, 1)]
        log.configs.append(config)
        log.launches.append((function, OVERLAPS))
        return (OK,)

    def from_cubin(code, name):
        return SimpleNamespace(get_kernel=lambda entry: SimpleNamespace(handle=entry))

    def compiled(kernel, config, specialization, arch):
        return nvrtc.Cubin(b"", kernel.source.stem, arch, CompileReport(None, None, None))

    def engine(capability=(9, 0)):
        device = SimpleNamespace(
            name="a GPU",
            device_id=0,
            compute_capability=capability,
            context=SimpleNamespace(handle=1),
            properties=SimpleNamespace(
                l2_cache_size=0,
                multiprocessor_count=MULTIPROCESSORS,
                max_shared_memory_per_multiprocessor=SHARED_BYTES,
                reserved_shared_memory_per_block=RESERVED_BYTES,
                max_shared_memory_per_block_optin=SHARED_BYTES - RESERVED_BYTES,
            ),
            set_current=lambda: None,
            create_stream=lambda: stream(77),
        )
        monkeypatch.setattr(cuda, "Device", lambda _: device)
        return cuda.CudaEngine()

    log.engine = engine
    monkeypatch.setattr(cuda, "unavailable", lambda _: None)
    monkeypatch.setattr(cuda, "cuCtxGetCurrent", lambda: (OK, 0))
    monkeypatch.setattr(cuda, "cuCtxSetCurrent", lambda _: (OK,))
    monkeypatch.setattr(cuda, "Current", lambda _: contextlib.nullcontext())
    memory = Memory(workspace=1 << 20, tickets=1 << 21, relayout=1 << 20)
    monkeypatch.setattr(cuda, "Workspaces", lambda *_: SimpleNamespace(memory=lambda *_: memory))
    monkeypatch.setattr(cuda, "Stream", SimpleNamespace)
    monkeypatch.setattr(nvrtc, "compile", compiled)
    monkeypatch.setattr(cuda_executable, "ObjectCode", SimpleNamespace(from_cubin=from_cubin))
    monkeypatch.setattr(cuda_executable, "cuKernelGetFunction", lambda kernel: (OK, kernel))
    monkeypatch.setattr(cuda_executable, "cuKernelSetAttribute", lambda *_: (OK,))
    monkeypatch.setattr(cuda_executable, "launch", launch)
    monkeypatch.setattr(cuda_executable, "cuLaunchKernel", launch_raw)
    monkeypatch.setattr(cuda_executable, "cuLaunchKernelEx", launch_with)
    monkeypatch.setattr(cuda_executable, "with_maps", lambda *_: SimpleNamespace(address=123))
    return log


def multiply(engine, kernel, problem, on=None, **overrides):
    """Launch a kernel on operands that are nowhere."""
    a = Matrix(1 << 12, problem.m, problem.k, problem.a.ld, problem.dtype)
    b = Matrix(1 << 13, problem.k, problem.n, problem.b.ld, problem.dtype)
    c = Matrix(1 << 14, problem.m, problem.n, problem.d.ld, "float32")
    return run(engine, kernel, kernel.config(overrides), problem, a, b, c, on)


def test_a_kernel_overlaps_its_packing_and_that_what_is_before_it(gpu):
    multiply(gpu.engine(), KERNEL, Problem(64, 64, 64))
    assert gpu.launches == [("pack", OVERLAPS), ("tma_packed", OVERLAPS)]


def test_both_operands_are_packed_in_one_launch(gpu):
    multiply(gpu.engine(), KERNEL, Problem(64, 63, 64))
    assert gpu.launches == [("pack", OVERLAPS), ("tma_packed", OVERLAPS)]


@pytest.mark.parametrize(("k", "n"), [(64, 64), (64, 63), (63, 64), (63, 63)])
def test_what_lies_aligned_already_is_not_copied(gpu, k, n):
    a, b = Matrix(1 << 20, 64, k, k, "float32"), Matrix(2 << 20, k, n, n, "float32")
    copied = 4 * (64 * 64 * (k != 64) + k * 64 * (n != 64))
    assert packing.needed_bytes(tma_transposed.KERNEL, a, b) == copied
    multiply(gpu.engine(), tma_transposed.KERNEL, Problem(64, n, k))
    assert gpu.launches == [("pack", OVERLAPS)] * bool(copied) + [("tma_transposed", OVERLAPS)]


def test_copies_follow_one_another():
    a, b = Matrix(1 << 20, 30, 13, 13, "float32"), Matrix(2 << 20, 13, 7, 7, "float32")
    step = packing.packing(tma_packed.KERNEL, a, b, 64)
    assert (step.a.pointer, step.a.rows, step.a.cols, step.a.ld) == (64, 13, 30, 32)
    assert (step.b.pointer, step.b.rows, step.b.cols, step.b.ld) == (64 + 4 * 13 * 32, 13, 7, 8)
    assert dict(step.config) | {"OF_A": 2, "OF_B": 1} == dict(step.config)
    assert relayout.KERNEL.launch(step.problem, step.config).grid == (1 + 1, 1, 1)


def test_with_no_terms_nothing_is_packed(gpu):
    multiply(gpu.engine(), KERNEL, Problem(64, 64, 0))
    assert gpu.launches == [("tma_packed", OVERLAPS)]


def test_older_gpus_run_one_launch_after_the_other(gpu):
    kernel = replace(KERNEL, least_capability=(7, 5))
    engine = gpu.engine((8, 9))
    multiply(engine, kernel, Problem(64, 64, 64))
    multiply(engine, split_k.KERNEL, Problem(64, 64, 64))
    assert gpu.launches == [("pack", IN_TURN), ("tma_packed", IN_TURN), ("split_k", IN_TURN)]


def test_kernels_overlap_that_say_so(gpu, tmp_path):
    engine = gpu.engine()
    multiply(engine, dump_kernel(tmp_path), Problem(8, 8, 8), ROWS=8, COLS=8)
    multiply(engine, split_k.KERNEL, Problem(8, 8, 8))
    assert gpu.launches == [("dump", IN_TURN), ("split_k", OVERLAPS)]


def test_the_driver_gets_the_geometry_and_the_stream(gpu):
    problem = Problem(300, 200, 64)
    engine = gpu.engine()
    multiply(engine, KERNEL, problem)
    multiply(engine, KERNEL, problem, stream(78))
    geometry = KERNEL.launch(problem, KERNEL.config())
    for config, handle in zip(gpu.configs, (77, 78), strict=True):
        grid, block, shared_bytes, stream_handle, _ = fields(config)
        assert (grid, block, stream_handle) == (geometry.grid, geometry.block, handle)
        assert shared_bytes >= geometry.shared_bytes > 0


@pytest.mark.parametrize(
    ("m", "each"), [(64, 1), (64 * 132, 1), (64 * 133, 2), (64 * 132 * 2, 2), (64 * 132 * 2 + 1, 3)]
)
def test_a_multiprocessor_holds_no_more_blocks_than_its_share_where_all_run_at_once(gpu, m, each):
    """Of a kernel that packs: its blocks may begin while the packing still fills some multiprocessors."""
    small = {"BM": 64, "BN": 64, "BK": 32, "SLICES": 2, "PLACES": 1, "UNROLL": 16, "WAVE": 1, "BLOCKS": 4}
    multiply(gpu.engine(), tma_transposed.KERNEL, Problem(m, 64, 63), **small)
    of_block = fields(gpu.configs[-1])[2] + RESERVED_BYTES
    assert SHARED_BYTES // of_block == each


@pytest.mark.parametrize(("bundle", "grid"), [(1, 352), (2, 176), (3, 118)])
def test_blocks_of_a_bundle_are_one_to_the_driver(gpu, bundle, grid):
    """Of 316 tiles 264 have a block each, and 88 share the rest."""
    small = {"BM": 32, "BN": 64, "BK": 32, "SLICES": 4, "PLACES": 1, "UNROLL": 8, "WAVE": 88}
    problem = Problem(2500, 200, 900)
    config = tma_transposed.KERNEL.config({**small, "BLOCKS": bundle, "BUNDLE": bundle})
    multiply(gpu.engine(), tma_transposed.KERNEL, problem, **config)
    launch = tma_transposed.KERNEL.launch(problem, config)
    blocks, block, shared_bytes, _, _ = fields(gpu.configs[-1])
    assert (blocks, block) == ((grid, 1, 1), (launch.block[0], bundle, 1))
    assert shared_bytes >= bundle * launch.shared_bytes
    assert launch.grid == (352, 1, 1)


def test_blocks_that_do_not_all_run_at_once_ask_for_what_they_need(gpu):
    problem = Problem(64 * 132 * 20, 64, 63)
    multiply(gpu.engine(), tma_transposed.KERNEL, problem)
    kernel = tma_transposed.KERNEL
    assert fields(gpu.configs[-1])[2] == kernel.launch(problem, kernel.config()).shared_bytes


def test_what_the_driver_gets_is_made_once(gpu):
    engine, problem = gpu.engine(), Problem(301, 201, 64)
    for handle in (77, 78, 77, 78):
        multiply(engine, KERNEL, problem, stream(handle))
    first, second, *again = gpu.configs
    assert first is not second
    assert again[0] is first
    assert again[1] is second


def test_kernels_that_may_overlap_wait_and_those_that_pack_may():
    kernels = [relayout.KERNEL, *LADDER]
    overlapping = [kernel.name for kernel in kernels if kernel.overlaps]
    assert overlapping == [kernel.name for kernel in kernels if "wait_for_grid_before();" in kernel.source.read_text()]
    assert {kernel.name for kernel in LADDER if kernel.packs} <= set(overlapping)
