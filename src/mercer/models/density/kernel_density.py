"""KernelDensity: the density of points, one smoothing kernel at each of them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils.validation import check_is_fitted

from mercer import state
from mercer.errors import InvalidInput, ModelFileError, speaks, who
from mercer.estimator import (
    ONLY,
    Plan,
    TakesKernel,
    check_weights,
    follows_data,
    study_of,
    tell_plan,
)
from mercer.kernels import RBF
from mercer.memory import require_memory
from mercer.models.density.bandwidth import (
    SMOOTHINGS,
    Bandwidth,
    Smoothing,
    as_bandwidth,
    centre_of,
    column_scales,
    smoothing,
)
from mercer.models.density.grid import Grid, on_grid
from mercer.models.density.leave_one_out import best_factor, left_out
from mercer.models.gp import as_rng
from mercer.operators import log_sums
from mercer.solvers import Cost, Solution, check_index

# ---- Rows that a density keeps: read from the user, and looked at again when read from a file ----


def dense_rows(X: Any) -> np.ndarray:
    """Return checked rows as an array; sparse ones are made dense, if the budget allows."""
    if not sp.issparse(X):
        return X
    require_memory(
        8 * X.shape[0] * X.shape[1],
        f"{who()}: the dense rows of a sparse X",
        "Reduce the columns first",
    )
    return np.ascontiguousarray(X.toarray())


def positive_rows(X: np.ndarray, w: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the rows of positive weight, and these weights."""
    if w is None or (w > 0).all():
        return X, w
    return X[w > 0], w[w > 0]


# ---- kernel density ----


@speaks
def _has_bandwidth(model: Any) -> bool:
    bandwidth = model.bandwidth_
    try:
        if isinstance(bandwidth, str):
            raise InvalidInput("a word")
        as_bandwidth(bandwidth, model.X_fit_, None)
    except InvalidInput as error:
        raise ModelFileError(f"the bandwidth of a {who()} is none: {error}") from error
    return True


NO_KERNEL = "the kernel of a {} is none"
#: The weights of rows that are kept.
WEIGHTS = state.Maybe(state.Weights("n", says="the weights of a {} do not fit its points"))
#: The rows that a smoothing kernel is put on.
ROWS: state.State = {
    "X_fit_": state.Doubles("n", "d", finite=False, says="the points of a {} are damaged"),
    "sample_weight_": WEIGHTS,
}
FINITE_ROWS: state.Rule = (
    "the points of a {} are not finite",
    lambda model: np.isfinite(model.X_fit_).all(),
)
BANDWIDTH: state.Rule = (state.MISFIT, _has_bandwidth)


SCALES = 40  # bandwidths that a search looks at, as a rule


def plan_density(model: Any, X: Any, y: Any) -> Plan:
    """Return the plan of `KernelDensity`: points are kept, a bandwidth is searched if asked for."""
    # the gaussian tells the cost of any smoothing kernel
    study = study_of(model, X, y, kernel=RBF(1.0), targets=False)
    facts = study.facts
    searched = isinstance(model.bandwidth, str) and model.bandwidth == "loo"
    entries = SCALES * 0.5 * facts.n**2 if searched else 0.0
    more = facts.vectors + 16 * facts.n * facts.columns + (2**18 if searched else 0)
    time = study.seconds(entries=entries, reads=100.0 * facts.n)
    plan = study.plan("direct", Cost(8 * facts.n * facts.columns, time, more))
    how = "Points are kept; a density takes a kernel value for each."
    if searched:
        how = "A bandwidth is searched with all pairs of points."
    return replace(plan, why=f"{ONLY} {how}")


