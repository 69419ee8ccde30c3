"""Test of conditional independence: is what Z leaves of X related to what it leaves of Y?"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.checks import as_rng, check_index
from mercer.errors import InvalidInput, NotPositiveDefinite, speaks, who
from mercer.estimator import tell_rounding
from mercer.kernels import Kernel
from mercer.lapack import heard
from mercer.memory import require_memory
from mercer.statistics.base import TestResult
from mercer.statistics.dependence.conditioning import (
    Fit,
    RankedResiduals,
    Target,
    regress,
    residual_factors,
)
from mercer.statistics.dependence.moments import TINY, gamma_tail
from mercer.statistics.dependence.shuffled import Factored, Gathered, gram_matrix
from mercer.statistics.factors import Factor, rank_words
from mercer.statistics.observations import (
    draw_rescaled,
    in_range,
    labels_at,
    observations,
    points_at,
    rescaled,
)
from mercer.statistics.permutation import Shuffle, drawn_result
from mercer.statistics.samples import Pair, one_sample, paired

NULLS = ("gamma", "spectral", "permutation")


@speaks("kci_test")
def kci_test(
    X: Any,
    Y: Any,
    Z: Any,
    kernel_x: Any = None,
    kernel_y: Any = None,
    kernel_z: Any = None,
    n_permutations: int = 999,
    rng: Any = None,
    *,
    null: str = "gamma",
    ridge: Any = "loo",
    blocks: Any = None,
    strata: Any = None,
    sample_weight: Any = None,
    early_stop: int | None = None,
    rank: int | None = None,
) -> TestResult:
    r"""Test whether X and Y are independent given Z.

    The features of (X, Z) and of Y are each regressed on Z by kernel ridge; with
    R = λ(K_Z + λI)⁻¹ on centred matrices, the statistic

        tr(R₁ (K_X ∘ K_Z) R₁ · R₂ K_Y R₂) / n

    measures how the residuals are related.

    No test of conditional independence has its level for all laws (Shah and Peters 2020). This one
    needs Z to explain X or Y smoothly enough for the ridge regressions to follow: what they miss is
    left in both residuals and looks like dependence, the more so the larger n. True hypotheses that
    were rejected at a level of 5 %; 200 data sets each, 100 for several columns; kernels left out:

    ===================================================  ===========  ==================
    how X and Y depend on Z                              "gamma"      shuffled residuals
    ===================================================  ===========  ==================
    sums of 1, 2, 3 columns; noise ½, 150 rows           3, 5, 1 %    12 % (1; 100 rows)
    sum of 4 columns, of variance 4; noise ½, 150 rows   4 %          not measured
    sin 2Z of one of ten columns; noise ½, 150 rows      4 %          not measured
    sin 3Z and cos 2Z; noise 0.3; 50, 100, 200 rows      5, 3, 7 %    13 % (100 rows)
    sin 6Z and cos 6Z; noise 0.3, 100 rows               7 %          17 %
    sin Z and Z; noise of both ∝ \|Z\|, 100 rows         3 %          65 %
    square of one of two columns; noise ½, 150 rows      13 %         not measured
    ===================================================  ===========  ==================

    With the kernel of Z fixed at the median distance all of 40 and 30 sets of the second and third
    row were rejected, and 48 % of the fourth at 100 rows: a kernel that is given is not changed, so
    look at the parts explained.

    Parameters
    ----------
    X, Y, Z : collections of n points
        The variables; row i of all belongs together. Vectors, frames, or what the kernels accept;
        numbers in one dimension are one column. Gram matrices when precomputed.
    kernel_x, kernel_y, kernel_z : Kernel, str or callable, optional
        The kernels; RBF at the median distance when left out. A `kernel_z` left out is this one
        beside X, and for the regressions an RBF on standardised columns: length scale, metric (for
        2 to 50 columns, along the mean squared gradient of the fit) and ridge have least
        leave-one-out error, for X and Y each. A `kernel_z` that is given is used as it is; the
        features of X are not linear in Z even if X is, so "linear" will not do.
    n_permutations : int, default=999
        Draws of the null; not for "gamma".
    rng : None, int or Generator, optional
        Source of randomness.
    null : {"gamma", "spectral", "permutation"}, default="gamma"
        "spectral" draws from the asymptotic law, a sum of χ² variables weighted by the eigenvalues
        of the product of both residual matrices, entry by entry; "gamma" is the gamma law with the
        mean and variance of that law. "permutation" shuffles the residuals of Y, as if their law
        did not depend on Z.
    ridge : "loo" or float, default="loo"
        λ of both regressions; "loo" chooses one for each by leave-one-out, in closed form.
    blocks : int or array of shape (n,), optional
        Rows whose residuals move together, for "permutation": the length of runs of consecutive
        rows, as given, or a label for each row.
    strata : array of shape (n,), optional
        Labels; residuals are shuffled within a stratum only, for "permutation". If these are the
        values of Z, the level is exact.
    sample_weight : array of shape (n,), optional
        Weights of the rows, in the means and the ridge regressions. Whole numbers count
        repetitions, and the test is that of the repeated rows. Others have no unit: they count as
        (Σw)²/Σw² rows in all, and with "permutation" they stay with the residuals of X.
    early_stop : int, optional
        Stop at so many draws that reach the statistic; not for "gamma".
    rank : int, optional
        Approximate all kernels by so many features, for large n: memory then grows with n·rank and
        time with n·rank². What features of Z do not hold is left in the residuals whole, so the
        rank must be large enough for the regressions. A kernel of Z that is left out is chosen on
        1000 rows, and beyond 2000 rows so many stand for all in the null of "gamma" and "spectral".

    Returns
    -------
    TestResult
        ``extra["explained_x"]`` and ``extra["explained_y"]`` are the leave-one-out R² of the
        regressions on Z: near 0 where Z is known to matter, the p-value is not to be trusted.
        ``extra["ridges"]`` are both λ; ``extra["kernel_x"]``, ``extra["kernel_y"]`` and
        ``extra["kernel_z"]`` are the kernels of the statistic, and ``extra["characteristic"]`` says
        whether all of them are. A `kernel_z` left out is, in the regressions, one of other scales,
        chosen for each: given again it would be kept, and the answer another. With `rank`,
        ``extra["rank"]`` and ``extra["trace_error"]`` are the features of (X, Z), of Y and of Z,
        and the parts of their traces that they miss.

    Notes
    -----
    Without `rank`, n × n matrices and eigenvectors are stored, 112 n² bytes in all. Each kernel of
    Z that is tried costs an eigendecomposition: one if it is given, 6 for one column, up to 36 for
    several.

    References
    ----------
    Zhang, Peters, Janzing, Schölkopf, "Kernel-based conditional independence test and application
    in causal discovery", UAI 2011; Shah, Peters, "The hardness of conditional independence testing
    and the generalised covariance measure", Ann. Statist. 48 (2020).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.statistics import hsic_test, kci_test
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=150)
    >>> x, y = np.sin(z) + 0.3 * rng.normal(size=(2, 150))
    >>> hsic_test(x, y, rng=0).pvalue < 0.01, kci_test(x, y, z, rng=0).pvalue > 0.05
    (True, True)
    """
    if not (isinstance(null, str) and null in NULLS):
        raise InvalidInput(f"{who()}: null={null!r}; give one of {', '.join(map(repr, NULLS))}.")
    check_index(n_permutations, "n_permutations", 1)
    if early_stop is not None:
        check_index(early_stop, "early_stop", 1)
    _refuse(null, {"blocks": blocks, "strata": strata, "early_stop": early_stop})
    fixed = _check_ridge(ridge)
    generator = as_rng(rng)
    both = paired(X, Y, kernel_x, kernel_y, sample_weight)
    kz, points = _condition(Z, kernel_z, both)
    seen = observations(both, repeat=False, centred=False)
    pair, w = seen.pair, seen.weights
    total = float(w.sum()) if seen.counted else float(pair.n)
    if total < 4:
        raise InvalidInput(f"{who()}: {total:g} rows are too few; give at least 4.")
    n = pair.n
    if rank is None:
        cure = "Give a rank, or use fewer rows"
        require_memory(112 * n * n, f"{who()}: the matrices of {n} rows", cure)
    kernel, points, e = in_range(kz, points_at(kz, points, seen.index))
    exponent = sum(seen.exponents) + e
    fixed = None if fixed is None else max(float(np.ldexp(fixed, -e)), TINY)
    tuned = kernel_z is None
    options = (fixed, tuned, rank, generator)
    residuals, fits, told = _residuals(pair, kernel, points, seen.counted, *options)
    first, second = residuals
    kernels = {"kernel_x": both.kernel_x, "kernel_y": both.kernel_y, "kernel_z": kz}
    extra = kernels | {
        "characteristic": all(bool(k.characteristic) for k in kernels.values()),
        "ridges": tuple(float(np.ldexp(fit.ridge, e)) for fit in fits),
        "explained_x": fits[0].explained,
        "explained_y": fits[1].explained,
        **told,
    }
    words = ", weights count rows" if seen.counted else ", weighted"
    words = "" if pair.weights is None else words
    words += "" if rank is None else f", kernels of {rank_words(told['rank'])}"
    way: _Shuffled | _ChiSquares
    if null == "permutation":
        rows = np.repeat(np.arange(n), w.astype(int)) if seen.counted else np.arange(n)
        labels = [
            labels_at(values, seen.index[rows], both.n, name)
            for name, values in (("blocks", blocks), ("strata", strata))
        ]
        way = _Shuffled(first, second, w, rows, labels, rank is not None)
        what = "residuals of Y" if blocks is None else "blocks of residuals of Y"
        within = "" if strata is None else " within strata"
        method = f"KCI, {what} shuffled{within} (approximate){words}"
    else:
        if rank is None:
            statistic, law = _law(first, second, w, seen.counted)
            mean, variance = float(np.trace(law)), 2.0 * float(np.vdot(law, law))
        else:
            ranked = RankedResiduals(first, second, w, seen.counted, generator)
            statistic, (mean, variance), law = ranked.statistic, ranked.moments(), ranked.law()
        if null == "gamma":
            p = gamma_tail(statistic, mean, variance)
            method = f"KCI, gamma approximation (asymptotic){words}"
            statistic = rescaled(statistic, exponent)
            return TestResult(statistic, p, None, method, 0, (both.n,), extra=extra)
        way = _ChiSquares(statistic, law)
        method = f"KCI, weighted χ² law (asymptotic){words}"
    drawn = draw_rescaled(way, way, n_permutations, generator, early_stop, way.size, exponent)
    return drawn_result(drawn, method, (both.n,), extra)


def _residuals(
    pair: Pair,
    kernel: Kernel,
    Z: Any,
    counted: bool,
    ridge: float | None,
    tuned: bool,
    rank: int | None,
    rng: np.random.Generator,
) -> tuple[Any, list[Fit], dict[str, Any]]:
    """Return residual matrices of (X, Z) and of Y given Z, or their features, fits, and words.

    The product of the matrices of X and Z is centred, not these: it depends on where the origin is,
    and what is lost in rounding is told.
    """
    lost = [
        tell_rounding(k, points, np.asarray(k.diag(points), dtype=float))
        for k, points in ((pair.kernel_x, pair.X), (kernel, Z))
    ]
    try:
        if rank is not None:
            return residual_factors(pair, kernel, Z, counted, ridge, tuned, rank, rng)
        w = np.ones(pair.n) if pair.weights is None else pair.weights
        K = gram_matrix(pair.kernel_x, pair.X)
        K *= gram_matrix(kernel, Z)
        targets = [Target(M, w, counted) for M in (K, gram_matrix(pair.kernel_y, pair.Y))]
        fits = regress(targets, kernel, Z, ridge, tuned=tuned)
    except NotPositiveDefinite:
        if not any(lost):
            raise
        raise InvalidInput(
            f"{who()}: the differences of the points of X and Z are lost in the rounding of their "
            "kernel values. Subtract the means of the columns, or use a kernel of the scale of the "
            "data."
        ) from None
    return [t.residuals(f) for t, f in zip(targets, fits, strict=True)], fits, {}


def _condition(Z: Any, kernel: Any, both: Pair) -> tuple[Any, Any]:
    """Return the kernel of Z, made for its points, and the points."""
    if Z is None:
        raise InvalidInput(f"{who()}: Z is None; give what to condition on, or use hsic_test.")
    kz, points = one_sample(Z, kernel, "Z")
    n = kz.domain.size(points)
    if n != both.n:
        raise InvalidInput(
            f"{who()}: X has {both.n} rows and Z has {n}; row i of all must belong together."
        )
    points = kz.domain.check_training(points, "Z")
    return kz.fit_params(points, both.weights), points


def _refuse(null: str, options: dict[str, Any]) -> None:
    """Refuse what a null does not know."""
    known = {"gamma": (), "spectral": ("early_stop",)}.get(null, tuple(options))
    for name, value in options.items():
        if value is not None and name not in known:
            raise InvalidInput(
                f"{who()}: null={null!r} does not go with {name}; use null='permutation', which "
                "does."
            )


def _law(
    first: np.ndarray, second: np.ndarray, w: np.ndarray, counted: bool
) -> tuple[float, np.ndarray]:
    """Return the statistic, and the matrix whose eigenvalues weigh the χ² variables of its law.

    The statistic is |Σ wᵢφᵢ|²/W with ⟨φᵢ, φⱼ⟩ = AᵢⱼBᵢⱼ, so that of independent rows it has the
    eigenvalues of wᵢwⱼ⟨φᵢ, φⱼ⟩/W. A row repeated w times is as many terms, which leaves √wᵢwⱼ.
    """
    first *= second
    total = float(w.sum())
    statistic = float(w @ first @ w) / total
    scale = w**0.5 if counted else w
    first *= scale[:, None] / total
    first *= scale
    return statistic, first


class _Shuffled:
    """Statistics of shuffled residuals of Y; a row that is counted is first repeated."""

    def __init__(
        self,
        first: np.ndarray,
        second: np.ndarray,
        w: np.ndarray,
        rows: np.ndarray,
        labels: list[Any],
        features: bool,
    ):
        self.total, self.size = float(w.sum()), len(rows)
        if self.size > len(w):
            what = f"{who()}: the matrices of {self.size} rows"
            if features:
                first, second = first[rows], second[rows]
            else:
                require_memory(40 * self.size**2, what, "Give a rank, or use fewer rows")
                first, second = (M[np.ix_(rows, rows)] for M in (first, second))
            w = np.ones(self.size)
        self.design = Shuffle(self.size, blocks=labels[0], strata=labels[1])
        if features:
            self.way: Any = Factored(Factor(first, 0.0), Factor(second, 0.0), w, False)
        else:
            self.way = Gathered(first, second, w, False)
        self.observed = self.total * self.way.observed
        self.resolution = self.total * self.way.resolution

    def draw(self, rng: np.random.Generator, size: int) -> np.ndarray:
        return self.design.draw(rng, size)

    def evaluate(self, draws: np.ndarray) -> np.ndarray:
        return self.total * self.way.evaluate(draws)


class _ChiSquares:
    """Independent χ² variables of one degree of freedom, and their weighted sums."""

    resolution = 0.0

    def __init__(self, statistic: float, law: np.ndarray):
        # of a product of two Gram matrices
        values = np.maximum(heard(np.linalg.eigvalsh, law), 0.0)
        self.observed, self.weights = statistic, values[values > 1e-12 * values.max()]
        self.size = max(1, len(self.weights))

    def draw(self, rng: np.random.Generator, size: int) -> np.ndarray:
        return rng.standard_normal((size, len(self.weights))) ** 2

    def evaluate(self, draws: np.ndarray) -> np.ndarray:
        return draws @ self.weights


def _check_ridge(ridge: Any) -> float | None:
    if isinstance(ridge, str) and ridge == "loo":
        return None
    number = isinstance(ridge, int | float | np.number) and not isinstance(ridge, bool)
    if not number or not (np.isfinite(ridge) and ridge > 0):
        raise InvalidInput(f"{who()}: ridge={ridge!r}; give 'loo' or a positive number.")
    return float(ridge)
