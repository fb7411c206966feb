"""Two streams to print to, one for results, one for notes and progress; and how this command is called.

Neither reads markup: styles are those of rich's Text, whatever stands in names, messages and sources.
"""

import shutil
import sys
from pathlib import Path

from rich.text import Text

from tilewright.tools.report.visible import PlainConsole, visible

NAME = "tilewright"

out = PlainConsole()
notes = PlainConsole(stderr=True, highlight=False)


def invoked() -> str:
    """Command to type for the one that runs: 'tilewright', '.venv/bin/tilewright' or 'python -m tilewright'."""
    program = Path(sys.argv[0])
    if program.name != NAME:
        return f"{'python' if shutil.which('python') == sys.executable else sys.executable} -m {NAME}"
    found = shutil.which(NAME)
    is_found = program.parent == Path() or (found and Path(found).resolve() == program.resolve())
    return NAME if is_found else str(program)


def remark(label: str, style: str, text: str) -> None:
    """Print a note behind a label, as in 'warning: ...'."""
    notes.print(Text.assemble((f"{label}:", style), f" {visible(text)}"), soft_wrap=True)
