"""Functions f(M) of a symmetric matrix M of a graph: by eigenvectors, or acting on columns."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp

from mercer.checks import check_parameter
from mercer.domains import Graph, NodeCollection, Nodes
from mercer.domains.graphs import is_networkx
from mercer.errors import InvalidInput, who
from mercer.kernels.base import Kernel
from mercer.kernels.bound import Bound
from mercer.kernels.graphs.graphlet import LARGEST
from mercer.lapack import heard
from mercer.memory import require_memory, row_blocks
from mercer.settings import get_config

# ---- Chebyshev moments of a matrix on some nodes: every function of it there is a sum of them ----


class NodeMoments:
    """Tₖ(S)ᵢⱼ for the pairs of some nodes, k = 0, 1, …, as many as were asked for so far.

    f(M) on these nodes is Σₖ cₖ Tₖ(S), where only the cₖ depend on f. So a search over the decay of
    a kernel multiplies by S as often as the longest series needs, not once for each decay.

    Parameters
    ----------
    S : csr_array
        A symmetric matrix with its spectrum in [−1, 1].
    nodes : ndarray of int64
        The rows and columns that are wanted.
    parts : list of slice
        Which of the columns are multiplied by S at once.
    """

    def __init__(self, S: sp.csr_array, nodes: np.ndarray, parts: list[slice]):
        self._S, self._nodes, self._parts = S, nodes, parts
        self._terms = [(nodes[:, None] == nodes).astype(float)]
        self._pairs: list[tuple[np.ndarray, np.ndarray]] = []  # Tₖ₋₁ and Tₖ on all rows

    @staticmethod
    def size(n: int, m: int, terms: int) -> int:
        """Return the bytes that so many moments of m nodes of n take."""
        return 8 * m * (2 * n + m * terms)

    def sum(self, coefficients: np.ndarray) -> np.ndarray:
        """Return Σₖ cₖ Tₖ(S) on the nodes."""
        while len(self._terms) < len(coefficients):
            self._advance()
        total = np.zeros_like(self._terms[0])
        for c, term in zip(coefficients, self._terms, strict=False):
            total += c * term
        return total

    def _advance(self) -> None:
        """Append the next moment: Tₖ₊₁ = 2STₖ − Tₖ₋₁, and T₁ = S."""
        first = not self._pairs
        following = []
        for i, part in enumerate(self._parts):
            if first:
                before = np.zeros((self._S.shape[0], part.stop - part.start))
                before[self._nodes[part], np.arange(before.shape[1])] = 1.0
                following.append((before, self._S @ before))
                continue
            before, now = self._pairs[i]
            image = self._S @ now
            image *= 2.0
            image -= before
            following.append((now, image))
        self._pairs = following
        self._terms.append(np.hstack([now[self._nodes] for _, now in following]))


# ---- node action ----


DENSE_NODES = 3000  # up to here one eigendecomposition answers everything; 2 s and 72 MB
COLUMNS = 64  # columns of f(M) at once, which one pass over the edges serves
TERMS = 2**15  # of a Chebyshev series; then the matrix is too stiff for it
SWEEPS = 100  # of the power method, for a bound of the spectrum
SMALL = 64  # nodes up to which Lanczos' method is not asked

Scalar = Callable[[np.ndarray], np.ndarray]


class NodeMatrix:
    """A symmetric sparse matrix M over the nodes of a graph, and functions f(M) of it.

    Few nodes: M = UΛUᵀ once, then f(M) = U f(Λ) Uᵀ for every f. Many nodes: columns of f(M) by a
    series of Chebyshev polynomials on an interval that holds the spectrum, of which only products
    with M are asked; never a matrix of all pairs of nodes.

    Parameters
    ----------
    matrix : csr_array
        M, symmetric.
    top : float, default=inf
        A number that no eigenvalue exceeds, where one is known: 0 for −L. Computed eigenvalues
        and bounds exceed it by rounding, and f may be large or have a kink beyond it.
    """

    def __init__(self, matrix: sp.csr_array, top: float = np.inf):
        self.matrix = matrix
        self.top = top
        self.n = int(matrix.shape[0])
        self._moments: dict[bytes, NodeMoments] = {}  # of the nodes that were asked for last

    @property
    def dense(self) -> bool:
        """Whether the eigenvectors are few enough for the machine and for the memory budget."""
        return self.n <= DENSE_NODES and 5 * 8 * self.n**2 <= get_config().memory // 2

    @cached_property
    def spectrum(self) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues and eigenvectors."""
        if self.n == 0:
            return np.zeros(0), np.zeros((0, 0))
        values, U = heard(np.linalg.eigh, self.matrix.toarray())
        return np.minimum(values, self.top), U

    @cached_property
    def interval(self) -> tuple[float, float]:
        """Two numbers between which all eigenvalues are.

        Rounding in exp(λM) is relative to exp of λ times the upper one, and the terms of a series
        grow with their distance, so both have to be near the eigenvalues.
        """
        return -upper_bound(-self.matrix), min(upper_bound(self.matrix), self.top)

    @property
    def largest(self) -> float:
        """The largest eigenvalue, or a number just above it."""
        if not self.n:
            return 0.0
        return float(self.spectrum[0][-1]) if self.dense else self.interval[1]

    # -- f(M) ---------------------------------------------------------------------------------
    def block(self, f: Scalar, rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
        """Return f(M) on some rows and columns, working on the fewer of both."""
        if self.dense:
            values, U = self.spectrum
            return (U[rows] * f(values)) @ U[cols].T
        if rows is cols:
            return self._square(f, rows)
        if len(rows) < len(cols):
            return self.block(f, cols, rows).T
        return self._columns(f, rows, cols)

    def _columns(self, f: Scalar, rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
        out = np.empty((len(rows), len(cols)))
        for part in self.parts(len(cols)):
            out[:, part] = self.act(f, self._units(cols[part]))[rows]
        return out

    def _square(self, f: Scalar, nodes: np.ndarray) -> np.ndarray:
        """Return f(M) on pairs of nodes, from moments that are kept for the next f."""
        coefficients = chebyshev(f, *self.interval)
        if NodeMoments.size(self.n, len(nodes), len(coefficients)) > get_config().memory // 8:
            return self._columns(f, nodes, nodes)
        key = nodes.tobytes()
        moments = self._moments.pop(key, None)  # out of the reach of other threads while in use
        if moments is None:
            moments = NodeMoments(self._scaled, nodes, self.parts(len(nodes)))
        out = moments.sum(coefficients)
        self._moments = {key: moments}
        return out

    def diagonal(self, f: Scalar, index: np.ndarray) -> np.ndarray:
        """Return f(M)ᵢᵢ for some nodes."""
        if self.dense:
            values, U = self.spectrum
            return (U[index] ** 2) @ f(values)
        out = np.empty(len(index))
        for part in self.parts(len(index)):
            columns = self.act(f, self._units(index[part]))
            out[part] = columns[index[part], np.arange(columns.shape[1])]
        return out

    def _units(self, index: np.ndarray) -> np.ndarray:
        V = np.zeros((self.n, len(index)))
        V[index, np.arange(len(index))] = 1.0
        return V

    def parts(self, m: int) -> list[slice]:
        """Cut m columns so that six arrays of them stay inside the budget."""
        column = 6 * 8 * self.n
        require_memory(column, f"f(M) on a graph of {self.n} nodes", "Take a smaller graph")
        width = min(COLUMNS, row_blocks(m, column)[0].stop or 1)
        return [slice(i, min(i + width, m)) for i in range(0, m, width)]

    def act(self, f: Scalar, V: np.ndarray) -> np.ndarray:
        """Return f(M) V as Σₖ cₖ Tₖ(S) V, where S is M moved and scaled to the interval [−1, 1].

        Clenshaw, A note on the summation of Chebyshev series (1955), gives the recursion
        Tₖ₊₁ = 2STₖ − Tₖ₋₁; the cₖ are found by `chebyshev`, so the error is that of rounding.
        """
        S, coefficients = self._scaled, chebyshev(f, *self.interval)
        total = coefficients[0] * V
        before, now = V, S @ V
        for c in coefficients[1:]:
            total += c * now
            following = S @ now
            following *= 2.0
            following -= before
            before, now = now, following
        return total

    @cached_property
    def _scaled(self) -> sp.csr_array:
        low, high = self.interval
        half = 0.5 * (high - low) or 1.0
        return ((self.matrix - 0.5 * (low + high) * sp.eye_array(self.n)) / half).tocsr()


def upper_bound(M: sp.csr_array) -> float:
    """Return a number that no eigenvalue of a symmetric M exceeds, and that is near the largest.

    xᵀMx ≤ |x|ᵀN|x|, where N has the moduli of M beside its diagonal; and for every x > 0 no
    eigenvalue of N is above maxᵢ (Nx)ᵢ/xᵢ (Collatz and Wielandt), a bound that falls as x runs
    through the power method from x = 1, Gershgorin's bound. Where it stays above Lanczos' largest
    Ritz value, as it does when M has negative entries beside the diagonal, that value and a margin
    of 1e-3 replaces it.
    """
    diagonal = M.diagonal()
    off = sp.csr_array(M - sp.diags_array(diagonal))
    N = abs(off)
    x = np.ones(M.shape[0])
    spread = float(np.linalg.norm(N @ x)) / len(x) ** 0.5
    shift = 0.5 * spread - float(diagonal.min())  # N + shift·I ≥ 0, and has no period
    best = np.inf
    for _ in range(SWEEPS):
        image = N @ x + (diagonal + shift) * x
        ratios = image / x
        best, least = min(best, float(ratios.max())), float(ratios.min())
        if best - least <= 1e-4 * spread:
            break
        x = np.maximum(image / image.max(), 1e-200)  # parts of the graph must not vanish
    bound = best - shift + 1e-14 * abs(best)
    loose = best - least > 1e-2 * spread or (off.data < 0).any()
    if loose and len(x) > SMALL:
        bound = min(bound, _ritz(M) + 1e-3 * spread)
    return bound


def _ritz(M: sp.csr_array) -> float:
    from scipy.sparse.linalg import ArpackError, eigsh

    start = np.random.default_rng(0).standard_normal(M.shape[0])  # the same every time
    try:
        return float(eigsh(M, 1, which="LA", v0=start, tol=1e-4, maxiter=20)[0][0])
    except ArpackError:
        return np.inf


def chebyshev(f: Scalar, low: float, high: float) -> np.ndarray:
    """Return the coefficients of f in Chebyshev polynomials on [low, high], all that matter.

    Values at Chebyshev points are turned into coefficients by a cosine transform; their number
    doubles until the last quarter is rounding. The error of the cut series is at most the sum of
    what is left out. See Trefethen, Approximation Theory and Approximation Practice, chapters 3-8.
    A function that lives near one end only may escape all points: the series must also give its
    values at points that approach both ends.
    """
    from numpy.polynomial.chebyshev import chebval
    from scipy.fft import dct

    ends = 2.0 ** -np.arange(50)
    probes = np.concatenate([ends - 1, 1 - ends, [-1.0, 1.0]])
    there = f(0.5 * (low + high) + 0.5 * (high - low) * probes)
    m = 16
    while True:
        angles = np.pi * (np.arange(m) + 0.5) / m
        # Below the upper end by (1 − cos)/2 of the width, with all digits of a small distance.
        values = f(high - (high - low) * np.sin(0.5 * angles) ** 2)
        size = max(float(np.abs(values).max()), float(np.abs(there).max()))
        c = dct(values, type=2) / m
        c[0] *= 0.5
        small = float(np.abs(c[-(m // 4) :]).max()) <= 1e-15 * size
        if small and np.abs(chebval(probes, c) - there).max() <= 1e-9 * size:
            kept = np.flatnonzero(np.abs(c) > 1e-16 * size)
            return c[: int(kept[-1]) + 1 if len(kept) else 1]
        if m >= TERMS:
            raise InvalidInput(
                f"f(M) of a graph with eigenvalues from {low:.3g} to {high:.3g} needs more than "
                f"{TERMS} products with M; use a smaller decay, or weights that differ less."
            )
        m *= 2


def laplacian_of(A: Any, *, normalized: bool = False) -> sp.csr_array:
    """Return L = D − A, or I − D^(−1/2) A D^(−1/2), whose row of a node without edges is zero."""
    degrees = np.asarray(A.sum(axis=1)).reshape(-1)
    L = sp.diags_array(degrees) - A
    if not normalized:
        return sp.csr_array(L)
    root = np.where(degrees > 0, 1 / np.sqrt(np.where(degrees > 0, degrees, 1.0)), 0.0)
    return sp.csr_array(sp.diags_array(root) @ L @ sp.diags_array(root))


# ---- What kernels on the nodes of one graph share: the graph, its matrix, and values of f(M) ----


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
        check_parameter("decay", self.decay, 0.0)
        self.graph = as_graph(self.graph)
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
            raise InvalidInput(f"{self}: {why}")
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


def as_graph(graph: Any) -> Graph:
    """Return what a user has as an undirected `Graph`; a `Graph` is returned as it is."""
    if is_networkx(graph):
        if graph.is_directed():
            raise InvalidInput(
                f"{who()}: the graph is directed, and a kernel needs a symmetric matrix; use "
                "G.to_undirected()."
            )
        graph = Graph.from_networkx(graph, label=None, edge_label=None)
    elif isinstance(graph, np.ndarray | list) or sp.issparse(graph):
        try:
            graph = Graph(graph)
        except InvalidInput as error:
            raise InvalidInput(
                f"{error} A kernel on nodes needs a symmetric matrix, such as (A + A.T) / 2."
            ) from None
    if not isinstance(graph, Graph):
        raise InvalidInput(
            f"{who()}: graph is a {type(graph).__name__}; give a mercer.Graph, a graph of "
            "networkx, or a symmetric matrix, dense or sparse."
        )
    if graph.directed:
        raise InvalidInput(
            f"{who()}: the graph is directed, and a kernel needs a symmetric matrix; use "
            "A = graph.adjacency and mercer.Graph(A + A.T)."
        )
    return graph


# ---- `Diffusion`: the matrix exponential of a graph, a kernel on its nodes ----


class Diffusion(NodeKernel):
    r"""The diffusion kernel on the nodes of a graph, K = exp(λB), or exp(−λL).

    :math:`K = \sum_{m \ge 0} \frac{\lambda^m}{m!} B^m`: nodes are alike when many short walks
    join them, walks of m steps counting λᵐ/m!. With ``laplacian``, L = D − A, and K = exp(−λL) says
    how much of what starts at one node has come to the other after the time λ.

    *Valid when* B is symmetric: the eigenvalues of exp(λB) are exp(λμ) > 0, whatever the signs of
    the entries of B.

    Points are node ids, as the graph names them: 0 to n − 1 for a matrix.

    Parameters
    ----------
    graph : Graph, networkx graph, or symmetric matrix
        The weights of the edges are the entries of B; negative ones and a diagonal are legal. It
        is kept as a `mercer.Graph`.
    decay : float, default=1.0
        λ > 0, how far similarity reaches.
    laplacian : bool or "normalized", default=False
        Take −L in the place of B: L = D − A, or I − D^(−1/2) A D^(−1/2), where weights must not
        be negative.

    Notes
    -----
    Cost: up to 3000 nodes one eigendecomposition of the matrix, kept as long as the graph is, from
    which every λ is a product of matrices. On larger graphs a block of columns of K takes some
    √(λ‖B‖) to λ‖B‖ passes over the edges, only columns of nodes that occur are computed, and
    K V takes as many columns as V has. For the pairs of m nodes what the passes found is kept,
    8m² bytes for each, and serves all other λ: a search over λ costs little more than one value.

    The eigenvalues of λB must stay below 700, where exp overflows, and on large graphs between two
    numbers that differ by at most 10⁷. B − cI has the same kernel up to the factor exp(−λc).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Diffusion
    >>> path = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> Diffusion(path, laplacian=True)([0, 1, 2]).round(3)
    array([[0.526, 0.317, 0.158],
           [0.317, 0.367, 0.317],
           [0.158, 0.317, 0.526]])
    """

    _stiffest = 1e7

    def __init__(self, graph: Any, decay: float = 1.0, laplacian: bool | str = False):
        super().__init__(graph=graph, decay=decay, laplacian=laplacian)

    def _check_params(self) -> None:
        super()._check_params()
        word = isinstance(self.laplacian, str) and self.laplacian == "normalized"
        if not word and not isinstance(self.laplacian, bool | np.bool_):
            raise InvalidInput(
                f"Diffusion: laplacian={self.laplacian!r}; give True, False or 'normalized'."
            )
        if word and (self.graph.weights < 0).any():
            raise InvalidInput(
                "Diffusion: the graph has negative weights, and a normalized Laplacian divides by "
                "the roots of their sums; use laplacian=True."
            )

    def _kind(self) -> str:
        if isinstance(self.laplacian, str):
            return "normalized"
        return "laplacian" if self.laplacian else "adjacency"

    def _value(self, x: np.ndarray) -> np.ndarray:
        return np.exp(float(self.decay) * x)

    def _slope(self, x: np.ndarray) -> np.ndarray:
        x = float(self.decay) * x
        return x * np.exp(x)

    def _highest(self, matrix: NodeMatrix) -> tuple[float, str]:
        top, why = super()._highest(matrix)
        largest = matrix.largest
        if largest <= 0 or top <= LARGEST / largest:
            return top, why
        top = LARGEST / largest
        other = ", or laplacian=True" if self._kind() == "adjacency" else ", or weights ≥ 0"
        return top, (
            f"exp(decay · {largest:.4g}) overflows, {largest:.4g} being the largest eigenvalue of "
            f"the matrix; use a decay below {top:.3g}{other}."
        )


# ---- `RegularizedLaplacian`: the inverse of I + λL, a kernel on the nodes of a graph ----


class RegularizedLaplacian(NodeKernel):
    r"""The regularised Laplacian kernel on the nodes of a graph, K = (I + λL)⁻¹, L = D − A.

    Its functions f have the norm :math:`\sum_i f_i^2 + \lambda \sum_{i<j} a_{ij} (f_i - f_j)^2`:
    those that change little along edges. Its tails are heavier than those of `Diffusion`.

    *Valid when* no weight is negative: then L has no eigenvalue below 0, and those of K are
    between 0 and 1.

    Points are node ids, as the graph names them: 0 to n − 1 for a matrix.

    Parameters
    ----------
    graph : Graph, networkx graph, or symmetric matrix
        The weights of the edges, ≥ 0; self loops do not matter. It is kept as a `mercer.Graph`.
    decay : float, default=1.0
        λ > 0, how far similarity reaches.

    Notes
    -----
    Cost: up to 3000 nodes one eigendecomposition of L, kept as long as the graph is, from which
    every λ is a product of matrices. On larger graphs a block of columns of K takes some
    15·√(λ‖L‖) passes over the edges, and only columns of nodes that occur are computed; there λ‖L‖
    must not exceed 2·10⁶. As in `Diffusion`, the passes of one λ serve others.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RegularizedLaplacian
    >>> path = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> RegularizedLaplacian(path)([0, 1, 2])
    array([[0.625, 0.25 , 0.125],
           [0.25 , 0.5  , 0.25 ],
           [0.125, 0.25 , 0.625]])
    """

    _stiffest = 2e6

    def __init__(self, graph: Any, decay: float = 1.0):
        super().__init__(graph=graph, decay=decay)

    def _check_params(self) -> None:
        super()._check_params()
        if (self.graph.weights < 0).any():
            raise InvalidInput(
                "RegularizedLaplacian: the graph has negative weights, so I + λL need not be "
                "positive definite; use weights ≥ 0, or Diffusion, which takes any."
            )

    def _kind(self) -> str:
        return "laplacian"

    def _value(self, x: np.ndarray) -> np.ndarray:
        return 1 / (1 - float(self.decay) * x)

    def _slope(self, x: np.ndarray) -> np.ndarray:
        x = float(self.decay) * x
        return x / (1 - x) ** 2
