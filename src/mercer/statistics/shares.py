"""What a test says of itself: shares of columns and of pairs in its statistic, and chance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mercer.checks import check_index
from mercer.domains import Table, to_host
from mercer.domains.tables import is_frame
from mercer.errors import InvalidInput, figure, speaks, who
from mercer.kernels import NoProduct, Terms, terms_of
from mercer.rkhs import players_of
from mercer.statistics.base import SLACK, TestResult, studentised
from mercer.statistics.permutation import generator_at

OFF = 1e-6  # of the largest k(x, x), by which shares may miss the statistic: devices are in single
SHOWN = 5  # shares of a report


@dataclass(frozen=True, eq=False)
class TestShare:
    """What a column, or two columns together, have of a statistic, and whether chance explains it.

    ``str(share)`` says it in words.

    Parameters
    ----------
    columns : tuple of str
        The name of the column, or of both.
    value : float
        Its share of the statistic; of a pair what both together add to what each adds alone.
    pvalue : float or None
        How often chance gives it as large a share; None where the null was not drawn.
    adjusted : float or None
        The same for the largest of all columns and pairs, as below.
    deviations : float or None
        How many standard deviations of its null it is above chance.

    Examples
    --------
    >>> from mercer.statistics import TestShare
    >>> print(TestShare(("age", "dose"), 0.021, 0.001, 0.004, 6.2))
    age and dose together: 0.021 (p-value 0.001, 0.004 adjusted)
    """

    __test__ = False  # its name is not that of a test case

    columns: tuple[str, ...]
    value: float
    pvalue: float | None = None
    adjusted: float | None = None
    deviations: float | None = None

    def __str__(self) -> str:
        said = f"{self.name}: {figure(self.value)}"
        if self.pvalue is None or self.adjusted is None:
            return said
        return f"{said} (p-value {figure(self.pvalue)}, {figure(self.adjusted)} adjusted)"

    @property
    def name(self) -> str:
        """The columns in words."""
        return " and ".join(self.columns) + " together" * (len(self.columns) > 1)


@dataclass(frozen=True, eq=False)
class TestExplanation:
    r"""Shares of columns in the statistic of a test, that sum to it; see `TestResult.explain`.

    The shares of a draw are standardised by their means and deviations over the draws and the
    data, and the adjusted p-value of a column or pair is the share of draws in which the *largest*
    of all columns and pairs reaches it (Westfall and Young's max-T). So where nothing differs
    anything at all is called out, at an adjusted p-value of at most α, with probability at most α.
    Where the samples do differ, a column that is like before may have a share through columns it
    is tied to: p-values say that its share is no chance, not that it changed by itself.

    Shares depend on the kernel. The one left out sees all columns on one scale: give columns in
    like units, or a length scale for each.

    Parameters
    ----------
    statistic : float
        That of the test.
    columns : tuple of str
        The names of the columns, or of groups of columns; of `hsic_test` those of X, then of Y.
    values : ndarray of shape (p,)
        The share of each. Of `hsic_test` half of the statistic is shared by the columns of X, given
        all of Y, and half by those of Y, given all of X (Owen values).
    pairs : ndarray of shape (p, p) or None
        Half of what two columns do together in each of both places, and on the diagonal what a
        column does alone: a row adds up to its share. Of `hsic_test` pairs are a column of X and
        one of Y, and no column does anything alone.
    shares : tuple of TestShare
        Of all columns and pairs, the most telling first.
    n_permutations : int, default=0
        Draws behind the p-values.
    error : float, default=0.0
        By how much shares may be off: rounding, and what is missed where a kernel was taken as a
        mixture of products.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.statistics import mmd_test
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.normal(size=(150, 3)), rng.normal(size=(150, 3))
    >>> Y[:, 2] = 0.8 * Y[:, 0] + 0.6 * Y[:, 2]  # every column is distributed as before
    >>> told = mmd_test(X, Y, rng=0).explain()
    >>> print(told.shares[0].name)
    x0 and x2 together
    >>> bool(np.allclose(told.pairs.sum(axis=1), told.values))
    True
    """

    __test__ = False  # its name is not that of a test case

    statistic: float
    columns: tuple[str, ...]
    values: np.ndarray
    pairs: np.ndarray | None
    shares: tuple[TestShare, ...]
    n_permutations: int = 0
    error: float = 0.0
    telling: Callable[..., dict[str, Any]] | None = field(default=None, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"telling": None}

    @property
    def among(self) -> str:
        """How many columns and pairs p-values are adjusted for, in words."""
        p, pairs = len(self.columns), len(self.shares) - len(self.columns)
        counted = [(p, "column"), (pairs, "pair")]
        return " and ".join(f"{n} {what}" + "s" * (n > 1) for n, what in counted if n)

    def significant(self, level: float = 0.05) -> list[TestShare]:
        """Return the columns and pairs that chance does not explain, the most telling first.

        Parameters
        ----------
        level : float, default=0.05
            The largest adjusted p-value.
        """
        return [s for s in self.shares if s.adjusted is not None and s.adjusted <= level]

    @speaks("TestExplanation.rows")
    def rows(
        self, count: int = 5, columns: Sequence[str] | None = None
    ) -> dict[str, tuple[np.ndarray, Any]]:
        """Return the most telling rows, by the witness, with the shares of their columns.

        Parameters
        ----------
        count : int, default=5
            How many, of each sample.
        columns : sequence of str, optional
            Rows are judged by the shares of these columns alone, such as those of a `TestShare`; by
            default by the witness, which is all of them.

        Returns
        -------
        dict of str to (ndarray, Explanation)
            For each sample positions of rows, the most telling first, and the shares of columns in
            how much denser the sample is around them than the other (or than all, of more than
            two). Of `hsic_test` there is one entry, ``"X and Y"``: rows that add most to the
            statistic, and the shares of columns of both in what they add.
        """
        if self.telling is None:
            raise InvalidInput(
                f"{who()}: the samples are gone, as copies and pickles leave them out; "
                "explain the result of the test again."
            )
        chosen = list(self.columns) if columns is None else [columns]
        if columns is not None and not isinstance(columns, str):
            chosen = list(columns)
        for name in chosen:
            if name not in self.columns:
                raise InvalidInput(
                    f"{who()}: no column {name!r}; there are {', '.join(self.columns)}."
                )
        number = check_index(count, "count", 1)
        return self.telling(number, [self.columns.index(name) for name in chosen])

    def __repr__(self) -> str:
        lines = [f"statistic {figure(self.statistic)}, shared by {self.among}"]
        lines += [str(share) for share in self.shares[:SHOWN]]
        more = len(self.shares) - SHOWN
        return "\n".join(lines + ([f"and {more} more"] if more > 0 else []))


# ---- How shares are made, checked and told ----


def columned(X: Any) -> list[str] | None:
    """Return the names of the columns of a sample, where it has some."""
    if is_frame(X) or isinstance(X, Table | dict):
        return [str(name) for name in Table.from_frame(X).names]
    return None


def players(
    terms: Terms, count: int, own: Sequence[str] | None, columns: Any, groups: Any
) -> tuple[list[tuple[int, ...]], tuple[str, ...]]:
    """Return the groups of columns that share, and what they are called.

    Parameters
    ----------
    terms : Terms
        The kernel.
    count : int
        How many columns there are.
    own : sequence of str or None
        Names that the sample has.
    columns, groups : object
        As the user gave them.
    """
    called = own if columns is None else columns
    if columns is not None:
        listed = isinstance(columns, list | tuple | np.ndarray)
        if not listed or len(columns) != count:
            raise InvalidInput(
                f"{who()}: columns={columns!r}; give a name for each of the {count} columns."
            )
    listed = isinstance(groups, list | tuple | dict)
    if groups is not None and not listed:
        raise InvalidInput(
            f"{who()}: groups={groups!r}; give lists of columns, such as [['age', 'dose']]."
        )
    return players_of(terms, count, called, groups)


def product_terms(kernel: Any, points: Any) -> Terms:
    """Return a kernel as a sum of products over columns, or say what to use."""
    names = points.names if isinstance(points, Table) else None
    try:
        return terms_of(kernel, points.shape[1], names)
    except NoProduct as refused:
        raise InvalidInput(
            f"{who()}: {refused} is no sum of products over columns, so that columns have no "
            "shares of the statistic. Test with a product over columns: RBF, Laplacian, Matern "
            "with a length scale each, or parts put on their columns by .on(...)."
        ) from refused


def refuse_rank(rank: Any) -> None:
    """Refuse shares of a matrix of low rank."""
    if rank is not None:
        raise InvalidInput(
            f"{who()}: the test took a matrix of rank {rank}, and shares are of the whole one; "
            "test without rank=, on a sample of the rows if there are too many."
        )


def host_draws(design: Any, state: tuple[Any, Any], count: int, batch: int) -> np.ndarray:
    """Return draws of a design, as a test made them, in main memory.

    Parameters
    ----------
    design : Design
        What is drawn.
    state : tuple
        Of the generator, before the first draw.
    count, batch : int
        How many draws, and how many at a time.
    """
    rng = generator_at(state)
    starts = range(0, count, max(1, batch))
    drawn = [to_host(design.draw(rng, min(batch, count - start))) for start in starts]
    return np.concatenate(drawn)


def told(
    result: TestResult,
    columns: Sequence[str],
    T: np.ndarray,
    pairs: Sequence[tuple[int, int]] | None,
    *,
    alone: bool,
    resolution: float,
    scale: float,
    error: float,
    telling: Callable[..., dict[str, Any]],
) -> TestExplanation:
    """Return the explanation that statistics of all columns and pairs make.

    Parameters
    ----------
    result : TestResult
        The test.
    columns : sequence of str
        What the p columns are called.
    T : ndarray of shape (B + 1, p + number of pairs)
        Of columns, then of pairs; the first row is that of the data.
    pairs : sequence of (int, int) or None
        Which columns each pair is; None where pairs are not wanted.
    alone : bool
        Whether columns do something alone.
    resolution, scale, error : float
        Rounding of an entry of T, its size by the largest k(x, x), and what a mixture misses.
    telling : callable
        Finds rows.
    """
    p = len(columns)
    values = T[0, :p].copy()
    missed = abs(float(values.sum()) - result.statistic)
    if not missed <= OFF * scale + error:
        raise InvalidInput(
            f"{who()}: shares sum to {figure(float(values.sum()))}, and the statistic is "
            f"{figure(result.statistic)}: the samples have changed since the test, or the kernel "
            "has a noise on its diagonal. Run the test again."
        )
    matrix = None
    if pairs is not None:
        matrix = np.zeros((p, p))
        for (j, k), value in zip(pairs, T[0, p:], strict=True):
            matrix[j, k] = matrix[k, j] = value / 2
        if alone:
            matrix[np.diag_indices(p)] = values - matrix.sum(axis=1)
    names: list[tuple[str, ...]] = [(column,) for column in columns]
    names += [(columns[j], columns[k]) for j, k in pairs or ()]
    if len(T) == 1:
        order = np.argsort(-np.abs(T[0]), kind="stable")
        shares = [TestShare(names[m], float(T[0, m])) for m in order]
    else:
        away, pvalues, adjusted = max_t(T, resolution)
        # Of a tie, such as that of the only column of X with that of Y, the pair comes first.
        order = np.lexsort((-np.array([len(name) for name in names]), -np.round(away, 9)))
        shares = [
            TestShare(
                names[m], float(T[0, m]), float(pvalues[m]), float(adjusted[m]), float(away[m])
            )
            for m in order
        ]
    return TestExplanation(
        result.statistic,
        tuple(columns),
        values,
        matrix,
        tuple(shares),
        len(T) - 1,
        error + resolution,
        telling,
    )


def max_t(T: np.ndarray, resolution: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return studentised statistics of the data, their p-values, and those of the largest.

    The data are one of the arrangements that the hypothesis makes equally likely, and the rows of
    T are studentised by all of them: so their largest entries are exchangeable, and the rank of
    that of the data among them is a valid p-value, whatever the columns have to do with each other.

    Parameters
    ----------
    T : ndarray of shape (B + 1, q)
        One row for the data, one for each draw.
    resolution : float
        Differences within a column that may be rounding.
    """
    z, real = studentised(T, resolution)
    largest = z[:, real].max(axis=1) if real.any() else np.zeros(len(T))
    pvalues, adjusted = np.ones(T.shape[1]), np.ones(T.shape[1])
    largest = np.sort(largest)
    for m in np.flatnonzero(real):
        bound = z[0, m] - SLACK
        pvalues[m] = (z[:, m] >= bound).mean()
        adjusted[m] = (len(T) - np.searchsorted(largest, bound, side="left")) / len(T)
    return z[0], pvalues, adjusted
