"""The free log-parameters of a Gaussian process: names, bounds, priors, and the way back."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from mercer.checks import at_theta, bare_name, check_bounds, entries
from mercer.errors import InvalidInput, ModelFileError, speaks, who
from mercer.kernels import DEFAULT_BOUNDS, names_in_words
from mercer.misspelt import nearest
from mercer.models.gp.descent import Point

# ---- Log densities of parameters and their slopes in the logarithm of the parameter ----


# Five-point stencil: error h⁴g⁽⁵⁾/30 and rounding ε|g|/h, both near 1e-12 for a smooth density.
STEPS = (1e-3, 1e-5, 1e-7)
OFFSETS, WEIGHTS = np.array([-2.0, -1.0, 1.0, 2.0]), np.array([1.0, -8.0, 8.0, -1.0]) / 12


def log_density(law: Any, theta: float) -> tuple[float, float]:
    """Return g(θ) = log p(e^θ) and g′(θ); (−∞, 0) outside the support."""
    value = _logpdf(law, np.array([theta]))[0]
    if not np.isfinite(value):
        return -np.inf, 0.0
    for h in STEPS:
        around = _logpdf(law, theta + h * OFFSETS)
        if np.isfinite(around).all():
            return float(value), float(WEIGHTS @ around) / h
    for h in (STEPS[1], -STEPS[1]):  # at the end of the support: from inside
        one, two = _logpdf(law, theta + h * np.array([1.0, 2.0]))
        if np.isfinite(one) and np.isfinite(two):
            return float(value), float(-1.5 * value + 2 * one - 0.5 * two) / h
    return float(value), 0.0


def why_no_density(law: Any) -> str:
    """Return what is wrong with a density of one number; "" where nothing is."""
    if not callable(getattr(law, "logpdf", None)):
        return "has no logpdf"
    if hasattr(law, "freeze"):  # a family of scipy.stats, whose parameters are not chosen
        return "is not frozen"
    try:
        found = np.shape(law.logpdf(np.array([1.0, 2.0, 3.0])))
    except Exception as error:
        return f"has a logpdf that fails ({error})"
    return "" if found == (3,) else "is not the density of one number"


def _logpdf(law: Any, theta: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        g = np.asarray(law.logpdf(np.exp(theta)), dtype=float).reshape(theta.shape)
    return np.where(np.isnan(g), -np.inf, g)


# ---- parameters ----


# How far a parameter may always go from its start, and how far a restart is drawn: factors.
REACH, DRAWN = np.log(1e3), np.log(1e2)
NEAR = 1e-4  # of a limit, in logarithms, that is the usual one
INSIDE = 1e-9  # from the end of the support of a prior, in logarithms
LARGEST = 700.0  # a logarithm whose exponential, and that of its negative, are numbers


def as_names(fixed: Any) -> list[str]:
    """Return the names of what is held as a list."""
    if isinstance(fixed, str):
        return [fixed]
    try:
        return [] if fixed is None else list(fixed)
    except TypeError:
        raise InvalidInput(
            f"{who()}: fixed={fixed!r}; give names of parameters, such as ('noise',)."
        ) from None


class Parameters:
    """What of a kernel and a noise variance is tuned, as one vector θ of logarithms.

    θ has the kernel's log-parameters that are not held, in the kernel's order, then the logarithm
    of the noise. A start outside its bounds is moved to the nearest bound.

    Parameters
    ----------
    kernel : Kernel
        The start, its words resolved.
    noise : float or None
        The start of the noise variance; None where there is no such parameter. A noise of 0 has no
        logarithm and is held.
    fixed : str or sequence of str
        Names of what is held: those of ``kernel.theta_names``, with or without ``kernel__`` in
        front, "kernel" for all of them, and "noise". A name without index means all its entries.
    bounds : dict of str to (low, high), optional
        Limits of values, by the same names; by default ``kernel.bounds`` and at least three
        orders of magnitude around the start, and `noise_bounds` with the start inside.
    priors : dict of str to frozen distributions of scipy.stats, optional
        Densities of values (not of their logarithms), by the same names.
    noise_bounds : (low, high)
        Limits of the noise where `bounds` has none.

    Attributes
    ----------
    names, words : list of str
        Names of the free parameters, and what messages call them.
    theta : ndarray of shape (p,)
        Their logarithms at the start.
    bounds : ndarray of shape (p, 2)
        Limits of θ.
    draws : ndarray of shape (p, 2)
        Where restarts are drawn: the limits the user gave, or two orders of magnitude around the
        start inside `bounds`.
    starts : list of ndarray
        Further starts, beside `theta`.
    remark : str
        What the message of a search adds about its starts.
    held_because : str
        Why nothing is to be searched for; "" where there is a search.
    """

    _names: list[str]
    _kernel_names: list[str]
    _whole: np.ndarray
    _free: np.ndarray
    _is_free: np.ndarray
    _limits: dict[float, float]

    @speaks("GaussianProcessRegressor", unless_spoken=True)
    def __init__(
        self,
        kernel: Any,
        noise: float | None = None,
        *,
        fixed: str | Sequence[str] = (),
        bounds: Mapping[str, Any] | None = None,
        priors: Mapping[str, Any] | None = None,
        noise_bounds: tuple[float, float] = (1e-8, 1e3),
    ):
        self.noise_bounds = noise_bounds
        self._name(kernel, noise, fixed)
        names, whole, box = self._names, self._whole, kernel.bounds
        if noise is not None:
            box = np.vstack([box, np.log(noise_bounds)])
        # bounds that a kernel narrows are those of its parametrisation, such as angles
        usual = (np.abs(box - np.log(DEFAULT_BOUNDS)) < NEAR).all(axis=1)
        usual[len(self._kernel_names) :] = False
        reach = np.where(usual, REACH, 0.0)
        self._reach = reach
        box = np.stack(
            [np.minimum(box[:, 0], whole - reach), np.maximum(box[:, 1], whole + reach)], 1
        )
        near = whole[:, None] + np.array([[-DRAWN, DRAWN]])
        draws = np.stack([np.maximum(box[:, 0], near[:, 0]), np.minimum(box[:, 1], near[:, 1])], 1)
        limited = np.zeros(len(names), dtype=bool)
        for name, pair in self._mapping(bounds, "bounds").items():
            at = self._at(name, "bounds")
            if np.ndim(pair) > 1:
                raise InvalidInput(
                    f"{who()}: bounds[{name!r}] = {pair!r}; give one pair (low, high) for all its "
                    f"entries, or name them one by one: {', '.join(names[i] for i in at)}."
                )
            limited[at] = True
            limits = check_bounds(name, pair)
            box[at] = draws[at] = np.log(limits)
            if name == "noise" and noise is not None:
                self._limits = dict(zip(box[-1], limits, strict=True))
        self._limited = limited[self._free]
        self.bounds, self.draws = box[self._free], draws[self._free]
        self.theta = np.clip(whole[self._free], self.bounds[:, 0], self.bounds[:, 1])
        self._priors = self._read_priors(priors)
        if not np.isfinite(self.log_prior(self.theta)[0]):
            self._refuse_start()
        self._clip_to_supports()
        self._others: list[np.ndarray] = []
        self.remark = self.held_because = ""
        self._first = self.theta

    @classmethod
    def held(cls, kernel: Any, noise: float | None = None, fixed: Any = ()) -> Parameters:
        """Return parameters that are told and read, and not searched for: without limits."""
        self = cls.__new__(cls)
        self._name(kernel, noise, fixed)
        self.theta = self._whole[self._free]
        return self

    def _name(self, kernel: Any, noise: float | None, fixed: Any) -> None:
        """Note the parameters, their logarithms and which of them are free."""
        self.kernel, self.noise = kernel, None if noise is None else float(noise)
        self._limits = {}  # of the noise, by their logarithms
        self._whole, self._kernel_names = kernel.theta, list(kernel.theta_names)
        names = list(self._kernel_names)
        if noise is not None:
            names = [f"kernel__{n}" if n == "noise" else n for n in names] + ["noise"]
            with np.errstate(divide="ignore"):
                self._whole = np.append(self._whole, np.log(float(noise)))
        self._names, self._is_free = names, np.ones(len(names), dtype=bool)
        if self.noise == 0:
            self._is_free[-1] = False
        for name in as_names(fixed):
            self._is_free[self._at(name, "fixed")] = False
        self._free = np.flatnonzero(self._is_free)
        self.names = [names[i] for i in self._free]

    # -- starts ---------------------------------------------------------------------------------
    @property
    def starts(self) -> list[np.ndarray]:
        """Starts beside `theta`; none of a copy that begins elsewhere."""
        return list(self._others) if self.theta is self._first else []

    def also(self, kernel: Any, noise: float | None) -> None:
        """Add a start, another kernel of the same form and another noise, with room around it."""
        theta, reach = self._free_theta(kernel, noise), self._reach[self._free]
        for side, extreme in ((0, np.minimum), (1, np.maximum)):
            edge = self.bounds[:, side]
            far = extreme(edge, theta + (2 * side - 1) * reach)
            self.bounds[:, side] = np.where(self._limited, edge, far)
        self._clip_to_supports()
        self._others.append(self.place(kernel, noise))

    def place(self, kernel: Any, noise: float | None) -> np.ndarray:
        """Return θ of another kernel of the same form and another noise, inside the bounds."""
        theta = self._free_theta(kernel, noise)
        return np.clip(theta, self.bounds[:, 0], self.bounds[:, 1])

    def _free_theta(self, kernel: Any, noise: float | None) -> np.ndarray:
        with np.errstate(divide="ignore"):
            whole = kernel.theta if noise is None else np.append(kernel.theta, np.log(noise))
        return whole[self._free]

    def hold(self, why: str) -> None:
        """Leave everything at the start."""
        self.bounds = self.draws = np.repeat(self.theta[:, None], 2, axis=1)
        self._others, self.held_because = [], why

    # -- names ----------------------------------------------------------------------------------
    @property
    def words(self) -> list[str]:
        """The free parameters as messages call them; `names` are those of the options."""
        every = [*names_in_words(self.kernel), "noise"]
        return [every[i] for i in self._free]

    def _mapping(self, given: Any, option: str) -> dict[str, Any]:
        if given is None:
            return {}
        if not isinstance(given, Mapping):
            what = "(low, high)" if option == "bounds" else "frozen distributions of scipy.stats"
            raise InvalidInput(f"{who()}: {option}={given!r}; give a dict of names to {what}.")
        return dict(given)

    def _at(self, name: Any, option: str) -> list[int]:
        """Return the positions of a name among all parameters, or refuse it."""
        if name == "noise" and self.noise is not None:
            found = [len(self._names) - 1]
        else:
            found = entries(name, self._kernel_names)
        if found and option != "fixed" and not self._is_free[found].any():
            why = f"fixed holds {name!r}"
            if name == "noise" and self.noise == 0:
                why = "a noise of 0 has no logarithm and is held"
            raise InvalidInput(
                f"{who()}: {option} names {name!r}, but {why}, so that it is not tuned; leave "
                "one of the two out."
            )
        if not found and name != "kernel":
            several = [n for n in self._names if _stem(n).endswith(f"__{bare_name(name)}")]
            if several:
                raise InvalidInput(
                    f"{who()}: {option} names {name!r}, which is the end of several: "
                    f"{', '.join(map(repr, several))}. Write out the one that is meant."
                )
            legal = ", ".join(map(repr, self._names)) or "none, as nothing of it can be tuned"
            found_name = nearest(name, self._names) if isinstance(name, str) else ""
            meant = f" ({found_name!r}?)" if found_name else ""
            raise InvalidInput(
                f"{who()}: {option} names {name!r}, which is no parameter to tune{meant}; there "
                f"are: {legal}. Those of the kernel may also be written with kernel__ in front."
            )
        return found

    # -- from θ to a model, and back ------------------------------------------------------------
    def _all(self, theta: Any) -> np.ndarray:
        try:
            theta = np.asarray(theta, dtype=float)
        except (OverflowError, TypeError, ValueError):
            raise InvalidInput(
                f"{who()}: theta={theta!r}; give the logarithms of {self.names}."
            ) from None
        if theta.shape != self.theta.shape:
            raise InvalidInput(
                f"{who()}: theta has shape {theta.shape}, expected {self.theta.shape} for "
                f"{self.names}."
            )
        wrong = ~(np.abs(theta) <= LARGEST)
        if wrong.any():
            i = int(np.argmax(wrong))
            raise InvalidInput(
                f"{who()}: theta[{i}] = {theta[i]:g} for {self.names[i]!r} is no logarithm of "
                f"a number; give one between −{LARGEST:g} and {LARGEST:g}."
            )
        whole = self._whole.copy()
        whole[self._free] = theta
        return whole

    def read(self, theta: Any) -> tuple[Any, float | None]:
        """Return the kernel and the noise for θ; at the start, and limits, without rounding."""
        whole = self._all(theta)
        kernel = at_theta(self.kernel, whole[: len(self._kernel_names)])
        if self.noise is None:
            return kernel, None
        if whole[-1] == self._whole[-1]:
            return kernel, self.noise
        return kernel, self._limits.get(whole[-1], float(np.exp(whole[-1])))

    def at_limits(self, theta: np.ndarray) -> list[tuple[int, str]]:
        """Return which parameters are at a limit that the user gave, and at which."""
        low, high = self.bounds.T
        found = []
        for word, edge, ends in (("lower", low, self.ends[:, 0]), ("upper", high, self.ends[:, 1])):
            at = self._limited & (theta == edge) & (low < high) & ~ends
            found += [(int(i), word) for i in np.flatnonzero(at)]
        return found

    def pull(self, kernel_gradient: Any, noise_gradient: float | None = None) -> np.ndarray:
        """Return the gradient in the free parameters from those in all of ``kernel.theta``."""
        whole = np.asarray(kernel_gradient, dtype=float)
        if self.noise is not None:
            whole = np.append(whole, 0.0 if noise_gradient is None else noise_gradient)
        return whole[self._free]

    # -- priors ---------------------------------------------------------------------------------
    def _read_priors(self, priors: Any) -> list[tuple[int, str, Any]]:
        place = {int(i): position for position, i in enumerate(self._free)}
        found: dict[int, tuple[int, str, Any]] = {}
        for name, law in self._mapping(priors, "priors").items():
            at, wrong = self._at(name, "priors"), why_no_density(law)
            if wrong:
                raise InvalidInput(
                    f"{who()}: priors[{name!r}] = {law!r} {wrong}; give a frozen "
                    "distribution such as scipy.stats.gamma(2.0)."
                )
            for i in at:
                if i in found:
                    raise InvalidInput(
                        f"{who()}: priors names {self._names[i]!r} twice, as "
                        f"{found[i][1]!r} and {name!r}; give one."
                    )
                found[i] = (place.get(i, -1), name, law)
        return [entry for entry in found.values() if entry[0] >= 0]  # others are held

    def log_prior(self, theta: Any) -> tuple[float, np.ndarray]:
        """Return Σ log p(value) over the free parameters that have a prior, and its gradient in θ.

        Outside the support of a prior the value is −∞.
        """
        theta = np.asarray(theta, dtype=float)
        value, slope = 0.0, np.zeros(len(theta))
        for i, _, law in self._priors:
            one, slope[i] = log_density(law, float(theta[i]))
            value += one
        return value, slope

    def _clip_to_supports(self) -> None:
        """Move bounds into the supports of priors, off their ends by less than values round."""
        self.ends = np.zeros(self.bounds.shape, dtype=bool)  # bounds that are ends of a support
        for i, _, law in self._priors:
            if not callable(getattr(law, "support", None)):
                continue
            with np.errstate(divide="ignore"):
                low, high = np.log(np.maximum(law.support(), 0.0)) + np.array([INSIDE, -INSIDE])
            self.ends[i] = low > self.bounds[i, 0], high < self.bounds[i, 1]
            for box in (self.bounds, self.draws):
                box[i] = np.clip(box[i], min(low, self.theta[i]), max(high, self.theta[i]))

    def outside(self, theta: np.ndarray) -> str | None:
        """Return the name of a prior that has no density at θ."""
        for i, name, law in self._priors:
            if not np.isfinite(log_density(law, float(theta[i]))[0]):
                return name
        return None

    def _refuse_start(self) -> None:
        for i, name, law in self._priors:
            if not np.isfinite(log_density(law, float(self.theta[i]))[0]):
                raise InvalidInput(
                    f"{who()}: the start {self.words[i]} = {np.exp(self.theta[i]):.4g} has no "
                    f"finite density under priors[{name!r}]; start inside its support, or give "
                    "another prior."
                )


def _stem(name: str) -> str:
    return name.partition("[")[0]


# ---- Coordinates in which log evidence is nearly quadratic, also where a parameter stops to
# matter.
# A length scale that goes to infinity, as one of an irrelevant column does, changes the evidence
# by c·ℓ⁻²: Newton's method in log ℓ moves by ½ at each step, for ever, while in ℓ⁻² it steps to
# the bound at once, and still sees there on which side the evidence rises. A variable is
#
#     x = (exp(q(θ − c)) − 1)/q,   x = θ − c for q = 0,   dx/dθ = 1 at θ = c,
#
# with q = −2 for length scales of little curvature, and c where that curvature would be 1.


Function = Callable[[np.ndarray], Point | None]
FARTHEST = np.log(1e2)  # from θ to c, where rounding hides how little a parameter matters


def log_chart(theta: np.ndarray) -> Chart:
    """Return the coordinates θ themselves."""
    return Chart(np.zeros(len(theta)), np.zeros(len(theta)))


def tail_chart(names: Sequence[str], theta: np.ndarray, curvature: np.ndarray) -> Chart:
    """Return coordinates that are bent for length scales that matter little."""
    scale = np.array(["length_scale" in name for name in names], dtype=bool)
    tail = scale & (curvature < 1.0)
    # of a·exp(−2θ) the second derivative is 1 at θ + ½ log of what it is at θ
    back = np.minimum(-0.5 * np.log(np.maximum(curvature, 1e-300)), FARTHEST)
    return Chart(np.where(tail, -2.0, 0.0), np.where(tail, theta - back, 0.0))


class Chart:
    """One coordinate for each log-parameter."""

    def __init__(self, q: np.ndarray, centre: np.ndarray):
        self.q, self.centre = q, centre
        self._divisor = np.where(q == 0, 1.0, q)

    @property
    def bent(self) -> bool:
        """Whether the coordinates are not θ itself."""
        return bool(self.q.any())

    def x(self, theta: np.ndarray) -> np.ndarray:
        """Return coordinates of θ, of shape (p,) or (p, 2)."""
        q, c, by = (v.reshape(-1, *[1] * (theta.ndim - 1)) for v in self._parts())
        return np.where(q == 0, theta - c, np.expm1(q * (theta - c)) / by)

    def theta(self, x: np.ndarray) -> np.ndarray:
        """Return θ of coordinates."""
        q, c, by = self._parts()
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(q == 0, x + c, c + np.log1p(q * x) / by)

    def _parts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.q, self.centre, self._divisor

    def point(self, at: Point) -> Point:
        """Return a point in θ with its gradient, in coordinates."""
        return Point(self.x(at.x), at.value, at.gradient * np.exp(-self.q * (at.x - self.centre)))

    def back(self, at: Point, box: np.ndarray) -> Point:
        """Return a point in coordinates with its gradient, in θ and inside its box."""
        theta = self._inside(at.x, box)
        return Point(theta, at.value, at.gradient * np.exp(self.q * (theta - self.centre)))

    def _inside(self, x: np.ndarray, box: np.ndarray) -> np.ndarray:
        edges = self.x(box)
        theta = np.where(x <= edges[:, 0], box[:, 0], np.where(x >= edges[:, 1], box[:, 1], 0.0))
        inner = (x > edges[:, 0]) & (x < edges[:, 1])
        return np.clip(np.where(inner, self.theta(x), theta), box[:, 0], box[:, 1])

    def over(self, f: Function, box: np.ndarray) -> Function:
        """Return f of θ as a function of coordinates; θ stays in its box in spite of rounding."""

        def of_x(x: np.ndarray) -> Point | None:
            found = f(self._inside(x, box))
            return None if found is None else Point(x, found.value, self.point(found).gradient)

        return of_x


# ---- Priors in model files: a name of scipy's list, and plain numbers ----
# Such as ``scipy.stats.gamma(2.0, scale=0.5)``. Distributions that users derive are code, which a
# model file never holds.


FROZEN = type(stats.norm())


@functools.cache
def _laws() -> dict[str, Any]:
    """Return the continuous distributions of scipy.stats by name."""
    found = {}
    for name in dir(stats):
        item = getattr(stats, name)
        if isinstance(item, stats.rv_continuous) and item.name == name:
            found[name] = item
    return found


def prior_params(item: Any, where: str) -> dict[str, Any]:
    """Return what a file holds of a frozen distribution."""
    law = _laws().get(item.dist.name)
    mine = item.dist
    if law is None or type(law) is not type(mine) or (law.a, law.b) != (mine.a, mine.b):
        raise InvalidInput(
            f"save: {where} is a distribution {item.dist.name!r} that is not one of scipy.stats, "
            "and a model file never holds code. Use one that scipy.stats has."
        )
    try:
        args = [_number(value) for value in item.args]
        kwds = {name: _number(value) for name, value in item.kwds.items()}
    except (TypeError, ValueError):
        raise InvalidInput(
            f"save: {where} is a distribution {item.dist.name!r} of arrays; give it numbers."
        ) from None
    return {"name": item.dist.name, "args": args, "kwds": kwds}


def prior_of_params(**params: Any) -> Any:
    """Return the frozen distribution that a file describes, or refuse what is malformed."""
    if set(params) != {"name", "args", "kwds"}:
        raise ModelFileError("a distribution of it is malformed")
    name, args, kwds = params["name"], params["args"], params["kwds"]
    law = _laws().get(name) if isinstance(name, str) else None
    if law is None:
        raise ModelFileError(
            f"it names the distribution {str(name)[:60]!r}, which scipy.stats does not have"
        )
    try:
        return law(*map(_number, args), **{key: _number(v) for key, v in kwds.items()})
    except (TypeError, ValueError, AttributeError) as error:
        raise ModelFileError(f"the distribution {name!r} of it is malformed: {error}") from error


def _number(value: Any) -> float:
    if isinstance(value, bool | str) or math.isnan(number := float(value)):
        raise ValueError("a parameter is not a number")
    return number
