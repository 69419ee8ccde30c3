"""Anderson mixing: a fixed-point iteration that learns from its last few steps."""

from __future__ import annotations

from collections import deque

import numpy as np
from scipy.linalg import lstsq

__all__ = ["Mixing"]


class Mixing:
    """Propose the next point of x = g(x) from the last few pairs (x, g(x) − x).

    The combination of earlier steps whose residuals cancel best, in a weighted least-squares sense,
    is taken away from the plain step (Walker & Ni, SIAM J. Numer. Anal. 49, 2011).

    Parameters
    ----------
    memory : int, default=8
        Differences to keep.
    """

    def __init__(self, memory: int = 8):
        self._points: deque = deque(maxlen=memory + 1)
        self._steps: deque = deque(maxlen=memory + 1)

    def forget(self) -> None:
        """Drop all earlier steps."""
        self._points.clear()
        self._steps.clear()

    def propose(self, x: np.ndarray, step: np.ndarray, scale: np.ndarray, damp: float = 1.0):
        """Return the next x.

        Parameters
        ----------
        x, step : ndarray of shape (p,)
            The point and g(x) − x.
        scale : ndarray of shape (p,)
            Units: step·scale is measured.
        damp : float, default=1.0
            Part of the plain step that is taken.

        Returns
        -------
        ndarray of shape (p,)
            The plain step alone where products of earlier ones overflow.
        """
        self._points.append(x)
        self._steps.append(step)
        new = x + damp * step
        if len(self._steps) > 1:
            moves = np.diff(np.array(self._points), axis=0).T
            changes = np.diff(np.array(self._steps), axis=0).T
            left, right = scale[:, None] * changes, scale * step
            if np.isfinite(left).all() and np.isfinite(right).all():
                part = lstsq(left, right, cond=1e-10)[0]
                new -= (moves + damp * changes) @ part
        return new
