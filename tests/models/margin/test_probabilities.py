"""Probabilities of SVC: agreement with predictions, calibration, folds, small and odd data."""

from __future__ import annotations

import pickle
import time
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_iris, load_wine, make_classification
from sklearn.exceptions import NotFittedError
from sklearn.svm import SVC as LibSVC

import mercer
from mercer import RBF, SVC, NuSVC
from mercer.errors import InvalidInput, ModelFileError, NotConverged, speaking_for
from mercer.models.margin.folds import (
    deal_folds,
    fold_machines,
    splits,
    stratified_folds,
    values_at,
)
from mercer.models.margin.problems import gram_rows

rng = np.random.default_rng(5)
IRIS = load_iris(return_X_y=True)


def scaled(load):
    X, y = load(return_X_y=True)
    return (X - X.mean(0)) / X.std(0), y


def two_classes(n=120, seed=0, **options):
    options = {"flip_y": 0.1, "class_sep": 0.8, **options}
    return make_classification(n, 6, n_informative=4, random_state=seed, **options)


def brier(P, y):
    return ((P - np.eye(P.shape[1])[y]) ** 2).sum(axis=1).mean()


# -------------------------------------------------------------------------------------- agreement
@pytest.mark.parametrize("weights", [None, [0.9], [0.2]], ids=["even", "few", "many"])
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_two_classes_agree_and_never_fall(C, weights):
    X, y = two_classes(weights=weights)
    model = SVC(C=C, probability=True).fit(X, y)
    new = 2 * rng.standard_normal((400, 6))
    f, P = model.decision_function(new), model.predict_proba(new)
    order = np.argsort(f)
    assert (np.diff(P[order, 1]) >= 0).all()
    assert ((P[:, 1] > 0.5) == (f > 0)).all()
    np.testing.assert_array_equal(model.classes_[P.argmax(1)], model.predict(new))
    np.testing.assert_allclose(P.sum(1), 1.0, rtol=1e-12)
    assert len(np.unique(P[:, 1])) == len(np.unique(f))
    plain = SVC(C=C).fit(X, y)
    np.testing.assert_array_equal(plain.decision_function(new), f)
    np.testing.assert_array_equal(plain.predict(new), model.predict(new))


@pytest.mark.parametrize("kind", ["ovo", "ovr"])
@pytest.mark.parametrize("load", [load_iris, load_wine])
def test_several_classes_agree(load, kind):
    X, y = scaled(load)
    model = SVC(multi_class=kind, probability=True, C=3.0).fit(X[::2], y[::2])
    new = np.r_[X, 4 * rng.standard_normal((300, X.shape[1]))]
    P = model.predict_proba(new)
    np.testing.assert_array_equal(P.argmax(1), model.predict(new))
    np.testing.assert_allclose(P.sum(1), 1.0, rtol=1e-12)
    assert (P >= 0).all()
    np.testing.assert_array_equal(
        SVC(multi_class=kind, C=3.0).fit(X[::2], y[::2]).predict(new), model.predict(new)
    )
    np.testing.assert_allclose(np.exp(model.predict_log_proba(new)), P, rtol=1e-12)
    assert model.probA_.shape == model.probB_.shape == (3,) and (model.probA_ < 0).all()


def test_logarithms_of_two_classes_do_not_underflow():
    X = np.r_[rng.normal(-1, 0.2, (40, 2)), rng.normal(1, 0.2, (40, 2))]
    y = np.repeat([0, 1], 40)
    model = SVC("linear", probability=True).fit(X, y)
    log = model.predict_log_proba([[1e4, 1e4]])
    assert np.isfinite(log).all() and log[0, 0] < -1000


