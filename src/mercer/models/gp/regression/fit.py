"""The fit of Gaussian process regression: from data to parameters, coefficients, certificate."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.domains import GramRows
from mercer.engines.device import computing_on
from mercer.errors import InvalidInput, ModelFileError
from mercer.estimator import KernelEstimator, check_targets, check_weights, take_rows
from mercer.models.gp.base import GaussianProcess
from mercer.models.gp.parameters import Parameters, as_names
from mercer.models.gp.regression.data import CONSTANT, Basis, Targets, check_noise
from mercer.models.gp.regression.evidence import Evidence, GaussianFit
from mercer.models.gp.search import Search, coarse_rows, first_noise, maximise, place
from mercer.solvers import Solution, column_norms

if TYPE_CHECKING:
    from mercer.kernels import Kernel

# ---- What a Gaussian process regression is fitted to, and the certificate of its solution ----


FEW = 300  # rows up to which evaluations cost nothing
RESIDUAL = 1e-6  # relative residual of a linear system that is solved


@dataclass(frozen=True, eq=False)
class Problem:
    """Rows of positive weight, and targets in units of z: what an evidence is the evidence of."""

    kernel: Kernel
    X: Any
    Y: np.ndarray
    weights: np.ndarray | None
    targets: Targets
    basis: Basis | None
    owner: str

    def evidence(self, rows: np.ndarray | None = None) -> Evidence:
        """Return the evidence of all rows or some, in units of z."""
        X, Z, w = self.X, self.targets.forward(self.Y), self.weights
        H = None if self.basis is None else self.basis.columns(X, len(Z))
        if rows is not None:
            X, Z = take_rows(self.kernel, X, rows), Z[rows]
            w, H = (None if w is None else w[rows]), (None if H is None else H[rows])
        return Evidence(X, Z, w, H, self.owner, self.targets.variance_unit())

    def key(self) -> np.ndarray:
        """Return numbers that tell rows apart, however they are ordered; x too where it has any."""
        numeric = isinstance(self.X, np.ndarray) and self.X.ndim == 2 and self.X.dtype.kind == "f"
        return np.hstack([self.Y, self.X]) if numeric and len(self.X) == len(self.Y) else self.Y

    def shift(self, noise: Any = 1.0) -> float:
        """Return the log evidence of y less that of z, in the basis 1, x of the mean.

        A row counts with its weight, and once where it has no noise, as in `Evidence`.
        """
        w = np.ones(len(self.Y)) if self.weights is None else self.weights
        n = float(np.where(np.asarray(noise) > 0, w, 1.0).sum())
        q, volume = (0, 0.0) if self.basis is None else (self.basis.size, self.basis.log_volume())
        return self.targets.log_density_shift(n - q) + self.Y.shape[1] * volume

    def explained(self) -> float:
        """Return the log evidence of parameters that leave half of the variance, by and large.

        Infinity for few rows, which cost nothing, and with weights, where the evidence may grow
        without limit as the noise goes to 0.
        """
        n, rest = self.Y.size, max(float(np.mean(self._remainder() ** 2)), 1e-300)
        if self.weights is not None or len(self.Y) <= FEW:
            return np.inf
        alone = -0.5 * n * (np.log(2 * np.pi * rest) + 1)  # of noise and nothing else
        return alone + 0.5 * n * np.log(2.0) + self.shift()

    # -- how much the targets vary -------------------------------------------------------------
    def unit(self) -> float:
        """Return the mean square of y about the model's mean: what noise is measured by."""
        about = self.targets.forward(self.Y) if self.basis is None else self._remainder()
        return self._mean_square(about)

    def spread(self) -> float:
        """Return the mean square of y about its own mean, or about what the basis explains."""
        return self._mean_square(self._remainder())

    def varies(self) -> np.ndarray:
        """Return which outputs are more than constant, or more than what the basis explains."""
        rest = np.sqrt(np.average(self._remainder() ** 2, axis=0, weights=self.weights))
        return rest * self.targets.scale > CONSTANT * np.abs(self.Y).max(axis=0, initial=0.0)

    def searched(self) -> Problem:
        """Return the problem of the outputs that vary, all where none does.

        An output without spread has no largest evidence: it would pull the noise to its bound.
        """
        some = self.varies()
        if some.all() or not some.any():
            return self
        targets = Targets(self.targets.mean[some], self.targets.scale[some])
        return replace(self, Y=self.Y[:, some], targets=targets)

    def _remainder(self) -> np.ndarray:
        """Return z less its weighted mean, or less its regression on the basis."""
        Z, w = self.targets.forward(self.Y), self.weights
        if self.basis is None or self.basis.scale is None:
            return Z - np.average(Z, axis=0, weights=w)
        H = self.basis.columns(self.X, len(Z))
        root = 1.0 if w is None else np.sqrt(w)[:, None]
        return Z - H @ np.linalg.lstsq(root * H, root * Z, rcond=None)[0]

    def _mean_square(self, A: np.ndarray) -> float:
        square = np.average(A**2, axis=0, weights=self.weights)
        return float(np.mean(square)) * self.targets.variance_unit()


