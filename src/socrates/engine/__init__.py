"""Training, evaluation, the launching of many runs, and studies over them."""

from socrates.engine.evaluate import evaluate
from socrates.engine.launch import Place, StudyError, run_all
from socrates.engine.train import train
from socrates.engine.tune import Study, Tuned, tune

__all__ = [
    "Place",
    "Study",
    "StudyError",
    "Tuned",
    "evaluate",
    "run_all",
    "train",
    "tune",
]