# ------------------------------------------------------------------------------------- calibration
def trials(name):
    for seed in range(6):
        r = np.random.default_rng(seed)
        if name == "breast cancer":
            X, y = scaled(load_breast_cancer)
        elif name == "iris":
            X, y = scaled(load_iris)
        elif name == "tiny":
            X, y = two_classes(1000, seed)
        elif name == "noisy":
            X, y = two_classes(1200, seed, flip_y=0.4)
        elif name == "three":
            X, y = two_classes(1200, seed, n_classes=3, n_clusters_per_class=1)
        elif name == "uneven":
            X, y = two_classes(1200, seed, weights=[0.85])
        else:
            X, y = two_classes(1200, seed)
        n = {"tiny": 30, "breast cancer": 150, "iris": 75}.get(name, 200)
        order = r.permutation(len(y))
        yield X[order[:n]], y[order[:n]], X[order[n:]], y[order[n:]]


@pytest.mark.parametrize(
    "name, limit",
    [
        ("even", 1.01),
        ("noisy", 1.01),
        ("tiny", 1.01),
        ("breast cancer", 1.03),
        ("iris", 1.0),
        ("three", 1.0),
        # here libsvm's threshold is off, and agreement with it has a price
        ("uneven", 1.08),
    ],
)
def test_calibration_is_that_of_scikit_learn(name, limit):
    ours, theirs = [], []
    for X, y, new, truth in trials(name):
        model = SVC(probability=True).fit(X, y)
        other = CalibratedClassifierCV(LibSVC(), ensemble=False, cv=5).fit(X, y)
        ours.append(brier(model.predict_proba(new), truth))
        theirs.append(brier(other.predict_proba(new), truth))
    assert np.mean(ours) <= limit * np.mean(theirs)


def test_noise_gives_the_frequency_of_the_classes():
    X, y = rng.standard_normal((300, 4)), (rng.random(300) < 0.2).astype(int)
    P = SVC(probability=True).fit(X, y).predict_proba(rng.standard_normal((500, 4)))
    assert P[:, 1].mean() == pytest.approx(y.mean(), abs=0.05)
    assert P[:, 1].std() < 0.1


def test_values_come_from_points_held_out():
    # a machine that learned its rows by heart is sure of them, and wrong about all others
    X, y = rng.standard_normal((80, 3)), rng.integers(0, 2, 80)
    P = SVC(RBF(1e-3), C=1e3, probability=True).fit(X, y).predict_proba(X)
    assert P.max() < 0.7


# --------------------------------------------------------------------------------------- the folds
def test_folds_are_those_of_cold_fits():
    for kind, (X, y) in {"ovo": scaled(load_iris), "ovr": scaled(load_wine)}.items():
        model = SVC(multi_class=kind, tol=1e-6, probability=True, C=2.0).fit(X, y)
        data = model._prepare(X, y, None)
        rows = gram_rows(data.kernel, data.X)
        fold = stratified_folds(y)
        for k in range(5):
            train, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
            parts = fold_machines(model, data, rows, train, np.zeros((3, len(y))))
            cold = SVC(model.kernel_, 2.0, multi_class=kind, tol=1e-6).fit(
                X[fold != k], y[fold != k]
            )
            want = (
                cold.decision_function(X[test])
                if kind == "ovr"
                else (cold.pairwise_decision_function(X[test]))
            )
            np.testing.assert_allclose(values_at(rows, parts, test), want, atol=2e-4)


def test_folds_begin_at_the_full_solution():
    X, y = two_classes(600, flip_y=0.02, class_sep=1.5)
    model = SVC(C=0.5).fit(X, y)
    data = model._prepare(X, y, None)
    rows = gram_rows(data.kernel, data.X)
    fold = stratified_folds(y)
    trains = [np.flatnonzero(fold != k) for k in range(5)]
    full = np.zeros((1, len(y)))
    full[0, model.support_] = model.dual_coef_[0]

    def steps(starts):
        parts = [fold_machines(model, data, rows, train, starts)[0] for train in trains]
        return sum(m.solution.n_iter for m in parts)

    assert steps(full) < 0.7 * steps(np.zeros_like(full))


