"""Losses of classifiers: functions of the margin y f, with y = ±1."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.errors import InvalidInput
from mercer.losses.base import Loss

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

    def _value(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return np.maximum(0.0, 1.0 - y * f)

    def _gradient(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return np.where(y * f < 1.0, -y, 0.0)

    def _conjugate(self, y: np.ndarray, u: np.ndarray) -> np.ndarray:
        slope = y * u
        return np.where((slope >= -1.0) & (slope <= 0.0), slope, np.inf)

    def _targets(self, y: Any) -> np.ndarray:
        y = super()._targets(y)
        if not (np.abs(y) == 1.0).all():
            bad = y.ravel()[np.argmax(np.abs(y).ravel() != 1.0)]
            raise InvalidInput(
                f"Hinge: y holds {bad:g}; labels are −1 and 1, for example "
                "numpy.where(labels == positive, 1, -1)."
            )
        return y
