"""Complex products as real ones, of which each part of an element is one sum, or two.

A and D are read as rows of (re, im) pairs, and B as [[re, im], [-im, re]] for each of its elements. In floats, D is
m x 2n, A m x 2k, and B' 2k x 2n. Where the kernel for this real product is `split_k`, a form of it ("in place") reads
both factors as they lie, and makes the pairs of B' of registers and signs: one launch, no copies.

For other kernels ("doubled"), and a complex alpha, B' is written by a launch before it. That launch conjugates both
factors, multiplies by a complex alpha, and transposes a column-major A, which is no view of such rows.

Where B is far larger than A and D ("joined"), such a kernel reads B as it lies instead, and A becomes 2m rows: of a
column-major B, as a view of 2k x n, A is written twice as large; of a row-major one, k x 2n, a column-major A is a view
of 2m x k. Their product, two rows for each row of D, is joined by a launch behind it. In place B is read once too.

Where three products will do for four ("three"), both factors are written as matrices of real parts, of imaginary ones
and of their sums, and a batch of three products is joined: (P - Q, R - P - Q) of P = Ar Br, Q = Ai Bi and
R = (Ar + Ai) (Br + Bi). The parts then err relative to the whole element.

All else is a product of float32.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from tilewright.core.dtypes import COMPLEX
from tilewright.core.hardware import round_up
from tilewright.core.problem import Layout, Order, Problem
from tilewright.kernels.config import Config
from tilewright.kernels.kernel import Kernel, valid_configs
from tilewright.kernels.library import complex_factors, complex_join, relayout, split_k
from tilewright.kernels.split import Split
from tilewright.kernels.support import Addresses, Variant
from tilewright.runtime.arguments import AddressSource
from tilewright.runtime.relayouts import Copy, Job, Jobs, copy_of

Way = Literal["in place", "doubled", "joined", "three"]

LEAST_SAVED_BYTES = 2**23
"""Bytes of traffic with memory that are worth a launch which joins."""

_FACTORS, _JOIN, _READER = complex_factors.KERNEL, complex_join.KERNEL, split_k.COMPLEX
_FARTHEST = 2**30 - 2**12
"""Elements from one line of a factor to the next, at most, whose number in floats a `Layout` takes."""
_BOUNDARY = 256
_ELEMENTS = Split(COMPLEX, 1)
_BYTES_OF_PRODUCTS = 0.06
"""Bytes of traffic that take as long as what three products save in place of four, for each m n k: two operations, at
100 TFLOP/s and 3 TB/s."""
_VARIANT = Variant(edges=True, aligned=False)
_SQUARES = _FACTORS.config()


class ComplexFactors(NamedTuple):
    """How the factors of a complex product become those of a real one."""

    problem: Problem
    """The complex product: sizes and layouts in complex elements, and the arithmetic of its parts."""
    conjugate_a: bool
    conjugate_b: bool
    complex_alpha: bool
    """Whether alpha is not real, so that a factor or the products are multiplied by it."""
    may_join: bool
    three: bool = False
    """Whether three products will do for four, where that saves time."""

    way: Way = "in place"
    """How they become those of a real one: see the module."""
    spared_bytes: float = 0
    """Traffic with memory that reading them in place spares, and a launch."""

    @property
    def ways(self) -> list["ComplexFactors"]:
        """These factors in each way that may be the best, the better one first; the last suits any kernel."""
        p, (way, size) = self.problem, self._written()
        written = self._replace(way=way, spared_bytes=0)
        may_be_read = not self.complex_alpha and max(p.a.ld, p.b.ld) <= _FARTHEST and way != "three"
        read = self._replace(way="in place", spared_bytes=size + LEAST_SAVED_BYTES)
        return [read, written] if may_be_read else [written]

    @property
    def spares(self) -> tuple[Kernel, float] | None:
        """In place, the kernel that reads them so, and the bytes that this spares."""
        return (split_k.KERNEL, self.spared_bytes) if self.way == "in place" else None

    def suit(self, kernel: Kernel, config: Config) -> bool:
        """Whether a kernel with this config can compute `real`."""
        return self.way != "in place" or self._reading(kernel, config) is not None

    def _reading(self, kernel: Kernel, config: Config) -> Config | None:
        """The config of `split_k_complex` that reads factors as they lie, for one of `split_k`; None for others."""
        signs = {"CONJUGATE_A": int(self.conjugate_a), "CONJUGATE_B": int(self.conjugate_b)}
        return next(valid_configs(_READER, [{**config, **signs}]), None) if kernel is split_k.KERNEL else None

    def _written(self) -> tuple[Way, int]:
        """The way in which factors are written: B twice as large, or joined where that saves traffic, or three products
        where that saves time. And its traffic in bytes besides that of one launch which reads them in place."""
        p = self.problem
        of_a, of_b = (p.batch if layout.batch_stride else 1 for layout in (p.a, p.b))
        a, b, d = of_a * p.m * p.k, of_b * p.k * p.n, p.batch * p.m * p.n
        by_rows = p.a.order == "row"
        doubling = 32 * b + (0 if by_rows else 16) * a
        joining = (16 if by_rows else 0) * a + 32 * d if p.b.order == "row" else 32 * a + 16 * d
        three = 24 * (a + b + d)
        if not (self.may_join and p.k):
            return "doubled", doubling
        saved = _BYTES_OF_PRODUCTS * d * p.k + doubling - three
        if self.three and of_a == of_b == p.batch and saved > LEAST_SAVED_BYTES:
            return "three", three
        return ("joined", joining) if doubling - joining > LEAST_SAVED_BYTES else ("doubled", doubling)

    @property
    def joins(self) -> bool:
        """Whether a launch behind the product makes the result."""
        return self.way in ("joined", "three")

    @property
    def copies(self) -> tuple[Copy, ...]:
        """The copy of a factor that is transposed, and one that is twice as large, one behind the other in memory; each
        without lines where there is none. For three products, copies of both as three matrices of floats."""
        p, way = self.problem, self.way
        if way == "in place":
            return ()
        if way == "three":
            first = copy_of(p, "A", p.a.order, "relayout", 0, _ELEMENTS, 3, half=True)
            shift = round_up(first.end, _BOUNDARY)
            return first, copy_of(p, "B", p.b.order, "relayout", shift, _ELEMENTS, 3, half=True)
        pairs = way == "joined" and p.b.order == "row"
        view: Order = "column" if pairs else "row"
        doubled, order = ("A", p.a.order) if way == "joined" else ("B", p.b.order)
        first = copy_of(p, "A", view, "relayout", 0, _ELEMENTS)
        if p.a.order == view or (way == "joined" and not pairs):
            first = _none(first)
        second = copy_of(p, doubled, order, "relayout", round_up(first.end, _BOUNDARY), _ELEMENTS, times=2)
        return first, _none(second) if pairs else second

    @property
    def real(self) -> Problem:
        """The product of float32 that is left, or the batch of three for each. In place, factors have its sizes, and
        the leading dimensions and strides of the complex ones, in floats."""
        p, way = self.problem, self.way
        layouts = {"A": p.a, "B": p.b}
        for copy in self.copies:
            if copy.made:
                order: Order = "row" if copy.along_k == (copy.name == "A") else "column"
                stride = copy.lines * copy.ld if way == "three" else copy.matrix if copy.matrices > 1 else 0
                layouts[copy.name] = Layout(order, copy.ld, stride)
        a, b = _doubled(layouts["A"]), _doubled(layouts["B"])
        if not self.joins:
            d, c = _doubled(p.d), _doubled(p.addend)
            return Problem(p.m, 2 * p.n, 2 * p.k, p.arithmetic, p.batch, a, b, d, d if c == d else c, p.epilogue)
        if way == "three":
            return Problem(p.m, p.n, p.k, p.arithmetic, 3 * p.batch, a, b, Layout("row", complex_join.ld(p.n)))
        n, k = (2 * p.n, p.k) if p.b.order == "row" else (p.n, 2 * p.k)
        return Problem(2 * p.m, n, k, p.arithmetic, p.batch, a, b, Layout("row", complex_join.ld(n)))

    def addresses(self, given: Addresses) -> Addresses:
        """Remainders of addresses of the real product's operands, from those of the complex one's."""
        made = {copy.name for copy in self.copies if copy.made}
        a, b, d, c = given
        return Addresses(*(0 if "A" in made else a, 0 if "B" in made else b), *((0, 0) if self.joins else (d, c)))

    def around(self, found: Jobs) -> Jobs:
        """Launches of the real product, between the one that writes its factors and the one that joins products; or
        the one that reads them in place."""
        if self.problem.k == 0:
            return found
        if self.way == "in place":
            (job,) = found.jobs
            config = self._reading(job.kernel, job.config)
            assert config is not None
            return found._replace(jobs=(job._replace(kernel=_READER, config=config),))
        end = round_up(found.relayout_bytes, _BOUNDARY)
        copies = [copy._replace(shift=end + copy.shift) for copy in self.copies]
        end += max(copy.end for copy in copies if copy.made) if any(copy.made for copy in copies) else 0
        moved = {copy.name: AddressSource("relayout", copy.shift) for copy in copies if copy.made}
        before = (self._writing(copies),) if moved else ()
        if not self.joins:
            jobs = tuple(_moved(job, moved) for job in found.jobs)
            return found._replace(jobs=(*before, *jobs), relayout_bytes=end)
        real, products = self.real, AddressSource("relayout", round_up(end, _BOUNDARY))
        moved |= {"D": products, "C": products, "beta": products}
        jobs = tuple(_moved(job, moved) for job in found.jobs)
        end = products.shift + 4 * real.batch * real.m * real.d.ld
        return found._replace(jobs=(*before, *jobs, self._joining(products)), relayout_bytes=end, joins=True)

    def _writing(self, copies: Sequence[Copy]) -> Job:
        """The launch that writes factors."""
        first, second = copies
        sources: dict[str, AddressSource] = {}
        for x, copy in zip("ab", copies, strict=True):
            if copy.made:
                sources |= {f"from_{x}": AddressSource(copy.name), f"to_{x}": AddressSource("relayout", copy.shift)}
        overrides: dict[str, int] = {}
        if second.made:
            own, other = self.conjugate_b, self.conjugate_a
            own, other = (other, own) if second.name == "A" else (own, other)
            overrides = {"CONJUGATE": int(own), "CONJUGATE_OTHER": int(other), "PLANES": int(self.way == "three")}
            overrides |= self._multiplying(sources)
        blocks = sum(relayout.squares(_SQUARES, copy.lines, copy.length, copy.matrices) for copy in copies)
        return Job(_FACTORS, _FACTORS.config(overrides), self.problem, _VARIANT, sources, (first, second), blocks)

    def _joining(self, products: AddressSource) -> Job:
        """The launch that joins products, and computes the epilogue."""
        p, sources = self.problem, {"products": products}
        d, c = _doubled(p.d), _doubled(p.addend)
        result = Problem(p.m, 2 * p.n, 0, batch=p.batch, d=d, c=d if c == d else c, epilogue=p.epilogue)
        overrides = {"PLANES": int(self.way == "three")}
        if self.way == "joined" and p.b.order == "row":
            overrides = {"PAIRS": 1, "CONJUGATE_A": int(self.conjugate_a), "CONJUGATE_B": int(self.conjugate_b)}
            overrides |= self._multiplying(sources)
        return Job(_JOIN, _JOIN.config(overrides), result, _VARIANT, sources)

    def _multiplying(self, sources: dict[str, AddressSource]) -> dict[str, int]:
        """Parameter of a launch that multiplies by a complex alpha, which is added to its sources."""
        if self.complex_alpha:
            sources |= {name: AddressSource(name) for name in ("alpha_re", "alpha_im")}
        return {"COMPLEX_ALPHA": int(self.complex_alpha)}


def _none(copy: Copy) -> Copy:
    """No copy, in the place of this one."""
    return copy._replace(lines=0, matrices=0, scales=0, made=False)


def _doubled(layout: Layout) -> Layout:
    """A layout of pairs, in floats."""
    return Layout(layout.order, 2 * layout.ld, 2 * (layout.batch_stride or 0))


def _moved(job: Job, made: dict[str, AddressSource]) -> Job:
    """A launch that reads factors where they are made, in place of the operands, or writes elsewhere."""
    sources = {name: made.get(source.name, source) for name, source in job.sources.items()}
    return job._replace(sources={**made, **sources})
