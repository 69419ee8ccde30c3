"""Scores ∇ log p: what a user gives for a density, as a function of points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mercer.errors import InvalidInput, who

# Central differences err by h²|f‴|/6 + eps|f|/h, least near the cube root of eps.
STEP = float(np.finfo(np.float64).eps) ** (1 / 3)
LOGARITHMS = ("logpdf", "logpmf", "log_prob", "score_samples", "log_likelihood", "pdf", "pmf")
LEAST_POWER = 0.99  # p ≈ tᵃ at distance t of an end; below a = 1 the score has no variance


def as_score(score: Any) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function of points (n, d) whose answers are checked to be (n, d) and finite.

    Parameters
    ----------
    score : callable, or object with logpdf or score_samples
        A function X ↦ ∇ log p(X), or a density; of a multivariate normal the score is taken in
        closed form, of others by central differences.
    """
    closed = _normal_score(score)
    if closed is not None:
        return closed
    density = _log_density(score)
    if density is not None:

        def differences(X: np.ndarray) -> np.ndarray:
            _refuse_edges(score, X)
            return _central_differences(density, X)

        return differences
    if not callable(score) or isinstance(score, type):
        raise InvalidInput(
            f"{who()}: score={score!r} is neither a function X ↦ ∇ log p(X) nor a density with "
            "logpdf or score_samples, such as scipy.stats.norm(0, 1)."
        )
    name = getattr(getattr(score, "func", score), "__name__", "")
    if name in LOGARITHMS:
        raise InvalidInput(
            f"{who()}: score is the function {name}, and the score is the slope ∇ log p, not log "
            "p; give the density itself, an object with logpdf or score_samples such as "
            "scipy.stats.norm(0, 1), or a function X ↦ ∇ log p(X)."
        )
    return lambda X: _checked(score(X), X, "score(X)")


def _checked(values: Any, X: np.ndarray, what: str) -> np.ndarray:
    """Return the answer of a user's function as an array of the shape of X."""
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    try:
        S = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(
            f"{who()}: {what} is a {type(values).__name__}, not an array of numbers."
        ) from None
    if X.shape[1] == 1 and S.shape == (len(X),):
        S = S[:, None]
    if S.shape != X.shape:
        raise InvalidInput(
            f"{who()}: {what} has shape {S.shape} for points of shape {X.shape}; the score is the "
            "gradient of log p in x, one row for each point and one column for each coordinate."
        )
    if not np.isfinite(S).all():
        i = int(np.flatnonzero(~np.isfinite(S).all(1))[0])
        raise InvalidInput(
            f"{who()}: {what} is not finite at row {i} of X: the density is 0 or not smooth there. "
            "A Stein test needs a smooth density that is positive at all points."
        )
    return S


def _normal_score(score: Any) -> Callable[[np.ndarray], np.ndarray] | None:
    """Return −Σ⁻¹(x−μ) for scipy's frozen multivariate normal."""
    if type(score).__name__ != "multivariate_normal_frozen":
        return None
    mean = np.atleast_1d(np.asarray(score.mean, dtype=np.float64))
    covariance = np.atleast_2d(np.asarray(score.cov, dtype=np.float64))
    try:
        root = np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        raise InvalidInput(
            f"{who()}: the covariance of the normal is singular, so it has no density."
        ) from None
    from scipy.linalg import cho_solve

    def closed(X: np.ndarray) -> np.ndarray:
        if X.shape[1] != len(mean):
            raise InvalidInput(
                f"{who()}: the normal has {len(mean)} coordinates and X has {X.shape[1]} columns."
            )
        return _checked(-cho_solve((root, True), (X - mean).T).T, X, "the score")

    return closed


def _log_density(score: Any) -> Callable[[np.ndarray], Any] | None:
    """Return X ↦ log p(X) of a density, one number for each row."""
    if hasattr(score, "logpdf"):
        from scipy.stats import gaussian_kde

        if isinstance(score, gaussian_kde):  # its points are columns
            return lambda X: score.logpdf(X.T)
        return lambda X: score.logpdf(X[:, 0] if X.shape[1] == 1 else X)
    if hasattr(score, "score_samples"):
        return score.score_samples
    return None


def _refuse_edges(density: Any, X: np.ndarray) -> None:
    """Refuse a density of scipy that does not go to 0 at an end of its support.

    Integration by parts leaves p·k at the end, and the Stein discrepancy of p itself is then above
    0. Where p ≈ tᵃ with 0 < a < 1 it is 0, but the score a/t has no variance. The power a is
    read off two points next to the end.
    """
    if X.shape[1] != 1 or not callable(getattr(density, "support", None)):
        return
    try:
        low, high = (float(end) for end in density.support())
    except (TypeError, ValueError):  # parameters are missing or are arrays: logpdf will say so
        return
    if not ((X >= low) & (X <= high)).all():
        return  # these points are named for what they are
    for end, sign in ((low, 1.0), (high, -1.0)):
        if not np.isfinite(end):
            continue
        reach = float(np.abs(X - end).max()) or 1.0
        t = max(1e-6 * reach, 2.0**12 * float(np.spacing(abs(end))))
        with np.errstate(all="ignore"):
            near, far = _values(density.logpdf, end + sign * t * np.array([1.0, 2.0]))
        if near == -np.inf or far - near >= LEAST_POWER * np.log(2.0):
            continue
        change = "log |x − end|" if np.isinf(low) or np.isinf(high) else "the logit"
        raise InvalidInput(
            f"{who()}: the density does not go to 0 (at least as a straight line) at the end "
            f"{end:g} of its support, as a Stein discrepancy needs; transform first ({change} of "
            "the points) and add the log-Jacobian to log p, as in the example of ksd."
        )


def _central_differences(density: Callable, X: np.ndarray) -> np.ndarray:
    """Return (log p(x + h) − log p(x − h))/2h, coordinate by coordinate."""
    n, d = X.shape
    out = np.empty((n, d))
    spread = X.std(0)
    for k in range(d):
        # A step on the scale of the column; x ± h are rounded, so their gap is taken as it is.
        scale = np.maximum(np.abs(X[:, k]), spread[k] if spread[k] > 0 else 1.0)
        up, down = X.copy(), X.copy()
        up[:, k] += STEP * scale
        down[:, k] -= STEP * scale
        gap = up[:, k] - down[:, k]
        above, below = _values(density, up), _values(density, down)
        with np.errstate(invalid="ignore"):
            out[:, k] = (above - below) / gap
    return _checked(out, X, "the difference of log p")


def _values(density: Callable, X: np.ndarray) -> np.ndarray:
    try:
        values = np.asarray(density(X), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"{who()}: the density does not take points of shape {X.shape}: {error}"
        ) from error
    if values.shape == () and len(X) == 1:
        values = values[None]
    if values.shape != (len(X),):
        raise InvalidInput(
            f"{who()}: the log-density of {len(X)} points of {X.shape[1]} columns has shape "
            f"{values.shape}; give a density of {X.shape[1]} coordinates, one value a point."
        )
    return values
