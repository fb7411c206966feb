"""Folders of which code is loaded: nobody but this user, or root, may have written what lies in them."""

import errno
import os
import pwd
import stat
from collections import deque
from pathlib import Path
from typing import NamedTuple

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_MOST_LINKS = 40


class UnsafeError(PermissionError):
    """Others could have written what lies in a folder, and code in it would run as this user."""

    def __init__(self, why: str) -> None:
        super().__init__(errno.EPERM, why)


class OwnFolder(NamedTuple):
    """A folder that has been checked, and is held open: that another folder now has its name makes no difference."""

    descriptor: int
    identity: tuple[int, ...]
    """Which folder it is, and who may write to it."""
    root: Path
    """Where it lay."""
    path: Path
    """A path of the open folder, for as long as this process lives, which other programs may be given too."""

    def is_there(self) -> bool:
        """Whether this folder still lies there, with the same owner and mode, and is still open."""
        try:
            return _identity(self.root.stat()) == self.identity == _identity(os.fstat(self.descriptor))
        except OSError:
            return False


def _identity(state: os.stat_result) -> tuple[int, ...]:
    return state.st_dev, state.st_ino, state.st_uid, state.st_mode


def writable_by_others(state: os.stat_result) -> str | None:
    """How somebody else than this user and root could have written a file or folder; None where nobody could."""
    if state.st_uid not in (os.geteuid(), 0):
        return f"it belongs to user {_user(state.st_uid)}"
    if state.st_mode & _OTHERS_WRITE:
        return f"other users may write to it (mode {stat.S_IMODE(state.st_mode):04o})"
    return None


def open_own(root: Path) -> OwnFolder:
    """Open a folder and check it.

    What lies above it is only checked where links lead to it: one counts only where nobody else could have made it.

    Raises:
        UnsafeError: others may have written what lies in it.
        OSError: there is no such folder, or it cannot be opened.
    """
    descriptor = os.open(_without_links(root), _FOLDER)
    try:
        state = os.fstat(descriptor)
        if why := writable_by_others(state):
            own = state.st_uid == os.geteuid()
            raise UnsafeError(why + f"; chmod -R go-w {root} ends that" * own)
    except BaseException:
        os.close(descriptor)
        raise
    return OwnFolder(descriptor, _identity(state), root, _path_of(descriptor, root))


def make(root: Path) -> None:
    """Make a folder, and those above it that are missing, for this user alone.

    Raises:
        OSError: one cannot be made.
    """
    missing = [root]
    while not missing[-1].parent.exists():
        missing.append(missing[-1].parent)
    for folder in reversed(missing):
        try:
            folder.mkdir(0o700)
        except FileExistsError:
            if not folder.is_dir():
                raise


def _without_links(root: Path) -> Path:
    """A path without links to the same folder.

    Raises:
        UnsafeError: others may have made one of the links.
        OSError: it does not exist.
    """
    at, parts, links = Path("/"), deque(root.absolute().parts[1:]), 0
    while parts:
        part = parts.popleft()
        if part == "..":
            at = at.parent
            continue
        state = os.lstat(at / part)
        if not stat.S_ISLNK(state.st_mode):
            at /= part
            continue
        links += 1
        above = os.lstat(at)
        sticky = above.st_mode & stat.S_ISVTX and state.st_uid in (os.geteuid(), above.st_uid)
        if links > _MOST_LINKS or (above.st_mode & _OTHERS_WRITE and not sticky):
            raise UnsafeError(f"the link {at / part} may be another user's")
        target = (at / part).readlink()
        parts.extendleft(reversed(target.parts[1:] if target.is_absolute() else target.parts))
        at = Path("/") if target.is_absolute() else at
    return at


def _path_of(descriptor: int, root: Path) -> Path:
    """A path that leads to an open folder whatever is renamed; that of the folder where the system has none."""
    through = Path(f"/proc/{os.getpid()}/fd/{descriptor}")
    try:
        return through if os.path.samestat(through.stat(), os.fstat(descriptor)) else root
    except OSError:
        return root


def _user(number: int) -> str:
    try:
        return f"{pwd.getpwuid(number).pw_name} ({number})"
    except KeyError:
        return str(number)
