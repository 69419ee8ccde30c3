"""Loops of sparse risk minimisation: passes of coordinate descent."""

from __future__ import annotations

from mercer.jit.compile import compiled

__all__ = ["passes"]


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
