"""ScaledClassifier behaves like an estimator of scikit-learn, and calibrates."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.datasets import load_iris
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from socrates.integrations.sklearn import ScaledClassifier
from socrates.scaling import TemperatureScaling

FEATURES, LABELS = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])[LABELS]
NOISY = FEATURES + np.random.default_rng(0).normal(0, 0.8, FEATURES.shape)


def fitted(*arguments, **options):
    options = {"scaler": "temperature", **options}
    return ScaledClassifier(*arguments, **options).fit(NOISY, NAMES)


@pytest.mark.slow
def test_it_passes_every_check_of_scikit_learn():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(ScaledClassifier(), on_fail=None, on_skip=None)
    others = [result for result in results if result["status"] != "passed"]
    assert len(results) > 40
    # This one needs an environment variable that is set before SciPy is imported.
    assert [result["check_name"] for result in others] == ["check_array_api_input"]
    assert others[0]["status"] == "skipped"


def test_labels_are_words_and_rows_sum_to_1():
    model = fitted(GaussianNB())
    probs = model.predict_proba(NOISY)
    np.testing.assert_allclose(probs.sum(axis=1), 1, atol=1e-9)
    assert set(model.predict(NOISY)) == set(NAMES)
    assert model.method_ == "predict_proba"
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(NOISY), probs)


def test_the_scaler_is_fitted_on_scores_of_rows_left_out():
    model = fitted(LogisticRegression(), cv=4)
    scores = cross_val_predict(LogisticRegression(), NOISY, NAMES, cv=4, method="decision_function")
    expected = TemperatureScaling().fit(scores, LABELS)
    assert model.method_ == "decision_function"
    assert float(model.scaler_.temperature) == pytest.approx(float(expected.temperature))


def test_in_a_pipeline_a_grid_search_and_with_frames():
    frame = pd.DataFrame(NOISY, columns=["a", "b", "c", "d"])
    pipeline = make_pipeline(StandardScaler(), ScaledClassifier(GaussianNB(), cv=3))
    grid = {"scaledclassifier__scaler": ["temperature", "vector"]}
    search = GridSearchCV(pipeline, grid, cv=2, scoring="neg_log_loss").fit(frame, NAMES)
    assert search.best_score_ > -1
    assert [*fitted(GaussianNB()).fit(frame, NAMES).feature_names_in_] == [*frame.columns]
    probs = cross_val_predict(search.best_estimator_, frame, NAMES, cv=2, method="predict_proba")
    assert probs.shape == (150, 3)


def test_a_frozen_classifier_stays_and_may_know_more_classes():
    inner = GaussianNB().fit(NOISY, NAMES)
    some = LABELS > 0
    model = ScaledClassifier(FrozenEstimator(inner), scaler="temperature")
    model.fit(NOISY[some], NAMES[some])
    assert model.classes_.tolist() == inner.classes_.tolist()
    assert (model.predict(NOISY) == inner.predict(NOISY)).all()
    with pytest.raises(ValueError, match=r"'rose'.*does not know"):
        model.fit(NOISY[:2], ["rose", "setosa"])


def test_weights_reach_classifier_and_scaler():
    weight = np.random.default_rng(1).uniform(0.1, 3, 150)
    plain = fitted(GaussianNB())
    weighed = ScaledClassifier(GaussianNB(), scaler="temperature")
    weighed.fit(NOISY, NAMES, sample_weight=weight)
    assert not np.allclose(weighed.estimator_.theta_, plain.estimator_.theta_)
    assert float(weighed.scaler_.temperature) != float(plain.scaler_.temperature)
    with pytest.raises(ValueError, match="takes no sample_weight"):
        ScaledClassifier(KNeighborsClassifier()).fit(NOISY, NAMES, sample_weight=weight)


def test_metadata_is_routed_to_the_classifier_and_the_splitter():
    weight = np.random.default_rng(1).uniform(0.1, 3, 150)
    groups = np.arange(150) % 5
    with config_context(enable_metadata_routing=True):
        inner = GaussianNB().set_fit_request(sample_weight=False)
        model = ScaledClassifier(inner, scaler="temperature", cv=GroupKFold(5))
        model.set_fit_request(sample_weight=True)
        model.fit(NOISY, NAMES, sample_weight=weight, groups=groups)
    plain = ScaledClassifier(GaussianNB(), scaler="temperature", cv=5).fit(NOISY, NAMES)
    np.testing.assert_allclose(model.estimator_.theta_, plain.estimator_.theta_)
    assert float(model.scaler_.temperature) != float(plain.scaler_.temperature)


def test_what_cannot_be_calibrated_is_refused():
    with pytest.raises(ValueError, match="one class"):
        ScaledClassifier().fit(NOISY[:50], NAMES[:50])
    with pytest.raises(ValueError, match="virginica has one row"):
        ScaledClassifier().fit(NOISY[:101], NAMES[:101])
    with pytest.raises(ValueError, match=r"scaler='platt'.*'temperature'"):
        fitted(GaussianNB(), scaler="platt")
