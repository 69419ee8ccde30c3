"""Tuning by gradients: leave-one-out error and evidence of ridge models, evidence of processes."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import minimize
from sklearn.base import clone

from mercer.checks import Clock, at_theta, bare_name, check_bounds, entries
from mercer.errors import InvalidInput, MemoryBudgetExceeded, MercerError, NotConverged
from mercer.estimator import Sample
from mercer.models import (
    GaussianProcessClassifier,
    GaussianProcessRegressor,
    SparseGaussianProcessRegressor,
)
from mercer.models.gp import START, fits_noise, noise_limits
from mercer.models.ridge import DualSpectrum, LeastSquares
from mercer.selection.tuning.errors import TuneData, converting_once, rows_that_fit, tune_data
from mercer.selection.tuning.what import (
    STARTS,
    TimeIsUp,
    TuneOptions,
    TuneResult,
    is_scale,
    kernel_params,
    part_of,
    search_box,
    with_limits,
)
from mercer.solvers import DenseEigen, Eigen


class LooSearch:
    """The objective of a ridge model, and the best point seen.

    Another criterion has a class with its own `_try_path`, `_measured`, `_level` and `_gained`.
    """

    def __init__(
        self, data: Sample, offset: bool, max_points: int, max_time: float | None, rng: Any
    ):
        self.kernel, self.offset = data.kernel, offset
        points, T, w = data.X, data.y, data.weights
        usable = np.arange(len(T)) if w is None else np.flatnonzero(w)
        if len(usable) > max_points:
            usable = np.sort(rng.choice(usable, max_points, replace=False))
        if len(usable) < len(T):
            points = self.kernel.domain.subset(points, usable)
            T, w = T[usable], None if w is None else w[usable]
        points = converting_once(self.kernel.domain, points)
        if len(T) < 3:
            raise InvalidInput(f"tune: {len(T)} rows are too few to choose parameters; give 3.")
        self.unit = float(np.abs(T).max()) or 1.0  # squares of 1e200 would overflow
        self.points, self.T, self.w = points, T / self.unit, w
        self.clock = Clock(max_time)
        self.table: list[dict[str, Any]] = []
        self.best: tuple[Any, float, float] = (self.kernel, 1.0, np.inf)
        self.worst = 0.0
        self.at_wall = False
        self.box = search_box(self.kernel)
        self.limits: tuple[float, float] | None = None  # of alpha, where the user set them

    def restrict(self, fixed: Sequence[str], bounds: Mapping[str, Any], alpha: Any = 1.0) -> None:
        """Narrow the search box to what the user fixed or bounded; `alpha` is that of the model."""
        if "alpha" in bounds:
            self.limits = check_bounds("alpha", bounds["alpha"])
        if "alpha" in fixed:
            self.limits = _held(alpha)
        self.box = with_limits(self.box, self.kernel, fixed, bounds, "alpha")

    def alphas(self) -> np.ndarray | None:
        """Return the penalties to try at a start; None for the usual ones."""
        if self.limits is None:
            return None
        return np.geomspace(*self.limits, 31 if self.limits[0] < self.limits[1] else 1)

    def _problem(self, kernel: Any) -> LeastSquares:
        return LeastSquares(kernel, self.points, self.T, self.w, self.offset)

    def _note(self, kernel: Any, alpha: float, error: float) -> None:
        values = dict(zip(kernel.theta_names, map(float, np.exp(kernel.theta)), strict=True))
        self.table.append({**values, "alpha": float(alpha), "error": float(error)})
        if error < self.best[2]:
            self.best = (kernel, float(alpha), float(error))

    def _check_time(self) -> None:
        if self.table and self.clock.late:
            raise TimeIsUp

    def run(self, max_iter: int) -> tuple[bool, str]:
        """Search; return whether it converged, and why it stopped."""
        theta = self.kernel.theta
        failure: MercerError | None = None
        try:
            scales = is_scale(self.kernel)
            open_scales = scales.any() and (self.box[:, 0] < self.box[:, 1]).any()
            for factor in STARTS if open_scales else STARTS[:1]:
                self._check_time()
                start = np.clip(theta + np.log(factor) * scales, self.box[:, 0], self.box[:, 1])
                try:
                    self._try_path(at_theta(self.kernel, start))
                except MemoryBudgetExceeded:
                    raise
                except MercerError as error:
                    failure = failure or error
            if not self.table and failure is not None:
                raise failure
            open_path = self.limits is None or self.limits[0] < self.limits[1]
            if (self.box[:, 0] == self.box[:, 1]).all():
                if not open_path:
                    return True, "one evaluation: nothing was left to choose"
                return True, "no kernel parameter was to be tuned, alpha from one path"
            return self._descend(max_iter)
        except TimeIsUp:
            return False, "stopped by max_time"

    def _try_path(self, kernel: Any) -> None:
        fit = self._problem(kernel).fit("loo", self.alphas())
        self._note(kernel, fit.alpha, float(np.asarray(fit.loo_errors).min()))

    def _mean_diagonal(self, kernel: Any) -> tuple[float, np.ndarray]:
        """Return the mean of k(x, x) and the derivatives of its logarithm in θ."""
        n = len(self.T)
        mean = float(np.mean(np.asarray(kernel._diag(self.points), dtype=float)))
        if not mean > 0:
            return 1.0, np.zeros(len(kernel.theta))
        return mean, np.asarray(kernel._pull_diag(self.points, np.full(n, 1 / n))) / mean

    def _unit_of_alpha(self, kernel: Any) -> tuple[float, np.ndarray]:
        """Return what the variable α is relative to: nothing where the user set its limits."""
        if self.limits is not None:
            return 1.0, np.zeros(len(kernel.theta))
        return self._mean_diagonal(kernel)

    def _descend(self, max_iter: int) -> tuple[bool, str]:
        """Minimise by L-BFGS-B, again from the best point until that gains nothing more.

        The last variable is log α relative to the mean of k(x, x): what rounding allows is
        relative to that, and a kernel with a factor may change it by orders of magnitude.
        Variables are scaled so that no slope at the start exceeds 1: the first step of L-BFGS-B
        has length 1, which for a period would be a jump over many minima.
        """
        relative = np.array(self.limits or self._problem(self.kernel).alpha_range())
        relative /= self._unit_of_alpha(self.kernel)[0]
        box = np.vstack([self.box, np.log(relative)])
        spent = 0
        while True:
            kernel, alpha, before = self.best
            last = np.log(alpha / self._unit_of_alpha(kernel)[0])
            start = np.clip(np.append(kernel.theta, last), box[:, 0], box[:, 1])
            _, slope = self._objective(start)
            unit = 1 / np.maximum(1.0, np.abs(slope))
            found = minimize(
                self._scaled,
                np.zeros(len(start)),
                args=(start, unit),
                jac=True,
                method="L-BFGS-B",
                bounds=(box - start[:, None]) / unit[:, None],
                options={"maxiter": max(1, max_iter - spent), "ftol": 1e-8, "gtol": 1e-4},
            )
            spent += max(1, found.nit)
            if not self._gained(before) or spent >= max_iter:
                break
        if self.at_wall:
            return False, "stopped where the Gram matrix is not positive definite in floating point"
        if spent >= max_iter and self._gained(before):
            return False, "stopped by max_iter"
        return True, "no further gain"

    def _scaled(self, u: np.ndarray, start: np.ndarray, unit: np.ndarray) -> tuple:
        value, slope = self._objective(start + unit * u)
        return value, slope * unit

    def _objective(self, point: np.ndarray) -> tuple[float, np.ndarray]:
        self._check_time()
        kernel = self.kernel.with_theta(point[:-1])
        problem = self._problem(kernel)
        unit, slopes = self._unit_of_alpha(kernel)
        alpha = unit * float(np.exp(point[-1]))
        if self.limits is not None:  # the exponential of a logarithm may be another number
            alpha = min(max(alpha, self.limits[0]), self.limits[1])
        try:
            problem._check_diagonal()
            value, G, in_alpha = self._measured(problem, alpha)
        except MemoryBudgetExceeded:
            raise
        except MercerError:
            value = np.inf
        self.at_wall = not np.isfinite(value)
        if self.at_wall:
            return self.worst + 10.0, np.zeros(len(point))
        self._note(kernel, alpha, value)
        level, per = self._level(value)
        if not per:  # nothing left to explain, as with a target of zeros
            return level, np.zeros(len(point))
        in_theta = kernel.theta_vjp(problem.X, G) + in_alpha * slopes
        self.worst = max(self.worst, level)
        return level, np.append(in_theta, in_alpha) / per

    def in_units(self, value: float) -> float:
        """Return the criterion in the units of y itself, not of y over its largest entry."""
        with np.errstate(over="ignore"):
            return value * (self.unit * self.unit)

    # -- the criterion ------------------------------------------------------------------------
    def _measured(self, problem: LeastSquares, alpha: float) -> tuple[float, np.ndarray, float]:
        """Return the criterion, its derivative in the Gram matrix and in log α."""
        return problem.loo_gradient(alpha)

    def _level(self, value: float) -> tuple[float, float]:
        """Return what is minimised, log E, and the part of E in which a change of it counts."""
        return (float(np.log(value)), value) if value > 0 else (-700.0, 0.0)

    def _gained(self, before: float) -> bool:
        """Whether the best value is less than one before by more than a ten-thousandth."""
        return self.best[2] < before * (1 - 1e-4)


def theta_of_ridge(
    data: TuneData, box: np.ndarray, max_time: float | None, max_iter: int
) -> np.ndarray | None:
    """Return the θ in a box that a ridge model would be tuned to: a gradient finds many scales.

    None where y is neither numbers nor classes, or a ridge model cannot be fitted, or needs more
    memory than there may be.
    """
    try:
        if data.classifier:
            classes, labels = np.unique(np.asarray(data.y), return_inverse=True)
            T = np.where(labels.reshape(-1, 1) == np.arange(len(classes)), 1.0, -1.0)
            T = T[:, 1:] if len(classes) == 2 else T  # for two classes one column
        else:
            T = np.asarray(data.y, dtype=float).reshape(len(data), -1)
    except (OverflowError, TypeError, ValueError):
        return None
    if not np.isfinite(T).all():
        return None
    columns = Sample(data.kernel, data.X, T, data.weights, column=T.shape[1] == 1)
    try:
        search = LooSearch(columns, True, len(T), max_time, None)
        search.box = box
        search.run(max_iter)
    except MercerError:
        return None
    return np.clip(search.best[0].theta, box[:, 0], box[:, 1])


def _held(alpha: Any) -> tuple[float, float]:
    """Return the penalty of a model as limits of the search, or say why it cannot be held."""
    value = np.asarray(alpha).ravel()
    if value.dtype.kind not in "fiu" or len(value) != 1 or not 0 < float(value[0]) < np.inf:
        raise InvalidInput(
            f"tune: alpha={alpha!r} cannot be held or chosen, as it is not one number > 0; give "
            "such numbers, or let tune find alpha."
        )
    return float(value[0]), float(value[0])


# ---- Ridge parameters of largest evidence: the exact value and gradient, by L-BFGS-B ----
# A ridge model is the posterior mean of y ~ N(b1, s²C), C = K + αW⁻¹: a Gaussian process with
# covariance s²k, seen with noise of variance s²α/wᵢ. For one output, m = n (m = n − 1 with an
# offset b, which has a flat prior and is integrated out), Q = C⁻¹ (less C⁻¹11ᵀC⁻¹/(1ᵀC⁻¹1) with
# an offset) and q = yᵀQy,
#
#     −log p(y) = ½ [m log 2πs² + log|C| + log(1ᵀC⁻¹1) + q/s²],
#
# the third term with an offset only. It is least in s² at s² = q/m. From then on d log|C| +
# d log(1ᵀC⁻¹1) = tr(Q dC) and dq = −aᵀdC a with a = Qy: one factorisation and one inverse do.
# Rasmussen & Williams (2006), sections 2.7 and 5.4.


# A column that varies less than this, relative to its size, is constant but for rounding.
CONSTANT = 1e-13


def evidence_gradient(problem: LeastSquares, alpha: float) -> tuple[float, np.ndarray, float]:
    """Return −log p(T), its derivative in K and its derivative in log α.

    Parameters
    ----------
    problem : LeastSquares
        Of which every output has a scale s² of its own.
    alpha : float
        The penalty, > 0.
    """
    f = problem.factored(alpha, matrices=4)
    a, _, h = problem.dual(f)
    logdet, s, m = f.logdet(), problem.s, len(problem.T) - int(problem.offset)
    q = np.einsum("nt,nt->t", a, problem.T)
    Q = f.inverse()
    if problem.offset:
        total = float(s @ h)
        logdet += np.log(total)
        Q -= np.outer(h, h / total)
    if not problem.equal:
        Q *= s[:, None]
        Q *= s[None, :]
    value = _value(q, logdet, problem.w, m)
    Q *= 0.5 * problem.T.shape[1]
    Q -= (a * (0.5 * m / q)) @ a.T
    return value, Q, float(alpha * (Q.diagonal() / problem.w).sum())


def evidence_path(problem: LeastSquares, alphas: np.ndarray) -> np.ndarray:
    """Return −log p(T) for each penalty, from one eigenvalue decomposition of the Gram matrix."""
    K = problem.scaled_gram(matrices=5)
    spectrum = DualSpectrum(DenseEigen().solve(Eigen(K)).unwrap(), K, problem)
    m, out = len(problem.T) - int(problem.offset), np.empty(len(alphas))
    for i, alpha in enumerate(alphas):
        shifted = spectrum.values + alpha
        logdet = float(np.log(shifted).sum())
        q = (spectrum.t**2 / shifted[:, None]).sum(0)
        if problem.offset:
            g = spectrum.ones / shifted
            total = float(spectrum.ones @ g)
            logdet += np.log(total)
            q = q - (g @ spectrum.t) ** 2 / total
        out[i] = _value(q, logdet, problem.w, m)
    return out


def _value(q: np.ndarray, logdet: float, w: np.ndarray, m: int) -> float:
    """Return −log p for the quadratic forms of the outputs and log|SCS| of the scaled matrix."""
    if not (q > 0).all():
        return np.inf
    each = m * (np.log(2 * np.pi * q / m) + 1) + logdet - np.log(w).sum()
    return float(0.5 * each.sum())


class EvidenceSearch(LooSearch):
    """Minus the log evidence of a ridge model, and the best point seen."""

    def __init__(
        self, data: Sample, offset: bool, max_points: int, max_time: float | None, rng: Any
    ):
        super().__init__(data, offset, max_points, max_time, rng)
        if offset:  # what b takes up; the smaller numbers keep more digits
            self.T = self.T - np.average(self.T, axis=0, weights=self.w)
        if (np.abs(self.T).max(axis=0) <= CONSTANT).any():
            raise InvalidInput(
                f"tune: y is {'constant' if offset else 'zero'} on the {len(self.T)} rows used, so "
                "its evidence has no maximum; leave it out, or use criterion='loo'."
            )
        self.m = len(self.T) - int(offset)

    def in_units(self, value: float) -> float:
        """Return minus the log evidence of y itself, not of y in units of its largest entry."""
        return value + self.m * self.T.shape[1] * float(np.log(self.unit))

    def _try_path(self, kernel: Any) -> None:
        problem = self._problem(kernel)
        problem._check_diagonal()
        alphas = self.alphas()
        if alphas is None:
            alphas = np.geomspace(*problem.alpha_range(), 31)
        values = evidence_path(problem, alphas)
        self._note(kernel, float(alphas[values.argmin()]), float(values.min()))

    def _measured(self, problem: LeastSquares, alpha: float) -> tuple[float, np.ndarray, float]:
        return evidence_gradient(problem, alpha)

    def _level(self, value: float) -> tuple[float, float]:
        """Return it for a row and an output, twice: what log E is to the leave-one-out error."""
        half = 0.5 * self.m * self.T.shape[1]
        return value / half, half

    def _gained(self, before: float) -> bool:
        return self._level(self.best[2])[0] < self._level(before)[0] - 1e-4


# ---- Ridge models and Gaussian processes in `tune` ----


def tune_ridge(model: Any, X: Any, y: Any, sample_weight: Any, options: TuneOptions) -> TuneResult:
    """Tune a ridge model by the gradient of its leave-one-out error, or of its evidence."""
    fresh = clone(model)
    data = fresh._prepare(X, y, sample_weight)
    offset, fixed, bounds = bool(fresh.fit_intercept), options.fixed, options.bounds
    if options.over is not None:
        whole = TuneData(data.kernel, data.X, data.y, data.weights, False, len(data.y))
        plan = whole.plan(model, options)
        odd = [axis.name for axis in plan.axes if axis.name != "alpha"]
        if odd:
            raise InvalidInput(
                f"tune: {odd[0]!r} has no gradient; give over a list of choices for it, or use "
                "criterion='cv'."
            )
        fixed, bounds = plan.fixed, plan.bounds
    likely = options.criterion == "evidence"
    kind = EvidenceSearch if likely else LooSearch
    limit, rng = options.max_time, options.random_state
    most = rows_that_fit(data.kernel, data.X, options.max_points)
    search = kind(data, offset, most, limit, rng)
    search.restrict(fixed, bounds, model.alpha)
    converged, message = search.run(options.max_iter)
    kernel, alpha, score = search.best
    table = [{**row, "error": search.in_units(row["error"])} for row in search.table]
    tuned = clone(model).set_params(kernel=kernel, alpha=alpha)
    params, weighted = {"alpha": alpha, **kernel_params(kernel)}, data.weights is not None
    used, given = len(search.T), np.count_nonzero(data.weights) if weighted else len(data.y)
    message += part_of(used, int(given))
    criterion = "minus log evidence" if likely else TuneResult.criterion
    score = search.in_units(score)
    return TuneResult(tuned, score, params, table, converged, message, criterion, used)


#: Models that have an evidence and a search of their own.
PROCESSES = (GaussianProcessRegressor, GaussianProcessClassifier, SparseGaussianProcessRegressor)


def tune_process(
    model: Any, X: Any, y: Any, sample_weight: Any, options: TuneOptions
) -> TuneResult:
    """Tune a Gaussian process by the search of its own fit; the model is not fitted yet."""
    if options.max_time is not None:
        raise InvalidInput(
            f"tune: max_time={options.max_time!r}; the evidence of {type(model).__name__} has "
            "no limit of time. Give max_iter or max_points, or use criterion='cv'."
        )
    data = tune_data(model, X, y, sample_weight, options.max_points, options.random_state)
    own = model.optimizer if callable(model.optimizer) else "lbfgs"
    searching = clone(model).set_params(optimizer=own, max_iter=max(1, options.max_iter))
    searching.set_params(**_restrictions(model, data, options))
    if data.rows is None:
        points, targets, weights = X, y, sample_weight
    else:
        points, targets, weights = data.X, data.y, data.weights
        if _has_vector(model):
            searching.set_params(noise=np.asarray(model.noise)[data.rows])
    given = {} if weights is None else {"sample_weight": weights}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)  # the result says it
        searching.fit(points, targets, **given)
    return _process_result(model, searching, data)


def _restrictions(model: Any, data: TuneData, options: TuneOptions) -> dict[str, Any]:
    """Return what the search holds and where it looks, from the model and from `tune`."""
    wish, fixed, bounds = options.over, list(options.fixed), dict(options.bounds)
    own = [model.fixed] if isinstance(model.fixed, str) else list(model.fixed or ())
    names = data.kernel.theta_names
    if "noise" in fixed and fits_noise(model.noise):
        raise InvalidInput(
            f"tune: fixed holds 'noise', which is {model.noise!r}; give {type(model).__name__} the "
            "variance of the noise as a number."
        )
    plan = data.plan(model, options)
    ranges = {name: span for name, span in (wish or {}).items() if isinstance(span, tuple)}
    held = {*fixed, *own}
    if wish is not None:  # all else stays as it is; a noise to be fitted is fitted
        held = {f"kernel__{n}" if n in names else n for n in plan.fixed}
        if fits_noise(getattr(model, "noise", None)):
            held.discard("noise")
    legal = {"kernel", "noise"} if "noise" in model.get_params() else {"kernel"}
    held = {n for n in held if n in legal or entries(n, names)}
    limits = {**dict(model.bounds or {}), **bounds, **ranges}
    bare = {bare_name(n) for n in held}
    inside = {n: pair for n, pair in limits.items() if bare_name(n) not in bare}
    changes: dict[str, Any] = {"fixed": tuple(sorted(held)), "bounds": inside or None}
    named = "noise" in inside or not fits_noise(getattr(model, "noise", "fit"))
    if named and "noise" not in held and not _has_vector(model):
        changes["noise"] = "fit"
    return changes


def keep_noise(model: Any, options: TuneOptions) -> TuneOptions:
    """Return options that keep the noise of a process where it is a number, or to its limits.

    Unless they name the noise themselves.
    """
    named = {*(options.over or ()), *options.fixed, *options.bounds}
    if not isinstance(model, PROCESSES) or "noise" in named or options.over is not None:
        return options
    noise = getattr(model, "noise", "fit")
    limits = noise_limits(noise)
    if limits is not None:
        return replace(options, bounds={**options.bounds, "noise": limits})
    held = not fits_noise(noise) and not _has_vector(model)
    return replace(options, fixed=[*options.fixed, "noise"]) if held else options


def _process_result(model: Any, found: Any, data: TuneData) -> TuneResult:
    search, kernel = found.search_, found.kernel_
    changes: dict[str, Any] = {"kernel": kernel, "optimizer": None}
    params: dict[str, Any] = {}
    if "noise" in found.get_params() and not _has_vector(model):
        changes["noise"] = params["noise"] = found.noise_
    if isinstance(getattr(model, "inducing", None), str) and model.inducing == "optimize":
        changes["inducing"] = found.inducing_points_
    tuned = clone(model).set_params(**changes)
    params |= kernel_params(kernel)
    criterion, score = "minus log evidence", -float(found.log_marginal_likelihood_value_)
    if search is None:
        table = [{**_flat(params), "error": score}]
        message, converged = "one evaluation: nothing was left to choose", True
    else:
        names = found.theta_names_
        table = [
            {
                **dict(zip(names, map(float, np.exp(row[:-1])), strict=True)),
                "error": -float(row[-1]),
            }
            for row in search.tried
        ]
        message, converged = search.message, search.converged
        if model.priors:
            criterion, score = "minus log evidence and log priors", -float(search.value)
    message += part_of(len(data), data.given)
    return TuneResult(tuned, score, params, table, converged, message, criterion, len(data))


def as_plain_model(model: Any, y: Any) -> Any:
    """Return a process that keeps its parameters in a fit, so that folds can compare them.

    Its noise becomes a number, which is then a parameter like a penalty. Other models stay.
    """
    if not isinstance(model, PROCESSES):
        return model
    held = clone(model).set_params(optimizer=None)
    if "noise" not in held.get_params():
        return held
    if _has_vector(model):
        raise InvalidInput(
            f"tune: {type(model).__name__} with a noise for each row is tuned by "
            "criterion='evidence'; for folds give one noise, and the rows weights."
        )
    if fits_noise(held.noise):
        spread = float(np.var(np.asarray(y, dtype=float), axis=0).mean())
        start = START * spread if 0 < spread < np.inf else START
        held.set_params(noise=float(np.clip(start, *(noise_limits(held.noise) or (0.0, np.inf)))))
    return held


def _flat(params: dict[str, Any]) -> dict[str, Any]:
    """Return parameters by the names that the rows of a table have."""
    return {name.removeprefix("kernel__"): value for name, value in params.items()}


def _has_vector(model: Any) -> bool:
    noise = getattr(model, "noise", 0.0)
    return not fits_noise(noise) and np.ndim(noise) > 0
