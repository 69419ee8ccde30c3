"""K-means in the feature space of any kernel."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from mercer import checks, state
from mercer.checks import random_source
from mercer.domains import Vectors, to_host
from mercer.errors import InvalidInput, available_if, speaks, users_level, who
from mercer.estimator import (
    KernelEstimator,
    Plan,
    Study,
    beyond_features,
    check_lengths,
    check_weights,
    followed,
    follows_data,
    is_stream,
    refuse_negative,
    study_of,
    sum_blocks,
    tell_rounding,
    warn_if_coarse,
)
from mercer.kernels import Kernel, Linear
from mercer.memory import row_blocks
from mercer.models.cluster.kmeans_fit import METHODS, Asked, Fitted, fit_clusters, plan_clusters
from mercer.models.cluster.lloyd import Look, compare, rounding_of
from mercer.models.cluster.spaces import ARRAYS, refuse_distances
from mercer.rkhs import Function
from mercer.solvers import Solution

# ---- What a fitted k-means model says about points: their clusters and their distances to
# centres.


# ⟨φ(x), μ⟩, ‖μ‖², ‖φ(x)‖² and, where numbers have cancelled, their size.
Seen = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]


def _has_lengths(model: Any) -> bool:
    """Whether k(x, x) of new points can be known."""
    try:
        if model._kernel().domain.holds_points:
            return True
    except InvalidInput:  # fit will say what is wrong with the kernel
        return True
    raise AttributeError(
        f"{type(model).__name__}: kernel values with training points do not tell k(x, x) of new "
        "points, so distances are not known; give the kernel and the points. predict needs no "
        "k(x, x), and fit_transform has that of the training points."
    )


def distances(inner: np.ndarray, squares: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return ‖φ(x) − μ‖, one row a point; `inner` is overwritten."""
    inner *= -2
    inner += squares[:, None]
    inner += lengths
    return np.ascontiguousarray(np.sqrt(np.maximum(inner, 0.0, out=inner), out=inner).T)


# ---- kmeans ----


STARTS = ("k-means++", "random")


def _has_centres(model: Any) -> bool:
    """Whether centres are told in one of the two ways, and by points if by coefficients."""
    coef, vectors = model.center_coef_, model.center_features_
    return (coef is None) != (vectors is None) and (coef is None or model.X_fit_ is not None)


