"""Averaged stochastic gradients for a stream: every row is seen once, and then forgotten."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.errors import InvalidInput, NotConverged
from mercer.losses import Logistic
from mercer.solvers.sgd_problem import LOSSES, as_features, as_numbers, check_lengths

__all__ = ["AveragedSGD"]

POWER = 0.4  # steps fall as t^−0.4: averages settle, and columns of small scale still get somewhere
HUGE = 1e140
# Of the rows' mean square, the offset's 1 with it, the part that must be spread around the mean;
# and how many rows it takes to say so.
SPREAD, JUDGED = 1e-3, 10


class AveragedSGD:
    r"""The state of a logistic regression on a stream of rows.

    Approaches the minimum of Σᵢ wᵢ ℓ(yᵢ, vᵀφᵢ + b) + (alpha/2)‖v‖² over all rows seen so far, with
    one step for each row, and answers with an average of its iterates in which later ones weigh
    more (Polyak and Juditsky 1992; Shamir and Zhang 2013). The step starts from the mean square of
    the features and falls with the number of rows; the penalty is a proximal step. Weights count by
    their ratios, as their sum does to alpha: n rows of weight 1/n with alpha/n are n rows of weight
    1 with alpha. A row costs what it has entries. Columns should be centred and of scale near 1:
    where the rows of the first call are nearly all mean, a warning says so.

    Parameters
    ----------
    features : int
        How many features D a row has.
    classes : int, default=2
        Two classes with targets −1 and 1, or more with class numbers 0, 1, …: the softmax.
    offset : bool, default=True
        Whether there is an offset.

    Attributes
    ----------
    coef : ndarray of shape (D,) or (D, classes)
        The averaged weights.
    intercept : float or ndarray of shape (classes,)
        The averaged offset.
    seen : int
        How many rows of positive weight it has seen.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.solvers.sgd_stream import AveragedSGD
    >>> rng = np.random.default_rng(0)
    >>> stream = AveragedSGD(2)
    >>> for _ in range(50):
    ...     X = rng.standard_normal((100, 2))
    ...     stream.update(X, np.where(X[:, 0] > 0, 1.0, -1.0), alpha=1.0)
    >>> bool(stream.coef[0] > 10 * abs(stream.coef[1]))
    True
    """

    def __init__(self, features: int, classes: int = 2, offset: bool = True):
        outputs = 1 if classes == 2 else classes
        self.classes, self.offset = classes, offset
        self.V, self.b = np.zeros((features, outputs)), np.zeros(outputs)
        self.average, self.average_b = np.zeros((features, outputs)), np.zeros(outputs)
        self.totals = np.zeros(4)  # Σw, Σw‖(φ, 1)‖², Σw², and how many rows of weight > 0

    @property
    def coef(self) -> np.ndarray:
        """The averaged weights."""
        return self.average[:, 0].copy() if self.classes == 2 else self.average.copy()

    @property
    def intercept(self) -> Any:
        """The averaged offset."""
        return float(self.average_b[0]) if self.classes == 2 else self.average_b.copy()

    @property
    def seen(self) -> int:
        """How many rows of positive weight it has seen."""
        return round(self.totals[3])

    def update(
        self, Phi: Any, y: Any, weights: Any = None, alpha: float = 1.0, owner: str = "AveragedSGD"
    ) -> None:
        """Take one step for each row, in order; rows in one call or in many make no difference.

        Parameters
        ----------
        Phi : ndarray or sparse matrix of shape (n, D)
            Features of the new rows.
        y : array of shape (n,)
            Their targets.
        weights : array of shape (n,), optional
            Their weights ≥ 0; a row of weight 0 is no row.
        alpha : float, default=1.0
            The penalty > 0.
        owner : str, default="AveragedSGD"
            Whose stream it is; messages begin with it.
        """
        from mercer.jit.sgd import stream

        Phi = as_features(Phi, owner)
        n, D = Phi.shape
        if D != len(self.V):
            raise InvalidInput(
                f"{owner}: {D} features; earlier rows had {len(self.V)}. Give the same columns, or "
                "begin another stream."
            )
        y = as_numbers(y, n, "y", owner)
        w = np.ones(n) if weights is None else as_numbers(weights, n, "weights", owner)
        used = w[w > 0]
        if used.size:
            there = Phi if used.size == n else Phi[w > 0]
            lengths = check_lengths(there, used, float(alpha), owner)
            if not used.min() > 1 / HUGE:
                raise InvalidInput(
                    f"{owner}: weights down to {used.min():.3g} cannot be squared; multiply alpha "
                    "and all weights by the same number."
                )
            if not self.seen and used.size >= JUDGED:
                _warn_off_centre(there, used / used.sum(), lengths, self.offset, owner)
        code, bend = LOSSES[Logistic] if self.classes == 2 else (4, 0.5)
        size = max(1, 2_000_000 // max(1, D))  # rows between two chances to interrupt
        for first in range(0, n, size):
            at, outputs = slice(first, first + size), len(self.b)
            part, thin = Phi[at], sp.issparse(Phi)
            if thin:
                entries = part.data, part.indices, part.indptr
            else:
                starts = D * np.arange(len(part) + 1, dtype=np.int32)
                entries = part.reshape(-1), np.empty(0, dtype=np.int32), starts
            stream(
                *entries, thin, y[at], w[at], code, bend, float(alpha), POWER, self.offset,
                self.V, self.b, self.average, self.average_b, self.totals,
                np.empty(outputs), np.empty(outputs),
            )  # fmt: skip
        if not (np.isfinite(self.average).all() and np.isfinite(self.totals).all()):
            raise InvalidInput(f"{owner}: the weights overflow; scale the columns.")


def _warn_off_centre(
    Phi: Any, share: np.ndarray, lengths: np.ndarray, offset: bool, owner: str
) -> None:
    """Warn where steps, set by the lengths of rows, are too short for what rows differ in."""
    mean = np.asarray(share @ Phi)
    square = float(share @ lengths)
    length, spread = square + offset, square - float(mean @ mean)
    if 0 < length and spread < SPREAD * length:
        warnings.warn(
            f"{owner}: the columns are off centre or tiny: of the mean square of the rows, "
            f"{length:.3g}{' with the 1 of the offset' if offset else ''}, only "
            f"{max(0.0, spread):.1g} is spread around their mean, so a stream learns next to "
            "nothing. Centre the columns and scale them to 1, for example with "
            "sklearn.preprocessing.StandardScaler.",
            NotConverged,
            stacklevel=2,
        )
