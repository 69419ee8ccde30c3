"""A kernel made of a precomputed one is what it says: 2·K of a matrix is the matrix 2·K."""

import numpy as np
import pytest
from sklearn.base import clone

import mercer
from mercer import RBF, Precomputed
from mercer.statistics import hsic, hsic_test, mmd, mmd_test

rng = np.random.default_rng(0)
X = rng.standard_normal((40, 2))
K = RBF()(X)
Y = np.where(X[:, 0] > 0.1, 1, 0)
T = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(40)

MODELS = {
    "ridge": (mercer.KernelRidge(alpha=0.1), T, "predict"),
    "ridge by loo": (mercer.KernelRidge(alpha="loo"), T, "predict"),
    "ridge by cg": (mercer.KernelRidge(alpha=0.1, solver="cg"), T, "predict"),
    "ridge classifier": (mercer.KernelRidgeClassifier(), Y, "decision_function"),
    "svc": (mercer.SVC(), Y, "decision_function"),
    "nu svc": (mercer.NuSVC(0.3), Y, "decision_function"),
    "svr": (mercer.SVR(), T, "predict"),
    "one class": (mercer.OneClassSVM(), None, "decision_function"),
    "risk": (mercer.KernelERM("hinge"), Y, "predict"),
    "logistic": (mercer.KernelLogisticRegression(), Y, "decision_function"),
    "quantile": (mercer.KernelQuantileRegressor(), T, "predict"),
    "perceptron": (mercer.KernelPerceptron(), Y, "decision_function"),
    "process": (mercer.GaussianProcessRegressor(noise=0.1, optimizer=None), T, "predict"),
    "sparse process": (
        mercer.SparseGaussianProcessRegressor(n_inducing=8, noise=0.1, optimizer=None),
        T,
        "predict",
    ),
    "classes": (mercer.GaussianProcessClassifier(optimizer=None), Y, "predict_proba"),
    "neighbours": (mercer.KernelNeighborsRegressor(n_neighbors=3), T, "predict"),
    "barycentre": (mercer.NearestBarycentre(), Y, "decision_function"),
    "l1": (mercer.L1VMRegressor(alpha=0.01), T, "predict"),
    "components": (mercer.KernelPCA(3), None, "transform"),
    "components by pivots": (
        mercer.KernelPCA(3, eigen_solver="cholesky", random_state=0),
        None,
        "transform",
    ),
    "means": (mercer.DPMeans(1.0), None, "predict"),
    "clusters": (mercer.KernelKMeans(3, random_state=0), None, "predict"),
    "spectral": (mercer.SpectralClustering(2, random_state=0), None, "predict"),
    "spectral by pivots": (
        mercer.SpectralClustering(2, method="nystrom", rank=10, random_state=0),
        None,
        "predict",
    ),
    "features": (mercer.Nystroem(n_components=10, random_state=0), None, "transform"),
    "features by leverage": (
        mercer.Nystroem(n_components=10, landmarks="leverage", random_state=0),
        None,
        "transform",
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_factor_counts(name):
    model, y, method = MODELS[name]
    answers = []
    for kernel, given in ((2.0 * Precomputed(), K), (Precomputed(), 2.0 * K)):
        own = clone(model).set_params(kernel=kernel)
        own.fit(given) if y is None else own.fit(given, y)
        answers.append(np.asarray(getattr(own, method)(given)))
    np.testing.assert_allclose(answers[0], answers[1], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("options", [{}, {"rank": 40}])
def test_a_factor_counts_in_statistics(options):
    twice = 2.0 * Precomputed()
    a = hsic(K, K, kernel_x=twice, kernel_y=Precomputed(), **options)
    np.testing.assert_allclose(a, hsic(2 * K, K, Precomputed(), Precomputed(), **options))
    b = mmd(K[:20], K[20:], kernel=twice, **options)
    np.testing.assert_allclose(b, mmd(2 * K[:20], 2 * K[20:], kernel=Precomputed(), **options))
    one = mmd_test(K[:20], K[20:], twice, 99, 0, **options)
    two = mmd_test(2 * K[:20], 2 * K[20:], Precomputed(), 99, 0, **options)
    assert one.pvalue == two.pvalue
    np.testing.assert_allclose(one.statistic, two.statistic)
    one = hsic_test(K, K, twice, Precomputed(), 99, 0, **options)
    two = hsic_test(2 * K, K, Precomputed(), Precomputed(), 99, 0, **options)
    assert one.pvalue == two.pvalue


def test_a_factor_counts_in_left_out_neighbours():
    one = mercer.KernelNeighborsRegressor(2.0 * Precomputed(), 3).fit(K, T).loo(K)
    two = mercer.KernelNeighborsRegressor(Precomputed(), 3).fit(2 * K, T).loo(2 * K)
    np.testing.assert_allclose(one, two)
