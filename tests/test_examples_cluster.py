"""The files of examples/cluster: scripts run with stand-ins for SLURM, Ray and torchrun; Ray itself
reads the YAML."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from pathlib import Path

import pytest
from processes import Started, alive, wait_for, whole_lines

from socrates.cli.commands import COMMANDS
from socrates.cli.options import parse

FOLDER = Path(__file__).resolve().parent.parent / "examples" / "cluster"
SCRIPTS = sorted(FOLDER.glob("*.sh"))
# Each stand-in writes down its words; srun then does what it is asked to. The study begins when Ray
# runs on both kinds of machines, as it would in a job, and is ready for a signal before it says so.
SAYS = '#!/bin/bash\necho "$(basename "$0") $*" >> "$SAID"\n'
STUBS = {
    "scontrol": SAYS + "printf '%s\\n' node1 node2 node3\n",
    "srun": SAYS + 'while [[ $1 == --* ]]; do shift; done\nexec "$@"\n',
    "hostname": "#!/bin/bash\necho 10.0.0.1 fe80::1\n",
    "ray": SAYS + 'if [[ "$*" == *--block ]]; then echo "pid $$" >> "$SAID"; exec sleep 600; fi\n',
    "torchrun": SAYS,
    "socrates": "#!/bin/bash\ntrap 'echo saved >> \"$SAID\"; exit 143' TERM\n"
    'until [[ $(grep -c "^pid " "$SAID") == 2 ]]; do sleep 0.05; done\n'
    'echo "socrates $*" >> "$SAID"\n'
    'while [[ -n "${LONG:-}" ]]; do sleep 0.1; done\nexit ${CODE:-0}\n',
}


@pytest.fixture
def job(tmp_path, monkeypatch):
    """The environment of a SLURM job whose programs are stand-ins; gives what they were called
    with."""
    for name, words in STUBS.items():
        (tmp_path / name).write_text(words)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    for name, value in {
        "JOB_NODELIST": "node[1-3]",
        "JOB_ID": "70007",
        "NNODES": "3",
        "CPUS_PER_TASK": "8",
    }.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    monkeypatch.setenv("SLURM_GPUS_ON_NODE", "4")
    monkeypatch.setenv("SAID", str(tmp_path / "said"))
    return tmp_path / "said"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_bash(script):
    subprocess.run(["bash", "-n", script], check=True)
    assert os.access(script, os.X_OK)


def test_a_study_in_a_job_has_its_cluster(job, monkeypatch):
    monkeypatch.setenv("CODE", "1")
    done = subprocess.run([FOLDER / "slurm-study.sh", "sweep", "--methods", "ce"], timeout=300)
    assert done.returncode == 1  # the study's own
    said = job.read_text().splitlines()
    on = "srun --overlap --cpus-per-task=8 --ntasks-per-node=1"
    assert f"{on} --nodes=1 --ntasks=1 --nodelist=node1 hostname --ip-address" in said
    head = "ray start --head --node-ip-address=10.0.0.1 --port=30007 --num-cpus=8 --block"
    assert f"{on} --nodes=1 --ntasks=1 --nodelist=node1 {head}" in said
    assert "ray health-check --address 10.0.0.1:30007" in said
    others = "ray start --address=10.0.0.1:30007 --num-cpus=8 --block"
    assert f"{on} --nodes=2 --ntasks=2 --exclude=node1 {others}" in said
    assert "socrates sweep --methods ce --engine ray --address 10.0.0.1:30007" in said


def test_a_study_whose_time_is_over_saves(job, monkeypatch, tmp_path):
    monkeypatch.setenv("LONG", "1")
    started = Started([str(FOLDER / "slurm-study.sh"), "sweep"], tmp_path)
    try:
        started.wait_for(
            lambda: (
                whole_lines(job)
                and job.read_text().count("pid ") == 2
                and "socrates sweep" in job.read_text()
            )
        )
        os.kill(started.pid, signal.SIGTERM)
        assert started.ended() == 143
        said = job.read_text()
        assert said.splitlines()[-1] == "saved"
        nodes = [int(line.split()[1]) for line in said.splitlines() if line.startswith("pid ")]
        assert len(nodes) == 2
        wait_for(lambda: not any(map(alive, nodes)))
    finally:
        started.end()


def test_a_run_on_many_machines_is_torchrun_s(job):
    subprocess.run(
        [FOLDER / "slurm-train.sh", "digits", "mlp", "socrates"], check=True, timeout=300
    )
    place = "--rdzv-backend=c10d --rdzv-id=70007 --rdzv-endpoint=node1:30007"
    words = (
        f"torchrun --nnodes=3 --nproc-per-node=4 {place} -m socrates.cli train digits mlp socrates"
    )
    assert job.read_text().splitlines()[1:] == [f"srun --cpus-per-task=8 {words}", words]


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yaml")), ids=lambda path: path.name)
def test_ray_s_launcher_reads_the_file(path):
    pytest.importorskip("ray")
    yaml, _ = pytest.importorskip("yaml"), pytest.importorskip("jsonschema")
    from ray.autoscaler._private.util import prepare_config, validate_config

    config = prepare_config(yaml.safe_load(path.read_text()))
    validate_config(config)
    workers = sum(kind.get("max_workers", 0) for kind in config["available_node_types"].values())
    assert workers == {"aws.yaml": 8, "own-machines.yaml": 2}[path.name]
    assert any("socrates-loss[train,ray]" in command for command in config["setup_commands"])


def test_the_commands_of_the_page_and_the_scripts_can_be_typed():
    page = FOLDER.parent.parent / "docs" / "cluster.md"
    text = "\n".join(path.read_text() for path in (page, *SCRIPTS))
    commands = re.findall(r"^socrates ((?:tune|sweep|reproduce|audit) .*)", text, re.MULTILINE)
    commands += re.findall(r"sbatch .*slurm-study.sh (.*)", text)
    commands += [f"train {words}" for words in re.findall(r"sbatch .*slurm-train.sh (.*)", text)]
    assert len(commands) >= 10
    for command in commands:
        name, *words = shlex.split(command)
        parse(COMMANDS[name][0], words, "socrates")
