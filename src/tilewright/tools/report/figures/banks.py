"""The bank figure: which banks of shared memory the lanes of a warp ask in one request, wavefront by wavefront.

How a request is cut into wavefronts: lanes that ask one word are served together, lanes that ask different words of one
bank are not. 64-bit accesses are served half a warp at a time and 128-bit ones a quarter at a time, but two such parts
together where in both all neighbouring lanes (0 and 1, 2 and 3, ..., or 0 and 2, 1 and 3, ...) ask the same.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tilewright.core.hardware import WARP, ceil_div
from tilewright.emulator.trace import BANK_BYTES, BANKS, Access, WarpRequest
from tilewright.tools.report.figures.palette import ink_on, of_lanes
from tilewright.tools.report.figures.svg import ALARM, FAINT, PALE, SOFT, Drawing

_CELL, _CELL_HEIGHT = 13.5, 14.0
_VERBS = {"load": "loads {}s", "store": "stores {}s", "copy": "copies into {}s"}


class LanePiece(NamedTuple):
    """Words that a lane asks, or several lanes alike."""

    word: int
    """The first, counted from the start of shared memory."""
    words: int
    lanes: tuple[int, ...]
    row: int
    col: int


Wavefront = list[LanePiece]


def wavefronts(accesses: Sequence[Access]) -> list[list[Wavefront]]:
    """The wavefronts that serve a request, for each part of the warp that is served separately from the others.

    Those of a part beyond the first are bank conflicts.
    """
    return [_serve(_pieces(part)) for part in _parts(accesses)]


def bank_panel(request: WarpRequest) -> Drawing:
    """One request, a row a wavefront and a column a bank; a cell has the colour of the lane that it serves."""
    parts = wavefronts(request.accesses)
    count = sum(map(len, parts))
    conflicts = count - len(parts)
    drawing = Drawing()
    what = _VERBS[request.kind].format(request.array)
    drawing.heading(f"A warp {what}, {request.accesses[0].bytes} bytes a lane", request.place)
    summary = f"{count} wavefront{'s' if count > 1 else ''} a request, "
    if conflicts:
        alarm = "1 of them a bank conflict" if conflicts == 1 else f"{conflicts} of them bank conflicts"
        drawing.text(0, 30, summary, 11.5, fill=SOFT, alarm=alarm)
    else:
        drawing.text(0, 30, f"{summary}no bank conflict", 11.5, fill=SOFT)

    left, top = 28.0, 50.0
    drawing.text(left - 5, top - 5, "bank", 9, fill=SOFT, anchor="end")
    for bank in range(0, BANKS, 4):
        drawing.text(left + bank * _CELL + 1, top - 5, f"{bank}", 9, fill=SOFT)
    drawing.width = left + BANKS * _CELL + 8
    y = top
    for number, (wavefront, conflict) in enumerate((w, i > 0) for part in parts for i, w in enumerate(part)):
        drawing.text(
            left - 6, y + 10.5, f"{number + 1}", 9, fill=ALARM if conflict else SOFT, anchor="end", bold=conflict
        )
        drawing.rect(left, y + 0.5, BANKS * _CELL, _CELL_HEIGHT - 1, PALE)
        for piece in wavefront:
            _draw_piece(drawing, request.array, piece, left, y)
        if conflict:
            drawing.rect(left + BANKS * _CELL + 4, y + 1, 4, _CELL_HEIGHT - 2, ALARM)
        y += _CELL_HEIGHT
    for bank in range(4, BANKS, 4):
        drawing.line(left + bank * _CELL, top, left + bank * _CELL, y, FAINT, 0.6)
    return drawing


def _parts(accesses: Sequence[Access]) -> Iterable[list[Access]]:
    """Lanes that are served separately from the others, whatever banks they ask."""
    width = max(ceil_div(access.bytes, BANK_BYTES) for access in accesses)
    if width == 1:
        yield list(accesses)
        return
    size = WARP // width
    for first in range(0, WARP, 2 * size):
        pair = [access for access in accesses if first <= access.lane < first + 2 * size]
        halves = [[one for one in pair if one.lane < first + size], [one for one in pair if one.lane >= first + size]]
        yield from filter(None, [pair] if _alike(pair, 1) or _alike(pair, 2) else halves)


def _alike(accesses: Sequence[Access], apart: int) -> bool:
    """Whether every lane asks what the lane asks that is so far apart from it, within its group of twice as many."""
    addresses = {access.lane: access.address for access in accesses}
    return all(addresses.get(lane ^ apart, address) == address for lane, address in addresses.items())


def _pieces(accesses: Iterable[Access]) -> list[LanePiece]:
    """Accesses to the same words as one, in the order of their first lanes."""
    pieces: dict[tuple[int, int], LanePiece] = {}
    for access in accesses:
        word = access.address // BANK_BYTES
        words = ceil_div(access.address + access.bytes, BANK_BYTES) - word
        known = pieces.get((word, words), LanePiece(word, words, (), access.row, access.col))
        pieces[word, words] = known._replace(lanes=(*known.lanes, access.lane))
    return list(pieces.values())


def _serve(pieces: Iterable[LanePiece]) -> list[Wavefront]:
    """Each piece in the first wavefront in which its banks are free."""
    served: list[Wavefront] = []
    busy: list[set[int]] = []
    for piece in pieces:
        banks = {word % BANKS for word in range(piece.word, piece.word + piece.words)}
        place = next((i for i, taken in enumerate(busy) if not taken & banks), len(busy))
        if place == len(busy):
            served.append([])
            busy.append(set())
        served[place].append(piece)
        busy[place] |= banks
    return served


def _draw_piece(drawing: Drawing, array: str, piece: LanePiece, left: float, y: float) -> None:
    color, label, lanes = of_lanes(piece.lanes)
    x, width = left + piece.word % BANKS * _CELL, piece.words * _CELL
    bank = piece.word % BANKS
    where = f"bank {bank}" if piece.words == 1 else f"banks {bank} to {bank + piece.words - 1}"
    title = f"{lanes}: {where}"
    if piece.row >= 0:
        title += f", where {array}[{piece.row}, {piece.col}] lies"
    drawing.rect(x + 0.6, y + 0.6, width - 1.2, _CELL_HEIGHT - 1.2, color, title=title)
    size = 8.0 if len(label) < 3 or piece.words > 1 else 7.0
    drawing.text(x + width / 2, y + 10.3, label, size, fill=ink_on(color), anchor="middle")
