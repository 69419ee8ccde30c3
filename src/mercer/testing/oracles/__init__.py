"""Definitions in plain Python, written apart from the fast code."""
