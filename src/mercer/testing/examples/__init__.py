"""Kernels, points and estimators to test with."""
