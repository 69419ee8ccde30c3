"""KernelDensity: the density of points, one smoothing kernel at each; on a grid, by bins."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import Any, NamedTuple, Self
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
from scipy import fft
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils.validation import check_is_fitted

from mercer import state
from mercer.checks import as_rng, check_index
from mercer.errors import InvalidInput, ModelFileError, speaks, users_level, who
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
from mercer.memory import require_memory, row_blocks
from mercer.models.density.bandwidth import (
    SMOOTHINGS,
    Bandwidth,
    Smoothing,
    as_bandwidth,
    centre_of,
    column_scales,
    smoothing,
)
from mercer.models.density.leave_one_out import best_factor, left_out
from mercer.models.density.norms import as_metric
from mercer.operators import FEW, PointsAside, fingerprint
from mercer.settings import get_config
from mercer.solvers import Cost, Solution

# ---- Densities on regular grids in one or two dimensions: linear binning and one convolution by
# FFT.
# Each point gives its weight to the corners of its cell, in proportion to its nearness (Wand
# 1994, Fast computation of multivariate kernel estimators). That is the linear interpolation of κ
# between grid points: a step of δ bandwidths costs an error of δ²/8 max|κ″| along each axis.


#: Bandwidths beyond which κ is taken for 0: below a part of 1e-15 of its peak.
REACH = {"gaussian": 8.5, "exponential": 36.0}
#: The same for the ends of a default grid: less than 1e-6 of the mass of a point is outside.
MARGIN = {"gaussian": 5.5, "exponential": 18.0}
#: Steps of a default grid to a bandwidth: an error below a thousandth of a smooth density.
FINE = {"gaussian": 16, "exponential": 16}
FINER = 32  # the same for kernels of bounded support, which are narrower
MOST = {1: 2**16, 2: 2**11}  # points along an axis of a default grid
COARSE = 0.5  # bandwidths to a step, above which values are means over cells
EVEN = 1e-6  # part of a step by which the steps of an axis may differ


class Grid(NamedTuple):
    """A density on a regular grid."""

    axes: tuple[np.ndarray, ...]
    density: np.ndarray


def on_grid(
    axes: Any,
    n_points: Any,
    kernel: Smoothing,
    bandwidth: Bandwidth,
    X: np.ndarray,
    w: np.ndarray | None,
) -> Grid:
    """Return the density of weighted rows on the axes, or on a grid that covers it."""
    d = X.shape[1]
    if d > 2:
        raise InvalidInput(
            f"{who()}: a grid in {d} dimensions has too many points; density_on_grid takes one or "
            "two columns. Use score_samples."
        )
    # The support of κ(H⁻¹·) reaches as far along axis k as the row k of H is long.
    widths = _widths(bandwidth)
    if axes is None:
        margin = MARGIN.get(kernel.name, 1.0) * widths
        finest = _scales(bandwidth) / FINE.get(kernel.name, FINER)
        lines = _default(X, margin, finest, n_points)
    else:
        if n_points is not None:
            raise InvalidInput(f"{who()}: give axes or n_points, not both.")
        lines = _checked(axes, d)
    steps = [(line[-1] - line[0]) / (len(line) - 1) for line in lines]
    _warn_of_coarse(steps, _scales(bandwidth))
    reach = REACH.get(kernel.name, 1.0)
    # Cells beyond the ends of the axes, as far as there are points there that reach them.
    outside = [_outside(line, X[:, k], reach * widths[k], steps[k]) for k, line in enumerate(lines)]
    spans = [len(line) + sum(cells) for line, cells in zip(lines, outside, strict=True)]
    taps = [
        math.ceil(min(reach * width / step, span))
        for span, width, step in zip(spans, widths, steps, strict=True)
    ]
    padded = [
        fft.next_fast_len(span + tap, real=True) for span, tap in zip(spans, taps, strict=True)
    ]
    require_memory(
        8 * 5 * math.prod(padded) + min(8 * 12 * len(X), 2**23),
        f"{who()}: the density on a grid of {' × '.join(str(len(line)) for line in lines)}",
        "Use a coarser grid",
    )
    mass = np.zeros(math.prod(padded))
    for rows in row_blocks(len(X), 8 * 12):
        before = [cells[0] for cells in outside]
        weights = np.ones(rows.stop - rows.start) if w is None else w[rows] / w.max()
        starts = [line[0] for line in lines]
        _bin(mass, X[rows], weights, starts, steps, before, spans, padded)
    mass /= len(X) if w is None else float((w / w.max()).sum())
    whole = all(tap < span for tap, span in zip(taps, spans, strict=True))
    values = _taps(kernel, bandwidth, steps, taps, padded, whole)
    if not np.isfinite(values).all():
        raise InvalidInput(
            f"{who()}: the density is beyond the range of floats; scale the columns."
        )
    smooth = fft.irfftn(fft.rfftn(mass.reshape(padded)) * fft.rfftn(values), s=padded)
    inner = tuple(
        slice(cells[0], cells[0] + len(line)) for line, cells in zip(lines, outside, strict=True)
    )
    # Rounding of the transform is of the size of the peak, also where the density is 0.
    return Grid(tuple(lines), np.maximum(smooth[inner], 0.0))


def _outside(line: np.ndarray, x: np.ndarray, reach: float, step: float) -> tuple[int, int]:
    """Return how many cells to add before and after an axis, for points that reach it."""
    gaps = (line[0] - x.min(), x.max() - line[-1])
    return tuple(math.ceil(max(0.0, min(gap, reach)) / step) for gap in gaps)  # type: ignore[return-value]


def _warn_of_coarse(steps: list[float], scales: np.ndarray) -> None:
    """Say it where a grid cannot show the density."""
    ratio = max(step / scale for step, scale in zip(steps, scales, strict=True))
    if ratio > COARSE:
        warnings.warn(
            f"{who()}: a step of the grid is {ratio:.3g} bandwidths, so that the values are means "
            "over cells rather than densities at points. Use a finer grid, or score_samples.",
            stacklevel=users_level(),
        )


def _widths(bandwidth: Bandwidth) -> np.ndarray:
    """Return how far H takes the unit ball along each axis."""
    H = np.asarray(bandwidth.value, dtype=float)
    return np.sqrt((H * H).sum(axis=1)) if H.ndim == 2 else np.broadcast_to(H, (bandwidth.d,))


def _scales(bandwidth: Bandwidth) -> np.ndarray:
    """Return the bandwidth along each axis with the other coordinates held: 1/‖H⁻¹eₖ‖."""
    H = np.asarray(bandwidth.value, dtype=float)
    if H.ndim < 2:
        return np.broadcast_to(H, (bandwidth.d,))
    inverse = np.linalg.inv(H)
    return 1.0 / np.sqrt((inverse * inverse).sum(axis=0))


def _default(
    X: np.ndarray, margin: np.ndarray, finest: np.ndarray, n_points: Any
) -> list[np.ndarray]:
    """Return axes that cover the density."""
    d = X.shape[1]
    low, high = X.min(axis=0) - margin, X.max(axis=0) + margin
    if n_points is None:
        wanted = np.ceil((high - low) / finest) + 1
        counts = [int(min(count, MOST[d])) for count in wanted]
    else:
        given = [n_points] * d if np.ndim(n_points) == 0 else list(n_points)
        if len(given) != d:
            raise InvalidInput(
                f"{who()}: n_points={n_points!r} for {d} columns; give one number or {d}."
            )
        counts = [check_index(count, "n_points", 2) for count in given]
    return [np.linspace(a, b, count) for a, b, count in zip(low, high, counts, strict=True)]


def _checked(axes: Any, d: int) -> list[np.ndarray]:
    """Return the axes that were given as arrays."""
    try:
        if d == 1 and not (isinstance(axes, list | tuple) and len(axes) == 1):
            axes = [axes]
        lines = [np.array(line, dtype=float) for line in axes]
    except (OverflowError, TypeError, ValueError):
        lines = []
    if len(lines) != d or any(line.ndim != 1 or len(line) < 2 for line in lines):
        raise InvalidInput(
            f"{who()}: axes are {d} array(s) of at least two coordinates, one for each column; "
            "such as numpy.linspace makes."
        )
    for k, line in enumerate(lines):
        gaps = np.diff(line)
        step = (line[-1] - line[0]) / len(gaps)
        if not (np.isfinite(line).all() and step > 0 and (abs(gaps - step) <= EVEN * step).all()):
            raise InvalidInput(
                f"{who()}: axis {k} is not equally spaced and ascending; make it with "
                "numpy.linspace, or use score_samples."
            )
    return lines


def _bin(
    out: np.ndarray,
    X: np.ndarray,
    weights: np.ndarray,
    starts: list[float],
    steps: list[float],
    before: list[int],
    spans: list[int],
    shape: list[int],
) -> None:
    """Add the weights that points give to the corners of their cells; others are dropped."""
    cells, parts = [], []
    for k, size in enumerate(spans):
        with np.errstate(over="ignore"):
            t = np.clip((X[:, k] - starts[k]) / steps[k] + before[k], -2.0, size + 1.0)
        below = np.floor(t)
        cells.append(below.astype(np.intp))
        parts.append(t - below)
    for corner in np.ndindex(*(2,) * len(shape)):
        index, share = np.zeros(len(X), dtype=np.intp), weights
        inside = np.ones(len(X), dtype=bool)
        for up, cell, part, span, size in zip(corner, cells, parts, spans, shape, strict=True):
            at = cell + up
            inside &= (at >= 0) & (at < span)
            index = index * size + at
            share = share * (part if up else 1.0 - part)
        out += np.bincount(index[inside], share[inside], minlength=len(out))


def _taps(
    kernel: Smoothing,
    bandwidth: Bandwidth,
    steps: list[float],
    taps: list[int],
    shape: list[int],
    whole: bool,
) -> np.ndarray:
    """Return κ at the offsets of the grid, the negative ones at the end.

    Where they are all of κ, their sum over cells is one up to the order of the error of the grid;
    made exact, no mass is lost.
    """
    offsets = [np.arange(-m, m + 1) for m in taps]
    places = np.stack(
        [
            o.ravel() * step
            for o, step in zip(np.meshgrid(*offsets, indexing="ij"), steps, strict=True)
        ],
        axis=1,
    )
    Z = bandwidth.whiten(places)
    values = kernel.heights(Z).reshape([len(o) for o in offsets])
    out = np.zeros(shape)
    out[np.ix_(*(o % size for o, size in zip(offsets, shape, strict=True)))] = values
    with np.errstate(over="ignore"):
        if not whole:
            return out * np.exp(kernel.log_normaliser(bandwidth.d) - bandwidth.log_det)
        out /= out.sum()
        for step in steps:
            out /= step
    return out


# ---- kernel density ----


KEPT = 2**22  # numbers of training points that are kept in a second form, for few queries


class _Aside:
    """Training points as few queries want them, in the coordinates of their bandwidth."""

    def __init__(self, now: tuple, frame: Any, kernel: Smoothing, bandwidth: Bandwidth):
        self.now, (_, used, w) = now, now[:3]
        self.frame = frame
        self.points = PointsAside(frame(used), w, kernel.code, frame.radius)
        self.constant = kernel.log_normaliser(bandwidth.d) - bandwidth.log_det
        self.constant -= _log_total(w, len(used))

    def __call__(self, Q: np.ndarray) -> np.ndarray:
        """Return the log densities."""
        return self.points.log_sums(self.frame(Q)) + self.constant


def _are_same(before: tuple, now: tuple) -> bool:
    """Whether parts are the same objects with the same entries."""
    return all(
        a is b or (isinstance(a, float) and a == b) for a, b in zip(before, now, strict=True)
    )


#: By model; of one that was fitted anew, or given other attributes, they are made anew.
_aside: WeakKeyDictionary[Any, _Aside] = WeakKeyDictionary()


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


def _goes_with(bandwidth: Any, kernel: Smoothing) -> bool:
    """Whether a bandwidth keeps what the kernel measures: a matrix is known up to a rotation."""
    return np.ndim(bandwidth) < 2 or kernel.metric == "euclidean"


@speaks
def _has_metric(model: Any) -> bool:
    try:
        return _goes_with(model.bandwidth_, smoothing(model.smoothing_, model._metric()))
    except InvalidInput as error:
        raise ModelFileError(f"the metric of a {who()} is none: {error}") from error


METRIC: state.Rule = ("the bandwidth of a {} does not fit its metric", _has_metric)


SCALES = 40  # bandwidths that a search looks at, as a rule


def plan_density(model: Any, X: Any, y: Any) -> Plan:
    """Return the plan of `KernelDensity`: points are kept, a bandwidth is searched if asked for."""
    # the gaussian tells the cost of any smoothing kernel
    study = study_of(model, X, y, kernel=RBF(1.0), targets=False)
    facts = study.facts
    searched = isinstance(model.bandwidth, str) and model.bandwidth == "loo"
    entries = SCALES * 0.5 * facts.n**2 if searched else 0.0
    more = facts.vectors + 16 * facts.n * facts.columns + (3 * 2**16 if searched else 0)
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
    metric : str or float, default="euclidean"
        The norm ‖u‖ of κ: "euclidean", "manhattan" (Σ|uₖ|), "chebyshev" (max |uₖ|), or a number
        p ≥ 1 for (Σ|uₖ|ᵖ)^(1/p). "product" is the product over the columns of the κ of the line,
        each of its own coordinate. In every one of them the density has integral one; that of
        scikit-learn has it in the euclidean metric alone. A matrix as bandwidth is for the
        euclidean metric. On one column they are the same.

    Attributes
    ----------
    bandwidth_ : float or array
        The bandwidth used.
    smoothing_ : str
        The name of the kernel used.
    metric_ : str or float
        The metric used, by its name here.
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

    A row of weight w is left out with all its weight, and its likelihood counts w times. Copies of
    a row stay, so that they speak for a small bandwidth: where many rows have copies, as in rounded
    data, give each place once, with its count as weight, or take a rule instead; where all have, no
    bandwidth is best and the fit is refused. Kernels of bounded support need every point within
    reach of another, so that one outlier makes their bandwidth large; the gaussian is less
    sensitive.

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
        "metric_": state.Spare(),
        "solution_": state.Spare(),
        **state.INPUTS,
    }
    _rules = (FINITE_ROWS, BANDWIDTH, METRIC)

    smoothing_: str
    metric_: str | float
    X_fit_: np.ndarray
    sample_weight_: np.ndarray | None
    bandwidth_: Any
    solution_: Solution
    n_features_in_: int

    plan = tell_plan
    _plan = plan_density

    def __init__(
        self, bandwidth: Any = "scott", kernel: Any = "gaussian", metric: Any = "euclidean"
    ):
        self.bandwidth = bandwidth
        self.kernel = kernel
        self.metric = metric

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
        with self._all_or_nothing(X):
            kernel = smoothing(self.kernel, self.metric)
            points = self._rows(X, kernel, reset=True)
            weights = check_weights(sample_weight, len(points), relative=True)
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
            if not _goes_with(self.bandwidth_, kernel):
                raise InvalidInput(
                    f"{who()}: a bandwidth matrix beside metric={self.metric!r}; it goes with "
                    "metric='euclidean'. Give a number, or one for each column."
                )
            self.smoothing_ = kernel.name
            self.metric_ = as_metric(self.metric)
            self.X_fit_ = points
            self.sample_weight_ = weights
        return self

    def _metric(self) -> Any:
        """Return the metric of the fit; files of older releases tell none."""
        metric = getattr(self, "metric_", None)
        return "euclidean" if metric is None else metric

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
        if "bandwidth_" not in vars(self):
            check_is_fitted(self)
        used, w = positive_rows(self.X_fit_, self.sample_weight_)
        kernel = smoothing(self.smoothing_, self._metric())
        return kernel, Bandwidth(self.bandwidth_, used.shape[1]), used, w

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
        given = self._fitted()
        kernel, bandwidth, used, w = given
        Q = self._rows(X, kernel, reset=False)
        alike = kernel.metric == "euclidean" or used.shape[1] == 1
        held = used is self.X_fit_ and used.size <= KEPT and 32 * used.size <= get_config().memory
        if not (alike and held) or len(Q) > FEW or get_config().engine == "torch":
            return self._log_density(Q, *given)
        known = _aside.get(self)
        marks = [fingerprint(part) for part in (used, w, self.bandwidth_)]
        now = (kernel.name, used, w, self.bandwidth_, *marks)
        if known is None or not _are_same(known.now, now):
            known = _Aside(now, bandwidth.frame(kernel, used), kernel, bandwidth)
            _aside[self] = known
        return known(Q)

    @staticmethod
    def _log_density(
        Q: np.ndarray,
        kernel: Smoothing,
        bandwidth: Bandwidth,
        used: np.ndarray,
        w: np.ndarray | None,
    ) -> np.ndarray:
        frame = bandwidth.frame(kernel, used)
        out = kernel.log_sums(Q, frame(used), w, radius=frame.radius, frame=frame)
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

        A row is left out with all its weight. Where there are no others it is −inf.

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
        name = who()
        n_samples = check_index(n_samples, "n_samples", 1)
        require_memory(
            32 * n_samples * bandwidth.d, f"{name}: {n_samples} draws", "Draw fewer at a time"
        )
        rng = as_rng(random_state, "random_state")
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
