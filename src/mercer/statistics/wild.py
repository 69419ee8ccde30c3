"""The wild bootstrap of MMD²: pairs (x_i, y_i) change places by random signs."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.engines.folds import quadratic
from mercer.kernels.bound import Bound
from mercer.statistics.device_forms import DeviceForms
from mercer.statistics.discrepancy import Discrepancy
from mercer.statistics.gram_forms import FeatureForms

__all__ = ["PairedBound", "Wild"]


class PairedBound(Bound):
    """Tiles of H = Kxx + Kyy − Kxy − Kyx, cut from tiles of the pooled matrix.

    Parameters
    ----------
    inner : Bound
        The kernel on the pooled points, X first.
    n : int
        Size of each sample.
    """

    def __init__(self, inner: Any, n: int):
        super().__init__(inner.kernel, inner.collections[0])
        self.follow(inner)
        self.inner, self.flagged = inner, inner.flagged
        self.shape, self.workspace = (n, n), inner.workspace + 5
        # By tile: Σ (Kxx + Kyy), Σ (Kxy + Kyx) and tr Kxy. Tiles may come from several threads.
        self.seen: dict[tuple[int, int], tuple[float, float, float]] = {}

    def verify(self) -> None:
        """Refuse what is plainly no kernel."""
        self.inner.verify()

    def tile(self, rows: slice, cols: slice) -> Any:
        """Return a tile of H."""
        n = self.shape[0]
        low, right = slice(rows.start + n, rows.stop + n), slice(cols.start + n, cols.stop + n)
        within = self.inner.tile(rows, cols) + self.inner.tile(low, right)
        between = self.inner.tile(rows, right)
        pairs = float(between.diagonal().sum()) if rows == cols else 0.0
        between = between + self.inner.tile(cols, low).T
        twice = 1.0 if rows == cols else 2.0
        self.seen[rows.start, cols.start] = (
            twice * float(within.sum()),
            twice * float(between.sum()),
            pairs,
        )
        return within - between


class Wild:
    """MMD² under signs s: a sign of −1 lets x_i and y_i change places.

    The sums over i ≠ j of Kxx + Kyy + Kxy + Kyx do not change, and those of H become sᵀHs, so both
    estimators are affine in sᵀHs, an n × n form: a quarter of the work of label vectors.

    Parameters
    ----------
    statistic : Discrepancy
        The statistic of the samples.
    blocks : int, array or None
        Pairs that share a sign.
    owner : str
        Whose arguments they are.
    """

    def __init__(self, statistic: Discrepancy, blocks: Any, owner: str):
        self.design = statistic.points.pairs(blocks, owner)
        n = self.n = self.design.n
        self.estimator = statistic.estimator
        self.forms = statistic.forms
        self.resolution = self.forms.resolution
        self.trace = float(self.forms.diagonal.sum())
        self.totals: tuple[float, ...] = ()
        self.there = isinstance(self.forms, DeviceForms)
        if isinstance(self.forms, FeatureForms):
            x, y = self.forms.F[:, :n], self.forms.F[:, n:]
            self.F = x - y
            with np.errstate(over="ignore", invalid="ignore"):  # named when a statistic has it
                a, b = x.sum(1), y.sum(1)
                self.totals = float(a @ a + b @ b), float(2 * a @ b), float((x * y).sum())
        elif not self.there:
            self.bound = PairedBound(self.forms.bound, n)

    def evaluate(self, draws: Any) -> np.ndarray:
        """Return the statistic of each row of signs.

        Parameters
        ----------
        draws : ndarray or tensor of shape (b, n)
            Signs.
        """
        if isinstance(self.forms, FeatureForms):
            G = np.asarray(draws) @ self.F.T
            q = (G * G).sum(1)
        elif self.there:
            q, self.totals = self.forms.paired(draws.T)
        else:
            q, _, _ = quadratic(self.bound, draws.T)
            if not self.totals:
                self.totals = tuple(np.sum([*self.bound.seen.values()], axis=0))
            self.bound.seen.clear()
        n = self.n
        if self.estimator == "biased":
            value = q / n**2
        else:
            within, between, pairs = self.totals
            whole = (within - self.trace) + (between - 2 * pairs)
            left = q - (self.trace - 2 * pairs)
            value = (whole + left) / (2 * n * (n - 1)) - ((whole - left) / 2 + 2 * pairs) / n**2
        return np.where(np.abs(value) <= self.resolution, 0.0, value)
