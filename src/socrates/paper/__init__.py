"""The paper's settings, hyperparameters and printed numbers as data, and its tables and figures made anew."""
