"""Distances of all pairs of nodes, in edges, counted by the kinds of their ends as they come."""

from __future__ import annotations

from mercer.jit.compile import compiled

__all__ = ["count_distances"]


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
