"""The emulator's runtime as it is compiled when the package is built or installed: its files, and the options.

setup.py runs this file by itself, so it imports nothing but Python's own modules.
"""

import platform
from collections.abc import Callable, Iterable
from pathlib import Path

_HERE = Path(__file__).resolve().parent

RUNTIME = _HERE / "runtime"
"""Folder of the emulator's runtime."""

OPTIONS = (
    "-std=c++17",
    "-O3",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=fast",  # a multiply and an add become one FMA, as in the GPU's compiler
    "-fno-strict-aliasing",  # kernels read floats as float4s
    "-fno-stack-protector",
    "-U_FORTIFY_SOURCE",  # it takes a switch between fibers for an error
    "-fno-builtin-printf",  # a kernel's is the runtime's, never puts
    "-Wno-unknown-pragmas",  # #pragma unroll
)
"""Options of all of the emulator's code: kernels, and the runtime."""

RUNTIME_OPTIONS = ("-O2", "-pthread")
"""Further options of the runtime."""

_OF_X86 = {
    "abm": "lzcnt",
    "avx2": "avx2",
    "bmi1": "bmi",
    "bmi2": "bmi2",
    "f16c": "f16c",
    "fma": "fma",
    "movbe": "movbe",
}

INSTRUCTIONS = {name: f"-m{of}" for name, of in _OF_X86.items()} if platform.machine() in ("x86_64", "AMD64") else {}
"""Instruction sets that the prebuilt runtime uses, as Linux names them, and their compiler options: x86-64-v3 on
x86-64, which processors have since 2013 to 2015, and the baseline elsewhere."""

# Python's own options may ask for LTO, which takes assembly apart from what calls that.
PREBUILT_OPTIONS = (*OPTIONS, *RUNTIME_OPTIONS, *INSTRUCTIONS.values(), "-fno-lto", "-Wno-psabi")
"""Options of the prebuilt runtime, for GCC and Clang."""


def runtime_sources() -> list[Path]:
    """The emulator runtime's C++ files."""
    return sorted(RUNTIME.glob("*.cpp"))


def runtime_name(digest: Callable[..., str]) -> str:
    """Name (soname) of the prebuilt runtime, which has a digest of its sources and options.

    Args:
        digest: `runtime.digests.digest`.
    """
    files = (*runtime_sources(), *sorted(RUNTIME.glob("*.hpp")), *sorted((_HERE / "include").glob("*.h")))
    return f"tilewright-runtime-{digest(files, PREBUILT_OPTIONS)[:32]}"


def unit(sources: Iterable[Path]) -> str:
    """C++ text that compiles these sources as one translation unit."""
    return "".join(f'#include "{source.as_posix()}"\n' for source in sources)
