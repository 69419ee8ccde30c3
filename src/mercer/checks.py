"""Checks of arguments: numbers, counts, limits, seeds, and names of parameters to be tuned."""

from __future__ import annotations

import inspect
import numbers
import time
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import cache
from typing import Any, TypeVar

import numpy as np
from sklearn.utils import check_random_state

from mercer.errors import InvalidInput, speaks, who
from mercer.misspelt import nearest

# ---- What parameters of estimators may be, told as a table, and the one reader of it ----
#
# A class tells in ``_parameters`` what is legal, name by name, as far as a value by itself tells
# it, and adds to the table of its base:
#
#     _parameters = {"C": checks.POSITIVE, "n_init": checks.Whole(1) | checks.Word("auto")}
#
# `check_parameters`, where a fit begins, refuses what is outside: who speaks, what came, and the
# words of the constraint. What depends on data, or on several parameters together, is code behind.


class Legal:
    """A value for which a function holds; `says` is the cure of a refusal, "give" `words` if not.

    A function that reads a value may refuse it in its own words.
    """

    none = False  # whether None is legal, whatever else is not
    choices: tuple[str, ...] = ()  # the words that are legal
    instead: Mapping[str, str] = {}  # what to say of some words that are not

    def __init__(self, fits: Callable[[Any], Any], words: str, says: str = "") -> None:
        self.fits, self.words, self.says = fits, words, says or f"give {words}"

    def __or__(self, other: Legal) -> Legal:
        return Either(self, other)


Constraints = dict[str, Legal]


class Number(Legal):
    """A number between two bounds; infinity is none, unless it is a bound that is included."""

    def __init__(
        self,
        least: float | None = None,
        most: float | None = None,
        *,
        above: float = -np.inf,
        below: float = np.inf,
        whole: bool = False,
        says: str = "",
    ) -> None:
        self.least, self.most, self.above, self.below = least, most, above, below
        self.kind: Any = numbers.Integral if whole else numbers.Real
        low = f"> {above:g}" if least is None else f"≥ {least:g}"
        high = f"< {below:g}" if most is None else f"≤ {most:g}"
        bounds = " and ".join(bound for bound in (low, high) if not bound.endswith("inf"))
        super().__init__(self._between, f"a {'whole ' * whole}number {bounds}", says)

    def _between(self, value: Any) -> bool:
        if not isinstance(value, self.kind) or isinstance(value, bool):
            return False
        if self.kind is numbers.Real and isinstance(value, int) and np.isnan(as_number(value)):
            return False  # a whole number beyond the floats
        low = value > self.above if self.least is None else value >= self.least
        return bool(low and (value < self.below if self.most is None else value <= self.most))


def Whole(least: int, most: int | None = None, *, says: str = "") -> Number:
    """A whole number between two bounds."""
    return Number(least, most, whole=True, says=says)


def Word(
    *words: str, points: bool = False, says: str = "", instead: Mapping[str, str] | None = None
) -> Legal:
    """One of some words, which stand for {} in `says`; or `points`, whatever is no word.

    Of other words `instead` says what to give.
    """
    *others, last = map(repr, words)
    one = f"{', '.join(others)} or {last}" if others else last
    cure = says.format(", ".join(map(repr, words)))
    legal = Legal(lambda value: value in words if isinstance(value, str) else points, one, cure)
    legal.choices, legal.instead = words, instead or {}
    return legal


def Flag(*, numbers: bool = True) -> Legal:
    """True or False; 0 and 1 stand for them where `numbers` may. "no" is neither: it is true."""

    def fits(value: Any) -> bool:
        if isinstance(value, int | np.integer) and not isinstance(value, bool):
            return numbers and value in (0, 1)
        return isinstance(value, bool | np.bool_)

    return Legal(fits, "True or False")


def Read(read: Callable[[Any], Any]) -> Legal:
    """What a function reads; it refuses other values itself."""
    return Legal(lambda value: (read(value),), read.__name__)


def Either(*parts: Legal, says: str = "") -> Legal:
    """One of several constraints; of two ``Whole(1) | Word("auto")``."""
    words = ", or ".join(part.words for part in parts)
    legal = Legal(lambda value: any(part.fits(value) for part in parts), words, says)
    legal.choices = tuple(word for part in parts for word in part.choices)
    return legal


def Each(part: Legal, says: str) -> Legal:
    """One value or several, for each of which a constraint holds."""

    def fits(values: Any) -> bool:
        try:
            each = np.ravel(values).tolist()
        except ValueError:  # rows of different lengths
            return False
        return bool(each) and all(map(part.fits, each))

    return Legal(fits, part.words, says)


