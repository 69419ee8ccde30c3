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
from mercer.kernels import BagOfWords
from mercer.kernels.graphs import WeisfeilerLehman
from mercer.kernels.strings import Mismatch, Spectrum, Subsequence
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
