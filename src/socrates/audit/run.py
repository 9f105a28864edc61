"""A whole audit: files in, judgements, comparison and one JSON object out."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from socrates.files import to_json

from .answer import AuditAnswer, answer_of, lean, trust
from .choose import FileChoice, answer_of_several, choose_file
from .compare import FileDifference, compare_files, contender_of, why_not_compared
from .judge import Judgement, judge
from .measure import measure
from .predictions import open_predictions
from .read import READERS, suffix_of

MANY_ROWS = 20_000_000


@dataclass(frozen=True)
class AuditResult:
    """The judgements of some files, and how they differ on the same rows or why not.

    `choice` is which of several files to use; None for one file, or if they cannot be compared.
    """

    files: Sequence[Judgement]
    differences: Sequence[FileDifference] = ()
    not_compared: str = ""
    choice: FileChoice | None = None

    @property
    def answer(self) -> AuditAnswer:
        """Return what is said first: about the only file, or which of several to use."""
        if len(self.files) == 1:
            return answer_of(self.files[0])
        if self.choice is None:
            return AuditAnswer("These files cannot be compared.", (f"{self.not_compared}.",))
        return answer_of_several(self.choice, self.files, self.differences)

    def to_json(self) -> dict[str, Any]:
        """Return the judgement of a single file, or those of several by label and how they differ.

        Numbers that do not exist are null.
        """
        files = {judged.label: file_json(judged) for judged in self.files}
        if len(files) == 1:
            (content,) = files.values()
            return json.loads(to_json(content))
        content = {
            "answer": self.answer.lines,
            "use": None if self.choice is None else self.choice.use,
            "files": files,
            "differences": [
                {**asdict(difference), "verdict": difference.words}
                for difference in self.differences
            ],
            "not_compared": self.not_compared or None,
        }
        return json.loads(to_json(content))


def audit(
    paths: Sequence[Path | str],
    *,
    risk: float = 0.05,
    delta: float = 0.1,
    workers: int | None = None,
    tell: Callable[[str], None] = lambda words: None,
    reading: Mapping[str, Any] | None = None,
    measuring: Mapping[str, Any] | None = None,
) -> AuditResult:
    """Judge predictions on disk: one file, or several that are compared row by row.

    Args:
        paths: the files.
        risk: the share of wrong answers that is certified.
        delta: the probability that the certificate is wrong.
        workers: the number of processes that read the parts of a file; for a large file as many
            as there are cores by default. With the engine ray, machines of a cluster read them.
        tell: called with the file that is read and how far.
        reading: keywords of `open_predictions`.
        measuring: keywords of `measure`, such as `engine` and `address`.
    """
    for name, share in {"risk": risk, "delta": delta}.items():
        if not 0 < share < 1:
            raise ValueError(f"{name}={share:g}, expected a share between 0 and 1, such as 0.05")
    measuring = measuring or {}
    files: list[Judgement] = []
    for label, path in zip(labels_of(paths), paths, strict=True):
        file = open_predictions(path, **(reading or {}))
        # Processes take seconds to start, in which a small file is read.
        is_large = (file.num_rows or 0) > MANY_ROWS and measuring.get("engine") != "ray"
        measured = measure(
            file,
            workers=os.cpu_count() if workers is None and is_large else workers,
            tell=lambda rows, label=label: tell(f"{label}: {rows:,} rows"),
            **measuring,
        )
        tell(f"{label}: judging")
        files.append(judge(measured, label, risk=risk, delta=delta))
    if len(files) == 1:
        return AuditResult(files)
    tell("comparing")
    contenders = [contender_of(judged) for judged in files]
    if reason := why_not_compared(contenders):
        return AuditResult(files, not_compared=reason)
    return AuditResult(files, compare_files(contenders), "", choose_file(contenders))


def labels_of(paths: Sequence[Path | str]) -> list[str]:
    """Return a short unique name for each file: its own, or the folders in which they differ.

    >>> labels_of(["a/v1.2.csv.gz", "b/vit.npz"])
    ['v1.2', 'vit']
    >>> labels_of(["runs/ce/p/test.npz", "runs/sat/p/test.npz"])
    ['ce', 'sat']
    """
    names: list[list[str]] = []
    for path in paths:
        absolute = Path(os.path.abspath(Path(path).expanduser()))
        names.append([*absolute.parent.parts, _stem(absolute)])
    stems = [parts[-1] for parts in names]
    if len({*stems}) == len(stems):
        return stems
    columns = zip(*names, strict=False)
    differing = [place for place, column in enumerate(columns) if len({*column}) > 1]
    labels = ["/".join(parts[place] for place in differing) for parts in names]
    if len({*labels}) == len(labels):
        return labels
    return [f"{stem} ({place})" for place, stem in enumerate(stems, start=1)]


def _stem(path: Path) -> str:
    """Return the name of a file without the part that says its format."""
    suffix = suffix_of(path)
    return path.name[: path.name.lower().rindex(suffix)] if suffix in READERS else path.name


def file_json(judged: Judgement) -> dict[str, Any]:
    """Return a judgement as plain JSON."""
    measured = judged.measured
    recalibrated = judged.recalibrated
    corp = judged.corp
    return {
        "label": judged.label,
        "answer": answer_of(judged).lines,
        "trust": trust(judged),
        "lean": None if judged.passes else lean(judged),
        "metrics": _metrics_json(judged),
        "calibration_test": {
            "p_value": judged.test.p_value,
            "statistic": judged.test.statistic,
            "floor": judged.test.floor,
        },
        "direction": {
            "over": judged.direction.over,
            "under": judged.direction.under,
            "signed": judged.direction.signed,
        },
        "corp": {"score": corp.score, "mcb": corp.mcb, "dsc": corp.dsc, "unc": corp.unc},
        "decomposition": {name: asdict(parts) for name, parts in recalibrated.parts.items()},
        "scalers": recalibrated.numbers,
        "scaler_to_use": recalibrated.winner,
        "certificate": None if judged.certificate is None else judged.certificate.to_json(),
        "uncertified": judged.uncertified or None,
        "worst_classes": [asdict(gap) for gap in judged.worst],
        "groups": {name: [asdict(gap) for gap in gaps] for name, gaps in judged.groups.items()},
        "strangers": {"rows": measured.strangers.count, **judged.strangers},
        "rows": {
            "read": measured.num_read,
            "left_out": measured.bad.count,
            "why": measured.bad.words if measured.bad.count else None,
            "judged": len(judged.sample),
        },
        "understood": measured.layout.words,
        "notes": measured.notes,
    }


def _metrics_json(judged: Judgement) -> dict[str, dict[str, float]]:
    """Return each metric with its value, the ends of its interval, and the ECE's floor."""
    values = {name: {"value": value} for name, value in judged.values.items()}
    for name, interval in judged.intervals.items():
        values[name] |= {"low": interval.low, "high": interval.high}
    values["ece"] |= {"floor": judged.floor, "floor_95": judged.floor_95}
    return values
