"""First picks of NVIDIA's nvMatmulHeuristics next to ours: `python -m studies.unseen.heuristics --out FILE`, on no GPU.

nvMatmulHeuristics predicts shapes of CUTLASS's kernels. A pick stands for the config of gemm_sm90's portfolio that has
its `Shape`, of several for the fastest. Times are those of the H200's survey in bfloat16. Our picks, of gemm_sm90 too,
are those of models fitted to other problems of the survey. A file has a line for the library and the shapes of the
portfolio's configs, and a line for each problem:

    {"case": "NN bfloat16->bfloat16", "sizes": [m, n, k, batch], "best_us": the portfolio's fastest, "ours_us": ours,
     "theirs": {flag and what may be picked: [shape, microseconds], ...}}

Microseconds are null where the survey did not time the config, since a first run of it was slow.
"""

import argparse
import json
import lzma
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from studies.results import path
from studies.runner import reporting
from studies.unseen.drawing import EVEN, STEP, UNEVEN
from studies.unseen.shipping import of_portfolios
from tilewright.core.errors import LibraryError
from tilewright.core.files import FileKind, Output, check_outputs, save
from tilewright.core.gpus import Gpu, find_gpu
from tilewright.core.problem import Problem
from tilewright.kernels import find
from tilewright.kernels.config import Config
from tilewright.kernels.kernel import Choice
from tilewright.select.model import Models, ProblemSizes
from tilewright.select.tables.cases import timed_case
from tilewright.tools.tune.fitting import fit
from tilewright.tools.tune.survey import Surveyed, SurveyFile

Shape = tuple[int, ...]
"""Rows and columns of a block's tile, blocks of a cluster along m and along n, blocks that divide the k of a tile."""

Heuristics = Mapping[str, Callable[[Problem], Shape]]
"""First picks for a problem, by the settings that they are asked with."""

KERNEL = find("gemm_sm90")
PACKAGE = "nvidia-matmul-heuristics"
ANY, LISTED = "any", "the portfolio's"
"""Tiles and clusters that nvMatmulHeuristics may pick. Parts of k are its own in both: where these are limited too, it
never splits."""
FOLDS = 5
_PRECISION = "HSH"
"""Factors and results of float16, sums of float32: the library ships timings for these, and none for bfloat16, which
Hopper multiplies as fast."""


def shape_of(config: Config) -> Shape:
    """The shape of a config of gemm_sm90."""
    rows, cols, down, across = config.BM, config.BN, config.CLUSTER_M, config.CLUSTER_N
    return (cols, rows, across, down, config.SPLITS) if config.SWAP_AB else (rows, cols, down, across, config.SPLITS)


def nvidia(allowed: Collection[Shape]) -> Heuristics:
    """First picks of nvMatmulHeuristics for CUTLASS 3 on an H200, by flag and by what may be picked: any tile and
    cluster, or those of `allowed` shapes.

    Raises:
        LibraryError: it is not installed.
    """
    try:
        import nvMatmulHeuristics as nv  # noqa: N813, PLC0415 an extra
    except ImportError as error:
        raise LibraryError("nvMatmulHeuristics is not installed: pip install 'tilewright[heuristics]'") from error
    clusters = {one[:4] for one in allowed}

    def heuristic(flag: Any, limited: bool) -> Callable[[Problem], Shape]:
        target = nv.NvMatmulHeuristicsTarget.CUTLASS3
        library = nv.NvMatmulHeuristicsInterfaceEx(target, flags=flag, gpu=nv.NvMatmulHeuristicsNvidiaGpu.H200_SXM)
        backend = library.createBackend(target)

        def shape(found: Any) -> Shape:
            return *found.cta[:2], *found.cluster, found.splitK

        def first(problem: Problem) -> Shape:
            layout = nv.boolsToNvMatmulHeuristicsLayout(problem.a.order == "column", problem.b.order == "column")
            asked = library.makeNvMatmulHeuristicsProblem(problem.m, problem.n, problem.k, layout, problem.batch)
            return shape(library.getEx(asked, 1, backend, _PRECISION)[0]["nvmmhKernelConfiguration"])

        def is_listed(found: Any, _: Any) -> int:
            return int(shape(found.contents)[:4] in clusters)

        if limited:
            kind = nv.NvMatmulHeuristicsBackendPropertyCallbackKind.KERNEL_ADDITIONAL_VALIDITY_CHECK
            library.setBackendCallbackProperty(backend, kind, is_listed)
        return first

    flags = nv.NvMatmulHeuristicsFlags.NONE, nv.NvMatmulHeuristicsFlags.PERF_MODEL_BASED_AUTO_TUNING
    return {f"{one.name}, {which}": heuristic(one, which == LISTED) for one in flags for which in (ANY, LISTED)}


