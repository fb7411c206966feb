"""Sequences, with a stand-in for the driver: compiled, and from Python, which start the same."""

import pytest
from launcher_products import CONTEXT, STEP

from tilewright.core.errors import LaunchError
from tilewright.runtime import cuda_launch, launcher, sequence
from tilewright.runtime import driver as engines_driver
from tilewright.runtime.cuda_launch import MAP_WORDS
from tilewright.runtime.plan import Slot
from tilewright.runtime.sequence import ABSOLUTE, Await, DeviceCopy, Location, PlanLaunch, RecordEvent, Signal, Wait

NAMES = ("A", "B", "here", "there")
BASES = (0, 0xA000, 0xB000, 0x10000, 0x20000)
STREAMS = (0x51, 0x52)
EVENTS = (0xE0, 0xE1)
STEPS = (
    RecordEvent(0, 0),
    Await(1, 0),
    PlanLaunch(0, (STEP,), (("A", Location("A", 16)), ("B", Location("B")), ("D", Location("here", 32))), 0.5),
    DeviceCopy(1, Location("there", 64), Location("here", 32), 4096),
    Signal(1, Location("there", 8), 3),
    Wait(2, Location("here", 4), 2),
    PlanLaunch(2, (STEP, STEP), (("A", Location(ABSOLUTE, 0x777)),), 1.0, 1.0),
    RecordEvent(2, 1),
    Await(0, 1),
)
BEFORE, END = 0xE8, 0xE9


@pytest.fixture(params=["compiled", "python"])
def made(request, driver, monkeypatch):
    """Makes sequences that call the stand-in."""
    for module in (launcher, cuda_launch):
        monkeypatch.setattr(module, "DRIVER", driver.path)
    cuda_launch.driver_library.cache_clear()
    if request.param == "python":
        monkeypatch.setattr(launcher, "load", lambda: None)
        monkeypatch.setattr(engines_driver, "_words", lambda status: status.name)  # these are the real driver's
    driver.takes(STEP)
    yield lambda steps=STEPS, streams=STREAMS, events=EVENTS: sequence.sequence(CONTEXT, NAMES, steps, streams, events)
    cuda_launch.driver_library.cache_clear()


def test_all_steps_are_started_in_order(driver, made):
    ready = made()
    for number in (5, 2**32 - 1):
        driver.reset()
        ready.run(BASES, 0x50, number, BEFORE, END)
        assert driver.operations == [
            ("await", 0x50, BEFORE, 0, 0),
            ("record", 0x50, 0xE0, 0, 0),
            ("await", 0x51, 0xE0, 0, 0),
            ("launch", 0x50, 0xF00D, 0xA010, 0),
            ("copy", 0x51, 0x20040, 0x10020, 4096),
            ("write", 0x51, 0x20008, 0, (number + 3) % 2**32),
            ("wait", 0x52, 0x10004, 0, (number + 2) % 2**32),
            ("launch", 0x52, 0xF00D, 0x777, 0),
            ("launch", 0x52, 0xF00D, 0x777, 0),
            ("record", 0x52, 0xE1, 0, 0),
            ("await", 0x50, 0xE1, 0, 0),
            ("record", 0x50, END, 0, 0),
        ]
        assert {one.context for one in driver.launches} == {CONTEXT}
        assert driver.push_count == driver.pop_count == 1


def test_launches_have_addresses_and_scalars(driver, made):
    made().run(BASES, 0, 0, 0, END)
    first, second, _ = driver.launches
    words = memoryview(first.parameters).cast("Q")
    assert list(words[:5]) == [0xA010, 0xB000 + 32, 0, 0x10020, 0]
    assert list(memoryview(first.parameters[40:]).cast("f")) == [0.5, 0.0]
    assert list(memoryview(second.parameters[40:]).cast("f")) == [1.0, 1.0]
    assert driver.operations[0][0] == "record", "there is no event to wait for first"


def test_the_bases_of_each_run_are_its_own(driver, made):
    ready = made()
    ready.run(BASES, 0x50, 0, BEFORE, END)
    driver.reset()
    ready.run((0, 0xA100, *BASES[2:]), 0x60, 7, 0, END)
    assert driver.operations[2] == ("launch", 0x60, 0xF00D, 0xA110, 0)


def test_a_map_follows_its_address(driver, made):
    words = MAP_WORDS.pack(*range(1, 19))
    step = STEP._replace(arguments=words + bytes(128 - len(words)), slots=(Slot(0, "map", "A"),))
    driver.takes(step)
    ready = made((PlanLaunch(0, (step,), (("A", Location("A")),)),))
    ready.run(BASES, 0, 0, 0, END)
    ready.run((0, 0xA100, *BASES[2:]), 0, 0, 0, END)
    ready.run(BASES, 0, 0, 0, END)
    assert [int.from_bytes(one.parameters[:8], "little") for one in driver.launches] == [0xA000, 0xA100, 0xA000]


@pytest.mark.parametrize("refused", range(12))
def test_what_the_driver_refuses_is_an_error(driver, made, refused):
    ready = made()
    driver.refused = refused
    with pytest.raises(LaunchError, match="CUDA_ERROR_LAUNCH_FAILED"):
        ready.run(BASES, 0x50, 0, BEFORE, END)
    assert driver.operation_count == refused
    assert driver.push_count == driver.pop_count == 1


REFUSED = {
    "base": ((DeviceCopy(0, Location("nowhere"), Location("A"), 4),), "there is no base 'nowhere'"),
    "stream": ((Wait(3, Location("A"), 1),), "there is no stream 3"),
    "event": ((RecordEvent(0, 2),), "there is no event 2"),
    "address": ((PlanLaunch(0, (STEP,), (("E", Location("A")),)),), "no pointer comes from 'E'"),
    "step": (((1, 2),), "no step of a sequence is a 'tuple'"),
}


@pytest.mark.parametrize(("steps", "words"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_started_is_named(driver, monkeypatch, steps, words):
    monkeypatch.setattr(launcher, "DRIVER", driver.path)
    with pytest.raises(ValueError, match=words):
        sequence.sequence(CONTEXT, NAMES, steps, STREAMS, EVENTS)


def test_a_run_is_of_all_bases(driver, monkeypatch):
    monkeypatch.setattr(launcher, "DRIVER", driver.path)
    ready = sequence.sequence(CONTEXT, NAMES, STEPS, STREAMS, EVENTS)
    with pytest.raises(TypeError, match="bases must be a tuple of 5 addresses"):
        ready.run(BASES[1:], 0, 0, 0, END)
    with pytest.raises(TypeError, match="run takes 5 arguments, got 1"):
        ready.run(BASES)
    with pytest.raises(OSError, match="not_a_driver"):
        launcher.load().Sequence("not_a_driver", CONTEXT, (ABSOLUTE,), (), (), ())
    assert driver.operation_count == 0
