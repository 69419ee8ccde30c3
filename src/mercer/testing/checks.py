"""How a law complains: `require` and `agree` raise AssertionError with numbers in the message."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.base import ClusterMixin

from mercer import models
from mercer.domains import GramRows, Numbers, Tables, Vectors
from mercer.errors import InvalidInput
from mercer.kernels import Kernel
from mercer.testing.examples import KernelExample, is_vectorial, sample_points


def require(condition: Any, message: str) -> None:
    """Raise AssertionError with the message unless the condition holds."""
    if not condition:
        raise AssertionError(message)


def obey(laws: Iterable[tuple[str, Callable[..., None]]], *judged: Any, on: str = "") -> None:
    """Ask every law, and raise AssertionError that names the one that is broken."""
    for name, law in laws:
        try:
            law(*judged)
        except AssertionError as error:
            raise AssertionError(f"law {name!r} is broken{on}. {error}") from error


def told(
    laws: Iterable[Callable[..., None]], judge: Callable[..., None]
) -> list[tuple[str, Callable[..., None]]]:
    """Return (name, function) for each law: the function asks `judge`, law first."""

    def bound(law: Callable[..., None]) -> Callable[..., None]:
        def run(*given: Any, **named: Any) -> None:
            judge(law, *given, **named)

        run.__name__, run.__doc__ = law.__name__, law.__doc__
        return run

    return [(law.__name__.removeprefix("law_"), bound(law)) for law in laws]


@contextmanager
def untouched(arrays: list[np.ndarray], message: str) -> Iterator[None]:
    """Lend arrays that nobody may write to, and require that they are left as they were."""
    before, was = [a.copy() for a in arrays], [a.flags.writeable for a in arrays]
    for a in arrays:
        a.setflags(write=False)
    try:
        yield
    finally:
        for a, writeable in zip(arrays, was, strict=True):
            a.setflags(write=writeable)
    for a, b in zip(arrays, before, strict=True):
        same = np.array_equal(a, b, equal_nan=a.dtype.kind == "f")  # NaN: a missing number
        require(same, message)


def to_numpy(A: Any) -> np.ndarray:
    """Return an array, a tensor, a sparse matrix or an operator as a NumPy array."""
    if hasattr(A, "detach"):
        A = A.detach().cpu().numpy()
    elif hasattr(A, "to_dense"):
        A = A.to_dense()
    return A.toarray() if hasattr(A, "toarray") else np.asarray(A)


def agree(got: Any, expected: Any, tol: float, message: str, *, bitwise: bool = False) -> None:
    """Require |got − expected| ≤ tol·max|expected| entry by entry, or equal bits."""
    got, expected = to_numpy(got), to_numpy(expected)
    require(got.shape == expected.shape, f"{message}: shape {got.shape}, expected {expected.shape}")
    if bitwise:
        require(np.array_equal(got, expected), f"{message}: the bits differ")
        return
    require(np.isfinite(got).all(), f"{message}: not finite")
    if not got.size:
        return
    gap = np.abs(got.astype(float) - expected.astype(float))
    limit = tol * (float(np.abs(expected).max()) or 1.0)
    where = np.unravel_index(int(gap.argmax()), gap.shape)
    require(
        gap[where] <= limit,
        f"{message}: {got[where]!r} at {tuple(map(int, where))}, expected {expected[where]!r}; "
        f"difference {gap[where]:.3g} > {limit:.3g}",
    )


# ---- A kernel with points to judge it on: the one argument of every kernel law ----


N, M = 23, 9


class Case:
    """A kernel, a collection X with repeated points, and a second collection."""

    def __init__(self, kernel: Kernel | KernelExample, X: Any = None, rng: Any = 0):
        self.rng = np.random.default_rng(rng)
        example = kernel if isinstance(kernel, KernelExample) else None
        self.kernel: Kernel = kernel.kernel if isinstance(kernel, KernelExample) else kernel
        self.given = X is not None
        self._sampler: Callable[[int, int | None], Any] = (
            (lambda n, d: example.sample(self.rng, n, d))
            if example is not None
            else (lambda n, d: sample_points(self.kernel, self.rng, n, d))
        )
        self.precomputed = isinstance(self.kernel.domain, GramRows)
        if X is not None:
            self._bank = self.kernel.domain.check(X)
        self.X = X if X is not None else self.sample(N)
        if self.precomputed:
            self._bank = self.kernel.domain.check(self.X)
        self.n = self.kernel.domain.size(self.kernel.domain.check(self.X))
        self.vectorial = is_vectorial(self.kernel) and not self.precomputed

    def sample(self, n: int, d: int | None = None) -> Any:
        """Return n points, the last of them repeating the first ones."""
        fresh = max(1, n - n // 8)
        if self.given:
            have = self.kernel.domain.size(self._bank)
            return self._take(self._bank, self.rng.integers(0, max(1, have), n))
        X = self.kernel.domain.check(self._sampler(fresh, d))
        return self._take(X, np.arange(n) % fresh)

    def _take(self, X: Any, index: np.ndarray) -> Any:
        if self.precomputed:
            return np.ascontiguousarray(X[np.ix_(index, index)])
        return self.kernel.domain.take(X, index)

    def take(self, index: Any) -> Any:
        """Return the points of X at the given positions."""
        return self._take(self.kernel.domain.check(self.X), np.asarray(index, dtype=int))

    def pair(self) -> tuple[Any, Any]:
        """Return two collections A, B to evaluate k(A, B) on."""
        if self.precomputed:
            rows = np.asarray(self._bank)[:M]
            return np.ascontiguousarray(rows), np.arange(self.n)
        return self.X, self.sample(M)

    def matrix(self) -> np.ndarray:
        """Return a random symmetric weight matrix of the size of k(X)."""
        W = self.rng.standard_normal((self.n, self.n))
        return W + W.T

    def resolved(self) -> Kernel:
        """Return the kernel with words such as "median" turned into numbers on X."""
        return self.kernel.fit_params(self.X)

    def scaled(self, X: Any, scale: float) -> Any | None:
        """Return the points multiplied by a number, or None where that leaves the domain."""
        if scale == 1.0:
            return X
        if not isinstance(self.kernel.domain, Vectors | Tables) or not isinstance(X, np.ndarray):
            return None
        if isinstance(self.kernel.domain, Numbers) and self.kernel.domain.integer:
            return None
        try:
            return self.kernel.domain.check(X * scale)
        except InvalidInput:
            return None


def has_torch() -> bool:
    """Whether torch is installed."""
    from importlib.util import find_spec

    return find_spec("torch") is not None


# ---- The Matérn function of any order as an integral, without a Bessel function: a second
# opinion.


def matern_integral(nu: float, z: float) -> float:
    """Return 2^{1−ν}/Γ(ν) z^ν K_ν(z) as the mean of exp(−z²/4t) over t ~ Gamma(ν) (DLMF 10.32.10).

    The trapezoidal rule in u = log t converges faster than any power of the step; no Bessel
    function is called, so that any order may be tested.
    """
    if z == 0:
        return 1.0
    c = 0.25 * z * z
    half = 0.5 * (4 * c / nu**2) / (math.sqrt(1 + 4 * c / nu**2) + 1)
    t = nu * (1 + half)  # the integrand is largest here
    if nu < 5:
        mass = math.exp(nu * math.log(t) - t - c / t - math.lgamma(nu))
        return mass * _bell(nu, t, c)
    # Γ(ν) by the same rule, with c = 0: for large ν nothing large cancels.
    drop = nu * math.log1p(half) - nu * half - c / t
    return math.exp(drop) * _bell(nu, t, c) / _bell(nu, nu, 0.0)


def _bell(nu: float, t: float, c: float) -> float:
    """Return ∫ e^{φ(u)−φ(log t)} du for φ(u) = νu − eᵘ − ce⁻ᵘ, whose peak is at u = log t."""

    def fall(v: float) -> float:
        return nu * v - t * math.expm1(v) - c / t * math.expm1(-v)

    step = min(0.04, 0.2 / math.sqrt(nu + math.sqrt(c)))
    terms = [1.0]
    for sign in (1, -1):
        i = 1
        while (e := fall(sign * i * step)) > -50:
            terms.append(math.exp(e))
            i += 1
    return step * math.fsum(terms)


# ---- scikit-learn's common checks ----


def expected_failed_checks(estimator: Any) -> dict[str, str]:
    """Return the common checks of scikit-learn that an estimator fails, and why each is right to.

    Give it to scikit-learn's `check_estimator` or `parametrize_with_checks`.

    Parameters
    ----------
    estimator : estimator
        An estimator of mercer, not fitted.

    Returns
    -------
    dict
        From the name of a check to the reason; empty for most.

    Examples
    --------
    >>> import mercer
    >>> from mercer.testing import expected_failed_checks
    >>> expected_failed_checks(mercer.SVC())
    {}
    >>> sorted(expected_failed_checks(mercer.NuSVC()))[0]
    'check_class_weight_classifiers'
    """
    weighing = "check_sample_weight_equivalence_on_dense_data"
    weighing_sparse = "check_sample_weight_equivalence_on_sparse_data"
    if isinstance(estimator, models.NuSVC):
        # ν = ½ asks for a quarter of the weight on either side; scikit-learn's NuSVC fails here too
        why = "a class with less than a quarter of the weight: ν = ½ is infeasible"
        return dict.fromkeys([weighing, weighing_sparse, "check_class_weight_classifiers"], why)
    failed, why = {}, ""
    if isinstance(estimator, models.KernelKMeans):
        why = "shuffles the rows, along which starts are drawn; so it is with scikit-learn's KMeans"
    elif isinstance(estimator, models.FeatureMachineClassifier | models.FeatureMachineRegressor):
        # sparse rows are refused, as the check allows
        return {
            weighing: "a metric is learned from some folds of the rows; copies may be in others"
        }
    elif (
        isinstance(estimator, models.NadarayaWatson | models.NadarayaWatsonClassifier)
        and estimator.bandwidth == "loo"
    ):
        why = "a row is left out with all its weight, one of several copies alone"
    if why:
        failed = {weighing: why, weighing_sparse: why}
    if getattr(estimator, "kernel", None) != "precomputed":
        return failed
    points = "hands over points, not their Gram matrix"
    if not isinstance(estimator, models.SpectralClustering):
        failed["check_positive_only_tag_during_fit"] = "subtracts the mean, so that k(x, x) < 0"
    # Neighbours and means do not solve for anything, and neither sparse weights nor partitions need
    # a definite matrix.
    if isinstance(estimator, ClusterMixin):
        failed["check_clustering"] = points
    elif "solution_" in getattr(estimator, "_learned", ()) and not isinstance(
        estimator, models.L1VM
    ):
        failed["check_estimators_dtypes"] = "rounds to integers: the matrix is indefinite"
    if hasattr(estimator, "decision_function") and hasattr(estimator, "predict_proba"):
        failed["check_decision_proba_consistency"] = points
    if isinstance(estimator, models.OneClassSVM):
        failed |= dict.fromkeys(["check_outliers_train", "check_outliers_fit_predict"], points)
    return failed
