"""Studies and audits on the machines of a Ray cluster, and studies on the GPUs of one machine."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
import threading
import types
from textwrap import dedent

import numpy as np
import pytest
from processes import alive, wait_for

from socrates import cluster
from socrates.audit.measure import measure
from socrates.audit.predictions import open_predictions
from socrates.engine.events import Busy, EpochDone, Failed, Finished
from socrates.engine.lock import held
from socrates.engine.studies import ray as ray_engine
from socrates.engine.studies.local import LocalEngine, TrainingProcess, visible_gpus
from socrates.engine.studies.ray import RayEngine
from socrates.engine.studies.runs import finished_run, run_all
from socrates.experiment import Experiment, Optimization, Part, resolve
from socrates.processes import handled
from socrates.records import Run

EPOCHS = 5
# A method whose runs on the cluster write down where they are, and wait in their fourth epoch until
# they may go on.
WAITING = """
import os, pathlib, sys, time
from socrates.methods import CrossEntropy

sys.modules["socrates.engine.saving"].SECONDS_BETWEEN_CHECKPOINTS = 0.0
folder = pathlib.Path(__file__).parent

class Waiting(CrossEntropy):
    def start_epoch(self, epoch, model):
        super().start_epoch(epoch, model)
        ray = sys.modules.get("ray")
        if ray and ray.is_initialized():
            with open(folder / f"{os.getpid()}.log", "a") as log:
                log.write(f"{ray.get_runtime_context().get_node_id()} {epoch}\\n")
            while epoch == 3 and not (folder / "go-on").exists():
                time.sleep(0.05)
"""


def experiments(count, epochs=EPOCHS, method="ce"):
    how = Optimization(epochs=epochs, batch_size=16)
    parts = Part("digits"), Part("mlp", width=16), Part(method)
    return [
        Experiment(*parts, seed, num_train=100, optimization=how) for seed in range(1, count + 1)
    ]


@pytest.fixture(scope="module")
def machines(tmp_path_factory):
    """A head without room for runs, and two machines with room for one each; all tests share a
    connection."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    folder = tmp_path_factory.mktemp("methods")
    (folder / "waiting.py").write_text(WAITING)
    # A machine that was killed refuses to answer, which is noticed soon; one that is only slow has
    # its time.
    patience = {
        "health_check_initial_delay_ms": 0,
        "health_check_period_ms": 500,
        "health_check_timeout_ms": 60_000,
    }
    made = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 0, "include_dashboard": False, "_system_config": patience},
    )
    made.nodes = [made.add_node(num_cpus=1) for _ in range(2)]
    made.folder = folder
    sys.path.insert(0, str(folder))
    try:
        with cluster.connected(made.address) as made.ray:
            yield made
    finally:
        sys.path.remove(str(folder))
        made.shutdown()


def test_a_task_waits_for_a_run_that_another_study_trains(tmp_path, monkeypatch):
    monkeypatch.setattr(ray_engine, "SECONDS_BETWEEN_LOOKS", 0.01)
    monkeypatch.setitem(sys.modules, "ray", types.SimpleNamespace(get=lambda answer: answer))
    (experiment,) = map(resolve, experiments(1, epochs=1))
    directory = Run.directory_of(tmp_path, experiment)
    directory.mkdir()
    told = []
    with contextlib.ExitStack() as lock:
        lock.enter_context(held(directory))

        def put(event):
            told.append(type(pickle.loads(event)))
            if told.count(Busy) == 1 and len(told) == 1:
                # The task looks again while the run is still held, and says nothing twice.
                threading.Timer(0.2, lock.close).start()
            return False

        mailbox = types.SimpleNamespace(put=types.SimpleNamespace(remote=put))
        ray_engine._work(mailbox, experiment, RayEngine(tmp_path, accelerator="cpu"))
    assert told[0] == Busy
    assert told.count(Busy) == 1
    assert told[-1] == Finished
    assert finished_run(tmp_path, experiment) is not None


def lines(folder):
    """Where and in which epoch tasks have been, by their process."""
    return {
        path: [line.split() for line in path.read_text().splitlines()]
        for path in folder.glob("*.log")
    }


