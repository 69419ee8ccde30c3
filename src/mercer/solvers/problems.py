"""The problems that solvers solve: frozen dataclasses whose docstring is the mathematics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.errors import InvalidInput
from mercer.operators import Dense, Operator
from mercer.solvers.checks import (
    check_index,
    check_rhs,
    check_ridge,
    check_square,
    require_definite,
)

__all__ = ["Eigen", "Linear"]


@dataclass(frozen=True, eq=False)
class Linear:
    """Symmetric positive definite linear system, one or many right-hand sides.

    Find x with

        (A + D) x = b,   D = ridge·I  or  D = diag(ridge),

    A symmetric and positive semidefinite, ridge ≥ 0. The certificate of a solution is its
    relative residual, the largest over the columns of ‖(A + D)x − b‖ / ‖b‖ (0 where b = 0).
    With A = K and ridge = λ this is kernel ridge regression; with sample weights w, A = K and
    ridge = λ/w.

    Parameters
    ----------
    A : Operator or ndarray of shape (n, n)
        Symmetric positive semidefinite.
    b : ndarray of shape (n,) or (n, t)
        Right-hand sides, one a column.
    ridge : float or ndarray of shape (n,), default=0.0
        What is added to the diagonal of A.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.solvers import Cholesky, Linear
    >>> Cholesky().solve(Linear(np.eye(2), [2.0, 4.0], ridge=1.0)).value
    array([1., 2.])
    """

    A: Any
    b: Any
    ridge: Any = 0.0

    def checked(self, owner: str) -> tuple[Operator, np.ndarray, float | np.ndarray]:
        """Return (operator, b, ridge) in canonical form, or raise `InvalidInput`.

        Parameters
        ----------
        owner : str
            Who asks; the messages begin with it.

        Returns
        -------
        tuple
            The operator A, b in float64 with its own number of axes, ridge as float or vector.
        """
        A, n = checked_matrix(self.A, owner)
        return A, check_rhs(self.b, n, owner), check_ridge(self.ridge, n, owner)


@dataclass(frozen=True, eq=False)
class Eigen:
    """Largest eigenvalues of a symmetric matrix, with orthonormal eigenvectors.

    Find λ₁ ≥ … ≥ λₖ and V of shape (n, k) with

        A V = V diag(λ),   VᵀV = I,

    λ₁, …, λₖ the k largest eigenvalues of A. The certificate of a solution is the largest of
    ‖A vᵢ − λᵢ vᵢ‖ / max|λ|: within that distance of every λᵢ, relative to the largest, A has a
    true eigenvalue.

    Parameters
    ----------
    A : Operator or ndarray of shape (n, n)
        Symmetric; an iterative solver needs it positive semidefinite as well.
    k : int or None, default=None
        How many pairs; None means all n.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.solvers import DenseEigen, Eigen
    >>> DenseEigen().solve(Eigen(np.diag([1.0, 3.0, 2.0]), k=2)).value.values
    array([3., 2.])
    """

    A: Any
    k: int | None = None

    def checked(self, owner: str) -> tuple[Operator, int]:
        """Return (operator, k) in canonical form, or raise `InvalidInput`.

        Parameters
        ----------
        owner : str
            Who asks; the messages begin with it.

        Returns
        -------
        tuple
            The operator A and the number of pairs wanted.
        """
        A, n = checked_matrix(self.A, owner, definite=False)
        return A, n if self.k is None else check_index(self.k, "k", owner, min(1, n), n)


def checked_matrix(A: Any, owner: str, *, definite: bool = True) -> tuple[Operator, int]:
    """Wrap an array without a look at its entries; a solver that reads them all checks them.

    Where it must be positive semidefinite, the Gram matrix of what is no kernel is refused.
    """
    if isinstance(A, Operator):
        if definite:
            require_definite(A, owner)
        n = check_square(A, owner)
        if not A.symmetric and not isinstance(A, Dense):
            raise InvalidInput(
                f"{owner}: the operator {A!r} is not symmetric; a Gram matrix of one collection is."
            )
        return A, n
    A = np.asarray(A)
    n = check_square(A, owner)
    return Dense(A, symmetric=True), n
