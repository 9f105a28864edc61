"""Write docs/reliability.md: each promise, the test that shows it, and the faults survived."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

PROMISES = {
    "A run that is killed (kill -9) at any moment continues with the same command, in the middle "
    "of an epoch, and ends "
    "with logits, records and evaluation bitwise equal to those of a run that was left alone; no "
    "line of epochs.jsonl "
    "is lost, doubled or torn, no half-written file "
    "stays.": "`make chaos`; 30 kills in `tests/test_chaos.py`",
    "SIGINT, SIGTERM and SIGHUP save within the step and end the run; a second one does not "
    "wait.": ("`tests/test_engine_robust.py`, `test_ctrl_c_*`, `test_a_second_ctrl_c_*`"),
    "A checkpoint is written, made safe on the disk and renamed, and so is its folder; the one "
    "before it is kept. A "
    "damaged one is reported, and the one before it "
    "used.": "`tests/test_engine_damage.py`, `test_a_flipped_bit_*`",
    "No file can execute code; a checkpoint of another run, and every file of another format than "
    "1.0 (those of version 0.x too), is refused with the reason.": (
        "`tests/test_engine_damage.py`, `CRAFTED`, `test_a_checkpoint_runs_no_code`; "
        "`tests/test_earlier_versions.py`"
    ),
    "A truncated, flipped, zeroed or deleted file of a run is recovered from or reported in one "
    "line by `train`, "
    "`evaluate`, `show`, `report` and `load`: never a traceback, never silently other "
    "numbers.": "`make chaos`",
    "Every file of a run says whose it is: one of another run, epoch or split, one whose checksum "
    "was taken out, and shares outside of 0 to 1 are refused by name, by `show`, `evaluate`, "
    "`report`, `tune`, `load`, `predict`, `export` and when a run continues.": (
        "`tests/test_swapped_files.py`, 27 swaps and edits; `tests/test_engine_damage.py`, "
        "`CRAFTED`"
    ),
    "One process trains a run. The lock names host and process: that of a dead process is taken "
    "over, on another "
    "machine once it has been silent for 15 seconds; a process that is only suspended keeps "
    "it.": "`tests/test_engine_robust.py`, `test_a_lock_of_a_dead_*`, `test_a_suspended_*`",
    "A worker that is killed loses nothing: its run is tried once more, and that is reported; "
    "when the parent is "
    "gone, no process trains on; SIGTERM and SIGHUP save every run of a study.": (
        "`tests/test_launch.py`, `test_a_run_whose_process_*`, `test_nothing_is_left_behind`"
    ),
    "A rank of `train --devices` that dies while it starts, or in a step, ends all with one line; "
    "Ctrl-C is heard while ranks start.": (
        "`make chaos`; `tests/test_ranks.py`, `test_a_rank_that_dies_*`, `test_ctrl_c_ends_*`"
    ),
    "Two studies on one folder wait for each other's runs.": (
        "`tests/test_launch.py`, `test_a_run_that_another_study_*`"
    ),
    "`predict`, `export`, `audit` and `tune` that are killed leave the old file or none, and the "
    "next call clears what is half-written.": (
        "`make chaos`; `tests/test_use.py`, `test_what_a_killed_command_*`"
    ),
    "A full disk, a read-only folder and vanished data are one line, and nothing that was saved "
    "is lost.": (
        "`tests/test_engine_robust.py`, `test_a_disk_that_fills_up_in_training`, "
        "`test_a_full_disk_*`"
    ),
    "A loss that is not finite stops a run with step, learning rate and samples, and the last "
    "good checkpoint stays "
    "(`--on-nan stop`), or the step is left out (`skip`); a study continues, and records the run "
    "as collapsed.": ("`tests/test_engine_finite.py`"),
    "A damaged journal of a search is named and set aside; a torn line of it is cut.": (
        "`tests/test_tune.py`, `test_a_damaged_journal_*`"
    ),
}

TEXT = """# What survives

This page is written by `make chaos`, which injects faults on purpose. Of {faults:,} faults \
{survived:,} were
survived; it took {minutes:.0f} minutes.

| promise | shown by |
|---|---|
{promises}

## Kill -9

{kills:,} times a process was killed while it trained one of the {methods} methods, with a \
checkpoint after every
step: half of them at a random moment, half of them just before a file was made safe on the \
disk or renamed.
{runs:,} runs were finished after that; {kill_failures} differed from a run that was left alone.

