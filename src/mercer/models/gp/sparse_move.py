"""Inducing points moved together with the parameters, by L-BFGS-B on the same objective."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import minimize

from mercer.errors import MemoryBudgetExceeded, MercerError
from mercer.models.gp.parameters import Parameters
from mercer.models.gp.search import Search, at_bounds

__all__ = ["move"]

STEPS = 10  # of which the gain is looked at together: one short step alone says little
SLOPE = 1e-3  # steepness below which nothing need move
MEMORY = 100  # pairs of steps and slopes that L-BFGS remembers

Objective = Callable[[np.ndarray, np.ndarray], tuple[float, np.ndarray, np.ndarray]]


def move(
    objective: Objective,
    parameters: Parameters,
    theta: np.ndarray,
    U: np.ndarray,
    *,
    max_iter: int,
    tol: float,
) -> tuple[Search, np.ndarray]:
    """Return where parameters and inducing points end, and those points.

    There are many more variables than parameters, and the number of steps that L-BFGS takes grows
    with their number v: it may take max_iter·√v. It ends where the last ten steps together gained
    less than `tol` nats for each inducing point.

    Parameters
    ----------
    objective : callable
        (θ, U) → the objective, its gradient in θ, and in U. An error of numbers, or a value that
        is not finite, is a step too far; at the start it is raised.
    parameters : Parameters
        What is tuned beside the points.
    theta : ndarray of shape (p,)
        Where they start.
    U : ndarray of shape (m, d)
        Where the points start.
    max_iter : int
        Steps, for one variable.
    tol : float
        Gain in nats, for one point.
    """
    p, unit = len(theta), np.std(U, axis=0)
    unit = np.where(unit > 0, unit, 1.0)
    enough = tol * len(U)
    count = 0

    def evaluate(theta: np.ndarray, points: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        nonlocal count
        count += 1
        prior, prior_slope = parameters.log_prior(theta)
        if not np.isfinite(prior):
            return np.inf, np.zeros(p), np.zeros(U.shape)
        value, slope, moved = objective(theta, points)
        return -(value + prior), -(slope + prior_slope), -moved

    best: list[Any] = [*evaluate(theta, U)[:2], theta, U]

    def minus(x: np.ndarray) -> tuple[float, np.ndarray]:
        theta, points = x[:p].copy(), x[p:].reshape(U.shape) * unit
        try:
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                value, slope, moved = evaluate(theta, points)
        except MemoryBudgetExceeded:
            raise
        except (MercerError, ArithmeticError, np.linalg.LinAlgError):
            value = np.inf
        if not np.isfinite(value):  # a wall: the line search turns back
            return best[0] + 1e3 * (1.0 + abs(best[0])), np.zeros(len(x))
        if value < best[0]:
            best[:] = [value, slope, theta, points]
        return value, np.concatenate([slope, (moved * unit).ravel()])

    seen: list[float] = []
    settled = False

    def look(intermediate_result: Any) -> None:
        nonlocal settled
        seen.append(float(intermediate_result.fun))
        if len(seen) > STEPS and seen[-1 - STEPS] - seen[-1] < enough:
            settled = True
            raise StopIteration

    most = int(max_iter * max(1.0, np.sqrt(p + U.size)))
    end = minimize(
        minus,
        np.concatenate([theta, (U / unit).ravel()]),
        jac=True,
        method="L-BFGS-B",
        bounds=[tuple(pair) for pair in parameters.bounds] + [(None, None)] * U.size,
        callback=look,
        options={
            "maxiter": most,
            "maxfun": 2 * most + 20,
            "ftol": 0.0,
            "gtol": SLOPE,
            "maxcor": min(MEMORY, p + U.size),
        },
    )
    value, slope, theta, points = best
    stopped = end.status == 1 and not settled
    if settled:
        say = f"the last {STEPS} steps of parameters and inducing points gained < {enough:g} nats"
    elif stopped:
        say = "stopped by max_iter while moving the inducing points; raise it"
    elif end.status == 0:
        say = f"no slope in parameters or inducing points is above {SLOPE:g}"
    else:
        say = "no step gains more than rounding"
    say += at_bounds(theta, parameters)
    return Search(theta, -value, -slope, count, converged=not stopped, message=say), points
