"""Small subgraphs of a graph without loops: closed ones counted by edges, connected ones listed."""

from __future__ import annotations

import math

import numpy as np

from mercer.jit.compile import compiled


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


# ---- Sums over common walks of two graphs: from their spectra, or on the pairs of like nodes ----


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


# ---- Distances between nodes: counted by the kinds of their ends, or compared by a kernel of
# them.


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
