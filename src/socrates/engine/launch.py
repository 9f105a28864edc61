"""The processes of one run: how many there are, and how they start and find each other."""

from __future__ import annotations

import contextlib
import inspect
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torch import nn

from socrates.engine.guard import environment
from socrates.engine.ranks import SECONDS_UNTIL_LOST, Ranks

HOURS_OF_PATIENCE = 12  # that a rank waits for one that reads data or writes files


def strategy_of_many() -> Any:
    """DDP, without sending the running means of batch norm in every step: they are the first rank's."""
    from lightning_fabric.strategies.ddp import DDPStrategy

    known = inspect.signature(nn.parallel.DistributedDataParallel).parameters
    name = "forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers"
    options: dict[str, Any] = {name: False}
    return DDPStrategy(**options)


def launched(fabric: Any) -> Ranks:
    """The ranks of what Fabric was told to use: the other processes are started, or were by torchrun."""
    if fabric.world_size == 1:
        return Ranks()
    cluster, num_processes = fabric.strategy.cluster_environment, fabric.strategy.num_processes
    with _others_started(cluster, num_processes, fabric.world_size) as started:
        fabric.launch()
    waits = timedelta(seconds=SECONDS_UNTIL_LOST), timedelta(hours=HOURS_OF_PATIENCE)
    hasty, patient = (dist.new_group(backend="gloo", timeout=wait) for wait in waits)
    return Ranks(fabric.global_rank, fabric.world_size, hasty, patient, started)


@contextlib.contextmanager
def _others_started(cluster: Any, num_processes: int, world_size: int) -> Iterator[Sequence[Any]]:
    """The other processes of this machine, started with the words of this one, unless somebody else started them.

    Fabric's own launcher would end this process without a word, and amid a checkpoint, when another one is lost.
    """
    if cluster.creates_processes_externally or dist.is_initialized():
        yield ()
        return
    place = {"MASTER_ADDR": cluster.main_address, "MASTER_PORT": str(cluster.main_port)}
    place |= {"NODE_RANK": str(cluster.node_rank()), "WORLD_SIZE": str(world_size), "LOCAL_RANK": "0"}
    words = [sys.executable, *sys.orig_argv[1:]]
    started = [
        subprocess.Popen(words, env={**os.environ, **place, "LOCAL_RANK": str(local_rank)})
        for local_rank in range(1, num_processes)
    ]
    try:
        with environment(place):
            yield started
    except BaseException:  # they would wait for this one for half an hour
        for process in started:
            process.kill()
        raise


def hurry(ranks: Ranks) -> None:
    """From here on, all ranks take the same steps: one that is silent for long is lost."""
    if not ranks.alone:
        ranks.wait()
        patience = timedelta(seconds=SECONDS_UNTIL_LOST)
        dist.distributed_c10d._set_pg_timeout(patience, dist.group.WORLD)  # pyright: ignore


def follows(devices: int, num_nodes: int) -> bool:
    """Whether this process was started as another rank than the first, which alone talks.

    >>> follows(devices=1, num_nodes=1)
    False
    """
    devices, num_nodes = devices_and_nodes(devices, num_nodes)
    places = ("RANK", "LOCAL_RANK", "NODE_RANK", "SLURM_PROCID")
    return devices * num_nodes > 1 and any(int(os.environ.get(name) or 0) > 0 for name in places)


def devices_and_nodes(devices: int, num_nodes: int) -> tuple[int, int]:
    """How many processes there are on each of how many machines: as torchrun says, if it started this one.

    >>> devices_and_nodes(2, 1)
    (2, 1)
    """
    for name, value in (("devices", devices), ("num_nodes", num_nodes)):
        if type(value) is not int or value < 1:
            raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")
    if not dist.is_torchelastic_launched():
        return devices, num_nodes
    world, local = int(os.environ["WORLD_SIZE"]), int(os.environ["LOCAL_WORLD_SIZE"])
    if devices * num_nodes not in (1, world):
        raise ValueError(
            f"torchrun started {world} processes, {devices} devices on {num_nodes} machines were asked for: "
            f"leave --devices and --num-nodes out"
        )
    return local, world // local
