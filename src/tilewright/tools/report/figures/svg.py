"""A small SVG writer: shapes, text, and drawings set side by side. The same drawing gives the same bytes."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import escape, quoteattr

INK = "#1b1f24"
SOFT = "#667080"
FAINT = "#d5dae1"
PALE = "#f2f4f7"
PAPER = "#ffffff"
ALARM = "#c8102e"
ON_LIGHT, ON_DARK = "#1b1f25", "#fffffe"
"""Ink on colours that are the same on dark pages, and so is the ink."""

_IN_THE_DARK = {
    INK: "#e6e8eb",
    SOFT: "#9aa4b1",
    FAINT: "#414853",
    PALE: "#272c34",
    PAPER: "#15181d",
    ALARM: "#ff6b7d",
}
"""Colours that stand for these on dark pages."""

_FONT = "Helvetica, Arial, 'Liberation Sans', sans-serif"
_TEXT_WIDTH = 0.53
"""Mean width of a letter, of the font's size."""
_MARGIN = 16.0


@dataclass
class Drawing:
    """Elements within a width and a height, in pixels; y goes down."""

    width: float = 0.0
    height: float = 0.0
    elements: list[str] = field(default_factory=list)

    def rect(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        fill: str = "none",
        *,
        stroke: str | None = None,
        stroke_width: float = 1.0,
        radius: float = 0.0,
        title: str | None = None,
    ) -> None:
        """A rectangle; a title shows when the pointer rests on it."""
        shape = f'x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}" fill="{fill}"'
        if radius:
            shape += f' rx="{_n(radius)}"'
        if stroke:
            shape += f' stroke="{stroke}" stroke-width="{_n(stroke_width)}"'
        self._add_titled("rect", shape, title, x + width, y + height)

    def line(
        self, x1: float, y1: float, x2: float, y2: float, stroke: str = SOFT, width: float = 1.0, dash: str = ""
    ) -> None:
        """A straight line; dash is SVG's stroke-dasharray."""
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self._add(
            f'<line x1="{_n(x1)}" y1="{_n(y1)}" x2="{_n(x2)}" y2="{_n(y2)}" stroke="{stroke}" '
            f'stroke-width="{_n(width)}"{dashes}/>',
            max(x1, x2),
            max(y1, y2),
        )

    def polygon(self, points: Sequence[tuple[float, float]], fill: str, title: str = "") -> None:
        """A filled polygon; a title shows when the pointer rests on it."""
        places = " ".join(f"{_n(x)},{_n(y)}" for x, y in points)
        shape = f'points="{places}" fill="{fill}" stroke="{PAPER}" stroke-width="0.6"'
        self._add_titled("polygon", shape, title, max(x for x, _ in points), max(y for _, y in points))

    def circle(self, x: float, y: float, radius: float, fill: str, title: str | None = None) -> None:
        """A filled circle around (x, y)."""
        shape = f'cx="{_n(x)}" cy="{_n(y)}" r="{_n(radius)}" fill="{fill}" stroke="{PAPER}"'
        self._add_titled("circle", shape, title, x + radius, y + radius)

    def text(
        self,
        x: float,
        y: float,
        text: str,
        size: float = 12.0,
        *,
        fill: str = INK,
        anchor: str = "start",
        bold: bool = False,
        rotate: float = 0.0,
        alarm: str = "",
    ) -> None:
        """A line of text whose baseline is at y; anchor: start, middle or end; alarm: how it ends, in red."""
        style = ' font-weight="600"' if bold else ""
        style += f' text-anchor="{anchor}"' if anchor != "start" else ""
        style += f' transform="rotate({_n(rotate)} {_n(x)} {_n(y)})"' if rotate else ""
        end = f'<tspan fill="{ALARM}" font-weight="600">{escape(alarm)}</tspan>' if alarm else ""
        reach = text_width(text + alarm, size) * {"start": 1.0, "middle": 0.5, "end": 0.0}[anchor]
        self._add(
            f'<text x="{_n(x)}" y="{_n(y)}" font-size="{_n(size)}" fill="{fill}"{style}>{escape(text)}{end}</text>',
            x + (0 if rotate else reach),
            y + (0 if rotate else size / 3),
        )

    def heading(self, text: str, place: str = "") -> None:
        """Write a panel's heading, and the line of source where it happens."""
        end = f'<tspan dx="8" font-size="11" font-weight="400" fill="{SOFT}">{escape(place)}</tspan>' if place else ""
        self._add(
            f'<text y="13" font-size="13" fill="{INK}" font-weight="600">{escape(text)}{end}</text>',
            text_width(text, 13) + (8 + text_width(place, 11) if place else 0),
            16,
        )

    def put(self, other: "Drawing", x: float, y: float) -> None:
        """Another drawing with its corner at (x, y)."""
        self.elements.append(f'<g transform="translate({_n(x)} {_n(y)})">')
        self.elements += other.elements
        self._add("</g>", x + other.width, y + other.height)

    def render(self, title: str) -> str:
        """The SVG file, on paper with a margin: white, and dark where the page's reader prefers that."""
        width, height = self.width + 2 * _MARGIN, self.height + 2 * _MARGIN
        return "\n".join(
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_n(width)} {_n(height)}" width="{_n(width)}" '
                f'height="{_n(height)}" font-family={quoteattr(_FONT)} role="img">',
                f"<title>{escape(title)}</title>",
                f"<style>{dark_style()}</style>",
                f'<rect width="{_n(width)}" height="{_n(height)}" rx="8" fill="{PAPER}"/>',
                f'<g transform="translate({_n(_MARGIN)} {_n(_MARGIN)})">',
                *self.elements,
                "</g>",
                "</svg>\n",
            )
        )

    def _add_titled(self, kind: str, attributes: str, title: str | None, right: float, bottom: float) -> None:
        shape = f"<{kind} {attributes}"
        self._add(f"{shape}><title>{escape(title)}</title></{kind}>" if title else f"{shape}/>", right, bottom)

    def _add(self, element: str, right: float, bottom: float) -> None:
        self.elements.append(element)
        self.width, self.height = max(self.width, right), max(self.height, bottom)


