"""Which methods a page shows first: one selection for the first screen and for every chart.

Few methods are all shown. Of many, these are: cross-entropy as the baseline, Socrates, the best
four and the worst. Methods that trained exactly as another one did are left out.
"""

from collections.abc import Sequence

from .idle import same_training
from .results import Members, Results
from .vocabulary import METRICS

MOST = 7  # methods that fit on the first screen
BEST = 4
BASELINES = ("ce", "socrates")  # the best variant of each is always shown


def first_shown(members: Members) -> set[str]:
    """Return the labels of the methods that are shown first.

    >>> first_shown([])
    set()
    """
    if len(members) <= MOST:
        return {results.label for results in members}
    ranked = [results for results in _by_ece(members) if results.label not in duplicates(members)]
    sound = [results for results in ranked if not results.collapses]
    chosen = [*sound[:BEST], *sound[-1:]]
    for name in BASELINES:
        chosen += [results for results in ranked if results.method.name == name][:1]
    return {results.label for results in chosen}


def duplicates(members: Members) -> set[str]:
    """Return the labels of methods that trained exactly as an earlier or plainer one did.

    >>> duplicates([])
    set()
    """
    names = {results.label: results.method.name for results in members}
    left_out: set[str] = set()
    for labels in same_training(members):
        kept = next((label for label in labels if names[label] in BASELINES), labels[0])
        left_out.update(label for label in labels if label != kept)
    return left_out


def _by_ece(members: Members) -> Sequence[Results]:
    """Return the members by rising ECE as trained; those with collapsed runs come last."""
    return sorted(members, key=lambda results: results.standing(METRICS["ece"]))
