"""Kernels of paths, walks and small subgraphs, for the laws: points, and definitions."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from mercer.domains import Graph
from mercer.kernels import RBF, AttributedPath, Graphlet, Kernel, Linear, RandomWalk, ShortestPath
from mercer.testing import graph_examples
from mercer.testing.graph_examples import matrix_of

__all__ = ["WALK_FORMULAS", "distances_of", "walking_kernels"]


def walking_kernels() -> list[tuple[str, Kernel, Callable | None]]:
    """Return named kernels, each with a sampler where that of the domain is not enough."""
    sampler = functools.partial(graph_examples.sampler, most=6)
    plain, lengths = sampler(labelled=False), (0.1, 0.2, 0.3, 1.0)
    vectors = sampler(labelled=False, directed=True, lengths=lengths, width=1)
    return [
        ("ShortestPath", ShortestPath(), None),
        ("ShortestPath-plain", ShortestPath(), plain),
        ("ShortestPath-lengths", ShortestPath(), sampler(lengths=lengths)),
        ("ShortestPath-directed", ShortestPath(), sampler(directed=True)),
        ("AttributedPath", AttributedPath(RBF("median")), sampler(width=2)),
        ("AttributedPath-plain", AttributedPath(Linear() + RBF(2.0)), vectors),
        ("RandomWalk", RandomWalk(), sampler()),
        ("RandomWalk-plain", RandomWalk(0.02), plain),
        ("RandomWalk-exponential", RandomWalk(0.2, "exponential"), plain),
        ("RandomWalk-bonds", RandomWalk(0.02), sampler(edge_labelled=True, lengths=(0.5, 1.0))),
        ("RandomWalk-directed", RandomWalk(), sampler(directed=True)),
        ("RandomWalk-labels", RandomWalk(kind="exponential"), sampler(edge_labelled=True)),
        ("Graphlet", Graphlet(), None),
        ("Graphlet-four", Graphlet(4, connected=False), plain),
        ("Graphlet-five", Graphlet(5), None),
    ]


# ------------------------------------------------------------------------------ definitions
def _labels(graph: Graph) -> list[int]:
    return [0] * graph.n_nodes if graph.node_labels is None else graph.node_labels.tolist()


def distances_of(graph: Graph, weighted: bool) -> np.ndarray:
    """Return the lengths of shortest paths by the algorithm of Floyd and Warshall."""
    n = graph.n_nodes
    D = np.full((n, n), np.inf)
    np.fill_diagonal(D, 0.0)
    for i in range(n):
        for e in range(graph.indptr[i], graph.indptr[i + 1]):
            length = float(graph.weights[e]) if weighted else 1.0
            D[i, graph.indices[e]] = min(D[i, graph.indices[e]], length)
    for m in range(n):
        D = np.minimum(D, D[:, m : m + 1] + D[m])
    return D


def _paths(graph: Graph, weighted: bool) -> Counter:
    D, labels = distances_of(graph, weighted), _labels(graph)
    pairs = itertools.permutations(range(graph.n_nodes), 2)
    finite = ((i, j, float(D[i, j])) for i, j in pairs if D[i, j] < np.inf)
    return Counter((labels[i], labels[j], float(f"{d:.12g}")) for i, j, d in finite)


def _shortest_path(k: Any, x: Graph, y: Graph) -> float:
    a, b = _paths(x, k.weighted), _paths(y, k.weighted)
    return float(sum(a[path] * b[path] for path in a))


def _attributed_path(k: Any, x: Graph, y: Graph) -> float:
    """Return the sum over all pairs of pairs at equal distance."""
    from mercer.testing.oracles import oracle

    if x.attributes is None or y.attributes is None or not x.n_nodes * y.n_nodes:
        return 0.0
    alike = np.equal.outer(_labels(x), _labels(y))
    M = [[oracle(k.kernel, a, b) for b in y.attributes] for a in x.attributes] * alike
    D, E = (np.vectorize(lambda d: float(f"{d:.12g}"))(distances_of(g, k.weighted)) for g in (x, y))
    for table in (D, E):
        np.fill_diagonal(table, np.inf)
    same = np.equal.outer(D, E) & (D < np.inf)[:, :, None, None]
    return float(np.einsum("uvab,ua,vb->", same, M, M))


def _random_walk(k: Any, x: Graph, y: Graph) -> float:
    """Return 1ᵀf(λA×)1 on the product graph, written out."""
    A, B = _bonded(x), _bonded(y)
    product = np.zeros((x.n_nodes * y.n_nodes,) * 2)
    for bond in A.keys() & B.keys():
        product += np.kron(A[bond], B[bond])
    alike = [a == b for a in _labels(x) for b in _labels(y)]
    product = product[np.ix_(alike, alike)]
    ones = np.ones(len(product))
    if k.kind == "geometric":
        return float(ones @ np.linalg.solve(np.eye(len(ones)) - k.decay * product, ones))
    from scipy.linalg import expm

    return float((expm(k.decay * product) @ ones).sum())


def _bonded(graph: Graph) -> dict[int, np.ndarray]:
    """Return the weights of the edges of each label."""
    A = matrix_of(graph)
    if graph.edge_labels is None:
        return {0: A}
    parts: dict[int, np.ndarray] = {}
    for i in range(graph.n_nodes):
        for e in range(graph.indptr[i], graph.indptr[i + 1]):
            part = parts.setdefault(int(graph.edge_labels[e]), np.zeros(A.shape))
            part[i, graph.indices[e]] = graph.weights[e]
    return parts


@functools.lru_cache(maxsize=4096)
def _graphlets(graph: Graph, size: int, connected: bool) -> Counter:
    """Return the induced subgraphs of some nodes, each named by its smallest list of edges."""
    A = matrix_of(graph) != 0
    found: Counter = Counter()
    for nodes in itertools.combinations(range(graph.n_nodes), size):
        part = A[np.ix_(nodes, nodes)]
        if connected and not np.linalg.matrix_power(part + np.eye(size), size).all():
            continue
        found[_least(tuple(map(tuple, part.tolist())))] += 1
    return found


@functools.lru_cache(maxsize=4096)
def _least(rows: tuple[tuple[bool, ...], ...]) -> tuple[bool, ...]:
    """Return the smallest list of edges that any numbering of the nodes gives."""
    pairs = list(itertools.combinations(range(len(rows)), 2))
    orders = itertools.permutations(range(len(rows)))
    return min(tuple(rows[o[i]][o[j]] for i, j in pairs) for o in orders)


def _graphlet(k: Any, x: Graph, y: Graph) -> float:
    a, b = (_graphlets(g, int(k.size), bool(k.connected)) for g in (x, y))
    return float(sum(a[name] * b[name] for name in a))


#: Class → function(kernel, x, y): the definition, for two graphs.
WALK_FORMULAS: dict[type, Callable[[Any, Any, Any], float]] = {
    ShortestPath: _shortest_path,
    AttributedPath: _attributed_path,
    RandomWalk: _random_walk,
    Graphlet: _graphlet,
}
