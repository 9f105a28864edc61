"""A tuning study on the page: one method with several options, ranked on validation data alone.

The choice is made as `socrates tune` makes it: the point of the Pareto front of validation error
and ECE that is nearest to the origin. Test numbers are those of the chosen variant only, because a
choice by test numbers would make them worthless.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from socrates import pareto

from .evidence import evidence_of
from .labels import varied_options
from .results import Members, Results
from .statistics import Family, mean_std
from .study_rule import USUAL_RULE
from .tables import Cell, Table, TableRow
from .vocabulary import FEWEST, METRICS, SYMBOLS, printed_option
from .words import counted, listed, seeds_of

FEWEST_VARIANTS = 4  # variants of one method that make a study of its options
SCORES = {"error": "Error (%)", "ece": "ECE (%)", "cw_ece": "CW-ECE (%)"}


class VariantScore(NamedTuple):
    """Mean validation error, ECE and class-wise ECE, in percent."""

    error: float
    ece: float
    cw_ece: float


@dataclass(frozen=True)
class Variant:
    """A method with some of its options, by name, and its scores.

    A variant with collapsed runs, or without numbers, has no score and cannot be chosen.
    """

    results: Results
    options: Mapping[str, object]
    score: VariantScore | None
    distance: float = float("nan")

    @property
    def words(self) -> str:
        """Return the options as they are printed."""
        return " ".join(option_in_words(name, value) for name, value in self.options.items())


@dataclass(frozen=True)
class Tuning:
    """All variants, the nearest to the origin first, and the options that vary with their values.

    The option with most values comes first.
    """

    variants: tuple[Variant, ...]
    options: Mapping[str, Sequence[object]]
    rule: str

    @property
    def chosen(self) -> Variant | None:
        """Return the variant that is chosen; None if none has a score."""
        ranked = [variant for variant in self.variants if variant.score]
        return pareto.best(ranked, lambda variant: variant.score, self.rule) if ranked else None

    @property
    def distance_in_words(self) -> str:
        """Return what the variants are ranked by."""
        return {"l1": "error + ECE, %", "ece": "ECE, %"}.get(self.rule, "distance")


def tuning_of(members: Members, rule: str = USUAL_RULE) -> Tuning | None:
    """Return the study that the members are, or None if they are a comparison of methods.

    `rule` is one of `pareto.RULES`.

    >>> tuning_of([]) is None
    True
    """
    experiments = [results.experiment for results in members if results.experiment]
    one_method = len({experiment.method.name for experiment in experiments}) == 1
    if len(members) < FEWEST_VARIANTS or not one_method or len(experiments) < len(members):
        return None
    options = varied_options(experiments)
    scores = [validation_score(results) for results in members]
    known = [score for score in scores if score]
    distances = iter(pareto.distances(known, rule=rule) if known else ())
    variants = [
        Variant(results, own, score, next(distances) if score else float("nan"))
        for results, own, score in zip(members, options, scores, strict=True)
    ]
    variants.sort(key=lambda variant: (variant.score is None, variant.distance))
    values = {name: sorted({own[name] for own in options}, key=rankable) for name in options[0]}
    return Tuning(tuple(variants), values, rule)


def validation_score(results: Results) -> VariantScore | None:
    """Return the means over the seeds; None if a run collapsed or was not measured.

    The class-wise ECE settles ties; where it was not measured, the ECE takes its place.
    """
    accuracy, ece, cw_ece = (
        mean_std(100 * results.values(name, split="val"))[0]
        for name in ("accuracy", "ece", "cw_ece")
    )
    score = VariantScore(100 - accuracy, ece, cw_ece if math.isfinite(cw_ece) else ece)
    return score if np.isfinite(score).all() and not results.collapses else None


def against_others(members: Members, chosen: Results) -> str:
    """Return what the seeds show of a choice: how many others are surely worse, or better.

    The verdicts are those of `statistics.Family` on validation data, as in the tables.

    >>> from socrates.experiment import Part
    >>> one = Results("CE", Part("ce"))
    >>> against_others([one], one)
    ''
    """
    ranked = [results for results in members if not results.collapses]
    if chosen not in ranked or len(ranked) < 2:
        return ""
    seeds = seeds_of([len(results.seeds) for results in ranked])
    found: list[str] = []
    for metric in FEWEST:
        spec = METRICS[metric]
        family = Family([evidence_of(results, spec, split="val") for results in ranked], spec)
        verdicts = [one.words for one in family.against(ranked.index(chosen))]
        found += [
            f"{verdicts.count(verdict)} surely {verdict} in {spec.symbol}"
            for verdict in ("worse", "better")
            if verdict in verdicts
        ]
    others = counted(len(ranked) - 1, "other candidate")
    verb = "is" if len(ranked) == 2 else "are"
    if found:
        return f"By {seeds} on validation data, of {others} {verb} {listed(found, 'and')}."
    return (
        f"On validation data {others} {verb} not shown by {seeds} to be better or worse than the "
        f"choice in {listed([METRICS[metric].symbol for metric in FEWEST], 'or')}."
    )


def variants_table(tuning: Tuning) -> Table:
    """Return a row per variant with its validation scores, mean ± std over seeds, best first."""
    rows: list[TableRow] = []
    for variant in tuning.variants:
        results = variant.results
        values = {name: 100 * results.values(name, split="val") for name in ("ece", "cw_ece")}
        values["error"] = 100 - 100 * results.values("accuracy", split="val")
        cells = [Cell(*mean_std(values[name]), n=len(results.seeds), form=".2f") for name in SCORES]
        remark = results.collapse_reasons or ("chosen" if variant is tuning.chosen else "")
        rows.append(TableRow((variant.words,), (*cells, remark)))
    heads = ("Variant", *SCORES.values(), "Remark")
    return Table("variants", "Variants on validation data", heads, tuple(rows))


def option_in_words(name: str, value: object) -> str:
    """Return an option as it is printed.

    >>> option_in_words("gamma", 2.0), option_in_words("batch_size", 64)
    ('γ=2', 'batch size 64')
    """
    if name in SYMBOLS:
        return f"{SYMBOLS[name]}={printed(value)}"
    return f"{name.replace('_', ' ')} {printed(value)}"


def printed(value: object) -> str:
    """Return the value of an option as it is printed."""
    return printed_option(value) if isinstance(value, float) else str(value)


def rankable(value: object) -> tuple[float, str]:
    """Return a key that sorts numbers by size and before words."""
    return (float(value), "") if isinstance(value, int | float) else (float("inf"), str(value))
