"""Candidates that optuna proposes, within the range of a grid: two objectives, validation error and ECE."""

import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from socrates.engine.studies.candidates import Candidate, Grid, candidate_of
from socrates.engine.studies.choice import Result
from socrates.experiment import Experiment, Value

SEED = 1
WORST = (1.0, 1.0)  # what a collapsed candidate is told as, so that the search leaves its surroundings


class OptunaSearch:
    """Asks optuna for candidates, some at once, and tells it their scores; a stopped study goes on where it was.

    What is asked depends on the numbers told before and on the candidate's own number alone: a study that was stopped
    asks for the same candidates as one that was not.
    """

    def __init__(self, base: Experiment, grid: Grid, trials: int, at_once: int, journal: Path) -> None:
        self.base, self.grid, self.num_trials = base, grid, trials
        self.study = _open(journal)
        for trial in self.study.get_trials(deepcopy=False):
            if not trial.state.is_finished() and not self._whole(trial):  # stopped while it was asked for
                self._tell(trial.number)
        if "at_once" not in self.study.user_attrs:
            self.study.set_user_attr("at_once", at_once)
        self.at_once: int = self.study.user_attrs["at_once"]  # as it began, on however many cores it goes on
        self.started = False
        self.open: dict[int, Candidate] = {}  # asked for and not told yet, by trial number

    def ask(self) -> list[Candidate]:
        """The next candidates; at first all that a stopped search asked for; none at the end."""
        from optuna.trial import FixedTrial

        old = [trial for trial in self.study.get_trials(deepcopy=False) if self._whole(trial)][: self.num_trials]
        first, self.started = not self.started, True
        batches = -(-len(old) // self.at_once) if first and old else len(old) // self.at_once + 1
        again = {trial.number: self._candidate(FixedTrial(trial.params)) for trial in old if first}
        new = dict(self._new(number) for number in range(len(old), min(batches * self.at_once, self.num_trials)))
        told = {trial.number for trial in old if trial.state.is_finished()}
        self.open = {number: candidate for number, candidate in (again | new).items() if number not in told}
        return [*again.values(), *new.values()]

    def learn(self, results: Sequence[Result]) -> None:
        """The scores of what was asked for last."""
        ended = {result.candidate.experiment: result for result in results if not result.failed}
        values = {experiment: result.mean[:2] if result.ranked else WORST for experiment, result in ended.items()}
        for number, candidate in self.open.items():
            self._tell(number, values.get(candidate.experiment))

    def _new(self, number: int) -> tuple[int, Candidate]:
        from optuna.samplers import TPESampler

        self.study.sampler = TPESampler(seed=SEED + number, multivariate=True, constant_liar=True)
        trial = self.study.ask()
        return trial.number, self._candidate(trial)

    def _candidate(self, trial: Any) -> Candidate:
        return candidate_of(self.base, {name: suggest(trial, name, values) for name, values in self.grid.items()})

    def _whole(self, trial: Any) -> bool:
        return len(trial.params) == len(self.grid)

    def _tell(self, number: int, values: Sequence[float] | None = None) -> None:
        """Without values the trial failed."""
        from optuna.trial import TrialState

        self.study.tell(number, values, state=TrialState.COMPLETE if values else TrialState.FAIL)


def near_one(values: Sequence[Value]) -> bool:
    """Whether values are momentum-like: several numbers in (0.5, 1)."""
    numbers = [value for value in values if isinstance(value, float) and 0.5 < value < 1]
    return len(numbers) == len(values) and len(set(numbers)) > 1


def suggest(trial: Any, name: str, values: Sequence[Value]) -> Value:
    """A value between the smallest and the largest; one of them if they are not numbers, or batch sizes.

    Values that are close to 1 are searched by the logarithm of what is missing. Whole numbers stay whole; others have
    three significant digits, so that directories keep readable names.

    >>> from optuna.trial import FixedTrial
    >>> suggest(FixedTrial({"log10(1 - alpha)": -1.5}), "alpha", (0.8, 0.99))
    0.9684
    >>> suggest(FixedTrial({"gamma": 1.23456}), "gamma", (1.0, 4.0))
    1.23
    """
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    if len(numbers) < len(values) or len(set(values)) == 1 or name == "batch_size":
        return trial.suggest_categorical(name, list(dict.fromkeys(values)))
    low, high = min(numbers), max(numbers)
    if near_one(values):
        exponent = trial.suggest_float(f"log10(1 - {name})", math.log10(1 - high), math.log10(1 - low))
        return min(max(round(1 - float(f"{10**exponent:.3g}"), 12), low), high)
    wide = low > 0 and high / low >= 100
    if all(isinstance(value, int) for value in numbers):
        return trial.suggest_int(name, int(low), int(high), log=wide)
    value = trial.suggest_float(name, float(low), float(high), log=wide)
    return min(max(float(f"{value:.3g}"), low), high)


def _open(journal: Path) -> Any:
    try:
        import optuna
    except ImportError as error:
        raise ImportError("trials need the package optuna: pip install optuna") from error
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    journal.parent.mkdir(parents=True, exist_ok=True)
    lines = journal.read_bytes().splitlines(keepends=True) if journal.is_file() else []
    if lines and not lines[-1].endswith(b"\n"):  # its writer was stopped: optuna would write on behind half a line
        journal.write_bytes(b"".join(lines[:-1]))

    def opened() -> Any:
        storage = JournalStorage(JournalFileBackend(str(journal)))
        return optuna.create_study(
            storage=storage, study_name="tune", directions=["minimize", "minimize"], load_if_exists=True
        )

    try:
        return opened()
    except (ValueError, LookupError, TypeError, AssertionError) as error:
        aside = journal.with_name(f"{journal.name}.damaged")
        journal.replace(aside)
        warnings.warn(
            f"{journal} is damaged ({error}) and now called {aside.name}: the search starts anew, finished runs are "
            f"not repeated",
            stacklevel=2,
        )
        return opened()
