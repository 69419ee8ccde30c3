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
def product(
    A,
    B,
    XN,
    YN,
    V,
    OUT,
    n,
    m,
    span,
    alpha,
    C,
    PROFILE: tl.constexpr,
    FORM: tl.constexpr,
    WIDTH: tl.constexpr,
    CHUNK: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    T: tl.constexpr,
    UNITS: tl.constexpr,
):
    """Write Σⱼ κ(s(xᵢ, yⱼ)) vⱼ over the columns j of one span, for the rows i of one block.

    With UNITS differences of a column are multiplied by its entry of XN.
    """
    number = C.dtype.element_ty  # of entries of K
    c0, c1, c2, c3 = tl.load(C), tl.load(C + 1), tl.load(C + 2), tl.load(C + 3)
    c4, c5, c6, c7 = tl.load(C + 4), tl.load(C + 5), tl.load(C + 6), tl.load(C + 7)
    part = tl.program_id(1)
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    inside = rows < n
    at = rows.to(tl.int64)
    ks = tl.arange(0, CHUNK)
    if WIDTH == CHUNK and FORM <= 2:
        a = tl.load(A + at[:, None] * WIDTH + ks[None, :], mask=inside[:, None], other=0.0)
    if FORM <= 1:
        xn = tl.load(XN + at, mask=inside, other=0.0)
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
        if FORM >= 3:  # differences, WIDTH of them
            s = tl.zeros((BM, BN), number)
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
            s = tl.zeros((BM, BN), tl.float32)
            if WIDTH <= UNROLLED * CHUNK:
                for k in tl.static_range(0, WIDTH, CHUNK):
                    s = _add_product(s, A, B, at, to, k + ks, inside, there, WIDTH)
            else:
                for k in tl.range(0, WIDTH, CHUNK):
                    s = _add_product(s, A, B, at, to, k + ks, inside, there, WIDTH)
        if FORM <= 1:
            yn = tl.load(YN + to, mask=there, other=0.0)
            s += xn[:, None] + yn[None, :]
            if FORM == 1:
                s = tl.maximum(s, 0.0)
        elif FORM == 2:
            s *= alpha
        K = PROFILE(s, c0, c1, c2, c3, c4, c5, c6, c7)
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
