"""KernelPerceptron: the bounds of its theorems, the primal perceptron, going on online."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import nnls
from sklearn.base import clone
from sklearn.datasets import load_iris

import mercer
from mercer import RBF, FromFunction, KernelPerceptron, Polynomial, White
from mercer.errors import InvalidInput, NotConverged

VARIANTS = ("standard", "margin", "variable", "batch")


# ----------------------------------------------------------------------------------- oracles
def best_margin(Z):
    """Largest min zᵢᵀθ/‖θ‖: least distance programming (Lawson and Hanson, 1974, chapter 23).

    min ‖θ‖ with Zθ ≥ 1 is read off the residual of non-negative least squares.
    """
    E = np.vstack([Z.T, np.ones(len(Z))])
    f = np.r_[np.zeros(Z.shape[1]), 1.0]
    u, _ = nnls(E, f, maxiter=10_000)
    r = E @ u - f
    theta = -r[:-1] / r[-1]
    margin = (Z @ theta).min() / np.linalg.norm(theta)
    assert margin == pytest.approx(1 / np.linalg.norm(theta), rel=1e-6)  # θ is feasible and tight
    return margin


def separable(seed, n=30, d=3, gap=0.15, unit=True):
    """Points on both sides of a known separator, none nearer than the gap."""
    rng = np.random.default_rng(seed)
    theta = rng.standard_normal(d)
    X = rng.standard_normal((40 * n, d))
    if unit:
        X /= np.linalg.norm(X, axis=1, keepdims=True)
    value = X @ theta / np.linalg.norm(theta)
    X, value = X[abs(value) > gap][:n], value[abs(value) > gap][:n]
    return X, np.where(value > 0, 1, -1), theta


def primal(X, y, epochs, offset=False):
    """The perceptron of the textbook: θ += yx at every mistake; how often each point was one."""
    X = np.hstack([X, np.ones((len(X), 1))]) if offset else X
    theta, counts = np.zeros(X.shape[1]), np.zeros(len(X))
    for _ in range(epochs):
        for t in range(len(X)):
            if y[t] * (theta @ X[t]) <= 0:
                theta += y[t] * X[t]
                counts[t] += 1
    return theta, counts


def spread(model, n):
    a = np.zeros(n)
    a[model.support_] = model.dual_coef_
    return a


# ------------------------------------------------------------------------------- S1: the bounds
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("unit", [True, False])
def test_novikoff(seed, unit):
    X, y, theta = separable(seed, unit=unit)
    R = np.linalg.norm(X, axis=1).max()
    gamma = (y * (X @ theta)).min()
    model = KernelPerceptron("linear", fit_intercept=False, random_state=seed).fit(X, y)
    assert model.converged_ and model.score(X, y) == 1.0
    assert 1 <= model.n_updates_ <= R**2 * (theta @ theta) / gamma**2
    assert model.n_updates_ <= R**2 / best_margin(y[:, None] * X) ** 2
    assert model.n_updates_ == abs(model.dual_coef_).sum()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kernel", [RBF(0.8), Polynomial(2)], ids=str)
def test_novikoff_in_feature_space_with_an_offset(seed, kernel):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((25, 2))
    y = np.where(abs(X[:, 0] * X[:, 1] - 0.3) < 0.5, 1, -1)
    if kernel == Polynomial(2):
        y = np.where(X[:, 0] * X[:, 1] > 0, 1, -1)
    K = kernel(X) + 1.0  # the offset is one more feature
    values, vectors = np.linalg.eigh(K)
    features = vectors * np.sqrt(np.maximum(values, 0))
    bound = K.diagonal().max() / best_margin(y[:, None] * features) ** 2
    model = KernelPerceptron(kernel, max_epochs=10**5, random_state=seed).fit(X, y)
    assert model.converged_ and model.n_updates_ <= bound


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("share", [1.0, 0.3])
def test_margin_perceptron(seed, share):
    X, y, _ = separable(seed)
    best = best_margin(y[:, None] * X)
    gamma = share * best
    model = KernelPerceptron(
        "linear", "margin", margin=gamma, fit_intercept=False, random_state=seed
    ).fit(X, y)
    assert model.converged_
    assert model.n_updates_ <= 12 / gamma**2
    assert gamma / 2 <= model.margin_ <= best * (1 + 1e-9)
    assert model.target_margin_ == pytest.approx(gamma)


@pytest.mark.parametrize("seed", range(4))
def test_margin_perceptron_in_other_units(seed):
    X, y, _ = separable(seed, unit=False)
    R, best = np.linalg.norm(X, axis=1).max(), best_margin(y[:, None] * X)
    for scale in (1e-3, 1.0, 1e5):
        model = KernelPerceptron(
            "linear", "margin", margin=scale * best, fit_intercept=False, max_epochs=10**5
        ).fit(scale * X, y)
        assert model.converged_ and model.n_updates_ <= 12 * R**2 / best**2
        assert scale * best / 2 <= model.margin_ <= scale * best * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_an_unknown_margin_is_found_up_to_a_quarter(seed):
    X, y, _ = separable(seed, gap=0.05)
    best = best_margin(y[:, None] * X)
    model = KernelPerceptron("linear", "margin", fit_intercept=False, max_epochs=10**5).fit(X, y)
    assert model.converged_ and model.target_margin_ > best / 2
    assert best / 4 <= model.target_margin_ / 2 <= model.margin_ <= best * (1 + 1e-9)
    # 12(1 + 4 + … + 4ʲ) updates at most, where the last γ = 2⁻ʲ
    assert model.n_updates_ <= 16 / model.target_margin_**2
    # coefficients belong to the last start only
    assert abs(model.dual_coef_).sum() <= 12 / model.target_margin_**2
    small = KernelPerceptron("linear", fit_intercept=False).fit(X, y)
    assert model.n_updates_ >= small.n_updates_


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_variable_increments_reach_the_functional_margin(seed, power):
    X, y, _ = separable(seed, gap=0.3)
    gamma = best_margin(y[:, None] * X)
    model = KernelPerceptron(
        "linear", "variable", margin=gamma, power_t=power, fit_intercept=False, max_epochs=10**5
    ).fit(X, y)
    assert model.converged_
    assert (y * model.decision_function(X)).min() >= gamma / 2 * (1 - 1e-12)
    if power == 1.0:  # every coefficient is a sum of steps 1/k, each used once
        harmonic = (1 / np.arange(1, model.n_updates_ + 1)).sum()
        assert abs(model.dual_coef_).sum() == pytest.approx(harmonic)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_batch_ends_without_mistakes(seed, power):
    X, y, _ = separable(seed, gap=0.3)
    model = KernelPerceptron("linear", "batch", power_t=power, fit_intercept=False).fit(X, y)
    assert model.converged_ and (y * model.decision_function(X) > 0).all()
    theta, k = np.zeros(3), 0
    while (wrong := y * (X @ theta) <= 0).any():
        k += 1
        theta += k**-power * (y[wrong] @ X[wrong])
    assert model.n_updates_ == k == model.n_iter_ - 1
    np.testing.assert_allclose(model.dual_coef_ @ model.X_fit_, theta, atol=1e-12)


# ------------------------------------------------------------------------------ the same as …
@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_the_primal_perceptron_makes_the_same_mistakes(seed, offset):
    rng = np.random.default_rng(seed)
    X = rng.integers(-9, 10, (40, 4)).astype(float)  # whole numbers: both are exact
    y = np.where(X @ [1, -2, 3, 1] + 4 > 0, 1, -1)
    for epochs in (1, 2, 5, 200):
        theta, counts = primal(X, y, epochs, offset)
        model = KernelPerceptron("linear", fit_intercept=offset, shuffle=False, max_epochs=epochs)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConverged)
            model.fit(X, y)
        np.testing.assert_array_equal(spread(model, len(X)), y * counts)
        assert model.n_updates_ == counts.sum()
        assert model.intercept_ == (theta[-1] if offset else 0.0)
        new = rng.standard_normal((5, 4))
        expected = new @ theta[:4] + model.intercept_
        np.testing.assert_allclose(model.decision_function(new), expected, atol=1e-9)


def test_xor_by_a_polynomial():
    X, y = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]]), [-1, 1, 1, -1]
    for variant in VARIANTS:
        model = KernelPerceptron(Polynomial(2), variant, power_t=0.0).fit(X, y)
        assert model.converged_ and model.predict(X).tolist() == y
        assert 0 < model.margin_ <= 2 * 2**0.5  # of −x₁x₂, whose norm is 1/(2√2)
    with pytest.warns(NotConverged):
        assert not KernelPerceptron("linear", max_epochs=50).fit(X, y).converged_


def test_one_against_the_rest_is_one_perceptron_each():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    for variant in VARIANTS:
        base = KernelPerceptron(RBF(0.3), variant, power_t=0.0, shuffle=False)
        many = clone(base).fit(X, names)
        assert many.converged_ and many.score(X, names) == 1.0
        assert many.dual_coef_.shape == (len(many.support_), 3)
        for c, name in enumerate(many.classes_):
            one = clone(base).fit(X, names == name)
            values = many.decision_function(X)[:, c]
            np.testing.assert_allclose(values, one.decision_function(X), atol=1e-9)
            assert many.n_updates_[c] == one.n_updates_
            assert many.margin_[c] == pytest.approx(one.margin_, rel=1e-9)
            assert many.target_margin_[c] == one.target_margin_
        assert many.n_iter_ >= one.n_iter_


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("kernel", [RBF(0.5), RBF(0.5) + White(0.1)], ids=["rbf", "noise"])
def test_blocks_are_the_whole(variant, kernel):
    """A budget too small for the Gram matrix changes neither mistakes nor restarts."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((120, 2))
    y = np.digitize(X[:, 0] + 0.3 * X[:, 1] ** 2, [-0.4, 0.5])
    model = KernelPerceptron(kernel, variant, max_epochs=40, power_t=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        whole = clone(model).fit(X, y)
        with mercer.config(memory="40kB"):
            parts = clone(model).fit(X, y)
    assert parts.n_iter_ > 1 and parts.n_updates_.min() > 3
    np.testing.assert_array_equal(parts.n_updates_, whole.n_updates_)
    np.testing.assert_array_equal(parts.support_, whole.support_)
    for name in ("dual_coef_", "intercept_", "margin_", "target_margin_", "norm_"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), atol=1e-9)
    assert parts.solution_.residual == whole.solution_.residual


