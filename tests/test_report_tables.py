"""Tables: ranks, layout, and numbers by hand."""

from __future__ import annotations

import math
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from report_runs import experiment, make_run

from signing import resign_epochs
from socrates.records import Run
from socrates.report.aggregate import Skipped, find_runs, group_runs, read_runs
from socrates.report.answer import answers_of
from socrates.report.compare import MAX_COLUMNS, RANKS
from socrates.report.comparisons import (
    overview_table,
    performance_table,
    reading_table,
    scaled_table,
)
from socrates.report.listings import reference, runs_table, significance_table, skipped_table
from socrates.report.statistics import Evidence, Family
from socrates.report.study_page import page_data
from socrates.report.tables import TableRow
from socrates.report.vocabulary import METRICS, compared_metrics

NAN = math.nan


def settings_of(root):
    return group_runs(read_runs(find_runs(root))[0])


def cells(table, *keys):
    """The cells of the one row with these keys (a part of them is enough), by head."""
    (row,) = [row for row in table.rows if set(keys) <= set(row.keys)]
    return dict(zip(table.heads[len(row.keys) :], row.cells, strict=True))


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    """Three methods with known accuracies and ECEs over three seeds."""
    root = tmp_path_factory.mktemp("three")
    numbers = {
        "ce": [(0.90, 0.050), (0.92, 0.060), (0.94, 0.070)],
        "focal": [(0.91, 0.040), (0.91, 0.041), (0.91, 0.042)],
        "socrates": [(0.92, 0.010), (0.93, 0.020), (0.94, 0.030)],
    }
    for method, found in numbers.items():
        for seed, (accuracy, ece) in enumerate(found, start=1):
            make_run(root, experiment(method, seed), test={"accuracy": accuracy, "ece": ece})
    return settings_of(root)


# Comparisons


def test_performance_by_hand(three):
    table = performance_table(three)
    assert table.heads == ("Setting", "Metric", "CE", "Focal", "Socrates")
    accuracy, ece = cells(table, "Acc (%)"), cells(table, "ECE (%)")
    assert [cell.text for cell in accuracy.values()] == [
        "92.00 ± 2.00",
        "91.00 ± 0.00",
        "93.00 ± 1.00",
    ]
    # none is shown to be worse than 92, 93, 94: nothing is bold
    assert [cell.emphasis for cell in accuracy.values()] == [None] * 3
    assert [cell.text for cell in ece.values()] == ["6.00 ± 1.00", "4.10 ± 0.10", "2.00 ± 1.00"]
    assert [cell.emphasis for cell in ece.values()] == [None, None, "best"]
    assert [cell.mark for cell in ece.values()] == ["", "†", ""]
    assert RANKS in table.notes
    assert {cell.n for cell in ece.values()} == {3}
    assert [row.keys[1] for row in table.rows] == [
        METRICS[name].head for name in compared_metrics()
    ]


def test_nll_and_brier_score_are_not_in_percent(tmp_path):
    make_run(tmp_path, experiment("ce"), test={"nll": 1.23456, "brier": 0.5})
    table = performance_table(settings_of(tmp_path))
    assert cells(table, "NLL")["CE"].text == "1.235"
    assert cells(table, "Brier score")["CE"].text == "0.500"


def test_split_and_reading_choose_the_numbers(three):
    (groups,) = three.values()
    table = performance_table(three, "val")
    expected = 100 * groups[2].values("ece", split="val").mean()
    assert cells(table, "ECE (%)")["Socrates"].mean == pytest.approx(expected)
    assert table.name == "val-performance"
    assert any("Reading of the unknown class: answer" in note for note in table.notes)
    spread = overview_table(groups, "spread")
    expected = 100 * groups[2].values("ece", reading="spread").mean()
    assert cells(spread, "Socrates")["ECE (%)"].mean == pytest.approx(expected)


