"""Losses of regression: functions of the error f − y."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from mercer.checks import as_number
from mercer.errors import InvalidInput
from mercer.losses.base import Loss, into_range


class ErrorLoss(Loss):
    """Base of the losses ρ(f − y), for which ℓ*(y, u) = y u + ρ*(u).

    A loss writes ρ, ρ′, ρ″ and ρ* as `_rho`, `_slope`, `_bend` and `_dual`.
    """

    kind = "regression"

    def _value(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return self._rho(f - y)

    def _gradient(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return self._slope(f - y)

    def _curvature(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return self._bend(f - y)

    def _conjugate(self, y: np.ndarray, u: np.ndarray) -> np.ndarray:
        dual = self._dual(u)
        return np.where(np.isinf(dual), np.inf, y * u + dual)

    @abstractmethod
    def _rho(self, error: np.ndarray) -> np.ndarray: ...

    @abstractmethod
    def _slope(self, error: np.ndarray) -> np.ndarray: ...

    @abstractmethod
    def _dual(self, slope: np.ndarray) -> np.ndarray: ...

    def _bend(self, error: np.ndarray) -> np.ndarray:
        return np.zeros_like(error)


class Squared(ErrorLoss):
    r"""Half the squared error, (f − y)²/2, the loss of ridge regression.

    In the population its minimum is the mean. Its conjugate is y u + u²/2.

    Examples
    --------
    >>> from mercer.losses import Squared
    >>> Squared().value(1.0, [1.0, 3.0])
    array([0., 2.])
    >>> Squared().gradient(1.0, [1.0, 3.0])
    array([0., 2.])
    >>> Squared().conjugate(1.0, [2.0])
    array([4.])
    """

    smooth = True

    def _rho(self, error: np.ndarray) -> np.ndarray:
        return 0.5 * error**2

    def _slope(self, error: np.ndarray) -> np.ndarray:
        return error

    def _bend(self, error: np.ndarray) -> np.ndarray:
        return np.ones_like(error)

    def _dual(self, slope: np.ndarray) -> np.ndarray:
        return 0.5 * slope**2


class Absolute(ErrorLoss):
    r"""The absolute error \|f − y\|; in the population its minimum is the median.

    Its conjugate is y u for \|u\| ≤ 1 and ∞ elsewhere.

    Examples
    --------
    >>> from mercer.losses import Absolute
    >>> Absolute().value(1.0, [1.0, 3.0, -1.5])
    array([0. , 2. , 2.5])
    >>> Absolute().gradient(1.0, [1.0, 3.0, -1.5])
    array([ 0.,  1., -1.])
    >>> Absolute().conjugate(2.0, [0.5, 1.5])
    array([ 1., inf])
    """

    def _rho(self, error: np.ndarray) -> np.ndarray:
        return np.abs(error)

    def _slope(self, error: np.ndarray) -> np.ndarray:
        return np.sign(error)

    def _dual(self, slope: np.ndarray) -> np.ndarray:
        return np.where(into_range(slope, -1.0, 1.0)[1], 0.0, np.inf)


class Pinball(ErrorLoss):
    r"""The pinball loss max(τ (y − f), (τ − 1)(y − f)); its minimum is the quantile of level τ.

    A target above f costs τ for each unit, one below it 1 − τ: the balance is where a share τ of
    the targets is below. Its conjugate is y u for −τ ≤ u ≤ 1 − τ and ∞ elsewhere. τ = ½ is half the
    absolute error.

    Parameters
    ----------
    quantile : float, default=0.5
        The level τ, 0 < τ < 1.

    Examples
    --------
    >>> from mercer.losses import Pinball
    >>> loss = Pinball(0.75)
    >>> loss.value(1.0, [1.0, 3.0, -1.0])
    array([0. , 0.5, 1.5])
    >>> loss.gradient(1.0, [1.0, 3.0, -1.0])
    array([ 0.  ,  0.25, -0.75])
    >>> loss.conjugate(2.0, [-0.75, 0.5])
    array([-1.5,  inf])
    """

    def __init__(self, quantile: float = 0.5):
        number = as_number(quantile)
        if not 0.0 < number < 1.0:
            raise InvalidInput(
                f"Pinball: quantile={quantile!r}; give a number between 0 and 1, both excluded, "
                "such as 0.9."
            )
        self.quantile = number

    def _rho(self, error: np.ndarray) -> np.ndarray:
        return np.maximum(-self.quantile * error, (1.0 - self.quantile) * error)

    def _slope(self, error: np.ndarray) -> np.ndarray:
        return np.where(
            error > 0.0, 1.0 - self.quantile, np.where(error < 0.0, -self.quantile, 0.0)
        )

    def _dual(self, slope: np.ndarray) -> np.ndarray:
        inside = into_range(slope, -self.quantile, 1.0 - self.quantile, size=1.0)[1]
        return np.where(inside, 0.0, np.inf)


class EpsilonInsensitive(ErrorLoss):
    r"""The loss max(0, \|f − y\| − ε) of support vector regression: errors up to ε cost nothing.

    Its conjugate is y u + ε\|u\| for \|u\| ≤ 1 and ∞ elsewhere. ε = 0 is the absolute error, whose
    minimum is the median.

    Parameters
    ----------
    epsilon : float, default=0.1
        Half the width ε ≥ 0 of the tube.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.losses import EpsilonInsensitive
    >>> loss = EpsilonInsensitive(0.5)
    >>> loss.value(1.0, [1.25, 2.0, -1.0])
    array([0. , 0.5, 1.5])
    >>> loss.gradient(1.0, [1.25, 2.0, -1.0])
    array([ 0.,  1., -1.])
    >>> loss.conjugate(1.0, [0.5, -2.0])
    array([0.75,  inf])
    """

    def __init__(self, epsilon: float = 0.1):
        number = as_number(epsilon)
        if not 0.0 <= number < np.inf:
            raise InvalidInput(
                f"EpsilonInsensitive: epsilon={epsilon!r}; give a finite number ≥ 0."
            )
        self.epsilon = number

    def _rho(self, error: np.ndarray) -> np.ndarray:
        return np.maximum(0.0, np.abs(error) - self.epsilon)

    def _slope(self, error: np.ndarray) -> np.ndarray:
        return np.where(np.abs(error) > self.epsilon, np.sign(error), 0.0)

    def _dual(self, slope: np.ndarray) -> np.ndarray:
        slope, inside = into_range(slope, -1.0, 1.0)
        return np.where(inside, self.epsilon * np.abs(slope), np.inf)


class Huber(ErrorLoss):
    r"""Huber's loss: e²/2 for errors \|e\| = \|f − y\| ≤ δ, δ(\|e\| − δ/2) beyond.

    Near 0 it is the squared error, far away it grows like the absolute one, so that an outlier
    pulls with a force of at most δ. Its conjugate is y u + u²/2 for \|u\| ≤ δ and ∞ elsewhere.

    Parameters
    ----------
    delta : float, default=1.0
        The error δ > 0 from which the loss is straight, in the units of y.

    Examples
    --------
    >>> from mercer.losses import Huber
    >>> Huber().value(0.0, [0.5, 1.0, -10.0])
    array([0.125, 0.5  , 9.5  ])
    >>> Huber().gradient(0.0, [0.5, 1.0, -10.0])
    array([ 0.5,  1. , -1. ])
    >>> Huber().conjugate(1.0, [1.0, 2.0])
    array([1.5, inf])
    """

    smooth = True

    def __init__(self, delta: float = 1.0):
        number = as_number(delta)
        if not 0.0 < number < np.inf:
            raise InvalidInput(f"Huber: delta={delta!r}; give a finite number > 0.")
        self.delta = number

    def _rho(self, error: np.ndarray) -> np.ndarray:
        size = np.abs(error)
        inner = np.minimum(size, self.delta)
        return inner * (size - 0.5 * inner)

    def _slope(self, error: np.ndarray) -> np.ndarray:
        return np.clip(error, -self.delta, self.delta)

    def _bend(self, error: np.ndarray) -> np.ndarray:
        return np.where(np.abs(error) < self.delta, 1.0, 0.0)

    def _dual(self, slope: np.ndarray) -> np.ndarray:
        slope, inside = into_range(slope, -self.delta, self.delta)
        return np.where(inside, 0.5 * slope**2, np.inf)
