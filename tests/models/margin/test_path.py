"""SVC.path: every solution equals a cold fit, folds equal refits, warm starts save steps."""

from __future__ import annotations

import re
import time
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris, load_wine, make_classification
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    RepeatedStratifiedKFold,
    StratifiedKFold,
    cross_val_score,
)

from mercer import RBF, SVC
from mercer.errors import InvalidInput, NotConverged
from mercer.models.margin.folds import stratified_folds
from mercer.models.margin.machines import machine_values

rng = np.random.default_rng(2)
CS = np.logspace(-2, 2, 7)
X, Y = make_classification(140, 5, n_informative=3, flip_y=0.1, random_state=3)
IRIS = load_iris(return_X_y=True)


@pytest.mark.parametrize("offset", [True, False])
@pytest.mark.parametrize(
    "data, kind",
    [((X, Y), "ovo"), (IRIS, "ovo"), (IRIS, "ovr")],
    ids=["two", "pairs", "rest"],
)
def test_every_solution_is_that_of_a_cold_fit(data, kind, offset):
    x, y = data
    w = rng.uniform(0.2, 3, len(y))
    model = SVC(RBF(1.5), tol=1e-6, multi_class=kind, fit_intercept=offset)
    path = model.path(x, y, CS, sample_weight=w)
    np.testing.assert_array_equal(path.Cs, CS)
    for C, member, dual, gap, count in zip(
        path.Cs, path.models, path.dual, path.gap, path.n_support, strict=True
    ):
        cold = SVC(RBF(1.5), float(C), tol=1e-6, multi_class=kind, fit_intercept=offset)
        cold.fit(x, y, sample_weight=w)
        assert repr(member) == repr(cold)
        assert dual == member.solution_.dual == pytest.approx(cold.solution_.dual, rel=1e-5)
        assert 0 <= gap <= 1e-5 * abs(dual) + 1e-12 and member.solution_.converged
        assert count == len(member.support_)
        np.testing.assert_allclose(
            machine_values(member, x),
            machine_values(cold, x),
            atol=1e-3 * np.abs(machine_values(cold, x)).max(),
        )
        same = member.predict(x) == cold.predict(x)
        assert same.mean() > 0.99
    assert not hasattr(model, "support_") and model.C == 1.0


def test_models_belong_to_the_values_as_given():
    given = [1.0, 0.1, 10.0, 1.0]
    a = SVC().path(X, Y, given, cv=3)
    b = SVC().path(X, Y, [0.1, 1.0, 10.0], cv=3)
    assert a.Cs.tolist() == given and [m.C for m in a.models] == given
    at = [1, 0, 2, 1]
    for name in ("dual", "gap", "n_support", "n_iter", "fold_iter", "scores", "losses"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name)[at])
    assert a.best_C == b.best_C and a.best_model.C == a.best_C
    assert "4 values of C from 0.1 to 10" in repr(a)
    assert len(SVC().path(X, Y, 2.0).models) == 1


def test_without_folds_there_are_no_scores():
    path = SVC().path(X, Y, [1.0, 0.1])
    assert path.scores is None and path.losses is None and path.fold_iter is None
    for name in ("mean_score", "best_index", "best_C", "best_model"):
        with pytest.raises(InvalidInput, match=rf"{name}.*cv=5"):
            getattr(path, name)


def test_problems_that_do_not_converge_are_counted():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        SVC(max_iter=2).path(*IRIS, [10.0, 100.0], cv=5)
    told = [str(w.message) for w in caught]
    assert len(told) == 2 and all(w.category is NotConverged for w in caught)
    assert re.match(r"SVC: \d of 6 problems of the path did not converge", told[0])
    assert re.match(r"SVC: \d+ of 30 problems in the folds of the path did not", told[1])
    assert "SMO" not in "".join(told)


