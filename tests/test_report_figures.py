"""Figures: their data in numbers worked out by hand, their ink by what is on the axes, and no crash on odd runs."""

from __future__ import annotations

import dataclasses
import inspect
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from report_runs import experiment, make_run

from socrates.experiment import Part
from socrates.methods import METHODS
from socrates.metrics import ece, predict, reliability
from socrates.records import Predictions
from socrates.report.aggregate import Group, RunData, find_runs, group_runs, labels, read_runs, setting_of
from socrates.report.figures import curves, evolution, pareto, scaling, unknown, write
from socrates.report.figures import reliability as diagrams
from socrates.report.figures.compose import slug
from socrates.report.figures.ink import RED, ceiling
from socrates.report.figures.write import figures_of, write_figure, write_figures
from socrates.report.style import Style, styles

STYLE = Style("#D55E00", "solid", "o")


class Stored(RunData):
    """A run whose logits are in memory."""

    def predictions(self, split="test"):
        if "logits" not in self.evaluation:
            raise FileNotFoundError("no logits")
        return self.evaluation["logits"]


def run(of, curves=None, accuracy=None, ece=None, collapsed=None, scaled=(), **evaluation):
    """A run with these curves over three epochs and these test metrics."""
    epochs = {"epoch": np.arange(1.0, 4.0)}
    values = {"accuracy": accuracy, "ece": ece}
    results = {"none": {"test": {"plain": values, "answer": values}}} if accuracy is not None else {}
    results |= {name: {"test": {"plain": {"accuracy": a, "ece": e}}} for name, a, e in scaled}
    whole = {"epoch": 3, "unknown_class": False, "results": results, **evaluation}
    arrays = {name: np.array(column, dtype=float) for name, column in (curves or {}).items()}
    return Stored(Path("nowhere"), of, epochs | arrays, whole, collapsed)


def group(*runs, label=None):
    first = runs[0].experiment
    return Group(setting_of(first), label or labels([first])[0], first, runs)


def two_runs(method="ce", key="val_loss", one=(1, 2, 3), other=(3, 2, None), **options):
    of = experiment(method, epochs=3, **options)
    values = [[np.nan if value is None else value for value in column] for column in (one, other)]
    return group(*(run(of, {key: column}) for column in values))


def axes(rows=1, columns=1):
    return Figure().subplots(rows, columns, squeeze=False).ravel()


def texts(figure):
    return [text.get_text() for text in figure.findobj(lambda artist: hasattr(artist, "get_text"))]


def test_band_is_mean_and_sample_deviation_of_the_runs_that_have_a_value():
    found = curves.band(two_runs(), "val_loss", factor=10)
    np.testing.assert_allclose(found.mean, [20, 20, 30])
    np.testing.assert_allclose(found.high - found.mean, [10 * np.sqrt(2), 0, 0])
    np.testing.assert_allclose(found.low, 2 * found.mean - found.high)
    assert found.label == "CE"


def test_band_of_one_seed_is_the_line_and_of_nothing_is_none():
    alone = group(run(experiment(), {"val_loss": [1, np.nan, 2]}))
    found = curves.band(alone, "val_loss")
    np.testing.assert_array_equal(found.low, found.high)
    np.testing.assert_array_equal(found.mean, [1, np.nan, 2])
    assert curves.band(alone, "beta") is None
    assert curves.bands([alone], "beta") == []
    assert curves.band(group(run(experiment(), {"beta": [np.nan] * 3})), "beta") is None


@pytest.mark.parametrize(
    ("method", "options", "epoch"),
    [("sat", {"start_epoch": 1}, 2), ("sat", {}, None), ("sat", {"start_epoch": 3}, None), ("ccl_sc", {}, 2)],
)
def test_switch_is_the_epoch_after_the_first_phase(method, options, epoch):
    assert curves.switch_epoch(two_runs(method, **options)) == epoch


def test_defaults_told_again_here_are_those_of_the_methods():
    starts = {name: inspect.signature(make).parameters.get("start_epoch") for name, make in METHODS.items()}
    assert tuple(name for name, p in starts.items() if p is not None and p.default != 0) == curves.HALFWAY
    parameters = inspect.signature(METHODS["socrates"]).parameters
    assert {name: parameters[name].default for name in ("gamma", "alpha")} == evolution.DEFAULTS


