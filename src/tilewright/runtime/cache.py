"""Compiled code on disk, shared by the engines: safe under several processes, against damaged entries, and against code
that others could have written (own_folders.py).

The key is made of source, shared headers, options and compiler version. An entry's file name carries a digest of its
content and appears by renaming, so two processes cannot disturb each other, and a damaged entry is removed and compiled
again. Where all entries are larger than a bound, those that were used least recently are removed.
"""

import atexit
import contextlib
import hashlib
import math
import os
import re
import shutil
import stat
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, TypeVar

import platformdirs

from tilewright.core.errors import ConfigError, EngineUnavailableError
from tilewright.core.files import put
from tilewright.runtime.own_folders import OwnFolder, UnsafeError, make, open_own, writable_by_others

FOLDER_VARIABLE = "TILEWRIGHT_CACHE"
"""Environment variable that names another cache folder."""

BOUND_VARIABLE = "TILEWRIGHT_CACHE_GB"
"""Environment variable that says how many gigabytes the cache may have; inf: any number."""

MOST_GB = 8.0
"""Gigabytes that the cache has at most, where that variable is not set."""

_TRIMMED = 7 / 8
"""Share of these that is left where entries are removed."""

_UNSEEN = 1 / 32
"""Share of these that a process may write until it looks again for how large the cache is."""

_SPARE_VARIABLE = "_TILEWRIGHT_SPARE_CACHE"
"""Environment variable by which processes that this one starts know of the folder that serves for the cache's."""

_SCRATCH = "tilewright-build-"
"""How the names of temporary folders begin."""

_State = tuple[int, ...]

T = TypeVar("T")

_ABANDONED_S = 24 * 3600.0
"""Temporary files and folders that are older belong to processes that were killed: no compiler takes so long."""

_SETTLED_NS = 60 * 10**9
"""A file that is older, or was found longer ago, has been loaded by a process that found it."""

_ENTRY = re.compile(r"(.+)-[0-9a-f]{16}\.\w+")
"""How the file of an entry is named: the entry's name, and a digest of its content."""


def key(*parts: object) -> str:
    """A name for what these parts (source text, options, versions) compile to."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(repr(part).encode() + b"\0")
    return digest.hexdigest()[:32]


def texts_key(root: Path, *suffixes: str) -> str:
    """A name for the files in a folder and below that end so: their names and contents. Files are read again only
    where the system says that they have changed."""
    return _key_of(tuple(_states(str(root), "", suffixes or ("",))))


def _states(root: str, within: str, suffixes: tuple[str, ...]) -> Iterator[tuple[str, str, _State]]:
    """Path, name within the folder, and state of each of these files, in the order of names."""
    with os.scandir(root) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.is_dir():
                yield from _states(entry.path, f"{within}{entry.name}/", suffixes)
            elif entry.name.endswith(suffixes):
                yield entry.path, within + entry.name, _state(entry.stat())


@lru_cache(maxsize=64)
def _key_of(files: tuple[tuple[str, str, _State], ...]) -> str:
    return key(*((name, Path(path).read_bytes()) for path, name, _ in files))


def _state(of: os.stat_result) -> _State:
    """Facts about a file that change with its content."""
    return of.st_ino, of.st_size, of.st_mtime_ns, of.st_ctime_ns


def folder() -> Path:
    """The cache folder: $TILEWRIGHT_CACHE, or the user's cache folder; it need not exist yet."""
    named = os.environ.get(FOLDER_VARIABLE)
    return Path(named) if named else platformdirs.user_cache_path("tilewright")


def find(name: str, suffix: str) -> Path | None:
    """The file of an entry, or None where there is none that is whole and this user's own.

    The path leads through the open folder, so that nobody can put another file in its place.
    """
    for root in _readable(folder()):
        with contextlib.suppress(OSError):
            if found := _found(root, name, suffix):
                return found
    return None


def read(name: str, suffix: str) -> bytes | None:
    """Content of an entry; None as of `find`, and where another process has removed the entry meanwhile."""
    with contextlib.suppress(OSError):
        if found := find(name, suffix):
            return found.read_bytes()
    return None


def store(name: str, suffix: str, data: bytes) -> Path:
    """Write an entry and return its file; where another process was faster, that one's.

    The file's name carries a digest of its content, and it appears under that name only once it is
    whole: a reader never sees half an entry, and a damaged one is not taken for a good one.

    Raises:
        EngineUnavailableError: neither the cache folder nor that of temporary files can be written, or both are full.
        ConfigError: the bound that the environment gives is no number.
    """
    file, most = _file_name(name, data, suffix), most_bytes()
    try:
        root = _writable(folder())
        _sweep(root.path)
        try:
            entry = _put(root, name, suffix, file, data)
        except OSError as error:
            return _put(_spare(folder(), error), name, suffix, file, data)
        _trim(root, len(data), most)
        return entry
    except OSError as error:
        raise EngineUnavailableError(
            f"cannot write compiled code: {error.strerror}. Set {FOLDER_VARIABLE} or TMPDIR to a folder with room."
        ) from error