def test_overview_ranks_methods_and_counts_seeds_and_collapses(tmp_path):
    for method, accuracy, ece in (
        ("ce", 0.90, 0.10),
        ("socrates", 0.92, 0.02),
        ("sat", 0.10, 0.01),
    ):
        for seed in (1, 2):
            test = {"accuracy": accuracy + 0.01 * seed, "ece": ece}
            bad = "100 % of the answers are 'unknown'" if (method, seed) == ("sat", 2) else None
            make_run(tmp_path, experiment(method, seed), test=test, collapsed=bad)
    (groups,) = settings_of(tmp_path).values()
    table = overview_table(groups)
    ce, sat, socrates = (cells(table, label) for label in ("CE", "SAT", "Socrates"))
    assert [(one["Acc (%)"].text, one["Acc (%)"].emphasis) for one in (ce, sat, socrates)] == [
        ("91.50 ± 0.71", None),
        ("11.00", None),
        ("93.50 ± 0.71", None),  # two seeds cannot say what is best
    ]
    # the lowest, and means nothing
    assert (sat["ECE (%)"].text, sat["ECE (%)"].emphasis) == ("1.00", None)
    assert (sat["Seeds"].text, sat["Collapsed"], ce["Collapsed"]) == ("1", "1 of 2 runs", "–")
    assert socrates["Floor (%)"].emphasis is None


def test_scaled_ranks_the_scalers_of_a_method(tmp_path):
    for method in ("ce", "sat"):
        make_run(tmp_path, experiment(method))
    (groups,) = settings_of(tmp_path).values()
    table = scaled_table(groups)
    assert table.heads[:7] == ("Method", "ECE (%)", "+ TS", "+ VS", "+ MS", "+ RS", "Acc (%)")
    ce = next(row.cells for row in table.rows if row.keys == ("CE",))
    assert [cell.emphasis for cell in ce[:5]] == [None] * 5  # one seed
    assert ce[4].text == "–"  # no unknown class, no readout


def test_collapsed_groups_are_marked_and_not_ranked(tmp_path):
    for seed in (1, 2):
        make_run(tmp_path, experiment("ce", seed), test={"ece": 0.05})
        make_run(tmp_path, experiment("focal", seed), test={"ece": 0.07})
        reason = "every answer is class 3"
        make_run(tmp_path, experiment("sat", seed), test={"ece": 0.001}, collapsed=reason)
    table = performance_table(settings_of(tmp_path))
    ece = cells(table, "ECE (%)")
    assert [ece[method].emphasis for method in ("CE", "Focal", "SAT")] == [None, None, None]
    assert [ece[method].mark for method in ("CE", "Focal", "SAT")] == ["", "", "✕"]
    assert "✕ SAT collapsed and is not ranked: every answer is class 3 (seed 1, 2)." in table.notes


def test_a_failed_run_is_named_and_not_in_the_means(tmp_path):
    """Its training accuracy ends at 73 %, its siblings' at 99 %: it ruled means and bars."""
    for seed in range(1, 6):
        test = {"accuracy": 0.69 if seed == 3 else 0.95 + 0.001 * seed, "ece": 0.03}
        directory = make_run(tmp_path, experiment("ce", seed), test=test)
        if seed == 3:
            records = [record.to_json() for record in Run(directory).epochs()]
            for record in records[3:]:
                record["train_accuracy"] = 0.73
            resign_epochs(directory, records)
        make_run(tmp_path, experiment("focal", seed))
    settings = settings_of(tmp_path)
    (groups,) = settings.values()
    ce = next(results for results in groups if results.label == "CE")
    (failure,) = ce.failures
    assert (failure.seed, failure.epoch) == (3, 4)
    assert failure.accuracy == pytest.approx(69)
    assert "73%" in failure.reason
    assert [*ce.seeds] == [1, 2, 4, 5]
    table = performance_table(settings)
    assert cells(table, "Acc (%)")["CE"].mean == pytest.approx(95.3)
    assert any("CE seed 3 failed in epoch 4" in note for note in table.notes)
    assert len(runs_table(settings).rows) == 10  # it is listed all the same
    runs, _ = read_runs(find_runs(tmp_path))
    (counted,) = group_runs(runs, count_failed=True).values()
    assert all(not results.failures and len(results.seeds) == 5 for results in counted)


def published(results, table, metric, scaler):
    if metric in ("nll", "brier") or results.method.name == "focal":
        return None
    caveats = {"cw_ece": ("cut", "A sentence."), "ada_ece": ("unequal",)}.get(metric, ())
    return SimpleNamespace(
        mean=4.39, std=0.25 if results.method.name == "socrates" else None, caveat=caveats
    )


