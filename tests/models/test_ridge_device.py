"""Ridge with torch on the CPU: the same answers as with NumPy, from one matrix."""

import tracemalloc

import numpy as np
import pytest

import mercer
from mercer import RBF, KernelRidge, KernelRidgeClassifier, Linear, Polynomial
from mercer.errors import InvalidInput
from mercer.models.ridge.exact import LeastSquares

torch = pytest.importorskip("torch")
rng = np.random.default_rng(1)
X = rng.standard_normal((120, 3))
Y = np.cos(X[:, :2])
W = rng.uniform(0.0, 2.0, 120)
W[:5] = 0.0
NEW = rng.standard_normal((9, 3))


@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize("weights", [None, W])
@pytest.mark.parametrize("how", ["tensor", "engine"])
def test_factorisation_on_a_device(offset, weights, how):
    want = KernelRidge(RBF(), 0.1, fit_intercept=offset).fit(X, Y, weights)
    if how == "tensor":
        model = KernelRidge(RBF(), 0.1, fit_intercept=offset)
        model.fit(torch.tensor(X), torch.tensor(Y), weights)
        got = model.predict(torch.tensor(NEW))
    else:
        with mercer.config(engine="torch", device="cpu"):
            model = KernelRidge(RBF(), 0.1, fit_intercept=offset).fit(X, Y, weights)
            got = model.predict(NEW)
            np.testing.assert_allclose(model.loo(), want.loo(), atol=1e-10)
    for name in ("dual_coef_", "X_fit_", "y_fit_"):
        assert type(getattr(model, name)) is np.ndarray
    assert type(got) is np.ndarray
    np.testing.assert_allclose(model.dual_coef_, want.dual_coef_, atol=1e-10)
    np.testing.assert_allclose(model.intercept_, want.intercept_, atol=1e-10)
    np.testing.assert_allclose(got, want.predict(NEW), atol=1e-10)
    assert model.solution_.residual < 1e-12
    np.testing.assert_allclose(model.solution_.primal, want.solution_.primal, rtol=1e-10)
    np.testing.assert_allclose(model.loo(), want.loo(), atol=1e-10)  # from what is kept, in NumPy


@pytest.mark.parametrize("solver", ["cg", "falkon"])
def test_iterative_solvers_on_a_device(solver):
    options = {"solver": solver, "tol": 1e-12, "random_state": 3}
    options |= {"n_centers": 40} if solver == "falkon" else {}
    want = KernelRidge(RBF(), 0.1, **options).fit(X, Y, W)
    model = KernelRidge(RBF(), 0.1, **options).fit(torch.tensor(X), torch.tensor(Y), W)
    assert type(model.X_fit_) is np.ndarray and model.X_fit_.dtype == np.float64
    np.testing.assert_allclose(model.predict(NEW), want.predict(NEW), atol=1e-9)
    with mercer.config(engine="torch", device="cpu"):
        again = KernelRidge(RBF(), 0.1, **options).fit(X, Y, W)
        np.testing.assert_allclose(again.predict(NEW), want.predict(NEW), atol=1e-9)


def test_single_precision_is_widened_where_the_answer_is_exact():
    narrow = X.astype(np.float32)
    want = KernelRidge(RBF(), 0.1).fit(narrow.astype(np.float64), Y)
    for solver in ("auto", "cholesky", "cg"):
        for data in (narrow, torch.tensor(narrow)):
            model = KernelRidge(RBF(), 0.1, solver=solver, tol=1e-12).fit(data, Y)
            assert model.X_fit_.dtype == np.float64
            np.testing.assert_allclose(model.dual_coef_, want.dual_coef_, atol=1e-8)


def test_single_precision_of_rows_with_centres():
    narrow = X.astype(np.float32)
    want = KernelRidge(RBF(), 0.1, n_centers=30, random_state=0).fit(narrow.astype(float), Y)
    for data in (narrow, torch.tensor(narrow)):
        model = KernelRidge(RBF(), 0.1, centers=want.X_fit_).fit(data, Y)
        np.testing.assert_allclose(model.predict(NEW), want.predict(NEW), atol=1e-3)
        assert model.predict(NEW).dtype == np.float64


def test_what_has_no_form_on_a_device_is_done_in_main_memory():
    T = torch.tensor(X)
    for make in (
        lambda: KernelRidge(RBF(), "loo"),
        lambda: KernelRidge(RBF(), [0.1, 1.0]),
        lambda: KernelRidge(Linear(), 0.1),
        lambda: KernelRidge(Polynomial(2), 0.1, fit_intercept=True),
    ):
        want, model = make().fit(X, Y, W), make().fit(T, Y, W)
        np.testing.assert_allclose(model.predict(torch.tensor(NEW)), want.predict(NEW), atol=1e-9)
    lower, _ = KernelRidge(RBF(), 0.1).fit(T, Y).predict_interval(torch.tensor(NEW))
    np.testing.assert_allclose(lower, KernelRidge(RBF(), 0.1).fit(X, Y).predict_interval(NEW)[0])


def test_classes_of_tensors():
    labels = np.digitize(X[:, 0], [-0.5, 0.5])
    want = KernelRidgeClassifier(RBF(), 0.1).fit(X, labels)
    model = KernelRidgeClassifier(RBF(), 0.1).fit(torch.tensor(X), torch.tensor(labels))
    np.testing.assert_allclose(
        model.decision_function(torch.tensor(NEW)), want.decision_function(NEW), atol=1e-10
    )
    assert (model.predict(torch.tensor(NEW)) == want.predict(NEW)).all()


def test_tensors_are_not_changed_and_refused_by_name():
    T, before = torch.tensor(X, requires_grad=True), X.copy()
    model = KernelRidge(RBF(), 0.1).fit(T, Y)
    assert (T.detach().numpy() == before).all()
    with pytest.raises(InvalidInput, match="4 features"):
        model.predict(torch.zeros(2, 4))
    with pytest.raises(InvalidInput, match=r"^KernelRidge: X .*finite"):
        KernelRidge().fit(torch.full((3, 2), float("nan")), [1.0, 2.0, 3.0])
    for y in (torch.tensor([1.0, float("nan"), 2.0]), torch.ones(2), torch.ones(3, 1, 1)):
        with pytest.raises(InvalidInput, match="KernelRidge"):
            KernelRidge(solver="falkon").fit(torch.eye(3), y)


def test_one_matrix_is_alive(monkeypatch):
    seen = []
    from mercer.engines import tiles

    make = tiles.gram
    monkeypatch.setattr(
        tiles, "gram", lambda bound, out=None: seen.append(make(bound, out)) or seen[-1]
    )
    with mercer.config(engine="torch", device="cpu"):
        problem = LeastSquares(RBF(), X, Y, W, True)
        f = problem.factored(0.1, device=True)
    assert len(seen) == 1 and f._a.data_ptr() == seen[0].data_ptr()
    tracemalloc.start()  # arrays of NumPy, of which there is none of n × n
    with mercer.config(engine="torch", device="cpu"):
        many = rng.standard_normal((900, 2))
        KernelRidge(RBF(), 0.1, solver="cholesky", fit_intercept=True).fit(many, many)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.3 * 900 * 900 * 8
