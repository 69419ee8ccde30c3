"""Laws of solvers on centres: problems, their gradient written out in full, and the least risk."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize

from mercer import kernels as mk
from mercer.engines.passes.base import row_pass
from mercer.losses import Squared, as_loss
from mercer.solvers import Centred, FalkonNewton, Solution
from mercer.testing.checks import require

__all__ = ["centred_problems", "centred_residual", "check_centred_answer"]


def centred_problems(rng: np.random.Generator) -> list[tuple[str, Centred]]:
    """Return problems whose targets are signs, so that both losses take them."""
    X = rng.standard_normal((60, 2))
    y = np.where(X[:, :1] + 0.8 * rng.standard_normal((60, 1)) > 0, 1.0, -1.0)
    w = rng.integers(0, 3, 60).astype(float)
    k, Z = mk.RBF(), X[:12]
    twice = np.concatenate([Z, Z[:4]])

    def problem(Z: np.ndarray, alpha: float, offset: bool, weights: Any = None) -> Centred:
        return Centred(row_pass(k, X, Z, y, weights), k(Z), alpha, offset)

    return [
        ("plain", problem(Z, 0.5, False)),
        ("an offset", problem(Z, 0.5, True)),
        ("weights", problem(Z, 0.5, True, w)),
        ("duplicated centres", problem(twice, 0.5, False)),
        ("one centre", problem(Z[:1], 0.5, True)),
        ("all points", problem(X, 1.0, False)),
    ]


def _parts(solver: Any, problem: Centred) -> tuple[Any, ...]:
    rows: Any = problem.rows
    n, m = rows.bound.shape
    K = np.asarray(rows.bound.tile(slice(0, n), slice(0, m)), dtype=float)
    w = np.ones(n) if rows.w is None else rows.w
    loss = as_loss(solver.loss, "law") if isinstance(solver, FalkonNewton) else Squared()
    return K, np.asarray(problem.gram), rows.y[:, 0], w, loss


def _risk(solver: Any, problem: Centred, a: np.ndarray, b: float) -> tuple[float, np.ndarray]:
    """Return the risk and its gradient in a and, last, in b."""
    K, G, y, w, loss = _parts(solver, problem)
    f = K @ a + b
    slope = w * loss.gradient(y, f)
    value = float(w @ loss.value(y, f)) + 0.5 * problem.alpha * float(a @ G @ a)
    slopes = K.T @ slope + problem.alpha * (G @ a)
    return value, np.append(slopes, slope.sum() if problem.offset else 0.0)


def centred_residual(solver: Any, problem: Centred, value: Any) -> float:
    """Return the norm of the gradient at an answer, relative to that at the start.

    Least squares leave the offset out of both, and start from the mean.
    """
    a, b = value[0][:, 0], float(value[1][0])
    gradient = _risk(solver, problem, a, b)[1]
    if isinstance(solver, FalkonNewton):
        start = _risk(solver, problem, np.zeros_like(a), 0.0)[1]
        return float(np.linalg.norm(gradient) / np.linalg.norm(start))
    _, _, y, w, _ = _parts(solver, problem)
    mean = float(w @ y / w.sum()) if problem.offset else 0.0
    start = _risk(solver, problem, np.zeros_like(a), mean)[1]
    return float(np.linalg.norm(gradient[:-1]) / np.linalg.norm(start[:-1]))


def check_centred_answer(solver: Any, problem: Centred, solution: Solution) -> None:
    """Coefficients and offset have their shapes, and no other function has a smaller risk."""
    m = int(problem.rows.m)
    a, b = solution.value
    require(a.shape == (m, 1) and b.shape == (1,), f"{solver!r}: shapes {a.shape}, {b.shape}")
    if not solution.converged:
        return
    held = slice(None) if problem.offset else slice(0, m)

    def risk(v: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = _risk(solver, problem, v[:m], v[m] if problem.offset else 0.0)
        return value, gradient[held]

    start = np.append(a[:, 0], b)[held]
    best = minimize(risk, start, jac=True, method="L-BFGS-B", options={"maxiter": 500})
    mine = risk(start)[0]
    require(mine <= best.fun + 1e-6 * abs(mine), f"{solver!r}: risk {mine}, least {best.fun}")
    gap = float(solution.gap)  # type: ignore[arg-type]
    require(
        mine - best.fun <= gap + 1e-9 * abs(mine) and gap <= solver.tol * abs(mine),
        f"{solver!r}: the gap is {gap}, the risk {mine} and the least {best.fun}",
    )
    primal = float(solution.primal)  # type: ignore[arg-type]
    require(abs(primal - mine) <= 1e-8 * abs(mine), f"{solver!r}: says {primal}, is {mine}")
