"""Plants faults into a copy of a checkout: texts that are there once, wherever their file lies."""

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from .faults import Fault

SOURCES = Path("src") / "tilewright"


class PlantingError(Exception):
    """A fault that cannot be planted; the message says which, and why."""


def texts(checkout: Path) -> dict[Path, str]:
    """Sources of a checkout, by their files."""
    found = {}
    for path in sorted((checkout / SOURCES).rglob("*")):
        if path.is_file() and path.suffix not in (".so", ".pyc"):
            found[path] = path.read_text(encoding="utf-8")
    return found


class Sources:
    """Sources of a checkout as one text, to look for faults in."""

    def __init__(self, checkout: Path) -> None:
        self._files = texts(checkout)
        self._whole = "\0".join(self._files.values())

    def count(self, text: str) -> int:
        """How often a text is there."""
        return self._whole.count(text)

    def file_of(self, fault: Fault) -> Path:
        """The file that a fault is in.

        Raises:
            PlantingError: its text is there more than once, or not at all.
        """
        count = self.count(fault.text)
        if count != 1:
            raise PlantingError(f"{fault.name!r}: its text must be in the sources once, and is {count} times")
        return next(path for path, text in self._files.items() if fault.text in text)

    def planted(self, fault: Fault) -> str:
        """Text of a fault's file with the fault in it.

        Raises:
            PlantingError: as `file_of`.
        """
        return self._files[self.file_of(fault)].replace(fault.text, fault.instead)

    def replacing(self, fault: Fault) -> contextlib.AbstractContextManager[Path]:
        """In a `with` block: the file of a fault has it.

        Raises:
            PlantingError: as `file_of`.
        """
        path = self.file_of(fault)
        return _rewritten(path, self._files[path], self.planted(fault))


@contextlib.contextmanager
def _rewritten(path: Path, before: str, after: str) -> Iterator[Path]:
    _write(path, after)
    try:
        yield path
    finally:
        _write(path, before)


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    # Python knows a source by its size and by the second in which it was written: both may be alike.
    for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
        compiled.unlink()


def copy_checkout(checkout: Path, to: Path) -> None:
    """Copy what git knows of a checkout, as it is there now, and what was compiled of it.

    Raises:
        PlantingError: it is no checkout.
    """
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=checkout, capture_output=True
    )
    if listed.returncode:
        raise PlantingError(f"{checkout} is no checkout: {listed.stderr.decode().strip()}")
    names = [Path(name) for name in listed.stdout.decode().split("\0") if name]
    names += [path.relative_to(checkout) for path in (checkout / SOURCES).rglob("*.so")]
    for name in names:
        if (checkout / name).is_file():  # one that is deleted and not committed is not
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(checkout / name, to / name, follow_symlinks=False)
