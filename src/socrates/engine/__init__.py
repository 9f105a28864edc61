"""Training, evaluation, and studies of many runs.

`train.py` is one run, from an experiment to a finished run directory; `studies/` starts many and
chooses among them. Everything below `report`, `paper` and `cli` may be imported here, and the run
directory is all that they see of it. Read `train.py` first, then `epoch.py`.
"""

from socrates.engine.evaluate import evaluate
from socrates.engine.studies.local import LocalEngine
from socrates.engine.studies.runs import StudyError, run_all
from socrates.engine.studies.tune import Study, Tuned, tune
from socrates.engine.train import train

__all__ = ["LocalEngine", "Study", "StudyError", "Tuned", "evaluate", "run_all", "train", "tune"]
