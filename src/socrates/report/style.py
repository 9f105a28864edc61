"""How methods look: a method keeps its colour and marker in every figure, its variants differ.

Only where everything that is shown is a variant of one method do colours stand for the variants.
"""

import zlib
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from socrates.experiment import Part

from ..palette import DASHES, MARKERS, mixed, on_ramp
from .vocabulary import COLOURS, method_family
from .vocabulary import MARKERS as METHOD_MARKERS

FURTHER = ("#6B6A00", "#4A5FC1", "#7A4B2A", "#00757A")  # for methods from elsewhere
# Shares of the method's colour. The numbers of dashes, markers and shades have no common factor,
# so that 132 variants of a method differ.
SHADES = (1.0, 0.7, 0.45)
_DASH_NAMES = tuple(DASHES)


@dataclass(frozen=True)
class Style:
    """How a method or a quantity is drawn.

    `colour` is #RRGGBB, `dash` a name in `palette.DASHES`, `marker` one of `palette.MARKERS` or
    empty. `place` is the method's position among those shown together; `shown_first` is False for
    those that a page hides until the reader asks for them.
    """

    colour: str
    dash: str = "solid"
    marker: str = ""
    place: int = field(default=0, compare=False, repr=False)
    shown_first: bool = field(default=True, compare=False, repr=False)


Look = Mapping[str, Style]  # of each label that is shown


def styles(
    methods: Mapping[str, Part], shown_first: Collection[str] | None = None
) -> dict[str, Style]:
    """Return the style of each label, by the method that it stands for.

    All are `shown_first` by default. Colour and marker depend on the method's name alone. Methods
    of one colour are ranked by name and options: the plainest has the pure colour and a solid line,
    further ones change dash, marker and shade. So a style depends neither on other methods nor on
    the order of the labels. Of one method alone, more variants than there are shades have a hue
    each, or the colours of a ramp if they differ in numbers.

    >>> styles({"CE": Part("ce")})
    {'CE': Style(colour='#0072B2', dash='solid', marker='s')}
    """
    style_of: Callable[[str, int, str], Style] = variant
    by_value: dict[str, Style] = {}
    families = {method_family(method.name) for method in methods.values()}
    if len(families) == 1 and len(methods) > len(SHADES):
        style_of = hue
        by_value = ramped(methods)
    places = {label: place for place, label in enumerate(methods)}
    ranks: Counter[str] = Counter()
    styled: dict[str, Style] = {}
    for label in sorted(methods, key=lambda label: _order(label, methods[label])):
        colour = method_colour(methods[label].name)
        marker = METHOD_MARKERS.get(method_family(methods[label].name), MARKERS[-1])
        style = by_value.get(label) or style_of(colour, ranks[colour], marker)
        first = shown_first is None or label in shown_first
        styled[label] = replace(style, place=places[label], shown_first=first)
        ranks[colour] += 1
    return styled


def method_colour(name: str) -> str:
    """Return the colour of a method and of its ablations; one from elsewhere has one of a few.

    >>> method_colour("socrates"), method_colour("socrates:no-beta")
    ('#D55E00', '#D55E00')
    >>> method_colour("my_module:MyLoss")
    '#6B6A00'
    """
    known = COLOURS.get(method_family(name))
    return known or FURTHER[zlib.crc32(name.encode()) % len(FURTHER)]


def variant(colour: str, rank: int, marker: str = MARKERS[0]) -> Style:
    """Return the style of a method's variant by its rank; 132 of them differ.

    >>> variant("#D55E00", 0), variant("#D55E00", 1)
    (Style(colour='#D55E00', dash='solid', marker='o'),
     Style(colour='#954200', dash='dash', marker='s'))
    """
    darker = mixed("#000000", colour, SHADES[rank % len(SHADES)])
    return Style(darker, _DASH_NAMES[rank % len(_DASH_NAMES)], _marker(rank, marker))


def hue(colour: str, rank: int, marker: str = MARKERS[0]) -> Style:
    """Return the style of a variant, in another method's colour, where no other method is shown.

    >>> hue("#D55E00", 0), hue("#D55E00", 1)
    (Style(colour='#D55E00', dash='solid', marker='o'),
     Style(colour='#0072B2', dash='solid', marker='s'))
    """
    hues = [*dict.fromkeys((colour, *COLOURS.values()))]
    rounds, place = divmod(rank, len(hues))
    return Style(hues[place], _DASH_NAMES[rounds % len(_DASH_NAMES)], _marker(rank, marker))


def ramped(methods: Mapping[str, Part]) -> dict[str, Style]:
    """Return the styles of one method's variants that differ in one or two numbers, else nothing.

    The option with more values has colours in their order, dark to light; the other one has markers
    and dashes.

    >>> by_gamma = ramped({f"γ={gamma}": Part("focal", gamma=float(gamma)) for gamma in range(4)})
    >>> [style.colour for style in by_gamma.values()]
    ['#2B1B8F', '#8A1C9C', '#C53A6B', '#CF5F12']
    """
    ranks = _ranks_of_numbers(methods)
    if ranks is None:
        return {}
    most_values, *others = ranks
    styled: dict[str, Style] = {}
    for label, method in methods.items():
        options = dict(method.options)
        rank = ranks[most_values][options[most_values]]
        share = rank / (len(ranks[most_values]) - 1)
        other = ranks[others[0]][options[others[0]]] if others else 0
        dash = _DASH_NAMES[other % len(_DASH_NAMES)]
        marker = MARKERS[(other if others else rank) % len(MARKERS)]
        styled[label] = Style(on_ramp(share), dash, marker)
    return styled if len({*styled.values()}) == len(styled) else {}


def _ranks_of_numbers(methods: Mapping[str, Part]) -> dict[str, dict[object, int]] | None:
    """Return the rank of each value of the options that differ, the most varied option first.

    None unless these are variants of one method that differ in one or two numeric options.
    """
    options = [dict(method.options) for method in methods.values()]
    names = sorted({name for values in options for name in values})
    values = {name: {each.get(name) for each in options} for name in names}
    differing = [name for name in names if len(values[name]) > 1]
    differing.sort(key=lambda name: -len(values[name]))
    numeric = all(type(value) in (int, float) for name in differing for value in values[name])
    one_method = len({method.name for method in methods.values()}) == 1
    if not (one_method and numeric and 1 <= len(differing) <= 2):
        return None
    ordered = {name: sorted(values[name], key=_rankable) for name in differing}
    return {name: {value: rank for rank, value in enumerate(ordered[name])} for name in differing}


def _marker(rank: int, first: str) -> str:
    return MARKERS[(MARKERS.index(first) + rank) % len(MARKERS)]


def _order(label: str, method: Part) -> tuple[object, ...]:
    """Sort plain methods before ablated ones, few options before many, then by value and label."""
    values = [(key, _rankable(value)) for key, value in method.options]
    return ":" in method.name, method.name, len(values), values, label


def _rankable(value: object) -> tuple[float, str]:
    """Sort numbers by size and before words."""
    return (float(value), "") if isinstance(value, int | float) else (float("inf"), str(value))
