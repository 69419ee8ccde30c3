"""Gaussian process classification at its limits: memory, overflow, labels that contradict."""

import pickle
import tracemalloc
import warnings
from contextlib import suppress

import numpy as np
import pytest

import mercer
from mercer import RBF, FromFunction, GaussianProcessClassifier
from mercer.errors import InvalidInput, MemoryBudgetExceeded, NotPositiveDefinite, speaking_for
from mercer.models.gp.classes.ep import ep
from mercer.models.gp.classes.variational import vi

METHODS = ["laplace", "ep", "vi"]


def data(n, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    f = X[:, 0] + 0.5 * rng.standard_normal(n)
    return X, np.digitize(f, np.linspace(-1, 1, classes + 1)[1:-1])


def peak_of(work):
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# -- memory --------------------------------------------------------------------------------------
CASES = [
    ("laplace", 2, "auto", None, 2),
    ("laplace", 2, "auto", "lbfgs", 2.5),
    ("ep", 2, "auto", None, 3),
    ("vi", 2, "auto", None, 3),
    ("laplace", 3, "softmax", None, 5),
    ("vi", 3, "softmax", None, 5),
    ("laplace", 3, "one_vs_rest", None, 4),
    ("ep", 3, "one_vs_rest", None, 5),
]


@pytest.mark.filterwarnings("ignore::mercer.errors.NotConverged")
@pytest.mark.parametrize(("method", "classes", "join", "optimizer", "matrices"), CASES)
def test_a_fit_needs_what_it_asks_for(method, classes, join, optimizer, matrices):
    n = 640 if optimizer else 500
    X, y = data(n, classes)
    model = GaussianProcessClassifier(
        2.0 * RBF(1.5), method, optimizer=optimizer, multi_class=join, max_iter=1
    )
    model.fit(X[::4], y[::4]).predict_proba(X[:3])  # compiled loops are not the fit's
    square = 8 * n * n
    with (
        mercer.config(memory=int(matrices * square)),
        pytest.raises(MemoryBudgetExceeded, match=f"{matrices:g} matrices.*'{method}'") as error,
    ):
        model.fit(X, y)
    with mercer.config(memory=error.value.needed):
        assert error.value.needed <= (matrices + 0.3) * square
        assert peak_of(lambda: model.fit(X, y)) <= 1.1 * error.value.needed
        assert peak_of(lambda: model.predict_proba(X)) <= 1.1 * error.value.needed
        again = pickle.loads(pickle.dumps(model))
        assert peak_of(lambda: again.predict_proba(X[:5])) <= 1.1 * error.value.needed
    with mercer.config(memory=square), pytest.raises(MemoryBudgetExceeded, match="variances"):
        pickle.loads(pickle.dumps(model)).predict_proba(X[:5])


def test_a_refused_fit_has_done_nothing():
    X, y = data(60)
    calls = []

    def watched(a, b):
        calls.append(1)
        return float(np.exp(-np.sum((a - b) ** 2)))

    with mercer.config(memory=20_000), pytest.raises(MemoryBudgetExceeded):
        GaussianProcessClassifier(FromFunction(watched), optimizer=None).fit(list(X), y)
    assert not calls


def test_visits_work_in_the_memory_of_sweeps():
    from mercer.models.gp.classes.ep import _Problem
    from mercer.models.gp.classes.sites import as_link

    X, y = data(400)
    K = np.asarray(RBF()(X))
    problem = _Problem(K, 2.0 * y - 1.0, np.ones(400), as_link("logit"), None)
    start = np.full(400, 0.2), 0.1 * (2.0 * y - 1.0)
    problem.visit(*start)
    assert peak_of(lambda: problem.visit(*start)) < 0.2 * K.nbytes
    mixed = np.where(np.arange(400) % 7, 0.2, 1e5), start[1]  # both ways to variances
    assert problem.state(*mixed) is not None
    assert peak_of(lambda: problem.state(*mixed)) < 0.2 * K.nbytes


def test_newton_steps_of_many_classes_need_one_matrix():
    from mercer.models.gp.classes.variational import EvidenceBound, ascend

    X, y = data(300)
    K, t = np.asarray(RBF()(X)), 2.0 * y - 1.0

    def likelihood(mean, var):
        p = 0.5 * (1 + np.tanh(0.5 * mean))
        bend, zero = p * (1 - p), np.zeros((*mean.shape, 4))
        return float(-np.log1p(np.exp(-mean)).sum()), t[:, None] - p, bend, zero, 0 * bend, None

    bound = EvidenceBound(K, likelihood, 4)
    x = ascend(bound).point
    assert peak_of(lambda: bound.newton(x)) < 1.6 * K.nbytes


# -- overflow ------------------------------------------------------------------------------------
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("amplitude", [1e16, 1e40, 1e100, 1e300])
def test_kernels_near_overflow_are_refused_by_name(method, amplitude):
    X, y = data(30)
    model = GaussianProcessClassifier(amplitude * RBF(), method, optimizer=None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if amplitude > 1e20:
            with pytest.raises(InvalidInput, match=r"GaussianProcessClassifier: .*k\(x, x\) up to"):
                model.fit(X, y)
        else:
            assert np.isfinite(model.fit(X, y).predict_proba(X)).all()


@pytest.mark.parametrize("amplitude", [1e100, 1e200, 1e300])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_methods_themselves_end_without_an_error_of_scipy(amplitude):
    X, y = data(30)
    K, t = amplitude * np.asarray(RBF()(X)), 2.0 * y - 1.0
    for infer in (ep, vi):
        with suppress(InvalidInput, NotPositiveDefinite):
            assert not infer(K, t, None, "logit").converged


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("weight", [1e-300, 1e12, 1e24, 1e300])
def test_weights_of_any_size_are_taken_or_refused(method, weight):
    X, y = data(30)
    model = GaussianProcessClassifier(2.0 * RBF(), method, optimizer=None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if weight > 1e20:
            with pytest.raises(InvalidInput, match="sample_weight is up to"):
                model.fit(X, y, np.full(30, weight))
            return
        model.fit(X, y, np.full(30, weight))
    assert np.isfinite(model.predict_proba(X)).all()


@pytest.mark.parametrize("method", METHODS)
def test_functions_that_are_no_kernels_are_named(method):
    X, y = data(30)
    model = GaussianProcessClassifier(FromFunction(lambda a, b: -1.0), method)
    with pytest.raises(NotPositiveDefinite, match=r"Classifier: .*k\(x, x\) = -1 at row 0") as info:
        model.fit(list(X), y)
    assert info.value.smallest_eigenvalue == -1.0
    # Not seen on the diagonal, and beyond the rows that are tested before.
    K = np.eye(4) + 3.0 * (np.ones((4, 4)) - np.eye(4)) * np.kron(np.eye(2), np.ones((2, 2)))
    from mercer.models.gp.classes.inference import Inference, choose_scheme

    scheme = choose_scheme(method, "logit", "auto", 2)
    codes = np.array([0, 1, 0, 1])
    with pytest.raises(NotPositiveDefinite, match=r"^Owner: Precomputed"), speaking_for("Owner"):
        Inference(1e3 * K, codes, 2, None, scheme).posterior(mercer.Precomputed())


# -- labels that contradict ----------------------------------------------------------------------
@pytest.mark.parametrize("amplitude", [0.01, 1.0, 1e2, 1e4])
@pytest.mark.parametrize("link", ["logit", "probit"])
@pytest.mark.parametrize("method", METHODS)
def test_a_mode_at_zero_is_found(amplitude, link, method):
    A, _ = data(20)
    X, y = np.vstack([A, A]), np.repeat([0, 1], 20)
    model = GaussianProcessClassifier(amplitude * RBF(), method, link, optimizer=None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, y)
    assert model.solution_.converged and model.solution_.residual < 1e-6
    np.testing.assert_allclose(model.predict_proba(A), 0.5, atol=1e-9)
    if method == "laplace":
        bend = 0.25 if link == "logit" else 2 / np.pi
        logdet = np.linalg.slogdet(np.eye(40) + bend * np.asarray(model.kernel_(X)))[1]
        want = 40 * np.log(0.5) - 0.5 * logdet
        assert model.log_marginal_likelihood_value_ == pytest.approx(want, abs=1e-8)


@pytest.mark.parametrize("amplitude", [1.0, 1e2, 1e4])
def test_a_mode_at_zero_of_several_classes_is_found(amplitude):
    A, _ = data(15)
    X, y = np.vstack([A] * 3), np.repeat([0, 1, 2], 15)
    model = GaussianProcessClassifier(amplitude * RBF(), optimizer=None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, y)
    np.testing.assert_allclose(model.predict_proba(A), 1 / 3, atol=1e-6)


def test_modes_where_rounding_is_the_objective():
    # Large amplitudes and long length scales: rounding of the objective must not end Newton's way.
    for seed, classes, amplitude, scale in [(9, 2, 8010.0, 16.0), (15, 4, 6814.0, 8.6)]:
        rng = np.random.default_rng(seed)
        n = int(rng.integers(8, 25))
        X, y = rng.normal(size=(n, 2)), np.arange(n) % classes
        link = "probit" if classes == 2 else "logit"
        model = GaussianProcessClassifier(amplitude * RBF(scale), link=link, optimizer=None)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert model.fit(X, y).solution_.residual < 1e-6
