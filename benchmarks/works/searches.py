"""Grids of parameters."""

from __future__ import annotations

import numpy as np
from sklearn.kernel_ridge import KernelRidge as PeerRidge
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC as PeerSVC

import mercer
from mercer import RBF

from .base import PEER, Work, Works, classes, regression, sizes

__all__ = ["WORKS"]


def ridge_search(n: int, d: int, jobs: int = 1) -> Works:
    """Five scales by ten penalties down to 1e-4, five folds."""
    X, y = regression(n, d)
    gammas, alphas = np.logspace(-1.5, 1.5, 5) / d, np.logspace(-4, 1, 10)
    ours = {"kernel__length_scale": np.sqrt(0.5 / gammas), "alpha": alphas}
    model, theirs = PeerRidge(kernel="rbf"), {"gamma": gammas, "alpha": alphas}
    return {
        "mercer": lambda: mercer.search(mercer.KernelRidge(RBF()), ours, X, y, cv=5),
        PEER: lambda: GridSearchCV(model, theirs, cv=5, n_jobs=jobs).fit(X, y),
    }


def svc_search(n: int, d: int, jobs: int = 1) -> Works:
    """Three scales by six C, five folds."""
    X, y = classes(n, d)
    gammas, Cs = np.array([0.3, 1.0, 3.0]) / d, np.logspace(-1, 2, 6)
    ours = {"kernel__length_scale": np.sqrt(0.5 / gammas), "C": Cs}
    theirs = {"gamma": gammas, "C": Cs}
    return {
        "mercer": lambda: mercer.search(mercer.SVC(RBF()), ours, X, y, cv=5),
        PEER: lambda: GridSearchCV(PeerSVC(), theirs, cv=5, n_jobs=jobs).fit(X, y),
    }


WORKS: dict[str, Work] = {
    "search of ridges": Work(
        "Search",
        ridge_search,
        sizes((300, 10), (1000, 10)) + sizes((1000, 10), jobs=2),
        1000,
    ),
    "search of SVCs": Work(
        "Search", svc_search, sizes((300, 10), (1000, 20)) + sizes((1000, 20), jobs=2), 1000
    ),
}
