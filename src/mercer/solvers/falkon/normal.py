"""The normal equations of least squares on m centres, from the sums of one pass over the rows."""

from __future__ import annotations

from typing import Any
from weakref import proxy

import numpy as np
from scipy.linalg import blas

from mercer.lapack import MANY, dtrsm
from mercer.settings import get_config
from mercer.solvers.base import column_norms
from mercer.solvers.falkon.preconditioner import EPS, SINGLE, HostBuffer, regular_factor
from mercer.solvers.linear import TINY, potrf

SQUARED = 2048  # centres up to which sums of squares take no longer than iterations over kept rows
AGAIN = 4096  # the same where every pass makes the values anew
MATRICES = 8  # of m × m: lanes of sums, and what is made of them
ROUNDING = 10.0  # of how many sizes rounding may be
FEWEST = 128  # centres from which float32 gains more than two passes take
ABOVE = 1.0  # how far the least eigenvalue is to be above rounding in float32
ROOMS = 2**25  # bytes of blocks that lanes hold
SURE = 0.1  # the part of what is allowed up to which rounding of sums may be


def takes_squares(rows: Any) -> bool:
    """Whether one pass that adds up KᵀWK is to take the place of iterations.

    That takes n·m² flops by products of matrices, iterations some twenty readings of n·m values.
    """
    m = int(rows.m)
    kept = hasattr(rows, "w")  # in memory, as a rule
    room = MATRICES * 8 * m * m + ROOMS <= get_config().memory // 4
    return bool(getattr(rows, "squares", False)) and m <= (SQUARED if kept else AGAIN) and room


def ways_of_squares(system: Any, weight: float, above: float = ABOVE) -> list[str]:
    """Return in which ways KᵀWK is to be added up, one after the other where they are not enough.

    "normal" is in float64, where rounding of it is nothing beside alpha·K_ZZ in all directions;
    "whitened" is L⁻¹KᵀWK L⁻ᵀ. "single" is in float32, which takes half the time: for rows in
    memory, where two more passes say what is left, and where the least eigenvalue of KᵀWK, some
    n/m of that of K_ZZ², is well above the rounding. `weight` is the sum of all weights.
    """
    made, n, m = system.preconditioner, max(weight, TINY), system.m
    least, scale = made.least(), made.scale
    clear = EPS * n * m * scale <= system.alpha * least
    rounding = SINGLE * m**0.5 * scale
    least_square = (least / m + system.alpha / n) * least
    single = (
        clear
        and least_square >= above * rounding * scale
        and m >= FEWEST
        and hasattr(system.rows, "w")
    )
    return ["single"] * single + ["normal"] * clear + ["whitened"]


class NormalEquations:
    """A = KᵀWK − ccᵀ/Σw + alpha(K_ZZ + δI) and its Cholesky factor, from KᵀWK of one pass.

    Where rounding of KᵀWK would show beside alpha·K_ZZ, the pass adds up S = L⁻¹KᵀWK L⁻ᵀ with
    LLᵀ = K_ZZ + δI, row by row, and A = L(S + alpha·I)Lᵀ: twice the flops, no squared condition.

    A is a Hessian too: with weights W that are curvatures, c and Σw (`total`) of them.

    Sums in float64 tell of any coefficients what a pass would tell of them, see `look`.

    Cost: n·m² flops in the pass, or 2n·m²; m³/3 for the factor; two m × m matrices.
    """

    def __init__(self, square: np.ndarray, system: Any, way: str, c: np.ndarray, total: float):
        self.system = proxy(system)  # which holds this: a cycle would keep all values for long
        self.way, self.c, self.total = way, c, total  # c/Σw
        self.whitened = whitened = way == "whitened"
        self.buffer: HostBuffer = system.preconditioner.buffer
        self.least = system.preconditioner.least() if way == "normal" else 0.0
        self.sizes = np.sqrt(np.maximum(np.diagonal(square), 0.0))
        self.square = square  # its lower triangle
        if system.offset:
            c = self.buffer.solve_lower(c) if whitened else c
            square -= np.outer(total * c[:, 0], c[:, 0])
        self.factor = np.empty(square.shape, order="F")
        if whitened:
            np.copyto(self.factor, square)
            self.good = regular_factor(self.factor, system.alpha)
        else:
            made = system.preconditioner
            np.multiply(self.buffer.a.T, system.alpha, out=self.factor)  # K_ZZ above the diagonal
            self.factor += square
            diagonal = np.diagonal(square) + system.alpha * (self.buffer.diagonal() + made.delta)
            np.einsum("ii->i", self.factor)[...] = diagonal
            self.good = potrf(self.factor)

    def apply(self, R: np.ndarray) -> np.ndarray:
        """Return A⁻¹R."""
        solve = dtrsm if len(self.factor) > MANY else blas.dtrsm
        S = self.buffer.solve_lower(R) if self.whitened else R
        for transpose in (0, 1):
            S = np.asarray(solve(1.0, self.factor, S, lower=1, trans_a=transpose))
        return self.buffer.solve_lower(S, transpose=True) if self.whitened else S

    def residual(self, X: np.ndarray, B: np.ndarray) -> np.ndarray:
        """Return B − AX, from the sums of a pass that did not whiten."""
        system = self.system
        HX = np.asarray(blas.dsymm(1.0, self.square, X, lower=1))
        return np.asarray(B - HX - system.alpha * system.preconditioner.gram(X))

    def solve(self, B: np.ndarray) -> np.ndarray:
        """Return A⁻¹B, refined where the sums say what is left."""
        X = self.apply(B)
        return X if self.way != "normal" else X + self.apply(self.residual(X, B))

    def step(self, g: np.ndarray, gb: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the Newton step in coefficients and offset for gradients in them."""
        d = -self.apply(g - self.c * gb)
        db = -gb / self.total - (self.c.T @ d)[0] if self.system.offset else np.zeros_like(gb)
        return d, db

    def look(self, X: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, ...] | None:
        """Return what a pass would say of the targets `at`, as `CentredPoint` has it; or None.

        An entry of KᵀWK or KᵀWy is rounded by eps·√n of the lengths of the two columns that it is
        of; so an entry of the residual is by that of the length of its column times all lengths
        that y − Ka − b is made of. None where that is more than a part of what is allowed.
        """
        system, made = self.system, self.system.preconditioner
        if self.way != "normal" or not system.tol:
            return None
        units, alpha = system.units[at], system.alpha
        reach = self.sizes @ np.abs(X) + system.lengths[at] / units
        off = ROUNDING * EPS * np.sqrt(float(system.rows.n)) * reach
        hidden = float(np.linalg.norm(self.sizes)) * off
        R = self.residual(X, system.B[:, at])
        risk = system.start[at] / units**2 - 0.5 * np.einsum("ij,ij->j", X, system.B[:, at] + R)
        allowed, noise = SURE * system.tol * risk, np.zeros(len(at))
        if alpha > 0:
            noise = hidden**2 / (2.0 * alpha * self.least) + ROUNDING * made.rounding(X, alpha)
        if not (
            (hidden <= SURE * system.tol) & (noise <= allowed) & (off * reach <= allowed)
        ).all():
            return None
        residual = column_norms(R + alpha * made.jitter * X) + hidden
        return R, residual, system.gap(R), risk, noise
