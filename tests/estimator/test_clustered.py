"""Answers at dask arrays and frames, computed when asked for; no cluster is needed."""

import numpy as np
import pytest

from mercer import GaussianProcessRegressor, KernelRidge, KernelRidgeClassifier
from mercer.errors import InvalidInput
from mercer.estimator.rows import lazily

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")

rng = np.random.default_rng(0)
X = rng.standard_normal((30, 3))
Y = np.c_[X[:, 0], X[:, 1] ** 2]
FRAME = pd.DataFrame(X, columns=list("abc"))


@pytest.mark.parametrize("y", [Y[:, 0], Y], ids=["one", "two"])
@pytest.mark.parametrize("chunks", [(30, 3), (7, 2), ((10, 0, 20), 3)])
def test_arrays_keep_their_chunks(y, chunks):
    model = KernelRidge().fit(X, y)
    lazy = da.from_array(X, chunks=chunks)
    got = model.predict(lazy)
    assert (
        got.chunks[0] == tuple(r for r in lazy.chunks[0] if r)
        and got.shape == y.shape
        and got.dtype == np.float64
    )
    np.testing.assert_allclose(got.compute(), model.predict(X), rtol=1e-12)


def test_frames_are_answered_by_partitions():
    model = KernelRidge().fit(FRAME, Y)
    frame = dd.from_pandas(FRAME, npartitions=4)
    np.testing.assert_allclose(model.predict(frame).compute(), model.predict(FRAME), rtol=1e-12)
    some = frame[frame["a"] > np.sort(X[:, 0])[-3]]  # most partitions are empty
    expected = model.predict(FRAME[np.sort(X[:, 0])[-3] < FRAME["a"]])
    np.testing.assert_allclose(model.predict(some).compute(), expected, rtol=1e-12)


def test_labels_stay_labels():
    model = KernelRidgeClassifier().fit(X, np.where(X[:, 0] > 0, "yes", "no"))
    got = model.predict(da.from_array(X, chunks=(9, 3)))
    assert got.dtype == model.classes_.dtype
    np.testing.assert_array_equal(got.compute(), model.predict(X))


def test_refusals_come_before_any_work():
    model = KernelRidge().fit(X, Y)
    with pytest.raises(InvalidInput, match=r"2 columns.*fitted with 3"):
        model.predict(da.ones((5, 2)))
    with pytest.raises(InvalidInput, match="1 dimension"):
        model.predict(da.ones(5))
    process = GaussianProcessRegressor().fit(X, Y[:, 0])
    with pytest.raises(InvalidInput, match="tuple"):
        lazily(process, "predict", da.ones((5, 3)), return_std=True)
    with pytest.raises(ValueError, match="not fitted"):
        KernelRidge().predict(da.ones((5, 3)))


def test_columns_of_frames_are_found_by_name_at_the_call():
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 3)), columns=list("abc"))
    frame = dd.from_pandas(table.assign(d="text"), npartitions=3)
    model = KernelRidge("rbf").fit(table, table["a"])
    want = model.predict(table)
    for columns in (list("abc"), list("cab"), list("dcba")):
        np.testing.assert_allclose(model.predict(frame[columns]).compute(), want, rtol=1e-12)
    with pytest.raises(InvalidInput, match="no column 'b', which the model was fitted with"):
        model.predict(frame[["c", "a"]])
