"""Two streams to print to, one for results, one for notes and progress.

Neither reads markup: styles are those of rich's Text, whatever stands in names, messages and sources.
"""

from rich.text import Text

from tilewright.report.visible import PlainConsole, visible

out = PlainConsole()
notes = PlainConsole(stderr=True, highlight=False)


def remark(label: str, style: str, text: str) -> None:
    """Print a note behind a label, as in 'warning: ...'."""
    notes.print(Text.assemble((f"{label}:", style), f" {visible(text)}"), soft_wrap=True)
