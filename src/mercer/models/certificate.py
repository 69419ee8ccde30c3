"""The certificate of a ridge fit: residual, primal and dual value and gap, from K or Φ itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.solvers import Solution

if TYPE_CHECKING:
    from mercer.models.least_squares import LeastSquares

__all__ = ["dual_certificate", "primal_certificate"]

RESIDUAL_TOLERANCE = 1e-6


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
    converged = residual <= RESIDUAL_TOLERANCE
    message = ""
    if not converged:
        message = (
            f"KernelRidge: {p.kernel!r} with alpha={alpha} leaves a relative residual of "
            f"{residual:.2g} (tolerance {RESIDUAL_TOLERANCE:g}): for this kernel the points nearly "
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


def _relative(r: np.ndarray, scale: np.ndarray) -> float:
    """Return the largest over columns of ‖r‖/‖scale‖."""
    norms = np.linalg.norm(scale, axis=0)
    relative = np.linalg.norm(r, axis=0) / np.where(norms > 0, norms, 1.0)
    return float(relative.max(initial=0.0))
