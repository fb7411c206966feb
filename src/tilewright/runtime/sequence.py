"""Sequences: launches, copies, signals and waits in several streams, worked out once and started again and again.

A step names its stream by number, and memory by the name of a base and bytes from there on. A run is given the
addresses of the bases. The compiled launcher's module runs the steps (sequence.h) where there is one, else they are run
from here.

Driver API: "Stream Memory Operations" (cuStreamWriteValue32, cuStreamWaitValue32), "Event Management".
"""

import ctypes
from collections.abc import Sequence as Ordered
from typing import NamedTuple

from tilewright.core.problem import Scalars
from tilewright.runtime import launcher
from tilewright.runtime.launcher import Sequence
from tilewright.runtime.plan import Step

ABSOLUTE = ""
"""The base of places that are addresses themselves; a run's first."""


class Location(NamedTuple):
    """Memory from a byte on."""

    base: str
    offset: int = 0


class PlanLaunch(NamedTuple):
    """The launches of a plan."""

    stream: int
    steps: tuple[Step, ...]
    addresses: tuple[tuple[str, Location], ...]
    """By what slots call them; 0 for others."""
    alpha: float = 1.0
    beta: float = 0.0


class DeviceCopy(NamedTuple):
    """A copy by a copy engine, within a GPU or between two."""

    stream: int
    to: Location
    source: Location
    bytes: int


class Signal(NamedTuple):
    """Writes a number to a counter of 4 bytes, behind all that its stream was given before."""

    stream: int
    counter: Location
    number: int
    """It is added to what a run begins with, and compared as a difference: it may pass 2^32."""


class Wait(NamedTuple):
    """The stream goes on when a counter has reached a number."""

    stream: int
    counter: Location
    number: int


class RecordEvent(NamedTuple):
    """An event is what its stream has been given so far."""

    stream: int
    event: int


class Await(NamedTuple):
    """The stream goes on when what an event was recorded of has ended."""

    stream: int
    event: int


_AT_LEAST = 0
"""How a wait compares, as a difference (CU_STREAM_WAIT_VALUE_GEQ)."""

Started = PlanLaunch | DeviceCopy | Signal | Wait | RecordEvent | Await


def sequence(
    context: int, names: Ordered[str], steps: Ordered[Started], streams: Ordered[int], events: Ordered[int]
) -> Sequence:
    """Steps, ready to be started.

    Args:
        context: address of the GPU's CUcontext.
        names: of the bases, but for ABSOLUTE, which comes before them.
        steps: what to start.
        streams: handles of streams 1, 2, ...
        events: handles of events 0, 1, ...
    """
    if (module := launcher.load()) is None:
        return FromPython(context, names, steps, streams, events)
    named = tuple((type(step).__name__, *step) for step in steps)
    return module.Sequence(launcher.DRIVER, context, (ABSOLUTE, *names), named, tuple(streams), tuple(events))


class FromPython:
    """Steps that are started from here; see `sequence`."""

    def __init__(
        self, context: int, names: Ordered[str], steps: Ordered[Started], streams: Ordered[int], events: Ordered[int]
    ) -> None:
        self._context, self._names, self._steps = context, (ABSOLUTE, *names), steps
        self._streams, self._events = streams, events

    def run(self, bases: tuple[int, ...], stream: int, number: int, before: int, end: int, /) -> None:
        from tilewright.runtime.cuda_launch import checked, driver_library, launch  # noqa: PLC0415 - CUDA bindings

        driver, streams = driver_library(), (stream, *self._streams)
        begins = dict(zip(self._names, bases, strict=True))

        def address(location: Location) -> int:
            return begins[location.base] + location.offset

        def start(step: Started) -> None:
            on = streams[step.stream]
            if isinstance(step, PlanLaunch):
                addresses, scalars = {name: address(at) for name, at in step.addresses}, Scalars(step.alpha, step.beta)
                for one in step.steps:
                    launch(one, dict.fromkeys((slot.source for slot in one.slots), 0) | addresses, scalars, on)
            elif isinstance(step, DeviceCopy):
                checked(driver.cuMemcpyAsync(address(step.to), address(step.source), step.bytes, on))
            elif isinstance(step, Signal):
                value = (number + step.number) % 2**32
                checked(driver.cuStreamWriteValue32_v2(on, address(step.counter), value, 0))
            elif isinstance(step, Wait):
                value = (number + step.number) % 2**32
                checked(driver.cuStreamWaitValue32_v2(on, address(step.counter), value, _AT_LEAST))
            elif isinstance(step, RecordEvent):
                checked(driver.cuEventRecord(self._events[step.event], on))
            else:
                checked(driver.cuStreamWaitEvent(on, self._events[step.event], 0))

        checked(driver.cuCtxPushCurrent_v2(self._context))
        try:
            if before:
                checked(driver.cuStreamWaitEvent(stream, before, 0))
            for step in self._steps:
                start(step)
            checked(driver.cuEventRecord(end, stream))
        finally:
            driver.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))
