"""Length scales of rows in blocks and dask collections: those of the same rows in memory."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import mercer
from mercer import RBF, Laplacian, Linear, Matern, Nystroem, RowBlocks
from mercer.errors import InvalidInput
from mercer.estimator import resolved
from mercer.kernels import as_kernel

rng = np.random.default_rng(0)
N = 3000  # more than any draw
X = rng.normal(size=(N, 3)) * [1.0, 2.0, 0.1] + [0.0, 0.0, 20.0]
X[rng.random(N) < 0.3] = X[0]  # copies
y = np.sin(X[:, 0]) + X[:, 1]
w = rng.integers(0, 4, N).astype(float)
KERNELS = [
    "rbf",
    "matern",
    "laplacian",
    "poly",
    RBF("median"),
    Laplacian("median"),
    RBF("median") * Matern("scale") + Linear(),
    RBF("median").on([0, 2]) + 2.0 * Laplacian("scale").on([1]),
    RBF("median").in_metric(np.diag([1.0, 0.5, 9.0])),
]


def streams(Z, weight):
    da = pytest.importorskip("dask.array")
    for rows in (701, 333):
        yield RowBlocks.from_arrays(Z, y, weight, block_rows=rows)
    yield RowBlocks.from_arrays(sp.csr_array(Z), y, weight, block_rows=500)
    lazy = (
        None if v is None else da.from_array(v, chunks=(900, -1)[: v.ndim]) for v in (y, weight)
    )
    yield RowBlocks.from_dask(da.from_array(Z, chunks=(900, 3)), *lazy)


@pytest.mark.parametrize("weight", [None, w], ids=["plain", "weighted"])
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_scales_are_those_of_memory(kernel, weight):
    kernel = as_kernel(kernel)
    want = kernel.fit_params(X, weight).theta
    found = [resolved(kernel, rows, None).theta for rows in streams(X, weight)]
    for theta in found:
        np.testing.assert_allclose(theta, want, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(found[0], found[1])  # however the rows are cut


@pytest.mark.parametrize("word", ["scale", "median"])
@pytest.mark.parametrize(
    "Z",
    [
        X * 1e200,
        X * 1e-200,
        X + 1e9,
        np.zeros_like(X),
        np.where(np.arange(N)[:, None] < N // 2, 0.0, X * 1e30),
        (X > 0.5).astype(np.float32),
    ],
    ids=["huge", "tiny", "far", "constant", "uneven", "binary"],
)
def test_scales_of_awkward_numbers(Z, word):
    want = RBF(word).fit_params(Z, w).length_scale
    for rows in streams(Z, w):
        assert resolved(RBF(word), rows, None).length_scale == pytest.approx(want, rel=1e-12)


@pytest.mark.parametrize("kernel", ["rbf", "matern", "laplacian", RBF("median"), RBF("scale")])
def test_a_fit_is_that_of_memory(kernel):
    da = pytest.importorskip("dask.array")
    Z = rng.normal(size=(3000, 3))
    t = np.sin(Z).sum(axis=1)
    options = {"solver": "falkon", "n_centers": 30, "tol": 1e-10, "random_state": 3}
    model = mercer.KernelRidge(kernel, 0.1, **options)
    want = clone(model).fit(Z, t)
    blocks = clone(model).fit(RowBlocks.from_arrays(Z, t, block_rows=800))
    lazy = clone(model).fit(da.from_array(Z, chunks=(900, 3)), da.from_array(t, chunks=900))
    for found in (blocks, lazy):
        np.testing.assert_allclose(found.kernel_.theta, want.kernel_.theta, rtol=0, atol=1e-12)
        np.testing.assert_allclose(found.predict(Z[:50]), want.predict(Z[:50]), atol=1e-8)


def test_features_take_scales_from_all_rows(monkeypatch):
    monkeypatch.setattr("mercer.features.base.SEEN", 100)  # of more rows a sample is looked at
    for kernel in ("rbf", RBF("median")):
        model = Nystroem(kernel, 5, random_state=0)
        want = clone(model).fit(X, sample_weight=w).kernel_
        found = clone(model).fit(RowBlocks.from_arrays(X, None, w, block_rows=701)).kernel_
        np.testing.assert_allclose(found.theta, want.theta, rtol=0, atol=1e-12)


def test_rows_of_tables_and_what_else_data_tell():
    frame = pd.DataFrame(X, columns=list("abc")).assign(kind=np.where(X[:, 0] > 0, "u", "v"))
    rows = RowBlocks.from_arrays(frame, y, block_rows=900)
    kernel = RBF("median").on(["a", "c"]) * mercer.Categorical().on("kind")
    want = kernel.fit_params(frame).theta
    np.testing.assert_allclose(resolved(kernel, rows, None).theta, want, rtol=0, atol=1e-12)
    gone = np.where(rng.random(X.shape) < 0.1, np.nan, X)
    kernel = RBF("median").with_missing() + 1.0
    some = RowBlocks.from_arrays(gone, y, block_rows=900)
    found = resolved(kernel, some, 5)
    index, _ = some.draw(2000, 5)
    np.testing.assert_array_equal(found.theta, kernel.fit_params(gone[index]).theta)


def test_more_rows_than_the_budget_holds_are_drawn():
    Z = np.tile(X, (30, 1))
    rows = RowBlocks.from_arrays(Z)
    with mercer.config(memory="16MB"):
        found = resolved(RBF("scale"), rows, 0).length_scale
    want = RBF("scale").fit_params(Z).length_scale
    assert found != want and found == pytest.approx(want, rel=0.05)
    assert resolved(RBF("scale"), rows, 0).length_scale == pytest.approx(want, rel=1e-12)


@pytest.mark.parametrize("word", ["scale", "median"])
def test_rows_that_are_refused(word):
    bad = X.copy()
    bad[2210, 1] = np.nan
    with pytest.raises(InvalidInput, match="nan at row 2210, column 1 of X"):
        resolved(RBF(word), RowBlocks.from_arrays(bad, y, block_rows=900), None)
    model = mercer.KernelRidge(RBF(word), solver="falkon", n_centers=5)
    with pytest.raises(InvalidInput, match=r"^KernelRidge: all sample weights are zero"):
        model.fit(RowBlocks.from_arrays(X, y, np.zeros(N), block_rows=900))
