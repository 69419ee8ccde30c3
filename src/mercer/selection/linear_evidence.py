"""The evidence of a Bayesian linear model in closed form, with the posterior of its weights.

With weights θ = Ru, u ~ N(0, I) and RRᵀ the prior covariance, everything is in units of the noise:
A = W^½ΦR/σ, t = W^½y/σ. The posterior of u is N(M⁻¹Aᵀt, M⁻¹) with M = I + AᵀA, and y has the
covariance σ²W^(−½)(I + AAᵀ)W^(−½). Both come from one thin decomposition A = U diag(s) Vᵀ, whose
size is the smaller of n and d, and which, unlike a factor of AᵀA, does not square the condition.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains import to_host
from mercer.errors import InvalidInput, speaks
from mercer.estimator import beyond_features, check_targets, check_weights
from mercer.kernels import Kernel, Linear, as_kernel
from mercer.memory import require_memory
from mercer.solvers import check_number

# An eigenvalue of a prior covariance this far below zero, relative to the largest, is no rounding.
NEGATIVE = 1e-10


@dataclass(frozen=True, eq=False, repr=False)
class Evidence:
    """What `evidence` found: how well the model explains the data, and what it learned.

    Attributes
    ----------
    log_evidence : float
        log p(y | X), the weights integrated out; the larger the better.
    mean : array of shape (d,)
        Posterior mean of the weights: the ridge solution with α = noise over prior variance.
    covariance : array of shape (d, d)
        Posterior covariance of the weights, computed when first asked for.
    degrees_of_freedom : float
        Σ s²/(1 + s²): how many weights the data determine, from 0 to min(n, d).
    noise_variance : float
        The σ² given.
    n_samples : float
        The number of rows, or the sum of their weights.
    kernel : Kernel
        Whose features carry the weights; `Linear` for the columns themselves.
    """

    log_evidence: float
    mean: np.ndarray
    noise_variance: float
    n_samples: float
    kernel: Kernel
    _root: Any
    _s: np.ndarray
    _Vt: np.ndarray

    @cached_property
    def covariance(self) -> np.ndarray:
        """Posterior covariance R M⁻¹ Rᵀ of the weights."""
        d = len(self.mean)
        require_memory(
            24 * d * d, f"evidence: the {d} × {d} posterior covariance", "Use fewer features"
        )
        half = self._Vt / np.hypot(1.0, self._s)[:, None]
        out = half.T @ half
        if len(self._Vt) < d:  # directions that no row looks at keep their prior variance
            out += np.eye(d) - self._Vt.T @ self._Vt
        out = _times_root(self._root, _times_root(self._root, out).T)
        return 0.5 * (out + out.T)

    @property
    def degrees_of_freedom(self) -> float:
        """The trace of A M⁻¹ Aᵀ."""
        return float(np.sum((self._s / np.hypot(1.0, self._s)) ** 2))

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the mean of a new target at each row of X.

        Parameters
        ----------
        X : collection of points
            New points.
        return_std : bool, default=False
            Whether to return also the standard deviation of a new target, noise included.

        Returns
        -------
        array of shape (m,), or two of them
            Mean, and standard deviation where asked for.
        """
        Phi = self._features(X)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = Phi @ self.mean
            if not return_std:
                return mean
            seen, unseen = self._parts(Phi)
            variance = _squares(seen) + _squares(unseen) + self._beyond(X, Phi)
            return mean, np.sqrt(variance + self.noise_variance)

    def posterior_variance(self, X: Any) -> np.ndarray:
        """Return the variance of θᵀφ(x) at each row of X, without noise.

        Parameters
        ----------
        X : collection of points
            New points.
        """
        return self.noise_variance * self.design(X)[0]

    def design(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return vᵀAv and vᵀAAv for the features v of each row of X, A = covariance/σ².

        These are what the criteria of `mercer.selection.active` are made of.

        Parameters
        ----------
        X : collection of points
            Candidates for the next label.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            Phi = self._features(X)
            seen, unseen = self._parts(Phi)
            beyond = self._beyond(X, Phi)
            spread = seen / np.hypot(1.0, self._s) @ self._Vt + unseen
            spread = _times_root(self._root, spread.T).T / self.noise_variance
            once = (_squares(seen) + _squares(unseen) + beyond) / self.noise_variance
            if not beyond.any():
                return once, _squares(spread)
            return once, _squares(spread) + beyond * (self._root / self.noise_variance) ** 2

    def _features(self, X: Any) -> np.ndarray:
        Phi = _features(self.kernel, X)
        if Phi.shape[1] != len(self.mean):
            raise InvalidInput(
                f"evidence: X has {Phi.shape[1]} features, the model {len(self.mean)}; give the "
                "columns of the data it was computed from."
            )
        return Phi

    def _parts(self, Phi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return M^(−½)Rᵀφ in the directions V that the data look at, and in the others."""
        v = _times_root(self._root, Phi.T, transposed=True).T
        c = v @ self._Vt.T
        wide = len(self._Vt) < len(self.mean)
        return c / np.hypot(1.0, self._s), v - c @ self._Vt if wide else np.zeros_like(v)

    def _beyond(self, X: Any, Phi: np.ndarray) -> np.ndarray:
        """Return the prior variance of what points have without a feature, such as new letters."""
        beyond = beyond_features(self.kernel, self.kernel.domain.check(to_host(X)), Phi)
        if not beyond.any():
            return beyond
        if np.ndim(self._root):
            raise InvalidInput(
                f"evidence: X[{int(np.argmax(beyond > 0))}] has parts for which {self.kernel!r} "
                "has no feature, and a prior variance for each weight does not say how uncertain "
                "these are; give one number as prior_variance, or an alphabet with all letters."
            )
        return self._root**2 * beyond

    def __repr__(self) -> str:
        return (
            f"Evidence(log_evidence={self.log_evidence:.6g}, {len(self.mean)} weights, "
            f"{self.degrees_of_freedom:.3g} degrees of freedom)"
        )


@speaks("evidence")
def evidence(
    X: Any,
    y: Any,
    noise_variance: float,
    prior_variance: Any,
    *,
    kernel: Any = None,
    sample_weight: Any = None,
) -> Evidence:
    r"""Return the log evidence (Bayesian score) of a linear model, and its posterior.

    The model is y = Φθ + e with e ~ N(0, σ²I) and θ ~ N(0, σₚ²I). With λ = σ²/σₚ²

    log p(y) = −(n/2) log 2πσ² + (d/2) log λ − ½ log|ΦᵀΦ + λI|
    − (‖y‖² − yᵀΦ(ΦᵀΦ + λI)⁻¹Φᵀy)/2σ²,

    the posterior mean of θ is (ΦᵀΦ + λI)⁻¹Φᵀy and its covariance σ²(ΦᵀΦ + λI)⁻¹. The constant
    −(n/2) log 2π, which some texts leave out, is in: the value is the density of y itself. Of two
    models for the same y the one with the larger evidence explains it better; a model that is too
    rich spreads its prior over data that were not seen.

    Cost: one singular value decomposition, of the order n·d·min(n, d).

    Parameters
    ----------
    X : collection of n points
        Rows of numbers, or what the kernel accepts. No offset is added: give a column of ones, or
        ``kernel=Polynomial(1)``.
    y : array of shape (n,) or (n, 1)
        Targets.
    noise_variance : float
        σ² > 0.
    prior_variance : float, array of shape (d,) or (d, d)
        σₚ² > 0; or one variance ≥ 0 for each weight; or their covariance matrix.
    kernel : Kernel or str, optional
        A kernel with finite features; weights are then those of ``kernel.features(X)``.
    sample_weight : array of shape (n,), optional
        Weights; a weight of 2 is the row given twice, 0 the row left out. (``tune`` by the
        evidence takes them for precisions, the noise of row i having the variance σ²/wᵢ.)

    Returns
    -------
    Evidence
        With ``log_evidence``, ``mean`` and ``covariance``; it predicts, too.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Polynomial, evidence
    >>> x = np.linspace(-2, 2, 10)[:, None]
    >>> y = 4 * x[:, 0] ** 2 - 2 * x[:, 0] + 3 + np.random.default_rng(0).standard_normal(10)
    >>> scores = [
    ...     evidence(x, y, 1.0, 10.0, kernel=Polynomial(m)).log_evidence for m in range(1, 6)
    ... ]
    >>> 1 + int(np.argmax(scores))
    2
    """
    check_number(noise_variance, "noise_variance", 0.0)
    kernel = as_kernel(Linear() if kernel is None else kernel)
    X = to_host(X)
    points = kernel.domain.check(X)
    n = kernel.domain.size(points)
    y = check_targets(y, n)
    y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    if y.ndim != 1:
        raise InvalidInput(
            f"evidence: y has shape {y.shape}; give one target. The log evidence of several is the "
            "sum over its columns."
        )
    w = check_weights(sample_weight, n)
    kernel = kernel.fit_params(points, w)
    Phi = _features(kernel, X)
    root = _root(prior_variance, Phi.shape[1])
    w = np.ones(n) if w is None else w
    with np.errstate(over="ignore", invalid="ignore"):
        scale = np.sqrt(w) / np.sqrt(float(noise_variance))
        A = scale[:, None] * _times_root(root, Phi.T, transposed=True).T
        t = scale * y
    if not (np.isfinite(A).all() and np.isfinite(t).all()):
        raise InvalidInput(
            "evidence: X or y in units of the noise overflows; scale the columns of X and y, for "
            "example with sklearn.preprocessing.StandardScaler."
        )
    U, s, Vt = np.linalg.svd(A, full_matrices=False)
    h, c = np.hypot(1.0, s), U.T @ t
    mean = _times_root(root, Vt.T @ (s / h / h * c))
    with np.errstate(over="ignore"):
        misfit = np.sum((t - U @ c) ** 2) + np.sum((c / h) ** 2)
        constant = w.sum() * np.log(2 * np.pi * float(noise_variance))
        value = -0.5 * (constant + misfit) - np.sum(np.log(h))
    return Evidence(float(value), mean, float(noise_variance), float(w.sum()), kernel, root, s, Vt)


def _features(kernel: Kernel, X: Any) -> np.ndarray:
    """Return the finite features of points as a dense float64 array."""
    X = kernel.domain.check(to_host(X))
    if getattr(X, "dtype", None) == np.float32:
        X = X.astype(np.float64)
    D, n = kernel._n_features(X), kernel.domain.size(X)
    require_memory(
        32 * n * (D or 1), f"evidence: the {n} × {D} features", "Use fewer rows or features"
    )
    with np.errstate(over="ignore", invalid="ignore"):
        Phi = kernel._features(X)  # refuses kernels without a finite map
    Phi = Phi.toarray() if sp.issparse(Phi) else np.asarray(Phi, dtype=float)
    if not np.isfinite(Phi).all():
        i = int(np.argmin(np.isfinite(Phi).all(axis=1)))
        raise InvalidInput(
            f"evidence: {kernel!r} overflows at row {i} of X; scale the columns, for example with "
            "sklearn.preprocessing.StandardScaler."
        )
    return Phi


def _squares(B: np.ndarray) -> np.ndarray:
    return np.einsum("ij,ij->i", B, B)


def _root(prior: Any, d: int) -> Any:
    """Return R with RRᵀ the prior covariance: a number, a vector for a diagonal, or a matrix."""
    legal = f"give a number > 0, {d} variances ≥ 0, or a {d} × {d} covariance matrix"
    try:
        value = np.asarray(prior, dtype=float)
    except (TypeError, ValueError):
        raise InvalidInput(f"evidence: prior_variance={prior!r}; {legal}.") from None
    if isinstance(prior, bool | np.bool_) or value.shape not in ((), (d,), (d, d)):
        raise InvalidInput(f"evidence: prior_variance has shape {value.shape}; {legal}.")
    if not np.isfinite(value).all():
        raise InvalidInput(f"evidence: prior_variance holds NaN or infinity; {legal}.")
    if value.ndim == 2:
        if np.abs(value - value.T).max() > NEGATIVE * np.abs(value).max():
            raise InvalidInput("evidence: prior_variance is not a symmetric matrix.")
        eigenvalues, vectors = np.linalg.eigh(value)
        if eigenvalues[0] < -NEGATIVE * max(eigenvalues[-1], 0.0):
            raise InvalidInput(
                f"evidence: prior_variance has the eigenvalue {eigenvalues[0]:.3g} < 0, so it is "
                "not a covariance matrix."
            )
        return vectors * np.sqrt(np.maximum(eigenvalues, 0.0))
    if (value < 0).any() or (value.ndim == 0 and value == 0):
        raise InvalidInput(f"evidence: prior_variance={prior!r}; {legal}.")
    return np.sqrt(value)


def _times_root(root: Any, B: np.ndarray, transposed: bool = False) -> np.ndarray:
    """Return RB or RᵀB."""
    if np.ndim(root) == 2:
        return (root.T if transposed else root) @ B
    return (root if np.ndim(root) == 0 or B.ndim == 1 else root[:, None]) * B