def dark_style(*, inline: bool = False) -> str:
    """A style sheet that replaces colours on dark pages, wherever an element names them: in attributes of their own, or
    inline, in its style, as matplotlib does."""
    rule = '[style*="{0}: {1}"]{{{0}:{2}!important}}' if inline else '[{0}="{1}"]{{{0}:{2}}}'
    rules = "".join(
        rule.format(name, color, dark) for color, dark in _IN_THE_DARK.items() for name in ("fill", "stroke")
    )
    return f"@media (prefers-color-scheme:dark){{{rules}}}"


def text_width(text: str, size: float) -> float:
    """About how wide a line of text is."""
    return len(text) * size * _TEXT_WIDTH


def stack(drawings: Sequence[Drawing], gap: float) -> Drawing:
    """Drawings below each other."""
    whole = Drawing()
    y = 0.0
    for drawing in drawings:
        whole.put(drawing, 0, y)
        y = whole.height + gap
    return whole


def flow(drawings: Sequence[Drawing], width: float, gap: float, line_gap: float | None = None) -> Drawing:
    """Drawings side by side, in lines of at most this width; line_gap: between lines, `gap` if left out."""
    rows, x = [Drawing()], 0.0
    for drawing in drawings:
        if x and x + drawing.width > width:
            rows.append(Drawing())
            x = 0.0
        rows[-1].put(drawing, x, 0)
        x += drawing.width + gap
    return stack(rows, gap if line_gap is None else line_gap)


def paragraph(text: str, width: float) -> Drawing:
    """Lines of text no wider than this, as far as words allow."""
    drawing, size = Drawing(), 12.0
    most = int(width / text_width(" ", size))
    lines = textwrap.wrap(text, most, break_long_words=False, break_on_hyphens=False)
    for number, line in enumerate(lines):
        drawing.text(0, size + number * size * 1.4, line, size, fill=SOFT)
    return drawing


def _n(number: float) -> str:
    """A number without needless digits."""
    return f"{number:.2f}".rstrip("0").rstrip(".") if number % 1 else f"{number:.0f}"
