"""K V and Kᵀ U on a device without K: one Triton program for radial, dot and ℓₚ kernels.

A bound kernel says with `fused()` what it is in these terms; None sends the caller to plain torch
tiles, which are the oracle of what is here.
"""

from __future__ import annotations

import linecache
import math
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

from mercer.errors import users_level

# ---- From the formula of a profile κ(s) to the source of a function that Triton compiles ----
# A kernel's ``_profile(s, xp)`` is run once on a symbol: what it does to it is written down, a
# line an operation. Numbers in the formula become arguments, so that another value needs no new
# compilation.


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
        if isinstance(power, float) and 0 < power < math.inf:  # of s ≥ 0; 2^(c·log₂0) is 0
            return self.tape.write(f"tl.exp2(tl.log2({self.name}) * {self.tape.constant(power)})")
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

    def exp2(self, s: Any) -> _Symbol:
        return self._call("exp2", s)

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


SYMBOLS = ("s", "s1", "s2")  # what a formula may be of: distances and products that are multiplied


def traced(formula: Any, count: int = 1) -> Profile | None:
    """Return what a formula ``formula(s, xp)`` does, or None where it has no form in Triton.

    Parameters
    ----------
    formula : callable
        Called with as many symbols as are asked for, and ``xp``.
    count : int, default=1
        How many.
    """
    tape = _Tape()
    try:
        value = formula(*(_Symbol(name, tape) for name in SYMBOLS[:count]), _Functions(tape))
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
    """Return the lines as a function that Triton's programs can call."""
    import triton
    import triton.language as tl

    arguments = ", ".join(f"c{i}" for i in range(MOST))
    body = "\n    ".join(lines)
    source = f"def profile({', '.join(SYMBOLS)}, {arguments}):\n    {body}\n    return value\n"
    file = f"<mercer profile {abs(hash(lines)):x}>"
    # Triton reads the source of what it compiles; of text that was never a file it is found here.
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    space: dict[str, Any] = {"tl": tl}
    exec(compile(source, file, "exec"), space)
    return triton.jit(space["profile"])


# ---- fused ----


SPAN = 8192  # columns summed by one program; the sums of spans are added in float64
WIDEST = 16  # right-hand sides at a time
ENTRIES = 2**28  # of partial sums alive at a time
COLUMNS = 256  # of points in float64; of wider ones a product of matrices is faster
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"  # as Triton itself asks, at its import
#: Rows and columns of what a program has in hand, and its warps.
TILES = {"products": (128, 128, 4), "differences": (64, 64, 4), "double": (64, 32, 4)}
FORMS = {
    "none": -1,
    "exponent": 0,
    "squares": 1,
    "dot": 2,
    "differences": 3,
    "absolutes": 4,
    "powers": 5,
    "factor": 6,
}
#: c(‖x‖² + ‖y‖²) up to which exp(c‖x−y‖²) is 2^(−2c xᵀy) between two diagonal matrices: neither it
#: nor its sums leave the range of float32, and nothing has to be added for each entry.
FACTORED = 60.0
BY_DIFFERENCES = ("differences", "absolutes", "powers")


@lru_cache(maxsize=8)
def _runs_on(device: str) -> bool:
    """Whether Triton is there and its programs compile and run; looked at once for a device."""
    try:
        import torch
        import triton  # noqa: F401
    except ImportError:
        return False
    if INTERPRETED:
        return True
    x = torch.zeros(2, 2, device=device)
    try:  # two columns: they are multiplied in float64, which Triton 3.0 does not
        _launch([_sides(Ingredient("dot", x, x))], Profile(("value = s",), ()), x)
    except Exception as error:  # Triton raises of all kinds: no C compiler, an old driver
        warnings.warn(
            f"Triton cannot run on {device} ({type(error).__name__}: {error}); products are "
            "computed in tiles by torch, which takes longer. Install a C compiler, or a Triton "
            "that fits the driver.",
            RuntimeWarning,
            stacklevel=users_level(),
        )
        return False
    return True


def triton_runs_on(x: Any) -> bool:
    """Whether programs for the device of this tensor can be compiled and run."""
    return (x.is_cuda or INTERPRETED) and _runs_on(str(x.device))


def available(x: Any) -> bool:
    """Whether products with rows of this tensor can be fused: on a GPU, with Triton."""
    if str(x.dtype) not in ("torch.float32", "torch.float64") or x.requires_grad:
        return False
    return triton_runs_on(x)