def test_stratified_folds():
    y = np.repeat([0, 1, 2], [50, 13, 2])
    fold = stratified_folds(y)
    for c, most in ((0, 10), (1, 3), (2, 1)):
        assert np.bincount(fold[y == c], minlength=5).max() <= most
    assert np.ptp(np.bincount(fold)) <= 1
    np.testing.assert_array_equal(fold, stratified_folds(y))
    np.testing.assert_array_equal(fold, stratified_folds(y, random_state=0))
    assert (fold != stratified_folds(y, random_state=1)).any()
    names = np.array(["z", "a", "m"])[y]  # other names in another order
    np.testing.assert_array_equal(fold, stratified_folds(names))
    assert stratified_folds(np.array([0, 1])).max() == 1
    with pytest.raises(InvalidInput, match="random_state"):
        stratified_folds(y, random_state="x")


def test_a_class_missing_from_training_says_the_other():
    X, y = rng.standard_normal((9, 2)), np.array([0] * 4 + [1] * 4 + [2])
    for kind in ("ovo", "ovr"):
        model = SVC(multi_class=kind).fit(X, y)
        data = model._prepare(X, y, None)
        rows = gram_rows(data.kernel, data.X)
        start = np.zeros((3, 9))
        parts = fold_machines(model, data, rows, np.arange(8), start)
        values = values_at(rows, parts, np.array([8]))
        if kind == "ovo":
            assert values[0, 1] == values[0, 2] == 1.0  # class 0, class 1; not class 2
        else:
            assert values[0, 2] == -1.0
        nothing = fold_machines(model, data, rows, np.array([8]), start)
        assert values_at(rows, nothing, np.arange(2)).shape == (2, 3)


def test_splits_leave_out_rows_without_weight():
    X, y = two_classes(30)
    w = np.ones(30)
    w[[3, 17]] = 0
    model = SVC()
    data = model._prepare(X, y, w)
    for cv in (4, [(np.arange(20), np.arange(20, 30)), (np.arange(10, 30), np.arange(10))]):
        for train, test in splits(cv, y, data, None):
            assert not set(train) & set(test)
            assert set(data.kept[train]) <= set(range(30)) - {3, 17}
            np.testing.assert_array_equal(data.y[test], y[data.kept[test]])
    for bad in (1, 31, 0, -2, True, "five", 2.5, None, [(np.arange(5), [99])], [([0], [3])]):
        with pytest.raises(InvalidInput), speaking_for("test"):
            splits(bad, y, data, None)


# ------------------------------------------------------------------------------- names and weights
def test_names_and_order_of_the_classes_make_no_difference():
    X, y = IRIS[0][::2], IRIS[1][::2]
    P = SVC(tol=1e-8, probability=True).fit(X, y).predict_proba(IRIS[0])
    names = np.array(["zebra", "ant", "mole"])[y]
    model = SVC(tol=1e-8, probability=True).fit(X, names)
    order = np.searchsorted(model.classes_, ["zebra", "ant", "mole"])
    np.testing.assert_allclose(model.predict_proba(IRIS[0])[:, order], P, atol=1e-5)
    two = y < 2
    P = SVC(tol=1e-8, probability=True).fit(X[two], y[two]).predict_proba(IRIS[0])
    Q = SVC(tol=1e-8, probability=True).fit(X[two], names[two]).predict_proba(IRIS[0])
    np.testing.assert_allclose(Q[:, ::-1], P, atol=1e-5)


def test_class_weights_are_weights_of_the_population():
    X, y = two_classes(200, weights=[0.85])
    by_class = SVC(RBF(2.0), class_weight={0: 1.0, 1: 4.0}, probability=True).fit(X, y)
    by_row = SVC(RBF(2.0), probability=True).fit(X, y, sample_weight=np.where(y == 1, 4.0, 1.0))
    np.testing.assert_allclose(by_class.predict_proba(X), by_row.predict_proba(X), atol=1e-9)
    plain = SVC(RBF(2.0), probability=True).fit(X, y)
    assert by_class.predict_proba(X)[:, 1].mean() > plain.predict_proba(X)[:, 1].mean() + 0.1


