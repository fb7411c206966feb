"""tilewright in frameworks, next to these alone: `python -m studies.frameworks measure --out FILE`, or `write`."""

import sys

from studies.frameworks import measuring, page
from studies.runner import run

if __name__ == "__main__":
    sys.exit(run("frameworks", measuring.__doc__, measuring.measurements, page.write, measuring.options))
