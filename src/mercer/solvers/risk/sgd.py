"""Stochastic gradients over explicit features: variance-reduced ones for a fixed set of rows."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.checks import Clock, check_index, check_number
from mercer.errors import InvalidInput, NotConverged, speaking_for, speaks, users_level, who
from mercer.losses import Huber, Logistic, Loss, Squared, SquaredHinge
from mercer.operators import Diagonal
from mercer.settings import get_config
from mercer.solvers.base import IterativeSolver, Solution
from mercer.solvers.cost import Cost, Facts
from mercer.solvers.risk.smooth import CheckedSmooth, check_ratio
from mercer.solvers.risk.softmax import CheckedSoftmax

# ---- Regularised risk over explicit features: the problem, and the gap that certifies an answer.


#: Number in the compiled loops and largest curvature of every loss they know.
LOSSES: dict[type, tuple[int, float]] = {
    Logistic: (0, 0.25),
    SquaredHinge: (1, 2.0),
    Squared: (2, 1.0),
    Huber: (3, 1.0),
}


@dataclass(frozen=True, eq=False)
class FeatureERM:
    """Regularised risk of a linear function of explicit features.

    Minimise over weights v and an offset b

        Σᵢ wᵢ ℓ(yᵢ, vᵀφᵢ + b) + (alpha/2)‖v‖²,

    or, for `classes` > 2 and the logistic loss, over one weight vector a class, with
    ℓ(y, z) = log Σ_c exp z_c − z_y, the softmax.

    Parameters
    ----------
    Phi : ndarray or sparse matrix of shape (n, D)
        The features φᵢ.
    y : ndarray of shape (n,)
        Targets, as the loss wants them; class numbers 0, 1, … for `classes` > 2.
    loss : Loss
        One whose slope has a bounded slope: Logistic, SquaredHinge, Squared or Huber.
    alpha : float
        The penalty > 0.
    weights : ndarray of shape (n,), optional
        Weights w > 0; 1 by default.
    offset : bool, default=True
        Whether there is an offset.
    classes : int, default=2
        How many classes there are; more than 2 for the softmax.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.losses import Squared
    >>> from mercer.solvers import SGD, FeatureERM
    >>> problem = FeatureERM(np.eye(2), [3.0, -3.0], Squared(), alpha=2.0, offset=False)
    >>> SGD(tol=1e-12).solve(problem).value.round(4)
    array([ 1., -1.])
    """

    Phi: Any
    y: Any
    loss: Loss
    alpha: float
    weights: Any = None
    offset: bool = True
    classes: int = 2

    def checked(self, owner: str) -> CheckedFeatures:
        """Return the problem in canonical arrays, or raise `InvalidInput`.

        Parameters
        ----------
        owner : str
            Who asks; the messages begin with it.
        """
        with speaking_for(owner):
            Phi = as_features(self.Phi)
            n = Phi.shape[0]
            if n == 0:
                raise InvalidInput(f"{who()}: there are no rows; give at least one.")
            if type(self.loss) not in LOSSES:
                raise InvalidInput(
                    f"{who()}: loss={self.loss!r}; stochastic gradients need a slope whose own "
                    "slope has a bound: give Logistic(), SquaredHinge(), Squared() or Huber()."
                )
            check_number(self.alpha, "alpha", 0.0)
            check_index(self.classes, "classes", 2)
            y = as_numbers(self.y, n, "y")
            w = np.ones(n) if self.weights is None else as_numbers(self.weights, n, "weights")
            if not (w > 0).all():
                raise InvalidInput(f"{who()}: weights must be > 0; leave out rows of weight 0.")
            check_lengths(Phi, w, float(self.alpha))
            many = self.classes > 2
            if many and (
                not isinstance(self.loss, Logistic) or not np.isin(y, range(self.classes)).all()
            ):
                raise InvalidInput(
                    f"{who()}: {self.classes} classes need the logistic loss and class numbers "
                    f"0 to {self.classes - 1} as y."
                )
            alpha, offset = float(self.alpha), bool(self.offset)
            # The risks ask for no K, only for values at the rows.
            none: Any = None
            risk: Any = CheckedSmooth(none, n, y, self.loss, alpha, w, offset)
            if many:
                risk = CheckedSoftmax(none, n, y.astype(int), self.classes, alpha, w, offset)
            else:
                self.loss.value(y[:1], 0.0)  # refuses targets that the loss has no value for
            code, bend = (4, 0.5) if many else LOSSES[type(self.loss)]
            delta = float(getattr(self.loss, "delta", 1.0))
            return CheckedFeatures(Phi, y, w, alpha, offset, risk, code, bend, delta)


@dataclass(frozen=True, eq=False)
class CheckedFeatures:
    """A `FeatureERM` in canonical arrays, with what the compiled loops need to know of its loss."""

    Phi: Any
    y: np.ndarray
    w: np.ndarray
    alpha: float
    offset: bool
    risk: Any
    code: int
    bend: float
    delta: float

    @property
    def outputs(self) -> int:
        """How many values a row has."""
        return 1 if len(self.risk.shape) == 1 else self.risk.shape[1]

    def value(self, z: np.ndarray) -> float:
        """Return the risk at values z of shape (n, outputs)."""
        return self.risk.risk(z.reshape(self.risk.shape))

    def rates(self, z: np.ndarray) -> np.ndarray:
        """Return the slopes ∂ℓ/∂z, shape (n, outputs)."""
        return self.risk.rates(z.reshape(self.risk.shape)).reshape(z.shape)

    def shift(self, z: np.ndarray) -> np.ndarray:
        """Return the change of the offsets that is best for these values."""
        return np.atleast_1d(self.risk.best_offset(z.reshape(self.risk.shape)))

    def feasible(self, u: np.ndarray) -> np.ndarray:
        """Return slopes near u for which the dual value is finite."""
        return self.risk.balanced(u.reshape(self.risk.shape)).reshape(u.shape)

    def conjugate_terms(self, z: np.ndarray, u: np.ndarray) -> float:
        """Return Σ w (ℓ(z) + ℓ*(u) − u z) ≥ 0."""
        return self.risk.conjugate_terms(*(A.reshape(self.risk.shape) for A in (z, u)))


def as_features(Phi: Any) -> Any:
    """Return features as a C-ordered float64 array or a CSR matrix of float64, all finite."""
    if sp.issparse(Phi):
        Phi = sp.csr_matrix(Phi, dtype=np.float64)
        Phi.sum_duplicates()
        entries = Phi.data
    else:
        try:
            entries = Phi = np.ascontiguousarray(Phi, dtype=np.float64)
        except (OverflowError, TypeError, ValueError) as error:
            raise InvalidInput(
                f"{who()}: the features are no numbers ({error}); give an "
                "array of floats, or a sparse matrix."
            ) from error
    if Phi.ndim != 2:
        raise InvalidInput(f"{who()}: the features have shape {Phi.shape}; give (rows, columns).")
    if not np.isfinite(entries).all():
        raise InvalidInput(f"{who()}: the features hold NaN or infinity; scale the columns.")
    return Phi


def check_lengths(Phi: Any, w: np.ndarray, alpha: float) -> np.ndarray:
    """Return the rows' squared lengths k(x, x); refuse those that overflow, alone or by w/alpha."""
    with np.errstate(over="ignore"):
        squares = Phi.multiply(Phi) if sp.issparse(Phi) else Phi * Phi
        lengths = np.asarray(squares.sum(axis=1)).reshape(-1)
    if not np.isfinite(lengths).all():
        i = int(np.argmin(np.isfinite(lengths)))
        raise InvalidInput(
            f"{who()}: k(x, x) is {lengths[i]} at row {i}; the kernel overflows on these data. "
            "Scale the columns, for example with sklearn.preprocessing.StandardScaler."
        )
    check_ratio(Diagonal(lengths), w, alpha)
    return lengths


