"""Quadratic forms and row sums of a symmetric kernel matrix in one pass over half of its tiles."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.engines import blocks
from mercer.settings import get_config

__all__ = ["quadratic"]


def quadratic(
    bound: Any,
    V: np.ndarray,
    t: np.ndarray | None = None,
    shift: np.ndarray | None = None,
    unit: float = 1.0,
    other: int = 0,
) -> tuple[np.ndarray, np.ndarray | None, float]:
    """Return vᵀKv for every column v of V, K t, and Σᵢⱼ tᵢtⱼ((kᵢⱼ − sᵢ − sⱼ)/unit)².

    From half of the entries of K, which is symmetric and not stored; sums are float64. V may be of
    any real dtype, and is brought to float64 tile by tile. The squares are found where the shift s
    is given. The caller holds `other` bytes of the budget. A band of rows i gives
    2 Vᵢᵀ(½ Tᵢᵢ Vᵢ + Σ over j > i of Tᵢⱼ Vⱼ).
    """
    n, b = V.shape
    bound.verify()
    wide = bound.xp.float64
    lanes = min(blocks.LANES, max(1, get_config().memory // max(1, 16 * n * 8)))
    bands, width, threads = blocks._plan(bound, other + (lanes + 1) * n * 8)
    band_bytes = 3 * width * b * 8
    threads = int(max(1, min(threads, (get_config().memory - other) // max(1, 2 * band_bytes))))
    lanes = min(lanes, len(bands)) or 1
    forms: list[Any] = [None] * len(bands)
    second = [0.0] * len(bands)
    sums = [np.zeros(n if t is not None else 0) for _ in range(lanes)]

    def columns(A: np.ndarray, part: slice) -> Any:
        values = np.asarray(A[part], dtype=np.float64)
        return values if bound.xp is np else bound.xp.as_tensor(values, device=bound._like.device)

    def numpy(A: Any) -> np.ndarray:
        return np.asarray(A if bound.xp is np else A.detach().cpu().numpy())

    def work_band(index: int, out: np.ndarray) -> None:
        band = bands[index]
        own = columns(V, band)
        P = bound.zeros((band.stop - band.start, b), wide=True)
        for cols in blocks._columns(bound, band, width):
            T = blocks._tile(bound, band, cols)
            T = T.astype(wide, copy=False) if bound.xp is np else T.to(wide)
            # The upper half of the diagonal tile counts: K = Kᵀ to the bit, as in `gram`.
            T = blocks._mirror(T, bound.xp) if cols == band else T
            if b:
                P += T @ (own if cols == band else columns(V, cols))
                if cols == band:
                    P *= 0.5
            if t is not None:
                u = columns(t, cols)
                out[band] += numpy(T @ u)
                if cols != band:
                    out[cols] += numpy(T.T @ columns(t, band))
                if shift is not None:
                    twice = 1.0 if cols == band else 2.0
                    A = T - columns(shift, band)[:, None]
                    A -= columns(shift, cols)
                    A /= unit
                    second[index] += twice * float(columns(t, band) @ ((A * A) @ u))
        forms[index] = 2.0 * numpy((own * P).sum(0))

    def work_lane(lane: int) -> None:
        for index in range(lane, len(bands), lanes):
            work_band(index, sums[lane])

    blocks._run(bound, range(lanes), work_lane, threads, "quadratic forms")
    q = np.zeros(b)
    for form in forms:
        q += form
    if t is None:
        return q, None, 0.0
    total = np.zeros(n)
    for part in sums:
        total += part
    return q, total, float(sum(second))
