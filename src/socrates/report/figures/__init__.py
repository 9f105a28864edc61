"""Figures: for each a data function, which tests check with numbers, and a draw function that takes axes."""
