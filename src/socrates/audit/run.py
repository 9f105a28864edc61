"""A whole audit: files in, judgements, comparison and one JSON object out."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from socrates.files import to_json

from .answer import answer
from .judge import Judgement, judge
from .measure import measure
from .pairs import Difference, compare
from .read import READERS, open_predictions
from .reader import suffix_of

MANY_ROWS = 20_000_000


@dataclass(frozen=True)
class Audit:
    """The judgements of some files, how they differ on the same rows, and why they could not be compared."""

    files: Sequence[Judgement]
    differences: Sequence[Difference]
    not_compared: str

    def to_json(self) -> dict[str, Any]:
        """The judgement of a single file; of several, by their labels beside how they differ.

        Numbers that do not exist are null.
        """
        found = [file_json(one) for one in self.files]
        if len(found) == 1:
            return json.loads(to_json(found[0]))
        several = {
            "files": {one["label"]: one for one in found},
            "differences": [{**asdict(one), "verdict": one.words} for one in self.differences],
            "not_compared": self.not_compared or None,
        }
        return json.loads(to_json(several))


def audit(
    paths: Sequence[Path | str],
    *,
    risk: float = 0.05,
    delta: float = 0.1,
    workers: int | None = None,
    tell: Callable[[str], None] = lambda words: None,
    reading: Mapping[str, Any] | None = None,
    measuring: Mapping[str, Any] | None = None,
) -> Audit:
    """Judge predictions on disk: one file, or several that are compared row by row.

    `reading` goes to `open_predictions`, `measuring` to `measure`; `tell` hears which file is read and how far.
    `workers` are the processes that read the parts of a file, as many as there are cores for a large one; the engine
    ray has them read on the machines of a cluster: see `measure`, where `engine` and `address` go.
    """
    for name, share in {"risk": risk, "delta": delta}.items():
        if not 0 < share < 1:
            raise ValueError(f"{name}={share:g}, expected a share between 0 and 1, such as 0.05")
    files: list[Judgement] = []
    for label, path in zip(labels_of(paths), paths, strict=True):
        source = open_predictions(path, **(reading or {}))
        # Processes take seconds to start: a small file is read before they would have.
        many = (source.num_rows or 0) > MANY_ROWS and (measuring or {}).get("engine") != "ray"
        measured = measure(
            source,
            workers=os.cpu_count() if workers is None and many else workers,
            tell=lambda rows, label=label: tell(f"{label}: {rows:,} rows"),
            **(measuring or {}),
        )
        tell(f"{label}: judging")
        files.append(judge(measured, label, risk=risk, delta=delta))
    tell("comparing")
    return Audit(files, *compare(files))


def labels_of(paths: Sequence[Path | str]) -> list[str]:
    """A short name for each file that no other has: its own, or the folders that tell it from the others.

    >>> labels_of(["a/v1.2.csv.gz", "b/vit.npz"]), labels_of(["runs/ce/p/test.npz", "runs/sat/p/test.npz"])
    (['v1.2', 'vit'], ['ce', 'sat'])
    """
    whole = [Path(os.path.abspath(Path(path).expanduser())) for path in paths]
    split = [[*path.parent.parts, _stem(path)] for path in whole]
    stems = [parts[-1] for parts in split]
    if len({*stems}) == len(stems):
        return stems
    differing = [place for place, names in enumerate(zip(*split, strict=False)) if len({*names}) > 1]
    labels = ["/".join(parts[place] for place in differing) for parts in split]
    numbered = [f"{stem} ({place})" for place, stem in enumerate(stems, start=1)]
    return labels if len({*labels}) == len(labels) else numbered


def _stem(path: Path) -> str:
    """The name without what tells the format."""
    suffix = suffix_of(path)
    return path.name[: path.name.lower().rindex(suffix)] if suffix in READERS else path.name


def file_json(one: Judgement) -> dict[str, Any]:
    """A judgement in the words of JSON."""
    values: dict[str, Any] = {}
    for name, value in one.values.items():
        interval = one.intervals.get(name)
        values[name] = {"value": value, **({"low": interval.low, "high": interval.high} if interval else {})}
    values["ece"]["floor"] = one.floor
    measured, made = one.measured, one.recalibrated
    return {
        "label": one.label,
        "answer": list(answer(one)),
        "metrics": values,
        "calibration_test": {"p_value": one.test.p_value, "statistic": one.test.statistic, "floor": one.test.floor},
        "direction": {"over": one.direction.over, "under": one.direction.under, "signed": one.direction.signed},
        "corp": {name: getattr(one.corp, name) for name in ("score", "mcb", "dsc", "unc")},
        "decomposition": {name: asdict(parts) for name, parts in made.parts.items()},
        "scalers": made.numbers,
        "scaler_to_use": made.winner,
        "certificate": None if one.certificate is None else asdict(one.certificate),
        "uncertified": one.uncertified or None,
        "worst_classes": [asdict(gap) for gap in one.worst],
        "groups": {name: [asdict(gap) for gap in gaps] for name, gaps in one.groups.items()},
        "rows": {
            "read": measured.num_read,
            "left_out": measured.bad.count,
            "why": measured.bad.words if measured.bad.count else None,
            "judged": len(one.sample),
        },
        "understood": measured.layout.words,
        "notes": measured.notes,
    }
