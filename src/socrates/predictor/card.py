"""The model card: a README.md for the Hugging Face Hub, with the run's test results."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from .. import metrics
from ..arrays.entries import open_top
from ..files import replace_text, replacing
from ..metrics import METRICS, Metric, Prediction
from ..metrics.open_world import OPEN_WORLD
from ..records import Run
from ..scaling import SCALERS
from .certifying import NO_PROMISE
from .export import output_names
from .predictor import Predictor
from .strangeness import in_words

PICTURE = "reliability.png"
LIBRARY = "socrates-loss"
NUM_BINS = 15
# What Markdown reads as more than text, also where a line begins; and what it makes links of
# without brackets.
MARKDOWN = re.compile(r"[\\`*_{}\[\]#|~$!@]|^[-+=]|:(?=//)|(?<=www)\.", re.IGNORECASE)
ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
# What YAML reads otherwise than JSON, what has no UTF-8, and the beginning of an HTML tag.
NOT_IN_YAML = re.compile("[<\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")


class Measured(NamedTuple):
    """Hold a metric, its value and, if there is one, its 95% interval."""

    metric: Metric
    value: float
    interval: Any = None

    @property
    def row(self) -> str:
        """Return the row of the card's table."""
        text = self.metric.text
        interval = self.interval
        bounds = f"{text(interval.low)} – {text(interval.high)}" if interval else ""
        return f"| {as_text(self.metric.title)} | {as_text(text(self.value))} | {bounds} |"


USE = {
    "onnx": """import numpy as np, onnxruntime
session = onnxruntime.InferenceSession({file})
images = np.zeros((1, {channels}, {height}, {width}), np.uint8)  # any batch size, height and width
{outputs} = session.run(None, {{"images": images}})""",
    "torch": """import torch
program = torch.export.load({file}).module()
images = torch.zeros(1, {channels}, {height}, {width}, dtype=torch.uint8)  # of any batch and size
{outputs} = program(images)""",
    "safetensors": """import socrates, torch
predictor = socrates.load({file})
images = torch.zeros(1, {channels}, {height}, {width}, dtype=torch.uint8)  # of any batch and size
prediction = predictor.predict(images)  # probs, confidence, predicted, novelty, answered""",
}


def write_card(predictor: Predictor, file: Path, format: str, run: Run | None = None) -> Path:
    """Write the card beside a file, with a reliability diagram if the run kept its test logits."""
    tested = prediction_on_test(predictor, run)
    strangers = strangers_on_test(predictor, run)
    if tested is not None:
        method = str(predictor.about.facts.get("method", ""))
        write_diagram(*tested, method, file.with_name(PICTURE))
    path = card_path(file)
    replace_text(path, card_text(predictor, file.name, format, tested, strangers))
    return path


def card_path(file: Path) -> Path:
    """Return README.md beside the file, or another name where that is not a card of ours.

    >>> card_path(Path("no-such-folder/model.onnx")).name
    'README.md'
    """
    readme = file.with_name("README.md")
    if not readme.exists():
        return readme
    text = readme.read_text(encoding="utf-8", errors="replace")
    return readme if f'library_name: "{LIBRARY}"' in text else file.with_suffix(".md")


def prediction_on_test(
    predictor: Predictor, run: Run | None
) -> tuple[Prediction, torch.Tensor] | None:
    """Return the prediction and labels of the test set, if the run kept finite logits of it."""
    epoch = predictor.about.epoch
    if run is None or epoch not in run.kept_epochs():
        return None
    trained_in = predictor.about.run
    if trained_in != run.identity.run:
        raise ValueError(
            f"{run.directory} is {run.identity}, and the model is of {trained_in or 'no run'}: a "
            "card takes the test results of the model's own run"
        )
    kept = run.predictions("test", epoch)
    logits = torch.tensor(kept.logits)
    if not bool(torch.isfinite(logits).all()):
        return None
    with warnings.catch_warnings():
        if kept.novelty is None:  # an earlier version did not keep it: nothing is declined then
            warnings.simplefilter("ignore", UserWarning)
        prediction = predictor.prediction(logits, kept.novelty)
    return prediction, torch.tensor(kept.labels).long()


def strangers_on_test(predictor: Predictor, run: Run | None) -> Mapping[str, Any]:
    """Return the numbers of the run's strangers, {} if it has none or of another epoch."""
    if run is None or not (run.directory / "evaluation.json").is_file():
        return {}
    evaluation = run.evaluation()
    return evaluation.strangers if evaluation.epoch == predictor.about.epoch else {}


