"""Gaussian processes on inducing points."""
