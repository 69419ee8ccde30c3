"""Variational inference of a binary Gaussian process: the Gaussian nearest to the posterior."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.models.gp.approximation import SiteApproximation
from mercer.models.gp.expected import expected
from mercer.models.gp.links import as_link
from mercer.models.gp.natural import ENOUGH, Bound, SitePoint, ascend

__all__ = ["VariationalApproximation", "vi"]


class VariationalApproximation(SiteApproximation):
    """The posterior N(mean, (K⁻¹ + Λ)⁻¹) at the maximum of the evidence's lower bound."""

    def cotangent(self) -> np.ndarray:
        """Return ½(coef coefᵀ − (K + Λ⁻¹)⁻¹).

        The bound is stationary in the mean m and the covariance S, so that only K in the divergence
        −½(tr K⁻¹S + mᵀK⁻¹m + log |K|) counts: ½(K⁻¹SK⁻¹ + K⁻¹mmᵀK⁻¹ − K⁻¹), and K⁻¹ − K⁻¹SK⁻¹ is
        (K + Λ⁻¹)⁻¹.
        """
        out, _ = self.factor().inverse()
        np.subtract(np.multiply.outer(self.coef, self.coef), out, out=out)
        out *= 0.5
        return out


def vi(
    K: np.ndarray, t: np.ndarray, weights: np.ndarray | None, link: Any, start: Any = None
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
    start : object, optional
        ``start`` of an earlier answer, for another K or other weights of the same rows.

    Returns
    -------
    VariationalApproximation
        ``log_evidence`` is the bound.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.models.gp.vi import vi
    >>> q = vi(np.eye(2), np.array([1.0, -1.0]), None, "probit")
    >>> q.converged, bool(q.log_evidence < 2 * np.log(0.5))
    (True, True)
    """
    link = as_link(link)
    t = np.asarray(t, dtype=float)
    w = np.ones(len(t)) if weights is None else np.asarray(weights, dtype=float)

    def likelihood(mean: np.ndarray, var: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        value, first, second = expected(link, t, mean[:, 0], var[:, 0])
        return float(w @ value), (w * first)[:, None], (-w * second)[:, None]

    bound = Bound(K, likelihood)
    x, steps, history = ascend(bound, first_point(bound, start, 1))
    return VariationalApproximation(
        K,
        np.sqrt(x.lam[:, 0]),
        mean=x.mean[:, 0],
        coef=x.coef[:, 0],
        **facts(x, bound, steps, history),
    )


def first_point(bound: Bound, start: Any, classes: int) -> SitePoint:
    """Return the better of the prior and the start, where there is one that fits."""
    x = bound.prior(classes)
    if start is None or np.shape(start) != (2, *x.nu.shape):
        return x
    y = bound.at(*start)
    return y if y.bound >= x.bound else x


def facts(x: SitePoint, bound: Bound, steps: int, history: list) -> dict:
    """Return what an `Approximation` has to say of the last point."""
    residual = x.residual()
    return {
        "log_evidence": x.bound,
        "converged": residual <= ENOUGH,
        "n_iter": steps,
        "residual": residual,
        "message": ""
        if residual <= ENOUGH
        else (
            f"Variational inference stopped after {steps} steps with a relative residual of "
            f"{residual:.2g}; bound the scale of the kernel, or scale the inputs."
        ),
        "start": np.stack([x.nu, x.lam]),
        "extra": {"n_factors": bound.n_factors, "bounds": history},
    }
