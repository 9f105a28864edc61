"""The commands: the options of each, and what carries it out, which is imported only when it is called for.

The comment of a field is its help.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from .options import ManyRuns, Named, RunFolder, Training, Where
from .output import in_lines

if TYPE_CHECKING:
    from socrates.experiment import Experiment


@dataclass
class Quickstart:
    """Compare four losses on digits, in a minute: a table, what it means, and a page to look at."""

    out: Path = Path("runs/quickstart")  # Where runs and the report go.


@dataclass(kw_only=True)
class Train(Named, Where):
    """Train one run into its own directory; the same command again continues it, and does nothing once it is finished.

    With DATASET, MODEL and METHOD before it, --help also shows their own options, such as --gamma of a method, --width
    of a model, --image-size and --augment of a data set.
    """

    device: str = "auto"  # A Lightning Fabric accelerator: auto, cpu, cuda, mps.
    devices: int = 1  # Processes on this machine that share every batch, one a device; torchrun may start them instead.
    num_nodes: int = 1  # Machines with as many devices each; NODE_RANK and MASTER_ADDR, or SLURM, tell them apart.
    seed: int = 1  # Decides initialisation, order, augmentation and dropout; never the split.
    again: bool = False  # Delete what is there of the run, and train it from the start.
    # What to do about a loss that is not finite: stop, keeping the last good state; skip the step; or go on, and record
    # the run as collapsed.
    on_nan: Literal["stop", "skip", "collapse"] = "stop"
    log: Literal["none", "tensorboard"] = "none"  # Also write curves for TensorBoard, into the run directory.
    minutes: float | None = None  # Train for about so long: how many epochs that are is tried first, and told.
    keep_weights: Literal["full", "half", "none"] = "full"  # Whether the finished run keeps its model.
    no_keep_weights: bool = False  # The same as --keep-weights none.
    # Hold half of the validation images back, to certify a threshold above which at most this share of the answers is
    # wrong, such as 0.05.
    certify: float | None = None
    # A finished run, or a model.safetensors: start from its weights, with a new head for the classes here.
    start: Annotated[Path | None, tyro.conf.arg(name="from", metavar="RUN")] = None
    freeze: bool = False  # Let only the head learn; --backbone-factor 0.1 lets the rest learn at a tenth of the rate.

    def named_experiment(self, seed: int) -> "Experiment":
        """The Experiment of what is named, with what only this command can ask for."""
        from socrates.predictor import model_file, read_file, weights_hash

        made = super().named_experiment(seed)
        start = weights_hash(read_file(model_file(self.start))[1]) if self.start else ""
        if self.freeze and self.backbone_factor:
            raise ValueError("--freeze lets all but the head learn at no rate: leave --backbone-factor out")
        how = replace(made.optimization, backbone_factor=0.0) if self.freeze else made.optimization
        return replace(made, certify=self.certify, start=start, optimization=how)


@dataclass
class Evaluate:
    """Compute every metric of a run from its saved logits: no data, no model."""

    run: RunFolder  # A run directory.
    epoch: int | None = None  # A kept epoch, instead of the chosen one.


@dataclass
class Show:
    """Show a run: what was asked for, how far it came, its results, and the command that repeats it."""

    run: RunFolder  # A run directory.


@dataclass(kw_only=True)
class Model:
    """A trained model, and how its outputs are read."""

    run: RunFolder  # A finished run, or a model.safetensors.
    # Of those that were fitted, or none: readout for models with an unknown class, else temperature, if not given.
    scaler: str | None = None
    reading: Literal["answer", "abstain", "renormalize", "spread"] | None = None  # Of the unknown class.
    trust_code: bool = False  # Import the code of a model that is not ours.


@dataclass(kw_only=True)
class Predict(Model):
    """Predict images: names, confidences, and which of them the model answers.

    Files that cannot be read are listed at the end; the others are done.
    """

    # Image files, folders with all below them, or patterns such as 'new/*.png'.
    images: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="IMAGES ...")]
    out: Path | None = None  # A .csv, .jsonl or .parquet file for all predictions; without it the first are shown.
    risk: float | None = None  # Answer only where at most this share of the answers is wrong, by a certificate.
    # Labelled images, a sub-folder for each class, that neither trained the model nor chose its epoch nor fitted its
    # scaler: they certify the risk.
    calibrate: Path | None = None
    delta: float = 0.1  # The probability, over the labelled images, that the certificate does not hold.
    batch_size: int = 256  # Images at once.
    device: str = "cpu"  # Where the model runs: cpu, cuda, mps.


@dataclass(kw_only=True)
class Export(Model):
    """Write a model as one file for other programs, with a card that tells what it is."""

    format: Literal["onnx", "torch"] = "onnx"  # An ONNX file, or a program of torch.export.
    out: Path | None = None  # The file; model.onnx or model.pt2 in the run's folder if not given.


@dataclass(kw_only=True)
class Audit:
    """Judge predictions on disk, whatever made them: can their confidence be trusted, and what would make it better?

    Files are Parquet (or a folder of parts), CSV, JSON lines, NPZ or NPY, with a label and either probabilities or
    logits of each class, or confidence and correctness; several files are compared row by row. The page says how each
    was understood, and options say it better. Exit status 1 where --fail-above or --fail-if-miscalibrated finds a
    reason.
    """

    # Predictions: the column of labels is called label or true_label, those of probabilities p0, p1, ... or as the
    # classes are; docs/audit.md lists all names.
    files: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="FILE ...")]
    labels: Path | None = None  # Labels in a file of their own: NPY, TXT or a CSV of one column.
    out: Path | None = None  # Where the page goes; a folder in audit if not given, and nowhere with --json.
    group: tuple[str, ...] = ()  # Columns whose values are looked at one by one.
    kind: Literal["probabilities", "logits", "confidence"] | None = None  # What the values are, if not as found.
    label_column: str | None = None  # The column of the true class, if not as found.
    columns: tuple[str, ...] = ()  # The columns of the classes in their order, if not as found.
    classes: tuple[str, ...] = ()  # The names of the classes in the order of their columns, if not as found.
    weight: str | None = None  # The column of the weights of the rows.
    # Whether the last column is belief in unknown, if not as found.
    unknown: Literal["yes", "no"] | None = None
    reading: Literal["answer", "abstain", "renormalize", "spread"] = "renormalize"  # Of that column.
    risk: float = 0.05  # The share of wrong answers that a certified threshold allows.
    delta: float = 0.1  # The probability that the certificate does not hold.
    num_bins: int = 15  # Bins of the calibration errors.
    sample: int = 200_000  # Rows, at most, for what cannot be done in one pass: intervals, tests, scalers.
    seed: int = 0  # Which rows those are.
    workers: int | None = None  # Processes that read the parts of a file; as many as there are cores for large ones.
    engine: Literal["local", "ray"] = "local"  # Where they are: on this machine, or on those of a Ray cluster.
    address: str | None = None  # Of the Ray cluster, such as auto; one of its own on this machine if not given.
    strict: bool = False  # Take the first bad row for an error, instead of leaving bad rows out.
    json: bool = False  # Print one JSON object, alone, on standard output.
    fail_above: tuple[str, ...] = ()  # Limits such as ece=0.05: exit status 1 if a file is above.
    fail_if_miscalibrated: float | None = None  # A level such as 0.01: exit status 1 if the test's p is below it.
    title: str = "Socrates audit"  # The heading of the page.

    @property
    def as_read(self) -> dict[str, Any]:
        """How files are read, in the words of `open_predictions`."""
        names = ("labels", "kind", "label_column", "columns", "classes", "weight")
        unknown = None if self.unknown is None else self.unknown == "yes"
        return {"groups": self.group, "unknown": unknown, **{name: getattr(self, name) for name in names}}

    @property
    def as_measured(self) -> dict[str, Any]:
        """How they are measured, in the words of `measure`."""
        names = ("sample", "seed", "num_bins", "strict", "reading", "engine", "address")
        return {name: getattr(self, name) for name in names}


@dataclass
class List:
    """Show the data sets, models and methods with their options and defaults."""


@dataclass(kw_only=True)
class Tune(Named, ManyRuns):
    """Search hyperparameters: train candidates with several seeds, and choose one on validation data.

    Without --grid and --trials the candidates are the paper's grid for that method. The choice is the point of the
    Pareto front of error and ECE that is nearest to the origin, as --rule measures it; ties go by class-wise ECE.
    Options given by their names (--gamma 2 --width 16 --batch-size 64) are fixed, not searched.
    The same command again continues a stopped study; finished runs are never repeated.
    """

    # Values to try, such as gamma=1,2,3 alpha=0.9,0.99 batch_size=64,128: options of the method or the model, or
    # batch_size, learning_rate, epochs.
    grid: tuple[str, ...] = ()
    # Let optuna propose so many candidates within the grid's range, instead of trying every combination.
    trials: int | None = None
    # What is near to the origin. l1: error + ECE. scaled: the straight distance, both axes scaled to the candidates'
    # range. ece: ECE alone. The same command with another rule chooses anew and trains nothing.
    rule: Literal["l1", "scaled", "ece"] = "l1"
    seeds: str = "1-5"  # Such as 1-5, or 1,3,7, or 4.
    keep_every: int = 0  # Keep logits at these epochs too; only those of the last epoch if 0.
    dry_run: bool = False  # Only list the candidates, and about how long they take here.


@dataclass(kw_only=True)
class Sweep(Training, ManyRuns):
    """Train any list of experiments on all cores, and show their results.

    Either FILE.py, which defines `experiments`, a list of socrates.experiment.Experiment or a function that returns
    one; or every combination of --datasets, --models, --methods and --seeds. A method or model may carry options
    after a colon, NAME:OPTION=VALUE,OPTION=VALUE, for example: --methods ce focal:gamma=2 socrates:gamma=1,alpha=0.99
    socrates:no-beta socrates:no-beta:gamma=2 --models mlp:width=64. The same command again continues.
    """

    # A Python file that defines `experiments`.
    file: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FILE.py")] = ""
    datasets: tuple[str, ...] = ("digits",)  # Names of data sets, or folder:PATH, or npz:PATH.
    models: tuple[str, ...] = ("mlp",)  # Architectures, with options after a colon.
    methods: tuple[str, ...] = ()  # Methods, with options after a colon.
    seeds: str = "1-5"  # Such as 1-5, or 1,3,7, or 4.
    dry_run: bool = False  # Only list the runs, and about how long they take here.


@dataclass
class Report:
    """Compare runs: one page to look at, tables for Markdown, LaTeX and spreadsheets, figures as PDF and PNG.

    Reads run directories only; unfinished and damaged ones are listed and left out.
    """

    # Run directories, or folders that hold them at any depth.
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUNS ...")] = (Path("runs"),)
    out: Path = Path("report")  # Where the report goes.
    title: str = "Socrates report"  # The heading of the page.
    # How wide figures are printed: a column (3.25 inches), a text (5.5), or a full page (7.2).
    width: Literal["column", "text", "full"] = "full"


@dataclass(kw_only=True)
class Reproduce(ManyRuns):
    """Make tables and figures of the paper: train the runs that are missing, then write them.

    Names: test, posthoc, hyperparameters, gamma, alpha, beta, ablation-vgg16, ablation-resnet110, validation (the nine
    tables); evolution, losses, pareto, transfer, reliability, evolution-grid, pareto-gamma-alpha, sat-unknown,
    pareto-beta, pareto-ablation, unknown, test-pareto, posthoc-pareto, transfer-test-pareto (the figures); weight-norm
    (a claim of section 3.3.1); or a number such as table1 or figure3; or tables, figures, all. The same command again
    continues.
    """

    # Tables and figures of the paper.
    names: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="NAME ...")]
    setting: tuple[str, ...] = ()  # Settings such as cifar100-vgg16, instead of those the paper shows there.
    # paper: its data, models and epochs. laptop: its methods, seeds and hyperparameter rules on little data with small
    # models and few epochs, which is said on every output.
    scale: Literal["paper", "laptop"] = "laptop"
    dataset: str = "digits"  # What the laptop scale is trained on: digits, or 2,000 images of another data set.
    seeds: str = ""  # Such as 1-3, instead of the paper's.
    # By which the tables name the best on the Pareto front. l1: error + ECE. scaled: the straight distance to the
    # origin, both axes scaled to the candidates' range. ece: ECE alone.
    rule: Literal["l1", "scaled", "ece"] = "l1"
    # Train as the authors' code did where that decides printed numbers, instead of as the paper's text says.
    as_released: bool = False
    # Only tell the runs, about how long they take here, and their disk: of one table or figure in detail.
    dry_run: bool = False
    # How wide figures are printed: a column (3.25 inches), a text (5.5), or a full page (7.2).
    width: Literal["column", "text", "full"] = "full"
    out: Path = Path("runs/reproduce")  # Where runs, tables and figures go, in a folder named after the scale.


def command(kind: type, module: str, name: str) -> tuple[type, Callable[[Any], None]]:
    """The options of a command, and the function of a module here that carries it out."""
    return kind, lambda options: getattr(import_module(f".{module}", __package__), name)(options)


COMMANDS: dict[str, tuple[type, Callable[[Any], None]]] = {
    "quickstart": command(Quickstart, "report", "run_quickstart"),
    "train": command(Train, "runs", "run_train"),
    "predict": command(Predict, "use", "run_predict"),
    "export": command(Export, "use", "run_export"),
    "audit": command(Audit, "audit", "run_audit"),
    "evaluate": command(Evaluate, "runs", "run_evaluate"),
    "show": command(Show, "runs", "run_show"),
    "list": command(List, "runs", "run_list"),
    "tune": command(Tune, "studies", "run_tune"),
    "sweep": command(Sweep, "studies", "run_sweep"),
    "report": command(Report, "report", "run_report"),
    "reproduce": command(Reproduce, "report", "run_reproduce"),
}


def overview() -> str:
    """Each command with the first line of what it says of itself."""
    firsts = {name: (inspect.getdoc(kind) or "").splitlines()[0] for name, (kind, _) in COMMANDS.items()}
    lines = [in_lines(f"  {name:12s}{first}", indent=14 * " ") for name, first in firsts.items()]
    return "\n".join(["usage: socrates COMMAND ...", "", *lines, "", "socrates COMMAND --help tells more."])
