"""Compare scalers on real predictions: NLL on held-out rows, and the seconds of a fit.

`python benchmarks/scalers.py FOLDER` reads each FOLDER/*.npz (`probs` or `logits` of shape (N, C),
and `labels`), fits on random rows, several numbers of them, and measures the NLL on the others. SVS
and SMS are probmetrics' structured vector and matrix scaling: strength 1 of our structured scaling
(SS). `path` is the best strength of SS in hindsight. Seconds are processor time of one thread.

The exit status is 1 unless SS, in the mean of the splits, is within 0.003 of the best of TS, SVS
and SMS and within 0.005 of `path`, VS and MS are within 0.01 of TS on every split, and SS is as
fast as TIMES says.

`--rivals` adds probmetrics and scikit-learn themselves, if they are installed. `--write` puts the
table into docs/scalers.md, and a part of it into the README.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rivals import rivals
from socrates.scaling import (
    MatrixScaling,
    Scaler,
    StructuredScaling,
    TemperatureScaling,
    VectorScaling,
)
from socrates.scaling.affine import STRUCTURED_STRENGTHS

SCALERS: dict[str, Callable[[], Scaler]] = {
    "TS": TemperatureScaling,
    "SVS": lambda: StructuredScaling(1.0, "diagonal"),
    "SMS": lambda: StructuredScaling(1.0),
    "VS": VectorScaling,
    "MS": MatrixScaling,
    "SS": StructuredScaling,
}
ROOT = Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- scalers: begin -->", "<!-- scalers: end -->"
PAGE_BEGIN = "<!-- real predictions: begin -->"
PAGE_END = "<!-- real predictions: end -->"
SHORT = (
    "file",
    "rows",
    "TS",
    "SS",
    "probmetrics svs",
    "probmetrics sms",
    "sklearn temperature",
    "sklearn isotonic",
)
PATH = {f"{strength:g}": strength for strength in STRUCTURED_STRENGTHS}
SIZES = (500, 1000, 5000)
ABOVE_RIVALS, ABOVE_PATH, ABOVE_TS = 0.003, 0.005, 0.01
# Rows, classes, structure, the most seconds that we accept, and those we aim for.
TIMES = (
    (5000, 100, "full", 3.0, 1.5),
    (5000, 10, "full", 0.3, 0.15),
    (10_000, 1000, "diagonal", 10.0, 5.0),
)

Trial = dict[str, tuple[float, float]]  # held-out NLL and seconds of one split, by scaler


def read(file: Path) -> tuple[Tensor, Tensor]:
    """Return logits (N, C) and labels (N,) of a file; of probabilities, their logarithms."""
    with np.load(file) as arrays:
        if "labels" not in arrays or not {"probs", "logits"} & set(arrays):
            raise SystemExit(f"{file} holds {sorted(arrays)}: expected labels, and probs or logits")
        labels = torch.tensor(arrays["labels"].astype(np.int64))
        if "logits" in arrays:
            return torch.tensor(arrays["logits"]), labels
        return torch.tensor(arrays["probs"]).clamp(min=1e-30).log(), labels


def trial(logits: Tensor, labels: Tensor, num_fit: int, seed: int, others: dict[str, Any]) -> Trial:
    """Fit on num_fit random rows and measure on the others."""
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    fit, rest = order[:num_fit], order[num_fit:]
    found: Trial = {}
    along = {
        name: lambda strength=strength: StructuredScaling(strength)
        for name, strength in PATH.items()
    }
    for name, make in {**SCALERS, **along}.items():
        start = time.process_time()
        scaler = make().fit(logits[fit], labels[fit])
        seconds = time.process_time() - start
        scaled = scaler(logits[rest]).double()
        found[name] = float(torch.nn.functional.cross_entropy(scaled, labels[rest])), seconds
    for name, fit_and_predict in others.items():
        start = time.process_time()
        predict = fit_and_predict(logits[fit].numpy(), labels[fit].numpy())
        seconds = time.process_time() - start
        true = predict(logits[rest].numpy())[np.arange(len(rest)), labels[rest].numpy()]
        found[name] = float(-np.log(np.clip(true, 1e-12, None)).mean()), seconds
    return found


def judge(trials: list[Trial]) -> tuple[dict[str, float], dict[str, float], list[str]]:
    """Return mean NLLs, mean seconds, and which goals are missed."""
    nll = {name: float(np.mean([one[name][0] for one in trials])) for name in trials[0]}
    seconds = {name: float(np.mean([one[name][1] for one in trials])) for name in trials[0]}
    nll["path"] = min(nll[name] for name in PATH)
    missed: list[str] = []
    if nll["SS"] > min(nll[name] for name in ("TS", "SVS", "SMS")) + ABOVE_RIVALS:
        missed.append("SS ABOVE RIVALS")
    if nll["SS"] > nll["path"] + ABOVE_PATH:
        missed.append("SS ABOVE PATH")
    missed += [
        f"{name} WORSE THAN TS"
        for name in ("VS", "MS")
        if max(one[name][0] - one["TS"][0] for one in trials) > ABOVE_TS
    ]
    return nll, seconds, missed


def slowest(folder: Path) -> bool:
    """Print the seconds of structured scaling, and return whether all are within the limits."""
    print(f"\n{'structured scaling':32} {'seconds':>8} {'limit':>6} {'aim':>6}")
    kept = True
    for rows, classes, structure, limit, aim in TIMES:
        logits, labels = _timed_on(folder, rows, classes)
        best = math.inf
        for _ in range(3):
            start = time.process_time()
            StructuredScaling(structure=structure).fit(logits, labels)
            best = min(best, time.process_time() - start)
        print(
            f"{f'{rows} x {classes}, {structure}':32} {best:8.3f} {limit:6} {aim:6}  "
            f"{'' if best <= limit else 'SLOW'}"
        )
        kept &= best <= limit
    return kept


def _timed_on(folder: Path, rows: int, classes: int) -> tuple[Tensor, Tensor]:
    """Return the first file with this many classes, or synthetic logits that need scaling."""
    for file in sorted(folder.glob("*.npz")):
        logits, labels = read(file)
        if logits.shape[1] == classes and len(labels) >= rows:
            return logits[:rows], labels[:rows]
    generator = torch.Generator().manual_seed(0)
    calibrated = 2.5 * torch.randn(rows, classes, generator=generator)
    labels = torch.multinomial(calibrated.softmax(dim=1), 1, generator=generator).squeeze(1)
    return calibrated * torch.linspace(0.7, 2, classes) + torch.linspace(-1, 1, classes), labels


def _cell(nll: float, seconds: float | None) -> str:
    """Return the NLL, and the seconds of a fit in parentheses."""
    if math.isnan(nll):
        return "fails"
    return f"{nll:.4f}" + (f" ({seconds:.2g} s)" if seconds is not None else "")


def write(heads: list[str], rows: list[list[str]], options: argparse.Namespace) -> None:
    """Write the whole table to docs/scalers.md, and the columns of SHORT to the README."""
    command = (
        f"python benchmarks/scalers.py FOLDER --rivals --first-seed {options.first_seed} --write"
    )
    caption = (
        f"Written by `{command}`: mean NLL on held-out rows over {options.splits} random splits, "
        "with the seconds of a fit on one thread in parentheses. The files are examples of netcal: "
        "softmax outputs on CIFAR-10 and CIFAR-100. TS and SS are our temperature and structured "
        "scaling."
    )
    names = (
        "TS is temperature scaling, VS and MS are vector and matrix scaling, and SS is structured "
        "scaling. SVS and SMS are structured scaling at the fixed strengths of probmetrics; path "
        "is the best strength in hindsight. A scaler fails where a class is missing."
    )
    page, readme = ROOT / "docs" / "scalers.md", ROOT / "README.md"
    table = f"{caption}\n\n{names}\n\n{_markdown(heads, rows)}"
    _replace(page, PAGE_BEGIN, PAGE_END, table)
    kept = [place for place, head in enumerate(heads) if head in SHORT]
    short = _markdown(
        [heads[place] for place in kept], [[row[place] for place in kept] for row in rows]
    )
    _replace(readme, BEGIN, END, f"{short}\n\n{caption}")


def _replace(page: Path, begin: str, end: str, text: str) -> None:
    """Replace what stands between two marks of a page."""
    before, rest = page.read_text().split(begin)
    page.write_text(f"{before}{begin}\n{text}\n{end}{rest.split(end)[1]}")


def _markdown(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> int:
    """Print the tables, and return 1 if any goal was missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="rows to fit on")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument(
        "--rivals", action="store_true", help="also fit probmetrics and scikit-learn"
    )
    parser.add_argument(
        "--write", action="store_true", help="write the table to docs/scalers.md and README.md"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    files = sorted(options.folder.glob("*.npz"))
    if not files:
        raise SystemExit(f"{options.folder} holds no .npz file: pass a folder of predictions")
    others = rivals() if options.rivals else {}
    names = [*SCALERS, "path", *others]
    print(f"NLL on held-out rows, with seconds below it; means of {options.splits} splits")
    print(f"{'file':24} {'rows':>6} " + " ".join(f"{name:>12}" for name in names))
    good = True
    table: list[list[str]] = []
    for file in files:
        logits, labels = read(file)
        for num_fit in [size for size in options.sizes if size < len(labels)]:
            seeds = range(options.first_seed, options.first_seed + options.splits)
            nll, seconds, missed = judge(
                [trial(logits, labels, num_fit, seed, others) for seed in seeds]
            )
            print(
                f"{file.stem:24} {num_fit:6} " + " ".join(f"{nll[name]:12.4f}" for name in names),
                *missed,
            )
            cells = [f"{seconds[name]:12.3f}" if name in seconds else " " * 12 for name in names]
            print(" " * 32 + " ".join(cells), flush=True)
            good &= not missed
            table.append(
                [
                    file.stem,
                    f"{num_fit:,}",
                    *(_cell(nll[name], seconds.get(name)) for name in names),
                ]
            )
    if options.write:
        write(["file", "rows", *names], table, options)
    good &= slowest(options.folder)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
