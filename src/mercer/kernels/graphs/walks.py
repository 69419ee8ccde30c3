"""Sums over the common walks of labelled or directed graphs, pair by pair of graphs."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.checks import check_parameter
from mercer.domains import GraphCollection, Graphs
from mercer.domains.graphs import sources_of
from mercer.errors import InvalidInput
from mercer.kernels.base import Kernel
from mercer.kernels.bound import Bound
from mercer.kernels.graphs.graphlet import LARGEST, PACE, negative_edge, pull_own
from mercer.lapack import heard
from mercer.memory import require_memory

# ---- Sums over walks of undirected graphs without labels, from the eigenvalues of each graph ----


TINY = 1e-26  # share of the nodes below which an eigenvector adds nothing to any sum


def adjacency(X: GraphCollection, g: int) -> np.ndarray:
    """Return the adjacency matrix of graph g, dense."""
    begin, end = X.node_offsets[g : g + 2]
    n = int(end - begin)
    require_memory(
        4 * 8 * n * n, f"RandomWalk: the eigenvalues of a graph of {n} nodes", "Use smaller graphs"
    )
    A = np.zeros((n, n))
    edges = slice(X.indptr[begin], X.indptr[end])
    A[sources_of(X.indptr[begin : end + 1]), X.indices[edges] - begin] = X.weights[edges]
    return A


def radii_of(X: GraphCollection) -> np.ndarray:
    """Return the largest absolute eigenvalue of each adjacency matrix, 0 without nodes."""
    values = np.linalg.eigvals if X.directed else np.linalg.eigvalsh
    spectra = (heard(values, adjacency(X, g)) for g in range(len(X)))
    return np.array([np.abs(spectrum).max(initial=0.0) for spectrum in spectra])


class Spectra:
    """For each graph the eigenvalues μ of A and the (uᵀ1)² of their eigenvectors u, packed.

    1ᵀf(A)1 = Σ (uᵀ1)² f(μ). Eigenvectors orthogonal to 1 are left out. The largest eigenvalue of a
    connected part has (uᵀ1)² ≥ 1, as its eigenvector does not change sign, so that what is left
    out is small beside it.
    """

    def __init__(self, X: GraphCollection):
        values, sizes, radii = [np.empty(0)], [np.empty(0)], np.zeros(len(X))
        for g in range(len(X)):
            mu, U = heard(np.linalg.eigh, adjacency(X, g))
            size = U.sum(axis=0) ** 2
            kept = size > TINY * len(mu)
            values.append(mu[kept])
            sizes.append(size[kept])
            radii[g] = np.abs(mu).max(initial=0.0)
        self.values, self.sizes, self.radii = np.concatenate(values), np.concatenate(sizes), radii
        self.offsets = np.cumsum([len(v) for v in values])

    def arrays(self, part: slice) -> tuple[Any, ...]:
        """Return what `spectral_sums` takes."""
        return self.values, self.sizes, self.offsets, part.start, part.stop


class SpectralBound(Bound):
    """Tiles Σ a b f(λμν) over two spectra, and their derivatives in log λ."""

    def __init__(self, kernel: Any, X: GraphCollection, Y: GraphCollection | None = None):
        super().__init__(kernel, X, Y)
        self._left = Spectra(X)
        kernel._check_radii(self._left.radii, "X")
        self._right = self._left
        if Y is not None:
            self._right = Spectra(Y)
            kernel._check_radii(self._right.radii, "Y")
        per = [max(1.0, len(s.values) / max(1, len(s.radii))) for s in (self._left, self._right)]
        self.tile_entries = max(1, int(PACE / (per[0] * per[1])))
        self.flagged = False

    def _both(self, rows: slice, cols: slice) -> tuple[np.ndarray, np.ndarray]:
        from mercer.jit import spectral_sums

        shape = (rows.stop - rows.start, cols.stop - cols.start)
        out, slopes = np.empty(shape), np.empty(shape)
        kernel = self.kernel
        spectral_sums(
            *self._left.arrays(rows), *self._right.arrays(cols),
            float(kernel.decay), kernel.kind == "geometric", out, slopes,
        )  # fmt: skip
        return out, slopes

    def tile(self, rows: slice, cols: slice) -> np.ndarray:
        """Return k on the given rows and columns."""
        return self._both(rows, cols)[0]

    def pull_theta(self, rows: slice, cols: slice, C: Any) -> np.ndarray:
        """Return Σ Cᵢⱼ ∂Kᵢⱼ/∂ log λ over a tile."""
        return np.array([float((C * self._both(rows, cols)[1]).sum())])


# ---- common walks ----


USUAL = 30  # products with A× that a pair of graphs takes, about
GOAL = 1e-13  # residual of conjugate gradients, relative to the solution
CERTIFIED = 1e-12  # the same, computed anew
ROUNDS = 6  # times that conjugate gradients start over from a residual computed anew
LAST = 1e-17  # term of a series, relative to the sum
MOST = 1_000_000  # products with A× before a series is given up


class Side:
    """One collection as the loops take it: edges of a node in the order of their labels."""

    def __init__(self, X: GraphCollection):
        self.indices, self.weights, self.edge_labels = X.indices, X.weights, X.edge_labels
        if X.edge_labelled:
            order = np.lexsort((X.edge_labels, X.sources))
            arrays = (self.indices, self.weights, self.edge_labels)
            self.indices, self.weights, self.edge_labels = (a[order] for a in arrays)
        self.labels, self.indptr, self.offsets = X.node_labels, X.indptr, X.node_offsets
        self.sizes = np.diff(self.offsets)
        self.arcs = np.diff(self.indptr[self.offsets])
        self.radii = radii_of(X)

    def arrays(self, g: int) -> tuple[Any, ...]:
        """Return what the loops take for graph g."""
        start = int(self.offsets[g])
        return self.labels, self.indptr, self.indices, self.weights, self.edge_labels, start

    def labels_of(self, g: int) -> np.ndarray:
        """Return the node labels of graph g."""
        return self.labels[self.offsets[g] : self.offsets[g + 1]]


class CommonBound(Bound):
    """Tiles of 1ᵀ(I − λA×)⁻¹1 or 1ᵀexp(λA×)1 on the product graph of like nodes."""

    def __init__(self, kernel: Any, X: GraphCollection, Y: GraphCollection | None = None):
        super().__init__(kernel, X, Y)
        self._left = Side(X)
        kernel._check_radii(self._left.radii, "X")
        self._right = self._left
        if Y is not None:
            self._right = Side(Y)
            kernel._check_radii(self._right.radii, "Y")
        a, b = self._left, self._right
        most = int(a.sizes.max(initial=0)) * int(b.sizes.max(initial=0))
        require_memory(
            6 * 8 * most, f"RandomWalk: two graphs with {most} pairs of nodes", "Use smaller graphs"
        )
        self._directed = X.directed or (Y is not None and Y.directed)
        means = [float(v.mean()) if len(v) else 0.0 for v in (a.sizes, a.arcs, b.sizes, b.arcs)]
        work = means[1] * means[2] + means[0] * means[3] + means[0] * means[2]
        self.tile_entries = max(1, int(PACE / (USUAL * max(1.0, work))))
        self.flagged = False

    def tile(self, rows: slice, cols: slice) -> np.ndarray:
        """Return k on the given rows and columns."""
        return self._both(rows, cols)[0]

    def pull_theta(self, rows: slice, cols: slice, C: Any) -> np.ndarray:
        """Return Σ Cᵢⱼ ∂Kᵢⱼ/∂ log λ over a tile."""
        return np.array([float((C * self._both(rows, cols)[1]).sum())])

    def _both(self, rows: slice, cols: slice) -> np.ndarray:
        """Return values and derivatives on a tile; a tile on the diagonal by halves."""
        out = np.empty((2, rows.stop - rows.start, cols.stop - cols.start))
        mirrored = self.symmetric and rows == cols
        for a in range(out.shape[1]):
            for b in range(a if mirrored else 0, out.shape[2]):
                out[:, a, b] = self._pair(rows.start + a, cols.start + b)
                if mirrored:
                    out[:, b, a] = out[:, a, b]
        return out

    def _pair(self, i: int, j: int) -> tuple[float, float]:
        """Return the value for two graphs and its derivative in log λ."""
        a, b = self._left, self._right
        p = (a.labels_of(i)[:, None] == b.labels_of(j)).astype(float)
        if not p.any():
            return 0.0, 0.0
        work = a.arcs[i] * b.sizes[j] + a.sizes[i] * b.arcs[j] + 4 * p.size
        steps = max(1, int(PACE / work))
        graphs = (*a.arrays(i), *b.arrays(j))
        if self.kernel.kind == "geometric" and not self._directed:
            return self._solved(graphs, p, steps)
        rate = float(self.kernel.decay * a.radii[i] * b.radii[j])
        return self._summed(graphs, p, steps, rate)

    def _solved(self, graphs: tuple, p: np.ndarray, steps: int) -> tuple[float, float]:
        """Return pᵀx and λxᵀA×x for the solution x of (I − λA×)x = p, A× symmetric.

        With a residual r the value pᵀx + xᵀr is wrong only by rᵀ(I − λA×)⁻¹r.
        """
        from mercer.jit import common_step, conjugate_steps

        decay = float(self.kernel.decay)
        x, r, q, row = np.zeros(p.shape), p, np.empty(p.shape), np.empty(p.shape[1])
        for _ in range(ROUNDS):
            r, d = r.copy(), r.copy()
            done, left = False, MOST
            while not done and left > 0:
                done = conjugate_steps(*graphs, decay, x, r, d, q, row, GOAL, steps)
                left -= steps
            common_step(*graphs, x, row, q)
            r = p - x + decay * q
            if (r * r).sum() <= CERTIFIED**2 * (x * x).sum():
                return float((p * x).sum() + (x * r).sum()), decay * float((x * q).sum())
        raise self._slow()

    def _summed(self, graphs: tuple, p: np.ndarray, steps: int, rate: float) -> tuple[float, float]:
        """Return Σ cₖλᵏ 1ᵀA×ᵏp and Σ k cₖλᵏ 1ᵀA×ᵏp, term by term."""
        from mercer.jit import series_steps

        geometric, decay = self.kernel.kind == "geometric", float(self.kernel.decay)
        x, q, row = p.copy(), np.empty(p.shape), np.empty(p.shape[1])
        sums = np.array([0.0, p.sum(), 0.0])
        goal = LAST * (1 - rate) if geometric else LAST  # the terms to come fall by this rate
        while sums[0] < MOST:
            if series_steps(*graphs, decay, geometric, x, q, row, sums, goal, steps):
                return float(sums[1]), float(sums[2])
        raise self._slow()

    def _slow(self) -> InvalidInput:
        return InvalidInput(
            f"{self.name}: the sum over walks converges too slowly on these graphs, as decay is "
            "next to its largest legal value; try half of it."
        )


# ---- `RandomWalk`: graphs compared by the walks they have in common ----


NEAR = 1e-8  # how near the largest decay the series is still summed


class RandomWalk(Kernel):
    r"""Walks that two graphs have in common, shorter ones weighing more.

    .. math:: k(G, G') = \sum_{l=0}^\infty c_l \lambda^l\, \mathbf{1}^\top A_\times^l \mathbf{1},
        \qquad c_l = 1 \text{ (geometric)} \quad\text{or}\quad c_l = 1/l! \text{ (exponential)}

    The nodes of the product graph A× are the pairs of nodes of one label; its edges are the pairs
    of edges of one label, and its weights the products of their weights. So a walk of l edges
    counts when it shows the same labels in both graphs. Without labels all pairs are alike. In
    directed graphs walks follow the arrows; a loop is an edge from a node to itself. A graph
    without nodes has the value 0.

    *Valid when* weights are not negative and, for geometric weights, λρ(A)² < 1 for every graph,
    where ρ(A) is the largest absolute eigenvalue of its adjacency matrix; other graphs are refused,
    also when they come later. Then the sum is the inner product of the walks of each sequence of
    labels, weighted by √(c_l λ^l), hence positive semidefinite.

    Parameters
    ----------
    decay : float or "auto", default="auto"
        The factor λ > 0 for each further edge. "auto" takes half of the largest legal decay of the
        training graphs, 1/(2 max ρ²), or 1/max ρ² for the exponential kind.
    kind : {"geometric", "exponential"}, default="geometric"
        The weights c_l. Exponential ones allow every decay.

    Notes
    -----
    Undirected graphs without labels take one eigendecomposition each, O(n³), and O(nm) for each
    pair of graphs of n and m nodes, exactly: 1ᵀA×ˡ1 = (1ᵀAˡ1)(1ᵀA′ˡ1). Other graphs take some
    dozens of products with A×, which is not stored, O(n·edges′ + m·edges) each. Conjugate gradients
    stop at a residual of 10⁻¹² of the solution, computed anew; series at the last digit. The
    derivative in the decay is exact. A search that tunes the decay wants
    ``bounds={"decay": (low, high)}`` with a legal ``high``.

    GraKeL's ``RandomWalk`` has the same values; its ``RandomWalkLabeled`` adds the number of
    pairs of nodes with different labels, as it counts these as walks without edges, and has these
    values with ``method_type="baseline"``; its "fast" method is less exact.

    Examples
    --------
    >>> from mercer import Graph, RandomWalk
    >>> path = Graph(edges=[(0, 1), (1, 2)])
    >>> ring = Graph(edges=[(0, 1), (1, 2), (2, 0)])
    >>> RandomWalk(0.1)([path, ring]).round(3)
    array([[11.042, 12.391],
           [12.391, 15.   ]])
    >>> RandomWalk(0.3)([path, ring])
    Traceback (most recent call last):
    mercer.errors.InvalidInput: RandomWalk: decay=0.3, and graph 1 of X has the largest ...
    """

    domain = Graphs()
    _tunable = ("decay",)

    def __init__(self, decay: float | str = "auto", kind: str = "geometric"):
        super().__init__(decay=decay, kind=kind)

    def _check_params(self) -> None:
        if isinstance(self.decay, str):
            if self.decay != "auto":
                raise InvalidInput(
                    f"RandomWalk: decay={self.decay!r}; give a number > 0 or 'auto'."
                )
        else:
            check_parameter("decay", self.decay, 0)
        if self.kind not in ("geometric", "exponential"):
            raise InvalidInput(
                f"RandomWalk: kind={self.kind!r}; legal are 'geometric' and 'exponential'."
            )

    def _resolve(self, X: GraphCollection, sample_weight: Any) -> dict[str, Any]:
        _check_weights(X, "X")
        rho = float(radii_of(X).max(initial=0.0))
        top = 1 / rho**2 if rho > 0 else 1.0
        return {"decay": top / 2 if self.kind == "geometric" else top}

    def _bind(self, X: GraphCollection, Y: GraphCollection | None = None) -> Bound:
        both = (X,) if Y is None else (X, Y)
        for name, Z in zip("XY", both, strict=False):
            _check_weights(Z, name)
        plain = not any(Z.labelled or Z.edge_labelled or Z.directed for Z in both)
        return (SpectralBound if plain else CommonBound)(self, X, Y)

    def _pull_diag(self, X: GraphCollection, c: Any) -> np.ndarray:
        return pull_own(self._bind(X), c)

    def _check_radii(self, radii: np.ndarray, name: str) -> None:
        """Refuse graphs on which the series does not converge, or leaves double precision."""
        if not len(radii):
            return
        i = int(np.argmax(radii))
        square, decay = float(radii[i]) ** 2, float(self.decay)
        held = f"RandomWalk: decay={decay:g}, and graph {i} of {name} has the largest eigenvalue "
        if self.kind == "geometric" and decay * square >= 1 - NEAR:
            raise InvalidInput(
                f"{held}{radii[i]:.5g}: the sum over walks converges only for "
                f"decay < {1 / square:.5g}. Try decay={0.5 / square:.2g}, "
                "fewer or lighter edges, or kind='exponential'; a search over the decay takes "
                "bounds={'decay': (low, high)}."
            )
        if decay * square > LARGEST:
            raise InvalidInput(
                f"{held}{radii[i]:.5g}: exp(decay · {square:.5g}) is beyond double precision. "
                f"Try decay={1 / square:.2g}."
            )


def _check_weights(X: GraphCollection, name: str) -> None:
    """Refuse negative weights: a product of them along a walk is no number of walks."""
    negative = negative_edge(X)
    if negative is not None:
        raise InvalidInput(
            f"RandomWalk: graph {negative[0]} of {name} has an edge of weight {negative[1]:g}; "
            "weights must be ≥ 0. Take their absolute values or squares, or leave these edges out."
        )
