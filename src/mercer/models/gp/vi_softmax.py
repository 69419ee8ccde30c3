"""Variational inference for several classes: a Gaussian each, joined by the softmax likelihood."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.models.gp.approximation import Approximation, SiteFactor
from mercer.models.gp.expected_softmax import expected_softmax
from mercer.models.gp.laplace import add_outer
from mercer.models.gp.natural import WarmSites, ascend
from mercer.models.gp.variational import Bound

__all__ = ["SoftmaxVariational", "vi_softmax"]


class SoftmaxVariational(Approximation):
    """The posterior Π_c N(mean_c, (K⁻¹ + Λ_c)⁻¹) at the maximum of the evidence's lower bound.

    Parameters
    ----------
    K, **facts
        As of `Approximation`.
    factors : list of C SiteFactors
        Of the classes.
    bounds : list of float
        The bound at the start and after each step; it never falls.
    """

    def __init__(self, K: np.ndarray, factors: list[SiteFactor], bounds: list, **facts: Any):
        super().__init__(K, **facts)
        self.roots = [factor.root for factor in factors]
        self.bounds = bounds
        self._factors = factors

    @property
    def sites(self) -> np.ndarray:
        """The precisions Λ of the classes, shape (n, C)."""
        return np.square(np.stack(self.roots, axis=1))

    def factors(self) -> list[SiteFactor]:
        """Return the factors of I + Λ_c^½KΛ_c^½; made again where their memory was given away."""
        self._factors = [
            SiteFactor(self.K, root) if factor.spent else factor
            for root, factor in zip(self.roots, self._factors, strict=True)
        ]
        return self._factors

    def cotangent(self) -> np.ndarray:
        """Return ½ Σ_c (coef_c coef_cᵀ − (K + Λ_c⁻¹)⁻¹), as of two classes."""
        total, *others = (factor.inverse()[0] for factor in self.factors())
        for other in others:
            total += other
        return add_outer(total, self.coef, np.zeros_like(self.coef))

    def variance(self, Kx: np.ndarray, diag: np.ndarray) -> np.ndarray:
        """Return the covariances of the classes' latent values, shape (m, C, C), diagonal."""
        out = np.zeros((len(diag), len(self.roots), len(self.roots)))
        for c, factor in enumerate(self.factors()):
            out[:, c, c] = factor.variance(Kx, diag)
        return out


def vi_softmax(
    K: np.ndarray,
    onehot: np.ndarray,
    weights: np.ndarray | None = None,
    start: WarmSites | None = None,
) -> SoftmaxVariational:
    r"""Maximise a lower bound of the evidence over Gaussians that are independent between classes.

    .. math:: \log p(y) \ge \sum_i w_i E_q \log \mathrm{softmax}_{y_i}(f_i)
              - \sum_c KL(q_c \,\|\, N(0, K))

    The expectation is exact (`expected_softmax`), not bounded in turn. At the maximum the
    covariances are (K⁻¹ + Λ_c)⁻¹ with Λ_ic = wᵢ E p_c(1 − p_c), and K⁻¹m_c = w(y_c − E p_c).

    Parameters
    ----------
    K : ndarray of shape (n, n)
        The Gram matrix of every class; not changed.
    onehot : ndarray of shape (n, C)
        1 in the column of the row's class, 0 elsewhere.
    weights : ndarray of shape (n,), optional
        Powers of the likelihoods; 2 is the row given twice.
    start : WarmSites, optional
        ``start`` of an earlier answer with as many rows and classes. Its memory is taken over.

    Returns
    -------
    SoftmaxVariational
        ``log_evidence`` is the bound.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.models.gp.vi_softmax import vi_softmax
    >>> q = vi_softmax(np.eye(3), np.eye(3))
    >>> q.converged, bool(q.log_evidence < 3 * np.log(1 / 3))
    (True, True)
    """
    Y = np.asarray(onehot, dtype=float)
    w = np.ones((len(Y), 1)) if weights is None else np.asarray(weights, dtype=float)[:, None]

    def likelihood(mean: np.ndarray, var: np.ndarray) -> tuple[Any, ...]:
        value, p, bend, third, fourth = expected_softmax(mean, var)
        bend *= w[:, :, None]
        third *= -w[:, :, None]
        total = float(w[:, 0] @ (np.sum(Y * mean, axis=1) - value))
        h = np.einsum("icc->ic", bend).copy()
        return total, w * (Y - p), h, third, -w * fourth, bend

    buffers = None if start is None else start.take(Y.shape)
    ascent = ascend(Bound(K, likelihood, Y.shape[1], buffers), start)
    x = ascent.point
    return SoftmaxVariational(K, ascent.factors, mean=x.mean, coef=x.coef, **ascent.facts())
