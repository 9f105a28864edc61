"""Measure who notices strangers: inputs of classes that the model has never seen.

    python benchmarks/strangers.py --data FOLDER --photos RESNET50 --texts MINILM --clinc FILE
        [--out runs/strangers] [--splits 5] [--only digits] [--write]

FOLDER holds CIFAR-10, CIFAR-100, SVHN, Food-101, Fashion-MNIST and MNIST in their official formats;
RESNET50 is what benchmarks/resnet50_folder.py wrote; MINILM is all-MiniLM-L6-v2 in the Hugging Face
format; FILE is clinc150.json.gz. Each model is trained with cross-entropy, self-adaptive training
or the Socrates loss on some classes, and every score of socrates.novelty is compared with the
calibrated confidence. One line of OUT/scores.jsonl is one model; only missing ones are trained.
--write puts the tables into docs/strangers.md. The exit status is 1 if the default misses a goal.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from socrates.contracts import Classifier
from socrates.losses import SATLoss, SocratesLoss
from socrates.metrics import aurc, auroc, ece, fpr_at_tpr, nll, unknown_answered
from socrates.metrics.predictions import predict
from socrates.models.cnn import CNN
from socrates.models.mlp import MLP
from socrates.novelty import DEFAULT, NOVELTY, Samples, create
from socrates.optimization import one_cycle
from socrates.scaling import ReadoutScaling, TemperatureScaling
from strangers_data import World, clothes, digits, photographs, questions

METHODS = ("ce", "sat", "socrates")
NAMES = {"ce": "CE", "sat": "SAT 0.9", "socrates": "Socrates 1, 0.9"}
FIRST_SEED = 100  # those of the first look at these questions were below it
CONFIDENCE = "confidence"
KEPT = 0.9  # share of the right answers on known classes that are kept
NORM = 8.0  # of a row of a backbone's features, as socrates trains a head on them
PAGE = Path(__file__).parents[1] / "docs" / "strangers.md"
# What the default has to reach over calibrated confidence with cross-entropy.
MOST_BELOW = 5.0  # points of AUROC, in any pair
FEWEST_ABOVE = 5  # pairs whose interval is above 0
MEDIAN_GAIN = 3.0
FEWEST_QUARTER = 3  # pairs in which a quarter fewer strangers are answered
ACCURACY = {"digits": 96.94, "photographs": 81.0, "questions": 92.8, "clothes": 84.0}

Record = dict[str, Any]


class Setting(NamedTuple):
    """A family of worlds, the model that is trained in them, and how many are drawn."""

    world: Callable[[int], World]
    model: Callable[[int, World], Classifier]
    splits: int


class Head(Classifier):
    """A linear layer on the features of a frozen backbone, all of one norm."""

    def __init__(self, num_outputs: int, num_features: int) -> None:
        super().__init__()
        self.head = nn.Linear(num_features, num_outputs)

    def features(self, inputs: Tensor) -> Tensor:
        return NORM * F.normalize(inputs, dim=1)


class TextHead(Classifier):
    """One hidden layer of 256 units on the features of a frozen backbone."""

    def __init__(self, num_outputs: int, num_features: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(num_features, 256), nn.ReLU())
        self.head = nn.Linear(256, num_outputs)

    def features(self, inputs: Tensor) -> Tensor:
        return self.body(NORM * inputs)


def settings(options: argparse.Namespace) -> dict[str, Setting]:
    """Return all families of worlds."""
    cache = options.out / "features"
    shown = partial(photographs, data=options.data, backbone=options.photos, cache=cache)
    asked = partial(questions, file=options.clinc, backbone=options.texts, cache=cache)
    return {
        "digits": Setting(digits, lambda outputs, _: MLP(outputs, (1, 8, 8)), 2 * options.splits),
        "clothes": Setting(
            partial(clothes, data=options.data),
            lambda outputs, _: CNN(outputs, (1, 28, 28)),
            options.splits,
        ),
        "photographs": Setting(
            shown,
            lambda outputs, world: Head(outputs, world.train[0].shape[1]),
            2 * options.splits,
        ),
        "questions": Setting(
            asked,
            lambda outputs, world: TextHead(outputs, world.train[0].shape[1]),
            options.splits,
        ),
        "intents": Setting(
            partial(asked, left_out=30),
            lambda outputs, world: TextHead(outputs, world.train[0].shape[1]),
            options.splits,
        ),
    }


def trained(model: Classifier, world: World, method: str, seed: int) -> Classifier:
    """Train a model as `socrates train` does: one cycle, small batches clipped."""
    inputs, labels = world.train
    plan = one_cycle(len(labels))
    criterion = {
        "ce": lambda: None,
        "sat": lambda: SATLoss(len(labels), alpha=0.9),
        "socrates": lambda: SocratesLoss(len(labels), gamma=1.0, alpha=0.9),
    }[method]()
    optimizer = torch.optim.SGD(
        model.parameters(), plan.learning_rate, plan.momentum, 0, plan.weight_decay, nesterov=True
    )
    steps_per_epoch = math.ceil(len(labels) / plan.batch_size)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer,
        plan.learning_rate,
        total_steps=plan.epochs * steps_per_epoch,
        pct_start=0.2,
        cycle_momentum=False,
    )
    generator = torch.Generator().manual_seed(seed)
    model.train()
    for _ in range(plan.epochs):
        order = torch.randperm(len(labels), generator=generator)
        for rows in order.split(plan.batch_size):
            logits = model(inputs[rows])
            if criterion is None:
                loss = F.cross_entropy(logits, labels[rows])
            else:
                loss = criterion(logits, labels[rows], rows)
            optimizer.zero_grad()
            loss.backward()
            if plan.clip_norm:
                nn.utils.clip_grad_norm_(model.parameters(), plan.clip_norm)
            optimizer.step()
            schedule.step()
    return model.eval()


@torch.no_grad()
def outputs(model: Classifier, inputs: Tensor) -> tuple[Tensor, Tensor]:
    """Return features and logits of all inputs."""
    parts = [model.features(batch) for batch in inputs.split(500)]
    features = torch.cat(parts)
    return features, model.head(features)


def measured(name: str, setting: Setting, method: str, seed: int) -> Record:
    """Train one model and compare all scores of its strangers."""
    world = setting.world(seed)
    torch.manual_seed(seed)
    unknown = method != "ce"
    model = trained(setting.model(world.num_classes + unknown, world), world, method, seed)
    train, val, test = (outputs(model, part[0]) for part in (world.train, world.val, world.test))
    scaler = ReadoutScaling() if unknown else TemperatureScaling()
    scaler.fit(val[1], world.val[1])
    reading = "spread" if unknown else None
    answers = predict(scaler.transform(test[1]), reading)
    correct = answers.predicted == world.test[1]
    record: Record = {
        "setting": name,
        "method": method,
        "seed": seed,
        "accuracy": float(correct.float().mean()),
        "ece": ece(answers.probs, world.test[1]),
        "nll": nll(answers.probs, world.test[1]),
        "aurc": aurc(answers.probs, world.test[1]),
        "strangers": {},
    }
    samples = Samples.of(*train, world.train[1]), Samples.of(*val, world.val[1])
    names = [each for each in NOVELTY if unknown or not NOVELTY[each].needs_unknown_class]
    fitted = {each: create(each).fit(*samples, unknown_class=unknown) for each in names}
    # Higher means more familiar.
    known_scores = {each: -score.scores(*test, raw=True) for each, score in fitted.items()}
    known_scores[CONFIDENCE] = torch.as_tensor(answers.confidence)
    for stranger, inputs in world.strangers.items():
        strange = outputs(model, inputs)
        scores = {each: -score.scores(*strange, raw=True) for each, score in fitted.items()}
        confidence = predict(scaler.transform(strange[1]), reading).confidence
        scores[CONFIDENCE] = torch.as_tensor(confidence)
        record["strangers"][stranger] = {
            each: {
                "auroc": 100 * auroc(known_scores[each], scores[each]),
                "fpr95": 100 * fpr_at_tpr(known_scores[each], scores[each]),
                "ua90": 100 * unknown_answered(known_scores[each], correct, scores[each], KEPT),
            }
            for each in scores
        }
        too_strange = fitted[DEFAULT].scores(*strange) > 0.95
        record["strangers"][stranger]["declined"] = float(too_strange.float().mean())
    return record


def missing(file: Path, wanted: Sequence[tuple[str, str, int]]) -> list[tuple[str, str, int]]:
    """Return what is not in the file yet."""
    done = {(record["setting"], record["method"], record["seed"]) for record in read(file)}
    return [key for key in wanted if key not in done]


def read(file: Path) -> list[Record]:
    """Return the records of a file."""
    if not file.is_file():
        return []
    return [json.loads(line) for line in file.read_text().splitlines()]


class Pair(NamedTuple):
    """The gain of the default over calibrated confidence for one kind of strangers."""

    setting: str
    stranger: str
    method: str
    accuracy: float
    auroc: dict[str, float]
    gain: float
    low: float
    high: float
    answered_by_confidence: float
    answered: float
    declined: float


def pairs(records: Sequence[Record]) -> Iterator[Pair]:
    """Yield the means over class splits, with paired intervals."""
    for setting in dict.fromkeys(record["setting"] for record in records):
        for method in METHODS:
            members = [
                record
                for record in records
                if record["setting"] == setting and record["method"] == method
            ]
            if not members:
                continue
            for stranger in members[0]["strangers"]:
                rows = [record["strangers"][stranger] for record in members]
                gains = [row[DEFAULT]["auroc"] - row[CONFIDENCE]["auroc"] for row in rows]
                gain, half = mean_and_half(gains)
                scores = [name for name in rows[0] if name != "declined"]
                yield Pair(
                    setting,
                    stranger,
                    method,
                    100 * statistics.mean(record["accuracy"] for record in members),
                    {name: statistics.mean(row[name]["auroc"] for row in rows) for name in scores},
                    gain,
                    gain - half,
                    gain + half,
                    statistics.mean(row[CONFIDENCE]["ua90"] for row in rows),
                    statistics.mean(row[DEFAULT]["ua90"] for row in rows),
                    100 * statistics.mean(row["declined"] for row in rows),
                )


def mean_and_half(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean and half the width of its 95% interval by Student's t."""
    from scipy.stats import t

    if len(values) < 2:
        return values[0], math.inf
    error = statistics.stdev(values) / math.sqrt(len(values))
    return statistics.mean(values), float(t.ppf(0.975, len(values) - 1)) * error


