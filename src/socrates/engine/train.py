"""One training run, from an Experiment to a finished run directory. The loop never asks which method it runs."""

import contextlib
import math
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from socrates import data
from socrates.contracts import Split, Splits
from socrates.data.download import nothing_downloaded
from socrates.data.fingerprint import Fingerprint, fingerprint
from socrates.engine.build import build, load_data, make_fabric
from socrates.engine.epoch import train_epoch
from socrates.engine.evaluate import evaluate_fitted, infer, refinement, val_record
from socrates.engine.events import Closed, EpochDone, Finished, Started, Tell, to_nobody
from socrates.engine.finite import OnNan
from socrates.engine.guard import Stopping, check_space, check_writable, enough_memory
from socrates.engine.keep import freeze, keep_model, reserve
from socrates.engine.launch import devices_and_nodes, follows, hurry, launched
from socrates.engine.lock import held
from socrates.engine.optim import learning_rate, weight_norm
from socrates.engine.pace import seconds_per_epoch
from socrates.engine.ranks import Ranks
from socrates.engine.state import State
from socrates.experiment import Experiment, resolve
from socrates.predictor import Weights, model_file
from socrates.records import EpochRecord, Run, best_epoch

SECONDS_BETWEEN_CHECKPOINTS = 10.0


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
    tell: Tell = to_nobody,
) -> Run:
    """Train an experiment into its directory below `out`; a finished run is left as it is, a stopped one goes on.

    Data that are not those the run began with are refused, unless `again` starts it anew. The finished run keeps its
    model, with weights in full, in half precision, or none; see `socrates.load`. `start` is the model.safetensors (or
    the run that holds it) of the weights whose hash the experiment names. With `estimate` a few steps are tried first,
    to tell about how long it takes.

    A loss that is not finite stops the run, which keeps its last good state; with `on_nan="skip"` such steps are left
    out, counted and told; with "collapse" training goes on, and the run is recorded as collapsed.

    With several `devices`, on each of `num_nodes` machines, every batch is divided among as many processes: this
    program is started anew as the others, unless torchrun or SLURM did. The numbers are those of one process, but for
    rounding and for what depends on a process's part of a batch (batch norm, dropout). `out` must be one folder for
    all machines; the first process alone writes to it, and tells. A stopped run goes on with any number of devices.
    """
    experiment = resolve(experiment)
    tell = to_nobody if follows(devices, num_nodes) else tell
    directory = Run.directory_of(out, experiment)
    already = ""
    try:
        if not again and (directory / "finished.json").is_file():
            already = nothing_to_do(Run(directory), data_root, {})
            clear_away(Run(directory))
        else:
            check_writable(Path(out))
            start = start and model_file(Path(start))
            processes = devices_and_nodes(devices, num_nodes)
            options = Options(data_root, accelerator, again, keep_weights, start, estimate, on_nan, processes)
            _train(experiment, Path(out), options, tell)
        run = Run(directory)
        tell(Finished(experiment, run, already))
    finally:
        tell(Closed())
    return run


def clear_away(run: Run) -> None:
    """Remove what a process left that was killed just after its run became whole."""
    if [*run.directory.glob("checkpoint*"), *run.directory.glob("lock")]:
        with contextlib.suppress(OSError), held(run.directory):  # another may be at it, or the folder be read-only
            run.forget_checkpoints()


def nothing_to_do(run: Run, data_root: Path | None, known: dict[Any, Fingerprint]) -> str:
    """Since when a run is finished, unless its data are other ones now; data that are not there now are no mistake.

    What is found of the data is put into `known`, so that many runs on the same look at them once.
    """
    words = f"already finished on {run.finished_on}, nothing to do"
    if run.data is None:  # an earlier version trained it
        return words
    dataset, key = run.experiment.dataset.name, (run.experiment.dataset, run.experiment.num_train)
    try:
        if key not in known:
            with nothing_downloaded():
                known[key] = fingerprint(dataset, lambda: load_data(run.experiment, data_root), data_root)
        check_data(run, known[key])
    except (FileNotFoundError, ImportError):
        return f"{words}; its data are not there now"
    return words


