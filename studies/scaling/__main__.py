"""Redraws the tables of docs/scaling.md: `python -m studies.scaling`."""

import sys

from studies.scaling.page import main

if __name__ == "__main__":
    sys.exit(main())
