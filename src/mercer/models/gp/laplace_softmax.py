"""Laplace's approximation for several classes: a latent function each, joined by softmax.

The classes have independent priors N(0, K). With s = wπ, D_c = diag(s_c) and the weights on the
diagonal of w, W = −∇∇ log p = D − D R w⁻¹ RᵀD, where R stacks C identities, and with
E_c = (K + D_c⁻¹)⁻¹ everything follows from C matrices of order n (Rasmussen & Williams, algorithm
3.3 and eq. 3.46–3.47; with weights RᵀDR = w takes the place of the identity):

    (K + W⁻¹)⁻¹ = E − E R (Σ E_c)⁻¹ RᵀE,   |I + KW| = |Σ E_c| Π |I + D_c^½KD_c^½| / Π wᵢ.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg.blas import dsyrk, dtrmv, dtrsm
from scipy.linalg.lapack import dpotrs
from scipy.special import log_softmax, softmax

from mercer.engines.threads import times
from mercer.errors import NotPositiveDefinite
from mercer.models.gp.approximation import Approximation, SiteFactor, Warm, square_buffer
from mercer.models.gp.laplace import add_outer
from mercer.models.gp.mode import CONVERGED, TIGHT, distance, find_mode, unconverged
from mercer.solvers.linear.inplace import mirror, potrf

__all__ = ["SoftmaxApproximation", "SoftmaxFactor", "laplace_softmax"]


class SoftmaxFactor:
    """E_c of each class and the Cholesky factor M of their sum.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        The Gram matrix; read only.
    sites : ndarray of shape (n, C)
        s = wπ, probabilities times weights.
    buffer : list of C + 1 arrays of shape (n, n), Fortran order, optional
        Where they go.
    """

    def __init__(self, K: np.ndarray, sites: np.ndarray, buffer: list | None = None):
        n, C = sites.shape
        self.sites, self.spent = sites, False
        self.buffer = [square_buffer(n) for _ in range(C + 1)] if buffer is None else buffer
        self.E, self.M = self.buffer[:C], self.buffer[C]
        self._logdet = -float(np.log(sites.sum(axis=1)).sum())
        self.M[...] = 0.0
        for c in range(C):
            block = SiteFactor(K, np.sqrt(sites[:, c]), self.E[c])
            self._logdet += block.logdet()
            block.inverse()
            self.M += self.E[c]
        self.diagonal = np.diagonal(self.M).copy()
        if not potrf(self.M):
            raise NotPositiveDefinite(
                "Laplace's approximation of several classes: rounding makes a sum of positive "
                "definite matrices indefinite, since the kernel's values are very large; bound "
                "the kernel's scale."
            )
        self._logdet += 2.0 * float(np.log(np.diagonal(self.M)).sum())

    def logdet(self) -> float:
        """Return log |I + KW|."""
        return self._logdet

    def apply(self, V: np.ndarray) -> np.ndarray:
        """Return (K + W⁻¹)⁻¹ V for V of shape (n, C)."""
        U = np.stack([times(E, V[:, c]) for c, E in enumerate(self.E)], axis=1)
        z = dpotrs(self.M, U.sum(axis=1), lower=1)[0]
        return U - np.stack([times(E, z) for E in self.E], axis=1)

    def covariance(self, Kx: np.ndarray, diag: np.ndarray) -> np.ndarray:
        """Return the covariances of the classes' latent values, shape (m, C, C)."""
        m, C = len(diag), len(self.E)
        out = np.zeros((m, C, C))
        Z = []
        for c, E in enumerate(self.E):
            U = times(E, Kx)
            out[:, c, c] = diag - np.einsum("ij,ij->j", Kx, U)
            Z.append(dtrsm(1.0, self.M, U, lower=1))
        for c in range(C):
            for d in range(C):
                out[:, c, d] += np.einsum("ij,ij->j", Z[c], Z[d])
        corner = np.einsum("icc->ic", out)
        np.maximum(corner, 0.0, out=corner)
        return out


class SoftmaxApproximation(Approximation):
    """The Gaussian at the mode; made by `laplace_softmax`.

    Parameters
    ----------
    K, **facts
        As of `Approximation`.
    factor : SoftmaxFactor
        At the mode.
    """

    def __init__(self, K: np.ndarray, factor: SoftmaxFactor, **facts: Any):
        super().__init__(K, **facts)
        self._sites, self._factor = factor.sites, factor

    @property
    def sites(self) -> np.ndarray:
        """Probabilities at the mode times weights, shape (n, C)."""
        return self._sites

    def factor(self) -> SoftmaxFactor:
        """Return the factor; made again where its memory was given away."""
        if self._factor.spent:
            self._factor = SoftmaxFactor(self.K, self._sites)
        return self._factor

    def variance(self, Kx: np.ndarray, diag: np.ndarray) -> np.ndarray:
        """Return the covariances of the classes' latent values, shape (m, C, C)."""
        return self.factor().covariance(Kx, diag)

    def cotangent(self) -> np.ndarray:
        """Return d log Z/dK = ½ Σ_c (a_c a_cᵀ − R_cc + a_c b_cᵀ + b_c a_cᵀ).

        With V_c = M⁻¹E_c the blocks of R = (K + W⁻¹)⁻¹ are R_cd = δ_cd E_c − V_cᵀV_d, and
        Σ E_c = MMᵀ. The implicit term is that of two classes, h = −½ tr(Σᵢ ∂Wᵢ/∂f) and
        b = h − RKh, with the posterior covariance Σᵢ of the classes at a row. WΣW = W − R and
        W D⁻¹ W = W, so that D⁻¹(W − R)D⁻¹ may stand for Σᵢ: both differ only along 1, where ∂Wᵢ
        vanishes.
        """
        factor, s = self.factor(), self._sites
        n, C = s.shape
        factor.spent = True
        corners = np.stack([np.diagonal(E) for E in factor.E], axis=1)
        V = [dtrsm(1.0, factor.M, E, lower=1, overwrite_b=1) for E in factor.E]
        blocks = np.zeros((n, C, C))  # −R at the rows
        for c in range(C):
            for d in range(c + 1):
                blocks[:, c, d] = blocks[:, d, c] = np.einsum("ij,ij->j", V[c], V[d])
        h = _mode_slope(s, blocks, corners)
        u = times(self.K, h)
        Vu = [times(V[c], u[:, c]) for c in range(C)]
        total = np.sum(Vu, axis=0)
        b = h - np.stack(
            [dtrmv(factor.M, Vu[c], lower=1) - times(V[c].T, total) for c in range(C)], axis=1
        )
        # M's strict upper triangle still holds that of Σ E_c.
        M = factor.M
        np.einsum("ii->i", M)[...] = factor.diagonal
        for part in V:
            dsyrk(-1.0, part, beta=1.0, c=M, trans=1, lower=0, overwrite_c=1)
        mirror(M)
        return add_outer(M, self.coef, b)


