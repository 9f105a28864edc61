"""Train one head by any method of `METHODS`, and measure it as trained and after scaling."""

from __future__ import annotations

import math
import time
import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from socrates.contracts import Batch, Stream, Task
from socrates.methods import build
from socrates.metrics import (
    accuracy,
    ada_ece,
    augrc,
    aurc,
    auroc,
    brier,
    cw_ece,
    ece,
    nll,
    predict,
)  # fmt: skip
from socrates.metrics.registry import ece_floor
from socrates.models.mlp import MLP
from socrates.optimization import one_cycle
from socrates.scaling import ReadoutScaling, StructuredScaling, TemperatureScaling
from worlds import World

RESPLITS = 3
MOST_STRUCTURED = 20  # classes up to which structured scaling is fitted: its cost grows with C^2

Record = dict[str, Any]


def epochs_of(world: World) -> tuple[int, int]:
    """Return batch size and epochs: one cycle, with larger batches for large sets."""
    count = len(world.train[1])
    if count > 20_000:
        return 256, 20
    usual = one_cycle(count)
    return usual.batch_size, usual.epochs


def rate(step: int, steps: int, peak: float = 0.1) -> float:
    """Return the learning rate of one cycle: up in a fifth of the steps, then down to 0."""
    rise = steps / 5
    return peak * (step / rise if step < rise else (steps - step) / (steps - rise))


def train(world: World, method_name: str, options: Record, seed: int, keep_best: bool) -> Record:
    """Train one head; return logits of val, pool and strangers at the end and at the best epoch."""
    inputs, labels = world.train
    batch_size, epochs = epochs_of(world)
    steps_per_epoch = math.ceil(len(labels) / batch_size)
    options = dict(options)
    if "start_share" in options:
        options["start_epoch"] = int(options.pop("start_share") * epochs)
    method = build(method_name, Task(len(labels), world.num_classes, epochs), **options)
    torch.manual_seed(seed)
    model = MLP(method.num_outputs, (1, 1, inputs.shape[1]), width=128, depth=1)
    optimizer = torch.optim.SGD(
        model.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=5e-4
    )
    step = 0
    best: Record = {"val_nll": math.inf}
    for epoch in range(epochs):
        method.train()
        model.train()
        method.start_epoch(epoch, model)
        order = torch.randperm(len(labels), generator=Stream(seed, epoch).generator())
        for index in order.split(batch_size):
            lr = rate(step, steps_per_epoch * epochs)
            optimizer.param_groups[0]["lr"] = lr
            loss = method(model, Batch(inputs[index], labels[index], index, learning_rate=lr)).loss
            optimizer.zero_grad()
            loss.backward()
            if batch_size < 64:
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            method.end_step(model)
            step += 1
        if keep_best:
            now = outputs(world, model)
            now["val_nll"] = float(F.cross_entropy(known(world, now["val"]), world.val[1]))
            now["epoch"] = epoch + 1
            now["train_loss"] = train_losses(world, model)
            best = min(best, now, key=lambda record: record["val_nll"])
    last = outputs(world, model)
    last["target"] = targets(method)
    return {"last": last, "best": best if keep_best else None, "epochs": epochs}


def known(world: World, logits: Tensor) -> Tensor:
    """Return the logits of the known classes."""
    return logits[:, : world.num_classes]


@torch.no_grad()
def outputs(world: World, model: MLP) -> Record:
    """Return the logits of all samples that are evaluated."""
    model.eval()
    return {
        "val": model(world.val[0]),
        "pool": model(world.pool[0]),
        "strangers": {name: model(inputs) for name, inputs in world.strangers.items()},
    }


@torch.no_grad()
def train_losses(world: World, model: MLP) -> Tensor:
    """Return the cross-entropy of each training sample with its given label."""
    return F.cross_entropy(known(world, model(world.train[0])), world.train[1], reduction="none")


def targets(method: Any) -> Tensor | None:
    """Return the adaptive targets of the training samples, if the method has any."""
    criterion = getattr(getattr(method, "then", method), "criterion", None)
    return None if criterion is None or not hasattr(criterion, "target") else criterion.target


