"""The checker: an observer that finds races, accesses outside of arrays and reads of uninitialised memory."""

import ctypes
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.core.errors import MemoryFullError
from tilewright.core.problem import Order
from tilewright.emulator.engine import Array, LaunchFacts
from tilewright.emulator.program import Observer, load_runtime
from tilewright.emulator.repeating import no_room, zeros
from tilewright.emulator.shared_arrays import SharedArray, alignments, array_of, shared_arrays
from tilewright.emulator.symbols import SourceLine, SourceLocation, places, shared_variables
from tilewright.kernels.source.lines import arguments_of
from tilewright.kernels.source.source_kernel import SourceKernel
from tilewright.runtime.base import Matrix, matrix_at

_ALIGNMENT = 256
_SLACK_ROWS = 16
_MOST_SLACK = 2**24
"""Bytes of these, of matrices that are not far: a long vector is one row."""
_LEAST_SLACK = 64 * 1024
_LARGEST_SCALAR = 16
_SHADOW = 48
"""Bytes of shadow memory of an element."""


class _CheckedArrayStruct(ctypes.Structure):
    """struct CheckedArray of shadow.hpp."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
        ("rows", ctypes.c_int64),
        ("cols", ctypes.c_int64),
        ("ld", ctypes.c_int64),
        ("item_bytes", ctypes.c_int32),
        ("constant", ctypes.c_int32),
        ("written", ctypes.c_int32),
        ("one_row", ctypes.c_int32),
        ("slack", ctypes.c_uint64),
    )


class _Variable(ctypes.Structure):
    """struct SharedVariable of shadow.hpp."""

    _fields_ = (("name", ctypes.c_char_p), ("offset", ctypes.c_uint64), ("bytes", ctypes.c_uint64))


_WRITTEN = np.dtype([("offset", "u8"), ("bytes", "u8"), ("block", "u4", 3), ("padding", "u4")])
"""struct Checker::Written of checker.hpp."""


class Party(NamedTuple):
    """A thread that takes part in a fault."""

    did: str
    place: SourceLocation
    """Where in the source, outwards through inlined functions; empty where that is not known."""
    block: tuple[int, int, int]
    thread: tuple[int, int, int] | str
    """Its index; or 'the copy engine' or 'the tensor cores', which act on their own."""

    @property
    def line(self) -> SourceLine | None:
        """The line of the kernel's own source that it is on, or of a header where there is none."""
        own = (line for line in self.place if line.file.endswith(".cu"))
        return next(own, self.place[0] if self.place else None)

    def __str__(self) -> str:
        where = " > ".join(map(str, reversed(self.place))) or "an unknown place"
        who = self.thread if isinstance(self.thread, str) else f"thread {self.thread}"
        return f"{who} of block {self.block} {self.did} {{}} at {where}"


_ARRAY = re.compile(r"(\w+)\[")


@dataclass(frozen=True)
class Finding:
    """A fault, once for each pair of lines."""

    kind: str
    """race, unfinished copy, out of bounds, misaligned access, uninitialized read, write to an input, early access (of
    a launch that may begin while the one before it runs), missing fence and late fence (of what the copy engine or the
    tensor cores read), ended block and unstarted block (of a cluster, which others may reach after its end, or before
    its begin), barrier, endless wait, hung and crashed (a thread that was stopped where it was), misuse, division by
    zero, overflow (of an int, or of an unsigned index), order, or unwritten (elements of an output). Or what is no
    fault: same value (a race of stores alone, all of one value), shifted swizzle and chance alignment (of a tile that
    begins elsewhere than the pattern of its swizzle, or with it by how variables happen to lie)."""
    party: Party | None
    other: Party | None = None
    """Who had accessed the memory before, where that is what is wrong."""
    memory: str = ""
    """Memory of the fault, as in 'C[3, 4]'."""
    message: str = ""
    """Message of a stopped launch."""
    count: int = 1
    """How many accesses are like this one."""
    period: int = 0
    """Bytes of which the memory should begin at a multiple, where that is meant."""

    @property
    def is_note(self) -> bool:
        """Whether it is no fault."""
        return self.kind in _NOTES

    @property
    def key(self) -> tuple[str, frozenset[SourceLocation], str]:
        """Key that is equal for findings that are one to a reader: of one kind, at the same two places in whichever
        order; out of bounds also of one array."""
        places = frozenset(party.place for party in (self.party, self.other) if party)
        array = _ARRAY.search(self.memory) if self.kind == "out of bounds" else None
        return self.kind, places, (array[1] if array else "") if places else self.message

    @property
    def lines(self) -> tuple[SourceLine | None, SourceLine | None]:
        """The lines of the two accesses."""
        return (self.party.line if self.party else None, self.other.line if self.other else None)

    def __str__(self) -> str:
        if self.party is None or (self.message and not self.memory):
            return self.message
        text = str(self.party).format(self.memory)
        if self.other:
            text += f"; {str(self.other).format('it')}"
        if self.kind in _WHY:
            text += f", {_WHY[self.kind].format(period=self.period)}"
        return text


