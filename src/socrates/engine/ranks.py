"""One run in several processes, its ranks: which there are, and what they share.

Each rank has a part of every batch, all keep the same state, the first writes. A method sees the
whole batch on every rank: the logits (or features) of all parts are gathered, with their gradients,
before it computes its loss.

The losses of a user's own loop exchange targets by themselves (`losses/exchange.py`), because they
see their rank's logits only. That is exact for adaptive targets, but not for a loss that is not a
mean over samples (the differentiable ECE), for queues, and for smoothing that is learned. Gathering
logits is exact for every method with no code of its own, so here the losses are built with
`process_group=None`: what they would exchange, each rank has already.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from socrates.contracts import Batch, Inputs, Split
from socrates.files import reason_of
from socrates.losses.torch_internals import set_timeout_of_ranks

SECONDS_UNTIL_LOST = 40  # that a rank waits for the others in a step
LOST = (
    "gloo",
    "nccl",
    "connection",
    "timed out",
    "timeout",
    "peer",
    "socket",
    "rendezvous",
    "barrier",
)


@dataclass(frozen=True)
class Ranks:
    """The processes of a run; alone, everything here does nothing.

    >>> ranks = Ranks()
    >>> ranks.first, ranks.part(5), ranks.highest(7)
    (True, slice(0, 5, None), 7)
    >>> [Ranks(rank, 3).part(5) for rank in range(3)]
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """

    rank: int = 0
    count: int = 1
    hasty: Any = None  # a group of all ranks on their CPUs, for messages within steps
    patient: Any = None  # another one, in which they wait for each other as long as it takes
    started: Sequence[Any] = ()  # the processes that this one started

    @property
    def first(self) -> bool:
        """Return whether this is the process that writes and reports."""
        return self.rank == 0

    @property
    def alone(self) -> bool:
        """Return whether it is the only process."""
        return self.count == 1

    def part(self, total: int, rank: int | None = None) -> slice:
        """Return the samples of a batch that a rank has; parts differ by one sample at most."""
        rank = self.rank if rank is None else rank
        size, more = divmod(total, self.count)
        start = rank * size + min(rank, more)
        return slice(start, start + size + (rank < more))

    def part_or_one(self, total: int) -> slice:
        """Return the part, or one sample where it is empty, so that the rank joins in every step.

        That sample is not gathered.
        """
        part = self.part(total)
        return part if part.stop > part.start else slice(0, 1)

    def batches(self, split: Split, *arguments: Any, **options: Any) -> Iterator[Batch]:
        """Return the split's batches, with the inputs of this rank's part only where it can."""
        if not self.alone and "part" in inspect.signature(split.batches).parameters:
            options["part"] = self.part_or_one
        return split.batches(*arguments, **options)

    def part_of(self, batch: Batch) -> Batch:
        """Return the batch with the inputs of this rank's part only."""
        if self.alone:
            return batch
        count = len(batch)
        part = self.part_or_one(count)

        def rows_of_part(rows: Tensor) -> Tensor:
            # the split may have read these rows only
            return rows[part] if len(rows) == count else rows

        if isinstance(batch.inputs, Mapping):
            inputs: Inputs = {key: rows_of_part(rows) for key, rows in batch.inputs.items()}
        else:
            inputs = rows_of_part(batch.inputs)
        meta = None if batch.meta is None else self.part_of(batch.meta)
        gather = partial(self.gather, total=count)
        return replace(batch, inputs=inputs, gather=gather, part=part, meta=meta)

    def gather(self, rows: Tensor, total: int) -> Tensor:
        """Return the rows of all ranks from those of this one.

        The gradient is such that its mean over ranks is right.
        """
        return rows if self.alone else _Gather.apply(rows, total, self)  # pyright: ignore[reportReturnType]

    def model_of(self, model: Any, batch: Batch) -> Any:
        """Return the model whose outputs are those of the whole batch."""
        return model if self.alone else ModelOfAll(model, batch, self.rank)

    def highest(self, number: float) -> float:
        """Return the highest number of all ranks."""
        if self.alone:
            return number
        highest = torch.tensor(float(number), dtype=torch.float64)
        dist.all_reduce(highest, dist.ReduceOp.MAX, group=self.hasty)
        return highest.item()

    @contextlib.contextmanager
    def first_ahead(self) -> Iterator[None]:
        """Let the first rank run the `with` block alone, and the others when it is done."""
        if not self.first:
            self.wait()
        yield
        if self.first:
            self.wait()

    def wait(self) -> None:
        """Wait until every rank has come here, however long one of them reads or writes."""
        if not self.alone:
            dist.barrier(group=self.patient)

    def hurry(self) -> None:
        """Take a rank for lost, from here on, if it is silent: all do the same steps now."""
        if not self.alone:
            self.wait()
            set_timeout_of_ranks(timedelta(seconds=SECONDS_UNTIL_LOST))

    def from_first(self, thing: Any) -> Any:
        """Return what the first rank has."""
        if self.alone:
            return thing
        box = [thing if self.first else None]
        dist.broadcast_object_list(box, src=0, group=self.patient)
        return box[0]

    def share_buffers(self, model: nn.Module) -> None:
        """Give every rank the running means of the first; each has those of its own parts."""
        for buffer in [] if self.alone else model.buffers():
            dist.broadcast(buffer, src=0)

    @contextlib.contextmanager
    def none_lost(self) -> Iterator[None]:
        """Turn the error of waiting for a rank in vain into one line."""
        try:
            yield
        except RuntimeError as error:
            if not any(sign in str(error).lower() for sign in LOST):
                raise
            for process in self.started:
                # it may hang; the others would end by themselves, and none of them writes
                process.kill()
            raise ConnectionError(
                f"another process of this run, of {self.count}, is lost ({reason_of(error)}): it "
                f"ended, or did not answer for {SECONDS_UNTIL_LOST} seconds. The same command "
                "continues from the last checkpoint, with any number of devices"
            ) from error


