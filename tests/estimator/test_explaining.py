"""Models explain themselves: shares of columns add up to their functions."""

from itertools import product
from math import comb

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from mercer import (
    RBF,
    SVC,
    SVR,
    Categorical,
    DPMeans,
    GaussianProcessClassifier,
    GaussianProcessRegressor,
    KernelLogisticRegression,
    KernelNeighborsRegressor,
    KernelQuantileRegressor,
    KernelRidge,
    Laplacian,
    OneClassSVM,
    Polynomial,
    SparseGaussianProcessRegressor,
    Spectrum,
)
from mercer.datasets import make_clinic
from mercer.errors import InvalidInput
from mercer.models import NadarayaWatson

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 3))
Y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2]
TWO, THREE = (Y > 0).astype(int), np.digitize(Y, [-0.5, 0.5])
PROCESS = {"noise": 0.1, "optimizer": None}

MODELS = [
    (KernelRidge(RBF(1.5)), Y, None),
    (KernelRidge(RBF(1.5)), np.column_stack([Y, -Y]), ("y0", "y1")),
    (KernelRidge(RBF(1.5), solver="falkon", n_centers=20, random_state=0), Y, None),
    (SVC(RBF(1.5)), TWO, None),
    (SVC(RBF(1.5)), THREE, ("1 or 0", "2 or 0", "2 or 1")),
    (SVR(Laplacian(3.0)), Y, None),
    (OneClassSVM(RBF(1.5)), None, None),
    (KernelLogisticRegression(RBF(1.5), alpha=0.1), TWO, None),
    (KernelLogisticRegression(RBF(1.5), alpha=0.1), THREE, ("0", "1", "2")),
    (KernelQuantileRegressor(RBF(1.5), [0.1, 0.9], alpha=0.1), Y, ("y0", "y1")),
    (GaussianProcessRegressor(RBF(1.0), **PROCESS), Y, None),
    (GaussianProcessClassifier(RBF(1.0), optimizer=None), TWO, None),
]


@pytest.mark.parametrize(("model", "y", "outputs"), MODELS, ids=lambda part: type(part).__name__)
@pytest.mark.parametrize("game", ["marginal", "background", "baseline"])
def test_shares_add_up_to_the_function(model, y, outputs, game):
    model.fit(X, y)
    told = model.explain(X[:4], game=game)
    np.testing.assert_allclose(told.totals, model.function_(X[:4]), atol=1e-8)
    assert told.outputs == outputs and told.game == game
    assert told.columns == ("x0", "x1", "x2") and (told.data == X[:4]).all()


def test_a_table_of_mixed_columns_is_told_by_its_names():
    patients, recovery = make_clinic(120, random_state=0)
    k = RBF([20.0, 20.0]).with_missing().on(["age", "dose"]) * Categorical(0.5).on("site")
    k = k + Spectrum(3).normalized().with_missing().on("sequence")
    model = KernelRidge(k).fit(patients, recovery)
    some = patients.take([0, 1, 5])
    told = model.explain(some, background=patients.take(np.arange(40)))
    assert told.columns == ("age", "dose", "site", "sequence")
    np.testing.assert_allclose(told.totals, model.predict(some), atol=1e-10)
    assert told.data[0, 2] == some.columns[some.names.index("site")][0]


def test_names_of_a_frame():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["age", "dose", "weight"])
    model = KernelRidge(RBF(1.5)).fit(frame, Y)
    told = model.explain(frame[:3], background=frame[:20], groups=[["age", "dose"]])
    assert told.columns == ("age & dose", "weight")


def test_interactions_find_the_pair():
    told = KernelRidge(RBF(1.5), alpha=0.1).fit(X, Y).explain(X, interactions=True)
    sizes = np.abs(told.interactions).mean(axis=0)
    sizes[np.diag_indices(3)] = 0
    assert set(np.unravel_index(sizes.argmax(), sizes.shape)) == {1, 2}


