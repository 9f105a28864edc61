"""A trained model that takes inputs as they come: preparation, model, scaler and reading in one module.

Needs torch and safetensors only. A file holds tensors and one JSON text: nothing in it is ever executed.
"""

from ..contracts import Preparation
from .description import Description, usual_reading
from .file_format import MODEL_FILE, SCALERS_FILE, Weights, model_file, read_file, tensors_of, weights_hash
from .loading import load
from .predictor import BATCH, NOT_NEW, Predictor, resized

__all__ = ["BATCH", "MODEL_FILE", "NOT_NEW", "SCALERS_FILE", "Description", "Predictor", "Preparation", "Weights"]
__all__ += ["load", "model_file", "read_file", "resized", "tensors_of", "usual_reading", "weights_hash"]
