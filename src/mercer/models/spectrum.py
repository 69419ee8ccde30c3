"""Ridge fits for any number of penalties from one eigendecomposition, with exact leave-one-out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.models.certificate import dual_certificate
from mercer.models.ridge_data import indefinite
from mercer.solvers import Solution

if TYPE_CHECKING:
    from mercer.models.least_squares import LeastSquares

__all__ = ["DualSpectrum", "PrimalSpectrum", "Ridge", "filters"]


@dataclass(frozen=True)
class Ridge:
    """A fit: coefficients for all n points, offsets, penalty, certificate and, if known, LOO."""

    dual_coef: np.ndarray
    coef: np.ndarray | None
    intercept: np.ndarray
    alpha: Any
    solution: Solution
    alphas: np.ndarray | None = None
    loo_errors: np.ndarray | None = None
    loo: np.ndarray | None = None

    def times(self, unit: float) -> Ridge:
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

    def fit(self, alphas: np.ndarray) -> Ridge:
        """Return the fit with one penalty for each output."""
        p = self.problem
        c, b, _ = self._coefficients(alphas, np.arange(len(alphas)))
        z = self.U @ c
        a = p.s[:, None] * z
        Ka = (self.K @ z) / p.s[:, None]  # from the matrix itself, not from its eigenvalues
        alpha = float(alphas[0]) if len(set(alphas)) == 1 else alphas
        return Ridge(p._spread(a), None, b, alpha, dual_certificate(p, a, b, Ka, alpha, 0.0))

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

    def fit(self, alphas: np.ndarray) -> Ridge:
        """Return the fit with one penalty for each output."""
        v = self.V @ (filters(self.values, alphas) * self.Zt)
        alpha = float(alphas[0]) if len(set(alphas)) == 1 else alphas
        return self.problem._from_primal(v, self.mu, 0.0, alpha)

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