def _mode_slope(s: np.ndarray, blocks: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """Return −½ tr(Σᵢ ∂Wᵢ/∂f_ic), given −R + diag(E) at the rows as `blocks` and E as `corners`.

    With ∂s_c/∂f_d = s_c δ_cd − s_c s_d/w and W = diag(s) − ssᵀ/w the trace is
    s_d(q_d − Σ_c q_c s_c/w), q_c = Σ_cc − (2/w) Σ_c' Σ_cc' s_c'.
    """
    w = s.sum(axis=1, keepdims=True)
    tilted = blocks - s[:, :, None] * (s / w)[:, None, :]  # D Σ D, without its diagonal part
    np.einsum("icc->ic", tilted)[...] += s - corners
    with np.errstate(divide="ignore", invalid="ignore"):
        inverse = np.where(s > 1e-290, 1.0 / s, 0.0)
    own = np.einsum("icc->ic", tilted) * inverse * inverse
    q = own - 2.0 / w * np.einsum("icd->ic", tilted) * inverse
    return -0.5 * s * (q - np.sum(q * s, axis=1, keepdims=True) / w)


class _Classes:
    """The softmax likelihood to the power of the weights."""

    def __init__(self, K: np.ndarray, onehot: np.ndarray, w: np.ndarray, start: Any):
        self.K, self.Y, self.w = K, onehot, w
        self._buffer = None if start is None else start.take(len(onehot))

    def log_likelihood(self, f: np.ndarray) -> float:
        return float(self.w @ np.sum(self.Y * log_softmax(f, axis=1), axis=1))

    def gradient(self, f: np.ndarray) -> np.ndarray:
        return self.w[:, None] * (self.Y - softmax(f, axis=1))

    def factor(self, f: np.ndarray) -> SoftmaxFactor:
        """Return the factor at f, in the memory of the last one."""
        out = SoftmaxFactor(self.K, self.w[:, None] * softmax(f, axis=1), self._buffer)
        self._buffer = out.buffer
        return out

    def tangent(self, f: np.ndarray) -> np.ndarray:
        """Return ∇ log p + W f."""
        p = softmax(f, axis=1)
        return self.w[:, None] * (self.Y - p + p * (f - np.sum(p * f, axis=1, keepdims=True)))


def laplace_softmax(
    K: np.ndarray,
    onehot: np.ndarray,
    weights: np.ndarray | None = None,
    start: Warm | None = None,
    *,
    tol: float = TIGHT,
) -> SoftmaxApproximation:
    """Return Laplace's approximation for C classes; (C + ⅓)n³ flops a factorisation.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        The Gram matrix of every class, C-contiguous float64; not changed.
    onehot : ndarray of shape (n, C)
        1 in the column of the row's class, 0 elsewhere.
    weights : ndarray of shape (n,), optional
        Powers of the likelihoods, > 0.
    start : Warm, optional
        ``approximation.start`` of an earlier call with as many rows and classes.
    tol : float
        How near to the mode to come, as a part of its length.

    Returns
    -------
    SoftmaxApproximation
        The approximation; its residual is the relative distance to the mode.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.models.gp.laplace_softmax import laplace_softmax
    >>> fit = laplace_softmax(np.eye(3), np.eye(3))
    >>> fit.mean[0].round(4)
    array([ 0.4897, -0.2448, -0.2448])
    """
    w = np.ones(len(onehot)) if weights is None else weights
    if start is not None and start.mean.shape != onehot.shape:
        start = None
    problem = _Classes(K, onehot, w, start)
    mode = find_mode(K, problem, onehot.shape, None if start is None else start.mean, tol)
    factor = problem.factor(mode.f)
    residual = distance(K, problem, mode, factor)
    return SoftmaxApproximation(
        K,
        factor,
        log_evidence=mode.objective - 0.5 * factor.logdet(),
        mean=mode.f,
        coef=mode.coef,
        converged=residual <= CONVERGED,
        n_iter=mode.steps,
        residual=residual,
        message=unconverged(mode, residual),
        start=Warm(mode.f, factor),
    )
