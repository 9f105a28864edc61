"""How the processes of a run start and connect; `ranks.py` says what they share from then on."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch.distributed as dist

from socrates.engine.ranks import SECONDS_UNTIL_LOST, Ranks
from socrates.processes import environment, later

HOURS_OF_PATIENCE = 12  # that a rank waits for one that reads data or writes files
SECONDS_BETWEEN_LOOKS = 0.1  # at the other processes, while they start
# how a process finds the one that started it: a folder to report in, and its number
MEETING = "SOCRATES_MEETING"
STARTER = "SOCRATES_STARTER"


@contextlib.contextmanager
def launched(fabric: Any) -> Iterator[Ranks]:
    """Start the other processes, unless torchrun did, and yield the ranks of this run.

    At the end of the `with` block they wait for each other.
    """
    if fabric.world_size == 1:
        yield Ranks()
        return
    cluster = fabric.strategy.cluster_environment
    count = fabric.world_size
    with _others_started(cluster, fabric.strategy.num_processes, count) as started:
        starter = _meet_starter()
        with _ending_if_one_is_lost(started, starter, count):
            fabric.launch()
            hasty = dist.new_group(backend="gloo", timeout=timedelta(seconds=SECONDS_UNTIL_LOST))
            patient = dist.new_group(backend="gloo", timeout=timedelta(hours=HOURS_OF_PATIENCE))
    ranks = Ranks(fabric.global_rank, count, hasty, patient, started)
    with ranks.none_lost():
        yield ranks
        ranks.wait()


@contextlib.contextmanager
def _others_started(cluster: Any, num_processes: int, world_size: int) -> Iterator[Sequence[Any]]:
    """Start the other processes of this machine, with this one's command, unless they are there.

    The `with` block begins when all of them have come to connect. Fabric's own launcher would end
    this process without a word, and in the middle of a checkpoint, when another one is lost.
    """
    if cluster.creates_processes_externally or dist.is_initialized():
        yield ()
        return
    place = {
        "MASTER_ADDR": cluster.main_address,
        "MASTER_PORT": str(cluster.main_port),
        "NODE_RANK": str(cluster.node_rank()),
        "WORLD_SIZE": str(world_size),
        "LOCAL_RANK": "0",
    }
    command = [sys.executable, *sys.orig_argv[1:]]
    started: list[subprocess.Popen[bytes]] = []
    try:
        with tempfile.TemporaryDirectory() as meeting:
            for local_rank in range(1, num_processes):
                own = {"LOCAL_RANK": str(local_rank), MEETING: meeting, STARTER: str(os.getpid())}
                everything = {**os.environ, **place, **own}
                # A session of its own: a terminal sends Ctrl-C to this process, which tells the
                # others.
                # A signal waits until the process is in the list: else it would never be ended.
                with later("SIGINT", "SIGTERM", "SIGHUP"):
                    process = subprocess.Popen(command, env=everything, start_new_session=True)
                    started.append(process)
            while len(os.listdir(meeting)) < len(started):
                if any(process.poll() is not None for process in started):
                    raise ConnectionError(_lost_at_start(started, world_size))
                time.sleep(SECONDS_BETWEEN_LOOKS)
        with environment(place):
            yield started
    except BaseException:  # they would wait for this one for half an hour
        for process in started:
            process.kill()
        raise


def _meet_starter() -> int | None:
    """Report to the process that started this one that it is here; return its number, if any."""
    meeting = os.environ.get(MEETING)
    if meeting is None:
        return None
    with contextlib.suppress(OSError):  # the folder is gone if the starter is
        (Path(meeting) / os.environ["LOCAL_RANK"]).touch()
    return int(os.environ[STARTER])


@contextlib.contextmanager
def _ending_if_one_is_lost(
    started: Sequence[Any], starter: int | None, world_size: int
) -> Iterator[None]:
    """End this process if one that it started, or its starter, ends while they connect.

    Inside, torch waits for the other ranks for half an hour, deaf to everything. Nothing of the
    run is written yet, so nothing is lost by ending at once.
    """
    connected = threading.Event()

    def watch() -> None:
        while not connected.wait(SECONDS_BETWEEN_LOOKS):
            if starter is not None and os.getppid() != starter:
                os._exit(1)
            if any(process.poll() is not None for process in started):
                line = f"error: {_lost_at_start(started, world_size)}\n"
                for process in started:
                    process.kill()
                os.write(sys.stderr.fileno(), line.encode())
                os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        connected.set()


def _lost_at_start(started: Sequence[Any], world_size: int) -> str:
    """Describe which process ended before the ranks were connected."""
    codes = [process.returncode for process in started if process.returncode is not None]
    how = f"exit code {codes[0]}" if codes[0] >= 0 else signal.Signals(-codes[0]).name
    return (
        f"another process of this run, of {world_size}, ended while it started ({how}): if it "
        "printed no reason, memory may have run out; the same command tries again"
    )
