"""Workers and their parent: what is left of one when the other is killed, and their warnings."""

from __future__ import annotations

import multiprocessing
import os
import signal
import struct
import warnings

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


def warning(job: int) -> int:
    warnings.warn("all rows are of one class", stacklevel=2)
    return job


def test_what_workers_warn_of_is_warned_of_once_by_their_parent(capfd):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert list(in_processes(warning, [1, 2, 3], workers=2)) == [1, 2, 3]
    assert [str(one.message) for one in caught] == ["all rows are of one class"]
    assert capfd.readouterr().err == ""
