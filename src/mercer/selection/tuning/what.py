"""What is tuned: the names of `over`, `fixed` and `bounds` as a box of θ and axes of settings.

The kernel's log-parameters θ move in a box. Every other parameter that is searched, a penalty or a
whole number or a list of choices, is an `Axis`: the values to try first, and those beside one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mercer.checks import bare_name, check_bounds, entries, random_source
from mercer.errors import InvalidInput, MercerError, speaks
from mercer.kernels import as_kernel
from mercer.models.margin import FOLDS

# ---- What the user asks to tune: names and ranges as given, contradictions, lists of choices ----


@dataclass(frozen=True)
class TuneOptions:
    """The arguments of `tune` that say how, by the names that they have there."""

    over: dict[str, Any] | None
    criterion: Any
    cv: Any
    scoring: Any
    max_iter: int
    max_points: int
    max_time: float | None
    fixed: Any
    bounds: Any
    random_state: Any

    @property
    def usual_folds(self) -> bool:
        """Whether `cv` is what it is by default."""
        return isinstance(self.cv, int) and self.cv == FOLDS

    def checked(self) -> TuneOptions:
        """Return the options in canonical form, or refuse them."""
        for name, low in (("max_points", 3), ("max_iter", 0)):
            value = getattr(self, name)
            whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
            if not whole or value < low:
                raise InvalidInput(f"tune: {name}={value!r}; give a whole number of {low} or more.")
        seconds, fixed, cv = self.max_time, self.fixed, self.cv
        number = isinstance(seconds, int | float | np.number)
        if seconds is not None and not (number and seconds >= 0):
            raise InvalidInput(f"tune: max_time={seconds!r}; give seconds, or None for no limit.")
        rng = random_source(self.random_state)
        if not isinstance(fixed, Sequence | Set | None):
            raise InvalidInput(f"tune: fixed={fixed!r}; give names of parameters, or none.")
        if not isinstance(self.bounds, Mapping | None):
            raise InvalidInput(f"tune: bounds={self.bounds!r}; give a dict from name to limits.")
        names = [fixed] if isinstance(fixed, str) else list(fixed or ())
        limits = dict(self.bounds or {})
        check_names(self.over, names, limits)
        if isinstance(cv, Iterator):  # it is read once for each kernel of a list
            cv = list(cv)
        return replace(self, random_state=rng, fixed=names, bounds=limits, cv=cv)


def read_over(over: Any) -> dict[str, Any] | None:
    """Return what to tune as a dict: name → None, a pair of limits, or a list of choices."""
    if over is None:
        return None
    if isinstance(over, str):
        over = [over]
    if isinstance(over, Mapping):
        wish = dict(over)
    elif isinstance(over, Sequence):
        wish = dict.fromkeys(over)
    else:
        wish = {}
    if not wish or not all(isinstance(name, str) for name in wish):
        raise InvalidInput(
            f"tune: over={over!r}; give names of parameters, or a dict of names to (low, high) or "
            "to a list of choices."
        )
    for name, range_ in wish.items():
        if isinstance(range_, list | np.ndarray) and len(range_):
            wish[name] = list(range_)
        elif range_ is not None and not (
            isinstance(range_, tuple) and len(range_) == 2 and all(map(_is_number, range_))
        ):
            raise InvalidInput(
                f"tune: over[{name!r}] = {range_!r}; give numbers (low, high), a list [...] of "
                "choices, or None for the usual range."
            )
    return wish


def check_names(
    wish: dict[str, Any] | None, fixed: Sequence[Any], bounds: Mapping[Any, Any]
) -> None:
    """Refuse what contradicts itself: a parameter named twice, or both tuned and held."""
    seen: dict[Any, str] = {}
    for name, range_ in (wish or {}).items():
        seen_before = seen.setdefault(bare_name(name), name)
        if seen_before != name:
            raise InvalidInput(
                f"tune: over names {seen_before!r} and {name!r}, which are one parameter; give one."
            )
        same = [n for n in bounds if bare_name(n) == bare_name(name)]
        if range_ is not None and same:
            raise InvalidInput(
                f"tune: over[{name!r}] and bounds[{same[0]!r}] both say where to look; give one."
            )
    for name in fixed:
        for where, names in (("over", wish or {}), ("bounds", bounds)):
            if any(bare_name(n) == bare_name(name) for n in names):
                raise InvalidInput(
                    f"tune: {name!r} is in fixed, which holds it, and in {where}, which tunes it; "
                    "leave one out."
                )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def split_choices(
    model: Any, wish: dict[str, Any], smooth: bool
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the models to tune one after another, as settings of each, and what is left to tune.

    What the settings name is not to be tuned again where "kernel" is left.

    Parameters
    ----------
    model : estimator
        The model.
    wish : dict
        From `read_over`.
    smooth : bool
        Whether the search follows a gradient: then every list and every whole number is one of
        these settings. Otherwise only a list of kernels is.
    """
    rest, lists = dict(wish), {}
    own, inner = model.get_params(), _inner_params(model, wish.get("kernel"))
    for name, range_ in wish.items():
        bare = name.removeprefix("kernel__")
        held = own.get(name, inner.get(bare))
        whole = isinstance(held, int | np.integer) and not isinstance(held, bool)
        if name == "kernel" and isinstance(range_, list):
            lists[name], rest[name] = range_, None
        elif smooth and (isinstance(range_, list) or (whole and name in [*own, *inner])):
            key = name if name in own else f"kernel__{bare}"
            lists[key] = range_ if isinstance(range_, list) else _whole_numbers(name, range_, held)
            del rest[name]
    return [dict(zip(lists, v, strict=True)) for v in itertools.product(*lists.values())], rest


