"""Compare four losses on digits in a minute: `socrates quickstart`."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from socrates.engine import run_all
from socrates.engine.display import StudyDisplay
from socrates.experiment import Experiment, Part, usual_optimization
from socrates.prose import print_prose, whole
from socrates.report.aggregate import group_runs, read_runs
from socrates.report.compare import TIED, Compared, ranked
from socrates.report.results import Results
from socrates.report.terminal import NamedTable, cell_text, names, numbers
from socrates.report.vocabulary import METRICS

METHODS = (
    Part("ce"),
    Part("focal", gamma=1.0),
    Part("brier"),
    Part("socrates", gamma=1.0, alpha=0.99),
)
SEEDS = range(1, 6)
COLUMNS = ("accuracy", "ece", "ece_floor", "ada_ece", "nll")


def experiments() -> list[Experiment]:
    """Return the runs that are compared."""
    optimization = usual_optimization("digits", "mlp", "ce")
    return [
        Experiment(
            Part("digits"),
            Part("mlp"),
            method,
            seed,
            num_train=300,
            keep_every=optimization.epochs,
            optimization=optimization,
        )
        for method in METHODS
        for seed in SEEDS
    ]


def quickstart(out: Path, console: Console) -> None:
    """Train the runs that are missing on all cores, and print the table."""
    runs = run_all(experiments(), out, tell=StudyDisplay(console))
    finished, _ = read_runs([run.directory for run in runs])
    (results,) = group_runs(finished).values()
    console.print(table(results))
    print_prose(console, f"runs: {whole(out)}")


def with_scaled(results: Sequence[Results]) -> dict[str, tuple[Results, str]]:
    """Return, by label, the methods as they were trained, and the first one scaled."""
    methods = {method.label: (method, "none") for method in results}
    return methods | {f"{results[0].label} + TS": (results[0], "temperature")}


def table(results: Sequence[Results]) -> NamedTable:
    """Return mean ± std over the seeds: the best in bold, what cannot be told from it with †."""
    columns = [Compared(label, *measured) for label, measured in with_scaled(results).items()]
    cells = ranked(columns, COLUMNS)
    heads = [METRICS[name].head for name in COLUMNS]
    title = f"digits, 300 training images, MLP, {len(SEEDS)} seeds, mean ± std, test set"
    summary = NamedTable([*names("method"), *numbers(*heads)], title=title)
    for column in columns:
        texts = [cell_text(cells[column.label, name]) for name in COLUMNS]
        summary.add_row(column.label, *texts)
    summary.caption = TIED
    return summary
