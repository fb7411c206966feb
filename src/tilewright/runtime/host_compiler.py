"""This machine's C++ compiler, which builds what runs on the host: the emulator's code and the launcher."""

import contextlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from tilewright.core.errors import CompileError, EngineUnavailableError, MemoryFullError
from tilewright.runtime import cache
from tilewright.runtime.side_by_side import ended_by

SUFFIX = ".so"
"""Suffix of the shared objects that it makes."""


_NO_MEMORY = re.compile(
    r"^(?:virtual memory exhausted|terminate called after throwing an instance of 'std::bad_alloc'"
    r"|(?:LLVM ERROR|[\w./+-]*(?:cc1plus|g\+\+|c\+\+|clang|as|ld|collect2)[\w.+-]*): [^\n]*"
    r"(?:out of memory|memory exhausted|Cannot allocate memory|Killed signal terminated program))",
    re.MULTILINE,
)
"""In what compilers and linkers print where memory is full, or the system has ended them."""


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler that works on this machine."""

    command: tuple[str, ...]
    native: tuple[str, ...]
    """Options that let it use all that this processor can do."""
    macros: str
    """Everything that it predefines: its version, and the processor's instruction sets."""

    @cached_property
    def key(self) -> str:
        """A name for it, of which names for what it compiles are made."""
        return cache.key(self.command, self.native, self.macros)

    @property
    def version(self) -> str:
        """Name and version, as in 'GCC 12.2.0'."""
        match = re.search(r'#define __VERSION__ "(.*)"', self.macros)
        version = match[1] if match else "of unknown version"
        return version if self.is_clang else f"GCC {version}"

    @cached_property
    def is_clang(self) -> bool:
        """Whether it is Clang under whatever name, else GCC."""
        return "#define __clang__ " in self.macros

    @cached_property
    def gcc(self) -> int:
        """GCC's major version; 0 of Clang."""
        match = re.search(r"#define __GNUC__ (\d+)", self.macros)
        return int(match[1]) if match and not self.is_clang else 0

    def run(self, arguments: Sequence[str]) -> None:
        """Compile or link.

        Raises:
            CompileError: it fails; the message is the compiler's.
            MemoryFullError: it has too little memory.
        """
        with cache.scratch() as folder:  # for the compiler's own files, which it leaves there where it is killed
            result = run_watched([*self.command, *arguments], {**os.environ, "TMPDIR": str(folder)})
        if result.returncode != 0 and _NO_MEMORY.search(result.stderr):
            raise MemoryFullError(f"too little memory to compile: {self.version} says:\n{result.stderr.strip()}")
        if result.returncode != 0:
            raise CompileError(f"{self.version} says:\n{result.stderr.strip()}")


def find_compiler() -> Compiler:
    """The compiler that CXX names, else g++, clang++ or c++.

    Raises:
        EngineUnavailableError: there is none, or it does not work.
    """
    return _probe(os.environ.get("CXX", ""), os.environ.get("PATH", ""))


@lru_cache
def _probe(named: str, _path: str) -> Compiler:
    try:
        command = shlex.split(named)
    except ValueError as error:
        raise EngineUnavailableError(f"CXX must be a command, got {named!r}: {error}") from None
    if command and shutil.which(command[0]) is None:
        raise EngineUnavailableError(f"CXX is {named!r}, but there is no program {command[0]!r}")
    if not command:
        command = [name for name in ("g++", "clang++", "c++") if shutil.which(name)][:1]
    if not command:
        raise EngineUnavailableError(
            "there is no C++ compiler: no g++, clang++ or c++. Get one with 'apt install g++', "
            "'dnf install gcc-c++' or 'xcode-select --install', or set CXX to one."
        )
    for native in (["-march=native"], ["-mcpu=native"], []):
        probe = run_watched([*command, "-std=c++17", *native, "-dM", "-E", "-x", "c++", "-"])
        if probe.returncode == 0:
            return Compiler(tuple(command), tuple(native), probe.stdout)
    raise EngineUnavailableError(f"the C++ compiler {shlex.join(command)!r} does not work: {probe.stderr.strip()}")


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """In a `with` block: the name of a shared object to build, in a folder of its own that goes afterwards."""
    with cache.scratch() as folder:
        yield folder / f"output{SUFFIX}"


_WATCHED = """
exec 3<&0 </dev/null
(read -r _ <&3; kill -KILL -$$) >/dev/null 2>&1 &
"$@" 3<&-
status=$?
kill -KILL $! 2>/dev/null
exit $status
"""
"""Runs a program next to a watcher, which reads from a pipe whose other end this process holds. When that is closed,
which the end of this process does too, the watcher kills its group: the program and all that this has started."""


def run_watched(
    command: Sequence[str], environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, with nothing on its standard input. It ends with this process, even where that is
    killed and can do nothing about it any more.

    Args:
        command: the program and its arguments.
        environment: its environment; None for this process's.

    Returns:
        Its exit status and output. 127 is the status where there is no such program.
    """
    watched, held = os.pipe()
    with os.fdopen(watched, "rb", 0) as theirs, os.fdopen(held, "wb", 0) as alive, ended_by(alive.close):
        return subprocess.run(
            ["/bin/sh", "-c", _WATCHED, "sh", *command],
            stdin=theirs,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
            env=environment,
            start_new_session=True,  # a group of its own, to be killed
        )
