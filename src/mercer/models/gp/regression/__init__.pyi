from mercer.models.gp.regression.data import (
    RESIDUAL as RESIDUAL,
    Problem as Problem,
    fits_noise as fits_noise,
    noise_limits as noise_limits,
)
from mercer.models.gp.regression.posterior import (
    prior_covariance as prior_covariance,
    prior_variance as prior_variance,
    require_diagonal as require_diagonal,
)
from mercer.models.gp.regression.process import ProcessRegressor as ProcessRegressor
from mercer.models.gp.regression.regressor import (
    GaussianProcessRegressor as GaussianProcessRegressor,
)
