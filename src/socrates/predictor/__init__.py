"""A trained model with preparation, scaler, reading and certificate: load, predict, certify, save.

It needs torch and safetensors only, and executes nothing that a file holds; export.py, card.py and
hub.py need more, and are imported when they are used. It may import the ground floor, models and,
for the card, records, report and plots. Read predictor.py first, then loading.py.
"""

from ..contracts import Preparation
from .description import Description, usual_reading
from .file_format import (
    MODEL_FILE,
    SCALERS_FILE,
    Weights,
    model_file,
    read_file,
    tensors_of,
    weights_hash,
)
from .loading import load
from .predictor import BATCH, Predictor
from .seen import NOT_NEW, new_rows

__all__ = [
    "BATCH",
    "MODEL_FILE",
    "NOT_NEW",
    "SCALERS_FILE",
    "Description",
    "Predictor",
    "Preparation",
    "Weights",
    "load",
    "model_file",
    "new_rows",
    "read_file",
    "tensors_of",
    "usual_reading",
    "weights_hash",
]
