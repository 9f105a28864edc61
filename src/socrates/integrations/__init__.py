"""Socrates inside other frameworks, one file per framework, which imports it at the top.

Each file needs an extra, which its ImportError names; nothing here is re-exported from `socrates`.
"""
