"""The XLA handler, and programs that call it, with a stand-in for the driver: XLA runs them on the host."""

import struct
import subprocess
import sys
import sysconfig
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.interpreters import mlir  # noqa: E402
from launcher_products import CONTEXT, STEP  # noqa: E402
from xla_on_host import NEEDS, STREAM, LaunchedEngine, build  # noqa: E402

import tilewright  # noqa: E402
from stand_ins import NumPyEngine  # noqa: E402
from tilewright.api.request import Request  # noqa: E402
from tilewright.core.errors import EngineUnavailableError  # noqa: E402
from tilewright.frameworks.jax import lowering  # noqa: E402
from tilewright.frameworks.jax.product import Kind, local_p, product_p  # noqa: E402
from tilewright.runtime import extension, xla_handler  # noqa: E402
from tilewright.runtime.host_compiler import find_compiler  # noqa: E402
from tilewright.runtime.plan import OVERLAPS, Needs, Slot  # noqa: E402

calls = import_module("tilewright.api.call")
on_gpu = False


def _lower(ctx, *operands, kind):
    rule = lowering._lower_to_handler if on_gpu else lowering._lower_to_xla
    return rule(ctx, *operands, kind=kind)


mlir.register_lowering(product_p, _lower, platform="cpu", cacheable=False)
mlir.register_lowering(local_p, lowering._lower_local, platform="cpu", cacheable=False)


@pytest.fixture(scope="module")
def handler(driver_library):
    handler = build()
    handler.open(driver_library.path)
    return handler


@pytest.fixture
def gpu(monkeypatch, driver, handler):
    """Have programs on the host multiply as those on a GPU do."""
    engine = LaunchedEngine(driver, NEEDS)
    monkeypatch.setattr(calls, "_gpu", lambda number: engine)
    monkeypatch.setattr(lowering, "_gpus", lambda: [0])
    monkeypatch.setattr(xla_handler, "load", lambda: handler)
    monkeypatch.setattr(lowering, "_name", lambda planned: f"plan {next(_numbers)}")
    monkeypatch.setattr(sys.modules[__name__], "on_gpu", True)
    jax.clear_caches()
    yield engine
    jax.clear_caches()


_numbers = iter(range(1 << 30))


def draw(*shape, dtype="float32"):
    return jnp.asarray(np.random.default_rng(shape).standard_normal(shape, np.float32)).astype(dtype)


def check(result, expected, tolerance=1e-5):
    assert result.shape == expected.shape
    assert result.dtype == expected.dtype
    np.testing.assert_allclose(np.float32(result), np.float32(expected), rtol=tolerance, atol=1e-5)


def call(plan, *operands, results=((4, 5),), alpha=2.0):
    """Call the handler with arrays of the host."""
    shapes = [jax.ShapeDtypeStruct(shape, "uint8" if len(shape) == 1 else "float32") for shape in results]
    function = jax.ffi.ffi_call(xla_handler.TARGET, shapes)
    return jax.block_until_ready(jax.jit(lambda *x: function(*x, plan=plan, alpha=np.float32(alpha)))(*operands))


# The handler.


def test_a_call_fills_in_pointers_and_alpha(driver, handler):
    a, b, bias = draw(4, 3), draw(3, 5), draw(5)
    driver.takes(STEP)
    assert handler.keep("pointers", 0, CONTEXT, (STEP,), Needs()) == 0
    call("pointers", a, b, bias)
    (launch,) = driver.launches
    assert (launch.function, launch.stream, launch.context) == (0xF00D, STREAM, CONTEXT)
    assert (launch.grid, launch.block, launch.shared_bytes) == ((3, 2, 1), (128, 1, 1), 4096)
    at = struct.unpack("5Q2f", launch.parameters)
    assert at[0] == a.unsafe_buffer_pointer()
    assert at[1] == b.unsafe_buffer_pointer() + 32
    assert at[2] == at[3]
    assert at[4:] == (bias.unsafe_buffer_pointer(), 2.0, 0.0)
    assert driver.current_context == 0


def test_factors_may_be_swapped(driver, handler):
    a, b = draw(4, 3), draw(3, 5)
    driver.takes(STEP)
    handler.keep("swapped", 0, CONTEXT, (STEP,), Needs(), swapped=True)
    call("swapped", a, b)
    expected = (b.unsafe_buffer_pointer(), a.unsafe_buffer_pointer() + 32)
    assert struct.unpack_from("2Q", driver.launches[0].parameters) == expected


