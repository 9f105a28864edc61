"""Train on 600 photographs with and without a pretrained backbone, and show strangers to both.

    python benchmarks/photographs.py --data FOLDER --backbone RESNET50 [--out runs/photographs]
        [--seeds 3] [--write]

FOLDER holds CIFAR-10; RESNET50 is what benchmarks/resnet50_folder.py wrote. The photographs are 150
training images of each of four classes, enlarged to sides of 28 to 200 pixels and saved in seven
formats, a tenth of them gray. The model is then asked about 400 test images of these classes and
300 of the six others, saved in the same way. Each training is the command `socrates train
folder:photographs --backbone RESNET50`, or `socrates train folder:photographs resnet20 socrates
--image-size 32`, in a process of its own whose processor time is measured; features are computed by
the first seed and cached for the others. Only missing runs are trained. --write puts the table into
docs/models.md.
"""

import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

import socrates
from socrates.data import load
from socrates.data.features import digest_of
from socrates.engine.predict import find_images, predict_files
from socrates.models import is_backbone

KNOWN = {"automobile": "car", "cat": "cat", "horse": "horse", "ship": "ship"}
FORMATS = ("jpg", "png", "bmp", "webp", "tiff", "gif", "ppm")
NUM_TRAIN = 150  # photographs of each class
NUM_FRESH = 100
NUM_STRANGERS = 50
SCRATCH = ["resnet20", "socrates", "--image-size", "32"]
NAMES = {"backbone": "ResNet-50 features, linear layer", "scratch": "resnet20 from scratch, 32 px"}
PAGE = Path(__file__).parents[1] / "docs" / "models.md"
MARKS = ("<!-- photographs: begin -->", "<!-- photographs: end -->")
Row = Mapping[str, Any]
BATCH = 32  # images at a time
FEATURES: dict[bytes, Tensor] = {}  # of images that were predicted, by their digest


def save_mixed(image: np.ndarray, path: Path, random: np.random.Generator) -> None:
    """Save an image (3, H, W) in a random size, shape and format; one in ten becomes gray."""
    picture = Image.fromarray(image.transpose(1, 2, 0))
    width = int(random.integers(28, 201))
    height = max(28, int(width * random.uniform(0.8, 1.25)))
    picture = picture.resize((width, height), Image.Resampling.BICUBIC)
    if random.random() < 0.1:
        picture = picture.convert("L")
    path.parent.mkdir(parents=True, exist_ok=True)
    picture.save(path.with_suffix(f".{random.choice(FORMATS)}"))


def save_photographs(data: Path | None, out: Path) -> None:
    """Save the photographs, fresh ones of the same classes, and strangers."""
    if (out / "strangers").is_dir():
        return
    splits = load("cifar10", data)
    random = np.random.default_rng(1)
    for part, split in (("train", splits.train), ("test", splits.test)):
        labels = split.labels.numpy()
        for label, name in enumerate(splits.class_names):
            known = KNOWN.get(name)
            if part == "train" and not known:
                continue
            count = NUM_TRAIN if part == "train" else NUM_FRESH if known else NUM_STRANGERS
            folder = "photographs" if part == "train" else "fresh" if known else "strangers"
            for number, row in enumerate(np.flatnonzero(labels == label)[:count]):
                image = split.images[row].numpy()
                save_mixed(image, out / folder / (known or name) / f"{number:03d}", random)


