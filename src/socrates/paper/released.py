"""Training as the authors' released code did, where that decides printed numbers; the default is the paper's text."""

from dataclasses import dataclass, replace

from ..experiment import Experiment, Part, Value
from .scales import Scale
from .settings import PaperSetting

NOTE = (
    "As released: trained as the authors' code did where it departs from the paper's text: Socrates' target from the "
    "softmax over the known classes, the second beta not clamped and the fixed one by the unknown class, FLSD's loss "
    "times gamma, CCL-SC's w as its temperature with a weight of 1, and no augmentation on CIFAR-10."
)
# By method; each is an option of `train` and `sweep` as well.
OPTIONS: dict[str, dict[str, Value]] = {
    "socrates:beta-known": {"clamp": False},
    "socrates:beta-fixed": {"when": "unknown"},
    "flsd": {"times_gamma": True},
}


def as_released(experiment: Experiment) -> Experiment:
    """The same run with the departures of the released code.

    >>> from .grid import final_experiment
    >>> run = as_released(final_experiment("cifar10-vgg16", "ccl_sc"))
    >>> run.dataset, dict(run.method.options)["temperature"], dict(run.method.options)["weight"]
    (Part('cifar10', augment=False, image_size=None), 0.5, 1.0)
    """
    dataset, method = experiment.dataset, experiment.method
    options = dict(method.options) | OPTIONS.get(method.name, {})
    if method.name.partition(":")[0] == "socrates":
        options["target_over"] = "known"
    if method.name == "ccl_sc":
        options |= {"temperature": options["weight"], "weight": 1.0}
    if dataset.name == "cifar10":
        dataset = Part(dataset.name, **(dict(dataset.options) | {"augment": False}))
    return replace(experiment, dataset=dataset, method=Part(method.name, **options))


@dataclass(frozen=True)
class AsReleased:
    """A scale whose runs are trained as released, which is said on every output.

    >>> from .scales import PaperScale
    >>> AsReleased(PaperScale()).name
    'paper-as-released'
    """

    scale: Scale

    @property
    def name(self) -> str:
        """Of the folder."""
        return f"{self.scale.name}-as-released"

    @property
    def note(self) -> str:
        """For every output."""
        return f"{self.scale.note} {NOTE}".strip()

    @property
    def compares(self) -> bool:
        """As the scale."""
        return self.scale.compares

    def experiment(self, setting: str, experiment: Experiment) -> Experiment:
        """The run of the scale, as released."""
        return as_released(self.scale.experiment(setting, experiment))

    def epoch(self, setting: str, epoch: int) -> int:
        """As the scale."""
        return self.scale.epoch(setting, epoch)

    def title(self, setting: str) -> str:
        """As the scale."""
        return self.scale.title(setting)

    def search_seeds(self, setting: PaperSetting) -> tuple[int, ...]:
        """As the scale."""
        return self.scale.search_seeds(setting)
