"""The perceptron and its variants, in dual form: any kernel, online or in epochs."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin

from mercer import checks, state
from mercer.domains import concatenate
from mercer.errors import InvalidInput, available_if, speaking_for, speaks, who
from mercer.estimator import (
    JUDGED,
    KernelEstimator,
    accuracy,
    check_definite,
    check_labels,
    choose_class,
    class_signs,
    find_classes,
    known_classes,
)
from mercer.kernels import Kernel
from mercer.models.perceptron.rules import (
    MARGIN_BOUND,
    RULES,
    Learned,
    Training,
    describe,
    refuse_unknown_scale,
)
from mercer.operators import gram_of
from mercer.solvers import Solution

# A functional margin that shrinking steps reach soon, in units of R² = max k(x, x).
VARIABLE_MARGIN = 0.01


def _online(model: Any) -> bool:
    """Whether new points can be appended; of a precomputed kernel no value with them is known."""
    return not model.__sklearn_tags__().input_tags.pairwise


class KernelPerceptron(ClassifierMixin, KernelEstimator):
    r"""Perceptron in the feature space of any kernel, with its margin and batch variants.

    Goes through the points until none is a mistake. With θ = (f, b), the k-th update is
    f += η(k) y k(x, ·) and b += η(k) y; the offset b is the weight of a constant feature 1.

    ============  ==============================  ==============  =============================
    variant       a mistake (x, y)                step η(k)       promise for separable data
    ============  ==============================  ==============  =============================
    "standard"    y(f(x) + b) ≤ 0                 1               at most R²/γ*² updates
    "margin"      y(f(x) + b) ≤ (γ/2)‖θ‖          1               12R²/γ² updates, margin ≥ γ/2
    "variable"    y(f(x) + b) ≤ γ/2               k^(−power_t)    ends with y(f(x) + b) ≥ γ/2
    "batch"       y(f(x) + b) ≤ 0, all at once    k^(−power_t)    ends
    ============  ==============================  ==============  =============================

    Here γ* is the largest geometric margin min y⟨θ, φ(x)⟩/‖θ‖ of any θ, and R the largest ‖φ(x)‖,
    both with the constant feature where there is an offset; "margin" wants γ ≤ γ*. More than two
    classes: one perceptron for each against the rest, on one Gram matrix; the largest value wins.

    Costs n operations an update and n² memory; where the Gram matrix exceeds the budget, blocks of
    it are computed again in every epoch. There are no sample weights: a mistake is made or not,
    and a row given twice is visited twice.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        The kernel; "rbf" takes its length scale from the data.
    variant : {"standard", "margin", "variable", "batch"}, default="standard"
        The rule, see the table.
    margin : float, optional
        γ > 0, for "margin" and "variable". Left out, "margin" begins with γ = R and halves it,
        from zero coefficients, whenever 12R²/γ² updates prove it too large, and so ends with at
        least a quarter of the best margin; "variable" takes γ = R²/100.
    max_epochs : int, default=1000
        Passes over the data before giving up; "batch" makes one update in each.
    fit_intercept : bool, default=True
        Whether there is an offset.
    power_t : float, default=1.0
        How fast the steps of "variable" and "batch" shrink, from 0 (not at all) to 1. The number
        of updates can grow exponentially in R/γ* with 1, and as its square with 0.
    shuffle : bool, default=True
        Whether each epoch visits the points in a new random order.
    random_state : int, RandomState or None, default=0
        Seed of that order.

    Attributes
    ----------
    classes_ : array
        The classes.
    support_ : array
        Positions of the points with coefficients, in the order in which they were given.
    X_fit_ : collection
        Those points.
    dual_coef_ : array of shape (m,) or (m, n_classes)
        Their coefficients; ± the number of mistakes where steps are 1.
    intercept_ : float or array of shape (n_classes,)
        The offset, 0 without `fit_intercept`; of two classes one number, no array of one.
    n_updates_ : int or array
        Updates made, for each class where there are more than two.
    n_iter_ : int
        Epochs, the last one without a mistake included; each `partial_fit` is one more.
    converged_ : bool
        Whether no training point is a mistake.
    margin_ : float or array
        Geometric margin min y(f(x) + b)/‖f‖ on the training points; negative if one is wrong.
    target_margin_ : float or array
        The γ of the rule, 0 where it has none.
    norm_ : float or array
        ‖f‖.
    n_samples_seen_ : int
        Rows given to `fit` and `partial_fit` together.
    kernel_ : Kernel
        The kernel with words resolved.
    solution_ : Solution
        Certificate, from values recomputed at the end: `residual` is the share of training points
        (of all classes together) that are mistakes; margin and updates are in `extra`.
    function_ : Function
        The fitted function.

    Examples
    --------
    >>> from mercer import KernelPerceptron, Polynomial
    >>> X, y = [[0, 0], [0, 1], [1, 0], [1, 1]], [0, 1, 1, 0]
    >>> model = KernelPerceptron(Polynomial(2)).fit(X, y)
    >>> model.predict(X), model.converged_
    (array([0, 1, 1, 0]), True)
    """

    _parameters = {
        "fit_intercept": checks.Flag(),
        "shuffle": checks.Flag(),
        "variant": checks.Word(*RULES, says="legal: {}"),
        "margin": checks.Maybe(checks.Number(above=0, says="give a number > 0, or None")),
        "power_t": checks.Number(
            0, 1, says="give a number from 0 to 1: steps that shrink faster need not arrive"
        ),
        "max_epochs": checks.Whole(1),
        "random_state": checks.SEED,
    }
    _state = (
        state.SOLVED
        | {
            "X_fit_": state.Points("m"),
            "dual_coef_": state.Floats("m", "t?"),
            "classes_": state.Labels("t?"),
            "support_": state.Array("m"),
            "n_updates_": state.Floats("t?"),
            "margin_": state.Floats("t?"),
            "target_margin_": state.Floats("t?"),
            "norm_": state.Floats("t?"),
        }
        | state.others("n_iter_", "converged_", "n_samples_seen_", needed=True)
    )

    dual_coef_: np.ndarray
    support_: np.ndarray
    n_iter_: int

    score = accuracy

    def __init__(
        self,
        kernel: Any = "rbf",
        variant: str = "standard",
        *,
        margin: float | None = None,
        max_epochs: int = 1000,
        fit_intercept: bool = True,
        power_t: float = 1.0,
        shuffle: bool = True,
        random_state: Any = 0,
    ):
        self.kernel = kernel
        self.variant = variant
        self.margin = margin
        self.max_epochs = max_epochs
        self.fit_intercept = fit_intercept
        self.power_t = power_t
        self.shuffle = shuffle
        self.random_state = random_state

    # -- learning -----------------------------------------------------------------------------
    @speaks("KernelPerceptron")
    def fit(self, X: Any, y: Any) -> Self:
        """Visit the points until none is a mistake.

        Parameters
        ----------
        X : collection of n points
            Vectors, frames, or what the kernel accepts; the Gram matrix when precomputed.
        y : array of shape (n,)
            Class labels.

        Returns
        -------
        KernelPerceptron
            The fitted model itself.
        """
        with self._all_or_nothing(X):
            self._check_params()
            kernel = self._kernel()
            X = self._check_X(X, kernel, reset=True)
            n = kernel.domain.size(X)
            y = check_labels(y, n)
            classes = find_classes(y)
            kernel = kernel.fit_params(X)
            self._refuse_indefinite(kernel, X)
            orders = self._orders(n)
            signs = class_signs(y, classes)
            training = self._training(kernel, X, signs, self._fresh(kernel, X, len(signs)))
            mistakes, epoch = signs.size, 0
            while mistakes and epoch < self.max_epochs:
                epoch += 1
                if training.epoch(next(orders)) == 0 or epoch == self.max_epochs:
                    mistakes = training.settle()
            self._store(training, classes, mistakes, epoch)
            self.solution_.unwrap()
        return self

    @available_if(_online)
    @speaks("KernelPerceptron")
    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Go on online: visit new points once, in the order given, and keep what was learned.

        The mistakes among them are appended to the support. Rows in several calls are the same
        rows in one call, except that words such as "rbf" and "median" are resolved on the rows of
        the first call, and that "batch" makes one update a call. The certificate and `margin_`
        concern the rows of the last call.

        Parameters
        ----------
        X : collection of n points
            New points.
        y : array of shape (n,)
            Their labels.
        classes : array, optional
            All classes, needed in the first call.

        Returns
        -------
        KernelPerceptron
            The model itself.
        """
        first = "dual_coef_" not in vars(self)
        held = {name: vars(self)[name] for name in self._learned if name in vars(self)}
        with self._all_or_nothing(X):
            self.__dict__.update(held)
            self._check_params()
            kernel = self._kernel() if first else self.kernel_
            X = self._check_X(X, kernel, reset=first)
            n = kernel.domain.size(X)
            y = check_labels(y, n)
            with speaking_for("KernelPerceptron.partial_fit"):
                known = known_classes(classes, y, held.get("classes_"))
            signs = class_signs(y, known)
            earlier = None
            if first:
                self._refuse_unknown_margin()
                refuse_unknown_scale(kernel, X)
                kernel = kernel.fit_params(X)
                state = self._fresh(kernel, X, len(signs))
            else:
                X, points = kernel.domain.match(X, self.X_fit_)
                earlier = (points, self.dual_coef_.reshape(len(self.support_), -1))
                state = self._resumed()
            training = self._training(kernel, X, signs, state, earlier)
            training.epoch(np.arange(n))
            mistakes = training.settle()
            self._store(training, known, mistakes, 1 if first else self.n_iter_ + 1, held)
        return self

    def _training(
        self, kernel: Kernel, X: Any, signs: np.ndarray, state: Learned, earlier: Any = None
    ) -> Training:
        rule, offset = RULES[self.variant], bool(self.fit_intercept)
        return Training(kernel, X, signs, rule, float(self.power_t), offset, state, earlier)

    def _fresh(self, kernel: Kernel, X: Any, classes: int) -> Learned:
        if not RULES[self.variant].margin:
            return Learned.fresh(classes, 0.0)
        if self.margin is not None:
            return Learned.fresh(classes, 0.5 * self.margin)
        diagonal = gram_of(kernel, X).diagonal()
        square = float(diagonal.max(initial=0.0)) + (1.0 if self.fit_intercept else 0.0)
        if self.variant == "variable":
            return Learned.fresh(classes, 0.5 * VARIABLE_MARGIN * square)
        return Learned.fresh(classes, 0.5 * square**0.5, MARGIN_BOUND)

    def _resumed(self) -> Learned:
        margin = self.target_margin_ if self.margin is None else self.margin
        state = Learned.fresh(np.size(self.n_updates_), 0.0)
        if RULES[self.variant].margin:
            state.half[:] = 0.5 * np.asarray(margin)
        state.bias[:] = self.intercept_
        state.square[:] = np.square(self.norm_)
        state.updates[:] = state.total[:] = self.n_updates_
        return state

    def _orders(self, n: int) -> Any:
        rng = checks.random_source(self.random_state)
        while True:
            yield rng.permutation(n) if self.shuffle else np.arange(n)

    def _store(
        self, t: Training, classes: np.ndarray, mistakes: int, epochs: int, held: Any = None
    ) -> None:
        """Store what was learned, behind what `held` had learned before."""
        domain, state = t.kernel.domain, t.state
        support = np.flatnonzero(t.coef.any(axis=0))
        coef = t.coef[:, support].T.copy()
        points = domain.keep_at(t.X, support)
        seen = 0 if not held else held["n_samples_seen_"]
        if t.earlier is not None:
            points = concatenate(domain, t.earlier[0], points)
            coef = np.concatenate([t.earlier[1], coef])
            support = np.concatenate([self.support_, seen + support])
        two = len(classes) == 2

        def cut(values: np.ndarray) -> Any:
            return values[0].item() if two else values.copy()

        self.kernel_, self.classes_, self.X_fit_, self.support_ = t.kernel, classes, points, support
        self.dual_coef_ = coef[:, 0] if two else coef
        self.intercept_, self.norm_ = cut(state.bias), cut(np.sqrt(state.square))
        self.n_updates_, self.n_iter_ = cut(state.total), epochs
        self.margin_, self.target_margin_ = cut(t.margins), cut(2 * state.half)
        self.n_samples_seen_ = seen + t.signs.shape[1]
        self.converged_ = mistakes == 0
        self.solution_ = Solution(
            value=self.dual_coef_,
            converged=self.converged_,
            n_iter=epochs,
            residual=mistakes / t.signs.size,
            message="" if self.converged_ else describe(self, mistakes, t, epochs),
            extra={
                "mistakes": mistakes,
                "n_updates": int(state.total.sum()),
                "margin": float(t.margins.min()),
            },
        )

    # -- checks -------------------------------------------------------------------------------
    @speaks("KernelPerceptron")
    def _check_params(self) -> None:
        checks.check_parameters(self)
        if self.margin is not None and not RULES[self.variant].margin:
            raise InvalidInput(
                f"{who()}: margin={self.margin!r}, but variant={self.variant!r} knows no margin; "
                "leave it out, or use variant='margin' or 'variable'."
            )

    def _refuse_unknown_margin(self) -> None:
        if self.variant == "margin" and self.margin is None:
            raise InvalidInput(
                "KernelPerceptron.partial_fit: a margin cannot be searched for online, where "
                "points are seen once; give margin=, or begin with fit."
            )

    @speaks("KernelPerceptron")
    def _refuse_indefinite(self, kernel: Kernel, X: Any) -> None:
        if not kernel.domain.holds_points and len(X) <= JUDGED:
            K = kernel.domain.check_training(X)
            check_definite(kernel, np.asarray(K, dtype=float))

    # -- answers ------------------------------------------------------------------------------
    def decision_function(self, X: Any) -> np.ndarray:
        """Return f(x) + b: one column for two classes, else one column a class.

        Parameters
        ----------
        X : collection of points
            New points; when precomputed, their kernel values with the training points.
        """
        X = self._check_new(X)
        kernel = self.kernel_
        X, points = kernel.domain.match(X, self.X_fit_)
        return self._finite(gram_of(kernel, X, points) @ self.dual_coef_ + self.intercept_)

    def predict(self, X: Any) -> np.ndarray:
        """Return the class of each row of X.

        Parameters
        ----------
        X : collection of points
            New points.
        """
        return choose_class(self.decision_function(X), self.classes_)
