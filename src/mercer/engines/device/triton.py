"""From the formula of a profile κ(s) to the source of a function that Triton compiles.

A kernel's ``_profile(s, xp)`` is run once on a symbol: what it does to it is written down, a line
an operation. Numbers in the formula become arguments, so that another value needs no new
compilation.
"""

from __future__ import annotations

import linecache
import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import triton
import triton.language as tl

# ---- The Triton program of K V: a tile of K is made, used and forgotten on the chip ----
# Inner products in float32 accuracy from half precision: x = h + l with two float16 numbers holds
# 22 bits, and x·y = h·h′ + h·l′ + l·h′ to as many. The three products are one, of rows [h, l, h]
# and [l′, h′, h′], on the tensor cores at twice the rate of three products in TF32. Where
# profiles ask for exact small distances, differences are summed instead. Entries of K are
# float32; products with V and their sums are float64 where V is, so that K V and Kᵀ U are those
# of one matrix.


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
    c0,
    c1,
    c2,
    c3,
    c4,
    c5,
    c6,
    c7,
    PROFILE: tl.constexpr,
    FORM: tl.constexpr,
    WIDTH: tl.constexpr,
    CHUNK: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    T: tl.constexpr,
):
    """Write Σⱼ κ(s(xᵢ, yⱼ)) vⱼ over the columns j of one span, for the rows i of one block."""
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
            s = tl.zeros((BM, BN), tl.float32)
            for k in tl.range(0, WIDTH):
                xk = tl.load(A + at * WIDTH + k, mask=inside, other=0.0)
                yk = tl.load(B + to * WIDTH + k, mask=there, other=0.0)
                gap = xk[:, None] - yk[None, :]
                if FORM == 3:
                    s += gap * gap
                else:
                    s += tl.abs(gap)
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


# ---- fused profile ----


MOST = 8  # numbers of a formula
LOG2E = math.log2(math.e)


class Untraceable(Exception):
    """A formula does what has no form in Triton; the caller takes another way."""


@dataclass(frozen=True)
class Profile:
    """A formula: its lines, with c0, c1, … for the numbers, and the numbers.

    Parameters
    ----------
    lines : tuple of str
        Assignments; the last one is the value.
    constants : tuple of float
        The numbers.
    decay : float or None
        c where the formula is exp(c s) and nothing else.
    """

    lines: tuple[str, ...]
    constants: tuple[float, ...]
    decay: float | None = None


@dataclass
class _Tape:
    lines: list[str] = field(default_factory=list)
    constants: list[float] = field(default_factory=list)

    def constant(self, value: Any) -> str:
        try:
            value = float(value)
        except (TypeError, ValueError):
            raise Untraceable(f"a value of type {type(value).__name__}") from None
        if not math.isfinite(value):
            raise Untraceable("a number that is not finite")
        if value not in self.constants:
            if len(self.constants) == MOST:
                raise Untraceable(f"more than {MOST} numbers")
            self.constants.append(value)
        return f"c{self.constants.index(value)}"

    def write(self, text: str) -> _Symbol:
        self.lines.append(f"t{len(self.lines)} = {text}")
        return _Symbol(f"t{len(self.lines) - 1}", self)

    def name(self, value: Any) -> str:
        return value.name if isinstance(value, _Symbol) else self.constant(value)


