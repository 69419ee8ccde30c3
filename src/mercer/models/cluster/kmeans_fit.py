"""How the clusters of kernel k-means are found: exactly, with few pivots, or batch by batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.errors import who
from mercer.estimator import Plan, Study, in_time
from mercer.kernels import Kernel
from mercer.memory import require_memory, smaller_rank
from mercer.models.cluster.lloyd import (
    WINDOW,
    Centres,
    Run,
    Space,
    best_of,
    draw,
    draw_points,
    lloyd,
    nearest_labels,
    start_at,
    step_batches,
)
from mercer.models.cluster.spaces import ARRAYS, FeatureSpace, GramSpace, pivoted_features
from mercer.operators import Operator, gram_of
from mercer.settings import get_config
from mercer.solvers import Cost

METHODS = ("auto", "exact", "nystrom", "minibatch")
MOST_EXACT = 50_000  # points up to which `auto` computes all kernel values
BATCH_BYTES = 16  # for each pair of points of a batch and the window: a matrix, and tiles of it
SMALLEST = 64  # points of a batch worth the name
MIDDLE = 1000  # rows that an origin is the median of
SWEEPS, BATCHES = 15, 60  # of Lloyd's algorithm, and of batches, as a rule


@dataclass(frozen=True, eq=False)
class Asked:
    """What is asked for, checked: points, their weights and lengths, and the parameters."""

    kernel: Kernel
    X: Any
    weights: np.ndarray
    lengths: np.ndarray
    k: int
    init: Any  # "k-means++", "random", labels (n,), or points: positions when precomputed
    n_init: int
    max_iter: int | None
    tol: float
    rank: int
    batch_size: int
    rng: np.random.RandomState

    @property
    def n(self) -> int:
        """Number of points."""
        return len(self.weights)

    @property
    def matrix(self) -> bool:
        """Whether X is a Gram matrix."""
        return not self.kernel.domain.holds_points

    @property
    def labelled(self) -> bool:
        """Whether the start is a labelling."""
        return isinstance(self.init, np.ndarray) and self.init.shape == (self.n,) and (
            self.init.dtype == np.int64
        )  # fmt: skip

    @property
    def drawn(self) -> bool:
        """Whether the start is drawn."""
        return isinstance(self.init, str)

    def operator(self) -> Operator:
        """Return the Gram matrix, of which nothing is stored that is not given."""
        return gram_of(self.kernel, self.X)

    @property
    def room(self) -> int:
        """Bytes that may be allocated where the matrix is computed."""
        return gram_of(self.kernel, self.X).room

    def feature_columns(self) -> int | None:
        """Return the number of explicit features, where they are few.

        No more than points, of which the matrix has as many columns, or about as many as columns of
        the data: features can be moved to their mean, and rounding does not see where that is.
        """
        D = gram_of(self.kernel, self.X).n_features
        columns = getattr(self.X, "shape", (0, 0))[-1]
        if D is None or D > max(self.n, 2 * columns):
            return None
        rows = 2 * self.k if sp.issparse(self.X) else self.n
        return D if 2 * 8 * rows * D <= get_config().memory // 2 else None


@dataclass(frozen=True, eq=False)
class Fitted:
    """Clusters that were found, and the centres: columns of coefficients, or feature vectors."""

    labels: np.ndarray
    inertia: float
    path: list[float]
    residual: float
    converged: bool
    index: np.ndarray | None = None  # points that centres are made of; None for all
    coef: np.ndarray | None = None  # (m, k)
    squares: np.ndarray | None = None  # ‖μ‖², (k,)
    vectors: np.ndarray | None = None  # (k, D)
    extra: dict[str, Any] = field(default_factory=dict)

    def advice(self, method: str, limit: int | None) -> str:
        """Return what to say where it has not converged."""
        if method == "minibatch":
            return (
                f"KernelKMeans: after {limit} batches the objective still falls; allow more with "
                "max_iter, or larger ones with batch_size."
            )
        share = f"{100 * self.residual:.3g}% of the points are nearer to another centre"
        if limit is None or len(self.path) < limit:
            return (
                f"KernelKMeans: {share}, but moving them gains nothing beyond rounding; scale the "
                "data, or raise tol."
            )
        return (
            f"KernelKMeans: after {limit} sweeps {share}; allow more with max_iter, or raise tol."
        )


def pick_method(asked: Asked) -> str:
    """Return "exact" where the features or the matrix are small enough, else an approximation."""
    memory = get_config().memory
    if asked.matrix or asked.feature_columns() is not None:
        return "exact"
    if asked.n <= MOST_EXACT and 8 * asked.n**2 <= asked.room // 2:
        return "exact"
    if pivot_bytes(asked) <= memory:
        return "nystrom"
    return "minibatch" if batch_that_fits(asked) >= min(asked.batch_size, SMALLEST) else "exact"


def plan_clusters(model: Any, study: Study, asked: Any = None) -> Plan:
    """Return the plan of `KernelKMeans`: all kernel values, pivots, or batches."""
    facts = study.facts
    asked = model._asked(study.kernel, study.X, None) if asked is None else asked
    n, k, D, rank = facts.n, asked.k, asked.feature_columns(), asked.rank
    starts = asked.n_init if asked.drawn else 1
    compared, base = 8 * ARRAYS * n * k, facts.vectors + 16 * n * k
    sweeps = SWEEPS * starts
    plans = {}
    if D is not None:
        time = study.seconds(4.0 * n * D * k * sweeps, reads=64.0 * n * D)
        cost = Cost(compared + 8 * n * D, time, base + 8 * n * D)
    else:
        kept = facts.given or 8 * n * n <= facts.budget // 2
        own = 8 * n * n if kept and not facts.given else 0
        once = 0.0 if facts.given else 0.5 * n * n * (1 if kept else sweeps)
        reads = 8.0 * n * n * sweeps if kept else 0.0
        time = study.seconds(entries=once, reads=reads)
        cost = Cost(own + compared, time, facts.tiles + base)
    plans["exact"] = study.plan("exact", cost)
    pivots = 0.0 if facts.given else 1.0 * n * rank
    time = study.seconds(2.0 * n * rank**2, 4.0 * n * k * rank * sweeps, entries=pivots)
    cost = Cost(max(pivot_bytes(asked), compared), time, compared + base)
    plans["nystrom"] = study.plan("nystrom", cost, study.left(rank), rank)
    batch = min(asked.batch_size, n)
    if model.method == "auto":
        batch = min(batch, max(1, batch_that_fits(asked)))
    pairs = float(batch + WINDOW) ** 2
    limit = min(BATCHES, asked.max_iter or BATCHES) * starts
    time = study.seconds(entries=0.0 if facts.given else pairs * limit + n * k * WINDOW)
    cost = Cost(max(BATCH_BYTES * pairs, compared), time, 2 * pairs + compared + base)
    plans["minibatch"] = study.plan("minibatch", cost, None)
    if model.method != "auto":
        return study.take(plans, model.method, f"You chose method={model.method!r}.")
    word = pick_method(asked)
    why = {
        "exact": "All kernel values, or few features, fit half the budget.",
        "nystrom": f"All kernel values are too many; {rank} pivots stand for them.",
        "minibatch": "All kernel values are too many, and their pivots do not fit.",
    }[word]
    if word != "exact" and in_time(plans["exact"]):
        word, why = "exact", "It takes all kernel values, and makes them in tiles if they are many."
    return study.take(plans, word, why)


def fit_clusters(asked: Asked, method: str, *, chosen: bool = False) -> Fitted:
    """Find the clusters by a method, which `pick_method` has chosen or the user has."""
    _require(8 * ARRAYS * asked.k * asked.n, f"{asked.k} distances of {asked.n} points",
             "Ask for fewer clusters")  # fmt: skip
    if method == "minibatch":
        return _by_batches(asked, batch_that_fits(asked) if chosen else asked.batch_size)
    if method == "nystrom":
        return _by_pivots(asked)
    return _by_matrix(asked) if asked.feature_columns() is None else _by_features(asked)


def _require(needed: int, what: str, cure: str) -> None:
    require_memory(int(needed), f"{who()}: {what}", cure)


# -- starts ------------------------------------------------------------------------------------
def _given_start(asked: Asked, space: Space) -> np.ndarray:
    """Return the clusters around points that were given, by kernel values with them."""
    if asked.labelled:
        return asked.init
    if asked.matrix:
        return start_at(space, asked.init, asked.k)
    squares = np.asarray(asked.kernel.diag(asked.init), dtype=np.float64)
    inner = np.ascontiguousarray(np.asarray(asked.kernel(asked.init, asked.X), dtype=np.float64))
    return nearest_labels(space, inner, squares, asked.k)


def _drawn_start(asked: Asked, space: Space) -> np.ndarray:
    index = draw_points(space, asked.k, asked.rng, spread=asked.init == "k-means++")
    return start_at(space, index, asked.k)


def _best_run(asked: Asked, space: Space, given: Any = _given_start) -> Run:
    """Return the best of several starts."""

    def run() -> Run:
        labels = _drawn_start(asked, space) if asked.drawn else given(asked, space)
        return lloyd(space, labels, asked.k, max_iter=asked.max_iter, tol=asked.tol)

    best = _best(asked, run, lambda run: run.inertia)
    # Fewer different points than clusters leave some empty: those that are not get new numbers.
    used = np.bincount(best.labels, asked.weights, asked.k) > 0
    if used.all():
        return best
    number = np.cumsum(used) - 1
    return Run(number[best.labels], best.path, best.residual, best.converged)


def _best(asked: Asked, run: Callable[[], Any], cost: Callable[[Any], float]) -> Any:
    """Return the best of several runs."""
    return best_of((run() for _ in range(asked.n_init if asked.drawn else 1)), cost)


def _count(labels: np.ndarray) -> int:
    return int(labels.max()) + 1


# -- methods -----------------------------------------------------------------------------------
def _by_matrix(asked: Asked) -> Fitted:
    """All kernel values: an array in main memory, and where a device computes them, there."""
    K: Any = asked.X
    if not asked.matrix:
        K = gram_of(asked.kernel, asked.X, keep=None)
        if K.device is None:
            stored = 8 * asked.n**2 <= asked.room // 2
            K = np.asarray(asked.kernel(asked.X)) if stored else asked.operator()
    space = GramSpace(K, asked.lengths, asked.weights)
    run = _best_run(asked, space)
    k = _count(run.labels)
    mass = np.bincount(run.labels, asked.weights, k)
    coef = np.zeros((asked.n, k))
    coef[np.arange(asked.n), run.labels] = asked.weights / mass[run.labels]
    squares = space.squares(run.labels, k)
    return Fitted(run.labels, run.inertia, run.path, run.residual, run.converged,
                  coef=coef, squares=squares)  # fmt: skip


def _by_features(asked: Asked) -> Fitted:
    F = asked.kernel.features(asked.X)
    F, origin = _centred(F, asked.weights)
    space = FeatureSpace(F, asked.weights)

    def given(asked: Asked, space: Any) -> np.ndarray:
        if asked.labelled:
            return asked.init
        C = asked.kernel.features(asked.init)
        C = (C.toarray() if sp.issparse(C) else np.asarray(C)) - origin
        inner = space.inner(C, slice(0, asked.n))
        return nearest_labels(space, inner, np.einsum("ij,ij->i", C, C), asked.k)

    run = _best_run(asked, space, given)
    vectors = space.centres(run.labels, _count(run.labels)) + origin
    return Fitted(run.labels, run.inertia, run.path, run.residual, run.converged, vectors=vectors)


def _centred(F: Any, weights: np.ndarray) -> tuple[Any, np.ndarray]:
    """Return features less a vector in their midst, and that vector.

    k-means does not see where the origin is, but rounding does. A median, of some rows, is not
    where a few far points pull it. Of sparse features only columns without zeros are moved: their
    entries stay where they are stored, and others are near 0 somewhere.
    """
    counted = np.flatnonzero(weights)
    some = F[counted[:: -(-len(counted) // MIDDLE)]]
    if not sp.issparse(F):
        origin = np.median(some, axis=0)
        return F - origin, origin
    F, origin = sp.csr_array(F, dtype=np.float64), np.zeros(F.shape[1])
    F.sum_duplicates()
    full = np.bincount(F.indices, minlength=F.shape[1]) == F.shape[0]
    if full.any():
        origin[full] = np.median(sp.csr_array(some)[:, full].toarray(), axis=0)
        F = sp.csr_array((F.data - origin[F.indices], F.indices, F.indptr), shape=F.shape)
    return F, origin


def pivot_bytes(asked: Asked) -> int:
    return 4 * 8 * asked.n * asked.rank


def _by_pivots(asked: Asked) -> Fitted:
    needed = pivot_bytes(asked)
    cure = f"Give a {smaller_rank(needed, asked.rank)}, or method='minibatch'"
    _require(needed, f"features of {asked.n} points with {asked.rank} pivots", cure)
    low = pivoted_features(asked.operator(), asked.lengths, asked.weights, asked.rank, asked.rng)
    space = FeatureSpace(low.F.T, asked.weights)
    run = _best_run(asked, space)
    C = space.centres(run.labels, _count(run.labels))
    whole = C + low.mean
    return Fitted(run.labels, run.inertia + low.error, [J + low.error for J in run.path],
                  run.residual, run.converged, low.pivots, low.coefficients(C),
                  np.einsum("ij,ij->i", whole, whole),
                  extra={"approximation_error": low.share})  # fmt: skip


def batch_that_fits(asked: Asked) -> int:
    """Return the size of a batch: what is asked for, or less where the budget is small."""
    return min(asked.batch_size, int((get_config().memory / BATCH_BYTES) ** 0.5) - WINDOW)


def _by_batches(asked: Asked, batch: int) -> Fitted:
    _require(BATCH_BYTES * (batch + WINDOW) ** 2, f"batches of {batch} points",
             "Give a smaller batch_size")  # fmt: skip
    A = asked.operator()
    space = GramSpace(A, asked.lengths, asked.weights)

    def block(rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
        return np.asarray(A.block(rows, cols), dtype=np.float64)

    def run() -> Centres:
        if asked.drawn:
            spread = asked.init == "k-means++"
            start = list(draw_points(space, asked.k, asked.rng, spread=spread)[:, None])
        else:
            start = _members(asked, _given_start(asked, space))
        return step_batches(
            block,
            asked.lengths,
            asked.weights,
            start,
            batch_size=batch,
            max_iter=asked.max_iter,
            rng=asked.rng,
        )

    found = _best(asked, run, lambda centres: centres.cost)
    none = np.zeros(asked.n, dtype=np.int64)
    return Fitted(none, 0.0, found.path, 0.0, found.converged, found.index, found.coef,
                  found.squares)  # fmt: skip


def _members(asked: Asked, labels: np.ndarray) -> list[np.ndarray]:
    """Draw some points of every cluster, whose means are the first centres."""
    lists = []
    for c in range(asked.k):
        mass = np.where(labels == c, asked.weights, 0.0)
        if mass.any():
            lists.append(draw(mass, asked.rng.random_sample(WINDOW)))
    return lists