class KernelKMeans(
    ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin, KernelEstimator
):
    r"""K-means in the feature space of a kernel.

    Minimises the inertia Σᵢ wᵢ ‖φ(xᵢ) − μ_c(i)‖² over clusters c(i) and centres μ, the weighted
    means of φ over the clusters, by kernel values only:

        ‖φ(x) − μ_c‖² = k(x, x) − 2 Σⱼ aⱼk(x, xⱼ) + Σᵢⱼ aᵢaⱼk(xᵢ, xⱼ),   aⱼ = wⱼ / Σ wⱼ over c.

    Lloyd's algorithm: every point goes to its nearest centre, then centres become means again. The
    inertia falls with every sweep, so it ends, where no point would change its cluster. A point
    equally near to several centres goes to the first. A cluster that becomes empty gets the point
    farthest from its centre. With the linear kernel this is plain k-means.

    With the same start the answer is that of scikit-learn's ``KMeans`` then, unless a cluster
    becomes empty on the way: the two open it again in different places.

    A kernel with few explicit features, such as the linear one, is treated by these, moved to the
    midst of the points: far from the origin distances keep their digits. Otherwise a sweep is one
    read of the Gram matrix, and later sweeps read the rows of the points that moved.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters. Where fewer points are different, that many are found, with a warning.
    kernel : Kernel, str or callable, default="rbf"
        The kernel; "rbf" takes its length scale from the data.
    n_init : "auto" or int, default="auto"
        Number of starts, of which the best counts; "auto" is 1 with "k-means++" and 10 with
        "random".
    random_state : int, RandomState or None, default=None
        Source of starts, pivots and batches.
    init : {"k-means++", "random"}, points or labels, default="k-means++"
        The start: points drawn far from one another in feature space, points drawn in proportion
        to their weights, `n_clusters` points that are the first centres (positions of training
        points when precomputed), or n whole numbers, the first clusters of the training points;
        n whole numbers are labels also where n_clusters = n.
    max_iter : int, default=300
        Most sweeps of a start; most batches with "minibatch".
    tol : float, default=0.0
        Largest share of the points, by weight, that may be nearer to another centre at the end.
    method : {"auto", "exact", "nystrom", "minibatch"}, default="auto"
        "exact" uses all kernel values, in tiles where they do not fit the memory budget.
        "nystrom" uses features of `rank` pivots by randomly pivoted Cholesky, with the error told.
        "minibatch" moves centres by batches and keeps what the last of them say. "auto" is exact
        for few explicit features, for up to 50000 points whose Gram matrix takes at most half the
        memory budget, and where it fits in tiles and is expected to take less than ten minutes;
        else "nystrom" where its features fit, else "minibatch", with batches that fit.
    rank : int, optional
        Most pivots of "nystrom"; max(100, 10 n_clusters) by default.
    batch_size : int, default=1024
        Points of a batch, drawn in proportion to their weights.

    Attributes
    ----------
    labels_ : array of shape (n,)
        The cluster of each training point.
    inertia_ : float
        Weighted sum of squared distances to the nearest centre, minus ``score`` of the training
        points.
    inertia_path_ : array
        The inertia after each sweep, always falling; with "minibatch" the mean squared distance in
        each batch.
    n_iter_ : int
        Sweeps, or batches, of the best start.
    method_ : str
        The method used.
    plan_ : Plan
        The plan that was followed.
    approximation_error_ : float or None
        0 when exact; with "nystrom" Σwᵢ(k(xᵢ, xᵢ) − ‖φ(xᵢ)‖²)/Σwᵢk(xᵢ, xᵢ), the part of the
        squared lengths that the pivots leave out: `inertia_` is above that of the same clusters
        with exact centres by at most this part of Σwᵢk(xᵢ, xᵢ). Above a tenth there is a warning.
        None with "minibatch".
    cluster_centers_ : array of shape (n_clusters, columns)
        The centres, for the linear kernel.
    center_features_ : array of shape (n_clusters, features) or None
        The centres as feature vectors, where the kernel has few.
    X_fit_ : collection of m points or None
        The points that other centres are made of.
    center_coef_ : array of shape (m, n_clusters) or None
        Their coefficients aⱼ.
    center_squares_ : array of shape (n_clusters,)
        The squared lengths ‖μ_c‖².
    function_ : Function
        The centres as functions of the RKHS, one output for each.
    kernel_ : Kernel
        The kernel with words resolved.
    solution_ : Solution
        Certificate: the residual is the share of the points, by weight, that are nearer to another
        centre by more than rounding; converged means that no point would change its cluster. With
        "minibatch" it means that batches stopped getting better.

    See Also
    --------
    mercer.NearestBarycentre : Means of classes that are known.
    mercer.Prototypes : Centres as prototypes of a model.

    Examples
    --------
    >>> from mercer import KernelKMeans
    >>> X = [[1.0, 2.0], [1.0, 4.0], [10.0, 2.0], [10.0, 4.0]]
    >>> model = KernelKMeans(2, "linear", init=[[0.0, 0.0], [9.0, 0.0]]).fit(X)
    >>> model.labels_, model.inertia_
    (array([0, 0, 1, 1]), 4.0)
    >>> model.cluster_centers_
    array([[ 1.,  3.],
           [10.,  3.]])
    >>> model.predict([[0.0, 3.0]])
    array([0])
    """

    _parameters = {
        "method": checks.Word(*METHODS, says="give one of {}"),
        "n_clusters": checks.Whole(1),
        "rank": checks.Maybe(checks.Whole(1)),
        "n_init": checks.Whole(1) | checks.Word("auto"),
        "max_iter": checks.LIMITS["max_iter"],
        "tol": checks.NONNEGATIVE,
        "batch_size": checks.Whole(1),
        "random_state": checks.SEED,
    }
    _state = (
        {
            "kernel_": state.Anything(),
            "X_fit_": state.Maybe(state.Points("m")),
            "center_squares_": state.Floats("k"),
            "center_coef_": state.Maybe(state.Floats("m", "k")),
            "center_features_": state.Maybe(state.Floats("k", ...)),
            "labels_": state.Whole("n", kind="i", least=0, below="k"),
        }
        | state.others("inertia_", "inertia_path_", "n_iter_", "method_", "plan_", needed=True)
        | state.others("approximation_error_", "solution_", needed=True)
        | state.INPUTS
    )
    _rules = ((state.MISFIT, _has_centres),)

    labels_: np.ndarray
    inertia_: float
    inertia_path_: np.ndarray
    n_iter_: int
    method_: str
    plan_: Plan
    approximation_error_: float | None

    def __init__(
        self,
        n_clusters: int = 8,
        kernel: Any = "rbf",
        n_init: Any = "auto",
        random_state: Any = None,
        *,
        init: Any = "k-means++",
        max_iter: int | None = 300,
        tol: float = 0.0,
        method: str = "auto",
        rank: int | None = None,
        batch_size: int = 1024,
    ):
        self.n_clusters = n_clusters
        self.kernel = kernel
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.method = method
        self.rank = rank
        self.batch_size = batch_size
        self.random_state = random_state

    @follows_data
    @speaks("KernelKMeans")
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find the clusters.

        Parameters
        ----------
        X : collection of n points
            Vectors, frames, or what the kernel accepts; the Gram matrix when precomputed.
        y : None
            Ignored.
        sample_weight : float or array of shape (n,), optional
            Weights; a weight of 2 is the row given twice, 0 the row left out, but for its label.

        Returns
        -------
        KernelKMeans
            The fitted model itself.
        """
        with self._all_or_nothing(X):
            kernel = self._kernel()
            X = self._check_X(X, kernel, reset=True)
            asked = self._asked(kernel, X, sample_weight)
            auto = self.method == "auto"
            study = Study(asked.kernel, X)
            self.plan_ = followed(partial(plan_clusters, self, asked=asked), study, auto)
            method = self.plan_.method
            self._store(asked, method, fit_clusters(asked, method, chosen=auto))
            self.plan_ = self.plan_.found(self.approximation_error_)
            warn_if_coarse(self, self.approximation_error_ or 0.0, "the squared lengths")
        self.solution_.unwrap()
        return self

    def _plan(self, X: Any, y: Any) -> Plan:
        study = study_of(self, X, y, targets=False, random_state=self.random_state)
        return plan_clusters(self, study)

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> np.ndarray:
        """Find the clusters and return the distances of the training points to all centres.

        Parameters
        ----------
        X : collection of n points
            As in `fit`.
        y : None
            Ignored.
        sample_weight : float or array of shape (n,), optional
            Weights, as in `fit`.
        """
        points = self.fit(X, y, sample_weight)._check_new(X)
        lengths = np.asarray(self.kernel_.diag(points), dtype=float)
        return np.concatenate([distances(*part[:3]) for part in self._parts(points, lengths)])

    # -- parameters ---------------------------------------------------------------------------
    @speaks("KernelKMeans")
    def _asked(self, kernel: Kernel, X: Any, sample_weight: Any) -> Asked:
        n = kernel.domain.size(X)
        checks.check_parameters(self)
        k = int(self.n_clusters)
        weights = check_weights(sample_weight, n)
        kernel = kernel.fit_params(X, weights)
        w = np.ones(n) if weights is None else weights
        counted = int(np.count_nonzero(w))
        if k > counted:
            raise InvalidInput(
                f"{who()}: n_clusters={k} with n_samples = {counted} points"
                f"{' of positive weight' if counted < n else ''}; give at most as many clusters "
                "as points."
            )
        n_init = self.n_init
        if isinstance(n_init, str) and n_init == "auto":
            n_init = 10 if isinstance(self.init, str) and self.init == "random" else 1
        if kernel.domain.holds_points:
            lengths = check_lengths(kernel, X, underflow=True)
        else:
            lengths = kernel.domain.check_training(X).diagonal().copy()
            refuse_negative(kernel, lengths)
            refuse_distances(X, lengths)
        rank = max(100, 10 * k) if self.rank is None else int(self.rank)
        return Asked(
            kernel=kernel,
            X=X,
            weights=w,
            lengths=lengths,
            k=k,
            init=self._start(kernel, X, n, k),
            n_init=int(n_init),
            max_iter=None if self.max_iter in (None, -1) else int(self.max_iter),
            tol=float(self.tol),
            rank=min(n, rank),
            batch_size=int(self.batch_size),
            rng=random_source(self.random_state),
        )

    def _start(self, kernel: Kernel, X: Any, n: int, k: int) -> Any:
        """Return the start, checked: a word, labels, points, or positions when precomputed."""
        owner, init, domain = "KernelKMeans", self.init, kernel.domain
        legal = (
            f"give 'k-means++', 'random', {k} points, or {n} whole numbers from 0 to {k - 1}, one "
            "for each row"
        )
        if isinstance(init, str):
            if init not in STARTS:
                raise InvalidInput(f"{owner}: init={init!r}; {legal}.")
            return init
        init = to_host(init)
        if len(getattr(init, "shape", ())) == 1 and hasattr(init, "to_numpy"):  # a column
            init = init.to_numpy()
        flat = _whole_numbers(init)
        if flat is not None and len(flat) == n:
            if flat.min() < 0 or flat.max() >= k:
                raise InvalidInput(
                    f"{owner}: init has labels from {flat.min()} to {flat.max()}; {legal}."
                )
            return flat.astype(np.int64)
        if not domain.holds_points:
            if flat is None or len(flat) != k or flat.min() < 0 or flat.max() >= n:
                raise InvalidInput(
                    f"{owner}: with a precomputed kernel init is 'k-means++', 'random', the "
                    f"positions of {k} training points, or {n} labels from 0 to {k - 1}."
                )
            return flat.astype(np.int64)
        try:
            points = domain.check(init, "init")
            if isinstance(domain, Vectors):
                points = points.astype(np.float64)
            domain.match(X, points)
        except InvalidInput as error:
            raise InvalidInput(f"{owner}: init: {error}") from error
        if domain.size(points) != k:
            raise InvalidInput(f"{owner}: init has {domain.size(points)} points; {legal}.")
        return points

    # -- result -------------------------------------------------------------------------------
    def _store(self, asked: Asked, method: str, found: Fitted) -> None:
        domain = asked.kernel.domain
        self.kernel_, self.method_ = asked.kernel, method
        self.X_fit_, self.center_features_ = None, found.vectors
        self.center_coef_ = found.coef
        if found.vectors is not None:
            self.center_squares_ = np.einsum("ij,ij->i", found.vectors, found.vectors)
        else:
            X, index = asked.X, found.index
            tell_rounding(asked.kernel, X, asked.lengths)
            self.X_fit_ = domain.keep(X) if index is None else domain.keep_at(X, index)
            self.center_squares_ = np.asarray(found.squares)
        labels, inertia = found.labels, found.inertia
        if method == "minibatch":
            labels, inertia = self._judged(asked)
            used = np.bincount(labels, asked.weights, len(self.center_squares_)) > 0
            if not used.all():  # the second of equal centres has no points
                self.center_coef_ = found.coef[:, used]  # type: ignore[index]
                self.center_squares_ = self.center_squares_[used]
                labels, inertia = self._judged(asked)
        self.labels_, self.inertia_ = labels.astype(np.int64), inertia
        self.inertia_path_, self.n_iter_ = np.array(found.path), len(found.path)
        none = None if method == "minibatch" else 0.0
        self.approximation_error_ = found.extra.get("approximation_error", none)
        message = "" if found.converged else found.advice(method, asked.max_iter)
        self.solution_ = Solution(
            value=self.labels_,
            converged=found.converged,
            n_iter=self.n_iter_,
            residual=found.residual,
            primal=inertia,
            message=message,
            extra={
                "inertia": inertia,
                "method": method,
                "approximation_error": self.approximation_error_,
            },
        )
        found_k = len(self.center_squares_)
        if found_k < asked.k:
            warnings.warn(
                f"KernelKMeans: n_clusters={asked.k}, but only {found_k} clusters are not empty: "
                "no more points differ beyond rounding. Ask for fewer clusters.",
                UserWarning,
                stacklevel=users_level(),
            )

    def _judged(self, asked: Asked) -> tuple[np.ndarray, float]:
        """Return the nearest centre of every training point, and the inertia."""
        looks = [self._look(part) for part in self._parts(asked.X, asked.lengths)]
        least = np.concatenate([look.least for look in looks])
        return np.concatenate([look.nearest for look in looks]), float(asked.weights @ least)

    @property
    def function_(self) -> Function:
        """The centres as functions of the RKHS, one output for each: x ↦ ⟨φ(x), μ_c⟩."""
        check_is_fitted(self)
        if self.center_coef_ is not None:
            return Function(self.kernel_, self.X_fit_, self.center_coef_)
        if self._plain:
            centres = self.cluster_centers_
            return Function(self.kernel_, centres, np.eye(len(centres)))
        raise AttributeError(
            f"{type(self).__name__} has no function_ for {self.kernel_}: the centres are kept as "
            "feature vectors, center_features_."
        )

    @property
    def cluster_centers_(self) -> np.ndarray:
        """The centres as points, for the linear kernel."""
        check_is_fitted(self)
        if not self._plain:
            raise AttributeError(
                f"{type(self).__name__} has no cluster_centers_ for {self.kernel_}: means in "
                "feature space are no points. function_ has them as functions."
            )
        if self.center_features_ is not None:
            return self.center_features_
        return np.ascontiguousarray((self.X_fit_.T @ self.center_coef_).T)

    @property
    def _plain(self) -> bool:
        """Whether points are their own features."""
        linear = isinstance(self.kernel_, Linear)
        return linear and getattr(self.kernel_, "covariance", None) is None

    # -- inner products -----------------------------------------------------------------------
    def _inner(self, points: Any) -> Seen:
        """Return ⟨φ(x), μ⟩ (k, m), ‖μ‖² (k,) and ‖φ(x)‖² (m,), up to one shift of the origin."""
        V = self.center_features_
        if V is None:
            inner = self.kernel_.matmul(points, self.X_fit_, self.center_coef_)
            inner = np.ascontiguousarray(self._finite(np.asarray(inner, dtype=float)).T)
            known = self.kernel_.domain.holds_points
            lengths = self.kernel_.diag(points) if known else np.zeros(inner.shape[1])
            return inner, self.center_squares_, np.asarray(lengths, dtype=float), None
        with np.errstate(over="ignore", invalid="ignore"):
            F, origin = self.kernel_.features(points), np.median(V, axis=0)
            beyond = beyond_features(self.kernel_, points, F)
        V = V - origin
        squares, far = np.einsum("ij,ij->i", V, V), float(np.linalg.norm(origin))
        with np.errstate(over="ignore", invalid="ignore"):
            if sp.issparse(F):
                inner = (F @ V.T).T - (V @ origin)[:, None]
                lengths = np.asarray(F.multiply(F).sum(axis=1), dtype=float).ravel()
                lengths = np.maximum(lengths - 2 * (F @ origin) + origin @ origin, 0.0)
            else:
                F = np.asarray(F, dtype=float) - origin
                inner, lengths = V @ F.T, np.einsum("ij,ij->i", F, F)
            lengths += beyond
            total = inner.T + lengths[:, None]  # of infinite ones of both signs as well
        self._finite(total)
        # The centres were rounded where they are, not where the origin is now.
        sizes = far * (np.sqrt(lengths) + np.sqrt(squares.max()))
        return np.ascontiguousarray(inner), squares, lengths, sizes

    def _look(self, seen: Seen) -> Look:
        """Compare points with the centres."""
        V, coef = self.center_features_, self.center_coef_
        terms = len(coef) if V is None else V.shape[1]  # type: ignore[arg-type]
        inner, squares, lengths, sizes = seen
        return compare(inner, squares, lengths, None, rounding_of(terms), sizes)

    def _parts(self, X: Any, lengths: np.ndarray | None = None) -> Iterator[Seen]:
        """Yield inner products for blocks of the rows of X; k(x, x) of a Gram matrix is given."""
        domain, V = self.kernel_.domain, self.center_features_
        columns = 0 if V is None else 2 * V.shape[1]
        row = 8 * (ARRAYS * len(self.center_squares_) + columns)
        rows = row_blocks(domain.size(X), row)
        for part in rows:
            seen = self._inner(domain.take(X, part) if len(rows) > 1 else X)
            if lengths is not None and not domain.holds_points:
                seen = (*seen[:2], lengths[part], None)
            yield seen

    # -- answers ------------------------------------------------------------------------------
    @follows_data
    def predict(self, X: Any) -> np.ndarray:
        """Return the nearest cluster of each row of X; of those equally near the first.

        Parameters
        ----------
        X : collection of points
            New points; when precomputed, their kernel values with the training points.
        """
        points = self._check_new(X)
        return np.concatenate([self._look(part).nearest for part in self._parts(points)])

    @follows_data
    def transform(self, X: Any) -> np.ndarray:
        """Return the distance of each row of X to each centre in feature space, (m, n_clusters).

        Parameters
        ----------
        X : collection of points
            New points. Kernel values alone do not tell their lengths k(x, x).
        """
        return np.concatenate([distances(*part[:3]) for part in self._parts(self._check_new(X))])

    @available_if(_has_lengths)
    @follows_data
    @speaks
    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return minus the sum of squared distances of the rows of X to their nearest centres.

        Parameters
        ----------
        X : collection of points, RowBlocks, or dask array or frame
            New points. Kernel values alone do not tell their lengths k(x, x).
        y : None
            Ignored.
        sample_weight : float or array of shape (m,), optional
            Weights.
        """
        if is_stream(X):
            return sum_blocks(self, X, sample_weight)
        points = self._check_new(X)
        least = np.concatenate([self._look(part).least for part in self._parts(points)])
        weights = check_weights(sample_weight, len(least))
        return -float(least.sum() if weights is None else weights @ least)

    @property
    def _n_features_out(self) -> int:
        return len(self.center_squares_)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags


# Only now: scikit-learn wraps `transform` for set_output when the class is made, and would make it
# available again.
KernelKMeans.transform = available_if(_has_lengths)(  # type: ignore[method-assign]
    KernelKMeans.transform
)


def _whole_numbers(init: Any) -> np.ndarray | None:
    """Return a sequence of whole numbers as an array, None for anything else."""
    if isinstance(init, list | tuple):
        kinds = int | np.integer
        if not all(isinstance(i, kinds) and not isinstance(i, bool) for i in init):
            return None
        init = np.array(init, dtype=np.int64)
    flat = isinstance(init, np.ndarray) and init.ndim == 1 and init.dtype.kind in "iu"
    return init if flat and len(init) else None
