"""A scaler that is saved is loaded as it was, and no other file is taken for one."""

import json
import os
import zipfile
from dataclasses import asdict

import numpy as np
import pytest
import torch
from scaling_cases import sampled, with_unknown

from socrates.scaling import (
    SCALERS,
    MatrixScaling,
    StructuredScaling,
    TemperatureScaling,
    VectorScaling,
    load,
    save,
)
from socrates.scaling.saving import LARGEST, KeptScaler, describe, rebuild

LOGITS, LABELS = with_unknown(300, 4, 1.7, 1.0)
PAIRS, SIDES = sampled(300, 2, 1.7)


def fitted(make, **options):
    return make(**options).fit(*((PAIRS, SIDES) if make is SCALERS["beta"] else (LOGITS, LABELS)))


@pytest.mark.parametrize("make", SCALERS.values())
def test_round_trip_is_exact(make, tmp_path):
    scaler = fitted(make)
    path = save(scaler, tmp_path / "scaler.npz")
    assert path == tmp_path / "scaler.npz"
    again = load(str(path))
    assert type(again) is make
    assert repr(again) == repr(scaler)
    assert again.report == scaler.report
    assert again.floor == scaler.floor
    assert {k: v.tolist() for k, v in again.state_dict().items()} == {
        k: v.tolist() for k, v in scaler.state_dict().items()
    }
    assert all(buffer.dtype == torch.float64 for buffer in again.buffers())
    logits = PAIRS if make is SCALERS["beta"] else LOGITS
    assert torch.equal(again(logits), scaler(logits))
    assert os.listdir(tmp_path) == ["scaler.npz"]
    with np.load(path, allow_pickle=False) as content:
        assert all(content[key].dtype.kind in "fU" for key in content.files)


@pytest.mark.parametrize("make", [VectorScaling, MatrixScaling])
@pytest.mark.parametrize("regularization", [0.5, float("inf"), None])
def test_options_travel(make, regularization, tmp_path):
    again = load(save(fitted(make, regularization=regularization), tmp_path / "scaler"))
    assert again.regularization == regularization
    assert again.strength == (regularization or 0.0)
    assert torch.equal(
        again.fit(LOGITS, LABELS)(LOGITS), fitted(make, regularization=regularization)(LOGITS)
    )


@pytest.mark.parametrize(
    "options", [{}, {"structure": "diagonal"}, {"strength": 2.0}, {"strength": np.float32(2.0)}]
)
def test_structured_options_travel(options, tmp_path):
    scaler = fitted(StructuredScaling, **options)
    again = load(save(scaler, tmp_path / "scaler.npz"))
    assert repr(again) == repr(scaler)
    assert torch.equal(again(LOGITS), scaler(LOGITS))
    assert repr(again.fit(LOGITS, LABELS)) == repr(scaler)


def test_the_floor_of_probabilities_travels(tmp_path):
    probs = LOGITS.softmax(dim=1)
    scaler = TemperatureScaling().fit(probs, LABELS, from_probs=True)
    again = load(save(scaler, tmp_path / "scaler.npz"))
    assert again.floor == scaler.floor
    assert torch.equal(again(probs, from_probs=True), scaler(probs, from_probs=True))


def test_a_description_travels_as_json():
    kept = describe(fitted(VectorScaling))
    assert kept.kind == "socrates.scaling.affine.VectorScaling"
    assert kept.module == "socrates.scaling.affine"
    assert kept.attributes["columns"] == 5
    assert kept.tensors["bias"] == (5,)
    again = KeptScaler.from_json(json.loads(json.dumps(asdict(kept))))
    assert again == kept