def test_precomputed_sparse_and_frames_are_the_points(rng):
    pandas = pytest.importorskip("pandas")
    X = rng.standard_normal((50, 3)) * (rng.random((50, 3)) < 0.6)
    y = np.where(X[:, 0] + X[:, 1] ** 2 > 0.4, "yes", "no")
    kernel, new = RBF(0.7), rng.standard_normal((9, 3))
    model = KernelPerceptron(kernel).fit(X, y)
    given = KernelPerceptron("precomputed").fit(kernel(X), y)
    np.testing.assert_allclose(
        given.decision_function(kernel(new, X)), model.decision_function(new), atol=1e-9
    )
    np.testing.assert_array_equal(given.X_fit_, model.support_)
    np.testing.assert_array_equal(model.X_fit_, X[model.support_])
    rows = KernelPerceptron(kernel).fit(sp.csr_array(X), y)
    assert sp.issparse(rows.X_fit_)
    np.testing.assert_allclose(
        rows.decision_function(sp.csr_array(new)), model.decision_function(new), atol=1e-9
    )
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    table = KernelPerceptron(kernel.on(["a", "b", "c"])).fit(frame, y)
    new = frame[::7]
    np.testing.assert_allclose(
        table.decision_function(new), model.decision_function(new.to_numpy()), atol=1e-9
    )


