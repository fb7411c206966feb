"""The command line: `tilewright report`."""

from pathlib import Path
from typing import Annotated

import typer

from tilewright.core.errors import RecordsError
from tilewright.core.files import Output, check_outputs, parsed
from tilewright.select.tables import table
from tilewright.tools.cli import check, explain, sass
from tilewright.tools.cli.streams import notes
from tilewright.tools.report.figures import explained
from tilewright.tools.report.html import page, sources

_OTHERS = (explain.KIND, explain.SCALING_KIND, sass.KIND, check.KIND, explained.KIND, page.KIND, table.KIND)
"""Kinds of files that this package writes and that no page is made of."""


def run_report(
    records: Annotated[
        list[Path],
        typer.Argument(
            metavar="RECORDS",
            help="Files that --json of bench or tune wrote, and journals of tune, in the order of the page.",
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="PATH", help="The page to write.")] = Path(
        "report.html"
    ),
    journal: Annotated[
        list[Path] | None,
        typer.Option(metavar="PATH", help="A journal of tune, to show what it tried. May be given several times."),
    ] = None,
) -> None:
    """Make one HTML page of measured records, which opens in any browser, offline.

    Charts, table and environment of a run:  [bold]tilewright report run.json[/]

    Before and after, or two GPUs:           [bold]tilewright report before.json after.json -o change.html[/]

    With what the autotuner tried:           [bold]tilewright report run.json --journal tuning.jsonl[/]

    Of several files, each is compared with the first. Times of the emulator are kept separate from those of GPUs.
    """
    check_outputs([Output("--output", output, page.KIND)], [*records, *(journal or ())])
    for path in [*records, *(journal or ())]:
        _refuse_others(path)
    page.write(sources.load(records, journal or ()), output)
    notes.print(f"wrote {output}", soft_wrap=True)


def _refuse_others(path: Path) -> None:
    """Say what a file is, where it is of another kind."""
    try:
        content = path.read_bytes()
    except OSError:
        return  # `sources.load` says what is wrong
    what = next((kind.name for kind in _OTHERS if kind.holds(content)), None) or _other_run(content)
    if what:
        raise RecordsError(f"RECORDS must be files of records or journals of tune, got {path}, {what}")


def _other_run(content: bytes) -> str | None:
    """Description of a file that a study wrote, by the names of its lists."""
    facts = parsed(content)
    if not isinstance(facts, dict) or "environment" not in facts:
        return None
    lists = [name for name, value in facts.items() if isinstance(value, list)]
    return None if not lists or "records" in lists else f"a file of {' and '.join(lists)}"
