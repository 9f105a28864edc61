"""One training run, from an Experiment to a finished run directory.

The loop never asks which method it runs.
"""

import contextlib
import math
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from socrates import data
from socrates.contracts import Split, Splits
from socrates.data.download import nothing_downloaded
from socrates.data.fingerprint import Fingerprint, fingerprint, fingerprint_loaded
from socrates.engine.build import (
    build,
    freeze,
    learning_rate,
    load_data,
    load_samples,
    make_fabric,
    weight_norm,
)
from socrates.engine.epoch import OnNan, train_epoch
from socrates.engine.evaluate import (
    evaluate_fitted,
    fitting_split,
    infer,
    refinement,
    val_record,
)
from socrates.engine.events import Closed, EpochDone, Finished, Started, Tell, to_nobody
from socrates.engine.keep import keep_model, reserve, with_holdout
from socrates.engine.launch import launched
from socrates.engine.lock import held
from socrates.engine.open_world import measure_strangers
from socrates.engine.pace import seconds_per_epoch
from socrates.engine.ranks import Ranks, devices_and_nodes, follows, unheard
from socrates.engine.saving import Saving
from socrates.engine.state import State
from socrates.engine.strangers import check_name
from socrates.experiment import Experiment, resolve
from socrates.novelty import DEFAULT
from socrates.predictor import Weights, model_file
from socrates.records import EpochRecord, Run, best_epoch, finished_run


class Options(NamedTuple):
    """How a run is trained, as far as that does not decide its numbers."""

    data_root: Path | None
    accelerator: str
    again: bool
    keep_weights: Weights
    start: Path | None
    estimate: bool
    on_nan: OnNan
    processes: tuple[int, int]  # on each machine, and machines
    novelty: str  # the score that the model keeps, or "none"


def train(
    experiment: Experiment,
    out: Path | str = "runs",
    *,
    data_root: Path | None = None,
    accelerator: str = "auto",
    again: bool = False,
    keep_weights: Weights = "full",
    start: Path | None = None,
    estimate: bool = False,
    on_nan: OnNan = "stop",
    devices: int = 1,
    num_nodes: int = 1,
    novelty: str = DEFAULT,
    tell: Tell = to_nobody,
) -> Run:
    """Train an experiment into its directory below `out`.

    A finished run is left as it is, a stopped one continues. Data that are not those the run began
    with are refused, unless `again` starts it from the beginning. The finished run keeps its model,
    with weights in full, in half precision, or none; see `socrates.load`. A model with weights
    also keeps the `novelty` score of that name in `socrates.novelty.NOVELTY`, or "none": the usual
    one holds features of training samples, "energy" holds none. `start` is the
    model.safetensors (or the run that holds it) of the weights whose hash the experiment names.
    With `estimate` a few steps are tried first, to report about how long it takes.

    A loss that is not finite stops the run, which keeps its last good state; with `on_nan="skip"`
    such steps are left out, counted and reported; with "collapse" training continues, and the run
    is recorded as collapsed.

    With several `devices`, on each of `num_nodes` machines, every batch is divided among as many
    processes: this program is started again as the others, unless torchrun or SLURM did. The
    numbers are those of one process, but for rounding and for what depends on a process's part of a
    batch (batch norm, dropout). `out` must be one folder for all machines; only the first process
    writes to it and reports. A stopped run continues with any number of devices.
    """
    experiment = resolve(experiment)
    check_name(novelty)
    follower = follows(devices, num_nodes)
    if follower:
        tell = to_nobody
    already = ""
    try:
        run = None if again else finished_run(out, experiment)
        if run is not None:
            already = already_finished(run, data_root, {})
            clear_away(run)
        else:
            start = start and model_file(Path(start))
            processes = devices_and_nodes(devices, num_nodes)
            options = Options(
                data_root,
                accelerator,
                again,
                keep_weights,
                start,
                estimate,
                on_nan,
                processes,
                novelty,
            )
            with unheard() if follower else contextlib.nullcontext():
                run = _train(experiment, Path(out), options, tell)
        tell(Finished(experiment, run, already))
    finally:
        tell(Closed())
    return run


