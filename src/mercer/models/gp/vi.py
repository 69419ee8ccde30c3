"""Variational inference of a binary Gaussian process: the Gaussian nearest to the posterior."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.models.gp.approximation import SiteApproximation, SiteFactor
from mercer.models.gp.expected import expected
from mercer.models.gp.laplace import add_outer
from mercer.models.gp.links import as_link
from mercer.models.gp.natural import WarmSites, ascend
from mercer.models.gp.variational import Bound

__all__ = ["VariationalApproximation", "vi"]


class VariationalApproximation(SiteApproximation):
    """The posterior N(mean, (K⁻¹ + Λ)⁻¹) at the maximum of the evidence's lower bound.

    Parameters
    ----------
    K, root, factor, **facts
        As of `SiteApproximation`.
    bounds : list of float
        The bound at the start and after each step; it never falls.
    """

    def __init__(
        self, K: np.ndarray, root: np.ndarray, factor: SiteFactor, bounds: list, **facts: Any
    ):
        super().__init__(K, root, factor, **facts)
        self.bounds = bounds

    def cotangent(self) -> np.ndarray:
        """Return ½(coef coefᵀ − (K + Λ⁻¹)⁻¹).

        The bound is stationary in the mean m and the covariance S, so that only K in the divergence
        −½(tr K⁻¹S + mᵀK⁻¹m + log |K|) counts: ½(K⁻¹SK⁻¹ + K⁻¹mmᵀK⁻¹ − K⁻¹), and K⁻¹ − K⁻¹SK⁻¹ is
        (K + Λ⁻¹)⁻¹.
        """
        return add_outer(self.factor().inverse()[0], self.coef, np.zeros_like(self.coef))


def vi(
    K: np.ndarray,
    t: np.ndarray,
    weights: np.ndarray | None = None,
    link: Any = "logit",
    start: WarmSites | None = None,
) -> VariationalApproximation:
    r"""Maximise the variational bound over all Gaussians q(f) = N(m, S).

    .. math:: \log p(t) \ge \sum_i w_i E_q \log p(t_i \mid f_i) - KL(q \,\|\, N(0, K))

    At the maximum S = (K⁻¹ + Λ)⁻¹ with Λᵢ = −wᵢ E ∂² log p and K⁻¹m = w E ∂ log p (Opper &
    Archambeau 2009): 2n numbers instead of n + n(n+1)/2. K may be singular.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        The Gram matrix; not changed.
    t : ndarray of shape (n,)
        Labels −1 and 1.
    weights : ndarray of shape (n,) or None
        Powers of the likelihoods; 2 is the row given twice.
    link : {"logit", "probit"} or Link
        The likelihood.
    start : WarmSites, optional
        ``start`` of an earlier answer, for another K or other weights of as many rows. Its memory
        is taken over.

    Returns
    -------
    VariationalApproximation
        ``log_evidence`` is the bound.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.models.gp.vi import vi
    >>> q = vi(np.eye(2), np.array([1.0, -1.0]), link="probit")
    >>> q.converged, bool(q.log_evidence < 2 * np.log(0.5))
    (True, True)
    """
    link = as_link(link)
    t = np.asarray(t, dtype=float)
    w = np.ones(len(t)) if weights is None else np.asarray(weights, dtype=float)

    def likelihood(mean: np.ndarray, var: np.ndarray) -> tuple[Any, ...]:
        value, *rest = expected(link, t, mean[:, 0], var[:, 0])
        first, second, third, fourth = (w[:, None] * e[:, None] for e in rest)
        return float(w @ value), first, -second, third[:, :, None], fourth, None

    buffers = None if start is None else start.take((len(t), 1))
    ascent = ascend(Bound(K, likelihood, 1, buffers), start)
    x, factor = ascent.point, ascent.factors[0]
    return VariationalApproximation(
        K, factor.root, factor, mean=x.mean[:, 0], coef=x.coef[:, 0], **ascent.facts()
    )
