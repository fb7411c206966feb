"""Support: the problems and GPUs of a kernel, asked by engines, selector, tuner, bench and command line."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from tilewright.core.dtypes import ITEM_BYTES, RESULTS, default_result
from tilewright.core.errors import ConfigError, DtypeError, ProblemError, TilewrightError
from tilewright.core.gpus import COMPUTE_CAPABILITIES
from tilewright.core.problem import FAST, LAYOUTS, UNSCALED, Arithmetic, Epilogue, Layout, Problem, Scaling

VECTOR_BYTES = 16
"""Width of the widest load a thread makes (float4), and so the alignment that it needs."""

_MET_BY: dict[str | None, tuple[str | None, ...]] = {
    "ieee": (None,),
    None: (None, "bf16x6"),
    "fp16x3": (None, "bf16x6", "fp16x3"),
    "bf16x3": (None, "bf16x6", "fp16x3", "bf16x3"),
    "tf32": (None, "bf16x6", "fp16x3", "bf16x3", "tf32"),
    FAST: (None, "bf16x6", "fp16x3", "bf16x3", "tf32", FAST),
}
"""By the precision that a product asks for, the precisions of the kernels that meet it: each precision is met by what
meets the one before."""

PART_PRECISIONS = frozenset(("bf16x6", "fp16x3", "bf16x3"))
"""The precisions of kernels that multiply parts of float32 factors: those of `Kernel.split`, or made in registers."""

PROMISES = tuple(_MET_BY)
"""Promises that problems may make, from the strictest to the weakest."""

_BFLOAT16_CAPABILITY = (8, 0)  # the first with tensor cores that take it
_PLAIN = Epilogue()


class Addresses(NamedTuple):
    """Base addresses of operands, or what they leave when divided by `VECTOR_BYTES`."""

    a: int = 0
    b: int = 0
    d: int = 0
    c: int = 0


class Variant(NamedTuple):
    """Facts about the operands that are known when a kernel is compiled.

    edges: some tile reaches past the end of A, B or D, so loads and stores are bounds-checked.
    aligned: every row (or column) of A, B, C and D starts at a multiple of 16 bytes, so whole float4s can be moved.
    factors, result: element types of A, and of B where no other is given, and of C and D.
    layout: orders of A and B, as in 'NT'.
    epilogue: bias and activation.
    of_b: element type of B, where it is another.
    """

    edges: bool
    aligned: bool
    factors: str = "float32"
    result: str = "float32"
    layout: str = "NN"
    epilogue: Epilogue = Epilogue()
    of_b: str | None = None


@dataclass(frozen=True)
class Support:
    """The problems that a kernel supports, and the GPUs. Orders and alignment are those before `Kernel.relayouts`.

    factors, results: element types of A and B; of C, D and bias.
    precision: what factors are rounded to before they are multiplied, as 'tf32', or what products are made of, as
        'bf16x6'; None where factors are multiplied as they arrive. `Kernel.meets` says what is promised with it.
    layouts: orders of A and B.
    batches: whether it takes more than one product.
    epilogue: whether it takes a bias and an activation.
    separate_c: whether C may be another array than D; else C is updated in place. Such kernels read neither A nor B
        where alpha = 0.
    vectorized: whether the source moves float4s where operands are aligned, so that it has a variant for these.
    aligned: whether every row of A and B must start at a multiple of 16 bytes.
    aligned_result: whether every row of C and D must too, and be whole pieces of 16 bytes.
    panels: of A, B and D, numbers of elements of which each line must be a multiple.
    gaps: whether rows (or columns) of A, B and C may lie further apart than they are long.
    least_capability: compute capability of the oldest GPU.
    grouped: whether it takes grouped products (`Problem.grouped`), and no others.
    block_scales: whether it takes scales of blocks, and no others; a kernel for float8 without takes the others.
    architectures: the only ones it compiles for, as in 'sm_90a'; empty for all from least_capability on.
    """

    factors: tuple[str, ...] = ("float32",)
    results: tuple[str, ...] = ("float32",)
    precision: str | None = None
    layouts: tuple[str, ...] = ("NN",)
    batches: bool = False
    epilogue: bool = False
    separate_c: bool = False
    vectorized: bool = True
    aligned: bool = False
    aligned_result: bool = False
    panels: tuple[int, int, int] = (1, 1, 1)
    gaps: bool = True
    grouped: bool = False
    block_scales: bool = False
    least_capability: tuple[int, int] = (7, 5)
    architectures: tuple[str, ...] = ()

    @cached_property
    def multiplies_parts(self) -> bool:
        """Whether products are made of parts of the factors, which no library rounds them to."""
        return self.precision in PART_PRECISIONS

    def makes(self, promise: str | None) -> bool:
        """Whether the precision is one that meets a precision: see `Kernel.meets`."""
        return self.precision in _MET_BY[promise]

    def arithmetic(self, factors: str = "") -> Arithmetic:
        """The arithmetic of a problem that gives no more than an element type of A and B, if that.

        The first type that it takes; results in float32, or where it makes none as where no type is named.
        """
        factors = factors or self.factors[0]
        return Arithmetic(factors, "float32" if "float32" in self.results else default_result(factors))

    def scaled(self, problem: Problem) -> Problem:
        """The problem; with scales of blocks where the kernel is for these alone, and the problem has none."""
        if not self.block_scales or problem.scaling != UNSCALED:
            return problem
        return replace(problem, scaling=Scaling.dense("blocks", problem.n, problem.k))

    def why_not(self, name: str, problem: Problem, addresses: Addresses = Addresses()) -> TilewrightError | None:
        """Why the kernel of this name does not multiply a problem with operands at these addresses; None where it does.

        As an error whose text is a sentence for users. On which GPUs it runs, `why_not_on` says.
        """
        arithmetic = problem.arithmetic
        for factor in (arithmetic.factors, arithmetic.of_b or arithmetic.factors):
            if factor not in self.factors:
                return DtypeError(f"{name} takes {', '.join(self.factors)}, got {factor}")
        if arithmetic.result not in self.results:
            return DtypeError(f"{name} makes {', '.join(self.results)}, got out_dtype {arithmetic.result}")
        if problem.grouped != self.grouped:
            kind = "grouped products alone" if self.grouped else "no grouped products"
            return ProblemError(f"{name} takes {kind}, got {problem.shape}, {problem.case}")
        if problem.layout not in self.layouts and problem.k:
            return ProblemError(f"{name} takes layouts {', '.join(self.layouts)} of A and B, got {problem.layout}")
        if problem.batch > 1 and not self.batches:
            return ProblemError(f"{name} computes one product at a time, got a batch of {problem.batch}")
        if not self.epilogue and problem.epilogue != _PLAIN:
            return ProblemError(f"{name} has no bias and no activation, got {problem.epilogue}")
        if (problem.scaling != UNSCALED and problem.scaling.of_blocks) != self.block_scales:
            takes = "is for scales of blocks" if self.block_scales else "takes no scales of blocks"
            return ProblemError(f"{name} {takes}, got {problem.scaling}")
        if self.block_scales and problem.scaling.b is not None and problem.scaling.b.kind in ("line", "1x128"):
            return ProblemError(f"{name} takes scales of B of 128x128 or of all, got {problem.scaling}")
        if self.aligned and not factors_aligned(problem, addresses):
            return ProblemError(
                f"{name} needs rows of A and B that start at multiples of {VECTOR_BYTES} bytes, got addresses of "
                f"{addresses.a:#x} and {addresses.b:#x}, and {problem.a.ld} and {problem.b.ld} {problem.dtype} a row"
            )
        if self.aligned_result and not (
            lines_aligned(problem.d, problem.m, problem.n, problem.result, addresses.d)
            and problem.n * ITEM_BYTES[problem.result] % VECTOR_BYTES == 0
        ):
            return ProblemError(
                f"{name} needs rows of C that start at multiples of {VECTOR_BYTES} bytes and are multiples, got "
                f"an address of {addresses.d:#x}, and {problem.n} of {problem.d.ld} {problem.result} a row"
            )
        if self.panels != (1, 1, 1) and (uneven := _uneven(problem, self.panels)):
            return ProblemError(f"{name} takes {uneven}")
        if not self.gaps and (gaps := _gaps(problem)):
            return ProblemError(f"{name} takes matrices without gaps, got {gaps}")
        return None

    def why_not_on(self, name: str, gpu: tuple[int, int], dtype: str) -> ConfigError | None:
        """Why the kernel of this name does not run on GPUs of a compute capability with factors of this type."""
        if self.runs_on(gpu, dtype):
            return None
        got = f"{gpu[0]}.{gpu[1]}"
        if self.architectures:
            needed = ", ".join(f"{major}.{minor}" for major, minor in self._capabilities)
            architectures = ", ".join(self.architectures)
            return ConfigError(f"{name} runs on GPUs of compute capability {needed} alone ({architectures}), got {got}")
        major, minor = self.capability_for(dtype)
        return ConfigError(f"{name} needs a GPU of compute capability {major}.{minor} or newer for {dtype}, got {got}")

    def runs_on(self, gpu: tuple[int, int], dtype: str) -> bool:
        """Whether the kernel runs on GPUs of a compute capability with factors of this type."""
        return gpu in self._capabilities if self.architectures else gpu >= self.capability_for(dtype)

    @cached_property
    def _capabilities(self) -> list[tuple[int, int]]:
        """Compute capabilities of its architectures."""
        return [of for of, limits in COMPUTE_CAPABILITIES.items() if limits.arch in self.architectures]

    def capability_for(self, dtype: str) -> tuple[int, int]:
        """Compute capability of the oldest GPU that it runs on with factors of this type."""
        return max(self.least_capability, _BFLOAT16_CAPABILITY) if dtype == "bfloat16" else self.least_capability


EVERYTHING = Support(
    results=RESULTS, layouts=LAYOUTS, batches=True, epilogue=True, separate_c=True, least_capability=(8, 0)
)
"""The support of the library's kernels for float32."""


