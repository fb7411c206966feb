"""Tables of the sources' configs on a GPU, from the measurements of `varying.py`."""

from collections.abc import Iterable, Mapping, Sequence

from studies import published
from studies.charts import Curve, Panel, curves, style
from studies.templates import block
from studies.worklog.varying import GROUP_SHAPE, RASTER_SHAPE, SPLIT_SHAPES, SWEPT_SHAPES, presets, swept
from tilewright.kernels.kernel import Choice
from tilewright.tools.bench.records import Record, Run
from tilewright.tools.report.ratios import quotient

_TEMPLATE = "worklog/variations.md.j2"


def notes(varied: Run) -> str:
    """The RTX 3060 notes' own configs on our GPU, next to cuBLAS, and the notes' shares."""
    rows = []
    for shape in SWEPT_SHAPES:
        theirs = published.RTX3060[shape]
        for preset, choice in presets("rtx3060").items():
            if record := _find(varied, shape, choice):
                rung = choice.kernel.rung
                rows.append((shape, rung, preset, record, quotient(theirs[rung], theirs[0])))
    return block(_TEMPLATE, "notes", run=varied, notes=rows)


def sweep(varied: Run) -> str:
    """The tiles that the notes sweep, on our GPU."""
    found = [(choice, [_find(varied, shape, choice) for shape in SWEPT_SHAPES]) for choice in swept()]
    measured = [(choice, records) for choice, records in found if all(records)]
    return block(_TEMPLATE, "sweep", run=varied, shapes=SWEPT_SHAPES, swept=measured)


def sweep_figure(varied: Run) -> str:
    """Curves of speed over the results of a thread, as SVG."""
    panels = []
    for shape in SWEPT_SHAPES:
        found: dict[str, list[tuple[int, float]]] = {}
        for choice in swept():
            if record := _find(varied, shape, choice):
                name = f"{choice.kernel.name}, TILE {choice.config.BM}"
                found.setdefault(name, []).append((choice.config.TM * choice.config.TN, record.gflops))
        drawn = [Curve(name, sorted(points), style(number)) for number, (name, points) in enumerate(found.items())]
        panels.append(Panel(shape, drawn, linear=True))
    return curves(panels, "results of a thread", "GFLOP/s")


def fastcuda(varied: Run) -> Mapping[str, Record]:
    """The records of FastCuda's versions, by preset."""
    found = {preset: _find(varied, "4096x4096x4096", choice) for preset, choice in presets("fastcuda").items()}
    return {preset: record for preset, record in found.items() if record}


def split(varied: Run) -> str:
    """Speedup by dividing k: the best of each way, all in one run a problem."""
    rows = []
    for shape in SPLIT_SHAPES:
        of_shape = [record for record in varied.records if (record.kernel, record.shape) == ("split_k", shape)]
        whole = [one for one in of_shape if (one.config["K_SLICES"], one.config["WORKERS"]) == (1, 0)]
        slices = [one for one in of_shape if one.config["K_SLICES"] > 1 and not one.config["WORKERS"]]
        blocks = [one for one in of_shape if one.config["WORKERS"]]
        if whole and slices and blocks:
            rows.append((shape, *(max(of, key=lambda one: one.gflops) for of in (whole, slices, blocks))))
    return block(_TEMPLATE, "split", run=varied, split=rows)


def orders(varied: Run) -> str:
    """Speedup by the order of tiles (thread-block swizzling), rows of tiles over groups of rows."""
    rows = []
    for name, shape, parameter in (("tma_packed", RASTER_SHAPE, "RASTER"), ("gemm_sm90", GROUP_SHAPE, "GROUP_M")):
        for group in _alike(_of(varied.records, name, shape), parameter):
            first, best = group[0], max(group[1:], key=lambda one: one.gflops)
            rows.append((name, first, best.config[parameter], best))
    return block(_TEMPLATE, "orders", orders=rows, run=varied)


def _of(records: Iterable[Record], kernel: str, shape: str) -> list[Record]:
    return [record for record in records if (record.kernel, record.shape, record.layout) == (kernel, shape, "NN")]


def _alike(records: Sequence[Record], parameter: str) -> list[list[Record]]:
    """Records whose configs differ in one parameter alone, that of 1 first; groups of one are left out."""
    groups: dict[tuple[tuple[str, int], ...], list[Record]] = {}
    for record in records:
        if parameter in record.config:
            rest = tuple(sorted((name, value) for name, value in record.config.items() if name != parameter))
            groups.setdefault(rest, []).append(record)
    ordered = [sorted(group, key=lambda one: one.config[parameter]) for group in groups.values()]
    return [group for group in ordered if len(group) > 1 and group[0].config[parameter] == 1]


def _find(varied: Run, shape: str, choice: Choice) -> Record | None:
    wanted = choice.kernel.name, shape, dict(choice.config)
    return next((one for one in varied.records if (one.kernel, one.shape, one.config) == wanted), None)
