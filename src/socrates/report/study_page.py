"""The page of a study: its answer, charts and tables as data for `page.render`.

Several settings have a screen of all above one at a time; a tuning study shows validation numbers
of all its variants, and test numbers of the chosen one.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from socrates.experiment import Experiment

from .aggregate import Skipped
from .answer import Answer
from .comparisons import overview_table, scaled_table
from .figures import FIGURES, sections_in_words
from .figures.chart import Json, by_reading
from .first_screen import first_screen
from .listings import significance_table
from .markup import markup
from .overview import overview_screen
from .page import composed, meanings, methods_of, page_of
from .results import Members, Results, Settings
from .selection import first_shown
from .statistics import mean_std
from .strangers import strangers_table
from .style import Look, styles
from .tables import to_html
from .tuning import tuning_of, variants_table
from .tuning_screen import tuning_screen
from .vocabulary import FEWEST, METHODS, METRICS, READINGS, USUAL_READING, study_scalers
from .words import counted

VARIANTS = {
    "name": "variants",
    "heading": "How good is each variant?",
    "how": "Validation data, mean ± standard deviation over seeds, the best first.",
}


def page_data(
    settings: Settings,
    answers: Mapping[str, Answer],
    skipped: Sequence[Skipped] = (),
    *,
    command: Callable[[Experiment], str] = lambda experiment: "",
    files: Sequence[str] = (),
    counted_settings: Settings | None = None,
) -> Json:
    """Return all that the page of a report shows as plain JSON, the setting with most runs first.

    `answers` are those of the settings; `command` returns the command line that repeats an
    experiment; `files` are paths from the page to link to; `counted_settings` are the settings with
    failed runs counted, for readers who want to see them.
    """
    filled = [(heading, members) for heading, members in settings.items() if members]
    filled.sort(key=lambda setting: -sum(len(results.seeds) for results in setting[1]))
    whole = counted_settings or settings
    everyone = [results for members in whole.values() for results in members]
    counts = {
        **({"settings": len(filled)} if len(filled) != 1 else {}),
        "runs": sum(len(results.seeds) for results in everyone),
        "seeds": len({seed for results in everyone for seed in results.seeds}),
    }
    if images := num_test_images(everyone):
        counts["test images"] = images
    several = len(filled) > 1
    shown = [
        setting_data(
            heading,
            members,
            answers[heading],
            command,
            whole.get(heading, members),
            several,
        )
        for heading, members in filled
    ]
    left_out = [(str(directory), reason) for directory, reason in skipped]
    page = page_of(shown, sections_in_words(), "socrates report", counts, left_out, files)
    study = overview_screen({heading: answers[heading] for heading, _ in filled})
    return {**page, "study": study}


def setting_data(
    heading: str,
    members: Members,
    answer: Answer,
    command: Callable[[Experiment], str],
    every_run: Members,
    several: bool = False,
) -> Json:
    """Return one setting of a report: its answer, its charts, and tables by reading.

    Of a tuning study all but the validation numbers are those of the chosen variant. `every_run`
    are the members with their failed runs. Where there are `several` settings, the headline of
    each stands below that of all.
    """
    level = 2 if several else 1
    tuning = tuning_of(members, answer.rule) if answer.case == "tune" else None
    runs = [(run, item.label) for item in every_run for run in item.runs]
    if tuning is not None:
        members = [tuning.chosen.results] if tuning.chosen else []
    look = styles({item.label: item.method for item in members}, first_shown(members))
    opening = (
        tuning_screen(answer, tuning, look, level)
        if tuning
        else first_screen(answer, look, every_run, level)
    )
    methods = methods_of(members, look)
    charts = {name: figure.charts(members, look) for name, figure in FIGURES.items()}
    tables = tables_of(heading, members, methods)
    if tuning is not None:
        tables["variants"] = {USUAL_READING: to_html(variants_table(tuning), sortable=True)}
    sections = [
        section
        for section in [VARIANTS, *sections_in_words()]
        if charts.get(section["name"]) or section["name"] in tables
    ]
    listed = markup(
        "runs.html", runs=runs, look=look, command=command, duration=duration, dumps=json.dumps
    )
    unknown = any(results.unknown_class for results in members)
    sound = [row.results for row in answer.rows if row.label in look]
    switch = {"readings": READINGS, "agreement": agreement(sound)} if unknown else {}
    setting = composed(
        heading,
        methods,
        sections,
        charts,
        tables,
        opening,
        runs=listed,
        runs_in_words=counted(len(runs), "run"),
        **switch,
    )
    return {**setting, "unknown": unknown, "trail": trail_of(members, look)}


def tables_of(
    heading: str, members: Members, methods: Mapping[str, Json]
) -> dict[str, dict[str, str]]:
    """Return the tables of a setting's sections as markup, by reading."""
    html = partial(to_html, methods=methods, hints=head_hints())
    tables = {
        "overview": by_reading(
            members, lambda reading: html(overview_table(members, reading), sortable=True)
        ),
        "scaling": by_reading(members, lambda reading: html(scaled_table(members, reading))),
    }
    if len(members) > 1:
        differences = significance_table({heading: members}, metrics=FEWEST).without_first_key()
        tables["differences"] = {USUAL_READING: html(differences)}
    strangers = strangers_table({heading: members}).without_first_key()
    if strangers.rows:
        tables["strangers"] = {USUAL_READING: html(strangers)}
    return tables


