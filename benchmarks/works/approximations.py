"""Features that stand for a kernel, and models in the span of centres."""

from __future__ import annotations

from sklearn.kernel_approximation import Nystroem as PeerNystroem, RBFSampler
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline

import mercer
from mercer import RBF

from .base import PEER, Work, Works, classes, regression, sizes, width

__all__ = ["WORKS"]


def nystroem_fit(n: int, d: int, m: int = 300) -> Works:
    """Landmarks drawn at random and their root."""
    X, _ = regression(n, d)
    m = min(m, n)
    ours = mercer.Nystroem(RBF(width(d)), m, landmarks="uniform", random_state=0)
    peer = PeerNystroem(gamma=1 / d, n_components=m, random_state=0)
    return {"mercer": lambda: ours.fit(X), PEER: lambda: peer.fit(X)}


def nystroem_transform(n: int, d: int, m: int = 300) -> Works:
    """Features of n rows."""
    X, _ = regression(n, d)
    m = min(m, n)
    ours = mercer.Nystroem(RBF(width(d)), m, landmarks="uniform", random_state=0).fit(X)
    peer = PeerNystroem(gamma=1 / d, n_components=m, random_state=0).fit(X)
    return {"mercer": lambda: ours.transform(X), PEER: lambda: peer.transform(X)}


def fourier_transform(n: int, d: int, m: int = 300) -> Works:
    """Random features of n rows."""
    X, _ = regression(n, d)
    ours = mercer.RandomFourierFeatures(RBF(width(d)), m, method="plain", random_state=0).fit(X)
    peer = RBFSampler(gamma=1 / d, n_components=m, random_state=0).fit(X)
    return {"mercer": lambda: ours.transform(X), PEER: lambda: peer.transform(X)}


def ridge_on_centers(n: int, d: int, m: int = 300) -> Works:
    """A ridge regression in the span of centres, the default tol."""
    X, y = regression(n, d)
    m = min(m, n)
    ours = mercer.KernelRidge(
        RBF(width(d)), alpha=1.0, solver="falkon", n_centers=m, random_state=0
    )
    peer = make_pipeline(PeerNystroem(gamma=1 / d, n_components=m, random_state=0), Ridge(1.0))
    return {"mercer": lambda: ours.fit(X, y), f"{PEER}, Nystroem + Ridge": lambda: peer.fit(X, y)}


def logistic_on_centers(n: int, d: int, m: int = 300) -> Works:
    """A logistic regression in the span of centres, the default tol."""
    X, y = classes(n, d)
    m = min(m, n)
    ours = mercer.KernelLogisticRegression(
        RBF(width(d)), alpha=1.0, solver="falkon", n_centers=m, random_state=0
    )
    peer = make_pipeline(
        PeerNystroem(gamma=1 / d, n_components=m, random_state=0),
        LogisticRegression(C=1.0, max_iter=1000),
    )
    name = f"{PEER}, Nystroem + LogisticRegression"
    return {"mercer": lambda: ours.fit(X, y), name: lambda: peer.fit(X, y)}


WORKS: dict[str, Work] = {
    "Nystroem fit": Work(
        "Approximations",
        nystroem_fit,
        sizes((20000, 20), m=300) + sizes((20000, 20), m=1000),
        20000,
        {"m": (50, 300)},
    ),
    "Nystroem transform": Work(
        "Approximations",
        nystroem_transform,
        sizes((300, 20), (20000, 20), m=300) + sizes((20000, 20), m=1000),
        20000,
        {"m": (50, 300)},
    ),
    "Fourier transform": Work(
        "Approximations", fourier_transform, sizes((300, 10), (20000, 20), m=300), 20000
    ),
    "ridge on centres": Work(
        "Approximations",
        ridge_on_centers,
        sizes((2000, 10), (20000, 20), (100000, 20), m=300)
        + sizes((20000, 20), (50000, 20), m=1500),
        20000,
        {"m": (50, 300, 1000)},
    ),
    "logistic on centres": Work(
        "Approximations",
        logistic_on_centers,
        sizes((2000, 10), (20000, 20), m=300) + sizes((20000, 20), m=1000),
        20000,
        {"m": (50, 300)},
    ),
}
