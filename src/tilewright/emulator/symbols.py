"""Places in a kernel's source from addresses in its library, and the variables in its shared memory."""

import re
import shutil
import struct
import subprocess
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from tilewright.core.errors import EngineUnavailableError
from tilewright.emulator.own_names import as_written

_HERE = Path(__file__).parent
_OWN = tuple(path.name for path in (*(_HERE / "runtime").glob("*.hpp"), *(_HERE / "include").rglob("*.*")))
"""Files whose functions stand for the GPU's: a call of one is a place of the file that calls."""

_TOOLS = ("addr2line", "llvm-addr2line")


class SourceLine(NamedTuple):
    """A line of a kernel's source or of a header that it includes: the file's name without its folder, and the line,
    counted from 1."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


SourceLocation = tuple[SourceLine, ...]
"""A line, and if it is in a function that was inlined, the line of the call, and so on outwards."""


def places(library: Path, sites: Iterable[int]) -> dict[int, SourceLocation]:
    """Where in the source accesses are.

    Args:
        library: a kernel of the CHECKED build.
        sites: what the hooks of accesses return to, as addresses in the library.

    Returns:
        for each site its place, empty where the compiler has left no trace.

    Raises:
        EngineUnavailableError: binutils is not there.
    """
    return _looked_up(library, tuple(sorted(set(sites))))


@lru_cache(maxsize=256)
def _looked_up(library: Path, sites: tuple[int, ...]) -> dict[int, SourceLocation]:
    if not sites:
        return {}
    tool = next(filter(None, map(shutil.which, _TOOLS)), None)
    if tool is None:
        raise EngineUnavailableError(
            f"to find lines of source takes {' or '.join(_TOOLS)}, and there is none: get one with "
            "'apt install binutils' or 'dnf install binutils'"
        )
    # A site is behind the call: one byte before it is in the call, and on its line.
    addresses = [f"{site - 1:#x}" for site in sites]
    command = [tool, "-a", "-i", "-e", str(library)]
    result = subprocess.run(command, input="\n".join(addresses), capture_output=True, encoding="utf-8", check=False)
    found: dict[int, SourceLocation] = {}
    for line in result.stdout.splitlines():
        if re.fullmatch(r"0x[0-9a-f]+", line):
            current = int(line, 16) + 1
            found[current] = ()
        elif (match := re.match(r"(?:.*/)?([^/]+):(\d+)", line)) and match[1] not in _OWN:
            found[current] = (*found[current], SourceLine(match[1], int(match[2])))
    return {site: found.get(site, ()) for site in sites}


class SharedVariable(NamedTuple):
    """A `__shared__` variable of a kernel."""

    name: str
    offset: int
    """Bytes from the start of static shared memory."""
    bytes: int


_GUARD = "_ZGV"  # says whether a variable has been constructed: Itanium C++ ABI, "Guard Variables"
_SYMTAB, _TLS = 2, 6  # a section's type and a symbol's: ELF specification


@lru_cache(maxsize=256)
def shared_variables(library: Path) -> tuple[SharedVariable, ...]:
    """The variables in a kernel's static shared memory, in the order in which they lie there.

    Read from the symbols of its library, a 64-bit ELF file: `__shared__` variables are thread-local there.
    """
    data = library.read_bytes()
    (table,) = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, table + i * size) for i in range(count)]
    variables = []
    for _, kind, _, _, offset, length, link, _, _, entry in sections:
        if kind != _SYMTAB:
            continue
        names = sections[link][4]
        for at in range(offset, offset + length, entry):
            name, info, _, section, value, extent = struct.unpack_from("<IBBHQQ", data, at)
            if info & 0xF == _TLS and section:
                mangled = data[names + name : data.index(b"\0", names + name)].decode()
                if extent and not mangled.startswith(_GUARD):
                    variables.append(SharedVariable(as_written(_plain(mangled)), value, extent))
    return tuple(sorted(variables, key=lambda variable: variable.offset))


def _plain(mangled: str) -> str:
    """A variable's own name: the last in its symbol, behind its length (Itanium C++ ABI, "Mangling")."""
    numbered = re.sub(r"_\d*_?$", "", mangled)  # the second of one name in a function has a number behind it
    for symbol in (mangled, numbered):
        for end, start in ((match.end(), match.start()) for match in re.finditer(r"(?<=[ELNZ])\d+", symbol)):
            if any(len(symbol) - end == int(symbol[first:end]) > 0 for first in range(start, end)):
                return symbol[end:]
    return mangled
