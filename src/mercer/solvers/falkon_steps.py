"""What Falkon asks of the rows in a pass: right-hand sides, products, residuals, a sketch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.engines.passes.base import Scattered

__all__ = ["Products", "Residuals", "Sketch", "Targets", "columns", "like", "weigh"]

NONZEROS = 8  # of a column of the sketch


def columns(y: Any) -> Any:
    """Return targets of shape (rows, t)."""
    return y[:, None] if y.ndim == 1 else y


def like(v: Any, F: Any, xp: Any) -> Any:
    """Return a constant where F lives."""
    return v if xp is np else xp.as_tensor(v, dtype=F.dtype, device=F.device)


def weigh(w: Any, G: Any) -> Any:
    """Return the rows of G times their weights; None are ones."""
    return G if w is None else w[:, None] * G


@dataclass(frozen=True, eq=False)
class Targets:
    """G = [Wy, w] and the sums [Σw, Σwy, Σwy²] of t targets."""

    t: int

    @property
    def width(self) -> int:
        """Columns of G."""
        return self.t + 1

    @property
    def n_sums(self) -> int:
        """How many sums there are."""
        return 2 * self.t + 1

    def __call__(self, F: Any, y: Any, w: Any, xp: Any) -> tuple[Any, Any]:
        """Return G and the sums."""
        y = columns(y)
        y = y.astype(np.float64, copy=False) if xp is np else y.to(xp.float64)
        one = xp.ones_like(y[:, :1])
        stack = np.concatenate if xp is np else xp.cat
        G = stack([weigh(w, y), weigh(w, one)], 1)
        return G, stack([G[:, -1].sum()[None], G[:, :-1].sum(0), (G[:, :-1] * y).sum(0)])


@dataclass(frozen=True, eq=False)
class Products:
    """G = W(F − 1sᵀ): with s = cᵀV/Σw and c = Kᵀw, products with KᵀWK − ccᵀ/Σw."""

    shift: np.ndarray
    n_sums: int = 0

    @property
    def width(self) -> int:
        """Columns of G."""
        return len(self.shift)

    def __call__(self, F: Any, y: Any, w: Any, xp: Any) -> tuple[Any, Any]:
        """Return G and no sums."""
        G = F - like(self.shift, F, xp) if self.shift.any() else F
        return weigh(w, G), xp.zeros(0)


@dataclass(frozen=True, eq=False)
class Residuals:
    """G = W(y − F − 1bᵀ) in the given columns of y, and the sums [Σw r, ½Σw r², Σw²r², Σw²q].

    q = (y − F)² + F² + s are the squares of what r is made of, s of what cancels in F.
    """

    b: np.ndarray
    chosen: tuple[int, ...]
    spread: np.ndarray

    @property
    def width(self) -> int:
        """Columns of G."""
        return len(self.b)

    @property
    def n_sums(self) -> int:
        """How many sums there are."""
        return 4 * len(self.b)

    def __call__(self, F: Any, y: Any, w: Any, xp: Any) -> tuple[Any, Any]:
        """Return G and the sums."""
        rest = columns(y)[:, list(self.chosen)] - F
        r = rest - like(self.b, F, xp)
        G, size = weigh(w, r), rest * rest + F * F + like(self.spread, F, xp)
        size = weigh(w, weigh(w, size))
        stack = np.concatenate if xp is np else xp.cat
        return G, stack([G.sum(0), 0.5 * (G * r).sum(0), (G * G).sum(0), size.sum(0)])


@dataclass(frozen=True, eq=False)
class Sketch:
    """G = W^½ Φᵀ with a sparse sign embedding Φ of some rows, and the sums Φ√w.

    The rows of a band go, `NONZEROS` times over, to consecutive places from a random one on, each
    with a random sign; two rows of different bands so meet with the probability of independent
    places. The draws depend on the seed and on F, that is on the points of the band, so that
    neither the order of blocks nor the number of machines need be known.
    """

    size: int
    seed: int

    @property
    def width(self) -> int:
        """Columns of G."""
        return self.size

    @property
    def n_sums(self) -> int:
        """How many sums there are."""
        return self.size

    def __call__(self, F: Any, y: Any, w: Any, xp: Any) -> tuple[Any, Any]:
        """Return G and the sums."""
        values = F if xp is np else F.cpu().numpy()
        words = np.frombuffer(np.ascontiguousarray(values[:, 0]).tobytes(), np.uint32)
        rng = np.random.default_rng([self.seed, int(words.sum(dtype=np.uint64)), len(words)])
        starts = rng.integers(0, self.size, NONZEROS)
        signs = rng.choice([-1.0, 1.0], (NONZEROS, len(F))) / np.sqrt(NONZEROS)
        if w is not None:
            signs = signs * np.sqrt(np.asarray(w if xp is np else w.cpu(), dtype=np.float64))
        G = Scattered(self.size, starts, signs)
        sums = G.total()
        if xp is np:
            return G, sums
        return like(G.dense(), F, xp), like(sums, F, xp)
