"""The paper's settings, hyperparameters and printed numbers, as data."""
