"""Smooth risks in the span of centres: against dense minimisation; blocks, weights, refusals."""

import pickle

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.base import clone

import mercer
from mercer import RBF, KernelERM, KernelLogisticRegression, RowBlocks
from mercer.errors import InvalidInput, MemoryBudgetExceeded, ModelFileError, NotConverged
from mercer.losses import Exponential, Huber, Logistic, SquaredHinge

rng = np.random.default_rng(5)
X = rng.standard_normal((150, 3))
TWO = np.where(X[:, 0] * X[:, 1] + 0.3 * rng.standard_normal(150) > 0, "yes", "no")
THREE = np.array(["low", "mid", "high"])[np.digitize(X[:, 0], [-0.5, 0.6])]
Y = np.sin(X[:, 0]) + 40.0
Y[5] = 900.0
W = rng.uniform(0.1, 2.0, 150)
W[:9] = 0.0
NEW = rng.standard_normal((7, 3))
Z = X[::6]
LOSSES = {"logistic": Logistic(), "squared_hinge": SquaredHinge(), "exponential": Exponential()}


def least(loss, y, w, alpha, offset):
    """Return the least risk over f = Σ aⱼ k(zⱼ, ·) + b, by a general minimiser in an own basis."""
    K, M = RBF()(X, Z), RBF()(Z)
    L = np.linalg.cholesky(M + 1e-12 * np.eye(len(Z)))
    B = np.linalg.solve(L, K.T).T  # f = B u, ‖f‖ = ‖u‖

    def risk(v):
        u, b = v[:-1], v[-1] * offset
        f = B @ u + b
        g = w * loss.gradient(y, f)
        value = w @ loss.value(y, f) + 0.5 * alpha * u @ u
        return value, np.append(B.T @ g + alpha * u, g.sum() * offset)

    start = np.zeros(len(Z) + 1)
    start[-1] = np.median(y) * offset
    options = {"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-10}
    found = minimize(risk, start, jac=True, method="L-BFGS-B", options=options)
    u, b = found.x[:-1], found.x[-1] * offset
    return found.fun, RBF()(NEW, Z) @ np.linalg.solve(L.T, u) + b


@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize("weights", [None, W])
@pytest.mark.parametrize("name", [*LOSSES, "huber"])
def test_least_risk(name, weights, offset):
    loss = LOSSES.get(name, Huber(0.5))
    y = np.where(TWO == "yes", 1.0, -1.0) if name in LOSSES else Y - 40.0 * (not offset)
    labels = TWO if name in LOSSES else y
    model = KernelERM(RBF(), loss, 0.3, offset, centers=Z, tol=1e-9).fit(X, labels, weights)
    risk, values = least(loss, y, np.ones(150) if weights is None else weights, 0.3, offset)
    assert model.solution_.primal == pytest.approx(risk, rel=1e-6)
    np.testing.assert_allclose(model._values(NEW), values, atol=2e-3)
    assert model.plan_.method == "falkon" and model.n_rows_ == 150 and model.solution_.converged
    assert model.solution_.residual < 1e-9 and not hasattr(model, "y_fit_")
    np.testing.assert_allclose(model.function_(NEW), model._values(NEW), atol=1e-9)


@pytest.mark.parametrize(
    ("make", "y"),
    [
        (KernelLogisticRegression(RBF(), 0.1), TWO),
        (KernelLogisticRegression(RBF(), 0.1, False, class_weight="balanced"), THREE),
        (KernelERM(RBF(), "logistic", 0.1), THREE),
        (KernelERM(RBF(), "squared_hinge", 0.1), THREE),
        (KernelERM(RBF(), "exponential", 0.1), THREE),
        (KernelERM(RBF(), "huber", 0.1), Y),
        (KernelERM(RBF(), "squared", 0.1), Y),
        (KernelERM(RBF(), Huber(1e-92), 0.1), Y * 1e-90),
    ],
)
@pytest.mark.parametrize("weights", [None, W])
def test_all_points_as_centres_are_the_exact_fit(make, y, weights):
    exact = clone(make).fit(X, y, weights)
    model = clone(make).set_params(solver="falkon", n_centers=500, tol=1e-10)
    model.fit(X, y, weights)
    size = np.abs(exact._values(NEW)).max()
    np.testing.assert_allclose(model._values(NEW), exact._values(NEW), atol=1e-6 * size)
    assert model.solution_.primal == pytest.approx(exact.solution_.primal, rel=1e-6)
    assert np.shape(model.intercept_) == np.shape(exact.intercept_)
    if "classes_" in vars(exact):
        assert model.classes_.tolist() == exact.classes_.tolist()
        assert (model.predict(X) == exact.predict(X)).all()


@pytest.mark.parametrize("y", [TWO, THREE])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_blocks_and_dask_are_the_rows(y, class_weight):
    make = KernelLogisticRegression(RBF(), 0.1, centers=Z, tol=1e-10, class_weight=class_weight)
    model = clone(make).fit(X, y, W)
    blocks = RowBlocks.from_arrays(X, y, W, block_rows=40)
    others = [
        clone(make).fit(blocks),
        clone(make).fit(RowBlocks.from_arrays(X, block_rows=64), y, W),
    ]
    for other in others:
        np.testing.assert_allclose(other.predict_proba(NEW), model.predict_proba(NEW), atol=1e-7)
        assert other.classes_.tolist() == model.classes_.tolist() and other.n_rows_ == 150
    assert (others[0].predict(blocks) == model.predict(X)).all()
    assert others[0].predict_proba(blocks).shape == (150, len(model.classes_))


def test_dask_arrays():
    da = pytest.importorskip("dask.array")
    rows = da.from_array(X, chunks=(60, 3))
    model = KernelERM(RBF(), "huber", 0.1, centers=Z, tol=1e-11).fit(X, Y)
    cluster = clone(model).fit(rows, da.from_array(Y, chunks=60))
    np.testing.assert_allclose(cluster.predict(NEW), model.predict(NEW), atol=1e-5)
    np.testing.assert_allclose(cluster.predict(rows).compute(), cluster.predict(X), atol=1e-9)
    classes = KernelLogisticRegression(RBF(), 0.1, centers=Z).fit(X, TWO)
    lazy = classes.predict_proba(rows)
    np.testing.assert_allclose(lazy.compute(), classes.predict_proba(X), atol=1e-12)


@pytest.mark.parametrize(("loss", "y"), [("logistic", THREE), ("huber", Y), ("squared_hinge", TWO)])
def test_a_weight_of_two_is_a_row_twice(loss, y):
    w = np.ones(150)
    w[:50] = 2.0
    make = KernelERM(RBF(), loss, 0.1, centers=Z, tol=1e-11)
    one = clone(make).fit(X, y, w)
    two = clone(make).fit(np.concatenate([X, X[:50]]), np.concatenate([y, y[:50]]))
    np.testing.assert_allclose(one._values(NEW), two._values(NEW), atol=1e-6)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_tensors_and_single_precision(dtype):
    torch = pytest.importorskip("torch")
    T = torch.as_tensor(X.astype(dtype))
    double = dtype == "float64"
    atol, tol = (1e-6, 1e-7) if double else (1e-3, 1e-3)
    for y in (TWO, THREE):
        make = KernelLogisticRegression(RBF(), 0.1, centers=Z, tol=tol)
        model = clone(make).set_params(tol=1e-9).fit(X, y, W)
        for rows in (T, X.astype(dtype)):
            other = clone(make).fit(rows, y, W)
            assert isinstance(other.X_fit_, np.ndarray) and other.X_fit_.dtype == np.float64
            found = other.predict_proba(torch.as_tensor(NEW))
            assert isinstance(found, np.ndarray)
            np.testing.assert_allclose(found, model.predict_proba(NEW), atol=atol)
        with mercer.config(engine="torch", device="cpu"):
            moved = clone(make).fit(X, y, W)
        np.testing.assert_allclose(moved.predict_proba(NEW), model.predict_proba(NEW), atol=atol)
    if double:
        make.set_params(centers="uniform", n_centers=30, random_state=1)
        found, want = (clone(make).fit(rows, THREE).X_fit_ for rows in (T, X))
        assert (found == want).all()


def test_tensors_for_other_solvers():
    torch = pytest.importorskip("torch")
    T = torch.as_tensor(X)
    for solver in ("auto", "newton", "cg"):
        model = KernelLogisticRegression(RBF(), 0.1, solver=solver).fit(T, THREE, W)
        want = KernelLogisticRegression(RBF(), 0.1).fit(X, THREE, W)
        np.testing.assert_allclose(model.predict_proba(T), want.predict_proba(X), atol=1e-5)
        model.loo(T)
    linear = KernelLogisticRegression("linear", 0.1).fit(T, TWO)
    assert linear.predict_proba(T).shape == (150, 2)
    part = KernelLogisticRegression("linear", 0.1).partial_fit(T, TWO, ["no", "yes"])
    assert part.predict(T).shape == (150,)


def test_separable_classes():
    x = np.concatenate([X - 30.0, X + 30.0])
    y = np.repeat([0, 1], 150)
    for alpha in (1.0, 1e-6):
        model = KernelLogisticRegression(RBF(10.0), alpha, n_centers=20, random_state=0).fit(x, y)
        assert model.score(x, y) == 1.0 and np.isfinite(model.dual_coef_).all()
        exact = KernelLogisticRegression(RBF(10.0), alpha, tol=1e-8).fit(x, y)
        full = KernelLogisticRegression(RBF(10.0), alpha, solver="falkon", n_centers=300)
        full.set_params(tol=1e-6 * alpha).fit(x, y)
        np.testing.assert_allclose(
            full.decision_function(x), exact.decision_function(x), rtol=0.02, atol=0.02
        )


def test_duplicates_one_centre_one_class():
    same, y = np.repeat(X[:4], 10, axis=0), np.tile([0, 1, 1, 1, 0], 8)
    exact = KernelLogisticRegression(RBF(), 0.1, tol=1e-10).fit(same, y)
    model = KernelLogisticRegression(RBF(), 0.1, n_centers=40, tol=1e-10).fit(same, y)
    assert len(model.X_fit_) == 4
    np.testing.assert_allclose(model.predict_proba(NEW), exact.predict_proba(NEW), atol=1e-6)
    one = KernelLogisticRegression(RBF(), 0.1, n_centers=1, random_state=0).fit(X, THREE)
    assert one.dual_coef_.shape == (1, 3) and one.intercept_.sum() == pytest.approx(0.0, abs=1e-12)
    for rows in ((X, np.zeros(150, int)), (RowBlocks.from_arrays(X, np.zeros(150, int)),)):
        with pytest.raises(InvalidInput, match="one class"):
            KernelLogisticRegression(RBF(), n_centers=5).fit(*rows)
    w = np.where(THREE == "mid", 0.0, 1.0)
    blocks = RowBlocks.from_arrays(X, THREE, w, block_rows=64)
    for fitted in (clone(one).fit(X, THREE, w), clone(one).fit(blocks)):
        assert fitted.classes_.tolist() == ["high", "low"] and fitted.dual_coef_.shape == (1,)


@pytest.mark.parametrize("loss", ["hinge", "absolute", "pinball", "epsilon_insensitive"])
def test_losses_with_kinks_are_refused(loss):
    y = TWO if loss == "hinge" else Y
    for options in ({"solver": "falkon"}, {"solver": "cg"}, {"n_centers": 9}, {"centers": Z}):
        with pytest.raises(InvalidInput, match=r"kinks.*solver='auto'.*'huber'"):
            KernelERM(RBF(), loss, **options).fit(X, y)
    with pytest.raises(InvalidInput, match="kinks"):
        KernelERM(RBF(), loss).fit(RowBlocks.from_arrays(X, y))
    model = KernelERM(RBF(), loss, solver="cholesky").fit(X, y)
    assert model.plan_.method == model.plan(X, y).method == "smo"


def test_refusals():
    full = RowBlocks.from_arrays(X, TWO)
    for solver in ("newton", "cholesky", "cg", "sgd"):
        with pytest.raises(InvalidInput, match="solver='falkon'"):
            KernelLogisticRegression("linear", solver=solver).fit(full)
    with pytest.raises(InvalidInput, match="no target"):
        KernelLogisticRegression(RBF()).fit(RowBlocks.from_arrays(X))
    with pytest.raises(InvalidInput, match="y is None"):
        KernelLogisticRegression(RBF()).fit(X)
    with pytest.raises(InvalidInput, match="2 columns"):
        KernelERM(RBF(), "huber").fit(RowBlocks.from_arrays(X, X[:, :2]))
    with pytest.raises(InvalidInput, match="Gram"):
        KernelERM("precomputed", "huber", solver="falkon").fit(RBF()(X), Y)
    with pytest.raises(InvalidInput, match="'sgd'"):
        KernelERM(RBF(), "huber", solver="sgd").fit(X, Y)
    with pytest.raises(InvalidInput, match="n_centers"):
        KernelLogisticRegression(RBF(), n_centers=0).fit(X, TWO)
    with pytest.raises(InvalidInput):
        KernelLogisticRegression(RBF(), n_centers=5).fit(X * np.nan, TWO)
    with mercer.config(memory=2**19), pytest.raises(MemoryBudgetExceeded, match="n_centers"):
        KernelLogisticRegression(RBF(), solver="cholesky").fit(np.tile(X, (8, 1)), np.tile(TWO, 8))


def test_what_needs_all_rows_says_so():
    model = KernelLogisticRegression("linear", 0.1, n_centers=20).fit(X, TWO)
    for call in (model.loo, model.loo_proba, model.degrees_of_freedom, model.loo_decision_function):
        with pytest.raises(InvalidInput, match=r"150 rows.*solver='cholesky'"):
            call()
    with pytest.raises(InvalidInput, match="solver='cholesky'"):
        model.partial_fit(X, TWO)
    np.testing.assert_allclose(X @ model.coef_[0] + model.intercept_, model.decision_function(X))
    refit = model.set_params(solver="cholesky", n_centers=None).fit(X, TWO)
    assert refit.loo().shape == (150,)


@pytest.mark.parametrize("y", [TWO, THREE, Y])
def test_files_and_pickles(tmp_path, y):
    loss = "huber" if y is Y else "logistic"
    make = KernelERM if y is Y else KernelLogisticRegression
    options = {"loss": loss} if y is Y else {}
    model = make(RBF(), alpha=0.1, n_centers=20, random_state=0, **options).fit(X, y)
    mercer.save(model, tmp_path / "a.mercer")
    for again in (mercer.load(tmp_path / "a.mercer"), pickle.loads(pickle.dumps(model))):
        assert (again._values(NEW) == model._values(NEW)).all()
        assert again.plan_ == model.plan_ and again.n_rows_ == 150
        with pytest.raises(InvalidInput, match="solver='cholesky'"):
            again.loo()
    model.n_rows_ = 0
    mercer.save(model, tmp_path / "b.mercer")
    with pytest.raises(ModelFileError):
        mercer.load(tmp_path / "b.mercer")


def test_checkpoint_resumes_and_limits_are_said(tmp_path):
    path = tmp_path / "state"
    options = {"n_centers": 30, "tol": 1e-9}
    whole = KernelLogisticRegression(RBF(), 1e-3, random_state=0, **options).fit(X, THREE)
    with pytest.warns(NotConverged, match="KernelLogisticRegression: .* 2 steps"):
        KernelLogisticRegression(RBF(), 1e-3, max_iter=2, checkpoint=path, **options).fit(X, THREE)
    again = KernelLogisticRegression(RBF(), 1e-3, checkpoint=path, **options).fit(X, THREE)
    assert (again.dual_coef_ == whole.dual_coef_).all()
    with pytest.raises(InvalidInput, match="checkpoint"):
        KernelLogisticRegression(RBF(), 1e-2, checkpoint=path, **options).fit(X, THREE)
    KernelLogisticRegression(RBF(), 0.1, max_iter=-1, n_centers=9, tol=3.0).fit(X, TWO)


def test_a_refused_fit_leaves_the_former():
    model = KernelLogisticRegression(RBF(), 0.1, n_centers=20).fit(X, TWO)
    before = model.predict_proba(NEW)
    with pytest.raises(InvalidInput):
        model.fit(X, np.zeros(150, int))
    assert (model.predict_proba(NEW) == before).all() and model.plan_.method == "falkon"


def test_auto_takes_centres_where_nothing_exact_fits():
    x, y = np.tile(X, (12, 1)) + 0.01 * rng.standard_normal((1800, 3)), np.tile(THREE, 12)
    with mercer.config(memory=2**23):
        model = KernelLogisticRegression(RBF(), 1.0, random_state=0).fit(x, y)
        assert model.plan(x, y).method == model.plan_.method == "falkon"
    assert len(model.X_fit_) == model.plan_.n_centers < 1800
    assert model.score(x, y) > 0.9