def test_losses_are_drawn_solid_and_dashed_with_a_box_at_the_switch():
    of = experiment("sat", epochs=3, start_epoch=1)
    sat = group(run(of, {"train_loss": [3, 2, 1], "val_loss": [3, 2, 2]}), run(of, {"train_loss": [3, 3, 1]}))
    bare = group(run(experiment("ce")))
    found = curves.loss_curves([sat, bare])
    assert found["CE"] == (None, None)
    (ax,) = axes()
    curves.draw_losses(ax, found, styles([sat, bare]), [curves.switch_epoch(sat)])
    train, val = ax.get_lines()
    assert train.get_linestyle() == "-"
    assert val.get_linestyle() == "--"
    assert len(ax.collections) == 1  # a shade for the two runs of one curve
    (box,) = ax.patches
    assert box.get_x() < 2 < box.get_x() + box.get_width()
    assert ax.get_xlim() == (1, 3)


def test_bands_are_drawn_in_the_style_of_their_group():
    (ax,) = axes()
    found = two_runs()
    curves.draw_bands(ax, curves.bands([found], "val_loss"), styles([found]), "loss")
    assert [line.get_color() for line in ax.get_lines()] == ["#0072B2"]
    assert ax.get_ylabel() == "loss"


def test_a_diverging_curve_does_not_push_the_limit_away():
    steps = np.arange(4)
    bands = [curves.Band(str(k), steps, level * np.ones(4), steps, steps) for k, level in enumerate([1, 1, 1, 1, 1e6])]
    assert ceiling(bands) == pytest.approx(4.2)
    assert ceiling(bands[:4]) == pytest.approx(1.05)
    assert ceiling([]) is None
    assert ceiling([curves.Band("nan", steps, np.full(4, np.nan), steps, steps)]) is None


def test_epoch_paths_hold_the_first_the_last_and_every_nth_epoch():
    of = experiment(epochs=3)
    one = {"val_accuracy": [0.5, 0.8, 0.9], "val_ece": [0.3, 0.2, 0.1]}
    other = {"val_accuracy": [0.5, 0.6, np.nan], "val_ece": [0.1, 0.2, np.nan]}
    (path,) = pareto.epoch_paths([group(run(of, one), run(of, other)), group(run(of))], every=2)
    np.testing.assert_array_equal(path.epochs, [1, 2, 3])
    np.testing.assert_allclose(path.error, [50, 30, 10])
    np.testing.assert_allclose(path.ece, [20, 20, 10])
    assert pareto.epoch_paths([group(run(of, one))], every=25)[0].epochs.tolist() == [1, 3]


def test_final_points_leave_out_runs_and_groups_without_numbers():
    of = experiment()
    whole = group(run(of, accuracy=0.9, ece=0.02), run(of), run(of, accuracy=0.8, ece=0.04))
    (point,) = pareto.final_points([whole, group(run(of), label="diverged")])
    np.testing.assert_allclose(point.error, [10, 20])
    np.testing.assert_allclose(point.ece, [2, 4])
    assert pareto.final_points([whole], scaler="temperature") == []


def test_the_front_is_that_of_the_means():
    def point(label, error, ece):
        return pareto.FinalPoint(label, np.array(error), np.array(ece))

    points = [point("a", [4, 6], [3, 3]), point("b", [6, 6], [3, 3]), point("c", [9, 9], [0, 2])]
    assert pareto.front_labels(points) == ["a", "c"]
    assert pareto.front_labels([]) == []


def test_collapsed_runs_are_counted():
    of = experiment()
    bad = group(run(of, collapsed="every answer is class 1"), run(of), label="bad")
    assert pareto.collapsed_labels([bad, group(run(of))]) == {"bad": "1 of 2 runs"}


def points_of_three():
    sound = [("CE", 5, 2), ("SAT", 6, 1), ("MC", 90, 80)]
    return [pareto.FinalPoint(label, np.array([e, e + 1.0]), np.array([c, c + 0.5])) for label, e, c in sound]


