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
from typing import Any

from mercer.errors import ModelFileError
from mercer.estimator.state.parts import Anything, Floats, Points, Sizes, Spare

Rule = tuple[str, Callable[[Any], Any]]
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
    """Refuse a state read from a file whose parts do not belong together.

    A model that has learned nothing is none of these, unless it must be `fitted`.
    """
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
        if name in vars(model) and not _holds(_fits, part, name, sizes):
            raise ModelFileError(part.says.format(owner, vars(model)[name]))
    for text, rule in rules:
        if not _holds(rule, model):
            raise ModelFileError(text.format(owner))
    return True


def _needs(part: Anything, model: Any) -> bool:
    return part.needed(model) if callable(part.needed) else part.needed


def _fits(part: Anything, name: str, sizes: Sizes) -> bool:
    value = vars(sizes.model)[name]
    if value is None:  # nothing, or what the model finds when it is asked
        if part.none:
            return True
        value = getattr(sizes.model, name)
    return part.fits(value, sizes)


def _holds(condition: Callable[..., Any], *about: Any) -> bool:
    """Whether a condition holds; one that cannot even be asked of such values does not."""
    try:
        return bool(condition(*about))
    except ModelFileError:
        raise
    except (TypeError, ValueError, AttributeError, LookupError):
        return False
