"""Random Fourier features: unbiased, any stationary expression, an error that is told truly."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

import mercer
from mercer import (
    RBF,
    FromFunction,
    KernelRidge,
    Laplacian,
    Linear,
    Matern,
    Periodic,
    RandomFourierFeatures,
    RationalQuadratic,
    Spectrum,
    White,
)
from mercer.errors import InvalidInput, ModelFileError
from mercer.kernels.spectral import METHODS

X = np.random.default_rng(0).standard_normal((40, 3))
KERNELS = [
    RBF([1.0, 2.0, 3.0]),
    Matern(2.0, nu=1.5),
    Laplacian(3.0),
    RationalQuadratic(2.0),
    Periodic(1.0, 3.0),
    2.0 * RBF(2.0).on([0, 1]) + Matern().on(2) * Laplacian(5.0).on(0) + 0.3,
]


# ---------------------------------------------------------------------------------- the values
@pytest.mark.parametrize(
    ("kernel", "method"),
    list(zip([KERNELS[0], KERNELS[-1], KERNELS[-1]], METHODS, strict=True)),
    ids=str,
)
@pytest.mark.parametrize("m", [1, 31])
def test_unbiased_within_standard_errors(kernel, method, m):
    K = kernel(X[:12])
    off = np.triu(np.ones((12, 12), dtype=bool), 1)
    gaps = []
    for seed in range(40):
        model = RandomFourierFeatures(kernel, m, method, random_state=seed)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("mercer.features.fourier.pair_error", lambda *_: (0.0, 0.0))
            Phi = model.fit(X[:12]).transform(X[:12])
        assert Phi.shape == (12, m)
        gaps.append((Phi @ Phi.T - K)[off])
    gaps = np.array(gaps)
    z = gaps.mean(0) / (gaps.std(0, ddof=1) / np.sqrt(40) + 1e-9)
    assert np.abs(z).max() < 6 and np.sqrt((z**2).mean()) < 2.5


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_many_features_come_near_k(kernel):
    model = RandomFourierFeatures(kernel, 2000, random_state=0).fit(X)
    Phi = model.transform(X)
    np.testing.assert_allclose(Phi @ Phi.T, kernel(X), atol=0.12 * kernel(X).max())
    # cos² + sin² = 1: the diagonal is exact
    np.testing.assert_allclose((Phi**2).sum(1), kernel.diag(X), rtol=0.02)


def test_an_even_number_has_an_exact_diagonal_and_features_are_bounded():
    Phi = RandomFourierFeatures(RBF(), 20, random_state=0).fit(X).transform(100 * X)
    np.testing.assert_allclose((Phi**2).sum(1), 1.0, rtol=1e-12)
    assert np.abs(Phi).max() <= np.sqrt(1 / 10) + 1e-12


@pytest.mark.parametrize("kernel", [RBF(1.0) + 10.0, 10.0 + RBF(1.0)], ids=repr)
def test_a_constant_is_exact_whatever_the_number_of_features(kernel):
    few, even = (RandomFourierFeatures(kernel, m, random_state=0).fit(X).error_ for m in (41, 42))
    assert few < 1.5 * even < 0.5
    for m in (1, 4, 5):
        Phi = RandomFourierFeatures(mercer.Constant(10.0), m, random_state=0).fit(X).transform(X)
        assert Phi.shape == (40, m)
        np.testing.assert_allclose(Phi @ Phi.T, 10.0)


def test_very_many_columns_take_no_square_of_them():
    Z = sp.random_array(
        (50, 50_000), density=1e-3, random_state=np.random.default_rng(0), format="csr"
    )
    tracemalloc.start()
    try:
        model = RandomFourierFeatures(RBF(5.0), 20, random_state=0).fit(Z)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100e6 and model.frequencies_.shape == (10, 50_000)
    G = model.frequencies_ @ model.frequencies_.T
    np.testing.assert_allclose(G, np.diag(np.diagonal(G)), atol=1e-6)


def test_the_error_is_that_of_pairs_and_its_standard_error_honest():
    told, spread, true = [], [], []
    for seed in range(15):
        model = RandomFourierFeatures(RBF(2.0), 40, "plain", random_state=seed).fit(X)
        Phi = model.transform(X)
        true.append(np.sqrt(np.mean((Phi @ Phi.T - RBF(2.0)(X)) ** 2)))
        told.append(model.error_)
        spread.append(model.error_std_)
    z = (np.array(told) - true) / spread
    assert 0.5 < np.sqrt((z**2).mean()) < 2.0
    assert 0 < np.mean(spread) < 0.1 * np.mean(told)


def test_the_error_falls_with_the_number_of_features():
    few, many = (RandomFourierFeatures(RBF(), m, "plain", 0).fit(X).error_ for m in (20, 2000))
    assert 4 < few / many < 25


def test_one_column_with_whole_turns_is_periodic():
    Z = np.linspace(0, 1, 9)[:, None]
    model = RandomFourierFeatures(Periodic(1.0, 0.5), 50, random_state=0).fit(Z)
    np.testing.assert_allclose(model.transform(Z), model.transform(Z + 5.5), atol=1e-10)


def test_points_far_from_the_origin_keep_their_digits():
    near = RandomFourierFeatures(RBF(), 50, random_state=0).fit(X)
    far = RandomFourierFeatures(RBF(), 50, random_state=0).fit(X + 1e7)
    np.testing.assert_allclose(far.transform(X + 1e7), near.transform(X), atol=1e-6)


def test_ridge_on_the_features_is_near_kernel_ridge():
    y = np.sin(X[:, 0])
    model = make_pipeline(
        RandomFourierFeatures(RBF(2.0), 4000, random_state=0), Ridge(0.1, fit_intercept=False)
    )
    exact = KernelRidge(RBF(2.0), alpha=0.1).fit(X, y)
    np.testing.assert_allclose(model.fit(X, y).predict(X), exact.predict(X), atol=0.05)


# ---------------------------------------------------------------------------------- the points
def test_frames_choose_columns_by_name_and_ignore_the_others():
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(site="x")
    kernel = RBF().on(["c", "a"]) + Laplacian().on("a")
    model = RandomFourierFeatures(kernel, 60, random_state=0).fit(frame)
    assert set(model.columns_) == {"a", "c"}
    other = frame[["c", "site", "a"]]
    np.testing.assert_array_equal(model.transform(other), model.transform(frame))
    array = RandomFourierFeatures(RBF().on([2, 0]) + Laplacian().on(0), 60, random_state=0).fit(X)
    np.testing.assert_allclose(array.transform(X), model.transform(frame), atol=1e-12)
    with pytest.raises(InvalidInput, match="'a'"):
        model.transform(frame[["c"]])


def test_sparse_rows_as_dense_ones():
    Z = np.where(np.abs(X) < 0.5, 0.0, X)
    dense = RandomFourierFeatures(RBF(), 20, random_state=0).fit(Z)
    sparse = RandomFourierFeatures(RBF(), 20, random_state=0).fit(sp.csr_array(Z))
    np.testing.assert_allclose(sparse.transform(sp.csr_array(Z)), dense.transform(Z), atol=1e-12)
    np.testing.assert_allclose(dense.transform(sp.csr_array(Z)), dense.transform(Z), atol=1e-12)
    assert sparse.error_ == pytest.approx(dense.error_, rel=1e-9)  # of the same pairs


def test_one_point_and_a_constant():
    model = RandomFourierFeatures(RBF(), 4, random_state=0).fit([[1.0, 2.0]])
    assert model.error_ == pytest.approx(0, abs=1e-12) and np.isfinite(model.error_std_)
    constant = RandomFourierFeatures(2.0 * mercer.Constant(1.5), 3, random_state=0).fit(X)
    Phi = constant.transform(X)
    assert Phi.shape == (40, 3) and np.isfinite(Phi).all()
    zero = RandomFourierFeatures(0.0 * RBF(), 4, random_state=0).fit(X)
    np.testing.assert_array_equal(zero.transform(X), np.zeros((40, 4)))


def test_names_pandas_and_blocks_of_rows():
    model = RandomFourierFeatures(RBF(), 5, random_state=0).set_output(transform="pandas")
    frame = model.fit_transform(X)
    assert list(frame.columns) == [f"randomfourierfeatures{j}" for j in range(5)]
    with mercer.config(memory=20_000):
        np.testing.assert_array_equal(model.transform(X), frame)


# ---------------------------------------------------------------------------- files, refusals
def test_saved_and_loaded(tmp_path):
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = RandomFourierFeatures(RBF().on("b"), 7, random_state=0).fit(frame)
    mercer.save(model, tmp_path / "m.mercer")
    again = mercer.load(tmp_path / "m.mercer")
    np.testing.assert_array_equal(again.transform(frame), model.transform(frame))
    assert (again.error_, again.error_std_) == (model.error_, model.error_std_)


@pytest.mark.parametrize(
    "broken",
    [
        {"frequencies_": np.ones((4, 2))},
        {"weights_": -np.ones(4)},
        {"weights_": np.ones(3)},
        {"center_": np.ones(2)},
        {"center_": np.full(3, np.nan)},
        {"phase_": "0"},
        {"columns_": (0,)},
        {"frequencies_": None},
    ],
    ids=str,
)
def test_a_broken_state_is_refused(broken):
    model = RandomFourierFeatures(RBF(), 7, random_state=0).fit(X)
    vars(model).update(broken)
    with pytest.raises(ModelFileError):
        model._check_state()
    del vars(model)["kernel_"]
    with pytest.raises(ModelFileError):
        model._check_state()


@pytest.mark.parametrize(
    ("kernel", "points", "named"),
    [
        (RBF() + White(0.1), X, "White"),
        (RBF() * Linear(), X, "Linear"),
        ("polynomial", X, "Polynomial"),
        ("precomputed", np.eye(3), "Precomputed"),
        (Spectrum(2), ["ab", "ba"], "Spectrum"),
        (FromFunction(lambda s, t: 1.0), ["ab", "ba"], "FromFunction"),
    ],
    ids=str,
)
def test_a_kernel_without_spectral_density_is_named(kernel, points, named):
    with pytest.raises(InvalidInput, match=f"RandomFourierFeatures: {named}.*Nystroem"):
        RandomFourierFeatures(kernel).fit(points)


def test_wrong_words_numbers_and_points():
    for params, said in [
        ({"method": "random"}, "'orthogonal', 'plain', 'quasi'"),
        ({"n_components": 0}, "whole number"),
        ({"n_components": 2.0}, "whole number"),
        ({"kernel": "no such"}, "kernel"),
        ({"kernel": RBF([1.0, 2.0])}, "2 length scales for 3 columns"),
        ({"kernel": RBF().on(7)}, "column 7"),
    ]:
        with pytest.raises(InvalidInput, match=said):
            RandomFourierFeatures(**params).fit(X)
    with pytest.raises(InvalidInput, match="NaN"):
        RandomFourierFeatures(RBF().on(0)).fit([[np.nan, 1.0]])
    with pytest.raises(InvalidInput, match="overflows"):
        RandomFourierFeatures(RBF(1e-200)).fit(X).transform(np.full((1, 3), 1e200))
