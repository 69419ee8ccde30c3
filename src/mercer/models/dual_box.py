"""Rows of a Gram matrix and the box problem with a tube, for all that is fitted in the dual."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from mercer.errors import NotPositiveDefinite
from mercer.kernels import Kernel
from mercer.kernels.parameters import check_diagonal
from mercer.models.definite import JUDGED, check_definite
from mercer.models.ridge_data import unproven
from mercer.operators import Dense, Gram
from mercer.settings import get_config
from mercer.solvers import BoxQP, Rows

__all__ = ["gram_rows", "in_name_of", "joined", "split", "tube_problem"]

OFTEN = 12_000  # rows up to which a matrix that serves many problems is kept in float64


def gram_rows(kernel: Kernel, X: Any, owner: str, often: bool = False) -> Rows:
    """Return the rows of a Gram matrix, which several problems may share.

    A matrix that only the user vouches for is tested where it is small enough.

    Parameters
    ----------
    kernel : Kernel
        With words resolved.
    X : collection
        The points; for a precomputed kernel the square matrix of kernel values.
    owner : str
        Who asks; messages begin with it.
    often : bool, default=False
        Whether many problems in turn will use the rows. They are kept in float64 then, where that
        fits, and no certificate needs the kernel again.
    """
    K: Any = Gram(kernel, X, keep=False)
    n = K.shape[0]
    often = often and n <= OFTEN and 4 * K.nbytes < get_config().memory
    if unproven(kernel) and n <= JUDGED and 2 * K.nbytes < get_config().memory:
        matrix = np.asarray(K.to_dense(), dtype=float)
        check_definite(kernel, matrix, owner)
        K = Dense(matrix, symmetric=True)
    with np.errstate(over="ignore", invalid="ignore"):
        rows = Rows(K, single=not often)
        check_diagonal(kernel, rows.diagonal)
        if often:
            rows.fill()
    return rows


@contextmanager
def in_name_of(owner: str) -> Iterator[None]:
    """Let errors of the solver speak in the name of a model."""
    try:
        yield
    except NotPositiveDefinite as error:
        text = str(error).removeprefix("SMO: ")
        raise NotPositiveDefinite(f"{owner}: {text}", error.smallest_eigenvalue) from None


def tube_problem(
    rows: Any, y: np.ndarray, lower: np.ndarray, upper: np.ndarray, epsilon: float, offset: bool
) -> BoxQP:
    """Return the problem min ½aᵀKa − yᵀa + ε Σ|aᵢ| over a box around 0, with Σaᵢ = 0 for an offset.

    Where ε > 0 a point has two variables, a = rise + fall with rise ≥ 0 ≥ fall. K is that of the
    rows.
    """
    totals = (0.0,) if offset else ()
    if epsilon == 0:
        return BoxQP(rows.K, -y, lower, upper, totals)
    none, both = np.zeros(len(y)), np.tile(np.arange(len(y)), 2)
    p = np.concatenate([epsilon - y, -epsilon - y])
    low, high = np.concatenate([none, lower]), np.concatenate([upper, none])
    return BoxQP(rows.K, p, low, high, totals, index=both)


def split(a: Any, epsilon: float) -> Any:
    """Return the variables of a tube problem that stand for coefficients a (None for None)."""
    if a is None or epsilon == 0:
        return a
    return np.concatenate([np.maximum(a, 0.0), np.minimum(a, 0.0)])


def joined(variables: np.ndarray, epsilon: float) -> np.ndarray:
    """Return the coefficients that the variables of a tube problem stand for."""
    return variables if epsilon == 0 else np.sum(np.split(variables, 2), axis=0)
