"""The words of reports: names of splits, curves, methods and symbols, and the glossary.

Metrics and readings are named by `socrates.metrics`, scalers by `socrates.scaling`; a scaler from
elsewhere has its own name.
"""

import itertools
from dataclasses import dataclass, replace

from socrates import metrics, palette, scaling
from socrates.experiment import Value
from socrates.metrics import METRICS
from socrates.metrics import Metric as Metric
from socrates.metrics.registry import study_metrics

SPLITS = {"val": "Validation", "test": "Test"}
FEWEST = ("accuracy", "ece")  # where there is room for two


def compared_metrics() -> tuple[str, ...]:
    """Return the names of the metrics that tables compare."""
    return tuple(name for name, metric in study_metrics().items() if metric.ranked)


@dataclass(frozen=True)
class ScalerWords:
    """The printed names of a post-hoc scaler, and its marker in matplotlib's spelling."""

    short: str
    long: str
    marker: str = "*"
    needs_unknown: bool = False

    @property
    def both(self) -> str:
        """Return the long name with the short one behind it."""
        return f"{self.long} ({self.short})"


UNSCALED = ScalerWords("", "unscaled", "o")


def _every_scaler() -> dict[str, ScalerWords]:
    """Return the words of each scaler, also of those that were added after the import."""
    pairs = zip(scaling.SCALERS.items(), itertools.cycle("^sDvPX"), strict=False)
    return {"none": UNSCALED} | {
        name: ScalerWords(kind.short, kind.title, marker, kind.needs_unknown_class)
        for (name, kind), marker in pairs
    }


def study_scalers() -> dict[str, ScalerWords]:
    """Return the words of the scalers that a study evaluates, by name.

    >>> [words.short for words in study_scalers().values()]
    ['', 'TS', 'VS', 'MS', 'RS']
    """
    return {
        name: words
        for name, words in _every_scaler().items()
        if name == "none" or getattr(scaling.SCALERS[name], "usual", True)
    }


READINGS: dict[str, str] = {**metrics.READINGS}  # with what each of them means
USUAL_READING = next(iter(READINGS))


@dataclass(frozen=True)
class Curve:
    """A number of each epoch: its printed name with unit, and how it is drawn."""

    name: str
    title: str
    factor: float = 1.0  # from the recorded number to the printed one
    log: bool = False  # whether a logarithmic axis suits it
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


@dataclass(frozen=True)
class MethodWords:
    """The printed name of a method, its look, and what the glossary says of it.

    The marker is in matplotlib's spelling. Without a colour a method looks like one from elsewhere:
    eyes tell no more of them apart.
    """

    title: str
    colour: str
    marker: str
    long: str
    meaning: str


def _rival(title: str, long: str, meaning: str) -> MethodWords:
    return MethodWords(title, "", "", long, meaning)


_METHODS = {
    "ce": MethodWords(
        "CE", palette.BLUE, "s", "cross-entropy", "the usual loss, on the known classes"
    ),
    "brier": MethodWords("Brier", palette.OLIVE, "v", "Brier loss", "the Brier score as a loss"),
    "focal": MethodWords(
        "Focal",
        palette.GREEN,
        "^",
        "focal loss",
        "counts easy samples less, the more so the larger γ",
    ),
    "flsd": MethodWords(
        "FLSD",
        palette.DARK_GREEN,
        "P",
        "focal loss, sample-dependent",
        "focal loss with a γ that follows the probability of the true class",
    ),
    "gamblers": MethodWords(
        "Gamblers",
        palette.SLATE,
        ">",
        "Deep Gamblers",
        "an unknown class as a bet that always pays a little",
    ),
    "sat": MethodWords(
        "SAT",
        palette.PINK,
        "D",
        "self-adaptive training",
        "an unknown class, and labels that follow the model's own predictions",
    ),
    "mc": MethodWords(
        "MC",
        palette.PURPLE,
        "*",
        "Meta-Calibration",
        "label smoothing learned by how calibrated it makes the next step",
    ),
    "ce_dece": MethodWords(
        "CE + DECE",
        palette.BROWN,
        "<",
        "cross-entropy + differentiable ECE",
        "the loss that the paper's tables call MC",
    ),
    "ccl_sc": MethodWords(
        "CCL-SC",
        palette.MAROON,
        "X",
        "confidence-aware contrastive learning",
        "a contrastive term weighted by confidence",
    ),
    "socrates": MethodWords(
        "Socrates",
        palette.VERMILION,
        "o",
        "Socrates loss",
        "a focal loss with an unknown class, an adaptive target and a penalty on doubt",
    ),
    "label_smoothing": _rival(
        "LS", "label smoothing", "a share of each label is spread over all classes"
    ),
    "mbls": _rival(
        "MbLS", "margin-based label smoothing", "logits may be apart by a margin at no cost"
    ),
    "mdca": _rival(
        "MDCA",
        "focal loss + MDCA",
        "the mean probability of each class follows its share of the batch",
    ),
    "dual_focal": _rival(
        "Dual focal", "dual focal loss", "focal loss with the class that ranks after the true one"
    ),
    "bsce_gra": _rival(
        "BSCE-GRA", "BSCE-GRA", "cross-entropy whose gradient is weighted by the Brier distance"
    ),
    "logit_norm": _rival("LogitNorm", "LogitNorm", "cross-entropy of the direction of the logits"),
    "crl": _rival(
        "CRL",
        "correctness ranking loss",
        "confidence in the order of how often samples were answered correctly",
    ),
    "regmixup": _rival("RegMixup", "RegMixup", "mixtures of two images beside the images"),
    "beta_penalty": _rival(
        "CE + β", "beta penalty", "cross-entropy or focal loss with the Socrates loss's β alone"
    ),
}
METHODS = {name: method.title for name, method in _METHODS.items()}
COLOURS = {name: method.colour for name, method in _METHODS.items() if method.colour}
MARKERS = {name: method.marker for name, method in _METHODS.items() if method.marker}
SYMBOLS = {"gamma": "γ", "alpha": "α", "beta": "β", "start_epoch": "E_s"}
LETTERS = {symbol: name.partition("_")[0] for name, symbol in SYMBOLS.items()}  # for file names


