"""Latent covariances and class probabilities at new points, from what a classifier keeps."""

from __future__ import annotations

import numpy as np

from mercer.models.gp.approximation import SiteFactor
from mercer.models.gp.integration import binary_probability, softmax_probability
from mercer.models.gp.laplace_softmax import SoftmaxFactor
from mercer.models.gp.links import Link

__all__ = ["LatentCovariance", "class_probabilities"]


class LatentCovariance:
    """The posterior covariance of latent values, from K and the precisions of the sites.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        The Gram matrix of the rows.
    sites : ndarray of shape (n,) or (n, C)
        ``Approximation.sites``.
    coupled : bool
        Whether the classes depend on one another, as with Laplace's softmax.
    """

    def __init__(self, K: np.ndarray, sites: np.ndarray, coupled: bool):
        self._coupled = SoftmaxFactor(K, sites) if coupled else None
        roots = np.sqrt(np.atleast_2d(sites.T))
        self._factors = [] if coupled else [SiteFactor(K, root) for root in roots]
        self._single = sites.ndim == 1

    @property
    def nbytes(self) -> int:
        """The bytes of the factors."""
        if self._coupled is not None:
            return sum(array.nbytes for array in self._coupled.buffer)
        return sum(factor.buffer.nbytes for factor in self._factors)

    def at(self, Kx: np.ndarray, diag: np.ndarray) -> np.ndarray:
        """Return variances (m,) of one latent function, covariances (m, C, C) of several.

        Parameters
        ----------
        Kx : ndarray of shape (n, m)
            Kernel values of the rows with new points.
        diag : ndarray of shape (m,)
            k(x, x) of the new points.
        """
        if self._coupled is not None:
            return self._coupled.covariance(Kx, diag)
        if self._single:
            return self._factors[0].variance(Kx, diag)
        C = len(self._factors)
        out = np.zeros((len(diag), C, C))
        for c, factor in enumerate(self._factors):
            out[:, c, c] = factor.variance(Kx, diag)
        return out


def class_probabilities(mean: np.ndarray, cov: np.ndarray, link: Link, kind: str) -> np.ndarray:
    """Return the probabilities of the classes, one row a point, that sum to 1.

    Parameters
    ----------
    mean : ndarray of shape (m,) or (m, C)
        Latent means.
    cov : ndarray of shape (m,) or (m, C, C)
        Their variances or covariances.
    link : Link
        The likelihood.
    kind : {"binary", "softmax", "one_vs_rest"}
        What the latent functions are. The probabilities of classes against the rest are divided by
        their sum.
    """
    if kind == "softmax":
        return softmax_probability(mean, cov)
    if kind == "one_vs_rest":
        each = binary_probability(mean, np.einsum("icc->ic", cov), link)
        sums = each.sum(axis=1, keepdims=True)
        # Where all underflow, the ratios are those of the tails, in effect a choice of one class.
        sure = np.equal(mean, mean.max(axis=1, keepdims=True)).astype(float)
        each, sums = np.where(sums > 0, each, sure), np.where(sums > 0, sums, sure.sum(1)[:, None])
        return each / sums
    less = binary_probability(-np.abs(mean), cov, link)  # the smaller one, to its own digits
    more = 1.0 - less
    second = np.where(mean > 0, more, less)
    return np.stack([np.where(mean > 0, less, more), second], axis=1)
