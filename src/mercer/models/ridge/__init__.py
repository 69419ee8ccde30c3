"""Kernel ridge regression, its classifier and its structured outputs."""