_ABSENT_LANE = "absent lane"
_BY_CHANCE = "chance alignment"
_NOTES = ("same value", "shifted swizzle", _BY_CHANCE)


def divided(findings: Iterable[Finding]) -> tuple[list[Finding], list[Finding]]:
    """Faults, and notes."""
    found = list(findings)
    return [one for one in found if not one.is_note], [one for one in found if one.is_note]


_WHY = {
    "endless wait": "and no thread that runs changes it",
    "race": "and nothing orders the two",
    "same value": "the same value, and nothing orders the two",
    "shifted swizzle": "which is at no multiple of {period} bytes, where the pattern of its swizzle begins: who reads "
    "the tile must exchange its pieces by their addresses, or declare the array with alignas({period})",
    _BY_CHANCE: "which is at a multiple of {period} bytes, where the pattern of its swizzle begins, by how this "
    "source's variables happen to lie: declare the array with alignas({period})",
    _ABSENT_LANE: "and the result depends on what it gets, which may be anything",
    "unfinished copy": "and nobody has waited for it",
    "early access": "and has not waited for the launch before",
    "ended block": "and that block may have ended before: it does not wait for this one",
    "unstarted block": "and that block may not have begun: no cluster_sync was before",
    "missing fence": "and has not called fence_async_shared (fence.proxy.async) since",
    "late fence": "and no barrier is between its fence_async_shared and this",
}


Source = tuple[Path, Mapping[str, int | str]]
"""A kernel's file, and the macros that it was compiled with."""


class Checker(Observer):
    """Looks on at one launch.

    Args:
        library: of the kernel.
        arrays: what it may use.
        overlaps: whether the launch may begin while the one before it runs (`Kernel.overlaps`).
        source: the kernel's, with the macros that it is compiled with: by it arrays in shared memory and their elements
            are named where something is found. None where there is no file.
    """

    def __init__(
        self, library: Path, arrays: Sequence[Array], overlaps: bool = False, source: Source | None = None
    ) -> None:
        runtime = load_runtime()
        make: Any = runtime.simt_make_checker
        make.restype = ctypes.c_void_p
        regions = (_CheckedArrayStruct * max(len(arrays), 1))(*map(_region, arrays))
        variables = [_Variable(name.encode(), *place) for name, *place in shared_variables(library)]
        within = (_Variable * max(len(variables), 1))(*variables)
        size = ctypes.c_size_t
        handle = make(regions, size(len(arrays)), within, size(len(variables)), int(overlaps))
        if handle is None:
            raise MemoryFullError(no_room(sum(_SHADOW * one.matrix.lines[0] * one.matrix.ld for one in arrays)))
        super().__init__(runtime, handle)
        self._library = library
        self._source = source

    def findings(self) -> list[Finding]:
        """Faults, in the order in which they were found, but for `absent_lanes`.

        Raises:
            EngineUnavailableError: binutils, which finds lines of source, is not there.
        """
        return self._findings(lambda kind: kind != _ABSENT_LANE)

    def absent_lanes(self) -> list[Finding]:
        """Shuffles that read lanes that take no part in them: wrong if anything depends on what they get.

        Raises:
            EngineUnavailableError: as `findings`.
        """
        return self._findings(lambda kind: kind == _ABSENT_LANE)

    def _findings(self, of: Callable[[str], bool]) -> list[Finding]:
        found = [one for one in self.report() if of(one["kind"])]
        if any(one["kind"] == _BY_CHANCE for one in found):
            asked = alignments(*self._source) if self._source else {}
            found = [one for one in found if not _is_asked(one, asked)]
        declared = shared_arrays(*self._source) if found and self._source else {}
        parties = [one[role] for one in found for role in ("party", "other") if role in one]
        lines = places(self._library, [party["site"] for party in parties if "site" in party])
        return _merged(
            Finding(
                one["kind"],
                _party(one["party"], lines),
                _party(one["other"], lines) if "other" in one else None,
                _memory(**one["place"], declared=declared) if "place" in one else "",
                one["message"],
                one["count"],
                one.get("period", 0),
            )
            for one in found
        )

    def written(self, array: int) -> NDArray[Any]:
        """Runs of bytes written to the array at an address, each by one block last: `offset` and `bytes` from the
        array's begin, and the `block`."""
        find: Any = self._runtime.simt_written
        find.restype = ctypes.c_size_t

        def fill(runs: NDArray[Any]) -> int:
            given = ctypes.c_void_p(self.handle), ctypes.c_size_t(array), ctypes.c_void_p(runs.ctypes.data)
            return int(find(*given, ctypes.c_size_t(len(runs))))

        found = np.empty(fill(np.empty(0, _WRITTEN)), _WRITTEN)
        fill(found)
        return found


