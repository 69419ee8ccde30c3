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
    """Return what a formula ``formula(s, xp)`` does, or None where it has no form in Triton."""
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
    """Return the lines as a function that Triton's programs can call."""
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
