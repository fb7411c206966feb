"""Makes the table of a GPU: `python -m studies.unseen.shipping SURVEY.jsonl... --gpu NAME -o TABLE.json`.

The table has the models that were fitted, and of each surveyed problem the fastest of each precision, next to
PyTorch's. What the table had before of other problems stays, of each kernel the best.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from tilewright.core.gpus import find_gpu
from tilewright.kernels import KERNELS, find
from tilewright.kernels.kernel import Choice
from tilewright.kernels.support import PROMISES
from tilewright.select.tables.cases import timed_case
from tilewright.select.tables.entry import Entry, best_of_kernels
from tilewright.select.tables.table import Table
from tilewright.tools.tune.fitting import fit
from tilewright.tools.tune.survey import Surveyed, SurveyFile

SLOW = 1.3
"""An entry of another kernel than the best is left out where it takes this many times as long."""


def of_portfolios(surveyed: Sequence[Surveyed], capability: tuple[int, int]) -> list[Surveyed]:
    """A survey without times of configs that are in no portfolio today."""
    listed = {Choice(kernel, config) for kernel in KERNELS for config in kernel.candidates(capability)}
    return [one._replace(us={choice: us for choice, us in one.us.items() if choice in listed}) for one in surveyed]


def entries_of(surveyed: Sequence[Surveyed], revision: str | None) -> Iterator[Entry]:
    """The fastest config of each precision on each problem, next to PyTorch's."""
    for problem, us, _, others in surveyed:
        firsts: dict[str | None, Entry] = {}
        sizes: dict[str, Any] = {"m": problem.m, "n": problem.n, "k": problem.k, "batch": problem.batch}
        for (kernel, config), time in sorted(us.items(), key=lambda one: one[1]):
            if kernel.support.precision not in firsts:
                baseline = next(iter(others.values()), None)
                firsts[kernel.support.precision] = Entry(
                    **sizes,
                    case=timed_case(problem),
                    kernel=kernel.name,
                    config=dict(config),
                    gflops=problem.flops / time / 1e3,
                    baseline_gflops=problem.flops / baseline / 1e3 if baseline else None,
                    revision=revision,
                )
        yield from firsts.values()


def thinned(entries: Sequence[Entry]) -> list[Entry]:
    """The best of each kernel, without those that another of their precision makes of no use."""
    kept = best_of_kernels(entries)
    best: dict[object, float] = {}
    for one in kept:
        best[one.problem] = max(best.get(one.problem, 0.0), one.gflops)
    firsts: set[object] = set()
    found = []
    for one in sorted(kept, key=lambda entry: -entry.gflops):
        # Kernels that split factors first need not where b is prepared.
        strict = one.problem, find(one.kernel).splits, tuple(map(one.meets, PROMISES))
        if strict not in firsts or one.gflops * SLOW > best[one.problem]:
            firsts.add(strict)
            found.append(one)
    return found


def main(
    surveys: Annotated[list[Path], typer.Argument(default_factory=list)],
    gpu: Annotated[str, typer.Option(help="what its driver calls it")],
    out: Annotated[Path, typer.Option("-o", "--out")],
    revision: str | None = None,
) -> None:
    """Write the table of a GPU from surveys: models, and the fastest configs of each problem."""
    table = Table.load(out) if out.exists() else Table(gpu, (9, 0))
    models, entries = dict(table.fitted), list(table.entries)
    for path in surveys:
        surveyed = of_portfolios(SurveyFile(path).found, table.capability)
        models[surveyed[0].problem.dtype] = fit(surveyed, find_gpu(table.gpu, table.capability))
        entries += entries_of(surveyed, revision)
    Table.of(table.gpu, table.capability, thinned(entries), models).save(out)


if __name__ == "__main__":
    typer.run(main)
