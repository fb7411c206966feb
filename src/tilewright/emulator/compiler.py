"""Compiles CUDA C++ with this machine's C++ compiler, into shared objects that the emulator's runtime can run.

GCC parses simt.hpp once, to a precompiled header in the cache. Stand-ins replace shared headers whose content is a
GPU's own, and CUDA's usual ones (cuda_runtime.h, cuda_fp16.h, cuda_bf16.h, mma.h, cooperative_groups.h).
"""

import contextlib
import os
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from tilewright.core.errors import CompileError, EngineUnavailableError
from tilewright.emulator.dynamic_shared import with_pointers
from tilewright.emulator.launch_bounds import with_launch_bounds
from tilewright.emulator.own_names import as_written, renamed
from tilewright.emulator.ptx import behind_prelude, lines_of, needs_macros, translated, translated_expanded
from tilewright.emulator.ptx.translate import translated_header
from tilewright.emulator.runtime_library import Runtime, base_options, find_runtime
from tilewright.emulator.subscripts import with_arrays
from tilewright.emulator.wrapped_indices import with_exact_values
from tilewright.kernels.source.device_text import device_text
from tilewright.runtime import cache
from tilewright.runtime.host_compiler import SUFFIX, Compiler, find_compiler, scratch
from tilewright.runtime.included import included

_HERE = Path(__file__).parent
_RUNTIME = _HERE / "runtime"
_KERNELS = _HERE.parent / "kernels"
_INCLUDE = (_HERE / "include", _KERNELS / "include")
"""In this order: the emulator's stand-ins come before the device headers of the same name."""

OPTIMIZE_VARIABLE = "TILEWRIGHT_EMULATOR_OPTIMIZE"
"""Environment variable: how far the compiler optimizes kernels whose accesses are not counted, 1 to 3, the default.
With 1 they compile in less time, and take longer."""

_HEADERS = (".cuh", ".h", ".hpp")
"""How the names of headers end."""

_LONG_HEADER = "ptx/half.cuh"
_OF_LONG_HEADER = {_LONG_HEADER, "cuda_fp16.h", "cuda_bf16.h"}
"""A header that GCC takes as long to read as a small kernel, and those that are no more than it. It is parsed once for
all kernels that include it, since nothing in it depends on their macros."""

_PTX_HEADER = "inline_ptx.hpp"
"""Header that sources with inline PTX include; it includes the long header."""

_NO_HEADER = re.compile(r"fatal error: '?(?P<header>[^':\s]+)'?:? (?:No such file|file not found)")
"""In what GCC and Clang print."""

_PARSED_SUFFIX = ".hpp.gch"

_ALIGNED = re.compile(r"\b__shared__\s+alignas\b")
"""`alignas` behind `__shared__`, where CUDA allows it; C++ has it before the type."""

_SECTIONS = ("-ffunction-sections", "-fdata-sections")
"""Compiler's options by which every function and variable can be left out by itself, as `_REACHED` has it."""

_REACHED = ("-Wl,--gc-sections", "-Wl,--undefined=simt_shared_begin")
"""Linker's options: of the source there is only what the kernel reaches, by whatever way, and so only the `__shared__`
variables that a GPU's code would have too. The begin of static shared memory is named by nobody."""

_BEHIND_LEFT_OUT = "-Wl,-Ttext=0x4000000"
"""Linker option like the one above for code that has lines: code that is left out has addresses from 0 on in the debug
information, where nothing else may be then."""

_OF_VARIABLES = ("\t.section", "\t.text", "\t.data", "\t.bss", "\t.zero", "_ZGV")
"""How lines of assembly begin that say where variables are and how large."""


@dataclass(frozen=True)
class Build:
    """A way to compile kernels: what it adds to the options that all have in common."""

    options: tuple[str, ...]
    gcc_only: tuple[str, ...] = ()
    clang_only: tuple[str, ...] = ()
    ahead: tuple[str, ...] = ()
    """Headers of the runtime that come before all else."""
    spacing: int = 0
    """Bytes that are nobody's behind every `__shared__` variable."""
    observable: bool = False
    """Whether accesses of memory are announced."""
    traced: bool = False
    """Whether these are counted, which must not depend on how far the user has code optimized."""
    bounded: bool = False
    """Whether a thread's subscripts and divisors are checked, and volatile accesses known: by GCC, from 11 on."""
    overflows: bool = False
    """Whether operations of signed integers are announced whose results their types do not hold, and indices of
    unsigned ones that have wrapped."""
    locals_hold: str = ""
    """Value of local variables before they are written: 'pattern', 0xFE in every byte, or 'zero'. By GCC 12 on."""


FAST = Build(("-fsanitize=alignment", "-fno-sanitize-recover=alignment"))
"""For results and speed. Only misaligned accesses are caught (by GCC; by Clang, those of whole vectors are not), since
the processor would end the process at some."""

