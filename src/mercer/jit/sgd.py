"""Loops of stochastic gradients: variance-reduced over stored rows, averaged over new ones.

Values of a row are z = φᵀV + b, V of shape (D, c): c = 1 output with a loss of targets y, or c > 2
outputs with the softmax of class numbers y. `slopes` writes the slopes of the loss by z.
"""

from __future__ import annotations

import numpy as np

from mercer.jit.compile import compiled


@compiled
def slopes(code, y, delta, z, g):
    """Write ∂ℓ(y, z)/∂z into g; code 0 logistic, 1 squared hinge, 2 squared, 3 Huber, 4 softmax."""
    if code == 4:
        top = z[0]
        for k in range(1, z.shape[0]):
            top = max(top, z[k])
        total = 0.0
        for k in range(z.shape[0]):
            g[k] = np.exp(z[k] - top)
            total += g[k]
        for k in range(z.shape[0]):
            g[k] /= total
        g[int(y)] -= 1.0
        return
    if code == 0:
        m = y * z[0]
        if m > 0:
            e = np.exp(-m)
            g[0] = -y * e / (1.0 + e)
        else:
            g[0] = -y / (1.0 + np.exp(m))
    elif code == 1:
        g[0] = -2.0 * y * max(0.0, 1.0 - y * z[0])
    else:
        e = z[0] - y
        g[0] = min(delta, max(-delta, e)) if code == 3 else e


@compiled
def _catch_up(V, G, j, steps, keep, step, weight):
    """Take the steps that row j was left out of: V ← keep·V − step·weight·G, so many times."""
    power = keep**steps
    total = float(steps)
    if keep < 1.0:
        total = (1.0 - power) / (1.0 - keep)
    for k in range(V.shape[1]):
        V[j, k] = power * V[j, k] - step * weight * total * G[j, k]


@compiled
def _settle(V, G, steps, keep, step, weights, met):
    """Bring all rows up to the last step, and count from there again."""
    for j in range(V.shape[0]):
        if met[j] < steps:
            _catch_up(V, G, j, steps - met[j], keep, step, weights[j])
        met[j] = 0


@compiled
def saga_dense(
    Phi, y, w, order, share, code, delta, alpha, step, offset, V, b, table, G, Gb, z, g, a, met
):  # fmt: skip
    """Take one step for each row of `order`, all columns at each (Defazio et al. 2014).

    `table` holds the slopes last seen at every row, G and Gb the sums Σ w g φᵀ and Σ w g; a row i
    is drawn with probability share[i], so that its change of slope counts 1/share[i] times. The
    coefficients a with V = Φᵀa are kept up too, that of a row when it is met: between two steps
    its slope stays, so the steps in between have a closed form; `met` holds how far each one is.
    """
    D, c = V.shape
    keep = 1.0 - step * alpha
    for t in range(order.shape[0]):
        i = order[t]
        for k in range(c):
            z[k] = b[k]
        for j in range(D):
            x = Phi[i, j]
            for k in range(c):
                z[k] += x * V[j, k]
        slopes(code, y[i], delta, z, g)
        if met[i] < t:
            _catch_up(a, table, i, t - met[i], keep, step, w[i])
        met[i] = t + 1
        for k in range(c):
            change = w[i] * (g[k] - table[i, k])
            a[i, k] = keep * a[i, k] - step * (change / share[i] + w[i] * table[i, k])
            table[i, k] = g[k]
            g[k] = change
            if offset:
                b[k] -= step * (change / share[i] + Gb[k])
                Gb[k] += change
        for j in range(D):
            x = Phi[i, j]
            for k in range(c):
                change = g[k] * x
                V[j, k] = keep * V[j, k] - step * (change / share[i] + G[j, k])
                G[j, k] += change
    _settle(a, table, order.shape[0], keep, step, w, met)


