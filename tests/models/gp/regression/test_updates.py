"""Rows added and removed: equal to refits with the same parameters, or refused and unchanged."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

import mercer.models.gp.regression.updates as updates
from mercer import RBF, Constant, FromFunction, GaussianProcessRegressor, Linear, load, save
from mercer.errors import InvalidInput, NotPositiveDefinite
from tests.models.gp.refits import NAMES, N, fitted, in_units, refit, study


def check(model, tol=1e-9):
    """Every fitted attribute is that of a refit to the rows the model holds."""
    new = refit(model, model.X_fit_, model.y_fit_, model.sample_weight_, model.scaled_noise_)
    n, t = len(model.y_fit_), len(model.y_mean_)
    a, b = (np.reshape(A, (n, t)) for A in (model.dual_coef_ / model.y_scale_, new.dual_coef_))
    np.testing.assert_allclose(a, b, atol=tol * np.abs(b).max())
    rows = model.X_fit_
    mean, variance = in_units(model, new, rows)
    got, std = model.predict(rows, return_std=True, with_noise=False)
    scale = np.abs(model.y_fit_).max()
    np.testing.assert_allclose(got, mean.reshape(got.shape), atol=tol * scale)
    np.testing.assert_allclose(std**2, variance.reshape(std.shape), atol=tol * variance.max())
    shift = n if model.sample_weight_ is None else model.sample_weight_.sum()
    q = 0 if model.basis_coef_ is None else len(model.basis_coef_)
    value = new.log_marginal_likelihood_value_ - (shift - q) * np.log(model.y_scale_).sum()
    np.testing.assert_allclose(model.log_marginal_likelihood_value_, value, rtol=tol, atol=tol)
    np.testing.assert_allclose(model.log_marginal_likelihood(model.theta_), value, rtol=1e-8)
    assert model.solution_.converged and model.solution_.residual < 1e-10
    assert model.dual_coef_.shape == ((n,) if t == 1 and got.ndim == 1 else (n, t))
    if np.ndim(model.scaled_noise_):
        np.testing.assert_allclose(model.noise_, model.scaled_noise_ * model.y_scale_[0] ** 2)


@pytest.mark.parametrize("name", NAMES)
def test_add_and_remove_equal_refits(rng, name):
    model = fitted(name, rng)
    before = {n: getattr(model, n) for n in ("kernel_", "y_mean_", "y_scale_", "search_")}
    _, X, y, w = study(name, rng)
    noise = rng.uniform(0.1, 0.8, N) if "vector" in name else None
    n = len(model.y_fit_)
    assert model.add(X[:1], y[:1], part(w, [0]), part(noise, [0])) is model
    check(model)
    model.add(X[1:], y[1:], part(w, slice(1, None)), part(noise, slice(1, None)))
    check(model)
    assert len(model.y_fit_) == n + N
    assert model.remove(3) is model
    check(model)
    model.remove([0, -1, 7])
    check(model)
    model.remove(slice(0, 12))
    check(model)
    assert len(model.y_fit_) == n + N - 16
    for key, value in before.items():
        assert getattr(model, key) is value


def part(values, index):
    return None if values is None else values[index]


def test_add_then_remove_gives_the_model_back(rng):
    model = fitted("linear tuned", rng)
    first = copy.deepcopy(model)
    model.add(first.X_fit_[:4] + 0.3, np.ones(4)).remove([N, N + 1, N + 2, N + 3])
    X = rng.standard_normal((5, 2))
    for a, b in zip(
        model.predict(X, return_std=True), first.predict(X, return_std=True), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-10)
    np.testing.assert_array_equal(model.X_fit_, first.X_fit_)
    assert model.theta_names_ == first.theta_names_
    np.testing.assert_array_equal(model.theta_, first.theta_)


def test_weights_appear_and_zero_weights_are_not_added(rng):
    model = fitted("normalised", rng)
    model.add(np.ones((3, 2)), [1.0, 2.0, 3.0], sample_weight=[2.0, 0.0, 0.5])
    np.testing.assert_array_equal(model.sample_weight_, [*np.ones(N), 2.0, 0.5])
    np.testing.assert_array_equal(model.y_fit_[-2:], [1.0, 3.0])
    check(model)
    model = fitted("weights", rng)
    model.add(np.ones((1, 2)), [1.0])
    assert model.sample_weight_[-1] == 1.0
    check(model)


@pytest.mark.parametrize("name", ["tuned", "vector constant weights"])
def test_a_thousand_changes_do_not_drift(rng, name):
    model = fitted(name, rng)
    for step in range(1000):
        n = len(model.y_fit_)
        if (n > 8 and rng.random() < 0.5) or n > 40:
            model.remove(int(rng.integers(n)))
        else:
            extra = {"noise": rng.uniform(0.1, 0.8, 1)} if "vector" in name else {}
            model.add(rng.uniform(-2, 2, (1, 2)), rng.standard_normal(1), **extra)
        if step % 250 == 249:
            check(model)


def test_a_factor_that_drifted_is_made_again(rng, monkeypatch):
    model = fitted("normalised", rng)
    made = []

    def spoilt(*args):
        f = append(*args)
        f._a[5, 2] += 1e-7
        return f

    def again(*args):
        made.append(1)
        return fresh(*args)

    append, fresh = updates.append_rows, updates.factor_again
    monkeypatch.setattr(updates, "append_rows", spoilt)
    monkeypatch.setattr(updates, "factor_again", again)
    model.add([[0.3, 0.4]], [2.0])
    assert made == [1]
    check(model)
    monkeypatch.setattr(updates, "DRIFT", np.inf)  # the residual sees it too
    model.add([[0.7, 0.4]], [2.0])
    assert made == [1, 1]
    check(model)


# ------------------------------------------------------------------------------------- domains
def letters(a, b):
    return float(len(set(a) & set(b)))


@pytest.mark.parametrize(
    ("kernel", "collection"),
    [
        (1.0 * RBF(), lambda X: X.tolist()),
        (1.0 * RBF(), sp.csr_array),
        (RBF().on("a") * Linear().on("b") + 1.0, lambda X: dict(zip("ab", X.T, strict=True))),
        (RBF().on([0]) + Constant(2.0), lambda X: X.astype(np.float32)),
        (
            FromFunction(letters) + 1.0,
            lambda X: ["".join("abcdef"[int(3 + v)] for v in row) for row in X],
        ),
    ],
    ids=["lists", "sparse", "table", "float32", "words"],
)
def test_any_points(rng, kernel, collection):
    X, y = rng.uniform(-2, 2, (12, 2)), rng.standard_normal(12)
    model = GaussianProcessRegressor(kernel, 0.1, optimizer=None, normalize_y=False)
    whole = copy.deepcopy(model).fit(collection(X), y)
    model.fit(collection(X[:7]), y[:7]).add(collection(X[7:]), y[7:])
    new = collection(rng.uniform(-2, 2, (5, 2)))
    np.testing.assert_allclose(model.predict(new), whole.predict(new), rtol=1e-9)
    assert model.kernel_.domain.size(model.X_fit_) == 12
    left = copy.deepcopy(model).fit(collection(X[3:]), y[3:])
    np.testing.assert_allclose(model.remove([0, 1, 2]).predict(new), left.predict(new), rtol=1e-9)


def test_frames(rng):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(rng.standard_normal((10, 2)), columns=["a", "b"])
    y = rng.standard_normal(10)
    model = GaussianProcessRegressor(1.0 * RBF(), 0.1, optimizer=None, normalize_y=False)
    model.fit(frame[:6], y[:6]).add(frame[6:], y[6:])
    whole = GaussianProcessRegressor(1.0 * RBF(), 0.1, optimizer=None, normalize_y=False)
    np.testing.assert_allclose(model.predict(frame), whole.fit(frame, y).predict(frame), rtol=1e-9)
    with pytest.raises(ValueError, match="feature names"):
        model.add(frame[["b", "a"]], y)


def test_precomputed(rng):
    _, X, y, _ = study("plain", rng)
    K = RBF()(X)
    model = GaussianProcessRegressor("precomputed", 0.2, optimizer=None, normalize_y=False)
    model.fit(K, y)
    with pytest.raises(InvalidInput, match="precomputed Gram matrix cannot be continued"):
        model.add(K[:1], y[:1])
    model.remove([2, 5])
    keep = np.delete(np.arange(N), [2, 5])
    small = GaussianProcessRegressor(RBF(), 0.2, optimizer=None, normalize_y=False)
    small.fit(X[keep], y[keep])
    np.testing.assert_allclose(model.predict(K), small.predict(X), rtol=1e-10)


def test_after_a_file_and_a_pickle(rng, tmp_path):
    model = fitted("tuned", rng)
    save(model, tmp_path / "m.mercer")
    for again in (load(tmp_path / "m.mercer"), pickle.loads(pickle.dumps(model))):
        again.add([[0.3, 0.4]], [2.0]).remove(1)
        check(again)
        save(again, tmp_path / "n.mercer")
        X = rng.standard_normal((3, 2))
        np.testing.assert_allclose(
            load(tmp_path / "n.mercer").predict(X), again.predict(X), rtol=1e-12
        )


def test_no_noise_and_jitter(rng):
    X = np.linspace(0, 1, 9)[:, None]
    model = GaussianProcessRegressor(RBF(), 0.0, optimizer=None, normalize_y=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, np.sin(X[:, 0]))
        assert model.solution_.extra["jitter"] >= 0
        model.add(X[:3] + 0.01, np.sin(X[:3, 0] + 0.01))  # jitter is needed here
        assert model.solution_.extra["jitter"] > 0
        fresh = GaussianProcessRegressor(RBF(), 0.0, optimizer=None, normalize_y=False)
        fresh.fit(model.X_fit_, model.y_fit_)
        new = np.linspace(0.05, 0.95, 7)[:, None]
        for a, b in zip(model.predict(new, True), fresh.predict(new, True), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-4)  # both have a jitter, of one order
        model.remove([9, 10, 11])
    np.testing.assert_allclose(model.predict([[0.33]]), np.sin([0.33]), atol=1e-5)


# ------------------------------------------------------------------------------------ refusals
def unchanged(model, call, error, words):
    state = {key: copy.deepcopy(value) for key, value in vars(model).items()}
    with pytest.raises(error, match=words):
        call()
    assert vars(model).keys() == state.keys()
    np.testing.assert_array_equal(model.X_fit_, state["X_fit_"])
    np.testing.assert_array_equal(model.dual_coef_, state["dual_coef_"])
    check(model)


@pytest.mark.parametrize(
    ("X", "y", "more", "words"),
    [
        ([[1.0]], [1.0], {}, "features"),
        ([[np.nan, 1.0]], [1.0], {}, "NaN"),
        ([[1.0, 1.0]], [np.nan], {}, "NaN"),
        ([[1.0, 1.0]], [1.0, 2.0], {}, "inconsistent"),
        ([[1.0, 1.0]], [[1.0, 2.0]], {}, "y has 2 outputs, the model was fitted to 1"),
        ([[1.0, 1.0]], None, {}, "y is None"),
        (np.zeros((0, 2)), [], {}, "0 sample"),
        ([[1.0, 1.0]], [1.0], {"sample_weight": [-1.0]}, "negative"),
        ([[1.0, 1.0]], [1.0], {"sample_weight": [1.0, 2.0]}, "sample_weight.shape"),
        ([[1.0, 1.0]], [1.0], {"noise": 0.1}, "share one variance"),
        ([["a", "b"]], [1.0], {}, "number|convert"),
    ],
)
def test_bad_additions(rng, X, y, more, words):
    model = fitted("tuned", rng)
    unchanged(model, lambda: model.add(X, y, **more), ValueError, words)


@pytest.mark.parametrize(
    ("noise", "words"),
    [
        (None, "give those of the 1 new rows"),
        (-1.0, "negative"),
        ("fit", "noise"),
        ([1, 2], "shape"),
    ],
)
def test_bad_noise(rng, noise, words):
    model = fitted("vector", rng)
    unchanged(model, lambda: model.add([[0.0, 0.0]], [1.0], noise=noise), InvalidInput, words)
    model.add([[0.0, 0.0], [1.0, 0.0]], [1.0, 2.0], noise=0.5)  # one variance for both
    np.testing.assert_allclose(model.noise_[-2:], 0.5)


@pytest.mark.parametrize(
    ("index", "words"),
    [
        (N, f"no row {N}; give positions from 0 to {N - 1}"),
        (-N - 1, "no row -17"),
        (1.0, "index=1.0"),
        ("a", "index='a'"),
        ([[1]], "index="),
        (True, "index=True"),
        (np.ones(3, dtype=bool), "index="),
        (slice(None), "all 16 rows"),
        (np.ones(N, dtype=bool), "all 16 rows"),
        (None, "index=None"),
    ],
)
def test_bad_removals(rng, index, words):
    model = fitted("tuned", rng)
    unchanged(model, lambda: model.remove(index), InvalidInput, words)


def test_removals_of_nothing_and_of_one_row_twice(rng):
    model = fitted("tuned", rng)
    for nothing in ([], np.zeros(N, dtype=bool), slice(3, 3)):
        assert len(model.remove(nothing).y_fit_) == N
    assert len(model.remove([2, 2, -N + 2]).y_fit_) == N - 1
    mask = np.arange(N - 1) == 4
    assert len(model.remove(mask).y_fit_) == N - 2
    check(model)


def test_down_to_one_row_and_up_again(rng):
    model = fitted("tuned", rng)
    model.remove(np.arange(1, N))
    check(model)
    with pytest.raises(InvalidInput, match="these are all 1 rows"):
        model.remove(0)
    model.add(rng.standard_normal((5, 2)), rng.standard_normal(5))
    check(model)


def test_rows_that_the_mean_needs(rng):
    model = fitted("linear tuned", rng)
    words = "dependent"
    unchanged(model, lambda: model.remove(np.arange(N - 2)), InvalidInput, words)


def test_not_a_kernel(rng):
    calls = {"sign": 1.0}
    kernel = FromFunction(lambda a, b: calls["sign"] * float(np.exp(-((a - b) ** 2).sum())))
    model = GaussianProcessRegressor(kernel, 1e-3, optimizer=None, normalize_y=False)
    model.fit(rng.standard_normal((5, 2)), rng.standard_normal(5))
    calls["sign"] = 7.0
    with pytest.raises(NotPositiveDefinite, match="noise"):
        model.add(model.X_fit_[:1], [0.0])
    assert len(model.y_fit_) == 5


def test_a_warning_made_an_error_changes_nothing(rng, monkeypatch):
    model = fitted("tuned", rng)
    real = type(model)._store

    def broken(self, *args):
        real(self, *args)
        raise KeyboardInterrupt

    monkeypatch.setattr(type(model), "_store", broken)
    before = dict(vars(model))
    with pytest.raises(KeyboardInterrupt):
        model.remove(0)
    assert vars(model) == before and all(vars(model)[k] is v for k, v in before.items())


def test_before_fit():
    for call in (lambda m: m.add([[1.0]], [1.0]), lambda m: m.remove(0)):
        with pytest.raises(NotFittedError):
            call(GaussianProcessRegressor())