def trail_of(members: Members, look: Look) -> int | None:
    """Return the place of the method whose way through training is drawn before one is chosen.

    That is the best Socrates, or else the best of all.

    >>> trail_of([], {})
    """
    shown = [results for results in members if look[results.label].shown_first]
    if not shown:
        return None

    def order(results: Results) -> tuple[bool, tuple[bool, float]]:
        return results.title != METHODS["socrates"], results.standing(METRICS["ece"])

    return look[min(shown, key=order).label].place


def num_test_images(members: Members) -> int:
    """Return the size of the test split, or 0 if it is not known or not the same for all.

    >>> num_test_images([])
    0
    """
    sizes = {
        round(stats.count.sum())
        for results in members
        for stats in results.bins("test", USUAL_READING)
    }
    return sizes.pop() if len(sizes) == 1 else 0


def agreement(members: Members) -> str:
    """Return how many answers are "unknown", and by how much the readings therefore differ.

    Runs that collapsed are not counted: they say nothing about the others. Empty if there is no
    other, or if it is not known.

    >>> agreement([])
    ''
    """
    with_unknown = [
        results for results in members if results.unknown_class and not results.collapses
    ]
    bins = [stats for item in with_unknown for stats in item.bins("test", USUAL_READING)]
    rows = np.array([stats.count.sum() for stats in bins])
    shares = np.array([share for item in with_unknown for share in item.values("unknown_share")])
    if not len(rows) or len(rows) != len(shares) or not np.isfinite(shares).all():
        return ""
    answers = f"{round(float(shares @ rows)):,} of {round(rows.sum()):,} answers are “unknown”"
    spread = 0.0
    for metric in FEWEST:
        means = [
            [100 * mean_std(results.values(metric, reading=reading))[0] for reading in READINGS]
            for results in with_unknown
        ]
        spread = max(spread, float(np.nanmax(np.ptp(means, axis=1))))
    if spread < 0.015:
        return (
            f"{answers}: the {len(READINGS)} readings agree, no accuracy or ECE moves by more "
            "than 0.01 points."
        )
    return (
        f"{answers}: between the {len(READINGS)} readings accuracy or ECE moves by up to "
        f"{spread:.2f} points."
    )


def head_hints() -> dict[str, str]:
    """Return the meaning of each head of a column of metrics or scalers."""
    words = meanings()
    hints = {spec.head: words[spec.symbol] for spec in METRICS.values()}
    for scaler in study_scalers().values():
        if scaler.short:
            hints[f"+ {scaler.short}"] = f"after {words[scaler.short]}"
    return hints


def duration(seconds: float) -> str:
    """Return seconds in words.

    >>> duration(7.26), duration(754), duration(9000)
    ('7.3 s', '12 min 34 s', '2 h 30 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
