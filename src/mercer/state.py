"""What a fitted model holds, told as a table, and the one reader that checks a state from a file.

A class tells in ``_state`` what it learns, name by name: the axes of each array, and which values
it may have. An axis is a letter, which stands for the same number in all arrays of a model, a
number, or a function of the model:

    _state = SOLVED | {
        "coef_": Maybe(Floats(n_features, "t?")),
        "sample_weight_": Spare(Array("n")),
    }

"t?" is an axis that is left out where there is one output, or two classes; "..." is any that
follow. There is always at least one of "n", the points, and of "d", the columns. What a table
cannot tell stands in ``_rules``, pairs of the words of a refusal and a condition on the model. The
names of the table are ``_learned``.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from types import EllipsisType
from typing import Any, TypeVar

import numpy as np

from mercer.errors import InvalidInput, ModelFileError

Needed = bool | Callable[[Any], bool]
Rule = tuple[str, Callable[[Any], Any]]
Axis = str | int | EllipsisType | Callable[[Any], Any]

MISFIT = "the arrays of a {} do not fit one another"
CLASSES_MISFIT = "the classes of a {} do not fit its arrays"
PARTS_MISFIT = "the parts of a {} do not fit one another"


class Sizes(dict[Any, Any]):
    """The numbers that the letters stand for, as far as arrays of a model have told them."""

    def __init__(self, model: Any):
        super().__init__()
        self.model = model

    def fit(self, shape: tuple[int, ...], axes: tuple[Axis, ...]) -> bool:
        """Whether a shape has these axes; letters that are new take their number from it."""
        *others, last = axes or (None,)
        if last is ...:
            axes, shape = tuple(others), shape[: len(others)]
        elif isinstance(last, str) and last.endswith("?"):
            rest, letter = shape[len(others) :], last[:-1]
            if self.setdefault(last, rest) != rest:
                return False
            if rest:
                others.append(letter)
            else:
                self.setdefault(letter, 1)
            axes = tuple(others)
        return len(shape) == len(axes) and all(map(self._is, axes, shape))

    def _is(self, axis: Any, number: int) -> bool:
        if callable(axis):
            axis = axis(self.model)
        wanted = self.setdefault(axis, number) if isinstance(axis, str) else axis
        return number == wanted and (number > 0 or axis not in ("n", "d"))


class Anything:
    """Any value.

    `says` and `lacks` are the words for one that does not fit and for one that is missing, with {}
    for the class, and for the value or the missing names.
    """

    none = False  # whether None fits, whatever else does not

    def __init__(
        self, *, says: str = MISFIT, lacks: str = "a {} without {}", needed: Needed = True
    ) -> None:
        self.says = says
        self.lacks = lacks
        self.needed = needed

    def _fits(self, value: Any, sizes: Sizes) -> Any:
        return True


Part = TypeVar("Part", bound=Anything)


def Maybe(part: Part) -> Part:
    """The same, or None."""
    part = copy(part)
    part.none = True
    return part


def Spare(part: Anything | None = None) -> Anything:
    """The same, or None, or not there at all."""
    part = Maybe(part or Anything())
    part.needed = False
    return part


class Array(Anything):
    """Numbers along the given axes, of one of the kinds of dtype if these are given."""

    def __init__(
        self,
        *axes: Axis,
        kind: str = "",
        finite: bool = False,
        least: float | None = None,
        above: float | None = None,
        below: str | float | None = None,
        **words: Any,
    ) -> None:
        super().__init__(**words)
        self.axes = axes
        self.kind = kind
        self.finite = finite
        self.least = least
        self.above = above
        self.below = below

    def _fits(self, value: Any, sizes: Sizes) -> Any:
        a = np.asarray(value)
        return (
            value is not None
            and (a is value or a.ndim == 0)
            and (not self.kind or a.dtype.kind in self.kind)
            and sizes.fit(a.shape, self.axes)
            and (not self.finite or np.isfinite(a).all())
            and (self.least is None or (a >= self.least).all())
            and (self.above is None or (a > self.above).all())
            and (self.below is None or (a < sizes.get(self.below, self.below)).all())
        )


class Floats(Array):
    """Finite numbers."""

    def __init__(self, *axes: Axis, finite: bool = True, **how: Any) -> None:
        super().__init__(*axes, finite=finite, **how)


class Doubles(Floats):
    """Finite numbers in an array of float64."""

    def _fits(self, value: Any, sizes: Sizes) -> Any:
        double = isinstance(value, np.ndarray) and value.dtype == np.float64
        return double and super()._fits(value, sizes)


class Triangle(Doubles):
    """A triangular factor: square, with a positive diagonal."""

    def __init__(self, axis: str, **words: Any) -> None:
        super().__init__(axis, axis, **words)

    def _fits(self, value: Any, sizes: Sizes) -> Any:
        return super()._fits(value, sizes) and (np.diagonal(value) > 0).all()


class Whole(Array):
    """Whole numbers, such as codes of classes or positions."""

    def __init__(self, *axes: Axis, kind: str = "iu", **how: Any) -> None:
        super().__init__(*axes, kind=kind, **how)


class Weights(Floats):
    """Weights of rows, none negative and not all of them zero."""

    def __init__(self, axis: str, **words: Any) -> None:
        super().__init__(axis, kind="biuf", least=0, **words)

    def _fits(self, value: Any, sizes: Sizes) -> Any:
        return super()._fits(value, sizes) and (value > 0).any()


class Along(Anything):
    """Any value that has to do with one axis."""

    def __init__(self, axis: str, **words: Any) -> None:
        super().__init__(**words)
        self.axis = axis


class Tuple(Along):
    """A tuple along an axis, for each item of which a condition holds."""

    def __init__(self, axis: str, each: Callable[[Any], Any] | None = None, **words: Any) -> None:
        super().__init__(axis, **words)
        self.each = each

    def _fits(self, value: Any, sizes: Sizes) -> Any:
        fits = type(value) is tuple and sizes.fit((len(value),), (self.axis,))
        return fits and (self.each is None or all(map(self.each, value)))


class Labels(Along):
    """Distinct classes; "c" is their number, and "t?" the axis that more than two of them have."""

    def _fits(self, value: Any, sizes: Sizes) -> Any:
        k = sizes["c"] = len(value)
        told = self.axis == "c" or (k >= 2 and sizes[self.axis] == (() if k == 2 else (k,)))
        return told and len(np.unique(value)) == k


class SizeOf(Along):
    """The number that a letter stands for."""

    def _fits(self, value: Any, sizes: Sizes) -> Any:
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        return whole and sizes.fit((int(value),), (self.axis,))


class Points(Along):
    """Points of a kernel that the model keeps of its training data; checked, where `named`."""

    def __init__(
        self,
        axis: str,
        named: str = "",
        *,
        kernel: str = "kernel_",
        kept: bool = True,
        **words: Any,
    ) -> None:
        super().__init__(axis, **words)
        self.named = named
        self.kernel = kernel
        self.kept = kept

    def _fits(self, value: Any, sizes: Sizes) -> Any:
        model = sizes.model
        domain = getattr(model, self.kernel).domain
        try:
            count = domain.size(domain.check(value, self.named) if self.named else value)
        except (InvalidInput, TypeError, AttributeError) as error:
            if not self.named:
                return False
            text = f"the {self.named} of a {type(model).__name__} are not points: {error}"
            raise ModelFileError(text) from error
        keeps = not self.kept or domain.may_keep(value, vars(model).get("n_features_in_"))
        return sizes.fit((count,), (self.axis,)) and keeps


class Words(Anything):
    """One of some words."""

    def __init__(self, *words: str, **how: Any) -> None:
        super().__init__(**how)
        self.words = words

    def _fits(self, value: Any, sizes: Sizes) -> Any:
        return isinstance(value, str) and value in self.words


class Such(Anything):
    """A value of a type, or one for which a function of it holds."""

    def __init__(self, condition: type | Callable[[Any], Any], **words: Any) -> None:
        super().__init__(**words)
        self.condition = condition

    def _fits(self, value: Any, sizes: Sizes) -> Any:
        if isinstance(self.condition, type):
            return isinstance(value, self.condition)
        return self.condition(value)


State = dict[str, Anything]

#: What is known of the columns of the training data.
INPUTS: State = {"n_features_in_": Spare(), "feature_names_in_": Spare()}
#: What a model f(x) = Σ αᵢ k(xᵢ, x) + b learns.
SOLVED: State = {
    "kernel_": Anything(),
    "X_fit_": Points("n"),
    "dual_coef_": Floats("n", "t?"),
    "intercept_": Floats("t?"),
    "solution_": Anything(),
    **INPUTS,
}


def others(*names: str, needed: bool = False) -> State:
    """Return a table of attributes that may hold any value, if they are there."""
    return dict.fromkeys(names, Anything(needed=needed))


def worded(table: State, says: str, lacks: str | None = None) -> State:
    """Return a table whose refusals have these words."""
    out = {name: copy(part) for name, part in table.items()}
    for part in out.values():
        part.says = says
        part.lacks = lacks or part.lacks
    return out


def check_state(model: Any, *, fitted: bool = False) -> None:
    """Refuse a state from a file whose parts do not belong together; one of nothing if `fitted`."""
    held, table = vars(model), model._state
    if not (fitted or any(name in held for name in model._learned)):
        return
    owner = type(model).__name__
    missing = [name for name, part in table.items() if name not in held and _needs(part, model)]
    if missing:
        text = table[missing[0]].lacks
        names = [name for name in missing if table[name].lacks == text]
        raise ModelFileError(text.format(owner, ", ".join(names)))
    check_parts(model, table, model._rules)


def check_parts(model: Any, table: State, rules: tuple[Rule, ...] = ()) -> bool:
    """Refuse attributes that do not fit one another, whether or not the model tells them so."""
    owner, sizes = type(model).__name__, Sizes(model)
    for name, part in table.items():
        if name in vars(model) and not _holds(_holds_part, part, name, sizes):
            raise ModelFileError(part.says.format(owner, vars(model)[name]))
    for text, rule in rules:
        if not _holds(rule, model):
            raise ModelFileError(text.format(owner))
    return True


def _needs(part: Anything, model: Any) -> bool:
    return part.needed(model) if callable(part.needed) else part.needed


def _holds_part(part: Anything, name: str, sizes: Sizes) -> bool:
    value = vars(sizes.model)[name]
    if value is None:  # nothing, or what the model finds when it is asked
        if part.none:
            return True
        value = getattr(sizes.model, name)
    return part._fits(value, sizes)


def _holds(condition: Callable[..., Any], *about: Any) -> bool:
    """Whether a condition holds; one that cannot even be asked of such values does not."""
    try:
        return bool(condition(*about))
    except ModelFileError:
        raise
    except (TypeError, ValueError, AttributeError, LookupError):
        return False
