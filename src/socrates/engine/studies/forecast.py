"""About how long runs take on this machine: a step of each kind is timed on made-up images, the rest is reckoned."""

import contextlib
import math
import os
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from socrates.cluster import available_cores
from socrates.contracts import Splits
from socrates.data import ResidentImages, Transform
from socrates.engine.build import build, make_fabric
from socrates.engine.evaluate import EVAL_BATCH, evaluate_fitted
from socrates.engine.pace import TRIED, try_pace
from socrates.engine.studies import cost
from socrates.engine.studies.cost import Flops, Sizes
from socrates.engine.studies.local import reason_of
from socrates.experiment import Experiment, Optimization, Part
from socrates.records import Run

PATIENCE = 10.0  # seconds after which nothing more is timed
LARGEST_STEP = 5e10  # FLOPs that are tried in a step: seconds on one core
EVALUATED = Sizes(0, 300, 1_197, (1, 8, 8), 10)  # whose last evaluation is timed: as large as digits
ANOTHER = Experiment(Part("cifar10"), Part("resnet20"), Part("ce"), optimization=Optimization(batch_size=32))


@dataclass
class Forecast:
    """Seconds of each run in one process, and what could not be timed, and why."""

    seconds: dict[Experiment, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def together(self, runs: Sequence[Experiment], at_once: int) -> float:
        """Seconds of several runs, so many at once, as far as they are known.

        >>> one, two, three = (Experiment(Part("digits"), Part("mlp"), Part("ce"), seed) for seed in (1, 2, 3))
        >>> Forecast({one: 10.0, two: 20.0, three: 30.0}).together([one, two, three], at_once=2)
        30.0
        """
        known = [self.seconds[run] for run in runs if run in self.seconds]
        return max(sum(known) / at_once, max(known, default=0.0))


@dataclass(frozen=True)
class Speed:
    """What was measured of a kind: FLOPs of training in a second, and seconds of evaluating an image."""

    kind: Experiment
    one: Flops
    rate: float
    image: float

    @property
    def name(self) -> str:
        """The data set and the model."""
        return f"{self.kind.dataset.name} {self.kind.model.name}"


def forecast(
    experiments: Sequence[Experiment],
    *,
    accelerator: str = "cpu",
    data_root: Path | None = None,
    patience: float = PATIENCE,
) -> Forecast:
    """About how long each run takes in a process of its own, from a few seconds of trying.

    One kind of each data set and model is timed first, then other methods and batch sizes until `patience` is over.
    What is not timed, or too large to be, is reckoned from its FLOPs and the speed of what is most like it. Reading
    images from files is not included.
    """
    found, kinds = Forecast(), dict[Experiment, list[Experiment]]()
    sizes: dict[Experiment, Sizes] = {}
    for run in experiments:
        try:
            sizes[run] = cost.sizes_of(run, data_root)
            kinds.setdefault(kind_of(run), []).append(run)
        except (ValueError, OSError, ImportError) as error:
            _note(found, f"how long runs on {run.dataset.name} take is not known: {reason_of(error)}")
    if not kinds:
        return found
    busy = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if busy > available_cores():
        words = f"this machine is busy (load {busy:.0f} on {available_cores()} cores)"
        _note(found, f"{words}: as long as it is, runs take longer")
    precisions = {kind.precision for kind in (*kinds, ANOTHER)}
    fabrics = {precision: make_fabric(accelerator, precision) for precision in precisions}
    with _one_thread():
        last = {unknown: _last_evaluation(unknown) for unknown in {cost.needs_of(kind).unknown for kind in kinds}}
        speeds = _timed({kind: sizes[runs[0]] for kind, runs in kinds.items()}, fabrics, patience, found)
    for kind, runs in kinds.items():
        speed = _most_like(kind, sizes[runs[0]], speeds)
        if speed.name != f"{kind.dataset.name} {kind.model.name}":
            told = f"{kind.dataset.name} {kind.model.name} was not timed: reckoned from its FLOPs at the speed of "
            _note(found, told + speed.name)
        for run in runs:
            evaluation = last[cost.needs_of(run).unknown] * _share(sizes[run])
            found.seconds[run] = _seconds(run, sizes[run], speed) + evaluation
    return found


def kind_of(experiment: Experiment) -> Experiment:
    """What decides how long a step takes: without seed, numbers of epochs and numbers like gamma.

    >>> run = Experiment(Part("digits"), Part("mlp"), Part("focal", gamma=2.0), seed=7)
    >>> kind_of(run) == kind_of(replace(run, seed=1, method=Part("focal", gamma=3.0)))
    True
    """
    options = dict(experiment.method.options)
    kept = {name: value for name, value in options.items() if not isinstance(value, float) and name != "start_epoch"}
    how = experiment.optimization
    steps = Optimization(batch_size=how.batch_size, backbone_factor=how.backbone_factor)
    parts = (experiment.dataset, experiment.model, Part(experiment.method.name, **kept))
    return Experiment(*parts, precision=experiment.precision, optimization=steps)


def _timed(kinds: dict[Experiment, Sizes], fabrics: dict[str, Any], patience: float, found: Forecast) -> list[Speed]:
    """The speed of those that can be timed while there is patience, one of each data set and model first."""
    first = {(kind.dataset, kind.model): kind for kind in reversed(list(kinds))}
    end, speeds = time.monotonic() + patience, list[Speed]()
    for kind in dict.fromkeys([*first.values(), *kinds]):
        if time.monotonic() > end and speeds:
            break
        try:
            speeds += _speed(kind, kinds[kind], fabrics[kind.precision])
        except Exception as error:  # whatever a model from outside raises: training will say it again
            name = f"{kind.dataset.name} {kind.model.name} {kind.method.name}"
            _note(found, f"{name} could not be timed: {reason_of(error)}")
    return speeds or _speed(ANOTHER, cost.sizes_of(ANOTHER), fabrics[ANOTHER.precision])


def _speed(kind: Experiment, sizes: Sizes, fabric: Any) -> list[Speed]:
    """The speed of a kind, by steps of as many images as seconds allow; none if that is less than two."""
    one, size = cost.flops(kind, sizes), kind.optimization.batch_size
    tried = min(size, int(LARGEST_STEP / one.both))
    if tried < 2:
        return []
    small = replace(kind, optimization=replace(kind.optimization, batch_size=tried))
    splits = _made_up(sizes, 10 * tried, min(sizes.val, EVAL_BATCH if tried == size else tried))
    state = build(small, splits, fabric)
    state.epoch = state.method.first_whole_epoch
    pace = try_pace(fabric, state, splits, TRIED if tried == size else 2)
    done = tried * (one.both + cost.MORE_PASSES.get(kind.method.name, 0) * one.forward)
    return [Speed(kind, one, done / pace.step, pace.image)]


def _most_like(kind: Experiment, sizes: Sizes, speeds: Sequence[Speed]) -> Speed:
    """Itself, or the same model, or one of about as many FLOPs."""
    own = cost.flops(kind, sizes).both

    def unlike(speed: Speed) -> tuple[bool, bool, bool, float]:
        other, same = speed.kind, (speed.kind.dataset, speed.kind.model) == (kind.dataset, kind.model)
        batch = other.optimization.batch_size != kind.optimization.batch_size
        return other != kind, not same, batch, abs(math.log(speed.one.both / own))

    return min(speeds, key=unlike)


def _seconds(run: Experiment, sizes: Sizes, speed: Speed) -> float:
    """Of all epochs of a run."""
    evaluation = cost.evaluation_flops(run, sizes) * speed.image / speed.one.forward
    return cost.training_flops(run, sizes) / speed.rate + evaluation


def _made_up(sizes: Sizes, num_train: int, num_val: int) -> Splits:
    channels = sizes.image_shape[0]
    how = Transform((0.5,) * channels, (0.5,) * channels, padding=4, flip=True)

    def split(count: int, transform: Transform) -> ResidentImages:
        images = torch.randint(256, (count, *sizes.image_shape), dtype=torch.uint8)
        return ResidentImages(images, torch.arange(count) % sizes.num_classes, transform)

    names = tuple(map(str, range(sizes.num_classes)))
    val = split(num_val, how.plain)
    return Splits(split(num_train, how), val, val, names, sizes.image_shape)


def _last_evaluation(unknown: bool) -> float:
    """Seconds of fitting every scaler and computing every metric at the end of a run as large as digits."""
    run_of = Experiment(Part("digits"), Part("mlp"), Part("socrates" if unknown else "ce"))
    random, epoch = np.random.default_rng(1), run_of.optimization.epochs
    with TemporaryDirectory() as folder:
        run = Run.create(folder, run_of)
        for name, count in (("val", EVALUATED.val), ("test", EVALUATED.test)):
            labels = random.integers(EVALUATED.num_classes, size=count)
            logits = random.normal(size=(count, EVALUATED.num_classes + int(unknown)))
            logits[np.arange(count), labels] += 3
            run.save_predictions(name, epoch, logits, labels, EVALUATED.num_classes)
        start = time.perf_counter()
        evaluate_fitted(run, epoch)
        return time.perf_counter() - start


def _share(sizes: Sizes) -> float:
    """How much larger the last evaluation is than the timed one."""
    return (sizes.val + sizes.test) * sizes.num_classes / ((EVALUATED.val + EVALUATED.test) * EVALUATED.num_classes)


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """As the processes of a study compute."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with warnings.catch_warnings(), torch.random.fork_rng():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.set_num_threads(threads)


def _note(found: Forecast, words: str) -> None:
    if words not in found.notes:
        found.notes.append(words)
