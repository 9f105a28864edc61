"""What judges predictions: decompositions, directions, worst groups and prediction sets, by hand
and by simulation."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, norm
from sklearn.isotonic import IsotonicRegression, isotonic_regression

from socrates.isotonic import pool_starts
from socrates.metrics import (
    Direction,
    GroupGap,
    Top,
    accuracy,
    brier,
    calibration_test,
    corp,
    decompose,
    direction,
    ece,
    nll,
    predict,
    sets,
    top_k,
    worst_classes,
    worst_groups,
)
from socrates.metrics.worst import largest_share


def softmax(logits):
    weight = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weight / weight.sum(axis=1, keepdims=True)


def drawn_from(probs, rng):
    """Labels of a perfectly calibrated model."""
    reached = probs.cumsum(axis=1) / probs.sum(axis=1, keepdims=True)
    return (rng.random((len(probs), 1)) > reached).sum(axis=1)


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture
def case(rng):
    probs = softmax(2 * rng.normal(size=(400, 6)))
    return probs, drawn_from(probs, rng)


answers = st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=60).map(
    lambda pairs: Top.of(*(np.array(column) for column in zip(*pairs, strict=True)))
)


JUDGES = [
    corp,
    direction,
    partial(worst_groups, groups=["a", "a"]),
    partial(calibration_test, num_draws=3),
]


@pytest.mark.parametrize(
    "judge", JUDGES, ids=["corp", "direction", "worst_groups", "calibration_test"]
)
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"confidence": [0.5, np.nan], "correct": [0, 1]}, "confidence .*nan at position 1"),
        ({"confidence": [0.5, 1.5], "correct": [0, 1]}, "confidence holds 1.5"),
        ({"confidence": [0.5, 0.6], "correct": [0]}, r"correct .*\(1,\).*\(2,\)"),
        ({"confidence": [0.5, 0.6], "correct": [0, 2]}, "other values than 0 and 1"),
        ({"confidence": [], "correct": []}, "none of them 0"),
        ({"confidence": [0.5, 0.6]}, "without correct="),
        (
            {"probs": [0.5, 0.6], "confidence": [0.5, 0.6], "correct": [0, 1]},
            "got probs beside confidence=",
        ),
        ({"probs": [0.5, 1.6], "labels": [0, 1]}, "probs .*1.6 at position 1"),
        ({"probs": [[0.5, 0.6]] * 2, "labels": [0, 1]}, "row 0 .*1.1"),
        ({"probs": [[0.5, 0.5]] * 2, "labels": [0, 2]}, "labels hold 2"),
        ({"probs": [[0.5, 0.5]] * 2}, "probs without labels"),
        ({}, "probs without labels"),
    ],
)
def test_what_cannot_be_judged_is_refused(judge, given, message):
    with pytest.raises(ValueError, match=message):
        judge(**given)


class TestDecompose:
    def test_is_the_difference_of_two_scores(self, case):
        probs, labels = case
        flat = softmax(np.log(probs) / 2)
        for score, measure in (("nll", nll), ("brier", brier), (nll, nll), (brier, brier)):
            parts = decompose(score, probs, flat, labels)
            assert (parts.total, parts.refinement) == (
                measure(probs, labels),
                measure(flat, labels),
            )
            # the labels were drawn from probs
            assert parts.calibration == parts.total - parts.refinement < 0

    def test_takes_weights_tensors_and_binary_scores(self, case):
        probs, labels = case
        weight = np.repeat([0.0, 2.0], 200)
        parts = decompose("nll", torch.tensor(probs), probs, labels, sample_weight=weight)
        assert parts.total == pytest.approx(nll(probs[200:], labels[200:]))
        assert parts.calibration == 0
        right = labels == 0
        parts = decompose("brier", probs[:, 0], np.full(len(labels), right.mean()), right)
        assert parts.refinement == pytest.approx(2 * right.mean() * (1 - right.mean()))

    def test_refuses_other_scores(self, case):
        with pytest.raises(ValueError, match="score='accuracy'"):
            decompose("accuracy", case[0], *case)


class TestCorp:
    def test_published_example(self):
        example = corp(np.array([0.4, 0.3, 0.2, 0.1, 0.5, 0.9]), np.array([0, 0, 0, 1, 1, 1]))
        found = [example.score, example.mcb, example.dsc, example.unc]
        assert found == pytest.approx([0.22666667, 0.10166667, 0.125, 0.25], abs=1e-8)
        assert (example.frequency.tolist(), example.count.tolist()) == ([0.25, 1.0], [4, 2])
        assert example.forecast.tolist() == pytest.approx([0.25, 0.7])

    @given(answers)
    def test_splits_the_brier_score(self, top):
        found = corp(top)
        assert found.score == pytest.approx(np.mean((top.confidence - top.correct) ** 2), abs=1e-12)
        assert found.mcb - found.dsc + found.unc == pytest.approx(found.score, abs=1e-12)
        assert min(found.mcb, found.dsc, found.unc) >= -1e-12
        assert (np.diff([found.forecast, found.frequency]) > 0).all()
        assert found.count.sum() == len(top.correct)

    @given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 5)), min_size=1, max_size=80))
    def test_pools_as_scikit_learn_does(self, groups):
        count, right = np.array([(n, min(k, n)) for n, k in groups], np.float64).T
        start = pool_starts(sums=right, weights=count)
        fitted = np.add.reduceat(right, start) / np.add.reduceat(count, start)
        sizes = np.diff(np.append(start, len(count)))
        expected = isotonic_regression(right / count, sample_weight=count)
        assert np.repeat(fitted, sizes) == pytest.approx(expected, abs=1e-12)

    def test_of_many_rows_equals_scikit_learn(self, rng):
        forecast = rng.random(20_000).round(3)
        event = rng.random(20_000) < forecast**2
        weight = rng.integers(1, 4, 20_000)
        found = corp(confidence=forecast, correct=event, sample_weight=weight)
        fitted = IsotonicRegression().fit(forecast, event, sample_weight=weight).predict(forecast)
        refined = np.average((fitted - event) ** 2, weights=weight)
        assert found.score - found.mcb == pytest.approx(refined, abs=1e-12)

    def test_events(self, case):
        probs, labels = case
        top = Top.of(probs.max(axis=1), probs.argmax(axis=1) == labels)
        assert corp(probs, labels).score == corp(top).score
        assert corp(predict(np.log(probs)), labels).score == pytest.approx(corp(top).score)
        assert corp(probs, labels).mcb == corp(confidence=top.confidence, correct=top.correct).mcb
        one, both = probs[:, 1], np.stack([1 - probs[:, 1], probs[:, 1]], axis=1)
        is_one = labels == 1
        for scores in (one, one[:, None], torch.tensor(one)):
            assert corp(scores, is_one).score == pytest.approx(np.mean((one - is_one) ** 2))
        assert (
            corp(one, np.where(is_one, "yes", "no"), classes=["no", "yes"]).score
            == corp(one, is_one).score
        )
        assert (
            corp(both, is_one).score
            == corp(Top.of(both.max(axis=1), both.argmax(axis=1) == is_one)).score
        )

    def test_weights_are_repetitions(self, case):
        top = Top.of(case[0].max(axis=1), case[0].argmax(axis=1) == case[1])
        times = np.arange(400) % 3
        weighted = corp(confidence=top.confidence, correct=top.correct, sample_weight=times)
        repeated = corp(top.take(np.repeat(np.arange(400), times)))
        for name in ("score", "mcb", "dsc", "unc", "forecast", "frequency", "count"):
            assert getattr(weighted, name) == pytest.approx(getattr(repeated, name), abs=1e-12), (
                name
            )


class TestDirection:
    @given(answers, st.integers(1, 20))
    def test_parts_add_up_to_ece_and_to_the_signed_gap(self, top, num_bins):
        parts = direction(top, num_bins=num_bins)
        assert min(parts.over, parts.under) >= 0
        assert parts.ece == pytest.approx(ece(top, num_bins=num_bins), abs=1e-15)
        assert parts.signed == pytest.approx(top.confidence.mean() - top.correct.mean(), abs=1e-12)

    def test_takes_every_entry(self, case):
        probs, labels = case
        weight = np.arange(len(labels))
        parts = direction(probs, labels, sample_weight=weight)
        assert parts.ece == pytest.approx(ece(probs, labels, sample_weight=weight))
        assert direction(confidence=[0.9], correct=[1]) == Direction(0.0, pytest.approx(0.1))

    @pytest.mark.parametrize(
        ("over", "under", "words"),
        [
            (0.0, 0.0, "neither over- nor underconfident"),
            (0.0, 0.0006, "underconfident by 0.1 points"),
            (0.0005, 0.0, "overconfident by 0.1 points"),
            (
                0.021,
                0.0005,
                "overconfident by 2.1 points: by 2.1 in some bins, underconfident by 0.1 in others",
            ),
            (
                0.021,
                0.0201,
                "overconfident by 0.1 points: by 2.1 in some bins, underconfident by 2.0 in others",
            ),
        ],
    )
    def test_words(self, over, under, words):
        assert str(Direction(over, under)) == words


class TestTopK:
    def test_first_is_the_top(self, case):
        for probs in (
            case[0],
            torch.tensor(case[0]).half(),
            torch.tensor(case[0], dtype=torch.float32),
        ):
            assert ece(top_k(probs, case[1], 1)) == ece(probs, case[1])
            assert accuracy(top_k(probs, case[1], 1)) == accuracy(probs, case[1])

    def test_counts_the_label_among_the_k_largest(self, case):
        probs, labels = case
        for k in (1, 2, 5, 6):
            top = top_k(probs, labels, k)
            best = np.argsort(-probs, axis=1)[:, :k]
            assert (top.correct == (best == labels[:, None]).any(axis=1)).all()
            assert top.confidence == pytest.approx(np.sort(probs, axis=1)[:, -k:].sum(axis=1))
        assert top.correct.all()
        assert top.confidence.max() <= 1

    def test_ties_go_to_the_first_classes(self):
        rows = [[0.25] * 4] * 4
        assert top_k(rows, [0, 1, 2, 3], 2).correct.tolist() == [True, True, False, False]

    def test_of_a_prediction_with_unknown(self, rng):
        logits = torch.tensor(rng.normal(size=(50, 4)))
        labels = rng.integers(0, 3, 50)
        for unknown in ("answer", "abstain", "renormalize", "spread"):
            prediction = predict(logits, unknown=unknown)
            assert ece(top_k(prediction, labels, 1)) == pytest.approx(ece(prediction, labels))

    def test_keeps_weights(self, case):
        top = top_k(*case, 2, sample_weight=np.arange(400))
        assert len(top) == 399
        assert top.weight.tolist() == list(range(1, 400))

    @pytest.mark.parametrize("k", [0, 7, 1.5, True])
    def test_refuses(self, case, k):
        with pytest.raises(ValueError, match=f"k={k},"):
            top_k(*case, k)


class TestWorst:
    @pytest.mark.parametrize("level", [0.05, 0.001])
    def test_shares_are_never_tighter_than_exact_ones(self, level):
        z = norm.isf(level / 2)
        for n in (1, 2, 5, 30, 300):
            right = np.arange(n + 1.0)
            exact = np.where(
                right < n, beta.ppf(1 - level / 2, right + 1, np.maximum(n - right, 1)), 1
            )
            ours = largest_share(right, np.full(n + 1, float(n)), z)
            assert (ours >= exact - 1e-12).all()
            assert (ours - exact).max() < 1.2 / n
            assert ours[-1] == 1

    def test_one_answer_claims_nothing(self):
        for confidence in (0.0, 0.5, 1.0):
            for correct in (0, 1):
                (gap,) = worst_groups(confidence=[confidence], correct=[correct], groups=["a"])
                assert gap.sure == 0
                assert (gap.low, gap.high) == (confidence - 1, confidence)

    def test_groups_that_may_be_right_go_by_how_nearly_they_exclude_0(self):
        """Of 30 samples at 0.8, 24 right answers are as many as expected."""
        rights = {"a": 24, "b": 22, "c": 27, "d": 20, "e": 28}
        correct = np.concatenate([np.arange(30) < right for right in rights.values()])
        found = worst_groups(
            confidence=[0.8] * 150, correct=correct, groups=np.repeat([*rights], 30)
        )
        assert [gap.name for gap in found] == ["d", "e", "c", "b", "a"]
        assert not any(gap.sure for gap in found)

    def test_finds_the_group_that_is_off(self, rng):
        confidence = rng.uniform(0.5, 1, 3000)
        groups = np.repeat(["a", "b", "c"], 1000)
        correct = rng.random(3000) < np.where(groups == "b", confidence - 0.2, confidence)
        found = worst_groups(confidence=confidence, correct=correct, groups=groups)
        assert [gap.sure > 0 for gap in found] == [True, False, False]
        worst = found[0]
        assert (worst.name, worst.count) == ("b", 1000)
        assert worst.low < 0.2 < worst.high
        assert worst.gap == pytest.approx(worst.confidence - worst.accuracy)
        assert worst.accuracy == correct[groups == "b"].mean()
        assert (
            worst_groups(confidence=confidence, correct=correct, groups=groups, limit=1)
            == found[:1]
        )

    def test_classes_are_those_that_answer(self, case):
        probs, labels = case
        predicted = probs.argmax(axis=1)
        found = worst_classes(probs, labels)
        assert found == worst_groups(probs, labels, groups=predicted)
        assert found == worst_groups(
            confidence=probs.max(axis=1), correct=predicted == labels, groups=predicted
        )
        assert sorted(gap.name for gap in found) == list(range(6))
        named = worst_classes(probs, labels, classes=list("abcdef"))
        assert [gap.name for gap in named] == ["abcdef"[gap.name] for gap in found]
        assert named[0].count == found[0].count

    def test_unknown_is_a_class_of_its_own(self):
        prediction = predict(torch.tensor([[0.0, 9.0, 0.0], [0.0, 0.0, 9.0]]), unknown="answer")
        assert {gap.name for gap in worst_classes(prediction, [1, 1])} == {1, "unknown"}

    def test_classes_refuse_weights(self, case):
        with pytest.raises(ValueError, match="sample_weight"):
            worst_classes(*case, sample_weight=np.arange(400))

    def test_words(self):
        under = GroupGap("x", 50, 0.7, 0.9, -0.2, -0.3, -0.05)
        assert str(under) == "x: underconfident by 20.0 points (5.0 to 30.0) over 50 answers"
        assert under.sure == 0.05

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"groups": ["a"]}, "1 groups for 2 samples"),
            ({"groups": [["a"], ["b"]]}, r"groups .*\(2, 1\)"),
            ({"groups": ["a", "b"], "level": 1}, "level=1, expected"),
            ({"groups": ["a", "b"], "limit": 0}, "limit=0, expected"),
            ({"groups": ["a", "b"], "sample_weight": [1.0, 2.0]}, "weights.*whole answers"),
        ],
    )
    def test_refuses(self, options, message):
        with pytest.raises(ValueError, match=message):
            worst_groups(confidence=[0.9, 0.8], correct=[1, 0], **options)

    @pytest.mark.slow
    @pytest.mark.parametrize(("num_groups", "size"), [(100, 20), (3, 2), (10, 500)])
    @pytest.mark.parametrize("kind", ["calibrated", "too sure", "sharp", "uninformed"])
    def test_all_intervals_hold_at_once(self, rng, num_groups, size, kind):
        """Of the gap of the answers at hand, and of the gap over all answers that the group could
        give."""
        groups = np.repeat(np.arange(num_groups), size)
        held, held_overall = 0, 0
        for _ in range(300):
            confidence = (
                rng.choice([0.02, 0.98], len(groups))
                if kind == "sharp"
                else rng.beta(4, 1, len(groups))
            )
            chance = confidence**2 if kind == "too sure" else confidence
            chance = np.full(len(groups), 0.8) if kind == "uninformed" else chance
            found = worst_groups(
                confidence=confidence, correct=rng.random(len(groups)) < chance, groups=groups
            )
            truth = np.bincount(groups, confidence - chance) / size
            # of the mean of beta(4, 1) and of its square
            overall = 0.8 - 4 / 6 if kind == "too sure" else 0.0
            held += all(gap.low <= truth[gap.name] <= gap.high for gap in found)
            held_overall += all(gap.low <= overall <= gap.high for gap in found)
        assert held >= 0.95 * 300
        assert held_overall >= (0.9 if kind == "uninformed" else 0.95) * 300


class TestSets:
    def test_threshold_is_the_rank_of_theory(self):
        probs = np.stack([1 - np.arange(1, 20) / 20, np.arange(1, 20) / 20], axis=1)
        fitted = sets.lac(probs, np.zeros(19, int), alpha=0.1)
        assert fitted.threshold == pytest.approx(0.9)  # the 18th of 19 scores
        assert sets.lac(probs[:8], np.zeros(8, int), alpha=0.1).threshold == math.inf
        assert sets.lac(probs[:8], np.zeros(8, int), alpha=0.1)(probs).all()
        assert sets.lac(probs[:9], np.zeros(9, int), alpha=0.1).threshold == pytest.approx(0.45)

    @pytest.mark.parametrize("alpha", [0.02, 0.1, 0.3, 0.5])
    def test_threshold_is_that_rank_in_any_order(self, alpha, rng):
        for size in (50, 51, 200):
            p = rng.random(size)
            fitted = sets.lac(np.stack([p, 1 - p], axis=1), np.zeros(size, int), alpha=alpha)
            rank = math.ceil((size + 1) * (1 - alpha) - 1e-9)
            assert fitted.threshold == pytest.approx(np.sort(1 - p)[rank - 1], abs=1e-12)

    def test_randomized_scores_add_a_share_of_the_class_itself(self):
        """A label that is never random in order has a score between those without and with it."""
        probs = np.array([[0.5, 0.3, 0.2]] * 99)
        labels = np.ones(99, int)
        thresholds = [
            sets.aps(probs, labels, alpha, randomized=True).threshold for alpha in (0.99, 0.5, 0.01)
        ]
        assert thresholds == pytest.approx([0.5, 0.65, 0.8], abs=0.05)
        assert sets.aps(probs, labels, 0.01).threshold == 0.5

    def test_whole_ranks_are_not_rounded_up(self):
        probs = np.stack([1 - np.arange(1, 150) / 150, np.arange(1, 150) / 150], axis=1)
        assert sets.lac(probs, np.zeros(149, int), alpha=0.18).threshold == pytest.approx(123 / 150)

    @pytest.mark.parametrize("make", [sets.lac, sets.aps])
    def test_hold_the_label_as_promised(self, make, rng):
        covered, size = [], []
        for seed in range(60):
            probs = softmax(2 * np.random.default_rng(seed).normal(size=(700, 8)))
            labels = drawn_from(softmax(np.log(probs) / 1.7), rng)  # a model that is too sure
            made = make(probs[:200], labels[:200], alpha=0.2)(probs[200:])
            assert (made.shape, made.dtype) == ((500, 8), np.bool_)
            covered.append(made[np.arange(500), labels[200:]].mean())
            size.append(made.sum(axis=1).mean())
        # 1 - alpha and 1 / (n + 1) more at the most on average, whose standard error is 0.004
        assert 0.8 - 0.012 < np.mean(covered) < 0.8 + 1 / 201 + 0.012
        assert 1 < np.mean(size) < 6

    def test_adaptive_sets_are_larger_and_more_even(self, rng):
        probs = softmax(rng.uniform(0, 6, (8000, 1)) * rng.normal(size=(8000, 10)))
        labels = drawn_from(probs, rng)
        unsure = probs.max(axis=1) < 0.5
        found = []
        for make in (sets.lac, sets.aps):
            made = make(probs[:4000], labels[:4000])(probs)
            found.append((made.sum(), made[np.arange(8000), labels][unsure].mean()))
        assert found[0][0] < found[1][0]
        assert found[0][1] < found[1][1] < 0.93

    def test_adaptive_sets_are_the_likeliest_classes(self, case):
        made = sets.aps(*case, alpha=0.2)(case[0])
        least_in = np.where(made, case[0], 2).min(axis=1)
        most_out = np.where(made, -1, case[0]).max(axis=1)
        assert (least_in > most_out).all()

    def test_never_empty_unless_randomized(self, case):
        assert sets.aps(*case, alpha=0.6)(case[0]).any(axis=1).all()
        assert not sets.aps(*case, alpha=0.6, randomized=True)(case[0]).any(axis=1).all()
        assert not sets.lac(*case, alpha=0.6)(case[0]).any(axis=1).all()

    def test_right_often_enough_is_the_likeliest_class_alone(self, rng):
        probs = softmax(9 * rng.normal(size=(300, 4)))
        made = sets.aps(probs, probs.argmax(axis=1))(probs)
        assert (made == (probs == probs.max(axis=1, keepdims=True))).all()

    def test_randomized_sets_repeat_by_seed(self, case):
        chance = sets.aps(*case, randomized=True, seed=3)
        made = chance(case[0])
        assert (made == chance(case[0])).all()
        # With the chance that calibrated it, it would hold exactly as many of these labels as its
        # rank says.
        assert made[np.arange(400), case[1]].sum() != 361
        assert (made != sets.aps(*case, randomized=True, seed=4)(case[0])).any()

    def test_take_tensors_scores_and_predictions(self, case):
        probs, labels = case
        made = sets.lac(torch.tensor(probs), torch.tensor(labels))(torch.tensor(probs))
        assert (made == sets.lac(probs, labels)(probs)).all()
        named = sets.lac(probs, np.array(list("abcdef"))[labels], classes=list("abcdef"))
        assert (made == named(probs)).all()
        assert sets.aps(probs[:, 1], labels == 1)(probs[:, 1]).shape == (400, 2)
        prediction = predict(torch.tensor(np.log(probs)), unknown="answer")
        assert sets.aps(prediction, labels.clip(max=4))(prediction).shape == (400, 5)

    def test_refuse(self, case):
        for alpha in (0, 1, -0.1):
            with pytest.raises(ValueError, match=f"alpha={alpha}"):
                sets.lac(*case, alpha)
        with pytest.raises(ValueError, match="alone"):
            sets.lac(Top.of([0.9], [1]), [0])
        with pytest.raises(ValueError, match=r"6 classes, .* 3"):
            sets.lac(*case)(np.full((2, 3), 1 / 3))

    @pytest.mark.slow
    @pytest.mark.parametrize("alpha", [0.05, 0.3])
    @pytest.mark.parametrize("kind", ["lac", "aps", "randomized"])
    def test_coverage_is_exact_over_many_draws(self, kind, alpha):
        covered = []
        for seed in range(1500):
            rng = np.random.default_rng(seed)
            probs = softmax(1.5 * rng.normal(size=(100, 5)))
            labels = drawn_from(probs**0.6, rng)
            options = {"randomized": True, "seed": seed} if kind == "randomized" else {}
            fitted = getattr(sets, "lac" if kind == "lac" else "aps")(
                probs[:50], labels[:50], alpha, **options
            )
            covered.append(fitted(probs[50:])[np.arange(50), labels[50:]].mean())
        expected = math.ceil(51 * (1 - alpha) - 1e-9) / 51  # no two scores are equal
        assert np.mean(covered) == pytest.approx(
            expected, abs=4 * np.std(covered) / math.sqrt(1500)
        )
        assert expected >= 1 - alpha
