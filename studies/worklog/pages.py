"""Makes the worklog's pages, and the figures in them, from words, records and counts.

The words of a page are in docs/worklog/text; see template.py for their slots. What a page has besides its words, title
and way to the neighbouring pages, is added here.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache, partial
from pathlib import Path

from studies import published
from studies.occupancy import tables as occupancy
from studies.profiles import tables as profile_tables
from studies.profiles.figures import stalls
from studies.profiles.measuring import problem_of
from studies.record import Measurements
from studies.results import course_gpu, path
from studies.templates import block
from studies.worklog import (
    alone,
    casts,
    cublas_kernels,
    hopper,
    listing,
    machine,
    pictures,
    sources,
    triton_ptx,
    variations,
)
from studies.worklog.counted import accesses_of_rungs, accesses_of_toys
from studies.worklog.errors import WAYS_OF, Errors
from studies.worklog.facts import Facts, shape_of
from studies.worklog.parts import in_parts
from studies.worklog.quantisation import quantisation
from studies.worklog.rungs import FOLDER, TEXTS, page_name, with_page
from studies.worklog.template import Fill, excerpt, fill
from tilewright.core.problem import Problem
from tilewright.emulator.trace import trace
from tilewright.kernels.kernel import Kernel
from tilewright.tools.bench.records import Run
from tilewright.tools.machine.record import Machine
from tilewright.tools.report.figures.kernel_figure import KernelFigure
from tilewright.tools.report.figures.roofline import roofline_panel
from tilewright.tools.report.ratios import speed

FIGURES = FOLDER / "figures"
INDEX, MACHINE_PAGE = "README.md", "00_machine.md"
SOURCES_PAGE = "sources.md"
TRITON_PAGE = "triton.md"
SWEEP = "sources_sweep.svg"
_A6000_SHAPE = "4092x4092x4092"
_CAPTIONS = {
    "coalescing": "which elements the lanes of a warp touch in one request, and the sectors that they lie in",
    "banks": "which bank of shared memory each lane asks, wavefront by wavefront",
    "loads": "what lane 0 loads from shared memory, in its order, and how many multiply-adds each load serves",
    "tiling": "which block, warp and lane writes each element of C",
    "threads": "a grid of blocks, a block of warps, a warp of lanes",
    "tiles": "one tile of C, and the tiles of A and B that slide along k to it",
    "split": "k divided among blocks, and their partial sums added",
    "roofline": "the rungs under the roofs of the GPU",
    "errors": "relative error of ways to multiply float32 matrices over k",
    "promotion": "relative error over PROMOTE",
    "machine": "memories of the GPU: how long a load takes, and how much all read",
    "occupancy": "share of the peak of FMAs over warps, by independent FMAs of a thread",
    "in_flight": "bandwidth of DRAM over bytes in flight, by loads in flight of a thread",
    "stalls": "what warps wait for, of this rung and of those before it",
    "quantisation": "what share of the elements of tiles and of waves are results, by size",
}


class Worklog:
    """The pages and figures, each made when it is asked for.

    Args:
        facts: what was counted and measured of rungs.
        errors: what was sampled of ways to multiply float32 matrices.
        of_sources: what was counted of the sources' configs.
        varied: what was measured of them, and of other configs that pages compare.
    """

    def __init__(self, facts: Facts, errors: Errors, of_sources: sources.SourceCounts, varied: Run) -> None:
        self.facts, self.errors, self.of_sources, self.varied = facts, errors, of_sources, varied
        self._figure = cache(lambda kernel: KernelFigure(kernel, facts.config(kernel), problem_of(kernel)))

    def pages(self) -> Iterator[tuple[Path, str]]:
        """Each page's path and text.

        Raises:
            RecordsError: the words ask for what there is not.
            OSError: the words cannot be read.
        """
        rungs = with_page()
        for place, kernel in enumerate(rungs):
            words = _filled(page_name(kernel), self._fills(kernel))
            before, after = rungs[place - 1 : place], rungs[place + 1 : place + 2]
            given = {"before": before, "after": after, "page_name": page_name, "index": INDEX}
            page = block("worklog/tables.md.j2", "page", kernel=kernel, words=words, **given)
            yield FOLDER / page_name(kernel), f"{page}\n"
        fills = self._common() | {
            "contents": self._contents,
            "contents_count": lambda: str(len(rungs)),
            "shape": lambda name="": shape_of(name),
            "figure": lambda kind: f"![{_CAPTIONS[kind]}]({FIGURES.name}/{kind}.svg)",
            "roof": lambda: listing.roof(Problem.parse(shape_of("")), course_gpu()),
            "calc": listing.calculated,
            "a6000": lambda memory: f"{published.A6000_GIBS[memory]:,}",
            "gpu": lambda: course_gpu().name,
            "multiprocessors": lambda: str(course_gpu().multiprocessors),
        }
        fills |= {"ptx": triton_ptx.count, "ptx_line": triton_ptx.line, "triton": triton_ptx.value}
        for name in (INDEX, MACHINE_PAGE, TRITON_PAGE):
            yield FOLDER / name, f"{_note(name)}\n\n{_filled(name, fills)}\n"
        linked = {"figure": lambda name: f"![{hopper.FIGURES[name][0]}]({FIGURES.name}/{hopper.file_name(name)})"}
        words = _filled(hopper.PAGE, linked)
        yield FOLDER / hopper.PAGE, f"{_note(hopper.PAGE)}\n\n{words}\n\n[all rungs]({INDEX})\n"
        words = re.sub(r"\n{3,}", "\n\n", _filled(SOURCES_PAGE, self._source_tables()))
        yield FOLDER / SOURCES_PAGE, f"{_note(SOURCES_PAGE)}\n\n{words}\n\n[all rungs]({INDEX})\n"

    def figures(self) -> Iterator[tuple[Path, str]]:
        """Each figure's path and SVG text, of those that the words ask for."""
        for kernel in with_page():
            text = (TEXTS / page_name(kernel)).read_text(encoding="utf-8")
            for kind in _CAPTIONS:
                if f"{{{{figure {kind}}}}}" in text:
                    yield FIGURES / figure_name(kernel, kind), self.figure(kernel, kind)
        yield FIGURES / "roofline.svg", self.roofline("")
        yield FIGURES / "threads.svg", pictures.threads()
        yield FIGURES / "tiles.svg", pictures.tiles()
        if any("{{figure machine}}" in one.read_text(encoding="utf-8") for one in TEXTS.glob("*.md")):
            yield FIGURES / "machine.svg", machine.figure(_machine())
        for name, (title, draw) in hopper.FIGURES.items():
            yield FIGURES / hopper.file_name(name), draw().render(title)
        yield FIGURES / SWEEP, variations.sweep_figure(self.varied)

    def figure(self, kernel: Kernel, kind: str) -> str:
        """One figure of a rung."""
        if kind == "roofline":
            return self.roofline(kernel.name)
        if kind == "split":
            return pictures.split_k()
        if kind == "loads":
            config = self.facts.config(kernel)
            tile = kernel.tile(config)
            return pictures.loads(trace(kernel, config, Problem(tile.m, tile.n, config["BK"])))
        if kind == "occupancy":
            return occupancy.chains_figure(_measurements("occupancy"))
        if kind == "in_flight":
            return occupancy.loads_figure(_measurements("occupancy"))
        if kind == "stalls":
            return stalls(self.facts.profiled(kernel))
        if kind == "errors":
            return self.errors.against_k(WAYS_OF[kernel.name])
        if kind == "promotion":
            return self.errors.against_promote()
        if kind == "quantisation":
            config, warps = self.facts.config(kernel), self.facts.count(kernel.name).warps
            blocks = course_gpu().multiprocessors * (32 * warps // kernel.threads(config))
            return quantisation(kernel.tile(config).m, blocks)
        return self._figure(kernel).single(kind)

    def roofline(self, marked: str) -> str:
        """The roofline, with a kernel of this name pointed out."""
        roofline = self.facts.roofline()
        drawn = roofline_panel(roofline.points, roofline.gpu, roofline.least, marked, roofline.baseline)
        return drawn.render("roofline")

    def _swept(self) -> str:
        """Measurements of the tiles that a source sweeps, as a picture and a table."""
        gpu = self.varied.gpu.name
        caption = f"GFLOP/s of the RTX 3060 notes' kernels on one {gpu}, over the results of a thread"
        return f"![{caption}]({FIGURES.name}/{SWEEP})\n\n{variations.sweep(self.varied)}"

    def _source_tables(self) -> Mapping[str, Fill]:
        facts, counts, varied = self.facts, self.of_sources, self.varied
        return {
            "a6000": partial(sources.next_to_ours, facts, {_A6000_SHAPE: published.A6000}, "A6000"),
            "predicted": partial(sources.predicted, counts.predicted),
            "of_published": partial(sources.of_published, counts.predicted),
            "hopper": partial(sources.hopper, facts),
            "fast_cu": partial(sources.fast_cu, facts),
            "fast_cu_here": lambda: speed(published.FAST_CU_ON_H200),
            "cublas": lambda: cublas_kernels.table(Run.load(path("ladder"))),
            "cublas_swept": cublas_kernels.swept,
            "rtx3060": partial(sources.next_to_ours, facts, published.RTX3060, "RTX 3060"),
            "op_t": partial(sources.orders_of_factors, facts),
            "notes": partial(variations.notes, varied),
            "sweep": partial(sources.sweep, counts.sweep),
            "swept": self._swept,
            "fastcuda": partial(sources.fastcuda, counts.presets, variations.fastcuda(self.varied), self.varied),
            "split": partial(variations.split, varied),
            "orders": partial(variations.orders, varied),
        }

    def _common(self) -> dict[str, Fill]:
        names = ("gflops", "modelled", "share", "times", "times_at", "error", "metric", "least", "best_intensity")
        return {name: getattr(self.facts, name) for name in names} | {
            "tensor_cores": lambda *kernels: profile_tables.tensor_cores(_measurements("profiles"), kernels),
            "occupancy": lambda: occupancy.table(_measurements("occupancy"), _machine()),
            "casts": lambda: casts.table(_measurements("casts")),
            "machine": lambda: machine.table(_machine()),
            "machine_value": lambda level, what: machine.value(_machine(), level, what),
        }

    def _fills(self, kernel: Kernel) -> Mapping[str, Fill]:
        facts, tables = self.facts, ("counters", "measured", "limits", "caches")
        return self._common() | {
            "figure": partial(_figure_link, kernel),
            "code": partial(_code, kernel),
            "kernel": partial(listing.whole, kernel),
            "helper": listing.helper,
            "launch": lambda: listing.launch(kernel, facts.config(kernel), problem_of(kernel), course_gpu()),
            "calc": listing.calculated,
            **{name: partial(getattr(facts, name), kernel.name) for name in tables},
            "signs": self.errors.signs,
            "predicted": partial(self.errors.predicted, kernel.name),
            "times_error": self.errors.times,
            "accesses": partial(accesses_of_rungs, self.of_sources.accesses),
            "toys": partial(accesses_of_toys, self.of_sources.accesses),
            "fast_cu": partial(sources.fast_cu, facts, kernel.rung),
            "split": partial(variations.split, self.varied),
            "mark": partial(_mark, kernel),
            "alone": partial(alone.table, kernel),
            "mark_copy": partial(_mark_copy, kernel),
            "config": lambda: ", ".join(f"{name}={value}" for name, value in facts.config(kernel).items()),
        }

    def _contents(self) -> str:
        """The table of contents."""
        parts = [
            (part, [(one, page_name(one), self.facts.find(one.name, problem_of(one).shape)) for one in kernels])
            for part, kernels in in_parts(with_page())
        ]
        return block("worklog/tables.md.j2", "contents", parts=parts)


@cache
def _machine() -> Machine:
    """The GPU as it was measured.

    Raises:
        RecordsError: it was not.
    """
    return Machine.load(path("machine"))


@cache
def _measurements(study: str) -> Measurements:
    """Measurements of a study that has one file.

    Raises:
        RecordsError: there is none.
    """
    return Measurements.load(path(study))


def figure_name(kernel: Kernel, kind: str) -> str:
    """The file of a rung's figure, as in 01_naive_coalescing.svg."""
    return f"{kernel.rung:02}_{kernel.name}_{kind}.svg"


def _filled(name: str, fills: Mapping[str, Fill]) -> str:
    """The words of a page, filled in."""
    return fill((TEXTS / name).read_text(encoding="utf-8"), fills, name).strip()


def _note(name: str) -> str:
    return f"<!-- Made by `make docs` from text/{name}, results/ and the kernels' sources: edit those. -->"


def _figure_link(kernel: Kernel, kind: str) -> str:
    return f"![{kernel.name}: {_CAPTIONS[kind]}]({FIGURES.name}/{figure_name(kernel, kind)})"


def _code(kernel: Kernel, first: str, last: str, header: str = "") -> str:
    """Lines of the kernel's source, or of a header that it includes, and where they are."""
    whole = f"The whole kernel: {listing.link(kernel.source)}"
    if not header:
        return f"{excerpt(kernel.source, first, last)}\n\n{whole}"
    included = listing.FOLDER / "include" / header
    return f"{excerpt(included, first, last)}\n\nFrom {listing.link(included)}. {whole}"


def _mark(kernel: Kernel, config: str = "") -> str:
    """The command that marks an exercise; config as `--config` takes it."""
    name = f"{kernel.name} --config {config}" if config else kernel.name
    return f"`tilewright check {name} && tilewright bench {name} --shape 512`"


def _mark_copy(kernel: Kernel, config: str = "") -> str:
    """The commands that copy a rung for an exercise and mark the copy."""
    given, copy = f" --config {config}" if config else "", f"my_{kernel.name}"
    marks = f"check {copy}.cu", f"bench {copy}.cu --shape 512", f"explain {copy}.cu"
    marking = " && ".join(f"tilewright {words}" for words in marks)
    return f"```\ntilewright new {copy} --from {kernel.name}{given}\n{marking}\n```"