def clear_away(run: Run) -> None:
    """Remove what a process left behind that was killed just after it finished its run."""
    if [*run.directory.glob("checkpoint*"), *run.directory.glob("lock")]:
        # another process may be at it, or the folder be read-only
        with contextlib.suppress(OSError), held(run.directory):
            run.forget_checkpoints()


def already_finished(run: Run, data_root: Path | None, known: dict[Any, Fingerprint]) -> str:
    """Return since when a run is finished; refuse it if its data have changed.

    Data that are not there now are not an error. Fingerprints are put into `known`, so that many
    runs on the same data read them once.
    """
    words = f"already finished on {run.finished_on}, nothing to do"
    if run.data is None:  # it was deleted
        return words
    experiment = run.experiment
    key = (experiment.dataset, experiment.num_train)
    try:
        if key not in known:
            with nothing_downloaded():
                known[key] = fingerprint(
                    experiment.dataset.name, lambda: load_samples(experiment, data_root), data_root
                )
        check_data(run, known[key])
    except (FileNotFoundError, ImportError):
        return f"{words}; its data are not there now"
    return words


def check_data(run: Run, now: Fingerprint) -> None:
    """Refuse data that are not those the run began with."""
    if run.data and (difference := run.data.difference(now)):
        raise ValueError(
            f"{run.directory} was started with different data of the name "
            f"{run.experiment.dataset.name}; now {difference}: restore them, choose another "
            "folder for the run, or start it from the beginning with again=True"
        )


def _train(experiment: Experiment, out: Path, options: Options, tell: Tell) -> Run:
    """Train in this process, as the first rank of a run or as another one; return the run."""
    fabric = make_fabric(options.accelerator, experiment.precision, *options.processes)
    with launched(fabric) as ranks:
        with ranks.first_ahead():
            loaded = load_data(experiment, options.data_root, fabric.device, tell)
        data_now = fingerprint_loaded(experiment.dataset.name, loaded, options.data_root)
        splits, reserved = reserve(data.to_device(loaded, fabric.device), experiment.certify)
        splits = with_holdout(splits, experiment.holdout)
        state = build(experiment, splits, fabric, options.start)
        with ranks.first_ahead():
            run = Run.create(out, experiment)  # not before: a mistake leaves no directory
        saving = Saving(state, run, ranks)
        lock = held(run.directory) if ranks.first else contextlib.nullcontext()
        with lock, saving.listening():
            if options.again and ranks.first:
                run.forget()
            if ranks.from_first(run.finished):
                return run  # another process finished it since this one looked
            if ranks.first:
                resume(run, state, data_now)
            state.share(ranks)
            model = _prepared(fabric, state, splits, saving, options, tell)
            _train_epochs(fabric, model, splits, saving, options.on_nan, tell)
            if ranks.first:
                finish(run, model, state, splits, reserved, options)
    return run


def resume(run: Run, state: State, data_now: Fingerprint) -> None:
    """Load what a stopped run left, if it is of this experiment and these data, and undamaged."""
    experiment = state.experiment
    if run.experiment != experiment:
        raise ValueError(
            f"{run.directory} holds another experiment: its experiment.json was changed, restore it"
        )
    check_data(run, data_now)
    state.load(run.checkpoint)
    run.forget_epochs_after(state.epoch)
    for epoch in range(experiment.keep_every, state.epoch + 1, experiment.keep_every):
        for split in {"val", "test", fitting_split(experiment)}:
            try:
                run.predictions(split, epoch)
            except (OSError, ValueError) as error:
                warnings.warn(
                    f"{error}; only training from the beginning (again=True) writes it again",
                    stacklevel=2,
                )
    if run.data is None:
        run.save_data(data_now)


def _prepared(
    fabric: Any, state: State, splits: Splits, saving: Saving, options: Options, tell: Tell
) -> Any:
    """Return the model as Fabric trains it, and report that training starts."""
    seconds = math.nan
    if options.estimate and saving.ranks.alone:
        seconds = seconds_per_epoch(fabric, state, splits)
    freeze(state.model, state.experiment.optimization)  # before the ranks agree on what learns
    model, state.optimizer = fabric.setup(state.model, state.optimizer)
    if hasattr(state.model, "features"):
        model.mark_forward_method("features")
    steps = state.steps_per_epoch
    run = saving.run
    shape = splits.image_shape
    tell(Started(state.experiment, run, state.epoch, steps, str(splits), seconds, shape))
    saving.ranks.hurry()
    return model