def gains_table(found: Sequence[Pair]) -> str:
    """Return the table of gains, one row per kind of strangers and method."""
    lines = [
        "| trained on | strangers | method | accuracy | AUROC by confidence | AUROC by novelty "
        "| gain [95%] | answered by confidence | answered by novelty | declined |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {pair.setting} | {pair.stranger} | {NAMES[pair.method]} | {pair.accuracy:.1f} "
        f"| {pair.auroc[CONFIDENCE]:.1f} | {pair.auroc[DEFAULT]:.1f} "
        f"| {pair.gain:+.1f} [{pair.low:+.1f}, {pair.high:+.1f}] "
        f"| {pair.answered_by_confidence:.0f} | {pair.answered:.0f} | {pair.declined:.0f} |"
        for pair in found
    ]
    return "\n".join(lines)


def scores_table(found: Sequence[Pair]) -> str:
    """Return the AUROC of every score."""
    names = [CONFIDENCE, *NOVELTY]
    lines = [
        f"| trained on | strangers | method | {' | '.join(names)} |",
        "|" + "---|" * (3 + len(names)),
    ]
    for pair in found:
        cells = [f"{pair.auroc[name]:.1f}" if name in pair.auroc else "–" for name in names]
        lines.append(
            f"| {pair.setting} | {pair.stranger} | {NAMES[pair.method]} | {' | '.join(cells)} |"
        )
    return "\n".join(lines)


