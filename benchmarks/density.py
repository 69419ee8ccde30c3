"""Kernel densities: 20000 training points, 10000 queries, three columns; and a grid of one column.

The figure: at least ten times faster than scikit-learn's KernelDensity and scipy's gaussian_kde.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import sqrtm
from scipy.stats import gaussian_kde
from sklearn.neighbors import KernelDensity as Peer
from timing import Row, best_of

from mercer import KernelDensity

__all__ = ["rows"]


def rows(n: int = 20000, m: int = 10000, d: int = 3, rounds: int = 3) -> list[Row]:
    """Time log densities against both peers, and a grid by FFT against the same values directly."""
    rng = np.random.default_rng(0)
    X, Q = rng.standard_normal((n, d)), rng.standard_normal((m, d))
    ours = KernelDensity(0.3).fit(X)
    peer = Peer(bandwidth=0.3).fit(X)
    scipys = gaussian_kde(X.T, bw_method=0.3)
    full = KernelDensity(sqrtm(scipys.covariance)).fit(X)
    ours.score_samples(Q[:64])  # compiles
    grid_rows = X[:, :1]
    on_grid = KernelDensity("silverman").fit(grid_rows)
    (axis,), binned = on_grid.density_on_grid()
    direct = np.exp(on_grid.score_samples(axis[:, None]))
    P = Q[:1000]
    gaps = [
        float(np.abs(ours.score_samples(P) - peer.score_samples(P)).max()),
        float(np.abs(full.score_samples(P) - scipys.logpdf(P.T)).max()),
        float(np.abs(np.exp(full.score_samples(P)) / scipys.evaluate(P.T) - 1).max()),
    ]
    flat = np.linspace(-700.0, 0.0, 2**14)
    out = np.empty_like(flat)

    def powers() -> None:
        for _ in range(n * m // len(flat)):
            np.exp(flat, out=out)

    mine, same, fast, slow, exps, tree, logs, plain = best_of(
        rounds,
        lambda: ours.score_samples(Q),
        lambda: full.score_samples(Q),
        on_grid.density_on_grid,
        lambda: on_grid.score_samples(axis[:, None]),
        powers,
        lambda: peer.score_samples(Q),
        lambda: scipys.logpdf(Q.T),
        lambda: scipys.evaluate(Q.T),
    )
    work = f"density n={n}, {m} queries, d={d}"
    error = float(np.abs(binned - direct).max() / direct.max())
    return [
        Row(
            work,
            mine,
            tree,
            "KernelDensity of scikit-learn",
            exps,
            "numpy's exp, one thread",
            note=f"target 10×; largest difference {gaps[0]:.1e}",
        ),
        Row(
            f"{work}, full bandwidth",
            same,
            logs,
            "gaussian_kde.logpdf",
            note=f"target 10×; largest difference {gaps[1]:.1e}",
        ),
        Row(
            f"{work}, full bandwidth",
            same,
            plain,
            "gaussian_kde.evaluate",
            note=f"target 10×; largest relative difference {gaps[2]:.1e}",
        ),
        Row(
            f"density on a grid of {len(axis)}, n={n}",
            fast,
            slow,
            "score_samples",
            note=f"largest difference {error:.1e} of the peak",
        ),
    ]
