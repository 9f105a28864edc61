"""Run directories made up in milliseconds, for tests of what reads them: all a real run has,
without training."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from signing import resign_epochs
from socrates.engine.evaluate import parts_of_scores
from socrates.experiment import Experiment, Optimization, Part, Value
from socrates.records import Evaluation, Run

WITH_UNKNOWN = ("socrates", "sat", "gamblers")
READINGS = ("answer", "abstain", "renormalize", "spread")
# what becomes of the ECE
SCALERS = {"none": 1.0, "temperature": 0.6, "vector": 0.5, "matrix": 0.4, "readout": 0.7}


def experiment(
    method: str = "ce", seed: int = 1, epochs: int = 6, keep_every: int = 3, **options: Value
) -> Experiment:
    """A small experiment; vary the rest with `dataclasses.replace`."""
    settings = Optimization(epochs=epochs)
    part = Part(method, **options)
    return Experiment(
        Part("digits"), Part("mlp"), part, seed=seed, keep_every=keep_every, optimization=settings
    )


def make_run(
    root: Path,
    experiment: Experiment,
    *,
    epochs: int | None = None,
    num_classes: int = 10,
    num_test: int = 200,
    unknown: bool | None = None,
    skill: float = 3.0,
    collapsed: str | None = None,
    test: Mapping[str, float] | None = None,
    exact: bool = False,
) -> Path:
    """A run directory below `root` whose numbers follow from the experiment alone.

    `epochs` below the experiment's leave the run unfinished; `unknown` follows the method unless
    told; `skill` is how far the true class stands out; `test` sets metrics of the test split by
    hand (every scaler and reading); `exact` evaluates the logits as the engine does, which is slow.
    """
    run = Run.create(root, experiment)
    asked = experiment.optimization.epochs
    done = asked if epochs is None else epochs
    unknown = experiment.method.name.split(":")[0] in WITH_UNKNOWN if unknown is None else unknown
    random = np.random.default_rng(zlib.crc32(experiment.name.encode()))
    records = [
        _record(epoch, asked, unknown, collapsed if epoch == done else None, random)
        for epoch in _upto(done)
    ]
    if not experiment.method.name.startswith("socrates"):
        for record in records:
            record.pop("beta", None)  # as in training: no other method has a penalty
    resign_epochs(run.directory, records)
    kept = [epoch for epoch in _upto(done) if epoch % experiment.keep_every == 0 or epoch == asked]
    for epoch in kept:
        for split, size in (("val", max(num_test // 2, 1)), ("test", num_test)):
            logits, labels = _logits(size, num_classes, unknown, skill * epoch / asked, random)
            run.save_predictions(split, epoch, logits, labels, num_classes)
    if done == asked:
        run.save_evaluation(_evaluation(run, exact, unknown, test or {}))
        run.finish({"epochs": done, "epoch": done, "collapsed": collapsed})
    return run.directory


def _upto(last: int) -> range:
    return range(1, last + 1)


def _record(
    epoch: int, epochs: int, unknown: bool, collapsed: str | None, random: np.random.Generator
) -> dict:
    part = epoch / epochs
    wobble = 1 + 0.05 * random.standard_normal()
    record: dict[str, Any] = {"epoch": epoch, "rate": 0.1 * 0.5 ** (epoch // 25)}
    for split, top in (("train", 0.99), ("val", 0.9)):
        error = min(1 - top + 0.5 * float(np.exp(-5 * part)) * wobble, 1.0)
        record |= {
            f"{split}_loss": 2 * error,
            f"{split}_accuracy": 1 - error,
            f"{split}_ece": 0.3 * error,
        }
        record |= {
            f"{split}_ada_ece": 0.31 * error,
            f"{split}_cw_ece": 0.05 * error,
            f"{split}_nll": 2.2 * error,
        }
    if unknown:
        record |= {"beta": 0.4 * (1 - part) * wobble, "target": 1 - 0.2 * part}
    for name, level in (
        ("true", record["val_accuracy"]),
        *((("unknown", 0.1),) if unknown else ()),
    ):
        right, wrong = (level, level / 4) if name == "true" else (level / 4, level)
        record |= {
            f"confidence_{name}": level,
            f"confidence_{name}_right": right,
            f"confidence_{name}_wrong": wrong,
        }
    share = 0.02 * (1 - part) if unknown else 0.0
    seconds = 0.5 + 0.1 * random.random()
    return record | {
        "unknown_share": share,
        "collapsed": collapsed,
        "weight_norm": 10 + part,
        "seconds": seconds,
    }


def _logits(
    size: int, num_classes: int, unknown: bool, skill: float, random: np.random.Generator
) -> tuple:
    labels = random.integers(num_classes, size=size)
    logits = random.standard_normal((size, num_classes + int(unknown)))
    logits[np.arange(size), labels] += skill
    return 2 * logits, labels  # twice, or the confidences are far too low


def _evaluation(run: Run, exact: bool, unknown: bool, test: Mapping[str, float]) -> dict[str, Any]:
    if exact:
        from socrates.engine.evaluate import evaluate

        evaluation = evaluate(run)
    else:
        evaluation = _quick_evaluation(run, unknown)
    plain = evaluation.to_json()
    for splits in plain["results"].values():
        for values in splits["test"].values():
            values |= test
    return Evaluation.from_json(plain)


def _quick_evaluation(run: Run, unknown: bool) -> Evaluation:
    """The shape of a real evaluation; accuracy, ECE, NLL and Brier score are true for no scaler,
    the rest made up."""
    epoch = run.kept_epochs()[-1]
    readings = READINGS if unknown else ("plain",)
    results: dict[str, Any] = {}
    for scaler, factor in SCALERS.items():
        if scaler == "readout" and not unknown:
            continue
        results[scaler] = {
            split: {
                reading: _metrics(run.predictions(split, epoch), reading, factor)
                for reading in readings
            }
            for split in ("val", "test")
        }
    for split, by_reading in results["temperature"].items():
        for reading, scaled in by_reading.items():
            results["none"][split][reading] |= parts_of_scores(
                results["none"][split][reading], scaled
            )
    return Evaluation(epoch, run.experiment.num_bins, unknown, results)


def _metrics(predictions: Any, reading: str, factor: float) -> dict[str, float]:
    logits, labels, num_classes, _ = predictions
    logits = logits[:, :num_classes] if reading == "renormalize" else logits
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    if reading in ("abstain", "spread"):
        extra = p[:, num_classes:] / num_classes if reading == "spread" else 0.0
        p = p[:, :num_classes] + extra
    right = p.argmax(axis=1) == labels
    bins = np.clip(np.ceil(p.max(axis=1) * 15) - 1, 0, 14).astype(int)
    gaps = np.bincount(bins, p.max(axis=1) - right, minlength=15)
    ece = factor * float(np.abs(gaps).sum() / len(labels))
    p_true = p[np.arange(len(labels)), labels]
    nll = float(-np.log(p_true).mean())
    score = float(((p**2).sum(axis=1) - 2 * p_true + 1).mean())
    share = float((p.argmax(axis=1) == num_classes).mean())
    values = {
        "accuracy": float(right.mean()),
        "nll": nll,
        "brier": score,
        "smooth_ece": 0.9 * ece,
        "aurc": 0.1,
    }
    values |= {
        "ece": ece,
        "mce": min(3 * ece, 1.0),
        "ada_ece": min(1.1 * ece, 1.0),
        "cw_ece": 0.2 * ece,
        "debiased_ece": 0.8 * ece,
    }
    return values | {"ece_floor": 0.02, "unknown_share": share}
