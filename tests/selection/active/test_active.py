"""active: formulas by brute force, the example of the notes, strings, and fewer labels needed."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF as SklearnRBF
from sklearn.linear_model import BayesianRidge, LinearRegression

import mercer
from mercer import (
    RBF,
    SVC,
    FromFunction,
    KernelERM,
    KernelLogisticRegression,
    KernelRidge,
    KernelRidgeClassifier,
    Linear,
    Matern,
    Polynomial,
)
from mercer.errors import InvalidInput
from mercer.selection import active, evidence

HOLES = np.where(np.arange(10) == 3, np.nan, 1.0 * np.arange(10))


def brute(kernel, X, w, alpha, offset, points):
    """vᵀAv and vᵀAAv from the definition."""
    V, v = kernel.features(X), kernel.features(points)
    J = np.eye(V.shape[1])
    if offset:
        V, v = np.c_[V, np.ones(len(V))], np.c_[v, np.ones(len(v))]
        J = np.diag([1.0] * (V.shape[1] - 1) + [0.0])
    A = np.linalg.inv(V.T @ (w[:, None] * V) + alpha * J)
    return A, v, np.einsum("ij,jk,ik->i", v, A, v), ((v @ A) ** 2).sum(1)


@pytest.mark.parametrize("offset", [False, True], ids=["", "offset"])
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("n", [20, 4])
@pytest.mark.parametrize("kernel", [Linear(), Polynomial(2)], ids=["linear", "quadratic"])
def test_is_the_formula(kernel, n, weighted, offset, rng):
    X, y, points = rng.standard_normal((n, 2)), rng.standard_normal(n), rng.standard_normal((9, 2))
    w = rng.integers(0, 3, n) + np.eye(n)[0] if weighted else np.ones(n)
    model = KernelRidge(kernel, alpha=0.3, fit_intercept=offset)
    model.fit(X, y, sample_weight=w if weighted else None)
    A, v, once, twice = brute(kernel, X, w, 0.3, offset, points)
    found = active.scores(model, points)
    assert np.allclose(found, twice / (1 + once), rtol=1e-7)
    assert np.allclose(active.scores(model, points, "variance"), 0.3 * once, rtol=1e-7)
    for row, gain in zip(v, found, strict=True):  # by how much the trace falls
        after = np.linalg.inv(np.linalg.inv(A) + np.outer(row, row))
        assert gain == pytest.approx(np.trace(A) - np.trace(after), rel=1e-6)
    assert active.next_point(model, points) == np.argmax(twice / (1 + once))
    assert isinstance(active.next_point(model, points), int)


@pytest.mark.parametrize("offset", [False, True], ids=["", "offset"])
def test_kernel_values_are_enough(offset, rng):
    """A quadratic kernel that hides its features gives the same scores as one that shows them."""
    X, points = rng.standard_normal((25, 2)), rng.standard_normal((8, 2))
    w = rng.integers(0, 3, 25) + 0.5
    hidden = FromFunction(lambda a, b: (1 + np.dot(a, b)) ** 2)
    shown = [
        KernelRidge(k, alpha=0.2, fit_intercept=offset).fit(X, X[:, 0], sample_weight=w)
        for k in (hidden, Polynomial(2))
    ]
    for criterion in ("a-optimal", "variance"):
        a, b = (active.scores(m, points, criterion) for m in shown)
        assert np.allclose(a, b, rtol=1e-6)


def test_example_of_the_notes():
    """Labels at ±1: the criterion is (x² + 1)/4 / (1 + (x² + 1)/2), largest at the ends."""
    model = KernelRidge(Linear(), alpha=0.0, fit_intercept=True).fit([[1.0], [-1.0]], [0.0, 1.0])
    x = np.linspace(-1, 1, 21)
    expected = ((x**2 + 1) / 4) / (1 + (x**2 + 1) / 2)
    assert np.allclose(active.scores(model, x[:, None]), expected)
    assert np.allclose(active.scores(model, x[:, None], "variance"), (x**2 + 1) / 2)
    assert active.next_point(model, x[:, None]) == 0
    third = KernelRidge(Linear(), alpha=0.0, fit_intercept=True).fit([[1.0], [-1.0], [-1.0]], x[:3])
    assert active.next_point(third, x[:, None]) == 20  # then the other end
    assert (active.scores(model, 1e6 * x[:, None]) <= 0.5 + 1e-9).all()  # the largest eigenvalue


def test_variance_is_that_of_a_gaussian_process(rng):
    X, y, points = (
        rng.standard_normal((30, 3)),
        rng.standard_normal(30),
        rng.standard_normal((9, 3)),
    )
    model = KernelRidge(RBF(1.3), alpha=0.2).fit(X, y)
    process = GaussianProcessRegressor(SklearnRBF(1.3), alpha=0.2, optimizer=None).fit(X, y)
    _, std = process.predict(points, return_std=True)
    assert np.allclose(active.scores(model, points, "variance"), std**2)
    assert np.allclose(active.scores(process, points, "variance"), std**2)
    K, k = RBF(1.3)(X), RBF(1.3)(X, points)
    Z = np.linalg.solve(K + 0.2 * np.eye(30), k)
    once = (1 - (k * Z).sum(0)) / 0.2
    twice = (1 - 2 * (k * Z).sum(0) + np.einsum("ij,ik,kj->j", Z, K, Z)) / 0.04
    assert np.allclose(active.scores(model, points), twice / (1 + once))


def test_evidence_is_a_model(rng):
    X, y, points = (
        rng.standard_normal((12, 3)),
        rng.standard_normal(12),
        rng.standard_normal((9, 3)),
    )
    posterior = evidence(X, y, 0.5, 2.0)
    ridge = KernelRidge(Linear(), alpha=0.25).fit(X, y)
    assert np.allclose(active.scores(posterior, points), active.scores(ridge, points))
    variance = active.scores(posterior, points, "variance")
    assert np.allclose(variance, 2.0 * active.scores(ridge, points, "variance"))
    assert active.scores(BayesianRidge().fit(X, y), points, "variance").shape == (9,)


def test_other_models_say_how_sure_they_are():
    class Own:
        def posterior_variance(self, X):
            return np.asarray(X)[:, 0] ** 2

        def design(self, X):
            return np.zeros(len(X)), np.arange(len(X))

    assert active.next_point(Own(), [[1.0], [-3.0], [2.0]], "variance") == 1
    assert active.next_point(Own(), [[1.0], [-3.0], [2.0]]) == 2


def test_a_label_counts_where_it_was_given():
    X = np.linspace(0, 10, 51)[:, None]
    for criterion in ("a-optimal", "variance"):
        model = KernelRidge(Matern(1.0), alpha=1e-2).fit(X[[0, 50]], [0.0, 1.0])
        chosen = active.next_point(model, X, criterion)
        assert abs(chosen - 25) <= 5
        model = KernelRidge(Matern(1.0), alpha=1e-2).fit(X[[0, chosen, 50]], [0.0, 1.0, 1.0])
        assert abs(active.next_point(model, X, criterion) - chosen) > 5


def test_strings():
    words = ["tree", "three", "cat", "car", "carts"]
    kernel = FromFunction(lambda s, t: len(set(s) & set(t)) / np.sqrt(len(set(s)) * len(set(t))))
    model = KernelRidge(kernel, alpha=0.1).fit(["cat", "carts"], [1.0, 2.0])
    scores = active.scores(model, words, "variance")
    assert words[int(np.argmax(scores))] == "three" and scores[2] < 0.2
    result = active.learn(KernelRidge(kernel, alpha=0.1), words, [1.0, 2.0, 3.0, 4.0, 5.0], 2)
    assert len(set(result.order)) == 4


def test_blocks_are_invisible(rng):
    X, points = rng.standard_normal((50, 3)), rng.standard_normal((300, 3))
    for kernel in (RBF(1.0), Linear()):
        model = KernelRidge(kernel, alpha=0.1, fit_intercept=True).fit(X, X[:, 0])
        whole = active.scores(model, points)
        with mercer.config(memory="100KB"):
            assert np.allclose(active.scores(model, points), whole, rtol=1e-12)
        assert np.allclose(active.scores(model, sp.csr_array(points)), whole)


def test_tiny_penalties_stay_finite(rng):
    X = rng.standard_normal((30, 2))
    for alpha in (1e-12, 1e-6, 1e6):
        for kernel in (RBF(1.0), Polynomial(2)):
            model = KernelRidge(kernel, alpha=alpha).fit(X, X[:, 0])
            for criterion in ("a-optimal", "variance"):
                values = active.scores(model, np.r_[X, 5 * X], criterion)
                assert np.isfinite(values).all() and (values >= 0).all()


def test_classifiers_and_several_outputs(rng):
    X = rng.standard_normal((40, 2))
    labels = np.where(X[:, 0] > 0, "b", "a")
    model = KernelRidgeClassifier(RBF(1.0), alpha=0.1).fit(X, labels)
    plain = KernelRidge(RBF(1.0), alpha=0.1, fit_intercept=True).fit(X, np.c_[X, X])
    assert np.allclose(active.scores(model, X), active.scores(plain, X))
    with pytest.raises(InvalidInput, match="penalty for each output"):
        active.scores(KernelRidge(alpha=[0.1, 0.2]).fit(X, X), X)
    result = active.learn(model, X, labels, 10, n_initial=1, criterion="variance")
    assert len(set(result.labels[:-10])) == 2 and result.errors[-1] < 0.3


# ------------------------------------------------------------------------------------ the loop
def labels_needed(result, level):
    below = np.flatnonzero(result.errors <= level)
    return result.n_labels[below[0]] if len(below) else result.n_labels[-1] + 1


@pytest.mark.parametrize("criterion", ["a-optimal", "variance"])
def test_fewer_labels_than_at_random(criterion):
    """A pool with a crowd and a few far points: what is asked for is not more of the crowd."""
    asked, drawn = [], []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        x = np.r_[rng.normal(0, 0.3, 150), rng.uniform(-4, 4, 50)][:, None]
        y = np.sin(2 * x[:, 0]) + 0.05 * rng.standard_normal(200)
        test = np.linspace(-4, 4, 100)[:, None]
        options = {"X_test": test, "y_test": np.sin(2 * test[:, 0]), "random_state": seed}
        model = KernelRidge(RBF(0.7), alpha=1e-2)
        for chosen, out in ((criterion, asked), ("random", drawn)):
            result = active.learn(model, x, y, 30, criterion=chosen, **options)
            out.append(labels_needed(result, 0.1))
    assert np.mean(asked) < 0.6 * np.mean(drawn)
    assert all(a <= d for a, d in zip(asked, drawn, strict=True))


def test_the_line_of_the_notes_needs_fewer_labels(rng):
    """Weights of a noisy line: asked at the ends, against drawn at random."""
    errors = {"a-optimal": [], "random": []}
    for seed in range(40):
        noise = np.random.default_rng(seed)
        x = np.linspace(-1, 1, 101)[:, None]
        y = 2 * x[:, 0] + 1 + noise.standard_normal(101)
        for criterion, out in errors.items():
            model = KernelRidge(Polynomial(1), alpha=1e-6)
            result = active.learn(model, x, y, 10, criterion=criterion, random_state=seed)
            out.append(((result.model.coef_ - [1, 2]) ** 2).sum())
    assert np.median(errors["a-optimal"]) < 0.7 * np.median(errors["random"])


def test_the_loop_keeps_its_books(rng):
    x = rng.uniform(0, 6, (40, 1))
    y = np.sin(x[:, 0])
    asked = []

    def oracle(points):
        asked.append(points[0, 0])
        return np.sin(points[:, 0])

    model = KernelRidge("rbf", alpha=1e-3)
    result = active.learn(model, x, oracle, 7, n_initial=3)
    again = active.learn(model, x, y, 7, n_initial=3)
    assert result.errors is None and np.allclose(asked, x[result.order, 0])
    assert (again.order == result.order).all() and len(set(result.order)) == 10
    assert np.allclose(result.labels, y[result.order])
    assert again.n_labels.tolist() == list(range(3, 11)) and len(again.errors) == 8
    fit = KernelRidge(RBF("scale").fit_params(x), alpha=1e-3).fit(x[again.order], y[again.order])
    assert np.allclose(again.model.predict(x), fit.predict(x))
    assert again.errors[-1] == pytest.approx(((fit.predict(x) - y) ** 2).mean())
    assert not hasattr(model, "dual_coef_") and model.kernel == "rbf"
    other = active.learn(model, x, y, 7, n_initial=3, random_state=1)
    assert other.order[:3].tolist() != again.order[:3].tolist()
    randomly = active.learn(model, x, y, 0, n_initial=3, criterion="random")
    assert (randomly.order == again.order[:3]).all() and "3 -> 3 labels" in repr(randomly)
    everything = active.learn(model, x, y, 37, n_initial=3)
    assert sorted(everything.order) == list(range(40))


def test_the_loop_takes_pools_of_any_kind(rng, torch):
    pd = pytest.importorskip("pandas")
    x = rng.uniform(0, 6, (20, 2))
    y = np.sin(x[:, 0])
    model = KernelRidge(RBF(1.0), alpha=1e-3)
    plain = active.learn(model, x, y, 5)
    for pool in (pd.DataFrame(x, columns=["a", "b"]), sp.csr_array(x), torch.as_tensor(x)):
        assert (active.learn(model, pool, y, 5).order == plain.order).all()


def test_the_loop_takes_models_of_scikit_learn(rng):
    x = rng.uniform(0, 6, (40, 1))
    process = GaussianProcessRegressor(SklearnRBF(1.0), alpha=1e-4, optimizer=None)
    result = active.learn(process, x, np.sin(x[:, 0]), 8, criterion="variance")
    ridge = KernelRidge(RBF(1.0), alpha=1e-4)
    same = active.learn(ridge, x, np.sin(x[:, 0]), 8, criterion="variance")
    assert (result.order == same.order).all()


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda m, X: active.scores(m, X, "entropy"), "criterion"),
        (lambda m, X: active.scores(m, np.zeros((0, 2))), "0"),
        (lambda m, X: active.scores(m, [[np.nan, 1.0]]), "NaN"),
        (lambda m, X: active.scores(m, [[1.0]]), "feature"),
        (lambda m, X: active.scores(LinearRegression().fit(X, X), X), "design"),
        (lambda m, X: active.scores(LinearRegression().fit(X, X), X, "variance"), "how sure"),
        (lambda m, X: active.scores(KernelRidge("precomputed").fit(X @ X.T, X), X @ X.T), "precom"),
        (lambda m, X: active.scores(KernelRidge(RBF(1.0), 0.0).fit(X, X), X), "alpha > 0"),
        (lambda m, X: active.scores(KernelRidge(Linear(), 0.0).fit(X[:1], X[:1]), X), "alpha > 0"),
        (
            lambda m, X: active.learn(m, X, X, 3, criterion="best"),
            "'best'; give 'a-optimal', 'variance', .*'expected-improvement' or 'random'",
        ),
        (lambda m, X: active.learn(m, X, X, 3, X_test=X), "X_test without y_test"),
        (lambda m, X: active.learn(m, X, X, 3, y_test=X), "y_test without X_test"),
        (lambda m, X: active.learn(m, X, lambda Z: [1.0, 2.0], 3), r"shape \(2,\) for one point"),
        (lambda m, X: active.learn(m, X, lambda Z: "a", 3), "'a'"),
        (lambda m, X: active.learn(m, X, 3.0, 3), "10 rows and y_pool has no"),
        (lambda m, X: active.learn(m, X, HOLES, 3), "row 3 of the pool is nan"),
        (
            lambda m, X: active.learn(m, X, HOLES, 8, X_test=X, y_test=X[:, 0]),
            "row 3 of the pool is nan",
        ),
        (lambda m, X: active.scores(KernelERM(loss="squared").fit(X, X[:, 0]), X), "active takes"),
        (lambda m, X: active.learn(m, X, X, 10), "n_queries"),
        (lambda m, X: active.learn(m, X, X, -1), "n_queries"),
        (lambda m, X: active.learn(m, X, X, 2, n_initial=0), "n_initial"),
        (lambda m, X: active.learn(m, X, X[:3], 2), "10 rows and y_pool has 3"),
        (lambda m, X: active.learn(RBF(1.0), X, X, 2), "estimator"),
        (lambda m, X: active.learn(KernelRidge("precomputed"), X @ X.T, X, 2), "precomputed"),
    ],
)
def test_refusals(call, word, rng):
    X = rng.standard_normal((10, 2))
    model = KernelRidge(RBF(1.0), alpha=0.1).fit(X, X[:, 0])
    with pytest.raises(InvalidInput, match=word):
        call(model, X)


def test_unfitted_models_and_margins_are_refused(rng):
    X = rng.standard_normal((10, 2))
    with pytest.raises(ValueError, match="not fitted"):
        active.scores(KernelRidge(), X)
    machine = SVC().fit(X, X[:, 0] > 0)
    with pytest.raises(InvalidInput, match="how sure"):
        active.scores(machine, X, "variance")
    with pytest.raises(InvalidInput) as caught:
        active.next_point(machine, X)
    assert "Use criterion" not in str(caught.value)  # which would be refused as well
    with pytest.raises(InvalidInput, match="Use criterion='variance'"):
        active.next_point(BayesianRidge().fit(X, X[:, 0]), X, "a-optimal")
    sure = BayesianRidge().fit(X, X[:, 0])
    np.testing.assert_array_equal(active.scores(sure, X), active.scores(sure, X, "variance"))


@pytest.mark.parametrize("offset", [False, True], ids=["", "offset"])
@pytest.mark.parametrize("hidden", [False, True], ids=["features", "values"])
def test_logistic_regression_by_its_last_step(offset, hidden, rng):
    """Against the inverse of the Hessian in features, also where only kernel values are known."""
    X, points = rng.standard_normal((30, 2)), 2 * rng.standard_normal((9, 2))
    y = X[:, 0] + 0.7 * rng.standard_normal(30) > 0
    w = rng.integers(0, 3, 30) + np.eye(30)[0]
    kernel = FromFunction(lambda a, b: (1 + np.dot(a, b)) ** 2) if hidden else Polynomial(2)
    model = KernelLogisticRegression(kernel, alpha=0.4, fit_intercept=offset, tol=1e-10)
    model.fit(X, y, sample_weight=w)
    p = model.predict_proba(X)[:, 1]
    _, _, once, twice = brute(Polynomial(2), X, w * p * (1 - p), 0.4, offset, points)
    q = model.predict_proba(points)[:, 1]
    h = q * (1 - q)
    assert np.allclose(active.scores(model, points, "variance"), once, rtol=1e-5)
    assert np.allclose(active.scores(model, points), h * twice / (1 + h * once), rtol=1e-5)


def test_labels_asked_for_by_logistic_regression(rng):
    X = rng.uniform(-3, 3, (150, 2))
    y = np.where(X[:, 0] ** 2 + X[:, 1] > 1.5, "out", "in")
    model = KernelLogisticRegression(RBF(1.5), alpha=0.05)
    asked, drawn = (
        np.mean(
            [
                active.learn(model, X, y, 20, criterion=c, random_state=seed).errors[-1]
                for seed in range(3)
            ]
        )
        for c in ("a-optimal", "random")
    )
    assert asked < drawn
    three = KernelLogisticRegression(RBF(1.0)).fit(X, np.digitize(X[:, 0], [-1, 1]))
    with pytest.raises(InvalidInput, match="two classes"):
        active.scores(three, X)


def test_an_even_pool_loses_nothing(rng):
    """Where no crowd is in the pool, labels asked for are about as good as labels drawn."""
    x = np.linspace(-4, 4, 120)[:, None]
    y = np.sin(2 * x[:, 0]) + 0.05 * rng.standard_normal(120)
    model = KernelRidge(RBF(0.7), alpha=1e-2)
    asked, drawn = (
        [
            active.learn(model, x, y, 18, criterion=c, random_state=seed).errors[-1]
            for seed in range(5)
        ]
        for c in ("variance", "random")
    )
    assert np.median(asked) < np.median(drawn)


def test_answers_may_be_plain_numbers():
    x = np.linspace(0, 1, 9)[:, None]
    told = active.learn(KernelRidge(RBF(1.0)), x, lambda Z: float(Z[0, 0]), 3)
    assert np.allclose(told.labels, x[told.order, 0])


class Featureless(mercer.Spectrum):
    """Spectrum without features: what every answer must be."""

    def _n_features(self, X):
        return None


@pytest.mark.parametrize("wrapped", [lambda k: k, lambda k: k.normalized(), lambda k: k + 0.5])
@pytest.mark.parametrize("criterion", ["variance", "a-optimal"])
@pytest.mark.parametrize(
    "model",
    [
        KernelRidge(alpha=0.7),
        KernelRidge(alpha=0.7, fit_intercept=True),
        KernelRidgeClassifier(alpha=0.7),
        KernelLogisticRegression(alpha=0.7),
    ],
)
def test_letters_that_no_label_has_are_unknown(rng, model, criterion, wrapped):
    X = ["".join(rng.choice(list("ab"), 9)) for _ in range(30)]
    y = np.array([s.count("ab") for s in X], dtype=float)
    y = y if isinstance(model, KernelRidge) else y > np.median(y)
    candidates = ["abababab", "ZZZZZZZZ", "abZZab", "", "Zab"]
    fast, slow = (
        active.scores(model.set_params(kernel=wrapped(k)).fit(X, y), candidates, criterion)
        for k in (mercer.Spectrum(2), Featureless(2))
    )
    np.testing.assert_allclose(fast, slow, rtol=1e-6, atol=1e-9)
    if criterion == "variance":
        assert fast[1] > fast[0]


def test_unknown_letters_without_a_penalty():
    X = ["aab", "abb", "bba", "bab", "aaa", "bbbb"]
    model = KernelRidge(mercer.Spectrum(2), alpha=0.0).fit(X, np.arange(6.0))
    assert np.isfinite(active.scores(model, ["aabb"])).all()
    with pytest.raises(InvalidInput, match="variance is infinite"):
        active.scores(model, ["ab", "ZZ"])
