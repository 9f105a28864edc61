"""METRICS: entries that say all that evaluation, tables, reports and audits need to know."""

import inspect
import json
from dataclasses import FrozenInstanceError
from functools import partial

import numpy as np
import pytest
import torch

from socrates import metrics
from socrates.arrays.entries import open_samples
from socrates.engine.evaluate import every_metric
from socrates.metrics import METRICS, Metric, Top, ece, floor, predict


@pytest.fixture(scope="module")
def case():
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(200, 5, generator=generator)
    labels = torch.randint(0, 4, (200,), generator=generator)
    return logits, labels


@pytest.mark.parametrize("name", METRICS)
def test_an_entry_knows_its_function(name, case):
    metric = METRICS[name]
    logits, labels = case
    prediction = predict(logits, unknown="renormalize")
    value = metric.measure(prediction, labels, num_bins=7)
    assert type(value) is float
    assert metric.name == name
    assert ("num_bins" in inspect.signature(metric.function).parameters) == metric.binned
    options = {"num_bins": 7} if metric.binned else {}
    if name == "ece_floor":
        assert value == floor(partial(ece, **options), prediction, num_draws=20)
    else:
        assert value == getattr(metrics, name)(prediction, labels, **options)
    top = Top.of(prediction.confidence, prediction.predicted == labels)
    if metric.needs_rows:
        with pytest.raises(ValueError, match="alone"):
            metric.measure(top)
    else:
        assert metric.measure(top, num_bins=7) == pytest.approx(value, abs=1e-6)
        assert metric.measure(open_samples(prediction, labels), num_bins=7) == value


def test_whether_higher_is_better(case):
    """Of a model that is right and sure, and one that is wrong and sure."""
    probs = np.array([[0.999, 0.001]] * 50)
    right, wrong = np.zeros(50, int), np.ones(50, int)
    for metric in METRICS.values():
        good, bad = metric.measure(probs, right), metric.measure(probs, wrong)
        if metric.ranked:
            assert (good > bad) == metric.larger_is_better
            assert metric.direction.split()[0] in ("higher", "lower")
            assert abs(metric.factor * good - metric.perfect) < 0.2
        else:
            assert metric.direction == ""


def test_numbers_are_printed_with_their_unit():
    assert METRICS["accuracy"].text(0.95714) == "95.71%"
    assert METRICS["nll"].text(0.1234) == "0.123 nats"
    assert METRICS["brier"].text(0.25) == "0.250"
    assert {metric.unit for metric in METRICS.values()} == {"%", "nats", ""}


def test_what_studies_and_audits_show():
    outside_studies = {name for name, metric in METRICS.items() if not metric.in_study}
    outside_audits = {name for name, metric in METRICS.items() if not metric.in_audit}
    assert outside_studies == {"smooth_ece", "mce", "debiased_ece", "aurc"}
    assert outside_audits == {"ece_floor", "debiased_ece", "aurc"}


def test_symbols_and_titles_are_unique():
    for word in ("symbol", "title", "meaning"):
        words = [getattr(metric, word) for metric in METRICS.values()]
        assert len({*words}) == len(words)
        assert all(words)


def test_the_registry_holds_all_that_runs_record(case):
    recorded = every_metric(*case, "renormalize", 15)
    assert METRICS.keys() == recorded.keys() - {"unknown_share"}
    prediction = predict(case[0], unknown="renormalize")
    for name, metric in METRICS.items():
        assert metric.measure(prediction, case[1]) == recorded[name], name


def test_a_metric_of_ones_own_is_one_more_entry(case, monkeypatch):
    def unsure(probs, labels):
        """A metric that knows nothing of this package: it gets plain arrays."""
        return (np.asarray(probs).max(axis=1) < 0.5).mean()

    mine = Metric("unsure", "Unsure", "unsure answers", "share of answers below one half", unsure)
    monkeypatch.setitem(METRICS, "unsure", mine)
    probs = predict(case[0], unknown="renormalize").probs
    values = {name: metric.measure(probs, case[1]) for name, metric in METRICS.items()}
    assert list(values)[-1] == "unsure"
    assert values["unsure"] == unsure(probs, None)
    assert json.loads(json.dumps(values)) == values
    interval = metrics.bootstrap(mine.function, probs, case[1], num_resamples=20)
    assert interval.low <= values["unsure"] <= interval.high
    with pytest.raises(FrozenInstanceError):
        mine.name = "other"
