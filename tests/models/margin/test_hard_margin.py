"""The hard margin against closed forms, large C, brute force, and certificates recomputed."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize

from mercer import RBF, SVC, SVR, Linear, NuSVR, Polynomial
from mercer.errors import InvalidInput, NotConverged, NotSeparable
from mercer.models.margin import svc
from tests.models.hulls import check_common_point, separable


# ---------------------------------------------------------------------------------- closed forms
@pytest.mark.parametrize(("low", "high"), [(-1.0, 1.0), (1.0, 3.0), (1e5, 1e5 + 1), (-1e-7, 1e-7)])
def test_two_points_on_a_line(low, high):
    model = SVC("linear", np.inf, tol=1e-9).fit([[low], [high]], [0, 1])
    gap = high - low
    np.testing.assert_allclose(model.coef_, [[2 / gap]], rtol=1e-6)
    np.testing.assert_allclose(model.decision_function([[low], [high]]), [-1, 1], atol=1e-4)
    assert model.margin_ == pytest.approx(gap / 2, rel=1e-6)
    assert (model.support_kind_ == "margin").all()


def test_without_an_offset_the_nearer_point_decides():
    model = SVC("linear", np.inf, fit_intercept=False, tol=1e-9).fit([[-3.0], [0.5]], [0, 1])
    np.testing.assert_allclose(model.coef_, [[2.0]], rtol=1e-8)  # θ x ≥ 1 at x = ½
    np.testing.assert_array_equal(model.support_, [1])
    assert model.margin_ == pytest.approx(0.5) and model.intercept_[0] == 0
    with pytest.raises(NotSeparable, match="C=inf") as caught:
        SVC("linear", np.inf, fit_intercept=False).fit([[1.0], [3.0]], [0, 1])
    certificate = caught.value.certificate
    X, y = np.array([[1.0], [3.0]]), np.array([0, 1])
    check_common_point(certificate, Linear(), X, y, 1, offset=False)
    np.testing.assert_allclose(certificate.positive_weights, [0.25])
    np.testing.assert_allclose(certificate.negative_weights, [0.75])


def test_xor():
    X = np.array([[-1.0, -1], [-1, 1], [1, -1], [1, 1]])
    y = np.array([-1, 1, 1, -1])
    for fit_intercept in (True, False):
        model = SVC(Polynomial(2), np.inf, fit_intercept=fit_intercept, tol=1e-10).fit(X, y)
        np.testing.assert_allclose(np.abs(model.dual_coef_), np.full((1, 4), 1 / 8), rtol=1e-8)
        Z = np.random.default_rng(0).standard_normal((9, 2))
        np.testing.assert_allclose(model.decision_function(Z), -Z[:, 0] * Z[:, 1], atol=1e-8)
    with pytest.raises(NotSeparable) as caught:
        SVC("linear", np.inf).fit(X, y)
    distance = check_common_point(caught.value.certificate, Linear(), X, y, 1)
    assert distance < 1e-7


def test_the_four_points_of_the_seed():
    e = 0.2
    X = np.array([[0, 0], [0, e], [1, e], [1, 0]], dtype=float)
    model = SVC("linear", np.inf, tol=1e-10).fit(X, [1, 1, 1, -1])
    np.testing.assert_allclose(model.coef_, [[-2, 2 / e]], rtol=1e-8)
    np.testing.assert_allclose(model.intercept_, [1.0], rtol=1e-8)
    np.testing.assert_array_equal(model.support_, [3, 0, 2])
    assert model.margin_ == pytest.approx(e / (2 * np.sqrt(1 + e**2)))
    assert model.loo_bound_ == 0.75


# ------------------------------------------------------------------------------ other solutions
@pytest.mark.parametrize("kernel", [Linear(), Polynomial(2), RBF(1.0), RBF(0.3)])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("large", [svc.LARGE, np.inf])
def test_it_is_the_limit_of_large_C(kernel, fit_intercept, large, monkeypatch):
    monkeypatch.setattr(svc, "LARGE", large)  # infinite: solved as any other C
    X, y = separable()
    hard = SVC(kernel, np.inf, fit_intercept=fit_intercept, tol=1e-7).fit(X, y)
    soft = SVC(kernel, 1e10, fit_intercept=fit_intercept, tol=1e-7).fit(X, y)
    scale = np.abs(hard.decision_function(X)).max()
    np.testing.assert_allclose(
        hard.decision_function(X), soft.decision_function(X), atol=1e-5 * scale
    )
    assert hard.margin_ == pytest.approx(soft.margin_, rel=1e-5)
    assert hard.solution_.dual == pytest.approx(soft.solution_.dual, rel=1e-5)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_margin_is_that_of_a_general_optimiser(fit_intercept):
    X, y = separable(2, 20, 2)
    s = 2.0 * y - 1
    model = SVC("linear", np.inf, fit_intercept=fit_intercept, tol=1e-10).fit(X, y)
    b = float(fit_intercept)
    found = minimize(
        lambda t: 0.5 * t[:2] @ t[:2],
        np.zeros(3),
        jac=lambda t: np.r_[t[:2], 0.0],
        constraints={"type": "ineq", "fun": lambda t: s * (X @ t[:2] + b * t[2]) - 1},
        method="SLSQP",
    )
    assert found.success
    assert model.margin_ == pytest.approx(1 / np.linalg.norm(found.x[:2]), rel=1e-5)
    assert (s * model.decision_function(X)).min() == pytest.approx(1, abs=1e-8)


@pytest.mark.parametrize("tol", [1e-2, 1e-5, 1e-9])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_certificate_is_true(tol, fit_intercept):
    X, y = separable(3, 700, 4)  # too many for the finer solution that small problems get
    kernel = RBF(1.0)
    model = SVC(kernel, np.inf, tol=tol, fit_intercept=fit_intercept).fit(X, y)
    K, s = kernel(X), 2.0 * y - 1
    a = np.zeros(len(y))
    a[model.support_] = model.dual_coef_[0]
    assert (s * a >= 0).all()
    if fit_intercept:
        assert abs(a.sum()) <= 1e-9 * np.abs(a).sum()
    square = a @ K @ a
    dual = np.abs(a).sum() - 0.5 * square
    solution = model.solution_
    assert solution.dual == pytest.approx(dual, rel=1e-7)
    f = K @ a
    # shifted and stretched until no point is inside the margin, f is feasible
    best = 0.5 * (f[s > 0].min() - f[s < 0].max()) if fit_intercept else (s * f).min()
    primal = 0.5 * square / best**2
    assert solution.primal == pytest.approx(primal, rel=1e-7)
    assert 0 <= solution.gap <= tol * primal and solution.gap == pytest.approx(
        primal - dual, abs=1e-7 * primal
    )
    margins = s * (f + model.intercept_[0])
    assert margins.min() >= 1 - 1e-9 and solution.residual <= 2 * tol
    assert (np.abs(margins[model.support_] - 1) <= 3 * tol).all()


def test_the_scale_of_the_columns_does_not_matter():
    X, y = separable(1)
    values = [
        SVC("linear", np.inf, tol=1e-6).fit(c * X, y).decision_function(c * X)
        for c in (1.0, 1e-6, 1e6)
    ]
    np.testing.assert_allclose(values[1], values[0], atol=1e-4)
    np.testing.assert_allclose(values[2], values[0], atol=1e-4)


def test_weights_do_not_matter_unless_they_are_zero():
    X, y = separable(4)
    model = SVC(RBF(1.0), np.inf, tol=1e-9).fit(X, y)
    w = np.random.default_rng(0).uniform(0.1, 9, len(y))
    other = SVC(RBF(1.0), np.inf, tol=1e-9).fit(X, y, w)
    np.testing.assert_allclose(other.decision_function(X), model.decision_function(X), atol=1e-7)
    Z = np.r_[X, X[:1]]
    target = np.r_[y, 1 - y[0]]  # contradicts the first row, but has no weight
    ones = np.r_[np.ones(len(y)), 0.0]
    other = SVC(RBF(1.0), np.inf, tol=1e-9).fit(Z, target, ones)
    np.testing.assert_allclose(other.decision_function(X), model.decision_function(X), atol=1e-7)


def test_a_large_C_is_as_good_as_infinite_only_where_no_coefficient_exceeds_it():
    X, y = separable(7)
    kernel, s = RBF(2.0), 2.0 * y - 1
    hard = SVC(kernel, np.inf, tol=1e-8).fit(X, y)
    most = np.abs(hard.dual_coef_).max()
    assert most > 1
    for C in (0.5 * most * 1e9, 1e9):
        scaled = SVC(1e-9 * kernel, C, tol=1e-8).fit(X, y)  # k(x, x) small: an ordinary C
        a = np.abs(scaled.dual_coef_)
        assert (a <= C).all()
    for C in (1e9, 1e12):
        model = SVC(kernel, C, tol=1e-8).fit(X, y)
        K, a = kernel(X), np.zeros(len(y))
        a[model.support_] = model.dual_coef_[0]
        f = K @ a + model.intercept_[0]
        primal = 0.5 * a @ K @ a + C * np.maximum(0, 1 - s * f - 1e-12).sum()
        assert model.solution_.primal == pytest.approx(primal, rel=1e-6)
        assert model.solution_.dual == pytest.approx(np.abs(a).sum() - 0.5 * a @ K @ a, rel=1e-9)
        assert model.solution_.gap <= 1e-7 * primal
    # one contradictory row: its coefficient is C and the hard margin no answer
    Z, target = np.r_[X, X[:1]], np.r_[y, 1 - y[0]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        model = SVC(kernel, 1e9).fit(Z, target)
    assert np.abs(model.dual_coef_).max() == 1e9 and (model.support_kind_ == "bound").any()


# ---------------------------------------------------------------------------------------- limits
def test_limits_give_an_answer_without_a_proof():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 2))
    y = rng.integers(0, 2, 200)
    for limit, cure in (({"max_iter": 2}, "raise max_iter"), ({"max_time": 1e-9}, "more time")):
        model = SVC(RBF(0.5), np.inf, **limit)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(X, y)
        assert [w.category for w in caught] == [NotConverged]
        text = str(caught[0].message)
        assert text.startswith(f"SVC: stopped by {next(iter(limit))}") and cure in text
        assert "whether the classes can be separated" in text and "lower C" not in text
        assert f"KKT violation {model.solution_.residual:.2g}" in text
        assert not model.solution_.converged and model.solution_.gap == np.inf
    # separated, but not to the tolerance
    X, y = separable(3, 700, 4)
    model = SVC(RBF(1.0), np.inf, tol=1e-9, max_iter=500)
    with pytest.warns(NotConverged, match="stopped by max_iter") as caught:
        model.fit(X, y)
    text, solution = str(caught[0].message), model.solution_
    assert f"KKT violation {solution.residual:.2g}" in text
    if np.isfinite(solution.gap):
        assert f"gap {solution.gap:.2g}" in text and "are separated" in text


def test_the_time_is_that_of_all_steps(monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 2)), rng.integers(0, 2, 300)
    seen = []
    solve = svc.SMO.solve

    def spy(self, *args, **named):
        seen.append(self.max_time)
        return solve(self, *args, **named)

    monkeypatch.setattr(svc.SMO, "solve", spy)
    for C in (np.inf, 1e9):
        seen.clear()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConverged)
            SVC(RBF(0.3), C, max_time=0.3).fit(X, y)
        assert seen and all(left is not None and left <= 0.3 for left in seen)
        assert seen == sorted(seen, reverse=True) or C < np.inf  # half of it is for the first try


@pytest.mark.parametrize(
    "model", [SVC(C=1e300), SVC("linear", 1e308), SVR(C=1e300), NuSVR(C=1e200)]
)
def test_a_price_that_has_no_square_is_refused(model):
    X, y = np.arange(6.0)[:, None], [0, 1, 0, 1, 0, 1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InvalidInput, match=f"{type(model).__name__}: C=1e.*float64") as caught:
            model.fit(X, y)
    assert ("numpy.inf" in str(caught.value)) == isinstance(model, SVC)
    assert SVC(1e-6 * RBF(1.0), 1e152).fit(X, y).solution_.converged
    with pytest.raises(InvalidInput, match="C=1e"):
        SVC().path(X, y, [1.0, 1e300])
