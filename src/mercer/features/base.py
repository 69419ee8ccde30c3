"""What approximate feature maps share: points or blocks in, features in their precision out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from contextvars import copy_context
from copy import deepcopy
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin

from mercer import checks
from mercer.checks import random_source
from mercer.domains import RowBlocks, moderate, shifted
from mercer.domains.blocks import is_dask
from mercer.engines.passes import each_block
from mercer.errors import InvalidInput, speaking_for, speaks, who
from mercer.estimator import TakesKernel, check_weights, is_single, note_columns, resolved
from mercer.features.points import different_rows
from mercer.kernels import SHORT_NAMES, Kernel, unknown_name
from mercer.memory import require_memory
from mercer.rkhs import apart
from mercer.settings import get_config
from mercer.threads import inheriting, single_threaded_blas, workers

SEEN = 10_000  # rows of blocks that a fit looks at; ten for each feature, where those are more
TOGETHER = 2**22  # features that are computed at once in float64
SHARED = 2**17  # features that a thread computes at once; they stay near its core
IN_FLIGHT = 8  # such parts that memory must hold; fixed, as bits depend on the parts
FEWEST = 32  # rows that are computed at once, where memory is short


class ApproximateFeatures(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, TakesKernel, BaseEstimator
):
    """Base of maps φ with φ(x)ᵀφ(x′) near k(x, x′), of `n_components` features."""

    _parameters: checks.Constraints = {"n_components": checks.Whole(1), "random_state": checks.SEED}
    n_components: Any
    random_state: Any

    @speaks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Resolve the kernel on the data, draw or choose what the map needs, tell its error.

        Parameters
        ----------
        X : collection of n points, RowBlocks, or dask array or frame
            What the kernel accepts: an array, sparse matrix or frame, or a collection of objects;
            the Gram matrix when precomputed. Of blocks a sample of the rows is looked at,
            drawn by weight.
        y : None
            Ignored.
        sample_weight : float or array of shape (n,), optional
            Weights: 2 counts a point twice, 0 leaves it out.

        Returns
        -------
        estimator
            The fitted map itself.
        """
        with self._all_or_nothing(X):
            self._learn(*self._begin(X, sample_weight))
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Return the features φ(x), shape (n, m), in float32 where X is, else in float64.

        Parameters
        ----------
        X : collection of n points
            Points; when precomputed, their kernel values with the training points.
        """
        Z = self._check_new(X)
        return self._filled(Z, np.float32 if is_single(X) else np.float64, _copied(X, Z))

    # -- what a map defines -----------------------------------------------------------------------
    def _require(self, kernel: Kernel) -> None:
        """Refuse a kernel that has no such features."""

    def _learn(
        self,
        kernel: Kernel,
        X: Any,
        weights: np.ndarray | None,
        rng: np.random.RandomState,
        rows: RowBlocks | None,
    ) -> None:
        """Set everything that is learned from checked points; of many `rows` they are a sample."""
        raise TypeError(f"{type(self).__name__}: define _learn(kernel, X, weights, rng, rows).")

    def _map(self, X: Any) -> np.ndarray:
        """Return the features of checked points, in float64."""
        raise TypeError(f"{type(self).__name__}: define _map(X).")

    # -- parts ------------------------------------------------------------------------------------
    def _kernel(self) -> Kernel:
        name = self.kernel
        if isinstance(name, str) and name not in SHORT_NAMES:
            legal = [n for n in SHORT_NAMES if self._has_features(SHORT_NAMES[n]())]
            cure = f"give {', '.join(map(repr, legal))}, or a Kernel"
            with speaking_for(type(self).__name__):
                raise unknown_name(name, cure, legal)
        kernel = super()._kernel()
        self._owned(self._require, kernel)
        return kernel

    def _has_features(self, kernel: Kernel) -> bool:
        try:
            self._require(kernel)
        except InvalidInput:
            return False
        return True

    @speaks
    def _begin(
        self, X: Any, sample_weight: Any
    ) -> tuple[Kernel, Any, np.ndarray | None, np.random.RandomState, RowBlocks | None]:
        """Return the resolved kernel, checked points, weights, and a source of randomness.

        At last the blocks of which the points are a sample, None where they are all there are.
        """
        kernel = self._kernel()
        checks.check_parameters(self)
        count = int(self.n_components)
        rng = random_source(self.random_state)
        if is_dask(X):
            X, sample_weight = RowBlocks.from_dask(X, None, sample_weight), None
        rows, whole = X if isinstance(X, RowBlocks) else None, None
        if rows is not None:
            rows = rows if sample_weight is None else rows.with_values(None, sample_weight)
            most = max(SEEN, 10 * count)
            if rows.n_rows > most:
                # What is drawn later is to be what is drawn for rows in memory.
                index, sample_weight = rows.draw(most, deepcopy(rng), each_block)
                X, whole = rows.take(index, domain=kernel.domain), rows
            else:  # as an array of them
                index = np.arange(rows.n_rows)
                X, _, sample_weight = rows.take(index, with_targets=True, domain=kernel.domain)
        X = self._check_X(X, kernel, reset=True)
        if rows is not None:
            note_columns(self, rows)
        domain = kernel.domain
        weights = check_weights(sample_weight, domain.size(X))
        domain.check_training(X)
        if whole is None:
            kernel = kernel.fit_params(X, weights)
        else:
            kernel = resolved(kernel, whole, deepcopy(rng), most)
        return kernel, X, weights, rng, whole

    def _parts(self, X: Any, held: int = 0, each: int = 0) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield blocks of rows with their features in float64, beside bytes that are held."""
        domain, m = self.kernel_.domain, self._n_features_out
        n, memory = domain.size(X), get_config().memory
        room = min(memory // 4, memory - held)
        most = each or max(1, min(TOGETHER // m, room // self._row_bytes(X)))
        for start in range(0, n, most):
            rows = slice(start, min(start + most, n))
            yield rows, self._map(X if rows == slice(0, n) else domain.take(X, rows))

    def _row_bytes(self, X: Any) -> int:
        """Return bytes for a row: a map takes up to six numbers a feature, and three a column."""
        shape: tuple[int, ...] = getattr(X, "shape", ())
        width = shape[1] if len(shape) == 2 else 0
        if sp.issparse(X):
            width = 2 * X.nnz // max(1, shape[0])
        return 48 * self._n_features_out + 24 * width

    @speaks
    def _room(self, X: Any, precision: type, held: int = 0) -> np.ndarray:
        """Return an array for the features of checked points, or refuse what does not fit.

        Beside it there must be room for some rows, and for bytes that are held.
        """
        shape = (self.kernel_.domain.size(X), self._n_features_out)
        size = shape[0] * shape[1] * np.dtype(precision).itemsize
        require_memory(
            size + held + min(shape[0], FEWEST) * self._row_bytes(X),
            f"{who()}: {shape[0]} × {shape[1]} features",
            "Transform the rows in parts, use fewer n_components, or give float32 rows",
        )
        return np.empty(shape, precision)

    def _filled(self, X: Any, precision: type, held: int = 0) -> np.ndarray:
        """Return the features of checked points, beside bytes that are held."""
        out = self._room(X, precision, held)
        threads = get_config().threads
        most = self._shared_rows(X, out.nbytes + held)
        if most and threads > 1:
            take = self.kernel_.domain.take

            def work(rows: slice) -> None:
                with np.errstate(over="ignore"):
                    out[rows] = self._map(take(X, rows))

            parts = [slice(i, i + most) for i in range(0, len(X), most)]
            with single_threaded_blas(), workers(min(threads, IN_FLIGHT)) as pool:
                tasks = [pool.submit(copy_context().run, inheriting(work), part) for part in parts]
                for task in tasks:
                    task.result()
            return self._finite(out)
        with np.errstate(over="ignore"), single_threaded_blas() if most else nullcontext():
            for rows, phi in self._parts(X, out.nbytes + held, most):
                out[rows] = phi
        return self._finite(out)

    def _shared_rows(self, X: Any, held: int) -> int:
        """Return how many rows threads take at a time, 0 where all of X is not worth them."""
        n, memory = len(X) if isinstance(X, np.ndarray) else 0, get_config().memory
        most = max(1, SHARED // self._n_features_out)
        fits = IN_FLIGHT * most * self._row_bytes(X) <= min(memory // 4, memory - held)
        return most if n > 2 * most and fits else 0

    @property
    def _n_features_out(self) -> int:
        raise TypeError(f"{type(self).__name__}: define _n_features_out.")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return self._last in vars(self)

    #: The attribute that a fit sets last.
    _last = "error_"


def _copied(X: Any, Z: Any) -> int:
    """Return the bytes that checked points take beside those that were given."""
    if not isinstance(Z, np.ndarray):
        return 0
    return 0 if isinstance(X, np.ndarray) and np.may_share_memory(X, Z) else Z.nbytes


# ---- The error of approximate features: a root mean square over random pairs, with its own
# error.


PAIRS, PAIRS_TOGETHER = 1024, 128  # pairs that are looked at, and how many of them in one matrix


def pair_error(
    kernel: Kernel,
    X: Any,
    weights: np.ndarray | None,
    features: Callable[[Any], np.ndarray],
    rng: np.random.RandomState,
) -> tuple[float, float]:
    """Return √(mean of (φ(x)ᵀφ(x′) − k(x, x′))²) over random pairs, and its standard error.

    Both points of a pair are drawn from the training points, in proportion to their weights. The
    features are what they are: the standard error is that of the draw of pairs alone.
    """
    index, total = different_rows(kernel, X, weights)
    share = np.cumsum(total)
    drawn = np.searchsorted(share, rng.random_sample(2 * PAIRS) * share[-1], side="right")
    left, right = index[np.minimum(drawn, len(index) - 1)].reshape(2, PAIRS)
    gaps = np.empty(PAIRS)
    for start in range(0, PAIRS, PAIRS_TOGETHER):
        part = slice(start, start + PAIRS_TOGETHER)
        A, B = kernel.domain.take(X, left[part]), kernel.domain.take(X, right[part])
        exact = np.diagonal(np.asarray(kernel(A, apart(kernel.domain, B)), dtype=np.float64))
        gaps[part] = np.einsum("ij,ij->i", features(A), features(B)) - exact
    (gaps,), shift = moderate([gaps])
    squares = gaps**2
    # The error of √S is that of S over 2√S.
    error = float(np.sqrt(squares.mean()))
    spread = float(squares.std(ddof=1)) / np.sqrt(PAIRS)
    own = spread / (2 * error) if error > 0 else 0.0
    return (float(shifted(error, shift)), float(shifted(own, shift))) if shift else (error, own)
