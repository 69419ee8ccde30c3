"""`SparseCounts`: the features of kernels that count, for linear models on strings and graphs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from mercer import state
from mercer.errors import InvalidInput, speaks, who
from mercer.estimator import TakesKernel
from mercer.kernels import (
    Categorical,
    Constant,
    Counted,
    Counts,
    Kernel,
    Naming,
    Normalized,
    OnColumns,
    Product,
    SetKernel,
    Sum,
    Warped,
    WithMissing,
    averaged,
    beside,
)

# ---- Names of the columns of counts: the substrings and words that kernels count ----


def names_of_counts(kernel: Any, vocabulary: list[np.ndarray]) -> list[str] | None:
    """Return a name for every column, or None where some part cannot be named.

    Parameters
    ----------
    kernel : Kernel
        The kernel, words resolved.
    vocabulary : list of arrays of uint64
        The codes of the columns, for one kind of parts after another.
    """
    namings = list(_namings(kernel, len(vocabulary)))
    if len(namings) != len(vocabulary) or None in namings:
        return None
    pairs = zip(namings, vocabulary, strict=True)
    parts = [naming(codes) for naming, codes in pairs if naming is not None]
    names = [name for part in parts for name in part]
    if len(set(names)) < len(names):  # two kernels count the same
        names = [f"{name} ({i})" for i, part in enumerate(parts) for name in part]
    return names


def _namings(kernel: Any, most: int) -> Iterator[Naming | None]:
    """Yield how each kind of parts is named, in the order of the counts; None where it is not."""
    if isinstance(kernel, Counted):
        for i, naming in enumerate(kernel._namings()):
            if i > most:  # more than there are parts
                return
            yield naming
    elif isinstance(kernel, OnColumns):
        (inner,), columns = kernel._kernels(), kernel.get_params(deep=False)["columns"]
        for naming in _namings(inner, most):
            yield None if naming is None else _prefixed(f"{columns}: ", naming)
    elif isinstance(kernel, Normalized | Sum | Warped | SetKernel):
        for inner in kernel._kernels():
            yield from _namings(inner, most)
    elif isinstance(kernel, Product):
        for inner in kernel._kernels():
            if not isinstance(inner, Constant):
                yield from _namings(inner, most)
    else:
        yield None


def _prefixed(prefix: str, naming: Naming) -> Naming:
    return lambda codes: [prefix + name for name in naming(codes)]


# ---- sparse counts ----


def _has_rising_codes(words: Any) -> bool:
    return isinstance(words, list) and all(
        isinstance(codes, np.ndarray)
        and codes.dtype == np.uint64
        and codes.ndim == 1
        and bool((codes[1:] > codes[:-1]).all())
        for codes in words
    )


class SparseCounts(  # type: ignore[call-arg]
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    TakesKernel,
    BaseEstimator,
    auto_wrap_output_keys=None,
):
    r"""Map points to the sparse features Φ of a kernel that counts, k(x, x′) = Φ(x)ᵀΦ(x′).

    Strings are counted by their substrings, graphs by their labels, texts by their words: behind
    these features every linear model of scikit-learn runs on such data in the primal, at the cost
    of the entries that are not zero. The columns are the parts that the training points have;
    those that only new points have are left out, so Φ(X_train)Φ(Y)ᵀ = k(X_train, Y) for all Y,
    and a linear model that penalises the length of its weights is that of the kernel.

    ``k.normalized()`` divides each row by √k(x, x), all parts of x counted. Sums, multiples,
    ``.on(column)``, ``.warp(f)``, ``.with_missing()`` without a `fill` and `SetKernel` of kernels
    that count will do, and so do `Categorical` on one column and kernels with finite features, such
    as `Linear`, as summands.

    Parameters
    ----------
    kernel : Kernel
        What is counted.

    Attributes
    ----------
    kernel_ : Kernel
        The kernel with words resolved.
    vocabulary_ : list of arrays of uint64
        The codes of the columns, in rising order, for one kind of parts after another.

    See Also
    --------
    mercer.Prototypes : Features of any kernel, one for each prototype.

    Notes
    -----
    `transform` returns a ``csr_array`` of float64, which frames cannot hold: there is no
    ``set_output``.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from mercer.features import SparseCounts
    >>> from mercer.kernels import Spectrum
    >>> words = ["gattaca", "attac", "cagga", "ggagg"]
    >>> features = SparseCounts(Spectrum(2)).fit_transform(words)
    >>> features.shape, int((features @ features.T)[0, 1]), int(Spectrum(2)(words)[0, 1])
    ((4, 8), 4, 4)
    >>> SparseCounts(Spectrum(2)).fit(words).get_feature_names_out()[:4].tolist()
    ['ac', 'ag', 'at', 'ca']
    >>> model = make_pipeline(SparseCounts(Spectrum(2)), LogisticRegression())
    >>> model.fit(words, [1, 1, 0, 0]).predict(["tattat", "gg"])
    array([1, 0])
    """

    _state = {
        "kernel_": state.Anything(needed=False),
        "vocabulary_": state.Such(
            _has_rising_codes,
            says="the vocabulary of a {} is no list of rising codes",
            needed=False,
        ),
        **state.INPUTS,
    }

    def __init__(self, kernel: Any):
        self.kernel = kernel

    @speaks
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn which parts the training points have.

        Parameters
        ----------
        X : collection of n points
            What the kernel accepts.
        y : None
            Ignored.

        Returns
        -------
        SparseCounts
            The fitted map itself.
        """
        self._learn(X)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> sp.csr_array:
        """Learn the parts of the points and return the features, the points counted once.

        Parameters
        ----------
        X : collection of n points
            What the kernel accepts.
        y : None
            Ignored.
        """
        return self._matrix(self._learn(X))

    def transform(self, X: Any) -> sp.csr_array:
        """Return the features of points, shape (n, columns), as a ``csr_array`` of float64.

        Parameters
        ----------
        X : collection of n points
            Points of the kind of the training points.
        """
        X = self._check_new(X)
        return self._matrix(self._counts(self.kernel_, X, known=True))

    def _learn(self, X: Any) -> list[Counts]:
        with self._all_or_nothing(X):
            kernel = self._kernel()
            X = self._check_X(X, kernel, reset=True)
            kernel = kernel.fit_params(X)
            counts = self._counts(kernel, X)
            self.vocabulary_ = [np.unique(part.codes) for part in counts]
            self.kernel_ = kernel
        return counts

    @speaks
    def _counts(self, kernel: Kernel, X: Any, known: bool = False) -> list[Counts]:
        return list(_counted(kernel, X, known))

    def _matrix(self, counts: list[Counts]) -> sp.csr_array:
        pairs = zip(counts, self.vocabulary_, strict=True)
        return beside([part.matrix(_columns(part.codes, c), len(c)) for part, c in pairs])

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return a name for each column: the substring or the word that it counts.

        A substring seen through gaps is written "A.G", one at a place "AC@7", from 0. Substrings
        that were hashed have names such as "hash:8f3a…", parts of graphs the numbers of their
        columns.

        Parameters
        ----------
        input_features : None
            Ignored.
        """
        check_is_fitted(self)
        names = names_of_counts(self.kernel_, self.vocabulary_)
        if names is None:
            return super().get_feature_names_out(input_features)
        return np.array(names, dtype=object)

    @property
    def _n_features_out(self) -> int:
        return sum(map(len, self.vocabulary_))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        return tags


def _counted(kernel: Any, X: Any, known: bool) -> Iterator[Counts]:
    """Yield the counts of one kind of parts after another, always in the same order.

    k = k₁ + k₂ has the features of both side by side; a factor of the kernel is a factor √c of
    its features. Of new points, where the columns are known, parts without a column may be left
    out.
    """

    def inside() -> Iterator[Counts]:
        for inner, Z in kernel._inside(X):
            yield from _counted(inner, Z, known)

    if isinstance(kernel, Counted):
        yield from kernel._parts(X)
    elif isinstance(kernel, Normalized):
        roots = kernel._inverse_root(X)
        yield from (_scaled(counts, roots) for counts in inside())
    elif isinstance(kernel, Sum | OnColumns | Warped):
        yield from inside()
    elif isinstance(kernel, Product) and any(isinstance(k, Constant) for k in kernel._kernels()):
        (k1, X1), (k2, X2) = kernel._inside(X)
        constant: Any
        constant, inner, Z = (k1, k2, X2) if isinstance(k1, Constant) else (k2, k1, X1)
        for counts in _counted(inner, Z, known):
            yield _scaled(counts, np.full(counts.n, np.sqrt(float(constant.value))))
    elif isinstance(kernel, SetKernel):
        yield from (averaged(counts, X) for counts in inside())
    elif isinstance(kernel, WithMissing) and kernel._star:
        there, lost = np.flatnonzero(~X.missing), np.flatnonzero(X.missing)
        for counts in inside():
            yield Counts(len(X), there[counts.rows], counts.codes, counts.values)
        yield Counts(len(X), lost, np.zeros(len(lost), dtype=np.uint64))
    elif isinstance(kernel, Categorical) and X.width == 1:  # ρ + (1 − ρ)[x = x′]
        rows, rho = np.arange(len(X)), float(kernel.similarity)  # type: ignore[attr-defined]
        yield Counts(len(X), rows, X.codes[:, 0].view(np.uint64), np.full(len(X), (1 - rho) ** 0.5))
        if rho > 0:
            yield Counts(len(X), rows, np.zeros(len(X), np.uint64), np.full(len(X), rho**0.5))
    elif kernel._n_features(kernel.domain.take(X, slice(0, 0)) if known else X) is not None:
        phi = sp.coo_array(sp.csr_array(kernel._features(X)))
        order = np.argsort(phi.row, kind="stable")
        codes = phi.col[order].astype(np.uint64)
        yield Counts(phi.shape[0], phi.row[order], codes, phi.data[order].astype(float))
    else:
        raise InvalidInput(
            f"{who()}: {kernel} neither counts nor has finite features; use mercer.Prototypes, "
            "or a model that takes the kernel itself."
        )


def _columns(codes: np.ndarray, vocabulary: np.ndarray) -> np.ndarray:
    """Return where in a sorted vocabulary codes stand, −1 for those outside it."""
    columns = np.searchsorted(vocabulary, codes)
    columns[columns == len(vocabulary)] = -1
    if len(vocabulary):
        columns[vocabulary[columns] != codes] = -1
    return columns


def _scaled(counts: Counts, factors: np.ndarray) -> Counts:
    """Return the counts with a factor for each point."""
    values = factors[counts.rows]
    values = values if counts.values is None else values * counts.values
    return Counts(counts.n, counts.rows, counts.codes, values)
