"""Ridge in the span of centres against dense algebra; what such a fit keeps and refuses."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone

import mercer
from mercer import RBF, KernelRidge, KernelRidgeClassifier, Linear, Polynomial, RowBlocks
from mercer.errors import InvalidInput, MemoryBudgetExceeded, ModelFileError, NotConverged
from mercer.solvers.falkon import preconditioner


@pytest.fixture(autouse=True)
def _own(monkeypatch):
    """Few rows would all be drawn, and one iteration would do: iterate as for many rows."""
    monkeypatch.setattr(preconditioner, "WORTH", 0)


rng = np.random.default_rng(2)
X = rng.standard_normal((200, 3))
Y = np.sin(X[:, :2]) + 0.1
W = rng.uniform(0.0, 2.0, 200)
W[:9] = 0.0
LABELS = np.array(["low", "mid", "high"])[np.digitize(X[:, 0], [-0.5, 0.6])]
NEW = rng.standard_normal((7, 3))


def dense(Z, T, w, alpha, offset):
    """Solve the normal equations of f = Σ aⱼ k(zⱼ, ·) + b directly."""
    K, M = RBF()(X, Z), RBF()(Z)
    mean = w @ T / w.sum() if offset else 0.0
    c = w @ K / w.sum() if offset else np.zeros(len(Z))
    A = (K - c).T @ (w[:, None] * (K - c)) + alpha * M
    a = np.linalg.solve(A, (K - c).T @ (w[:, None] * (T - mean)))
    return RBF()(NEW, Z) @ a + mean - c @ a


@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize("weights", [None, W])
def test_normal_equations(offset, weights):
    model = KernelRidge(RBF(), 0.1, fit_intercept=offset, n_centers=25, tol=1e-11, random_state=0)
    model.fit(X, Y, weights)
    assert model.X_fit_.shape == (25, 3) and model.dual_coef_.shape == (25, 2)
    assert {tuple(z) for z in model.X_fit_} <= {tuple(x) for x in X}
    w = np.ones(200) if weights is None else weights
    np.testing.assert_allclose(
        model.predict(NEW), dense(model.X_fit_, Y, w, 0.1, offset), atol=1e-7
    )
    assert model.n_rows_ == 200 and model.plan_.method == "falkon" and model.solution_.converged
    assert model.coef_ is None and not hasattr(model, "y_fit_")
    np.testing.assert_allclose(model.function_(NEW), model.predict(NEW), atol=1e-12)


@pytest.mark.parametrize("m", [200, 5000])
def test_as_many_centres_as_points_are_the_exact_fit(m):
    exact = KernelRidge(RBF(), 0.1).fit(X, Y)
    model = KernelRidge(RBF(), 0.1, solver="falkon", n_centers=m, tol=1e-12).fit(X, Y)
    np.testing.assert_allclose(model.predict(NEW), exact.predict(NEW), atol=1e-8)


@pytest.mark.parametrize("centers", ["uniform", "kmeans", "rpcholesky", "leverage", X[:20]])
def test_centres_of_every_kind(centers):
    count = 20 if isinstance(centers, str) else None
    model = KernelRidge(RBF(), 0.1, n_centers=count, centers=centers, random_state=0, tol=1e-10)
    model.fit(X, Y)
    assert len(model.X_fit_) == 20
    want = dense(model.X_fit_, Y, np.ones(200), 0.1, False)
    np.testing.assert_allclose(model.predict(NEW), want, atol=1e-6)


def test_duplicates_and_one_centre():
    same = np.repeat(X[:4], 50, axis=0)
    exact = KernelRidge(RBF(), 0.1).fit(same, Y)
    model = KernelRidge(RBF(), 0.1, n_centers=50, tol=1e-12).fit(same, Y)
    assert len(model.X_fit_) == 4
    np.testing.assert_allclose(model.predict(NEW), exact.predict(NEW), atol=1e-8)
    one = KernelRidge(RBF(), 0.1, n_centers=1, random_state=0).fit(X, Y[:, 0])
    assert one.dual_coef_.shape == (1,) and isinstance(one.intercept_, float)


def test_a_weight_of_two_is_a_row_twice():
    w = np.ones(200)
    w[:50] = 2.0
    Z = X[::7]
    one = KernelRidge(RBF(), 0.1, centers=Z, tol=1e-12, fit_intercept=True).fit(X, Y, w)
    two = KernelRidge(RBF(), 0.1, centers=Z, tol=1e-12, fit_intercept=True)
    two.fit(np.concatenate([X, X[:50]]), np.concatenate([Y, Y[:50]]))
    np.testing.assert_allclose(one.predict(NEW), two.predict(NEW), atol=1e-9)


@pytest.mark.parametrize("class_weight", [None, "balanced", {"low": 3.0, "mid": 1.0, "high": 0.5}])
@pytest.mark.parametrize("weights", [None, W])
def test_classifier_in_memory_and_in_blocks(class_weight, weights):
    make = KernelRidgeClassifier(RBF(), 0.1, centers=X[::5], class_weight=class_weight, tol=1e-12)
    exact = KernelRidgeClassifier(RBF(), 0.1, class_weight=class_weight).fit(X, LABELS, weights)
    model = clone(make).fit(X, LABELS, weights)
    blocks = RowBlocks.from_arrays(X, LABELS, weights, block_rows=64)
    stream = clone(make).fit(blocks)
    beside = clone(make).fit(RowBlocks.from_arrays(X, block_rows=64), LABELS, weights)
    assert model.classes_.tolist() == stream.classes_.tolist() == ["high", "low", "mid"]
    for other in (stream, beside):
        np.testing.assert_allclose(
            other.decision_function(NEW), model.decision_function(NEW), atol=1e-8
        )
    used = np.ones(200, bool) if weights is None else weights > 0
    agree = model.predict(X[used]) == exact.predict(X[used])
    assert agree.mean() > 0.95
    assert (stream.predict(blocks) == model.predict(X)).all()


def test_two_classes_in_blocks_and_one_class():
    two = np.where(X[:, 0] > 0, 1, -1)
    model = KernelRidgeClassifier(RBF(), 0.1, centers=X[:30]).fit(RowBlocks.from_arrays(X, two))
    assert model.dual_coef_.shape == (30,) and model.score(X, two) > 0.9
    with pytest.raises(InvalidInput, match="one class"):
        KernelRidgeClassifier(RBF()).fit(RowBlocks.from_arrays(X, np.zeros(200, int)))


@pytest.mark.parametrize("offset", [False, True])
def test_blocks_are_the_rows(offset):
    model = KernelRidge(RBF(), 0.1, centers=X[:40], fit_intercept=offset, tol=1e-12).fit(X, Y, W)
    for blocks, y in (
        (RowBlocks.from_arrays(X, Y, W, block_rows=33), None),
        (RowBlocks.from_arrays(X, block_rows=200), Y),
    ):
        weights = None if y is None else W
        stream = clone(model).fit(blocks, y, weights)
        np.testing.assert_allclose(stream.predict(NEW), model.predict(NEW), atol=1e-8)
        assert stream.n_rows_ == 200 and stream.n_features_in_ == 3
        with pytest.raises(InvalidInput, match="2 features"):
            stream.predict(NEW[:, :2])


def test_blocks_without_words_or_centres_given():
    blocks = RowBlocks.from_arrays(X, Y[:, 0], block_rows=50)
    a, b = (KernelRidge("rbf", 0.1, n_centers=30, random_state=4).fit(blocks) for _ in range(2))
    assert (a.predict(NEW) == b.predict(NEW)).all() and a.predict(NEW).shape == (7,)
    assert a.score(X, Y[:, 0]) > 0.9
    default = KernelRidge(RBF(), 0.1, random_state=0).fit(blocks)  # auto: rows come in blocks
    assert default.plan_.method == "falkon" and len(default.X_fit_) == 200


def test_blocks_are_refused_by_name():
    blocks = RowBlocks.from_arrays(X, block_rows=50)
    with pytest.raises(InvalidInput, match="no target"):
        KernelRidge(RBF()).fit(blocks)
    full = RowBlocks.from_arrays(X, Y)
    for solver in ("cholesky", "cg"):
        with pytest.raises(InvalidInput, match="solver='falkon'"):
            KernelRidge(RBF(), solver=solver).fit(full)
    for alpha in ("loo", [0.1, 0.2]):
        with pytest.raises(InvalidInput, match="one alpha"):
            KernelRidge(RBF(), alpha).fit(full)
    with pytest.raises(InvalidInput):
        KernelRidge(RBF()).fit(RowBlocks.from_arrays(X, Y * np.nan))


def test_dask_data():
    da = pytest.importorskip("dask.array")
    rows = da.from_array(X, chunks=(60, 3))
    model = KernelRidge(RBF(), 0.1, centers=X[:40], tol=1e-12).fit(X, Y)
    cluster = clone(model).fit(rows, da.from_array(Y, chunks=(60, 2)))
    np.testing.assert_allclose(cluster.predict(NEW), model.predict(NEW), atol=1e-8)
    lazy = cluster.predict(rows)
    np.testing.assert_allclose(lazy.compute(), cluster.predict(X), atol=1e-12)


def test_what_needs_all_rows_says_so():
    model = KernelRidge(RBF(), 0.1, n_centers=20).fit(X, Y)
    calls = (model.loo, model.degrees_of_freedom, lambda: model.predict_interval(X))
    for call in (*calls, lambda: model.loo(groups=np.zeros(200))):
        with pytest.raises(InvalidInput, match=r"200 rows.*solver='cholesky'"):
            call()
    with pytest.raises(InvalidInput, match="solver='cholesky'"):
        KernelRidgeClassifier(RBF(), n_centers=20).fit(X, LABELS).loo()
    refit = model.set_params(solver="cholesky", n_centers=None).fit(X, Y)
    assert refit.loo().shape == (200, 2)


def test_files_and_pickles(tmp_path):
    model = KernelRidge(RBF(), 0.1, n_centers=20, fit_intercept=True).fit(X, Y)
    mercer.save(model, tmp_path / "a.mercer")
    for again in (mercer.load(tmp_path / "a.mercer"), pickle.loads(pickle.dumps(model))):
        assert (again.predict(NEW) == model.predict(NEW)).all()
        assert again.plan_ == model.plan_ and again.n_rows_ == 200
        with pytest.raises(InvalidInput, match="solver='cholesky'"):
            again.loo()
    model.n_rows_ = 0
    mercer.save(model, tmp_path / "b.mercer")
    with pytest.raises(ModelFileError):
        mercer.load(tmp_path / "b.mercer")


@pytest.mark.usefixtures("iterations")
def test_checkpoint_resumes(tmp_path):
    path = tmp_path / "state"
    options = {"n_centers": 30, "tol": 1e-12, "checkpoint": path}
    whole = KernelRidge(RBF(0.5), 1e-6, n_centers=30, tol=1e-12, random_state=0).fit(X, Y)
    with pytest.warns(NotConverged):
        KernelRidge(RBF(0.5), 1e-6, max_iter=2, **options).fit(X, Y)
    assert path.exists()
    again = KernelRidge(RBF(0.5), 1e-6, **options).fit(X, Y)
    assert (again.dual_coef_ == whole.dual_coef_).all()
    with pytest.raises(InvalidInput, match="checkpoint"):
        KernelRidge(RBF(0.7), 1e-6, **options).fit(X, Y)


def test_limits_and_units():
    with pytest.warns(NotConverged, match=r"KernelRidge: 2 of 2 targets.*max_iter"):
        KernelRidge(RBF(0.3), 1e-9, n_centers=100, tol=1e-13, max_iter=1).fit(X, Y)
    base = KernelRidge(RBF(), 0.1, centers=X[:20], tol=1e-12).fit(X, Y)
    for scale in (1e-130, 1e130):
        other = clone(base).fit(X, scale * Y)
        np.testing.assert_allclose(other.dual_coef_ / scale, base.dual_coef_, rtol=1e-8)
        assert other.solution_.primal == pytest.approx(scale**2 * base.solution_.primal, rel=1e-8)
        assert (other.solution_.value == other.dual_coef_).all()
    assert base.solution_.extra["method"] == "falkon"


def test_auto_is_exact_for_few_points_and_plans_what_fits():
    assert KernelRidge(RBF()).fit(X, Y).plan_.method == "cholesky"
    assert KernelRidge(RBF(), n_centers=9).fit(X, Y).plan_.method == "falkon"
    with mercer.config(memory="1MB"), pytest.raises(MemoryBudgetExceeded):
        KernelRidge(RBF(), solver="falkon", n_centers=1000).fit(
            rng.standard_normal((4000, 2)), np.zeros(4000)
        )


def test_precomputed_matrix_has_no_centres():
    with pytest.raises(InvalidInput, match="centres"):
        KernelRidge("precomputed", n_centers=10).fit(RBF()(X), Y)


@pytest.mark.parametrize("rows", ["array", "blocks", "given"])
def test_centres_that_add_nothing_are_left_out(rows):
    """A kernel of rank three with forty centres is fitted as with three of them."""
    draw = np.random.default_rng(17)
    x = draw.standard_normal((1000, 1))
    y = np.sin(x[:, 0]) + 0.1 * draw.standard_normal(1000)
    centres = {"centers": np.tile(x[:20], (2, 1))} if rows == "given" else {"n_centers": 40}
    for alpha in (1e-5, 1e-7):
        model = KernelRidge(Polynomial(2), alpha, fit_intercept=True, random_state=0, **centres)
        model.fit(*((RowBlocks.from_arrays(x, y, block_rows=300),) if rows == "blocks" else (x, y)))
        exact = KernelRidge(Polynomial(2), alpha, fit_intercept=True, solver="cholesky").fit(x, y)
        assert model.solution_.converged and len(model.X_fit_) == len(model.dual_coef_) == 3
        np.testing.assert_allclose(model.predict(x), exact.predict(x), atol=1e-8)


def test_one_centre_is_left_of_a_kernel_that_is_nought():
    model = KernelRidge(Linear(), 1.0, n_centers=5).fit(np.zeros((20, 2)), np.ones(20))
    assert len(model.X_fit_) == 1 and (model.predict(np.ones((3, 2))) == 0).all()
    Z = np.ones((6, 3))
    model = KernelRidge(RBF(), 1.0, centers=Z).fit(X, Y)
    assert len(model.X_fit_) == 1
    one = KernelRidge(RBF(), 1.0, centers=Z[:1]).fit(X, Y)
    np.testing.assert_allclose(model.predict(NEW), one.predict(NEW), rtol=1e-9)


def test_float32_rows_have_the_risk_that_is_said():
    x = np.random.default_rng(1).normal(size=(2000, 1)).astype(np.float32)
    y = np.sin(3 * x[:, 0])
    model = KernelRidge(RBF(2.0), 1.0, n_centers=60, random_state=0)
    single, double = clone(model).fit(x, y), clone(model).fit(x.astype(float), y)
    Z, a = single.X_fit_, single.dual_coef_
    f = RBF(2.0)(x.astype(float), Z) @ a
    true = 0.5 * np.sum((y - f) ** 2) + 0.5 * a @ RBF(2.0)(Z) @ a
    assert single.solution_.converged and single.solution_.primal == pytest.approx(true, rel=1e-4)
    assert true == pytest.approx(double.solution_.primal, rel=1e-4)
