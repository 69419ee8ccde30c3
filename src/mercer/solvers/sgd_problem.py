"""Regularised risk over explicit features: the problem, and the gap that certifies an answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.errors import InvalidInput
from mercer.losses import Huber, Logistic, Loss, Squared, SquaredHinge
from mercer.operators import Diagonal
from mercer.solvers.checks import check_index, check_number
from mercer.solvers.smooth import CheckedSmooth, check_ratio
from mercer.solvers.softmax import CheckedSoftmax

__all__ = ["CheckedFeatures", "FeatureERM"]

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
        y = as_numbers(self.y, n, "y", owner)
        w = np.ones(n) if self.weights is None else as_numbers(self.weights, n, "weights", owner)
        if not (w > 0).all():
            raise InvalidInput(f"{owner}: weights must be > 0; leave out rows of weight 0.")
        check_lengths(Phi, w, float(self.alpha), owner)
        many = self.classes > 2
        if many and (
            not isinstance(self.loss, Logistic) or not np.isin(y, range(self.classes)).all()
        ):
            raise InvalidInput(
                f"{owner}: {self.classes} classes need the logistic loss and class numbers "
                f"0 to {self.classes - 1} as y."
            )
        alpha, offset = float(self.alpha), bool(self.offset)
        # The risks ask for no K, only for values at the rows.
        none: Any = None
        risk: Any = CheckedSmooth(none, n, y, self.loss, alpha, w, offset)
        if many:
            risk = CheckedSoftmax(none, n, y.astype(int), self.classes, alpha, w, offset)
        else:
            self.loss.value(y[:1], 0.0)  # refuses targets that the loss has no value for
        code, bend = (4, 0.5) if many else LOSSES[type(self.loss)]
        delta = float(getattr(self.loss, "delta", 1.0))
        return CheckedFeatures(Phi, y, w, alpha, offset, risk, code, bend, delta)


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

    @property
    def outputs(self) -> int:
        """How many values a row has."""
        return 1 if len(self.risk.shape) == 1 else self.risk.shape[1]

    def value(self, z: np.ndarray) -> float:
        """Return the risk at values z of shape (n, outputs)."""
        return self.risk.risk(z.reshape(self.risk.shape))

    def rates(self, z: np.ndarray) -> np.ndarray:
        """Return the slopes ∂ℓ/∂z, shape (n, outputs)."""
        return self.risk.rates(z.reshape(self.risk.shape)).reshape(z.shape)

    def shift(self, z: np.ndarray) -> np.ndarray:
        """Return the change of the offsets that is best for these values."""
        return np.atleast_1d(self.risk.best_offset(z.reshape(self.risk.shape)))

    def feasible(self, u: np.ndarray) -> np.ndarray:
        """Return slopes near u for which the dual value is finite."""
        return self.risk.balanced(u.reshape(self.risk.shape)).reshape(u.shape)

    def conjugate_terms(self, z: np.ndarray, u: np.ndarray) -> float:
        """Return Σ w (ℓ(z) + ℓ*(u) − u z) ≥ 0."""
        return self.risk.conjugate_terms(*(A.reshape(self.risk.shape) for A in (z, u)))


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
            raise InvalidInput(
                f"{owner}: the features are no numbers ({error}); give an "
                "array of floats, or a sparse matrix."
            ) from error
    if Phi.ndim != 2:
        raise InvalidInput(f"{owner}: the features have shape {Phi.shape}; give (rows, columns).")
    if not np.isfinite(entries).all():
        raise InvalidInput(f"{owner}: the features hold NaN or infinity; scale the columns.")
    return Phi


def check_lengths(Phi: Any, w: np.ndarray, alpha: float, owner: str) -> np.ndarray:
    """Return the rows' squared lengths k(x, x); refuse those that overflow, alone or by w/alpha."""
    with np.errstate(over="ignore"):
        squares = Phi.multiply(Phi) if sp.issparse(Phi) else Phi * Phi
        lengths = np.asarray(squares.sum(axis=1)).reshape(-1)
    if not np.isfinite(lengths).all():
        i = int(np.argmin(np.isfinite(lengths)))
        raise InvalidInput(
            f"{owner}: k(x, x) is {lengths[i]} at row {i}; the kernel overflows on these data. "
            "Scale the columns, for example with sklearn.preprocessing.StandardScaler."
        )
    check_ratio(Diagonal(lengths), w, alpha, owner)
    return lengths


def as_numbers(values: Any, n: int, name: str, owner: str) -> np.ndarray:
    """Return n finite numbers in float64, or raise `InvalidInput`."""
    try:
        out = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"{owner}: {name} are no numbers ({error}); give {n} of them."
        ) from error
    if out.shape != (n,) or not np.isfinite(out).all():
        what = "NaN or infinity" if out.shape == (n,) else f"shape {out.shape}"
        raise InvalidInput(
            f"{owner}: {name} must be {n} finite numbers, got {what}; give one for each row."
        )
    return out
