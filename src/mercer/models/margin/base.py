"""What the margin machines share: checked data, box QPs on one set of rows, support, values.

A fit reads: `_prepare` the data, `_rows` of the Gram matrix, a list of `BoxQP`, `solve_all` of them
on these rows, one `Machine` for each, `_store`. Everything but the storing leaves the estimator
alone, so that paths and folds can do it again on the same data and rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer.checks import as_number, positive, step_limit
from mercer.domains import GramRows
from mercer.domains.tables import has_width
from mercer.engines import pick, row_blocks
from mercer.errors import InvalidInput, ModelFileError
from mercer.estimator import KernelEstimator, MarginData, is_plain_linear, linear_weights
from mercer.models.margin.problems import Machine, gram_rows, in_name_of, solve_all
from mercer.rkhs import Function
from mercer.solvers import SMO, BoxQP, Rows, Solution, merged

HUGE = 1e150  # the square of more is no float64
FEATURES = 4  # times fewer features than support vectors make the primal weights worth using


class MarginMachine(KernelEstimator):
    """Base of the support vector machines.

    Attributes
    ----------
    support_ : array of shape (n_SV,)
        Positions of the support vectors among the training rows.
    support_vectors_ : collection
        The support vectors; their positions when the kernel is precomputed.
    dual_coef_ : array of shape (1, n_SV)
        Their coefficients.
    intercept_ : array of shape (1,)
        The offset.
    support_kind_ : array of shape (n_SV,)
        "margin" for a coefficient inside its bounds, "bound" for one at its bound.
    n_iter_ : int
        Steps of the solver.
    """

    _learned: tuple[str, ...] = (
        "kernel_",
        "support_",
        "support_vectors_",
        "support_kind_",
        "dual_coef_",
        "intercept_",
        "n_iter_",
        "solution_",
        "n_features_in_",
        "feature_names_in_",
    )

    tol: float
    fit_intercept: bool
    max_iter: Any
    max_time: Any
    support_: np.ndarray
    support_vectors_: Any
    support_kind_: np.ndarray
    n_support_: np.ndarray
    n_iter_: Any
    dual_coef_: np.ndarray
    intercept_: np.ndarray
    solution_: Solution
    y_fit_: np.ndarray
    weights_fit_: np.ndarray | None

    # -- before the solver --------------------------------------------------------------------
    def _check_positive(self, name: str, *, infinite: bool = False, zero: bool = False) -> float:
        """Return a parameter that must be a number > 0 (or ≥ 0)."""
        owner = type(self).__name__
        return positive(getattr(self, name), name, owner, infinite=infinite, zero=zero)

    def _check_share(self, name: str) -> float:
        """Return a parameter that must be a number in (0, 1]."""
        value = getattr(self, name)
        number = as_number(value)
        if not 0 < number <= 1:
            raise InvalidInput(f"{type(self).__name__}: {name}={value!r}; give a number in (0, 1].")
        return number

    def _check_price(self, C: float, data: MarginData, rows: Rows) -> None:
        """Refuse a C for which squares of values of f would overflow."""
        size = float(rows.diagonal.max(initial=0.0)) * float(data.weights.max(initial=0.0))
        if C * max(size, HUGE**-1) > HUGE:
            hard = ", or C=numpy.inf for the hard margin" if hasattr(self, "class_weight") else ""
            raise InvalidInput(
                f"{type(self).__name__}: C={C:g} times the largest k(x, x) and weight, {size:.3g}, "
                f"is more than float64 can square; give C < {HUGE / max(size, 1):.0e}{hard}."
            )

    def _solver(self) -> SMO:
        """Return the solver that the parameters ask for; −1 iterations stand for no limit."""
        limit = step_limit(self.max_iter, type(self).__name__)
        tol = self._check_positive("tol")
        seconds = None if self.max_time is None else self._check_positive("max_time")
        return SMO(tol, limit, seconds)

    def _rows(self, data: MarginData, often: bool = False) -> Rows:
        """Return the rows of the Gram matrix, which all problems on these data share.

        For many problems in turn (`often`) they are kept in float64, where that fits: then no
        certificate needs the kernel again.
        """
        return gram_rows(data.kernel, data.X, type(self).__name__, often)

    def _solved(
        self, problems: Sequence[BoxQP], rows: Rows, starts: Any = None, solver: SMO | None = None
    ) -> list[Solution]:
        """Solve the problems, with errors in the name of this model."""
        with self._named():
            return solve_all(problems, rows, solver or self._solver(), starts)

    def _named(self) -> AbstractContextManager[None]:
        """Let errors of the solver speak in the name of this model."""
        return in_name_of(type(self).__name__)

    # -- after the solver ---------------------------------------------------------------------
    def _store(self, data: MarginData, machines: Sequence[Machine]) -> None:
        """Store the machines: the points that any of them uses, and their coefficients."""
        m = len(data.y)
        used, bound = np.zeros(m, dtype=bool), np.zeros(m, dtype=bool)
        for machine in machines:
            at: Any = slice(None) if machine.index is None else machine.index
            used[at] |= machine.coef != 0
            bound[at] |= machine.bound
        support = self._order(data, np.flatnonzero(used))
        given = support if data.kept is None else data.kept[support]
        domain = data.kernel.domain
        self.kernel_ = data.kernel
        self.support_ = given
        precomputed = isinstance(domain, GramRows)
        self.support_vectors_ = (
            given.copy() if precomputed else domain.keep(domain.take(data.X, support))
        )
        self.support_kind_ = np.where(bound[support], "bound", "margin")
        self.dual_coef_ = self._layout(data, machines, support)
        self.intercept_ = np.array([machine.intercept for machine in machines])
        solution = merged([machine.solution for machine in machines], self.dual_coef_)
        text = solution.message.replace("SMO: ", "")
        message = f"{type(self).__name__}: {text}" if text else ""
        self.solution_ = replace(solution, message=message)

    def _store_one(self, data: MarginData, machine: Machine) -> None:
        """Store the only machine, and say what a fit of one problem says."""
        self._store(data, [machine])
        self.n_support_ = np.array([len(self.support_)], dtype=np.int32)
        self.n_iter_ = max(1, machine.solution.n_iter)
        self.solution_.unwrap()

    def _keep_targets(self, data: MarginData) -> None:
        """Keep targets and weights, which leave-one-out needs to fit without a row."""
        self.y_fit_, self.weights_fit_ = data.y.copy(), None
        if data.kept is not None:
            self.y_fit_ = np.zeros(data.n, dtype=data.y.dtype)
            self.y_fit_[data.kept] = data.y
        if data.kept is not None or (data.weights != 1).any():
            self.weights_fit_ = np.zeros(data.n)
            self.weights_fit_[slice(None) if data.kept is None else data.kept] = data.weights

    def _order(self, data: MarginData, support: np.ndarray) -> np.ndarray:
        """Return the support vectors in the order in which they are stored."""
        return support

    def _layout(
        self, data: MarginData, machines: Sequence[Machine], support: np.ndarray
    ) -> np.ndarray:
        """Return `dual_coef_`."""
        return machines[0].coef[None, support]

    def _columns(self) -> np.ndarray:
        """Return the coefficients of the functions, shape (n_SV, problems), from `dual_coef_`."""
        return np.ascontiguousarray(self.dual_coef_.T)

    # -- answers ------------------------------------------------------------------------------
    @property
    def function_(self) -> Function:
        """The solution as a function in the RKHS (plus its offset), over the support vectors."""
        check_is_fitted(self)
        coef, offset = self._columns(), self.intercept_
        if coef.shape[1] == 1:
            return Function(self.kernel_, self.support_vectors_, coef[:, 0], float(offset[0]))
        return Function(self.kernel_, self.support_vectors_, coef, offset)

    @property
    def coef_(self) -> np.ndarray:
        """The weights of the columns, shape (problems, columns); of the linear kernel only."""
        check_is_fitted(self)
        if not is_plain_linear(self.kernel_):
            raise AttributeError(
                f"{type(self).__name__}: coef_ exists for the linear kernel only, not for "
                f"{self.kernel_!r}; function_ is the solution for any kernel."
            )
        if isinstance(self.support_vectors_, np.ndarray):
            return linear_weights(self.support_vectors_, self._columns()).T.copy()
        return np.asarray(self.support_vectors_.T @ self._columns()).T.copy()

    def _values(self, X: Any) -> np.ndarray:
        """Return f(x) + b for new points, shape (n, problems), in tiles."""
        X = self._check_new(X)
        kernel = self.kernel_
        domain = kernel.domain
        X, points = domain.match(X, self.support_vectors_)
        with np.errstate(over="ignore", invalid="ignore"):
            if not len(self.support_):
                out = np.zeros((domain.size(X), len(self.intercept_)))
            elif (weights := self._weights()) is not None:
                tiles = row_blocks(domain.size(X), len(weights) * 16)
                parts = [np.asarray(kernel._features(domain.take(X, r)) @ weights) for r in tiles]
                out = np.concatenate(parts)
            else:
                out = self._products(X, points)
            out = out + self.intercept_
        return self._finite(out)

    def _products(self, X: Any, points: Any) -> np.ndarray:
        engine = pick(X)
        return engine.to_numpy(engine.matmul(self.kernel_, X, points, self._columns()))

    def _weights(self) -> np.ndarray | None:
        """Return weights of explicit features, where those are much fewer than the support."""
        X = self.support_vectors_
        if is_plain_linear(self.kernel_) and isinstance(X, np.ndarray):
            return linear_weights(X, self._columns())
        D = self.kernel_._n_features(X)
        if D is None or FEATURES * D > len(self.support_):
            return None
        return np.asarray(self.kernel_._features(X).T @ self._columns())

    # -- files --------------------------------------------------------------------------------
    def _check_state(self) -> None:
        """Refuse a state read from a file whose parts do not belong together."""
        held = {name: value for name, value in vars(self).items() if name in self._learned}
        if not held:
            return
        owner = type(self).__name__
        needed = set(self._learned) - {"n_features_in_", "feature_names_in_"} - self._optional()
        missing = sorted(needed - set(held))
        if missing:
            raise ModelFileError(f"a {owner} without {', '.join(missing)}")
        domain = self.kernel_.domain
        m = domain.size(self.support_vectors_)
        if not (
            np.shape(self.support_) == np.shape(self.support_kind_) == (m,)
            and np.ndim(self.dual_coef_) == 2
            and np.shape(self.dual_coef_)[1] == m
            and np.shape(self.intercept_) == (self._n_problems(),)
            and np.isfinite(self.dual_coef_).all()
            and np.isfinite(self.intercept_).all()
        ):
            raise ModelFileError(f"the arrays of a {owner} do not fit one another")
        self._check_targets(held, owner)
        positions, count = self.support_vectors_, held.get("n_features_in_")
        if isinstance(domain, GramRows):
            legal = isinstance(positions, np.ndarray) and positions.dtype.kind in "iu"
            if not legal or count is None or (positions < 0).any() or (positions >= count).any():
                raise ModelFileError(f"a {owner} keeps positions of training points out of range")
            return
        if count is not None and not has_width(positions, count):
            width = positions.shape[1]
            raise ModelFileError(f"a {owner} of {count} columns keeps points of {width}")

    def _check_targets(self, held: dict[str, Any], owner: str) -> None:
        y, w = held.get("y_fit_"), held.get("weights_fit_")
        if y is None:
            return
        legal = isinstance(y, np.ndarray) and y.ndim == 1 and y.dtype.kind in "if"
        legal = legal and len(y) > int(np.max(self.support_, initial=-1)) and np.isfinite(y).all()
        if w is not None:
            legal = legal and np.shape(w) == np.shape(y) and bool((np.asarray(w) >= 0).all())
        if not legal:
            raise ModelFileError(f"the targets of a {owner} do not fit its support vectors")

    def _optional(self) -> set[str]:
        """Names of learned attributes that a fitted model may lack."""
        return {"y_fit_", "weights_fit_"}

    def _n_problems(self) -> int:
        return 1
