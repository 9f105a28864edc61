"""Workers and their parent: what is left of one when the other is killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import struct

import pytest

from socrates import processes
from socrates.processes import in_processes


def killed(job: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("sent", [b"", struct.pack("!i", 1000) + b"half of the jobs"])
def test_a_worker_whose_parent_is_gone_ends_without_a_word(monkeypatch, sent):
    monkeypatch.setattr(processes, "become_a_worker", lambda: None)
    parent, worker = multiprocessing.Pipe()
    os.write(parent.fileno(), sent)
    parent.close()
    processes._do_all(worker, killed)


def test_a_worker_whose_parent_is_gone_after_its_job_ends_without_a_word(monkeypatch):
    monkeypatch.setattr(processes, "become_a_worker", lambda: None)
    parent, worker = multiprocessing.Pipe()
    parent.send([1, 2])

    def work(job: int) -> int:
        parent.close()
        return job

    processes._do_all(worker, work)


@pytest.mark.parametrize("size", [1, 10_000_000])  # within the buffer of a pipe, and beyond it
def test_a_worker_that_is_killed_is_reported(size):
    with pytest.raises(ChildProcessError, match="exit code -9"):
        list(in_processes(killed, [bytes(size)], workers=1))
