"""The figures of a kernel: it runs on the emulator, and what its lanes do is drawn.

Kinds: `coalescing`, one request of a warp to each of A, B and C; `banks`, the same in shared memory; `tiling`, who
writes each element of C. Where something was measured there is a roofline too.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tilewright.core.dtypes import ITEM_BYTES
from tilewright.core.errors import FigureError
from tilewright.core.gpus import Gpu
from tilewright.core.hardware import WARP
from tilewright.core.problem import Layout, Problem
from tilewright.emulator.trace import Trace, WarpRequest, trace
from tilewright.kernels.config import Config
from tilewright.kernels.kernel import Kernel, numbered
from tilewright.tools.report.figures.banks import bank_panel
from tilewright.tools.report.figures.coalescing import coalescing_panel
from tilewright.tools.report.figures.palette import SEVERAL, ink_on, lane_color
from tilewright.tools.report.figures.roofline import Dot, roofline_panel
from tilewright.tools.report.figures.svg import ALARM, FAINT, INK, PALE, SOFT, Drawing, flow, paragraph, stack
from tilewright.tools.report.figures.tiling import tiling_panel

_WIDTH = 680.0
_GAP = 24.0
_LANE_WIDTH, _LEGEND_SIZE, _ENTRY_GAP = 15.0, 11.0, 16.0
"""Sizes in legends: a lane, the font, and the gap between two entries."""
_TILES_M, _TILES_N = 2, 3
"""Tiles of C that a figure shows, at most."""


@dataclass(frozen=True)
class RooflineChart:
    """Points that the roofline shows under the GPU's roofs."""

    points: Sequence[Dot]
    gpu: Gpu
    least: float
    """Operations a byte if each element were moved once."""
    baseline: float = 0.0
    """GFLOP/s of cuBLAS, where it is not among the points; 0 for none."""


class KernelFigure:
    """Figures of one kernel with one config on one problem.

    Args:
        kernel, config, problem: what runs, on as little of the problem as shows everything.
        lines: whether panels show which line of the source makes a request.

    Raises:
        LaunchError, CompileError, EngineUnavailableError: see `trace`.
    """

    def __init__(self, kernel: Kernel, config: Config, problem: Problem, *, lines: bool = False) -> None:
        self.kernel, self.problem, self.config = kernel, problem, config
        used, self._excerpt = excerpt(kernel, config, problem)
        self._trace: Trace = trace(kernel, used, self._excerpt)
        self._lines = lines

    def whole(self, roofline: RooflineChart | None = None) -> str:
        """All panels that the kernel has, as an SVG file."""
        heads: dict[str, Callable[[], Drawing | None]] = {
            "Global memory: the first request of a warp to each matrix": self.coalescing,
            "Shared memory: the first request of a warp of each kind, by bank": self.banks,
            "C: which block, warp and lane writes each element": self.tiling,
        }
        sections = [_section(head, panel()) for head, panel in heads.items()]
        if roofline:
            drawn = roofline_panel(roofline.points, roofline.gpu, roofline.least, self.kernel.name, roofline.baseline)
            sections.append(_section("Roofline: what was measured", drawn))
        head = Drawing()
        head.text(0, 18, f"{numbered(self.kernel.rung, self.kernel.name)}, {self.problem.shape}", 18, bold=True)
        head.put(paragraph(f"{self.problem.dtype}, {self.config}", _WIDTH), 0, 26)
        return stack([head, *filter(None, sections)], _GAP).render(f"{self.kernel.name}, {self.problem.shape}")

    def single(self, kind: str) -> str:
        """One kind of panels as an SVG file.

        Raises:
            FigureError: the kernel has none of them.
        """
        drawing = {"coalescing": self.coalescing, "banks": self.banks, "tiling": self.tiling}[kind]()
        if drawing is None:
            raise FigureError(f"{self.kernel.name} has no panels of the kind {kind}")
        return drawing.render(f"{self.kernel.name}: {kind}")

    def coalescing(self) -> Drawing | None:
        """One request of a warp to each of A, B and C."""
        problem = self._excerpt
        matrices = {
            "A": (ITEM_BYTES[problem.dtype], problem.a.ld),
            "B": (ITEM_BYTES[problem.dtype], problem.b.ld),
            "C": (ITEM_BYTES[problem.result], problem.d.ld),
        }
        panels = []
        for name, (item, ld) in matrices.items():
            request = self._first(name, ("store",) if name == "C" else ("load", "copy"), shared=False)
            if request:
                panels.append(coalescing_panel(request, item, ld, _WIDTH))
        drawn = [lane_legend(_WIDTH), flow(panels, _WIDTH, _GAP)] if panels else []
        if self._trace.tiles:
            drawn.append(paragraph(self._tiles_in_words(), _WIDTH))
        return stack(drawn, 14) if drawn else None

    def banks(self) -> Drawing | None:
        """A request of a warp for each way in which it uses the tiles in shared memory."""
        wanted = (("A", ("load",)), ("B", ("load",)), ("A", ("store", "copy")), ("B", ("store", "copy")))
        requests = [self._first(name, kinds, shared=True) for name, kinds in wanted]
        panels = [bank_panel(request) for request in requests if request]
        return stack([bank_legend(_WIDTH), flow(panels, _WIDTH, _GAP)], 14) if panels else None

    def tiling(self) -> Drawing:
        """Who writes each element of C."""
        return tiling_panel(self._trace.blocks, self._trace.threads)

    def _first(self, array: str, kinds: Sequence[str], *, shared: bool) -> WarpRequest | None:
        request = self._trace.first(array, kinds, shared=shared)
        return request if request is None or self._lines else request._replace(place="")

    def _tiles_in_words(self) -> str:
        tiles = {tile.array: tile for tile in reversed(self._trace.tiles)}
        boxes = " and ".join(f"{tile.rows} x {tile.cols} elements of {name}" for name, tile in sorted(tiles.items()))
        given = self.problem.layout
        orders = zip("AB", given, self.kernel.layout_read(self.config, given), strict=True)
        loaded = " and ".join(name if of == read else f"{name} (transposed before)" for name, of, read in orders)
        return f"{loaded} are loaded by the copy engine, {boxes} at a time: no lane asks for them."


