"""Colours of the series of a page: equally light to the eye, in an order of hues that follows the rungs.

All others are in the page's template.
"""

import math

SERIES = {"light": (0.56, 0.15), "dark": (0.76, 0.13)}
"""Lightness and chroma of the series in each theme."""

_FIRST_HUE, _HUES = 300.0, 285.0
"""The hues run from violet through blue, green and yellow to red."""


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
