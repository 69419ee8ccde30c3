"""Sparse features of kernels that count: k = ΦΨᵀ, unknown parts, combinations, linear models."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

import mercer
from mercer import RBF, KernelRidge, Linear, SetKernel
from mercer.errors import InvalidInput, ModelFileError
from mercer.features import SparseCounts
from mercer.kernels import BagOfWords, Categorical
from mercer.kernels.graphs import WeisfeilerLehman
from mercer.kernels.strings import Mismatch, Spectrum, Subsequence, WeightedDegree
from mercer.testing import check_nonvector_estimator


@pytest.fixture
def words(rng):
    return ["".join(rng.choice(list("acgt"), rng.integers(0, 12))) for _ in range(30)]


def cases():
    yield Spectrum(2)
    yield Spectrum([1, 3])
    yield Spectrum(2).normalized()
    yield Mismatch(3, 1)
    yield 0.25 * Spectrum(1) + Spectrum(3).normalized()
    yield Spectrum(2) * 3.0 + 1.0
    yield (Spectrum(1) + Spectrum(2)).normalized()


@pytest.mark.parametrize("kernel", list(cases()), ids=repr)
def test_features_give_the_kernel(kernel, words):
    known, new = words[:20], [*words[20:], "zzz", "acgtzz", ""]
    model = SparseCounts(kernel)
    phi = model.fit_transform(known)
    assert sp.issparse(phi) and phi.format == "csr" and phi.dtype == np.float64
    np.testing.assert_allclose((phi @ phi.T).toarray(), kernel(known), rtol=1e-12, atol=1e-12)
    psi = model.transform(new)
    np.testing.assert_allclose((phi @ psi.T).toarray(), model.kernel_(known, new), atol=1e-12)
    np.testing.assert_array_equal(model.transform(known).toarray(), phi.toarray())
    assert len(model.get_feature_names_out()) == phi.shape[1] == sum(map(len, model.vocabulary_))


def test_bags_tables_graphs_and_texts(rng, words):
    bags = [words[i : i + 3] for i in range(0, 30, 3)] + [[]]
    kernel = SetKernel(Spectrum(2).normalized())
    phi = SparseCounts(kernel).fit_transform(bags)
    np.testing.assert_allclose((phi @ phi.T).toarray(), kernel(bags), atol=1e-12)
    table = {"dna": words, "age": rng.uniform(1, 2, 30), "dose": rng.uniform(1, 2, 30)}
    kernel = Spectrum(2).on("dna") + 0.5 * Linear().on(["age", "dose"])
    model = SparseCounts(kernel)
    phi = model.fit_transform(table)
    np.testing.assert_allclose((phi @ phi.T).toarray(), kernel(table), rtol=1e-12)
    few = {name: values[:4] for name, values in table.items()}
    np.testing.assert_allclose((phi @ model.transform(few).T).toarray(), kernel(table, few))
    graphs = [
        mercer.Graph(
            edges=[(i, i + 1) for i in range(n - 1)], n_nodes=n, labels=rng.integers(0, 2, n)
        )
        for n in (3, 4, 5, 6)
    ]
    kernel = WeisfeilerLehman(2).normalized()
    phi = SparseCounts(kernel).fit_transform(graphs)
    np.testing.assert_allclose((phi @ phi.T).toarray(), kernel(graphs), atol=1e-12)
    texts = ["the cat sat", "a cat", "the dog and the cat", "no"]
    model = SparseCounts(BagOfWords()).fit(texts)
    phi = model.transform(texts)
    np.testing.assert_allclose((phi @ phi.T).toarray(), model.kernel_(texts), atol=1e-12)
    assert not model.kernel_._words()


def test_a_linear_model_on_features_is_the_kernel_model(words):
    y = np.array([w.count("a") - 0.5 * w.count("cg") for w in words])
    dual = KernelRidge(Spectrum([1, 2]), alpha=0.3).fit(words[:20], y[:20])
    primal = make_pipeline(
        SparseCounts(Spectrum([1, 2])), Ridge(0.3, fit_intercept=False, tol=1e-12)
    )
    primal.fit(words[:20], y[:20])
    np.testing.assert_allclose(primal.predict(words[20:]), dual.predict(words[20:]), atol=1e-6)
    sides = np.where(y > np.median(y), "up", "down")
    model = make_pipeline(SparseCounts(Spectrum(1)), LogisticRegression())
    assert cross_val_score(model, words, sides, cv=3).mean() > 0.6
    grid = {"sparsecounts__kernel__length": [1, 2], "logisticregression__C": [0.1, 1.0]}
    search = GridSearchCV(model, grid, cv=2).fit(np.array(words), sides)
    assert search.predict(words[:3]).shape == (3,)


def test_the_battery_holds_for_the_features_alone(words):
    long = [w + "acg" for w in words[:16]]
    check_nonvector_estimator(SparseCounts(Spectrum(2)), long)
    check_nonvector_estimator(SparseCounts(Spectrum(2).normalized()), long)


def test_files_and_copies(words, tmp_path):
    model = make_pipeline(SparseCounts(Spectrum(2).normalized()), Ridge())
    model.fit(words, range(len(words)))
    mercer.save(model, tmp_path / "m.mercer")
    for again in (mercer.load(tmp_path / "m.mercer"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(again.predict(words), model.predict(words))
    assert not hasattr(clone(model[0]), "vocabulary_")
    broken = model[0]
    for bad in ("abc", [np.array([2, 1], dtype=np.uint64)], [np.array([1.0, 2.0])]):
        broken.vocabulary_ = bad
        with pytest.raises(ModelFileError, match="vocabulary"):
            broken._check_state()


def test_no_words_in_common_and_no_parts_at_all():
    model = SparseCounts(Spectrum(3)).fit(["abcd", "bcd"])
    assert model.transform(["xyz", "", "ab"]).nnz == 0
    empty = SparseCounts(Spectrum(3)).fit(["ab", ""])
    assert empty.transform(["abc"]).shape == (1, 0)


def test_what_has_no_counts_is_refused(words):
    for kernel in (Subsequence(2, 0.5), Spectrum(1).exp()):
        with pytest.raises(InvalidInput, match=r"SparseCounts: .*Prototypes"):
            SparseCounts(kernel).fit(words)
    with pytest.raises(InvalidInput, match="SparseCounts"):
        SparseCounts(RBF()).fit(np.zeros((3, 1)))
    with pytest.raises(InvalidInput, match="SparseCounts"):
        SparseCounts("no such kernel").fit(words)
    with pytest.raises(InvalidInput, match="0 points"):
        SparseCounts(Spectrum(2)).fit([])
    assert not hasattr(SparseCounts(Spectrum(1)), "set_output")


def doubled(X):
    return [s + s for s in X]


@pytest.mark.parametrize(
    "kernel",
    [
        Spectrum(2).with_missing(),
        Spectrum([1, 2]).normalized().with_missing(),
        2.0 * (Spectrum(1).with_missing() + 1.0),
        WeightedDegree(3).with_missing(),
        Spectrum(2).with_missing().normalized(),
    ],
    ids=repr,
)
def test_missing_is_a_part_of_its_own(kernel, words):
    known, new = [*words[:18], None, None], [*words[20:], None, "zzz", "acgtzz", ""]
    for k, given in ((kernel, lambda X: X), (kernel.on("s"), lambda X: {"s": X})):
        model = SparseCounts(k)
        phi = model.fit_transform(given(known))
        K = model.kernel_(given(known))
        np.testing.assert_allclose((phi @ phi.T).toarray(), K, rtol=1e-12, atol=1e-12)
        psi = model.transform(given(new))
        cross = model.kernel_(given(known), given(new))
        np.testing.assert_allclose((phi @ psi.T).toarray(), cross, atol=1e-12)
        # where training had none, what is missing shares nothing with it
        whole = SparseCounts(k).fit(given(words[:5]))
        cross = whole.kernel_(given(words[:5]), given(new))
        psi = whole.transform(given(words[:5])) @ whole.transform(given(new)).T
        np.testing.assert_allclose(psi.toarray(), cross, atol=1e-12)
    with pytest.raises(InvalidInput, match="neither counts"):
        SparseCounts(Spectrum(1).with_missing("a", agreement=0.5)).fit(known)


@pytest.mark.parametrize("kernel", [Categorical(), Categorical(0.3), 0.5 * Categorical(0.2) + 1.0])
def test_categories_are_counted_one_by_one(kernel):
    known, new = ["a", "b", None, 1, "a", 2.5], ["a", "zz", None, 1.0, "1", "b"]
    model = SparseCounts(kernel)
    phi = model.fit_transform(known)
    np.testing.assert_allclose((phi @ phi.T).toarray(), kernel(known), atol=1e-14)
    cross = phi @ model.transform(new).T
    np.testing.assert_allclose(cross.toarray(), kernel(known, new), atol=1e-14)
    with pytest.raises(InvalidInput, match="neither counts"):
        SparseCounts(kernel).fit([["a", 1], ["b", 2]])


def test_a_table_with_gaps_in_the_primal(words, rng, tmp_path):
    frame = {
        "dna": [None if i % 7 == 0 else s for i, s in enumerate(words)],
        "site": [["here", "there", None][i % 3] for i in range(30)],
        "age": rng.uniform(1, 2, 30),
    }
    kernel = Spectrum(2).with_missing().on("dna") + Categorical(0.4).on("site") + Linear().on("age")
    y = rng.standard_normal(30)
    line = make_pipeline(SparseCounts(kernel), Ridge(alpha=0.5, fit_intercept=False, tol=1e-12))
    expected = KernelRidge(kernel, 0.5).fit(frame, y).predict(frame)
    frame_of = mercer.domains.Table(frame)
    np.testing.assert_allclose(line.fit(frame_of, y).predict(frame_of), expected, atol=1e-5)
    mercer.save(line[0], tmp_path / "counts.mercer")
    again = mercer.load(tmp_path / "counts.mercer").transform(frame)
    assert (again != line[0].transform(frame)).nnz == 0


@pytest.mark.parametrize(
    "kernel",
    [Spectrum(1).warp(doubled), Spectrum(1).scale_by(lambda X: np.full(len(X), 2.0))],
    ids=["warp", "scale_by"],
)
def test_letters_that_training_did_not_have_through_a_map(kernel):
    model = SparseCounts(kernel)
    phi = model.fit_transform(["ab", "ba", "bbb"])
    new = ["abz", "z", "a"]
    expected = model.kernel_(["ab", "ba", "bbb"], new)
    np.testing.assert_allclose((phi @ model.transform(new).T).toarray(), expected, atol=1e-12)
