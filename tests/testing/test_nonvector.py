"""The laws of estimators on strings, graphs and mixed tables hold, and each of them can fail."""

import numpy as np
import pytest
from sklearn import linear_model
from sklearn.base import is_classifier
from sklearn.exceptions import NotFittedError

import mercer
from mercer import RBF, KernelRidge, models
from mercer.errors import InvalidInput
from mercer.kernels import Categorical, FromFunction
from mercer.kernels.graphs import WeisfeilerLehman
from mercer.kernels.strings import Spectrum
from mercer.testing import (
    EstimatorExample,
    check_nonvector_estimator,
    nonvector_laws,
)

N = 20
LAWS = dict(nonvector_laws())


# ------------------------------------------------------------------------------- three kinds
def strings(rng):
    words = ["".join(rng.choice(list("acgt"), rng.integers(4, 9))) for _ in range(N)]
    return [("gattaca" if i % 2 else "") + w for i, w in enumerate(words)]


def graphs(rng):
    made = []
    for i in range(N):
        n = int(rng.integers(4, 8))
        path = [(j, j + 1) for j in range(n - 1)]
        ring = [(0, n - 1)] if i % 2 else [(0, int(rng.integers(2, n)))]
        made.append(mercer.Graph(edges=path + ring, n_nodes=n, labels=rng.integers(0, 3, n)))
    return made


def table(rng):
    pandas = pytest.importorskip("pandas")
    side = np.arange(N) % 2
    return pandas.DataFrame(
        {
            "age": 40 + 10 * side + rng.normal(0, 5, N),
            "dose": rng.uniform(0, 1, N),
            "site": rng.choice(["north", "south", "west"], N),
            "sequence": strings(rng),
        }
    )


def mixed():
    numeric = RBF(10.0).on(["age", "dose"])
    text = Spectrum(2).normalized().on("sequence")
    return numeric * Categorical(0.5).on("site") + 0.5 * text


KINDS = {
    "strings": (strings, lambda: Spectrum(2).normalized()),
    "graphs": (graphs, lambda: WeisfeilerLehman(2).normalized()),
    "table": (table, mixed),
}


def data(kind):
    X = KINDS[kind][0](np.random.default_rng(7))
    return X, KINDS[kind][1]()


def examples(kernel):
    logistic = linear_model.LogisticRegression(solver="newton-cholesky", tol=1e-12)
    E = EstimatorExample
    yield E("SVC", models.SVC(kernel))
    yield E("NuSVC", models.NuSVC(kernel, 0.1))
    yield E("SVR", models.SVR(kernel))
    yield E("KernelRidge", KernelRidge(kernel, 0.1))
    yield E("KernelRidgeClassifier", models.KernelRidgeClassifier(kernel))
    yield E("KernelLogisticRegression", models.KernelLogisticRegression(kernel))
    yield E(
        "GaussianProcessRegressor", models.GaussianProcessRegressor(kernel, 0.1, optimizer=None)
    )
    yield E("GaussianProcessClassifier", models.GaussianProcessClassifier(kernel, optimizer=None))
    yield E("KernelPCA", models.KernelPCA(2, kernel))
    yield E("KernelKMeans", models.KernelKMeans(2, kernel), any_order=False)
    yield E("SpectralClustering", models.SpectralClustering(2, kernel, assign_labels="cluster_qr"))
    yield E("KernelNeighborsClassifier", models.KernelNeighborsClassifier(kernel, 3))
    yield E("KernelNeighborsRegressor", models.KernelNeighborsRegressor(kernel, 3))
    yield E("OneClassSVM", models.OneClassSVM(kernel))
    yield E("NearestBarycentre", models.NearestBarycentre(kernel))
    yield E("KernelPerceptron", models.KernelPerceptron(kernel), any_order=False)
    yield E("KernelMachine", models.KernelMachine(kernel, estimator=logistic))


NAMES = [e.name for e in examples(RBF())]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_every_estimator_on_every_kind_of_data(name, kind):
    X, kernel = data(kind)
    example = next(e for e in examples(kernel) if e.name == name)
    side = np.arange(N) % 2
    y = (
        np.array(["no", "yes"])[side]
        if is_classifier(example.estimator)
        else side + 0.1 * np.arange(N)
    )
    unsupervised = name in ("KernelPCA", "KernelKMeans", "SpectralClustering", "OneClassSVM")
    check_nonvector_estimator(example, X, None if unsupervised else y)


def test_bags_and_objects_are_judged_too():
    rng = np.random.default_rng(3)
    bags = [rng.normal(i % 2, 1, (rng.integers(1, 5), 2)) for i in range(12)]
    check_nonvector_estimator(models.SVC(mercer.SetKernel(RBF())), bags)
    for law in ("subsets", "forms", "refusals"):
        LAWS[law](KernelRidge(mercer.SetKernel(Spectrum(1))), [["ab", "c"], ["a"], [], ["bc"]] * 3)


def test_targets_are_made_up_where_none_are_given():
    X, kernel = data("strings")
    LAWS["subsets"](models.SVC(kernel), X)
    LAWS["subsets"](KernelRidge(kernel), X)
    with pytest.raises(AssertionError, match="eight points"):
        LAWS["subsets"](KernelRidge(kernel), X[:5])


