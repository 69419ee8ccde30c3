"""Least squares on centres: data, the dense solution, and the gradient."""

import numpy as np

from mercer.engines.passes.base import row_pass
from mercer.solvers import Centred, Falkon


def data(n=400, m=30, t=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    y = np.column_stack([np.sin((i + 1) * X[:, 0]) + X[:, 1] + 2.0 for i in range(t)])
    return X, X[rng.choice(n, m, replace=False)], y, rng.uniform(0.0, 2.0, n)


def dense(K, KZ, y, w, alpha, offset):
    """Return the values Ka + b of the direct solution."""
    c, W = K.T @ w, w.sum()
    H, B = K.T @ (w[:, None] * K) + alpha * KZ, K.T @ (w[:, None] * y)
    if offset:
        H, B = H - np.outer(c, c) / W, B - np.outer(c, w @ y) / W
    a = np.linalg.lstsq(H, B, rcond=1e-15)[0]
    return K @ a + ((w @ y - c @ a) / W if offset else 0.0)


def solve(k, X, Z, y, w, alpha, offset=False, **options):
    rows = row_pass(k, X, Z, y, w)
    problem = Centred(rows, k(Z), alpha, offset, y.shape[1])
    return Falkon(**options).solve(problem)


def gradient(K, KZ, y, w, alpha, a, b):
    R = K.T @ (w[:, None] * (y - K @ a - b)) - alpha * KZ @ a
    rest = y - w @ y / w.sum() if b.any() else y
    return np.linalg.norm(R, axis=0) / np.linalg.norm(K.T @ (w[:, None] * rest), axis=0)
