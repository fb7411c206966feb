"""Launches by the compiled launcher, with a stand-in for the driver and arrays that are nowhere."""

import struct

import pytest
from exchange import INT8, Array, set_stream
from launcher_products import CONTEXT, STEP, factors

from tilewright.core.errors import LaunchError
from tilewright.core.problem import Scalars
from tilewright.kernels.tensor_box import TensorBox
from tilewright.runtime import cuda_launch
from tilewright.runtime.cuda_launch import MAP_WORDS, describe
from tilewright.runtime.plan import COOPERATIVE, OVERLAPS, Needs, Slot, Step
from tilewright.runtime.tensor_maps import TensorLayout

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
    assert launch.attribute == 0
    addresses = (0x10000000, 0x20000000 + 32, 0x30000000, 0x40000000, 0x50000000)
    assert launch.parameters == struct.pack("5Q2f", *addresses, 0.5, 2.0) + b"untouched"


@pytest.mark.parametrize("swapped", [False, True])
def test_scales_are_part_of_the_call(driver, product, swapped):
    """Each with its own factor; of any number of dimensions, also of none."""
    a, b = factors()
    of_a, of_b, other = Array(4, 1, at=0x30000000), Array(at=0x40000000), Array(at=0x50000000)
    slots = (Slot(0, "pointer", "scale_a"), Slot(8, "pointer", "scale_b"))
    step = STEP._replace(slots=slots, arguments=bytes(16))
    assert product.remember(a, b, steps=(step,), scale_a=of_a, scale_b=of_b, swapped=swapped)
    call = product.launcher.call
    assert call(a, b, None, None, None, 1.0, 0.0, None, of_a, other) is product.made[0]
    expected = (0x30000000, 0x50000000)
    assert driver.launches[0].parameters == struct.pack("2Q", *(expected[::-1] if swapped else expected))
    assert product.misses(a, b)
    for scales in ((of_a, None), (None, of_b), (Array(5, 1, at=0x30000000), of_b), (None, None)):
        assert call(a, b, None, None, None, 1.0, 0.0, None, *scales) is product.miss
    overlapping = Array(4, 5, at=0x30000000)
    assert product.remember(a, b, out=overlapping, steps=(step,), scale_a=of_a)
    assert call(a, b, None, overlapping, None, 1.0, 0.0, None, of_a, None) is product.miss
    with pytest.raises(TypeError, match="call takes 8 or 10 arguments, got 9"):
        call(a, b, None, None, None, 1.0, 0.0, None, of_a)


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
    first = Step(1, (1, 1, 1), (32, 1, 1), 0, COOPERATIVE, bytes(16), (0,), (Slot(0, "pointer", "relayout", 256),))
    slots = (Slot(0, "pointer", "workspace"), Slot(8, "pointer", "counters"), Slot(16, "pointer", "relayout"))
    second = Step(2, (1, 1, 1), (32, 1, 1), 0, OVERLAPS, bytes(24), (0,), slots)
    needs = Needs(100, 3, 1000)
    product.remember(a, b, steps=(first, second), needs=needs)
    product(a, b)
    assert [launch.function for launch in driver.launches] == [1, 2]
    assert [launch.attribute for launch in driver.launches] == [COOPERATIVE, OVERLAPS]
    assert driver.launches[0].parameters == struct.pack("2Q", 0x3000 + 256, 0)
    assert driver.launches[1].parameters == struct.pack("3Q", 0x1000, 0x2000, 0x3000)


def test_what_is_not_needed_is_null(driver, product):
    a, b = factors()
    slots = tuple(Slot(8 * i, "pointer", source) for i, source in enumerate(("workspace", "counters", "relayout")))
    step = STEP._replace(slots=slots, arguments=bytes(24))
    for i in range(3):
        product.remember(a, b, steps=(step,), needs=Needs(*(int(i == one) for one in range(3))), options=i)
        product(a, b, options=i)
        assert struct.unpack("3Q", driver.launches[i].parameters) == tuple(
            0x1000 * (i + 1) * (i == one) for one in range(3)
        )