def excerpt(kernel: Kernel, config: Config, problem: Problem) -> tuple[Config, Problem]:
    """A problem of a few tiles whose rows lie in memory as the given one's do, with a last tile as full as its; where
    the kernel takes no gaps between rows, with fewer elements a row.

    Each tile of C is one block's alone in it, also where blocks share tiles of the given problem: so one block is seen
    to do all that there is to do.
    """
    tile = kernel.tile(config)
    k = _some(problem.k, tile.k, 2 if problem.k % tile.k else 1)
    if "WORKERS" in config:
        config = Config({**config, "WORKERS": 0})
    elif kernel.has_workspace:
        k = min(problem.k, tile.k)  # a step for each group of threads: none is left for a second block
    m, n = _some(problem.m, tile.m, _TILES_M), _some(problem.n, tile.n, _TILES_N)
    if kernel.support.gaps:
        return config, replace(problem, m=m, n=n, k=k)
    a, b = Layout(problem.a.order), Layout(problem.b.order)
    return config, replace(problem, m=m, n=n, k=k, a=a, b=b, d=Layout(), c=None)


def _some(size: int, tile: int, count: int) -> int:
    """A size of at most this many tiles, the last one as full as that of the given size."""
    return min(size, (count - 1) * tile + (size % tile or tile))


def _section(head: str, drawing: Drawing | None) -> Drawing | None:
    if drawing is None:
        return None
    title = Drawing()
    title.line(0, 0, _WIDTH, 0, FAINT)
    title.text(0, 22, head, 14.5, bold=True)
    return stack([title, drawing], 12)


def lane_legend(width: float) -> Drawing:
    """Legend of the coalescing figure, in lines of at most this width."""
    entries = [_swatch(SEVERAL, "several lanes"), _swatch(PALE, "moved, not used")]
    sector = Drawing()
    sector.rect(0, 1, 26, 12, "none", stroke=INK, stroke_width=0.8, radius=2)
    sector.text(32, 11, "a sector, 32 bytes", _LEGEND_SIZE, fill=SOFT)
    return _lines([_lanes(), *entries, sector], width)


def bank_legend(width: float) -> Drawing:
    """Legend of the bank figure, whose rows are wavefronts."""
    several = Drawing()
    several.rect(0, 1, 26, 12, SEVERAL)
    several.text(13, 10.5, "x4", 9, fill=ink_on(SEVERAL), anchor="middle")
    several.text(31, 11, "4 lanes, same words", _LEGEND_SIZE, fill=SOFT)
    conflict = Drawing()
    conflict.rect(0, 1, 4, 12, ALARM)
    conflict.text(9, 11, "a bank conflict", _LEGEND_SIZE, fill=SOFT)
    return _lines([_lanes(), several, _swatch(PALE, "nobody asks"), conflict], width)


def _lines(entries: list[Drawing], width: float) -> Drawing:
    for entry in entries:
        entry.width += _ENTRY_GAP
    return flow(entries, width, 0, 8.0)


def _lanes() -> Drawing:
    drawing = Drawing()
    drawing.text(0, 11, "lane", _LEGEND_SIZE, fill=SOFT)
    for lane in range(WARP):
        color, x = lane_color(lane), 32 + lane * _LANE_WIDTH
        drawing.rect(x, 0, _LANE_WIDTH, 14, color)
        drawing.text(x + _LANE_WIDTH / 2, 10.5, f"{lane}", 9, fill=ink_on(color), anchor="middle")
    return drawing


def _swatch(color: str, label: str) -> Drawing:
    drawing = Drawing()
    drawing.rect(0, 1, 12, 12, color, stroke=FAINT)
    drawing.text(17, 11, label, _LEGEND_SIZE, fill=SOFT)
    return drawing