class CacheEntry(NamedTuple):
    """A file of the cache."""

    used_ns: int
    """When it was written, or found last."""
    bytes: int
    path: Path


def entries(root: Path) -> Iterator[CacheEntry]:
    """The files of all entries in a cache folder. What else lies there is none, whoever put it there."""
    for path in root.glob("*/*"):
        named = _ENTRY.fullmatch(path.name)
        if named and _shelf(named[1]) == path.parent.name:
            with contextlib.suppress(OSError):
                state = path.lstat()
                yield CacheEntry(max(state.st_atime_ns, state.st_mtime_ns), state.st_size, path)


def clear() -> tuple[int, int]:
    """Remove all entries of the cache folder; returns how many files these were, and how many bytes they had."""
    removed = [one.bytes for root in [_own(folder())] if root for one in entries(root.path) if _removed(one.path)]
    return len(removed), sum(removed)


def most_bytes() -> float:
    """Bytes that all entries may have.

    Raises:
        ConfigError: the environment says what is no number above 0.
    """
    named = os.environ.get(BOUND_VARIABLE) or MOST_GB
    with contextlib.suppress(ValueError):
        if (found := 1e9 * float(named)) > 0:
            return found
    raise ConfigError(f"{BOUND_VARIABLE} must be a number of gigabytes above 0, or inf, got {named!r}")


_unseen: dict[Path, float] = {}
"""By cache folder, bytes that this process has written there since it last looked for how large the cache is."""


def _trim(root: OwnFolder, added: int, most: float) -> None:
    """Remove the entries that were used least recently, where all together are larger than `most` bytes.

    Those that some process may have found and not yet loaded stay.
    """
    _unseen[root.root] = _unseen.get(root.root, math.inf) + added
    if most == math.inf or _unseen[root.root] <= _UNSEEN * most:
        return
    _unseen[root.root] = 0
    found, settled = sorted(entries(root.path)), time.time_ns() - _SETTLED_NS
    left = sum(one.bytes for one in found)
    if left <= most:
        return
    for one in found:
        if left <= _TRIMMED * most or one.used_ns > settled:
            return
        left -= one.bytes * _removed(one.path)


def _removed(path: Path) -> bool:
    """Remove a file, and say whether it was there and could be removed."""
    try:
        path.unlink()
    except OSError:
        return False
    return True


def drop(entry: Path) -> None:
    """Remove an entry that is of no use here, as code that does not load. What is no entry stays."""
    if any(entry.parent.parent == root.path for root in _readable(folder())):
        _removed(entry)


def loaded(make: Callable[[], Path], load: Callable[[Path], T], refused: type[Exception]) -> T:
    """Content of an entry. One that does not load, as that of another kind of machine, is removed, and made anew.

    Args:
        make: makes the entry, or finds it.
        load: loads it.
        refused: what `load` raises where it cannot.
    """
    entry = make()
    try:
        return load(entry)
    except refused:
        drop(entry)
    return load(make())


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """In a `with` block: a temporary folder. If this process is killed in it, a later one removes the folder."""
    with tempfile.TemporaryDirectory(prefix=_SCRATCH) as temporary:
        yield Path(temporary)


@lru_cache
def _sweep(root: Path) -> None:
    """Remove what processes of this user that were killed left behind, once in a process."""
    oldest = time.time() - _ABANDONED_S
    for path in (*root.glob("*/.*.part"), *Path(tempfile.gettempdir()).glob(f"{_SCRATCH}*")):
        with contextlib.suppress(OSError):
            state = path.lstat()
            if state.st_mtime < oldest and state.st_uid == os.geteuid():
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def _shelf(name: str) -> str:
    """The folder, one of many, that holds an entry: looking into one with thousands of files takes milliseconds."""
    return name[-2:]


def _found(root: OwnFolder, name: str, suffix: str) -> Path | None:
    """The file of an entry in a cache folder; what is there under its name and is not whole is removed.

    Raises:
        OSError: there is no folder for it.
        UnsafeError: others could have written what lies in that.
    """
    shelf = f"{root.path}/{_shelf(name)}"
    with os.scandir(shelf) as entries:
        files = [one for one in entries if one.name.endswith(suffix) and one.name.startswith(f"{name}-")]
    if files and (why := writable_by_others(os.lstat(shelf))):
        raise UnsafeError(f"{root.root / _shelf(name)}: {why}")
    found: list[tuple[int, str]] = []
    for file in files:
        with contextlib.suppress(OSError):
            state = _marked_used(file)
            if _is_own(file, state, root) and _is_whole(file.path, name, suffix, _state(state)):
                found.append((state.st_mtime_ns, file.path))
            else:
                Path(file.path).unlink()
    if len(found) > 1:
        _remove_doubles(found)
    return Path(min(found)[1]) if found else None