@pytest.mark.parametrize("kind", ["two", "ovo", "ovr"])
@pytest.mark.parametrize("cls", [SVC, NuSVC])
def test_a_weight_is_a_repetition_and_order_makes_no_difference(cls, kind):
    options = {} if kind == "two" else {"n_classes": 3, "n_clusters_per_class": 1}
    X, y = two_classes(90, seed=3, **options)
    w = rng.integers(1, 4, len(y))
    many = np.repeat(np.arange(len(y)), w)
    mixed = rng.permutation(many)
    model = cls(RBF(2.0), 0.3, multi_class="ovr" if kind == "ovr" else "ovo", probability=True)
    P = clone(model).fit(X, y, sample_weight=w).predict_proba(X)
    for rows, weights in (
        (many, None),
        (mixed, None),
        (rng.permutation(len(y)), w),
        (np.r_[many, many], 0.5),
    ):
        given = w[rows] if weights is w else weights
        again = clone(model).fit(X[rows], y[rows], sample_weight=given)
        np.testing.assert_allclose(again.predict_proba(X), P, atol=1e-5)
    other = clone(model).set_params(random_state=1).fit(X, y, sample_weight=w)
    assert np.abs(other.predict_proba(X) - P).max() > 1e-4


def test_order_makes_no_difference_beyond_the_tolerance_on_more_rows():
    X, y = two_classes(800, seed=1)
    P = SVC(C=10.0, probability=True).fit(X, y).predict_proba(X[:100])
    mix = rng.permutation(800)
    Q = SVC(C=10.0, probability=True).fit(X[mix], y[mix]).predict_proba(X[:100])
    np.testing.assert_allclose(P, Q, atol=1e-3)


def test_dealt_folds():
    X, y = two_classes(203, n_classes=3, n_clusters_per_class=1)
    model = SVC(RBF(1.0))
    data = model._prepare(X, y, None)
    fold, counts = deal_folds(data, gram_rows(data.kernel, data.X))
    np.testing.assert_array_equal(counts, np.bincount(y))
    for c in range(3):
        assert np.ptp(np.bincount(fold[y == c], minlength=5)) <= 1
    assert np.ptp(np.bincount(fold)) <= 1
    # points that never meet have the same key, yet are no copies of one another
    data = SVC(RBF(1e-6))._prepare(X, y, None)
    far, counts = deal_folds(data, gram_rows(data.kernel, data.X))
    np.testing.assert_array_equal(counts, np.bincount(y))
    assert np.ptp(np.bincount(far)) <= 1
    # copies stay together, also a thousand of them
    data = SVC(RBF(1.0))._prepare(np.repeat(X, 7, axis=0), np.repeat(y, 7), None)
    copies, counts = deal_folds(data, gram_rows(data.kernel, data.X))
    np.testing.assert_array_equal(copies, np.repeat(fold, 7))
    data = SVC(RBF(1.0))._prepare(np.zeros((1000, 2)), np.arange(1000) % 2, None)
    copies, counts = deal_folds(data, gram_rows(data.kernel, data.X))
    assert counts.tolist() == [1, 1] and len(np.unique(copies)) == 2


def test_margin_points_are_not_taken_for_one():
    # all of them have decision value ±1
    X, y = rng.standard_normal((60, 20)), np.tile([0, 1], 30)
    model = SVC(RBF(3.0), C=1e4).fit(X, y)
    assert (model.support_kind_ == "margin").sum() > 50
    data = model._prepare(X, y, None)
    assert np.ptp(np.bincount(deal_folds(data, gram_rows(data.kernel, data.X))[0])) <= 1


