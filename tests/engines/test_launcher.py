"""The compiled launcher, with a stand-in for the driver and arrays that are nowhere."""

import gc
import importlib
import struct
import sys
import sysconfig
import threading
import weakref
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from exchange import BFLOAT16, FLOAT16, Array, StandInDriver, capsule, older_api, set_stream

from tilewright.engines import launcher
from tilewright.engines.host_compiler import find_compiler
from tilewright.engines.plan import Memory, Needs, Slot, Step
from tilewright.errors import LaunchError

CONTEXT = 0xC0
MEMORY = Memory(0x1000, 1 << 20, 0x2000, 1 << 10, 0x3000, 1 << 20)
SLOTS = (
    Slot(0, "pointer", "A"),
    Slot(8, "pointer", "B", 32),
    Slot(16, "pointer", "C"),
    Slot(24, "pointer", "D"),
    Slot(32, "pointer", "bias"),
    Slot(40, "scalar", "alpha"),
    Slot(44, "scalar", "beta"),
)
STEP = Step(0xF00D, (3, 2, 1), (128, 1, 1), 4096, False, bytes(48), (0,), SLOTS)


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    path = tmp_path_factory.mktemp("driver") / "libdriver.so"
    source = Path(__file__).with_name("stand_in_driver.cpp")
    find_compiler().run(["-std=c++17", "-O1", "-fPIC", "-shared", str(source), "-o", str(path)])
    return StandInDriver(path)


@pytest.fixture
def driver(library):
    library.reset()
    set_stream(0)
    yield library
    library.reset()


@pytest.fixture
def module():
    return launcher.load()


@pytest.fixture
def product(driver, module):
    """Remembers and calls products, with all that a test does not name as usual."""
    return Product(module.Launcher(driver.path), module.MISS, driver)


class Product:
    def __init__(self, launcher, miss, driver):
        self.launcher, self.miss, self.driver = launcher, miss, driver
        self.asked = []
        self.made = []

    def memory(self, stream, needs):
        self.asked.append((stream, needs))
        return MEMORY

    def new(self, *shape, **keywords):
        self.made.append(Array(*shape, at=0x90000000 + (len(self.made) << 16), **keywords))
        return self.made[-1]

    def remember(self, a, b, c=None, out=None, bias=None, options=None, **plan):
        plan = {"steps": (STEP,), "needs": Needs(), "context": CONTEXT, "memory": self.memory} | plan
        plan = {"new": None if out else (self.new, (4, 5), {}), "scaled": False} | plan
        for step in plan["steps"]:
            self.driver.takes(step)
        return self.launcher.remember(a, b, c, out, bias, options, **plan)

    def __call__(self, a, b, c=None, out=None, bias=None, options=None, alpha=1.0, beta=0.0):
        return self.launcher.call(a, b, c, out, bias, alpha, beta, options)

    def misses(self, *arrays, **named):
        return self(*arrays, **named) is self.miss


def factors(**named):
    return Array(4, 3, at=0x10000000, **named), Array(3, 5, at=0x20000000, **named)


# What is launched.


def test_a_call_fills_in_pointers_and_scalars(driver, product):
    a, b = factors()
    c, out, bias = Array(4, 5, at=0x30000000), Array(4, 5, at=0x40000000), Array(5, at=0x50000000)
    template = bytes(range(48)) + b"untouched"
    step = STEP._replace(arguments=template)
    assert product.misses(a, b, c, out, bias, alpha=0.5, beta=2)
    assert product.remember(a, b, c, out, bias, steps=(step,), scaled=True)
    set_stream(0x5EA)
    assert product(a, b, c, out, bias, alpha=0.5, beta=2) is out
    (launch,) = driver.launches
    assert (launch.function, launch.stream, launch.context) == (0xF00D, 0x5EA, CONTEXT)
    assert (launch.grid, launch.block, launch.shared_bytes) == ((3, 2, 1), (128, 1, 1), 4096)
    assert not launch.overlaps
    addresses = (0x10000000, 0x20000000 + 32, 0x30000000, 0x40000000, 0x50000000)
    assert launch.parameters == struct.pack("5Q2f", *addresses, 0.5, 2.0) + b"untouched"


