"""Launches that may overlap the one before them. The driver here is made up, and notes what it gets."""

import contextlib
import cProfile
import ctypes
import pstats
import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import NamedTuple

import pytest
from cuda.bindings.driver import CUresult

from async_kernels import dump_kernel
from tilewright.core.errors import CompileError, LaunchError
from tilewright.core.problem import Layout, Problem, Scalars, orders
from tilewright.kernels import KERNELS, find
from tilewright.kernels.library import relayout, split_k, tma_packed, tma_transposed
from tilewright.kernels.support import Addresses, lines_aligned
from tilewright.runtime import background, cuda, cuda_executable, cuda_launch, nvrtc, precompiled
from tilewright.runtime.base import Matrix, run
from tilewright.runtime.complex_factors import ComplexFactors
from tilewright.runtime.executable import CompileReport
from tilewright.runtime.plan import Memory, Pointers
from tilewright.runtime.relayouts import jobs

OK = CUresult.CUDA_SUCCESS
KERNEL = tma_packed.KERNEL
PROGRAMMATIC_STREAM_SERIALIZATION = 6

MULTIPROCESSORS, SHARED_BYTES, RESERVED_BYTES = 132, 228 << 10, 1 << 10
MEMORY = Memory(workspace=1 << 20, counters=1 << 21, relayout=1 << 22)

IN_TURN, OVERLAPS = "after all before it", "may overlap"


class Launched(NamedTuple):
    """One launch that the driver was given."""

    entry: str
    how: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared_bytes: int
    stream: int
    parameters: int
    """Address of the array of their addresses, while the launch lasts."""


@pytest.fixture
def gpu(monkeypatch):
    """Makes engines; .launched is what the driver got, .on_launch is called for each."""
    log = SimpleNamespace(launched=[], on_launch=lambda launched: None)
    entries = []

    def launch(reference, function, parameters, extra):
        config = reference._obj
        attributes = [(config.attributes[i].id, config.attributes[i].value[0]) for i in range(config.attribute_count)]
        assert attributes in ([], [(PROGRAMMATIC_STREAM_SERIALIZATION, 1)])
        assert extra is None
        launched = Launched(
            entries[function - 1],
            OVERLAPS if attributes else IN_TURN,
            tuple(config.grid),
            tuple(config.block),
            config.shared_bytes,
            config.stream,
            parameters,
        )
        log.launched.append(launched)
        log.on_launch(launched)
        return 0

    def function(entry):
        entries.append(entry)
        return OK, len(entries)

    def from_cubin(code, name):
        return SimpleNamespace(get_kernel=lambda entry: SimpleNamespace(handle=entry))

    def compiled(kernel, config, variant, arch):
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
            create_stream=lambda: SimpleNamespace(handle=77),
        )
        monkeypatch.setattr(cuda, "Device", lambda _: device)
        return cuda.CudaEngine()

    log.engine = engine
    driver = SimpleNamespace(cuLaunchKernelEx=launch, cuTensorMapEncodeTiled=lambda *_: 0)
    monkeypatch.setattr(cuda, "unavailable", lambda _: None)
    monkeypatch.setattr(cuda.driver, "cuCtxGetCurrent", lambda: (OK, 0))
    monkeypatch.setattr(cuda.driver, "cuCtxSetCurrent", lambda _: (OK,))
    monkeypatch.setattr(cuda, "Current", lambda _: contextlib.nullcontext())
    monkeypatch.setattr(cuda, "Workspaces", lambda *_: SimpleNamespace(memory=lambda stream, needs: MEMORY))
    monkeypatch.setattr(cuda, "Stream", SimpleNamespace)
    monkeypatch.setattr(nvrtc, "compile", compiled)
    monkeypatch.setattr(cuda_executable, "ObjectCode", SimpleNamespace(from_cubin=from_cubin))
    monkeypatch.setattr(cuda_executable.driver, "cuKernelGetFunction", function)
    monkeypatch.setattr(cuda_executable.driver, "cuKernelSetAttribute", lambda *_: (OK,))
    monkeypatch.setattr(cuda_launch, "driver_library", lambda: driver)
    return log


def multiply(engine, kernel, problem, on=None, **overrides):
    """Launch a kernel on operands that are nowhere."""
    a = Matrix(1 << 12, problem.m, problem.k, problem.a.ld, problem.dtype)
    b = Matrix(1 << 13, problem.k, problem.n, problem.b.ld, problem.dtype)
    c = Matrix(1 << 14, problem.m, problem.n, problem.d.ld, "float32")
    return run(engine, kernel, kernel.config(overrides), problem, a, b, c, stream=on)


