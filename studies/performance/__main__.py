"""The tables and plots of README.md, docs/results.md and other pages: `python -m studies.performance write`."""

from studies.performance import page
from studies.runner import run

if __name__ == "__main__":
    raise SystemExit(run("performance", page.__doc__, write=page.write))
