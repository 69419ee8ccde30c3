"""Distances between nodes: counted by the kinds of their ends, or compared by a kernel of them."""

from __future__ import annotations

import numpy as np

from mercer.jit.compile import compiled

__all__ = ["common_paths", "count_distances"]


@compiled
def count_distances(
    indptr, indices, offsets, owner, kind, first_kind, sources, last,
    distance, queue, cells, used, n_used, out, counts,
):  # fmt: skip
    """Count (kind of source, kind of end, distance) by breadth-first search from each source.

    Nodes of graph g are offsets[g] to offsets[g + 1], their kinds start at first_kind[g]. Sources
    of one kind follow each other; ``last[s]`` says that source s is the last of its kind, and then
    what was counted for the kind is written as rows (kind, kind of end, distance) of ``out`` with
    ``counts``. In between it waits in ``cells``, of which the ``n_used`` places ``used`` are not
    zero. ``distance`` holds −1 before and after. Returns the number of rows written and n_used.
    """
    written = 0
    for s in range(len(sources)):
        u = sources[s]
        g = owner[u]
        width, base = offsets[g + 1] - offsets[g], first_kind[g]
        distance[u] = 0
        queue[0] = u
        head, tail = 0, 1
        while head < tail < width:
            v = queue[head]
            head += 1
            d = distance[v] + 1
            for e in range(indptr[v], indptr[v + 1]):
                w = indices[e]
                if distance[w] < 0:
                    distance[w] = d
                    queue[tail] = w
                    tail += 1
                    cell = (kind[w] - base) * width + d
                    if cells[cell] == 0:
                        used[n_used] = cell
                        n_used += 1
                    cells[cell] += 1
        for i in range(tail):
            distance[queue[i]] = -1
        if last[s]:
            for i in range(n_used):
                cell = used[i]
                out[written, 0] = kind[u]
                out[written, 1] = base + cell // width
                out[written, 2] = cell % width
                counts[written] = cells[cell]
                cells[cell] = 0
                written += 1
            n_used = 0
    return written, n_used


@compiled
def common_paths(
    lengths, ends, sources, targets, first, stop,
    lengths2, ends2, sources2, targets2, first2, stop2,
    M, T, S, G, low, high,
):  # fmt: skip
    """Return Σ M[u, u′] M[v, v′] over pairs (u, v), (u′, v′) at equal distance, u from low to high.

    The pairs of a graph are in groups of one distance: group g, of length lengths[g], are the pairs
    (sources, targets) from ends[g] to ends[g + 1], by rising source; the graph has groups first to
    stop, of rising length. For one distance, with T = D M and S = M D′ for the matrices D, D′ of
    these pairs, the sum is Σ T ∘ S. The derivative in M is added to G, if that has rows.
    """
    m = M.shape[1]
    total = 0.0
    g, h = first, first2
    while g < stop and h < stop2:
        if lengths[g] < lengths2[h]:
            g += 1
        elif lengths[g] > lengths2[h]:
            h += 1
        else:
            T[low:high, :m] = 0.0
            S[low:high, :m] = 0.0
            mine = sources[ends[g] : ends[g + 1]]
            begin = ends[g] + np.searchsorted(mine, low)
            end = ends[g] + np.searchsorted(mine, high)
            for e in range(begin, end):
                row, add = T[sources[e]], M[targets[e]]
                for j in range(m):
                    row[j] += add[j]
            for u in range(low, high):
                row, given = S[u], M[u]
                for e in range(ends2[h], ends2[h + 1]):
                    row[targets2[e]] += given[sources2[e]]
                for j in range(m):
                    total += T[u, j] * row[j]
            if len(G):
                for u in range(low, high):
                    for e in range(ends2[h], ends2[h + 1]):
                        G[u, sources2[e]] += T[u, targets2[e]]
                for e in range(begin, end):
                    row, add = G[targets[e]], S[sources[e]]
                    for j in range(m):
                        row[j] += add[j]
            g += 1
            h += 1
    return total
