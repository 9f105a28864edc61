"""The first screen of a tuning study: the choice, why, and a map of its options.

Two options make a heat map of the validation scores, a third one several of them side by side.
Where that would be too large or mostly empty, each option has a strip of dots.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

from .answer import Answer, AnswerRow
from .dumbbell import dumbbells
from .figures.chart import Json
from .markup import markup
from .strip import Strip
from .style import Look
from .tuning import Tuning, Variant, option_in_words, printed
from .vocabulary import SYMBOLS
from .words import counted, seeds_of

MOST_VALUES = 8  # of an option along a side of the map
MOST_MAPS = 6
LEAST_FILLED = 0.5  # share of the cells of all maps


def tuning_screen(answer: Answer, tuning: Tuning, look: Look, level: int = 1) -> str:
    """Return the first screen of a study; `level` is that of its headline."""
    chosen = tuning.chosen
    rows = [row for row in answer.rows if chosen and row.label == chosen.results.label]
    if answer.case != "tune":
        answer = replace(answer, headline=headline(tuning), sentences=sentences(tuning, rows))
    maps = maps_of(tuning)
    return markup(
        "tuning.html",
        answer=answer,
        level=level,
        maps=maps,
        strips=[] if maps else strips_of(tuning),
        ranked_by=tuning.distance_in_words,
        chosen=chosen,
        card=_test_card(rows, look),
    )


def _test_card(rows: Sequence[AnswerRow], look: Look) -> str:
    """Return the dumbbell of the chosen variant, by the name of its method."""
    named = [replace(row, label=row.results.title) for row in rows]
    styles = {new.label: look[row.label] for row, new in zip(rows, named, strict=True)}
    return dumbbells(named, styles) if rows else ""


def headline(tuning: Tuning) -> str:
    """Return the choice."""
    if tuning.chosen is None:
        return "No variant can be chosen."
    return f"Choose {tuning.chosen.words}."


def sentences(tuning: Tuning, rows: Sequence[AnswerRow]) -> tuple[str, ...]:
    """Return how the choice was made, and what it measures on test data."""
    chosen = tuning.chosen
    ranked = [variant for variant in tuning.variants if variant.score]
    left_out = len(tuning.variants) - len(ranked)
    if chosen is None or chosen.score is None:
        return (f"All {counted(left_out, 'variant')} collapsed or have no validation numbers.",)
    seeds = seeds_of([len(variant.results.seeds) for variant in ranked])
    without = f" ({left_out} more collapsed)" if left_out else ""
    why = (
        f"Of {counted(len(ranked), 'variant')}{without} it is the nearest to no error and perfect "
        f"calibration on validation data: error {chosen.score.error:.1f}%, ECE "
        f"{chosen.score.ece:.1f}% (mean of {seeds})."
    )
    if not rows:
        return (why,)
    row = rows[0]
    scaled = f", {row.scaled.mean:.1f}% after scaling" if row.scaled else ""
    test = (
        f"On test data, which had no part in the choice, its ECE is {row.trained.mean:.1f}% as "
        f"trained{scaled}, its accuracy {row.accuracy.mean:.1f}%."
    )
    return why, test


def maps_of(tuning: Tuning) -> list[Json]:
    """Return a heat map of the two options with most values for each value of the others.

    Nothing if there are fewer than two options, too many values, or too few variants to fill it.
    """
    names = [*tuning.options]
    if len(names) < 2:
        return []
    across, down, *others = names
    facets = [*itertools.product(*(tuning.options[name] for name in others))]
    sizes = [len(tuning.options[name]) for name in (across, down)]
    num_cells = len(facets) * sizes[0] * sizes[1]
    filled = len(tuning.variants) / num_cells
    if max(sizes) > MOST_VALUES or len(facets) > MOST_MAPS or filled < LEAST_FILLED:
        return []
    places = {_key(variant.options, names): variant for variant in tuning.variants}
    maps: list[Json] = []
    for facet in facets:
        fixed = dict(zip(others, facet, strict=True))
        rows = [
            {
                "head": printed(value),
                "cells": [
                    _cell(places.get(_key({across: x, down: value, **fixed}, names)), tuning)
                    for x in tuning.options[across]
                ],
            }
            for value in tuning.options[down]
        ]
        title = ", ".join(option_in_words(name, value) for name, value in fixed.items())
        heads = [printed(value) for value in tuning.options[across]]
        sides = {"across": _side(across), "down": _side(down)}
        maps.append({"title": title, "heads": heads, "rows": rows, **sides})
    return maps


def _side(name: str) -> str:
    return SYMBOLS.get(name, name.replace("_", " "))


def _key(options: Mapping[str, object], names: Sequence[str]) -> tuple[str, ...]:
    return tuple(str(options[name]) for name in names)


def _cell(variant: Variant | None, tuning: Tuning) -> Json:
    """Return a cell: what the variant is ranked by, and how good that is among all, 0 to 1."""
    if variant is None:
        return {"text": "", "share": 0.0, "chosen": False, "more": "not tried"}
    if variant.score is None:
        reason = variant.results.collapse_reasons or "no validation numbers"
        return {"text": "✕", "share": 0.0, "chosen": False, "more": reason}
    return {
        "text": f"{variant.distance:.1f}",
        "share": round(_goodness(variant, tuning), 3),
        "chosen": variant is tuning.chosen,
        "more": f"error {variant.score.error:.1f}, ECE {variant.score.ece:.1f}",
    }


def _goodness(variant: Variant, tuning: Tuning) -> float:
    """Return 1 for the nearest of all variants, 0 for the farthest, by their ranks."""
    ranked = [other for other in tuning.variants if other.score]
    return 1 - ranked.index(variant) / max(len(ranked) - 1, 1)


def strips_of(tuning: Tuning) -> list[Json]:
    """Return, for each option, a dot per variant over its value, low ones better."""
    ranked = [variant for variant in tuning.variants if variant.score]
    if not ranked:
        return []
    height = Strip(0.0, 1.05 * max(variant.distance for variant in ranked))
    return [_strip(name, values, ranked, height, tuning) for name, values in tuning.options.items()]


def _strip(
    name: str,
    values: Sequence[object],
    ranked: Sequence[Variant],
    height: Strip,
    tuning: Tuning,
) -> Json:
    """Return the dots over the values of one option, which stand in their order."""
    places = {str(value): 100 * (k + 0.5) / len(values) for k, value in enumerate(values)}
    every = max(1, round(len(values) / 8))
    ticks = [(places[str(value)], printed(value)) for value in values[::every]]
    dots = [
        {
            "x": round(places[str(variant.options[name])], 2),
            "y": round(100 - height.at(variant.distance), 2),
            "chosen": variant is tuning.chosen,
            "title": f"{variant.words}: {variant.distance:.1f}",
        }
        for variant in ranked
    ]
    levels = [(round(100 - at, 2), text) for at, text in height.ticks(3)]
    return {"name": _side(name), "dots": dots, "ticks": ticks, "levels": levels}
