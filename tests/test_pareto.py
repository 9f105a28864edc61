import math
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from socrates import pareto


def front(points):
    """Positions on the front: the functions return the items given, and here the items are
    positions."""
    return pareto.front(range(len(points)), key=lambda i: points[i])


def ties(points, rule="l1"):
    return pareto.ties(range(len(points)), lambda i: points[i], rule)


def best(points, rule="l1"):
    return pareto.best(range(len(points)), lambda i: points[i], rule)


def dominates(a, b):
    return a[0] <= b[0] and a[1] <= b[1] and a[:2] != b[:2]


values = st.integers(0, 6).map(lambda i: i / 6)
clouds = st.lists(st.tuples(values, values, values), min_size=1, max_size=25)
rules = st.sampled_from(list(pareto.RULES))


def test_worked_example():
    # Scaled to 0..1: (0, 1), (0.5, 0.25), (1, 0); distances 1, 0.559, 1. The fourth is dominated by
    # the second.
    points = [(0.10, 0.09), (0.15, 0.03), (0.20, 0.01), (0.16, 0.04)]
    assert front(points) == [0, 1, 2]
    assert pareto.distances(points) == pytest.approx([0.19, 0.18, 0.21, 0.20])
    assert pareto.distances(points, rule="scaled") == pytest.approx(
        [1, 0.3125**0.5, 1, 0.500625**0.5]
    )
    assert pareto.distances(points, rule="ece") == [0.09, 0.03, 0.01, 0.04]
    assert ties(points) == ties(points, "scaled") == [1]
    assert best(points) == best(points, "scaled") == 1
    assert ties(points, "ece") == [2]
    assert best(points, "ece") == 2


def test_each_rule_may_choose_another_point():
    # the sums: 0.15, 0.16, 0.31; scaled: 1, 0.757, 1
    points = [(0.10, 0.05), (0.12, 0.04), (0.30, 0.01)]
    assert [best(points, rule) for rule in ("l1", "scaled", "ece")] == [0, 1, 2]
    assert best(points) == 0
    points = dict(zip("abc", points, strict=True))
    assert pareto.best(points, points.get, rule="ece") == "c"


@pytest.mark.parametrize("function", [pareto.distances, pareto.ties, pareto.best])
def test_an_unknown_rule_is_named(function):
    with pytest.raises(ValueError, match=r"'euclid': .*l1"):
        function([(0.1, 0.2)], rule="euclid")


def test_ties_go_by_class_wise_ece_then_error_then_position():
    assert best([(0.1, 0.2, 0.08), (0.2, 0.1, 0.07)]) == 1
    assert best([(0.2, 0.1, 0.07), (0.1, 0.2, 0.07)]) == 1
    assert best([(0.2, 0.1), (0.1, 0.2)]) == 1
    assert best([(0.1, 0.1), (0.1, 0.1)]) == 0


def test_class_wise_ece_matters_only_in_ties():
    assert best([(0.1, 0.1, 0.9), (0.2, 0.2, 0.0)]) == 0


def test_dominated_candidates_set_the_range_too():
    # Alone, (0.10, 0.06) and (0.11, 0.01) tie at distance 1; the dominated outlier makes error
    # differences small.
    assert ties([(0.10, 0.06), (0.11, 0.01)], "scaled") == [0, 1]
    assert ties([(0.10, 0.06), (0.11, 0.01), (0.90, 0.07)], "scaled") == [1]


@given(clouds, st.sampled_from(["l1", "ece"]))
def test_dominated_candidates_change_no_other_choice(points, rule):
    assert pareto.ties(pareto.front(points), rule=rule) == pareto.ties(points, rule=rule)


def test_one_axis_without_width():
    assert best([(0.1, 0.3), (0.1, 0.2), (0.1, 0.4)]) == 1
    assert front([(0.3, 0.1), (0.2, 0.1)]) == [1]
    assert pareto.distances([(0.1, 0.3), (0.1, 0.2)], rule="scaled") == [1.0, 0.0]


