"""Probabilities of classes under Gaussian latent values, by deterministic quadrature."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import logsumexp, ndtr, ndtri
from scipy.stats import qmc

from mercer.models.gp.classes.laplace import SoftmaxFactor
from mercer.models.gp.classes.sites import Link, SiteFactor, as_link

# Steps of the trapezoidal rule in `_logistic_mixture`: errors of 1e-15 and of 2e-7.
_FINE, _COARSE = 0.1, 0.25
_LOW = -5.0  # mean + variance below which the density is tilted
_BYTES = 2**22  # of all arrays of a block of rows


@lru_cache(maxsize=32)
def gauss_hermite(order: int) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes x and weights w with Σ wᵢ g(xᵢ) ≈ E g(x) for x ~ N(0, 1).

    Parameters
    ----------
    order : int
        Number of nodes; exact for polynomials of degree 2·order − 1.
    """
    x, w = np.polynomial.hermite_e.hermegauss(order)
    w = w / w.sum()
    x.setflags(write=False)
    w.setflags(write=False)
    return x, w


@lru_cache(maxsize=4)
def _logistic_mixture(step: float) -> tuple[np.ndarray, np.ndarray]:
    """Return variances v and weights w with σ(x) = Σ wᵢ Φ(x/√vᵢ).

    The logistic law is that of 2κZ with Z normal and κ of Kolmogorov's law (Andrews and Mallows
    1974). The trapezoidal rule in log κ converges like exp(−2π(π/4)/step), since the density is
    analytic for |arg κ| < π/4: below rounding at step 0.1, also relative to tails down to 1e-12.
    """
    log_kappa = np.arange(-1.75, 2.05, step)
    kappa = np.exp(log_kappa)
    k = np.arange(1, 12)[:, None]
    # The two series of the density are theta functions of one another; each is fast on its side.
    odd = (2 * k - 1) ** 2 * np.pi**2 / 4.0
    small = np.sqrt(2 * np.pi) * np.sum(
        (odd / kappa**4 - kappa**-2.0) * np.exp(-odd / (2 * kappa**2)), axis=0
    )
    large = 8 * kappa * np.sum(-((-1.0) ** k) * k**2 * np.exp(-2 * (k * kappa) ** 2), axis=0)
    w = np.where(kappa < 0.8, small, large) * kappa
    keep = w > 0.0
    return 4 * kappa[keep] ** 2, w[keep] / w[keep].sum()


def binary_probability(mean: Any, var: Any, link: Any = "logit") -> np.ndarray:
    """Return p(t = 1) = E p(t = 1 | f) for f ~ N(mean, var).

    Probit: Φ(m/√(1 + v)). Logit: the logistic function is a mixture of cumulative Gaussians of
    variances vᵢ, so that the integral is Σ wᵢ Φ(m/√(vᵢ + v)); the error is below 1e-12 whatever
    the mean and the variance. Since σ(f) = eᶠσ(−f), it is also exp(m + v/2) times the integral for
    the mean −(m + v), by which small probabilities keep their digits. p(t = −1) is the same
    function at −mean.

    Returns
    -------
    ndarray
        Probabilities.

    Examples
    --------
    >>> from mercer.models.gp.classes.integration import binary_probability
    >>> binary_probability([0.0, 2.0], [1.0, 0.0]).round(6)
    array([0.5     , 0.880797])
    """
    mean, var = np.broadcast_arrays(np.asarray(mean, float), np.asarray(var, float))
    if as_link(link).name == "probit":
        return ndtr(mean / np.sqrt(1.0 + var))
    low = mean + var < _LOW
    out = _logistic_normal(np.where(low, -(mean + var), mean), var, _FINE)
    return out * np.exp(np.where(low, mean + 0.5 * var, 0.0))


def _logistic_normal(mean: np.ndarray, var: np.ndarray, step: float) -> np.ndarray:
    out = np.zeros(mean.shape)
    for v, w in zip(*_logistic_mixture(step), strict=True):
        out += w * ndtr(mean / np.sqrt(v + var))
    return out