# ------------------------------------------------------------------------------------------- NuSVC
def test_nu_has_probabilities():
    X, y = two_classes(200)
    model = NuSVC(nu=0.4, probability=True, random_state=3).fit(X, y)
    P = model.predict_proba(X)
    np.testing.assert_array_equal(P.argmax(1), model.predict(X))
    assert brier(P, y) < brier(np.tile(np.bincount(y) / 200, (200, 1)), y)
    np.testing.assert_array_equal(NuSVC(nu=0.4).fit(X, y).predict(X), model.predict(X))
    same = SVC(model.kernel_, model.C_, probability=True, random_state=3).fit(X, y)
    np.testing.assert_allclose(P, same.predict_proba(X), atol=2e-2)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), P)
    with pytest.raises(AttributeError, match=r"NuSVC: .*probability=True"):
        NuSVC(nu=0.4).fit(X, y).predict_proba(X)


@pytest.mark.parametrize("kind", ["ovo", "ovr"])
def test_nu_at_its_largest_has_probabilities(kind):
    # on a part of the rows so large a nu would be infeasible
    y = np.repeat([0, 1, 2], [11, 13, 17])
    X = rng.standard_normal((41, 2)) + y[:, None]
    nu = 2 * 11 / (28 if kind == "ovo" else 41)
    model = NuSVC(RBF(1.0), nu=nu, multi_class=kind, probability=True).fit(X, y)
    P = model.predict_proba(X)
    np.testing.assert_array_equal(P.argmax(1), model.predict(X))
    assert (P.argmax(1) == y).mean() > 0.5


def test_rows_of_weight_zero_are_not_there():
    X, y = two_classes(90, n_classes=3, n_clusters_per_class=1)
    w = np.r_[np.zeros(20), np.ones(70)]
    a = SVC(probability=True).fit(X, y, sample_weight=w)
    b = SVC(probability=True).fit(X[20:], y[20:])
    np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(X), atol=1e-6)


def test_the_same_seed_gives_the_same_bits():
    X, y = two_classes(150)
    one, two = (SVC(probability=True).fit(X, y).predict_proba(X) for _ in range(2))
    np.testing.assert_array_equal(one, two)
    np.random.seed(1)  # noqa: NPY002
    three = SVC(probability=True).fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(one, three)
    other = SVC(probability=True, random_state=7).fit(X, y).predict_proba(X)
    assert (one != other).any() and np.abs(one - other).max() < 0.2
    with pytest.raises(InvalidInput, match="random_state"):
        SVC(probability=True, random_state="x").fit(X, y)


# ------------------------------------------------------------------------------------ odd and small
@pytest.mark.parametrize("counts", [(1, 1), (1, 5), (2, 1, 1), (3, 3), (1, 40), (1, 1, 1, 1)])
@pytest.mark.parametrize("kind", ["ovo", "ovr"])
def test_tiny_data(counts, kind):
    y = np.repeat(np.arange(len(counts)), counts)
    X = rng.standard_normal((len(y), 2)) + 3 * y[:, None]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = SVC(multi_class=kind, probability=True).fit(X, y)
    told = [str(w.message) for w in caught]
    assert len(told) == (min(counts) == 1)
    assert all(t.startswith("SVC: class") and "not calibrated" in t for t in told)
    P = model.predict_proba(X)
    assert np.isfinite(P).all()
    np.testing.assert_allclose(P.sum(1), 1.0)
    np.testing.assert_array_equal(P.argmax(1), model.predict(X))


@pytest.mark.filterwarnings("ignore::mercer.errors.NotConverged")
@pytest.mark.parametrize(
    "X, y",
    [
        (np.zeros((20, 2)), np.tile([0, 1], 10)),
        (np.repeat(rng.standard_normal((5, 2)), 4, axis=0), np.tile([0, 1, 2, 2], 5)),
        (1e8 * rng.standard_normal((30, 2)), np.tile([0, 1], 15)),
        (1e-8 * rng.standard_normal((30, 2)), np.tile([0, 1, 2], 10)),
    ],
    ids=["constant", "contradictory", "huge", "small"],
)
def test_degenerate_data(X, y):
    model = SVC(RBF(), probability=True).fit(X, y)
    P = model.predict_proba(X)
    assert np.isfinite(P).all()
    np.testing.assert_array_equal(P.argmax(1), model.predict(X))


