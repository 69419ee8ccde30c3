"""Repaired similarities: the matrices they promise, new points, models, files, and refusals."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.model_selection import GridSearchCV

import mercer
from mercer import kernels as mk
from mercer.domains import Table
from mercer.errors import InvalidInput, NotAKernel
from mercer.kernels import EditDistance, FromFunction, Repaired
from mercer.testing import check_kernel_laws

RNG = np.random.default_rng(5)
METHODS = pytest.mark.parametrize("method", ["clip", "shift"])


def words(n, letters="ab", most=5):
    return ["".join(RNG.choice(list(letters), RNG.integers(0, most + 1))) for _ in range(n)]


def sigmoid(x, y):
    return float(np.tanh(np.dot(x, y) - 1.0))


def negative(x, y):
    return -float(x == y)


class Similarity(mk.Pairwise):
    """tanh of a product, honest about what it is."""

    psd = False

    def __init__(self, shift: float = 1.0):
        super().__init__(shift=shift)

    def _pair(self, x, y):
        return float(np.tanh(np.dot(x, y) - self.shift))


def distinct(points):
    return list(dict.fromkeys(points))


@METHODS
def test_is_the_promised_matrix_on_the_training_points(method):
    X = words(30)
    Z = distinct(X)
    k = EditDistance(4.0)
    K = k(Z)
    values, U = np.linalg.eigh(K)
    assert values[0] < -1e-3
    fitted = k.repaired(method).fit_params(X)
    assert list(fitted.points) == Z
    expected = (U * values.clip(0)) @ U.T if method == "clip" else K - values[0] * np.eye(len(Z))
    np.testing.assert_allclose(fitted(Z), expected, atol=1e-9)
    np.testing.assert_allclose(fitted.diag(Z), expected.diagonal(), atol=1e-9)
    # Repeated points are one point, and k(X) alone takes its points from X.
    place = [Z.index(x) for x in X]
    np.testing.assert_allclose(k.repaired(method)(X), expected[np.ix_(place, place)], atol=1e-9)


@METHODS
def test_is_positive_semidefinite_with_new_points(method):
    X = words(25)
    k = EditDistance(4.0).repaired(method).fit_params(X)
    new = words(40, "abc", 7) + X[:5]
    K = k([*X, *new])
    values = np.linalg.eigvalsh(K)
    assert values[0] > -1e-10 * values[-1]
    np.testing.assert_allclose(k(X, new), k([*X, *new])[: len(X), len(X) :], atol=1e-9)
    phi = k.features([*X, *new])
    assert phi.shape[1] == k.n_features(X)
    inner = phi @ phi.T
    np.testing.assert_allclose(inner[: len(X)], K[: len(X)], atol=1e-9 * values[-1])
    unequal = np.array([[a != b for b in [*X, *new]] for a in [*X, *new]])
    np.testing.assert_allclose(inner[unequal], K[unequal], atol=1e-9 * values[-1])


@METHODS
def test_new_points_keep_their_own_length(method):
    X = distinct(words(25))
    k = EditDistance(4.0)
    fitted = k.repaired(method).fit_params(X)
    shift = max(0.0, -np.linalg.eigvalsh(k(X))[0]) if method == "shift" else 0.0
    new = ["zzzz", "abca", "zzzz", "c" * 30]
    phi = fitted.features(new)
    K = fitted(new)
    lengths = np.maximum((phi**2).sum(1), 1.0 + shift)
    np.testing.assert_allclose(K.diagonal(), lengths, atol=1e-12)
    np.testing.assert_allclose(fitted.diag(new), lengths, atol=1e-12)
    np.testing.assert_allclose(K[0, 2], lengths[0], atol=1e-12)  # the same string twice
    np.testing.assert_allclose(K[0, 1], phi[0] @ phi[1], atol=1e-12)
    np.testing.assert_allclose(fitted(new, new[::-1]), K[:, ::-1], atol=1e-12)
    # Features are all of the kernel on the training points, and only there.
    assert fitted.n_features(X) == phi.shape[1] and fitted.n_features(new) is None
    assert fitted.n_features([*X, "zzzz"]) is None


@METHODS
def test_numbers_and_tensors_keep_their_length_too(method):
    torch = pytest.importorskip("torch")
    X, new = RNG.standard_normal((12, 2)), RNG.standard_normal((5, 2)) + 3.0
    k = mk.RBF(0.7).repaired(method).fit_params(X)
    every = np.concatenate([new, X[:2], new[:1]])
    np.testing.assert_allclose(k.diag(every), np.ones(8), atol=1e-8)
    np.testing.assert_allclose(k(torch.as_tensor(every)).numpy(), k(every), atol=1e-9)
    single = k(every.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single[0, 7], 1.0, atol=1e-6)


@METHODS
def test_a_gaussian_process_is_not_sure_of_new_points(method):
    rng = np.random.default_rng(1)
    X = ["".join(rng.choice(list("ACGT"), rng.integers(20, 61))) for _ in range(300)]
    y = np.array([x.count("GC") for x in X], dtype=float)
    process = mercer.GaussianProcessRegressor(1.0 * EditDistance(30.0).repaired(method))
    mean, std = process.fit(X[:120], y[:120]).predict(X[120:], return_std=True)
    assert 0.88 < np.mean(np.abs(mean - y[120:]) < 1.96 * std) <= 1.0
    far = process.predict(["z" * 500], return_std=True, with_noise=False)[1]
    assert far[0] > 0.9 * np.sqrt(process.kernel_.k1.value)


@METHODS
def test_points_of_weight_zero_do_not_spoil_a_file(method, tmp_path):
    X = [*words(40, "ab", 4), "zz", "zzz"]  # so few that features are fewer than points
    y = np.array([len(x) for x in X], dtype=float)
    w = np.ones(len(X))
    w[-2:] = 0
    k = EditDistance(8.0).repaired(method)
    models = (mercer.KernelRidge(k, alpha=0.1), mercer.KernelLogisticRegression(k), mercer.SVC(k))
    for model in models:
        target = (y > 2).astype(int) if is_classifier(model) else y
        model.fit(X, target, sample_weight=w)
        mercer.save(model, tmp_path / "model.mercer")
        again = mercer.load(tmp_path / "model.mercer")
        np.testing.assert_array_equal(again.predict(["abc", "zzz"]), model.predict(["abc", "zzz"]))
        alone = clone(model).fit(X[:-2], target[:-2])
        np.testing.assert_allclose(alone.predict(X), model.predict(X), atol=1e-6)


@METHODS
def test_values_with_training_points_are_projections(method):
    X, new = distinct(words(25)), words(10, "abc", 7)
    k = EditDistance(4.0)
    values, U = np.linalg.eigh(k(X))
    kept = values > (0 if method == "clip" else values[0] + 1e-9)
    expected = k(new, X) @ U[:, kept] @ U[:, kept].T
    new_only = [i for i, x in enumerate(new) if x not in X]
    fitted = k.repaired(method).fit_params(X)
    np.testing.assert_allclose(fitted(new, X)[new_only], expected[new_only], atol=1e-8)


@METHODS
def test_a_kernel_that_is_one_already_stays_on_the_points(method):
    X = RNG.standard_normal((12, 2))
    X = np.concatenate([X, X[:3]])
    k = mk.RBF(0.7)
    np.testing.assert_allclose(k.repaired(method)(X), k(X), atol=1e-8)
    torch = pytest.importorskip("torch")
    fitted = k.repaired(method).fit_params(X)
    tensor = fitted(torch.as_tensor(X))
    np.testing.assert_allclose(tensor.numpy(), fitted(X), atol=1e-9)


@METHODS
def test_single_precision_in_and_out(method):
    X = RNG.standard_normal((15, 3)).astype(np.float32)
    k = FromFunction(sigmoid).repaired(method).fit_params(X)
    assert k(X).dtype == np.float32
    np.testing.assert_allclose(k(X), k(X.astype(np.float64)), atol=1e-5)


@METHODS
def test_points_of_weight_zero_are_left_out(method):
    X = words(20)
    w = np.ones(20)
    w[::3] = 0
    k = EditDistance(4.0).repaired(method)
    kept = [x for x, v in zip(X, w, strict=True) if v]
    assert k.fit_params(X, w) == k.fit_params(kept)


@METHODS
def test_one_point_and_none(method):
    k = EditDistance(1.0).repaired(method)
    np.testing.assert_allclose(k(["a"]), [[1.0]])
    assert k([]).shape == (0, 0)
    zero = FromFunction(lambda a, b: 0.0).repaired(method)
    assert (zero(["a", "b"]) == 0).all()


def test_nothing_positive_is_refused_by_clip_and_shifted():
    k = FromFunction(negative)
    with pytest.raises(NotAKernel, match="no eigenvalue"):
        k.repaired("clip")(["a", "b"])
    np.testing.assert_allclose(k.repaired("shift")(["a", "b"]), np.zeros((2, 2)), atol=1e-12)


def test_objects_are_compared_by_what_they_hold():
    def shared(a, b):
        return len(set(a) & set(b)) / min(len(set(a)), len(set(b)))

    X = [["a", "b"], ["b", "c"], ["a", "b", "c"], ["c"], ["a", "b"]]
    k = FromFunction(shared).repaired("shift").fit_params(X)
    assert len(k.points) == 4
    K = k(X)
    np.testing.assert_allclose(K[0], K[4])
    raised = K[:4, :4] - FromFunction(shared)(X[:4])
    np.testing.assert_allclose(raised, (K[0, 0] - 1) * np.eye(4), atol=1e-9)

    class Opaque:
        __hash__ = None

        def __init__(self, letters):
            self.letters = letters

    hidden = [Opaque(x) for x in X]
    similar = FromFunction(lambda a, b: shared(a.letters, b.letters))
    np.testing.assert_allclose(
        similar.repaired("clip")(hidden[:4]),
        FromFunction(shared).repaired("clip")(X[:4]),
        atol=1e-9,
    )
    with pytest.raises(InvalidInput, match="cannot be compared"):
        similar.repaired("shift")(hidden)


def test_a_point_is_shifted_whatever_its_company():
    class Opaque:
        __hash__ = None

        def __init__(self, letters):
            self.letters = letters

        def __eq__(self, other):
            return False

    def letters(x):
        return set(x.letters if isinstance(x, Opaque) else x)

    k = FromFunction(lambda a, b: float(bool(letters(a) & letters(b))))
    fitted = k.repaired("shift").fit_params(["ab", "bc", "cd", "a", "d"])
    odd = Opaque("zz")
    alone = fitted(["ab"], ["ab"])[0, 0]
    np.testing.assert_allclose(fitted(["ab", odd], ["ab"])[0, 0], alone, rtol=1e-12)
    K = fitted(["ab", odd, Opaque("zz")])
    np.testing.assert_allclose(K[0, 0], alone, rtol=1e-12)
    assert K[1, 1] > 1 and K[1, 2] == 0
    assert fitted([odd], [Opaque("q"), odd])[0].tolist() == [0, K[1, 1]]


def test_small_eigenvalues_are_kept():
    X = np.linspace(0, 1, 6)[:, None]
    k = mk.RBF(0.7)
    values = np.linalg.eigvalsh(k(X))
    assert 1e-10 < values[0] / values[-1] < 1e-5
    for method in ("clip", "shift"):
        assert k.repaired(method).n_features(X) == 6
        np.testing.assert_allclose(k.repaired(method)(X), k(X), atol=1e-10)


def test_points_may_be_given():
    Z = ["a", "ab", "ba", "bb", "b", "aa"]
    k = Repaired(EditDistance(3.0), "clip", Z)
    assert not k._words() and k(["a"], ["b"]).shape == (1, 1)
    np.testing.assert_allclose(k(Z), EditDistance(3.0).repaired("clip").fit_params(Z)(Z))
    with pytest.raises(InvalidInput, match="twice"):
        Repaired(EditDistance(4.0), "shift", ["b", "aa", "ab", "ba", "bb", "bb", "a", ""])(Z)


def test_it_holds_no_factor_but_remembers_it():
    X = words(20)
    k = EditDistance(2.0).repaired().fit_params(X)
    K = k(X)
    assert k._map() is k._map()
    again = pickle.loads(pickle.dumps(k))
    assert again == k and again._made is None
    np.testing.assert_array_equal(again(X), K)
    k.set_params(kernel__length_scale=4.0)
    np.testing.assert_allclose(k(X), EditDistance(4.0).repaired().fit_params(X)(X), atol=1e-9)
    k.kernel.set_params(length_scale=2.0)
    np.testing.assert_array_equal(k(X), K)
    assert clone(again) == again
    assert "points=<" in repr(k) and repr(EditDistance(2.0).repaired()).endswith(
        ".repaired('clip')"
    )


@METHODS
def test_models_fit_predict_and_are_saved(method, tmp_path):
    X = words(40, "abc", 6)
    y = np.array([x.count("a") for x in X], dtype=float)
    new = words(15, "abc", 6)
    k = EditDistance(3.0).repaired(method)
    for model in (
        mercer.KernelRidge(k, alpha=0.1),
        mercer.GaussianProcessRegressor(k, noise=0.1),
        mercer.SVC(k),
        mercer.KernelLogisticRegression(k),
    ):
        model.fit(X, (y > 1).astype(int) if is_classifier(model) else y)
        mercer.save(model, tmp_path / "model.mercer")
        again = mercer.load(tmp_path / "model.mercer")
        np.testing.assert_array_equal(again.predict(new), model.predict(new))
        assert again.kernel_ == model.kernel_
    ridge = mercer.KernelRidge(k, alpha=0.1).fit(X, y)
    Z = distinct(X)
    assert set(ridge.kernel_.points) == set(Z)


def test_functions_and_honest_authors_are_repaired_for_models():
    X = RNG.standard_normal((30, 2))
    y = np.sign(X[:, 0] * X[:, 1])
    with pytest.raises(NotAKernel, match="repaired"):
        mercer.SVC(Similarity()).fit(X, y)
    for k in (Similarity().repaired(), FromFunction(sigmoid).repaired("shift")):
        assert k.psd
        model = mercer.SVC(k).fit(X, y)
        assert model.predict(RNG.standard_normal((5, 2))).shape == (5,)


def test_grid_search_reaches_inside():
    X = words(30, "abc", 6)
    y = [len(x) for x in X]
    grid = {"kernel__kernel__length_scale": [1.0, 4.0], "kernel__method": ["clip", "shift"]}
    search = GridSearchCV(mercer.KernelRidge(EditDistance(2.0).repaired()), grid, cv=3).fit(X, y)
    assert search.best_estimator_.kernel.kernel.length_scale in (1.0, 4.0)
    assert search.predict(["abc"]).shape == (1,)


@METHODS
def test_works_on_a_column_of_a_table(method):
    X = words(20, "abc", 6)
    table = Table({"age": RNG.uniform(0, 1, 20), "word": X})
    k = mk.RBF(1.0).on("age") * EditDistance(4.0).repaired(method).on("word")
    expected = mk.RBF(1.0)(table["age"][:, None]) * EditDistance(4.0).repaired(method)(X)
    np.testing.assert_allclose(k(table), expected, atol=1e-9)
    model = mercer.KernelRidge(k, alpha=0.5).fit(table, [len(x) for x in X])
    assert np.isfinite(model.predict(table[:4])).all()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: EditDistance().repaired("flip"), "'clip' or 'shift'"),
        (lambda: EditDistance().repaired(None), "'clip' or 'shift'"),
        (lambda: Repaired("rbf"), "not a Kernel"),
        (lambda: mk.Precomputed().repaired(), "repair the matrix itself"),
        (lambda: Repaired(EditDistance(), points=[1, 2]), "points"),
        (lambda: EditDistance().repaired()(["a"], ["b"]), "fit_params"),
    ],
)
def test_bad_parameters_are_refused(make, words):
    with pytest.raises(InvalidInput) as error:
        make()
    assert words in str(error.value)


# --------------------------------------------------------------- who needs a kernel, and who not
def test_what_needs_a_kernel_refuses_a_similarity():
    X, y = words(12, "abc", 6), np.arange(12.0)
    k = EditDistance(2.0)
    sums = (k + 1.0, 2.0 * k, k.normalized(), k**2, k.exp())
    assert not any(part.psd for part in sums)
    gram = mercer.operators.Gram(k, X)
    refused = [
        lambda: mercer.KernelRidge(k).fit(X, y),
        lambda: mercer.KernelRidge(2.0 * k + 1.0).fit(X, y),
        lambda: mercer.GaussianProcessRegressor(k).fit(X, y),
        lambda: mercer.KernelNeighborsRegressor(k).fit(X, y),
        lambda: mercer.KernelKMeans(2, k).fit(X),
        lambda: mercer.KernelPCA(kernel=k).fit(X),
        lambda: mercer.distance(k, X),
        lambda: mercer.mean_embedding(k, X),
        lambda: mercer.distance_to_set(k, X, X),
        lambda: mercer.Function(k, X, y).norm(),
        lambda: mercer.statistics.mmd_test(X[:6], X[6:], kernel=k),
        lambda: mercer.statistics.hsic_test(X, y, kernel_x=k),
        lambda: mercer.statistics.mmd_agg_test(X[:6], X[6:], kernels=[k]),
        lambda: mercer.statistics.mmd(X[:6], X[6:], kernel=k),
        lambda: mercer.statistics.witness(X[:6], X[6:], kernel=k),
        lambda: mercer.solvers.Cholesky().solve(mercer.solvers.Linear(gram, y, 1.0)),
        lambda: mercer.solvers.ConjugateGradients().solve(
            mercer.solvers.Linear(2.0 * gram, y, 1.0)
        ),
        lambda: mercer.solvers.factor(gram, 1.0),
        lambda: mercer.solvers.SubspaceIteration().solve(mercer.solvers.Eigen(gram, 2)),
        lambda: mercer.solvers.SMO().solve(
            mercer.solvers.BoxQP(gram, y, np.zeros(12), np.ones(12))
        ),
    ]
    for attempt in refused:
        with pytest.raises(NotAKernel, match="repaired"):
            attempt()


def test_what_needs_no_kernel_takes_a_similarity():
    from sklearn.linear_model import Ridge

    X, y = words(20, "abc", 6), np.arange(20.0)
    k = EditDistance(2.0)
    assert mercer.Prototypes(k).fit(X).transform(X[:3]).shape[0] == 3
    assert mercer.KernelMachine(k, estimator=Ridge()).fit(X, y).predict(X).shape == (20,)
    assert mercer.L1VMRegressor(k, alpha=0.1).fit(X, y).predict(X).shape == (20,)
    assert mercer.NadarayaWatson(kernel=k).fit(X, y).predict(X).shape == (20,)
    assert len(set(mercer.SpectralClustering(2, k, random_state=0).fit(X).labels_)) == 2
    assert mercer.Function(k, X, y)(X[:2]).shape == (2,)
    gram = mercer.operators.Gram(k, X)
    values = mercer.solvers.DenseEigen().solve(mercer.solvers.Eigen(gram)).value.values
    np.testing.assert_allclose(values, np.linalg.eigvalsh(k(X))[::-1], atol=1e-12)
    every = ["".join(s) for n in range(5) for s in itertools.product("ab", repeat=n)]
    assert not mercer.check_kernel(EditDistance(4.0), every)


def test_laws_judge_an_honest_similarity_by_all_but_definiteness():
    class Claimed(Similarity):
        psd = True

    X = RNG.standard_normal((20, 2))
    check_kernel_laws(Similarity(), X)
    check_kernel_laws(Similarity().repaired("shift"), X)
    with pytest.raises(AssertionError, match=r"'diag'|'psd'"):
        check_kernel_laws(Claimed(), X)
