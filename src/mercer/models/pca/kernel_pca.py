"""Principal components in feature space."""

from __future__ import annotations

import numbers
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from mercer import checks, state
from mercer.errors import InvalidInput, available_if, speaking_for, speaks
from mercer.estimator import (
    KernelEstimator,
    Plan,
    Sample,
    Study,
    check_lengths,
    check_weights,
    followed,
    follows_data,
    in_time,
    refuse_foreign_letters,
    study_of,
    tell_rounding,
    warn_if_coarse,
)
from mercer.kernels import Kernel
from mercer.models.pca.components import (
    THIN,
    Components,
    Wanted,
    by_features,
    features_fit,
    n_features,
)
from mercer.models.pca.dual import (
    OTHERWISE,
    TOL,
    by_cholesky,
    by_dense,
    by_subspace,
    pivots_allowed,
)
from mercer.models.pca.incremental import Stream
from mercer.models.pca.preimage import WORDS, check_preimage
from mercer.models.pca.projections import Projections, has_points
from mercer.operators import gram_of
from mercer.settings import get_config
from mercer.solvers import Cost, Solution, SubspaceIteration
from mercer.solvers.linear import EIGH

# ---- The parameters of principal components: what is legal, and how many components are asked
# for.


SOLVERS = ("auto", "dense", "subspace", "features", "cholesky")
PEERS = {"arpack": "subspace", "randomized": "subspace"}  # scikit-learn's words


def wanted(n_components: Any) -> Wanted:
    """Return what `n_components` asks for."""
    if n_components is None:
        return Wanted()
    if isinstance(n_components, numbers.Integral):
        return Wanted(count=int(n_components))
    return Wanted(share=float(n_components))


#: How many components.
COMPONENTS = checks.Maybe(
    checks.Either(
        checks.Whole(1),
        checks.Number(above=0, below=1),
        says="give a whole number ≥ 1, a share of the variance between 0 and 1, or None for all "
        "components",
    )
)
SOME_OR_NONE = checks.Maybe(checks.Whole(1, says="give a whole number ≥ 1, or None"))


@speaks
def check_components(model: Any, kernel: Kernel) -> Wanted:
    """Return how many components a `KernelPCA` asks for, or refuse one of its parameters."""
    checks.check_parameters(model)
    check_preimage(model, kernel)
    return replace(wanted(model.n_components), drop=bool(model.remove_zero_eig))


# ---- Which solver suits the sizes of a `KernelPCA`, and a call of the one that was planned ----


SMALL = 320  # points up to which LAPACK takes less time than products with the matrix
FEW = 400  # points up to which their matrix is decomposed faster than features that are not few
OPEN = 2000  # the same where a share of the variance is asked for
WIDE = 2  # so many times more features than points, or columns, are worth centring one by one
PRODUCTS = 15  # block products of a subspace iteration, as a rule
NARROW = 3.0  # times that products with a few columns take as long as their operations would
PARTIAL = 4.0  # products of n³ operations that some eigenvectors by LAPACK take as long as


@speaks("KernelPCA")
def decompose(model: Any, data: Sample, want: Wanted, word: str) -> Components:
    """Return the components of points of positive weight."""
    n = data.kernel.domain.size(data.X)
    few = _few(n, want)
    seed = 0 if model.random_state is None else model.random_state
    tol, limit = float(model.tol), model.max_iter
    given = (data, want)
    if word == "features":
        leading = SubspaceIteration(
            tol or TOL, limit or 500, random_state=seed, otherwise=OTHERWISE
        )
        return by_features(*given, few=leading if few and n > SMALL else None)
    if word == "dense":
        return by_dense(*given)
    if word == "subspace":
        return by_subspace(*given, tol=tol, max_iter=limit, random_state=seed)
    return by_cholesky(*given, rank=pivots_allowed(n, model.rank, want), random_state=seed)


def _few(n: int, want: Wanted) -> bool:
    return want.count is not None and want.count <= n / 10


