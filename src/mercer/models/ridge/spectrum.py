"""Ridge fits for any number of penalties from one eigendecomposition, with exact leave-one-out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.estimator import indefinite
from mercer.solvers import Solution
from mercer.solvers.linear import TINY

if TYPE_CHECKING:
    from mercer.models.ridge.exact import LeastSquares


# ---- The certificate of a ridge fit: residual, primal and dual value and gap, from K or Φ
# itself.


RESIDUAL_TOLERANCE = 1e-6
ROUNDING = 8 * float(np.finfo(float).eps)  # of targets, of which errors up to this part are none


def dual_certificate(
    p: LeastSquares, a: np.ndarray, b: np.ndarray, Ka: np.ndarray, alpha: Any, jitter: float
) -> Solution:
    """Judge dual coefficients a and offset b, given the product Ka.

    Primal ½Σw(y−f−b)² + (α/2)aᵀKa, dual with β = αa: βᵀy − ½Σβ²/w − (α/2)aᵀKa, feasible when
    Σβ = 0 if there is an offset. Without rounding the difference is ½Σw(y − f − b − αa/w)², and
    the best offset would lower the primal by (Σw(y−f−b))²/2Σw.
    """
    w = p.w[:, None]
    e = p.T - Ka - b
    r = w * e - alpha * a  # stationarity in f: r = 0
    gap = 0.5 * (r * r / w).sum()
    residual = _relative(r, w * p.T)
    if p.offset:
        slope = (w * e).sum(0)  # stationarity in b: Σ w(y − f − b) = 0
        gap += 0.5 * (slope**2).sum() / p.w.sum()
        residual = max(residual, _relative(slope[None, :] / np.sqrt(len(e)), w * p.T))
    primal = 0.5 * (w * e * e).sum() + 0.5 * (alpha * (a * Ka)).sum()
    return _solution(p, a, residual, primal, gap, alpha, jitter)


def shows_rounding(diagonal: float, z: np.ndarray, solution: Solution) -> bool:
    """Whether rounding of Kz, with so large entries of K, may be a part of the gap that is told."""
    error = float(np.finfo(float).eps) * diagonal * float(abs(z).sum(0).max(initial=0.0))
    told = RESIDUAL_TOLERANCE * max(float(solution.primal or 0.0), TINY)
    return 0.5 * len(z) * error**2 > 1e-3 * told


def primal_certificate(
    p: LeastSquares,
    v: np.ndarray,
    b: np.ndarray,
    phi: Any,
    a: np.ndarray,
    alpha: Any,
    jitter: float,
) -> Solution:
    """Judge primal weights v: gradient Φᵀβ − αv with β = W(y − Φv − b).

    β is feasible for the dual βᵀy − ½Σβ²/w − ‖Φᵀβ‖²/2α, which lies ‖Φᵀβ − αv‖²/2α below.
    """
    w = p.w[:, None]
    e = p.T - np.asarray(phi @ v) - b
    g = np.asarray(phi.T @ (w * e)) - alpha * v
    residual = _relative(g, np.asarray(abs(phi).T @ (w * abs(p.T))))
    gap: Any = (g * g / (2 * alpha)).sum() if np.all(np.asarray(alpha) > 0) else None
    if p.offset:
        slope = (w * e).sum(0)
        residual = max(residual, _relative(slope[None, :] / np.sqrt(len(e)), w * p.T))
        gap = None if gap is None else gap + 0.5 * (slope**2).sum() / p.w.sum()
    primal = 0.5 * (w * e * e).sum() + 0.5 * (alpha * (v * v)).sum()
    return _solution(p, a, residual, primal, gap, alpha, jitter)


def _solution(
    p: LeastSquares,
    a: np.ndarray,
    residual: float,
    primal: float,
    gap: Any,
    alpha: Any,
    jitter: float,
) -> Solution:
    share = part_of_objective(p, gap, primal, alpha)
    converged = max(residual, share) <= RESIDUAL_TOLERANCE
    message = ""
    if not converged:
        message = (
            f"KernelRidge: {p.kernel} with alpha={alpha} leaves "
            f"{what_is_left(residual, share, RESIDUAL_TOLERANCE)} "
            f"(tolerance {RESIDUAL_TOLERANCE:g}): for this kernel the points nearly "
            "coincide, and the Gram matrix is nearly singular. Use a larger alpha or a shorter "
            "length scale, or drop duplicate rows."
        )
    return Solution(
        value=a,
        converged=converged,
        residual=residual,
        gap=None if gap is None else float(gap),
        primal=float(primal),
        dual=None if gap is None else float(primal - gap),
        message=message,
        extra={"jitter": float(jitter), "method": "primal" if p.D is not None else "dual"},
    )


def part_of_objective(p: LeastSquares, gap: Any, primal: Any, alpha: Any) -> float:
    """Return which part of the objective a gap is.

    0 where a penalty is 0, for rounding, and where targets are all the same with an offset: then
    the least objective is 0, and there is only rounding.
    """
    mean = (p.w @ p.T) / p.w.sum() if p.offset else 0.0
    least = ROUNDING**2 * float((p.w @ p.T**2).sum())
    flat = float((p.w @ (p.T - mean) ** 2).sum()) <= least
    if gap is None or flat or gap <= least or np.any(np.asarray(alpha) == 0):
        return 0.0
    return float(gap) / max(float(primal), TINY)


def what_is_left(residual: float, share: float, tol: float) -> str:
    """Return the residual, or the gap where that alone is above the tolerance, in words."""
    if residual > tol:
        return f"a relative residual of {residual:.2g}"
    return f"a duality gap of {share:.2g} of the objective"


def _relative(r: np.ndarray, scale: np.ndarray) -> float:
    """Return the largest over columns of ‖r‖/‖scale‖."""
    norms = np.linalg.norm(scale, axis=0)
    relative = np.linalg.norm(r, axis=0) / np.where(norms > 0, norms, 1.0)
    return float(relative.max(initial=0.0))


# ---- spectrum ----


@dataclass(frozen=True)
class RidgeFit:
    """A fit: coefficients for all n points, offsets, penalty, certificate and, if known, LOO.

    Of a fit in the span of centres the coefficients are those of the centres, of `rows` rows.
    """

    dual_coef: np.ndarray
    coef: np.ndarray | None
    intercept: np.ndarray
    alpha: Any
    solution: Solution
    alphas: np.ndarray | None = None
    loo_errors: np.ndarray | None = None
    loo: np.ndarray | None = None
    centers: Any = None
    rows: int = 0

    def times(self, unit: float) -> RidgeFit:
        """Return the fit for targets so many times as large."""
        known, square = self.solution, unit * unit  # inf or 0 where the range of floats ends

        def scaled(value: Any, factor: float) -> Any:
            return None if value is None else value * factor

        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            solution = replace(
                known,
                value=known.value * unit,
                gap=scaled(known.gap, square),
                primal=scaled(known.primal, square),
                dual=scaled(known.dual, square),
            )
            return replace(
                self,
                dual_coef=self.dual_coef * unit,
                coef=scaled(self.coef, unit),
                intercept=self.intercept * unit,
                solution=solution,
                loo_errors=scaled(self.loo_errors, square),
                loo=scaled(self.loo, unit),
            )


class DualSpectrum:
    """SKS = UΛUᵀ: B⁻¹ = U(Λ + α)⁻¹Uᵀ for every α."""

    def __init__(self, pairs: Any, K: np.ndarray, problem: LeastSquares):
        self.problem, self.K = problem, K
        self.values = np.maximum(pairs.values, 0.0)
        low = float(pairs.values.min(initial=0.0))
        if low < -1e-8 * float(np.abs(pairs.values).sum()):
            raise indefinite(problem.kernel, problem.equal, low)
        self.U = pairs.vectors
        self.t = self.U.T @ (problem.s[:, None] * problem.T)
        self.ones = self.U.T @ problem.s

    def _coefficients(
        self, alphas: np.ndarray, outputs: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return UᵀS⁻¹a and b for each pair of penalty and output, and diag(P) for each."""
        different, which = np.unique(alphas, return_inverse=True)
        g = filters(self.values, different)
        c, b = g[:, which] * self.t[:, outputs], np.zeros(len(alphas))
        inverse = (self.U * self.U) @ g
        if self.problem.offset:
            h = g * self.ones[:, None]
            length = self.ones @ h
            b = (self.ones @ c) / length[which]
            c -= h[:, which] * b
            inverse -= (self.U @ h) ** 2 / length
        return c, b, inverse[:, which]

    def fit(self, alphas: np.ndarray) -> RidgeFit:
        """Return the fit with one penalty for each output."""
        p = self.problem
        c, b, _ = self._coefficients(alphas, np.arange(len(alphas)))
        z = self.U @ c
        a = p.s[:, None] * z
        Ka = (self.K @ z) / p.s[:, None]  # from the matrix itself, not from its eigenvalues
        alpha = float(alphas[0]) if len(set(alphas)) == 1 else alphas
        return RidgeFit(p.spread(a), None, b, alpha, dual_certificate(p, a, b, Ka, alpha, 0.0))

    def loo_residuals(self, alphas: np.ndarray, outputs: np.ndarray) -> np.ndarray:
        """Return aᵢ/(SPS)ᵢᵢ, a column for each pair of penalty and output."""
        c, _, inverse = self._coefficients(alphas, outputs)
        return (self.U @ c) / (self.problem.s[:, None] * inverse)

    def rows_of_leverage_one(self, alphas: np.ndarray, margin: float) -> np.ndarray:
        """Return no rows: the dual form takes no difference 1 − h."""
        return np.zeros(0, dtype=int)


