"""Pictures of what rungs 19 on use of Hopper, as SVG: descriptors, swizzle, mbarriers, proxies, majors."""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from tilewright.kernels.warpgroups import LINE_BYTES
from tilewright.tools.report.figures.palette import ink_on, lane_color, lighter, owner_color
from tilewright.tools.report.figures.svg import ALARM, FAINT, INK, ON_LIGHT, PALE, SOFT, Drawing

PAGE = "19_0_hopper.md"
_PIECE_BYTES = 16
_PIECES = LINE_BYTES // _PIECE_BYTES
_TEXT = 15.0


def swizzled(line: int, piece: int) -> int:
    """Byte of a tile at which a 16-byte piece of a 128-byte line lies: `swizzled` of matrix_descriptor.cuh."""
    return line * LINE_BYTES + (piece ^ line % _PIECES) * _PIECE_BYTES


class Part(NamedTuple):
    """Bits first to last of a matrix descriptor, and what they are."""

    first: int
    last: int
    name: str


DESCRIPTOR = (
    Part(0, 13, "start / 16"),
    Part(16, 29, "leading offset / 16"),
    Part(32, 45, "stride offset / 16"),
    Part(62, 63, "swizzle"),
)
"""Parts of a matrix descriptor that the kernels set."""


def descriptor(start: int, leading: int) -> int:
    """The bits of a descriptor of lines of 128 bytes: `matrix_descriptor` of matrix_descriptor.cuh."""
    return (start & 0x3FFFF) >> 4 | leading >> 4 << 16 | 8 * LINE_BYTES >> 4 << 32 | 1 << 62


class Event(NamedTuple):
    """State of a barrier after something has happened to it.

    pending: arrivals; missing: announced bytes that have not come; phase: phases that have ended.
    """

    what: str
    pending: int
    missing: int
    phase: int


def events(arrivals: int, loads: tuple[int, ...]) -> Iterator[Event]:
    """A phase of a barrier: it is made, the producer announces loads of these bytes, they come one by one."""
    missing = sum(loads)
    yield Event(f"barrier_init(full, {arrivals})", arrivals, 0, 0)
    yield Event(f"barrier_expect_bytes(full, {missing:,})", arrivals - 1, missing, 0)
    for number, size in enumerate(loads):
        missing -= size
        ended = int(not missing)
        name = f"tile of {'AB'[number]} comes: {size:,} bytes"
        yield Event(name, arrivals if ended else arrivals - 1, missing, ended)


def _cell(drawing: Drawing, x: float, y: float, width: float, height: float, color: str, text: str) -> None:
    drawing.rect(x, y, width, height, color, stroke=FAINT)
    drawing.text(x + width / 2, y + height / 2 + 5, text, _TEXT, fill=ink_on(color), anchor="middle")


def _descriptor() -> Drawing:
    drawing, start, leading = Drawing(), 0x8400, 64 * LINE_BYTES
    bits, width = descriptor(start, leading), 13.2
    drawing.text(0, 14, f"A tile of B, across k, at byte {start:,} of shared memory: 0x{bits:016x}", _TEXT, bold=True)
    drawing.rect(0, 28, 64 * width, 34, PALE, stroke=FAINT)
    for number, one in enumerate(DESCRIPTOR):
        x, size = (63 - one.last) * width, (one.last - one.first + 1) * width
        value = bits >> one.first & (1 << one.last - one.first + 1) - 1
        _cell(drawing, x, 28, size, 34, lighter(owner_color(number), 0.4), f"{value:,}")
        drawing.text(x, 82, f"bits {one.first} to {one.last}:", 13, fill=SOFT)
        drawing.text(x, 100, one.name, 14)
    return drawing


def _swizzle() -> Drawing:
    drawing, size = Drawing(), 50.0
    for left, head, place in (
        (0.0, "as they lie without", lambda line, piece: line * LINE_BYTES + piece * _PIECE_BYTES),
        (450.0, "with the swizzle of 128 bytes", swizzled),
    ):
        drawing.text(left, 14, head, _TEXT, bold=True)
        for line in range(_PIECES):
            for piece in range(_PIECES):
                at = place(line, piece)
                color = lane_color(piece, _PIECES)
                x, y = left + at % LINE_BYTES / _PIECE_BYTES * size, 28 + at // LINE_BYTES * 30
                _cell(drawing, x, y, size, 30, color, f"{line}.{piece}")
                if piece == 2:
                    drawing.rect(x + 2, y + 2, size - 4, 26, stroke=ALARM, stroke_width=2.5)
        for piece in range(_PIECES):
            first = piece * _PIECE_BYTES // 4
            drawing.text(left + piece * size + size / 2, 288, f"{first}-{first + 3}", 13, fill=SOFT, anchor="middle")
    drawing.text(0, 310, "banks of 4 bytes. Outlined: piece 2 of eight lines, which are read together", 14, fill=SOFT)
    return drawing


