"""Words in a row, counts and small numbers as sentences say them, the same on pages, in tables and in the terminal."""

from collections.abc import Collection, Sequence
from itertools import islice

MOST_NAMED = 8  # words that are told one by one


def listed(names: Sequence[str], word: str) -> str:
    """All names in a row.

    >>> listed(["CE", "Brier", "SAT"], "or"), listed(["CE"], "or")
    ('CE, Brier or SAT', 'CE')
    """
    return f" {word} ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def first_of(words: Collection[str], between: str = ", ", most: int = MOST_NAMED) -> str:
    """Words in a row, at most some of them, and how many more there are.

    >>> first_of([str(number) for number in range(12)])
    '0, 1, 2, 3, 4, 5, 6, 7 and 4 more'
    """
    more = len(words) - most
    return between.join(islice(words, most)) + (f" and {more} more" if more > 0 else "")


def capitalised(words: str) -> str:
    """With a capital first letter, and all others as they are.

    >>> capitalised("the ECE")
    'The ECE'
    """
    return words[:1].upper() + words[1:]


def counted(count: int, what: str) -> str:
    """How many there are of something.

    >>> counted(1, "row"), counted(2000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{count:,} {what}{'s' * (count != 1)}"


def seeds_of(counts: Sequence[int]) -> str:
    """How many seeds there are where some may have more than others.

    >>> seeds_of([5, 5]), seeds_of([1, 5]), seeds_of([])
    ('5 seeds', '1 to 5 seeds', '0 seeds')
    """
    least, most = min(counts, default=0), max(counts, default=0)
    return f"{least} to {counted(most, 'seed')}" if least < most else counted(most, "seed")


def p_value(p: float) -> str:
    """A p value as it is printed.

    >>> p_value(0.2345), p_value(0.000999)
    ('p = 0.23', 'p < 0.001')
    """
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def percent(share: float) -> str:
    """A share as it is printed.

    >>> percent(0.03124)
    '3.12 %'
    """
    return f"{100 * share:.2f} %"
