"""What a test returns: statistic, p-value, the null behind it, and how sure the p-value is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import beta

from mercer.errors import InvalidInput, figure, speaks, who

ESTIMATORS = ("unbiased", "biased")


def check_estimator(estimator: Any) -> str:
    """Return the name of an estimator."""
    if isinstance(estimator, str) and estimator in ESTIMATORS:
        return estimator
    raise InvalidInput(f"{who()}: estimator={estimator!r}; give 'unbiased' or 'biased'.")


def check_null(null: Any, legal: tuple[str, ...]) -> str:
    """Return the name of a null."""
    if isinstance(null, str) and null in legal:
        return null
    names = ", ".join(map(repr, legal[:-1]))
    raise InvalidInput(f"{who()}: null={null!r}; give {names} or {legal[-1]!r}.")


def check_finite(values: Any) -> None:
    """Refuse a statistic, or those of draws, that left the range of numbers."""
    if not np.isfinite(values).all():
        raise InvalidInput(
            f"{who()}: the statistic overflows: products of kernel values leave the range of "
            "numbers. Scale the columns, to unit variance or by a power of two."
        )


class ConfidenceInterval(NamedTuple):
    """Both ends of an interval.

    Parameters
    ----------
    low, high : float
        The ends.

    Examples
    --------
    >>> from mercer.statistics import ConfidenceInterval
    >>> low, high = ConfidenceInterval(0.01, 0.04)
    >>> high
    0.04
    """

    low: float
    high: float


@dataclass(frozen=True, eq=False)
class TestResult:
    """The outcome of a test: what was measured, and how often chance measures as much.

    ``statistic, pvalue = result`` and ``result[1]`` work, as with the results of scipy.stats.

    Parameters
    ----------
    statistic : float
        What was measured on the data.
    pvalue : float
        The share of the null that is at least as large; never 0 where the null was drawn.
    null : ndarray of shape (n_permutations,) or None
        The statistics of the shuffled data, in the order in which they were drawn; None where a
        formula stands for them.
    method : str
        How the null came about, in words; an approximate one says so.
    n_permutations : int, default=0
        Draws that the p-value rests on.
    sizes : tuple of int, default=()
        Numbers of rows given, of each sample or of all pairs.
    exceedances : int, optional
        Draws that reached the statistic.
    stopped : bool, default=False
        Whether drawing ended early, at a number of exceedances fixed before.
    extra : dict
        More, by the test: its docstring says what.
    origin : callable, optional
        What `explain` asks: it refers to the samples, and knows where the draws began. Pickles and
        copies leave it out.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.statistics import mmd_test
    >>> rng = np.random.default_rng(0)
    >>> result = mmd_test(rng.normal(size=(40, 1)), rng.normal(2.0, size=(30, 1)), rng=0)
    >>> statistic, pvalue = result
    >>> pvalue
    0.001
    >>> low, high = result.confidence_interval()
    >>> low < pvalue < high
    True
    """

    __test__ = False  # its name is not that of a test case

    statistic: float
    pvalue: float
    null: np.ndarray | None
    method: str
    n_permutations: int = 0
    sizes: tuple[int, ...] = ()
    exceedances: int | None = None
    stopped: bool = False
    extra: dict[str, Any] = field(default_factory=dict)
    origin: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"origin": None}

    def __iter__(self) -> Iterator[float]:
        return iter((self.statistic, self.pvalue))

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: Any) -> Any:
        return (self.statistic, self.pvalue)[index]

    def confidence_interval(self, confidence_level: float = 0.95) -> ConfidenceInterval:
        """Return an interval for the p-value that infinitely many draws would give.

        That of Clopper and Pearson for a share of draws, or of Besag and Clifford's for a number
        of draws up to a fixed number of exceedances. A p-value by formula has no such error: both
        ends are the p-value.

        Parameters
        ----------
        confidence_level : float, default=0.95
            The probability that the interval holds it, between 0 and 1.

        Returns
        -------
        ConfidenceInterval
            Its ends, `low` and `high`.
        """
        number = isinstance(confidence_level, int | float | np.number)
        if not (number and 0 < confidence_level < 1):
            raise InvalidInput(
                f"TestResult: confidence_level={confidence_level!r}; give a number between 0 and 1."
            )
        k, n = self.exceedances, self.n_permutations
        if k is None or not n:
            return ConfidenceInterval(self.pvalue, self.pvalue)
        tail = (1 - confidence_level) / 2
        low = beta.ppf(tail, k, n - k + 1) if k > 0 else 0.0
        # Stopped at the k-th exceedance, the number of others before it is negative binomial.
        above = k if self.stopped else k + 1
        high = beta.ppf(1 - tail, above, n - k) if k < n else 1.0
        return ConfidenceInterval(float(low), float(high))

    def summary(self) -> str:
        """Return the outcome in a few lines of text."""
        low, high = self.confidence_interval()
        lines = [
            f"statistic  {figure(self.statistic)}",
            f"p-value    {figure(self.pvalue)}",
            f"method     {self.method}",
        ]
        if self.exceedances is not None and self.n_permutations:
            draws = f"{self.exceedances} of {self.n_permutations} draws reach the statistic"
            lines.insert(2, f"           {draws}; 95% interval {figure(low)} to {figure(high)}")
        if self.sizes:
            lines.append(f"sizes      {', '.join(map(str, self.sizes))}")
        head = "pairs"
        for (i, j), result in self.extra.get("pairwise", {}).items():
            adjusted = self.extra["adjusted"][i, j]
            both = f"{figure(result.pvalue)}, {figure(adjusted)} adjusted"
            lines.append(f"{head:11}{i} and {j}: p-value {both}")
            head = ""
        return "\n".join(lines)

    @speaks("TestResult.explain")
    def explain(self, *, pairs: bool = True, columns: Any = None, groups: Any = None) -> Any:
        r"""Return the shares of columns, and of pairs of columns, in the statistic.

        For `mmd_test`, `k_sample_test` and `hsic_test`, whose statistics are linear in the kernel
        matrix, and kernels that are sums of products over columns. With v(S) the statistic of the
        kernel whose factors of columns outside S are 1, v(∅) = 0, and the Shapley values of this
        game are shares that sum to the statistic. The same permutations that the test drew, from
        the same seed, say which of them chance explains; all `n_permutations`, also where the test
        stopped early.

        Parameters
        ----------
        pairs : bool, default=True
            Whether to tell of pairs as well. Of p columns these are p(p − 1)/2 matrices more.
        columns : sequence of str, optional
            Names of the columns; for `hsic_test` a pair of sequences, of X and of Y. By default
            those of a frame, or x0, x1, ….
        groups : list of lists of columns, or dict of name to columns, optional
            Columns, by name or position, that share as one, such as those that encode one column
            of categories; for `hsic_test` a pair of them.

        Returns
        -------
        TestExplanation
            ``values`` by column, ``pairs``, and ``shares``, the most telling first.

        Examples
        --------
        >>> import numpy as np
        >>> from mercer.statistics import mmd_test
        >>> rng = np.random.default_rng(0)
        >>> X, Y = rng.normal(size=(60, 3)), rng.normal(size=(60, 3))
        >>> Y[:, 1] += 1.0
        >>> result = mmd_test(X, Y, rng=0)
        >>> told = result.explain()
        >>> told.shares[0].columns, told.shares[0].adjusted
        (('x1',), 0.001)
        >>> bool(np.isclose(told.values.sum(), result.statistic))
        True
        """
        if self.origin is None:
            raise InvalidInput(
                f"{who()}: nothing is known of the samples: results of mmd_test, k_sample_test and "
                "hsic_test explain themselves, as long as they are not copied or read from a "
                "pickle. Run the test again."
            )
        given = {"columns": columns, "groups": groups}
        given = {name: value for name, value in given.items() if value is not None}
        return self.origin(self, pairs=bool(pairs), **given)

    def plot(self, ax: Any = None, **kwargs: Any) -> Any:
        """Draw the null as a histogram with the statistic on it.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.
        **kwargs
            Keywords of `mercer.plot.NullDisplay.plot`.

        Returns
        -------
        NullDisplay
            What was drawn.
        """
        from mercer.plot import NullDisplay

        return NullDisplay.from_result(self, ax=ax, **kwargs)

    def __repr__(self) -> str:
        return (
            f"TestResult(statistic={self.statistic:.6g}, pvalue={self.pvalue:.4g}, "
            f"method={self.method!r})"
        )


# ---- One p-value from several statistics of the same draws, valid whatever their dependence ----


SLACK = 1e-9  # of a studentised statistic, below which two are tied


@dataclass(frozen=True, eq=False)
class Combined:
    """What the statistics of all rows, the data first, say together.

    Parameters
    ----------
    values : ndarray of shape (B + 1,)
        One number for each row; large ones speak against the hypothesis.
    exceedances : int
        Rows after the first that reach it.
    pvalues : ndarray of shape (q,)
        Of each statistic alone.
    largest : int
        Which statistic of the data stands out most.
    """

    values: np.ndarray
    exceedances: int
    pvalues: np.ndarray
    largest: int


def combined(T: np.ndarray, resolution: Any, slack: float = SLACK) -> Combined:
    """Return the rows of T, each made one number: its largest studentised statistic.

    Under the hypothesis the data are one of the arrangements that were drawn, so rows are
    exchangeable. Means and deviations of columns are the same in whatever order the rows stand, so
    the largest are exchangeable too: the rank of the first is a valid p-value.

    Parameters
    ----------
    T : ndarray of shape (B + 1, q)
        Statistics, one row for the data and one for each draw.
    resolution : float or array of shape (q,)
        Differences within a column that may be rounding.
    slack : float
        As much, of studentised statistics.
    """
    rows = len(T)
    z, real = studentised(T, resolution)
    # A column without spread has no say.
    values = z[:, real].max(1) if real.any() else np.zeros(rows)
    exceedances = int((values[1:] >= values[0] - slack).sum())
    pvalues = (z >= z[0] - slack).sum(0) / rows
    return Combined(values, exceedances, pvalues, int(np.argmax(z[0])))


def studentised(T: np.ndarray, resolution: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return columns of T in deviations from their means, and which have a spread; others are 0.

    Parameters
    ----------
    T : ndarray of shape (B + 1, q)
        Statistics, one row for the data and one for each draw.
    resolution : float or array of shape (q,)
        Differences within a column that may be rounding.
    """
    resolution = np.broadcast_to(np.asarray(resolution, dtype=float), T.shape[1:])
    # Over a power of two, so that squares stay in range.
    unit = np.ldexp(1.0, np.frexp(np.abs(T).max(0))[1] - 1)
    T = T / unit
    spread = T.std(0)
    real = spread > resolution / unit
    return np.where(real, (T - T.mean(0)) / np.where(real, spread, 1.0), 0.0), real


def combined_result(
    found: Combined,
    kernels: Sequence[Any],
    statistics: np.ndarray,
    method: str,
    sizes: tuple[int, ...],
) -> TestResult:
    """Return the result of an aggregated test.

    Parameters
    ----------
    found : Combined
        The combination.
    kernels : sequence
        Of each statistic, the kernel or the pair of kernels.
    statistics : ndarray of shape (q,)
        Of the data.
    method : str
        How, in words.
    sizes : tuple of int
        Sizes of the samples.
    """
    B = len(found.values) - 1
    return TestResult(
        float(found.values[0]),
        (found.exceedances + 1) / (B + 1),
        found.values[1:],
        method,
        B,
        sizes,
        found.exceedances,
        False,
        {
            "kernel": kernels[found.largest],
            "kernels": list(kernels),
            "pvalues": found.pvalues,
            "statistics": statistics,
        },
    )
