"""The fit of sparse Gaussian process regression: what it keeps of the rows, and its certificate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.domains import GramRows
from mercer.engines import require_memory
from mercer.errors import InvalidInput, ModelFileError
from mercer.models.gp.regression import RESIDUAL, Problem, RegressorFit
from mercer.models.gp.search import Search
from mercer.models.gp.sparse.evidence import MATRICES, SparseFit
from mercer.models.gp.sparse.points import check_sample
from mercer.models.gp.sparse.search import METHODS, SparseSearch
from mercer.solvers import Solution, check_index

if TYPE_CHECKING:
    from mercer.kernels import Kernel

NOISE = 0.9  # part of the mean square of y that is noise where nothing was found


class SparseRegressorFit(RegressorFit):
    """The part of a sparse regressor that fits, and keeps what the fit found."""

    _learned = (
        "kernel_",
        "X_fit_",
        "dual_coef_",
        "intercept_",
        "solution_",
        "n_features_in_",
        "feature_names_in_",
        "noise_",
        "scaled_noise_",
        "noise_level_",
        "y_mean_",
        "y_scale_",
        "inducing_factor_",
        "posterior_factor_",
        "theta_",
        "theta_names_",
        "log_marginal_likelihood_value_",
        "log_evidence_upper_",
        "search_",
    )

    n_inducing: Any
    method: Any
    inducing: Any
    mean = "zero"
    _rows: Any = None  # the rows of the fit, for `log_marginal_likelihood`

    # -- fit ----------------------------------------------------------------------------------
    def _fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        if isinstance(self.noise, str) and self.noise != "fit":
            raise InvalidInput(
                f"{type(self).__name__}: noise={self.noise!r}; give 'fit', a variance > 0, or one "
                "for each row."
            )
        problem, parameters, noise, kept, column = self._prepare(X, y, sample_weight)
        searched = problem.searched()
        sparse, unit = self._sparse_search(searched), searched.targets.variance_unit()
        kernel, level = parameters.kernel, parameters.noise
        search, chosen = None, None
        check_sample(kernel, problem.X, sparse.seed)
        if self.optimizer is not None and len(parameters.theta):
            search, chosen = sparse.run(
                parameters,
                noise if isinstance(noise, np.ndarray) else None,
                n_restarts=self.n_restarts,
                max_iter=self.max_iter,
                tol=self.tol,
                rng=np.random.RandomState(sparse.seed),
            )
            kernel, level = parameters.read(search.theta)
            check_sample(kernel, problem.X, sparse.seed)
        scaled = (noise if level is None else level) / unit
        chosen = sparse.choose(kernel, scaled) if chosen is None else chosen
        evidence = (sparse if searched is problem else self._sparse_search(problem)).evidence()
        fit = evidence.posterior(kernel, scaled, chosen.points)
        self._keep(problem, kernel, scaled, chosen.points, kept, column, search, fit)

    def _start(self, noise: Any, problem: Problem) -> float | None:
        if not isinstance(noise, str) and not np.all(np.asarray(noise) > 0):
            raise InvalidInput(
                f"{problem.owner}: noise holds 0, by which its objective would divide; give a "
                "variance > 0, however small, or use GaussianProcessRegressor."
            )
        self._check_inducing(problem)  # before anything is computed
        return super()._start(noise, problem)

    def _sparse_search(self, problem: Problem) -> SparseSearch:
        m, given = self._check_inducing(problem)
        rng = self._search_rng()
        draw = rng.integers if hasattr(rng, "integers") else rng.randint
        return SparseSearch(problem, self.method, given, m, int(draw(2**31 - 1)))

    def _check_inducing(self, problem: Problem) -> tuple[int, Any]:
        """Return how many points are wanted, and a word or the points, canonical."""
        owner, domain = problem.owner, problem.kernel.domain
        if not isinstance(self.method, str) or self.method not in METHODS:
            raise InvalidInput(f"{owner}: method={self.method!r}; give 'vfe' or 'fitc'.")
        m, given = check_index(self.n_inducing, "n_inducing", owner, 1), self.inducing
        if isinstance(given, str):
            if given not in ("pivoted", "optimize"):
                raise InvalidInput(
                    f"{owner}: inducing={given!r}; give 'pivoted', 'optimize' or the points."
                )
        else:
            given = self._by_name(given, problem.kernel, "inducing")
            given = _check_points(given, problem, owner)
            if domain.size(given) == 0:
                raise InvalidInput(f"{owner}: inducing holds no point; give at least one.")
        size = min(m, len(problem.Y)) if isinstance(given, str) else domain.size(given)
        require_memory(
            8 * MATRICES * size * size,
            f"{owner}: matrices of {size} inducing points",
            "Use a smaller n_inducing",
        )
        return m, given

    def _keep(
        self,
        problem: Problem,
        kernel: Kernel,
        scaled: Any,
        U: Any,
        kept: Any,
        column: bool,
        search: Search | None,
        found: SparseFit,
    ) -> None:
        targets, scale = problem.targets, problem.targets.scale
        self.kernel_ = kernel
        self.X_fit_ = kept[U] if isinstance(kernel.domain, GramRows) else U
        self.y_mean_, self.y_scale_ = targets.mean, scale
        self.scaled_noise_ = scaled
        every = np.broadcast_to(scaled, len(problem.Y))
        self.noise_level_ = float(np.average(every, weights=problem.weights))
        vector = np.ndim(scaled) == 1
        each = scaled * scale[0] ** 2 if vector or np.ptp(scale) == 0 else scaled * scale**2
        self.noise_ = each if vector or np.ndim(each) else float(each)
        dual = found.dual * scale
        self.dual_coef_ = np.ascontiguousarray(dual[:, 0] if column else dual)
        self.intercept_ = float(targets.mean[0]) if column else targets.mean
        self.inducing_factor_, self.posterior_factor_ = found.lower, found.posterior
        shift = problem.shift()
        self.log_marginal_likelihood_value_ = found.value + shift
        self.log_evidence_upper_ = None if found.upper is None else found.upper + shift
        self.search_ = search
        self._rows = (problem, scaled, U)
        free = self._current_parameters()
        self.theta_, self.theta_names_ = free.theta, free.names
        self.solution_ = self._certificate(problem, found, search)
        self.solution_.unwrap()

    def _certificate(self, problem: Problem, fit: SparseFit, search: Any) -> Solution:
        owner, m = problem.owner, len(fit.dual)
        problems = []
        if fit.residual > RESIDUAL:
            problems.append(
                f"{owner}: the equations of the mean are nearly singular: the relative residual is "
                f"{fit.residual:.2g} (tolerance {RESIDUAL:g}) after a jitter of {fit.jitter:.2g}. "
                "Use fewer inducing points, or more noise"
            )
        elif search is not None and not search.converged:
            problems.append(f"{owner}: the search for parameters {search.message}")
        remark = ""
        wanted = min(int(self.n_inducing), len(problem.Y))
        if isinstance(self.inducing, str) and m < wanted:
            remark = f"{m} inducing points suffice, {wanted} were allowed."
        tuned, some = search is not None and m < len(problem.Y), problem.searched()
        level = self.noise_level_ * some.targets.variance_unit()
        if tuned and problem.varies().any() and level > NOISE * some.unit():
            remark = (
                "Nearly all of y is taken for noise, for which few inducing points are enough: "
                "evidence_gap is that of these parameters. More points may find a function."
            )
        extra = {"jitter": fit.jitter, "n_inducing": m}
        if fit.upper is not None:
            extra["evidence_gap"] = max(0.0, fit.upper - fit.value)
        return Solution(
            value=self.dual_coef_,
            converged=not problems,
            n_iter=0 if search is None else search.n_evaluations,
            residual=fit.residual,
            message=f"{problems[0]}." if problems else remark,
            extra=extra,
        )

    def log_marginal_likelihood(self, theta: Any = None, eval_gradient: bool = False) -> Any:
        """Return the bound (or FITC's evidence) of the training targets, and its gradient.

        In the units of y, summed over the outputs, without the densities of `priors`, and for the
        inducing points of the fit.

        Parameters
        ----------
        theta : array of shape (p,), optional
            Logarithms of the parameters ``theta_names_``; those found when not given.
        eval_gradient : bool, default=False
            Whether to return the gradient in theta too.

        Returns
        -------
        value : float
            The objective.
        gradient : array of shape (p,)
            With `eval_gradient`.
        """
        self._require_fit()
        if theta is None and not eval_gradient:
            return self.log_marginal_likelihood_value_
        if self._rows is None:
            raise InvalidInput(
                f"{type(self).__name__}.log_marginal_likelihood: a model from a file or a pickle "
                "has its inducing points and not the rows it was fitted to; fit it again."
            )
        problem, scaled, U = self._rows
        parameters = self._current_parameters()
        kernel, level = parameters.read(parameters.theta if theta is None else theta)
        if level is not None:
            scaled = level / problem.targets.variance_unit()
        evidence, shift = self._sparse_search(problem).evidence(), problem.shift()
        if not eval_gradient:
            return evidence.value(kernel, scaled, U) + shift
        value, slope, noise_slope, _ = evidence.value_and_gradient(kernel, scaled, U)
        return value + shift, parameters.pull(slope, noise_slope)

    # -- copies and files ---------------------------------------------------------------------
    def __getstate__(self) -> dict:
        state = dict(super().__getstate__())
        state.pop("_rows", None)  # a model is small; the rows are the user's
        return state

    def _check_state(self) -> None:
        """Refuse a state read from a file whose parts do not belong together."""
        held = {name: value for name, value in vars(self).items() if name in self._learned}
        if not held:
            return
        missing = sorted(set(self._learned) - {"feature_names_in_", "n_features_in_"} - set(held))
        if missing:
            raise ModelFileError(f"a {type(self).__name__} without {', '.join(missing)}")
        m, *outputs = np.shape(self.dual_coef_)
        t = outputs[0] if outputs else 1
        finite = (
            "dual_coef_",
            "intercept_",
            "y_mean_",
            "y_scale_",
            "noise_level_",
            "scaled_noise_",
        )
        matrices = (self.inducing_factor_, self.posterior_factor_)
        fits = (
            list(np.shape(self.intercept_)) == outputs
            and self.kernel_.domain.size(self.X_fit_) == m
            and np.shape(self.y_mean_) == np.shape(self.y_scale_) == (t,)
            and all(np.shape(A) == (m, m) and np.isfinite(A).all() for A in matrices)
            and all((np.diagonal(A) > 0).all() for A in matrices)
            and all(np.isfinite(held[name]).all() for name in finite)
            and np.all(self.y_scale_ > 0)
            and np.ndim(self.scaled_noise_) < 2
            and np.ndim(self.noise_level_) == 0
            and np.all(np.asarray(self.scaled_noise_) > 0)
            and self.noise_level_ > 0
            and (self.search_ is None or isinstance(self.search_, Search))
        )
        if not fits:
            raise ModelFileError(f"the arrays of a {type(self).__name__} do not fit one another")


def _check_points(given: Any, problem: Problem, owner: str) -> Any:
    """Return given inducing points as a canonical collection that goes with the rows."""
    domain = problem.kernel.domain
    if isinstance(domain, GramRows):
        index = np.asarray(given)
        n = len(problem.Y)
        if index.ndim != 1 or index.dtype.kind not in "iu" or index.min(initial=0) < 0:
            raise InvalidInput(
                f"{owner}: with a precomputed kernel inducing points are positions of rows; give "
                f"whole numbers from 0 to {n - 1}."
            )
        if index.max(initial=0) >= n:
            raise InvalidInput(
                f"{owner}: inducing holds the position {index.max()}, and there are {n} rows of "
                "positive weight, counted from 0."
            )
        return index.astype(np.intp)
    try:
        U = domain.check(given, "inducing")
        if getattr(U, "dtype", None) == np.float32:
            U = U.astype(np.float64)
        d, width = (list(getattr(points, "shape", ()))[1:] for points in (problem.X, U))
        if d != width and len(d) == len(width) == 1:
            raise InvalidInput(f"inducing has {width[0]} columns, and the rows have {d[0]}")
        domain.match(problem.X, U)
    except InvalidInput as error:
        text = str(error).rstrip(".").removeprefix(f"{type(domain).__name__}: ")
        raise InvalidInput(
            f"{owner}: {text}. For inducing give points like the rows, 'pivoted' or 'optimize'."
        ) from error
    return U
