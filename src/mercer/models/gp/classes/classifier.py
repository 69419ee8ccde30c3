"""Gaussian process classification: probabilities of classes, by Laplace's method, EP or VI."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from mercer import state
from mercer.errors import InvalidInput, speaks, who
from mercer.estimator import (
    JUDGED,
    KernelEstimator,
    Sample,
    accuracy,
    check_definite,
    geometric_margin,
    prepare_labels,
)
from mercer.kernels import unproven, with_median
from mercer.memory import require_memory
from mercer.models.gp.base import (
    SEARCH,
    check_search,
    default_kernel,
    evaluations,
    mean_function,
    search_options,
    search_rng,
    set_process_params,
)
from mercer.models.gp.classes.expectations import class_probabilities
from mercer.models.gp.classes.inference import (
    METHODS,
    SCHEME,
    SMALL,
    Inference,
    LatentCovariance,
    Scheme,
    choose_scheme,
    plan_classes,
)
from mercer.models.gp.classes.laplace import LOOSE
from mercer.models.gp.parameters import Parameters
from mercer.models.gp.search import TOL, Search, maximise
from mercer.models.gp.starts import (
    BLIND,
    PROBED,
    at_parts,
    better_start,
    blind,
    mean_variance,
    spread_rows,
    warn_of_end,
)
from mercer.operators import gram_of
from mercer.settings import get_config
from mercer.solvers import Solution

if TYPE_CHECKING:
    from mercer.kernels import Kernel
    from mercer.models.gp.classes.sites import Approximation


# ---- Where a search for the kernel of a classifier begins, and what to say of where it ended ----


FAINT = 1e-3  # mean of k(x, x) at which latent values are too small to be seen in probabilities
FAINT_REMARK = "; the kernel as given is near 0, so that the search began at k(x, x) = 1 too"
WIDE = 30.0  # prior standard deviation beyond which Laplace's method says little
HEIGHTS = (1.0, 10.0)  # of k(x, x), where an end is compared with what was not tuned
EDGE = 1e-6  # distance of logarithms to a bound


def add_starts(
    parameters: Parameters, kernel: Kernel, X: Any, codes: np.ndarray, weights: Any
) -> None:
    """Add a start where the evidence has no slope at the kernel as given.

    To such a kernel all rows are alike, or each like no other, or its values are so small that all
    probabilities are the same.
    """
    other = kernel
    scaled = any("length_scale" in name for name in parameters.names)
    if scaled and blind(kernel, X, codes[:, None].astype(float)):
        other = with_median(kernel, X, weights)
        parameters.remark += BLIND
    factors = [name.rpartition("__")[2] == "value" for name in kernel.theta_names]
    mean = mean_variance(kernel, X)
    if any(factors) and 0.0 < mean < FAINT:
        other = other.with_theta(other.theta - np.where(factors, np.log(mean), 0.0))
        parameters.remark += FAINT_REMARK
    if not np.array_equal(other.theta, kernel.theta):
        parameters.also(other, None)


def doubt(theta: np.ndarray, parameters: Parameters, K: np.ndarray) -> str:
    """Return what to say of parameters with which Laplace's method is far from the posterior.

    Where a function separates the classes its evidence grows with the amplitude, since the mode
    moves away while the curvature there vanishes: probabilities are then too near the middle.
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


def class_doubts(
    part: Inference, kernel: Kernel, parameters: Parameters
) -> Callable[[np.ndarray, float], list[np.ndarray]]:
    """Return what tells, at the end of a search, of a better place to start from.

    A search may stay where lengths are far too long, as it may for regression. An end that
    explains half of what shares of the classes leave open is not asked.
    """

    def ask(theta: np.ndarray, found: float) -> list[np.ndarray]:
        if found >= 0.5 * part.log_shares():
            return []
        rows = spread_rows(part.X, part.codes[:, None].astype(float), PROBED)
        some = part.part(kernel, rows)
        factors = np.array([name.rpartition("__")[2] == "value" for name in kernel.theta_names])
        mean = mean_variance(kernel, some.X)
        known = factors.any() and mean > 0
        shifts = np.log(HEIGHTS) - np.log(mean) if known else np.zeros(1)
        probes = [
            parameters.place(near.with_theta(near.theta + shift * factors), None)
            for near in at_parts(kernel, some.X, some.weights)
            for shift in shifts
        ]
        return better_start(theta, probes, parameters, lambda k, _: some.posterior(k).log_evidence)

    return ask


