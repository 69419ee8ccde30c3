"""Loops of the perceptrons: visit points in order, and add rows of K on mistakes."""

from __future__ import annotations

import numpy as np

from mercer.jit.compile import compiled

__all__ = ["add_rows", "visit"]


@compiled
def add_rows(K, rows, steps, out):
    """Add Σ steps[r] K[rows[r]] to out, row after row."""
    n = out.shape[0]
    for r in range(rows.shape[0]):
        row, step = K[rows[r]], steps[r]
        for j in range(n):
            out[j] += step * row[j]


@compiled
def visit(
    K, order, start, signs, F, A, bias, square, updates, total, halvings, caps, half, relative,
    power, offset, work,
):  # fmt: skip
    """Visit the points order[start:], all classes at each, and return where it stopped.

    Class c holds f + b with f = Σ A[c, t] k(x_t, ·), b = bias[c], square[c] = ‖f‖² and
    F[c] = f + b at all points. A point of sign y is a mistake when y·F[c, t] ≤ half[c]·u, with
    u = 1, or ‖(f, b)‖ where margins are relative; then f += η y k(x_t, ·) and b += η y·offset with
    η = k^(−power) at the k-th update of the class.

    A class that reaches caps[c] updates starts again from zero with half[c] halved and four times
    as many updates allowed; halvings[c] counts that. Stops early after about `work` operations.
    """
    classes, n = F.shape
    spent = 0
    for p in range(start, order.shape[0]):
        t = order[p]
        row = K[t]
        for c in range(classes):
            y, value = signs[c, t], F[c, t]
            limit = half[c]
            if relative:
                limit *= np.sqrt(square[c] + bias[c] * bias[c])
            if y * value > limit:
                continue
            f = F[c]
            if updates[c] >= caps[c]:
                f[:] = 0.0
                A[c, :] = 0.0
                bias[c] = square[c] = value = 0.0
                updates[c] = 0
                half[c] *= 0.5
                caps[c] *= 4
                halvings[c] += 1
            updates[c] += 1
            total[c] += 1
            step = y
            if power != 0.0:
                step = y * updates[c] ** -power
            square[c] = max(0.0, square[c] + step * (2.0 * (value - bias[c]) + step * row[t]))
            bias[c] += step * offset
            A[c, t] += step
            for j in range(n):
                f[j] += step * (row[j] + offset)
            spent += n
        spent += classes
        if spent >= work:
            return p + 1
    return order.shape[0]