def test_other_arrays_of_the_same_kind(driver, product):
    a, b = factors()
    product.remember(a, b)
    for i in range(5):
        at = 0x60000000 + (i << 12)
        result = product(Array(4, 3, at=at), Array(3, 5, at=at + 512), alpha=i)
        assert result is product.made[i]
        expected = struct.pack("5Q2f", at, at + 512 + 32, 0, result.tensor.data, 0, i, 0)
        assert driver.launches[i].parameters == expected


def test_a_byte_offset_is_part_of_the_address(driver, product):
    a, b = factors()
    product.remember(a, b)
    product(Array(4, 3, at=0x10000000, byte_offset=64), b)
    assert struct.unpack_from("Q", driver.launches[0].parameters) == (0x10000040,)


def test_steps_are_launched_in_order_with_memory(driver, product):
    a, b = factors()
    first = Step(1, (1, 1, 1), (32, 1, 1), 0, False, bytes(16), (0,), (Slot(0, "pointer", "relayout", 256),))
    slots = (Slot(0, "pointer", "workspace"), Slot(8, "pointer", "tickets"), Slot(16, "pointer", "relayout"))
    second = Step(2, (1, 1, 1), (32, 1, 1), 0, True, bytes(24), (0,), slots)
    needs = Needs(100, 3, 1000)
    product.remember(a, b, steps=(first, second), needs=needs)
    product(a, b)
    assert [launch.function for launch in driver.launches] == [1, 2]
    assert [launch.overlaps for launch in driver.launches] == [False, True]
    assert driver.launches[0].parameters == struct.pack("2Q", 0x3000 + 256, 0)
    assert driver.launches[1].parameters == struct.pack("3Q", 0x1000, 0x2000, 0x3000)


def test_what_is_not_needed_is_null(driver, product):
    a, b = factors()
    slots = tuple(Slot(8 * i, "pointer", source) for i, source in enumerate(("workspace", "tickets", "relayout")))
    step = STEP._replace(slots=slots, arguments=bytes(24))
    for i in range(3):
        product.remember(a, b, steps=(step,), needs=Needs(*(int(i == one) for one in range(3))), options=i)
        product(a, b, options=i)
        assert struct.unpack("3Q", driver.launches[i].parameters) == tuple(
            0x1000 * (i + 1) * (i == one) for one in range(3)
        )


def test_maps_are_patched(driver, product):
    a, b = factors()
    template = bytes(range(64)) + b"a" * 128 + b"b" * 128
    slots = (Slot(64, "map", "A"), Slot(192, "map", "relayout", 512), Slot(0, "scalar", "alpha"))
    step = Step(1, (1, 1, 1), (32, 1, 1), 0, False, template, (0,), slots)
    product.remember(a, b, steps=(step,), needs=Needs(relayout_bytes=1))
    product(a, b, alpha=2)
    product(a, b, alpha=3)
    assert driver.replace_count == 2  # what has not changed is not replaced
    product(Array(4, 3, at=0x70000000), b, alpha=3)
    assert driver.replace_count == 3
    for launch, at, alpha in zip(driver.launches, (0x10000000, 0x10000000, 0x70000000), (2, 3, 3), strict=True):
        expected = struct.pack("f", alpha) + template[4:64]
        expected += struct.pack("Q", at) + b"a" * 120 + struct.pack("Q", 0x3000 + 512) + b"b" * 120
        assert launch.parameters == expected


def test_factors_may_be_swapped(driver, product):
    a, b = factors()
    product.remember(a, b, swapped=True)
    product(a, b)
    assert struct.unpack_from("2Q", driver.launches[0].parameters) == (0x20000000, 0x10000000 + 32)


def test_a_result_without_elements_launches_nothing(driver, product):
    a, b = Array(0, 3, at=0), Array(3, 5)
    product.remember(a, b, steps=(), needs=Needs(), new=(product.new, (0, 5), {}))
    assert product(a, b) is product.made[0]
    assert driver.launch_count == 0


