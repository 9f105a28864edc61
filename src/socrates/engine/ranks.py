"""One run in several processes, its ranks: each has a part of every batch, all keep the same state, the first writes.

A method sees the whole batch on every rank: the logits (or features) of all parts are gathered, with their gradients,
before it computes its loss. So its state is the same everywhere, and so are losses that are no means over samples.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from socrates.contracts import Batch, Inputs, Split

SECONDS_UNTIL_LOST = 40  # that a rank waits for the others in a step
LOST = ("gloo", "nccl", "connection", "timed out", "timeout", "peer", "socket", "rendezvous", "barrier")


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
        """Whether this is the process that writes and tells."""
        return self.rank == 0

    @property
    def alone(self) -> bool:
        """Whether it is the only one."""
        return self.count == 1

    def part(self, total: int, rank: int | None = None) -> slice:
        """The samples of a batch that a rank has; parts differ by one sample at most."""
        rank = self.rank if rank is None else rank
        size, more = divmod(total, self.count)
        start = rank * size + min(rank, more)
        return slice(start, start + size + (rank < more))

    def part_or_one(self, total: int) -> slice:
        """The same, or one sample where the rank has none, so that it takes part in every step; it is not gathered."""
        part = self.part(total)
        return part if part.stop > part.start else slice(0, 1)

    def batches(self, split: Split, *arguments: Any, **options: Any) -> Iterator[Batch]:
        """What the split's `batches` gives, with the inputs of this rank's part only, if it can give these alone."""
        if not self.alone and "part" in inspect.signature(split.batches).parameters:
            options["part"] = self.part_or_one
        return split.batches(*arguments, **options)

    def part_of(self, batch: Batch) -> Batch:
        """The batch with the inputs of this rank's part only."""
        if self.alone:
            return batch
        inputs, count, part = batch.inputs, len(batch), self.part_or_one(len(batch))

        def own(rows: Tensor) -> Tensor:
            return rows[part] if len(rows) == count else rows  # the split may have given these alone

        inputs = {key: own(rows) for key, rows in inputs.items()} if isinstance(inputs, Mapping) else own(inputs)
        meta = None if batch.meta is None else self.part_of(batch.meta)
        return replace(batch, inputs=inputs, gather=partial(self.gather, total=count), meta=meta)

    def gather(self, own: Tensor, total: int) -> Tensor:
        """The rows of all ranks from those of this one; the gradient is such that its mean over ranks is right."""
        return own if self.alone else _Gather.apply(own, total, self)  # pyright: ignore[reportReturnType]

    def model_of(self, model: Any, batch: Batch) -> Any:
        """The model whose outputs are those of the whole batch."""
        return model if self.alone else ModelOfAll(model, batch, self.rank)

    def highest(self, number: float) -> float:
        """The highest number of all ranks."""
        if self.alone:
            return number
        found = torch.tensor(float(number), dtype=torch.float64)
        dist.all_reduce(found, dist.ReduceOp.MAX, group=self.hasty)
        return found.item()

    @contextlib.contextmanager
    def first_ahead(self) -> Iterator[None]:
        """In here the first rank alone, and when it is through, the others."""
        if not self.first:
            self.wait()
        yield
        if self.first:
            self.wait()

    def wait(self) -> None:
        """Until every rank has come here, however long one of them reads or writes."""
        if not self.alone:
            dist.barrier(group=self.patient)

    def from_first(self, thing: Any) -> Any:
        """What the first rank has."""
        if self.alone:
            return thing
        box = [thing if self.first else None]
        dist.broadcast_object_list(box, src=0, group=self.patient)
        return box[0]

    def share_buffers(self, model: nn.Module) -> None:
        """Give every rank the first one's running means, which each has of its own parts."""
        for buffer in [] if self.alone else model.buffers():
            dist.broadcast(buffer, src=0)

    @contextlib.contextmanager
    def none_lost(self) -> Iterator[None]:
        """A rank that another one waits for in vain becomes one line."""
        try:
            yield
        except RuntimeError as error:
            said = str(error).strip().partition("\n")[0]
            if self.alone or not any(sign in str(error).lower() for sign in LOST):
                raise
            for process in self.started:
                process.kill()  # it may hang; the others would end by themselves, and none of them writes
            raise ConnectionError(
                f"another process of this run, of {self.count}, is lost ({said}): it ended, or did not answer for "
                f"{SECONDS_UNTIL_LOST} seconds. The same command goes on from the last checkpoint, with any number of "
                f"devices"
            ) from error


ALONE = Ranks()


class ModelOfAll:
    """A model that is given this rank's part of a batch, and gives the outputs of the whole of it."""

    def __init__(self, model: Any, batch: Batch, rank: int) -> None:
        self.model, self.batch, self.rank = model, batch, rank

    def __call__(self, inputs: Inputs) -> Tensor:
        return self._of_all(self.model, inputs)

    def features(self, inputs: Inputs) -> Tensor:
        """What the last layer is given."""
        return self._of_all(self.model.features, inputs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def _of_all(self, call: Callable[[Inputs], Tensor], inputs: Inputs) -> Tensor:
        # Dropout differs between ranks in the model, and must not in what each of them computes of the whole batch.
        number = int(torch.randint(2**62, ()).item()) + self.rank
        device = next(self.model.parameters()).device
        kind = "cuda" if device.type == "cpu" else device.type  # the CPU's generator is always among the forked
        with torch.random.fork_rng([device] if device.type == "cuda" else [], device_type=kind):
            torch.manual_seed(number)
            rows = call(inputs)
        meta = self.batch.meta
        return (meta if meta is not None and inputs is meta.inputs else self.batch).whole(rows)


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, own: Tensor, total: int, ranks: Ranks) -> Tensor:
        part = ranks.part(total)
        size = part.stop - part.start
        if len(own) != max(size, 1):
            raise ValueError(
                f"of a batch of {total} this process has {size} inputs, and the model gave {len(own)} rows: a method "
                f"that makes more or fewer of them trains on one device only"
            )
        ctx.shape, ctx.part, ctx.count = own.shape, part, ranks.count
        parts = [ranks.part(total, rank) for rank in range(ranks.count)]
        padded = own.new_zeros(parts[0].stop, *own.shape[1:])  # the first part is the longest
        padded[:size] = own[:size]
        found = [torch.empty_like(padded) for _ in parts]
        dist.all_gather(found, padded)
        return torch.cat([rows[: of.stop - of.start] for rows, of in zip(found, parts, strict=True)])

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        # Every rank has the whole loss, and passes on what its own part contributes; DDP divides the sum by the count.
        own = grad_outputs[0][ctx.part]
        grad = own.new_zeros(ctx.shape)
        grad[: len(own)] = own * ctx.count
        return grad, None, None