@pytest.mark.parametrize("options", [{"fit_intercept": False}, {"class_weight": "balanced"}])
def test_other_settings(options):
    X, y = two_classes(100)
    model = SVC(probability=True, **options).fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X).argmax(1), model.predict(X))


def test_precomputed_and_sparse_say_the_same():
    X, y = IRIS
    model = SVC(RBF(2.0), probability=True).fit(X, y)
    K = RBF(2.0)(X)
    given = SVC("precomputed", probability=True).fit(K, y)
    np.testing.assert_allclose(given.predict_proba(K), model.predict_proba(X), atol=1e-6)
    import scipy.sparse as sp

    sparse = SVC(RBF(2.0), probability=True).fit(sp.csr_matrix(X), y)
    np.testing.assert_allclose(
        sparse.predict_proba(sp.csr_matrix(X)), model.predict_proba(X), atol=1e-6
    )


def test_exists_only_when_asked_for():
    X, y = two_classes(60)
    plain = SVC().fit(X, y)
    assert not hasattr(plain, "predict_proba") and not hasattr(plain, "predict_log_proba")
    assert not hasattr(plain, "probA_")
    for name in ("predict_proba", "predict_log_proba"):
        with pytest.raises(AttributeError, match=f"SVC: .*{name}.* probability=True"):
            getattr(plain, name)(X)
    assert callable(SVC.predict_proba) and "probability of each class" in SVC.predict_proba.__doc__
    asked = SVC(probability=True)
    assert hasattr(asked, "predict_proba")
    with pytest.raises(NotFittedError):
        asked.predict_proba(X)
    plain.probability = True
    with pytest.raises(NotFittedError, match="probability=False"):
        plain.predict_proba(X)
    asked.fit(X, y)
    asked.set_params(probability=False).fit(X, y)
    assert not hasattr(asked, "probA_")


def test_files_and_copies(tmp_path):
    X, y = IRIS
    model = SVC(probability=True).fit(X, y)
    P = model.predict_proba(X)
    mercer.save(model, tmp_path / "m.mercer")
    np.testing.assert_array_equal(mercer.load(tmp_path / "m.mercer").predict_proba(X), P)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(X), P)
    assert not hasattr(clone(model), "probA_")
    for name, value in (("probA_", np.ones(3)), ("probB_", np.zeros(2)), ("probA_", None)):
        broken = pickle.loads(pickle.dumps(model))
        setattr(broken, name, value)
        with pytest.raises(ModelFileError):
            broken._check_state()


def test_folds_that_do_not_converge_are_told():
    X, y = two_classes(700, flip_y=0.3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = SVC(C=1e3, max_iter=30, probability=True).fit(X, y)
    told = [str(w.message) for w in caught if w.category is NotConverged]
    assert len(told) == 2 and all(text.startswith("SVC: ") for text in told)
    assert "SVC: 5 of 5 problems behind the probabilities did not converge" in told[0]
    assert "SMO" not in "".join(told)
    assert np.isfinite(model.predict_proba(X)).all()


def test_time_is_limited_for_all_of_a_fit():
    X, y = two_classes(1500, flip_y=0.4)
    began = time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        model = SVC(C=1e6, max_time=0.2, probability=True).fit(X, y)
    assert time.monotonic() - began < 10
    np.testing.assert_array_equal(model.predict_proba(X).argmax(1), model.predict(X))
    assert model.max_time == 0.2


def test_the_hard_margin_has_probabilities_too():
    X = np.r_[rng.normal(-2, 0.5, (30, 2)), rng.normal(2, 0.5, (30, 2)), rng.normal(9, 0.5, (9, 2))]
    y = np.repeat(["a", "b", "c"], [30, 30, 9])
    for rows in (slice(0, 60), slice(0, 69)):
        model = SVC("linear", np.inf, probability=True).fit(X[rows], y[rows])
        P = model.predict_proba(X[rows])
        np.testing.assert_array_equal(model.classes_[P.argmax(1)], y[rows])
