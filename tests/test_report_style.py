"""Colours: fixed to methods, far enough apart for every eye, and visible on white and on dark."""

from __future__ import annotations

import dataclasses
from itertools import combinations

import numpy as np
import pytest
from report_runs import experiment

from socrates.experiment import Part
from socrates.palette import DARK, PAPER, contrast, faded, linear, on_dark
from socrates.report.aggregate import labels
from socrates.report.style import FURTHER, method_colour, ramped, styles, variant
from socrates.report.vocabulary import COLOURS, METHODS

# What is left of linear red, green and blue without one kind of cone (Machado, Oliveira and
# Fernandes 2009).
EYES = {
    "usual": np.eye(3),
    "red-blind": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "green-blind": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def lab(colour: str, eye: str) -> np.ndarray:
    """CIE L*a*b* of a colour as an eye sees it."""
    xyz = TO_XYZ @ np.clip(EYES[eye] @ np.array(linear(colour)), 0, 1) / (TO_XYZ @ np.ones(3))
    f = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def nearest(colours: list[str], eye: str) -> float:
    seen = [lab(colour, eye) for colour in colours]
    return min(float(np.linalg.norm(one - other)) for one, other in combinations(seen, 2))


def groups(*experiments):
    return {label: one.method for label, one in zip(labels(experiments), experiments, strict=True)}


def test_lab_of_known_colours():
    np.testing.assert_allclose(lab("#FFFFFF", "usual"), [100, 0, 0], atol=1e-2)
    np.testing.assert_allclose(lab("#FF0000", "usual"), [53.24, 80.09, 67.20], atol=0.05)


def test_every_method_has_a_colour_of_its_own():
    assert set(COLOURS) < set(METHODS)
    assert len({*COLOURS.values(), *FURTHER}) == len(COLOURS) + len(FURTHER)


@pytest.mark.parametrize(("eye", "least"), [("usual", 30), ("red-blind", 15), ("green-blind", 15)])
def test_methods_stay_apart_for_every_eye(eye, least):
    assert nearest(list(COLOURS.values()), eye) >= least


@pytest.mark.parametrize(("eye", "least"), [("usual", 15), ("red-blind", 7), ("green-blind", 7)])
def test_methods_stay_apart_on_dark(eye, least):
    assert nearest([on_dark(colour) for colour in COLOURS.values()], eye) >= least


@pytest.mark.parametrize("colour", [*COLOURS.values(), *FURTHER, "#000000", "#FFFFFF"])
def test_contrast_is_enough(colour):
    assert colour == "#FFFFFF" or contrast(colour, PAPER) >= 3
    assert contrast(on_dark(colour), DARK) >= 3


def test_a_method_keeps_its_look_whatever_else_is_there():
    socrates, other = experiment("socrates", gamma=1.0), experiment("socrates", gamma=2.0)
    few = styles(groups(socrates, other))
    many = styles(groups(experiment("ce"), experiment("sat"), other, socrates))
    assert few.items() <= many.items()
    assert few["Socrates γ=1"].colour == COLOURS["socrates"]
    assert few["Socrates γ=1"].dash == "solid"


def test_variants_are_told_apart_and_ranked_by_value():
    many = [
        experiment("socrates:no-beta"),
        *(experiment("socrates", gamma=float(g)) for g in range(20, 0, -1)),
    ]
    found = styles(groups(*many))
    assert len(set(found.values())) == len(many)
    assert all(
        contrast(style.colour, PAPER) >= 3 and contrast(on_dark(style.colour), DARK) >= 3
        for style in found.values()
    )
    assert found["Socrates γ=1"].marker == "o"
    assert found["Socrates γ=2"].marker == "s"


def test_options_of_mixed_kinds_can_be_ranked():
    mixed = {
        repr(value): Part("socrates", target_over=value)
        for value in ("all", "known", None, 1, 0.5, True)
    }
    assert len(set(styles(mixed).values())) == len(mixed)


def test_groups_that_differ_in_the_optimizer_have_their_own_style():
    one = experiment("ce")
    other = dataclasses.replace(one, num_bins=10)
    assert len(set(styles(groups(one, other)).values())) == 2


def test_unknown_methods_have_a_stable_colour():
    assert method_colour("elsewhere:Loss") == method_colour("elsewhere:Loss")
    assert method_colour("elsewhere:Loss") in FURTHER


def test_every_method_has_a_marker_of_its_own():
    found = styles({name: Part(name) for name in COLOURS})
    assert len({style.marker for style in found.values()}) == len(COLOURS)
    everyone = styles({name: Part(name) for name in METHODS})
    assert len(set(everyone.values())) == len(METHODS)


def test_variants_of_one_method_alone_have_a_hue_each_and_up_to_three_its_shades():
    ten = {
        str(number): Part(f"socrates:{number}" if number else "socrates") for number in range(10)
    }
    found = styles(ten)
    assert (
        len({style.colour for style in found.values()})
        == len({style.marker for style in found.values()})
        == 10
    )
    assert found["0"].colour == COLOURS["socrates"]
    three = styles({label: ten[label] for label in "012"})
    assert COLOURS["ce"] not in {style.colour for style in three.values()}
    assert styles({**ten, "CE": Part("ce")})["1"].colour not in COLOURS.values()


def luminance(colour):
    return (1.05 / contrast(colour, PAPER)) - 0.05


def test_variants_by_one_number_have_a_ramp_from_dark_to_light():
    found = styles(
        {str(gamma): Part("socrates", gamma=float(gamma)) for gamma in (5, 0.5, 4, 3, 2, 1)}
    )
    ordered = [found[gamma].colour for gamma in ("0.5", "1", "2", "3", "4", "5")]
    assert ordered == sorted(ordered, key=luminance)
    assert len({style.marker for style in found.values()}) == 6


def test_variants_by_two_numbers_have_a_colour_for_one_and_a_marker_for_the_other():
    pairs = [(gamma, alpha) for gamma in (1, 2, 3) for alpha in (0.9, 0.95, 0.99, 0.999)]
    found = styles({str(pair): Part("socrates", gamma=pair[0], alpha=pair[1]) for pair in pairs})
    assert len({*found.values()}) == 12
    for values, look in ((1, "marker"), (0, "colour")):
        of_value = {}
        for (gamma, alpha), style in zip(pairs, map(found.get, map(str, pairs)), strict=True):
            of_value.setdefault((alpha, gamma)[values], set()).add(getattr(style, look))
        assert all(len(own) == 1 for own in of_value.values())


@pytest.mark.parametrize(
    "options", [[{}, {"gamma": 1}], [{"gamma": 1}, {"gamma": "x"}], [{"gamma": 1}] * 2]
)
def test_what_is_no_number_or_not_told_by_numbers_has_no_ramp(options):
    assert ramped({str(place): Part("socrates", **own) for place, own in enumerate(options)}) == {}


def test_all_are_shown_first_unless_told_which():
    methods = {name: Part(name) for name in ("ce", "sat")}
    assert [style.shown_first for style in styles(methods).values()] == [True, True]
    assert [style.shown_first for style in styles(methods, {"sat"}).values()] == [False, True]


RAMPED = [
    style.colour for style in ramped({str(k): Part("focal", gamma=k) for k in range(40)}).values()
]
SHADED = [variant(colour, rank).colour for colour in COLOURS.values() for rank in range(3)]


@pytest.mark.parametrize("colour", sorted({*COLOURS.values(), *FURTHER, *RAMPED, *SHADED}))
def test_every_hue_stands_out_whole_and_faded_on_paper_and_on_dark(colour):
    assert contrast(colour, PAPER) >= 3
    assert contrast(faded(colour), PAPER) >= 3
    assert contrast(on_dark(colour), DARK) >= 3
    assert contrast(faded(on_dark(colour), DARK), DARK) >= 3
