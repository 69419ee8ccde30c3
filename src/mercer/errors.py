"""Every exception and warning of mercer: owner, what came, what is legal, one thing to try."""

from __future__ import annotations

from typing import Any

from numpy.linalg import LinAlgError
from sklearn.exceptions import ConvergenceWarning

__all__ = [
    "ClusterError",
    "InvalidInput",
    "MemoryBudgetExceeded",
    "MercerError",
    "ModelFileError",
    "NotAKernel",
    "NotConverged",
    "NotPositiveDefinite",
    "NotSeparable",
]


class MercerError(Exception):
    """Root of every exception raised by mercer."""


class InvalidInput(MercerError, ValueError):
    """Data or a parameter is outside what the callee accepts."""


class NotAKernel(InvalidInput):
    """A function is not a positive definite kernel.

    Attributes
    ----------
    counterexample : object or None
        Points xᵢ and coefficients a with Σᵢⱼ aᵢaⱼk(xᵢ, xⱼ) < 0, where one was found.
    """

    def __init__(self, message: str, counterexample: Any = None):
        super().__init__(message)
        self.counterexample = counterexample


class NotPositiveDefinite(MercerError, LinAlgError):
    """A matrix that had to be positive definite is not, in floating point.

    Attributes
    ----------
    smallest_eigenvalue : float or None
        The smallest eigenvalue of the matrix that was to be factorised.
    """

    def __init__(self, message: str, smallest_eigenvalue: float | None = None):
        super().__init__(message)
        self.smallest_eigenvalue = smallest_eigenvalue


class NotSeparable(MercerError, ValueError):
    """Two classes cannot be separated in feature space.

    Attributes
    ----------
    certificate : object or None
        A convex combination of each class; the two coincide in feature space (``exact``), or are
        too close for float64 to tell.
    """

    def __init__(self, message: str, certificate: Any = None):
        super().__init__(message)
        self.certificate = certificate


class MemoryBudgetExceeded(MercerError, MemoryError):
    """The work cannot be done inside the memory budget; raised before any work.

    Attributes
    ----------
    needed, allowed : int
        Bytes that the work needs and that ``mercer.config(memory=...)`` allows.
    """

    def __init__(self, message: str, needed: int = 0, allowed: int = 0):
        super().__init__(message)
        self.needed = int(needed)
        self.allowed = int(allowed)


class ModelFileError(MercerError, ValueError):
    """A model file is damaged, hostile, or not a model file."""


class ClusterError(MercerError, RuntimeError):
    """A cluster cannot do the work: no workers, no mercer on one of them, no scheduler any more."""


class NotConverged(ConvergenceWarning):
    """A solver stopped before its tolerance; the message names gap, tolerance and the knob."""


# An exception with its own arguments must be rebuilt from them when it crosses processes.
def _rebuild(cls: type, message: str, state: dict) -> Exception:
    error = cls(message)
    error.__dict__.update(state)
    return error


def _reduce(self: Exception):
    return _rebuild, (type(self), str(self), self.__dict__)


for _cls in (NotAKernel, NotPositiveDefinite, NotSeparable, MemoryBudgetExceeded):
    _cls.__reduce__ = _reduce  # type: ignore[method-assign, assignment]
