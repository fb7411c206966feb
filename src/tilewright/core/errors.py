"""The errors that tilewright raises for what a caller or a machine got wrong.

Each also derives from the built-in error of its kind, so callers may catch either.
"""

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str], listed: bool = False) -> str:
    """How a message about an unknown name ends: '; did you mean X?', or the list where nothing is near.

    listed: whether the message has the list already.
    """
    names = list(known)
    for attempt in (name, name.upper(), name.lower()):
        if near := difflib.get_close_matches(attempt, names, n=1):
            return f"; did you mean {near[0]!r}?"
    if listed:
        return ""
    return f"; there are {', '.join(names)}" if names else "; there are none"


class TilewrightError(Exception):
    """Base of every error that tilewright raises on purpose."""

    status = 1
    """Exit status of a command that it ends: 2 of an `AskedError`, 1 of all others."""


class AskedError(TilewrightError):
    """Base of errors of which what was asked for is the fault, and not the machine."""

    status = 2


class ProblemError(AskedError, ValueError):
    """A matrix product that cannot be computed: sizes, leading dimensions or scalars are wrong."""


class NotSampledError(ProblemError):
    """A product of which no few blocks can be checked: they share tiles, or need more than the operands as they lie."""


class ArrayError(AskedError, ValueError):
    """An array argument has the wrong rank, shape, layout, device or is not writable."""


class DtypeError(AskedError, TypeError):
    """An element type that is not supported, or element types that differ between operands."""


class KernelNotFoundError(AskedError, LookupError):
    """No kernel or preset has this name."""


class GpuNotFoundError(AskedError, LookupError):
    """No GPU of this name is listed, or several are that the name may mean."""


class SuiteNotFoundError(AskedError, LookupError):
    """No suite has this name."""


class RecordsError(AskedError, ValueError):
    """A file of records that cannot be written, read or understood."""


class WriteError(RecordsError):
    """A file that cannot be written, as on a full disk."""

    status = 1


class PathError(AskedError, ValueError):
    """A path that a command must not write to, or cannot: nothing has been run or written."""


class FigureError(AskedError, ValueError):
    """A figure that a kernel or a problem does not have, or that cannot have this name."""


class LibraryError(TilewrightError, ImportError):
    """A library that only some commands need is not installed."""


class ConfigError(AskedError, ValueError):
    """A config names an unknown parameter, or breaks a constraint of its kernel."""


class CompileError(TilewrightError, RuntimeError):
    """A kernel source did not compile; the compiler's own words are in the message."""


class LaunchError(TilewrightError, RuntimeError):
    """A launch that a GPU would refuse, or a kernel that failed while it ran."""


class MemoryFullError(TilewrightError, MemoryError):
    """There is less memory than what was asked for takes."""


class EngineNotFoundError(AskedError, ValueError):
    """No engine has this name."""


class EngineUnavailableError(TilewrightError, RuntimeError):
    """This machine lacks what the engine needs: a GPU, a driver, a compiler or a library."""
