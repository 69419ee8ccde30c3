"""Every exception and warning of mercer: who speaks, what came, what is legal, one thing to try."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable
from contextvars import ContextVar
from types import MethodType
from typing import Any, TypeVar, overload

from numpy.linalg import LinAlgError
from sklearn.exceptions import ConvergenceWarning

__all__ = [
    "ClusterError",
    "InvalidInput",
    "MemoryBudgetExceeded",
    "MercerError",
    "ModelFileError",
    "NotAKernel",
    "NotConverged",
    "NotPositiveDefinite",
    "NotSeparable",
    "WrongType",
]

F = TypeVar("F", bound=Callable[..., Any])

# ---- Who speaks: every message begins with its name ----

_speaker: ContextVar[Any] = ContextVar("speaker", default="")


def who() -> str:
    """Return who speaks at present; the text of a kernel is made only now."""
    return str(_speaker.get() or "mercer")


class speaking_for:
    """Let a name, or a kernel, speak while a block runs: ``with speaking_for(kernel): ...``."""

    __slots__ = ("name", "token")

    def __init__(self, name: Any):
        self.name = name

    def __enter__(self) -> None:
        self.token = _speaker.set(self.name)

    def __exit__(self, *error: object) -> None:
        _speaker.reset(self.token)


@overload
def speaks(name: F) -> F: ...
@overload
def speaks(name: str, *, unless_spoken: bool = False) -> Callable[[F], F]: ...
def speaks(name: Any, *, unless_spoken: bool = False) -> Any:
    """Let a function speak under a name, or with the name of the class of its first argument.

    ``@speaks("mmd_test")`` is for a function, ``@speaks`` for a method, or a function of a model,
    and ``@speaks(".score")`` for one that adds what it does. A helper that others call speaks
    itself only where nobody does: ``unless_spoken``.
    """
    if callable(name):
        return _speaking(name, "", False)
    return lambda function: _speaking(function, name, unless_spoken)


def _speaking(function: Callable[..., Any], name: str, unless_spoken: bool) -> Callable[..., Any]:
    own = name[:1] in ("", ".")

    @functools.wraps(function)
    def speaking(*args: Any, **options: Any) -> Any:
        speaker: Any = name
        if own:
            first = args[0]
            speaker = (first if isinstance(first, type) else type(first)).__name__ + name
        elif unless_spoken:
            speaker = _speaker.get() or name
        token = _speaker.set(speaker)
        try:
            return function(*args, **options)
        except TypeError as error:
            if options:
                _explain(error, _of(speaker, function), function, options)
            raise
        finally:
            _speaker.reset(token)

    return speaking


def _of(speaker: Any, function: Any) -> str:
    """Return how a function is called that speaks under a name, its own or that of a class."""
    last = function.__name__
    return str(speaker) if str(speaker).endswith(last) else f"{speaker}.{last}"


# ---- Methods that not every model of a class has ----


class _Offered:
    """A method that is there where a check says so; why it is not, the check says itself."""

    def __init__(self, method: Callable[..., Any], check: Callable[[Any], Any]):
        self.method = method
        self.check = check
        described: Any = self
        functools.update_wrapper(described, method)

    def __get__(self, model: Any, cls: type | None = None) -> Any:
        if model is None:
            return self.of_class
        try:
            there = self.check(model)
        except Exception as error:
            raise AttributeError(str(error)) from error
        if not there:
            name = self.method.__name__
            raise AttributeError(f"This {type(model).__name__!r} has no attribute {name!r}")
        return MethodType(self.method, model)

    @functools.cached_property
    def of_class(self) -> Callable[..., Any]:
        """The method as a function of a model."""

        @functools.wraps(self.method)
        def method(model: Any, *args: Any, **options: Any) -> Any:
            return self.__get__(model)(*args, **options)

        return method


def available_if(check: Callable[[Any], Any]) -> Callable[[Callable[..., Any]], Any]:
    """Let models have a method where a check is true of them, as scikit-learn's `available_if`.

    What the check raises is what is said of a model that has it not.
    """
    return lambda method: _Offered(method, check)


# ---- Keywords that a call may not have ----


def naming(init: Callable[..., None]) -> Callable[..., None]:
    """Let a constructor say which keyword was meant where it is given one that it has not.

    Examples
    --------
    >>> import mercer
    >>> mercer.KernelRidge(lamda=1.0)
    Traceback (most recent call last):
    TypeError: KernelRidge: there is no parameter 'lamda' here; did you mean 'alpha'? It has ...
    """

    @functools.wraps(init)
    def constructor(self: Any, *args: Any, **options: Any) -> None:
        try:
            init(self, *args, **options)
        except TypeError as error:
            _explain(error, type(self).__name__, init, options)
            raise

    return constructor


def name_keywords(cls: type) -> None:
    """Let the constructor of a class, where it has one of its own, say which keyword was meant."""
    if "__init__" in vars(cls):
        cls.__init__ = naming(cls.__init__)  # type: ignore[misc]


def _explain(error: TypeError, caller: str, function: Any, options: Any) -> None:
    from mercer.misspelt import explain_call

    explain_call(error, caller, function, options)


# ---- Numbers for people ----


def figure(value: float) -> str:
    """Return a number in four digits, as reports and messages show it.

    Examples
    --------
    >>> from mercer.errors import figure
    >>> figure(0.123456), figure(54321.7), figure(3.0), figure(2e-9)
    ('0.1235', '54322', '3', '2e-09')
    """
    # 5.432e+04 is no number that people read; whole numbers keep their digits
    return f"{value:.0f}" if 9999.5 <= abs(value) < 1e7 else f"{value:.4g}"


# names in quotes, which stay as they are; numbers; and what arrays have between theirs
_TOKEN = re.compile(
    r"""(?P<name>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|"""
    r"(?P<number>\d+\.(?:\d+(?:e[+-]?\d+)?|(?=[\s,\]])))|"
    r"(?P<inner>(?<=\[)\s+|\s+(?=\]))|(?P<gap>\s+)"
)


def with_figures(text: str) -> str:
    """Return an expression, such as a kernel's, its numbers in four digits, on one line.

    Examples
    --------
    >>> from mercer.errors import with_figures
    >>> with_figures("RBF(length_scale=0.70710678) + Linear(scale=1.0)")
    'RBF(length_scale=0.7071) + Linear(scale=1.0)'
    """
    return _TOKEN.sub(_shown, text)


def _shown(found: re.Match[str]) -> str:
    if found["number"]:
        digits = found[0].partition("e")[0].replace(".", "").strip("0")
        plain = len(digits) <= 4 and not found[0].endswith(".")
        return found[0] if plain else figure(float(found[0]))
    return found["name"] or (" " if found["gap"] else "")


# ---- Exceptions and warnings ----


LONGEST, HEAD, TAIL = 1900, 1300, 500  # characters of a message, and what is kept of a longer one


def shortened(message: Any) -> Any:
    """Return a message without the middle, where it quotes what is long: a header, an array."""
    if not isinstance(message, str) or len(message) <= LONGEST:
        return message
    left_out = len(message) - HEAD - TAIL
    return f"{message[:HEAD]} … ({left_out} characters left out) … {message[-TAIL:]}"


class MercerError(Exception):
    """Root of every exception raised by mercer."""

    def __init__(self, message: Any = "", *more: Any):
        super().__init__(shortened(message), *more)


class InvalidInput(MercerError, ValueError):
    """Data or a parameter is outside what the callee accepts."""


class WrongType(InvalidInput, TypeError):
    """Data hold what is no number, or are sparse; a TypeError too, as scikit-learn's are."""


def refusal(name: str, text: str, kind: type[InvalidInput] = InvalidInput) -> InvalidInput:
    """Return what a name refuses, as one for which others may speak: see `said`."""
    error = kind(f"{name}: {text}")
    vars(error)["parts"] = name, text
    return error


def said(error: MercerError, *names: str) -> str:
    """Return what an error says, without the name before it if that is one of these."""
    name, text = vars(error).get("parts", ("", ""))
    return text if name and name in names else str(error)


class NotAKernel(InvalidInput):
    """A function is not a positive definite kernel.

    Attributes
    ----------
    counterexample : object or None
        Points xᵢ and coefficients a with Σᵢⱼ aᵢaⱼk(xᵢ, xⱼ) < 0, where one was found.
    """

    def __init__(self, message: str, counterexample: Any = None):
        super().__init__(message)
        self.counterexample = counterexample


class NotPositiveDefinite(MercerError, LinAlgError):
    """A matrix that had to be positive definite is not, in floating point.

    Attributes
    ----------
    smallest_eigenvalue : float or None
        The smallest eigenvalue of the matrix that was to be factorised.
    """

    def __init__(self, message: str, smallest_eigenvalue: float | None = None):
        super().__init__(message)
        self.smallest_eigenvalue = smallest_eigenvalue


class NotSeparable(MercerError, ValueError):
    """Two classes cannot be separated in feature space.

    Attributes
    ----------
    certificate : object or None
        A convex combination of each class; the two coincide in feature space (``exact``), or are
        too close for float64 to tell.
    """

    def __init__(self, message: str, certificate: Any = None):
        super().__init__(message)
        self.certificate = certificate


class MemoryBudgetExceeded(MercerError, MemoryError):
    """The work cannot be done inside the memory budget; raised before any work.

    Attributes
    ----------
    needed, allowed : int
        Bytes that the work needs and that ``mercer.config(memory=...)`` allows.
    """

    def __init__(self, message: str, needed: int = 0, allowed: int = 0):
        super().__init__(message)
        self.needed = int(needed)
        self.allowed = int(allowed)


class ModelFileError(MercerError, ValueError):
    """A model file is damaged, hostile, or not a model file."""


class ClusterError(MercerError, RuntimeError):
    """A cluster cannot do the work: no workers, no mercer on one of them, no scheduler any more."""


class NotConverged(ConvergenceWarning):
    """A solver stopped before its tolerance; the message names gap, tolerance and the knob."""

    def __init__(self, message: Any = "", *more: Any):
        super().__init__(shortened(message), *more)


def users_level() -> int:
    """Return the stacklevel at which a warning names the line of a caller outside the package.

    scikit-learn may stand between, as in `fit_predict` or a cross-validation.
    """
    frame, level = sys._getframe(1), 1
    own = __name__.partition(".")[0]
    while frame.f_back is not None and _package(frame) in (own, "sklearn"):
        frame, level = frame.f_back, level + 1
    return level


def _package(frame: Any) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


# An exception with its own arguments must be rebuilt from them when it crosses processes.
def _rebuild(cls: type, message: str, state: dict) -> Exception:
    error = cls(message)
    error.__dict__.update(state)
    return error


def _reduce(self: Exception):
    return _rebuild, (type(self), str(self), self.__dict__)


for _cls in (NotAKernel, NotPositiveDefinite, NotSeparable, MemoryBudgetExceeded):
    _cls.__reduce__ = _reduce  # type: ignore[method-assign, assignment]
