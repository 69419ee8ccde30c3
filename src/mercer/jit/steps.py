"""Loops of the perceptrons: visit points in order, and add rows of K on mistakes."""

from __future__ import annotations

import numpy as np

from mercer.jit.compile import compiled

# ---- Loops of sparse risk minimisation: passes of coordinate descent ----


@compiled
def passes(Q, diagonal, p, v, l1, l2, most, goal):
    """Coordinate descent on ½dᵀQd + pᵀd + l1‖v‖₁ + (l2/2)‖v‖², d the change of v; in place.

    p is kept at the gradient of the first two terms. One visit minimises over one variable:
    v ← S(qv − p, l1)/(q + l2) with the soft threshold S (Friedman et al. 2010, eq. 5).
    Variables with q + l2 = 0 are left alone. Returns the passes made: `most`, or as many as it took
    until no variable moved by more than `goal` in units of its curvature.
    """
    n = v.shape[0]
    for made in range(most):
        worst = 0.0
        for j in range(n):
            curvature = diagonal[j] + l2
            if curvature <= 0.0:
                continue
            old = v[j]
            u = diagonal[j] * old - p[j]
            if u > l1:
                new = (u - l1) / curvature
            elif u < -l1:
                new = (u + l1) / curvature
            else:
                new = 0.0
            step = new - old
            if step != 0.0:
                v[j] = new
                row = Q[j]
                for i in range(n):
                    p[i] += step * row[i]
                worst = max(worst, abs(step) * curvature)
        if worst <= goal:
            return made + 1
    return most


# ---- perceptron ----


@compiled
def add_kernel_rows(K, rows, steps, out):
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


# ---- Loops of changed factorisations: what a Cholesky factor becomes when a row is taken out ----


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
