"""The end of a run: the chosen epoch's model, with its scalers and its certificate."""

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn

import socrates
from socrates.abstention.search import fewest_samples
from socrates.contracts import Split, Splits
from socrates.data.fingerprint import seen_images
from socrates.data.splits import hold_out_by_class, stratified_subset
from socrates.engine.divide import divided, keep_strangers
from socrates.engine.evaluate import fitting_split
from socrates.engine.strangers import fit_novelty, measure_split
from socrates.experiment import Experiment
from socrates.novelty import DEFAULT
from socrates.predictor import Description, Predictor, load, usual_reading
from socrates.predictor.file_format import MODEL_FILE, SCALERS_FILE, Weights
from socrates.records import Evaluation, Run
from socrates.scaling import SCALERS, Scaler
from socrates.scaling.choice import Choice, CrossValidation, Unscaled, choose
from socrates.scaling.held_out import open_held_out

NUM_FOLDS = 5  # of the cross-validation that decides whether a scaler is applied
DELTA = 0.1  # of the certificates that training makes


def reserve(splits: Splits, risk: float | None) -> tuple[Splits, Split | None]:
    """Hold half of the validation samples back, to certify a risk; none if there is no risk."""
    if risk is None:
        return splits, None
    labels = splits.val.labels.cpu().numpy()
    num_needed = fewest_samples(risk, DELTA)
    num_held = len(labels) // 2
    if num_held < max(num_needed, splits.num_classes):
        raise ValueError(
            f"a risk of {risk:g} takes at least {num_needed} labeled images that nothing else has "
            f"seen, and of the {len(labels)} validation images {num_held} can be held back: add "
            "images, or allow a higher risk"
        )
    held = stratified_subset(labels, num_held)
    others = np.setdiff1d(np.arange(len(labels)), held)
    rest = replace(splits, val=splits.val.subset(torch.from_numpy(others)))
    return rest, splits.val.subset(torch.from_numpy(held))


def with_holdout(splits: Splits, share: float) -> Splits:
    """Take a share of the training data out of training, to fit scaler and novelty.

    It is that share of each class. Which samples they are depends on the data alone, not on the
    seed.
    """
    if not share:
        return splits
    labels = splits.train.labels.cpu().numpy()
    (kept, _), (held, _) = hold_out_by_class((np.arange(len(labels)), labels), share)
    return replace(
        splits,
        train=splits.train.subset(torch.from_numpy(kept)),
        holdout=splits.train.subset(torch.from_numpy(held)),
    )


def keep_model(
    run: Run,
    model: nn.Module,
    splits: Splits,
    evaluation: Evaluation,
    scalers: dict[str, Scaler],
    weights: Weights,
    reserved: Split | None,
    novelty: str = DEFAULT,
) -> dict[str, str]:
    """Write model.safetensors, or the scalers alone; `reserved` samples certify the risk.

    With its weights a model keeps the novelty score of that name, and the run the novelty of its
    test data. Returns which scaler and which novelty score the model has, and why.
    """
    experiment = run.experiment
    model = model.float()
    _, reading = usual_reading(evaluation.unknown_class)
    choice = choose_scaler(run, evaluation, scalers)
    words_of_choice = scaler_words(choice, held_out=splits.holdout is not None)
    about = Description(
        experiment.model.name,
        dict(getattr(model, "options_when_kept", experiment.model.options)),
        splits.num_classes + evaluation.unknown_class,
        splits.image_shape,
        splits.class_names,
        splits.preparation,
        evaluation.epoch,
        choice.name,
        reading,
        facts={**facts(experiment, splits), "scaler": words_of_choice},
        run=run.identity.run,
    )
    unknown = evaluation.unknown_class
    name = "none" if weights == "none" else novelty
    strangers = divided(experiment, splits)
    fitted = fit_novelty(model, splits, name, unknown, weights, strangers.teach)
    score = fitted.score
    words = {"scaler": words_of_choice, "novelty": fitted.words}
    seen = seen_images(splits)
    if strangers.seen is not None:
        seen = torch.cat([seen, strangers.seen])
    predictor = Predictor(model, about, scalers, seen, score)
    file = predictor.save(
        run.directory / (SCALERS_FILE if weights == "none" else MODEL_FILE), weights=weights
    )
    if weights == "half":
        predictor = load(file, model=model)  # what is measured and certified is what was written
    if score is not None:
        keep_novelty(run, predictor, splits.test)
    if strangers.measure is not None:
        keep_strangers(run, predictor, strangers.measure)
    if reserved is None or experiment.certify is None:
        return words
    try:
        logits, strangeness = measure_split(predictor.model, predictor.novelty, reserved)
        predictor.certify(
            labels=reserved.labels.cpu(),
            logits=logits,
            novelty=strangeness,
            risk=experiment.certify,
            delta=DELTA,
        )
        predictor.save(file, weights=weights)
    except ValueError as error:
        warnings.warn(f"the model has no certificate: {error}", stacklevel=2)
    return words


