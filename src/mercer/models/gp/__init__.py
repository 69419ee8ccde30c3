"""Gaussian processes: regression, classification, sparse regression."""
