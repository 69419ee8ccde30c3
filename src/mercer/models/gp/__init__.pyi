from mercer.models.gp.base import (
    for_output as for_output,
    stack_outputs as stack_outputs,
)
from mercer.models.gp.classes import GaussianProcessClassifier as GaussianProcessClassifier
from mercer.models.gp.parameters import (
    FROZEN as FROZEN,
    prior_of_params as prior_of_params,
    prior_params as prior_params,
)
from mercer.models.gp.regression import (
    GaussianProcessRegressor as GaussianProcessRegressor,
    fits_noise as fits_noise,
    noise_limits as noise_limits,
)
from mercer.models.gp.search import Search as Search
from mercer.models.gp.sparse import SparseGaussianProcessRegressor as SparseGaussianProcessRegressor
from mercer.models.gp.starts import START as START

__all__ = [
    "GaussianProcessClassifier",
    "GaussianProcessRegressor",
    "SparseGaussianProcessRegressor",
    "for_output",
    "stack_outputs",
]
