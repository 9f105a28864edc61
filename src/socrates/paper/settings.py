"""The seven settings of the paper: a data set, an architecture, and how both are trained."""

from dataclasses import dataclass

from ..experiment import Part, usual_optimization
from ..names import unknown

SEEDS = (1, 2, 3, 4, 5)
NUM_BINS = 10


@dataclass(frozen=True)
class PaperSetting:
    """A data set with an architecture, and the seeds of its search.

    >>> setting = SETTINGS["cifar100-vit_transfer"]
    >>> setting.title, setting.dataset, setting.last_epoch
    ('CIFAR-100, ViT transfer', Part('cifar100', image_size=224), 50)
    """

    title: str
    dataset: Part
    model: Part
    tuning_seeds: tuple[int, ...] = SEEDS

    @property
    def name(self) -> str:
        """Return its key in `SETTINGS`."""
        return f"{self.dataset.name}-{self.model.name}"

    @property
    def last_epoch(self) -> int:
        """Return the epoch of the test and validation tables."""
        return usual_optimization(self.dataset.name, self.model.name, "socrates").epochs


SETTINGS: dict[str, PaperSetting] = {
    setting.name: setting
    for setting in (
        PaperSetting("CIFAR-10, VGG-16", Part("cifar10"), Part("vgg16")),
        PaperSetting("SVHN, VGG-16", Part("svhn"), Part("vgg16")),
        PaperSetting(
            "Food-101, ResNet-34", Part("food101"), Part("resnet34"), tuning_seeds=(1, 2, 3)
        ),
        PaperSetting("CIFAR-100, VGG-16", Part("cifar100"), Part("vgg16")),
        PaperSetting("CIFAR-100, ResNet-110", Part("cifar100"), Part("resnet110")),
        PaperSetting("CIFAR-100, ViT", Part("cifar100"), Part("vit")),
        PaperSetting(
            "CIFAR-100, ViT transfer", Part("cifar100", image_size=224), Part("vit_transfer")
        ),
    )
}


def find_setting(name: str) -> PaperSetting:
    """Return the setting of that name.

    >>> find_setting("cifar100-vgg16").title
    'CIFAR-100, VGG-16'
    >>> find_setting("cifar100-vgg")
    Traceback (most recent call last):
    ValueError: the paper has no setting 'cifar100-vgg', did you mean 'cifar100-vgg16'?
    Choose from cifar10-vgg16, ...
    """
    if name in SETTINGS:
        return SETTINGS[name]
    raise ValueError(f"the paper has no setting {unknown(name, SETTINGS)}")
