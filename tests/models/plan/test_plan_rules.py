"""`model.plan(X, y)` of every estimator that has one: what fit then does, and what it takes."""

import tracemalloc
import warnings

import numpy as np
import pytest
from scipy import sparse

import mercer
from mercer import (
    RBF,
    SVC,
    SVR,
    GaussianProcessRegressor,
    KernelERM,
    KernelKMeans,
    KernelLogisticRegression,
    KernelPCA,
    KernelPerceptron,
    KernelRidge,
    KernelRidgeClassifier,
    Polynomial,
    RowBlocks,
    SpectralClustering,
    Spectrum,
)
from mercer.errors import InvalidInput, MemoryBudgetExceeded
from mercer.estimator.plan import Plan
from tests.models.planned_data import K, data

rng = np.random.default_rng(0)


def sparse_rows(n):
    where = rng.integers(0, 20_000, 10 * n), np.arange(0, 10 * n + 1, 10)
    return sparse.csr_array((np.ones(10 * n), *where), (n, 20_000)), rng.standard_normal(n)


def fitted(model, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y)


# -- what fit does is what the plan says ---------------------------------------------------------
@pytest.mark.parametrize("solver", ["auto", "cholesky", "cg", "falkon"])
@pytest.mark.parametrize("memory", ["300kB", "20GB"])
def test_ridge_follows_its_plan(solver, memory):
    X, y = data(300)
    model = KernelRidge(K, solver=solver, n_centers=20 if solver == "falkon" else None)
    with mercer.config(memory=memory):
        plan = model.plan(X, y)
        if not plan.fits:
            with pytest.raises(MemoryBudgetExceeded):
                model.fit(X, y)
            return
        fitted(model, X, y)
    assert model.plan_.method == plan.method
    assert model.plan_.memory == plan.memory and model.plan_.n_centers == plan.n_centers
    assert len(model.dual_coef_) == (20 if plan.method == "falkon" else 300)


@pytest.mark.parametrize("memory", ["600kB", "20GB"])
@pytest.mark.parametrize("solver", ["auto", "cholesky", "cg", "falkon"])
@pytest.mark.parametrize("kernel", [K, Polynomial(3)], ids=["rbf", "polynomial"])
@pytest.mark.parametrize("kind", [KernelRidge, KernelLogisticRegression])
def test_what_is_done_is_what_was_planned(kind, kernel, solver, memory):
    X, y = data(600 if kind is KernelRidge else 300)
    target = y if kind is KernelRidge else y > 0
    model = kind(kernel, solver=solver, n_centers=30 if solver == "falkon" else None)
    if kind is not KernelRidge and solver == "cg":
        memory = "20GB"  # tiles of a few rows take long
    with mercer.config(memory=memory):
        plan = model.plan(X, target)
        if not plan.fits:
            with pytest.raises(MemoryBudgetExceeded):
                model.fit(X, target)
            return
        fitted(model, X, target)
    done = model.solution_.extra
    if plan.method == "falkon":
        assert "passes" in done and len(model.dual_coef_) == plan.n_centers
    elif kind is KernelRidge:
        assert done["method"] == {"cholesky": "dual"}.get(plan.method, plan.method)
    else:
        assert ("weights" in done) == (plan.method == "primal") and "passes" not in done


@pytest.mark.parametrize("solver", ["auto", "dense", "subspace", "cholesky"])
@pytest.mark.parametrize("components", [3, 0.5, None])
@pytest.mark.parametrize("memory", ["3MB", "20GB"])
def test_components_follow_their_plan(solver, components, memory):
    if solver == "subspace" and components is None:
        return
    X, y = data(600)
    model = KernelPCA(components, K, eigen_solver=solver)
    with mercer.config(memory=memory):
        plan = model.plan(X)
        if plan.fits:
            assert fitted(model, X, y).eigen_solver_ == plan.method
        else:
            with pytest.raises(MemoryBudgetExceeded):
                model.fit(X)


@pytest.mark.parametrize("memory", ["500kB", "3MB", "20GB"])
def test_clusters_follow_their_plan(memory):
    X, _ = data(800)
    model = KernelKMeans(3, K, random_state=0, max_iter=5)
    with mercer.config(memory=memory):
        plan = model.plan(X)
        assert fitted(model, X, None).method_ == plan.method
    assert plan.fits


@pytest.mark.parametrize(
    ("n", "memory", "model"),
    [
        (1500, "4MB", KernelKMeans(4, K, random_state=0, max_iter=2, n_init=1)),
        (1500, "4MB", KernelKMeans(4, K, random_state=0, method="nystrom")),
        (6000, "1MB", KernelPCA(3, K, eigen_solver="subspace")),
        (1500, "4MB", SpectralClustering(4, K, random_state=0, n_init=1)),
    ],
    ids=["batches", "pivots", "subspace", "spectral"],
)
def test_what_fits_is_done_and_what_does_not_is_refused(n, memory, model):
    X, _ = data(n)
    with mercer.config(memory=memory):
        plan = model.plan(X)
        if plan.fits:
            assert vars(fitted(model, X, None)).get("method_", plan.method) == plan.method
        else:
            with pytest.raises(MemoryBudgetExceeded):
                model.fit(X)