def test_what_cannot_be_saved(tmp_path):
    class Own(TemperatureScaling):
        pass

    with pytest.raises(ValueError, match=r"SCALERS \(temperature, .*\bOwn\b"):
        save(Own().fit(LOGITS, LABELS), tmp_path / "x.npz")
    with pytest.raises(ValueError, match="got Linear"):
        save(torch.nn.Linear(2, 2), tmp_path / "x.npz")
    with pytest.raises(ValueError, match=r"TemperatureScaling .*not fitted"):
        save(TemperatureScaling(), tmp_path / "x.npz")
    with pytest.raises(FileNotFoundError):
        save(fitted(TemperatureScaling), tmp_path / "nowhere" / "x.npz")
    assert list(tmp_path.iterdir()) == []


def test_own_kinds_that_were_added(tmp_path, monkeypatch):
    class Own(TemperatureScaling):
        title, short = "own", "OWN"

    monkeypatch.setitem(SCALERS, "own", Own)
    path = save(Own().fit(LOGITS, LABELS), tmp_path / "own.npz")
    assert type(load(path)) is Own
    monkeypatch.delitem(SCALERS, "own")
    with pytest.raises(ValueError, match="'own' scaler"):
        load(path)


class Shift(torch.nn.Module):
    """A scaler from outside that is a plain module: buffers and numbers exist after a fit only."""

    title, short, needs_unknown_class = "shift", "SH", False

    def __init__(self, power: int = 1) -> None:
        super().__init__()
        self.power = power

    def fit(self, logits, labels, *, unknown_class=False):
        counts = torch.bincount(labels, minlength=logits.shape[1]) + 1.0
        self.register_buffer("bias", counts.log())
        self.slope = torch.nn.Parameter(torch.tensor(0.5))
        self.num_samples = len(labels)
        return self

    def forward(self, logits):
        return self.slope * logits + self.bias**self.power


def test_a_scaler_from_outside_need_not_be_a_scaler_of_ours(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"SCALERS .*Shift"):
        save(Shift().fit(LOGITS, LABELS), tmp_path / "shift.npz")
    monkeypatch.setitem(SCALERS, "shift", Shift)
    scaler = Shift(power=2).fit(LOGITS, LABELS)
    again = load(save(scaler, tmp_path / "shift.npz"))
    assert type(again) is Shift
    assert (again.power, again.num_samples) == (2, len(LABELS))
    assert torch.equal(again(LOGITS), scaler(LOGITS))
    assert again.bias.dtype == torch.float32


