"""What approximate features share: precision, blocks, words for names, seeds and missing values."""

import pickle
import tracemalloc
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import mercer
from mercer import (
    RBF,
    KernelLogisticRegression,
    KernelRidge,
    Linear,
    Nystroem,
    Polynomial,
    Prototypes,
    RandomFourierFeatures,
    RowBlocks,
    TensorSketch,
)
from mercer.errors import InvalidInput, MemoryBudgetExceeded
from mercer.features import base

X = np.random.default_rng(0).normal(size=(60, 3))
MAPS = {
    "nystroem": lambda **rest: Nystroem(RBF(2.0), 20, random_state=0, **rest),
    "fourier": lambda **rest: RandomFourierFeatures(RBF(2.0), 21, random_state=0, **rest),
    "sketch": lambda **rest: TensorSketch(Polynomial(2), 20, random_state=0, **rest),
}


@pytest.mark.parametrize("make", MAPS.values(), ids=MAPS)
def test_features_have_the_precision_of_the_rows(make, monkeypatch):
    narrow = X.astype(np.float32)
    wide = make().fit(narrow.astype(np.float64))
    want = wide.transform(narrow.astype(np.float64))
    assert want.dtype == np.float64
    monkeypatch.setattr(base, "TOGETHER", 7 * want.shape[1])  # several blocks of rows
    for rows in (narrow, pd.DataFrame(narrow)):
        model = make()
        both = model.fit_transform(rows), model.transform(rows)
        for got in both:
            assert got.dtype == np.float32
            np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)
    assert make().fit_transform(np.round(X).astype(int)).dtype == np.float64
    error = "trace_error_" if hasattr(wide, "trace_error_") else "error_"
    once = make()
    once.fit_transform(narrow)
    assert getattr(once, error) == pytest.approx(getattr(wide, error), rel=1e-9)


@pytest.mark.parametrize("make", MAPS.values(), ids=MAPS)
def test_blocks_are_fitted_by_a_sample(make, monkeypatch, tmp_path):
    weights = np.where(X[:, 0] > 0, 1.0, 0.0)
    blocks = RowBlocks.from_arrays(X, None, weights, block_rows=13)
    model, whole = make().fit(blocks), make().fit(X, sample_weight=weights)
    error = "trace_error_" if hasattr(model, "trace_error_") else "error_"
    assert getattr(model, error) == getattr(whole, error)
    np.testing.assert_allclose(model.transform(blocks), whole.transform(X), atol=1e-12)
    Phi = make().fit_transform(blocks)
    np.testing.assert_allclose(Phi, model.transform(X), atol=1e-12)
    if hasattr(model, "components_"):
        assert (model.components_[:, 0] > 0).all()
    monkeypatch.setattr(base, "SEEN", 10)
    some = make().set_params(n_components=2).fit(RowBlocks.from_arrays(X, block_rows=13))
    assert some.transform(X).shape == (60, 2)
    path = tmp_path / "rows.parquet"
    pd.DataFrame(X, columns=list("abc")).to_parquet(path)
    named = make().fit(RowBlocks.from_parquet(path))
    assert list(named.feature_names_in_) == list("abc")
    with pytest.raises(InvalidInput, match="feature names"):
        named.transform(pd.DataFrame(X, columns=list("cba")))


@pytest.mark.parametrize("seed", [np.random.default_rng(0), "a", -1])
@pytest.mark.parametrize(
    "make", [Nystroem, RandomFourierFeatures, TensorSketch, Prototypes], ids=lambda c: c.__name__
)
def test_seeds_are_refused_by_name(make, seed):
    model = make(random_state=seed)
    if make is Prototypes:
        model.set_params(prototypes="random", n_prototypes=3)
    with pytest.raises(InvalidInput, match=f"^{make.__name__}: random_state=.*RandomState"):
        model.fit(X)


def test_advice_is_what_the_map_takes():
    missing = X.copy()
    missing[3, 1] = np.nan
    for make in (RandomFourierFeatures, TensorSketch):
        with pytest.raises(InvalidInput, match="row 3, column 1") as error:
            make().fit(missing)
        assert "with_missing" not in str(error.value)
    with pytest.raises(InvalidInput, match="with_missing"):
        Nystroem().fit(missing)
    Nystroem(RBF().with_missing(), 5).fit(missing)
    for make in (RandomFourierFeatures, TensorSketch, Nystroem):
        with pytest.raises(InvalidInput, match="known name") as error:
            make("rbff").fit(X)
        names = str(error.value).split("give ")[1].split(", or a")[0].split(", ")
        assert ("'rbf'" in names) == (make is not TensorSketch)
        for name in names:
            data = RBF()(X) if name == "'precomputed'" else X
            make(name.strip("'"), 5).fit(data)
        for word in ("sigmoid", "chi2", "additive_chi2"):  # what is advised instead is legal
            with pytest.raises(InvalidInput, match="is not to be had by its name: ") as error:
                make(word).fit(X)
            text = str(error.value)
            assert text.startswith(f"{make.__name__}: kernel={word!r}")
            assert (make is Nystroem) == ("precomputed" in text or "repaired" in text)
            assert ("is no positive definite kernel" in text) == (word != "chi2")