TRACED = Build(
    (
        *FAST.options,
        "-fsanitize=thread",
        "-g1",
        "-fno-plt",  # code of the library is code that has a line
        "-fno-optimize-sibling-calls",  # a hook must return to the line that it is called for
    ),
    gcc_only=(
        "--param=tsan-instrument-func-entry-exit=0",
        "-fno-tree-sra",  # it would take float4s apart, into four accesses
        "-fno-ipa-sra",
        "-fno-expensive-optimizations",  # it would make one load of the bytes of a word
    ),
    clang_only=(
        "-mllvm",
        "-tsan-instrument-func-entry-exit=0",
        "-mllvm",
        "-tsan-instrument-read-before-write",  # of x += y too, as GCC does
        # It looks at the code last of all: what the source does one by one is not to be merged before.
        "-fno-vectorize",
        "-fno-slp-vectorize",
    ),
    spacing=1024,
    observable=True,
    traced=True,
)
"""For counters and traces of accesses: before every access of memory the code calls one of the thread sanitizer's
hooks, which are the runtime's own (hooks.cpp), and places in the source can be found from addresses in the code. What
overruns a `__shared__` variable does not meet the next. Clang makes one access for each part of a vector that is used,
GCC one."""

CHECKED = replace(TRACED, traced=False, bounded=True, locals_hold="pattern")
"""For the checker."""

ZEROED = replace(CHECKED, locals_hold="zero")
"""Build whose result differs from CHECKED's where a kernel has read a local variable before it was written."""

OVERFLOWS = replace(CHECKED, overflows=True)
"""For the checker where matrices reach past 2^31 elements. What leaves the range of an int gives the low bits, however
the code is optimized."""


def _build_options(compiler: Compiler, build: Build) -> list[str]:
    """Options that a build adds to the compiler's."""
    options = [*build.options, *(build.clang_only if compiler.is_clang else build.gcc_only)]
    if build.observable and compiler.gcc >= 11:
        options.append("--param=tsan-distinguish-volatile=1")  # waits are detected by it
    if build.bounded and compiler.gcc >= 11:
        options.append("-fsanitize=bounds,integer-divide-by-zero")
    if build.overflows:
        options.append("-fsanitize=signed-integer-overflow")
    if build.locals_hold and compiler.gcc >= 12:
        options.append(f"-ftrivial-auto-var-init={build.locals_hold}")
    return options