def _train_epochs(
    fabric: Any, model: Any, splits: Splits, saving: Saving, on_nan: OnNan, tell: Tell
) -> None:
    """Train the epochs that are still to come, and record each of them."""
    state = saving.state
    run = saving.run
    ranks = saving.ranks
    settings = state.experiment.optimization
    choose = state.experiment.choose
    while state.epoch < settings.epochs:
        values: dict[str, Any] = {"rate": learning_rate(state.epoch + 0.5, settings)}
        values |= train_epoch(fabric, model, state, tell, saving.after_step, on_nan, ranks)
        ranks.share_buffers(state.model)
        values |= measure(model, state, splits, run, ranks)
        with saving.uninterrupted():
            state.end_epoch()
            record = EpochRecord(state.epoch, values, values.pop("collapsed"))
            if ranks.first:
                run.append_epoch(record)
                if choose != "last" and best_epoch(run.epochs(), choose) == state.epoch:
                    state.keep_weights()
            if saving.due or state.epoch == settings.epochs:
                saving.save()
        tell(EpochDone(state.experiment, record))


def measure(model: Any, state: State, splits: Splits, run: Run, ranks: Ranks) -> dict[str, Any]:
    """Return what an epoch records after its steps; at kept epochs, store the logits."""
    start = time.monotonic()
    experiment = state.experiment
    epoch = state.epoch + 1
    labels = splits.val.labels
    logits = infer(model, splits.val, ranks)
    if epoch == experiment.optimization.epochs or epoch % experiment.keep_every == 0:
        test_logits = infer(model, splits.test, ranks)
        held = None if splits.holdout is None else infer(model, splits.holdout, ranks)
        if ranks.first:
            save_logits(run, epoch, splits, logits, test_logits, held)
        ranks.wait()
    record: dict[str, Any] = {"val_loss": float(state.method.validation_loss(logits, labels))}
    if experiment.choose == "refinement":
        record["val_refinement"] = refinement(logits, labels, splits.num_classes)
    record |= val_record(logits, labels, splits.class_names, experiment.num_bins)
    record["weight_norm"] = float(weight_norm(state.model))
    seconds_of_steps = state.gathered.seconds if state.gathered else 0.0
    record["seconds"] = time.monotonic() - start + seconds_of_steps
    if isinstance(head := getattr(state.model, "head", None), torch.nn.Module):
        record["head_norm"] = float(weight_norm(head))
    return record


def finish(
    run: Run, model: Any, state: State, splits: Splits, reserved: Split | None, options: Options
) -> None:
    """Evaluate the chosen epoch, keep its model, and mark the run as finished."""
    chosen = run.chosen_epoch()
    if state.best:
        state.model.load_state_dict(state.best)
        held = None if splits.holdout is None else infer(model, splits.holdout)
        save_logits(run, chosen, splits, infer(model, splits.val), infer(model, splits.test), held)
    evaluation, scalers = evaluate_fitted(run, chosen)
    run.save_evaluation(evaluation)
    kept = keep_model(
        run,
        state.model,
        splits,
        evaluation,
        scalers,
        options.keep_weights,
        reserved,
        options.novelty,
    )
    if strangers := measure_strangers(run, chosen):
        run.save_evaluation(replace(evaluation, strangers=strangers))
    records = run.epochs_until(state.epoch)
    collapsed = records[chosen - 1].collapsed
    if pretrained := getattr(state.model, "pretrained_weights", ""):
        kept = {**kept, "pretrained_weights": pretrained}
    run.finish({"epochs": len(records), "epoch": chosen, "collapsed": collapsed, **kept})


def save_logits(
    run: Run, epoch: int, splits: Splits, val: Tensor, test: Tensor, holdout: Tensor | None
) -> None:
    """Keep the logits of the held-out training data, if there are any, of validation and test."""
    kept = [("val", splits.val, val), ("test", splits.test, test)]
    if splits.holdout is not None and holdout is not None:
        # first: an epoch counts as kept when those of val and test are there
        kept.insert(0, ("holdout", splits.holdout, holdout))
    for name, split, logits in kept:
        labels = split.labels.cpu().numpy()
        run.save_predictions(name, epoch, logits.cpu().numpy(), labels, splits.num_classes)
