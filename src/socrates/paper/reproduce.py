"""Make tables and figures of the paper: find the runs they need, train these, write the files."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from .. import pareto
from ..engine.events import Tell, to_nobody
from ..engine.studies.candidates import check_parts
from ..engine.studies.preflight import KeepWeights, PlanCheck, check_plan, refuse_problems
from ..engine.studies.runs import StudyError, run_all
from ..experiment import Experiment, directory_name
from ..records import finished_run
from ..report.figures.compose import USUAL_WIDTH, Width
from ..report.write import NOTE
from .recipe_data import WantedRuns
from .recipes import Recipe, find_recipes, write_recipes
from .scales import USUAL_PRECISION, LaptopScale, PaperScale


@dataclass(frozen=True)
class Reproduced:
    """The files by recipe, the number of runs that are missing, and the runs that failed."""

    files: dict[str, list[Path]]
    num_missing: int
    failed: StudyError | None = None


@dataclass(frozen=True)
class Plan:
    """Tables and figures to make, the runs that each needs, and the folder of it all."""

    recipes: dict[str, Recipe]
    wanted: dict[str, WantedRuns]
    scale: PaperScale
    folder: Path
    rule: str = "l1"  # of `pareto.RULES`, by which tables name the best

    @property
    def runs(self) -> list[Experiment]:
        """Return every run that is needed, once."""
        return list(dict.fromkeys(run for name in self.wanted for run in self.runs_of(name)))

    def runs_of(self, name: str) -> list[Experiment]:
        """Return the runs of one table or figure, each once."""
        columns = [runs for column in self.wanted[name].values() for runs in column.values()]
        return list(dict.fromkeys(run for runs in columns for run in runs))

    def checks(
        self, data_root: Path | None = None, keep_weights: KeepWeights = "none", **_: Any
    ) -> list[PlanCheck]:
        """Look at everything that the runs need that are not finished yet."""
        runs = self.folder / "runs"
        missing = [run for run in self.runs if finished_run(runs, run) is None]
        return check_plan(missing, self.folder, data_root, keep_weights)

    def carry_out(
        self, tell: Tell = to_nobody, width: Width = USUAL_WIDTH, **place: Any
    ) -> Reproduced:
        """Train the runs that are missing, and write everything from what there is.

        `place` is that of `run_all`. At the paper's scale, a plan on this machine whose data,
        weights or disk are missing is refused before its first run.
        """
        runs = self.folder / "runs"
        failed = None
        if self.scale.size == "paper" and place.get("engine", "local") == "local":
            refuse_problems(self.checks(**place))
        if self.scale.note:
            runs.mkdir(parents=True, exist_ok=True)
            # whatever reports these runs says so too
            (runs / NOTE).write_text(f"{self.scale.note}\n", encoding="utf-8")
        try:
            run_all(self.runs, runs, **place, tell=tell)
        except StudyError as error:
            failed = error  # what is there is written all the same
        files, missing = write_recipes(
            self.recipes, self.wanted, self.scale, runs, self.folder, width, rule=self.rule
        )
        return Reproduced(files, len(missing), failed)


def plan(
    names: Sequence[str],
    *,
    settings: Sequence[str] = (),
    scale: Literal["paper", "laptop"] = "laptop",
    dataset: str = "digits",
    seeds: Sequence[int] | None = None,
    rule: str = "l1",
    as_released: bool = False,
    precision: str = USUAL_PRECISION,
    out: Path | str = "runs/reproduce",
) -> Plan:
    """Find the runs that tables and figures need; nothing is trained or written.

    `as_released` trains as the authors' code did, where that decides printed numbers.

    >>> table = plan(["table6"])
    >>> len(table.runs), table.folder.as_posix()
    (25, 'runs/reproduce/laptop')
    """
    recipes = find_recipes(names)
    pareto.rule_of(rule)
    chosen = PaperScale(released=as_released, precision=precision)
    if scale == "laptop":
        chosen = LaptopScale(dataset, released=as_released, precision=precision)
    wanted = {name: recipe.wanted(settings, chosen, seeds) for name, recipe in recipes.items()}
    folder = Path(out) / chosen.name / ("" if dataset == "digits" else directory_name(dataset))
    reproduction = Plan(recipes, wanted, chosen, folder, rule)
    for run in reproduction.runs[:1]:
        check_parts(run)
    return reproduction


def reproduce(names: Sequence[str], *, tell: Tell = to_nobody, **options: Any) -> Reproduced:
    """Make tables and figures of the paper: train the runs that are missing, then write them.

    Called again, it continues. Options are those of `plan`, which shows what would be trained
    (settings, scale, dataset, seeds, rule, as_released, precision, out), and those of `run_all`
    (data_root, processes, accelerator); `width` is that of the figures: column, text or full.

    >>> reproduce(["table66"])
    Traceback (most recent call last):
    ValueError: ... 'table66'...
    """
    names_of_place = ("data_root", "processes", "accelerator", "keep_weights", "width")
    place = {name: options.pop(name) for name in names_of_place if name in options}
    return plan(names, **options).carry_out(tell, **place)
