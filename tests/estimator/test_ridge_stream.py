"""Labels and weights of rows in blocks: what is refused, and what is held in memory."""

import tracemalloc

import numpy as np
import pytest

import mercer
from mercer import RBF, RowBlocks
from mercer.errors import InvalidInput, speaking_for
from mercer.estimator.rows import coded

rng = np.random.default_rng(0)
X = rng.standard_normal((60, 2))
LABELS = np.array(["no", "perhaps", "yes"])[np.arange(60) % 3]
CLASSIFIERS = [mercer.KernelRidgeClassifier, mercer.KernelLogisticRegression]


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_weights_that_are_all_zero(kind):
    blocks = RowBlocks.from_arrays(X, LABELS, np.zeros(60), block_rows=25)
    with pytest.raises(InvalidInput, match="all sample weights are zero"):
        kind(RBF(), solver="falkon", centers=X[:5]).fit(blocks)


def test_weights_that_leave_one_class():
    blocks = RowBlocks.from_arrays(X, LABELS, 1.0 * (LABELS == "yes"), block_rows=25)
    for class_weight in (None, "balanced"):
        with (
            pytest.raises(InvalidInput, match=r"class no, perhaps have weight 0"),
            speaking_for("Owner"),
        ):
            coded(blocks, class_weight)


@pytest.mark.parametrize("engine", ["numpy", "dask"])
def test_labels_of_two_types(engine):
    from_file = [np.arange(30) % 2, (np.arange(30) % 2).astype(str)]
    if engine == "numpy":
        parts = [(X[:30], from_file[0]), (X[30:], from_file[1])]
        blocks = RowBlocks.from_generator(lambda: iter(parts))
    else:
        dask, da = pytest.importorskip("dask"), pytest.importorskip("dask.array")
        lazy = [da.from_delayed(dask.delayed(y), (30,), object) for y in from_file]
        blocks = RowBlocks.from_dask(da.from_array(X, chunks=(30, 2)), da.concatenate(lazy))
    with pytest.raises(InvalidInput, match=r"one type in all blocks"), speaking_for("Owner"):
        coded(blocks, None)


@pytest.mark.parametrize("weights", [None, rng.integers(0, 3, 60).astype(float)])
@pytest.mark.parametrize("class_weight", ["balanced", {"no": 0.0, "yes": 2.0, "perhaps": 1.0}])
def test_class_weights_are_those_of_memory(class_weight, weights):
    rows, classes = coded(RowBlocks.from_arrays(X, LABELS, weights, block_rows=25), class_weight)
    w = np.ones(60) if weights is None else weights
    if class_weight == "balanced":
        total = {c: w[LABELS == c].sum() for c in np.unique(LABELS)}
        factors = np.array([w.sum() / (3 * total[c]) for c in LABELS])
        assert list(classes) == ["no", "perhaps", "yes"]
    else:
        factors = np.array([class_weight[c] for c in LABELS])
        assert list(classes) == ["perhaps", "yes"]
    found = np.concatenate([block.weight for block in rows])
    np.testing.assert_allclose(found, w * factors, rtol=1e-12)
    assert rows.has_weight and rows.has_target


def test_class_weights_hold_no_vector_of_all_rows():
    n, size = 200_000, 5000

    def rows():
        for start in range(0, n, size):
            y = np.where(np.arange(start, start + size) % 7 > 3, "some name", "another")
            yield np.zeros((size, 1)), y

    blocks = RowBlocks.from_generator(rows, n_rows=n)
    tracemalloc.start()
    try:
        coded(blocks, "balanced")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * n  # bytes; the labels alone are 36 n
