"""Is this input like the training data? Scores of strangeness, fitted on features and logits.

One file per family: energy.py, neighbors.py, mahalanobis.py and unknown.py; sums.py adds them up,
fitted.py weighs them by strangers if there are any; registry.py has NOVELTY, which the rest of the
package iterates. score.py is their base: it turns any score into `novelty`, the share of known
validation samples that look less strange. It imports arrays only. Read score.py first,
then mahalanobis.py.
"""

from socrates.novelty.energy import Energy
from socrates.novelty.fitted import WeightedVotes
from socrates.novelty.mahalanobis import Mahalanobis
from socrates.novelty.neighbors import NearestNeighbors
from socrates.novelty.registry import DEFAULT, NOVELTY, create, weighted
from socrates.novelty.saving import KeptNovelty, describe, rebuild
from socrates.novelty.score import NoveltyScore, Samples
from socrates.novelty.sums import ScoreSum
from socrates.novelty.unknown import UnknownColumn

__all__ = [
    "DEFAULT",
    "NOVELTY",
    "Energy",
    "KeptNovelty",
    "Mahalanobis",
    "NearestNeighbors",
    "NoveltyScore",
    "Samples",
    "ScoreSum",
    "UnknownColumn",
    "WeightedVotes",
    "create",
    "describe",
    "rebuild",
    "weighted",
]