def test_steps_share_the_scratch_memory(driver, handler):
    slots = [Slot(8 * i, "pointer", source) for i, source in enumerate(("workspace", "relayout", "counters"))]
    step = STEP._replace(arguments=bytes(24), slots=tuple(slots))
    steps = step._replace(function=1), step._replace(function=2, attribute=OVERLAPS)
    for step in steps:
        driver.takes(step)
    needs = Needs(workspace_bytes=100, counters=3, relayout_bytes=1000)
    assert handler.keep("scratch", 0, CONTEXT, steps, needs) == 256 + 1024 + 12
    call("scratch", draw(4, 3), draw(3, 5), results=((4, 5), (1292,)))
    assert [(launch.function, launch.attribute) for launch in driver.launches] == [(1, 0), (2, OVERLAPS)]
    workspace, relayout, counters = struct.unpack("3Q", driver.launches[1].parameters)
    assert (relayout - workspace, counters - workspace) == (256, 1280)


@pytest.mark.parametrize("needed", range(3))
def test_what_is_not_needed_is_null(driver, handler, needed):
    slots = tuple(Slot(8 * i, "pointer", source) for i, source in enumerate(("workspace", "counters", "relayout")))
    step = STEP._replace(arguments=bytes(24), slots=slots)
    driver.takes(step)
    needs = Needs(*(100 * (i == needed) for i in range(3)))
    size = handler.keep(f"null {needed}", 0, CONTEXT, (step,), needs)
    call(f"null {needed}", draw(4, 3), draw(3, 5), results=((4, 5), (size,)))
    found = struct.unpack("3Q", driver.launches[0].parameters)
    assert [at != 0 for at in found] == [i == needed for i in range(3)]


def test_a_plan_that_is_known_by_its_name_stays(driver, handler):
    driver.takes(STEP)
    for function in (0xF00D, 0xBAD):
        handler.keep("stays", 0, CONTEXT, (STEP._replace(function=function),), Needs())
    call("stays", draw(4, 3), draw(3, 5))
    assert driver.launches[0].function == 0xF00D


REFUSED = {
    "no plan": ("unknown", (), {}, "this process has made no plan 'unknown' for GPU 0"),
    "operands": ("refusing", (), {"results": ((4, 5), (8,))}, "has other operands or results"),
    "memory": ("scratchy", (), {"results": ((4, 5), (8,))}, "needs more memory"),
}


@pytest.mark.parametrize(("plan", "more", "named", "words"), REFUSED.values(), ids=REFUSED)
def test_calls_that_are_refused(driver, handler, plan, more, named, words):
    handler.keep("refusing", 0, CONTEXT, (STEP,), Needs())
    handler.keep("scratchy", 0, CONTEXT, (STEP,), Needs(workspace_bytes=100))
    with pytest.raises(Exception, match=words):
        call(plan, draw(4, 3), draw(3, 5), *more, **named)
    assert driver.launch_count == 0


def test_an_error_of_the_driver_is_the_programs(driver, handler):
    handler.keep("failing", 0, CONTEXT, (STEP,), Needs())
    driver.failing = 719
    with pytest.raises(Exception, match="CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure"):
        call("failing", draw(4, 3), draw(3, 5))


def test_plans_that_cannot_be_launched(handler):
    with pytest.raises(ValueError, match="no pointer comes from 'E'"):
        handler.keep("bad", 0, CONTEXT, (STEP._replace(slots=(Slot(0, "pointer", "E"),)),), Needs())
    with pytest.raises(TypeError):
        handler.keep("bad", 0, CONTEXT, ((1, 2),), Needs())


@pytest.mark.further
def test_it_is_built_once_and_needs_a_driver(monkeypatch, tmp_path):
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(xla_handler, "DRIVER", "no-such-driver.so")
    monkeypatch.setattr(extension, "_OPTIONS", (*extension._OPTIONS, "-O0"))  # compiles in half of the time
    written = []
    for _ in range(2):
        xla_handler.load.cache_clear()
        with pytest.raises(EngineUnavailableError, match="the XLA handler cannot be built or loaded: no-such-driver"):
            xla_handler.load()
        (built,) = (tmp_path / "cache").rglob("xla_handler-*.so")
        written.append(built.stat().st_mtime_ns)
    assert written[0] == written[1]


@pytest.mark.further
def test_it_compiles_without_warnings():
    include = [f"-isystem{jax.ffi.include_dir()}", f"-I{sysconfig.get_path('include')}"]
    warnings = ["-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers"]
    find_compiler().run(["-std=c++17", *warnings, "-fsyntax-only", *include, str(xla_handler._SOURCE)])


# Programs.


def transposed(x):
    return jnp.matrix_transpose(x)


