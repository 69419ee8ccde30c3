"""Spectrum kernel of DNA strings: the Gram matrix from the list, and features of many strings."""

from __future__ import annotations

import tracemalloc

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from timing import Row, best_of

from mercer import Spectrum

__all__ = ["rows"]

TARGET = 0.3  # seconds for the matrix of 3000 strings of 60 letters


def dna(n: int, length: int) -> list[str]:
    """Return n random strings over four letters."""
    letters = np.frombuffer(b"ACGT", dtype=np.uint8)
    draws = np.random.default_rng(0).integers(0, 4, (n, length))
    return [row.tobytes().decode() for row in letters[draws]]


def rows(
    n: int = 3000, many: int = 100_000, length: int = 60, p: int = 5, rounds: int = 5
) -> list[Row]:
    """Time k(X) against scikit-learn's counts and SciPy's product, and features of many strings."""
    X, k = dna(n, length), Spectrum(p)

    def peer() -> np.ndarray:
        words = CountVectorizer(analyzer="char", ngram_range=(p, p), lowercase=False)
        phi = words.fit_transform(X)
        return (phi @ phi.T).toarray()

    if not (k(X) == peer()).all():  # compiles, too
        raise AssertionError("the two matrices differ")
    ours, theirs = best_of(rounds, lambda: k(X), peer)
    X = dna(many, length)
    (took,) = best_of(2, lambda: k.features(X))
    tracemalloc.start()
    phi = k.features(X)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    kept = phi.data.nbytes + phi.indices.nbytes + phi.indptr.nbytes
    return [
        Row(
            f"Spectrum({p}) n={n}, {length} letters",
            ours,
            theirs,
            "CountVectorizer + product",
            TARGET,
            "target",
        ),
        Row(
            f"Spectrum({p}) features n={many}",
            took,
            note=f"{kept / 1e6:.0f} MB sparse, at most {peak / 1e6:.0f} MB while they are made; "
            "target 1000 MB",
        ),
    ]
