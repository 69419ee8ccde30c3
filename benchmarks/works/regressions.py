"""Ridge regressions, Gram matrices, processes, neighbours and exact logistic regressions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.gaussian_process import (
    GaussianProcessClassifier as PeerGPC,
    GaussianProcessRegressor as PeerGPR,
    kernels as peer_kernels,
)
from sklearn.kernel_approximation import Nystroem
from sklearn.kernel_ridge import KernelRidge as PeerRidge
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import laplacian_kernel, polynomial_kernel, rbf_kernel
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

import mercer
from mercer import RBF, Laplacian, Matern, Polynomial, RationalQuadratic

from .base import PEER, Work, Works, classes, regression, sizes, width

__all__ = ["WORKS"]


def ridge_fit(n: int, d: int, alpha: float = 1.0, outputs: int = 1, weights: str = "no") -> Works:
    """An exact fit."""
    X, y = regression(n, d)
    if outputs > 1:
        y = y[:, None] + np.random.default_rng(2).standard_normal((n, outputs))
    w = np.random.default_rng(1).uniform(0.5, 2.0, n) if weights == "yes" else None
    return {
        "mercer": lambda: mercer.KernelRidge(RBF(width(d)), alpha=alpha).fit(X, y, w),
        PEER: lambda: PeerRidge(kernel="rbf", gamma=1 / d, alpha=alpha).fit(X, y, w),
    }


def ridge_predict(n: int, d: int, rows: int = 1000) -> Works:
    """Predictions by a fit of n rows."""
    X, y = regression(n, d)
    New = regression(rows, d, 1)[0]
    ours = mercer.KernelRidge(RBF(width(d))).fit(X, y)
    peer = PeerRidge(kernel="rbf", gamma=1 / d).fit(X, y)
    return {"mercer": lambda: ours.predict(New), PEER: lambda: peer.predict(New)}


def gram(n: int, d: int, kernel: str = "rbf", dtype: str = "float64", rows: int = 0) -> Works:
    """A Gram matrix of n rows, or one of so many others with them."""
    X, Y = (np.random.default_rng(i).standard_normal((m, d)) for i, m in enumerate((n, rows)))
    X, Y = X.astype(dtype), Y.astype(dtype)
    gamma, scale = 1 / d, width(d)
    pairs: dict[str, tuple[Any, Callable[..., np.ndarray]]] = {
        "rbf": (RBF(scale), partial(rbf_kernel, gamma=gamma)),
        "laplacian": (Laplacian(float(d)), partial(laplacian_kernel, gamma=gamma)),
        "poly": (
            Polynomial(3, 1.0, length_scale=d**0.5),
            partial(polynomial_kernel, degree=3, gamma=gamma, coef0=1.0),
        ),
        "matern": (Matern(scale, nu=1.5), peer_kernels.Matern(scale, nu=1.5)),
        "matern12": (Matern(scale, nu=0.5), peer_kernels.Matern(scale, nu=0.5)),
        "matern52": (Matern(scale, nu=2.5), peer_kernels.Matern(scale, nu=2.5)),
        "rational": (
            RationalQuadratic(scale, alpha=1.5),
            peer_kernels.RationalQuadratic(scale, alpha=1.5),
        ),
        "sum": (
            2.0 * RBF(scale) + Matern(2 * scale, nu=2.5),
            2.0 * peer_kernels.RBF(scale) + peer_kernels.Matern(2 * scale, nu=2.5),
        ),
        "product": (
            RBF(scale) * RationalQuadratic(2 * scale),
            peer_kernels.RBF(scale) * peer_kernels.RationalQuadratic(2 * scale),
        ),
    }
    ours, peer = pairs[kernel]
    if not rows:
        return {"mercer": lambda: ours(X), PEER: lambda: peer(X)}
    return {"mercer": lambda: ours(Y, X), PEER: lambda: peer(Y, X)}


def neighbors_predict(n: int, d: int, rows: int = 100) -> Works:
    """Votes of the five nearest points."""
    X, y = classes(n, d)
    New = classes(rows, d, 1)[0]
    ours = mercer.KernelNeighborsClassifier(RBF(width(d)), 5).fit(X, y)
    peer = KNeighborsClassifier(5, algorithm="brute").fit(X, y)
    return {"mercer": lambda: ours.predict(New), PEER: lambda: peer.predict(New)}


def logistic_fit(n: int, d: int, alpha: float = 1.0) -> Works:
    """An exact logistic regression; the peer's is on features of all rows."""
    X, y = classes(n, d)
    ours = mercer.KernelLogisticRegression(RBF(width(d)), alpha=alpha)
    peer = make_pipeline(
        Nystroem(gamma=1 / d, n_components=n, random_state=0),
        LogisticRegression(C=1 / alpha, max_iter=1000),
    )
    name = f"{PEER}, Nystroem of all rows + LogisticRegression"
    return {"mercer": lambda: ours.fit(X, y), name: lambda: peer.fit(X, y)}