def keep_novelty(run: Run, predictor: Predictor, test: Split) -> None:
    """Write the novelty of the test data beside their logits."""
    epoch = predictor.about.epoch
    kept = run.predictions("test", epoch)
    _, novelty = measure_split(predictor.model, predictor.novelty, test)
    if novelty is not None:
        run.save_predictions(
            "test", epoch, kept.logits, kept.labels, kept.num_classes, novelty.numpy()
        )


def choose_scaler(run: Run, evaluation: Evaluation, scalers: Mapping[str, Scaler]) -> Choice:
    """Return the usual scaler of a model where the data that fit it say that it helps, or none.

    The rule is that of `scaling.best`: the simpler of the two, which is none, unless the other
    lowers the cross-validated NLL by more than one standard error and keeps the accuracy.
    """
    name, reading = usual_reading(evaluation.unknown_class)
    if name not in scalers:
        return Choice("none", evaluation.skipped.get(name, f"{name} was not fitted"))
    rows = run.predictions(fitting_split(run.experiment), evaluation.epoch)
    if len(rows.labels) < 2 * NUM_FOLDS:
        kind = "held-out" if run.experiment.holdout else "validation"
        return Choice("none", f"{len(rows.labels)} {kind} images are too few to tell")
    data = open_held_out(
        rows.logits, rows.labels, "keep_model", unknown_class=evaluation.unknown_class
    )
    validation = CrossValidation(data, NUM_FOLDS, False, reading)
    attempts = {
        "none": validation.attempt(Unscaled()),
        name: validation.try_one(SCALERS[name]()),
    }
    return choose(attempts)


def scaler_words(choice: Choice, held_out: bool = False) -> str:
    """Return which scaler a model applies, and why.

    >>> scaler_words(Choice("none", "the lowest cross-validated NLL (0.193)"))
    'none, the lowest cross-validated NLL (0.193) on the validation data'
    """
    kind = "held-out training" if held_out else "validation"
    return f"{choice.name}, {choice.reason} on the {kind} data"


def facts(experiment: Experiment, splits: Splits) -> dict[str, Any]:
    """Return what people ask about a model's training."""
    options = "".join(f" {name}={value}" for name, value in experiment.method.options)
    settings = experiment.optimization
    counts = {part: len(getattr(splits, part)) for part in ("train", "val", "test")}
    if splits.holdout is not None:
        counts["held out"] = len(splits.holdout)
    return {
        "dataset": experiment.dataset.name,
        "images": ", ".join(f"{count:,} {part}" for part, count in counts.items()),
        "method": f"{experiment.method.name}{options}",
        "training": f"{settings.epochs} epochs, recipe {settings.recipe}, batch size "
        f"{settings.batch_size}, seed {experiment.seed}",
        "epoch chosen by": experiment.choose,
        "version": f"socrates-loss {socrates.__version__}",
    }
