"""What the user asks to tune: names and ranges as given, contradictions, lists of choices."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mercer.checks import bare_name, check_bounds
from mercer.errors import InvalidInput, MercerError
from mercer.kernels import as_kernel

__all__ = ["check_names", "read_over", "split_choices"]


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


def _whole_numbers(name: str, range_: Any, value: int) -> list[int]:
    low, high = (1, max(5, 2 * value)) if range_ is None else check_bounds(name, range_, "over")
    return list(range(int(np.ceil(low)), int(np.floor(high)) + 1))
