"""Common subsequences weighted by their gaps, eight pairs of strings side by side.

Counted from the ends of both strings, with gaps alone weighted (the p letters of a match on either
side bring the factor λ^(2p), left to the caller), for letters i of s and j of t:

    κ_h(i, j) = [sᵢ = tⱼ] D_{h−1}(i−1, j−1),     D_0 = 1,
    R_h(i, j) = λ R_h(i, j−1) + κ_h(i, j),
    D_h(i, j) = λ D_h(i−1, j) + R_h(i, j),        K_p = Σ κ_p(i, j).

R is K″ and D is K′ of Lodhi et al. (2002), up to powers of λ. All terms are positive: nothing
cancels. Lane l of a vector holds pair l, so that every step is one operation on eight pairs; the
loop over j keeps R and the corner D(i−1, j−1) in registers and takes `ROWS` letters of s at once,
which divides the traffic of D through memory by as many. Compilers do not find these vectors by
themselves, so the body of that loop is written in LLVM's terms. Padding letters match nothing and
add nothing, so values do not depend on what else is in the batch.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from mercer.jit.compile import compiled

LANES = 8
ROWS = 2
DOUBLES = ir.VectorType(ir.DoubleType(), LANES)
CODES = ir.VectorType(ir.IntType(32), LANES)
NO_S, NO_T = np.uint32(0xFFFFFFFF), np.uint32(0xFFFFFFFE)  # padding: no letters, nor equal


def _scaled(builder, decay, x, y):
    """Return λx + y, fused where the machine can."""
    product = builder.fmul(decay, x, flags=("contract",))
    return builder.fadd(product, y, flags=("contract",))


@intrinsic
def _sweep(context, S, T, D, total, first, decay, levels):
    """Take letters first, …, first + ROWS − 1 of s against all of t.

    S, T : codes, (letters, LANES); D : (letters of t, p − 1, kinds, LANES); total : (kinds, LANES).
    The number of levels p is the length of the tuple `levels`. Two kinds are values and their
    derivatives in log λ: those of λx + y are λ(x + ẋ) + ẏ.
    """
    p, kinds = levels.count, levels.dtype.count

    def make(context, builder, signature, args):
        arrays = [
            context.make_array(t)(context, builder, a)
            for t, a in zip(signature.args[:4], args[:4], strict=True)
        ]
        s, t = (builder.bitcast(a.data, CODES.as_pointer()) for a in arrays[:2])
        d, k = (builder.bitcast(a.data, DOUBLES.as_pointer()) for a in arrays[2:])
        columns = builder.extract_value(arrays[1].shape, 0)
        index = columns.type

        def load(pointer, at):
            return builder.load(builder.gep(pointer, [at]), align=8)

        one = ir.Constant(DOUBLES, [1.0] * LANES)
        zero = ir.Constant(DOUBLES, [0.0] * LANES)
        lam = ir.Constant(DOUBLES, ir.Undefined)
        for lane in range(LANES):
            lam = builder.insert_element(lam, args[5], ir.Constant(ir.IntType(32), lane))
        letters = [load(s, builder.add(args[4], ir.Constant(index, a))) for a in range(ROWS)]
        before = builder.block
        head, body, done = (builder.append_basic_block(n) for n in ("head", "body", "done"))
        builder.branch(head)
        builder.position_at_end(head)
        j = builder.phi(index)
        j.add_incoming(ir.Constant(index, 0), before)

        def carried(first_value):
            phi = builder.phi(DOUBLES)
            phi.add_incoming(first_value, before)
            return phi

        def levels_of():  # [row][level][kind], levels 1 … p − 1
            return [
                [[carried(zero) for _ in range(kinds)] for _ in range(p - 1)] for _ in range(ROWS)
            ]

        along, corner = levels_of(), levels_of()
        sums = [carried(zero) for _ in range(kinds)]
        builder.cbranch(builder.icmp_signed("<", j, columns), body, done)

        builder.position_at_end(body)
        code = load(t, j)
        base = builder.mul(j, ir.Constant(index, (p - 1) * kinds))
        places = [
            [builder.add(base, ir.Constant(index, h * kinds + q)) for q in range(kinds)]
            for h in range(p - 1)
        ]
        above = [[load(d, place) for place in level] for level in places]
        new_along, new_corner, new_sums = [], [], list(sums)
        unit = [one] + [zero] * (kinds - 1)
        for a in range(ROWS):
            new_corner.append(above)
            same = builder.icmp_unsigned("==", letters[a], code)
            lower = [unit, *corner[a]]
            row, below = [], []
            for h in range(p - 1):
                old, over = along[a][h], above[h]
                now, down = [], []
                for q in range(kinds):
                    moved = old[q] if q == 0 else builder.fadd(old[q], old[0])
                    match = builder.select(same, lower[h][q], zero)
                    now.append(_scaled(builder, lam, moved, match))
                    moved = over[q] if q == 0 else builder.fadd(over[q], over[0])
                    down.append(_scaled(builder, lam, moved, now[q]))
                row.append(now)
                below.append(down)
            for q in range(kinds):
                match = builder.select(same, lower[p - 1][q], zero)
                new_sums[q] = builder.fadd(new_sums[q], match)
            new_along.append(row)
            above = below
        for level, values in zip(places, above, strict=True):
            for place, value in zip(level, values, strict=True):
                builder.store(value, builder.gep(d, [place]), align=8)
        end = builder.block
        j.add_incoming(builder.add(j, ir.Constant(index, 1)), end)
        for old, new in ((along, new_along), (corner, new_corner)):
            for a in range(ROWS):
                for h in range(p - 1):
                    for q in range(kinds):
                        old[a][h][q].add_incoming(new[a][h][q], end)
        for q in range(kinds):
            sums[q].add_incoming(new_sums[q], end)
        builder.branch(head)

        builder.position_at_end(done)
        for q in range(kinds):
            place = builder.gep(k, [ir.Constant(index, q)])
            builder.store(builder.fadd(builder.load(place, align=8), sums[q]), place, align=8)
        return context.get_dummy_value()

    return types.void(S, T, D, total, first, decay, levels), make


@compiled
def _fill(codes, offsets, index, padding, out):
    """Write the strings at some positions side by side, letters of one position in a row."""
    for lane in range(out.shape[1]):
        n = 0
        if lane < len(index):
            start = offsets[index[lane]]
            n = offsets[index[lane] + 1] - start
            for i in range(n):
                out[i, lane] = codes[start + i]
        for i in range(n, out.shape[0]):
            out[i, lane] = padding


@compiled
def add_pairs(
    x, x_offsets, left, y, y_offsets, right, decay, levels, codes, numbers, out, at, row, budget
):
    """Write Σ κ_p of pairs (and derivatives) to out from pair `at` and letter `row` of s on.

    Stop when about `budget` pairs of letters are done, a vector of them counted once, and return
    where to go on; `codes` and `numbers`, the `workspace`, hold what was done.
    """
    kinds, states = out.shape[1], len(levels) - 1
    total = numbers[: kinds * LANES].reshape((kinds, LANES))
    for start in range(at, len(left), LANES):
        stop = min(start + LANES, len(left))
        n, m = 0, 0
        for i in range(start, stop):
            n = max(n, x_offsets[left[i] + 1] - x_offsets[left[i]])
            m = max(m, y_offsets[right[i] + 1] - y_offsets[right[i]])
        n = (n + ROWS - 1) // ROWS * ROWS
        S = codes[: n * LANES].reshape((n, LANES))
        T = codes[n * LANES : (n + m) * LANES].reshape((m, LANES))
        D = numbers[kinds * LANES : kinds * LANES * (1 + m * states)]
        if row == 0:
            _fill(x, x_offsets, left[start:stop], NO_S, S)
            _fill(y, y_offsets, right[start:stop], NO_T, T)
            D[:] = 0.0
            total[:] = 0.0
        while row < n:
            _sweep(S, T, D, total, row, decay, levels)
            row += ROWS
            budget -= ROWS * m
            if budget < 0 and row < n:
                return start, row
        row = 0
        for i in range(start, stop):
            for q in range(kinds):
                out[i, q] = total[q, i - start]
        if budget < 0:
            return stop, 0
    return len(left), 0


def workspace(n: int, m: int, p: int, kinds: int) -> tuple[np.ndarray, np.ndarray]:
    """Return room for the letters and the sums of a batch of strings of at most n and m letters."""
    n = (n + ROWS - 1) // ROWS * ROWS
    return _aligned((n + m) * LANES, np.uint32), _aligned(
        kinds * LANES * (1 + m * (p - 1)), np.float64
    )


def _aligned(size: int, dtype: type) -> np.ndarray:
    """Return memory that begins with a cache line."""
    line = 64 // np.dtype(dtype).itemsize
    room: np.ndarray = np.empty(size + line, dtype=dtype)
    skip = (-room.ctypes.data % 64) // room.itemsize
    return room[skip : skip + size]


# ---- The longest run of letters that two strings share ----


@compiled
def _extend(letter, t, runs, longer):
    """Write how long the runs that end with this letter are, given those one letter before.

    ``runs[j]`` is that of a run which ends before letter j of t. Return the longest.
    """
    best = np.int32(0)
    for j in range(len(t)):
        run = runs[j] + np.int32(1) if t[j] == letter else np.int32(0)
        longer[j + 1] = run
        best = max(best, run)
    return best


@compiled
def add_runs(x, x_offsets, left, y, y_offsets, right, runs, out, at, row, budget):
    """Write the longest common run of pairs to out, from pair `at` and letter `row` of s on.

    Stop when about `budget` pairs of letters are done and return where to go on; `runs`, two rows
    that take turns, and out hold what was done of the last pair.
    """
    for i in range(at, len(left)):
        s = x[x_offsets[left[i]] : x_offsets[left[i] + 1]]
        t = y[y_offsets[right[i]] : y_offsets[right[i] + 1]]
        m = len(t)
        if row == 0:
            runs[:, : m + 1] = 0
            out[i] = 0.0
        while row < len(s):
            turn = row % 2
            out[i] = max(out[i], _extend(s[row], t, runs[turn, :m], runs[1 - turn, : m + 1]))
            row += 1
            budget -= m + 8
            if budget < 0 and row < len(s):
                return i, row
        row = 0
        if budget < 0:
            return i + 1, 0
    return len(left), 0


# ---- Levenshtein's distance of pairs of strings, 64 letters of one at a time ----
# In the table of distances of beginnings, neighbours differ by −1, 0 or 1. Myers (1999) keeps the
# differences down a column of 64 rows as bits of two words and takes all of them to the next
# column with some twenty operations; Hyyrö (2003) gives the form for blocks of rows, used here. A
# block hands the differences along its last row to the block below.


SLOTS = 256  # of a table of the letters of a block, of which there are at most 64
EMPTY = np.uint32(0xFFFFFFFF)
ONE = np.uint64(1)
ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


@compiled
def _note(s, keys, masks):
    """Write down for each letter at which positions of s it stands, as bits."""
    keys[:] = EMPTY
    masks[:] = 0
    for i in range(len(s)):
        slot = s[i] & (SLOTS - 1)
        while keys[slot] != EMPTY and keys[slot] != s[i]:
            slot = (slot + 1) & (SLOTS - 1)
        keys[slot] = s[i]
        masks[slot] |= ONE << np.uint64(i)


@compiled
def _block(s, t, steps, keys, masks):
    """Take up to 64 letters of s through t; steps are the differences along the row above.

    They become those along the last row of the block; return their sum.
    """
    _note(s, keys, masks)
    last = ONE << np.uint64(len(s) - 1)
    up, down = ALL, np.uint64(0)
    total = 0
    for j in range(len(t)):
        slot = t[j] & (SLOTS - 1)
        while keys[slot] != t[j] and keys[slot] != EMPTY:
            slot = (slot + 1) & (SLOTS - 1)
        equal = masks[slot]
        above = steps[j]
        vertical = equal | down
        if above < 0:
            equal |= ONE
        across = (((equal & up) + up) ^ up) | equal
        rise = down | (ALL ^ (across | up))
        fall = up & across
        step = 0
        if rise & last:
            step = 1
        elif fall & last:
            step = -1
        rise <<= ONE
        fall <<= ONE
        if above < 0:
            fall |= ONE
        elif above > 0:
            rise |= ONE
        up = fall | (ALL ^ (vertical | rise))
        down = rise & vertical
        steps[j] = step
        total += step
    return total


@compiled
def add_distances(x, x_offsets, left, y, y_offsets, right, steps, out, at, row, budget):
    """Write distances of pairs to out, from pair `at` and letter `row` of s on.

    Stop when about `budget` columns of 64 rows are done and return where to go on; `steps` holds
    what was done of the last pair.
    """
    keys = np.empty(SLOTS, dtype=np.uint32)
    masks = np.empty(SLOTS, dtype=np.uint64)
    for i in range(at, len(left)):
        s = x[x_offsets[left[i]] : x_offsets[left[i] + 1]]
        t = y[y_offsets[right[i]] : y_offsets[right[i] + 1]]
        if row == 0:
            steps[: len(t)] = 1
            out[i] = len(t)
        while row < len(s):
            stop = min(row + 64, len(s))
            out[i] = stop + _block(s[row:stop], t, steps[: len(t)], keys, masks)
            row = stop
            budget -= len(t) + SLOTS // 8
            if budget < 0 and row < len(s):
                return i, row
        row = 0
        if budget < 0:
            return i + 1, 0
    return len(left), 0
