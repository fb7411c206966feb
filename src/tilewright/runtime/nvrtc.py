"""CUDA C++ to machine code with NVRTC: needs neither a GPU nor a driver. Results are cached on disk.

NVRTC runs without Python's global lock and compiles in parallel, so a thread pool over `compile` uses all cores.
"""

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from cuda import pathfinder
from cuda.bindings import nvrtc
from cuda.core import ProgramOptions

from tilewright.core.errors import CompileError, EngineUnavailableError
from tilewright.kernels import kernel as kernels
from tilewright.kernels.config import Config
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.source.device_text import device_text
from tilewright.kernels.support import Variant
from tilewright.runtime import cache
from tilewright.runtime.executable import CompileReport
from tilewright.runtime.included import included
from tilewright.runtime.machine_code_tools import parse_report, toolkit

INCLUDE = Path(kernels.__file__).parent / "include"
"""The headers that the kernels share."""
STANDARD = Path(__file__).with_name("nvrtc_include")
"""Headers of C++'s library, of which NVRTC has none: what kernels use of them."""
BEFORE = "before_source.h"
"""One of them, that is no header of that library: see there."""


_GRID_WORKSPACE = b"%envreg2"
"""In the PTX, which line information comes with: the register by which cooperative_groups.h synchronises a grid."""


@dataclass(frozen=True)
class Cubin:
    """A kernel's machine code for one architecture."""

    code: bytes
    entry: str
    """Name of the kernel in the code."""
    arch: str
    report: CompileReport
    log: str = field(default="", compare=False, repr=False)
    """Output of the compilers: warnings, the source of the report, and how long it took."""

    @property
    def cooperative(self) -> bool:
        """Whether the source synchronises a grid, whose blocks must all run at once."""
        return _GRID_WORKSPACE in self.code


def architectures() -> tuple[str, ...]:
    """Architectures that NVRTC makes code for, as in 'sm_90'; some of them have forms that end in a or f.

    Raises:
        EngineUnavailableError: the library is not installed.
    """
    version()  # says what is wrong where it cannot be loaded
    _, count = nvrtc.nvrtcGetNumSupportedArchs()
    _, numbers = nvrtc.nvrtcGetSupportedArchs()
    return tuple(f"sm_{number}" for number in list(numbers)[:count])


def version() -> tuple[int, int]:
    """Version of NVRTC, as in (13, 0).

    Raises:
        EngineUnavailableError: the library is not installed.
    """
    try:
        status, major, minor = nvrtc.nvrtcVersion()
    except (RuntimeError, ImportError) as error:
        raise EngineUnavailableError(
            f"NVRTC, the CUDA compiler library, cannot be loaded: pip install 'nvidia-cuda-nvrtc==13.*'. {error}"
        ) from error
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise EngineUnavailableError(f"NVRTC does not report its version: {status.name}")
    return major, minor


def compile(kernel: Kernel, config: Config, variant: Variant, arch: str, lineinfo: bool = True) -> Cubin:
    """Compile a kernel for an architecture such as 'sm_90a', or take it from the cache.

    lineinfo: whether the code says which lines of the source it is of, which profilers show; without, it is the same
    wherever the source lies.

    Raises:
        CompileError: the compiler refuses the source; its message is in the error.
        EngineUnavailableError: NVRTC is not installed.
    """
    text, defines, folder = _unit(kernel, config, variant)
    name = str(kernel.source) if lineinfo else kernel.source.name
    return compile_source(text, name, kernel.entry_point(config), defines, arch, folder, lineinfo)


def _unit(kernel: Kernel, config: Config, variant: Variant) -> tuple[str, dict[str, int | str], Path | None]:
    """A kernel's source, its macros, and where headers of its own lie. What is not ours has its macros in the text:
    they may be letters that the compiler's own headers, which come before it, use as names."""
    text, defines = kernel.source.read_text(), kernel.defines(config, variant)
    if not kernel.is_user_kernel:
        return text, defines, None
    return _with_macros(kernel.source, defines), {}, kernel.source.parent


