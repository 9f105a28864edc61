"""The paper: its settings, hyperparameters and printed numbers as data, its tables and figures.

recipes.py lists every table and figure with the runs it needs, reproduce.py trains those and writes
the files; start there. It may import the engine and the report, which do not know of it.
"""
