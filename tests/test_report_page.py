"""The report's page as data and as text: numbers, marks, escaping, size."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import json
import re

import numpy as np
import pytest
from report_runs import experiment, make_run

from socrates.experiment import Part
from socrates.report.aggregate import Skipped, find_runs, group_runs, read_runs
from socrates.report.page import page_data, render, write_page
from socrates.report.pagetables import COLUMNS, SCALERS, difference_cell
from socrates.report.statistics import Difference


def command(asked):
    return f"socrates train {asked.method.name} --seed {asked.seed}"


def data_of(root):
    runs, skipped = read_runs(find_runs(root))
    return page_data(group_runs(runs), skipped, command=command)


def unpacked(html, name):
    code = re.search(rf'id="{name}">([^<]*)<', html).group(1)
    return gzip.decompress(base64.b64decode(code)).decode()


@pytest.fixture
def three(tmp_path):
    """Two seeds each of three methods, one of them collapsed; accuracy and ECE by hand."""
    for method, accuracy, ece in (("ce", 0.90, 0.10), ("socrates", 0.92, 0.02), ("sat", 0.10, 0.01)):
        for seed in (1, 2):
            test = {"accuracy": accuracy + 0.01 * seed, "ece": ece}
            bad = "100 % of the answers are 'unknown'" if (method, seed) == ("sat", 2) else None
            make_run(tmp_path, experiment(method, seed), test=test, collapsed=bad)
    return data_of(tmp_path)


def cells_of(data, label):
    (place,) = [i for i, method in enumerate(data["settings"][0]["methods"]) if method["label"] == label]
    return data["settings"][0]["overview"]["answer"][place]


def test_counts(three):
    assert three["counts"] == {"runs": 6, "methods": 3, "seeds": 2, "settings": 1}


def test_overview_has_mean_and_deviation_over_seeds(three):
    accuracy, ece, *_ = cells_of(three, "CE")
    assert accuracy == ["91.50 ± 0.71", 91.5, "second"]
    assert ece == ["10.00 ± 0.00", 10.0, "second"]
    assert cells_of(three, "Socrates")[0] == ["93.50 ± 0.71", 93.5, "best"]


def test_a_collapsed_method_is_marked_and_never_best(three):
    *metrics, seeds, collapse = cells_of(three, "SAT")
    assert metrics[1] == ["1.00 ± 0.00", 1.0, ""]  # the lowest ECE, and means nothing
    assert seeds == ["2", 2, ""]
    assert collapse == ["1 of 2", 1, "bad"]
    method = next(method for method in three["settings"][0]["methods"] if method["label"] == "SAT")
    assert method["collapsed"] == "100 % of the answers are 'unknown'"
    on_front = [three["settings"][0]["methods"][i]["label"] for i in three["settings"][0]["pareto"]["front"]["answer"]]
    assert on_front == ["Socrates"]


def test_pareto_paths_are_percent_at_each_epoch(three):
    pareto = three["settings"][0]["pareto"]
    assert pareto["epochs"] == [1, 2, 3, 4, 5, 6]
    assert pareto["acceptable"] == 10
    assert len(pareto["paths"]) == 3
    for path in pareto["paths"]:
        assert np.allclose(np.array(path["ece"]), 0.3 * np.array(path["error"]), rtol=1e-4)


def test_panels_belong_to_the_methods_that_have_them(three):
    setting = three["settings"][0]
    with_unknown = {i for i, method in enumerate(setting["methods"]) if method["unknown"]}
    assert {setting["methods"][i]["label"] for i in with_unknown} == {"SAT", "Socrates"}
    for panel in (*setting["unknown"], *setting["evolution"]):
        assert {curve["method"] for curve in panel["curves"]} == with_unknown
    assert [panel["title"] for panel in setting["evolution"]] == ["Mean β", "Mean target t"]
    assert all(len(panel["curves"]) == 3 for panel in setting["curves"])


def test_reliability_keeps_filled_bins_of_every_reading(three):
    for readings in three["settings"][0]["reliability"]:
        assert set(readings) == {"answer", "abstain", "renormalize", "spread"}
        for found in readings.values():
            assert found["count"] == 400
            assert sum(found["share"]) == pytest.approx(1, abs=1e-3)
            assert np.all(np.array(found["low"]) <= found["confidence"])
            assert np.all(np.array(found["high"]) >= found["confidence"])


def test_scaling_shows_every_scaler_and_the_readout_only_where_there_is_one(three):
    scaling = three["settings"][0]["scaling"]["answer"]
    assert scaling["scalers"] == list(SCALERS)
    labels = [method["label"] for method in three["settings"][0]["methods"]]
    ce, socrates = scaling["rows"][labels.index("CE")], scaling["rows"][labels.index("Socrates")]
    assert ce[4] == ["–", None, ""]
    assert socrates[4][0] == "2.00 ± 0.00"


def test_differences_are_read_from_the_chosen_reference(three):
    setting = three["settings"][0]
    labels = [method["label"] for method in setting["methods"]]
    socrates, ce = labels.index("Socrates"), labels.index("CE")
    assert setting["reference"] == socrates
    accuracy, ece = (table[socrates][ce] for table in setting["differences"]["answer"])
    assert accuracy == ["−2.00 (−2.00 to −2.00)", "worse", "worse", 2]
    assert ece == ["+8.00 (+8.00 to +8.00)", "worse", "worse", 2]
    assert setting["differences"]["answer"][1][ce][socrates][1] == "better"


@pytest.mark.parametrize(
    ("found", "p", "verdict"),
    [
        (Difference(1.0, 0.5, 1.5, 0.01, 5), 0.02, "worse"),
        (Difference(1.0, 0.5, 1.5, 0.01, 5), 0.2, "within seed noise"),  # as Holm's rule corrected it
        (Difference(1.0, float("nan"), float("nan"), float("nan"), 1), float("nan"), "one seed: unknown"),
        (Difference(float("nan"), float("nan"), float("nan"), float("nan"), 0), float("nan"), "no common seed"),
    ],
)
def test_verdict(found, p, verdict):
    assert difference_cell(found, p, COLUMNS[1])[1] == verdict


def test_runs_carry_configuration_and_command(three):
    run = next(run for run in three["settings"][0]["runs"] if run["collapsed"])
    assert run["command"] == "socrates train sat --seed 2"
    assert run["experiment"]["method"] == {"name": "sat", "options": {}}
    assert run["epochs"] == 6


def test_long_curves_are_thinned_and_keep_both_ends(tmp_path):
    make_run(tmp_path, experiment("ce", epochs=400, keep_every=400))
    setting = data_of(tmp_path)["settings"][0]
    epochs = setting["methods"][0]["epochs"]
    assert len(epochs) == 150
    assert (epochs[0], epochs[-1]) == (1, 400)
    assert all(len(curve["mean"]) == 150 for panel in setting["curves"] for curve in panel["curves"])
    assert "low" not in setting["curves"][0]["curves"][0]  # one run has no band
    assert len(setting["pareto"]["epochs"]) <= 62


def test_a_diverged_run_has_no_numbers_and_breaks_nothing(tmp_path):
    make_run(tmp_path, experiment("ce"))
    directory = make_run(tmp_path, experiment("focal"), collapsed="the logits are not finite")
    evaluation = json.loads((directory / "evaluation.json").read_text())
    (directory / "evaluation.json").write_text(
        json.dumps({**evaluation, "results": {}, "skipped": {"none": "diverged"}})
    )
    data = data_of(tmp_path)
    assert [cell[0] for cell in cells_of(data, "Focal")[:7]] == ["–"] * 7
    assert "packed-data" in render(data, "t")


def test_nothing_from_a_run_becomes_markup(tmp_path):
    evil = '</script><script>alert("x")</script>'
    make_run(tmp_path, experiment(f"my:Loss{evil}"), collapsed=evil)
    make_run(tmp_path, dataclasses.replace(experiment("ce", note=evil), dataset=Part(f"d{evil}")))
    runs, _ = read_runs(find_runs(tmp_path))
    skipped = [Skipped(tmp_path / "<img src=x onerror=alert(1)>", f"damaged: {evil}")]
    data = page_data(group_runs(runs), skipped, command=lambda _: evil)
    html = render(data, f"title {evil}", f"note {evil}")
    assert "alert(" not in html.replace("alert(&quot;x&quot;)", "").replace("onerror=alert(1)&gt;", "")
    assert "<img" not in html
    assert json.loads(unpacked(html, "packed-data")) == data
    assert html.count("<script") == html.count("</script>")


def test_without_runs_there_is_still_a_page(tmp_path):
    write_page(tmp_path / "new" / "index.html", page_data({}, [Skipped(tmp_path, "empty")], command=command), "Nothing")
    html = (tmp_path / "new" / "index.html").read_text()
    assert "There is nothing to compare yet." in html
    assert "packed-plotly" not in html


def test_the_overview_is_there_before_any_script(three):
    html = render(three, "Report", "laptop scale")
    before = html[: html.index('id="packed-data"')]
    assert "Socrates</th>" in before
    assert "laptop scale" in before
    assert '93.50<span class="pm">' in before
    assert "http://" not in before.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in before


def test_fifty_runs_of_300_epochs_stay_small(tmp_path):
    for method in ("socrates", "sat", "gamblers", "ce", "brier", "focal", "flsd", "mc", "ce_dece", "ccl_sc"):
        for seed in range(1, 6):
            make_run(tmp_path / "runs", experiment(method, seed, epochs=300, keep_every=300))
    write_page(tmp_path / "index.html", data_of(tmp_path / "runs"), "Large")
    assert (tmp_path / "index.html").stat().st_size < 3_500_000
