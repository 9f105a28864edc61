"""The schema of a certificate: what it says, its written form, and what its reader refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from socrates.abstention import Certificate, Scope, Threshold

OVERALL = Certificate(0.05, 0.1, (Threshold(0.9, 210, 150, 3),), model="0123456789abcdef")
MIXED = replace(
    OVERALL,
    thresholds=(Threshold(0.9, 210, 150, 3, "", 90, 2, novelty=0.1),),
    scope=Scope("images", ("car", "cat"), 0.3, "others"),
)
BY_CLASS = Certificate(
    0.05,
    0.1,
    (Threshold(0.9, 100, 80, 1, "car"), Threshold(None, 50, 0, 0, "cat")),
    "class",
    Scope("images", ("car", "cat")),
)
BY_GROUP = replace(
    BY_CLASS,
    kind="group",
    thresholds=tuple(replace(row, name=f"site {row.name}") for row in BY_CLASS.thresholds),
)


@pytest.mark.parametrize("certificate", [OVERALL, MIXED, BY_CLASS, BY_GROUP])
def test_what_is_written_is_read(certificate: Certificate) -> None:
    assert Certificate.from_json(json.loads(json.dumps(certificate.to_json()))) == certificate


def test_it_says_its_world() -> None:
    for fact in ("0.9000", "71.4%", "3 of 150", "0.9 ", "5%", "among samples of these classes"):
        assert fact in str(OVERALL)
    for fact in (
        "up to 30% strangers like those of others",
        "2 of 90 strangers",
        "novelty at most 0.1",
    ):
        assert fact in str(MIXED)
    assert "among" not in str(MIXED)
    for fact in ("1 of 2 classes", "53.3% of the images", "of each class", "1 of 80"):
        assert fact in str(BY_CLASS)
    assert "of each group" in str(BY_GROUP)


def test_an_overall_certificate_has_one_threshold() -> None:
    assert (OVERALL.threshold, OVERALL.coverage) == (0.9, 150 / 210)
    assert (BY_CLASS.num_accepted, BY_CLASS.num_errors) == (80, 1)
    with pytest.raises(ValueError, match="for each class"):
        _ = BY_CLASS.threshold


def changed(certificate: Certificate, place: tuple[Any, ...], value: Any) -> Any:
    """Return the JSON object with another value at this place."""
    plain = json.loads(json.dumps(certificate.to_json()))
    inner = plain
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return plain


@pytest.mark.parametrize(
    ("certificate", "place", "value"),
    [
        (OVERALL, ("version",), 2),
        (OVERALL, ("version",), None),
        (OVERALL, ("more",), 1),
        (OVERALL, ("kind",), "by colour"),
        (OVERALL, ("kind",), "class"),
        (BY_CLASS, ("kind",), "overall"),
        (OVERALL, ("risk",), 0),
        (OVERALL, ("risk",), "0.05"),
        (OVERALL, ("delta",), 1.0),
        (OVERALL, ("model",), 7),
        (OVERALL, ("thresholds",), []),
        (OVERALL, ("thresholds",), "0.9"),
        (OVERALL, ("thresholds", 0, "value"), None),
        (OVERALL, ("thresholds", 0, "value"), float("nan")),
        (OVERALL, ("thresholds", 0, "value"), True),
        (OVERALL, ("thresholds", 0, "num_errors"), 151),
        (OVERALL, ("thresholds", 0, "num_errors"), -1),
        (OVERALL, ("thresholds", 0, "num_accepted"), 211),
        (OVERALL, ("thresholds", 0, "num_samples"), 210.0),
        (OVERALL, ("thresholds", 0, "name"), "car"),
        (OVERALL, ("thresholds", 0, "colour"), 0.5),
        (OVERALL, ("thresholds", 0, "novelty"), "0.5"),
        (OVERALL, ("thresholds", 0, "num_strangers"), 60),
        (OVERALL, ("scope", "share"), 0.1),
        (MIXED, ("scope", "share"), 0.0),
        (MIXED, ("scope", "share"), 1.0),
        (MIXED, ("scope", "strangers"), None),
        (MIXED, ("scope", "classes"), "car"),
        (MIXED, ("thresholds", 0, "num_strangers_accepted"), 91),
        (BY_CLASS, ("thresholds", 0, "name"), "cat"),
        (BY_CLASS, ("thresholds", 0, "name"), "dog"),
        (BY_CLASS, ("thresholds", 1, "num_accepted"), 1),
    ],
)
def test_what_is_not_understood_is_refused(
    certificate: Certificate, place: tuple[Any, ...], value: Any
) -> None:
    with pytest.raises(ValueError, match=r"certificate|threshold") as caught:
        Certificate.from_json(changed(certificate, place, value))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("plain", [None, 0, [], {}, {"threshold": 0.9, "coverage": 0.5}])
def test_what_is_no_certificate_is_refused(plain: Any) -> None:
    with pytest.raises(ValueError, match="certificate"):
        Certificate.from_json(plain)
