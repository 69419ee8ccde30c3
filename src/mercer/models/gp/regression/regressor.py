"""Gaussian process regression, its parameters found by the evidence."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin

from mercer.engines import pick
from mercer.engines.device import follows_data
from mercer.errors import InvalidInput
from mercer.estimator import r_squared
from mercer.models.gp.base import GaussianProcess, as_rng
from mercer.models.gp.regression.data import new_noise, prior_noise
from mercer.models.gp.regression.fit import RegressorFit
from mercer.models.gp.regression.left_out import LeftOutMixin
from mercer.models.gp.regression.posterior import (
    Posterior,
    SlopeMixin,
    draw,
    prior_covariance,
    prior_variance,
    require_diagonal,
)
from mercer.models.gp.regression.updates import UpdateMixin
from mercer.models.gp.search import TOL
from mercer.solvers import check_index

if TYPE_CHECKING:
    from mercer.kernels import Kernel

# ---- What a Gaussian process says about new points: means, deviations, covariances and samples.


class ProcessAnswers(GaussianProcess):
    """Answers in the units of y, from moments of the function in units of z.

    A subclass defines ``_mean``, ``_variance``, ``_covariance`` and ``_noise_level``; before `fit`
    they are those of the prior.
    """

    noise: Any
    y_scale_: np.ndarray

    def _is_fitted(self) -> bool:
        return "dual_coef_" in vars(self)

    @abstractmethod
    def _mean(self, X: Any, m: int) -> np.ndarray:
        """Return the mean at m canonical points in the units of y, shape (m, t)."""

    @abstractmethod
    def _variance(self, kernel: Kernel, X: Any, m: int) -> np.ndarray:
        """Return the variances (m,) of the function in units of z²."""

    @abstractmethod
    def _covariance(self, kernel: Kernel, X: Any) -> np.ndarray:
        """Return the covariance (m, m) of the function in units of z²."""

    @abstractmethod
    def _noise_level(self) -> float:
        """Return the variance of the noise of a new observation in units of z², after `fit`."""

    def _moments(self, kernel: Kernel, X: Any, m: int) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and variance, where one pass over the kernel values may serve both."""
        return self._mean(X, m), self._variance(kernel, X, m)

    def _scale(self) -> np.ndarray:
        """Return the unit of z in each output."""
        return self.y_scale_ if self._is_fitted() else np.ones(1)

    # -- the answers --------------------------------------------------------------------------
    @follows_data
    def predict(
        self,
        X: Any,
        return_std: bool = False,
        return_cov: bool = False,
        *,
        with_noise: Any = True,
    ) -> Any:
        """Return the mean at each row of X, and how uncertain it is.

        Parameters
        ----------
        X : collection of m points
            New points; when precomputed, their kernel values with the training points, of which
            the mean alone follows.
        return_std : bool, default=False
            Whether to return the standard deviation too.
        return_cov : bool, default=False
            Whether to return the covariance of all m points too.
        with_noise : bool or array of shape (m,), default=True
            Whether these are of a new observation y, noise included, or of the function; or the
            variances of the noise of the new rows. True adds, where every training row has a
            variance of its own, their weighted mean, wherever the new row is.

        Returns
        -------
        mean : array of shape (m,) or (m, n_outputs)
            Before `fit` 0.
        std : array of shape (m,) or (m, n_outputs)
            With `return_std`. Before `fit` that of the prior, with the noise if it is a number.
        cov : array of shape (m, m) or (m, m, n_outputs)
            With `return_cov`.
        """
        owner = f"{type(self).__name__}.predict"
        if return_std and return_cov:
            raise InvalidInput(
                f"{owner}: return_std and return_cov; ask for one, the standard deviations are the "
                "roots of the covariance's diagonal."
            )
        kernel, X = self._new_points(X)
        m = kernel.domain.size(X)
        if not (return_std or return_cov):
            new_noise(with_noise, m, owner)
            return self._cut(self._mean(X, m))
        noise = self._noise_at(with_noise, m, owner)
        if return_std:
            mean, variance = self._moments(kernel, X, m)
            spread = np.sqrt(variance[:, None] * self._scale() ** 2 + noise)
            return self._cut(mean), self._cut(spread)
        cov = self._covariance(kernel, X)[:, :, None] * self._scale() ** 2
        np.einsum("iij->ij", cov)[...] += noise
        return self._cut(self._mean(X, m)), self._cut(cov)

    @follows_data
    def posterior_variance(self, X: Any) -> np.ndarray:
        """Return the variance of the function at each row of X, without noise.

        Parameters
        ----------
        X : collection of m points
            New points.

        Returns
        -------
        array of shape (m,) or (m, n_outputs)
            In the units of y².
        """
        kernel, X = self._new_points(X)
        self._noise_at(False, 1, f"{type(self).__name__}.posterior_variance")
        variance = self._variance(kernel, X, kernel.domain.size(X))
        return self._cut(variance[:, None] * self._scale() ** 2)

    @follows_data
    def sample_y(
        self, X: Any, n_samples: int = 1, random_state: Any = 0, *, with_noise: Any = True
    ) -> np.ndarray:
        """Return joint draws at the rows of X; before `fit` from the prior.

        Parameters
        ----------
        X : collection of m points
            Where.
        n_samples : int, default=1
            How many draws.
        random_state : int, RandomState, Generator or None, default=0
            Source of randomness; the same number gives the same draws.
        with_noise : bool or array of shape (m,), default=True
            Whether draws are of observations or of the function, as for `predict`.

        Returns
        -------
        array of shape (m, n_samples) or (m, n_outputs, n_samples)
            One draw a column.
        """
        owner = f"{type(self).__name__}.sample_y"
        n = check_index(n_samples, "n_samples", owner, 1)
        rng = as_rng(random_state, owner)
        kernel, X = self._new_points(X)
        m = kernel.domain.size(X)
        noise, mean, scale = self._noise_at(with_noise, m, owner), self._mean(X, m), self._scale()
        t = len(scale)
        paths = draw(self._covariance(kernel, X), rng, n * t).reshape(m, t, n)
        out = mean[:, :, None] + scale[:, None] * paths
        if noise.any():
            out += np.sqrt(noise)[:, :, None] * rng.standard_normal((n, t, m)).T
        return out if self._many() else out[:, 0]

    @follows_data
    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the coefficient of determination R² of the mean, after `fit`.

        Parameters
        ----------
        X : collection of m points, RowBlocks, or dask array or frame
            Points.
        y : array of shape (m,) or (m, n_outputs), optional
            Their targets; of `RowBlocks` those that the blocks carry.
        sample_weight : array of shape (m,), optional
            Weights.

        Returns
        -------
        float
            1 for perfect predictions, 0 for those no better than the mean of y.
        """
        self._require_fit()
        return float(super().score(X, y, sample_weight))  # type: ignore[misc]

    # -- shapes and units ---------------------------------------------------------------------
    def _new_points(self, X: Any) -> tuple[Kernel, Any]:
        """Return the kernel, that of the prior before fit, and checked points."""
        if self._is_fitted():
            return self.kernel_, self._check_X(X, self.kernel_, reset=False)
        kernel = self._kernel()
        X = self._check_X(X, kernel, reset=False)
        return kernel.fit_params(X), X

    def _noise_at(self, with_noise: Any, m: int, owner: str) -> np.ndarray:
        """Return the variances of the noise at m new rows in the units of y², shape (m, t)."""
        t = len(self._scale())
        asked = new_noise(with_noise, m, owner)
        mean = getattr(self, "mean", "zero")
        if not self._is_fitted() and mean != "zero":
            raise InvalidInput(
                f"{owner}: mean={mean!r} has a flat prior, which has no variance before fit; fit "
                "first, or use mean='zero'."
            )
        if isinstance(asked, np.ndarray):
            return np.repeat(asked[:, None], t, axis=1)
        if not asked:
            return np.zeros((m, t))
        if not self._is_fitted():
            return np.full((m, t), prior_noise(self.noise, owner))
        return np.broadcast_to(self._noise_level() * self._scale() ** 2, (m, t))

    def _many(self) -> bool:
        """Whether y had outputs, as columns."""
        return self._is_fitted() and self.dual_coef_.ndim == 2

    def _cut(self, values: np.ndarray) -> np.ndarray:
        return values if self._many() else values[..., 0]


# ---- regressor ----


class GaussianProcessRegressor(
    ProcessAnswers,
    MultiOutputMixin,
    RegressorMixin,
    LeftOutMixin,
    UpdateMixin,
    SlopeMixin,
    RegressorFit,
):
    r"""Gaussian process regression: a distribution over functions, and what the data leave of it.

    y = f(x) + e with f a Gaussian process of covariance k and e noise of variance σ². With
    C = K + σ²I the prediction at x is Gaussian with mean kᵀC⁻¹y and variance
    k(x, x) + σ² − kᵀC⁻¹k, k = k(X, x). The mean is that of `KernelRidge` with α = σ².

    Parameters of the kernel and the noise are chosen by the log evidence
    log p(y) = −½[yᵀC⁻¹y + log\|C\| + n log 2π], from a start on a part of the rows where there are
    many. One evaluation with its gradient costs n³ flops and one n×n matrix. Of tensors, and with
    ``mercer.config(engine="torch")``, all of it is computed on their device; answers are arrays.

    Parameters
    ----------
    kernel : Kernel, str, callable or None, default=None
        The prior covariance of the function; None is ``1.0 * RBF("median")``. Words such as
        "median" are taken from the data, and tuned from there.
    noise : "fit", float or array of shape (n,), default="fit"
        Variance of the noise, in the units of y², also with `normalize_y`: for y of a standard
        deviation of 1000, 0.01 is hardly any. "fit" tunes it. A number is where the search
        starts, and is kept where there is none (or 0, or ``fixed=("noise",)``); a search from a
        wrong order of magnitude may end elsewhere than one with "fit". An array has the known
        variance of each row, and is never tuned. Of several outputs it may also have one
        variance for each, which is then like a number; as many numbers as rows are of the rows.
    optimizer : "lbfgs" or None, default="lbfgs"
        Whether to tune kernel and noise by the evidence, by L-BFGS-B in the logarithms of the
        parameters. On many rows a part of them comes first, and all rows then take few steps with
        the curvature found there. Without, `bounds` and `priors` are not looked at.
    n_restarts : int, default=0
        Further starts of the search, drawn at random, uniformly in the logarithms: between
        `bounds` where they are given, else up to a factor of 100 from the start.
    normalize_y : bool, default=True
        Whether the covariance is that of ``z = (y - y_mean_) / y_scale_``, as a kernel of variance
        about 1 expects. Everything else is in the units of y: predictions, samples, noise,
        evidence.
    mean : {"zero", "constant", "linear"}, default="zero"
        The mean of the process: that of y alone (0 without `normalize_y`); or a constant; or a
        linear function of x. Their coefficients have a flat prior, and predictions are as
        uncertain as they are. Columns of x that are constant or depend on those before them have
        the coefficient 0.
    random_state : int, RandomState, Generator or None, default=None
        For restarts; None is the same in every fit.
    fixed : tuple of str, default=()
        Parameters to hold, such as ``("noise", "length_scale")``: names of ``kernel.theta_names``,
        "noise", or "kernel" for all of the kernel. A name without index means all its entries;
        the end of a name will do where only one parameter ends so: "length_scale" for
        "k2__length_scale".
    bounds : dict of str to (low, high), optional
        Limits of parameters by such names; by default ``kernel.bounds`` and at least a factor of
        1000 around the start, and for the noise from 1e-8 times the variance of y (about its
        mean, or about the line of a linear mean) to 1e3 times its mean square about the model's
        mean.
    priors : dict of str to frozen distributions of scipy.stats, optional
        Densities of parameters by such names, of their values, not of their logarithms. The
        search maximises the evidence times these, inside their supports.
    max_iter : int, default=100
        Steps of each descent of the search.
    tol : float, default=1e-3
        Gain of log evidence below which the search ends.

    Attributes
    ----------
    kernel_ : Kernel
        The covariance found: that of z, so the prior covariance of y is ``y_scale_**2 * kernel_``.
    noise_ : float, or array
        Variance of the noise in the units of y²; (n,) where it was given so, (n_outputs,) of
        several outputs that were normalised each by itself.
    scaled_noise_ : float or array of shape (n,)
        The same in units of z².
    X_fit_, sample_weight_ : collection, array of shape (n,) or None
        The rows of positive weight.
    y_fit_ : array of shape (n,) or (n, n_outputs)
        Their targets, as given.
    y_mean_, y_scale_ : arrays of shape (n_outputs,)
        Of the targets. Several outputs have a scale each, or scales in proportion to the noise
        where that is not tuned, for in units of z they share it.
    dual_coef_ : array of shape (n,) or (n, n_outputs)
        The coefficients C⁻¹(y − mean).
    intercept_ : float or array of shape (n_outputs,)
        The constant part of the mean.
    mean_coef_ : array of shape (d,) or (d, n_outputs), or None
        Slopes of the mean; None unless it is linear.
    basis_center_, basis_scale_, basis_coef_ : arrays or None
        The basis (1, (x − center)/scale) of the mean and its coefficients in units of z.
    theta_, theta_names_ : array of shape (p,), list of str
        Logarithms of the parameters that may be tuned, that of the noise last.
    log_marginal_likelihood_value_ : float
        The log evidence of y, summed over the outputs, without `priors`.
    search_ : Search or None
        How the parameters were found; None without a search.
    solution_ : Solution
        Certificate: residual of C·a = y − mean relative to y; ``extra["jitter"]`` is what had to be
        added to the diagonal, normally 0.
    function_ : Function
        The posterior mean, without its linear part.

    Notes
    -----
    A sample weight w divides the noise of its row; the evidence is that of the row given w times.
    Rows given many times with the same y are proof that there is no noise: large weights drive a
    fitted noise to its lower bound. Weights that are importances want a mean of 1, or a noise that
    is held.

    Several outputs share kernel and noise (in units of z), and are independent; for correlated
    ones put the output into x and use a kernel on both: `mercer.stack_outputs`, `mercer.Coregion`.
    Outputs that do not vary do not count in the search.

    Targets that do not vary beyond what the mean explains, as one row or a constant y, have no
    largest evidence: then there is no search, the parameters are those of the start, `y_scale_` is
    1 if y is constant, and ``search_.message`` says so. Where the kernel does not see the data (its
    values are all alike, or 0 beside the diagonal) the search begins at median distances too; where
    y is in other units than the kernel (without `normalize_y`), at an amplitude like that of y.

    Before `fit`, `predict` and `sample_y` answer with the prior.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RBF, GaussianProcessRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = np.linspace(0, 6, 40)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(40)
    >>> model = GaussianProcessRegressor(1.0 * RBF()).fit(X, y)
    >>> mean, std = model.predict([[3.0], [20.0]], return_std=True)
    >>> std.round(1)    # where the data are, and far from them
    array([0.1, 0.8])
    >>> round(float(np.sqrt(model.noise_)), 2)
    0.07
    """

    score = r_squared

    def __init__(
        self,
        kernel: Any = None,
        noise: Any = "fit",
        optimizer: Any = "lbfgs",
        n_restarts: int = 0,
        normalize_y: bool = True,
        mean: str = "zero",
        random_state: Any = None,
        *,
        fixed: Any = (),
        bounds: Any = None,
        priors: Any = None,
        max_iter: int = 100,
        tol: float = TOL,
    ):
        self.kernel = kernel
        self.noise = noise
        self.optimizer = optimizer
        self.n_restarts = n_restarts
        self.normalize_y = normalize_y
        self.mean = mean
        self.fixed = fixed
        self.bounds = bounds
        self.priors = priors
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    @follows_data
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : collection of n points
            Vectors, frames, or what the kernel accepts; the Gram matrix when precomputed.
        y : array of shape (n,) or (n, n_outputs)
            Targets.
        sample_weight : float or array of shape (n,), optional
            Weights; a weight of 2 is the row given twice, 0 the row left out.

        Returns
        -------
        GaussianProcessRegressor
            The fitted model itself.
        """
        with self._all_or_nothing():
            self._gaussian_cache = None
            self._fit(X, y, sample_weight)
        return self

    # -- moments of the function in units of z ------------------------------------------------
    def _posterior(self) -> Posterior:
        owner = type(self).__name__
        require_diagonal(self.kernel_, owner)
        return Posterior(self.kernel_, self.X_fit_, self._fit_state(), self._basis(), owner)

    def _variances(self, kernel: Any, X: Any, coef: Any = None) -> tuple[Any, np.ndarray]:
        if not self._is_fitted():
            return None, prior_variance(kernel, X, type(self).__name__)
        return self._posterior().moments(X, coef)

    def _variance(self, kernel: Any, X: Any, m: int) -> np.ndarray:
        return self._variances(kernel, X)[1]

    def _covariance(self, kernel: Any, X: Any) -> np.ndarray:
        if not self._is_fitted():
            return prior_covariance(kernel, X, type(self).__name__)
        return self._posterior().covariance(X)

    # -- in the units of y --------------------------------------------------------------------
    def _mean(self, X: Any, m: int) -> np.ndarray:
        """Return the mean at canonical points, shape (m, t)."""
        if not self._is_fitted():
            return np.zeros((m, 1))
        X, points = self.kernel_.domain.match(X, self.X_fit_)
        engine = pick(X)
        values = engine.to_numpy(engine.matmul(self.kernel_, X, points, self.dual_coef_))
        return self._finite(values.reshape(m, -1) + self._explicit_mean(X, m))

    def _moments(self, kernel: Any, X: Any, m: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean (m, t) in units of y and the variance (m,) of the function in z's."""
        if not self._is_fitted():
            return np.zeros((m, 1)), self._variances(kernel, X)[1]
        coef = self.dual_coef_.reshape(len(self.dual_coef_), -1)
        values, variance = self._variances(kernel, X, coef)
        return self._finite(values + self._explicit_mean(X, m)), variance

    def _explicit_mean(self, X: Any, m: int) -> np.ndarray:
        basis = self._basis()
        if basis is None or basis.scale is None:
            return np.broadcast_to(self.intercept_, (m, len(self.y_mean_)))
        return self.y_mean_ + self.y_scale_ * (basis.columns(X, m) @ self.basis_coef_)

    def _noise_level(self) -> float:
        every = np.broadcast_to(self.scaled_noise_, len(self.y_fit_))
        return float(np.average(every, weights=self.sample_weight_))


# Messages of Python about wrong arguments name the class that users know, not the file's mixin.
for _verb in ("loo", "loo_log_predictive", "add", "remove", "mean_gradient", "variance_gradient"):
    getattr(GaussianProcessRegressor, _verb).__qualname__ = f"GaussianProcessRegressor.{_verb}"
