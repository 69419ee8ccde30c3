"""Nyström features: the projection they are, its error, and any kernel on any points."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings, strategies as st
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

import mercer
from mercer import (
    RBF,
    FromFunction,
    Graph,
    KernelRidge,
    Laplacian,
    Linear,
    Matern,
    Nystroem,
    Polynomial,
    Spectrum,
    WeisfeilerLehman,
)
from mercer.errors import InvalidInput, MemoryBudgetExceeded, ModelFileError, NotPositiveDefinite
from mercer.estimator.options import LANDMARKS

RNG = np.random.default_rng(0)
X = RNG.standard_normal((50, 3))
NEW = RNG.standard_normal((20, 3))
WORDS = ["abab", "bcbc", "abab", "xyzx", "zzzz", "abc", "cab"]


def projected(kernel, A, Z, B):
    """K_AZ K_ZZ⁺ K_ZB from its definition."""
    W = np.linalg.pinv(kernel(Z), rcond=1e-11, hermitian=True)
    return kernel(A, Z) @ W @ kernel(Z, B)


# ------------------------------------------------------------------------------- what they are
@pytest.mark.parametrize("how", LANDMARKS)
@pytest.mark.parametrize(
    "kernel", [RBF(1.5), Matern(nu=0.5), Laplacian(2.0), Polynomial(2)], ids=repr
)
def test_inner_products_are_those_of_the_projections(how, kernel):
    model = Nystroem(kernel, 8, how, random_state=0).fit(X)
    A, B = model.transform(NEW), model.transform(X)
    assert A.shape == (20, model.n_components_) and model.n_components_ == 8
    expected = projected(kernel, NEW, model.components_, X)
    np.testing.assert_allclose(A @ B.T, expected, atol=1e-9)


@pytest.mark.parametrize("how", LANDMARKS)
def test_the_errors_are_exact(how):
    kernel = RBF(1.2)
    model = Nystroem(kernel, 9, how, random_state=0)
    Phi = model.fit_transform(X)
    np.testing.assert_allclose(Phi, model.transform(X), atol=1e-10)
    assert model.trace_error_ == pytest.approx(1 - (Phi**2).sum() / 50, rel=1e-9)
    assert Nystroem(kernel, 9, how, random_state=0).fit(X).trace_error_ == pytest.approx(
        model.trace_error_, rel=1e-9
    )
    expected = 1 - np.diagonal(projected(kernel, NEW, model.components_, NEW))
    np.testing.assert_allclose(model.residual(NEW), expected, atol=1e-10)
    # The bound of every kernel value by the residuals at its points.
    error = np.abs(kernel(NEW, X) - model.transform(NEW) @ Phi.T)
    bound = np.sqrt(np.outer(model.residual(NEW), model.residual(X)))
    assert (error <= bound + 1e-9).all()


@pytest.mark.parametrize("how", LANDMARKS)
def test_exact_at_the_landmarks_and_with_all_of_them(how):
    kernel = RBF(0.7)
    model = Nystroem(kernel, 10, how, random_state=0).fit(X)
    Z = model.components_
    np.testing.assert_allclose(model.transform(Z) @ model.transform(X).T, kernel(Z, X), atol=1e-10)
    np.testing.assert_allclose(model.residual(Z), 0, atol=1e-12)
    for m in (50, 51, 10_000):
        model = Nystroem(kernel, m, how, random_state=0)
        Phi = model.fit_transform(X)
        np.testing.assert_allclose(Phi @ Phi.T, kernel(X), atol=1e-9)
        assert model.trace_error_ < 1e-10 and model.n_components_ <= 50


def test_a_kernel_of_finite_rank_is_exact_with_so_many_features():
    model = Nystroem("linear", 40, random_state=0)
    Phi = model.fit_transform(X)
    assert model.n_components_ == 3
    np.testing.assert_allclose(Phi @ Phi.T, X @ X.T, atol=1e-10)
    assert len(model.components_) == len(model.component_indices_) == 3


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 12),
    st.integers(1, 14),
    st.integers(0, 3),
    st.sampled_from([1e-6, 1e-2, 1.0, 1e3]),
    st.sampled_from(LANDMARKS),
)
def test_never_NaN_and_never_beyond_k(n, m, seed, length, how):
    # Few values, so that points coincide, and length scales that make k singular or diagonal.
    Z = np.random.default_rng(seed).integers(0, 3, (n, 2)).astype(float)
    model = Nystroem(RBF(length), m, how, random_state=0)
    Phi = model.fit_transform(Z)
    assert np.isfinite(Phi).all() and 0 <= model.trace_error_ <= 1
    assert ((Phi**2).sum(1) <= 1 + 1e-9).all()
    if m >= n:
        np.testing.assert_allclose(Phi @ Phi.T, RBF(length)(Z), atol=1e-6)


def test_duplicates_among_given_landmarks_are_one():
    Z = np.repeat(X[:4], 3, axis=0)
    model = Nystroem(RBF(), landmarks=Z).fit(X)
    assert model.n_components_ == 4 and model.component_indices_ is None
    nearly = np.concatenate([X[:4], X[:4] + 1e-15])
    model = Nystroem(RBF(), landmarks=nearly).fit(X)
    assert model.n_components_ == 4 and np.isfinite(model.transform(X)).all()


def test_one_point_one_feature_and_a_kernel_of_zeros():
    for how in LANDMARKS:
        model = Nystroem(RBF(), 5, how).fit([[1.0, 2.0]])
        np.testing.assert_allclose(model.transform([[1.0, 2.0]]), [[1.0]])
        model = Nystroem(0.0 * RBF(), 5, how, random_state=0).fit(X)
        np.testing.assert_array_equal(model.transform(X), np.zeros((50, 1)))
        assert model.trace_error_ == 0


# --------------------------------------------------------------------------------- any points
@pytest.mark.parametrize("how", LANDMARKS)
def test_strings_graphs_tables_and_functions(how):
    graphs = [Graph(edges=e) for e in ([(0, 1)], [(0, 1), (1, 2)], [(0, 1), (1, 2), (2, 0)])]
    frame = pd.DataFrame({"age": [30.0, 40, 50, 31], "site": ["a", "b", "a", "a"]})
    table = RBF(10.0).on("age") * mercer.Categorical().on("site")
    common = FromFunction(lambda s, t: float(len(set(s) & set(t))))
    for kernel, points in [
        (Spectrum(2), WORDS),
        (common, WORDS),
        (WeisfeilerLehman(1), graphs),
        (table, frame),
    ]:
        model = Nystroem(kernel, 99, how, random_state=0)
        Phi = model.fit_transform(points)
        np.testing.assert_allclose(Phi @ Phi.T, model.kernel_(points), atol=1e-9)
        few = Nystroem(kernel, 2, how, random_state=0).fit(points)
        assert few.transform(points).shape[1] <= 2 and 0 <= few.trace_error_ < 1


def test_the_laws_of_strings():
    from mercer.testing import EstimatorExample, check_nonvector_estimator

    words = ["banana", "bandana", "ananas", "cabana", "havana", "panama", "savanna", "banana"]
    model = Nystroem(Spectrum(2), 4)  # pivots are drawn along the rows
    check_nonvector_estimator(EstimatorExample("strings", model, any_order=False), words)


def test_precomputed_rows():
    kernel = RBF(1.1)
    K, C = kernel(X), kernel(NEW, X)
    for how in LANDMARKS:
        model = Nystroem("precomputed", 7, how, random_state=0)
        Phi = model.fit_transform(K)
        Z = X[model.component_indices_]
        np.testing.assert_array_equal(model.components_, model.component_indices_)
        expected = projected(kernel, NEW, Z, X)
        np.testing.assert_allclose(model.transform(C) @ Phi.T, expected, atol=1e-9)
    with pytest.raises(InvalidInput, match="trace_error_"):
        model.residual(C)
    with pytest.raises(InvalidInput, match="square"):
        Nystroem("precomputed").fit(C)


def test_sparse_rows_frames_and_torch(torch):
    Z = np.where(np.abs(X) < 0.5, 0.0, X)
    dense = Nystroem(RBF(), 6, "rpcholesky", random_state=0).fit(Z)
    sparse = Nystroem(RBF(), landmarks=sp.csr_array(dense.components_)).fit(sp.csr_array(Z))
    np.testing.assert_allclose(sparse.transform(sp.csr_array(Z)), dense.transform(Z), atol=1e-9)
    tensor = Nystroem(RBF(), 6, random_state=0).fit(torch.as_tensor(X))
    array = Nystroem(RBF(), 6, random_state=0).fit(X)
    np.testing.assert_array_equal(tensor.transform(NEW), array.transform(NEW))
    with mercer.config(engine="torch", device="cpu"):
        device = Nystroem(RBF(), 6, random_state=0).fit(X)
        np.testing.assert_allclose(device.transform(NEW), array.transform(NEW), atol=1e-9)
    frame = Nystroem(RBF(), 6, random_state=0).set_output(transform="pandas")
    out = frame.fit_transform(pd.DataFrame(X, columns=list("abc")))
    assert list(out.columns) == [f"nystroem{j}" for j in range(6)]


def test_weights_are_repetition_in_the_error_too():
    w = RNG.integers(0, 4, 50)
    a = Nystroem(RBF(), 6, random_state=0).fit(X, sample_weight=w)
    b = Nystroem(RBF(), 6, random_state=0).fit(np.repeat(X, w, axis=0))
    assert a.trace_error_ == pytest.approx(b.trace_error_, rel=1e-9)
    np.testing.assert_allclose(a.transform(NEW), b.transform(NEW), atol=1e-9)


def test_ridge_on_the_features_is_kernel_ridge_where_they_are_exact():
    y = np.sin(X[:, 0])
    model = make_pipeline(Nystroem(RBF(), 50, random_state=0), Ridge(0.1, fit_intercept=False))
    exact = KernelRidge(RBF(), alpha=0.1).fit(X, y)
    np.testing.assert_allclose(model.fit(X, y).predict(NEW), exact.predict(NEW), atol=1e-8)


# --------------------------------------------------------------------------- memory and files
def test_blocks_of_rows_inside_a_small_budget_change_nothing():
    Z = np.random.default_rng(1).standard_normal((2000, 2))
    whole = Nystroem(RBF(), 10, "uniform", random_state=0).fit(Z)
    with mercer.config(memory=300_000):
        small = Nystroem(RBF(), 10, "uniform", random_state=0).fit(Z)
        assert small.trace_error_ == pytest.approx(whole.trace_error_, rel=1e-9)
        np.testing.assert_allclose(small.residual(Z), whole.residual(Z), atol=1e-12)
        with pytest.raises(MemoryBudgetExceeded, match="n_components"):
            Nystroem(RBF(), 1000, "uniform", random_state=0).fit(Z)


@pytest.mark.parametrize("kernel", [RBF(), Spectrum(2), "precomputed"], ids=str)
def test_saved_and_loaded(kernel, tmp_path):
    points = RBF()(X) if kernel == "precomputed" else X if kernel == RBF() else WORDS
    model = Nystroem(kernel, 4, random_state=0).fit(points)
    mercer.save(model, tmp_path / "m.mercer")
    again = mercer.load(tmp_path / "m.mercer")
    np.testing.assert_array_equal(again.transform(points), model.transform(points))
    assert again.trace_error_ == model.trace_error_


@pytest.mark.parametrize(
    "broken",
    [
        {"factor_": np.eye(3)},
        {"factor_": np.zeros((4, 4))},
        {"factor_": np.full((4, 4), np.nan)},
        {"n_components_": 3},
        {"component_indices_": np.arange(3)},
        {"components_": np.ones((4, 2))},
        {"components_": 3.0},
    ],
    ids=str,
)
def test_a_broken_state_is_refused(broken):
    model = Nystroem(RBF(), 4, random_state=0).fit(X)
    vars(model).update(broken)
    with pytest.raises(ModelFileError):
        model._check_state()
    del vars(model)["kernel_"]
    with pytest.raises(ModelFileError):
        model._check_state()


# ------------------------------------------------------------------------------------ refusals
def test_wrong_words_and_numbers_are_refused_and_leave_an_earlier_fit():
    model = Nystroem(RBF(), 5, random_state=0).fit(X)
    before = model.transform(NEW)
    for params in ({"landmarks": "best"}, {"n_components": 0}, {"n_components": 1.5}):
        with pytest.raises(InvalidInput, match="Nystroem"):
            model.set_params(**params).fit(X)
        model.set_params(landmarks="rpcholesky", n_components=5)
        np.testing.assert_array_equal(model.transform(NEW), before)
    with pytest.raises(InvalidInput, match="columns"):
        Nystroem(RBF(), landmarks=np.ones((2, 7))).fit(X)
    with pytest.raises(InvalidInput, match="NaN"):
        Nystroem(RBF()).fit([[np.nan, 1.0]])
    with pytest.raises(InvalidInput, match="kernel"):
        Nystroem("no such").fit(X)
    with pytest.raises(InvalidInput, match="sample_weight"):
        Nystroem(RBF()).fit(X, sample_weight=-np.ones(50))


def test_a_matrix_that_is_not_positive_semidefinite_is_refused():
    K = np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    for how in ("uniform", [0, 1, 2]):
        with pytest.raises(NotPositiveDefinite):
            Nystroem("precomputed", 3, how, random_state=0).fit(K)


def test_an_overflow_at_a_new_point_is_named():
    model = Nystroem(Linear(), landmarks=np.full((1, 3), 1e150)).fit(X)
    with pytest.raises(InvalidInput, match="overflow"):
        model.transform(np.full((1, 3), 1e200))


def test_what_is_below_the_rounding_of_the_largest_adds_nothing():
    far = Nystroem("linear", 4).fit([[1e8, 0.0], [0.0, 1.0], [2e8, 0.0], [0.0, 2.0]])
    assert far.n_components_ == 1 and far.trace_error_ < 1e-15
    np.testing.assert_allclose(far.residual([[0.0, 2.0], [1e8, 0.0]]), [4.0, 0.0], atol=1e-6)
    near = Nystroem("linear", 4).fit([[1e5, 0.0], [0.0, 1.0], [2e5, 0.0], [0.0, 2.0]])
    assert near.n_components_ == 2


def test_many_points_ask_some_of_them_what_is_left_out(monkeypatch):
    monkeypatch.setattr("mercer.features.nystroem.JUDGED", 400)
    X, w = np.random.default_rng(0).standard_normal((2000, 3)), np.ones(2000)
    w[::2] = 0.5
    model = Nystroem(RBF(1.0), 20, "uniform", random_state=0)
    for weights in (None, w):
        some = model.fit(X, sample_weight=weights).trace_error_
        left = model.residual(X)
        share = np.average(left, weights=weights)  # k(x, x) is 1
        assert some == pytest.approx(share, rel=0.1) and some != share
        assert some == pytest.approx(
            np.average(
                left[np.linspace(0, 1999, 400).astype(int)],
                weights=None if weights is None else w[np.linspace(0, 1999, 400).astype(int)],
            )
        )
        model.fit_transform(X, sample_weight=weights)
        assert model.trace_error_ == pytest.approx(share, rel=1e-12)
