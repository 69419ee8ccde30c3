"""Classification on tables, by ridge or by support vectors: columns encoded, one object to save."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from mercer import checks
from mercer.domains import RowBlocks, is_missing, to_host
from mercer.errors import InvalidInput, speaks
from mercer.estimator import accuracy, as_stream, check_weights, takes_blocks
from mercer.models.margin import SVC
from mercer.models.ridge import KernelRidgeClassifier
from mercer.models.tables.regressor import Inside, TableModel


def _with_ridge(model: Any) -> bool:
    if model.model != "ridge":
        raise AttributeError(
            "TableClassifier: exact leave-one-out is that of model='ridge'; score model='svc' by "
            "sklearn.model_selection.cross_val_score."
        )
    return True


def _with_probability(model: Any) -> bool:
    if model.model != "svc" or not model.probability:
        raise AttributeError(
            "TableClassifier: it has no probabilities; fit it with model='svc', probability=True."
        )
    return True


class TableClassifier(ClassifierMixin, TableModel):
    """Classification by a kernel on a table with columns of mixed kinds.

    Parameters
    ----------
    kernel : Kernel or str, default="rbf"
        Kernel on encoded rows, as for `KernelRidgeClassifier` and `SVC`; or a kernel on columns,
        whose names and positions are those of the table; or "auto", what `auto_kernel` proposes.
    alpha : float or "loo", default=1.0
        Ridge; "loo" takes the one with the least leave-one-out error.
    categorical : sequence of str or int, or str, optional
        Columns of numbers to be read as categories; with "auto", columns of any kind. A kernel on
        columns says itself how it reads each.
    max_categories : int, default=100
        The most frequent categories that the encoder keeps of each column.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, as for `KernelRidgeClassifier`; "balanced" counts every class alike.
    model : {"ridge", "svc"}, default="ridge"
        `KernelRidgeClassifier`, which has exact leave-one-out, or `SVC`, which keeps support
        vectors only and can have probabilities.
    C : float, default=1.0
        The price of a margin violation, for ``model="svc"``.
    probability : bool, default=False
        Whether ``model="svc"`` fits probabilities as well, for `predict_proba`.

    Attributes
    ----------
    encoder_ : TableEncoder or TableColumns
        The fitted encoder; of a kernel on columns, those that it looks at.
    alpha_ : float
        The ridge used, with ``model="ridge"``.
    model_ : KernelRidgeClassifier or SVC
        The fitted model on encoded rows.
    classes_ : ndarray
        The classes.
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

    _parameters = {
        "model": checks.Word(
            "ridge", "svc", says="give 'ridge' (KernelRidgeClassifier) or 'svc' (SVC)"
        )
    }
    _classes_of_models = {"ridge": KernelRidgeClassifier, "svc": SVC}

    score = accuracy

    def __init__(
        self,
        kernel: Any = "rbf",
        alpha: float | str = 1.0,
        categorical: Any = None,
        max_categories: int = 100,
        class_weight: Any = None,
        model: str = "ridge",
        C: float = 1.0,
        probability: bool = False,
    ):
        super().__init__(kernel, alpha, categorical, max_categories)
        self.class_weight = class_weight
        self.model = model
        self.C = C
        self.probability = probability

    @speaks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> TableClassifier:
        """Fit the encoder and the model.

        Parameters
        ----------
        X : data frame, Table, dict of columns, 2-D array or RowBlocks
            The table; blocks of rows as for `TableRegressor`, with ``model="ridge"``.
        y : array-like of shape (n_rows,)
            The class of each row; may be left out where the blocks carry it.
        sample_weight : array-like of shape (n_rows,), optional
            Weights of the rows.

        Returns
        -------
        TableClassifier
            The model itself.
        """
        inside = self._inside(X, y, sample_weight)
        inside.model.fit(inside.Z, inside.target, sample_weight=inside.weights)
        self._keep(inside.encoder, inside.model)
        return self

    @speaks("TableClassifier")
    def _inside(self, X: Any, y: Any, sample_weight: Any) -> Inside:
        checks.check_parameters(self)
        if isinstance(X, RowBlocks):
            if self.model == "svc":
                raise InvalidInput(
                    "TableClassifier: model='svc' needs all rows at once, and those of RowBlocks "
                    "come in blocks; model='ridge' fits them, or fit a sample: X, y, weight = "
                    "blocks.sample(20000, with_targets=True)."
                )
            encoder, Z, kernel = self._encode(as_stream(X, y, sample_weight), None, None)
            y = weights = None
        else:
            y = to_host(y, "y")
            encoder, Z, kernel = self._encode(X, y, sample_weight)
            _refuse_missing(y)
            weights = check_weights(sample_weight, Z.shape[0])
        model: Any
        if self.model == "ridge":
            model = KernelRidgeClassifier(
                kernel, alpha=self.alpha, fit_intercept=True, class_weight=self.class_weight
            )
        else:
            model = SVC(
                kernel,
                self.C,
                class_weight=self.class_weight,
                probability=self.probability,
            )
        return Inside(encoder, Z, y, weights, model)

    @property
    def _model_class(self) -> type:  # type: ignore[override]
        return self._classes_of_models.get(self.model, KernelRidgeClassifier)

    @property
    def classes_(self) -> np.ndarray:
        """The classes, sorted."""
        return self.model_.classes_

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
        Z = self.encode(X)
        return self.model_.predict(Z)

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
        Z = self.encode(X)
        return self.model_.decision_function(Z)

    @available_if(_with_probability)
    @takes_blocks
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class for each row, with ``probability=True``.

        Parameters
        ----------
        X : data frame, Table, dict of columns or 2-D array
            The table.

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
            Probabilities as `SVC.predict_proba` has them: the largest is that of the prediction.
        """
        Z = self.encode(X)
        return self.model_.predict_proba(Z)

    @available_if(_with_ridge)
    @speaks
    def loo(self, X: Any = None) -> np.ndarray:
        """Return the class of each training row, predicted by a fit without it (encoder kept).

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
        return self.model_.loo(self._encoded_again(X, "loo"))

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
            As `decision_function` returns them.
        """
        check_is_fitted(self)
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
