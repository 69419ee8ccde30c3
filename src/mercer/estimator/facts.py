"""What is known of data before a fit: sizes, rates, and what a few points tell of the kernel."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import is_classifier

from mercer.domains import Domain, RowBlocks, to_host
from mercer.engines import KernelRate, Rates, device_of, kernel_rate, machine_rates
from mercer.errors import InvalidInput, speaks, who
from mercer.estimator.base import check_targets
from mercer.estimator.plan import Plan, needs
from mercer.estimator.rows import is_stream
from mercer.estimator.sample import check_labels, find_classes, in_double
from mercer.kernels import Kernel
from mercer.lapack import eigh
from mercer.memory import free_on
from mercer.operators import gram_of
from mercer.settings import get_config
from mercer.solvers import Cost, Facts, seconds_of
from mercer.threads import single_threaded_blas

FEWEST, PER_ROOT = 1000, 10  # default centres: at least so many, so many times √n
SHARE = 4  # the m × m matrix takes at most one part in so many of the budget
WIDE = 64  # features up to which it does not matter whether they are sparse
PROBED = 64  # points that tell how many features are zero
SPARSE = 0.1  # share of entries up to which sparse products are worth it
LOOKED_AT = 2000  # points that decide on words such as "median" in a plan
SAMPLE = 400  # points of a sketch, at most
PART, FEW = 15, 128  # one point in so many, but these, in the sketch of a fit that waits for it
PATIENCE = 0.05  # seconds that the kernel values of a sketch may take
MAPPED = 256  # points whose features are timed
CLEAR = 1e-11  # of the largest k(z, z): below, a centre adds nothing
HELD_OUT = 4  # one point in so many of a sketch judges what the others leave
SOME_BLOCKS, SOME_ROWS = 5, 2000  # of rows in blocks that a sketch is drawn from


def facts_of(kernel: Kernel, X: Any, outputs: int = 1) -> Facts:
    """Return the sizes of checked data, without computing."""
    if isinstance(X, Facts):
        return X
    if isinstance(X, RowBlocks):
        first, n = X.first(), X.n_rows
        return Facts(
            n=n,
            outputs=outputs,
            columns=X.n_columns or 0,
            stream=True,
            budget=free_on(None),
            itemsize=int(getattr(getattr(first.X, "dtype", None), "itemsize", 8)),
            block=int(np.diff((*X.cuts(), n)).max()) if X.cuts() else len(first),
        )
    shape: tuple[int, ...] = getattr(X, "shape", ())
    device = device_of(X)
    n, D = kernel.domain.size(X), kernel._n_features(X)
    return Facts(
        n=n,
        outputs=outputs,
        columns=int(shape[1]) if len(shape) == 2 else 0,
        features=D,
        given=not kernel.domain.holds_points,
        device=device,
        budget=free_on(device),
        itemsize=int(getattr(getattr(X, "dtype", None), "itemsize", 8)),
        workspace=kernel.workspace,
        stored=(12.0 * X.nnz / n + 8) if sp.issparse(X) and n else None,
        nonzeros=_nonzeros(kernel, X) if D is not None and WIDE < D < n else None,
    )


def is_sparse(kernel: Kernel, X: Any) -> bool:
    """Whether most features of the points are zero, and stored so."""
    return _nonzeros(kernel, X) is not None


def _nonzeros(kernel: Kernel, X: Any) -> int | None:
    """Return how many features are stored, from those of a few points; None where most are."""
    n = kernel.domain.size(X)
    some = np.linspace(0, n - 1, min(n, PROBED)).astype(int)
    phi = kernel._features(kernel.domain.take(X, some))
    if not sp.issparse(phi) or phi.nnz > SPARSE * phi.shape[0] * phi.shape[1]:
        return None
    return int(phi.nnz / len(some) * n)


def default_centers(n: int, budget: int | None = None) -> int:
    """Return how many centres stand for n points where nobody says: max(1000, 10√n), at most n.

    √n log n centres keep the rate at which ridge regression learns (Rudi, Camoriano, Rosasco,
    2015); ten times √n is more than that. They are cut so that the m × m matrix takes at most a
    quarter of the budget.

    Examples
    --------
    >>> from mercer.estimator.facts import default_centers
    >>> default_centers(500), default_centers(20_000), default_centers(1_000_000, 2**33)
    (500, 1415, 10000)
    """
    budget = free_on(None) if budget is None else budget
    most = math.isqrt(max(1, budget // (8 * SHARE)))
    return max(1, min(n, max(FEWEST, math.ceil(PER_ROOT * math.sqrt(n))), most))


class Study:
    """Facts of a problem, and on demand the rates of the machine and a sketch of the kernel.

    Parameters
    ----------
    kernel : Kernel
        The kernel, its words resolved.
    X : canonical collection, RowBlocks or Facts
        The data.
    outputs : int, default=1
        Columns of the target.
    random_state : int, default=0
        Which points are looked at.
    rates, sketch : optional
        What would else be measured.
    """

    def __init__(
        self,
        kernel: Kernel,
        X: Any,
        outputs: int = 1,
        *,
        random_state: int = 0,
        rates: Rates | None = None,
        sketch: Any = None,
    ):
        self.kernel, self.X, self.seed = kernel, X, random_state
        self.facts: Facts = facts_of(kernel, X, outputs)
        self._measures, self.is_hasty = True, False
        self._rates, self._sketch = rates, sketch

    def unmeasured(self) -> Study:
        """Return the same study without times and errors, which take a moment to measure."""
        other = copy(self)
        other._measures = False
        return other

    def hasty(self) -> Study:
        """Return the same study with fewer points looked at, for a fit that waits for its plan."""
        other = copy(self)
        other.is_hasty = True
        return other

    @property
    def rates(self) -> Rates | None:
        """Rates of the machine; None where nothing is to be measured."""
        if not self._measures:
            return None
        return machine_rates(self.facts.device) if self._rates is None else self._rates

    @property
    def sketch(self) -> Any:
        """The kernel on a few points; None where nothing is to be measured."""
        if not self._measures:
            return None
        if self._sketch is None:
            self._sketch = Sketch(self.kernel, self.X, self.seed)
            self._sketch.hasty = self.is_hasty
        return self._sketch

    def seconds(self, *flops: float, entries: float = 0.0, reads: float = 0.0) -> float | None:
        """Return the time of operations of products, kernel values, and bytes of a matrix."""
        return seconds_of(self.facts, self.rates, self.sketch, *flops, entries=entries, reads=reads)

    def left(self, m: int, centers: Any = None) -> float | None:
        """Return the share of the kernel's trace that m centres, or these, would leave."""
        if self.sketch is None:
            return None
        return (
            self.sketch.left(m, self.facts.n) if centers is None else self.sketch.left_by(centers)
        )

    def plan(
        self, method: str, cost: Cost, error: float | None = 0.0, n_centers: int | None = None
    ) -> Plan:
        """Return the plan of a method; as an alternative it says what it would need."""
        plan = Plan(
            method=method,
            why="",
            memory=cost.memory(self.facts.budget),
            seconds=cost.seconds,
            error=error,
            n_centers=n_centers,
            n_rows=self.facts.n,
            budget=self.facts.budget,
            owner=who(),
        )
        return replace(plan, why=needs(plan))

    def take(self, plans: Mapping[str, Plan], method: str, why: str) -> Plan:
        """Return one of the plans, with the others, those that fit first, as alternatives."""
        others = [plan for name, plan in plans.items() if name != method]
        others.sort(key=lambda plan: (not plan.fits, plan.error or 0.0))
        return replace(plans[method], why=why, alternatives=tuple(others))


