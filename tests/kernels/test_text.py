"""BagOfWords equals scikit-learn's vectorisers, on training and on new documents."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.preprocessing import normalize

import mercer
from mercer import BagOfWords, Spectrum
from mercer.domains import Strings
from mercer.errors import InvalidInput
from mercer.kernels import text

TRAIN = [
    "The cat sat on the mat.",
    "the dog sat on the log; the log was wet",
    "Dogs and cats: naïve café, 東京 2024!",
    "",
    "stocks fell as banks sold bonds",
    "Banks BOUGHT bonds, and stocks rose",
    "the the the",
]
NEW = ["a cat bought stocks", "zebra", "", "Café café CAFÉ — the dog", "東京"]
CHOICES = [
    {},
    {"stop_words": "english"},
    {"stop_words": ["the", "and", "on"]},
    {"ngram_range": (1, 2)},
    {"lowercase": False},
    {"analyzer": "char", "ngram_range": (2, 3)},
    {"analyzer": "char_wb", "ngram_range": (1, 4)},
    {"token_pattern": r"(?u)\b\w+\b"},
    {"min_df": 2},
    {"max_df": 0.3},
    {"min_df": 0.2, "max_df": 3},
    {"binary": True},
    {"sublinear": True},
]


def words_of(k):
    return {name: value for name, value in k.items() if name != "sublinear"}


@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_tfidf_and_cosine_are_those_of_scikit_learn(choice):
    reader = TfidfVectorizer(sublinear_tf=choice.get("sublinear", False), **words_of(choice))
    A = reader.fit_transform(TRAIN).toarray()
    B = reader.transform(NEW).toarray()
    k = BagOfWords(**choice).fit_params(TRAIN)
    assert k.vocabulary == tuple(reader.get_feature_names_out())
    assert np.abs(k.idf - reader.idf_).max() < 1e-14
    assert np.abs(k(TRAIN) - A @ A.T).max() < 1e-14
    assert np.abs(k(NEW, TRAIN) - B @ A.T).max() < 1e-14
    assert np.abs(k(NEW) - B @ B.T).max() < 1e-14
    assert np.abs(k.features(NEW).toarray() - B).max() < 1e-14
    assert np.abs(BagOfWords(**choice)(TRAIN) - A @ A.T).max() < 1e-14
    assert k.n_features(NEW) == BagOfWords(**choice).n_features(TRAIN)


@pytest.mark.parametrize("cosine", [True, False])
@pytest.mark.parametrize("choice", CHOICES[:8], ids=str)
def test_plain_counts_are_those_of_scikit_learn(choice, cosine):
    reader = CountVectorizer(**choice)
    A, B = (M.toarray().astype(float) for M in (reader.fit_transform(TRAIN), reader.transform(NEW)))
    if cosine:
        A, B = normalize(A), normalize(B)
    k = BagOfWords(tfidf=False, normalize=cosine, **choice).fit_params(TRAIN)
    assert np.abs(k(NEW, TRAIN) - B @ A.T).max() < 1e-12
    assert np.abs(k.diag(NEW) - (B * B).sum(1)).max() < 1e-12
    assert k.idf is None


def test_cosine_is_the_normalized_kernel():
    plain = BagOfWords(normalize=False).fit_params(TRAIN)
    cosine = BagOfWords().fit_params(TRAIN)
    assert np.abs(plain.normalized()(NEW, TRAIN) - cosine(NEW, TRAIN)).max() < 1e-14
    assert np.abs(BagOfWords(normalize=False).normalized()(TRAIN) - cosine(TRAIN)).max() < 1e-14


def test_a_weight_is_a_repetition():
    weights = np.array([3, 0, 1, 2, 0, 1, 2])
    for choice in ({}, {"min_df": 2}, {"max_df": 0.5}, {"min_df": 0.3, "max_df": 5}):
        weighted = BagOfWords(**choice).fit_params(TRAIN, weights)
        rows = np.repeat(np.array(TRAIN, dtype=object), weights)
        repeated = BagOfWords(**choice).fit_params(rows)
        assert weighted.vocabulary == repeated.vocabulary
        assert np.abs(weighted.idf - repeated.idf).max() < 1e-14
    assert "log" not in weighted.vocabulary  # a document of weight zero is not there


def test_documents_without_words_are_zero_vectors():
    k = BagOfWords(stop_words="english").fit_params(TRAIN)
    K = k(["", "the the", "zebra", "cat"])
    assert (K[:3] == 0).all() and K[3, 3] == pytest.approx(1.0)
    assert not k.diag(["", "the"]).any()


@pytest.mark.parametrize("empty", [["", ""], ["a", "?!"], ["the", "and the"], []])
def test_no_words_at_all_give_zeros(empty):
    k = BagOfWords(stop_words=["the", "and"]).fit_params(empty)
    assert k.vocabulary == () and k.features(NEW).shape == (5, 0)
    assert (k(NEW, TRAIN) == 0).all() and (k(empty) == 0).all()
    if len(empty) == 2:
        model = mercer.KernelRidge(kernel=BagOfWords(stop_words=["the", "and"]))
        assert (model.fit(empty, [1.0, 2.0]).predict(["new words"]) == 0).all()


def test_the_vocabulary_may_be_given():
    k = BagOfWords(tfidf=False, normalize=False, vocabulary=("cat", "dog"))
    assert k(["dog cat dog", "cat bird"]).tolist() == [[5.0, 1.0], [1.0, 1.0]]
    with_idf = BagOfWords(normalize=False, vocabulary=("cat", "dog"), idf=[2.0, 3.0])
    assert with_idf(["dog cat dog"], ["cat"]).tolist() == [[4.0]]
    learned = BagOfWords(vocabulary=("cat", "dog")).fit_params(TRAIN)
    assert learned.vocabulary == ("cat", "dog") and learned.idf.shape == (2,)
    reader = TfidfVectorizer(vocabulary=["cat", "dog"]).fit(TRAIN)
    assert np.abs(learned.idf - reader.idf_).max() < 1e-14


def test_new_documents_need_training_documents():
    with pytest.raises(InvalidInput, match="fit_params"):
        BagOfWords()(NEW, TRAIN)
    k = BagOfWords().fit_params(TRAIN)
    assert k.fit_params(NEW) is k and clone(k) == k and pickle.loads(pickle.dumps(k)) == k


def test_it_prints_shortly():
    assert repr(BagOfWords()) == "BagOfWords()"
    assert repr(BagOfWords(False, "english", (1, 2), analyzer="word")) == (
        "BagOfWords(tfidf=False, stop_words='english', ngram_range=(1, 2))"
    )
    k = BagOfWords().fit_params([f"word{i} word{i + 1}" for i in range(2000)])
    assert repr(k) == "BagOfWords(vocabulary=<2001 words>)"


@pytest.mark.parametrize(
    ("documents", "says"),
    [
        (["a b", None], r"X\[1\] is missing"),
        (["a b", float("nan")], r"X\[1\] is missing"),
        (["a b", 3], r"X\[1\] is 3"),
        (np.zeros((3, 2)), "shape"),
        ("one document", "one string"),
        ([["a", "b"]], r"X\[0\]"),
        ([b"a b", b"c"], "bytes; decode"),
        ([b"a b", "c"], "all of one kind"),
    ],
    ids=range(8),
)
def test_what_is_no_document_is_named(documents, says):
    for call in (BagOfWords(), BagOfWords().fit_params(TRAIN)):
        with pytest.raises(InvalidInput, match=says):
            call(documents)


@pytest.mark.parametrize(
    "bad",
    [
        {"tfidf": "yes"},
        {"lowercase": None},
        {"stop_words": "german"},
        {"stop_words": [1, 2]},
        {"stop_words": {"the"}},
        {"stop_words": "english", "analyzer": "char"},
        {"ngram_range": 2},
        {"ngram_range": (0, 1)},
        {"ngram_range": (2, 1)},
        {"ngram_range": (1.0, 2.0)},
        {"analyzer": "letters"},
        {"token_pattern": "("},
        {"token_pattern": None},
        {"min_df": 0},
        {"min_df": -0.5},
        {"max_df": 1.5},
        {"max_df": True},
        {"vocabulary": "cat dog"},
        {"vocabulary": ("cat", "cat")},
        {"vocabulary": ("cat", 3)},
        {"idf": [1.0]},
        {"vocabulary": ("cat",), "idf": [1.0, 2.0]},
        {"vocabulary": ("cat",), "idf": [-1.0]},
        {"vocabulary": ("cat",), "idf": [np.nan]},
        {"vocabulary": ("cat",), "idf": "rare"},
    ],
    ids=str,
)
def test_bad_parameters_are_named(bad):
    with pytest.raises(InvalidInput, match=f"BagOfWords: {list(bad)[-1] if 'idf' in bad else ''}"):
        BagOfWords(**bad)


def test_strange_text():
    odd = ["\x00 \ud800 lone", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 e\u0301tude", "x" * 100000, "\u200b \n\t "]
    K = BagOfWords(analyzer="char_wb", ngram_range=(1, 2))(odd)
    assert np.isfinite(K).all() and np.allclose(np.diag(K)[:3], 1.0)


# -------------------------------------------------------------------------------- in company
def documents(n, rng):
    """Two authors with words, and habits of spelling, of their own."""
    common = ["time", "house", "people", "night"]
    own = (["whilst", "colour", "towards"], ["while", "color", "toward"])
    y = rng.integers(0, 2, n)
    return [" ".join(rng.choice([*common, *own[c]], 12)) for c in y], y


def test_every_kind_of_model_reads_documents(tmp_path):
    rng = np.random.default_rng(0)
    X, y = documents(60, rng)
    Z, z = documents(40, rng)
    for model in (
        mercer.SVC(kernel=BagOfWords()),
        mercer.KernelRidgeClassifier(kernel=BagOfWords(analyzer="char_wb", ngram_range=(2, 4))),
        mercer.KernelLogisticRegression(kernel=BagOfWords(tfidf=False)),
        mercer.GaussianProcessClassifier(kernel=2.0 * BagOfWords()),
        mercer.KernelNeighborsClassifier(kernel=BagOfWords()),
        mercer.SVC(kernel=BagOfWords() + Spectrum(3).normalized()),
    ):
        assert model.fit(X, y).score(Z, z) > 0.9
        mercer.save(model, tmp_path / "model.mercer")
        again = mercer.load(tmp_path / "model.mercer")
        assert (again.predict(Z) == model.predict(Z)).all() and again.kernel_ == model.kernel_
        (tmp_path / "model.mercer").unlink()
    assert mercer.KernelPCA(2, kernel=BagOfWords()).fit_transform(X).shape == (60, 2)
    assert cross_val_score(mercer.SVC(kernel=BagOfWords()), X, y, cv=3).mean() > 0.9
    search = GridSearchCV(
        mercer.KernelRidgeClassifier(kernel=BagOfWords()),
        {"kernel__tfidf": [True, False], "kernel__ngram_range": [(1, 1), (1, 2)]},
        cv=2,
    )
    assert search.fit(X, y).best_score_ > 0.9


def test_one_weight_for_each_document():
    docs = ["aa bb", "cc dd", "ee ff"]
    for weights in ([1.0, 2.0], [1.0, 2.0, 3.0, 4.0]):
        for k in (BagOfWords(), BagOfWords().with_missing()):
            with pytest.raises(InvalidInput, match=r"sample_weight has shape .*, expected \(3,\)"):
                k.fit_params(docs, sample_weight=weights)


def test_a_pattern_has_one_group_at_most():
    with pytest.raises(InvalidInput, match=r"token_pattern=.*one group at most"):
        BagOfWords(token_pattern=r"(\w)(\w+)")
    assert BagOfWords(token_pattern=r"\w(\w+)").fit_params(["xab yab"]).vocabulary == ("ab",)


def test_a_column_of_notes():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    X, y = documents(50, rng)
    frame = pandas.DataFrame({"notes": X, "age": rng.uniform(20, 60, 50)})
    k = BagOfWords().on("notes") + 0.1 * mercer.RBF(10.0).on("age")
    model = mercer.SVC(kernel=k).fit(frame[:30], y[:30])
    assert model.score(frame[30:], y[30:]) > 0.9
    alone = BagOfWords().fit_params(X[:30])
    fitted = BagOfWords().on("notes").fit_params(frame[:30])
    assert np.abs(fitted(frame) - alone(X)).max() < 1e-15
    with pytest.raises(InvalidInput, match="missing"):
        model.predict(pandas.DataFrame({"notes": ["fine", None], "age": [1.0, 2.0]}))


def test_many_documents_stay_sparse():
    rng = np.random.default_rng(0)
    words = np.array([f"w{i}" for i in range(5000)])
    X = [" ".join(words[rng.integers(0, 5000, 20)]) for _ in range(3000)]
    k = BagOfWords().fit_params(X)
    phi = k.features(X)
    assert phi.format == "csr" and phi.nnz < 61000 and k.collision_probability(X) == 0
    V = rng.standard_normal((3000, 2))
    assert np.abs(k.matmul(X, None, V) - phi @ (phi.T @ V)).max() < 1e-11
    assert np.abs(k(X[:400]) - (phi[:400] @ phi[:400].T).toarray()).max() < 1e-12


def test_documents_that_live_are_read_once(monkeypatch):
    reads = []
    weighted = BagOfWords._weighted
    monkeypatch.setattr(BagOfWords, "_weighted", lambda k, X: reads.append(k) or weighted(k, X))
    X = Strings().check(["the cat sat", "the cat ran", "stocks fell"])
    kernel = BagOfWords().fit_params(X)
    first = kernel(X)
    phi = kernel.features(X)
    phi.data[:] = 0  # what a caller does to the features is his own
    np.testing.assert_array_equal(kernel(X), first)
    np.testing.assert_array_equal(kernel.diag(X), np.diag(first))
    assert len(reads) == 1
    for other in (kernel._replace({"normalize": False}), kernel._replace({"idf": 2 * kernel.idf})):
        np.testing.assert_array_equal(other(X), other(list(X)))
    kernel.idf[:] = 1.0  # in place
    assert abs(kernel(X) - first).max() > 0
    places = len(text._read)
    del X
    assert len(text._read) < places  # nothing is kept of documents that are gone


def test_a_budget_of_little_memory_keeps_nothing():
    X = Strings().check(["the cat sat", "the cat ran", "stocks fell"] * 50)
    with mercer.config(memory="100kB"):
        BagOfWords().features(X)
    assert id(X) not in text._read


@pytest.mark.parametrize(
    "model", [mercer.TableRegressor(model="ridge"), mercer.TableClassifier(model="svc")]
)
def test_a_search_reads_a_column_of_text_a_few_times(monkeypatch, model):
    reads = []
    weighted = BagOfWords._weighted
    monkeypatch.setattr(BagOfWords, "_weighted", lambda k, X: reads.append(k) or weighted(k, X))
    rng = np.random.default_rng(0)
    words = ["house", "garden", "river", "old", "new", "bright", "quiet", "large", "small"]
    notes = [" ".join(rng.choice(words, 8)) for _ in range(60)]
    a = rng.normal(size=60)
    y = a + ["river" in note for note in notes]
    y = y > np.median(y) if isinstance(model, mercer.TableClassifier) else y
    model.fit({"a": a, "note": notes}, y)
    assert "BagOfWords" in repr(model.kernel_)
    assert len(reads) <= 40, len(reads)