def check_data(run: Run, now: Fingerprint) -> None:
    """Refuse data that are not those the run began with."""
    if run.data and (difference := run.data.difference(now)):
        raise ValueError(
            f"{run.directory} began with other data under the name {run.experiment.dataset.name}; now {difference}: "
            f"restore them, choose another folder for the run, or start it anew (again=True, --again)"
        )


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


def _train(experiment: Experiment, out: Path, options: Options, tell: Tell) -> None:
    fabric = make_fabric(options.accelerator, experiment.precision, *options.processes)
    ranks = launched(fabric)
    with ranks.none_lost():
        _train_as_rank(ranks, fabric, experiment, out, options, tell)
        ranks.wait()


def _train_as_rank(ranks: Ranks, fabric: Any, experiment: Experiment, out: Path, options: Options, tell: Tell) -> None:
    with ranks.first_ahead():
        loaded = load_data(experiment, options.data_root)
    found = fingerprint(experiment.dataset.name, lambda: loaded, options.data_root)
    splits, reserved = reserve(data.to_device(loaded, fabric.device), experiment.certify)
    with enough_memory(f"the model {experiment.model.name}", "make it smaller"):
        state = build(experiment, splits, fabric, options.start)
    check_space(out, splits, state)
    with ranks.first_ahead():
        run = Run.create(out, experiment)  # not before: a mistake leaves no directory
    settings = experiment.optimization
    large = enough_memory(f"batches of {settings.batch_size} in {experiment.model.name}", "make one of them smaller")
    stop = Stopping(state, run, ranks)
    with held(run.directory) if ranks.first else contextlib.nullcontext(), stop.listening(), large:
        if options.again and ranks.first:
            run.forget()
        if ranks.from_first(run.finished):
            return  # by another process, since this one looked
        if ranks.first:
            resume(run, state, found)
        state.share(ranks)
        seconds = seconds_per_epoch(fabric, state, splits) if options.estimate and ranks.alone else math.nan
        freeze(state.model, settings)  # before the ranks agree on what learns
        model, state.optimizer = fabric.setup(state.model, state.optimizer)
        if hasattr(state.model, "features"):
            model.mark_forward_method("features")
        tell(Started(experiment, run, state.epoch, state.steps, str(splits), seconds))
        hurry(ranks)
        _train_epochs(fabric, model, splits, stop, options.on_nan, tell)
        if ranks.first:
            finish(run, model, state, splits, reserved, options.keep_weights)


def _train_epochs(fabric: Any, model: Any, splits: Splits, stop: Stopping, on_nan: OnNan, tell: Tell) -> None:
    """Those that are still to come, each with its record."""
    state, run, ranks, saving = stop.state, stop.run, stop.ranks, Saving(stop)
    settings, choose = state.experiment.optimization, state.experiment.choose
    while state.epoch < settings.epochs:
        values: dict[str, Any] = {"rate": learning_rate(state.epoch + 0.5, settings)}
        values |= train_epoch(fabric, model, state, tell, saving.after_step, on_nan, ranks)
        ranks.share_buffers(state.model)
        values |= measure(model, state, splits, run, ranks)
        with stop.uninterrupted():
            state.end_epoch()
            record = EpochRecord(state.epoch, values, values.pop("collapsed"))
            if ranks.first:
                run.append_epoch(record)
                if choose != "last" and best_epoch(run.epochs(), choose) == state.epoch:
                    state.keep_weights()
            if saving.due or state.epoch == settings.epochs:
                saving.save()
        tell(EpochDone(state.experiment, record))


