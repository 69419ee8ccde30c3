from mercer.models.gp.sparse.evidence import MATRICES as MATRICES
from mercer.models.gp.sparse.regressor import (
    SparseGaussianProcessRegressor as SparseGaussianProcessRegressor,
)