def _with_macros(file: Path, macros: Mapping[str, int | str]) -> str:
    """Users' sources, behind what nvcc has before a source begins."""
    ahead, text, behind = device_text(file.read_text(encoding="utf-8"), macros)
    return f'#include "{BEFORE}"\n{ahead}#line 1 "{file.name}"\n{text}{behind}\n'


def compile_user_source(file: Path, entry: str, macros: Mapping[str, int | str], arch: str) -> Cubin:
    """Compile a user's kernel source with these macros, as `compile_source` does."""
    return compile_source(_with_macros(file, macros), str(file), entry, {}, arch, file.parent)


def ptx(kernel: Kernel, config: Config, variant: Variant, arch: str) -> str:
    """The PTX that a kernel becomes on its way to the machine code of an architecture such as 'sm_90a'; not cached.

    Raises:
        CompileError: the compiler refuses the source; its message is in the error.
        EngineUnavailableError: NVRTC is not installed.
    """
    source, defines, folder = _unit(kernel, config, variant)
    return _ptx(source, _options(str(kernel.source), defines, arch, _headers(folder), lineinfo=False), "")


def user_source_errors(file: Path, entry: str, macros: Mapping[str, int | str], arch: str) -> str:
    """Errors of the compiler in a user kernel with these macros, without making code; '' where it accepts the
    source."""
    options = _options(str(file), {}, arch, _headers(file.parent), lineinfo=False)
    try:
        _ptx(_with_macros(file, macros), options, entry, b"-fdevice-syntax-only")
    except CompileError as error:
        return str(error)
    return ""


def user_source_ptx(file: Path, entry: str, macros: Mapping[str, int | str], arch: str) -> str:
    """The PTX of a user's kernel source with these macros, as `ptx`."""
    return _ptx(_with_macros(file, macros), _options(str(file), {}, arch, _headers(file.parent), lineinfo=False), entry)


def _ptx(source: str, options: ProgramOptions, entry: str, *others: bytes) -> str:
    """entry: the kernel's name where it is that of a template's with arguments; others: further options."""
    return _made("ptx", source, options, entry, *others)[0].rstrip(b"\0").decode()


def _made(target: str, source: str, options: ProgramOptions, entry: str, *others: bytes) -> tuple[bytes, str]:
    """PTX or a cubin, and what the compiler printed. A template has code only where its arguments are named.

    Not by cuda.core, which asks the driver whether it could load the PTX, and fails where there is none.
    """
    version()  # raises where there is no NVRTC
    size, get = nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN
    if target == "ptx":
        size, get = nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX
    flags = [*options.as_bytes("nvrtc", target), *others]
    program = _value(nvrtc.nvrtcCreateProgram(source.encode(), options.name.encode(), 0, None, None))
    try:
        if "<" in entry:
            _check(*nvrtc.nvrtcAddNameExpression(program, entry.encode()))
        (status,) = nvrtc.nvrtcCompileProgram(program, len(flags), flags)
        log = bytearray(_value(nvrtc.nvrtcGetProgramLogSize(program)))
        _check(*nvrtc.nvrtcGetProgramLog(program, log))
        words = log.replace(b"\0", b"").decode(errors="replace").strip()  # it puts them between its parts
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise _refused(options, words)
        code = bytearray(_value(size(program)))
        _check(*get(program, code))
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    return bytes(code), words


