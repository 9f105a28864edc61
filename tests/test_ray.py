"""Studies on the machines of a Ray cluster, and on the GPUs of one machine."""

from __future__ import annotations

from textwrap import dedent

import numpy as np
import pytest

from socrates.engine.events import EpochDone, Failed, Finished, Started
from socrates.engine.studies.local import LocalEngine, Training, visible_gpus
from socrates.engine.studies.ray import RayEngine, in_ray
from socrates.engine.studies.runs import run_all
from socrates.experiment import Experiment, Optimization, Part


def experiments(count, epochs):
    how = Optimization(epochs=epochs, batch_size=16)
    return [
        Experiment(Part("digits"), Part("mlp", width=16), Part(method), seed, num_train=100, optimization=how)
        for seed in range(1, count // 2 + 1)
        for method in ("socrates", "ce")
    ]


@pytest.fixture(scope="module")
def cluster():
    """A head without room for runs, and two machines with room for one each."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    made.nodes = [made.add_node(num_cpus=1) for _ in range(2)]
    yield made
    made.shutdown()


@pytest.mark.slow
def test_a_study_outlives_a_machine_and_has_the_numbers_of_the_local_engine(cluster, tmp_path):
    wanted = experiments(4, epochs=150)
    started, told, lost = set(), [], []

    def tell(event):
        told.append(event)
        started.update([event.experiment] if isinstance(event, Started) else [])
        if isinstance(event, EpochDone) and len(started) == 2 and not lost:
            lost.append(cluster.nodes[1])
            cluster.remove_node(lost[0], allow_graceful=False)

    over_there = run_all(wanted, tmp_path / "ray", engine="ray", address=cluster.address, tell=tell)
    assert lost
    assert sum(isinstance(event, Finished) for event in told) == len(wanted)
    assert not any(isinstance(event, Failed) for event in told)
    here = run_all(wanted, tmp_path / "local")
    for one, other in zip(over_there, here, strict=True):
        assert one.evaluation() == other.evaluation()
        name = "predictions/test-0150.npz"
        assert np.array_equal(np.load(one.directory / name)["logits"], np.load(other.directory / name)["logits"])
    assert list(in_ray(dedent, [" a", " b", " c"], cluster.address)) == ["a", "b", "c"]


def test_what_ray_cannot_do_is_one_line(tmp_path):
    with pytest.raises(ValueError, match="at least 1 run uses a GPU"):
        RayEngine(tmp_path, per_gpu=0)
    with pytest.raises(ValueError, match="choose the engine ray as well"):
        run_all([], tmp_path, address="auto")
    assert RayEngine(tmp_path, accelerator="cuda", per_gpu=4).share == {"num_cpus": 1, "num_gpus": 0.25}
    assert RayEngine(tmp_path).share == {"num_cpus": 1}


def test_each_run_has_a_gpu_of_its_own(monkeypatch, tmp_path):
    engine = LocalEngine(tmp_path, accelerator="cuda", gpus=("0", "1", "GPU-7"))
    assert engine.at_once == 3
    going = {}
    for place in range(3):
        gpu = engine._gpu(going)
        going[place] = Training(None, None, None, gpu)
    assert [training.gpu for training in going.values()] == ["0", "1", "GPU-7"]
    del going[1]
    assert engine._gpu(going) == "1"
    assert LocalEngine(tmp_path, accelerator="cuda", gpus=("0", "1"), per_gpu=2).at_once == 4
    assert LocalEngine(tmp_path, gpus=())._gpu({}) is None
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert LocalEngine(tmp_path, accelerator="auto").gpus == ("0", "1")
    assert LocalEngine(tmp_path, accelerator="cpu").gpus == ()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,GPU-5")
    assert visible_gpus() == ("3", "GPU-5")


@pytest.mark.slow
def test_a_process_sees_its_gpu_only(monkeypatch, tmp_path):
    """Stand-in devices: what a process of each run reads from its environment, by a method that tells it."""
    seen = tmp_path / "seen"
    seen.mkdir()
    (tmp_path / "telling.py").write_text(
        "import os, pathlib\n"
        "from socrates.methods import CrossEntropy\n"
        f"pathlib.Path({str(seen)!r}, str(os.getpid())).write_text(os.environ['CUDA_VISIBLE_DEVICES'])\n"
        "method = CrossEntropy\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    wanted = [
        Experiment(Part("digits"), Part("mlp", width=8), Part("telling:method"), seed, num_train=50,
                   optimization=Optimization(epochs=1, batch_size=16))
        for seed in (1, 2)
    ]  # fmt: skip
    LocalEngine(tmp_path / "runs", processes=2, gpus=("4", "6")).run(wanted, lambda event: None)
    assert {path.read_text() for path in seen.iterdir()} == {"4", "6"}
