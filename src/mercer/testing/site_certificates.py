"""Certificate of expectation propagation: tilted and marginal moments, by dense algebra."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.testing.gp_oracles import BinaryLikelihood, integrate_posterior

__all__ = ["moment_mismatch"]


class _Shifted:
    """The likelihood of one value m + f, for f ~ N(0, v)."""

    shape = (1,)
    weights = None

    def __init__(self, t: float, power: float, link: str, m: float):
        self.m = m
        self.each = BinaryLikelihood(np.array([t]), np.array([power]), link)

    def __call__(self, F: np.ndarray) -> np.ndarray:
        return self.each(self.m + F)


def moment_mismatch(K: Any, t: Any, w: Any, link: str, coef: Any, sites: Any) -> float:
    """Return the largest relative mismatch of tilted and marginal means and variances.

    A row of weight w has max(w, 1) equal sites, of p to the power min(w, 1); their precisions add
    up to `sites`, and their shifts to ν = a + Sμ, since the coefficients are a = ν − Sμ.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Prior covariance.
    t, w : ndarray of shape (n,)
        Labels −1 and 1, and weights.
    link : {"logit", "probit"}
        The likelihood.
    coef, sites : ndarray of shape (n,)
        Coefficients of the posterior mean, and total precisions of the sites.
    """
    root = np.sqrt(sites)
    B = np.eye(len(K)) + root[:, None] * K * root
    mean = K @ coef
    variance = np.diagonal(K - K @ (root[:, None] * np.linalg.solve(B, root[:, None] * K)))
    copies, powers = np.maximum(w, 1.0), np.minimum(w, 1.0)
    tau, nu = sites / copies, (coef + sites * mean) / copies
    worst = 0.0
    for i, s in enumerate(variance):
        if s <= 1e-12 * K[i, i]:
            continue
        v = s / (1.0 - tau[i] * s)
        m = (mean[i] - nu[i] * s) / (1.0 - tau[i] * s)
        exact = integrate_posterior([[v]], _Shifted(t[i], powers[i], link, m))
        worst = max(
            worst,
            abs(exact.mean[0] + m - mean[i]) / np.sqrt(s),
            abs(exact.covariance[0, 0] / s - 1.0),
        )
    return float(worst)
