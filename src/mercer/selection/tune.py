"""Tune kernel parameters and penalty together, by exact leave-one-out and its gradient."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.utils import check_random_state

from mercer.errors import InvalidInput, MemoryBudgetExceeded, MercerError
from mercer.models import TableClassifier, TableRegressor
from mercer.models.least_squares import LeastSquares, take_rows
from mercer.models.ridge import FitData, RidgeBase

__all__ = ["TuneResult", "tune"]

# Search box around the start: three orders of magnitude for a kernel parameter.
REACH = np.log(1e3)
STARTS = (1.0, 1 / 3, 3.0)


@dataclass(frozen=True, repr=False)
class TuneResult:
    """What `tune` found; what is not listed here is asked of the fitted model.

    So ``result.predict(X)``, ``result.kernel_`` and ``result.alpha_`` are those of
    ``result.model``.

    Attributes
    ----------
    model : estimator
        A fitted copy of the model with the best parameters.
    score : float
        Its mean squared leave-one-out error on the rows used for tuning.
    params : dict
        The parameters found, ``alpha`` and ``kernel__...``, as ``set_params`` takes them.
    table : list of dict
        Every evaluation: the parameters and the leave-one-out error.
    converged : bool
        Whether the optimiser reached its tolerance within its limits.
    message : str
        Why it stopped.
    """

    model: Any
    score: float
    params: dict[str, Any]
    table: list[dict[str, Any]]
    converged: bool
    message: str

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "model" not in self.__dict__:
            raise AttributeError(f"'TuneResult' has no attribute {name!r}")
        return getattr(self.model, name)

    def __str__(self) -> str:
        found = ", ".join(
            f"{k}={np.array2string(np.asarray(v), precision=4)}" for k, v in self.params.items()
        )
        return (
            f"tuned in {len(self.table)} evaluations: {found}\n"
            f"leave-one-out mean squared error {self.score:.4g} ({self.message})"
        )

    __repr__ = __str__


class _TimeIsUp(Exception):
    """The time allowed for tuning is over."""


def tune(
    model: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    max_iter: int = 50,
    max_points: int = 2000,
    max_time: float | None = None,
    fixed: Sequence[str] = (),
    bounds: Mapping[str, tuple[float, float]] | None = None,
    random_state: Any = 0,
) -> TuneResult:
    """Choose kernel parameters and alpha by exact leave-one-out, and fit the model with them.

    Minimises log E(θ, log α), E the mean squared leave-one-out error, by L-BFGS-B with the exact
    gradient; it starts from the kernel's own parameters (words such as "median" resolved on X) and
    from these with all length scales times 1/3 and 3, whichever is best with its best α. An
    evaluation costs about 2n³ flops. The tunable parameters are those of ``kernel.theta_names``:
    give ``RBF([1.0] * d)`` for one length scale a column. The error has many local minima in a
    period: start near it, or hold it with `fixed` or `bounds`.

    Parameters
    ----------
    model : KernelRidge, KernelRidgeClassifier, TableRegressor or TableClassifier
        The model; not changed.
    X : collection of n points
        Training points.
    y : array of shape (n,) or (n, n_outputs)
        Targets or class labels.
    sample_weight : array of shape (n,), optional
        Weights.
    max_iter : int, default=50
        Iterations of L-BFGS-B.
    max_points : int, default=2000
        Tune on at most so many rows, drawn at random; the final fit uses all.
    max_time : float, optional
        Seconds after which the best so far is taken.
    fixed : sequence of str, optional
        Kernel parameters to leave as they are, by their ``kernel.theta_names``.
    bounds : dict of str to (low, high), optional
        Ranges of kernel parameters, by their ``kernel.theta_names``.
    random_state : int, RandomState or None, default=0
        For the choice of rows.

    Returns
    -------
    TuneResult
        The fitted model, its score and a table of what was tried.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRidge, tune
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(60)
    >>> result = tune(KernelRidge("rbf"), X, y)
    >>> bool(result.score < 0.02)
    True
    """
    options: dict[str, Any] = {
        "max_iter": max_iter,
        "max_points": max_points,
        "max_time": max_time,
        "fixed": fixed,
        "bounds": bounds,
        "random_state": random_state,
    }
    if isinstance(model, TableRegressor | TableClassifier):
        return _tune_table(model, X, y, sample_weight, options)
    if not isinstance(model, RidgeBase):
        raise InvalidInput(
            f"tune: got a {type(model).__module__.partition('.')[0]} {type(model).__name__}; tune "
            "takes mercer's KernelRidge, KernelRidgeClassifier, TableRegressor and "
            "TableClassifier. In front of a pipeline, tune on the transformed X."
        )
    for name, value, low in (("max_points", max_points, 3), ("max_iter", max_iter, 0)):
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if not whole or value < low:
            raise InvalidInput(f"tune: {name}={value!r}; give a whole number of {low} or more.")
    seconds = isinstance(max_time, int | float | np.number) and max_time >= 0  # type: ignore[operator]
    if max_time is not None and not seconds:
        raise InvalidInput(f"tune: max_time={max_time!r}; give seconds, or None for no limit.")
    try:
        rng = check_random_state(random_state)
    except ValueError as error:
        raise InvalidInput(f"tune: random_state: {error}") from None
    fresh = clone(model)
    data = fresh._prepare(X, y, sample_weight)
    offset = bool(fresh.fit_intercept)
    search = _Search(data, offset, max_points, max_time, rng)
    search.restrict(fixed, bounds)
    converged, message = search.run(max_iter)
    kernel, alpha, score = search.best
    with np.errstate(over="ignore"):
        score *= search.unit * search.unit
        table = [{**row, "error": row["error"] * search.unit * search.unit} for row in search.table]
    tuned = clone(model).set_params(kernel=kernel, alpha=alpha)
    tuned.fit(X, y, sample_weight=sample_weight)
    return TuneResult(tuned, score, _params(kernel, alpha), table, converged, message)


def _params(kernel: Any, alpha: float) -> dict[str, Any]:
    """Return what was tuned, as ``set_params`` of the model takes it."""
    held = kernel.get_params()
    names = dict.fromkeys(name.partition("[")[0] for name in kernel.theta_names)
    return {"alpha": alpha, **{f"kernel__{name}": held[name] for name in names}}


def _tune_table(model: Any, X: Any, y: Any, sample_weight: Any, options: dict) -> TuneResult:
    """Tune the kernel model that a table model has inside, then fit the table model with it."""
    inside = model._inside(X, y, sample_weight)
    result = tune(inside.model, inside.Z, inside.target, inside.weights, **options)
    best = result.model
    tuned = clone(model).set_params(kernel=best.kernel_, alpha=best.alpha_)
    tuned.fit(X, y, sample_weight=sample_weight)
    unit = inside.scale * inside.scale
    table = [{**row, "error": row["error"] * unit} for row in result.table]
    return replace(result, model=tuned, score=result.score * unit, table=table)


class _Search:
    """The objective, and the best point seen."""

    def __init__(
        self, data: FitData, offset: bool, max_points: int, max_time: float | None, rng: Any
    ):
        self.kernel, self.offset = data.kernel, offset
        points, T, w = data.X, data.T, data.weights
        usable = np.arange(len(T)) if w is None else np.flatnonzero(w)
        if len(usable) > max_points:
            usable = np.sort(rng.choice(usable, max_points, replace=False))
        if len(usable) < len(T):
            points = take_rows(self.kernel, points, usable)
            T, w = T[usable], None if w is None else w[usable]
        if len(T) < 3:
            raise InvalidInput(f"tune: {len(T)} rows are too few to choose parameters; give 3.")
        self.unit = float(np.abs(T).max()) or 1.0  # squares of 1e200 would overflow
        self.points, self.T, self.w = points, T / self.unit, w
        self.deadline = None if max_time is None else time.monotonic() + max_time
        self.table: list[dict[str, Any]] = []
        self.best: tuple[Any, float, float] = (self.kernel, 1.0, np.inf)
        self.worst = 0.0
        self.at_wall = False
        theta, reach = self.kernel.theta, np.array([[-REACH, REACH]])
        box, near = self.kernel.bounds, theta[:, None] + reach
        box = np.stack([np.maximum(box[:, 0], near[:, 0]), np.minimum(box[:, 1], near[:, 1])], 1)
        self.box = np.where((box[:, :1] < box[:, 1:]), box, near)  # a start outside its bounds

    def restrict(self, fixed: Sequence[str], bounds: Mapping[str, tuple] | None) -> None:
        """Narrow the search box to what the user fixed or bounded."""
        names = self.kernel.theta_names
        fixed = [fixed] if isinstance(fixed, str) else list(fixed or ())
        for name, limits in dict(bounds or {}).items():
            try:
                low, high = (float(v) for v in limits)
            except (TypeError, ValueError):
                low, high = 0.0, 0.0
            if not 0 < low <= high < np.inf:
                raise InvalidInput(f"tune: bounds[{name!r}] = {limits!r}; give 0 < low ≤ high.")
            self.box[self._entries(name, names)] = np.log([low, high])
        for name in fixed:
            entries = self._entries(name, names)
            self.box[entries] = self.kernel.theta[entries][:, None]

    @staticmethod
    def _entries(name: str, names: list[str]) -> list[int]:
        """Return the positions of a parameter; a bare name stands for all its entries."""
        found = [i for i, n in enumerate(names) if name in (n, n.partition("[")[0])]
        if not found:
            raise InvalidInput(f"tune: no parameter {name!r} to tune; there are {names}.")
        return found

    def _problem(self, kernel: Any) -> LeastSquares:
        return LeastSquares(kernel, self.points, self.T, self.w, self.offset)

    def _note(self, kernel: Any, alpha: float, error: float) -> None:
        values = dict(zip(kernel.theta_names, map(float, np.exp(kernel.theta)), strict=True))
        self.table.append({**values, "alpha": float(alpha), "error": float(error)})
        if error < self.best[2]:
            self.best = (kernel, float(alpha), float(error))

    def _check_time(self) -> None:
        if self.deadline is not None and self.table and time.monotonic() > self.deadline:
            raise _TimeIsUp

    def run(self, max_iter: int) -> tuple[bool, str]:
        """Search; return whether it converged, and why it stopped."""
        theta = self.kernel.theta
        failure: MercerError | None = None
        try:
            scales = np.array(["length_scale" in name for name in self.kernel.theta_names], float)
            for factor in STARTS if scales.any() else STARTS[:1]:
                self._check_time()
                start = np.clip(theta + np.log(factor) * scales, self.box[:, 0], self.box[:, 1])
                try:
                    self._try_path(self.kernel.with_theta(start))
                except MemoryBudgetExceeded:
                    raise
                except MercerError as error:
                    failure = failure or error
            if not self.table and failure is not None:
                raise failure
            if (self.box[:, 0] == self.box[:, 1]).all():
                return True, "the kernel has no parameter to tune, alpha from one path"
            return self._descend(max_iter)
        except _TimeIsUp:
            return False, "stopped by max_time"

    def _try_path(self, kernel: Any) -> None:
        fit = self._problem(kernel).fit("loo", None)
        self._note(kernel, fit.alpha, float(np.asarray(fit.loo_errors).min()))

    def _mean_diagonal(self, kernel: Any) -> tuple[float, np.ndarray]:
        """Return the mean of k(x, x) and the derivatives of its logarithm in θ."""
        n = len(self.T)
        mean = float(np.mean(np.asarray(kernel._diag(self.points), dtype=float)))
        if not mean > 0:
            return 1.0, np.zeros(len(kernel.theta))
        return mean, np.asarray(kernel._pull_diag(self.points, np.full(n, 1 / n))) / mean

    def _descend(self, max_iter: int) -> tuple[bool, str]:
        """Minimise by L-BFGS-B, again from the best point until that gains nothing more.

        The last variable is log α relative to the mean of k(x, x): what rounding allows is
        relative to that, and a kernel with a factor may change it by orders of magnitude.
        Variables are scaled so that no slope at the start exceeds 1: the first step of L-BFGS-B
        has length 1, which for a period would be a jump over many minima.
        """
        relative = np.array(self._problem(self.kernel).alpha_range())
        relative /= self._mean_diagonal(self.kernel)[0]
        box = np.vstack([self.box, np.log(relative)])
        spent = 0
        while True:
            kernel, alpha, before = self.best
            last = np.log(alpha / self._mean_diagonal(kernel)[0])
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
            if self.best[2] >= before * (1 - 1e-4) or spent >= max_iter:
                break
        if self.at_wall:
            return False, "stopped where the Gram matrix is not positive definite in floating point"
        if spent >= max_iter and self.best[2] < before * (1 - 1e-4):
            return False, "stopped by max_iter"
        return True, "no further gain"

    def _scaled(self, u: np.ndarray, start: np.ndarray, unit: np.ndarray) -> tuple:
        value, slope = self._objective(start + unit * u)
        return value, slope * unit

    def _objective(self, point: np.ndarray) -> tuple[float, np.ndarray]:
        self._check_time()
        kernel = self.kernel.with_theta(point[:-1])
        problem = self._problem(kernel)
        mean, slopes = self._mean_diagonal(kernel)
        alpha = mean * float(np.exp(point[-1]))
        try:
            problem._check_diagonal()
            error, G, in_alpha = problem.loo_gradient(alpha)
        except MemoryBudgetExceeded:
            raise
        except MercerError:
            error = np.inf
        self.at_wall = not np.isfinite(error)
        if self.at_wall:
            return self.worst + 10.0, np.zeros(len(point))
        self._note(kernel, alpha, error)
        if error == 0:  # nothing left to explain, as with a target of zeros
            return -700.0, np.zeros(len(point))
        in_theta = kernel.theta_vjp(problem.X, G) + in_alpha * slopes
        gradient = np.append(in_theta, in_alpha) / error
        self.worst = max(self.worst, float(np.log(error)))
        return float(np.log(error)), gradient
