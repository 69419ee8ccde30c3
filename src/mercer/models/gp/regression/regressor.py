"""Gaussian process regression, its parameters found by the evidence."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin

from mercer import state
from mercer.errors import InvalidInput, speaking_for, speaks, who
from mercer.estimator import FitsLeftOut, check_same_points, follows_data
from mercer.models.gp.base import search_options, search_rng
from mercer.models.gp.regression.data import (
    Basis,
    Problem,
    Targets,
    certificate,
    new_noise,
    warn_of_white,
)
from mercer.models.gp.regression.evidence import GaussianFit
from mercer.models.gp.regression.posterior import (
    Posterior,
    prior_covariance,
    prior_variance,
    require_diagonal,
    variance_slopes,
)
from mercer.models.gp.regression.process import ProcessRegressor, plan_process
from mercer.models.gp.regression.updates import (
    Rows,
    appended,
    each_fit,
    leave_out,
    reduced,
    solved_again,
)
from mercer.models.gp.search import TOL, Search, coarse_rows, maximise
from mercer.models.gp.starts import doubts, warn_of_end
from mercer.models.ridge import as_groups
from mercer.operators import product_at
from mercer.threads import blas_for

if TYPE_CHECKING:
    from mercer.kernels import Kernel
    from mercer.models.gp.parameters import Parameters
    from mercer.models.gp.regression.evidence import Evidence


def _basis_size(model: Any) -> int:
    return model._basis().size


def _has_basis(model: Any) -> bool:
    """Whether a mean with slopes has them all."""
    slopes = model.basis_center_ is not None and model.mean_coef_ is not None
    return model.basis_scale_ is None or slopes


class GaussianProcessRegressor(MultiOutputMixin, RegressorMixin, ProcessRegressor):
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
    noise : "fit", (low, high), float or array of shape (n,), default="fit"
        Variance of the noise, in the units of y², also with `normalize_y`: for y of a standard
        deviation of 1000, 0.01 is hardly any. "fit" tunes it, a tuple of two numbers tunes it
        between these. A number is kept as it is. An array, or a list, has the known variance of
        each row, and is kept too. Of several outputs it may also have one variance for each, which
        is then like a number; as many numbers as rows are of the rows.
    optimizer : "lbfgs", callable or None, default="lbfgs"
        Whether to tune kernel and noise by the evidence, by L-BFGS-B in the logarithms of the
        parameters. On many rows a part of them comes first, and all rows then take few steps with
        the curvature found there. Without, `bounds` and `priors` are not looked at. A function is
        called as scikit-learn does, ``optimizer(objective, theta, bounds)``, from every start and
        on all rows, and returns (theta, value): ``objective(theta)`` is minus the log evidence and
        its gradient, without it for ``eval_gradient=False``; theta and bounds are logarithms.
        "fmin_l_bfgs_b" is the same as "lbfgs".
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

    _plan = plan_process
    _state = (
        state.SOLVED
        | {
            "scaled_noise_": state.Floats("n?", least=0),
            "y_fit_": state.Floats("n", "t?"),
            "sample_weight_": state.Maybe(state.Array("n", above=0)),
            "y_mean_": state.Floats("t"),
            "y_scale_": state.Floats("t", above=0),
            "mean_coef_": state.Maybe(state.Array("p", "t?")),
            "basis_center_": state.Maybe(state.Array("p")),
            "basis_scale_": state.Maybe(state.Array("p")),
            "basis_coef_": state.Maybe(state.Array(_basis_size, "t")),
            "search_": state.Maybe(state.Such(Search)),
        }
        | state.others(
            "noise_", "theta_", "theta_names_", "log_marginal_likelihood_value_", needed=True
        )
    )
    _rules = ((state.MISFIT, _has_basis),)
    _gaussian_cache: GaussianFit | None = None
    score = ProcessRegressor.score  # not that of scikit-learn's mixin

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
        GaussianProcessRegressor
            The fitted model itself.
        """
        with self._all_or_nothing(X):
            self._gaussian_cache = None
            self._fit(X, y, sample_weight)
        return self

    # -- fit ----------------------------------------------------------------------------------
    def _fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        problem, parameters, noise = self._prepare(X, y, sample_weight)
        searched = problem.searched()
        search, evidence = None, problem.evidence()
        kernel, level = parameters.kernel, parameters.noise
        with blas_for(evidence.n):
            if self.optimizer is not None and len(parameters.theta):
                whole = evidence if searched is problem else searched.evidence()
                search = self._search(searched, parameters, noise, whole)
                evidence.work_in(whole)
                kernel, level = parameters.read(search.theta)
            scaled = (noise if level is None else level) / searched.targets.variance_unit()
            fit = evidence.posterior(kernel, scaled)  # in the array that the search worked in
        self._store(problem, kernel, scaled, search, fit)
        if search is not None:
            warn_of_end(parameters, search.theta, problem.X)
            if problem.weights is None:
                warn_of_white(parameters)

    def _search(
        self, problem: Problem, parameters: Parameters, noise: Any, whole: Evidence
    ) -> Search:
        n, vector = len(problem.Y), noise if isinstance(noise, np.ndarray) else None
        shift = problem.shift(parameters.noise if vector is None else vector)
        rows, coarse = coarse_rows(n, problem.weights, key=problem.key()), None
        if rows is not None and not callable(self.optimizer):
            part = None if vector is None else vector[rows]
            coarse = problem.objective(problem.evidence(rows), parameters, part, shift)
        return maximise(
            problem.objective(whole, parameters, vector, shift),
            parameters,
            coarse=coarse,
            ratio=None if rows is None else n / len(rows),
            enough=problem.explained(),
            doubt=doubts(problem, parameters, vector),
            rng=search_rng(self),
            **search_options(self),
        )

    def _store(
        self, problem: Problem, kernel: Kernel, scaled: Any, search: Any, fit: GaussianFit
    ) -> None:
        targets, basis, column = problem.targets, problem.basis, problem.column
        scale = targets.scale

        def cut(A: Any) -> Any:
            return A[..., 0] if column else A

        self._store_parameters(problem, kernel, scaled, search)
        self.X_fit_, self.y_fit_ = problem.kept, cut(problem.Y).copy()
        self.sample_weight_ = None if problem.weights is None else problem.weights.copy()
        self.dual_coef_ = cut(fit.dual * scale)
        self.basis_center_ = None if basis is None else basis.center
        self.basis_scale_ = None if basis is None else basis.scale
        self.basis_coef_ = None if basis is None else fit.beta
        offset, slopes = (0.0, None) if basis is None else basis.in_columns_of_x(fit.beta)
        intercept = targets.mean + scale * offset
        self.intercept_ = float(intercept[0]) if column else intercept
        self.mean_coef_ = None if slopes is None else cut(slopes * scale)
        self.log_marginal_likelihood_value_ = float(fit.log_evidence + problem.shift(scaled))
        self._gaussian_cache = fit
        self.solution_ = certificate(problem, fit, self.dual_coef_, search)
        self.solution_.unwrap()

    # -- what was fitted, again ---------------------------------------------------------------
    def _basis(self) -> Basis | None:
        if self.basis_coef_ is None:
            return None
        return Basis(self.basis_center_, self.basis_scale_)

    def _targets(self) -> np.ndarray:
        """Return the targets of the rows used, shape (n, t)."""
        return self.y_fit_.reshape(len(self.y_fit_), -1)

    def _problem(self, K: Any = None) -> Problem:
        """Return the problem that was fitted; K is its Gram matrix where that was precomputed."""
        self._require_fit()
        X = self.X_fit_ if self.kernel_.domain.holds_points else self._gram_again(K)
        return self._problem_of(X, self._targets(), self.sample_weight_, self.X_fit_)

    @speaks
    def _problem_of(self, X: Any, Y: np.ndarray, weights: Any, kept: Any) -> Problem:
        """Return the problem of other rows with the kernel, units and basis of the fit."""
        targets = Targets(self.y_mean_, self.y_scale_)
        column = self.dual_coef_.ndim == 1
        return Problem(self.kernel_, X, Y, weights, targets, self._basis(), kept, column)

    def _gram_again(self, K: Any) -> np.ndarray:
        """Return the precomputed Gram matrix of the rows used: given again, or from the factor."""
        if K is not None:
            domain = self.kernel_.domain
            K = domain.check_training(self._check_X(K, self.kernel_, reset=False))
            return domain.subset(K, self.X_fit_)
        if self._gaussian_cache is None:
            raise InvalidInput(
                f"{type(self).__name__}: a model from a file, a pickle or a copy does not have its "
                "precomputed Gram matrix K; give it again, as in loo(K), or fit again."
            )
        out = self._gaussian_cache.factor.on_host().matrix()
        w = 1.0 if self.sample_weight_ is None else self.sample_weight_
        np.einsum("ii->i", out)[...] -= self.scaled_noise_ / w
        return out

    @speaks
    def _fit_state(self, K: Any = None) -> GaussianFit:
        """Return the factorisation behind the fit, made anew after a file or a pickle."""
        self._require_fit()
        if self._gaussian_cache is None:
            evidence = self._problem(K).evidence()
            self._gaussian_cache = evidence.posterior(self.kernel_, self.scaled_noise_)
        return self._gaussian_cache

    # -- moments of the function in units of z ------------------------------------------------
    @speaks
    def _posterior(self) -> Posterior:
        require_diagonal(self.kernel_)
        return Posterior(self.kernel_, self.X_fit_, self._fit_state(), self._basis())

    @speaks
    def _variances(self, kernel: Any, X: Any, coef: Any = None) -> tuple[Any, np.ndarray]:
        if not self._is_fitted():
            return None, prior_variance(kernel, X)
        return self._posterior().moments(X, coef)

    def _variance(self, kernel: Any, X: Any, m: int) -> np.ndarray:
        return self._variances(kernel, X)[1]

    @speaks
    def _covariance(self, kernel: Any, X: Any) -> np.ndarray:
        if not self._is_fitted():
            return prior_covariance(kernel, X)
        return self._posterior().covariance(X)

    @speaks
    def _explained(
        self, sections: np.ndarray, moves: np.ndarray | None, constant: float = 0.0
    ) -> np.ndarray:
        fit, basis = self._fit_state(), self._basis()
        known = np.zeros(sections.shape[1])
        if basis is not None:
            R = -(sections.T @ fit.basis_solve)
            R[:, 0] += constant
            if basis.scale is not None and moves is not None:
                used = np.flatnonzero(basis.scale)
                R[:, 1:] += moves[:, used] / basis.scale[used]
            G = fit.basis_factor.half_solve(R.T)
            known -= np.einsum("ij,ij->j", G, G)
        V = fit.factor.half_solve(sections)
        return known + np.einsum("ij,ij->j", V, V)

    # -- in the units of y --------------------------------------------------------------------
    def _mean(self, X: Any, m: int) -> np.ndarray:
        """Return the mean at canonical points, shape (m, t)."""
        if not self._is_fitted():
            return np.zeros((m, 1))
        X, points = self.kernel_.domain.match(X, self.X_fit_)
        values = product_at(self, self.kernel_, X, points, self.dual_coef_)
        return self._finite(values.reshape(m, -1) + self._explicit_mean(X, m))

    def _moments(self, kernel: Any, X: Any, m: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean (m, t) in units of y and the variance (m,) of the function in z's."""
        if not self._is_fitted():
            return np.zeros((m, 1)), self._variances(kernel, X)[1]
        coef = self.dual_coef_.reshape(len(self.dual_coef_), -1)
        values, variance = self._variances(kernel, X, coef)
        return self._finite(values + self._explicit_mean(X, m)), variance

    def _explicit_mean(self, X: Any, m: int) -> np.ndarray:
        """Return the mean of the basis at m points, (m, t), or what is the same at all of them."""
        basis = self._basis()
        if basis is None or basis.scale is None:
            return np.asarray(self.intercept_)
        return self.y_mean_ + self.y_scale_ * (basis.columns(X, m) @ self.basis_coef_)

    def _noise_level(self) -> float:
        if np.ndim(self.scaled_noise_) == 0:
            return float(self.scaled_noise_)
        every = np.broadcast_to(self.scaled_noise_, len(self.y_fit_))
        return float(np.average(every, weights=self.sample_weight_))

    @speaks
    def log_marginal_likelihood(self, theta: Any = None, eval_gradient: bool = False) -> Any:
        """Return the log evidence of the training targets, and its gradient where asked for.

        In the units of y, summed over the outputs, and without the densities of `priors`.

        Parameters
        ----------
        theta : array of shape (p,), optional
            Logarithms of the parameters ``theta_names_``; those found when not given.
        eval_gradient : bool, default=False
            Whether to return the gradient in theta too.

        Returns
        -------
        value : float
            The log evidence.
        gradient : array of shape (p,)
            With `eval_gradient`.
        """
        self._require_fit()
        if theta is None and not eval_gradient:
            return self.log_marginal_likelihood_value_
        with self._where_fitted():
            return self._log_evidence(theta, eval_gradient)

    def _where_fitted(self) -> AbstractContextManager:
        """Return options under which is computed where the fit was, as long as it is held."""
        held = self._gaussian_cache
        return nullcontext() if held is None else held.factor.computing_there()

    def _log_evidence(self, theta: Any, eval_gradient: bool) -> Any:
        problem, parameters = self._problem(), self._current_parameters()
        kernel, level = parameters.read(parameters.theta if theta is None else theta)
        scaled = self.scaled_noise_
        if level is not None:
            scaled = level / problem.targets.variance_unit()
        evidence, shift = problem.evidence(), problem.shift(scaled)
        if not eval_gradient:
            return evidence.value(kernel, scaled) + shift
        value, slope, noise_slope = evidence.value_and_gradient(kernel, scaled)
        return value + shift, parameters.pull(slope, noise_slope)

    # -- rows left out ------------------------------------------------------------------------
    @speaks(".loo")
    def loo(
        self,
        X: Any = None,
        *,
        groups: Any = None,
        return_std: bool = False,
        with_noise: Any = True,
    ) -> Any:
        """Return the exact leave-one-out predictions at the training rows.

        What `predict` would say of each row had the model been fitted to the others, with this
        kernel, noise and normalisation: μᵢ = yᵢ − aᵢ/Qᵢᵢ, of variance 1/Qᵢᵢ, from one
        factorisation instead of n fits. A row is left out with all its weight.

        Parameters
        ----------
        X : array of shape (n, n), or collection of n points, optional
            The training Gram matrix, needed again only of a precomputed kernel by a model from a
            file or a pickle; else the training points, if you like.
        groups : sequence of n labels, optional
            The group of each row of ``X_fit_``, such as the patient that it is from; a row is left
            out with all rows of its group.
        return_std : bool, default=False
            Whether to return the standard deviation too.
        with_noise : bool or array of shape (n,), default=True
            Whether it is that of an observation y or of the function; or the variances of the
            noise. True adds the variance that a row of weight 1 has there.

        Returns
        -------
        mean : array of shape (n,) or (n, n_outputs)
            Of the rows ``X_fit_``, those of positive weight.
        std : array of shape (n,) or (n, n_outputs)
            With `return_std`.
        """
        mean, variance, own = self._left_out(X, groups, "loo")
        asked = new_noise(with_noise, len(mean))
        cut = 0 if self.dual_coef_.ndim == 1 else slice(None)
        if not return_std:
            return mean[:, cut]
        if isinstance(asked, np.ndarray):
            variance = variance + asked[:, None]
        elif asked:
            variance = variance + own
        return mean[:, cut], np.sqrt(variance)[:, cut]

    @speaks
    def loo_log_predictive(self, X: Any = None, *, groups: Any = None) -> np.ndarray:
        """Return log p(yᵢ | all other rows), the log density of each left-out observation.

        Their sum, times the sample weights if there are any, judges kernel and noise by
        prediction alone, where the evidence trusts the prior too (Rasmussen & Williams, eq. 5.11).

        Parameters
        ----------
        X, groups
            As for `loo`.

        Returns
        -------
        array of shape (n,)
            Summed over the outputs, in the units of y.
        """
        mean, variance, own = self._left_out(X, groups, "loo_log_predictive")
        variance = variance + own
        gap = (self._targets() - mean) ** 2
        return -0.5 * (np.log(2 * np.pi * variance) + gap / variance).sum(axis=1)

    def _left_out(self, X: Any, groups: Any, verb: str) -> tuple[Any, Any, Any]:
        """Return mean and variance of the function, and the variance of the noise, all (n, t)."""
        self._require_fit()
        n = len(self.y_fit_)
        with speaking_for(f"{type(self).__name__}.{verb}"):
            fit = self._fit_again(X, verb)
            if groups is not None and np.ndim(groups) and len(groups) != n:
                raise InvalidInput(
                    f"{who()}: {len(groups)} groups for {n} rows; give one label for each row of "
                    "X_fit_, those of positive weight."
                )
            codes = None if groups is None else as_groups(groups, n, None)
            basis = self._basis()
            H = np.zeros((n, 0)) if basis is None else basis.columns(self.X_fit_, n)
            Z = (self._targets() - self.y_mean_) / self.y_scale_
            mean, variance = leave_out(fit, Z, H, codes)
            noise = np.broadcast_to(self.scaled_noise_, (n,))
            in_C = noise if self.sample_weight_ is None else noise / self.sample_weight_
            variance = np.maximum(variance - in_C - fit.jitter, 0.0)
            unit = self.y_scale_**2
            return (
                self.y_mean_ + mean * self.y_scale_,
                variance[:, None] * unit,
                noise[:, None] * unit,
            )

    def _fits_left_out(self) -> FitsLeftOut | None:
        self._require_fit()
        if not self.kernel_.domain.holds_points:
            return None
        Z = (self._targets() - self.y_mean_) / self.y_scale_
        at = each_fit(self, self._fit_state(), Z, self._basis(), self._mean)
        return FitsLeftOut(self._targets(), self.sample_weight_, at)

    @speaks
    def _fit_again(self, X: Any, verb: str) -> GaussianFit:
        """Return the fit, given the training points or their Gram matrix again or not."""
        kernel = self.kernel_
        if X is None:
            return self._fit_state()
        if kernel.domain.holds_points:
            again = self._check_X(X, kernel, reset=False)
            n, m = len(self.y_fit_), kernel.domain.size(again)
            if m != n:
                raise InvalidInput(
                    f"{who()}.{verb}: X has {m} rows, and the model was fitted to {n} of positive "
                    f"weight; pass those, or none: {verb}()."
                )
            check_same_points(kernel.domain, again, self.X_fit_, verb)
            return self._fit_state()
        K, held = self._gram_again(X), self._gaussian_cache
        fit = self._fit_state(X)
        # Ca = z − Hβ ties the matrix to the coefficients of the fit, at the cost of one product.
        n, w = len(K), 1.0 if self.sample_weight_ is None else self.sample_weight_
        a = self.dual_coef_.reshape(n, -1)
        ridge = np.broadcast_to(self.scaled_noise_ / w + fit.jitter, (n,))
        target = self._targets() - self.intercept_
        if np.abs(K @ a + ridge[:, None] * a - target).max() > 1e-3 * np.abs(target).max():
            self._gaussian_cache = held
            raise InvalidInput(f"{who()}.{verb}: this is not the matrix the model was fitted on.")
        return fit

    # -- rows added and taken out -------------------------------------------------------------
    @speaks
    def add(self, X: Any, y: Any, sample_weight: Any = None, noise: Any = None) -> Self:
        """Add rows to the training data; all parameters stay as they are.

        The model becomes what a fit to all rows with these parameters would be, in n² flops a row
        instead of n³/3. The search for parameters is not repeated: fit again when many rows came.
        Kernel, noise, normalisation of y and the basis of the mean stay: a column that was constant
        keeps the slope 0.

        Parameters
        ----------
        X : collection of points
            The new points.
        y : array of shape (m,) or (m, n_outputs)
            Their targets.
        sample_weight : float or array of shape (m,), optional
            Their weights; rows of weight 0 are not added.
        noise : float or array of shape (m,), optional
            Variances of their noise in the units of y²; needed where the model was fitted with a
            variance for each row, and only there.

        Returns
        -------
        GaussianProcessRegressor
            The model itself. When anything is refused it stays as it was.
        """
        self._require_fit()
        return self._take_over(appended(self, X, y, sample_weight, noise))

    @speaks
    def remove(self, index: Any) -> Self:
        """Take rows out of the training data; kernel, noise and normalisation stay as they are.

        The model becomes what a fit to the other rows with these parameters would be, in n² flops
        a row; many rows at once are left out by a new factorisation.

        Parameters
        ----------
        index : int, slice, array of ints or mask of n truth values
            Which rows of ``X_fit_``, those of positive weight; negative numbers count from the
            end.

        Returns
        -------
        GaussianProcessRegressor
            The model itself. When anything is refused it stays as it was.
        """
        self._require_fit()
        return self._take_over(reduced(self, index))

    def _take_over(self, changed: Rows | None) -> Self:
        """Solve for changed rows, and store all of it or nothing."""
        if changed is None:
            return self
        before, (points, Y, weights, scaled, factor) = dict(vars(self)), changed
        problem = self._problem_of(points, Y, weights, points)
        fit = solved_again(problem, scaled, factor)
        try:
            self._store(problem, self.kernel_, scaled, self.search_, fit)
        except BaseException:  # a warning that was made an error, or Ctrl-C
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    # -- slopes -------------------------------------------------------------------------------
    @speaks
    def mean_gradient(self, X: Any) -> np.ndarray:
        """Return the gradient in x of the posterior mean, at each row of X.

        Kernels with a kink where both points meet, as Matérn of ν = ½, have none at training rows;
        there the part of that row is left out.

        Parameters
        ----------
        X : collection of m points
            Rows of numbers.

        Returns
        -------
        array of shape (m, d) or (m, d, n_outputs)
            In the units of y over those of x.
        """
        self._require_fit()
        kernel = self.kernel_
        X = self._check_X(X, kernel, reset=False)
        coef = self.dual_coef_.reshape(len(self.dual_coef_), -1)
        parts = [kernel.gradient(X, self.X_fit_, column) for column in coef.T]
        out = np.stack(parts, axis=2).astype(float, copy=False)
        if self.mean_coef_ is not None:
            out += self.mean_coef_.reshape(out.shape[1], -1)
        return self._finite(out) if self.dual_coef_.ndim == 2 else self._finite(out[:, :, 0])

    @speaks
    def variance_gradient(self, X: Any) -> np.ndarray:
        """Return the gradient in x of the variance of the function, at each row of X.

        That of an observation has the same gradient, since the noise does not depend on x. Divide
        by twice the standard deviation for the gradient of the latter.

        Parameters
        ----------
        X : collection of m points
            Rows of numbers.

        Returns
        -------
        array of shape (m, d) or (m, d, n_outputs)
            In the units of y² over those of x.
        """
        self._require_fit()
        kernel = self.kernel_
        X = self._check_X(X, kernel, reset=False)
        fit = self._fit_state()
        out = variance_slopes(Posterior(kernel, self.X_fit_, fit, self._basis()), X)
        out = self._finite(out)[:, :, None] * self.y_scale_**2
        return out if self.dual_coef_.ndim == 2 else out[:, :, 0]

    # -- copies and files ---------------------------------------------------------------------
    def __getstate__(self) -> dict:
        state = dict(super().__getstate__())
        state.pop("_gaussian_cache", None)  # n² numbers that a few seconds make again
        return state
