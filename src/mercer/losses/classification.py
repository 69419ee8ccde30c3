"""Losses of classifiers: functions of the margin y f, with y = ±1."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.errors import InvalidInput
from mercer.losses.base import Loss, as_values

__all__ = ["Hinge"]


class Hinge(Loss):
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

    def value(self, y: Any, f: Any) -> np.ndarray:
        """Return max(0, 1 − y f).

        Parameters
        ----------
        y : array
            Labels −1 and 1.
        f : array
            Values of the function.
        """
        y, f = _signs(y), as_values(f, "Hinge", "f")
        return np.maximum(0.0, 1.0 - y * f)

    def gradient(self, y: Any, f: Any) -> np.ndarray:
        """Return −y inside the margin and 0 from y f = 1 on.

        Parameters
        ----------
        y : array
            Labels −1 and 1.
        f : array
            Values of the function.
        """
        y, f = _signs(y), as_values(f, "Hinge", "f")
        return np.where(y * f < 1.0, -y, 0.0)

    def curvature(self, y: Any, f: Any) -> np.ndarray:
        """Return 0: the hinge is straight but for its kink.

        Parameters
        ----------
        y : array
            Labels −1 and 1.
        f : array
            Values of the function.
        """
        return np.zeros(np.broadcast(_signs(y), as_values(f, "Hinge", "f")).shape)

    def conjugate(self, y: Any, u: Any) -> np.ndarray:
        """Return y u for −1 ≤ y u ≤ 0, else ∞.

        Parameters
        ----------
        y : array
            Labels −1 and 1.
        u : array
            Slopes.
        """
        slope = _signs(y) * as_values(u, "Hinge", "u")
        return np.where((slope >= -1.0) & (slope <= 0.0), slope, np.inf)


def _signs(y: Any) -> np.ndarray:
    y = as_values(y, "Hinge", "y")
    if not (np.abs(y) == 1.0).all():
        bad = y.ravel()[np.argmax(np.abs(y).ravel() != 1.0)]
        raise InvalidInput(
            f"Hinge: y holds {bad:g}; labels are −1 and 1, for example "
            "numpy.where(labels == positive, 1, -1)."
        )
    return y