@pytest.mark.parametrize("shape", [(0, 5), (4, 0)])
def test_a_plan_without_steps_takes_every_scalar_and_asks_for_nothing(driver, product, shape):
    m, n = shape
    a, b = Array(m, 3, at=0 if m == 0 else 0x10000000), Array(3, n, at=0 if n == 0 else 0x20000000)
    c, out, bias = Array(m, n, at=0), Array(m, n, at=0), Array(n, at=0 if n == 0 else 0x50000000)
    driver.capture_query = 719
    assert product.remember(a, b, c, out, bias, steps=(), needs=Needs(), scaled=True)
    for alpha, beta in ((0.0, 1.0), (1.0, 1.0), (0.5, -2.0)):
        assert product(a, b, c, out, bias, alpha=alpha, beta=beta) is out
    assert product.misses(a, b, c, out, bias, beta=0.0)
    assert driver.launch_count == 0
    assert product.asked == product.made == []


def test_the_context_is_current_for_the_launch_only(driver, product):
    a, b = factors()
    product.remember(a, b, new=(lambda: Array(4, 5, at=16 * driver.current_context), (), {}))
    for before in (0, CONTEXT, 0xBEEF):
        driver.current_context = before
        result = product(a, b)
        assert result.tensor.data == 16 * CONTEXT  # results are made in it, too
        assert driver.launches[-1].context == CONTEXT
        assert driver.current_context == before
    assert driver.push_count == 2


# Which plan.


KINDS = {
    "plain": {},
    "shape": {"a": Array(6, 3, at=0x10000000)},
    "dimensions": {"a": Array(4, 3, 1, at=0x10000000)},
    "stride": {"a": Array(4, 3, at=0x10000000, strides=(8, 1))},
    "transposed": {"a": Array(4, 3, at=0x10000000, strides=(1, 4))},
    "dtype": {"a": Array(4, 3, at=0x10000000, dtype=FLOAT16)},
    "bfloat16": {"a": Array(4, 3, at=0x10000000, dtype=BFLOAT16)},
    "lanes": {"a": Array(4, 3, at=0x10000000, dtype=(2, 32, 4))},
    "alignment": {"a": Array(4, 3, at=0x10000004)},
    "offset": {"a": Array(4, 3, at=0x10000000, byte_offset=8)},
    "b": {"b": Array(3, 5, at=0x20000004)},
    "c": {"c": Array(4, 5, at=0x30000000)},
    "scaled": {"c": Array(4, 5, at=0x30000000), "beta": 1.0},
    "out": {"out": Array(4, 5, at=0x40000000)},
    "out's alignment": {"out": Array(4, 5, at=0x40000008)},
    "bias": {"bias": Array(5, at=0x50000000)},
    "column bias": {"bias": Array(4, 1, at=0x50000000)},
    "options": {"options": ("float32", None)},
    "other options": {"options": ("float32", "gelu")},
}


def test_kinds_of_calls_are_told_apart(driver, product):
    a, b = factors()
    kinds = {name: {"a": a, "b": b} | kind for name, kind in KINDS.items()}
    for number, kind in enumerate(kinds.values()):
        assert product.misses(**kind)
        named = {name: value for name, value in kind.items() if name != "beta"}
        assert product.remember(**named, steps=(STEP._replace(function=number),), scaled="beta" in kind)
    for kind in kinds.values():
        assert not product.misses(**kind)
    assert [launch.function for launch in driver.launches] == list(range(len(KINDS)))
    assert len(product.launcher) == len(KINDS)


def test_all_devices_have_their_own_plans(driver, product):
    for device in range(8):
        a, b = factors(device=device)
        step = STEP._replace(function=device)
        product.remember(a, b, steps=(step,), new=(product.new, (4, 5), {"device": device}), context=device + 1)
    for device in range(8):
        assert not product.misses(*factors(device=device))
        assert (driver.launches[-1].function, driver.launches[-1].context) == (device, device + 1)


def test_a_plan_is_replaced(driver, product):
    a, b = factors()
    for function in (1, 2):
        product.remember(a, b, steps=(STEP._replace(function=function),))
    product(a, b)
    assert driver.launches[0].function == 2
    assert len(product.launcher) == 1


