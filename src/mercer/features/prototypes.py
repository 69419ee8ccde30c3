"""Prototype features x ↦ [k(x, μ₁), …, k(x, μ_K)], and the choice of the prototypes μ."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin

from mercer import checks, state
from mercer.checks import as_number, random_source
from mercer.domains import moderate, shifted
from mercer.engines import pick
from mercer.errors import InvalidInput, speaks, users_level, who
from mercer.estimator import TakesKernel, check_weights
from mercer.features.points import distinct, given_points
from mercer.kernels import Kernel
from mercer.memory import require_memory, row_blocks
from mercer.rkhs import apart
from mercer.settings import get_config
from mercer.threads import one_openmp_thread

FEWEST = 32  # rows that are computed at once, where memory is short
#: What the parameters of a choice may be.
CHOICE: checks.Constraints = {
    "prototypes": checks.Word(
        "all", "random", "kmeans", points=True, says="give {}, or the points themselves"
    ),
    "n_prototypes": checks.Either(
        checks.Word("sqrt"),
        checks.Number(above=0, most=1),
        checks.Legal(
            lambda value: as_number(value) >= 1 and as_number(value) % 1 == 0, "a whole number"
        ),
        says="give a whole number ≥ 1, a share of the points in (0, 1], or 'sqrt'",
    ),
    "random_state": checks.SEED,
}


@speaks
def choose_prototypes(
    model: Any, kernel: Kernel, X: Any, weights: np.ndarray | None
) -> tuple[Any, np.ndarray | None]:
    """Return the prototypes of a model, and their positions in X where they are rows of it.

    A row that is given several times is one prototype, and a row of weight zero is none, so
    that a weight of 2 is a row given twice.
    """
    checks.check_parameters(model)
    word = model.prototypes
    if not isinstance(word, str):
        points = model._by_name(word, kernel, "prototypes")
        points = given_points(kernel, X, points, "prototypes")
        return kernel.domain.keep(points), None
    if word == "kmeans":
        return _centres(model, kernel, X, weights), None
    index = distinct(kernel, X, weights)[0]
    if word == "random":
        count = _count(model, len(index))
        if count < len(index):
            rng = random_source(model.random_state)
            index = index[np.sort(rng.choice(len(index), count, replace=False))]
    return kernel.domain.keep_at(X, index), index


def _count(model: Any, available: int) -> int:
    """Return how many prototypes are wanted of the points there are."""
    rule = model.n_prototypes
    if isinstance(rule, str):
        return int(np.ceil(np.sqrt(available)))
    if rule <= 1 and not isinstance(rule, int | np.integer):
        return int(np.ceil(float(rule) * available))
    if rule > available:
        warnings.warn(
            f"{who()}: n_prototypes={rule}, but there are {available} different points; all "
            "of them are prototypes.",
            UserWarning,
            stacklevel=users_level(),
        )
    return min(int(rule), available)


@speaks
def _centres(model: Any, kernel: Kernel, X: Any, weights: np.ndarray | None) -> Any:
    """Return the means of k-means clusters, the same in whatever order the rows come."""
    vectors = sp.issparse(X) or (
        isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "fiu"
    )
    if not vectors or not kernel.domain.holds_points:
        raise InvalidInput(
            f"{who()}: prototypes='kmeans' takes means of points, which {kernel} on "
            f"{kernel.domain.name} has none of; use prototypes='random', or give the points."
        )
    from sklearn.cluster import KMeans

    index, total = distinct(kernel, X, weights)
    points = kernel.domain.take(X, index)
    count = _count(model, len(total))
    if count < len(total):
        seeds = random_source(model.random_state)
        (points,), shift = moderate([points])  # squares of distances must exist
        with one_openmp_thread():
            means = KMeans(count, random_state=seeds).fit(points, sample_weight=total)
        points = shifted(means.cluster_centers_, shift) if shift else means.cluster_centers_
    return kernel.domain.check(points, "prototypes")


def map_to_prototypes(model: Any, X: Any) -> np.ndarray:
    """Return the matrix of k(x, μ) of checked points, in float64."""
    if len(prototype_blocks(model, X)) == 1:
        return _prototype_values(model, X)
    domain = model.kernel_.domain
    n, m = domain.size(X), domain.size(model.prototypes_)
    row = _row_bytes(model, X)
    require_memory(
        8 * n * m + min(n, FEWEST) * row,
        f"{type(model).__name__}: the {n} × {m} matrix of features",
        "Give the rows in parts, or use fewer prototypes",
    )
    out = np.empty((n, m))
    step = max(1, min(get_config().memory // 4, get_config().memory - out.nbytes) // row)
    for start in range(0, n, step):
        rows = slice(start, min(start + step, n))
        out[rows] = _prototype_values(model, domain.take(X, rows))
    return out


def _prototype_values(model: Any, X: Any) -> np.ndarray:
    X, points = with_prototypes(model, X)
    engine = pick(X, points)
    out = engine.to_numpy(engine.gram(model.kernel_, X, points))
    return np.asarray(out, dtype=np.float64)


def with_prototypes(model: Any, X: Any) -> tuple[Any, Any]:
    """Return checked points and the prototypes of a model, each as its kernel takes them."""
    # Points that happen to be the prototypes themselves are still new points to White noise.
    points = model.prototypes_
    return model.kernel_._checked(apart(model.kernel_.domain, X) if X is points else X, points)


def prototype_blocks(model: Any, X: Any) -> list[slice]:
    """Return blocks of rows whose features fit the budget."""
    return row_blocks(model.kernel_.domain.size(X), _row_bytes(model, X))


def _row_bytes(model: Any, X: Any) -> int:
    """Return bytes for kernel values of a row with the prototypes, and copies of its columns."""
    width = X.shape[-1] if isinstance(X, np.ndarray) else 0
    return 16 * model.kernel_.domain.size(model.prototypes_) + 32 * width


#: What a model with prototypes learns of them.
PROTOTYPES = state.worded(
    {
        "kernel_": state.Anything(),
        "prototypes_": state.Points("m", "prototypes"),
        "prototype_indices_": state.Spare(state.Array("m")),
        **state.INPUTS,
    },
    "the prototypes of a {} do not fit its other parts",
    lacks="a {} without its kernel or its prototypes",
)


class Prototypes(ClassNamePrefixFeaturesOutMixin, TransformerMixin, TakesKernel, BaseEstimator):
    r"""Map a point to its kernel values with prototypes, φ(x) = [k(x, μ₁), …, k(x, μ_K)].

    In front of a linear model this makes a kernel machine of it: wherever the model has βᵀx it now
    has Σⱼ βⱼ k(x, μⱼ), a function of the kernel's space. Any kernel on any data will do. Equal
    points are one prototype, so a row that is given twice adds no feature. Vectors are sorted, so
    that the features do not depend on the order of the rows; ``prototype_indices_`` has the rows.

    Cost nK kernel values, in tiles inside the memory budget.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        The kernel; "rbf" takes its length scale from the data.
    prototypes : {"all", "random", "kmeans"} or collection of points, default="all"
        Every training point; `n_prototypes` of them at random; the means of as many k-means
        clusters, which needs vectors; or the points themselves. With ``kernel="precomputed"``
        prototypes are columns of the matrix, and points are given by position.
    n_prototypes : int, float or "sqrt", default=100
        How many for "random" and "kmeans": a number, a share of the different points in (0, 1],
        or the square root of their number. Where there are fewer points, all of them, with a
        warning.
    random_state : int, RandomState or None, default=None
        For "random" and "kmeans".

    Attributes
    ----------
    prototypes_ : collection of K points
        The prototypes; their positions when the kernel is precomputed.
    prototype_indices_ : array of shape (K,) or None
        Their positions among the training rows, for "all" and "random".
    kernel_ : Kernel
        The kernel with words resolved.
    n_features_in_ : int
        Columns of the training points, where they have columns.

    See Also
    --------
    mercer.KernelMachine : These features and a model behind them, in one.
    mercer.L1VM : Which chooses prototypes by a sparse penalty.

    Examples
    --------
    >>> from mercer import RBF, Prototypes
    >>> Prototypes(RBF(), [[0.0], [1.0]]).fit_transform([[0.0], [1.0], [2.0]]).round(3)
    array([[1.   , 0.607],
           [0.607, 1.   ],
           [0.135, 0.607]])
    >>> common = lambda s, t: len(set(s) & set(t))
    >>> Prototypes(common, ["ab", "bc"]).fit_transform(["abc", "xyz", "b"])
    array([[2., 2.],
           [0., 0.],
           [1., 1.]])
    """

    _needs_psd = False
    _parameters = CHOICE
    _state = PROTOTYPES

    def __init__(
        self,
        kernel: Any = "rbf",
        prototypes: Any = "all",
        *,
        n_prototypes: Any = 100,
        random_state: Any = None,
    ):
        self.kernel = kernel
        self.prototypes = prototypes
        self.n_prototypes = n_prototypes
        self.random_state = random_state

    @speaks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Resolve the kernel on the data and choose the prototypes.

        Parameters
        ----------
        X : collection of n points
            Vectors, frames, or what the kernel accepts; the Gram matrix when precomputed.
        y : None
            Ignored.
        sample_weight : float or array of shape (n,), optional
            Weights, for k-means and the kernel's words; a row of weight 0 is no prototype.

        Returns
        -------
        Prototypes
            The fitted map itself.
        """
        with self._all_or_nothing(X):
            kernel = self._kernel()
            X = self._check_X(X, kernel, reset=True)
            n = kernel.domain.size(X)
            weights = check_weights(sample_weight, n)
            kernel.domain.check_training(X)
            kernel = kernel.fit_params(X, weights)
            self.prototypes_, self.prototype_indices_ = choose_prototypes(self, kernel, X, weights)
            self.kernel_ = kernel
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Return the kernel values with the prototypes, shape (n, K), in float64.

        Parameters
        ----------
        X : collection of n points
            Points; when precomputed, their kernel values with the training points.
        """
        return map_to_prototypes(self, self._check_new(X))

    @property
    def _n_features_out(self) -> int:
        return self.kernel_.domain.size(self.prototypes_)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return "prototypes_" in vars(self)
