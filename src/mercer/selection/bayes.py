"""Bayes' rule: from known class densities and priors the decision of least expected cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from mercer.errors import InvalidInput, naming, speaks
from mercer.estimator import check_weights, set_params

# ---- Densities of any form, classes of any kind and points of any shape, for Bayes' rule ----


def check_densities(densities: Any) -> None:
    """Refuse what holds no densities."""
    if not isinstance(densities, Mapping | Sequence) or isinstance(densities, str):
        raise InvalidInput(
            f"bayes_rule: densities is a {type(densities).__name__}; give a list with one density "
            "a class, or a dict from class to density."
        )
    if not len(densities):
        raise InvalidInput("bayes_rule: no densities; give one for each class.")
    for density in densities.values() if isinstance(densities, Mapping) else densities:
        if not (callable(density) or _method(density)):
            raise InvalidInput(
                f"bayes_rule: a {type(density).__name__} is no density; give a frozen distribution "
                "of scipy.stats, an object with score_samples, or a function."
            )


def as_points(X: Any) -> tuple[Any, int]:
    """Return the points, numbers as an array, and how many they are."""
    if not hasattr(X, "shape") and hasattr(X, "__len__"):
        try:
            numbers = np.asarray(X)
        except ValueError:  # of different lengths
            numbers = np.array(None)
        X = numbers if numbers.ndim and numbers.dtype.kind in "fiub" else X
    if getattr(X, "shape", (0,)) == () or not (hasattr(X, "shape") or hasattr(X, "__len__")):
        raise InvalidInput(
            f"bayes_rule: X is a {type(X).__name__} without length; give a sequence of points, "
            "such as [X]."
        )
    return X, X.shape[0] if hasattr(X, "shape") else len(X)


def as_objects(values: list[Any]) -> np.ndarray:
    """Return an array of objects of shape (n,), also where these have lengths of their own."""
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


def as_classes(names: list[Any]) -> np.ndarray:
    """Return classes as an array that gives them back: of objects, unless all are of one kind."""
    kinds = {np.asarray(name).dtype.kind if np.ndim(name) == 0 else "" for name in names}
    return np.array(names) if len(kinds) == 1 and kinds <= set("biufU") else as_objects(names)


def describe(density: Any) -> str:
    """Name a density as it was made."""
    family = getattr(getattr(density, "dist", None), "name", None)
    if family is not None:
        parts = [repr(v) for v in getattr(density, "args", ())]
        parts += [f"{k}={v!r}" for k, v in getattr(density, "kwds", {}).items()]
        return f"{family}({', '.join(parts)})"
    if isinstance(density, BaseEstimator):
        return repr(density)
    return getattr(density, "__name__", None) or type(density).__name__.removesuffix("_frozen")


def _method(density: Any) -> Any:
    """Return the method of an object that gives log densities, if it has one."""
    names = ("logpdf", "logpmf", "score_samples")
    return next((getattr(density, name) for name in names if hasattr(density, name)), None)


def log_density(density: Any, X: Any, n: int, name: Any, log: bool) -> np.ndarray:
    """Return the log density of a class at every point, of shape (n,)."""
    method = _method(density)
    if hasattr(density, "score_samples") and isinstance(X, np.ndarray) and X.ndim == 1:
        X = X[:, None]
    values = np.asarray(density(X) if method is None else method(X), dtype=float)
    if values.size != n:
        raise InvalidInput(
            f"bayes_rule: the density of class {name!r} gave shape {values.shape} for {n} points; "
            "one number a point is needed. A density of several columns is that of one variable."
        )
    # Vectors of parameters would be paired with the points where there are as many.
    if n > 1 and method is not None and np.size(method(X[:1])) != 1:
        raise InvalidInput(
            f"bayes_rule: the density of class {name!r}, {describe(density)}, holds vectors of "
            "parameters, so that it is several densities; give one distribution for each class."
        )
    values = values.reshape(n)
    if np.isnan(values).any():
        i = int(np.argmax(np.isnan(values)))
        raise InvalidInput(f"bayes_rule: the density of class {name!r} is NaN at point {i}.")
    if method is not None or log:
        return values
    if (values < 0).any():
        i = int(np.argmax(values < 0))
        raise InvalidInput(
            f"bayes_rule: the density of class {name!r} is {values[i]:.3g} < 0 at point {i}; "
            "give log=True if the function returns log densities."
        )
    with np.errstate(divide="ignore"):
        return np.log(values)


# ---- bayes ----


def bayes_rule(
    densities: Any, priors: Any = None, *, costs: Any = None, log: bool = False
) -> BayesRule:
    """Return the classifier that no other can beat when the class densities are these.

    It chooses the class of largest posterior probability, p(y | x) ∝ p(y) p(x | y), which makes
    the probability of an error as small as can be. With `costs` it chooses the class of least
    expected cost.

    Everything is computed with logarithms, so densities may be as small as they like. Of equals
    the first class is taken. Where all densities are zero, data tell nothing, and the priors decide
    alone.

    Parameters
    ----------
    densities : sequence, or dict from class to density
        One for each class: a distribution of ``scipy.stats`` with its parameters given, an object
        with ``score_samples`` (log densities) such as scikit-learn's ``KernelDensity``, or a
        function from points to densities. A sequence has the classes 0, 1, …
    priors : sequence, or dict from class to probability, optional
        Probabilities of the classes, of sum one; by default all the same.
    costs : array of shape (k, k), optional
        ``costs[i, j]`` is what it costs to decide for class j when i is true; by default 1 for
        every error.
    log : bool, default=False
        Whether functions among the densities return log densities.

    Returns
    -------
    BayesRule
        A classifier: ``predict``, ``predict_proba``, ``decision_function``, ``risk``.

    Examples
    --------
    >>> from scipy.stats import norm
    >>> from mercer import bayes_rule
    >>> rule = bayes_rule({"low": norm(0, 1), "high": norm(2, 1)}, {"low": 0.9, "high": 0.1})
    >>> rule.predict([1.0, 2.0, 3.0])    # the border is at 1 + log(9)/2 = 2.1
    array(['low', 'low', 'high'], dtype='<U4')
    """
    rule = BayesRule(densities, priors, costs=costs, log=log)
    check_densities(densities)
    _ = rule.priors_, rule.costs_  # refuses what is no probability, and no matrix
    return rule


class BayesRule(ClassifierMixin, BaseEstimator):
    """The classifier of `bayes_rule`: nothing is fitted, the densities are known.

    Parameters
    ----------
    densities, priors, costs, log
        As for `bayes_rule`.

    Attributes
    ----------
    classes_ : array
        The classes, in the order given.
    priors_ : array
        Their probabilities.
    costs_ : array of shape (k, k)
        Cost of deciding for the column when the row is true.
    """

    set_params = set_params

    @naming
    def __init__(
        self, densities: Any, priors: Any = None, *, costs: Any = None, log: bool = False
    ) -> None:
        self.densities = densities
        self.priors = priors
        self.costs = costs
        self.log = log

    @property
    def margin_(self) -> Any:
        """A posterior probability is not in an RKHS, and has no margin."""
        raise AttributeError(
            "BayesRule has no margin_: densities are no functions of an RKHS, in which it would be "
            "measured."
        )

    @property
    def classes_(self) -> np.ndarray:
        """The classes, in the order given."""
        if isinstance(self.densities, Mapping):
            return as_classes(list(self.densities))
        return np.arange(len(self.densities))

    @property
    def priors_(self) -> np.ndarray:
        """Their probabilities."""
        names, given = self.classes_, self.priors
        if given is None:
            return np.full(len(names), 1 / len(names))
        if isinstance(given, Mapping):
            if set(given) != set(names.tolist()):
                raise InvalidInput(
                    f"bayes_rule: priors of {list(given)} for the classes {names.tolist()}; give "
                    "one for each class."
                )
            given = [given[name] for name in names.tolist()]
        try:
            p = np.asarray(given, dtype=float)
        except (OverflowError, TypeError, ValueError):
            p = np.full(len(names), np.nan)
        if p.shape != names.shape or not (p >= 0).all() or not abs(p.sum() - 1) <= 1e-8:
            raise InvalidInput(
                f"bayes_rule: priors={self.priors!r}; give {len(names)} probabilities ≥ 0 of sum "
                "one. Counts become probabilities when divided by their sum."
            )
        return p

    @property
    def costs_(self) -> np.ndarray:
        """Cost of deciding for the column when the row is true."""
        k = len(self.classes_)
        if self.costs is None:
            return 1.0 - np.eye(k)
        try:
            costs = np.asarray(self.costs, dtype=float)
        except (OverflowError, TypeError, ValueError):
            costs = np.full((k, k), np.nan)
        if costs.shape != (k, k) or not np.isfinite(costs).all():
            raise InvalidInput(
                f"bayes_rule: costs={self.costs!r}; give a {k} × {k} array of numbers, the true "
                "class in the row and the decision in the column."
            )
        return costs

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Return the rule itself: nothing is learned, so that it can be compared with learners.

        Parameters
        ----------
        X, y : ignored
            Not used.
        """
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_clone__(self) -> BayesRule:
        # Densities may be fitted estimators, and a clone of these would forget what they are.
        return type(self)(self.densities, self.priors, costs=self.costs, log=self.log)

    def __repr__(self, *_: Any) -> str:
        parts = zip(self.classes_.tolist(), self._densities(), strict=True)
        told = ", ".join(f"{name!r}: {describe(density)}" for name, density in parts)
        priors = "" if self.priors is None else f", priors={self.priors_.tolist()}"
        return f"BayesRule({{{told}}}{priors})"

    # -- decisions ----------------------------------------------------------------------------
    def predict(self, X: Any) -> np.ndarray:
        """Return the class of least expected cost for each point.

        Parameters
        ----------
        X : collection of points
            What the densities take: rows, or numbers where they are of one variable.
        """
        return self.classes_[np.argmax(self._values(X), axis=1)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the posterior probabilities p(y | x), one column a class.

        Parameters
        ----------
        X : collection of points
            As for `predict`.
        """
        return np.exp(self.predict_log_proba(X))

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return the logarithms of the posterior probabilities.

        Parameters
        ----------
        X : collection of points
            As for `predict`.
        """
        joint = self._joint(X)
        top = joint.max(axis=1, keepdims=True)
        return joint - top - np.log(np.exp(joint - top).sum(axis=1, keepdims=True))

    def decision_function(self, X: Any) -> np.ndarray:
        """Return what `predict` compares: log p(y)p(x | y), with costs minus the expected cost.

        Of two classes, the value of the second less that of the first: above 0 the second is
        chosen. Without costs these are the log odds.

        Parameters
        ----------
        X : collection of points
            As for `predict`.
        """
        values = self._values(X)
        return values[:, 1] - values[:, 0] if values.shape[1] == 2 else values

    @speaks("bayes_rule")
    def risk(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the mean cost of the decisions at X; without costs the share of errors.

        Without labels it is what the rule itself expects, the mean of the least expected cost: if
        X comes from the densities with these priors, an estimate of the least risk there is.

        Parameters
        ----------
        X : collection of n points
            As for `predict`.
        y : array of shape (n,), optional
            True classes.
        sample_weight : array of shape (n,), optional
            Weights.
        """
        P = self.predict_proba(X)
        chosen = np.argmax(self._values(X), axis=1)
        if y is not None:
            P = self._indicators(y, len(P))
        cost = np.einsum("ij,ji->i", P, self.costs_[:, chosen])
        weights = check_weights(sample_weight, len(P))
        return float(np.average(cost, weights=weights))

    @speaks("bayes_rule")
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of right decisions, whatever they cost.

        Parameters
        ----------
        X : collection of n points
            As for `predict`.
        y : array of shape (n,)
            True classes.
        sample_weight : array of shape (n,), optional
            Weights.
        """
        chosen = np.argmax(self._values(X), axis=1)
        right = self._indicators(y, len(chosen))[np.arange(len(chosen)), chosen]
        weights = check_weights(sample_weight, len(chosen))
        return float(np.average(right, weights=weights))

    # -- inside -------------------------------------------------------------------------------
    def _densities(self) -> list[Any]:
        given = self.densities
        return list(given.values() if isinstance(given, Mapping) else given)

    def _indicators(self, y: Any, n: int) -> np.ndarray:
        """Return which class each label is, shape (n, k)."""
        labels = y if self.classes_.dtype != object else as_objects(list(y))
        match = np.asarray(labels).reshape(-1)[:, None] == self.classes_[None, :]
        if match.shape != (n, len(self.classes_)) or not match.any(axis=1).all():
            raise InvalidInput(
                f"bayes_rule: y must hold one of the classes {self.classes_.tolist()} for each of "
                f"the {n} points."
            )
        return match.astype(float)

    def _values(self, X: Any) -> np.ndarray:
        """Return what is to be largest: the log joint density, or minus the expected cost."""
        return self._joint(X) if self.costs is None else -self.predict_proba(X) @ self.costs_

    def _joint(self, X: Any) -> np.ndarray:
        """Return log p(y)p(x | y) up to a constant for each x, finite somewhere in each row."""
        X, n = as_points(X)
        columns = [
            log_density(density, X, n, name, self.log)
            for name, density in zip(self.classes_.tolist(), self._densities(), strict=True)
        ]
        with np.errstate(divide="ignore", invalid="ignore"):
            priors = np.log(self.priors_)
            joint = np.stack(columns, axis=1) + priors
        joint = np.where(np.isneginf(priors), -np.inf, joint)
        # A density that is infinite outweighs all that are not; equals share by their priors.
        joint = np.where(
            np.isposinf(joint).any(1, keepdims=True) & (joint < np.inf), -np.inf, joint
        )
        joint = np.where(np.isposinf(joint), priors, joint)
        return np.where(np.isneginf(joint).all(axis=1, keepdims=True), priors, joint)
