"""Paths in the plane of error and ECE: where each method stands after each epoch."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from socrates.plots.labels import Note, annotate_apart

from ..results import Members, mean_and_band
from ..style import Style
from ..words import first_of
from .chart import Json, mark, pen, scatter
from .compose import SMALL, Handles, line_handle, method_handle, method_look
from .plane import Plane, Trail, draw_frame, note_sides, plane_figure

MOST_NUMBERED = 8  # paths whose epochs a reader can follow
HOVER = "epoch %{customdata[0]}<br>error %{customdata[1]:.2f}%<br>ECE %{customdata[2]:.2f}%"


def settle(path: Trail) -> Trail:
    """Return a path from the first epoch whose error is less than twice the last one.

    What precedes it says little. All of what is left must be in the frame.

    >>> error = np.array([90.0, 30.0, 15.0, 25.0, 10.0])
    >>> settle(Trail("CE", error, error, (10, 10), [1, 2, 3, 4, 5])).steps
    [3, 4, 5]
    """
    near = path.error < max(2 * path.end[0], path.error.min() + 1e-9)
    first = int(np.argmax(near))
    return replace(
        path,
        error=path.error[first:],
        ece=path.ece[first:],
        steps=path.steps[first:],
        start=0,
    )


def usual_step(epochs: int) -> int:
    """Return every how many epochs a path is marked: 25 as in the paper, or at least six times.

    >>> [usual_step(epochs) for epochs in (300, 150, 50, 6)]
    [25, 25, 5, 1]
    """
    return next((step for step in (25, 10, 5, 2) if epochs >= 6 * step), 1)


def epoch_paths(members: Members, every: int = 25) -> list[Trail]:
    """Return mean validation error and ECE at the first, the last and every `every`-th epoch.

    The second half of a path, from the epoch nearest to the middle, must be in the frame. Epochs
    without numbers are left out, and so are members without such epochs.
    """
    paths: list[Trail] = []
    for results in members:
        epochs = results.epochs
        error, _, _ = mean_and_band(100 * (1 - results.curve("val_accuracy")))
        ece, _, _ = mean_and_band(100 * results.curve("val_ece"))
        asked = (epochs % every == 0) | (epochs == epochs[:1]) | (epochs == epochs[-1:])
        chosen = asked & np.isfinite(error) & np.isfinite(ece)
        if chosen.any():
            steps = epochs[chosen].astype(int)
            middle = middle_of(steps)
            error = error[chosen]
            ece = ece[chosen]
            end = (float(error[-1]), float(ece[-1]))
            paths.append(Trail(results.label, error, ece, end, steps.tolist(), middle))
    return paths


def middle_of(steps: Any) -> int:
    """Return the place of the epoch that is nearest to half of the last one.

    >>> middle_of([1, 25, 50, 75, 100])
    2
    """
    return int(np.abs(np.asarray(steps) - steps[-1] / 2).argmin())


def draw_paths(axes: Axes, plane: Plane) -> Handles:
    """Draw each path with a small mark per epoch, and large ones at the middle and the last epoch.

    Large marks have the number of their epoch; the last ones of more than eight paths have the name
    of the path. Paths with collapsed runs have hollow marks with a red edge.
    """
    named = len(plane.trails) > MOST_NUMBERED
    middles: list[Note] = []
    lasts: list[Note] = []
    handles: Handles = []
    for path in plane.lifted():
        style = plane.look[path.label]
        bad = plane.collapsed.get(path.label, "")
        handles.append(method_handle(path.label, style, bad))
        ends = sorted({path.start, len(path.steps) - 1})
        small = method_look(style, bad, linewidth=1, markersize=2.5)
        large = method_look(style, bad, linestyle="none", markersize=6)
        axes.plot(path.error, path.ece, **small)
        axes.plot(path.error[ends], path.ece[ends], **large)
        middles.append(_note(path, ends[0], str(path.steps[ends[0]]), style))
        words = path.label if named else str(path.steps[-1])
        lasts.append(_note(path, ends[-1], words, style))
    draw_frame(axes, plane)
    notes = [*dict.fromkeys(lasts + middles)]
    annotate_apart(axes, notes, size=SMALL, reach=44 if named else 0)
    return handles + _epoch_handles(plane.trails)


def _note(path: Trail, place: int, text: str, style: Style) -> Note:
    return Note(float(path.error[place]), float(path.ece[place]), text, style.colour)


def _epoch_handles(paths: Sequence[Trail]) -> Handles:
    """Return what large and small marks mean, if it is the same for all paths."""
    if len({tuple(path.steps) for path in paths}) != 1 or len(paths[0].steps) < 3:
        return []
    steps = paths[0].steps
    large = f"epochs {steps[paths[0].start]} and {steps[-1]}"
    small = f"every {steps[2] - steps[1]} epochs"
    dot: dict[str, Any] = {"linestyle": "none", "marker": "o"}
    return [line_handle(large, markersize=6, **dot), line_handle(small, markersize=2.5, **dot)]


def path_figure(plane: Plane) -> Json:
    """Return each path, and a large mark at the epoch of the slider; the page cuts both there."""
    paths = [
        scatter(
            path.label,
            plane.look[path.label],
            drawn.error,
            drawn.ece,
            (np.array(path.steps), path.error, path.ece),
            HOVER,
            **({"loose": True} if path.label in plane.collapsed else {}),
        )
        for path, drawn in zip(plane.trails, plane.lifted(), strict=True)
    ]
    numbered = _epoch_texts(plane)
    traces: list[Json] = []
    for path, trail in zip(paths, plane.trails, strict=True):
        style = plane.look[trail.label]
        faint = f"f{style.place}"
        line = {
            "mode": "lines+markers",
            "line": {**pen(style, 1.5), "color": faint},
            "marker": {"color": faint, "size": 3.5},
        }
        traces.append({**path, **line, **numbered.get(trail.label, {}), "cut": "until"})
        traces.append({**path, "mode": "markers", "cut": "at", "marker": mark(style, 13)})
    return plane_figure(traces, plane)


def _epoch_texts(plane: Plane) -> dict[str, Json]:
    """Return the numbers of the first and the middle epoch of paths that are shown first."""
    places = [
        (path, place)
        for path in plane.lifted()
        if plane.look[path.label].shown_first
        for place in sorted({0, middle_of(path.steps)})
    ]
    notes = [
        _note(path, place, str(path.steps[place]), plane.look[path.label]) for path, place in places
    ]
    texts: dict[str, Json] = {}
    for (path, place), note, side in zip(
        places, notes, note_sides(plane.frame, notes), strict=True
    ):
        written = texts.setdefault(
            path.label,
            {
                "mode": "lines+markers+text",
                "text": [""] * len(path.steps),
                "textposition": ["top right"] * len(path.steps),
                "textfont": {"color": "soft", "size": 10.5},
            },
        )
        if side:
            written["text"][place] = note.text
            written["textposition"][place] = side
    return texts


def paths_in_words(paths: Sequence[Trail]) -> str:
    """Return where each path begins and ends."""
    words = [
        f"{path.label} from error {path.error[0]:.1f}%, ECE {path.ece[0]:.1f}% "
        f"at epoch {path.steps[0]} to {path.end[0]:.1f}%, {path.end[1]:.1f}% "
        f"at epoch {path.steps[-1]}"
        for path in sorted(paths, key=lambda path: path.end[1])
    ]
    return f"Validation error and ECE over the epochs: {first_of(words, '; ')}."
