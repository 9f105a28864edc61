"""The card of a model: a README.md in the format of the Hugging Face Hub, with numbers from the run's own test set."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import torch

from . import metrics
from .files import replace_text, replacing
from .metrics import Prediction
from .metrics.binning import bin_stats
from .metrics.inputs import open_top
from .predictor import Predictor
from .records import Run

PICTURE, LIBRARY = "reliability.png", "socrates-loss"

USE = {
    "onnx": """import numpy as np, onnxruntime
session = onnxruntime.InferenceSession("{file}")
images = np.zeros((1, {channels}, {height}, {width}), np.uint8)  # any batch size, height and width
probabilities, predicted, confidence, answered = session.run(None, {{"images": images}})""",
    "torch": """import torch
program = torch.export.load("{file}").module()
images = torch.zeros(1, {channels}, {height}, {width}, dtype=torch.uint8)  # any batch size, height and width
probabilities, predicted, confidence, answered = program(images)""",
    "safetensors": """import socrates, torch
predictor = socrates.load("{file}")
images = torch.zeros(1, {channels}, {height}, {width}, dtype=torch.uint8)  # any batch size, height and width
prediction = predictor.predict(images)  # probs, confidence, predicted, answered""",
}


def write_card(predictor: Predictor, file: Path, format: str, run: Run | None = None) -> Path:
    """Write the card beside an exported file, and the reliability picture if the run kept its test logits."""
    tested = prediction_on_test(predictor, run)
    if tested is not None:
        draw_reliability(*tested, str(predictor.about.facts.get("method", "")), file.with_name(PICTURE))
    path = card_path(file)
    replace_text(path, card_text(predictor, file.name, format, tested))
    return path


def card_path(file: Path) -> Path:
    """README.md beside the file; where that is somebody's own, no card, it stays and the card has the file's name.

    >>> card_path(Path("no-such-folder/model.onnx")).name
    'README.md'
    """
    readme = file.with_name("README.md")
    card = not readme.exists() or f'library_name: "{LIBRARY}"' in readme.read_text(encoding="utf-8", errors="replace")
    return readme if card else file.with_suffix(".md")


def prediction_on_test(predictor: Predictor, run: Run | None) -> tuple[Prediction, torch.Tensor] | None:
    """What the predictor says of the test logits that the run kept, and their labels; nothing if it diverged."""
    epoch = predictor.about.epoch
    if run is None or epoch not in run.kept_epochs():
        return None
    kept = run.predictions("test", epoch)
    logits, labels = torch.tensor(kept.logits), torch.tensor(kept.labels).long()
    return (predictor.prediction(logits), labels) if bool(torch.isfinite(logits).all()) else None


def numbers_on_test(prediction: Prediction, labels: torch.Tensor, num_bins: int = 15) -> dict[str, Any]:
    """Accuracy and ECE in percent with 95 % intervals, the ECE that chance alone would give, and the NLL."""
    ece = partial(metrics.ece, num_bins=num_bins)
    found: dict[str, Any] = {"samples": len(labels), "nll": metrics.nll(prediction, labels)}
    for name, metric in (("accuracy", metrics.accuracy), ("ece", ece)):
        interval = metrics.bootstrap(metric, prediction, labels)
        found[name] = [100 * value for value in (metric(prediction, labels), interval.low, interval.high)]
    found["floor"] = 100 * metrics.floor(ece, prediction)
    return found


