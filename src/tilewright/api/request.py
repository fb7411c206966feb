"""Request: what is asked of a product besides its arrays and scalars, as given and checked."""

import numbers
from collections.abc import Mapping
from typing import Any, NamedTuple

from tilewright.api.arrays.libraries import number_of
from tilewright.core.dtypes import ARRAYS
from tilewright.core.errors import ConfigError, DtypeError, KernelNotFoundError, ProblemError, nearest
from tilewright.core.problem import COMPLEX_PRECISIONS, FAST, Epilogue, Scalars, precision_of
from tilewright.kernels import resolve
from tilewright.kernels.config import parse_overrides
from tilewright.kernels.kernel import Kernel
from tilewright.runtime.base import Engine

Rung = tuple[Kernel, tuple[tuple[str, int], ...]]
"""A kernel, and the parameters for which it is not to take its defaults."""


class Request(NamedTuple):
    """Options of a product, as a caller gave them or checked: all that is asked besides the arrays and scalars.

    As given it is the key by which the compiled launcher finds plans; a tuple of the same values is equal to it.
    """

    out_dtype: Any = None
    """Checked, a name or None."""
    activation: str | None = None
    precision: str | None = None
    """Checked, as `Arithmetic` has it: None for float32's promise, 'fast' for fast_accumulate."""
    kernel: Any = None
    """Checked, a Kernel, or None."""
    config: Any = None
    """Checked, the parameters for which the kernel is not to take its defaults, each with its value."""
    batch_invariant: bool = False
    fast_accumulate: bool = False
    engine: str | Engine | None = None

    @classmethod
    def of(cls, function: str, asked: Mapping[str, Any]) -> "Request":
        """The request of a call of a function with these keywords.

        Raises:
            TypeError: there is no such keyword.
        """
        for name in asked:
            if name not in cls._fields:
                raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")
        return cls(**asked)

    @property
    def key(self) -> "Request | None":
        """The key of the compiled launcher for calls with these options: None where nothing is asked."""
        return None if all(one is None or one is False for one in self) else self

    @property
    def rung(self) -> Rung | None:
        """The kernel that is named, of what was checked."""
        return None if self.kernel is None else (self.kernel, self.config)

    def checked(self) -> "Request":
        """The request with its options checked.

        Raises:
            DtypeError, ProblemError, KernelNotFoundError, ConfigError: there is no such type, precision, kernel or
                config, or batch_invariant is no bool.
        """
        if self.batch_invariant is not False:
            check_batch_invariant(self.batch_invariant)
        if self.out_dtype is self.precision is self.kernel is self.config is None and not self.fast_accumulate:
            return self
        promise = promise_of(self.precision)
        if self.fast_accumulate:
            if promise is not None:
                raise ProblemError(
                    "fast_accumulate is for float8 factors and precision for float32, "
                    f"got precision={self.precision!r} too"
                )
            promise = FAST
        result = dtype_name(self.out_dtype)
        kernel, config = _rung(self.kernel, self.config) or (None, None)
        settings = result, self.activation, promise, kernel, config
        return Request(*settings, self.batch_invariant, self.fast_accumulate, self.engine)


PLAIN = Request()
"""The request of a call that asks for nothing; it is checked."""


def scalars_of(alpha: Any, beta: Any) -> Scalars:
    """Scalars from what a caller gave: numbers, or arrays on the host that have no dimensions.

    Raises:
        ProblemError: one is neither, or is no number that float32 holds.
    """
    if type(alpha) is type(beta) is float:
        return Scalars.checked(alpha, beta)
    return Scalars.checked(number_of("alpha", alpha), number_of("beta", beta))


def promise_of(precision: Any) -> str | None:
    """A precision as a Request has it, checked; those of complex products too.

    Raises:
        ProblemError: it is none.
    """
    return precision if isinstance(precision, str) and precision in COMPLEX_PRECISIONS else precision_of(precision)


def check_batch_invariant(given: Any) -> None:
    """Raise ProblemError unless it is a bool."""
    if not isinstance(given, bool):
        raise ProblemError(f"batch_invariant must be True or False, got {given!r}")


def check_activation(given: str | None) -> None:
    """Raise ProblemError unless it is an activation of an epilogue, or None."""
    Epilogue(activation=given)


def dtype_name(dtype: Any) -> str | None:
    """The name of a result's element type, from text or a library's own object.

    Raises:
        DtypeError: it is none that a result may have.
    """
    if dtype is None:
        return None
    name = dtype if isinstance(dtype, str) else getattr(dtype, "name", None) or getattr(dtype, "__name__", str(dtype))
    name = str(name).removeprefix("torch.")
    if name not in ARRAYS:
        near = nearest(name, ARRAYS, listed=True)
        raise DtypeError(f"out_dtype must be one of {', '.join(ARRAYS)}, got {dtype!r}{near}")
    return name


def _rung(kernel: str | int | Kernel | None, config: str | Mapping[str, int] | None) -> Rung | None:
    """Kernel and config that a caller asks for; None where the choice is left to `select`."""
    if kernel is None:
        if config is not None:
            raise ConfigError(f"config needs the kernel whose parameters it sets, got config={config!r} and no kernel")
        return None
    if isinstance(kernel, bool) or not isinstance(kernel, (str, numbers.Integral, Kernel)):
        raise KernelNotFoundError(f"kernel must be a name, the number of a rung or a Kernel, got {kernel!r}")
    found, preset = (kernel, {}) if isinstance(kernel, Kernel) else resolve(str(kernel))
    if config is None:
        return found, tuple(preset.items())
    if isinstance(config, str):
        config = parse_overrides(config)
    if not isinstance(config, Mapping):
        raise ConfigError(f"config must map parameters to integers or read NAME=INTEGER,..., got {config!r}")
    overrides = {**preset, **config}
    if not all(type(value) is int for value in overrides.values()):
        checked = found.config(overrides)  # refuses what is no integer, and perhaps no key for the cache either
        overrides = {name: checked[name] for name in overrides}
    return found, tuple(overrides.items())
