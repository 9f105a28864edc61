"""Tables, figures and the page of a study, from run directories alone.

It imports records, metrics, scaling, plots and experiment, and never the engine: the run directory
is the interface. Read results.py first, then compare.py and statistics.py; write.py puts it all
together.
"""