def _inner_params(model: Any, kernels: Any) -> dict[str, Any]:
    """Return the parameters of a model's kernel, or of the kernels that are tried in its place."""
    params: dict[str, Any] = {}
    for kernel in kernels if isinstance(kernels, list) else [model.kernel]:
        try:
            params = {**as_kernel(kernel).get_params(), **params}
        except MercerError:
            continue  # the fit with it says what is wrong
    return params


@speaks("tune")
def _whole_numbers(name: str, range_: Any, value: int) -> list[int]:
    low, high = (1, max(5, 2 * value)) if range_ is None else check_bounds(name, range_, "over")
    return list(range(int(np.ceil(low)), int(np.floor(high)) + 1))


# ---- The box of kernel parameters that tuning searches, around the start and inside what users
# say.


# Three orders of magnitude around the start, for a kernel parameter.
REACH = np.log(1e3)
STARTS = (1.0, 1 / 3, 3.0)  # factors of all length scales


class TimeIsUp(Exception):
    """The time allowed for tuning is over."""


def search_box(kernel: Any) -> np.ndarray:
    """Return lower and upper limits of θ, shape (p, 2): near the start and inside its bounds."""
    theta, reach = kernel.theta, np.array([[-REACH, REACH]])
    box, near = kernel.bounds, theta[:, None] + reach
    box = np.stack([np.maximum(box[:, 0], near[:, 0]), np.minimum(box[:, 1], near[:, 1])], 1)
    return np.where((box[:, :1] < box[:, 1:]), box, near)  # a start outside its bounds


@speaks("tune")
def with_limits(
    box: np.ndarray, kernel: Any, fixed: Sequence[str], bounds: Mapping[str, Any], penalty: str
) -> np.ndarray:
    """Return the box narrowed to what the user fixed or bounded, the penalty left out of it."""
    box, names = box.copy(), kernel.theta_names
    for name in [*bounds, *fixed]:
        if name == penalty:
            continue
        at = entries(name, names)
        span = kernel.theta[at][:, None]
        if name not in fixed:
            span = np.log(check_bounds(name, bounds[name]))
        if not at and name != "kernel":
            legal = ", ".join(map(repr, [*names, penalty]))
            raise InvalidInput(
                f"tune: no parameter {name!r} to tune; there are: {legal}. Those of the kernel may "
                "also be written with kernel__ in front."
            )
        box[at] = span
    return box


def is_scale(kernel: Any) -> np.ndarray:
    """Return 1 for the entries of θ that are length scales, 0 for others."""
    return np.array(["length_scale" in name for name in kernel.theta_names], float)


# ---- tune over ----


