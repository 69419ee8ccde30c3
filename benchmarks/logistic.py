"""KernelLogisticRegression: Newton steps against potrf and a pass over K; digits against a GPC.

The peer is `GaussianProcessClassifier` on a tenth of the digits: with its default optimizer, which
looks for a length scale too, and without one, which is like for like.
"""

from __future__ import annotations

import warnings

import limits
import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF as PeerRBF
from timing import Row, best_of

from mercer import RBF, KernelLogisticRegression
from mercer.losses import Logistic
from mercer.solvers import IRLS, SmoothERM

__all__ = ["rows"]


def rows(n: int = 4000, d: int = 10, rounds: int = 3) -> list[Row]:
    """Time a Newton step and a fit of two classes, and the ten classes of the digits."""
    return [*_two_classes(n, d, rounds), *_digits(rounds)]


def _two_classes(n: int, d: int, rounds: int) -> list[Row]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    y = np.where(X[:, 0] * X[:, 1] + 0.5 * rng.standard_normal(n) > 0, 1.0, -1.0)
    K, v = RBF(3.0)(X), rng.standard_normal(n)
    ridge = K.copy()
    ridge.flat[:: n + 1] += 1.0
    problem = SmoothERM(K, y, Logistic(), 0.01)
    steps = IRLS().solve(problem).n_iter
    model = KernelLogisticRegression(RBF(3.0), alpha=0.01)

    all_of_them, one, factor, product, fit = best_of(
        rounds,
        lambda: IRLS().solve(problem),
        lambda: IRLS(max_iter=1).solve(problem),
        lambda: limits.potrf(ridge.copy()),
        lambda: K @ v,
        lambda: model.fit(X, y),
    )
    copy = best_of(rounds, ridge.copy)[0]
    each = (all_of_them - one) / (steps - 1) if steps > 1 else all_of_them
    note = f"{steps} Newton steps, {all_of_them:.2f} s in all"
    limit = factor - copy + product
    return [
        Row(f"a Newton step n={n}", each, limit=limit, limit_name="potrf+Kv", note=note),
        Row(f"two classes n={n}, fit", fit, note=f"{model.n_iter_} Newton steps"),
    ]


def _digits(rounds: int) -> list[Row]:
    X, y = load_digits(return_X_y=True)
    X = X / 16
    fixed, scaled = PeerRBF(1.0), 1.0 * PeerRBF(1.0)
    peers = {
        "RBF(1.0)": GaussianProcessClassifier(fixed),
        "1.0*RBF(1.0)": GaussianProcessClassifier(scaled),
        "RBF(1.0), optimizer=None": GaussianProcessClassifier(fixed, optimizer=None),
    }
    model = KernelLogisticRegression(RBF(1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        ours, *theirs = best_of(
            rounds,
            lambda: model.fit(X, y),
            *(lambda peer=peer: peer.fit(X[::10], y[::10]) for peer in peers.values()),
        )
    note = f"{model.n_iter_} Newton steps, gap {model.solution_.gap:.0e}"
    work = f"softmax of digits n={len(y)}"
    return [
        Row(work, ours, seconds, f"GPC {name} n=180", note=note)
        for name, seconds in zip(peers, theirs, strict=True)
    ]
