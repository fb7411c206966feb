"""The vocabulary of the ladder: Kernel, Parameter, Constraint, Config, Specialization, Launch."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tilewright.errors import ConfigError, DtypeError, KernelNotFoundError, nearest
from tilewright.problem import Problem

VECTOR_BYTES = 16
"""Width of the widest load a thread makes (float4), and so the alignment that it needs."""


class Config(Mapping[str, int]):
    """One assignment of a kernel's parameters: an immutable mapping, also read as attributes (config.BM)."""

    def __init__(self, values: Mapping[str, int]) -> None:
        self._values = dict(values)

    def __getitem__(self, name: str) -> int:
        return self._values[name]

    def __getattr__(self, name: str) -> int:
        try:
            values: dict[str, int] = self.__dict__["_values"]
            return values[name]
        except KeyError:
            raise AttributeError(f"config has no parameter {name}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and dict(other) == self._values

    def __str__(self) -> str:
        return ",".join(f"{name}={value}" for name, value in self._values.items())

    def __repr__(self) -> str:
        return f"Config({self})"


def parse_overrides(text: str) -> dict[str, int]:
    """Read 'BM=64,BN=64' into parameter values.

    Raises:
        ConfigError: a part is not NAME=INTEGER.
    """
    overrides = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, equals, value = part.partition("=")
        try:
            overrides[name.strip()] = int(value)
        except ValueError:
            equals = ""
        if not equals:
            raise ConfigError(f"config must read NAME=INTEGER,..., as in BM=64,BN=64; got {part!r}")
    return overrides


@dataclass(frozen=True)
class Parameter:
    """A number that a kernel is compiled with."""

    name: str
    default: int
    values: tuple[int, ...]
    """Values worth trying, for a search; others are allowed where the constraints hold."""
    meaning: str
    least: int = 1


@dataclass(frozen=True)
class Constraint:
    """A condition that a config must meet, and the sentence a user reads when it does not."""

    holds: Callable[[Config], bool]
    reason: str


class Tile(NamedTuple):
    """What one block computes (m x n elements of C) and how far along k it goes in one step."""

    m: int
    n: int
    k: int


class Launch(NamedTuple):
    """Launch geometry: blocks in the grid, threads in a block, bytes of dynamic shared memory."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int


@dataclass(frozen=True)
class Specialization:
    """What is known of the operands when a kernel is compiled; it decides which guards the code carries.

    edges: some tile reaches past the end of A, B or C, so loads and stores are bounds-checked.
    aligned: every row of A, B and C starts at a multiple of 16 bytes, so whole float4s can be moved.
    """

    edges: bool
    aligned: bool


@dataclass(frozen=True, repr=False)
class Kernel:
    """One rung of the ladder: a source, its parameters and constraints, and how it is launched."""

    rung: int
    name: str
    idea: str
    source: Path
    """The `.cu` file; its entry point bears the file's stem as its name."""
    parameters: tuple[Parameter, ...]
    tile: Callable[[Config], Tile]
    block: Callable[[Config], tuple[int, int, int]]
    constraints: tuple[Constraint, ...] = ()
    vectorized: bool = False
    """Whether the source moves float4s, so that the operands' alignment matters to it."""
    dtypes: tuple[str, ...] = ("float32",)
    shared_bytes: Callable[[Config], int] = lambda config: 0
    """Bytes of dynamic shared memory of a block."""
    presets: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Named configs, as overrides of the defaults: the variants that the sources describe."""
    tuned: Mapping[tuple[int, int], Mapping[str, int]] = field(default_factory=dict)
    """Overrides of the defaults that were measured to be better, by compute capability."""

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"<Kernel {self.rung} {self.name}>"

    def config(
        self, overrides: Mapping[str, int] | None = None, *, capability: tuple[int, int] | None = None
    ) -> Config:
        """The kernel's defaults (those tuned for a compute capability, where there are any) with overrides.

        Overrides are checked against the constraints together with what they do not name.

        Raises:
            ConfigError: an override names no parameter of this kernel, is not an integer in the
                parameter's range, or the config breaks a constraint; the message gives the reason.
        """
        values = {parameter.name: parameter.default for parameter in self.parameters}
        if capability is not None and capability in self.tuned:
            values |= self.tuned[capability]
        for name, value in (overrides or {}).items():
            if name not in values:
                raise ConfigError(f"{self.name} has no parameter {name!r}{nearest(name, values)}")
            if isinstance(value, bool) or not isinstance(value, int):
                raise ConfigError(f"{self.name}: {name} must be an integer, got {value!r}")
            values[name] = value
        for parameter in self.parameters:
            if values[parameter.name] < parameter.least:
                raise ConfigError(
                    f"{self.name}: {parameter.name} must be at least {parameter.least}, got {values[parameter.name]}"
                )
        config = Config(values)
        broken = [constraint.reason for constraint in self.constraints if not constraint.holds(config)]
        if broken:
            raise ConfigError(f"{self.name} cannot run with {config}: " + "; ".join(broken))
        return config

    def preset(self, name: str) -> Mapping[str, int]:
        """Overrides of a named config.

        Raises:
            KernelNotFoundError: the kernel has no preset of this name.
        """
        if name not in self.presets:
            raise KernelNotFoundError(f"{self.name} has no preset {name!r}{nearest(name, self.presets)}")
        return self.presets[name]

    def threads(self, config: Config) -> int:
        """Threads in a block."""
        x, y, z = self.block(config)
        return x * y * z

    def check(self, problem: Problem) -> None:
        """Raise DtypeError unless the kernel takes the problem's element type."""
        if problem.dtype not in self.dtypes:
            raise DtypeError(f"{self.name} takes {', '.join(self.dtypes)}, got {problem.dtype}")

    def launch(self, problem: Problem, config: Config) -> Launch:
        """Geometry of the launch: one block a tile of C, numbered along x.

        Tiles are counted in one dimension because a grid has at most 65535 blocks along y.
        """
        tile = self.tile(config)
        blocks = -(-problem.m // tile.m) * -(-problem.n // tile.n)
        return Launch((blocks, 1, 1), self.block(config), self.shared_bytes(config))

    def specialize(self, problem: Problem, config: Config, pointers: tuple[int, int, int]) -> Specialization:
        """What the operands of a problem, A, B and C at these addresses, allow the code to leave out."""
        tile = self.tile(config)
        edges = bool(problem.m % tile.m or problem.n % tile.n or problem.k % tile.k)
        if not self.vectorized:
            return Specialization(edges, aligned=False)
        vector = VECTOR_BYTES // 4
        rows = (problem.lda, problem.ldb, problem.ldc)
        aligned = all(p % VECTOR_BYTES == 0 for p in pointers) and all(ld % vector == 0 for ld in rows)
        return Specialization(edges, aligned)

    def defines(self, config: Config, specialization: Specialization) -> dict[str, int]:
        """The macros that the source is compiled with."""
        return {**config, "EDGES": int(specialization.edges), "ALIGNED": int(specialization.aligned)}