def test_a_process_that_does_not_fit():
    X, y = data(300)
    with mercer.config(memory="500kB"):
        plan = GaussianProcessRegressor(K).plan(X, y)
        assert not plan.fits and "Sparse" in plan.why
        with pytest.raises(MemoryBudgetExceeded):
            GaussianProcessRegressor(K).fit(X, y)


# -- the model is left alone ---------------------------------------------------------------------
def test_a_fitted_model_stays_fitted():
    X, y = data(60)
    model = KernelRidge(K).fit(X, y)
    model.plan(rng.standard_normal((40, 9)))
    assert model.n_features_in_ == 5 and len(model.predict(X)) == 60


# -- data ----------------------------------------------------------------------------------------
def test_outputs_and_classes_are_counted():
    X, y = data(200)
    one, three = (KernelRidge(K).plan(X, Y) for Y in (y, np.stack([y] * 3, axis=1)))
    assert three.memory > one.memory
    labels = np.arange(200) % 5
    for kind in (KernelLogisticRegression, KernelRidgeClassifier, SVC):
        two, five = (kind(K).plan(X, Y) for Y in (labels > 1, labels))
        assert five.memory > two.memory
    assert "10 pairs of classes" in SVC(K).plan(X, labels).why


def test_targets_are_checked_as_in_fit():
    X, y = data(60)
    missing = np.where(np.arange(60) == 3, np.nan, y)
    for model, Z, t in (
        (KernelRidge(K), X, y[:10]),
        (KernelRidge(K), X, missing),
        (SVR(K), X, y[:10]),
        (SVC(K), X, y[:10] > 0),
        (KernelRidge("precomputed"), X, y),
        (KernelERM(kernel=K, loss="absolute"), RowBlocks.from_arrays(X, y, block_rows=20), None),
    ):
        with pytest.raises(InvalidInput):
            model.fit(Z, t)
        with pytest.raises(InvalidInput):
            model.plan(Z, t)


@pytest.mark.parametrize("kind", [KernelLogisticRegression, KernelRidgeClassifier, SVC])
def test_labels_are_checked_as_in_fit(kind):
    X, y = data(30)
    for labels in (np.full(30, np.nan), np.c_[y > 0, y > 0], np.ones(30), (y > 0)[:20], y):
        with pytest.raises(InvalidInput) as fit:
            kind(kernel=K).fit(X, labels)
        with pytest.raises(InvalidInput) as plan:
            kind(kernel=K).plan(X, labels)
        assert str(plan.value) == str(fit.value)


def test_centres_that_repeat_count_once():
    X, y = (np.repeat(A, 6, axis=0) for A in data(20))
    twice = KernelRidge(K, centers=np.r_[X[:9], X[:9]])
    assert twice.plan(X, y).n_centers == twice.fit(X, y).plan_.n_centers == 2
    for model in (KernelRidge(K, n_centers=100), KernelLogisticRegression(K, n_centers=100)):
        assert model.fit(X, y > 0).plan_.n_centers == len(model.X_fit_) == 20


def test_sparse_rows_fit_where_they_fit():
    X, y = sparse_rows(600)
    model = KernelRidge(K, solver="falkon", n_centers=100, random_state=0)
    with mercer.config(memory="6MB"):
        assert model.plan(X, y).fits and fitted(model, X, y).n_rows_ == 600


def test_strings_graphs_of_text_and_words_of_kernels():
    words = ["abba", "baba", "cabab", "bb"] * 30
    plan = KernelRidge(Spectrum(2)).plan(words, np.zeros(120))
    assert plan.method in ("primal", "cholesky") and plan.fits
    assert KernelRidge("rbf").plan(rng.standard_normal((50, 2))).method == "cholesky"


def test_a_gram_matrix():
    X, y = data(80)
    for model in (KernelRidge("precomputed"), SVR("precomputed"), KernelKMeans(2, "precomputed")):
        plan = model.plan(K(X), y)
        assert plan.fits and "falkon" not in {p.method for p in plan.alternatives}


def test_rows_in_blocks():
    X, y = data(300)
    blocks = RowBlocks.from_arrays(X, y, block_rows=64)
    plan = KernelRidge(K, n_centers=30).plan(blocks)
    assert plan.method == "falkon" and plan.n_centers == 30 and plan.n_rows == 300
    assert 0 < plan.error < 1
    with pytest.raises(InvalidInput, match="blocks"):
        KernelRidge(K, solver="cholesky").plan(blocks)
    with pytest.raises(InvalidInput, match="blocks"):
        KernelPCA(2, K).plan(blocks)


