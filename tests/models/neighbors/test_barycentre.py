"""The nearest barycentre: its definition, scikit-learn's centroids, weights, degenerate data."""

import re
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris
from sklearn.neighbors import NearestCentroid

import mercer
from mercer import RBF, Linear, NearestBarycentre, Polynomial
from mercer.errors import InvalidInput, ModelFileError, NotAKernel, NotPositiveDefinite
from mercer.settings import config
from tests.models.words import alike, words

rng = np.random.default_rng(0)
X, y = load_iris(return_X_y=True)
NEW = X[::4] + 0.1 * rng.standard_normal(X[::4].shape)
KERNELS = [RBF(1.0), Linear(), Polynomial(2), mercer.Laplacian(0.5), mercer.Cosine()]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_the_definition(kernel):
    model = NearestBarycentre(kernel).fit(X, y)
    D = np.stack([mercer.distance_to_set(kernel, NEW, X[y == c]) for c in range(3)], axis=1)
    np.testing.assert_allclose(model.distances(NEW), D, atol=1e-6)
    np.testing.assert_array_equal(model.predict(NEW), D.argmin(1))
    lengths = np.asarray(kernel.diag(NEW))[:, None]
    np.testing.assert_allclose(model.decision_function(NEW), lengths - D**2, atol=1e-9)
    norms = [mercer.mean_embedding(kernel, X[y == c]).norm() for c in range(3)]
    np.testing.assert_allclose(model.norms_, norms, rtol=1e-12)


@pytest.mark.parametrize("offset", [1e4, 1e6, 1e7, 1e8])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_where_the_points_are_does_not_matter(offset, classes, form):
    rows = y < classes
    A, target = X[rows] + offset, y[rows]
    near, new = NearestBarycentre("linear").fit(A - offset, target), NEW + offset
    far = NearestBarycentre("linear").fit(form(A), target)
    want = near.distances(new - offset)
    np.testing.assert_allclose(far.distances(form(new)), want, rtol=1e-7, atol=1e-7)
    np.testing.assert_array_equal(far.predict(form(new)), near.predict(new - offset))
    if classes == 2:
        values = near.decision_function(new - offset)
        np.testing.assert_allclose(far.decision_function(form(new)), values, rtol=1e-6, atol=1e-6)
    quadratic = NearestBarycentre(Polynomial(2)).fit(A, target)
    want = np.stack([mercer.distance_to_set(Polynomial(2), new, A[target == c])
                     for c in range(classes)], axis=1)  # fmt: skip
    np.testing.assert_allclose(quadratic.distances(new), want, rtol=1e-9)
    np.testing.assert_array_equal(quadratic.predict(new), want.argmin(1))


def test_classes_that_are_lost_in_rounding_are_told():
    with pytest.warns(UserWarning, match="leaves an error of about"):
        NearestBarycentre(lambda a, b: float(a @ b)).fit(X[::5] + 1e9, y[::5])


def test_linear_is_the_nearest_centroid():
    for target in (y, y == 1):
        theirs = NearestCentroid().fit(X, target)
        np.testing.assert_array_equal(
            NearestBarycentre("linear").fit(X, target).predict(NEW), theirs.predict(NEW)
        )


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_two_classes_have_one_function(kernel):
    names = np.array(["no", "yes"])[(y == 2).astype(int)]
    model = NearestBarycentre(kernel).fit(X, names)
    d = model.distances(NEW)
    values = model.decision_function(NEW)
    assert values.shape == (len(NEW),)
    np.testing.assert_allclose(values, d[:, 0] ** 2 - d[:, 1] ** 2, atol=1e-9)
    np.testing.assert_array_equal(model.predict(NEW), np.where(values > 0, "yes", "no"))
    f = model.function_
    np.testing.assert_array_equal(f(NEW), values)
    plus, minus = (mercer.mean_embedding(kernel, X[names == c]) for c in ("yes", "no"))
    assert abs((f - 2.0 * (plus - minus)).norm()) < 1e-6 * max(1.0, f.norm())


def test_weights_are_repetitions_and_zero_is_absence():
    weights = rng.integers(0, 4, len(y)).astype(float)
    weights[y == 1] = 0
    model = NearestBarycentre("rbf").fit(X, y, weights)
    repeated = np.repeat(np.arange(len(y)), weights.astype(int))
    again = NearestBarycentre("rbf").fit(X[repeated], y[repeated])
    assert model.classes_.tolist() == [0, 2]
    np.testing.assert_allclose(model.decision_function(NEW), again.decision_function(NEW))
    np.testing.assert_allclose(
        NearestBarycentre(RBF()).fit(X, y, 1e-300 * np.ones(len(y))).norms_,
        NearestBarycentre(RBF()).fit(X, y, 1e300 * np.ones(len(y))).norms_,
    )


