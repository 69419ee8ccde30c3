"""Classification on tables, in learned metrics, by ridge or by support vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from mercer import checks
from mercer.domains import RowBlocks, is_missing, to_host
from mercer.errors import InvalidInput, available_if, naming, speaks, who
from mercer.estimator import (
    accuracy,
    as_stream,
    check_labels,
    check_weights,
    count_targets,
    takes_blocks,
)
from mercer.models.margin import SVC
from mercer.models.metric import FeatureMachineClassifier
from mercer.models.ridge import KernelRidgeClassifier
from mercer.models.tables.base import MACHINES, Inside, TableModel
from mercer.models.tables.proposal import model_for

LEAST = np.finfo(float).tiny  # a probability that has a logarithm


def _inner(model: Any) -> str:
    """Return what a table model has inside, a word of `model`; "" where the rows are to say."""
    if "model_" in vars(model):
        if isinstance(model.model_, MACHINES):
            return "features"
        return "svc" if isinstance(model.model_, SVC) else "ridge"
    return model._asked


def _with_ridge(model: Any) -> bool:
    if _inner(model) == "svc":
        raise AttributeError(
            "TableClassifier: rows are left out by model='ridge' and model='features'; score "
            "model='svc' by sklearn.model_selection.cross_val_score."
        )
    return True


def _with_probability(model: Any) -> bool:
    kind, asked = _inner(model), model.probability
    if kind == "svc" and "model_" in vars(model):
        asked = model.model_.probability
    elif asked is None:
        asked = model.kernel is None and model.model in (None, "auto")
    if kind != "features" and (kind == "ridge" or not asked):
        raise AttributeError(
            "TableClassifier: it has no probabilities; fit it with model='features', which takes "
            "RowBlocks too, or with model='svc', probability=True, which needs all rows in memory: "
            "X, y, weight = blocks.sample(20000, with_targets=True) brings some there."
        )
    return True


class TableClassifier(ClassifierMixin, TableModel):
    """Classification on a table with columns of mixed kinds.

    With nothing said it is a `FeatureMachineClassifier`, which learns from the rows how much each
    column matters; with a kernel, a classifier of one kernel on encoded rows or on columns.

    Parameters
    ----------
    kernel : Kernel or str, optional
        Kernel on encoded rows, as for `KernelRidgeClassifier` and `SVC`; or a kernel on columns,
        whose names and positions are those of the table; or "auto", what `auto_kernel` proposes.
        Left out, with ``model="ridge"`` and ``model="svc"``, it is proposed and tuned as that of
        `TableRegressor`, together with the penalty.
    alpha : float or "loo", optional
        Ridge; "loo" takes the one with the least leave-one-out error. Left out, it is tuned where
        the kernel is left out too, and 1.0 for a kernel that is given.
    categorical : sequence of str or int, or str, optional
        Columns of numbers to be read as categories; with "auto", columns of any kind. A kernel on
        columns says itself how it reads each.
    max_categories : int, default=100
        The most frequent categories that the encoder keeps of each column.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, as for `KernelRidgeClassifier`; "balanced" counts every class alike,
        also in the probabilities.
    model : {"auto", "features", "ridge", "svc"}, optional
        "features" is a `FeatureMachineClassifier`, which has probabilities; "ridge" a
        `KernelRidgeClassifier`, which has exact leave-one-out; "svc" an `SVC`, which keeps support
        vectors only and can have probabilities. "auto", which is meant where it is left out, takes
        "ridge" for a kernel or `alpha` that is given and "svc" for `C`; else "features" where the
        table has 5 rows of positive weight or more, and "ridge" where not. Rows in `RowBlocks` are
        fitted by "features" too; by "ridge", without probabilities, where there is a
        `class_weight`. Where "features" has too little memory, or a class of blocks too few rows to
        be drawn, a warning says so, and the model is one of a kernel: "svc" where every class has
        five rows or more, else "ridge"; of blocks "ridge".
    C : float, optional
        The price of a margin violation, for ``model="svc"``; left out as `alpha`.
    probability : bool, optional
        Whether ``model="svc"`` fits probabilities as well, for `predict_proba`. Left out, it does
        where kernel and model are left out too.
    max_time : float, optional
        Seconds after which a feature machine tries no further metric. Left out, there is no limit
        up to 2000 rows, and beyond one of 10 ms a row, 60 to 480 seconds.
    random_state : int, RandomState or None, default=0
        Decides which rows are in which fold, and which are drawn from many.
    kinds : dict of str or int to str, optional
        What columns hold, where you know better than `column_kinds`: "number", "category", "text",
        "sequence" or "left out". Identifiers and dates of a table with names are left out, with a
        warning, unless they are told of here. A kernel on columns says itself what it
        looks at.

    Attributes
    ----------
    encoder_ : TableEncoder or TableColumns
        The fitted encoder; of a kernel on columns, those that it looks at.
    model_ : FeatureMachineClassifier, KernelRidgeClassifier or SVC
        The fitted model; those of one kernel are fitted to encoded rows.
    classes_ : ndarray
        The classes.
    importances_, importances_std_ : ndarray of shape (n_columns,)
        The share of each column in the metric of a feature machine, and how far metrics that are
        learned from different rows disagree about it.
    alpha_ : float
        The ridge used, with ``model="ridge"``.
    function_ : Function
        The solution, a function of encoded rows: that of `model_`, with one kernel.
    margin_ : float or array
        The geometric margin of `model_`, in feature space, with one kernel.
    notes_ : dict
        What a caller wants to be kept with the model.

    Notes
    -----
    Columns are found at `predict` as `TableRegressor` finds them.

    Examples
    --------
    >>> from mercer.datasets import load_wine_table
    >>> from mercer.models import TableClassifier
    >>> table, grower = load_wine_table()
    >>> model = TableClassifier("linear").fit(table, grower)
    >>> model.predict(table.take([0, 177])).tolist()
    ['grower 1', 'grower 3']
    """

    _parameters = TableModel._parameters | {
        "model": checks.Maybe(
            checks.Word(
                "auto",
                "features",
                "ridge",
                "svc",
                says="give 'auto', 'features' (FeatureMachineClassifier), 'ridge' "
                "(KernelRidgeClassifier) or 'svc' (SVC)",
            )
        )
    }
    _classes_of_models = {
        "features": FeatureMachineClassifier,
        "ridge": KernelRidgeClassifier,
        "svc": SVC,
    }

    score = accuracy

    @naming
    def __init__(
        self,
        kernel: Any = None,
        alpha: float | str | None = None,
        categorical: Any = None,
        max_categories: int = 100,
        class_weight: Any = None,
        model: str | None = None,
        C: float | None = None,
        probability: bool | None = None,
        max_time: float | None = None,
        random_state: Any = 0,
        kinds: Any = None,
    ):
        super().__init__(
            kernel, alpha, categorical, max_categories, model, max_time, random_state, kinds
        )
        self.class_weight = class_weight
        self.C = C
        self.probability = probability

    @speaks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> TableClassifier:
        """Fit the encoder and the model.

        Parameters
        ----------
        X : data frame, Table, dict of columns, 2-D array or RowBlocks
            The table; blocks of rows as for `TableRegressor`, by a feature machine or a ridge.
        y : array-like of shape (n_rows,)
            The class of each row; may be left out where the blocks carry it.
        sample_weight : array-like of shape (n_rows,), optional
            Weights of the rows.

        Returns
        -------
        TableClassifier
            The model itself.
        """
        checks.check_parameters(self)
        if self._suits_features(X, y, sample_weight):
            given = X, y, sample_weight
            if isinstance(X, RowBlocks):
                given = as_stream(*given), None, None
            else:
                given = X, to_host(y, "y"), sample_weight
                _refuse_missing(given[1])
                check_labels(given[1], count_targets(given[1]))
            if (machine := self._machine(*given)) is not None:
                self._keep(machine.encoder_, machine)
                return self
        inside = self._inside(X, y, sample_weight)
        margin = inside.settled["model"] == "svc"
        model = self._fitted(inside, self.C if margin else self.alpha, margin)
        self._keep(inside.encoder, model, inside.compared)
        return self

    @property
    def _asked(self) -> str:
        asked = super()._asked
        return asked or ("svc" if self.C is not None else "")

    @speaks("TableClassifier")
    def _inside(self, X: Any, y: Any, sample_weight: Any) -> Inside:
        self._refuse_features()
        if isinstance(X, RowBlocks):
            return self._inside_blocks(as_stream(X, y, sample_weight))
        y = to_host(y, "y")
        encoder, Z, kernel = self._encode(X, y, sample_weight)
        _refuse_missing(y)
        labels = check_labels(y, Z.shape[0])
        weights = check_weights(sample_weight, Z.shape[0])
        counted = labels if weights is None else labels[weights > 0]
        kind, probability = self._asked or model_for(counted)[0], self.probability
        if probability is None:
            probability = self.kernel is None and kind == "svc" and self.model in (None, "auto")
        kernel, compared = self._for_strings(kernel, Z, labels, weights, True)
        model: Any
        if kind == "ridge":
            model = self._ridge(kernel)
        else:
            model = SVC(
                kernel,
                1.0 if self.C is None else self.C,
                class_weight=self.class_weight,
                probability=probability,
                random_state=self.random_state,
            )
        settled = {"model": kind, "probability": probability}
        return Inside(encoder, Z, y, weights, model, compared, settled)

    def _inside_blocks(self, blocks: RowBlocks) -> Inside:
        """Encode blocks, for a ridge."""
        if self.model == "svc":
            raise InvalidInput(
                "TableClassifier: model='svc' needs all rows at once, and those of RowBlocks "
                "come in blocks; model='ridge' fits them, or fit a sample: X, y, weight = "
                "blocks.sample(20000, with_targets=True)."
            )
        encoder, Z, kernel = self._encode(blocks, None, None)
        kernel, compared = self._for_strings_of(Z, kernel, True)
        model = self._ridge(kernel).set_params(random_state=self.random_state)
        settled = {"model": "ridge"}
        return Inside(encoder, Z, None, None, model, compared, settled)

    def _ridge(self, kernel: Any) -> KernelRidgeClassifier:
        alpha = 1.0 if self.alpha is None else self.alpha
        return KernelRidgeClassifier(
            kernel, alpha=alpha, fit_intercept=True, class_weight=self.class_weight
        )

    @property
    def classes_(self) -> np.ndarray:
        """The classes, sorted."""
        return self.model_.classes_

    @property
    def function_(self) -> Any:
        """The solution as a function in the RKHS, of rows as `encode` returns them."""
        return self._of_one_kernel("function_")

    @property
    def margin_(self) -> Any:
        """The geometric margin of the model on encoded rows."""
        return self._of_one_kernel("margin_")

    @takes_blocks
    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted class of each row.

        Parameters
        ----------
        X : data frame, Table, dict of columns or 2-D array
            The table.

        Returns
        -------
        ndarray of shape (n_rows,)
            Classes.
        """
        return self._answer("predict", X)

    @takes_blocks
    def decision_function(self, X: Any) -> np.ndarray:
        """Return the value of each class for each row; the largest is predicted.

        Parameters
        ----------
        X : data frame, Table, dict of columns or 2-D array
            The table.

        Returns
        -------
        ndarray of shape (n_rows,) or (n_rows, n_classes)
            Decision values; one column, positive for the second class, when there are two classes.
        """
        return self._answer("decision_function", X)

    @available_if(_with_probability)
    @takes_blocks
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class for each row.

        A feature machine has them, and a support vector classifier with ``probability=True``.

        Parameters
        ----------
        X : data frame, Table, dict of columns or 2-D array
            The table.

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
            Probabilities: the largest is that of the prediction.
        """
        return self._answer("predict_proba", X)

    @available_if(_with_ridge)
    @speaks
    def loo(self, X: Any = None) -> np.ndarray:
        """Return the class of each training row, predicted by a fit without it (encoder kept).

        With a ridge inside this is exact; a feature machine predicts in metrics learned from other
        rows, and refuses where some rows have no such prediction: see `loo_decision_function`.

        Parameters
        ----------
        X : data frame, Table, dict of columns or 2-D array, optional
            The training table, if you like; another is refused.

        Returns
        -------
        ndarray of shape (n_rows,)
            Classes.
        """
        check_is_fitted(self)
        if not isinstance(self.model_, MACHINES):
            return self.model_.loo(self._encoded_again(X, "loo"))
        chances = self._left_out(X, "loo")
        if unknown := int(np.isnan(chances[:, 0]).sum()):
            raise InvalidInput(
                f"{who()}.loo: {unknown} of {len(chances)} rows have weight 0 or were not held "
                "out, and no class is predicted for them; loo_decision_function() has NaN there."
            )
        return self.classes_[chances.argmax(axis=1)]

    @available_if(_with_ridge)
    @speaks
    def loo_decision_function(self, X: Any = None) -> np.ndarray:
        """Return the decision values of each training row from a fit without it (encoder kept).

        Parameters
        ----------
        X : data frame, Table, dict of columns or 2-D array, optional
            The training table, if you like; another is refused.

        Returns
        -------
        ndarray of shape (n_rows,) or (n_rows, n_classes)
            As `decision_function` returns them; those of a feature machine are NaN for rows of
            weight 0, and in large tables for rows that were not held out.
        """
        check_is_fitted(self)
        if isinstance(self.model_, MACHINES):
            logs = np.log(np.maximum(self._left_out(X, "loo_decision_function"), LEAST))
            return logs[:, 1] - logs[:, 0] if logs.shape[1] == 2 else logs
        return self.model_.loo_decision_function(self._encoded_again(X, "loo_decision_function"))


def _refuse_missing(y: Any) -> None:
    """Refuse labels of which some are None or NaN; NumPy would write NaN among text as "nan"."""
    labels = y if isinstance(y, list | tuple) else np.asarray(y, dtype=object).ravel().tolist()
    absent = [i for i, label in enumerate(labels) if is_missing(label)]
    if absent:
        raise InvalidInput(
            f"TableClassifier: y has no label in {len(absent)} of {len(labels)} rows (row "
            f"{absent[0]} holds {labels[absent[0]]!r}); leave out the rows without a label."
        )
