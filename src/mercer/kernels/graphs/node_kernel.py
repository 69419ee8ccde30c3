"""What kernels on the nodes of one graph share: the graph, its matrix, and values of f(M)."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp

from mercer.domains import Graph, NodeCollection, Nodes
from mercer.domains.graphs.read import is_networkx
from mercer.errors import InvalidInput
from mercer.kernels.base import Kernel
from mercer.kernels.bound import Bound
from mercer.kernels.checks import check_number
from mercer.kernels.graphs.node_action import NodeMatrix, Scalar, laplacian_of
from mercer.settings import get_config

__all__ = ["NodeKernel", "as_graph"]

_matrices: WeakKeyDictionary[Graph, dict[Any, Any]] = WeakKeyDictionary()
_lock = threading.Lock()


class NodeKernel(Kernel):
    """A kernel K = f(M) on the nodes of a graph, M one of its symmetric matrices.

    An author writes ``_kind()``, which matrix; ``_value(x)``, f at eigenvalues x of M; and
    ``_slope(x)``, the derivative of f in the logarithm of the decay.
    """

    graph: Any
    decay: Any
    _tunable = ("decay",)
    _stiffest: float  # λ times the width of the spectrum, up to which a series of f is short enough
    characteristic = True  # f > 0, so K is strictly positive definite on finitely many points

    def _check_params(self) -> None:
        owner = type(self).__name__
        check_number(owner, "decay", self.decay, 0.0)
        self.graph = as_graph(self.graph, owner)
        names = self.graph._nodes
        domain = Nodes(self.graph.n_nodes if names is None else names)
        with _lock:
            self._domain = _matrices.setdefault(self.graph, {}).setdefault("nodes", domain)

    @property
    def domain(self) -> Nodes:  # type: ignore[override]
        """The nodes of the graph."""
        return self._domain

    def _kind(self) -> Any:
        """Return the matrix M: "adjacency" A, "laplacian" −L, or "normalized", −L normalised."""
        raise InvalidInput(f"{type(self).__name__}: define _kind().")

    def _value(self, x: np.ndarray) -> np.ndarray:
        raise InvalidInput(f"{type(self).__name__}: define _value(x).")

    def _slope(self, x: np.ndarray) -> np.ndarray:
        raise InvalidInput(f"{type(self).__name__}: define _slope(x).")

    def _highest(self, matrix: NodeMatrix) -> tuple[float, str]:
        """Return the largest decay that can be computed, and what to say of larger ones."""
        if matrix.dense:
            return np.inf, ""
        low, high = matrix.interval
        if high <= low:
            return np.inf, ""
        top = self._stiffest / (high - low)
        return top, (
            f"a graph of {matrix.n} nodes with eigenvalues from {low:.3g} to {high:.3g} takes too "
            f"many products with its matrix; use a decay below {top:.4g}, or smaller weights."
        )

    @property
    def bounds(self) -> np.ndarray:
        """Bounds of log decay, below what cannot be computed."""
        bounds = super().bounds
        bounds[:, 1] = np.minimum(bounds[:, 1], np.log(self._highest(self._held())[0]))
        bounds[:, 0] = np.minimum(bounds[:, 0], bounds[:, 1] - 1.0)
        return bounds

    def _matrix(self) -> NodeMatrix:
        """Return M, or refuse a decay that is too large for it."""
        matrix = self._held()
        top, why = self._highest(matrix)
        if float(self.decay) > top:
            raise InvalidInput(f"{self!r}: {why}")
        return matrix

    def _held(self) -> NodeMatrix:
        """Return M, whose eigenvectors are computed once for equal graphs that are alive."""
        kind = self._kind()
        with _lock:
            held = _matrices.setdefault(self.graph, {})
            if kind not in held:
                A, top = self.graph.adjacency, np.inf
                if kind != "adjacency":
                    top = np.inf if (self.graph.weights < 0).any() else 0.0
                    A = -laplacian_of(A, normalized=kind == "normalized")
                held[kind] = NodeMatrix(sp.csr_array(A), top)
            return held[kind]

    def _bind(self, X: Any, Y: Any = None) -> Bound:
        return NodeBound(self, X, Y)

    def _diag(self, X: NodeCollection) -> np.ndarray:
        return self._diagonal(self._value, X)

    def _pull_diag(self, X: NodeCollection, c: Any) -> np.ndarray:
        return np.array([float(np.asarray(c) @ self._diagonal(self._slope, X))])

    def _diagonal(self, f: Scalar, X: NodeCollection) -> np.ndarray:
        nodes, back = np.unique(self.domain.positions(X), return_inverse=True)
        return self._matrix().diagonal(f, nodes)[back]


class NodeBound(Bound):
    """Tiles of f(M), each pair of nodes computed once however often the nodes occur.

    Where all pairs of the nodes that occur take more than a part of the memory budget, the rows of
    a band of tiles are computed and kept until others need the place; a product K V then is one
    action of f(M) on as many columns as V has.
    """

    def __init__(self, kernel: NodeKernel, X: Any, Y: Any = None):
        super().__init__(kernel, X, Y)
        positions = kernel.domain.positions
        self._rows, self._i = np.unique(positions(X), return_inverse=True)
        self._cols, self._j = self._rows, self._i
        if Y is not None:
            self._cols, self._j = np.unique(positions(Y, "Y"), return_inverse=True)
        self._M = kernel._matrix()
        self._held: OrderedDict[Any, np.ndarray] = OrderedDict()
        self.threads = self._M.dense
        self.flagged = False

    def tile(self, rows: slice, cols: slice) -> np.ndarray:
        """Return f(M) on a tile."""
        return self._tile(self.kernel._value, rows, cols)

    def pull_theta(self, rows: slice, cols: slice, C: Any) -> np.ndarray:
        """Return Σ Cᵢⱼ ∂Kᵢⱼ/∂ log decay over a tile."""
        return np.array([float((C * self._tile(self.kernel._slope, rows, cols)).sum())])

    def _small(self) -> bool:
        pairs = 8 * len(self._rows) * len(self._cols)
        return self._M.dense or pairs <= get_config().memory // 8

    def _tile(self, f: Scalar, rows: slice, cols: slice) -> np.ndarray:
        if self._small():
            return self._all(f)[np.ix_(self._i[rows], self._j[cols])]
        key = (f.__name__, rows.start, rows.stop)
        nodes, back = np.unique(self._i[rows], return_inverse=True)
        if key not in self._held:
            strip = self._M.block(f, self._cols, self._rows[nodes]).T
            while self._held and (len(self._held) + 1) * strip.nbytes > get_config().memory // 8:
                self._held.popitem(last=False)
            self._held[key] = strip
        return self._held[key][np.ix_(back, self._j[cols])]

    def _all(self, f: Scalar) -> np.ndarray:
        key = f.__name__
        if key not in self._held:
            K = self._M.block(f, self._rows, self._cols)
            self._held[key] = 0.5 * (K + K.T) if self.symmetric else K
        return self._held[key]

    def product(self, V: np.ndarray) -> np.ndarray | None:
        """Return K V by one action of f(M), where the pairs of nodes are too many to keep."""
        if self._small():
            return None
        out = np.empty((self.shape[0], V.shape[1]))
        for part in self._M.parts(V.shape[1]):
            spread = np.zeros((self._M.n, part.stop - part.start))
            np.add.at(spread, self._cols[self._j], V[:, part])
            out[:, part] = self._M.act(self.kernel._value, spread)[self._rows[self._i]]
        return out


def as_graph(graph: Any, owner: str) -> Graph:
    """Return what a user has as an undirected `Graph`; a `Graph` is returned as it is.

    Parameters
    ----------
    graph : Graph, networkx graph, or symmetric matrix
        Nodes and weights; labels do not matter here.
    owner : str
        Whose graph it is, for messages.
    """
    if is_networkx(graph):
        if graph.is_directed():
            raise InvalidInput(
                f"{owner}: the graph is directed, and a kernel needs a symmetric matrix; use "
                "G.to_undirected()."
            )
        graph = Graph.from_networkx(graph, label=None, edge_label=None)
    elif isinstance(graph, np.ndarray | list) or sp.issparse(graph):
        try:
            graph = Graph(graph)
        except InvalidInput as error:
            text = str(error).removeprefix("Graph: ")
            raise InvalidInput(
                f"{owner}: {text} A kernel on nodes needs a symmetric matrix, such as "
                "(A + A.T) / 2."
            ) from None
    if not isinstance(graph, Graph):
        raise InvalidInput(
            f"{owner}: graph is a {type(graph).__name__}; give a mercer.Graph, a graph of "
            "networkx, or a symmetric matrix, dense or sparse."
        )
    if graph.directed:
        raise InvalidInput(
            f"{owner}: the graph is directed, and a kernel needs a symmetric matrix; use "
            "A = graph.adjacency and mercer.Graph(A + A.T)."
        )
    return graph
