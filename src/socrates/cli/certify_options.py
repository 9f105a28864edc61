"""The options of `socrates certify`. The comment of a field is its help."""

from dataclasses import dataclass
from typing import Annotated

import tyro

from .options import OptionalFloat, OptionalPath, RunFolder, Switch, Text


@dataclass(kw_only=True)
class Certify:
    """Promise that at most a share of the answers is wrong, by labeled images new to the model.

    The certificate is kept with the model: `predict` and the exported file then answer only where
    it holds. It holds for images of the model's classes. With --strangers, it also holds if up to
    --share of the images are like those of that folder, of none of the classes. Decide on the risk
    first: every further attempt takes new images.

    Example: socrates certify runs/NAME labeled --risk 0.05
    """

    run: RunFolder  # Directory of a finished run, or a model.safetensors file.
    # Labeled images in one sub-folder per class. They must be new to the model: not used to train
    # it, to choose its epoch or to fit its scaler.
    labeled: Annotated[RunFolder, tyro.conf.arg(metavar="LABELED")]
    risk: float  # Share of the answers that may be wrong, such as 0.05.
    # Probability, over the labeled images, that the certificate does not hold.
    delta: float = 0.1
    # Folder with at least 60 images of none of the classes, such as the model will meet.
    strangers: OptionalPath = None
    # Largest share of such strangers among the images that the model will see, such as 0.3. A
    # run that was trained with --unknown needs no --strangers: it kept half of those for this.
    share: OptionalFloat = None
    trust_code: Switch = False  # Import the code of a model that is not part of this package.
    device: Text = "cpu"  # Where the model runs: cpu, cuda or mps.
