"""The evidence of classes as a function of the kernel, by any method of inference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import xlogy

from mercer import checks
from mercer.errors import InvalidInput, NotPositiveDefinite, who
from mercer.estimator import Plan, study_of
from mercer.memory import require_memory
from mercer.models.gp.base import expected_evaluations
from mercer.models.gp.classes.laplace import TIGHT, SoftmaxFactor
from mercer.models.gp.classes.sites import Approximation, Link, SiteFactor, as_link
from mercer.operators import Gram, gram_of
from mercer.solvers import Cost, gram_seconds
from mercer.threads import blas_for

if TYPE_CHECKING:
    from mercer.kernels import Kernel

# ---- Several classes as two-class problems, each class against the rest, with one shared kernel.


class OneVsRestApproximation(Approximation):
    """One two-class approximation a class; evidences add, since the kernel is the same."""

    def __init__(self, K: np.ndarray, parts: list[Approximation]):
        super().__init__(
            K,
            log_evidence=sum(part.log_evidence for part in parts),
            mean=np.stack([part.mean for part in parts], axis=1),
            coef=np.stack([part.coef for part in parts], axis=1),
            converged=all(part.converged for part in parts),
            n_iter=max(part.n_iter for part in parts),
            residual=max(part.residual for part in parts),
            message=next((part.message for part in parts if not part.converged), ""),
            start=[part.start for part in parts],
        )
        self.parts = parts

    @property
    def sites(self) -> np.ndarray:
        """Site precisions of the classes, shape (n, C)."""
        return np.stack([part.sites for part in self.parts], axis=1)

    def cotangent(self) -> np.ndarray:
        """Return the sum of the classes' d log Z/dK."""
        total = self.parts[0].cotangent()
        for part in self.parts[1:]:
            total += part.cotangent()
        return total

    def variance(self, Kx: np.ndarray, diag: np.ndarray) -> np.ndarray:
        """Return the latent variances of the classes, shape (m, C)."""
        return np.stack([part.variance(Kx, diag) for part in self.parts], axis=1)


def one_vs_rest(
    K: np.ndarray,
    onehot: np.ndarray,
    weights: np.ndarray | None,
    infer: Callable[..., Approximation],
    link: Any,
    start: list | None = None,
) -> OneVsRestApproximation:
    """Approximate each class against the rest.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        The Gram matrix.
    onehot : ndarray of shape (n, C)
        1 in the column of the row's class, 0 elsewhere.
    weights : ndarray of shape (n,) or None
        Powers of the likelihoods.
    infer : callable
        A method for two classes, ``infer(K, t, weights, link, start)``.
    link : {"logit", "probit"} or Link
        The link.
    start : list, optional
        ``start`` of an earlier answer.
    """
    C = onehot.shape[1]
    starts = start if start is not None and len(start) == C else [None] * C
    signs = 2.0 * onehot - 1.0
    return OneVsRestApproximation(
        K,
        [
            infer(K, np.ascontiguousarray(signs[:, c]), weights, link, begin)
            for c, begin in enumerate(starts)
        ],
    )


# ---- inference ----


METHODS = ("laplace", "ep", "vi")
EXTRA = {"laplace": 0, "ep": 1, "vi": 1}  # matrices beside K and the factors
PARTS = 1.25  # with what half of the rows need beside all of them
LARGEST = 1e30  # k(x, x) beyond which no method keeps a digit
LITTLE = 2**16  # bytes
SMALL = 600  # rows up to which a part of them is not asked first
STEPS = 6  # of Newton's method, as a rule
INDEFINITE = 1e-7  # part of the largest k(x, x) below 0 that may be rounding of float32
HEAVIEST = 1e20  # the same of weights times k(x, x)
SOFTMAX = ("laplace", "vi")  # methods that know the softmax likelihood


