"""Kernels of which there is no source here: PTX and cubins, as Triton and other compilers make them."""

import re
import struct
from dataclasses import dataclass
from pathlib import Path

from tilewright.core.errors import CompileError, ConfigError, KernelNotFoundError, nearest
from tilewright.runtime.executable import CompileReport
from tilewright.runtime.machine_code_tools import assemble, disassemble, parse_report
from tilewright.tools.explain import sass
from tilewright.tools.explain.control_flow import main_loop
from tilewright.tools.explain.machine_code import MachineCode

SUFFIXES = (".ptx", ".cubin")

_MAGIC = b"\x7fELF"
_REGISTERS, _MOST_THREADS, _THREADS = 0x2F, 0x05, 0x10
"""Attributes of the section .nv.info and of kernels' own: EIATTR_REGCOUNT, EIATTR_MAX_THREADS and EIATTR_REQNTID."""
_RESERVED = 1024
"""Bytes of the system's among a kernel's shared memory in a cubin, from sm_90 on."""


@dataclass(frozen=True)
class UserCode:
    """The machine code of a kernel."""

    name: str
    """As its file calls it."""
    arch: str
    """Architecture that the code was made for, as in 'sm_90a'."""
    code: MachineCode
    """The code and the compiler's report; spills of a cubin are not known: None."""
    block: tuple[int, int, int] | None
    """Threads of a block, where the code says so."""


def is_code(text: str) -> bool:
    """Whether a kernel's name is that of such a file, as in 'kernel.ptx' or 'kernel.cubin:entry'."""
    return Path(_parts(text)[0]).suffix in SUFFIXES


def _parts(text: str) -> tuple[str, str]:
    for suffix in SUFFIXES:
        path, colon, entry = text.partition(f"{suffix}:")
        if colon:
            return path + suffix, entry
    return text, ""


def read_code(place: str, arch: str | None = None) -> UserCode:
    """The machine code of a kernel in a file.

    Args:
        place: a .ptx or .cubin; behind a colon which of its kernels, by its own or its mangled name.
        arch: what PTX is assembled for; None for what it names itself. That of a cubin is known.

    Raises:
        KernelNotFoundError: there is no such file, or it has no such kernel.
        ConfigError: the cubin is for another architecture.
        CompileError: the PTX does not assemble, or the file is no cubin.
        EngineUnavailableError: nvdisasm, or for PTX ptxas, is not installed.
    """
    path, entry = _parts(place)
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise KernelNotFoundError(f"no kernel can be read from {path}: {error.strerror}") from None
    log = ""
    if Path(path).suffix == ".ptx":
        text = content.decode(errors="replace")
        target = re.search(r"^\s*\.target\s+(\w+)", text, re.MULTILINE)
        if target is None:
            raise CompileError(f"{path} is no PTX: it has no .target")
        content, log = assemble(text, arch or target[1])
    if not content.startswith(_MAGIC):
        raise CompileError(f"{path} is no cubin, which begins with {_MAGIC!r}")
    listing = disassemble(content)
    made_for = re.search(r"^\s*\.target\s+(\w+)", listing, re.MULTILINE)
    found = made_for[1] if made_for else "an unknown architecture"
    if arch and arch != found:
        raise ConfigError(f"{path} has code for {found}, got --arch {arch}")
    try:
        sections = _sections(content)
    except (struct.error, ValueError, IndexError):
        raise CompileError(f"{path} is no whole cubin") from None
    name = _chosen(path, [one.removeprefix(".text.") for one in sections if one.startswith(".text.")], entry)
    attributes = dict(_attributes(sections.get(f".nv.info.{name}", b"")))
    shared = len(sections.get(f".nv.shared.{name}", b""))
    if shared and _number(found) >= 90:
        shared -= _RESERVED
    report = parse_report(log, name) if log else CompileReport(_registers(sections, name), None, shared)
    instructions = tuple(sass.parse(listing, name))
    block = attributes.get(_THREADS) or attributes.get(_MOST_THREADS)
    return UserCode(
        name,
        found,
        MachineCode(instructions, main_loop(instructions), report),
        struct.unpack("<3I", block) if block and len(block) == 12 else None,
    )


def _number(arch: str) -> int:
    digits = re.search(r"\d+", arch)
    return int(digits[0]) if digits else 0


def _chosen(path: str, names: list[str], entry: str) -> str:
    if not entry and len(names) == 1:
        return names[0]
    matching = [name for name in names if entry and (name == entry or name.startswith(f"_Z{len(entry)}{entry}"))]
    if len(matching) == 1:
        return matching[0]
    if entry and not matching:
        raise KernelNotFoundError(f"{path} has no kernel {entry!r}{nearest(entry, names)}")
    raise KernelNotFoundError(
        f"{path} has {len(matching or names)} kernels{' of this name' if entry else ''}: name one, as in "
        f"{path}:{(names or ['name'])[0]}; there are {', '.join(matching or names)}"
    )


def _sections(content: bytes) -> dict[str, bytes]:
    """The sections of a 64-bit ELF file by their names; one that takes no room in the file is zeros."""
    (table,) = struct.unpack_from("<Q", content, 0x28)
    size, count, names_at = struct.unpack_from("<HHH", content, 0x3A)
    headers = [struct.unpack_from("<IIQQQQIIQQ", content, table + i * size) for i in range(count)]
    start = headers[names_at][4]
    found = {}
    for name, kind, _, _, offset, length, *_ in headers:
        text = content[start + name : content.index(b"\0", start + name)].decode()
        found[text] = bytes(length) if kind == 8 else content[offset : offset + length]
    return found


def _attributes(section: bytes) -> list[tuple[int, bytes]]:
    """The attributes of a section .nv.info: a form, a number, and as many bytes as the form or a length says."""
    found, at = [], 0
    while at + 4 <= len(section):
        form, number, length = struct.unpack_from("<BBH", section, at)
        size = length if form == 4 else 0
        found.append((number, section[at + 4 : at + 4 + size]))
        at += 4 + size
    return found


def _registers(sections: dict[str, bytes], name: str) -> int | None:
    """Registers a thread, by the kernel's symbol."""
    symbols, names = sections.get(".symtab", b""), sections.get(".strtab", b"")
    for number, value in _attributes(sections.get(".nv.info", b"")):
        if number == _REGISTERS and len(value) == 8:
            symbol, registers = struct.unpack("<2I", value)
            (start,) = struct.unpack_from("<I", symbols, 24 * symbol)
            if names[start : names.index(b"\0", start)].decode() == name:
                return int(registers)
    return None