# ---- Gaussian processes ----


def _processes(d: int, optimizer: str, kernel: str) -> tuple[Any, Any]:
    noise, scale = 0.1, width(d)
    each = np.full(d, scale)
    ours, theirs = {
        "rbf": (RBF(scale), peer_kernels.RBF(scale)),
        "matern": (Matern(scale, nu=1.5), peer_kernels.Matern(scale, nu=1.5)),
        "ard": (RBF(each), peer_kernels.RBF(each)),
        "sum": (
            RBF(scale) + Matern(2 * scale, nu=2.5),
            peer_kernels.RBF(scale) + peer_kernels.Matern(2 * scale, nu=2.5),
        ),
    }[kernel]
    if optimizer == "none":
        one = mercer.GaussianProcessRegressor(ours, noise=noise, optimizer=None)
        return one, PeerGPR(theirs, alpha=noise, optimizer=None)
    peer = peer_kernels.ConstantKernel() * theirs + peer_kernels.WhiteKernel(noise)
    return mercer.GaussianProcessRegressor(1.0 * ours), PeerGPR(peer, normalize_y=True)


def gp_fit(n: int, d: int, optimizer: str = "none", kernel: str = "rbf") -> Works:
    """A fit, with or without a search of the parameters."""
    X, y = regression(n, d)
    ours, peer = _processes(d, optimizer, kernel)
    return {"mercer": lambda: ours.fit(X, y), PEER: lambda: peer.fit(X, y)}


def gp_predict(n: int, d: int, rows: int = 100, std: str = "yes", kernel: str = "rbf") -> Works:
    """Means and standard deviations."""
    X, y = regression(n, d)
    New, told = regression(rows, d, 1)[0], std == "yes"
    ours, peer = _processes(d, "none", kernel)
    ours.fit(X, y), peer.fit(X, y)
    return {
        "mercer": lambda: ours.predict(New, return_std=told),
        PEER: lambda: peer.predict(New, return_std=told),
    }


def gpc_fit(n: int, d: int) -> Works:
    """A fit of two classes by Laplace's method, parameters fixed."""
    X, y = classes(n, d)
    ours = mercer.GaussianProcessClassifier(RBF(width(d)), optimizer=None)
    peer = PeerGPC(peer_kernels.RBF(width(d)), optimizer=None)
    return {"mercer": lambda: ours.fit(X, y), PEER: lambda: peer.fit(X, y)}


