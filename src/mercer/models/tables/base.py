"""What table models share: how rows are read, which model is inside, how it is chosen."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from mercer import checks, state
from mercer.domains import RowBlocks, Table, Tables
from mercer.errors import InvalidInput, MemoryBudgetExceeded, naming, speaks, users_level, who
from mercer.estimator import (
    Plan,
    check_same_points,
    check_weights,
    count_targets,
    defaults_of,
    refuse_other_points,
    set_params,
    tell_plan,
)
from mercer.features import TableColumns, TableEncoder, read_rows
from mercer.kernels import Kernel, auto_kernel
from mercer.models.metric import (
    FREE,
    SAID,
    Compared,
    Contents,
    FeatureMachineClassifier,
    FeatureMachineRegressor,
    RareClass,
    explain_table,
    fingerprint,
    fitted_rows,
)
from mercer.models.ridge import KernelRidge
from mercer.models.tables.proposal import (
    ROWS_OF_A_METRIC,
    TUNING_ROWS,
    enough_to_tune,
    kernel_for,
    some_rows,
    suits_features,
    time_for,
    tuned,
)

MACHINES = (FeatureMachineRegressor, FeatureMachineClassifier)


@dataclass(frozen=True)
class Inside:
    """What a table model fits: rows as its kernel sees them, a scaled target, a model."""

    encoder: TableEncoder | TableColumns
    Z: np.ndarray | Table | RowBlocks
    target: Any
    weights: Any
    model: Any
    compared: Compared = field(default_factory=dict)
    settled: dict[str, Any] = field(default_factory=dict)  # parameters that were left open
    mean: float = 0.0
    scale: float = 1.0


def _has_fitting_parts(table_model: Any) -> bool:
    encoder, model = table_model.encoder_, table_model.model_
    legal = False
    if isinstance(encoder, TableColumns):
        kernel = model.kernel_
        legal = _chooses_columns(kernel) and encoder.has(kernel.domain.columns)
    elif type(encoder) is TableEncoder and isinstance(model, MACHINES):
        legal = all(
            getattr(encoder, name) == getattr(model.encoder_, name)
            for name in ("columns_", "kinds_", "categories_")
        )
    elif type(encoder) is TableEncoder:
        legal = encoder._width == model.n_features_in_
    return (
        legal
        and encoder.n_features_in_ == table_model.n_features_in_
        and type(model) in table_model._model_classes
        and isinstance(table_model.notes_, dict)
    )


class TableModel(BaseEstimator):
    """What both models share: the encoder, the model behind it, and notes about them."""

    _parameters = {
        "model": checks.Maybe(
            checks.Word(
                "auto",
                "features",
                "ridge",
                says="give 'auto', 'features' (FeatureMachineRegressor) or 'ridge' (KernelRidge)",
            )
        ),
        "max_time": checks.Maybe(checks.Number(above=0.0)),
        "random_state": checks.SEED,
    }
    _state = state.worded(
        state.others("encoder_", "model_", "notes_", "n_features_in_", needed=True),
        state.PARTS_MISFIT,
        lacks=state.PARTS_MISFIT,
    )
    _rules = ((state.PARTS_MISFIT, _has_fitting_parts),)
    _learned = tuple(_state)
    _classes_of_models: dict[str, type] = {
        "features": FeatureMachineRegressor,
        "ridge": KernelRidge,
    }

    set_params = set_params

    @naming
    def __init__(
        self,
        kernel: Any = None,
        alpha: float | str | None = None,
        categorical: Any = None,
        max_categories: int = 100,
        model: str | None = None,
        max_time: float | None = None,
        random_state: Any = 0,
        kinds: Any = None,
    ):
        self.kernel = kernel
        self.alpha = alpha
        self.categorical = categorical
        self.max_categories = max_categories
        self.model = model
        self.max_time = max_time
        self.random_state = random_state
        self.kinds = kinds

    def _check_state(self) -> None:
        state.check_state(self, fitted=True)

    @property
    def _asked(self) -> str:
        """The model that is asked for; "" where the rows are to say."""
        if self.model not in (None, "auto"):
            return self.model
        return "ridge" if self.kernel is not None or self.alpha is not None else ""

    @property
    def _model_classes(self) -> tuple[type, ...]:
        """What may be inside."""
        asked, classes = self._asked, self._classes_of_models
        return (classes[asked],) if asked in classes else tuple(classes.values())

    def _suits_features(self, X: Any, y: Any, sample_weight: Any) -> bool:
        """Whether a feature machine is asked for, or nothing is said and the rows suit it."""
        self._require_target(X, y)
        if self.model == "features":
            for fixed in ("kernel", "alpha", "C"):
                if (value := getattr(self, fixed, None)) is not None:
                    raise InvalidInput(
                        f"{type(self).__name__}: {fixed}={value!r} beside model='features', which "
                        "learns kernels and penalties from the rows; leave it out, or give "
                        "model='ridge'."
                    )
            return True
        if self._asked:
            self._tell_of_time(
                ": it limits the search of metrics, and kernel, alpha or model ask for a model of "
                "one kernel. Leave it out, or leave out these."
            )
            return False
        if isinstance(X, RowBlocks):
            if getattr(self, "class_weight", None) is not None:  # of blocks a ridge counts classes
                return False
            X, _, weights = X.as_tables().sample(TUNING_ROWS, self.random_state, with_targets=True)
            rows = X.shape[0]
        else:
            rows = count_targets(y)
            weights = check_weights(sample_weight, rows, relative=True)
        rows = rows if weights is None else int(np.count_nonzero(weights))
        if not suits_features(rows):
            self._tell_of_time(
                f" on {rows} rows: it limits the search of metrics, which needs {ROWS_OF_A_METRIC} "
                "rows. Leave it out, or give more rows."
            )
            return False
        return True

    def _tell_of_time(self, why: str) -> None:
        """Warn of a limit to a search that is not made."""
        if self.max_time is not None:
            warnings.warn(
                f"{type(self).__name__}: max_time={self.max_time!r} has no effect{why}",
                UserWarning,
                stacklevel=users_level(),
            )

    def _new_machine(self, X: Any, y: Any) -> Any:
        """Return a feature machine for a table, as yet unfitted."""
        rows = X.n_rows if isinstance(X, RowBlocks) else count_targets(y)
        of_class = {"class_weight": self.class_weight} if hasattr(self, "class_weight") else {}
        return self._classes_of_models["features"](
            max_time=time_for(rows) if self.max_time is None else self.max_time,
            categorical=self.categorical,
            max_categories=self.max_categories,
            random_state=self.random_state,
            kinds=self.kinds,
            **of_class,
        )

    def _machine(self, X: Any, y: Any, sample_weight: Any) -> Any:
        """Return a feature machine fitted to a table; None where one kernel is to do without it."""
        machine, name = self._new_machine(X, y), type(self).__name__
        try:
            with self._in_its_name(machine):
                return machine.fit(X, y, sample_weight=sample_weight)
        except MemoryBudgetExceeded as error:
            said = str(error).replace(type(machine).__name__, name)
            said = said.replace(" Use KernelRidge, or raise", " Raise")
            if self.model == "features":
                said = f"{said} model='ridge' may do with less."
                raise MemoryBudgetExceeded(said, error.needed, error.allowed) from error
        except RareClass as error:
            if self.model == "features":
                raise
            said = str(error)
        warnings.warn(
            f"{said} A model of one kernel is fitted in place of a feature machine; model='ridge' "
            "asks for it.",
            UserWarning,
            stacklevel=users_level(),
        )
        return None

    def __setstate__(self, state: dict[str, Any]) -> None:
        # a pickle of before has the defaults of parameters that came since
        super().__setstate__({**defaults_of(type(self)), **state})  # type: ignore[misc, arg-type]

    plan = tell_plan
    explain = explain_table

    def _plan(self, X: Any, y: Any) -> Plan:
        checks.check_parameters(self)
        if self._suits_features(X, y, None):
            machine = self._new_machine(X, y)
            try:
                with self._in_its_name(machine):
                    told = replace(machine.plan(X, y), owner=type(self).__name__)
                if told.fits or self.model == "features":
                    return told
            except MemoryBudgetExceeded:
                if self.model == "features":
                    raise
        inside = self._inside(X, y, None)
        return inside.model.plan(inside.Z, inside.target)

    @contextmanager
    def _in_its_name(self, inner: Any) -> Iterator[None]:
        """Let what an encoder or a machine refuses be refused by the model that has it."""
        try:
            yield
        except InvalidInput as error:
            said = str(error).replace(type(inner).__name__, type(self).__name__)
            raise type(error)(said) from error

    def _require_target(self, X: Any, y: Any) -> None:
        if y is None and not isinstance(X, RowBlocks):
            # the words that scikit-learn's common checks look for
            raise InvalidInput(
                f"{type(self).__name__}: requires y to be passed, but the target y is None."
            )

    def _encode(
        self, X: Any, y: Any, sample_weight: Any
    ) -> tuple[TableEncoder | TableColumns, Any, Any]:
        """Return what reads the columns, the rows as the kernel takes them, and the kernel."""
        self._require_target(X, y)
        if isinstance(self.kernel, str) and self.kernel == "precomputed":
            raise InvalidInput(
                f"{type(self).__name__}: kernel='precomputed' has no columns to encode; "
                "use KernelRidge for a Gram matrix."
            )
        owner, kernel = type(self).__name__, self.kernel
        if isinstance(X, RowBlocks):
            return self._encode_blocks(X)
        if kernel is None:
            kernel = "auto" if self._is_free(X) else "rbf"
        encoder: Any
        if kernel == "auto" or _chooses_columns(kernel):
            encoder, Z, kernel = self._columns(X, sample_weight, kernel)
        else:
            told = Contents.of(X, self.categorical, self.kinds, sample_weight)
            encoder = self._new_encoder(told, {} if told is None else told.left_out())
            with self._in_its_name(encoder):
                Z = encoder.fit(X, sample_weight=sample_weight).transform(X)
        if Z.shape[0] != (values := count_targets(y)):
            raise InvalidInput(
                f"{owner}: X has {Z.shape[0]} rows and y has {values} values, "
                "inconsistent numbers of samples; give one value for each row."
            )
        return encoder, Z, kernel

    @property
    def _said_categorical(self) -> Any:
        return () if self.categorical is None else self.categorical

    @speaks
    def _encode_blocks(self, blocks: RowBlocks) -> tuple[TableEncoder | TableColumns, Any, Any]:
        """Encode rows in blocks as they come; a kernel is proposed for some of them."""
        kernel, blocks = self.kernel, blocks.as_tables()
        if kernel is None or kernel == "auto" or _chooses_columns(kernel):
            some, _, weight = blocks.sample(TUNING_ROWS, self.random_state, with_targets=True)
            if kernel is None:
                kernel = "auto" if self._is_free(some) else "rbf"
        if kernel == "auto" or _chooses_columns(kernel):
            columns, Z, kernel = self._columns(some, weight, kernel)
            return columns, blocks.select(Z.names) if isinstance(Z, Table) else blocks, kernel
        seen = TUNING_ROWS, self.random_state
        told, left_out, _ = Contents.of_blocks(blocks, self.categorical, self.kinds, *seen)
        encoder = self._new_encoder(told, left_out).fit(blocks)
        return encoder, blocks.with_points(encoder.transform), kernel

    @speaks
    def _new_encoder(self, told: Contents | None, left_out: dict[Any, None]) -> TableEncoder:
        """Return an encoder of the columns of a table that say something, as yet unfitted."""
        if told is None:
            return TableEncoder(self.categorical, self.max_categories)
        for key, (kind, reason) in told.found.items():
            if reason == SAID and kind in FREE:
                raise InvalidInput(
                    f"{who()}: kinds calls the column {key!r} {kind}, which kernel={self.kernel!r} "
                    "does not read; leave kernel out, or give kernel='auto'."
                )
        return TableEncoder(told.categories(), self.max_categories, left_out or None)

    def _is_free(self, X: Any) -> bool:
        """Whether a table holds text, strings or graphs; what is no table the encoder refuses."""
        told = Contents.of(X, self.categorical, self.kinds)
        return told is not None and told.free

    def _for_strings(
        self, kernel: Any, Z: Any, y: np.ndarray, weights: Any, classes: bool
    ) -> tuple[Any, Compared]:
        """Return the kernel proposed, that of strings by left-out error, and what was compared."""
        if self.kernel is not None or not _chooses_columns(kernel):
            return kernel, {}
        if weights is not None:
            Z, y = Tables().take(Z, weights > 0), y[weights > 0]
        how: dict[str, Any] = {"categorical": self._said_categorical, "kinds": self.kinds}
        how["random_state"] = self.random_state
        return kernel_for(Z, y, classes=classes, **how)

    def _for_strings_of(self, Z: RowBlocks, kernel: Any, classes: bool) -> tuple[Any, Compared]:
        """Return what `_for_strings` does, for some rows of blocks."""
        if self.kernel is not None or not _chooses_columns(kernel):
            return kernel, {}
        return self._for_strings(kernel, *some_rows(Z, self.random_state), classes)

    def _fitted(self, inside: Inside, penalty: Any, in_folds: bool = False) -> Any:
        """Return the kernel model fitted; tuned first, where kernel and penalty are left open."""
        Z, target, weights, model = inside.Z, inside.target, inside.weights, inside.model
        open_ = self.kernel is None and (penalty is None or penalty == "loo")
        if blocks := isinstance(Z, RowBlocks):
            if not open_:
                return model.fit(Z)
            Z, target, weights = some_rows(Z, self.random_state)
        counted = np.asarray(target) if weights is None else np.asarray(target)[weights > 0]
        if open_ and enough_to_tune(counted, in_folds) and len(np.unique(counted)) > 1:
            model = tuned(model, Z, target, weights, self.random_state).model
            if not blocks:
                return model
            model = clone(model).set_params(kernel=model.kernel_)
        if blocks:
            return model.fit(inside.Z)
        return model.fit(Z, target, sample_weight=weights)

    @speaks
    def _columns(self, X: Any, sample_weight: Any, kernel: Any) -> tuple[TableColumns, Any, Kernel]:
        """Return the columns that a kernel on columns looks at, the table of them, the kernel."""
        if isinstance(kernel, str):
            Z = read_rows(X, None)
            weights = check_weights(sample_weight, Z.shape[0])
            # a row of weight 0 is a row left out
            seen = Z if weights is None else Tables().take(Z, weights > 0)
            kernel = auto_kernel(seen, categorical=self._said_categorical, kinds=self.kinds)
            if (told := Contents.of(seen, self.categorical, self.kinds)) is not None:
                told.left_out()  # which the kernel does too
        else:
            Z = read_rows(X, kernel.domain.columns)
        columns = TableColumns.of(Z, kernel.domain.columns, kernel)
        return columns, columns.transform(Z), kernel

    def _refuse_features(self) -> None:
        """Refuse a search of kernels, which comes here itself, where they are learned."""
        checks.check_parameters(self)
        if self.model == "features":
            raise InvalidInput(
                f"{who()}: model='features' learns its kernels itself, so there is none to tune; "
                "fit it as it is, or tune one with model='ridge'."
            )

    def _keep(self, encoder: Any, model: Any, compared: Compared | None = None) -> None:
        self.encoder_ = encoder
        self.model_ = model
        told = {str(name): errors for name, errors in (compared or {}).items()}
        self.notes_: dict[str, Any] = {"compared": told} if told else {}
        self.n_features_in_ = encoder.n_features_in_

    def _answer(self, question: str, X: Any, *options: Any, **more: Any) -> Any:
        """Return what the model inside says of a table."""
        check_is_fitted(self)
        if not isinstance(self.model_, MACHINES):
            return getattr(self.model_, question)(self.encode(X), *options, **more)
        with self._in_its_name(self.model_):
            return getattr(self.model_, question)(X, *options, **more)

    @speaks
    def encode(self, X: Any) -> Any:
        """Return the rows of a table as the kernel sees them.

        Parameters
        ----------
        X : data frame, Table, dict of columns or 2-D array
            The table.

        Returns
        -------
        ndarray of shape (n_rows, n_vector_columns), or Table
            The vectors; of a kernel on columns, the table of the columns that it looks at (of an
            array the array).
        """
        check_is_fitted(self)
        encoder: Any = self.encoder_
        if isinstance(encoder, TableColumns):
            return encoder.transform(X)
        with self._in_its_name(encoder):
            return encoder.transform(X)

    @speaks
    def _encoded_again(self, X: Any, verb: str) -> Any:
        """Return the training table given a second time, encoded; refuse another."""
        if X is None:
            return None
        Z = self.encode(X)
        check_same_points(self.kernel_.domain, Z, self.model_.X_fit_, verb)
        return Z

    @speaks
    def _left_out(self, X: Any, verb: str) -> np.ndarray:
        """Return what a feature machine says of each training row by fits without it."""
        machine = self.model_
        known, (fitted, _) = machine.left_out_, fitted_rows(machine)
        if fitted > len(known):
            raise InvalidInput(
                f"{who()}.{verb}: the model was fitted on {fitted} rows in blocks, of which "
                f"{len(known)} were drawn to learn from; model_.left_out_ holds what fits without "
                "them say of these."
            )
        if X is None:
            return known
        Z = self.encode(X)
        if len(Z) != len(known):
            raise InvalidInput(
                f"{who()}.{verb}: X has {len(Z)} rows, and the model was fitted on {len(known)}; "
                f"pass the training points in the same order, or none: {verb}()."
            )
        if fingerprint(Z) != vars(machine).get("fingerprint_", fingerprint(Z)):
            refuse_other_points(verb)
        return known

    def _of_one_kernel(self, name: str) -> Any:
        """Return what a model with one kernel has; a feature machine has several kernels."""
        check_is_fitted(self)
        if isinstance(self.model_, MACHINES):
            raise AttributeError(
                f"{type(self).__name__} has no {name}: the feature machine inside is a mean of "
                "several members, each with a kernel of its own, model_.members_; fit with "
                "model='ridge' for one kernel."
            )
        return getattr(self.model_, name)

    def _of_metrics(self, name: str) -> Any:
        """Return what a feature machine knows of the columns."""
        check_is_fitted(self)
        if not isinstance(self.model_, MACHINES):
            raise AttributeError(
                f"{type(self).__name__} has no {name}: shares of columns are those of a learned "
                "metric; fit with model='features'."
            )
        return getattr(self.model_, name)

    @property
    def kernel_(self) -> Any:
        """The kernel, on encoded rows or on columns, with its words resolved."""
        return self._of_one_kernel("kernel_")

    @property
    def alpha_(self) -> Any:
        """The ridge used; where it was searched for, the one of least leave-one-out error."""
        return self._of_one_kernel("alpha_")

    @property
    def solution_(self) -> Any:
        """The certificate of the fit."""
        return self._of_one_kernel("solution_")

    @property
    def importances_(self) -> np.ndarray:
        """The share of each column in the metric that a feature machine learned."""
        return self._of_metrics("importances_")

    @property
    def importances_std_(self) -> np.ndarray:
        """How far metrics learned from different rows are from `importances_`."""
        return self._of_metrics("importances_std_")

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Names of the columns; absent when fitted on an array."""
        return self.encoder_.feature_names_in_

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.target_tags.required = True
        return tags


def _chooses_columns(kernel: Any) -> bool:
    """Whether a kernel is one on the columns of a table, all or some of them."""
    return isinstance(kernel, Kernel) and isinstance(kernel.domain, Tables)
