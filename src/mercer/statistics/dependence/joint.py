"""Joint independence of several variables, by dHSIC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mercer.checks import as_rng, check_index
from mercer.errors import InvalidInput, speaks, who
from mercer.estimator import tell_rounding
from mercer.kernels import Kernel
from mercer.memory import require_memory
from mercer.operators import shuffled_together
from mercer.settings import get_config
from mercer.statistics.base import TestResult, check_finite
from mercer.statistics.dependence.shuffled import centred_matrix, gram_matrix
from mercer.statistics.permutation import Shuffle, drawn_result, resample
from mercer.statistics.samples import together
from mercer.statistics.two_sample import centred_features

ROUNDING = 1e-14  # part of the terms of the criterion that the order of a sum may change


@speaks("dhsic")
def dhsic(*variables: Any, kernels: Any = None) -> float:
    r"""Return the criterion of joint independence of several variables.

    The squared distance, in the RKHS of the product of all kernels, between the joint law and the
    product of its marginals. With K¹ … Kᵈ the kernel matrices of n rows,

        dHSIC = Σᵢⱼ Πₖ Kᵏᵢⱼ / n² + Πₖ Σᵢⱼ Kᵏᵢⱼ / n² − 2 Σᵢ Πₖ (Σⱼ Kᵏᵢⱼ / n) / n.

    Of two variables it is `hsic`. It is 0 for variables that are independent, all together, and for
    characteristic kernels only for these: three variables may be independent pair by pair, and each
    be known from the other two.

    Parameters
    ----------
    *variables : collections of n points
        Two variables or more; row i of all belongs together. Vectors, frames, or what the kernels
        accept; numbers in one dimension are one column. The Gram matrix when precomputed.
    kernels : Kernel, str, callable or sequence of these, optional
        A kernel for all variables, or one for each, None among them; RBF at the median distance
        when left out.

    Returns
    -------
    float
        The criterion, never negative but for rounding.

    References
    ----------
    Pfister, Bühlmann, Schölkopf, Peters, "Kernel-based tests for joint independence", J. R. Stat.
    Soc. B 80, 2018.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.statistics import dhsic
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(2, 200))
    >>> z = np.sign(x * y) * np.abs(rng.normal(size=200))  # independent of x, and of y
    >>> bool(dhsic(x, y, z) > 2 * dhsic(x, y, rng.permutation(z)))
    True
    """
    joint = _Joint(*_variables(variables, kernels)[1:])
    observed = float(joint.evaluate(joint.data[None])[0])
    check_finite(observed)
    return observed


@speaks("dhsic_test")
def dhsic_test(
    *variables: Any,
    kernels: Any = None,
    n_permutations: int = 999,
    rng: Any = None,
    blocks: Any = None,
    strata: Any = None,
    early_stop: int | None = None,
) -> TestResult:
    r"""Test whether several variables are independent, all together, by `dhsic`.

    The rows of every variable but the first are shuffled, each on its own, and the p-value is
    (k + 1)/(B + 1) with k the number of draws that reach the criterion of the data. Its level is
    exact for any kernels, any number of variables and any sample size, as long as rows, blocks, or
    rows within strata are exchangeable. A small p-value says that some of the variables depend on
    others; `hsic_test` of two groups of them tells which.

    Parameters
    ----------
    *variables : collections of n points
        Two variables or more, as in `dhsic`.
    kernels : Kernel, str, callable or sequence of these, optional
        A kernel for all variables, or one for each, None among them; RBF at the median distance
        when left out.
    n_permutations : int, default=999
        Number of draws B.
    rng : None, int or Generator
        Source of randomness.
    blocks, strata : optional
        As in `hsic_test`, the same for all variables.
    early_stop : int, optional
        Stop at so many draws that reach the statistic: large p-values then cost few draws.

    Returns
    -------
    TestResult
        With `statistic`, `pvalue`, `null`, `method`; ``extra["kernels"]`` are the kernels used, and
        ``extra["characteristic"]`` says whether together they see every dependence.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.statistics import dhsic_test, hsic_test
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(2, 100))
    >>> z = np.sign(x * y) * np.abs(rng.normal(size=100))
    >>> dhsic_test(x, y, z, rng=0).pvalue
    0.001
    >>> min(hsic_test(x, z, rng=0).pvalue, hsic_test(y, z, rng=0).pvalue) > 0.05
    True
    """
    check_index(n_permutations, "n_permutations", 1)
    if early_stop is not None:
        check_index(early_stop, "early_stop", 1)
    generator = as_rng(rng)
    n, made, points = _variables(variables, kernels)
    design = _Apart(Shuffle(n, blocks=blocks, strata=strata), len(made) - 1)
    joint = _Joint(made, points)
    drawn = resample(
        None,
        joint.evaluate,
        design,
        n_permutations,
        generator,
        early_stop=early_stop,
        largest_batch=int(max(16, get_config().memory // (128 * n * len(made)))),
        resolution=joint.resolution,
        data=joint.data,
    )
    what = "blocks of rows" if blocks is not None else "rows"
    where = " within strata" if strata is not None else ""
    method = f"dHSIC of {len(made)} variables, permutations of {what}{where} of each"
    extra = {"kernels": made, "characteristic": all(bool(k.characteristic) for k in made)}
    return drawn_result(drawn, method, (n,), extra)


def _variables(variables: Sequence[Any], kernels: Any) -> tuple[int, list[Kernel], list[Any]]:
    """Return the number of rows, the kernels made for the variables, and their points."""
    if len(variables) < 2:
        raise InvalidInput(
            f"{who()}: got {len(variables)} variable{'s' * (len(variables) != 1)}; give two or "
            f"more, each as an argument of its own: {who()}(x, y, z)."
        )
    names = [f"variable {i}" for i in range(len(variables))]
    for X, name in zip(variables, names, strict=True):
        if isinstance(X, Kernel):
            raise InvalidInput(f"{who()}: {name} is a kernel, {X!r}; write kernels={X!r}.")
    several = isinstance(kernels, list | tuple)
    given = list(kernels) if several else [kernels] * len(variables)
    if len(given) != len(variables):
        raise InvalidInput(
            f"{who()}: kernels holds {len(given)} for {len(variables)} variables; give one for "
            "each, or one kernel for all."
        )
    made, points, _ = together(variables, given, names, None)
    return made[0].domain.size(points[0]), made, points


class _Apart:
    """Shuffles of several variables, each on its own."""

    def __init__(self, design: Shuffle, count: int):
        self.design, self.count = design, count

    def draw(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Return `size` draws, each a permutation for every variable: (size, count, n)."""
        drawn = self.design.draw(rng, size * self.count)
        return drawn.reshape(size, self.count, -1)


