"""How large a reproduction is: the paper's own settings, or stand-ins that fit a laptop."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

from ..data import num_training_images
from ..experiment import Experiment, Optimization, Part, Value
from .released import AS_RELEASED_NOTE, as_released
from .settings import SETTINGS, PaperSetting

# The paper's epochs of interest, 25 to 300, fall on whole ones. With more, small models learn the
# noisy labels by heart before CCL-SC starts, and its queue of errors stays empty.
LAPTOP_EPOCHS = 24
LABEL_NOISE = 0.3  # of digits, which are too easy for an unknown class otherwise
LAPTOP_IMAGES = 2_000  # of another data set, if it has this many
PAPER_IMAGES = 45_000  # for which the paper chose the size of CCL-SC's queues
BATCH_DIVISOR = 4
USUAL_PRECISION = "32-true"
SMALLEST_QUEUE = 20  # a little more than a batch of CCL-SC
STAND_INS: dict[str, Part] = {
    "cifar10-vgg16": Part("cnn", width=4),
    "svhn-vgg16": Part("mlp", width=64),
    "food101-resnet34": Part("cnn", width=6),
    "cifar100-vgg16": Part("mlp"),
    "cifar100-resnet110": Part("resnet20", width=8),
    "cifar100-vit": Part("vit", patch=4, dim=64, depth=1, heads=4, dropout=0.0),
    "cifar100-vit_transfer": Part("mlp", depth=3),
}


@dataclass(frozen=True)
class PaperScale:
    """Train the paper's own data, models and epochs.

    With `released`, runs are trained as the authors' released code did, and every output says so;
    so it does of a `precision` other than float32.

    >>> PaperScale(released=True).name
    'paper-as-released'
    """

    released: bool = field(default=False, kw_only=True)
    precision: str = field(default=USUAL_PRECISION, kw_only=True)
    size: ClassVar[str] = "paper"
    compares: ClassVar[bool] = True  # whether the numbers may stand beside the printed ones

    @property
    def name(self) -> str:
        """Return the name of the folder."""
        released = "as-released" if self.released else ""
        precision = "" if self.precision == USUAL_PRECISION else self.precision
        return "-".join(filter(None, (self.size, released, precision)))

    @property
    def note(self) -> str:
        """Return the sentences that every output carries."""
        notes = [self.size_note, AS_RELEASED_NOTE if self.released else ""]
        if self.precision != USUAL_PRECISION:
            notes.append(f"Trained in {self.precision} precision; the paper names none.")
        return " ".join(filter(None, notes))

    def experiment(self, setting: str, experiment: Experiment) -> Experiment:
        """Return the run that is trained for a run of the paper."""
        resized = replace(self.resize(setting, experiment), precision=self.precision)
        return as_released(resized) if self.released else resized

    @property
    def size_note(self) -> str:
        """Return the sentences about the size alone: none at the paper's own size."""
        return ""

    def resize(self, setting: str, experiment: Experiment) -> Experiment:
        """Return a run of the paper at this size."""
        return experiment

    def epoch(self, setting: str, epoch: int) -> int:
        """Return the epoch of this scale that an epoch of the paper corresponds to."""
        return epoch

    def title(self, setting: str) -> str:
        """Return the name of a setting for tables and panels."""
        return SETTINGS[setting].title

    def search_seeds(self, setting: PaperSetting) -> tuple[int, ...]:
        """Return the seeds with which hyperparameters are searched."""
        return setting.tuning_seeds


