"""Numbers of JSON files, which have no NaN: it is null there."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any


def is_number(value: object) -> bool:
    """Whether it is a number, which true and false are not.

    >>> is_number(0.5), is_number(True)
    (True, False)
    """
    return isinstance(value, int | float) and not isinstance(value, bool)


def not_numbers(values: Iterable[tuple[str, Any]]) -> str:
    """The names of values that are neither numbers nor null.

    >>> not_numbers({"ece": None, "nll": "low"}.items())
    'nll'
    """
    return ", ".join(sorted({key for key, value in values if value is not None and not is_number(value)}))


def with_nan(values: Mapping[str, float | None]) -> dict[str, float]:
    """What was written, NaN where it was null.

    >>> with_nan({"ece": None})
    {'ece': nan}
    """
    return {key: math.nan if value is None else value for key, value in values.items()}
