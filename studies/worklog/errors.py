"""How much ways to multiply float32 matrices err, and how that grows with k: kernels run on the emulator, whose tensor
cores add as Hopper's do (`emulator/runtime/tensor_cores.hpp`)."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from studies.charts import Curve, Panel, curves
from studies.record import Measurement, Measurements
from studies.templates import block
from tilewright.core.errors import RecordsError, nearest
from tilewright.core.problem import Arithmetic, Problem
from tilewright.emulator.engine import EmulatorEngine
from tilewright.kernels import find
from tilewright.runtime.base import run
from tilewright.tools.explain.accuracy import error_in_order, predicted_error
from tilewright.tools.report.figures.palette import owner_color

FLOAT32, TF32, NEVER = "float32, one after the other", "TF32", "bf16x6, never promoted"
FP16X3, BF16X3 = "fp16x3 (gemm_fp16x3)", "bf16x3 (gemm_bf16x3)"
PROMOTED = "bf16x6, promoted every {}"

_SIDE = 64
"""Rows of A, and columns of B."""
DEPTHS = tuple(2**power for power in range(4, 15))
PROMOTES = tuple(2**power for power in range(4, 13))
SWEPT_DEPTH = PROMOTES[-1]
"""k at which all PROMOTES are run; the last is this k, so never."""
_MORE_DEPTHS = (16, 64, 128)
"""PROMOTES that are run at all DEPTHS."""
_TF32_DEPTH = 8
"""Products of TF32 that tensor cores add at once, where they add twice as many of 16 bits."""
_SPLIT = "uniform [0, 1)"
"""Inputs whose signs of errors are counted."""

_KERNELS: Mapping[str, tuple[str, Mapping[str, int]]] = {
    FLOAT32: ("naive", {}),
    TF32: ("gemm_sm90", {"BN": _SIDE}),
    NEVER: ("split", {"BN": _SIDE}),
    **{PROMOTED.format(k): ("promoted", {"BN": _SIDE, "PROMOTE": k}) for k in PROMOTES},
    FP16X3: ("gemm_fp16x3", {"BN": _SIDE}),
    BF16X3: ("gemm_bf16x3", {"BN": _SIDE}),
}
"""Kernel and macros that run for each way."""

WAYS_OF: Mapping[str, Sequence[str]] = {
    "split": (FLOAT32, NEVER, BF16X3, TF32),
    "promoted": (FLOAT32, NEVER, *map(PROMOTED.format, reversed(_MORE_DEPTHS)), FP16X3),
}
"""Ways that a rung's page shows."""
_COLORS = {
    way: owner_color(number)
    for number, way in enumerate((FLOAT32, FP16X3, BF16X3, TF32, NEVER, *map(PROMOTED.format, _MORE_DEPTHS)))
}

Matrix = NDArray[np.float32]


def _drawn(inputs: str, random: np.random.Generator, shape: tuple[int, int]) -> Matrix:
    values = random.random(shape) if inputs == _SPLIT else random.standard_normal(shape)
    return (abs(values) if inputs == "|normal|" else values).astype(np.float32)


INPUTS = ("normal", _SPLIT, "|normal|")


def sampled(way: str, inputs: str, k: int) -> Measurement:
    """Run one way on inputs of one kind: its error, and the share of elements that came out smaller than they are,
    without their sign.

    Raises:
        EngineUnavailableError: there is no C++ compiler.
    """
    random = np.random.default_rng(k)
    a, b = _drawn(inputs, random, (_SIDE, k)), _drawn(inputs, random, (k, _SIDE))
    exact = a.astype(np.float64) @ b.astype(np.float64)
    difference = _product(way, a, b) - exact
    error = float(np.linalg.norm(difference) / np.linalg.norm(exact))
    toward_zero = float((difference * np.sign(exact) < 0).mean())
    return Measurement(what={"inputs": inputs, "k": k}, way=way, error=error, facts={"toward_zero": toward_zero})


def _product(way: str, a: Matrix, b: Matrix) -> NDArray[np.float64]:
    engine, (name, overrides) = EmulatorEngine(), _KERNELS[way]
    kernel = find(name)
    factors = (_as_tf32(a), _as_tf32(b.T).T) if way == TF32 else (a, b)
    arithmetic = Arithmetic(str(factors[0].dtype), "float32")
    result = engine.upload(np.full((a.shape[0], b.shape[1]), np.nan, np.float32))
    problem = Problem(a.shape[0], b.shape[1], factors[0].shape[1], arithmetic)
    left, right = (engine.upload(np.ascontiguousarray(factor)) for factor in factors)
    run(engine, kernel, kernel.config(overrides), problem, left, right, result)
    return engine.download(result).astype(np.float64)