# ------------------------------------------------------------------------- broken on purpose
class Broken(KernelRidge):
    """Does one thing wrong, on purpose; the parts below say which."""

    def __init__(self, kernel="rbf", alpha=1.0):
        super().__init__(kernel, alpha)


class Doubles(Broken):
    def fit(self, X, y, sample_weight=None):
        self.alpha = 2 * self.alpha
        return super().fit(X, y, sample_weight)


class Overwrites(Broken):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        if isinstance(X, list):
            X[0] = X[1]
        return self


@mercer.io.register
class Forgets(Broken):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        self._shift = 1.0
        return self

    def predict(self, X):
        return super().predict(X) + getattr(self, "_shift", 0.0)


class Ages(Broken):
    fits = 0

    def fit(self, X, y, sample_weight=None):
        type(self).fits += 1
        super().fit(X, y, sample_weight)
        self.dual_coef_ = self.dual_coef_ * (1 + 1e-6 * self.fits)
        return self


class Centres(Broken):
    def predict(self, X):
        values = super().predict(X)
        return values - values.mean()


class DropsTheLast(Broken):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        self.dual_coef_ = np.append(self.dual_coef_[:-1], 0.0)
        return self


class IgnoresWeights(Broken):
    def fit(self, X, y, sample_weight=None):
        return super().fit(X, y)


class Guesses(Broken):
    def predict(self, X):
        try:
            return super().predict(X)
        except NotFittedError:
            return np.zeros(len(X))


class TakesAnything(Broken):
    def fit(self, X, y, sample_weight=None):
        if isinstance(X, list):
            X = [str(x) for x in X]
        return super().fit(X, y, sample_weight)


class LosesItsFit(Broken):
    def fit(self, X, y, sample_weight=None):
        try:
            return super().fit(X, y, sample_weight)
        except InvalidInput:
            if hasattr(self, "dual_coef_"):
                self.dual_coef_ = 0 * self.dual_coef_
            raise


class NothingOfOne(Broken):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        if len(X) == 1:
            self.dual_coef_ = self.dual_coef_ * np.nan
        return self

    def predict(self, X):
        return np.full(len(X), np.nan) if np.isnan(self.dual_coef_).any() else super().predict(X)


class ListsOnly(Broken):
    def fit(self, X, y, sample_weight=None):
        if not isinstance(X, list):
            raise TypeError("lists only")
        return super().fit(X, y, sample_weight)


class CountsColumns(Broken):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        self.n_features_in_ = 1
        return self


class KnowsThePoints(Broken):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        if self.kernel != "precomputed":
            self.dual_coef_ = 1.001 * self.dual_coef_
        return self


class NoScore(Broken):
    def score(self, X, y, sample_weight=None):
        return float("nan")


BROKEN = {
    "parameters": (Doubles, "replaced the parameter alpha"),
    "inputs": (Overwrites, "X was changed"),
    "copies": (Forgets, "saved and loaded"),
    "repeatable": (Ages, "fitted again"),
    "subsets": (Centres, "in two batches"),
    "order": (DropsTheLast, "in another order"),
    "weights": (IgnoresWeights, "weight ≠ repetition"),
    "not_fitted": (Guesses, "answers before fit"),
    "refusals": (TakesAnything, "None inside is not refused"),
    "one_point": (NothingOfOne, "predict is not finite"),
    "forms": (ListsOnly, "a tuple is refused"),
    "columns": (CountsColumns, "have no columns"),
    "precomputed": (KnowsThePoints, "precomputed ≠ kernel"),
    "selection": (NoScore, "scores"),
}


def test_every_law_is_broken_by_someone():
    assert set(BROKEN) == set(LAWS)


@pytest.mark.parametrize("law", BROKEN)
def test_a_broken_estimator_is_caught(law):
    cls, message = BROKEN[law]
    X, kernel = data("strings")
    y = np.arange(N) % 2 + 0.1 * np.arange(N)
    with pytest.raises(AssertionError, match=message):
        LAWS[law](cls(kernel), X, y)
    with pytest.raises(AssertionError, match="law '"):
        check_nonvector_estimator(cls(kernel), X, y)


def test_a_fit_that_was_refused_leaves_an_earlier_one_alone():
    X, kernel = data("strings")
    with pytest.raises(AssertionError, match="after fits that were refused"):
        LAWS["refusals"](LosesItsFit(kernel), X)


def test_columns_of_a_table_are_counted():
    X, kernel = data("table")
    with pytest.raises(AssertionError, match="n_features_in_ is 1"):
        LAWS["columns"](CountsColumns(kernel), X)


def test_a_message_without_an_owner_is_caught():
    class Mute(Broken):
        def fit(self, X, y, sample_weight=None):
            try:
                return super().fit(X, y, sample_weight)
            except InvalidInput:
                raise InvalidInput("wrong") from None

    X, kernel = data("strings")
    with pytest.raises(AssertionError, match="no owner"):
        LAWS["refusals"](Mute(kernel), X)


def test_a_function_of_two_objects_obeys_the_laws_of_lists():
    common = FromFunction(letters)
    X, _ = data("strings")
    for law in ("parameters", "repeatable", "subsets", "order", "weights", "precomputed"):
        LAWS[law](KernelRidge(common, 0.1), X)


def letters(s, t):
    return float(len(set(s) & set(t)))