def look(*names):
    return dict.fromkeys(names, STYLE)


def test_final_points_are_drawn_with_front_and_threshold_and_the_collapsed_hollow():
    (ax,) = axes()
    pareto.draw_points(ax, points_of_three(), look("CE", "SAT", "MC"), collapsed=["MC"])
    assert len(ax.get_lines()) == 1 + 3 * 2 + 1  # front, runs and mean of each, threshold
    assert list(ax.get_lines()[-1].get_ydata()) == [10, 10]
    hollow = [line for line in ax.get_lines() if line.get_markeredgecolor() == RED]
    assert [line.get_markerfacecolor() for line in hollow] == ["white"]
    assert ax.get_xlim()[1] < 20
    assert "MC (error 91 %, ECE 80 %)" in ax.get_title().replace("\n", " ")


def test_with_collapsed_groups_alone_the_frame_holds_them():
    (ax,) = axes()
    pareto.draw_points(ax, points_of_three()[2:], look("MC"), collapsed=["MC"])
    assert ax.get_xlim()[1] > 90
    assert "outside" not in ax.get_title()


def test_paths_are_drawn_with_numbers_at_the_middle_and_at_the_end():
    path = pareto.EpochPath("CE", np.array([1, 25, 50]), np.array([90.0, 20.0, 10.0]), np.array([30.0, 4.0, 8.0]))
    (ax,) = axes()
    pareto.draw_paths(ax, [path], look("CE"))
    assert [text.get_text() for text in ax.texts] == ["50", "25"]
    assert 10 < ax.get_ylim()[1] < 30  # the first epoch lies outside
    assert 20 < ax.get_xlim()[1] < 90


def test_planes_without_points_are_empty_and_do_not_crash():
    (ax,) = axes()
    pareto.draw_points(ax, [], {})
    pareto.draw_paths(ax, [], {})
    scaling.draw_scaled(ax, [], {})


def logits_of(probs):
    return np.log(np.array(probs, dtype=np.float64)).astype(np.float32)


def test_reliability_of_two_runs_by_hand():
    of = experiment()
    one = Predictions(logits_of([[0.9, 0.1], [0.6, 0.4]]), np.array([0, 1]), 2)
    other = Predictions(logits_of([[0.8, 0.2], [0.3, 0.7]]), np.array([0, 1]), 2)
    found = diagrams.reliability_data(group(run(of, logits=one, num_bins=2), run(of, logits=other, num_bins=2)))
    np.testing.assert_array_equal(found.count, [0, 4])
    np.testing.assert_array_equal(found.upper, [0.5, 1])
    assert found.confidence[1] == pytest.approx(0.75)
    assert found.accuracy[1] == pytest.approx(0.75)
    assert found.share[1] == 1
    assert found.ece == pytest.approx((0.25 + 0.25) / 2)
    reach = 1.96 * np.sqrt(0.75 * 0.25 / 2)  # the two samples of one run
    assert found.low[1] == pytest.approx(0.75 - reach, abs=1e-4)
    assert found.high[1] == 1
    assert np.isnan([found.confidence[0], found.accuracy[0], found.low[0], found.high[0], found.floor]).all()


def test_chance_band_holds_calibrated_bins_and_not_others():
    random = np.random.default_rng(0)
    accuracy = random.binomial(200, 0.7, size=4000) / 200
    low, high = diagrams.chance_band(np.array([0.7]), np.array([200.0]))
    assert 0.93 < np.mean((accuracy >= low) & (accuracy <= high)) < 0.97


@pytest.mark.parametrize("reading", ["answer", "abstain", "renormalize", "spread"])
def test_readings_agree_with_the_metrics(tmp_path, reading):
    paths = [make_run(tmp_path, experiment("socrates", seed)) for seed in (1, 2)]
    ((made,),) = group_runs(read_runs(paths)[0]).values()
    found = diagrams.reliability_readings(made)[reading]
    stored = [one.predictions() for one in made.runs]
    logits, truth = np.concatenate([s.logits for s in stored]), np.concatenate([s.labels for s in stored])
    expected = reliability(predict(logits, unknown=reading), truth)
    np.testing.assert_array_equal(found.count, expected.count)
    np.testing.assert_allclose(found.accuracy, expected.accuracy)
    np.testing.assert_allclose(found.confidence, expected.confidence)
    own = [ece(predict(s.logits, unknown=reading), s.labels) for s in stored]
    assert found.ece == pytest.approx(np.mean(own))
    assert found.floor == pytest.approx(0.02)
    assert found.runs == 2
    np.testing.assert_array_equal(found.count, diagrams.reliability_data(made, reading=reading).count)


