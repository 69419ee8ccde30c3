"""The fit of Gaussian process classification: from labels to parameters, sites, certificate."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.domains import GramRows
from mercer.engines import pick, require_memory
from mercer.errors import InvalidInput, ModelFileError
from mercer.estimator import (
    JUDGED,
    KernelEstimator,
    MarginData,
    check_definite,
    prepare_labels,
    unproven,
)
from mercer.models.gp.base import GaussianProcess
from mercer.models.gp.classes.inference import METHODS, Inference, Scheme, choose_scheme
from mercer.models.gp.classes.integration import LatentCovariance
from mercer.models.gp.classes.laplace import LOOSE
from mercer.models.gp.parameters import Parameters
from mercer.models.gp.regression import Problem
from mercer.models.gp.search import BLIND, Search, blind, maximise, with_median
from mercer.settings import get_config
from mercer.solvers import Solution

if TYPE_CHECKING:
    from mercer.kernels import Kernel
    from mercer.models.gp.classes.sites import Approximation

# ---- Where a search for the kernel of a classifier begins, and what to say of where it ended ----


FAINT = 1e-3  # mean of k(x, x) at which latent values are too small to be seen in probabilities
FAINT_REMARK = "; the kernel as given is near 0, so that the search began at k(x, x) = 1 too"
WIDE = 30.0  # prior standard deviation beyond which Laplace's method says little
EDGE = 1e-6  # distance of logarithms to a bound


def add_starts(
    parameters: Parameters, kernel: Kernel, X: Any, codes: np.ndarray, weights: Any
) -> None:
    """Add a start where the evidence has no slope at the kernel as given.

    To such a kernel all rows are alike, or each like no other, or its values are so small that all
    probabilities are the same.

    Parameters
    ----------
    parameters : Parameters
        What is to be tuned.
    kernel : Kernel
        As given, its words resolved.
    X : canonical collection
        The rows.
    codes : ndarray of shape (n,)
        Class numbers.
    weights : ndarray of shape (n,) or None
        Theirs.
    """
    other = kernel
    rows: Any = SimpleNamespace(kernel=kernel, X=X, Y=codes[:, None].astype(float))
    rows.key = lambda: Problem.key(rows)
    if any("length_scale" in name for name in parameters.names) and blind(rows):
        other = with_median(kernel, X, weights)
        parameters.remark += BLIND
    factors = [name.rpartition("__")[2] == "value" for name in kernel.theta_names]
    mean = _mean_variance(kernel, X)
    if any(factors) and 0.0 < mean < FAINT:
        other = other.with_theta(other.theta - np.where(factors, np.log(mean), 0.0))
        parameters.remark += FAINT_REMARK
    if not np.array_equal(other.theta, kernel.theta):
        parameters.also(other, None)


def doubt(theta: np.ndarray, parameters: Parameters, K: np.ndarray) -> str:
    """Return what to say of parameters with which Laplace's method is far from the posterior.

    Where a function separates the classes its evidence grows with the amplitude, since the mode
    moves away while the curvature there vanishes: probabilities are then too near the middle.

    Parameters
    ----------
    theta : ndarray of shape (p,)
        The parameters found.
    parameters : Parameters
        What they are.
    K : ndarray of shape (n, n)
        The Gram matrix there.
    """
    at_end = [
        name.rpartition("__")[2] == "value" and high - value < EDGE
        for name, value, high in zip(parameters.names, theta, parameters.bounds[:, 1], strict=True)
    ]
    deviation = float(np.sqrt(max(np.diagonal(K).mean(), 0.0)))
    if not any(at_end) and deviation <= WIDE:
        return ""
    return (
        f"; the prior standard deviation of latent values is {deviation:.3g}, where Laplace's "
        "probabilities are too near the middle, as with classes that are separable or very uneven: "
        "compare method='ep' or 'vi'"
    )


def _mean_variance(kernel: Kernel, X: Any) -> float:
    with np.errstate(all="ignore"):
        d = np.asarray(pick(X).to_numpy(pick(X).diag(kernel, X)), dtype=float)
    return float(d.mean()) if np.isfinite(d).all() else 1.0


# ---- classifier fit ----


ROWS = 512  # of new points at a time
SMALL = 600  # rows up to which a part of them is not asked first


class ClassifierFit(GaussianProcess):
    """The part of a classifier that fits, keeps what the fit found, and gives latent values."""

    _learned = (
        *KernelEstimator._learned,
        "classes_",
        "multi_class_",
        "method_",
        "link_",
        "y_fit_",
        "sample_weight_",
        "sites_",
        "gram_fit_",
        "theta_",
        "theta_names_",
        "log_marginal_likelihood_value_",
        "search_",
    )

    classes_: np.ndarray
    method: Any
    link: Any
    multi_class: Any
    fixed: Any
    bounds: Any
    priors: Any
    _covariance_cache: LatentCovariance | None = None

    # -- fit ----------------------------------------------------------------------------------
    def _fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        owner = type(self).__name__
        tuned = self._check_search()
        choose_scheme(self.method, self.link, self.multi_class, 2, owner)
        data = prepare_labels(self, X, y, sample_weight, None)
        kernel, X = data.kernel, data.X
        kept = kernel.domain.keep(X)
        if isinstance(kernel.domain, GramRows):
            X = kernel._checked(X, None)[0]
            kept = kept if data.kept is None else data.kept
        n_classes = len(np.unique(data.y))
        scheme = choose_scheme(self.method, self.link, self.multi_class, n_classes, owner)
        parts = tuned and len(data.y) > SMALL
        whole = Inference(X, data.y, n_classes, data.weights, scheme, owner, parts)
        whole.require_memory()
        if unproven(kernel) and len(data.y) <= JUDGED:
            check_definite(kernel, whole.gram(kernel), owner)
        parameters = self._parameters(kernel, tuned)
        search = None
        if tuned and len(parameters.theta):
            add_starts(parameters, kernel, X, data.y, data.weights)
            search = self._search(data, whole, parameters)
            kernel = parameters.read(search.theta)[0]
        found = whole.posterior(kernel)
        if search is not None and scheme.method == "laplace":
            remark = doubt(search.theta, parameters, found.K)
            search = replace(search, message=search.message + remark)
        self.kernel_, self.X_fit_, self.classes_ = kernel, kept, np.asarray(data.classes)
        self.multi_class_, self.method_, self.link_ = scheme.kind, scheme.method, scheme.link.name
        self.y_fit_ = data.y.copy()
        plain = bool((data.weights == 1).all())
        self.sample_weight_ = None if plain else data.weights.copy()
        self.gram_fit_ = X.copy() if isinstance(kernel.domain, GramRows) else None
        self.dual_coef_, self.sites_ = found.coef.copy(), found.sites.copy()
        self.intercept_ = np.zeros(found.coef.shape[1]) if found.coef.ndim == 2 else 0.0
        self.log_marginal_likelihood_value_ = found.log_evidence
        self.search_ = search
        free = self._parameters(kernel, False)
        self.theta_, self.theta_names_ = free.theta, free.names
        self.solution_ = _certificate(found, self.dual_coef_, search, owner)
        K = found.K
        whole.release()
        del found  # the memory of its factors
        self._covariance_cache = LatentCovariance(K, self.sites_, scheme.coupled)
        self.solution_.unwrap()

    def _parameters(self, kernel: Any, tuned: bool) -> Parameters:
        return Parameters(
            kernel,
            None,
            fixed=self.fixed,
            bounds=self.bounds if tuned else None,
            priors=self.priors if tuned else None,
            owner=type(self).__name__,
        )

    def _search(self, data: MarginData, whole: Inference, parameters: Parameters) -> Search:
        """Search on a part of the rows, on twice as many from what was found there, and so on."""
        sizes = [len(data.y)]
        while sizes[0] > SMALL:
            sizes.insert(0, sizes[0] // 2)
        starts, small, spent = parameters, None, 0
        for size in sizes:
            large = self._part(data, whole, size)
            found = maximise(
                _objective(large, parameters),
                starts,
                coarse=None if small is None else _objective(small, parameters),
                ratio=None if small is None else size / len(small.codes),
                n_restarts=self.n_restarts if small is None else 0,
                max_iter=self.max_iter,
                tol=self.tol if large is whole else 10 * self.tol,
                rng=self._search_rng(),
            )
            spent += found.n_coarse + (0 if large is whole else found.n_evaluations)
            if small is not None:
                small.release()
            starts, small = copy(parameters), large
            starts.theta = found.theta
        return replace(found, n_coarse=spent)

    def _part(self, data: MarginData, whole: Inference, size: int) -> Inference:
        """Return the evidence of so many of the rows, drawn so that each class has its share."""
        n = len(data.y)
        if size == n:
            return whole
        order = np.random.default_rng(0).permutation(n)
        order = order[np.argsort(data.y[order], kind="stable")]
        return whole.part(data.kernel, np.sort(order[np.arange(size) * n // size]))

    # -- what was fitted, again ---------------------------------------------------------------
    def _scheme(self) -> Scheme:
        n_classes, owner = len(self.classes_), type(self).__name__
        kind = "auto" if self.multi_class_ == "binary" else self.multi_class_
        return choose_scheme(self.method_, self.link_, kind, n_classes, owner)

    def _inference(self) -> Inference:
        """Return the evidence that was maximised."""
        X = self.X_fit_ if self.gram_fit_ is None else self.gram_fit_
        return Inference(
            X,
            self.y_fit_,
            len(self.classes_),
            self.sample_weight_,
            self._scheme(),
            type(self).__name__,
        )

    def log_marginal_likelihood(self, theta: Any = None, eval_gradient: bool = False) -> Any:
        """Return the log evidence of the training labels, and its gradient where asked for.

        As the method approximates it, without the densities of `priors`.

        Parameters
        ----------
        theta : array of shape (p,), optional
            Logarithms of the parameters ``theta_names_``; those found when not given.
        eval_gradient : bool, default=False
            Whether to return the gradient in theta too.

        Returns
        -------
        value : float
            The log evidence.
        gradient : array of shape (p,)
            With `eval_gradient`.

        Warns
        -----
        NotConverged
            When the method does not converge with these parameters.
        """
        self._require_fit()
        if theta is None and not eval_gradient:
            return self.log_marginal_likelihood_value_
        parameters = self._parameters(self.kernel_, False)
        kernel, _ = parameters.read(parameters.theta if theta is None else theta)
        inference = self._inference()
        if not eval_gradient:
            answer: Any = inference.posterior(kernel).log_evidence
        else:
            value, slope = inference.value_and_gradient(kernel)
            answer = value, parameters.pull(slope)
        failure = inference.failure
        return Solution(value=answer, converged=not failure, message=failure).unwrap()

    # -- latent values at new points ----------------------------------------------------------
    def _new_points(self, X: Any) -> Any:
        self._require_fit()
        return self._check_X(X, self.kernel_, reset=False)

    def _latent_mean(self, X: Any) -> np.ndarray:
        X, points = self.kernel_._checked(X, self.X_fit_)
        engine = pick(X)
        return self._finite(
            engine.to_numpy(engine.matmul(self.kernel_, X, points, self.dual_coef_))
        )

    def _latent_covariance(self, X: Any, diag: Any) -> np.ndarray:
        kernel = self.kernel_
        m = kernel.domain.size(X)
        prior = self._prior_variance(X, diag, m)
        X, points = kernel._checked(X, self.X_fit_)
        n, C = len(self.y_fit_), 1 if self.sites_.ndim == 1 else self.sites_.shape[1]
        if self._covariance_cache is None:
            self._covariance_cache = self._covariance_again()
        out = np.empty(m) if self.sites_.ndim == 1 else np.empty((m, C, C))
        free = get_config().memory - self._covariance_cache.nbytes
        step = int(np.clip(free // (2 * 8 * n * (C + 4)), 1, ROWS))
        for start in range(0, m, step):
            rows = np.arange(start, min(start + step, m))
            some = kernel.domain.take(X, rows)
            Kx = np.asarray(pick(some).to_numpy(pick(some).gram(kernel, some, points)), float)
            out[rows] = self._covariance_cache.at(np.asfortranarray(Kx.T), prior[rows])
        return out

    def _covariance_again(self) -> LatentCovariance:
        """Return what a copy or a file does not hold: a factor a class, from K."""
        scheme, n = self._scheme(), len(self.y_fit_)
        matrices = scheme.matrices(len(self.classes_))
        require_memory(
            8 * n * n * matrices,
            f"{type(self).__name__}: {matrices} matrices of {n} × {n} numbers for variances",
            "Fit fewer rows",
        )
        if self.gram_fit_ is not None:
            K = self.gram_fit_
        else:
            K = pick(self.X_fit_).gram(self.kernel_, self.X_fit_, None)
            K = np.ascontiguousarray(pick(self.X_fit_).to_numpy(K), dtype=float)
        return LatentCovariance(K, self.sites_, scheme.coupled)

    def _prior_variance(self, X: Any, diag: Any, m: int) -> np.ndarray:
        """Return k(x, x) of new points; of a precomputed kernel as given, or as it must be."""
        owner = f"{type(self).__name__}.predict_proba"
        if self.gram_fit_ is None:
            if diag is not None:
                raise InvalidInput(
                    f"{owner}: diag is for a precomputed kernel only, as {self.kernel_!r} knows "
                    "k(x, x); leave it out."
                )
            return np.asarray(self._finite(np.array(self.kernel_.diag(X), dtype=float)))
        if diag is not None:
            try:
                prior = np.asarray(diag, dtype=float)
            except (TypeError, ValueError):
                prior = np.full(m, np.nan)
            if prior.shape != (m,):
                raise InvalidInput(
                    f"{owner}: diag must hold k(x, x) of each of the {m} new points, got shape "
                    f"{np.shape(diag)}."
                )
            wrong = ~(np.isfinite(prior) & (prior >= 0))
            if wrong.any():
                i = int(wrong.argmax())
                what = f"diag[{i}] = {prior[i]:g}" if np.ndim(diag) else f"diag = {diag!r}"
                raise InvalidInput(f"{owner}: {what}; k(x, x) is a finite number ≥ 0.")
            return prior
        own = np.diagonal(self.gram_fit_)
        cross = np.square(X[:, self.X_fit_])
        least = np.divide(cross, own, out=np.zeros_like(cross), where=own > 0)
        return np.maximum(np.average(own, weights=self.sample_weight_), least.max(axis=1))

    # -- copies and files ---------------------------------------------------------------------
    def __getstate__(self) -> dict:
        state = dict(super().__getstate__())
        state.pop("_covariance_cache", None)  # n² numbers that are quickly made again
        return state

    def _check_state(self) -> None:
        """Refuse a state read from a file whose parts do not belong together."""
        held = {name: value for name, value in vars(self).items() if name in self._learned}
        if not held:
            return
        owner = type(self).__name__
        missing = sorted(set(self._learned) - {"feature_names_in_", "n_features_in_"} - set(held))
        if missing:
            raise ModelFileError(f"a {owner} without {', '.join(missing)}")
        n, *columns = np.shape(self.dual_coef_)
        C, weights, gram = len(self.classes_), self.sample_weight_, self.gram_fit_
        precomputed = isinstance(self.kernel_.domain, GramRows)
        fits = (
            columns == ([] if C == 2 else [C])
            and (self.multi_class_ == "binary") == (C == 2)
            and self.multi_class_ in ("binary", "softmax", "one_vs_rest")
            and self.method_ in METHODS
            and self.link_ in ("logit", "probit")
            and (self.multi_class_ != "softmax" or self.link_ == "logit")
            and np.shape(self.sites_) == (n, *columns)
            and np.shape(self.y_fit_) == (n,)
            and np.isin(self.y_fit_, np.arange(C)).all()
            and list(np.shape(self.intercept_)) == columns
            and (weights is None or (np.shape(weights) == (n,) and np.all(weights > 0)))
            and (gram is not None) == precomputed
            and (gram is None or np.shape(gram) == (n, n))
            and np.isfinite(self.dual_coef_).all()
            and np.all(self.sites_ >= 0)
            and (self.search_ is None or isinstance(self.search_, Search))
        )
        if not fits:
            raise ModelFileError(f"the arrays of a {owner} do not fit one another")


def _objective(inference: Inference, parameters: Parameters) -> Any:
    """Return the evidence and its gradient as functions of the free log-parameters."""

    def call(theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = inference.value_and_gradient(parameters.read(theta)[0], LOOSE)
        return value, parameters.pull(slope)

    return call


def _certificate(found: Approximation, value: np.ndarray, search: Any, owner: str) -> Solution:
    """Say what the method says of its equations, and the search of itself."""
    message = "" if found.converged else f"{owner}: {found.message}"
    if not message and search is not None and not search.converged:
        message = f"{owner}: the search for parameters {search.message}."
    plain = {k: v for k, v in found.extra.items() if isinstance(v, int | float | str | bool)}
    return Solution(
        value=value,
        converged=not message,
        n_iter=found.n_iter,
        residual=found.residual,
        message=message,
        extra=plain,
    )