def compile_source(
    source: str,
    name: str,
    entry: str,
    defines: Mapping[str, int | str],
    arch: str,
    folder: Path | None = None,
    lineinfo: bool = True,
) -> Cubin:
    """Compile CUDA C++ that has a kernel called entry, or take it from the cache.

    Args:
        source: the text.
        name: what compiler messages and profilers call the text: its path where it is a file.
        entry: the kernel's name; of a template, with its arguments.
        defines: macros and their values.
        arch: the architecture, as in 'sm_90a'.
        folder: where headers of its own lie, if it has some.
        lineinfo: whether profilers are to show the source's lines; the code stays the same.

    Raises:
        CompileError: the compiler refuses the source, or the source has no such kernel.
        EngineUnavailableError: NVRTC is not installed.
    """
    own = included(source, folder) if folder else []
    # CUDA's own headers are of the environment, or of a toolkit: to ask where they lie may start a process.
    headers = cache.texts_key(INCLUDE), cache.texts_key(STANDARD), INCLUDE, folder, sys.prefix, toolkit()
    options = _options(name, defines, arch, (), lineinfo)
    key = cache.key(version(), options.as_bytes("nvrtc", "cubin"), name, entry, source, own, *headers)
    found, words = cache.read(key, ".cubin"), cache.read(key, ".log")
    cached = found is not None and words is not None
    if found is not None and words is not None:
        code, log = found, words.decode()
    else:
        code, log = _made("cubin", source, _options(name, defines, arch, _headers(folder), lineinfo), entry)
    symbol = _symbol(log, entry)
    if symbol is None:
        raise CompileError(f"{name} has no kernel {entry}")
    if not cached:
        cache.store(key, ".cubin", code)
        cache.store(key, ".log", log.encode())
    return Cubin(code, symbol, arch, parse_report(log, symbol), log)


def _symbol(log: str, entry: str) -> str | None:
    """Name of a kernel in the machine code: its own name where that is extern "C", else a longer one that has it."""
    base = entry.partition("<")[0]
    for symbol in re.findall(r"Compiling entry function '(\w+)'", log):
        if symbol == entry or symbol.startswith(f"_Z{len(base)}{base}"):
            return str(symbol)
    return None


def _headers(folder: Path | None) -> tuple[str, ...]:
    """Folders of all headers; folder: where those of the source itself lie, if it has some."""
    return tuple(str(place) for place in (*([folder] if folder else ()), INCLUDE, *_cuda_headers(), STANDARD))


def _options(
    name: str, defines: Mapping[str, int | str], arch: str, headers: tuple[str, ...], lineinfo: bool
) -> ProgramOptions:
    return ProgramOptions(
        name=name,
        arch=arch,
        std="c++17",
        define_macro=[(macro, str(value)) for macro, value in defines.items()] or None,
        include_path=list(headers) or None,
        ptxas_options=["-v"],  # prints the registers, spills and shared memory that the report is made of
        lineinfo=lineinfo,
        no_cache=True,  # a result from NVRTC's own cache would come without that print
    )


def _refused(options: ProgramOptions, words: str) -> CompileError:
    """The error for a source that does not compile."""
    macros = "".join(f" -D{macro}={value}" for macro, value in options.define_macro or ())
    missing = re.search(r'cannot open source file "(?:cuda|nv|cub|thrust)/', words)
    help_ = "\nThe CUDA C++ Core Libraries have that file: pip install 'nvidia-cuda-cccl==13.*'" if missing else ""
    return CompileError(f"{options.name} does not compile for {options.arch}{macros}\n{words}{help_}")


def _value(result: tuple[Any, ...]) -> Any:
    """Value that a function of NVRTC returned next to its status."""
    status, value = result
    _check(status)
    return value


def _check(status: nvrtc.nvrtcResult) -> None:
    """Raise CompileError where the status of a function of NVRTC is an error."""
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise CompileError(f"NVRTC reports {status.name}")


@lru_cache
def _cuda_headers() -> tuple[str, ...]:
    """Folders of CUDA's own headers, such as cuda_fp16.h; none where neither wheels nor a toolkit are installed.
    cooperative_groups.h needs those of the CUDA C++ Core Libraries too."""
    found = pathfinder.find_nvidia_header_directory("cudart")
    core = pathfinder.find_nvidia_header_directory("cccl")
    libraries = (core,) if core else ()
    if found and Path(found, "crt").is_dir():
        return (found, *libraries)
    # The runtime's wheel lacks crt/, which is a wheel of its own: a toolkit has both.
    folders = tuple(folder for folder in (found, str(toolkit() / "include")) if folder and Path(folder).is_dir())
    return (*folders, *libraries)