def test_points_in_tensors_are_kept_as_arrays(tmp_path):
    torch = pytest.importorskip("torch")
    Z, y = torch.tensor(X[:9]), X[:, 0] > 0
    for model in (
        KernelRidge(Linear(), centers=Z).fit(X, y),
        KernelLogisticRegression(RBF(), centers=Z).fit(X, y),
        Nystroem(RBF(), landmarks=Z).fit(X),
        Prototypes(RBF(), Z).fit(X),
    ):
        answer = "transform" if hasattr(model, "transform") else "predict"
        mercer.save(model, tmp_path / "model.mercer")
        held = pickle.dumps(model)
        assert b"torch" not in held
        for again in (mercer.load(tmp_path / "model.mercer"), pickle.loads(held)):
            np.testing.assert_array_equal(getattr(again, answer)(X), getattr(model, answer)(X))


def test_rows_of_blocks_are_drawn_by_weight(monkeypatch):
    monkeypatch.setattr(base, "SEEN", 100)
    many = np.random.default_rng(0).normal(size=(600, 2))
    w = np.zeros(600)
    w[[7, 300, 599]] = 1.0, 2.0, 3.0
    blocks = RowBlocks.from_arrays(many, None, w, block_rows=50)
    for seed in range(12):  # three rows count, and no draw misses them
        found = Nystroem("rbf", 5, random_state=seed).fit(blocks)
        assert found.n_components_ == 3 and found.trace_error_ < 1e-12
        assert {tuple(z) for z in found.components_} == {tuple(x) for x in many[w > 0]}
    for make in (Nystroem, RandomFourierFeatures):  # scales are found with the weights
        given = make(RBF("median"), 4, random_state=0).fit(many, sample_weight=w).kernel_
        assert make(RBF("median"), 4, random_state=0).fit(blocks).kernel_ == given
    blocks = RowBlocks.from_arrays(many).with_values(None, np.where(many[:, 0] > 0, 1.0, 0.0))
    for how in ("uniform", "kmeans", "rpcholesky", "leverage"):
        model = Nystroem(RBF(), 9, landmarks=how, random_state=0).fit(blocks)
        assert (model.components_[:, 0] > 0).all()
    TensorSketch(Polynomial(2), 9, random_state=0).fit(blocks)


@pytest.mark.parametrize("how", ["uniform", "kmeans", "rpcholesky", "leverage"])
def test_a_seed_makes_the_same_map_of_rows_in_memory_and_in_blocks(how, monkeypatch):
    monkeypatch.setattr(base, "SEEN", 100)  # of more rows a sample is looked at
    many = np.random.default_rng(0).normal(size=(600, 2))
    w = np.random.default_rng(1).integers(0, 3, 600).astype(float)
    for weights in (None, w):
        blocks = RowBlocks.from_arrays(many, None, weights, block_rows=70)
        for make in (
            Nystroem(RBF(1.5), 9, landmarks=how, random_state=3),
            RandomFourierFeatures(RBF(1.5), 8, random_state=3),
            TensorSketch(Polynomial(2), 9, random_state=3),
        ):
            expected = clone(make).fit(many, sample_weight=weights).transform(many)
            found = clone(make).fit(blocks).transform(many)
            if isinstance(make, RandomFourierFeatures):  # phases are from the mean of the sample
                expected, found = expected @ expected.T, found @ found.T
            np.testing.assert_allclose(found, expected, atol=1e-9)


def test_maps_of_dask_data_are_those_of_their_blocks():
    da = pytest.importorskip("dask.array")
    X, w = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40.0)
    lazy = da.from_array(X, chunks=(15, 2))
    for weights in (None, w, da.from_array(w, chunks=10)):
        ours = mercer.Nystroem("rbf", 5, random_state=0).fit(lazy, sample_weight=weights)
        known = None if weights is None else w
        theirs = mercer.Nystroem("rbf", 5, random_state=0).fit(X, sample_weight=known)
        np.testing.assert_array_equal(ours.transform(X), theirs.transform(X))


WIDE = np.random.default_rng(1).normal(size=(4000, 120))


def peak_of(work):
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("way", ["transform", "fit_transform"])
@pytest.mark.parametrize("make", [*MAPS.values(), Prototypes], ids=[*MAPS, "prototypes"])
@pytest.mark.parametrize(
    "rows",
    [WIDE, np.ascontiguousarray(WIDE[:, :3]), WIDE[:, :3].astype(np.float32)],
    ids=["wide", "narrow", "float32"],
)
def test_features_stay_inside_the_budget_or_are_refused_before_they_are_made(make, way, rows):
    options = {"prototypes": WIDE[:20, : rows.shape[1]]} if make is Prototypes else {}
    model = make(**options).fit(rows[:300])
    own = len(rows) * model.transform(rows[:2])[:1].nbytes
    model.transform(rows[:100])
    work = partial(getattr(model, way), rows)
    for budget in (own - 1, own // 2):
        with (
            mercer.config(memory=budget),
            pytest.raises(MemoryBudgetExceeded, match=r"features|matrix"),
        ):
            work()
    if way == "transform":
        for budget in (2 * own, 10 * own):
            with mercer.config(memory=budget):
                assert peak_of(work) < 1.1 * budget


@pytest.mark.parametrize("precision", [np.float64, np.float32])
@pytest.mark.parametrize("make", MAPS.values(), ids=MAPS)
def test_a_budget_just_above_the_features_holds_all_that_is_made(make, precision):
    rows = np.random.default_rng(2).normal(size=(60_000, 3)).astype(precision)
    model = make().fit(rows[:300])
    own = len(rows) * model.transform(rows[:2])[:1].nbytes
    made = 0
    for factor in (1.0, 1.03, 1.1, 1.4):
        with mercer.config(memory=int(factor * own)):
            try:
                peak = peak_of(partial(model.transform, rows))
            except MemoryBudgetExceeded:
                continue
        assert peak < factor * own + 5e5
        made += 1
    assert made
