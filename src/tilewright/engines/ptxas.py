"""NVIDIA's assembler, ptxas: what it prints of kernels, and PTX to machine code where a CUDA toolkit has it."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from tilewright.core.errors import CompileError, EngineUnavailableError
from tilewright.engines import cache
from tilewright.engines.base import CompileReport


def parse_report(log: str, entry: str) -> CompileReport:
    """What `ptxas -v` printed of one kernel."""
    _, _, rest = log.partition(f"Compiling entry function '{entry}'")
    section, _, _ = rest.partition("Compiling entry function")
    registers = re.search(r"Used (\d+) registers", section)
    shared = re.search(r"(\d+) bytes smem", section)
    return CompileReport(
        registers=int(registers[1]) if registers else None,
        spill_bytes=sum(map(int, re.findall(r"(\d+) bytes spill (?:stores|loads)", section))),
        shared_bytes=int(shared[1]) if shared else 0,
    )


def assemble(text: str, arch: str) -> tuple[bytes, str]:
    """The machine code of PTX for an architecture such as 'sm_90a', and what the assembler printed.

    Raises:
        CompileError: it refuses the text; its words are in the message.
        EngineUnavailableError: it is not installed.
    """
    program = _find()
    with cache.scratch() as folder:
        source, output = folder / "kernel.ptx", folder / "kernel.cubin"
        source.write_text(text, encoding="utf-8")
        command = [program, "-v", f"-arch={arch}", str(source), "-o", str(output)]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode:
            words = (done.stderr or done.stdout).replace(str(source), "the PTX").strip()
            raise CompileError(f"{program} does not take the PTX for {arch}: {words}")
        return output.read_bytes(), done.stdout + done.stderr


def _find() -> str:
    toolkit = os.environ.get("CUDA_PATH") or os.environ.get("CUDA_HOME") or "/usr/local/cuda"
    for found in (shutil.which("ptxas"), str(Path(toolkit, "bin", "ptxas"))):
        if found and os.access(found, os.X_OK):
            return found
    raise EngineUnavailableError(
        "ptxas, NVIDIA's assembler, is not installed: put that of a CUDA toolkit on the PATH, or give a .cubin"
    )