def test_published_rows_stand_beneath_ours_with_footnotes(three):
    table = performance_table(
        three, published=published, caveats={"cut": "Cut off.", "unequal": "Unequal."}
    )
    assert table.heads[:3] == ("Setting", "Metric", "Source")
    sources = [(row.keys[1], row.keys[2]) for row in table.rows]
    assert sources[:4] == [
        ("Acc (%)", "ours"),
        ("Acc (%)", "published"),
        ("ECE (%)", "ours"),
        ("ECE (%)", "published"),
    ]
    assert ("NLL", "published") not in sources
    found = cells(table, "CW-ECE (%)", "published")
    assert [cell.text for cell in found.values()] == ["4.39", "–", "4.39 ± 0.25"]
    assert [cell.mark for cell in found.values()] == ["b,c", "", "b,c"]
    assert all(cell.emphasis is None for cell in found.values())
    assert table.notes[-3:] == ("a: Unequal.", "b: Cut off.", "c: A sentence.")


def test_without_published_numbers_there_is_no_source(three):
    assert performance_table(three, published=lambda *asked: None) == performance_table(three)


def test_more_settings_share_columns_without_their_options(tmp_path):
    for epochs, gamma in ((4, 1.0), (6, 3.0)):
        make_run(tmp_path, experiment("focal", epochs=epochs, gamma=gamma))
        make_run(tmp_path, experiment("ce", epochs=epochs))
    table = performance_table(settings_of(tmp_path))
    assert table.heads == ("Setting", "Metric", "CE", "Focal")
    assert {"digits, mlp, 4 epochs: Focal γ=1.", "digits, mlp, 6 epochs: Focal γ=3."} <= set(
        table.notes
    )


def test_a_method_missing_in_a_setting_leaves_its_cells_empty(tmp_path):
    make_run(tmp_path, experiment("ce", epochs=4))
    make_run(tmp_path, experiment("focal", epochs=6))
    table = performance_table(settings_of(tmp_path))
    assert cells(table, "ECE (%)", "digits, mlp, 4 epochs")["Focal"].text == "–"


@pytest.mark.parametrize("number", [MAX_COLUMNS, MAX_COLUMNS + 1, 32])
def test_many_methods_become_rows(tmp_path, number):
    for gamma in range(number):
        make_run(
            tmp_path, experiment("focal", gamma=float(gamma)), test={"ece": 0.01 * (gamma + 1)}
        )
    table = performance_table(settings_of(tmp_path))
    if number <= MAX_COLUMNS:
        assert len(table.heads) == 2 + number
        places = {head: cell.emphasis for head, cell in cells(table, "ECE (%)").items()}
    else:
        assert table.heads == (
            "Setting",
            "Method",
            *(METRICS[name].head for name in compared_metrics()),
        )
        assert len(table.rows) == number
        places = {row.keys[1]: row.cells[1].emphasis for row in table.rows}
    assert set(places.values()) == {None}  # one seed cannot say what is best


def test_transposed_tables_keep_published_rows(tmp_path):
    for gamma in range(12):
        make_run(tmp_path, experiment("socrates", gamma=float(gamma)))
    table = performance_table(settings_of(tmp_path), published=published)
    assert table.heads[:3] == ("Setting", "Method", "Source")
    assert [row.keys[2] for row in table.rows] == ["ours", "published"] * 12


def test_posthoc_has_a_column_for_each_scaler(tmp_path):
    for seed in (1, 2):
        make_run(tmp_path, experiment("ce", seed))
        make_run(tmp_path, experiment("sat", seed))
    settings = settings_of(tmp_path)
    table = performance_table(settings, scaled=True)
    expected = [
        "CE",
        "CE + TS",
        "CE + VS",
        "CE + MS",
        "SAT",
        "SAT + TS",
        "SAT + VS",
        "SAT + MS",
        "SAT + RS",
    ]
    assert list(table.heads[2:]) == expected
    (groups,) = settings.values()
    values = 100 * groups[1].values("ece", scaler="readout")
    found = cells(table, "ECE (%)")["SAT + RS"]
    assert (found.mean, found.std) == pytest.approx((values.mean(), values.std(ddof=1)))


def test_posthoc_asks_for_published_numbers_by_scaler(tmp_path):
    make_run(tmp_path, experiment("ce"))
    asked = []
    performance_table(
        settings_of(tmp_path), published=lambda *how: asked.append(how[1:]), scaled=True
    )
    assert ("posthoc", "ece", "matrix") in asked
    assert ("posthoc", "ece", "readout") not in asked