def strangers_rows(strangers: Mapping[str, Any]) -> list[str]:
    """Return the table of the strangers, a column for each score; nothing without any."""
    if not strangers:
        return []
    scores = [score for score in ("confidence", "novelty") if score in strangers]
    counts = strangers["counts"]
    rows = [
        f"\n| against {counts['strangers']:,} strangers | {' | '.join(scores)} |",
        f"|---|{'---|' * len(scores)}",
    ]
    for name, metric in OPEN_WORLD.items():
        values = [strangers[score].get(name) for score in scores]
        cells = ["" if value is None else metric.text(value) for value in values]
        rows.append(
            f"| {as_text(metric.symbol)}: {as_text(metric.meaning)} | {' | '.join(cells)} |"
        )
    if "strangers_answered" in counts:
        rows.append(
            f"\nWithout a certificate it answers {counts['strangers_answered']:.1%} of these "
            f"strangers, and {counts['known_answered']:.1%} of the test images."
        )
    return rows


def measure_on_test(prediction: Prediction, labels: torch.Tensor) -> dict[str, Measured]:
    """Return each metric that a run shows; accuracy and ECE with their 95% intervals."""
    measured: dict[str, Measured] = {}
    for name, metric in METRICS.items():
        if not metric.in_study:
            continue
        measure = partial(metric.measure, num_bins=NUM_BINS)
        interval = None
        if name in ("accuracy", "ece"):
            # not `measure`: only for its own functions has `bootstrap` a short way
            options = {"num_bins": NUM_BINS} if metric.binned else {}
            function = partial(metric.function, **options)
            interval = metrics.bootstrap(function, prediction, labels)
        measured[name] = Measured(metric, measure(prediction, labels), interval)
    return measured


def card_text(
    predictor: Predictor,
    file: str,
    format: str,
    tested: tuple[Prediction, torch.Tensor] | None,
    strangers: Mapping[str, Any] | None = None,
) -> str:
    """Return the card: front matter for the Hub, then what a person asks first."""
    about = predictor.about
    measured = measure_on_test(*tested) if tested is not None else {}
    results = ["No test results were kept with this model."]
    if tested is not None:
        results = _results(measured, *tested)
    channels, height, width = about.image_shape
    names = [as_text(name) for name in about.classes]
    method = as_code(about.facts.get("method", "an unknown method"))
    scaler = "none"
    if about.scaler != "none":
        module = predictor.scalers[about.scaler]
        title = SCALERS[about.scaler].title
        scaler = f"{as_text(title)}, {as_text(module)}, fitted on held-out data"
    certificate = NO_PROMISE
    if about.certificate:
        certificate = as_text(about.certificate)
    reading = []
    if about.reading:
        reading = [
            f"- Belief in the unknown class is read as `{about.reading}`: "
            f"{metrics.READINGS[about.reading]}"
        ]
    lines = [
        *_front_matter(predictor, measured),
        f"# {', '.join(names[:5])}{', …' * (len(names) > 5)}\n",
        f"An image classifier of {len(names)} classes that says how sure it is: "
        f"{as_code(about.model)} trained with {method}.\n",
        *results,
        *strangers_rows(strangers or {}),
        "\n## How its confidence is made\n",
        f"- Scaler: {scaler}",
        *reading,
        f"- Certificate: {certificate}",
        f"- Novelty, the share of known held-out images that look less strange: "
        f"{as_text(in_words(predictor.novelty, about.strange))}",
        "\n## What it was trained on\n",
        *(f"- {as_text(key)}: {as_code(value)}" for key, value in about.facts.items()),
        f"- weights of epoch {as_text(about.epoch)}",
        f"- classes: {', '.join(names)}",
        "\n## How to use it\n\n```python",
        USE[format].format(
            file=as_yaml(file),
            channels=channels,
            height=height,
            width=width,
            outputs=", ".join(output_names(predictor)),
        ),
        "```\n",
        f"`predicted` counts these from 0:\n\n```json\n{as_yaml(about.classes)}\n```\n",
        "Its confidence means something for images like those it was trained on, and nothing for "
        "others.\n",
    ]
    return "\n".join(lines)