Part = TypeVar("Part", bound=Legal)


def Maybe(part: Part) -> Part:
    """The same, or None."""
    part = copy(part)
    part.none = True
    return part


@cache
def _defaults(init: Any) -> dict[str, Any]:
    """Return the defaults of a constructor; reading a signature takes longer than a small fit."""
    return {name: each.default for name, each in inspect.signature(init).parameters.items()}


def check_parameters(model: Any, *names: str) -> None:
    """Refuse parameters of an estimator, or some of them, that its constraints do not allow.

    A default is legal, so only what differs from it is looked at.
    """
    table, defaults = model._parameters, _defaults(type(model).__init__)
    for name in names or table:
        value = getattr(model, name)
        if value is defaults.get(name, table) or (value is None and table[name].none):
            continue
        if not table[name].fits(value):
            cure = _meant(value, table[name])
            raise InvalidInput(f"{type(model).__name__}: {name}={value!r}; {cure}.")


def _meant(value: Any, legal: Legal) -> str:
    """Return what to give instead of a value, and which word it was meant to be."""
    if not isinstance(value, str):
        return legal.says
    if value in legal.instead:
        return legal.instead[value]
    found = nearest(value, legal.choices)
    cure = legal.says[:1].upper() + legal.says[1:]
    return f"did you mean {found!r}? {cure}" if found else legal.says


# ---- Parameters that feature maps and models share ----


def random_source(value: Any) -> np.random.RandomState:
    """Return the source of random numbers that the parameter random_state stands for."""
    try:
        return check_random_state(value)
    except (ValueError, TypeError):  # scikit-learn 1.6 cannot say a tuple
        raise InvalidInput(
            f"{who()}: random_state={value!r}; give None, a whole number from 0 to 2³² − 1, or a "
            "numpy.random.RandomState."
        ) from None


def as_number(value: Any) -> float:
    """Return a number as a float, NaN for anything else."""
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:  # a whole number beyond the floats
            pass
    return float("nan")


def as_reals(values: Any) -> np.ndarray:
    """Return numbers in an array of float64; complex ones are a TypeError, as text is an error."""
    if np.asarray(values).dtype.kind == "c":
        raise TypeError("complex numbers, where real ones belong")
    with np.errstate(over="ignore"):  # a long double beyond float64 is inf
        return np.asarray(values, dtype=float)


def check_grid(values: Any, name: str) -> np.ndarray:
    """Return the values of a parameter along a path: one or more finite numbers > 0."""
    try:
        grid = np.array(values, dtype=float).reshape(-1)
    except (OverflowError, TypeError, ValueError):
        grid = np.zeros(0)
    if not grid.size or not np.isfinite(grid).all() or (grid <= 0).any():
        raise InvalidInput(f"{who()}: {name}={values!r}; give one or more finite numbers > 0.")
    return grid


#: A penalty or a tolerance, and a seed.
POSITIVE = Number(above=0, says="give a finite number > 0")
NONNEGATIVE = Number(0, says="give a finite number ≥ 0")
SEED = Read(random_source)
#: How many, in other words than those of `Whole`.
SOME = Whole(1, says="give a whole number of 1 or more")
#: Parameters of iterations; max_iter=-1 stands for None.
STEPS = Either(Whole(1), Whole(-1, -1), says="give a whole number ≥ 1, or None for no limit")
LIMITS: Constraints = {"tol": POSITIVE, "max_iter": Maybe(STEPS), "max_time": Maybe(POSITIVE)}


def solver_limits(model: Any) -> dict[str, Any]:
    """Return an estimator's tol, max_iter and max_time, checked."""
    check_parameters(model, *LIMITS)
    steps, seconds = model.max_iter, model.max_time
    return {
        "tol": float(model.tol),
        "max_iter": None if steps is None or steps == -1 else int(steps),
        "max_time": None if seconds is None else float(seconds),
    }


