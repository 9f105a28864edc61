"""What everything is called, in which unit and order it is shown, and which end of it is good: said here alone.

Scalers are named by `socrates.scaling`, readings by `socrates.metrics`; a scaler from elsewhere by its own name.
"""

import itertools
from dataclasses import dataclass, replace

from socrates import metrics, scaling
from socrates.experiment import Value

SPLITS = {"val": "Validation", "test": "Test"}


@dataclass(frozen=True)
class Metric:
    """A number of a model: its printed names, the factor to its unit, its format, and which end is good."""

    name: str
    short: str
    long: str
    meaning: str
    unit: str = "%"
    larger_is_better: bool = False
    ranked: bool = True

    @property
    def head(self) -> str:
        """For heads of tables and for axes.

        >>> METRICS["ece"].head, METRICS["nll"].head
        ('ECE (%)', 'NLL')
        """
        return f"{self.short} ({self.unit})" if self.unit else self.short

    @property
    def factor(self) -> float:
        """From the recorded number to the printed one."""
        return 100.0 if self.unit == "%" else 1.0

    @property
    def form(self) -> str:
        """The format of the printed number."""
        return ".2f" if self.unit == "%" else ".3f"

    @property
    def perfect(self) -> float:
        """The printed number that nothing can beat.

        >>> METRICS["accuracy"].perfect, METRICS["ece"].perfect
        (100.0, 0.0)
        """
        return self.factor if self.larger_is_better else 0.0


METRICS = {
    metric.name: metric
    for metric in (
        Metric("accuracy", "Acc", "accuracy", "share of right answers", larger_is_better=True),
        Metric("ece", "ECE", "expected calibration error", "mean gap between confidence and accuracy over bins"),
        Metric(
            "ece_floor",
            "Floor",
            "floor of the ECE",
            "the ECE that a perfectly calibrated model of this confidence would measure by chance",
            ranked=False,
        ),
        Metric("ada_ece", "AdaECE", "adaptive ECE", "ECE over bins of equal counts"),
        Metric("cw_ece", "CW-ECE", "class-wise ECE", "mean of the ECEs of the single classes"),
        Metric("nll", "NLL", "negative log-likelihood", "mean surprise at the true class", unit=""),
        Metric("brier", "Brier score", "Brier score", "mean squared distance from the true class", unit=""),
    )
}
# An audit has more: it needs no runs to have recorded them.
AUDITED = {name: METRICS[name] for name in METRICS if name != "ece_floor"} | {
    metric.name: metric
    for metric in (
        Metric("smooth_ece", "smooth ECE", "smooth calibration error", "the gap smoothed over confidence"),
        Metric("mce", "MCE", "maximum calibration error", "the largest gap of any bin"),
    )
}
COMPARED = tuple(name for name, metric in METRICS.items() if metric.ranked)  # the metrics of tables
FEWEST = ("accuracy", "ece")  # where there is room for two


@dataclass(frozen=True)
class Scaler:
    """A post-hoc scaler: its printed names, and its marker in matplotlib's spelling."""

    short: str
    long: str
    marker: str = "*"
    needs_unknown: bool = False

    @property
    def both(self) -> str:
        """Its long name with the short one behind it."""
        return f"{self.long} ({self.short})"


_EVERY_SCALER = {"none": Scaler("", "unscaled", "o")} | {
    name: Scaler(kind.short, kind.title, marker, kind.needs_unknown_class)
    for (name, kind), marker in zip(scaling.SCALERS.items(), itertools.cycle("^sDvPX"), strict=False)
}
# Those that a study evaluates.
SCALERS = {
    name: scaler
    for name, scaler in _EVERY_SCALER.items()
    if name == "none" or getattr(scaling.SCALERS[name], "usual", True)
}
READINGS: dict[str, str] = {**metrics.READINGS}  # with what each of them means
USUAL_READING = next(iter(READINGS))


@dataclass(frozen=True)
class Curve:
    """A number of each epoch: its printed name with unit, the factor to that, and whether a log axis suits it."""

    name: str
    title: str
    factor: float = 1.0
    log: bool = False
    short: str = ""  # where curves of several numbers share a panel


CURVES = {
    curve.name: curve
    for curve in (
        Curve("train_loss", "training loss", log=True),
        Curve("val_loss", "validation loss", log=True),
        Curve("val_nll", "validation NLL of the known classes", log=True),
        Curve("train_accuracy", "training accuracy, %", 100),
        Curve("val_accuracy", "validation accuracy, %", 100),
        Curve("val_ece", "validation ECE, %", 100, log=True, short="ECE"),
        Curve("error", "validation error, %", 100, short="error"),
        Curve("val_ada_ece", "validation AdaECE, %", 100),
        Curve("val_cw_ece", "validation CW-ECE, %", 100),
        Curve("weight_norm", "norm of the weights"),
        Curve("head_norm", "norm of the last layer"),
        Curve("beta", "mean β", short="penalty β"),
        Curve("target", "mean target t", short="target t"),
        Curve("confidence_unknown_wrong", "mean belief in unknown, wrong answers"),
        Curve("confidence_unknown_right", "mean belief in unknown, right answers"),
        Curve("unknown_share", "share of answers that are “unknown”"),
        Curve("confidence_true_wrong", "mean belief in the true class, wrong answers"),
        Curve("confidence_true_right", "mean belief in the true class, right answers"),
    )
}

