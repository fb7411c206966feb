"""What Nsight Compute counted of each rung and of cuBLAS: a part of docs/performance.md, where there is a record."""

from studies.markdown import table
from studies.profiles.measuring import Profiles
from studies.results import path
from tilewright.bench.ncu import CUBLAS
from tilewright.bench.profile import Profile

_STALLS_SHOWN = 3

_WORDS = """What Nsight Compute counts of one launch on one {gpu}, at the clocks that it found (`python -m
studies.profiles.measuring --out PATH`, revision {revision}). L1 and L2: shares of the sectors of loads that the cache
had; DRAM: what was read and written. The last column is what a warp's time goes to, issuing apart, in the profiler's
words."""

_LIBRARY_WORDS = """What Nsight Compute counts of one launch of each on one {gpu}, alone and at the clocks that it found
(`python -m studies.profiles.measuring --library --out PATH`, revision {revision}): cycles of a multiprocessor, requests
of all to the L2 cache, and how many cycles pass for one of a multiprocessor's."""


def load(name: str) -> Profiles:
    """The profiles that pages show, by the name of their file.

    Raises:
        RecordsError: the file cannot be read.
    """
    return Profiles.load(path(name))


def section(run: Profiles) -> str:
    """The part of the page."""
    return "\n\n".join(("## Profiles", _said(_WORDS, run), _counters(run), "cuBLAS launches:", _cublas(run)))


def of_library(run: Profiles) -> str:
    """The counts of what `matmul` picks, each above cuBLAS's."""
    rows = [_of_product(one, run.environment["gpu"]["multiprocessors"]) for one in run.profiles]
    heads = ("m x n x k", "orders", "", "us", "cycles", "requests", "cycles for one", "DRAM, MB")
    return "\n\n".join((_said(_LIBRARY_WORDS, run), table(heads, rows, "lll" + "r" * 5)))


def _said(words: str, run: Profiles) -> str:
    """On one line, with the GPU and the revision of a run."""
    facts = run.environment
    return words.format(gpu=facts["gpu"]["name"], revision=facts.get("revision", "unknown")).replace("\n", " ")


def _of_product(one: Profile, multiprocessors: int) -> tuple[str, ...]:
    own, requests, cycles = one.config, one.l2_requests, one.cycles
    by = ", ".join(f"`{name}`" for name in one.launched)
    if own:
        by += f", tiles of {own['BM']} x {own['BN']}, clusters of {own['CLUSTER']} x {own['CLUSTER_N']}"
    each = None if requests is None or cycles is None else cycles * multiprocessors / requests
    numbers = (_number(one.time_us, "{:,.1f}"), _number(cycles, "{:,.0f}"), _number(requests, "{:,.0f}"))
    return (one.shape, one.layout, by, *numbers, _number(each, "{:.2f}"), _number(one.dram_bytes, "{:,.1f}", 1e-6))


def _counters(run: Profiles) -> str:
    rows = [
        (
            f"{one.rung} {one.kernel}" if one.rung else one.kernel,
            one.shape,
            one.dtype,
            _number(one.time_us, "{:,.1f}"),
            _number(one.l1_hits, "{:.1%}"),
            _number(one.l2_hits, "{:.1%}"),
            _number(one.l2_bytes, "{:,.2f}", 1e-9),
            _number(one.dram_bytes, "{:,.2f}", 1e-9),
            _number(one.dram_gbs, "{:,.0f}"),
            _number(one.wavefronts, "{:,.0f}", 1e-6),
            _number(one.issuing, "{:.0%}"),
            _stalls(one),
        )
        for one in run.profiles
    ]
    heads = ("", "m x n x k", "in", "us", "L1", "L2", "L2, GB", "DRAM, GB", "DRAM, GB/s", "data wavefronts, M")
    return table((*heads, "cycles that issue", "warps wait for"), rows, "lll" + "r" * 8 + "l")


def _cublas(run: Profiles) -> str:
    rows = [
        (one.shape, one.dtype, ", ".join(f"`{name}`" for name in one.launched))
        for one in run.profiles
        if one.kernel == CUBLAS
    ]
    return table(("m x n x k", "in", "kernels"), rows, "lll")


def _number(value: float | None, form: str, scale: float = 1.0) -> str:
    return "" if value is None else form.format(scale * value)


def _stalls(one: Profile) -> str:
    shares = [(reason, share) for reason, share in one.stalls.items() if reason != "selected"]
    return ", ".join(f"{reason.replace('_', ' ')} {share:.0%}" for reason, share in shares[:_STALLS_SHOWN])
