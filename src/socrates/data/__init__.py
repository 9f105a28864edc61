"""Data sets and how they are split."""

from .splits import validation_split

__all__ = ["validation_split"]
