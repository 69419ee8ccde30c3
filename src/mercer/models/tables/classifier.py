"""Classification on tables, by ridge or by support vectors: columns encoded, one object to save."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from mercer import checks
from mercer.domains import RowBlocks, is_missing, to_host
from mercer.errors import InvalidInput, naming, speaks
from mercer.estimator import accuracy, as_stream, check_weights, takes_blocks
from mercer.models.margin import SVC
from mercer.models.ridge import KernelRidgeClassifier
from mercer.models.tables.proposal import model_for
from mercer.models.tables.regressor import Inside, TableModel


def _inner(model: Any) -> str:
    """Return what a table model has inside, "ridge" or "svc"; "" where the rows are to say."""
    if "model_" in vars(model):
        return "svc" if isinstance(model.model_, SVC) else "ridge"
    return model.model or ("" if model.kernel is None else "ridge")


def _with_ridge(model: Any) -> bool:
    if _inner(model) == "svc":
        raise AttributeError(
            "TableClassifier: exact leave-one-out is that of model='ridge'; score model='svc' by "
            "sklearn.model_selection.cross_val_score."
        )
    return True


def _with_probability(model: Any) -> bool:
    kind, asked = _inner(model), model.probability
    if kind and "model_" in vars(model):
        asked = kind == "svc" and model.model_.probability
    elif asked is None:
        asked = model.kernel is None and model.model is None
    if kind == "ridge" or not asked:
        raise AttributeError(
            "TableClassifier: it has no probabilities; fit it with model='svc', probability=True, "
            "which needs all rows in memory. Those of RowBlocks are fitted by model='ridge': fit a "
            "sample, X, y, weight = blocks.sample(20000, with_targets=True); or, where all columns "
            "are numbers, KernelLogisticRegression(solver='falkon'), which takes all blocks."
        )
    return True


class TableClassifier(ClassifierMixin, TableModel):
    """Classification by a kernel on a table with columns of mixed kinds.

    Parameters
    ----------
    kernel : Kernel or str, optional
        Kernel on encoded rows, as for `KernelRidgeClassifier` and `SVC`; or a kernel on columns,
        whose names and positions are those of the table; or "auto", what `auto_kernel` proposes.
        Left out, it is proposed and tuned as that of `TableRegressor`, together with the penalty.
    alpha : float or "loo", optional
        Ridge; "loo" takes the one with the least leave-one-out error. Left out, it is tuned where
        the kernel is left out too, and 1.0 for a kernel that is given.
    categorical : sequence of str or int, or str, optional
        Columns of numbers to be read as categories; with "auto", columns of any kind. A kernel on
        columns says itself how it reads each.
    max_categories : int, default=100
        The most frequent categories that the encoder keeps of each column.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, as for `KernelRidgeClassifier`; "balanced" counts every class alike.
    model : {"ridge", "svc"}, optional
        `KernelRidgeClassifier`, which has exact leave-one-out, or `SVC`, which keeps support
        vectors only and can have probabilities. Left out, "ridge" for a kernel that is given; else
        "svc" where every class has five rows or more, or `C` is given, and "ridge" where not, or
        `alpha` is given. Rows in `RowBlocks` are always fitted by "ridge", without probabilities.
    C : float, optional
        The price of a margin violation, for ``model="svc"``; left out as `alpha`.
    probability : bool, optional
        Whether ``model="svc"`` fits probabilities as well, for `predict_proba`. Left out, it does
        where kernel and model are left out too.

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
    function_ : Function
        The solution, a function of encoded rows: that of `model_`.
    margin_ : float or array
        The geometric margin of `model_`, in feature space.
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
        "model": checks.Maybe(
            checks.Word("ridge", "svc", says="give 'ridge' (KernelRidgeClassifier) or 'svc' (SVC)")
        )
    }
    _classes_of_models = {"ridge": KernelRidgeClassifier, "svc": SVC}

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
            The table; blocks of rows as for `TableRegressor`, with ``model="ridge"``, which has no
            `predict_proba`: for that fit a sample of the blocks.
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
        margin = inside.settled["model"] == "svc"
        self._keep(inside, self._fitted(inside, self.C if margin else self.alpha, margin))
        return self

    @speaks("TableClassifier")
    def _inside(self, X: Any, y: Any, sample_weight: Any) -> Inside:
        checks.check_parameters(self)
        if isinstance(X, RowBlocks):
            return self._inside_blocks(as_stream(X, y, sample_weight))
        y = to_host(y, "y")
        encoder, Z, kernel = self._encode(X, y, sample_weight)
        _refuse_missing(y)
        weights = check_weights(sample_weight, Z.shape[0])
        counted = np.asarray(y) if weights is None else np.asarray(y)[weights > 0]
        kind, probability = self._kind(counted), self.probability
        if probability is None:
            probability = self.kernel is None and self.model is None and kind == "svc"
        kernel, compared = self._for_strings(kernel, Z, np.asarray(y), weights, True)
        model: Any
        if kind == "ridge":
            model = self._ridge(kernel)
        else:
            model = SVC(
                kernel,
                1.0 if self.C is None else self.C,
                class_weight=self.class_weight,
                probability=probability,
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
        model, settled = self._ridge(kernel).set_params(random_state=0), {"model": "ridge"}
        return Inside(encoder, Z, None, None, model, compared, settled)

    def _ridge(self, kernel: Any) -> KernelRidgeClassifier:
        alpha = 1.0 if self.alpha is None else self.alpha
        return KernelRidgeClassifier(
            kernel, alpha=alpha, fit_intercept=True, class_weight=self.class_weight
        )

    def _kind(self, y: np.ndarray) -> str:
        """Return which model is inside, as asked or as suits the classes."""
        if self.model is not None:
            return self.model
        if self.kernel is not None or self.alpha is not None:
            return "ridge"
        return "svc" if self.C is not None else model_for(y)[0]

    @property
    def _model_classes(self) -> tuple[type, ...]:  # type: ignore[override]
        own = self.model or ("ridge" if self.kernel is not None else "")
        classes = self._classes_of_models
        return (classes[own],) if own in classes else tuple(classes.values())

    @property
    def classes_(self) -> np.ndarray:
        """The classes, sorted."""
        return self.model_.classes_

    @property
    def function_(self) -> Any:
        """The solution as a function in the RKHS, of rows as `encode` returns them."""
        check_is_fitted(self)
        return self.model_.function_

    @property
    def margin_(self) -> Any:
        """The geometric margin of the model on encoded rows."""
        check_is_fitted(self)
        return self.model_.margin_

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
