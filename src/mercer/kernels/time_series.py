"""The global alignment kernel of two series: the sum over all ways to align them."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.checks import check_parameter, check_whole
from mercer.domains import Domain, Series
from mercer.errors import InvalidInput
from mercer.kernels.scales import median_distance
from mercer.kernels.strings import Logarithmic, is_long, row_runs


class GlobalAlignment(Logarithmic):
    r"""Global alignment kernel Σ_π Π_t κ(x_{π(t)}, y_{ρ(t)}), over all alignments (π, ρ).

    An alignment steps through both series from the first pair to the last, each step moving on in
    one of them or in both, as in dynamic time warping; the kernel is the sum over all of them where
    the warping distance takes the best alone. The local kernel is κ = w/(2 − w) with
    w = exp(−‖x−y‖²/2ℓ²), that is exp(−φ), φ = ‖x−y‖²/2ℓ² + log(2 − exp(−‖x−y‖²/2ℓ²)) (Cuturi, Vert,
    Birkenes and Matsui 2007; Cuturi 2011).

    Its values grow or fall exponentially with the length of the series: use it as
    ``GlobalAlignment().normalized()``, which computes with logarithms. An ℓ fit for short series
    makes the normalised matrix of long ones nearly the identity, from which nothing can be learned;
    it should grow with the square root of the length, as "median" does.

    *Valid when* ℓ > 0: κ/(1 + κ) = w/2 is positive definite, and so is the sum (Cuturi 2007,
    theorem 1). So it is with ω(|i−j|)·w in place of w, ω(t) = max(0, 1 − t/T) being positive
    definite.

    Costs |x|·|y| steps a pair, or 2T·|x| with a band.

    Parameters
    ----------
    length_scale : float or "median", default="median"
        The scale ℓ of the local kernel. "median": the median distance between vectors of the
        series, times the square root of the median length.
    triangular : int, default=0
        The width T of a band: steps i and j are only matched when |i−j| < T, with weight
        1 − |i−j|/T. Series whose lengths differ by T or more have k = 0. 0 is no band.

    Notes
    -----
    Series are lists of arrays of shape (T,) or (T, d), or arrays (n, T) or (n, T, d); see
    `mercer.domains.Series`. An empty series is aligned with an empty one only.

    Examples
    --------
    >>> from mercer import GlobalAlignment
    >>> series = [[0.0, 1.0, 1.0, 2.0], [0.0, 0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]
    >>> GlobalAlignment(2.0).normalized()(series).round(3)
    array([[1.   , 0.873, 0.165],
           [0.873, 1.   , 0.12 ],
           [0.165, 0.12 , 1.   ]])
    """

    domain: Domain = Series()  # type: ignore[assignment]
    _tunable = ("length_scale",)
    _pace = 12.0

    def __init__(self, length_scale: float | str = "median", triangular: int = 0):
        super().__init__(length_scale=length_scale, triangular=triangular)

    def _check_params(self) -> None:
        if isinstance(self.length_scale, str):
            if self.length_scale != "median":
                raise InvalidInput(
                    f"GlobalAlignment: length_scale={self.length_scale!r}; give a number > 0, or "
                    "'median'."
                )
        else:
            check_parameter("length_scale", self.length_scale, 0.0)
        check_whole("triangular", self.triangular, 0)

    def _resolve(self, X: Any, sample_weight: Any) -> dict[str, Any]:
        w = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight, dtype=float)
        distance = median_distance(X.values, np.repeat(w, X.lengths)) if len(X.values) else 1.0
        return {"length_scale": distance * max(1.0, _median(X.lengths, w)) ** 0.5}

    def _precision(self) -> float:
        with np.errstate(over="ignore"):
            return float(min(0.5**0.5 / np.float64(self.length_scale), np.finfo(float).max))

    def _cells(self, n: Any, m: Any) -> Any:
        return n * self._width(m)

    def _width(self, m: Any) -> Any:
        """Return how many of m steps one step may be matched with."""
        return np.minimum(m, 2 * self.triangular - 1) if self.triangular else m

    def _computed(
        self, X: Any, left: np.ndarray, Y: Any, right: np.ndarray, *, sloped: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return log k of pairs, and slopes in log ℓ where asked for."""
        from mercer.jit import global_advance, global_log_pairs, global_start, logarithm

        lengths = X.lengths[left], Y.lengths[right]
        n, m = (int(part.max(initial=0)) for part in lengths)
        size = m + 1
        M, G, e = np.empty(size), np.empty(size if sloped else 0), np.empty(size, dtype=np.int64)
        settings = self._precision(), int(self.triangular)
        alone = len(left) == 1 and not 0 < self.triangular <= abs(n - m)  # and not 0 by its band
        if alone and is_long(n, self._width(m)):
            x = X.values[X.offsets[left[0]] : X.offsets[left[0] + 1]]
            y = Y.values[Y.offsets[right[0]] : Y.offsets[right[0] + 1]]
            global_start(M, G, e)
            for first, stop in row_runs(n, int(self._width(m))):
                global_advance(x, y, first, stop, *settings, M, G, e)
            return np.array([logarithm(M[-1], e[-1])]), G[-1:] / M[-1:]
        out, slopes = np.empty(len(left)), np.empty(len(left) if sloped else 0)
        packed = X.values, X.offsets, left, Y.values, Y.offsets, right
        global_log_pairs(*packed, *settings, M, G, e, out, slopes)
        return out, slopes


def _median(lengths: np.ndarray, w: np.ndarray) -> float:
    """Return the median of lengths that count with weights, the lower one where two are middle."""
    if not w.sum() > 0:
        return 1.0
    order = np.argsort(lengths, kind="stable")
    share = np.cumsum(w[order])
    return float(lengths[order[np.searchsorted(share, 0.5 * share[-1] * (1 - 1e-12))]])