WORKS: dict[str, Work] = {
    "KernelRidge fit": Work(
        "KernelRidge",
        ridge_fit,
        sizes((50, 3), (100, 10), (300, 10), (300, 200), (1000, 10), (3000, 20), (6000, 20))
        + sizes((1000, 3), (1000, 30), (1000, 100), (1000, 300))
        + sizes((300, 10), (1000, 10), outputs=5)
        + sizes((300, 10), (1000, 10), weights="yes"),
        others={"outputs": (1, 1, 1, 3), "weights": ("no", "no", "yes")},
    ),
    "KernelRidge predict": Work(
        "KernelRidge",
        ridge_predict,
        sizes((100, 3), (1000, 20), (5000, 20), (3000, 200), rows=1000)
        + sizes((50, 3), (300, 10), (1000, 20), (5000, 20), (3000, 200), rows=1),
        others={"rows": (1, 10, 1000)},
    ),
    "Gram matrix": Work(
        "Gram",
        gram,
        sizes((10, 1), (100, 3), (300, 10), (1000, 1), (1000, 20), kernel="rbf")
        + sizes((3000, 200), (1000, 500), (5000, 20), kernel="rbf")
        + sizes((100, 3), (1000, 20), (3000, 10), kernel="laplacian")
        + sizes((100, 3), (1000, 10), (3000, 20), kernel="poly")
        + sizes((100, 3), (300, 10), (1000, 20), (2000, 20), (5000, 20), kernel="matern")
        + sizes((100, 3), (1000, 20), kernel="matern12")
        + sizes((100, 3), (1000, 20), kernel="matern52")
        + sizes((100, 3), (1000, 20), kernel="rational")
        + sizes((100, 3), (1000, 20), kernel="sum")
        + sizes((100, 3), (1000, 20), kernel="product")
        + sizes((100, 3), (1000, 20), (3000, 20), kernel="rbf", dtype="float32")
        + sizes((1000, 20), kernel="rbf", rows=1)
        + sizes((3000, 20), kernel="matern", rows=100),
        others={
            "kernel": (
                *("rbf", "laplacian", "poly", "matern", "matern12", "matern52"),
                *("rational", "sum", "product"),
            ),
            "dtype": ("float64", "float64", "float32"),
            "rows": (0, 0, 1, 100),
        },
    ),
    "GP fit": Work(
        "Gaussian processes",
        gp_fit,
        sizes((60, 3), (300, 10), (1500, 10))
        + sizes((60, 3), (300, 10), (1000, 10), optimizer="lbfgs")
        + sizes((100, 3), (1000, 10), kernel="matern")
        + sizes((100, 5), (300, 5), optimizer="lbfgs", kernel="matern")
        + sizes((100, 5), (300, 5), optimizer="lbfgs", kernel="ard")
        + sizes((100, 5), (300, 5), optimizer="lbfgs", kernel="sum"),
        most=1500,
        others={"kernel": ("rbf", "matern", "ard", "sum")},
    ),
    "GP predict": Work(
        "Gaussian processes",
        gp_predict,
        sizes((60, 3), (300, 10), (1500, 10), rows=100)
        + sizes((60, 3), (1500, 10), rows=1)
        + sizes((60, 3), (1500, 10), rows=1, std="no")
        + sizes((300, 5), rows=100, kernel="matern")
        + sizes((300, 5), rows=1, kernel="sum"),
        most=1500,
        others={
            "rows": (1, 100, 1000),
            "std": ("yes", "no"),
            "kernel": ("rbf", "matern", "ard", "sum"),
        },
    ),
    "GP classifier fit": Work(
        "Gaussian processes", gpc_fit, sizes((60, 3), (300, 10), (1000, 10)), most=1000
    ),
    "neighbours predict": Work(
        "Neighbours",
        neighbors_predict,
        sizes((300, 5), (3000, 20), (20000, 10), rows=1)
        + sizes((300, 5), (3000, 20), rows=100)
        + sizes((3000, 20), (20000, 10), rows=1000),
        20000,
        {"rows": (1, 100, 1000)},
    ),
    "logistic fit": Work(
        "Exact logistic regression",
        logistic_fit,
        sizes((50, 3), (100, 5), (500, 10), (2000, 20)),
        1500,
    ),
}
