"""The choice of landmarks: the few points that stand for all others in low-rank methods."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from mercer.checks import random_source
from mercer.domains import RowBlocks, Vectors, is_torch, moderate, namespace, shifted, to_host
from mercer.domains.blocks import no_weight
from mercer.engines.passes import each_block
from mercer.errors import InvalidInput, speaks, who
from mercer.estimator import LANDMARKS
from mercer.features.points import different_rows, given_points, race
from mercer.kernels import Kernel, has_white
from mercer.lapack import cho_factor, heard
from mercer.memory import row_blocks
from mercer.operators import Gram, Operator
from mercer.settings import get_config
from mercer.solvers import rpcholesky
from mercer.threads import one_openmp_thread

ROWS_EACH = 10  # rows for each landmark at least that a choice other than "uniform" sees of blocks
CODED = 64  # bytes a row that are held while rows of blocks are told apart
#: Rows that a choice looks at, drawn by weight where there are more: at least, and a landmark.
LOOKED_AT = {"kmeans": (20_000, 20), "rpcholesky": (100_000, 50), "leverage": (100_000, 50)}
STEPS = 25  # of Lloyd's algorithm
ROUNDS = 3  # of leverage scores
#: What scores add up to, a landmark: m draws reach every one of m/4 directions, seldom all of m/2.
SCORED = 0.25
EPS = float(np.finfo(np.float64).eps)


@speaks("choose_landmarks", unless_spoken=True)
def choose_landmarks(
    kernel: Kernel,
    X: Any,
    m: int,
    how: Any = "uniform",
    random_state: Any = None,
    sample_weight: np.ndarray | None = None,
    name: str = "landmarks",
) -> tuple[Any, np.ndarray | None]:
    """Return at most m different points of X, or means of them, and their positions in X.

    Equal points are one landmark, and a point of weight 2 is one given twice; rows of numbers are
    looked at in an order of their own, so that theirs plays no part. Where there are no more than
    m different points, all of them come.

    Parameters
    ----------
    kernel : Kernel
        The kernel, words resolved.
    X : canonical collection, tensor or RowBlocks
        The points; the Gram matrix of a precomputed kernel. Wherever rows of numbers are, the
        same ones are chosen; only of so many blocks that a quarter of the memory budget does not
        hold 64 bytes for each of their rows, positions are drawn.
    m : int
        Most landmarks.
    how : {"uniform", "kmeans", "rpcholesky", "leverage"} or collection of points
        "uniform" draws in proportion to the weights; "kmeans" takes the means of clusters (of
        points that are no vectors, seeds of k-means++ in feature space); "rpcholesky" the
        pivots of a randomly pivoted Cholesky factor; "leverage" draws in proportion to ridge
        leverage scores. Points are taken as they are, once each; with a precomputed kernel they
        are positions of training points.
    random_state : int, RandomState or None, default=None
        Source of the choice.
    sample_weight : ndarray of shape (n,), optional
        Weights, in place of those that blocks carry; a row of weight 0 is no landmark.
    name : str, default="landmarks"
        The parameter that says how, for messages.

    Returns
    -------
    points : collection
        The landmarks; positions when the kernel is precomputed.
    index : ndarray of int, or None
        Their positions in X, where they are points of X.

    Notes
    -----
    "uniform" takes one pass over X, "rpcholesky" m²n operations and m n numbers of memory,
    "leverage" 3m²n operations. Of very many rows they look at some, drawn by weight: 50 for each
    landmark and 100000 at least ("kmeans" 20 and 20000), "rpcholesky" no more than fit the budget;
    of blocks no more than a quarter of it holds.
    Draws follow the values of the rows in float32: the same rows in float64 give the same ones
    where rounding keeps them apart, as far as kernel values, which are rounded too, play no part.

    References
    ----------
    Alaoui and Mahoney, "Fast randomized kernel ridge regression with statistical guarantees",
    arXiv:1411.0306; Musco and Musco, "Recursive sampling for the Nyström method",
    arXiv:1605.07583.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RBF
    >>> from mercer.features.landmarks import choose_landmarks
    >>> X = np.array([[0.0], [5.0], [0.0], [5.1]])
    >>> points, index = choose_landmarks(RBF(), X, 2, "rpcholesky", random_state=0)
    >>> points.shape, bool(abs(points[0] - points[1]) > 4)
    ((2, 1), True)
    """
    if has_white(kernel):
        raise InvalidInput(
            f"{who()}: {kernel} holds White, noise of the rows of which k(x, z) with {name} z "
            "knows nothing; leave it out, and add its variance to the alpha of a ridge behind."
        )
    if not isinstance(how, str):
        return _distinct(kernel, given_points(kernel, X, how, name))
    if how not in LANDMARKS:
        words = ", ".join(map(repr, LANDMARKS))
        raise InvalidInput(f"{who()}: {name}={how!r}; give {words}, or the points themselves.")
    if isinstance(m, bool) or not isinstance(m, int | np.integer) or m < 1:
        raise InvalidInput(f"{who()}: {m!r} landmarks; give a whole number ≥ 1.")
    rng, m = random_source(random_state), int(m)
    away = isinstance(X, RowBlocks) or is_torch(X)
    if isinstance(X, RowBlocks):
        X = X if sample_weight is None else X.with_values(None, sample_weight)
        sample_weight = None
        if X.n_rows == 0:
            raise InvalidInput(f"{who()}: there are no rows to choose landmarks from.")
        if CODED * X.n_rows > get_config().memory // 4:
            return _of_many(kernel, X, m, how, rng)
    index, total = different_rows(kernel, X, sample_weight)
    if not len(index):
        raise no_weight()
    if m >= len(index) or how == "uniform":
        index = index if m >= len(index) else index[race(total, m, rng)]
        points = _like(_rows_at(kernel, X, index), X) if away else kernel.domain.keep_at(X, index)
        return points, index
    most = _most_rows(m, how, X)
    if most < len(index):
        kept, total = _sample(total, max(m, most), rng)
        index = index[kept]
    if how == "kmeans" and type(kernel.domain) is Vectors:
        rows = _rows_at(kernel, X, index) if away else kernel.domain.take(X, index)
        return _like(_means(kernel, rows, total, m, rng), X), None
    rows = _rows_at(kernel, X, index) if away else kernel.domain.subset(X, index)
    K = Gram(kernel, rows, keep=False)
    if how == "rpcholesky":
        chosen = rpcholesky(K, m, rng, sample_weight=total).pivots
        chosen = chosen if len(chosen) else np.arange(1)  # a kernel that is 0 everywhere
    elif how == "kmeans":
        chosen = _spread(K, total, m, rng)
    else:
        chosen = race(_leverage(K, total, m, rng), m, rng)
    if away:
        return _like(kernel.domain.take(rows, chosen), X), index[chosen]
    return kernel.domain.keep_at(X, index[chosen]), index[chosen]


def _most_rows(m: int, how: str, X: Any) -> int:
    """Return how many rows a choice looks at: enough for it to be good, and what memory holds."""
    least, each = LOOKED_AT[how]
    rows, memory = max(least, each * m), get_config().memory // 4
    if how == "rpcholesky":  # its factor holds m numbers a row, and so do the rows before
        rows = min(rows, int(memory // (8 * m)))
    if isinstance(X, RowBlocks):
        rows = min(rows, max(ROWS_EACH * m, int(memory // (8 * (X.n_columns or 1)))))
    return rows


# -------------------------------------------------------------------------------- the words
def _means(kernel: Kernel, X: Any, total: np.ndarray, m: int, rng: Any) -> Any:
    """Return the means of k-means clusters, seeded by k-means++, after a few steps of Lloyd's."""
    from sklearn.cluster import KMeans

    (X,), shift = moderate([X])  # squares of distances must exist
    with one_openmp_thread():
        found = KMeans(m, max_iter=STEPS, random_state=rng).fit(X, sample_weight=total)
    means = found.cluster_centers_
    return kernel.domain.check(shifted(means, shift) if shift else means, "landmarks")


