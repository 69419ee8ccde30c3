"""Least squares and smooth risks in the span of centres, one pass over the rows at a time."""
