"""Tensor sketch: unbiased for every polynomial, sparse without densifying, refusals by name."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

import mercer
from mercer import RBF, Constant, Linear, Polynomial, Spectrum, TensorSketch
from mercer.errors import InvalidInput, ModelFileError

X = np.random.default_rng(0).standard_normal((12, 4)) / 2
A = np.diag([1.0, 2.0, 0.0, 0.5])
KERNELS = [
    Linear(),
    Linear(covariance=A),
    Polynomial(2, 0.0),
    Polynomial(2, 1.5),
    Polynomial(3),
    2.5 * Polynomial(2),
    Polynomial(2) * Linear(),
    Polynomial(1, 0.5) * Polynomial(2, 2.0) * 3.0,
    (2.0 * Linear()) ** 3,
]


@pytest.mark.parametrize("kernel", KERNELS[1::2] + KERNELS[-1:], ids=repr)
@pytest.mark.parametrize("m", [1, 16, 17])
def test_unbiased_within_standard_errors(kernel, m):
    model = TensorSketch(kernel, m, random_state=0).fit(X)
    K, gaps = kernel(X), []
    shape, rng = model.hashes_.shape, np.random.RandomState(1)
    for _ in range(80):
        model.hashes_ = rng.randint(m, size=shape)
        model.signs_ = (2 * rng.randint(2, size=shape) - 1).astype(np.int8)
        Phi = model._map(X)
        assert Phi.shape == (12, m)
        gaps.append((Phi @ Phi.T - K)[np.triu_indices(12)])
    gaps = np.array(gaps)
    z = gaps.mean(0) / (gaps.std(0, ddof=1) / np.sqrt(80) + 1e-9)
    assert np.abs(z).max() < 6 and np.sqrt((z**2).mean()) < 2.0


def test_the_hashes_and_signs_are_uniform():
    model = TensorSketch(Polynomial(2), 5, random_state=0).fit(np.ones((2, 4000)))
    for row in model.hashes_:
        np.testing.assert_allclose(np.bincount(row, minlength=5) / 4001, 0.2, atol=0.03)
    assert (np.abs(model.signs_.mean(1)) < 0.08).all()
    assert np.mean(model.hashes_[0] == model.hashes_[1]) < 0.25


def test_a_convolution_of_count_sketches_from_their_definition():
    model = TensorSketch(Polynomial(2, 0.5), 7, random_state=0).fit(X)
    expected = np.zeros((12, 7))
    wide = np.hstack([X, np.full((12, 1), np.sqrt(0.5))])
    for i in range(5):
        for j in range(5):
            to = (model.hashes_[0, i] + model.hashes_[1, j]) % 7
            sign = int(model.signs_[0, i]) * int(model.signs_[1, j])
            expected[:, to] += sign * wide[:, i] * wide[:, j]
    np.testing.assert_allclose(model.transform(X), expected, atol=1e-12)


def test_more_features_less_error_and_the_error_is_that_of_pairs():
    kernel, errors = Polynomial(3), []
    for m in (50, 5000):
        model = TensorSketch(kernel, m, random_state=0).fit(X)
        Phi = model.transform(X)
        true = np.sqrt(np.mean((Phi @ Phi.T - kernel(X)) ** 2))
        assert abs(model.error_ - true) < 5 * model.error_std_
        errors.append(model.error_)
    assert errors[1] < 0.3 * errors[0]


def test_sparse_rows_stay_sparse():
    Z = sp.random_array(
        (30, 200_000), density=1e-4, random_state=np.random.default_rng(0), format="csr"
    )
    with mercer.config(memory=5_000_000):  # the dense rows would take ten times as much
        model = TensorSketch(Polynomial(2), 64, random_state=0).fit(Z)
        Phi = model.transform(Z)
    assert Phi.shape == (30, 64)
    small = sp.csr_array(np.where(np.abs(X) < 0.3, 0.0, X))
    model = TensorSketch(Polynomial(3), 20, random_state=0).fit(small)
    np.testing.assert_allclose(model.transform(small), model.transform(small.toarray()), atol=1e-12)


def test_one_point_blocks_pandas_and_a_pipeline():
    assert TensorSketch(random_state=0).fit([[1.0, 2.0]]).transform([[0.0, 1.0]]).shape == (1, 100)
    model = TensorSketch(Polynomial(2), 5, random_state=0).set_output(transform="pandas")
    frame = model.fit_transform(pd.DataFrame(X, columns=list("abcd")))
    assert list(frame.columns) == [f"tensorsketch{j}" for j in range(5)]
    with mercer.config(memory=20_000):
        np.testing.assert_allclose(model.transform(pd.DataFrame(X, columns=list("abcd"))), frame)
    y = X[:, 0] * X[:, 1]
    fitted = make_pipeline(TensorSketch(Polynomial(2), 300, random_state=0), Ridge(1e-6)).fit(X, y)
    assert fitted.score(X, y) > 0.99


def test_saved_and_loaded(tmp_path):
    model = TensorSketch(2.0 * Polynomial(2), 9, random_state=0).fit(X)
    mercer.save(model, tmp_path / "m.mercer")
    again = mercer.load(tmp_path / "m.mercer")
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    assert (again.error_, again.error_std_) == (model.error_, model.error_std_)


@pytest.mark.parametrize(
    "broken",
    [
        {"hashes_": np.zeros((3, 5), dtype=int)},
        {"hashes_": np.full((2, 5), 9)},
        {"hashes_": np.full((2, 5), -1)},
        {"signs_": np.zeros((2, 5), dtype=np.int8)},
        {"signs_": np.ones((2, 5))},
        {"n_components_": "9"},
        {"kernel_": RBF()},
        {"hashes_": None},
    ],
    ids=str,
)
def test_a_broken_state_is_refused(broken):
    model = TensorSketch(Polynomial(2), 9, random_state=0).fit(X)
    vars(model).update(broken)
    with pytest.raises(ModelFileError):
        model._check_state()


@pytest.mark.parametrize(
    ("kernel", "points", "named"),
    [
        ("rbf", X, "RBF"),
        (Polynomial(2) + Linear(), X, "Polynomial"),
        (Polynomial(2) * RBF(), X, "RBF"),
        (Spectrum(2), ["ab", "ba"], "Spectrum"),
        ("precomputed", np.eye(3), "Precomputed"),
    ],
    ids=str,
)
def test_what_is_no_product_of_polynomials_is_named(kernel, points, named):
    with pytest.raises(InvalidInput, match=rf"TensorSketch: {named}.*Nystroem"):
        TensorSketch(kernel).fit(points)


def test_other_refusals():
    with pytest.raises(InvalidInput, match="does not look at the points"):
        TensorSketch(Constant(2.0)).fit(X)
    for m in (0, 1.5, True):
        with pytest.raises(InvalidInput, match="whole number"):
            TensorSketch(n_components=m).fit(X)
    model = TensorSketch(Polynomial(3), 5, random_state=0).fit(X)
    with pytest.raises(InvalidInput, match="overflows"):
        model.transform(np.full((1, 4), 1e200))
    with pytest.raises(InvalidInput, match="NaN"):
        model.transform(np.full((1, 4), np.nan))


def test_a_length_scale_is_sketched_too():
    near = 0.3 * X
    scaled = TensorSketch(Polynomial(3, 0.5, 2.0), 4096, random_state=0).fit(near)
    K = Polynomial(3, 0.5, 2.0)(near)
    assert np.abs(scaled.transform(near) @ scaled.transform(near).T - K).max() < 0.1 * K.max()
    word = TensorSketch(random_state=0).fit(near)
    again = TensorSketch(Polynomial(3, 1.0, "scale"), random_state=0).fit(near)
    np.testing.assert_array_equal(word.transform(near), again.transform(near))