PENALTIES = ("alpha", "C", "nu", "noise", "n_neighbors", "estimator__alpha", "estimator__C")
COARSE_C = 10.0 ** np.arange(-2.0, 3.1, 0.5)
COARSE_ALPHA = 10.0 ** np.arange(2.0, -6.1, -1.0)
SHARES = (0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 0.7, 0.9)
NEIGHBOURS = tuple(dict.fromkeys([*range(1, 31), *np.geomspace(30, 1000, 25).round().astype(int)]))


@dataclass(frozen=True)
class Axis:
    """A parameter of a model, or of its kernel but not of θ, that is searched.

    Parameters
    ----------
    name : str
        As ``set_params`` of the model, or of the kernel, takes it.
    grid : tuple
        Values tried at every start; of equals the first is kept.
    limits : tuple
        The smallest and the largest value; unused with choices.
    kind : {"number", "whole", "choice"}
        How values lie beside one another.
    of_kernel : bool
        Whether it is the kernel's.
    """

    name: str
    grid: tuple
    limits: tuple[float, float] = (0.0, np.inf)
    kind: str = "number"
    of_kernel: bool = False

    def near(self, value: Any, step: float) -> list[Any]:
        """Return the values beside one, at most `step` away in the logarithm; all other choices."""
        if self.kind == "choice":
            return [v for v in self.grid if v is not value]
        low, high = self.limits
        both: list[Any]
        if self.kind == "whole":
            far = max(1, round(value * (np.exp(step) - 1)))
            both = [int(np.clip(value + s * far, low, high)) for s in (1, -1)]
        else:
            both = [float(np.clip(value * np.exp(s * step), low, high)) for s in (1, -1)]
        return [v for v in both if v != value]