def launches(gpu):
    return [(launched.entry, launched.how) for launched in gpu.launched]


BOTH = [("relayout", OVERLAPS), ("gemm_tma", OVERLAPS)]


def test_a_kernel_overlaps_its_relayout_and_that_what_is_before_it(gpu):
    multiply(gpu.engine(), KERNEL, Problem(64, 64, 64))
    assert launches(gpu) == BOTH


def test_both_operands_are_copied_in_one_launch(gpu):
    plan = multiply(gpu.engine(), KERNEL, Problem(64, 63, 64))
    assert plan.relaid == ("A", "B")
    assert launches(gpu) == BOTH


def test_operands_of_the_wanted_order_are_not_copied(gpu):
    plan = multiply(gpu.engine(), KERNEL, Problem(64, 64, 64, a=Layout("column")))
    assert plan.relaid == ()
    assert launches(gpu) == BOTH[1:]


@pytest.mark.parametrize(("k", "n"), [(64, 64), (64, 63), (63, 64), (63, 63)])
def test_what_lies_aligned_already_is_not_copied(gpu, k, n):
    plan = multiply(gpu.engine(), tma_transposed.KERNEL, Problem(64, n, k))
    copied = 4 * (64 * 64 * (k != 64) + k * 64 * (n != 64))
    assert plan.needs.relayout_bytes == copied
    assert launches(gpu) == BOTH[not copied :]


@pytest.mark.parametrize(("layout", "read"), [("NT", "NT TT NN TN"), ("NN", "NN TN NN TN"), ("TN", "TN TN TN TN")])
@pytest.mark.parametrize("k", [64, 63])
def test_a_config_says_which_factors_are_copied_to_the_order_in_which_they_are_read(layout, read, k):
    a, b = orders(layout)
    kernel, problem = tma_transposed.KERNEL, Problem(60, 100, k, a=a, b=b)
    for copied, orders_read in enumerate(read.split()):
        found = jobs(kernel, kernel.config({"COPIED": copied}), problem, Addresses())
        *copies, last = found.jobs
        assert (last.problem.layout, last.variant.layout) == (orders_read, orders_read)
        assert found.relaid == tuple(
            name
            for name, given, wanted, along_k in zip("AB", layout, orders_read, "NT", strict=True)
            if given != wanted or (k == 63 and given == along_k)
        )
        assert [copy.name for job in copies for copy in job.copies if copy.lines and copy.across] == [
            name for name, given, wanted in zip("AB", layout, orders_read, strict=True) if given != wanted
        ]
        assert lines_aligned(last.problem.a, 60, k, "float32", 0) and lines_aligned(
            last.problem.b, k, 100, "float32", 0
        )


def test_a_batch_is_copied_whole_and_a_matrix_that_serves_it_once(gpu):
    problem = Problem(64, 63, 64, batch=3, a=Layout(ld=65), b=Layout(batch_stride=0))
    plan = multiply(gpu.engine(), tma_transposed.KERNEL, problem)
    assert plan.needs.relayout_bytes == 4 * (3 * 64 * 64 + 64 * 64)


