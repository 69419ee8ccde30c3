"""Predictions from file to file: the same as in memory, whole or not at all."""

import os

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from sklearn.base import BaseEstimator

import mercer
from mercer.errors import InvalidInput

RowBlocks = mercer.RowBlocks
rng = np.random.default_rng(0)
X = rng.normal(size=(90, 3))
y = np.sin(X[:, 0])
labels = np.where(y > 0, "up", "down")


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "in"
    path.mkdir()
    table = pa.table({n: X[:, j] for j, n in enumerate("abc")})
    parquet.write_table(table[:50], path / "0.parquet")
    parquet.write_table(table[50:], path / "1.parquet")
    return path


def test_numbers_outputs_labels_and_probabilities(folder, tmp_path):
    blocks = RowBlocks.from_parquet(folder, block_rows=23)
    one = mercer.KernelRidge("rbf").fit(X, y)
    two = mercer.KernelRidge("rbf").fit(X, np.column_stack([y, -y]))
    many = mercer.KernelLogisticRegression("rbf").fit(X, labels)
    cases = [
        (one, "predict", ["prediction"]),
        (two, "predict", ["prediction_0", "prediction_1"]),
        (many, "predict", ["prediction"]),
        (many, "predict_proba", ["probability_down", "probability_up"]),
        (many, "decision_function", ["decision_function"]),
    ]
    for model, method, names in cases:
        expected = getattr(model, method)(X)
        for name in ("o.npy", "o.parquet"):
            assert mercer.write_predictions(model, blocks, tmp_path / name, method=method) == 90
        table = parquet.read_table(tmp_path / "o.parquet")
        assert table.column_names == names
        found = np.load(tmp_path / "o.npy", allow_pickle=False)
        columns = np.column_stack([table[n].to_numpy() for n in names])
        if expected.dtype.kind == "U":
            np.testing.assert_array_equal(found, expected)
            np.testing.assert_array_equal(columns[:, 0], expected)
        else:
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
            np.testing.assert_array_equal(columns, found.reshape(90, -1))


def test_nothing_is_left_of_a_failure_and_old_files_stay(folder, tmp_path):
    model = mercer.KernelRidge("rbf").fit(X, y)
    bad = X.copy()
    bad[80] = np.nan
    before = sorted(os.listdir(tmp_path))
    blocks = RowBlocks.from_arrays(bad, block_rows=20)
    for name in ("o.npy", "o.parquet"):
        with pytest.raises(InvalidInput, match="row 80"):
            mercer.write_predictions(model, blocks, tmp_path / name)
    assert sorted(os.listdir(tmp_path)) == before
    good = RowBlocks.from_parquet(folder)
    mercer.write_predictions(model, good, tmp_path / "o.npy")
    content = (tmp_path / "o.npy").read_bytes()
    with pytest.raises(InvalidInput, match="row 80"):
        mercer.write_predictions(model, blocks, tmp_path / "o.npy")
    with pytest.raises(FileExistsError):
        mercer.write_predictions(model, good, tmp_path / "o.npy", overwrite=False)
    assert (tmp_path / "o.npy").read_bytes() == content


@pytest.mark.parametrize("kind", [str, object])
def test_labels_are_whole_whatever_block_they_come_in(tmp_path, kind):
    order = np.argsort(X[:, 0])  # blocks of one label each, the shorter first
    words = np.array(["no", "certainly"], dtype=object)[(X[:, 0] > 0).astype(int)].astype(kind)
    model = mercer.KernelRidgeClassifier("rbf", alpha=0.1).fit(X, words)
    blocks = RowBlocks.from_arrays(X[order], block_rows=10)
    mercer.write_predictions(model, blocks, tmp_path / "o.npy")
    found = np.load(tmp_path / "o.npy")
    assert set(found) == {"no", "certainly"}
    np.testing.assert_array_equal(found, model.predict(X[order]).astype(str))


def test_answers_that_do_not_fit_the_file_are_refused(tmp_path):
    class Growing(BaseEstimator):
        def __init__(self):
            self.fitted_ = True

        def fit(self, X, y=None):
            return self

        def predict(self, X):
            return np.array(["x" * int(v) for v in X[:, 0]])

    blocks = RowBlocks.from_arrays(np.arange(1.0, 9)[:, None], block_rows=4)
    with pytest.raises(InvalidInput, match="answers of type <U8 after some of type <U4"):
        mercer.write_predictions(Growing(), blocks, tmp_path / "o.npy")
    assert not (tmp_path / "o.npy").exists()


def test_what_cannot_be_written(folder, tmp_path):
    model = mercer.KernelRidge("rbf").fit(X, y)
    blocks = RowBlocks.from_parquet(folder)
    with pytest.raises(InvalidInput, match=r"legal: \.npy, \.parquet"):
        mercer.write_predictions(model, blocks, tmp_path / "o.csv")
    with pytest.raises(InvalidInput, match="is read from"):
        mercer.write_predictions(model, blocks, folder / "1.parquet")
    with pytest.raises(InvalidInput, match="in a folder whose files are read"):
        mercer.write_predictions(model, blocks, folder / "new.parquet")
    with pytest.raises(InvalidInput, match="points are a ndarray"):
        mercer.write_predictions(model, X, tmp_path / "o.npy")
    with pytest.raises(InvalidInput, match="has no predict_proba"):
        mercer.write_predictions(model, blocks, tmp_path / "o.npy", method="predict_proba")
    with pytest.raises(FileNotFoundError):
        mercer.write_predictions(model, blocks, tmp_path / "no" / "o.npy")
