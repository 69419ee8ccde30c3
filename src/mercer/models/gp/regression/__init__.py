"""Gaussian process regression: evidence, posterior, left-out rows, updates."""
