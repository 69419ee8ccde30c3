"""Kernels of paths, walks and small subgraphs, for the laws: points, and definitions."""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import ndtri

from mercer import kernels as mk
from mercer.domains import Graph
from mercer.kernels import (
    RBF,
    AttributedPath,
    Graphlet,
    Kernel,
    Linear,
    NeighborhoodHash,
    Propagation,
    RandomWalk,
    ShortestPath,
    VertexHistogram,
    WeisfeilerLehman,
    WeisfeilerLehmanOptimalAssignment,
)
from mercer.kernels.graphs import uniforms

# ---- Kernels that refine labels of graphs, for the laws: points, and definitions for two graphs.


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


def graph_sampler(**kind: Any) -> Callable[[np.random.Generator, int], list[Graph]]:
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
        ("VertexHistogram-plain", VertexHistogram(), graph_sampler(labelled=False)),
        ("WeisfeilerLehman", WeisfeilerLehman(), None),
        ("WeisfeilerLehman-zero", WeisfeilerLehman(0), None),
        ("WeisfeilerLehman-plain", WeisfeilerLehman(2), graph_sampler(labelled=False)),
        ("WeisfeilerLehman-bonds", WeisfeilerLehman(2), graph_sampler(edge_labelled=True)),
        ("WeisfeilerLehman-directed", WeisfeilerLehman(3), graph_sampler(directed=True)),
        ("WeisfeilerLehman-normalized", WeisfeilerLehman(2).normalized(), None),
        ("WeisfeilerLehman-product", WeisfeilerLehman(1) * VertexHistogram() + 1.0, None),
        ("WeisfeilerLehmanOptimalAssignment", WeisfeilerLehmanOptimalAssignment(), None),
        (
            "WeisfeilerLehmanOptimalAssignment-plain",
            WeisfeilerLehmanOptimalAssignment(2).normalized(),
            graph_sampler(labelled=False, directed=True),
        ),
        ("NeighborhoodHash", NeighborhoodHash(), None),
        ("NeighborhoodHash-bonds", NeighborhoodHash(2), graph_sampler(edge_labelled=True)),
        ("Propagation", Propagation(), graph_sampler(lengths=(0.0, 0.5, 1.0, 3.0))),
        ("Propagation-plain", Propagation(2, 1.5), graph_sampler(labelled=False)),
        (
            "Propagation-hellinger",
            Propagation(3, 0.5, metric="hellinger", random_state=7),
            graph_sampler(directed=True),
        ),
        ("Propagation-vectors", Propagation(2, 0.5, 4.0), graph_sampler(width=2)),
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


def _common(first: Any, second: Any) -> float:
    """Return the inner product of the counts of two collections."""
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


def _optimal_assignment(k: Any, x: Graph, y: Graph) -> float:
    """Return the best sum over pairs of nodes of the rounds in which they have one label."""
    from scipy.optimize import linear_sum_assignment

    levels = zip(refined_labels(x, k.iterations), refined_labels(y, k.iterations), strict=True)
    alike = np.sum([np.equal.outer(first, second) for first, second in levels], axis=0)
    return float(alike[linear_sum_assignment(alike, maximize=True)].sum())


def _propagation(k: Any, x: Graph, y: Graph) -> float:
    return _common(*(_binned(g, **k.get_params()) for g in (x, y)))