@dataclass(frozen=True, eq=False)
class Ingredient:
    """What kernels are formulas of: s of rows x and y, from their products or their differences.

    Parameters
    ----------
    form : {"squares", "dot", "differences", "absolutes", "powers"}
        s = ‖x‖² + ‖y‖² − 2xᵀy, xᵀy, Σ(xₖ−yₖ)², Σ|xₖ−yₖ|, Σ|xₖ−yₖ|^p.
    x, y : tensors of shape (n, d) and (m, d)
        Coordinates in which that is s; float32, or float64 with differences.
    unit : tensor of shape (d,), optional
        What multiplies the differences of a column; by default 1.
    p : float, default=1.0
        That of "powers".
    decay : float, optional
        c, of "squares": s is c log₂e times what it is else, the exponent of exp(c‖x−y‖²).
    """

    form: str
    x: Any
    y: Any
    unit: Any = None
    p: float = 1.0
    decay: float | None = None

    @cached_property
    def sides(self) -> _Sides:
        """Both operands as the program reads them."""
        return _sides(self)


@dataclass(frozen=True, eq=False)
class Fused:
    """factor · κ(s), or κ(s, s₁, …) of several measures, for a formula κ.

    Parameters
    ----------
    measures : tuple of Ingredient
        What κ is a formula of; all of the same number of rows, and of one precision.
    formula : callable
        ``formula(s, …, xp)``.
    profile : Profile
        What it does.
    factor : float, default=1.0
        What multiplies it.
    """

    measures: tuple[Ingredient, ...]
    formula: Any
    profile: Profile
    factor: float = 1.0

    def times(self, V: Any) -> Any:
        """Return K V in float64.

        Parameters
        ----------
        V : tensor of shape (m, t)
            What to multiply. One column of float32 is multiplied in float32, others in float64.
        """
        return self._multiply(V, turned=False)

    def pull(self, U: Any) -> Any:
        """Return Kᵀ U in float64; entry by entry the K of `times`, to the bit."""
        return self._multiply(U, turned=True)

    def scaled(self, factor: float) -> Fused:
        """Return a multiple."""
        return replace(self, factor=self.factor * factor)

    def plus(self, other: Any) -> Any:
        """Return the sum of both: one program where it can be, else one after the other."""
        both = self._with(other, lambda a, b: a + b)
        return FusedSum((self, other)) if both is None else both

    def by(self, other: Any) -> Fused | None:
        """Return the product, entry by entry, of both; None for tiles."""
        return self._with(other, lambda a, b: a * b)

    def _with(self, other: Any, join: Any) -> Fused | None:
        if not isinstance(other, Fused):
            return None
        measures, count = self.measures + other.measures, len(self.measures)
        kinds = {measure.x.dtype for measure in measures}
        if len(measures) > len(SYMBOLS) or len(kinds) > 1:
            return None

        def formula(*given: Any) -> Any:
            first = self.formula(*given[:count], given[-1])
            second = other.formula(*given[count:])
            first = first if self.factor == 1.0 else first * self.factor
            return join(first, second if other.factor == 1.0 else second * other.factor)

        profile = traced(formula, len(measures))
        return None if profile is None else Fused(measures, formula, profile)

    def _multiply(self, V: Any, turned: bool) -> Any:
        import torch

        sides: list[_Sides] = [measure.sides for measure in self.measures]
        sides = [side.turned() for side in sides] if turned else sides
        alone = sides[0].alone if len(sides) == 1 else None
        left, right = sides[0].left, sides[0].right
        n, t = len(left), V.shape[1]
        scale = None
        if alone is not None and n and len(right):
            sides = [replace(sides[0], form="factor")]
            scale, own = alone
            kind = V.dtype if t == 1 else torch.float64
            V = V.double() * own[:, None]
            largest = V.abs().max().clamp(min=1e-300)  # of float32: sums must stay in its range
            scale, V = scale * largest, (V / largest).to(kind)
        out = torch.zeros(n, t, dtype=torch.float64, device=left.device)
        if n and len(right):
            for first in range(0, t, WIDEST):
                part = slice(first, first + WIDEST)
                out[:, part] = _launch(sides, self.profile, V[:, part])
        if scale is not None:
            out *= scale[:, None]
        return out if self.factor == 1.0 else out.mul_(self.factor)


