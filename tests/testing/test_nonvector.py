"""The laws of estimators on strings, graphs and mixed tables hold, and each of them can fail."""

import numpy as np
import pytest
from sklearn import linear_model
from sklearn.base import is_classifier

import mercer
from mercer import RBF, KernelRidge, models
from mercer.kernels import Categorical
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
