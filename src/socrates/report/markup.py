"""Markup from the templates among the assets.

Values are shown as they are, never read as markup.
"""

from functools import cache
from importlib import resources
from typing import Any

import jinja2


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(loader=jinja2.FunctionLoader(asset), autoescape=True)


def markup(template: str, **values: Any) -> str:
    """Return a template filled in; other markup must say that it is safe."""
    return _environment().get_template(template).render(values)


def asset(name: str) -> str:
    """Return the text of a file among the assets."""
    return (resources.files("socrates.report") / "assets" / name).read_text(encoding="utf-8")
