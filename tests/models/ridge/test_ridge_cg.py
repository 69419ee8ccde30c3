"""Exact ridge by conjugate gradients against factorisations and dense algebra."""

import mpmath
import numpy as np
import pytest

import mercer
from mercer import RBF, FromFunction, KernelRidge, KernelRidgeClassifier, Linear, Polynomial, White
from mercer.errors import InvalidInput, NotConverged, NotPositiveDefinite
from mercer.estimator.options import SolverOptions
from mercer.losses import Squared
from mercer.models.ridge.cg import RidgeGram, fit_by_cg, storage_for
from mercer.models.ridge.exact import LeastSquares
from tools.torture.certificates import Risk, exact, smooth_gap

rng = np.random.default_rng(0)
X = rng.standard_normal((150, 3))
Y = np.sin(X)
W = rng.uniform(0.1, 3.0, 150)
W[:7] = 0.0
STORAGES = ("double", "single", "none")


def options(**changes):
    return SolverOptions("cg", **{"tol": 1e-9, **changes})


@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize("weights", [None, W])
@pytest.mark.parametrize("storage", STORAGES)
def test_solution_is_that_of_the_dense_system(offset, weights, storage):
    alpha, k = 0.05, RBF(1.3)
    w = np.ones(150) if weights is None else weights
    used = w > 0
    C = k(X[used]) + np.diag(alpha / w[used])
    ones = np.ones((used.sum(), 1))
    if offset:
        C = np.block([[C, ones], [ones.T, np.zeros((1, 1))]])
    rhs = np.vstack([Y[used], np.zeros((1, 3))]) if offset else Y[used]
    want = np.linalg.solve(C, rhs)
    fit = fit_by_cg(LeastSquares(k, X, Y, weights, offset), alpha, options(), storage)
    assert fit.solution.converged and fit.solution.residual <= 1e-9
    np.testing.assert_allclose(fit.dual_coef[used], want[: used.sum()], atol=1e-6)
    assert not fit.dual_coef[~used].any()
    np.testing.assert_allclose(fit.intercept, want[-1] if offset else 0.0, atol=1e-7)


@pytest.mark.parametrize("make", [KernelRidge, KernelRidgeClassifier])
def test_estimators_agree_with_the_factorisation(make):
    y = (
        Y[:, 0]
        if make is KernelRidge
        else np.array(["a", "b", "c"])[np.digitize(Y[:, 0], [-0.5, 0.5])]
    )
    exact = make(RBF(), 0.1, solver="cholesky").fit(X, y, W)
    model = make(RBF(), 0.1, solver="cg", tol=1e-10).fit(X, y, W)
    f = "predict" if make is KernelRidge else "decision_function"
    np.testing.assert_allclose(getattr(model, f)(X), getattr(exact, f)(X), atol=1e-7)
    assert model.plan_.method == "cg" and model.n_iter_ >= 1 and model.n_rows_ == 150
    assert model.solution_.extra["storage"] == "double"
    assert abs(model.solution_.primal - exact.solution_.primal) < 1e-9
    np.testing.assert_allclose(model.intercept_, exact.intercept_, atol=1e-8)
    if make is KernelRidge:  # what is exact needs no other fit
        np.testing.assert_allclose(model.loo(), exact.loo(), atol=1e-9)
        model.predict_interval(X[:2])


def test_same_fit_each_time_and_a_weight_of_two_is_a_row_twice():
    a, b = (KernelRidge(RBF(), 0.1, solver="cg").fit(X, Y) for _ in range(2))
    assert (a.dual_coef_ == b.dual_coef_).all()
    w = np.ones(150)
    w[:30] = 2.0
    twice = np.concatenate([X, X[:30]]), np.concatenate([Y, Y[:30]])
    one = KernelRidge(RBF(), 0.1, solver="cg", tol=1e-11).fit(X, Y, w)
    two = KernelRidge(RBF(), 0.1, solver="cg", tol=1e-11).fit(*twice)
    np.testing.assert_allclose(one.predict(X), two.predict(X), atol=1e-8)


def test_weights_of_very_different_size():
    w = 10.0 ** rng.uniform(-4, 4, 150)
    exact = KernelRidge(RBF(), 0.1, fit_intercept=True).fit(X, Y, w)
    model = KernelRidge(RBF(), 0.1, fit_intercept=True, solver="cg", tol=1e-8).fit(X, Y, w)
    assert model.solution_.converged
    np.testing.assert_allclose(model.predict(X), exact.predict(X), atol=1e-4)


