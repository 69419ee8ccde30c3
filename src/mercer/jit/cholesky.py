"""Loops of changed factorisations: what a Cholesky factor becomes when a row is taken out."""

from __future__ import annotations

from mercer.jit.compile import compiled

__all__ = ["rank_one"]


@compiled
def rank_one(rows, x, first, last):
    """Change Lᵀ to that of LLᵀ + xxᵀ in place, the columns `first` to `last` of L; x is used up.

    Row j of `rows` holds column j of L from the diagonal on. Each step is a plane rotation that
    moves xⱼ into Lⱼⱼ (Gill, Golub, Murray and Saunders 1974, method C1; Golub and Van Loan, 4th
    ed., §6.5.4); with plus all numbers stay of the size they have, so rounding does not grow.
    """
    n = x.shape[0]
    for j in range(first, last):
        if x[j] == 0.0:
            continue
        row = rows[j]
        old = row[j]
        size = max(abs(old), abs(x[j]))
        new = size * ((old / size) ** 2 + (x[j] / size) ** 2) ** 0.5
        c, s = old / new, x[j] / new
        row[j] = new
        for k in range(j + 1, n):
            a, b = row[k], x[k]
            row[k] = c * a + s * b
            x[k] = c * b - s * a
        x[j] = 0.0