@dataclass(frozen=True, eq=False)
class FusedSum:
    """K₁ + K₂ + …, one after the other."""

    parts: tuple[Any, ...]

    def times(self, V: Any) -> Any:
        """Return K V."""
        return sum(part.times(V) for part in self.parts)

    def pull(self, U: Any) -> Any:
        """Return Kᵀ U."""
        return sum(part.pull(U) for part in self.parts)

    def scaled(self, factor: float) -> FusedSum:
        """Return a multiple."""
        return FusedSum(tuple(part.scaled(factor) for part in self.parts))

    def plus(self, other: Any) -> FusedSum:
        """Return the sum of both; the last part may take more into its program."""
        if isinstance(other, FusedSum):
            return FusedSum(self.parts + other.parts)
        last = self.parts[-1].plus(other)
        more = last.parts if isinstance(last, FusedSum) else (last,)
        return FusedSum(self.parts[:-1] + more)

    def by(self, other: Any) -> None:
        """Return None: products of sums that one program cannot hold are made in tiles."""
        return


def fused_form(
    form: str, x: Any, y: Any, formula: Any, unit: Any = None, p: float = 1.0
) -> Fused | None:
    """Return a kernel as `Fused`, or None where plain tiles must do.

    Parameters
    ----------
    form, x, y, unit, p
        As of `Ingredient`.
    formula : callable
        ``formula(s, xp)``, the profile.
    """
    if not available(x) or not available(y) or x.dtype != y.dtype:
        return None
    if str(x.dtype) == "torch.float64":
        form = "differences" if form == "squares" else form  # tensor cores would round to float32
        if form not in BY_DIFFERENCES or x.shape[1] > COLUMNS:
            return None
    profile = traced(formula)
    if profile is None:
        return None
    decay = profile.decay if form == "squares" else None
    if decay is not None:
        # exp(c s) = 2^(−2c′ xᵀy + c′‖x‖² + c′‖y‖²), c′ = c log₂e: the sum is the exponent.
        formula, profile = _power_of_two, Profile(("value = tl.exp2(s)",), ())
    return Fused((Ingredient(form, x, y, unit, p, decay),), formula, profile)


def _power_of_two(s: Any, xp: Any) -> Any:
    """Return 2^s of a symbol."""
    return xp.exp2(s)


# ---------------------------------------------------------------------------------- the product
@dataclass(frozen=True, eq=False)
class _Sides:
    """Both operands as the program reads them, squared norms, a factor, and their width.

    Of differences the units of the columns are in the place of the norms, and their power in that
    of the factor. `alone` are the diagonal matrices beside 2^(−2c′ xᵀy), where that may be taken.
    """

    form: str
    left: Any
    right: Any
    xn: Any
    yn: Any
    alpha: float = 1.0
    width: int = 1
    chunk: int = 16
    alone: tuple[Any, Any] | None = None

    def turned(self) -> _Sides:
        """Return the sides of Kᵀ."""
        alone = None if self.alone is None else self.alone[::-1]
        both = {"left": self.right, "right": self.left, "xn": self.yn, "yn": self.xn}
        return replace(self, **both, alone=alone)

    def part(self, rows: slice) -> _Sides:
        """Return the sides for some of the columns of K."""
        yn = self.yn if self.form in BY_DIFFERENCES else self.yn[rows]
        return replace(self, right=self.right[rows], yn=yn)


