"""`socrates audit`: the answer is right, the page and the JSON say the same, and pipelines can rely
on exit codes."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from haste import hasten
from socrates import metrics, scaling
from socrates.audit.answer import answer_of, lean, trust
from socrates.audit.compare import FileDifference
from socrates.audit.page import write_audit
from socrates.audit.run import audit, labels_of
from socrates.audit.tables import metrics_table
from socrates.cli import main
from socrates.cli.audit import broken, parse_limits
from socrates.cli.texts import in_flags


def calibrated(
    num_rows: int, num_classes: int, seed: int = 0, sharper: float = 1.0
) -> dict[str, np.ndarray]:
    """Predictions that are calibrated, or overconfident where `sharper` is above 1."""
    rng = np.random.default_rng(seed)
    logits = 4 * rng.normal(size=(num_rows, num_classes))
    probs = softmax(logits)
    labels = (probs.cumsum(axis=1) > rng.random((num_rows, 1))).argmax(axis=1)
    return {"probs": softmax(sharper * logits), "labels": labels}


def softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("predictions")
    made = {"honest": calibrated(1500, 3), "boastful": calibrated(1500, 3, sharper=2.0)}
    for name, arrays in made.items():
        np.savez(folder / f"{name}.npz", **arrays)
    top = made["boastful"]["probs"].max(axis=1)
    right = made["boastful"]["probs"].argmax(axis=1) == made["boastful"]["labels"]
    lines = [
        f"{c:.6f},{int(r)},{'day' if i % 3 else 'night'}"
        for i, (c, r) in enumerate(zip(top, right, strict=True))
    ]
    (folder / "answers.csv").write_text("\n".join(["confidence,correct,time", *lines]))
    return {path.stem: path for path in folder.iterdir()}


@pytest.fixture(scope="module")
def both(files: dict[str, Path]):
    return audit([files["honest"], files["boastful"]])


def test_the_answer_is_a_decision(both):
    honest, boastful = both.files
    assert (trust(honest), trust(boastful), lean(boastful)) == ("yes", "not yet", "surer")
    assert "1,500 rows" in answer_of(honest).headline
    assert "not trust" in answer_of(boastful).headline
    stated = boastful.sample.top().confidence.mean()
    said = answer_of(boastful).sentences[0]
    for share in (stated, boastful.values["accuracy"]):
        assert f"{100 * share:.1f}%" in said


def test_the_floor_is_a_mean_with_a_95_percent_point(both):
    for judged in both.files:
        assert judged.floor < judged.floor_95
        said = " ".join(answer_of(judged).evidence)
        for share in (judged.values["ece"], judged.floor, judged.floor_95):
            assert answer_share(share) in said
    top = both.files[0].sample.top()
    rng = np.random.default_rng(1)
    draws = [
        metrics.ece(metrics.Top(top.confidence, rng.random(len(top)) < top.confidence))
        for _ in range(400)
    ]
    assert np.mean(np.array(draws) > both.files[0].floor_95) == pytest.approx(0.05, abs=0.04)


def test_what_remains_after_scaling_is_judged_too(both):
    honest, boastful = both.files
    remaining = boastful.recalibrated.remaining
    assert remaining.p_value >= 0.05
    assert "mends it" in answer_of(boastful).sentences[1]
    said = " ".join(answer_of(boastful).evidence)
    for share in (boastful.recalibrated.before["ece"], remaining.ece, remaining.floor):
        assert answer_share(share) in said
    broken = replace(remaining, p_value=0.001, ece=remaining.floor + 0.03)
    judged = {**boastful.recalibrated.judged, boastful.recalibrated.winner: broken}
    worse = replace(boastful, recalibrated=replace(boastful.recalibrated, judged=judged))
    assert "does not mend it" in answer_of(worse).sentences[1]
    assert honest.recalibrated.winner == "none"


@pytest.mark.parametrize(
    ("over", "under", "side"),
    [(0.08, 0.01, "surer"), (0.01, 0.08, "less sure"), (0.05, 0.045, "both")],
)
def test_the_side_on_which_it_is_off(both, over, under, side):
    found = replace(both.files[1], direction=metrics.Direction(over=over, under=under))
    assert lean(found) == side
    chance = replace(found, gap_error=0.2)
    assert lean(chance) == "both"


def test_a_slight_error_asks_for_care_and_few_rows_for_more(both):
    honest, boastful = both.files
    slight = replace(boastful, values={**boastful.values, "ece": boastful.floor + 0.004})
    assert trust(slight) == "with care"
    wide = {**honest.intervals, "accuracy": metrics.Interval(0.9, 0.8, 0.95)}
    few = replace(honest, intervals=wide)
    assert trust(few) == "too few rows"
    assert "80.0% to 95.0%" in answer_of(few).sentences[0]


def answer_share(value: float) -> str:
    return f"{100 * value:.1f}%" if value >= 0.00995 else f"{100 * value:.2f}%"


def test_an_accuracy_that_the_scaler_changes_is_told(both):
    boastful = both.files[1]
    assert "accuracy from" not in " ".join(answer_of(boastful).evidence)
    numbers = {name: dict(of) for name, of in boastful.recalibrated.numbers.items()}
    numbers[boastful.recalibrated.winner]["accuracy"] = 0.5
    changed = replace(boastful, recalibrated=replace(boastful.recalibrated, numbers=numbers))
    assert re.search(r"the accuracy from [\d.]+% to 50.0%", " ".join(answer_of(changed).evidence))


@pytest.mark.slow
def test_no_file_is_better_beside_one_that_passes_its_own_test(tmp_path):
    rng = np.random.default_rng(0)
    scores = np.exp(rng.standard_normal((1000, 10)))
    blunt = scores / scores.sum(1, keepdims=True)
    labels = (blunt.cumsum(1) < rng.random((1000, 1))).sum(1).clip(0, 9)
    known = rng.random(1000) < 0.9
    sharp = np.where(known[:, None], np.eye(10)[labels] * (1 - 1e-7) + 1e-8, blunt)
    np.savez(tmp_path / "blunt.npz", probs=blunt, labels=labels)
    np.savez(tmp_path / "sharp.npz", probs=sharp / sharp.sum(1, keepdims=True), labels=labels)
    for names in (("blunt", "sharp"), ("sharp", "blunt")):
        both = audit([tmp_path / f"{name}.npz" for name in names])
        assert all(one.test.p_value > 0.05 for one in both.files)
        ece = next(one for one in both.differences if one.metric == "ece")
        assert ece.words not in ("better", "worse")
        assert both.choice is not None
        assert both.choice.use == ["sharp"]  # for its answers, not for its calibration
        assert not both.choice.failing
        written = write_audit(both, tmp_path / "out", "two files")
        pages = [path.read_text() for path in written if path.suffix in (".html", ".md")]
        text = f"{both.answer} {json.dumps(both.to_json())} {pages}"
        assert not re.search("(best|better) calibrated", text)


def test_every_number_is_that_of_the_metrics(both, files):
    with np.load(files["boastful"]) as arrays:
        probs, labels = arrays["probs"], arrays["labels"]
    found = both.files[1]
    for name in ("accuracy", "nll", "brier", "ece", "ada_ece", "cw_ece", "smooth_ece", "mce"):
        tolerance = found.measured.meter.ada_ece_bound() if name == "ada_ece" else 1e-9
        assert found.values[name] == pytest.approx(
            getattr(metrics, name)(probs, labels), abs=tolerance
        )
    assert found.intervals["ece"].low < found.values["ece"] < found.intervals["ece"].high
    assert found.direction.ece == pytest.approx(found.values["ece"])
    assert found.corp.score == pytest.approx(found.corp.mcb - found.corp.dsc + found.corp.unc)


def test_the_scaler_to_use_mends_what_is_broken_and_is_measured_on_rows_it_never_saw(both):
    made = both.files[1].recalibrated
    assert made.after["ece"] < 0.5 * made.before["ece"]
    assert made.parts["nll"].calibration == pytest.approx(
        made.before["nll"] - made.after["nll"], abs=1e-6
    )
    assert made.scaler is not None
    assert made.winner == "temperature"
    assert abs(both.files[0].recalibrated.parts["nll"].calibration) < 0.01


def test_files_are_compared_on_the_same_rows(both):
    by_metric = {one.metric: one for one in both.differences if not one.after_scaling}
    assert set(by_metric) == {"accuracy", "ece", "nll", "brier"}
    assert by_metric["accuracy"].value == 0  # sharper logits have the same order
    assert by_metric["accuracy"].words == "not shown"
    assert by_metric["ece"].words == by_metric["nll"].words == "worse"
    assert by_metric["ece"].low <= by_metric["ece"].value <= by_metric["ece"].high


@pytest.mark.usefixtures("hastened")
@pytest.mark.parametrize(("num_rows", "why"), [(35, "different rows"), (30, "different labels")])
def test_other_rows_are_not_compared(tmp_path, num_rows, why):
    np.savez(tmp_path / "some.npz", **calibrated(30, 3))
    np.savez(tmp_path / "other.npz", **calibrated(num_rows, 3, seed=3))
    made = audit([tmp_path / "some.npz", tmp_path / "other.npz"])
    assert not made.differences
    assert made.choice is None
    assert why in made.not_compared


def test_confidence_and_correctness_are_enough(files):
    made = audit([files["answers"]], reading={"groups": ("time",)})
    (found,) = made.files
    assert set(found.values) >= {"accuracy", "ece", "smooth_ece"}
    assert "nll" not in found.values
    assert found.recalibrated.after["ece"] < 0.5 * found.recalibrated.before["ece"]
    assert {gap.name for gap in found.groups["time"]} == {"day", "night"}


def sure_and_wrong(prediction, labels):
    return float(prediction.confidence[prediction.predicted != labels].mean())


@pytest.mark.usefixtures("hastened")
def test_a_metric_from_elsewhere_is_shown_where_it_can_be_computed(files, monkeypatch, capsys):
    names = ("sure_and_wrong", "Sure", "sure and wrong", "mean confidence of the wrong answers")
    mine = metrics.Metric(*names, sure_and_wrong)
    monkeypatch.setitem(metrics.METRICS, "sure_and_wrong", mine)
    whole, answers = audit([files["boastful"], files["answers"]]).files
    with np.load(files["boastful"]) as arrays:
        probs, labels = arrays["probs"], arrays["labels"]
    wrong = probs.argmax(axis=1) != labels
    expected = probs.max(axis=1)[wrong].mean()
    assert whole.values["sure_and_wrong"] == pytest.approx(expected)
    assert "sure_and_wrong" not in answers.values
    rows = metrics_table([whole, answers]).rows
    assert [row.keys[0] for row in rows if row.keys[1] == "Sure (%)"] == ["boastful"]
    assert main(["audit", str(files["boastful"]), "--json", "--fail-above", f"{names[0]}=0"]) == 1
    said = capsys.readouterr()
    assert json.loads(said.out)["metrics"]["sure_and_wrong"]["value"] == pytest.approx(expected)
    assert "sure_and_wrong is 0." in said.err


@pytest.fixture(scope="module")
def written(files, tmp_path_factory):
    out = tmp_path_factory.mktemp("page")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(out)
        hasten(patch)
        assert main(["audit", str(files["honest"]), str(files["boastful"]), "--out", "page"]) == 0
    return out / "page"


def test_the_page_answers_first(written):
    page = (written / "index.html").read_text()
    assert page.index("<h1>Use either") < page.index("<polyline") < page.index("<table>")
    assert "1,500 rows each" in page
    assert "Is the difference real?" in page
    assert "<dt>smooth ECE</dt>" in page
    # words that an audit does not say
    assert not re.search("<dt>(Focal|Gamblers|±)</dt>|over these seeds", page)
    names = {path.stem for path in (written / "tables").glob("*.csv")}
    assert names == {"metrics", "scalers", "decomposition", "worst", "differences", "reading"}


def test_the_winner_is_saved_and_can_be_used(written, files):
    (path,) = written.glob("boastful-*.npz")
    scaler = scaling.load(path)
    with np.load(files["boastful"]) as arrays:
        probs, labels = arrays["probs"], arrays["labels"]
    scaled = softmax(scaler(np.log(probs)))
    assert metrics.ece(scaled, labels) < 0.5 * metrics.ece(probs, labels)


@pytest.mark.usefixtures("hastened")
def test_json_stands_alone_on_standard_output(files, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["audit", str(files["boastful"]), "--json"]) == 0
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert said.out.count("\n") == 1
    assert (
        found["metrics"]["ece"]["low"]
        < found["metrics"]["ece"]["value"]
        < found["metrics"]["ece"]["high"]
    )
    assert found["calibration_test"]["p_value"] < 0.01
    assert found["rows"] == {"read": 1500, "left_out": 0, "why": None, "judged": 1500}
    assert not list(tmp_path.iterdir())


def test_json_of_several_files_has_them_by_name(both):
    found = json.loads(json.dumps(both.to_json(), allow_nan=False))
    assert set(found["files"]) == {"honest", "boastful"}
    assert found["differences"][1]["verdict"] == "worse"


def test_json_has_null_for_differences_that_are_no_numbers(both):
    lost = FileDifference("ece", "boastful", "honest", math.nan, math.nan, math.nan)
    (found,) = replace(both, differences=[lost]).to_json()["differences"]
    assert found["value"] is None


@pytest.mark.parametrize(
    ("limits", "level", "words"),
    [
        ((), None, []),
        (("ece=0.5",), None, []),
        (("ece=0.05",), None, ["boastful: ece is 0."]),
        (("nll=0.1", "ece=0.05"), None, ["honest: nll is", "boastful: nll is", "boastful: ece is"]),
        ((), 0.01, ["boastful: miscalibrated, p < 0.001, below 0.01"]),
    ],
)
def test_what_is_above_its_limit(both, limits, level, words):
    found = broken(both, parse_limits(limits), level)
    assert len(found) == len(words)
    assert all(line.startswith(start) for line, start in zip(found, words, strict=True))


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ("eces=0.05", "there is no metric 'eces', did you mean 'ece'?"),
        ("ece", "expected METRIC=NUMBER, such as ece=0.05"),
        ("accuracy=0.9", "more accuracy is better, expected one of"),
        ("ece=nan", "expected a finite number, such as ece=0.05"),
        ("ece=inf", "expected a finite number, such as ece=0.05"),
    ],
)
def test_a_limit_that_is_none_is_one_line_before_anything_is_read(capsys, limit, words):
    assert main(["audit", "nowhere.csv", "--fail-above", limit]) == 1
    assert words in capsys.readouterr().err


@pytest.mark.usefixtures("hastened")
def test_pipelines_can_rely_on_the_exit_status(files, capsys):
    assert main(["audit", str(files["answers"]), "--json", "--fail-above", "ece=0.05"]) == 1
    said = capsys.readouterr()
    assert said.err.startswith("failed: answers: ece is 0.")
    assert json.loads(said.out)["label"] == "answers"


@pytest.mark.usefixtures("hastened")
def test_a_limit_on_what_cannot_be_computed_fails(files, capsys):
    assert main(["audit", str(files["answers"]), "--json", "--fail-above", "nll=1"]) == 1
    assert re.search(r"\bnll\b.*\bconfidence\b", capsys.readouterr().err)


@pytest.mark.usefixtures("hastened")
def test_bad_rows_are_left_out_and_named_or_refused(tmp_path, capsys):
    (tmp_path / "some.csv").write_text("label,p0,p1\n0,0.9,0.1\n1,0.2,nan\n1,0.4,0.6\n0,0.7,0.3\n")
    assert main(["audit", str(tmp_path / "some.csv"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["rows"]["read"], found["rows"]["left_out"], found["rows"]["judged"]) == (4, 1, 3)
    assert "line 3" in found["rows"]["why"]
    assert main(["audit", str(tmp_path / "some.csv"), "--json", "--strict"]) == 1
    assert "line 3" in capsys.readouterr().err


@pytest.mark.usefixtures("hastened")
def test_a_handful_of_rows_is_judged_without_a_scaler(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("few.csv").write_text("label,p0,p1\n0,0.9,0.1\n1,0.4,0.6\n0,0.7,0.3\n")
    assert main(["audit", "few.csv"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    for fact in ("3 rows are too few", "at risk 0.05", "Decomposition", "2 classes (p0, p1)"):
        assert fact in said
    assert Path("audit/few/index.html").is_file()


def test_what_is_not_there_is_one_line(capsys):
    assert main(["audit", "nowhere.csv"]) == 1
    assert capsys.readouterr().err.startswith("error: nowhere.csv ")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("label,p0,p1\n0,-3,2\n1,-2,4\n", "if they are logits, say --kind logits"),
        ("label,a,b\n0,3,2\n1,2,4\n", "say --kind logits if they hold logits"),
        (
            "label,pred,p\n0,1,0.7\n1,1,0.9\n",
            "--kind confidence with --columns p if so, --kind probabilities if",
        ),
        ("label,p0,unknown\n0,0,1\n0,0,1\n", "say --unknown no"),
        (
            "p0,p1\n0.4,0.6\n",
            "file of labels, --labels FILE",
        ),
        ("label,x\n0,a\n", "--columns FIRST SECOND"),
        ("label,p\ncat,0.4\ndog,0.6\n", "--classes NEGATIVE POSITIVE"),
        (
            "label,p0,p1\ncat,0.4,0.6\n",
            "--classes FIRST SECOND",
        ),
        ("label,p0,p1\n\n", "some.csv holds no rows that can be read"),
    ],
)
def test_errors_of_the_command_name_what_is_typed(tmp_path, capsys, content, words):
    (tmp_path / "some.csv").write_text(content)
    options = ["--columns", "p0", "unknown", "--unknown", "yes"] if "unknown" in content else []
    assert main(["audit", str(tmp_path / "some.csv"), "--json", *options]) == 1
    assert words in capsys.readouterr().err


def test_names_of_files_are_left_as_they_are():
    for name in (
        "data/sample=3/p.csv is not there",
        "sample=3/p.csv is not there",
        "runs-seed=1.csv cannot be read",
    ):
        assert in_flags(name) == name


@pytest.mark.usefixtures("hastened")
def test_an_unknown_column_is_read_as_told(tmp_path, capsys):
    found = calibrated(60, 4)
    probs, labels = found["probs"], found["labels"] % 3
    np.savez(tmp_path / "model.npz", probs=probs, labels=labels)
    values = {}
    for reading in ("renormalize", "abstain"):
        command = [
            "audit",
            str(tmp_path / "model.npz"),
            "--json",
            "--unknown",
            "yes",
            "--reading",
            reading,
        ]
        assert main(command) == 0
        values[reading] = json.loads(capsys.readouterr().out)["metrics"]["ece"]["value"]
    known = probs[:, :3]
    assert values["renormalize"] == pytest.approx(
        metrics.ece(known / known.sum(axis=1, keepdims=True), labels)
    )
    top = metrics.Top.of(known.max(axis=1), known.argmax(axis=1) == labels)
    assert values["abstain"] == pytest.approx(metrics.ece(top))


@pytest.mark.usefixtures("hastened")
def test_weights_count(tmp_path, capsys):
    found = calibrated(200, 3, sharper=1.5)
    weight = np.random.default_rng(0).integers(0, 4, 200)
    np.savez(tmp_path / "weighted.npz", **found, sample_weight=weight)
    assert main(["audit", str(tmp_path / "weighted.npz"), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    for name in ("ece", "nll", "accuracy"):
        expected = getattr(metrics, name)(found["probs"], found["labels"], sample_weight=weight)
        assert said["metrics"][name]["value"] == pytest.approx(expected)
    assert "weights" in said["uncertified"]
    assert "nothing is certified" in said["answer"][-1].lower()


def test_files_have_names_of_their_own():
    assert labels_of(["a.csv", "a.npz"]) == ["a (1)", "a (2)"]
    assert labels_of(["x/a.npz", "x/y/a.npz"]) == ["a", "y"]
    assert labels_of(["one/a.npz", "two/a.npz"]) == ["one", "two"]
    assert labels_of(["v1.2.csv", "v1.3.CSV.gz", "parts.v2"]) == ["v1.2", "v1.3", "parts.v2"]


def test_the_folder_that_one_is_in_has_a_name(tmp_path, monkeypatch):
    (tmp_path / "parts" / "below").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "parts")
    assert labels_of(["."]) == labels_of(["below/.."]) == ["parts"]


@pytest.mark.usefixtures("hastened")
def test_json_has_no_numbers_that_json_does_not_know(files, capsys):
    assert main(["audit", str(files["answers"]), "--json", "--group", "time"]) == 0
    found = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert all(math.isfinite(gap["gap"]) for gap in found["groups"]["time"])


@pytest.mark.usefixtures("hastened")
def test_probabilities_of_zero_are_counted_and_told(tmp_path, capsys):
    found = calibrated(300, 3)
    found["probs"] = np.where(found["probs"] < 0.2, 0, found["probs"])
    found["probs"] /= found["probs"].sum(axis=1, keepdims=True)
    np.savez(tmp_path / "rounded.npz", **found)
    made = audit([tmp_path / "rounded.npz"])
    zeros = int((found["probs"][np.arange(300), found["labels"]] == 0).sum())
    assert zeros > 0
    assert f"{zeros} rows assign probability 0" in made.files[0].measured.notes[0]
    with pytest.warns(UserWarning, match="probability 0"):
        assert made.files[0].values["nll"] == pytest.approx(
            metrics.nll(found["probs"], found["labels"])
        )
    interval = made.files[0].intervals["nll"]
    assert interval.low < made.files[0].values["nll"] < interval.high


@pytest.mark.usefixtures("hastened")
def test_an_audit_of_a_sample_says_so(files, capsys):
    made = audit([files["honest"]], measuring={"sample": 400})
    (found,) = made.files
    assert len(found.sample) == 400
    assert re.search(r"\b400\b.*\b1,500\b", found.measured.notes[0])
    for name in (
        "floor",
        "direction",
        "smooth ECE",
        "decomposition",
        "risk and coverage",
        "certificate",
    ):
        assert name in found.measured.notes[0]
    with np.load(files["honest"]) as arrays:
        assert found.values["ece"] == pytest.approx(metrics.ece(arrays["probs"], arrays["labels"]))


@pytest.mark.usefixtures("hastened")
def test_groups_of_weighted_rows_are_those_of_all_rows(tmp_path, capsys):
    found = calibrated(600, 3, sharper=2)
    weight, site = 1 + np.arange(600) % 4, np.array(["north", "south"])[np.arange(600) % 7 // 4]
    np.savez(tmp_path / "weighted.npz", **found, sample_weight=weight, site=site)
    gaps = json_of(capsys, tmp_path / "weighted.npz", "--group", "site")["groups"]["site"]
    assert abs(gaps[0]["gap"]) >= abs(gaps[1]["gap"])
    for gap in gaps:
        rows = site == gap["name"]
        accuracy = metrics.accuracy(
            found["probs"][rows], found["labels"][rows], sample_weight=weight[rows]
        )
        assert (gap["count"], gap["accuracy"], gap["low"]) == (
            rows.sum(),
            pytest.approx(accuracy),
            None,
        )


def json_of(capsys, *words: object) -> dict:
    assert main(["audit", *map(str, words), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.usefixtures("hastened")
def test_a_label_of_probability_0_counts_everywhere_as_much_and_is_told(tmp_path, capsys):
    found = calibrated(400, 3)
    np.savez(
        tmp_path / "hard.npz",
        probs=np.eye(3)[found["probs"].argmax(axis=1)],
        labels=found["labels"],
    )
    said = json_of(capsys, tmp_path / "hard.npz")
    nll = said["metrics"]["nll"]
    assert nll["low"] < nll["value"] < nll["high"]
    wrong = round(400 * (1 - said["metrics"]["accuracy"]["value"]))
    assert said["notes"] == [
        f"{wrong} rows assign probability 0 to their label, which the NLL counts as 2.2e-16"
    ]


def test_masked_logits_are_judged(tmp_path, capsys):
    found = calibrated(400, 3)
    logits = np.log(found["probs"])
    masked = np.arange(400)[found["labels"] != 2][::3]
    logits[masked, 2] = -np.inf
    np.savez(tmp_path / "masked.npz", logits=logits, labels=found["labels"])
    said = json_of(capsys, tmp_path / "masked.npz")
    assert said["metrics"]["nll"]["low"] < said["metrics"]["nll"]["value"]
    assert len(said["scalers"]) > 3


@pytest.mark.usefixtures("hastened")
@pytest.mark.parametrize(
    ("rows", "why"), [(1, "1 row is too few"), (100, "all rows to fit a scaler on are of one")]
)
def test_why_no_scaler_was_tried_is_the_reason(tmp_path, capsys, rows, why):
    np.savez(tmp_path / "same.npz", probs=calibrated(rows, 3)["probs"], labels=np.ones(rows, int))
    assert why in json_of(capsys, tmp_path / "same.npz")["answer"][2].lower()


def test_a_scaler_that_may_be_chance_is_not_recommended(tmp_path, capsys):
    np.savez(tmp_path / "few.npz", **calibrated(100, 3, seed=4))
    said = json_of(capsys, tmp_path / "few.npz")
    assert said["scalers"]["temperature"]["nll"] > said["scalers"]["none"]["nll"]
    assert said["scaler_to_use"] == "none"


@pytest.mark.usefixtures("hastened")
def test_files_are_paired_without_the_rows_that_are_bad_in_one(files, tmp_path):
    with np.load(files["honest"]) as stored:
        arrays = dict(stored)
    arrays["probs"][7] = np.nan
    np.savez(tmp_path / "holes.npz", **arrays)
    made = audit([files["honest"], tmp_path / "holes.npz"])
    assert [one.value for one in made.differences[:4]] == [0, 0, 0, 0]
    assert made.differences[4].value == pytest.approx(0, abs=0.005)  # fitted on other rows


@pytest.mark.thorough
def test_the_bins_that_are_asked_for_are_those_of_all_numbers(files):
    made = audit([files["honest"], files["boastful"]], measuring={"num_bins": 60})
    first, second = made.files
    (difference,) = (one for one in made.differences if one.metric == "ece")
    tops = (second.sample.top(), first.sample.top())
    assert difference.value == pytest.approx(metrics.compare_excess(*tops, num_bins=60).value)
    ours = first.sample
    assert ours.ece() == pytest.approx(metrics.ece(ours.top(), num_bins=60))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--risk", "2"], "--risk 2, expected a share between 0 and 1"),
        (["--delta", "0"], "--delta 0, expected a share between 0 and 1"),
        (["--sample", "0"], "--sample 0, expected an integer >= 1"),
        (["--workers", "0"], "--workers 0, expected an integer >= 1"),
        (["--num-bins", "0"], "--num-bins 0, expected an integer >= 1"),
        (
            ["--fail-if-miscalibrated", "0.000001"],
            "--fail-if-miscalibrated 1e-06: expected a level from 0.001 to 1",
        ),
        (
            ["--fail-if-miscalibrated", "nan"],
            "--fail-if-miscalibrated nan: expected a level from 0.001 to 1",
        ),
        (
            ["--fail-if-miscalibrated", "1"],
            "--fail-if-miscalibrated 1: expected a level from 0.001 to 1",
        ),
        (["--out", "taken"], "taken is a file, expected a folder"),
    ],
)
def test_options_that_make_no_sense_are_one_line(
    files, tmp_path, monkeypatch, capsys, options, words
):
    monkeypatch.chdir(tmp_path)
    Path("taken").touch()
    assert main(["audit", str(files["honest"]), "--json", *options]) == 1
    assert words in capsys.readouterr().err