def train(out: Path, way: str, seed: int, words: Sequence[str]) -> Path:
    """Train by the command line into a folder of its own, note the processor time, return the run.

    Features are cached below `out`.
    """
    folder = out / way / f"seed{seed}"
    notes = folder / "seconds.json"
    if not notes.is_file():
        places = ["--out", str(folder), "--data", str(out / "data")]
        images = f"folder:{out / 'photographs'}"
        command = ["train", images, *words, "--seed", str(seed), *places]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        subprocess.run(
            [sys.executable, "-m", "socrates.cli", *command], check=True, env=environment
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
        notes.write_text(json.dumps({"processor": seconds}))
    return next(path.parent for path in folder.glob("*/finished.json"))


class Remembering(nn.Module):
    """A frozen backbone that computes the features of an image once for the models of all seeds."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, images: Tensor) -> Tensor:
        keys = [digest_of(image) for image in images]
        new = [row for row, key in enumerate(keys) if key not in FEATURES]
        if new:
            computed = self.body(images[new])
            FEATURES.update({keys[row]: computed[i] for i, row in enumerate(new)})
        return torch.stack([FEATURES[key] for key in keys])


def rows_of(run: Path, folder: Path) -> list[Row]:
    """Return the rows that `socrates predict` writes for a folder; they are computed once."""
    cached = run / f"{folder.name}.json"
    if not cached.is_file():
        predictor = socrates.load(run)
        model: Any = predictor.model
        if is_backbone(predictor.about.model):
            model.body = Remembering(model.body)
        rows: list[Row] = []
        predict_files(predictor, find_images([folder]), rows.extend, BATCH)
        cached.write_text(json.dumps(rows))
    return json.loads(cached.read_text())


def is_right(row: Row) -> bool:
    """Return whether the predicted class is the name of the file's folder."""
    return row["predicted"] == Path(row["path"]).parent.name


def share(values: Sequence[bool]) -> float:
    """Return the percentage that is true."""
    return 100 * sum(values) / len(values)


def in_cells(values: Sequence[float]) -> str:
    """Return the mean of the seeds, and their deviation."""
    spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.1f}{spread}"


def table(runs: Mapping[str, Sequence[Path]], out: Path) -> str:
    """Return the results of each way to train, with its mean over the seeds."""
    heads = ("accuracy", "known answered", "right among these", "strangers answered")
    lines = [
        f"| 600 photographs, {', '.join(KNOWN.values())} | {', % | '.join(heads)}, % | "
        "processor time of a training |",
        "|---|" + "---:|" * (len(heads) + 1),
    ]
    for name, of_seeds in runs.items():
        columns: list[list[float]] = [[], [], [], []]
        seconds: list[float] = []
        for run in of_seeds:
            fresh = rows_of(run, out / "fresh")
            answered = [row for row in fresh if row["answered"]]
            strangers = rows_of(run, out / "strangers")
            columns[0].append(share([is_right(row) for row in fresh]))
            columns[1].append(share([row["answered"] for row in fresh]))
            columns[2].append(share([is_right(row) for row in answered]) if answered else 0.0)
            columns[3].append(share([row["answered"] for row in strangers]))
            seconds.append(json.loads((run.parent / "seconds.json").read_text())["processor"])
        cells = " | ".join(map(in_cells, columns))
        lines.append(f"| {name} | {cells} | {in_words(seconds)} |")
    return "\n".join(lines)


def in_words(seconds: Sequence[float]) -> str:
    """Return the processor time of the first seed, and of the others, which find features."""
    first = f"{seconds[0] / 60:.1f} min"
    others = f", then {statistics.mean(seconds[1:]) / 60:.1f} min" if len(seconds) > 1 else ""
    return first + others


def examples(run: Path, out: Path) -> str:
    """Return the first stranger of each class that is declined, and the first that is not."""
    lines: list[str] = []
    by_class: dict[str, list[Row]] = {}
    for row in rows_of(run, out / "strangers"):
        by_class.setdefault(Path(row["path"]).parent.name, []).append(row)
    for rows in by_class.values():
        for answered in (False, True):
            lines += [
                f"{Path(row['path']).parent.name}/{Path(row['path']).name}  {row['predicted']} "
                f"{row['confidence']:.1%} answered={answered} novelty={row.get('novelty')}"
                for row in rows
                if row["answered"] is answered
            ][:1]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path)
    parser.add_argument("--backbone", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("runs/photographs"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    out = options.out
    save_photographs(options.data, out)
    ways = {"backbone": ["--backbone", str(options.backbone)], "scratch": SCRATCH}
    runs = {
        NAMES[way]: [train(out, way, seed, words) for seed in range(1, options.seeds + 1)]
        for way, words in ways.items()
    }
    text = table(runs, out)
    print(text)
    for name, of_seeds in runs.items():
        print(f"\n{name}:\n{examples(of_seeds[0], out)}")
    if options.write:
        begin, end = MARKS
        page = re.sub(
            f"{begin}.*?{end}", f"{begin}\n{text}\n{end}", PAGE.read_text(), flags=re.DOTALL
        )
        PAGE.write_text(page)


if __name__ == "__main__":
    main()
