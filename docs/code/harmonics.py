"""A kernel with a finite feature map, the sum of a few harmonics."""

from typing import Any

import numpy as np

from mercer.domains import Numbers, namespace
from mercer.kernels import Explicit


class Harmonics(Explicit):
    r"""Σⱼ cos(2πj(x−x′)/p), j = 0, …, m, added over the columns.

    *Valid when* always. Features: cos(2πjx/p) and sin(2πjx/p), 2(m+1) a column.

    Parameters
    ----------
    degree : int, default=3
        The highest harmonic m.
    period : float, default=1.0
        The period p.
    """

    domain = Numbers()

    def __init__(self, degree: int = 3, period: float = 1.0):
        super().__init__(degree=degree, period=period)

    def _features(self, X: Any) -> Any:
        xp = namespace(X)
        angles = [X * (2 * np.pi * j / self.period) for j in range(self.degree + 1)]
        return xp.hstack([f(a) for a in angles for f in (xp.cos, xp.sin)])
