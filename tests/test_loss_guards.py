"""What a training loop does by mistake with a loss that remembers targets is noticed."""

from __future__ import annotations

import io
import os
import socket
import subprocess
import sys
import warnings

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from socrates.losses import SATLoss, SocratesLoss

NUM_SAMPLES, NUM_CLASSES, BATCH = 60, 5, 10
TRAIN = torch.arange(NUM_SAMPLES) % NUM_CLASSES
VAL = (torch.arange(NUM_SAMPLES // 2) + 2) % NUM_CLASSES
KINDS = {"socrates": SocratesLoss, "sat": SATLoss}


def call(criterion, labels, index, grad=True):
    with torch.set_grad_enabled(grad):
        logits = torch.randn(len(index), NUM_CLASSES + 1, requires_grad=grad)
        loss = criterion(logits, labels[index], index)
    if grad:
        loss.backward()


def epoch(criterion, labels, order, grad=True):
    for index in order.split(BATCH):
        call(criterion, labels, index, grad)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("grad", [True, False])
def test_validation_in_training_mode_is_noticed_once(kind, grad):
    criterion = KINDS[kind](NUM_SAMPLES)
    epoch(criterion, TRAIN, torch.randperm(NUM_SAMPLES))
    with pytest.warns(UserWarning, match=rf"{KINDS[kind].__name__}.*training mode.*eval\(\)"):
        epoch(criterion, VAL, torch.arange(len(VAL)), grad)
    epoch(criterion, VAL, torch.arange(len(VAL)), grad)  # warnings are errors here


def test_a_pass_without_a_gradient_over_the_training_set_is_noticed():
    """As `torch.optim.swa_utils.update_bn` makes one: the labels stay with their indices."""
    criterion = SocratesLoss(NUM_SAMPLES)
    epoch(criterion, TRAIN, torch.randperm(NUM_SAMPLES))
    with pytest.warns(UserWarning, match="without a gradient"):
        epoch(criterion, TRAIN, torch.arange(NUM_SAMPLES), grad=False)


def test_a_pass_with_a_gradient_that_nobody_uses_is_noticed():
    criterion = SocratesLoss(NUM_SAMPLES)
    epoch(criterion, TRAIN, torch.randperm(NUM_SAMPLES))
    index = torch.arange(BATCH)
    logits = torch.randn(BATCH, NUM_CLASSES + 1, requires_grad=True)
    # Many losses in one backward pass are training.
    for _ in range(3):
        torch.stack([criterion(logits, TRAIN[index], index) for _ in range(30)]).sum().backward()
    for _ in range(32):
        criterion(logits, TRAIN[index], index)
    with pytest.warns(UserWarning, match="33 times without a backward pass"):
        criterion(logits, TRAIN[index], index)


def test_datasets_that_share_their_indices_are_noticed():
    criterion = SocratesLoss(NUM_SAMPLES)
    call(criterion, TRAIN, torch.arange(BATCH))
    message = "label 2 at index 0, where it was 0"
    with pytest.warns(UserWarning, match=message):
        call(criterion, VAL, torch.arange(BATCH))


def mixup(criterion):
    for index in torch.randperm(NUM_SAMPLES).split(BATCH):
        call(criterion, TRAIN, index)
        call(criterion, TRAIN, index.flip(0))


def validated(criterion):
    epoch(criterion, TRAIN, torch.randperm(NUM_SAMPLES))
    epoch(criterion.eval(), VAL, torch.arange(len(VAL)), grad=False)
    epoch(criterion.train(), TRAIN, torch.randperm(NUM_SAMPLES))


def reentrant(criterion):
    for index in torch.randperm(NUM_SAMPLES).split(BATCH):
        logits = torch.randn(len(index), NUM_CLASSES + 1, requires_grad=True)
        loss = checkpoint(
            lambda z, index=index: criterion(z, TRAIN[index], index), logits, use_reentrant=True
        )
        loss.backward()


def closure(criterion):
    for _ in range(5):
        call(criterion, TRAIN, torch.arange(NUM_SAMPLES))


def ignored(criterion):
    labels = TRAIN.clone()
    labels[::3] = -100
    epoch(criterion, TRAIN, torch.randperm(NUM_SAMPLES))
    epoch(criterion, labels, torch.randperm(NUM_SAMPLES))


def with_replacement(criterion):
    epoch(criterion, TRAIN, torch.randint(NUM_SAMPLES, (2 * NUM_SAMPLES,)))


RIGHT = [validated, with_replacement, mixup, reentrant, closure, ignored]


@pytest.mark.parametrize("loop", RIGHT)
def test_loops_that_are_right_are_left_alone(loop):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loop(SocratesLoss(NUM_SAMPLES))


def saved(criterion):
    file = io.BytesIO()
    torch.save(criterion.state_dict(), file)
    file.seek(0)
    return torch.load(file, weights_only=True)


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("socrates", {"alpha": 0.9}, r"alpha=0\.99, not alpha=0\.9\b"),
        ("socrates", {"gamma": 3.0}, r"gamma=1, not gamma=3\b"),
        ("socrates", {"target_over": "known"}, r"'all', not .*'known'"),
        ("sat", {"alpha": 0.5}, r"alpha=0\.9, not alpha=0\.5\b"),
    ],
)
def test_targets_of_other_options_are_noticed_on_loading(kind, options, message):
    criterion = KINDS[kind](NUM_SAMPLES)
    call(criterion, TRAIN, torch.arange(BATCH))
    state = saved(nn.ModuleDict({"criterion": criterion}))
    other = nn.ModuleDict({"criterion": KINDS[kind](NUM_SAMPLES, **options)})
    with pytest.warns(UserWarning, match=message):
        other.load_state_dict(state)
    assert torch.equal(other["criterion"].target, criterion.target)
    nn.ModuleDict({"criterion": KINDS[kind](NUM_SAMPLES)}).load_state_dict(state)  # no word
    nn.ModuleDict({"criterion": KINDS[kind](None, **options)}).load_state_dict(state)


