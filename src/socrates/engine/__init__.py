"""Training, evaluation, the launching of many runs, and studies over them."""

from socrates.engine.evaluate import evaluate
from socrates.engine.studies.local import LocalEngine
from socrates.engine.studies.runs import StudyError, run_all
from socrates.engine.studies.tune import Study, Tuned, tune
from socrates.engine.train import train

__all__ = ["LocalEngine", "Study", "StudyError", "Tuned", "evaluate", "run_all", "train", "tune"]
