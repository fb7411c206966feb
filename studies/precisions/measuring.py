"""Speed against error: every way on normal inputs, timed in turns, and tilewright's on adversarial ones.

PyTorch's, tilewright's, JAX's and Triton's ways take turns in one process; JAX and Triton where they are installed.
"""

import gc
import importlib
import math
import os
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch

from studies.precisions import adversarial
from studies.precisions.ways import Round, Way, of_tilewright, of_torch
from studies.record import Measurement
from tilewright.runtime.base import Engine
from tilewright.tools.bench.end_to_end import Stopwatch
from tilewright.tools.bench.suites import SuiteSize

PARTS = ("speeds", "adversarial")
_OTHERS = {"jax": "of_jax", "triton": "of_triton"}
"""Libraries whose ways are compared where they are installed, and the modules that have them."""


_SHAPES = (*(SuiteSize(size, size, size) for size in (1024, 2048, 4096, 8192)), SuiteSize(4096, 14336, 4096))


UNTIMED = 5
"""Samples before each that is timed, a quarter of a second: some ways meet the GPU's power limit and others do not, and
for as long the clock of an H100 is still on its way from where the way before has left it."""


class Scale(NamedTuple):
    """How large everything is."""

    device: str = "cuda"
    shapes: tuple[SuiteSize, ...] = _SHAPES
    side: int = 1024
    """Rows and columns of results of adversarial inputs."""
    depths: tuple[int, ...] = (64, 200, 1024, 4096)
    """Sizes along k of adversarial inputs."""


H200 = Scale()


def all_ways() -> list[Way]:
    """The ways of every library that is installed."""
    ways = [*of_torch(), *of_tilewright()]
    for library, module in _OTHERS.items():
        try:
            ways += importlib.import_module(f"studies.precisions.{module}").ways()
        except ImportError as error:
            print(f"without {library}: {error}", flush=True)
    return ways


def choices(scale: Scale, ways: Sequence[Way], shape: SuiteSize) -> list[Measurement]:
    """Every way on one problem; those that their library refuses there are left out.

    Operands rotate through sets that fill the GPU's cache twice.
    """
    gc.collect()  # graphs of the last problem, and their memory
    if scale.device == "cuda":
        torch.cuda.empty_cache()
    pairs = _pairs(scale, shape)
    exact = torch.mm(*(one.double() for one in pairs[0]))
    rounds: dict[Way, Round] = {}
    errors: dict[Way, float] = {}
    for way in ways:
        try:
            bound = way.bind(pairs)
            errors[way] = float((way.read(bound()[0]).double() - exact).norm() / exact.norm())
            rounds[way] = bound
        except Exception as error:  # of any library: the others are still worth comparing
            words = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
            print(f"{way.name} at {shape}: {words}", flush=True)

    def wait() -> None:
        for way in rounds:
            way.wait()
        if scale.device == "cuda":
            torch.cuda.synchronize()

    times = Stopwatch(wait).wall_us(list(rounds.values()), untimed=UNTIMED)
    what: dict[str, str | int] = {"m": shape.m, "n": shape.n, "k": shape.k}
    return [
        Measurement(what=what, way=way.name, us=time / len(pairs), error=errors[way], facts={"library": way.library})
        for way, time in zip(rounds, times, strict=True)
    ]


def _pairs(scale: Scale, shape: SuiteSize) -> list[tuple[Any, Any]]:
    m, n, k = shape.m, shape.n, shape.k
    cache = torch.cuda.get_device_properties(0).L2_cache_size if scale.device == "cuda" else 0
    size = 4 * (m * k + k * n + m * n)
    torch.manual_seed(m + n + k)
    normal = partial(torch.randn, device=scale.device)
    return [(normal(m, k), normal(k, n)) for _ in range(1 + 2 * cache // size)]


def adversarial_cases(scale: Scale, k: int) -> Iterator[Measurement]:
    """Errors of PyTorch's float32 and of tilewright's precisions on every class of adversarial inputs of this k."""
    for name, make in (adversarial.ORDINARY | adversarial.EXACT | adversarial.EXTREME).items():
        factors = make(np.random.default_rng(k), scale.side, scale.side, k)
        a, b = (torch.from_numpy(factor).to(scale.device) for factor in factors)
        exact, size = a.double() @ b.double(), a.double().abs() @ b.double().abs()
        what: dict[str, str | int] = {"inputs": name, "m": len(a), "n": b.shape[1], "k": k}
        for way in (next(of_torch()), *of_tilewright()):
            element, frobenius = _errors(way, a, b, exact, size)
            yield Measurement(what=what, way=way.name, error=frobenius, facts={"element": element})


def _errors(way: Way, a: Any, b: Any, exact: Any, size: Any) -> tuple[float | None, float | None]:
    """The largest error of an element over that of |A| @ |B|, and the relative Frobenius error; None where they are
    not finite."""
    (result,) = way.bind([(a, b)])()
    difference = (result.double() - exact).abs()
    element = float((difference / size.where(size > 0, torch.ones_like(size))).max())
    return _finite(element), _finite(float(difference.norm()) / (float(exact.norm()) or 1.0))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def options(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--part", choices=PARTS, action="append", help="default: both")


def measurements(engine: Engine, part: Sequence[str] | None) -> Iterator[Measurement]:
    """Speeds and errors on normal inputs, and errors on adversarial ones."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # JAX would take three quarters of the memory
    parts = part or PARTS
    if "speeds" in parts:
        ways = all_ways()
        for shape in H200.shapes:
            yield from choices(H200, ways, shape)
    if "adversarial" in parts:
        for k in H200.depths:
            yield from adversarial_cases(H200, k)
