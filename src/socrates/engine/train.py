"""One training run, from an Experiment to a finished run directory. The loop never asks which method it runs."""

import math
import time
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from socrates import data, methods, models
from socrates.contracts import Split, Splits, Stream, Task
from socrates.data.download import nothing_downloaded
from socrates.data.fingerprint import Fingerprint, fingerprint
from socrates.engine.epoch import train_epoch
from socrates.engine.evaluate import evaluate_fitted, infer, refinement, val_record
from socrates.engine.events import Closed, EpochDone, Finished, Started, Tell, to_nobody
from socrates.engine.guard import Stopping, check_space, check_writable, enough_memory, held
from socrates.engine.keep import keep_model, reserve, start_from
from socrates.engine.optim import learning_rate, make_optimizer, weight_norm
from socrates.engine.pace import seconds_per_epoch
from socrates.engine.state import State
from socrates.experiment import Experiment, resolve
from socrates.predictor import Weights, model_file
from socrates.records import EpochRecord, Run, best_epoch

SECONDS_BETWEEN_CHECKPOINTS = 10.0
META_SEED = 42


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
    tell: Tell = to_nobody,
) -> Run:
    """Train an experiment into its directory below `out`; a finished run is left as it is, a stopped one goes on.

    Data that are not those the run began with are refused, unless `again` starts it anew. The finished run keeps its
    model, with weights in full, in half precision, or none; see `socrates.load`. `start` is the model.safetensors (or
    the run that holds it) of the weights whose hash the experiment names. With `estimate` a few steps are tried first,
    to tell about how long it takes.
    """
    experiment = resolve(experiment)
    directory = Run.directory_of(out, experiment)
    already = ""
    try:
        if not again and (directory / "finished.json").is_file():
            already = nothing_to_do(Run(directory), data_root, {})
        else:
            check_writable(Path(out))
            options = Options(data_root, accelerator, again, keep_weights, start and model_file(Path(start)), estimate)
            _train(experiment, Path(out), options, tell)
        run = Run(directory)
        tell(Finished(experiment, run, already))
    finally:
        tell(Closed())
    return run


def pace(
    experiment: Experiment, *, data_root: Path | None = None, accelerator: str = "auto", start: Path | None = None
) -> float:
    """About how many seconds an epoch of an experiment takes here."""
    experiment = resolve(experiment)
    fabric = make_fabric(accelerator, experiment.precision)
    splits, _ = reserve(data.to_device(load_data(experiment, data_root), fabric.device), experiment.certify)
    return seconds_per_epoch(fabric, build(experiment, splits, fabric, start and model_file(start)), experiment, splits)


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


def load_data(experiment: Experiment, data_root: Path | None) -> Splits:
    """The data of an experiment."""
    part = experiment.dataset
    with enough_memory(f"the data set {part.name}", "take fewer or smaller images"):
        return data.load(part.name, data_root, experiment.num_train, **dict(part.options))


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


def _train(experiment: Experiment, out: Path, options: Options, tell: Tell) -> None:
    fabric = make_fabric(options.accelerator, experiment.precision)
    loaded = load_data(experiment, options.data_root)
    found = fingerprint(experiment.dataset.name, lambda: loaded, options.data_root)
    splits, reserved = reserve(data.to_device(loaded, fabric.device), experiment.certify)
    with enough_memory(f"the model {experiment.model.name}", "make it smaller"):
        state = build(experiment, splits, fabric, options.start)
    check_space(out, experiment, splits, state)
    run = Run.create(out, experiment)  # not before: a mistake leaves no directory
    settings = experiment.optimization
    large = enough_memory(f"batches of {settings.batch_size} in {experiment.model.name}", "make one of them smaller")
    stop = Stopping(state, run)
    with held(run.directory), stop.listening(), large:
        if options.again:
            run.forget()
        if run.finished:
            return  # by another process, since this one looked
        resume(run, experiment, state, found)
        seconds = seconds_per_epoch(fabric, state, experiment, splits) if options.estimate else math.nan
        fabric_model, state.optimizer = fabric.setup(state.model, state.optimizer)
        if hasattr(state.model, "features"):
            fabric_model.mark_forward_method("features")
        tell(Started(experiment, run, state.epoch, state.steps(settings.batch_size), str(splits), seconds))
        saving = Saving(state, run.checkpoint, stop)
        while state.epoch < settings.epochs:
            values: dict[str, Any] = {"rate": learning_rate(state.epoch + 0.5, settings)}
            values |= train_epoch(fabric, fabric_model, state, experiment, tell, saving.after_step)
            trained = time.monotonic() - state.gathered.seconds if state.gathered else math.nan
            values |= measure(fabric_model, state, splits, experiment, run)
            values |= {"weight_norm": float(weight_norm(state.model)), "seconds": time.monotonic() - trained}
            if isinstance(head := getattr(state.model, "head", None), torch.nn.Module):
                values["head_norm"] = float(weight_norm(head))
            with stop.uninterrupted():
                state.end_epoch()
                record = EpochRecord(state.epoch, values, values.pop("collapsed"))
                run.append_epoch(record)
                if experiment.choose != "last" and best_epoch(run.epochs(), experiment.choose) == state.epoch:
                    state.keep_weights()
                if saving.due or state.epoch == settings.epochs:
                    saving.save()
            tell(EpochDone(experiment, record))
        finish(run, fabric_model, state, splits, reserved, options.keep_weights)


