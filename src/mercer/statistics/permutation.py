"""The one loop that draws nulls: ways to shuffle, and how often shuffled data reach a statistic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from mercer.engines.progress import Ticker
from mercer.errors import InvalidInput
from mercer.solvers.checks import check_index

__all__ = ["Design", "Null", "Relabel", "Shuffle", "Signs", "resample"]

FIRST = 64  # draws of the first batch where drawing may end early; each further one is double
MOST = 4096  # draws looked at together


class Design(Protocol):
    """A way to shuffle that leaves the law of the data as it is when the hypothesis is true."""

    def draw(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Return `size` independent draws, one a row."""
        ...  # pragma: no cover


class Shuffle:
    """Permutations of n rows: place i receives row p[i].

    Rows of one block move together and keep their order: blocks of one length change places.
    Within strata, rows or blocks change places only with others of their stratum.

    Parameters
    ----------
    n : int
        Number of rows.
    blocks : int or array of shape (n,), optional
        The length of runs of consecutive rows, of which a shorter last one stays; or a label for
        each row.
    strata : array of shape (n,), optional
        A label for each row.
    owner : str
        Whose arguments they are, for messages.
    """

    def __init__(self, n: int, *, blocks: Any = None, strata: Any = None, owner: str = "Shuffle"):
        self.n = n
        units = _units(n, blocks, owner)
        lengths = np.array([len(unit) for unit in units])
        kinds = _kinds(units, strata, n, owner)
        # Blocks are alike when they have one length and one stratum.
        _, alike = np.unique(np.column_stack([lengths, kinds]), axis=0, return_inverse=True)
        alike = alike.reshape(-1)
        self.groups = [
            np.stack([units[u] for u in np.flatnonzero(alike == kind)])
            for kind in range(alike.max(initial=-1) + 1)
        ]
        self.plain = blocks is None and strata is None
        if n > 1 and not any(len(group) > 1 for group in self.groups):
            raise InvalidInput(
                f"{owner}: nothing can change places: no two blocks have one length and one "
                "stratum. Give blocks of equal length, or fewer strata."
            )

    def draw(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Return permutations, one a row.

        Parameters
        ----------
        rng : Generator
            Source of randomness.
        size : int
            How many.
        """
        p = np.broadcast_to(np.arange(self.n), (size, self.n)).copy()
        if self.plain:
            return rng.permuted(p, axis=1, out=p)
        # One draw after the other, so that the draws do not depend on how many are asked at once.
        for row in p:
            for group in self.groups:
                if len(group) > 1:
                    row[group] = group[rng.permutation(len(group))]
        return p


class Relabel:
    """Labels of rows, shuffled; all rows of a block keep one label.

    Parameters
    ----------
    labels : array of integers of shape (n,)
        Which sample a row belongs to.
    blocks : int or array of shape (n,), optional
        Rows that move together, as for `Shuffle`; a block lies in one sample. Blocks may differ in
        length: the sizes of the samples then vary.
    strata : array of shape (n,), optional
        Labels change places only within a stratum.
    owner : str
        Whose arguments they are, for messages.
    """

    def __init__(
        self, labels: Any, *, blocks: Any = None, strata: Any = None, owner: str = "Relabel"
    ):
        self.labels = np.asarray(labels)
        n = len(self.labels)
        self.heads = self.of = np.arange(n)
        if blocks is None:
            kinds = np.zeros(n, int) if strata is None else _codes(strata, n, "strata", owner)
        else:
            units = _units(n, blocks, owner, self.labels)
            self.heads, self.of = np.array([unit[0] for unit in units]), np.empty(n, dtype=int)
            for u, unit in enumerate(units):
                self.of[unit] = u
                if (self.labels[unit] != self.labels[unit[0]]).any():
                    raise InvalidInput(
                        f"{owner}: the block of row {unit[0]} has rows in several samples; a "
                        "block belongs to one sample. Use strata to exchange rows within groups "
                        "instead."
                    )
            kinds = _kinds(units, strata, n, owner)
        self.groups = [np.flatnonzero(kinds == kind) for kind in np.unique(kinds)]
        own = self.labels[self.heads]
        if len(np.unique(self.labels)) > 1 and all(
            len(np.unique(own[group])) < 2 for group in self.groups
        ):
            raise InvalidInput(
                f"{owner}: every stratum lies in one sample, so no label can change; give strata "
                "that hold rows of several samples."
            )

    def draw(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Return labels, one draw a row.

        Parameters
        ----------
        rng : Generator
            Source of randomness.
        size : int
            How many.
        """
        own = np.broadcast_to(self.labels[self.heads], (size, len(self.heads))).copy()
        if len(self.groups) == 1:
            own = rng.permuted(own, axis=1, out=own)
        else:
            for row in own:
                for group in self.groups:
                    row[group] = row[group][rng.permutation(len(group))]
        return own if len(self.heads) == len(self.labels) else own[:, self.of]


class Signs:
    """Random signs, one for each row or block: the wild bootstrap.

    Parameters
    ----------
    n : int
        Number of rows.
    blocks : int or array of shape (n,), optional
        Rows that share a sign, as for `Shuffle`.
    owner : str
        Whose arguments they are, for messages.
    """

    def __init__(self, n: int, *, blocks: Any = None, owner: str = "Signs"):
        self.n, self.of = n, np.arange(n)
        self.count = n
        if blocks is not None:
            units = _units(n, blocks, owner)
            self.count = len(units)
            for u, unit in enumerate(units):
                self.of[unit] = u

    def draw(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Return rows of +1 and −1.

        Parameters
        ----------
        rng : Generator
            Source of randomness.
        size : int
            How many.
        """
        signs = 2.0 * rng.integers(0, 2, size=(size, self.count)) - 1.0
        return signs if self.count == self.n else signs[:, self.of]


@dataclass(frozen=True, eq=False)
class Null:
    """Statistics of shuffled data.

    Parameters
    ----------
    values : ndarray of shape (n_drawn,) or (n_drawn, q)
        In the order in which they were drawn.
    exceedances : int or None
        Draws that reached the statistic; None for several statistics at once.
    n_drawn : int
        Number of draws.
    stopped : bool
        Whether the draws ended at the exceedance agreed on before.
    pvalue : float or None
        (k + 1)/(B + 1), or h/l when stopped at the h-th exceedance, the l-th draw.
    observed : float or ndarray of shape (q,)
        The statistic of the data.
    """

    values: np.ndarray
    exceedances: int | None
    n_drawn: int
    stopped: bool
    pvalue: float | None
    observed: Any = None


def resample(
    observed: Any,
    evaluate: Callable[[np.ndarray], np.ndarray],
    design: Design,
    n_permutations: int,
    rng: np.random.Generator,
    *,
    early_stop: int | None = None,
    largest_batch: int | None = None,
    resolution: float = 0.0,
    data: np.ndarray | None = None,
    owner: str = "resample",
) -> Null:
    """Draw a null and say how often it reaches the statistic.

    The data themselves are one of the arrangements that the hypothesis makes equally likely, hence
    (k + 1)/(B + 1): it is never 0, and at most u with probability at most u. A draw that equals the
    statistic up to rounding reaches it. Batches do not change the draws.

    Parameters
    ----------
    observed : float, array of shape (q,) or None
        The statistic of the data; None to evaluate `data` together with the first batch, which
        saves a pass over a matrix that is not stored.
    evaluate : callable
        Draws, one a row → their statistics, shape (b,) or (b, q).
    design : Design
        What is drawn.
    n_permutations : int
        B, the largest number of draws.
    rng : Generator
        Source of randomness.
    early_stop : int, optional
        h: stop at the h-th draw that reaches the statistic (Besag and Clifford, Biometrika 78,
        1991). Large p-values then cost few draws.
    largest_batch : int, optional
        Most draws to evaluate together.
    resolution : float, default=0.0
        Error of a statistic by rounding; differences below it are ties.
    data : array, optional
        The draw that leaves the data as they are, when `observed` is None.
    owner : str
        Whose arguments they are, for messages.

    Returns
    -------
    Null
        The draws and the p-value.
    """
    B = check_index(n_permutations, "n_permutations", owner, 1)
    if early_stop is not None:
        check_index(early_stop, "early_stop", owner, 1)
    most = min(MOST, largest_batch or MOST)
    batch = most if early_stop is None else min(FIRST, most)
    values: list[np.ndarray] = []
    drawn = reached = 0
    stopped = False
    ticker = Ticker(owner)
    while drawn < B and not stopped:
        size = min(batch, B - drawn)
        draws = design.draw(rng, size)
        if observed is None and data is not None:
            found = np.asarray(evaluate(np.concatenate([data[None], draws])), dtype=float)
            observed, found = found[0], found[1:]
        else:
            found = np.asarray(evaluate(draws), dtype=float)
        if np.ndim(observed) > 0:
            if early_stop is not None:
                raise InvalidInput(f"{owner}: early_stop is for one statistic, not for several.")
        else:
            slack = max(resolution, 1e-12 * float(np.abs(found).max(initial=abs(observed))))
            hits = np.flatnonzero(found >= observed - slack)
            if early_stop is not None and reached + len(hits) >= early_stop:
                last = int(hits[early_stop - reached - 1])
                found, hits, stopped = found[: last + 1], hits[: early_stop - reached], True
            reached += len(hits)
        values.append(found)
        drawn += len(found)
        ticker.tell(f"{drawn} of {B} permutations")
        batch = min(2 * batch, most)
    ticker.close()
    whole = np.concatenate(values)
    if np.ndim(observed) > 0:
        return Null(whole, None, drawn, False, None, observed)
    pvalue = reached / drawn if stopped else (reached + 1) / (drawn + 1)
    return Null(whole, reached, drawn, stopped, pvalue, float(observed))


# ------------------------------------------------------------------------------------- blocks
def _units(n: int, blocks: Any, owner: str, labels: np.ndarray | None = None) -> list[np.ndarray]:
    """Return the rows of each block; runs of a given length begin anew in each sample."""
    if blocks is None:
        return list(np.arange(n)[:, None])
    if isinstance(blocks, int | np.integer) and not isinstance(blocks, bool):
        length = check_index(blocks, "blocks", owner, 1)
        parts = [np.arange(n)]
        if labels is not None:
            parts = [np.flatnonzero(labels == label) for label in np.unique(labels)]
        return [part[i : i + length] for part in parts for i in range(0, len(part), length)]
    codes = _codes(blocks, n, "blocks", owner)
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)


def _kinds(units: list[np.ndarray], strata: Any, n: int, owner: str) -> np.ndarray:
    """Return the stratum of each block, which must lie in one."""
    if strata is None:
        return np.zeros(len(units), dtype=int)
    codes = _codes(strata, n, "strata", owner)
    for unit in units:
        if (codes[unit] != codes[unit[0]]).any():
            raise InvalidInput(
                f"{owner}: the block of row {unit[0]} has rows in several strata; a block lies in "
                "one stratum."
            )
    return codes[[unit[0] for unit in units]] if units else np.zeros(0, dtype=int)


def _codes(labels: Any, n: int, name: str, owner: str) -> np.ndarray:
    """Return labels as whole numbers from 0."""
    values = np.asarray(labels)
    if values.shape != (n,):
        raise InvalidInput(
            f"{owner}: {name} has shape {values.shape}, expected ({n},): a label for each row"
            + (", or one number, the length of runs of rows." if name == "blocks" else ".")
        )
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise InvalidInput(f"{owner}: {name} holds NaN or infinity; give every row a label.")
    if values.dtype == object:
        values = values.astype(str)
    return np.unique(values, return_inverse=True)[1].reshape(-1)
