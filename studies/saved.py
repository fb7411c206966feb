"""JSON files of what was counted and computed for the pages, so that these are made again without a compiler."""

from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from tilewright.core.errors import RecordsError
from tilewright.core.files import faults, write_whole

T = TypeVar("T")


def save(path: Path, form: TypeAdapter[T], facts: T) -> None:
    """Write facts of this form. The file appears whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    write_whole(path, form.dump_json(facts, indent=1) + b"\n")


def load(path: Path, form: TypeAdapter[T], what: str, kind: str) -> T:
    """Facts of this form from a file.

    Raises:
        RecordsError: the file cannot be read, or holds something else. It speaks of `what` there should be in the file,
            and of the `kind` of file.
    """
    try:
        return form.validate_json(path.read_bytes())
    except OSError as error:
        raise RecordsError(f"cannot read the {what} in {path}: {error.strerror}") from error
    except ValidationError as error:
        raise RecordsError(f"{path} is not {kind}: {faults(error)}") from error
