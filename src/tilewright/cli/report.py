"""The command line: `tilewright report`."""

from pathlib import Path
from typing import Annotated

import typer

from tilewright.cli.terminal import notes
from tilewright.files import Output, check_outputs
from tilewright.report.html import page, sources


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

    Of several files, each is compared with the first. Times of the emulator are kept apart from those of GPUs.
    """
    check_outputs([Output("--output", output, page.KIND)], [*records, *(journal or ())])
    page.write(sources.load(records, journal or ()), output)
    notes.print(f"wrote {output}", markup=False, soft_wrap=True)
