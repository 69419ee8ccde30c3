"""Fit and predict: scikit-learn estimators for any kernel."""

from mercer.models.base import KernelEstimator
from mercer.models.ridge import KernelRidge, KernelRidgeClassifier

__all__ = ["KernelEstimator", "KernelRidge", "KernelRidgeClassifier"]
