"""A study: train candidates with several seeds, score them on validation data, and choose one."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from socrates import pareto
from socrates.engine.events import Closed, Event, Failed, Finished, Planned, Tell, to_all, to_nobody
from socrates.engine.studies.candidates import Candidate, Grid, grid_candidates
from socrates.engine.studies.choice import (
    CandidateResult,
    Choice,
    ValidationScore,
    choose,
    score_of,
)
from socrates.engine.studies.runs import Engine, train_missing
from socrates.engine.studies.trials import OptunaSearch
from socrates.experiment import Experiment
from socrates.files import write_json
from socrates.records import finished_run


@dataclass(frozen=True)
class Study:
    """An experiment, the options to vary with their values, the seeds, and the rule that chooses.

    Without `trials` every combination is tried; with it, optuna proposes this many within the range
    of the values. The rules are those of `pareto.RULES`.

    >>> from socrates.experiment import Part
    >>> base = Experiment(Part("digits"), Part("mlp"), Part("focal"))
    >>> study = Study(base, {"gamma": (1.0, 2.0)}, (1, 2))
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
            raise ValueError(
                f"a study varies options and needs values for each, got {dict(self.grid)}"
            )
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"a study needs one or more different seeds, got {self.seeds}")
        if self.trials is not None and self.trials < 1:
            raise ValueError(f"a study needs at least 1 trial, got {self.trials}")

    @property
    def name(self) -> str:
        """Return the name of the study's directory.

        Trials and rule are not part of it: a study can be made longer, and chosen from again.
        """
        asked = self.to_json()
        del asked["trials"], asked["rule"]
        digest = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:8]
        return f"study-{self.base.readable_name()}-{digest}"

    def to_json(self) -> dict[str, Any]:
        """Return the study as plain dicts, lists, numbers and strings."""
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
    """The results of a study, its choice, and the folder of its study.json."""

    directory: Path
    results: tuple[CandidateResult, ...]
    choice: Choice
    failures: tuple[Failed, ...] = ()


def tune(study: Study, engine: Engine, tell: Tell = to_nobody) -> Tuned:
    """Train what is missing, and choose.

    Runs go below `engine.out`, the study into its own folder there. Every finished run counts,
    whatever command trained it, and none is trained again: a study that was stopped continues.
    """
    log = StudyLog(study, engine.out)
    # also with optuna: it checks the range before anything starts
    points = grid_candidates(study.base, study.grid)
    search = None
    if study.trials is not None:
        # as many candidates as keep all processes busy
        at_once = -(-2 * engine.at_once // len(study.seeds))
        journal = log.directory / "optuna.journal"
        search = OptunaSearch(study.base, study.grid, study.trials, at_once, journal)
    try:
        for batch in iter(search.ask, []) if search else [points]:
            log.candidates |= {candidate.experiment: candidate for candidate in batch}
            tell(log.progress())
            train_missing(log.runs_of(batch), engine, to_all(log.note, tell))
            if search:
                search.learn(log.results(batch))
            if all(run in log.failures for run in log.runs_of(batch)):
                break  # what fails everywhere is not the fault of a candidate
    finally:
        tell(Closed())
    return log.write()


class StudyLog:
    """What is known of a study so far; study.json is written when a candidate has all its runs."""

    def __init__(self, study: Study, out: Path) -> None:
        self.study = study
        self.out = out
        self.directory = out / study.name
        # in the order they were proposed, each once
        self.candidates: dict[Experiment, Candidate] = {}
        self.scores: dict[Experiment, ValidationScore | str] = {}
        self.failures: dict[Experiment, Failed] = {}

    def runs_of(self, candidates: Iterable[Candidate]) -> list[Experiment]:
        """Return all runs of some candidates, each once."""
        runs = (run for candidate in candidates for run in candidate.runs(self.study.seeds))
        return list(dict.fromkeys(runs))

    def progress(self) -> Planned:
        """Return how many runs the study has in all, as far as is known, and how many finished."""
        runs = self.runs_of(self.candidates.values())
        num_finished = sum(finished_run(self.out, run) is not None for run in runs)
        candidates_to_come = max(0, (self.study.trials or 0) - len(self.candidates))
        return Planned(len(runs) + candidates_to_come * len(self.study.seeds), num_finished)

    def note(self, event: Event) -> None:
        """Note the end of a run; other events change nothing."""
        if isinstance(event, Failed):
            self.failures[event.experiment] = event
            self.scores[event.experiment] = f"failed: {event.reason}"
        elif isinstance(event, Finished):
            self.scores[event.experiment] = score_of(event.run)
        else:
            return
        candidate = self.candidates[replace(event.experiment, seed=self.study.base.seed)]
        if self.results([candidate]):
            self.write()

    def results(self, candidates: Iterable[Candidate]) -> list[CandidateResult]:
        """Return the results of the candidates whose runs have all ended."""
        return [
            self._result(candidate)
            for candidate in candidates
            if all(run in self.scores for run in candidate.runs(self.study.seeds))
        ]

    def _result(self, candidate: Candidate) -> CandidateResult:
        scores: list[ValidationScore] = []
        problems: list[str] = []
        runs = candidate.runs(self.study.seeds)
        for run in runs:
            score = self.scores[run]
            if isinstance(score, ValidationScore):
                scores.append(score)
            else:
                problems.append(f"seed {run.seed} {score}")
        failed = any(run in self.failures for run in runs)
        return CandidateResult(candidate, tuple(scores), tuple(problems), failed)

    def write(self) -> Tuned:
        """Write study.json, and return what it holds."""
        results = self.results(self.candidates.values())
        choice = choose(results, self.study.rule)
        chosen = None
        if choice.best:
            best = choice.best.candidate
            chosen = {"options": dict(best.options), "experiment": best.experiment.to_json()}
        content = {
            "asked": self.study.to_json(),
            "runs": asdict(self.progress()),
            "results": [self._plain(result, choice) for result in results],
            "front": [dict(result.candidate.options) for result in choice.front],
            "choice": chosen,
            "why": choice.why,
        }
        self.directory.mkdir(parents=True, exist_ok=True)
        write_json(self.directory / "study.json", content)
        return Tuned(self.directory, tuple(results), choice, tuple(self.failures.values()))

    def _plain(self, result: CandidateResult, choice: Choice) -> dict[str, Any]:
        """Return a result as plain dicts, lists, numbers and strings."""
        return {
            "options": dict(result.candidate.options),
            "runs": [run.name for run in result.candidate.runs(self.study.seeds)],
            "validation": [score._asdict() for score in result.scores],
            "mean": result.mean._asdict(),
            "std": result.std._asdict(),
            "problems": list(result.problems),
            "front": result in choice.front,
        }