def goals(found: Sequence[Pair]) -> list[tuple[str, bool]]:
    """Return each goal for cross-entropy in words with its number, and whether it is reached."""
    plain = [pair for pair in found if pair.method == "ce"]
    above = sum(pair.low > 0 for pair in plain)
    median = statistics.median(pair.gain for pair in plain)
    worst = min(plain, key=lambda pair: pair.gain)
    quarter = sum(pair.answered <= 0.75 * pair.answered_by_confidence for pair in plain)
    reached = [
        (
            f"the interval of the gain is above 0 in {above} of {len(plain)} pairs "
            f"(goal: {FEWEST_ABOVE})",
            above >= FEWEST_ABOVE,
        ),
        (f"the median gain is {median:.1f} AUROC (goal: {MEDIAN_GAIN:g})", median >= MEDIAN_GAIN),
        (
            f"the worst gain is {worst.gain:+.1f}, {worst.setting} and {worst.stranger} "
            f"(goal: not below −{MOST_BELOW:g})",
            worst.gain >= -MOST_BELOW,
        ),
        (
            f"strangers answered are fewer by a quarter in {quarter} pairs "
            f"(goal: {FEWEST_QUARTER})",
            quarter >= FEWEST_QUARTER,
        ),
    ]
    for setting, asked in ACCURACY.items():
        accuracies = [pair.accuracy for pair in plain if pair.setting == setting]
        if accuracies:
            reached.append(
                (
                    f"the accuracy of {setting} is {accuracies[0]:.2f}% (goal: {asked:g}%)",
                    accuracies[0] >= asked,
                )
            )
    return reached


