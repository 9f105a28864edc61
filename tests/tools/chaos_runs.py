"""Small runs that are killed or damaged, and what a run must be in the end: the same numbers, or
one clear line."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import random
import re
import shutil
import signal
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import socrates
from socrates import cli, methods
from socrates.engine import saving, train
from socrates.engine.events import Stepped
from socrates.experiment import Experiment, Optimization, Part, resolve
from socrates.records import Run
from socrates.report.aggregate import read_runs

ENGINE = importlib.import_module("socrates.engine.train")
EPOCHS, KEEP_EVERY = 4, 2
OPTIONS: dict[str, dict[str, Any]] = {
    "ccl_sc": {"start_epoch": 1, "queue_size": 16},
    "sat": {"start_epoch": 1},
}


def warm_up() -> None:
    """Checkpoints at every step, one scaler instead of eight, and data that are loaded once:
    faults, not waits."""
    torch.set_num_threads(1)
    saving.SECONDS_BETWEEN_CHECKPOINTS = -1.0
    scalers = importlib.import_module("socrates.engine.evaluate").SCALERS
    for name in [name for name in scalers if name != "temperature"]:
        del scalers[name]
    loaded, load = {}, ENGINE.load_data

    def once(experiment: Experiment, root: Path | None, *_: Any) -> Any:
        key = (experiment.dataset, experiment.num_train)
        if key not in loaded:
            loaded[key] = load(experiment, root)
        return loaded[key]

    ENGINE.load_data = once


def experiment_of(method: str) -> Experiment:
    """A run of a second: four epochs of three or four steps."""
    settings = Optimization(epochs=EPOCHS, batch_size=16, learning_rate=0.05, halve_every=2)
    parts = Part("digits"), Part("mlp", width=8), Part(method, **OPTIONS.get(method, {}))
    return resolve(Experiment(*parts, num_train=60, keep_every=KEEP_EVERY, optimization=settings))


def all_methods() -> list[str]:
    """Every method that there is."""
    return list(methods.METHODS)


def in_child(work: Callable[[], None], folder: Path) -> int:
    """Start a child that does the work and ends; what it says of an error goes to a file."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        work()
        code = 0
    except BaseException:
        (folder / "error.txt").write_text(traceback.format_exc())
    finally:
        os._exit(code)


def die_in_a_write(number: int) -> None:
    """Be killed when so many files are about to be made safe or renamed, or have just been."""
    count = 0

    def deadly(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any) -> Any:
            nonlocal count
            count += 1
            if count == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments)

        return wrapped

    os.fsync, os.replace = deadly(os.fsync), deadly(os.replace)


def killed(
    experiment: Experiment, out: Path, chance: random.Random, seconds: float
) -> tuple[bool, float]:
    """Train in a child that is killed, half of the times in a write; whether it was before its end,
    and its time."""
    in_write, start = chance.random() < 0.5, time.monotonic()

    def work() -> None:
        if in_write:
            die_in_a_write(chance.randrange(1, 40))
        train(experiment, out, accelerator="cpu")

    out.mkdir(exist_ok=True)
    pid = in_child(work, out)
    if not in_write:
        time.sleep(chance.uniform(0, 2 * seconds))
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        raise RuntimeError((out / "error.txt").read_text())
    return os.WIFSIGNALED(status), time.monotonic() - start


def numbers(run: Run) -> dict[str, Any]:
    """All that a finished run found, without times."""
    found: dict[str, Any] = {"records": [{**one.to_json(), "seconds": 0} for one in run.epochs()]}
    found |= {
        "evaluation": run.evaluation().to_json(),
        "summary": {**run.summary(), "finished": ""},
    }
    for split in ("val", "test"):
        for epoch in range(KEEP_EVERY, EPOCHS + 1, KEEP_EVERY):
            if run.predictions_path(split, epoch).is_file():
                found[f"{split} {epoch}"] = run.predictions(split, epoch).logits.tobytes()
    return json.loads(json.dumps(found, default=bytes.hex))


def wrong_with(run: Run, expected: dict[str, Any]) -> list[str]:
    """In what a finished run differs from one that was left alone: its numbers, its lines, or what
    it left lying."""
    found = numbers(run)
    wrong = [name for name in expected if found.get(name) != expected[name]]
    lines = (run.directory / "epochs.jsonl").read_text().split("\n")
    if lines.pop() or [json.loads(line)["epoch"] for line in lines] != list(range(1, EPOCHS + 1)):
        wrong.append("a line is lost, doubled or torn")
    left = [
        path.name
        for path in run.directory.rglob("*")
        if path.suffix == ".tmp" or "checkpoint" in path.name
    ]
    return wrong + [
        f"{name} was left"
        for name in [*left, *(["lock"] if (run.directory / "lock").exists() else [])]
    ]