@pytest.mark.parametrize("order", ["row", "column"])
def test_factors_of_a_complex_product_are_written_before_all_else(gpu, order):
    """Where a kernel wants copies of them, these are made of what was written."""
    complex_product = Problem(64, 33, 35, a=Layout(order), b=Layout(batch_stride=0))
    factors, kernel = ComplexFactors(complex_product, False, True, True, False).ways[-1], tma_packed.KERNEL
    engine, real, given = gpu.engine(), factors.real, {}
    assert (real.m, real.n, real.k, real.a.ld, real.b.ld, real.d.ld) == (
        64,
        66,
        70,
        72 if order == "column" else 70,
        68,
        66,
    )
    plan = engine.plan(kernel, kernel.config(), real, factors=factors)
    begin = -(-(plan.needs.relayout_bytes - 8 * (36 * 64 * (order == "column") + 2 * 35 * 34)) // 256) * 256

    def note(launched):
        if launched.entry == "gemm_tma":
            return
        addresses = ctypes.cast(launched.parameters, ctypes.POINTER(ctypes.c_void_p))
        given[launched.entry] = [(ctypes.c_uint64 * 2).from_address(addresses[i])[:] for i in range(2)]
        if launched.entry == "complex_factors":
            given["alpha"] = (ctypes.c_float * 2).from_address(addresses[2])[:]

    gpu.on_launch = note
    engine.start(plan, Pointers(1 << 12, 1 << 13, 1 << 14), Scalars(1.0, 0.0, 2 - 3j))
    assert launches(gpu) == [("complex_factors", OVERLAPS), *BOTH]
    of_a, of_b = given["complex_factors"]
    assert given["alpha"] == [2, -3]
    assert of_b == [1 << 13, MEMORY.relayout + plan.needs.relayout_bytes - 2 * 35 * 34 * 8]
    assert of_a == ([1 << 12, MEMORY.relayout + begin] if order == "column" else [0, 0])
    assert given["relayout"][0][0] == (of_a[1] if order == "column" else 1 << 12)


@pytest.mark.parametrize(("orders_of", "first"), [("NN", "complex_factors"), ("NT", "complex_factors"), ("TN", "")])
def test_complex_products_with_a_large_b_are_joined(gpu, orders_of, first):
    """The product is written to memory of the launch, without C, and a launch behind it writes D."""
    a, b = orders(orders_of)
    factors = ComplexFactors(Problem(8, 1000, 1000, a=a, b=b, d=Layout(ld=1001)), False, False, False, True).ways[-1]
    assert factors.joins
    engine, kernel, real, given = gpu.engine(), split_k.KERNEL, factors.real, {}
    plan = engine.plan(kernel, kernel.config({"WORKERS": 0}), real, factors=factors)
    assert plan.problem == real and plan.executable.kernel is kernel
    assert [slot.source for slot in plan.steps[-2].slots if slot.source in ("D", "C", "beta", "alpha")] == ["alpha"]

    def note(launched):
        addresses = ctypes.cast(launched.parameters, ctypes.POINTER(ctypes.c_void_p))
        if launched.entry == "split_k":
            given["product"] = ctypes.c_uint64.from_address(addresses[3]).value
        elif launched.entry == "complex_join":
            given["products"] = ctypes.c_uint64.from_address(addresses[1]).value
            given["D"] = ctypes.c_uint64.from_address(addresses[2]).value

    gpu.on_launch = note
    engine.start(plan, Pointers(1 << 12, 1 << 13, 1 << 14), Scalars(2.0, 3.0))
    assert [name for name, _ in launches(gpu)] == [*filter(None, [first]), "split_k", "complex_join"]
    assert given["product"] == given["products"] == MEMORY.relayout + plan.needs.relayout_bytes - 4 * real.m * real.d.ld
    assert given["D"] == 1 << 14


def test_a_small_b_or_a_kernel_that_is_named_joins_nothing():
    for sizes, may_join, joins in (
        ((8, 900, 900), True, True),
        ((8, 900, 900), False, False),
        ((900, 900, 8), True, False),
    ):
        for layout in ("NN", "NT", "TN", "TT"):
            a, b = orders(layout)
            assert ComplexFactors(Problem(*sizes, a=a, b=b), False, False, False, may_join).ways[-1].joins == joins
    column = Problem(8000, 8, 4000, a=Layout("column"))
    assert ComplexFactors(column, False, False, False, True).ways[-1].joins  # which would be transposed


@pytest.mark.parametrize("orders_of", ["NN", "NT", "TN", "TT"])
def test_split_k_reads_complex_factors_in_place(gpu, orders_of):
    a, b = orders(orders_of)
    problem = Problem(64, 33, 35, a=a, b=b, d=Layout(ld=40))
    factors, kernel, given = ComplexFactors(problem, True, False, False, True).ways[0], split_k.KERNEL, {}
    assert factors.suit(kernel, kernel.config()) and not factors.suit(tma_packed.KERNEL, tma_packed.KERNEL.config())
    engine, real = gpu.engine(), factors.real
    plan = engine.plan(kernel, kernel.config(), real, factors=factors)
    assert (plan.kernel, plan.executable.kernel, plan.needs.relayout_bytes) == (kernel, split_k.COMPLEX, 0)
    assert (plan.executable.config["CONJUGATE_A"], plan.executable.config["CONJUGATE_B"]) == (1, 0)

    def note(launched):
        addresses = ctypes.cast(launched.parameters, ctypes.POINTER(ctypes.c_void_p))
        given["sizes"] = (ctypes.c_int32 * 4).from_address(addresses[0])[:]
        for name, at in (("A", 1), ("B", 2), ("D", 3)):
            given[name] = ctypes.c_uint64.from_address(addresses[at]).value
        given["lds"] = [ctypes.c_int32.from_address(addresses[at] + 16).value for at in (1, 2)]

    gpu.on_launch = note
    engine.start(plan, Pointers(1 << 12, 1 << 13, 1 << 14), Scalars(2.0, 3.0))
    assert launches(gpu) == [("split_k", OVERLAPS)]
    lds = [2 * length[order == "T"] for length, order in zip(((35, 64), (33, 35)), orders_of, strict=True)]
    assert given == {"sizes": [64, 66, 70, 1], "A": 1 << 12, "B": 1 << 13, "D": 1 << 14, "lds": lds}


def test_complex_factors_are_written_where_they_cannot_be_read_in_place():
    usual, far = Problem(64, 33, 35), Problem(64, 33, 35, b=Layout(ld=2**30))
    assert [one.way for one in ComplexFactors(usual, False, False, False, True).ways] == ["in place", "doubled"]
    assert [one.way for one in ComplexFactors(usual, False, False, True, True).ways] == ["doubled"]
    read, written = ComplexFactors(usual, False, False, False, True).ways
    assert read.spares == (split_k.KERNEL, 2**23 + 32 * 33 * 35)  # B is read again, and B' written and read
    assert written.spares is None
    assert [one.way for one in ComplexFactors(far, False, False, False, True).ways] == ["doubled"]


def test_copies_follow_one_another():
    problem = Problem(30, 7, 13)
    found = jobs(KERNEL, KERNEL.config(), problem, Addresses())
    first, second = found.jobs
    of_a, of_b = first.copies
    assert (of_a.name, of_a.shift, of_a.lines, of_a.length, of_a.ld) == ("A", 0, 13, 30, 32)
    assert (of_b.name, of_b.shift, of_b.lines, of_b.length, of_b.ld) == ("B", 4 * 13 * 32, 13, 7, 8)
    assert (of_a.across, of_a.ld_from) == (True, 13)
    assert (of_b.across, of_b.ld_from) == (False, 7)
    assert (second.problem.a, second.problem.b) == (Layout("column", 32, 0), Layout("row", 8, 0))
    assert second.sources == {"A": ("relayout", 0), "B": ("relayout", 4 * 13 * 32)}
    assert found.relayout_bytes == 4 * 13 * (32 + 8)
    assert relayout.squares(first.config, of_a.lines, of_a.length, 1) == 1


def test_with_no_terms_nothing_is_copied(gpu):
    multiply(gpu.engine(), KERNEL, Problem(64, 64, 0))
    assert launches(gpu) == BOTH[1:]


def test_older_gpus_run_one_launch_after_the_other(gpu):
    kernel = replace(KERNEL, support=replace(KERNEL.support, least_capability=(7, 5)))
    engine = gpu.engine((8, 9))
    multiply(engine, kernel, Problem(64, 64, 64))
    multiply(engine, split_k.KERNEL, Problem(64, 64, 64))
    assert launches(gpu) == [("relayout", IN_TURN), ("gemm_tma", IN_TURN), ("split_k", IN_TURN)]


def test_kernels_overlap_that_say_so(gpu, tmp_path):
    engine = gpu.engine()
    multiply(engine, dump_kernel(tmp_path), Problem(8, 8, 8), ROWS=8, COLS=8)
    multiply(engine, split_k.KERNEL, Problem(8, 8, 8))
    assert launches(gpu) == [("dump", IN_TURN), ("split_k", OVERLAPS)]


def test_the_driver_gets_the_geometry_and_the_stream(gpu):
    problem = Problem(300, 200, 64)
    engine = gpu.engine()
    multiply(engine, KERNEL, problem)
    multiply(engine, KERNEL, problem, SimpleNamespace(handle=78))
    geometry = KERNEL.launch(problem, KERNEL.config(), MULTIPROCESSORS)
    for launched, handle in zip(gpu.launched[1::2], (77, 78), strict=True):
        assert (launched.grid, launched.block, launched.stream) == (geometry.grid, geometry.block, handle)
        assert launched.shared_bytes >= geometry.shared_bytes > 0


def test_parameters_are_filled_in_for_each_start(gpu):
    """A rung's: their addresses in the order of its arguments."""
    engine = gpu.engine()
    kernel = next(kernel for kernel in KERNELS if kernel.name == "naive")
    plan = engine.plan(kernel, kernel.config(), Problem(5, 6, 7))
    kinds = {"M": ctypes.c_int, "alpha": ctypes.c_float, "A_data": ctypes.c_uint64, "ldd": ctypes.c_int}
    kinds |= {"B_data": ctypes.c_uint64, "D_data": ctypes.c_uint64, "beta": ctypes.c_float}
    seen = []

    def look(launched):
        addresses = dict(zip(kernel.arguments, launched.parameters, strict=True))
        seen.append({name: kind.from_address(addresses[name]).value for name, kind in kinds.items()})

    gpu.on_launch = look
    engine.start(plan, Pointers(0x100, 0x200, 0x300), Scalars(0.5, 2.0))
    engine.start(plan, Pointers(0x400, 0x500, 0x600))
    fixed = {"M": 5, "ldd": 6}
    assert seen == [
        fixed | {"alpha": 0.5, "beta": 2.0, "A_data": 0x100, "B_data": 0x200, "D_data": 0x300},
        fixed | {"alpha": 1.0, "beta": 0.0, "A_data": 0x400, "B_data": 0x500, "D_data": 0x600},
    ]


@pytest.mark.parametrize(
    ("m", "each"), [(64, 1), (64 * 132, 1), (64 * 133, 2), (64 * 132 * 2, 2), (64 * 132 * 2 + 1, 3)]
)
def test_a_multiprocessor_holds_no_more_blocks_than_its_share_where_all_run_at_once(gpu, m, each):
    """Blocks of a kernel that relays out may begin while the copies' blocks still fill some multiprocessors."""
    small = {"BM": 64, "BN": 64, "BK": 32, "K_SLICES": 2, "A_BUFFERS": 1, "UNROLL": 16, "WORKERS": 0, "MIN_BLOCKS": 4}
    multiply(gpu.engine(), tma_transposed.KERNEL, Problem(m, 64, 63), **small)
    of_block = gpu.launched[-1].shared_bytes + RESERVED_BYTES
    assert SHARED_BYTES // of_block == each


@pytest.mark.parametrize(("bundle", "grid"), [(1, 396), (2, 198), (3, 132)])
def test_blocks_of_a_bundle_are_one_to_the_driver(gpu, bundle, grid):
    """A block each for 264 of 316 tiles, and 132 blocks share the rest."""
    small = {"BM": 32, "BN": 64, "BK": 32, "K_SLICES": 4, "A_BUFFERS": 1, "UNROLL": 8, "WORKERS": 1}
    problem = Problem(2500, 200, 900)
    config = tma_transposed.KERNEL.config({**small, "MIN_BLOCKS": bundle, "BUNDLE": bundle})
    multiply(gpu.engine(), tma_transposed.KERNEL, problem, **config)
    launch = tma_transposed.KERNEL.launch(problem, config, MULTIPROCESSORS)
    launched = gpu.launched[-1]
    assert (launched.grid, launched.block) == ((grid, 1, 1), (launch.block[0], bundle, 1))
    assert launched.shared_bytes >= bundle * launch.shared_bytes
    assert launch.grid == (396, 1, 1)


def test_blocks_that_do_not_all_run_at_once_ask_for_what_they_need(gpu):
    problem = Problem(64 * 132 * 20, 64, 63)
    multiply(gpu.engine(), tma_transposed.KERNEL, problem)
    kernel = tma_transposed.KERNEL
    assert gpu.launched[-1].shared_bytes == kernel.launch(problem, kernel.config(), MULTIPROCESSORS).shared_bytes


def test_kernels_that_may_overlap_wait_and_those_that_are_copied_for_may():
    kernels = [relayout.KERNEL, *KERNELS]
    overlapping = [kernel.name for kernel in kernels if kernel.overlaps]
    assert overlapping == [kernel.name for kernel in kernels if "grid_dependency_wait();" in kernel.source.read_text()]
    library = [kernel for kernel in KERNELS if kernel.source.parent.name == "library"]
    copied_for = {kernel.name for kernel in library if kernel.relayouts(kernel.config())}
    assert {"tma_packed", "tma_transposed"} <= copied_for <= set(overlapping)


def test_whether_a_stream_is_captured_is_asked_only_where_code_must_be_loaded(gpu):
    engine, config, asked = gpu.engine(), split_k.KERNEL.config(), []

    def capturing():
        asked.append(True)
        return len(asked) > 1

    engine.plan(split_k.KERNEL, config, Problem(64, 64, 64), capturing=capturing)
    engine.plan(split_k.KERNEL, config, Problem(128, 64, 64), capturing=capturing)
    assert len(asked) == 1
    with pytest.raises(LaunchError, match="the stream is being captured"):
        engine.plan(split_k.KERNEL, config, Problem(63, 64, 64), capturing=capturing)


@pytest.mark.parametrize(("name", "most"), [("gemm_bf16x6", 165), ("gemm_sm90", 118), ("tma_transposed", 136)])
def test_a_new_shape_is_planned_quickly(gpu, name, most):
    """By the calls it makes, once its code is loaded."""
    engine, kernel, profile = gpu.engine(), find(name), cProfile.Profile()
    arithmetic = kernel.support.arithmetic()
    engine.plan(kernel, kernel.config(), Problem(1000, 1008, 1032, arithmetic))
    plan = profile.runcall(engine.plan, kernel, kernel.config(), Problem(1016, 1024, 1032, arithmetic))
    assert 40 < pstats.Stats(profile).total_calls < most
    assert len(plan.steps) == 1 + bool(plan.relaid and not kernel.splits)
    assert engine.loaded == 1 + bool(plan.relaid and not kernel.splits)


def test_a_plan_raises_in_place_of_waiting_for_a_compiler(gpu, monkeypatch):
    """The code of all its launches is compiled meanwhile, each once; whoever waits takes what is done."""
    engine, kernel, go, compiled = gpu.engine(), find("tma_packed"), threading.Event(), []
    compile_it = nvrtc.compile

    def slowly(kernel, *arguments):
        assert go.wait(10)
        compiled.append(kernel.name)
        return compile_it(kernel, *arguments)

    monkeypatch.setattr(nvrtc, "compile", slowly)
    problem = Problem(1000, 1008, 1032)
    for _ in range(2):
        with pytest.raises(background.PendingCode) as pending, background.never_waiting():
            engine.plan(kernel, kernel.config(), problem)
    assert len(pending.value.work) == 2
    assert not engine.loaded
    go.set()
    assert background.finish()
    assert not background.finish()
    with background.never_waiting():
        assert len(engine.plan(kernel, kernel.config(), problem).steps) == 2
    assert sorted(compiled) == ["relayout", "tma_packed"]


def test_what_a_compiler_refused_in_the_background_is_raised_by_the_next_call(gpu, monkeypatch):
    engine, kernel = gpu.engine(), find("split_k")

    def refuses(*_):
        raise CompileError("no")

    monkeypatch.setattr(nvrtc, "compile", refuses)
    with background.never_waiting():
        with pytest.raises(background.PendingCode):
            engine.plan(kernel, kernel.config(), Problem(64, 64, 64))
        background.finish()
        with pytest.raises(CompileError, match="no"):
            engine.plan(kernel, kernel.config(), Problem(64, 64, 64))


@pytest.mark.parametrize("loads", [True, False], ids=["the driver loads it", "it does not"])
def test_code_of_an_installed_wheel_is_loaded_and_nothing_is_compiled(gpu, monkeypatch, loads):
    """Where the driver does not load it, it is compiled as if there were no wheel."""
    engine, kernel = gpu.engine(), find("split_k")
    compile_it, compiled, load = nvrtc.compile, [], cuda_executable.ObjectCode.from_cubin

    def from_cubin(code, name):
        if code and not loads:
            raise LaunchError("the GPU reports no kernel image")
        return load(code, name)

    monkeypatch.setattr(precompiled, "has", lambda *_: True)
    monkeypatch.setattr(precompiled, "find", lambda *of: replace(compile_it(*of), code=b"of a wheel"))
    monkeypatch.setattr(nvrtc, "compile", lambda *of: compiled.append(of) or compile_it(*of))
    monkeypatch.setattr(cuda_executable, "ObjectCode", SimpleNamespace(from_cubin=from_cubin))
    with background.never_waiting():
        assert engine.plan(kernel, kernel.config(), Problem(64, 64, 64)).steps
    assert bool(compiled) is not loads
