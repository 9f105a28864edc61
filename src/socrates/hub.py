"""Share predictors on the Hugging Face Hub: the short name of `socrates.predictor.hub`."""

from .predictor.hub import HubPredictor

__all__ = ["HubPredictor"]
