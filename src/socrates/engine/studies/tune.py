"""A study: candidates are trained with several seeds, scored on validation data, and one is chosen."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from socrates import pareto
from socrates.engine.events import Closed, Event, Failed, Finished, Planned, Tell, to_all, to_nobody
from socrates.engine.studies.candidates import Candidate, Grid, grid_candidates
from socrates.engine.studies.choice import Choice, Result, Score, choose, score_of
from socrates.engine.studies.runs import Engine, finished_run, train_missing
from socrates.engine.studies.trials import OptunaSearch
from socrates.experiment import Experiment
from socrates.files import write_json


@dataclass(frozen=True)
class Study:
    """What is asked: an experiment, the options to vary with their values, the seeds, the rule that chooses.

    Without `trials` every combination is tried; with it, optuna proposes so many within the range of the values.
    The rules are those of `pareto.RULES`.

    >>> from socrates.experiment import Part
    >>> study = Study(Experiment(Part("digits"), Part("mlp"), Part("focal")), {"gamma": (1.0, 2.0)}, (1, 2))
    >>> study.name
    'study-digits-mlp-focal-...'
    """

    base: Experiment
    grid: Grid
    seeds: tuple[int, ...]
    trials: int | None = None
    rule: str = "l1"

    def __post_init__(self) -> None:
        pareto.rule_of(self.rule)
        if not self.grid or not all(self.grid.values()):
            raise ValueError(f"a study varies options and needs values for each, got {dict(self.grid)}")
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"a study needs one or more different seeds, got {self.seeds}")
        if self.trials is not None and self.trials < 1:
            raise ValueError(f"a study needs at least 1 trial, got {self.trials}")

    @property
    def name(self) -> str:
        """A directory name; trials and rule are no part of it: a study can be made longer, and chosen from anew."""
        asked = {key: value for key, value in self.to_json().items() if key not in ("trials", "rule")}
        digest = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:8]
        return f"study-{self.base.readable_name()}-{digest}"

    def to_json(self) -> dict[str, Any]:
        """Plain dicts, lists, numbers and strings."""
        return {
            "experiment": replace(self.base, seed=self.seeds[0]).to_json(),
            "grid": {name: list(values) for name, values in self.grid.items()},
            "seeds": list(self.seeds),
            "search": "grid" if self.trials is None else "optuna",
            "trials": self.trials,
            "rule": self.rule,
        }


@dataclass(frozen=True)
class Tuned:
    """What a study found, and the folder of its study.json."""

    directory: Path
    results: tuple[Result, ...]
    choice: Choice
    failures: tuple[Failed, ...] = ()


def tune(study: Study, engine: Engine, tell: Tell = to_nobody) -> Tuned:
    """Train what is missing, and choose; runs go below `engine.out`, the study into its own folder there.

    Every finished run counts, whoever trained it, and none is trained again: a study that was stopped continues.
    """
    log = StudyLog(study, engine.out)
    points = grid_candidates(study.base, study.grid)  # also with optuna: it checks the range before anything starts
    search = None
    if study.trials is not None:
        at_once = -(-2 * engine.at_once // len(study.seeds))  # as many candidates as keep all processes busy
        search = OptunaSearch(study.base, study.grid, study.trials, at_once, log.directory / "optuna.journal")
    try:
        for batch in iter(search.ask, []) if search else [points]:
            log.candidates |= {candidate.experiment: candidate for candidate in batch}
            tell(log.progress())
            train_missing(log.runs_of(batch), engine, to_all(log.note, tell))
            if search:
                search.learn(log.results(batch))
            if all(run in log.failures for run in log.runs_of(batch)):
                break  # what fails everywhere is no property of a candidate
    finally:
        tell(Closed())
    return log.write()


class StudyLog:
    """What is known of a study so far, and its file, written anew whenever a candidate has all its runs."""

    def __init__(self, study: Study, out: Path) -> None:
        self.study, self.out, self.directory = study, out, out / study.name
        self.candidates: dict[Experiment, Candidate] = {}  # in the order they were asked for, each once
        self.scores: dict[Experiment, Score | str] = {}
        self.failures: dict[Experiment, Failed] = {}

    def runs_of(self, candidates: Iterable[Candidate]) -> list[Experiment]:
        """All runs of some candidates, each once."""
        return list(dict.fromkeys(run for candidate in candidates for run in candidate.runs(self.study.seeds)))

    def progress(self) -> Planned:
        """How many runs the study has in all, as far as is known, and how many of them are finished."""
        runs = self.runs_of(self.candidates.values())
        to_come = max(0, (self.study.trials or 0) - len(self.candidates)) * len(self.study.seeds)
        return Planned(len(runs) + to_come, sum(finished_run(self.out, run) is not None for run in runs))

    def note(self, event: Event) -> None:
        """A run has ended."""
        if isinstance(event, Failed):
            self.failures[event.experiment] = event
            self.scores[event.experiment] = f"failed: {event.reason}"
        elif isinstance(event, Finished):
            self.scores[event.experiment] = score_of(event.run)
        else:
            return
        if self.results([self.candidates[replace(event.experiment, seed=self.study.base.seed)]]):
            self.write()

    def results(self, candidates: Iterable[Candidate]) -> list[Result]:
        """Of the candidates whose runs have all ended."""
        found: list[Result] = []
        for candidate in candidates:
            runs = candidate.runs(self.study.seeds)
            if all(run in self.scores for run in runs):
                scores = {run.seed: self.scores[run] for run in runs}
                good = tuple(score for score in scores.values() if isinstance(score, Score))
                problems = tuple(f"seed {seed} {score}" for seed, score in scores.items() if isinstance(score, str))
                found.append(Result(candidate, good, problems, any(run in self.failures for run in runs)))
        return found

    def write(self) -> Tuned:
        """Write study.json, and tell what it holds."""
        results = self.results(self.candidates.values())
        choice = choose(results, self.study.rule)
        best = choice.best.candidate if choice.best else None
        content = {
            "asked": self.study.to_json(),
            "runs": asdict(self.progress()),
            "results": [self._plain(result) | {"front": result in choice.front} for result in results],
            "front": [dict(result.candidate.options) for result in choice.front],
            "choice": best and {"options": dict(best.options), "experiment": best.experiment.to_json()},
            "why": choice.why,
        }
        self.directory.mkdir(parents=True, exist_ok=True)
        write_json(self.directory / "study.json", content)
        return Tuned(self.directory, tuple(results), choice, tuple(self.failures.values()))

    def _plain(self, result: Result) -> dict[str, Any]:
        return {
            "options": dict(result.candidate.options),
            "runs": [run.name for run in result.candidate.runs(self.study.seeds)],
            "validation": [score._asdict() for score in result.scores],
            "mean": result.mean._asdict(),
            "std": result.std._asdict(),
            "problems": list(result.problems),
        }
