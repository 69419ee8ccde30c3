"""`Propagation`: graphs compared by what spreads over their nodes, step by step, in random bins."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import ndtri

from mercer.checks import check_index, check_parameter, check_whole
from mercer.domains import GraphCollection, Graphs, mixed
from mercer.errors import InvalidInput
from mercer.kernels.bound import Bound
from mercer.kernels.counted import Counted, Counts
from mercer.kernels.graphs.graphlet import negative_edge
from mercer.kernels.graphs.paths import check_vectors

LABELS, ATTRIBUTES, OFFSETS = range(3)  # what numbers are drawn for
CURE = "leave attribute_width out, which compares labels"


class Propagation(Counted):
    r"""Common bins of propagated labels: k(G, G′) = Σ_{t=0}^{h} Σ_b c_{t,b}(G) c_{t,b}(G′).

    At step 0 the distribution of a node is its own label for sure. In each step it becomes the
    mean of the distributions of the nodes around it, weighted by edges: P_{t+1} = D⁻¹A P_t. A node
    that no edge leaves keeps its own. A distribution p falls into the bin
    ⌊(⟨p, v_t⟩ + b_t)/w⌋ with a random vector v_t and 0 ≤ b_t < w, so that near ones often share a
    bin, and c_{t,b} counts the nodes in bin b at step t (Neumann, Garnett, Bauckhage and Kersting,
    2016). Where `WeisfeilerLehman` asks for equal neighbourhoods, this one takes similar ones.

    *Valid when* always: it is the inner product of the vectors of counts.

    Parameters
    ----------
    iterations : int, default=4
        The number h ≥ 0 of steps.
    width : float, default=0.01
        Width w > 0 of the bins of labels. Labels are told apart by small ones; wide ones let more
        distributions share a bin.
    attribute_width : float, optional
        Width of the bins of node attributes. With a number the vectors of attributes spread as
        distributions do, and fall into bins of their own; nodes share a bin that share that of the
        labels, if they have labels, and that of the attributes. None leaves attributes out.
    metric : {"tv", "hellinger"}, default="tv"
        The distance that bins keep: "tv", total variation, with v of Cauchy numbers; "hellinger"
        with the roots of p and v of normal numbers. Of attributes it is the ℓ₁ and the ℓ₂ distance.
    random_state : int, default=0
        The seed of v and b, a whole number: another seed is another kernel.

    Notes
    -----
    The entry of v_t for a label is a function of the seed, of t and of the label alone, and that
    for an attribute of the number of its column. So new graphs, with labels never seen before too,
    fall into the same bins in every process, and from a file: the kernel is one function. The mean
    over several seeds, a sum of kernels, depends less on the draws.

    Graphs without labels begin with the numbers of their edges as labels, as one common label would
    stay what it is, unless they have attributes that are asked for. Weights of edges must not be
    negative; labels of edges do not enter. With "tv" it takes O(h²(N + E)) for N nodes and E edges,
    however many labels there are, and a product of sparse counts. "hellinger" needs the
    distributions themselves.

    GraKeL's ``Propagation(t_max, w, M="TV")`` is the case ``iterations=t_max - 1`` with other draws
    and ``M="H"`` that of "hellinger"; ``PropagationAttr`` that of unlabelled graphs with
    ``attribute_width=w``.

    Examples
    --------
    >>> import mercer
    >>> water = mercer.Graph(edges=[(0, 1), (0, 2)], labels=["O", "H", "H"])
    >>> peroxide = mercer.Graph(edges=[(0, 1), (0, 2), (1, 3)], labels=["O", "O", "H", "H"])
    >>> mercer.Propagation(iterations=2)([water, peroxide])
    array([[15., 10.],
           [10., 24.]])
    """

    domain = Graphs()

    def __init__(
        self,
        iterations: int = 4,
        width: float = 0.01,
        attribute_width: float | None = None,
        metric: str = "tv",
        random_state: int = 0,
    ):
        super().__init__(
            iterations=iterations,
            width=width,
            attribute_width=attribute_width,
            metric=metric,
            random_state=random_state,
        )

    def _check_params(self) -> None:
        check_whole("iterations", self.iterations, 0)
        check_parameter("width", self.width, 0)
        if self.attribute_width is not None:
            check_parameter("attribute_width", self.attribute_width, 0)
        if self.metric not in ("tv", "hellinger"):
            raise InvalidInput(
                f"Propagation: metric={self.metric!r}; legal are 'tv' and 'hellinger'."
            )
        check_index(self.random_state, "random_state", 0, 2**64 - 1)

    def _bind(self, X: Any, Y: Any = None) -> Bound:
        if self.attribute_width is not None:
            check_vectors(X, Y, "Propagation", CURE)
        return super()._bind(X, Y)

    def _counts(self, X: Any) -> Counts:
        T = transitions(X)
        codes = np.zeros((len(X.owners), int(self.iterations) + 1), dtype=np.uint64)
        if X.labelled or self.attribute_width is None:
            labels = X.node_labels if X.labelled else np.diff(X.indptr).astype(np.uint64)
            spread = self._roots(T, labels) if self.metric == "hellinger" else None
            if spread is None:
                spread = self._means(T, self._drawn(LABELS, labels))
            codes = mixed(codes + self._bins(spread, self.width, LABELS))
        if self.attribute_width is not None and len(X.attributes):
            check_vectors(X, None, "Propagation", CURE)
            with np.errstate(over="ignore", invalid="ignore"):
                # One column after another: the bits of a node do not depend on the other nodes.
                spread = sum(
                    X.attributes[:, c, None] * self._drawn(ATTRIBUTES, np.array([c], np.uint64))
                    for c in range(X.attributes.shape[1])
                )
                spread = self._means(T, spread)
            if not np.isfinite(spread).all():
                raise InvalidInput(
                    "Propagation: attributes of nodes are beyond the range of floats when they "
                    "are multiplied by random numbers; scale them."
                )
            codes = mixed(codes + self._bins(spread, self.attribute_width, ATTRIBUTES))
        codes = mixed(codes + np.arange(codes.shape[1], dtype=np.uint64))
        return Counts(len(X), np.repeat(X.owners, codes.shape[1]), codes.reshape(-1))

    def _drawn(self, kind: int, codes: np.ndarray) -> np.ndarray:
        """Return the entries of v for labels or attributes, one column a step."""
        u = uniforms(self.random_state, kind, codes, int(self.iterations) + 1)
        return ndtri(u) if self.metric == "hellinger" else np.tan(np.pi * (u - 0.5))

    def _means(self, T: sp.csr_array, V: np.ndarray) -> np.ndarray:
        """Return ⟨p, v_t⟩ of all nodes at all steps: T has only to act on the entries of v_t."""
        out = np.empty_like(V)
        for t in range(V.shape[1]):
            out[:, t] = V[:, 0]
            V = T @ V[:, 1:]
        return out

    def _roots(self, T: sp.csr_array, labels: np.ndarray) -> np.ndarray:
        """Return ⟨√p, v_t⟩ of all nodes at all steps."""
        kinds, column = np.unique(labels, return_inverse=True)
        V = self._drawn(LABELS, kinds)
        sure = np.ones(len(labels)), column.reshape(-1), np.arange(len(labels) + 1)
        P = sp.csr_array(sure, shape=(len(labels), len(kinds)))
        out = np.empty((len(labels), V.shape[1]))
        for t in range(V.shape[1]):
            P.sort_indices()  # by code: sums are in one order in all collections
            out[:, t] = P.sqrt() @ V[:, t]
            P = T @ P if t + 1 < V.shape[1] else P
        return out

    def _bins(self, spread: np.ndarray, width: float, kind: int) -> np.ndarray:
        """Return a number of 64 bits for the bin of each node at each step."""
        steps = np.array([OFFSETS + kind], dtype=np.uint64)
        b = uniforms(self.random_state, OFFSETS, steps, spread.shape[1])
        with np.errstate(over="ignore"):
            return mixed((np.floor(spread / float(width) + b) + 0.0).view(np.uint64))


def transitions(X: GraphCollection) -> sp.csr_array:
    """Return D⁻¹A of all graphs: of what nodes hold it makes the mean of what is around each.

    A node that no edge of positive weight leaves keeps what it holds.
    """
    negative = negative_edge(X)
    if negative is not None:
        raise InvalidInput(
            f"Propagation: graph {negative[0]} has an edge of weight {negative[1]:g}; weights "
            "must be ≥ 0. Take their absolute values, or leave these edges out."
        )
    n, degrees = len(X.owners), np.diff(X.indptr)
    some = degrees > 0
    largest, total = np.ones(n), np.zeros(n)
    if some.any():
        largest[some] = np.maximum.reduceat(X.weights, X.indptr[:-1][some])
        largest[largest == 0] = 1.0
    shares = X.weights / np.repeat(largest, degrees)  # the sum of huge weights is no number
    if some.any():
        total[some] = np.add.reduceat(shares, X.indptr[:-1][some])
    alone = total == 0
    shares /= np.repeat(np.where(alone, 1.0, total), degrees)
    T = sp.csr_array((shares, X.indices, X.indptr), shape=(n, n))
    return sp.csr_array(T + sp.diags_array(alone.astype(float))) if alone.any() else T


def uniforms(seed: int, kind: int, codes: np.ndarray, steps: int) -> np.ndarray:
    """Return numbers in (0, 1), a column for each step, that depend on these arguments alone."""
    key = mixed(mixed(np.array([int(seed)], dtype=np.uint64)) + np.uint64(kind))
    drawn = mixed(mixed(codes)[:, None] ^ mixed(key + np.arange(steps, dtype=np.uint64)))
    return ((drawn >> np.uint64(11)).astype(float) + 0.5) * 2.0**-53
