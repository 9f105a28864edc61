"""Training as the authors' released code did, where that decides printed numbers.

The default is the paper's text.
"""

from dataclasses import replace

from ..experiment import Experiment, Part, Value

AS_RELEASED_NOTE = (
    "As released: trained as the authors' code did where it departs from the paper's text: "
    "Socrates' target from the softmax over the known classes, the second beta not clamped and the "
    "fixed one by the unknown class, FLSD's loss times gamma, CCL-SC's w as its temperature with a "
    "weight of 1 and, for both ViTs, the logits as its features, no augmentation on CIFAR-10, "
    "Food-101 with a validation split of 10% and small images padded, the released ResNet-34 and "
    "ViT, and the backbone of ViT transfer at the head's rate from epoch 20."
)
RELEASED = ":released"
# The networks that the released code trained under these names.
NETWORKS = ("resnet34", "vit")
# Models whose logits the released CCL-SC contrasts: it takes the outputs of their last layer.
CONTRASTED_LOGITS = ("vit", "vit_transfer")
DATA: dict[str, dict[str, Value]] = {
    "cifar10": {"augment": False},
    "food101": {"val_fraction": 0.1, "pad_small": True},
}
# By method; each is an option of `train` and `sweep` as well.
OPTIONS: dict[str, dict[str, Value]] = {
    "socrates:beta-known": {"clamp": False},
    "socrates:beta-fixed": {"when": "unknown"},
    "flsd": {"times_gamma": True},
}


def as_released(experiment: Experiment) -> Experiment:
    """Return the same run with the departures of the released code.

    >>> from .grid import final_experiment
    >>> run = as_released(final_experiment("cifar10-vgg16", "ccl_sc"))
    >>> options = dict(run.method.options)
    >>> dict(run.dataset.options)["augment"], options["temperature"], options["weight"]
    (False, 0.5, 1.0)
    """
    dataset = experiment.dataset
    method = experiment.method
    model = experiment.model
    optimization = experiment.optimization
    options = dict(method.options) | OPTIONS.get(method.name, {})
    if method.name.partition(":")[0] == "socrates":
        options["target_over"] = "known"
    if method.name == "ccl_sc":
        options |= {"temperature": options["weight"], "weight": 1.0}
        if model.name in CONTRASTED_LOGITS:
            options["contrast_on"] = "logits"
    if dataset.name in DATA:
        dataset = Part(dataset.name, **(dict(dataset.options) | DATA[dataset.name]))
    if model.name in NETWORKS:
        model = Part(f"{model.name}{RELEASED}", **dict(model.options))
    if optimization.milestones and optimization.backbone_factor not in (0, 1):
        optimization = replace(optimization, backbone_joins=optimization.milestones[0])
    return replace(
        experiment,
        dataset=dataset,
        model=model,
        method=Part(method.name, **options),
        optimization=optimization,
    )
