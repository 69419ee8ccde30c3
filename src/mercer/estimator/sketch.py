"""What a few points tell of a kernel: seconds a value, eigenvalues, what centres would leave."""

from __future__ import annotations

import math
import time
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg as sla

from mercer.domains import Domain, GramRows, RowBlocks
from mercer.engines import KernelRate, kernel_rate, pick
from mercer.estimator.sample import in_double
from mercer.kernels import Kernel
from mercer.settings import get_config

SAMPLE = 400  # points of a sketch, at most
PATIENCE = 0.05  # seconds that the kernel values of a sketch may take
MAPPED = 256  # points whose features are timed
CLEAR = 1e-11  # of the largest k(z, z): below, a centre adds nothing
HELD_OUT = 4  # one point in so many of a sketch judges what the others leave
SOME_BLOCKS, SOME_ROWS = 5, 2000  # of rows in blocks that a sketch is drawn from


class Sketch:
    """The kernel on a few points: what it costs, its eigenvalues, and what centres leave of it.

    Parameters
    ----------
    kernel : Kernel
        The kernel, its words resolved.
    X : canonical collection or RowBlocks
        Points to draw from; of blocks, those of a few.
    random_state : int, default=0
        Which points.
    """

    def __init__(self, kernel: Kernel, X: Any, random_state: int = 0):
        if isinstance(X, RowBlocks):
            X = kernel.domain.check(_spread(X, random_state, kernel.domain), "X")
        self.kernel, self.X, self.seed = kernel, X, random_state

    @cached_property
    def rate(self) -> KernelRate:
        """Seconds a kernel value and a point."""
        return kernel_rate(self.kernel, self.X, self.seed)

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
        return np.random.default_rng(self.seed).permutation(n)[:s]

    @cached_property
    def points(self) -> Any:
        """Some points, in double: values of single precision have no spectrum below rounding."""
        return in_double(self.kernel.domain.take(self.X, self.index))

    @cached_property
    def gram(self) -> np.ndarray:
        """The kernel matrix of some points."""
        if isinstance(self.kernel.domain, GramRows):
            return np.asarray(self.X)[np.ix_(self.index, self.index)].astype(float)
        return self._values(self.points)

    def _values(self, A: Any, B: Any = None) -> np.ndarray:
        engine = pick(A, B)
        return np.asarray(engine.to_numpy(engine.gram(self.kernel, A, B)), dtype=float)

    @cached_property
    def _eigenvalues(self) -> np.ndarray:
        values = sla.eigh(self.gram, eigvals_only=True, check_finite=False)[::-1]
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
        first = float(sla.eigvalsh(some, check_finite=False)[0]) if half else 0.0
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
        """Return the same for these centres, at the points of the sample.

        Parameters
        ----------
        Z : canonical collection of m points
            The centres. Of more than the sample has, some are looked at.
        """
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
