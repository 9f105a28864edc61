"""Socrates inside other frameworks, one file each: transformers.py and lightning.py.

Each imports its framework, so `socrates` itself imports none of them.
"""