class PrimalSpectrum:
    """ΦᵀWΦ = VMVᵀ: leverages hᵢ = Σₖ (S Φ V)ᵢₖ²/(μₖ + α), and rᵢ/(1 − hᵢ)."""

    def __init__(self, pairs: Any, A: np.ndarray, mu: np.ndarray, t: np.ndarray, p: LeastSquares):
        self.problem, self.mu, self.t = p, mu, t
        self.values = np.maximum(pairs.values, 0.0)
        self.V = pairs.vectors
        self.Z = A @ self.V
        self.Zt = self.Z.T @ t

    def fit(self, alphas: np.ndarray) -> RidgeFit:
        """Return the fit with one penalty for each output."""
        v = self.V @ (filters(self.values, alphas) * self.Zt)
        alpha = float(alphas[0]) if len(set(alphas)) == 1 else alphas
        return self.problem.from_primal(v, self.mu, 0.0, alpha)

    def _leverages(self, g: np.ndarray) -> np.ndarray:
        p = self.problem
        leverage = (self.Z * self.Z) @ g
        return leverage + (p.w / p.w.sum())[:, None] if p.offset else leverage

    def loo_residuals(self, alphas: np.ndarray, outputs: np.ndarray) -> np.ndarray:
        """Return (yᵢ − f(xᵢ))/(1 − hᵢ), a column for each pair of penalty and output."""
        different, which = np.unique(alphas, return_inverse=True)
        g = filters(self.values, different)
        fitted = self.Z @ (g[:, which] * self.Zt[:, outputs])
        free = 1 - self._leverages(g)[:, which]
        with np.errstate(divide="ignore", invalid="ignore"):
            return (self.t[:, outputs] - fitted) / (self.problem.s[:, None] * free)

    def rows_of_leverage_one(self, alphas: np.ndarray, margin: float) -> np.ndarray:
        """Return the rows whose 1 − h is below the margin, for some penalty."""
        leverage = self._leverages(filters(self.values, np.unique(alphas)))
        return np.flatnonzero((1 - leverage < margin).any(axis=1))


def filters(values: np.ndarray, alphas: np.ndarray) -> np.ndarray:
    """Return 1/(λ + α), with rounding of the eigenvalues as a floor for α = 0."""
    floor = np.finfo(float).eps * len(values) * values.max(initial=0.0)
    return 1 / np.maximum(values[:, None] + alphas[None, :], max(floor, 1e-300))