class Scheme:
    """A method, a link, and what becomes of more than two classes.

    Parameters
    ----------
    method : {"laplace", "ep", "vi"}
        How the posterior is approximated.
    link : Link
        The likelihood.
    kind : {"binary", "softmax", "one_vs_rest"}
        One latent function, one a class joined by softmax, or one a class against the rest.
    """

    def __init__(self, method: str, link: Link, kind: str):
        self.method, self.link, self.kind = method, link, kind

    @property
    def coupled(self) -> bool:
        """Whether the latent functions of the classes depend on one another."""
        return self.kind == "softmax" and self.method == "laplace"

    def matrices(self, n_classes: int) -> int:
        """Return how many n×n arrays an evaluation needs, K among them.

        A factor a class, one more of Laplace's softmax, whose classes depend on one another, and
        what the method works in.
        """
        factors = 1 if self.kind == "binary" else n_classes + self.coupled
        return 1 + factors + EXTRA[self.method]

    def infer(
        self,
        K: np.ndarray,
        codes: np.ndarray,
        n_classes: int,
        weights: Any,
        start: Any,
        tol: float = TIGHT,
    ) -> Approximation:
        """Return the approximate posterior for class numbers 0, 1, …; `tol` is that of modes."""
        if self.kind == "binary":
            return self._two(tol)(K, 2.0 * codes - 1.0, weights, self.link, start)
        onehot = np.equal.outer(codes, np.arange(n_classes)).astype(float)
        if self.kind == "one_vs_rest":
            return one_vs_rest(K, onehot, weights, self._two(tol), self.link, start)
        if self.method == "laplace":
            from mercer.models.gp.classes.laplace import laplace_softmax

            return laplace_softmax(K, onehot, weights, start, tol=tol)
        from mercer.models.gp.classes.variational import vi_softmax

        return vi_softmax(K, onehot, weights, start)

    def _two(self, tol: float) -> Callable[..., Approximation]:
        if self.method == "laplace":
            from mercer.models.gp.classes.laplace import laplace

            return partial(laplace, tol=tol)
        if self.method == "ep":
            from mercer.models.gp.classes.ep import ep

            return ep
        from mercer.models.gp.classes.variational import vi

        return vi


def _named_link(link: Any) -> Link:
    if isinstance(link, Link):  # parameters are what a model file can hold
        raise InvalidInput(f"{who()}: link={link!r}; give its name, {link.name!r}.")
    return as_link(link)


#: What the parameters of a scheme may be.
SCHEME: checks.Constraints = {
    "method": checks.Word(*METHODS),
    "link": checks.Read(_named_link),
    "multi_class": checks.Word("auto", "softmax", "one_vs_rest"),
}


def choose_scheme(method: Any, link: Any, multi_class: Any, n_classes: int) -> Scheme:
    """Return how to infer, or say which combinations there are."""
    chosen = as_link(link)
    able = method in SOFTMAX and chosen.name == "logit"
    if multi_class == "softmax" and not able and n_classes > 2:
        what = f"method={method!r}" if method not in SOFTMAX else f"link={chosen.name!r}"
        cure = "method='laplace' or 'vi'" if method not in SOFTMAX else "link='logit'"
        raise InvalidInput(
            f"{who()}: multi_class='softmax' with {what} and {n_classes} classes; give "
            f"multi_class='one_vs_rest', or {cure}."
        )
    if n_classes == 2:
        return Scheme(method, chosen, "binary")
    if multi_class == "auto":
        multi_class = "softmax" if able else "one_vs_rest"
    return Scheme(method, chosen, multi_class)


