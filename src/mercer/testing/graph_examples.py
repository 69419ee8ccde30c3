"""Kernels that refine labels of graphs, for the laws: points, and definitions for two graphs."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from mercer.domains import Graph
from mercer.kernels import Kernel, NeighborhoodHash, VertexHistogram, WeisfeilerLehman

__all__ = [
    "GRAPH_FORMULAS",
    "matrix_of",
    "refined_labels",
    "refining_kernels",
    "sample_graphs",
    "sampler",
]


def sample_graphs(
    rng: np.random.Generator,
    n: int,
    labelled: bool = True,
    edge_labelled: bool = False,
    directed: bool = False,
    *,
    lengths: tuple[float, ...] = (1.0,),
    width: int = 0,
    most: int = 7,
) -> list[Graph]:
    """Return n random graphs of at most `most` nodes, self loops among their edges."""
    graphs = []
    for _ in range(n):
        size = int(rng.integers(0, most + 1))
        full = np.ones((size, size))
        pairs = np.argwhere(full if directed else np.triu(full))
        edges = pairs[rng.random(len(pairs)) < 0.6 * rng.random()]
        graphs.append(
            Graph(
                edges=edges,
                n_nodes=size,
                labels=rng.choice(["C", "N", "O"], size).tolist() if labelled else None,
                edge_labels=rng.integers(1, 3, len(edges)) if edge_labelled else None,
                weights=rng.choice(lengths, len(edges)) if len(lengths) > 1 else None,
                attributes=rng.standard_normal((size, width)) if width else None,
                directed=directed,
            )
        )
    return graphs


def sampler(**kind: Any) -> Callable[[np.random.Generator, int], list[Graph]]:
    """Return `sample_graphs` for graphs of one kind."""
    return lambda rng, n: sample_graphs(rng, n, **kind)


def matrix_of(graph: Graph) -> np.ndarray:
    """Return the adjacency matrix."""
    A = np.zeros((graph.n_nodes, graph.n_nodes))
    for i in range(graph.n_nodes):
        for e in range(graph.indptr[i], graph.indptr[i + 1]):
            A[i, graph.indices[e]] = graph.weights[e]
    return A


def refining_kernels() -> list[tuple[str, Kernel, Callable | None]]:
    """Return named kernels, each with a sampler where that of the domain is not enough."""
    return [
        ("VertexHistogram", VertexHistogram(), None),
        ("VertexHistogram-plain", VertexHistogram(), sampler(labelled=False)),
        ("WeisfeilerLehman", WeisfeilerLehman(), None),
        ("WeisfeilerLehman-zero", WeisfeilerLehman(0), None),
        ("WeisfeilerLehman-plain", WeisfeilerLehman(2), sampler(labelled=False)),
        ("WeisfeilerLehman-bonds", WeisfeilerLehman(2), sampler(edge_labelled=True)),
        ("WeisfeilerLehman-directed", WeisfeilerLehman(3), sampler(directed=True)),
        ("WeisfeilerLehman-normalized", WeisfeilerLehman(2).normalized(), None),
        ("WeisfeilerLehman-product", WeisfeilerLehman(1) * VertexHistogram() + 1.0, None),
        ("NeighborhoodHash", NeighborhoodHash(), None),
        ("NeighborhoodHash-bonds", NeighborhoodHash(2), sampler(edge_labelled=True)),
    ]


_NUMBERS: dict[tuple, int] = {}  # the dictionary of neighbourhoods that hashing does without


@functools.lru_cache(maxsize=4096)
def refined_labels(graph: Graph, rounds: int) -> list[list[int]]:
    """Return the labels of all nodes before and after each round, numbered by a dictionary."""
    bonds = [0] * len(graph.indices) if graph.edge_labels is None else graph.edge_labels.tolist()
    codes = graph.node_labels
    labels: list[int] = [0] * graph.n_nodes if codes is None else codes.tolist()
    ends, ids = graph.indptr.tolist(), graph.indices.tolist()
    levels = [labels]
    for r in range(rounds):
        around = [
            tuple(sorted((labels[ids[e]], bonds[e]) for e in range(ends[i], ends[i + 1])))
            for i in range(graph.n_nodes)
        ]
        names = [(r, own, ring) for own, ring in zip(labels, around, strict=True)]
        labels = [_NUMBERS.setdefault(name, len(_NUMBERS)) for name in names]
        levels.append(labels)
    return levels


def _common(first: list, second: list) -> float:
    a, b = Counter(first), Counter(second)
    return float(sum(a[label] * b[label] for label in a))


def _weisfeiler_lehman(k: Any, x: Graph, y: Graph) -> float:
    levels = zip(refined_labels(x, k.iterations), refined_labels(y, k.iterations), strict=True)
    return sum(_common(first, second) for first, second in levels)


def _neighborhood_hash(k: Any, x: Graph, y: Graph) -> float:
    """Return the mean Jaccard index of multisets, hashes taken as without collisions."""
    total = 0.0
    levels = zip(refined_labels(x, k.iterations), refined_labels(y, k.iterations), strict=True)
    for first, second in list(levels)[1:]:
        a, b = Counter(first), Counter(second)
        union = sum((a | b).values())
        total += sum((a & b).values()) / union if union else 0.0
    return total / int(k.iterations)


#: Class → function(kernel, x, y): the definition, for two graphs.
GRAPH_FORMULAS: dict[type, Callable[[Any, Any, Any], float]] = {
    VertexHistogram: lambda k, x, y: _common(refined_labels(x, 0)[0], refined_labels(y, 0)[0]),
    WeisfeilerLehman: _weisfeiler_lehman,
    NeighborhoodHash: _neighborhood_hash,
}
