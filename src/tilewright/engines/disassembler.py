"""Machine code to the disassembler's text, with NVIDIA's nvdisasm: from its wheel, the PATH or a CUDA toolkit."""

import importlib.metadata
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tilewright.core.errors import EngineUnavailableError
from tilewright.engines import cache

WHEEL = "nvidia-cuda-nvdisasm"
"""The package that contains the program and nothing else."""

_OPTIONS = ("--print-code", "--print-line-info", "--no-dataflow")
"""Without an analysis of branches, which changes nothing of the text for the architectures here and takes longest."""

_SUFFIX = ".sass"

_INSTALL = "pip install 'nvidia-cuda-nvdisasm==13.*' (or put the nvdisasm of a CUDA toolkit on the PATH)"


def find() -> Path:
    """Where nvdisasm is.

    Raises:
        EngineUnavailableError: it is nowhere; the message says what to install.
    """
    for path in _candidates():
        if path.is_file() and os.access(path, os.X_OK):
            return path
    raise EngineUnavailableError(f"nvdisasm, NVIDIA's disassembler, is not installed: {_INSTALL}")


def disassemble(code: bytes) -> str:
    """What nvdisasm prints of the code sections of a cubin, with the source line before each group of instructions; or
    the same from the cache.

    Raises:
        EngineUnavailableError: nvdisasm is not installed, or fails: one that is older than the compiler may not know
            the architecture. Its words are in the message.
    """
    program = find()
    file = program.stat()
    key = cache.key(str(program), file.st_size, file.st_mtime_ns, _OPTIONS, code)
    if found := cache.find(key, _SUFFIX):
        return found.read_text(encoding="utf-8")
    with cache.scratch() as folder:
        path = folder / "kernel.cubin"
        path.write_bytes(code)
        command = [str(program), *_OPTIONS, str(path)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        except OSError as error:
            raise EngineUnavailableError(f"{program} cannot be run ({error.strerror}): {_INSTALL}") from error
    if done.returncode:
        words = (done.stderr or done.stdout).replace(str(path), "the code").strip()
        raise EngineUnavailableError(f"{program} cannot read the compiler's code: {words}")
    cache.store(key, _SUFFIX, done.stdout.encode("utf-8"))
    return done.stdout


def _candidates() -> Iterator[Path]:
    """Places of nvdisasm, the likeliest to fit the compiler's version first."""
    try:
        wheel = importlib.metadata.distribution(WHEEL)
    except importlib.metadata.PackageNotFoundError:
        pass
    else:
        yield from (Path(str(wheel.locate_file(file))) for file in wheel.files or () if file.stem == "nvdisasm")
    if found := shutil.which("nvdisasm"):
        yield Path(found)
    toolkit = os.environ.get("CUDA_PATH") or os.environ.get("CUDA_HOME") or "/usr/local/cuda"
    yield Path(toolkit, "bin", "nvdisasm")
