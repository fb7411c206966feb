"""Kernel: what is declared of a source, and what follows from it."""

import numbers
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import ClassVar, NamedTuple

from tilewright.core.dtypes import ELEMENT_TYPES, ITEM_BYTES
from tilewright.core.errors import (
    ConfigError,
    DtypeError,
    KernelNotFoundError,
    LaunchError,
    ProblemError,
    TilewrightError,
    nearest,
)
from tilewright.core.gpus import CLUSTER_LIMIT
from tilewright.core.hardware import ceil_div
from tilewright.core.old_words import today
from tilewright.core.problem import FAST, Order, Problem, Scalars
from tilewright.kernels.config import Config
from tilewright.kernels.cost_family import PLAIN, CostFamily
from tilewright.kernels.split import SPLIT_COUNTERS, Split
from tilewright.kernels.support import VECTOR_BYTES, Addresses, Support, Variant, all_aligned
from tilewright.kernels.tensor_box import TensorBox

RUNG_ARGUMENTS = ("M", "N", "K", "alpha", "A_data", "lda", "B_data", "ldb", "beta", "D_data", "ldd")
"""Arguments of the course's kernels: `(M, N, K, alpha, A, lda, B, ldb, beta, C, ldc)`, C being updated in place."""

TMA_RUNG_ARGUMENTS = ("M", "N", "K", "alpha", "A_map", "B_map", "beta", "D_data", "ldd")
"""Arguments with tensor maps for A and B: `const __grid_constant__ TensorMap`, blank where K = 0."""

TMA_STORE_RUNG_ARGUMENTS = (*TMA_RUNG_ARGUMENTS, "D_map")
"""Arguments with a tensor map for D too, blank where the variant is not aligned."""

LIBRARY_ARGUMENTS = ("sizes", "A", "B", "output", "workspace")
"""Arguments of the library's kernels, as structs of operands.cuh."""

TMA_ARGUMENTS = ("sizes", "A_map", "B_map", "output", "workspace")
"""Arguments with tensor maps for A and B instead of structs: blank where k = 0."""

_BIASES = {None: "no_bias", "row": "row_bias", "column": "column_bias"}


def valid_configs(kernel: "Kernel", overrides: Iterable[Mapping[str, int]]) -> Iterator[Config]:
    """The configs of a kernel that some overrides make, without those that it refuses: see `Kernel.config`."""
    for one in overrides:
        try:
            yield kernel.config(one)
        except ConfigError:
            continue


@dataclass(frozen=True)
class Parameter:
    """A number that a kernel is compiled with, or that says which of its operands are copied first."""

    name: str
    default: int
    values: tuple[int, ...]
    """Values worth trying, for a search; others are allowed where the constraints hold."""
    meaning: str
    least: int = 1
    compiled: bool = True
    """Whether the source has it as a macro, or its template as an argument; else it is for `Kernel.relayouts` alone."""


Constraints = Mapping[str, Callable[[Config], bool]]
"""Conditions that a config must meet, by the sentence that a user reads when it does not."""


class Tile(NamedTuple):
    """Work of one block: the m x n elements of C that it computes, and how far along k it goes in one step."""

    m: int
    n: int
    k: int


class Division(NamedTuple):
    """How a launch's tiles are divided among its blocks (stream-K): what the source reads of it."""

    whole: int
    """Tiles with a block of their own."""
    workers: int
    """Blocks that share the tiles left over, each with steps along k of its own."""
    share: int
    """Steps of a worker."""
    longer: int
    """Number of workers that have one step more."""


UNDIVIDED = Division(0, 0, 0, 0)
"""The division of kernels whose source does not ask for one."""


