"""One look everywhere: a method keeps its colour and marker on every page and figure, its variants differ from it.

Only where all that is shown are variants of one method do colours stand for these.
"""

import colorsys
import zlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from socrates.experiment import Part

from .vocabulary import COLOURS
from .vocabulary import MARKERS as METHOD_MARKERS

PAPER = "#FFFFFF"
DARK = "#15171C"
LEAST_CONTRAST = 3.0  # WCAG 2, of graphical objects against what lies beside them

# For methods from elsewhere.
FURTHER = ("#6B6A00", "#4A5FC1", "#7A4B2A", "#00757A")

DASHES = ("solid", "dash", "dot", "dashdot")
MARKERS: tuple[str, ...] = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "p")  # in matplotlib's spelling
RAMP = ("#2B1B8F", "#8A1C9C", "#C53A6B", "#CF5F12")  # for values in their order, from dark to light
SHADES = (1.0, 0.7, 0.45)  # of the method's colour; the numbers of dashes, markers and shades share no factor


@dataclass(frozen=True)
class Style:
    """How a method or a quantity is drawn: `colour` is #RRGGBB, `dash` one of DASHES, `marker` of MARKERS or none.

    `place` is that among the methods shown together; `shown_first` is False for those that a page hides until asked.
    """

    colour: str
    dash: str = "solid"
    marker: str = ""
    place: int = field(default=0, compare=False, repr=False)
    shown_first: bool = field(default=True, compare=False, repr=False)


def styles(methods: Mapping[str, Part], shown_first: Collection[str] | None = None) -> dict[str, Style]:
    """The style of each label, by the method that it stands for; all are `shown_first` unless told which.

    Colour and marker depend on the method's name alone. Methods of one colour are ranked by their name and options, the
    plainest first, which has the pure colour and a solid line; further ones change dash, marker and shade. So other
    methods never change a style, and the order in which they are given does not either. Of one method alone, more
    variants than there are shades have a hue each, or the colours of a ramp if they differ in numbers.

    >>> styles({"CE": Part("ce")})
    {'CE': Style(colour='#0072B2', dash='solid', marker='s')}
    """
    ranks: Counter[str] = Counter()
    found: dict[str, Style] = {}
    bases = {method.name.partition(":")[0] for method in methods.values()}
    alone = len(bases) == 1 and len(methods) > len(SHADES)
    make, by_value = (hue, ramped(methods)) if alone else (variant, {})
    for label in sorted(methods, key=lambda label: _order(label, methods[label])):
        name = methods[label].name
        colour, marker = method_colour(name), METHOD_MARKERS.get(name.partition(":")[0], MARKERS[-1])
        style = by_value.get(label) or make(colour, ranks[colour], marker)
        first = shown_first is None or label in shown_first
        found[label] = replace(style, place=[*methods].index(label), shown_first=first)
        ranks[colour] += 1
    return found


def method_colour(name: str) -> str:
    """The colour of a method and of its ablations; a method that is not in the table has one of a few others.

    >>> method_colour("socrates"), method_colour("socrates:no-beta"), method_colour("my_module:MyLoss")
    ('#D55E00', '#D55E00', '#6B6A00')
    """
    return COLOURS.get(name.partition(":")[0]) or FURTHER[zlib.crc32(name.encode()) % len(FURTHER)]


def variant(colour: str, rank: int, marker: str = MARKERS[0]) -> Style:
    """The style of the rank-th variant of a method; 132 of them differ.

    >>> variant("#D55E00", 0), variant("#D55E00", 1)
    (Style(colour='#D55E00', dash='solid', marker='o'), Style(colour='#954200', dash='dash', marker='s'))
    """
    darker = [SHADES[rank % len(SHADES)] * channel for channel in _channels(colour)]
    return Style(_hex(darker), DASHES[rank % len(DASHES)], _marker(rank, marker))


def hue(colour: str, rank: int, marker: str = MARKERS[0]) -> Style:
    """The style of the rank-th variant where no other method is shown: each has another method's colour.

    >>> hue("#D55E00", 0), hue("#D55E00", 1)
    (Style(colour='#D55E00', dash='solid', marker='o'), Style(colour='#0072B2', dash='solid', marker='s'))
    """
    hues = [*dict.fromkeys((colour, *COLOURS.values()))]
    again, place = divmod(rank, len(hues))
    return Style(hues[place], DASHES[again % len(DASHES)], _marker(rank, marker))