@pytest.mark.slow
def test_a_study_outlives_a_machine_and_has_the_numbers_of_the_local_engine(machines, tmp_path):
    # this process is lost with its machine
    told, here = [], machines.ray.get_runtime_context().get_node_id()

    def lose_one():
        try:
            wait_for(
                lambda: (
                    [path[-1][1] for path in lines(machines.folder).values() if path] == ["3", "3"]
                )
            )
            others = [node for node in machines.nodes if node.node_id != here]
            others[-1].kill_all_processes(check_alive=False, allow_graceful=False, wait=True)
            lost = others[-1].node_id
            there = [
                int(path.stem)
                for path, told in lines(machines.folder).items()
                if told[-1][0] == lost
            ]
            # a machine takes its processes with it; these would live a little longer
            for pid in there:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            wait_for(lambda: not any(map(alive, there)))
        finally:
            (machines.folder / "go-on").touch()

    killing = threading.Thread(target=lose_one)
    killing.start()
    wanted = experiments(2, method="waiting:Waiting")
    over_there = run_all(wanted, tmp_path / "ray", engine="ray", tell=told.append)
    killing.join()
    assert sum(isinstance(event, Finished) for event in told) == len(wanted)
    assert not any(isinstance(event, Failed) for event in told)
    epochs = [epoch for path in lines(machines.folder).values() for _, epoch in path]
    assert epochs.count("0") == 2  # none began anew
    assert epochs.count("3") == 3  # one was repeated
    here = run_all(wanted, tmp_path / "local")
    for one, other in zip(over_there, here, strict=True):
        assert one.evaluation() == other.evaluation()
        name = f"predictions/test-{EPOCHS:04}.npz"
        assert np.array_equal(
            np.load(one.directory / name)["logits"], np.load(other.directory / name)["logits"]
        )


@pytest.mark.slow
def test_a_study_that_is_asked_to_end_saves_within_its_step(machines, tmp_path):
    (wanted,) = experiments(1, epochs=100_000)

    def tell(event):
        if isinstance(event, EpochDone):
            os.kill(os.getpid(), signal.SIGTERM)

    # the test's cluster handles it
    with handled([signal.SIGTERM], signal.SIG_DFL), pytest.raises(SystemExit) as stop:
        run_all([wanted], tmp_path, engine="ray", tell=tell)
    assert stop.value.code == 128 + signal.SIGTERM
    (checkpoint,) = tmp_path.glob("*/checkpoint.pt")
    assert not (checkpoint.parent / "lock").exists()
    assert finished_run(tmp_path, wanted) is None


@pytest.mark.slow
def test_an_audit_on_a_cluster_finds_the_same_bits(machines, tmp_path, monkeypatch):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr("socrates.audit.read.parquet.PART_ROWS", 64)
    generator = np.random.default_rng(0)
    logits = generator.normal(size=(500, 3))
    probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    columns = {f"p{column}": probs[:, column] for column in range(3)} | {
        "label": generator.integers(0, 3, 500)
    }
    columns["p0"][333] = np.nan
    parquet.write_table(pyarrow.table(columns), tmp_path / "found.parquet", row_group_size=50)
    monkeypatch.chdir(tmp_path)  # a path means the same on every machine
    source = open_predictions("found.parquet")
    assert len(source.parts) > 3
    here, told = measure(source, sample=90), []
    there = measure(source, sample=90, engine="ray", workers=2, tell=told.append)
    for one, other in zip(here.meter.state().values(), there.meter.state().values(), strict=True):
        assert np.array_equal(one, other)
    assert np.array_equal(here.sample.values, there.sample.values)
    assert (here.bad, told[-1], len(told)) == (there.bad, 500, len(source.parts))
    with pytest.raises(ValueError, match=r"^found\.parquet: row 333"):
        measure(source, engine="ray", strict=True)
    assert list(cluster.in_ray(dedent, [" a", " b", " c"], None)) == ["a", "b", "c"]


@pytest.mark.slow
def test_a_cluster_without_room_is_one_line(machines, tmp_path, monkeypatch):
    monkeypatch.setattr(ray_engine, "SECONDS_FOR_ROOM", 0.0)
    monkeypatch.setattr(cluster, "SECONDS_BETWEEN_BEATS", 0.1)
    with pytest.raises(ValueError, match=r"1 CPU .*0\.5 GPU"):
        RayEngine(tmp_path, accelerator="cuda", per_gpu=2).run(experiments(1), print)


