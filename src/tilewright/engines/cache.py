"""Compiled code on disk, shared by the engines: safe under several processes and against damaged entries."""

import atexit
import contextlib
import hashlib
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import platformdirs

from tilewright.errors import EngineUnavailableError
from tilewright.files import write_whole

FOLDER_VARIABLE = "TILEWRIGHT_CACHE"
"""Environment variable that names another cache folder."""

_SCRATCH = "tilewright-build-"
"""How the names of temporary folders begin."""

_ABANDONED_S = 24 * 3600.0
"""Temporary files and folders that are older belong to processes that were killed: no compiler takes so long."""


def key(*parts: object) -> str:
    """A name for what these parts (source text, options, versions) compile to."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(repr(part).encode() + b"\0")
    return digest.hexdigest()[:32]


def folder() -> Path:
    """The cache folder: $TILEWRIGHT_CACHE, or the user's cache folder; it need not exist yet."""
    named = os.environ.get(FOLDER_VARIABLE)
    return Path(named) if named else platformdirs.user_cache_path("tilewright")


def find(name: str, suffix: str) -> Path | None:
    """The file of an entry, or None where there is none that is whole."""
    for place in {folder(), _writable(folder())}:
        try:
            candidates = list(_shelf(place, name).glob(f"{name}-*{suffix}"))
        except OSError:
            continue
        for path in candidates:
            with contextlib.suppress(OSError):
                if path.name == _file_name(name, path.read_bytes(), suffix):
                    return path
    return None


def store(name: str, suffix: str, data: bytes) -> Path:
    """Write an entry and return its file.

    The file's name carries a digest of its content, and it appears under that name only once it is
    whole: a reader never sees half an entry, and a damaged one is not taken for a good one.

    Raises:
        EngineUnavailableError: neither the cache folder nor that of temporary files can be written, or both are full.
    """
    file = _file_name(name, data, suffix)
    try:
        place = _writable(folder())
        _sweep(place)
        path = _shelf(place, name) / file
        try:
            write_whole(path, data)
        except OSError as error:
            path = _shelf(_spare(folder(), error), name) / file
            write_whole(path, data)
    except OSError as error:
        raise EngineUnavailableError(
            f"cannot write compiled code: {error.strerror}. Set {FOLDER_VARIABLE} or TMPDIR to a folder with room."
        ) from error
    return path


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """In a `with` block: a temporary folder. If this process is killed in it, a later one removes the folder."""
    with tempfile.TemporaryDirectory(prefix=_SCRATCH) as temporary:
        yield Path(temporary)


@lru_cache
def _sweep(place: Path) -> None:
    """Remove what processes that were killed left behind, once in a process."""
    oldest = time.time() - _ABANDONED_S
    for path in (*place.glob("*/.*.part"), *Path(tempfile.gettempdir()).glob(f"{_SCRATCH}*")):
        with contextlib.suppress(OSError):
            if path.lstat().st_mtime < oldest:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def _shelf(place: Path, name: str) -> Path:
    """The folder, one of many, that holds an entry: looking into one with thousands of files takes milliseconds."""
    return place / name[-2:]


def _file_name(name: str, data: bytes, suffix: str) -> str:
    return f"{name}-{hashlib.sha256(data).hexdigest()[:16]}{suffix}"


_serving: dict[Path, Path] = {}
"""For cache folders, the folder that entries are written to in this process."""


def _writable(place: Path) -> Path:
    """The folder itself where it can be written, else one for this process alone, with a warning."""
    if place not in _serving:
        try:
            place.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=place):
                _serving[place] = place
        except OSError as error:
            return _spare(place, error)
    return _serving[place]


def _spare(place: Path, error: OSError) -> Path:
    """Have a folder of this process serve for one that cannot be written, with a warning, and return it."""
    warnings.warn(
        f"cannot write the cache folder {place} ({error.strerror}); compiled kernels will not outlive this "
        f"process. Set {FOLDER_VARIABLE} to a folder that can be written.",
        RuntimeWarning,
        stacklevel=2,
    )
    spare = Path(tempfile.mkdtemp(prefix=_SCRATCH))
    atexit.register(shutil.rmtree, spare, ignore_errors=True)
    _serving[place] = spare
    return spare
