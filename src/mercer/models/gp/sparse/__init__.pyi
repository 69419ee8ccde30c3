from mercer.models.gp.sparse.regressor import (
    SparseGaussianProcessRegressor as SparseGaussianProcessRegressor,
)