ALONE = Ranks()


class ModelOfAll:
    """A model that takes this rank's part of a batch and returns the outputs of the whole batch."""

    def __init__(self, model: Any, batch: Batch, rank: int) -> None:
        self.model = model
        self.batch = batch
        self.rank = rank

    def __call__(self, inputs: Inputs) -> Tensor:
        return self._of_all(self.model, inputs)

    def features(self, inputs: Inputs) -> Tensor:
        """Return the inputs of the last layer, for the whole batch."""
        return self._of_all(self.model.features, inputs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def _of_all(self, call: Callable[[Inputs], Tensor], inputs: Inputs) -> Tensor:
        # Dropout differs between ranks in the model, and must not in what each of them computes of
        # the whole batch.
        number = int(torch.randint(2**62, ()).item()) + self.rank
        device = next(self.model.parameters()).device
        # the CPU's generator is always among the forked
        kind = "cuda" if device.type == "cpu" else device.type
        with torch.random.fork_rng([device] if device.type == "cuda" else [], device_type=kind):
            torch.manual_seed(number)
            rows = call(inputs)
        meta = self.batch.meta
        if meta is not None and inputs is meta.inputs:
            return meta.whole(rows)
        return self.batch.whole(rows)


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, total: int, ranks: Ranks) -> Tensor:
        part = ranks.part(total)
        size = part.stop - part.start
        if len(rows) != max(size, 1):
            raise ValueError(
                f"of a batch of {total} this process has {size} inputs, and the model returned "
                f"{len(rows)} rows: a method that makes more or fewer of them trains on one device "
                "only"
            )
        ctx.shape = rows.shape
        ctx.part = part
        ctx.count = ranks.count
        parts = [ranks.part(total, rank) for rank in range(ranks.count)]
        padded = rows.new_zeros(parts[0].stop, *rows.shape[1:])  # the first part is the longest
        padded[:size] = rows[:size]
        gathered = [torch.empty_like(padded) for _ in parts]
        dist.all_gather(gathered, padded)
        sizes = [part.stop - part.start for part in parts]
        return torch.cat([rows[:size] for rows, size in zip(gathered, sizes, strict=True)])

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        # Every rank has the whole loss, and passes on the gradient of its part; DDP divides the sum
        # by the number of ranks.
        grad_of_part = grad_outputs[0][ctx.part]
        grad = grad_of_part.new_zeros(ctx.shape)
        grad[: len(grad_of_part)] = grad_of_part * ctx.count
        return grad, None, None


def strategy_of_many() -> Any:
    """Return DDP that does not send the running means of batch norm in every step.

    The first rank's are shared after each epoch.
    """
    from lightning_fabric.strategies.ddp import DDPStrategy

    known = inspect.signature(nn.parallel.DistributedDataParallel).parameters
    name = "forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers"
    options: dict[str, Any] = {name: False}
    return DDPStrategy(**options)


def follows(devices: int, num_nodes: int) -> bool:
    """Return whether this process is another rank than the first, which alone reports.

    >>> follows(devices=1, num_nodes=1)
    False
    """
    devices, num_nodes = devices_and_nodes(devices, num_nodes)
    places = ("RANK", "LOCAL_RANK", "NODE_RANK", "SLURM_PROCID")
    return devices * num_nodes > 1 and any(int(os.environ.get(name) or 0) > 0 for name in places)


@contextlib.contextmanager
def unheard() -> Iterator[None]:
    """Silence the warnings of a rank that follows: the first one has the same, and reports."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def devices_and_nodes(devices: int, num_nodes: int) -> tuple[int, int]:
    """Return the number of processes on each machine, and of machines, as torchrun started them.

    >>> devices_and_nodes(2, 1)
    (2, 1)
    """
    for name, value in (("devices", devices), ("num_nodes", num_nodes)):
        if type(value) is not int or value < 1:
            raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")
    if not dist.is_torchelastic_launched():
        return devices, num_nodes
    world_size = int(os.environ["WORLD_SIZE"])
    local_size = int(os.environ["LOCAL_WORLD_SIZE"])
    if devices * num_nodes not in (1, world_size):
        raise ValueError(
            f"torchrun started {world_size} processes, got devices={devices} and "
            f"num_nodes={num_nodes}: leave both out"
        )
    return local_size, world_size // local_size
