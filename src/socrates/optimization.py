"""SGD and its schedule as settings, and the settings that each recipe uses by default."""

import math
from collections.abc import Collection
from dataclasses import dataclass, replace

from . import data, methods, models

RECIPES = ("paper", "one-cycle")
# What is trained by one cycle by default, besides a user's own images.
SMALL_MODELS = ("mlp", "cnn", "resnet20")
SMALL_DATA = ("digits", "mnist", "fashion_mnist")
# One cycle is at least this long.
FEWEST_STEPS = 2_000
FEWEST_EPOCHS = 20
# One cycle clips the gradient norm of batches that are smaller than this. Without it, twice the
# usual peak rate ends cross-entropy on 300 digits, in batches of 16, at 10% to 66% instead of 95%.
SMALL_BATCH = 64
CLIP_NORM = 1.0
# How a pretrained backbone learns, if it does.
FINE_TUNED_EPOCHS = 10
FINE_TUNED_FACTOR = 0.1


@dataclass(frozen=True)
class Optimization:
    """SGD and its schedule; the defaults are the paper's.

    With the recipe "paper" the learning rate is halved every `halve_every` epochs, or at the epochs
    of `milestones` if there are any. With "one-cycle" it rises to `learning_rate` over the first
    fifth of the steps and falls to 0 over the others, with Nesterov's momentum: the better one when
    there are few epochs.

    A gradient whose norm over all parameters is above `clip_norm` is scaled down to it before the
    step; 0 means that gradients are never clipped, as in the paper. `usual_clip_norm` says when one
    cycle clips.
    """

    epochs: int = 300
    batch_size: int = 128
    learning_rate: float = 0.1
    backbone_factor: float = 1.0  # of the rate for all but the head: 0.1 for transfer learning
    momentum: float = 0.9
    weight_decay: float = 5e-4
    halve_every: int = 25
    milestones: tuple[int, ...] = ()
    recipe: str = "paper"
    clip_norm: float = 0.0
    # from this epoch on the backbone learns at the head's rate, as in the released code; 0: never
    backbone_joins: int = 0

    def __post_init__(self) -> None:
        check_choice("recipe", self.recipe, RECIPES)
        for name in ("epochs", "batch_size", "halve_every"):
            check_whole(name, getattr(self, name), above=0)
        check_whole("backbone_joins", self.backbone_joins, above=-1)
        for name in ("learning_rate", "backbone_factor", "momentum", "weight_decay", "clip_norm"):
            number = check_finite(name, getattr(self, name))
            object.__setattr__(self, name, number)  # 1 and 1.0 are the same run
        if not self.learning_rate > 0:
            raise ValueError(f"learning_rate must be more than 0, got {self.learning_rate}")
        for name in ("backbone_factor", "weight_decay", "clip_norm"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be at least 0, got {getattr(self, name)}")
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum of SGD must be in [0, 1), got {self.momentum}")
        self._check_schedule()

    def _check_schedule(self) -> None:
        for epoch in self.milestones:
            check_whole("milestones", epoch, above=0)
        if list(self.milestones) != sorted(set(self.milestones)):
            raise ValueError(
                f"milestones must be epochs in increasing order, got {self.milestones}"
            )
        halves = self.milestones or self.halve_every != Optimization.halve_every
        if halves and self.recipe != "paper":
            raise ValueError(
                "halve_every and milestones belong to the recipe paper, got the recipe "
                f"{self.recipe}"
            )


def usual_clip_norm(recipe: str, batch_size: int) -> float:
    """Return the gradient norm at which a recipe clips batches of this size, 0 if it does not clip.

    Small batches have noisy gradients, and at the peak of one cycle a few long ones can ruin a run.

    >>> [usual_clip_norm("one-cycle", batch_size) for batch_size in (16, 64)]
    [1.0, 0.0]
    >>> usual_clip_norm("paper", 16)
    0.0
    """
    return CLIP_NORM if recipe == "one-cycle" and batch_size < SMALL_BATCH else 0.0


def with_batch_size(optimization: Optimization, batch_size: int) -> Optimization:
    """Return the settings with another batch size and, unless theirs was unusual, its clipping.

    >>> small = usual_optimization("digits", "mlp", "ce")
    >>> small.clip_norm, with_batch_size(small, 64).clip_norm
    (1.0, 0.0)
    >>> with_batch_size(replace(small, clip_norm=5.0), 64).clip_norm
    5.0
    """
    changed = replace(optimization, batch_size=batch_size)
    if optimization.clip_norm != usual_clip_norm(optimization.recipe, optimization.batch_size):
        return changed
    return replace(changed, clip_norm=usual_clip_norm(changed.recipe, batch_size))


def usual_optimization(
    dataset: str, model: str, method: str, num_images: int | None = None, recipe: str | None = None
) -> Optimization:
    """Return the settings that are used by default.

    Small models, and any model on a user's own images, are trained by one cycle, whose length
    depends on the number of training images (by default that of the data set); everything else is
    trained as in the paper, in batches of the method's `usual_batch_size`.

    >>> usual_optimization("cifar100", "vgg16", "ccl_sc").batch_size
    64
    >>> cycle = usual_optimization("folder:my-images", "resnet34", "socrates", num_images=216)
    >>> cycle.recipe, cycle.batch_size, cycle.epochs, cycle.clip_norm
    ('one-cycle', 16, 143, 1.0)
    """
    batch_size = getattr(methods.METHODS.get(method), "usual_batch_size", 128)
    if model == "vit_transfer":
        transfer = Optimization(50, batch_size, learning_rate=5e-4, backbone_factor=0.1)
        if recipe == "one-cycle":
            return replace(transfer, recipe=recipe)
        return replace(transfer, milestones=(20, 35, 45))
    if models.is_backbone(model):
        if recipe == "paper":
            return Optimization(batch_size=batch_size, backbone_factor=0.0)
        cycle = one_cycle(num_images or _num_training_images(dataset))
        return replace(cycle, backbone_factor=0.0)
    is_own = dataset.startswith(("folder:", "npz:"))
    is_small = model in SMALL_MODELS or dataset in SMALL_DATA or is_own
    if recipe == "one-cycle" or (recipe is None and is_small):
        return one_cycle(num_images or _num_training_images(dataset))
    return Optimization(batch_size=batch_size)


def fine_tuned(
    frozen: Optimization, epochs: int | None = None, backbone_factor: float | None = None
) -> Optimization:
    """Return the settings with which a backbone learns, too: at a low rate, and for few epochs.

    >>> fine_tuned(usual_optimization("folder:photos", "backbone", "ce", num_images=432)).epochs
    10
    """
    factor = FINE_TUNED_FACTOR if backbone_factor is None else backbone_factor
    return replace(frozen, epochs=epochs or FINE_TUNED_EPOCHS, backbone_factor=factor)


def one_cycle(num_images: int) -> Optimization:
    """Return the settings of one cycle over this many training images.

    >>> one_cycle(50_000).batch_size, one_cycle(50_000).epochs
    (64, 20)
    """
    batch_size = 64 if num_images >= 2_048 else 32 if num_images >= 512 else 16
    steps_per_epoch = math.ceil(num_images / batch_size)
    epochs = max(FEWEST_EPOCHS, math.ceil(FEWEST_STEPS / steps_per_epoch))
    clip_norm = usual_clip_norm("one-cycle", batch_size)
    return Optimization(epochs, batch_size, recipe="one-cycle", clip_norm=clip_norm)


def _num_training_images(dataset: str) -> int:
    """Return the size of a known training set, or one that needs the fewest epochs and steps."""
    if dataset in data.DATASETS:
        return data.DATASETS[dataset].sizes[0]
    return 64 * FEWEST_STEPS // FEWEST_EPOCHS


def check_choice(name: str, value: object, choices: Collection[str]) -> None:
    """Refuse a value that is not one of the choices.

    >>> check_choice("choose", "best", ("last", "nll"))
    Traceback (most recent call last):
    ValueError: choose must be one of last, nll, got 'best'
    """
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")


def check_whole(name: str, value: object, above: int) -> None:
    """Refuse a value that is not a whole number more than `above`.

    >>> check_whole("epochs", 0, above=0)
    Traceback (most recent call last):
    ValueError: epochs must be more than 0, got 0
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{name} must be a whole number, got {value!r}")
    if value <= above:
        limit = f"more than {above}" if above >= 0 else "at least 0"
        raise ValueError(f"{name} must be {limit}, got {value}")


def check_finite(name: str, value: object) -> float:
    """Return the value as a float; refuse anything but a finite number.

    >>> check_finite("gamma", float("nan"))
    Traceback (most recent call last):
    ValueError: gamma must be a finite number, got nan
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number, got {value}")
    return float(value)
