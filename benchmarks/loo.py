"""Twenty penalties by exact leave-one-out, n=3000, against GridSearchCV with 5 folds."""

from __future__ import annotations

import numpy as np
from sklearn.kernel_ridge import KernelRidge as Peer
from sklearn.model_selection import GridSearchCV
from timing import Row, best_of

from mercer import RBF, KernelRidge

__all__ = ["rows"]


def rows(n: int = 3000, d: int = 20, rounds: int = 2) -> list[Row]:
    """Time the choice of alpha; check loo() against refits at a size where n fits are bearable."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(n)
    alphas = np.logspace(-6, 3, 20)
    k = RBF(4.0)
    ours, peer = best_of(
        rounds,
        lambda: KernelRidge(k, alpha="loo", alphas=alphas).fit(X, y),
        lambda: GridSearchCV(
            Peer(kernel="rbf", gamma=1 / 32),
            {"alpha": alphas},
            cv=5,
            scoring="neg_mean_squared_error",
        ).fit(X, y),
    )
    m = 200
    small = KernelRidge(k, alpha=1e-3).fit(X[:m], y[:m])
    refits = []
    for i in range(m):
        rows = np.arange(m) != i
        model = KernelRidge(k, alpha=1e-3).fit(X[:m][rows], y[:m][rows])
        refits.append(model.predict(X[[i]])[0])
    note = f"loo() against {m} refits: {np.abs(small.loo() - refits).max():.0e}"
    return [Row(f"20 alphas by LOO n={n}", ours, peer, "GridSearchCV(cv=5)", note=note)]