class _Joint:
    """The criterion of variables whose rows are shuffled, all but those of the first.

    Of its terms only the first and the last change. Of two variables it is the same for centred
    matrices, in which no digits are lost far from the origin; of more it is not.
    """

    def __init__(self, kernels: Sequence[Kernel], points: Sequence[Any]):
        n, count = kernels[0].domain.size(points[0]), len(kernels)
        require_memory(
            8 * n * n * (count + 2),
            f"{who()}: {count} matrices of {n} × {n} kernel values",
            "Test a sample of the rows",
        )
        self.K = np.empty((count, n, n))
        for k, each in enumerate(zip(kernels, points, strict=True)):
            if count == 2:
                self.K[k] = centred_matrix(gram_matrix(*centred_features(*each, np.ones(n))))
            else:
                tell_rounding(*each, np.asarray(each[0].diag(each[1]), dtype=float))
                self.K[k] = gram_matrix(*each)
        self.means = self.K.mean(axis=2)
        self.ends = np.diagonal(self.K, axis1=1, axis2=2)
        self.whole = float(np.prod(self.means.mean(axis=1)))
        self.data = np.broadcast_to(np.arange(n), (count - 1, n))
        self.resolution = ROUNDING * float(np.prod(np.abs(self.K).max(axis=(1, 2))))

    def evaluate(self, draws: np.ndarray) -> np.ndarray:
        """Return the criteria of draws, of shape (b, d − 1, n)."""
        n = draws.shape[2]
        total = 2.0 * shuffled_together(self.K, draws) + self._products(self.ends, draws)
        return total / n**2 + self.whole - 2.0 * self._products(self.means, draws) / n

    @staticmethod
    def _products(values: np.ndarray, draws: np.ndarray) -> np.ndarray:
        """Return Σᵢ Πₖ vₖ[pᵢ] of draws."""
        out = np.broadcast_to(values[0], (len(draws), draws.shape[2])).copy()
        for k, row in enumerate(values[1:]):
            out *= row[draws[:, k]]
        return out.sum(axis=1)
