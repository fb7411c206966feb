"""Complex products as real ones: A and D as rows of (re, im) pairs, times B written twice as large.

In floats, D is m x 2n, A m x 2k, and B' 2k x 2n: [[re, im], [-im, re]] for each element of B. The launch that writes B'
conjugates both factors, multiplies by a complex alpha, and transposes a column-major A, which is no view of such rows.
All that follows is a product of float32.
"""

from typing import NamedTuple

from tilewright.core.dtypes import COMPLEX
from tilewright.core.hardware import round_up
from tilewright.core.problem import Layout, Problem
from tilewright.kernels.library import complex_factors, relayout
from tilewright.kernels.split import Split
from tilewright.kernels.support import Addresses, Variant
from tilewright.runtime.arguments import AddressSource
from tilewright.runtime.relayouts import Copy, Job, Jobs, copy_of

_KERNEL = complex_factors.KERNEL
_BOUNDARY = 256
_ELEMENTS = Split(COMPLEX, 1)


class ComplexFactors(NamedTuple):
    """How the factors of a complex product become those of a real one."""

    problem: Problem
    """The complex product: sizes and layouts in complex elements, and the arithmetic of its parts."""
    conjugate_a: bool
    conjugate_b: bool
    complex_alpha: bool
    """Whether alpha is not real, so that B is multiplied by it."""

    @property
    def copies(self) -> tuple[Copy, Copy]:
        """Copies of A, which has no lines where A is used as it is, and of B, one behind the other in memory."""
        p = self.problem
        of_a = copy_of(p, "A", "row", "relayout", 0, _ELEMENTS)
        if p.a.order == "row":
            of_a = of_a._replace(lines=0, matrices=0, scales=0, made=False)
        shift = round_up(of_a.end, _BOUNDARY)
        return of_a, copy_of(p, "B", p.b.order, "relayout", shift, _ELEMENTS, times=2)

    @property
    def real(self) -> Problem:
        """The product of float32 that is left."""
        p, (of_a, of_b) = self.problem, self.copies
        a = _doubled(_layout(of_a, "row") if of_a.made else p.a)
        d, c = _doubled(p.d), _doubled(p.addend)
        b = _doubled(_layout(of_b, p.b.order))
        return Problem(p.m, 2 * p.n, 2 * p.k, p.arithmetic, p.batch, a, b, d, d if c == d else c, p.epilogue)

    def addresses(self, given: Addresses) -> Addresses:
        """Remainders of addresses of the real product's operands, from those of the complex one's."""
        return given._replace(a=given.a if self.problem.a.order == "row" else 0, b=0)

    def before(self, found: Jobs) -> Jobs:
        """Launches of the real product, after the one that writes its factors."""
        if self.problem.k == 0:
            return found
        begin = round_up(found.relayout_bytes, _BOUNDARY)
        copies = [copy._replace(shift=begin + copy.shift) for copy in self.copies]
        made = {copy.name: AddressSource("relayout", copy.shift) for copy in copies if copy.made}
        sources = {f"to_{name.lower()}": source for name, source in made.items()}
        sources |= {f"from_{name.lower()}": AddressSource(name) for name in made}
        if self.complex_alpha:
            sources |= {name: AddressSource(name) for name in ("alpha_re", "alpha_im")}
        flags = self.conjugate_a, self.conjugate_b, self.complex_alpha
        names = ("CONJUGATE_A", "CONJUGATE_B", "COMPLEX_ALPHA")
        config = _KERNEL.config(dict(zip(names, map(int, flags), strict=True)))
        blocks = sum(relayout.squares(config, copy.lines, copy.length, copy.matrices) for copy in copies)
        variant = Variant(edges=True, aligned=False)
        first = Job(_KERNEL, config, self.problem, variant, sources, tuple(copies), blocks)
        jobs = tuple(_moved(job, made) for job in found.jobs)
        return found._replace(jobs=(first, *jobs), relayout_bytes=copies[1].end + begin)


def _layout(copy: Copy, order: str) -> Layout:
    """Layout of a copy, in complex elements."""
    return Layout("row" if order == "row" else "column", copy.ld, copy.matrix if copy.matrices > 1 else 0)


def _doubled(layout: Layout) -> Layout:
    """A layout of pairs, in floats."""
    return Layout(layout.order, 2 * layout.ld, 2 * (layout.batch_stride or 0))


def _moved(job: Job, made: dict[str, AddressSource]) -> Job:
    """A launch that reads factors where they are made, in place of the operands."""
    sources = {name: made.get(source.name, source) for name, source in job.sources.items()}
    return job._replace(sources={**made, **sources})