| method | kills | runs compared |
|---|---|---|
{by_method}

## Damaged files

{mutations:,} times one file of a stopped or a finished run was truncated, had a bit flipped or \
bytes zeroed, or was
deleted; then each command was run. In {damage_failures} cases a command ended in a traceback, or \
silently in other
numbers.

| file | mutations |
|---|---|
{by_file}

| command | same numbers | reported in one line | reported, and the same numbers | nothing to do |
|---|---|---|---|---|
{by_action}

`report` reads each damaged run as the command does, with all of its logits; the page itself was \
made {reports} times.

## Commands, ranks, workers and disks

{others:,} faults beside those of one run; {others_survived:,} were survived. A swap replaces a \
file of a run
by that of another seed, which a command must refuse, or have no use for. Commands are killed at \
random moments,
and their next call must write whole files and leave no other. Ranks and workers of Ray are killed \
by kill -9.

| fault | times |
|---|---|
{by_fault}
{left_out}
## How it works

- *Checkpoints* are written after a step: every 10 seconds (less often if writing would take \
more than a
  twentieth of the time), at the end, and after a signal. They hold the model, the state of the \
method, the
  optimizer, the gradient scaler of half precision, the sums of the epoch so far, and the \
position in it. All
  randomness is a function of seed, epoch and step. Each part has the checksum of the zip format.
- *Records* have a format, the name of their run and a checksum each: the lines of epochs.jsonl, \
experiment.json,
  data.json, evaluation.json, finished.json and model.safetensors. Logits have the checksums of \
the zip format, and
  the run, epoch and split that they are of. A run's name ends in a hash of its experiment. \
experiment.json says
  which run a folder is; the name of the folder may change.
- *Losses* stay on the device. They are checked before a checkpoint is written and when an epoch \
ends, so no step
  waits for a GPU. Only `--on-nan skip` reads each loss.
- *Not tested*: a power cut (only the order of writes takes it into account), and file systems \
that report data as
  written when they are not.
"""


def write_page(path: Path, kills: Any, mutations: Any, others: Any, seconds: float) -> None:
    """Write the whole page again."""
    counted, total = kills.counts, sum_of(kills.counts, "kill -9")
    damaged = sum_of(mutations.counts, "mutations")
    failures = len(kills.failures) + len(mutations.failures) + len(others.failures)
    beside = sum_of(others.counts, "fault") + len(others.failures)
    names = sorted({name for _, name in counted})
    ends = ("same numbers", "told", "told, and the same numbers", "nothing to do")
    actions = ("train", "evaluate", "show", "report", "load")
    files = sorted(item for item in mutations.counts.items() if item[0][0] == "mutations")
    by_fault = [
        (name, count) for (kind, name), count in sorted(others.counts.items()) if kind == "fault"
    ]
    left_out = sorted(name.replace("_", " ") for kind, name in others.counts if kind == "left out")
    by_action = [row(name, *(mutations.counts[name, end] for end in ends)) for name in actions]
    text = TEXT.format(
        faults=total + damaged + beside,
        survived=total + damaged + beside - failures,
        others=beside,
        others_survived=beside - len(others.failures),
        by_fault="\n".join(row(*item) for item in by_fault),
        left_out=f"\nLeft out of this run: {', '.join(left_out)}.\n" if left_out else "",
        minutes=seconds / 60,
        promises="\n".join(row(*item) for item in PROMISES.items()),
        kills=total,
        methods=len(names),
        runs=sum_of(counted, "runs compared"),
        kill_failures=len(kills.failures) or "none",
        by_method="\n".join(
            row(name, counted["kill -9", name], counted["runs compared", name]) for name in names
        ),
        mutations=damaged,
        damage_failures=len(mutations.failures),
        by_file="\n".join(row(name, count) for (_, name), count in files),
        by_action="\n".join(by_action),
        reports=sum_of(mutations.counts, "whole report"),
    )
    path.write_text(text)


def row(*cells: object) -> str:
    """Return a row of a table.

    >>> row("ce", 3)
    '| ce | 3 |'
    """
    return f"| {' | '.join(map(str, cells))} |"


def sum_of(counts: Counter[tuple[str, str]], what: str) -> int:
    """Return the sum of all counts under a name."""
    return sum(count for (name, _), count in counts.items() if name == what)
