"""Gaussian processes: regression, classification and sparse regression, tuned by their evidence."""

from mercer.models.gp.regressor import GaussianProcessRegressor

__all__ = ["GaussianProcessRegressor"]
