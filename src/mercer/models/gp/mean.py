"""The explicit part of a mean function: basis functions 1 and x, whose coefficients are unknown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import qr

from mercer.domains import GramRows, Table
from mercer.engines.budget import require_memory
from mercer.errors import InvalidInput
from mercer.kernels import Kernel

__all__ = ["MEANS", "Basis"]

MEANS = ("zero", "constant", "linear")
# A column of which less than this is left beside the others depends on them but for rounding.
DEPENDENT = 1e-10


@dataclass(frozen=True)
class Basis:
    """Columns h(x) = (1, (x − center)/scale) with a flat prior on their coefficients.

    Rasmussen & Williams, section 2.7. Centred and scaled columns are a basis of the same functions,
    and far from collinear although x may be far from 0 in units of its spread.

    Attributes
    ----------
    center, scale : arrays of shape (d,), or None
        Of the columns of x; a scale of 0 marks a column that is not used, as it is constant or
        depends on others. None for the constant alone.
    """

    center: np.ndarray | None = None
    scale: np.ndarray | None = None

    @classmethod
    def of(
        cls, mean: Any, kernel: Kernel, X: Any, weights: np.ndarray | None, owner: str
    ) -> Basis | None:
        """Return the basis that the word `mean` means for these points; None for "zero"."""
        if mean not in MEANS or not isinstance(mean, str):
            raise InvalidInput(f"{owner}: mean={mean!r}; give 'zero', 'constant' or 'linear'.")
        if mean == "zero":
            return None
        if mean == "constant":
            return cls()
        numeric = isinstance(X, np.ndarray) or sp.issparse(X)
        if not numeric or X.ndim != 2 or isinstance(kernel.domain, GramRows):
            by = ", or choose columns by position: kernel.on([0])" if isinstance(X, Table) else ""
            raise InvalidInput(
                f"{owner}: mean='linear' needs points that are rows of numbers, not "
                f"{kernel.domain.name}; use mean='constant'{by}."
            )
        return cls._linear(_dense(X, owner), weights, owner)

    @classmethod
    def _linear(cls, X: np.ndarray, weights: np.ndarray | None, owner: str) -> Basis:
        size = np.abs(X).max(axis=0, initial=0.0)
        unit = np.where(size > 0, size, 1.0)
        V = X / unit
        center = np.average(V, axis=0, weights=weights)
        V -= center
        scale = np.sqrt(np.average(V**2, axis=0, weights=weights))
        varies = np.flatnonzero(scale > 1e-14)  # a spread of less is rounding of the entries
        V = V[:, varies] / scale[varies]
        w = 1.0 if weights is None else np.sqrt(weights / weights.max())[:, None]
        kept = _independent(w * V)
        if len(kept) < len(varies):
            distinct = len(np.unique(V, axis=0))
            if distinct < len(varies) + 1:
                raise InvalidInput(
                    f"{owner}: mean='linear' has {len(varies) + 1} coefficients, and X only "
                    f"{distinct} different rows; use mean='constant', or fewer columns."
                )
        used = np.zeros(X.shape[1])
        used[varies[kept]] = (scale * unit)[varies[kept]]
        return cls(center * unit, used)

    @property
    def size(self) -> int:
        """The number q of columns."""
        return 1 if self.scale is None else 1 + int(np.count_nonzero(self.scale))

    def log_volume(self) -> float:
        """Return log|det A| where h(x) = (1, x)A on the columns used: what the scales do to |H|."""
        if self.scale is None:
            return 0.0
        return -float(np.log(self.scale[self.scale > 0]).sum())

    def columns(self, X: Any, n: int) -> np.ndarray:
        """Return H of shape (n, q) for a canonical collection of n points."""
        out = np.ones((n, self.size))
        if self.scale is not None and self.center is not None:
            used = np.flatnonzero(self.scale)
            rows = X[:, used].toarray() if sp.issparse(X) else X[:, used]
            out[:, 1:] = (rows - self.center[used]) / self.scale[used]
        return out

    def in_columns_of_x(self, beta: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Return offsets (t,) and slopes (d, t) of β of shape (q, t): hᵀβ = offset + xᵀslopes."""
        if self.scale is None or self.center is None:
            return beta[0], None
        used = np.flatnonzero(self.scale)
        slopes = np.zeros((len(self.scale), beta.shape[1]))
        slopes[used] = beta[1:] / self.scale[used, None]
        return beta[0] - self.center @ slopes, slopes


def _independent(V: np.ndarray) -> np.ndarray:
    """Return the columns, of length one, that do not depend on those before them."""
    if not V.shape[1]:
        return np.zeros(0, dtype=int)
    # QR with column pivoting (LAPACK geqp3) tells whether any does.
    R = qr(V, mode="r", pivoting=True, check_finite=False)[0]
    d = np.abs(np.diagonal(R))
    if len(d) == V.shape[1] and d[-1] > DEPENDENT * d[0]:
        return np.arange(V.shape[1])
    # Gram and Schmidt, twice is enough (Giraud, Langou and Rozloznik 2005).
    Q = np.empty((V.shape[0], min(V.shape)))
    kept: list[int] = []
    for j in range(V.shape[1]):
        if len(kept) == Q.shape[1]:
            break
        q, v = Q[:, : len(kept)], V[:, j]
        size = np.linalg.norm(v)
        for _ in range(2):
            v = v - q @ (q.T @ v)
        left = np.linalg.norm(v)
        if left > DEPENDENT * size:
            Q[:, len(kept)] = v / left
            kept.append(j)
    return np.array(kept, dtype=int)


def _dense(X: Any, owner: str) -> np.ndarray:
    require_memory(
        32 * X.shape[0] * X.shape[1],
        f"{owner}: mean='linear' with {X.shape[1]} columns",
        "Use mean='constant'",
    )
    return X.toarray() if sp.issparse(X) else np.asarray(X, dtype=float)
