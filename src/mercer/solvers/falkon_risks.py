"""What Newton's method asks of the rows in a pass: slopes, products with curvatures, risks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.losses import Logistic, Loss
from mercer.solvers.falkon_steps import Sketch, columns, like, weigh
from mercer.solvers.softmax import log_softmax

__all__ = ["Bends", "CurvedSketch", "Lengths", "Separate", "Slopes", "Softmax"]


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
        found = self.parts(f.cpu().numpy(), y.cpu().numpy()[:, self._back()], np)
        return tuple(like(part, f, xp) for part in found)  # type: ignore[return-value]

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
class Slopes:
    """G = [Wℓ′, Wℓ″] at F + b and the sums [Σwℓ, Σwℓ′, Σwℓ″, Σwℓ′², Σw]; with w too, the last."""

    risk: Any
    b: np.ndarray
    weights: bool = False

    @property
    def width(self) -> int:
        """Columns of G."""
        return 2 * self.risk.t + int(self.weights)

    @property
    def n_sums(self) -> int:
        """How many sums there are."""
        return 4 * self.risk.t + 1

    def __call__(self, F: Any, y: Any, w: Any, xp: Any) -> tuple[Any, Any]:
        """Return G and the sums."""
        stack = np.concatenate if xp is np else xp.cat
        value, slope, bend = self.risk.parts(F + like(self.b, F, xp), y, xp)
        one = weigh(w, xp.ones_like(F[:, :1]))
        G = stack([weigh(w, slope), weigh(w, bend)] + ([one] if self.weights else []), 1)
        t = self.risk.t
        sums = (weigh(w, value), G[:, :t], G[:, t : 2 * t], G[:, :t] * slope, one)
        return G, stack([part.sum(0) for part in sums])


@dataclass(frozen=True, eq=False)
class Bends:
    """G = W(ℓ″ + damp)(Fv + shift) with ℓ″ at Fa + b, where F = [Fa, Fv], and the sums of G."""

    risk: Any
    b: np.ndarray
    shift: np.ndarray
    damp: np.ndarray

    @property
    def width(self) -> int:
        """Columns of G."""
        return int(self.risk.t)

    @property
    def n_sums(self) -> int:
        """How many sums there are."""
        return int(self.risk.t)

    def __call__(self, F: Any, y: Any, w: Any, xp: Any) -> tuple[Any, Any]:
        """Return G and the sums."""
        t = self.risk.t
        v = F[:, t:] + like(self.shift, F, xp)
        G = self.risk.bend(F[:, :t] + like(self.b, F, xp), v, y, xp)
        if self.damp.any():
            G = G + like(self.damp, F, xp) * v
        G = weigh(w, G)
        return G, G.sum(0)


@dataclass(frozen=True, eq=False)
class Lengths:
    """The sums Σwℓ at Fa + b + s(Fd + db) for some lengths s of a step, F = [Fa, Fd]; no G."""

    risk: Any
    b: np.ndarray
    db: np.ndarray
    lengths: tuple[float, ...]
    width: int = 0

    @property
    def n_sums(self) -> int:
        """How many sums there are."""
        return int(self.risk.t) * len(self.lengths)

    def __call__(self, F: Any, y: Any, w: Any, xp: Any) -> tuple[Any, Any]:
        """Return no G, and the sums."""
        t = self.risk.t
        f, d = F[:, :t] + like(self.b, F, xp), F[:, t:] + like(self.db, F, xp)
        stack = np.concatenate if xp is np else xp.cat
        values = [weigh(w, self.risk.parts(f + s * d, y, xp)[0]).sum(0) for s in self.lengths]
        return None, stack(values)


@dataclass(frozen=True, eq=False)
class CurvedSketch:
    """The `Sketch` of rows weighted by their curvature, the mean over the values of a row."""

    risk: Any
    b: np.ndarray
    damp: float
    sketch: Sketch

    @property
    def width(self) -> int:
        """Columns of G."""
        return self.sketch.width

    @property
    def n_sums(self) -> int:
        """How many sums there are."""
        return self.sketch.n_sums

    def __call__(self, F: Any, y: Any, w: Any, xp: Any) -> tuple[Any, Any]:
        """Return G and the sums; the last column of F is the probe that the draws depend on."""
        bend = self.risk.parts(F[:, :-1] + like(self.b, F, xp), y, xp)[2]
        h = bend.mean(1) + self.damp
        return self.sketch(F[:, -1:], y, h if w is None else w * h, xp)
