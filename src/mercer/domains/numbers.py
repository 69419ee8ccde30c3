"""Numbers: real or integer points on a part of the line, one or several columns of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.domains.vectors import Vectors, is_torch
from mercer.errors import InvalidInput

__all__ = ["Numbers"]


class Numbers(Vectors):
    """Numbers in an interval, whole or not; a 1-D array or list is one column of them.

    Parameters
    ----------
    low, high : float
        The interval.
    open : bool
        Whether the end points are excluded.
    integer : bool
        Whether only whole numbers are points.
    """

    name = "numbers"

    def __init__(
        self,
        low: float = -np.inf,
        high: float = np.inf,
        open: bool = False,
        integer: bool = False,
    ):
        self.low = low
        self.high = high
        self.open = open
        self.integer = integer

    def check(self, X: Any, name: str = "X") -> Any:
        """Return one or more columns of numbers inside the interval."""
        if isinstance(X, list | tuple) and not any(hasattr(x, "__len__") for x in X):
            X = np.asarray(X)
        if getattr(X, "ndim", None) == 1 and hasattr(X, "shape"):
            X = (X if is_torch(X) else np.asarray(X)).reshape(-1, 1)
        X = super().check(X, name)
        if hasattr(X, "tocsr"):
            X = X.toarray()
        if self.open:
            outside = (X <= self.low) | (X >= self.high)
        else:
            outside = (X < self.low) | (X > self.high)
        if bool(outside.any()):
            bad = float(X[outside][0])
            raise InvalidInput(f"Numbers: {name} contains {bad:g}; legal are {self._legal()}.")
        if self.integer and not bool((X == X.round()).all()):
            bad = float(X[X != X.round()][0])
            raise InvalidInput(f"Numbers: {name} contains {bad:g}; legal are {self._legal()}.")
        return X

    def _legal(self) -> str:
        left, right = ("(", ")") if self.open else ("[", "]")
        left = "(" if self.low == -np.inf else left
        right = ")" if self.high == np.inf else right
        what = "whole numbers" if self.integer else "numbers"
        return f"{what} in {left}{self.low:g}, {self.high:g}{right}"

    def sample(self, rng: np.random.Generator, n: int, d: int = 1) -> np.ndarray:
        """Return n random numbers of the domain as one column."""
        low = max(self.low, -5.0)
        high = min(self.high, low + 40.0 if self.integer else low + 10.0)
        if self.integer:
            whole = rng.integers(int(np.ceil(low)), int(high), size=(n, d), endpoint=True)
            return whole.astype(float)
        return low + (high - low) * rng.uniform(0.01, 0.99, size=(n, d))