def certificate(problem: Problem, fit: GaussianFit, value: np.ndarray, search: Any) -> Solution:
    """Judge the coefficients by C itself, without the jitter, and the search by its own words."""
    Z = problem.targets.forward(problem.Y)
    gap = fit.factor.matmul(fit.dual) - Z
    if problem.basis is not None:
        gap += problem.basis.columns(problem.X, len(Z)) @ fit.beta
    size = column_norms(Z)
    residual = float((column_norms(gap) / np.where(size > 0, size, 1.0)).max())
    message = ""
    if residual > RESIDUAL:
        message = (
            f"{problem.owner}: the covariance is nearly singular: the relative residual is "
            f"{residual:.2g} (tolerance {RESIDUAL:g}) after a jitter of {fit.jitter:.2g}. Use more "
            "noise, or drop rows that are given twice."
        )
    elif search is not None and not search.converged:
        message = f"{problem.owner}: the search for parameters {search.message}."
    return Solution(
        value=value,
        converged=not message,
        n_iter=0 if search is None else search.n_evaluations,
        residual=residual,
        message=message,
        extra={"jitter": fit.jitter},
    )


# ---- fitting ----


LEAST, MOST = 1e-8, 1e3  # noise, over the variance of y and its square about the model's mean


class RegressorFit(GaussianProcess):
    """The part of a regressor that fits, and keeps what the fit found."""

    _learned = (
        *KernelEstimator._learned,
        "noise_",
        "scaled_noise_",
        "y_fit_",
        "sample_weight_",
        "y_mean_",
        "y_scale_",
        "mean_coef_",
        "basis_center_",
        "basis_scale_",
        "basis_coef_",
        "theta_",
        "theta_names_",
        "log_marginal_likelihood_value_",
        "search_",
    )

    noise: Any
    normalize_y: Any
    mean: Any
    fixed: Any
    bounds: Any
    priors: Any
    _gaussian_cache: GaussianFit | None = None

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.requires_fit = False  # the prior answers
        return tags

    def _is_fitted(self) -> bool:
        return "dual_coef_" in vars(self)

    # -- fit ----------------------------------------------------------------------------------
    def _fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        problem, parameters, noise, kept, column = self._prepare(X, y, sample_weight)
        searched = problem.searched()
        search, evidence = None, problem.evidence()
        kernel, level = parameters.kernel, parameters.noise
        if self.optimizer is not None and len(parameters.theta):
            whole = evidence if searched is problem else searched.evidence()
            search = self._search(searched, parameters, noise, whole)
            evidence.work_in(whole)
            kernel, level = parameters.read(search.theta)
        scaled = (noise if level is None else level) / searched.targets.variance_unit()
        fit = evidence.posterior(kernel, scaled)  # in the array that the search worked in
        self._store(problem, kernel, scaled, kept, column, search, fit)

    def _prepare(
        self, X: Any, y: Any, sample_weight: Any
    ) -> tuple[Problem, Parameters, Any, Any, bool]:
        """Return checked rows, parameters at their start, the noise, points to keep, one column?"""
        owner = type(self).__name__
        tuned = self._check_search()
        if not isinstance(self.normalize_y, bool | np.bool_):
            raise InvalidInput(f"{owner}: normalize_y={self.normalize_y!r}; give True or False.")
        kernel = self._kernel()
        X = self._check_X(X, kernel, reset=True)
        n = kernel.domain.size(X)
        T = check_targets(y, n, owner)
        Y, weights = T.reshape(n, -1), check_weights(sample_weight, n, owner)
        noise = check_noise(self.noise, n, tuned, owner, Y.shape[1])
        if isinstance(noise, str) and self._holds_noise():
            raise InvalidInput(
                f"{owner}: noise='fit' is to be tuned, and fixed holds 'noise'; give the variance "
                "of the noise as a number, or leave it out of fixed."
            )
        kept = kernel.domain.keep(X)
        if isinstance(kernel.domain, GramRows):
            X = kernel._checked(X, None)[0]
        if weights is not None and not (weights > 0).all():
            rows = np.flatnonzero(weights)
            X, Y, weights = take_rows(kernel, X, rows), Y[rows], weights[rows]
            kept = kernel.domain.take(kept, rows) if isinstance(kept, np.ndarray) else X
            noise = noise[rows] if np.ndim(noise) == 1 else noise
        units = self._noise_units(noise, Y.shape[1], tuned)
        targets = Targets.of(Y, weights, normalize=bool(self.normalize_y), units=units, owner=owner)
        kernel = kernel.fit_params(X, weights)
        basis = Basis.of(self.mean, kernel, X, weights, owner)
        problem = Problem(kernel, X, Y, weights, targets, basis, owner)
        searched = problem.searched()
        if np.ndim(noise) == 2:
            unit = searched.targets.variance_unit()
            noise = float(np.mean(noise[0] / targets.scale**2)) * unit
        parameters = self._parameters(kernel, self._start(noise, searched), tuned, searched)
        if tuned:
            place(parameters, noise, searched)
        return problem, parameters, noise, kept, T.ndim == 1

    def _noise_units(self, noise: Any, t: int, tuned: bool) -> np.ndarray | None:
        """Return the units that noise has in each output, where it is not tuned."""
        each = np.ndim(noise) == 2
        if each and not self.normalize_y:
            raise InvalidInput(
                f"{type(self).__name__}: noise for each output with normalize_y=False; outputs "
                "share one noise in units of their own scale. Give a number, or normalize_y=True."
            )
        if tuned and not self._holds_noise() and np.ndim(noise) != 1:
            return None
        if not isinstance(noise, str) and not np.any(noise):  # there is nothing to share
            return None
        return np.sqrt(noise[0] / noise.max()) if each else np.ones(t)

    def _holds_noise(self) -> bool:
        return "noise" in as_names(self.fixed, type(self).__name__)

    def _start(self, noise: Any, problem: Problem) -> float | None:
        """Return where the search for the noise starts, in the units of y²; None for a vector."""
        if isinstance(noise, np.ndarray):
            return None
        return first_noise(problem) if isinstance(noise, str) else float(noise)

    def _parameters(
        self, kernel: Kernel, noise: float | None, tuned: bool, problem: Problem | None = None
    ) -> Parameters:
        low, high = LEAST, MOST
        if problem is not None and problem.varies().any():
            low, high = LEAST * problem.spread(), MOST * problem.unit()
        fixed, owner = self.fixed, type(self).__name__
        if noise is None and self._holds_noise():  # as a vector is anyway
            fixed = [name for name in as_names(fixed, owner) if name != "noise"]
        for option in ("bounds", "priors") if noise is None and tuned else ():
            given = getattr(self, option)
            if (
                isinstance(given, Mapping)
                and "noise" in given
                and "noise" not in kernel.theta_names
            ):
                raise InvalidInput(
                    f"{owner}: {option} names 'noise', whose variance is given for each row and "
                    "not tuned; leave it out."
                )
        return Parameters(
            kernel,
            noise,
            fixed=fixed,
            bounds=self.bounds if tuned else None,
            priors=self.priors if tuned else None,
            noise_bounds=(low, high),
            owner=owner,
        )

    def _search(
        self, problem: Problem, parameters: Parameters, noise: Any, whole: Evidence
    ) -> Search:
        n, unit = len(problem.Y), problem.targets.variance_unit()
        vector = noise if isinstance(noise, np.ndarray) else None
        shift = problem.shift(parameters.noise if vector is None else vector)

        def objective(rows: np.ndarray | None) -> Any:
            evidence = whole if rows is None else problem.evidence(rows)
            variances = vector if vector is None or rows is None else vector[rows]

            def call(theta: np.ndarray) -> tuple[float, np.ndarray]:
                kernel, level = parameters.read(theta)
                scaled: Any = (variances if level is None else level) / unit  # type: ignore[operator]
                value, slope, noise_slope = evidence.value_and_gradient(kernel, scaled)
                return value + shift, parameters.pull(slope, noise_slope)

            return call

        rng = self._search_rng()
        rows = coarse_rows(n, problem.weights, key=problem.key())
        return maximise(
            objective(None),
            parameters,
            coarse=None if rows is None else objective(rows),
            ratio=None if rows is None else n / len(rows),
            enough=problem.explained(),
            n_restarts=self.n_restarts,
            max_iter=self.max_iter,
            tol=self.tol,
            rng=rng,
        )

    def _store(
        self,
        problem: Problem,
        kernel: Kernel,
        scaled: Any,
        kept: Any,
        column: bool,
        search: Any,
        fit: GaussianFit,
    ) -> None:
        targets, basis = problem.targets, problem.basis
        scale = targets.scale

        def cut(A: Any) -> Any:
            return A[..., 0] if column else A

        self.kernel_, self.X_fit_, self.y_fit_ = kernel, kept, cut(problem.Y).copy()
        self.sample_weight_ = None if problem.weights is None else problem.weights.copy()
        self.y_mean_, self.y_scale_ = targets.mean, scale
        self.scaled_noise_ = scaled
        vector = np.ndim(scaled) == 1
        each = scaled * scale[0] ** 2 if vector or np.ptp(scale) == 0 else scaled * scale**2
        self.noise_ = each if vector or np.ndim(each) else float(each)
        self.dual_coef_ = cut(fit.dual * scale)
        self.basis_center_ = None if basis is None else basis.center
        self.basis_scale_ = None if basis is None else basis.scale
        self.basis_coef_ = None if basis is None else fit.beta
        offset, slopes = (0.0, None) if basis is None else basis.in_columns_of_x(fit.beta)
        intercept = targets.mean + scale * offset
        self.intercept_ = float(intercept[0]) if column else intercept
        self.mean_coef_ = None if slopes is None else cut(slopes * scale)
        self.log_marginal_likelihood_value_ = float(fit.log_evidence + problem.shift(scaled))
        self.search_ = search
        self._gaussian_cache = fit
        free = self._current_parameters()
        self.theta_, self.theta_names_ = free.theta, free.names
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

    def _current_parameters(self) -> Parameters:
        """Return the parameters that may be tuned, at their values now."""
        level = None
        if np.ndim(self.scaled_noise_) == 0:
            level = float(self.scaled_noise_) * float(np.mean(self.y_scale_**2))
        return self._parameters(self.kernel_, level, False)

    def _problem(self, K: Any = None) -> Problem:
        """Return the problem that was fitted; K is its Gram matrix where that was precomputed."""
        self._require_fit()
        X, owner = self.X_fit_, type(self).__name__
        if isinstance(self.kernel_.domain, GramRows):
            X = self._gram_again(K)
        targets = Targets(self.y_mean_, self.y_scale_)
        weights = self.sample_weight_
        return Problem(self.kernel_, X, self._targets(), weights, targets, self._basis(), owner)

    def _gram_again(self, K: Any) -> np.ndarray:
        """Return the precomputed Gram matrix of the rows used: given again, or from the factor."""
        if K is not None:
            K = self.kernel_._checked(self._check_X(K, self.kernel_, reset=False), None)[0]
            return take_rows(self.kernel_, K, self.X_fit_)
        if self._gaussian_cache is None:
            raise InvalidInput(
                f"{type(self).__name__}: a model from a file, a pickle or a copy does not have its "
                "precomputed Gram matrix K; give it again, as in loo(K), or fit again."
            )
        out = self._gaussian_cache.factor.on_host().matrix()
        w = 1.0 if self.sample_weight_ is None else self.sample_weight_
        np.einsum("ii->i", out)[...] -= self.scaled_noise_ / w
        return out

    def _fit_state(self, K: Any = None) -> GaussianFit:
        """Return the factorisation behind the fit, made anew after a file or a pickle."""
        self._require_fit()
        if self._gaussian_cache is None:
            evidence = self._problem(K).evidence()
            self._gaussian_cache = evidence.posterior(self.kernel_, self.scaled_noise_)
        return self._gaussian_cache

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
        return computing_on(None if held is None else getattr(held.factor, "device", None))

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

    # -- copies and files ---------------------------------------------------------------------
    def __getstate__(self) -> dict:
        state = dict(super().__getstate__())
        state.pop("_gaussian_cache", None)  # n² numbers that a few seconds make again
        return state

    def _check_state(self) -> None:
        """Refuse a state read from a file whose parts do not belong together."""
        held = {name: value for name, value in vars(self).items() if name in self._learned}
        if not held:
            return
        needed = set(self._learned) - {"feature_names_in_", "n_features_in_"}
        missing = sorted(needed - set(held))
        if missing:
            raise ModelFileError(f"a {type(self).__name__} without {', '.join(missing)}")
        n, *outputs = np.shape(self.dual_coef_)
        t = outputs[0] if outputs else 1
        weights, beta = self.sample_weight_, self.basis_coef_
        finite = ("dual_coef_", "intercept_", "y_fit_", "y_mean_", "y_scale_", "scaled_noise_")
        d = None if self.basis_scale_ is None else np.shape(self.basis_scale_)
        fits = (
            list(np.shape(self.intercept_)) == outputs
            and np.shape(self.y_fit_) == np.shape(self.dual_coef_)
            and np.shape(self.y_mean_) == np.shape(self.y_scale_) == (t,)
            and (weights is None or (np.shape(weights) == (n,) and np.all(weights > 0)))
            and np.shape(self.scaled_noise_) in ((), (n,))
            and all(np.isfinite(held[name]).all() for name in finite)
            and np.all(self.y_scale_ > 0)
            and np.all(np.asarray(self.scaled_noise_) >= 0)
            and (d is None or np.shape(held["basis_center_"]) == d)
            and (beta is None or np.shape(beta) == (self._basis().size, t))  # type: ignore[union-attr]
            and (d is None or np.shape(held["mean_coef_"]) == (*d, *outputs))
            and (self.search_ is None or isinstance(self.search_, Search))
        )
        if not fits:
            raise ModelFileError(f"the arrays of a {type(self).__name__} do not fit one another")
