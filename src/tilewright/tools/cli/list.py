"""The command line: `tilewright list`."""

from typing import Annotated

from tilewright.kernels import KERNELS, resolve
from tilewright.tools.cli import options
from tilewright.tools.cli.streams import out
from tilewright.tools.cli.terminal import say
from tilewright.tools.report.tables import kernel_table, ladder_table


def run_list(
    kernels: Annotated[list[str] | None, options.kernels_of("Names or rung numbers.")] = None,
) -> None:
    """Show the ladder, and the library's kernels that are no rung: their ideas, parameters and defaults.

    With names, as in [bold]tilewright list warptiled[/], show each parameter's meaning, the
    source's file and the constraints.
    """
    if not kernels:
        out.print(ladder_table(KERNELS))
        return
    for kernel, _ in map(resolve, kernels):
        out.print(kernel_table(kernel))
        say(f"  source: {kernel.source}", indent=4)
        for sentence in kernel.constraints:
            say(f"  - {sentence}", indent=4)
        for name, overrides in kernel.presets.items():
            pairs = ",".join(f"{parameter}={value}" for parameter, value in overrides.items())
            say(f"  {kernel.name}:{name} is {pairs}", indent=4)