def _sides(measure: Ingredient) -> _Sides:
    import torch

    form, x, y = measure.form, measure.x, measure.y
    d = x.shape[1]
    none = torch.empty(0, dtype=torch.float32, device=x.device)
    if form in BY_DIFFERENCES:
        unit = none if measure.unit is None else measure.unit
        return _Sides(form, x.contiguous(), y.contiguous(), unit, unit, measure.p, width=d)
    chunk = next((c for c in (32, 64, 128) if 3 * d <= c), 64)
    width = -(-3 * d // chunk) * chunk
    if form == "dot":
        p, q = (2.0 ** (7 - math.frexp(float(z.abs().max()) or 1.0)[1]) for z in (x, y))
        left, _ = _halves(x, p, width, first=True)
        right, _ = _halves(y, q, width, first=False)
        return _Sides(form, left, right, none, none, 1.0 / (p * q), width, chunk)
    unit = 1.0 if measure.decay is None else measure.decay * LOG2E
    p = math.sqrt(2.0 * abs(unit))
    left, xn = _halves(x, p, width, first=True)
    right, yn = _halves(y, -math.copysign(p, unit), width, first=False)
    xn, yn, alone = xn * unit, yn * unit, None
    if measure.decay is not None:
        form = "exponent"
        reach = torch.stack([z.abs().max() for z in (xn, yn) if len(z)]).sum()
        if float(reach) <= FACTORED:
            alone = xn.exp2(), yn.exp2()
    return _Sides(form, left, right, xn.float(), yn.float(), 1.0, width, chunk, alone)


def _halves(z: Any, scale: float, width: int, first: bool) -> tuple[Any, Any]:
    """Return [h, l, h] or [l, h, h] of scale · z in float16, zeros up to the width, and ‖z‖²."""
    import torch

    from mercer.engines.device.triton import halve

    n, d = z.shape
    out = torch.empty(n, width, dtype=torch.float16, device=z.device)
    norms = torch.empty(n, dtype=torch.float64, device=z.device)
    out[:, 3 * d :] = 0.0
    if n:
        columns = 1 << max(0, d - 1).bit_length()
        rows = max(1, 4096 // columns)
        halve[(-(-n // rows),)](
            z.contiguous(), out, norms, n, d, scale, WIDTH=width, FIRST=first, D=columns, BM=rows
        )
    return out, norms


def _launch(sides: list[_Sides], profile: Profile, V: Any) -> Any:
    """Return Σⱼ κ(sᵢⱼ) vⱼ for a few columns of V, spans of columns j summed in float64."""
    import torch

    from mercer.engines.device.triton import product

    lead = sides[0]
    n, m, t = len(lead.left), len(lead.right), V.shape[1]
    T = 1 if t == 1 else WIDEST
    if T == 1:
        V = V.contiguous()
    else:
        V = torch.nn.functional.pad(V.double(), (0, T - t))
    several = any(side.width > side.chunk for side in sides) or len(sides) > 1
    # Differences use no tensor cores and want more registers for each entry.
    differ = any(side.form in BY_DIFFERENCES for side in sides)
    double = lead.left.dtype == torch.float64
    BM, BN, warps = TILES["double" if double else "differences" if differ else "products"]
    if not differ and (T > 1 or several):
        BN = 64 if T == 1 else 32
    if not differ and len(sides) > 2:
        BN = 32
    spans = -(-m // SPAN)
    together = max(1, min(spans, ENTRIES // (n * T)))
    number = torch.float64 if double else torch.float32
    told = profile.constants
    constants = torch.tensor([*told, *([0.0] * (MOST - len(told)))], dtype=number).to(V.device)
    total = torch.zeros(n, T, dtype=torch.float64, device=V.device)
    absent = replace(lead, form="none", width=16, chunk=16)
    three = [*sides, absent, absent][:3]
    kinds: dict[str, Any] = {}
    for place, side in zip(("", "1", "2"), three, strict=True):
        units = side.form in BY_DIFFERENCES and len(side.xn) > 0
        own = {"FORM": FORMS[side.form], "WIDTH": side.width, "CHUNK": side.chunk, "UNITS": units}
        kinds |= {name + place: value for name, value in own.items()}
    for first in range(0, spans, together):
        count = min(together, spans - first)
        part = slice(first * SPAN, min((first + count) * SPAN, m))
        sums = torch.empty(count, n, T, dtype=V.dtype, device=V.device)
        operands = [side.part(part) for side in three]
        product[(-(-n // BM), count)](
            *(v for side in operands for v in (side.left, side.right, side.xn, side.yn)),
            *(side.alpha for side in operands),
            V[part],
            sums,
            n,
            part.stop - part.start,
            SPAN,
            constants,
            PROFILE=compiled(profile.lines),
            **kinds,
            BM=BM,
            BN=BN,
            T=T,
            num_warps=8 if several and not differ else warps,
            num_stages=3,
        )
        total += sums.sum(0, dtype=torch.float64)
    return total[:, :t]


# ---- Products of float32 tensors in the precision of float32, whatever a user allowed torch ----


@contextmanager
def full_precision() -> Iterator[None]:
    """Let products of float32 matrices on a GPU be those of float32: TF32 keeps ten bits."""
    import torch

    matmul = torch.backends.cuda.matmul
    # torch 2.9 brought a switch of its own to each backend, and refuses to mix it with the old.
    name = "fp32_precision" if hasattr(matmul, "fp32_precision") else "allow_tf32"
    exact = "ieee" if name == "fp32_precision" else False
    before = getattr(matmul, name)
    if before == exact:
        yield
        return
    setattr(matmul, name, exact)
    try:
        yield
    finally:
        setattr(matmul, name, before)
