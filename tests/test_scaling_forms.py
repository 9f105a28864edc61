"""The forms in which logits and labels come: scores of class 1, names of classes, data frames."""

import numpy as np
import pytest
import torch
from scaling_cases import sampled, with_unknown

from socrates.metrics import ece, predict
from socrates.scaling import SCALERS, ReadoutScaling, TemperatureScaling, best, load, save

PAIRS, SIDES = sampled(300, 2, 1.7, dtype=torch.float64)
Z = PAIRS[:, 1] - PAIRS[:, 0]  # logits of class 1
P = Z.sigmoid()
TWO_CLASSES = [kind for kind in SCALERS.values() if not kind.needs_unknown_class]
two_classes = pytest.mark.parametrize("make", TWO_CLASSES)


@two_classes
def test_logits_of_class_1_are_two_columns(make):
    columns = torch.stack([torch.zeros_like(Z), Z], dim=1)
    expected = make().fit(columns, SIDES)
    scaler = make().fit(Z, SIDES)
    assert torch.equal(scaler(Z), expected(columns))
    assert torch.equal(scaler(Z[:2]), expected(columns[:2]))
    assert torch.equal(scaler(Z[:, None]), expected(columns))
    assert torch.equal(scaler(columns), expected(columns))
    assert torch.equal(make().fit(Z[:, None], SIDES)(Z), expected(columns))


@two_classes
def test_scores_of_class_1_are_two_columns(make):
    columns = torch.stack([1 - P, P], dim=1)
    expected = make().fit(columns, SIDES, from_probs=True)
    scaler = make().fit(P.numpy(), SIDES, from_probs=True)
    scaled = scaler(P.numpy(), from_probs=True)
    assert isinstance(scaled, np.ndarray)
    np.testing.assert_array_equal(scaled, expected(columns, from_probs=True).numpy())
    probs = scaler.probs(P, from_probs=True)
    assert probs.shape == (300, 2)
    assert ece(probs[:, 1], SIDES) < ece(P, SIDES)


def test_one_row_stays_one_row():
    """Of a fit on two columns a vector of two numbers is a row, of one on scores it is two."""
    rows = TemperatureScaling().fit(PAIRS, SIDES)
    assert rows(PAIRS[0]).shape == (2,)
    with pytest.raises(ValueError, match=r"2 columns, .*\(300,\)"):
        rows(Z)
    scores = TemperatureScaling().fit(Z, SIDES)
    assert scores(Z[:2]).shape == (2, 2)


def test_scores_travel_with_state_and_file(tmp_path):
    scaler = TemperatureScaling().fit(P, SIDES, from_probs=True)
    fresh = TemperatureScaling()
    fresh.load_state_dict(scaler.state_dict())
    for copy in (fresh, load(save(scaler, tmp_path / "scaler.npz"))):
        assert torch.equal(copy(P, from_probs=True), scaler(P, from_probs=True))


@pytest.mark.parametrize("wrong", [1.25, -0.25, np.nan])
def test_scores_beyond_0_and_1_are_refused(wrong):
    scores = P.clone()
    scores[7] = wrong
    with pytest.raises(ValueError, match=r"TemperatureScaling\.fit: .*7"):
        TemperatureScaling().fit(scores, SIDES, from_probs=True)


def test_scores_with_an_unknown_class_are_refused():
    with pytest.raises(ValueError, match=r"\(300, 2\), .*unknown"):
        ReadoutScaling().fit(Z, SIDES)


def test_best_of_scores():
    found = best(P.numpy(), SIDES.numpy(), from_probs=True)
    assert found.scaler(P.numpy(), from_probs=True).shape == (300, 2)
    columns = best(torch.stack([1 - P, P], dim=1), SIDES, from_probs=True)
    assert [trial[:4] for trial in found.table] == [trial[:4] for trial in columns.table]


NAMES = ["no", "yes"]


@pytest.mark.parametrize("kind", [list, np.array])
def test_names_of_classes(kind):
    labels = kind([NAMES[label] for label in SIDES])
    expected = TemperatureScaling().fit(PAIRS, SIDES)
    scaler = TemperatureScaling().fit(PAIRS, labels, classes=NAMES)
    assert torch.equal(scaler.temperature, expected.temperature)
    chosen = best(PAIRS, labels, classes=NAMES, candidates=["ensemble"])
    assert torch.equal(chosen.scaler.temperature, expected.temperature)
    with pytest.raises(ValueError, match=r"'yes'.*'oui'"):
        TemperatureScaling().fit(PAIRS, labels, classes=["no", "oui"])
    with pytest.raises(ValueError, match="classes="):
        TemperatureScaling().fit(PAIRS, labels)


