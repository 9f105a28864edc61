"""Predictions as people save them are read rightly, or refused in words that settle it."""

from __future__ import annotations

import pytest

import prediction_layouts_elsewhere  # noqa: F401
from prediction_layouts import LAYOUTS, SavedFile
from socrates.audit.measure import measure
from socrates.audit.predictions import open_predictions


def measured(layout: SavedFile, folder):
    written = layout.write(folder)
    path, options = written if isinstance(written, tuple) else (written, {})
    return measure(open_predictions(path, **options))


@pytest.mark.parametrize("layout", LAYOUTS, ids=[layout.name for layout in LAYOUTS])
def test_a_layout_is_read_rightly_or_refused(tmp_path, layout):
    if layout.accuracy is None:
        with pytest.raises(ValueError, match="(?i)" + layout.word):
            measured(layout, tmp_path)
        return
    found = measured(layout, tmp_path)
    assert found.meter.compute()["accuracy"] == pytest.approx(layout.accuracy, abs=1e-9)
    assert found.bad.count == layout.left_out


def test_the_table_is_long_and_names_each_layout_once():
    names = [layout.name for layout in LAYOUTS]
    assert len(names) == len(set(names)) >= 480
