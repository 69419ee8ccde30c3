"""Posteriors of Gaussian process classification without an approximation: grids and sampling.

Nothing here uses `mercer.models`. The latent values are f = Ru with RRᵀ = K and u ~ N(0, I), so
that a singular K needs no care. A likelihood takes a batch of latent values, shape (S, n) for two
classes and (S, n, C) for C of them, and returns S log-likelihoods.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln, log_expit, log_ndtr, logsumexp

from mercer.errors import InvalidInput

_LINKS: dict[str, Callable] = {"logit": log_expit, "probit": log_ndtr}


# ------------------------------------------------------------------------------ likelihoods
@dataclass(frozen=True, eq=False)
class BinaryLikelihood:
    """Σᵢ wᵢ log p(tᵢ fᵢ), t = ±1, p the logistic function or the normal distribution function.

    Parameters
    ----------
    t : ndarray of shape (n,)
        Labels −1 and 1.
    weights : ndarray of shape (n,) or None, default=None
        Exponents of the rows; 1 when None.
    link : {"logit", "probit"}, default="logit"
        Which p.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.testing import BinaryLikelihood
    >>> BinaryLikelihood(np.array([1.0, -1.0]))(np.zeros((1, 2))).round(4)
    array([-1.3863])
    """

    t: np.ndarray
    weights: np.ndarray | None = None
    link: str = "logit"

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one set of latent values."""
        return (len(self.t),)

    def __call__(self, F: np.ndarray) -> np.ndarray:
        """Return the S log-likelihoods of F (S, n)."""
        each = _LINKS[self.link](np.asarray(self.t) * F)
        return each.sum(axis=1) if self.weights is None else each @ np.asarray(self.weights)


@dataclass(frozen=True, eq=False)
class SoftmaxLikelihood:
    """Σᵢ wᵢ [Σ_c Y_ic f_ic − log Σ_c exp f_ic].

    Parameters
    ----------
    onehot : ndarray of shape (n, C)
        One 1 in each row.
    weights : ndarray of shape (n,) or None, default=None
        Exponents of the rows; 1 when None.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.testing import SoftmaxLikelihood
    >>> SoftmaxLikelihood(np.eye(3))(np.zeros((1, 3, 3))).round(4)
    array([-3.2958])
    """

    onehot: np.ndarray
    weights: np.ndarray | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one set of latent values."""
        return np.asarray(self.onehot).shape

    def __call__(self, F: np.ndarray) -> np.ndarray:
        """Return the S log-likelihoods of F (S, n, C)."""
        each = (np.asarray(self.onehot) * F).sum(axis=2) - logsumexp(F, axis=2)
        return each.sum(axis=1) if self.weights is None else each @ np.asarray(self.weights)


def _root(K: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return R (n, r) with RRᵀ = K to rounding, and its pseudo-inverse."""
    values, vectors = np.linalg.eigh(np.asarray(K, dtype=float))
    keep = values > 1e-13 * max(values[-1], 0.0)
    roots = np.sqrt(values[keep])
    return vectors[:, keep] * roots, (vectors[:, keep] / roots).T


def _mapped(root: np.ndarray, U: np.ndarray) -> np.ndarray:
    """Return root @ u for each u of a batch (S, r) or (S, r, C)."""
    return np.moveaxis(np.tensordot(U, root, axes=(1, 1)), -1, 1)


# ------------------------------------------------------------------------------------- grids
@dataclass(frozen=True)
class ExactPosterior:
    """Log evidence, and mean and covariance of the latent values."""

    log_evidence: float
    mean: np.ndarray
    covariance: np.ndarray


