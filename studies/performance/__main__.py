"""The tables and plots of README.md, docs/results.md and other pages: `python -m studies.performance write`."""

import sys

from studies.performance import page
from studies.runner import run

if __name__ == "__main__":
    sys.exit(run("performance", page.__doc__, write=page.write))