def test_no_ray_and_no_cluster_are_one_line_each(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", types.SimpleNamespace(is_initialized=lambda: False))
    with pytest.raises(OSError, match=r"127\.0\.0\.1:1 .*refused.*docs/cluster\.md$"):
        cluster.connected("127.0.0.1:1").__enter__()
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"'socrates-loss\[ray\]'$"):
        cluster.connected(None).__enter__()


def test_a_cluster_that_goes_is_noticed_and_not_waited_for(monkeypatch):
    """Ray would end this process after a minute, in words of its own."""
    ray = types.SimpleNamespace(
        get_runtime_context=lambda: types.SimpleNamespace(gcs_address="127.0.0.1:1"),
        wait=lambda tasks, timeout: ([], tasks),
        exceptions=types.SimpleNamespace(RayError=KeyError),
    )
    monkeypatch.setattr(cluster, "SECONDS_BETWEEN_BEATS", 0.0)
    monkeypatch.setattr(cluster, "SECONDS_UNTIL_GONE", 0.05)
    with pytest.raises(ConnectionError):
        cluster.Heartbeat(ray).wait("a task")
    cluster.end_tasks(ray, ["a task"])  # cancels nothing: there is nobody to tell


def test_what_ray_cannot_do_is_one_line(tmp_path):
    with pytest.raises(ValueError, match="got 0"):
        RayEngine(tmp_path, per_gpu=0)
    with pytest.raises(ValueError, match="auto"):
        run_all([], tmp_path, address="auto")
    with pytest.raises(ValueError, match="auto"):
        measure(None, address="auto")
    assert RayEngine(tmp_path, accelerator="cuda", per_gpu=4).share({}) == {"CPU": 1, "GPU": 0.25}
    assert RayEngine(tmp_path, accelerator="auto").share({"CPU": 8.0}) == {"CPU": 1}
    assert RayEngine(tmp_path).share({"GPU": 1.0}) == {"CPU": 1}
    assert RayEngine(tmp_path, accelerator="cuda").room({"CPU": 8.0}) == 0


def test_each_run_has_a_gpu_of_its_own(monkeypatch, tmp_path):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 3)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,GPU-7")
    engine = LocalEngine(tmp_path, accelerator="cuda")
    assert engine.at_once == 3
    going = {}
    for place in range(3):
        gpu = engine._gpu(going.values())
        going[place] = TrainingProcess(None, None, None, gpu)
    assert [training.gpu for training in going.values()] == ["0", "1", "GPU-7"]
    del going[1]
    assert engine._gpu(going.values()) == "1"
    assert LocalEngine(tmp_path, accelerator="cuda", per_gpu=2).at_once == 6
    assert LocalEngine(tmp_path)._gpu([]) is None
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert LocalEngine(tmp_path, accelerator="auto").gpus == ("0", "1")
    assert LocalEngine(tmp_path, accelerator="cpu").gpus == ()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,GPU-5")
    assert visible_gpus() == ("3", "GPU-5")


@pytest.mark.slow
def test_a_process_sees_its_gpu_only(monkeypatch, tmp_path):
    """Stand-in devices: what a process of each run reads from its environment, by a method that
    tells it."""
    seen = tmp_path / "seen"
    seen.mkdir()
    (tmp_path / "telling.py").write_text(
        "import os, pathlib\n"
        "from socrates.methods import CrossEntropy\n"
        f"pathlib.Path({str(seen)!r}, "
        "str(os.getpid())).write_text(os.environ['CUDA_VISIBLE_DEVICES'])\n"
        "method = CrossEntropy\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    wanted = [
        Experiment(Part("digits"), Part("mlp", width=8), Part("telling:method"), seed, num_train=50,
                   optimization=Optimization(epochs=1, batch_size=16))
        for seed in (1, 2)
    ]  # fmt: skip
    monkeypatch.setattr(LocalEngine, "gpus", ("4", "6"))
    LocalEngine(tmp_path / "runs", processes=2).run(wanted, lambda event: None)
    assert {path.read_text() for path in seen.iterdir()} == {"4", "6"}
