"""The methods of the arena, each with its defaults and the least preparation that it needs.

A method is a line of `METHODS`: a package, and what makes a regressor and a classifier for a table.
Both take the table as a pandas frame, with categories as pandas has them and gaps as they are.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import SVC

from benchmarks.arena.tables import Table

__all__ = ["METHODS", "THREADS", "Method"]

THREADS = int(os.environ.get("ARENA_THREADS", "2"))  # of every method
Maker = Callable[[Table, int], Any]  # of a table and a seed


@dataclass(frozen=True)
class Method:
    """A package, and what makes a model of each kind for a table and a seed."""

    package: str  # as it is imported
    regression: Maker
    classes: Maker
    most_rows: int = 10**9  # of a whole table; more are not tried

    @property
    def is_installed(self) -> bool:
        """Whether the package can be imported."""
        return importlib.util.find_spec(self.package) is not None

    @property
    def version(self) -> str:
        """The package and its version."""
        found = getattr(importlib.import_module(self.package), "__version__", "?")
        return f"{self.package} {found}"


def _mercer(task: str) -> Maker:
    def make(table: Table, seed: int) -> Any:
        from mercer import models

        return {"regression": models.TableRegressor, "classes": models.TableClassifier}[task]()

    return make


# ---- boosting ----


def _lightgbm(task: str) -> Maker:
    def make(table: Table, seed: int) -> Any:
        import lightgbm

        model = {"regression": lightgbm.LGBMRegressor, "classes": lightgbm.LGBMClassifier}[task]
        return model(random_state=seed, n_jobs=THREADS, verbose=-1)

    return make


def _xgboost(task: str) -> Maker:
    def make(table: Table, seed: int) -> Any:
        import xgboost

        model = {"regression": xgboost.XGBRegressor, "classes": xgboost.XGBClassifier}[task]
        return model(random_state=seed, n_jobs=THREADS, enable_categorical=True)

    return make


def _catboost(task: str) -> Maker:
    def make(table: Table, seed: int) -> Any:
        import catboost

        kinds = {"regression": catboost.CatBoostRegressor, "classes": catboost.CatBoostClassifier}
        model = kinds[task](
            random_seed=seed,
            thread_count=THREADS,
            cat_features=table.categories,
            verbose=False,
            allow_writing_files=False,
        )
        return make_pipeline(FunctionTransformer(_as_text), model)

    return make


def _as_text(X: pandas.DataFrame) -> pandas.DataFrame:
    """Write categories as text, gaps among them as a level: CatBoost takes no gaps there."""
    chosen = [name for name in X if X[name].dtype == "category"]
    return X.assign(**{name: X[name].astype(object).fillna("gap").astype(str) for name in chosen})


# ---- vectors: gaps filled, numbers standardised, a column for each category ----


def _vectors(table: Table) -> ColumnTransformer:
    fill = SimpleImputer(strategy="median", keep_empty_features=True)
    return ColumnTransformer(
        [
            ("numbers", make_pipeline(fill, StandardScaler()), table.numbers),
            (
                "categories",
                OneHotEncoder(handle_unknown="ignore", sparse_output=False),
                table.categories,
            ),
        ]
    )


def _on_vectors(make_model: Callable[[int], Any]) -> Maker:
    return lambda table, seed: make_pipeline(_vectors(table), make_model(seed))


def _rbf_ridge(table: Table, seed: int) -> Any:
    """Kernel ridge with the Gaussian kernel, which has no intercept: the target is standardised."""
    grid = {"alpha": np.logspace(-4, 1, 6), "gamma": np.logspace(-4, 1, 6)}
    folds = KFold(5, shuffle=True, random_state=seed)
    search = GridSearchCV(
        KernelRidge(kernel="rbf"), grid, cv=folds, scoring="neg_mean_squared_error"
    )
    model = make_pipeline(_vectors(table), search)
    return TransformedTargetRegressor(model, transformer=StandardScaler())


def _rbf_svc(table: Table, seed: int) -> Any:
    """Support vector classification with the Gaussian kernel: no probabilities."""
    grid = {"C": np.logspace(-1, 4, 6), "gamma": np.logspace(-4, 1, 6)}
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    return make_pipeline(_vectors(table), GridSearchCV(SVC(), grid, cv=folds, n_jobs=THREADS))


# ---- xRFM ----


class _XRFM(BaseEstimator):
    """xRFM, which wants rows to stop by: a fifth of those it is given."""

    def __init__(self, seed: int):
        self.seed = seed

    def fit(self, X: np.ndarray, y: np.ndarray) -> _XRFM:
        import torch
        from xrfm import xRFM

        classes = y.dtype.kind == "i"  # xRFM goes by it too
        X, X_stop, y, y_stop = train_test_split(
            X, y, test_size=0.2, random_state=self.seed, stratify=y if classes else None
        )
        device = torch.device("cpu")
        self.model_ = xRFM(device=device, n_threads=THREADS, random_state=self.seed, verbose=False)
        self.model_.fit(X, y, X_stop, y_stop)
        self.classes_ = np.arange(self.model_.n_classes_)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.model_.predict(X).ravel()

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return self.model_.predict_proba(X)


def _xrfm_regressor(table: Table, seed: int) -> Any:
    model = make_pipeline(_vectors(table), _XRFM(seed))
    return TransformedTargetRegressor(model, transformer=StandardScaler())


METHODS = {
    "mercer": Method("mercer", _mercer("regression"), _mercer("classes")),
    "catboost": Method("catboost", _catboost("regression"), _catboost("classes")),
    "lightgbm": Method("lightgbm", _lightgbm("regression"), _lightgbm("classes")),
    "xgboost": Method("xgboost", _xgboost("regression"), _xgboost("classes")),
    "histgb": Method(
        "sklearn",
        lambda table, seed: HistGradientBoostingRegressor(random_state=seed),
        lambda table, seed: HistGradientBoostingClassifier(random_state=seed),
    ),
    "forest": Method(
        "sklearn",
        _on_vectors(lambda seed: RandomForestRegressor(random_state=seed, n_jobs=THREADS)),
        _on_vectors(lambda seed: RandomForestClassifier(random_state=seed, n_jobs=THREADS)),
    ),
    "rbf": Method("sklearn", _rbf_ridge, _rbf_svc, most_rows=6_000),
    "xrfm": Method("xrfm", _xrfm_regressor, _on_vectors(_XRFM)),
    "linear": Method(
        "sklearn",
        _on_vectors(lambda seed: Ridge()),
        _on_vectors(lambda seed: LogisticRegression(max_iter=1000)),
    ),
}
