"""Open and check the inputs of metrics, scaling and audit, once.

Inputs are arrays of any kind (numpy, torch, pandas, polars, lists) that hold probabilities, logits,
scores of class 1, or confidence and correctness; labels, as numbers or names; and weights. The
package imports nothing else of ours. Read open.py first, then samples.py and entries.py.
"""
