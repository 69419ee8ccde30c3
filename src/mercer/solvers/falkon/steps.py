"""What Newton's method asks of the rows in a pass: slopes, products with curvatures, risks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.domains import beside, is_torch, to_host
from mercer.engines.passes import RowSquares, Scattered
from mercer.losses import Logistic, Loss
from mercer.solvers.risk import log_softmax

# ---- What Falkon asks of the rows in a pass: right-hand sides, products, residuals, a sketch ----


NONZEROS = 8  # of a column of the sketch


def columns(y: Any) -> Any:
    """Return targets of shape (rows, t)."""
    return y[:, None] if y.ndim == 1 else y


def like(v: Any, F: Any) -> Any:
    """Return a constant where F lives."""
    return beside(v, F) if is_torch(F) else v


def weigh(w: Any, G: Any) -> Any:
    """Return the rows of G times their weights; None are ones."""
    return G if w is None else w[:, None] * G


class RowStep:
    """What a pass makes of the values at the rows: G of `width` columns, and `n_sums` sums."""

    sizes: Any

    @property
    def width(self) -> int:
        """Columns of G."""
        return int(self.sizes[0])

    @property
    def n_sums(self) -> int:
        """How many sums there are."""
        return int(self.sizes[1])


@dataclass(frozen=True, eq=False)
class RightSides(RowStep):
    """G = [Wy, w] and the sums [Σw, Σwy, Σwy²] of t targets."""

    t: int

    @property
    def sizes(self) -> tuple[int, int]:
        """Columns of G, and sums."""
        return self.t + 1, 2 * self.t + 1

    def __call__(self, F: Any, y: Any, w: Any, xp: Any) -> tuple[Any, Any]:
        """Return G and the sums."""
        y = xp.asarray(columns(y), dtype=xp.float64)
        one = xp.ones_like(y[:, :1])
        G = xp.concatenate([weigh(w, y), weigh(w, one)], 1)
        return G, xp.concatenate([G[:, -1].sum()[None], G[:, :-1].sum(0), (G[:, :-1] * y).sum(0)])


@dataclass(frozen=True, eq=False)
class NormalSides(RightSides):
    """G = [WK, Wy, w], so that KᵀG begins with KᵀWK, and the sums of `RightSides`.

    With L the first columns are WKL⁻ᵀ, and KᵀG begins with L⁻¹KᵀWKL⁻ᵀ. `squares` is the precision
    in which these are multiplied and added up.
    """

    m: int
    lower: np.ndarray | None = None
    squares: Any = np.float64

    @property
    def sizes(self) -> tuple[int, int]:
        """Columns of G, and sums."""
        width, n_sums = RightSides(self.t).sizes
        return self.m + width, n_sums

    def __call__(self, F: Any, y: Any, w: Any, xp: Any) -> tuple[Any, Any]:
        """Return G and the sums."""
        G, sums = RightSides(self.t)(F, y, w, xp)
        return RowSquares(w, G, self.lower), sums


@dataclass(frozen=True, eq=False)
class Products(RowStep):
    """G = W(F − 1sᵀ): with s = cᵀV/Σw and c = Kᵀw, products with KᵀWK − ccᵀ/Σw."""

    shift: np.ndarray

    @property
    def sizes(self) -> tuple[int, int]:
        """Columns of G, and no sums."""
        return len(self.shift), 0

    def __call__(self, F: Any, y: Any, w: Any, xp: Any) -> tuple[Any, Any]:
        """Return G and no sums."""
        G = F - like(self.shift, F) if self.shift.any() else F
        return weigh(w, G), xp.zeros(0)


@dataclass(frozen=True, eq=False)
class Residuals(RowStep):
    """G = W(y − F − 1bᵀ) in the given columns of y, and the sums [Σw r, ½Σw r², Σw²r², Σw²q].

    q = (y − F)² + F² + s are the squares of what r is made of, s of what cancels in F.
    """

    b: np.ndarray
    chosen: tuple[int, ...]
    spread: np.ndarray

    @property
    def sizes(self) -> tuple[int, int]:
        """Columns of G, and sums."""
        return len(self.b), 4 * len(self.b)

    def __call__(self, F: Any, y: Any, w: Any, xp: Any) -> tuple[Any, Any]:
        """Return G and the sums."""
        rest = columns(y)[:, list(self.chosen)] - F
        r = rest - like(self.b, F)
        G, size = weigh(w, r), rest * rest + F * F + like(self.spread, F)
        size = weigh(w, weigh(w, size))
        return G, xp.concatenate([G.sum(0), 0.5 * (G * r).sum(0), (G * G).sum(0), size.sum(0)])


@dataclass(frozen=True, eq=False)
class RowSketch(RowStep):
    """G = W^½ Φᵀ with a sparse sign embedding Φ of some rows, and the sums Φ√w.

    The rows of a band go, `NONZEROS` times over, to consecutive places from a random one on, each
    with a random sign; two rows of different bands so meet with the probability of independent
    places. The draws depend on the seed and on F, that is on the points of the band, so that
    neither the order of blocks nor the number of machines need be known.
    """

    size: int
    seed: int

    @property
    def sizes(self) -> tuple[int, int]:
        """Columns of G, and sums."""
        return self.size, self.size

    def __call__(self, F: Any, y: Any, w: Any, xp: Any) -> tuple[Any, Any]:
        """Return G and the sums."""
        words = np.frombuffer(np.ascontiguousarray(to_host(F)[:, 0]).tobytes(), np.uint32)
        rng = np.random.default_rng([self.seed, int(words.sum(dtype=np.uint64)), len(words)])
        starts = rng.integers(0, self.size, NONZEROS)
        signs = rng.choice([-1.0, 1.0], (NONZEROS, len(F))) / np.sqrt(NONZEROS)
        if w is not None:
            signs = signs * np.sqrt(np.asarray(to_host(w), dtype=np.float64))
        G = Scattered(self.size, starts, signs)
        return (like(G.dense(), F) if is_torch(F) else G), like(G.total(), F)


# ---- falkon risks ----


@dataclass(frozen=True, eq=False)
class Separate:
    """A loss of one value for each of t targets, or for the chosen ones of them."""

    loss: Loss
    chosen: tuple[int, ...]
    coupled = False

    @property
    def t(self) -> int:
        """How many values a row has."""
        return len(self.chosen)

    def parts(self, f: Any, y: Any, xp: Any) -> tuple[Any, Any, Any]:
        """Return the losses, their slopes and curvatures, each of the shape of f."""
        y = columns(y)[:, list(self.chosen)]
        if xp is np:
            loss = self.loss
            return loss.value(y, f), loss.gradient(y, f), loss.curvature(y, f)
        if type(self.loss) is Logistic:
            y = y.to(f.dtype)
            slope = xp.sigmoid(-y * f)
            return xp.nn.functional.softplus(-y * f), -y * slope, slope * xp.sigmoid(y * f)
        found = self.parts(to_host(f), to_host(y)[:, self._back()], np)
        return tuple(like(part, f) for part in found)  # type: ignore[return-value]

    def _back(self) -> list[int]:
        """Return the columns that put the chosen ones where `parts` looks for them."""
        back = [0] * (max(self.chosen) + 1)
        for place, column in enumerate(self.chosen):
            back[column] = place
        return back

    def bend(self, f: Any, v: Any, y: Any, xp: Any) -> Any:
        """Return the second derivatives at f times v."""
        return self.parts(f, y, xp)[2] * v


@dataclass(frozen=True, eq=False)
class Softmax:
    """−log of the probability of the class of a row, y a number from 0 to t − 1."""

    t: int
    coupled = True

    def parts(self, f: Any, y: Any, xp: Any) -> tuple[Any, Any, Any]:
        """Return the losses in the first column, the slopes p − [class] and p(1 − p)."""
        label = columns(y)[:, 0]
        if xp is np:
            log_p, at = log_softmax(f), (np.arange(len(f)), label.astype(np.intp))
        else:
            log_p, at = xp.log_softmax(f, 1), (xp.arange(len(f), device=f.device), label.long())
        p = xp.exp(log_p)
        value, slope = xp.zeros_like(f), 1.0 * p
        value[:, 0] = -log_p[at]
        slope[at] -= 1.0
        return value, slope, p * (1.0 - p)

    def bend(self, f: Any, v: Any, y: Any, xp: Any) -> Any:
        """Return the second derivatives at f times v: p∘v − p(pᵀv)."""
        p = np.exp(log_softmax(f)) if xp is np else xp.softmax(f, 1)
        pv = p * v
        return pv - p * pv.sum(1)[:, None]


@dataclass(frozen=True, eq=False)
class Slopes(RowStep):
    """G = [Wℓ′, Wℓ″] at F + b and the sums [Σwℓ, Σwℓ′, Σwℓ″, Σwℓ′², Σw]; with w too, the last."""

    risk: Any
    b: np.ndarray
    weights: bool = False

    @property
    def sizes(self) -> tuple[int, int]:
        """Columns of G, and sums."""
        return 2 * self.risk.t + int(self.weights), 4 * self.risk.t + 1

    def __call__(self, F: Any, y: Any, w: Any, xp: Any) -> tuple[Any, Any]:
        """Return G and the sums."""
        value, slope, bend = self.risk.parts(F + like(self.b, F), y, xp)
        one = weigh(w, xp.ones_like(F[:, :1]))
        G = xp.concatenate([weigh(w, slope), weigh(w, bend)] + ([one] if self.weights else []), 1)
        t = self.risk.t
        sums = (weigh(w, value), G[:, :t], G[:, t : 2 * t], G[:, :t] * slope, one)
        return G, xp.concatenate([part.sum(0) for part in sums])


@dataclass(frozen=True, eq=False)
class Bends(RowStep):
    """G = W(ℓ″ + damp)(Fv + shift) with ℓ″ at Fa + b, where F = [Fa, Fv], and the sums of G."""

    risk: Any
    b: np.ndarray
    shift: np.ndarray
    damp: np.ndarray

    @property
    def sizes(self) -> tuple[int, int]:
        """Columns of G, and sums."""
        return self.risk.t, self.risk.t

    def __call__(self, F: Any, y: Any, w: Any, xp: Any) -> tuple[Any, Any]:
        """Return G and the sums."""
        t = self.risk.t
        v = F[:, t:] + like(self.shift, F)
        G = self.risk.bend(F[:, :t] + like(self.b, F), v, y, xp)
        if self.damp.any():
            G = G + like(self.damp, F) * v
        G = weigh(w, G)
        return G, G.sum(0)


@dataclass(frozen=True, eq=False)
class CurvedSides(RowStep):
    """G = [DK, d] with d = w(ℓ″ + damp) at F + b, D = diag(d), of one target, and the sum Σd.

    So KᵀG begins with KᵀDK, or with L⁻¹KᵀDKL⁻ᵀ, as of `NormalSides`.
    """

    risk: Any
    b: np.ndarray
    damp: np.ndarray
    m: int
    lower: np.ndarray | None = None
    squares: Any = np.float64

    @property
    def sizes(self) -> tuple[int, int]:
        """Columns of G, and sums."""
        return self.m + 1, 1

    def __call__(self, F: Any, y: Any, w: Any, xp: Any) -> tuple[Any, Any]:
        """Return G and the sum."""
        bend = self.risk.parts(F + self.b, y, xp)[2] + self.damp
        d = weigh(w, np.maximum(bend, 0.0))
        return RowSquares(d[:, 0], d, self.lower), d.sum(0)


@dataclass(frozen=True, eq=False)
class Lengths(RowStep):
    """The sums Σwℓ at Fa + b + s(Fd + db) for some lengths s of a step, F = [Fa, Fd]; no G."""

    risk: Any
    b: np.ndarray
    db: np.ndarray
    lengths: tuple[float, ...]

    @property
    def sizes(self) -> tuple[int, int]:
        """No columns, and sums."""
        return 0, self.risk.t * len(self.lengths)

    def __call__(self, F: Any, y: Any, w: Any, xp: Any) -> tuple[Any, Any]:
        """Return no G, and the sums."""
        t = self.risk.t
        f, d = F[:, :t] + like(self.b, F), F[:, t:] + like(self.db, F)
        values = [weigh(w, self.risk.parts(f + s * d, y, xp)[0]).sum(0) for s in self.lengths]
        return None, xp.concatenate(values)


@dataclass(frozen=True, eq=False)
class CurvedSketch(RowStep):
    """The `RowSketch` of rows weighted by their curvature, the mean over the values of a row."""

    risk: Any
    b: np.ndarray
    damp: float
    sketch: RowSketch

    @property
    def sizes(self) -> tuple[int, int]:
        """Columns of G, and sums."""
        return self.sketch.sizes

    def __call__(self, F: Any, y: Any, w: Any, xp: Any) -> tuple[Any, Any]:
        """Return G and the sums; the last column of F is the probe that the draws depend on."""
        bend = self.risk.parts(F[:, :-1] + like(self.b, F), y, xp)[2]
        h = bend.mean(1) + self.damp
        return self.sketch(F[:, -1:], y, h if w is None else w * h, xp)
