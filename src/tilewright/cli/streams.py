"""Two streams to print to, one for results, one for notes and progress."""

from rich.console import Console

out = Console()
notes = Console(stderr=True, highlight=False)