def test_without_an_unknown_class_all_readings_are_the_same(tmp_path):
    ((made,),) = group_runs(read_runs([make_run(tmp_path, experiment("ce"))])[0]).values()
    found = diagrams.reliability_readings(made)
    assert list(found) == ["answer", "abstain", "renormalize", "spread"]
    assert len({one.ece for one in found.values()}) == 1


def test_runs_without_readable_logits_are_left_out_of_the_diagram():
    of = experiment()
    good = Predictions(logits_of([[0.9, 0.1]]), np.array([0]), 2)
    infinite = Predictions(np.full((1, 2), np.nan, np.float32), np.array([0]), 2)
    missing = RunData(Path("nowhere"), of, {"epoch": np.arange(3)}, run(of).evaluation, None)
    found = diagrams.reliability_data(group(run(of, logits=infinite), missing, run(of, logits=good)))
    assert (found.runs, found.count.sum()) == (1, 1)
    empty = diagrams.reliability_data(group(missing, run(of, logits=infinite)))
    assert (empty.runs, empty.count.sum()) == (0, 0)
    assert np.isnan(empty.ece)
    (ax,) = axes()
    diagrams.draw_reliability(ax, empty, STYLE)
    assert [text.get_text() for text in ax.texts] == ["no logits to read"]


def test_reliability_is_drawn_with_dots_band_and_histogram(tmp_path):
    ((made,),) = group_runs(read_runs([make_run(tmp_path, experiment("ce"))])[0]).values()
    found = diagrams.reliability_data(made)
    (ax,) = axes()
    diagrams.draw_reliability(ax, found, STYLE)
    assert len(ax.patches) == 2  # accuracy, histogram
    assert len(ax.get_lines()[1].get_xdata()) == (found.count > 0).sum()
    assert len(ax.containers) == 1
    assert ax.get_xlim() == (0, 1)
    assert ax.get_title().startswith(f"CE\nECE {100 * found.ece:.2f} %")


def test_the_readings_of_a_diagram_share_one_look_at_the_logits(tmp_path, monkeypatch):
    path = make_run(tmp_path, experiment("socrates"))
    ((made,),) = group_runs(read_runs([path])[0]).values()
    load, read = np.load, []
    monkeypatch.setattr(np, "load", lambda file, *given, **named: (read.append(file), load(file, *given, **named))[1])
    assert len(diagrams.reliability_readings(made)) == 4
    assert len(read) == 1


def test_evolution_as_shares():
    of = experiment("socrates", epochs=3)
    found = evolution.evolution(group(run(of, {"beta": [0.1] * 3, "val_accuracy": [0.2, 0.5, 0.9]})))
    assert list(found) == ["beta", "error"]
    np.testing.assert_allclose(found["error"].mean, [0.8, 0.5, 0.1])
    (ax,) = axes()
    evolution.draw_evolution(ax, found)
    assert [line.get_label() for line in ax.get_lines()] == ["penalty β", "error"]
    assert ax.get_ylim() == (0, 1)


def test_the_band_of_the_error_is_the_right_way_up():
    of = experiment(epochs=3)
    found = evolution.error_band(group(*(run(of, {"val_accuracy": [level] * 3}) for level in (0.8, 0.9))))
    assert (found.low < found.mean).all()
    assert (found.mean < found.high).all()


def test_evolution_grid_has_a_panel_for_each_pair():
    settings = [{"gamma": 1.0, "alpha": 0.9}, {"alpha": 0.9}, {"gamma": 1.0}]
    made = [two_runs("socrates", "beta", **options) for options in settings]
    grid = evolution.evolution_grid([*made, made[0], two_runs("ce", "beta"), two_runs("socrates")])
    assert list(grid) == [(1, 0.9), (1, 0.99), (2, 0.9)]
    figure = Figure()
    evolution.draw_evolution_grid(figure, grid)
    titles = [ax.get_title() for ax in figure.axes]
    assert titles == ["γ = 1, α = 0.9", "γ = 1, α = 0.99", "γ = 2, α = 0.9", "γ = 2, α = 0.99: no runs"]


