"""`socrates tune`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rich.table import Table
from rich.text import Text

from socrates.engine.studies.candidates import option_of, short
from socrates.engine.studies.display import StudyDisplay
from socrates.engine.studies.local import LocalEngine
from socrates.engine.studies.runs import StudyError
from socrates.engine.studies.tune import Study, Tuned, tune
from socrates.experiment import Experiment, Value
from socrates.paper.grid import GRIDS
from socrates.report.tables import Cell

from .commands import Tune
from .options import command_of, parse_seeds, read
from .output import console, show, table_of


def run_tune(options: Tune) -> None:
    """`socrates tune`."""
    seeds = parse_seeds(options.seeds)
    epochs = options.optimization(options.dataset, options.model, options.method).epochs
    base = replace(options, keep_every=options.keep_every or epochs).named_experiment(seeds[0])
    study = Study(base, grid_of(options, base), seeds, options.trials)
    tuned = tune(study, LocalEngine(options.out, **options.place), StudyDisplay(console))
    console.print(tune_table(tuned, base, len(seeds)))
    show_choice(tuned)
    if tuned.failures:
        raise StudyError(tuned.failures, len(tuned.results) * len(seeds))


def grid_of(options: Tune, base: Experiment) -> dict[str, tuple[Value, ...]]:
    """The values to try: those of --grid, or the paper's without what is fixed on the command line."""
    given = options.given()
    fixed = {*given["method"], *given["model"]}
    fixed |= {name for name in ("batch_size", "learning_rate") if getattr(options, name) is not None}
    if options.grid:
        grid = parse_grid(options.grid, base)
        both = sorted(fixed & set(grid))
        if both:
            raise ValueError(f"{', '.join(both)} is given both by itself and in --grid: leave one out")
        return grid
    if options.method not in GRIDS:
        raise ValueError(
            f"the paper has no grid for {options.method!r}, only for {', '.join(GRIDS)}: give one, such as "
            f"--grid batch_size=64,128"
        )
    epochs = base.optimization.epochs
    paper = {name: values for name, values in GRIDS[options.method].items() if name not in fixed}
    if "start_epoch" in paper:  # a second phase after the last epoch would never begin
        paper["start_epoch"] = tuple(value for value in paper["start_epoch"] if value < epochs)
        if not paper["start_epoch"]:
            raise ValueError(f"the paper's grid starts no second phase before epoch {epochs}: give --epochs or --grid")
    if not paper:
        raise ValueError(f"nothing is left of the paper's grid for {options.method}: give --grid, or fix fewer options")
    return dict(paper)


def parse_grid(words: Sequence[str], base: Experiment) -> dict[str, tuple[Value, ...]]:
    """`gamma=1,2 batch_size=64` as values of the options' own types.

    >>> from socrates.experiment import Experiment, Part
    >>> base = Experiment(Part("digits"), Part("mlp"), Part("focal"))
    >>> parse_grid(["gamma=1,2", "width=16"], base)
    {'gamma': (1.0, 2.0), 'width': (16,)}
    """
    grid: dict[str, tuple[Value, ...]] = {}
    for word in words:
        name, _, values = word.partition("=")
        name = name.replace("-", "_")
        if not name or not all(values.split(",")):
            raise ValueError(f"--grid takes NAME=VALUE,VALUE such as gamma=1,2,3, got {word!r}")
        if name in grid:
            raise ValueError(f"--grid has {name} twice: give all its values at once, {name}=VALUE,VALUE")
        default = option_of(base, name)[1]
        grid[name] = tuple(dict.fromkeys(read(name, text, default) for text in values.split(",")))
    return grid


def tune_table(tuned: Tuned, base: Experiment, num_seeds: int) -> Table:
    """The candidates: what they measured, which are on the front, which is chosen, which collapsed."""
    seeds = "1 seed" if num_seeds == 1 else f"mean ± std over {num_seeds} seeds"
    title = f"{base.dataset.name}, {base.model.name}, {base.method.name}: validation set, last epoch, {seeds}"
    names = tuple(dict(tuned.results[0].candidate.options)) if tuned.results else ()
    table = table_of(title, (), (*names, "accuracy, %", "ECE, %", "CW-ECE, %"))
    table.add_column("")
    for result in tuned.results:
        chosen = result is tuned.choice.best
        place = "front, chosen" if chosen else "front" if result in tuned.choice.front else ""
        style = "red" if result.problems else "bold" if chosen else ""
        means = result.mean._replace(error=1 - result.mean.error)  # the accuracy
        cells = [Cell(100 * mean, 100 * std).text for mean, std in zip(means, result.std, strict=True)]
        values = [short(value) for _, value in result.candidate.options]
        table.add_row(*map(Text, (*values, *cells, "; ".join(result.problems) or place)), style=style)
    return table


def show_choice(tuned: Tuned) -> None:
    """The choice, why, how to train it, and where everything is."""
    best = tuned.choice.best
    if best is not None:
        show(best.candidate.label, "\nchoice: ")
    console.print(Text(f"why: {tuned.choice.why}"))
    if best is not None:
        show("train it, with logits of more epochs kept, by:")
        show(f"  {command_of(replace(best.candidate.experiment, keep_every=25))}")
    show(f"study: {tuned.directory / 'study.json'}")
    show(f"runs: {tuned.directory.parent}")