@pytest.mark.parametrize("scale", [1e-120, 1e-9, 1e9, 1e120])
def test_units_of_the_target(scale):
    model = KernelRidge(RBF(), 0.1, solver="cg").fit(X, Y)
    other = KernelRidge(RBF(), 0.1, solver="cg").fit(X, scale * Y)
    np.testing.assert_allclose(other.dual_coef_ / scale, model.dual_coef_, atol=1e-6)


def test_degenerate_data():
    one = KernelRidge(RBF(), 1.0, solver="cg").fit([[0.0]], [3.0])
    np.testing.assert_allclose(one.predict([[0.0]]), [1.5])
    same = KernelRidge(RBF(), 1.0, solver="cg").fit(np.zeros((20, 2)), np.arange(20.0))
    np.testing.assert_allclose(same.predict(np.zeros((1, 2))), [190 / 21], rtol=1e-6)
    zero = KernelRidge(RBF(), 1.0, solver="cg", fit_intercept=True).fit(X, np.zeros((150, 2)))
    assert not zero.dual_coef_.any() and zero.solution_.converged
    flat = KernelRidge(RBF(), 1.0, solver="cg", fit_intercept=True).fit(X, np.full(150, 7.0))
    assert flat.solution_.converged
    np.testing.assert_allclose(flat.predict(X), 7.0, rtol=1e-6)


def test_alpha_of_zero_interpolates_or_warns():
    model = KernelRidge(RBF(0.3), 0.0, solver="cg", tol=1e-8).fit(X[:40], Y[:40])
    np.testing.assert_allclose(model.predict(X[:40]), Y[:40], atol=1e-5)
    twice = np.concatenate([X[:20], X[:20]])
    with pytest.warns(NotConverged, match=r"larger alpha.*solver='cholesky'"):
        KernelRidge(RBF(), 0.0, solver="cg").fit(twice, rng.standard_normal(40))


@pytest.mark.parametrize(
    ("limit", "name"), [({"max_iter": 1}, "max_iter=1"), ({"max_time": 1e-9}, "max_time=")]
)
def test_limits_are_kept_and_named(limit, name):
    with pytest.warns(NotConverged, match=name) as warned:
        model = KernelRidge(RBF(0.2), 1e-6, solver="cg", tol=1e-12, **limit).fit(X, Y)
    assert model.n_iter_ == 1 and not model.solution_.converged
    assert model.solution_.residual > 1e-12 and len(warned) == 1


def test_certificate_is_recomputed():
    model = KernelRidge(RBF(), 0.1, solver="cg", tol=1e-4).fit(X, Y)
    rest = Y - RBF()(X) @ model.dual_coef_ - 0.1 * model.dual_coef_
    want = (np.linalg.norm(rest, axis=0) / np.linalg.norm(Y, axis=0)).max()
    assert want <= 1e-4
    np.testing.assert_allclose(model.solution_.residual, want, rtol=1e-6)


def test_kernels_of_every_kind():
    K = RBF()(X)
    given = KernelRidge("precomputed", 0.1, solver="cg", tol=1e-10).fit(K, Y)
    points = KernelRidge(RBF(), 0.1, solver="cg", tol=1e-10).fit(X, Y)
    np.testing.assert_allclose(given.dual_coef_, points.dual_coef_, atol=1e-8)
    assert given.solution_.extra["storage"] == "given" and (K == RBF()(X)).all()
    own = KernelRidge(FromFunction(lambda a, b: float(np.exp(-((a - b) ** 2).sum() / 2))), 0.1)
    own = own.set_params(solver="cg", tol=1e-10).fit(X[:30], Y[:30])
    np.testing.assert_allclose(
        own.predict(X), KernelRidge(RBF(), 0.1).fit(X[:30], Y[:30]).predict(X), atol=1e-7
    )
    primal = KernelRidge(Linear(), 0.1, solver="cg").fit(X, Y)  # three features: solved for them
    assert primal.solution_.extra["method"] == "primal"
    bad = K - 0.5 * np.eye(150) * K.max()
    with pytest.raises(NotPositiveDefinite):
        KernelRidge("precomputed", 1e-3, solver="cg").fit(bad, Y)


def test_per_output_penalties_need_a_factorisation():
    for alpha in ("loo", [0.1, 1.0, 2.0]):
        with pytest.raises(InvalidInput, match="solver='cholesky'"):
            KernelRidge(RBF(), alpha, solver="cg").fit(X, Y)
    KernelRidge(RBF(), [0.1, 0.1, 0.1], solver="cg").fit(X, Y)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("engine", ["numpy", "torch"])
