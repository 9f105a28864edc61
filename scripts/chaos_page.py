"""docs/reliability.md: what is promised, the test that shows it, and how many faults were survived."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

PROMISES = {
    "A run that is killed (kill -9) at any moment goes on with the same command, in the middle of an epoch, and ends "
    "with logits, records and evaluation bitwise equal to those of a run that was left alone; no line of epochs.jsonl "
    "is lost, doubled or torn, no half-written file stays.": "`make chaos`; 30 kills in `tests/test_chaos.py`",
    "SIGINT, SIGTERM and SIGHUP save within the step and end the run; a second one does not wait.": (
        "`tests/test_engine_robust.py`, `test_ctrl_c_*`, `test_a_second_ctrl_c_*`"
    ),
    "A checkpoint is written, made safe on the disk and renamed, and so is its folder; the one before it is kept. A "
    "damaged one is told of, and the one before it used.": "`tests/test_engine_damage.py`, `test_a_flipped_bit_*`",
    "No file can execute code; a checkpoint of another experiment or of a newer format is refused with the reason; "
    "every earlier format is read.": (
        "`tests/test_engine_damage.py`, `CRAFTED`, `test_a_checkpoint_runs_no_code`; `tests/test_earlier_versions.py`"
    ),
    "A truncated, flipped, zeroed or deleted file of a run is recovered from or told in one line by `train`, "
    "`evaluate`, `show`, `report` and `load`: never a traceback, never silently other numbers.": "`make chaos`",
    "One process trains a run. The lock names host and process: that of a dead process is taken over, on another "
    "machine once it has been silent for 15 seconds.": "`tests/test_engine_robust.py`, `test_a_lock_of_a_dead_*`",
    "A worker that is killed takes nothing along: its run is tried once more, and that is told; when the parent is "
    "gone, no process trains on; SIGTERM and SIGHUP save every run of a study.": (
        "`tests/test_launch.py`, `test_a_run_whose_process_*`, `test_nothing_is_left_behind`"
    ),
    "A full disk, a read-only folder and vanished data are one line, and nothing that was saved is lost.": (
        "`tests/test_engine_robust.py`, `test_a_disk_that_fills_up_in_training`, `test_a_full_disk_*`"
    ),
    "A loss that is not finite stops a run with step, learning rate and samples, and the last good checkpoint stays "
    "(`--on-nan stop`), or the step is left out (`skip`); a study goes on, and records the run as collapsed.": (
        "`tests/test_engine_finite.py`"
    ),
    "A damaged journal of a search is named and set aside; a torn line of it is cut.": (
        "`tests/test_tune.py`, `test_a_damaged_journal_*`"
    ),
}

TEXT = """# What survives

This page is written by `make chaos`, which injects faults on purpose. Of {faults:,} faults {survived:,} were
survived; it took {minutes:.0f} minutes.

| promise | shown by |
|---|---|
{promises}

## Kill -9

{kills:,} times a process was killed while it trained one of the {methods} methods, with a checkpoint after every
step: half of the times at a random moment, half of them just before a file was made safe on the disk or renamed.
{runs:,} runs were finished after that; {kill_failures} differed from a run that was left alone.

| method | kills | runs compared |
|---|---|---|
{by_method}

## Damaged files

{mutations:,} times one file of a stopped or a finished run was truncated, had a bit flipped or bytes zeroed, or was
deleted; then each command was given. {damage_failures} times a command ended in a traceback, or silently in other
numbers.

| file | mutations |
|---|---|
{by_file}

| command | same numbers | told in one line | told, and the same numbers | nothing to do |
|---|---|---|---|---|
{by_action}

`report` reads each damaged run as the command does, with all of its logits; the page itself was made {reports} times.

## How it is done

- *Checkpoints* are written after a step, every 10 seconds unless that takes more than a twentieth of the time, at the
  end, and when a signal asks for it. They hold the model, what the method remembers, the optimizer, the scaler of
  half precision, what the epoch has gathered, and where it is; all randomness is a function of seed, epoch and step.
  Behind them stands a digest of all bytes.
- *Records* carry a checksum each: lines of epochs.jsonl, experiment.json, evaluation.json, finished.json,
  model.safetensors; logits have those of the zip format. Files of earlier versions have none, and are read as they
  are.
- *Losses* stay on the device and are looked at before a checkpoint is written and when an epoch ends: no step waits
  for a GPU. Only `--on-nan skip` reads each loss.
- *Not shown*: a power cut (only the order of writes is made for it), and file systems that lie about what is on the
  disk.
"""


def write_page(path: Path, kills: Any, mutations: Any, seconds: float) -> None:
    """Write it anew."""
    counted, total = kills.counts, sum_of(kills.counts, "kill -9")
    damaged, failures = sum_of(mutations.counts, "mutations"), len(kills.failures) + len(mutations.failures)
    names = sorted({name for _, name in counted})
    ends = ("same numbers", "told", "told, and the same numbers", "nothing to do")
    actions = ("train", "evaluate", "show", "report", "load")
    files = sorted(item for item in mutations.counts.items() if item[0][0] == "mutations")
    by_action = [row(name, *(mutations.counts[name, end] for end in ends)) for name in actions]
    text = TEXT.format(
        faults=total + damaged,
        survived=total + damaged - failures,
        minutes=seconds / 60,
        promises="\n".join(row(*item) for item in PROMISES.items()),
        kills=total,
        methods=len(names),
        runs=sum_of(counted, "runs compared"),
        kill_failures=len(kills.failures) or "none",
        by_method="\n".join(row(name, counted["kill -9", name], counted["runs compared", name]) for name in names),
        mutations=damaged,
        damage_failures=len(mutations.failures) or "No",
        by_file="\n".join(row(name, count) for (_, name), count in files),
        by_action="\n".join(by_action),
        reports=sum_of(mutations.counts, "whole report"),
    )
    path.write_text(text)


def row(*cells: object) -> str:
    """A row of a table.

    >>> row("ce", 3)
    '| ce | 3 |'
    """
    return f"| {' | '.join(map(str, cells))} |"


def sum_of(counts: Counter[tuple[str, str]], what: str) -> int:
    """Of all that were counted under a name."""
    return sum(count for (name, _), count in counts.items() if name == what)
