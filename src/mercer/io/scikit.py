"""The classes of scikit-learn that a model file may hold, in one table.

To add one: it must do nothing but its parameters and its fitted attributes say, hold no function,
and need no attribute that begins with an underscore unless that is listed beside it. Add a line
here and a fitted example to ``tests/io/test_scikit.py``, whose laws do the rest: the example must
transform alike, bit for bit, after save and load. For a class of your own project,
`mercer.io.register` does the same without a change here.
"""

from __future__ import annotations

import importlib
from typing import Any

from mercer.errors import InvalidInput, ModelFileError
from mercer.io.forms import Form, estimator_form

__all__ = ["CLASSES", "form_named", "form_of"]

# Class -> its public module, and the private attributes that its fitted state includes.
CLASSES: dict[str, tuple[str, tuple[str, ...]]] = {
    "Pipeline": ("sklearn.pipeline", ()),
    "FeatureUnion": ("sklearn.pipeline", ()),
    "ColumnTransformer": (
        "sklearn.compose",
        (
            *("_columns", "_n_features", "_name_to_fitted_passthrough", "_remainder"),
            *("_transformer_to_input_indices", "_transformers_feature_names_out"),
        ),
    ),
    "TransformedTargetRegressor": ("sklearn.compose", ("_training_dim",)),
    "Binarizer": ("sklearn.preprocessing", ()),
    "FunctionTransformer": ("sklearn.preprocessing", ()),
    "KernelCenterer": ("sklearn.preprocessing", ()),
    "LabelEncoder": ("sklearn.preprocessing", ()),
    "MaxAbsScaler": ("sklearn.preprocessing", ()),
    "MinMaxScaler": ("sklearn.preprocessing", ()),
    "Normalizer": ("sklearn.preprocessing", ()),
    "OneHotEncoder": (
        "sklearn.preprocessing",
        (
            *("_default_to_infrequent_mappings", "_drop_idx_after_grouping"),
            *("_infrequent_enabled", "_infrequent_indices", "_n_features_outs"),
        ),
    ),
    "OrdinalEncoder": (
        "sklearn.preprocessing",
        (
            *("_default_to_infrequent_mappings", "_infrequent_enabled"),
            *("_infrequent_indices", "_missing_indices"),
        ),
    ),
    "PolynomialFeatures": (
        "sklearn.preprocessing",
        ("_max_degree", "_min_degree", "_n_out_full"),
    ),
    "PowerTransformer": ("sklearn.preprocessing", ("_scaler",)),
    "QuantileTransformer": ("sklearn.preprocessing", ()),
    "RobustScaler": ("sklearn.preprocessing", ()),
    "StandardScaler": ("sklearn.preprocessing", ()),
    "MissingIndicator": ("sklearn.impute", ("_n_features", "_precomputed")),
    "SimpleImputer": ("sklearn.impute", ("_fill_dtype", "_fit_dtype")),
    "PCA": ("sklearn.decomposition", ("_fit_svd_solver", "_n_features_out")),
    "TruncatedSVD": ("sklearn.decomposition", ("_n_features_out",)),
    "ElasticNet": ("sklearn.linear_model", ()),
    "Lasso": ("sklearn.linear_model", ("l1_ratio",)),
    "LinearRegression": ("sklearn.linear_model", ()),
    "LogisticRegression": ("sklearn.linear_model", ()),
    "Ridge": ("sklearn.linear_model", ()),
    "LinearSVC": ("sklearn.svm", ()),
    "LinearSVR": ("sklearn.svm", ()),
    "VarianceThreshold": ("sklearn.feature_selection", ()),
    "TfidfTransformer": ("sklearn.feature_extraction.text", ("_idf_diag",)),
}


def form_of(item: Any) -> Form | None:
    """Return the form of an object of one of these very classes (subclasses are others)."""
    cls = type(item)
    if cls.__name__ not in CLASSES or not cls.__module__.startswith("sklearn."):
        return None
    form = form_named(cls.__name__)
    return form if form is not None and form.cls is cls else None


def form_named(name: str) -> Form | None:
    """Return the form of the class of this name, or None if it is not in the table."""
    if name not in CLASSES:
        return None
    module, private = CLASSES[name]
    cls = getattr(importlib.import_module(module), name)
    return _without_cache(estimator_form(f"scikit-learn:{name}", cls, private))


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