class _Symbol:
    """A value inside the formula."""

    __array_ufunc__ = None
    requires_grad = False

    def __init__(self, name: str, tape: _Tape):
        self.name, self.tape = name, tape

    def _binary(self, other: Any, sign: str, swapped: bool = False) -> _Symbol:
        a, b = self.name, self.tape.name(other)
        return self.tape.write(f"{b} {sign} {a}" if swapped else f"{a} {sign} {b}")

    def __add__(self, other: Any) -> _Symbol:
        return self._binary(other, "+")

    __radd__ = __add__

    def __sub__(self, other: Any) -> _Symbol:
        return self._binary(other, "-")

    def __rsub__(self, other: Any) -> _Symbol:
        return self._binary(other, "-", swapped=True)

    def __mul__(self, other: Any) -> _Symbol:
        return self._binary(other, "*")

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> _Symbol:
        if isinstance(other, _Symbol):
            return self._binary(other, "/")
        return self._binary(1.0 / float(other), "*")

    def __rtruediv__(self, other: Any) -> _Symbol:
        return self._binary(other, "/", swapped=True)

    def __neg__(self) -> _Symbol:
        return self._binary(-1.0, "*")

    def __abs__(self) -> _Symbol:
        return self.tape.write(f"tl.abs({self.name})")

    def __pow__(self, power: Any) -> _Symbol:
        if not isinstance(power, int) or not 1 <= power <= 64:
            raise Untraceable(f"the power {power!r}")
        out, base = None, self
        while power:
            if power & 1:
                out = base if out is None else out * base
            power >>= 1
            base = base * base if power else base
        return out  # type: ignore[return-value]

    def __lt__(self, other: Any) -> _Symbol:
        return self._binary(other, "<")

    def __gt__(self, other: Any) -> _Symbol:
        return self._binary(other, ">")

    def __le__(self, other: Any) -> _Symbol:
        return self._binary(other, "<=")

    def __ge__(self, other: Any) -> _Symbol:
        return self._binary(other, ">=")

    def __eq__(self, other: Any) -> Any:
        return self._binary(other, "==")

    def __ne__(self, other: Any) -> Any:
        return self._binary(other, "!=")

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise Untraceable("a branch on a value")

    def __getattr__(self, name: str) -> Any:
        raise Untraceable(f"the attribute {name!r}")


class _Functions:
    """What a formula may call, as ``xp``."""

    def __init__(self, tape: _Tape):
        self._tape = tape

    def _call(self, name: str, *values: Any) -> _Symbol:
        return self._tape.write(f"tl.{name}({', '.join(map(self._tape.name, values))})")

    def exp(self, s: Any) -> _Symbol:
        return self._call("exp2", s * LOG2E)

    def log(self, s: Any) -> _Symbol:
        return self._call("log", s)

    def log1p(self, s: Any) -> _Symbol:
        # A profile's logarithm stands in an exponent, where its absolute error counts.
        return self._call("log", s + 1.0)

    def sqrt(self, s: Any) -> _Symbol:
        return self._call("sqrt", s)

    def abs(self, s: Any) -> _Symbol:
        return self._call("abs", s)

    def maximum(self, s: Any, t: Any) -> _Symbol:
        return self._call("maximum", s, t)

    def minimum(self, s: Any, t: Any) -> _Symbol:
        return self._call("minimum", s, t)

    def where(self, condition: Any, s: Any, t: Any) -> _Symbol:
        return self._call("where", condition, s, t)

    def zeros_like(self, s: Any) -> _Symbol:
        return s * 0.0

    def ones_like(self, s: Any) -> _Symbol:
        return s * 0.0 + 1.0

    def __getattr__(self, name: str) -> Any:
        raise Untraceable(f"the function {name!r}")


def traced(formula: Any) -> Profile | None:
    """Return what a formula ``formula(s, xp)`` does, or None where it has no form in Triton.

    Parameters
    ----------
    formula : callable
        A profile, as kernels define it.
    """
    tape = _Tape()
    try:
        value = formula(_Symbol("s", tape), _Functions(tape))
    except (Untraceable, TypeError, ValueError):  # NumPy's and torch's functions refuse a symbol
        return None
    if not isinstance(value, _Symbol):
        return None
    lines = (*tape.lines, f"value = {value.name}")
    return Profile(lines, tuple(tape.constants), _decay(lines, tape.constants))


def _decay(lines: tuple[str, ...], constants: list[float]) -> float | None:
    """Return c where the lines say 2^((s·a)·b) or 2^(s·a)."""
    if lines == ("t0 = s * c0", "t1 = tl.exp2(t0)", "value = t1"):
        return constants[0] / LOG2E
    if lines == ("t0 = s * c0", "t1 = t0 * c1", "t2 = tl.exp2(t1)", "value = t2"):
        return constants[0] * constants[1] / LOG2E
    return None


@lru_cache(maxsize=256)
def compiled(lines: tuple[str, ...]) -> Any:
    """Return the lines as a function that Triton's programs can call.

    Parameters
    ----------
    lines : tuple of str
        Of a `Profile`.
    """
    import triton
    import triton.language as tl

    arguments = ", ".join(f"c{i}" for i in range(MOST))
    body = "\n    ".join(lines)
    source = f"def profile(s, {arguments}):\n    {body}\n    return value\n"
    file = f"<mercer profile {abs(hash(lines)):x}>"
    # Triton reads the source of what it compiles; of text that was never a file it is found here.
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    space: dict[str, Any] = {"tl": tl}
    exec(compile(source, file, "exec"), space)
    return triton.jit(space["profile"])
