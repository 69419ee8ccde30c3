"""Laplace's approximation of two-class Gaussian process classification.

The posterior of f ~ N(0, K) given labels is replaced by N(f̂, (K⁻¹ + W)⁻¹) around its mode f̂, with
W = −∇∇ log p(t | f̂) (Rasmussen & Williams, Gaussian Processes for Machine Learning, algorithms 3.1
and 5.1).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg.blas import dgemm

from mercer.models.gp.approximation import SiteApproximation, SiteFactor, Warm
from mercer.models.gp.links import Link, as_link

__all__ = ["LaplaceApproximation", "laplace"]

#: A mode is taken as found where ‖f − K∇log p‖ is below this part of ‖f‖.
CONVERGED = 1e-6
#: A step with an old factor must cut the residual to this part, or a new factor is made.
_CHORD = 0.3
_HALVINGS = 40
#: Changes of the objective below this part of it are rounding.
ROUNDING = 1e-13


class LaplaceApproximation(SiteApproximation):
    """The Gaussian at the mode; made by `laplace`.

    Parameters
    ----------
    K, root, factor, **facts
        As of `SiteApproximation`, with root = W^½.
    slope : ndarray of shape (n,)
        ∂ log W/∂f at the mode, −∇³ log p/W.
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
        b = s - R @ (self.K @ s)
        return add_outer(R, self.coef, b)


def add_outer(R: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return ½(aaᵀ + abᵀ + baᵀ − R) in place of R, for a Fortran array R and one or more columns.

    aaᵀ + abᵀ + baᵀ = (a + b)(a + b)ᵀ − bbᵀ.
    """
    a, b = a.reshape(len(a), -1), b.reshape(len(b), -1)
    left, right = np.hstack([a + b, -b]), np.hstack([a + b, b])
    return dgemm(0.5, left, right, beta=-0.5, c=R, trans_b=1, overwrite_c=1)


def laplace(
    K: np.ndarray,
    t: np.ndarray,
    weights: np.ndarray | None = None,
    link: Any = "logit",
    start: Warm | None = None,
    *,
    tol: float = 1e-11,
    max_iter: int = 100,
) -> LaplaceApproximation:
    """Return Laplace's approximation for labels t = ±1.

    The mode solves a = w∇log p(t | f), f = Ka. Newton's step on it is δ = −(F − RKF) with
    F = a − w∇log p; the factor of one step serves the next ones while the residual falls quickly,
    so that a good start costs two factorisations: one on the way and one at the mode.

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
        ``approximation.start`` of an earlier call with as many rows; its memory is taken over.
    tol : float
        Relative residual ‖f − Kw∇log p‖/‖f‖ to reach; rounding may end the iteration before.
    max_iter : int
        Limit on steps.

    Returns
    -------
    LaplaceApproximation
        The approximation.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.models.gp.laplace import laplace
    >>> K = np.array([[1.0, 0.5], [0.5, 1.0]])
    >>> fit = laplace(K, np.array([1.0, -1.0]))
    >>> fit.mean.round(4), round(fit.log_evidence, 4)
    (array([ 0.2226, -0.2226]), -1.4395)
    """
    link = as_link(link)
    n = len(t)
    w = np.ones(n) if weights is None else weights
    a, f, buffer = np.zeros(n), np.zeros(n), None
    value = _objective(link, t, w, a, f)
    if start is not None:
        buffer = start.take(n)
        warm = K @ start.coef
        there = _objective(link, t, w, start.coef, warm)
        if there > value:  # far hyper-parameters can make an old mode worse than none
            value, a, f = there, start.coef, warm
    factor: SiteFactor | None = None
    steps, last, gain = 0, np.inf, np.inf
    while True:
        g, W, slope = _slopes(link, t, w, f)
        F = a - g
        KF = K @ F
        residual = relative(KF, f)
        if residual <= tol or steps >= max_iter or stalled(residual, last, gain, value):
            break
        new = factor is None or residual > _CHORD * last
        if new:
            factor = SiteFactor(K, np.sqrt(W), buffer)
            buffer = factor.buffer
        found = _line_search(link, K, t, w, a, f, factor.apply(KF) - F, value)
        steps += 1
        if found is None:
            if new:
                break
            factor = None  # the direction of an old factor led nowhere
            continue
        gain, last = (found[0] - value if new else np.inf), residual
        value, a, f = found
    root = np.sqrt(W)
    factor = SiteFactor(K, root, buffer)
    converged = residual <= CONVERGED
    return LaplaceApproximation(
        K,
        root,
        factor,
        slope,
        log_evidence=value - 0.5 * factor.logdet(),
        mean=f,
        coef=a,
        converged=converged,
        n_iter=steps,
        residual=residual,
        message="" if converged else unconverged(steps, residual),
        start=Warm(a, factor),
    )


def _objective(link: Link, t: np.ndarray, w: np.ndarray, a: np.ndarray, f: np.ndarray) -> float:
    """Return log p(t | f) − ½fᵀK⁻¹f for f = Ka."""
    return float(w @ link.log_likelihood(t, f) - 0.5 * (a @ f))


def _slopes(
    link: Link, t: np.ndarray, w: np.ndarray, f: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return w∇log p, W and ∂ log W/∂f, which is 0 where W underflows."""
    first, second, third = link.derivatives(t, f)
    slope = np.divide(third, second, out=np.zeros_like(third), where=second < 0.0)
    return w * first, -w * second, slope


def _line_search(
    link: Link,
    K: np.ndarray,
    t: np.ndarray,
    w: np.ndarray,
    a: np.ndarray,
    f: np.ndarray,
    delta: np.ndarray,
    value: float,
) -> tuple[float, np.ndarray, np.ndarray] | None:
    """Return objective, a and f after the longest of the steps δ, δ/2, δ/4… that does not fall."""
    after = a + delta
    moved = K @ after
    for k in range(_HALVINGS):
        part = 0.5**k
        new_a = after if k == 0 else a + part * delta
        new_f = moved if k == 0 else f + part * (moved - f)
        new = _objective(link, t, w, new_a, new_f)
        if new >= value - ROUNDING * (1.0 + abs(value)):
            return new, new_a, new_f if k == 0 else K @ new_a
    return None


def relative(gap: np.ndarray, f: np.ndarray) -> float:
    """Return ‖f − K∇log p‖/‖f‖; 0 of a vanishing K, whose mode is 0."""
    size = float(np.linalg.norm(gap))
    return size / float(np.linalg.norm(f) or size) if size else 0.0


def stalled(residual: float, last: float, gain: float, value: float) -> bool:
    """Whether a Newton step, with a factor of its own, was lost in rounding."""
    return residual > 0.5 * last and gain <= ROUNDING * (1.0 + abs(value))


def unconverged(steps: int, residual: float) -> str:
    """Say what ended the search for a mode before its residual was small."""
    return (
        f"GaussianProcessClassifier: the mode of the posterior was not found in {steps} steps "
        f"(relative residual {residual:.3g}). The kernel's values are too large for its rounding; "
        "bound its scale, for instance bounds={'scale': (1e-3, 1e3)}, or standardise the columns."
    )