@dataclass(frozen=True)
class TunePlan:
    """A box of θ, the axes of settings, and what a search with limits of its own must hold."""

    box: np.ndarray
    axes: tuple[Axis, ...]
    fixed: list[str] = field(default_factory=list)
    bounds: dict[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        """Whether nothing may change."""
        return not self.axes and not (self.box[:, 0] < self.box[:, 1]).any()


@dataclass(frozen=True)
class Units:
    """The units that penalties are in: mean k(x, x), the spread of y (of classes 1), the rows."""

    diagonal: float
    spread: float
    rows: int


@speaks("tune")
def make_plan(
    model: Any,
    kernel: Any,
    units: Units,
    wish: dict[str, Any] | None,
    fixed: Sequence[str] = (),
    bounds: Mapping[str, Any] | None = None,
) -> TunePlan:
    """Return what is tuned of a model with a resolved kernel, or refuse a name.

    Parameters
    ----------
    model : estimator
        The model.
    kernel : Kernel
        Its kernel, words resolved.
    units : Units
        Of the data.
    wish : dict or None
        From `read_over`; None for all of θ and the penalty.
    fixed, bounds : sequence of str, dict
        As for `tune`.
    """
    names, held = kernel.theta_names, model.get_params()
    legal = [*names, *_settings(model)]
    if wish is None:
        wish = {**dict.fromkeys(names), **dict.fromkeys(n for n in PENALTIES if n in held)}
    usual, box = search_box(kernel), np.repeat(kernel.theta[:, None], 2, axis=1)
    axes, spans, tuned = {}, {}, set()
    for name, range_ in wish.items():
        at = entries(name, names)
        if name == "kernel" or (at and not isinstance(range_, list)):
            box[at] = usual[at] if range_ is None else np.log(check_bounds(name, range_, "over"))
            tuned.update(at)
            continue
        axis = _axis(model, kernel, units, name, range_, legal)
        axes[axis.name] = axis
        if range_ is not None:
            spans[axis.name] = axis.limits
    for axis in axes.values():  # choices are made beside θ, also where "kernel" means all of θ
        if axis.of_kernel:
            at = entries(axis.name, names)
            box[at] = kernel.theta[at][:, None]
            tuned.difference_update(at)
    for name, range_ in (bounds or {}).items():
        at = entries(name, names)
        if at and tuned.issuperset(at):
            box[at] = np.log(check_bounds(name, range_))
        elif name in axes:
            axes[name] = _axis(model, kernel, units, name, check_bounds(name, range_), legal)
            spans[name] = axes[name].limits
        elif at or name in held:
            raise InvalidInput(
                f"tune: bounds[{name!r}] is given, but {name!r} is not tuned; add it to over, or "
                "leave its bounds out."
            )
        else:
            raise _unknown(name, legal)
    for name in fixed:
        at = entries(name, names)
        if not at and name not in held:  # "kernel" is held by every model
            raise _unknown(name, legal)
        box[at] = kernel.theta[at][:, None]
        axes.pop(name, None)
        spans.pop(name, None)
    left = [n for n, (low, high) in zip(names, box, strict=True) if low == high]
    left += [n for n in PENALTIES if n in held and n not in axes]
    spans.update({n: tuple(np.exp(b)) for n, b in zip(names, box, strict=True) if n not in left})
    return TunePlan(box, tuple(axes.values()), left, spans)


def _settings(model: Any) -> list[str]:
    """Return the parameters of a model that have a usual range."""
    return [n for n in (*PENALTIES, "epsilon", "delta", "l1_ratio") if n in model.get_params()]


def _unknown(name: Any, legal: Sequence[str], why: str | None = None) -> InvalidInput:
    listed = ", ".join(map(repr, legal)) or "none"
    return InvalidInput(
        f"tune: no parameter {name!r} to tune{'; it ' + why if why else ''}; there are: {listed}. "
        "Those of the kernel may also be written with kernel__ in front; any other parameter is "
        "tuned by over={name: [choices]}."
    )


@speaks("tune")
def _axis(
    model: Any, kernel: Any, units: Units, name: Any, range_: Any, legal: Sequence[str]
) -> Axis:
    """Return the axis of a parameter that is not in θ."""
    own, bare = model.get_params(), name.removeprefix("kernel__")
    inner = kernel.get_params()
    of_kernel = name not in own or name.startswith("kernel__")
    if of_kernel and bare not in inner:
        raise _unknown(name, legal)
    key = bare if of_kernel else name
    value = inner[bare] if of_kernel else own[name]
    if isinstance(range_, list):
        return Axis(key, tuple(range_), kind="choice", of_kernel=of_kernel)
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    grid, limits = _usual(model, units, key, value, name, legal)
    if range_ is not None:
        limits = check_bounds(name, range_, "over")
        if whole:
            limits = float(np.ceil(limits[0])), float(np.floor(limits[1]))
        grid = _within(grid, limits)
    if whole:
        grid = tuple(dict.fromkeys(round(v) for v in grid))
    grid = tuple(int(v) if whole else float(v) for v in grid)
    return Axis(key, grid, limits, "whole" if whole else "number", of_kernel)


def _within(grid: Sequence[float], limits: tuple[float, float]) -> tuple[float, ...]:
    """Return the values of a grid inside limits and these themselves, in the order of the grid."""
    low, high = limits
    inside = [v for v in grid if low < v < high]
    ends = [low, high] if not grid or grid[0] <= grid[-1] else [high, low]
    if len(inside) < 3 and high > low:
        inside = list(np.geomspace(ends[0], ends[1], 6)[1:-1])
    return tuple(dict.fromkeys([ends[0], *inside, ends[1]]))


def _usual(
    model: Any, units: Units, key: str, value: Any, name: str, legal: Sequence[str]
) -> tuple[tuple[float, ...], tuple[float, float]]:
    """Return the values to try first, and the limits, of a parameter by its name."""
    k, spread, n = units.diagonal, units.spread, units.rows
    if key == "alpha" and hasattr(model, "l1_ratio"):  # alpha·‖v‖₁ against the slope Σ wᵢkᵢⱼℓ'
        unit = n * k * spread
        return tuple(10.0 ** np.arange(-1.0, -5.1, -1.0) * unit), (1e-7 * unit, unit)
    if key == "alpha":
        unit = k / spread if _in_units_of_y(model) else k
        return tuple(COARSE_ALPHA * unit), (1e-10 * max(n, 10) * unit, 1e4 * unit)
    if key == "C":
        grid = COARSE_C * spread / k
        return tuple(grid), (grid[0], grid[-1])
    if key == "noise":  # a variance
        unit = spread * spread
        return tuple(10.0 ** np.arange(0.0, -6.1, -1.0) * unit), (1e-8 * unit, 1e3 * unit)
    if key == "nu" and isinstance(value, float) and 0 < value <= 1:
        return SHARES, (0.001, 1.0)
    if key == "n_neighbors":
        return tuple(v for v in NEIGHBOURS if v < n), (1, max(1, n - 1))
    if key in ("epsilon", "delta"):
        return tuple(spread * 10.0 ** np.arange(-3.0, 1.1, 0.5)), (1e-6 * spread, 1e2 * spread)
    if key == "l1_ratio":
        return (1.0, 0.9, 0.7, 0.5, 0.3, 0.1), (0.01, 1.0)
    if isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= 1:
        return tuple(range(1, max(5, 2 * int(value)) + 1)), (1, max(10, 4 * int(value)))
    if isinstance(value, float | np.floating) and 0 < value < np.inf:
        value = float(value)
        return tuple(value * 10.0 ** np.arange(3.0, -3.1, -1.0)), (1e-3 * value, 1e3 * value)
    raise _unknown(name, legal, f"is {value!r}, which has no usual range")


def _in_units_of_y(model: Any) -> bool:
    """Whether the slopes of a model's loss are bounded, so that alpha is in units of k/y."""
    loss = getattr(model, "loss", None)
    word = loss if isinstance(loss, str) else type(loss).__name__.lower()
    return hasattr(model, "quantile") or word in (
        "absolute",
        "pinball",
        "epsilon_insensitive",
        "epsiloninsensitive",
    )


# ---- TuneResult: what tuning found, and on what evidence ----


def kernel_params(kernel: Any) -> dict[str, Any]:
    """Return what was tuned of a kernel, as ``set_params`` of the model takes it."""
    held = kernel.get_params()
    names = dict.fromkeys(name.partition("[")[0] for name in kernel.theta_names)
    return {f"kernel__{name}": held[name] for name in names}


def part_of(used: int, given: int) -> str:
    """Say on how many rows the parameters were chosen, where these are not all."""
    return f"; chosen on {used} of {given} rows" if used < given else ""


@dataclass(frozen=True, repr=False)
class TuneResult:
    """What `tune` found; what is not listed here is asked of the fitted model.

    So ``result.predict(X)`` and ``result.kernel_`` are those of ``result.model``.

    Attributes
    ----------
    model : estimator
        A fitted copy of the model with the best parameters.
    score : float
        The criterion for it, on the rows used for tuning; the smaller the better. An error, minus
        the mean of a score, or minus the log evidence: `criterion` says which.
    params : dict
        The parameters of the model found, such as ``alpha`` or ``C``, and ``kernel__...``, tuned
        or not, as ``set_params`` takes them.
    table : list of dict
        Every evaluation that gave a number: the parameters of the kernel by the names of
        ``kernel.theta_names``, those of the model, and the criterion as ``error``.
    converged : bool
        Whether the optimiser reached its tolerance within its limits.
    message : str
        Why it stopped.
    criterion : str
        What the score is.
    n_points : int or None
        How many rows the parameters were chosen on; the model is fitted on all.
    """

    model: Any
    score: float
    params: dict[str, Any]
    table: list[dict[str, Any]]
    converged: bool
    message: str
    criterion: str = "leave-one-out mean squared error"
    n_points: int | None = None

    @property
    def best_estimator_(self) -> Any:
        """The same as `model`, by the name that `search` and scikit-learn have for it."""
        return self.model

    @property
    def best_params_(self) -> dict[str, Any]:
        """The same as `params`."""
        return self.params

    def __getattr__(self, name: str) -> Any:
        own = name.startswith("__") or name in ("get_params", "set_params")  # it is no estimator
        if own or "model" not in self.__dict__:
            raise AttributeError(f"'TuneResult' has no attribute {name!r}")
        return getattr(self.model, name)

    def __str__(self) -> str:
        found = ", ".join(
            f"{k}={np.array2string(np.asarray(v), precision=4)}" for k, v in self.params.items()
        )
        return (
            f"tuned in {len(self.table)} evaluations: {found}\n"
            f"{self.criterion} {self.score:.4g} ({self.message})"
        )

    __repr__ = __str__
