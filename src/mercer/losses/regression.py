"""Losses of regression: functions of the error f − y."""

from __future__ import annotations

import numpy as np

from mercer.errors import InvalidInput
from mercer.losses.base import Loss

__all__ = ["EpsilonInsensitive"]


class EpsilonInsensitive(Loss):
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
        number = isinstance(epsilon, int | float | np.number) and not isinstance(epsilon, bool)
        if not number or not 0 <= epsilon < np.inf:
            raise InvalidInput(
                f"EpsilonInsensitive: epsilon={epsilon!r}; give a finite number ≥ 0."
            )
        self.epsilon = float(epsilon)

    def _value(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return np.maximum(0.0, np.abs(f - y) - self.epsilon)

    def _gradient(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        error = f - y
        return np.where(np.abs(error) > self.epsilon, np.sign(error), 0.0)

    def _conjugate(self, y: np.ndarray, u: np.ndarray) -> np.ndarray:
        size = np.abs(u)
        return np.where(size <= 1.0, y * u + self.epsilon * size, np.inf)
