"""Predictions on disk that any framework wrote, of any size: what their columns mean, and how good they are.

`read.open_predictions` understands a file, `measure.measure` passes over it once.
"""