def test_time_covers_the_folds():
    x, y = make_classification(1500, 10, flip_y=0.4, random_state=0)
    began = time.monotonic()
    with pytest.warns(NotConverged, match=r"SVC: .*folds"):
        SVC(RBF(1.0), max_time=0.2).path(x, y, [1e6], cv=10)
    assert time.monotonic() - began < 10


def test_warm_starts_save_steps():
    x, y = make_classification(900, 10, n_informative=5, flip_y=0.05, random_state=0)
    grid = np.logspace(-2, 1, 20)
    path = SVC(RBF(4.0)).path(x, y, grid)
    cold = sum(int(SVC(RBF(4.0), C).fit(x, y).n_iter_.sum()) for C in grid)
    assert path.n_iter.sum() < 0.65 * cold
    single = int(SVC(RBF(4.0), grid[-1]).fit(x, y).n_iter_.sum())
    assert path.n_iter.sum() < 6 * single
    folds = SVC(RBF(4.0)).path(x, y, grid, cv=5)
    assert folds.fold_iter.sum() < 0.6 * 5 * cold
    np.testing.assert_array_equal(folds.n_iter, path.n_iter)


# --------------------------------------------------------------------------------------- the folds
@pytest.mark.parametrize("kind", ["ovo", "ovr"])
@pytest.mark.parametrize("load", [None, load_wine])
def test_scores_are_those_of_refits(load, kind):
    x, y = (X, Y) if load is None else load(return_X_y=True)
    x = (x - x.mean(0)) / x.std(0)
    cv = StratifiedKFold(4, shuffle=True, random_state=1)
    path = SVC(RBF(3.0), multi_class=kind).path(x, y, CS, cv=cv)
    for C, scores in zip(CS, path.scores, strict=True):
        refits = cross_val_score(SVC(RBF(3.0), C, multi_class=kind), x, y, cv=cv)
        np.testing.assert_allclose(scores, refits, atol=1.01 / (len(y) // 4))
    search = GridSearchCV(SVC(RBF(3.0), multi_class=kind), {"C": CS}, cv=cv).fit(x, y)
    assert path.mean_score.max() == pytest.approx(search.best_score_, abs=0.01)
    assert path.best_model is path.models[path.best_index] and path.best_C in CS
    assert path.mean_score[path.best_index] == path.mean_score.max()


def test_a_number_of_folds_draws_stratified_ones():
    path = SVC(random_state=4).path(X, Y, [1.0], cv=5)
    fold = stratified_folds(Y, 5, 4)
    pairs = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(5)]
    np.testing.assert_array_equal(path.scores, SVC().path(X, Y, [1.0], cv=pairs).scores)
    assert (path.losses != SVC(random_state=5).path(X, Y, [1.0], cv=5).losses).any()


def test_splitters_of_other_kinds():
    assert SVC().path(X, Y, [1.0], cv=KFold(3)).scores.shape == (1, 3)
    cv = RepeatedStratifiedKFold(n_splits=2, n_repeats=3, random_state=0)
    assert SVC().path(X, Y, [0.1, 1.0], cv=cv).scores.shape == (2, 6)
    one = SVC().path(X, Y, [1.0], cv=[(np.arange(100), np.arange(100, 140))])
    rest = SVC(one.models[0].kernel_).fit(X[:100], Y[:100])
    assert one.scores[0, 0] == rest.score(X[100:], Y[100:])


def test_weights_count_in_fits_and_scores():
    w = rng.integers(0, 3, len(Y)).astype(float)
    cv = [(np.arange(0, 140, 2), np.arange(1, 140, 2))]
    path = SVC(RBF(2.0)).path(X, Y, [1.0], cv=cv, sample_weight=w)
    train, test = cv[0]
    refit = SVC(RBF(2.0)).fit(X[train], Y[train], sample_weight=w[train])
    score = refit.score(X[test], Y[test], sample_weight=w[test])
    assert path.scores[0, 0] == pytest.approx(score)
    f = refit.decision_function(X[test])
    hinge = np.average(np.maximum(0, 1 - (2 * Y[test] - 1) * f), weights=w[test])
    assert path.losses[0, 0] == pytest.approx(hinge, rel=1e-3)


def test_ties_go_to_the_smaller_loss():
    x = np.r_[rng.normal(-3, 0.3, (30, 2)), rng.normal(3, 0.3, (30, 2))]
    y = np.repeat([0, 1], 30)
    path = SVC(RBF(3.0)).path(x, y, [1e-3, 1e-2, 1.0, 10.0], cv=5)
    best = path.scores.mean(1) == 1.0
    assert best.sum() > 1
    losses = np.where(best, path.losses.mean(1), np.inf)
    assert path.best_index == np.argmax(losses <= 1.01 * losses.min())
    # beyond a large C nothing changes, and the smallest of these is taken
    wide = SVC(RBF(3.0)).path(x, y, [1.0, 1e3, 1e4, 1e5], cv=5)
    np.testing.assert_allclose(wide.dual[1:], wide.dual[1], rtol=1e-3)
    assert wide.best_C <= 1e3


@pytest.mark.parametrize("counts", [(1, 30), (1, 1, 20), (2, 2)])
def test_folds_without_a_class(counts):
    y = np.repeat(np.arange(len(counts)), counts)
    x = rng.standard_normal((len(y), 2))
    for kind in ("ovo", "ovr"):
        path = SVC(multi_class=kind).path(x, y, [0.1, 10.0], cv=min(5, len(y)))
        assert np.isfinite(path.losses).all() and (path.scores <= 1).all()


# ----------------------------------------------------------------------------------- kinds of data
def test_precomputed_sparse_and_frames():
    K = RBF(2.0)(X)
    a = SVC(RBF(2.0)).path(X, Y, CS, cv=3)
    b = SVC("precomputed").path(K, Y, CS, cv=3)
    np.testing.assert_allclose(a.dual, b.dual, rtol=1e-6)
    np.testing.assert_array_equal(a.scores, b.scores)
    np.testing.assert_array_equal(b.models[2].predict(K), a.models[2].predict(X))
    c = SVC(RBF(2.0)).path(sp.csr_array(X), Y, CS, cv=3)
    np.testing.assert_allclose(a.dual, c.dual, rtol=1e-6)
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("abcde"))
    named = SVC().path(frame, Y, [1.0]).models[0]
    assert list(named.feature_names_in_) == list("abcde") and named.n_features_in_ == 5
    assert (named.predict(frame) == SVC().fit(frame, Y).predict(frame)).all()


