"""The paper's vector and matrix scaling, without regularization, fitted to the logits of runs."""

import warnings
from dataclasses import replace

import torch

from .. import metrics
from ..metrics.predictions import predict
from ..report.aggregate import RunData
from ..report.results import Results
from ..scaling.affine import MatrixScaling, VectorScaling

METRICS = (metrics.ece, metrics.ada_ece, metrics.cw_ece)
# by the scaler's name and a word, as `with_scaler` takes it
UNREGULARISED = {
    "matrix unregularised": MatrixScaling,
    "vector unregularised": VectorScaling,
}


def with_unregularised(results: Results) -> Results:
    """Return the results with these scalers added, fitted on validation and used on test data."""
    evaluations = [
        replace(run.evaluation, results=run.evaluation.results | _refitted(run))
        for run in results.runs
    ]
    return replace(results, evaluations=evaluations)


def _refitted(run: RunData) -> dict[str, dict[str, dict[str, dict[str, float]]]]:
    """Return the metrics of the paper's tables by scaler, split and reading.

    A scaler that cannot be fitted is left out.
    """
    val = run.predictions("val")
    test = run.predictions("test")
    unknown = run.evaluation.unknown_class
    reading = "answer" if unknown else None
    labels = torch.tensor(test.labels).long()
    refitted: dict[str, dict[str, dict[str, dict[str, float]]]] = {}
    for name, kind in UNREGULARISED.items():
        scaler = kind(regularization=None, on="logits")
        try:
            with warnings.catch_warnings():
                # a limit without optimum is a result here, and shows in the numbers
                warnings.simplefilter("ignore")
                scaler.fit(
                    torch.tensor(val.logits), torch.tensor(val.labels).long(), unknown_class=unknown
                )
        except ValueError:  # the run diverged
            continue
        prediction = predict(scaler(torch.tensor(test.logits)), unknown=reading)
        values = {"accuracy": metrics.accuracy(prediction, labels)}
        for metric in METRICS:
            values[metric.__name__] = metric(prediction, labels, run.evaluation.num_bins)
        refitted[name] = {"test": {reading or "plain": values}}
    return refitted
