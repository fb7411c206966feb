"""What the commands print to: results on one stream, notes and progress on the other."""

from rich.console import Console

out = Console()
notes = Console(stderr=True, highlight=False)