class KernelDensity(DensityMixin, TakesKernel, BaseEstimator):
    r"""Kernel density estimate.

    The density at x is

        p(x) = Σᵢ wᵢ κ(H⁻¹(x − xᵢ)) / (|H| Σᵢ wᵢ)

    with a smoothing kernel κ(u), a function of ‖u‖ of integral one in as many dimensions as there
    are columns, and a bandwidth H. Everything is computed with logarithms and in tiles: no n × m
    matrix is stored. Of tensors, and with ``mercer.config(engine="torch")``, it is computed on
    their device; answers are arrays.

    Parameters
    ----------
    bandwidth : float, array of shape (d,) or (d, d), "scott", "silverman" or "loo", default="scott"
        H: a number, one number a column, or a symmetric positive definite matrix, of which the
        square HHᵀ is the covariance of the gaussian. "scott" and "silverman" take the standard
        deviation of each column times n^(−1/(d+4)) or (n(d+2)/4)^(−1/(d+4)), the rules for the
        gaussian, over the standard deviation of a coordinate of κ, which is 1 for the gaussian: so
        all kernels smooth as widely as it does. n is the number of rows; a weight of 2 counts for
        two, and of weights below 1 it is the effective number (Σw)²/Σw². "loo" finds the multiple
        of the standard deviations at which the leave-one-out likelihood is largest.
    kernel : str, default="gaussian"
        κ: "gaussian", "epanechnikov", "tophat", "triangular" (or "linear"), "biweight", "cosine",
        or "exponential". With a number as bandwidth it is scikit-learn's kernel of that name, but
        for "cosine" in an even number of columns, where scikit-learn's does not integrate to one.
        Points at a distance of exactly one bandwidth are outside of a bounded support, as they are
        there; with one bandwidth a column, or a matrix, rounding decides about such points.

    Attributes
    ----------
    bandwidth_ : float or array
        The bandwidth used.
    smoothing_ : str
        The name of the kernel used.
    X_fit_ : array of shape (n, d)
        The training points.
    sample_weight_ : array of shape (n,) or None
        Their weights.
    solution_ : Solution
        With bandwidth="loo": the factor found, the slope of the mean log-likelihood by the
        logarithm of the factor as `residual` (for "tophat", whose likelihood jumps, by how much it
        may be larger elsewhere), and that mean in ``extra["score"]``.

    Notes
    -----
    With bandwidth="loo" the range that holds all maxima is searched: a grid of factors, of steps of
    at most 1.5, and then the maximum in every step in which there is one, of which the largest is
    taken. With a kernel of bounded support the likelihood has a kink at every distance between
    points; the grid is finer, and maxima that differ by little may be missed.

    Of a row of weight w one copy is left out (all of it, where w ≤ 1), and its likelihood counts w
    times. Copies of a row stay, so that they speak for a small bandwidth: where many rows have
    copies, as in rounded data, take a rule instead; where all have, no bandwidth is best and the
    fit is refused. Kernels of bounded support need every point within reach of another, so that one
    outlier makes their bandwidth large; the gaussian is less sensitive.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelDensity
    >>> X = np.random.default_rng(0).standard_normal((500, 1))
    >>> model = KernelDensity("loo").fit(X)
    >>> np.exp(model.score_samples([[0.0], [3.0]])).round(2)
    array([0.37, 0.01])
    >>> model.sample(3, random_state=0).shape
    (3, 1)
    """

    _state = {
        "smoothing_": state.Words(*SMOOTHINGS, says=NO_KERNEL),
        **ROWS,
        "bandwidth_": state.Anything(),
        "solution_": state.Spare(),
        **state.INPUTS,
    }
    _rules = (FINITE_ROWS, BANDWIDTH)

    smoothing_: str
    X_fit_: np.ndarray
    sample_weight_: np.ndarray | None
    bandwidth_: Any
    solution_: Solution
    n_features_in_: int

    plan = tell_plan
    _plan = plan_density

    def __init__(self, bandwidth: Any = "scott", kernel: Any = "gaussian"):
        self.bandwidth = bandwidth
        self.kernel = kernel

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = False
        tags.input_tags.sparse = True
        return tags

    @follows_data
    @speaks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Keep the points, and find the bandwidth.

        Parameters
        ----------
        X : array of shape (n, d)
            Points; sparse rows are made dense.
        y : ignored
            There are no targets.
        sample_weight : float or array of shape (n,), optional
            Weights; a weight of 2 is the row given twice, 0 the row left out.

        Returns
        -------
        KernelDensity
            The fitted model itself.
        """
        with self._all_or_nothing():
            kernel = smoothing(self.kernel)
            points = self._rows(X, kernel, reset=True)
            weights = check_weights(sample_weight, len(points))
            used, w = positive_rows(points, weights)
            if isinstance(self.bandwidth, str) and self.bandwidth == "loo":
                scales, _ = column_scales(used, w, "loo")
                units = Bandwidth(scales, used.shape[1])
                Z = units.whiten(used, centre_of(used))
                self.solution_ = best_factor(Z, w, kernel, units.log_det)
                found: Any = self.solution_.unwrap() * scales
                self.bandwidth_ = float(found[0]) if len(found) == 1 else found
            else:
                self.bandwidth_ = as_bandwidth(self.bandwidth, used, w, kernel).value
            self.smoothing_ = kernel.name
            self.X_fit_ = points
            self.sample_weight_ = weights
        return self

    # -- data ---------------------------------------------------------------------------------
    @speaks
    def _rows(self, X: Any, kernel: Any, *, reset: bool) -> np.ndarray:
        """Return points as rows of their own."""
        Z = self._check_X(X, kernel, reset=reset)
        dense = dense_rows(Z)
        return Z.copy() if reset and dense is Z else dense

    @speaks
    def _fitted(self) -> tuple[Smoothing, Bandwidth, np.ndarray, np.ndarray | None]:
        """Return kernel, bandwidth, and the rows that count with their weights."""
        check_is_fitted(self)
        used, w = positive_rows(self.X_fit_, self.sample_weight_)
        return smoothing(self.smoothing_), Bandwidth(self.bandwidth_, used.shape[1]), used, w

    # -- answers ------------------------------------------------------------------------------
    @follows_data
    def score_samples(self, X: Any) -> np.ndarray:
        """Return the logarithm of the density at each row of X.

        Far from all points the gaussian's is a large negative number; outside the support of the
        other kernels it is −inf.

        Parameters
        ----------
        X : array of shape (m, d)
            New points.
        """
        kernel, bandwidth, used, w = self._fitted()
        return self._log_density(self._rows(X, kernel, reset=False), kernel, bandwidth, used, w)

    @staticmethod
    def _log_density(
        Q: np.ndarray,
        kernel: Smoothing,
        bandwidth: Bandwidth,
        used: np.ndarray,
        w: np.ndarray | None,
    ) -> np.ndarray:
        frame = bandwidth.frame(kernel, used)
        out = log_sums(Q, frame(used), w, kernel.code, radius=frame.radius, frame=frame)
        out += kernel.log_normaliser(bandwidth.d) - bandwidth.log_det - _log_total(w, len(used))
        return out

    @follows_data
    def score(self, X: Any, y: Any = None) -> float:
        """Return the log-likelihood of new points: the sum of their log densities.

        Parameters
        ----------
        X : array of shape (m, d)
            New points.
        y : ignored
            There are no targets.
        """
        return float(np.sum(self.score_samples(X)))

    @speaks
    def loo(self) -> np.ndarray:
        """Return the log density at each training point by the others.

        A row of weight w leaves one of its w copies out (all of it, where w ≤ 1), so the others
        stay. Where there are no others it is −inf.

        Returns
        -------
        array of shape (n,)
            What `score_samples` would say had the row not been there.
        """
        kernel, bandwidth, used, w = self._fitted()
        out = np.empty(len(self.X_fit_))
        counted = (
            np.ones(len(out), bool) if self.sample_weight_ is None else self.sample_weight_ > 0
        )
        frame = bandwidth.frame(kernel, used)
        logs = left_out(frame(used), w, kernel, frame.radius)
        out[counted] = logs - frame.unit.log_det
        if not counted.all():
            rows = self.X_fit_[~counted]
            out[~counted] = self._log_density(rows, kernel, bandwidth, used, w)
        return out

    @speaks
    def sample(self, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Return points drawn from the density: a training point, and a draw of κ around it.

        Parameters
        ----------
        n_samples : int, default=1
            How many.
        random_state : int, Generator, RandomState or None, default=None
            Source of randomness.

        Returns
        -------
        array of shape (n_samples, d)
            The points, as rows.
        """
        kernel, bandwidth, used, w = self._fitted()
        name = type(self).__name__
        n_samples = check_index(n_samples, "n_samples", 1)
        require_memory(
            32 * n_samples * bandwidth.d, f"{name}: {n_samples} draws", "Draw fewer at a time"
        )
        rng = as_rng(random_state)
        chosen = rng.choice(len(used), size=n_samples, p=None if w is None else _shares(w))
        drawn = bandwidth.spread(kernel.sample(rng, n_samples, bandwidth.d))
        drawn += used[chosen]
        return drawn

    @speaks
    def density_on_grid(self, axes: Any = None, *, n_points: Any = None) -> Grid:
        """Return the density on a regular grid, for one or two columns.

        Points are shared out among their neighbours on the grid (linear binning), and the kernel is
        summed by the fast Fourier transform: the cost hardly depends on the number of points. With
        steps of δₖ bandwidths along each axis the error for the gaussian kernel is at most Σₖ δₖ²/8
        of the peak of κ, and below a thousandth of that of the density on a default grid that is as
        fine as it wants to be; so it is for "biweight". Kernels with a kink or a tip have errors of
        the order of δ times a single point's share there, and "tophat" of that share at its rim. A
        warning tells of steps above half a bandwidth: values are then means over cells, rather
        than at points. The sum of the values times the area of a cell is one where the grid covers
        all of the density.

        Parameters
        ----------
        axes : array, or sequence of d arrays, optional
            Equally spaced coordinates, ascending, one array for each column; by default a grid that
            covers all of the density.
        n_points : int or sequence of d ints, optional
            Points along each axis of the default grid; by default so many that a step is a 16th of
            a bandwidth (a 32nd where the support of κ is bounded), up to 65536 along one axis and
            2048 along each of two.

        Returns
        -------
        Grid
            A pair (axes, density): a tuple of d arrays, and an array of as many dimensions.
        """
        kernel, bandwidth, used, w = self._fitted()
        return on_grid(axes, n_points, kernel, bandwidth, used, w)


def _shares(w: np.ndarray) -> np.ndarray:
    """Return weights of sum one; the sum of huge ones is no number."""
    share = w / w.max()
    return share / share.sum()


def _log_total(w: np.ndarray | None, n: int) -> float:
    """Return the logarithm of the sum of the weights, by default n."""
    if w is None:
        return math.log(n)
    return math.log(float(w.max())) + math.log(float((w / w.max()).sum()))
