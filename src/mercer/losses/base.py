"""The protocol of a loss: value, gradient, curvature and conjugate, entry by entry."""

from __future__ import annotations

import copy
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np

from mercer.errors import InvalidInput, name_keywords

ULPS = 4 * float(np.finfo(float).eps)


def into_range(
    u: np.ndarray, low: float, high: float, size: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Return slopes moved into an interval, and which were in it but for rounding of its ends.

    Parameters
    ----------
    u : ndarray
        Slopes; −alpha·a/w of a coefficient at its bound may be an ulp or two outside.
    low, high : float
        The interval.
    size : float, default=0.0
        Of what the ends are differences; 0 where they are exact.
    """
    below, above = (ULPS * max(abs(end), size) for end in (low, high))
    return np.clip(u, low, high), (u >= low - below) & (u <= high + above)


class Loss(ABC):
    """A convex loss ℓ(y, f) of a target y and a value f, for each point by itself.

    All methods take arrays that broadcast against one another and return an array of that shape.
    NaN gives NaN, and what is too large for float64 is ∞, without a warning. A loss of one's own
    writes `_value`, `_gradient`, `_curvature` and `_conjugate`, which get float64 arrays, says its
    `kind` and whether it is `smooth`, and extends `_targets` where not every number is a target. A
    loss is a value: its parameters, which have the names of the arguments, are set once, but for
    `set_params`.

    Attributes
    ----------
    kind : str
        "classification" where the targets are −1 and 1, "regression" where they are numbers.
    smooth : bool
        Whether the gradient is continuous.
    """

    kind: ClassVar[str] = "regression"
    smooth: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any):
        super().__init_subclass__(**options)
        name_keywords(cls)

    def value(self, y: Any, f: Any) -> np.ndarray:
        """Return ℓ(y, f).

        Parameters
        ----------
        y : array
            Targets.
        f : array
            Values of the function.
        """
        return self._apply(self._value, y, f, "f")

    def gradient(self, y: Any, f: Any) -> np.ndarray:
        """Return the derivative of ℓ by f; at a kink, the subgradient nearest to 0.

        Parameters
        ----------
        y : array
            Targets.
        f : array
            Values of the function.
        """
        return self._apply(self._gradient, y, f, "f")

    def curvature(self, y: Any, f: Any) -> np.ndarray:
        """Return the second derivative of ℓ by f, where there is one; at a kink, 0.

        Parameters
        ----------
        y : array
            Targets.
        f : array
            Values of the function.
        """
        return self._apply(self._curvature, y, f, "f")

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
        return self._apply(self._conjugate, y, u, "u")

    def _apply(self, formula: Callable, y: Any, other: Any, name: str) -> np.ndarray:
        """Apply a formula to checked arrays; NaN gives NaN, also where a comparison hides it."""
        targets, numbers = self._targets(y), self._numbers(other, name)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            out = formula(targets, numbers)
            return np.where(np.isnan(targets) | np.isnan(numbers), np.nan, out)

    # -- the formulas -------------------------------------------------------------------------
    @abstractmethod
    def _value(self, y: np.ndarray, f: np.ndarray) -> np.ndarray: ...

    @abstractmethod
    def _gradient(self, y: np.ndarray, f: np.ndarray) -> np.ndarray: ...

    @abstractmethod
    def _conjugate(self, y: np.ndarray, u: np.ndarray) -> np.ndarray: ...

    def _curvature(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        """Return 0, as for a loss that is straight but for kinks."""
        return np.zeros(np.broadcast_shapes(y.shape, f.shape))

    def _targets(self, y: Any) -> np.ndarray:
        return self._numbers(y, "y")

    def _numbers(self, values: Any, name: str) -> np.ndarray:
        array = np.asarray(values)
        if array.dtype.kind not in "fiub":
            raise InvalidInput(
                f"{type(self).__name__}: {name} has dtype {array.dtype} where real numbers belong; "
                "give an array of them."
            )
        return array.astype(np.float64, copy=False)

    # -- parameters ---------------------------------------------------------------------------
    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name, those of the constructor.

        Parameters
        ----------
        deep : bool, default=True
            Of no effect; as in scikit-learn.
        """
        if type(self).__init__ is object.__init__:
            return {}
        arguments = list(inspect.signature(type(self).__init__).parameters)[1:]
        return {name: getattr(self, name) for name in arguments if hasattr(self, name)}

    def set_params(self, **params: Any) -> Self:
        """Set parameters, checked as by the constructor; all of them or none.

        Parameters
        ----------
        **params : dict
            New values by name.

        Returns
        -------
        Loss
            The loss itself.
        """
        own, name = self.get_params(), type(self).__name__
        unknown = sorted(set(params) - set(own))
        if unknown:
            known = ", ".join(map(repr, own)) or "none"
            raise InvalidInput(f"{name}: no parameter {unknown[0]!r}; there are: {known}.")
        if params:
            vars(self).update(vars(type(self)(**{**own, **params})))
        return self

    def __sklearn_clone__(self) -> Self:
        return copy.deepcopy(self)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in vars(self) and not name.startswith("_"):
            raise InvalidInput(
                f"{type(self).__name__}: a loss is a value, and {name} stays {vars(self)[name]!r}; "
                "make another loss, or call set_params."
            )
        super().__setattr__(name, value)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((type(self), tuple(sorted(self.__dict__.items()))))

    def __repr__(self) -> str:
        inside = ", ".join(f"{k}={v!r}" for k, v in self.__dict__.items())
        return f"{type(self).__name__}({inside})"