def test_matrix_of_every_storage(storage, engine):
    if engine == "torch":
        pytest.importorskip("torch")
    kernel = RBF() + White(0.5)
    K = kernel(X)
    with mercer.config(engine=engine, device="cpu"):
        A = RidgeGram(kernel, X, storage)
        V = rng.standard_normal((150, 5))
        close = 1e-5 if storage == "single" else 1e-12
        for columns in (1, 2, 5):
            np.testing.assert_allclose(
                A.matmul(V[:, :columns]), K @ V[:, :columns], atol=50 * close
            )
        np.testing.assert_allclose(A.matmul(V[:, 0]), K @ V[:, 0], atol=50 * close)
        np.testing.assert_allclose(A.exact(V), K @ V, atol=1e-11)
        index = np.array([3, 3, 149, 0])
        np.testing.assert_allclose(A.rows(index), K[index], atol=close)
        np.testing.assert_allclose(A.block(index, index), K[np.ix_(index, index)], atol=close)
        np.testing.assert_allclose(A.block(slice(2, 5), slice(0, 9)), K[2:5, :9], atol=close)
        np.testing.assert_allclose(A.diagonal(), np.diag(K))
    assert storage in repr(A)


def test_storage_follows_the_budget():
    for memory, want in ((16 * 10**6, "double"), (15 * 10**6, "single"), (7 * 10**6, "none")):
        with mercer.config(memory=memory):
            assert storage_for(1000) == want


def test_tiles_inside_a_small_budget():
    many = rng.standard_normal((1200, 2))
    y = np.sin(many[:, 0])
    exact = KernelRidge(RBF(), 0.1, solver="cholesky").fit(many, y)
    with mercer.config(memory="9MB"):
        model = KernelRidge(RBF(), 0.1, solver="cg", tol=1e-8).fit(many, y)
    assert model.solution_.extra["storage"] == "none"
    np.testing.assert_allclose(model.predict(many), exact.predict(many), atol=1e-6)


@pytest.mark.parametrize("offset", [False, True])
def test_tiny_penalties_of_few_rows(offset):
    own = np.random.default_rng(0)
    points = own.standard_normal((300, 3))
    targets = np.sin(points @ own.standard_normal((3, 4)))
    model = KernelRidge(RBF(1.0), 1e-8, solver="cg", fit_intercept=offset).fit(points, targets)
    assert model.solution_.converged and model.n_iter_ < 100


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_the_gap_is_within_the_tolerance_of_the_objective_too(fit_intercept):
    """Of a tiny penalty the objective is tiny, and a residual within tol may be a large gap."""
    for seed in range(12):
        own = np.random.default_rng(seed)
        points, k = 4.0 * own.standard_normal((10, 3)), Polynomial(2, 1.0)
        y, w = 20.0 * own.standard_normal(10), own.uniform(0.2, 3.0, 10)
        alpha, tol = float(10 ** own.uniform(-8, -4)), float(10 ** own.uniform(-7, -4))
        model = KernelRidge(k, alpha, solver="cg", tol=tol, fit_intercept=fit_intercept)
        a = exact(model.fit(points, y, w).dual_coef_)
        b, K = mpmath.mpf(float(np.ravel(model.intercept_)[0])), exact(k(points))
        problem = (K, exact(y), exact(w), mpmath.mpf(alpha), fit_intercept, Squared(), a, b)
        primal, gap = smooth_gap(Risk(*problem, K @ a, a @ (K @ a)))
        assert model.solution_.converged and gap <= 1.01 * tol * primal


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_no_progress_ends_the_iterations(fit_intercept):
    """A penalty far below what the preconditioner has left of K: given up, and nothing is worse."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((800, 3))
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(800)
    model = KernelRidge(RBF(0.5), alpha=1e-10, solver="cg", fit_intercept=fit_intercept)
    with pytest.warns(NotConverged, match="less than a tenth in 500 iterations") as seen:
        model.fit(X, y)
    assert model.n_iter_ <= 1000 and 0.1 < model.solution_.residual <= 1.0
    text = str(seen[0].message)
    assert "max_iter" not in text and "solver='cholesky'" in text and "rounding" not in text
    with mercer.config(memory=2**22), pytest.warns(NotConverged) as seen:
        model.fit(X, y)
    assert "cholesky" not in str(seen[0].message) and "larger alpha" in str(seen[0].message)