def measures(probs: Any, labels: Tensor) -> Record:
    """Return all metrics of some predictions."""
    right = accuracy(probs, labels)
    risk = 1 - right
    area = aurc(probs, labels)
    best_area = risk + (1 - risk) * math.log(1 - risk) if risk < 1 else 1.0
    results = {
        "accuracy": right,
        "nll": nll(probs, labels),
        "brier": brier(probs, labels),
        "ece": ece(probs, labels),
        "floor": ece_floor(probs),
        "ada_ece": ada_ece(probs, labels),
        "cw_ece": cw_ece(probs, labels),
        "aurc": area,
        "e_aurc": area - best_area,
        "augrc": augrc(probs, labels),
    }
    return {name: round(float(value), 6) for name, value in results.items()}


def evaluate(world: World, logits: Record) -> Record:
    """Return the metrics as trained and after each scaler, averaged over re-splits of the pool."""
    labels = world.pool[1]
    has_unknown = logits["pool"].shape[1] > world.num_classes
    sums: dict[str, list[Record]] = {}
    areas: dict[str, list[float]] = {}
    for resplit in range(RESPLITS):
        generator = torch.Generator().manual_seed(3000 + resplit)
        order = torch.randperm(len(labels), generator=generator)
        fit, test = order[: world.num_fit], order[world.num_fit :]
        plain = known(world, logits["pool"])
        temperature = TemperatureScaling().fit(plain[fit], labels[fit], unknown_class=False)
        readings = {
            "none": plain[test].softmax(dim=1),
            "temperature": temperature.probs(plain[test]),
        }
        if world.num_classes <= MOST_STRUCTURED:
            scaler = StructuredScaling().fit(plain[fit], labels[fit], unknown_class=False)
            readings["structured"] = scaler.probs(plain[test])
        if has_unknown:
            whole = logits["pool"]
            scaler = ReadoutScaling().fit(whole[fit], labels[fit], unknown_class=True)
            readings["readout"] = scaler.probs(whole[test])
            readings["answer"] = predict(whole[test], unknown="answer")
        for name, probs in readings.items():
            if name == "answer":
                row = {"accuracy": accuracy(probs, labels[test]), "ece": ece(probs, labels[test])}
                row = {key: round(float(value), 6) for key, value in row.items()}
            else:
                row = measures(probs, labels[test])
            sums.setdefault(name, []).append(row)
        for name, far in logits["strangers"].items():
            near = readings["temperature"].amax(dim=1)
            other = temperature.probs(known(world, far)).amax(dim=1)
            areas.setdefault(f"{name}: confidence", []).append(auroc(near, other))
            if has_unknown:
                scores = [1 - part.softmax(dim=1)[:, -1] for part in (logits["pool"][test], far)]
                areas.setdefault(f"{name}: unknown", []).append(auroc(*scores))
    results: Record = {
        name: {key: round(float(np.mean([row[key] for row in rows])), 6) for key in rows[0]}
        for name, rows in sums.items()
    }
    if areas:
        results["strangers"] = {
            name: round(float(np.mean(area)), 5) for name, area in areas.items()
        }
    return results


def halves_nll(logits: Tensor, labels: Tensor) -> float:
    """Return the validation NLL after temperature scaling fitted on the other half."""
    even = torch.arange(len(labels)) % 2 == 0
    values: list[float] = []
    for fit in (even, ~even):
        scaler = TemperatureScaling().fit(logits[fit], labels[fit], unknown_class=False)
        values.append(float(nll(scaler.probs(logits[~fit]), labels[~fit])))
    return float(np.mean(values))


def precision(scores: Tensor, wrong: Tensor) -> float:
    """Return the share of wrong labels among as many samples as there are wrong labels."""
    count = int(wrong.sum())
    return float(wrong[scores.topk(count).indices].float().mean())


def run(world: World, method: str, options: Record, seed: int, keep_best: bool = False) -> Record:
    """Train and measure one head."""
    began = time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trained = train(world, method, options, seed, keep_best)
        last = trained["last"]
        val = known(world, last["val"])
        val_labels = world.val[1]
        record: Record = {
            "epochs": trained["epochs"],
            "val_nll": round(float(F.cross_entropy(val, val_labels)), 6),
            "val_nll_scaled": round(halves_nll(val, val_labels), 6),
            **evaluate(world, last),
        }
        wrong = world.train[1] != world.true_labels
        if last["target"] is not None and wrong.any():
            record["wrong_labels"] = {"target": precision(-last["target"], wrong)}
        best = trained["best"]
        if best is not None:
            record["stopped"] = {"epoch": best["epoch"], **evaluate(world, best)}
            if wrong.any():
                losses = record.setdefault("wrong_labels", {})
                losses["loss at the best epoch"] = precision(best["train_loss"], wrong)
    record["seconds"] = round(time.monotonic() - began, 2)
    return record
