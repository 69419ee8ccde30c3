"""Gaussian processes: regression, classification and sparse regression, tuned by their evidence."""

from mercer.models.gp.classifier import GaussianProcessClassifier
from mercer.models.gp.regressor import GaussianProcessRegressor
from mercer.models.gp.sparse import SparseGaussianProcessRegressor
from mercer.models.gp.stacking import for_output, stack_outputs

__all__ = [
    "GaussianProcessClassifier",
    "GaussianProcessRegressor",
    "SparseGaussianProcessRegressor",
    "for_output",
    "stack_outputs",
]