class Saving:
    """When checkpoints are written: every so many seconds, unless that takes more than a twentieth of the time."""

    def __init__(self, state: State, path: Path, stop: Stopping) -> None:
        self.state, self.path, self.stop = state, path, stop
        self.last, self.took = time.monotonic(), 0.0

    @property
    def due(self) -> bool:
        """Whether it is time for one."""
        return time.monotonic() - self.last > SECONDS_BETWEEN_CHECKPOINTS * max(1.0, 2 * self.took)

    def save(self) -> None:
        """Write one now."""
        start = time.monotonic()
        self.state.save(self.path)
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


def make_fabric(accelerator: str, precision: str) -> Any:
    """Device and precision; what this machine has not is an error in one line."""
    from lightning_fabric import Fabric  # heavy: imported where a run really starts

    try:
        return Fabric(accelerator=accelerator, devices=1, precision=precision)  # pyright: ignore[reportArgumentType]
    except Exception as error:  # Fabric raises many kinds
        raise ValueError(
            f"the device {accelerator} with precision {precision} cannot be used here ({error}): choose auto or cpu"
        ) from error


def resume(run: Run, experiment: Experiment, state: State, found: Fingerprint) -> None:
    """Take over what a stopped run left, if it is of this experiment and these data, and whole."""
    if run.experiment != experiment:
        raise ValueError(f"{run.directory} holds another experiment: its experiment.json was changed, restore it")
    check_data(run, found)
    state.load(run.checkpoint)
    run.forget_epochs_after(state.epoch)
    if run.data is None:
        run.save_data(found)


def build(experiment: Experiment, splits: Splits, fabric: Any, start: Path | None = None) -> State:
    """Model, method and optimizer on the device, and the training data with the method's own share held back."""
    name, epochs = experiment.method.name, experiment.optimization.epochs
    task = Task(len(splits.train), splits.num_classes, epochs)
    method = methods.build(name, task, **dict(experiment.method.options))
    if method.first_whole_epoch >= epochs:
        raise ValueError(
            f"{name} would never act: its second phase starts after {method.first_whole_epoch} epochs, the run has "
            f"{epochs}: give a smaller --start-epoch, or more --epochs"
        )
    train_split, meta_split = splits.train, None
    if method.meta_share > 0:
        order = torch.randperm(len(splits.train), generator=torch.Generator().manual_seed(META_SEED))
        num_meta = max(1, int(method.meta_share * len(order)))
        train_split, meta_split = splits.train.subset(order[num_meta:]), splits.train.subset(order[:num_meta])
    torch.manual_seed(Stream(experiment.seed, 0, "initialisation").number())
    outputs = splits.num_classes + int(method.unknown_class)
    model = models.build(experiment.model.name, outputs, splits.image_shape, **dict(experiment.model.options))
    methods.check_model(name, method, model)
    start_from(model, experiment, start)
    if any(parameter.dim() == 4 for parameter in model.parameters()):
        model = model.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
    model, method = model.to(fabric.device), method.to(fabric.device)
    optimizer = make_optimizer(model, experiment.optimization)
    return State(experiment, model, method, optimizer, train_split, meta_split, fabric.strategy.precision)


def measure(model: Any, state: State, splits: Splits, experiment: Experiment, run: Run) -> dict[str, Any]:
    """The validation part of an epoch's record; at kept epochs the logits of val and test are stored."""
    epoch, labels, logits = state.epoch + 1, splits.val.labels, infer(model, splits.val)
    if epoch == experiment.optimization.epochs or epoch % experiment.keep_every == 0:
        save_logits(run, epoch, splits, logits, infer(model, splits.test))
    record = {"val_loss": float(state.method.validation_loss(logits, labels))}
    if experiment.choose == "refinement":
        record["val_refinement"] = refinement(logits, labels, splits.num_classes)
    return record | val_record(logits, labels, splits.class_names, experiment.num_bins)


def save_logits(run: Run, epoch: int, splits: Splits, val: Tensor, test: Tensor) -> None:
    """Keep the logits of val and test."""
    for name, split, found in (("val", splits.val, val), ("test", splits.test, test)):
        run.save_predictions(name, epoch, found.cpu().numpy(), split.labels.cpu().numpy(), splits.num_classes)