def card_text(predictor: Predictor, file: str, format: str, tested: tuple[Prediction, torch.Tensor] | None) -> str:
    """The card: front matter for the Hub, then what a person asks first."""
    about = predictor.about
    numbers = numbers_on_test(*tested) if tested is not None else {}
    (channels, height, width), classes = about.image_shape, ", ".join(about.classes)
    scaler = "none" if about.scaler == "none" else f"{predictor.scalers[about.scaler]}, fitted on validation data"
    reading = []
    if about.reading:
        reading = [f"- Belief in the unknown class is read as `{about.reading}`: {metrics.READINGS[about.reading]}"]
    lines = [
        *_front_matter(predictor, numbers),
        f"# {', '.join(about.classes[:5])}{', …' * (len(about.classes) > 5)}\n",
        f"An image classifier of {len(about.classes)} classes that says how sure it is: `{about.model}` trained with "
        f"`{about.facts.get('method', 'an unknown method')}`.\n",
        *(_results(numbers, *tested) if tested else ["No test results were kept with this model."]),
        "\n## How its confidence is made\n",
        f"- Scaler: {scaler}",
        *reading,
        f"- Certificate: {about.certificate or 'none; `answered` is true for every known class'}",
        "\n## What it was trained on\n",
        *(f"- {key}: `{value}`" for key, value in about.facts.items()),
        f"- weights of epoch {about.epoch}",
        f"- classes: {classes}",
        "\n## How to use it\n\n```python",
        USE[format].format(file=file, channels=channels, height=height, width=width),
        "```\n",
        f"`predicted` counts these from 0: {json.dumps(about.classes)}\n",
        "Its confidence means something for images like those it was trained on, and nothing for others.\n",
    ]
    return "\n".join(lines)


def _results(numbers: dict[str, Any], prediction: Prediction, labels: torch.Tensor) -> list[str]:
    (accuracy, low, high), (ece, ece_low, ece_high) = numbers["accuracy"], numbers["ece"]
    answered, wrong = torch.as_tensor(prediction.answered), torch.as_tensor(prediction.predicted) != labels
    share = f"{100 * float(wrong[answered].float().mean()):.2f} %" if answered.any() else "no answer"
    return [
        f"| on {numbers['samples']:,} test images | value | 95 % interval |",
        "|---|---|---|",
        f"| accuracy | {accuracy:.2f} % | {low:.2f} – {high:.2f} % |",
        f"| ECE, 15 bins | {ece:.2f} % | {ece_low:.2f} – {ece_high:.2f} % |",
        f"| ECE of a perfectly calibrated model on as many images | {numbers['floor']:.2f} % | |",
        f"| NLL | {numbers['nll']:.4f} | |",
        f"| answered | {100 * float(answered.float().mean()):.1f} % | |",
        f"| wrong among the answered | {share} | |",
        "",
        f"![confidence against accuracy on the test images]({PICTURE})",
    ]


def _front_matter(predictor: Predictor, numbers: dict[str, Any]) -> list[str]:
    """YAML that the Hub reads; JSON is YAML, so that any name is quoted rightly."""
    matter: dict[str, Any] = {
        "library_name": LIBRARY,
        "pipeline_tag": "image-classification",
        "tags": ["calibration", "uncertainty", "selective-classification"],
    }
    if numbers:
        results = [{"type": "accuracy", "value": round(numbers["accuracy"][0] / 100, 6)}]
        results += [{"type": "ece", "name": "ECE, 15 bins", "value": round(numbers["ece"][0] / 100, 6)}]
        name = str(predictor.about.facts.get("dataset", "unknown"))
        task = {"type": "image-classification"}
        entry = {"task": task, "dataset": {"name": name, "type": name}, "metrics": results}
        matter["model-index"] = [{"name": predictor.about.model, "results": [entry]}]
    return ["---", *(f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in matter.items()), "---", ""]


def draw_reliability(prediction: Prediction, labels: torch.Tensor, method: str, path: Path, num_bins: int = 15) -> None:
    """The reliability diagram of a prediction as a picture, in the colour of its method, whose options may follow."""
    import matplotlib
    from matplotlib.figure import Figure

    from .report.figures import reliability
    from .report.figures.compose import INK, LOOK
    from .report.style import method_colour, variant

    bins = bin_stats(open_top(prediction, labels), num_bins)
    floor = metrics.floor(partial(metrics.ece, num_bins=num_bins), prediction)
    data = reliability.reliability_data("test", [bins], floor)
    diagram = reliability.Diagram(data, variant(method_colour(method.partition(" ")[0]), 0))
    with matplotlib.rc_context(fname=LOOK):
        figure = Figure(figsize=(3.4, 3.6), layout="constrained")
        axes = figure.add_subplot()
        handles = reliability.draw_reliability(axes, diagram)
        axes.set_title(f"{len(labels):,} test images: {axes.get_title()}", fontsize=8, color=INK)
        figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False)
        with replacing(path) as file:
            figure.savefig(file, format="png", dpi=200, metadata={"Software": None})