def test_many_plans(driver, product):
    _, b = factors()
    rows = range(1, 1500)
    for m in rows:
        product.remember(Array(m, 3), b, steps=(STEP._replace(grid=(m, 1, 1)),))
    for m in rows:
        product(Array(m, 3), b)
        assert driver.launches[(m - 1) % 64 if m > 64 else -1].grid[0] == m


def test_plans_are_forgotten(product):
    a, b = factors()
    product.remember(a, b, options=("x",))
    product.launcher.forget()
    assert product.misses(a, b, options=("x",))
    assert len(product.launcher) == 0
    for m in range(1, 4097):
        product.remember(Array(m, 3), b)
    assert not product.misses(Array(1, 3), b)
    product.remember(a, b, scaled=True)
    assert product.misses(Array(1, 3), b)
    assert len(product.launcher) == 1


# What goes the long way.


class Subclass(Array):
    """Has the API from its base, whose meaning it may have changed."""


class NoApi:
    pass


@pytest.mark.parametrize(
    "call",
    [
        {"a": NoApi()},
        {"a": [[1.0]]},
        {"a": None},
        {"a": Subclass(4, 3, at=0x10000000)},
        {"b": Array(3, 5, at=0x20000000, device_type=1)},
        {"b": Array(3, 5, at=0x20000000, device=1)},
        {"a": Array(*[1] * 9)},
        {"a": Array()},
        {"a": Array(4, 3, at=0)},
        {"alpha": float("nan")},
        {"alpha": True},
        {"alpha": "1"},
        {"alpha": 10**400},
        {"beta": 1.0},
        {"beta": float("nan")},
        {"options": ([],)},
        {"options": ("unknown",)},
    ],
    ids=lambda value: "x",
)
def test_misses(driver, product, call):
    a, b = factors()
    product.remember(a, b)
    assert not product.misses(a, b)
    assert product.misses(**({"a": a, "b": b} | call))
    assert driver.launch_count == 1
    assert len(product.made) == 1


def test_arrays_that_cannot_be_read(product):
    a, b = factors()
    product.remember(a, b)
    a.unreadable = True
    assert product.misses(a, b)
    assert not product.remember(a, b)


@pytest.mark.parametrize(
    "array", [Array(), Array(*[1] * 9), Array(4, 3, at=0), NoApi(), 1.0, None], ids=lambda value: "x"
)
def test_what_cannot_be_found_is_not_remembered(product, array):
    assert not product.remember(array, Array(3, 5))


def test_a_product_that_is_scaled_needs_c(product):
    a, b = factors()
    product.remember(a, b, scaled=True)
    assert product.misses(a, b, beta=1.0)


def test_arrays_of_two_libraries(product):
    class Other(Array):
        __dlpack_c_exchange_api__ = capsule()

    a, b = factors()
    other = Other(3, 5, at=0x20000000)
    assert not product.remember(a, other)
    assert product.misses(a, other)
    assert product.remember(Other(4, 3), other, new=(lambda: Other(4, 5), (), {}))
    assert not product.misses(Other(4, 3), other)
    product.remember(a, b, new=(lambda: Other(4, 5), (), {}))
    assert product.misses(a, b)


@pytest.mark.parametrize(
    ("api", "known"),
    [
        ({"major": 2}, False),
        ({"major": 2, "previous": older_api()}, True),
        ({"name": b"another"}, False),
    ],
    ids=lambda value: "x",
)
def test_versions_of_the_api(product, api, known):
    class Versioned(Array):
        __dlpack_c_exchange_api__ = capsule(**api)

    arrays = Versioned(4, 3), Versioned(3, 5)
    assert product.remember(*arrays, new=(lambda: Versioned(4, 5), (), {})) == known
    assert product.misses(*arrays) != known


def test_options_that_cannot_be_hashed_are_not_remembered(product):
    assert not product.remember(*factors(), options=({},))