def test_inference_does_not_need_the_number_of_training_samples():
    whole = nn.Sequential(nn.Linear(3, 4), SocratesLoss(NUM_SAMPLES))
    state = saved(whole)
    served = nn.Sequential(nn.Linear(3, 4), SocratesLoss(None))
    served.load_state_dict(state)
    assert torch.equal(served[0].weight, whole[0].weight)
    assert served[1].target is None
    evaluated = nn.Sequential(nn.Linear(3, 4), SocratesLoss(1)).eval()
    evaluated.load_state_dict(state)
    assert torch.equal(evaluated[1].target, whole[1].target)
    for num_samples in (1, NUM_SAMPLES + 1):
        trained = nn.Sequential(nn.Linear(3, 4), SocratesLoss(num_samples))
        with pytest.raises(RuntimeError, match=rf"60 targets.*num_samples={num_samples}\b"):
            trained.load_state_dict(state)
    with pytest.raises(RuntimeError, match=r"Missing key.*1\.target"):
        whole.load_state_dict(saved(served))


def test_a_moving_average_of_the_model_leaves_the_targets_alone():
    criterion = SocratesLoss(NUM_SAMPLES)
    averaged = torch.optim.swa_utils.AveragedModel(criterion, use_buffers=True)
    call(criterion, TRAIN, torch.arange(BATCH))
    averaged.update_parameters(criterion)
    assert (averaged.module.target == 1).all()


DDP = """
import os, sys, torch
import torch.distributed as dist
from torch import nn
from socrates.losses import SocratesLoss

class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
        self.criterion = SocratesLoss(1000, weight=torch.ones(3))
    def forward(self, inputs, labels, index):
        return self.criterion(self.model(inputs), labels, index)

rank = int(sys.argv[1])
place = f"tcp://127.0.0.1:{sys.argv[2]}"
dist.init_process_group("gloo", init_method=place, rank=rank, world_size=2)
torch.manual_seed(0)
whole = nn.parallel.DistributedDataParallel(Whole())
for step in range(3):
    index = torch.arange(4) + 8 * step + 4 * rank
    torch.manual_seed(index[0].item())
    whole(torch.randn(4, 4), index % 3, index).backward()
sent = sum(buffer.numel() for buffer in whole.modules_buffers)
targets = whole.module.criterion.target
gathered = [torch.empty_like(targets) for _ in range(2)]
dist.all_gather(gathered, targets)
print(sent, torch.equal(*gathered), int((targets < 1).sum()))
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_ddp_sends_no_targets_in_a_forward_pass():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", DDP, str(rank), port],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ,
        )
        for rank in range(2)
    ]
    for rank in ranks:
        # three numbers for each feature of the batch norm (one counts batches), and three weights
        assert rank.communicate(timeout=120)[0].split() == ["12", "True", "24"]
