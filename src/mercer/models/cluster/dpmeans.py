"""DP-means: clusters whose number the data and a penalty decide, in any space with distances."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin

from mercer import checks, state
from mercer.domains import moderate, shifted
from mercer.errors import InvalidInput, available_if, speaks, users_level, who
from mercer.estimator import (
    KernelEstimator,
    check_weights,
    is_stream,
    sum_blocks,
    tell_rounding,
)
from mercer.kernels import Kernel, Linear
from mercer.memory import row_blocks
from mercer.models.cluster.dpmeans_fit import (
    DistanceSpace,
    InputSpace,
    KernelSpace,
    averages,
    farthest_first,
    partition,
    square_distances,
)

MOST = 2.0**900  # a penalty above all sums of squares, in units in which these are moderate
STATE = ("labels_", "n_clusters_", "penalty_", "inertia_", "objective_", "n_iter_", "solution_")


def _tells_lengths(model: DPMeans) -> bool:
    if model.kernel is not None and not model._kernel().domain.holds_points:
        raise AttributeError(
            "DPMeans: kernel values with training points do not tell k(x, x) of new "
            "points, so neither their distances; give the kernel and the points."
        )
    return True


def _has_centres(model: Any) -> bool:
    """Whether every cluster has a centre: a row, or shares of its points."""
    if model.cluster_centers_ is not None:
        return True
    shares, squares = model.center_shares_, model.center_squares_
    return (
        shares is not None
        and squares is not None
        and bool((np.bincount(model.labels_, shares, model.n_clusters_) > 0).all())
    )


class DPMeans(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, KernelEstimator):
    r"""Clusters whose number is decided by a penalty λ on each (Kulis and Jordan, 2012).

    Looks for a partition into K clusters with centres μ that makes

        Σᵢ wᵢ ‖φ(xᵢ) − μ_{cᵢ}‖² + λ K

    small, φ(x) = x in the space of the data and that of the kernel in feature space. It starts from
    one cluster around the mean of all points. In a sweep every point goes to the nearest centre,
    and while some point has a squared distance above λ to all centres, the farthest of these
    becomes a centre, to which all go that are nearer to it; clusters that lose all their points are
    removed; then centres move to the means of their clusters. Points within 2√λ of a centre that
    was opened in the same sweep wait until it has moved, since it is on the rim of its cluster,
    unless fewer than a quarter of the present number were opened without them. It ends when no
    point changes its cluster and none is farther than √λ from its centre.

    The objective never rises: at fixed centres points only go where they are nearer; a new centre
    at xᵢ saves wᵢdᵢ² > λ or more, and a point with a weight below 1 opens a cluster only if that
    saves more than λ; a removed cluster saves λ; means are best for given clusters. As there are
    finitely many partitions it ends. Textbooks let rows open clusters in the order in which they
    come; the farthest first needs no order: the clusters do not depend on the order of the rows,
    except among points that are equally far. They are numbered as they were opened.

    A result is a local optimum: every point is nearest to its own centre and within √λ of it.
    `penalty_from_k` suggests λ.

    Parameters
    ----------
    penalty : float, optional
        λ ≥ 0, in units of squared distances. By default the mean squared distance of the points to
        their mean.
    kernel : Kernel, str or callable, optional
        None for the space of the data (rows of numbers, Euclidean distances); a kernel for its
        feature space, any data.
    max_iter : int, default=300
        Limit on the sweeps.

    Attributes
    ----------
    labels_ : array of shape (n,)
        The cluster of each row; that of the nearest centre for rows of weight 0.
    n_clusters_ : int
        K.
    cluster_centers_ : array of shape (K, d) or None
        The centres, in the space of the data.
    penalty_ : float
        λ.
    inertia_ : float
        Σᵢ wᵢ ‖φ(xᵢ) − μ_{cᵢ}‖².
    objective_ : float
        ``inertia_`` + λK.
    n_iter_ : int
        Sweeps, at least 1.
    kernel_ : Kernel
        The kernel with words resolved; Linear() in the space of the data.
    X_fit_ : collection or None
        The training points, in feature space.
    center_shares_ : array of shape (n,) or None
        In feature space the coefficient of each training point in the mean of its cluster.
    center_squares_ : array of shape (K,) or None
        Squared lengths of the means in feature space.
    solution_ : Solution
        Certificate: the largest violation of the two conditions of the optimum, relative to the
        largest square; ``extra["objectives"]`` has the objective after each sweep.

    See Also
    --------
    mercer.penalty_from_k : A penalty for about k clusters.

    Examples
    --------
    >>> from mercer import DPMeans
    >>> model = DPMeans(penalty=4.0).fit([[0.0], [1.0], [9.0], [10.0]])
    >>> model.n_clusters_, model.cluster_centers_.ravel()
    (2, array([0.5, 9.5]))
    >>> DPMeans(penalty=0.5, kernel="rbf").fit_predict([[0.0], [1.0], [9.0], [10.0]])
    array([1, 1, 0, 0])
    """

    _parameters = {
        "max_iter": checks.Whole(1),
        "penalty": checks.Maybe(
            checks.Number(
                0,
                says="give a number ≥ 0, in units of squared distances. mercer.penalty_from_k "
                "suggests one",
            )
        ),
    }
    _state = (
        {
            "kernel_": state.Anything(),
            "X_fit_": state.Spare(),
            "n_clusters_": state.SizeOf("k"),
            "cluster_centers_": state.Maybe(state.Floats("k", "d")),
            "labels_": state.Whole("n", kind="i", least=0, below="k"),
            "center_shares_": state.Spare(state.Floats("n")),
            "center_squares_": state.Spare(state.Floats("k")),
        }
        | state.others("penalty_", "inertia_", "objective_", "n_iter_", "solution_", needed=True)
        | state.INPUTS
    )
    _rules = ((state.MISFIT, _has_centres),)

    labels_: np.ndarray
    n_clusters_: int

    def __init__(self, penalty: float | None = None, kernel: Any = None, *, max_iter: int = 300):
        self.penalty = penalty
        self.kernel = kernel
        self.max_iter = max_iter

    @property
    def function_(self) -> Any:
        """No function of the RKHS describes a partition."""
        raise AttributeError("DPMeans has no function_: a partition is not in the RKHS.")

    def _kernel(self) -> Kernel:
        return Linear() if self.kernel is None else super()._kernel()

    # -- fit ----------------------------------------------------------------------------------
    @speaks("DPMeans")
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find clusters.

        Parameters
        ----------
        X : collection of n points
            Vectors, frames, or what the kernel accepts; the Gram matrix when precomputed.
        y : ignored
            There is no target.
        sample_weight : float or array of shape (n,), optional
            Weights of the squared distances; 2 is the row given twice, 0 the row left out.

        Returns
        -------
        DPMeans
            The fitted model itself.
        """
        with self._all_or_nothing(X):
            checks.check_parameters(self)
            penalty = None if self.penalty is None else float(self.penalty)
            points, space, shift = self._space(X, sample_weight)
            if penalty is None:
                own = space.to_means(np.zeros(space.n, dtype=np.intp), 1).own
                penalty = float(own @ (space.weights / space.weights.sum()))
            else:
                with np.errstate(over="ignore"):
                    penalty = min(float(np.ldexp(penalty, -2 * shift)), MOST)
            solution = partition(space, penalty, int(self.max_iter))
            found = solution.value
            self.labels_, self.n_clusters_ = found.labels.astype(np.int64), found.count
            self._keep_centres(points, space, shift)
            self.inertia_ = self._in_units(found.inertia, 2 * shift)
            path = [self._in_units(v, 2 * shift) for v in solution.extra["objectives"]]
            if self.penalty is None:
                self.penalty_ = self._in_units(penalty, 2 * shift)
            else:
                self.penalty_ = float(self.penalty)
                if penalty == MOST:  # one cluster
                    path = [self.inertia_ + self.penalty_]
            self.objective_, self.n_iter_ = path[-1], max(1, solution.n_iter)
            self.solution_ = replace(solution, primal=path[-1], extra={"objectives": path})
            self.solution_.unwrap()
        return self

    def _space(self, X: Any, sample_weight: Any) -> tuple[Any, InputSpace | KernelSpace, int]:
        """Return checked points, their space, and the power of two its unit of length is."""
        kernel = self._kernel()
        X = self._check_X(X, kernel, reset=True)
        n = kernel.domain.size(X)
        given = check_weights(sample_weight, n)
        weights = np.ones(n) if given is None else given
        if self.kernel is None:
            self.kernel_ = kernel
            (points,), shift = moderate([X])
            return X, InputSpace(points, weights), shift
        kernel.domain.check_training(X)
        self.kernel_ = kernel.fit_params(X, given)
        space = KernelSpace(self.kernel_, X, weights)
        tell_rounding(self.kernel_, X, space.diagonal)
        return X, space, 0

    @staticmethod
    def _in_units(values: Any, power: int) -> Any:
        """Return values·2^power, or refuse squares that are out of the range of floats."""
        with np.errstate(over="ignore"):
            out = np.ldexp(values, power)
        if not np.isfinite(out).all():
            raise InvalidInput(
                f"{who()}: the squares of distances are out of the range of floats; divide the "
                "columns, for example by sklearn.preprocessing.StandardScaler."
            )
        return out if np.ndim(out) else float(out)

    def _keep_centres(self, X: Any, space: InputSpace | KernelSpace, shift: int) -> None:
        """Store what predictions need: the centres, or the shares of training points in them."""
        labels, count = self.labels_, self.n_clusters_
        self.cluster_centers_ = self.X_fit_ = self.center_shares_ = self.center_squares_ = None
        if isinstance(space, InputSpace):
            self.cluster_centers_ = shifted(space.centres(labels, count), shift)
            return
        w = space.weights
        self.X_fit_ = self.kernel_.domain.keep(X)
        self.center_shares_ = w / np.bincount(labels, w, count)[labels]
        self.center_squares_ = space.lengths(labels, count)

    # -- answers ------------------------------------------------------------------------------
    def predict(self, X: Any) -> np.ndarray:
        """Return the cluster with the nearest centre for each row of X.

        Parameters
        ----------
        X : collection of points
            New points; when precomputed, their kernel values with the training points.
        """
        points = self._check_new(X)
        out = np.empty(self.kernel_.domain.size(points), dtype=np.int64)
        for rows, squares, _ in self._squares(points):
            out[rows] = squares.argmin(axis=1)
        return out

    @speaks
    def transform(self, X: Any) -> np.ndarray:
        """Return the distance of each row of X to each centre, one column a cluster.

        Parameters
        ----------
        X : collection of points
            New points.
        """
        points = self._check_new(X)
        out = np.empty((self.kernel_.domain.size(points), self.n_clusters_))
        for rows, squares, unit in self._squares(points, whole=True):
            out[rows] = self._in_units(np.sqrt(squares), unit)
        return out

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> np.ndarray:
        """Find clusters, and return the distance of each row of X to each centre.

        Parameters
        ----------
        X : collection of n points
            Training points.
        y : ignored
            There is no target.
        sample_weight : float or array of shape (n,), optional
            Weights.
        """
        return self.fit(X, y, sample_weight).transform(X)

    def _squares(self, X: Any, *, whole: bool = False) -> Any:
        """Yield blocks of rows, their squared distances over 4^unit, and the unit.

        In feature space they are less k(x, x). The whole of them is wanted where that is known.
        """
        domain, count = self.kernel_.domain, self.n_clusters_
        n = domain.size(X)
        if self.cluster_centers_ is not None:
            both, shift = moderate([X, self.cluster_centers_])
            for rows in row_blocks(n, 32 * count):
                yield rows, square_distances(both[0][rows], both[1]), shift
            return
        means = averages(self.labels_, np.asarray(self.center_shares_), count).T.toarray()
        for rows in row_blocks(n, 48 * count):
            values = self.kernel_.matmul(domain.take(X, rows), self.X_fit_, means)
            squares = self._finite(self.center_squares_ - 2 * np.asarray(values, dtype=float))
            if whole:
                squares += np.asarray(self.kernel_.diag(domain.take(X, rows)), dtype=float)[:, None]
                np.maximum(squares, 0.0, out=squares)
            yield rows, squares, 0

    @available_if(_tells_lengths)
    @speaks("DPMeans")
    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return minus the sum of squared distances of the rows of X to their nearest centres.

        Parameters
        ----------
        X : collection of points, RowBlocks, or dask array or frame
            New points. Kernel values alone do not tell their lengths k(x, x).
        y : ignored
            There is no target.
        sample_weight : float or array of shape (m,), optional
            Weights.
        """
        if is_stream(X):
            return sum_blocks(self, X, sample_weight)
        points = self._check_new(X)
        weights = check_weights(sample_weight, self.kernel_.domain.size(points))
        parts = [(part.min(axis=1), unit) for _, part, unit in self._squares(points, whole=True)]
        least, unit = np.concatenate([nearest for nearest, _ in parts]), parts[0][1]
        total = least.sum() if weights is None else weights @ least
        return -self._in_units(float(total), 2 * unit)

    @property
    def _n_features_out(self) -> int:
        return self.n_clusters_

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        if self.kernel is None:
            tags.input_tags.pairwise, tags.input_tags.sparse = False, True
        return tags


# Behind the frames of set_output, which a class puts around these when it is made.
DPMeans.transform = available_if(_tells_lengths)(DPMeans.transform)  # type: ignore[method-assign]
DPMeans.fit_transform = available_if(_tells_lengths)(DPMeans.fit_transform)  # type: ignore[method-assign]


# ---- Which penalty makes DP-means find about k clusters: a look at the farthest points first ----


TRIALS, SWEEPS = 8, 300  # of DP-means, and in each
ABOUT = 10  # k is missed where the number found is off by more than one in so many
SMALLEST = float(np.finfo(float).tiny)  # squares below this have lost digits


@speaks("penalty_from_k")
def penalty_from_k(X: Any, k: int, kernel: Any = None, *, sample_weight: Any = None) -> float:
    r"""Return a penalty λ with which DP-means finds about k clusters.

    Starting from the mean of all points, the point farthest from all chosen ones is chosen, over
    and over; d₁² ≥ d₂² ≥ … are its squared distances (Kulis and Jordan, 2012, take λ = d_k²). A
    penalty in [d²_{j+1}, d_j²) makes the first sweep of DP-means open j clusters beside that of the
    mean, which may lose all its points to them. Of j = k − 1 and j = k, those that leave k clusters
    come into question; the wider gap d_j²/d²_{j+1} wins and λ is the geometric mean of its ends, or
    a quarter of the upper one where the lower one is zero. If neither is left, λ = d_k².

    Where clusters are apart DP-means then finds k of them. Elsewhere means move and another number
    may come out: λ is doubled or halved until k lies between two numbers of clusters, and the
    interval is halved in logarithms; the λ whose number has the ratio nearest to 1 with k is
    returned. At most 8 fits are tried. Some data have no λ near, since the number jumps there; a
    warning tells where that is off by more than a tenth of k. In feature space it jumps where the
    kernel is narrower than the clusters: every point then is about √k(x, x) from all means. The
    length scale must be of the size of the clusters, of their diameter rather than less.

    Parameters
    ----------
    X : collection of n points
        What `DPMeans` is to be fitted on; the Gram matrix when precomputed.
    k : int
        How many clusters, 1 ≤ k ≤ n.
    kernel : Kernel, str or callable, optional
        That of the DP-means; None for the space of the data.
    sample_weight : float or array of shape (n,), optional
        Weights of the rows.

    Returns
    -------
    float
        λ, in units of squared distances.

    References
    ----------
    B. Kulis, M. I. Jordan, Revisiting k-means: new algorithms via Bayesian nonparametrics,
    International Conference on Machine Learning (2012), section 3.

    Examples
    --------
    >>> from mercer import DPMeans, penalty_from_k
    >>> X = [[0.0], [0.1], [5.0], [5.1], [9.0], [9.1]]
    >>> DPMeans(penalty_from_k(X, 3)).fit(X).n_clusters_
    3
    """
    if not isinstance(k, int | np.integer) or isinstance(k, bool) or k < 1:
        raise InvalidInput(f"{who()}: k={k!r}; give a whole number ≥ 1.")
    space, shift = DPMeans(kernel=kernel)._space(X, sample_weight)[1:]
    n = int((space.weights > 0).sum())
    if k > n:
        raise InvalidInput(f"{who()}: k={k} clusters of {n} points; give at most {n}.")
    squares, left = farthest_first(space, int(k) + 1)
    squares = np.where(squares > space.least, squares, 0.0)
    penalty = _choose(squares, left, int(k))
    trials: dict[float, int] = {}
    if penalty > 0:
        penalty, trials = _tried(space, penalty, int(k))
    out = DPMeans._in_units(penalty, 2 * shift)
    if penalty > 0 and out < SMALLEST:
        raise InvalidInput(
            f"{who()}: the squares of distances are below the range of floats; multiply the "
            "columns, for example by sklearn.preprocessing.StandardScaler."
        )
    if trials and abs(trials[penalty] - k) > k / ABOUT:
        found = {DPMeans._in_units(p, 2 * shift): count for p, count in trials.items()}
        warnings.warn(_advice(found, int(k), kernel), UserWarning, stacklevel=users_level())
    return out


def _tried(space: DistanceSpace, penalty: float, k: int) -> tuple[float, dict[float, int]]:
    """Return the penalty with which DP-means finds a number nearest to k, and all numbers found."""
    low, high = 0.0, np.inf  # with too many clusters, and with too few
    trials: dict[float, int] = {}
    for _ in range(TRIALS):
        count = trials[penalty] = partition(space, penalty, SWEEPS).value.count
        if count == k:
            break
        low, high = (penalty, high) if count > k else (low, penalty)
        if low == 0.0 or high == np.inf:
            penalty = penalty / 2 if low == 0.0 else penalty * 2
        else:
            penalty = (low**0.5) * (high**0.5)
    return min(trials, key=lambda p: abs(float(np.log(trials[p] / k)))), trials


def _advice(trials: dict[float, int], k: int, kernel: Any) -> str:
    """Return what to say where no number of clusters was near k: those next to it, and a cure."""
    many = [p for p, count in trials.items() if count > k]
    few = [p for p, count in trials.items() if count < k]
    ends = ([max(many)] if many else []) + ([min(few)] if few else [])
    cure = (
        "Ask for another number, or use KernelKMeans, which takes it as given."
        if kernel is None
        else "The number jumps where the kernel is narrower than the clusters: a wider one, with "
        "a length scale of their size, has smaller jumps."
    )
    told = ", ".join(f"{p:.6g} gives {trials[p]}" for p in ends)
    return f"{who()}: no penalty that was tried gives about {k} clusters: {told}. {cure}"


def _choose(squares: np.ndarray, left: np.ndarray, k: int) -> float:
    """Return λ for k clusters from d²_1 … d²_{k+1} and what is left to the mean before each."""
    best, chosen = 1.0, float(squares[k - 1])
    for j in (k - 1, k):
        low = float(squares[j])
        if j == 0 or j + int(left[j]) != k:
            continue
        high = float(squares[j - 1])
        gap = high / low if low > 0 else (np.inf if high > 0 else 1.0)
        if gap > best:
            best, chosen = gap, (low**0.5) * (high**0.5) if low > 0 else high / 4
    return chosen
