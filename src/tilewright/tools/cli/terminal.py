"""Output of the commands: lines of results, and JSON."""

import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from tilewright.core.files import FileKind, Output, as_json, save_json
from tilewright.tools.cli.streams import notes, out
from tilewright.tools.report.fitted import wrapped
from tilewright.tools.report.visible import visible, visible_text

STDOUT = Path("-")
"""Stands for standard output, among the paths that JSON can be written to."""


def say(*parts: str | Text | tuple[str, str], indent: int = 0, to: Console | None = None) -> None:
    """Print lines of results, wrapped between words and between the parameters of a config, then indented.

    Args:
        parts: texts, and texts with a style behind each.
        indent: spaces before what continues a line.
        to: where; None for `out`.
    """
    console = to or out
    for line in wrapped(Text.assemble(*map(_visible_part, parts)), console.width, indent):
        console.print(line, highlight=False, soft_wrap=True)


def _visible_part(part: str | Text | tuple[str, str]) -> Text:
    return Text(visible(part[0]), part[1]) if isinstance(part, tuple) else visible_text(part)


def results(json_path: Path | None) -> Console:
    """Where results are shown: on standard output, unless the JSON goes there."""
    return notes if json_path == STDOUT else out


def json_output(path: Path | None, kind: FileKind) -> Output:
    """Output that --json asks for, to be checked before a run."""
    return Output("--json", None if path == STDOUT else path, kind)


def write_json(path: Path | None, facts: Any, subject: str) -> None:
    """Write JSON to a file as `save_json` does, or to standard output; None: nowhere."""
    if path == STDOUT:
        sys.stdout.write(as_json(facts))
    elif path is not None:
        save_json(path, facts, f"{subject} to {path}")