class Inference:
    """Labels at given rows: evidence, gradient and posterior for any kernel.

    Each evaluation starts from the posterior of the one before, in its memory: it is not for
    several threads at once.

    X : canonical collection
        The rows.
    codes : ndarray of shape (n,)
        Class numbers.
    n_classes : int
        How many classes there are.
    weights : ndarray of shape (n,) or None
        Powers of the likelihoods.
    scheme : Scheme
        How to infer.
    parts : bool, default=False
        Whether half of the rows are to have matrices beside those of all of them.
    """

    def __init__(
        self,
        X: Any,
        codes: np.ndarray,
        n_classes: int,
        weights: Any,
        scheme: Scheme,
        parts: bool = False,
    ):
        self.X, self.codes, self.n_classes = X, codes, n_classes
        self.weights, self.scheme = weights, scheme
        matrices = scheme.matrices(n_classes) * (PARTS if parts else 1.0)
        self._held = int(8 * len(codes) ** 2 * matrices)  # bytes of all matrices
        self.failure = ""  # what the last evaluation says where it has not converged
        self._K: np.ndarray | None = None
        self._start: Any = None

    def part(self, kernel: Kernel, rows: np.ndarray) -> Inference:
        """Return the same for some of the rows."""
        weights = None if self.weights is None else self.weights[rows]
        X = kernel.domain.subset(self.X, rows)
        out = Inference(X, self.codes[rows], self.n_classes, weights, self.scheme)
        out._held = self._held  # those of all rows are there too
        return out

    def posterior(self, kernel: Kernel) -> Approximation:
        """Return the approximate posterior; it is that of the last call only that stays valid."""
        return self._infer(gram_of(kernel, self.X))

    def value_and_gradient(self, kernel: Kernel, tol: float = TIGHT) -> tuple[float, np.ndarray]:
        """Return the log evidence and its gradient in ``kernel.theta``.

        Parameters
        ----------
        kernel : Kernel
            The prior covariance.
        tol : float
            How near to come to a mode, where that is the method.
        """
        K = gram_of(kernel, self.X)
        with blas_for(len(self.codes)):
            found = self._infer(K, tol)
            if not len(kernel.theta):
                return found.log_evidence, np.zeros(0)
            return found.log_evidence, K.pull_theta(found.tiles(), self._held)

    def log_shares(self) -> float:
        """Return the log likelihood of labels of which nothing but shares of classes is known."""
        counts = np.bincount(self.codes, self.weights, self.n_classes)
        shares = counts / counts.sum()
        total = float(xlogy(counts, shares).sum())
        if self.scheme.kind == "one_vs_rest":  # each class has a rest
            total += float(xlogy(counts.sum() - counts, 1.0 - shares).sum())
        return total

    def release(self) -> None:
        """Let go of all matrices; posteriors that are at hand stay valid."""
        self._K = self._start = None

    def require_memory(self) -> None:
        """Refuse, before any work, rows whose matrices do not fit the memory budget.

        A quarter of a matrix and a little more is for tiles of the kernel.
        """
        n = len(self.codes)
        require_memory(
            self._held + 2 * n * n + LITTLE,
            f"{who()}: {self._held / (8 * n * n):g} matrices of {n} × {n} numbers, as "
            f"method={self.scheme.method!r} has with {self.n_classes} classes,",
            "Fit fewer rows",
        )

    def _infer(self, K: Gram, tol: float = TIGHT) -> Approximation:
        shared, asked = self.dense(K), (self.codes, self.n_classes, self.weights)
        quiet = np.errstate(over="ignore", invalid="ignore")  # residuals tell
        try:
            with quiet, blas_for(len(self.codes)):
                found = self.scheme.infer(shared, *asked, self._start, tol)
        except NotPositiveDefinite as error:
            raise NotPositiveDefinite(
                f"{who()}: {K.kernel}: {error}", error.smallest_eigenvalue
            ) from None
        self._start = found.start
        self.failure = "" if found.converged else f"{who()}: {found.message}"
        return found

    def dense(self, K: Gram) -> np.ndarray:
        """Return K in the array that evaluations share."""
        n = len(self.codes)
        if self._K is None:
            self.require_memory()
            self._K = np.empty((n, n))
        K.to_dense(out=self._K)
        self._check_diagonal(K.kernel, np.diagonal(self._K))
        return self._K

    def _check_diagonal(self, kernel: Kernel, diagonal: np.ndarray) -> None:
        """Refuse values of k(x, x) with which no method can compute."""
        low, high = float(diagonal.min(initial=0.0)), float(diagonal.max(initial=0.0))
        if low < -INDEFINITE * high:
            i = int(diagonal.argmin())
            raise NotPositiveDefinite(
                f"{who()}: {kernel} has k(x, x) = {low:.4g} at row {i}, so it is not "
                "positive semidefinite and not a kernel; mercer.check_kernel tells more.",
                low,
            )
        if not high <= LARGEST:
            raise InvalidInput(
                f"{who()}: {kernel} has k(x, x) up to {high:.3g}, which leaves no digit to "
                f"labels; give a kernel with k(x, x) below {LARGEST:g}, or standardise the columns."
            )
        if self.weights is None:
            return
        heavy = float((self.weights * diagonal).max(initial=0.0))
        if not heavy <= HEAVIEST and self.weights.max() > 1.0:
            raise InvalidInput(
                f"{who()}: sample_weight is up to {self.weights.max():.3g}, which are as many "
                f"repetitions of a row: too many for float64 beside k(x, x) = {high:.3g}. Give "
                f"weights of at most {HEAVIEST / max(high, 1.0):.0e}."
            )