def test_single_point_and_copies():
    assert front([(0.5, 0.5)]) == ties([(0.5, 0.5)]) == [0]
    assert best([(0.5, 0.5)]) == 0
    assert front([(1, 1), (0, 0), (0, 0)]) == [1, 2]


def test_mappings_and_key():
    rows = [{"error": 0.2, "ece": 0.2, "epoch": 1}, {"error": 0.1, "ece": 0.1, "epoch": 2}]
    assert pareto.best(rows) is rows[1]
    assert pareto.front(rows) == pareto.ties(rows) == rows[1:]

    @dataclass
    class Run:
        accuracy: float
        ece: float

    runs = [Run(0.9, 0.1), Run(0.8, 0.2)]
    assert pareto.front(runs, key=lambda run: (1 - run.accuracy, run.ece)) == runs[:1]


@pytest.mark.parametrize("function", [pareto.front, pareto.ties, pareto.best])
def test_any_iterable_will_do(function):
    points = [(0.1, 0.3), (0.2, 0.2), (0.3, 0.3)]
    expected = function(points)
    assert function(point for point in points) == expected
    assert function(dict.fromkeys(points)) == expected
    assert function((math.inf for _ in points), key=lambda _: (0.1, 0.1)) == function(
        [math.inf] * 3, key=lambda _: (1, 1)
    )
    with pytest.raises(ValueError, match="no points"):
        function(iter(()))


@pytest.mark.parametrize("function", [pareto.front, pareto.ties, pareto.best])
@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([], "no points"),
        ([(0.1, 0.2), (math.nan, 0.1)], r"point 1 is \(nan, 0.1\)"),
        ([(0.1, math.inf)], "point 0 .*infinity"),
        ([(0.1, 0.2, math.nan)], "point 0 .*NaN"),
        ([(0.1, 0.2), (0.1,)], "point 1 has 1 values"),
        ([(0.1, 0.2, 0.3, 0.4)], "point 0 has 4 values"),
        ([(0.1, 0.2, 0.3), (0.1, 0.2)], "point 1 has no cw_ece"),
        ([{"error": 0.1}], "point 0 is {'error': 0.1}: expected"),
        ([0.1], "point 0 is 0.1"),
        ([("a", "b")], "point 0"),
    ],
)
def test_bad_points_are_named(function, points, message):
    with pytest.raises(ValueError, match=message):
        function(points)


@given(clouds)
def test_front_is_exactly_the_undominated(points):
    expected = {i for i, p in enumerate(points) if not any(dominates(q, p) for q in points)}
    kept = front(points)
    assert set(kept) == expected
    assert kept == sorted(kept, key=lambda i: points[i][0])


@given(clouds, st.randoms(use_true_random=False), rules)
def test_best_does_not_depend_on_the_order(points, random, rule):
    shuffled = points.copy()
    random.shuffle(shuffled)
    assert pareto.best(points, rule=rule) == pareto.best(shuffled, rule=rule)
    assert best(points, rule) in ties(points, rule)
    assert set(ties(points, rule)) <= set(front(points))


@given(clouds, rules)
def test_nothing_is_nearer_than_the_best(points, rule):
    assert (
        pareto.distances(points, rule=rule)[best(points, rule)]
        <= min(pareto.distances(points, rule=rule)) + 1e-9
    )


@given(clouds, st.floats(0.01, 100), st.sampled_from(["scaled", "ece"]))
def test_scale_of_an_axis_does_not_matter_but_for_the_sum(points, factor, rule):
    assert ties([(factor * error, ece) for error, ece, _ in points], rule) == ties(points, rule)


@given(clouds, st.floats(0.01, 100), rules)
def test_shares_and_percent_give_the_same_choice(points, factor, rule):
    assert ties([(factor * error, factor * ece) for error, ece, _ in points], rule) == ties(
        points, rule
    )
