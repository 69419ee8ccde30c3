"""Newton's linear algebra for a regularised risk: by coefficients of points, or of features.

A function is held by its coefficients c. Its values at the points are ``values(c)``, and the
gradient of the objective at values with slopes g is the function with coefficients
``gradient(c, g)``. With curvatures h a Newton step (δ, δb) solves

    (alpha + Σᵢ hᵢ k(xᵢ, ·) ⊗ k(xᵢ, ·)) δ + δb Σᵢ hᵢ k(xᵢ, ·) = −gradient,
    Σᵢ hᵢ (δ(xᵢ) + δb) = −Σᵢ gᵢ.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.errors import speaks
from mercer.lapack import dpotrs, dtrsm, heard
from mercer.memory import require_memory
from mercer.operators import Dense, LowRank
from mercer.solvers.base import sharp_product
from mercer.solvers.linear import (
    BlockCG,
    cuts,
    dots,
    not_positive_definite,
    potrf,
)
from mercer.solvers.risk.gram import RUNGS, SharedGram
from mercer.solvers.risk.smooth import EPS

# ---- smooth metric ----


_REFINE = 50  # steps of conjugate gradients that take the jitter out of a Newton step again
_REFINED = 1e-8
_CANCELS = 1e-4  # a leverage below this part of 1 is computed from the kernel
_COLUMNS = 256
_PART = 2**16  # entries of features that are worked on at a time
MOMENTS = 32  # bytes for each entry of ΦᵀHΦ: as it is made, two factors
EXACT = 1e-10  # relative error of weights Φᵀa of the coefficients a


def metric_of(problem: Any) -> DualMetric | PrimalMetric:
    """Return the smaller of the two: features where there are fewer of them than points."""
    K = problem.K
    if isinstance(K, LowRank) and K.F.shape[1] < problem.n:
        kind = SparseMetric if sp.issparse(K.F) else PrimalMetric
        return kind(K.F, problem.w, problem.alpha, problem.offset)
    gram = K if isinstance(K, SharedGram) else SharedGram(K)
    return DualMetric(gram, problem.alpha, problem.offset)


class DualMetric:
    """Functions Σ cᵢ k(xᵢ, ·): a factor of B = alpha·I + SKS over the rows with h > 0, S = √h.

    The gradient is alpha·c + g and the step solves (alpha·I + HK)δ + h δb = −gradient: outside
    these rows δ is −gradient/alpha, inside δ = S u with B u = −S⁻¹ gradient − S(Kδ_outside + δb).
    """

    def __init__(self, gram: SharedGram, alpha: float, offset: bool):
        self.gram, self.alpha, self.offset = gram, alpha, offset
        self.size = gram.n
        self.jitter = 0.0
        self._s = np.zeros((0, 1))
        self._ones: np.ndarray | None = None

    def values(self, c: np.ndarray) -> np.ndarray:
        """Return Kc."""
        return self.gram.times(c)

    def sharp(self, c: np.ndarray) -> np.ndarray | None:
        """Return Kc in longer numbers; None where that is too much work."""
        return sharp_product(self.gram, c)

    def inner(self, c: np.ndarray, d: np.ndarray, d_values: np.ndarray) -> float:
        """Return ⟨c, d⟩ in the space of functions."""
        return float((c * d_values).sum())  # no BLAS: its threads would be in the way

    def gradient(self, c: np.ndarray, g: np.ndarray) -> np.ndarray:
        """Return the coefficients of alpha f + Σ gᵢ k(xᵢ, ·)."""
        return self.alpha * c + g

    def factor(self, h: np.ndarray, rough: bool = False) -> None:
        """Factorise B; roughly, where it is the preconditioner of something else."""
        self._s, self._ones = np.sqrt(h)[:, None], None
        self.gram.factor(self._s[:, 0], self.alpha, rough)
        self.jitter = self.gram.jitter

    def step(self, sums: Any, gradient: np.ndarray, total: Any) -> tuple[np.ndarray, Any]:
        """Return (δ, δb), the step that the last factor gives, with Σδ = −sums for an offset."""
        s, G = self._s, gradient.reshape(self.size, -1)
        used = s > 0
        with np.errstate(divide="ignore", invalid="ignore"):
            rhs = np.where(used, -G / s, 0.0)
        delta = np.zeros(G.shape)
        if not used.all():
            delta = np.where(used, 0.0, -G / self.alpha)
            rhs -= s * self.values(delta)
        shift = np.zeros(G.shape[1])
        if used.any():
            if self.offset and self._ones is None:
                rhs = np.concatenate([rhs, s], axis=1)
            U = s * self._solve(np.asfortranarray(rhs), refine=gradient.ndim == 1)
            if self.offset and self._ones is None:
                self._ones, U = U[:, -1:], U[:, :-1]
            delta = delta + U
            if self._ones is not None:
                shift = (sums + delta.sum(axis=0)) / self._ones.sum()
                delta = delta - shift * self._ones
        if gradient.ndim == 1:
            return delta[:, 0], float(shift[0])
        return delta, shift

    def leverage(self, h: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (κ, 1 − hκ), κᵢ the variance vᵢ/alpha of the value at row i given curvatures h.

        vᵢ/alpha is the diagonal of (alpha K⁻¹ + H)⁻¹, with the offset fitted; a gradient gᵢ less
        moves the value by gᵢκᵢ/(1 − hᵢκᵢ). From P = B⁻¹, κ = (1 − alpha Pᵢᵢ)/h, unless that
        cancels; then from K and half of a solve.
        """
        self.factor(h)
        s, alpha = self._s[:, 0], self.alpha
        P = self.gram.inverse_diagonal()
        ones = np.zeros(self.size)
        if self.offset and s.any():
            ones = self.gram.solve(s)
            P = P - ones**2 / (s @ ones)
        with np.errstate(divide="ignore", invalid="ignore"):
            kappa, rest = (1.0 - alpha * P) / h, alpha * P
        low = np.flatnonzero(~(rest < 1.0 - _CANCELS))
        if self.offset and not s.any():
            return np.full(self.size, np.inf), np.ones(self.size)
        for start in range(0, len(low), _COLUMNS):
            at = low[start : start + _COLUMNS]
            part = s[:, None] * self.gram.block(slice(None), at)
            v = self.gram.diagonal()[at] - self.gram.squares(part)
            if self.offset:
                v += (1.0 - ones @ part) ** 2 / (s @ ones)
            kappa[at] = np.maximum(v, 0.0) / alpha
            rest[at] = 1.0 - h[at] * kappa[at]
        return kappa, rest

    def _solve(self, R: np.ndarray, refine: bool) -> np.ndarray:
        """Return B⁻¹R; where jitter was added, by conjugate gradients with the factor."""
        U = self.gram.solve(R)
        if self.jitter > 0 and refine:
            for j in range(U.shape[1]):
                U[:, j] = self._refined(U[:, j], R[:, j])
        return U

    def _refined(self, u: np.ndarray, rhs: np.ndarray) -> np.ndarray:
        def times(V: np.ndarray) -> np.ndarray:
            return self.alpha * V + s * self.values((s * V)[:, 0])[:, None]

        s, goal = self._s, _REFINED**2 * float(rhs @ u)
        X = u[:, None]
        R = np.where(s > 0, rhs[:, None] - times(X), 0.0)
        Z = self.gram.solve(R)
        block = BlockCG(X.copy(), R, Z, dots(R, Z))
        for _ in range(_REFINE):
            if not block.rz > goal or not block.forward(times, lambda P, curvature: curvature > 0):
                break
            block.turn(self.gram.solve(block.R))
        return block.X[:, 0]


