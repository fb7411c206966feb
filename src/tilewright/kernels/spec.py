"""The vocabulary of the ladder: Kernel, Parameter, Constraint, Config, Specialization, Launch."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from tilewright.errors import ConfigError, DtypeError, KernelNotFoundError, LaunchError, nearest
from tilewright.problem import ITEM_BYTES, RESULT_DTYPE, Problem

VECTOR_BYTES = 16
"""Width of the widest load a thread makes (float4), and so the alignment that it needs."""

BFLOAT16 = "BFLOAT16"
"""Macro of kernels that take several element types: 1 where A and B hold bfloat16, else 0."""

_BFLOAT16_CAPABILITY = (8, 0)  # the first with tensor cores that take it


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

    def __contains__(self, name: object) -> bool:  # Mapping's own takes an exception to find that it is not
        return name in self._values

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


@dataclass(frozen=True)
class TensorBox:
    """The part of a matrix that one load through a tensor map brings into shared memory, and how it lies there.

    Limits: CUDA driver API, cuTensorMapEncodeTiled.

    rows, cols: its extents in elements, 1 to 256 each; a row is a multiple of 16 bytes.
    swizzle: 0, or 32, 64 or 128, the bytes of a row, whose 16-byte pieces are then exchanged from row to row.
    """

    rows: int
    cols: int
    swizzle: int = 0

    def check(self, item_bytes: int) -> None:
        """Raise ConfigError where the box is none that a GPU takes for elements of this size."""
        if not (1 <= self.rows <= 256 and 1 <= self.cols <= 256):
            raise ConfigError(f"a tensor box must have 1 to 256 rows and columns, got {self.rows} x {self.cols}")
        if self.cols * item_bytes % VECTOR_BYTES:
            raise ConfigError(
                f"a tensor box's row must be a multiple of {VECTOR_BYTES} bytes, got {self.cols * item_bytes}"
            )
        if self.swizzle not in (0, 32, 64, 128):
            raise ConfigError(f"a tensor box's swizzle must be 0, 32, 64 or 128 bytes, got {self.swizzle}")
        if self.swizzle and self.cols * item_bytes != self.swizzle:
            raise ConfigError(
                f"a tensor box's row must be as long as its swizzle of {self.swizzle} bytes, "
                f"got {self.cols * item_bytes}"
            )


class Workspace(NamedTuple):
    """Memory that a launch needs besides its operands: bytes for anything, and counters that are 0 before and after."""

    bytes: int
    tickets: int


class Launch(NamedTuple):
    """Launch geometry: blocks in the grid, threads in a block, bytes of dynamic shared memory."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int

    def bundled(self, count: int) -> "Launch":
        """The same launch as the hardware takes it, with bundles of so many blocks for its blocks (`bundle.cuh`)."""
        if count == 1:
            return self
        return Launch((-(-self.grid[0] // count), 1, 1), (self.block[0], count, 1), count * self.shared_bytes)


@dataclass(frozen=True)
class Specialization:
    """What is known of the operands when a kernel is compiled; it decides which guards the code carries.

    edges: some tile reaches past the end of A, B or C, so loads and stores are bounds-checked.
    aligned: every row of A, B and C starts at a multiple of 16 bytes, so whole float4s can be moved.
    dtype: element type of A and B.
    """

    edges: bool
    aligned: bool
    dtype: str = "float32"


def rows_aligned(problem: Problem) -> bool:
    """Whether every row of A, B and C starts at a multiple of 16 bytes where the first of each does."""
    item, result_item = ITEM_BYTES[problem.dtype], ITEM_BYTES[RESULT_DTYPE]
    return (problem.lda * item | problem.ldb * item | problem.ldc * result_item) % VECTOR_BYTES == 0


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
    """Element types of A and B that it takes. C is float32."""
    precision: str | None = None
    """What factors are rounded to before they are multiplied, as 'tf32'; None where they are taken as they come. A
    kernel that rounds is less exact than its element type lets expect, and runs only where it is named."""
    least_capability: tuple[int, int] = (7, 5)
    """Compute capability of the oldest GPU that it runs on; see `capability_for`."""
    shared_bytes: Callable[[Config], int] = lambda config: 0
    """Bytes of dynamic shared memory of a block."""
    tensor_maps: Callable[[Config], tuple[TensorBox, TensorBox]] | None = None
    """Boxes of A and B that one load brings, where the source takes tensor maps. Its parameters are then
    `(M, N, K, alpha, A, B, beta, C, ldc)`, the maps being `const __grid_constant__ TensorMap`, blank where k = 0."""
    packs: Literal["", "aligned", "transposed"] = ""
    """How A and B are handed to it, however they lie: with rows that start at multiples of 16 bytes, as tensor maps
    need, and A transposed, k x m, or not. The engine makes such copies by the kernel `pack` before a launch, where the
    operands do not lie so already."""
    overlaps: bool = False
    """Whether its blocks may start while the launch before it on the stream still runs, from compute capability 9.0 on:
    it calls `wait_for_grid_before` before it touches memory."""
    needs_alignment: bool = False
    """Whether it only runs where every row of A and B starts at a multiple of 16 bytes, as tensor maps need."""
    blocks: Callable[[Problem, Config], int] | None = None
    """Blocks in the grid; None: one for each tile of C. There are more where several share the work on one."""
    workspace_bytes: Callable[[Problem, Config], int] | None = None
    """Bytes of memory that the blocks of a launch share, where the source asks for some. It then has two more
    parameters at its end, `float* workspace, unsigned* tickets`: the memory, private to the launch, and a counter for
    each block. The counters are 0 when a launch begins, and it must leave them so. Both are null where it asks for
    0 bytes."""
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

    def check(self, problem: Problem, pointers: tuple[int, int, int] = (0, 0, 0)) -> None:
        """Raise unless the kernel can run a problem with its operands, A, B and C, at these addresses.

        Raises:
            DtypeError: it does not take the element type.
            LaunchError: it needs aligned rows, and those of A or B are not.
        """
        if problem.dtype not in self.dtypes:
            raise DtypeError(f"{self.name} takes {', '.join(self.dtypes)}, got {problem.dtype}")
        if not self.takes_rows(problem, pointers):
            raise LaunchError(
                f"{self.name} needs rows of A and B that start at multiples of {VECTOR_BYTES} bytes, got addresses of "
                f"{pointers[0]:#x} and {pointers[1]:#x}, and {problem.lda} and {problem.ldb} {problem.dtype} a row"
            )

    def takes_rows(self, problem: Problem, pointers: tuple[int, int, int]) -> bool:
        """Whether rows of A and B, which begin at these addresses, lie as the kernel needs them."""
        if not self.needs_alignment or problem.k == 0:
            return True
        item = ITEM_BYTES[problem.dtype]
        a = pointers[0] % VECTOR_BYTES == 0 and (problem.m <= 1 or problem.lda * item % VECTOR_BYTES == 0)
        b = pointers[1] % VECTOR_BYTES == 0 and (problem.k <= 1 or problem.ldb * item % VECTOR_BYTES == 0)
        return a and b

    def check_capability(self, capability: tuple[int, int], dtype: str = "float32") -> None:
        """Raise ConfigError unless the kernel runs on GPUs of a compute capability with this element type."""
        needed = self.capability_for(dtype)
        if capability < needed:
            raise ConfigError(
                f"{self.name} needs a GPU of compute capability {needed[0]}.{needed[1]} or newer for {dtype}, "
                f"got {capability[0]}.{capability[1]}"
            )

    def capability_for(self, dtype: str) -> tuple[int, int]:
        """Compute capability of the oldest GPU that it runs on with this element type."""
        return max(self.least_capability, _BFLOAT16_CAPABILITY) if dtype == "bfloat16" else self.least_capability

    def bundle(self, config: Config) -> int:
        """Blocks that start as one, on the same multiprocessor."""
        return config.get("BUNDLE", 1)

    def launch(self, problem: Problem, config: Config) -> Launch:
        """Geometry of the launch, its blocks numbered along x, each for itself where they come in bundles.

        They are counted in one dimension because a grid has at most 65535 blocks along y.
        """
        return Launch((self.grid(problem, config), 1, 1), self.block(config), self.shared_bytes(config))

    def workspace(self, problem: Problem, config: Config) -> Workspace | None:
        """What a launch needs besides its operands; None where the source has no parameters for it."""
        if self.workspace_bytes is None:
            return None
        size = self.workspace_bytes(problem, config)
        return Workspace(size, self.grid(problem, config) if size else 0)

    def grid(self, problem: Problem, config: Config) -> int:
        """Blocks of a launch: one a tile of C, or as many as `blocks` says."""
        if self.blocks is not None:
            return self.blocks(problem, config)
        tile = self.tile(config)
        return -(-problem.m // tile.m) * -(-problem.n // tile.n)

    def specialize(self, problem: Problem, config: Config, pointers: tuple[int, int, int]) -> Specialization:
        """What the operands of a problem, A, B and C at these addresses, allow the code to leave out."""
        tile = self.tile(config)
        edges = bool(problem.m % tile.m or problem.n % tile.n or problem.k % tile.k)
        if not self.vectorized:
            return Specialization(edges, False, problem.dtype)
        aligned = (pointers[0] | pointers[1] | pointers[2]) % VECTOR_BYTES == 0 and rows_aligned(problem)
        return Specialization(edges, aligned, problem.dtype)

    def defines(self, config: Config, specialization: Specialization) -> dict[str, int]:
        """The macros that the source is compiled with."""
        macros = {**config, "EDGES": int(specialization.edges), "ALIGNED": int(specialization.aligned)}
        if len(self.dtypes) > 1:
            macros[BFLOAT16] = int(specialization.dtype == "bfloat16")
        return macros
