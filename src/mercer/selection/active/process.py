"""What a label would teach a Gaussian process: less variance elsewhere, or a better optimum."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import log_ndtr, ndtr
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples, check_is_fitted

from mercer.domains import concatenate
from mercer.errors import InvalidInput
from mercer.models.gp import GaussianProcessClassifier
from mercer.models.gp.regression import ProcessRegressor, require_diagonal
from mercer.settings import get_config

ROWS = 512  # candidates taken at a time beside the reference points


def expected_improvement(model: Any, candidates: Any, goal: str, best: float | None) -> np.ndarray:
    """Return E max(best − f(x), 0) at each candidate, s[zΦ(z) + φ(z)] with z = (best − m)/s.

    Parameters
    ----------
    model : GaussianProcessRegressor or alike
        Fitted.
    candidates : collection of points
        Where to look.
    goal : {"min", "max"}
        What is looked for.
    best : float or None
        The value to improve on.
    """
    if goal not in ("min", "max"):
        raise InvalidInput(f"active: goal={goal!r}; give 'min' or 'max'.")
    sign = 1.0 if goal == "min" else -1.0
    if best is not None and not (isinstance(best, Real) and np.isfinite(best)):
        raise InvalidInput(f"active: best={best!r}; give a finite number, or leave it out.")
    mean, std = _of_function(model, candidates, "expected-improvement", return_std=True)
    mean, std = (A[:, 0] if A.ndim == 2 and A.shape[1] == 1 else A for A in (mean, std))
    if mean.ndim != 1:
        raise InvalidInput(
            "active: 'expected-improvement' is for one output; the improvement of several has no "
            "one meaning. Fit a model of the one that counts."
        )
    if best is None:
        points = getattr(model, "X_fit_", None)
        points = getattr(model, "X_train_", None) if points is None else points
        if points is None:
            raise InvalidInput(
                f"active: a {type(model).__name__} does not keep its training points; give best=, "
                "the value to improve on."
            )
        seen = np.asarray(model.predict(points), dtype=float).reshape(-1)
        if hasattr(model, "inducing_points_"):  # the training points are not kept
            seen = np.concatenate([seen, mean])
        best = float((sign * seen).min()) * sign
    gain = sign * (best - mean)
    out = np.maximum(gain, 0.0)
    some = std > 0
    z = gain[some] / std[some]
    density = np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)
    out[some] = std[some] * _improvement(z, density)
    return out


def _improvement(z: np.ndarray, density: np.ndarray) -> np.ndarray:
    """Return zΦ(z) + φ(z), which is never negative; far below 0 by its asymptotic ratio."""
    plain = z * ndtr(z) + density
    # For z ≪ 0 both terms cancel: φ(z)(1 + zΦ(z)/φ(z)), with Φ/φ from the logarithm, is φ/z² there.
    far = z < -6
    ratio = np.exp(log_ndtr(z[far]) + 0.5 * z[far] ** 2) * np.sqrt(2 * np.pi)
    tail = np.where(z[far] < -30, 1 / z[far] ** 2, np.maximum(1 + z[far] * ratio, 0.0))
    plain[far] = density[far] * tail
    return plain


def integrated_variance(model: Any, candidates: Any, reference: Any) -> np.ndarray:
    """Return the mean over reference points r of c(r, x)²/(c(x, x) + σ²), at each candidate x.

    Parameters
    ----------
    model : GaussianProcessRegressor or alike
        Fitted.
    candidates : collection of points
        Where a label could be had.
    reference : collection of points or None
        Where the variance counts; the candidates when None.
    """
    require_fit(model)
    reference = candidates if reference is None else reference
    joint = _Process(model) if isinstance(model, ProcessRegressor) else _Other(model)
    for X, what in ((candidates, "candidates"), (reference, "reference points")):
        if getattr(X, "shape", (1,))[0] == 0 or (isinstance(X, list) and not X):
            raise InvalidInput(f"active: there are no {what}; give at least one.")
    candidates, reference = joint.points(candidates), joint.points(reference)
    m, r = joint.size(candidates), joint.size(reference)
    room = int((get_config().memory / 32) ** 0.5)
    if room < r + 1:
        raise InvalidInput(
            f"active: the covariance of {r} reference points does not fit the memory budget; give "
            f"reference= a sample of fewer than {room} points."
        )
    noise, step, out = joint.noise(), max(1, min(ROWS, room - r)), np.empty(m)
    for start in range(0, m, step):
        rows = np.arange(start, min(start + step, m))
        cov = joint.covariance(reference, candidates, rows).reshape(
            r + len(rows), r + len(rows), -1
        )
        own = np.maximum(np.einsum("iit->it", cov[r:, r:]), 0.0) + noise
        fall = np.einsum("rxt,rxt->xt", cov[:r, r:], cov[:r, r:])
        out[rows] = np.divide(fall, own, out=np.zeros_like(fall), where=own > 0).sum(axis=1) / r
    return out


class _Process:
    """Joint covariances of a process of this package, at points of any kind."""

    def __init__(self, model: Any):
        self.model, self.kernel = model, model.kernel_
        require_diagonal(self.kernel, "active")

    def points(self, X: Any) -> Any:
        return self.model._check_X(X, self.kernel, reset=False)

    def size(self, X: Any) -> int:
        return int(self.kernel.domain.size(X))

    def noise(self) -> np.ndarray:
        """Return the variance of the noise of a label, of each output."""
        return self.model._noise_at(True, 1, "active")[0]

    def covariance(self, A: Any, B: Any, rows: np.ndarray) -> np.ndarray:
        """Return the covariance of the function at A and some of B, in the units of y²."""
        domain = self.kernel.domain
        joined = concatenate(domain, A, domain.take(B, rows))
        return self.model._covariance(self.kernel, joined)[:, :, None] * self.model.y_scale_**2


class _Other:
    """The same of a model with predict(X, return_cov=True)."""

    def __init__(self, model: Any):
        self.model = model

    def points(self, X: Any) -> Any:
        return X

    def size(self, X: Any) -> int:
        return int(_num_samples(X))

    def noise(self) -> np.ndarray:
        return np.array([np.mean(np.asarray(getattr(self.model, "noise_", 0.0), dtype=float))])

    def covariance(self, A: Any, B: Any, rows: np.ndarray) -> np.ndarray:
        joined = _stack(A, _safe_indexing(B, rows))
        return _of_function(self.model, joined, "integrated-variance", return_cov=True)[1]


def require_fit(model: Any) -> None:
    """Refuse a model that was not fitted, also one that answers with its prior."""
    if isinstance(model, ProcessRegressor | GaussianProcessClassifier):
        model._require_fit()
    else:
        check_is_fitted(model)


def _of_function(model: Any, X: Any, criterion: str, **what: bool) -> tuple:
    """Return the mean and the std or covariance of the function, without the noise."""
    require_fit(model)
    try:
        if hasattr(model, "posterior_variance"):
            mean, spread = model.predict(X, with_noise=False, **what)
        else:
            mean, spread = model.predict(X, **what)
    except TypeError:
        raise InvalidInput(
            f"active: a {type(model).__name__} has no posterior of a function; "
            f"criterion={criterion!r} takes GaussianProcessRegressor, "
            "SparseGaussianProcessRegressor, or a model with predict(X, return_std=..., "
            "return_cov=...)."
        ) from None
    return np.asarray(mean, dtype=float), np.asarray(spread, dtype=float)


def _stack(A: Any, B: Any) -> Any:
    """Return two collections of the same kind as one."""
    if sp.issparse(A):
        return sp.vstack([A, B]).tocsr()
    if hasattr(A, "iloc"):
        import pandas as pd

        return pd.concat([A, B])
    if hasattr(A, "shape") or np.ndim(A) > 1:
        return np.concatenate([np.asarray(A), np.asarray(B)])
    return [*A, *B]
