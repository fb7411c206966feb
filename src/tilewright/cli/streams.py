"""Two streams to print to, one for results, one for notes and progress; and how this command is called."""

import shutil
import sys
from pathlib import Path

from rich.console import Console

NAME = "tilewright"

out = Console()
notes = Console(stderr=True, highlight=False)


def invoked() -> str:
    """What to type in this shell for the command that runs, as 'tilewright', '.venv/bin/tilewright' or
    'python -m tilewright'."""
    program = Path(sys.argv[0])
    if program.name != NAME:
        return f"{'python' if shutil.which('python') == sys.executable else sys.executable} -m {NAME}"
    found = shutil.which(NAME)
    is_found = program.parent == Path() or (found and Path(found).resolve() == program.resolve())
    return NAME if is_found else str(program)