def as_numbers(values: Any, n: int, name: str) -> np.ndarray:
    """Return n finite numbers in float64, or raise `InvalidInput`."""
    try:
        out = np.asarray(values, dtype=np.float64)
    except (OverflowError, TypeError, ValueError) as error:
        raise InvalidInput(
            f"{who()}: {name} are no numbers ({error}); give {n} of them."
        ) from error
    if out.shape != (n,) or not np.isfinite(out).all():
        what = "NaN or infinity" if out.shape == (n,) else f"shape {out.shape}"
        raise InvalidInput(
            f"{who()}: {name} must be {n} finite numbers, got {what}; give one for each row."
        )
    return out


# ---- sgd ----


CHUNK = 4_000_000  # entries of rows between two looks at the clock
# A step is made longer as long as the objective falls from pass to pass, for curvatures are mostly
# less than their bounds, and shorter when it rises.
GROW, SHRINK, MOST = 1.25, 0.4, 1000.0
DENSE = 0.25  # part of all entries from which a sparse matrix is no longer treated as one


class SGD(IterativeSolver):
    r"""Solver of `FeatureERM` by stochastic gradients with reduced variance (SAGA).

    A step draws one row, replaces the slope that is remembered for it by that at the current
    weights, and goes against the sum of remembered slopes corrected by the change (Defazio, Bach
    and Lacoste-Julien 2014): a constant step, and linear convergence. Rows are drawn in proportion
    to the curvature that they may have. After every pass over the data the offset is brought to
    its optimum, all slopes are refreshed, and the duality gap is computed; it decides when to stop.

    A pass costs as much as a product with the features and its transpose, sparse ones by their
    entries. It takes about max(n, L/alpha) steps to gain a factor e, L the sum of the rows' largest
    curvatures: much less than Newton's method when there are many features, much more when alpha is
    tiny.

    Parameters
    ----------
    tol : float, default=1e-6
        Largest duality gap, relative to the objective.
    max_iter : int, default=1000
        Limit on passes over the data.
    max_time : float, optional
        Limit in seconds.
    random_state : int, Generator or RandomState, default=0
        Which rows are drawn.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.losses import Logistic
    >>> from mercer.solvers import SGD, FeatureERM
    >>> x = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    >>> solution = SGD().solve(FeatureERM(x, [-1, 1, -1, 1], Logistic(), alpha=0.1))
    >>> solution.converged, solution.value.round(2)
    (True, array([0.4]))
    """

    max_iter: int
    _shown = ("tol", "max_iter", "max_time", "random_state")

    def __init__(
        self,
        tol: float = 1e-6,
        max_iter: int = 1000,
        max_time: float | None = None,
        random_state: Any = 0,
    ):
        self.tol, self.max_iter, self.max_time = tol, max_iter, max_time
        self.random_state = random_state
        self._check_limits()

    def solve(self, problem: FeatureERM, owner: str = "SGD") -> Solution:
        """Return the weights and their certificate.

        Parameters
        ----------
        problem : FeatureERM
            The problem; nothing of it is changed.
        owner : str, default="SGD"
            Whose fit it is; messages begin with it.

        Returns
        -------
        Solution
            `value` holds the weights, shape (D,), or (D, classes) for the softmax; ``extra`` the
            ``intercept``, the values ``product`` = Φv, and ``dual_coef`` a with Φᵀa = v. `n_iter`
            counts passes, and `residual` is the gap relative to the objective.
        """
        with speaking_for(owner):
            p = problem.checked(who())
            rng = _generator(self.random_state)
            clock = Clock(self.max_time)
            state = _SagaState(p)
            found = state.judge()
            passes = 0
            while not (self._good(found) or passes >= self.max_iter or clock.late):
                before = state.V.copy(), state.b.copy(), state.a.copy()
                state.sweep(rng, clock)
                passes += 1
                now = state.judge()
                if now["primal"] <= found["primal"]:
                    found = now
                    state.step = min(state.step * GROW, MOST * state.safe)
                    continue
                # Too long a step for the curvature here. One that is safe makes progress on average
                # only, so with it a pass that rises is kept.
                if state.step > state.safe:
                    state.V, state.b, state.a = before
                    state.step = max(state.step * SHRINK, state.safe)
                    found = state.judge()
                else:
                    found = now
            return self._solution(state, found, passes)

    def _good(self, found: dict[str, float]) -> bool:
        return found["residual"] <= self.tol

    def _solution(self, state: _SagaState, found: dict[str, float], passes: int) -> Solution:
        converged = self._good(found)
        message = ""
        if not converged:
            message = (
                f"{who()}: after {passes} passes of stochastic gradients the duality gap is "
                f"{found['gap']:.3g} at a value of {found['primal']:.4g} (tolerance {self.tol:g}). "
                "Allow more passes or time, scale the columns, use a larger alpha, or Newton's "
                "method."
            )
        V, b, values, a = state.answer()
        single = V.shape[1] == 1
        return Solution(
            value=V[:, 0] if single else V,
            converged=converged,
            n_iter=passes,
            message=message,
            extra={
                "intercept": float(b[0]) if single else b,
                "product": values[:, 0] if single else values,
                "dual_coef": a[:, 0] if single else a,
            },
            **found,
        )


