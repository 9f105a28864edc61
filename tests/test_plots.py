"""Plots: what is drawn is what the metrics measure, on any axes, for few samples and many, and bad
input is refused."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from matplotlib import pyplot
from matplotlib.figure import Figure

from socrates import metrics, plots
from socrates.metrics import Interval, Top
from socrates.plots import ink
from socrates.plots.diagram import diagram_of, gap_in_words, reliability_data, smoothed

OF_SAMPLES = (plots.reliability, plots.confidence_histogram, plots.risk_coverage, plots.corp)


@pytest.fixture(autouse=True)
def nothing_stays_open():
    yield
    pyplot.close("all")


@pytest.fixture
def axes():
    return Figure(layout="constrained").subplots()


def sure_answers(number=2000, sharpness=1.0, seed=0):
    """Confidences, and answers that are right as often as they say to the power of `sharpness`."""
    rng = np.random.default_rng(seed)
    confidence = rng.beta(4, 1, number)
    return Top.of(confidence, rng.random(number) < confidence**sharpness)


def steps(axes, label):
    """Values, edges and baseline of the steps of a label."""
    return next(patch for patch in axes.patches if patch.get_label() == label).get_data()


def line(axes, label):
    return next(line for line in axes.get_lines() if line.get_label() == label)


def drawn(axes):
    """The axes can be drawn, and no text leaves the figure or lies on another one."""
    figure = axes.figure
    figure.draw_without_rendering()
    texts = [
        text
        for text in (axes.title, axes.xaxis.label, axes.yaxis.label, *axes.texts)
        if text.get_text()
    ]
    for axis in (axes.xaxis, axes.yaxis):
        low, high = sorted(axis.get_view_interval())
        seen = [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
        texts += [label for label in seen if label.get_text()]
    boxes = [text.get_window_extent() for text in texts]
    for place, box in enumerate(boxes):
        assert box.x0 >= -1, texts[place]
        assert box.y1 <= figure.bbox.y1 + 1, texts[place]
        others = [k for k in range(place) if box.overlaps(boxes[k])]
        assert not others, (texts[place].get_text(), texts[others[0]].get_text())
    return axes


def test_reliability_shows_the_bins_their_chance_and_their_counts(axes):
    top = sure_answers(sharpness=2)
    assert plots.reliability(top, num_bins=10, ax=axes) is axes
    bins = metrics.reliability(top, num_bins=10)
    filled = bins.count > 0
    x, y = line(axes, ink.SMOOTH_LABEL).get_data()  # as on the page of a report
    smooth = smoothed(diagram_of(top, 10))
    np.testing.assert_array_equal(x, smooth[0])
    np.testing.assert_array_equal(y, smooth[1])
    dots = axes.collections[1]  # after the band of the line
    np.testing.assert_allclose(
        dots.get_offsets(), np.stack([bins.confidence, bins.accuracy], 1)[filled]
    )
    share = bins.count[filled] / bins.count.max()
    np.testing.assert_allclose(dots.get_sizes(), np.maximum(70 * share, 14))
    bars = axes.containers[0].patches
    reach = 1.96 * np.sqrt(bins.confidence * (1 - bins.confidence) / bins.count)
    np.testing.assert_allclose(
        [bar.get_y() for bar in bars], (bins.confidence - reach)[filled].clip(0), atol=1e-4
    )
    tops = [bar.get_y() + bar.get_height() for bar in bars]
    np.testing.assert_allclose(tops, (bins.confidence + reach)[filled].clip(None, 1), atol=1e-4)


def test_the_strip_below_a_reliability_diagram_shows_square_roots(axes):
    confidence = np.repeat([0.1, 0.5, 0.9], [1, 4, 100])
    plots.reliability(confidence=confidence, correct=np.ones(105), num_bins=3, ax=axes)
    height, _, base = steps(axes, "confidences (square root)")
    np.testing.assert_allclose((height - base) / (height - base)[2], [0.1, 0.2, 1.0])
    assert height[2] < 0


def test_words_say_the_direction_its_size_and_what_is_chance(axes):
    top = sure_answers(sharpness=2)
    gap = float(top.confidence.mean() - top.correct.mean())
    error, chance = 100 * metrics.ece(top), 100 * metrics.floor(metrics.ece, top)
    expected = (
        f"mine\nECE {error:.2f}%, floor {chance:.2f}%\noverconfident by {100 * gap:.1f} points"
    )
    assert plots.reliability(top, title="mine", ax=axes).get_title() == expected
    assert plots.reliability(sure_answers(sharpness=0.5), ax=axes).get_title().endswith(" points")
    assert "underconfident by" in axes.get_title()


@pytest.mark.parametrize("draw", OF_SAMPLES)
def test_no_gap_points_nowhere(draw, axes):
    assert (
        draw(confidence=[1.0] * 5, correct=[1] * 5, ax=axes)
        .get_title()
        .endswith("\nno gap overall")
    )


@pytest.mark.parametrize("draw", OF_SAMPLES)
def test_a_calibrated_model_is_said_to_be_within_chance_19_times_of_20(draw, axes):
    said = 0
    for seed in range(40):
        axes.clear()
        said += ", within chance" in draw(sure_answers(300, seed=seed), ax=axes).get_title()
    assert 34 <= said <= 40


def test_a_tiny_gap_has_no_digits_but_its_direction():
    bins = metrics.BinStats(np.array([1e6]), np.array([0.9002e6]), np.array([0.9e6]))
    assert gap_in_words(reliability_data("", [bins])) == (
        "overconfident by less than 0.1 points, within chance"
    )


def test_the_histogram_shows_shares_of_all_and_of_wrong_answers(axes):
    top = sure_answers()
    assert plots.confidence_histogram(top, num_bins=5, ax=axes) is axes
    bins = metrics.reliability(top, num_bins=5)
    share, wrong = steps(axes, "all answers")[0], steps(axes, "wrong answers")[0]
    np.testing.assert_allclose(share, bins.count / 2000)
    np.testing.assert_allclose(wrong, share * (1 - np.nan_to_num(bins.accuracy)))
    assert list(line(axes, "accuracy").get_xdata()) == pytest.approx([top.correct.mean()] * 2)
    assert list(line(axes, "mean confidence").get_xdata()) == pytest.approx(
        [top.confidence.mean()] * 2
    )
    assert axes.get_title().startswith(f"accuracy {100 * top.correct.mean():.1f}%")
    quarter, whole = (axes.transData.transform((0, y))[1] - axes.bbox.y0 for y in (0.1, 0.4))
    assert whole == pytest.approx(2 * quarter)


def test_risk_coverage_is_the_metric_and_what_confidences_promise(axes):
    top = Top.of([0.9, 0.8, 0.8, 0.5], [1, 1, 0, 0])
    assert plots.risk_coverage(top, ax=axes) is axes
    curve = metrics.risk_coverage(top)
    measured, claimed = line(axes, "measured"), line(axes, "as claimed")
    np.testing.assert_allclose(measured.get_xdata(), curve.coverage)
    np.testing.assert_allclose(measured.get_ydata(), curve.risk)
    np.testing.assert_allclose(claimed.get_ydata(), [0.1, 0.5 / 3, 0.25])
    assert axes.get_title().startswith(
        f"AURC {100 * metrics.aurc(top):.2f}%, error 50.0% if all are answered"
    )
    highest = axes.collections[0].get_datalim(axes.transData).y1
    # of the first answer alone
    assert highest == pytest.approx(0.1 + 1.96 * np.sqrt(0.9 * 0.1), abs=1e-4)
    assert axes.collections[0].get_paths()[0].vertices[:, 0].max() == 1


def test_a_risk_coverage_curve_of_a_calibrated_model_stays_in_the_band(axes):
    plots.risk_coverage(sure_answers(20_000), ax=axes)
    risk, claimed = (line(axes, label).get_ydata() for label in ("measured", "as claimed"))
    assert len(risk) <= 2000
    assert np.abs(risk - claimed).max() < 0.05
    assert line(axes, "measured").get_xdata()[-1] == 1


def test_the_corp_curve_is_the_metric_with_dots_of_its_pools(axes):
    forecast, event = [0.4, 0.3, 0.2, 0.1, 0.5, 0.9], [0, 0, 0, 1, 1, 1]
    assert plots.corp(forecast, event, ax=axes) is axes
    curve = metrics.corp(forecast, event)
    np.testing.assert_allclose(
        line(axes, "measured").get_xydata(), np.stack([curve.forecast, curve.frequency], 1)
    )
    dots = axes.collections[1]
    np.testing.assert_allclose(dots.get_offsets(), np.stack([curve.forecast, curve.frequency], 1))
    np.testing.assert_allclose(dots.get_sizes(), [70, 35])
    assert axes.get_title().startswith(
        "MCB 0.102, DSC 0.125, UNC 0.250\nforecasts too low by 10.0 points"
    )


def between(axes, x):
    """Lower and upper end of the band of chance at x."""
    place, height = axes.collections[0].get_paths()[0].vertices[1:-1].T
    half = len(place) // 2
    low, high = (place[:half], height[:half]), (place[half:][::-1], height[half:][::-1])
    return [np.interp(x, *side) for side in (low, high)]


def test_the_corp_curve_of_a_calibrated_model_is_mostly_in_the_band_and_that_of_another_is_not():
    where = np.linspace(0.4, 0.99, 60)
    inside: dict[float, list[float]] = {1.0: [], 2.0: []}
    for sharpness, shares in inside.items():
        for seed in range(10):
            axes = plots.corp(sure_answers(sharpness=sharpness, seed=seed), ax=Figure().subplots())
            low, high = between(axes, where)
            curve = np.interp(where, *line(axes, "measured").get_data())
            shares.append(float(np.mean((curve >= low) & (curve <= high))))
    assert 0.85 < np.mean(inside[1.0]) <= 1
    assert np.mean(inside[2.0]) < 0.3


def test_the_forest_has_a_row_for_each_interval_and_marks_chance(axes):
    intervals = {"CE": Interval(0.05, 0.04, 0.07), "focal": (0.02, 0.01, 0.03)}
    assert plots.forest(intervals, {"CE": 0.01}, ax=axes) is axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["CE", "focal"]
    np.testing.assert_allclose(line(axes, "measured").get_xydata(), [[5, 0], [2, 1]])
    spans, chance = axes.collections
    np.testing.assert_allclose(spans.get_segments(), [[[4, 0], [7, 0]], [[1, 1], [3, 1]]])
    np.testing.assert_allclose(chance.get_segments(), [[[1, -0.38], [1, 0.38]]])
    assert axes.get_xlabel() == "ECE, %"
    low, high = axes.get_ylim()
    assert low > high  # the first row is on top


def test_a_forest_of_scores_is_not_in_percent(axes):
    plots.forest({"CE": (0.5, 0.4, 0.6)}, metric="NLL", percent=False, title="mine", ax=axes)
    assert axes.get_xlabel() == "NLL"
    assert axes.get_title() == "mine"
    assert [text.get_text() for text in axes.texts] == ["0.50 [0.40, 0.60]"]


def test_pareto_marks_every_point_and_joins_those_that_no_other_dominates(axes):
    points = {"CE": (0.05, 0.03), "focal": (0.06, 0.01), "MC": (0.07, 0.04)}
    given = {**points, "focal": {"error": 0.06, "ece": 0.01}}
    assert plots.pareto(given, ax=axes) is axes
    np.testing.assert_allclose(line(axes, "not dominated").get_xydata(), [[5, 3], [6, 1]])
    for label, place in points.items():
        np.testing.assert_allclose(line(axes, label).get_xydata(), [100 * np.array(place)])
    assert len({line(axes, label).get_color() for label in points}) == 3
    assert len({line(axes, label).get_marker() for label in points}) == 3
    assert sorted(text.get_text() for text in axes.texts) == sorted(points)
    assert axes.get_title() == "lower left is better, staircase: not dominated"


def test_a_single_best_point_has_no_line(axes):
    plots.pareto({"CE": (0.05, 0.03), "MC": (0.07, 0.04)}, title="mine", ax=axes)
    assert axes.get_title() == "mine\nlower left is better"
    assert "not dominated" not in axes.get_legend_handles_labels()[1]


def test_a_point_of_the_plane_without_room_for_its_name_is_in_the_legend(axes):
    points = {f"method number {k}": (0.05, 0.03) for k in range(6)}
    plots.pareto(points, ax=axes)
    beside = {text.get_text() for text in axes.texts}
    below = {text.get_text() for text in axes.get_legend().get_texts()}
    assert beside | below == set(points)
    assert not beside & below


@pytest.mark.parametrize("draw", OF_SAMPLES)
def test_all_that_metrics_take_is_the_same_picture(draw):
    logits = torch.randn(200, 3, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(200) % 3
    prediction = metrics.predict(logits)
    top = Top.of(prediction.confidence, prediction.predicted == labels)
    given = [(prediction, labels), (prediction.probs.numpy(), labels.numpy()), (top,)]
    titles = {draw(*one).get_title() for one in given}
    titles.add(draw(confidence=top.confidence, correct=top.correct).get_title())
    names = np.array(["ant", "bee", "cow"])
    titles.add(draw(prediction.probs, names[labels.numpy()], classes=names).get_title())
    assert len(titles) == 1


@pytest.mark.parametrize("draw", OF_SAMPLES)
def test_a_weight_of_two_is_drawn_as_the_sample_twice(draw):
    top = sure_answers(300, sharpness=2)
    weight = np.arange(300) % 3  # some are left out
    weighted = draw(top, sample_weight=weight)
    twice = draw(top.take(np.repeat(np.arange(300), weight)))
    first, second = (
        axes.get_title().replace(", within chance", "").split("\n")[-1]
        for axes in (weighted, twice)
    )
    assert first == second
    for one, two in zip(weighted.get_lines(), twice.get_lines(), strict=True):
        np.testing.assert_allclose(one.get_xydata(), two.get_xydata(), atol=1e-12)
    for one, two in zip(weighted.patches, twice.patches, strict=True):
        if hasattr(one, "get_data"):
            np.testing.assert_allclose(one.get_data().values, two.get_data().values)


def test_of_weighted_samples_chance_reaches_further_than_of_as_many_equal_ones():
    top = sure_answers(300)
    uneven = np.where(np.arange(300) % 10, 0.1, 10.0)
    equal, weighted = (
        plots.reliability(top, sample_weight=weight) for weight in (np.full(300, 7.0), uneven)
    )
    plain = plots.reliability(top)
    heights = [
        np.sum([bar.get_height() for bar in axes.containers[0]])
        for axes in (plain, equal, weighted)
    ]
    assert heights[0] == pytest.approx(heights[1])
    assert heights[2] > 1.5 * heights[0]


@pytest.mark.parametrize("draw", OF_SAMPLES)
@pytest.mark.parametrize("case", ["five", "sure", "one class", "wrong"])
def test_odd_samples_are_drawn_without_warnings(draw, case):
    cases = {
        "five": ([0.9, 0.8, 0.55, 0.95, 0.7], [1, 1, 0, 1, 0]),
        "sure": (np.ones(50), np.arange(50) % 7 > 0),
        "one class": ([1.0], [1]),
        "wrong": ([0.0, 1.0, 1.0], [0, 0, 0]),
    }
    confidence, correct = cases[case]
    drawn(draw(confidence=np.array(confidence, np.float32), correct=correct))


@pytest.mark.parametrize("num_bins", [1, 2, 100])
def test_any_number_of_bins_is_drawn(num_bins):
    for draw in (plots.reliability, plots.confidence_histogram):
        drawn(draw(sure_answers(), num_bins=num_bins))


def test_figures_of_their_own_have_a_legend_and_no_text_on_another():
    made = [draw(sure_answers(), title="a title") for draw in OF_SAMPLES]
    rows = {f"method {k}": (0.01 * k, 0.009 * k, 0.011 * k) for k in range(8)}
    made += [
        plots.forest(rows, 0.01),
        plots.forest({"one": (0.0, 0.0, 0.0)}),
        plots.forest({"nll": (2.0, 1.9, 2.2)}),
    ]
    for axes in made:
        assert axes.figure.legends[0].get_texts()
        assert axes.figure.number in pyplot.get_fignums()
        drawn(axes)
    drawn(plots.pareto({f"m{k}": (0.01 * k, 0.1 / k) for k in range(1, 8)}))


def test_given_axes_in_a_grid_are_drawn_on_and_pyplot_does_not_notice():
    grid = Figure(figsize=(8, 7), layout="constrained").subplots(2, 2)
    for draw, axes in zip(OF_SAMPLES, grid.flat, strict=True):
        draw(sure_answers(), ax=axes)
    for axes in grid.flat:
        drawn(axes)
        assert axes.get_legend_handles_labels()[1]  # axes.legend() explains them
    assert pyplot.get_fignums() == []
    assert not grid[0, 0].figure.legends


def test_a_million_samples_make_few_points(axes):
    top = sure_answers(1_000_000)
    plots.reliability(top, ax=axes)
    assert len(axes.collections[0].get_offsets()) <= 15
    axes.clear()
    plots.risk_coverage(top, ax=axes)
    assert len(line(axes, "measured").get_xdata()) <= 2000
    axes.clear()
    plots.corp(top, ax=axes)
    assert len(axes.collections[0].get_paths()[0].vertices) <= 2 * 501 + 3


@pytest.mark.parametrize("draw", OF_SAMPLES)
def test_bad_samples_are_refused_as_by_the_metrics(draw, axes):
    for given in (
        ([[0.9, 0.3]], [0]),
        ([[0.9, 0.1]], [2]),
        ([[np.nan, 1.0]], [0]),
        (np.ones((0, 2)), []),
    ):
        with pytest.raises(ValueError, match=r".") as by_metric:
            metrics.ece(*given)
        with pytest.raises(ValueError, match=r".") as by_plot:
            draw(*given, ax=axes)
        assert str(by_plot.value) == str(by_metric.value)
    with pytest.raises(ValueError, match=r"correct .*\(1,\).*\(2,\)"):
        draw(confidence=[0.5, 0.6], correct=[1], ax=axes)
    assert not axes.has_data()
    assert pyplot.get_fignums() == []


def test_a_bad_number_of_bins_is_refused():
    for draw in (plots.reliability, plots.confidence_histogram):
        with pytest.raises(ValueError, match="num_bins=0"):
            draw(sure_answers(), num_bins=0)


@pytest.mark.parametrize(
    ("intervals", "floors", "message"),
    [
        ({}, None, "there are no intervals"),
        (
            [(0.1, 0.0, 0.3)],
            None,
            r"no labels in \[\(0.1, 0.0, 0.3\)\]",
        ),
        ({"CE": (0.1, 0.0, 0.3)}, [0.1], r"floor of CE is \[0.1\]"),
        (
            {"CE": (0.1, 0.0, 0.3)},
            {"CE": "low"},
            "floor of CE is 'low'",
        ),
        ({"CE": (0.1, 0.2)}, None, r"CE has \(0.1, 0.2\)"),
        ({"CE": "0.1"}, None, "CE has '0.1'"),
        ({"CE": (0.1, 0.2, 0.3)}, None, "low <= estimate"),
        ({"CE": (float("nan"), 0.2, 0.3)}, None, "low <= estimate"),
        ({"CE": (0.1, 0.0, float("inf"))}, None, "low <= estimate"),
        (
            {"CE": (0.1, 0.0, 0.3)},
            float("nan"),
            "floor of CE is nan",
        ),
        (
            {"CE": (0.1, 0.0, 0.3)},
            {"MC": 0.1},
            r"\['MC'\] .*\['CE'\]",
        ),
    ],
)
def test_a_bad_forest_is_refused(intervals, floors, message):
    with pytest.raises(ValueError, match=message):
        plots.forest(intervals, floors)
    assert pyplot.get_fignums() == []


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ({}, "there are no points"),
        ([(0.1, 0.2)], r"got \[\(0.1, 0.2\)\]"),
        ({"CE": (0.1,)}, "point 0 has 1 values"),
        ({"CE": (float("nan"), 0.1)}, "NaN"),
        (
            {"CE": (5.2, 3.1)},
            r"CE has \(5.2, 3.1\), .*percent",
        ),
    ],
)
def test_a_bad_plane_is_refused(points, message):
    with pytest.raises(ValueError, match=message):
        plots.pareto(points)
    assert pyplot.get_fignums() == []


@pytest.mark.parametrize("draw", OF_SAMPLES)
def test_a_keyword_that_no_plot_takes_is_named(draw):
    with pytest.raises(TypeError, match="'groups'"):
        draw(sure_answers(), groups=["a"])
    with pytest.raises(TypeError, match="'bins'"):
        draw(sure_answers(), bins=3)
    assert pyplot.get_fignums() == []


@pytest.mark.thorough
def test_without_matplotlib_the_error_says_how_to_get_it():
    code = (
        "import sys; sys.modules['matplotlib'] = None; import socrates; socrates.metrics; "
        "socrates.plots"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "plots need matplotlib" in result.stderr
    assert "pip install 'socrates-loss[report]'" in result.stderr


@pytest.mark.thorough
def test_importing_plots_leaves_pyplot_alone():
    code = "import sys; import socrates.plots; print('matplotlib.pyplot' in sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout == "False\n"


def test_a_smooth_line_follows_the_gap_and_its_band_holds_it():
    confidence = np.linspace(0.5, 1, 4000)
    right = np.random.default_rng(1).random(4000) < confidence - 0.2
    x, line, low, high = smoothed(diagram_of(Top.of(confidence, right)))
    seen = (x > 0.55) & (x < 0.95)
    assert np.abs(line - (x - 0.2))[seen].max() < 0.06
    assert ((low <= line) & (line <= high))[seen].all()
    assert (high < x)[seen].all()
    assert np.isnan(line[x < 0.4]).all()


def test_nothing_has_no_smooth_line():
    assert np.isnan(smoothed(reliability_data("", []))[1:]).all()
