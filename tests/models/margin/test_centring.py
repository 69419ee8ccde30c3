"""Classes far from the origin or close to one another, and what centring leaves unchanged."""

from __future__ import annotations

import warnings
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from sklearn.base import clone

from mercer import RBF, SVC, SVR, Constant, Linear, NuSVC, NuSVR, Polynomial
from mercer.errors import NotSeparable
from mercer.models.margin import hulls
from tests.models.hulls import separable


def wide(n, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    return np.c_[1e6 * rng.standard_normal(n), 2 * y - 1 + 0.1 * rng.standard_normal(n)], y


FAR = {
    "seconds since 1970": ((1.7e9 + np.arange(20) * 60.0)[:, None], np.arange(20) >= 10, 30.0),
    "far": (np.arange(30.0)[:, None] + 1e6, np.arange(30) >= 15, 0.5),
    "thin": (np.array([[0, 0], [1, 0], [0, 1e-7], [1, 1e-7]]), np.array([0, 0, 1, 1]), 5e-8),
    **{f"wide {seed}": (*wide(40 * seed + 20, seed), None) for seed in range(4)},
}


@pytest.mark.parametrize("case", FAR)
def test_classes_far_from_the_origin_or_close_to_one_another_are_separated(case):
    X, y, margin = FAR[case]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = SVC("linear", np.inf).fit(X, y)
    assert model.score(X, y) == 1 and model.margin_ > 0 and model.solution_.converged
    assert model.solution_.residual <= 1e-3
    assert model.solution_.gap <= 1e-3 * model.solution_.primal
    if margin is not None:
        assert model.margin_ == pytest.approx(margin, rel=1e-6)
    else:
        Z = X / [1e6, 1.0]  # the margin in the second column, where the first costs nothing
        s = 2.0 * y - 1
        found = minimize(
            lambda t: 0.5 * (1e-12 * t[0] ** 2 + t[1] ** 2),
            [0.0, 2.0, 0.0],
            constraints={"type": "ineq", "fun": lambda t: s * (Z @ t[:2] + t[2]) - 1},
            method="SLSQP",
            options={"ftol": 1e-15, "maxiter": 1000},
        )
        assert model.margin_ == pytest.approx(1 / abs(found.x[1]), rel=2e-3)
    values = (2.0 * np.asarray(y) - 1) * model.decision_function(X)
    assert values.min() == pytest.approx(1, abs=1e-3)


def test_all_kinds_of_rows_have_the_same_margin():
    X, y = separable(9)
    model = SVC("linear", np.inf, tol=1e-6).fit(X, y)
    for kernel, rows in (
        ("linear", sp.csr_matrix(X)),
        ("precomputed", X @ X.T),
        (Polynomial(1, 0.0), X),
        (Polynomial(1, 1e4), X),
    ):
        other = SVC(kernel, np.inf, tol=1e-6).fit(rows, y)
        assert other.margin_ == pytest.approx(model.margin_, rel=1e-5)
        assert other.score(rows, y) == 1 and other.solution_.converged


def test_many_rows_are_not_centred_and_give_the_same(monkeypatch):
    X, y = separable(10)
    near = SVC(Polynomial(2), np.inf, tol=1e-6).fit(X, y)
    monkeypatch.setattr(hulls, "DENSE", 10)
    far = SVC(Polynomial(2), np.inf, tol=1e-6).fit(X, y)
    np.testing.assert_allclose(far.decision_function(X), near.decision_function(X), atol=1e-4)


@pytest.mark.parametrize("shift", [0.0, 1e3, 1e5])
def test_an_offset_makes_the_place_of_the_origin_irrelevant(shift):
    X, y = separable(8)
    near = SVC("linear", np.inf).fit(X, y)
    model = SVC("linear", np.inf).fit(X + shift, y)
    assert model.margin_ == pytest.approx(near.margin_, rel=1e-6)
    np.testing.assert_allclose(
        model.decision_function(X + shift), near.decision_function(X), atol=1e-4
    )
    with pytest.raises(NotSeparable) as caught:
        SVC("linear", np.inf).fit(np.r_[X, -X[:9]] + shift, np.r_[y, y[:9]])
    assert caught.value.certificate.exact
    # any kernel: a constant added to it is such a shift
    for kernel in (RBF(1.0), Polynomial(2)):
        plain = SVC(kernel, np.inf).fit(X, y)
        moved = SVC(kernel + Constant(1e3 + shift), np.inf).fit(X, y)
        assert moved.margin_ == pytest.approx(plain.margin_, rel=1e-3)
        assert moved.score(X, y) == 1


@pytest.mark.parametrize(
    "model",
    [
        SVC("linear", 1.0, tol=1e-6),
        SVC("linear", 100.0, tol=1e-6),
        SVC("linear", 1.0, tol=1e-6, probability=True),
        SVC("linear", 1.0, tol=1e-6, multi_class="ovr"),
        NuSVC("linear", 0.5, tol=1e-6),
        SVR("linear", 1.0, tol=1e-6),
        NuSVR("linear", 0.4, tol=1e-6),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.parametrize("shift", [1e5, 1e6, 1e7])
def test_machines_with_an_offset_do_not_mind_where_the_origin_is(model, shift):
    rng = np.random.default_rng(0)
    X = np.round(rng.standard_normal((90, 3)) * 2**12) / 2**12  # shifts are exact
    y = X[:, 0] + 0.5 * rng.standard_normal(90)
    if hasattr(model, "class_weight"):
        y = np.digitize(y, [-0.3, 0.4] if model.multi_class == "ovr" else [0.0])
    move = shift * np.array([1.0, -2.0, 0.5])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        near, far = clone(model).fit(X, y), clone(model).fit(X + move, y)
    assert far.solution_.converged
    np.testing.assert_array_equal(far.support_vectors_, (X + move)[far.support_])
    what = "decision_function" if hasattr(model, "class_weight") else "predict"
    ask = getattr(near, what)
    np.testing.assert_allclose(getattr(far, what)(X + move), ask(X), atol=1e-5 + 1e-12 * shift)
    np.testing.assert_allclose(far.coef_, near.coef_, atol=1e-5)
    if getattr(model, "probability", False):
        # the folds are dealt by kernel values, which change
        np.testing.assert_allclose(far.predict_proba(X + move), near.predict_proba(X), atol=0.05)
    left = "loo_decision_function" if hasattr(model, "class_weight") else "loo"
    loo = getattr(near, left)(X)
    np.testing.assert_allclose(getattr(far, left)(X + move), loo, atol=1e-3)


def test_paths_do_not_mind_either():
    X, y = separable(8)
    near, far = (SVC("linear").path(Z, y, [0.1, 10.0], cv=3) for Z in (X, X + 1e6))
    np.testing.assert_allclose(far.dual, near.dual, rtol=1e-3)
    np.testing.assert_array_equal(far.scores, near.scores)


@pytest.mark.parametrize("far", [0.0, 1.7e9])
def test_weights_of_columns_lose_no_digits_to_the_length_of_the_rows(far):
    rng = np.random.default_rng(0)
    X = far + 60.0 * rng.integers(0, 99, (7, 2))
    coef = rng.standard_normal(7)
    coef[-1] = -coef[:-1].sum()
    w = hulls.linear_weights(X, coef)
    exact = [
        sum(Fraction(c) * Fraction(x) for c, x in zip(coef, X[:, k], strict=True)) for k in (0, 1)
    ]
    np.testing.assert_allclose(w, [float(v) for v in exact], rtol=1e-13, atol=1e-11)
    both = hulls.linear_weights(X, np.c_[coef, 2 * coef])
    np.testing.assert_allclose(both, np.c_[w, 2 * w], rtol=1e-12)
    assert hulls.linear_weights(X[:0], coef[:0]).shape == (2,)
    assert not hulls.is_plain_linear(Linear(np.eye(2))) and hulls.is_plain_linear(Linear())


@pytest.mark.parametrize(
    "kernel",
    [
        2.0 * Linear(),
        Linear(covariance=np.diag([1.0, 2.0, 0.5])),
        Linear() + Constant(1.0),
        Polynomial(1, length_scale=2.0),
        RBF(1.0) + Linear(),
    ],
    ids=repr,
)
@pytest.mark.parametrize(
    "model",
    [SVC(tol=1e-7), SVC(C=np.inf), SVR(tol=1e-7), NuSVC(nu=0.6, tol=1e-7), NuSVR(tol=1e-7)],
    ids=lambda model: type(model).__name__,
)
def test_kernels_made_of_the_linear_one_do_not_mind_the_origin_either(model, kernel):
    rng = np.random.default_rng(21)
    X = np.round(rng.standard_normal((120, 3)) * 2**12) / 2**12  # shifts are exact
    y, far = X @ [1.0, -0.5, 0.3], X + 1e6
    noisy = y + 0.5 * rng.standard_normal(120)
    labels = hasattr(model, "class_weight")
    hard = labels and model.get_params().get("C") == np.inf
    y = (y if hard else noisy) > 0 if labels else noisy
    what, left = ("decision_function", "loo_decision_function") if labels else ("predict", "loo")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        near, moved = (clone(model).set_params(kernel=kernel).fit(Z, y) for Z in (X, far))
    assert moved.kernel_ == near.kernel_
    np.testing.assert_array_equal(moved.support_vectors_, far[moved.support_])
    want = getattr(near, what)(X)
    np.testing.assert_allclose(getattr(moved, what)(far), want, atol=1e-5 * np.abs(want).max())
    np.testing.assert_allclose(
        moved.function_(far), near.function_(X), atol=1e-5 * np.abs(want).max()
    )
    loo = getattr(near, left)(X)
    np.testing.assert_allclose(getattr(moved, left)(far), loo, atol=1e-3 * np.abs(want).max())
