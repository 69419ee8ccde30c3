"""Support vector machines, beside scikit-learn and its extension by Intel."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn import svm as peer_svm

import mercer
from mercer import RBF, Polynomial

from .base import PEER, Work, Works, blobs, classes, regression, sizes, width

try:
    from sklearnex import svm as intel_svm
except ImportError:
    intel_svm = None

INTEL = "scikit-learn-intelex"

__all__ = ["WORKS"]


def _svc(d: int, C: float, kernel: str) -> dict[str, Any]:
    if kernel == "poly":
        ours: Any = Polynomial(3, 1.0, length_scale=d**0.5)
        theirs: dict[str, Any] = {"kernel": "poly", "degree": 3, "gamma": 1.0 / d, "coef0": 1.0}
    else:
        ours, theirs = RBF(width(d)), {"gamma": 1.0 / d}
    models = {"mercer": mercer.SVC(ours, C=C), PEER: peer_svm.SVC(C=C, **theirs)}
    if intel_svm is not None:
        models[INTEL] = intel_svm.SVC(C=C, **theirs)
    return models


def svc_fit(n: int, d: int, C: float = 1.0, kernel: str = "rbf") -> Works:
    """A fit of two classes."""
    X, y = classes(n, d)
    return {name: lambda m=m: m.fit(X, y) for name, m in _svc(d, C, kernel).items()}


def svc_predict(n: int, d: int, rows: int = 1000, C: float = 1.0) -> Works:
    """Predictions by a fit of n rows."""
    X, y = classes(n, d)
    New = classes(rows, d, 1)[0]
    models = {name: m.fit(X, y) for name, m in _svc(d, C, "rbf").items()}
    return {name: lambda m=m: m.predict(New) for name, m in models.items()}


def svr_fit(n: int, d: int, C: float = 1.0) -> Works:
    """A fit of numbers."""
    X, y = regression(n, d)
    ours = mercer.SVR(RBF(width(d)), C=C)
    return {
        "mercer": lambda: ours.fit(X, y),
        PEER: lambda: peer_svm.SVR(C=C, gamma=1 / d).fit(X, y),
    }


def one_class_fit(n: int, d: int, nu: float = 0.2) -> Works:
    """A fit without targets."""
    X, _ = regression(n, d)
    return {
        "mercer": lambda: mercer.OneClassSVM(RBF(width(d)), nu=nu).fit(X),
        PEER: lambda: peer_svm.OneClassSVM(nu=nu, gamma=1 / d).fit(X),
    }


def nu_svc_fit(n: int, d: int, nu: float = 0.3) -> Works:
    """A fit of two classes, of which a share may be wrong."""
    X, y = classes(n, d)
    ours = mercer.NuSVC(RBF(width(d)), nu=nu)
    return {
        "mercer": lambda: ours.fit(X, y),
        PEER: lambda: peer_svm.NuSVC(nu=nu, gamma=1 / d).fit(X, y),
    }


def many_classes_fit(n: int, d: int, k: int = 6, C: float = 1.0) -> Works:
    """A machine for each pair of classes."""
    X = blobs(n, d, k)
    rng = np.random.default_rng(1)
    y = ((X[:, : min(d, 3)] * rng.standard_normal(min(d, 3))).sum(axis=1) > 0) + 2 * (
        np.arange(n) % (k // 2)
    )
    return {name: lambda m=m: m.fit(X, y) for name, m in _svc(d, C, "rbf").items()}


def svr_predict(n: int, d: int, rows: int = 1000) -> Works:
    """Predictions of numbers by a fit of n rows."""
    X, y = regression(n, d)
    New = regression(rows, d, 1)[0]
    ours = mercer.SVR(RBF(width(d))).fit(X, y)
    peer = peer_svm.SVR(gamma=1 / d).fit(X, y)
    return {"mercer": lambda: ours.predict(New), PEER: lambda: peer.predict(New)}


WORKS: dict[str, Work] = {
    "SVC fit": Work(
        "SVC",
        svc_fit,
        sizes((50, 3), (100, 10), (300, 10), (300, 200), (1000, 10), (1000, 100), (3000, 20))
        + sizes((1000, 20), (3000, 20), C=0.1)
        + sizes((300, 20), (1000, 20), (3000, 20), (6000, 20), C=1000.0)
        + sizes((300, 20), (2000, 20), kernel="poly"),
        others={"C": (0.1, 1.0, 10.0, 100.0), "kernel": ("rbf", "rbf", "poly")},
    ),
    "SVC predict": Work(
        "SVC",
        svc_predict,
        sizes((100, 3), (1000, 20), (3000, 200), rows=1000)
        + sizes((100, 3), (1000, 20), (3000, 20), (1000, 200), (3000, 200), rows=1),
        others={"rows": (1, 10, 1000)},
    ),
    "SVC fit of many classes": Work("SVC", many_classes_fit, sizes((300, 10), (2000, 20))),
    "SVR fit": Work("SVR, one class", svr_fit, sizes((100, 5), (300, 20), (2000, 20))),
    "OneClassSVM fit": Work(
        "SVR, one class", one_class_fit, sizes((100, 5), (300, 20), (2000, 20))
    ),
    "NuSVC fit": Work("SVR, one class", nu_svc_fit, sizes((100, 5), (1000, 20))),
    "SVR predict": Work(
        "SVR, one class",
        svr_predict,
        sizes((300, 10), (2000, 20), rows=1) + sizes((2000, 20), rows=1000),
        others={"rows": (1, 10, 1000)},
    ),
}
