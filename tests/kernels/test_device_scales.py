"""Length scales of rows on a device: those of arrays, without bringing the rows over."""

from __future__ import annotations

import numpy as np
import pytest

import mercer
from mercer.kernels.scales import median_distance, standard_deviation

pytest.importorskip("torch", reason="torch is not installed")
from tests.pretend_cuda import pretend_cuda, to_cuda

RNG = np.random.default_rng(0)
X = RNG.standard_normal((2500, 3)) * [1.0, 3.0, 0.1]
WEIGHTS = RNG.integers(0, 3, 2500).astype(float)
FEW = RNG.standard_normal((7, 3))[RNG.integers(0, 7, 2500)]  # seven points, many times each
ONE = np.ones((1200, 3))


@pytest.mark.parametrize("word", [median_distance, standard_deviation])
@pytest.mark.parametrize("w", [None, WEIGHTS, 1.0 * (np.arange(2500) < 900)])
@pytest.mark.parametrize("rows", [X, X.astype(np.float32), FEW, X * 1e200, X * 1e-300])
def test_scales_are_those_of_arrays(word, w, rows):
    with pretend_cuda() as log:
        found = word(to_cuda(rows), w)
        assert max(log.copies, default=0) <= 1001 * 3 * 8
    assert found == pytest.approx(word(rows, w), rel=1e-12)


def test_rows_that_are_all_equal_have_scale_one():
    with pretend_cuda():
        assert median_distance(to_cuda(ONE)) == standard_deviation(to_cuda(ONE)) == 1.0
        assert standard_deviation(to_cuda(X), np.eye(2500)[3]) == standard_deviation(X[3:4])


@pytest.mark.parametrize("metric", ["euclidean", "cityblock"])
def test_order_and_copies_do_not_count(metric):
    order = RNG.permutation(2500)
    with pretend_cuda():
        once = median_distance(to_cuda(X), WEIGHTS, metric)
        moved = median_distance(to_cuda(X[order]), to_cuda(WEIGHTS[order]), metric)
        twice = median_distance(to_cuda(np.repeat(X, WEIGHTS.astype(int), axis=0)), None, metric)
    assert once == pytest.approx(moved, rel=1e-12) and once == pytest.approx(twice, rel=1e-12)


def test_sorting_too_many_rows_is_refused_before_any_work():
    with (
        pretend_cuda(free=100_000),
        pytest.raises(mercer.errors.MemoryBudgetExceeded, match="length scale as a number"),
    ):
        median_distance(to_cuda(X))


@pytest.mark.filterwarnings("ignore::mercer.errors.NotConverged")
@pytest.mark.parametrize("kernel", ["rbf", mercer.RBF("median")])
def test_no_fit_with_centres_brings_its_rows_over(kernel):
    y = np.sin(X[:, 0])
    with pretend_cuda() as log:
        mercer.KernelRidge(kernel, solver="falkon", n_centers=5, max_iter=3, tol=0.1).fit(
            to_cuda(X), to_cuda(y)
        )
        assert max(log.copies) < X.nbytes // 2
