"""Sparse weights on prototypes."""
