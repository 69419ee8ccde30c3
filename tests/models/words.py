"""Words, and a kernel on them, for tests of models on points that are no vectors."""

import numpy as np


def words(n, seed=0):
    """Return n words over two letters."""
    rng = np.random.default_rng(seed)
    return ["".join(rng.choice(["a", "b"], rng.integers(1, 9))) for _ in range(n)]


def alike(s, t):
    """Count the letters that two words share, and compare their lengths."""
    return s.count("a") * t.count("a") + s.count("b") * t.count("b") + 1.0
