"""Sums over common walks of two graphs: from their spectra, or on the pairs of like nodes."""

from __future__ import annotations

import math

import numpy as np

from mercer.jit.compile import compiled

__all__ = ["common_step", "conjugate_steps", "series_steps", "spectral_sums"]


@compiled
def spectral_sums(
    values, sizes, offsets, first, stop,
    others, other_sizes, other_offsets, other_first, other_stop,
    decay, geometric, out, slopes,
):  # fmt: skip
    """Set out[i, j] to Σ a b f(λμν) over the eigenvalues μ of graph i and ν of graph j.

    f(z) is 1/(1 − z) or exp(z), and slopes[i, j] the derivative in log λ, the sum of a b z f′(z).
    The a and b are ``sizes``: squared sums of the eigenvectors.
    """
    for i in range(first, stop):
        for j in range(other_first, other_stop):
            total, slope = 0.0, 0.0
            for s in range(offsets[i], offsets[i + 1]):
                rate = decay * values[s]
                inner, tilt = 0.0, 0.0
                if geometric:
                    for t in range(other_offsets[j], other_offsets[j + 1]):
                        z = rate * others[t]
                        f = 1.0 / (1.0 - z)
                        inner += other_sizes[t] * f
                        tilt += other_sizes[t] * z * f * f
                else:
                    for t in range(other_offsets[j], other_offsets[j + 1]):
                        z = rate * others[t]
                        f = math.exp(z)
                        inner += other_sizes[t] * f
                        tilt += other_sizes[t] * z * f
                total += sizes[s] * inner
                slope += sizes[s] * tilt
            out[i - first, j - other_first] = total
            slopes[i - first, j - other_first] = slope


@compiled
def common_step(
    labels, indptr, indices, weights, edge_labels, start,
    labels2, indptr2, indices2, weights2, edge_labels2, start2,
    x, row, out,
):  # fmt: skip
    """Set out to A× x, for x on the pairs (u, v) of nodes and zero where their labels differ.

    (A× x)(u, v) = Σ w(u, u′) w(v, v′) x(u′, v′) over pairs of edges of one label, for u and v of
    one label. Edges of a node are in the order of their labels, so that the sum over u′ is taken
    once for a label and all v.
    """
    n, m = x.shape
    for u in range(n):
        out[u] = 0.0
        e, stop = indptr[start + u], indptr[start + u + 1]
        while e < stop:
            label = edge_labels[e]
            row[:m] = 0.0
            while e < stop and edge_labels[e] == label:
                w, before = weights[e], x[indices[e] - start]
                for v in range(m):
                    row[v] += w * before[v]
                e += 1
            for v in range(m):
                if labels2[start2 + v] == labels[start + u]:
                    total = 0.0
                    for f in range(indptr2[start2 + v], indptr2[start2 + v + 1]):
                        if edge_labels2[f] == label:
                            total += weights2[f] * row[indices2[f] - start2]
                    out[u, v] += total


@compiled
def conjugate_steps(
    labels, indptr, indices, weights, edge_labels, start,
    labels2, indptr2, indices2, weights2, edge_labels2, start2,
    decay, x, r, d, q, row, goal, steps,
):  # fmt: skip
    """Take steps of conjugate gradients for (I − λA×)x = p until ‖r‖² ≤ goal²·‖x‖²; whether it is.

    Before and after, r is the residual p − (I − λA×)x of the recursion and d the direction.
    """
    n, m = x.shape
    rr = 0.0
    for u in range(n):
        for v in range(m):
            rr += r[u, v] * r[u, v]
    for _ in range(steps):
        if rr == 0.0:
            return True
        common_step(
            labels, indptr, indices, weights, edge_labels, start,
            labels2, indptr2, indices2, weights2, edge_labels2, start2, d, row, q,
        )  # fmt: skip
        dq = 0.0
        for u in range(n):
            for v in range(m):
                q[u, v] = d[u, v] - decay * q[u, v]
                dq += d[u, v] * q[u, v]
        alpha = rr / dq
        new, xx = 0.0, 0.0
        for u in range(n):
            for v in range(m):
                x[u, v] += alpha * d[u, v]
                r[u, v] -= alpha * q[u, v]
                new += r[u, v] * r[u, v]
                xx += x[u, v] * x[u, v]
        if new <= goal * goal * xx:
            return True
        beta = new / rr
        rr = new
        for u in range(n):
            for v in range(m):
                d[u, v] = r[u, v] + beta * d[u, v]
    return False


@compiled
def series_steps(
    labels, indptr, indices, weights, edge_labels, start,
    labels2, indptr2, indices2, weights2, edge_labels2, start2,
    decay, geometric, x, q, row, sums, goal, steps,
):  # fmt: skip
    """Add terms of Σₖ cₖ λᵏ 1ᵀA×ᵏp, with cₖ = 1 or 1/k!, until one is ≤ goal of the sum.

    x is the last term before its sum, sums = (k, Σ, Σ k·term). No term is negative, so that
    nothing cancels. Whether the goal is reached, past the largest term.
    """
    n, m = x.shape
    before = np.inf
    for _ in range(steps):
        common_step(
            labels, indptr, indices, weights, edge_labels, start,
            labels2, indptr2, indices2, weights2, edge_labels2, start2, x, row, q,
        )  # fmt: skip
        sums[0] += 1.0
        factor = decay if geometric else decay / sums[0]
        term = 0.0
        for u in range(n):
            for v in range(m):
                x[u, v] = factor * q[u, v]
                term += x[u, v]
        sums[1] += term
        sums[2] += sums[0] * term
        if term == 0.0 or (term <= before and sums[0] * term <= goal * sums[1]):
            return True
        before = term
    return False
