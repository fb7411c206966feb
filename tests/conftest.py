"""Fixtures and settings that tests of several modules share."""

import contextlib
import gc
import os
import signal

# Before NumPy is loaded. Matrices are small here, and pytest-xdist uses the cores: more threads of NumPy and PyTorch
# would spin between products.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest

from tiers import mark_further
from tilewright.core.errors import EngineUnavailableError
from tilewright.emulator.runtime_library import find_runtime
from tilewright.tools.bench.records import Baseline, Error, Record, Times
from tilewright.tools.machine.record import Machine, ProbeTime

# Nearly all that collecting makes stays: to go through it would take a third of the time. Tests leave little in cycles.
gc.disable()
gc.set_threshold(100_000, 10, 10)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background jobs are born so, and tests interrupt
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Problems are small here: compiling takes longer than running.
os.environ.setdefault("TILEWRIGHT_EMULATOR_OPTIMIZE", "1")
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")

# A console that is made while these are set keeps that size, whatever a test sets.
for name in ("COLUMNS", "LINES"):
    os.environ.pop(name, None)

# Tests start Python many times, each of which would compile all of tilewright, and the next run rewrites no assertions.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes():
    """Before there are several processes, each of which would compile the emulator's runtime if it is in no cache."""
    gc.enable()  # this process collects no tests
    with contextlib.suppress(EngineUnavailableError):
        find_runtime()


@pytest.hookimpl(tryfirst=True)  # before tests are selected by their markers
def pytest_collection_modifyitems(items):
    mark_further(items)


def pytest_collection_finish():
    """Tests and modules stay to the end: the garbage collector need not go through them each time."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def make_record():
    """Make a record of a plausible measurement; keyword arguments replace its fields."""

    def make(**changes):
        time = Times(min=1.0, median=2500.0)
        fields = {
            "kernel": "naive",
            "rung": 1,
            "config": {"BLOCK_X": 32},
            "m": 64,
            "n": 64,
            "k": 64,
            "dtype": "float32",
            "engine": "cuda",
            "time_us": time,
            "gflops": 1234.5,
            "baseline": Baseline(name="cuBLAS", version="13.1.0", time_us=time, gflops=2469.0),
            "ratio": 0.5,
            "error": Error(relative_frobenius=1e-7, limit=1e-6),
            "verified": True,
        }
        return Record(**(fields | changes))

    return make


@pytest.fixture
def machine():
    """A GPU's measurement in round numbers: 132 multiprocessors at 2000 MHz."""
    gpu = {"name": "NVIDIA H100 80GB HBM3", "compute_capability": "9.0"}
    environment = {"gpu": gpu, "date": "2026-11-28T07:00:00+00:00", "revision": "abc1234"}

    def of(level, work, footprint, cycles, ns):
        return ProbeTime(level=level, work=work, footprint_bytes=footprint, cycles=cycles, ns=ns)

    latencies = [
        of("FMA", 1000, 0, 4000, 2000),
        of("shared memory", 1000, 4096, 23000, 11500),
        of("L2 cache", 1000, 8 << 20, 260_000, 130_000),
        of("DRAM", 1000, 16 << 20, 600_000, 300_000),
    ]
    bandwidths = [
        of("registers", 132 * 128 * 12 * 4000, 0, 4000, 2000),
        of("shared memory", 132 * 128 * 4000, 16384, 4000, 2000),
        of("L2 cache", 12_000_000, 16 << 20, 4000, 2000),
        of("DRAM", 8_000_000, 2 << 30, 4000, 2000),
    ]
    return Machine(environment=environment, multiprocessors=132, latencies=latencies, bandwidths=bandwidths)


@pytest.fixture
def unasked_nvrtc(monkeypatch):
    """A check does not ask NVRTC what it has against a source, as where it is not installed: that takes 1.5 s where a
    source has cooperative groups or barriers."""

    def absent(*_):
        raise EngineUnavailableError("NVRTC is not asked")

    monkeypatch.setattr("tilewright.runtime.nvrtc.user_source_errors", absent)


@pytest.fixture(scope="session")
def report_of():
    """How a kernel compiles for an architecture, from the record where that has it: see `compiled.py`."""
    import compiled  # noqa: PLC0415 it is slow to load

    return compiled.report_of
