"""The Triton program of K V: a tile of K is made, used and forgotten on the chip.

Inner products in float32 accuracy from half precision: x = h + l with two float16 numbers holds
22 bits, and x·y = h·h′ + h·l′ + l·h′ to as many. The three products are one, of rows [h, l, h]
and [l′, h′, h′], on the tensor cores at twice the rate of three products in TF32. Where
profiles ask for exact small distances, differences are summed instead, and of points in float64
always: entries of K are float64 then, and float32 else. Products with V and their sums are
float64 where V is, so that K V and Kᵀ U are those of one matrix.

The one file that needs Triton when it is imported: `fused` does so when a product is asked for.
Annotations are evaluated here: the interpreter of Triton 3.0 does not know ``"tl.constexpr"``.
"""

import triton
import triton.language as tl

UNROLLED = tl.constexpr(8)  # chunks of a row that are written out, for the sake of read-ahead


@triton.jit
def _add_product(s, A, B, at, to, ks, inside, there, WIDTH: tl.constexpr):
    """Return s + A Bᵀ over some columns."""
    a = tl.load(A + at[:, None] * WIDTH + ks[None, :], mask=inside[:, None], other=0.0)
    b = tl.load(B + to[None, :] * WIDTH + ks[:, None], mask=there[None, :], other=0.0)
    return tl.dot(a, b, s)


@triton.jit
def _rows(A, at, ks, inside, FORM: tl.constexpr, WIDTH: tl.constexpr, CHUNK: tl.constexpr):
    """Return the rows of a block where they are in hand as a whole, else anything."""
    if WIDTH == CHUNK and (FORM == 0 or FORM == 1 or FORM == 2 or FORM == 6):
        a = tl.load(A + at[:, None] * WIDTH + ks[None, :], mask=inside[:, None], other=0.0)
    else:
        a = 0.0
    return a


@triton.jit
def _norms(XN, at, inside, FORM: tl.constexpr):
    """Return the squared norms of these rows where they are used, else anything."""
    if FORM == 0 or FORM == 1:
        xn = tl.load(XN + at, mask=inside, other=0.0)
    else:
        xn = 0.0
    return xn


@triton.jit
def _measure(
    A,
    B,
    XN,
    YN,
    alpha,
    a,
    xn,
    at,
    to,
    ks,
    inside,
    there,
    like,
    FORM: tl.constexpr,
    WIDTH: tl.constexpr,
    CHUNK: tl.constexpr,
    UNITS: tl.constexpr,
):
    """Return s of a block; `like` are zeros of its shape, in the precision of entries of K."""
    if FORM == -1:
        s = 0.0
    elif FORM >= 3 and FORM <= 5:  # differences, WIDTH of them
        s = like
        for k in tl.range(0, WIDTH):
            xk = tl.load(A + at * WIDTH + k, mask=inside, other=0.0)
            yk = tl.load(B + to * WIDTH + k, mask=there, other=0.0)
            gap = xk[:, None] - yk[None, :]
            if UNITS:
                gap *= tl.load(XN + k)
            if FORM == 3:
                s += gap * gap
            elif FORM == 4:
                s += tl.abs(gap)
            else:
                s += tl.exp2(tl.log2(tl.abs(gap)) * alpha)
    elif WIDTH == CHUNK:
        b = tl.load(B + to[None, :] * WIDTH + ks[:, None], mask=there[None, :], other=0.0)
        s = tl.dot(a, b)
    else:
        s = like
        if WIDTH <= UNROLLED * CHUNK:
            for k in tl.static_range(0, WIDTH, CHUNK):
                s = _add_product(s, A, B, at, to, k + ks, inside, there, WIDTH)
        else:
            for k in tl.range(0, WIDTH, CHUNK):
                s = _add_product(s, A, B, at, to, k + ks, inside, there, WIDTH)
    if FORM == 0 or FORM == 1:
        yn = tl.load(YN + to, mask=there, other=0.0)
        s += xn[:, None] + yn[None, :]
        if FORM == 1:
            s = tl.maximum(s, 0.0)
    elif FORM == 2:
        s *= alpha
    return s