def described(first):
    """A step's description of a tensor map, each number another, in the 128 bytes of the map."""
    return MAP_WORDS.pack(*range(first, first + 18)).ljust(128, b"\0")


def test_maps_are_made_of_what_a_step_says_and_then_patched(driver, product):
    a, b = factors()
    of_a, of_b = described(100), described(200)
    template = bytes(range(64)) + of_a + of_b
    slots = (Slot(64, "map", "A"), Slot(192, "map", "relayout", 512), Slot(0, "scalar", "alpha"))
    step = Step(1, (1, 1, 1), (32, 1, 1), 0, False, template, (0,), slots)
    product.remember(a, b, steps=(step,), needs=Needs(relayout_bytes=1))
    product(a, b, alpha=2)
    product(a, b, alpha=3)
    assert (driver.encode_count, driver.replace_count) == (2, 0)  # what has not changed is not replaced
    product(Array(4, 3, at=0x70000000), b, alpha=3)
    assert (driver.encode_count, driver.replace_count) == (2, 1)
    for launch, at, alpha in zip(driver.launches, (0x10000000, 0x10000000, 0x70000000), (2, 3, 3), strict=True):
        expected = struct.pack("f", alpha) + template[4:64]
        expected += struct.pack("Q", at) + of_a[:120] + struct.pack("Q", 0x3000 + 512) + of_b[:120]
        assert launch.parameters == expected


def test_a_launch_from_python_makes_the_same_maps(driver, monkeypatch):
    monkeypatch.setattr(cuda_launch, "DRIVER", driver.path)
    cuda_launch.driver_library.cache_clear()
    slots = (Slot(0, "map", "A"), Slot(128, "scalar", "beta"))
    step = Step(1, (1, 1, 1), (32, 1, 1), 0, False, described(100) + bytes(4), (0,), slots)
    driver.takes(step)
    cuda_launch.launch(step, {"A": 0x123400000040}, Scalars(1.0, 2.0), 0)
    cuda_launch.driver_library.cache_clear()
    (launch,) = driver.launches
    assert launch.parameters == struct.pack("Q", 0x123400000040) + described(100)[:120] + struct.pack("f", 2.0)


def test_what_is_said_of_a_map():
    batch = TensorLayout(0, (20, 10, 3), (96, 4096), "bfloat16", TensorBox(64, 32, 64))
    shape = (20, 10, 3, 1, 1), (96, 4096, 4096, 4096), (32, 64, 1, 1, 1)
    modes = 9, 2, 2, 3  # as the driver's header numbers types and modes, and the dimensions
    assert MAP_WORDS.unpack(describe(batch)) == (*shape[0], *shape[1], *shape[2], *modes)
    one = TensorLayout(0, (20,), (), "float32", TensorBox(0, 4, outer=()), rounds=True)
    shape = (20, 1, 1, 1, 1), (16, 16, 16, 16), (4, 1, 1, 1, 1)
    assert MAP_WORDS.unpack(describe(one)) == (*shape[0], *shape[1], *shape[2], 11, 0, 2, 1)


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
    with pytest.raises(TypeError, match="8 or 10 arguments, got 2"):
        product.launcher.call(*factors())


def test_a_driver_that_is_not_there(launcher_module, tmp_path):
    with pytest.raises(OSError, match="no-such-driver"):
        launcher_module.Launcher(str(tmp_path / "no-such-driver.so"))
    with pytest.raises(OSError, match="has no cuLaunchKernelEx"):
        launcher_module.Launcher("libc.so.6")


def test_scalars_that_are_no_integers_are_left_to_python_where_the_result_may_be_of_integers(driver, product):
    """Kernels would cut off what such scalars have behind the point, without an error."""
    a, b = Array(4, 3, at=0x10000000, dtype=INT8), Array(3, 5, at=0x20000000, dtype=INT8)
    assert product.remember(a, b)
    assert product(a, b, alpha=-3) is product.made[0]
    for alpha in (0.5, 2.0**24 + 2, float("inf")):
        assert product.misses(a, b, alpha=alpha)
    assert len(driver.launches) == 1
