"""Frozen distributions of scipy.stats in model files: a name of scipy's list, and plain numbers.

A prior such as ``scipy.stats.gamma(2.0, scale=0.5)`` is its name and the numbers it was made with.
Distributions that users derive are code, which a model file never holds.
"""

from __future__ import annotations

import functools
import math
from typing import Any

from scipy import stats

from mercer.errors import InvalidInput, ModelFileError
from mercer.io.forms import Form

__all__ = ["NAME", "form_of", "frozen_form"]

NAME = "scipy:frozen"
_FROZEN = type(stats.norm())


@functools.cache
def _named() -> dict[str, Any]:
    """Return the continuous distributions of scipy.stats by name."""
    found = {}
    for name in dir(stats):
        item = getattr(stats, name)
        if isinstance(item, stats.rv_continuous) and item.name == name:
            found[name] = item
    return found


def form_of(item: Any) -> Form | None:
    """Return the form of a frozen distribution, or None for anything else."""
    return frozen_form() if type(item) is _FROZEN else None


@functools.cache
def frozen_form() -> Form:
    """Return the one form of all frozen distributions."""
    return Form(NAME, _FROZEN, ("params",), _split, _build)


def _split(item: Any, where: str) -> dict[str, dict[str, Any]]:
    law = _named().get(item.dist.name)
    if (
        law is None
        or type(law) is not type(item.dist)
        or (law.a, law.b)
        != (
            item.dist.a,
            item.dist.b,
        )
    ):
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
    return {"params": {"name": item.dist.name, "args": args, "kwds": kwds}}


def _build(parts: dict[str, dict[str, Any]]) -> Any:
    params = parts.get("params", {})
    if set(params) != {"name", "args", "kwds"}:
        raise ModelFileError("a distribution of it is malformed")
    name, args, kwds = params["name"], params["args"], params["kwds"]
    law = _named().get(name) if isinstance(name, str) else None
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
