"""What Gaussian process regressors share: data made ready for a fit, and answers at new points."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer import checks
from mercer.checks import as_number, as_rng, check_index
from mercer.errors import InvalidInput, speaks, who
from mercer.estimator import (
    ONLY,
    KernelEstimator,
    Plan,
    check_targets,
    check_weights,
    follows_data,
    r_squared,
    study_of,
)
from mercer.models.gp.base import (
    SEARCH,
    check_search,
    default_kernel,
    evaluations,
    expected_evaluations,
    mean_function,
    set_process_params,
)
from mercer.models.gp.parameters import Parameters, as_names
from mercer.models.gp.regression.data import (
    Basis,
    Problem,
    Targets,
    check_noise,
    fits_noise,
    new_noise,
    noise_limits,
    prior_noise,
)
from mercer.models.gp.regression.posterior import draw
from mercer.models.gp.search import Search
from mercer.models.gp.starts import first_noise, place
from mercer.solvers import Cost, gram_seconds

if TYPE_CHECKING:
    from mercer.kernels import Kernel


LEAST, MOST = 1e-8, 1e3  # noise, over the variance of y and its square about the model's mean


class ProcessRegressor(KernelEstimator):
    """A Gaussian process that predicts numbers, with exact or inducing points.

    Answers are in the units of y, from moments of the function in units of z. A subclass defines
    ``_mean``, ``_variance``, ``_covariance`` and ``_noise_level``; before `fit` they are those of
    the prior.
    """

    _parameters: checks.Constraints = SEARCH | {"normalize_y": checks.Flag(numbers=False)}
    optimizer: Any
    n_restarts: Any
    max_iter: Any
    tol: Any
    random_state: Any
    search_: Any
    noise: Any
    normalize_y: Any
    mean: Any
    fixed: Any
    bounds: Any
    priors: Any
    y_mean_: np.ndarray
    y_scale_: np.ndarray
    scaled_noise_: Any
    set_params = set_process_params
    n_iter_ = property(evaluations)
    function_ = property(mean_function)

    def _kernel(self) -> Kernel:
        return default_kernel() if self.kernel is None else super()._kernel()

    def _require_fit(self) -> None:
        # scikit-learn takes a model that answers before fit for fitted, unless an attribute is
        # asked for by name.
        if not self._is_fitted():
            check_is_fitted(self, "dual_coef_")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.requires_fit = False  # the prior answers
        return tags

    @speaks
    def _prepare(self, X: Any, y: Any, sample_weight: Any) -> tuple[Problem, Parameters, Any]:
        """Return checked rows, parameters at their start, and the noise."""
        tuned = check_search(self)
        kernel = self._kernel()
        X = self._check_X(X, kernel, reset=True)
        n = kernel.domain.size(X)
        T = check_targets(y, n)
        Y, weights = T.reshape(n, -1), check_weights(sample_weight, n)
        noise = check_noise(self.noise, n, tuned, Y.shape[1])
        if isinstance(noise, str) and "noise" in as_names(self.fixed):
            raise InvalidInput(
                f"{who()}: noise={self.noise!r} is to be tuned, and fixed holds 'noise'; give the "
                "variance of the noise as a number, or leave it out of fixed."
            )
        kernel.domain.check_training(X)
        kept = kernel.domain.keep(X)
        if weights is not None and not (weights > 0).all():
            rows = np.flatnonzero(weights)
            kept = kernel.domain.keep_at(X, rows)
            X, Y, weights = kernel.domain.subset(X, rows), Y[rows], weights[rows]
            noise = noise[rows] if np.ndim(noise) == 1 else noise
        units = self._noise_units(noise, Y.shape[1], tuned)
        targets = Targets.of(Y, weights, normalize=bool(self.normalize_y), units=units)
        kernel = kernel.fit_params(X, weights)
        basis = Basis.of(self.mean, kernel, X, weights)
        problem = Problem(kernel, X, Y, weights, targets, basis, kept, T.ndim == 1)
        searched = problem.searched()
        if np.ndim(noise) == 2:
            unit = searched.targets.variance_unit()
            noise = float(np.mean(noise[0] / targets.scale**2)) * unit
        parameters = self._searched(kernel, self._start(noise, searched), tuned, searched)
        if tuned:
            place(parameters, noise, searched)
        return problem, parameters, noise

    def _noise_units(self, noise: Any, t: int, tuned: bool) -> np.ndarray | None:
        """Return the units that noise has in each output, where it is not tuned."""
        each = np.ndim(noise) == 2
        if each and not self.normalize_y:
            raise InvalidInput(
                f"{type(self).__name__}: noise for each output with normalize_y=False; outputs "
                "share one noise in units of their own scale. Give a number, or normalize_y=True."
            )
        if tuned and not self._holds_noise():
            return None
        if not isinstance(noise, str) and not np.any(noise):  # there is nothing to share
            return None
        return np.sqrt(noise[0] / noise.max()) if each else np.ones(t)

    @speaks
    def _holds_noise(self) -> bool:
        """Whether a search leaves the noise as it is given."""
        return not fits_noise(self.noise) or "noise" in as_names(self.fixed)

    def _start(self, noise: Any, problem: Problem) -> float | None:
        """Return where the search for the noise starts, in the units of y²; None for a vector."""
        if isinstance(noise, np.ndarray):
            return None
        return first_noise(problem) if isinstance(noise, str) else float(noise)

    @speaks
    def _searched(
        self,
        kernel: Kernel,
        noise: float | None,
        tuned: bool,
        problem: Problem | None = None,
        held: bool | None = None,
    ) -> Parameters:
        fixed = [name for name in as_names(self.fixed) if name != "noise"]
        if noise is not None and (self._holds_noise() if held is None else held):
            fixed.append("noise")
        if not tuned:
            return Parameters.held(kernel, noise, fixed)
        low, high = LEAST, MOST
        if problem is not None and problem.varies.any():
            low, high = LEAST * problem.spread(), MOST * problem.unit()
        bounds, limits = self.bounds, noise_limits(self.noise)
        for option in ("bounds", "priors"):
            self._refuse_held(option, noise, kernel)
        if limits is not None and (bounds is None or isinstance(bounds, Mapping)):
            bounds = dict(bounds or {})
            if "noise" in bounds:
                raise InvalidInput(
                    f"{who()}: noise={self.noise!r} and bounds['noise'] = {bounds['noise']!r} both "
                    "say where to look; give one."
                )
            bounds["noise"] = limits
        return Parameters(
            kernel,
            noise,
            fixed=fixed,
            bounds=bounds,
            priors=self.priors,
            noise_bounds=(low, high),
        )

    def _refuse_held(self, option: str, noise: float | None, kernel: Kernel) -> None:
        """Refuse limits or a density of a noise that is given."""
        given = getattr(self, option)
        if fits_noise(self.noise) or not isinstance(given, Mapping) or "noise" not in given:
            return
        if noise is not None:
            raise InvalidInput(
                f"{who()}: {option} names 'noise', and noise={self.noise!r} is kept as it is; give "
                "noise='fit' to tune it, or leave it out."
            )
        if "noise" not in kernel.theta_names:
            raise InvalidInput(
                f"{who()}: {option} names 'noise', whose variance is given for each row and "
                "not tuned; leave it out."
            )

    def _store_parameters(
        self, problem: Problem, kernel: Kernel, scaled: Any, search: Search | None
    ) -> None:
        """Keep the kernel, the noise in units of z² and in those of y², and the units of z."""
        scale = problem.targets.scale
        self.kernel_, self.search_ = kernel, search
        self.y_mean_, self.y_scale_, self.scaled_noise_ = problem.targets.mean, scale, scaled
        vector = np.ndim(scaled) == 1
        each = scaled * scale[0] ** 2 if vector or np.ptp(scale) == 0 else scaled * scale**2
        self.noise_ = each if vector or np.ndim(each) else self._as_given(float(each))
        # without a search nothing is held but what `fixed` names
        held = (
            self._holds_noise() if self.optimizer is not None else "noise" in as_names(self.fixed)
        )
        free = self._parameters_now(held)
        self.theta_, self.theta_names_ = free.theta, free.names

    def _as_given(self, noise: float) -> float:
        """Return a noise, or what it was held at or limited to, where units alone changed it."""
        given = noise_limits(self.noise) or (as_number(self.noise),)
        return next((value for value in given if abs(noise - value) <= 1e-15 * value), noise)

    def _current_parameters(self) -> Parameters:
        """Return the parameters that may be tuned, at their values now."""
        return self._parameters_now("noise" not in self.theta_names_)

    def _parameters_now(self, held: bool) -> Parameters:
        level = None
        if np.ndim(self.scaled_noise_) == 0:
            level = float(self.scaled_noise_) * float(np.mean(self.y_scale_**2))
        return self._searched(self.kernel_, level, False, held=held)

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

    @abstractmethod
    def _explained(
        self, sections: np.ndarray, moves: np.ndarray | None, constant: float = 0.0
    ) -> np.ndarray:
        """Return by how much the rows lower the variances of functionals ℓ, in units of z².

        From ℓ(k(xᵢ, ·)), a column for each, ℓ(xⱼ), a row for each, where x are numbers, and ℓ(1).
        """

    def _posterior_of_shares(self) -> Any:
        return self._explained, self._scale()

    def _scale(self) -> np.ndarray:
        """Return the unit of z in each output."""
        return self.y_scale_ if self._is_fitted() else np.ones(1)

    # -- the answers --------------------------------------------------------------------------
    @follows_data
    @speaks(".predict")
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
        if return_std and return_cov:
            raise InvalidInput(
                f"{who()}: return_std and return_cov; ask for one, the standard deviations are the "
                "roots of the covariance's diagonal."
            )
        kernel, X = self._new_points(X)
        m = kernel.domain.size(X)
        if not (return_std or return_cov):
            new_noise(with_noise, m)
            return self._cut(self._mean(X, m))
        noise = self._noise_at(with_noise, m)
        if return_std:
            mean, variance = self._moments(kernel, X, m)
            spread = np.sqrt(variance[:, None] * self._scale() ** 2 + noise)
            return self._cut(mean), self._cut(spread)
        cov = self._covariance(kernel, X)[:, :, None] * self._scale() ** 2
        np.einsum("iij->ij", cov)[...] += noise
        return self._cut(self._mean(X, m)), self._cut(cov)

    @follows_data
    @speaks(".posterior_variance")
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
        self._noise_at(False, 1)
        variance = self._variance(kernel, X, kernel.domain.size(X))
        return self._cut(variance[:, None] * self._scale() ** 2)

    @follows_data
    @speaks(".sample_y")
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
        n = check_index(n_samples, "n_samples", 1)
        rng = as_rng(random_state, "random_state")
        kernel, X = self._new_points(X)
        m = kernel.domain.size(X)
        noise, mean, scale = self._noise_at(with_noise, m), self._mean(X, m), self._scale()
        t = len(scale)
        paths = draw(self._covariance(kernel, X), rng, n * t).reshape(m, t, n)
        out = mean[:, :, None] + scale[:, None] * paths
        if noise.any():
            out += np.sqrt(noise)[:, :, None] * rng.standard_normal((n, t, m)).T
        return out if self._many() else out[:, 0]

    # -- shapes and units ---------------------------------------------------------------------
    def _new_points(self, X: Any) -> tuple[Kernel, Any]:
        """Return the kernel, that of the prior before fit, and checked points."""
        if self._is_fitted():
            return self.kernel_, self._check_X(X, self.kernel_, reset=False)
        kernel = self._kernel()
        X = self._check_X(X, kernel, reset=False)
        return kernel.fit_params(X), X

    def _noise_at(self, with_noise: Any, m: int) -> np.ndarray:
        """Return the variances of the noise at m new rows in the units of y², shape (m, t)."""
        t = len(self._scale())
        asked = new_noise(with_noise, m)
        mean = getattr(self, "mean", "zero")
        if not self._is_fitted() and mean != "zero":
            raise InvalidInput(
                f"{who()}: mean={mean!r} has a flat prior, which has no variance before fit; fit "
                "first, or use mean='zero'."
            )
        if isinstance(asked, np.ndarray):
            return np.repeat(asked[:, None], t, axis=1)
        if not asked:
            return np.zeros((m, t))
        if not self._is_fitted():
            return np.full((m, t), prior_noise(self.noise))
        return np.broadcast_to(self._noise_level() * self._scale() ** 2, (m, t))

    def _many(self) -> bool:
        """Whether y had outputs, as columns."""
        return self._is_fitted() and self.dual_coef_.ndim == 2

    def _cut(self, values: np.ndarray) -> np.ndarray:
        return values if self._many() else values[..., 0]

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
        return r_squared(self, X, y, sample_weight)


def plan_process(model: Any, X: Any, y: Any) -> Plan:
    """Return the plan of `GaussianProcessRegressor`: one factorisation an evaluation."""
    study = study_of(model, X, y)
    facts = study.facts
    n = facts.n
    time = None
    if study.rates is not None:
        gram = gram_seconds(facts, study.rates, study.sketch.rate)
        time = gram + n**3 / 3 / study.rates.potrf
        if model.optimizer is not None:
            evaluation = 4 * gram + n**3 / study.rates.potrf
            time += expected_evaluations(model) * evaluation
    plan = study.plan("cholesky", Cost(8 * n * n, time, 2.2 * facts.tiles + facts.vectors))
    more = "" if plan.fits else " SparseGaussianProcessRegressor takes more points."
    return replace(plan, why=f"{ONLY}{more}")