def test_models_have_probabilities_where_asked_for():
    path = SVC(probability=True).path(X, Y, [0.1, 1.0])
    for C, member in zip(path.Cs, path.models, strict=True):
        cold = SVC(C=C, probability=True).fit(X, Y)
        np.testing.assert_allclose(member.predict_proba(X), cold.predict_proba(X), atol=1e-2)


def test_string_labels_and_repr():
    names = np.array(["no", "yes"])[Y]
    path = SVC().path(X, names, [0.1, 1.0], cv=3)
    assert set(path.best_model.predict(X)) <= {"no", "yes"}
    assert "best C" in repr(path) and "2 values" in repr(path)
    assert "best" not in repr(SVC().path(X, Y, [1.0]))


def test_refusals():
    for bad in ([], [0.0], [-1.0], [np.nan], [np.inf], "x", None, [[]]):
        with pytest.raises(InvalidInput, match=r"SVC\.path: Cs"):
            SVC().path(X, Y, bad)
    for bad in (1, 141, "five", 2.5):
        with pytest.raises(InvalidInput, match="cv"):
            SVC().path(X, Y, [1.0], cv=bad)
    with pytest.raises(InvalidInput, match="cv=5"):
        _ = SVC().path(X, Y, [1.0]).best_C
    with pytest.raises(InvalidInput, match="NaN"):
        SVC().path(X * np.nan, Y, [1.0])
    with pytest.raises(InvalidInput, match="class"):
        SVC().path(X, np.zeros(140), [1.0])
