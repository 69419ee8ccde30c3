"""Losses of classifiers: functions of the margin y f, with y = ±1."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NoReturn

import numpy as np
from scipy.special import expit, xlog1py, xlogy

from mercer.errors import InvalidInput
from mercer.losses.base import Loss, into_range


class MarginLoss(Loss):
    """Base of the losses φ(y f): the chain rule, and ℓ*(y, u) = φ*(y u) because y² = 1.

    A loss writes φ, φ′, φ″ and φ* as `_phi`, `_slope`, `_bend` and `_dual`.
    """

    kind = "classification"

    def _value(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return self._phi(y * f)

    def _gradient(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return y * self._slope(y * f)

    def _curvature(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return self._bend(y * f)

    def _conjugate(self, y: np.ndarray, u: np.ndarray) -> np.ndarray:
        return self._dual(y * u)

    @abstractmethod
    def _phi(self, margin: np.ndarray) -> np.ndarray: ...

    @abstractmethod
    def _slope(self, margin: np.ndarray) -> np.ndarray: ...

    @abstractmethod
    def _dual(self, slope: np.ndarray) -> np.ndarray: ...

    def _bend(self, margin: np.ndarray) -> np.ndarray:
        return np.zeros_like(margin)

    def _targets(self, y: Any) -> np.ndarray:
        y = super()._targets(y)
        if not (np.abs(y) == 1.0).all():
            bad = y.ravel()[np.argmax(np.abs(y).ravel() != 1.0)]
            raise InvalidInput(
                f"{type(self).__name__}: y holds {bad:g}; labels are −1 and 1, for example "
                "numpy.where(labels == positive, 1, -1)."
            )
        return y


class ZeroOne(MarginLoss):
    r"""The share of wrong signs, [y f ≤ 0]: 1 for a mistake and 0 else.

    It is what a classifier is judged by. It is not convex, so that no method minimises it with a
    certificate; the other losses of this module bound it from above and can be minimised. It has a
    value only. A value f = 0 decides for no class and counts as a mistake.

    Examples
    --------
    >>> from mercer.losses import ZeroOne
    >>> ZeroOne().value([1, 1, -1], [2.0, -0.5, 0.0])
    array([0., 1., 1.])
    """

    def _phi(self, margin: np.ndarray) -> np.ndarray:
        return np.where(margin <= 0.0, 1.0, 0.0)

    def _slope(self, margin: np.ndarray) -> NoReturn:
        self._refuse("gradient")

    def _bend(self, margin: np.ndarray) -> NoReturn:
        self._refuse("curvature")

    def _dual(self, slope: np.ndarray) -> NoReturn:
        self._refuse("conjugate")

    def _refuse(self, what: str) -> NoReturn:
        raise InvalidInput(
            f"ZeroOne: it has no {what}, because it is a step; fit with a convex bound on it, such "
            "as Hinge() or Logistic(), and use ZeroOne().value to judge."
        )


class Hinge(MarginLoss):
    r"""The hinge max(0, 1 − y f), the loss of support vector classification.

    It bounds the share of wrong signs from above and is 0 from the margin y f = 1 on. Its
    conjugate is y u for −1 ≤ y u ≤ 0 and ∞ elsewhere; that is where 0 ≤ αᵢ ≤ C comes from.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.losses import Hinge
    >>> Hinge().value([1, 1, -1], [2.0, 0.5, 0.5])
    array([0. , 0.5, 1.5])
    >>> Hinge().gradient([1, 1, -1], [2.0, 0.5, 0.5])
    array([ 0., -1.,  1.])
    >>> Hinge().conjugate(1, [-0.3, 0.3])
    array([-0.3,  inf])
    """

    def _phi(self, margin: np.ndarray) -> np.ndarray:
        return np.maximum(0.0, 1.0 - margin)

    def _slope(self, margin: np.ndarray) -> np.ndarray:
        return np.where(margin < 1.0, -1.0, 0.0)

    def _dual(self, slope: np.ndarray) -> np.ndarray:
        slope, inside = into_range(slope, -1.0, 0.0)
        return np.where(inside, slope, np.inf)


class SquaredHinge(MarginLoss):
    r"""The squared hinge max(0, 1 − y f)²: smooth, and exactly 0 from the margin 1 on.

    Its conjugate is s + s²/4 for s = y u ≤ 0 and ∞ elsewhere.

    Examples
    --------
    >>> from mercer.losses import SquaredHinge
    >>> SquaredHinge().value([1, 1, -1], [2.0, 0.5, 0.5])
    array([0.  , 0.25, 2.25])
    >>> SquaredHinge().gradient([1, 1, -1], [2.0, 0.5, 0.5])
    array([ 0., -1.,  3.])
    >>> SquaredHinge().conjugate(1, [-2.0, 0.5])
    array([-1., inf])
    """

    smooth = True

    def _phi(self, margin: np.ndarray) -> np.ndarray:
        return np.maximum(0.0, 1.0 - margin) ** 2

    def _slope(self, margin: np.ndarray) -> np.ndarray:
        return np.minimum(0.0, 2.0 * (margin - 1.0))

    def _bend(self, margin: np.ndarray) -> np.ndarray:
        return np.where(margin < 1.0, 2.0, 0.0)

    def _dual(self, slope: np.ndarray) -> np.ndarray:
        return np.where(slope <= 0.0, slope * (1.0 + 0.25 * slope), np.inf)


class Logistic(MarginLoss):
    r"""The logistic loss log(1 + e^(−y f)): f is the log of the odds of the class 1.

    It is −log of the probability 1/(1 + e^(−y f)) of the class seen. Divided by log 2 it bounds the
    share of wrong signs. Its conjugate, with p = −y u, is p log p + (1 − p) log(1 − p) for
    0 ≤ p ≤ 1, minus the entropy of a coin, and ∞ elsewhere.

    Examples
    --------
    >>> from mercer.losses import Logistic
    >>> Logistic().value(1, [0.0, 1000.0, -1000.0]).round(4)
    array([6.931e-01, 0.000e+00, 1.000e+03])
    >>> Logistic().gradient(1, [0.0, 1000.0, -1000.0])
    array([-0.5, -0. , -1. ])
    >>> Logistic().conjugate(1, [-0.5, 0.0, 0.5]).round(4)
    array([-0.6931,  0.    ,     inf])
    """

    smooth = True

    def _phi(self, margin: np.ndarray) -> np.ndarray:
        return np.logaddexp(0.0, -margin)

    def _slope(self, margin: np.ndarray) -> np.ndarray:
        return -expit(-margin)

    def _bend(self, margin: np.ndarray) -> np.ndarray:
        return expit(margin) * expit(-margin)

    def _dual(self, slope: np.ndarray) -> np.ndarray:
        slope, inside = into_range(slope, -1.0, 0.0)
        p = np.where(inside, -slope, 0.0)
        return np.where(inside, xlogy(p, p) + xlog1py(1.0 - p, -p), np.inf)


class Exponential(MarginLoss):
    r"""The exponential loss e^(−y f) of boosting: a mistake costs the more, the surer it was.

    In the population its minimum is half the log of the odds. Its conjugate, with p = −y u, is
    p log p − p for p ≥ 0 and ∞ elsewhere.

    Examples
    --------
    >>> from mercer.losses import Exponential
    >>> Exponential().value(1, [0.0, 1.0, -1000.0]).round(4)
    array([1.    , 0.3679,    inf])
    >>> Exponential().gradient(-1, [0.0, -1.0]).round(4)
    array([1.    , 0.3679])
    >>> Exponential().conjugate(1, [-1.0, 0.0, 0.5])
    array([-1.,  0., inf])
    """

    smooth = True

    def _phi(self, margin: np.ndarray) -> np.ndarray:
        return np.exp(-margin)

    def _slope(self, margin: np.ndarray) -> np.ndarray:
        return -np.exp(-margin)

    def _bend(self, margin: np.ndarray) -> np.ndarray:
        return np.exp(-margin)

    def _dual(self, slope: np.ndarray) -> np.ndarray:
        p = np.maximum(-slope, 0.0)
        return np.where(slope <= 0.0, xlogy(p, p) - np.where(p < np.inf, p, 0.0), np.inf)
