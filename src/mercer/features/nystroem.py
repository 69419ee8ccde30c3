"""Nyström features: any kernel through its values with landmarks, with the error that is left."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer import state
from mercer.domains import RowBlocks
from mercer.errors import InvalidInput, NotPositiveDefinite, speaks, who
from mercer.estimator import is_single
from mercer.features.base import SHARED, ApproximateFeatures
from mercer.features.landmarks import choose_landmarks
from mercer.kernels import Kernel
from mercer.lapack import dpotrf, dpstrf, dtrsm, solve_rows
from mercer.memory import require_memory
from mercer.operators import gram_of

# ---- Which points span what all of them span, and the Cholesky factor of their kernel matrix ----


EPS = float(np.finfo(np.float64).eps)
#: Of the largest k(z, z) this must be left beside the points before, for no pivots to be needed.
JUDGED = 500  # points that tell what the features leave out, where those are not wanted
CLEAR = 1e-11


def spanning_factor(K: np.ndarray, kernel: Kernel) -> tuple[np.ndarray, np.ndarray]:
    """Return L and positions p with LLᵀ = K[p][:, p], as far as K has rank.

    Points stay in their order where each adds to those before; else LAPACK chooses pivots.

    K : ndarray of shape (m, m)
        k(Z, Z) in float64.
    kernel : Kernel
        The kernel, for messages.
    """
    d, m = np.diagonal(K), len(K)
    top = float(d.max())
    if not top > 0:  # k is 0 everywhere: one feature, of zeros
        return np.ones((1, 1)), np.zeros(1, dtype=np.intp)
    L, failed = dpotrf(K, lower=1)
    if not failed and np.diagonal(L).min() ** 2 > CLEAR * top:
        return L, np.arange(m)
    L, pivots, rank, _ = dpstrf(K, tol=4 * m**0.5 * EPS * top, lower=1)
    kept, dropped = pivots[:rank] - 1, pivots[rank:] - 1
    below = L[rank:, :rank]
    left = d[dropped] - np.einsum("ij,ij->i", below, below)
    if len(left) and left.min() < -100 * np.sqrt(EPS) * top:
        raise NotPositiveDefinite(
            f"{who()}: {kernel} is not positive semidefinite on the landmarks: after {rank} "
            f"pivots {left.min():.3g} is left of k(z, z). Test it with mercer.check_kernel."
        )
    return np.asfortranarray(np.tril(L[:rank, :rank])), kept.astype(np.intp)


# ---- nystroem ----


class Nystroem(ApproximateFeatures):
    r"""Features of any kernel from its values with landmarks Z, φ(x) = L⁻¹ k(Z, x).

    With :math:`LL^\top = k(Z, Z)` they are the coordinates of the projection of k(x, ·) on the span
    of the k(z, ·), and :math:`\Phi\Phi^\top = K_{XZ} K_{ZZ}^{+} K_{ZX}`. What is left,
    :math:`k(x, x) - \lVert\varphi(x)\rVert^2`, is never negative; it is 0 at the landmarks.
    Landmarks that add nothing to the span of the others, such as repeated points, are left out:
    nothing is less than the rounding of the largest k(z, z), so points whose k(z, z) is so small
    (of `Linear`, short beside the longest by a factor 10⁷) have no feature of their own.

    Cost n m kernel values and n m² + m³/3 operations for m landmarks, n m numbers of memory for the
    features. The choice of the landmarks costs what `mercer.features.landmarks` says.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        The kernel, on any kind of points; "rbf" takes its length scale from the data.
    n_components : int, default=100
        Number of landmarks; more than there are different points means all of them, and then the
        features are exact. Not looked at where the landmarks are given.
    landmarks : {"rpcholesky", "uniform", "kmeans", "leverage"} or points, default="rpcholesky"
        Pivots of a randomly pivoted Cholesky factor, which reach rare points too; a uniform draw;
        means of k-means clusters (of points that are no vectors: seeds of k-means++ in feature
        space); a draw by ridge leverage scores; or the points themselves (with a precomputed
        kernel, their positions). Of more than 100000 rows (50 a landmark; "kmeans" 20000 and 20)
        a draw of that many is looked at, in which rare points may be missing.
    random_state : int, RandomState or None, default=None
        For the choice of landmarks.

    Attributes
    ----------
    components_ : collection of m points
        The landmarks, in the order of their choice (where some were left out, those that explain
        most first); positions when the kernel is precomputed.
    component_indices_ : array of shape (m,) or None
        Their positions among the training points, where they are training points.
    n_components_ : int
        Number of landmarks, which is that of the features.
    trace_error_ : float
        tr(K − ΦΦᵀ)/tr K on the training points, weighted by `sample_weight`; 0 is exact. `fit` on
        more than 500 points asks 500 of them; `fit_transform`, which has all features, all.
    factor_ : array of shape (m, m)
        The lower triangle L.
    kernel_ : Kernel
        The kernel with words resolved.
    n_features_in_ : int
        Columns of the training points, where they have columns.

    See Also
    --------
    mercer.RandomFourierFeatures : Features of stationary kernels that do not look at the data.
    mercer.Prototypes : The kernel values themselves.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RBF, Nystroem
    >>> X = np.linspace(0, 10, 200)[:, None]
    >>> features = Nystroem(RBF(1.0), n_components=25, random_state=0)
    >>> Phi = features.fit_transform(X)
    >>> Phi.shape, bool(features.trace_error_ < 1e-6)
    ((200, 25), True)
    >>> bool(abs(Phi @ Phi.T - RBF(1.0)(X)).max() < 1e-4)
    True
    """

    _state = state.worded(
        {
            "kernel_": state.Anything(),
            "components_": state.Points("m", "landmarks"),
            "component_indices_": state.Spare(state.Array("m")),
            "n_components_": state.SizeOf("m"),
            "factor_": state.Triangle("m"),
            "trace_error_": state.Anything(),
            **state.INPUTS,
        },
        state.PARTS_MISFIT,
        lacks="a {} without its kernel, landmarks or factor",
    )
    _last = "trace_error_"

    def __init__(
        self,
        kernel: Any = "rbf",
        n_components: int = 100,
        landmarks: Any = "rpcholesky",
        random_state: Any = None,
    ):
        self.kernel = kernel
        self.n_components = n_components
        self.landmarks = landmarks
        self.random_state = random_state

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> np.ndarray:
        """Fit, and return the features of the training points; they are computed once.

        Parameters
        ----------
        X : collection of n points, or RowBlocks
            As for `fit`.
        y : None
            Ignored.
        sample_weight : float or array of shape (n,), optional
            As for `fit`.

        Returns
        -------
        array of shape (n, m)
            The features.
        """
        if isinstance(X, RowBlocks):
            return self.fit(X, y, sample_weight).transform(X)
        precision = np.float32 if is_single(X) else np.float64
        with self._all_or_nothing(X):
            kernel, X, weights, rng, rows = self._begin(X, sample_weight)
            self._choose(kernel, X, weights, rng, rows)
            out = self._room(X, precision)
            self.trace_error_ = _share(*self._residual(X, out), weights)
        return out

    @speaks
    def residual(self, X: Any) -> np.ndarray:
        """Return k(x, x) − ‖φ(x)‖² ≥ 0, what the features leave out at each point.

        It is the squared distance of k(x, ·) from the span of the landmarks, and bounds the error
        of every kernel value: |k(x, x′) − φ(x)ᵀφ(x′)|² ≤ residual(x)·residual(x′).

        Parameters
        ----------
        X : collection of n points
            Points. A precomputed kernel does not say k(x, x) of new points, so it is refused.
        """
        X = self._check_new(X)
        if not self.kernel_.domain.holds_points:
            raise InvalidInput(
                "Nystroem: residual needs k(x, x), which rows of a precomputed matrix do not hold; "
                "trace_error_ is that of the training points."
            )
        return self._finite(self._residual(X)[0])

    # -- parts ----------------------------------------------------------------------------------
    def _learn(
        self, kernel: Kernel, X: Any, weights: np.ndarray | None, rng: Any, rows: Any
    ) -> None:
        self._choose(kernel, X, weights, rng, rows)
        n = kernel.domain.size(X)
        if n > JUDGED and rows is None and kernel.domain.holds_points:
            some = np.linspace(0, n - 1, JUDGED).astype(int)
            X, weights = kernel.domain.take(X, some), None if weights is None else weights[some]
        self.trace_error_ = _share(*self._residual(X), weights)

    @speaks
    def _choose(
        self, kernel: Kernel, X: Any, weights: np.ndarray | None, rng: Any, rows: Any
    ) -> None:
        """Set everything but the error."""
        domain, m = kernel.domain, int(self.n_components)
        how = self._by_name(self.landmarks, kernel, "landmarks")
        whole = (X, weights) if rows is None else (rows, None)  # blocks have their weights
        points, index = choose_landmarks(kernel, whole[0], m, how, rng, whole[1])
        size = domain.size(points)
        require_memory(
            2 * 8 * size**2, f"{who()}: k(Z, Z) of {size} landmarks", "Use fewer n_components"
        )
        corner = np.array(gram_of(kernel, domain.own(X, points)).to_dense(), dtype=np.float64)
        L, kept = spanning_factor(corner, kernel)
        self.kernel_ = kernel
        self.components_ = domain.keep(domain.take(points, kept))
        self.component_indices_ = None if index is None else index[kept]
        self.factor_ = L
        self.n_components_ = len(kept)

    def _residual(self, X: Any, out: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return k(x, x) − ‖φ(x)‖² of checked points, and k(x, x); φ goes to `out`."""
        lengths = np.array(self.kernel_.diag(X), dtype=np.float64)
        left = np.empty_like(lengths)
        for rows, phi in self._parts(X, 0 if out is None else out.nbytes):
            left[rows] = np.maximum(lengths[rows] - np.einsum("ij,ij->i", phi, phi), 0.0)
            if out is not None:
                out[rows] = phi
        return left, lengths

    def _map(self, X: Any) -> np.ndarray:
        """Return the features of checked points."""
        X, points = self.kernel_._checked(X, self.components_)
        phi = np.ascontiguousarray(gram_of(self.kernel_, X, points).to_dense(), dtype=np.float64)
        if not phi.flags.writeable:
            phi = phi.copy()
        if phi.size <= SHARED:  # several threads may be at work
            solve_rows(np.asfortranarray(self.factor_), phi)
            return phi
        return dtrsm(1.0, self.factor_, phi.T, lower=1, overwrite_b=1).T

    @property
    def _n_features_out(self) -> int:
        return self.n_components_


def _share(left: np.ndarray, lengths: np.ndarray, weights: np.ndarray | None) -> float:
    """Return the part of the trace that is left."""
    w = np.ones(len(left)) if weights is None else weights
    whole = float(w @ lengths)
    return float(w @ left) / whole if whole > 0 else 0.0
