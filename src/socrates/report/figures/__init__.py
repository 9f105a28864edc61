"""Figures: one file each, with data functions, which tests check with numbers, and the ink that shows them.

A file has `drawings`, for PDF and PNG, and `charts`, for the page. Adding a figure is a file and its section in
`assets/sections.json`: there stand heading, how to read it, how its charts are laid out, and what is said without any.
"""

import json
from importlib import import_module
from typing import Any

from ..markup import asset
from ..vocabulary import SCALERS

_NAMES = ", ".join(scaler.both for scaler in SCALERS.values() if scaler.short)
SECTIONS: list[dict[str, Any]] = json.loads(asset("sections.json").replace("{scalers}", _NAMES))
FIGURES = tuple(import_module(f"{__name__}.{one['name']}") for one in SECTIONS if "layout" in one)