def stopped_and_finished(out: Path, method: str = "socrates") -> tuple[Path, Path]:
    """Folders with a run that was stopped in its third epoch, and with the same when it is
    finished."""

    def stop(event: Any) -> None:
        if event == Stepped(2, 1):
            raise KeyboardInterrupt

    with contextlib.suppress(KeyboardInterrupt):
        train(experiment_of(method), out / "stopped", accelerator="cpu", tell=stop)
    shutil.copytree(out / "stopped", out / "finished")
    train(experiment_of(method), out / "finished", accelerator="cpu")
    return out / "stopped", out / "finished"


def damage(path: Path, how: str, chance: random.Random) -> str:
    """Damage a file; says what was done."""
    if how == "delete":
        path.unlink()
        return "deleted"
    body = bytearray(path.read_bytes())
    place = chance.randrange(max(1, len(body)))
    if how == "truncate":
        del body[place:]
    elif how == "flip" and body:
        body[place] ^= 1 << chance.randrange(8)
    elif how == "zero":
        length = min(chance.choice((1, 16, 512, len(body))), len(body) - place)
        body[place : place + length] = bytes(length)
    path.write_bytes(body)
    return f"{how} at {place} of {len(body)} bytes"


def command(*words: str) -> tuple[int, str, str]:
    """A command in this process: its exit code, and what it said."""
    from socrates.cli.output import console, errors

    out, err = io.StringIO(), io.StringIO()
    console.file, errors.file = out, err
    console.width = errors.width = 200
    with contextlib.redirect_stderr(err), warnings.catch_warnings():
        warnings.simplefilter("always")
        code = cli.main(list(words))
    return code, out.getvalue(), err.getvalue()


def words_of(folder: Path) -> list[str]:
    """The command that trains the run of a folder."""
    settings = [
        "--epochs",
        EPOCHS,
        "--batch-size",
        16,
        "--learning-rate",
        0.05,
        "--halve-every",
        2,
        "--width",
        8,
    ]
    rest = ["--num-train", 60, "--keep-every", KEEP_EVERY, "--device", "cpu", "--out", folder]
    return ["train", "digits", "mlp", "socrates", *map(str, [*settings, *rest])]


def images() -> torch.Tensor:
    """A few to ask a model about."""
    return torch.randint(0, 17, (8, 1, 8, 8), generator=torch.Generator().manual_seed(0)).to(
        torch.uint8
    )


class Verdict(Exception):
    """What must not happen did."""


def survives(action: str, folder: Path, expected: dict[str, Any]) -> str:
    """Do something with a damaged run: "same numbers", "told", or a Verdict."""
    run = folder / experiment_of("socrates").name
    if action == "load":
        try:
            found = socrates.load(run).predict(images()).probs.numpy()
        except (ValueError, OSError) as error:
            return _one_line(str(error))
        return _same(np.array_equal(found, expected["probabilities"]), "a model answers otherwise")
    if action == "report":
        made, left_out = read_runs([run], logits=True)
        if left_out:
            return _one_line(left_out[0].reason)
        return _same(
            made[0].evaluation.to_json() == expected["evaluation"], "the report has other numbers"
        )
    if action == "whole report":
        code, _, err = command("report", str(folder), "--out", str(folder / "page"))
        # the first says what is wrong, then one for each run that is left out
        lines = err.splitlines()
        return _one_line(lines[0]) if code else "made"
    words = {
        "train": words_of(folder),
        "evaluate": ["evaluate", str(run)],
        "show": ["show", str(run)],
    }[action]
    code, out, err = command(*words)
    if code:
        return _one_line(err)
    if action == "show":
        # of every epoch, as a stopped run may be shorter
        known = set(re.findall(r"\d+\.\d+", expected["shown"]))
        return _same(set(re.findall(r"\d+\.\d+", out)) <= known, f"show has other numbers:\n{out}")
    if action == "evaluate":
        if "evaluation.json\n" not in out:
            return "told"  # that it is of another epoch, and stands beside
        written = Run(run).evaluation().to_json()
        right = (expected["evaluation"], expected["evaluation then"])
        return _same(written in right, "evaluate wrote other numbers")
    if "nothing to do" in out:
        return "nothing to do"
    if said := "predictions/" in err:
        for path in (run / "predictions").glob(f"*-{KEEP_EVERY:04d}.npz"):
            path.unlink()  # of an older epoch, and told
    wrong = [
        name
        for name in wrong_with(Run(run), expected["numbers"])
        if not (said and name.endswith(" 2"))
    ]
    if wrong:
        raise Verdict(f"train went on to other numbers: {wrong}, and said {err!r}")
    return "told, and the same numbers" if err else "same numbers"


def _one_line(said: str) -> str:
    if said.strip().count("\n") or not said.strip() or "Traceback" in said:
        raise Verdict(f"no clear line: {said!r}")
    return "told"


def _same(same: bool, otherwise: str) -> str:
    if not same:
        raise Verdict(otherwise)
    return "same numbers"
