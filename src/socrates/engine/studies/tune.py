"""A study: candidates are trained with several seeds, scored on validation data, and one is chosen."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from socrates.engine.events import Closed, Event, Failed, Finished, Planned, Tell, to_all, to_nobody
from socrates.engine.studies.candidates import Candidate, Grid, grid_candidates
from socrates.engine.studies.choice import Choice, Result, Score, choose, score_of
from socrates.engine.studies.runs import Engine, finished_run, train_missing
from socrates.engine.studies.trials import OptunaSearch
from socrates.experiment import Experiment
from socrates.records import write_json

LONGEST_NAME = 150  # characters of a folder's name before the digest


@dataclass(frozen=True)
class Study:
    """What is asked: an experiment, the options to vary with their values, the seeds.

    Without `trials` every combination is tried; with it, optuna proposes so many within the range of the values.

    >>> from socrates.experiment import Part
    >>> study = Study(Experiment(Part("digits"), Part("mlp"), Part("focal")), {"gamma": (1.0, 2.0)}, (1, 2))
    >>> study.name
    'study-digits-mlp-focal-...'
    """

    base: Experiment
    grid: Grid
    seeds: tuple[int, ...]
    trials: int | None = None

    def __post_init__(self) -> None:
        empty = [name for name, values in self.grid.items() if not values]
        if not self.grid or empty:
            raise ValueError(f"a study varies options and needs values for each, got {dict(self.grid)}")
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"a study needs one or more different seeds, got {self.seeds}")
        if self.trials is not None and self.trials < 1:
            raise ValueError(f"a study needs at least 1 trial, got {self.trials}")

    @property
    def name(self) -> str:
        """A directory name; the number of trials is no part of it, so that a study can be made longer."""
        parts = "-".join((self.base.dataset.name, self.base.model.name, self.base.method.name))
        readable = re.sub(r"[^A-Za-z0-9_.-]", "_", parts)[:LONGEST_NAME]
        asked = {key: value for key, value in self.to_json().items() if key != "trials"}
        digest = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:8]
        return f"study-{readable}-{digest}"

    def to_json(self) -> dict[str, Any]:
        """Plain dicts, lists, numbers and strings."""
        return {
            "experiment": replace(self.base, seed=self.seeds[0]).to_json(),
            "grid": {name: list(values) for name, values in self.grid.items()},
            "seeds": list(self.seeds),
            "search": "grid" if self.trials is None else "optuna",
            "trials": self.trials,
        }


@dataclass(frozen=True)
class Tuned:
    """What a study found, and the folder of its study.json."""

    directory: Path
    results: tuple[Result, ...]
    choice: Choice
    failures: tuple[Failed, ...] = ()


class Search(Protocol):
    """Where candidates come from."""

    def ask(self) -> list[Candidate]:
        """The next ones; none at the end."""
        ...

    def learn(self, results: Sequence[Result]) -> None:
        """How those that were asked for last did."""
        ...


class GridSearch:
    """Every point of a grid, at once."""

    def __init__(self, candidates: list[Candidate]) -> None:
        self.candidates = candidates

    def ask(self) -> list[Candidate]:
        """All candidates, then none."""
        asked, self.candidates = self.candidates, []
        return asked

    def learn(self, results: Sequence[Result]) -> None:
        """Nothing depends on it."""


def tune(study: Study, engine: Engine, tell: Tell = to_nobody) -> Tuned:
    """Train what is missing, and choose; runs go below `engine.out`, the study into its own folder there.

    Every finished run counts, whoever trained it, and none is trained again: a study that was stopped continues.
    """
    log = StudyLog(study, engine.out)
    search = search_of(study, engine, log.directory)
    try:
        while batch := search.ask():
            log.expect(batch)
            tell(Planned(*log.progress()))
            train_missing(log.runs_of(batch), engine, to_all(log.note, tell))
            search.learn(log.results(batch))
            if all(run in log.failures for run in log.runs_of(batch)):
                break  # what fails everywhere is no property of a candidate
    finally:
        tell(Closed())
    return log.write()


def search_of(study: Study, engine: Engine, directory: Path) -> Search:
    """The grid, or optuna with as many candidates at once as keep all processes busy."""
    points = grid_candidates(study.base, study.grid)  # also with optuna: it checks the range before anything starts
    if study.trials is None:
        return GridSearch(points)
    at_once = -(-2 * engine.at_once // len(study.seeds))
    return OptunaSearch(study.base, study.grid, study.trials, at_once, directory / "optuna.journal")


class StudyLog:
    """What is known of a study so far, and its file, written anew whenever a candidate has all its runs."""

    def __init__(self, study: Study, out: Path) -> None:
        self.study, self.out = study, out
        self.directory = out / study.name
        self.candidates: dict[Experiment, Candidate] = {}  # in the order they were asked for, each once
        self.scores: dict[Experiment, Score | str] = {}
        self.failures: dict[Experiment, Failed] = {}
        self.owner: dict[Experiment, Candidate] = {}

    def expect(self, candidates: Sequence[Candidate]) -> None:
        """These will be trained next."""
        for candidate in candidates:
            self.candidates.setdefault(candidate.experiment, candidate)
            self.owner.update(dict.fromkeys(candidate.runs(self.study.seeds), candidate))

    def runs_of(self, candidates: Sequence[Candidate]) -> list[Experiment]:
        """All runs of some candidates, each once."""
        return list(dict.fromkeys(run for candidate in candidates for run in candidate.runs(self.study.seeds)))

    def progress(self) -> tuple[int, int]:
        """How many runs the study has in all, as far as is known, and how many of them are finished."""
        runs = self.runs_of(list(self.candidates.values()))
        to_come = max(0, (self.study.trials or 0) - len(self.candidates)) * len(self.study.seeds)
        return len(runs) + to_come, sum(finished_run(self.out, run) is not None for run in runs)

    def note(self, event: Event) -> None:
        """A run has ended."""
        match event:
            case Finished():
                self.scores[event.experiment] = score_of(event.run)
            case Failed():
                self.failures[event.experiment] = event
                self.scores[event.experiment] = f"failed: {event.reason}"
            case _:
                return
        if self.results([self.owner[event.experiment]]):
            self.write()

    def results(self, candidates: Sequence[Candidate]) -> list[Result]:
        """Of the candidates whose runs have all ended."""
        found: list[Result] = []
        for candidate in candidates:
            runs = candidate.runs(self.study.seeds)
            if all(run in self.scores for run in runs):
                scores = [self.scores[run] for run in runs]
                good = tuple(score for score in scores if isinstance(score, Score))
                bad = zip(self.study.seeds, scores, strict=True)
                problems = tuple(f"seed {seed} {score}" for seed, score in bad if isinstance(score, str))
                found.append(Result(candidate, good, problems, any(run in self.failures for run in runs)))
        return found

    def write(self) -> Tuned:
        """Write study.json, and tell what it holds."""
        results = self.results(list(self.candidates.values()))
        tuned = Tuned(self.directory, tuple(results), choose(results), tuple(self.failures.values()))
        total, finished = self.progress()
        content = {
            "asked": self.study.to_json(),
            "runs": {"total": total, "finished": finished},
            "results": [result_json(result, self.study.seeds, tuned.choice) for result in results],
            "front": [dict(result.candidate.options) for result in tuned.choice.front],
            "choice": choice_json(tuned.choice),
            "why": tuned.choice.why,
        }
        self.directory.mkdir(parents=True, exist_ok=True)
        write_json(self.directory / "study.json", content)
        return tuned


def result_json(result: Result, seeds: Sequence[int], choice: Choice) -> dict[str, Any]:
    """A candidate with its validation scores, as study.json has it."""
    return {
        "options": dict(result.candidate.options),
        "runs": [run.name for run in result.candidate.runs(seeds)],
        "validation": [score._asdict() for score in result.scores],
        "mean": result.mean._asdict(),
        "std": result.std._asdict(),
        "problems": list(result.problems),
        "front": result in choice.front,
    }


def choice_json(choice: Choice) -> dict[str, Any] | None:
    """The chosen options and the experiment that has them."""
    if choice.best is None:
        return None
    candidate = choice.best.candidate
    return {"options": dict(candidate.options), "experiment": candidate.experiment.to_json()}
