"""What ranks tell each other, with two threads as the ranks; `test_ranks.py` has real processes."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
import torch
from processes import SECONDS_UNTIL_HUNG

from socrates.losses import SocratesLoss, exchange


class Threads:
    """A `torch.distributed` whose ranks are the threads of this process."""

    group = SimpleNamespace(WORLD="all")

    def __init__(self, size: int) -> None:
        self.size, self.barrier, self.rank = size, threading.Barrier(size), threading.local()
        self.sent: list[torch.Tensor] = [torch.empty(0)] * size
        self.bytes_of_a_sample: set[int] = set()

    def is_available(self) -> bool:
        return True

    def is_initialized(self) -> bool:
        return True

    def get_world_size(self, group: object) -> int:
        return self.size if group == "all" else 1

    def all_gather(self, found: list[torch.Tensor], own: torch.Tensor, group: object) -> None:
        if own.dtype == torch.uint8:
            self.bytes_of_a_sample.add(own.shape[1])
        self.sent[self.rank.number] = own
        self.barrier.wait(SECONDS_UNTIL_HUNG)
        for place, sent in zip(found, self.sent, strict=True):
            place.copy_(sent)
        self.barrier.wait(SECONDS_UNTIL_HUNG)

    def run(self, work) -> list:
        """What `work(rank)` gives on each."""
        results: list = [None] * self.size

        def serve(number: int) -> None:
            self.rank.number = number
            try:
                results[number] = work(number)
            finally:
                if results[number] is None:
                    self.barrier.abort()  # nobody waits for who failed

        threads = [threading.Thread(target=serve, args=(number,)) for number in range(self.size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return results


@pytest.fixture
def two(monkeypatch):
    threads = Threads(2)
    monkeypatch.setattr(exchange, "_dist", threads)
    return threads


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_two_ranks_of_unequal_batches_are_one(two, reduction):
    """A mean is over all samples, once the ranks' gradients are averaged; a sum stays each rank's
    own."""
    logits, labels = (
        torch.randn(4, 3, generator=torch.Generator().manual_seed(0)),
        torch.tensor([0, 1, 0, 1]),
    )
    index = torch.tensor([6, 0, 3, 5])
    alone = SocratesLoss(100, reduction=reduction, process_group=None)
    expected = alone(logits, labels, index)

    def step(rank):
        criterion, own = (
            SocratesLoss(100, reduction=reduction),
            slice(0, 3) if rank == 0 else slice(3, 4),
        )
        return criterion(logits[own], labels[own], index[own]), criterion.target

    (first, targets), (second, others) = two.run(step)
    assert torch.equal(targets, alone.target)
    assert torch.equal(others, alone.target)
    whole = first + second if reduction == "sum" else (first + second) / 2
    assert whole.item() == pytest.approx(expected.item(), rel=1e-6)
    assert two.bytes_of_a_sample == {8}


def test_positions_beyond_four_bytes_arrive_whole(two):
    index, target = torch.tensor([2**31 + 5, 3]), torch.tensor([0.25, 0.5])

    def gather(rank):
        sizes = exchange.gather_sizes(2 - rank, torch.tensor(1.0), "all", "it")
        return exchange.gather_samples(index[rank:], target[rank:], sizes, 2**31 + 6, "all", "it")

    for every_index, every_target in two.run(gather):
        assert every_index.tolist() == [2**31 + 5, 3, 3]
        assert every_target.tolist() == [0.25, 0.5, 0.5]


def test_who_is_alone_exchanges_nothing(two):
    assert exchange.group_of("auto") == "all"
    assert exchange.group_of(None) is None
    assert exchange.group_of("a group of one") is None


@pytest.mark.parametrize("question", ["is_available", "is_initialized"])
def test_without_torch_distributed_everybody_is_alone(two, question, monkeypatch):
    monkeypatch.setattr(two, question, lambda: False)
    assert exchange.group_of("auto") is None


def test_who_waits_in_vain_is_told_the_reason_in_one_line(two, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("timed out after 5 s\nat line 7 of a file in C++")

    monkeypatch.setattr(two, "all_gather", fail)
    with pytest.raises(RuntimeError, match=r"TheLoss .*timed out after 5 s") as caught:
        exchange.gather_sizes(2, torch.tensor(1.0), "all", "TheLoss")
    assert "C++" not in str(caught.value)
