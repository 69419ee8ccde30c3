"""`SetKernel`: the mean map, which compares bags of points by the kernel of their points."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains import BagCollection, Bags, Domain, GramRows
from mercer.engines import own_means, pull_means, pull_own, run_means, tile_entries
from mercer.errors import InvalidInput
from mercer.kernels.algebra import Combination
from mercer.kernels.base import Kernel
from mercer.kernels.bound import Bound, CombinedBound
from mercer.kernels.counted import Counted, Counts
from mercer.kernels.user import ExplicitBound
from mercer.settings import get_config


class SetBound(CombinedBound):
    """Means of the tiles of the kernel of the points."""

    def __init__(self, kernel: SetKernel, X: BagCollection, Y: BagCollection | None = None):
        super().__init__(kernel, X, Y)
        self._ends = X.offsets, X.offsets if Y is None else Y.offsets
        self.tile_entries = tile_entries(self.parts[0], *self._ends)

    def tile(self, rows: slice, cols: slice) -> Any:
        """Return the means over bags × bags."""
        return self.narrow(run_means(self.parts[0], rows, cols, *self._ends))

    def pull_theta(self, rows: slice, cols: slice, C: Any) -> Any:
        """Return Σ Cᵢⱼ ∂Kᵢⱼ/∂θ over a tile: each pair of points has its share of Cᵢⱼ."""
        return pull_means(self.parts[0], rows, cols, *self._ends, C)

    def pull_points(self, rows: slice, cols: slice, C: Any) -> Any:
        """Refuse."""
        raise InvalidInput(f"{self.name}: it has no gradient in x, since x is a bag of points.")


def averaged(counts: Counts, X: BagCollection) -> Counts:
    """Return the counts of the points of bags as mean counts of the bags."""
    bag = np.repeat(np.arange(len(X)), X.sizes)[counts.rows]
    share = (1.0 / np.maximum(X.sizes, 1))[bag]
    values = share if counts.values is None else share * counts.values
    return Counts(len(X), bag, counts.codes, values)


class AveragedCounts(Counted):
    """Counts of the points averaged over bags: the mean map of a kernel that counts."""

    def __init__(self, kernel: Counted):
        super().__init__(kernel=kernel)

    @property
    def domain(self) -> Domain:  # type: ignore[override]
        """Bags of the points that are counted in."""
        return Bags(self.kernel.domain)

    def _parts(self, X: BagCollection) -> Iterator[Counts]:
        return (averaged(counts, X) for counts in self.kernel._parts(X.points))

    def __repr__(self) -> str:
        return f"SetKernel(kernel={self.kernel!r})"


class SetKernel(Combination):
    r"""The kernel between bags of points k(A, B) = 1/(|A||B|) Σ_{a∈A} Σ_{b∈B} κ(a, b).

    It compares bags by their mean maps, μ_A = 1/\|A\| Σ_{a∈A} φ(a): whatever the kernel κ sees of
    the distribution of the points, and nothing of their order or number. The empty bag has the
    mean map 0. ``SetKernel(k).normalized()`` is the cosine of the angle between mean maps.

    *Valid when* always, as κ is a kernel: k(A, B) = ⟨μ_A, μ_B⟩ is an inner product.

    Costs the kernel values of all pairs of points, in tiles inside the memory budget. Where κ
    counts parts or has few features, bags are averaged first and a value costs one inner product.

    Parameters
    ----------
    kernel : Kernel
        The kernel κ of the points; words such as ``"median"`` are resolved on the points of all
        bags.

    See Also
    --------
    mercer.statistics.mmd : The distance of two mean maps.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RBF, SetKernel
    >>> bags = [np.array([[0.0], [1.0]]), np.array([[0.0]]), np.empty((0, 1))]
    >>> SetKernel(RBF())(bags).round(3)
    array([[0.803, 0.803, 0.   ],
           [0.803, 1.   , 0.   ],
           [0.   , 0.   , 0.   ]])
    """

    _parts = ("kernel",)
    _bound = SetBound
    _pointwise = False
    _grouped = True

    def __init__(self, kernel: Kernel):
        super().__init__(kernel=kernel)

    def _check_params(self) -> None:
        super()._check_params()
        if isinstance(self.kernel.domain, GramRows):
            raise InvalidInput(
                "SetKernel: a precomputed kernel has no points to put into bags; average the rows "
                "and columns of the matrix instead."
            )

    @property
    def domain(self) -> Domain:  # type: ignore[override]
        """Bags of the points of κ."""
        return Bags(self.kernel.domain)

    def _route(self, X: BagCollection) -> Any:
        return X.points

    def _bind(self, X: Any, Y: Any = None) -> Bound:
        if self._is_counted():
            return AveragedCounts(self.kernel)._bind(X, Y)
        return (ExplicitBound if self._averages(X, Y) else SetBound)(self, X, Y)  # type: ignore[arg-type]

    def _is_counted(self) -> bool:
        return isinstance(self.kernel, Counted) and not len(self.theta)

    def _averages(self, X: BagCollection, Y: BagCollection | None) -> bool:
        """Whether the inner product of two averages costs less than the values of the points."""
        D = None if len(self.theta) else self._n_features(X)
        if D is None:
            return False
        sides = [X, X if Y is None else Y]
        points = [int(Z.offsets[-1]) for Z in sides]
        pairs = points[0] * points[1] / max(1, len(sides[0]) * len(sides[1]))
        return D <= pairs and 8 * D * sum(points) <= get_config().memory // 4

    def _diag(self, X: BagCollection) -> Any:
        if self._is_counted():
            return AveragedCounts(self.kernel)._diag(X)
        if not self._averages(X, None):
            bound = SetBound(self, X)
            return bound.narrow(own_means(bound.parts[0], X.offsets))
        phi = self._features(X)
        squares = phi.multiply(phi).sum(1) if sp.issparse(phi) else (phi * phi).sum(1)
        return np.asarray(squares).reshape(-1)

    def _pull_diag(self, X: BagCollection, c: Any) -> Any:
        if not len(self.theta):
            return np.zeros(0)
        return pull_own(self.kernel._bind(X.points), X.offsets, np.asarray(c, dtype=float))

    def _n_features(self, X: BagCollection) -> int | None:
        return self.kernel._n_features(X.points)

    def _features(self, X: BagCollection) -> Any:
        phi = self.kernel._features(X.points)
        share = np.repeat(1.0 / np.maximum(X.sizes, 1), X.sizes).astype(phi.dtype)
        average = sp.csr_array((share, np.arange(len(share)), X.offsets), (len(X), len(share)))
        return average @ phi