@triton.jit
def product(
    A,
    B,
    XN,
    YN,
    A1,
    B1,
    XN1,
    YN1,
    A2,
    B2,
    XN2,
    YN2,
    alpha,
    alpha1,
    alpha2,
    V,
    OUT,
    n,
    m,
    span,
    C,
    PROFILE: tl.constexpr,
    FORM: tl.constexpr,
    WIDTH: tl.constexpr,
    CHUNK: tl.constexpr,
    UNITS: tl.constexpr,
    FORM1: tl.constexpr,
    WIDTH1: tl.constexpr,
    CHUNK1: tl.constexpr,
    UNITS1: tl.constexpr,
    FORM2: tl.constexpr,
    WIDTH2: tl.constexpr,
    CHUNK2: tl.constexpr,
    UNITS2: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    T: tl.constexpr,
):
    """Write Σⱼ κ(s(xᵢ, yⱼ), …) vⱼ over the columns j of one span, for the rows i of one block.

    Up to three measures s, s₁, s₂, each of operands of its own. With UNITS differences of a column
    are multiplied by its entry of XN.
    """
    number = C.dtype.element_ty  # of entries of K
    c0, c1, c2, c3 = tl.load(C), tl.load(C + 1), tl.load(C + 2), tl.load(C + 3)
    c4, c5, c6, c7 = tl.load(C + 4), tl.load(C + 5), tl.load(C + 6), tl.load(C + 7)
    part = tl.program_id(1)
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    inside = rows < n
    at = rows.to(tl.int64)
    ks, ks1, ks2 = tl.arange(0, CHUNK), tl.arange(0, CHUNK1), tl.arange(0, CHUNK2)
    a = _rows(A, at, ks, inside, FORM, WIDTH, CHUNK)
    a1 = _rows(A1, at, ks1, inside, FORM1, WIDTH1, CHUNK1)
    a2 = _rows(A2, at, ks2, inside, FORM2, WIDTH2, CHUNK2)
    xn = _norms(XN, at, inside, FORM)
    xn1 = _norms(XN1, at, inside, FORM1)
    xn2 = _norms(XN2, at, inside, FORM2)
    if T == 1:
        total = tl.zeros((BM,), OUT.dtype.element_ty)
    else:
        ts = tl.arange(0, T)
        total = tl.zeros((BM, T), OUT.dtype.element_ty)
    first = part * span
    last = tl.minimum(first + span, m)
    for j in tl.range(first, last, BN):
        cols = j + tl.arange(0, BN)
        there = cols < last
        to = cols.to(tl.int64)
        like = tl.zeros((BM, BN), number)
        s = _measure(
            A, B, XN, YN, alpha, a, xn, at, to, ks, inside, there, like, FORM, WIDTH, CHUNK, UNITS
        )
        s1 = _measure(
            A1, B1, XN1, YN1, alpha1, a1, xn1, at, to, ks1, inside, there, like,
            FORM1, WIDTH1, CHUNK1, UNITS1,
        )  # fmt: skip
        s2 = _measure(
            A2, B2, XN2, YN2, alpha2, a2, xn2, at, to, ks2, inside, there, like,
            FORM2, WIDTH2, CHUNK2, UNITS2,
        )  # fmt: skip
        K = PROFILE(s, s1, s2, c0, c1, c2, c3, c4, c5, c6, c7)
        if T == 1:
            v = tl.load(V + to, mask=there, other=0.0)
            total += tl.sum(K.to(v.dtype) * v[None, :], 1)
        else:
            v = tl.load(V + to[:, None] * T + ts[None, :], mask=there[:, None], other=0.0)
            total += tl.dot(K.to(tl.float64), v, out_dtype=tl.float64)
    out = OUT + part.to(tl.int64) * n * T
    if T == 1:
        tl.store(out + at, total, mask=inside)
    else:
        tl.store(out + at[:, None] * T + ts[None, :], total, mask=inside[:, None])


@triton.jit
def halve(
    X,
    OUT,
    NORMS,
    n,
    d,
    scale,
    WIDTH: tl.constexpr,
    FIRST: tl.constexpr,
    D: tl.constexpr,
    BM: tl.constexpr,
):
    """Write rows scale · x = h + l as [h, l, h], or [l, h, h], in float16, and their ‖x‖²."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    ks = tl.arange(0, D)
    at = rows.to(tl.int64)
    here = (rows < n)[:, None] & (ks < d)[None, :]
    x = tl.load(X + at[:, None] * d + ks[None, :], mask=here, other=0.0)
    wide = x.to(tl.float64)
    tl.store(NORMS + at, tl.sum(wide * wide, 1), mask=rows < n)
    z = x * scale
    high = z.to(tl.float16)
    low = (z - high.to(tl.float32)).to(tl.float16)
    to = OUT + at[:, None] * WIDTH + ks[None, :]
    if FIRST:
        tl.store(to, high, mask=here)
        tl.store(to + d, low, mask=here)
    else:
        tl.store(to, low, mask=here)
        tl.store(to + d, high, mask=here)
    tl.store(to + 2 * d, high, mask=here)


@triton.jit
def pair_steps(Q, G, A, LOWER, UPPER, WANTED, STEPS, most, q, SIZE: tl.constexpr):
    """Move two variables of a block at a time until no pair violates by more than is wanted.

    The first is the one of lowest gradient that may grow, the second that of the largest gain of
    second order among those that may shrink. A is changed in place.
    """
    block = tl.program_id(0)
    ks = tl.arange(0, SIZE)
    here = ks < q
    Q += block.to(tl.int64) * q * q
    at = block * SIZE + ks
    g, a = tl.load(G + at), tl.load(A + at)
    lower, upper = tl.load(LOWER + at), tl.load(UPPER + at)
    diagonal = tl.load(Q + ks * (q + 1), mask=here, other=0.0).to(tl.float64)
    wanted = tl.load(WANTED + block)
    rising = tl.where(a < upper, g, 1e300)
    least = tl.min(rising, 0)
    violation = tl.max(tl.where(a > lower, g, -1e300), 0) - least
    steps = 0
    while (violation > wanted) & (steps < most):
        i = tl.argmin(rising, 0)
        row = tl.load(Q + i * q + ks, mask=here, other=0.0).to(tl.float64)
        own = tl.load(Q + i * q + i).to(tl.float64)
        reach = tl.maximum(g - least, 0.0)
        curvature = tl.maximum(own + diagonal - 2.0 * row, 1e-12)
        j = tl.argmax(tl.where(a > lower, reach * reach / curvature, -1.0), 0)
        other = tl.load(Q + j * q + ks, mask=here, other=0.0).to(tl.float64)
        first, second = ks == i, ks == j
        room = tl.sum(tl.where(first, upper - a, 0.0), 0)
        rest = tl.sum(tl.where(second, a - lower, 0.0), 0)
        step = tl.sum(tl.where(second, reach / curvature, 0.0), 0)
        step = tl.minimum(step, tl.minimum(room, rest))
        a = tl.where(first, tl.where(step == room, upper, a + step), a)
        a = tl.where(second, tl.where(step == rest, lower, a - step), a)
        g += step * (row - other)
        rising = tl.where(a < upper, g, 1e300)
        least = tl.min(rising, 0)
        violation = tl.max(tl.where(a > lower, g, -1e300), 0) - least
        steps += 1
    tl.store(A + at, a)
    tl.store(STEPS + block, steps)