def arrays_of(facts: LaunchFacts, padded_at: Mapping[int, int] = MappingProxyType({})) -> list[Array]:
    """Arrays that a kernel may use in a launch, as its source calls them. Nothing may write to A, B and the bias, nor
    to C where D is another array.

    Args:
        facts: of the launch.
        padded_at: bytes before and behind the array at an address that are nobody else's.
    """
    arrays: dict[int, Array] = {}
    as_source = {"A": "B", "B": "A"} if facts.executable.kernel.swap_ab(facts.executable.config) else {}
    constant = {"A", "B", "bias"}
    if not {one.matrix.pointer for one in facts.arrays if one.name == "D"} & {
        one.matrix.pointer for one in facts.arrays if one.name == "C"
    }:
        constant.add("C")
    for one in facts.arrays:
        name, at = as_source.get(one.name, one.name), one.matrix.pointer
        arrays.setdefault(at, one._replace(name=name, constant=name in constant, slack=padded_at.get(at, 0)))
    return list(arrays.values())


def checker_of(facts: LaunchFacts, arrays: Sequence[Array]) -> Checker:
    """A checker of a launch that is about to begin, which may use these arrays."""
    executable = facts.executable
    kernel = executable.kernel
    names = kernel.defines(executable.config, executable.variant)
    if isinstance(kernel, SourceKernel):
        names |= arguments_of(kernel.template, kernel.entry_point(executable.config))
    return Checker(executable.program.library, arrays, kernel.overlaps, (kernel.source, names))


class Padded(NamedTuple):
    """Memory of a matrix, with as many bytes before and behind it that are nobody else's."""

    memory: NDArray[np.uint8]
    slack: int


def padded(array: NDArray[Any], ld: int, order: Order = "row") -> Matrix:
    """A copy of an array of 2 dimensions, or of 3 (a batch), with ld elements a row (or column, by the order). What
    misses it by a little does no harm, and finds NaN; where it reaches past 2^31 elements, what misses it by as many.

    Raises:
        MemoryFullError: the address space has no room for it.
    """
    lines = array if order == "row" else array.swapaxes(-1, -2)
    item, length = array.itemsize, lines.shape[-1]
    lines = lines.reshape(math.prod(lines.shape[:-1]), length)
    line = ld * item
    is_far = len(lines) * ld > 2**31
    slack = max(min(_SLACK_ROWS * line, _MOST_SLACK), _LEAST_SLACK, 2**31 * item * is_far) // _ALIGNMENT * _ALIGNMENT
    size = len(lines) * line
    whole = size + 2 * slack + _ALIGNMENT
    memory = zeros(whole) if is_far else np.full(whole, 0xFF, dtype=np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT + slack
    memory[start - _LEAST_SLACK : start] = memory[start + size : start + size + _LEAST_SLACK] = 0xFF
    inside = memory[start : start + size].reshape(len(lines), line)
    inside[:, length * item : length * item + _ALIGNMENT] = 0xFF
    inside[:, : length * item].view(array.dtype)[:] = lines
    return matrix_at(memory.ctypes.data + start, array, ld, order, Padded(memory, slack))


def _region(array: Array) -> _CheckedArrayStruct:
    name, matrix, written, constant, slack = array
    lies = matrix.pointer, matrix.rows, matrix.cols, matrix.ld, np.dtype(matrix.dtype).itemsize
    return _CheckedArrayStruct(name.encode(), *lies, constant, written, matrix.rows == 1, slack)


def _party(facts: dict[str, Any], lines: dict[int, SourceLocation]) -> Party:
    place = lines[facts["site"]] if "site" in facts else (SourceLine(Path(facts["file"]).name, facts["line"]),)
    thread = facts["thread"]
    return Party(facts["did"], place, tuple(facts["block"]), thread if isinstance(thread, str) else tuple(thread))


def _is_asked(found: Mapping[str, Any], asked: Mapping[str, int]) -> bool:
    """Whether a tile lies where it does since the source says so, or may say so in ways that are not understood."""
    if found["kind"] != _BY_CHANCE:
        return False
    period: int = found["period"]
    return asked.get(found["place"]["array"], period) >= period


def _memory(
    array: str,
    shared: bool,
    index: list[int],
    extents: list[int],
    count: int,
    declared: Mapping[str, Sequence[SharedArray]],
) -> str:
    """Elements of an array, or a byte of a shared variable whose declaration is not understood."""
    if not index:
        return array
    name, of_block, block = array.partition(" of block ")  # another one of the cluster
    if shared and (known := array_of(declared, name, extents[0])):
        return known.element(name, index[0]) + of_block + block
    last = [*index[:-1], index[-1] + count - 1]
    inside = all(0 <= position < extent for position, extent in zip(index + last, extents * 2, strict=True))
    if shared and index[0] == 0 and extents[0] <= _LARGEST_SCALAR:
        return array
    if shared:
        return f"byte {index[0]} of {array}" + ("" if inside else f", which has {extents[0]}")
    element = f"{array}[{', '.join(map(str, index))}]"
    if count > 1:
        element = f"the {count} elements from {element} on"
    return element if inside else f"{element}, outside of its {' x '.join(map(str, extents))} elements"


def _merged(findings: Iterable[Finding]) -> list[Finding]:
    """One for each key, with all counts: code that is unrolled has several addresses."""
    merged: dict[Any, Finding] = {}
    for finding in findings:
        known = merged.get(finding.key)
        merged[finding.key] = replace(known, count=known.count + finding.count) if known else finding
    return list(merged.values())