@pytest.mark.parametrize("result", [Array(4, 5, at=0x90000004), Array(4, 5, device=1), Array(4, 5, device_type=1), 5])
def test_a_result_that_lies_elsewhere_or_misaligned_is_not_written(driver, product, result):
    a, b = factors()
    product.remember(a, b, new=(lambda: result, (), {}))
    assert product.misses(a, b)
    assert driver.launch_count == 0


@pytest.mark.parametrize(
    ("out", "missed"),
    [
        ({"at": 0x10000000}, True),  # on a
        ({"at": 0x10000000 + 4 * 11}, True),  # on the last element of a
        ({"at": 0x10000000 + 4 * 12}, False),
        ({"at": 0x20000000 - 4 * 20}, False),
        ({"at": 0x20000000 - 4 * 19}, True),  # its last element on b
        ({"at": 0x20000000 - 4 * 20, "strides": (6, 1)}, True),
        ({"at": 0x30000000}, False),  # the same as c
        ({"at": 0x30000000 + 4}, True),
        ({"at": 0x30000000, "strides": (5, 2)}, True),
        ({"at": 0x50000000 + 4}, True),  # on the bias
    ],
    ids=lambda value: "x",
)
def test_overlap(driver, product, out, missed):
    a, b = factors()
    c, out, bias = Array(4, 5, at=0x30000000), Array(4, 5, **out), Array(5, at=0x50000000)
    assert product.remember(a, b, c, out, bias)
    assert product.misses(a, b, c, out, bias) == missed
    assert driver.launch_count == (not missed)


# Memory besides the operands.


def test_a_streams_memory_is_asked_for_once(product):
    a, b = factors()
    needs = Needs(100, 3, 7)
    product.remember(a, b, needs=needs)
    for stream in (1, 9, 1, 9):
        set_stream(stream)
        product(a, b)
    assert product.asked == [(1, needs), (9, needs)]
    product.launcher.forget()
    product.remember(a, b, needs=needs)
    product(a, b)
    assert product.asked[2:] == [(9, needs)]


@pytest.mark.parametrize("more", [Needs((1 << 20) + 1), Needs(tickets=(1 << 10) + 1), Needs(relayout_bytes=1 << 21)])
def test_memory_that_does_not_suffice_is_asked_for_again(product, more):
    a, b = factors()
    product.remember(a, b, needs=Needs(*MEMORY[1::2]))
    product.remember(a, b, needs=more, options="more")
    product(a, b)
    product(a, b)
    product(a, b, options="more")
    assert [needs for _, needs in product.asked] == [Needs(*MEMORY[1::2]), more]


def test_no_memory_is_asked_for_without_need(driver, product):
    a, b = factors()
    driver.capture_query = 719
    product.remember(a, b)
    product(a, b)
    assert product.asked == []


def test_contexts_do_not_share_memory(product):
    a, b = factors()
    for context in (1, 2):
        product.remember(a, b, needs=Needs(1), context=context, options=context)
        product(a, b, options=context)
    assert len(product.asked) == 2


def test_every_thread_has_memory_for_its_own_stream(product):
    a, b = factors()
    product.remember(a, b, needs=Needs(1))
    barrier = threading.Barrier(3)

    def work():
        for _ in range(3):
            product(a, b)
        barrier.wait()  # a thread that has ended may lend its identity to the next

    for stream, asked in ((1, 1), (2, 4)):
        product.asked.clear()
        set_stream(stream)
        product(a, b)
        in_threads([work] * 3)
        assert len(product.asked) == asked


def in_threads(works):
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_a_capture_asks_each_time_and_is_not_remembered(driver, product):
    a, b = factors()
    product.remember(a, b, needs=Needs(1))
    for capturing, asked in ((1, 1), (1, 2), (0, 3), (0, 3), (1, 4), (0, 4)):
        driver.capture_status = capturing
        product(a, b)
        assert len(product.asked) == asked


def test_an_error_of_the_memory_is_the_callers(driver, product):
    def full(stream, needs):
        raise MemoryError("full")

    a, b = factors()
    product.remember(a, b, needs=Needs(1), memory=full)
    with pytest.raises(MemoryError, match="full"):
        product(a, b)
    assert driver.current_context == 0


# Errors.


