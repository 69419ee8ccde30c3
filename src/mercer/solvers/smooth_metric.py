"""Newton's linear algebra for a regularised risk: by coefficients of points, or of features.

A function is held by its coefficients c. Its values at the points are ``values(c)``, and the
gradient of the objective at values with slopes g is the function with coefficients
``gradient(c, g)``. With curvatures h a Newton step (δ, δb) solves

    (alpha + Σᵢ hᵢ k(xᵢ, ·) ⊗ k(xᵢ, ·)) δ + δb Σᵢ hᵢ k(xᵢ, ·) = −gradient,
    Σᵢ hᵢ (δ(xᵢ) + δb) = −Σᵢ gᵢ.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from scipy.linalg.blas import dgemv
from scipy.linalg.lapack import dpotrs

from mercer.engines.blocks import require_memory
from mercer.operators import LowRank
from mercer.solvers.checks import check_finite_symmetric
from mercer.solvers.diagnosis import not_positive_definite
from mercer.solvers.inplace import mirror, potrf
from mercer.solvers.smooth import CheckedSmooth

__all__ = ["DualMetric", "Metric", "PrimalMetric", "metric_of"]

_SLAB = 2**17  # entries of K that are scaled while they are in cache
# Rungs of jitter, relative to the mean of the diagonal: see `factor`. The step stays a descent
# whatever is added, and the certificate does not see it.
_RUNGS = (0.0, 1e-14, 1e-12, 1e-10, 1e-8)
_REFINE = 50  # steps of conjugate gradients that take the jitter out of a Newton step again
_REFINED = 1e-8


class Metric(Protocol):
    """What a Newton method needs to know of the functions it moves among."""

    size: int
    jitter: float

    def values(self, c: np.ndarray) -> np.ndarray: ...
    def inner(self, c: np.ndarray, d: np.ndarray, d_values: np.ndarray) -> float: ...
    def gradient(self, c: np.ndarray, g: np.ndarray) -> np.ndarray: ...
    def factor(self, h: np.ndarray) -> None: ...
    def step(
        self, c: np.ndarray, gradient: np.ndarray, total: float
    ) -> tuple[np.ndarray, float]: ...


def metric_of(problem: CheckedSmooth, owner: str) -> DualMetric | PrimalMetric:
    """Return the smaller of the two: features where there are fewer of them than points."""
    K = problem.K
    if isinstance(K, LowRank) and K.F.shape[1] < problem.n:
        return PrimalMetric(K.F, problem.w, problem.alpha, problem.offset)
    n = problem.n
    require_memory(
        17 * n * n,
        f"{owner}: the {n} × {n} Gram matrix and its factor",
        "Fit fewer rows, or use a kernel with finite features",
    )
    dense = np.ascontiguousarray(K.to_dense(), dtype=np.float64)
    check_finite_symmetric(dense, owner)
    return DualMetric(dense, problem.alpha, problem.offset, owner)


class DualMetric:
    """Functions Σ cᵢ k(xᵢ, ·): a factor of B = alpha·I + SKS over the rows with h > 0, S = √h.

    The gradient is alpha·c + g and the step solves (alpha·I + HK)δ + h δb = −gradient: outside
    these rows δ is −gradient/alpha, inside δ = S u with B u = −S⁻¹ gradient − S(Kδ_outside + δb).
    """

    def __init__(self, K: np.ndarray, alpha: float, offset: bool, owner: str):
        self.K, self.alpha, self.offset, self.owner = K, alpha, offset, owner
        self.size = len(K)
        self.jitter = 0.0
        self._buffer: np.ndarray | None = None
        self._index: np.ndarray | None = None
        self._s = np.zeros(0)
        self._factor = np.zeros((0, 0))
        self._ones: np.ndarray | None = None

    def values(self, c: np.ndarray) -> np.ndarray:
        """Return Kc; by SciPy's BLAS, as the threads of another would disturb the factorisation."""
        return dgemv(1.0, self.K.T, c)

    def inner(self, c: np.ndarray, d: np.ndarray, d_values: np.ndarray) -> float:
        """Return ⟨c, d⟩ in the space of functions."""
        return float(c @ d_values)

    def gradient(self, c: np.ndarray, g: np.ndarray) -> np.ndarray:
        """Return the coefficients of alpha f + Σ gᵢ k(xᵢ, ·)."""
        return self.alpha * c + g

    def factor(self, h: np.ndarray) -> None:
        """Factorise B in a buffer that serves all steps."""
        self._index = None if (h > 0).all() else np.flatnonzero(h > 0)
        self._s = np.sqrt(h if self._index is None else h[self._index])
        self._ones, m = None, len(self._s)
        if self._buffer is None:
            self._buffer = np.empty(self.size**2)
        for rung in _RUNGS:
            self._fill(m)
            B = self._buffer[: m * m].reshape(m, m)
            diagonal = np.einsum("ii->i", B)
            diagonal += self.alpha
            self.jitter = rung * float(diagonal.mean()) if m else 0.0
            diagonal += self.jitter
            self._factor = B.T
            if potrf(self._factor):
                return
        self._fill(m)
        np.einsum("ii->i", B)[...] += self.alpha
        mirror(B)
        raise not_positive_definite(B.T, "jitter does not help", self.owner)

    def _fill(self, m: int) -> None:
        """Write the triangle of SKS that the factorisation reads: above in C, below in Fortran."""
        B, s, index = self._buffer[: m * m].reshape(m, m), self._s, self._index  # type: ignore[index]
        step = max(1, _SLAB // max(m, 1))
        for i in range(0, m, step):
            j = min(i + step, m)
            if index is None:
                np.multiply(self.K[i:j, i:], s[i:], out=B[i:j, i:])
            else:
                part = np.take(self.K[index[i:j]], index[i:], axis=1)
                np.multiply(part, s[i:], out=B[i:j, i:])
            B[i:j, i:] *= s[i:j, None]

    def _solve(self, rhs: np.ndarray) -> np.ndarray:
        """Return B⁻¹ rhs; where jitter was added, by conjugate gradients with the factor."""
        if not len(rhs):
            return rhs
        u = dpotrs(self._factor, rhs, lower=1)[0]
        if self.jitter == 0:
            return u
        r = rhs - self._times(u)
        q = dpotrs(self._factor, r, lower=1)[0]
        d, rq, first = q.copy(), float(r @ q), float(rhs @ u)
        for _ in range(_REFINE):
            if not rq > _REFINED**2 * first:
                break
            Bd = self._times(d)
            curvature = float(d @ Bd)
            if not curvature > 0:
                break
            u = u + (rq / curvature) * d
            r = r - (rq / curvature) * Bd
            q = dpotrs(self._factor, r, lower=1)[0]
            rq, before = float(r @ q), rq
            d = q + (rq / before) * d
        return u

    def _times(self, u: np.ndarray) -> np.ndarray:
        return self.alpha * u + self._s * self._inside(self.values(self._outside(self._s * u)))

    def _inside(self, v: np.ndarray) -> np.ndarray:
        return v if self._index is None else v[self._index]

    def _outside(self, v: np.ndarray) -> np.ndarray:
        if self._index is None:
            return v
        out = np.zeros(self.size)
        out[self._index] = v
        return out

    def step(self, c: np.ndarray, gradient: np.ndarray, total: float) -> tuple[np.ndarray, float]:
        """Return (δ, δb), the step that the last factor gives."""
        s = self._s
        rhs = -self._inside(gradient) / s
        delta = np.zeros(self.size)
        if self._index is not None:
            delta = -gradient / self.alpha
            delta[self._index] = 0.0
            rhs -= s * self._inside(self.values(delta))
        delta += self._outside(s * self._solve(rhs))
        if not self.offset or not len(s):
            return delta, 0.0
        if self._ones is None:
            self._ones = self._outside(s * self._solve(s))
        shift = float(c.sum() + delta.sum()) / float(self._ones.sum())
        return delta - shift * self._ones, shift


class PrimalMetric:
    """Functions vᵀφ(x) with D features: a factor of alpha·I + Φ̃ᵀHΦ̃, Φ̃ centred with weights h.

    With an offset the features are centred once around their weighted mean as well, which moves
    the offset and nothing else, and keeps rounding small where the features lie far from 0.
    """

    def __init__(self, F: np.ndarray, w: np.ndarray, alpha: float, offset: bool):
        n, D = F.shape
        require_memory(
            3 * n * D * 8 + 2 * D * D * 8, f"IRLS: the {n} × {D} features", "Fit fewer rows"
        )
        self.F = np.asarray(F, dtype=np.float64)
        self.centre = w @ self.F / w.sum() if offset else np.zeros(D)
        if offset:
            self.F = self.F - self.centre
        self.alpha, self.offset, self.size = alpha, offset, D
        self.jitter = 0.0
        self._factor = np.zeros((0, 0))
        self._mean, self._sum = np.zeros(D), 0.0

    def values(self, c: np.ndarray) -> np.ndarray:
        """Return Φv."""
        return self.F @ c

    def inner(self, c: np.ndarray, d: np.ndarray, d_values: np.ndarray) -> float:
        """Return ⟨c, d⟩ in the space of functions."""
        return float(c @ d)

    def gradient(self, c: np.ndarray, g: np.ndarray) -> np.ndarray:
        """Return alpha v + Φᵀg."""
        return self.alpha * c + g @ self.F

    def factor(self, h: np.ndarray) -> None:
        """Factorise the D×D matrix."""
        self._sum = float(h.sum())
        centred = self.offset and self._sum > 0
        self._mean = h @ self.F / self._sum if centred else np.zeros(self.size)
        A = self.F - self._mean if centred else self.F.copy()
        A *= np.sqrt(h)[:, None]
        M = A.T @ A
        np.einsum("ii->i", M)[...] += self.alpha
        for rung in _RUNGS:
            self.jitter = rung * float(np.trace(M)) / max(1, self.size)
            self._factor = np.array(M, order="F")
            np.einsum("ii->i", self._factor)[...] += self.jitter
            if potrf(self._factor):
                return
        raise not_positive_definite(M, "jitter does not help", "IRLS")

    def step(self, c: np.ndarray, gradient: np.ndarray, total: float) -> tuple[np.ndarray, float]:
        """Return (δ, δb), the step that the last factor gives."""
        rhs = self._mean * total - gradient
        delta = dpotrs(self._factor, rhs, lower=1)[0] if self.size else rhs
        if not self.offset or self._sum == 0:
            return delta, 0.0
        return delta, -total / self._sum - float(self._mean @ delta)


def original_offset(metric: Any, c: np.ndarray, b: float) -> float:
    """Return the offset for features that were not centred."""
    return b - float(metric.centre @ c) if isinstance(metric, PrimalMetric) else b
