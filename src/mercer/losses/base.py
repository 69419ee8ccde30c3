"""The protocol of a loss: value, gradient, curvature and conjugate, entry by entry."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from mercer.errors import InvalidInput

__all__ = ["Loss", "as_values"]


class Loss(ABC):
    """A convex loss ℓ(y, f) of a target y and a value f, for each point by itself.

    All methods take arrays that broadcast against one another and return an array of that shape.
    """

    @abstractmethod
    def value(self, y: Any, f: Any) -> np.ndarray:
        """Return ℓ(y, f).

        Parameters
        ----------
        y : array
            Targets.
        f : array
            Values of the function.
        """

    @abstractmethod
    def gradient(self, y: Any, f: Any) -> np.ndarray:
        """Return the derivative of ℓ by f; at a kink, one of its subgradients.

        Parameters
        ----------
        y : array
            Targets.
        f : array
            Values of the function.
        """

    @abstractmethod
    def curvature(self, y: Any, f: Any) -> np.ndarray:
        """Return the second derivative of ℓ by f, where there is one; at a kink, 0.

        Parameters
        ----------
        y : array
            Targets.
        f : array
            Values of the function.
        """

    @abstractmethod
    def conjugate(self, y: Any, u: Any) -> np.ndarray:
        """Return ℓ*(y, u) = sup over f of u f − ℓ(y, f), which is ∞ where that has no bound.

        The dual of min ½‖f‖² + C Σ ℓ(yᵢ, f(xᵢ)) is max −½aᵀKa − C Σ ℓ*(yᵢ, −aᵢ/C).

        Parameters
        ----------
        y : array
            Targets.
        u : array
            Slopes.
        """

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((type(self), tuple(sorted(self.__dict__.items()))))

    def __repr__(self) -> str:
        inside = ", ".join(f"{k}={v!r}" for k, v in self.__dict__.items())
        return f"{type(self).__name__}({inside})"


def as_values(values: Any, owner: str, name: str) -> np.ndarray:
    """Return an array of real numbers as float64."""
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise InvalidInput(
            f"{owner}: {name} has dtype {array.dtype} where real numbers belong; give an array of "
            "them."
        )
    return array.astype(np.float64, copy=False)
