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
    Process, Sparse = mm.GaussianProcessRegressor, mm.SparseGaussianProcessRegressor
    logistic = linear_model.LogisticRegression(solver="newton-cholesky", tol=1e-12)
    least = linear_model.Ridge(0.1)

    def E(variant: str, estimator: BaseEstimator, **judged: Any) -> EstimatorExample:
        name = type(estimator).__name__
        return EstimatorExample(f"{name}-{variant}" if variant else name, estimator, **judged)

    return [
        E("", mm.KernelRidge()),
        E("intercept", mm.KernelRidge(mk.RBF(1.5), 0.1, fit_intercept=True)),
        E("median", mm.KernelRidge(mk.Matern("median"), 0.05)),
        E("primal", mm.KernelRidge("linear", 0.5)),
        E("primal-intercept", mm.KernelRidge(mk.Polynomial(2), 0.5, fit_intercept=True)),
        E("outputs", mm.KernelRidge(mk.RBF(), [0.1, 1.0]), outputs=2),
        E("loo", mm.KernelRidge(mk.RBF(2.0), "loo"), repeatable_weights=False),
        E("precomputed", mm.KernelRidge("precomputed", 0.3)),
        # White noise belongs to the observation: a row given twice has two noises.
        E("noise", mm.KernelRidge(mk.RBF() + mk.White(0.1), 0.1), repeatable_weights=False),
        E("columns", mm.KernelRidge(mk.RBF().on([0, 1]) + mk.Linear().on(2), 0.1)),
        E("", mm.KernelQuantileRegressor()),
        E("bands", mm.KernelQuantileRegressor(mk.RBF(), [0.9, 0.1, 0.5], 0.1)),
        E("no-offset", mm.KernelQuantileRegressor("linear", 0.3, 0.2, False)),
        E("precomputed", mm.KernelQuantileRegressor("precomputed", 0.7)),
        E("", mm.KernelERM()),
        E("absolute", mm.KernelERM(mk.RBF(1.5), "absolute", 0.1)),
        E("hinge", mm.KernelERM(mk.RBF(1.5), "hinge", 0.1)),
        E("squared-hinge", mm.KernelERM(mk.RBF(), "squared_hinge", 0.1, solver="newton")),
        E("exponential", mm.KernelERM("precomputed", "exponential", 0.5)),
        E("logistic", mm.KernelERM(mk.Polynomial(2), "logistic", 0.3, False)),
        E("", mm.KernelLogisticRegression()),
        E("rbf", mm.KernelLogisticRegression(mk.RBF(), 0.1, class_weight="balanced")),
        E("linear", mm.KernelLogisticRegression("linear", 0.5)),
        E("precomputed", mm.KernelLogisticRegression("precomputed", 0.2, False)),
        E("", mm.KernelHuberRegressor()),
        E("tight", mm.KernelHuberRegressor(mk.RBF(), 0.1, 0.2)),
        E("primal", mm.KernelHuberRegressor(mk.Polynomial(2), 0.3, 0.5, False)),
        E("precomputed", mm.KernelHuberRegressor("precomputed", 0.1, 0.3)),
        E("", mm.KernelRidgeClassifier()),
        E("balanced", mm.KernelRidgeClassifier(mk.RBF(), 0.1, class_weight="balanced")),
        E("precomputed", mm.KernelRidgeClassifier("precomputed", 0.3)),
        E("loo", mm.KernelRidgeClassifier(alpha="loo"), repeatable_weights=False),
        E("", mm.KernelPerceptron(), any_order=False),
        E("plain", mm.KernelPerceptron(mk.RBF(), shuffle=False), any_order=False),
        E("margin", mm.KernelPerceptron(mk.RBF(), "margin"), any_order=False),
        E("variable", mm.KernelPerceptron(mk.RBF(), "variable"), any_order=False),
        E("batch", mm.KernelPerceptron(mk.RBF(), "batch", power_t=0.0)),
        E("precomputed", mm.KernelPerceptron("precomputed"), any_order=False),
        E("", mm.SVC()),
        E("pairs", mm.SVC(mk.RBF(), 10.0, class_weight="balanced")),
        E("rest", mm.SVC(mk.Matern(1.5), 3.0, multi_class="ovr")),
        E("linear", mm.SVC("linear", 0.5, fit_intercept=False)),
        E("hard", mm.SVC(mk.RBF(0.7), np.inf)),
        E("precomputed", mm.SVC("precomputed", 2.0)),
        E("probability", mm.SVC(mk.RBF(1.5), probability=True)),
        E("", mm.NuSVC(mk.RBF(), 0.1)),
        E("rest", mm.NuSVC(mk.RBF(0.7), 0.05, multi_class="ovr", fit_intercept=False)),
        E("precomputed", mm.NuSVC("precomputed", 0.1)),
        E("", mm.SVR()),
        E("no-tube", mm.SVR(mk.RBF(), 2.0, 0.0)),
        E("no-offset", mm.SVR(mk.Polynomial(2), 0.5, 0.05, fit_intercept=False, tol=1e-10)),
        E("precomputed", mm.SVR("precomputed", 3.0, 0.01)),
        E("", mm.NuSVR()),
        E("no-offset", mm.NuSVR(mk.RBF(), 0.3, 5.0, fit_intercept=False, tol=1e-10)),
        E("precomputed", mm.NuSVR("precomputed", 0.7, 0.5)),
        E("", mm.OneClassSVM()),
        E("few", mm.OneClassSVM(mk.Matern(1.5), 0.1)),
        E("precomputed", mm.OneClassSVM("precomputed", 0.3)),
        E("", mm.KDEClassifier()),
        E("loo", mm.KDEClassifier("loo", priors=[0.2, 0.3, 0.5]), repeatable_weights=False),
        E("shared", mm.KDEClassifier("loo", shared=True), repeatable_weights=False),
        E("compact", mm.KDEClassifier(1.5, "biweight")),
        E("", mm.KernelDensity()),
        E("loo", mm.KernelDensity("loo"), repeatable_weights=False),
        E("columns", mm.KernelDensity([5.0, 4.0, 6.0], "biweight")),
        E("cosine", mm.KernelDensity("loo", "cosine"), repeatable_weights=False),
        E("city", mm.KernelDensity("loo", "exponential", "l1"), repeatable_weights=False),
        E("product", mm.KernelDensity([5.0, 4.0, 6.0], "triangular", "product")),
        E("", mm.KernelMachine(estimator=logistic)),
        E("random", mm.KernelMachine(mk.RBF(), "random", logistic, n_prototypes=0.5)),
        E("regressor", mm.KernelMachine("rbf", "kmeans", least, n_prototypes=9)),
        E("precomputed", mm.KernelMachine("precomputed", "all", least)),
        # Rows given twice with one target have no noise: its bound, 1e-8, costs half the digits.
        E("", mm.GaussianProcessClassifier()),
        E("kept", mm.GaussianProcessClassifier(mk.RBF(1.5), optimizer=None)),
        E("probit", mm.GaussianProcessClassifier(2.0 * mk.RBF(1.5), "laplace", "probit")),
        E("rest", mm.GaussianProcessClassifier(mk.RBF(), multi_class="one_vs_rest")),
        E("ep", mm.GaussianProcessClassifier(mk.RBF(1.5), "ep", optimizer=None)),
        E("ep-tuned", mm.GaussianProcessClassifier(mk.Matern(2.0), "ep", "probit")),
        E("vi", mm.GaussianProcessClassifier(2.0 * mk.RBF(), "vi", optimizer=None)),
        E("vi-probit", mm.GaussianProcessClassifier(mk.RBF(2.0), "vi", "probit")),
        E("precomputed", mm.GaussianProcessClassifier("precomputed")),
        E("ep-probit", mm.GaussianProcessClassifier("precomputed", "ep", "probit")),
        E("", Process(), repeatable_weights=False),
        E("noisy", Process(bounds={"noise": (0.01, 1.0)})),
        E("kept", Process(mk.RBF(1.5), 0.05, optimizer=None)),
        E("as-is", Process("matern", 0.1, normalize_y=False)),
        E("constant", Process("rbf", 0.1, optimizer=None, mean="constant")),
        # equal targets of repeated rows prove that there is no noise, and then rounding decides
        E("linear", Process(1.0 * mk.RBF([1, 1, 1]), mean="linear", bounds={"noise": (1e-3, 1e3)})),
        E("outputs", Process(mk.RBF(2.0), 0.1), outputs=2),
        E("precomputed", Process("precomputed")),
        E("", Sparse(), repeatable_weights=False),
        E("kept", Sparse(mk.RBF(1.5), 0.05, optimizer=None)),
        E(
            # At the least noise of all, rounding would be a millionth of the answer.
            "fitc",
            Sparse(mk.Matern(2.0), (1e-2, 1e2), 99, method="fitc"),
        ),
        E("outputs", Sparse(mk.RBF(2.0), 0.1), outputs=2),
        E("precomputed", Sparse("precomputed", 0.1)),
        E("", mm.KernelNeighborsClassifier()),
        E("dot", mm.KernelNeighborsClassifier(mk.Polynomial(2), 3)),
        E("precomputed", mm.KernelNeighborsClassifier("precomputed")),
        E("", mm.KernelNeighborsRegressor()),
        E("outputs", mm.KernelNeighborsRegressor("linear", 2), outputs=2),
        E("precomputed", mm.KernelNeighborsRegressor("precomputed", 1)),
        E("", mm.NadarayaWatson(), repeatable_weights=False),
        E("rule", mm.NadarayaWatson("scott", "epanechnikov")),
        E("planes", mm.NadarayaWatson(1.5, degree=1)),
        E("outputs", mm.NadarayaWatson([0.5, 0.7, 0.9], "biweight"), outputs=2),
        E("kernel", mm.NadarayaWatson(kernel=mk.Matern("median"))),
        E("precomputed", mm.NadarayaWatson(kernel="precomputed")),
        E("", mm.NadarayaWatsonClassifier(), repeatable_weights=False),
        E("number", mm.NadarayaWatsonClassifier(0.7, "tophat")),
        E("precomputed", mm.NadarayaWatsonClassifier(kernel="precomputed")),
        E("", mm.NearestBarycentre()),
        E("linear", mm.NearestBarycentre("linear")),
        E("precomputed", mm.NearestBarycentre("precomputed")),
        E("", mm.StructuredKernelRidge()),
        E("outputs", mm.StructuredKernelRidge(mk.Matern("median"), "linear"), outputs=2),
        E("precomputed", mm.StructuredKernelRidge("precomputed", alpha=0.1)),
        E("", mm.L1VM()),
        E("squared", mm.L1VM(mk.RBF(1.5), "squared", 0.2, 0.5)),
        E("hinge", mm.L1VM(mk.RBF(), "squared_hinge", 0.3, fit_intercept=False)),
        E("", mm.L1VMClassifier(mk.RBF(), 0.2, class_weight="balanced")),
        E("net", mm.L1VMClassifier(mk.Matern(1.5), 0.3, 0.4)),
        E("precomputed", mm.L1VMClassifier("precomputed", 0.1)),
        E("", mm.L1VMRegressor()),
        E("matern", mm.L1VMRegressor(mk.Matern("median"), 0.05)),
        E("no-offset", mm.L1VMRegressor("linear", 0.1, fit_intercept=False)),
        E("ridge", mm.L1VMRegressor(mk.RBF(), 0.1, 0.0)),
        E("precomputed", mm.L1VMRegressor("precomputed", 0.05, 0.8)),
        # Starts and batches are drawn along the rows.
        E("", mm.KernelKMeans(), any_order=False),
        E("few", mm.KernelKMeans(3, mk.Matern("median"), n_init=4), any_order=False),
        E("random", mm.KernelKMeans(4, mk.RBF(), init="random"), any_order=False),
        E("linear", mm.KernelKMeans(3, "linear"), any_order=False),
        E("features", mm.KernelKMeans(4, mk.Polynomial(2)), any_order=False),
        E("nystrom", mm.KernelKMeans(3, method="nystrom", rank=20), any_order=False),
        E("batches", mm.KernelKMeans(3, method="minibatch", batch_size=64), any_order=False),
        E("precomputed", mm.KernelKMeans(4, "precomputed"), any_order=False),
        E("", mm.DPMeans(4.0)),
        E("many", mm.DPMeans(0.3)),
        E("rbf", mm.DPMeans(0.4, "rbf")),
        E("matern", mm.DPMeans(kernel=mk.Matern("median"))),
        E("precomputed", mm.DPMeans(0.5, "precomputed")),
        E("", mm.SpectralClustering()),
        E("means", mm.SpectralClustering(3, mk.RBF(), n_components=2)),
        E("pivots", mm.SpectralClustering(3, assign_labels="cluster_qr")),
        E("matern", mm.SpectralClustering(2, mk.Matern(1.5), assign_labels="cluster_qr")),
        E("affinity", mm.SpectralClustering(3, "precomputed", assign_labels="cluster_qr")),
        E("turns", mm.SpectralClustering(3, assign_labels="discretize")),
        E(
            "neighbours",
            mm.SpectralClustering(3, mk.Matern(1.5), affinity="nearest_neighbors", n_neighbors=5),
        ),
        E("", mm.KernelPCA()),
        E("subspace", mm.KernelPCA(4, mk.RBF(1.5), eigen_solver="subspace", tol=1e-11)),
        E("features", mm.KernelPCA(4, mk.Polynomial(2))),
        E("share", mm.KernelPCA(0.9, mk.Matern(2.0))),
        E("cholesky", mm.KernelPCA(4, mk.RBF(1.5), eigen_solver="cholesky", rank=99)),
        E("precomputed", mm.KernelPCA(5, "precomputed")),
        E("", mm.PCA()),
        E("whiten", mm.PCA(2, whiten=True)),
        E("", mm.TableRegressor("rbf")),
        E("", mm.TableClassifier("rbf")),
        E("svc", mm.TableClassifier("rbf", model="svc", probability=True)),
        # Copies of a row may be in different folds; rows of a class are dealt out in their order,
        # and a descent makes 1e-8 of what rounding leaves of the scales of columns.
        E(
            "",
            mm.FeatureMachineRegressor(2, max_rows=40),
            repeatable_weights=False,
            any_order=False,
        ),
        E(
            "",
            mm.FeatureMachineClassifier(1, max_rows=40),
            repeatable_weights=False,
            any_order=False,
        ),
        # In no time one metric is tried, which is always the same one.
        E("features", mm.TableRegressor(max_time=1e-9), repeatable_weights=False),
        E(
            "features",
            mm.TableClassifier(max_time=1e-9),
            repeatable_weights=False,
            any_order=False,
        ),
        E("", TableEncoder()),
        E("", Nystroem()),
        E("uniform", Nystroem(mk.RBF(1.5), 9, "uniform")),
        E("means", Nystroem(mk.Matern(2.0), 8, "kmeans")),
        E("leverage", Nystroem(mk.Polynomial(2), 7, "leverage")),
        E("pivots", Nystroem(mk.Laplacian(), 10)),
        # Positions of a matrix are those of its rows.
        E("precomputed", Nystroem("precomputed", 12), any_order=False),
        E("", RandomFourierFeatures()),
        E("plain", RandomFourierFeatures(mk.Matern(), 7, "plain")),
        E("quasi", RandomFourierFeatures(mk.Laplacian(), 8, "quasi")),
        E("sum", RandomFourierFeatures(2.0 * mk.RBF().on([0, 1]) + mk.Periodic().on(2), 20)),
        E("", TensorSketch()),
        E("even", TensorSketch(2.0 * mk.Polynomial(2, 0.0) * mk.Linear(), 64)),
        E("linear", TensorSketch("linear", 5)),
        E("", Prototypes()),
        E("random", Prototypes(mk.Matern(), "random", n_prototypes=7)),
        E("kmeans", Prototypes(mk.Polynomial(2), "kmeans", n_prototypes="sqrt")),
        # The features of columns come in the order of the columns.
        E("precomputed", Prototypes("precomputed"), any_order=False),
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
