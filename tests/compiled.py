"""Record of NVRTC's results for configs, so that a run of the tests compiles only the configs that have changed since.

The fixture `report_of` is `nvrtc.compile` for tests that ask how many registers a config takes, whether some spill,
what the compiler remarks, and what a function reads of the machine code. What the record does not have, since a source,
an option, the compiler or that function is another, is compiled, and a warning says so. A sample of the record is
compiled too, and must be as recorded.

    python -m tests.compiled        writes the record anew: what tests ask for, and nothing else
"""

import functools
import importlib.metadata
import inspect
import json
import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from tilewright.kernels.config import Config
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.support import Variant
from tilewright.runtime import cache, machine_code_tools, nvrtc
from tilewright.runtime.executable import CompileReport
from tilewright.runtime.included import included

PATH = Path(__file__).with_suffix(".json")
COMMAND = "python -m tests.compiled"
ASKED_VARIABLE = "TILEWRIGHT_TESTS_ASKED"
"""Environment variable: the folder that a run for the record writes what tests ask for to, a file each."""

COMPILERS = ("nvidia-cuda-nvrtc", "nvidia-cuda-runtime", "nvidia-cuda-crt")
"""Packages that code depends on: the compiler, and CUDA's own headers."""

ONE_IN = 24
"""How many of the record's entries there are for each that is compiled nevertheless."""

PLAIN = Variant(False, False)._asdict()
"""Values of a variant that a record leaves out."""

_REMARK = re.compile(r"ptxas (?!info\s*: (?:\d+ bytes|Compiling entry|Function properties|Used|Compile time)|\s*\.).*")
"""A line of the assembler's that it does not print of any kernel."""


@dataclass(frozen=True)
class Compiled:
    """Results of compiling that tests ask for."""

    arch: str
    report: CompileReport
    log: str
    """Further remarks of the assembler."""
    read: object = None
    """Result of the function that a test asked for."""


Reads = Callable[[str], object]
"""Function of the disassembler's text whose result JSON can hold. The function's module imports nothing of ours."""


def report_of(kernel: Kernel, config: Config, variant: Variant, arch: str, read: Reads | None = None) -> Compiled:
    """How a kernel compiles for an architecture, and what `read` finds: from the record where it has that."""
    made_of = key(kernel, config, variant, arch, read)
    known = None if ASKED_VARIABLE in os.environ else entries(PATH).get(made_of)
    if known is not None and made_of not in sample(PATH):
        return known
    code = nvrtc.compile(kernel, config, variant, arch)
    has_read = read and read(machine_code_tools.disassemble(code.code))
    found = Compiled(arch, code.report, "\n".join(_REMARK.findall(code.log)), has_read)
    if known is not None:
        assert found == known, f"{PATH.name} does not say what {kernel.name} compiles to: {COMMAND} writes it anew"
    elif folder := os.environ.get(ASKED_VARIABLE):
        form = {field: str(value) for field, value in variant._asdict().items() if value != PLAIN[field]}
        asked = {"kernel": kernel.name, "config": str(config), "variant": form, "made_of": made_of}
        Path(folder, f"{made_of}.json").write_text(json.dumps(asked | asdict(found)))
    else:
        warnings.warn(f"{PATH.name} is behind, so tests compile more: {COMMAND} writes it anew", stacklevel=2)
    return found


def key(kernel: Kernel, config: Config, variant: Variant, arch: str, read: Reads | None = None) -> str:
    """A name for all that the code depends on: source, headers, macros, options, compiler; and for how it is read."""
    options = nvrtc._options("", kernel.defines(config, variant), arch, (), lineinfo=True).as_bytes("nvrtc", "cubin")
    options = [one for one in options if not one.startswith(b"--include-path")]  # which differ by machine
    parts = compilers(), options, kernel.entry_point(config), texts(kernel.source)
    if read is None:
        return cache.key(*parts)
    reader = inspect.getsource(inspect.getmodule(read)), read.__qualname__, version(machine_code_tools.WHEEL)
    return cache.key(*parts, reader)


@functools.cache
def sample(path: Path) -> set[str]:
    """Keys of the entries that are compiled nevertheless, of each architecture one at least. Where a record changes, so
    do these."""
    whole = cache.key(*entries(path))
    of_arch: dict[str, list[str]] = {}
    for made_of in sorted(entries(path), key=lambda one: cache.key(one, whole)):
        of_arch.setdefault(entries(path)[made_of].arch, []).append(made_of)
    return {made_of for some in of_arch.values() for made_of in some[::ONE_IN]}


@functools.cache
def entries(path: Path) -> dict[str, Compiled]:
    """The record, by keys."""
    found = json.loads(path.read_text())["entries"]
    return {
        one["made_of"]: Compiled(one["arch"], CompileReport(**one["report"]), one["log"], one["read"]) for one in found
    }


@functools.cache
def compilers() -> list[str]:
    return [version(name) for name in COMPILERS]


def version(package: str) -> str:
    return f"{package} {importlib.metadata.version(package)}"


@functools.cache
def texts(source: Path) -> list[str]:
    """A source, and the headers of ours that it reaches."""
    text = source.read_text()
    return [text, *(header for _, header in included(text, source.parent, nvrtc.INCLUDE))]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """As a plugin of the run for the record: of the tests, those that ask."""
    items[:] = [one for one in items if "report_of" in one.fixturenames]


def write(asked: list[dict], path: Path) -> None:
    """Write a record, a line an entry."""
    asked = sorted(asked, key=lambda one: (one["kernel"], one["arch"], one["config"], one["made_of"]))
    lines = ",\n".join("  " + json.dumps(one) for one in asked)
    path.write_text(f'{{\n "compilers": {json.dumps(compilers())},\n "entries": [\n{lines}\n ]\n}}\n')


def main() -> None:
    """Run the tests that ask, and write what they ask for."""
    with tempfile.TemporaryDirectory() as folder:
        places = os.pathsep.join(filter(None, (str(PATH.parent), os.environ.get("PYTHONPATH"))))
        environment = os.environ | {ASKED_VARIABLE: folder, "PYTHONPATH": places}
        command = [sys.executable, "-m", "pytest", "-q", "-n", "auto", "-p", PATH.stem, str(PATH.parent)]
        subprocess.run(command, env=environment, check=True)
        write([json.loads(path.read_text()) for path in Path(folder).glob("*.json")], PATH)


if __name__ == "__main__":
    main()
