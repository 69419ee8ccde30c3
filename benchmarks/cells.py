"""What `sweep.py` times: workloads by family, on a wide grid and drawn at random.

A `Work` makes what mercer does and what its peers do with the same data and settings; a cell is a
work with its settings.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn import svm as peer_svm
from sklearn.cluster import KMeans, SpectralClustering as PeerSpectral
from sklearn.decomposition import PCA as PeerPCA, KernelPCA as PeerKernelPCA
from sklearn.gaussian_process import (
    GaussianProcessClassifier as PeerGPC,
    GaussianProcessRegressor as PeerGPR,
    kernels as peer_kernels,
)
from sklearn.kernel_approximation import Nystroem as PeerNystroem, RBFSampler
from sklearn.kernel_ridge import KernelRidge as PeerRidge
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics.pairwise import laplacian_kernel, polynomial_kernel, rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KernelDensity as PeerDensity
from sklearn.pipeline import make_pipeline

import mercer
from mercer import RBF, Laplacian, Matern, Polynomial

try:
    from sklearnex import svm as intel_svm
except ImportError:
    intel_svm = None

__all__ = ["WORKS", "Cell", "Work", "drawn", "grid"]

Works = dict[str, Callable[[], Any]]  # of mercer, and of each peer by its name
PEER, INTEL = "scikit-learn", "scikit-learn-intelex"


@dataclass(frozen=True)
class Work:
    """A kind of work: how it is made from settings, on which grid, and how they are drawn."""

    group: str
    make: Callable[..., Works]
    grid: tuple[dict[str, Any], ...]
    most: int = 4000  # rows of a workload drawn at random
    others: dict[str, tuple] = field(default_factory=dict)  # what else is drawn


@dataclass(frozen=True)
class Cell:
    """A work with its settings."""

    name: str
    group: str
    settings: dict[str, Any]
    make: Callable[..., Works]
    random: bool = False

    @property
    def title(self) -> str:
        """Work and settings in a line."""
        return " ".join([self.name, *(f"{k}={v}" for k, v in self.settings.items())])

    def works(self) -> Works:
        """Return what is to be timed."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self.make(**self.settings)


def grid() -> Iterator[Cell]:
    """Return the fixed cells."""
    for name, work in WORKS.items():
        for settings in work.grid:
            yield Cell(name, work.group, settings, work.make)


def drawn(count: int, seed: int) -> Iterator[Cell]:
    """Return cells drawn at random: works in turn, sizes on a logarithmic scale."""
    rng = np.random.default_rng(seed)
    names = list(WORKS)
    for i in range(count):
        name = names[i % len(names)]
        work = WORKS[name]
        settings: dict[str, Any] = {
            "n": int(np.exp(rng.uniform(np.log(50), np.log(work.most)))),
            "d": int(np.exp(rng.uniform(np.log(2), np.log(100)))),
        }
        for key, values in work.others.items():
            settings[key] = values[int(rng.integers(len(values)))]
        yield Cell(name, work.group, settings, work.make, random=True)


# ---- data ----


def regression(n: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return standard normal rows and a smooth target with noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, -1] + 0.3 * rng.standard_normal(n)
    return X, y


