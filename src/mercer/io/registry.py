"""The closed list: every class that a model file may name, and no other.

It is found by reflection: the kernels that `mercer.kernels` exports, the losses of `mercer.losses`,
the estimators of `mercer.models` and `mercer.features`, and the one that `srm` makes of a kernel,
that can be fitted and declare their learned state in ``_learned``, the values `Function`, `Table`,
`Solution`, `Search` and `Plan`, the scikit-learn classes of `mercer.io.scikit`, the distributions
of `mercer.io.distributions`, and what the process itself added with `register`. A file holds a name
of this list, never an import path.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator

from mercer.domains import (
    BagCollection,
    CategoryCollection,
    Graph,
    GraphCollection,
    IncompleteCollection,
    NodeCollection,
    SeriesCollection,
    StringCollection,
    Table,
)
from mercer.errors import InvalidInput, ModelFileError
from mercer.estimator.plan import Plan
from mercer.features.table_columns import TableColumns
from mercer.io import distributions, scikit, tables
from mercer.io.forms import Form, estimator_form, learned_names, plain_form
from mercer.kernels.base import Kernel
from mercer.losses import Loss
from mercer.models.gp.search import Search
from mercer.rkhs import Function
from mercer.solvers.base import Solution

__all__ = ["closed_list", "form_named", "form_of", "register"]

# Kernels made of a Python function: a file cannot hold one, so it cannot hold these.
_HOLD_FUNCTIONS = frozenset({"FromFeatures", "FromFunction", "ScaledBy", "Warped"})
_ESTIMATORS = ("mercer.models", "mercer.features", "mercer.selection.structural_risk")
_own: dict[str, Form] = {}

C = TypeVar("C", bound=type)


@functools.cache
def closed_list() -> dict[str, Form]:
    """Return the forms of mercer's own classes by their names in files."""
    forms = [
        plain_form("value:Function", Function, _function_params, _function),
        plain_form("value:Table", Table, tables.table_params, tables.table),
        plain_form("value:TableColumns", TableColumns, vars, TableColumns.from_parts),
        plain_form("value:Graph", Graph, Graph._arrays, Graph.from_arrays),
        *map(_packed_form, (StringCollection, BagCollection, GraphCollection, SeriesCollection)),
        *map(_packed_form, (NodeCollection, CategoryCollection, IncompleteCollection)),
        _solution_form(),
        _search_form(),
        _plan_form(),
    ]
    for cls in _exported("mercer.kernels"):
        if issubclass(cls, Kernel) and _is_whole(cls) and cls.__name__ not in _HOLD_FUNCTIONS:
            forms.append(_kernel_form(f"kernel:{cls.__name__}", cls))
    for cls in _exported("mercer.losses"):
        if cls is not Loss:
            forms.append(_loss_form(f"loss:{cls.__name__}", cls))
    for module in _ESTIMATORS:
        for cls in _exported(module):
            whole = issubclass(cls, BaseEstimator) and hasattr(cls, "fit")
            if whole and learned_names(cls) is not None:
                forms.append(estimator_form(f"estimator:{cls.__name__}", cls))
    return {form.name: form for form in forms}


def register(cls: C) -> C:
    """Add a class of your own to the closed list, for this process.

    A model file never brings code with it: the class must be registered under the same name both
    where the file is saved and where it is loaded.

    Parameters
    ----------
    cls : type
        A `Kernel` or a `Loss`, whose constructor arguments are all that is kept (those of a loss
        are its attributes); or a scikit-learn estimator, of which the parameters and the learned
        attributes are kept: those named by the tuple ``_learned`` of the class, or if it has none,
        all that end in an underscore.

    Returns
    -------
    type
        The class itself, so that this can be used as a decorator.

    Examples
    --------
    >>> import mercer.io
    >>> from mercer.kernels import RBF
    >>> @mercer.io.register
    ... class Narrow(RBF):
    ...     def __init__(self, length_scale=0.1):
    ...         super().__init__(length_scale=length_scale)
    """
    if not isinstance(cls, type) or not issubclass(cls, Kernel | Loss | BaseEstimator):
        raise InvalidInput(
            f"register: {cls!r} is not a class of kernels, of losses or of scikit-learn "
            "estimators; pass the class itself, derived from mercer.kernels.Kernel, "
            "mercer.losses.Loss or sklearn.base.BaseEstimator."
        )
    if _known(cls) is not None:
        return cls
    name = f"own:{cls.__name__}"
    other = _own.get(name)
    if other is not None and _address(other.cls) != _address(cls):
        raise InvalidInput(
            f"register: the name {cls.__name__!r} is taken by {other.cls!r}; rename the class."
        )
    families = {Kernel: _kernel_form, Loss: _loss_form, BaseEstimator: estimator_form}
    make = next(form for base, form in families.items() if issubclass(cls, base))
    _own[name] = make(name, cls)  # a class that a notebook defines again replaces the former one
    return cls


