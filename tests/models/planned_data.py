"""What the tests of plans share: a kernel, and rows that are the same whatever ran before."""

import numpy as np

from mercer import RBF

K = RBF(2.0)


def data(n, d=5):
    rng = np.random.default_rng(n + d)
    X = rng.standard_normal((n, d))
    return X, np.sin(X[:, 0]) + 0.3 * rng.standard_normal(n)
