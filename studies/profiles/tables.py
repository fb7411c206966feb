"""Tables of the counters of Nsight Compute, of each rung and of cuBLAS: a part of docs/worklog/measured.md."""

from collections.abc import Sequence

from studies.profiles.measuring import profile_of
from studies.record import Measurements
from studies.templates import block
from tilewright.tools.bench.ncu import CUBLAS
from tilewright.tools.bench.profile import Profile

_TEMPLATE = "profiles/tables.md.j2"
_STALLS_SHOWN = 3


def section(run: Measurements) -> str:
    """The part of the page."""
    profiles = list(map(profile_of, run.measurements))
    return block(_TEMPLATE, "ladder", run=run, profiles=profiles, stalls=_stalls, cublas=CUBLAS)


def tensor_cores(run: Measurements, kernels: Sequence[str]) -> str:
    """A table of what kernels ask of shared memory, how many instructions they execute, and how busy tensor cores are;
    a row for each element type that was profiled."""
    profiles = [one for one in map(profile_of, run.measurements) if one.kernel in kernels]
    ordered = sorted(profiles, key=lambda one: kernels.index(one.kernel))
    return block(_TEMPLATE, "tensor_cores", run=run, profiles=ordered, stalls=_stalls)


def of_library(run: Measurements) -> str:
    """The counts of what `matmul` picks, each above cuBLAS's."""
    profiles = list(map(profile_of, run.measurements))
    return block(_TEMPLATE, "library", run=run, profiles=profiles, requests=_cycles_of_a_request)


def _cycles_of_a_request(one: Profile, multiprocessors: int) -> float | None:
    """Cycles of a multiprocessor that pass for one of its requests to the L2 cache."""
    requests, cycles = one.l2_requests, one.cycles
    return None if requests is None or cycles is None else cycles * multiprocessors / requests


def _stalls(one: Profile) -> str:
    shares = [(reason, share) for reason, share in one.stalls.items() if reason != "selected"]
    return ", ".join(f"{reason.replace('_', ' ')} {share:.0%}" for reason, share in shares[:_STALLS_SHOWN])