class Saving:
    """When checkpoints are written: every so many seconds, unless that takes more than a twentieth of the time."""

    def __init__(self, stop: Stopping) -> None:
        self.stop, self.ranks = stop, stop.ranks
        self.last, self.took = time.monotonic(), 0.0

    @property
    def due(self) -> bool:
        """Whether it is time for one, by the first rank's clock."""
        own = time.monotonic() - self.last > SECONDS_BETWEEN_CHECKPOINTS * max(1.0, 2 * self.took)
        return bool(self.ranks.highest(own and self.ranks.first))

    def save(self) -> None:
        """Write one now."""
        start = time.monotonic()
        if self.ranks.first:
            self.stop.save()
        self.ranks.wait()
        self.last = time.monotonic()
        self.took = self.last - start

    def after_step(self) -> None:
        """Called when a step is done; a signal that came meanwhile ends training here."""
        self.stop.leave_if_asked()
        if self.due:
            with self.stop.uninterrupted():
                self.save()


def finish(run: Run, model: Any, state: State, splits: Splits, reserved: Split | None, weights: Weights) -> None:
    """Evaluate the chosen epoch, keep its model, and mark the run as whole."""
    chosen = run.chosen_epoch()
    if state.best:
        state.model.load_state_dict(state.best)
        save_logits(run, chosen, splits, infer(model, splits.val), infer(model, splits.test))
    evaluation, scalers = evaluate_fitted(run, chosen)
    run.save_evaluation(evaluation)
    keep_model(run, state.model, splits, evaluation, scalers, weights, reserved)
    records = run.epochs_until(state.epoch)
    run.finish({"epochs": len(records), "epoch": chosen, "collapsed": records[chosen - 1].collapsed})


def resume(run: Run, state: State, found: Fingerprint) -> None:
    """Take over what a stopped run left, if it is of this experiment and these data, and whole."""
    experiment = state.experiment
    if run.experiment != experiment:
        raise ValueError(f"{run.directory} holds another experiment: its experiment.json was changed, restore it")
    check_data(run, found)
    state.load(run.checkpoint)
    run.forget_epochs_after(state.epoch)
    for epoch in range(experiment.keep_every, state.epoch + 1, experiment.keep_every):
        for split in ("val", "test"):
            try:
                run.predictions(split, epoch)
            except (OSError, ValueError):
                path = run.predictions_path(split, epoch)
                warnings.warn(f"{path} is lost or damaged: only starting anew (again) makes it again", stacklevel=2)
    if run.data is None:
        run.save_data(found)


def measure(model: Any, state: State, splits: Splits, run: Run, ranks: Ranks) -> dict[str, Any]:
    """What an epoch records after its steps; at kept epochs the logits of val and test are stored."""
    start, experiment = time.monotonic(), state.experiment
    epoch, labels, logits = state.epoch + 1, splits.val.labels, infer(model, splits.val, ranks)
    if epoch == experiment.optimization.epochs or epoch % experiment.keep_every == 0:
        tests = infer(model, splits.test, ranks)
        if ranks.first:
            save_logits(run, epoch, splits, logits, tests)
        ranks.wait()
    record: dict[str, Any] = {"val_loss": float(state.method.validation_loss(logits, labels))}
    if experiment.choose == "refinement":
        record["val_refinement"] = refinement(logits, labels, splits.num_classes)
    record |= val_record(logits, labels, splits.class_names, experiment.num_bins)
    record["weight_norm"] = float(weight_norm(state.model))
    record["seconds"] = time.monotonic() - start + (state.gathered.seconds if state.gathered else 0.0)
    if isinstance(head := getattr(state.model, "head", None), torch.nn.Module):
        record["head_norm"] = float(weight_norm(head))
    return record


def save_logits(run: Run, epoch: int, splits: Splits, val: Tensor, test: Tensor) -> None:
    """Keep the logits of val and test."""
    for name, split, found in (("val", splits.val, val), ("test", splits.test, test)):
        run.save_predictions(name, epoch, found.cpu().numpy(), split.labels.cpu().numpy(), splits.num_classes)