# Methods with their colours and markers: Okabe and Ito's hues where they have enough contrast with white (their
# orange, sky blue, pink and yellow do not, and are darkened or replaced), the rest chosen so that any two stay apart
# with red-blind and green-blind eyes; markers in matplotlib's spelling.
_METHODS = {
    "ce": ("CE", "#0072B2", "s"),
    "brier": ("Brier", "#939646", "v"),
    "focal": ("Focal", "#009E73", "^"),
    "flsd": ("FLSD", "#00462F", "P"),
    "gamblers": ("Gamblers", "#6C777E", ">"),
    "sat": ("SAT", "#D172AF", "D"),
    "mc": ("MC", "#5B2A86", "*"),
    "ce_dece": ("CE + DECE", "#58421B", "<"),
    "ccl_sc": ("CCL-SC", "#981F46", "X"),
    "socrates": ("Socrates", "#D55E00", "o"),
}
METHODS = {name: title for name, (title, _, _) in _METHODS.items()}
COLOURS = {name: colour for name, (_, colour, _) in _METHODS.items()}
MARKERS = {name: marker for name, (_, _, marker) in _METHODS.items()}
SYMBOLS = {"gamma": "γ", "alpha": "α", "beta": "β", "start_epoch": "E_s"}
LETTERS = {symbol: name.partition("_")[0] for name, symbol in SYMBOLS.items()}  # for file names


@dataclass(frozen=True)
class Term:
    """A printed name: what it is short for, what that means, and which way is better, in words, if one is."""

    long: str
    meaning: str
    direction: str = ""


_METHOD_TERMS = {
    "ce": Term("cross-entropy", "the usual loss, on the known classes"),
    "brier": Term("Brier loss", "the Brier score as a loss"),
    "focal": Term("focal loss", "counts easy samples less, the more so the larger γ"),
    "flsd": Term("focal loss, sample-dependent", "focal loss with a γ that follows the probability of the true class"),
    "gamblers": Term("Deep Gamblers", "an unknown class as a bet that always pays a little"),
    "sat": Term("self-adaptive training", "an unknown class, and labels that follow the model's own predictions"),
    "mc": Term("Meta-Calibration", "label smoothing learned by how calibrated it makes the next step"),
    "ce_dece": Term("cross-entropy + differentiable ECE", "the loss that the paper's tables call MC"),
    "ccl_sc": Term("confidence-aware contrastive learning", "a contrastive term weighted by confidence"),
    "socrates": Term("Socrates loss", "a focal loss with an unknown class, an adaptive target and a penalty on doubt"),
}
_SCALER_MEANINGS = {
    "temperature": "divides all logits by one number",
    "vector": "a factor and an offset for each class",
    "matrix": "an affine map of all logits",
    "readout": "reads known and unknown logits again, with a few numbers",
}
_OTHER_TERMS = {
    "95 %": Term("95 % interval", "where the mean of many more seeds lies, by the t distribution over these seeds"),
    "p": Term("p value", "how often seeds alone make such a difference, corrected for all comparisons of a metric"),
    "±": Term("standard deviation", "how far a single seed lies from the mean, with n - 1"),
    "seed noise": Term("seed noise", "differences that seeds alone often make: the interval holds 0"),
    "Collapsed": Term("collapsed runs", "runs that ended in one answer or in numbers that are not finite; not ranked"),
    "unknown": Term("unknown class", "an extra class for what the model does not know; readings say what it counts as"),
}


def _glossary() -> dict[str, Term]:
    found: dict[str, Term] = {}
    for metric in {**METRICS, **AUDITED}.values():
        direction = ("higher" if metric.larger_is_better else "lower") + " is better" if metric.ranked else ""
        found[metric.short] = Term(metric.long, metric.meaning, direction)
    found |= {METHODS[name]: term for name, term in _METHOD_TERMS.items()}
    known = [(name, one) for name, one in SCALERS.items() if one.short]
    found |= {one.short: Term(one.long, _SCALER_MEANINGS.get(name, "from elsewhere")) for name, one in known}
    return found | _OTHER_TERMS


# Every abbreviation that tables, page and terminal print.
GLOSSARY = _glossary()


def scaler_of(name: str) -> Scaler:
    """The scaler of that name, known here or not; words after the name are kept.

    >>> scaler_of("temperature").short, scaler_of("structured diagonal").long, scaler_of("mine").short
    ('TS', 'structured scaling, diagonal', 'mine')
    """
    first, _, more = name.partition(" ")
    known = _EVERY_SCALER.get(first, Scaler(first, first))
    return replace(known, short=f"{known.short} {more}", long=f"{known.long}, {more}") if more else known


def with_scaler(label: str, scaler: str) -> str:
    """The label of a method after a scaler.

    >>> with_scaler("CE", "none"), with_scaler("CE", "matrix")
    ('CE', 'CE + MS')
    """
    short = scaler_of(scaler).short
    return f"{label} + {short}" if short else label


def method_title(name: str) -> str:
    """A method without its options.

    >>> method_title("socrates:no-beta")
    'Socrates no beta'
    """
    name, _, variant = name.partition(":")
    return " ".join([METHODS.get(name, name), *([variant.replace("-", " ")] if variant else [])])


def short(value: Value) -> str:
    """An option's value as it is printed.

    >>> short(2.0), short("all")
    ('2', 'all')
    """
    return f"{value:g}" if isinstance(value, float) else str(value)
