"""The numbers of an epoch, a line of epochs.jsonl, and the choice of the best epoch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from socrates.experiment import CHOICES
from socrates.files import is_number, not_numbers, with_nan
from socrates.records.evaluation import not_shares


@dataclass(frozen=True)
class EpochRecord:
    """The numbers of one epoch by name, and why the run counts as collapsed, if it does.

    >>> EpochRecord(1, {"train_loss": 0.5}).value("train_loss"), EpochRecord(1, {}).value("beta")
    (0.5, nan)
    """

    epoch: int
    values: Mapping[str, float]
    collapsed: str | None = None

    def value(self, name: str) -> float:
        """Return a number of the epoch, NaN if it was not recorded."""
        return self.values.get(name, math.nan)

    def to_json(self) -> dict[str, Any]:
        """Return one flat object without its checksum; NaN becomes null when it is written."""
        return {"epoch": self.epoch, **self.values, "collapsed": self.collapsed}

    @classmethod
    def from_json(cls, plain: Any) -> EpochRecord:
        """Return the record that `to_json` wrote; refuse anything else."""
        if not isinstance(plain, dict) or not is_number(plain.get("epoch")):
            raise ValueError(f"{plain!r} is not a record of an epoch")
        values = {key: value for key, value in plain.items() if key not in ("epoch", "collapsed")}
        if wrong := not_numbers(values.items()):
            raise ValueError(f"{wrong} of epoch {plain['epoch']} must be numbers")
        metrics = (
            (name.removeprefix("train_").removeprefix("val_"), values[name]) for name in values
        )
        if wrong := not_shares(metrics):
            raise ValueError(f"shares of epoch {plain['epoch']} must be between 0 and 1: {wrong}")
        return cls(plain["epoch"], with_nan(values), plain.get("collapsed"))


def best_epoch(records: Sequence[EpochRecord], rule: str) -> int:
    """Return the epoch that a rule of `CHOICES` picks: the first with the best value.

    Collapsed epochs do not count; if there is no other, it is the last.

    >>> best_epoch([EpochRecord(1, {"val_nll": 0.4}), EpochRecord(2, {"val_nll": 0.3})], "nll")
    2
    """
    name, sign = CHOICES[rule]
    if rule == "last":
        return records[-1].epoch
    usable = [
        record for record in records if not record.collapsed and math.isfinite(record.value(name))
    ]
    if not usable:
        return records[-1].epoch
    return min(usable, key=lambda record: sign * record.value(name)).epoch