def _marked_used(file: os.DirEntry[str]) -> os.stat_result:
    """State of a file that was found, which then says so: by its time of access, whatever the disk notes by itself."""
    state, now = file.stat(follow_symlinks=False), time.time_ns()
    if now - max(state.st_atime_ns, state.st_mtime_ns) > _SETTLED_NS:
        with contextlib.suppress(OSError):  # it may be another's
            os.utime(file.path, ns=(now, state.st_mtime_ns), follow_symlinks=False)
            return Path(file.path).lstat()
    return state


def _is_own(file: os.DirEntry[str], state: os.stat_result, root: OwnFolder) -> bool:
    """Whether nobody else can have written a file; where somebody can, that is said once."""
    why = writable_by_others(state) if stat.S_ISREG(state.st_mode) else "it is a link, or no file"
    if why and not _planted:
        _planted.append(file.name)
        said = f"the cache {root.root} had {file.name}, which is not loaded but compiled anew: {why}"
        warnings.warn(said, RuntimeWarning, stacklevel=2)
    return not why


def _remove_doubles(found: list[tuple[int, str]]) -> None:
    """Leave the oldest of several files of an entry, which processes compiled at the same time."""
    settled = time.time_ns() - _SETTLED_NS
    for changed, path in sorted(found)[1:]:
        if changed < settled:
            _removed(Path(path))


def _put(root: OwnFolder, name: str, suffix: str, file: str, data: bytes) -> Path:
    """Write an entry into a cache folder, if it is not there by now."""
    shelf = root.path / _shelf(name)
    with contextlib.suppress(FileExistsError):
        shelf.mkdir(0o700)
    if found := _found(root, name, suffix):
        return found
    put(shelf / file, data)
    return shelf / file


@lru_cache(maxsize=1024)
def _is_whole(path: str, name: str, suffix: str, _of: _State) -> bool:
    return Path(path).name == _file_name(name, Path(path).read_bytes(), suffix)


def _file_name(name: str, data: bytes, suffix: str) -> str:
    return f"{name}-{hashlib.sha256(data).hexdigest()[:16]}{suffix}"


_planted: list[str] = []
"""The first file that somebody else could have written, once that has been said."""

_opened: dict[Path, OwnFolder] = {}
"""Cache folders that this process reads."""

_spares: dict[Path, OwnFolder] = {}
"""For cache folders that cannot be used, the folder that entries are written to in this process."""


def _forget() -> None:
    """In a process that was forked: paths of open folders are the parent's, which may end."""
    for known in (_opened, _spares):
        known.clear()


os.register_at_fork(after_in_child=_forget)


def _own(root: Path) -> OwnFolder | None:
    """The folder itself; None where it is missing, and, with a warning, where it cannot be used."""
    opened = _opened.get(root)
    if opened is None or not opened.is_there():
        try:
            opened = _opened[root] = open_own(root)
        except FileNotFoundError:
            return None
        except OSError as error:
            _spare(root, error)
            return None
    return opened


def _readable(root: Path) -> list[OwnFolder]:
    """The folders that entries are looked for in."""
    return [one for one in (_own(root), _spares.get(root)) if one]


def _writable(root: Path) -> OwnFolder:
    """The folder itself where it can be made and used, else one for this process alone, with a warning."""
    if root not in _spares:
        try:
            make(root)
        except OSError as error:
            return _spare(root, error)
        if own := _own(root):
            return own
    return _spare(root)


def _spare(root: Path, error: OSError | None = None) -> OwnFolder:
    """Have a folder of this process serve for one that cannot be used, with a warning, and return it."""
    if root in _spares and _spares[root].is_there():
        return _spares[root]
    of, _, inherited = os.environ.get(_SPARE_VARIABLE, "").partition("\n")
    if of == str(root):
        with contextlib.suppress(OSError):
            _spares[root] = open_own(Path(inherited))
            return _spares[root]
    if error:
        advice = f"Set {FOLDER_VARIABLE} to a folder that is yours alone and can be written."
        said = f"cannot use the cache folder {root} ({error.strerror}); compiled kernels will not outlive this process."
        warnings.warn(f"{said} {advice}", RuntimeWarning, stacklevel=2)
    spare = Path(tempfile.mkdtemp(prefix=_SCRATCH))
    atexit.register(shutil.rmtree, spare, ignore_errors=True)
    _spares[root] = open_own(spare)
    os.environ[_SPARE_VARIABLE] = f"{root}\n{spare}"
    return _spares[root]
