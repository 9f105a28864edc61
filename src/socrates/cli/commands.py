"""The commands: the options of each, and the function that carries it out, imported when called.

The comment of a field is its help.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from .options import (
    UNSET,
    ManyRuns,
    Named,
    NoveltyChoice,
    OptionalFloat,
    OptionalInt,
    OptionalPath,
    OptionalText,
    PlaceOptions,
    ReadingChoice,
    RunFolder,
    Switch,
    Text,
    Texts,
    TrainingOptions,
)

if TYPE_CHECKING:
    from socrates.experiment import Experiment

WidthChoice = Literal["column", "text", "full"]
RuleChoice = Literal["l1", "scaled", "ece"]


def positional(metavar: str, hint: str = "(required)") -> Any:
    """Return what tyro needs to know of an argument that takes several words."""
    return tyro.conf.arg(metavar=metavar, help_behavior_hint=hint)


@dataclass
class Quickstart:
    """Compare four losses on digits in about a minute: a table, its meaning and a page.

    It trains 20 small runs and needs neither a GPU nor a download.

    Example: socrates quickstart
    """

    out: Path = Path("runs/quickstart")  # Folder of the runs and the report.


@dataclass(kw_only=True)
class Train(Named, PlaceOptions):
    """Train one run into its own directory.

    The same command continues a run that was stopped, and does nothing once it is finished.
    `socrates train DATASET MODEL METHOD --help` also shows the options of these three, such as
    --gamma of a method, --width of a model, --image-size and --augment of a data set.

    Example: socrates train digits mlp socrates --gamma 1 --seed 2
    """

    device: Text = "auto"  # Lightning Fabric accelerator: auto, cpu, cuda or mps.
    # Number of processes on this machine that share every batch, one per device. torchrun may
    # start them instead.
    devices: int = 1
    # Number of machines, each with this many devices. NODE_RANK and MASTER_ADDR, or SLURM,
    # identify this machine.
    num_nodes: int = 1
    seed: int = 1  # Seed of initialization, order, augmentation and dropout, but not of the split.
    again: Switch = False  # Delete an earlier run of this experiment and train from the start.
    # If the loss is not finite: stop and keep the last good state, skip the step, or continue and
    # record the run as collapsed.
    on_nan: Literal["stop", "skip", "collapse"] = "stop"
    # Also write curves for TensorBoard into the run directory.
    log: Literal["none", "tensorboard"] = "none"
    # Train for about this long; the number of epochs is estimated first.
    minutes: OptionalFloat = None
    # Precision in which the finished run keeps its model, or none to keep no model.
    keep_weights: Literal["full", "half", "none"] = "full"
    no_keep_weights: Switch = False  # The same as --keep-weights none.
    # How the model tells what is unlike its training images. Scores with knn keep features of
    # training images in the model, energy keeps none, and none switches it off.
    novelty: NoveltyChoice = "mahalanobis+knn+energy"
    # Certify a threshold above which at most this share of the answers is wrong, such as 0.05.
    # Half of the validation images are held back for this.
    certify: OptionalFloat = None
    # Start from the weights of this finished run or model.safetensors, with a new last layer.
    from_run: Annotated[
        Path | None, tyro.conf.arg(name="from", metavar="RUN", help_behavior_hint="")
    ] = None
    # Leave out image files of folder:PATH that cannot be read, instead of refusing the folder.
    skip_broken: Switch = False
    # Train the last layer only. (--backbone-factor 0.1 trains the rest at a tenth of the rate.)
    freeze: Switch = False

    def named_experiment(self, seed: int) -> "Experiment":
        """Return the Experiment, with what only this command can set."""
        from socrates.predictor import model_file, read_file, weights_hash

        experiment = super().named_experiment(seed)
        start = weights_hash(read_file(model_file(self.from_run))[1]) if self.from_run else ""
        optimization = experiment.optimization
        if self.freeze:
            if self.backbone_factor:
                raise ValueError("--freeze trains the last layer only: leave --backbone-factor out")
            optimization = replace(optimization, backbone_factor=0.0)
        return replace(experiment, certify=self.certify, start=start, optimization=optimization)


@dataclass
class Evaluate:
    """Compute every metric of a run from its saved logits, without data or model.

    Example: socrates evaluate runs/NAME
    """

    run: RunFolder  # Run directory.
    # Epoch to evaluate, instead of the chosen one. Its logits must have been kept.
    epoch: OptionalInt = None


@dataclass
class Show:
    """Show the settings, progress and results of a run, and the command that repeats it.

    Example: socrates show runs/NAME
    """

    run: RunFolder  # Run directory.


@dataclass(kw_only=True)
class ModelOptions:
    """A trained model, and how its outputs are read."""

    run: RunFolder  # Directory of a finished run, or a model.safetensors file.
    # One of the fitted scalers, or none. Without it: the one that training kept, which is none
    # unless readout (with an unknown class) or temperature helped on the validation data.
    scaler: OptionalText = None
    # What happens to the probability of the unknown class: it counts as an answer (answer), is
    # left out (abstain), is left out and the others are rescaled (renormalize), or is shared
    # equally among the classes (spread). Without it: as when the model was saved.
    reading: Annotated[ReadingChoice | None, UNSET] = None
    trust_code: Switch = False  # Import the code of a model that is not part of this package.


@dataclass(kw_only=True)
class Predict(ModelOptions):
    """Classify images: show the class, the confidence, and whether the model answers or abstains.

    Files that cannot be read are listed at the end, and have a row with an error; all others are
    predicted. The exit status is then 3.

    Example: socrates predict runs/NAME photos --out predictions.csv
    """

    # Image files, folders, or patterns such as 'new/*.png'.
    images: Annotated[tuple[str, ...], tyro.conf.Positional, positional("IMAGES ...")]
    # Write all predictions to this .csv, .jsonl or .parquet file. Without it: show the first ones.
    out: OptionalPath = None
    # Answer only where a certificate guarantees that at most this share of the answers is wrong.
    risk: OptionalFloat = None
    # Labeled images for the certificate, in one sub-folder per class. They must be new to the
    # model: not used to train it, to choose its epoch or to fit its scaler.
    calibrate: OptionalPath = None
    # Probability, over the labeled images, that the certificate does not hold.
    delta: float = 0.1
    # Decline images that look stranger than this share of the known validation images; 1 declines
    # none. Without it: the limit of the model, usually 0.95.
    strange: OptionalFloat = None
    batch_size: int = 256  # Number of images at a time.
    device: Text = "cpu"  # Where the model runs: cpu, cuda or mps.


@dataclass(kw_only=True)
class Export(ModelOptions):
    """Write a model as one file for other programs, with a model card that describes it.

    Example: socrates export runs/NAME --out classifier.onnx
    """

    format: Literal["onnx", "torch"] = "onnx"  # An ONNX file, or a program of torch.export.
    # File to write. Without it: model.onnx or model.pt2 in the folder of the model.
    out: OptionalPath = None


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


@dataclass
class List:
    """List the data sets, models and methods, with their options and defaults."""


@dataclass(kw_only=True)
class Tune(Named, ManyRuns):
    """Search hyperparameters: train candidates with several seeds, choose one on validation data.

    Without --grid and --trials, the candidates are the paper's grid for the method. The choice is
    the point of the Pareto front of error and ECE that is nearest to the origin, measured by
    --rule; class-wise ECE breaks ties. Options that are set by name (--gamma 2 --width 16
    --batch-size 64) are fixed, not searched. The same command continues a study that was stopped;
    finished runs are never repeated.

    Example: socrates tune digits mlp socrates --grid gamma=1,2 alpha=0.9,0.99 --seeds 1-3
    """

    # Values to try, such as gamma=1,2,3 alpha=0.9,0.99 batch_size=64,128. They are options of the
    # method or the model, or batch_size, learning_rate and epochs.
    grid: Texts = ()
    # Let optuna propose this many candidates within the grid's range, instead of trying every
    # combination.
    trials: OptionalInt = None
    # Distance to the origin. l1: error + ECE. scaled: Euclidean distance, both axes scaled to the
    # candidates' range. ece: ECE alone. The same command with another rule chooses again, and
    # trains nothing.
    rule: RuleChoice = "l1"
    seeds: Text = "1-5"  # Seeds such as 1-5, or 1,3,7, or 4.
    # Also keep the logits of every epoch that is a multiple of this; 0 keeps the last epoch's only.
    keep_every: int = 0
    dry_run: Switch = False  # Only list the candidates, and estimate their time.


@dataclass(kw_only=True)
class Sweep(TrainingOptions, ManyRuns):
    """Train any list of experiments on all cores, and show their results.

    Combine --datasets, --models, --methods and --seeds. Options of a data set, model or method
    follow a colon, NAME:OPTION=VALUE,OPTION=VALUE; some names have a colon, too, as in
    socrates:no-beta:gamma=2 and folder:photos:image_size=32. Or pass FILE.py, which defines
    `experiments`: a list of socrates.experiment.Experiment, or a function that returns one. The
    same command continues a study that was stopped.

    Example: socrates sweep --models mlp:width=64 --methods ce focal:gamma=2 socrates --seeds 1-3
    """

    # Python file that defines `experiments`.
    file: Annotated[str, tyro.conf.Positional, positional("FILE.py", hint="")] = ""
    # Names of data sets, folder:PATH or npz:PATH, with options after a colon.
    datasets: Annotated[Texts, tyro.conf.arg(help_behavior_hint="(default: digits)")] = ("digits",)
    # Architectures, with options after a colon.
    models: Annotated[Texts, tyro.conf.arg(help_behavior_hint="(default: mlp)")] = ("mlp",)
    methods: Texts = ()  # Training methods, with options after a colon.
    seeds: Text = "1-5"  # Seeds such as 1-5, or 1,3,7, or 4.
    dry_run: Switch = False  # Only list the runs, and estimate their time.


@dataclass
class Report:
    """Compare runs: one page to look at, tables, and figures as PDF and PNG.

    Tables are written as Markdown, LaTeX and CSV. Only run directories are read; unfinished and
    damaged ones are listed and left out.

    Example: socrates report runs --out report --width column
    """

    # Run directories, or folders that contain them at any depth.
    runs: Annotated[
        tuple[Path, ...], tyro.conf.Positional, positional("RUNS ...", "(default: runs)")
    ] = (Path("runs"),)
    out: Path = Path("report")  # Folder of the report.
    title: Text = "Socrates report"  # Heading of the page.
    # Printed width of the figures: a column (3.25 inches), the text (5.5) or a full page (7.2).
    width: WidthChoice = "full"
    # Count failed runs in all means; without it they are named and left out.
    count_failed: Switch = False


@dataclass(kw_only=True)
class Reproduce(ManyRuns):
    """Make tables and figures of the paper: train the runs that are missing, then write them.

    Names: test, posthoc, hyperparameters, gamma, alpha, beta, ablation-vgg16, ablation-resnet110,
    validation (the nine tables); evolution, losses, pareto, transfer, reliability, evolution-grid,
    pareto-gamma-alpha, sat-unknown, pareto-beta, pareto-ablation, unknown, test-pareto,
    posthoc-pareto, transfer-test-pareto (the figures); weight-norm (a claim of section 3.3.1); a
    number such as table1 or figure3; or tables, figures, all. The same command continues what was
    stopped.

    Example: socrates reproduce test pareto --seeds 1-2 --dry-run
    """

    # Tables and figures of the paper.
    names: Annotated[tuple[str, ...], tyro.conf.Positional, positional("NAME ...")]
    # Settings such as cifar100-vgg16. Without it: those of the paper's table or figure.
    setting: Texts = ()
    # paper: the data, models and epochs of the paper; this takes GPUs. laptop: the same methods,
    # seeds and hyperparameter rules with less data, smaller models and fewer epochs. Every output
    # names its scale.
    scale: Literal["paper", "laptop"] = "laptop"
    # Data of the laptop scale: digits, or 2,000 images of another data set.
    dataset: Text = "digits"
    # Seeds such as 1-3. Without it: those of the paper.
    seeds: Annotated[Text, UNSET] = ""
    # How tables choose the best point of the Pareto front. l1: error + ECE. scaled: Euclidean
    # distance to the origin, both axes scaled to the candidates' range. ece: ECE alone.
    rule: RuleChoice = "l1"
    # Follow the authors' released code instead of the paper's text, where they differ and printed
    # numbers depend on it.
    as_released: Switch = False
    # Only list the runs, and estimate their time and disk space; in detail for a single table or
    # figure.
    dry_run: Switch = False
    # Printed width of the figures: a column (3.25 inches), the text (5.5) or a full page (7.2).
    width: WidthChoice = "full"
    # Folder of runs, tables and figures; each scale has its own folder in it.
    out: Path = Path("runs/reproduce")


def command(kind: type, module: str, name: str) -> tuple[type, Callable[[Any], None]]:
    """Return the options of a command, and the function of a module here that carries it out."""
    return kind, lambda options: getattr(import_module(f".{module}", __package__), name)(options)


COMMANDS: dict[str, tuple[type, Callable[[Any], None]]] = {
    "quickstart": command(Quickstart, "report", "run_quickstart"),
    "train": command(Train, "runs", "run_train"),
    "predict": command(Predict, "use", "run_predict"),
    "export": command(Export, "use", "run_export"),
    "audit": command(AuditOptions, "audit", "run_audit"),
    "evaluate": command(Evaluate, "runs", "run_evaluate"),
    "show": command(Show, "runs", "run_show"),
    "list": command(List, "runs", "run_list"),
    "tune": command(Tune, "studies", "run_tune"),
    "sweep": command(Sweep, "studies", "run_sweep"),
    "report": command(Report, "report", "run_report"),
    "reproduce": command(Reproduce, "report", "run_reproduce"),
}
