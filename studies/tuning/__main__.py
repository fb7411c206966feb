"""The tables and plots of docs/tuning.md: `python -m studies.tuning write`."""

import sys

from studies.runner import run
from studies.tuning import page

if __name__ == "__main__":
    sys.exit(run("tuning", page.__doc__, write=page.write))
