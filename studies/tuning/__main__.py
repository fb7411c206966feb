"""The tables and plots of docs/tuning.md: `python -m studies.tuning write`."""

from studies.runner import run
from studies.tuning import page

if __name__ == "__main__":
    raise SystemExit(run("tuning", page.__doc__, write=page.write))
