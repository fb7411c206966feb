"""The headers of the Python extensions, and a digest of sources, by which a compiled library is known to be of them.

setup.py runs this file by itself, so it imports nothing but Python's own modules.
"""

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

HEADERS = tuple(sorted(Path(__file__).resolve().parent.glob("*.h")))


def digest(files: Iterable[Path], options: Sequence[str] = ()) -> str:
    """SHA-256 of the files' names and contents, and of the options that they are compiled with."""
    found = hashlib.sha256(repr(tuple(options)).encode())
    for file in files:
        found.update(b"\0".join((b"", file.name.encode(), file.read_bytes())))
    return found.hexdigest()
