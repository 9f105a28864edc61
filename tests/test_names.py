"""Plug-ins and options by name: where they come from, what they mean, how mistakes are told."""

from __future__ import annotations

import pytest

from socrates import data, methods, models
from socrates.data.unknown import SHARED_OPTIONS
from socrates.names import option_help

EVERY = [
    *[(methods, name) for name in methods.METHODS],
    *[(models, name) for name in models.MODELS],
    *[(data, name) for name in [*data.DATASETS, *data.BY_PATH]],
]


@pytest.mark.parametrize(
    ("package", "name"), EVERY, ids=[f"{package.__name__}-{name}" for package, name in EVERY]
)
def test_every_option_has_a_meaning(package, name):
    meanings = option_help(package.factory(name))
    if package is data:
        meanings = {**meanings, **SHARED_OPTIONS}
    assert meanings.keys() == package.options(name).keys()
    assert all(len(meaning) > 5 for meaning in meanings.values())
