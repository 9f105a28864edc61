"""What runs will take before they start: images, steps, disk, and time from a few measured steps.

The work of a run is counted (images, parameters, FLOPs by torch's counter); the speed of this
machine is measured on random images, and applied to runs that were not timed by their FLOPs.
"""

import contextlib
import math
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from socrates import data, methods, models
from socrates.contracts import Method, Splits, Task
from socrates.data import ResidentImages, Transform
from socrates.data.download import nothing_downloaded
from socrates.engine.build import build, make_fabric
from socrates.engine.evaluate import EVAL_BATCH
from socrates.engine.pace import try_pace
from socrates.engine.studies.engine import reason_with_place
from socrates.experiment import Experiment, Optimization, Part
from socrates.predictor import Weights

PATIENCE = 10.0  # seconds after which nothing more is timed
LARGEST_STEP = 5e10  # FLOPs of a timed step: seconds on one core
COUNTED = 2  # images whose FLOPs are counted: with one, batch norm has no statistics
SECONDS_PER_LOGIT = 5e-5  # to fit every scaler and compute every metric when a run ends
BYTES_OF_WEIGHT = {"full": 4, "half": 2, "none": 0}
# ViT-B/16, layer by layer, so that its size is known without its weights.
VIT_BASE = Part("vit", patch=16, dim=768, depth=12, heads=12, mlp_ratio=4.0)
# timed where nothing that is asked for can be timed
FALLBACK = Experiment(
    Part("cifar10"), Part("resnet20"), Part("ce"), optimization=Optimization(batch_size=32)
)


class Sizes(NamedTuple):
    """The numbers of images of a data set, their shape, and the number of classes."""

    train: int
    val: int
    test: int
    image_shape: tuple[int, int, int]
    num_classes: int


class Workload(NamedTuple):
    """What one run computes and writes. FLOPs count a multiplication and an addition as two.

    The loss and the optimizer are not counted: they are small beside the model, unless it is tiny.
    """

    sizes: Sizes
    samples: int  # training images seen, over all epochs
    steps: int  # of the optimizer
    parameters: int
    forward_flops: float  # of one image
    step_flops: float  # of one image in a training step: forward, back, and extra passes
    training_flops: float  # of all steps
    evaluation_flops: float  # of validation in each epoch and of tests at the kept ones
    logits_bytes: int  # kept on the disk, before compression
    checkpoint_bytes: int  # on the disk while the run is trained

    def kept_bytes(self, keep_weights: Weights = "none") -> int:
        """Return the bytes that a finished run keeps on the disk, at most."""
        return self.logits_bytes + BYTES_OF_WEIGHT[keep_weights] * self.parameters


def workload_of(experiment: Experiment, data_root: Path | None = None) -> Workload:
    """Count the work of a run; data sets without a known size are read.

    >>> run = Experiment(Part("digits"), Part("mlp"), Part("ce"), num_train=200, keep_every=300)
    >>> work = workload_of(run)
    >>> work.samples, work.steps, work.parameters, work.kept_bytes()
    (60000, 600, 26122, 65868)
    """
    sizes = sizes_of(experiment, data_root)
    optimization = experiment.optimization
    epochs = optimization.epochs
    method = _method_of(experiment.method, epochs)
    images = sizes.train - int(method.meta_share * sizes.train)
    outputs = sizes.num_classes + int(method.unknown_class)
    parameters, forward, both = model_size(experiment.model, sizes.image_shape, outputs)
    extra = method.extra_passes * forward
    share_of_epochs_with_extra = 1 - method.first_whole_epoch / epochs
    evaluated = epochs * sizes.val + kept_epochs(experiment) * sizes.test
    columns = outputs + 1  # float32 logits, and a label
    # weights, momentum and the method's copies; the logits of an epoch that is interrupted
    checkpoint = 4 * (2 + method.model_copies) * parameters + 4 * sizes.train * outputs
    return Workload(
        sizes=sizes,
        samples=epochs * images,
        steps=epochs * math.ceil(images / optimization.batch_size),
        parameters=parameters,
        forward_flops=forward,
        step_flops=both + extra,
        training_flops=epochs * images * (both + share_of_epochs_with_extra * extra),
        evaluation_flops=evaluated * forward,
        logits_bytes=4 * (sizes.val + sizes.test) * columns * kept_epochs(experiment),
        checkpoint_bytes=3 * checkpoint,  # two, and one that is being written
    )


