"""The first screen of several settings: a column of dumbbells for each, on shared rows.

Mean ranks stand at the right: 1 is the lowest ECE in every setting.
"""

import math
from collections.abc import Mapping, Sequence

from ..palette import on_dark
from .answer import Answer, AnswerRow, over_settings
from .dumbbell import MANY, Frame, floor_of, frame_of, values_of
from .figures.chart import Json
from .markup import markup
from .style import styles

Rows = Mapping[str, Mapping[str, AnswerRow]]  # by setting and method


def overview_screen(answers: Mapping[str, Answer]) -> str:
    """Return the first screen of several settings; empty if there is only one.

    >>> overview_screen({})
    ''
    """
    rows = {heading: {row.label: row for row in answer.rows} for heading, answer in answers.items()}
    ranks = mean_ranks(rows)
    overall = over_settings(answers)
    if overall is None or not ranks:
        return ""
    frames = {heading: frame_of([*own.values()]) for heading, own in rows.items()}
    names = short_names([*answers])
    parts = {row.label: row.results.method for own in rows.values() for row in own.values()}
    look = styles(parts)
    methods = [
        {
            "label": label,
            "style": look[label],
            "rank": "–" if math.isnan(rank) else f"{rank:.1f}",
            "cells": [
                _cell(own[label], frames[heading]) if label in own else None
                for heading, own in rows.items()
            ],
        }
        for label, rank in ranks.items()
    ]
    return markup(
        "overview.html",
        answer=overall,
        settings=[
            {"name": name, "title": heading, "frame": frames[heading]}
            for name, heading in zip(names, answers, strict=True)
        ],
        methods=methods,
        on_dark=on_dark,
        many=len(methods) > MANY,
    )


def _cell(row: AnswerRow, frame: Frame) -> Json:
    """Return the marks and numbers of a method in one setting."""
    return {
        "marks": values_of(row.trained, row.scaled, row.accuracy, frame),
        "floor": floor_of(row.floor, frame.ece),
        "failed": len(row.failures),
    }


def mean_ranks(rows: Rows) -> dict[str, float]:
    """Return the mean rank of each method by its ECE as trained, over the settings that have it.

    The best comes first; methods that are ranked nowhere have NaN and come last.
    """
    ranks: dict[str, list[int]] = {}
    for own in rows.values():
        ranked = [row for row in own.values() if math.isfinite(row.trained.mean)]
        ranked.sort(key=lambda row: row.trained.mean)
        for row in own.values():
            ranks.setdefault(row.label, [])
        for place, row in enumerate(ranked, start=1):
            ranks[row.label].append(place)
    means = {label: sum(own) / len(own) if own else math.nan for label, own in ranks.items()}
    order = sorted(means, key=lambda label: (math.isnan(means[label]), means[label]))
    return {label: means[label] for label in order}


def short_names(headings: Sequence[str]) -> list[str]:
    """Return what sets each setting apart from the others.

    >>> short_names(["digits, mlp, 6 epochs", "digits, cnn, 6 epochs"])
    ['mlp', 'cnn']
    """
    parts = [heading.split(", ") for heading in headings]
    shared = set(parts[0]).intersection(*parts) if parts else set()
    names = [", ".join(part for part in words if part not in shared) for words in parts]
    return [name or heading for name, heading in zip(names, headings, strict=True)]
