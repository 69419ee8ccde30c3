"""Bayes' rule with a kernel density for each class."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from mercer import checks, state
from mercer.errors import InvalidInput, speaks, users_level, who
from mercer.estimator import TakesKernel, accuracy, check_labels, check_weights, follows_data
from mercer.models.density.bandwidth import (
    Bandwidth,
    Smoothing,
    as_bandwidth,
    centre_of,
    check_word,
    column_scales,
    row_number,
    rule_factor,
    smoothing,
    sums_of_others,
)
from mercer.models.density.kernel_density import FINITE_ROWS, ROWS, KernelDensity, dense_rows
from mercer.models.density.leave_one_out import has_lone_rows
from mercer.models.density.local import Near, choose_factor, class_codes, moderate_weights

NAMED = 5  # classes that a warning names
SUM = 1e-8  # by which the sum of probabilities may differ from one


# ---- Bandwidths of several classes: one for each class, or one for all ----


@dataclass(frozen=True, eq=False)
class Classes:
    """Rows of positive weight, and the classes that they are of."""

    X: np.ndarray
    codes: np.ndarray
    weights: np.ndarray
    names: np.ndarray

    @property
    def count(self) -> int:
        """How many classes there are."""
        return len(self.names)

    @property
    def totals(self) -> np.ndarray:
        """Sums of the weights of the classes, over a power of two."""
        return np.bincount(self.codes, moderate_weights(self.weights), self.count)

    def varying(self) -> tuple[np.ndarray, Classes]:
        """Return which columns vary at all, and the same rows with these alone."""
        varies = (self.X != self.X[0]).any(axis=0)
        return varies, replace(self, X=np.ascontiguousarray(self.X[:, varies]))

    def scales(self, weights: np.ndarray) -> np.ndarray:
        """Return the standard deviation of each column within the classes, pooled.

        That of the column as a whole where it varies in no class. All columns vary.
        """
        out = column_scales(self.X, weights, "scott")[0]
        inside = np.zeros(self.X.shape[1], dtype=bool)
        for c in range(self.count):
            rows = self.X[self.codes == c]
            inside |= (rows != rows[0]).any(axis=0)
        if inside.any():
            gaps = (self.X - self._means())[:, inside]
            out[inside] = column_scales(gaps, weights, "scott")[0]
        return out

    def _means(self) -> np.ndarray:
        """Return the mean of its class for each row."""
        centre = centre_of(self.X)
        sums = np.zeros((self.count, self.X.shape[1]))
        np.add.at(sums, self.codes, moderate_weights(self.weights)[:, None] * (self.X - centre))
        means = sums / self.totals[:, None] + centre
        return means[self.codes]


def class_bandwidths(asked: Any, kernel: Smoothing, classes: Classes) -> list[Any]:
    """Return a bandwidth for each class, found within it."""
    if not isinstance(asked, str):
        return [as_bandwidth(asked, classes.X, None).value] * classes.count
    check_word(asked)
    varies, classes = classes.varying()
    if not varies.any():
        return [np.ones(len(varies))] * classes.count
    return [_filled(varies, part) for part in _within(asked, kernel, classes)]


def _within(asked: str, kernel: Smoothing, classes: Classes) -> list[np.ndarray]:
    """Return the bandwidth of each class, for columns that vary as a whole.

    With "loo" columns that do not vary in a class do not decide: they add 0 to its distances, and
    for any bandwidth of theirs the likelihood is largest where that of the other columns is.
    """
    pooled = None
    out, unsearched = [], []
    for c, name in enumerate(classes.names.tolist()):
        rows, w = classes.X[classes.codes == c], classes.weights[classes.codes == c]
        varies = (rows != rows[0]).any(axis=0)
        scales = np.ones(rows.shape[1])
        if varies.any():
            scales[varies] = column_scales(rows[:, varies], w, asked)[0]
        if not varies.all():
            pooled = classes.scales(classes.weights) if pooled is None else pooled
            scales[~varies] = pooled[~varies]
        if asked == "loo" and varies.any() and has_lone_rows(rows):
            density = KernelDensity("loo", kernel.name).fit(rows[:, varies], sample_weight=w)
            factor = density.solution_.value
        else:
            unsearched.append(name)
            rule = "scott" if asked == "loo" else asked
            factor = rule_factor(rule, row_number(w), len(scales), kernel)
        out.append(factor * scales)
    if asked == "loo" and unsearched:
        several = f", and {len(unsearched) - NAMED} more" if len(unsearched) > NAMED else ""
        warnings.warn(
            f"{who()}: bandwidth='loo' finds nothing for class "
            f"{', '.join(map(repr, unsearched[:NAMED]))}{several}, where every row has a copy or "
            "is alone; it has the bandwidth of Scott's rule. With shared=True all classes have one "
            "bandwidth, found together.",
            stacklevel=users_level(),
        )
    return out


def _filled(varies: np.ndarray, part: Any) -> np.ndarray:
    """Return a bandwidth for all columns, 1 for those that do not vary: they tell nothing."""
    out = np.ones(len(varies))
    out[varies] = part
    return out


def shared_bandwidth(
    asked: Any, kernel: Smoothing, classes: Classes, priors: np.ndarray | None
) -> tuple[Any, float | None, np.ndarray | None]:
    """Return one bandwidth for all classes; with "loo" its log-loss, and all that were tried."""
    if not isinstance(asked, str):
        return as_bandwidth(asked, classes.X, None).value, None, None
    check_word(asked)
    varies, classes = classes.varying()
    w = classes.weights
    if not varies.any():
        return np.ones(len(varies)), None, None
    if asked != "loo":
        mean = max(1.0, row_number(w) / classes.count)
        found = rule_factor(asked, mean, int(varies.sum()), kernel) * classes.scales(w)
        return _filled(varies, found), None, None
    base = Bandwidth(classes.scales(w / w.max()), int(varies.sum()))
    onehot = (classes.codes[:, None] == np.arange(classes.count)).astype(float)
    Z = base.whiten(classes.X, centre_of(classes.X))
    near = Near(kernel, Z, onehot, w, nearest=False)
    loss = _log_loss(classes, onehot, priors)
    factor, error, path = choose_factor(
        lambda factors: near.errors(factors, loss), near.reach(), not kernel.compact
    )
    return _filled(varies, base.scaled(factor).value), error, path


def _log_loss(
    classes: Classes, onehot: np.ndarray, priors: np.ndarray | None
) -> Callable[[slice, np.ndarray], np.ndarray]:
    """Return the log-loss of Bayes' rule from local shares of the classes, each row left out.

    A density is a local sum over the weight of its class, so that the posterior is the local share
    times the prior over that weight; with the shares of the classes as priors these cancel.
    """
    left = sums_of_others(onehot * moderate_weights(classes.weights)[:, None])
    least = 1 / len(np.unique(classes.X, axis=0))
    known = left if priors is None else np.broadcast_to(priors, left.shape)
    ratio = np.ones_like(left)
    if priors is not None:
        ratio = np.divide(priors, left, out=np.zeros_like(left), where=left > 0)

    def loss(rows: slice, shares: np.ndarray) -> np.ndarray:
        joint = shares * ratio[rows]
        lone = ~(joint.sum(axis=1) > 0)
        joint[lone] = known[rows][lone]
        total = joint.sum(axis=1)
        own = np.einsum("ic,ic->i", joint, onehot[rows])
        share = np.divide(own, total, out=np.zeros_like(own), where=total > 0)
        return -np.log(np.maximum(share, least))

    return loss


# ---- The rule ----


NO_CLASSES = "the classes of a {} do not fit its rows"
NO_PRIORS = "the priors of a {} are none"
NO_DENSITIES = "a {} without a density for each class"


def _has_densities(model: Any) -> bool:
    """Whether every class has the density of its rows."""
    d, densities = model.X_fit_.shape[1], model.class_densities_
    counts = np.bincount(model.y_fit_[model.sample_weight_ > 0], minlength=len(densities))
    return all(
        isinstance(density, KernelDensity) and density.X_fit_.shape == (count, d)
        for density, count in zip(densities, counts, strict=True)
    )


class KDEClassifier(ClassifierMixin, TakesKernel, BaseEstimator):
    r"""Classification by Bayes' rule with kernel densities.

    The class of largest posterior probability is predicted,

        p(c | x) = p(c) p(x | c) / Σ_b p(b) p(x | b)

    with priors p(c) and a `KernelDensity` p(x | c) of the points of each class; of equals the first
    class in `classes_`. If the densities were the true ones, no classifier would err less often.

    Where all densities are 0, outside the support of a kernel of bounded support, data tell
    nothing, and the probabilities are the priors. The gaussian's never are: what decides far out is
    the nearest class, in logarithms.

    Parameters
    ----------
    bandwidth : float, array of shape (d,) or (d, d), "scott", "silverman" or "loo", default="scott"
        As for `KernelDensity`, found within each class. "loo" makes the leave-one-out likelihood
        of each class as large as can be, or with `shared` the leave-one-out log-loss of the
        classifier as small as can be. A column that does not vary within a class has there the
        standard deviation that it has within the others, or as a whole, so that a class may have
        one row; a column that does not vary at all has bandwidth 1. With "loo" the factor of
        a class is found by the columns that vary in it. Where every row has a copy, or there is
        one row, there is nothing to find: a warning tells, and the factor is that of Scott's rule.
    kernel : str, default="gaussian"
        "gaussian", "epanechnikov", "tophat", "triangular" (or "linear"), "biweight", "cosine" or
        "exponential".
    priors : array of shape (n_classes,), dict from class to probability, or None, default=None
        Probabilities of the classes, in the order of `classes_`, of sum one. None takes their
        shares of the training rows, by weight.
    shared : bool, default=False
        Whether all classes have one bandwidth: from standard deviations within the classes, for
        rules with the mean number of rows of a class. With "loo" a row is left out with all its
        weight, as in `loo_proba`, a probability below 1/m counts as 1/m, for m training points that
        differ, and the search ends at a tenth of the median distance to the nearest other place.

    Attributes
    ----------
    classes_ : array
        The classes.
    priors_ : array of shape (n_classes,)
        Their prior probabilities.
    priors_given_ : bool
        Whether these were given; if not, they are shares of the rows.
    class_densities_ : list of KernelDensity
        Their densities.
    X_fit_ : array of shape (n, d)
        The training points.
    y_fit_ : array of shape (n,)
        The position in `classes_` of the class of each; −1 for a row of weight 0 whose class has
        no other rows.
    sample_weight_ : array of shape (n,)
        Their weights.
    loo_error_ : float
        The mean log-loss of ``loo_proba()``, each row counted by its weight and no probability
        below 1/m; with ``bandwidth="loo"`` and `shared` only.
    loo_path_ : array of shape (k, 2)
        Factors tried, ascending, and their errors; with ``bandwidth="loo"`` and `shared` only.

    See Also
    --------
    mercer.bayes_rule : The same rule with densities that are known.
    mercer.NadarayaWatsonClassifier : Local shares: one bandwidth, and shares as priors.

    Examples
    --------
    >>> from mercer import KDEClassifier
    >>> X, y = [[0.0], [1.0], [2.0], [7.0], [8.0], [9.0]], ["low"] * 3 + ["high"] * 3
    >>> model = KDEClassifier().fit(X, y)
    >>> model.predict([[1.5], [6.0]])
    array(['low', 'high'], dtype='<U4')
    >>> model.set_params(priors={"low": 0.99, "high": 0.01}).fit(X, y).predict([[5.0]])
    array(['low'], dtype='<U4')
    """

    _parameters = {"shared": checks.Flag(numbers=False)}
    _state = {
        **ROWS,
        "classes_": state.Labels("c", says=NO_CLASSES),
        "y_fit_": state.Whole("n", least=-1, below="c", says=NO_CLASSES),
        "priors_": state.Array("c", kind="biuf", least=0, says=NO_PRIORS),
        "priors_given_": state.Such(bool, says=NO_PRIORS),
        "class_densities_": state.Such(list, says=NO_DENSITIES),
        **state.others("loo_error_", "loo_path_"),
        **state.INPUTS,
    }
    _rules = (
        FINITE_ROWS,
        (NO_CLASSES, lambda model: model.sample_weight_ is not None),
        (NO_PRIORS, lambda model: abs(model.priors_.sum() - 1) <= SUM),
        (NO_DENSITIES, lambda model: len(model.class_densities_) == len(model.classes_)),
        ("the densities of a {} do not fit its rows", _has_densities),
    )

    classes_: np.ndarray
    priors_: np.ndarray
    priors_given_: bool
    class_densities_: list[KernelDensity]
    X_fit_: np.ndarray
    y_fit_: np.ndarray
    sample_weight_: np.ndarray
    loo_error_: float
    loo_path_: np.ndarray

    score = accuracy

    def __init__(
        self,
        bandwidth: Any = "scott",
        kernel: Any = "gaussian",
        *,
        priors: Any = None,
        shared: bool = False,
    ):
        self.bandwidth = bandwidth
        self.kernel = kernel
        self.priors = priors
        self.shared = shared

    @property
    def function_(self) -> Any:
        """No function of the RKHS describes a posterior probability."""
        raise AttributeError(
            "KDEClassifier has no function_: a posterior probability is a quotient of densities, "
            "and not in the RKHS."
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise, tags.input_tags.sparse = False, True
        return tags

    @follows_data
    @speaks("KDEClassifier")
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Estimate the density of each class.

        Parameters
        ----------
        X : array of shape (n, d)
            Points.
        y : array of shape (n,)
            Class labels.
        sample_weight : float or array of shape (n,), optional
            Weights; a weight of 2 is the row given twice, 0 the row left out.

        Returns
        -------
        KDEClassifier
            The fitted model itself.
        """
        with self._all_or_nothing(X):
            kernel = smoothing(self.kernel)
            checks.check_parameters(self)
            X = self._rows(X, kernel, reset=True)
            y = check_labels(y, len(X))
            weights = check_weights(sample_weight, len(X), relative=True)
            w = np.ones(len(X)) if weights is None else weights.copy()
            used = w > 0
            self.classes_, self.y_fit_ = class_codes(y, w)
            self.X_fit_, self.sample_weight_ = X.copy(), w
            classes = Classes(X[used], self.y_fit_[used], w[used], self.classes_)
            given = self._given_priors()
            self.priors_given_ = given is not None
            self.priors_ = classes.totals / classes.totals.sum() if given is None else given
            self.class_densities_ = [
                KernelDensity(bandwidth, kernel.name).fit(
                    classes.X[classes.codes == c], sample_weight=classes.weights[classes.codes == c]
                )
                for c, bandwidth in enumerate(self._bandwidths(kernel, classes, given))
            ]
        return self

    @speaks("KDEClassifier")
    def _rows(self, X: Any, kernel: Any, *, reset: bool) -> np.ndarray:
        return dense_rows(self._check_X(X, kernel, reset=reset))

    def _bandwidths(self, kernel: Any, classes: Classes, priors: np.ndarray | None) -> list[Any]:
        if not self.shared:
            return class_bandwidths(self.bandwidth, kernel, classes)
        bandwidth, error, path = shared_bandwidth(self.bandwidth, kernel, classes, priors)
        if error is not None and path is not None:
            self.loo_error_, self.loo_path_ = error, path
        return [bandwidth] * classes.count

    def _given_priors(self) -> np.ndarray | None:
        """Return the priors that were given, checked."""
        names, given = self.classes_.tolist(), self.priors
        if given is None:
            return None
        if isinstance(given, Mapping):
            if set(given) != set(names):
                raise InvalidInput(
                    f"KDEClassifier: priors of {list(given)} for the classes {names}; give one for "
                    "each class."
                )
            given = [given[name] for name in names]
        try:
            p = np.array(given, dtype=float)
        except (OverflowError, TypeError, ValueError):
            p = np.array(np.nan)
        if p.shape != (len(names),) or not (p >= 0).all() or not abs(p.sum() - 1) <= SUM:
            raise InvalidInput(
                f"KDEClassifier: priors={self.priors!r}; give {len(names)} probabilities ≥ 0 of "
                f"sum one, for the classes {names}. Counts become probabilities when divided by "
                "their sum."
            )
        return p

    # -- answers ------------------------------------------------------------------------------
    @follows_data
    def predict_joint_log_proba(self, X: Any) -> np.ndarray:
        """Return log p(c) p(x | c), one column a class; −inf where a density is 0.

        Parameters
        ----------
        X : array of shape (m, d)
            New points.
        """
        check_is_fitted(self)
        kernel = smoothing(self.class_densities_[0].smoothing_)
        return self._log_densities(self._rows(X, kernel, reset=False)) + _log(self.priors_)

    @follows_data
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return the logarithms of the posterior probabilities, one column a class.

        Parameters
        ----------
        X : array of shape (m, d)
            New points.
        """
        return _posterior(self.predict_joint_log_proba(X), self.priors_)

    @follows_data
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the posterior probabilities, one column a class.

        Parameters
        ----------
        X : array of shape (m, d)
            New points.
        """
        return np.exp(self.predict_log_proba(X))

    @follows_data
    def predict(self, X: Any) -> np.ndarray:
        """Return the class of largest posterior probability for each row of X.

        Parameters
        ----------
        X : array of shape (m, d)
            New points.
        """
        best = self.predict_log_proba(X).argmax(axis=1)
        return self.classes_[best]

    @speaks
    def loo_proba(self) -> np.ndarray:
        """Return the posterior probabilities at each training point by the others; exact.

        Bandwidths are those of the fitted model, and so are priors that were given; shares of the
        classes are counted without the row, which is left out with all its weight.
        """
        check_is_fitted(self)
        logs = self._log_densities(self.X_fit_)
        used, codes = self.sample_weight_ > 0, self.y_fit_
        for c, density in enumerate(self.class_densities_):
            logs[(codes == c) & used, c] = density.loo()
        priors = np.broadcast_to(self.priors_, logs.shape)
        if not self.priors_given_:
            own = codes[:, None] == np.arange(len(self.classes_))
            left = sums_of_others(own * moderate_weights(self.sample_weight_)[:, None])
            whole = left.sum(axis=1)
            if not (whole > 0).all():
                raise InvalidInput(
                    "KDEClassifier.loo: the only training point has no other to speak of it; fit "
                    "at least two points of positive weight."
                )
            priors = left / whole[:, None]
        return np.exp(_posterior(logs + _log(priors), priors))

    @speaks
    def loo(self) -> np.ndarray:
        """Return the class of each training point, predicted by the others; exact.

        As `loo_proba`.
        """
        best = self.loo_proba().argmax(axis=1)
        return self.classes_[best]

    def _log_densities(self, points: np.ndarray) -> np.ndarray:
        return np.stack([d.score_samples(points) for d in self.class_densities_], axis=1)


def _log(p: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(p)


def _posterior(joint: np.ndarray, priors: np.ndarray) -> np.ndarray:
    """Return log posteriors of joint log densities; the priors where all of these are −inf."""
    joint = np.where(np.isneginf(joint).all(axis=1, keepdims=True), _log(priors), joint)
    joint = joint - joint.max(axis=1, keepdims=True)
    return joint - np.log(np.exp(joint).sum(axis=1, keepdims=True))
