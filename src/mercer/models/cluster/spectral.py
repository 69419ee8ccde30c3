"""Spectral clustering: groups of a graph whose edges are kernel values."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from scipy.linalg import qr, svd
from sklearn.base import ClusterMixin

from mercer import checks, state
from mercer.checks import random_source
from mercer.domains import moderate
from mercer.errors import InvalidInput, speaking_for, speaks, users_level, who
from mercer.estimator import (
    KernelEstimator,
    Plan,
    Study,
    check_lengths,
    check_weights,
    followed,
    in_time,
    study_of,
)
from mercer.kernels import SHORT_NAMES, Precomputed, require_psd
from mercer.models.cluster.affinity import (
    METHODS,
    LowRankAffinity,
    NormalisedAffinity,
    copies_of,
    default_rank,
    leading_pairs,
    pick_spectral_method,
    spectral_bytes,
)
from mercer.models.cluster.graph import (
    SparseAffinity,
    graph_bytes,
    neighbour_graph,
    neighbour_sums,
    require_neighbours,
)
from mercer.models.cluster.lloyd import best_of, draw_points, lloyd, start_at
from mercer.models.cluster.spaces import FeatureSpace
from mercer.solvers import Cost

# ---- From the rows of an embedding to clusters: k-means, pivots of a QR factorisation, or a turn


WAYS = ("kmeans", "discretize", "cluster_qr")
SAME = 1e-6  # relative spread of a column up to which it is constant
PRODUCTS = 15  # block products of a subspace iteration, as a rule
SWEEPS = 300  # of k-means, at most
TURNS = 100  # at most, of an embedding towards indicators; a few are the rule


def assign(
    U: np.ndarray, weights: np.ndarray, k: int, way: str, n_init: int, random_state: Any
) -> np.ndarray:
    """Return the clusters of the rows of U, numbered by falling weight."""
    if way != "kmeans":
        if U.shape[1] != k:
            raise InvalidInput(
                f"SpectralClustering: assign_labels={way!r} needs as many components as clusters, "
                f"got n_components={U.shape[1]} and n_clusters={k}; leave n_components out."
            )
        labels = _by_pivots(U) if way == "cluster_qr" else _by_turning(U, weights)
        return ordered(labels, weights, U)
    # k-means++ draws from sums of weights along the rows: in an order that is their own a weight of
    # 2 draws what two rows would, and the order in which rows were given has no effect.
    order = np.argsort(U @ random_state.standard_normal(U.shape[1]), kind="stable")
    space = FeatureSpace(np.ascontiguousarray(U[order]), weights[order])
    starts = (draw_points(space, k, random_state) for _ in range(n_init))
    runs = (lloyd(space, start_at(space, start, k), k, max_iter=SWEEPS) for start in starts)
    best = best_of(runs, lambda run: run.inertia)
    labels = np.empty(len(U), dtype=np.int64)
    labels[order] = best.labels
    return ordered(labels, weights, U)


def _by_pivots(U: np.ndarray) -> np.ndarray:
    """Return clusters from the directions of k rows that are far from one another.

    A. Damle, V. Minden, L. Ying, Simple, direct and efficient multi-way spectral clustering,
    Information and Inference 8 (2019): rows of a cluster point in nearly one direction, a pivoted
    QR of Uᵀ finds one of each, and the nearest orthogonal matrix turns these to the axes.
    """
    return np.abs(U @ _turned_to_axes(U)).argmax(axis=1)


def _turned_to_axes(U: np.ndarray) -> np.ndarray:
    """Return the orthogonal matrix that turns k rows far from one another nearest to the axes."""
    pivots = qr(U.T, mode="r", pivoting=True, check_finite=False)[-1][: U.shape[1]]
    left, _, right = svd(U[pivots].T, check_finite=False)
    return np.asarray(left @ right)


def _by_turning(U: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return clusters whose indicators are nearest to the embedding, turned.

    S. X. Yu, J. Shi, Multiclass spectral clustering, ICCV (2003): with rows X̃ of length 1, the
    indicators L of clusters and an orthogonal matrix R take turns to make ‖L − X̃R‖² smaller, each
    the best for the other. They start at the pivots of Damle, Minden and Ying, so that nothing is
    left to chance, and end, for each L has a smaller sum than those before it.
    """
    lengths = np.sqrt(weights @ U**2)
    X = U / np.where(lengths > 0, lengths, 1.0)
    R = _turned_to_axes(X)  # of rows that differ in length, so that the first pivot is one
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    X = X / np.where(norms > 0, norms, 1.0)
    labels, best = np.zeros(len(X), dtype=np.int64), -np.inf
    for _ in range(TURNS):
        turned = (X @ R).argmax(axis=1)
        sums = np.stack([np.bincount(turned, weights * x, X.shape[1]) for x in X.T])
        left, size, right = svd(sums, check_finite=False)
        if not size.sum() > best * (1.0 + 1e-12):
            break
        labels, best, R = turned, float(size.sum()), left @ right
    return labels


