"""Figures: their data in numbers worked out by hand, their ink by what is on the axes, and no crash
on odd runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from report_runs import experiment, make_run

from socrates.arrays.entries import open_top
from socrates.experiment import Part, resolve
from socrates.metrics import BinStats, ece, predict, reliability
from socrates.metrics.binning import bin_stats
from socrates.palette import RED
from socrates.plots.diagram import chance_band
from socrates.records import Evaluation
from socrates.report.aggregate import find_runs, group_runs, read_runs
from socrates.report.answer import answer
from socrates.report.figures import FIGURES, curves, evolution, pareto, scaling, unknown
from socrates.report.figures import reliability as diagrams
from socrates.report.figures.compose import (
    WIDTHS,
    Drawing,
    Panel,
    caption,
    compose,
    write_drawing,
)
from socrates.report.figures.plane import Plane, Trail, plane_of
from socrates.report.page import TEACHING
from socrates.report.results import Band, Failure, Results, bands
from socrates.report.selection import first_shown
from socrates.report.study_page import page_data
from socrates.report.style import Style, styles
from socrates.report.vocabulary import READINGS
from socrates.report.write import prefixes, write_figures

STYLE = Style("#D55E00", "solid", "o")
NAN = np.nan
LOSSES = [[3, 2, 1], [3, 1, 1]]


def results(
    method="ce", label=None, epochs=3, runs=1, numbers=(), collapses=None, unknown=False, **options
):
    """Labelled results without any run directory: curves over three epochs by name, a row a run,
    and test metrics.

    `numbers` are (accuracy, ECE) of each run, None where it has none, or a dict of them by scaler.
    """
    of = resolve(
        experiment(
            method, epochs=epochs, **{k: v for k, v in options.items() if not isinstance(v, list)}
        )
    )
    found = {
        name: np.array(v, dtype=float).reshape(runs, -1)
        for name, v in options.items()
        if isinstance(v, list)
    }
    reading = "answer" if unknown else "plain"
    evaluations = []
    for number in numbers or [None] * runs:
        tables = number if isinstance(number, dict) else {"none": number} if number else {}
        by_scaler = {
            scaler: {
                split: {reading: dict(zip(("accuracy", "ece"), pair, strict=True))}
                for split in ("val", "test")
            }
            for scaler, pair in tables.items()
        }
        evaluations.append(Evaluation(epochs, 15, unknown, by_scaler))
    steps = np.arange(1.0, epochs + 1)
    seeds = range(1, len(evaluations) + 1)
    return Results(
        label or method.upper(), of.method, evaluations, seeds, collapses or {}, steps, found
    )


def look(*members):
    return styles({one.label: one.method for one in members})


def axes(rows=1, columns=1):
    return Figure().subplots(rows, columns, squeeze=False).ravel()


def texts(figure):
    return [text.get_text() for text in figure.findobj(lambda artist: hasattr(artist, "get_text"))]


def words_of(drawing):
    """All that is written in a figure, without its line breaks."""
    return " ".join(" ".join(texts(compose(drawing))).split())


def drawn(members):
    found = look(*members)
    return {
        drawing.name: drawing
        for figure in FIGURES.values()
        for drawing in figure.drawings(members, found)
    }


def read(root):
    return group_runs(read_runs(find_runs(root))[0])


def test_band_is_mean_and_sample_deviation_of_the_runs_that_have_a_value():
    two = results(runs=2, val_loss=[[1, 2, 3], [3, 2, NAN]])
    (found,) = bands([two, results(val_nll=[1, 2, 3])], "val_loss", factor=10)
    np.testing.assert_allclose(found.mean, [20, 20, 30])
    np.testing.assert_allclose(found.high - found.mean, [10 * np.sqrt(2), 0, 0])
    np.testing.assert_allclose(found.low, 2 * found.mean - found.high)
    assert found.label == "CE"


def test_band_of_one_seed_is_the_line_and_of_nothing_is_none():
    alone = results(val_loss=[1, NAN, 2], beta=[NAN] * 3)
    (found,) = bands([alone], "val_loss")
    np.testing.assert_array_equal(found.low, found.high)
    np.testing.assert_array_equal(found.mean, [1, NAN, 2])
    assert bands([alone], "beta") == bands([alone], "target") == []


def test_the_band_of_the_error_is_the_right_way_up():
    (found,) = bands([results(runs=2, val_accuracy=[[0.8] * 3, [0.9] * 3])], "error")
    np.testing.assert_allclose(found.mean, 0.15)
    assert (found.low < found.mean).all()
    assert (found.mean < found.high).all()


@pytest.mark.parametrize(
    ("method", "options", "epoch"),
    [
        ("sat", {"start_epoch": 1}, 2),
        ("sat", {}, None),
        ("sat", {"start_epoch": 3}, None),
        ("ccl_sc", {}, 2),
    ],
)
def test_switch_is_the_epoch_after_the_first_phase(method, options, epoch):
    assert results(method, **options).switch_epoch == epoch


def test_losses_are_drawn_solid_and_dashed_with_a_box_at_the_switch():
    train, val = [[3, 2, 1], [3, 3, 1]], [[3, 2, 2], [NAN] * 3]
    sat = results("sat", runs=2, start_epoch=1, train_loss=train, val_loss=val)
    (ax,) = axes()
    handles = curves.draw_lines(ax, curves.losses_data([sat, results()], look(sat, results())))
    solid, dashed = ax.get_lines()
    assert (solid.get_linestyle(), dashed.get_linestyle()) == ("-", "--")
    assert len(ax.collections) == 1  # a shade for the two runs of one curve
    (box,) = ax.patches
    assert box.get_x() < 2 < box.get_x() + box.get_width()
    assert ax.get_xlim() == (1, 3)
    assert [handle.get_label() for handle in handles] == [
        "training",
        "validation",
        "SAT",
        "change of loss",
    ]


def test_curves_are_drawn_in_the_style_of_their_method():
    found = results(runs=2, val_nll=[[1, 2, 3], [3, 2, NAN]])
    (panel,) = drawn([found])["nll"].panels
    (ax,) = axes()
    panel.draw(ax, panel.data)
    assert [line.get_color() for line in ax.get_lines()] == ["#0072B2"]
    assert ax.get_ylabel() == "validation NLL of the known classes"


def test_a_diverging_curve_does_not_push_the_limit_away():
    steps = np.arange(4)
    made = [
        Band(str(k), steps, level * np.ones(4), steps, steps)
        for k, level in enumerate([1, 1, 1, 1, 1e6])
    ]
    assert curves.ceiling(made) == pytest.approx(4.2)
    assert curves.ceiling(made[:4]) == pytest.approx(1.05)
    assert curves.ceiling([]) is None
    assert curves.ceiling([Band("nan", steps, np.full(4, NAN), steps, steps)]) is None


def test_epoch_paths_hold_the_first_the_last_and_every_nth_epoch():
    accuracy, errors = [[0.5, 0.8, 0.9], [0.5, 0.6, NAN]], [[0.3, 0.2, 0.1], [0.1, 0.2, NAN]]
    (path,) = pareto.epoch_paths(
        [results(runs=2, val_accuracy=accuracy, val_ece=errors), results()], every=2
    )
    np.testing.assert_array_equal(path.steps, [1, 2, 3])
    np.testing.assert_allclose(path.error, [50, 30, 10])
    np.testing.assert_allclose(path.ece, [20, 20, 10])
    assert path.end == pytest.approx((10, 10))
    alone = results(val_accuracy=accuracy[0], val_ece=errors[0])
    assert pareto.epoch_paths([alone], every=25)[0].steps == [1, 3]


def test_final_points_leave_out_runs_and_labels_without_numbers():
    whole = results(runs=3, numbers=[(0.9, 0.02), None, (0.8, 0.04)])
    (point,) = pareto.final_points([whole, results(label="diverged")])
    np.testing.assert_allclose(point.error, [10, 20])
    np.testing.assert_allclose(point.ece, [2, 4])
    assert point.end == pytest.approx((15, 3))
    assert pareto.final_points([whole], scaler="temperature") == []


def trail(label, error, ece):
    error, ece = np.array(error, dtype=float), np.array(ece, dtype=float)
    return Trail(label, error, ece, (float(error.mean()), float(ece.mean())))


def test_the_front_is_that_of_the_means_without_collapsed_ones():
    points = [trail("a", [4, 6], [3, 3]), trail("b", [6, 6], [3, 3]), trail("c", [9, 9], [0, 2])]
    assert [point.label for point in plane(*points).front] == ["a", "c"]
    assert [point.label for point in plane(*points, collapsed=["c"]).front] == ["a"]
    assert plane().front == []


def test_collapsed_runs_are_counted():
    bad = results(
        label="bad", runs=2, numbers=[None, None], collapses={1: "every answer is class 1"}
    )
    assert plane_of([], {}, [bad, results()]).collapsed == {"bad": "1 of 2 runs"}


def plane(*trails, collapsed=()):
    names = dict.fromkeys((one.label for one in trails), STYLE)
    return Plane(trails, names, dict.fromkeys(collapsed, "1 of 2 runs"))


THREE = [
    trail(label, [e, e + 1], [c, c + 0.5])
    for label, e, c in (("CE", 5, 2), ("SAT", 6, 1), ("MC", 90, 0.1))
]


def test_final_points_are_drawn_with_front_and_threshold_and_the_collapsed_hollow():
    (ax,) = axes()
    handles = pareto.draw_points(ax, plane(*THREE, collapsed=["MC"]))
    front, *_, threshold = ax.get_lines()
    assert len(ax.get_lines()) == 1 + 3 * 2 + 1  # front, runs and mean of each, threshold
    assert list(threshold.get_ydata()) == [10, 10]
    # the collapsed one has the lowest ECE, and is not on it
    assert list(front.get_xdata()) == [5.5, 6.5]
    hollow = [line for line in ax.get_lines() if line.get_markeredgecolor() == RED]
    assert [line.get_markerfacecolor() for line in hollow] == ["white"]
    assert ax.get_xlim()[1] < 20
    assert "MC (collapsed: 1 of 2 runs, error 90%, ECE 0%)" in ax.get_title().replace("\n", " ")
    assert handles[2].get_label() == "MC (collapsed: 1 of 2 runs)"


def test_what_is_outside_the_frame_is_named_with_its_mean():
    (ax,) = axes()
    pareto.draw_points(
        ax, plane(trail("CE", [5, 6], [2, 2]), trail("MC", [90, 7], [1, 2]), collapsed=["MC"])
    )
    assert "error 48%, ECE 2%" in ax.get_title().replace("\n", " ")


def test_what_collapsed_below_the_frame_is_named_with_its_true_mean():
    (ax,) = axes()
    pareto.draw_points(
        ax, plane(trail("CE", [5, 6], [8, 9]), trail("MC", [5, 6], [0, 0]), collapsed=["MC"])
    )
    assert ax.get_ylim()[0] > 4
    assert "MC (collapsed: 1 of 2 runs, error 6%, ECE 0%)" in ax.get_title()


def test_with_collapsed_ones_alone_the_frame_holds_them():
    (ax,) = axes()
    pareto.draw_points(ax, plane(THREE[2], collapsed=["MC"]))
    assert ax.get_xlim()[1] > 90
    assert "outside" not in ax.get_title()


def test_paths_are_drawn_with_numbers_at_the_middle_and_at_the_end():
    error, errors = np.array([90.0, 20.0, 10.0]), np.array([30.0, 4.0, 8.0])
    (ax,) = axes()
    pareto.draw_paths(ax, plane(Trail("CE", error, errors, (10.0, 8.0), np.array([1, 25, 50]), 1)))
    assert [text.get_text() for text in ax.texts] == ["50", "25"]
    assert 10 < ax.get_ylim()[1] < 30  # the first epoch lies outside
    assert 20 < ax.get_xlim()[1] < 90


def test_planes_without_points_are_empty_and_do_not_crash():
    (ax,) = axes()
    for draw in (pareto.draw_points, pareto.draw_paths, scaling.draw_scaled):
        draw(ax, plane())


def binned(probs, labels, num_bins=2):
    return bin_stats(open_top(np.array(probs, dtype=np.float64), np.array(labels)), num_bins)


def test_reliability_of_two_runs_by_hand():
    runs = [binned([[0.9, 0.1], [0.6, 0.4]], [0, 1]), binned([[0.8, 0.2], [0.3, 0.7]], [0, 1])]
    found = diagrams.reliability_data("CE", runs)
    np.testing.assert_array_equal(found.count, [0, 4])
    np.testing.assert_array_equal(found.upper, [0.5, 1])
    assert found.confidence[1] == pytest.approx(0.75)
    assert found.accuracy[1] == pytest.approx(0.75)
    assert found.share[1] == 1
    assert found.ece == pytest.approx((0.25 + 0.25) / 2)
    reach = 1.96 * np.sqrt(0.75 * 0.25 / 2)  # the two samples of one run
    assert found.low[1] == pytest.approx(0.75 - reach, abs=1e-4)
    assert found.high[1] == 1
    assert np.isnan(
        [found.confidence[0], found.accuracy[0], found.low[0], found.high[0], found.floor]
    ).all()


def test_chance_band_holds_calibrated_bins_and_not_others():
    random = np.random.default_rng(0)
    accuracy = random.binomial(200, 0.7, size=4000) / 200
    low, high = chance_band(np.array([0.7]), np.array([200.0]))
    assert 0.93 < np.mean((accuracy >= low) & (accuracy <= high)) < 0.97


@pytest.mark.parametrize("reading", ["answer", "abstain", "renormalize", "spread"])
def test_readings_agree_with_the_metrics(tmp_path, reading):
    for seed in (1, 2):
        make_run(tmp_path, experiment("socrates", seed))
    ((made,),) = read(tmp_path).values()
    found = diagrams.reliability_of(made, reading=reading)
    stored = [one.predictions() for one in made.runs]
    logits, truth = (
        np.concatenate([s.logits for s in stored]),
        np.concatenate([s.labels for s in stored]),
    )
    expected = reliability(predict(logits, unknown=reading), truth)
    np.testing.assert_array_equal(found.count, expected.count)
    np.testing.assert_allclose(found.accuracy, expected.accuracy)
    np.testing.assert_allclose(found.confidence, expected.confidence)
    own = [ece(predict(s.logits, unknown=reading), s.labels) for s in stored]
    assert found.ece == pytest.approx(np.mean(own))
    assert found.floor == pytest.approx(0.02)
    assert found.runs == 2


def test_without_an_unknown_class_all_readings_are_the_same(tmp_path):
    make_run(tmp_path, experiment("ce"))
    ((made,),) = read(tmp_path).values()
    readings = ("answer", "abstain", "renormalize", "spread")
    assert len({diagrams.reliability_of(made, reading=reading).ece for reading in readings}) == 1


def test_runs_whose_logits_are_not_finite_are_left_out_of_the_diagram(tmp_path):
    bad = [make_run(tmp_path, experiment("ce", seed)) for seed in (1, 2)][1]
    path = bad / "predictions" / "test-0006.npz"
    stored = dict(np.load(path))
    np.savez_compressed(path, **{**stored, "logits": np.full_like(stored["logits"], NAN)})
    ((made,),) = read(tmp_path).values()
    assert len(made.runs) == 2
    assert diagrams.reliability_of(made).runs == 1
    empty = diagrams.reliability_data("CE", [])
    assert (empty.runs, empty.count.sum()) == (0, 0)
    assert np.isnan(empty.ece)
    (ax,) = axes()
    diagrams.draw_diagram(ax, diagrams.Diagram(empty, STYLE))
    assert [text.get_text() for text in ax.texts] == ["no logits to read"]


def test_reliability_is_drawn_with_dots_band_and_histogram(tmp_path):
    make_run(tmp_path, experiment("ce"))
    ((made,),) = read(tmp_path).values()
    found = diagrams.reliability_of(made)
    (ax,) = axes()
    diagrams.draw_diagram(ax, diagrams.Diagram(found, STYLE))
    # histogram, and what chance gives each bin
    assert len(ax.patches) == 1 + (found.count > 0).sum()
    assert len(ax.collections[1].get_offsets()) == (found.count > 0).sum()
    assert ax.get_xlim() == (0, 1)
    assert ax.get_title().split() == ["ECE", f"{100 * found.ece:.2f},", "floor", "2.00"]


def test_the_readings_of_a_diagram_share_one_look_at_the_logits(tmp_path, monkeypatch):
    make_run(tmp_path, experiment("socrates"))
    ((made,),) = read(tmp_path).values()
    load, files = np.load, []
    monkeypatch.setattr(
        np,
        "load",
        lambda file, *given, **named: (files.append(file), load(file, *given, **named))[1],
    )
    assert len({id(made.bins("test", reading)[0]) for reading in READINGS}) == 4
    assert len(files) == 1


def test_evolution_as_shares():
    found = evolution.evolution(results("socrates", beta=[0.1] * 3, val_accuracy=[0.2, 0.5, 0.9]))
    (ax,) = axes()
    handles = curves.draw_lines(ax, found)
    assert [line.get_label() for line in ax.get_lines()] == ["penalty β", "error"]
    assert handles == list(ax.get_lines())
    np.testing.assert_allclose(ax.get_lines()[1].get_ydata(), [0.8, 0.5, 0.1])
    assert ax.get_ylim() == (0, 1)


def test_evolution_grid_has_a_panel_for_each_pair():
    settings = [{"gamma": 1.0, "alpha": 0.9}, {"gamma": 2.0, "alpha": 0.9}, {"gamma": 1.0}]
    made = [results("socrates", beta=[0.1, 0.2, 0.3], **options) for options in settings]
    grid = evolution.evolution_grid([*made, made[0], results(beta=[0.1] * 3), results("socrates")])
    assert list(grid) == [(1, 0.9), (1, 0.99), (2, 0.9)]  # what is not told is at its default
    figure = compose(evolution.grid_drawing("a title", grid))
    assert figure.get_suptitle() == ""  # it is the caption
    titles = [ax.get_title("left") for ax in figure.axes]
    assert titles == [
        "(a) γ = 1, α = 0.9",
        "(b) γ = 1, α = 0.99",
        "(c) γ = 2, α = 0.9",
        "(d) γ = 2, α = 0.99: no runs",
    ]


def test_unknown_behaviour_in_three_panels(tmp_path):
    for seed in (1, 2):
        make_run(tmp_path, experiment("sat", seed))
    ((made,),) = read(tmp_path).values()
    panels = axes(3)
    for ax, lines in zip(panels, unknown.unknown_behaviour(made), strict=True):
        curves.draw_lines(ax, lines)
    assert [len(ax.get_lines()) for ax in panels] == [2, 6, 1]
    # belief in the unknown class
    np.testing.assert_allclose(panels[1].get_lines()[1].get_ydata(), 0.1)


def test_unknown_behaviour_needs_an_unknown_class_and_bears_missing_numbers():
    assert "unknown" not in drawn([results("sat", unknown_share=[0, 0, 0])])
    partly = results("sat", unknown=True, unknown_share=[0, 0, 0], confidence_true_right=[NAN] * 3)
    (figure,) = (drawing for name, drawing in drawn([partly]).items() if name == "unknown")
    assert len(compose(figure).axes) == 2  # a third one would be flat
    assert "never the answer" in figure.title
    answered = results("sat", unknown=True, unknown_share=[0, 0.1, 0.2])
    assert len(compose(drawn([answered])["unknown"]).axes) == 3
    assert "unknown" not in drawn([results("sat", unknown=True)])


def test_shares_of_unknown_answers_are_all_inside_the_frame_that_they_share():
    two = [
        results("sat", name, unknown=True, unknown_share=[top, 0, 0])
        for name, top in (("often", 0.5), ("no", 0))
    ]
    figure = compose(unknown.unknown_drawing("unknown", "", two))
    assert figure.axes[4].get_ylim()[1] > 0.5


def test_unknown_confidence_beside_ece():
    sat = results("sat", start_epoch=1, confidence_unknown=[0.1, 0.2, 0.3], val_ece=[0.3, 0.2, 0.1])
    left, right = compose(drawn([sat])["unknown-and-ece"]).axes
    np.testing.assert_allclose(left.get_lines()[0].get_ydata(), [0.1, 0.2, 0.3])
    np.testing.assert_allclose(right.get_lines()[0].get_ydata(), [0.3, 0.2, 0.1])
    assert [len(ax.patches) for ax in (left, right)] == [1, 1]  # where the loss changes
    assert unknown.belief_panels("", results("sat", val_ece=[0.3, 0.2, 0.1])) == []


def test_scaled_points_start_at_the_unscaled_model():
    pairs = ((0.9, 0.04), (0.7, 0.08))
    scaled = results(
        runs=2, numbers=[{"temperature": (a, e / 2), "none": (a, e)} for a, e in pairs]
    )
    (found,) = scaling.scaled_points([scaled, results(label="diverged"), results(numbers=[(1, 0)])])
    assert (found.label, found.steps) == ("CE", ["none", "temperature"])
    np.testing.assert_allclose([found.error, found.ece], [[20, 20], [6, 3]])
    assert scaling.scaled_points([scaled], scalers=["none", "matrix"]) == []
    (ax,) = axes()
    scaling.draw_scaled(ax, plane(found))
    assert [line.get_marker() for line in ax.get_lines()[:2]] == ["o", "^"]
    assert len(ax.texts) == 1  # the arrow


def make_settings(root):
    runs = [("ce", {}), ("focal", {"gamma": 2.0}), ("sat", {"start_epoch": 2})]
    runs += [("socrates", {"gamma": gamma, "alpha": 0.9}) for gamma in (1.0, 2.0)]
    for method, options in runs:
        for seed in (1, 2):
            make_run(root, experiment(method, seed, **options))
    make_run(
        root,
        experiment("gamblers"),
        collapsed="100 % of the answers are 'unknown'",
        test={"accuracy": 0.0},
    )
    return read(root)


@pytest.mark.slow
@pytest.mark.usefixtures("quick_figures")
def test_every_figure_that_has_data_is_written(tmp_path):
    written = write_figures(make_settings(tmp_path / "runs"), tmp_path / "figures", "laptop scale")
    names = {path.stem for path in written}
    over_epochs = {
        "losses",
        "accuracy",
        "ece",
        "ada-ece",
        "cw-ece",
        "nll",
        "weight-norm",
        "pareto-epochs",
    }
    at_the_end = {"pareto-test", "pareto-val", "scaling", "reliability"}
    inside = {"evolution", "evolution-grid", "unknown", "unknown-and-ece"}
    assert names == over_epochs | at_the_end | inside
    assert len(written) == 3 * len(names)


@pytest.mark.slow
def test_every_figure_is_small_and_its_words_can_be_found(tmp_path):
    written = write_figures(make_settings(tmp_path / "runs"), tmp_path / "figures", "laptop scale")
    assert all(path.stat().st_size < 600_000 for path in written)
    assert not any(b"/Type3" in path.read_bytes() for path in written if path.suffix == ".pdf")


def test_captions_name_the_failed_runs_that_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "socrates.report.figures.compose.write_drawing", lambda drawing, *_: [caption(drawing)]
    )
    for seed in (1, 2, 3):
        make_run(tmp_path, experiment("ce", seed))
    ((heading, (whole,)),) = read(tmp_path).items()
    assert not any("failed" in text for text in write_figures({heading: [whole]}, tmp_path))
    failure = Failure("CE", 4, 47, "73% training accuracy", 68.6)
    partial = replace(whole, failures=(failure,))
    captions = write_figures({heading: [partial]}, tmp_path)
    assert captions
    assert all("without the failed runs (CE seed 4)" in text for text in captions)


@pytest.mark.usefixtures("quick_figures")
def test_labelled_results_need_no_run_directory(tmp_path):
    """Tables, figures and page of predictions from elsewhere: a label, an evaluation, and the bins
    of confidences."""
    rng = np.random.default_rng(1)
    confidence = rng.uniform(0.5, 1, 400)
    probs = np.stack([confidence, 1 - confidence], axis=1)
    stats = binned(probs, (rng.random(400) > confidence).astype(int), 15)
    table = {"none": {"test": {"plain": {"accuracy": 0.75, "ece": stats.ece}}}}
    table["temperature"] = {"test": {"plain": {"accuracy": 0.75, "ece": 0.01}}}
    made = Results(
        "model.csv",
        Part("model.csv"),
        [Evaluation(0, 15, False, table)],
        bins=lambda split, reading: [stats],
    )
    assert isinstance(stats, BinStats)
    names = {path.name for path in write_figures({"audit": [made]}, tmp_path)}
    assert names == {
        f"{name}.{kind}"
        for name in ("pareto-test", "reliability", "scaling")
        for kind in ("pdf", "png", "txt")
    }
    (setting,) = page_data({"audit": [made]}, {"audit": answer([made])})["settings"]
    assert list(setting["charts"]) == ["final", "reliability-0", "scaling"]
    assert "75.00" in setting["tables"]["overview"]["answer"]


def test_equal_data_make_equal_files(tmp_path):
    sound = results(val_nll=[3, 2, 1])
    one, two = (
        write_figures({"digits": [sound]}, tmp_path / name, "a note") for name in ("one", "two")
    )
    assert [path.name for path in one] == ["nll.pdf", "nll.png", "nll.txt"]
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]


def test_the_note_is_at_the_foot_of_every_figure(tmp_path, monkeypatch):
    said = []

    def note(figure, *_, **__):
        said.append(
            (
                figure.get_supxlabel(),
                figure.get_suptitle(),
                len(figure.axes),
                figure.get_size_inches(),
            )
        )

    monkeypatch.setattr(Figure, "savefig", note)
    written = write_figures(make_settings(tmp_path), tmp_path, "laptop scale", width="text")
    assert len(said) == 2 * 16
    for foot, title, panels, (wide, high) in said:
        assert (foot, title) == ("laptop scale", "")
        assert panels
        assert wide == 5.5
        assert 1.5 < high < 9
    for path in written:
        if path.suffix == ".txt":
            assert "digits, mlp, 6 epochs" in path.read_text(encoding="utf-8")
            assert path.read_text(encoding="utf-8").endswith("laptop scale\n")


def test_collapsed_groups_are_named_in_legend_and_diagram(tmp_path):
    (members,) = make_settings(tmp_path).values()
    found = drawn(members)
    for name in ("pareto-epochs", "pareto-test", "reliability"):
        assert any("collapsed: 1 of 1 run" in text for text in texts(compose(found[name]))), name


def test_many_losses_have_two_panels_on_one_scale():
    many = [
        results("focal", f"Focal {k}", gamma=float(k), train_loss=[k, 2, 1], val_loss=[3, 2, k])
        for k in range(12)
    ]
    left, right = compose(drawn(many)["losses"]).axes
    assert len(left.get_lines()) == len(right.get_lines()) == 12
    assert {line.get_linestyle() for line in right.get_lines()} == {"--"}
    assert left.get_ylim() == right.get_ylim()


def test_results_that_recorded_nothing_have_no_figure(tmp_path):
    assert write_figures({"digits": [results()]}, tmp_path) == []
    assert write_figures({"digits": []}, tmp_path) == []
    assert write_figures({}, tmp_path) == []


def test_one_without_logits_keeps_its_panel_among_others(tmp_path):
    make_run(tmp_path, experiment("ce"))
    ((made,),) = read(tmp_path).values()
    assert "no logits to read" in texts(compose(drawn([made, results("focal")])["reliability"]))


@pytest.mark.usefixtures("quick_figures")
def test_settings_that_would_share_a_file_name_are_numbered(tmp_path):
    settings = {f"folder:{name}": [results(numbers=[(0.9, 0.1)])] for name in ("a/b", "a-b", "a b")}
    names = {path.name for path in write_figures(settings, tmp_path)}
    assert {name for name in names if "pareto-test.pdf" in name} == {
        "folder-a-b-pareto-test.pdf",
        "folder-a-b-v2-pareto-test.pdf",
        "folder-a-b-v3-pareto-test.pdf",
    }
    assert prefixes(["?", "!"]) == ["setting-", "setting-v2-"]


def test_panels_share_one_legend_and_keep_their_remarks():
    def draw(ax, data):
        (line,) = ax.plot([0, 1], data, label="a line")
        ax.set(xlabel="x", title="a remark")
        return [line]

    whole = Drawing(
        "x", "A title", [Panel(name, draw, [0, 1]) for name in "abc"], columns=2, shared=True
    )
    figure = compose(whole)
    shown = [ax for ax in figure.axes if ax.get_visible()]
    assert [ax.get_title("left") for ax in shown] == [
        "(a) a\na remark",
        "(b) b\na remark",
        "(c) c\na remark",
    ]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a line"]
    assert [ax.get_xlabel() for ax in shown] == ["", "x", "x"]
    assert caption(whole) == "A title. (a) a, (b) b, (c) c."


def test_a_drawing_is_two_pictures_without_dates_and_a_caption(tmp_path):
    one = results(val_nll=[3, 2, 1])
    (drawing,) = drawn([one]).values()
    assert [path.name for path in write_drawing(drawing, tmp_path / "new")] == [
        "nll.pdf",
        "nll.png",
        "nll.txt",
    ]
    assert b"CreationDate" not in (tmp_path / "new" / "nll.pdf").read_bytes()


@pytest.mark.parametrize("width", WIDTHS)
def test_figures_are_as_wide_as_they_are_printed_and_all_of_their_text_can_be_read(width):
    members = [
        results(name, runs=2, numbers=[(0.9, 0.1), (0.8, 0.2)], val_loss=LOSSES)
        for name in ("ce", "sat")
    ]
    members[0] = replace(members[0], label="a label that is rather long: γ = 1")
    for drawing in drawn(members).values():
        figure = compose(drawing, width)
        assert figure.get_size_inches()[0] == WIDTHS[width]
        sizes = {
            text.get_fontsize()
            for text in figure.findobj(Text)
            if text.get_text() and text.get_visible()
        }
        assert min(sizes) >= 7, drawing.name


def test_the_plane_is_logarithmic_and_zero_is_drawn_at_half_of_the_least():
    (ax,) = axes()
    pareto.draw_points(ax, plane(trail("CE", [5, 6], [2, 2]), trail("SAT", [6, 6], [0, 0])))
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert min(float(line.get_ydata()[0]) for line in ax.get_lines()) == 1
    assert ax.get_ylim()[0] < 1


def test_many_paths_have_their_names_beside_them_and_the_legend_says_which_epochs_are_marked():
    steps = [1, 25, 50]
    ends = [(10.0 + k, 8.0 - k / 2) for k in range(10)]
    trails = [
        Trail(f"v{k}", np.array([50, e, e]), np.array([30, c, c]), (e, c), steps, 1)
        for k, (e, c) in enumerate(ends)
    ]
    (ax,) = axes()
    handles = pareto.draw_paths(ax, plane(*trails))
    written = [text.get_text() for text in ax.texts]
    assert {f"v{k}" for k in range(10)} <= set(written)
    assert "25" in written
    assert [handle.get_label() for handle in handles[-2:]] == [
        "epochs 25 and 50",
        "every 25 epochs",
    ]


def charts_of(members):
    found = styles({one.label: one.method for one in members}, first_shown(members))
    return {
        made.name: made for figure in FIGURES.values() for made in figure.charts(members, found)
    }


def traces(made, role):
    return [trace for trace in made.figures["answer"]["data"] if trace.get("role") == role]


def test_every_chart_says_what_is_seen(tmp_path):
    (members,) = make_settings(tmp_path).values()
    found = charts_of(members)
    assert {"paths", "final", "scaling", "train_loss", "val_ece", "beta", "reliability-0"} <= set(
        found
    )
    for made in found.values():
        assert any(letter.isdigit() for letter in made.summary), made.name
        assert "nan" not in made.summary, made.name
        assert len(made.summary) < 900, made.name


def test_the_ends_have_a_cross_and_a_staircase_that_the_collapsed_do_not_stretch():
    pairs = [("ce", (0.95, 0.02)), ("focal", (0.94, 0.01)), ("sat", (0.93, 0.03))]
    members = [
        results(name, runs=2, numbers=[(a, e), (a - 0.01, e + 0.001)]) for name, (a, e) in pairs
    ]
    members.append(results("mc", numbers=[(0.1, 0.8)], collapses={1: "it did"}))
    final = charts_of(members)["final"]
    (stairs,) = traces(final, "front")
    assert (stairs["line"]["shape"], len(stairs["x"])) == ("hv", 2)
    ends = traces(final, "end")
    # t of one degree of freedom
    assert ends[0]["error_x"]["array"][0] == pytest.approx(12.7062 * 0.5, rel=1e-3)
    assert "error_x" not in ends[3]
    assert final.figures["answer"]["layout"]["xaxis"]["range"][1] < np.log10(20)
    assert "MC (collapsed: 1 of 1 run, error 90%, ECE 80%)" in final.captions["answer"]
    assert "2 of 4 methods are dominated" in final.summary


def test_paths_start_where_the_error_is_below_twice_the_last_and_number_their_epochs():
    one = results(val_accuracy=[0.2, 0.85, 0.9], val_ece=[0.3, 0.2, 0.1])
    made = charts_of([one])["paths"].figures["answer"]
    paths, (line,) = made["data"], made["layout"]["shapes"]
    assert (line["y0"], line["y1"]) == (10, 10)
    assert [row[0] for row in paths[0]["customdata"]] == [2, 3]
    assert paths[0]["text"][0] == "2"


def test_curves_are_pointed_at_together_best_first_with_their_deviation():
    two = results(
        runs=2, val_accuracy=[[0.1, 0.5, 0.8], [0.2, 0.5, 0.9]], val_ece=[[0.3, 0.2, 0.1]] * 2
    )
    found = charts_of([two])
    layout = found["val_accuracy"].figures["answer"]["layout"]
    assert (layout["hovermode"], layout["hoversort"]) == ("x unified", "value descending")
    assert found["val_ece"].figures["answer"]["layout"]["hoversort"] == "value ascending"
    assert found["val_accuracy"].title == "Validation accuracy, % ↑"
    *_, line = found["val_accuracy"].figures["answer"]["data"]
    assert "±" in line["hovertemplate"]
    assert line["customdata"][-1] == [85, pytest.approx(7.0711, rel=1e-3)]
    assert "CE with 85 ± 7.1" in found["val_accuracy"].summary


def test_an_unused_unknown_class_is_a_sentence_and_a_flat_share_no_panel():
    belief = {"confidence_unknown_right": [0.1, 0.001, 0.001]}
    idle = results(
        "sat",
        unknown=True,
        unknown_share=[0, 0, 0],
        confidence_unknown_wrong=[0.1, 0.004, 0.002],
        **belief,
    )
    (said,) = unknown.charts([idle], look(idle))
    assert said.figures == {}
    assert "at most 0.4% of belief (SAT)" in said.summary
    used = results(
        "sat",
        unknown=True,
        unknown_share=[0, 0, 0],
        confidence_unknown_wrong=[0.1, 0.2, 0.2],
        **belief,
    )
    names = [made.name for made in unknown.charts([used], look(used))]
    assert "confidence_unknown_wrong" in names
    assert "unknown_share" not in names
    assert unknown.charts([results("ce")], look(results("ce"))) == []


def test_reliability_marks_are_as_large_as_their_counts_and_hollow_if_few(tmp_path):
    make_run(tmp_path, experiment("ce"))
    ((made,),) = read(tmp_path).values()
    (card,) = diagrams.charts([made], look(made))
    *_, points, strip = card.figures["answer"]["data"]
    few = [row[5] < 10 for row in points["customdata"]]
    assert [symbol.endswith("-open") for symbol in points["marker"]["symbol"]] == few
    assert any(few)
    assert max(points["marker"]["size"]) == 17
    assert max(strip["y"]) == 1
    assert "confident by" in card.captions["answer"]


def test_rows_of_scalers_have_intervals_and_ticks_at_both_ends_when_many():
    scaled = {"none": (0.9, 0.04), "temperature": (0.9, 0.02), "matrix": (0.9, 0.02)}
    later = {name: (a, e + 0.01) for name, (a, e) in scaled.items()}
    many = [
        results("focal", f"F{k}", runs=2, gamma=float(k), numbers=[scaled, later])
        for k in range(10)
    ]
    first = styles({one.label: one.method for one in many}, {"F1", "F2"})
    (few,) = scaling.charts(many, first)
    assert len(few.figures["answer"]["layout"]["annotations"]) == 2
    assert "other 8 methods are in the table" in few.captions["answer"]
    (made,) = scaling.charts(many, look(*many))
    layout, (_, points, *_) = made.figures["answer"]["layout"], made.figures["answer"]["data"]
    assert layout["xaxis2"]["showticklabels"]
    assert points["error_x"]["array"][0] == pytest.approx(12.7062 * 0.5, rel=1e-3)
    assert len(set(points["y"])) == 3
    assert layout["annotations"][0]["y"] == 10
    assert "TS and MS coincide for F0, F1" in made.captions["answer"]
    (ax,) = axes()
    scaling.draw_scaled(ax, plane(*scaling.scaled_points(many[:1])))
    _, temperature, matrix = ax.get_lines()[:3]
    assert temperature.get_transform() != matrix.get_transform()
    assert "coincide" in ax.get_title()


@pytest.mark.parametrize("width", ["column", "full"])
def test_reliability_of_many_methods_fits_a_page(tmp_path, width):
    for number in range(8):
        make_run(tmp_path, experiment("focal", gamma=float(number)))
    (members,) = read(tmp_path).values()
    found = drawn(members)
    pages = [found[name] for name in ("reliability", "reliability-2")]
    assert [len(page.panels) for page in pages] == [6, 2]
    for page in pages:
        figure = compose(page, width)
        assert figure.get_size_inches()[1] < 9
        heads = [ax.get_title(loc="left") for ax in figure.axes if ax.get_visible()]
        assert all(head.count("\n") == 1 and "%" not in head for head in heads)


def test_the_foot_of_a_figure_is_one_line_of_the_note_and_the_caption_has_all_of_it(tmp_path):
    note = "Laptop scale: 300 images stand in. These numbers do not compare. Idle: CE: a part."
    drawing = drawn([results(val_ece=[0.3, 0.2, 0.1])])["ece"]
    foot = compose(drawing, note=note).get_supxlabel()
    assert foot == "Laptop scale: these numbers do not compare."
    assert caption(drawing, note).endswith(note)


def test_a_panel_names_the_alpha_that_was_trained_if_it_is_another():
    made = results("socrates", "γ = 2, α = 0.9", gamma=2.0, alpha=0.2679, beta=[0.3, 0.2, 0.1])
    assert "0.2679" in drawn([made])["evolution"].panels[0].title
    same = results("socrates", "γ = 2, α = 0.9", gamma=2.0, alpha=0.9, beta=[0.3, 0.2, 0.1])
    assert drawn([same])["evolution"].panels[0].title == same.label


def test_equal_means_are_drawn_aside_and_missing_crosses_are_told():
    numbers = [(0.95, 0.02), (0.94, 0.03)]
    many = [results(label=f"M{k}", numbers=numbers, runs=2) for k in range(2)]
    assert "M1 as M0" in words_of(drawn(many)["pareto-test"])
    more = [
        results(label=f"M{k}", numbers=[(0.9 - k / 50, 0.02), (0.91 - k / 50, 0.03)], runs=2)
        for k in range(9)
    ]
    assert "without 95% crosses" in words_of(drawn(more)["pareto-test"])
    assert "without 95% crosses" not in words_of(drawn(more[:3])["pareto-test"])


def test_answers_that_are_unknown_look_unlike_errors():
    made = results("sat", unknown=True, unknown_share=[0, 0.1, 0.2], val_accuracy=[0.5, 0.6, 0.7])
    lines = [line for panel in drawn([made])["unknown"].panels for line in panel.data.lines]
    looks = [(line.style.colour, line.style.dash) for line in lines]
    assert len({*looks}) == len(looks)


def test_no_caption_ranks_methods_by_overlap():
    assert not [words for words in TEACHING.values() if "overlap" in words]