# ------------------------------------------------------------------------------------ strings
def shared_letters(a, b):
    return float(len(set(a) & set(b)))


def test_words_by_a_function_of_two_strings():
    words = ["apple", "grape", "pear", "papaya", "drum", "horn", "lute", "bongo"]
    kind = ["fruit"] * 4 + ["sound"] * 4
    for kernel in (shared_letters, FromFunction(shared_letters)):
        model = KernelPerceptron(kernel).fit(words, kind)
        assert model.converged_ and model.predict(words).tolist() == kind
        assert set(model.X_fit_) <= set(words)
    online = KernelPerceptron(shared_letters)
    for word, label in zip(words, kind, strict=True):
        online.partial_fit([word], [label], classes=["fruit", "sound"])
    once = KernelPerceptron(shared_letters, max_epochs=1, shuffle=False)
    with pytest.warns(NotConverged):
        once.fit(words, kind)
    assert online.X_fit_ == once.X_fit_
    np.testing.assert_array_equal(online.dual_coef_, once.dual_coef_)


# ------------------------------------------------------------------------------------- online
def stream(classes=3, n=60):
    rng = np.random.default_rng(4)
    X = rng.standard_normal((n, 2))
    edges = [0.0] if classes == 2 else [-0.5, 0.5]
    return X, np.array(["low", "mid", "top"])[np.digitize(X[:, 0] + X[:, 1], edges)]


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("variant", ["standard", "margin", "variable"])
def test_pieces_are_one_pass(variant, classes):
    X, y = stream(classes)
    margin = None if variant == "standard" else 0.2
    model = KernelPerceptron(RBF(0.8), variant, margin=margin)
    whole = clone(model).partial_fit(X, y, classes=np.unique(y))
    fitted = clone(model).set_params(shuffle=False, max_epochs=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        fitted.fit(X, y)
    pieces = clone(model)
    for part in (slice(0, 1), slice(1, 7), slice(7, 30), slice(30, None)):
        pieces.partial_fit(X[part], y[part], classes=np.unique(y))
    for other in (fitted, pieces):
        np.testing.assert_array_equal(other.support_, whole.support_)
        np.testing.assert_array_equal(other.X_fit_, whole.X_fit_)
        np.testing.assert_array_equal(other.n_updates_, whole.n_updates_)
        for name in ("dual_coef_", "intercept_", "norm_"):
            np.testing.assert_allclose(getattr(other, name), getattr(whole, name), atol=1e-10)
        assert other.n_samples_seen_ == len(X)
    assert whole.n_iter_ == fitted.n_iter_ == 1 and pieces.n_iter_ == 4
    f = whole.function_
    np.testing.assert_allclose(f.norm(), pieces.norm_, rtol=1e-9)


def test_online_after_a_fit_goes_on_from_it():
    X, y = stream(2)
    model = KernelPerceptron(RBF(0.8), shuffle=False).fit(X[:40], y[:40])
    before, kernel = model.n_updates_, model.kernel_
    a = spread(model, len(X))
    values = model.decision_function(X[40:])
    model.partial_fit(X[40:], y[40:])
    assert model.kernel_ is kernel and model.n_samples_seen_ == len(X)
    np.testing.assert_array_equal(spread(model, len(X))[:40], a[:40])
    K, b, extra = RBF(0.8)(X[40:]), 0.0, np.zeros(20)
    for t in range(20):
        sign = 1 if y[40 + t] == model.classes_[1] else -1
        if sign * (values[t] + K[t] @ extra + b) <= 0:
            extra[t] += sign
            b += sign
    np.testing.assert_array_equal(spread(model, len(X))[40:], extra)
    assert model.n_updates_ == before + abs(extra).sum()


def test_online_in_blocks(rng):
    X, y = stream(3, 150)
    model = KernelPerceptron(RBF(0.8)).partial_fit(X[:50], y[:50], classes=np.unique(y))
    small = clone(model).partial_fit(X[:50], y[:50], classes=np.unique(y))
    model.partial_fit(X[50:], y[50:])
    with mercer.config(memory="40kB"):
        small.partial_fit(X[50:], y[50:])
    np.testing.assert_array_equal(small.support_, model.support_)
    np.testing.assert_allclose(small.dual_coef_, model.dual_coef_)
    assert small.solution_.residual == model.solution_.residual


def test_batch_online_makes_one_update_a_call():
    X, y = stream(2)
    model = KernelPerceptron(RBF(0.8), "batch", fit_intercept=False)
    model.partial_fit(X[:30], y[:30], classes=np.unique(y))
    assert model.n_updates_ == 1 and len(model.support_) == 30
    signs = np.where(y == model.classes_[1], 1.0, -1.0)
    f = RBF(0.8)(X[30:], X[:30]) @ signs[:30]
    model.partial_fit(X[30:], y[30:])
    wrong = signs[30:] * f <= 0
    assert 0 < wrong.sum() < 30 and model.n_updates_ == 2
    np.testing.assert_array_equal(model.support_[30:], 30 + np.flatnonzero(wrong))
    np.testing.assert_allclose(model.dual_coef_[30:], signs[30:][wrong] / 2)
    assert model.function_.norm() == pytest.approx(model.norm_)


@pytest.mark.parametrize("variant", ["standard", "margin", "batch"])
def test_norms_told_by_updates_are_norms(variant):
    X, y = stream(3)
    model = KernelPerceptron(RBF(0.8), variant, margin=0.3 if variant == "margin" else None)
    for part in np.array_split(np.arange(60), 6):
        model.partial_fit(X[part], y[part], classes=np.unique(y))
        np.testing.assert_allclose(model.norm_, model.function_.norm(), rtol=1e-9)
    assert abs(model.intercept_).max() > 0


def test_a_first_piece_that_is_one_point_has_no_scale():
    X = np.array([[0.0, 1.0], [2.0, 0.5], [2.0, 0.5]])
    for first in (X[:1], X[[0, 0]], sp.csr_array(X[[0, 0]])):
        for kernel in ("rbf", RBF("median"), 2.0 * RBF("scale")):
            model = KernelPerceptron(kernel)
            with pytest.raises(InvalidInput, match=r"partial_fit: .*scale from the rows"):
                model.partial_fit(first, [0] * first.shape[0], classes=[0, 1])
            assert not hasattr(model, "classes_")
        KernelPerceptron(RBF(1.0)).partial_fit(first, [0] * first.shape[0], classes=[0, 1])
    model = KernelPerceptron("rbf").partial_fit(X, [0, 1, 1], classes=[0, 1])
    before = model.kernel_
    assert model.partial_fit(X[:1] * 100, [1]).kernel_ == before  # resolved once
