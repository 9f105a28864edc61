"""Figures: one file each, with data functions, which tests check with numbers, and the ink that shows them.

A file has `drawings`, for PDF and PNG; `charts`, for the page; and `SECTION`, its place there. Adding a figure is a
file and a line here.
"""

from . import curves, evolution, pareto, reliability, scaling, unknown

FIGURES = (pareto, reliability, curves, evolution, unknown, scaling)  # as they stand on the page