class PrimalMetric:
    """Functions vᵀφ(x) with D features: a factor of alpha·I + Φ̃ᵀHΦ̃, Φ̃ centred with weights h.

    With an offset the features are centred once around their weighted mean as well, which moves
    the offset and nothing else, and keeps rounding small where the features lie far from 0.
    """

    def __init__(self, F: np.ndarray, w: np.ndarray, alpha: float, offset: bool):
        n, D = F.shape
        require_memory(
            3 * n * D * 8 + 2 * D * D * 8, f"The {n} × {D} features of a kernel", "Fit fewer rows"
        )
        F = np.asarray(F, dtype=np.float64)
        centre = w @ F / w.sum() if offset else np.zeros(D)
        self._begin(F - centre if offset else F, centre, alpha, offset)

    def _begin(self, F: Any, centre: np.ndarray, alpha: float, offset: bool) -> None:
        self.F, self.centre = F, centre
        self.n, self.size = F.shape
        self.alpha, self.offset, self.jitter = alpha, offset, 0.0
        self._factor = np.zeros((0, 0))
        self._mean, self._sum = np.zeros(self.size), 0.0

    def values(self, c: np.ndarray) -> np.ndarray:
        """Return Φv."""
        return self.F @ c

    def sharp(self, c: np.ndarray) -> np.ndarray | None:
        """Return Φv in longer numbers; None where that is too much work, or features are sparse."""
        return None if sp.issparse(self.F) else sharp_product(Dense(self.F), c)

    def inner(self, c: np.ndarray, d: np.ndarray, d_values: np.ndarray) -> float:
        """Return ⟨c, d⟩ in the space of functions."""
        return float((c * d).sum())

    def gradient(self, c: np.ndarray, g: np.ndarray) -> np.ndarray:
        """Return alpha v + Φᵀg."""
        return self.alpha * c + self.back(g)

    def back(self, g: np.ndarray) -> np.ndarray:
        """Return Φᵀg."""
        return self.F.T @ g

    def sizes(self, g: np.ndarray) -> np.ndarray:
        """Return |Φ|ᵀ|g|, how large the terms of Φᵀg are."""
        out = np.zeros((self.size, *g.shape[1:]))
        for part in self._parts():
            out += np.abs(self.F[part]).T @ np.abs(g[part])
        return out

    def spread(self, c: np.ndarray) -> np.ndarray:
        """Return |Φ||v|, how large the terms of Φv are before columns are centred."""
        c = np.abs(c)
        parts = [np.abs(self.F[part]) @ c for part in self._parts()]
        return np.concatenate([np.zeros((0, *c.shape[1:])), *parts]) + 2 * np.abs(self.centre) @ c

    def _parts(self) -> list[slice]:
        """Return slices of rows that stay in a cache while they are worked on."""
        return [slice(*ends) for ends in cuts(self.n, max(1, _PART // max(1, self.size)))]

    @speaks("The features")
    def factor(self, h: np.ndarray, rough: bool = False) -> None:
        """Factorise the D×D matrix."""
        self._sum = float(h.sum())
        centred = self.offset and self._sum > 0
        self._mean = self.back(h) / self._sum if centred else np.zeros(self.size)
        M = self._moment(h)
        np.einsum("ii->i", M)[...] += self.alpha
        for rung in RUNGS:
            self.jitter = rung * float(np.trace(M)) / max(1, self.size)
            self._factor = np.array(M, order="F")
            np.einsum("ii->i", self._factor)[...] += self.jitter
            if potrf(self._factor):
                return
        raise not_positive_definite(np.asfortranarray(M), "jitter does not help")

    def _moment(self, h: np.ndarray) -> np.ndarray:
        """Return Φ̃ᵀHΦ̃."""
        root, M = np.sqrt(h)[:, None], np.zeros((self.size, self.size))
        for part in self._parts():
            A = self._rows(part)
            A *= root[part]
            M += A.T @ A
        return M

    def _rows(self, part: slice) -> np.ndarray:
        """Return some rows of Φ̃."""
        return self.F[part] - self._mean

    def step(self, sums: Any, gradient: np.ndarray, total: Any) -> tuple[np.ndarray, Any]:
        """Return (δ, δb), the step that the last factor gives."""
        rhs = np.multiply.outer(self._mean, total) - gradient
        delta = dpotrs(self._factor, rhs, lower=1)[0] if self.size else rhs
        if not self.offset or self._sum == 0:
            return delta, 0.0 * total
        return delta, -total / self._sum - self._mean @ delta

    def leverage(self, h: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (κ, 1 − hκ), as of `DualMetric`: κᵢ = φ̃ᵢᵀM⁻¹φ̃ᵢ, plus 1/Σh for the offset."""
        self.factor(h)
        if self.offset and self._sum == 0:  # nothing says where the offset is
            return np.full(self.n, np.inf), np.ones(self.n)
        kappa = np.zeros(self.n)
        for part in (slice(*ends) for ends in cuts(self.n, _COLUMNS)):
            half = dtrsm(1.0, self._factor, self._rows(part).T, lower=1)
            kappa[part] = (half**2).sum(axis=0)
        if self.offset:
            kappa += 1.0 / self._sum
        return kappa, 1.0 - h * kappa

    def coefficients(self, v: np.ndarray, a: np.ndarray) -> np.ndarray:
        """Return a with Φᵀa = v and, with an offset, Σa = 0: the given one, made exact.

        For a small alpha −g/alpha is large and its rounding too; then the smallest such a.
        """
        A, want = self.F, v
        if self.offset:
            stack = sp.hstack if sp.issparse(A) else np.hstack
            A = stack([A, np.ones((self.n, 1))])
            want = np.concatenate([v, np.zeros((1, *v.shape[1:]))])
        exact = EXACT * np.linalg.norm(v)
        if EPS * np.linalg.norm(np.abs(A).T @ np.abs(a)) <= exact:
            inverse = None
            for _ in range(3):
                lack = want - A.T @ a
                if np.linalg.norm(lack) <= exact:
                    return a
                if inverse is None:
                    inverse = heard(np.linalg.pinv, _as_dense(A.T @ A), hermitian=True)
                a = a + A @ (inverse @ lack)
        A = _as_dense(A)
        a = heard(np.linalg.lstsq, A.T, want, rcond=None)[0]
        return a + heard(np.linalg.lstsq, A.T, want - A.T @ a, rcond=None)[0]


class SparseMetric(PrimalMetric):
    """The same where most features are zero: Φ stays sparse, and products with it are centred.

    Φᵀ(u − μΣu) for Φ̃ᵀu and ΦᵀHΦ − Σh·mmᵀ, m the mean with weights h, for Φ̃ᵀHΦ̃. The latter loses
    the digits that both share; a Newton step from it is a descent all the same, and gradients do
    not need it.
    """

    def __init__(self, F: Any, w: np.ndarray, alpha: float, offset: bool):
        D = F.shape[1]
        require_memory(
            MOMENTS * D * D + 36 * F.nnz,
            f"The {D} × {D} moments of the features of a kernel",
            "Use a kernel with fewer features",
        )
        F = sp.csr_array(F, dtype=np.float64)
        self._begin(F, F.T @ w / w.sum() if offset else np.zeros(D), alpha, offset)

    def values(self, c: np.ndarray) -> np.ndarray:
        """Return Φv."""
        return self.F @ c - self.centre @ c

    def back(self, g: np.ndarray) -> np.ndarray:
        """Return Φᵀg."""
        return self.F.T @ g - np.multiply.outer(self.centre, g.sum(axis=0))

    def sizes(self, g: np.ndarray) -> np.ndarray:
        """Return |Φ|ᵀ|g|, how large the terms of Φᵀg are."""
        g = np.abs(g)
        return abs(self.F).T @ g + np.multiply.outer(np.abs(self.centre), g.sum(axis=0))

    def spread(self, c: np.ndarray) -> np.ndarray:
        """Return |Φ||v|, how large the terms of Φv are before columns are centred."""
        return abs(self.F) @ np.abs(c) + 2 * np.abs(self.centre) @ np.abs(c)

    def _moment(self, h: np.ndarray) -> np.ndarray:
        M = (self.F.T @ (sp.diags_array(h) @ self.F)).toarray()
        m = self.centre + self._mean
        M -= np.outer(self._sum * m, m)
        return M

    def _rows(self, part: slice) -> np.ndarray:
        return self.F[part].toarray() - (self.centre + self._mean)


def _as_dense(A: Any) -> np.ndarray:
    return A.toarray() if sp.issparse(A) else A