def test_names_of_the_known_classes_beside_an_unknown_one():
    logits, labels = with_unknown(300, 3, 1.5, 1.0)
    named = [["a", "b", "c"][label] for label in labels]
    scaler = ReadoutScaling().fit(logits, named, classes=["a", "b", "c"])
    assert torch.equal(scaler.bias, ReadoutScaling().fit(logits, labels).bias)


def test_booleans_of_two_classes():
    scaler = TemperatureScaling().fit(Z, SIDES == 1)
    assert torch.equal(scaler.temperature, TemperatureScaling().fit(Z, SIDES).temperature)


WEIGHT = 0.5 + torch.arange(300, dtype=torch.float64) % 4


@pytest.mark.parametrize("from_probs", [False, True])
@pytest.mark.parametrize("library", ["lists", "numpy", "pandas", "polars"])
@pytest.mark.parametrize("make", SCALERS.values())
def test_every_scaler_takes_every_kind_of_array(make, library, from_probs):
    unknown = make.needs_unknown_class
    logits, labels = with_unknown(300, 2, 1.5, 1.0) if unknown else (PAIRS, SIDES)
    rows = logits.double().softmax(dim=1) if from_probs else logits.double()
    expected = make().fit(rows, labels, sample_weight=WEIGHT, from_probs=from_probs)
    plain = make().fit(rows, labels, from_probs=from_probs)
    assert not torch.equal(
        expected(rows, from_probs=from_probs), plain(rows, from_probs=from_probs)
    )
    names = [NAMES[label] for label in labels]
    if library == "lists":
        table, labels, weight = rows.tolist(), names, WEIGHT.tolist()
    elif library == "numpy":
        table, labels, weight = rows.numpy(), np.array(names), WEIGHT.numpy()
    else:
        frames = pytest.importorskip(library)
        table = frames.DataFrame({f"z{k}": column.numpy() for k, column in enumerate(rows.T)})
        labels, weight = frames.Series(names), frames.Series(WEIGHT.numpy())
    scaler = make().fit(table, labels, classes=NAMES, sample_weight=weight, from_probs=from_probs)
    for call in ("__call__", "probs"):
        result = getattr(scaler, call)(table, from_probs=from_probs)
        assert isinstance(result, np.ndarray)
        tensor = getattr(expected, call)(rows, from_probs=from_probs)
        assert isinstance(tensor, torch.Tensor)
        np.testing.assert_array_equal(result, tensor.numpy())


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize(
    "make", [make for make in SCALERS.values() if not make.needs_unknown_class]
)
def test_every_scaler_takes_a_column_of_scores(make, library):
    column = pytest.importorskip(library).Series(P.numpy())
    labels = [NAMES[label] for label in SIDES]
    scaler = make().fit(column, labels, classes=NAMES, from_probs=True)
    probs = scaler.probs(column, from_probs=True)
    assert isinstance(probs, np.ndarray)
    rows = make().fit(torch.stack([1 - P, P], dim=1), SIDES, from_probs=True)
    np.testing.assert_array_equal(probs, rows.probs(P[:, None], from_probs=True).numpy())


@pytest.mark.parametrize("make", SCALERS.values())
def test_probs_are_the_softmax_of_the_scaled_logits(make):
    unknown = make.needs_unknown_class
    logits, labels = with_unknown(300, 3, 1.5, 1.0) if unknown else (PAIRS, SIDES)
    scaler = make().fit(logits, labels)
    probs = scaler.probs(logits)
    expected = predict(scaler(logits), unknown="spread" if unknown else None).probs
    torch.testing.assert_close(probs, expected)
    read = scaler.probs(logits.tolist())
    assert isinstance(read, np.ndarray)
    np.testing.assert_allclose(read, probs.numpy(), atol=1e-6)
    assert scaler.probs(logits.half()).dtype == torch.float16


def test_probs_keep_an_unknown_column():
    logits, labels = with_unknown(300, 3, 1.5, 1.0)
    scaler = TemperatureScaling().fit(logits, labels, unknown_class=True)
    torch.testing.assert_close(scaler.probs(logits), scaler(logits).softmax(dim=1))


def test_probabilities_without_from_probs_are_noticed():
    probs = PAIRS.softmax(dim=1)
    scaler = TemperatureScaling().fit(probs, SIDES, from_probs=True)
    with pytest.warns(UserWarning, match="from_probs=True") as caught:
        scaler(probs)
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="from_probs=True") as caught:
        scaler.probs(probs)
    assert caught[0].filename == __file__
