"""A run's directory: the interface between those who train and those who report.

`Run` reads and writes it; the records in it are typed (`epochs.py`, `evaluation.py`,
`predictions.py`). Only data, experiments and files are imported here. Read `run.py` first.

    experiment.json         what was asked for
    data.json               the fingerprint of the data that it began with
    epochs.jsonl            one line per epoch
    checkpoint.pt           the state of training, until the run is finished
    checkpoint-previous.pt  the checkpoint before it
    predictions/*.npz       logits and labels of val and test at kept epochs
    evaluation.json         every metric under every reading and scaler, at the chosen epoch
    evaluation-0025.json    the same at another kept epoch, if it was asked for
    model.safetensors       the chosen epoch's weights, with all that is needed to use them
    scalers.safetensors     the same without weights, if they were not to be kept
    lock                    only while a process trains the run
    finished.json           written last: its existence means that the run is whole
"""

from socrates.records.epochs import EpochRecord, best_epoch
from socrates.records.evaluation import Evaluation
from socrates.records.predictions import Predictions
from socrates.records.run import Run, finished_run, read_experiment

__all__ = [
    "EpochRecord",
    "Evaluation",
    "Predictions",
    "Run",
    "best_epoch",
    "finished_run",
    "read_experiment",
]
