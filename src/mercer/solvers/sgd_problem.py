"""Regularised risk over explicit features: the problem, and the gap that certifies an answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import logsumexp, softmax, xlogy

from mercer.errors import InvalidInput
from mercer.losses import Huber, Logistic, Loss, Squared, SquaredHinge
from mercer.solvers.checks import check_index, check_number
from mercer.solvers.smooth import CheckedSmooth, balance

__all__ = ["CheckedFeatures", "FeatureERM", "Softmax"]

#: Number in the compiled loops and largest curvature of every loss they know.
LOSSES: dict[type, tuple[int, float]] = {
    Logistic: (0, 0.25),
    SquaredHinge: (1, 2.0),
    Squared: (2, 1.0),
    Huber: (3, 1.0),
}


@dataclass(frozen=True, eq=False)
class FeatureERM:
    """Regularised risk of a linear function of explicit features.

    Minimise over weights v and an offset b

        Σᵢ wᵢ ℓ(yᵢ, vᵀφᵢ + b) + (alpha/2)‖v‖²,

    or, for `classes` > 2 and the logistic loss, over one weight vector a class, with
    ℓ(y, z) = log Σ_c exp z_c − z_y, the softmax.

    Parameters
    ----------
    Phi : ndarray or sparse matrix of shape (n, D)
        The features φᵢ.
    y : ndarray of shape (n,)
        Targets, as the loss wants them; class numbers 0, 1, … for `classes` > 2.
    loss : Loss
        One whose slope has a bounded slope: Logistic, SquaredHinge, Squared or Huber.
    alpha : float
        The penalty > 0.
    weights : ndarray of shape (n,), optional
        Weights w > 0; 1 by default.
    offset : bool, default=True
        Whether there is an offset.
    classes : int, default=2
        How many classes there are; more than 2 for the softmax.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.losses import Squared
    >>> from mercer.solvers import SGD, FeatureERM
    >>> problem = FeatureERM(np.eye(2), [3.0, -3.0], Squared(), alpha=2.0, offset=False)
    >>> SGD(tol=1e-12).solve(problem).value.round(4)
    array([ 1., -1.])
    """

    Phi: Any
    y: Any
    loss: Loss
    alpha: float
    weights: Any = None
    offset: bool = True
    classes: int = 2

    def checked(self, owner: str) -> CheckedFeatures:
        """Return the problem in canonical arrays, or raise `InvalidInput`.

        Parameters
        ----------
        owner : str
            Who asks; the messages begin with it.
        """
        Phi = as_features(self.Phi, owner)
        n = Phi.shape[0]
        if n == 0:
            raise InvalidInput(f"{owner}: there are no rows; give at least one.")
        if type(self.loss) not in LOSSES:
            raise InvalidInput(
                f"{owner}: loss={self.loss!r}; stochastic gradients need a slope whose own slope "
                "has a bound: give Logistic(), SquaredHinge(), Squared() or Huber()."
            )
        check_number(self.alpha, "alpha", owner, 0.0)
        check_index(self.classes, "classes", owner, 2)
        y = _numbers(self.y, n, "y", owner)
        w = np.ones(n) if self.weights is None else _numbers(self.weights, n, "weights", owner)
        if not (w > 0).all():
            raise InvalidInput(f"{owner}: weights must be > 0; leave out rows of weight 0.")
        many = self.classes > 2
        if many and (
            not isinstance(self.loss, Logistic) or not np.isin(y, range(self.classes)).all()
        ):
            raise InvalidInput(
                f"{owner}: {self.classes} classes need the logistic loss and class numbers "
                f"0 to {self.classes - 1} as y."
            )
        risk: Any = (
            Softmax(y.astype(int), w, self.classes, self.offset)
            if many
            else Single(y, w, self.loss, float(self.alpha), self.offset)
        )
        code, bend = (4, 0.5) if many else LOSSES[type(self.loss)]
        delta = float(getattr(self.loss, "delta", 1.0))
        return CheckedFeatures(
            Phi, y, w, float(self.alpha), bool(self.offset), risk, code, bend, delta
        )


@dataclass(frozen=True, eq=False)
class CheckedFeatures:
    """A `FeatureERM` in canonical arrays, with what the compiled loops need to know of its loss."""

    Phi: Any
    y: np.ndarray
    w: np.ndarray
    alpha: float
    offset: bool
    risk: Any
    code: int
    bend: float
    delta: float

    def product(self, V: np.ndarray) -> np.ndarray:
        """Return ΦV."""
        return np.asarray(self.Phi @ V)

    def pull(self, g: np.ndarray) -> np.ndarray:
        """Return Φᵀ(w g)."""
        return np.asarray(self.Phi.T @ (self.w[:, None] * g))


class Single:
    """Σ w ℓ(y, z) for one output, z of shape (n, 1)."""

    def __init__(self, y: np.ndarray, w: np.ndarray, loss: Loss, alpha: float, offset: bool):
        self.outputs = 1
        self.inner = CheckedSmooth(None, len(y), y, loss, alpha, w, offset)  # type: ignore[arg-type]
        loss.value(y[:1], 0.0)  # refuses targets that the loss has no value for

    def value(self, z: np.ndarray) -> float:
        """Return the sum."""
        return self.inner.risk(z[:, 0])

    def rates(self, z: np.ndarray) -> np.ndarray:
        """Return ∂ℓ/∂z."""
        return self.inner.rates(z[:, 0])[:, None]

    def shift(self, z: np.ndarray) -> np.ndarray:
        """Return the change of the offset that is best for these values."""
        return np.array([self.inner.best_offset(z[:, 0])])

    def feasible(self, u: np.ndarray) -> np.ndarray:
        """Return slopes near u for which the dual value is finite."""
        return u * balance(self.inner.w * u[:, 0])[:, None] if self.inner.offset else u

    def conjugate_terms(self, z: np.ndarray, u: np.ndarray) -> float:
        """Return Σ w (ℓ(z) + ℓ*(u) − u z) ≥ 0."""
        return self.inner.conjugate_terms(z[:, 0], u[:, 0])


class Softmax:
    """Σ w (log Σ exp z_c − z_y) for class numbers y, z of shape (n, c)."""

    def __init__(self, y: np.ndarray, w: np.ndarray, classes: int, offset: bool):
        self.y, self.w, self.offset, self.outputs = y, w, offset, classes
        self.one = np.zeros((len(y), classes))
        self.one[np.arange(len(y)), y] = 1.0
        self.frequency = w @ self.one / w.sum()

    def value(self, z: np.ndarray) -> float:
        """Return the sum."""
        return float(self.w @ (logsumexp(z, axis=1) - (z * self.one).sum(1)))

    def rates(self, z: np.ndarray) -> np.ndarray:
        """Return ∂ℓ/∂z = p − e_y."""
        return softmax(z, axis=1) - self.one

    def shift(self, z: np.ndarray) -> np.ndarray:
        """Return the change of the offsets that is best, by damped Newton; they sum to 0."""
        c = np.zeros(self.outputs)
        best = self.value(z)
        for _ in range(50):
            p = softmax(z + c, axis=1)
            slope = self.w @ (p - self.one)
            if np.abs(slope).max() <= 1e-12 * self.w.sum():
                break
            weighted = self.w[:, None] * p
            H = np.diag(weighted.sum(0)) - weighted.T @ p
            step = -np.linalg.pinv(H, rcond=1e-12, hermitian=True) @ slope
            for half in range(12):
                trial = c + step * 0.5**half
                value = self.value(z + trial)
                if value < best:
                    break
            else:
                break  # rounding hides any gain
            c, best = trial, value
        return c - c.mean()

    def feasible(self, u: np.ndarray) -> np.ndarray:
        """Return slopes near u whose sums Σ w u are 0, if there are offsets.

        u + e_y stays a probability: it is mixed with the frequencies of the classes, whose slopes
        have sums 0, by just as much as shifting all rows by the same amount needs.
        """
        if not self.offset:
            return u
        rest = self.w @ u / self.w.sum()
        need = np.divide(
            np.abs(rest), self.frequency, out=np.zeros_like(rest), where=self.frequency > 0
        )
        mix = min(1.0, float(need.max()))
        return (1 - mix) * (u - rest) + mix * (self.frequency - self.one)

    def conjugate_terms(self, z: np.ndarray, u: np.ndarray) -> float:
        """Return Σ w (ℓ(z) + ℓ*(u) − uᵀz) ≥ 0, ℓ*(u) = Σ p log p with p = u + e_y."""
        p = np.maximum(u + self.one, 0.0)
        terms = logsumexp(z, axis=1) - (z * p).sum(1) + xlogy(p, p).sum(1)
        return float(self.w @ np.maximum(terms, 0.0))


def as_features(Phi: Any, owner: str) -> Any:
    """Return features as a C-ordered float64 array or a CSR matrix of float64, all finite."""
    if sp.issparse(Phi):
        Phi = sp.csr_matrix(Phi, dtype=np.float64)
        Phi.sum_duplicates()
        entries = Phi.data
    else:
        try:
            entries = Phi = np.ascontiguousarray(Phi, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"{owner}: the features are no numbers ({error}).") from error
    if Phi.ndim != 2:
        raise InvalidInput(f"{owner}: the features have shape {Phi.shape}; give (rows, columns).")
    if not np.isfinite(entries).all():
        raise InvalidInput(f"{owner}: the features hold NaN or infinity; scale the columns.")
    return Phi


def _numbers(values: Any, n: int, name: str, owner: str) -> np.ndarray:
    try:
        out = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{owner}: {name} are no numbers ({error}).") from error
    if out.shape != (n,) or not np.isfinite(out).all():
        raise InvalidInput(f"{owner}: {name} must be {n} finite numbers, got shape {out.shape}.")
    return out