class _SagaState:
    """Weights V, offset b, and for every row the slopes that the next steps remember."""

    def __init__(self, p: CheckedFeatures):
        self.p, self.mean = p, np.zeros(p.Phi.shape[1])
        n, D = p.Phi.shape
        self.Phi = p.Phi
        if sp.issparse(p.Phi) and p.Phi.nnz > DENSE * n * D and 16 * n * D < get_config().memory:
            self.Phi = p.Phi.toarray()
        self.sparse = sp.issparse(self.Phi)
        if p.offset and not self.sparse:
            # Centred columns leave the weights as they are, and the offset next to nothing to do.
            self.mean = p.w @ self.Phi / p.w.sum()
            self.Phi = self.Phi - self.mean
        c = p.outputs
        self.V, self.b = np.zeros((D, c)), np.zeros(c)
        squares = self.Phi.multiply(self.Phi) if self.sparse else self.Phi * self.Phi
        bends = p.bend * p.w * (np.asarray(squares.sum(axis=1)).reshape(-1) + p.offset)
        # A row that may bend less than the mean is drawn as if it bent as much.
        bends = np.maximum(bends, max(float(bends.mean()), 1e-300))
        self.share = bends / bends.sum()
        self.edges = np.cumsum(self.share)
        self.safe = self.step = 1.0 / (3.0 * (float(bends.sum()) + p.alpha))
        self.table, self.a = np.zeros((2, n, c))

    def sweep(self, rng: np.random.Generator, clock: Clock) -> None:
        """Take as many steps as there are rows."""
        from mercer.jit import saga_dense, saga_sparse

        p = self.p
        n, c = self.table.shape
        drawn = np.searchsorted(self.edges, rng.random(n) * self.edges[-1], side="right")
        drawn = np.minimum(drawn, n - 1)
        G = np.asarray(self.Phi.T @ (p.w[:, None] * self.table))
        Gb = p.w @ self.table
        z, g = np.empty(c), np.empty(c)
        entries = (self.Phi.nnz / n + 1 if self.sparse else self.Phi.shape[1]) * c
        size = max(1, int(CHUNK / max(1.0, entries)))
        met, last = np.zeros(n, dtype=np.int64), np.zeros(len(self.V), dtype=np.int64)
        ones = np.ones(len(self.V))
        for first in range(0, n, size):
            order = drawn[first : first + size]
            common = (
                p.y, p.w, order, self.share, p.code, p.delta, p.alpha, self.step, p.offset,
                self.V, self.b, self.table, G, Gb, z, g, self.a, met,
            )  # fmt: skip
            if self.sparse:
                csr = self.Phi.data, self.Phi.indices, self.Phi.indptr
                saga_sparse(*csr, *common, last, ones)
            else:
                saga_dense(self.Phi, *common)
            if clock.late:
                return

    def judge(self) -> dict[str, float]:
        """Set the offset to its optimum, refresh all slopes, and return the certificate.

        With slopes u for which the dual is finite, primal minus dual value is
        Σ w (ℓ(z) + ℓ*(u) − uz) + ‖αv + Φᵀ(wu)‖²/2α: both parts are ≥ 0 as computed.
        """
        p = self.p
        self.values = np.asarray(self.Phi @ self.V)
        if p.offset:
            self.b = self.b + p.shift(self.values + self.b)
        z = self.values + self.b
        self.table = p.rates(z)
        self.slopes = p.feasible(self.table)
        pull = np.asarray(self.Phi.T @ (p.w[:, None] * self.slopes))
        rest = p.alpha * self.V + pull
        primal = p.value(z) + 0.5 * p.alpha * float((self.V**2).sum())
        gap = p.conjugate_terms(z, self.slopes) + float((rest**2).sum()) / (2 * p.alpha)
        dual = primal - gap
        residual = gap / max(abs(primal), abs(dual), 1e-300)
        return {"primal": primal, "dual": dual, "gap": gap, "residual": residual}

    def answer(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return weights, offsets, values without offset, and coefficients a with Φᵀa = v.

        Rows were centred: (Φ − 1μᵀ)ᵀa is Φᵀ(a − w Σa/Σw), since μ = Φᵀw/Σw.
        """
        shift, a = self.mean @ self.V, self.a
        if self.p.offset and not self.sparse:
            a = a - np.outer(self.p.w / self.p.w.sum(), a.sum(0))
        return self.V, self.b - shift, self.values + shift, a


def _generator(random_state: Any) -> np.random.Generator:
    if isinstance(random_state, np.random.RandomState):
        random_state = int(random_state.randint(2**31 - 1))
    try:
        return np.random.default_rng(0 if random_state is None else random_state)
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"{who()}: random_state={random_state!r}; give a whole number ≥ 0 or a Generator."
        ) from error


# ---- Averaged stochastic gradients for a stream: every row is seen once, and then forgotten ----


POWER = 0.4  # steps fall as t^−0.4: averages settle, and columns of small scale still get somewhere
HUGE = 1e140
# Of the rows' mean square, the offset's 1 with it, the part that must be spread around the mean;
# and how many rows it takes to say so.
SPREAD, JUDGED = 1e-3, 10


class AveragedSGD:
    r"""The state of a logistic regression on a stream of rows.

    Approaches the minimum of Σᵢ wᵢ ℓ(yᵢ, vᵀφᵢ + b) + (alpha/2)‖v‖² over all rows seen so far, with
    one step for each row, and answers with an average of its iterates in which later ones weigh
    more (Polyak and Juditsky 1992; Shamir and Zhang 2013). The step starts from the mean square of
    the features and falls with the number of rows; the penalty is a proximal step. Weights count by
    their ratios, as their sum does to alpha: n rows of weight 1/n with alpha/n are n rows of weight
    1 with alpha. A row costs what it has entries. Columns should be centred and of scale near 1:
    where the rows of the first call are nearly all mean, a warning says so.

    Parameters
    ----------
    features : int
        How many features D a row has.
    classes : int, default=2
        Two classes with targets −1 and 1, or more with class numbers 0, 1, …: the softmax.
    offset : bool, default=True
        Whether there is an offset.

    Attributes
    ----------
    coef : ndarray of shape (D,) or (D, classes)
        The averaged weights.
    intercept : float or ndarray of shape (classes,)
        The averaged offset.
    seen : int
        How many rows of positive weight it has seen.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.solvers.risk.sgd import AveragedSGD
    >>> rng = np.random.default_rng(0)
    >>> stream = AveragedSGD(2)
    >>> for _ in range(50):
    ...     X = rng.standard_normal((100, 2))
    ...     stream.update(X, np.where(X[:, 0] > 0, 1.0, -1.0), alpha=1.0)
    >>> bool(stream.coef[0] > 10 * abs(stream.coef[1]))
    True
    """

    def __init__(self, features: int, classes: int = 2, offset: bool = True):
        outputs = 1 if classes == 2 else classes
        self.classes, self.offset = classes, offset
        self.V, self.b = np.zeros((features, outputs)), np.zeros(outputs)
        self.average, self.average_b = np.zeros((features, outputs)), np.zeros(outputs)
        self.totals = np.zeros(4)  # Σw, Σw‖(φ, 1)‖², Σw², and how many rows of weight > 0

    @property
    def coef(self) -> np.ndarray:
        """The averaged weights."""
        return self.average[:, 0].copy() if self.classes == 2 else self.average.copy()

    @property
    def intercept(self) -> Any:
        """The averaged offset."""
        return float(self.average_b[0]) if self.classes == 2 else self.average_b.copy()

    @property
    def seen(self) -> int:
        """How many rows of positive weight it has seen."""
        return round(self.totals[3])

    @speaks("AveragedSGD", unless_spoken=True)
    def update(self, Phi: Any, y: Any, weights: Any = None, alpha: float = 1.0) -> None:
        """Take one step for each row, in order; rows in one call or in many make no difference.

        Phi : ndarray or sparse matrix of shape (n, D)
            Features of the new rows.
        y : array of shape (n,)
            Their targets.
        weights : array of shape (n,), optional
            Their weights ≥ 0; a row of weight 0 is no row.
        alpha : float, default=1.0
            The penalty > 0.
        """
        from mercer.jit import stream

        Phi = as_features(Phi)
        n, D = Phi.shape
        if D != len(self.V):
            raise InvalidInput(
                f"{who()}: {D} features; earlier rows had {len(self.V)}. Give the same columns, or "
                "begin another stream."
            )
        y = as_numbers(y, n, "y")
        w = np.ones(n) if weights is None else as_numbers(weights, n, "weights")
        used = w[w > 0]
        if used.size:
            there = Phi if used.size == n else Phi[w > 0]
            lengths = check_lengths(there, used, float(alpha))
            if not used.min() > 1 / HUGE:
                raise InvalidInput(
                    f"{who()}: weights down to {used.min():.3g} cannot be squared; multiply alpha "
                    "and all weights by the same number."
                )
            if not self.seen and used.size >= JUDGED:
                _warn_off_centre(there, used / used.sum(), lengths, self.offset)
        code, bend = LOSSES[Logistic] if self.classes == 2 else (4, 0.5)
        size = max(1, 2_000_000 // max(1, D))  # rows between two chances to interrupt
        for first in range(0, n, size):
            at, outputs = slice(first, first + size), len(self.b)
            part, thin = Phi[at], sp.issparse(Phi)
            if thin:
                entries = part.data, part.indices, part.indptr
            else:
                starts = D * np.arange(len(part) + 1, dtype=np.int32)
                entries = part.reshape(-1), np.empty(0, dtype=np.int32), starts
            stream(
                *entries, thin, y[at], w[at], code, bend, float(alpha), POWER, self.offset,
                self.V, self.b, self.average, self.average_b, self.totals,
                np.empty(outputs), np.empty(outputs),
            )  # fmt: skip
        if not (np.isfinite(self.average).all() and np.isfinite(self.totals).all()):
            raise InvalidInput(f"{who()}: the weights overflow; scale the columns.")


def _warn_off_centre(Phi: Any, share: np.ndarray, lengths: np.ndarray, offset: bool) -> None:
    """Warn where steps, set by the lengths of rows, are too short for what rows differ in."""
    mean = np.asarray(share @ Phi)
    square = float(share @ lengths)
    length, spread = square + offset, square - float(mean @ mean)
    if 0 < length and spread < SPREAD * length:
        warnings.warn(
            f"{who()}: the columns are off centre or tiny: of the mean square of the rows, "
            f"{length:.3g}{' with the 1 of the offset' if offset else ''}, only "
            f"{max(0.0, spread):.1g} is spread around their mean, so a stream learns next to "
            "nothing. Centre the columns and scale them to 1, for example with "
            "sklearn.preprocessing.StandardScaler.",
            NotConverged,
            stacklevel=users_level(),
        )


# ---- What it costs ----


PASSES = 30  # of stochastic gradients over the rows, as a rule
FLOPS = 5e8  # operations a second of a loop over single rows


def sgd_cost(facts: Facts, sketch: Any = None) -> Cost:
    """The features of all rows, and passes over them."""
    n, D = facts.n, facts.features or 0
    stored = 8 * n * D if facts.nonzeros is None else 12 * facts.nonzeros
    work = 6.0 * PASSES * stored / 8 * facts.outputs
    seconds = None if sketch is None else n * sketch.features + work / FLOPS
    return Cost(stored, seconds, stored + facts.vectors)
