"""Files that users ask for: checked before a run, written whole or not at all, never over a file of another kind."""

import json
import os
import tempfile
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tilewright.core.errors import PathError, WriteError

if TYPE_CHECKING:
    from pydantic import ValidationError


class FileKind(NamedTuple):
    """A kind of file that is written here."""

    name: str
    """In a message, as in 'a file of records'."""
    holds: Callable[[bytes], bool]
    """Whether a file with this content is one."""


class Output(NamedTuple):
    """A file that a user asks for, by the argument that names it; a path of None where it is not wanted."""

    argument: str
    path: Path | None
    kind: FileKind


def json_kind(name: str, *fields: str) -> FileKind:
    """The kind of JSON objects that have these fields."""

    def holds(content: bytes) -> bool:
        facts = parsed(content)
        return isinstance(facts, dict) and facts.keys() >= set(fields)

    return FileKind(name, holds)


@lru_cache(maxsize=1)  # a file that may be of many kinds is parsed once
def parsed(content: bytes) -> Any:
    """Content of a file, parsed as JSON, not to be changed; None where it is no JSON."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError):  # the second of brackets in brackets, thousands of them
        return None


_MOST_FAULTS = 3


def faults(error: "ValidationError | UnicodeDecodeError") -> str:
    """Errors of a file that was read, as one line."""
    if isinstance(error, UnicodeDecodeError):
        return "it is no text"
    named = [
        ": ".join(filter(None, (".".join(map(str, one["loc"])), one["msg"].removeprefix("Value error, "))))
        for one in error.errors(include_url=False, include_context=False, include_input=False)
    ]
    more = len(named) - _MOST_FAULTS
    return "; ".join(named[:_MOST_FAULTS]) + (f"; and {more} more" if more > 0 else "")


def check_outputs(outputs: Iterable[Output], inputs: Iterable[Path] = ()) -> None:
    """Refuse, before a run, what `save` would fail to write or should not replace. Missing folders are no fault.

    Args:
        outputs: what is to be written.
        inputs: files that the command reads.

    Raises:
        PathError: a path is an input or that of another output, or holds something that is not of the output's kind,
            or cannot be written.
    """
    taken = {Path(os.path.realpath(path)): f"{path}, which is read" for path in inputs}
    for argument, path, kind in outputs:
        if path is None:
            continue
        real = Path(os.path.realpath(path))  # as Path.resolve, which fails where links form a circle
        reason = _unwritable(real)
        if not reason and (other := next((taken[one] for one in taken if _same(one, real)), None)):
            raise PathError(f"{argument} must name a file of its own, got {other}")
        if reason := reason or _unlike(real, kind):
            raise PathError(f"{argument} takes a path for {kind.name}, got {path}, {reason}")
        taken[real] = f"{path}, which another option names too"


def _same(one: Path, other: Path) -> bool:
    """Whether two paths lead to one file, be it under two names."""
    return one == other or (one.exists() and other.exists() and one.samefile(other))


def _unwritable(path: Path) -> str | None:
    """Why a file cannot be written; None where it can."""
    try:
        if path.is_dir():
            return "which is a folder"
        if path.exists() and not path.is_file():
            return "which is a device or a pipe"
        folder = next(parent for parent in path.parents if parent.exists())
        if not folder.is_dir():
            return f"but {folder} is not a folder"
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as error:
        return f"which cannot be written: {error.strerror}"


def _unlike(path: Path, kind: FileKind) -> str | None:
    """Why a file that is there must not be replaced by one of a kind; None where it may be."""
    try:
        content = path.read_bytes() if path.exists() else b""
    except OSError as error:
        return f"which is there and cannot be read: {error.strerror}"
    return "which is there and holds something else" if content and not kind.holds(content) else None


def write_whole(path: Path, data: bytes) -> None:
    """Write a file under a temporary name in its folder, then rename it, so that no reader sees half of it.

    The folder is made where it is missing. A link stays, and the file that it leads to is written.

    Raises:
        OSError: the folder or the file cannot be written; an earlier file of this name is left as it was.
    """
    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    put(path, data)


def put(path: Path, data: bytes) -> None:
    """Write a file whole or not at all, into an existing folder; a link of this name is replaced."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        Path(temporary).chmod(0o644)  # mkstemp's files are for their owner alone
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def save(path: Path, data: bytes, subject: str) -> None:
    """Write a file as `write_whole` does, for a user who asked for it.

    Args:
        path: the file.
        data: its content.
        subject: what the error says cannot be written, as in 'the records to run.json'.

    Raises:
        WriteError: the folder or the file cannot be written.
    """
    try:
        write_whole(path, data)
    except OSError as error:
        raise WriteError(f"cannot write {subject}: {error.strerror}") from error


def save_json(path: Path, facts: Any, subject: str) -> None:
    """`save` of facts as JSON, which has no infinities and no NaN."""
    save(path, as_json(facts).encode(), subject)


def as_json(facts: Any) -> str:
    """Facts as the text of a JSON file."""
    return json.dumps(facts, indent=1, allow_nan=False) + "\n"
