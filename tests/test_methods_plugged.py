"""Methods, models and data from outside in the real loop: what it takes, measures and refuses."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from socrates import data, methods
from socrates.contracts import Batch, Output, Splits, Task
from socrates.engine.train import train
from socrates.experiment import Experiment, Optimization, Part
from socrates.methods.logits_only import CrossEntropy

SHORT = Optimization(epochs=1, batch_size=64)
pytestmark = pytest.mark.usefixtures("few_scalers")


def plain(num_outputs):
    """A model without features and head."""
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, num_outputs))


class TwoViews(CrossEntropy):
    """Trains on each image and its mirror image, and measures the image."""

    def forward(self, model, batch):
        logits = model(torch.cat([batch.inputs, batch.inputs.flip(3)]))
        return Output(self.validation_loss(logits, batch.labels.repeat(2)), logits[: len(batch)])


class BothViews(TwoViews):
    """The same, with the logits of both."""

    def forward(self, model, batch):
        logits = model(torch.cat([batch.inputs, batch.inputs.flip(3)]))
        return Output(self.validation_loss(logits, batch.labels.repeat(2)), logits)


class LossOnly(CrossEntropy):
    def forward(self, model, batch):
        return self.validation_loss(model(batch.inputs), batch.labels)


class Pieces:
    """A split whose inputs are a mapping, as for text."""

    def __init__(self, split):
        self.split = split

    @property
    def labels(self):
        return self.split.labels

    def __len__(self):
        return len(self.split)

    def to(self, device):
        return Pieces(self.split.to(device))

    def subset(self, index):
        return Pieces(self.split.subset(index))

    def batches(self, batch_size, order, stream=None, first_step=0):
        for batch in self.split.batches(batch_size, order, stream, first_step):
            yield dataclasses.replace(
                batch, inputs={"pixels": batch.inputs, "shift": batch.inputs[:, 0, 0, 0]}
            )


class OfPieces(nn.Module):
    def __init__(self, num_outputs, image_shape):
        super().__init__()
        self.body, self.head = nn.Linear(64, 16), nn.Linear(16, num_outputs)

    def features(self, inputs):
        return self.body(inputs["pixels"].flatten(1)).relu() + inputs["shift"][:, None]

    def forward(self, inputs):
        return self.head(self.features(inputs))


def pieces(root, *, share=1.0):
    """Digits as mappings of two tensors."""
    splits = data.load("digits", num_train=int(300 * share))
    parts = {part: Pieces(getattr(splits, part)) for part in ("train", "val", "test")}
    return Splits(**parts, class_names=splits.class_names, image_shape=(1, 8, 8))


def trained(tmp_path, dataset="digits", model="mlp", method="ce", optimization=SHORT, **options):
    parts = Part(dataset), Part(model), Part(method, **options)
    num_train = 150 if dataset == "digits" else None
    return train(
        Experiment(*parts, num_train=num_train, optimization=optimization),
        tmp_path,
        accelerator="cpu",
    )


@pytest.mark.parametrize("name", list(methods.METHODS))
def test_a_plain_module_is_a_model_for_every_method_that_needs_only_logits(tmp_path, name):
    options = {"start_epoch": 0} if name == "ccl_sc" else {}
    if name in ("ccl_sc", "mc"):
        with pytest.raises(ValueError, match=f"^{name} .*Sequential"):
            trained(tmp_path, model=f"{__name__}:plain", method=name, **options)
        assert not list(tmp_path.iterdir())
        return
    run = trained(tmp_path, model=f"{__name__}:plain", method=name, **options)
    assert run.epochs()[0].value("train_loss") > 0


def test_a_plain_module_learns_at_one_rate(tmp_path):
    settings = dataclasses.replace(SHORT, backbone_factor=0.1)
    with pytest.raises(ValueError, match=r"Sequential .*backbone_factor=1"):
        trained(tmp_path, model=f"{__name__}:plain", optimization=settings)


def test_training_metrics_are_of_the_logits_that_the_method_returns(tmp_path):
    record = trained(tmp_path, method=f"{__name__}:TwoViews").epochs()[0]
    assert record.value("train_accuracy") > 0.1
    assert 0 < record.value("train_nll") < 3
    # The loss has the mirror images too.
    assert record.value("train_nll") != pytest.approx(
        record.value("train_loss"), rel=1e-6
    )  # that has the mirror images too


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (
            "BothViews",
            r"of shape \(64, 10\), got \(128, 10\): of several views of a sample, return the one "
            r"to measure",
        ),
        ("LossOnly", r"must return Output\(loss, logits\), got Tensor"),
    ],
)
def test_what_is_no_output_of_the_batch_is_refused(tmp_path, method, message):
    with pytest.raises(ValueError, match=message):
        trained(tmp_path, method=f"{__name__}:{method}")


@pytest.mark.parametrize("method", ["socrates", "mc", "ccl_sc"])
def test_inputs_may_be_a_mapping(tmp_path, method):
    options = {"start_epoch": 0, "queue_size": 4} if method == "ccl_sc" else {}
    run = trained(tmp_path, f"{__name__}:pieces", f"{__name__}:OfPieces", method, **options)
    assert run.epochs()[0].value("train_accuracy") > 0.1


def test_a_checkpoint_of_before_the_contrastive_phase_needs_no_queues():
    task = Task(40, 3)
    model = OfPieces(3, (1, 8, 8))
    method = methods.build("ccl_sc", task, start_epoch=1, queue_size=4)
    method.start_epoch(1, model)
    method.load_state_dict({})
    assert method.then.encoder is None
    method.start_epoch(1, model)
    inputs = {"pixels": torch.randn(2, 1, 8, 8), "shift": torch.zeros(2)}
    loss, logits = method(model, Batch(inputs, torch.tensor([0, 1]), torch.tensor([0, 1])))
    assert torch.equal(loss, F.cross_entropy(logits, torch.tensor([0, 1])))
