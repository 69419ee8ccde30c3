"""Ridge parameters of least leave-one-out error: the exact error and gradient, by L-BFGS-B."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.optimize import minimize

from mercer.errors import InvalidInput, MemoryBudgetExceeded, MercerError
from mercer.models.least_squares import LeastSquares, take_rows
from mercer.models.ridge import FitData
from mercer.selection.box import TimeIsUp, is_scale, search_box, with_limits

__all__ = ["LooSearch"]

STARTS = (1.0, 1 / 3, 3.0)


class LooSearch:
    """The objective of a ridge model, and the best point seen."""

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
        self.box = search_box(self.kernel)

    def restrict(self, fixed: Sequence[str], bounds: Mapping[str, Any]) -> None:
        """Narrow the search box to what the user fixed or bounded."""
        self.box = with_limits(self.box, self.kernel, fixed, bounds)

    def _problem(self, kernel: Any) -> LeastSquares:
        return LeastSquares(kernel, self.points, self.T, self.w, self.offset)

    def _note(self, kernel: Any, alpha: float, error: float) -> None:
        values = dict(zip(kernel.theta_names, map(float, np.exp(kernel.theta)), strict=True))
        self.table.append({**values, "alpha": float(alpha), "error": float(error)})
        if error < self.best[2]:
            self.best = (kernel, float(alpha), float(error))

    def _check_time(self) -> None:
        if self.deadline is not None and self.table and time.monotonic() > self.deadline:
            raise TimeIsUp

    def run(self, max_iter: int) -> tuple[bool, str]:
        """Search; return whether it converged, and why it stopped."""
        theta = self.kernel.theta
        failure: MercerError | None = None
        try:
            scales = is_scale(self.kernel)
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
        except TimeIsUp:
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
