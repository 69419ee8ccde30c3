"""Models on strings, graphs, bags and tables: what the battery of laws does not ask."""

import warnings

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import VotingClassifier
from sklearn.model_selection import cross_val_predict, cross_val_score, train_test_split
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline

import mercer
from mercer import RBF, Function, KernelRidge, models
from mercer.domains import StringCollection, Strings
from mercer.errors import InvalidInput, NotAKernel
from mercer.features import Prototypes
from mercer.kernels import Categorical, FromFunction
from mercer.kernels.graphs import WeisfeilerLehman
from mercer.kernels.strings import EditDistance, LongestCommonSubstring, Spectrum, Subsequence

K = Spectrum(2).normalized()
G = WeisfeilerLehman(2).normalized()


@pytest.fixture(scope="module")
def words():
    rng = np.random.default_rng(0)
    return ["".join(rng.choice(list("abcd"), rng.integers(3, 9))) for _ in range(24)]


@pytest.fixture(scope="module")
def graphs():
    rng = np.random.default_rng(1)
    sizes = rng.integers(3, 8, 24)
    chains = [[(i, i + 1) for i in range(n - 1)] for n in sizes]
    pairs = zip(sizes, chains, strict=True)
    return [mercer.Graph(edges=e, n_nodes=n, labels=rng.integers(0, 3, n)) for n, e in pairs]


@pytest.fixture(scope="module")
def y(words):
    return np.array([w.count("a") - 0.5 * w.count("c") for w in words])


@pytest.fixture(scope="module")
def sides(y):
    return np.where(y > np.median(y), "up", "down")


# -------------------------------------------------------------------------- what a fit keeps
def test_a_fit_keeps_packed_points_and_counts_no_columns(words, y):
    model = KernelRidge(K).fit(words, y)
    assert isinstance(model.X_fit_, StringCollection) and list(model.X_fit_) == words
    assert not hasattr(model, "n_features_in_") and not hasattr(model, "feature_names_in_")
    some = models.SVR(K, epsilon=0.5).fit(words, y)
    assert set(some.support_vectors_) <= set(words) and len(some.support_vectors_) < len(words)


def test_a_large_problem_is_packed_once(words, y, monkeypatch):
    packed = []
    pack = StringCollection.pack.__func__
    monkeypatch.setattr(
        StringCollection,
        "pack",
        classmethod(lambda cls, strings: packed.append(len(strings)) or pack(cls, strings)),
    )
    model = KernelRidge(K).fit(words, y)
    assert packed == [len(words)]
    model.predict(words[:5])
    assert packed == [len(words), 5]


def test_leaving_one_out_is_fitting_without_it(words, y):
    model = KernelRidge(Subsequence(2, 0.5), alpha=0.3).fit(words, y)
    left = [
        KernelRidge(Subsequence(2, 0.5), alpha=0.3)
        .fit(words[:i] + words[i + 1 :], np.delete(y, i))
        .predict([words[i]])[0]
        for i in range(5)
    ]
    np.testing.assert_allclose(model.loo(words)[:5], left, atol=1e-8)
    with pytest.raises(InvalidInput, match="not what the model was fitted on"):
        model.loo(words[::-1])


# ------------------------------------------------------------------------ scikit-learn around
def test_scikit_learn_takes_models_of_strings_and_graphs(words, graphs, sides):
    for X, kernel in ((words, K), (graphs, G), (np.array(words), K)):
        assert cross_val_predict(models.SVC(kernel), X, sides, cv=3).shape == sides.shape
        calibrated = CalibratedClassifierCV(models.SVC(kernel), cv=2).fit(X, sides)
        assert calibrated.predict_proba(X[:3]).shape == (3, 2)
        assert OneVsRestClassifier(models.SVC(kernel)).fit(X, sides).predict(X[:2]).shape == (2,)
    several = [("svc", models.SVC(K)), ("ridge", models.KernelRidgeClassifier(K))]
    assert VotingClassifier(several).fit(words, sides).score(words, sides) > 0.8
    two = make_pipeline(models.KernelPCA(3, K), models.SVC()).fit(words, sides)
    assert two.predict(words[:4]).shape == (4,)


def test_networkx_graphs_may_be_split_and_scored(sides):
    nx = pytest.importorskip("networkx")
    made = [nx.path_graph(4) if s == "up" else nx.cycle_graph(5) for s in sides]
    left, right, *_ = train_test_split(made, sides, random_state=0)
    assert len(left) + len(right) == len(made)
    assert cross_val_score(models.SVC(WeisfeilerLehman(2)), made, sides, cv=3).min() == 1.0


