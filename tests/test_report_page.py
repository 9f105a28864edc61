"""The report's page as data and as text: numbers, marks, escaping, size."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import hashlib
import json
import re
from html import escape
from importlib import resources

import numpy as np
import pytest
from report_runs import experiment, make_run

from signing import resign
from socrates.experiment import Part
from socrates.report.aggregate import Skipped, find_runs, group_runs, read_runs
from socrates.report.answer import answers_of
from socrates.report.page import TEACHING, render, write_page
from socrates.report.study_page import agreement, page_data
from socrates.report.tables import Cell, Table, TableRow, to_html


def command(asked):
    return f"socrates train {asked.method.name} --seed {asked.seed}"


def settings_of(root):
    runs, skipped = read_runs(find_runs(root))
    return group_runs(runs), skipped


def data_of(root):
    settings, skipped = settings_of(root)
    return page_data(settings, answers_of(settings), skipped, command=command)


def unpacked(html, name):
    code = re.search(rf'id="{name}">([^<]*)<', html).group(1)
    return gzip.decompress(base64.b64decode(code)).decode()


def labels_of(data):
    """The methods of the first setting, by their place."""
    found = re.findall(
        r'<button type="button" data-method="(\d+)"[^>]*><svg.*?</svg>(.*?)</button>',
        first(data)["html"],
    )
    return [label for _, label in sorted(set(found), key=lambda entry: int(entry[0]))]


def first(data):
    return data["settings"][0]


def traces(data, chart, reading="answer"):
    return first(data)["charts"][chart]["figures"][reading]["data"]


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    """Two seeds each of three methods, one of which collapsed; accuracy and ECE by hand."""
    root = tmp_path_factory.mktemp("three")
    for method, accuracy, ece in (
        ("ce", 0.90, 0.10),
        ("socrates", 0.92, 0.02),
        ("sat", 0.10, 0.01),
    ):
        for seed in (1, 2):
            test = {"accuracy": accuracy + 0.01 * seed, "ece": ece}
            bad = "100 % of the answers are 'unknown'" if method == "sat" else None
            make_run(root, experiment(method, seed), test=test, collapsed=bad)
    return data_of(root)


def test_counts(three):
    assert three["counts"] == {"runs": 6, "seeds": 2, "test images": 200}
    assert labels_of(three) == ["CE", "SAT", "Socrates"]


def test_tables_are_those_of_the_report(three):
    overview = first(three)["tables"]["overview"]["answer"]
    assert '<td class="" data-head="Acc (%)" data-value="93.5">93.50<span class="pm">' in overview
    assert '<tr class="collapsed">' in overview
    assert "100 % of the answers are &#39;unknown&#39;" in overview
    assert set(first(three)["tables"]["overview"]) == {"answer", "abstain", "renormalize", "spread"}
    assert ">+ RS</th>" in first(three)["tables"]["scaling"]["answer"]


def test_a_collapsed_method_is_never_on_the_front(three):
    rings = {
        trace["meta"]: trace["marker"]["line"]["color"] for trace in traces(three, "final")[1::2]
    }
    assert rings == {0: "card", 1: "card", 2: "ink"}


def test_pareto_paths_are_percent_at_each_epoch(three):
    paths = traces(three, "paths")
    assert [trace["cut"] for trace in paths] == ["until", "at"] * 3
    for trace in paths[::2]:
        epochs, error, ece = np.array(trace["customdata"]).T
        # the error of the first is more than twice the last one
        assert epochs.tolist() == [2, 3, 4, 5, 6]
        np.testing.assert_allclose(ece, 0.3 * error, rtol=1e-4)
        np.testing.assert_allclose(error, trace["x"])
    # all are far below 10 %
    assert first(three)["charts"]["paths"]["figures"]["answer"]["layout"]["shapes"] == []


def test_panels_belong_to_the_methods_that_have_them(three):
    charts = first(three)["charts"]
    assert {trace["meta"] for trace in charts["beta"]["figures"]["answer"]["data"]} == {2}
    for name in ("target", "unknown_share", "confidence_true_right"):
        # SAT and Socrates
        assert {trace["meta"] for trace in charts[name]["figures"]["answer"]["data"]} == {1, 2}
    for name in ("train_loss", "val_loss", "val_nll", "train_accuracy", "val_accuracy", "val_ece"):
        assert {trace["meta"] for trace in charts[name]["figures"]["answer"]["data"]} == {0, 1, 2}
    assert "leaves it out" in first(three)["html"]  # what the validation NLL does with unknown


def test_curves_have_both_axes_where_a_logarithm_suits_them(three):
    charts = first(three)["charts"]
    assert charts["val_ece"]["figures"]["answer"]["layout"]["yaxis"]["type"] == "log"
    assert charts["val_ece"]["linear"]["tickformat"] == ".3~g"
    assert charts["val_accuracy"]["linear"] is None


def test_reliability_keeps_filled_bins_of_every_reading(three):
    for place, label in enumerate(labels_of(three)):
        chart = first(three)["charts"][f"reliability-{place}"]
        readings = {"answer"} if label == "CE" else {"answer", "abstain", "renormalize", "spread"}
        assert set(chart["figures"]) == set(chart["captions"]) == readings
        for reading in readings:
            points = traces(three, f"reliability-{place}", reading)[3]
            confidence, _, low, high, share, _ = np.array(points["customdata"]).T
            assert share.sum() == pytest.approx(1, abs=1e-3)
            assert np.all((low <= confidence) & (confidence <= high))
            assert re.fullmatch(
                r"ECE \d+\.\d\d%, floor 2\.00%; .+ by .+ points(, within chance)?",
                chart["captions"][reading],
            )


def test_scaling_shows_every_scaler_and_the_readout_only_where_there_is_one(three):
    shown = {
        trace["meta"]: trace["text"]
        for trace in traces(three, "scaling")
        if trace["mode"] == "markers"
    }
    plain = ["unscaled", "temperature scaling", "vector scaling", "matrix scaling"]
    assert shown == {0: plain, 1: [*plain, "readout scaling"], 2: [*plain, "readout scaling"]}


def test_a_method_alone_has_nothing_to_compare(tmp_path):
    make_run(tmp_path, experiment("brier"), test={"ece": 0.01})
    data = data_of(tmp_path)
    assert 'id="differences"' not in first(data)["html"]
    assert "is the difference real?" not in first(data)["screen"]
    assert "<h1>" in first(data)["screen"]


def test_readings_that_agree_are_said_to(tmp_path):
    make_run(tmp_path / "apart", experiment("sat"), skill=1.0)
    ((group,),) = settings_of(tmp_path / "apart")[0].values()
    assert re.fullmatch(
        r"\d+ of 200 answers are “unknown”: between the 4 readings accuracy or ECE moves .*",
        agreement([group]),
    )
    tmp_path /= "alike"
    make_run(
        tmp_path, experiment("socrates"), test={"ece": 0.01, "accuracy": 0.9, "unknown_share": 0.0}
    )
    ((group,),) = settings_of(tmp_path)[0].values()
    assert agreement([group]).startswith("0 of 200 answers are “unknown”: the 4 readings agree")


def test_collapsed_runs_do_not_speak_for_the_unknown_class(tmp_path):
    values = {"ece": 0.01, "accuracy": 0.9, "unknown_share": 0.0}
    make_run(tmp_path, experiment("socrates"), test=values)
    make_run(tmp_path, experiment("gamblers"), skill=0.1, collapsed="all answers are unknown")
    (members,) = settings_of(tmp_path)[0].values()
    assert agreement(members).startswith("0 of 200 answers")
    assert agreement([item for item in members if item.collapses]) == ""


def test_every_chart_has_a_text_alternative(three):
    html = first(three)["html"]
    charts = re.findall(r'data-chart="([^"]+)" role="img" aria-labelledby="([^"]+)"', html)
    assert {name for name, _ in charts} == set(first(three)["charts"])
    for _, ids in charts:
        texts = [re.search(rf'id="{part}">([^<]*)<', html).group(1) for part in ids.split()]
        assert texts[0]
        assert texts[2]


def test_how_to_read_is_taught_once_and_not_above_each_chart(three):
    html = first(three)["html"]
    guide = html[html.index('id="guide"') : html.index("</details>")]
    for name in ("paths", "final", "val_ece", "beta", "scaling"):
        assert html.count(escape(TEACHING[name])) == guide.count(escape(TEACHING[name])) == 1
    shown = re.findall(r'<p class="how">([^<]*)</p>', html)
    assert len(shown) > 6
    assert all(len(words) < 90 for words in shown)


def test_sections_with_nothing_to_show_are_left_out(tmp_path):
    make_run(tmp_path, experiment("ce"))
    make_run(tmp_path, experiment("brier"))
    html = first(data_of(tmp_path))["html"]
    assert "#unknown" not in html
    assert 'id="evolution"' not in html
    assert 'id="curves"' in html


def test_one_trail_is_drawn_that_of_socrates_unless_another_is_chosen(three):
    assert labels_of(three)[first(three)["trail"]] == "Socrates"


def test_names_are_indented_only_where_they_have_a_swatch():
    table = Table("t", "T", ("Metric", "Method", "ECE"), (TableRow(("Acc", "CE"), (Cell(1.0),)),))
    methods = {"CE": {"place": 0, "marker": "s", "collapsed": ""}}
    heads = re.findall(r'<th scope="col" class="([^"]*)"', to_html(table, methods=methods))
    assert ["swatched" in head for head in heads] == [False, True, False]


def test_files_are_linked_from_the_page(tmp_path):
    make_run(tmp_path, experiment("ce"))
    settings, skipped = settings_of(tmp_path)
    files = ["tables/runs.md", "tables/runs.csv", "figures/nll.pdf"]
    data = page_data(settings, answers_of(settings), skipped, files=files)
    html = render(data, "t")
    assert 'href="tables/runs.csv"' in html
    assert 'href="figures/nll.pdf"' in html


def test_runs_carry_configuration_and_command(three):
    _, run = re.findall(
        r'<details[^>]* class="run collapsed">.*?</details>', first(three)["html"], re.S
    )
    assert "socrates train sat --seed 2" in run
    assert '<span class="wide">6 epochs</span>' in run
    assert "&#34;learning_rate&#34;: 0.1" in run


def test_long_curves_are_thinned_and_keep_both_ends(tmp_path):
    make_run(tmp_path, experiment("ce", epochs=400, keep_every=400))
    data = data_of(tmp_path)
    (curve,) = traces(data, "val_loss")  # one run has no band
    assert len(curve["x"]) == len(curve["y"]) == 150
    assert (curve["x"][0], curve["x"][-1]) == (1, 400)
    assert len(traces(data, "paths")[0]["x"]) <= 62


def test_a_diverged_run_has_no_numbers_and_breaks_nothing(tmp_path):
    make_run(tmp_path, experiment("ce"))
    directory = make_run(tmp_path, experiment("focal"), collapsed="the logits are not finite")
    resign(
        directory / "evaluation.json",
        lambda plain: plain.update(results={}, skipped={"none": "diverged"}),
    )
    data = data_of(tmp_path)
    focal = re.search(r"Focal<small.*?</tr>", first(data)["tables"]["overview"]["answer"]).group()
    assert len(re.findall('<td class=""[^>]*>–', focal)) == 7
    assert "packed-data" in render(data, "t")


def test_nothing_from_a_run_becomes_markup(tmp_path):
    evil = '</script><script>alert("x")</script>'
    make_run(tmp_path, experiment(f"my:Loss{evil}"), collapsed=evil)
    make_run(tmp_path, dataclasses.replace(experiment("ce", note=evil), dataset=Part(f"d{evil}")))
    settings, _ = settings_of(tmp_path)
    skipped = [Skipped(tmp_path / "<img src=x onerror=alert(1)>", f"damaged: {evil}")]
    data = page_data(settings, answers_of(settings), skipped, command=lambda _: evil)
    html = render(data, f"title {evil}", f"note {evil}")
    harmless = ("alert(&#34;x&#34;)", r"alert(\&#34;x\&#34;)", "alert(_x_)", "onerror=alert(1)&gt;")
    assert "alert(" not in re.sub("|".join(map(re.escape, harmless)), "", html)
    assert "<img" not in html
    assert json.loads(unpacked(html, "packed-data")) == data
    assert html.count("<script") == html.count("</script>")


def test_without_runs_there_is_still_a_page(tmp_path):
    write_page(
        tmp_path / "new" / "index.html",
        page_data({}, {}, [Skipped(tmp_path, "empty")], command=command),
        "Nothing",
    )
    html = (tmp_path / "new" / "index.html").read_text()
    assert "There is nothing to compare yet." in html
    assert "packed-plotly" not in html


def test_the_overview_is_there_before_any_script(three):
    html = render(three, "Report", "laptop scale")
    before = html[: html.index('id="packed-data"')]
    assert "</svg>Socrates</th>" in before
    assert "laptop scale" in before
    assert '93.50<span class="pm">' in before
    assert "http://" not in before.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in before


@pytest.mark.slow
def test_fifty_runs_of_300_epochs_stay_small(tmp_path):
    for method in (
        "socrates",
        "sat",
        "gamblers",
        "ce",
        "brier",
        "focal",
        "flsd",
        "mc",
        "ce_dece",
        "ccl_sc",
    ):
        for seed in range(1, 6):
            make_run(tmp_path / "runs", experiment(method, seed, epochs=300, keep_every=300))
    write_page(tmp_path / "index.html", data_of(tmp_path / "runs"), "Large")
    assert (tmp_path / "index.html").stat().st_size < 3_500_000


def test_swatches_of_a_table_show_the_marker_of_each_method():
    methods = {
        "CE": {"place": 0, "marker": "s", "collapsed": ""},
        "SAT": {"place": 1, "marker": "D", "collapsed": ""},
    }
    table = Table(
        "t", "T", ("Method", "ECE"), tuple(TableRow((name,), (Cell(1.0),)) for name in methods)
    )
    outlines = re.findall(
        r'<path d="([^"]+)" style="fill:var\(--m(\d)\)"', to_html(table, methods=methods)
    )
    assert [place for _, place in outlines] == ["0", "1"]
    assert len({outline for outline, _ in outlines}) == 2


@pytest.mark.slow
def test_a_page_of_twenty_runs_is_small(tmp_path):
    for method in ("ce", "brier", "focal", "socrates"):
        for seed in range(1, 6):
            make_run(tmp_path, experiment(method, seed))
    assert len(render(data_of(tmp_path), "Four losses")) < 2_500_000


def test_a_browser_may_run_the_scripts_of_the_page_and_no_other(three, tmp_path):
    write_page(tmp_path / "index.html", three, "A report")
    text = (tmp_path / "index.html").read_text(encoding="utf-8")
    (allowed,) = re.findall(r"script-src ([^;]*);", text)
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    assert len(scripts) == 2
    for script in scripts:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in allowed.split()
    assert len(allowed.split()) == 3  # these, and the library of the charts


FALSE_SENTENCES = (
    r"overlap\b",  # intervals that overlap may still differ
    "cannot be improved",
    "near its floor",
    "no difference can be shown",
    "more than chance",
    "within seed noise",
)


def test_no_asset_has_a_sentence_that_was_found_false():
    assets = resources.files("socrates.report") / "assets"
    texts = [path.read_text("utf-8") for path in assets.iterdir() if path.suffix != ".mplstyle"]
    for text in texts:
        assert not re.search("|".join(FALSE_SENTENCES), text)