PRODUCTS = {
    "NN": (lambda a, b: (a, b), (5, 7), (7, 3)),
    "TN": (lambda a, b: (transposed(a), b), (7, 5), (7, 3)),
    "NT": (lambda a, b: (a, b.T), (5, 7), (3, 7)),
    "TT": (lambda a, b: (a.T, jnp.swapaxes(b, 0, 1)), (7, 5), (3, 7)),
    "batch": (lambda a, b: (a, transposed(b)), (2, 3, 5, 7), (2, 3, 3, 7)),
    "batch of a": (lambda a, b: (transposed(a), b), (2, 3, 7, 5), (7, 3)),
    "batch of b": (lambda a, b: (a, b), (5, 7), (2, 7, 3)),
    "rows that are interleaved": (lambda a, b: (jnp.moveaxis(a, 1, 0), b), (5, 2, 7), (2, 7, 3)),
}


@pytest.mark.first(3)
@pytest.mark.parametrize(("view", "a", "b"), PRODUCTS.values(), ids=PRODUCTS)
def test_operands_are_read_where_they_lie(driver, gpu, view, a, b):
    a, b = draw(*a), draw(*b)
    result = jax.jit(lambda a, b: tilewright.matmul(*view(a, b)))(a, b)
    check(result, jnp.matmul(*view(a, b), precision="highest"))
    (launch,) = driver.launches
    pointers = struct.unpack_from("4Q", launch.parameters)
    assert pointers[0] == a.unsafe_buffer_pointer()
    assert pointers[1] == b.unsafe_buffer_pointer()
    assert pointers[3] == result.unsafe_buffer_pointer()


COPIED = {
    "strides that no layout has": (lambda a, b: (jnp.transpose(a, (1, 2, 0)), b), (7, 2, 5), (2, 7, 3)),
    "heads": (lambda a, b: (jnp.transpose(a, (0, 2, 1, 3)), b), (2, 5, 3, 7), (2, 3, 7, 3)),
    "a batch that broadcasts along one dimension": (lambda a, b: (a, b), (2, 1, 5, 7), (1, 3, 7, 3)),
}


@pytest.mark.parametrize(("view", "a", "b"), COPIED.values(), ids=COPIED)
def test_what_no_layout_describes_is_copied(driver, gpu, view, a, b):
    a, b = draw(*a), draw(*b)
    check(jax.jit(lambda a, b: tilewright.matmul(*view(a, b)))(a, b), jnp.matmul(*view(a, b), precision="highest"))
    assert driver.launch_count == 1


def test_gradients_transpose_nothing(driver, gpu):
    x, w, g = draw(4, 6, 7), draw(7, 3), draw(4, 6, 3)

    def loss(x, w):
        return (tilewright.matmul(x, w) * g).sum()

    dx, dw = jax.jit(jax.grad(loss, (0, 1)))(x, w)
    check(dx, jnp.matmul(g, w.T, precision="highest"))
    check(dw, jnp.einsum("bti,bto->io", x, g, precision="highest"))
    orders = sorted(plan.problem.layout for plan in gpu.planned)
    assert orders == ["NT", "TN"]
    read = {pointer for launch in driver.launches for pointer in struct.unpack_from("2Q", launch.parameters)}
    assert {x.unsafe_buffer_pointer(), w.unsafe_buffer_pointer()} <= read


def test_bias_activation_alpha_and_types(gpu):
    a, b = draw(5, 7, dtype="bfloat16"), draw(7, 3, dtype="bfloat16")
    for bias in (draw(3), draw(1, 3), draw(5, 1)):
        f = jax.jit(
            lambda a, b, bias: tilewright.matmul(a, b, bias=bias, activation="gelu", alpha=0.5, out_dtype="float32")
        )
        sums = 0.5 * jnp.matmul(a, b, preferred_element_type="float32") + bias
        check(f(a, b, bias), jax.nn.gelu(sums, approximate=False))
    assert [plan.problem.epilogue.bias for plan in gpu.planned] == ["row", "column"]
    assert gpu.planned[0].problem.case == "NN bfloat16 bias+gelu"


def test_complex_products_have_plans_of_their_own(gpu):
    """Also next to a product of float32 with the sizes of the real one."""
    a, b, bias = (draw(*shape) + 1j * draw(*shape).round() for shape in ((5, 7), (3, 7), (3,)))
    f = jax.jit(lambda a, b, bias: tilewright.matmul(a, b.T, bias=bias, alpha=2.0))
    np.testing.assert_allclose(f(a, b, bias), 2 * jnp.matmul(a, b.T, precision="highest") + bias, rtol=1e-4, atol=1e-4)
    real = [draw(5, 14), draw(6, 14), draw(6)]
    check(f(*real), 2 * jnp.matmul(real[0], real[1].T, precision="highest") + real[2])
    assert [(plan.problem.shape, plan.problem.case) for plan in gpu.planned] == [("5x6x14", "NT float32 bias")] * 2


