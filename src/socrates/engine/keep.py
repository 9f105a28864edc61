"""The end of a run: the chosen epoch's model with all that is needed to use it, and what it may promise."""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn

import socrates
from socrates.abstention import fewest_samples
from socrates.contracts import Split, Splits
from socrates.data.fingerprint import seen_images
from socrates.data.splits import stratified_subset
from socrates.engine.evaluate import infer
from socrates.experiment import Experiment, Optimization
from socrates.predictor import Description, Predictor, load, usual_reading
from socrates.predictor.file_format import MODEL_FILE, SCALERS_FILE, Weights, read_file, tensors_of, weights_hash
from socrates.records import Evaluation, Run
from socrates.scaling import Scaler

DELTA = 0.1  # of the certificates that training makes


def reserve(splits: Splits, risk: float | None) -> tuple[Splits, Split | None]:
    """The data with half of the validation samples held back, to certify that risk; all of them without one."""
    if risk is None:
        return splits, None
    labels = splits.val.labels.cpu().numpy()
    needed, held = fewest_samples(risk, DELTA), len(labels) // 2
    if held < max(needed, splits.num_classes):
        raise ValueError(
            f"a risk of {risk:g} takes at least {needed} labelled images that nothing else has seen, and of the "
            f"{len(labels)} validation images {held} can be held back: give more images, or allow a higher risk"
        )
    chosen = stratified_subset(labels, held)
    others = np.setdiff1d(np.arange(len(labels)), chosen)
    return replace(splits, val=splits.val.subset(torch.from_numpy(others))), splits.val.subset(torch.from_numpy(chosen))


def keep_model(
    run: Run,
    model: nn.Module,
    splits: Splits,
    evaluation: Evaluation,
    scalers: dict[str, Scaler],
    weights: Weights,
    reserved: Split | None,
) -> None:
    """Write model.safetensors, or the scalers alone; `reserved` samples certify the risk that was asked for."""
    experiment, model = run.experiment, model.float()
    scaler, reading = usual_reading(evaluation.unknown_class)
    about = Description(
        experiment.model.name,
        dict(getattr(model, "options_when_kept", experiment.model.options)),
        splits.num_classes + evaluation.unknown_class,
        splits.image_shape,
        splits.class_names,
        splits.preparation,
        evaluation.epoch,
        scaler if scaler in scalers else "none",
        reading,
        facts=facts(experiment, splits),
    )
    predictor = Predictor(model, about, scalers, seen_images(splits))
    file = predictor.save(run.directory / (SCALERS_FILE if weights == "none" else MODEL_FILE), weights=weights)
    if reserved is None or experiment.certify is None:
        return
    if weights == "half":
        predictor = load(file, model=model)  # what is certified is what was written
    try:
        predictor.certify(infer(predictor.model, reserved).cpu(), reserved.labels.cpu(), experiment.certify, DELTA)
        predictor.save(file, weights=weights)
    except ValueError as error:
        warnings.warn(f"the model has no certificate: {error}", stacklevel=2)


def facts(experiment: Experiment, splits: Splits) -> dict[str, Any]:
    """What people ask of a model's training."""
    options = "".join(f" {name}={value}" for name, value in experiment.method.options)
    how = experiment.optimization
    counts = {part: len(getattr(splits, part)) for part in ("train", "val", "test")}
    return {
        "dataset": experiment.dataset.name,
        "images": ", ".join(f"{count:,} {part}" for part, count in counts.items()),
        "method": f"{experiment.method.name}{options}",
        "training": f"{how.epochs} epochs, recipe {how.recipe}, batch size {how.batch_size}, seed {experiment.seed}",
        "epoch chosen by": experiment.choose,
        "version": f"socrates-loss {socrates.__version__}",
    }


def start_from(model: nn.Module, experiment: Experiment, source: Any) -> None:
    """Give a new model the weights of a kept one, all but the head's, whose number of classes may be another."""
    if not experiment.start and source is None:
        return
    if source is None:
        raise ValueError(
            f"the run starts from weights with the hash {experiment.start}: say where they are (start=, --from)"
        )
    about, tensors = read_file(source)
    found = weights_hash(tensors)
    if not experiment.start:
        raise ValueError(f"the experiment starts from scratch, not from {source}: give it start={found!r}")
    if found != experiment.start:
        raise ValueError(
            f"{source} holds other weights than those the run starts from: restore them, or start another run"
        )
    if about.model != experiment.model.name:
        raise ValueError(
            f"{source} is a {about.model}, the run trains a {experiment.model.name}: choose the same model"
        )
    if not isinstance(getattr(model, "head", None), nn.Module):
        raise ValueError(f"{about.model} has no head to replace: only a model with a head can start from another")
    kept = tensors_of("model", tensors)
    if not kept:
        raise ValueError(f"{source} keeps no weights: train that run again with --again --keep-weights full")
    own = model.state_dict()
    for key in sorted(key for key in {*own, *kept} if not key.startswith("head.")):
        there, here = (tuple(one[key].shape) if key in one else "missing" for one in (kept, own))
        if there != here:
            raise ValueError(
                f"{source} does not fit: {key} is {there} there and {here} here; image size, channels and the model's "
                f"options must be the same"
            )
    body = {key: value.to(own[key].dtype) for key, value in kept.items() if not key.startswith("head.")}
    model.load_state_dict({**own, **body})


def freeze(model: nn.Module, settings: Optimization) -> None:
    """If the backbone is not to learn: all but the head keeps its weights, and the statistics of its batch norms."""
    if settings.backbone_factor != 0:
        return
    head = set(model.head.modules())  # pyright: ignore[reportAttributeAccessIssue, reportCallIssue]
    for module in model.modules():
        if module not in head and module is not model:
            module.eval()
    learns = set(model.head.parameters())  # pyright: ignore[reportAttributeAccessIssue, reportCallIssue]
    for parameter in model.parameters():
        parameter.requires_grad_(parameter in learns)
