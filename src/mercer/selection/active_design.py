"""vᵀAv and vᵀAAv of a fitted model at new points, from features or from kernel values only.

A = (VᵀWV + αJ)⁻¹ with V = Φ and J = I; with an offset V = [Φ 1] and J = diag(I, 0). From features,
with QR of the stacked [W^½V; (αJ)^½] = QR: vᵀAv = ‖R⁻ᵀv‖² and Av = R⁻¹R⁻ᵀv.

From kernel values, with C = K + αW⁻¹, kₓ = k(X, x), z = C⁻¹kₓ and A₀ the part without offset:
A₀ = (I − ΦᵀC⁻¹Φ)/α, so that φᵀA₀φ = (k(x, x) − kₓᵀz)/α, and with Kz = kₓ − αW⁻¹z
‖A₀φ‖² = (k(x, x) − 2kₓᵀz + zᵀKz)/α² = (k(x, x) − kₓᵀz − α zᵀW⁻¹z)/α².
An offset adds by block inversion, with g = A₀ΦᵀW1 = ΦᵀC⁻¹1, h = C⁻¹1, the Schur complement
s = 1ᵀW1 − 1ᵀWΦg = α 1ᵀh and r = (1 − kₓᵀh)/s: A(φ, 1) = (A₀φ − rg, r), hence
vᵀAv = φᵀA₀φ + s r² and ‖Av‖² = ‖A₀φ‖² − 2r gᵀA₀φ + r²(‖g‖² + 1), where gᵀA₀φ = hᵀW⁻¹z and
‖g‖² = 1ᵀh − α hᵀW⁻¹h.

What a point has beyond the features of the labelled ones, such as runs of letters that these do not
have, is orthogonal to V: A is 1/α there, so its squared length β = k(x, x) − ‖φ(x)‖² adds β/α to
vᵀAv and β/α² to vᵀAAv.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg as la
import scipy.sparse as sp

from mercer.errors import InvalidInput
from mercer.estimator.trust import beyond_features
from mercer.models.ridge.exact import LeastSquares

__all__ = ["Design"]


class Design:
    """The two forms at canonical points, for a fitted ridge model or a risk near its solution.

    Parameters
    ----------
    model : RidgeBase or RiskEstimator
        Fitted, with one penalty.
    weights : ndarray of shape (n,), optional
        The weights W; by default those of the fit.
    """

    def __init__(self, model: Any, weights: np.ndarray | None = None):
        alpha = np.unique(np.asarray(model.alpha_, dtype=float))
        if len(alpha) > 1:
            raise InvalidInput(
                f"active: {type(model).__name__} has a penalty for each output; fit it with one."
            )
        self.kernel, self.offset, self.alpha = model.kernel_, model.fit_intercept_, float(alpha[0])
        self.unit = self.alpha if self.alpha > 0 else 1.0
        weights = model.sample_weight_ if weights is None else weights
        targets = np.zeros((len(model.y_fit_), 1))  # what was measured does not matter
        self.problem = LeastSquares(self.kernel, model.X_fit_, targets, weights, self.offset)
        n = len(self.problem.w)
        D = self.kernel._n_features(self.problem.X)
        self.primal = D is not None and D <= n
        self.width = D if self.primal else n
        if self.primal:
            self._factor_features()
        elif self.alpha > 0:
            self._factor_gram()
        else:
            raise self._undetermined()

    def __call__(self, points: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return vᵀAv and vᵀAAv for every point."""
        with np.errstate(over="ignore", invalid="ignore"):
            once, twice = self._from_features(points) if self.primal else self._from_gram(points)
        return np.maximum(once, 0.0), np.maximum(twice, 0.0)

    # -- features -----------------------------------------------------------------------------
    def _factor_features(self) -> None:
        V = self._with_offset(self._features(self.problem.X))
        penalty = np.sqrt(self.alpha) * np.eye(V.shape[1])
        if self.offset:
            penalty = penalty[:-1]
        stacked = np.vstack([self.problem.s[:, None] * V, penalty])
        self.R, self.order = la.qr(stacked, mode="r", pivoting=True)
        self.R = self.R[: V.shape[1]]
        d = np.abs(np.diagonal(self.R))
        if len(d) < V.shape[1] or d[-1] <= len(stacked) * np.finfo(float).eps * d[0]:
            raise self._undetermined()

    def _features(self, points: Any) -> np.ndarray:
        V = self.kernel._features(points)
        return V.toarray() if sp.issparse(V) else np.asarray(V, dtype=float)

    def _with_offset(self, V: np.ndarray) -> np.ndarray:
        return np.hstack([V, np.ones((len(V), 1))]) if self.offset else V

    def _from_features(self, points: Any) -> tuple[np.ndarray, np.ndarray]:
        phi = self._features(points)
        V = self._with_offset(phi).T[self.order]
        half = la.solve_triangular(self.R, V, trans=1, check_finite=False)
        whole = la.solve_triangular(self.R, half, check_finite=False)
        once, twice = np.einsum("ij,ij->j", half, half), np.einsum("ij,ij->j", whole, whole)
        beyond = beyond_features(self.kernel, points, phi)
        if not beyond.any():
            return once, twice
        if self.alpha == 0:
            raise self._undetermined()
        return once + beyond / self.alpha, twice + beyond / self.alpha**2

    def _undetermined(self) -> InvalidInput:
        return InvalidInput(
            "active: alpha=0 and the labelled points do not determine all weights, so the variance "
            "is infinite in some direction; give alpha > 0, or label more points first."
        )

    # -- kernel values ------------------------------------------------------------------------
    def _factor_gram(self) -> None:
        # B = SKS + αI with S = W^½: C⁻¹ = S B⁻¹ S
        self.factor = self.problem._factor(self.alpha)
        if self.offset:
            self.h = self.factor.solve(self.problem.s)

    def _from_gram(self, points: Any) -> tuple[np.ndarray, np.ndarray]:
        alpha, s = self.alpha, self.problem.s
        sk = s[:, None] * np.asarray(self.kernel(points, self.problem.X), dtype=float).T
        z = self.factor.solve(sk)  # W^(−½) C⁻¹ kₓ
        left = np.asarray(self.kernel.diag(points), dtype=float) - np.einsum("ij,ij->j", sk, z)
        once = left / alpha
        twice = (once - np.einsum("ij,ij->j", z, z)) / alpha
        if self.offset:
            total = float(s @ self.h)
            schur = alpha * total
            r = (1.0 - self.h @ sk) / schur
            once = once + schur * r**2
            square = total - alpha * float(self.h @ self.h)
            twice = twice - 2 * r * (self.h @ z) + r**2 * (square + 1.0)
        return once, twice
