"""The paper's vector and matrix scaling, which had no regularisation, fitted anew to the logits that runs saved."""

import warnings
from dataclasses import replace

import torch

from .. import metrics
from ..metrics.predictions import predict
from ..report.aggregate import RunData
from ..report.results import Results
from ..scaling.matrix import MatrixScaling
from ..scaling.vector import VectorScaling

METRICS = (metrics.ece, metrics.ada_ece, metrics.cw_ece)
# By the scaler's name and a word, as `with_scaler` takes it.
UNREGULARISED = {f"{name} unregularised": kind for name, kind in (("matrix", MatrixScaling), ("vector", VectorScaling))}


def with_unregularised(results: Results) -> Results:
    """The same results, evaluated on test data with these scalers as well, each fitted on validation data."""
    evaluations = [replace(run.evaluation, results=run.evaluation.results | _refitted(run)) for run in results.runs]
    return replace(results, evaluations=evaluations)


def _refitted(run: RunData) -> dict[str, dict[str, dict[str, dict[str, float]]]]:
    """The metrics of the paper's tables by scaler, split and reading; those that cannot be fitted are left out."""
    val, test = (run.predictions(split) for split in ("val", "test"))
    unknown, num_bins = run.evaluation.unknown_class, run.evaluation.num_bins
    labels = torch.tensor(test.labels).long()
    found: dict[str, dict[str, dict[str, dict[str, float]]]] = {}
    for name, kind in UNREGULARISED.items():
        scaler = kind(regularization=None)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a limit without optimum is a result here, and shows in the numbers
                scaler.fit(torch.tensor(val.logits), torch.tensor(val.labels).long(), unknown_class=unknown)
        except ValueError:  # the run diverged
            continue
        prediction = predict(scaler(torch.tensor(test.logits)), unknown="answer" if unknown else None)
        values = {"accuracy": metrics.accuracy(prediction, labels)}
        values |= {one.__name__: one(prediction, labels, num_bins) for one in METRICS}
        found[name] = {"test": {"answer" if unknown else "plain": values}}
    return found
