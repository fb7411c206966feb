"""Launching the text of a kernel on the emulator."""

from functools import partial

from tilewright.emulator.compiler import FAST, compile_kernel
from tilewright.emulator.program import UNWATCHED, load_compiled


def launch_source(
    source, entry, grid, block, arguments, *, defines=None, shared_bytes=0, build=FAST, watch=UNWATCHED, cluster=1
):
    """Compile a kernel (a `.cu` file, or the text of one) and launch it: see compile_kernel and Program.launch."""
    program = load_compiled(partial(compile_kernel, source, entry, defines, build), entry, build)
    program.launch(grid, block, arguments, shared_bytes, watch, cluster)
