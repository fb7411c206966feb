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

_State = tuple[int, ...]

_ABANDONED_S = 24 * 3600.0
"""Temporary files and folders that are older belong to processes that were killed: no compiler takes so long."""


def key(*parts: object) -> str:
    """A name for what these parts (source text, options, versions) compile to."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(repr(part).encode() + b"\0")
    return digest.hexdigest()[:32]


def texts_key(place: Path, *suffixes: str) -> str:
    """A name for the files in a folder and below that end so: their names and contents. Files are read again only
    where the system says that they have changed."""
    return _key_of(tuple(_states(str(place), "", suffixes or ("",))))


def _states(place: str, within: str, suffixes: tuple[str, ...]) -> Iterator[tuple[str, str, _State]]:
    """Path, name within the folder, and state of each of these files, in the order of names."""
    with os.scandir(place) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.is_dir():
                yield from _states(entry.path, f"{within}{entry.name}/", suffixes)
            elif entry.name.endswith(suffixes):
                yield entry.path, within + entry.name, _state(entry.stat())


@lru_cache(maxsize=64)
def _key_of(files: tuple[tuple[str, str, _State], ...]) -> str:
    return key(*((name, Path(path).read_bytes()) for path, name, _ in files))


def _state(of: os.stat_result) -> _State:
    """What changes with a file's content."""
    return of.st_ino, of.st_size, of.st_mtime_ns, of.st_ctime_ns


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
                if _is_whole(path, name, suffix, _state(path.stat())):
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


@lru_cache(maxsize=1024)
def _is_whole(path: Path, name: str, suffix: str, _of: _State) -> bool:
    return path.name == _file_name(name, path.read_bytes(), suffix)


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
