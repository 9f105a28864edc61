"""Classifiers that know what they do not know."""
