"""Scalers for the classifiers of scikit-learn: `ScaledClassifier`, with cross-fitted scores."""

from __future__ import annotations

import copy
from typing import Any, ClassVar, cast

import numpy as np

from socrates.arrays.open import Array
from socrates.scaling import SCALERS, Scaler, best

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
    from sklearn.frozen import FrozenEstimator
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import check_cv, cross_val_predict
    from sklearn.utils import column_or_1d, get_tags, indexable
    from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import _check_response_method, check_is_fitted, has_fit_parameter
except ImportError as error:
    raise ImportError(
        f"ScaledClassifier needs scikit-learn 1.6 or newer ({error}): pip install "
        "'socrates-loss[sklearn]'"
    ) from error

__all__ = ["ScaledClassifier"]


class ScaledClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """Calibrate a classifier of scikit-learn with a scaler of ours.

    The scaler is fitted on scores of rows that the classifier was not fitted on, by
    cross-validation; the classifier that answers is fitted on all rows. This is what
    `CalibratedClassifierCV(ensemble=False)` does, with other scalers.

    Args:
        estimator: any classifier with `decision_function`, which is preferred, or
            `predict_proba`; by default a `LogisticRegression`. A fitted one in a
            `FrozenEstimator` stays as it is, and all rows fit the scaler.
        scaler: a name of `socrates.scaling.SCALERS`, "best" to choose by nested
            cross-validation, or an unfitted scaler.
        cv: number of folds, at most that of the rows of the rarest class; a splitter; or pairs of
            train and test rows.
        n_jobs: number of processes that fit the folds.

    Attributes:
        estimator_: the classifier, fitted on all rows.
        scaler_: the fitted scaler.
        classes_: the labels in the order of the columns.
        method_: "decision_function" or "predict_proba", whichever is scaled.

    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> features, labels = load_iris(return_X_y=True)
    >>> model = ScaledClassifier(GaussianNB(), scaler="temperature").fit(features, labels)
    >>> model.predict_proba(features[:1]).round(2)
    array([[1., 0., 0.]])
    """

    # `fit` takes it among its keywords; so it can be requested where metadata is routed.
    __metadata_request__fit: ClassVar[dict[str, Any]] = {"sample_weight": None}

    def __init__(
        self,
        estimator: Any = None,
        *,
        scaler: str | Scaler = "structured",
        cv: Any = 5,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.scaler = scaler
        self.cv = cv
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, **fit_params: Any) -> ScaledClassifier:
        """Fit the classifier and its scaler.

        Args:
            X: what the classifier takes.
            y: (N,) labels.
            fit_params: for `fit` of the classifier. `sample_weight` also weighs the rows that fit
                the scaler. With metadata routing, `groups` reach the splitter.
        """
        X, y = indexable(X, column_or_1d(y, warn=True))
        check_classification_targets(y)
        estimator = self._base()
        sample_weight = fit_params.get("sample_weight")
        routed = self._route(estimator, fit_params)
        is_frozen = isinstance(estimator, FrozenEstimator)
        self.method_ = _check_response_method(
            estimator, ["decision_function", "predict_proba"]
        ).__name__
        if is_frozen:
            self.estimator_ = estimator
            self.classes_ = np.asarray(estimator.classes_)
            scores = self._scores(X)
        else:
            self.classes_ = np.unique(y)
            splitter = self._splitter(y, sample_weight)
            folds = [*splitter.split(X, y, **routed["split"])]
            scores = cross_val_predict(
                clone(estimator),
                X,
                y,
                cv=folds,
                method=self.method_,
                n_jobs=self.n_jobs,
                params=routed["fit"],
            )
            copied: Any = clone(estimator)
            self.estimator_ = copied.fit(X, y, **routed["fit"])
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        self.scaler_ = self._fitted_scaler(np.asarray(scores), self._numbers(y), sample_weight)
        return self

    def predict_proba(self, X: Any) -> Array:
        """Return the scaled probabilities (N, C), in the order of `classes_`."""
        check_is_fitted(self)
        from_probs = self.method_ == "predict_proba"
        return self.scaler_.probs(self._scores(X), from_probs=from_probs)

    def predict(self, X: Any) -> Array:
        """Return the most probable class of each row, by the scaled probabilities."""
        probs = self.predict_proba(X)
        return self.classes_[probs.argmax(axis=1)]

    def get_metadata_routing(self) -> MetadataRouter:
        """Return what metadata goes where: to `fit` of the classifier, and to the splitter."""
        to_fit = MethodMapping().add(caller="fit", callee="fit")
        to_split = MethodMapping().add(caller="fit", callee="split")
        router = MetadataRouter(owner=self).add_self_request(self)
        router.add(estimator=self._base(), method_mapping=to_fit)
        return router.add(splitter=check_cv(self.cv), method_mapping=to_split)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self._base()).input_tags
        tags.input_tags.sparse = inner.sparse
        tags.input_tags.pairwise = inner.pairwise
        return tags

    def _base(self) -> Any:
        return LogisticRegression() if self.estimator is None else self.estimator

    def _route(self, estimator: Any, fit_params: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """Return the keywords of the classifier's `fit` and of the splitter's `split`."""
        from sklearn import get_config

        if get_config()["enable_metadata_routing"]:
            routed = process_routing(self, "fit", **fit_params)
            return {"fit": routed.estimator.fit, "split": routed.splitter.split}
        kept = dict(fit_params)
        if "sample_weight" in kept and not has_fit_parameter(estimator, "sample_weight"):
            raise ValueError(
                f"{type(estimator).__name__}.fit takes no sample_weight: leave it out, or enable "
                "scikit-learn's metadata routing and set_fit_request(sample_weight=False) to "
                "weigh only the rows that fit the scaler"
            )
        return {"fit": kept, "split": {}}

    def _splitter(self, y: Any, sample_weight: Any) -> Any:
        """Return the splitter; each class must be in at least two folds, and in every training set.

        A whole number of folds is reduced to the number of rows of the rarest class.
        """
        counted = y if sample_weight is None else np.asarray(y)[np.asarray(sample_weight) > 0]
        classes, counts = np.unique(counted, return_counts=True)
        if len(classes) < 2:
            weighed = "" if sample_weight is None else " with sample_weight above 0"
            raise ValueError(
                f"y has one class{weighed}, {classes.tolist()}, expected at least two: a "
                "classifier of one class needs no calibration"
            )
        if counts.min() < 2:
            raise ValueError(
                f"class {classes[counts.argmin()]!s} has one row, expected at least two of each "
                "class, to fit on one and calibrate on the other: leave the class out"
            )
        is_number = isinstance(self.cv, int) and not isinstance(self.cv, bool)
        folds = min(self.cv, int(counts.min())) if is_number else self.cv
        return check_cv(folds, y, classifier=True)

    def _numbers(self, y: Any) -> Array:
        """Return the position of each label in `classes_`."""
        values = np.asarray(y)
        order = np.argsort(self.classes_, kind="stable")
        sorted_classes = self.classes_[order]
        at = np.searchsorted(sorted_classes, values).clip(max=len(order) - 1)
        is_known = sorted_classes[at] == values
        if not np.all(is_known):
            unknown = values[~is_known][0]
            raise ValueError(
                f"y holds {unknown!r}, which the frozen classifier does not know: it knows "
                f"{self.classes_.tolist()}"
            )
        return order[at]

    def _scores(self, X: Any) -> Array:
        return np.asarray(getattr(self.estimator_, self.method_)(X))

    def _fitted_scaler(self, scores: Array, labels: Array, sample_weight: Any) -> Scaler:
        """Return the scaler, fitted on scores that were predicted for rows left out."""
        options: dict[str, Any] = {
            "from_probs": self.method_ == "predict_proba",
            "sample_weight": sample_weight,
        }
        if isinstance(self.scaler, Scaler):
            return copy.deepcopy(self.scaler).fit(scores, labels, **options)
        if self.scaler == "best":
            return best(scores, labels, **options).scaler
        if self.scaler not in SCALERS:
            names = ", ".join(repr(name) for name in [*SCALERS, "best"])
            raise ValueError(
                f"scaler={self.scaler!r}, expected an unfitted scaler or one of {names}"
            )
        return cast("type[Scaler]", SCALERS[self.scaler])().fit(scores, labels, **options)
