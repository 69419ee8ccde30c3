"""ℓ₁ vector machines: against scikit-learn on the same features, paths, weights, data, files."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.datasets import load_iris
from sklearn.linear_model import ElasticNet, LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score

import mercer
from mercer import L1VM, RBF, L1VMClassifier, L1VMRegressor, Linear, Matern, Prototypes
from mercer.errors import InvalidInput, MemoryBudgetExceeded, ModelFileError, NotConverged
from mercer.testing.laws.sparse import certify_sparse

pytestmark = pytest.mark.filterwarnings("ignore:The max_iter was reached")  # scikit-learn's

RNG = np.random.default_rng(0)
X = RNG.standard_normal((70, 2))
T = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * RNG.standard_normal(70)
Y = np.where(T > 0, "up", "down")
THREE = np.digitize(T, [-0.5, 0.5])
NEW = RNG.standard_normal((15, 2))
K = RBF()(X)


# ------------------------------------------------------------------- scikit-learn, same features
@pytest.mark.parametrize("ratio", [1.0, 0.5])
def test_regression_is_the_elastic_net_on_kernel_values(ratio):
    model = L1VMRegressor(RBF(), 0.7, ratio).fit(X, T)
    peer = ElasticNet(0.7 / 70, l1_ratio=ratio, tol=1e-12, max_iter=10**6).fit(K, T)
    np.testing.assert_allclose(model.predict(NEW), peer.predict(RBF()(NEW, X)), atol=1e-4)
    full = np.zeros(70)
    full[model.support_] = model.dual_coef_
    np.testing.assert_allclose(full, peer.coef_, atol=1e-3)
    assert model.solution_.converged and model.solution_.gap < 1e-9


def test_classification_is_logistic_regression_on_kernel_values():
    model = L1VMClassifier(RBF(), 0.5).fit(X, Y)
    peer = LogisticRegression(C=2.0, l1_ratio=1.0, solver="saga", tol=1e-7, max_iter=20_000)
    if peer.penalty == "l2":  # scikit-learn before 1.8
        peer.set_params(penalty="elasticnet")
    peer.fit(K, Y)
    at = RBF()(NEW, X)
    np.testing.assert_allclose(model.decision_function(NEW), peer.decision_function(at), atol=0.02)
    np.testing.assert_allclose(model.predict_proba(NEW), peer.predict_proba(at), atol=0.01)
    assert model.classes_.tolist() == ["down", "up"]


def test_several_classes_are_one_against_the_rest():
    model = L1VMClassifier(RBF(), 0.2).fit(X, THREE)
    for c in range(3):
        one = L1VMClassifier(RBF(), 0.2).fit(X, THREE == c)
        np.testing.assert_allclose(
            model.decision_function(NEW)[:, c], one.decision_function(NEW), atol=1e-9
        )
    p = model.predict_proba(NEW)
    odds = 1 / (1 + np.exp(-model.decision_function(NEW)))
    np.testing.assert_allclose(p, odds / odds.sum(axis=1, keepdims=True))
    assert (p.argmax(axis=1) == model.predict(NEW)).all()
    assert model.dual_coef_.shape == (len(model.support_), 3)


def test_it_is_sparse_and_good():
    iris = load_iris(return_X_y=True)
    model = L1VMClassifier(alpha=0.1).fit(*iris)
    assert model.score(*iris) > 0.95 and len(model.support_) < 20
    assert cross_val_score(L1VMClassifier(alpha=0.1), *iris).mean() > 0.93


# -------------------------------------------------------------------------------- its certificate
@pytest.mark.parametrize("loss", ["logistic", "squared", "squared_hinge"])
@pytest.mark.parametrize("offset", [True, False])
def test_conditions_hold_from_scratch(loss, offset):
    model = L1VM(Matern(1.5), loss, 0.1, 0.8, fit_intercept=offset).fit(
        X, T if loss == "squared" else THREE
    )
    assert model.solution_.converged
    assert certify_sparse(model, X, T if loss == "squared" else THREE) < 1e-12
    assert is_regressor(model) == (loss == "squared") != is_classifier(model)
    assert hasattr(model, "predict_proba") == (loss == "logistic")
    assert hasattr(model, "decision_function") == (loss != "squared")
    assert 0.5 < model.score(X, T if loss == "squared" else THREE) <= 1


def test_the_function_has_the_used_prototypes_only():
    model = L1VMRegressor(RBF(), 0.5).fit(X, T)
    assert len(model.function_) == len(model.support_) < 30 and model.n_prototypes_ == 70
    np.testing.assert_array_equal(model.prototypes_, X[model.support_])
    assert (model.dual_coef_ != 0).all()
    np.testing.assert_allclose(model.function_(NEW), model.predict(NEW), atol=1e-12)


def test_a_limit_that_is_met_is_said():
    with pytest.warns(NotConverged, match="L1VMRegressor: stopped by max_iter"):
        model = L1VMRegressor(RBF(), 1e-3, max_iter=1).fit(X, T)
    assert not model.solution_.converged and np.isfinite(model.predict(NEW)).all()
    with pytest.warns(NotConverged, match="stopped by max_time"):
        L1VMClassifier(RBF(), 1e-3, max_time=1e-9).fit(X, Y)


# --------------------------------------------------------------------------------------- the path
@pytest.mark.parametrize("model", [L1VMRegressor(RBF()), L1VMClassifier(RBF(), l1_ratio=0.7)])
def test_a_path_is_its_separate_fits(model):
    y = T if isinstance(model, L1VMRegressor) else Y
    path = model.path(X, y, n_alphas=12, eps=1e-2)
    assert path.alphas.shape == (12,) and (np.diff(path.alphas) < 0).all()
    assert path.coefs.shape == (12, 70) and path.intercepts.shape == (12,)
    assert path.n_nonzero[0] == 0 and path.n_nonzero[1] > 0
    assert abs(path.alphas[-1] / path.alphas[0] - 1e-2) < 1e-12
    for i in (1, 5, 11):
        alone = clone(model).set_params(alpha=path.alphas[i]).fit(X, y)
        answer = alone._values(NEW)
        np.testing.assert_allclose(path.models[i]._values(NEW), answer, atol=1e-9)
        f = RBF()(NEW, path.prototypes) @ path.coefs[i] + path.intercepts[i]
        np.testing.assert_allclose(f, answer, atol=1e-9)
        assert set(path.prototype_indices[path.coefs[i] != 0]) == set(alone.support_)
    objectives = [m.solution_.primal for m in path.models]
    assert (np.diff(objectives) <= 1e-12).all()  # a smaller penalty never costs more
    sizes = abs(path.coefs).sum(axis=1)
    assert (np.diff(sizes) >= -1e-9).all() or model.l1_ratio < 1
    assert (path.gaps >= 0).all() and path.gaps.max() < 1e-6 * max(objectives)
    assert not hasattr(model, "support_") and "12 penalties" in repr(path)


def test_a_path_of_several_classes_and_of_given_penalties():
    path = L1VMClassifier(RBF()).path(X, THREE, [0.1, 10.0, 1.0])
    assert path.coefs.shape == (3, 3, 70) and path.intercepts.shape == (3, 3)
    assert path.n_nonzero[0] > path.n_nonzero[2] >= path.n_nonzero[1]
    assert path.alphas.tolist() == [0.1, 10.0, 1.0] and path.models[2].alpha == 1.0
    frame = pd.DataFrame(X, columns=["a", "b"])
    named = L1VMRegressor(RBF()).path(frame, T, [0.5]).models[0]
    assert named.feature_names_in_.tolist() == ["a", "b"] and named.n_features_in_ == 2


def test_from_the_first_penalty_on_all_weights_are_zero():
    for model, y in ((L1VMRegressor(RBF(), l1_ratio=0.3), T), (L1VMClassifier(RBF()), THREE)):
        top = model.path(X, y, n_alphas=2).alphas[0]
        zero = clone(model).set_params(alpha=2 * top).fit(X, y)
        assert len(zero.support_) == 0 and len(zero.function_) == 0
        some = clone(model).set_params(alpha=0.98 * top).fit(X, y)
        assert len(some.support_) > 0
    assert np.allclose(L1VMRegressor(RBF(), 1e6).fit(X, T).predict(NEW), T.mean())
    share = L1VMClassifier(RBF(), 1e6).fit(X, Y).predict_proba(NEW)[:, 1]
    np.testing.assert_allclose(share, (Y == "up").mean())


def test_paths_that_are_refused():
    with pytest.raises(InvalidInput, match="l1_ratio=0 no penalty makes all weights zero"):
        L1VMRegressor(l1_ratio=0.0).path(X, T)
    assert len(L1VMRegressor(l1_ratio=0.0).path(X, T, [1.0]).models) == 1
    for bad in ({"alphas": []}, {"alphas": [0.0]}, {"alphas": ["a"]}, {"n_alphas": 0}, {"eps": 1}):
        with pytest.raises(InvalidInput, match=r"L1VMRegressor.path: "):
            L1VMRegressor().path(X, T, **bad)


# --------------------------------------------------------------------------------------- weights
@pytest.mark.parametrize("ratio", [1.0, 0.4])
def test_weights_are_repetition_and_zero_is_absence(ratio):
    w = RNG.integers(0, 3, 70)
    for model, y in ((L1VMRegressor(RBF(), 0.1, ratio), T), (L1VMClassifier(RBF(), 0.1, ratio), Y)):
        a = clone(model).fit(X, y, sample_weight=w)
        b = clone(model).fit(np.repeat(X, w, axis=0), np.repeat(y, w))
        np.testing.assert_allclose(a._values(NEW), b._values(NEW), atol=1e-9)
        assert (w[a.support_] > 0).all()
        np.testing.assert_array_equal(a.prototypes_, X[a.support_])
        matrix = clone(model).set_params(kernel="precomputed")
        c = matrix.fit(K, y, sample_weight=w)
        np.testing.assert_allclose(c._values(RBF()(NEW, X)), a._values(NEW), atol=1e-9)


def test_class_weights():
    rare = np.where(np.arange(70) < 6, "up", "down")
    plain = L1VMClassifier(RBF(), 0.5).fit(X, rare).predict_proba(X)[:, 1].mean()
    model = L1VMClassifier(RBF(), 0.5, class_weight="balanced").fit(X, rare)
    assert model.predict_proba(X)[:, 1].mean() > 2 * plain
    given = L1VMClassifier(RBF(), 0.5, class_weight={"up": 2.0}).fit(X, rare)
    weighted = L1VMClassifier(RBF(), 0.5).fit(X, rare, np.where(rare == "up", 2.0, 1.0))
    np.testing.assert_allclose(given.decision_function(NEW), weighted.decision_function(NEW))
    with pytest.raises(InvalidInput, match="a loss of regression"):
        L1VM(loss="squared", class_weight="balanced").fit(X, T)


# ------------------------------------------------------------------------------------- prototypes
@pytest.mark.parametrize("how", ["random", "kmeans", X[:9] + 0.1])
def test_candidates(how):
    parts = {"prototypes": how, "n_prototypes": 12, "random_state": 0}
    model = L1VMRegressor(RBF(), 0.05, **parts).fit(X, T)
    features = Prototypes(RBF(), **parts).fit(X)
    peer = ElasticNet(0.05 / 70, l1_ratio=1.0, tol=1e-12, max_iter=10**6)
    peer.fit(features.transform(X), T)
    expected = peer.predict(features.transform(NEW))
    np.testing.assert_allclose(model.predict(NEW), expected, atol=1e-3)
    assert model.n_prototypes_ == len(features.get_feature_names_out())
    if isinstance(how, np.ndarray):
        np.testing.assert_array_equal(model.prototypes_, how[model.support_])


def test_columns_of_a_gram_matrix_as_candidates():
    model = L1VMRegressor("precomputed", 0.01, prototypes=[5, 3, 60]).fit(K, T)
    points = L1VMRegressor(RBF(), 0.01, prototypes=X[[5, 3, 60]]).fit(X, T)
    at = RBF()(NEW, X)
    np.testing.assert_allclose(model.predict(at), points.predict(NEW), atol=1e-9)
    assert set(model.prototypes_) <= {5, 3, 60}
    w = np.ones(70)
    w[5] = 0  # not a training row, and a candidate still
    model = L1VMRegressor("precomputed", 0.01, prototypes=[5, 3, 60]).fit(K, T, w)
    points = L1VMRegressor(RBF(), 0.01, prototypes=X[[5, 3, 60]]).fit(X, T, w)
    np.testing.assert_allclose(model.predict(at), points.predict(NEW), atol=1e-9)


# ------------------------------------------------------------------------------------- other data
def test_strings_sparse_rows_frames_and_similarities():
    words = ["aab", "aba", "xyz", "zyx", "aaa", "zzz"] * 2
    y = [0, 0, 1, 1, 0, 1] * 2
    model = L1VMClassifier(lambda s, t: float(len(set(s) & set(t))), 0.01).fit(words, y)
    assert model.score(words, y) == 1.0 and len(model.support_) < 6
    dense = L1VMRegressor(RBF(), 0.1).fit(X, T).predict(NEW)
    sparse = L1VMRegressor(RBF(), 0.1).fit(sp.csr_array(X), T).predict(sp.csr_array(NEW))
    np.testing.assert_allclose(sparse, dense, atol=1e-9)
    frame = pd.DataFrame(X, columns=["a", "b"])
    kernel = RBF().on("a") * RBF().on("b")
    named = L1VMRegressor(kernel, 0.1).fit(frame, T).predict(pd.DataFrame(NEW, columns=["a", "b"]))
    np.testing.assert_allclose(named, dense, atol=1e-9)
    far = -np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=2))  # indefinite: no kernel, a similarity
    model = L1VMRegressor("precomputed", 0.1).fit(far, T)
    assert model.score(far, T) > 0.9 and model.solution_.converged


def test_adding_a_constant_shifts_predictions():
    a = L1VMRegressor(RBF(), 0.1).fit(X, T).predict(NEW)
    b = L1VMRegressor(RBF(), 0.1).fit(X, T + 1000.0).predict(NEW)
    np.testing.assert_allclose(b - 1000.0, a, atol=1e-9)


def test_degenerate_data():
    assert L1VMRegressor().fit([[1.0]], [2.0]).predict([[5.0]]).tolist() == [2.0]
    constant = L1VMRegressor().fit(X, np.full(70, 3.0))
    assert constant.predict(NEW).tolist() == [3.0] * 15 and constant.solution_.converged
    same = L1VMRegressor(alpha=0.1).fit(np.zeros((5, 2)), np.arange(5.0))
    assert same.n_prototypes_ == 1 and np.allclose(same.predict([[0.0, 0.0]]), 2.0)
    huge = L1VMRegressor(Linear(), 1e9).fit(1e6 * X, X[:, 0])
    assert huge.score(1e6 * X, X[:, 0]) > 0.9
    with pytest.raises(InvalidInput, match="L1VMClassifier: y has one class only"):
        L1VMClassifier().fit(X, np.zeros(70, dtype=int))
    with pytest.raises(InvalidInput, match="L1VMRegressor: y holds 1e"):
        L1VMRegressor().fit(X, np.full(70, 1e200) * np.sign(X[:, 0]))


# ---------------------------------------------------------------------------------------- refusals
@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"alpha": 0.0}, "alpha=0.0; give a finite number > 0"),
        ({"alpha": -1}, "alpha=-1"),
        ({"alpha": np.inf}, "alpha=inf"),
        ({"alpha": "loo"}, "alpha='loo'"),
        ({"l1_ratio": 1.5}, "l1_ratio=1.5"),
        ({"l1_ratio": None}, "l1_ratio=None"),
        ({"tol": 0}, "tol=0"),
        ({"max_iter": 0}, "max_iter=0"),
        ({"fit_intercept": "no"}, "fit_intercept='no'"),
        ({"loss": "hinge"}, "loss='hinge'; give one of 'squared', 'logistic', 'squared_hinge'"),
        ({"loss": 3}, "loss"),
        ({"prototypes": "some"}, "prototypes='some'"),
    ],
)
def test_refusals(params, text):
    model = L1VM(RBF(), "squared", 0.1).fit(X, T)
    before = model.predict(NEW)
    with pytest.raises(InvalidInput, match=f"L1VM: .*{text}|L1VM: {text}"):
        model.set_params(**params).fit(X, T)
    model.set_params(loss="squared")
    np.testing.assert_array_equal(model.predict(NEW), before)


def test_the_memory_budget_is_kept():
    with (
        mercer.config(memory=60_000),
        pytest.raises(MemoryBudgetExceeded, match="70 points with 70 prototypes"),
    ):
        L1VMRegressor(RBF()).fit(X, T)
    with mercer.config(memory=60_000), warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        few = L1VMRegressor(RBF(), 0.1, prototypes="random", n_prototypes=8).fit(X, T)
        assert len(few.support_) <= 8


# ------------------------------------------------------------------------------------------ files
def test_saved_and_loaded(tmp_path):
    for model, data, y in (
        (L1VMRegressor(RBF(), 0.1), X, T),
        (L1VMRegressor(RBF(), 1e6), X, T),
        (L1VMClassifier(Linear(), 0.1), sp.csr_array(X), THREE),
        (L1VM("precomputed", "squared_hinge", 0.1), K, Y),
    ):
        fitted = model.fit(data, y)
        mercer.save(fitted, tmp_path / "m.mercer")
        again = mercer.load(tmp_path / "m.mercer")
        np.testing.assert_array_equal(again.predict(data), fitted.predict(data))
        assert again.solution_.gap == fitted.solution_.gap


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("support_", np.arange(3)),
        ("dual_coef_", np.zeros((2, 3))),
        ("intercept_", np.zeros(2)),
        ("intercept_", np.nan),
        ("prototypes_", X[:2, :1]),
        ("classes_", np.array([0, 1])),
        ("n_prototypes_", None),
    ],
)
def test_a_state_that_does_not_fit_is_refused(name, value):
    model = L1VMRegressor(RBF(), 0.1).fit(X, T)
    model._check_state()
    if value is None:
        delattr(model, name)
    else:
        setattr(model, name, value)
    with pytest.raises(ModelFileError):
        model._check_state()


def test_searched_by_scikit_learn():
    grid = {"kernel__length_scale": [0.5, 1.0], "alpha": [0.01, 0.1]}
    found = GridSearchCV(L1VMRegressor(), grid, cv=3).fit(X, T)
    assert found.best_score_ > 0.5 and set(found.best_params_) == set(grid)


def test_logarithms_of_probabilities_are_finite_where_these_underflow():
    three = np.digitize(X[:, 0], [-0.5, 0.5])
    for labels in (Y, three):
        model = L1VMClassifier(Linear(), 1e-2).fit(X, labels)
        p = model.predict_proba(NEW)
        np.testing.assert_allclose(np.log(p), model.predict_log_proba(NEW), atol=1e-12)
        np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-14)
        far = model.predict_log_proba(1e4 * NEW)
        assert np.isfinite(far).all() and far.min() < -800
        assert np.isfinite(model.predict_proba(1e4 * NEW)).all()
    assert not hasattr(L1VMRegressor(), "predict_log_proba")


def test_weights_too_large_to_be_squared():
    with pytest.raises(InvalidInput, match="divide sample_weight and alpha by the same number"):
        L1VMClassifier(RBF()).fit(X, Y, sample_weight=np.full(len(X), 1e300))
    with pytest.raises(InvalidInput, match="max_time=-1; give a finite number > 0"):
        L1VMClassifier(RBF(), max_time=-1).fit(X, Y)
