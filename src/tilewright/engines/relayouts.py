"""Copies of A and B: in the order and with the alignment that a kernel wants (`Kernel.relayouts`), or split."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from tilewright.engines.arguments import COPY_NUMBERS, Source
from tilewright.engines.plan import Kept, Needs, Step
from tilewright.kernels.library import relayout
from tilewright.kernels.spec import RANGE_WORDS, SCALED_K, Config, Kernel, Split, scale_count
from tilewright.kernels.takes import VECTOR_BYTES, Addresses, Variant, lines_aligned
from tilewright.problem import ITEM_BYTES, Arithmetic, Layout, Order, Problem

_KERNEL = relayout.KERNEL
_LINE_BYTES = 128
"""What the L2 cache serves at a time. Lines of terms start there: a line that starts elsewhere is two requests."""
QUAD = 4
"""Elements of a line that are stored together, the last of them past its end where it is no multiple."""
_NAMES = [[f"{name}_{x}" for name in COPY_NUMBERS] for x in "ab"]
"""Of a first copy and a second one, the names that `arguments` has for what `numbers` says of them."""


class Copy(NamedTuple):
    """One matrix, or those of a batch, that a launch copies; strides are in elements."""

    name: str
    """Of the operand."""
    memory: str
    """'relayout', the memory for copies of a launch, or 'kept', that of this copy alone, which outlives the launch."""
    shift: int
    """Where the copy begins in that memory, in bytes: a multiple of 16."""
    split: Split
    """Element type of the copy, and how many terms a matrix becomes: 1 where it is copied as it is."""
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
    """Elements from one line of the copy to the next. Its matrices are right behind each other, as are terms of one."""
    along_k: bool
    """Whether its lines run along k."""
    scales: int
    """Where its scales begin in that memory, in bytes, where it has some: right behind its matrices."""
    made: bool = True
    """Whether the launch makes it; else it is there already."""

    @property
    def dtype(self) -> str:
        """Element type of what is copied: what is split is float32."""
        return "float32" if self.split.terms > 1 else self.split.dtype

    @property
    def matrix(self) -> int:
        """Elements of the copy that one matrix becomes."""
        return self.split.terms * self.lines * self.ld

    @property
    def scale_bytes(self) -> int:
        """Of all its scales."""
        if not self.split.scaled:
            return 0
        sides, k = (self.lines, self.length) if self.along_k else (self.length, self.lines)
        return 4 * self.matrices * scale_count(sides, k)

    @property
    def end(self) -> int:
        """Where the copy ends in that memory, with its scales."""
        return self.scales + self.scale_bytes

    @property
    def seen(self) -> Source:
        """Where what makes it adds what it sees of the elements."""
        if self.memory == "kept":
            return Source("kept", self.end)
        return Source("tickets", 0 if self.name == "A" else 4 * RANGE_WORDS)


class Job(NamedTuple):
    """One kernel to launch."""

    kernel: Kernel
    config: Config
    problem: Problem
    variant: Variant
    sources: dict[str, Source]
    """Where the addresses of its operands come from, where that is not the operand of the same name."""
    copies: tuple[Copy, ...] = ()
    """What the launch copies, and copies that are kept of what it splits otherwise."""
    blocks: int | None = None
    """Of the grid, where they do not follow from the problem: of `relayout`, one for each square that it copies."""


class Jobs(NamedTuple):
    """What is launched for a problem, in order."""

    jobs: tuple[Job, ...]
    relayout_bytes: int
    """Memory that the copies take."""
    relaid: tuple[str, ...]
    """Operands that are copied."""
    keeping: Job | None = None
    """What makes the copy that is kept, of memory that is 0."""


def jobs(kernel: Kernel, config: Config, problem: Problem, addresses: Addresses, kept: str | None = None) -> Jobs:
    """The launches that a problem takes: the kernel's own, and before it that of `relayout`, where the kernel wants
    copies that it does not make itself (`Kernel.splits`).

    Args:
        kernel, config, problem, addresses: as of `Engine.plan`.
        kept: the operand, A or B, whose copy is kept, so that no launch here makes it.

    Raises:
        DtypeError, LaunchError, ProblemError: the kernel does not take the problem.
    """
    kernel.check(problem, addresses)
    wanted = _wanted(kernel, config, problem, addresses)
    if not wanted and kernel.split is None:
        return Jobs((Job(kernel, config, problem, kernel.variant(problem, config, addresses), {}),), 0, ())
    split = kernel.split or Split(problem.dtype, 1)
    p, layouts, ends = problem, {"A": problem.a, "B": problem.b}, {"relayout": 0, "kept": 0}
    copies = []
    for name, order in wanted.items():
        memory = "kept" if name == kept else "relayout"
        copy = _copy(problem, name, order, memory, ends[memory], split)
        layouts[name] = Layout(order, copy.ld, copy.matrix if copy.matrices > 1 else 0)
        copies.append(copy)
        ends[memory] = copy.end
    sources = {copy.name: Source(copy.memory, copy.shift) for copy in copies}
    arithmetic = Arithmetic(split.dtype, problem.result)
    inner = Problem(p.m, p.n, p.k, arithmetic, p.batch, layouts["A"], layouts["B"], p.d, p.c, p.epilogue)
    a, b, d, c = addresses
    after = Addresses(0 if "A" in wanted else a, 0 if "B" in wanted else b, d, c)
    made = [copy for copy in copies if copy.memory == "relayout"]
    keeping = next((copying(problem, [copy]) for copy in copies if copy.memory == "kept"), None)
    of_product: tuple[Copy, ...] = ()
    if kernel.splits:
        of_product = tuple([copy._replace(made=copy.memory == "relayout") for copy in copies])
        for copy in copies:
            sources |= _addresses(copy) | {f"range_{copy.name.lower()}": copy.seen}
    own = Job(kernel, config, inner, kernel.variant(inner, config, after), sources, of_product)
    launches = (copying(problem, made), own) if made and not kernel.splits else (own,)
    return Jobs(launches, ends["relayout"], tuple([copy.name for copy in made]), keeping)


def needs(found: Jobs, multiprocessors: int) -> Needs:
    """Memory that the launches take besides the operands."""
    spaces = [job.kernel.workspace(job.problem, job.config, multiprocessors) for job in found.jobs]
    size, tickets = (max(sizes) for sizes in zip(*spaces, strict=True))
    return Needs(size, tickets, found.relayout_bytes)


def as_read(kernel: Kernel, config: Config, problem: Problem) -> Problem:
    """The problem of a kernel's own launch: with the copies of A and B that it reads, where it asks for some.

    Base addresses are taken for aligned.

    Raises:
        DtypeError, LaunchError, ProblemError: the kernel does not take the problem.
    """
    return jobs(kernel, config, problem, Addresses()).jobs[-1].problem


def copying(problem: Problem, copies: Sequence[Copy]) -> Job:
    """The launch of `relayout` that makes one copy or two of operands of the problem's element type, split alike.

    What it sees of elements that it splits is kept with a copy that is kept.
    """
    first = copies[0]
    second = copies[1] if len(copies) == 2 else first._replace(lines=0, made=False)
    split = first.split
    sources = _addresses(first, "a") | _addresses(second, "b")
    if split.terms > 1 and first.memory == "kept":
        sources |= {"range_a": first.seen, "range_b": second.seen}
    variant = Variant(edges=True, aligned=False, factors=problem.dtype, result=split.dtype)
    config = _config(split.terms, split.scaled)
    blocks = sum(relayout.squares(config, copy.lines, copy.length, copy.matrices) for copy in copies)
    return Job(_KERNEL, config, problem, variant, sources, (first, second), blocks)


def _addresses(copy: Copy, x: str = "") -> dict[str, Source]:
    """Where a copy is made of what, by the names that `arguments` has for it. x: a or b; by default, of its operand."""
    x = x or copy.name.lower()
    found = {f"from_{x}": Source(copy.name), f"to_{x}": Source(copy.memory, copy.shift)}
    if copy.split.scaled:
        found[f"scales_{x}"] = Source(copy.memory, copy.scales)
    return found


@lru_cache
def _config(terms: int, scaled: bool) -> Config:
    """That `relayout` splits by."""
    return _KERNEL.config({"TERMS": terms, "SCALED": 1, "SIDE": SCALED_K} if scaled else {"TERMS": terms})


def numbers(copies: Sequence[Copy]) -> dict[str, int]:
    """What the parameters of a launch say of copies, by the names that `arguments` has for it."""
    found: dict[str, int] = {}
    for names, copy in zip(_NAMES, copies, strict=False):
        sizes = copy.lines, copy.length, copy.matrices if copy.made else 0, copy.across
        strides = copy.ld_from, copy.matrix_stride, copy.ld, copy.along_k
        found.update(zip(names, sizes + strides, strict=True))
    return found


def kept_as(keeping: Job, step: Step) -> Kept:
    """What a plan says of a copy that is kept, by what makes it. It is the same whether the operand is A or B."""
    copy, _ = keeping.copies
    return Kept(copy._replace(name=""), step, copy.end + 4 * RANGE_WORDS)


def _copy(problem: Problem, name: str, order: Order, memory: str, shift: int, split: Split) -> Copy:
    """The copy of an operand in this order, its rows (or columns) as long as keeps the next one aligned."""
    layout, rows, cols = (problem.a, problem.m, problem.k) if name == "A" else (problem.b, problem.k, problem.n)
    lines, length = Layout(order).lines(rows, cols)
    unit = (VECTOR_BYTES if split.terms == 1 else _LINE_BYTES) // ITEM_BYTES[split.dtype]
    ld = max(-(-length // unit), 1) * unit
    matrices = problem.batch if layout.batch_stride else 1
    across = layout.order != order
    along_k = (order == "row") == (name == "A")
    scales = shift + ITEM_BYTES[split.dtype] * matrices * split.terms * lines * ld
    stride = layout.batch_stride or 0
    return Copy(name, memory, shift, split, lines, length, matrices, across, layout.ld, stride, ld, along_k, scales)


def _wanted(kernel: Kernel, config: Config, problem: Problem, addresses: Addresses) -> dict[str, Order]:
    """Operands that must be copied, and the order that the copies are to have."""
    orders = kernel.relayouts(config)
    if orders is None or problem.k == 0:
        return {}
    wanted: dict[str, Order] = {}
    for name, rows, cols, layout, address, order in (
        ("A", problem.m, problem.k, problem.a, addresses.a, orders[0]),
        ("B", problem.k, problem.n, problem.b, addresses.b, orders[1]),
    ):
        fits = kernel.split is None and lines_aligned(layout, rows, cols, problem.dtype, address)
        if order not in (None, layout.order) or not fits:
            wanted[name] = order or layout.order
    return wanted