def sizes_of(experiment: Experiment, data_root: Path | None = None) -> Sizes:
    """Return the sizes of the data of an experiment.

    >>> images = Part("cifar100", image_size=224)
    >>> sizes_of(Experiment(images, Part("vgg16"), Part("ce"), num_train=500))
    Sizes(train=500, val=5000, test=10000, image_shape=(3, 224, 224), num_classes=100)
    """
    sizes = _sizes(experiment.dataset, data_root)
    train = experiment.num_train or sizes.train
    return sizes._replace(train=train - int(experiment.holdout * train))


@cache
def _sizes(dataset: Part, data_root: Path | None) -> Sizes:
    options: dict[str, Any] = dict(dataset.options)
    if dataset.name in data.DATASETS:
        entry = data.DATASETS[dataset.name]
        channels, side, _ = entry.image_shape
        side = int(options.get("image_size") or side)
        return Sizes(*entry.sizes, (channels, side, side), entry.num_classes)
    with nothing_downloaded():
        splits = data.load(dataset.name, data_root, **options)
    counts = len(splits.train), len(splits.val), len(splits.test)
    return Sizes(*counts, splits.image_shape, splits.num_classes)


def kept_epochs(experiment: Experiment) -> int:
    """Return at how many epochs logits are kept: every `keep_every`-th, and the last.

    >>> kept_epochs(Experiment(Part("digits"), Part("mlp"), Part("ce"), keep_every=25))
    12
    """
    return math.ceil(experiment.optimization.epochs / experiment.keep_every)


@cache
def _method_of(method: Part, epochs: int) -> Method:
    task = Task(num_samples=1, num_classes=2, epochs=epochs)
    return methods.build(method.name, task, **dict(method.options))


@cache
def model_size(
    model: Part, image_shape: tuple[int, int, int], outputs: int
) -> tuple[int, float, float]:
    """Return a model's parameters, and the FLOPs of an image forward, and forward and back."""
    built = model_without_weights(model, image_shape, outputs)
    parameters = list(built.parameters())
    with FlopCounterMode(display=False) as counter:
        logits = built(torch.zeros(COUNTED, *image_shape, device=parameters[0].device))
        forward = counter.get_total_flops()
        logits.sum().backward()
    num_parameters = sum(parameter.numel() for parameter in parameters)
    return num_parameters, forward / COUNTED, counter.get_total_flops() / COUNTED


def model_without_weights(
    model: Part, image_shape: tuple[int, int, int], outputs: int
) -> nn.Module:
    """Build a model on torch's meta device, where it can be built so."""
    model = VIT_BASE if model.name == "vit_transfer" else model
    try:
        with torch.device("meta"):
            return models.build(model.name, outputs, image_shape, **dict(model.options))
    except (RuntimeError, ValueError):  # a plug-in model may read its own weights
        return models.build(model.name, outputs, image_shape, **dict(model.options))