def pick_solver(model: Any, kernel: Kernel, X: Any, want: Wanted) -> str:
    """Return the solver from sizes; a plan may leave "cholesky" for one that is exact."""
    word = PEERS.get(model.eigen_solver, model.eigen_solver)
    n, D = kernel.domain.size(X), n_features(kernel, X)
    if word == "features" and D is None:
        raise InvalidInput(
            f"KernelPCA: eigen_solver='features', but {kernel} has no finite features; use "
            "'auto', 'dense', 'subspace' or 'cholesky'."
        )
    if word == "subspace" and want.count is None and want.share is None:
        raise InvalidInput(
            "KernelPCA: eigen_solver='subspace' finds the leading components; give n_components, "
            "or use eigen_solver='dense' for all of them."
        )
    if word != "auto":
        return word
    columns = X.shape[1] if getattr(X, "ndim", 0) == 2 else 0
    most = WIDE * max(n, columns)
    matrix = D is not None and SMALL // 3 < n <= FEW and _few(n, want) and n < THIN * D
    if (
        D is not None
        and not matrix
        and D <= most
        and features_fit(n, D, sp.issparse(X), get_config().memory)
    ):
        return "features"
    if n <= SMALL or (want.share is not None and n <= OPEN) or not (_few(n, want) or want.share):
        some = want.count is not None and want.count < n / 2 and get_config().engine != "torch"
        matrices = 2 if some else 5
        return "dense" if 8 * matrices * n * n <= gram_of(kernel, X).room else "cholesky"
    return "subspace" if 9 * n * n <= gram_of(kernel, X).room else "cholesky"


def plan_components(model: Any, study: Study) -> Plan:
    """Return the plan of `KernelPCA`: features, LAPACK, block products or pivots."""
    facts, kernel, X = study.facts, study.kernel, study.X
    want = check_components(model, kernel)
    n = facts.n
    k = n if want.count is None else min(want.count, n)
    rank = pivots_allowed(n, None, want) if model.rank is None else min(model.rank, n)
    few = want.count is not None and k < n / 2
    base = facts.vectors + 8 * n * 4 * min(k, n)
    plans = {}
    D = n_features(kernel, X)
    if D is not None:
        side = min(n, D)
        tall = n >= THIN * D or sp.issparse(X)
        needed = 8 * (5 * side * side + (0 if tall else 2 * n * D))
        more = 8 * (2 * D * side if tall else 2 * n * D) + base
        time = study.seconds(4.0 * n * D * side, EIGH * side**3, reads=64.0 * n * D)
        plans["features"] = study.plan("features", Cost(needed, time, more))
    time = study.seconds((PARTIAL if few else EIGH) * n**3, entries=0.5 * n * n)
    cost = Cost(8 * (2 if few else 5) * n * n, time, facts.tiles + base)
    plans["dense"] = study.plan("dense", cost)
    if want.count is not None or want.share is not None:
        width = (k if want.count is not None else 16) + 10
        kept = 9 * n * n <= facts.budget
        once = 0.5 * n * n * (1 if kept else PRODUCTS)
        time = study.seconds(NARROW * 2.0 * n * n * width * PRODUCTS, entries=once)
        more = 8 * n * 16 * width + facts.tiles + base
        space = 8 * n * (2 * min(n, 3 * width) + 4 * width)  # what the iteration asks for
        cost = Cost(max(8 * n * n if kept else 0, space), time, more)
        plans["subspace"] = study.plan("subspace", cost)
    time = study.seconds(4.0 * n * rank**2, EIGH * rank**3, entries=1.0 * n * rank)
    cost = Cost(8 * 3 * n * rank, time, 32 * rank * rank + base)
    plans["cholesky"] = study.plan("cholesky", cost, study.left(rank), rank)
    word = pick_solver(model, kernel, X, want)
    if PEERS.get(model.eigen_solver, model.eigen_solver) != "auto":
        return study.take(plans, word, f"You chose eigen_solver={model.eigen_solver!r}.")
    why = {
        "features": "The kernel has few finite features.",
        "dense": f"{n} points are few, or many components are wanted.",
        "subspace": f"{k} components of {n} points are few, and the matrix fits.",
        "cholesky": f"The matrix does not fit; {rank} pivots stand for it.",
    }[word]
    # How many components a share of the variance takes is not known, nor their memory.
    if word == "cholesky" and want.count is not None and in_time(plans.get("subspace")):
        word, why = "subspace", "It is exact, and makes the matrix, which does not fit, in tiles."
    return study.take(plans, word, why)


# ---- kernel pca ----


