"""Gaussian processes: regression, classification and sparse regression, tuned by their evidence."""

from mercer.models.gp.base import for_output, stack_outputs
from mercer.models.gp.classes.classifier import GaussianProcessClassifier
from mercer.models.gp.regression.regressor import GaussianProcessRegressor
from mercer.models.gp.sparse.regressor import SparseGaussianProcessRegressor

__all__ = [
    "GaussianProcessClassifier",
    "GaussianProcessRegressor",
    "SparseGaussianProcessRegressor",
    "for_output",
    "stack_outputs",
]
