"""The options of `socrates audit`; the comment of a field is its help."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from .options import (
    UNSET,
    OptionalFloat,
    OptionalInt,
    OptionalPath,
    OptionalText,
    ReadingChoice,
    Switch,
    Text,
    Texts,
    positional,
)


@dataclass(kw_only=True)
class AuditOptions:
    """Judge predictions on disk: can their confidence be trusted, and what would improve it?

    The predictions may come from any framework. Files are Parquet, CSV, JSON, JSON lines, Feather,
    Excel, NPZ or NPY (or a folder of parts), with a label and either probabilities or logits of
    each class, or confidence and correctness. Several files are compared row by row. The page shows
    how each file was read; use the options to correct that. The exit status is 1
    if a limit of --fail-above or --fail-if-miscalibrated is exceeded.

    Example: socrates audit predictions.csv --label-column diagnosis --columns healthy ill
    """

    # Files of predictions. The label column is named label or true_label, and the columns of
    # probabilities p0, p1, ... or after the classes; docs/audit.md lists all names.
    files: Annotated[tuple[Path, ...], tyro.conf.Positional, positional("FILE ...")]
    labels: OptionalPath = None  # Labels in a separate file: NPY, TXT or a CSV of one column.
    # Folder of the page. Without it: a folder below audit, or none with --json.
    out: OptionalPath = None
    group: Texts = ()  # Columns that divide the rows into groups. Each group is judged, too.
    # What the values are. Without it: detected from the file.
    kind: Annotated[Literal["probabilities", "logits", "confidence"] | None, UNSET] = None
    # Column of the true class. Without it: detected from the file.
    label_column: OptionalText = None
    # Columns of the classes, in order. Without it: detected from the file.
    columns: Texts = ()
    # Names of the classes, in the order of their columns. Without it: detected from the file.
    classes: Texts = ()
    weight: OptionalText = None  # Column with the weights of the rows.
    # Whether the last column is the unknown class. Without it: detected from the file.
    unknown: Annotated[Literal["yes", "no"] | None, UNSET] = None
    # What happens to the probability of the unknown class: it counts as an answer (answer), is
    # left out (abstain), is left out and the others are rescaled (renormalize), or is shared
    # equally among the classes (spread).
    reading: ReadingChoice = "renormalize"
    risk: float = 0.05  # Share of wrong answers that a certified threshold allows.
    delta: float = 0.1  # Probability that the certificate does not hold.
    num_bins: int = 15  # Bins of the calibration errors.
    # Largest number of rows to keep in memory, for intervals, tests and scalers.
    sample: int = 200_000
    seed: int = 0  # Seed for the choice of these rows.
    # Number of processes that read parts of a file. Without it: one per core for large files.
    workers: OptionalInt = None
    # Where these processes run: on this machine, or on the machines of a Ray cluster.
    engine: Literal["local", "ray"] = "local"
    # Address of the Ray cluster, such as auto. Without it: a new cluster on this machine.
    address: OptionalText = None
    strict: Switch = False  # Stop with an error at the first bad row, instead of skipping bad rows.
    json: Switch = False  # Print one JSON object, and nothing else, on standard output.
    fail_above: Texts = ()  # Limits such as ece=0.05. The exit status is 1 if a file exceeds one.
    # Level such as 0.01. The exit status is 1 if the p-value of the calibration test is below it.
    fail_if_miscalibrated: OptionalFloat = None
    title: Text = "Socrates audit"  # Heading of the page.

    @property
    def as_read(self) -> dict[str, Any]:
        """Return how files are read, as keywords of `open_predictions`."""
        names = ("labels", "kind", "label_column", "columns", "classes", "weight")
        unknown = None if self.unknown is None else self.unknown == "yes"
        shared = {name: getattr(self, name) for name in names}
        return {"groups": self.group, "unknown": unknown, **shared}

    @property
    def as_measured(self) -> dict[str, Any]:
        """Return how files are measured, as keywords of `measure`."""
        names = ("sample", "seed", "num_bins", "strict", "reading", "engine", "address")
        return {name: getattr(self, name) for name in names}
