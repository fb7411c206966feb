"""Expected results of a launch, by a function in NumPy, and the distance of its results from them."""

import inspect
import math
import runpy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.core.errors import ConfigError, nearest
from tilewright.kernels.source.buffers import Map, NumberArgument
from tilewright.kernels.source.source_launch import REFERENCE, SourceLaunch

LIMITS = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 1e-5, "float64": 1e-12}
"""Relative errors up to which a buffer is right, by its element type; of all others, 0."""


@dataclass(frozen=True)
class Compared:
    """A buffer and what the reference has for it."""

    name: str
    error: float
    """Frobenius norm of the difference, divided by that of the reference; of integers the share of elements that
    differ. NaN or infinite where one has such elements that the other has not."""
    limit: float
    worst: str
    """The element that is furthest away, as in 'y[3, 4] is 0.5, the reference has 0.7'."""

    @property
    def right(self) -> bool:
        """Whether the error is within the limit."""
        return self.error <= self.limit


class Reference:
    """A function of a Python file, called with the parameters of a launch that it names.

    It returns an array for the only buffer that may be written, a tuple of arrays for all of them in the order of the
    parameters, or arrays by their names.
    """

    def __init__(self, launch: SourceLaunch) -> None:
        """Load the launch's reference.

        Raises:
            ConfigError: there is no such file or function, or it names what is no parameter with values.
        """
        self._text = launch.words[REFERENCE]
        path, _, name = self._text.rpartition(":")
        if not path.endswith(".py") or not name.isidentifier():
            raise ConfigError(f"reference must read path.py:function, got {self._text!r}")
        try:
            contents = runpy.run_path(path)
        except Exception as error:
            raise ConfigError(f"{path} cannot be loaded: {type(error).__name__}: {error}") from error
        if name not in contents:
            raise ConfigError(f"there is no function {name!r} in {path}")
        self._function: Callable[..., Any] = contents[name]
        self._names = list(inspect.signature(self._function).parameters)
        said = [one for one in launch.contents.said if not isinstance(one, Map)]
        self._numbers = {one.name: one.value for one in said if isinstance(one, NumberArgument)}
        known = [one.name for one in said if isinstance(one, NumberArgument) or one.role != "out"]
        for parameter in self._names:
            if parameter not in known:
                raise ConfigError(
                    f"{self._text} takes {parameter!r}, which is no parameter of {launch.signature.name} with values "
                    f"before the launch: {', '.join(known)}{nearest(parameter, known, listed=True)}"
                )

    def compare(
        self, inputs: Mapping[str, NDArray[Any]], outputs: Mapping[str, NDArray[Any]], tolerance: float | None = None
    ) -> list[Compared]:
        """Compare what a launch wrote with what the function makes of its inputs.

        Args:
            inputs, outputs: buffers before and after the launch, by name.
            tolerance: relative error up to which floats are right; None for `LIMITS`.

        Raises:
            ConfigError: the function fails, or returns something else.
        """
        values: dict[str, Any] = {**self._numbers, **{name: array.copy() for name, array in inputs.items()}}
        try:
            returned = self._function(**{name: values[name] for name in self._names})
        except Exception as error:
            raise ConfigError(f"{self._text} fails: {type(error).__name__}: {error}") from error
        compared = []
        for name, reference in self._named(returned, list(outputs)).items():
            ours, theirs = outputs[name], np.asarray(reference)
            if ours.shape != theirs.shape:
                raise ConfigError(f"{self._text} returns {theirs.shape} elements for {name}, which has {ours.shape}")
            compared.append(_compared(name, ours, theirs, tolerance))
        return compared

    def _named(self, returned: Any, names: list[str]) -> dict[str, Any]:
        if isinstance(returned, Mapping):
            for name in returned:
                if name not in names:
                    raise ConfigError(
                        f"{self._text} returns {name!r}: buffers that may be written are {', '.join(names)}"
                    )
            return dict(returned)
        several = returned if isinstance(returned, tuple) else (returned,)
        if len(several) != len(names):
            raise ConfigError(
                f"{self._text} returns {len(several)} arrays: buffers that may be written are {', '.join(names)}"
            )
        return dict(zip(names, several, strict=True))


def _compared(name: str, ours: NDArray[Any], theirs: NDArray[Any], tolerance: float | None) -> Compared:
    limit = LIMITS.get(ours.dtype.name, 0.0)
    if ours.dtype.name not in LIMITS:
        distances = (ours != theirs).astype(np.float64)
        error = float(distances.mean())
    else:
        one, two = ours.astype(np.float64), theirs.astype(np.float64)
        with np.errstate(invalid="ignore"):
            distances = np.where((one == two) | (np.isnan(one) & np.isnan(two)), 0.0, np.abs(one - two))
        distances[np.isnan(distances)] = math.inf
        norm = float(np.linalg.norm(two[np.isfinite(two)]))
        distance = float(np.linalg.norm(distances))
        error, limit = distance / norm if norm else distance, limit if tolerance is None else tolerance
    at = np.unravel_index(int(np.argmax(distances)), ours.shape)
    place = ", ".join(map(str, map(int, at)))
    return Compared(name, error, limit, f"{name}[{place}] is {ours[at]}, the reference has {theirs[at]}")
