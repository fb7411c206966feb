"""Redraws the tables of docs/frameworks.md: `python -m studies.frameworks`."""

import sys

from studies.frameworks.page import main

if __name__ == "__main__":
    sys.exit(main())
