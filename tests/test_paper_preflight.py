"""Before the first run of the paper's scale: what is missing is named, and nothing is trained."""

from __future__ import annotations

import shutil
import sys

import pytest
import torch
from data_files import OFFICIAL_COUNTS, cifar10_files, write

from socrates.data.download import nothing_downloaded
from socrates.engine import build, switches
from socrates.engine.studies.preflight import PlanCheck, check_plan, disk_check, refuse_problems
from socrates.engine.studies.runs import StudyError
from socrates.experiment import Part
from socrates.paper import reproduce as reproduction
from socrates.paper.grid import final_experiment
from socrates.paper.reproduce import plan
from socrates.paper.scales import LaptopScale, PaperScale

pytestmark = pytest.mark.filterwarnings(OFFICIAL_COUNTS)


def of(checks):
    return {check.what.partition(",")[0].partition(" of /")[0]: check.problem for check in checks}


def test_everything_a_plan_needs_has_a_line(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    write(tmp_path / "data", cifar10_files())
    settings = ("cifar10-vgg16", "svhn-vgg16", "cifar100-vit_transfer")
    runs = [final_experiment(name, method) for name in settings for method in ("ce", "socrates")]
    with nothing_downloaded():
        found = of(check_plan(runs, tmp_path / "runs", tmp_path / "data"))
    assert list(found) == [
        "data set cifar10",
        "data set svhn",
        "data set cifar100",
        "weights of vit_transfer",
        "disk",
    ]
    assert found["data set cifar10"] == ""
    assert "train_32x32.mat" in found["data set svhn"]
    assert "cifar-100-binary" in found["data set cifar100"]
    assert "transformers" in found["weights of vit_transfer"]


def test_a_full_disk(tmp_path, monkeypatch):
    runs = [final_experiment("cifar10-vgg16", "ce", seed) for seed in (1, 2)]
    assert not disk_check(runs, tmp_path / "runs").problem
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(9, 9, 10**6))
    assert "0.0 GB" in disk_check(runs, tmp_path / "runs").problem


def test_one_error_names_everything():
    checks = [PlanCheck("data set a", "is missing"), PlanCheck("b"), PlanCheck("c", "too small")]
    with pytest.raises(ValueError, match=r"data set a: is missing; c: too small") as error:
        refuse_problems(checks)
    assert "b: there" not in str(error.value)
    refuse_problems(checks[1:2])


@pytest.mark.parametrize("scale", ["paper", "laptop"])
def test_a_plan_of_the_paper_s_scale_is_refused_before_its_first_run(tmp_path, monkeypatch, scale):
    trained = []

    def run_all(runs, *_, **__):
        trained.extend(runs)
        raise StudyError([], len(runs))

    monkeypatch.setattr(reproduction, "run_all", run_all)
    wanted = plan(["unknown"], scale=scale, out=tmp_path / "out")
    if scale == "laptop":
        assert wanted.carry_out(data_root=tmp_path).failed
        assert trained
        return
    with nothing_downloaded(), pytest.raises(ValueError, match="data set cifar100"):
        wanted.carry_out(data_root=tmp_path)
    assert not trained
    assert not (tmp_path / "out").exists()
    wanted.carry_out(data_root=tmp_path, engine="ray")  # its machines have their own files
    assert trained


def test_the_precision_of_a_plan(tmp_path):
    usual = plan(["unknown"], scale="paper", out=tmp_path)
    mixed = plan(["unknown"], scale="paper", precision="bf16-mixed", out=tmp_path)
    assert {run.precision for run in usual.runs} == {"32-true"}
    assert {run.precision for run in mixed.runs} == {"bf16-mixed"}
    assert mixed.folder.name == "paper-bf16-mixed"
    assert "bf16-mixed" in mixed.scale.note
    assert "precision" not in usual.scale.note
    assert LaptopScale(precision="16-mixed").name == "laptop-16-mixed"
    assert PaperScale(released=True).name == "paper-as-released"
    with pytest.raises(ValueError, match="precision"):
        plan(["unknown"], scale="paper", precision="8-bit", out=tmp_path)


def test_the_command_takes_setting_seeds_and_precision(run, tmp_path):
    code, text = run(
        "reproduce", "unknown", "--dry-run", "--setting", "cifar100-vgg16", "--seeds", "1",
        "--precision", "bf16-mixed", "--out", tmp_path,
    )  # fmt: skip
    assert code == 0, text
    assert "1 of 1 runs are missing" in text
    assert "bf16-mixed" in text


@pytest.fixture
def torch_settings():
    precision = torch.get_float32_matmul_precision()
    benchmark = torch.backends.cudnn.benchmark
    yield
    torch.set_float32_matmul_precision(precision)
    torch.backends.cudnn.benchmark = benchmark


@pytest.mark.usefixtures("torch_settings")
def test_switches_of_speed_are_off_unless_asked_for(monkeypatch):
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.benchmark = False
    build.make_fabric("cpu", "32-true")
    assert torch.get_float32_matmul_precision() == "highest"
    assert not torch.backends.cudnn.benchmark
    monkeypatch.setenv(switches.TF32, "1")
    monkeypatch.setenv(switches.CUDNN_BENCHMARK, "1")
    build.make_fabric("cpu", "32-true")
    assert torch.get_float32_matmul_precision() == "high"
    assert torch.backends.cudnn.benchmark
    monkeypatch.setenv(switches.TF32, "yes")
    with pytest.raises(ValueError, match=r"SOCRATES_TF32 .*'yes'"):
        switches.use_switches()


def test_parts_of_other_models_need_no_weights(tmp_path):
    run = final_experiment("cifar100-vgg16", "ce")
    assert run.model == Part("vgg16")
    write(tmp_path, cifar10_files())
    with nothing_downloaded():
        assert "weights of vgg16" not in of(check_plan([run], tmp_path, tmp_path))