def test_words_and_sparse_rows():
    texts = words(60)
    longer = np.array([len(w) > 4 for w in texts])
    model = NearestBarycentre(alike).fit(texts, longer)
    K = np.array([[alike(s, t) for t in texts] for s in texts])
    score = [
        2 * K[:, longer == c].mean(1) - K[np.ix_(longer == c, longer == c)].mean() for c in (0, 1)
    ]
    np.testing.assert_allclose(model.decision_function(texts), score[1] - score[0])
    dense = NearestBarycentre(RBF()).fit(X, y).decision_function(NEW)
    model = NearestBarycentre(RBF()).fit(sp.csr_array(X), y)
    np.testing.assert_allclose(model.decision_function(sp.csr_array(NEW)), dense)


def test_precomputed_decides_but_does_not_measure():
    model = NearestBarycentre("precomputed").fit(RBF()(X), y)
    given = NearestBarycentre(RBF()).fit(X, y)
    np.testing.assert_array_equal(model.predict(RBF()(NEW, X)), given.predict(NEW))
    with pytest.raises(InvalidInput, match="decision_function needs no"):
        model.distances(RBF()(NEW, X))


def test_the_gram_matrix_is_never_stored():
    big = rng.standard_normal((3000, 2))
    target = rng.integers(0, 3, 3000)
    NearestBarycentre(RBF()).fit(big[:50], target[:50])
    with config(memory=9_000_000):
        tracemalloc.start()
        model = NearestBarycentre(RBF()).fit(big, target)
        model.distances(big)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 9_000_000  # the matrix would take 72 MB


def test_classes_in_one_place_tie_to_the_first():
    model = NearestBarycentre("rbf").fit(np.ones((4, 2)), ["b", "a", "b", "a"])
    assert model.predict([[1.0, 1.0], [5.0, 5.0]]).tolist() == ["a", "a"]
    assert model.distances([[1.0, 1.0]]).max() < 1e-7


def test_refusals(tmp_path):
    with pytest.raises(InvalidInput, match="one class only"):
        NearestBarycentre().fit(X, np.zeros(len(y)))
    with pytest.raises(InvalidInput, match="negative"):
        NearestBarycentre().fit(X, y, -np.ones(len(y)))
    with pytest.raises(InvalidInput, match="overflows"):
        NearestBarycentre(mercer.Polynomial(3)).fit(1e150 * X, y)
    model = NearestBarycentre().fit(X, y)
    model.norms_ = model.norms_[:2]
    mercer.save(model, tmp_path / "model.mercer")
    with pytest.raises(ModelFileError, match="do not fit one another"):
        mercer.load(tmp_path / "model.mercer")


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda a, b: -float(a @ b), "squared length"),
        (lambda a, b: float(a[0]) ** 2, "symmetric"),
        (lambda a, b: 1.0 + float(np.abs(a - b).sum()), "eigenvalue -"),
    ],
)
def test_functions_that_are_no_kernels_are_refused(function, words):
    with pytest.raises((NotAKernel, NotPositiveDefinite), match=words):
        NearestBarycentre(function).fit(X, y)


def test_negative_squared_distances_are_refused():
    """Indefinite, but not between the barycentres."""

    def function(a, b):
        return 1.0 if np.array_equal(a, b) else float(a[0] * b[0] < 0) * 3.0 + 1.0

    model = NearestBarycentre(function).fit([[-1.0], [1.0], [-2.0], [2.0]], [0, 0, 1, 1])
    with pytest.raises(NotAKernel, match="squared distance of row 0 to the barycentre of class"):
        model.distances([[-3.0], [3.0]])


def test_points_whose_squares_underflow_are_refused_and_zeros_are_not():
    with pytest.raises(InvalidInput, match="underflows"):
        NearestBarycentre(Linear()).fit(X * 1e-200, y)
    NearestBarycentre(Linear()).fit(X * 1e-140, y)
    assert NearestBarycentre(Linear()).fit(X * 0, y).distances(X[:1] * 0).tolist()[0][0] == 0
    assert NearestBarycentre("rbf").fit(X * 1e-200, y).score(X * 1e-200, y) > 0.5


@pytest.mark.parametrize(
    "name", ["NearestBarycentre", "KernelRidgeClassifier", "L1VM", "KernelPerceptron"]
)
def test_the_offset_of_two_classes_is_a_number_and_said_to_be(name):
    model = getattr(mercer, name)
    said = " ".join(model.__doc__.split())
    start = r"intercept_ : float or array of shape \(n_classes,\) "
    assert re.search(start + "[^:]*two classes one number", said)
    points = np.random.default_rng(4).standard_normal((30, 2))
    for classes in (2, 3):
        labels = np.argsort(np.argsort(points[:, 0])) * classes // 30
        assert np.shape(model().fit(points, labels).intercept_) == (() if classes == 2 else (3,))
