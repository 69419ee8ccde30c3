"""NuSVC against its brackets, SVC with the same solution, scikit-learn, and bad ν."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn import svm
from sklearn.datasets import load_iris, make_classification
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import mercer
from mercer import RBF, SVC, Linear, Matern, NuSVC, Polynomial
from mercer.errors import InvalidInput, ModelFileError, NotConverged, NotPositiveDefinite


def overlapping(n=120, seed=0, share=0.5):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    y = (X[:, 0] + rng.standard_normal(n) > np.quantile(X[:, 0], 1 - share)).astype(int)
    return X, y


# --------------------------------------------------------------------------------- the meaning of ν
@pytest.mark.parametrize(
    ("kernel", "nu"),
    [(RBF(1.0), 0.15), (RBF(1.0), 0.4), (RBF(0.3), 0.7), (Matern(2.0), 0.3), (Polynomial(2), 0.7)],
)
def test_nu_lies_between_the_shares(kernel, nu):
    X, y = overlapping()
    nu = min(nu, 2 * min(y.mean(), 1 - y.mean()))
    model = NuSVC(kernel, nu, tol=1e-8).fit(X, y)
    support, bound = len(model.support_), (model.support_kind_ == "bound").sum()
    assert bound / 120 <= nu * (1 + 1e-9) and nu <= support / 120 * (1 + 1e-9)
    margin = (2 * y - 1) * model.decision_function(X)
    assert (margin < 1 - 1e-6).mean() <= nu <= (margin < 1 + 1e-6).mean()


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_brackets_count_weights(fit_intercept):
    X, y = overlapping(seed=1)
    w = np.random.default_rng(0).uniform(0.2, 3, 120)
    model = NuSVC(RBF(1.0), 0.3, tol=1e-8, fit_intercept=fit_intercept).fit(X, y, w)
    W = w.sum()
    bound = model.support_[model.support_kind_ == "bound"]
    assert w[bound].sum() / W <= 0.3 * (1 + 1e-9) <= w[model.support_].sum() / W + 1e-8
    np.testing.assert_allclose(np.abs(model.dual_coef_).sum(), 0.3 * W * model.C_, rtol=1e-9)
    if fit_intercept:
        assert abs(model.dual_coef_.sum()) < 1e-9 * np.abs(model.dual_coef_).sum()


@pytest.mark.parametrize("nu", [0.05, 0.3, 0.6])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_it_is_svc_with_another_name_for_C(nu, fit_intercept):
    X, y = overlapping(seed=2)
    kernel = RBF(0.8)
    model = NuSVC(kernel, nu, tol=1e-9, fit_intercept=fit_intercept).fit(X, y)
    same = SVC(kernel, model.C_, tol=1e-9, fit_intercept=fit_intercept).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), same.decision_function(X), atol=1e-6)
    np.testing.assert_array_equal(model.support_, same.support_)
    np.testing.assert_array_equal(model.support_kind_, same.support_kind_)
    assert model.solution_.dual == pytest.approx(same.solution_.dual, rel=1e-7)
    assert model.margin_ == pytest.approx(same.margin_, rel=1e-6)
    assert model.loo_bound_ == same.loo_bound_


@pytest.mark.parametrize("seed", range(8))
def test_the_certificate_is_true(seed):
    X, y = overlapping(80, seed)
    rng = np.random.default_rng(seed)
    kernel = [RBF(1.0), RBF(0.3)][seed % 2]
    w = rng.uniform(0.5, 2, 80) if seed % 3 else np.ones(80)
    nu = float(rng.uniform(0.2, 0.6))
    model = NuSVC(kernel, nu, tol=1e-5).fit(X, y, w)
    K, s = kernel(X), 2.0 * y - 1
    a = np.zeros(80)
    a[model.support_] = model.dual_coef_[0]
    f = K @ a + model.intercept_[0]
    C = model.C_
    assert (s * a >= 0).all() and (s * a <= C * w * (1 + 1e-12)).all()
    primal = 0.5 * a @ K @ a + C * (w * np.maximum(0, 1 - s * f)).sum()
    dual = np.abs(a).sum() - 0.5 * a @ K @ a
    solution = model.solution_
    np.testing.assert_allclose([solution.primal, solution.dual], [primal, dual], rtol=1e-7)
    # the same gap, in the units of ν's own objective: (½‖f‖² − νWρ + Σwξ) + ½‖f‖², times C²
    rho = 1 / C
    own = 0.5 * rho**2 * a @ K @ a - nu * w.sum() * rho + rho * (w * np.maximum(0, 1 - s * f)).sum()
    own += 0.5 * rho**2 * a @ K @ a
    np.testing.assert_allclose(own * C**2, solution.gap, atol=1e-7 * primal)
    assert solution.gap <= 2e-5 * primal and solution.residual <= 1e-5


@pytest.mark.parametrize("kernel", ["rbf", "precomputed"])
@pytest.mark.parametrize("nu", [0.1, 0.4])
def test_two_classes_equal_scikit_learns(kernel, nu):
    X, y = make_classification(140, 6, n_informative=4, random_state=1)
    A = RBF(2.0)(X) if kernel == "precomputed" else X
    mine = NuSVC(kernel, nu, tol=1e-8).fit(A, y)
    theirs = svm.NuSVC(kernel=kernel, nu=nu, tol=1e-8).fit(A, y)
    np.testing.assert_array_equal(mine.support_, theirs.support_)
    scale = np.abs(theirs.dual_coef_).max()
    np.testing.assert_allclose(mine.dual_coef_, theirs.dual_coef_, atol=1e-3 * scale)
    np.testing.assert_allclose(mine.intercept_, theirs.intercept_, atol=1e-3)
    np.testing.assert_allclose(mine.decision_function(A), theirs.decision_function(A), atol=1e-3)


def test_many_classes_equal_scikit_learns():
    X, y = load_iris(return_X_y=True)
    X = StandardScaler().fit_transform(X) + 1e-3 * np.random.default_rng(0).normal(size=X.shape)
    mine = NuSVC(nu=0.2, tol=1e-9).fit(X, y)
    theirs = svm.NuSVC(nu=0.2, tol=1e-9).fit(X, y)
    np.testing.assert_array_equal(mine.support_, theirs.support_)
    np.testing.assert_allclose(mine.decision_function(X), theirs.decision_function(X), atol=1e-4)
    theirs.decision_function_shape = "ovo"
    pairs = theirs.decision_function(X)
    np.testing.assert_allclose(mine.pairwise_decision_function(X), pairs, atol=1e-3)
    assert mine.C_.shape == (3,) and mine.dual_coef_.shape == theirs.dual_coef_.shape
    rest = NuSVC(nu=0.2, multi_class="ovr").fit(X, y)
    assert rest.C_.shape == (3,) and rest.score(X, y) > 0.94


# ------------------------------------------------------------------------------------- weights
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_a_weight_of_two_is_a_row_given_twice(fit_intercept, multi_class, class_weight):
    X, y = load_iris(return_X_y=True)
    X, y = X[::5] + 1e-3 * np.random.default_rng(0).standard_normal((30, 4)), y[::5]
    w = np.random.default_rng(1).integers(0, 3, 30)
    w[::10] = 2
    options = {"fit_intercept": fit_intercept, "multi_class": multi_class}
    options["class_weight"] = class_weight
    weighted = NuSVC("rbf", 0.15, **options).fit(X, y, w)
    repeated = NuSVC("rbf", 0.15, **options).fit(np.repeat(X, w, 0), np.repeat(y, w))
    np.testing.assert_allclose(
        weighted.decision_function(X), repeated.decision_function(X), atol=1e-6
    )
    np.testing.assert_allclose(weighted.C_, repeated.C_, rtol=1e-6)


def test_weights_all_multiplied_change_nothing_but_C():
    X, y = overlapping()
    one, many = NuSVC(RBF(1.0), 0.4).fit(X, y), NuSVC(RBF(1.0), 0.4).fit(X, y, np.full(120, 1e3))
    np.testing.assert_allclose(one.decision_function(X), many.decision_function(X), atol=1e-7)
    assert many.C_ == pytest.approx(one.C_ / 1e3)


# ---------------------------------------------------------------------------------------- bad ν
@pytest.mark.parametrize("nu", [0, -0.1, 1.01, np.nan, np.inf, "0.5", None, True])
def test_nu_out_of_range_is_refused(nu):
    X, y = overlapping(20)
    with pytest.raises(InvalidInput, match=r"NuSVC: nu=.*\(0, 1\]"):
        NuSVC(nu=nu).fit(X, y)


def test_nu_beyond_the_smaller_class_is_refused_and_the_limit_is_legal():
    X, y = overlapping(60, share=0.2)
    limit = 2 * min(y.sum(), 60 - y.sum()) / 60
    with pytest.raises(InvalidInput, match=f"nu is at most {limit:.4g}"):
        NuSVC(RBF(1.0), limit + 1e-6).fit(X, y)
    model = NuSVC(RBF(1.0), limit).fit(X, y)
    rare = int(y.mean() < 0.5)
    owners = np.repeat([0, 1], model.n_support_)
    assert (model.support_kind_[owners == rare] == "bound").all()
    values = (1 if rare else -1) * model.decision_function(X[y == rare])
    assert values.max() == pytest.approx(1, abs=1e-3)  # of all larger offsets the first
    assert model.n_support_[rare] == (y == rare).sum()
    NuSVC(RBF(1.0), 1.0, class_weight="balanced").fit(X, y)
    NuSVC(RBF(1.0), 1.0, fit_intercept=False).fit(X, y)  # without an offset nothing to balance
    with pytest.raises(InvalidInput, match="class 0 against class 2"):
        X, y = load_iris(return_X_y=True)
        NuSVC(nu=0.9).fit(X[:110], y[:110])


def test_an_extreme_nu_is_the_hard_margin():
    X, y = load_iris(return_X_y=True)
    X, y = X[:100], y[:100]
    tiny = NuSVC("linear", 1e-7, tol=1e-7).fit(X, y)
    hard = SVC("linear", np.inf, tol=1e-7).fit(X, y)
    np.testing.assert_allclose(tiny.coef_, hard.coef_, rtol=1e-5)
    assert (tiny.support_kind_ == "margin").all()


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_the_scale_of_the_kernel_changes_nothing_but_C(scale):
    X, y = overlapping()
    one, other = NuSVC(RBF(1.0), 0.3).fit(X, y), NuSVC(scale * RBF(1.0), 0.3).fit(X, y)
    np.testing.assert_allclose(other.decision_function(X), one.decision_function(X), atol=1e-6)
    assert other.C_ == pytest.approx(one.C_ / scale, rel=1e-6)


def test_no_infinite_work_on_bad_kernels():
    rng = np.random.default_rng(0)
    A, y = rng.standard_normal((50, 50)), np.arange(50) % 2
    with pytest.raises(NotPositiveDefinite, match="NuSVC"):
        NuSVC("precomputed").fit(A + A.T + 6 * np.eye(50), y)
    with pytest.raises(mercer.errors.NotSeparable):
        NuSVC("precomputed").fit(np.zeros((50, 50)), y)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        NuSVC(max_iter=2).fit(*overlapping())
    assert [w.category for w in caught] == [NotConverged]
    assert str(caught[0].message).startswith("NuSVC: stopped by max_iter")


@pytest.mark.parametrize("nu", [1.0, 0.5])
@pytest.mark.parametrize("kernel", ["linear", "rbf", mercer.Constant(2.0)])
def test_classes_that_coincide_are_called_so(nu, kernel):
    with pytest.raises(mercer.errors.NotSeparable, match=r"class 1 and class 0 coincide") as caught:
        NuSVC(kernel, nu).fit([[1.0], [1.0]], [0, 1])
    assert "larger nu" not in str(caught.value) and caught.value.certificate.exact
    with pytest.raises(mercer.errors.NotSeparable, match="nu=1 is the largest there is") as caught:
        NuSVC("linear", 1.0).fit([[0.0], [2.0], [1.0], [1.0]], [0, 0, 1, 1])
    assert "larger nu" not in str(caught.value)


def test_the_warning_has_the_numbers_of_the_certificate():
    X, y = overlapping(600)
    for limit in ({"max_iter": 30}, {"max_time": 1e-9}):
        with pytest.warns(NotConverged, match=f"NuSVC: stopped by {next(iter(limit))}") as caught:
            model = NuSVC(RBF(1.0), 0.3, **limit).fit(X, y)
        text, solution = str(caught[0].message), model.solution_
        assert f"KKT violation {solution.residual:.2g}, gap {solution.gap:.2g}" in text
        assert "lower C" not in text and "larger nu" in text


@pytest.mark.parametrize("tol", [1e-1, 1e-2, 1e-4])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_violation_is_that_of_the_stored_function(tol, fit_intercept):
    X, y = overlapping(700, 3)
    kernel, s = RBF(0.7), 2.0 * y - 1
    model = NuSVC(kernel, 0.3, tol=tol, fit_intercept=fit_intercept).fit(X, y)
    a = np.zeros(700)
    a[model.support_] = model.dual_coef_[0]
    full = np.zeros(700, dtype=bool)
    full[model.support_[model.support_kind_ == "bound"]] = True
    G = kernel(X) @ a - s
    grow = np.where(s > 0, ~full, a != 0)
    shrink = np.where(s > 0, a != 0, ~full)
    worst = G[shrink].max() - G[grow].min()
    if not fit_intercept:
        worst = max(G[shrink].max(), -G[grow].min())
    assert model.solution_.residual == pytest.approx(worst, rel=1e-6, abs=1e-9)
    assert model.solution_.converged and worst <= tol
    assert model.solution_.gap <= tol * model.solution_.primal


def test_far_from_the_origin_it_is_the_same():
    X, y = overlapping()
    near, far = NuSVC("linear", 0.7).fit(X, y), NuSVC("linear", 0.7).fit(X + 1e7, y)
    assert far.margin_ == pytest.approx(near.margin_, rel=1e-5)
    np.testing.assert_allclose(far.decision_function(X + 1e7), near.decision_function(X), atol=1e-5)


# -------------------------------------------------------------------- life among other estimators
def test_common_checks():
    # As of scikit-learn's own NuSVC, whose checks excuse it from the same: no function has a share
    # of ν margin violations where a class has less than half of that, and the fit says so.
    rare = "a class of these data has less than half of ν = ½ of the weight"
    least = "class_weight leaves a class 1e-7 of the weight, too little for any ν"
    infeasible = {
        "check_sample_weight_equivalence_on_dense_data": rare,
        "check_sample_weight_equivalence_on_sparse_data": rare,
        "check_class_weight_classifiers": least,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(
            NuSVC(), expected_failed_checks=infeasible, on_fail=None, on_skip=None
        )
        lower = check_estimator(NuSVC(nu=0.3), on_fail=None, on_skip=None)
    ended = {r["check_name"]: r for r in results if r["status"] in ("failed", "xfail")}
    assert set(ended) == set(infeasible)
    for result in ended.values():
        assert result["status"] == "xfail" and "is infeasible" in str(result["exception"])
    passed = {r["check_name"] for r in lower if r["status"] == "passed"}
    assert {name for name in infeasible if "equivalence" in name} <= passed


def test_files(tmp_path):
    X, y = load_iris(return_X_y=True)
    for model in (NuSVC(nu=0.2).fit(X, y), NuSVC(Linear(), 0.01).fit(X[:100], y[:100])):
        path = tmp_path / "model.mercer"
        mercer.save(model, path, overwrite=True)
        again = mercer.load(path)
        np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
        np.testing.assert_array_equal(again.C_, model.C_)
        del vars(again)["C_"]
        with pytest.raises(ModelFileError, match="C_"):
            again._check_state()


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("offset", [True, False])
@pytest.mark.parametrize("n", [7, 60, 700])
def test_any_unit_has_the_machine_of_its_price(scale, offset, n):
    rng = np.random.default_rng(n)
    X = rng.standard_normal((n, 3))
    y = np.where(X[:, 0] + 0.5 * rng.standard_normal(n) > 0.3, 1, 0)
    y[:2] = 0, 1
    w = rng.integers(1, 3, n).astype(float)
    kernel = scale * mercer.RBF(0.5)
    nu = 0.9 * 2 * min(w[y == 0].sum(), w[y == 1].sum()) / w.sum()
    model = mercer.NuSVC(kernel, nu, tol=1e-6, fit_intercept=offset).fit(X, y, w)
    assert model.solution_.converged
    same = mercer.SVC(kernel, model.C_, tol=1e-6, fit_intercept=offset).fit(X, y, w)
    assert model.solution_.dual == pytest.approx(same.solution_.dual, rel=1e-5)
    values = same.decision_function(X)
    np.testing.assert_allclose(model.decision_function(X), values, atol=1e-3 * abs(values).max())