def plan_classes(model: Any, X: Any, y: Any) -> Plan:
    """Return the plan of `GaussianProcessClassifier`: matrices, and Newton's method."""
    study = study_of(model, X, y)
    facts = study.facts
    n, several = facts.n, max(2, facts.outputs)
    checks.check_parameters(model, *SCHEME)
    scheme = choose_scheme(model.method, model.link, model.multi_class, several)
    tuned = model.optimizer is not None
    matrices = scheme.matrices(several) * (PARTS if tuned and n > SMALL else 1.0)
    needed = int(8 * n * n * matrices) + 2 * n * n + LITTLE  # what the fit asks for
    time = None
    if study.rates is not None:
        gram = gram_seconds(facts, study.rates, study.sketch.rate)
        steps = STEPS * matrices * n**3 / study.rates.potrf
        evaluations = expected_evaluations(model) if tuned else 0.0
        time = gram + steps + evaluations * (4 * gram + steps)
    cost = Cost(needed, time, 8 * n * n + facts.tiles + facts.vectors)
    plan = study.plan(scheme.method, cost)
    return replace(plan, why=f"You chose method={model.method!r}; its answer is an approximation.")


# ---- Latent covariances at new points, from what a classifier keeps ----


class LatentCovariance:
    """The posterior covariance of latent values, from K and the precisions of the sites.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        The Gram matrix of the rows.
    sites : ndarray of shape (n,) or (n, C)
        ``Approximation.sites``.
    coupled : bool
        Whether the classes depend on one another, as with Laplace's softmax.
    """

    def __init__(self, K: np.ndarray, sites: np.ndarray, coupled: bool):
        roots = np.sqrt(np.atleast_2d(sites.T))
        with blas_for(len(K)):
            self._coupled = SoftmaxFactor(K, sites) if coupled else None
            self._factors = [] if coupled else [SiteFactor(K, root) for root in roots]
        self._single = sites.ndim == 1

    @property
    def nbytes(self) -> int:
        """The bytes of the factors."""
        if self._coupled is not None:
            return sum(array.nbytes for array in self._coupled.buffer)
        return sum(factor.buffer.nbytes for factor in self._factors)

    def at(self, Kx: np.ndarray, diag: np.ndarray) -> np.ndarray:
        """Return variances (m,) of one latent function, covariances (m, C, C) of several."""
        with blas_for(max(Kx.shape)):
            if self._coupled is not None:
                return self._coupled.covariance(Kx, diag)
            if self._single:
                return self._factors[0].variance(Kx, diag)
            C = len(self._factors)
            out = np.zeros((len(diag), C, C))
            for c, factor in enumerate(self._factors):
                out[:, c, c] = factor.variance(Kx, diag)
            return out