def test_unknown_behaviour_in_three_panels(tmp_path):
    ((made,),) = group_runs(read_runs([make_run(tmp_path, experiment("sat", seed)) for seed in (1, 2)])[0]).values()
    found = unknown.unknown_behaviour(made)
    assert list(found) == ["ece", "error", *unknown.CONFIDENCES, "unknown_share"]
    np.testing.assert_allclose(found["confidence_unknown"].mean, 0.1)
    panels = axes(3)
    unknown.draw_unknown(panels, found)
    assert [len(ax.get_lines()) for ax in panels] == [2, 6, 1]


def test_unknown_behaviour_needs_an_unknown_class_and_bears_missing_numbers():
    of = experiment("sat", epochs=3)
    assert unknown.unknown_behaviour(two_runs("ce", "unknown_share")) == {}
    partly = group(run(of, {"unknown_share": [0, 0, 0], "confidence_true_right": [np.nan] * 3}, unknown_class=True))
    found = unknown.unknown_behaviour(partly)
    assert list(found) == ["unknown_share"]
    unknown.draw_unknown(axes(3), found)
    unknown.draw_unknown(axes(3), {})


def test_unknown_confidence_beside_ece():
    of = experiment("sat", epochs=3, start_epoch=1)
    made = group(run(of, {"confidence_unknown": [0.1, 0.2, 0.3], "val_ece": [0.3, 0.2, 0.1]}))
    pair = unknown.unknown_confidence_and_ece(made)
    np.testing.assert_allclose([curve.mean for curve in pair], [[0.1, 0.2, 0.3], [0.3, 0.2, 0.1]])
    panels = axes(1, 2)
    unknown.draw_unknown_and_ece(panels, pair, curves.switch_epoch(made))
    assert [len(ax.patches) for ax in panels] == [1, 1]
    assert unknown.unknown_confidence_and_ece(two_runs("sat", "val_ece")) is None


def test_scaled_points_start_at_the_unscaled_model():
    of = experiment()
    runs = [run(of, accuracy=a, ece=e, scaled=[("temperature", a, e / 2)]) for a, e in ((0.9, 0.04), (0.7, 0.08))]
    found = scaling.scaled_points([group(*runs), group(run(of), label="diverged"), group(run(of, accuracy=1, ece=0))])
    assert [(point.label, point.scaler) for point in found] == [("CE", "none"), ("CE", "temperature")]
    np.testing.assert_allclose([(p.error, p.ece) for p in found], [(20, 6), (20, 3)])
    (ax,) = axes()
    scaling.draw_scaled(ax, found, look("CE"))
    assert [line.get_marker() for line in ax.get_lines()[:2]] == ["o", "^"]
    assert len(ax.texts) == 1  # the arrow


def make_settings(root):
    runs = [("ce", {}), ("focal", {"gamma": 2.0}), ("sat", {"start_epoch": 2})]
    runs += [("socrates", {"gamma": gamma, "alpha": 0.9}) for gamma in (1.0, 2.0)]
    for method, options in runs:
        for seed in (1, 2):
            make_run(root, experiment(method, seed, **options))
    make_run(root, experiment("gamblers"), collapsed="100 % of the answers are 'unknown'", test={"accuracy": 0.0})
    return group_runs(read_runs(find_runs(root))[0])


def test_every_figure_that_has_data_is_written(tmp_path):
    written = write_figures(make_settings(tmp_path / "runs"), tmp_path / "figures", "laptop scale")
    names = {path.stem.removeprefix("digits-mlp-6-epochs-") for path in written}
    over_epochs = {"losses", "accuracy", "ece", "ada-ece", "cw-ece", "nll", "weight-norm", "pareto-epochs"}
    at_the_end = {"pareto-test", "pareto-val", "scaling", "reliability"}
    inside = {"evolution", "evolution-grid", "unknown", "unknown-and-ece"}
    assert names == over_epochs | at_the_end | inside
    assert len(written) == 2 * len(names)
    assert all(path.stat().st_size < 400_000 for path in written)