def form_of(item: Any, where: str) -> Form:
    """Return the form of an object, or refuse it with what to do instead."""
    form = _known(type(item)) or scikit.form_of(item) or distributions.form_of(item)
    if form is None:
        raise InvalidInput(f"save: {where} cannot be kept: {_refusal(item, where)}")
    return form


def form_named(name: str) -> Form:
    """Return the form that a file names, or refuse the name."""
    family, _, cls = name.partition(":")
    form = closed_list().get(name) or _own.get(name)
    if form is None and family == "scikit-learn":
        form = scikit.form_named(cls)
    if form is None and name == distributions.NAME:
        form = distributions.frozen_form()
    if form is None:
        cure = ". If it is a class of yours, call mercer.io.register(it) before load"
        raise ModelFileError(
            f"it names the class {name[:80]!r}, which is not on the list of classes that may be "
            f"loaded{cure if family == 'own' else ''}"
        )
    return form


def _known(cls: type) -> Form | None:
    for forms in (closed_list(), _own):
        for form in forms.values():
            if form.cls is cls:
                return form
    return None


def _exported(module: str) -> list[type]:
    namespace = importlib.import_module(module)
    items = (getattr(namespace, name) for name in namespace.__all__)
    return [item for item in items if isinstance(item, type)]


def _is_whole(cls: type) -> bool:
    """Whether the constructor names its parameters; base classes for authors take any."""
    kinds = {p.kind for p in inspect.signature(cls.__init__).parameters.values()}  # type: ignore[misc]
    return inspect.Parameter.VAR_KEYWORD not in kinds


def _address(cls: type) -> tuple[str, str]:
    return cls.__module__, cls.__qualname__


# ------------------------------------------------------------------------- forms of single classes
def _kernel_form(name: str, cls: Any) -> Form:
    def make(**params: Any) -> Any:
        unknown = set(params) - set(cls._param_names())  # a constructor may take anything
        if unknown:
            raise ModelFileError(f"{name} has no parameter {min(unknown)[:60]!r}")
        return cls(**params)

    return plain_form(name, cls, lambda kernel: kernel.get_params(deep=False), make)


def _loss_form(name: str, cls: Any) -> Form:
    return plain_form(name, cls, lambda loss: dict(vars(loss)), cls)


def _function_params(f: Function) -> dict[str, Any]:
    return {"kernel": f.kernel, "points": f.points, "coef": f.coef, "offset": f.offset}


def _function(kernel: Any, **params: Any) -> Function:
    if not isinstance(kernel, Kernel):
        raise ModelFileError("a function of it has no kernel")
    return Function(kernel, **params)


def _packed_form(cls: Any) -> Form:
    """A packed collection: its arrays, checked when they come back."""

    def params(points: Any) -> dict[str, Any]:
        return {name: getattr(points, name) for name in cls._arrays}

    return plain_form(f"value:{cls.__name__}", cls, params, cls.from_arrays)


def _solution_form() -> Form:
    """A solution without its value: the model has it already, in its own attributes."""
    names = {f.name for f in fields(Solution)} - {"value", "extra"}

    def params(solution: Solution) -> dict[str, Any]:
        summary = solution.summary()
        extra = {key: value for key, value in summary.items() if key not in names}
        return {**{name: summary[name] for name in names}, "extra": extra}

    def build(**params: Any) -> Solution:
        if not isinstance(params.get("extra", {}), dict):
            raise ModelFileError("a solution of it has a malformed extra part")
        return Solution(value=None, **params)

    return plain_form("value:Solution", Solution, params, build)