def test_a_scan_and_a_vmap_launch_with_zeroed_counters(gpu):
    w, x = draw(6, 6), draw(4, 6)
    scanned = jax.jit(lambda x: jax.lax.scan(lambda x, _: (tilewright.matmul(x, w), None), x, length=5)[0])
    check(scanned(x), x @ jnp.linalg.matrix_power(w, 5), 1e-3)
    xs = draw(3, 4, 6)
    check(jax.jit(jax.vmap(lambda x: tilewright.matmul(x, w)))(xs), jnp.matmul(xs, w, precision="highest"))
    assert gpu.counters == [bytes(12)] * 6
    assert [plan.problem.m for plan in gpu.planned] == [4, 12]


def test_values_without_elements_are_xlas(driver, gpu):
    check(jax.jit(tilewright.matmul)(draw(4, 0), draw(0, 5)), jnp.zeros((4, 5)))
    assert jax.jit(tilewright.matmul)(draw(0, 3), draw(3, 5)).shape == (0, 5)
    assert driver.launch_count == 0


def test_one_plan_for_products_of_a_kind(gpu):
    a, b = draw(5, 7), draw(7, 3)
    jax.jit(lambda a, b: tilewright.matmul(a, b) + tilewright.matmul(2 * a, b))(a, b)
    jax.jit(lambda a, b: tilewright.matmul(a, b) - 1)(a, b)
    assert len(gpu.planned) == 1


def test_a_program_for_a_gpu_is_given_what_was_transposed(gpu):
    a, b = draw(7, 5), draw(7, 3)
    lowered = jax.jit(lambda a, b: tilewright.matmul(a.T, b)).trace(a, b).lower(lowering_platforms=("cuda",))
    (line,) = [line for line in lowered.as_text().splitlines() if "custom_call" in line]
    assert f"@{xla_handler.TARGET}(%arg0, %arg1)" in line


def test_without_a_compiler_xla_multiplies(monkeypatch, gpu, driver):
    def unavailable():
        raise EngineUnavailableError("there is no C++ compiler")

    monkeypatch.setattr(xla_handler, "load", unavailable)
    a, b = draw(5, 7), draw(7, 3)
    with pytest.warns(RuntimeWarning, match="XLA multiplies in place of tilewright: there is no C"):
        check(jax.jit(tilewright.matmul)(a, b), jnp.matmul(a, b, precision="highest"))
    with pytest.raises(EngineUnavailableError, match="no C"):
        jax.jit(lambda a, b: tilewright.matmul(a, b, kernel="naive"))(a, b)
    assert driver.launch_count == 0


def test_a_named_kernel_is_launched(gpu):
    a, b = draw(7, 5), draw(7, 3)
    f = jax.jit(lambda a, b: tilewright.matmul(a.T, b, kernel="naive"))
    check(f(a, b), jnp.matmul(a.T, b, precision="highest"))
    assert [plan.kernel.name for plan in gpu.planned][-1] == "naive"


def test_names_of_plans_are_the_same_in_every_process(monkeypatch):
    kind = "Kind(Request('float32'))"
    name = f"lowering._name(lowering._planned(0, [(5, 7), (7, 3)], ['float32'] * 2, [(0, 1), (1, 0)], {kind}))"
    code = (
        "import sys; sys.path[:0] = [sys.argv[1], sys.argv[2]]\n"
        "from stand_ins import NumPyEngine\n"
        "import tilewright.api.call as calls\n"
        "from tilewright.api.request import Request\n"
        "from tilewright.frameworks.jax import lowering\n"
        "from tilewright.frameworks.jax.product import Kind\n"
        "engine = NumPyEngine((9, 0)); calls._gpu = lambda number: engine\n"
        f"print({name})"
    )
    here = Path(__file__).parent
    command = [sys.executable, "-c", code, str(here.parent), str(here)]
    there = subprocess.run(command, check=True, capture_output=True, text=True).stdout.rstrip("\n")
    assert " 5x3x7 NT float32 " in there
    engine = NumPyEngine((9, 0))
    monkeypatch.setattr(calls, "_gpu", lambda number: engine)
    assert eval(name, {"lowering": lowering, "Kind": Kind, "Request": Request}) == there


def test_a_precision_reaches_the_plans_of_a_program(gpu):
    a, b = draw(7, 5), draw(7, 3)
    f = jax.jit(lambda a, b, p: tilewright.matmul(a.T, b, precision=p), static_argnums=2)
    for precision in (None, "ieee", "fp16x3"):
        check(f(a, b, precision), jnp.matmul(a.T, b, precision="highest"))
        assert gpu.planned[-1].problem.arithmetic.precision == precision
