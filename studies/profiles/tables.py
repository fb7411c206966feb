"""What Nsight Compute counted of each rung and of cuBLAS: a part of docs/performance.md."""

from studies.profiles.measuring import profile_of
from studies.record import Measurements
from studies.results import path
from studies.templates import block
from tilewright.bench.ncu import CUBLAS
from tilewright.bench.profile import Profile

_TEMPLATE = "profiles/tables.md.j2"
_STALLS_SHOWN = 3


def load(name: str) -> Measurements:
    """The profiles that pages show, by the name of their file.

    Raises:
        RecordsError: the file cannot be read.
    """
    return Measurements.load(path(name))


def profiles(run: Measurements) -> list[Profile]:
    """What was counted, launch by launch."""
    return [profile_of(one) for one in run.measurements]


def section(run: Measurements) -> str:
    """The part of the page."""
    return block(_TEMPLATE, "ladder", run=run, profiles=profiles(run), stalls=_stalls, cublas=CUBLAS)


def of_library(run: Measurements) -> str:
    """The counts of what `matmul` picks, each above cuBLAS's."""
    return block(_TEMPLATE, "library", run=run, profiles=profiles(run), requests=_cycles_of_a_request)


def _cycles_of_a_request(one: Profile, multiprocessors: int) -> float | None:
    """Cycles of a multiprocessor that pass for one of its requests to the L2 cache."""
    requests, cycles = one.l2_requests, one.cycles
    return None if requests is None or cycles is None else cycles * multiprocessors / requests


def _stalls(one: Profile) -> str:
    shares = [(reason, share) for reason, share in one.stalls.items() if reason != "selected"]
    return ", ".join(f"{reason.replace('_', ' ')} {share:.0%}" for reason, share in shares[:_STALLS_SHOWN])