def _spread(K: Operator, total: np.ndarray, m: int, rng: Any) -> np.ndarray:
    """Return seeds of k-means++ in feature space: draws in proportion to w‖φ(x) − φ(nearest)‖²."""
    lengths = np.asarray(K.diagonal(), dtype=np.float64)
    chosen = [int(race(total, 1, rng)[0])]
    left = np.full(len(total), np.inf)
    while True:
        i = chosen[-1]
        squares = lengths + lengths[i]
        floor = 64 * EPS * squares
        squares = squares - 2 * np.asarray(K.rows([i])[0], dtype=np.float64)
        left = np.minimum(left, np.where(squares > floor, squares, 0.0))
        left[i] = 0.0
        if len(chosen) == m or not left.any():
            return np.array(chosen)
        chosen.append(int(race(total * left, 1, rng)[0]))


def _leverage(K: Operator, total: np.ndarray, m: int, rng: Any) -> np.ndarray:
    """Return ridge leverage scores, the diagonal of A(A + μ)⁻¹ with A = W^½KW^½, approximately.

    Each round draws a sketch S of m points by the scores before (the weights at first) and takes
    w (k(x, x) − k_S(x)ᵀ(K_SS + μD)⁻¹k_S(x))/μ, at most 1, with D = p/w for points that are drawn
    with probability p. What a sketch misses has too large a score, so that the next one has it
    (Musco and Musco, arXiv:1605.07583). μ makes Σ σ/(σ + μ) a quarter of the sketch's size.
    """
    lengths = np.asarray(K.diagonal(), dtype=np.float64)
    scores = total
    for _ in range(ROUNDS):
        sketch = race(scores, m, rng)
        root = np.sqrt(_inclusion(scores, m)[sketch] / total[sketch])
        S = np.asarray(K.block(sketch, sketch), dtype=np.float64) / np.outer(root, root)
        values = np.maximum(heard(np.linalg.eigvalsh, S)[::-1], 0.0)
        if not values[0] > 0:
            return total  # a kernel that is 0 everywhere: all points are alike
        mu = _ridge(values, SCORED * np.count_nonzero(values > m * EPS * values[0]))
        S[np.diag_indices_from(S)] += mu
        L, _ = cho_factor(S, lower=True, overwrite_a=True)
        left = lengths.copy()
        for rows in row_blocks(len(total), 24 * m):
            part = np.asarray(K.block(sketch, np.arange(rows.start, rows.stop)), dtype=np.float64)
            part = solve_triangular(L, part / root[:, None], lower=True, check_finite=False)
            left[rows] -= np.einsum("ij,ij->j", part, part)
        # What cancels to rounding has a score too: no less than that of a lone direction.
        scores = total * np.maximum(left / mu, lengths / (values[0] + mu))
        scores = np.minimum(scores, 1.0)
    return scores