@pytest.mark.parametrize("memory", ["3MB", "30MB", "2GB"])
def test_blocks_in_flight_are_counted(tmp_path, memory):
    X, y = data(20_000, 12)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    model = KernelRidge(K, n_centers=60, random_state=0, max_iter=2)
    with mercer.config(memory=memory):
        for size in (None, 4000):
            files = str(tmp_path / "X.npy"), str(tmp_path / "y.npy")
            blocks = RowBlocks.from_npy(*files, block_rows=size)
            plan = model.plan(blocks)
            tracemalloc.start()
            try:
                fitted(model, blocks, None)
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
            assert peak <= plan.memory and plan.fits


def test_sorted_rows_in_blocks_are_looked_at_all_over():
    X = np.repeat(rng.standard_normal((2, 4)), 1000, axis=0)
    X[1000:] += rng.standard_normal((1000, 4))  # the first block is one point
    blocks = RowBlocks.from_arrays(X, X[:, 0], block_rows=500)
    plan = KernelRidge(RBF(0.5), n_centers=300).plan(blocks)
    whole = KernelRidge(RBF(0.5), n_centers=300).plan(X, X[:, 0])
    other = next(p for p in (whole, *whole.alternatives) if p.method == "falkon")
    assert other.error / 2 < plan.error < 2 * other.error


def test_more_centres_than_rows_are_told():
    X, y = data(100)
    assert "n_centers=500 is more than the 100 rows" in KernelRidge(K, n_centers=500).plan(X, y).why
    assert "more than" not in KernelRidge(K, n_centers=100).plan(X, y).why


@pytest.mark.parametrize("d", [1, 3])
def test_rows_in_single_precision(d):
    X = rng.standard_normal((5001, d)).astype(np.float32)
    y = np.sin(X[:, 0])
    for kind in (KernelRidge, KernelRidgeClassifier, KernelLogisticRegression):
        target = y if kind is KernelRidge else y > 0
        for kernel in (RBF(3.0), Polynomial(3)):
            assert kind(kernel).plan(X, target).seconds > 0
        blocks = RowBlocks.from_arrays(X[:300], target[:300], block_rows=200)
        assert fitted(kind(RBF(3.0)), blocks, None).plan_.method == "falkon"


def test_dask_arrays():
    da = pytest.importorskip("dask.array")
    X, y = data(300)
    rows, values = da.from_array(X, chunks=(100, 5)), da.from_array(y, chunks=100)
    plan = KernelRidge("rbf", n_centers=20).plan(rows, values)
    assert plan.method == "falkon" and plan.n_rows == 300 and plan.error > 0


def test_tensors():
    torch = pytest.importorskip("torch")
    X, y = data(100)
    for model in (KernelRidge(K), KernelPCA(2, K)):
        plan, same = model.plan(torch.as_tensor(X), torch.as_tensor(y)), model.plan(X, y)
        assert plan.method == same.method
    with mercer.config(engine="torch", device="cpu"):
        assert KernelRidge(K).plan(X, y).method == "cholesky"


@pytest.mark.parametrize("kind", [KernelRidge, KernelLogisticRegression])
def test_own_centres_are_counted(kind):
    X, y = data(300)
    target = y if kind is KernelRidge else y > 0
    for centers in (X[:77], X[:77].tolist(), sparse.csr_array(X[:77])):
        model = kind(K, centers=centers)
        plan = model.plan(X, target)
        assert plan.n_centers == 77 and "asked for centres" in plan.why
    model = fitted(kind(K, centers=X[:77]), X, target)
    assert model.plan_.n_centers == 77 and model.plan_.why == plan.why
    assert len(model.dual_coef_) == 77


def test_a_loss_with_kinks():
    plan = KernelERM(kernel=K, loss="absolute").plan(*data(50))
    assert plan.method == "smo" and "losses with kinks" in plan.why


@pytest.mark.parametrize(
    "X", [np.zeros((0, 2)), np.full((3, 2), np.nan), "text", None, np.zeros((2, 2, 2))]
)
def test_bad_data_are_refused_as_in_fit(X):
    with pytest.raises((ValueError, TypeError)) as refused:
        KernelRidge(K).fit(X, np.zeros(3))
    with pytest.raises(type(refused.value)) as caught:
        KernelRidge(K).plan(X)
    assert str(caught.value) == str(refused.value)


def test_bad_parameters_are_refused_as_in_fit():
    X, y = data(20)
    for model in (
        KernelRidge(K, alpha=-1.0),
        KernelRidge(K, solver="magic"),
        KernelRidge(K, n_centers=0),
        KernelRidge(K, centers="nonsense"),
        KernelPCA(2, K, eigen_solver="magic"),
        KernelKMeans(50, K),
        KernelKMeans(2, K, method="magic"),
    ):
        with pytest.raises(InvalidInput):
            model.plan(X, y)


def test_who_has_no_rules_has_no_plan():
    assert not hasattr(KernelPerceptron(), "plan")
    assert hasattr(KernelRidge(), "plan")


def test_it_is_a_public_value():
    assert isinstance(KernelRidge(K).plan(*data(30)), Plan)
    assert mercer.Plan is Plan
