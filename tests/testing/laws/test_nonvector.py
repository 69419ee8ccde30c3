"""The laws of estimators on strings, graphs, mixed tables and all other points hold."""

from itertools import pairwise
from math import nan

import numpy as np
import pytest
from sklearn import linear_model
from sklearn.base import is_classifier, is_regressor
from sklearn.utils.validation import has_fit_parameter

import mercer
from mercer import RBF, KernelRidge, models
from mercer.errors import InvalidInput
from mercer.kernels import (
    BagOfWords,
    Categorical,
    Counted,
    FromFunction,
    GlobalAlignment,
    Pairwise,
    SetKernel,
)
from mercer.kernels.graphs import Diffusion, WeisfeilerLehman
from mercer.kernels.strings import EditDistance, Spectrum
from mercer.testing import EstimatorExample, check_nonvector_estimator, nonvector_laws

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
    return numeric * Categorical(0.5).on("site") + text


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


def is_supervised(example):
    return is_classifier(example.estimator) or is_regressor(example.estimator)


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


@pytest.mark.parametrize("name", [e.name for e in examples(RBF()) if is_supervised(e)])
def test_models_of_mercer_name_themselves_where_targets_or_weights_are_wrong(name):
    X, kernel = data("strings")
    model = next(e.estimator for e in examples(kernel) if e.name == name)
    y = np.arange(N) % 2
    cases = [{"y": y[:-1]}, {"y": None}]
    if has_fit_parameter(model, "sample_weight"):
        cases += [{"y": y, "sample_weight": w} for w in (np.ones(3), -np.ones(N), np.full(N, nan))]
    for wrong in cases:
        with pytest.raises(InvalidInput, match=type(model).__name__):
            model.fit(X, **wrong)


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


# ---------------------------------------------------------------------------- other points
def series(rng):
    return [rng.normal(i % 2, 1, rng.integers(2, 6)) for i in range(N)]


def gapped(rng):
    return [None if i == 5 else s for i, s in enumerate(strings(rng))]


def sentences(rng):
    words = ["the", "cat", "sat", "on", "a", "mat", "the", "dog", "ran", "far", "from", "home"]
    return [" ".join(rng.choice(words, 6)) + (" again" if i % 2 else "") for i in range(N)]


def network():
    steps = [(i, i + 1) for i in range(N - 1)] + [(i, i + 5) for i in range(0, N - 5, 3)]
    weights = np.random.default_rng(1).uniform(0.5, 1.5, len(steps))
    return mercer.Graph(edges=steps, weights=weights, n_nodes=N)


def bags(rng):
    return [rng.normal(i % 2, 1, (rng.integers(1, 5), 2)) for i in range(N)]


OTHERS = {
    "series": (series, lambda: GlobalAlignment().normalized()),
    "missing": (gapped, lambda: Spectrum(2).normalized().with_missing()),
    "repaired": (strings, lambda: EditDistance(3.0).repaired("clip")),
    "text": (sentences, lambda: BagOfWords()),
    "nodes": (lambda rng: list(range(N)), lambda: Diffusion(network(), 0.5)),
    "bags": (bags, lambda: SetKernel(RBF("median"))),
}


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("model", [models.SVC, KernelRidge])
def test_kernels_on_all_other_points(model, kind):
    make, kernel = OTHERS[kind]
    check_nonvector_estimator(model(kernel()), make(np.random.default_rng(7)))


def others(kernel):
    E = EstimatorExample
    yield E("KernelQuantileRegressor", models.KernelQuantileRegressor(kernel))
    yield E("NuSVR", models.NuSVR(kernel))
    yield E("DPMeans", models.DPMeans(0.5, kernel), any_order=False)
    yield E("L1VMClassifier", models.L1VMClassifier(kernel))
    yield E("NadarayaWatsonClassifier", models.NadarayaWatsonClassifier(kernel=kernel))
    yield E("Prototypes", mercer.Prototypes(kernel, n_prototypes=4), any_order=False)


@pytest.mark.parametrize("name", [e.name for e in others(RBF())])
def test_other_estimators_on_strings(name):
    X, kernel = data("strings")
    check_nonvector_estimator(next(e for e in others(kernel) if e.name == name), X)


def test_models_that_compute_nothing_yet_read_the_cells_of_a_table():
    X, kernel = data("table")
    LAWS["refusals"](models.NadarayaWatson(kernel=kernel), X)


@mercer.io.register
class SharedPairs(Pairwise):
    def __init__(self):
        super().__init__()

    def _pair(self, x, y):
        return float(len(set(pairwise(x)) & set(pairwise(y))))


@mercer.io.register
class Pairs(Counted):
    def __init__(self):
        super().__init__()

    def _count(self, x):
        return {a + b: 1.0 for a, b in pairwise(x)}


@pytest.mark.parametrize("kernel", [SharedPairs(), Pairs()], ids=["pairwise", "counted"])
def test_kernels_of_authors_on_objects(kernel):
    check_nonvector_estimator(KernelRidge(kernel, 0.1), data("strings")[0])


def test_a_function_of_two_objects_obeys_the_laws_of_lists():
    common = FromFunction(letters)
    X, _ = data("strings")
    for law in ("parameters", "repeatable", "subsets", "order", "weights", "precomputed"):
        LAWS[law](KernelRidge(common, 0.1), X)


def letters(s, t):
    return float(len(set(s) & set(t)))