class Clock:
    """Time from when it is made on; with a limit in seconds it may be late."""

    __slots__ = ("began", "limit")

    def __init__(self, limit: float | None = None):
        self.began, self.limit = time.monotonic(), limit

    @property
    def spent(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self.began

    @property
    def late(self) -> bool:
        """Whether the limit is reached."""
        return self.limit is not None and time.monotonic() - self.began >= self.limit

    def rest(self, least: float = 0.0) -> float | None:
        """Return the seconds left, at least so many; None without a limit."""
        return None if self.limit is None else max(least, self.limit - self.spent)


FOREVER = Clock()  # is never late


def check_number(
    value: Any, name: str, low: float, high: float = np.inf, *, closed: bool = False
) -> None:
    """Raise `InvalidInput` unless low < value < high (low ≤ value if closed)."""
    real = isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_)
    real = real and not (isinstance(value, int) and np.isnan(as_number(value)))
    if not real or not (low <= value if closed else low < value) or not value < high:
        legal = f"{'≥' if closed else '>'} {low:g}"
        legal += "" if high == np.inf else f" and < {high:g}"
        raise InvalidInput(f"{who()}: {name}={value!r}; give a number {legal}.")


def check_index(value: Any, name: str, low: int, high: int | None = None) -> int:
    """Return a whole number in [low, high], or raise `InvalidInput`."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool | np.bool_)
    if not whole or value < low or (high is not None and value > high):
        legal = f"of {low} or more" if high is None else f"from {low} to {high}"
        raise InvalidInput(f"{who()}: {name}={value!r}; give a whole number {legal}.")
    return int(value)


def check_parameter(name: str, value: Any, low: float, *, open: bool = True) -> None:
    """Refuse what is not one finite number > low (or ≥ low when not open)."""
    bad = isinstance(value, bool | str) or np.ndim(value) != 0 or value is None
    if not bad:
        try:
            number = float(value)
        except (OverflowError, TypeError, ValueError):
            bad = True
        else:
            bad = not (np.isfinite(number) and (number > low if open else number >= low))
    if bad:
        raise InvalidInput(
            f"{who()}: {name}={value!r}; it must be a finite number {'>' if open else '≥'} {low:g}."
        )


def check_whole(name: str, value: Any, low: int) -> None:
    """Refuse what is not one whole number ≥ low."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < low:
        raise InvalidInput(f"{who()}: {name}={value!r}; it must be a whole number ≥ {low}.")


def as_rng(value: Any, name: str = "rng") -> Any:
    """Return a generator for None, a seed or a generator; a random_state may be a RandomState."""
    legacy = name == "random_state"
    if legacy and isinstance(value, np.random.RandomState):
        return value
    try:
        return np.random.default_rng(value)
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"{who()}: {name}={value!r}; give None, a whole number of 0 or more, or a "
            f"numpy.random.Generator{' or RandomState' if legacy else ''}."
        ) from error


# ---- tunable ----


def entries(name: str, names: Sequence[str]) -> list[int]:
    """Return the positions of a parameter in θ; a bare name stands for all its entries.

    ``kernel__`` may stand in front, as in ``set_params`` of the model; "kernel" stands for all θ.
    The end of a name will do where only one parameter ends so: ``length_scale`` for
    ``k2__length_scale`` of ``1.0 * RBF()``.
    """
    if name == "kernel":
        return list(range(len(names)))
    bare = name.removeprefix("kernel__") if isinstance(name, str) else name
    found: list[int] = []
    for given in (name, bare):  # the kernel of k.on(columns) has a kernel__ of its own
        found = found or [i for i, n in enumerate(names) if given in (n, n.partition("[")[0])]
    if found or not isinstance(name, str):
        return found
    ends = [i for i, n in enumerate(names) if _ends(n, bare) or _ends(n.partition("[")[0], bare)]
    return ends if len({names[i].partition("[")[0] for i in ends}) == 1 else []


def _ends(name: str, part: str) -> bool:
    return name.endswith(f"__{part}")


def bare_name(name: Any) -> Any:
    """Return a name without the kernel__ that may stand in front."""
    while isinstance(name, str) and name.startswith("kernel__"):
        name = name.removeprefix("kernel__")
    return name


@speaks("tune", unless_spoken=True)
def check_bounds(name: str, limits: Any, option: str = "bounds") -> tuple[float, float]:
    """Return two limits of a parameter as numbers, 0 < low ≤ high < ∞."""
    try:
        low, high = (float(v) for v in limits)
    except (OverflowError, TypeError, ValueError):
        low, high = 0.0, 0.0
    if not 0 < low <= high < np.inf:
        raise InvalidInput(f"{who()}: {option}[{name!r}] = {limits!r}; give 0 < low ≤ high.")
    return low, high


def at_theta(kernel: Any, theta: np.ndarray) -> Any:
    """Return the kernel with log-parameters θ; itself, without rounding, where they are its own."""
    return kernel if np.array_equal(theta, kernel.theta) else kernel.with_theta(theta)
