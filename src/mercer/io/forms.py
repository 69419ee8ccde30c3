"""How an object of the closed list is taken apart into named values and put together again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from mercer.domains import GramRows
from mercer.domains.tables.table import has_width
from mercer.domains.vectors import to_host
from mercer.errors import InvalidInput, ModelFileError
from mercer.kernels.base import Kernel

__all__ = ["Form", "estimator_form", "is_fitted", "learned_names", "plain_form"]

Parts = dict[str, dict[str, Any]]

# Written by scikit-learn into an estimator without being state of a fit.
_OUTPUT = "_sklearn_output_config"
_IGNORED = frozenset({_OUTPUT, "_skl_callbacks", "_metadata_request"})
_OUTPUTS = ("default", "pandas", "polars")
_MAX_FEATURES = 2**31


@dataclass(frozen=True)
class Form:
    """A class of the closed list: its name in files, and the way there and back."""

    name: str
    cls: type
    parts: tuple[str, ...]
    split: Callable[[Any, str], Parts]
    build: Callable[[Parts], Any]


def plain_form(
    name: str,
    cls: type,
    params: Callable[[Any], Mapping[str, Any]],
    make: Callable[..., Any] | None = None,
) -> Form:
    """Form of an object that is its constructor's arguments and nothing else."""

    def split(item: Any, where: str) -> Parts:
        return {"params": dict(params(item))}

    def build(parts: Parts) -> Any:
        return (make or cls)(**parts.get("params", {}))

    return Form(name, cls, ("params",), split, build)


def estimator_form(name: str, cls: type, private: tuple[str, ...] = ()) -> Form:
    """Form of an estimator: its parameters, its learned state, and its choice of output.

    The state is what ``cls._learned`` names. A class without it is one of scikit-learn's kind,
    whose state is every attribute that ends in an underscore, and those of ``private``.
    """

    def split(item: Any, where: str) -> Parts:
        # A tensor belongs to a device; what a model was told in one is kept as an array.
        given = item.get_params(deep=False)
        params = {key: to_host(value, key) for key, value in given.items()}
        parts = {"params": params, "state": _state(item, where, params, private)}
        if _OUTPUT in vars(item):
            parts["output"] = dict(vars(item)[_OUTPUT])
        return parts

    def build(parts: Parts) -> Any:
        item = cls(**parts.get("params", {}))
        for attribute, value in parts.get("state", {}).items():
            if not _may_hold(cls, attribute, private):
                raise ModelFileError(f"{name} does not learn an attribute {attribute[:60]!r}")
            setattr(item, attribute, value)
        if "output" in parts:
            _set_output(item, parts["output"])
        _check_agreement(item, name)
        if hasattr(item, "_check_state"):
            item._check_state()
        return item

    return Form(name, cls, ("params", "state", "output"), split, build)


def learned_names(cls: type) -> tuple[str, ...] | None:
    """Return the attributes a class says it learns, or None if it does not say."""
    return getattr(cls, "_learned", None)


def is_fitted(item: Any) -> bool:
    """Whether an estimator has something to keep."""
    learned = learned_names(type(item))
    if learned is not None:
        return any(name in vars(item) for name in learned)
    try:
        check_is_fitted(item)
    except (NotFittedError, TypeError):
        return False
    return True


def _state(item: Any, where: str, params: Mapping, private: tuple[str, ...]) -> dict[str, Any]:
    learned = learned_names(type(item))
    if learned is not None:
        return {name: vars(item)[name] for name in learned if name in vars(item)}
    state = {n: v for n, v in vars(item).items() if n not in params and n not in _IGNORED}
    for name in state:
        if not _may_hold(type(item), name, private):
            raise InvalidInput(
                f"save: {where} holds the private attribute {name!r}, and whether "
                f"{type(item).__name__} works without it is not known to this mercer. Leave that "
                "step out of the pipeline and apply it to the data first."
            )
    return state


def _may_hold(cls: type, name: str, private: tuple[str, ...]) -> bool:
    learned = learned_names(cls)
    if learned is not None:
        return name in learned
    if name in private:
        return True
    ordinary = name.isidentifier() and name.endswith("_") and not name.startswith("_")
    # An attribute of the class is a method or a property, never state.
    return ordinary and not hasattr(cls, name)


def _set_output(item: Any, config: dict[str, Any]) -> None:
    if set(config) != {"transform"} or config["transform"] not in _OUTPUTS:
        raise ModelFileError(f"{type(item).__name__} cannot have the output {str(config)[:60]}")
    setattr(item, _OUTPUT, config)


def _check_agreement(item: Any, name: str) -> None:
    """Cheap agreement between what is said of the training data and what is kept of it."""
    state = vars(item)
    count, names = state.get("n_features_in_"), state.get("feature_names_in_")
    if count is not None:
        if not isinstance(count, int | np.integer) or not 0 <= count < _MAX_FEATURES:
            raise ModelFileError(f"{name} says that it was fitted to {str(count)[:40]} columns")
        if names is not None and np.shape(names) != (count,):
            raise ModelFileError(f"{name} has {count} columns, but not as many names of columns")
    kernel = state.get("kernel_")
    if "kernel_" in state and not isinstance(kernel, Kernel):
        raise ModelFileError(f"{name} has {str(kernel)[:40]!r} in the place of its kernel")
    if kernel is not None and kernel._words():
        raise ModelFileError(f"{name} has a kernel without numbers for {kernel._words()}")
    points, coefficients = state.get("X_fit_"), state.get("dual_coef_")
    if points is None:
        return
    shape: tuple[int, ...] = getattr(points, "shape", None) or (len(points),)
    if count is not None and not has_width(points, count):
        raise ModelFileError(f"{name} has {count} columns, but keeps points of {shape[1]}")
    if coefficients is not None and np.shape(coefficients)[:1] != tuple(shape[:1]):
        raise ModelFileError(
            f"{name} keeps {shape[0]} points, but coefficients of shape {np.shape(coefficients)}"
        )
    if kernel is not None and isinstance(kernel.domain, GramRows):
        # The points are positions of columns in the matrix of kernel values.
        legal = isinstance(points, np.ndarray) and points.ndim == 1 and points.dtype.kind in "iu"
        if not legal or count is None or np.any(points < 0) or np.any(points >= count):
            raise ModelFileError(f"{name} keeps positions of training points out of range")
    elif kernel is not None:
        kernel.domain.check(points)
