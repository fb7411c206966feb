"""The counters that the worklog follows from rung to rung, made of what was counted."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from studies.worklog.counted import Counted, Group
from tilewright.tools.explain.instruction_mix import MULTIPLY_ADD, TENSOR

_LOADS = ("global_load", "async_copy")
_STORES, _SHARED_LOADS = ("global_store",), ("shared_load",)
_SHARED_STORES = ("shared_store", "async_copy")

Value = Callable[[Counted], float | None]
"""Function of the counts of a kernel; None where the kernel has nothing of it."""


class Metric(NamedTuple):
    """A number that shows how a kernel behaves."""

    label: str
    value: Value
    text: Callable[[float], str]


def _ratio(above: float | None, below: float | None) -> float | None:
    return above / below if above is not None and below else None


def _sum(one: Counted, kinds: tuple[str, ...]) -> Group:
    groups = [one.groups[kind] for kind in kinds if kind in one.groups]
    return Group(**{name: sum(getattr(group, name) for group in groups) for name in Group.model_fields})


def _requests(kinds: tuple[str, ...]) -> Value:
    return lambda one: _sum(one, kinds).requests or None


def _over(kinds: tuple[str, ...], above: str, below: str = "requests") -> Value:
    """One count of some accesses over another."""
    return lambda one: _ratio(getattr(_sum(one, kinds), above), getattr(_sum(one, kinds), below))


def _ffmas_a(kinds: tuple[str, ...]) -> Value:
    """Multiply-adds over the requests of some accesses."""
    return lambda one: _ratio(one.warp_ffmas, _sum(one, kinds).requests)


def _of_loop(purpose: str) -> Value:
    return lambda one: _ratio(one.loop.get(purpose), sum(one.loop.values()))


def _number(value: float) -> str:
    """Three digits or so, as a person would write them."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value < 1 else f"{value:.1f}".removesuffix(".0")


def _millions(value: float) -> str:
    return f"{_number(value / 1e6)} M"


def _percent(value: float) -> str:
    return f"{100 * value:.0f}%"


METRICS: Mapping[str, Metric] = {
    "sectors_a_load": Metric("sectors a load of global memory", _over(_LOADS, "sectors"), _number),
    "sectors_a_store": Metric("sectors a store to global memory", _over(_STORES, "sectors"), _number),
    "global_loads": Metric("loads of global memory, requests", _requests(_LOADS), _millions),
    "requested": Metric(
        "bytes asked of global memory", lambda one: one.requested_bytes / 1e9, lambda gb: f"{_number(gb)} GB"
    ),
    "intensity": Metric("FLOP for each byte asked of global memory", lambda one: one.intensity, _number),
    "shared_loads": Metric("loads of shared memory, requests", _requests(_SHARED_LOADS), _millions),
    "ffmas_a_global_load": Metric("FFMAs a load of global memory", _ffmas_a(_LOADS), _number),
    "ffmas_a_shared_load": Metric("FFMAs a load of shared memory", _ffmas_a(_SHARED_LOADS), _number),
    "wavefronts_a_load": Metric("wavefronts a load of shared memory", _over(_SHARED_LOADS, "wavefronts"), _number),
    "wavefronts": Metric("wavefronts of shared memory", lambda one: one.wavefronts or None, _millions),
    "ffmas_a_wavefront": Metric(
        "FFMAs a wavefront of shared memory", lambda one: _ratio(one.warp_ffmas, one.wavefronts), _number
    ),
    "load_conflicts": Metric(
        "bank conflicts, of the wavefronts of loads", _over(_SHARED_LOADS, "bank_conflicts", "wavefronts"), _percent
    ),
    "store_conflicts": Metric(
        "bank conflicts, of the wavefronts of stores", _over(_SHARED_STORES, "bank_conflicts", "wavefronts"), _percent
    ),
    "loop_ffma": Metric("FFMAs, of the instructions in the main loop", _of_loop(MULTIPLY_ADD), _percent),
    "loop_tensor": Metric("tensor-core instructions, of those in the main loop", _of_loop(TENSOR), _percent),
    "registers": Metric("registers a thread", lambda one: one.registers, _number),
    "shared": Metric(
        "shared memory a block", lambda one: one.shared_bytes / 1024 or None, lambda kib: f"{_number(kib)} KiB"
    ),
    "warps": Metric("warps that a multiprocessor holds, of 64", lambda one: one.warps, _number),
}


def cell(name: str, one: Counted) -> str:
    """A metric as tables show it; empty where the kernel has nothing of it."""
    value = METRICS[name].value(one)
    return "" if value is None else METRICS[name].text(value)