def _has_origin(model: Any) -> bool:
    """Whether components have the centre that they are taken from."""
    coef, axes = model.component_coef_, model.axes_
    return (
        (coef is not None or axes is not None)
        and (coef is None or np.shape(model.center_coef_) == (len(coef),))
        and (coef is None or model.X_fit_ is not None)
        and (axes is None or model.origin_ is not None)
    )


class KernelPCA(Projections, KernelEstimator):
    r"""Principal components of φ(x): the directions in which the points spread most.

    With μ the weighted mean of φ over the training points, the components are the eigenvectors of
    the covariance of φ(x) − μ. Their coordinates of the training points are u√λ with (λ, u) the
    eigenpairs of the centred Gram matrix (I − U)K(I − U); of a new point x they are
    Σᵢ (u√λ⁻¹)ᵢ ⟨φ(x) − μ, φ(xᵢ) − μ⟩. Any kernel on any data will do; the linear
    kernel gives `PCA`.

    Signs are fixed: of each component the coordinate of largest modulus in training is positive.
    Components beyond the rank are 0, never NaN. Of tensors, and with
    ``mercer.config(engine="torch")``, kernel matrices are made, multiplied and decomposed on their
    device; answers are arrays.

    Parameters
    ----------
    n_components : int, float or None, default=None
        How many; more than there are points means as many as there are points. A float in (0, 1)
        asks for the least number that explains this share of the variance. None keeps every
        component with variance.
    kernel : Kernel, str or callable, default="rbf"
        The kernel; "rbf" takes its length scale from the data.
    eigen_solver : str, default="auto"
        "dense": LAPACK on the centred matrix. "subspace": block products with implicit centring,
        for the leading components; scikit-learn's "arpack" and "randomized" mean the same.
        "features": for kernels with finite features the covariance, SVD or Gram matrix of these,
        whichever is smallest. "cholesky": randomly pivoted Cholesky, K ≈ FᵀF, which never stores
        K; `approximation_error_` tells what it left out. "auto": "features" where the kernel has
        no more than twice as many features as there are points, or columns, and they fit the
        memory budget: features are centred before they are multiplied, so that points far from 0
        keep their digits. Else, where K fits, "dense" for n ≤ 320 points (2000 where a share of
        the variance is asked for), or more than n/10 components, or "subspace". Where K does not
        fit, "subspace" in tiles if `n_components` is a number and it is expected to take less than
        ten minutes, else "cholesky".
    alpha : float, default=1.0
        Penalty of the ridge regression that learns the way back. With "fixed_point", which "auto"
        takes for radial kernels, that is one of two starting points, so `alpha` hardly matters.
    fit_inverse_transform : bool, default=False
        Whether to learn the way back in `fit`.
    preimage : {"auto", "ridge", "fixed_point"}, default="auto"
        How `inverse_transform` finds a point. "ridge": the learned map, as in scikit-learn.
        "fixed_point", for radial kernels, also times and plus constants: from the learned point,
        or the training point with the nearest coordinates, whichever is better, uphill to the
        point x with φ(x) nearest. "auto": exact for the linear kernel, "fixed_point" for radial
        kernels, else "ridge". For radial kernels the fixed point is as a rule nearer to the truth;
        the ridge averages more, which helps where the training points are noisy and there are more
        components than signal. Its `alpha` matters then: choose it on held-out points.
    tol : float, default=0
        Relative residual at which "subspace" stops; 0 means 1e-9, or up to 1e-5 where the points
        are so nearly equal in feature space that rounding of the kernel values forbids 1e-9.
    max_iter : int or None, default=None
        Limit of block products of "subspace"; None means 500.
    remove_zero_eig : bool, default=False
        Whether to drop components without variance, though `n_components` asks for them.
    rank : int or None, default=None
        Pivots of "cholesky", and points that `partial_fit` may keep. None: for "cholesky" twenty a
        component and at least 200, or what fits the budget; for `partial_fit` as many as are
        needed.
    random_state : int, RandomState or None, default=None
        Starting block of "subspace" and pivots of "cholesky". None means 0: the same bits each
        time.

    Attributes
    ----------
    eigenvalues_ : array of shape (k,)
        Eigenvalues of the centred Gram matrix (with weights, of √W(I − U)K(I − U)√W), descending.
    eigenvectors_ : array of shape (n, k)
        Their vectors at the points of positive weight. After `partial_fit` points are not kept, and
        there are none.
    explained_variance_ : array of shape (k,)
        Variances of the coordinates, `eigenvalues_` over n or over the total weight.
    explained_variance_ratio_ : array of shape (k,)
        `eigenvalues_` over the trace of the whole centred matrix.
    X_fit_ : collection of m points
        The points in which components are written: training points, the pivots, or those that
        `partial_fit` keeps. None after `partial_fit` with finite features, which keeps no points;
        then `component_coef_` and `center_coef_` are None too, and `axes_` has the components.
    component_coef_, intercept_ : arrays of shape (m, k) and (k,)
        The coordinates of x are Σᵢ aᵢ k(xᵢ, x) + b, with these a and b and the points of `X_fit_`.
    center_coef_, center_norm_ : array of shape (m,), float
        The mean of φ as Σᵢ center_coef_ᵢ φ(X_fit_ᵢ), and its length.
    axes_, origin_ : arrays of shape (D, k) and (D,), or None
        Components and mean in the kernel's own finite features, where these were used.
    X_transformed_fit_ : array of shape (m, k)
        Coordinates of `X_fit_`, with ``fit_inverse_transform=True``.
    dual_coef_ : array of shape (m, d)
        The learned way back, with ``fit_inverse_transform=True``.
    approximation_error_ : float
        Variance that "cholesky" or a limited `partial_fit` left out, as a share of all, and for
        "cholesky" the rounding of the kernel values. No share of the variance is wrong by more.
        0 for the other solvers. Above a tenth `fit` warns.
    eigen_solver_ : str
        The solver used.
    plan_ : Plan
        The plan that `fit` followed.
    function_ : Function
        The coordinates as functions of the RKHS.
    solution_ : Solution
        The certificate: the largest relative residual of the eigenpairs. With "dense" and
        "subspace", ``extra["rounding"]`` is the rounding of the kernel values as a share of the
        variance, which the residual does not tell.
    kernel_ : Kernel
        The kernel with words resolved.
    n_features_in_ : int
        Columns of the training points, where they have columns.

    See Also
    --------
    PCA : The linear kernel, with scikit-learn's attributes.

    References
    ----------
    Schölkopf, Smola, Müller, Nonlinear component analysis as a kernel eigenvalue problem, Neural
    Computation 10 (1998).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RBF, KernelPCA
    >>> angle = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    >>> ring = np.column_stack([np.cos(angle), np.sin(angle)])
    >>> rings = np.vstack([ring, 4 * ring])
    >>> pca = KernelPCA(3, RBF(2.0)).fit(rings)
    >>> first = pca.transform(rings)[:, 0]
    >>> bool(first[:40].min() > first[40:].max() or first[:40].max() < first[40:].min())
    True
    >>> pca.explained_variance_ratio_.round(2)
    array([0.26, 0.16, 0.16])
    """

    _parameters = {
        "eigen_solver": checks.Word(*SOLVERS, *PEERS, says="give one of {}"),
        "tol": checks.Number(0),
        "alpha": checks.Number(0),
        "max_iter": SOME_OR_NONE,
        "rank": SOME_OR_NONE,
        "fit_inverse_transform": checks.Flag(numbers=False),
        "remove_zero_eig": checks.Flag(numbers=False),
        "preimage": checks.Word(*WORDS),
        "random_state": checks.SEED,
        "n_components": COMPONENTS,
    }
    _state = (
        {
            "kernel_": state.Anything(),
            "X_fit_": state.Spare(state.Points("m")),
            "eigenvalues_": state.Floats("n"),
            "intercept_": state.Floats("n"),
            "axes_": state.Maybe(state.Floats("D", "n")),
            "component_coef_": state.Maybe(state.Floats("m", "n")),
            "center_coef_": state.Maybe(state.Floats("m")),
            "center_norm_": state.Floats(least=0, needed=False),
            "X_transformed_fit_": state.Spare(state.Floats("m", "n")),
            "origin_": state.Spare(state.Array("D")),
        }
        | state.others("eigenvectors_", "explained_variance_", "explained_variance_ratio_")
        | state.others("dual_coef_", "inverse_kernel_", "approximation_error_", "eigen_solver_")
        | state.others("plan_", "sample_weight_", "batches_", "solution_")
        | state.INPUTS
    )
    _rules = ((state.MISFIT, _has_origin),)

    solution_: Solution
    plan_: Plan

    def __init__(
        self,
        n_components: Any = None,
        kernel: Any = "rbf",
        *,
        eigen_solver: str = "auto",
        alpha: float = 1.0,
        fit_inverse_transform: bool = False,
        preimage: str = "auto",
        tol: float = 0,
        max_iter: int | None = None,
        remove_zero_eig: bool = False,
        rank: int | None = None,
        random_state: Any = None,
    ):
        self.n_components = n_components
        self.kernel = kernel
        self.eigen_solver = eigen_solver
        self.alpha = alpha
        self.fit_inverse_transform = fit_inverse_transform
        self.preimage = preimage
        self.tol = tol
        self.max_iter = max_iter
        self.remove_zero_eig = remove_zero_eig
        self.rank = rank
        self.random_state = random_state

    # -- fitting ------------------------------------------------------------------------------
    @follows_data
    @speaks("KernelPCA")
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find the components.

        Parameters
        ----------
        X : collection of n points
            Vectors, frames, or what the kernel accepts; the Gram matrix when precomputed.
        y : None
            Ignored.
        sample_weight : float or array of shape (n,), optional
            Weights; a weight of 2 is the row given twice, 0 the row left out.

        Returns
        -------
        KernelPCA
            The fitted model itself.
        """
        with self._all_or_nothing(X):
            kernel = self._kernel()
            want = check_components(self, kernel)
            X = self._check_X(X, kernel, reset=True)
            weights = check_weights(sample_weight, kernel.domain.size(X))
            kernel = kernel.fit_params(X, weights)
            kernel.domain.check_training(X)
            lengths = check_lengths(kernel, X, underflow=True)
            positions = None if weights is None or (weights > 0).all() else np.flatnonzero(weights)
            if positions is not None and weights is not None:
                X, weights = kernel.domain.subset(X, positions), weights[positions]
                lengths = lengths[positions]
            auto = self.eigen_solver == "auto"
            study = Study(kernel, X)
            self.plan_ = followed(partial(plan_components, self), study, auto)
            found = decompose(self, Sample(kernel, X, None, weights), want, self.plan_.method)
            total = kernel.domain.size(X) if weights is None else float(weights.sum())
            if found.axes is None:  # features are centred before they are multiplied
                tell_rounding(kernel, X, lengths, found.total / total)
            self._store(kernel, found, None if weights is None else weights.copy())
            self._store_shares(found, total)
            if positions is not None:
                self.X_fit_ = kernel.domain.renumber(self.X_fit_, positions)
            self._learn_back()
            self.solution_.unwrap()
            self.plan_ = self.plan_.found(self.approximation_error_)
            if self.solution_.extra.get("pivots") == self.plan_.n_centers:  # fewer leave rounding
                warn_if_coarse(self, self.approximation_error_, "the variance")
        return self

    def _plan(self, X: Any, y: Any) -> Plan:
        study = study_of(self, X, y, targets=False, random_state=self.random_state)
        return plan_components(self, study)

    @follows_data
    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> np.ndarray:
        """Find the components and return the coordinates of the training points.

        Parameters
        ----------
        X : collection of n points
            As for `fit`.
        y : None
            Ignored.
        sample_weight : float or array of shape (n,), optional
            As for `fit`.

        Returns
        -------
        ndarray of shape (n, k)
            u√λ, with weights over √w; of rows of weight 0 as `transform` has it.
        """
        self.fit(X, sample_weight=sample_weight)
        w = self.sample_weight_
        if sample_weight is not None and not np.all(np.asarray(sample_weight) > 0):
            return self._coordinates(self._check_new(X))
        Z = self.eigenvectors_ * np.sqrt(self.eigenvalues_)
        return Z if w is None else Z / np.sqrt(w)[:, None]

    def _store(self, kernel: Kernel, found: Components, weights: np.ndarray | None) -> None:
        self.kernel_, self.sample_weight_ = kernel, weights
        self.eigenvalues_, self.eigenvectors_ = found.values, _rows(found.vectors)
        self.X_fit_ = found.points
        self.component_coef_, self.intercept_ = _rows(found.coef), found.intercept
        self.center_coef_, self.center_norm_ = found.centre, float(np.sqrt(max(0.0, found.square)))
        self.axes_, self.origin_ = _rows(found.axes), found.origin
        self.approximation_error_, self.eigen_solver_ = float(found.error), found.method
        self.solution_ = found.solution
        self.solution_.extra["approximation_error"] = float(found.error)
        self.solution_.extra["eigen_solver"] = found.method

    def _store_shares(self, found: Components, weight: float) -> None:
        self.explained_variance_ = found.values / weight
        shares = found.values / found.total if found.total > 0 else np.zeros_like(found.values)
        self.explained_variance_ratio_ = np.minimum(shares, 1.0)

    # -- batches ------------------------------------------------------------------------------
    @available_if(has_points)
    @follows_data
    @speaks("KernelPCA")
    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Take a batch of points more into the components.

        Exact for a kernel with finite features (no more than the memory budget allows a square
        matrix of): total weight, mean and scatter are brought up to date, and points are not kept.
        For other kernels the features are coordinates in the span of a growing set of points: a
        point is added to the set while its φ(x) is off the span. Without a limit `rank` the
        components are those of `fit` on all rows, to about 1e-7 of the largest. With it, the points
        without which least of the variance is lost are dropped; what all rows so far have outside
        the span is left out and counted in `approximation_error_`.

        Words of the kernel such as "median" are resolved on the first batch, and so is an alphabet
        of letters that was left out; later strings with other letters are refused. After `fit`,
        its rows are the first batch. Signs: of each component the largest weight is positive.

        Parameters
        ----------
        X : collection of points
            The batch. A precomputed kernel has no batches, and no such method: kernel values
            between batches would be unknown.
        y : None
            Ignored.
        sample_weight : float or array of shape (n,), optional
            Weights of the batch.

        Returns
        -------
        KernelPCA
            The model itself.
        """
        before = {name: vars(self)[name] for name in self._learned if name in vars(self)}
        with self._all_or_nothing(X):
            first = "eigenvalues_" not in before
            kernel = self._kernel() if first else before["kernel_"]
            want = check_components(self, kernel)
            for name in ("n_features_in_", "feature_names_in_"):
                if name in before:
                    setattr(self, name, before[name])
            X = self._check_X(X, kernel, reset=first)
            weights = check_weights(sample_weight, kernel.domain.size(X))
            kernel = kernel.fit_params(X, weights) if first else kernel
            check_lengths(kernel, X, underflow=True)
            stream = self._stream(kernel, X, before)
            stream = stream.take(kernel, X, weights, self.rank)
            found = stream.components(want)
            self._store(kernel, found, None)
            self._store_shares(found, max(stream.moments.weight, 1e-300))
            self.batches_ = stream.state()
            if self.X_fit_ is not None:
                self._learn_back()
            self.solution_.unwrap()
        return self

    @speaks("KernelPCA")
    def _stream(self, kernel: Kernel, X: Any, before: dict[str, Any]) -> Stream:
        """Return what earlier batches, or an earlier fit, have left."""
        if before.get("batches_") is not None:
            if before["axes_"] is not None:
                with speaking_for("KernelPCA.partial_fit"):
                    refuse_foreign_letters(kernel, X)
            return Stream.from_state(before["batches_"], before["X_fit_"])
        D = n_features(kernel, X)
        finite = D is not None and 32 * D * D <= get_config().memory
        stream = Stream.start(kernel, X, finite)
        if "eigenvalues_" not in before:
            return stream
        if before["eigen_solver_"] == "cholesky":
            raise InvalidInput(
                "KernelPCA.partial_fit: the pivots of eigen_solver='cholesky' do not tell the "
                "other points; begin with partial_fit, and limit the points kept with rank."
            )
        return stream.take(kernel, before["X_fit_"], before["sample_weight_"], self.rank)

    # -- scikit-learn and files ---------------------------------------------------------------
    @property
    def _n_features_out(self) -> int:
        return len(self.eigenvalues_)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return "eigenvalues_" in vars(self)


def _rows(table: np.ndarray | None) -> np.ndarray | None:
    """Return a table row by row in memory, as files keep it: the bits of a product follow it."""
    return None if table is None else np.ascontiguousarray(table)