def _plan_form() -> Form:
    """A plan of a fit, with its alternatives."""

    def params(plan: Plan) -> dict[str, Any]:
        return {f.name: getattr(plan, f.name) for f in fields(Plan)}

    def build(**params: Any) -> Plan:
        plan = Plan(**params)
        others = plan.alternatives
        if not isinstance(others, tuple) or not all(isinstance(p, Plan) for p in others):
            raise ModelFileError("a plan of it has malformed alternatives")
        if not all(isinstance(part, str) for part in (plan.method, plan.why, plan.owner)):
            raise ModelFileError("a plan of it has no words for what was planned")
        numbers = (
            plan.memory, plan.budget, plan.seconds, plan.error, plan.n_centers, plan.most_centers,
        )  # fmt: skip
        if not all(part is None or isinstance(part, int | float) for part in numbers):
            raise ModelFileError("a plan of it has costs that are no numbers")
        return plan

    return plain_form("value:Plan", Plan, params, build)


def _search_form() -> Form:
    """A search for parameters, in plain numbers all of it."""

    def params(search: Search) -> dict[str, Any]:
        return {f.name: getattr(search, f.name) for f in fields(Search)}

    def build(**params: Any) -> Search:
        parts: list[Any] = [params.get(name) for name in ("theta", "gradient", "tried")]
        if not all(isinstance(A, np.ndarray) and A.dtype == np.float64 for A in parts):
            raise ModelFileError("a search of it has parameters that are not numbers")
        theta, gradient, tried = parts
        width = (theta.size + 1,)
        if theta.ndim != 1 or gradient.shape != theta.shape or tried.shape[1:] != width:
            raise ModelFileError("a search of it has malformed parameters")
        return Search(**params)

    return plain_form("value:Search", Search, params, build)


# ---------------------------------------------------------------------------------------- refusals
_NO_CODE = (
    "and a model file never holds code. Use a named kernel such as mercer.RBF(); or fit with "
    "kernel='precomputed' and compute the kernel matrix yourself; or write the formula as a class "
    "(a Kernel) and call mercer.io.register(that class) before save and before load."
)


def _refusal(item: Any, where: str) -> str:
    """Say why an object cannot be kept, and what to do."""
    cls, call = type(item), "call mercer.io.register({}) before save and before load"
    if cls.__module__.partition(".")[0] == "torch":
        return (
            f"it is a torch {cls.__name__}, which lives on a device, and a model file holds NumPy "
            "arrays. Fit on X.cpu().numpy() to save the model."
        )
    if isinstance(item, Kernel):
        if cls.__name__ in _HOLD_FUNCTIONS:
            return f"it is a {cls.__name__} kernel, made of a Python function, {_NO_CODE}"
        return (
            f"it is a {cls.__name__}, which is not one of mercer's kernels, and a model file never "
            f"holds code; {call.format(cls.__name__)}."
        )
    if isinstance(item, Loss):
        return (
            f"it is a {cls.__name__}, which is not one of mercer's losses, and a model file never "
            f"holds code; {call.format(cls.__name__)}."
        )
    if hasattr(item, "best_estimator_"):
        return f"it is a {cls.__name__}, a search; save its best_estimator_."
    if isinstance(item, BaseEstimator):
        return (
            f"it is a {cls.__name__}, which is not on the list of classes that a model file may "
            "hold. If all it learned is in attributes that end in an underscore, "
            f"{call.format(cls.__name__)}; if not, keep it out of the pipeline and apply it to the "
            "data first."
        )
    if callable(item):
        name = getattr(item, "__qualname__", getattr(item, "__name__", cls.__name__))
        _, inside, parameter = where.rpartition(".")
        if not inside or "kernel" in parameter:
            return f"it is the Python function {name!r}, {_NO_CODE}"
        return (
            f"it is the Python function {name!r}, and a model file never holds code. Give this "
            "parameter a value that is no function before saving; or keep the model with pickle, "
            "where whoever reads it trusts you."
        )
    return (
        f"it is a {cls.__module__}.{cls.__qualname__}, and a model file holds only numbers, text, "
        "bytes, None, arrays, lists, tuples, dicts, slices, kernels and estimators. Convert it to "
        "one of these."
    )
