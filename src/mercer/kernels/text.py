"""`BagOfWords`: documents as weighted counts of their words, k(d, d′) = Σ_w φ_w(d) φ_w(d′)."""

from __future__ import annotations

import copy
import itertools
import re
import weakref
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains import StringCollection, Strings
from mercer.errors import InvalidInput
from mercer.kernels.counted import Counted, Counts, Naming
from mercer.kernels.parameters import warn_all_zero
from mercer.kernels.scales import point_weights
from mercer.settings import get_config

TOKEN = r"(?u)\b\w\w+\b"  # scikit-learn's: words of two letters or more
ANALYZERS = ("word", "char", "char_wb")
KEPT = 1 / 64  # of the memory budget, up to which the features of a collection are kept with it
#: Features by the id of a collection that lives: the collection, the kernel, the features.
_read: dict[int, tuple[weakref.ref, BagOfWords, sp.csr_array]] = {}


class BagOfWords(Counted):
    r"""The inner product of two documents as bags of words, weighted by tf-idf.

    :math:`k(d, d') = \sum_w \varphi_w(d)\,\varphi_w(d')`, where
    :math:`\varphi_w(d) = \mathrm{tf}_w(d)\,\mathrm{idf}_w` counts the word w in d and weighs it by
    :math:`\mathrm{idf}_w = 1 + \ln\frac{1 + n}{1 + n_w}`, n_w of the n training documents having
    it. With ``normalize`` all φ(d) have length one, and k is the cosine of the angle between two
    documents. The values are those of scikit-learn's ``TfidfVectorizer``, which reads the words.

    *Valid when* always: it is an inner product of explicit features.

    The words and their idf are taken from the training documents by ``fit_params``, which
    estimators call in ``fit``; there a document of weight 2 counts as two. Words of new documents
    that are not among them are left out, of the length too. A document without words is the zero
    vector: its kernel values are zero. If no training document has a word, all values are, with a
    warning.

    Parameters
    ----------
    tfidf : bool, default=True
        Weigh counts by idf; if not, every word has the weight one.
    stop_words : {"english"}, list of str or None, default=None
        Words to leave out; the word "english" is scikit-learn's list.
    ngram_range : tuple of two int, default=(1, 1)
        Shortest and longest run of words, or of letters, that counts as one word.
    lowercase : bool, default=True
        Read capital letters as small ones.
    analyzer : {"word", "char", "char_wb"}, default="word"
        Count runs of words, of letters, or of letters inside words: "char" or "char_wb" with
        ``ngram_range=(2, 4)`` tells authors and languages apart.
    token_pattern : str, default=r"(?u)\\b\\w\\w+\\b"
        What a word is, as a regular expression; by default two letters or more.
    binary : bool, default=False
        Count a word once however often a document has it.
    sublinear : bool, default=False
        Count 1 + ln tf in the place of tf.
    min_df, max_df : int or float, default=1 and 1.0
        Leave out words of fewer, or of more, documents: an int counts documents, a float is a
        share of all.
    normalize : bool, default=True
        Divide by the lengths, so that k is the cosine and k(d, d) is one.
    vocabulary : tuple of str, default=None
        The words; None takes those of the training documents.
    idf : array of shape (len(vocabulary),), default=None
        Their weights; None takes them from the training documents.

    Notes
    -----
    Cost: one pass over the letters for each collection, then products of sparse rows. The sparse
    features themselves are ``kernel.features(documents)``, and where there are fewer words than
    documents linear models work with them.

    Examples
    --------
    >>> from mercer import BagOfWords
    >>> notes = ["the cat sat", "the cat ran", "stocks fell"]
    >>> BagOfWords(stop_words="english")(notes).round(2)
    array([[1.  , 0.37, 0.  ],
           [0.37, 1.  , 0.  ],
           [0.  , 0.  , 1.  ]])
    """

    domain = Strings()

    def __init__(
        self,
        tfidf: bool = True,
        stop_words: Any = None,
        ngram_range: tuple[int, int] = (1, 1),
        *,
        lowercase: bool = True,
        analyzer: str = "word",
        token_pattern: str = TOKEN,
        binary: bool = False,
        sublinear: bool = False,
        min_df: float = 1,
        max_df: float = 1.0,
        normalize: bool = True,
        vocabulary: tuple[str, ...] | None = None,
        idf: Any = None,
    ):
        super().__init__(
            tfidf=tfidf,
            stop_words=stop_words,
            ngram_range=ngram_range,
            lowercase=lowercase,
            analyzer=analyzer,
            token_pattern=token_pattern,
            binary=binary,
            sublinear=sublinear,
            min_df=min_df,
            max_df=max_df,
            normalize=normalize,
            vocabulary=vocabulary,
            idf=idf,
        )

    # -- parameters ---------------------------------------------------------------------------
    def _check_params(self) -> None:
        for name in ("tfidf", "lowercase", "binary", "sublinear", "normalize"):
            if not isinstance(getattr(self, name), bool | np.bool_):
                _refuse(name, getattr(self, name), "give True or False")
        if not isinstance(self.analyzer, str) or self.analyzer not in ANALYZERS:
            _refuse("analyzer", self.analyzer, "legal are 'word', 'char' and 'char_wb'")
        self._check_runs()
        self._check_stop_words()
        for name in ("min_df", "max_df"):
            _check_share(name, getattr(self, name))
        try:
            groups = re.compile(self.token_pattern).groups
        except (TypeError, re.error) as error:
            _refuse("token_pattern", self.token_pattern, f"no regular expression: {error}")
        if groups > 1:
            _refuse("token_pattern", self.token_pattern, "one group at most; write (?:...) instead")
        self._check_words()

    def _check_runs(self) -> None:
        runs = self.ngram_range
        pair = isinstance(runs, tuple | list) and len(runs) == 2 and all(map(_is_whole, runs))
        if not pair or not 1 <= runs[0] <= runs[1]:
            _refuse("ngram_range", runs, "give two whole numbers 1 ≤ low ≤ high, such as (1, 2)")

    def _check_stop_words(self) -> None:
        words = self.stop_words
        if words is None:
            return
        many = isinstance(words, list | tuple) and all(isinstance(w, str) for w in words)
        if words != "english" and not many:
            _refuse("stop_words", words, "give 'english', a list of words, or None")
        if self.analyzer != "word":
            _refuse("stop_words", words, f"analyzer={self.analyzer!r} counts letters; give None")

    def _check_words(self) -> None:
        words, idf = self.vocabulary, self.idf
        if words is not None:
            text = isinstance(words, tuple | list) and all(isinstance(w, str) for w in words)
            if not text or len(set(words)) < len(words):
                _refuse("vocabulary", words, "give a tuple of different words, or None")
        if idf is None:
            return
        try:
            weights = np.asarray(idf, dtype=float)
        except (OverflowError, TypeError, ValueError):
            weights = np.array(np.nan)
        if words is None or weights.shape != (len(words),):
            _refuse("idf", idf, "give a number for each word of the vocabulary, or None")
        if not np.isfinite(weights).all() or (weights < 0).any():
            _refuse("idf", idf, "weights are finite numbers ≥ 0")

    def _words(self) -> list[str]:
        missing = [] if self.vocabulary is not None else ["vocabulary"]
        return missing + (["idf"] if self.tfidf and self.idf is None else [])

    def _resolve(self, X: StringCollection, sample_weight: Any) -> dict[str, Any]:
        """Return the words of the documents and how rare they are."""
        w = point_weights(len(X), sample_weight)
        there = w > 0
        words, counts = self._counted(X.take(np.flatnonzero(there)))
        n = float(w.sum())
        have = np.zeros(len(words))
        np.add.at(have, counts.indices, np.repeat(w[there], np.diff(counts.indptr)))
        if self.vocabulary is None:
            # Rounding of weights 0.1 + 0.2 must not decide about a word.
            low, high = (_documents(share, n) for share in (self.min_df, self.max_df))
            kept = (have >= low * (1 - 1e-12)) & (have <= high * (1 + 1e-12))
            if len(X) and not kept.any():
                self._warn_of_no_words(len(words))
            words, have = [w for w, k in zip(words, kept, strict=True) if k], have[kept]
        idf = 1 + np.log((1 + n) / (1 + have)) if self.tfidf and self.idf is None else self.idf
        return {"vocabulary": tuple(words), "idf": idf}

    def _warn_of_no_words(self, found: int) -> None:
        if found:
            why = f"none of {found} words is left by min_df={self.min_df} and max_df={self.max_df}"
            warn_all_zero(self, why, "lower min_df, or raise max_df")
        else:
            cure = "token_pattern says what a word is, and analyzer='char' counts letters instead"
            warn_all_zero(self, "no document has a word that counts", cure)

    # -- features -----------------------------------------------------------------------------
    def _counted(self, X: StringCollection) -> tuple[list[str], sp.csr_array]:
        """Return the words, and how often each document has each of them."""
        from sklearn.feature_extraction.text import CountVectorizer

        fixed = None if self.vocabulary is None else list(self.vocabulary)
        documents = _texts(X)
        reader = CountVectorizer(
            lowercase=bool(self.lowercase),
            stop_words=list(self.stop_words) if _is_list(self.stop_words) else self.stop_words,
            ngram_range=tuple(self.ngram_range),
            analyzer=self.analyzer,
            token_pattern=self.token_pattern,
            binary=bool(self.binary),
            vocabulary=fixed,
            dtype=np.float64,
        )
        analyze = reader.build_analyzer()
        if fixed == [] or (fixed is None and not any(map(analyze, documents))):
            return [], sp.csr_array((len(X), 0))
        if fixed is not None:
            return fixed, sp.csr_array(reader.transform(documents))
        counts = sp.csr_array(reader.fit_transform(documents))
        return list(reader.get_feature_names_out()), counts

    def _features(self, X: StringCollection) -> sp.csr_array:
        """Return the features; those of a collection that is asked for again are not read anew.

        A search over the parameters of other columns asks hundreds of times for the same documents.
        """
        known = _read.get(id(X))
        if known is not None and known[0]() is X and known[1] == self:
            return known[2].copy()
        phi = self._weighted(X)
        if phi.data.nbytes + phi.indices.nbytes <= KEPT * get_config().memory:
            place = id(X)
            lives = weakref.ref(X, lambda _: _read.pop(place, None))
            _read[place] = lives, copy.deepcopy(self), phi.copy()
        return phi

    def _weighted(self, X: StringCollection) -> sp.csr_array:
        _, phi = self._counted(X)
        if self.sublinear:
            phi.data = 1 + np.log(phi.data)
        if self.tfidf:
            phi.data = phi.data * np.asarray(self.idf, dtype=np.float64)[phi.indices]
        if self.normalize:
            lengths = np.sqrt(np.asarray(phi.multiply(phi).sum(axis=1)).reshape(-1))
            lengths[lengths == 0] = 1.0
            phi.data = phi.data / np.repeat(lengths, np.diff(phi.indptr))
        return phi

    def _n_features(self, X: StringCollection) -> int:
        return len(self.fit_params(X).vocabulary)

    def _counts(self, X: StringCollection) -> Counts:
        phi = self._features(X)
        rows = np.repeat(np.arange(phi.shape[0], dtype=np.int64), np.diff(phi.indptr))
        return Counts(phi.shape[0], rows, phi.indices.astype(np.uint64), phi.data)

    def _namings(self) -> list[Naming]:
        return [lambda codes: [self.vocabulary[i] for i in codes.tolist()]]

    def _collisions(self, codes: np.ndarray) -> float:
        """Return zero: words are told apart by their place in the vocabulary."""
        return 0.0

    def __repr__(self) -> str:
        shown = []
        for name, default in BagOfWords().get_params().items():
            value = getattr(self, name)
            if name == "vocabulary" and value is not None:
                shown.append(f"vocabulary=<{len(value)} words>")
            elif name != "idf" and value != default:
                shown.append(f"{name}={value!r}")
        return f"BagOfWords({', '.join(shown)})"


def _texts(X: StringCollection) -> list[str]:
    """Return documents as Python's strings; code points are counted alike in both."""
    if X.kind != "str" and len(X):
        raise InvalidInput(
            "BagOfWords: the documents are bytes; decode them, for example with d.decode('utf-8')."
        )
    whole = X.codes.astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")
    ends = X.offsets.tolist()
    return [whole[a:b] for a, b in itertools.pairwise(ends)]


def _documents(share: Any, n: float) -> float:
    """Return a number of documents that is given as such or as a share of n."""
    return float(share) if _is_whole(share) else float(share) * n


def _check_share(name: str, value: Any) -> None:
    share = isinstance(value, float | np.floating) and 0 <= value <= 1
    if not share and not (_is_whole(value) and value >= 1):
        _refuse(name, value, "give a whole number of documents ≥ 1, or a share from 0.0 to 1.0")


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _refuse(name: str, value: Any, legal: str) -> None:
    text = repr(value)
    text = text if len(text) <= 60 else text[:57] + "..."
    raise InvalidInput(f"BagOfWords: {name}={text}; {legal}.")