def integrate_posterior(K: Any, likelihood: Any) -> ExactPosterior:
    """Return evidence and moments for one or two points by the trapezoidal rule in u.

    The rule converges exponentially; its step resolves the narrowest feature of the integrand, a
    change of the likelihood over f ~ 1, which is u ~ 1/√kᵢᵢ.

    Parameters
    ----------
    K : array-like of shape (n, n)
        Prior covariance, n ≤ 2.
    likelihood : BinaryLikelihood
        What multiplies the prior.

    Returns
    -------
    ExactPosterior
        Accurate to about 1e-13 of the prior's scale, for kᵢᵢ up to about 1e4.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.testing import BinaryLikelihood, integrate_posterior
    >>> exact = integrate_posterior([[2.0]], BinaryLikelihood(np.array([1.0]), link="probit"))
    >>> bool(abs(exact.log_evidence - np.log(0.5)) < 1e-13)
    True
    """
    K = np.asarray(K, dtype=float)
    if len(likelihood.shape) != 1 or not 1 <= len(K) <= 2:
        raise InvalidInput(
            f"integrate_posterior: {len(K)} points and latent values of shape {likelihood.shape}; "
            "it takes two classes and at most 2 points. Use importance_evidence."
        )
    values, vectors = np.linalg.eigh(K)
    R = vectors * np.sqrt(np.maximum(values, 0.0))
    power = 1.0 if likelihood.weights is None else max(1.0, float(np.max(likelihood.weights)))
    step = 0.35 / np.sqrt(1.0 + power * np.max(np.diag(K)))
    half = int(np.ceil(12.0 / step))
    axis = step * np.arange(-half, half + 1)
    log_prior = -0.5 * axis**2 + np.log(step / np.sqrt(2 * np.pi))
    lines = list(zip(axis, log_prior, strict=True)) if len(K) == 2 else [(0.0, 0.0)]
    total, first, second, top = 0.0, np.zeros(len(K)), np.zeros_like(K), -np.inf
    for value, log_line in lines:
        U = np.column_stack([axis, np.full(len(axis), value)])[:, : len(K)]
        log_w = likelihood(U @ R.T) + log_prior + log_line
        if log_w.max() > top:
            shrink = np.exp(top - log_w.max())
            total, first, second = total * shrink, first * shrink, second * shrink
            top = log_w.max()
        w = np.exp(log_w - top)
        total, first, second = total + w.sum(), first + w @ U, second + (U.T * w) @ U
    mean = first / total
    covariance = second / total - np.outer(mean, mean)
    return ExactPosterior(float(top + np.log(total)), R @ mean, R @ covariance @ R.T)


# ----------------------------------------------------------------------------------- sampling
@dataclass(frozen=True)
class SampledMoments:
    """Means and variances of a statistic, with standard errors of both."""

    mean: np.ndarray
    variance: np.ndarray
    mean_error: np.ndarray
    variance_error: np.ndarray


class _Chains:
    """Elliptical slice sampling (Murray, Adams & MacKay 2010), many chains side by side."""

    def __init__(self, root: np.ndarray, likelihood: Any, n_chains: int, rng: np.random.Generator):
        self.root, self.likelihood, self.rng = root, likelihood, rng
        self.shape = (n_chains, root.shape[1], *likelihood.shape[1:])
        self.F = _mapped(root, rng.standard_normal(self.shape))
        self.value = likelihood(self.F)

    def step(self) -> np.ndarray:
        """Move every chain once; the new latent values."""
        rng, S = self.rng, self.shape[0]
        other = _mapped(self.root, rng.standard_normal(self.shape))
        level = self.value - rng.standard_exponential(S)
        angle = rng.uniform(0.0, 2 * np.pi, S)
        low, high = angle - 2 * np.pi, angle.copy()
        old, moving = self.F.copy(), np.arange(S)
        wide = (-1,) + (1,) * (old.ndim - 1)
        while moving.size:
            a = angle[moving]
            new = old[moving] * np.cos(a).reshape(wide) + other[moving] * np.sin(a).reshape(wide)
            value = self.likelihood(new)
            good = value > level[moving]
            self.F[moving[good]], self.value[moving[good]] = new[good], value[good]
            moving, a = moving[~good], a[~good]
            low[moving] = np.where(a < 0, a, low[moving])
            high[moving] = np.where(a < 0, high[moving], a)
            angle[moving] = rng.uniform(low[moving], high[moving])
        return self.F


def slice_posterior(
    K: Any,
    likelihood: Any,
    statistic: Callable[[np.ndarray], np.ndarray] | None = None,
    *,
    n_steps: int = 1000,
    burn_in: int = 200,
    n_chains: int = 200,
    random_state: int = 0,
) -> SampledMoments:
    """Return posterior means and variances by elliptical slice sampling.

    The chains are independent, so each is a batch: the errors come from the scatter between them.

    Parameters
    ----------
    K : array-like of shape (n, n)
        Prior covariance, of each class's values for a softmax likelihood.
    likelihood : BinaryLikelihood or SoftmaxLikelihood
        What multiplies the prior.
    statistic : callable or None, default=None
        Maps latent values (S, …) to (S, …); the latent values themselves when None.
    n_steps, burn_in : int
        Steps that count, and steps before them.
    n_chains : int, default=200
        Chains side by side.
    random_state : int, default=0
        Seed.

    Returns
    -------
    SampledMoments
        Of the statistic.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.testing import BinaryLikelihood, slice_posterior
    >>> m = slice_posterior(np.eye(1), BinaryLikelihood(np.array([1.0])), n_steps=50, n_chains=50)
    >>> m.mean.shape, bool(m.mean[0] > 0)
    ((1,), True)
    """
    chains = _Chains(_root(K)[0], likelihood, n_chains, np.random.default_rng(random_state))
    for _ in range(burn_in):
        chains.step()
    first = second = np.zeros(1)
    for _ in range(n_steps):
        F = chains.step()
        values = F if statistic is None else np.asarray(statistic(F))
        first, second = first + values, second + values**2
    first, second = first / n_steps, second / n_steps
    mean = first.mean(axis=0)
    squares = second - 2 * mean * first + mean**2
    root = np.sqrt(n_chains)
    return SampledMoments(
        mean, squares.mean(axis=0), first.std(axis=0) / root, squares.std(axis=0) / root
    )