@dataclass
class Forecast:
    """The work of each run, its seconds in one process, and notes on what was not timed."""

    workloads: dict[Experiment, Workload] = field(default_factory=dict)
    seconds: dict[Experiment, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def note(self, sentence: str) -> None:
        """Add a note, unless it is there already."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    def together(self, runs: Sequence[Experiment], at_once: int) -> float:
        """Return the seconds of several runs, `at_once` at a time, as far as they are known.

        >>> parts = Part("digits"), Part("mlp"), Part("ce")
        >>> first, second, third = (Experiment(*parts, seed) for seed in (1, 2, 3))
        >>> seconds = {first: 10.0, second: 20.0, third: 30.0}
        >>> Forecast(seconds=seconds).together([first, second, third], at_once=2)
        30.0
        """
        known = [self.seconds[run] for run in runs if run in self.seconds]
        return max(sum(known) / at_once, max(known, default=0.0))


@dataclass(frozen=True)
class Speed:
    """The measured speed of training and evaluating a run, in FLOPs per second."""

    experiment: Experiment
    step_flops: float
    training: float
    evaluation: float


def forecast(
    experiments: Sequence[Experiment],
    *,
    accelerator: str = "cpu",
    data_root: Path | None = None,
    patience: float = PATIENCE,
) -> Forecast:
    """Estimate how long each run takes in a process of its own, from a few measured steps.

    One run of each data set and model is timed first, then other methods and batch sizes until
    `patience` seconds are over. The others are estimated from their FLOPs at the speed of the most
    similar one. Reading images from files is not included.
    """
    result = Forecast()
    for run in experiments:
        try:
            result.workloads[run] = workload_of(run, data_root)
        except (ValueError, OSError, ImportError) as error:
            reason = reason_with_place(error)
            result.note(f"how long runs on {run.dataset.name} take is not known: {reason}")
    if not result.workloads:
        return result
    with _as_in_a_study():
        speeds = _measured_speeds(result, accelerator, patience)
    for run, work in result.workloads.items():
        speed = _most_similar(run, work, speeds)
        name = _name_of(run)
        name_of_timed = _name_of(speed.experiment)
        if name_of_timed != name:
            result.note(f"{name} was not timed: estimated at the speed of {name_of_timed}")
        num_logits = (work.sizes.val + work.sizes.test) * work.sizes.num_classes
        result.seconds[run] = (
            work.training_flops / speed.training
            + work.evaluation_flops / speed.evaluation
            + SECONDS_PER_LOGIT * num_logits
        )
    return result


def _name_of(experiment: Experiment) -> str:
    return f"{experiment.dataset.name} {experiment.model.name}"


def _measured_speeds(result: Forecast, accelerator: str, patience: float) -> list[Speed]:
    """Time one run of each kind, different data and models first, until patience is over."""
    by_data_and_model: dict[Any, Experiment] = {}
    by_kind: dict[Any, Experiment] = {}
    for run in result.workloads:
        by_data_and_model.setdefault((run.dataset, run.model), run)
        by_kind.setdefault(kind_of(run), run)
    end = time.monotonic() + patience
    speeds: list[Speed] = []
    for run in dict.fromkeys([*by_data_and_model.values(), *by_kind.values()]):
        if speeds and time.monotonic() > end:
            break
        fabric = make_fabric(accelerator, run.precision)
        try:
            speeds += _measured_speed(run, result.workloads[run], fabric)
        except Exception as error:  # whatever a plug-in raises: training will say it again
            name = f"{_name_of(run)} {run.method.name}"
            result.note(f"{name} could not be timed: {reason_with_place(error)}")
    fabric = make_fabric(accelerator, FALLBACK.precision)
    return speeds or _measured_speed(FALLBACK, workload_of(FALLBACK), fabric)


def kind_of(run: Experiment) -> tuple[Part, Part, str, int, str]:
    """Return what mainly decides how long a step takes."""
    batch_size = run.optimization.batch_size
    return run.dataset, run.model, run.method.name, batch_size, run.precision


def _measured_speed(run: Experiment, work: Workload, fabric: Any) -> list[Speed]:
    """Time a few steps on random images; return nothing if a step of 2 images takes too long."""
    most_images = int(LARGEST_STEP / work.step_flops)
    if most_images < 2:
        return []
    timed_size = min(run.optimization.batch_size, most_images)
    num_val = min(work.sizes.val, EVAL_BATCH, most_images)
    splits = _random_images(work.sizes, 10 * timed_size, num_val)
    optimization = replace(run.optimization, batch_size=timed_size)
    state = build(replace(run, optimization=optimization), splits, fabric)
    state.epoch = state.method.first_whole_epoch
    pace = try_pace(fabric, state, splits)
    training = timed_size * work.step_flops / pace.step
    return [Speed(run, work.step_flops, training, work.forward_flops / pace.image)]


def _most_similar(run: Experiment, work: Workload, speeds: Sequence[Speed]) -> Speed:
    """Return the speed of the same kind, or of the same data and model, or of similar FLOPs."""

    def difference(speed: Speed) -> tuple[bool, bool, float]:
        other = speed.experiment
        another_model = (other.dataset, other.model) != (run.dataset, run.model)
        ratio = math.log(speed.step_flops / work.step_flops)
        return kind_of(other) != kind_of(run), another_model, abs(ratio)

    return min(speeds, key=difference)


def _random_images(sizes: Sizes, num_train: int, num_val: int) -> Splits:
    channels = sizes.image_shape[0]
    transform = Transform((0.5,) * channels, (0.5,) * channels, padding=4, flip=True)

    def split(count: int, transform: Transform) -> ResidentImages:
        images = torch.randint(256, (count, *sizes.image_shape), dtype=torch.uint8)
        return ResidentImages(images, torch.arange(count) % sizes.num_classes, transform)

    class_names = tuple(map(str, range(sizes.num_classes)))
    val = split(num_val, transform.plain)
    return Splits(split(num_train, transform), val, val, class_names, sizes.image_shape)


@contextlib.contextmanager
def _as_in_a_study() -> Iterator[None]:
    """Compute in one thread, as the processes of a study do, and leave no trace."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with warnings.catch_warnings(), torch.random.fork_rng():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.set_num_threads(threads)
