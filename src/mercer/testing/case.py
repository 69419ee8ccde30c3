"""A kernel with points to judge it on: the one argument of every kernel law."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mercer.domains import GramRows, Numbers, Tables, Vectors
from mercer.engines.tiles import small_tiles
from mercer.errors import InvalidInput
from mercer.kernels import Kernel
from mercer.testing.kernel_examples import KernelExample, is_vectorial, sample_points

__all__ = ["Case", "has_torch", "small_tiles"]

N, M = 23, 9


class Case:
    """A kernel, a collection X with repeated points, and a second collection.

    Parameters
    ----------
    kernel : Kernel or KernelExample
        What is judged.
    X : collection, optional
        Points; sampled from the kernel's domain when not given.
    rng : Generator or int, default=0
        Source of the sampled points, weights and permutations.
    """

    def __init__(self, kernel: Kernel | KernelExample, X: Any = None, rng: Any = 0):
        self.rng = np.random.default_rng(rng)
        example = kernel if isinstance(kernel, KernelExample) else None
        self.kernel: Kernel = kernel.kernel if isinstance(kernel, KernelExample) else kernel
        self.given = X is not None
        self._sampler: Callable[[int, int | None], Any] = (
            (lambda n, d: example.sample(self.rng, n, d))
            if example is not None
            else (lambda n, d: sample_points(self.kernel, self.rng, n, d))
        )
        self.precomputed = isinstance(self.kernel.domain, GramRows)
        if X is not None:
            self._bank = self.kernel.domain.check(X)
        self.X = X if X is not None else self.sample(N)
        if self.precomputed:
            self._bank = self.kernel.domain.check(self.X)
        self.n = self.kernel.domain.size(self.kernel.domain.check(self.X))
        self.vectorial = is_vectorial(self.kernel) and not self.precomputed

    def sample(self, n: int, d: int | None = None) -> Any:
        """Return n points, the last of them repeating the first ones."""
        fresh = max(1, n - n // 8)
        if self.given:
            have = self.kernel.domain.size(self._bank)
            return self._take(self._bank, self.rng.integers(0, max(1, have), n))
        X = self.kernel.domain.check(self._sampler(fresh, d))
        return self._take(X, np.arange(n) % fresh)

    def _take(self, X: Any, index: np.ndarray) -> Any:
        if self.precomputed:
            return np.ascontiguousarray(X[np.ix_(index, index)])
        return self.kernel.domain.take(X, index)

    def take(self, index: Any) -> Any:
        """Return the points of X at the given positions."""
        return self._take(self.kernel.domain.check(self.X), np.asarray(index, dtype=int))

    def pair(self) -> tuple[Any, Any]:
        """Return two collections A, B to evaluate k(A, B) on."""
        if self.precomputed:
            rows = np.asarray(self._bank)[:M]
            return np.ascontiguousarray(rows), np.arange(self.n)
        return self.X, self.sample(M)

    def matrix(self) -> np.ndarray:
        """Return a random symmetric weight matrix of the size of k(X)."""
        W = self.rng.standard_normal((self.n, self.n))
        return W + W.T

    def resolved(self) -> Kernel:
        """Return the kernel with words such as "median" turned into numbers on X."""
        return self.kernel.fit_params(self.X)

    def scaled(self, X: Any, scale: float) -> Any | None:
        """Return the points multiplied by a number, or None where that leaves the domain."""
        if scale == 1.0:
            return X
        if not isinstance(self.kernel.domain, Vectors | Tables) or not isinstance(X, np.ndarray):
            return None
        if isinstance(self.kernel.domain, Numbers) and self.kernel.domain.integer:
            return None
        try:
            return self.kernel.domain.check(X * scale)
        except InvalidInput:
            return None


def has_torch() -> bool:
    """Whether torch is installed."""
    from importlib.util import find_spec

    return find_spec("torch") is not None