@compiled
def saga_sparse(
    data, indices, indptr, y, w, order, share, code, delta, alpha, step, offset, V, b, table, G, Gb,
    z, g, a, met, last, ones,
):  # fmt: skip
    """Do what `saga_dense` does with the rows of a CSR matrix, columns only when they are met.

    The sum G of a column changes only with rows that have the column, so the steps between two of
    them have a closed form; `last` holds the step up to which a column is.
    """
    c = V.shape[1]
    keep = 1.0 - step * alpha
    for t in range(order.shape[0]):
        i = order[t]
        for k in range(c):
            z[k] = b[k]
        for p in range(indptr[i], indptr[i + 1]):
            j = indices[p]
            if last[j] < t:
                _catch_up(V, G, j, t - last[j], keep, step, 1.0)
                last[j] = t
            for k in range(c):
                z[k] += data[p] * V[j, k]
        slopes(code, y[i], delta, z, g)
        if met[i] < t:
            _catch_up(a, table, i, t - met[i], keep, step, w[i])
        met[i] = t + 1
        for k in range(c):
            change = w[i] * (g[k] - table[i, k])
            a[i, k] = keep * a[i, k] - step * (change / share[i] + w[i] * table[i, k])
            table[i, k] = g[k]
            g[k] = change
            if offset:
                b[k] -= step * (change / share[i] + Gb[k])
                Gb[k] += change
        for p in range(indptr[i], indptr[i + 1]):
            j, x = indices[p], data[p]
            for k in range(c):
                change = g[k] * x
                V[j, k] = keep * V[j, k] - step * (change / share[i] + G[j, k])
                G[j, k] += change
            last[j] = t + 1
    _settle(V, G, order.shape[0], keep, step, ones, last)
    _settle(a, table, order.shape[0], keep, step, w, met)


@compiled
def stream(
    data, indices, indptr, thin, y, w, code, bend, alpha, power, offset, V, b, A, ab, state, z, g,
):  # fmt: skip
    """Take one step of averaged stochastic gradient for each row of a matrix, in order.

    The matrix is thin (CSR), or dense with its rows one after the other: then `indices` is not
    read. With m = Σw²/Σw and t = Σw/m, the effective number of rows, a row of weight w steps by
    u = w/m times η = η₀ t^(−power), η₀ = 1/(bend·E‖(φ, 1)‖²), with the share w·alpha/Σw of the
    penalty; no step goes further than the curvature at its row allows. The average weighs later
    iterates more: Ā ← (1 − c)Ā + cV, c = 4u/(t + 3), which is 1 at the first row (Shamir and Zhang
    2013). All of it stays the same when weights and alpha are multiplied by one number.
    state = (Σw, Σw‖(φ, 1)‖², Σw², rows). V = s·U and Ā = f·M + h·U, so that a step costs only what
    the row has (Xu 2011); both are written out at the end.
    """
    c = V.shape[1]
    s, f, h = 1.0, 1.0, 0.0
    for i in range(y.shape[0]):
        if w[i] <= 0.0:
            continue
        square = 1.0 if offset else 0.0
        for k in range(c):
            z[k] = b[k]
        start = indptr[i]
        for p in range(start, indptr[i + 1]):
            j = indices[p] if thin else p - start
            square += data[p] * data[p]
            for k in range(c):
                z[k] += s * data[p] * V[j, k]
        slopes(code, y[i], 1.0, z, g)
        state[0] += w[i]
        state[1] += w[i] * square
        state[2] += w[i] * w[i]
        state[3] += 1.0
        if state[1] <= 0.0:
            continue
        u, t = w[i] * (state[0] / state[2]), state[0] * (state[0] / state[2])
        eta = u * t ** (-power) / (bend * (state[1] / state[0]))
        share = min(1.0, 4.0 * u / (t + 3.0))
        gain = min(eta, 1.0 / (bend * square)) if square > 0.0 else 0.0
        for p in range(start, indptr[i + 1]):
            j = indices[p] if thin else p - start
            for k in range(c):
                change = -gain * g[k] * data[p] / s
                V[j, k] += change
                A[j, k] -= h / f * change
        if offset:
            for k in range(c):
                b[k] -= gain * g[k]
        s /= 1.0 + eta * alpha / state[0]  # the penalty as a proximal step cannot overshoot
        if share >= 1.0:
            A[:] = 0.0
            f, h = 1.0, s
        else:
            f *= 1.0 - share
            h = (1.0 - share) * h + share * s
        for k in range(c):
            ab[k] += share * (b[k] - ab[k])
        if s < 1e-6 or f < 1e-6:
            for j in range(V.shape[0]):
                for k in range(c):
                    A[j, k] = f * A[j, k] + h * V[j, k]
                    V[j, k] *= s
            s, f, h = 1.0, 1.0, 0.0
    for j in range(V.shape[0]):
        for k in range(c):
            A[j, k] = f * A[j, k] + h * V[j, k]
            V[j, k] *= s
