"""Copies of A and B: in the order and with the alignment that a kernel wants (`Kernel.relayouts`), or split.

Lines of both copies start at multiples of 16 bytes. Where an operand is not as its kernel wants it, a plan has a first
step, the kernel `relayout`, which copies one operand or both in one launch. Kernels of parts split them themselves
(`Kernel.splits`).
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from tilewright.core.dtypes import ITEM_BYTES
from tilewright.core.hardware import round_up
from tilewright.core.problem import UNSCALED, Arithmetic, Layout, Order, Problem
from tilewright.kernels.config import Config
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.library import relayout
from tilewright.kernels.split import NON_FINITE, NON_FINITE_WORDS, RANGE_WORDS, SCALED_K, Split, scale_count
from tilewright.kernels.support import VECTOR_BYTES, Addresses, Variant, lines_aligned
from tilewright.runtime.arguments import AddressSource, CopyNumbers
from tilewright.runtime.plan import CachedOperand, Needs, Step

_KERNEL = relayout.KERNEL
_LINE_BYTES = 128
"""Bytes that the L2 cache serves at a time. Lines of parts start there: others would be two requests."""


def together(dtype: str) -> int:
    """Elements of a line that are stored together, the last of them past its end where it is no multiple."""
    return {1: VECTOR_BYTES, 8: 2}.get(ITEM_BYTES[dtype], 4)


_ADDRESSES = {x: [f"{name}_{x}" for name in ("from", "to", "scales", "range", "non_finite")] for x in "ab"}
"""The names that `arguments` has for addresses of a copy, by a or b."""
_OPERANDS = {"A": AddressSource("A"), "B": AddressSource("B")}
_SCALES = ("scale_a", "scale_b")
"""The names that `arguments` has for addresses of their scales."""
_SEEN = {"A": AddressSource("counters"), "B": AddressSource("counters", 4 * RANGE_WORDS)}
"""Where launches add what they see of the elements that they split."""


class Copy(NamedTuple):
    """One matrix, or those of a batch, that a launch copies; strides are in elements."""

    name: str
    """Name of the operand."""
    memory: str
    """'relayout', the memory for copies of a launch, or 'cached', that of this copy alone, which outlives the
    launch."""
    shift: int
    """Where the copy begins in that memory, in bytes: a multiple of 16."""
    split: Split
    """Element type of the copy, and how many parts a matrix becomes: 1 where it is copied as it is."""
    lines: int
    """Rows of the copy, or columns where those are its lines of neighbours."""
    length: int
    matrices: int
    across: bool
    """Whether lines in memory run across those of the copy, so that it is transposed."""
    ld_from: int
    """Elements from one line in memory to the next."""
    matrix_stride: int
    ld: int
    """Elements from one line of the copy to the next. Its matrices are right behind each other, as are parts of one."""
    along_k: bool
    """Whether its lines run along k."""
    scales: int
    """Where its scales begin in that memory, in bytes, where it has some: right behind its matrices."""
    made: bool = True
    """Whether the launch makes it; else it is there already."""
    times: int = 1
    """Lines that it has for each of `lines`: 2 or 3 of complex elements."""

    @property
    def dtype(self) -> str:
        """Element type of what is copied: what is split is float32."""
        return "float32" if self.split.parts > 1 else self.split.dtype

    @property
    def matrix(self) -> int:
        """Elements of the copy that one matrix becomes."""
        return self.split.parts * self.times * self.lines * self.ld

    @property
    def scale_bytes(self) -> int:
        """Bytes of all its scales."""
        if not self.split.scaled:
            return 0
        sides, k = (self.lines, self.length) if self.along_k else (self.length, self.lines)
        return 4 * self.matrices * scale_count(sides, k)

    @property
    def non_finite(self) -> int:
        """Where the list of elements that are not finite begins in that memory, in bytes."""
        return self.scales + self.scale_bytes

    @property
    def end(self) -> int:
        """Where the copy ends in that memory, with its scales, and where it is split, its list."""
        lists = 4 * NON_FINITE * NON_FINITE_WORDS if self.split.parts > 1 else 0
        return self.scales + self.scale_bytes + lists

    @property
    def seen(self) -> AddressSource:
        """Where what makes it adds what it sees of the elements."""
        if self.memory == "cached":
            return AddressSource("cached", self.end)
        return _SEEN[self.name]


class Job(NamedTuple):
    """One kernel to launch."""

    kernel: Kernel
    config: Config
    problem: Problem
    variant: Variant
    sources: dict[str, AddressSource]
    """Where the addresses of its operands come from, where that is not the operand of the same name."""
    copies: tuple[Copy, ...] = ()
    """Copies that the launch makes, and cached copies of operands that it would otherwise split."""
    blocks: int | None = None
    """Blocks of the grid, where they do not follow from the problem: `relayout` has one for each square that it
    copies."""


class Jobs(NamedTuple):
    """Launches for a problem, in order."""

    jobs: tuple[Job, ...]
    relayout_bytes: int
    """Memory that the copies take."""
    relaid: tuple[str, ...]
    """Operands that are copied."""
    keeping: Job | None = None
    """Job that makes the copy that is cached, from memory that is 0."""
    joins: bool = False
    """Whether the last one joins the products of the one before to complex ones."""


def jobs(kernel: Kernel, config: Config, problem: Problem, addresses: Addresses, cached: str | None = None) -> Jobs:
    """The launches that a problem takes: the kernel's own, and before it that of `relayout`, where the kernel wants
    copies that it does not make itself (`Kernel.splits`).

    Args:
        kernel, config, problem, addresses: as of `Engine.plan`.
        cached: the operand, A or B, whose copy is cached, so that no launch here makes it.

    Raises:
        DtypeError, LaunchError, ProblemError: the kernel does not take the problem.
    """
    kernel.check(problem, addresses=addresses)
    kernel.check_order(problem, config)
    wanted = _wanted(kernel, config, problem, addresses)
    sources: dict[str, AddressSource] = {}
    if problem.scaling != UNSCALED:
        sources |= {name: AddressSource(name) for name, scale in zip(_SCALES, problem.scaling, strict=True) if scale}
    if not wanted and kernel.split is None:
        return Jobs((Job(kernel, config, problem, kernel.variant(problem, config, addresses), sources),), 0, ())
    types = {"A": problem.dtype, "B": problem.dtype_b}
    layouts = {"A": problem.a, "B": problem.b}
    made: list[Copy] = []
    remaining: list[Copy] = []
    end = 0
    for name, order in wanted.items():
        memory, shift = ("cached", 0) if name == cached else ("relayout", end)
        copy = copy_of(problem, name, order, memory, shift, kernel.split or _whole(types[name]))
        layouts[name] = Layout(order, copy.ld, copy.matrix if copy.matrices > 1 else 0)
        sources[name] = AddressSource(memory, shift)
        if name == cached:
            remaining.append(copy)
        else:
            made.append(copy)
            end = copy.end
    of = problem.arithmetic
    if kernel.split:
        arithmetic = _arithmetic(kernel.split.dtype, of.result)
    else:
        arithmetic = _arithmetic(of.factors, of.result, of_b=of.of_b)
    inner = problem.of_factors(arithmetic, layouts["A"], layouts["B"])
    a, b, d, c = addresses
    after = Addresses(0 if "A" in wanted else a, 0 if "B" in wanted else b, d, c)
    keeping = copying(problem, remaining) if remaining else None
    of_product: tuple[Copy, ...] = ()
    if kernel.splits:
        of_product = (*made, *[copy._replace(made=False) for copy in remaining])
        if cached == "A":
            of_product = of_product[::-1]
        for copy in of_product:
            _add_addresses(sources, copy, copy.name.lower(), looks=True)
    own = Job(kernel, config, inner, kernel.variant(inner, config, after), sources, of_product)
    launches = (copying(problem, made), own) if made and not kernel.splits else (own,)
    return Jobs(launches, end, tuple([copy.name for copy in made]), keeping)


def needs(found: Jobs, multiprocessors: int) -> Needs:
    """Memory that the launches take besides the operands: `relayout`, which comes first, takes none."""
    own = found.jobs[-1 - found.joins]
    size, counters = own.kernel.workspace(own.problem, own.config, multiprocessors)
    return Needs(size, counters, found.relayout_bytes)


def as_read(kernel: Kernel, config: Config, problem: Problem) -> Problem:
    """The problem of a kernel's own launch: with the copies of A and B that it reads, where it asks for some.

    Base addresses are taken for aligned.

    Raises:
        DtypeError, LaunchError, ProblemError: the kernel does not take the problem.
    """
    return jobs(kernel, config, problem, Addresses()).jobs[-1].problem


def copying(problem: Problem, copies: Sequence[Copy]) -> Job:
    """The launch of `relayout` that makes one copy or two of operands of the problem's element type, split alike.

    What it sees of elements that it splits is kept with a cached copy.
    """
    first = copies[0]
    second = copies[1] if len(copies) == 2 else first._replace(lines=0, made=False)
    split = first.split
    sources: dict[str, AddressSource] = {}
    for x, copy in (("a", first), ("b", second)):
        _add_addresses(sources, copy, x, looks=split.parts > 1 and first.memory == "cached")
    factors = first.dtype
    result = split.dtype if split.parts > 1 else factors
    variant = Variant(edges=True, aligned=False, factors=factors, result=result)
    config = _config(split.parts, split.scaled, ITEM_BYTES[factors])
    blocks = sum(relayout.squares(config, copy.lines, copy.length, copy.matrices) for copy in copies)
    return Job(_KERNEL, config, problem, variant, sources, (first, second), blocks)


def _add_addresses(sources: dict[str, AddressSource], copy: Copy, x: str, looks: bool) -> None:
    """Add where a copy is made of what, by the names that `arguments` has for it. x: a or b; looks: whether what splits
    its elements keeps what it sees of them, and a list of those that are not finite."""
    made_of, made_at, scales, seen, non_finite = _ADDRESSES[x]
    sources[made_of] = _OPERANDS[copy.name]
    sources[made_at] = sources.get(copy.name) or AddressSource(copy.memory, copy.shift)
    if copy.split.scaled:
        sources[scales] = AddressSource(copy.memory, copy.scales)
    if looks:
        sources[seen] = copy.seen
        sources[non_finite] = AddressSource(copy.memory, copy.non_finite)


@lru_cache
def _whole(dtype: str) -> Split:
    """Split of an operand that is copied as it is."""
    return Split(dtype, 1)


_arithmetic = lru_cache(Arithmetic)


@lru_cache
def _config(parts: int, scaled: bool, item_bytes: int) -> Config:
    """Config with which `relayout` splits, or copies elements of this size."""
    if scaled:
        return _KERNEL.config({"SPLIT_PARTS": parts, "SCALED": 1, "SIDE": SCALED_K})
    return _KERNEL.config({"SPLIT_PARTS": parts, "SIDE": 128} if item_bytes == 1 else {"SPLIT_PARTS": parts})


def numbers(copies: Sequence[Copy]) -> list[CopyNumbers]:
    """Numbers of copies, as the parameters of a launch have them."""
    return [
        (c.matrix_stride, c.lines, c.length, c.matrices if c.made else 0, c.across, c.ld_from, c.ld, c.along_k)
        for c in copies
    ]


def cached_operand_of(keeping: Job, step: Step) -> CachedOperand:
    """Cached copy of a plan, from the job that makes it. It is equal whether the operand is A or B."""
    copy, _ = keeping.copies
    return CachedOperand(copy._replace(name=""), step, copy.end + 4 * RANGE_WORDS)


def copy_of(
    problem: Problem, name: str, order: Order, memory: str, shift: int, split: Split, times: int = 1, half: bool = False
) -> Copy:
    """The copy of an operand in this order, its rows (or columns) as long as keeps the next one aligned.

    half: whether a line takes half the bytes.
    """
    layout, rows, cols = (problem.a, problem.m, problem.k) if name == "A" else (problem.b, problem.k, problem.n)
    lines, length = Layout(order).lines(rows, cols)
    unit = (VECTOR_BYTES if split.parts == 1 else _LINE_BYTES) // ITEM_BYTES[split.dtype]
    ld = round_up(max((length + 1) // 2 if half else length, 1), unit)
    matrices = problem.batch if layout.batch_stride else 1
    across = layout.order != order
    along_k = (order == "row") == (name == "A")
    scales = shift + ITEM_BYTES[split.dtype] * matrices * split.parts * times * lines * ld
    lies = lines, length, matrices, across, layout.ld, layout.batch_stride or 0, ld, along_k
    return Copy(name, memory, shift, split, *lies, scales, times=times)


def _wanted(kernel: Kernel, config: Config, problem: Problem, addresses: Addresses) -> dict[str, Order]:
    """Operands that must be copied, and the order that the copies are to have."""
    orders = kernel.relayouts(config)
    if orders is None or problem.k == 0:
        return {}
    if kernel.split is not None:
        return {"A": orders[0] or problem.a.order, "B": orders[1] or problem.b.order}
    wanted: dict[str, Order] = {}
    for name, rows, cols, layout, address, order in (
        ("A", problem.m, problem.k, problem.a, addresses.a, orders[0]),
        ("B", problem.k, problem.n, problem.b, addresses.b, orders[1]),
    ):  # both have elements of one size
        if order not in (None, layout.order) or not lines_aligned(layout, rows, cols, problem.dtype, address):
            wanted[name] = order or layout.order
    return wanted