def as_text(name: Any) -> str:
    """Return a name as one line of Markdown without markup, HTML or links, also inside a table.

    >>> print(as_text("<b>a|b</b>"), as_text("*a*\\n# b"))
    &lt;b&gt;a\\|b&lt;/b&gt; \\*a\\* \\# b
    >>> print(as_text("[x](http://y)"), as_text("resnet20, 5%"))
    \\[x\\](http\\://y) resnet20, 5%
    >>> print(as_text("1. one"), as_text("94.29%"))
    1\\. one 94.29%
    """
    one_line = " ".join(str(name).split())
    shown = "".join(letter if letter.isprintable() else "�" for letter in one_line)
    no_list = re.sub(r"^(\d+)([.)])(?=\s|$)", r"\1\\\2", MARKDOWN.sub(r"\\\g<0>", shown))
    return no_list.translate(ENTITIES)


def as_code(name: Any) -> str:
    """Return a name in the font of code; one that could leave it as escaped text.

    >>> print(as_code("focal gamma=2.0"), as_code("`x`"))
    `focal gamma=2.0` \\`x\\`
    """
    is_tame = re.fullmatch(r"\w[\w .,:;=/+()-]*", str(name))
    return f"`{name}`" if is_tame else as_text(name)


def as_yaml(value: Any) -> str:
    """Return a value in one line that JSON, YAML and, for texts and lists of texts, Python read.

    >>> print(as_yaml(["cat", "<b>", "a\\nb"]))
    ["cat", "\\u003cb>", "a\\nb"]
    """
    return NOT_IN_YAML.sub(
        lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False)
    )


def _results(
    measured: dict[str, Measured], prediction: Prediction, labels: torch.Tensor
) -> list[str]:
    """Return the table of the test results."""
    rows = [f"| on {len(labels):,} test images | value | 95% interval |", "|---|---|---|"]
    rows += [result.row for result in measured.values()]
    answered = torch.as_tensor(prediction.answered)
    is_wrong = torch.as_tensor(prediction.predicted) != labels
    wrong = f"{float(is_wrong[answered].float().mean()):.2%}" if answered.any() else "no answer"
    rows.append(f"| answered | {float(answered.float().mean()):.1%} | |")
    rows.append(f"| wrong among the answered | {wrong} | |")
    return [*rows, "", f"![confidence against accuracy on the test images]({PICTURE})"]


def _front_matter(predictor: Predictor, measured: dict[str, Measured]) -> list[str]:
    """Return the YAML that the Hub reads, each value as JSON, so that any name is quoted."""
    matter: dict[str, Any] = {
        "library_name": LIBRARY,
        "pipeline_tag": "image-classification",
        "tags": ["calibration", "uncertainty", "selective-classification"],
    }
    if measured:
        results = [
            {"type": "accuracy", "value": round(measured["accuracy"].value, 6)},
            {
                "type": "ece",
                "name": f"ECE, {NUM_BINS} bins",
                "value": round(measured["ece"].value, 6),
            },
        ]
        name = str(predictor.about.facts.get("dataset", "unknown"))
        task = {"type": "image-classification"}
        entry = {"task": task, "dataset": {"name": name, "type": name}, "metrics": results}
        matter["model-index"] = [{"name": predictor.about.model, "results": [entry]}]
    return ["---", *(f"{key}: {as_yaml(value)}" for key, value in matter.items()), "---", ""]


def write_diagram(
    prediction: Prediction, labels: torch.Tensor, method: str, path: Path, num_bins: int = NUM_BINS
) -> None:
    """Write the reliability diagram of a prediction as a picture, in the color of its method."""
    import matplotlib
    from matplotlib.figure import Figure

    from ..palette import INK
    from ..plots.diagram import diagram_of, ece_in_words, gap_in_words
    from ..plots.ink import draw_reliability, legend_below
    from ..report.figures.compose import LOOK
    from ..report.style import method_colour

    data = diagram_of(open_top(prediction, labels), num_bins)
    with matplotlib.rc_context(fname=LOOK):
        figure = Figure(figsize=(3.4, 3.6), layout="constrained")
        axes = figure.add_subplot()
        draw_reliability(axes, data, method_colour(method.partition(" ")[0]))
        words = f"{len(labels):,} test images: {ece_in_words(data)}\n{gap_in_words(data)}"
        axes.set_title(words, fontsize=8, color=INK)
        legend_below(axes)
        with replacing(path) as file:
            figure.savefig(file, format="png", dpi=200, metadata={"Software": None})
