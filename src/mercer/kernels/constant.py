"""Kernels that do not look at the points: a constant, white noise, and values that are given."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.checks import check_parameter
from mercer.domains import GramRows, Objects, is_torch
from mercer.errors import InvalidInput
from mercer.kernels.base import Kernel
from mercer.kernels.bound import Bound
from mercer.kernels.few import FewPoints
from mercer.kernels.geometry import Geometry, no_gap
from mercer.kernels.spectral import Atom


class Constant(Kernel):
    r"""Constant kernel k(x, x′) = c.

    *Valid when* c ≥ 0. ``2.0 * k`` and ``k + 2.0`` are built with it. One feature, √c.

    Parameters
    ----------
    value : float, default=1.0
        The constant c.

    Examples
    --------
    >>> from mercer import Constant
    >>> Constant(3.0)([[0.0], [1.0]])
    array([[3., 3.],
           [3., 3.]])
    """

    domain = Objects()
    _indifferent = True
    _tunable = ("value",)

    def __init__(self, value: float = 1.0):
        super().__init__(value=value)

    def _check_params(self) -> None:
        check_parameter("value", self.value, 0.0, open=False)

    def _bind(self, X: Any, Y: Any = None) -> Bound:
        return ConstantBound(self, X, Y)

    def _of_pairs(self, pairs: FewPoints) -> float:
        return float(self.value)

    def _diag(self, X: Any) -> Any:
        return _filled(Bound(self, X), self.value)

    def _geometry(self) -> Geometry:
        return Geometry(None, lambda X: X, 1.0, no_gap, float(self.value))

    def _spectral(self, columns: list) -> Atom:
        return Atom(self.value, len(columns))

    def _pull_diag(self, X: Any, c: Any) -> Any:
        return np.array([float(self.value * c.sum())]) if self.value > 0 else np.zeros(0)

    def _features(self, X: Any) -> Any:
        return _filled(Bound(self, X), self.value**0.5)[:, None]

    def _n_features(self, X: Any) -> int | None:
        return 1


class ConstantBound(Bound):
    """Tiles of one number."""

    def tile(self, rows: slice, cols: slice) -> Any:
        """Return c on a tile."""
        return self.ones((rows.stop - rows.start, cols.stop - cols.start)) * self.kernel.value

    def pull_theta(self, rows: slice, cols: slice, C: Any) -> Any:
        """Return c Σ Cᵢⱼ."""
        if not self.kernel._own():
            return self.zeros((0,), wide=True)
        return (self.kernel.value * C.sum()).reshape(1)

    def pull_points(self, rows: slice, cols: slice, C: Any) -> Any:
        """Return zeros: a constant has no slope."""
        return self.zeros((rows.stop - rows.start, 1))


class White(Kernel):
    r"""White noise: v where a point meets itself, else 0.

    k(X) = v·I, and k(X, Y) = 0 for other points Y, even if their values coincide: noise belongs to
    the observation, not to its coordinates.

    *Valid when* v ≥ 0.

    Parameters
    ----------
    noise : float, default=1.0
        The variance v.

    Examples
    --------
    >>> from mercer import White
    >>> White(0.5)([[0.0], [0.0]])
    array([[0.5, 0. ],
           [0. , 0.5]])
    """

    domain = Objects()
    _indifferent = True
    _tunable = ("noise",)

    def __init__(self, noise: float = 1.0):
        super().__init__(noise=noise)

    def _check_params(self) -> None:
        check_parameter("noise", self.noise, 0.0, open=False)

    def _bind(self, X: Any, Y: Any = None) -> Bound:
        return WhiteBound(self, X, Y)

    def _of_pairs(self, pairs: FewPoints) -> np.ndarray:
        return pairs.diagonal(float(self.noise))

    def _diag(self, X: Any) -> Any:
        return _filled(Bound(self, X), self.noise)

    def _geometry(self) -> Geometry:
        v = float(self.noise)  # two observations are never the same one
        return Geometry(None, lambda X: X, 1.0, lambda s: np.full_like(s, 2 * v), v)

    def _pull_diag(self, X: Any, c: Any) -> Any:
        return np.array([float(self.noise * c.sum())]) if self.noise > 0 else np.zeros(0)


class WhiteBound(Bound):
    """Tiles of v·I."""

    def tile(self, rows: slice, cols: slice) -> Any:
        """Return v on the diagonal of a tile."""
        out = self.zeros((rows.stop - rows.start, cols.stop - cols.start))
        diagonal = self.on_diagonal(rows, cols)
        if diagonal is not None:
            out[diagonal] = self.kernel.noise
        return out

    def pull_theta(self, rows: slice, cols: slice, C: Any) -> Any:
        """Return v Σᵢ Cᵢᵢ."""
        if not self.kernel._own():
            return self.zeros((0,), wide=True)
        return (C * self.tile(rows, cols)).sum().reshape(1)

    def pull_points(self, rows: slice, cols: slice, C: Any) -> Any:
        """Return zeros: almost everywhere the noise kernel is 0."""
        return self.zeros((rows.stop - rows.start, 1))


def has_white(kernel: Kernel) -> bool:
    """Whether a kernel holds white noise, which belongs to a row and to no other point.

    k(Z, Z) of some rows Z has it and k(X, Z) has it not, so that methods that look at the rows
    through some of them would mix two kernels.
    """
    return isinstance(kernel, White) or any(map(has_white, kernel._kernels()))


def _filled(bound: Bound, value: float) -> Any:
    return bound.ones((bound.shape[0],)) * value


# ---- A kernel known only through its Gram matrix ----


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