# ------------------------------------------------------------------ words that models answer
def test_what_needs_vectors_says_so(words, graphs, y, sides):
    with pytest.raises(InvalidInput, match=r"strings have no means"):
        model = models.KernelPCA(2, K).fit(words)
        model.inverse_transform(model.transform(words))
    with pytest.raises(InvalidInput, match="means of points"):
        Prototypes(K, "kmeans", n_prototypes=3).fit(words)
    with pytest.raises(InvalidInput, match="cannot be moved"):
        models.SparseGaussianProcessRegressor(K, 0.1, 4, inducing="optimize").fit(words, y)
    with pytest.raises(InvalidInput, match="mean='constant'"):
        models.GaussianProcessRegressor(K, 0.1, mean="linear").fit(words, y)
    for density in (models.KernelDensity(), models.KDEClassifier()):
        with pytest.raises(InvalidInput, match="numbers"):
            density.fit(words, sides)
        with pytest.raises(InvalidInput, match=r"holds a Graph .*vectors only"):
            density.fit(graphs, sides)
    with pytest.raises(InvalidInput, match="WeisfeilerLehman"):
        models.SVC().fit(graphs, sides)
    with pytest.raises(InvalidInput, match="Spectrum"):
        models.SVC().fit(words, sides)
    with pytest.raises(InvalidInput, match="vectors, not strings"):
        Function(K, words, y).gradient(words)


def test_new_points_of_another_kind_are_refused(words, graphs, y):
    model = KernelRidge(K).fit(words, y)
    with pytest.raises(InvalidInput, match="bytes"):
        model.predict([b"ab"])
    with pytest.raises(InvalidInput, match="Strings"):
        model.predict(graphs)
    with pytest.raises(InvalidInput, match="0 points"):
        model.predict([])
    with pytest.raises(InvalidInput, match="collection of points"):
        model.predict(iter(words))


def test_similarities_that_are_no_kernels_are_refused_by_every_model(words, y, sides):
    for similarity in (LongestCommonSubstring(), 0.5 * EditDistance()):
        if similarity.psd:
            continue
        for model in (KernelRidge, models.SVC, models.GaussianProcessRegressor, models.KernelPCA):
            with pytest.raises(NotAKernel, match="repaired"):
                model(kernel=similarity).fit(words, sides if model is models.SVC else y)


# ----------------------------------------------------------------------------- single models
def test_the_decay_of_subsequences_is_tuned_by_the_evidence(words, y):
    start = Subsequence(2, 0.1).normalized()
    kept = models.GaussianProcessRegressor(start, optimizer=None, noise=0.1).fit(words, y)
    tuned = models.GaussianProcessRegressor(start).fit(words, y)
    assert tuned.kernel_.kernel.decay != 0.1
    assert tuned.log_marginal_likelihood() > kept.log_marginal_likelihood()
    mean, std = tuned.predict(["abab", "zzz"], return_std=True)
    assert np.isfinite(mean).all() and std[1] >= std[0] > 0
    assert tuned.sample_y(words[:3], 2, random_state=0).shape == (3, 2)
    classes = models.GaussianProcessClassifier(start).fit(words, y > 0)
    assert classes.predict_proba(words[:2]).shape == (2, 2)


def test_inducing_points_are_training_points_or_those_given(words, y):
    model = models.SparseGaussianProcessRegressor(K, 0.1, 6).fit(words, y)
    assert set(model.X_fit_) <= set(words) and len(model.X_fit_) == 6
    given = models.SparseGaussianProcessRegressor(K, 0.1, inducing=["abcd", "dcba"]).fit(words, y)
    assert list(given.X_fit_) == ["abcd", "dcba"]


def test_clusters_begin_with_points_that_are_given(words, graphs):
    for X, kernel in ((words, K), (graphs, G)):
        model = models.KernelKMeans(2, kernel, init=X[:2]).fit(X)
        assert model.labels_[0] != model.labels_[1]
        with pytest.raises(InvalidInput, match="init"):
            models.KernelKMeans(2, kernel, init=[1.5, 2.5]).fit(X)
    for method in ("nystrom", "minibatch"):
        model = models.KernelKMeans(2, K, method=method, random_state=0).fit(words)
        np.testing.assert_array_equal(model.predict(words), model.labels_)


def test_neighbours_of_a_training_point_begin_with_itself(words):
    different = sorted(set(words))
    model = models.KernelNeighborsRegressor(Subsequence(3, 0.7).normalized(), 1)
    model.fit(different, np.arange(len(different)))
    np.testing.assert_array_equal(model.predict(different), np.arange(len(different)))
    if hasattr(model, "kneighbors"):
        distances, _ = model.kneighbors(different)
        np.testing.assert_array_equal(distances[:, 0], 0.0)


def test_points_that_share_nothing_are_no_matter_of_a_length_scale(words, y):
    model = models.KernelNeighborsRegressor(K, 2).fit(words, y)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.predict(["zzz"])
    assert all("length scale" not in str(w.message) for w in caught)


