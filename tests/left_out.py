"""Statements of a kernel that are left out while it runs: one compiled kernel has the faults of many."""

import shutil
from dataclasses import replace

from tilewright.runtime.nvrtc import INCLUDE

VARIABLE = "LEFT_OUT"
"""Environment variable with the number of the statement that is left out; with 0 none is."""

HEAD = f"""__attribute__((noinline, no_sanitize("thread"))) static int left_out() {{
    const char* number = getenv("{VARIABLE}"); return number ? atoi(number) : 0; }}""".replace("\n", "")
"""Code ahead of the first line of a file with such statements."""


def guarded(statement, number):
    """A statement that is executed where another number than this is left out."""
    return f"{{ if (left_out() != {number}) {{ {statement} }} }}"


def switchable(text, statements):
    """A file in which each of these statements, which are there once, has a number, from 1 on. Only the first line of
    one is left out, up to a comment; what is behind that says which is meant."""
    for number, statement in enumerate(statements, 1):
        assert text.count(statement) == 1
        line = statement.partition("\n")[0].partition("  //")[0]
        text = text.replace(statement, statement.replace(line, guarded(line, number), 1))
    return f"{HEAD} {text}"


def copied(kernel, folder):
    """The kernel with its source in this folder, and around that the headers, which may be changed there: all but those
    of ptx/, of which the emulator has its own."""
    shutil.copytree(INCLUDE, folder, ignore=shutil.ignore_patterns("ptx"), dirs_exist_ok=True)
    shutil.copy(kernel.source, folder)
    return replace(kernel, source=folder / kernel.source.name)
