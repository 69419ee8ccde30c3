"""Ridge regressions, Gram matrices, processes, neighbours and exact logistic regressions."""

from __future__ import annotations

from collections.abc import Callable
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
from mercer import RBF, Laplacian, Matern, Polynomial

from .base import PEER, Work, Works, classes, regression, sizes, width

__all__ = ["WORKS"]


def ridge_fit(n: int, d: int, alpha: float = 1.0) -> Works:
    """An exact fit."""
    X, y = regression(n, d)
    return {
        "mercer": lambda: mercer.KernelRidge(RBF(width(d)), alpha=alpha).fit(X, y),
        PEER: lambda: PeerRidge(kernel="rbf", gamma=1 / d, alpha=alpha).fit(X, y),
    }


def ridge_predict(n: int, d: int, rows: int = 1000) -> Works:
    """Predictions by a fit of n rows."""
    X, y = regression(n, d)
    New = regression(rows, d, 1)[0]
    ours = mercer.KernelRidge(RBF(width(d))).fit(X, y)
    peer = PeerRidge(kernel="rbf", gamma=1 / d).fit(X, y)
    return {"mercer": lambda: ours.predict(New), PEER: lambda: peer.predict(New)}


def gram(n: int, d: int, kernel: str = "rbf") -> Works:
    """A Gram matrix."""
    X, _ = regression(n, d)
    ours, peer = {
        "rbf": (RBF(width(d)), lambda: rbf_kernel(X, gamma=1 / d)),
        "laplacian": (Laplacian(float(d)), lambda: laplacian_kernel(X, gamma=1 / d)),
        "poly": (
            Polynomial(3, 1.0, length_scale=d**0.5),
            lambda: polynomial_kernel(X, degree=3, gamma=1 / d, coef0=1.0),
        ),
        "matern": (Matern(width(d), nu=1.5), partial_matern(X, width(d))),
    }[kernel]
    return {"mercer": lambda: ours(X), PEER: peer}


def partial_matern(X: np.ndarray, scale: float) -> Callable[[], np.ndarray]:
    """Return scikit-learn's Matérn matrix of rows."""
    kernel = peer_kernels.Matern(scale, nu=1.5)
    return lambda: kernel(X)


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


def _processes(d: int, optimizer: Any) -> tuple[Any, Any]:
    noise = 0.1
    if optimizer is None:
        ours = mercer.GaussianProcessRegressor(RBF(width(d)), noise=noise, optimizer=None)
        return ours, PeerGPR(peer_kernels.RBF(width(d)), alpha=noise, optimizer=None)
    ours = mercer.GaussianProcessRegressor(1.0 * RBF(width(d)))
    peer = peer_kernels.ConstantKernel() * peer_kernels.RBF(width(d)) + peer_kernels.WhiteKernel(
        noise
    )
    return ours, PeerGPR(peer, normalize_y=True)


def gp_fit(n: int, d: int, optimizer: str = "none") -> Works:
    """A fit, with or without a search of the parameters."""
    X, y = regression(n, d)
    ours, peer = _processes(d, None if optimizer == "none" else optimizer)
    return {"mercer": lambda: ours.fit(X, y), PEER: lambda: peer.fit(X, y)}


def gp_predict(n: int, d: int, rows: int = 100, std: str = "yes") -> Works:
    """Means and standard deviations."""
    X, y = regression(n, d)
    New, told = regression(rows, d, 1)[0], std == "yes"
    ours, peer = _processes(d, None)
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
        + sizes((1000, 3), (1000, 30), (1000, 100), (1000, 300)),
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
        sizes((100, 3), (1000, 20), (3000, 200), kernel="rbf")
        + sizes((100, 3), (1000, 20), kernel="laplacian")
        + sizes((100, 3), (3000, 20), kernel="poly")
        + sizes((100, 3), (2000, 20), kernel="matern"),
        others={"kernel": ("rbf", "laplacian", "poly", "matern")},
    ),
    "GP fit": Work(
        "Gaussian processes",
        gp_fit,
        sizes((60, 3), (300, 10), (1500, 10))
        + sizes((60, 3), (300, 10), (1000, 10), optimizer="lbfgs"),
        most=1500,
    ),
    "GP predict": Work(
        "Gaussian processes",
        gp_predict,
        sizes((60, 3), (300, 10), (1500, 10), rows=100)
        + sizes((60, 3), (1500, 10), rows=1)
        + sizes((60, 3), (1500, 10), rows=1, std="no"),
        most=1500,
        others={"rows": (1, 100, 1000), "std": ("yes", "no")},
    ),
    "GP classifier fit": Work(
        "Gaussian processes", gpc_fit, sizes((60, 3), (300, 10), (1000, 10)), most=1000
    ),
    "neighbours predict": Work(
        "Neighbours",
        neighbors_predict,
        sizes((300, 5), (3000, 20), rows=1) + sizes((3000, 20), (20000, 10), rows=1000),
        20000,
        {"rows": (1, 100, 1000)},
    ),
    "logistic fit": Work(
        "Exact logistic regression", logistic_fit, sizes((100, 5), (500, 10), (2000, 20)), 1500
    ),
}