def test_a_perceptron_goes_on_with_more_strings(words, sides):
    model = models.KernelPerceptron(K, shuffle=False)
    model.partial_fit(words[:10], sides[:10], classes=["down", "up"])
    model.partial_fit(words[10:], sides[10:])
    assert model.predict(words).shape == sides.shape
    constant = ["ab"] * 3
    with pytest.raises(InvalidInput, match="one point"):
        models.KernelPerceptron(RBF("median").on("x")).partial_fit(
            {"x": [1.0, 1.0]}, ["a", "b"], classes=["a", "b"]
        )
    model.partial_fit(constant, ["up"] * 3)


def test_outputs_that_are_strings_or_graphs(words, graphs):
    upper = [w.upper() for w in words]
    model = models.StructuredKernelRidge(K, Spectrum(2).normalized(), alpha=1e-6).fit(words, upper)
    right = np.mean([a == b for a, b in zip(model.predict(words), upper, strict=True)])
    assert right > 0.8
    chosen = model.predict(words[:3], candidates=["ABCD", "DCBA"])
    assert set(chosen) <= {"ABCD", "DCBA"}
    model = models.StructuredKernelRidge(K, G).fit(words, graphs)
    assert all(isinstance(g, mercer.Graph) for g in model.predict(words[:2]))


def test_a_kernel_on_pairs_of_columns(words, y):
    rng = np.random.default_rng(2)
    table = {
        "left": words,
        "right": list(rng.permutation(words)),
        "site": rng.choice(["a", "b"], 24),
    }
    kernel = (K.on("left") + K.on("right")) * Categorical().on("site")
    model = KernelRidge(kernel, 0.1).fit(table, y)
    both = K(words) + K(table["right"])
    same = np.equal.outer(table["site"], table["site"])
    np.testing.assert_allclose(model.kernel_(table), both * same, atol=1e-12)


# -------------------------------------------------------------------------------- selection
def test_tuning_and_searching(words, graphs, y, sides):
    result = mercer.tune(KernelRidge(Subsequence(2, 0.5).normalized()), words, y)
    assert result.model.kernel_.kernel.decay != 0.5
    assert np.isfinite(mercer.tune(models.SVC(K), words, sides).score)
    search = mercer.search(
        KernelRidge(K), {"kernel__kernel__length": [1, 2], "alpha": [0.1, 1.0]}, words, y, cv=3
    )
    assert search.best_params_["kernel__kernel__length"] in (1, 2)
    assert np.isfinite(search.best_score_)
    search = mercer.search(models.SVC(G), {"kernel__kernel__iterations": [0, 2]}, graphs, sides, 3)
    assert np.isfinite(search.best_score_)


# ------------------------------------------------------------------------------ functions
def test_functions_of_one_kernel_add_whatever_letters_their_points_have(words):
    f = Function(Spectrum(2), words[:5], np.ones(5))
    g = Function(Spectrum(2), ["xyz", words[0]], [1.0, 2.0])
    h = 2.0 * f - g
    new = [*words[5:9], "xy"]
    np.testing.assert_allclose(h(new), 2 * f(new) - g(new), atol=1e-12)
    expected = np.ones(5) @ Spectrum(2)(words[:5], ["xyz", words[0]]) @ [1.0, 2.0]
    assert f.inner(g) == pytest.approx(expected)
    merged = (f + g).compress(0.0)
    assert len(merged) == len({*words[:5], "xyz"})
    np.testing.assert_allclose(merged(new), (f + g)(new), atol=1e-10)


def test_distances_and_means(words, graphs):
    for X, kernel in ((words, K), (graphs, G)):
        D = mercer.distance(kernel, X[:4], X[2:7])
        V = kernel(X)
        expected = np.sqrt(np.maximum(0, 2 - 2 * V[:4, 2:7]))
        np.testing.assert_allclose(D, expected, atol=1e-7)
        mean = mercer.mean_embedding(kernel, X)
        np.testing.assert_allclose(mean(X[:3]), V[:3].mean(1), atol=1e-12)


def test_a_counterexample_prints_its_strings():
    short = FromFunction(lambda a, b: -float(abs(len(a) - len(b))))
    report = mercer.check_kernel(short, ["a", "abcd", "abcdefgh"])
    assert not report and "abcd" in str(report)
    packed = mercer.check_kernel(K, Strings().check(["ab", "ba", ""]))
    assert packed


def test_candidates_for_an_experiment_may_be_strings(words, y):
    model = models.GaussianProcessRegressor(K, 0.1, optimizer=None).fit(words[:10], y[:10])
    chosen = mercer.selection.active.next_point(model, words[10:])
    assert chosen is not None
