"""The emulator's C++ runtime, a shared library: as it was installed, or else compiled at first use.

It has a C interface (abi.hpp), so kernels of GCC and of Clang run with one library, whichever of them compiled it. The
installed one is used if its name, which has a digest of its sources and options, is that of the sources as they are, if
the processor has its instructions (x86-64-v3: AVX2, FMA), and if it loads. Keys of compiled kernels contain that name.
"""

import ctypes
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from tilewright.core.errors import CompileError, EngineUnavailableError
from tilewright.emulator import prebuilt
from tilewright.emulator.host import cores
from tilewright.runtime import cache
from tilewright.runtime.digests import digest
from tilewright.runtime.host_compiler import SUFFIX, Compiler, find_compiler, scratch
from tilewright.runtime.side_by_side import Workers

_HERE = Path(__file__).parent

_UNITS = 4
"""How many units the runtime's files are compiled in at most, and no more than there are cores. All of them include the
same headers, and make the same code of templates: four units take a quarter more core-seconds than one or two, and one
for each file would take more again. The largest of four takes no longer than the largest file would."""

LARGEST_FRAME = 32 * 1024
"""Bytes of stack that a function of a kernel may use: half of what a fiber has."""

_GCC_ONLY = (
    "-Wno-psabi",  # kernels are not called by what another compiler made
    f"-Werror=frame-larger-than={LARGEST_FRAME}",
)
_CLANG_ONLY = (f"-Wframe-larger-than={LARGEST_FRAME}", "-Werror=frame-larger-than")


@dataclass(frozen=True)
class Runtime:
    """The runtime's library. Runtimes of one name are the same, wherever their files lie."""

    name: str
    """Under which kernels are linked with it, and find it in the process, which has it loaded."""
    library: Path = field(compare=False)


def base_options(compiler: Compiler) -> tuple[str, ...]:
    """Options for kernels, and for the runtime where it is compiled at first use."""
    return (*prebuilt.OPTIONS, *(_CLANG_ONLY if compiler.is_clang else _GCC_ONLY), *compiler.native)


def find_runtime() -> Runtime:
    """The runtime that was installed, if it is of these sources and runs on this processor, else one compiled once.

    Raises:
        EngineUnavailableError: none is installed, and there is no working C++ compiler.
    """
    texts = cache.texts_key(prebuilt.RUNTIME, ".cpp", ".hpp"), cache.texts_key(_HERE / "include", ".h")
    return _installed(*texts) or _compiled(*texts)


@lru_cache
def _installed(*_texts: str) -> Runtime | None:
    name = prebuilt.runtime_name(digest)
    library = _HERE / f"_runtime{EXTENSION_SUFFIXES[0]}"  # sysconfig says None to a thread while another asks first
    try:
        if name.encode() not in library.read_bytes() or not _has_instructions():
            return None
        ctypes.CDLL(str(library))
    except OSError:  # there is none, or it is for another C++ library
        return None
    return Runtime(name, library)


def _has_instructions() -> bool:
    """Whether this processor has the instructions that the installed runtime uses, as far as Linux says."""
    if not prebuilt.INSTRUCTIONS:
        return True
    with Path("/proc/cpuinfo").open(encoding="utf-8") as lines:
        flags = next((line for line in lines if line.startswith("flags")), "")
    return prebuilt.INSTRUCTIONS.keys() <= set(flags.split())


def _compiled(*texts: str) -> Runtime:
    compiler = find_compiler()
    base = (*base_options(compiler), *prebuilt.RUNTIME_OPTIONS)
    name = "tilewright-runtime-" + cache.key(compiler.key, base, texts)
    library = cache.find(name, SUFFIX)
    if library is None:
        with scratch() as output:
            units = []
            for number, files in enumerate(_units()):
                units.append(output.with_name(f"unit{number}.cpp"))
                units[-1].write_text(prebuilt.unit(files), encoding="utf-8")
            objects = {str(unit): str(unit.with_suffix(".o")) for unit in units}
            try:
                with Workers() as threads:  # the compilers run at the same time
                    threads.map(lambda unit: compiler.run([*base, "-c", unit, "-o", objects[unit]]), objects)
                compiler.run([*base, "-shared", f"-Wl,-soname,{name}", *objects.values(), "-o", str(output)])
            except CompileError as error:
                raise EngineUnavailableError(f"the emulator's runtime does not compile: {error}") from None
            library = cache.store(name, SUFFIX, output.read_bytes())
    return Runtime(name, library)


def _units() -> list[list[Path]]:
    """The runtime's files, by the unit that they are compiled in. Units are of about one size."""
    units: list[list[Path]] = [[] for _ in range(min(_UNITS, cores()))]
    for file in sorted(prebuilt.runtime_sources(), key=lambda file: (-file.stat().st_size, file)):
        min(units, key=lambda unit: sum(one.stat().st_size for one in unit)).append(file)
    return [unit for unit in units if unit]
