"""Kernel ridge regression, with exact leave-one-out and intervals."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin

from mercer import checks
from mercer.domains import RowBlocks
from mercer.errors import speaks
from mercer.estimator import (
    OPTIONS,
    NumericTargets,
    Sample,
    check_targets,
    check_weights,
    kept_targets,
    r_squared,
    takes_dask,
)
from mercer.kernels import Kernel
from mercer.models.ridge.base import Ridge
from mercer.models.ridge.exact import LeastSquares
from mercer.models.ridge.left_out import as_groups, check_coverage, jackknife_plus, smoothers
from mercer.settings import get_config

CACHED = 0.25  # of the memory budget, up to which a factorisation is kept for the next call


class KernelRidge(MultiOutputMixin, RegressorMixin, Ridge):
    r"""Kernel ridge regression.

    Minimises ½ Σᵢ wᵢ(yᵢ − f(xᵢ))² + (α/2)‖f‖² over functions f in the RKHS of the kernel, that is
    f = Σ aᵢ k(xᵢ, ·) with (K + αW⁻¹) a = y.

    Cost n³/3 flops and n² memory by a factorisation; with D finite features, D < n, the primal
    problem is solved instead, nD² flops. Conjugate gradients take n² flops an iteration. With
    ``solver="falkon"`` f is sought among the combinations Σ aⱼ k(zⱼ, ·) of m centres only: nm
    kernel values an iteration, m² memory, for rows on a device, in files or on a cluster too.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        The kernel; "rbf" takes its length scale from the data.
    alpha : float, array of shape (n_outputs,) or "loo", default=1.0
        The penalty α ≥ 0. "loo" chooses it from `alphas` by the exact leave-one-out error, all of
        them from one eigendecomposition. Errors of several outputs are averaged as they are:
        give outputs in comparable units, or one penalty each.
    fit_intercept : bool, default=False
        Whether to add an offset that is not penalised.
    alphas : array-like, optional
        The penalties that ``alpha="loo"`` tries; by default 31 values from 1e-10 of the trace of
        K, below which its rounding decides, to 1e4 of its mean diagonal.
    solver : {"auto", "cholesky", "cg", "falkon"}, default="auto"
        "cholesky" factorises; "cg" is exact up to `tol` by preconditioned conjugate gradients, with
        K kept where it fits, or made anew in tiles (with D < n finite features both solve the
        primal problem); "falkon" seeks f in the span of centres. "auto" takes what `plan` finds: an
        exact method where one fits, and "falkon" where none does, or where `n_centers` or `centers`
        is given. ``alpha="loo"`` and penalties that differ need "cholesky".
    n_centers : int, optional
        Number m of centres of "falkon"; by default about 10√n, at least 1000. Not beside centres.
    centers : {"uniform", "kmeans", "rpcholesky", "leverage"} or collection, default="uniform"
        How centres are chosen, as the landmarks of `mercer.Nystroem`, or the centres; the columns
        of a frame must be those of X. Kernels with `White` take none: add its variance to alpha.
    tol : float, default=1e-6
        Relative residual at which "cg" and "falkon" stop, and gap relative to the objective.
    max_iter : int, optional
        Limit of their iterations.
    max_time : float, optional
        Limit of their time, in seconds.
    checkpoint : path, optional
        A file in which "falkon" keeps its state from time to time, and from which a fit of the
        same problem goes on.
    random_state : int, RandomState or None, default=None
        Source of centres, and of the pivots of the preconditioner of "cg".

    Attributes
    ----------
    dual_coef_ : array of shape (n,) or (n, n_outputs)
        The coefficients a, one for each of `X_fit_`.
    coef_ : array of shape (D,) or (n_outputs, D), or None
        Weights of the kernel's explicit features; None where it has no finite ones.
    intercept_ : float or array of shape (n_outputs,)
        The offset, 0 without `fit_intercept`.
    X_fit_ : collection
        The training points; the centres of a fit by "falkon".
    n_rows_ : int
        Number of training points.
    n_iter_ : int
        Iterations of the solver, 1 for a factorisation.
    plan_ : Plan
        What was planned: method, memory, why.
    kernel_ : Kernel
        The kernel with words resolved.
    alpha_ : float or array
        The penalty used.
    loo_errors_ : array or None
        Mean squared leave-one-out error for each of ``alphas_``, when ``alpha="loo"``.
    solution_ : Solution
        Certificate: relative residual of the linear system, primal and dual value, gap.
    function_ : Function
        The fitted function.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RBF, KernelRidge
    >>> X = np.linspace(0, 6, 50)[:, None]
    >>> model = KernelRidge(RBF(1.0), alpha=1e-3).fit(X, np.sin(X[:, 0]))
    >>> model.predict([[np.pi / 2]]).round(2)
    array([1.])
    """

    _parameters = OPTIONS | {"fit_intercept": checks.Flag()}
    _on_device = True

    score = r_squared

    def __init__(
        self,
        kernel: Any = "rbf",
        alpha: Any = 1.0,
        *,
        fit_intercept: bool = False,
        alphas: Any = None,
        solver: str = "auto",
        n_centers: int | None = None,
        centers: Any = "uniform",
        tol: float = 1e-6,
        max_iter: int | None = None,
        max_time: float | None = None,
        checkpoint: Any = None,
        random_state: Any = None,
    ):
        self.kernel = kernel
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.alphas = alphas
        self.solver = solver
        self.n_centers = n_centers
        self.centers = centers
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.checkpoint = checkpoint
        self.random_state = random_state

    @speaks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : collection of n points, or RowBlocks
            Vectors, frames, or what the kernel accepts; the Gram matrix when precomputed. Tensors
            are worked on where they are. `mercer.RowBlocks` bring rows that need not fit memory,
            with their targets and weights.
        y : array of shape (n,) or (n, n_outputs)
            Targets; may be left out where the blocks carry them.
        sample_weight : float or array of shape (n,), optional
            Weights; a weight of 2 is the row given twice, 0 the row left out.

        Returns
        -------
        KernelRidge
            The fitted model itself.
        """
        return self._fit(X, y, sample_weight)

    @speaks("KernelRidge")
    def _targets(self, y: Any, sample_weight: Any, X: Any, n: int, centred: bool) -> Any:
        """Return targets as numbers; those of a fit with centres stay on the device of X."""
        T = y.detach() if centred and kept_targets(y, X) else check_targets(y, n)
        return T, check_weights(sample_weight, n), None

    @speaks("KernelRidge")
    def _stream_data(self, kernel: Kernel, rows: RowBlocks) -> Sample:
        y = np.asarray(rows.first().y)
        outputs = 1 if y.ndim == 1 else y.shape[1]
        rows = rows.with_targets(NumericTargets("KernelRidge"))
        return Sample(kernel, rows, np.empty((0, outputs)), None, column=y.ndim == 1)

    @takes_dask
    def predict(self, X: Any) -> np.ndarray:
        """Return f(x) for each row of X, in tiles.

        Parameters
        ----------
        X : collection of points
            New points; when precomputed, their kernel values with the training points.
        """
        return self._decision(X)

    @speaks
    def loo(self, X: Any = None, *, groups: Any = None) -> np.ndarray:
        """Return the exact leave-one-out predictions f₋ᵢ(xᵢ) at the training points.

        yᵢ − f₋ᵢ(xᵢ) = aᵢ/(C⁻¹)ᵢᵢ with C = K + αW⁻¹: one factorisation instead of n fits. The
        kernel and α are those of the fitted model; a row is left out with all its weight. With
        `groups` a row is left out with all rows of its group S, y_S − f₋S = ((C⁻¹)_SS)⁻¹ a_S.

        Parameters
        ----------
        X : array of shape (n, n), or collection of n points, optional
            The training Gram matrix, needed again only when the kernel is precomputed; else the
            training points, if you like.
        groups : sequence of n labels, optional
            The group of each row, such as the patient that it is from.
        """
        predictions = self._loo_targets(X, groups)
        return predictions[:, 0] if self.dual_coef_.ndim == 1 else predictions

    @speaks(".predict_interval")
    def predict_interval(
        self, X: Any, coverage: float = 0.9, *, groups: Any = None, gram: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        r"""Return intervals that hold a new target with the given probability, by jackknife+.

        With f₋ᵢ the fit without row i and Rᵢ = \|yᵢ − f₋ᵢ(xᵢ)\| the interval at x reaches from the
        ⌊(1 − c)(n + 1)⌋-th smallest of f₋ᵢ(x) − Rᵢ to the ⌈c(n + 1)⌉-th smallest of f₋ᵢ(x) + Rᵢ
        (Barber, Candès, Ramdas and Tibshirani 2021). All f₋ᵢ come from one factorisation.

        If the rows and the new point are exchangeable, and kernel and penalty were not chosen with
        the same targets, the probability is at least 1 − 2(1 − c) for any kernel, penalty and
        distribution; in practice it is about c. With n + 1 < 1/(1 − c) rows no finite interval has
        that probability, and the ends are −∞ and ∞.

        Cost: one fit and leave-one-out; then about two fits for every n new points, in tiles.

        Parameters
        ----------
        X : collection of m points
            New points; when precomputed, their kernel values with the training points.
        coverage : float, default=0.9
            The probability c, 0 < c < 1.
        groups : sequence of n labels, optional
            The group of each training row: rows are left out with their groups (as in CV+), as
            rows of one group would be too well predicted by each other.
        gram : array of shape (n, n), optional
            The training Gram matrix, needed again only when the kernel is precomputed.

        Returns
        -------
        lower, upper : arrays of shape (m,) or (m, n_outputs)
            The ends; each output by itself.

        Notes
        -----
        For c < ½ the ends may cross: then the interval is empty.

        A sample weight of w counts as w rows that are left out together; scale weights that are no
        counts to a mean of 1. A row of weight 0 is no row.

        Examples
        --------
        >>> import numpy as np
        >>> from mercer import RBF, KernelRidge
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(0, 6, (100, 1))
        >>> y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(100)
        >>> model = KernelRidge(RBF(1.0), alpha=0.1).fit(X, y)
        >>> lower, upper = model.predict_interval([[2.0], [3.0]], coverage=0.8)
        >>> (upper - lower).round(1)
        array([0.3, 0.3])
        """
        c = check_coverage(coverage)
        points, f = self._check_new(X), self.predict(X)
        p = self._problem(gram, "predict_interval", "predict_interval(X, gram=K)")
        p.check_loo()
        codes = None
        if groups is not None:
            codes = as_groups(groups, p.n, self.sample_weight_)
            codes = codes if p.active is None else codes[p.active]
        f = f.reshape(len(f), -1)
        lower, upper = jackknife_plus(p, self._smoothers(p), points, f, c, codes)
        if self.dual_coef_.ndim == 1:
            return lower[:, 0], upper[:, 0]
        return lower, upper

    def _smoothers(self, p: LeastSquares) -> Any:
        """Return the smoothers; one that is small is kept until the next fit, but not in files."""
        if self._smoother_cache is not None:
            return [self._smoother_cache]
        if np.ndim(self.alpha_):
            return smoothers(p, self.alpha_)
        one = next(smoothers(p, self.alpha_))
        if one.nbytes <= CACHED * get_config().memory:
            self._smoother_cache = one
        return [one]
