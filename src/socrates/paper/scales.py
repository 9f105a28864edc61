"""How large a reproduction is: the paper's own settings, or stand-ins that fit a laptop."""

from dataclasses import dataclass, replace
from functools import cached_property

from ..data import num_training_images
from ..experiment import Experiment, Optimization, Part, Value
from .settings import SETTINGS, PaperSetting

# The paper's epochs of interest, 25 to 300, fall on whole ones. With more, small models learn the noisy labels by heart
# before CCL-SC starts, and its queue of errors stays empty.
LAPTOP_EPOCHS = 24
LABEL_NOISE = 0.3  # of digits, which are too easy for an unknown class otherwise
LAPTOP_IMAGES = 2_000  # of another data set, if it has so many
BATCH_DIVISOR = 4
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
    """The paper's data, models and epochs."""

    name: str = "paper"
    note: str = ""
    compares: bool = True  # with the printed numbers

    def experiment(self, setting: str, experiment: Experiment) -> Experiment:
        """As it is."""
        return experiment

    def epoch(self, setting: str, epoch: int) -> int:
        """As it is."""
        return epoch

    def title(self, setting: str) -> str:
        """The paper's."""
        return SETTINGS[setting].title

    def search_seeds(self, setting: PaperSetting) -> tuple[int, ...]:
        """The paper's."""
        return setting.tuning_seeds


@dataclass(frozen=True)
class LaptopScale:
    """The paper's methods, seeds and hyperparameter rules on little data, with small models and few epochs.

    Start epochs keep their place in the training, whose rate makes one cycle; targets keep the share of their past that
    they have at its end, by a smaller alpha; batches are a quarter, CCL-SC's queues keep their ratio to the data. Of
    digits' training labels 3 in 10 are wrong, so that there is something not to know. Nothing is pretrained: the
    stand-in for transfer learning starts from scratch. Hyperparameters are searched with one seed.

    >>> from .grid import final_experiment
    >>> small = LaptopScale().experiment("cifar100-vgg16", final_experiment("cifar100-vgg16", "sat"))
    >>> small.dataset, small.model, small.method
    (Part('digits', label_noise=0.3), Part('mlp'), Part('sat', alpha=0.2679, start_epoch=16))
    """

    dataset: str = "digits"
    name: str = "laptop"
    compares: bool = False

    @cached_property
    def num_images(self) -> int:
        """To train with: what digits has, some of the others, all of one's own where they are few."""
        own = 300 if self.dataset == "digits" else num_training_images(self.dataset)
        return min(LAPTOP_IMAGES, own or LAPTOP_IMAGES)

    @property
    def note(self) -> str:
        """For every output."""
        return (
            f"Laptop scale: {self.num_images:,} training images of {self.dataset}{self._noise}, small models and "
            f"{LAPTOP_EPOCHS} epochs stand in for the paper's settings; for each of its alphas, alpha ** (its epochs / "
            f"{LAPTOP_EPOCHS}) is trained, and hyperparameters are searched with one seed. These numbers do not "
            f"compare with the published ones."
        )

    @property
    def _noise(self) -> str:
        return f" ({100 * LABEL_NOISE:.0f} % of their labels wrong)" if self.dataset == "digits" else ""

    def experiment(self, setting: str, experiment: Experiment) -> Experiment:
        """The stand-in for a run of the paper."""
        before = experiment.optimization
        batch_size = max(1, before.batch_size // BATCH_DIVISOR)
        optimization = Optimization(LAPTOP_EPOCHS, batch_size, recipe="one-cycle")
        return replace(
            experiment,
            dataset=Part(self.dataset, label_noise=LABEL_NOISE) if self.dataset == "digits" else Part(self.dataset),
            model=STAND_INS[setting],
            method=self._method(setting, experiment.method),
            num_train=None if self.num_images < LAPTOP_IMAGES else LAPTOP_IMAGES,
            keep_every=LAPTOP_EPOCHS,
            optimization=optimization,
        )

    def epoch(self, setting: str, epoch: int) -> int:
        """Where an epoch of the paper falls.

        >>> LaptopScale().epoch("cifar100-vgg16", 150), LaptopScale().epoch("cifar100-vit_transfer", 25)
        (12, 12)
        """
        return max(min(epoch, 1), round(epoch * LAPTOP_EPOCHS / SETTINGS[setting].last_epoch))

    def title(self, setting: str) -> str:
        """What is trained, and what it stands in for.

        >>> LaptopScale().title("cifar100-vgg16")
        'digits, mlp (for CIFAR-100, VGG-16)'
        """
        return f"{self.dataset}, {STAND_INS[setting].name} (for {SETTINGS[setting].title})"

    def search_seeds(self, setting: PaperSetting) -> tuple[int, ...]:
        """One, or the search alone would take half a day."""
        return setting.tuning_seeds[:1]

    def _method(self, setting: str, method: Part) -> Part:
        options: dict[str, Value] = dict(method.options)
        if alpha := float(options.get("alpha") or 0):
            options["alpha"] = round(alpha ** (SETTINGS[setting].last_epoch / LAPTOP_EPOCHS), 4)
        start, queue = (int(options.get(name) or 0) for name in ("start_epoch", "queue_size"))
        if start:
            options["start_epoch"] = self.epoch(setting, start)
        if queue:
            options["queue_size"] = max(SMALLEST_QUEUE, round(self.num_images / 45_000 * queue))
        return Part(method.name, **options)


Scale = PaperScale | LaptopScale
