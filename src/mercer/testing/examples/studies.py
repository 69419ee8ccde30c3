"""An estimator with data to judge it on: the one argument of every estimator law."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn import linear_model
from sklearn.base import BaseEstimator, clone, is_classifier, is_clusterer, is_regressor
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import has_fit_parameter

from mercer import kernels as mk, models as mm
from mercer.domains import Table
from mercer.domains.tables import is_frame
from mercer.errors import InvalidInput
from mercer.features import Nystroem, Prototypes, RandomFourierFeatures, TableEncoder, TensorSketch
from mercer.kernels import Kernel, as_kernel
from mercer.testing.checks import agree, require, to_numpy

N, M = 36, 11


@dataclass(frozen=True)
class EstimatorExample:
    """A named estimator, and the number of targets to give it."""

    name: str
    estimator: BaseEstimator
    outputs: int = 1
    #: Whether a weight of 2 is the row given twice; leaving one row out, say, sees a difference.
    repeatable_weights: bool = True
    #: Whether the order of the rows is without effect; an online method sees one after another.
    any_order: bool = True


def as_example(estimator: Any) -> EstimatorExample:
    """Return an estimator as an example, on which laws share a fit while it lives."""
    known = isinstance(estimator, EstimatorExample)
    return estimator if known else EstimatorExample(type(estimator).__name__, estimator)


def estimator_examples() -> list[EstimatorExample]:
    """Return several instances of each public estimator.

    Examples
    --------
    >>> from mercer.testing import estimator_examples
    >>> any(example.name == "KernelRidge" for example in estimator_examples())
    True
    """
    Ridge, Classifier = mm.KernelRidge, mm.KernelRidgeClassifier
    Perceptron, SVC, NuSVC = mm.KernelPerceptron, mm.SVC, mm.NuSVC
    SVR, NuSVR, OneClassSVM = mm.SVR, mm.NuSVR, mm.OneClassSVM
    logistic = linear_model.LogisticRegression(solver="newton-cholesky", tol=1e-12)
    least = linear_model.Ridge(0.1)
    Quantile = mm.KernelQuantileRegressor
    ERM, Logistic, Huber = mm.KernelERM, mm.KernelLogisticRegression, mm.KernelHuberRegressor
    Neighbors, Structured = mm.KernelNeighborsClassifier, mm.StructuredKernelRidge
    Process, Classes = mm.GaussianProcessRegressor, mm.GaussianProcessClassifier
    Sparse, Spectral = mm.SparseGaussianProcessRegressor, mm.SpectralClustering
    Local = mm.NadarayaWatsonClassifier
    E = EstimatorExample
    return [
        E("KernelRidge", Ridge()),
        E("KernelRidge-intercept", Ridge(mk.RBF(1.5), 0.1, fit_intercept=True)),
        E("KernelRidge-median", Ridge(mk.Matern("median"), 0.05)),
        E("KernelRidge-primal", Ridge("linear", 0.5)),
        E("KernelRidge-primal-intercept", Ridge(mk.Polynomial(2), 0.5, fit_intercept=True)),
        E("KernelRidge-outputs", Ridge(mk.RBF(), [0.1, 1.0]), outputs=2),
        E("KernelRidge-loo", Ridge(mk.RBF(2.0), "loo"), repeatable_weights=False),
        E("KernelRidge-precomputed", Ridge("precomputed", 0.3)),
        # White noise belongs to the observation: a row given twice has two noises.
        E("KernelRidge-noise", Ridge(mk.RBF() + mk.White(0.1), 0.1), repeatable_weights=False),
        E("KernelRidge-columns", Ridge(mk.RBF().on([0, 1]) + mk.Linear().on(2), 0.1)),
        E("KernelQuantileRegressor", Quantile()),
        E("KernelQuantileRegressor-bands", Quantile(mk.RBF(), [0.9, 0.1, 0.5], 0.1)),
        E("KernelQuantileRegressor-no-offset", Quantile("linear", 0.3, 0.2, False)),
        E("KernelQuantileRegressor-precomputed", Quantile("precomputed", 0.7)),
        E("KernelERM", ERM()),
        E("KernelERM-absolute", ERM(mk.RBF(1.5), "absolute", 0.1)),
        E("KernelERM-hinge", ERM(mk.RBF(1.5), "hinge", 0.1)),
        E("KernelERM-squared-hinge", ERM(mk.RBF(), "squared_hinge", 0.1, solver="newton")),
        E("KernelERM-exponential", ERM("precomputed", "exponential", 0.5)),
        E("KernelERM-logistic", ERM(mk.Polynomial(2), "logistic", 0.3, False)),
        E("KernelLogisticRegression", Logistic()),
        E("KernelLogisticRegression-rbf", Logistic(mk.RBF(), 0.1, class_weight="balanced")),
        E("KernelLogisticRegression-linear", Logistic("linear", 0.5)),
        E("KernelLogisticRegression-precomputed", Logistic("precomputed", 0.2, False)),
        E("KernelHuberRegressor", Huber()),
        E("KernelHuberRegressor-tight", Huber(mk.RBF(), 0.1, 0.2)),
        E("KernelHuberRegressor-primal", Huber(mk.Polynomial(2), 0.3, 0.5, False)),
        E("KernelHuberRegressor-precomputed", Huber("precomputed", 0.1, 0.3)),
        E("KernelRidgeClassifier", Classifier()),
        E("KernelRidgeClassifier-balanced", Classifier(mk.RBF(), 0.1, class_weight="balanced")),
        E("KernelRidgeClassifier-precomputed", Classifier("precomputed", 0.3)),
        E("KernelRidgeClassifier-loo", Classifier(alpha="loo"), repeatable_weights=False),
        E("KernelPerceptron", Perceptron(), any_order=False),
        E("KernelPerceptron-plain", Perceptron(mk.RBF(), shuffle=False), any_order=False),
        E("KernelPerceptron-margin", Perceptron(mk.RBF(), "margin"), any_order=False),
        E("KernelPerceptron-variable", Perceptron(mk.RBF(), "variable"), any_order=False),
        E("KernelPerceptron-batch", Perceptron(mk.RBF(), "batch", power_t=0.0)),
        E("KernelPerceptron-precomputed", Perceptron("precomputed"), any_order=False),
        E("SVC", SVC()),
        E("SVC-pairs", SVC(mk.RBF(), 10.0, class_weight="balanced")),
        E("SVC-rest", SVC(mk.Matern(1.5), 3.0, multi_class="ovr")),
        E("SVC-linear", SVC("linear", 0.5, fit_intercept=False)),
        E("SVC-hard", SVC(mk.RBF(0.7), np.inf)),
        E("SVC-precomputed", SVC("precomputed", 2.0)),
        E("SVC-probability", SVC(mk.RBF(1.5), probability=True)),
        E("NuSVC", NuSVC(mk.RBF(), 0.1)),
        E("NuSVC-rest", NuSVC(mk.RBF(0.7), 0.05, multi_class="ovr", fit_intercept=False)),
        E("NuSVC-precomputed", NuSVC("precomputed", 0.1)),
        E("SVR", SVR()),
        E("SVR-no-tube", SVR(mk.RBF(), 2.0, 0.0)),
        E("SVR-no-offset", SVR(mk.Polynomial(2), 0.5, 0.05, fit_intercept=False, tol=1e-10)),
        E("SVR-precomputed", SVR("precomputed", 3.0, 0.01)),
        E("NuSVR", NuSVR()),
        E("NuSVR-no-offset", NuSVR(mk.RBF(), 0.3, 5.0, fit_intercept=False, tol=1e-10)),
        E("NuSVR-precomputed", NuSVR("precomputed", 0.7, 0.5)),
        E("OneClassSVM", OneClassSVM()),
        E("OneClassSVM-few", OneClassSVM(mk.Matern(1.5), 0.1)),
        E("OneClassSVM-precomputed", OneClassSVM("precomputed", 0.3)),
        E("KDEClassifier", mm.KDEClassifier()),
        E("KDEClassifier-loo", mm.KDEClassifier("loo", priors=[0.2, 0.3, 0.5])),
        E("KDEClassifier-shared", mm.KDEClassifier("loo", shared=True)),
        E("KDEClassifier-compact", mm.KDEClassifier(1.5, "biweight")),
        E("KernelDensity", mm.KernelDensity()),
        E("KernelDensity-loo", mm.KernelDensity("loo")),
        E("KernelDensity-columns", mm.KernelDensity([5.0, 4.0, 6.0], "biweight")),
        E("KernelDensity-cosine", mm.KernelDensity("loo", "cosine")),
        E("KernelMachine", mm.KernelMachine(estimator=logistic)),
        E("KernelMachine-random", mm.KernelMachine(mk.RBF(), "random", logistic, n_prototypes=0.5)),
        E("KernelMachine-regressor", mm.KernelMachine("rbf", "kmeans", least, n_prototypes=9)),
        E("KernelMachine-precomputed", mm.KernelMachine("precomputed", "all", least)),
        # Rows given twice with one target have no noise: its bound, 1e-8, costs half the digits.
        E("GaussianProcessClassifier", Classes()),
        E("GaussianProcessClassifier-kept", Classes(mk.RBF(1.5), optimizer=None)),
        E("GaussianProcessClassifier-probit", Classes(2.0 * mk.RBF(1.5), "laplace", "probit")),
        E("GaussianProcessClassifier-rest", Classes(mk.RBF(), multi_class="one_vs_rest")),
        E("GaussianProcessClassifier-ep", Classes(mk.RBF(1.5), "ep", optimizer=None)),
        E("GaussianProcessClassifier-ep-tuned", Classes(mk.Matern(2.0), "ep", "probit")),
        E("GaussianProcessClassifier-vi", Classes(2.0 * mk.RBF(), "vi", optimizer=None)),
        E("GaussianProcessClassifier-vi-probit", Classes(mk.RBF(2.0), "vi", "probit")),
        E("GaussianProcessClassifier-precomputed", Classes("precomputed")),
        E("GaussianProcessClassifier-ep-probit", Classes("precomputed", "ep", "probit")),
        E("GaussianProcessRegressor", Process(), repeatable_weights=False),
        E("GaussianProcessRegressor-noisy", Process(bounds={"noise": (0.01, 1.0)})),
        E("GaussianProcessRegressor-kept", Process(mk.RBF(1.5), 0.05, optimizer=None)),
        E(
            "GaussianProcessRegressor-as-is",
            Process("matern", 0.1, fixed="noise", normalize_y=False),
        ),
        E(
            "GaussianProcessRegressor-constant",
            Process("rbf", 0.1, optimizer=None, mean="constant"),
        ),
        # equal targets of repeated rows prove that there is no noise, and then rounding decides
        E(
            "GaussianProcessRegressor-linear",
            Process(1.0 * mk.RBF([1, 1, 1]), mean="linear", bounds={"noise": (1e-3, 1e3)}),
        ),
        E("GaussianProcessRegressor-outputs", Process(mk.RBF(2.0), 0.1, fixed="noise"), outputs=2),
        E("GaussianProcessRegressor-precomputed", Process("precomputed")),
        E("SparseGaussianProcessRegressor", Sparse(), repeatable_weights=False),
        E("SparseGaussianProcessRegressor-kept", Sparse(mk.RBF(1.5), 0.05, optimizer=None)),
        E(
            # At the least noise of all, rounding would be a millionth of the answer.
            "SparseGaussianProcessRegressor-fitc",
            Sparse(mk.Matern(2.0), 0.1, 99, method="fitc", bounds={"noise": (1e-2, 1e2)}),
        ),
        E(
            "SparseGaussianProcessRegressor-outputs",
            Sparse(mk.RBF(2.0), 0.1, fixed="noise"),
            outputs=2,
        ),
        E("SparseGaussianProcessRegressor-precomputed", Sparse("precomputed", 0.1)),
        E("KernelNeighborsClassifier", Neighbors()),
        E("KernelNeighborsClassifier-dot", Neighbors(mk.Polynomial(2), 3)),
        E("KernelNeighborsClassifier-precomputed", Neighbors("precomputed")),
        E("KernelNeighborsRegressor", mm.KernelNeighborsRegressor()),
        E("KernelNeighborsRegressor-outputs", mm.KernelNeighborsRegressor("linear", 2), outputs=2),
        E("KernelNeighborsRegressor-precomputed", mm.KernelNeighborsRegressor("precomputed", 1)),
        E("NadarayaWatson", mm.NadarayaWatson()),
        E("NadarayaWatson-rule", mm.NadarayaWatson("scott", "epanechnikov")),
        E("NadarayaWatson-planes", mm.NadarayaWatson(1.5, degree=1)),
        E("NadarayaWatson-outputs", mm.NadarayaWatson([0.5, 0.7, 0.9], "biweight"), outputs=2),
        E("NadarayaWatson-kernel", mm.NadarayaWatson(kernel=mk.Matern("median"))),
        E("NadarayaWatson-precomputed", mm.NadarayaWatson(kernel="precomputed")),
        E("NadarayaWatsonClassifier", Local()),
        E("NadarayaWatsonClassifier-number", Local(0.7, "tophat")),
        E("NadarayaWatsonClassifier-precomputed", Local(kernel="precomputed")),
        E("NearestBarycentre", mm.NearestBarycentre()),
        E("NearestBarycentre-linear", mm.NearestBarycentre("linear")),
        E("NearestBarycentre-precomputed", mm.NearestBarycentre("precomputed")),
        E("StructuredKernelRidge", Structured()),
        E("StructuredKernelRidge-outputs", Structured(mk.Matern("median"), "linear"), outputs=2),
        E("StructuredKernelRidge-precomputed", Structured("precomputed", alpha=0.1)),
        E("L1VM", mm.L1VM()),
        E("L1VM-squared", mm.L1VM(mk.RBF(1.5), "squared", 0.2, 0.5)),
        E("L1VM-hinge", mm.L1VM(mk.RBF(), "squared_hinge", 0.3, fit_intercept=False)),
        E("L1VMClassifier", mm.L1VMClassifier(mk.RBF(), 0.2, class_weight="balanced")),
        E("L1VMClassifier-net", mm.L1VMClassifier(mk.Matern(1.5), 0.3, 0.4)),
        E("L1VMClassifier-precomputed", mm.L1VMClassifier("precomputed", 0.1)),
        E("L1VMRegressor", mm.L1VMRegressor()),
        E("L1VMRegressor-matern", mm.L1VMRegressor(mk.Matern("median"), 0.05)),
        E("L1VMRegressor-no-offset", mm.L1VMRegressor("linear", 0.1, fit_intercept=False)),
        E("L1VMRegressor-ridge", mm.L1VMRegressor(mk.RBF(), 0.1, 0.0)),
        E("L1VMRegressor-precomputed", mm.L1VMRegressor("precomputed", 0.05, 0.8)),
        # Starts and batches are drawn along the rows.
        E("KernelKMeans", mm.KernelKMeans(), any_order=False),
        E("KernelKMeans-few", mm.KernelKMeans(3, mk.Matern("median"), n_init=4), any_order=False),
        E("KernelKMeans-random", mm.KernelKMeans(4, mk.RBF(), init="random"), any_order=False),
        E("KernelKMeans-linear", mm.KernelKMeans(3, "linear"), any_order=False),
        E("KernelKMeans-features", mm.KernelKMeans(4, mk.Polynomial(2)), any_order=False),
        E("KernelKMeans-nystrom", mm.KernelKMeans(3, method="nystrom", rank=20), any_order=False),
        E(
            "KernelKMeans-batches",
            mm.KernelKMeans(3, method="minibatch", batch_size=64),
            any_order=False,
        ),
        E("KernelKMeans-precomputed", mm.KernelKMeans(4, "precomputed"), any_order=False),
        E("DPMeans", mm.DPMeans(4.0)),
        E("DPMeans-many", mm.DPMeans(0.3)),
        E("DPMeans-rbf", mm.DPMeans(0.4, "rbf")),
        E("DPMeans-matern", mm.DPMeans(kernel=mk.Matern("median"))),
        E("DPMeans-precomputed", mm.DPMeans(0.5, "precomputed")),
        E("SpectralClustering", Spectral()),
        E("SpectralClustering-means", Spectral(3, mk.RBF(), n_components=2)),
        E("SpectralClustering-pivots", Spectral(3, assign_labels="cluster_qr")),
        E("SpectralClustering-matern", Spectral(2, mk.Matern(1.5), assign_labels="cluster_qr")),
        E("SpectralClustering-affinity", Spectral(3, "precomputed", assign_labels="cluster_qr")),
        E("KernelPCA", mm.KernelPCA()),
        E("KernelPCA-subspace", mm.KernelPCA(4, mk.RBF(1.5), eigen_solver="subspace", tol=1e-11)),
        E("KernelPCA-features", mm.KernelPCA(4, mk.Polynomial(2))),
        E("KernelPCA-share", mm.KernelPCA(0.9, mk.Matern(2.0))),
        E("KernelPCA-cholesky", mm.KernelPCA(4, mk.RBF(1.5), eigen_solver="cholesky", rank=99)),
        E("KernelPCA-precomputed", mm.KernelPCA(5, "precomputed")),
        E("PCA", mm.PCA()),
        E("PCA-whiten", mm.PCA(2, whiten=True)),
        E("TableRegressor", mm.TableRegressor()),
        E("TableClassifier", mm.TableClassifier()),
        E("TableClassifier-svc", mm.TableClassifier(model="svc", probability=True)),
        E("TableEncoder", TableEncoder()),
        E("Nystroem", Nystroem()),
        E("Nystroem-uniform", Nystroem(mk.RBF(1.5), 9, "uniform")),
        E("Nystroem-means", Nystroem(mk.Matern(2.0), 8, "kmeans")),
        E("Nystroem-leverage", Nystroem(mk.Polynomial(2), 7, "leverage")),
        E("Nystroem-pivots", Nystroem(mk.Laplacian(), 10)),
        # Positions of a matrix are those of its rows.
        E("Nystroem-precomputed", Nystroem("precomputed", 12), any_order=False),
        E("RandomFourierFeatures", RandomFourierFeatures()),
        E("RandomFourierFeatures-plain", RandomFourierFeatures(mk.Matern(), 7, "plain")),
        E("RandomFourierFeatures-quasi", RandomFourierFeatures(mk.Laplacian(), 8, "quasi")),
        E(
            "RandomFourierFeatures-sum",
            RandomFourierFeatures(2.0 * mk.RBF().on([0, 1]) + mk.Periodic().on(2), 20),
        ),
        E("TensorSketch", TensorSketch()),
        E("TensorSketch-even", TensorSketch(2.0 * mk.Polynomial(2, 0.0) * mk.Linear(), 64)),
        E("TensorSketch-linear", TensorSketch("linear", 5)),
        E("Prototypes", Prototypes()),
        E("Prototypes-random", Prototypes(mk.Matern(), "random", n_prototypes=7)),
        E("Prototypes-kmeans", Prototypes(mk.Polynomial(2), "kmeans", n_prototypes="sqrt")),
        # The features of columns come in the order of the columns.
        E("Prototypes-precomputed", Prototypes("precomputed"), any_order=False),
    ]


class EstimatorStudy(ABC):
    """An estimator with training points and new points, addressed by position.

    Laws are judged on `VectorStudy` (rows of numbers or a Gram matrix) and `PointStudy` (strings,
    graphs, tables, any points). The estimator itself is never fitted, its clones are.
    """

    X: Any
    y: Any
    train: np.ndarray
    new: np.ndarray
    #: How near answers must be that differ by rounding.
    near = 1e-9
    #: Whether X is a Gram matrix.
    precomputed = False

    def __init__(self, estimator: Any, X: Any, y: Any, rng: Any):
        self.example = as_example(estimator)
        self._data = (X, y, rng)
        self.rng = np.random.default_rng(rng)
        self.given = self.example.estimator
        self.estimator = clone(self.given)
        if "random_state" in self.estimator.get_params():
            self.estimator.set_params(random_state=0)
        self.takes_weights = has_fit_parameter(self.estimator, "sample_weight")

    @abstractmethod
    def rows(self, index: Any, columns: Any = None) -> Any:
        """Return points; of a Gram matrix, their values with the points `columns`."""

    def targets(self, index: Any) -> Any:
        """Return the targets at the given positions, or None."""
        return None if self.y is None else _safe_indexing(self.y, np.asarray(index, dtype=int))

    def fit(self, index: Any = None, rows: Any = None, model: Any = None, **extra: Any) -> Any:
        """Return a clone fitted to the training points at the given positions."""
        index = self.train if index is None else np.asarray(index, dtype=int)
        model = clone(self.estimator) if model is None else model
        X = self.rows(index) if rows is None else rows
        y = self.targets(index)
        return model.fit(X, **extra) if y is None else model.fit(X, y, **extra)

    def fitted(self) -> Any:
        """Return a model fitted to all training points: a copy of one that the laws share.

        The laws of an example follow one another, so that the last fit alone is kept.
        """
        global _last_fit
        key = (self.example, *self._data)
        if _last_fit is None or any(a is not b for a, b in zip(_last_fit[0], key, strict=True)):
            _last_fit = (key, self.fit())
        return deepcopy(_last_fit[1])

    @abstractmethod
    def answers(self, model: Any, X: Any = None) -> dict[str, np.ndarray]:
        """Return what a fitted model says of points, new ones by default, by name of question."""

    def sayings(self, model: Any, X: Any = None) -> dict[str, np.ndarray]:
        """Return the answers about new points, and the labels of the training points if any."""
        said = self.answers(model, X)
        return said | ({"labels_": model.labels_} if hasattr(model, "labels_") else {})


#: The example and data that were fitted last, and the model.
_last_fit: tuple[tuple, Any] | None = None


class VectorStudy(EstimatorStudy):
    """An estimator on rows of numbers, or on their Gram matrix, made up where none are given."""

    def __init__(self, estimator: Any, X: Any = None, y: Any = None, rng: Any = 0):
        super().__init__(estimator, X, y, rng)
        kernel = getattr(self.estimator, "kernel", None)
        self.precomputed = kernel == "precomputed" or isinstance(kernel, mk.Precomputed)
        self.X, self.y = self._made_up(self.example.outputs) if X is None else (X, y)
        n = len(self.y)
        self.train, self.new = np.arange(n - n // 4), np.arange(n - n // 4, n)

    def _made_up(self, outputs: int) -> tuple[np.ndarray, np.ndarray]:
        X = self.rng.standard_normal((N + M, 3))
        if is_classifier(self.estimator):
            y = np.array(["red", "green", "blue"])[(X[:, 0] > 0) + (X[:, 1] > 0.5).astype(int)]
            y[:3] = ["red", "green", "blue"]
            return X, y
        noise = 0.1 * self.rng.standard_normal((N + M, outputs))
        Y = np.sin(2 * X[:, :1]) + X[:, 1:2] * np.arange(1, outputs + 1) + noise
        return X, Y[:, 0] if outputs == 1 else Y

    def rows(self, index: Any, columns: Any = None) -> Any:
        if not self.precomputed:
            return _safe_indexing(self.X, index)
        K = mk.RBF(1.3)(self.X)
        return np.ascontiguousarray(K[np.ix_(index, index if columns is None else columns)])

    def answers(self, model: Any, X: Any = None) -> dict[str, np.ndarray]:
        """Return the first answer that a model has, a number before a label, about new rows."""
        X = self.rows(self.new, self.train) if X is None else X
        for name in ("decision_function", "predict_proba", "predict", "transform", "score_samples"):
            if hasattr(model, name):
                return {name: np.asarray(getattr(model, name)(X))}
        raise AssertionError(f"{model!r}: has no decision_function, predict or transform")

    def output(self, model: Any, X: Any = None) -> np.ndarray:
        """Return the values of that answer."""
        return next(iter(self.answers(model, X).values()))


# ---- An estimator with strings, graphs or tables to judge it on: the argument of non-vector
# laws.


#: What a fitted estimator may be asked about points, numbers before labels.
QUESTIONS = ("decision_function", "predict_proba", "transform", "score_samples", "predict")


class PointStudy(EstimatorStudy):
    """An estimator on eight points or more of any kind; targets are made up where it needs some."""

    near = 1e-7

    def __init__(self, estimator: Any, X: Any, y: Any = None, rng: Any = 0):
        super().__init__(estimator, X, y, rng)
        self.X = X
        self.frame = is_frame(X) or isinstance(X, Table | dict)
        self.n = len(Table(X)) if isinstance(X, dict) else len(X)
        require(self.n >= 8, f"a study needs eight points or more, X has {self.n}")
        self.supervised = is_classifier(self.estimator) or is_regressor(self.estimator)
        if y is None and self.supervised:
            y = np.arange(self.n) // 2 % 2  # both classes among training and new points
            y = np.array(["no", "yes"])[y] if is_classifier(self.estimator) else y - 0.5
        self.y = np.asarray(y) if self.supervised else y
        positions = np.arange(self.n)
        self.new = positions[positions % 4 == 3]
        self.train = positions[positions % 4 != 3]

    @property
    def kernel(self) -> Kernel | None:
        """The kernel of the estimator, or None where it has none."""
        try:
            return as_kernel(self.estimator.kernel)
        except (AttributeError, InvalidInput):
            return None

    # -- rows -----------------------------------------------------------------------------------
    def rows(self, index: Any, columns: Any = None) -> Any:
        X = Table(self.X) if isinstance(self.X, dict) else self.X
        return _safe_indexing(X, np.asarray(index, dtype=int))

    def forms(self, index: Any) -> Iterator[tuple[str, Any]]:
        """Return the points at the given positions in every other form that means the same."""
        rows = self.rows(index)
        if self.frame:
            yield from _tables(rows)
        elif isinstance(rows, list | tuple | np.ndarray):
            yield from _columns(list(rows))
        if self.kernel is not None:
            yield "the canonical collection", self.kernel.domain.check(rows)

    def frozen(self, index: Any) -> Any:
        """Return the points at the given positions in arrays that nobody may write to."""
        rows = self.rows(index)
        if self.frame:
            table = Table.from_frame(rows)
            columns = zip(table.names, table.columns, strict=True)
            return {name: read_only(column) for name, column in columns}
        if isinstance(rows, np.ndarray):
            return read_only(rows)
        return [read_only(p) if isinstance(p, np.ndarray) else p for p in rows]

    # -- answers --------------------------------------------------------------------------------
    def answers(self, model: Any, X: Any = None) -> dict[str, np.ndarray]:
        """Return what a fitted model says of points, by the name of the question."""
        X = self.rows(self.new) if X is None else X
        said = {q: to_numpy(getattr(model, q)(X)) for q in QUESTIONS if hasattr(model, q)}
        if is_clusterer(model) and "transform" in said:
            # A small distance is the root of a difference, of which rounding leaves √ε.
            said["transform"] = said["transform"] ** 2
        if not said:
            require(hasattr(model, "labels_"), f"{model!r}: has neither answers nor labels_")
        return said


def alike(
    got: dict[str, np.ndarray], expected: dict[str, np.ndarray], tol: float, message: str
) -> None:
    """Require that a model gives the same answers; of labels, where there are no numbers.

    A label follows from numbers, and may turn where these are equal up to rounding.
    """
    require(list(got) == list(expected), f"{message}: answers {list(got)}, not {list(expected)}")
    for name, values in expected.items():
        numeric = values.dtype.kind in "fiub"
        follows = name == "predict" and len(expected) > 1 and tol > 0
        if follows:
            require(got[name].shape == values.shape, f"{message}, {name}: another shape")
        else:
            exact = tol == 0 or not numeric
            agree(got[name], values, tol, f"{message}, {name}", bitwise=exact)


def containers(values: np.ndarray) -> Iterator[tuple[str, Any]]:
    """Return an array of targets or weights in every other form that means the same."""
    yield "a list", values.tolist()
    yield "an object with __array__", _Wrapped(values)
    try:
        import pandas
    except ImportError:
        return
    yield "a column of pandas", pandas.Series(values)


def read_only(values: np.ndarray) -> np.ndarray:
    """Return a copy that cannot be written to."""
    values = values.copy()
    values.flags.writeable = False
    return values


class _Wrapped:
    """Numbers that are no array, and become one when asked."""

    def __init__(self, values: np.ndarray):
        self._values = values

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self._values, dtype=dtype)


def _columns(points: list) -> Iterator[tuple[str, Any]]:
    """Points of one column: a tuple, arrays of objects, columns of pandas and polars."""
    objects = np.empty(len(points), dtype=object)
    for i, point in enumerate(points):
        objects[i] = point
    yield "a list", list(points)
    yield "a tuple", tuple(points)
    yield "an array of objects", objects
    yield "an array of one column", objects[:, None]
    text = all(isinstance(p, str) for p in points)
    if text:
        yield "an array of text", np.array(points)
    for name in ("pandas", "polars"):
        try:
            library = __import__(name)
        except ImportError:
            continue
        if name == "pandas" or text:
            values = objects if name == "pandas" else points
            yield f"a column of {name}", library.Series(values)
            yield f"a frame of {name}", library.DataFrame({"points": values})


def _tables(rows: Any) -> Iterator[tuple[str, Any]]:
    """A table as a dict, a `Table`, and frames of pandas, polars and pyarrow."""
    table = Table.from_frame(rows)
    columns = dict(zip(table.names, table.columns, strict=True))
    yield "a Table", table
    yield "a dict", columns
    for name, make in (("pandas", "DataFrame"), ("polars", "DataFrame"), ("pyarrow", "table")):
        try:
            library = __import__(name)
        except ImportError:
            continue
        yield (
            f"a frame of {name}",
            getattr(library, make)(
                {n: c.tolist() if c.dtype.kind in "OU" else c for n, c in columns.items()}
            ),
        )
