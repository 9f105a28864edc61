"""Training, evaluation and the launching of many runs."""

from socrates.engine.evaluate import evaluate
from socrates.engine.launch import run_all
from socrates.engine.train import Watcher, train

__all__ = ["Watcher", "evaluate", "run_all", "train"]