@dataclass(frozen=True)
class Term:
    """What a printed name is short for, what it means, and which way is better, if one is."""

    long: str
    meaning: str
    direction: str = ""


_SCALER_MEANINGS = {
    "temperature": "divides all logits by one number",
    "vector": "a factor and an offset for each class",
    "matrix": "an affine map of all logits",
    "readout": "reads known and unknown logits again, with a few numbers",
}
_OTHER_TERMS = {
    "95%": Term(
        "95% interval",
        "where the mean of many more seeds lies, by the t distribution over these seeds; that of a "
        "share stays between 0% and 100%",
    ),
    "p": Term(
        "p value",
        "how often seeds and test rows alone make such a difference, corrected for all comparisons "
        "of a metric",
    ),
    "±": Term("standard deviation", "how far a single seed lies from the mean, with n - 1"),
    "less chance": Term(
        "less chance",
        "without what a perfectly calibrated model of the same confidences would measure by chance",
    ),
    "†": Term("†", "cannot be told from the best mean, which is bold"),
    "✕": Term("failed runs", "far below their siblings, or collapsed; not in the means"),
    "Collapsed": Term(
        "collapsed runs",
        "runs that ended in one answer or in numbers that are not finite; not ranked",
    ),
    "unknown": Term(
        "unknown class",
        "an extra class for what the model does not know; readings say what it counts as",
    ),
}


def glossary_terms() -> dict[str, Term]:
    """Return what every abbreviation means that tables, page and terminal print."""
    terms = {
        metric.symbol: Term(metric.title, metric.meaning, metric.direction)
        for metric in METRICS.values()
    }
    terms |= {method.title: Term(method.long, method.meaning) for method in _METHODS.values()}
    for name, scaler in study_scalers().items():
        if scaler.short:
            terms[scaler.short] = Term(scaler.long, _SCALER_MEANINGS.get(name, "from elsewhere"))
    return terms | _OTHER_TERMS


def scaler_of(name: str) -> ScalerWords:
    """Return the printed names of a scaler, registered or not; words after its name are kept.

    >>> scaler_of("temperature").short, scaler_of("mine").short
    ('TS', 'mine')
    >>> scaler_of("structured diagonal").long
    'structured scaling, diagonal'
    """
    first, _, more = name.partition(" ")
    known = _every_scaler().get(first, ScalerWords(first, first))
    if not more:
        return known
    return replace(known, short=f"{known.short} {more}", long=f"{known.long}, {more}")


def with_scaler(label: str, scaler: str) -> str:
    """Return the label of a method after a scaler.

    >>> with_scaler("CE", "none"), with_scaler("CE", "matrix")
    ('CE', 'CE + MS')
    """
    short = scaler_of(scaler).short
    return f"{label} + {short}" if short else label


def method_family(name: str) -> str:
    """Return the name of a method without that of its ablation.

    >>> method_family("socrates:no-beta")
    'socrates'
    """
    return name.partition(":")[0]


def method_title(name: str) -> str:
    """Return the name of a method without its options.

    >>> method_title("socrates:no-beta")
    'Socrates no beta'
    """
    family, _, variant = name.partition(":")
    title = METHODS.get(family, family)
    return f"{title} {variant.replace('-', ' ')}" if variant else title


def printed_option(value: Value) -> str:
    """Return the value of an option as it is printed.

    >>> printed_option(2.0), printed_option("all")
    ('2', 'all')
    """
    return f"{value:g}" if isinstance(value, float) else str(value)
