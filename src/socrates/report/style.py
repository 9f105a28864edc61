"""One look everywhere: a method keeps its colour on every page and figure, its variants differ in line and marker."""

from __future__ import annotations

import colorsys
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from socrates.experiment import Part

from .vocabulary import COLOURS

PAPER = "#FFFFFF"
DARK = "#15171C"
LEAST_CONTRAST = 3.0  # WCAG 2, of graphical objects against what lies beside them

# For methods from elsewhere.
FURTHER = ("#6B6A00", "#4A5FC1", "#7A4B2A", "#00757A")

DASHES = ("solid", "dash", "dot", "dashdot")
MARKERS: tuple[str, ...] = ("o", "s", "^", "D", "v", "P", "X")  # in matplotlib's spelling
SHADES = (1.0, 0.7, 0.45)  # of the method's colour; the numbers of dashes, markers and shades share no factor


@dataclass(frozen=True)
class Style:
    """How a method is drawn: `colour` is #RRGGBB, `dash` one of DASHES, `marker` one of MARKERS.

    `place` is that among the methods shown together.
    """

    colour: str
    dash: str
    marker: str
    place: int = field(default=0, compare=False, repr=False)


def styles(methods: Mapping[str, Part]) -> dict[str, Style]:
    """The style of each label, by the method that it stands for.

    The colour depends on the method's name alone. Methods of one colour are ranked by their name and options, the
    plainest first, which has the pure colour and a solid line; further ones change dash, marker and shade. So other
    methods never change a style, and the order in which they are given does not either.

    >>> styles({"CE": Part("ce")})
    {'CE': Style(colour='#0072B2', dash='solid', marker='o')}
    """
    by_colour: dict[str, list[str]] = {}
    for label, method in methods.items():
        by_colour.setdefault(method_colour(method.name), []).append(label)
    places = {label: place for place, label in enumerate(methods)}
    return {
        label: replace(variant(colour, rank), place=places[label])
        for colour, labels in by_colour.items()
        for rank, label in enumerate(sorted(labels, key=lambda label: _order(label, methods[label])))
    }


def method_colour(name: str) -> str:
    """The colour of a method and of its ablations; a method that is not in the table has one of a few others.

    >>> method_colour("socrates"), method_colour("socrates:no-beta"), method_colour("my_module:MyLoss")
    ('#D55E00', '#D55E00', '#6B6A00')
    """
    base = name.partition(":")[0]
    return COLOURS.get(base) or FURTHER[zlib.crc32(name.encode()) % len(FURTHER)]


def variant(colour: str, rank: int) -> Style:
    """The style of the rank-th variant of a method; 84 of them differ.

    >>> variant("#D55E00", 0), variant("#D55E00", 1)
    (Style(colour='#D55E00', dash='solid', marker='o'), Style(colour='#954200', dash='dash', marker='s'))
    """
    shade = SHADES[rank % len(SHADES)]
    darker = tuple(shade * channel for channel in _channels(colour))
    return Style(_hex(darker), DASHES[rank % len(DASHES)], MARKERS[rank % len(MARKERS)])


def on_dark(colour: str) -> str:
    """The colour for dark backgrounds: itself if it stands out from DARK, else as light as it was dark.

    >>> on_dark("#D55E00"), on_dark("#00462F")
    ('#D55E00', '#C3FFEB')
    """
    hue, lightness, saturation = colorsys.rgb_to_hls(*_channels(colour))
    if contrast(colour, DARK) < LEAST_CONTRAST:
        lightness = max(lightness, 1 - lightness)
    lighter = colour
    while contrast(lighter, DARK) < LEAST_CONTRAST:
        lightness = min(1.0, lightness + 0.02)
        lighter = _hex(colorsys.hls_to_rgb(hue, lightness, saturation))
    return lighter


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two colours as WCAG 2 defines it, from 1 to 21.

    >>> contrast("#000000", "#FFFFFF")
    21.0
    """
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def linear(colour: str) -> tuple[float, float, float]:
    """Red, green and blue as amounts of light, 0 to 1."""
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in _channels(colour))
    return red, green, blue


def _luminance(colour: str) -> float:
    red, green, blue = linear(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _channels(colour: str) -> tuple[float, float, float]:
    red, green, blue = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    return red, green, blue


def _hex(channels: Sequence[float]) -> str:
    return "#" + "".join(f"{round(255 * channel):02X}" for channel in channels)


def _order(label: str, method: Part) -> tuple[object, ...]:
    """Plain before ablated, few options before many, then by value; the label decides between equal methods."""
    values = [(key, _rankable(value)) for key, value in method.options]
    return ":" in method.name, method.name, len(values), values, label


def _rankable(value: object) -> tuple[float, str]:
    """Numbers by size, words by their letters, numbers first."""
    return (float(value), "") if isinstance(value, int | float) else (float("inf"), str(value))