def ordered(labels: np.ndarray, weights: np.ndarray, U: np.ndarray) -> np.ndarray:
    """Return labels without gaps: the heaviest cluster is 0; of equally heavy ones, by means.

    Parameters
    ----------
    labels : ndarray of shape (n,)
        Any numbers.
    weights : ndarray of shape (n,)
        Weights > 0.
    U : ndarray of shape (n, m)
        The points; the mean that is first in lexicographic order, up to rounding, goes first.
    """
    _, labels = np.unique(labels, return_inverse=True)
    total = np.bincount(labels, weights)
    means = cluster_means(U, labels, weights) / (np.abs(U).max(axis=0) + 1e-300)
    keys = [*np.round(means.T[::-1], 6), -np.round(total / total.sum(), 12)]
    order = np.lexsort(keys)
    number = np.empty_like(order)
    number[order] = np.arange(len(order))
    return number[labels].astype(np.int64)


def cluster_means(U: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the weighted mean of each cluster."""
    sums = np.stack([np.bincount(labels, weights * column) for column in U.T], axis=1)
    return np.asarray(sums / np.bincount(labels, weights)[:, None])


def nearest(U: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Return the nearest centre of each row."""
    squares = (centres * centres).sum(axis=1) - 2 * (U @ centres.T)
    return squares.argmin(axis=1).astype(np.int64)


def cleaned(U: np.ndarray) -> np.ndarray:
    """Return U with constant columns constant, and a rule for the signs of columns.

    Of a connected graph the first eigenvector is constant, and its rounding would be clustered if
    there were nothing else. The first entry of (nearly) largest modulus is positive.
    """
    means, size = U.mean(axis=0), np.abs(U)
    U = np.where(np.abs(U - means).max(axis=0) <= SAME * size.max(axis=0), means, U)
    first = np.argmax(size >= (1.0 - 1e-6) * size.max(axis=0), axis=0)
    return np.asarray(U * np.where(U[first, np.arange(U.shape[1])] < 0, -1.0, 1.0))


# ---- spectral ----


AFFINITIES = ("kernel", "nearest_neighbors")
TIE = 1e-12  # eigenvalues closer than this are one
LARGE = 0.1  # part of the trace that a factor may leave out without a word
SMALL = 1e-8  # eigenvalue of the walk below which a coordinate has no extension to new points


def _stored(kernel: Any, X: Any) -> bool:
    """Whether X is a matrix of affinities of which only those above 0 are stored."""
    return sp.issparse(X) and not kernel.domain.holds_points


def _whole(weights: np.ndarray) -> np.ndarray:
    """Return weights of which none is below that of one copy: equal rows are one neighbour."""
    return np.where(weights > 0, np.maximum(weights, 1.0), 0.0)


def _has_positions(model: Any) -> bool:
    """Whether there are clusters, and all points of a matrix are known by their positions."""
    matrix = not model.kernel_.domain.holds_points
    all_points = not matrix or np.shape(model.X_fit_) == model.labels_.shape
    return all_points and len(model.embedding_centers_) > 0


def plan_spectral(model: Any, study: Study) -> Plan:
    """Return the plan of `SpectralClustering`: all affinities, kept or in tiles, or pivots."""
    checks.check_parameters(model)
    facts = study.facts
    n, k = facts.n, int(model.n_clusters)
    width = int(model.n_components or k) + 10
    rank = min(n, default_rank(k) if model.rank is None else int(model.rank))
    search, more = 80 * n * width, 48 * n * width + facts.vectors
    if model.affinity == "nearest_neighbors":
        if model.method == "nystrom":
            raise InvalidInput(
                f"{who()}: method='nystrom' stands for kernel values, and "
                "affinity='nearest_neighbors' takes none; leave method out."
            )
        k = min(int(model.n_neighbors), n)
        graph = graph_bytes(n, k)
        time = study.seconds(2.0 * n * k * width * 2 * PRODUCTS, entries=0.5 * n * n)
        plan = study.plan("exact", Cost(graph + search, time, facts.tiles + more))
        return study.take({"exact": plan}, "exact", "Edges to neighbours are few, and stored.")
    if _stored(study.kernel, study.X):
        time = study.seconds(2.0 * study.X.nnz * width * 2 * PRODUCTS)
        plan = study.plan("exact", Cost(5 * 12 * study.X.nnz + search, time, more))
        return study.take({"exact": plan}, "exact", "The affinities are given, and sparse.")
    kept = facts.given or 8 * n * n <= facts.budget // 2
    own = 8 * n * n if kept and not facts.given else 0
    entries = 0.0 if facts.given else 0.5 * n * n * (1 if kept else 2 * PRODUCTS)
    time = study.seconds(2.0 * n * n * width * 2 * PRODUCTS, entries=entries)
    plans = {"exact": study.plan("exact", Cost(own + search, time, facts.tiles + more))}
    if study.kernel.psd:
        flops = (2.0 * n * rank**2, 4.0 * n * rank * width * 2 * PRODUCTS)
        time = study.seconds(*flops, entries=1.0 * n * rank)
        cost = Cost(max(spectral_bytes(n, rank), search), time, search + more)
        plans["nystrom"] = study.plan("nystrom", cost, study.left(rank), rank)
    how = "The affinities are kept." if kept else "Affinities are made in tiles each time."
    if model.method != "auto":
        method, why = model.method, f"You chose method={model.method!r}."
        if method not in plans:
            with speaking_for(f"{who()}: method={method!r}"):
                require_psd(study.kernel)
    else:
        method = pick_spectral_method(study.kernel, n, rank)
        why = f"All affinities count. {how}"
        if method == "nystrom" and in_time(plans["exact"]):
            method = "exact"
        elif method == "nystrom":
            why = f"All affinities are too many; {rank} pivots stand for them."
    return study.take(plans, method, why)


class SpectralClustering(ClusterMixin, KernelEstimator):
    r"""Clusters of a graph, whose edges are kernel values ≥ 0, or join nearest neighbours.

    With A the kernel values between the points, none of them a neighbour of itself, and D the
    diagonal matrix of their row sums, the eigenvectors of the random walk D⁻¹A of largest
    eigenvalues are nearly constant on groups that are well connected inside and badly to one
    another (Shi and Malik, 2000; von Luxburg, 2007). Points are embedded by n_components of them,
    u = D^−½ z with z eigenvectors of length 1 of D^−½ A D^−½, and the rows of the embedding are
    clustered. Clusters need not be round, nor have means. Clusters are numbered by falling weight.

    The graph of weighted points is that of their copies: dᵢ = Σ_{j≠i} wⱼaᵢⱼ + max(wᵢ − 1, 0) aᵢᵢ.
    The matrix is computed once and kept while it takes half the memory budget, and multiplied in
    tiles beyond; it is scaled as it is multiplied, so there is no second one.

    With ``affinity="nearest_neighbors"`` A is ½(C + Cᵀ), where cᵢⱼ = 1 for the n_neighbors nearest
    points xⱼ of xᵢ, itself counted, in the distance ‖φ(xᵢ) − φ(xⱼ)‖ of the kernel. Equal rows are
    one point with their weight. A is stored by its edges, as is a sparse matrix of affinities.

    New points are placed by the Nyström extension of the eigenfunctions (Bengio et al., 2004),

        u(x) = Σᵢ wᵢ k(x, xᵢ) uᵢ / (λ′ Σᵢ wᵢ k(x, xᵢ)),

    and go to the cluster whose mean in the embedding is nearest; of a graph of neighbours k(x, xᵢ)
    is 1 for the n_neighbors training points nearest to x and 0 for others. λ′ is the Rayleigh
    quotient of u in the walk that may also stay where it is, since a training point given as a new
    one meets itself: it is placed where it was where the degrees are alike, and nearly so
    elsewhere.

    Parameters
    ----------
    n_clusters : int, default=8
        How many clusters; fewer are found, with a warning, where fewer rows are different.
    kernel : Kernel, str or callable, default="rbf"
        A kernel with values ≥ 0; "precomputed" for a symmetric matrix of affinities ≥ 0, which
        need not be positive semidefinite, and may be sparse. A length scale should be of the size
        of distances between neighbours, smaller than gaps between clusters; "rbf" takes the spread
        of all entries, which suits clusters that are balls. For nearest neighbours any positive
        semidefinite kernel will do, and the length scale of a radial one does not matter.
    random_state : int, RandomState or None, default=None
        For the starts of the eigensolver and of k-means.
    n_components : int, optional
        Eigenvectors; as many as clusters by default.
    assign_labels : {"kmeans", "discretize", "cluster_qr"}, default="kmeans"
        How rows of the embedding are clustered: by k-means; by turning them to the nearest
        indicators of clusters; or by pivoted QR. The last two have no parameters and no chance in
        them, and need as many components as clusters.
    n_init : int, default=10
        Starts of k-means.
    tol : float, default=1e-8
        Largest residual ‖D^−½AD^−½ z − λz‖ of an eigenvector.
    method : {"auto", "exact", "nystrom"}, default="auto"
        "exact" uses all affinities, in tiles where they do not fit the memory budget. "nystrom"
        takes a factor of them by `rank` pivots of randomly pivoted Cholesky, A ≈ FᵀF, for a
        positive semidefinite kernel, with the error told: memory and time grow with n·rank. "auto"
        is exact for up to 50000 rows whose matrix takes at most half the memory budget, for
        affinities that are given or not positive semidefinite, and where it fits in tiles and is
        expected to take less than ten minutes; else "nystrom" where its factor fits.
    rank : int, optional
        Most pivots of "nystrom"; max(100, 10 n_clusters) by default. Narrow kernels need many.
    affinity : {"kernel", "nearest_neighbors"}, default="kernel"
        What joins two points: their kernel value, or that one is among the nearest neighbours of
        the other. A matrix of affinities that are known is ``kernel="precomputed"``.
    n_neighbors : int, default=10
        Neighbours of a point, itself counted, for ``affinity="nearest_neighbors"``.

    Attributes
    ----------
    labels_ : array of shape (n,)
        The cluster of each row; −1 where it has no affinity with any other row, with a warning.
        Rows of weight 0 are placed as new points are.
    embedding_ : array of shape (n, n_components)
        u; fewer columns where fewer rows are different. Equal rows have one place.
    eigenvalues_ : array of shape (n_components,)
        Eigenvalues 1 − λ of the normalised Laplacian I − D^−½AD^−½, the smallest first; as many
        are near 0 as there are separate groups.
    extension_ : array of shape (n_components,)
        λ′.
    embedding_centers_ : array of shape (n_clusters, n_components)
        Means of the clusters in the embedding.
    sample_weight_ : array of shape (n,) or None
        The weights of the fit; 0 for rows that are in no cluster.
    diagonal_ : array of shape (n,)
        k(x, x) of the training points, by which new points find their neighbours; only with
        ``affinity="nearest_neighbors"``.
    X_fit_ : collection
        The training points; their positions when the kernel is precomputed.
    kernel_ : Kernel
        The kernel with words resolved.
    method_ : str
        The method used.
    plan_ : Plan
        The plan that was followed.
    approximation_error_ : float
        0 when exact; with "nystrom" the part Σwᵢ(aᵢᵢ − âᵢᵢ)/Σwᵢaᵢᵢ of the trace that pivots leave
        out. Above a tenth there is a warning.
    n_iter_ : int
        Block products with the matrix, at least 1.
    solution_ : Solution
        Certificate: the largest residual of an eigenvector.

    References
    ----------
    J. Shi, J. Malik, Normalized cuts and image segmentation, IEEE PAMI 22 (2000); U. von Luxburg, A
    tutorial on spectral clustering, Statistics and Computing 17 (2007); Y. Bengio et al.,
    Out-of-sample extensions for LLE, Isomap, MDS, eigenmaps and spectral clustering, NIPS 16
    (2004); S. X. Yu, J. Shi, Multiclass spectral clustering, ICCV (2003); A. Damle, V. Minden, L.
    Ying, Simple, direct and efficient multi-way spectral clustering, Information and Inference 8
    (2019).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RBF, SpectralClustering
    >>> t = np.linspace(0.0, 2 * np.pi, 40, endpoint=False)
    >>> ring = np.column_stack([np.cos(t), np.sin(t)])
    >>> model = SpectralClustering(2, RBF(0.3)).fit(np.concatenate([3 * ring, ring[::2]]))
    >>> np.bincount(model.labels_[:40]), np.bincount(model.labels_[40:])
    (array([40]), array([ 0, 20]))
    >>> model.predict([[0.9, 0.3], [0.0, 2.8]])
    array([1, 0])

    Neighbours need no length scale:

    >>> near = SpectralClustering(2, affinity="nearest_neighbors", n_neighbors=5)
    >>> labels = near.fit_predict(np.concatenate([3 * ring, ring[::2]]))
    >>> np.bincount(labels[:40]), np.bincount(labels[40:])
    (array([40]), array([ 0, 20]))
    """

    _needs_psd = False
    _parameters = {
        "method": checks.Word(*METHODS, says="give one of {}"),
        "assign_labels": checks.Word(*WAYS, says="give one of {}"),
        "affinity": checks.Word(
            *AFFINITIES,
            says="give 'kernel', for edges that are kernel values, or 'nearest_neighbors'; the "
            "kernel, or 'precomputed' for a matrix of affinities, is given as kernel=",
            instead={name: f"a kernel is given as kernel={name!r}" for name in SHORT_NAMES},
        ),
        "n_neighbors": checks.Whole(2),
        "n_clusters": checks.Whole(1),
        "n_components": checks.Maybe(checks.Whole(1)),
        "n_init": checks.Whole(1),
        "rank": checks.Maybe(checks.Whole(1)),
        "tol": checks.Number(above=0, below=1, says="give a number between 0 and 1"),
        "random_state": checks.SEED,
    }
    _state = (
        {
            "kernel_": state.Anything(),
            "X_fit_": state.Anything(),
            "embedding_centers_": state.Floats("k", "d"),
            "labels_": state.Floats("n", kind="iuf", below="k"),
            "embedding_": state.Floats("n", "d"),
            "eigenvalues_": state.Floats("d"),
            "extension_": state.Array("d"),
            "solution_": state.Anything(),
            "sample_weight_": state.Spare(state.Array("n", least=0)),
            "diagonal_": state.Spare(state.Array("n", kind="f")),
        }
        | state.others("method_", "plan_", "approximation_error_", "n_iter_")
        | state.INPUTS
    )
    _rules = ((state.MISFIT, _has_positions),)

    labels_: np.ndarray
    embedding_: np.ndarray
    eigenvalues_: np.ndarray
    extension_: np.ndarray
    embedding_centers_: np.ndarray
    sample_weight_: np.ndarray | None
    diagonal_: np.ndarray
    method_: str
    plan_: Plan
    approximation_error_: float

    def __init__(
        self,
        n_clusters: int = 8,
        kernel: Any = "rbf",
        random_state: Any = None,
        *,
        n_components: int | None = None,
        assign_labels: str = "kmeans",
        n_init: int = 10,
        tol: float = 1e-8,
        method: str = "auto",
        rank: int | None = None,
        affinity: str = "kernel",
        n_neighbors: int = 10,
    ):
        self.n_clusters = n_clusters
        self.kernel = kernel
        self.n_components = n_components
        self.assign_labels = assign_labels
        self.n_init = n_init
        self.tol = tol
        self.method = method
        self.rank = rank
        self.affinity = affinity
        self.n_neighbors = n_neighbors
        self.random_state = random_state

    @property
    def function_(self) -> Any:
        """No function of the RKHS describes a partition."""
        raise AttributeError("SpectralClustering has no function_: a partition is not in the RKHS.")

    # -- fit ----------------------------------------------------------------------------------
    @speaks("SpectralClustering")
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find clusters.

        Parameters
        ----------
        X : collection of n points
            Vectors, frames, or what the kernel accepts; the matrix of affinities when precomputed,
            dense or sparse.
        y : ignored
            There is no target.
        sample_weight : float or array of shape (n,), optional
            Weights; a weight of 2 is the row given twice, 0 the row left out.

        Returns
        -------
        SpectralClustering
            The fitted model itself.
        """
        with self._all_or_nothing(X):
            checks.check_parameters(self)
            kernel = self._kernel()
            X = self._check_X(X, kernel, reset=True)
            n = kernel.domain.size(X)
            given = check_weights(sample_weight, n)
            w = np.ones(n) if given is None else given
            self._counts(int((w > 0).sum()), "of positive weight")
            self.kernel_ = kernel if _stored(kernel, X) else kernel.fit_params(X, given)
            near = self.affinity == "nearest_neighbors"
            if near:
                require_psd(kernel)
                require_neighbours(int(self.n_neighbors), int((w > 0).sum()))
                self.diagonal_ = check_lengths(self.kernel_, X)
            rng = random_source(self.random_state)
            # Weights below 1 may have any common factor, and next to large ones loops are nothing.
            (w,), _ = moderate([w], 0 if w.max() < 1 else 100)
            index, copy_of = copies_of(kernel, X, _whole(w) if near else w)
            ws = np.bincount(copy_of, w)
            S = self._affinity(kernel.domain.take(X, index), index, ws, rng)
            there = S.present
            k, m = self._counts(int(there[copy_of].sum()), "that have an affinity with another")
            k, m = min(k, int(there.sum())), min(m, int(there.sum()))
            solution = leading_pairs(S, m, float(self.tol), rng)
            U = S.placed(solution.value.values, solution.value.vectors)
            U[there] = cleaned(U[there])
            self.extension_ = S.staying(solution.value.values, U)
            del S
            self.eigenvalues_ = np.maximum(1.0 - solution.value.values, 0.0)
            labels = np.full(len(index), -1, dtype=np.int64)
            labels[there] = assign(U[there], ws[there], k, self.assign_labels, self.n_init, rng)
            self.embedding_centers_ = cluster_means(U[there], labels[there], ws[there])
            U, labels, there = U[copy_of], labels[copy_of], there[copy_of]
            alone = int((w > 0).sum() - there.sum())
            self.embedding_ = U
            self.sample_weight_ = np.where(there, w, 0.0) if alone else given
            self.X_fit_ = self.kernel_.domain.keep(X)
            if (w == 0).any():
                absent = np.flatnonzero(w == 0)
                U[absent], labels[absent] = self._placed(kernel.domain.take(X, absent))
            self.labels_ = labels
            self.n_iter_ = max(1, solution.n_iter)
            self.solution_ = solution
            solution.unwrap()
            self._warn(alone, solution.extra.get("gap"))
        return self

    def _plan(self, X: Any, y: Any) -> Plan:
        study = study_of(self, X, y, targets=False, random_state=self.random_state)
        return plan_spectral(self, study)

    def _gram_rows(self, X: Any, kernel: Any) -> Any:
        """Return a sparse matrix as it is, where its entries are edges."""
        edges = self.affinity == "kernel" and self.method != "nystrom"
        if edges and type(kernel) is Precomputed:
            return kernel.domain.structure(X)
        return super()._gram_rows(X, kernel)

    def _affinity(self, X: Any, index: np.ndarray, weights: np.ndarray, rng: Any) -> Any:
        """Return the normalised affinity by the method that is asked for, or fits."""
        rank = default_rank(int(self.n_clusters)) if self.rank is None else int(self.rank)
        study = Study(self.kernel_, X)
        self.plan_ = followed(partial(plan_spectral, self), study, self.method == "auto")
        self.method_, self.approximation_error_ = self.plan_.method, 0.0
        if self.affinity == "nearest_neighbors":
            lengths, k = self.diagonal_[index], int(self.n_neighbors)
            X = neighbour_graph(self.kernel_, X, weights, lengths, k)
            return SparseAffinity(X, weights)
        if _stored(self.kernel_, X):
            return SparseAffinity(X, weights)
        if self.method_ == "exact":
            return NormalisedAffinity(self.kernel_, X, weights)
        with speaking_for("SpectralClustering: method='nystrom'"):
            require_psd(self.kernel_)
        S = LowRankAffinity(self.kernel_, X, weights, rank, rng)
        self.approximation_error_ = S.error
        self.plan_ = self.plan_.found(S.error)
        return S

    def _counts(self, n: int, which: str) -> tuple[int, int]:
        """Return the numbers of clusters and of components, if n points can have so many."""
        k = int(self.n_clusters)
        m = k if self.n_components is None else int(self.n_components)
        for name, value in (("n_clusters", k), ("n_components", m)):
            if value > n:
                raise InvalidInput(
                    f"SpectralClustering: {name}={value} with n_samples={n} points {which}; "
                    f"give at most {n}, or more points."
                )
        return k, m

    def _warn(self, alone: int, gap: float | None) -> None:
        found, k = len(self.embedding_centers_), int(self.n_clusters)
        if self.approximation_error_ > LARGE:
            warnings.warn(
                "SpectralClustering: the pivots of method='nystrom' leave out "
                f"{self.approximation_error_:.0%} of the trace of the affinities, and clusters may "
                "be those of a much coarser graph. Give a larger rank, or a wider kernel.",
                UserWarning,
                stacklevel=users_level(),
            )
        if gap is not None and gap <= TIE:
            m = len(self.eigenvalues_)
            warnings.warn(
                f"SpectralClustering: eigenvalues {m} and {m + 1} are equal, so that eigenvector "
                f"{m} is one of many and the clusters are no better than others. Ask for more or "
                "fewer clusters, or give n_components.",
                UserWarning,
                stacklevel=users_level(),
            )
        if alone:
            or_rank = ", or a larger rank," if self.method_ == "nystrom" else ""
            warnings.warn(
                f"SpectralClustering: {alone} rows have no affinity with any other row and are in "
                f"no cluster: their label is -1. A wider kernel{or_rank} would connect them.",
                UserWarning,
                stacklevel=users_level(),
            )
        if found < k:
            warnings.warn(
                f"SpectralClustering: only {found} of n_clusters={k} clusters have points: the "
                "embedding has too few different rows. Ask for fewer clusters.",
                UserWarning,
                stacklevel=users_level(),
            )

    # -- answers ------------------------------------------------------------------------------
    def predict(self, X: Any) -> np.ndarray:
        """Return the cluster of each row of X, −1 where it has no affinity with a training point.

        Parameters
        ----------
        X : collection of points
            New points; when precomputed, their affinities with the training points, or kernel
            values for ``affinity="nearest_neighbors"``.
        """
        return self._placed(self._check_new(X))[1]

    def _placed(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the places of new points in the embedding, and their clusters."""
        U, w = self.embedding_, self.sample_weight_
        w = np.ones(len(U)) if w is None else w
        walk = self.extension_
        sums = np.column_stack([w[:, None] * U, w])
        values = self._finite(self._summed(X, sums))
        degrees = values[:, -1]
        alone = degrees <= 0
        seen = walk > SMALL  # other coordinates count nothing
        places = values[:, :-1] / np.where(alone, 1.0, degrees)[:, None]
        places = np.where(seen, places / np.where(seen, walk, 1.0), 0.0)
        labels = nearest(places, np.where(seen, self.embedding_centers_, 0.0))
        return places, np.where(alone, -1, labels)

    def _summed(self, X: Any, values: np.ndarray) -> np.ndarray:
        """Return the sums of values of training points, times the affinities of new points."""
        if "diagonal_" not in vars(self):
            if _stored(self.kernel_, X):
                return np.asarray(X @ values)
            return np.asarray(self.kernel_.matmul(X, self.X_fit_, values), dtype=float)
        weights = values[:, -1]
        index, copy_of = copies_of(self.kernel_, self.X_fit_, _whole(weights))
        sums = np.zeros((len(index), values.shape[1]))
        np.add.at(sums, copy_of, values)
        there = sums[:, -1] > 0
        index = index[there]
        points = self.kernel_.domain.take(self.X_fit_, index)
        k = int(self.n_neighbors)
        return neighbour_sums(self.kernel_, X, points, self.diagonal_[index], k, sums[there])

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        kernel_values = tags.input_tags.pairwise and self.affinity == "kernel"
        tags.input_tags.positive_only = kernel_values
        return tags