@pytest.mark.parametrize(
    ("variable", "status", "message"),
    [
        ("failing", 719, "the GPU reports CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure"),
        ("capture_query", 719, "the GPU reports CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure"),
        ("failing", 1234, "the GPU reports CUDA error 1234"),
    ],
)
def test_the_drivers_words(driver, product, variable, status, message):
    a, b = factors()
    product.remember(a, b, needs=Needs(1))
    driver.current_context = 0xBEEF
    setattr(driver, variable, status)
    with pytest.raises(LaunchError, match=f"^{message}$"):
        product(a, b)
    assert driver.current_context == 0xBEEF
    setattr(driver, variable, 0)
    assert product(a, b) is product.made[-1]


def test_an_error_of_the_allocation_is_the_callers(product):
    def full():
        raise RuntimeError("out of memory")

    a, b = factors()
    product.remember(a, b, new=(full, (), {}))
    with pytest.raises(RuntimeError, match="out of memory"):
        product(a, b)


@pytest.mark.parametrize(
    ("slot", "message"),
    [
        (Slot(0, "register", "A"), "got 'register'"),
        (Slot(0, "pointer", "alpha"), "no pointer comes from 'alpha'"),
        (Slot(0, "scalar", "A"), "no scalar comes from 'A'"),
        (Slot(0, "map", "gamma"), "no map comes from 'gamma'"),
        (Slot(41, "pointer", "A"), "no pointer fits at byte 41 of 48"),
        (Slot(-8, "pointer", "A"), "no pointer fits at byte -8 of 48"),
        (Slot(0, "map", "A"), "no map fits at byte 0 of 48"),
        (Slot(45, "scalar", "beta"), "no scalar fits at byte 45 of 48"),
    ],
)
def test_slots_that_do_not_fit(product, slot, message):
    with pytest.raises(ValueError, match=message):
        product.remember(*factors(), steps=(STEP._replace(slots=(slot,)),))


def test_a_plan_without_out_says_how_to_make_a_result(product):
    with pytest.raises(TypeError, match="new must be a tuple"):
        product.remember(*factors(), new=None)


def test_the_number_of_arguments(product):
    with pytest.raises(TypeError, match="8 arguments, got 2"):
        product.launcher.call(*factors())


def test_a_driver_that_is_not_there(module, tmp_path, library):
    with pytest.raises(OSError, match="no-such-driver"):
        module.Launcher(str(tmp_path / "no-such-driver.so"))
    with pytest.raises(OSError, match="has no cuLaunchKernelEx"):
        module.Launcher("libc.so.6")


# Objects live as long as they should.


def test_references(driver, product):
    a, b = factors()
    c, out, bias, options = Array(4, 5, at=0x30000000), Array(4, 5, at=0x40000000), Array(5), ("x", 1)
    product.remember(a, b, c, out, bias, options, needs=Needs(1), scaled=True)
    product.remember(a, b)
    objects = (a, b, c, out, bias, options, product.miss)

    def run():
        product(a, b, c, out, bias, options, alpha=1.5, beta=3.5)
        product(a, b)
        product.misses(a, b, c)
        product.misses(a, b, options=("unknown",))
        product.made.clear()
        driver.failing = 719
        for arguments in ((a, b), (a, b, c, out, bias, options)):
            with pytest.raises(LaunchError):
                product(*arguments, beta=2.5 * (len(arguments) > 2))
        driver.failing = 0
        product.made.clear()

    def count():
        gc.collect()
        arrays = sum(isinstance(one, Array) for one in gc.get_objects())
        return [sys.getrefcount(one) for one in objects], arrays

    run()
    before = count()
    for _ in range(100):
        run()
    assert count() == before


def test_plans_outlive_their_arrays(product):
    a, b = factors()
    gone = weakref.ref(a)
    product.remember(a, b)
    del a, b
    assert gone() is None
    assert not product.misses(*factors())


