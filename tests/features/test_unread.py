"""Rows that are not in memory, given to an estimator that needs all of them."""

import numpy as np
import pytest

import mercer
from mercer import RowBlocks
from mercer.errors import InvalidInput

X = np.random.default_rng(0).standard_normal((30, 2))
y = X[:, 0]
BLOCKS = RowBlocks.from_arrays(X, y, block_rows=8)


@pytest.mark.parametrize(
    "model",
    [
        mercer.KernelPCA(2),
        mercer.KernelKMeans(2),
        mercer.SVC(),
        mercer.SVR(),
        mercer.GaussianProcessRegressor(mercer.RBF()),
    ],
    ids=lambda model: type(model).__name__,
)
def test_blocks_and_dask_data_are_refused_alike(model):
    da = pytest.importorskip("dask.array")
    lazy = [da.from_array(X, chunks=(8, 2)), da.from_array(y, chunks=8)]
    for rows in ((BLOCKS,), lazy[:1], (BLOCKS, y), lazy):
        with pytest.raises(InvalidInput, match=r"needs all rows at once.*\.sample\(20000, "):
            model.fit(*rows)


def test_a_path_is_no_points(tmp_path):
    for path in (str(tmp_path), tmp_path):
        for model in (mercer.KernelRidge(), mercer.SVC(), mercer.KernelPCA()):
            with pytest.raises(InvalidInput, match=r"X is a path.*RowBlocks\.from_parquet"):
                model.fit(path, y)


def test_a_sample_is_fitted_and_all_rows_answered():
    da = pytest.importorskip("dask.array")
    some, targets, _ = BLOCKS.sample(20, 0, with_targets=True)
    model = mercer.GaussianProcessRegressor(mercer.RBF(), noise=0.1).fit(some, targets)
    want = model.predict(X)
    np.testing.assert_allclose(model.predict(BLOCKS), want, atol=1e-9)
    np.testing.assert_allclose(model.predict(da.from_array(X, chunks=(8, 2))), want, atol=1e-9)
    assert model.score(BLOCKS) == pytest.approx(model.score(X, y))
    parts = mercer.KernelPCA(2).fit(some)
    np.testing.assert_allclose(parts.transform(BLOCKS), parts.transform(X), atol=1e-12)
