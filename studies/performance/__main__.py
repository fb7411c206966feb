"""Redraws the tables and plots of README.md, docs/performance.md and others: `python -m studies.performance`."""

import sys

from studies.performance.page import main

if __name__ == "__main__":
    sys.exit(main())