def test_what_a_launcher_keeps_goes_with_it(driver, module):
    class Engine:
        """Holds the launcher that holds it."""

        def memory(self, stream, needs):
            return MEMORY

    engine = Engine()
    product = Product(module.Launcher(driver.path), module.MISS, driver)
    engine.launcher, gone = product.launcher, weakref.ref(engine)
    product.remember(*factors(), memory=engine.memory, needs=Needs(1), options=engine)
    del engine, product
    gc.collect()
    assert gone() is None


def test_forgotten_while_options_are_compared(product):
    """Comparing options may run Python, and that another thread."""

    class Options:
        def __hash__(self):
            return 1

        def __eq__(self, other):
            product.launcher.forget()
            return True

    a, b = factors()
    for _ in range(3):
        product.remember(a, b, options=Options())
        product.misses(a, b, options=Options())
        assert len(product.launcher) == 0


def test_forgotten_while_a_result_is_made(driver, product):
    def new():
        product.launcher.forget()
        gc.collect()
        return Array(4, 5)

    a, b = factors()
    product.remember(a, b, new=(new, (), {}))
    assert not product.misses(a, b)
    assert driver.launch_count == 1
    assert product.misses(a, b)


def test_threads_share_a_launcher(driver, product):
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    outs = [Array(4, 5, at=0xA0000000 + (i << 12)) for i in range(4)]
    failures = []

    def work(out):
        a, b = factors()
        for i in range(300):
            product.remember(a, b, out=out, options=i % 7)
            if product(a, b, out=out, options=i % 7) not in (out, product.miss):
                failures.append(i)
            if i % 50 == 0:
                product.launcher.forget()

    try:
        in_threads([partial(work, out) for out in outs])
    finally:
        sys.setswitchinterval(interval)
    assert not failures
    assert driver.launch_count > 0


# Tensors of PyTorch, by a stand-in for it.


@pytest.fixture
def torch(monkeypatch):
    """A module `torch`: .Tensor, .nn.Parameter, .grad_enabled and the tensors whose .versions were counted."""

    class Tensor(Array):
        __dlpack_c_exchange_api__ = capsule()
        requires_grad = False
        negative = False

        def is_neg(self):
            return self.negative

    class Parameter(Tensor):
        requires_grad = True

    versions = []
    graph = SimpleNamespace(increment_version=versions.append)
    torch = SimpleNamespace(
        Tensor=Tensor,
        nn=SimpleNamespace(Parameter=Parameter),
        autograd=SimpleNamespace(graph=graph),
        grad_enabled=True,
        versions=versions,
    )
    torch.is_grad_enabled = lambda: torch.grad_enabled
    monkeypatch.setitem(sys.modules, "torch", torch)
    return torch


def test_tensors_that_record_gradients(product, torch):
    x, weight = torch.Tensor(4, 3, at=0x10000000), torch.nn.Parameter(3, 5)
    new = (lambda: torch.Tensor(4, 5, at=0x90000000), (), {})
    assert not product.remember(x, weight, new=new)
    torch.grad_enabled = False
    assert product.remember(x, weight, new=new)
    assert not product.misses(x, weight)
    torch.grad_enabled = True
    assert product.misses(x, weight)
    weight.requires_grad = False
    assert not product.misses(x, weight)


def test_tensors_that_negate_when_they_are_read(product, torch):
    a, b = torch.Tensor(4, 3), torch.Tensor(3, 5)
    new = (lambda: torch.Tensor(4, 5, at=0x90000000), (), {})
    product.remember(a, b, new=new)
    a.negative = True
    assert product.misses(a, b)
    assert not product.remember(a, b, new=new)


def test_tensor_subclasses(product, torch):
    class Own(torch.Tensor):
        __dlpack_c_exchange_api__ = capsule()

    a, b = Own(4, 3), torch.Tensor(3, 5)
    assert not product.remember(a, b, new=(lambda: torch.Tensor(4, 5), (), {}))


def test_the_version_of_out_is_counted(driver, product, torch):
    a, b, out = torch.Tensor(4, 3, at=1 << 16), torch.Tensor(3, 5, at=1 << 18), torch.Tensor(4, 5, at=1 << 20)
    product.remember(a, b, out=out)
    product.remember(a, b, new=(lambda: torch.Tensor(4, 5, at=0x90000000), (), {}))
    product(a, b)
    assert torch.versions == []
    product(a, b, out=out)
    assert torch.versions == [out]
    driver.failing = 719
    with pytest.raises(LaunchError):
        product(a, b, out=out)
    assert torch.versions == [out]