def test_readings_stand_side_by_side(three):
    (groups,) = three.values()
    table = reading_table(three, "val")
    assert table.heads == (
        "Setting",
        "Method",
        "Metric",
        "answer",
        "abstain",
        "renormalize",
        "spread",
    )
    assert {row.keys[1] for row in table.rows} == {"Socrates"}
    for reading, cell in cells(table, "ECE (%)").items():
        assert cell.mean == pytest.approx(
            100 * groups[2].values("ece", split="val", reading=reading).mean()
        )


# Listings


def test_significance_is_that_of_the_family(three):
    table = significance_table(three)
    ce = cells(table, "Acc (%)", "CE")
    assert (ce["Reference"], ce["Seeds"].mean) == ("Socrates", 3)
    assert ce["Difference"].mean == pytest.approx(-1)
    rows = ([90.0, 92, 94], [91.0, 91, 91], [92.0, 93, 94])
    members = [Evidence(own, own) for own in (dict(enumerate(row)) for row in rows)]
    expected = Family(members, METRICS["accuracy"]).against(2, fixed=True)[0]
    assert (ce["95% from"].mean, ce["95% to"].mean) == (expected.low, expected.high)
    assert ce["p"].mean == expected.p
    assert ce["Verdict"] == "not shown by 3 seeds"


def test_without_socrates_the_best_mean_is_the_reference(tmp_path):
    for method, ece, accuracy in (("ce", 0.05, 0.95), ("focal", 0.02, 0.90), ("sat", 0.01, 0.99)):
        collapsed = "every answer is class 0" if method == "sat" else None
        make_run(
            tmp_path,
            experiment(method),
            test={"ece": ece, "accuracy": accuracy},
            collapsed=collapsed,
        )
    table = significance_table(settings_of(tmp_path))
    assert cells(table, "ECE (%)", "CE")["Reference"] == "Focal"
    assert cells(table, "Acc (%)", "Focal")["Reference"] == "CE"
    assert cells(table, "ECE (%)", "CE")["Verdict"] == "1 seed cannot tell"
    assert cells(table, "ECE (%)", "SAT")["Difference"].mark == "✕"


def test_of_several_socrates_the_best_is_the_reference_of_tables_and_page(tmp_path):
    for gamma, ece in ((1.0, 0.05), (2.0, 0.02), (3.0, 0.001)):
        bad = "every answer is class 0" if gamma == 3.0 else None
        test = {"ece": ece, "accuracy": 0.9 - ece}
        make_run(tmp_path, experiment("socrates", gamma=gamma), test=test, collapsed=bad)
    make_run(tmp_path, experiment("ce"), test={"ece": 0.01})
    settings = settings_of(tmp_path)
    (groups,) = settings.values()
    assert groups[reference(groups, "ece")].label == "Socrates γ=2"
    assert cells(significance_table(settings), "ECE (%)", "CE")["Reference"] == "Socrates γ=2"
    page = page_data(settings, answers_of(settings))["settings"][0]["tables"]["differences"][
        "answer"
    ]
    assert set(re.findall('data-words="(Socrates[^"]*)"', page)) == {"Socrates γ=2"}


def test_a_method_alone_has_no_differences(tmp_path):
    make_run(tmp_path, experiment("ce"))
    assert significance_table(settings_of(tmp_path)).rows == ()


def test_runs_one_line_each(tmp_path):
    directory = make_run(
        tmp_path, experiment("sat", 7), test={"accuracy": 0.5, "ece": 0.25}, collapsed="why"
    )
    settings = settings_of(tmp_path)
    (row,) = runs_table(settings).rows
    assert row.keys == (directory.name,)
    assert row.cells[:3] == ("digits, mlp, 6 epochs", "SAT", "7")
    assert [cell.text for cell in row.cells[3:6]] == ["6", "50.00", "25.00"]
    assert row.cells[6] == "why"
    ((group,),) = settings.values()
    assert row.cells[7].mean == pytest.approx(group.curve("seconds").sum())


def test_skipped_directories_with_their_reason():
    table = skipped_table([Skipped(Path("runs/a"), "unfinished: 2 of 6 epochs are done")])
    assert table.rows == (TableRow(("runs/a",), ("unfinished: 2 of 6 epochs are done",)),)
