"""Small subgraphs of a graph without loops: closed ones counted by edges, connected ones listed."""

from __future__ import annotations

from mercer.jit.compile import compiled

__all__ = ["count_closed", "count_connected", "count_squares", "count_triangles"]


@compiled
def count_triangles(indptr, indices, source, owner, first, stop, mark, out):
    """Add to out[g] the triangles u < v < w of graph g whose edge (u, v) is one of first to stop.

    ``mark`` holds no number of a node; the stamp of the neighbours of u is u + 1.
    """
    for e in range(first, stop):
        u, v = source[e], indices[e]
        if v < u:
            continue
        if e == first or source[e - 1] != u or indices[e - 1] < u:
            for f in range(indptr[u], indptr[u + 1]):
                mark[indices[f]] = u + 1
        total = 0
        for f in range(indptr[v + 1] - 1, indptr[v] - 1, -1):
            w = indices[f]
            if w <= v:
                break
            total += mark[w] == u + 1
        out[owner[u]] += total


@compiled
def count_closed(indptr, indices, source, owner, first, stop, mark, inside, common, out):
    """Add to out[g] what the edges first to stop of graph g close, each edge taken once.

    Columns: Σ (d_u − 1)(d_v − 1) over edges, triangles, pairs of triangles on an edge, Σ over
    triangles of the edges that leave them, sets of four nodes with all six edges. ``mark`` holds no
    number of a node, ``inside`` none of an edge; the stamps are node + 1 and edge + 1.
    """
    for e in range(first, stop):
        u, v = source[e], indices[e]
        if v < u:
            continue
        du, dv = indptr[u + 1] - indptr[u], indptr[v + 1] - indptr[v]
        for f in range(indptr[u], indptr[u + 1]):
            mark[indices[f]] = u + 1
        sharing, above, leaving, full = 0, 0, 0, 0
        for f in range(indptr[v], indptr[v + 1]):
            w = indices[f]
            if mark[w] == u + 1:
                sharing += 1
                if w > v:
                    common[above] = w
                    inside[w] = e + 1
                    above += 1
                    leaving += du + dv + indptr[w + 1] - indptr[w] - 6
        for c in range(above):
            w = common[c]
            for f in range(indptr[w + 1] - 1, indptr[w] - 1, -1):
                x = indices[f]
                if x <= w:
                    break
                if inside[x] == e + 1:
                    full += 1
        g = owner[u]
        out[g, 0] += (du - 1) * (dv - 1)
        out[g, 1] += above
        out[g, 2] += sharing * (sharing - 1) // 2
        out[g, 3] += leaving
        out[g, 4] += full


@compiled
def count_squares(indptr, indices, owner, first, stop, hits, out):
    """Add to out[g] twice the cycles of four nodes: pairs of ways u – v – w, for w < u.

    ``hits`` is zero before and after.
    """
    for u in range(first, stop):
        total = 0
        for e in range(indptr[u], indptr[u + 1]):
            v = indices[e]
            for f in range(indptr[v], indptr[v + 1]):
                w = indices[f]
                if w >= u:
                    break
                total += hits[w]
                hits[w] += 1
        for e in range(indptr[u], indptr[u + 1]):
            v = indices[e]
            for f in range(indptr[v], indptr[v + 1]):
                w = indices[f]
                if w >= u:
                    break
                hits[w] = 0
        out[owner[u]] += total


@compiled
def count_connected(
    indptr, indices, owner, kinds, chosen, codes, open_, n_open, kept, fresh, place, near, state,
    steps, out,
):  # fmt: skip
    """Count connected induced subgraphs of k = len(chosen) nodes by kind; whether all are done.

    Each set is met once: it grows from its smallest node, the root, by nodes above the root that
    are next to it and were not passed over before (Wernicke 2006, ESU). ``chosen`` are the nodes,
    ``codes[l]`` the edges among the first l of them as bits, ``open_[l]`` the nodes that may come
    next, of which kept[l] were open before and fresh[l] came with the newest node. ``place`` is one
    more than the position of a node in ``chosen``, ``near`` whether it was met. ``state`` is (root,
    number of chosen nodes): all of it is kept between calls of some ``steps``.
    """
    k = len(chosen)
    N = len(indptr) - 1
    root, level = state[0], state[1]
    while steps > 0:
        if level == 0:
            if root == N:
                state[0], state[1] = root, level
                return True
            chosen[0] = root
            codes[1] = 0
            place[root] = 1
            n_open[0] = 0
        else:
            if n_open[level] == 0:
                level -= 1
                place[chosen[level]] = 0
                root += level == 0
                for i in range(kept[level + 1], kept[level + 1] + fresh[level + 1]):
                    near[open_[level + 1, i]] = False
                continue
            n_open[level] -= 1
            w = open_[level, n_open[level]]
            code = codes[level]
            for e in range(indptr[w], indptr[w + 1]):
                p = place[indices[e]]
                if p > 0:
                    code |= 1 << (level * (level - 1) // 2 + p - 1)
            steps -= indptr[w + 1] - indptr[w] + 1
            if level == k - 1:
                out[owner[w], kinds[code]] += 1
                continue
            chosen[level] = w
            codes[level + 1] = code
            place[w] = level + 1
        # grow: what was open stays so, and new neighbours of the newest node are added
        w = chosen[level]
        level += 1
        old = n_open[level - 1]
        for i in range(old):
            open_[level, i] = open_[level - 1, i]
        end = old
        for e in range(indptr[w], indptr[w + 1]):
            x = indices[e]
            if x > root and not near[x]:
                near[x] = True
                open_[level, end] = x
                end += 1
        n_open[level], kept[level], fresh[level] = end, old, end - old
        steps -= old + indptr[w + 1] - indptr[w] + 1
    state[0], state[1] = root, level
    return False
