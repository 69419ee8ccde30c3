"""A kernel known only through its Gram matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.domains import GramRows, is_torch
from mercer.errors import InvalidInput
from mercer.kernels.base import Kernel
from mercer.kernels.bound import Bound


class Precomputed(Kernel):
    r"""The matrix is given: X itself holds the kernel values.

    For training X is the square Gram matrix k(xᵢ, xⱼ); for new points it is the matrix of k(new
    point, training point), one row for each new point. A fitted model remembers training points by
    position only.

    *Valid when* the matrix is symmetric positive semidefinite; symmetry and the diagonal are
    checked at once, definiteness by the solver that factorises it, or by `mercer.check_kernel`.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Precomputed
    >>> Precomputed()(np.eye(2))
    array([[1., 0.],
           [0., 1.]])
    """

    domain = GramRows()
    _proven = False

    def __init__(self) -> None:
        super().__init__()

    def _checked(self, X: Any, Y: Any) -> tuple[Any, Any]:
        same = Y is None or Y is X
        X = self.domain.check(X, "X")
        if X.ndim == 1:
            raise InvalidInput(
                "Precomputed: X holds positions of training points, but their kernel values are "
                "not kept; pass rows of kernel values."
            )
        if same:
            return self.domain.check_square(X), None  # type: ignore[attr-defined]
        Y = self.domain.check(Y, "Y")
        if Y.ndim == 2:
            Y = np.arange(Y.shape[0])
        if Y.size and int(Y.min()) < 0:
            raise InvalidInput(
                f"Precomputed: Y holds the position {int(Y.min())}; training points are counted "
                "from 0."
            )
        if Y.size and X.shape[1] <= int(Y.max()):
            raise InvalidInput(
                f"Precomputed: X has {X.shape[1]} features, but the kernel values with "
                f"{int(Y.max()) + 1} training points are expected as input: one column each."
            )
        return X, Y

    def _bind(self, X: Any, Y: Any = None) -> Bound:
        return PrecomputedBound(self, X, Y)

    def _diag(self, X: Any) -> Any:
        d = self.domain.check_square(X).diagonal()  # type: ignore[attr-defined]
        return d.clone() if is_torch(d) else d.copy()


class PrecomputedBound(Bound):
    """Tiles cut from the given matrix."""

    def __init__(self, kernel: Precomputed, X: Any, Y: Any = None):
        super().__init__(kernel, X, Y)
        self._K = X
        self._columns = Y

    def tile(self, rows: slice, cols: slice) -> Any:
        """Return a part of the matrix."""
        if self._columns is None:
            return self._K[rows, cols]
        return self._K[rows][:, self._columns[cols]]
