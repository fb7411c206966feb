"""Redraws the tables and plots of docs/tuning.md: `python -m studies.tuning`."""

import sys

from studies.tuning.page import main

if __name__ == "__main__":
    sys.exit(main())
