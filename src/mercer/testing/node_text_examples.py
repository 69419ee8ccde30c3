"""Kernels on nodes and on documents for the laws, and their definitions in plain Python."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from mercer import kernels as mk
from mercer.domains import Graph
from mercer.testing.graph_examples import matrix_of

__all__ = ["NODE_TEXT_FORMULAS", "node_text_kernels", "sample_documents"]


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
    """Return an entry of the power series of exp(λM), by scaling and squaring."""
    M = matrix_of(k.graph)
    if k.laplacian:
        degrees = M.sum(axis=1)
        M = M - np.diag(degrees)
        if k.laplacian == "normalized":
            root = np.array([1 / math.sqrt(d) if d > 0 else 0.0 for d in degrees])
            M = root[:, None] * M * root
    halvings = 8
    M = M * float(k.decay) / 2**halvings
    total = term = np.eye(len(M))
    for m in range(1, 25):
        term = term @ M / m
        total = total + term
    for _ in range(halvings):
        total = total @ total
    return float(total[_places(k, x, y)])


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
