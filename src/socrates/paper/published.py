"""Every number printed in the paper's nine tables, with the emphasis it is printed in and what to know about it."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import NamedTuple

from ..names import unknown

TABLES = (
    "hyperparameters",
    "test",
    "posthoc",
    "gamma",
    "alpha",
    "beta",
    "ablation-vgg16",
    "ablation-resnet110",
    "validation",
)

CAVEATS: dict[str, str] = {
    # The cell does not measure what its heading says.
    "ada_ece": "The released AdaECE fills its bins unequally by a slip (the first holds one sample), so the value does "
    "not compare with a correct AdaECE.",
    "cw_ece": "The released CW-ECE cuts confidences to one decimal and counts the unknown class, so that even a "
    "perfectly calibrated model scores above 0; the value does not compare with a correct CW-ECE.",
    "constant": "Every seed gave a constant predictor: one class for all images, whose low ECE means nothing.",
    "some_constant": "Some of the seeds gave constant predictors, as the spread of the accuracy shows; their low ECE "
    "pulls the mean down and means nothing.",
    "collapsed": "Four of the five seeds predict the unknown class for every image: the mean is that of a collapse.",
    "sat_run": "This column repeats the run of the SAT baseline, with SAT's hyperparameters instead of those of "
    "Socrates: it is no like-for-like ablation.",
    "focal_run": "This column repeats the run of the Focal baseline, with its own gamma and no unknown class: the "
    "like-for-like ablation, for VGG-16, is the column alpha = 1 of the alpha table.",
    "unconverged": "The released scaling is one short fit far from the identity that stops before its optimum, so the "
    "value shows the fit more than the method.",
    "unregularised": "The released matrix scaling has no regularisation and overfits where there are many classes.",
    # The cell measures what it says, of a training that differs from the paper's text.
    "no_augmentation": "The released runs on CIFAR-10 trained without augmentation, because of an inverted flag.",
    "ce_dece": "The column is called MC in the paper; what was trained is cross-entropy + DECE / 2 on training "
    "batches, without meta-learning: our ce_dece, not our mc.",
    "temperature": "The coefficient w was used as the temperature of the contrastive term, whose weight was 1.",
    "queues": "The released CCL-SC moves its key encoder once an epoch, freezes its queues once they are full, and its "
    "contrastive term is no true InfoNCE.",
    "flsd_factor": "The released FLSD multiplies the whole loss by gamma, which its publication does not.",
    "sat_start": "Before its start epoch the released SAT trains the unknown output along with the classes.",
    "target_over": "The adaptive target came from a softmax over the known classes only; the paper's equations, and "
    "our default, include the unknown class. Use target_over='known' for the other.",
    "beta_negative": "The released penalty was never clamped and falls to about -0.5; clamped to [0, 1], as the text "
    "asks, it is the same function as the first column's.",
    "beta_condition": "The released penalty tests the unknown class where the text tests the true class.",
    "network": "The released ResNet-34 keeps the stem for 32-pixel images at 224 pixels and has a far wider output "
    "layer; ours is the standard one.",
    "split": "The released runs on Food-101 held back 10 % of the training data for validation, not the 20 % of the "
    "text.",
    "attention": "The released ViT has no scaling of the attention scores, no output projection and no final norm; "
    "ours has them.",
    "backbone_rate": "From epoch 20 on, the released runs trained the backbone at the rate of the head.",
}
NOT_COMPARABLE = frozenset(
    {
        "ada_ece",
        "cw_ece",
        "constant",
        "some_constant",
        "collapsed",
        "sat_run",
        "focal_run",
        "unconverged",
        "unregularised",
    }
)


class CellKey(NamedTuple):
    """Where a number stands: a setting or epoch, a method or value, and a metric (a symbol for hyperparameters)."""

    row: str
    column: str
    metric: str


@dataclass(frozen=True)
class Published:
    """A printed number: metrics in percent; `caveat` holds keys of `CAVEATS`."""

    mean: float
    std: float | None = None  # where it is printed
    emphasis: str = ""  # as printed: words out of bold, underline, italic
    caveat: tuple[str, ...] = ()

    @property
    def comparable(self) -> bool:
        """Whether a correct implementation may be held against it.

        >>> Published(1.31, caveat=("cw_ece",)).comparable
        False
        """
        return NOT_COMPARABLE.isdisjoint(self.caveat)


@cache
def table(name: str) -> Mapping[CellKey, Published]:
    """All cells of a table, row by row in the paper's order of columns.

    Metrics are acc, ece, ada_ece and cw_ece. Columns are our methods (`ce_dece` is the paper's MC), for the post-hoc
    table with a scaler (`ce+temperature`), for the gamma and alpha tables the value.

    >>> len(table("test")), table("gamma")["300", "2", "ece"].emphasis
    (196, 'bold italic')
    """
    if name not in TABLES:
        raise ValueError(f"the paper has no table {unknown(name, TABLES)}")
    text = (resources.files("socrates.paper") / "published" / f"{name}.csv").read_text(encoding="utf-8")
    lines = csv.DictReader(text.splitlines())
    return MappingProxyType({CellKey(line["row"], line["column"], line["metric"]): _published(line) for line in lines})


def find(name: str, row: str | int, column: str | float, metric: str) -> Published | None:
    """The number in a cell of a table, or None if the paper prints none there.

    >>> find("test", "cifar100-vgg16", "socrates", "ece")
    Published(mean=3.45, std=0.25, emphasis='bold', caveat=('target_over',))
    >>> find("alpha", 300, 0.999, "acc").mean
    71.74
    """
    return table(name).get(CellKey(_key(row), _key(column), metric))


def _key(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def _published(line: dict[str, str]) -> Published:
    std = float(line["std"]) if line["std"] else None
    return Published(float(line["mean"]), std, line["emphasis"], tuple(line["caveat"].split()))
