"""k-means on rows: draws that spread the first centres, and sweeps that leave out most points.

A sweep of Lloyd's algorithm compares every point with every centre, and after the first few nearly
none moves. Two bounds for each point, of the distance to its own centre from above and to all
others from below, are brought up to date by how far the centres went; a point whose bounds do not
meet is not looked at (Hamerly, Making k-means even faster, SDM 2010).
"""

from __future__ import annotations

import numpy as np

from mercer.jit.compile import compiled

SIDE = 64  # points that are compared side by side
SURE = 1.0 - 1e-9  # bounds that are as near as this have met


@compiled
def draw_at(w, left, u, sums, drawn):
    """Set drawn[t] to a position in proportion to wᵢ leftᵢ, the uniform number u[t] says which.

    sums is space for n numbers. Nothing is drawn and False returned where all masses are 0.
    """
    n, top, last = len(w), 0.0, -1
    for i in range(n):
        mass = w[i] * left[i]
        sums[i] = mass
        if mass > 0.0:
            last = i
            top = max(top, mass)
    if last < 0:
        return False
    total = 0.0
    for i in range(n):
        total += sums[i] / top
        sums[i] = total
    for t in range(len(u)):
        drawn[t] = min(np.searchsorted(sums, u[t] * total, side="right"), last)
    return True


@compiled
def come_closer(inner, lengths, drawn, rounding, w, left, trial):
    """Bring leftᵢ, the squared distance to the nearest centre, down by the best of points drawn.

    inner[t] are the inner products of point drawn[t] with all; the best leaves the least Σ w left.
    Squared distances that may be rounding are 0. trial is space for two rows of n numbers. Returns
    which was best.
    """
    best, lowest, keep = 0, np.inf, 0
    for t in range(len(drawn)):
        own, row, out = lengths[drawn[t]], inner[t], trial[1 - keep]
        for i in range(len(w)):
            size = lengths[i] + own
            s = size - 2.0 * row[i]
            s = s if s > rounding * size else 0.0
            out[i] = min(s, left[i])
        out[drawn[t]] = 0.0
        a, b, c, d = 0.0, 0.0, 0.0, 0.0
        even = len(w) // 4 * 4
        for i in range(0, even, 4):
            a += w[i] * out[i]
            b += w[i + 1] * out[i + 1]
            c += w[i + 2] * out[i + 2]
            d += w[i + 3] * out[i + 3]
        for i in range(even, len(w)):
            a += w[i] * out[i]
        total = (a + b) + (c + d)
        if total < lowest:
            best, lowest, keep = t, total, 1 - keep
    left[:] = trial[keep]
    return best


@compiled
def compare_some(F, some, count, C, own, rows, apart, least, second, place):
    """Find the nearest centre of some points, and the distance of the nearest but the own one.

    least[p] and place[p] tell the nearest of all centres, apart[p] is the squared distance to the
    centre own[p], second[p] that to the nearest other than the nearest. rows is space.
    """
    k, d = C.shape
    for p in range(count):
        row = F[some[p]]
        for j in range(d):
            rows[j, p] = row[j]
    for p in range(SIDE):
        least[p], second[p], place[p], apart[p] = np.inf, np.inf, 0, np.inf
    total = np.empty(SIDE)
    for c in range(k):
        total[:] = 0.0
        for j in range(d):
            x, line = C[c, j], rows[j]
            for p in range(SIDE):
                y = line[p] - x
                total[p] += y * y
        for p in range(SIDE):
            s = total[p]
            apart[p] = s if own[p] == c else apart[p]
            nearer = s < least[p]
            second[p] = least[p] if nearer else min(second[p], s)
            place[p] = c if nearer else place[p]
            least[p] = s if nearer else least[p]


@compiled
def sweep(F, w, lengths, labels, rounding, few, sums, mass, counts, upper, lower, path, budget):
    """Move points to their nearest centres, sweep by sweep; return how many, and whether it ended.

    sums, mass and counts are Σ w x, Σ w and the number of points of weight above 0 of each cluster;
    labels and these are brought up to date. upper and lower are bounds of distances, to begin with
    infinite and 0. path[t] is set to what Σ w‖x‖² − Σ w‖x − μ‖² is before sweep t. Ends before a
    sweep that would move points of weight `few` at most, or leave a cluster empty, or has no room
    in path; and after so many products that `budget` is spent.
    """
    n, d = F.shape
    k = len(mass)
    C, before, went = np.empty((k, d)), np.empty((k, d)), np.empty(k)
    moved, target = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    some, own = np.zeros(SIDE, dtype=np.int64), np.zeros(SIDE, dtype=np.int64)
    rows = np.zeros((d, SIDE))
    apart, least, second = np.empty(SIDE), np.empty(SIDE), np.empty(SIDE)
    place, change = np.empty(SIDE, dtype=np.int64), np.empty(k, dtype=np.int64)
    for c in range(k):
        C[c] = sums[c] / mass[c]
    done, spent, ended = 0, 0, False
    while done < len(path) and spent < budget:
        total = 0.0
        for c in range(k):
            for j in range(d):
                total += sums[c, j] * C[c, j]
        path[done] = total
        count, number, weight = 0, 0, 0.0
        for i in range(n + 1):
            if i < n and w[i] > 0.0 and upper[i] >= lower[i] * SURE:
                some[count], own[count] = i, labels[i]
                count += 1
            if count == SIDE or (i == n and count > 0):
                compare_some(F, some, count, C, own, rows, apart, least, second, place)
                spent += k * d * SIDE
                for p in range(count):
                    q = some[p]
                    doubt = 4.0 * rounding * (lengths[q] + apart[p])
                    if place[p] != own[p] and least[p] < apart[p] - doubt:
                        moved[number], target[number] = q, place[p]
                        number += 1
                        weight += w[q]
                        upper[q], lower[q] = np.sqrt(least[p]), np.sqrt(second[p])
                    else:
                        other = second[p] if place[p] == own[p] else least[p]
                        upper[q], lower[q] = np.sqrt(apart[p]), np.sqrt(other)
                count = 0
        spent += n
        change[:] = counts
        for m in range(number):
            change[labels[moved[m]]] -= 1
            change[target[m]] += 1
        ended = weight <= few or change.min() == 0
        if ended:
            break
        counts[:] = change
        for m in range(number):
            i = moved[m]
            a, b, u = labels[i], target[m], w[i]
            mass[a] -= u
            mass[b] += u
            for j in range(d):
                x = u * F[i, j]
                sums[a, j] -= x
                sums[b, j] += x
            labels[i] = b
        before[:] = C
        far, next_far, at = 0.0, 0.0, 0
        for c in range(k):
            C[c] = sums[c] / mass[c]
            t = 0.0
            for j in range(d):
                t += (C[c, j] - before[c, j]) ** 2
            went[c] = np.sqrt(t)
            if went[c] > far:
                far, next_far, at = went[c], far, c
            else:
                next_far = max(next_far, went[c])
        for i in range(n):
            upper[i] += went[labels[i]]
            lower[i] -= next_far if labels[i] == at else far
        done += 1
    return done, ended
