"""Errors of a GPU's compiler in sources that a host's compiler accepts, such as calls of the host's functions."""

import itertools
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from tilewright.core.errors import CompileError, EngineUnavailableError
from tilewright.kernels.config import Config
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.source.host_code import DeviceCode, device_code
from tilewright.kernels.support import Variant
from tilewright.runtime.included import included

_ARCHITECTURE = "sm_90a"
"""Architecture that the emulator's kernels are compiled for: see __CUDA_ARCH__ in simt.hpp."""

_DIAGNOSTIC = re.compile(r"^(\S.*?)\((\d+)\): (catastrophic error|error|warning|remark|note)\b", re.MULTILINE)
_HOST_FUNCTION = "is considered a host function"
"""Words of the message on the declaration of a host's function, whether the GPU uses it or not; `_HOST_VARIABLE` has
those on variables, lambdas included."""
_HOST_VARIABLE = re.compile(r"is considered a host variable|was inferred to be __host__")
_USE_OF_VARIABLE = re.compile(r"host (?:variable|member) .* cannot be directly")
"""A warning, where NVRTC refuses the declaration."""
_WARNING = re.compile(r": warning #[\w-]+: ")
_END = re.compile(r"\n+(?:Remark: |\d+ errors? detected in ).*", re.DOTALL)
_IN_JIT_MODE = re.compile(r", and host \w+ are not allowed in JIT mode\. Consider using [^\n]*")
"""Advice that only programs can follow that call NVRTC themselves."""
_NO_MEMBER = re.compile(r'namespace "std.*" has no member')
_CALLED = re.compile(r"\s*(?:<[^;()]*>\s*)?\(")


class _CompilerError(NamedTuple):
    file: str
    line: int
    words: str
    """With the line of the source, and a mark below what is meant."""
    final: bool
    """Whether the compiler goes no further."""

    @property
    def marked(self) -> tuple[str, str]:
        """The name that is meant, and what follows it on its line."""
        lines = self.words.splitlines()
        for above, below in itertools.pairwise(lines):
            if below.strip() == "^" and (name := re.match(r"\w+", above[below.index("^") :])):
                return name[0], above[below.index("^") + name.end() :]
        return "", ""


def check_for_gpu(file: Path, entry: str, macros: Mapping[str, int | str]) -> None:
    """Have NVRTC read a user's kernel source, and raise what it has against that.

    What it lacks itself (headers, and types of C++'s library) is no fault, nor is code that only the host runs.

    Args:
        file, entry, macros: as the kernel is compiled.

    Raises:
        CompileError: no GPU's compiler takes the source.
    """
    text = file.read_text(encoding="utf-8")
    if words := _errors(file, text, tuple(included(text, file.parent)), entry, tuple(sorted(macros.items()))):
        raise CompileError(f"{file.name} does not compile for a GPU, says NVRTC:\n{words}")


def check_kernel_for_gpu(kernel: Kernel, config: Config) -> None:
    """Have NVRTC read a user kernel with a config, and raise what it has against the source.

    Raises:
        CompileError: as `check_for_gpu`.
    """
    variant = Variant(edges=True, aligned=False)  # such a source is the same for all
    check_for_gpu(kernel.source, kernel.entry_point(config), kernel.defines(config, variant))


@lru_cache(maxsize=64)
def _errors(
    file: Path, text: str, headers: tuple[tuple[str, str], ...], entry: str, macros: tuple[tuple[str, int | str], ...]
) -> str:
    from tilewright.runtime import nvrtc  # noqa: PLC0415 it takes a tenth of a second, which not all checks have to wait

    try:
        log = nvrtc.user_source_errors(file, entry, dict(macros), _ARCHITECTURE)
    except EngineUnavailableError:
        return ""
    names = [file.name, *(Path(name).name for name, _ in headers)]
    if not log or (device := device_code([text, *(content for _, content in headers)])) is None:
        return ""
    found = []
    for error in _read(log):
        if error.final or (_NO_MEMBER.search(error.words) and not _CALLED.match(error.marked[1])):
            break  # what follows may be due to that
        if _is_of_device(error, names, device):
            found.append(_IN_JIT_MODE.sub(", which kernels cannot use: write __device__ ahead of it", error.words))
    return "\n".join(found)


def _read(log: str) -> Iterator[_CompilerError]:
    begins = [*_DIAGNOSTIC.finditer(log)]
    for one, end in zip(begins, [*(other.start() for other in begins[1:]), len(log)], strict=True):
        if one[3].endswith("error") or _USE_OF_VARIABLE.search(log, one.start(), end):
            words = _WARNING.sub(": error: ", _END.sub("", log[one.start() : end]), count=1)
            yield _CompilerError(one[1], int(one[2]), words.rstrip(), one[3].startswith("catastrophic"))


def _is_of_device(error: _CompilerError, names: list[str], device: DeviceCode) -> bool:
    """Whether it is in what the GPU runs; of a declaration of a host's function, whether its name is there too."""
    texts = [lines for name, lines in zip(names, device.lines, strict=True) if name == Path(error.file).name]
    if _HOST_VARIABLE.search(error.words) or not any(error.line in lines for lines in texts):
        return False
    return _HOST_FUNCTION not in error.words or device.words[error.marked[0]] != 1