# ---- classifier ----


TIE = 1e-9  # difference of probabilities that rounding may make
ROWS = 512  # of new points at a time


def _fits_words(model: Any) -> bool:
    """Whether a model holds what its words and its kernel ask for."""
    precomputed = not model.kernel_.domain.holds_points
    return (
        (model.multi_class_ == "binary") == (len(model.classes_) == 2)
        and (model.multi_class_ != "softmax" or model.link_ == "logit")
        and (model.gram_fit_ is not None) == precomputed
        and bool(np.isin(model.y_fit_, np.arange(len(model.classes_))).all())
    )


class GaussianProcessClassifier(ClassifierMixin, KernelEstimator):
    r"""Gaussian process classification: probabilities that know how little is known.

    A latent function f is a Gaussian process of covariance k, and the class of x is the second of
    two with probability p(f(x)), p the logistic function or the cumulative Gaussian. The posterior
    of f is replaced by a Gaussian, and the probability at x is the mean of p over the Gaussian
    values of f(x). Several classes have a latent function each, of the same covariance.

    The parameters of the kernel are those of largest evidence, log p(y), as the method approximates
    it. One evaluation with its gradient costs some n³ flops and two n×n matrices with Laplace's
    method and two classes, three matrices with the others, and some 3C times the flops and C + 2
    matrices with softmax of C classes.

    Parameters
    ----------
    kernel : Kernel, str, callable or None, default=None
        The prior covariance of a latent function; None is ``1.0 * RBF("median")``. Words such as
        "median" are taken from the data, and tuned from there.
    method : {"laplace", "ep", "vi"}, default="laplace"
        The approximation. "laplace": a Gaussian at the mode of the posterior, the fastest; poor
        where classes are separable or very uneven, see the notes. "ep": expectation propagation,
        the most accurate. "vi": the Gaussian of largest lower bound on the evidence, which is then
        what is maximised and reported; with softmax the largest among Gaussians that are
        independent between classes.
    link : {"logit", "probit"}, default="logit"
        The likelihood of the second class: 1/(1 + exp(−f)), or the cumulative Gaussian of f.
    optimizer : "lbfgs", callable or None, default="lbfgs"
        Whether to tune the kernel by the evidence. A function is called as by
        `GaussianProcessRegressor`.
    n_restarts : int, default=0
        Further starts of the search, drawn at random.
    multi_class : {"auto", "softmax", "one_vs_rest"}, default="auto"
        What is done with more than two classes. "softmax": one model of all of them, which
        "laplace" and "vi" have for the logit link. "one_vs_rest": one model a class with the same
        kernel, whose evidences add, and probabilities divided by their sum. "auto" is softmax
        where there is one.
    fixed : tuple of str, default=()
        Parameters to hold, such as ``("length_scale",)``: names of ``kernel.theta_names``, or
        "kernel" for all. A name without index means all its entries.
    bounds : dict of str to (low, high), optional
        Limits of parameters by such names; by default ``kernel.bounds``.
    priors : dict of str to frozen distributions of scipy.stats, optional
        Densities of parameters by such names, of their values, not of their logarithms. The
        search maximises the evidence times these.
    max_iter : int, default=100
        Steps of each descent of the search.
    tol : float, default=1e-3
        Gain of log evidence below which the search ends.
    random_state : int, RandomState, Generator or None, default=None
        For restarts; None is the same in every fit.

    Attributes
    ----------
    classes_ : array
        The classes.
    kernel_ : Kernel
        The covariance found.
    multi_class_, method_, link_ : str
        What was done; "binary" of two classes.
    dual_coef_ : array of shape (n,) or (n, n_classes)
        Coefficients of the latent mean Σ aᵢ k(xᵢ, ·).
    sites_ : array of shape (n,) or (n, n_classes)
        Precisions that the labels add to the prior; with them k gives the latent variances.
    X_fit_, y_fit_, sample_weight_ : collection, array of shape (n,), array or None
        The rows of positive weight, their class numbers and weights.
    gram_fit_ : array of shape (n, n) or None
        The training matrix, kept where it was precomputed.
    theta_, theta_names_ : array of shape (p,), list of str
        Logarithms of the parameters that may be tuned.
    log_marginal_likelihood_value_ : float
        The log evidence (with "vi" its bound), without `priors`.
    search_ : Search or None
        How the parameters were found; None without a search.
    n_iter_ : int
        Evaluations of the evidence on all rows.
    solution_ : Solution
        Certificate: the relative residual of the method's equations; of Laplace's
        ‖(I + KW)⁻¹(f − K∇log p(y | f))‖/‖f‖, how far f is from the mode as a part of it, no value
        of f taken as smaller than 0.01.
    function_ : Function
        The latent mean.
    margin_ : float
        Geometric margin: the least distance in feature space from a training point to where the
        largest latent mean is another, y(f(x) + b)/‖f‖ for two classes; negative if one is wrong.

    Notes
    -----
    Laplace's method fails where a function separates the classes, or where one class is rare. The
    mode is then far from the mean, its evidence grows with the amplitude of the kernel, the
    amplitude runs away, and the probabilities are too near the middle. ``search_.message`` says so
    where the prior standard deviation of the latent function ends beyond 30 or the amplitude at
    its bound; "ep" and "vi" do not suffer from it.

    Evidences compare kernels, not methods: that of one against the rest is a product of as many
    two-class problems, and the bound of variational softmax leaves out what the classes have in
    common, which can be 0.3 in the logarithm with five rows. Variational softmax is also slow where
    latent variances are large: its averages over several classes then take most of the time, many
    times that of the factorisations.

    A sample weight w is the likelihood of its row to the power w: the row given w times.

    Given the latent means and variances, probabilities of two classes are accurate to 1e-12, those
    of softmax to 1e-4 for three or four classes, about 1e-3 for ten and 4e-3 for thirty. With a
    precomputed kernel they need k(x, x) of new points; see `predict_proba`.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RBF, GaussianProcessClassifier
    >>> X = np.linspace(0, 6, 40)[:, None]
    >>> y = np.where(np.sin(X[:, 0]) > 0, "up", "down")
    >>> model = GaussianProcessClassifier(1.0 * RBF()).fit(X, y)
    >>> model.predict([[1.5], [4.5]]).tolist()
    ['up', 'down']
    >>> model.predict_proba([[1.5], [100.0]]).round(1)
    array([[0.1, 0.9],
           [0.5, 0.5]])
    """

    _plan = plan_classes
    _state = (
        state.SOLVED
        | {
            "intercept_": state.Array("t?"),
            "classes_": state.Labels("t?"),
            "multi_class_": state.Words("binary", "softmax", "one_vs_rest"),
            "method_": state.Words(*METHODS),
            "link_": state.Words("logit", "probit"),
            "y_fit_": state.Array("n", least=0, below="c"),
            "sample_weight_": state.Maybe(state.Array("n", above=0)),
            "sites_": state.Array("n", "t?", least=0),
            "gram_fit_": state.Maybe(state.Array("n", "n")),
            "search_": state.Maybe(state.Such(Search)),
        }
        | state.others("theta_", "theta_names_", "log_marginal_likelihood_value_", needed=True)
    )
    _rules = ((state.MISFIT, _fits_words),)

    _parameters = SEARCH | SCHEME
    classes_: np.ndarray
    _covariance_cache: LatentCovariance | None = None

    search_: Any
    set_params = set_process_params
    n_iter_ = property(evaluations)
    function_ = property(mean_function)
    score = accuracy

    def __init__(
        self,
        kernel: Any = None,
        method: str = "laplace",
        link: Any = "logit",
        optimizer: Any = "lbfgs",
        *,
        n_restarts: int = 0,
        multi_class: str = "auto",
        fixed: Any = (),
        bounds: Any = None,
        priors: Any = None,
        max_iter: int = 100,
        tol: float = TOL,
        random_state: Any = None,
    ):
        self.kernel = kernel
        self.method = method
        self.link = link
        self.optimizer = optimizer
        self.n_restarts = n_restarts
        self.multi_class = multi_class
        self.fixed = fixed
        self.bounds = bounds
        self.priors = priors
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    @speaks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : collection of n points
            Vectors, frames, or what the kernel accepts; the Gram matrix when precomputed.
        y : array of shape (n,)
            Class labels.
        sample_weight : float or array of shape (n,), optional
            Weights; a weight of 2 is the row given twice, 0 the row left out, and a class of such
            rows only is not in ``classes_``.

        Returns
        -------
        GaussianProcessClassifier
            The fitted model itself.
        """
        with self._all_or_nothing(X):
            self._fit(X, y, sample_weight)
        return self

    def _kernel(self) -> Kernel:
        return default_kernel() if self.kernel is None else super()._kernel()

    def _require_fit(self) -> None:
        # scikit-learn takes a model that answers before fit for fitted, unless an attribute is
        # asked for by name.
        check_is_fitted(self, "dual_coef_")

    # -- fit ----------------------------------------------------------------------------------
    @speaks
    def _fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        tuned = check_search(self)
        data = prepare_labels(self, X, y, sample_weight, None)
        kernel, X = data.kernel, data.X
        kernel.domain.check_training(X)
        kept = kernel.domain.keep(X)
        kept = kept if data.kept is None else kernel.domain.renumber(kept, data.kept)
        n_classes = len(np.unique(data.y))
        scheme = choose_scheme(self.method, self.link, self.multi_class, n_classes)
        parts = tuned and len(data.y) > SMALL
        whole = Inference(X, data.y, n_classes, data.weights, scheme, parts)
        whole.require_memory()
        if unproven(kernel) and len(data.y) <= JUDGED:
            check_definite(kernel, whole.dense(gram_of(kernel, X)))
        parameters = self._searched(kernel, tuned)
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
        self.gram_fit_ = None if kernel.domain.holds_points else X.copy()
        self.dual_coef_, self.sites_ = found.coef.copy(), found.sites.copy()
        self.intercept_ = np.zeros(found.coef.shape[1]) if found.coef.ndim == 2 else 0.0
        self.log_marginal_likelihood_value_ = found.log_evidence
        self.search_ = search
        free = self._searched(kernel, False)
        self.theta_, self.theta_names_ = free.theta, free.names
        self.solution_ = _certificate(found, self.dual_coef_, search)
        K = found.K
        whole.release()
        del found  # the memory of its factors
        self._covariance_cache = LatentCovariance(K, self.sites_, scheme.coupled)
        self.solution_.unwrap()
        if search is not None:
            warn_of_end(parameters, search.theta, X)

    @speaks
    def _searched(self, kernel: Any, tuned: bool) -> Parameters:
        return Parameters(
            kernel,
            None,
            fixed=self.fixed,
            bounds=self.bounds if tuned else None,
            priors=self.priors if tuned else None,
        )

    def _search(self, data: Sample, whole: Inference, parameters: Parameters) -> Search:
        """Search on a part of the rows, on twice as many from what was found there, and so on."""
        sizes = [len(data.y)]
        while sizes[0] > SMALL and not callable(self.optimizer):
            sizes.insert(0, sizes[0] // 2)
        starts, small, spent, options = parameters, None, 0, search_options(self)
        for size in sizes:
            large = self._part(data, whole, size)
            found = maximise(
                _objective(large, parameters),
                starts,
                coarse=None if small is None else _objective(small, parameters),
                ratio=None if small is None else size / len(small.codes),
                rng=search_rng(self),
                doubt=class_doubts(large, data.kernel, parameters) if small is None else None,
                **options
                | ({} if small is None else {"n_restarts": 0})
                | ({} if large is whole else {"tol": 10 * self.tol}),
            )
            spent += found.n_coarse + (0 if large is whole else found.n_evaluations)
            if small is not None:
                small.release()
            starts, small = copy(parameters), large
            starts.theta = found.theta
        return replace(found, n_coarse=spent)

    def _part(self, data: Sample, whole: Inference, size: int) -> Inference:
        """Return the evidence of so many of the rows, drawn so that each class has its share."""
        n = len(data.y)
        if size == n:
            return whole
        order = np.random.default_rng(0).permutation(n)
        order = order[np.argsort(data.y[order], kind="stable")]
        return whole.part(data.kernel, np.sort(order[np.arange(size) * n // size]))

    # -- what was fitted, again ---------------------------------------------------------------
    @speaks
    def _scheme(self) -> Scheme:
        n_classes = len(self.classes_)
        kind = "auto" if self.multi_class_ == "binary" else self.multi_class_
        return choose_scheme(self.method_, self.link_, kind, n_classes)

    def _inference(self) -> Inference:
        """Return the evidence that was maximised."""
        X = self.X_fit_ if self.gram_fit_ is None else self.gram_fit_
        return Inference(X, self.y_fit_, len(self.classes_), self.sample_weight_, self._scheme())

    # -- latent values at new points ----------------------------------------------------------
    def _new_points(self, X: Any) -> Any:
        self._require_fit()
        return self._check_X(X, self.kernel_, reset=False)

    def _latent_mean(self, X: Any) -> np.ndarray:
        points = self.kernel_.domain.match(X, self.X_fit_)
        return self._finite(gram_of(self.kernel_, *points) @ self.dual_coef_)

    def _latent_covariance(self, X: Any, diag: Any) -> np.ndarray:
        kernel = self.kernel_
        m = kernel.domain.size(X)
        prior = self._prior_variance(X, diag, m)
        X, points = kernel.domain.match(X, self.X_fit_)
        n, C = len(self.y_fit_), 1 if self.sites_.ndim == 1 else self.sites_.shape[1]
        if self._covariance_cache is None:
            self._covariance_cache = self._covariance_again()
        out = np.empty(m) if self.sites_.ndim == 1 else np.empty((m, C, C))
        free = get_config().memory - self._covariance_cache.nbytes
        step = int(np.clip(free // (2 * 8 * n * (C + 4)), 1, ROWS))
        for start in range(0, m, step):
            rows = np.arange(start, min(start + step, m))
            some = kernel.domain.take(X, rows)
            Kx = np.asarray(gram_of(kernel, some, points).to_dense(), float)
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
        X = self.X_fit_ if self.gram_fit_ is None else self.gram_fit_
        K = np.ascontiguousarray(gram_of(self.kernel_, X).to_dense(), dtype=float)
        return LatentCovariance(K, self.sites_, scheme.coupled)

    def _prior_variance(self, X: Any, diag: Any, m: int) -> np.ndarray:
        """Return k(x, x) of new points; of a precomputed kernel as given, or as it must be."""
        owner = f"{type(self).__name__}.predict_proba"
        if self.gram_fit_ is None:
            if diag is not None:
                raise InvalidInput(
                    f"{owner}: diag is for a precomputed kernel only, as {self.kernel_} knows "
                    "k(x, x); leave it out."
                )
            return np.asarray(self._finite(np.array(self.kernel_.diag(X), dtype=float)))
        if diag is not None:
            try:
                prior = np.asarray(diag, dtype=float)
            except (OverflowError, TypeError, ValueError):
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
        own = gram_of(self.kernel_, self.gram_fit_).diagonal()
        with np.errstate(over="ignore"):
            cross = np.square(gram_of(self.kernel_, X, self.X_fit_).to_dense())
            least = np.divide(cross, own, out=np.zeros_like(cross), where=own > 0)
        self._finite(least)
        return np.maximum(np.average(own, weights=self.sample_weight_), least.max(axis=1))

    @property
    def margin_(self) -> float:
        """Geometric margin: the least distance from a training point to where the class changes.

        In feature space, y(f(x) + b)/‖f‖ for two classes; negative if a point is on the wrong side.
        """
        check_is_fitted(self)
        return geometric_margin(self, self.y_fit_)

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the latent mean: positive for the second class; one column a class for more.

        Parameters
        ----------
        X : collection of m points
            New points; when precomputed, their kernel values with the training points.

        Returns
        -------
        array of shape (m,) or (m, n_classes)
            Of `n_classes` > 2 not always largest for the most probable class.
        """
        return self._latent_mean(self._new_points(X))

    @speaks
    def latent_mean_and_variance(self, X: Any, *, diag: Any = None) -> tuple[Any, Any]:
        """Return mean and variance of the latent values at new points.

        Parameters
        ----------
        X : collection of m points
            New points.
        diag : array of shape (m,), optional
            k(x, x) of the new points, only where the kernel is precomputed; see `predict_proba`.

        Returns
        -------
        mean : array of shape (m,) or (m, n_classes)
            As of `decision_function`.
        variance : array of the same shape
            The variances.
        """
        mean, cov = self.latent_mean_and_covariance(X, diag=diag)
        return mean, cov if cov.ndim == 1 else np.einsum("icc->ic", cov).copy()

    @speaks
    def latent_mean_and_covariance(self, X: Any, *, diag: Any = None) -> tuple[Any, Any]:
        """Return mean of the latent values at new points and their covariance between classes.

        Parameters
        ----------
        X : collection of m points
            New points.
        diag : array of shape (m,), optional
            k(x, x) of the new points, only where the kernel is precomputed; see `predict_proba`.

        Returns
        -------
        mean : array of shape (m,) or (m, n_classes)
            As of `decision_function`.
        covariance : array of shape (m,) or (m, n_classes, n_classes)
            Of two classes the variance.
        """
        X = self._new_points(X)
        return self._latent_mean(X), self._latent_covariance(X, diag)

    @speaks
    def predict_proba(self, X: Any, *, diag: Any = None) -> np.ndarray:
        """Return the probabilities of the classes, shape (m, n_classes).

        Parameters
        ----------
        X : collection of m points
            New points; when precomputed, their kernel values with the training points.
        diag : array of shape (m,), optional
            k(x, x) of the new points, only where the kernel is precomputed. Without it they are
            taken to be as large as those of the training points on average, or as large as their
            kernel values ask for, k(x, xᵢ)²/k(xᵢ, xᵢ) ≤ k(x, x). That is right for a kernel with
            one value of k(x, x), such as RBF.
        """
        mean, cov = self.latent_mean_and_covariance(X, diag=diag)
        scheme = self._scheme()
        return class_probabilities(mean, cov, scheme.link, scheme.kind)

    def predict_log_proba(self, X: Any, *, diag: Any = None) -> np.ndarray:
        """Return the logarithms of the probabilities of the classes, shape (m, n_classes).

        Parameters
        ----------
        X : collection of m points
            New points.
        diag : array of shape (m,), optional
            As of `predict_proba`.
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X, diag=diag))

    def predict(self, X: Any, *, diag: Any = None) -> np.ndarray:
        """Return the most probable class of each row of X, the first of those that tie.

        Parameters
        ----------
        X : collection of m points
            New points.
        diag : array of shape (m,), optional
            As of `predict_proba`; two classes do not need it.
        """
        mean = self._latent_mean(self._new_points(X))
        if mean.ndim == 1:  # both links are ½ at 0 and symmetric: the variance decides nothing
            return self.classes_[(mean > 0).astype(int)]
        shares = self.predict_proba(X, diag=diag)
        # Far from the data classes are equally probable up to rounding: then the first.
        best = shares >= shares.max(axis=1, keepdims=True) - TIE
        return self.classes_[best.argmax(axis=1)]

    @speaks
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
        parameters = self._searched(self.kernel_, False)
        kernel, _ = parameters.read(parameters.theta if theta is None else theta)
        inference = self._inference()
        if not eval_gradient:
            answer: Any = inference.posterior(kernel).log_evidence
        else:
            value, slope = inference.value_and_gradient(kernel)
            answer = value, parameters.pull(slope)
        failure = inference.failure
        return Solution(value=answer, converged=not failure, message=failure).unwrap()

    # -- copies and files ---------------------------------------------------------------------
    def __getstate__(self) -> dict:
        state = dict(super().__getstate__())
        state.pop("_covariance_cache", None)  # n² numbers that are quickly made again
        return state


def _objective(inference: Inference, parameters: Parameters) -> Any:
    """Return the evidence and its gradient as functions of the free log-parameters."""

    def call(theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = inference.value_and_gradient(parameters.read(theta)[0], LOOSE)
        return value, parameters.pull(slope)

    return call


def _certificate(found: Approximation, value: np.ndarray, search: Any) -> Solution:
    """Say what the method says of its equations, and the search of itself."""
    message = "" if found.converged else f"{who()}: {found.message}"
    if not message and search is not None and not search.converged:
        message = f"{who()}: the search for parameters {search.message}."
    plain = {k: v for k, v in found.extra.items() if isinstance(v, int | float | str | bool)}
    return Solution(
        value=value,
        converged=not message,
        n_iter=found.n_iter,
        residual=found.residual,
        message=message,
        extra=plain,
    )