def softmax_probability(mean: Any, cov: Any) -> np.ndarray:
    r"""Return E softmax(f) for f ~ N(mean, cov), one row a point.

    For class c let d_j = f_c − f_j, j ≠ c. Their covariance is a²11ᵀ + R with the largest a that
    leaves R positive semidefinite, so that d = d′ + a z and softmax_c = σ(a z − log Σ exp(−d′_j)):
    the integral over z is that of two classes, in closed form, and makes the rest smooth. The
    C − 2 dimensions of d′ are integrated by fixed Sobol points, 1024 for three classes and 4096
    for more. Two classes need none of them: their answer is exact.

    Without covariance the error is 2e-7. It is below 2e-5 for three classes and 1e-4 for four, and
    grows to 1e-3 for ten classes whose latent values spread over tens of units. The answer does
    not depend on the order of the classes, and each row sums to 1.

    Returns
    -------
    ndarray of shape (m, C)
        Probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.models.gp.classes.integration import softmax_probability
    >>> softmax_probability(np.zeros((1, 3)), np.eye(3)[None]).round(6)
    array([[0.333333, 0.333333, 0.333333]])
    """
    mean, cov = np.asarray(mean, dtype=float), np.asarray(cov, dtype=float)
    m, C = mean.shape
    out = np.empty((m, C))
    each = max(1, _BYTES // (8 * 8 * _points(C) * C))  # rows that some eight arrays stay small for
    for start in range(0, m, each):
        rows = slice(start, start + each)
        for c in range(C):
            out[rows, c] = _one_class(mean[rows], cov[rows], c)
    out /= out.sum(axis=1, keepdims=True)
    return out


def _one_class(mean: np.ndarray, cov: np.ndarray, c: int) -> np.ndarray:
    """Return E softmax_c(f), before the classes are made to sum to 1."""
    m, C = mean.shape
    others = np.array([j for j in range(C) if j != c])
    # The order of the other classes must not matter: take them by mean, then by variance.
    spread = cov[:, others, others] - 2 * cov[:, [c], others]
    order = others[np.lexsort((spread, mean[:, others]), axis=1)]
    row = np.arange(m)[:, None]
    gap = mean[:, [c]] - mean[row, order]
    D = (
        cov[:, c, c][:, None, None]
        - cov[row, c, order][:, :, None]
        - cov[row, c, order][:, None, :]
        + cov[row[:, :, None], order[:, :, None], order[:, None, :]]
    )
    D = 0.5 * (D + D.transpose(0, 2, 1))
    if C == 2:
        return _logistic_normal(gap[:, 0], np.maximum(D[:, 0, 0], 0.0), _FINE)
    lam, V = np.linalg.eigh(D)
    lam = np.maximum(lam, 0.0) + 1e-10 * lam[:, -1:] + 1e-300
    a2 = 1.0 / np.sum(np.square(V.sum(axis=1)) / lam, axis=1)
    lam, V = np.linalg.eigh(D - a2[:, None, None])
    root = V[:, :, :0:-1] * np.sqrt(np.maximum(lam[:, :0:-1], 0.0))[:, None, :]
    d = gap[:, :, None] + root @ _sobol(C)
    return _logistic_normal(-logsumexp(-d, axis=1), a2[:, None], _COARSE).mean(axis=1)


def _points(n_classes: int) -> int:
    return 1024 if n_classes <= 3 else 4096


@lru_cache(maxsize=16)
def _sobol(n_classes: int) -> np.ndarray:
    """Return normal Sobol points, shape (n_classes − 2, points): midpoints of each margin."""
    n = _points(n_classes)
    out = ndtri(qmc.Sobol(n_classes - 2, scramble=False).random(n) + 0.5 / n).T
    out.setflags(write=False)
    return out


# ---- Latent covariances and class probabilities at new points, from what a classifier keeps ----


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
        """Return variances (m,) of one latent function, covariances (m, C, C) of several."""
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