def test_a_scaler_whose_state_is_not_tensors_is_refused(tmp_path, monkeypatch):
    class Talking(Shift):
        def get_extra_state(self):
            return "words"

    monkeypatch.setitem(SCALERS, "talking", Talking)
    with pytest.raises(ValueError, match=r"Talking .*'_extra_state' .*str"):
        save(Talking().fit(LOGITS, LABELS), tmp_path / "talking.npz")
    assert list(tmp_path.iterdir()) == []


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = save(fitted(TemperatureScaling), tmp_path / "scaler.npz")
    before = path.read_bytes()

    def fail(*_):
        raise OSError("the disk is full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match=r"scaler\.npz .*full"):
        save(fitted(VectorScaling), path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["scaler.npz"]


def test_no_part_of_a_file_is_taken_for_all_of_it(tmp_path):
    path = save(fitted(MatrixScaling, regularization=0.5), tmp_path / "scaler.npz")
    whole = path.read_bytes()
    for size in {0, 1, 4, len(whole) // 3, len(whole) // 2, len(whole) - 30, len(whole) - 1}:
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match=r"scaler\.npz .*socrates\.scaling\.save") as caught:
            load(path)
        assert "\n" not in str(caught.value)
    spoiled = bytearray(whole)
    place = whole.index(b"buffer.weight.npy") + 200
    spoiled[place] ^= 255
    path.write_bytes(spoiled)
    with pytest.raises(ValueError, match="CRC"):
        load(path)


def written(path, change=None, **arrays):
    """A saved temperature whose description or arrays were changed."""
    save(fitted(TemperatureScaling), path)
    with np.load(path) as content:
        parts = {key: content[key] for key in content.files}
    about = json.loads(str(parts["socrates_scaler"]))
    about |= change or {}
    np.savez(path, **(parts | {"socrates_scaler": np.array(json.dumps(about))} | arrays))


FOREIGN = {
    "text": (lambda path: path.write_text("temperature=1.5"), "several arrays"),
    "pickle": (
        lambda path: np.save(path, np.array([{}], dtype=object), allow_pickle=True),
        "is not an .npz",
    ),
    "pickle inside": (
        lambda path: np.savez(path, a=np.array([{}], dtype=object)),
        "allow_pickle=False",
    ),
    "one array": (lambda path: np.save(path, np.zeros(3)), "several arrays"),
    "other arrays": (lambda path: np.savez(path, probs=np.zeros(3)), "holds other arrays"),
    "torch": (lambda path: torch.save({"a": 1}, path), "not a whole scaler"),
    "another zip": (lambda path: zipfile.ZipFile(path, "w").close(), "holds other arrays"),
    "format": (
        lambda path: written(path, {"format": "2.0"}),
        r"format '2\.0', .*reads 1\.0",
    ),
    "version 0.x": (
        lambda path: written(path, {"format": 1}),
        r"format 1 of version 0\.x, .*reads 1\.0",
    ),
    "kind": (
        lambda path: written(path, {"kind": "magic"}),
        "'magic' scaler",
    ),
    "attribute": (
        lambda path: written(path, {"numbers": {"depth": 3}}),
        "TemperatureScaling .*'depth'",
    ),
    "private": (lambda path: written(path, {"numbers": {"_buffers": 3}}), "'_buffers'"),
    "not plain": (lambda path: written(path, {"numbers": {"fit": 3}}), "'fit'"),
    "columns": (lambda path: written(path, {"numbers": {"columns": 0}}), "number of columns"),
    "numbers": (lambda path: written(path, {"numbers": []}), "not a whole scaler"),
    "not finite": (
        lambda path: written(path, **{"buffer.temperature": np.array(np.nan)}),
        "that are not finite",
    ),
    "one of two not finite": (
        lambda path: written(path, **{"buffer.other": np.array(np.inf)}),
        "that are not finite",
    ),
    "report": (lambda path: written(path, {"report": {"a": 1}}), "FitReport.*'a'"),
    "array too many": (
        lambda path: written(path, **{"buffer.scale": np.ones(2)}),
        "TemperatureScaling: .*scale",
    ),
    "shape": (
        lambda path: written(path, **{"buffer.temperature": np.ones(3)}),
        "not a whole scaler",
    ),
    "folder": (lambda path: path.mkdir(), "not a whole scaler"),
}


@pytest.mark.parametrize("case", FOREIGN.values(), ids=FOREIGN.keys())
def test_foreign_files_are_refused_in_one_line(case, tmp_path):
    make, message = case
    path = tmp_path / "scaler.npz"
    make(path)
    for added in tmp_path.glob("*.npy"):  # numpy's own ending
        added.replace(path)
    with pytest.raises(ValueError, match=message) as caught:
        load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(FileNotFoundError, match=r"nothing\.npz .*socrates\.scaling\.save"):
        load(tmp_path / "nothing.npz")


def test_sizes_that_a_constructor_takes_are_limited(monkeypatch):
    monkeypatch.setitem(SCALERS, "shift", Shift)
    tensors = {"bias": torch.zeros(5), "slope": torch.tensor(0.5)}
    for power in (LARGEST, -LARGEST):
        assert rebuild("shift", {"power": power}, tensors).power == power
    for power in (LARGEST + 1, -LARGEST - 1):
        with pytest.raises(ValueError, match=rf"'power' .*{power}.*{LARGEST}"):
            rebuild("shift", {"power": power}, tensors)


def test_fewer_than_two_columns_are_refused(tmp_path):
    path = tmp_path / "scaler.npz"
    written(path, {"numbers": {"columns": 2}})
    assert load(path).columns == 2
    written(path, {"numbers": {"columns": 1}})
    with pytest.raises(ValueError, match="number of columns"):
        load(path)