def _sample(total: np.ndarray, count: int, rng: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return positions drawn by weight, and the weights that make their sums those of all rows.

    A row that comes with probability p stands for 1/p rows like it (Horvitz and Thompson 1952).
    """
    total = total / total.max()
    kept = race(total, count, rng)
    return kept, total[kept] / _inclusion(total, count)[kept]


def _inclusion(scores: np.ndarray, m: int) -> np.ndarray:
    """Return probabilities min(1, c·score) that add up to m."""
    p = np.zeros(len(scores))
    sure = np.zeros(len(scores), dtype=bool)
    while True:
        rest = float(scores[~sure].sum())
        p[~sure] = (m - sure.sum()) * scores[~sure] / rest if rest > 0 else 0.0
        p[sure] = 1.0
        if not (p[~sure] > 1.0).any():
            return p
        sure |= p > 1.0


def _ridge(values: np.ndarray, size: float) -> float:
    """Return μ with Σ σ/(σ + μ) = size, by bisection of its logarithm."""
    low, high = np.log(values[0]) - 80.0, np.log(values.sum()) + 40.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        more = (values / (values + np.exp(middle))).sum() > size
        low, high = (middle, high) if more else (low, middle)
    return float(max(np.exp(high), len(values) * EPS * values[0]))


# ------------------------------------------------------------------- points of another kind
def _of_many(
    kernel: Kernel, X: RowBlocks, m: int, how: str, rng: Any
) -> tuple[Any, np.ndarray | None]:
    """Return landmarks of blocks of more rows than can be told apart: some are drawn first."""
    index, weights = X.draw(m if how == "uniform" else ROWS_EACH * m, rng, each_block)
    rows = _rows_at(kernel, X, index)
    points, chosen = choose_landmarks(kernel, rows, m, how, rng, weights)
    return points, None if chosen is None else index[chosen]


def _rows_at(kernel: Kernel, X: Any, index: np.ndarray) -> Any:
    """Return rows of blocks or of a tensor, in main memory."""
    if isinstance(X, RowBlocks):
        return kernel.domain.check(X.take(index, domain=kernel.domain))
    return kernel.domain.check(to_host(X[_like(index, X)]))


def _like(A: Any, X: Any) -> Any:
    """Return an array as a tensor where X is one, on its device; numbers in its precision."""
    if not is_torch(X):
        return A
    kind = X.dtype if np.asarray(A).dtype.kind == "f" and X.is_floating_point() else None
    return namespace(X).as_tensor(A, dtype=kind, device=X.device)


def _distinct(kernel: Kernel, points: Any) -> tuple[Any, np.ndarray | None]:
    """Return points of the user once each, and their positions where they are those of X."""
    domain = kernel.domain
    if not domain.holds_points:
        index = points[np.sort(np.unique(points, return_index=True)[1])]
        return index, index
    index = np.sort(different_rows(kernel, points, None)[0])
    return domain.keep(
        points if len(index) == domain.size(points) else domain.take(points, index)
    ), None
