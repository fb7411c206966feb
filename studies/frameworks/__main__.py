"""tilewright in frameworks, next to these alone: `python -m studies.frameworks measure --out FILE`, or `write`."""

import sys

from studies.frameworks import measuring
from studies.runner import run


def write() -> None:
    """Redraw the page."""
    from studies.frameworks import page  # noqa: PLC0415 - templates, which a measurement does not need

    page.write()


if __name__ == "__main__":
    sys.exit(run("frameworks", measuring.__doc__, measuring.measurements, write, measuring.options))
