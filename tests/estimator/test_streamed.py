"""Answers at RowBlocks: those at all points at once, for every kind of estimator."""

import pickle
import tracemalloc
import warnings

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import mercer
from mercer.errors import InvalidInput
from mercer.estimator.blocks import METHODS, answers

RowBlocks = mercer.RowBlocks
rng = np.random.default_rng(0)
X = rng.normal(size=(90, 3))
y = np.sin(X[:, 0])
labels = np.where(y > 0.3, "high", np.where(y < -0.3, "low", "mid"))


@pytest.mark.parametrize(
    ("model", "target"),
    [
        (mercer.KernelRidge("rbf"), y),
        (mercer.KernelRidge("linear"), np.column_stack([y, -y])),
        (mercer.KernelRidgeClassifier("rbf"), labels),
        (mercer.SVC("rbf", probability=True), labels),
        (mercer.KernelLogisticRegression("rbf"), labels),
        (mercer.KernelPCA(n_components=2), None),
        (mercer.KernelDensity(), None),
        (mercer.KernelKMeans(2, random_state=0), None),
        (mercer.NadarayaWatson(), y),
    ],
    ids=lambda value: type(value).__name__,
)
def test_answers_are_those_at_all_points(model, target):
    model.fit(*((X,) if target is None else (X, target)))
    blocks = RowBlocks.from_arrays(X, block_rows=37)
    asked = [name for name in METHODS if hasattr(model, name)]
    assert asked
    for name in asked:
        whole, found = getattr(model, name)(X), getattr(model, name)(blocks)
        assert found.shape == whole.shape and found.dtype == whole.dtype
        if whole.dtype.kind == "f":
            np.testing.assert_allclose(found, whole, rtol=1e-9, atol=1e-9)
        else:
            np.testing.assert_array_equal(found, whole)
    again = pickle.loads(pickle.dumps(model))
    for name in asked:
        np.testing.assert_array_equal(getattr(again, name)(X), getattr(model, name)(X))
    clone(model)


def test_conditional_methods_stay_conditional():
    assert not hasattr(mercer.SVC().fit(X, labels), "predict_proba")
    assert hasattr(mercer.SVC(probability=True).fit(X, labels), "predict_proba")


def test_tuples_are_joined_part_by_part():
    model = mercer.GaussianProcessRegressor().fit(X, y)
    mean, deviation = model.predict(RowBlocks.from_arrays(X, block_rows=37), return_std=True)
    np.testing.assert_allclose(mean, model.predict(X), atol=1e-8)
    assert deviation.shape == (90,)


def test_frames_are_joined():
    model = mercer.KernelPCA(n_components=2).set_output(transform="pandas").fit(X)
    found = model.transform(RowBlocks.from_arrays(X, block_rows=37))
    assert found.shape == (90, 2) and list(found.index) == list(range(90))


def test_columns_are_those_of_the_fit(tmp_path):
    path = tmp_path / "t.parquet"
    parquet.write_table(pa.table({n: X[:, j] for j, n in enumerate("abc")}), path)
    frame = parquet.read_table(path).to_pandas()
    model = mercer.KernelRidge("rbf").fit(frame, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = model.predict(RowBlocks.from_parquet(path, block_rows=37))
    np.testing.assert_allclose(found, model.predict(frame), rtol=1e-12)
    turned = RowBlocks.from_parquet(path, columns=["c", "b", "a"], block_rows=37)
    np.testing.assert_array_equal(model.predict(turned), found)  # by name, whatever the order
    with pytest.raises(InvalidInput, match="no column 'c', which the model was fitted with"):
        model.predict(RowBlocks.from_parquet(path, columns=["a", "b"]))
    with pytest.raises(InvalidInput, match="2 columns, the model was fitted with 3"):
        model.predict(RowBlocks.from_arrays(X[:, :2]))


def test_bad_rows_are_named_and_models_must_be_fitted():
    bad = X.copy()
    bad[50, 1] = np.nan
    model = mercer.KernelRidge("rbf").fit(X, y)
    with pytest.raises(InvalidInput, match="nan at row 50, column 1 of X"):
        model.predict(RowBlocks.from_arrays(bad, block_rows=20))
    with pytest.raises(NotFittedError):
        mercer.KernelRidge("rbf").predict(RowBlocks.from_arrays(X))
    with pytest.raises(NotFittedError):
        next(answers(mercer.KernelRidge("rbf"), RowBlocks.from_arrays(X)))


def test_strings_come_in_blocks_too():
    words = ["ab" * (1 + i % 4) + "ba" * (i % 3) for i in range(20)]
    model = mercer.KernelRidge(mercer.Spectrum(2)).fit(words, np.arange(20.0))
    found = model.predict(RowBlocks.from_arrays(words, block_rows=7))
    np.testing.assert_allclose(found, model.predict(words), rtol=1e-9)


def test_memory_is_that_of_a_block():
    def rows():
        for seed in range(40):
            yield np.random.default_rng(seed).normal(size=(5000, 5))  # 8 MB in all

    model = mercer.KernelRidge("rbf").fit(rng.normal(size=(20, 5)), rng.normal(size=20))
    blocks = RowBlocks.from_generator(rows, n_rows=200_000)
    tracemalloc.start()
    total = sum(float(values.sum()) for _, values in answers(model, blocks))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.isfinite(total) and peak < 4e6


def test_features_transform_blocks():
    model = mercer.features.Nystroem("rbf", n_components=8, random_state=0).fit(X)
    found = model.transform(RowBlocks.from_arrays(X, block_rows=37))
    np.testing.assert_allclose(found, model.transform(X), rtol=1e-9, atol=1e-12)


def test_fits_that_need_all_rows_say_what_does_not():
    with pytest.raises(InvalidInput, match=r"all rows at once.* RowBlocks .*solver='falkon'"):
        mercer.SVC().fit(RowBlocks.from_arrays(X, labels), labels)