def test_a_torch_that_is_being_imported(product, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace())
    assert product.remember(*factors())


# Building it.


@pytest.fixture
def not_loaded():
    launcher.load.cache_clear()
    yield
    launcher.load.cache_clear()


@pytest.fixture
def empty_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def not_built(monkeypatch):
    monkeypatch.setattr(launcher, "_MODULE", "tilewright.engines._no_such_launcher")


@pytest.mark.usefixtures("not_loaded", "empty_cache", "not_built")
def test_no_compiler(monkeypatch, tmp_path):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert launcher.load() is None


@pytest.mark.usefixtures("not_loaded", "empty_cache", "not_built")
def test_no_headers(monkeypatch, tmp_path):
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    assert launcher.load() is None


@pytest.mark.usefixtures("not_loaded", "empty_cache", "not_built")
def test_a_compiler_that_cannot_compile_it(monkeypatch, tmp_path):
    script = tmp_path / "compiler"
    script.write_text('#!/bin/sh\ncase "$*" in *-E*) exec g++ "$@";; esac; exit 1\n')
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    assert launcher.load() is None


@pytest.mark.usefixtures("not_loaded", "empty_cache")
def test_it_is_built_once(monkeypatch, tmp_path):
    monkeypatch.setattr(importlib, "import_module", lambda name: SimpleNamespace(SOURCE="of another version"))
    assert launcher.load().Launcher
    (built,) = (tmp_path / "cache").rglob("launcher-*.so")
    written = built.stat().st_mtime_ns
    launcher.load.cache_clear()
    assert launcher.load().MISS
    assert built.stat().st_mtime_ns == written


@pytest.mark.usefixtures("not_loaded")
def test_one_that_was_installed_is_taken(monkeypatch):
    installed = SimpleNamespace(SOURCE=launcher.load().SOURCE)
    launcher.load.cache_clear()
    monkeypatch.setattr(importlib, "import_module", lambda name: installed)
    assert launcher.load() is installed


def test_it_compiles_without_warnings(tmp_path):
    options = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers", "-fsyntax-only"]
    include = sysconfig.get_path("include")
    find_compiler().run([*options, '-DLAUNCHER_SOURCE=""', f"-I{include}", str(launcher._SOURCE)])


def test_structures_are_the_drivers(tmp_path):
    """The launcher declares what it uses of cuda.h; where that is installed, both must be the same."""
    headers = pytest.importorskip("cuda.pathfinder").find_nvidia_header_directory("cudart")
    if headers is None or not (Path(headers) / "cuda.h").is_file():
        pytest.skip("cuda.h is not installed")
    check = tmp_path / "check.cpp"
    check.write_text(
        f"""
        #define LAUNCHER_SOURCE ""
        #include "{launcher._SOURCE}"
        #include <cuda.h>
        #include <cstddef>
        static_assert(sizeof(LaunchConfig) == sizeof(CUlaunchConfig));
        static_assert(offsetof(LaunchConfig, stream) == offsetof(CUlaunchConfig, hStream));
        static_assert(offsetof(LaunchConfig, attribute_count) == offsetof(CUlaunchConfig, numAttrs));
        static_assert(sizeof(LaunchAttribute) == sizeof(CUlaunchAttribute));
        static_assert(offsetof(LaunchAttribute, value) == offsetof(CUlaunchAttribute, value));
        static_assert(PROGRAMMATIC_STREAM_SERIALIZATION == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
        static_assert(NOT_CAPTURING == CU_STREAM_CAPTURE_STATUS_NONE);
        static_assert(sizeof(TensorMap) == sizeof(CUtensorMap) && alignof(TensorMap) >= alignof(CUtensorMap));
        """
    )
    include = sysconfig.get_path("include")
    find_compiler().run(["-std=c++17", "-fsyntax-only", f"-I{include}", f"-I{headers}", str(check)])
