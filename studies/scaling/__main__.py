"""The tables of docs/scaling.md: `python -m studies.scaling write`."""

import sys

from studies.runner import run
from studies.scaling import page

if __name__ == "__main__":
    sys.exit(run("scaling", page.__doc__, write=page.write))