def _gaps(problem: Problem) -> str:
    """The matrix whose rows (or columns) lie further apart than they are long, for messages; '' where none do."""
    for name, layout, (count, length) in _lines(problem):
        if count > 1 and layout.ld != length:
            return f"{name} with {layout.ld} elements from one line to the next, of {length}"
    return ""


def _uneven(problem: Problem, panels: tuple[int, int, int]) -> str:
    """The matrix whose lines these panels do not divide, for messages; '' where they divide all."""
    for panel, (name, _, (_, length)) in zip(panels, _lines(problem), strict=True):
        if length % panel:
            return f"lines of {name} that are multiples of {panel} elements, got {length}"
    return ""


def _lines(problem: Problem) -> Iterator[tuple[str, Layout, tuple[int, int]]]:
    """The matrices of a problem by name, and how many lines of how many elements they have."""
    m, n, k = problem.m, problem.n, problem.k
    for name, layout, rows, cols in (("A", problem.a, m, k), ("B", problem.b, k, n), ("C", problem.d, m, n)):
        yield name, layout, layout.lines(rows, cols)


def lines_aligned(layout: Layout, rows: int, cols: int, dtype: str, address: int) -> bool:
    """Whether every row of a matrix (or column, by its order) starts at a multiple of `VECTOR_BYTES`."""
    return _offsets(layout, rows, cols, ITEM_BYTES[dtype], address) % VECTOR_BYTES == 0


