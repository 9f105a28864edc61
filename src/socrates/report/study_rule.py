"""The rule by which a tuning study chose: `socrates tune` writes it into the study's study.json."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from socrates import pareto

from .results import Members, Settings

USUAL_RULE = "l1"


class StudyRule(NamedTuple):
    """The rule of a study, and the names of its runs."""

    rule: str
    runs: frozenset[str]


def rules_of(roots: Iterable[Path | str], settings: Settings) -> dict[str, str]:
    """Return the rule of each setting: that of the latest study below the roots with its runs.

    Runs that no study has are chosen from by the usual rule.

    >>> rules_of([], {"digits, mlp": []})
    {'digits, mlp': 'l1'}
    """
    studies = _studies(roots)
    return {heading: _rule(members, studies) for heading, members in settings.items()}


def _rule(members: Members, studies: Iterable[StudyRule]) -> str:
    names = {run.directory.name for results in members for run in results.runs}
    found = (study.rule for study in studies if names and names <= study.runs)
    return next(found, USUAL_RULE)


def _studies(roots: Iterable[Path | str]) -> list[StudyRule]:
    """Return all studies below the roots, the latest first; a damaged file is none."""
    paths = {path for root in roots for path in Path(root).rglob("study-*/study.json")}
    latest_first = sorted(paths, key=lambda path: (-path.stat().st_mtime, path))
    found = (_read(path) for path in latest_first)
    return [study for study in found if study is not None]


def _read(path: Path) -> StudyRule | None:
    try:
        content: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        rule = content["asked"]["rule"]
        runs = frozenset(str(name) for result in content["results"] for name in result["runs"])
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return StudyRule(rule, runs) if rule in pareto.RULES else None