def test_who_has_no_shares_says_so():
    with pytest.raises(NotFittedError):
        KernelRidge().explain(X)
    with pytest.raises(InvalidInput, match=r"KernelRidge.explain: .* a Gram matrix"):
        KernelRidge("precomputed").fit(X @ X.T, Y).explain(X @ X.T)
    with pytest.raises(ValueError, match="2 features"):
        KernelRidge().fit(X, Y).explain(X, background=X[:, :2])
    with pytest.raises(ValueError, match="random_state"):
        KernelRidge().fit(X, Y).explain(X, random_state=-1)
    assert not hasattr(DPMeans(), "explain") and not hasattr(NadarayaWatson(), "explain")


# ---- Gaussian processes: a share is linear in f, and has a posterior deviation ----

POSTERIORS = [
    (GaussianProcessRegressor, {"mean": "zero"}),
    (GaussianProcessRegressor, {"mean": "constant"}),
    (GaussianProcessRegressor, {"mean": "linear"}),
    (SparseGaussianProcessRegressor, {"n_inducing": 6}),
]
PRODUCTS = [
    2.0 * RBF(1.0) + Laplacian(2.0),
    Polynomial(2, 1.0),
    RBF(1.0).on([0, 1]) * Laplacian(1.0).on(2),
]


def functionals(x, groups, B, b, game):
    """Return mixed rows, and the weights by which the shares are sums of values at them."""
    p, rows, weights = len(groups), [], []
    for S in product([0, 1], repeat=p):
        size = sum(S)
        drawn = [(i,) * p for i in range(len(B))]
        drawn = drawn if game == "background" else list(product(range(len(B)), repeat=p))
        for chosen in drawn:
            w = b[chosen[0]] if game == "background" else np.prod(b[list(chosen)])
            row = x.copy()
            for group, s, i in zip(groups, S, chosen, strict=True):
                row[list(group)] = x[list(group)] if s else B[i, list(group)]
            rows.append(row)
            weights.append(
                [w / (p * comb(p - 1, size - 1)) if s else -w / (p * comb(p - 1, size)) for s in S]
            )
    return np.array(rows), np.array(weights)


@pytest.mark.parametrize("kernel", PRODUCTS, ids=str)
@pytest.mark.parametrize(("cls", "options"), POSTERIORS)
def test_shares_of_a_process_have_posterior_deviations(cls, options, kernel):
    rng = np.random.default_rng(0)
    X, B, x = rng.normal(size=(15, 3)), rng.normal(size=(3, 3)), rng.normal(size=(2, 3))
    b = np.array([1.0, 2.0, 3.0])
    Y = np.stack([X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=15), 3.0 * X[:, 2]], axis=1)
    model = cls(kernel, noise=0.1, optimizer=None, **options).fit(X, Y)
    for game in ("marginal", "background"):
        told = model.explain(x, game=game, background=B, background_weight=b)
        np.testing.assert_allclose(told.totals, model.predict(x), atol=1e-9)
        groups = [(0,), (1,), (2,)] if told.values.shape[1] == 3 else [(0, 1), (2,)]
        for r in range(2):
            rows, W = functionals(x[r], groups, B, b / b.sum(), game)
            mean, cov = model.predict(rows, return_cov=True, with_noise=False)
            np.testing.assert_allclose(told.values[r], W.T @ mean, atol=1e-9)
            want = np.sqrt(np.einsum("ij,ikt,kj->jt", W, cov, W))
            np.testing.assert_allclose(told.std[r], want, rtol=1e-6, atol=1e-9)
    assert model.explain(x, game="baseline").std is None


def test_a_vote_of_neighbours_says_who_explains():
    model = KernelNeighborsRegressor(n_neighbors=2).fit(X, Y)
    assert not hasattr(model, "explain")
    with pytest.raises(
        AttributeError, match=r"has no explain: .* a KernelRidge on the same kernel"
    ):
        model.explain(X)
