"""Lists, counts and small numbers as sentences say them: on pages, in tables, in the terminal."""

from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from string import ascii_lowercase
from typing import Protocol


class FailedRun(Protocol):
    """What is said of a failed run."""

    @property
    def label(self) -> str: ...
    @property
    def seed(self) -> int: ...
    @property
    def epoch(self) -> int | None: ...
    @property
    def reason(self) -> str: ...


MOST_NAMED = 8  # names that a sentence lists one by one


def listed(names: Sequence[str], conjunction: str) -> str:
    """Return all names in a list.

    >>> listed(["CE", "Brier", "SAT"], "or"), listed(["CE"], "or")
    ('CE, Brier or SAT', 'CE')
    """
    return f" {conjunction} ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def first_of(names: Collection[str], between: str = ", ", most: int = MOST_NAMED) -> str:
    """Return the first names, and how many more there are.

    >>> first_of([str(number) for number in range(12)])
    '0, 1, 2, 3, 4, 5, 6, 7 and 4 more'
    """
    more = len(names) - most
    first = between.join(islice(names, most))
    return f"{first} and {more} more" if more > 0 else first


def capitalised(sentence: str) -> str:
    """Return the sentence with a capital first letter, and all others as they are.

    >>> capitalised("the ECE")
    'The ECE'
    """
    return sentence[:1].upper() + sentence[1:]


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, in the plural if it needs one.

    >>> counted(1, "row"), counted(2000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def seeds_of(counts: Sequence[int]) -> str:
    """Return how many seeds there are, where some may have more than others.

    >>> seeds_of([5, 5]), seeds_of([1, 5]), seeds_of([])
    ('5 seeds', '1 to 5 seeds', '0 seeds')
    """
    fewest = min(counts, default=0)
    most = max(counts, default=0)
    return f"{fewest} to {counted(most, 'seed')}" if fewest < most else counted(most, "seed")


def p_value(p: float) -> str:
    """Return a p value as it is printed.

    >>> p_value(0.2345), p_value(0.000999)
    ('p = 0.23', 'p < 0.001')
    """
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def percent(share: float) -> str:
    """Return a share as it is printed.

    >>> percent(0.03124)
    '3.12%'
    """
    return f"{100 * share:.2f}%"


def letter(number: int) -> str:
    """Return the letter of a footnote or a panel: a to z, then aa, ab, and so on.

    >>> letter(0), letter(25), letter(26)
    ('a', 'z', 'aa')
    """
    rounds, place = divmod(number, len(ascii_lowercase))
    first = letter(rounds - 1) if rounds else ""
    return first + ascii_lowercase[place]


def failed_run(failure: FailedRun) -> str:
    """Return which run failed, when and why.

    >>> from .results import Failure
    >>> failed_run(Failure("CE", 3, 47, "73% training accuracy at the end", 68.6))
    'CE seed 3 failed in epoch 47: 73% training accuracy at the end'
    """
    when = "" if failure.epoch is None else f" in epoch {failure.epoch}"
    return f"{failure.label} seed {failure.seed} failed{when}: {failure.reason}"


def without_failed(failures: Iterable[FailedRun]) -> str:
    """Return which runs a figure leaves out; empty if none failed.

    >>> from .results import Failure
    >>> without_failed([Failure("CE", 3, 47, "73% training accuracy at the end", 68.6)])
    'without the failed runs (CE seed 3)'
    """
    runs = [f"{failure.label} seed {failure.seed}" for failure in failures]
    return f"without the failed runs ({first_of(runs)})" if runs else ""
