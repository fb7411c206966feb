"""The vocabulary of kernels: Kernel, Parameter, Constraints, Config, Variant, Launch."""

import math
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
from tilewright.core.problem import FAST, PRECISIONS, Order, Problem, Scalars
from tilewright.kernels.config import Config
from tilewright.kernels.families import PLAIN, CostFamily
from tilewright.kernels.takes import VECTOR_BYTES, Addresses, Takes, Variant, all_aligned
from tilewright.kernels.tensor_box import TensorBox

RENAMED = {"SLICES": "K_SLICES", "BLOCKS": "MIN_BLOCKS", "PLACES": "A_BUFFERS"}
"""By its former name, a parameter's name now: users' configs, tables, journals and records may have either."""

RUNG_ARGUMENTS = ("M", "N", "K", "alpha", "A_data", "lda", "B_data", "ldb", "beta", "D_data", "ldd")
"""Of the course: `(M, N, K, alpha, A, lda, B, ldb, beta, C, ldc)`, C being updated in place."""

TMA_RUNG_ARGUMENTS = ("M", "N", "K", "alpha", "A_map", "B_map", "beta", "D_data", "ldd")
"""The same with tensor maps for A and B: `const __grid_constant__ TensorMap`, blank where K = 0."""

TMA_STORE_RUNG_ARGUMENTS = (*TMA_RUNG_ARGUMENTS, "D_map")
"""The same with a tensor map for D too, blank where the variant is not aligned."""

LIBRARY_ARGUMENTS = ("sizes", "A", "B", "output", "workspace")
"""Of the library's kernels, as structs of operands.cuh."""

TMA_ARGUMENTS = ("sizes", "A_map", "B_map", "output", "workspace")
"""The same with tensor maps for A and B: `const __grid_constant__ TensorMap`, blank where k = 0."""

_KEPT_BY: dict[str | None, tuple[str | None, ...]] = {
    "ieee": (None,),
    None: (None, "bf16x6"),
    "fp16x3": (None, "bf16x6", "fp16x3"),
    "bf16x3": (None, "bf16x6", "fp16x3", "bf16x3"),
    "tf32": (None, "bf16x6", "fp16x3", "bf16x3", "tf32"),
    FAST: (None, "bf16x6", "fp16x3", "bf16x3", "tf32", FAST),
}
"""By what a product promises, the precisions of the kernels that keep it: each promise is kept by what keeps the one
before."""

TERM_PRECISIONS = frozenset(("bf16x6", "fp16x3", "bf16x3"))
"""The precisions of kernels that multiply terms of float32 factors: those of `Kernel.split`, or made in registers."""

PROMISES = tuple(_KEPT_BY)
"""What problems may promise, from the strictest to the weakest."""

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
    """What one block computes (m x n elements of C) and how far along k it goes in one step."""

    m: int
    n: int
    k: int


SCALED_K = 64
"""How much of k has scales of its own, and how many rows or columns: see `Split`."""


