"""Writing files that appear whole or not at all."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from tilewright.errors import RecordsError


def write_whole(path: Path, data: bytes) -> None:
    """Write a file under a temporary name in its folder, then rename it, so that no reader sees half of it.

    Raises:
        OSError: the folder or the file cannot be written; an earlier file of this name is left as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
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
        RecordsError: the folder or the file cannot be written.
    """
    try:
        write_whole(path, data)
    except OSError as error:
        raise RecordsError(f"cannot write {subject}: {error.strerror}") from error


def save_json(path: Path, facts: Any, subject: str) -> None:
    """`save` of facts as JSON, which has no infinities and no NaN."""
    save(path, (json.dumps(facts, indent=1, allow_nan=False) + "\n").encode(), subject)
