"""NVIDIA's programs for machine code: nvdisasm makes text of it; ptxas makes it of PTX, and says what kernels need."""

import importlib.metadata
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from tilewright.core.errors import CompileError, EngineUnavailableError
from tilewright.runtime import cache
from tilewright.runtime.executable import CompileReport

WHEEL = "nvidia-cuda-nvdisasm"
"""The package that contains nvdisasm and nothing else."""

_OPTIONS = ("--print-code", "--print-line-info", "--no-dataflow")
"""Without an analysis of branches, which changes nothing of the text for the architectures here and takes longest."""

_SUFFIX = ".sass"

_INSTALL = "pip install 'nvidia-cuda-nvdisasm==13.*' (or put the nvdisasm of a CUDA toolkit on the PATH)"


def toolkit() -> Path:
    """Where a CUDA toolkit is, if there is one."""
    return Path(os.environ.get("CUDA_PATH") or os.environ.get("CUDA_HOME") or "/usr/local/cuda")


def find() -> Path:
    """Where nvdisasm is: in its wheel, which fits the compiler's version best, on the PATH or in a CUDA toolkit.

    Raises:
        EngineUnavailableError: it is nowhere; the message says what to install.
    """
    missing = f"nvdisasm, NVIDIA's disassembler, is not installed: {_INSTALL}"
    return _first((*_in_wheel(), *_installed("nvdisasm")), missing)


def disassemble(code: bytes) -> str:
    """Text of the code sections of a cubin, by nvdisasm or from the cache, with the source line before each group of
    instructions.

    Raises:
        EngineUnavailableError: nvdisasm is not installed, or fails: one that is older than the compiler may not know
            the architecture. Its words are in the message.
    """
    program = find()
    file = program.stat()
    key = cache.key(str(program), file.st_size, file.st_mtime_ns, _OPTIONS, code)
    if found := cache.read(key, _SUFFIX):
        return found.decode()
    with cache.scratch() as folder:
        path = folder / "kernel.cubin"
        path.write_bytes(code)
        try:
            done = _run([program, *_OPTIONS, path])
        except OSError as error:
            raise EngineUnavailableError(f"{program} cannot be run ({error.strerror}): {_INSTALL}") from error
    if done.returncode:
        raise EngineUnavailableError(f"{program} cannot read the compiler's code: {_words(done, path, 'the code')}")
    cache.store(key, _SUFFIX, done.stdout.encode("utf-8"))
    return done.stdout


def assemble(text: str, arch: str) -> tuple[bytes, str]:
    """The machine code of PTX for an architecture such as 'sm_90a', and what ptxas printed.

    Raises:
        CompileError: it refuses the text; its words are in the message.
        EngineUnavailableError: it is not installed.
    """
    missing = "ptxas, NVIDIA's assembler, is not installed: put that of a CUDA toolkit on the PATH, or give a .cubin"
    program = _first(_installed("ptxas"), missing)
    with cache.scratch() as folder:
        source, output = folder / "kernel.ptx", folder / "kernel.cubin"
        source.write_text(text, encoding="utf-8")
        done = _run([program, "-v", f"-arch={arch}", source, "-o", output])
        if done.returncode:
            words = _words(done, source, "the PTX")
            raise CompileError(f"{program} does not take the PTX for {arch}: {words}")
        return output.read_bytes(), done.stdout + done.stderr


def parse_report(log: str, entry: str) -> CompileReport:
    """Report on one kernel from the output of `ptxas -v`."""
    _, _, rest = log.partition(f"Compiling entry function '{entry}'")
    section, _, _ = rest.partition("Compiling entry function")
    registers = re.search(r"Used (\d+) registers", section)
    shared = re.search(r"(\d+) bytes smem", section)
    return CompileReport(
        registers=int(registers[1]) if registers else None,
        spill_bytes=sum(map(int, re.findall(r"(\d+) bytes spill (?:stores|loads)", section))),
        shared_bytes=int(shared[1]) if shared else 0,
    )


def _in_wheel() -> Iterator[Path]:
    try:
        wheel = importlib.metadata.distribution(WHEEL)
    except importlib.metadata.PackageNotFoundError:
        return
    yield from (Path(str(wheel.locate_file(file))) for file in wheel.files or () if file.stem == "nvdisasm")


def _installed(name: str) -> Iterator[Path]:
    """Where a program may be, on the PATH before a toolkit."""
    if found := shutil.which(name):
        yield Path(found)
    yield toolkit() / "bin" / name


def _first(places: Iterable[Path], missing: str) -> Path:
    """The first of these that is a program; raises EngineUnavailableError with these words where none is."""
    for path in places:
        if path.is_file() and os.access(path, os.X_OK):
            return path
    raise EngineUnavailableError(missing)


def _run(command: list[Path | str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)


def _words(done: subprocess.CompletedProcess[str], file: Path, name: str) -> str:
    """Message of a program that failed, with a name for the file that it was given."""
    return (done.stderr or done.stdout).replace(str(file), name).strip()