@speaks
def study_of(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    kernel: Kernel | None = None,
    targets: bool = True,
    blocks: bool = False,
    random_state: Any = None,
) -> Study:
    """Return the study of data as ``fit`` of a model takes them.

    Parameters
    ----------
    model : estimator
        It notes names and numbers of columns.
    X : collection or RowBlocks
        The data.
    y : array, optional
        The target.
    kernel : Kernel, optional
        In place of that of the model.
    targets : bool, default=True
        Whether the model fits y, which is checked then.
    blocks : bool, default=False
        Whether rows may come in blocks.
    random_state : int, optional
        Which points are looked at.
    """
    stream = is_stream(X)
    if stream and not blocks:
        raise InvalidInput(
            f"{who()}: rows in blocks are for KernelRidge, KernelRidgeClassifier, "
            "KernelLogisticRegression and KernelERM; give an array."
        )
    if stream and not isinstance(X, RowBlocks):
        X, y = RowBlocks.from_dask(X, y), None
    kernel = model._kernel() if kernel is None else kernel
    if stream:
        first = next(iter(X))  # the others are alike
        points, n = first.points(kernel.domain), X.n_rows
    else:
        points = X = model._check_X(X, kernel, reset=True)
        kernel.domain.check_training(X)
        n = kernel.domain.size(X)
    kernel = _resolved(kernel, points)
    if stream and y is None:
        y = first.y
    elif y is not None and targets and is_classifier(model):
        y = check_labels(y, n)
        find_classes(y)
    elif y is not None and targets:
        y = check_targets(to_host(y), n)
    whole = isinstance(random_state, int | np.integer) and not isinstance(random_state, bool)
    seed = int(random_state) if whole else 0
    return Study(kernel, X, _outputs(model, y), random_state=seed)


