"""The preconditioner of conjugate gradients: low rank plus the ridge, from random pivots."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.engines.device.memory import free_on
from mercer.solvers.device_preconditioner import DevicePreconditioner
from mercer.solvers.pivot_rows import DeviceRows
from mercer.solvers.preconditioners import NystromPreconditioner, pivoted

__all__ = ["LowRankPreconditioner", "default_rank"]


class LowRankPreconditioner:
    """P = FᵀF + D for A + D, with F from the accelerated randomly pivoted Cholesky of A.

    With D = diag(α/w) pivots are drawn as of A with each row repeated as 1/D says, and F is cut
    where ‖D^(−½)(A − FᵀF)D^(−½)‖ ≤ 1 is certain from the trace: more would not pay.

    Parameters
    ----------
    A : Operator of shape (n, n)
        Symmetric positive semidefinite.
    ridge : float or ndarray of shape (n,), default=0.0
        D ≥ 0. Where it is 0, the mean of what F has left of the diagonal of A takes its place.
    rank : int or None, default=None
        Largest rank; None as in `ConjugateGradients`.
    random_state : int, RandomState or None, default=None
        Source of the pivots.
    """

    def __init__(
        self, A: Any, ridge: Any = 0.0, *, rank: int | None = None, random_state: Any = None
    ):
        n = A.shape[0]
        diagonal = np.asarray(A.diagonal(), dtype=np.float64)
        top = float(diagonal.max(initial=0.0)) + float(np.max(ridge, initial=0.0))
        self.scale = top if np.isfinite(top) and top > 0 else 1.0
        shift = np.asarray(ridge, dtype=np.float64) / self.scale
        trace = float((diagonal / self.scale).sum())
        counts = None
        enough = float(shift.min(initial=np.inf)) / trace if trace > 0 else 0.0
        if shift.ndim and (shift > 0).all():
            counts = shift.min() / shift  # the largest is 1
            weighted = float(counts @ (diagonal / self.scale))
            enough = float(shift.min()) / weighted if weighted > 0 else 0.0
        most = min(default_rank(n, getattr(A, "device", None)) if rank is None else rank, n)
        rows, pivots, error = pivoted(A, most, random_state, enough, counts)
        rest = max(error, np.finfo(np.float64).eps) * (trace / n)
        shift = np.where(shift > 0, shift, rest if rest > 0 else 1.0)
        there = isinstance(rows, DeviceRows)
        F = rows.F[: rows.size] if there else rows.table()
        F /= self.scale**0.5
        kind = DevicePreconditioner if there else NystromPreconditioner
        self._made = kind(F, shift if shift.ndim else float(shift))
        self.facts = {"rank": len(pivots), "trace_error": error}

    def solve(self, R: np.ndarray) -> np.ndarray:
        """Return P⁻¹ R.

        Parameters
        ----------
        R : ndarray of shape (n,) or (n, t)
            Right-hand sides.

        Returns
        -------
        ndarray
            Same shape as R.
        """
        return self._made.solve(R) / self.scale


def default_rank(n: int, device: Any = None) -> int:
    """Return the rank of a preconditioner: n/20 within 300 and 2000, a quarter of what is free.

    Parameters
    ----------
    n : int
        Rows of the matrix.
    device : torch.device or None, default=None
        Where it is made; None is main memory.
    """
    return min(max(min(n, 300), n // 20), 2000, max(1, free_on(device) // (32 * max(1, n))))
