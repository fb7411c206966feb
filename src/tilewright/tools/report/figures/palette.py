"""Colours of lanes and of the owners of tiles, ink that is legible on them, and how lanes are written."""

from collections.abc import Sequence

from tilewright.tools.report.figures.svg import ON_DARK, ON_LIGHT

_ANCHORS = ((68, 56, 130), (46, 110, 173), (40, 158, 143), (122, 194, 86), (240, 206, 66), (240, 140, 60))
"""Colours of the lanes, from 0 to 31: violet, blue, teal, green, yellow, orange."""

OWNERS = ("#4e79a7", "#f1a340", "#59a14f", "#b07aa1", "#e15759", "#76b7b2", "#9c755f", "#edc948")
"""Colours of blocks and of warps."""

SEVERAL = "#4b5563"
"""Colour of an element that several lanes take."""

_DARK = 0.2
"""Relative luminance (WCAG 2) below which white text has more contrast than ink."""


def lane_color(lane: int, lanes: int = 32) -> str:
    """Colour of a lane: neighbours are alike, far ones differ."""
    place = lane / max(lanes - 1, 1) * (len(_ANCHORS) - 1)
    left = min(int(place), len(_ANCHORS) - 2)
    mixed = (a + (b - a) * (place - left) for a, b in zip(_ANCHORS[left], _ANCHORS[left + 1], strict=True))
    return "#" + "".join(f"{round(part):02x}" for part in mixed)


def owner_color(number: int) -> str:
    """Colour of the number-th block or warp; they come round again."""
    return OWNERS[number % len(OWNERS)]


def lighter(color: str, share: float) -> str:
    """A colour mixed with white, of which it takes this share."""
    return "#" + "".join(f"{round(part + (255 - part) * share):02x}" for part in _parts(color))


def ink_on(color: str) -> str:
    """Dark or white text, whichever is legible on a colour."""
    red, green, blue = (_linear(part / 255) for part in _parts(color))
    return ON_DARK if 0.2126 * red + 0.7152 * green + 0.0722 * blue < _DARK else ON_LIGHT


def spans(numbers: Sequence[int]) -> str:
    """Numbers as text, with neighbours drawn together: '0 to 15, 20'."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(f"{a}" if a == b else f"{a} to {b}" for a, b in parts)


def of_lanes(lanes: Sequence[int]) -> tuple[str, str, str]:
    """How what these lanes take is drawn: its colour, its label, and the lanes in words."""
    if len(lanes) == 1:
        return lane_color(lanes[0]), f"{lanes[0]}", f"lane {lanes[0]}"
    return SEVERAL, f"x{len(lanes)}", f"lanes {spans(lanes)}"


def _parts(color: str) -> tuple[int, int, int]:
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


def _linear(part: float) -> float:
    """A component of an sRGB colour, 0 to 1, as light."""
    return float(part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4)