@dataclass(frozen=True)
class LaptopScale(PaperScale):
    """Train the paper's methods and seeds on little data, with small models and few epochs.

    Start epochs keep their place in the training, whose rate makes one cycle; targets keep the
    share of their past that they have at its end, by a smaller alpha; batches are a quarter as
    large, and CCL-SC's queues keep their ratio to the data. 3 in 10 of digits' training labels are
    wrong, so that there is something not to know. Nothing is pretrained: the stand-in for transfer
    learning starts from scratch. Hyperparameters are searched with one seed.

    >>> from .grid import final_experiment
    >>> experiment = final_experiment("cifar100-vgg16", "sat")
    >>> small = LaptopScale().experiment("cifar100-vgg16", experiment)
    >>> small.dataset, small.model, small.method
    (Part('digits', label_noise=0.3), Part('mlp'), Part('sat', alpha=0.2679, start_epoch=16))
    """

    dataset: str = "digits"
    size: ClassVar[str] = "laptop"
    compares: ClassVar[bool] = False

    @cached_property
    def num_images(self) -> int:
        """Return the number of training images: at most `LAPTOP_IMAGES`, 300 for digits."""
        if self.dataset == "digits":
            return 300
        return min(LAPTOP_IMAGES, num_training_images(self.dataset) or LAPTOP_IMAGES)

    @property
    def size_note(self) -> str:
        """Return the sentences about the size alone."""
        noise = f" ({LABEL_NOISE:.0%} of their labels wrong)" if self.dataset == "digits" else ""
        return (
            f"Laptop scale: {self.num_images:,} training images of {self.dataset}{noise}, small "
            f"models and {LAPTOP_EPOCHS} epochs stand in for the paper's settings; for each of its "
            f"alphas, alpha ** (its epochs / {LAPTOP_EPOCHS}) is trained, and hyperparameters are "
            "searched with one seed. These numbers do not compare with the published ones."
        )

    def resize(self, setting: str, experiment: Experiment) -> Experiment:
        """Return the stand-in for a run of the paper."""
        batch_size = max(1, experiment.optimization.batch_size // BATCH_DIVISOR)
        dataset = Part(self.dataset)
        if self.dataset == "digits":
            dataset = Part(self.dataset, label_noise=LABEL_NOISE)
        return replace(
            experiment,
            dataset=dataset,
            model=STAND_INS[setting],
            method=self._method(setting, experiment.method),
            num_train=None if self.num_images < LAPTOP_IMAGES else LAPTOP_IMAGES,
            keep_every=LAPTOP_EPOCHS,
            optimization=Optimization(LAPTOP_EPOCHS, batch_size, recipe="one-cycle"),
        )

    def epoch(self, setting: str, epoch: int) -> int:
        """Return the epoch of this scale that an epoch of the paper corresponds to.

        >>> scale = LaptopScale()
        >>> scale.epoch("cifar100-vgg16", 150), scale.epoch("cifar100-vit_transfer", 25)
        (12, 12)
        """
        return max(min(epoch, 1), round(epoch * LAPTOP_EPOCHS / SETTINGS[setting].last_epoch))

    def title(self, setting: str) -> str:
        """Return what is trained, and what it stands in for.

        >>> LaptopScale().title("cifar100-vgg16")
        'digits, mlp (for CIFAR-100, VGG-16)'
        """
        return f"{self.dataset}, {STAND_INS[setting].name} (for {SETTINGS[setting].title})"

    def search_seeds(self, setting: PaperSetting) -> tuple[int, ...]:
        """Return one seed: with all of them the search alone would take half a day."""
        return setting.tuning_seeds[:1]

    def _method(self, setting: str, method: Part) -> Part:
        """Return the method with the options that depend on epochs and images rescaled."""
        options: dict[str, Value] = dict(method.options)
        if alpha := float(options.get("alpha") or 0):
            options["alpha"] = round(alpha ** (SETTINGS[setting].last_epoch / LAPTOP_EPOCHS), 4)
        if start_epoch := int(options.get("start_epoch") or 0):
            options["start_epoch"] = self.epoch(setting, start_epoch)
        if queue_size := int(options.get("queue_size") or 0):
            resized = round(self.num_images / PAPER_IMAGES * queue_size)
            options["queue_size"] = max(SMALLEST_QUEUE, resized)
        return Part(method.name, **options)
