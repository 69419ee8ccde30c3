"""Fits of rows that come in blocks: the answer of rows in memory, interrupted or not."""

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import mercer
from mercer.errors import InvalidInput

RowBlocks = mercer.RowBlocks
rng = np.random.default_rng(0)
X = rng.normal(size=(360, 3))
y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=360)
w = rng.integers(0, 3, 360).astype(float)
Z = X[:20].copy()


def ridge(**options):
    return mercer.KernelRidge(
        mercer.RBF(1.5), alpha=1.0, solver="falkon", centers=Z, tol=1e-10, **options
    )


def test_files_give_the_answer_of_memory(tmp_path):
    table = pa.table({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": y, "w": w})
    parquet.write_table(table[:150], tmp_path / "0.parquet", row_group_size=21)
    parquet.write_table(table[150:], tmp_path / "1.parquet")
    blocks = RowBlocks.from_parquet(tmp_path, target="y", weight="w", block_rows=40)
    expected = ridge().fit(X, y, sample_weight=w)
    found = ridge().fit(blocks)
    np.testing.assert_allclose(found.predict(blocks), expected.predict(X), atol=1e-8)
    assert found.n_rows_ == 360 and list(found.feature_names_in_) == ["a", "b", "c"]
    memory = RowBlocks.from_parquet(tmp_path, columns=["a", "b", "c"], block_rows=40)
    beside = ridge().fit(memory, y, sample_weight=w)
    np.testing.assert_array_equal(beside.dual_coef_, found.dual_coef_)
    mercer.save(found, tmp_path / "m.mercer")
    again = mercer.load(tmp_path / "m.mercer")
    np.testing.assert_array_equal(again.predict(blocks), found.predict(blocks))


class Broken:
    """Blocks that end in an error when row 210 is reached, one time."""

    def __init__(self, error, at):
        self.error, self.at, self.times = error, at, 0

    def __call__(self):
        for start in range(0, 360, 30):
            self.times += start == 210
            if self.times == self.at and start == 210:
                raise self.error
            yield X[start : start + 30], y[start : start + 30]


@pytest.mark.parametrize("at", [1, 3])
def test_an_interrupted_fit_goes_on_with_the_same_bits(tmp_path, at):
    path = tmp_path / "fit.checkpoint"
    expected = ridge().fit(RowBlocks.from_generator(Broken(None, -1), n_rows=360))
    source = Broken(KeyboardInterrupt(), at)
    blocks = RowBlocks.from_generator(source, n_rows=360)
    model = ridge(checkpoint=str(path))
    with pytest.raises(KeyboardInterrupt):
        model.fit(blocks)
    assert path.exists() and not hasattr(model, "dual_coef_")
    model.fit(blocks)
    np.testing.assert_array_equal(model.dual_coef_, expected.dual_coef_)
    with pytest.raises(InvalidInput, match="another problem"):
        ridge(checkpoint=str(path)).set_params(alpha=2.0).fit(blocks)


def test_data_that_are_wrong_end_the_fit_and_leave_the_model(tmp_path):
    bad = X.copy()
    bad[210, 2] = np.nan
    np.save(tmp_path / "x.npy", bad)
    np.save(tmp_path / "y.npy", y)
    blocks = RowBlocks.from_npy(tmp_path / "x.npy", tmp_path / "y.npy", block_rows=30)
    model = ridge().fit(X, y)
    before = model.dual_coef_.copy()
    with pytest.raises(InvalidInput, match=r"nan at row 210, column 2 of .*x\.npy"):
        model.fit(blocks)
    np.testing.assert_array_equal(model.dual_coef_, before)
    with pytest.raises(InvalidInput, match="no target"):
        model.fit(RowBlocks.from_npy(tmp_path / "x.npy"))
    np.save(tmp_path / "x.npy", X)
    blocks = RowBlocks.from_npy(tmp_path / "x.npy", tmp_path / "y.npy", block_rows=30)

    def change(values):
        if change.left == 0:
            np.save(tmp_path / "x.npy", X + 1)
        change.left -= 1
        return values

    change.left = 30  # in the third pass or so
    with pytest.raises(InvalidInput, match=r"x\.npy' changed"):
        model.fit(blocks.with_targets(change))


def test_classes_come_in_blocks():
    labels = np.where(y > 0.3, "high", np.where(y < -0.3, "low", "mid"))
    blocks = RowBlocks.from_arrays(X, labels, w, block_rows=50)
    make = {"alpha": 1.0, "solver": "falkon", "centers": Z, "tol": 1e-10}
    found = mercer.KernelRidgeClassifier(mercer.RBF(1.5), **make).fit(blocks)
    expected = mercer.KernelRidgeClassifier(mercer.RBF(1.5), **make).fit(X, labels, w)
    np.testing.assert_allclose(
        found.decision_function(blocks), expected.decision_function(X), atol=1e-7
    )
    np.testing.assert_array_equal(found.classes_, expected.classes_)