@functools.lru_cache(maxsize=4096)
def _binned(
    graph: Graph,
    iterations: int,
    width: float,
    attribute_width: float | None,
    metric: str,
    random_state: int,
) -> list[tuple]:
    """Return the bins of all nodes at all steps, from distributions over the labels."""
    n, steps, rooted = graph.n_nodes, iterations + 1, metric == "hellinger"
    A, degrees = matrix_of(graph), np.diff(graph.indptr).astype(np.uint64)
    T = np.array([A[i] / A[i].sum() if A[i].any() else np.eye(n)[i] for i in range(n)])
    held: list[tuple] = []  # for labels and for attributes: what nodes hold, names, width
    if graph.node_labels is not None or attribute_width is None:
        own = degrees if graph.node_labels is None else graph.node_labels
        held.append((np.equal.outer(own, np.unique(own)).astype(float), np.unique(own), width, 0))
    if attribute_width is not None and graph.attributes is not None:
        columns = np.arange(graph.attributes.shape[1], dtype=np.uint64)
        held.append((graph.attributes, columns, attribute_width, 1))
    bins: list[list] = [[(t,) for _ in range(n)] for t in range(steps)]
    for P, names, w, kind in held if n else []:
        u = uniforms(random_state, kind, names, steps)
        V = ndtri(u) if rooted else 1 / np.tan(np.pi * (1 - u))
        b = uniforms(random_state, 2, np.array([2 + kind], dtype=np.uint64), steps)[0] * w
        for t in range(steps):
            for i, value in enumerate((np.sqrt(P) if rooted and kind == 0 else P) @ V[:, t]):
                bins[t][i] += (math.floor((value + b[t]) / w),)
            P = T @ P
    return [name for step in bins for name in step]


#: Class → function(kernel, x, y): the definition, for two graphs.
GRAPH_FORMULAS: dict[type, Callable[[Any, Any, Any], float]] = {
    VertexHistogram: lambda k, x, y: _common(refined_labels(x, 0)[0], refined_labels(y, 0)[0]),
    WeisfeilerLehman: _weisfeiler_lehman,
    WeisfeilerLehmanOptimalAssignment: _optimal_assignment,
    NeighborhoodHash: _neighborhood_hash,
    Propagation: _propagation,
}


# ---- graph walk examples ----


def walking_kernels() -> list[tuple[str, Kernel, Callable | None]]:
    """Return named kernels, each with a sampler where that of the domain is not enough."""
    sampler = functools.partial(graph_sampler, most=6)
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
    return _common(_paths(x, k.weighted), _paths(y, k.weighted))


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
    return _common(*(_graphlets(g, int(k.size), bool(k.connected)) for g in (x, y)))


#: Class → function(kernel, x, y): the definition, for two graphs.
WALK_FORMULAS: dict[type, Callable[[Any, Any, Any], float]] = {
    ShortestPath: _shortest_path,
    AttributedPath: _attributed_path,
    RandomWalk: _random_walk,
    Graphlet: _graphlet,
}


# ---- Kernels on nodes and on documents for the laws, and their definitions in plain Python ----


def node_text_kernels() -> list[tuple]:
    """Return names, kernels and samplers of points."""
    documents = [(name, k, sample_documents) for name, k in _document_kernels().items()]
    return [*_node_kernels().items(), *documents]


def _node_kernels() -> dict[str, Any]:
    """Return kernels on the nodes of small graphs: plain, named, signed, in two parts."""
    house = Graph(edges=[(0, 1), (1, 2), (2, 3), (3, 0), (2, 4), (3, 4)], n_nodes=6)
    named = Graph(edges=[(0, 1, 2.0), (1, 2, 0.5), (3, 4, 1.0)], nodes=list("abcde"))
    signed = Graph(np.array([[0.5, -1.0, 0.2], [-1.0, -0.3, 0.7], [0.2, 0.7, 0.0]]))
    return {
        "Diffusion": mk.Diffusion(house, 0.5),
        "Diffusion-signed": mk.Diffusion(signed, 0.8),
        "Diffusion-laplacian": mk.Diffusion(named, 0.7, laplacian=True),
        "Diffusion-normalized": mk.Diffusion(house, 1.5, laplacian="normalized"),
        "Diffusion-unit": mk.Diffusion(house, 0.5).normalized(),
        "RegularizedLaplacian": mk.RegularizedLaplacian(house, 2.0),
        "RegularizedLaplacian-named": mk.RegularizedLaplacian(named, 0.3),
        "Nodes-sum": 0.5 * mk.Diffusion(house, 0.5) + mk.RegularizedLaplacian(house) ** 2,
    }


