"""Machine code of an installed wheel, so that a first product waits for no compiler.

`tilewright warm --wheel` makes such wheels, one for each architecture. A wheel has a package, as `tilewright_sm_90a`,
with two files a kernel: NAME.json is an index of codes by `key`, NAME.xz has them in compressed blocks, one after the
other. A code is found by the text that it was made of, so that of other sources is never taken.
"""

import json
import lzma
from functools import cache as cached
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from tilewright.kernels.config import Config
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.support import Variant
from tilewright.runtime import cache, nvrtc
from tilewright.runtime.executable import CompileReport
from tilewright.version import __version__


class Packed(NamedTuple):
    """Where a code lies, and the compiler's report on it: an entry of an index."""

    block: int
    """Where its block begins in the kernel's file, in bytes."""
    compressed: int
    """Bytes of the block."""
    begin: int
    """Where the code begins in the decompressed block."""
    end: int
    entry: str
    """Name of the kernel in the code."""
    registers: int | None
    spill_bytes: int | None
    shared_bytes: int | None


def package_of(arch: str) -> str:
    """Name of the package with an architecture's code."""
    return f"tilewright_{arch}"


def key(kernel: Kernel, config: Config, variant: Variant, arch: str) -> str:
    """A name for what a kernel's code is made of: this version, the texts of the source and of all headers, macros."""
    texts = kernel.source.read_text(), cache.texts_key(nvrtc.INCLUDE), cache.texts_key(nvrtc.STANDARD)
    return cache.key(__version__, arch, kernel.entry_point(config), kernel.defines(config, variant), *texts)


def has(kernel: Kernel, config: Config, variant: Variant, arch: str) -> bool:
    """Whether a wheel that is installed has this code."""
    return _packed(kernel, config, variant, arch) is not None


def find(kernel: Kernel, config: Config, variant: Variant, arch: str) -> nvrtc.Cubin | None:
    """Code from an installed wheel; None where none has it, or its file is damaged."""
    packed, folder = _packed(kernel, config, variant, arch), _folder(arch)
    if packed is None or folder is None:
        return None
    try:
        code = _block(folder / f"{kernel.name}.xz", packed.block, packed.compressed)[packed.begin : packed.end]
    except (OSError, lzma.LZMAError):
        return None
    return nvrtc.Cubin(code, packed.entry, arch, CompileReport(*packed[5:]))


def _packed(kernel: Kernel, config: Config, variant: Variant, arch: str) -> Packed | None:
    folder = None if kernel.is_user_kernel else _folder(arch)
    index = _index(folder / f"{kernel.name}.json") if folder else {}
    return index.get(key(kernel, config, variant, arch)) if index else None


def _folder(arch: str) -> Path | None:
    """Where the package with an architecture's code lies; None where none is installed."""
    found = find_spec(package_of(arch))
    return Path(found.origin).parent if found and found.origin else None


@cached
def _index(file: Path) -> dict[str, Packed]:
    """Codes of a kernel by key; none where the wheel has no such kernel, or its index is damaged."""
    try:
        return {name: Packed(*fields) for name, fields in json.loads(file.read_bytes()).items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


@lru_cache(maxsize=2)
def _block(file: Path, begin: int, size: int) -> bytes:
    with file.open("rb") as blocks:
        blocks.seek(begin)
        return lzma.decompress(blocks.read(size), lzma.FORMAT_XZ)