def test_equal_data_make_equal_files(tmp_path):
    sound = group(run(experiment(epochs=3), {"val_nll": [3, 2, 1]}))
    one, two = (write_figures({sound.setting: [sound]}, tmp_path / name, "a note") for name in ("one", "two"))
    assert [path.name for path in one] == ["digits-mlp-3-epochs-nll.pdf", "digits-mlp-3-epochs-nll.png"]
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]


def test_the_note_is_at_the_foot_of_every_figure(tmp_path, monkeypatch):
    feet = []
    monkeypatch.setattr(write, "write_figure", lambda figure, *_: feet.append(figure.get_supxlabel()) or [])
    write_figures(make_settings(tmp_path), tmp_path, "laptop scale")
    assert set(feet) == {"laptop scale"}
    assert len(feet) == 16


def test_each_figure_says_what_and_where(tmp_path):
    ((setting, groups),) = make_settings(tmp_path).items()
    for name, make in figures_of(setting, groups):
        figure = make()
        assert "digits, mlp, 6 epochs" in figure.get_suptitle().replace("\n", " "), name
        assert figure.axes, name


def test_collapsed_groups_are_named_in_legend_and_diagram(tmp_path):
    ((setting, groups),) = make_settings(tmp_path).items()
    makers = dict(figures_of(setting, groups))
    for name in ("pareto-epochs", "pareto-test", "reliability"):
        assert any("collapsed: 1 of 1 run" in text for text in texts(makers[name]())), name


def test_many_losses_have_two_panels_on_one_scale(tmp_path):
    paths = [make_run(tmp_path, experiment("focal", gamma=float(gamma))) for gamma in range(12)]
    ((setting, groups),) = group_runs(read_runs(paths)[0]).items()
    left, right = dict(figures_of(setting, groups))["losses"]().axes
    assert len(left.get_lines()) == len(right.get_lines()) == 12
    assert left.get_ylim() == right.get_ylim()


def test_runs_that_recorded_nothing_have_no_figure(tmp_path):
    diverged = group(run(experiment(epochs=3), logits=Predictions(np.full((2, 3), np.nan), np.zeros(2, int), 3)))
    assert write_figures({diverged.setting: [diverged]}, tmp_path) == []
    assert write_figures({diverged.setting: []}, tmp_path) == []
    assert write_figures({}, tmp_path) == []


def test_a_group_without_logits_keeps_its_panel_among_others(tmp_path):
    make_run(tmp_path, experiment("ce"))
    focal = make_run(tmp_path, experiment("focal"))
    ((setting, groups),) = group_runs(read_runs(find_runs(tmp_path))[0]).items()
    for path in (focal / "predictions").iterdir():
        path.write_bytes(b"damaged")  # after the runs were read
    assert "no logits to read" in texts(dict(figures_of(setting, groups))["reliability"]())


def test_settings_that_would_share_a_file_name_are_numbered(tmp_path):
    one = experiment(epochs=3)
    alike = [dataclasses.replace(one, dataset=Part(name)) for name in ("folder:a/b", "folder:a-b", "folder:a b")]
    settings = {setting_of(of): [group(run(of, accuracy=0.9, ece=0.1))] for of in alike}
    names = {path.name for path in write_figures(settings, tmp_path)}
    assert {name for name in names if "pareto-test.pdf" in name} == {
        "folder-a-b-mlp-3-epochs-pareto-test.pdf",
        "folder-a-b-mlp-3-epochs-v2-pareto-test.pdf",
        "folder-a-b-mlp-3-epochs-v3-pareto-test.pdf",
    }
    assert slug("?") == "setting"


def test_a_figure_can_be_written_by_itself(tmp_path):
    figure = Figure()
    figure.subplots().plot([1, 2])
    assert [path.name for path in write_figure(figure, tmp_path / "new", "x")] == ["x.pdf", "x.png"]
    assert b"CreationDate" not in (tmp_path / "new" / "x.pdf").read_bytes()
