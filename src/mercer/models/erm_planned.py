"""Risks with a choice of solver: a plan, then a factorisation, conjugate gradients or centres."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np

from mercer.domains.vectors import to_host
from mercer.errors import InvalidInput
from mercer.kernels import Kernel
from mercer.losses import Loss
from mercer.models.erm_base import RiskEstimator
from mercer.models.erm_cg import IterativeGram
from mercer.models.erm_falkon import fit_centred_risk, outputs_of, stream_data
from mercer.models.erm_fit import ERMFit
from mercer.models.machines import MarginData
from mercer.models.plan import SMALL, plan_smooth
from mercer.models.plan_single import gradients, kinked
from mercer.models.plan_study import Study
from mercer.models.plan_value import Plan
from mercer.models.ridge_base import settled
from mercer.models.ridge_centred import CentredFit
from mercer.models.ridge_data import in_double
from mercer.models.ridge_options import SolverOptions, asks_centers
from mercer.models.ridge_stream import is_stream, resolved

__all__ = ["RISK_SOLVERS", "PlannedRisk"]

#: Names of solvers of smooth risks.
RISK_SOLVERS = ("auto", "newton", "cholesky", "cg", "falkon")
LARGEST_TOL = 1.0 - 1e-12


class PlannedRisk(CentredFit, RiskEstimator):
    """Base of risk estimators whose solver is chosen by name, or by the plan of a fit."""

    _learned = (*RiskEstimator._learned, "n_rows_", "plan_")
    _on_device = True
    _solvers: tuple[str, ...] = RISK_SOLVERS

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : collection of n points, or RowBlocks
            Vectors, frames, or what the kernel accepts; the Gram matrix when precomputed. Tensors
            are worked on where they are by "cg" and "falkon". `mercer.RowBlocks` bring rows that
            need not fit memory, with their targets and weights.
        y : array of shape (n,)
            Class labels, or targets for a loss of regression; may be left out where the blocks
            carry them.
        sample_weight : float or array of shape (n,), optional
            Weights; a weight of 2 is the row given twice, 0 the row left out, and a class of such
            rows only is not in ``classes_``.

        Returns
        -------
        estimator
            The fitted model itself.
        """
        return self._fit_from(None, X, y, sample_weight)

    # -- data ---------------------------------------------------------------------------------
    def _options(self, limits: dict[str, Any]) -> SolverOptions:
        """Return the checked options; limits as they are checked for every risk."""
        tol = min(limits["tol"], LARGEST_TOL)
        return SolverOptions.of(self, self._solvers, max_iter=limits["max_iter"], tol=tol)

    def _points(self, X: Any, kernel: Kernel) -> Any:
        """Return the points of a fit where, and as precise as, the method may want them."""
        X = self._check_X(X, kernel, reset=True)
        if asks_centers(self):
            return X
        if self.solver == "cg":
            return in_double(X)
        many = self.solver == "auto" and kernel.domain.size(X) > SMALL
        return X if many and self._risk().smooth else in_double(to_host(X))

    # -- the fit ------------------------------------------------------------------------------
    def _check_params(self) -> tuple[Loss, float, dict[str, Any]]:
        loss, alpha, limits = super()._check_params()
        options = self._options(limits)
        if options.wanted in ("cg", "falkon") and not loss.smooth:
            raise InvalidInput(
                f"{options.owner}: solver={options.wanted!r} is for smooth losses, and {loss!r} "
                "has kinks; use solver='auto' or 'cholesky' without centres, or a smooth loss: "
                "'logistic', 'squared_hinge', 'exponential', 'squared' or 'huber'."
            )
        return loss, alpha, limits

    def _fit_from(self, near: Any, X: Any, y: Any, sample_weight: Any = None) -> Self:
        if not is_stream(X):
            return super()._fit_from(near, X, y, sample_weight)
        with self._all_or_nothing():
            loss, alpha, limits = self._check_params()
            options = self._options(limits)
            if not loss.smooth or options.solver == "sgd":
                what = f"solver={self.solver!r}" if loss.smooth else f"{loss!r}, a loss with kinks,"
                raise InvalidInput(
                    f"{options.owner}: {what} needs all rows in memory, and these come in blocks; "
                    "use solver='falkon' and a smooth loss, such as 'logistic' or 'huber'."
                )
            kernel, rows = self._stream(X, y, sample_weight, options)
            kernel = resolved(kernel, rows, options.seed)
            data = stream_data(kernel, rows, loss, self.class_weight, options.owner)
            self._fit_data(data, X, loss, alpha, limits)
        return self

    def _plan_fit(self, data: MarginData, alpha: float, options: SolverOptions) -> Plan:
        """Return the plan of a fit, or refuse what cannot be done before any work."""
        plan = plan_smooth(
            data.kernel,
            data.X,
            outputs_of(data.classes),
            solver=options.wanted,
            alpha=alpha,
            n_centers=options.n_centers,
            owner=options.owner,
            quick=True,
        )
        return settled(plan, options)

    def _fit_data(
        self, data: MarginData, X: Any, loss: Loss, alpha: float, limits: dict, near: Any = None
    ) -> None:
        options = self._options(limits)
        self.n_rows_ = data.n
        if loss.smooth and options.solver != "sgd":
            self.plan_ = self._plan_fit(data, alpha, options)
            if self.plan_.method == "falkon":
                options = self._with_centers(options, data.kernel)
                offset = bool(self.fit_intercept)
                fit, made = fit_centred_risk(data, loss, alpha, offset, options, self.plan_)
                b, self.loss_ = fit.intercept, loss
                self.intercept_ = b if data.classes is None else np.atleast_1d(b)
                if data.classes is not None:
                    self.classes_ = np.asarray(data.classes)
                self._store_centres(data.kernel, made.centers, fit.solution, alpha, self.plan_)
                self.solution_.unwrap()
                return
        else:
            rule = gradients if loss.smooth else kinked
            study = Study(data.kernel, data.X, outputs_of(data.classes), options.owner)
            self.plan_ = rule(self, study.unmeasured())
        if self.plan_.method != "cg":
            data = replace(data, X=in_double(to_host(data.X)))
        super()._fit_data(data, X, loss, alpha, limits, near)

    def _shared_rows(self, data: MarginData, limits: dict) -> Any:
        if self.plan_.method != "cg":
            return None
        return IterativeGram(data.kernel, in_double(data.X), limits["owner"], self.random_state)

    def _store(self, data: MarginData, points: Any, loss: Loss, alpha: float, fit: ERMFit) -> None:
        super()._store(replace(data, X=to_host(data.X)), points, loss, alpha, fit)

    # -- answers ------------------------------------------------------------------------------
    def _again(self, X: Any, verb: str) -> tuple[Any, np.ndarray]:
        self._require_rows(verb)
        return super()._again(X, verb)
