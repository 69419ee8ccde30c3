"""Fit and predict: scikit-learn estimators for any kernel."""

from mercer.models.base import KernelEstimator
from mercer.models.ridge import KernelRidge, KernelRidgeClassifier
from mercer.models.table import TableClassifier, TableRegressor

__all__ = [
    "KernelEstimator",
    "KernelRidge",
    "KernelRidgeClassifier",
    "TableClassifier",
    "TableRegressor",
]
