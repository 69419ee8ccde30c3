"""Tune kernel parameters and penalty together, by exact leave-one-out and its gradient."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.utils import check_random_state

from mercer.errors import InvalidInput, MemoryBudgetExceeded, MercerError
from mercer.models.least_squares import LeastSquares, take_rows
from mercer.models.ridge import FitData, RidgeBase

__all__ = ["TuneResult", "tune"]

# Search box around the start: three orders of magnitude for a kernel parameter.
REACH = np.log(1e3)
STARTS = (1.0, 1 / 3, 3.0)


@dataclass(frozen=True)
class TuneResult:
    """What `tune` found.

    Attributes
    ----------
    model : estimator
        A fitted copy of the model with the best parameters.
    score : float
        Its mean squared leave-one-out error on the rows used for tuning.
    params : dict
        The parameters found, ``alpha`` and those of the kernel.
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

    def __str__(self) -> str:
        found = ", ".join(f"{k}={v:.4g}" for k, v in self.params.items())
        return (
            f"tuned in {len(self.table)} evaluations: {found}\n"
            f"leave-one-out mean squared error {self.score:.4g} ({self.message})"
        )


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
    random_state: Any = 0,
) -> TuneResult:
    """Choose kernel parameters and alpha by exact leave-one-out, and fit the model with them.

    Minimises log E(θ, log α), E the mean squared leave-one-out error, by L-BFGS-B with the exact
    gradient; it starts from the kernel's own parameters (words such as "median" resolved on X) and
    from these times 1/3 and 3, whichever is best with its best α. An evaluation costs about 2n³
    flops. The tunable parameters are those of ``kernel.theta``: give ``RBF([1.0] * d)`` for one
    length scale a column.

    Parameters
    ----------
    model : KernelRidge or KernelRidgeClassifier
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
    if not isinstance(model, RidgeBase):
        raise InvalidInput(
            f"tune: {type(model).__name__} has no leave-one-out error in closed form; "
            "tune takes KernelRidge and KernelRidgeClassifier."
        )
    for name, value, low in (("max_points", max_points, 3), ("max_iter", max_iter, 0)):
        if not isinstance(value, int | np.integer) or value < low:
            raise InvalidInput(f"tune: {name}={value!r}; give a whole number of {low} or more.")
    if max_time is not None and not (isinstance(max_time, int | float) and max_time >= 0):
        raise InvalidInput(f"tune: max_time={max_time!r}; give seconds, or None for no limit.")
    fresh = clone(model)
    data = fresh._prepare(X, y, sample_weight)
    offset = bool(fresh.fit_intercept)
    search = _Search(data, offset, max_points, max_time, check_random_state(random_state))
    converged, message = search.run(max_iter)
    kernel, alpha, score = search.best
    tuned = clone(model).set_params(kernel=kernel, alpha=alpha)
    tuned.fit(X, y, sample_weight=sample_weight)
    found = map(float, np.exp(kernel.theta))
    params = {"alpha": alpha, **dict(zip(kernel.theta_names, found, strict=True))}
    return TuneResult(tuned, score, params, search.table, converged, message)


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

    def _problem(self, kernel: Any) -> LeastSquares:
        return LeastSquares(kernel, self.points, self.T, self.w, self.offset)

    def _note(self, kernel: Any, alpha: float, error: float) -> None:
        values = dict(zip(kernel.theta_names, map(float, np.exp(kernel.theta)), strict=True))
        error = error * self.unit * self.unit
        self.table.append({**values, "alpha": float(alpha), "error": float(error)})
        if error < self.best[2]:
            self.best = (kernel, float(alpha), float(error))

    def _check_time(self) -> None:
        if self.deadline is not None and self.table and time.monotonic() > self.deadline:
            raise _TimeIsUp

    def run(self, max_iter: int) -> tuple[bool, str]:
        """Search; return whether it converged, and why it stopped."""
        alphas = np.array(self._problem(self.kernel).alpha_range())
        theta = self.kernel.theta
        failure: MercerError | None = None
        try:
            for factor in STARTS if len(theta) else STARTS[:1]:
                self._check_time()
                try:
                    self._try_path(self.kernel.with_theta(theta + np.log(factor)), alphas)
                except MemoryBudgetExceeded:
                    raise
                except MercerError as error:
                    failure = failure or error
            if not self.table and failure is not None:
                raise failure
            if not len(theta):
                return True, "the kernel has no parameter to tune, alpha from one path"
            return self._descend(alphas, max_iter)
        except _TimeIsUp:
            return False, "stopped by max_time"

    def _try_path(self, kernel: Any, alphas: np.ndarray) -> None:
        fit = self._problem(kernel).fit("loo", np.geomspace(alphas[0], alphas[1], 31))
        self._note(kernel, fit.alpha, float(np.asarray(fit.loo_errors).min()))

    def _descend(self, alphas: np.ndarray, max_iter: int) -> tuple[bool, str]:
        start_kernel, start_alpha, _ = self.best
        start = np.append(start_kernel.theta, np.log(start_alpha))
        low, high = np.log(alphas)
        reach = np.stack([self.kernel.theta - REACH, self.kernel.theta + REACH], 1)
        box = self.kernel.bounds
        box = np.stack([np.maximum(box[:, 0], reach[:, 0]), np.minimum(box[:, 1], reach[:, 1])], 1)
        box = np.where((box[:, :1] < box[:, 1:]), box, reach)  # a start outside its own bounds
        box = np.vstack([box, [low, high]])
        found = minimize(
            self._objective,
            np.clip(start, box[:, 0], box[:, 1]),
            jac=True,
            method="L-BFGS-B",
            bounds=box,
            options={"maxiter": max_iter, "ftol": 1e-6, "gtol": 1e-4},
        )
        if self.at_wall:
            return False, "stopped where the Gram matrix is not positive definite in floating point"
        message = found.message if isinstance(found.message, str) else found.message.decode()
        return bool(found.success), message.lower().replace("_", " ")

    def _objective(self, point: np.ndarray) -> tuple[float, np.ndarray]:
        self._check_time()
        kernel, alpha = self.kernel.with_theta(point[:-1]), float(np.exp(point[-1]))
        problem = self._problem(kernel)
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
        gradient = np.append(kernel.theta_vjp(problem.X, G), in_alpha) / error
        self.worst = max(self.worst, float(np.log(error)))
        return float(np.log(error)), gradient
