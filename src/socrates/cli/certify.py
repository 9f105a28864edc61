"""`socrates certify`: a promise, made by labeled images and kept with the model."""

from __future__ import annotations

from pathlib import Path

from socrates.engine.certify import certify_by_folders
from socrates.predictor import Predictor, load
from socrates.predictor.certifying import keep_with_model
from socrates.prose import whole
from socrates.records import Run

from .certify_options import Certify
from .output import complain, console, show

TRUST = "the model does not remember its training images: that yours are new is taken on trust"


def run_certify(options: Certify) -> None:
    """Carry out `socrates certify`."""
    if options.strangers is not None and options.share is None:
        raise ValueError(
            "--strangers and --share belong together: the folder, and the largest share of images "
            "like them that the model will see, such as 0.3"
        )
    strangers = options.strangers
    if options.share is not None and strangers is None:
        strangers = run_with_strangers(options.run)
    predictor = load(options.run, trust_code=options.trust_code).to(options.device)
    with console.status("certifying"):
        certify_and_keep(
            predictor,
            options.run,
            options.labeled,
            options.risk,
            options.delta,
            strangers,
            options.share,
        )
    show(predictor.certificate, "certificate: ")


def run_with_strangers(path: Path) -> Run:
    """Return the run whose own strangers certify; refuse a mere file."""
    folder = path if path.is_dir() else path.parent
    if not (folder / "experiment.json").is_file():
        raise ValueError(
            f"{path} is not a run that was trained with unknown images: --share also needs "
            "--strangers FOLDER, with images such as the model will meet"
        )
    return Run(folder)


def certify_and_keep(
    predictor: Predictor,
    path: Path,
    labeled: Path,
    risk: float,
    delta: float,
    strangers: Path | Run | None = None,
    share: float | None = None,
) -> None:
    """Certify a model by folders of images, keep the certificate in its file, and say so."""
    certify_by_folders(predictor, labeled, risk, delta, strangers, share)
    if not len(predictor.seen):
        complain(TRUST, "note: ")
    file = keep_with_model(predictor, path)
    if file is not None:
        show(f"kept with the model: {whole(file)}", "certified, ")
        return
    complain(
        "the certificate is not kept with the model: it was made with another scaler or reading "
        "than the model's own",
        "note: ",
    )