def scale_run(sides: int) -> int:
    """Scales from one `SCALED_K` to the next, of this many rows or columns, as `term_scales.cuh` has them."""
    return (ceil_div(sides, SCALED_K) + 256 // SCALED_K + 3) // 4 * 4


def scale_count(sides: int, k: int) -> int:
    """Scales of a factor of this many rows or columns."""
    return ceil_div(k, SCALED_K) * scale_run(sides)


RANGE_WORDS = 4
"""Of what is seen of one factor's elements: `Range` in term_range.cuh."""

NON_FINITE = 4096
"""How many elements of a factor that are infinite or NaN have room on a list: `NonFinite::MOST`."""

NON_FINITE_WORDS = 3
"""Of each."""

SPLIT_COUNTERS = 2 * RANGE_WORDS + 3
"""Counters of a launch that splits its factors: what it sees of both, and how far its blocks are."""


class Split(NamedTuple):
    """What a kernel wants each of its factors split into: the sum of matrices of narrower elements."""

    dtype: str
    """Their element type."""
    terms: int
    """How many there are."""
    scaled: bool = False
    """Whether elements are scaled before, so that the type's range holds them: by a power of two for each square of
    `SCALED_K` rows of A, or columns of B, and as many k. The second term is scaled once more, by 2^11."""


class Sums(NamedTuple):
    """How a kernel adds up products in tensor cores, from which its error follows (`analysis.accuracy`)."""

    promote: int | None
    """k after which threads add what tensor cores have made to sums of their own; None: after all of it."""
    apart: bool = False
    """Whether products of first terms have sums of their own; else they come after the others in the same ones."""


class Division(NamedTuple):
    """How a launch's tiles are divided among its blocks: all that the source needs of it."""

    whole: int
    """Tiles with a block of their own."""
    workers: int
    """Blocks that share the tiles left over, each with steps along k of its own."""
    share: int
    """Steps of a worker."""
    longer: int
    """How many workers have one step more."""


UNDIVIDED = Division(0, 0, 0, 0)
"""Of kernels whose source does not ask for it."""


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
        """The same launch as the hardware takes it, with bundles of this many blocks for its blocks (`bundle.cuh`)."""
        if count == 1:
            return self
        return Launch((ceil_div(self.grid[0], count), 1, 1), (self.block[0], count, 1), count * self.shared_bytes)


class Origin(NamedTuple):
    """What a kernel is made from that is anybody's: it is made so again in another process."""

    place: str
    """The source file, or its text."""
    entry: str
    words: tuple[tuple[str, str], ...]
    """What replaces words of its lines."""
    defines: tuple[tuple[str, str], ...]
    """Macros, and arguments of its template."""


def numbered(rung: int, name: str) -> str:
    """What headings and legends call a kernel: '10 warptiled'; by its name alone where it is no rung."""
    return f"{rung} {name}" if rung else name


BY_NAME = Path()
"""Stands for the `.cu` of a kernel's name in ladder/ or library/."""


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class Kernel:
    """A rung of the ladder or a kernel of the library: a source, its parameters and constraints, how it is launched."""

    rung: int = 0
    """Its number on the ladder; 0 where it is no rung."""
    name: str
    idea: str
    source: Path = BY_NAME
    """The `.cu` file."""
    parameters: tuple[Parameter, ...]
    tile: Callable[[Config], Tile] = lambda config: Tile(config.BM, config.BN, config.BK)
    """What a block computes, and its step along k."""
    block: Callable[[Config], tuple[int, int, int]]
    brief: str = ""
    """A rung's idea in at most 24 characters, for tables with a line for each."""
    constraints: Constraints = field(default_factory=dict)
    vectorized: bool = True
    """Whether the source moves float4s, so that the operands' alignment matters to it."""
    takes: Takes = Takes()
    """The problems and GPUs that it takes."""
    arguments: tuple[str, ...] = RUNG_ARGUMENTS
    """Its parameters, by the names that runtime/arguments.py lays out."""
    precision: str | None = None
    """What factors are rounded to before they are multiplied, as 'tf32', or what products are made of, as 'bf16x6'.
    None where factors are taken as they come. See `keeps`."""
    rounding_maps: bool = True
    """Whether the copy engine rounds factors to TF32 where the precision is that: by the element type of the maps."""
    shared_bytes: Callable[[Config, str], int] = lambda config, layout: 0
    """Bytes of dynamic shared memory of a block, for factors in these orders, as in 'NT'."""
    constants: Callable[[Config], Mapping[str, int | str]] = lambda config: {}
    """Macros besides the parameters: constants of this kernel that another of the same source has as parameters."""
    tensor_maps: Callable[[Config, str, tuple[int, int]], tuple[TensorBox | None, TensorBox | None]] | None = None
    """Boxes of A and B that one load moves, where the source takes tensor maps; None for one of which it takes none.
    They depend on the orders, as in 'NT', and on the rows of A and columns of B (or `BOX_SIDE` of more).
    """
    stored_box: Callable[[Config, int], TensorBox | None] | None = None
    """Box of D that one store moves, of elements of this many bytes, where the source takes a tensor map of D: in the
    variants that are aligned, which rows of D that end within 16 bytes are not. None where threads store them."""
    relayouts: Callable[[Config], tuple[Order | None, Order | None] | None] = lambda config: None
    """The orders that a config reads A and B in, None for that of memory; their rows (or columns) start at multiples of
    16 bytes. The engine makes copies that are so, by the kernel `relayout`, of operands that are not. None instead of
    the pair: nothing is copied."""
    split: Split | None = None
    """What A and B are split into, by its own launch (`splits`) or before it by the kernel `relayout`; None: it reads
    them as they are."""
    sums: Callable[[Config], Sums] | None = None
    """How tensor cores and threads add up its products; None where it does not say."""
    sum_order: Callable[[Config], str | None] = lambda config: None
    """The order in which a config adds up the products of an element of D along k, as text, where it follows from k,
    the element types and that text alone: configs with the same text, of any kernel, make the same bits of a row,
    whatever m is and the other rows hold, and in every order of A and B. None where it depends on more, as on how many
    tiles there are or on values, or where nothing is promised."""
    cost: CostFamily = PLAIN
    """How its time is predicted."""
    cluster: Callable[[Config], int] = lambda config: 1
    """Blocks of a cluster, 1 to 8, which the source says with `__cluster_dims__`: they run at the same time and reach
    each other's shared memory (`cluster.cuh`). A grid is made of whole clusters."""
    overlaps: bool = False
    """Whether its blocks may start while the launch before it on the stream still runs, from compute capability 9.0 on:
    it calls `wait_for_grid_before` before it touches memory."""
    blocks: Callable[[Problem, Config, int], int] | None = None
    """Blocks in the grid on this many multiprocessors; None: one for each tile of D. There are more where several share
    the work on one."""
    division: Callable[[Problem, Config, int], Division] = lambda problem, config, multiprocessors: UNDIVIDED
    """How the tiles are divided among blocks on this many multiprocessors, where the source asks for it."""
    workspace_bytes: Callable[[Problem, Config, int], int] | None = None
    """Bytes of memory that the blocks of a launch share, on this many multiprocessors, where the source asks for some:
    they are private to the launch. With them comes a counter for each block; the counters are 0 when a launch begins,
    and it must leave them so. Both addresses are null where it asks for 0 bytes."""
    extents: Callable[[Problem, Config], tuple[int, int, int]] | None = None
    """Blocks of the grid along x, y and z where the source counts them so; None: all along x."""
    entry: Callable[[Config], str] | None = None
    """The entry point, with its template arguments if it has some; None: the file's stem."""
    template: tuple[str, ...] = ()
    """Names of the parameters of the source's template, whose arguments `entry` has; they are no macros."""
    untold: Callable[[Config], ConfigError | None] = lambda config: None
    """Why nothing says which tile of D a block computes, where that is so: `tile` is a guess then."""
    origin: Origin | None = None
    """What a kernel of anybody's source was made from; None for ours."""
    exchanged: bool = False
    """Whether what its source calls A is a problem's B, transposed, and the other way round: of a source whose C is
    column-major."""
    presets: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Named configs, as overrides of the defaults: the variants that the sources describe."""
    tuned: Mapping[tuple[int, int], Mapping[str, int]] = field(default_factory=dict)
    """Overrides of the defaults that were measured to be better, by compute capability."""
    portfolio: Sequence[Mapping[str, int]] = ()
    """Configs, as overrides of the defaults, that together are near the fastest on every problem: a survey measures
    them (`tools.tune.survey`), and among them is chosen. Those that the constraints refuse are left out. A kernel of
    the library without any has its default and presets; a rung without any is not chosen."""

    def __post_init__(self) -> None:
        if self.source == BY_NAME:
            own = (Path(__file__).parent / folder / f"{self.name}.cu" for folder in ("ladder", "library"))
            object.__setattr__(self, "source", next(filter(Path.is_file, own)))

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
                and the source's own parameters in capitals (docs/tools.md). Numbers, texts such as "ceil(N/32)", or
                tuples of these.

        Raises:
            KernelNotFoundError: there is no such file or kernel.
            ConfigError: nothing says how the kernel is launched, or what a parameter is; or a word is not understood.
            DtypeError: A, B and C have element types that there are no products of.
        """
        return Kernel.reader(source, entry, defines, **words)

    @cached_property
    def foreign(self) -> bool:
        """Whether its source knows nothing of this package: its macros are its parameters alone."""
        return self.origin is not None

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
        if capability is not None and capability in self.tuned:
            values |= self.tuned[capability]
        for given, value in (overrides or {}).items():
            name = given if given in values else RENAMED.get(given, given)
            if name not in values:
                raise ConfigError(f"{self.name} has no parameter {given!r}{nearest(given, values)}")
            if isinstance(value, bool) or not isinstance(value, numbers.Integral):
                raise ConfigError(f"{self.name}: {name} must be an integer, got {value!r}")
            values[name] = int(value)
        for parameter in self.parameters:
            if values[parameter.name] < parameter.least:
                raise ConfigError(
                    f"{self.name}: {parameter.name} must be at least {parameter.least}, got {values[parameter.name]}"
                )
        config = Config(values)
        if not 1 <= self.cluster(config) <= CLUSTER_LIMIT:
            raise ConfigError(
                f"{self.name}: a cluster must have 1 to {CLUSTER_LIMIT} blocks, got {self.cluster(config)}"
            )
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
        own = self.portfolio or (() if self.rung else ({}, *self.presets.values()))
        tuned = (self.tuned[capability],) if own and capability in self.tuned else ()
        return list(dict.fromkeys(valid_configs(self, (*own, *tuned))))

    @cached_property
    def terms(self) -> int:
        """Matrices that it reads for each factor, right behind each other."""
        return self.split.terms if self.split else 1

    def threads(self, config: Config) -> int:
        """Threads in a block."""
        x, y, z = self.block(config)
        return x * y * z

    @property
    def multiplies_terms(self) -> bool:
        """Whether its products are made of terms of its factors, which no library rounds them to."""
        return self.precision in TERM_PRECISIONS

    @property
    def notices(self) -> bool:
        """Whether its own launch multiplies in float32 where terms cannot hold its factors."""
        return self.multiplies_terms and (self.split is None or self.splits)

    def keeps(self, promise: str | None) -> bool:
        """Whether its products keep a promise: `Arithmetic.precision` of a problem.

        Those of terms do where it notices what the terms cannot hold.
        """
        return self.precision in _KEPT_BY[promise] and (self.notices or not self.multiplies_terms)

    def broken(self, promise: str | None) -> DtypeError:
        """That it does not keep a promise, as an error."""
        makes = "products of" if self.multiplies_terms else "products of factors rounded to"
        if self.precision == FAST:
            makes = "sums that are"
        return DtypeError(f"{self.name} makes {makes} {self.precision}, got precision {promise or PRECISIONS[0]!r}")

    def refusal(self, problem: Problem, addresses: Addresses = Addresses()) -> TilewrightError | None:
        """Why it does not take a problem with operands at these addresses; None where it does.

        Where the problem has no precision, a kernel that is named may have any.
        """
        promise = problem.arithmetic.precision
        if promise is not None and not self.keeps(promise):
            return self.broken(promise)
        return self.takes.refusal(self.name, problem, addresses)

    def check(self, problem: Problem, addresses: Addresses = Addresses()) -> None:
        """Raise the refusal of a problem: DtypeError or ProblemError."""
        if refusal := self.refusal(problem, addresses):
            raise refusal

    def check_order(self, problem: Problem, config: Config) -> None:
        """Raise ProblemError where a problem is batch-invariant and a config makes bits that depend on other rows."""
        if problem.arithmetic.batch_invariant and self.sum_order(config) is None:
            raise ProblemError(
                f"{self.name} with {config} promises no order of sums that is the same for every m, got a problem that "
                "is batch-invariant: name another config or kernel, or none"
            )

    @cached_property
    def splits(self) -> bool:
        """Whether its own launch splits A and B, and multiplies them in float32 where terms cannot hold them."""
        return self.split is not None and "copy_a" in self.arguments

    @cached_property
    def scalars(self) -> frozenset[str]:
        """Those of alpha and beta that it takes: without, they are 1 and 0."""
        return frozenset(name for name in ("alpha", "beta") if name in self.arguments or "output" in self.arguments)

    def check_scalars(self, scalars: Scalars) -> None:
        """Raise ProblemError where it does not take these."""
        for name, without in (("alpha", 1.0), ("beta", 0.0)):
            if name not in self.scalars and (got := getattr(scalars, name)) != without:
                raise ProblemError(f"{self.name} has no {name}, so that it is {without:g}, got {got}")

    def check_capability(self, capability: tuple[int, int], dtype: str = "float32") -> None:
        """Raise ConfigError unless it runs on GPUs of a compute capability with factors of this type."""
        if refusal := self.takes.refusal_of_gpu(self.name, capability, dtype):
            raise refusal

    def runs_on(self, capability: tuple[int, int], dtype: str) -> bool:
        """Whether it runs on GPUs of a compute capability with factors of this type."""
        return self.takes.refusal_of_gpu(self.name, capability, dtype) is None

    def bundle(self, config: Config) -> int:
        """Blocks that start as one, on the same multiprocessor."""
        return config.get("BUNDLE", 1)

    def launch(self, problem: Problem, config: Config, multiprocessors: int, blocks: int | None = None) -> Launch:
        """Geometry of the launch, its blocks numbered along x, each for itself where they come in bundles.

        They are counted in one dimension, but for a source that says otherwise, because a grid has at most 65535 blocks
        along y. blocks: how many, where that does not follow from the problem.

        Raises:
            LaunchError: they are no whole clusters.
        """
        count = self.launched(problem, config, multiprocessors, blocks)
        grid = self.extents(problem, config) if self.extents else (count, 1, 1)
        return Launch(grid, self.block(config), self.shared_bytes(config, problem.layout))

    def entry_point(self, config: Config) -> str:
        """Name of the `__global__` function that is launched."""
        return self.entry(config) if self.entry else self.source.stem

    def launched(self, problem: Problem, config: Config, multiprocessors: int, blocks: int | None) -> int:
        """Blocks of the launch that `launch` describes; its arguments and errors."""
        count = self.grid(problem, config, multiprocessors) if blocks is None else blocks
        cluster = self.cluster(config)
        if count % cluster:
            raise LaunchError(
                f"{self.name}: a grid must be a multiple of the {cluster} blocks of a cluster, got {count}"
            )
        return count

    def workspace(self, problem: Problem, config: Config, multiprocessors: int) -> Workspace:
        """What a launch needs besides its operands."""
        if self.splits:
            return Workspace(0, SPLIT_COUNTERS if problem.k else 0)
        size = self.workspace_bytes(problem, config, multiprocessors) if self.workspace_bytes else 0
        return Workspace(size, self.grid(problem, config, multiprocessors) if size else 0)

    def grid(self, problem: Problem, config: Config, multiprocessors: int) -> int:
        """Blocks of a launch: one a tile of D, or what `blocks` or `extents` says."""
        if self.extents:
            return math.prod(self.extents(problem, config))
        return self.tiles(problem, config) if self.blocks is None else self.blocks(problem, config, multiprocessors)

    def tiles(self, problem: Problem, config: Config) -> int:
        """Tiles of D, of all matrices of a batch."""
        tile = self.tile(config)
        return problem.batch * ceil_div(problem.m, tile.m) * ceil_div(problem.n, tile.n)

    def variant(self, problem: Problem, config: Config, addresses: Addresses = Addresses()) -> Variant:
        """What the operands of a problem, at these addresses, allow the code to leave out."""
        tile = self.tile(config)
        divided = problem.m % tile.m == problem.n % tile.n == problem.k % tile.k == 0 and not problem.grouped
        edges = not self.foreign and not divided
        arithmetic = problem.arithmetic
        result_bytes = ITEM_BYTES[arithmetic.result]
        aligned = self.vectorized and all_aligned(problem, addresses)
        if aligned and self.stored_box and self.stored_box(config, result_bytes):
            aligned = problem.n * result_bytes % VECTOR_BYTES == 0  # or stores would write past the ends of rows
        factors, result, of_b = arithmetic.factors, arithmetic.result, arithmetic.of_b
        return Variant(edges, aligned, factors, result, problem.layout, problem.epilogue, of_b)

    def layout_read(self, config: Config, layout: str) -> str:
        """The orders in which it reads factors that memory has in these, as in 'NT': those of its copies, if any."""
        wanted = self.relayouts(config) or (None, None)
        return "".join("NT"[order == "column"] if order else given for order, given in zip(wanted, layout, strict=True))

    def compiled(self, config: Config) -> dict[str, int]:
        """What the source has as macros, or arguments of its template, of a config."""
        return {one.name: config[one.name] for one in self.parameters if one.compiled}

    def defines(self, config: Config, variant: Variant) -> dict[str, int | str]:
        """The macros that the source is compiled with."""
        macros: dict[str, int | str] = {**self.compiled(config), **self.constants(config)}
        macros = {name: value for name, value in macros.items() if name not in self.template}
        if self.foreign:
            return macros
        macros |= {"EDGES": int(variant.edges), "ALIGNED": int(variant.aligned)}
        if self.arguments in (RUNG_ARGUMENTS, TMA_RUNG_ARGUMENTS, TMA_STORE_RUNG_ARGUMENTS):
            if len(self.takes.factors) > 1:
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
