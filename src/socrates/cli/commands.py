"""The commands: the options of each, and the function that carries it out, imported when called.

The comment of a field is its help.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from .audit_options import AuditOptions
from .certify_options import Certify
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
    positional,
)

if TYPE_CHECKING:
    from socrates.experiment import Experiment, Value

    from .choice import Choice

WidthChoice = Literal["column", "text", "full"]
RuleChoice = Literal["l1", "scaled", "ece"]


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
    `socrates train folder:photos` chooses a model and a method, and says why. `socrates train
    DATASET MODEL METHOD --help` also shows the options of these three, such as --gamma of a method,
    --width of a model, --image-size and --augment of a data set. --unknown FOLDER shows it images
    of none of the classes, and --rehearse CLASS measures what it makes of a class left out.

    Example: socrates train folder:photos --backbone models/resnet50
    """

    # An architecture of `socrates list`, module:attribute or file.py:attribute. Without it: a
    # small one that suits the images.
    model: Annotated[str, tyro.conf.Positional, positional("MODEL", hint="")] = ""
    # A training method of `socrates list`, module:attribute or file.py:attribute. Without it:
    # socrates.
    method: Annotated[str, tyro.conf.Positional, positional("METHOD", hint="")] = ""
    # Train a linear layer on the features of a pretrained model: a folder in the Hugging Face
    # format, a name in the local Hugging Face cache (nothing is downloaded), or FILE.py:FUNCTION,
    # which returns a torch module that computes features.
    backbone: OptionalText = None
    # Train the backbone, too, at a tenth of the rate.
    finetune: Switch = False

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
    # Train the unknown column of socrates or sat by a third of the images of --unknown FOLDER. A
    # run without is trained, too, and the accuracy and AUROC of both are printed.
    unknown_trains: Switch = False
    # Train the last layer only. (--backbone-factor 0.1 trains the rest at a tenth of the rate.)
    freeze: Switch = False

    @property
    def choice(self) -> "Choice":
        """Return the parts that were named, and a choice for the others."""
        from .choice import choose

        return choose(self.dataset, self.model, self.method, self.backbone)

    def names_of_parts(self) -> dict[str, str]:
        """Return the names of the three parts, those that were chosen among them."""
        return self.choice.names

    def part_options(self) -> "dict[str, dict[str, Value]]":
        """Return the options that were set, and those that were chosen with a part."""
        chosen = self.choice.options
        given = super().part_options()
        return {part: {**chosen.get(part, {}), **options} for part, options in given.items()}

    def named_experiment(self, seed: int) -> "Experiment":
        """Return the Experiment, with what only this command can set."""
        from socrates.experiment import fine_tuned
        from socrates.models import is_backbone
        from socrates.predictor import model_file, read_file, weights_hash

        experiment = super().named_experiment(seed)
        start = weights_hash(read_file(model_file(self.from_run))[1]) if self.from_run else ""
        optimization = experiment.optimization
        if self.freeze:
            if self.backbone_factor:
                raise ValueError("--freeze trains the last layer only: leave --backbone-factor out")
            optimization = replace(optimization, backbone_factor=0.0)
        if self.finetune:
            if self.freeze or not is_backbone(experiment.model.name):
                raise ValueError("--finetune trains a --backbone, too: it needs one, not --freeze")
            optimization = fine_tuned(optimization, self.epochs, self.backbone_factor)
        return replace(
            experiment,
            certify=self.certify,
            start=start,
            optimization=optimization,
            unknown_trains=self.unknown_trains,
        )


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
    # Labeled images for the certificate, as for `socrates certify`; it is kept with the model.
    calibrate: OptionalPath = None
    # Probability, over the labeled images, that the certificate does not hold.
    delta: float = 0.1
    # Decline images that look stranger than this share of the known held-out images; 1 declines
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
    # Lightning Fabric precision of the runs, such as bf16-mixed; every output names another one
    # than 32-true.
    precision: Text = "32-true"
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
    "certify": command(Certify, "certify", "run_certify"),
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
