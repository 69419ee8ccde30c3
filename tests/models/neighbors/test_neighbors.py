"""Votes and means of neighbours: scikit-learn's answers, leave-one-out, data of every kind."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

import mercer
from mercer import RBF, KernelNeighborsClassifier, KernelNeighborsRegressor, Linear, Matern
from mercer.errors import InvalidInput, ModelFileError, NotAKernel
from mercer.settings import config
from tests.models.words import alike, words

rng = np.random.default_rng(0)
X, Q = rng.standard_normal((90, 3)), rng.standard_normal((40, 3))
LABELS = np.array(["b", "c", "a"])[rng.integers(0, 3, 90)]
VALUES = np.c_[np.sin(X[:, 0]), X[:, 1] * X[:, 2]]
KERNELS = ["rbf", "linear", Matern(0.3), RBF(1e-3)]


# --------------------------------------------------------------------------- scikit-learn's answers
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("k", [1, 2, 6, 90])
def test_votes_are_those_of_scikit_learn(kernel, k):
    ours = KernelNeighborsClassifier(kernel, k).fit(X, LABELS)
    theirs = KNeighborsClassifier(k).fit(X, LABELS)
    np.testing.assert_allclose(ours.predict_proba(Q), theirs.predict_proba(Q), rtol=1e-14)
    np.testing.assert_array_equal(ours.predict(Q), theirs.predict(Q))
    assert ours.score(Q, ours.predict(Q)) == 1.0


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("y", [VALUES[:, 0], VALUES], ids=["one", "two"])
def test_means_are_those_of_scikit_learn(kernel, y):
    ours = KernelNeighborsRegressor(kernel, 7).fit(X, y)
    theirs = KNeighborsRegressor(7).fit(X, y)
    np.testing.assert_allclose(ours.predict(Q), theirs.predict(Q), rtol=1e-12, atol=1e-15)
    assert ours.predict(Q).shape == (40, *y.shape[1:])


@pytest.mark.parametrize("weights", ["distance", lambda d: np.exp(-d)])
def test_weights_are_those_of_scikit_learn_for_euclidean_distances(weights):
    new = np.concatenate([Q, X[:5]])  # the last are at distance 0 of a training point
    ours = KernelNeighborsClassifier("linear", 6, weights=weights).fit(X, LABELS)
    theirs = KNeighborsClassifier(6, weights=weights, algorithm="kd_tree").fit(X, LABELS)
    np.testing.assert_allclose(ours.predict_proba(new), theirs.predict_proba(new), rtol=1e-9)
    ours = KernelNeighborsRegressor("linear", 6, weights=weights).fit(X, VALUES)
    theirs = KNeighborsRegressor(6, weights=weights, algorithm="kd_tree").fit(X, VALUES)
    np.testing.assert_allclose(ours.predict(new), theirs.predict(new), rtol=1e-9)


def test_kneighbors_has_the_form_of_scikit_learn():
    ours = KernelNeighborsClassifier("linear").fit(X, LABELS)
    theirs = KNeighborsClassifier().fit(X, LABELS)
    for args in ((Q,), (None,), (Q, 2), (None, 3)):
        d, i = ours.kneighbors(*args)
        expected, at = theirs.kneighbors(*args)
        np.testing.assert_array_equal(i, at)
        np.testing.assert_allclose(d, expected, rtol=1e-9)
        np.testing.assert_array_equal(ours.kneighbors(*args, return_distance=False), at)


def test_distances_are_those_of_feature_space():
    model = KernelNeighborsRegressor(RBF(0.8), 4).fit(X, VALUES)
    d, i = model.kneighbors(Q)
    D = mercer.distance(RBF(0.8), Q, X)
    np.testing.assert_allclose(d, np.take_along_axis(D, i, 1), rtol=1e-7)


def test_the_first_of_classes_with_as_many_votes_wins():
    points, labels = [[0.0], [1.0], [2.0], [3.0]], ["z", "a", "a", "z"]
    model = KernelNeighborsClassifier("linear", 4).fit(points, labels)
    assert model.predict([[9.0], [-9.0]]).tolist() == ["a", "a"]


def test_the_first_of_points_at_one_distance_is_taken():
    model = KernelNeighborsClassifier("linear", 1).fit([[1.0], [-1.0], [1.0]], [7, 5, 6])
    assert model.kneighbors([[0.0]], 2)[1].tolist() == [[0, 1]]
    assert model.predict([[0.0], [1.0]]).tolist() == [7, 7]


# ------------------------------------------------------------------------------- leave one out
@pytest.mark.parametrize("weights", ["uniform", "distance"])
@pytest.mark.parametrize("kernel", [RBF(0.7), Linear(), mercer.Polynomial(2)], ids=repr)
def test_loo_equals_refits(kernel, weights):
    n = 30
    classifier = KernelNeighborsClassifier(kernel, 4, weights=weights).fit(X[:n], LABELS[:n])
    regressor = KernelNeighborsRegressor(kernel, 4, weights=weights).fit(X[:n], VALUES[:n])
    for i in range(n):
        rest = np.arange(n) != i
        again = clone(classifier).fit(X[:n][rest], LABELS[:n][rest])
        assert classifier.loo()[i] == again.predict(X[[i]])[0]
        shares = dict(zip(again.classes_, again.predict_proba(X[[i]])[0], strict=True))
        expected = [shares.get(c, 0.0) for c in classifier.classes_]
        np.testing.assert_allclose(classifier.loo_proba()[i], expected, rtol=1e-7)
        again = clone(regressor).fit(X[:n][rest], VALUES[:n][rest])
        np.testing.assert_allclose(regressor.loo()[i], again.predict(X[[i]])[0], rtol=1e-7)


def test_loo_of_copies_sees_the_copies():
    twice = np.repeat(X, 2, axis=0)
    model = KernelNeighborsClassifier("rbf", 1).fit(twice, np.repeat(LABELS, 2))
    np.testing.assert_array_equal(model.loo(), np.repeat(LABELS, 2))


# ---------------------------------------------------------------------------- data of every kind
def test_words_with_a_function():
    texts = words(60)
    y = np.array([w.count("a") > w.count("b") for w in texts])
    model = KernelNeighborsClassifier(alike, 3).fit(texts, y)
    K = np.array([[alike(s, t) for t in texts] for s in texts])
    D = np.add.outer(K.diagonal(), K.diagonal()) - 2 * K
    at = np.argsort(D, axis=1, kind="stable")[:, :3]
    np.testing.assert_array_equal(model.kneighbors(texts)[1], at)
    np.testing.assert_array_equal(model.predict(texts), y[at].sum(1) > 1.5)


def test_frames_sparse_rows_and_float32():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    expected = KernelNeighborsClassifier(RBF()).fit(X, LABELS).predict(Q)
    model = KernelNeighborsClassifier(RBF()).fit(frame, LABELS)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(model.predict(pd.DataFrame(Q, columns=["a", "b", "c"])), expected)
    model = KernelNeighborsClassifier(RBF()).fit(sp.csr_array(X), LABELS)
    np.testing.assert_array_equal(model.predict(sp.csr_array(Q)), expected)
    np.testing.assert_array_equal(model.predict(Q), expected)
    single = KernelNeighborsClassifier(RBF()).fit(X.astype(np.float32), LABELS)
    theirs = KNeighborsClassifier().fit(X.astype(np.float32), LABELS)
    np.testing.assert_array_equal(
        single.predict(Q.astype(np.float32)), theirs.predict(Q.astype(np.float32))
    )


def test_tables_of_mixed_columns():
    table = {"site": np.array(["u", "v"])[rng.integers(0, 2, 90)], "x": X[:, 0]}
    kernel = mercer.FromFunction(lambda a, b: float(a == b)).on("site") * RBF().on("x")
    model = KernelNeighborsRegressor(kernel, 2).fit(table, VALUES)
    assert model.loo().shape == (90, 2)
    near = model.kneighbors(table, 1)
    assert (near[0] == 0).all() and (near[1][:, 0] == np.arange(90)).all()


def test_torch_tensors(torch):
    model = KernelNeighborsRegressor(RBF()).fit(torch.as_tensor(X), torch.as_tensor(VALUES))
    expected = KernelNeighborsRegressor(RBF()).fit(X, VALUES).predict(Q)
    np.testing.assert_array_equal(model.predict(torch.as_tensor(Q)), expected)


# ------------------------------------------------------------------------------- precomputed
def test_precomputed_orders_and_votes_without_the_length_of_new_points():
    kernel = mercer.Polynomial(2)  # k(x, x) differs from point to point
    K, new = kernel(X), kernel(Q, X)
    model = KernelNeighborsClassifier("precomputed").fit(K, LABELS)
    given = KernelNeighborsClassifier(kernel).fit(X, LABELS)
    np.testing.assert_array_equal(model.predict(new), given.predict(Q))
    near = model.kneighbors(new, return_distance=False)
    np.testing.assert_array_equal(near, given.kneighbors(Q)[1])
    np.testing.assert_array_equal(model.loo(K), given.loo())
    np.testing.assert_allclose(
        clone(model).set_params(weights="distance").fit(K, LABELS).loo_proba(K),
        clone(given).set_params(weights="distance").fit(X, LABELS).loo_proba(),
        rtol=1e-6,
    )


def test_precomputed_says_what_it_cannot_know():
    K = RBF()(X)
    model = KernelNeighborsClassifier("precomputed").fit(K, LABELS)
    with pytest.raises(InvalidInput, match="return_distance=False"):
        model.kneighbors(K[:3])
    with pytest.raises(InvalidInput, match=r"loo\(K\)"):
        model.kneighbors()
    with pytest.raises(InvalidInput, match=r"loo\(K\)"):
        model.loo()
    with pytest.raises(InvalidInput, match="not the matrix"):
        model.loo(2 * K)
    with pytest.raises(InvalidInput, match="weights='uniform'"):
        model.set_params(weights="distance").predict(K[:3])
    given = KernelNeighborsClassifier().fit(X, LABELS)
    np.testing.assert_array_equal(given.loo(X), given.loo())
    with pytest.raises(InvalidInput, match="not what the model was fitted on"):
        given.loo(X[::-1])


# ------------------------------------------------------------------------------------ refusals
@pytest.mark.parametrize("k", [0, -1, 2.0, "3", None, True, np.nan])
def test_a_wrong_number_of_neighbours(k):
    with pytest.raises(InvalidInput, match="whole number"):
        KernelNeighborsClassifier(n_neighbors=k).fit(X, LABELS)


def test_more_neighbours_than_points():
    with pytest.raises(InvalidInput, match=r"n_neighbors=91.*at most 90"):
        KernelNeighborsRegressor(n_neighbors=91).fit(X, VALUES)
    model = KernelNeighborsRegressor(n_neighbors=90).fit(X, VALUES)
    np.testing.assert_allclose(model.predict(Q), np.tile(VALUES.mean(0), (40, 1)))
    for call in (model.kneighbors, model.loo):
        with pytest.raises(InvalidInput, match="at most 89"):
            call()
    with pytest.raises(InvalidInput, match="at most 90"):
        model.kneighbors(Q, 100)


@pytest.mark.parametrize("weights", ["far", None, 3, ["uniform"]])
def test_unknown_weights(weights):
    with pytest.raises(InvalidInput, match="'uniform', 'distance'"):
        KernelNeighborsRegressor(weights=weights).fit(X, VALUES)


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (lambda d: d[:, :1], "shape"),
        (lambda d: -d, "≥ 0"),
        (lambda d: d * np.nan, "finite"),
        (lambda d: ["a"], "did not return numbers"),
        (lambda d: 0 * d, "weight zero"),
    ],
)
def test_functions_that_are_no_weights(weights, words):
    model = KernelNeighborsClassifier(weights=weights).fit(X, LABELS)
    with pytest.raises(InvalidInput, match=words):
        model.predict(Q)


def test_a_failed_fit_leaves_the_earlier_one():
    model = KernelNeighborsClassifier().fit(X, LABELS)
    expected = model.predict(Q)
    with pytest.raises(InvalidInput):
        model.fit(X, LABELS[:-1])
    np.testing.assert_array_equal(model.predict(Q), expected)
    with pytest.raises(NotFittedError):
        KernelNeighborsClassifier().predict(Q)
    assert not hasattr(model, "function_")


def test_one_point_and_one_class():
    model = KernelNeighborsClassifier(n_neighbors=1).fit([[2.0]], ["only"])
    assert model.predict([[5.0], [2.0]]).tolist() == ["only", "only"]
    assert KernelNeighborsRegressor("linear", 1).fit([[2.0]], [3.0]).predict([[9.0]])[0] == 3.0


def test_holes_and_wrong_widths_are_named():
    bad = X.copy()
    bad[3, 1] = np.nan
    with pytest.raises(InvalidInput, match="NaN"):
        KernelNeighborsClassifier().fit(bad, LABELS)
    model = KernelNeighborsClassifier().fit(X, LABELS)
    with pytest.raises(InvalidInput, match="features"):
        model.predict(Q[:, :2])
    with pytest.raises(InvalidInput, match="overflows"):
        KernelNeighborsClassifier(mercer.Polynomial(3)).fit(1e150 * X, LABELS)


# ------------------------------------------------------------------------------------ life
def test_searches_and_folds():
    data, y = load_iris(return_X_y=True)
    search = GridSearchCV(
        KernelNeighborsClassifier(RBF()), {"n_neighbors": [1, 5, 9], "kernel__length_scale": [1, 2]}
    ).fit(data, y)
    assert search.best_score_ > 0.95
    texts = words(60)
    y = [w.count("a") > w.count("b") for w in texts]
    assert cross_val_score(KernelNeighborsClassifier(alike, 3), texts, y).mean() > 0.7


def test_blocks_of_rows_give_the_same_answers():
    model = KernelNeighborsRegressor(RBF(), 3).fit(X, VALUES)
    new = rng.standard_normal((3000, 3))
    expected = model.predict(new)
    with config(memory=600_000):
        np.testing.assert_allclose(model.predict(new), expected, rtol=1e-12)


def test_a_file_with_parts_that_do_not_belong_together(tmp_path):
    model = KernelNeighborsClassifier().fit(X, LABELS)
    for name, value in [
        ("y_fit_", model.y_fit_[:-1]),
        ("y_fit_", model.y_fit_ + 1),
        ("y_fit_", model.y_fit_.astype(float)),
        ("diagonal_", model.diagonal_[:-1]),
        ("classes_", np.array(["a", "a", "b"])),
    ]:
        broken = clone(model).fit(X, LABELS)
        setattr(broken, name, value)
        mercer.save(broken, tmp_path / "model.mercer")
        with pytest.raises(ModelFileError, match="do not fit one another"):
            mercer.load(tmp_path / "model.mercer")


def test_the_farther_of_two_near_points_does_not_win():
    for kernel in (mercer.Matern(), mercer.Matern(nu=2.5), RBF(), 3.0 * mercer.Matern(nu=0.7)):
        model = KernelNeighborsRegressor(kernel, 2, weights="distance")
        model.fit([[0.0], [4e-9], [1.0]], [0.0, 1.0, 2.0])
        share = 0.25 if "0.7" not in repr(kernel) else 1 / (1 + 3**0.7)
        np.testing.assert_allclose(model.predict([[1e-9]]), share, rtol=1e-5)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda a, b: -float(a @ b), "squared length"),
        (lambda a, b: float(a[0]) ** 2, "symmetric"),
    ],
)
def test_functions_that_are_no_kernels_are_refused_by_fit(function, words):
    with pytest.raises(NotAKernel, match=words):
        KernelNeighborsRegressor(function, 2).fit(X, VALUES)


def test_negative_squared_distances_are_refused():
    model = KernelNeighborsRegressor(lambda a, b: 1.0 + float(np.abs(a - b).sum()), 2)
    with pytest.raises(NotAKernel, match="squared distance"):
        model.fit(X, VALUES).kneighbors(X[:3])


def test_messages_name_what_is_wrong():
    model = KernelNeighborsRegressor(RBF(), 2, weights=lambda d: -d - 1).fit(X, VALUES)
    with pytest.raises(InvalidInput, match=r"returned -\S+ for the distance"):
        model.predict(X[:3])
    one = KernelNeighborsClassifier(RBF(), 1).fit(X[:1], [0])
    with pytest.raises(InvalidInput, match="fit at least two points"):
        one.loo()