def ours(surveyed: Sequence[Surveyed], gpu: Gpu) -> list[Config]:
    """The config of gemm_sm90 for each problem that models pick, fitted without the problem's fold."""
    folds = np.random.default_rng(0).integers(0, FOLDS, len(surveyed))
    found: dict[int, Config] = {}
    for fold in range(FOLDS):
        fitted = fit([one for one, own in zip(surveyed, folds, strict=True) if own != fold], gpu)
        models = Models(gpu, fitted.configs, fitted.correction)
        numbers = [number for number, one in enumerate(fitted.configs) if one.kernel is KERNEL]
        for row in np.flatnonzero(folds == fold).tolist():
            us = models.us(ProblemSizes.of(surveyed[row].problem))
            found[row] = fitted.configs[min(numbers, key=us.__getitem__)].config
    return [found[row] for row in range(len(surveyed))]


def compared(surveyed: Sequence[Surveyed], picks: Sequence[Config], theirs: Heuristics) -> Iterator[dict[str, Any]]:
    """Lines of a record: times of our picks and of theirs on surveyed problems."""
    for (problem, times, *_), pick in zip(surveyed, picks, strict=True):
        timed = [(us, shape_of(config)) for (kernel, config), us in times.items() if kernel is KERNEL]
        us_of = {shape: us for us, shape in sorted(timed, reverse=True)}  # the fastest stays
        yield {
            "case": timed_case(problem),
            "sizes": (problem.m, problem.n, problem.k, problem.batch),
            "best_us": min(us_of.values()),
            "ours_us": times.get(Choice(KERNEL, pick)),
            "theirs": {name: (first := pick_of(problem), us_of.get(first)) for name, pick_of in theirs.items()},
        }


def read(packed: bytes) -> list[dict[str, Any]]:
    """Lines of a record."""
    return [json.loads(line) for line in lzma.decompress(packed).decode().splitlines()]


def rows(lines: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Rows of the scoreboard: how many picks are shapes of the portfolio, and where they are, regrets of both."""
    head, *problems = lines
    for name in problems[0]["theirs"]:
        for kind in (EVEN, UNEVEN):
            some = [one for one in problems if all(s % STEP == 0 for s in one["sizes"][:3]) == (kind == EVEN)]
            firsts = [one["theirs"][name][0] for one in some]
            same = [sum(one[:n] in [listed[:n] for listed in head["shapes"]] for one in firsts) for n in (2, 4, 5)]
            both = [(one["theirs"][name][1], one["ours_us"], one["best_us"]) for one in some]
            timed = np.array([times for times in both if all(times)]).reshape(-1, 3)
            regrets = (timed[:, :2] / timed[:, 2:]).T
            found = [(np.exp(np.log(one).mean()), np.percentile(one, 95)) for one in regrets]
            counts = {"problems": len(some), "same": same, "timed": len(timed)}
            yield {"name": name, "kind": kind, **counts, "regrets": found}


def _is_record(content: bytes) -> bool:
    try:
        return b'"theirs"' in lzma.decompress(content)
    except lzma.LZMAError:
        return False


@reporting
def main() -> int:
    """Ask nvMatmulHeuristics for all problems of the survey."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    out, packed, gpu = parser.parse_args().out, path("surveyed"), find_gpu("NVIDIA H200", (9, 0))
    check_outputs([Output("--out", out, FileKind("picks of nvMatmulHeuristics", _is_record))], [packed])
    shapes = list(map(shape_of, KERNEL.candidates(gpu.capability)))
    theirs = nvidia(shapes)
    with tempfile.TemporaryDirectory() as folder:
        survey = Path(folder, "survey.jsonl")
        survey.write_bytes(lzma.decompress(packed.read_bytes()))
        surveyed = of_portfolios(SurveyFile(survey).found, gpu.capability)
    head = {"library": f"{PACKAGE} {version(PACKAGE)}", "shapes": shapes}
    lines = [head, *compared(surveyed, ours(surveyed, gpu), theirs)]
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    save(out, lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME), f"picks to {out}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
