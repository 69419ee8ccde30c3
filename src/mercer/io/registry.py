"""The closed list: every class that a model file may name, and no other.

It is found by reflection: the kernels that `mercer.kernels` exports, the losses of `mercer.losses`,
the estimators of `mercer.models` and `mercer.features`, and the one that `srm` makes of a kernel,
that can be fitted and declare their learned state in ``_learned``, the values `Function`, `Table`,
`Solution`, `Search` and `Plan`, frozen distributions of scipy, the scikit-learn classes in a table
below, and what the process itself added with `register`. A file holds a name of this list, never an
import path.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from mercer.domains import (
    BagCollection,
    CategoryCollection,
    Domain,
    Graph,
    GraphCollection,
    IncompleteCollection,
    NodeCollection,
    SeriesCollection,
    StringCollection,
    Table,
    to_host,
)
from mercer.errors import InvalidInput, ModelFileError
from mercer.estimator import Plan
from mercer.features import PrincipalCoordinates, TableColumns, table, table_params
from mercer.kernels import Kernel
from mercer.losses import Loss
from mercer.models.gp import FROZEN, Search, prior_of_params, prior_params
from mercer.rkhs import Function
from mercer.selection import FeatureLeastSquares
from mercer.solvers import Solution

# ---- How an object of the closed list is taken apart into named values and put together again ----


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
    if name in _LINEAR and {"coef_", "classes_"} & state.keys():
        _check_linear(state, name)
    kernel = state.get("kernel_")
    if "kernel_" in state and not isinstance(kernel, Kernel):
        raise ModelFileError(f"{name} has {str(kernel)[:40]!r} in the place of its kernel")
    if kernel is not None and kernel._words():
        raise ModelFileError(f"{name} has a kernel without numbers for {kernel._words()}")
    points, coefficients = state.get("X_fit_"), state.get("dual_coef_")
    if points is None:
        return
    shape: tuple[int, ...] = getattr(points, "shape", None) or (len(points),)
    if not Domain().may_keep(points, count):
        raise ModelFileError(f"{name} has {count} columns, but keeps points of {shape[1]}")
    if coefficients is not None and np.shape(coefficients)[:1] != tuple(shape[:1]):
        raise ModelFileError(
            f"{name} keeps {shape[0]} points, but coefficients of shape {np.shape(coefficients)}"
        )
    if kernel is not None:
        if not kernel.domain.may_keep(points, count):
            raise ModelFileError(f"{name} keeps positions of training points out of range")
        kernel.domain.check(points)


def _check_linear(state: dict[str, Any], name: str) -> None:
    """Refuse coefficients that do not fit the columns, the offset or the classes."""
    shape = np.shape(state.get("coef_", ()))
    fits = shape[-1:] == (state.get("n_features_in_"),)
    fits = fits and np.size(state.get("intercept_", 0.0)) in (1, *shape[:-1])
    if "classes_" in state:
        k = np.size(state["classes_"])
        fits = fits and k > 1 and shape[:-1] == (1 if k == 2 else k,)
    if not fits:
        raise ModelFileError(
            f"{name} has coefficients of shape {shape}, which do not fit its columns, offset and "
            "classes"
        )


# ---- The classes of scikit-learn that a model file may hold, in one table ----
# To add one: it must do nothing but its parameters and its fitted attributes say, hold no
# function, and need no attribute that begins with an underscore unless that is listed beside it.
# Add its name here and a fitted example to ``tests/io/test_scikit.py``, whose laws do the rest: the
# example must transform alike, bit for bit, after save and load. For a class of your own project,
# `mercer.io.register` does the same without a change here.


# Class -> its public module.
CLASSES: dict[str, str] = {
    name: f"sklearn.{module}"
    for module, names in {
        "pipeline": ("Pipeline", "FeatureUnion"),
        "compose": ("ColumnTransformer", "TransformedTargetRegressor"),
        "preprocessing": (
            *("Binarizer", "FunctionTransformer", "KernelCenterer", "LabelEncoder"),
            *("MaxAbsScaler", "MinMaxScaler", "Normalizer", "OneHotEncoder", "OrdinalEncoder"),
            *("PolynomialFeatures", "PowerTransformer", "QuantileTransformer", "RobustScaler"),
            "StandardScaler",
        ),
        "impute": ("MissingIndicator", "SimpleImputer"),
        "decomposition": ("PCA", "TruncatedSVD"),
        "linear_model": ("ElasticNet", "Lasso", "LinearRegression", "LogisticRegression", "Ridge"),
        "svm": ("LinearSVC", "LinearSVR"),
        "feature_selection": ("VarianceThreshold",),
        "feature_extraction.text": ("TfidfTransformer",),
    }.items()
    for name in names
}
# Those of coefficients for columns.
_LINEAR = tuple(
    f"scikit-learn:{name}"
    for name, module in CLASSES.items()
    if module in ("sklearn.linear_model", "sklearn.svm")
)
# Class -> the private attributes that its fitted state includes.
_PRIVATE: dict[str, tuple[str, ...]] = {
    "ColumnTransformer": (
        *("_columns", "_n_features", "_name_to_fitted_passthrough", "_remainder"),
        *("_transformer_to_input_indices", "_transformers_feature_names_out"),
    ),
    "TransformedTargetRegressor": ("_training_dim",),
    "OneHotEncoder": (
        *("_default_to_infrequent_mappings", "_drop_idx_after_grouping"),
        *("_infrequent_enabled", "_infrequent_indices", "_n_features_outs"),
    ),
    "OrdinalEncoder": (
        *("_default_to_infrequent_mappings", "_infrequent_enabled"),
        *("_infrequent_indices", "_missing_indices"),
    ),
    "PolynomialFeatures": ("_max_degree", "_min_degree", "_n_out_full"),
    "PowerTransformer": ("_scaler",),
    "MissingIndicator": ("_n_features", "_precomputed"),
    "SimpleImputer": ("_fill_dtype", "_fit_dtype"),
    "PCA": ("_fit_svd_solver", "_n_features_out"),
    "TruncatedSVD": ("_n_features_out",),
    "Lasso": ("l1_ratio",),
    "TfidfTransformer": ("_idf_diag",),
}


def scikit_form(item: Any) -> Form | None:
    """Return the form of an object of one of these very classes (subclasses are others)."""
    cls = type(item)
    form = scikit_form_named(cls.__name__) if cls.__module__.startswith("sklearn.") else None
    return form if form is not None and form.cls is cls else None


def scikit_form_named(name: str) -> Form | None:
    """Return the form of the class of this name, or None if it is not in the table."""
    if name not in CLASSES:
        return None
    cls = getattr(importlib.import_module(CLASSES[name]), name)
    return _without_cache(estimator_form(f"scikit-learn:{name}", cls, _PRIVATE.get(name, ())))


def _without_cache(form: Form) -> Form:
    """A pipeline's ``memory`` is a directory of pickles; no file may say where to look for one."""
    if form.cls.__name__ != "Pipeline":
        return form

    def split(item: Any, where: str) -> dict:
        if item.memory is not None:
            raise InvalidInput(
                f"save: {where} caches in memory={item.memory!r}, and a model file names no "
                "directories; set it aside with pipeline.set_params(memory=None)."
            )
        return form.split(item, where)

    def build(parts: dict) -> Any:
        if parts.get("params", {}).get("memory") is not None:
            raise ModelFileError("a pipeline of it names a cache directory")
        return form.build(parts)

    return Form(form.name, form.cls, form.parts, split, build)