def _phases() -> Drawing:
    drawing = Drawing()
    for x, head in ((0, "what happens"), (350, "arrivals missing"), (500, "bytes missing"), (640, "what waits return")):
        drawing.text(x, 14, head, 14, fill=SOFT)
    found = [*events(1, (128 * LINE_BYTES, 128 * LINE_BYTES))]
    for number, one in enumerate(found):
        y = 24 + 40 * number
        color = lighter(owner_color(one.phase), 0.6)
        drawing.rect(0, y, 868, 36, color, radius=4)
        drawing.text(8, y + 23, one.what, _TEXT, fill=ON_LIGHT)
        drawing.text(400, y + 23, str(one.pending), _TEXT, fill=ON_LIGHT, anchor="middle")
        drawing.text(545, y + 23, f"{one.missing:,}", _TEXT, fill=ON_LIGHT, anchor="middle")
        drawing.text(648, y + 23, f"those of parity {(one.phase + 1) % 2}", _TEXT, fill=ON_LIGHT)
    y = 24 + 40 * len(found)
    drawing.text(
        0,
        y + 16,
        f"The colour changes where phase {found[0].phase} ends and phase {found[-1].phase} begins.",
        14,
        fill=SOFT,
    )
    return drawing


def _proxies() -> Drawing:
    drawing = Drawing()
    boxes = (
        (0, 0, "threads", "ld.shared, st.shared", 0),
        (0, 110, "copy engine (TMA)", "cp.async.bulk.tensor", 1),
        (0, 190, "tensor cores", "wgmma on descriptors", 1),
        (600, 95, "shared memory", "of the block", 2),
    )
    for x, y, name, what, color in boxes:
        drawing.rect(x, y, 250, 64, lighter(owner_color(color), 0.4), radius=6)
        drawing.text(x + 14, y + 27, name, 16, fill=ON_LIGHT, bold=True)
        drawing.text(x + 14, y + 50, what, 14, fill=ON_LIGHT)
        if x == 0:
            drawing.line(250, y + 32, 600, 127, INK, 2)
    drawing.text(300, 20, "generic proxy", _TEXT, bold=True)
    drawing.text(300, 222, "async proxy", _TEXT, bold=True)
    drawing.line(270, 92, 570, 92, ALARM, 2, "6 4")
    drawing.text(284, 86, "fence.proxy.async", 14, fill=ALARM)
    return drawing


def _majors() -> Drawing:
    drawing, size, count = Drawing(), 38.0, 4
    for left, head, across in ((0.0, "K-major: along k", False), (470.0, "MN-major: across k", True)):
        drawing.text(left, 14, head, _TEXT, bold=True)
        for row in range(count):
            for k in range(2 * count):
                # The number of an element in memory, of `count` rows of A and twice as many k.
                number = k * count + row if across else row * 2 * count + k
                color = lane_color(k if across else row, 2 * count if across else count)
                _cell(drawing, left + 44 + k * size, 48 + row * size, size, size, color, str(number))
        for k in range(2 * count):
            drawing.text(left + 44 + (k + 0.5) * size, 42, f"k {k}", 13, fill=SOFT, anchor="middle")
        for row in range(count):
            drawing.text(left, 48 + (row + 0.6) * size, f"row {row}", 13, fill=SOFT)
    drawing.text(0, 226, "The number of each element of A in memory. One colour is one line.", 14, fill=SOFT)
    return drawing


FIGURES: Mapping[str, tuple[str, Callable[[], Drawing]]] = {
    "descriptor": ("parts of the 64 bits of a matrix descriptor", _descriptor),
    "swizzle": ("where pieces of eight lines lie with and without the swizzle of 128 bytes", _swizzle),
    "phases": ("what a barrier waits for, from event to event", _phases),
    "proxies": ("ways to shared memory: generic proxy and async proxy", _proxies),
    "majors": ("the order of elements in memory, K-major and MN-major", _majors),
}
"""By the name on the page: what a figure shows, and the figure."""


def file_name(name: str) -> str:
    """The file of a figure, as in hopper_swizzle.svg."""
    return f"hopper_{name}.svg"