def classes(n: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of two classes that overlap a little."""
    X, y = regression(n, d, seed)
    return X, (y > 0).astype(int)


def blobs(n: int, d: int, k: int = 5) -> np.ndarray:
    """Return points around k centres."""
    rng = np.random.default_rng(0)
    return 3.0 * rng.standard_normal((k, d))[rng.integers(0, k, n)] + rng.standard_normal((n, d))


def width(d: int) -> float:
    """Return the length scale that is scikit-learn's γ = 1/d."""
    return float((d / 2) ** 0.5)


# ---- support vector machines ----


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


# ---- ridge regressions and Gram matrices ----


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


# ---- without labels ----


def kernel_pca_fit(n: int, d: int, k: int = 5) -> Works:
    """Leading components."""
    X = blobs(n, d)
    return {
        "mercer": lambda: mercer.KernelPCA(k, RBF(width(d))).fit(X),
        PEER: lambda: PeerKernelPCA(k, kernel="rbf", gamma=1 / d).fit(X),
    }


def kernel_pca_transform(n: int, d: int, rows: int = 1000, k: int = 5) -> Works:
    """New points in leading components."""
    X, New = blobs(n, d), regression(rows, d, 1)[0]
    ours = mercer.KernelPCA(k, RBF(width(d))).fit(X)
    peer = PeerKernelPCA(k, kernel="rbf", gamma=1 / d).fit(X)
    return {"mercer": lambda: ours.transform(New), PEER: lambda: peer.transform(New)}


def pca_fit(n: int, d: int, k: int = 2) -> Works:
    """Linear components."""
    X = blobs(n, d)
    k = min(k, d)
    return {
        "mercer": lambda: mercer.PCA(k).fit_transform(X),
        PEER: lambda: PeerPCA(k).fit_transform(X),
    }


def kmeans_fit(n: int, d: int, k: int = 5) -> Works:
    """Linear k-means, ten starts."""
    X = blobs(n, d)
    return {
        "mercer": lambda: mercer.KernelKMeans(k, mercer.Linear(), n_init=10, random_state=0).fit(X),
        PEER: lambda: KMeans(k, n_init=10, random_state=0).fit(X),
    }


def spectral_fit(n: int, d: int, k: int = 5) -> Works:
    """Spectral clustering by an RBF kernel."""
    X = blobs(n, d)
    return {
        "mercer": lambda: mercer.SpectralClustering(k, RBF(width(d)), random_state=0).fit(X),
        PEER: lambda: PeerSpectral(k, gamma=1 / d, random_state=0).fit(X),
    }


def density_score(n: int, d: int, rows: int = 1000) -> Works:
    """Log densities of new points."""
    X, New = blobs(n, d), blobs(rows, d)
    ours, peer = mercer.KernelDensity(1.0).fit(X), PeerDensity(bandwidth=1.0).fit(X)
    return {"mercer": lambda: ours.score_samples(New), PEER: lambda: peer.score_samples(New)}


# ---- searches ----


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
        PEER: lambda: GridSearchCV(peer_svm.SVC(), theirs, cv=5, n_jobs=jobs).fit(X, y),
    }


# ---- approximations ----


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


def _sizes(*sizes: tuple[int, int], **more: Any) -> tuple[dict[str, Any], ...]:
    return tuple({"n": n, "d": d, **more} for n, d in sizes)