def compile_kernel(
    source: Path | str,
    entry: str,
    defines: Mapping[str, int | str] | None = None,
    build: Build = FAST,
    is_user_kernel: bool = False,
    filled: Sequence[str] = (),
    exact: bool | None = None,
) -> Path:
    """Compile a kernel to a shared object, or take that from the cache.

    Args:
        source: a `.cu` file, or the text of one.
        entry: name of the `__global__` function to run.
        defines: macros to compile with.
        build: how to compile.
        is_user_kernel: whether the source is a user's, which may have host code and values of its own for the macros
            (`device_text`).
        filled: variables of the source that `Program.fill` is to find.
        exact: whether the source's unsigned integers know their exact values, which not all sources allow; None: where
            that is of use and can be.

    Raises:
        CompileError: the compiler refuses the source; its words are in the message.
        EngineUnavailableError: there is no working C++ compiler, or the environment asks for an unknown optimization.
    """
    defines = defines or {}
    if exact is None and is_user_kernel and build.overflows:  # ours have indices of 64 bits
        with contextlib.suppress(CompileError):
            return compile_kernel(source, entry, defines, build, is_user_kernel, filled, exact=True)
    compiler = find_compiler()
    base = base_options(compiler)
    runtime = find_runtime()
    file, text, folder = (
        (source.name, source.read_text(encoding="utf-8"), source.parent)
        if isinstance(source, Path)
        else ("kernel.cu", source, _KERNELS)
    )
    # Not as options: they may be letters that what comes ahead of the source uses as its own names.
    macros, behind = "".join(f"#define {macro} {value}\n" for macro, value in sorted(defines.items())), ""
    if is_user_kernel:
        macros, text, behind = device_text(text, defines)
    own = included(text, folder)
    taken = [_ALIGNED.sub("__shared__ __align__", one) for one in (text, *(each for _, each in own))]
    if is_user_kernel:
        macros, behind, entry, *taken = map(renamed, (macros, behind, entry, *taken))
    behind += "".join(f"\nSIMT_FILLED({renamed(name)})" for name in filled)
    rewritten = with_pointers(*(map(with_exact_values, taken) if exact else taken))
    names = file, *(name for name, _ in own)
    # Where macros make the PTX, the compiler's preprocessor is asked what it is, once that is not in the cache.
    by_macros = needs_macros(rewritten)
    ptx = translated([] if by_macros else zip(names, rewritten, strict=True))
    text, *contents = rewritten if by_macros else ptx.texts
    macros = ptx.ahead + macros
    bounded = with_launch_bounds(text, entry)
    unit = f'{macros}#line 1 "{file}"\n{bounded}{behind}\n#line 1 "launch of {entry}"\nSIMT_ENTRY({entry})\n'
    options = [*base, *_SECTIONS, *_build_options(compiler, build)]
    if build.traced:
        options.append("-O2")  # counts are those of -O3, and it compiles in two thirds of the time
    elif (level := _optimization()) != "3":
        # -Og compiles faster, and what calls no hook runs nearly as fast. Both make multiply-adds, which -O0 does not.
        options.append("-Og" if level == "1" and not build.observable else f"-O{level}")
    headers = [own, *(cache.texts_key(place, *_HEADERS) for place in _INCLUDE), cache.texts_key(_HERE / "ptx", ".py")]
    if by_macros:
        headers += [contents]
    name = "kernel-" + cache.key(compiler.key, options, build.ahead, build.spacing, unit, headers, runtime.name)
    found = cache.find(name, SUFFIX)
    if found is not None:
        return found
    ahead = [_RUNTIME / header for header in (*build.ahead, "simt.hpp", *(["index.hpp"] if exact else []))]
    reached = _reached(text, *contents)
    of_ours = _of_ours(reached)
    if by_macros or ptx.texts != rewritten or of_ours != {name: reached[name] for name in of_ours}:
        ahead.append(_INCLUDE[0] / _PTX_HEADER)
    elif reached.keys() & _OF_LONG_HEADER - {header for header, _ in own}:
        ahead.append(_INCLUDE[0] / _LONG_HEADER)
    prelude = "".join(f'#include "{header}"\n' for header in ahead)
    parsed = None if compiler.is_clang else _parsed(compiler, tuple(options), prelude, runtime, cache.folder())
    with scratch() as output:
        prelude_file = output.with_name("prelude.hpp")
        prelude_file.write_text(prelude, encoding="utf-8")
        if parsed is not None:
            prelude_file.with_suffix(_PARSED_SUFFIX).symlink_to(parsed)
        options += ["-include", str(prelude_file)]
        # In two steps, so that the linker adds no library of the sanitizer whose calls the runtime answers itself.
        unlinked = str(output.with_suffix(".o"))
        try:
            unit_file = _place(output.parent, file, own, contents)  # debug information names the source by it
            unit_file.write_text(unit, encoding="utf-8")
            # What lies around the unit comes first for stand-ins too, which include it in quotes.
            options += ["-iquote", str(unit_file.parent), "-iquote", str(folder)]
            options += [f"-I{_INCLUDE[0]}", f"-I{_placed(output.parent / 'include', of_ours)}"]
            texts = dict(zip(names, (text, *contents), strict=True))
            if by_macros:
                expanded = output.with_suffix(".ii")
                compiler.run([*options, "-E", "-x", "c++", str(unit_file), "-o", str(expanded)])
                folders = Path(), unit_file.parent, folder
                places = {str(place / name): name for name in names for place in folders}
                ptx = translated_expanded(behind_prelude(expanded.read_text(encoding="utf-8")), places)
                unit_file.write_text(ptx.ahead + ptx.texts[0], encoding="utf-8")
                texts = lines_of(ptx.texts[0], places)
            if build.spacing:
                assembly = output.with_suffix(".s")
                compiler.run([*options, "-S", "-x", "c++", str(unit_file), "-o", str(assembly)])
                written = _spaced(assembly.read_text(encoding="utf-8"), build.spacing)
                if build.bounded:
                    written = with_arrays(written, texts, (_RUNTIME, _INCLUDE[0]))
                assembly.write_text(written, encoding="utf-8")
                _link(compiler, [*base, _BEHIND_LEFT_OUT, str(assembly), str(runtime.library)], output)
            else:
                compiler.run([*options, "-c", "-x", "c++", str(unit_file), "-o", unlinked])
                _link(compiler, [*base, unlinked, str(runtime.library)], output)
        except CompileError as error:
            if reason := ptx.reason(str(error)):
                raise CompileError(f"{file} does not compile on the emulator, {reason}") from None
            if missing := _NO_HEADER.search(str(error)):
                raise CompileError(
                    f"{file} does not compile on the emulator, which has no {missing['header']}: {error}"
                ) from None
            raise CompileError(f"{file} does not compile: {as_written(str(error))}") from None
        return cache.store(name, SUFFIX, output.read_bytes())


def _reached(*texts: str) -> dict[str, str]:
    """Names and texts of the headers of ours that sources include, themselves or by way of others."""
    return {name: header for text in texts for name, header in included(text, *_INCLUDE)}