def _document_kernels() -> dict[str, Any]:
    return {
        "BagOfWords": mk.BagOfWords(),
        "BagOfWords-counts": mk.BagOfWords(tfidf=False, normalize=False),
        "BagOfWords-stop": mk.BagOfWords(stop_words=["the", "and"], ngram_range=(1, 2)),
        "BagOfWords-letters": mk.BagOfWords(analyzer="char", ngram_range=(1, 3)),
        "BagOfWords-binary": mk.BagOfWords(binary=True, sublinear=True, min_df=2, max_df=0.9),
    }


def sample_documents(rng: np.random.Generator, n: int) -> list[str]:
    """Return n documents of some words, one of them empty."""
    words = np.array(["the", "The", "and", "cat", "café", "dog", "a", "x1", "runs,", "réelle"])
    texts = [" ".join(rng.choice(words, rng.integers(1, 9))) for _ in range(n)]
    texts[n // 2 : n // 2 + 1] = [""]
    return texts


# -------------------------------------------------------------------------------- formulas
def _places(k: Any, x: Any, y: Any) -> tuple[int, int]:
    return k.graph.nodes.index(x), k.graph.nodes.index(y)


def diffusion(k: Any, x: Any, y: Any) -> float:
    """Return an entry of exp(λM)."""
    return float(_diffused(k.graph, float(k.decay), k.laplacian)[_places(k, x, y)])


@functools.lru_cache(maxsize=64)
def _diffused(graph: Graph, decay: float, laplacian: Any) -> np.ndarray:
    """Return the power series of exp(λM), by scaling and squaring."""
    M = matrix_of(graph)
    if laplacian:
        degrees = M.sum(axis=1)
        M = M - np.diag(degrees)
        if laplacian == "normalized":
            root = np.array([1 / math.sqrt(d) if d > 0 else 0.0 for d in degrees])
            M = root[:, None] * M * root
    halvings = 8
    M = M * decay / 2**halvings
    total = term = np.eye(len(M))
    for m in range(1, 25):
        term = term @ M / m
        total = total + term
    for _ in range(halvings):
        total = total @ total
    return total


def regularized_laplacian(k: Any, x: Any, y: Any) -> float:
    """Return an entry of (I + λL)⁻¹, by solving for a column."""
    A = matrix_of(k.graph)
    i, j = _places(k, x, y)
    L = np.diag(A.sum(axis=1)) - A
    return float(np.linalg.solve(np.eye(len(A)) + float(k.decay) * L, np.eye(len(A))[j])[i])


def _runs(k: Any, document: str) -> list[str]:
    text = document.lower() if k.lowercase else document
    low, high = k.ngram_range
    if k.analyzer == "char":
        text = re.sub(r"\s\s+", " ", text)
        units, glue = list(text), ""
    else:
        stop = set(k.stop_words or ())
        units, glue = [w for w in re.findall(k.token_pattern, text) if w not in stop], " "
    return [
        glue.join(units[i : i + m]) for m in range(low, high + 1) for i in range(len(units) - m + 1)
    ]


def bag_of_words(k: Any, x: str, y: str) -> float:
    """Return Σ_w φ_w(x) φ_w(y), word by word."""

    def vector(document: str) -> dict[str, float]:
        counts = Counter(run for run in _runs(k, document) if run in k.vocabulary)
        phi = {}
        for word, count in counts.items():
            tf = 1.0 if k.binary else float(count)
            tf = 1 + math.log(tf) if k.sublinear else tf
            phi[word] = tf * (float(k.idf[k.vocabulary.index(word)]) if k.tfidf else 1.0)
        length = math.sqrt(math.fsum(v * v for v in phi.values())) if k.normalize else 1.0
        return {word: v / length for word, v in phi.items()}

    phi, psi = vector(x), vector(y)
    return math.fsum(v * psi.get(word, 0.0) for word, v in phi.items())


NODE_TEXT_FORMULAS: dict[type, Callable[[Any, Any, Any], float]] = {
    mk.BagOfWords: bag_of_words,
    mk.Diffusion: diffusion,
    mk.RegularizedLaplacian: regularized_laplacian,
}
