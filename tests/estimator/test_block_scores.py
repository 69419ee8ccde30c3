"""Scores of rows in blocks are those of the same rows in memory."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import GridSearchCV

import mercer
from mercer import RowBlocks
from mercer.errors import InvalidInput

rng = np.random.default_rng(0)
X = rng.standard_normal((60, 2))
Y = np.column_stack([np.sin(X[:, 0]) + 1e6, X[:, 1]])
LABELS = np.where(X[:, 0] + 0.5 * rng.standard_normal(60) > 0, "yes", "no")
W = rng.random(60) * (rng.random(60) > 0.2)
K = {"solver": "falkon", "centers": X[:8]}


def equal(a, b):
    return float(a == b)


MODELS = {
    "ridge": (mercer.KernelRidge("rbf", alpha=0.1, fit_intercept=True, **K), Y),
    "one output": (mercer.KernelRidge("rbf", alpha=0.1), Y[:, 1]),
    "classifier": (mercer.KernelRidgeClassifier("rbf", alpha=0.1, **K), LABELS),
    "logistic": (mercer.KernelLogisticRegression("rbf", alpha=0.1, **K), LABELS),
    "erm": (mercer.KernelERM("rbf", "huber", alpha=0.1), Y[:, 1]),
    "erm of classes": (mercer.KernelERM("rbf", "hinge", alpha=0.1), LABELS == "yes"),
    "svc": (mercer.SVC("rbf"), LABELS),
    "machine": (mercer.KernelMachine("rbf"), LABELS),
    "machine of numbers": (mercer.KernelMachine("rbf", estimator=Ridge()), Y),
    "sparse": (mercer.L1VM("rbf", alpha=0.01), LABELS),
    "sparse of numbers": (mercer.L1VM("rbf", "squared", alpha=0.01), Y[:, 1]),
    "structured": (mercer.StructuredKernelRidge("rbf", equal, alpha=0.1), LABELS),
    "process": (mercer.GaussianProcessRegressor(mercer.RBF(1.0), noise=0.1), Y[:, 1]),
}


@pytest.mark.parametrize("name", MODELS)
def test_scores_are_those_of_memory(name):
    model, y = MODELS[name]
    model.fit(X[:40], y[:40])
    judge = accuracy_score if y.dtype.kind in "Ub" else r2_score
    for w in (None, W):
        want = judge(y, model.predict(X), sample_weight=w)
        got = model.score(RowBlocks.from_arrays(X, y, w, block_rows=7))
        assert got == pytest.approx(want, rel=1e-9, abs=1e-12)
        bare = RowBlocks.from_arrays(X, block_rows=7)
        assert model.score(bare, y, w) == got == pytest.approx(model.score(X, y, w), rel=1e-9)
    at_once = model.score(RowBlocks.from_arrays(X[:1], y[:1]))
    assert at_once in (0.0, 1.0)


def test_constant_targets_score_as_in_memory():
    for value, score in ((0.0, 1.0), (0.5, 0.0)):  # met to the bit, or not
        y = np.full(60, value)
        model = mercer.KernelRidge("rbf").fit(X, y)
        assert model.score(X, y) == score
        assert model.score(RowBlocks.from_arrays(X, y, W, block_rows=7)) == score


def test_scores_of_dask_data():
    da, dd = pytest.importorskip("dask.array"), pytest.importorskip("dask.dataframe")
    pd = pytest.importorskip("pandas")
    model, y = MODELS["classifier"]
    model.fit(X, y)
    want = model.score(X, y, W)
    lazy = [da.from_array(A, chunks=(11, *A.shape[1:])) for A in (X, LABELS, W)]
    assert model.score(*lazy) == pytest.approx(want, abs=1e-12)
    table = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "label": LABELS, "w": W})
    frame = dd.from_pandas(table, npartitions=3)
    got = model.score(frame[["a", "b"]], frame["label"], frame["w"])
    assert got == pytest.approx(want, abs=1e-12)


def test_columns_are_found_by_name():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": 0.0})
    model = mercer.KernelRidge("rbf", **K).fit(RowBlocks.from_arrays(frame[["a", "b"]]), Y[:, 1])
    with pytest.warns(UserWarning, match="feature names"):
        want, values = model.score(X, Y[:, 1]), model.predict(X)
    turned = RowBlocks.from_arrays(frame[["c", "b", "a"]], Y[:, 1], block_rows=7)
    assert model.score(turned) == pytest.approx(want, rel=1e-12)
    np.testing.assert_allclose(model.predict(turned), values, rtol=1e-12)
    with pytest.raises(InvalidInput, match="no column 'b', which the model was fitted with"):
        model.predict(RowBlocks.from_arrays(frame[["c", "a"]]))


def test_refusals():
    model, y = MODELS["classifier"]
    model.fit(X, y)
    with pytest.raises(InvalidInput, match="score: the blocks carry no target"):
        model.score(RowBlocks.from_arrays(X))
    with pytest.raises(InvalidInput, match="target y is None"):
        model.score(X)
    with pytest.raises(InvalidInput, match="weights are zero"):
        model.score(RowBlocks.from_arrays(X, y, 0 * W))
    with pytest.raises(InvalidInput, match="give them one type"):
        model.score(RowBlocks.from_arrays(X, y == "yes"))
    with pytest.raises(InvalidInput, match=r"targets of X have 2 column\(s\).* the model 1"):
        mercer.KernelRidge("rbf").fit(X, Y[:, 0]).score(RowBlocks.from_arrays(X, Y))
    own = mercer.KernelMachine("rbf", estimator=GridSearchCV(Ridge(), {"alpha": [1.0]}, cv=2))
    with pytest.raises(InvalidInput, match="score of its own"):
        own.fit(X, Y[:, 1]).score(RowBlocks.from_arrays(X, Y[:, 1]))


@pytest.mark.parametrize("levels", [0.3, [0.2, 0.7]])
def test_quantiles_are_scored_by_all_targets_at_once(levels):
    da = pytest.importorskip("dask.array")
    model = mercer.KernelQuantileRegressor("rbf", quantile=levels).fit(X[:40], Y[:40, 1])
    for w in (None, W):
        want = model.score(X, Y[:, 1], w)
        got = model.score(RowBlocks.from_arrays(X, Y[:, 1], w, block_rows=7))
        assert got == pytest.approx(want, rel=1e-9)
        lazy = da.from_array(X, chunks=(11, 2))
        assert model.score(lazy, Y[:, 1], w) == pytest.approx(want, rel=1e-9)


@pytest.mark.parametrize(
    "model", [mercer.KernelKMeans(3, random_state=0), mercer.DPMeans(0.5, "rbf")]
)
def test_clusters_are_scored_by_sums_over_blocks(model):
    da = pytest.importorskip("dask.array")
    model.fit(X[:40])
    some = np.where(np.arange(60) < 14, 0.0, W)  # blocks of no weight
    for w in (None, W, some):
        want = model.score(X, sample_weight=w)
        got = model.score(RowBlocks.from_arrays(X, None, w, block_rows=7))
        assert got == pytest.approx(want, rel=1e-9)
        lazy = da.from_array(X, chunks=(11, 2))
        assert model.score(lazy, sample_weight=w) == pytest.approx(want, rel=1e-9)
    blocks = RowBlocks.from_arrays(X, block_rows=7)
    assert model.score(blocks, None, 2.0) == pytest.approx(2 * model.score(X), rel=1e-9)
    with pytest.raises(InvalidInput, match="weights are zero"):
        model.score(blocks, sample_weight=0 * W)
    bad = X.copy()
    bad[13, 1] = np.nan
    with pytest.raises(InvalidInput, match="nan at row 13, column 1 of X"):
        model.score(RowBlocks.from_arrays(bad, block_rows=7))