class Schedule(NamedTuple):
    """How the work of a problem is divided among blocks on a GPU."""

    blocks: int
    """Blocks in the grid."""
    workspace_bytes: int = 0
    """Bytes of memory that these blocks share and no other launch uses. With them comes a counter for each block, which
    is 0 when a launch begins, and must be when it ends. Both addresses are null where there are 0 bytes."""
    division: Division = UNDIVIDED
    any_number: bool = False
    """Whether fewer blocks, in whole clusters, do: each computes tile after tile, and all are to run at once."""

    @classmethod
    def of_clusters(cls, tiles: int, cluster: int, multiprocessors: int) -> "Schedule":
        """Clusters of this many blocks, each for tile after tile: as many as there are tiles of a cluster, and at most
        a block a multiprocessor."""
        return cls(min(tiles, max(multiprocessors // cluster, 1)) * cluster, any_number=True)


class Workspace(NamedTuple):
    """Memory that a launch needs besides its operands: bytes for anything, and counters that are 0 before and after."""

    bytes: int
    counters: int


class Launch(NamedTuple):
    """Launch geometry: blocks in the grid, threads in a block, bytes of dynamic shared memory."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int

    def bundled(self, count: int) -> "Launch":
        """This launch as the hardware takes it, with bundles of this many blocks for its blocks (`bundle.cuh`)."""
        if count == 1:
            return self
        return Launch((ceil_div(self.grid[0], count), 1, 1), (self.block[0], count, 1), count * self.shared_bytes)


ALL_OF_K = 2**63 - 1
"""`Sums.promote` of kernels whose tensor cores add up all products."""


class Sums(NamedTuple):
    """How a kernel adds up the products of an element of D along k."""

    order: str | None = None
    """The order as text, where it follows from k, the element types and that text alone: configs with the same text, of
    any kernel, make the same bits of a row, whatever m is and the other rows hold, and in every order of A and B. None
    where it depends on more, as on how many tiles there are or on values, or where nothing is promised."""
    promote: int | None = None
    """k after which threads add what tensor cores have made to sums of their own, from which the error follows
    (`tools/explain/accuracy.py`); None where the kernel does not say."""
    separate: bool = False
    """Whether products of first parts have sums of their own; else they come after the others in the same ones."""


_NO_SUMS = Sums()


def tuned_for(capability: tuple[int, int]) -> str:
    """The name of the preset, if any, that is the default on GPUs of a compute capability, as in 'sm_80'."""
    return f"sm_{capability[0]}{capability[1]}"


def numbered(rung: int, name: str) -> str:
    """The label of a kernel in headings and legends: '10 warptiled'; by its name alone where it is no rung."""
    return f"{rung} {name}" if rung else name


_OWN = tuple(Path(__file__).parent / folder for folder in ("ladder", "library"))
"""Folders of the package's sources."""


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class Kernel:
    """A rung of the ladder or a kernel of the library: a source, and all that is declared of it, in five groups."""

    # Identity: the source and its configs
    name: str
    rung: int = 0
    """Its number on the ladder; 0 where it is no rung."""
    idea: str
    """Sentence about its method; of a rung, at most 24 characters for tables, a colon, and what that means."""
    source: Path = _OWN[0]
    """The `.cu` file: of the package's, that of the kernel's name where there is one."""
    parameters: tuple[Parameter, ...]
    constraints: Constraints = field(default_factory=dict)
    constants: Callable[[Config], Mapping[str, int | str]] = lambda config: {}
    """Macros besides the parameters: constants of this kernel that another of the same source has as parameters."""
    presets: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Named configs, as overrides of the defaults: the variants that the sources describe; and 'sm_80' and the like
    what was measured to be better on GPUs of a compute capability, and is the default there (`tuned_for`)."""

    portfolio: Sequence[Mapping[str, int]] = ()
    """Configs, as overrides of the defaults, that together are near the fastest on every problem: a survey measures
    them (`tools.tune.survey`), and among them is chosen. Those that the constraints refuse are left out. A kernel of
    the library without any has its default and presets; a rung without any is not chosen."""

    # Support
    support: Support = Support()
    """The problems and GPUs that it supports, and with what precision: see `why_not`."""

    # Geometry: functions of a config
    tile: Callable[[Config], Tile] = lambda config: Tile(config.BM, config.BN, config.BK)
    """Rows and columns of D that a block computes, and its step along k."""
    block: Callable[[Config], tuple[int, int, int]]
    """Threads of a block along x, y and z."""
    shared_bytes: Callable[[Config, str], int] = lambda config, layout: 0
    """Bytes of dynamic shared memory of a block, for factors in these orders, as in 'NT'."""
    cluster: Callable[[Config], int] = lambda config: 1
    """Blocks of a cluster, 1 to 8, which the source says with `__cluster_dims__`: they run at the same time and reach
    each other's shared memory (`cluster.cuh`). A grid is made of whole clusters."""
    schedule: Callable[[Problem, Config, int], Schedule] | None = None
    """How the tiles of a problem are divided among blocks on this many multiprocessors; None: a block for each."""
    overlaps: bool = False
    """Whether its blocks may start while the launch before it on the stream still runs, from compute capability 9.0 on:
    it calls `grid_dependency_wait` before it touches memory."""

    # Operands
    arguments: tuple[str, ...] = RUNG_ARGUMENTS
    """Parameters of the source's entry point, by the names that runtime/arguments.py lays out."""
    relayouts: Callable[[Config], tuple[Order | None, Order | None] | None] = lambda config: None
    """The orders that a config reads A and B in, None for that of memory; their rows (or columns) start at multiples of
    16 bytes. The engine makes copies that are so, by the kernel `relayout`, of operands that are not. None instead of
    the pair: nothing is copied."""
    split: Split | None = None
    """Parts that A and B are split into, by its own launch (`splits`) or before it by the kernel `relayout`; None: it
    reads them as they are."""
    swap_ab: Callable[[Config], bool] = lambda config: False
    """Whether what its source calls A is a problem's B, transposed, and the other way round: it computes D^T."""
    tensor_maps: Callable[[Config, str, tuple[int, int]], tuple[TensorBox | None, TensorBox | None]] | None = None
    """Boxes of A and B that one load moves, where the source takes tensor maps; None for one of which it takes none.
    They depend on the orders, as in 'NT', and on the rows of A and columns of B (or `BOX_SIDE` of more).
    """
    stored_box: Callable[[Config, int], TensorBox | None] | None = None
    """Box of D that one store moves, of elements of this many bytes, where the source takes a tensor map of D: in the
    variants that are aligned, which rows of D that end within 16 bytes are not. None where threads store them."""

    # Cost
    cost: CostFamily = PLAIN
    """How its time is predicted."""
    sums: Callable[[Config], Sums] = lambda config: _NO_SUMS
    """How products are added up: which configs make the same bits, and how much they err."""

    @property
    def brief(self) -> str:
        """A rung's idea in at most 24 characters, for tables with a line for each."""
        return self.idea.partition(":")[0]

    def __post_init__(self) -> None:
        if self.source in _OWN or self.source.parent in _OWN:
            named = (folder / f"{self.name}.cu" for folder in _OWN)
            object.__setattr__(self, "source", next(filter(Path.is_file, named), self.source))

    reader: ClassVar[Callable[..., "Kernel"]]
    """Reads sources, see `from_source`: `kernels.source`, which stands above, says how."""

    @staticmethod
    def from_source(
        source: "str | Path",
        entry: str = "",
        defines: "Mapping[str, str | int] | None" = None,
        **words: "str | int | tuple[str | int, ...]",
    ) -> "Kernel":
        """A matrix product from CUDA C++, for `matmul(kernel=...)` and `plan(kernel=...)`.

            Kernel.from_source("my_gemm.cu")
            Kernel.from_source(text, block=("TILE", "TILE"), grid=("ceil(N/TILE)", "ceil(M/TILE)"), TILE=16)

        Args:
            source: a file's path, which ends in .cu; or the text, which has a `__global__` function.
            entry: which of its kernels, where there are several; of a template, with its arguments.
            defines: macros of the source, or arguments of its template, by name, as in {"TS": 16, "T": "half"}.
            words: what a `// tilewright:` line says, whose words they replace: block, grid, shared, args, layout, tile,
                and the source's own parameters in capitals (docs/tools/own-kernels.md). Numbers, texts such as
                "ceil(N/32)", or tuples of these.

        Raises:
            KernelNotFoundError: there is no such file or kernel.
            ConfigError: nothing says how the kernel is launched, or what a parameter is; or a word is not understood.
            DtypeError: A, B and C have element types that there are no products of.
        """
        return Kernel.reader(source, entry, defines, **words)

    is_user_kernel: ClassVar[bool] = False
    """Whether its source knows nothing of this package: its macros are its parameters alone."""

    def __repr__(self) -> str:
        return f"<Kernel {numbered(self.rung, self.name)}>"

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
        if capability is not None:
            values |= self.presets.get(tuned_for(capability), {})
        for given, value in (overrides or {}).items():
            name = today(given, values)
            if name not in values:
                raise ConfigError(f"{self.name} has no parameter {given!r}{nearest(given, values)}")
            if isinstance(value, bool) or not isinstance(value, numbers.Integral):
                raise ConfigError(f"{self.name}: {name} must be an integer, got {value!r}")
            values[name] = int(value)
        for parameter in self.parameters:
            if (got := values[parameter.name]) < parameter.least:
                raise ConfigError(f"{self.name}: {parameter.name} must be at least {parameter.least}, got {got}")
        config = Config(values)
        if not 1 <= (blocks := self.cluster(config)) <= CLUSTER_LIMIT:
            raise ConfigError(f"{self.name}: a cluster must have 1 to {CLUSTER_LIMIT} blocks, got {blocks}")
        broken = [sentence for sentence, holds in self.constraints.items() if not holds(config)]
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

    def candidates(self, capability: tuple[int, int]) -> list[Config]:
        """The configs among which is chosen on GPUs of a compute capability."""
        usual = (preset for name, preset in self.presets.items() if not name.startswith("sm_"))
        own = self.portfolio or (() if self.rung else ({}, *usual))
        tuned = self.presets.get(tuned_for(capability))
        return list(dict.fromkeys(valid_configs(self, (*own, *([tuned] if own and tuned else ())))))

    @cached_property
    def parts(self) -> int:
        """Matrices that it reads for each factor, right behind each other."""
        return self.split.parts if self.split else 1

    def threads(self, config: Config) -> int:
        """Threads in a block."""
        x, y, z = self.block(config)
        return x * y * z

    @cached_property
    def splits(self) -> bool:
        """Whether its own launch splits A and B, and multiplies them in float32 where parts cannot represent them."""
        return self.split is not None and "copy_a" in self.arguments

    @cached_property
    def has_fallback(self) -> bool:
        """Whether its own launch multiplies in float32 where parts cannot represent its factors."""
        return self.support.multiplies_parts and (self.split is None or self.splits)

    def meets(self, promise: str | None) -> bool:
        """Whether its products meet a precision: `Arithmetic.precision` of a problem.

        Those of parts do where it detects what the parts cannot represent.
        """
        return self.support.makes(promise) and (self.has_fallback or not self.support.multiplies_parts)

    def why_not(
        self, problem: Problem, gpu: tuple[int, int] | None = None, addresses: Addresses = Addresses()
    ) -> TilewrightError | None:
        """Why it does not multiply a problem, as an error whose text is a sentence for users; None where it does.

        Where the problem promises no precision, a kernel that is named may have any.

        Args:
            problem: what is to be computed.
            gpu: the compute capability where it is to run; None: anywhere.
            addresses: of the operands.
        """
        promise = problem.arithmetic.precision
        if promise is not None and not self.meets(promise):
            makes = "products of" if self.support.multiplies_parts else "products of factors rounded to"
            if self.support.precision == FAST:
                makes = "sums that are"
            return DtypeError(f"{self.name} makes {makes} {self.support.precision}, got precision {promise!r}")
        if gpu is not None and not self.support.runs_on(gpu, problem.dtype):
            return self.support.why_not_on(self.name, gpu, problem.dtype)
        return self.support.why_not(self.name, problem, addresses)

    def check(self, problem: Problem, gpu: tuple[int, int] | None = None, addresses: Addresses = Addresses()) -> None:
        """Raise the answer of `why_not`: ConfigError, DtypeError or ProblemError."""
        if error := self.why_not(problem, gpu, addresses):
            raise error

    def check_order(self, problem: Problem, config: Config) -> None:
        """Raise ProblemError where a problem is batch-invariant and a config makes bits that depend on other rows."""
        if problem.arithmetic.batch_invariant and self.sums(config).order is None:
            raise ProblemError(
                f"{self.name} with {config} promises no order of sums that is the same for every m, got a problem that "
                "is batch-invariant: name another config or kernel, or none"
            )

    @cached_property
    def scalars(self) -> frozenset[str]:
        """Alpha and beta, where it takes them: without, they are 1 and 0."""
        return frozenset(name for name in ("alpha", "beta") if name in self.arguments or "output" in self.arguments)

    def check_scalars(self, scalars: Scalars) -> None:
        """Raise ProblemError where it does not take these."""
        for name, without in (("alpha", 1.0), ("beta", 0.0)):
            if name not in self.scalars and (got := getattr(scalars, name)) != without:
                raise ProblemError(f"{self.name} has no {name}, so that it is {without:g}, got {got}")

    def bundle(self, config: Config) -> int:
        """Blocks that start as one, on the same multiprocessor."""
        return config.get("BUNDLE", 1)

    def launch(self, problem: Problem, config: Config, multiprocessors: int, blocks: int | None = None) -> Launch:
        """Geometry of the launch, its blocks numbered along x, each for itself where they come in bundles.

        They are counted in one dimension, because a grid has at most 65535 blocks along y. blocks: how many, where that
        does not follow from the problem.

        Raises:
            LaunchError: they are no whole clusters.
        """
        count = self.launched(problem, config, multiprocessors, blocks)
        return Launch((count, 1, 1), self.block(config), self.shared_bytes(config, problem.layout))

    def entry_point(self, config: Config, /) -> str:
        """Name of the `__global__` function that is launched."""
        return self.source.stem

    def launched(self, problem: Problem, config: Config, multiprocessors: int, blocks: int | None) -> int:
        """Blocks of the launch that `launch` describes; its arguments and errors."""
        count = self.grid(problem, config, multiprocessors) if blocks is None else blocks
        cluster = self.cluster(config)
        if count % cluster:
            raise LaunchError(
                f"{self.name}: a grid must be a multiple of the {cluster} blocks of a cluster, got {count}"
            )
        return count

    @cached_property
    def has_workspace(self) -> bool:
        """Whether its blocks share memory of the launch, for some problems."""
        return self.schedule is not None and bool({"workspace", "sums"} & set(self.arguments))

    def scheduled(self, problem: Problem, config: Config, multiprocessors: int) -> Schedule:
        """How a launch's work is divided among blocks: a block for each tile of D, or what `schedule` says."""
        if self.schedule is None:
            return Schedule(self.tiles(problem, config))
        return self.schedule(problem, config, multiprocessors)

    def workspace(self, problem: Problem, config: Config, multiprocessors: int) -> Workspace:
        """Memory that a launch needs besides its operands."""
        if self.splits:
            return Workspace(0, SPLIT_COUNTERS if problem.k else 0)
        if not self.has_workspace:
            return Workspace(0, 0)
        blocks, size, *_ = self.scheduled(problem, config, multiprocessors)
        return Workspace(size, blocks if size else 0)

    def grid(self, problem: Problem, config: Config, multiprocessors: int) -> int:
        """Blocks of a launch."""
        return self.scheduled(problem, config, multiprocessors).blocks

    def tiles(self, problem: Problem, config: Config) -> int:
        """Tiles of D, of all matrices of a batch."""
        tile = self.tile(config)
        return problem.batch * ceil_div(problem.m, tile.m) * ceil_div(problem.n, tile.n)

    def variant(self, problem: Problem, config: Config, addresses: Addresses = Addresses()) -> Variant:
        """The variant of the code for the operands of a problem, at these addresses."""
        tile = self.tile(config)
        divided = problem.m % tile.m == problem.n % tile.n == problem.k % tile.k == 0 and not problem.grouped
        arithmetic = problem.arithmetic
        result_bytes = ITEM_BYTES[arithmetic.result]
        aligned = self.support.vectorized and all_aligned(problem, addresses)
        if aligned and self.stored_box and self.stored_box(config, result_bytes):
            aligned = problem.n * result_bytes % VECTOR_BYTES == 0  # or stores would write past the ends of rows
        edges = self.has_variants and not divided
        factors, result, of_b = arithmetic.factors, arithmetic.result, arithmetic.of_b
        return Variant(edges, aligned, factors, result, problem.layout, problem.epilogue, of_b)

    @property
    def has_variants(self) -> bool:
        """Whether the source is compiled for facts about the operands, which `variant` gives."""
        return True

    @cached_property
    def maps_round(self) -> bool:
        """Whether the copy engine rounds factors to TF32 as it loads them, by the element type of the maps."""
        return self.support.precision == "tf32"

    def unknown_tile(self, config: Config, /) -> ConfigError | None:
        """Why nothing says which tile of D a block computes, where that is so: `tile` is a guess then."""
        return None

    def layout_read(self, config: Config, layout: str) -> str:
        """The orders in which it reads factors that memory has in these, as in 'NT': those of its copies, if any."""
        wanted = self.relayouts(config) or (None, None)
        return "".join("NT"[order == "column"] if order else given for order, given in zip(wanted, layout, strict=True))

    def compiled(self, config: Config) -> dict[str, int]:
        """Parameters of a config that the source has as macros, or as arguments of its template."""
        return {one.name: config[one.name] for one in self.parameters if one.compiled}

    def defines(self, config: Config, variant: Variant) -> dict[str, int | str]:
        """The macros that the source is compiled with."""
        macros: dict[str, int | str] = {**self.compiled(config), **self.constants(config)}
        macros |= {"EDGES": int(variant.edges), "ALIGNED": int(variant.aligned)}
        if self.arguments in (RUNG_ARGUMENTS, TMA_RUNG_ARGUMENTS, TMA_STORE_RUNG_ARGUMENTS):
            if len(self.support.factors) > 1:
                macros["BFLOAT16"] = int(variant.factors == "bfloat16")
            return macros
        macros |= {f"TRANSPOSED_{name}": int(order == "T") for name, order in zip("AB", variant.layout, strict=True)}
        macros |= {"FACTOR": ELEMENT_TYPES[variant.factors].cpp, "RESULT": ELEMENT_TYPES[variant.result].cpp}
        macros["FACTOR_B"] = ELEMENT_TYPES[variant.of_b or variant.factors].cpp
        macros["BIAS"] = _BIASES[variant.epilogue.bias]
        macros["ACTIVATION"] = variant.epilogue.activation or "identity"
        return macros


class Choice(NamedTuple):
    """A kernel and the config to run it with."""

    kernel: Kernel
    config: Config
