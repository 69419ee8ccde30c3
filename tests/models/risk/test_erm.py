"""KernelERM: every loss in both guises, offsets, weights, leave-one-out, scikit-learn, files."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer
from mercer import RBF, SVC, SVR, FromFunction, KernelERM, KernelRidge, Laplacian, Polynomial
from mercer.errors import InvalidInput, ModelFileError, NotConverged
from mercer.losses import EpsilonInsensitive, Huber, Logistic, Pinball, Squared, ZeroOne
from mercer.testing.certificates.risks import risk_objective, risk_residual

CLASSIFIERS = ["hinge", "squared_hinge", "logistic", "exponential"]
REGRESSORS = ["squared", "absolute", "pinball", "epsilon_insensitive", "huber"]
SMOOTH = ["squared_hinge", "logistic", "exponential", "squared", "huber"]


def waves(n=40, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 6, (n, 2))
    return X, np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.2 * rng.standard_t(3, n)


def blobs(n=45, seed=0, classes=2):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    y = np.digitize(X[:, 0] + 0.5 * rng.standard_normal(n), np.linspace(-0.5, 0.5, classes - 1))
    y[:classes] = np.arange(classes)
    return X, np.array(["a", "b", "c", "d"])[y]


def data(loss, n=40, classes=2):
    return blobs(n, classes=classes) if loss in CLASSIFIERS else waves(n)


def values(model, X):
    return model.decision_function(X) if is_classifier(model) else model.predict(X)


# ------------------------------------------------------------------------------- guises
@pytest.mark.parametrize("loss", CLASSIFIERS + REGRESSORS)
def test_the_loss_decides_what_it_is(loss):
    model = KernelERM(loss=loss)
    assert is_classifier(model) == (loss in CLASSIFIERS)
    assert is_regressor(model) == (loss in REGRESSORS)
    assert hasattr(model, "decision_function") == (loss in CLASSIFIERS)
    assert hasattr(model, "predict_proba") == (loss == "logistic")
    X, y = data(loss)
    model.fit(X, y)
    assert hasattr(model, "classes_") == (loss in CLASSIFIERS)
    assert model.score(X, y) > 0.3
    assert model.dual_coef_.shape == (40,)
    assert np.shape(model.intercept_) == ((1,) if loss in CLASSIFIERS else ())
    assert model.solution_.converged and model.solution_.gap <= 1e-6 * model.solution_.primal
    assert risk_objective(model, X) == pytest.approx(model.solution_.primal, rel=1e-7)
    assert risk_residual(model, X, y) <= 1e-5


def _excused(estimator):
    if estimator.kernel != "precomputed":
        return {}
    return {
        "check_positive_only_tag_during_fit": "subtracts the mean, so that k(x, x) < 0",
        "check_estimators_dtypes": "rounds to integers, so that the matrix is indefinite",
        "check_decision_proba_consistency": "hands over points, not their Gram matrix",
    }


@parametrize_with_checks(
    [KernelERM(loss=loss) for loss in ("logistic", "squared_hinge", "hinge", "huber", "absolute")]
    + [KernelERM("precomputed", "logistic"), KernelERM("linear", "logistic")],
    expected_failed_checks=_excused,
)
def test_scikit_learn_in_every_guise(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("error", NotConverged)
        check(estimator)


@pytest.mark.parametrize("loss", CLASSIFIERS)
def test_more_classes(loss):
    X, y = blobs(60, classes=4)
    model = KernelERM(RBF(1.0), loss, 0.1).fit(X, y)
    assert model.dual_coef_.shape == (60, 4) and model.intercept_.shape == (4,)
    assert model.decision_function(X).shape == (60, 4)
    assert model.score(X, y) > 0.6
    np.testing.assert_array_equal(
        model.predict(X), model.classes_[model.decision_function(X).argmax(1)]
    )
    np.testing.assert_allclose(model.function_(X), model.decision_function(X), atol=1e-9)
    assert risk_residual(model, X, y) <= 1e-5
    assert risk_objective(model, X) == pytest.approx(model.solution_.primal, rel=1e-7)
    if loss != "logistic":  # one class against the rest
        one = KernelERM(RBF(1.0), loss, 0.1).fit(X, y == "c")
        np.testing.assert_allclose(
            model.decision_function(X)[:, 2], one.decision_function(X), atol=1e-6
        )


# ------------------------------------------------------------------ other models as cases
@pytest.mark.parametrize("offset", [True, False])
def test_squares_are_kernel_ridge(offset):
    X, y = waves()
    w = np.random.default_rng(1).uniform(0, 2, 40)
    w[:4] = 0
    for kernel in (RBF(1.0), "linear", Polynomial(2)):
        ours = KernelERM(kernel, "squared", 0.3, offset).fit(X, y, w)
        ridge = KernelRidge(kernel, 0.3, fit_intercept=offset).fit(X, y, w)
        np.testing.assert_allclose(ours.predict(X), ridge.predict(X), atol=1e-9)
        np.testing.assert_allclose(ours.loo(), ridge.loo(), atol=1e-8)
        assert ours.n_iter_ == 1


def test_hinge_and_tube_are_the_support_vector_machines():
    X, y = blobs()
    erm = KernelERM(RBF(1.0), "hinge", 0.5, tol=1e-9).fit(X, y)
    svc = SVC(RBF(1.0), 2.0, tol=1e-9).fit(X, y)
    np.testing.assert_allclose(erm.decision_function(X), svc.decision_function(X), atol=1e-5)
    X, t = waves()
    erm = KernelERM(RBF(1.0), EpsilonInsensitive(0.2), 0.5, tol=1e-9).fit(X, t)
    svr = SVR(RBF(1.0), 2.0, 0.2, tol=1e-9).fit(X, t)
    np.testing.assert_allclose(erm.predict(X), svr.predict(X), atol=1e-5)


@pytest.mark.parametrize("loss", ["squared", "huber", "logistic", "squared_hinge", "hinge"])
@pytest.mark.parametrize("offset", [True, False])
def test_linear_kernel_has_weights_of_columns(loss, offset):
    X, y = data(loss)
    model = KernelERM("linear", loss, 0.5, offset).fit(X, y)
    shape = (1, 2) if loss in CLASSIFIERS else (2,)
    assert model.coef_.shape == shape
    got = X @ np.ravel(model.coef_) + model.intercept_
    np.testing.assert_allclose(got, values(model, X), atol=1e-9)
    dual = KernelERM("precomputed", loss, 0.5, offset).fit(X @ X.T, y)
    assert dual.coef_ is None
    np.testing.assert_allclose(values(dual, X @ X.T), values(model, X), atol=1e-6)


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared", "huber"])
def test_weights_of_more_columns_than_rows(loss, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 50))
    for y in (X[:, 0] > 0, np.digitize(X[:, 0], [-0.5, 0.5])):
        model = KernelERM("linear", loss, 0.1).fit(X, y)
        assert not hasattr(KernelERM("linear", loss), "coef_")
        labels = loss in CLASSIFIERS
        rows = 1 if len(np.unique(y)) == 2 else 3
        assert model.coef_.shape == ((rows, 50) if labels else (50,))
        assert np.shape(model.intercept_) == ((rows,) if labels else ())
        got = np.squeeze(X @ model.coef_.T + model.intercept_)
        np.testing.assert_allclose(got, values(model, X), atol=1e-9)
        mercer.save(model, tmp_path / "m.mercer")
        np.testing.assert_array_equal(mercer.load(tmp_path / "m.mercer").coef_, model.coef_)
    assert KernelERM(RBF(1.0), loss).fit(X, y).coef_ is None


# --------------------------------------------------------------------------------- offset
@pytest.mark.parametrize("loss", REGRESSORS)
@pytest.mark.parametrize("kernel", [RBF(1.0), "linear"], ids=str)
def test_a_constant_added_to_the_targets_is_added_to_the_predictions(loss, kernel):
    X, y = waves()
    y = np.round(y * 2**20) / 2**20  # so that adding the constant does not round
    model = KernelERM(kernel, loss, 0.1)
    before = clone(model).fit(X, y)
    for shift in (1.0, -1024.0, 2.0**20):
        after = clone(model).fit(X, y + shift)
        np.testing.assert_allclose(
            after.predict(X) - shift, before.predict(X), atol=1e-12 * max(abs(shift), 10.0)
        )
        np.testing.assert_allclose(after.dual_coef_, before.dual_coef_, atol=1e-9)


@pytest.mark.parametrize("loss", CLASSIFIERS + REGRESSORS)
def test_degenerate_rows(loss):
    X, y = data(loss)
    model = KernelERM(RBF(1.0), loss, 0.1)
    same = clone(model).fit(np.zeros((40, 2)), y)  # all points are one
    assert np.isfinite(values(same, X)).all()
    twice = clone(model).fit(np.repeat(X, 2, axis=0), np.repeat(y, 2))
    heavy = clone(model).fit(X, y, np.full(40, 2.0))
    np.testing.assert_allclose(values(twice, X), values(heavy, X), atol=1e-6)
    some = np.random.default_rng(2).integers(0, 3, 40).astype(float)
    some[:4] = 1
    absent = clone(model).fit(X, y, some)
    at = np.repeat(np.arange(40), some.astype(int))
    given = clone(model).fit(X[at], y[at])
    np.testing.assert_allclose(values(absent, X), values(given, X), atol=1e-6)
    assert (absent.dual_coef_[some == 0] == 0).all()


def test_one_row_and_constant_targets():
    for loss in REGRESSORS:
        one = KernelERM(RBF(1.0), loss).fit([[1.0]], [5.0])
        assert one.predict([[3.0]])[0] == pytest.approx(5.0)
        flat = KernelERM(RBF(1.0), loss).fit(np.arange(6.0)[:, None], np.full(6, 1e9))
        np.testing.assert_allclose(flat.predict([[100.0]]), 1e9, rtol=1e-12)
    none = KernelERM(RBF(1.0), "squared", 1.0, False).fit([[1.0]], [5.0])
    assert none.predict([[1.0]])[0] == pytest.approx(2.5)


def test_class_weights_are_sample_weights():
    X, y = blobs(50)
    weight = {"a": 3.0, "b": 0.5}
    by_class = KernelERM(RBF(), "logistic", 0.1, class_weight=weight).fit(X, y)
    by_row = KernelERM(RBF(), "logistic", 0.1).fit(X, y, [weight[c] for c in y])
    np.testing.assert_allclose(by_class.dual_coef_, by_row.dual_coef_, atol=1e-10)
    balanced = KernelERM(RBF(), "squared_hinge", 0.1, class_weight="balanced").fit(X, y)
    counts = {c: 50 / (2 * (y == c).sum()) for c in "ab"}
    by_row = KernelERM(RBF(), "squared_hinge", 0.1).fit(X, y, [counts[c] for c in y])
    np.testing.assert_allclose(balanced.dual_coef_, by_row.dual_coef_, atol=1e-10)


# ------------------------------------------------------------------------------- refusals
@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"loss": "cosine"}, "'cosine'"),
        ({"loss": ZeroOne()}, "share of errors"),
        ({"loss": Pinball}, "instance"),
        ({"alpha": 0.0}, "alpha=0.0"),
        ({"alpha": "loo"}, "alpha='loo'"),
        ({"alpha": np.inf}, "alpha=inf"),
        ({"tol": 0}, "tol=0"),
        ({"max_iter": 0}, "max_iter=0"),
        ({"max_time": -1.0}, "max_time=-1.0"),
        ({"fit_intercept": "no"}, "fit_intercept='no'"),
        ({"class_weight": "balanced"}, "class_weight='balanced'"),
        ({"kernel": "nothing"}, "'nothing'"),
    ],
)
def test_bad_parameters_are_refused_by_name(params, text):
    X, y = waves(10)
    model = KernelERM().set_params(**params)
    with pytest.raises(InvalidInput, match=text) as caught:
        model.fit(X, y)
    assert "KernelERM" in str(caught.value) or "kernel" in str(caught.value)
    assert not [name for name in vars(model) if name.endswith("_")]


def test_bad_data_are_refused():
    X, y = waves(10)
    for loss in CLASSIFIERS:
        with pytest.raises(InvalidInput, match="at least 2 classes"):
            KernelERM(loss=loss).fit(X, np.zeros(10, int))
        with pytest.raises(InvalidInput, match="at least 2 classes"):
            KernelERM(loss=loss).fit(X, [0, 1] * 5, [1.0, 0.0] * 5)
    with pytest.raises(InvalidInput, match="2 columns"):
        KernelERM().fit(X, np.stack([y, y], 1))
    with pytest.raises(InvalidInput, match="NaN"):
        KernelERM().fit(X, np.where(np.arange(10) == 3, np.nan, y))
    with pytest.raises(InvalidInput, match="larger unit"):
        KernelERM(fit_intercept=False).fit(X, y * 1e200)
    with pytest.raises(InvalidInput, match=r"scale the columns|overflows"):
        KernelERM(Polynomial(3), "logistic").fit(X * 1e120, y > 0)


@pytest.mark.parametrize("loss", SMOOTH)
def test_penalties_and_weights_that_overflow_are_refused_in_words(loss):
    X, y = data(loss)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for alpha, w in ((1e-320, 1.0), (1e-200, 1.0), (1.0, 1e300), (1.0, 1e200), (1e300, 1e300)):
            with pytest.raises(InvalidInput, match="float64 can square; give a larger alpha"):
                KernelERM(RBF(1.0), loss, alpha).fit(X, y, np.full(40, w))
        for alpha, w in ((1e140, 1e140), (1.0, 1e-100)):
            model = KernelERM(RBF(1.0), loss, alpha).fit(X, y, np.full(40, w))
            assert np.isfinite(values(model, X)).all()
    if loss == "logistic":
        with pytest.raises(InvalidInput, match="float64 can square"):
            KernelERM(RBF(1.0), loss, 1e-320).fit(X, np.arange(40) % 3)


def test_classes_without_weight_are_named():
    X, y = blobs(30, classes=3)
    with pytest.raises(InvalidInput, match="all rows of class a, c have weight 0"):
        KernelERM(loss="logistic").fit(X, y, (y == "b") * 1.0)
    with pytest.raises(InvalidInput, match="all rows of class a, c have weight 0"):
        KernelERM(loss="hinge", class_weight={"a": 0, "b": 1, "c": 0}).fit(X, y)
    two = KernelERM(loss="logistic").fit(X, y, (y != "b") * 1.0)
    assert list(two.classes_) == ["a", "c"]


@pytest.mark.parametrize("scale", [1e-170, 1e-250, 1e-100, 1e-50])
@pytest.mark.parametrize("kernel", [RBF(1.0), "linear"], ids=str)
def test_tiny_targets_are_fitted_like_others(scale, kernel):
    X, y = waves()
    for loss in (Squared(), Huber(0.5), Huber(1e200)):
        small = Huber(loss.delta * scale) if isinstance(loss, Huber) else loss
        for offset in (True, False):
            model = KernelERM(kernel, loss, 0.1, offset).fit(X, y)
            tiny = KernelERM(kernel, small, 0.1, offset).fit(X, y * scale)
            for got, want in ((tiny.predict(X), model.predict(X)), (tiny.loo(), model.loo())):
                np.testing.assert_allclose(got / scale, want, atol=1e-7)
            assert tiny.solution_.converged


def test_squares_with_a_tiny_penalty_converge_where_ridge_does():
    X, y = waves(60)
    model = KernelERM(Laplacian(1.0), "squared", 1e-12).fit(X, y)
    ridge = KernelRidge(Laplacian(1.0), 1e-12, fit_intercept=True).fit(X, y)
    assert model.solution_.converged and ridge.solution_.converged
    np.testing.assert_allclose(model.predict(X), ridge.predict(X), atol=1e-9)


def test_an_unknown_loss_is_neither_classifier_nor_regressor():
    for wrong in ("bogus", None, 3):
        model = KernelERM(loss=wrong)
        assert not is_classifier(model) and not is_regressor(model)
        assert not hasattr(model, "predict_proba") and not hasattr(model, "decision_function")
        with pytest.raises(InvalidInput):
            model.fit([[0.0], [1.0]], [0, 1])


def test_a_failed_fit_leaves_the_earlier_one():
    X, y = waves()
    model = KernelERM(RBF(1.0), "huber").fit(X, y)
    before = model.predict(X)
    with pytest.raises(InvalidInput):
        model.set_params(alpha=-1).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), before)


def test_a_limit_warns_with_the_cure():
    X, y = blobs(40)
    with pytest.warns(NotConverged, match=r"KernelERM.*max_iter"):
        KernelERM(RBF(0.3), "logistic", 1e-6, max_iter=1).fit(X, y)


# ---------------------------------------------------------------------------------- life
def test_pipelines_grids_and_frames():
    X, y = load_iris(return_X_y=True)
    pipe = make_pipeline(StandardScaler(), KernelERM(loss="logistic", alpha=0.1))
    assert cross_val_score(pipe, X, y, cv=3).mean() > 0.9
    grid = {"kernelerm__kernel__length_scale": [0.5, 2.0], "kernelerm__loss": ["hinge", Logistic()]}
    found = GridSearchCV(pipe, grid, cv=3).fit(X, y)
    assert found.best_score_ > 0.9
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = KernelERM(RBF().on(["a", "c"]), "squared_hinge", 0.1).fit(frame, y)
    assert list(model.feature_names_in_) == list("abcd") and model.score(frame, y) > 0.9


def test_strings_by_a_function():
    words = ["cat", "cats", "dog", "dogs", "cart", "door", "car", "dot"]
    first = [word[0] for word in words]

    def common(a, b):
        return float(len(set(a) & set(b)))

    model = KernelERM(FromFunction(common), "logistic", 0.1).fit(words, first)
    assert model.score(words, first) == 1.0
    assert model.loo().shape == (8,)
    assert model.predict(["cab"])[0] == "c"


@pytest.mark.parametrize("loss", ["hinge", Logistic(), Huber(0.3), "absolute"])
def test_saved_loaded_and_pickled(loss, tmp_path):
    name = loss if isinstance(loss, str) else "logistic" if loss == Logistic() else "huber"
    X, y = data(name, classes=3)
    model = KernelERM(RBF(1.0), loss, 0.2).fit(X, y)
    mercer.save(model, tmp_path / "m.mercer")
    for again in (mercer.load(tmp_path / "m.mercer"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(values(again, X), values(model, X))
        verb = "loo_decision_function" if name in CLASSIFIERS else "loo"
        np.testing.assert_allclose(getattr(again, verb)(), getattr(model, verb)(), atol=1e-12)
        assert again.loss_ == model.loss_


def test_a_tampered_state_is_refused():
    X, y = blobs(classes=3)
    model = KernelERM("linear", "logistic").fit(X, y)
    model._check_state()
    for name, value in [
        ("dual_coef_", model.dual_coef_[:, :2]),
        ("intercept_", np.full(3, np.nan)),
        ("classes_", np.array(["a", "a", "b"])),
        ("coef_", model.coef_.T[:1]),
        ("sample_weight_", np.ones(3)),
        ("y_fit_", np.ones(3)),
        ("loss_", Huber()),
        ("loss_", "logistic"),
    ]:
        broken = pickle.loads(pickle.dumps(model))
        setattr(broken, name, value)
        with pytest.raises(ModelFileError, match="KernelERM"):
            broken._check_state()
    del broken.kernel_
    with pytest.raises(ModelFileError, match="without kernel_"):
        broken._check_state()
    KernelERM()._check_state()
