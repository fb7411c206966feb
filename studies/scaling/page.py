"""Tables of what products take several GPUs: in a terminal, and in docs/scaling.md (`make docs` redraws it)."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from studies.record import Measurement, Measurements, Row
from studies.results import paths
from studies.scaling.records import OURS, PRODUCT, is_peer
from studies.templates import block, redraw, where
from tilewright.core.dtypes import ITEM_BYTES
from tilewright.core.gpus import Gpu, gpu_named
from tilewright.core.problem import Arithmetic, Problem
from tilewright.frameworks.dividing import Workload, divide, timeline
from tilewright.select.selector import select
from tilewright.tools.explain.cost.prediction import Cost, predict
from tilewright.tools.explain.scaling import DEVICES, SCHEMES, SPLIT, Links, Share, scaling
from tilewright.tools.report.explain_tables import scaling_cells

PAGE = Path("docs/scaling.md")
_TEMPLATE = "scaling/page.md.j2"

GPU, LINKS = "H200", Links(450.0, 50.0, 8)
"""GPU and links of the page: NVLink and a network of 400 Gbit/s for each GPU, one way, as their makers give them."""

MEASURED_LINKS = Links(394.0)
"""Links of two GPUs of the runs: the rate that copies alone were measured to have over NVLink, one way."""

SHAPES = ((8192, 8192, 8192), (16384, 16384, 16384), (4096, 14336, 4096))

PAYS = 0.8
"""A scheme pays as long as each GPU is at least this fast, over one alone."""


def sections() -> dict[str, str]:
    """The page's tables, by name."""
    found: dict[str, str] = {}
    gpu = gpu_named(GPU)
    for dtype in ("bfloat16", "float32"):
        by_shape = {
            f"{m}x{n}x{k}": _shares(dtype, Problem(m, n, k), gpu, f"NVIDIA {GPU}", LINKS, DEVICES) for m, n, k in SHAPES
        }
        found[dtype] = block(_TEMPLATE, "predicted", shares=by_shape, cells=scaling_cells)
        found[f"{dtype} pays"] = block(_TEMPLATE, "pays", shares=by_shape, schemes=SCHEMES, least=PAYS)
    measured_runs = [Measurements.load(path) for path in paths("scaling")]
    return found | {"schedule": schedule(Problem(*SHAPES[1]), gpu), "measured": measured(measured_runs)}


def schedule(sizes: Problem, gpu: Gpu) -> str:
    """Loads, products and stores of the second of two GPUs for a product of GPU 0, in time."""
    divided = []
    for dtype in ("bfloat16", "float32"):

        def taken_us(m: int, n: int, dtype: str = dtype) -> float:
            cost = _expected(Problem(m, n, sizes.k, Arithmetic(dtype, dtype)), gpu, f"NVIDIA {GPU}")
            return cost.us if cost else 0.0

        work = Workload(sizes.m, sizes.n, sizes.k, ITEM_BYTES[dtype], ITEM_BYTES[dtype])
        link_bytes_us = 1e3 * MEASURED_LINKS.link_gb_s
        found = divide(taken_us, work, 2, link_bytes_us)
        first = found.bounds[1]
        steps = timeline(taken_us, work._replace(m=sizes.m - first), found.cuts, 1, link_bytes_us)
        divided.append((dtype, first, taken_us(first, sizes.n), steps))
    return block(_TEMPLATE, "schedule", divided=divided, n=sizes.n)


def measured(runs: Sequence[Measurements]) -> str:
    """Tables of the measurements, a row for each piece of work, in a table for those of one GPU, day and revision."""
    tables: dict[str, list[tuple[Row, float | None]]] = {}
    for run in runs:
        rows = [(row, _predicted(row.what, run)) for row in run.rows()]
        tables.setdefault(where(run), []).extend(rows)
    return block(_TEMPLATE, "measured", tables=tables, others=_others, OURS=OURS, PRODUCT=PRODUCT)


def _others(row: Row) -> tuple[list[Measurement], list[Measurement]]:
    """Peers of ours; and copies alone, which are what the link allows, nobody's product, and not compared."""
    peers = [one for one in row.of.values() if is_peer(one.way)]
    return peers, [one for one in row.of.values() if one.way.startswith("copies")]


def _predicted(what: Mapping[str, str | int], run: Measurements) -> float | None:
    """The speed over the product alone, by the cost model; None of what it does not predict."""
    if what["scheme"] not in SCHEMES:
        return None
    name, sizes, devices = run.environment["gpu"]["name"], Problem.parse(str(what["work"])), int(what["devices"])
    shares = _shares(str(what["dtype"]), sizes, run.gpu, name, MEASURED_LINKS, (devices,))
    share = next(share for share in shares if share.scheme == what["scheme"])
    return share.speedup if share.scheme == SPLIT else share.of_product


def _shares(dtype: str, sizes: Problem, gpu: Gpu, device: str, links: Links, devices: tuple[int, ...]) -> list[Share]:
    """By the kernels and configs that the library picks, of the product and of each part."""

    problem = Problem(sizes.m, sizes.n, sizes.k, Arithmetic(dtype, dtype))
    return scaling(lambda part: _expected(part, gpu, device), problem, links, devices)


def _expected(problem: Problem, gpu: Gpu, device: str) -> Cost | None:
    return predict(*select(problem, gpu.capability, device), problem, gpu)


def write() -> None:
    """Redraw the page.

    Raises:
        RecordsError: a file of records cannot be read.
        OSError: the page cannot be read or written.
    """
    redraw(PAGE, sections())