# ---- registry ----


# Kernels made of a Python function: a file cannot hold one, so it cannot hold these.
_HOLD_FUNCTIONS = frozenset({"FromFeatures", "FromFunction", "ScaledBy", "Warped"})
_own: dict[str, Form] = {}

C = TypeVar("C", bound=type)


@functools.cache
def closed_list() -> dict[str, Form]:
    """Return the forms of mercer's own classes by their names in files."""
    forms = [
        plain_form("value:Function", Function, _function_params, _function),
        plain_form("value:Table", Table, table_params, table),
        plain_form("value:TableColumns", TableColumns, vars, TableColumns.from_parts),
        plain_form(
            "value:PrincipalCoordinates",
            PrincipalCoordinates,
            vars,
            PrincipalCoordinates.from_parts,
        ),
        plain_form("value:Graph", Graph, Graph._arrays, Graph.from_arrays),
        *map(_packed_form, (StringCollection, BagCollection, GraphCollection, SeriesCollection)),
        *map(_packed_form, (NodeCollection, CategoryCollection, IncompleteCollection)),
        _solution_form(),
        _search_form(),
        _plan_form(),
        _distribution_form(),
    ]
    for cls in _exported("mercer.kernels"):
        if issubclass(cls, Kernel) and _is_whole(cls) and cls.__name__ not in _HOLD_FUNCTIONS:
            forms.append(_kernel_form(f"kernel:{cls.__name__}", cls))
    for cls in _exported("mercer.losses"):
        if cls is not Loss:
            forms.append(_loss_form(f"loss:{cls.__name__}", cls))
    estimators = [*_exported("mercer.models"), *_exported("mercer.features"), FeatureLeastSquares]
    for cls in estimators:
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
    form = _known(type(item)) or scikit_form(item)
    if form is None:
        raise InvalidInput(f"save: {where} cannot be kept: {_refusal(item, where)}")
    return form


def form_named(name: str) -> Form:
    """Return the form that a file names, or refuse the name."""
    family, _, cls = name.partition(":")
    form = closed_list().get(name) or _own.get(name)
    if form is None and family == "scikit-learn":
        form = scikit_form_named(cls)
    if form is None:
        cure = ". If it is a class of yours, call mercer.io.register(it) before load"
        raise ModelFileError(
            f"it names the class {name[:80]!r}, which is not on the list of classes that may be "
            f"loaded{cure if family == 'own' else ''}"
        )
    return form


def _known(cls: type) -> Form | None:
    forms = (*closed_list().values(), *_own.values())
    return next((form for form in forms if form.cls is cls), None)


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


def _distribution_form() -> Form:
    """All frozen distributions of scipy.stats."""

    def split(law: Any, where: str) -> Parts:
        return {"params": prior_params(law, where)}

    def build(parts: Parts) -> Any:
        return prior_of_params(**parts.get("params", {}))

    return Form("scipy:frozen", FROZEN, ("params",), split, build)


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
    if isinstance(item, Kernel) and cls.__name__ in _HOLD_FUNCTIONS:
        return f"it is a {cls.__name__} kernel, made of a Python function, {_NO_CODE}"
    if isinstance(item, Kernel | Loss):
        ours = "kernels" if isinstance(item, Kernel) else "losses"
        return (
            f"it is a {cls.__name__}, which is not one of mercer's {ours}, and a model file never "
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
