"""Sparse Gaussian process regression: many rows, seen through a few inducing points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.linalg import solve_triangular
from sklearn.base import MultiOutputMixin, RegressorMixin

from mercer.engines import pick, require_memory, solve_rows, spread
from mercer.estimator import r_squared
from mercer.models.gp.regression import ProcessAnswers, prior_covariance, prior_variance
from mercer.models.gp.search import TOL
from mercer.models.gp.sparse.fit import SparseRegressorFit

if TYPE_CHECKING:
    from mercer.kernels import Kernel


class SparseGaussianProcessRegressor(
    ProcessAnswers, MultiOutputMixin, RegressorMixin, SparseRegressorFit
):
    r"""Gaussian process regression through m inducing points, in O(nm²).

    The function is known through its values at m points; with Q = K_fu K_uu⁻¹ K_uf in place of K,
    noise σ² and the letters of `GaussianProcessRegressor`,

    * ``method="vfe"`` maximises Titsias' bound log N(y | 0, Q + σ²I) − tr(K − Q)/2σ², which is
      never above the log evidence, and equal to it where the inducing points are all rows;
    * ``method="fitc"`` maximises log N(y | 0, Q + diag(K − Q) + σ²I), the evidence of another
      model, whose noise is larger where the inducing points say little.

    Rows stream by in tiles inside ``mercer.config(memory=...)``: the n × m matrix is never stored.
    One evaluation with its gradient costs 3nm² flops for "vfe", 7nm² for "fitc", and for "vfe" 6nm²
    where K_uu is so nearly singular that tiles are whitened one by one.

    Parameters
    ----------
    kernel : Kernel, str, callable or None, default=None
        The prior covariance of the function; None is ``1.0 * RBF("median")``. Words such as
        "median" are taken from the data, and tuned from there.
    noise : "fit", float or array of shape (n,), default="fit"
        Variance of the noise, in the units of y², positive. "fit" tunes it. A number is where the
        search starts, and is kept where there is none (or ``fixed=("noise",)``). An array has the
        known variance of each row, and is never tuned.
    n_inducing : int, default=200
        How many inducing points; all different rows where there are no more.
    method : {"vfe", "fitc"}, default="vfe"
        What is maximised.
    inducing : "pivoted", "optimize" or collection of points, default="pivoted"
        "pivoted": rows, by randomly pivoted Cholesky of the kernel matrix, under the start, under
        the kernel of largest exact evidence of some 300 rows, and once more under the kernel found;
        fewer than asked where these leave nothing but a tiny part of the noise. "optimize": points
        are also moved together with the parameters, never to a smaller objective, which needs
        vectors, a kernel with a gradient in x, and some hundred evaluations; ``method="fitc"`` is
        better than "vfe" at noise that varies only then. Or the points themselves, which are kept,
        such as centres of k-means; with a precomputed kernel positions of rows.
    optimizer : "lbfgs" or None, default="lbfgs"
        Whether to tune kernel and noise (and, with ``inducing="optimize"``, the points).
    n_restarts : int, default=0
        Further starts of the search, drawn at random.
    normalize_y : bool, default=True
        Whether the covariance is that of ``z = (y - y_mean_) / y_scale_``. Everything else is in
        the units of y: predictions, samples, noise, bound.
    fixed : tuple of str, default=()
        Parameters to hold, as for `GaussianProcessRegressor`.
    bounds : dict of str to (low, high), optional
        Limits of parameters.
    priors : dict of str to frozen distributions of scipy.stats, optional
        Densities of parameters; the search maximises the objective plus their logarithms.
    max_iter : int, default=100
        Steps of each descent of the search; √v times as many where v coordinates of points and
        parameters move together.
    tol : float, default=1e-3
        Gain of the objective in nats below which the search ends; of moving points that of ten
        steps, for each point.
    random_state : int, RandomState, Generator or None, default=None
        For pivots, parts of the rows and restarts; None is the same in every fit. Pivots are looked
        for among 20 000 rows, or fewer where ``mercer.config(memory=...)`` does not hold those, and
        other rows make other pivots.

    Attributes
    ----------
    inducing_points_ : collection of m points
        The inducing points u, also ``X_fit_``; positions of rows when precomputed.
    kernel_ : Kernel
        The covariance found: that of z, so the prior covariance of y is ``y_scale_**2 * kernel_``.
    noise_ : float, or array
        Variance of the noise in the units of y²; (n,) where it was given so, (n_outputs,) of
        several outputs that were normalised each by itself.
    scaled_noise_ : float or array of shape (n,)
        The same in units of z².
    noise_level_ : float
        Its weighted mean over the rows: the noise of a new observation in units of z².
    dual_coef_ : array of shape (m,) or (m, n_outputs)
        The posterior mean is ``Σⱼ dual_coef_[j] k(uⱼ, ·) + intercept_``.
    intercept_ : float or array of shape (n_outputs,)
        The mean of y, 0 without `normalize_y`.
    y_mean_, y_scale_ : arrays of shape (n_outputs,)
        Of the targets.
    inducing_factor_, posterior_factor_ : arrays of shape (m, m)
        Cholesky factors of K_uu and of I + APAᵀ, A = L⁻¹K_uf, P the precisions of the rows.
    theta_, theta_names_ : array of shape (p,), list of str
        Logarithms of the parameters that may be tuned, that of the noise last.
    log_marginal_likelihood_value_ : float
        The bound, or FITC's evidence, of y, summed over the outputs, without `priors`.
    log_evidence_upper_ : float or None
        An upper bound of the exact log evidence at the same parameters; None for "fitc".
    search_ : Search or None
        How the parameters were found; None without a search.
    solution_ : Solution
        Certificate: relative residual of the equations of the mean, recomputed;
        ``extra["jitter"]`` is what had to be added to the diagonal of K_uu, normally 0, and
        ``extra["evidence_gap"]`` the upper less the lower bound of the evidence at the parameters
        found. Its message tells of a fit that takes nearly all for noise: there the gap is small,
        and yet more inducing points may find other parameters.
    function_ : Function
        The posterior mean.

    Notes
    -----
    A model holds inducing points, not rows, and so does its file; `log_marginal_likelihood` at
    other parameters needs the rows and answers only in the process that fitted the model.

    A sample weight w is the row given w times. White noise belongs to `noise`: as a part of the
    kernel it is no function that inducing points could know.

    References
    ----------
    Titsias, "Variational learning of inducing variables in sparse Gaussian processes", 2009;
    Snelson & Ghahramani, "Sparse Gaussian processes using pseudo-inputs", 2005; Burt, Rasmussen
    & van der Wilk, "Convergence of sparse variational inference in Gaussian processes
    regression", 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RBF, SparseGaussianProcessRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 6, (500, 1))
    >>> y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(500)
    >>> model = SparseGaussianProcessRegressor(1.0 * RBF(), n_inducing=15).fit(X, y)
    >>> mean, std = model.predict([[np.pi / 2], [20.0]], return_std=True)
    >>> mean[:1].round(1), std[:1].round(1), bool(std[1] > 0.5)
    (array([1.]), array([0.1]), True)
    >>> model.solution_.extra["evidence_gap"] < 1.0
    True
    """

    score = r_squared

    def __init__(
        self,
        kernel: Any = None,
        noise: Any = "fit",
        n_inducing: int = 200,
        method: str = "vfe",
        *,
        inducing: Any = "pivoted",
        optimizer: Any = "lbfgs",
        n_restarts: int = 0,
        normalize_y: bool = True,
        fixed: Any = (),
        bounds: Any = None,
        priors: Any = None,
        max_iter: int = 100,
        tol: float = TOL,
        random_state: Any = None,
    ):
        self.kernel = kernel
        self.noise = noise
        self.n_inducing = n_inducing
        self.method = method
        self.inducing = inducing
        self.optimizer = optimizer
        self.n_restarts = n_restarts
        self.normalize_y = normalize_y
        self.fixed = fixed
        self.bounds = bounds
        self.priors = priors
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    @property
    def inducing_points_(self) -> Any:
        """The inducing points."""
        self._require_fit()
        return self.X_fit_

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
        SparseGaussianProcessRegressor
            The fitted model itself.
        """
        with self._all_or_nothing():
            self._rows = None
            self._fit(X, y, sample_weight)
        return self

    # -- moments ------------------------------------------------------------------------------
    def _noise_level(self) -> float:
        return float(self.noise_level_)

    def _mean(self, X: Any, m: int) -> np.ndarray:
        if not self._is_fitted():
            return np.zeros((m, 1))
        X, points = self.kernel_.domain.match(X, self.X_fit_)
        engine = pick(X)
        values = engine.to_numpy(engine.matmul(self.kernel_, X, points, self.dual_coef_))
        return self._finite(values.reshape(m, -1) + self.intercept_)

    def _variance(self, kernel: Kernel, X: Any, m: int) -> np.ndarray:
        """Return k(x, x) − ‖L⁻¹k‖² + ‖L_B⁻¹L⁻¹k‖²."""
        variance = prior_variance(kernel, X, type(self).__name__)
        if not self._is_fitted():
            return variance
        L, LB = (np.asfortranarray(A) for A in (self.inducing_factor_, self.posterior_factor_))
        bound = kernel._bind(*kernel.domain.match(X, self.X_fit_))

        def step(rows: slice, T: np.ndarray) -> np.ndarray:
            solve_rows(L, T)
            part = variance[rows] - np.einsum("ij,ij->i", T, T)
            solve_rows(LB, T)
            return part + np.einsum("ij,ij->i", T, T)

        out = spread(bound, np.empty(m), step)
        return np.maximum(out, 0.0, out=out)

    def _covariance(self, kernel: Kernel, X: Any) -> np.ndarray:
        out = prior_covariance(kernel, X, type(self).__name__)
        if not self._is_fitted():
            return out
        n, m = len(out), len(self.inducing_factor_)
        require_memory(
            8 * n * (2 * n + 2 * m), f"{type(self).__name__}: {n} new points", "Give fewer points"
        )
        X, points = kernel.domain.match(X, self.X_fit_)
        cross = np.asarray(kernel._bind(X, points).tile(slice(0, n), slice(0, m)), dtype=float)
        A = solve_triangular(self.inducing_factor_, cross.T, lower=True)
        out -= A.T @ A
        A = solve_triangular(self.posterior_factor_, A, lower=True)
        out += A.T @ A
        diagonal = np.einsum("ii->i", out)
        np.maximum(diagonal, 0.0, out=diagonal)
        return out
