"""Laplace's approximation of two-class Gaussian process classification.

The posterior of f ~ N(0, K) given labels is replaced by N(f̂, (K⁻¹ + W)⁻¹) around its mode f̂, with
W = −∇∇ log p(t | f̂) (Rasmussen & Williams, Gaussian Processes for Machine Learning, algorithms 3.1
and 5.1).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg.blas import dgemm, dsymv

from mercer.engines.threads import times
from mercer.models.gp.approximation import SiteApproximation, SiteFactor, Warm
from mercer.models.gp.links import as_link
from mercer.models.gp.mode import CONVERGED, TIGHT, distance, find_mode, unconverged

__all__ = ["LaplaceApproximation", "add_outer", "laplace"]


class LaplaceApproximation(SiteApproximation):
    """The Gaussian at the mode; made by `laplace`.

    Parameters
    ----------
    K, root, factor, **facts
        As of `SiteApproximation`, with root = W^½.
    slope : ndarray of shape (n,)
        ∂ log W/∂f at the mode.
    """

    def __init__(
        self, K: np.ndarray, root: np.ndarray, factor: SiteFactor, slope: np.ndarray, **facts: Any
    ):
        super().__init__(K, root, factor, **facts)
        self._slope = slope

    def cotangent(self) -> np.ndarray:
        """Return d log Z/dK = ½(aaᵀ − R + abᵀ + baᵀ), in the memory of the factor.

        R = (K + W⁻¹)⁻¹. The mode moves with K: ∂f̂ = (I + KW)⁻¹ ∂K a, and log |B| with it, by
        s = −½ diag((K⁻¹ + W)⁻¹) ∂W/∂f; so b = (I + WK)⁻¹ s = s − RKs (R&W, eq. 5.23–5.25). With
        diag((K⁻¹ + W)⁻¹) = (1 − diag B⁻¹)/W, s needs no product of matrices.
        """
        R, diagonal = self.factor().inverse()
        s = -0.5 * (1.0 - diagonal) * self._slope
        b = s - times(R, times(self.K, s))
        return add_outer(R, self.coef, b)

    def tiles(self) -> Callable[[slice, slice], np.ndarray]:
        """Return the same tile by tile, from one triangle of B⁻¹."""
        inverse, root = self.factor().half_inverse(), self.root
        s = -0.5 * (1.0 - np.diagonal(inverse)) * self._slope
        b = s - root * dsymv(1.0, inverse, root * times(self.K, s), lower=1)
        left, right = np.stack([self.coef + b, -b], 1), np.stack([self.coef + b, b], 1)
        upper = inverse.T  # row-wise in memory, as the tiles above the diagonal are read

        def tile(rows: slice, cols: slice) -> np.ndarray:
            W = upper[rows, cols] * root[cols]
            W *= -root[rows, None]
            W += left[rows] @ right[cols].T
            if rows != cols:
                return W
            W = np.triu(W)  # the diagonal tile folded onto its upper half
            np.einsum("ii->i", W)[...] *= 0.5
            return W

        return tile


def add_outer(R: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return ½(aaᵀ + abᵀ + baᵀ − R) in place of R, for a Fortran array R and one or more columns.

    aaᵀ + abᵀ + baᵀ = (a + b)(a + b)ᵀ − bbᵀ.
    """
    a, b = a.reshape(len(a), -1), b.reshape(len(b), -1)
    left, right = np.hstack([a + b, -b]), np.hstack([a + b, b])
    return dgemm(0.5, left, right, beta=-0.5, c=R, trans_b=1, overwrite_c=1)


class _Labels:
    """The likelihood of labels ±1 to the power of their weights."""

    def __init__(self, K: np.ndarray, t: np.ndarray, w: np.ndarray, link: Any, start: Any):
        self.K, self.t, self.w, self.link = K, t, w, as_link(link)
        self._buffer = None if start is None else start.take(len(t))

    def log_likelihood(self, f: np.ndarray) -> float:
        return float(self.w @ self.link.log_likelihood(self.t, f))

    def gradient(self, f: np.ndarray) -> np.ndarray:
        return self.w * self.link.first(self.t, f)

    def factor(self, f: np.ndarray) -> SiteFactor:
        """Return the factor at f, in the memory of the last one."""
        out = SiteFactor(self.K, np.sqrt(-self.w * self.link.second(self.t, f)), self._buffer)
        self._buffer = out.buffer
        return out

    def tangent(self, f: np.ndarray) -> np.ndarray:
        """Return ∇ log p + W f."""
        first, second, _ = self.link.derivatives(self.t, f)
        return self.w * (first - second * f)

    def slope(self, f: np.ndarray) -> np.ndarray:
        """Return ∂ log W/∂f, 0 where W underflows."""
        _, second, third = self.link.derivatives(self.t, f)
        return np.divide(third, second, out=np.zeros_like(third), where=second < 0.0)


def laplace(
    K: np.ndarray,
    t: np.ndarray,
    weights: np.ndarray | None = None,
    link: Any = "logit",
    start: Warm | None = None,
    *,
    tol: float = TIGHT,
) -> LaplaceApproximation:
    """Return Laplace's approximation for labels t = ±1.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        The Gram matrix, C-contiguous float64; not changed.
    t : ndarray of shape (n,)
        Labels −1 and 1.
    weights : ndarray of shape (n,), optional
        Powers of the likelihoods, > 0.
    link : {"logit", "probit"} or Link
        The link.
    start : Warm, optional
        ``approximation.start`` of an earlier call with as many rows. Its memory is taken over, that
        of an earlier `cotangent` included.
    tol : float
        How near to the mode to come, as a part of its length.

    Returns
    -------
    LaplaceApproximation
        The approximation; its residual is the relative distance to the mode.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.models.gp.laplace import laplace
    >>> K = np.array([[1.0, 0.5], [0.5, 1.0]])
    >>> fit = laplace(K, np.array([1.0, -1.0]))
    >>> fit.mean.round(4), round(fit.log_evidence, 4)
    (array([ 0.2223, -0.2223]), -1.4909)
    """
    w = np.ones(len(t)) if weights is None else weights
    problem = _Labels(K, t, w, link, start)
    mode = find_mode(K, problem, t.shape, None if start is None else start.mean, tol)
    factor = problem.factor(mode.f)
    residual = distance(K, problem, mode, factor)
    return LaplaceApproximation(
        K,
        factor.root,
        factor,
        problem.slope(mode.f),
        log_evidence=mode.objective - 0.5 * factor.logdet(),
        mean=mode.f,
        coef=mode.coef,
        converged=residual <= CONVERGED,
        n_iter=mode.steps,
        residual=residual,
        message=unconverged(mode, residual),
        start=Warm(mode.f, factor),
    )
