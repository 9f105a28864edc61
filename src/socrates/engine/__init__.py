"""Training, evaluation, the launching of many runs, and studies over them."""

from socrates.engine.evaluate import evaluate
from socrates.engine.launch import Failure, Place, StudyError, StudyWatcher, run_all
from socrates.engine.train import Watcher, train
from socrates.engine.tune import Study, Tuned, tune

__all__ = [
    "Failure",
    "Place",
    "Study",
    "StudyError",
    "StudyWatcher",
    "Tuned",
    "Watcher",
    "evaluate",
    "run_all",
    "train",
    "tune",
]
