"""Candidates that optuna proposes within the range of a grid, to lower validation error and ECE."""

import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from socrates.engine.studies.candidates import Candidate, Grid, candidate_of
from socrates.engine.studies.choice import CandidateResult
from socrates.experiment import Experiment, Value

SEED = 1
# reported for a collapsed candidate, so that the search leaves its neighborhood
WORST = (1.0, 1.0)


class OptunaSearch:
    """Ask optuna for candidates, some at once, and report their scores to it.

    A stopped search continues. What it proposes depends on the scores reported before and on the
    number of the candidate alone: a search that was stopped proposes the same candidates as one
    that was not.
    """

    def __init__(
        self, base: Experiment, grid: Grid, trials: int, at_once: int, journal: Path
    ) -> None:
        self.base = base
        self.grid = grid
        self.num_trials = trials
        self.study = _open(journal)
        for trial in self.study.get_trials(deepcopy=False):
            # stopped while it was being proposed
            if not trial.state.is_finished() and not self._complete(trial):
                self._report(trial.number)
        if "at_once" not in self.study.user_attrs:
            self.study.set_user_attr("at_once", at_once)
        # as the search began, whatever the number of cores now
        self.at_once: int = self.study.user_attrs["at_once"]
        self.started = False
        self.open: dict[int, Candidate] = {}  # proposed and not reported yet, by trial number

    def ask(self) -> list[Candidate]:
        """Return the next batch of candidates, and none at the end.

        The first batch of a search that was stopped is all that it had proposed, and enough new
        candidates to fill its last batch.
        """
        from optuna.trial import FixedTrial

        trials = self.study.get_trials(deepcopy=False)
        old = [trial for trial in trials if self._complete(trial)][: self.num_trials]
        candidates: dict[int, Candidate] = {}
        if not self.started:
            for trial in old:
                candidates[trial.number] = self._candidate(FixedTrial(trial.params))
        self.started = True
        batches_begun = math.ceil(len(old) / self.at_once)
        is_continued = bool(candidates)
        num_batches = batches_begun if is_continued else len(old) // self.at_once + 1
        for number in range(len(old), min(num_batches * self.at_once, self.num_trials)):
            trial = self._propose(number)
            candidates[trial.number] = self._candidate(trial)
        reported = {trial.number for trial in old if trial.state.is_finished()}
        self.open = {
            number: candidate for number, candidate in candidates.items() if number not in reported
        }
        return list(candidates.values())

    def learn(self, results: Sequence[CandidateResult]) -> None:
        """Report the scores of the candidates proposed last."""
        values = {
            result.candidate.experiment: result.mean[:2] if result.ranked else WORST
            for result in results
            if not result.failed
        }
        for number, candidate in self.open.items():
            self._report(number, values.get(candidate.experiment))

    def _propose(self, number: int) -> Any:
        from optuna.samplers import TPESampler

        self.study.sampler = TPESampler(seed=SEED + number, multivariate=True, constant_liar=True)
        return self.study.ask()

    def _candidate(self, trial: Any) -> Candidate:
        options = {name: suggest(trial, name, values) for name, values in self.grid.items()}
        return candidate_of(self.base, options)

    def _complete(self, trial: Any) -> bool:
        """Return whether a trial has a value for every option."""
        return len(trial.params) == len(self.grid)

    def _report(self, number: int, values: Sequence[float] | None = None) -> None:
        """Report the values of a trial; without values it failed."""
        from optuna.trial import TrialState

        self.study.tell(number, values, state=TrialState.COMPLETE if values else TrialState.FAIL)


def near_one(values: Sequence[Value]) -> bool:
    """Return whether values are like a momentum: several numbers in (0.5, 1)."""
    numbers = [value for value in values if isinstance(value, float) and 0.5 < value < 1]
    return len(numbers) == len(values) and len(set(numbers)) > 1


def suggest(trial: Any, name: str, values: Sequence[Value]) -> Value:
    """Suggest a value between the smallest and the largest, or one of the values.

    It is one of them if they are not numbers, or batch sizes. Values close to 1 are searched by the
    logarithm of their distance to 1. Whole numbers stay whole; others have three significant
    digits, so that directories keep readable names.

    >>> from optuna.trial import FixedTrial
    >>> suggest(FixedTrial({"log10(1 - alpha)": -1.5}), "alpha", (0.8, 0.99))
    0.9684
    >>> suggest(FixedTrial({"gamma": 1.23456}), "gamma", (1.0, 4.0))
    1.23
    """
    numbers = [
        value for value in values if isinstance(value, int | float) and not isinstance(value, bool)
    ]
    if len(numbers) < len(values) or len(set(values)) == 1 or name == "batch_size":
        return trial.suggest_categorical(name, list(dict.fromkeys(values)))
    low = min(numbers)
    high = max(numbers)
    if near_one(values):
        exponent = trial.suggest_float(
            f"log10(1 - {name})", math.log10(1 - high), math.log10(1 - low)
        )
        value = round(1 - float(f"{10**exponent:.3g}"), 12)
        return min(max(value, low), high)
    wide = low > 0 and high / low >= 100
    if all(isinstance(value, int) for value in numbers):
        return trial.suggest_int(name, int(low), int(high), log=wide)
    value = trial.suggest_float(name, float(low), float(high), log=wide)
    return min(max(float(f"{value:.3g}"), low), high)


def _open(journal: Path) -> Any:
    """Open the search that a journal holds, or start one; a damaged journal is set aside."""
    try:
        import optuna
    except ImportError as error:
        raise ImportError("trials need the package optuna: pip install optuna") from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    journal.parent.mkdir(parents=True, exist_ok=True)
    _drop_half_a_line(journal)
    try:
        return _study_of(journal)
    except (ValueError, LookupError, TypeError, AssertionError) as error:
        aside = journal.with_name(f"{journal.name}.damaged")
        journal.replace(aside)
        warnings.warn(
            f"{journal} is damaged ({error}) and now called {aside.name}: the search starts again, "
            "finished runs are not repeated",
            stacklevel=2,
        )
        return _study_of(journal)


def _drop_half_a_line(journal: Path) -> None:
    """Remove a last line whose writer was stopped: optuna would append to it."""
    lines = journal.read_bytes().splitlines(keepends=True) if journal.is_file() else []
    if lines and not lines[-1].endswith(b"\n"):
        journal.write_bytes(b"".join(lines[:-1]))


def _study_of(journal: Path) -> Any:
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    return optuna.create_study(
        storage=JournalStorage(JournalFileBackend(str(journal))),
        study_name="tune",
        directions=["minimize", "minimize"],
        load_if_exists=True,
    )