WORKS: dict[str, Work] = {
    "SVC fit": Work(
        "SVC",
        svc_fit,
        _sizes((50, 3), (100, 10), (300, 10), (300, 200), (1000, 10), (1000, 100), (3000, 20))
        + _sizes((1000, 20), (3000, 20), C=0.1)
        + _sizes((300, 20), (1000, 20), (3000, 20), (6000, 20), C=1000.0)
        + _sizes((300, 20), (2000, 20), kernel="poly"),
        others={"C": (0.1, 1.0, 10.0, 100.0), "kernel": ("rbf", "rbf", "poly")},
    ),
    "SVC predict": Work(
        "SVC",
        svc_predict,
        _sizes((100, 3), (1000, 20), (3000, 200), rows=1000)
        + _sizes((100, 3), (1000, 20), (3000, 20), (1000, 200), (3000, 200), rows=1),
        others={"rows": (1, 10, 1000)},
    ),
    "SVR fit": Work("SVR, one class", svr_fit, _sizes((100, 5), (300, 20), (2000, 20))),
    "OneClassSVM fit": Work(
        "SVR, one class", one_class_fit, _sizes((100, 5), (300, 20), (2000, 20))
    ),
    "KernelRidge fit": Work(
        "KernelRidge",
        ridge_fit,
        _sizes((50, 3), (100, 10), (300, 10), (300, 200), (1000, 10), (3000, 20), (6000, 20)),
    ),
    "KernelRidge predict": Work(
        "KernelRidge",
        ridge_predict,
        _sizes((100, 3), (1000, 20), (5000, 20), (3000, 200), rows=1000)
        + _sizes((50, 3), (300, 10), (1000, 20), (5000, 20), (3000, 200), rows=1),
        others={"rows": (1, 10, 1000)},
    ),
    "Gram matrix": Work(
        "Gram",
        gram,
        _sizes((100, 3), (1000, 20), (3000, 200), kernel="rbf")
        + _sizes((100, 3), (1000, 20), kernel="laplacian")
        + _sizes((100, 3), (3000, 20), kernel="poly")
        + _sizes((100, 3), (2000, 20), kernel="matern"),
        others={"kernel": ("rbf", "laplacian", "poly", "matern")},
    ),
    "GP fit": Work(
        "Gaussian processes",
        gp_fit,
        _sizes((60, 3), (300, 10), (1500, 10))
        + _sizes((60, 3), (300, 10), (1000, 10), optimizer="lbfgs"),
        most=1500,
    ),
    "GP predict": Work(
        "Gaussian processes",
        gp_predict,
        _sizes((60, 3), (300, 10), (1500, 10), rows=100)
        + _sizes((60, 3), (1500, 10), rows=1)
        + _sizes((60, 3), (1500, 10), rows=1, std="no"),
        most=1500,
        others={"rows": (1, 100, 1000), "std": ("yes", "no")},
    ),
    "GP classifier fit": Work(
        "Gaussian processes", gpc_fit, _sizes((60, 3), (300, 10), (1000, 10)), most=1000
    ),
    "KernelPCA fit": Work(
        "Without labels", kernel_pca_fit, _sizes((100, 5), (300, 10), (1000, 10), (3000, 20))
    ),
    "KernelPCA transform": Work(
        "Without labels",
        kernel_pca_transform,
        _sizes((300, 10), rows=1) + _sizes((300, 10), (2000, 20), rows=1000),
        others={"rows": (1, 1000)},
    ),
    "PCA fit_transform": Work(
        "Without labels", pca_fit, _sizes((100, 5), (300, 50), (3000, 20), (2000, 200), (50000, 20))
    ),
    "k-means fit": Work(
        "Without labels", kmeans_fit, _sizes((100, 5), (300, 10), (3000, 20), (20000, 20))
    ),
    "SpectralClustering fit": Work(
        "Without labels", spectral_fit, _sizes((100, 5), (200, 5), (1000, 10), (2000, 10)), 2000
    ),
    "KernelDensity score_samples": Work(
        "Without labels",
        density_score,
        _sizes((100, 2), rows=100) + _sizes((3000, 3), (3000, 20), rows=1000),
        others={"rows": (1, 1000)},
    ),
    "search of ridges": Work(
        "Search", ridge_search, _sizes((300, 10), (1000, 10)) + _sizes((1000, 10), jobs=2), 1000
    ),
    "search of SVCs": Work(
        "Search", svc_search, _sizes((300, 10), (1000, 20)) + _sizes((1000, 20), jobs=2), 1000
    ),
    "Nystroem fit": Work(
        "Approximations",
        nystroem_fit,
        _sizes((20000, 20), m=300) + _sizes((20000, 20), m=1000),
        20000,
        {"m": (50, 300)},
    ),
    "Nystroem transform": Work(
        "Approximations",
        nystroem_transform,
        _sizes((300, 20), (20000, 20), m=300) + _sizes((20000, 20), m=1000),
        20000,
        {"m": (50, 300)},
    ),
    "Fourier transform": Work(
        "Approximations", fourier_transform, _sizes((300, 10), (20000, 20), m=300), 20000
    ),
    "ridge on centres": Work(
        "Approximations",
        ridge_on_centers,
        _sizes((2000, 10), (20000, 20), (100000, 20), m=300)
        + _sizes((20000, 20), (50000, 20), m=1500),
        20000,
        {"m": (50, 300, 1000)},
    ),
    "logistic on centres": Work(
        "Approximations",
        logistic_on_centers,
        _sizes((2000, 10), (20000, 20), m=300) + _sizes((20000, 20), m=1000),
        20000,
        {"m": (50, 300)},
    ),
}
