"""Losses of regression: functions of the error f − y."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.errors import InvalidInput
from mercer.losses.base import Loss, as_values

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

    def _error(self, y: Any, f: Any) -> np.ndarray:
        owner = type(self).__name__
        return as_values(f, owner, "f") - as_values(y, owner, "y")

    def value(self, y: Any, f: Any) -> np.ndarray:
        """Return the part of the error outside the tube.

        Parameters
        ----------
        y : array
            Targets.
        f : array
            Values of the function.
        """
        return np.maximum(0.0, np.abs(self._error(y, f)) - self.epsilon)

    def gradient(self, y: Any, f: Any) -> np.ndarray:
        """Return the sign of the error outside the tube, and 0 in it.

        Parameters
        ----------
        y : array
            Targets.
        f : array
            Values of the function.
        """
        error = self._error(y, f)
        return np.where(np.abs(error) > self.epsilon, np.sign(error), 0.0)

    def curvature(self, y: Any, f: Any) -> np.ndarray:
        """Return 0: the loss is straight but for its kinks.

        Parameters
        ----------
        y : array
            Targets.
        f : array
            Values of the function.
        """
        return np.zeros(self._error(y, f).shape)

    def conjugate(self, y: Any, u: Any) -> np.ndarray:
        """Return y u + ε times the size of u where that is at most 1, else ∞.

        Parameters
        ----------
        y : array
            Targets.
        u : array
            Slopes.
        """
        owner = type(self).__name__
        y, u = as_values(y, owner, "y"), as_values(u, owner, "u")
        size = np.abs(u)
        return np.where(size <= 1.0, y * u + self.epsilon * size, np.inf)
