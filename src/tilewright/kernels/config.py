"""Config: one assignment of a kernel's parameters, and how texts and tables give some."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from tilewright.core.errors import ConfigError


class Config(Mapping[str, int]):
    """One assignment of a kernel's parameters: an immutable mapping, also read as attributes (config.BM)."""

    def __init__(self, values: Mapping[str, int]) -> None:
        self._values = dict(values)
        self.__dict__ |= self._values  # so that config.BM is as quick as an attribute

    def __getitem__(self, name: str) -> int:
        return self._values[name]

    def __getattr__(self, name: str) -> int:
        raise AttributeError(f"config has no parameter {name}")

    def __reduce__(self) -> tuple[type["Config"], tuple[dict[str, int]]]:  # hashes of names are others in each process
        return Config, (self._values,)

    def __contains__(self, name: object) -> bool:  # Mapping's own takes an exception to find that it is not
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(frozenset(self._values.items()))

    def __eq__(self, other: object) -> bool:
        if type(other) is Config:
            return self._values == other._values
        return isinstance(other, Mapping) and dict(other) == self._values

    def __str__(self) -> str:
        return ",".join(f"{name}={value}" for name, value in self._values.items())

    def __repr__(self) -> str:
        return f"Config({self})"


def named_configs(parameters: str, rows: Mapping[str, tuple[int, ...]]) -> dict[str, dict[str, int]]:
    """Overrides by name, from the values of these parameters, as in 'BM BN', that each has."""
    return {name: dict(zip(parameters.split(), values, strict=True)) for name, values in rows.items()}


def listed_configs(parameters: str, rows: Sequence[tuple[int, ...]]) -> tuple[dict[str, int], ...]:
    """Overrides from the values of these parameters, as in 'BM BN', that each row has."""
    return tuple(dict(zip(parameters.split(), values, strict=True)) for values in rows)


def parse_overrides(text: str) -> dict[str, int]:
    """Read 'BM=64,BN=64' into parameter values.

    Raises:
        ConfigError: a part is not NAME=INTEGER, or names what another does.
    """
    overrides = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, equals, value = (word.strip() for word in part.partition("="))
        if not equals or not re.fullmatch(r"[+-]?[0-9]{1,99}", value):
            raise ConfigError(f"config must read NAME=INTEGER,..., as in BM=64,BN=64; got {part!r}")
        if name in overrides:
            raise ConfigError(f"config must give each parameter once, got {name} twice in {text!r}")
        overrides[name] = int(value)
    return overrides