def factors_aligned(problem: Problem, addresses: Addresses = Addresses()) -> bool:
    """Whether every row of A and B (or column, by its order) starts at a multiple of `VECTOR_BYTES`."""
    m, n, k, item = problem.m, problem.n, problem.k, ITEM_BYTES[problem.arithmetic.factors]
    if not k:  # they have no elements
        return True
    offsets = _offsets(problem.a, m, k, item, addresses.a) | _offsets(problem.b, k, n, item, addresses.b)
    return offsets % VECTOR_BYTES == 0


def all_aligned(problem: Problem, addresses: Addresses = Addresses()) -> bool:
    """Whether every row of A, B, C and D (or column, by its order) starts at a multiple of `VECTOR_BYTES`."""
    if not factors_aligned(problem, addresses):
        return False
    m, n, item, c, d = problem.m, problem.n, ITEM_BYTES[problem.arithmetic.result], problem.addend, problem.d
    offsets = _offsets(d, m, n, item, addresses.d | addresses.c)
    return (offsets if c is d else offsets | _offsets(c, m, n, item, 0)) % VECTOR_BYTES == 0


def _offsets(layout: Layout, rows: int, cols: int, item: int, address: int) -> int:
    """The address and all distances in bytes between lines of a matrix and between matrices, joined by `or`: a multiple
    of a power of two where all of them are."""
    order, ld, batch_stride = layout
    count = rows if order == "row" else cols
    return ((ld if count > 1 else 0) | (batch_stride or 0)) * item | address
