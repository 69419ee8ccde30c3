"""KernelRidge.fit at n=8000 against scikit-learn's and against raw potrf plus the Gram matrix."""

from __future__ import annotations

import limits
import numpy as np
from sklearn.kernel_ridge import KernelRidge as Peer
from timing import Row, best_of

from mercer import RBF, KernelRidge

__all__ = ["rows"]


def rows(n: int = 8000, d: int = 20, rounds: int = 3) -> list[Row]:
    """Time the fit."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(n)
    k = RBF(4.0)

    def raw() -> None:
        K = k(X)
        K.flat[:: n + 1] += 1.0
        limits.potrf(K)

    ours, peer, limit = best_of(
        rounds,
        lambda: KernelRidge(k, alpha=1.0).fit(X, y),
        lambda: Peer(kernel="rbf", gamma=1 / 32, alpha=1.0).fit(X, y),
        raw,
    )
    residual = KernelRidge(k, alpha=1.0).fit(X[:1000], y[:1000]).solution_.residual
    note = f"residual {residual:.0e} at n=1000"
    return [Row(f"KernelRidge.fit n={n}", ours, peer, "scikit-learn", limit, "Gram+potrf", note)]
