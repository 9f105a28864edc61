"""The palette of everything that is drawn: colours by name, dashes, markers and how colours mix.

The plots, the report's figures and its page take their looks from here and nothing else of ours is
imported. Read the names first; a colour is written as #RRGGBB.
"""

import colorsys
from collections.abc import Sequence
from typing import Any

INK = "#22262B"
GREY = "#7C828B"  # for what belongs to no method: chance, grids, remarks
RED = "#C1121F"  # for what has collapsed, never for a method
PAPER = "#FFFFFF"
DARK = "#15171C"

# Okabe and Ito's hues where they have enough contrast with white (their orange, sky blue, pink and
# yellow do not, and are darkened or replaced); the rest was chosen so that any two stay apart for
# red-blind and green-blind readers.
BLUE = "#0072B2"
VERMILION = "#D55E00"
GREEN = "#009E73"
PINK = "#D172AF"
PURPLE = "#5B2A86"
OLIVE = "#939646"
MAROON = "#981F46"
DARK_GREEN = "#00462F"
BROWN = "#58421B"
SLATE = "#6C777E"
ORANGE = "#E58600"  # of the paper's figures, never of a method

SERIES = (BLUE, VERMILION, GREEN, PINK, PURPLE, OLIVE, MAROON, INK)  # for labels in their order
RAMP = ("#2B1B8F", "#8A1C9C", "#C53A6B", "#CF5F12")  # for values in their order, dark to light
MARKERS: tuple[str, ...] = (
    "o",
    "s",
    "^",
    "D",
    "v",
    "P",
    "X",
    "*",
    "<",
    ">",
    "p",
)  # in matplotlib's spelling
# By the names that plotly uses, in matplotlib's spelling.
DASHES: dict[str, Any] = {
    "solid": "-",
    "dash": (0, (5, 2)),
    "dot": (0, (1.2, 1.6)),
    "dashdot": (0, (6, 2, 1.2, 2)),
}
LEAST_CONTRAST = 3.0  # WCAG 2, for graphical objects against what lies beside them


def mixed(colour: str, other: str, share: float) -> str:
    """Return a colour mixed with a share of another one.

    >>> mixed("#000000", "#FF0000", 0.4)
    '#660000'
    """
    pairs = zip(_channels(colour), _channels(other), strict=True)
    return _hex([channel + share * (target - channel) for channel, target in pairs])


def on_ramp(share: float) -> str:
    """Return the colour at a share of the way along RAMP.

    >>> on_ramp(0), on_ramp(1)
    ('#2B1B8F', '#CF5F12')
    """
    position = share * (len(RAMP) - 1)
    left = min(int(position), len(RAMP) - 2)
    return mixed(RAMP[left], RAMP[left + 1], position - left)


def faded(colour: str, ground: str = PAPER) -> str:
    """Return the colour mixed half with the ground, or less where it would not stand out from it.

    >>> faded("#00462F"), faded("#D55E00")
    ('#73998D', '#DB7626')
    """
    for percent in range(50, 0, -5):
        fainter = mixed(colour, ground, percent / 100)
        if contrast(fainter, ground) >= LEAST_CONTRAST:
            return fainter
    return colour


def on_dark(colour: str) -> str:
    """Return the colour for dark backgrounds: as light as it was dark if it would not stand out.

    >>> on_dark("#D55E00"), on_dark("#00462F")
    ('#D55E00', '#C3FFEB')
    """
    hue, lightness, saturation = colorsys.rgb_to_hls(*_channels(colour))
    lightness = max(lightness, 1 - lightness)
    while contrast(colour, DARK) < LEAST_CONTRAST:
        lightness = min(1.0, lightness + 0.02)
        colour = _hex(colorsys.hls_to_rgb(hue, lightness, saturation))
    return colour


def contrast(colour: str, other: str) -> float:
    """Return the contrast ratio of two colours as WCAG 2 defines it, from 1 to 21.

    >>> contrast("#000000", "#FFFFFF")
    21.0
    """
    low, high = sorted((_luminance(colour), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def linear(colour: str) -> list[float]:
    """Return red, green and blue as amounts of light from 0 to 1."""
    return [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in _channels(colour)]


def _luminance(colour: str) -> float:
    red, green, blue = linear(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _channels(colour: str) -> list[float]:
    return [value / 255 for value in bytes.fromhex(colour[1:])]


def _hex(channels: Sequence[float]) -> str:
    return "#" + "".join(f"{round(255 * channel):02X}" for channel in channels)
