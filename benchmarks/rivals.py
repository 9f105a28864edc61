"""Post-hoc calibrators of other packages, if they are installed, for `scalers.py --rivals`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Predict = Callable[[Array], Array]  # log-probabilities (N, C) -> probabilities (N, C)
Rival = Callable[[Array, Array], Predict]  # log-probabilities and labels -> what was fitted


def rivals() -> dict[str, Rival]:
    """Return every calibrator that can be imported, by its printed name."""
    return {**_probmetrics(), **_scikit_learn()}


def _probs(logits: Array) -> Array:
    shifted = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)


def _probmetrics() -> dict[str, Rival]:
    try:
        from probmetrics.calibrators import get_calibrator  # pyright: ignore
    except ImportError:
        print("probmetrics is not installed, so it is left out: pip install probmetrics")
        return {}

    def rival(name: str) -> Rival:
        def fit(logits: Array, labels: Array) -> Predict:
            calibrator = get_calibrator(name)
            calibrator.fit(_probs(logits), labels)
            return lambda new: calibrator.predict_proba(_probs(new))

        return fit

    return {f"probmetrics {name}": rival(name) for name in ("ts-mix", "svs", "sms")}


def _scikit_learn() -> dict[str, Rival]:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.frozen import FrozenEstimator
    from sklearn.linear_model import LogisticRegression

    class Given(ClassifierMixin, BaseEstimator):
        """A classifier whose inputs are log-probabilities already."""

        def fit(self, logits: Array, labels: Array) -> Given:
            self.classes_ = np.arange(logits.shape[1])
            return self

        def decision_function(self, logits: Array) -> Array:
            return logits

        def predict(self, logits: Array) -> Array:
            return logits.argmax(axis=1)

        def predict_proba(self, logits: Array) -> Array:
            return _probs(logits)

    def logistic(logits: Array, labels: Array) -> Predict:
        model = LogisticRegression(max_iter=1000).fit(logits, labels)

        def predict(new: Array) -> Array:
            probs = np.zeros((len(new), logits.shape[1]))
            # a class without labels gets probability 0
            probs[:, model.classes_] = model.predict_proba(new)
            return probs

        return predict

    def calibrated(method: str) -> Rival:
        def fit(logits: Array, labels: Array) -> Predict:
            if len(np.unique(labels)) < logits.shape[1]:  # it fails where a class has no label
                return lambda new: np.full(new.shape, np.nan)
            given = FrozenEstimator(Given().fit(logits, labels))
            return CalibratedClassifierCV(given, method=method).fit(logits, labels).predict_proba

        return fit

    return {"sklearn LR": logistic} | {
        f"sklearn {method}": calibrated(method) for method in ("sigmoid", "isotonic", "temperature")
    }