def _as_tf32(rows: Matrix) -> NDArray[np.float16]:
    """Rows rounded to TF32, as tensor cores that take 16 of 16 bits at once are to add them.

    An element of INPUTS has as many bits in float16, but for those near 0. After every eight come eight zeros.
    """
    pieces = rows.astype(np.float16).reshape(len(rows), -1, _TF32_DEPTH)
    return np.concatenate((pieces, np.zeros_like(pieces)), axis=-1).reshape(len(rows), -1)


def all_sampled() -> Iterator[Measurement]:
    """Everything that pages show.

    Raises:
        EngineUnavailableError: there is no C++ compiler.
    """
    swept = {PROMOTED.format(k) for k in PROMOTES if k not in _MORE_DEPTHS}
    for inputs in INPUTS:
        for way in _KERNELS:
            for k in (SWEPT_DEPTH,) if way in swept else DEPTHS:
                yield sampled(way, inputs, k)


class Errors:
    """Samples of errors, as pages show them."""

    def __init__(self, samples: Measurements) -> None:
        self._samples = {(one.way, one.what["inputs"], one.what["k"]): one for one in samples.measurements}

    def find(self, way: str, inputs: str, k: int) -> Measurement:
        """One of them.

        Raises:
            RecordsError: there is none.
        """
        if way not in _KERNELS:
            raise RecordsError(f"no way to multiply is called {way!r}{nearest(way, _KERNELS)}")
        if (way, inputs, k) not in self._samples:
            raise RecordsError(f"the worklog needs the error of {way} on {inputs} inputs at k = {k}")
        return self._samples[way, inputs, k]

    def error(self, way: str, inputs: str, k: int) -> float:
        """Its relative error.

        Raises:
            RecordsError: there is none.
        """
        return self.find(way, inputs, k).error or 0.0

    def times(self, way: str, other: str, inputs: str, k: str) -> str:
        """How many times the error of another way that of one is."""
        ratio = self.error(way, inputs, int(k)) / self.error(other, inputs, int(k))
        return f"{ratio:.2f}" if ratio < 2 else f"{ratio:.1f}" if ratio < 10 else f"{ratio:.0f}"

    def signs(self) -> str:
        """A table of errors, and of how many of them point toward zero, by k: of float32 and of rung 27."""
        given = {"ways": (FLOAT32, NEVER), "inputs": _SPLIT, "depths": DEPTHS[::2], "sample": self.find}
        return block("worklog/tables.md.j2", "signs", **given)

    def predicted(self, kernel: str) -> str:
        """A table of errors on normal inputs, as predicted and as they are, of what is drawn on a rung's page."""
        given = {"ways": WAYS_OF[kernel], "inputs": INPUTS[0], "depths": (64, 1024, DEPTHS[-1]), "sample": self.find}
        return block("worklog/tables.md.j2", "predicted", expected=_expected, **given)

    def against_k(self, ways: Sequence[str]) -> str:
        """Errors of these ways over k, as SVG."""
        panels = []
        for inputs in INPUTS:
            over_k = {way: [(k, self.error(way, inputs, k)) for k in DEPTHS] for way in ways}
            panels.append(Panel(inputs, [Curve(way, over_k[way], {"color": _COLORS[way]}) for way in ways]))
        return curves(panels, "k", "error", "{x:.0e}")

    def against_promote(self) -> str:
        """Errors of rung 28 over PROMOTE, and float32's, as SVG."""
        panels = []
        for inputs in INPUTS:
            usual = self.error(FLOAT32, inputs, SWEPT_DEPTH)
            points = [(k, self.error(PROMOTED.format(k), inputs, SWEPT_DEPTH)) for k in PROMOTES]
            level = Curve(FLOAT32, [(k, usual) for k in PROMOTES], {"color": _COLORS[FLOAT32], "linestyle": "--"})
            promoted = Curve("bf16x6, promoted (rung 28)", points, {"color": _COLORS[NEVER]})
            panels.append(Panel(f"{inputs}, k = {SWEPT_DEPTH}", [level, promoted]))
        return curves(panels, "PROMOTE", "error", "{x:.0e}")


def _expected(way: str, k: int) -> float | None:
    """The error that is predicted; None where none is."""
    name, overrides = _KERNELS[way]
    kernel = find(name)
    return error_in_order(k) if way == FLOAT32 else predicted_error(kernel, kernel.config(overrides), k)
