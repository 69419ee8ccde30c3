"""Correlated outputs: long form and back, and Kronecker algebra written out."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from mercer import RBF, Coregion, GaussianProcessRegressor, for_output, stack_outputs
from mercer.domains import Table
from mercer.errors import InvalidInput


def test_long_form(rng):
    X = rng.standard_normal((4, 2))
    Y = np.array([[1.0, 10.0, np.nan], [2.0, np.nan, np.nan], [np.nan, 30.0, 300.0], [4, 40, 400]])
    rows, y = stack_outputs(X, Y)
    np.testing.assert_array_equal(y, [1, 2, 4, 10, 30, 40, 300, 400])
    np.testing.assert_array_equal(rows[:, 2], [0, 0, 0, 1, 1, 1, 2, 2])
    np.testing.assert_array_equal(rows[:, :2], X[[0, 1, 3, 0, 2, 3, 2, 3]])
    np.testing.assert_array_equal(for_output(X, 2), np.column_stack([X, np.full(4, 2.0)]))
    np.testing.assert_array_equal(for_output(X, [0, 1, 2, 1])[:, 2], [0, 1, 2, 1])


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("t", [2, 3])
def test_equals_kronecker_algebra(rng, t, missing):
    n, noise = 9, 0.1
    X, new = rng.standard_normal((n, 2)), rng.standard_normal((5, 2))
    Y = rng.standard_normal((n, t))
    if missing:
        Y[rng.random(Y.shape) < 0.3] = np.nan
    over, between = RBF(1.2), Coregion.from_weights(rng.standard_normal((t, 2)), 0.3)
    rows, y = stack_outputs(X, Y)
    kernel = over.on([0, 1]) * between.on([2])
    model = GaussianProcessRegressor(kernel, noise, optimizer=None, normalize_y=False).fit(rows, y)
    B, seen = between.output_covariance(), ~np.isnan(Y.T.ravel())
    C = np.kron(B, over(X))[np.ix_(seen, seen)] + noise * np.eye(seen.sum())
    cross = np.kron(B, over(new, X))[:, seen]
    mean = cross @ np.linalg.solve(C, Y.T.ravel()[seen])
    cov = np.kron(B, over(new)) - cross @ np.linalg.solve(C, cross.T)
    everything = np.vstack([for_output(new, j) for j in range(t)])
    got, got_cov = model.predict(everything, return_cov=True, with_noise=False)
    np.testing.assert_allclose(got, mean, atol=1e-11)
    np.testing.assert_allclose(got_cov, cov, atol=1e-11)
    np.testing.assert_allclose(model.predict(for_output(new, 1)), mean[5:10], atol=1e-11)
    _, logdet = np.linalg.slogdet(2 * np.pi * C)
    value = -0.5 * (logdet + Y.T.ravel()[seen] @ np.linalg.solve(C, Y.T.ravel()[seen]))
    np.testing.assert_allclose(model.log_marginal_likelihood_value_, value, rtol=1e-10)


@pytest.mark.parametrize("correlation", [0.9, -0.9, 0.0])
def test_finds_the_correlation(correlation):
    # Paths of length scale 0.4 on an interval of 6 are worth about 15 independent values, so an
    # estimate has a standard error of about (1 − ρ²)/√15, and the mean of 8 data sets ⅓ of that.
    root = np.linalg.cholesky([[1.0, correlation], [correlation, 1.0]])
    found, joint, alone = [], [], []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-3, 3, (50, 1))
        half = np.linalg.cholesky(RBF(0.4)(X) + 1e-10 * np.eye(50))
        F = half @ rng.standard_normal((50, 2)) @ root.T
        Y = F + 0.1 * rng.standard_normal(F.shape)
        hidden = np.abs(X[:, 0]) < 1  # where the second output is not seen, the first one tells
        Y[hidden, 1] = np.nan
        rows, y = stack_outputs(X, Y)
        model = GaussianProcessRegressor(RBF(0.5).on([0]) * Coregion(2).on([1])).fit(rows, y)
        found.append(model.kernel_.k2.kernel.output_correlation()[0, 1])
        joint.append(model.predict(for_output(X[hidden], 1)) - F[hidden, 1])
        one = GaussianProcessRegressor(1.0 * RBF(0.5)).fit(X[~hidden], Y[~hidden, 1])
        alone.append(one.predict(X[hidden]) - F[hidden, 1])
    assert abs(np.mean(found) - correlation) < 0.27
    if correlation:
        assert (np.sign(found) == np.sign(correlation)).all()
        assert np.mean(np.concatenate(joint) ** 2) < 0.5 * np.mean(np.concatenate(alone) ** 2)


def test_slopes_of_one_output(rng):
    X = rng.standard_normal((12, 1))
    rows, y = stack_outputs(X, np.column_stack([np.sin(X), np.cos(X)]))
    kernel = RBF().on([0]) * Coregion.from_weights([[1.0], [0.5]], 0.2).on([1])
    model = GaussianProcessRegressor(kernel, 0.01, optimizer=None).fit(rows, y)
    at = for_output([[0.3], [0.9]], 1)
    step = np.array([1e-5, 0.0])
    for verb, of in (
        ("mean_gradient", model.predict),
        ("variance_gradient", model.posterior_variance),
    ):
        got = getattr(model, verb)(at)
        np.testing.assert_allclose(got[:, 0], (of(at + step) - of(at - step)) / 2e-5, rtol=1e-5)
        assert (got[:, 1] == 0).all()


def test_tables_and_sparse_rows(rng):
    X = {"a": rng.standard_normal(5), "b": list("vwxyz")}
    Y = rng.standard_normal((5, 2))
    rows, y = stack_outputs(X, Y)
    assert isinstance(rows, Table) and rows.names == ("a", "b", "output")
    kernel = RBF().on("a") * Coregion(2).on("output")
    model = GaussianProcessRegressor(kernel, 0.1, optimizer=None).fit(rows, y)
    assert model.predict(for_output(X, 1)).shape == (5,)
    dense = rng.standard_normal((5, 2))
    got, _ = stack_outputs(sp.csr_array(dense), Y)
    assert sp.issparse(got)
    np.testing.assert_array_equal(got.toarray(), stack_outputs(dense, Y)[0])


def test_frames_and_lists(rng):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    rows, y = stack_outputs(frame, pandas.DataFrame({"p": [1.0, None], "q": [3.0, 4.0]}))
    assert rows.names == ("a", "b", "output") and y.tolist() == [1.0, 3.0, 4.0]
    rows, y = stack_outputs([[1.0], [2.0]], [[1, 2], [3, 4]])
    assert rows.tolist() == [[1, 0], [2, 0], [1, 1], [2, 1]] and y.tolist() == [1, 3, 2, 4]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: stack_outputs([[1.0]], [1.0]), r"shape \(1,\) for 1 points"),
        (lambda: stack_outputs([[1.0]], [[1.0], [2.0]]), "for 1 points"),
        (lambda: stack_outputs([[1.0]], [[np.inf]]), r"Y\[0, 0\] is infinite"),
        (lambda: stack_outputs([[1.0]], [[np.nan]]), "NaN everywhere"),
        (lambda: stack_outputs([[1.0]], [["a"]]), "matrix of numbers"),
        (lambda: stack_outputs([1.0], [[1.0]]), "2 dimensions"),
        (lambda: stack_outputs({"output": [1.0]}, [[1.0]]), "column 'output' already"),
        (lambda: for_output([[1.0]], -1), "output=-1"),
        (lambda: for_output([[1.0]], 0.5), "output=0.5"),
        (lambda: for_output([[1.0]], [0, 1]), "one for each of the 1 points"),
    ],
)
def test_refusals(make, words):
    with pytest.raises(InvalidInput, match=words):
        make()