def _resolved(kernel: Kernel, X: Any) -> Kernel:
    """Return the kernel with words taken from some points; that is exact enough for a plan."""
    if not kernel._asks():
        return kernel
    if kernel.domain.holds_points:
        n = kernel.domain.size(X)
        index = np.unique(np.linspace(0, n - 1, min(n, LOOKED_AT)).astype(int))
        X = kernel.domain.take(X, index)
    return kernel.fit_params(X)


def _outputs(model: Any, y: Any) -> int:
    if y is None:
        return 1
    y = np.asarray(y)
    if is_classifier(model):
        classes = len(np.unique(y))
        return classes if classes > 2 else 1
    return int(y.shape[1]) if y.ndim == 2 else 1


# ---- The kernel on a few points ----


class Sketch:
    """The kernel on a few points: what it costs, its eigenvalues, and what centres leave of it."""

    hasty = False  # whether somebody waits, so that fewer points have to do

    def __init__(self, kernel: Kernel, X: Any, random_state: int = 0):
        if isinstance(X, RowBlocks):
            X = kernel.domain.check(_spread(X, random_state, kernel.domain), "X")
        self.kernel, self.X, self.seed = kernel, X, random_state

    @cached_property
    def rate(self) -> KernelRate:
        """Seconds a kernel value and a point."""
        with self._calm():
            return kernel_rate(self.kernel, self.X, self.seed, self.hasty)

    @cached_property
    def features(self) -> float:
        """Seconds that the explicit features of a point take."""
        n = self.kernel.domain.size(self.X)
        some = self.kernel.domain.take(self.X, np.arange(min(n, MAPPED)))
        times = []
        for _ in range(2):
            start = time.perf_counter()
            self.kernel._features(some)
            times.append(time.perf_counter() - start)
        return min(times) / min(n, MAPPED)

    @cached_property
    def index(self) -> np.ndarray:
        """Positions of some points, as many as it takes a moment to compute the matrix of."""
        n = self.kernel.domain.size(self.X)
        affordable = int(math.sqrt(PATIENCE / max(self.rate.entry, 1e-12)))
        room = math.isqrt(get_config().memory // 64)  # of K, and of what is made of it
        s = max(1, min(n, SAMPLE, max(16, affordable), room))
        s = min(s, max(FEW, n // PART)) if self.hasty else s
        return np.random.default_rng(self.seed).permutation(n)[:s]

    @cached_property
    def points(self) -> Any:
        """Some points, in double: values of single precision have no spectrum below rounding."""
        return in_double(self.kernel.domain.take(self.X, self.index))

    @cached_property
    def gram(self) -> np.ndarray:
        """The kernel matrix of some points."""
        with self._calm():
            return self._values(in_double(self.kernel.domain.subset(self.X, self.index)))

    def _calm(self) -> AbstractContextManager:
        """Wake no threads of NumPy's BLAS, which would disturb what SciPy's does next."""
        return single_threaded_blas() if self.hasty else nullcontext()

    def _values(self, A: Any, B: Any = None) -> np.ndarray:
        return np.asarray(gram_of(self.kernel, A, B).to_dense(), dtype=float)

    @cached_property
    def _eigenvalues(self) -> np.ndarray:
        values = eigh(self.gram, eigvals_only=True, check_finite=False)[::-1]
        return np.maximum(values, 0.0) / len(values)

    def eigenvalue(self, rank: int, n: int) -> float:
        """Return an estimate of the eigenvalue of K, n × n, that follows the `rank` largest.

        Eigenvalues of the sample over its size stand for those of K over n; the lower half of
        them, which a sample understates, is replaced by the power law of the quarter above it.
        """
        values, half = self._eigenvalues, max(1, len(self._eigenvalues) // 2)
        if rank < half:
            return n * float(values[rank])
        top, low = float(values[half // 2]), float(values[half - 1])
        return n * _power_law(top, low, half // 2 + 1, half, rank + 1)

    def smallest(self, n: int) -> float:
        """Return an estimate of the smallest eigenvalue of K, n × n.

        That of the sample goes on by the power law of its last doubling: it stays for rough
        kernels, and falls to nothing for smooth ones.
        """
        s = len(self.gram)
        half = s // 2
        some = self.gram[:half, :half]
        first = float(eigh(some, eigvals_only=True, check_finite=False)[0]) if half else 0.0
        last = s * float(self._eigenvalues[-1])
        return min(last, _power_law(first, last, half, s, n))

    @cached_property
    def _left(self) -> np.ndarray:
        """Share of the trace at held-out points that the first j others leave, j = 0, 1, …

        Each part of the points is held out once, and the shares are averaged: those of a few points
        far from all others vary much.
        """
        K, total = self.gram, len(self.gram)
        size = max(1, total // HELD_OUT)
        turns = [np.roll(np.arange(total), -size * turn) for turn in range(min(HELD_OUT, total))]
        return np.mean([_left_by_first(K[np.ix_(i, i)], total - size) for i in turns], axis=0)

    def left(self, m: int, n: int) -> float:
        """Return an estimate of tr(K − K_XZ K_ZZ⁻¹ K_ZX)/tr K for m centres drawn from n points.

        Up to the size of the sample it is measured on points held out; beyond, it goes on by the
        power law of the sample's last doubling, which overstates what falls off faster.
        """
        return 0.0 if m >= n else _continued(self._left, m)

    def left_by(self, Z: Any) -> float:
        """Return the same for these centres, at the points of the sample."""
        domain = self.kernel.domain
        m = domain.size(Z)
        some = np.random.default_rng(self.seed).permutation(m)[: len(self.index)]
        Z, points = domain.match(in_double(domain.take(Z, some)), self.points)
        across = self._values(Z, points)
        K = np.block([[self._values(Z), across], [across.T, self.gram]])
        return _continued(_left_by_first(K, len(some)), m)


def _continued(left: np.ndarray, m: int) -> float:
    """Return what m centres leave: as measured, or by the power law of the last doubling."""
    most = len(left) - 1
    half = most // 2
    if m <= most or half < 1:
        value = float(left[min(m, most)])
    else:
        value = _power_law(float(left[half]), float(left[most]), half, most, m)
    return max(value, np.finfo(float).eps)


def _left_by_first(K: np.ndarray, cut: int) -> np.ndarray:
    """Return tr(K − L)/tr K at the points from `cut` on, L of the first j, for j = 0, …, cut.

    Cholesky in the order given, where a point that adds nothing adds no row: it cannot fail, and
    tells it for all j: k(x, x) − Σ_{i ≤ j} v_i(x)².
    """
    here = np.diagonal(K)[cut:]
    if cut < 1 or not here.sum() > 0:
        return np.ones(cut + 1)
    V = np.zeros((cut, len(K)))
    least = CLEAR * float(np.abs(np.diagonal(K)).max())
    for j in range(cut):
        row = K[j] - V[:j, j] @ V[:j]
        if row[j] > least:
            V[j] = row / math.sqrt(row[j])
    V = V[:, cut:]
    rest = np.maximum(here[None, :] - np.cumsum(V * V, axis=0), 0.0).sum(axis=1)
    return np.concatenate([[1.0], np.minimum(rest / here.sum(), 1.0)])


def _spread(X: RowBlocks, seed: int, domain: Domain) -> Any:
    """Return points of some blocks, from the first to the last: rows of a file may be sorted."""
    cuts = np.array((*X.cuts(), X.n_rows) if X.cuts() else (0, len(X.first())))
    blocks = np.unique(np.linspace(0, len(cuts) - 2, SOME_BLOCKS).astype(int))
    rng, each = np.random.default_rng(seed), SOME_ROWS // len(blocks)
    index = [cuts[i] + rng.permutation(cuts[i + 1] - cuts[i])[:each] for i in blocks]
    return X.take(np.sort(np.concatenate(index)), domain=domain)


def _power_law(first: float, last: float, a: int, b: int, at: int) -> float:
    """Return the value at `at` of c·jᵖ through (a, first) and (b, last), never rising."""
    if last <= 0 or first <= 0 or b <= a:
        return max(last, 0.0)
    slope = max(0.0, math.log(first / last) / math.log(b / a))
    return last * (b / at) ** slope