@dataclass(frozen=True)
class EvidenceEstimate:
    """An estimate of the log evidence, its standard error, and the effective sample size."""

    log_evidence: float
    error: float
    effective: float


def importance_evidence(
    K: Any,
    likelihood: Any,
    mean: Any = None,
    covariance: Any = None,
    *,
    n_samples: int = 100_000,
    degrees: float = 10.0,
    random_state: int = 0,
) -> EvidenceEstimate:
    """Return log ∫ p(t | f) N(f | 0, K) df by importance sampling from a Student t.

    Parameters
    ----------
    K : array-like of shape (n, n)
        Prior covariance, of each class's values for a softmax likelihood.
    likelihood : BinaryLikelihood or SoftmaxLikelihood
        What multiplies the prior.
    mean : array-like of shape (n,) or (n, C), default=None
        Centre of the proposal; mean of a pilot run of slice sampling when None.
    covariance : array-like of shape (n, n) or (nC, nC), default=None
        Scale matrix of the proposal, classes running fastest; of the pilot run when None.
    n_samples : int, default=100_000
        Draws.
    degrees : float, default=10.0
        Degrees of freedom: fewer give heavier tails.
    random_state : int, default=0
        Seed.

    Returns
    -------
    EvidenceEstimate
        Trust it where `effective` is some hundreds or more.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.testing import BinaryLikelihood, importance_evidence
    >>> found = importance_evidence(np.eye(1), BinaryLikelihood(np.array([1.0])), n_samples=4000)
    >>> bool(abs(found.log_evidence - np.log(0.5)) < 5 * found.error < 0.1)
    True
    """
    rng = np.random.default_rng(random_state)
    R, inverse = _root(K)
    extra = likelihood.shape[1:]
    shape = (R.shape[1], *extra)
    size = int(np.prod(shape))
    centre, scale = _proposal(R, inverse, likelihood, mean, covariance, rng)
    # u = centre + scale·z/√(χ²/ν): the density of a multivariate t; |scale| is its triangle's
    log_scale = np.log(np.diag(scale)).sum()
    constant = gammaln((degrees + size) / 2) - gammaln(degrees / 2)
    constant -= 0.5 * size * np.log(degrees * np.pi) + log_scale
    log_w = np.empty(n_samples)
    for start in range(0, n_samples, 4096):
        S = min(4096, n_samples - start)
        z = rng.standard_normal((S, size)) / np.sqrt(rng.chisquare(degrees, S) / degrees)[:, None]
        U = centre + z @ scale.T
        log_q = constant - 0.5 * (degrees + size) * np.log1p((z**2).sum(axis=1) / degrees)
        log_p = -0.5 * (U**2).sum(axis=1) - 0.5 * size * np.log(2 * np.pi)
        F = _mapped(R, U.reshape(S, *shape))
        log_w[start : start + S] = log_p + likelihood(F) - log_q
    top = log_w.max()
    w = np.exp(log_w - top)
    return EvidenceEstimate(
        float(top + np.log(w.mean())),
        float(w.std() / w.mean() / np.sqrt(n_samples)),
        float(w.sum() ** 2 / (w**2).sum()),
    )


def _proposal(
    R: np.ndarray,
    inverse: np.ndarray,
    likelihood: Any,
    mean: Any,
    covariance: Any,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Return centre and triangular scale of the proposal for u, flat."""
    extra = likelihood.shape[1:]
    size = R.shape[1] * int(np.prod(extra))
    if mean is None or covariance is None:
        chains, draws = _Chains(R, likelihood, 200, rng), []
        for step in range(400):
            F = chains.step()
            if step >= 100 and step % 5 == 0:
                draws.append(_mapped(inverse, F).reshape(-1, size))
        pilot = np.concatenate(draws)
        centre, spread = pilot.mean(axis=0), np.cov(pilot.T).reshape(size, size)
    if mean is not None:
        centre = _mapped(inverse, np.reshape(mean, (1, *likelihood.shape))).reshape(-1)
    if covariance is not None:
        tall = np.kron(inverse, np.eye(int(np.prod(extra))))
        spread = tall @ np.asarray(covariance, dtype=float).reshape(tall.shape[1], -1) @ tall.T
    # a log-concave likelihood only narrows the prior, whose covariance here is the identity
    values, vectors = np.linalg.eigh((spread + spread.T) / 2)
    values = np.clip(values, 1e-12, 1.0)
    return centre, np.linalg.cholesky((vectors * values) @ vectors.T)