def _of_ours(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers that the emulator has none of its own of, with C++ in the place of inline PTX."""
    return {name: _translated_header(text) for name, text in headers.items() if Path(name).is_absolute()}


_translated_header = lru_cache(maxsize=256)(translated_header)


def _placed(folder: Path, headers: Mapping[str, str]) -> Path:
    """A folder in which device headers lie as among the kernels."""
    folder.mkdir()
    for name, text in headers.items():
        place = folder / Path(name).relative_to(_INCLUDE[1])
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f'#line 1 "{name}"\n{text}', encoding="utf-8")
    return folder


def _place(folder: Path, file: str, headers: Sequence[tuple[str, str]], contents: Sequence[str]) -> Path:
    """Where a source is to be written. Where headers of its own have other contents here, all of them lie around it."""
    if all(content == text for (_, text), content in zip(headers, contents, strict=True)):
        return folder / file
    names = [os.path.normpath(name) for name, _ in headers]
    place = folder.joinpath("of_source", *("in" for _ in range(max(name.count(f"..{os.sep}") for name in names))))
    place.mkdir(parents=True)
    for name, content in zip(names, contents, strict=True):
        if not Path(name).is_absolute():
            copy = Path(os.path.normpath(place / name))
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(f'#line 1 "{name}"\n{content}', encoding="utf-8")
    return place / file


def _link(compiler: Compiler, arguments: Sequence[str], output: Path) -> None:
    """Make a shared object of a kernel, with as few libraries as it needs: the linker would spend half of its time
    on C's and C++'s. Most kernels call nothing but the runtime."""
    shared = [*arguments, "-shared", "-Wl,-z,defs", *_REACHED, "-o", str(output)]
    if not compiler.is_clang:
        for libraries in (["-nostdlib", *_thread_local_library()], ["-nodefaultlibs", "-lm", "-lgcc", "-lc"]):
            with contextlib.suppress(CompileError):
                compiler.run([*shared, "-fno-use-linker-plugin", *libraries])
                return
    compiler.run(shared)


@lru_cache
def _thread_local_library() -> list[str]:
    """The library that finds a thread's variables, which is this process's loader, if the system has it separately."""
    mapped = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").split()
    return [one for one in dict.fromkeys(mapped) if Path(one).name.startswith("ld-")][:1]


_PARSING = threading.Lock()
"""Held while a precompiled header is made: kernels that are compiled side by side share it."""


@lru_cache
def _parsed(compiler: Compiler, options: tuple[str, ...], prelude: str, runtime: Runtime, _folder: Path) -> Path:
    """Precompiled header of the text that comes ahead of every kernel: small kernels compile in two thirds of the time.

    GCC takes the text where the file does not suit it, or is gone. (Clang refuses a header that macros differ from.)
    """
    name = "prelude-" + cache.key(compiler.key, options, prelude, runtime.name, cache.texts_key(_INCLUDE[0], *_HEADERS))
    with _PARSING:
        found = cache.find(name, _PARSED_SUFFIX)
        if found is not None:
            return found
        with scratch() as output:
            text, parsed = output.with_name("prelude.hpp"), output.with_name("prelude.gch")
            text.write_text(prelude, encoding="utf-8")
            compiler.run([*options, f"-I{_INCLUDE[0]}", "-x", "c++-header", str(text), "-o", str(parsed)])
            return cache.store(name, _PARSED_SUFFIX, parsed.read_bytes())


def _optimization() -> str:
    level = os.environ.get(OPTIMIZE_VARIABLE) or "3"
    if level not in ("1", "2", "3"):
        raise EngineUnavailableError(f"{OPTIMIZE_VARIABLE} must be 1, 2 or 3, got {level!r}")
    return level


def _spaced(assembly: str, spacing: int) -> str:
    """Assembly with room behind every thread-local variable. Its symbol keeps its size.

    What GCC adds to arrays of a class, which says whether they have been constructed, is apart from them and says so.
    """
    lines = assembly.splitlines()
    thread_local = guard = False
    for i, line in enumerate(lines):
        if not line.startswith(_OF_VARIABLES):
            continue
        directive, _, operand = line.strip().partition("\t")
        if directive in (".section", ".text", ".data", ".bss"):
            thread_local = operand.startswith(".tbss")
        elif thread_local and line.startswith("_ZGV"):
            guard, lines[i] = True, f'\t.section\t.tdata,"awT",@progbits\n{line}'
        elif directive == ".zero" and guard:
            guard, lines[i] = False, f'\t.byte\t1\n\t.zero\t{int(operand) - 1}\n\t.section\t.tbss,"awT",@nobits'
        elif directive == ".zero" and thread_local:
            lines[i] = f"\t.zero\t{int(operand) + spacing}"
    return "\n".join(lines) + "\n"