def written(page: str, parts: dict[str, str]) -> str:
    """Return the page with its parts replaced."""
    for name, content in parts.items():
        begin = f"<!-- {name}: begin -->\n"
        end = f"\n<!-- {name}: end -->"
        head, _, rest = page.partition(begin)
        _, _, tail = rest.partition(end)
        if not tail:
            raise SystemExit(f"docs/strangers.md has no place for {name}")
        page = head + begin + content + end + tail
    return page


def main() -> None:
    """Train what is missing, and print or write the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for name in ("--data", "--photos", "--texts", "--clinc"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--out", type=Path, default=Path("runs/strangers"))
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", message=".*is not the official file")
    torch.set_num_threads(1)
    families = settings(options)
    chosen = options.only or [*families]
    file = options.out / "scores.jsonl"
    wanted = [
        (name, method, FIRST_SEED + split)
        for name in chosen
        for split in range(families[name].splits)
        for method in METHODS
    ]
    options.out.mkdir(parents=True, exist_ok=True)
    left = missing(file, wanted)
    for place, (name, method, seed) in enumerate(left, 1):
        record = measured(name, families[name], method, seed)
        with file.open("a") as lines:
            lines.write(json.dumps(record) + "\n")
        print(f"{place} of {len(left)}: {name}, {method}, seed {seed}", flush=True)
    order = {name: place for place, name in enumerate(families)}
    records = sorted(read(file), key=lambda record: order[record["setting"]])
    found = [*pairs(records)]
    reached = goals(found)
    parts = {
        "gains": gains_table(found),
        "scores": scores_table(found),
        "goals": "\n".join(f"- {'reached' if met else 'MISSED'}: {text}" for text, met in reached),
    }
    print("\n\n".join(parts.values()))
    if options.write:
        PAGE.write_text(written(PAGE.read_text(), parts))
    sys.exit(0 if all(met for _, met in reached) else 1)


if __name__ == "__main__":
    main()