def ramped(methods: Mapping[str, Part]) -> dict[str, Style]:
    """The styles of variants that differ in one number or two; none if they differ in something else.

    The one with more values has colours in their order, from dark to light, the other one markers and dashes.

    >>> found = ramped({f"γ={gamma}": Part("focal", gamma=float(gamma)) for gamma in range(4)})
    >>> [style.colour for style in found.values()]
    ['#2B1B8F', '#8A1C9C', '#C53A6B', '#CF5F12']
    """
    options = {label: dict(method.options) for label, method in methods.items()}
    names = sorted({name for own in options.values() for name in own})
    values = {name: {own.get(name) for own in options.values()} for name in names}
    differing = sorted((name for name in names if len(values[name]) > 1), key=lambda name: -len(values[name]))
    numeric = all(type(value) in (int, float) for name in differing for value in values[name])
    if len({method.name for method in methods.values()}) > 1 or not (numeric and 1 <= len(differing) <= 2):
        return {}
    ranks = {name: {value: rank for rank, value in enumerate(sorted(values[name], key=_rankable))} for name in names}
    found: dict[str, Style] = {}
    for label, own in options.items():
        place, mark = (ranks[name][own[name]] for name in (differing[0], differing[-1]))
        dash = DASHES[mark % len(DASHES)] if len(differing) > 1 else DASHES[0]
        found[label] = Style(_on_ramp(place / (len(ranks[differing[0]]) - 1)), dash, MARKERS[mark % len(MARKERS)])
    return found if len({*found.values()}) == len(found) else {}


def _on_ramp(part: float) -> str:
    """The colour between both ends of RAMP."""
    place = min(int(part * (len(RAMP) - 1)), len(RAMP) - 2)
    return mixed(RAMP[place], RAMP[place + 1], part * (len(RAMP) - 1) - place)


def mixed(colour: str, other: str, part: float) -> str:
    """A colour with some part of another.

    >>> mixed("#000000", "#FF0000", 0.4)
    '#660000'
    """
    pairs = zip(_channels(colour), _channels(other), strict=True)
    return _hex([own + part * (there - own) for own, there in pairs])


def _marker(rank: int, first: str) -> str:
    return MARKERS[(MARKERS.index(first) + rank) % len(MARKERS)]


def faded(colour: str, ground: str = PAPER) -> str:
    """The colour mixed half with the ground, or less where it would not stand out from there.

    >>> faded("#00462F"), faded("#D55E00")
    ('#73998D', '#DB7626')
    """
    fainter = (mixed(colour, ground, part / 20) for part in range(10, 0, -1))
    return next((one for one in fainter if contrast(one, ground) >= LEAST_CONTRAST), colour)


def on_dark(colour: str) -> str:
    """The colour for dark backgrounds: itself if it stands out from DARK, else as light as it was dark.

    >>> on_dark("#D55E00"), on_dark("#00462F")
    ('#D55E00', '#C3FFEB')
    """
    hue, lightness, saturation = colorsys.rgb_to_hls(*_channels(colour))
    lightness = max(lightness, 1 - lightness)
    while contrast(colour, DARK) < LEAST_CONTRAST:
        lightness = min(1.0, lightness + 0.02)
        colour = _hex(colorsys.hls_to_rgb(hue, lightness, saturation))
    return colour


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two colours as WCAG 2 defines it, from 1 to 21.

    >>> contrast("#000000", "#FFFFFF")
    21.0
    """
    low, high = sorted(_luminance(*linear(colour)) for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


def linear(colour: str) -> list[float]:
    """Red, green and blue as amounts of light, 0 to 1."""
    return [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in _channels(colour)]


def _luminance(red: float, green: float, blue: float) -> float:
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _channels(colour: str) -> list[float]:
    return [value / 255 for value in bytes.fromhex(colour[1:])]


def _hex(channels: Sequence[float]) -> str:
    return "#" + "".join(f"{round(255 * channel):02X}" for channel in channels)


def _order(label: str, method: Part) -> tuple[object, ...]:
    """Plain before ablated, few options before many, then by value; the label decides between equal methods."""
    values = [(key, _rankable(value)) for key, value in method.options]
    return ":" in method.name, method.name, len(values), values, label


def _rankable(value: object) -> tuple[float, str]:
    """Numbers by size, words by their letters, numbers first."""
    return (float(value), "") if isinstance(value, int | float) else (float("inf"), str(value))
