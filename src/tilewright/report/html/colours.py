"""Colours of the page in its two themes, as CSS variables.

Those of the series are equally light to the eye, in an order of hues that follows the rungs.
"""

import math

_SERIES = {"light": (0.56, 0.15), "dark": (0.76, 0.13)}
"""Lightness and chroma of the series in each theme."""

_NAMED = {
    # name: on a light page, on a dark one
    "paper": ("#fafaf7", "#14161a"),
    "card": ("#ffffff", "#1c1f25"),
    "ink": ("#1d2127", "#e8e8e3"),
    "muted": ("#646b76", "#9aa1ab"),
    "grid": ("#e3e4e0", "#32363e"),
    "accent": ("#c2185b", "#ff6fa5"),
    "slower": ("#e39468", "#a34a27"),
    "even": ("#f1f0ea", "#2c3038"),
    "faster": ("#5fb8ab", "#1f8074"),
    "slower-ink": ("#a8431a", "#f0976a"),
    "faster-ink": ("#1d7a6e", "#4cc9b8"),
    "low": ("#eaf1f5", "#232c36"),
    "high": ("#12507b", "#8fd0ff"),
    "warning-paper": ("#fff4d6", "#3a2f12"),
    "warning-ink": ("#6d4a00", "#f3d48a"),
    "wrong": ("#b3261e", "#ff8a80"),
    "shape-0": ("#2f6fb3", "#6fb1f5"),
    "shape-1": ("#b5651d", "#f0a35e"),
    "shape-2": ("#2e8b57", "#67c793"),
    "shape-3": ("#8e44ad", "#c994e4"),
    "shape-4": ("#a83246", "#f08ba0"),
    "shape-5": ("#6b7280", "#9aa1ab"),
}

_FIRST_HUE, _HUES = 300.0, 285.0
"""The hues run from violet through blue, green and yellow to red."""


def variables(theme: str, series_count: int) -> str:
    """The declarations of a theme, 'light' or 'dark', with this many colours of series: '--ink: #1d2127; ...'."""
    index = ("light", "dark").index(theme)
    named = {name: both[index] for name, both in _NAMED.items()}
    named |= {f"series-{number}": colour for number, colour in enumerate(series(series_count, *_SERIES[theme]))}
    return " ".join([f"color-scheme: {theme};", *(f"--{name}: {colour};" for name, colour in named.items())])


def series(count: int, lightness: float, chroma: float) -> list[str]:
    """This many colours as '#rrggbb', in the order of their hues, all equally light to the eye."""
    step = _HUES / max(count - 1, 1)
    return [_hex(lightness, chroma, _FIRST_HUE - index * step) for index in range(count)]


def _hex(lightness: float, chroma: float, hue: float) -> str:
    """A colour of the Oklab space (B. Ottosson, "A perceptual color space for image processing", 2020) in sRGB."""
    a, b = (chroma * turn(math.radians(hue)) for turn in (math.cos, math.sin))
    long, medium, short = (
        (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3,
        (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3,
        (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3,
    )
    linear = (
        4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
    )
    return "#" + "".join(f"{round(255 * _gamma(min(max(value, 0.0), 1.0))):02x}" for value in linear)


def _gamma(value: float) -> float:
    return 12.92 * value if value <= 0.0031308 else 1.055 * value ** (1 / 2.4) - 0.055
