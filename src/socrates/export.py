"""Export a predictor as one program: the short name of `socrates.predictor.export`."""

from .predictor.export import export

__all__ = ["export"]
