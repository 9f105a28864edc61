"""The model card: where it is written, and its picture in its method's colour, and whole."""

from __future__ import annotations

import html
import json
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from socrates import metrics, models
from socrates.contracts import Preparation
from socrates.metrics import predict
from socrates.predictor import Description, Predictor
from socrates.predictor.card import as_text, card_text, measure_on_test, write_card, write_diagram
from socrates.report.style import method_colour


@pytest.mark.parametrize("method", ["socrates alpha=0.99 gamma=2.0", "ce", "focal gamma=1"])
def test_the_picture_has_the_colour_of_its_method(method: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    labels = torch.arange(300) % 3
    logits = 3 * torch.randn(300, 3) + 3 * torch.nn.functional.one_hot(labels, 3)
    write_diagram(predict(logits), labels, method, tmp_path / "reliability.png")
    pixels = np.array(Image.open(tmp_path / "reliability.png").convert("RGB"))
    dots = (pixels == [*bytes.fromhex(method_colour(method.split(" ")[0])[1:])]).all(axis=2)
    assert dots.sum() > 100
    border = np.concatenate([pixels[:, 0], pixels[:, -1], pixels[0], pixels[-1]])
    assert (border == 255).all()  # neither title nor legend is cut off


def test_the_intervals_of_a_card_are_those_of_the_metrics() -> None:
    labels = torch.arange(80) % 2
    prediction = predict(torch.randn(80, 2))
    measured = measure_on_test(prediction, labels)
    assert measured["accuracy"].interval == metrics.bootstrap(metrics.accuracy, prediction, labels)
    assert measured["ece"].interval == metrics.bootstrap(metrics.ece, prediction, labels)


def test_a_readme_that_is_no_card_stays(tmp_path: Path) -> None:
    about = Description(
        "cnn", {}, 2, (3, 8, 8), ("cat", "dog"), Preparation((0.5,) * 3, (0.2,) * 3)
    )
    predictor, file = Predictor(models.build("cnn", 2, (3, 8, 8)), about), tmp_path / "model.onnx"
    readme = tmp_path / "README.md"
    assert write_card(predictor, file, "onnx") == readme
    assert "InferenceSession" in readme.read_text(encoding="utf-8")
    assert write_card(predictor, file, "torch") == readme  # a card gives way to a newer one
    assert "torch.export.load" in readme.read_text(encoding="utf-8")
    readme.write_text("# My project", encoding="utf-8")
    assert write_card(predictor, file, "onnx") == tmp_path / "model.md"
    assert readme.read_text(encoding="utf-8") == "# My project"


HOSTILE = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "a|b",
    "line\nbreak\n\n# Forged heading",
    "[x](http://y)",
    "![x](javascript:alert(1))",
    "`code`",
    "``` \n<b>",
    "*bold* _it_ ~~no~~ $x$",
    "---",
    "- item",
    "1. item",
    "12) item",
    "# heading #",
    "> quote",
    "&lt;b&gt;",
    "back\\",
    "\\|",
    "http://y www.y.org a@y.org",
    "quote\" 'x' {0}",
    "next\x85line\u2028and\u202eback\x1b",
    "ünïcode 😀",
    "key: [value",
)


def rendered(text: str) -> str:
    """Return the HTML of a text, by a renderer that lets HTML through."""
    markdown_it = pytest.importorskip("markdown_it")
    return (
        markdown_it.MarkdownIt("commonmark", {"html": True})
        .enable(["table", "strikethrough"])
        .render(text)
    )


@cache
def hostile_card(name: str, classes: tuple[str, ...]) -> str:
    """Return a card with test results in which every text that a file can bring along is this
    name."""
    about = Description(
        name,
        {},
        len(classes),
        (3, 8, 8),
        classes,
        Preparation((0.5,) * 3, (0.2,) * 3),
        facts={"dataset": name, "method": name, name: name},
    )
    predictor = Predictor(models.build("cnn", len(classes), (3, 8, 8)), about)
    labels = torch.arange(60) % len(classes)
    logits = torch.randn(60, len(classes), generator=torch.Generator().manual_seed(0))
    return card_text(predictor, "model.onnx", "onnx", (predictor.prediction(logits), labels))


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_text_in_a_card(name: str) -> None:
    yaml = pytest.importorskip("yaml")
    usual, text = hostile_card("cat", ("cat", "dog")), hostile_card(name, (name, "dog"))
    _, front, body = re.split(r"^---\n", text, maxsplit=2, flags=re.MULTILINE)
    entry = yaml.safe_load(front)["model-index"][0]
    dataset = entry["results"][0]["dataset"]
    assert (entry["name"], dataset["name"], dataset["type"]) == (name, name, name)
    assert not re.search(r"<[a-z/!?]", text, re.IGNORECASE)

    page, usual_page = rendered(body), rendered(usual.split("\n---\n")[1])
    tags = re.findall(r"</?\w+", re.sub(r"</?code[^>]*>", "", page))
    assert tags == re.findall(r"</?\w+", re.sub(r"</?code[^>]*>", "", usual_page))
    shown = html.unescape(re.sub(r"<[^>]*>", "", page))
    visible = "".join(
        letter if letter.isprintable() else "\ufffd" for letter in " ".join(name.split())
    )
    assert f"{visible}, dog" in shown
    assert f"{visible}: {visible}" in shown
    block = re.search(r"```json\n(.*)\n```", body)
    assert block is not None
    assert json.loads(block[1]) == [name, "dog"]


def test_names_leave_the_columns_of_a_table_as_they_are() -> None:
    rows = [f"| {as_text(name)} | {as_text(name)} |" for name in HOSTILE]
    page = rendered("\n".join(["| a | b |", "|---|---|", *rows]))
    cells = [re.findall(r"<td>(.*?)</td>", row) for row in page.split("<tr>")[2:]]
    assert [len(row) for row in cells] == [2] * len(HOSTILE)
    visible = [
        "".join(c if c.isprintable() else "\ufffd" for c in " ".join(name.split()))
        for name in HOSTILE
    ]
    assert [html.unescape(row[0]) for row in cells] == visible
    text = hostile_card("a|b", ("a|b", "c|d"))
    assert {
        len(re.findall(r"(?<!\\)\|", line)) for line in text.splitlines() if line.startswith("|")
    } == {4}


def test_the_file_of_a_card_is_a_text_of_python() -> None:
    about = Description(
        "cnn", {}, 2, (3, 8, 8), ("cat", "dog"), Preparation((0.5,) * 3, (0.2,) * 3)
    )
    predictor = Predictor(models.build("cnn", 2, (3, 8, 8)), about)
    text = card_text(predictor, 'a"); print("{b}', "safetensors", None)
    assert 'socrates.load("a\\"); print(\\"{b}")' in text
