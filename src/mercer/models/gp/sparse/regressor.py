"""Sparse Gaussian process regression: many rows, seen through a few inducing points."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.linalg import solve_triangular
from sklearn.base import MultiOutputMixin, RegressorMixin

from mercer import checks, state
from mercer.checks import check_index
from mercer.errors import InvalidInput, said, speaks, who
from mercer.estimator import ONLY, Plan, study_of
from mercer.lapack import solve_rows
from mercer.memory import require_memory
from mercer.models.gp.base import expected_evaluations, search_options, search_rng
from mercer.models.gp.regression import (
    RESIDUAL,
    Problem,
    ProcessRegressor,
    prior_covariance,
    prior_variance,
)
from mercer.models.gp.search import TOL, Search
from mercer.models.gp.sparse.evidence import MATRICES, SparseFit
from mercer.models.gp.sparse.points import check_sample, cross
from mercer.models.gp.sparse.search import METHODS, SparseSearch
from mercer.models.gp.starts import warn_of_end
from mercer.operators import gram_of, spread
from mercer.solvers import Cost, Solution

if TYPE_CHECKING:
    from mercer.kernels import Kernel


NOISE = 0.9  # part of the mean square of y that is noise where nothing was found


def plan_inducing(model: Any, X: Any, y: Any) -> Plan:
    """Return the plan of `SparseGaussianProcessRegressor`: passes over rows and m inducing ones."""
    study = study_of(model, X, y, random_state=model.random_state)
    facts = study.facts
    n, t, given = facts.n, facts.outputs, model.inducing
    asked = model.n_inducing if isinstance(given, str) else len(given)
    m = min(check_index(asked, "n_inducing", 1), n)
    needed = 8 * (MATRICES * m * m + n * (t + 3))  # what the fit asks for
    more = 8 * (6 * n * (t + 1) + 3 * m * m) + 16.0 * n * m + facts.vectors
    evaluations = expected_evaluations(model) if model.optimizer else 1.0
    time = study.seconds(4.0 * n * m * m * evaluations, entries=4.0 * n * m * evaluations)
    plan = study.plan("inducing", Cost(needed, time, more), study.left(m), m)
    return replace(plan, why=f"{ONLY} {m} inducing points stand for {n}.")


class SparseGaussianProcessRegressor(MultiOutputMixin, RegressorMixin, ProcessRegressor):
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
    noise : "fit", (low, high), float or array of shape (n,), default="fit"
        Variance of the noise, in the units of y², positive. "fit" tunes it, a tuple of two numbers
        tunes it between these. A number is kept as it is, and so is an array, the known variance
        of each row.
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
    optimizer : "lbfgs", callable or None, default="lbfgs"
        Whether to tune kernel and noise (and, with ``inducing="optimize"``, the points). A function
        is called as by `GaussianProcessRegressor`; it does not move points.
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

    _plan = plan_inducing
    _state = (
        state.SOLVED
        | {
            "scaled_noise_": state.Floats("rows?", above=0),
            "noise_level_": state.Floats(above=0),
            "y_mean_": state.Floats("t"),
            "y_scale_": state.Floats("t", above=0),
            "inducing_factor_": state.Triangle("n"),
            "posterior_factor_": state.Triangle("n"),
            "search_": state.Maybe(state.Such(Search)),
        }
        | state.others("noise_", "theta_", "theta_names_", needed=True)
        | state.others("log_marginal_likelihood_value_", "log_evidence_upper_", needed=True)
    )
    _parameters = {
        "method": checks.Word(*METHODS),
        "n_inducing": checks.SOME,
        "inducing": checks.Word("pivoted", "optimize", points=True, says="give {} or the points"),
    }
    mean = "zero"
    score = ProcessRegressor.score  # not that of scikit-learn's mixin
    _rows: Any = None  # the rows of the fit, for `log_marginal_likelihood`

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

    @speaks
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
        with self._all_or_nothing(X):
            self._rows = None
            self._fit(X, y, sample_weight)
        return self

    # -- fit ----------------------------------------------------------------------------------
    def _fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        if isinstance(self.noise, str) and self.noise != "fit":
            raise InvalidInput(
                f"{type(self).__name__}: noise={self.noise!r}; give 'fit', limits in a tuple (low, "
                "high), a variance > 0, or one for each row."
            )
        problem, parameters, noise = self._prepare(X, y, sample_weight)
        searched = problem.searched()
        sparse, unit = self._sparse_search(searched), searched.targets.variance_unit()
        kernel, level = parameters.kernel, parameters.noise
        search, chosen = None, None
        check_sample(kernel, problem.X, sparse.seed)
        if self.optimizer is not None and len(parameters.theta):
            search, chosen = sparse.run(
                parameters,
                noise if isinstance(noise, np.ndarray) else None,
                rng=np.random.RandomState(sparse.seed),
                **search_options(self),
            )
            kernel, level = parameters.read(search.theta)
            check_sample(kernel, problem.X, sparse.seed)
        scaled = (noise if level is None else level) / unit
        chosen = sparse.choose(kernel, scaled) if chosen is None else chosen
        evidence = (sparse if searched is problem else self._sparse_search(problem)).evidence()
        fit = evidence.posterior(kernel, scaled, chosen.points)
        self._keep(problem, kernel, scaled, chosen.points, search, fit)
        if search is not None:
            warn_of_end(parameters, search.theta, problem.X)

    def _start(self, noise: Any, problem: Problem) -> float | None:
        if not isinstance(noise, str) and not np.all(np.asarray(noise) > 0):
            raise InvalidInput(
                f"{who()}: noise holds 0, by which its objective would divide; give a "
                "variance > 0, however small, or use GaussianProcessRegressor."
            )
        self._check_inducing(problem)  # before anything is computed
        return super()._start(noise, problem)

    def _sparse_search(self, problem: Problem) -> SparseSearch:
        m, given = self._check_inducing(problem)
        rng = search_rng(self)
        draw = rng.integers if hasattr(rng, "integers") else rng.randint
        return SparseSearch(problem, self.method, given, m, int(draw(2**31 - 1)))

    def _check_inducing(self, problem: Problem) -> tuple[int, Any]:
        """Return how many points are wanted, and a word or the points, canonical."""
        domain = problem.kernel.domain
        m, given = int(self.n_inducing), self.inducing
        if isinstance(given, str):
            if given == "optimize" and callable(self.optimizer):
                raise InvalidInput(
                    f"{who()}: inducing='optimize' moves points by L-BFGS-B, and optimizer is a "
                    "function; give optimizer='lbfgs', or inducing='pivoted'."
                )
        else:
            given = self._by_name(given, problem.kernel, "inducing")
            given = _check_points(given, problem)
            if domain.size(given) == 0:
                raise InvalidInput(f"{who()}: inducing holds no point; give at least one.")
        size = min(m, len(problem.Y)) if isinstance(given, str) else domain.size(given)
        require_memory(
            8 * MATRICES * size * size,
            f"{who()}: matrices of {size} inducing points",
            "Use a smaller n_inducing",
        )
        return m, given

    def _keep(
        self,
        problem: Problem,
        kernel: Kernel,
        scaled: Any,
        U: Any,
        search: Search | None,
        found: SparseFit,
    ) -> None:
        mean, column = problem.targets.mean, problem.column
        self._store_parameters(problem, kernel, scaled, search)
        self.X_fit_ = kernel.domain.renumber(U, problem.kept)
        every = np.broadcast_to(scaled, len(problem.Y))
        self.noise_level_ = float(np.average(every, weights=problem.weights))
        dual = found.dual * problem.targets.scale
        self.dual_coef_ = np.ascontiguousarray(dual[:, 0] if column else dual)
        self.intercept_ = float(mean[0]) if column else mean
        self.inducing_factor_, self.posterior_factor_ = found.lower, found.posterior
        shift = problem.shift()
        self.log_marginal_likelihood_value_ = found.value + shift
        self.log_evidence_upper_ = None if found.upper is None else found.upper + shift
        self._rows = (problem, scaled, U)
        self.solution_ = self._certificate(problem, found, search)
        self.solution_.unwrap()

    def _certificate(self, problem: Problem, fit: SparseFit, search: Any) -> Solution:
        m = len(fit.dual)
        problems = []
        if fit.residual > RESIDUAL:
            problems.append(
                f"{who()}: the equations of the mean are nearly singular: the relative residual is "
                f"{fit.residual:.2g} (tolerance {RESIDUAL:g}) after a jitter of {fit.jitter:.2g}. "
                "Use fewer inducing points, or more noise"
            )
        elif search is not None and not search.converged:
            problems.append(f"{who()}: the search for parameters {search.message}")
        remark = ""
        wanted = min(int(self.n_inducing), len(problem.Y))
        if isinstance(self.inducing, str) and m < wanted:
            remark = f"{m} inducing points suffice, {wanted} were allowed."
        tuned, some = search is not None and m < len(problem.Y), problem.searched()
        level = self.noise_level_ * some.targets.variance_unit()
        if tuned and problem.varies.any() and level > NOISE * some.unit():
            remark = (
                "Nearly all of y is taken for noise, for which few inducing points are enough: "
                "evidence_gap is that of these parameters. More points may find a function."
            )
        extra = {"jitter": fit.jitter, "n_inducing": m}
        if fit.upper is not None:
            extra["evidence_gap"] = max(0.0, fit.upper - fit.value)
        return Solution(
            value=self.dual_coef_,
            converged=not problems,
            n_iter=0 if search is None else search.n_evaluations,
            residual=fit.residual,
            message=f"{problems[0]}." if problems else remark,
            extra=extra,
        )

    @speaks
    def log_marginal_likelihood(self, theta: Any = None, eval_gradient: bool = False) -> Any:
        """Return the bound (or FITC's evidence) of the training targets, and its gradient.

        In the units of y, summed over the outputs, without the densities of `priors`, and for the
        inducing points of the fit.

        Parameters
        ----------
        theta : array of shape (p,), optional
            Logarithms of the parameters ``theta_names_``; those found when not given.
        eval_gradient : bool, default=False
            Whether to return the gradient in theta too.

        Returns
        -------
        value : float
            The objective.
        gradient : array of shape (p,)
            With `eval_gradient`.
        """
        self._require_fit()
        if theta is None and not eval_gradient:
            return self.log_marginal_likelihood_value_
        if self._rows is None:
            raise InvalidInput(
                f"{who()}.log_marginal_likelihood: a model from a file or a pickle "
                "has its inducing points and not the rows it was fitted to; fit it again."
            )
        problem, scaled, U = self._rows
        parameters = self._current_parameters()
        kernel, level = parameters.read(parameters.theta if theta is None else theta)
        if level is not None:
            scaled = level / problem.targets.variance_unit()
        evidence, shift = self._sparse_search(problem).evidence(), problem.shift()
        if not eval_gradient:
            return evidence.value(kernel, scaled, U) + shift
        value, slope, noise_slope, _ = evidence.value_and_gradient(kernel, scaled, U)
        return value + shift, parameters.pull(slope, noise_slope)

    # -- moments ------------------------------------------------------------------------------
    def _noise_level(self) -> float:
        return float(self.noise_level_)

    def _mean(self, X: Any, m: int) -> np.ndarray:
        if not self._is_fitted():
            return np.zeros((m, 1))
        points = self.kernel_.domain.match(X, self.X_fit_)
        values = gram_of(self.kernel_, *points) @ self.dual_coef_
        return self._finite(values.reshape(m, -1) + self.intercept_)

    @speaks
    def _variance(self, kernel: Kernel, X: Any, m: int) -> np.ndarray:
        """Return k(x, x) − ‖L⁻¹k‖² + ‖L_B⁻¹L⁻¹k‖²."""
        variance = prior_variance(kernel, X)
        if not self._is_fitted():
            return variance
        L, LB = (np.asfortranarray(A) for A in (self.inducing_factor_, self.posterior_factor_))
        bound = cross(kernel, X, self.X_fit_)

        def step(rows: slice, T: np.ndarray) -> np.ndarray:
            solve_rows(L, T)
            part = variance[rows] - np.einsum("ij,ij->i", T, T)
            solve_rows(LB, T)
            return part + np.einsum("ij,ij->i", T, T)

        out = spread(bound, np.empty(m), step)
        return np.maximum(out, 0.0, out=out)

    @speaks
    def _covariance(self, kernel: Kernel, X: Any) -> np.ndarray:
        out = prior_covariance(kernel, X)
        if not self._is_fitted():
            return out
        n, m = len(out), len(self.inducing_factor_)
        require_memory(8 * n * (2 * n + 2 * m), f"{who()}: {n} new points", "Give fewer points")
        K = cross(kernel, X, self.X_fit_).tile(slice(0, n), slice(0, m))
        A = solve_triangular(self.inducing_factor_, np.asarray(K, dtype=float).T, lower=True)
        out -= A.T @ A
        A = solve_triangular(self.posterior_factor_, A, lower=True)
        out += A.T @ A
        diagonal = np.einsum("ii->i", out)
        np.maximum(diagonal, 0.0, out=diagonal)
        return out

    def _explained(
        self, sections: np.ndarray, moves: np.ndarray | None, constant: float = 0.0
    ) -> np.ndarray:
        A = solve_triangular(self.inducing_factor_, sections, lower=True)
        B = solve_triangular(self.posterior_factor_, A, lower=True)
        return np.einsum("ij,ij->j", A, A) - np.einsum("ij,ij->j", B, B)

    # -- copies and files ---------------------------------------------------------------------
    def __getstate__(self) -> dict:
        state = dict(super().__getstate__())
        state.pop("_rows", None)  # a model is small; the rows are the user's
        return state


def _check_points(given: Any, problem: Problem) -> Any:
    """Return given inducing points as a canonical collection that goes with the rows."""
    domain = problem.kernel.domain
    if not domain.holds_points:
        index = np.asarray(given)
        n = len(problem.Y)
        if index.ndim != 1 or index.dtype.kind not in "iu" or index.min(initial=0) < 0:
            raise InvalidInput(
                f"{who()}: with a precomputed kernel inducing points are positions of rows; give "
                f"whole numbers from 0 to {n - 1}."
            )
        if index.max(initial=0) >= n:
            raise InvalidInput(
                f"{who()}: inducing holds the position {index.max()}, and there are {n} rows of "
                "positive weight, counted from 0."
            )
        return index.astype(np.intp)
    try:
        U = domain.check(given, "inducing")
        if getattr(U, "dtype", None) == np.float32:
            U = U.astype(np.float64)
        d, width = (list(getattr(points, "shape", ()))[1:] for points in (problem.X, U))
        if d != width and len(d) == len(width) == 1:
            raise InvalidInput(f"inducing has {width[0]} columns, and the rows have {d[0]}")
        domain.match(problem.X, U)
    except InvalidInput as error:
        text = said(error, type(domain).__name__).rstrip(".")
        raise InvalidInput(
            f"{who()}: {text}. For inducing give points like the rows, 'pivoted' or 'optimize'."
        ) from error
    return U
