"""What `check_kernel` answers: a verdict, and points that show the fault."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from mercer.errors import NotAKernel

__all__ = ["Counterexample", "KernelReport"]


@dataclass(frozen=True, eq=False)
class Counterexample:
    """Points on which a function fails to be a kernel.

    Attributes
    ----------
    points : list
        The points xᵢ, as they were given.
    indices : array of int
        Their positions in the collection.
    matrix : array of shape (m, m)
        The values k(xᵢ, xⱼ), computed anew for these points.
    coefficients : array of shape (m,) or None
        A vector a of length 1 with aᵀKa < 0; None when k is not symmetric.
    value : float or None
        Σᵢⱼ aᵢaⱼk(xᵢ, xⱼ), correctly rounded from the matrix; None when k is not symmetric.
    """

    points: list
    indices: np.ndarray
    matrix: np.ndarray
    coefficients: np.ndarray | None = None
    value: float | None = None

    def __len__(self) -> int:
        return len(self.points)

    def __str__(self) -> str:
        shown = [_show(point) for point in self.points]
        if self.coefficients is None:
            x, y = shown
            return (
                "counterexample: two values that should be equal\n"
                f"    x = {x},  y = {y}\n"
                f"    k(x, y) = {self.matrix[0, 1]:.10g}\n"
                f"    k(y, x) = {self.matrix[1, 0]:.10g}"
            )
        lines = [
            f"counterexample: {len(self)} point{'s' * (len(self) > 1)} xᵢ and coefficients aᵢ with "
            f"Σᵢⱼ aᵢaⱼk(xᵢ, xⱼ) = {self.value:.6g} < 0"
        ]
        for a, point in zip(self.coefficients, shown, strict=True):
            lines.append(f"    a = {a:+.8f}   x = {point}")
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class KernelReport:
    """What `check_kernel` found; true in a condition when no fault was found.

    Attributes
    ----------
    valid : bool
        Whether k is symmetric and positive semidefinite on the points, up to rounding.
    symmetric : bool
        Whether k(x, y) = k(y, x).
    smallest_eigenvalue : float
        Of the Gram matrix (of its symmetric part); slightly negative from rounding when valid.
    counterexample : Counterexample or None
        Points that show the fault.
    n_points : int
        How many points were looked at.
    message : str
        The verdict in a sentence.
    """

    valid: bool
    symmetric: bool
    smallest_eigenvalue: float
    counterexample: Counterexample | None
    n_points: int
    message: str

    def __bool__(self) -> bool:
        return self.valid

    def __str__(self) -> str:
        lines = [
            self.message,
            f"  points              {self.n_points}",
            f"  symmetric           {'yes' if self.symmetric else 'no'}",
            f"  smallest eigenvalue {self.smallest_eigenvalue:.6g}",
        ]
        if self.counterexample is not None:
            lines += ["  " + line for line in str(self.counterexample).splitlines()]
        return "\n".join(lines)

    def raise_if_invalid(self) -> Self:
        """Raise `NotAKernel`, which carries the counterexample; return the report when valid."""
        if not self.valid:
            raise NotAKernel(f"{self.message}\n{self.counterexample}", self.counterexample)
        return self


def _show(point: Any) -> str:
    if isinstance(point, np.generic):
        point = point.item()
    if isinstance(point, np.ndarray):
        return np.array2string(point, separator=", ", threshold=8, edgeitems=3, max_line_width=80)
    text = repr(point)
    return text if len(text) <= 80 else text[:77] + "…"
