"""Draws of rows by weight: frequencies, sums that stand for all rows, weights of any unit."""

import numpy as np
import pytest

from mercer import RowBlocks
from mercer.errors import InvalidInput


def test_rows_are_drawn_by_their_weights():
    w = np.array([0.0, 1.0, 2.0, 4.0, 0.0, 1.0])
    rows = RowBlocks.from_arrays(np.arange(6.0)[:, None], None, w, block_rows=4)
    first = np.bincount([int(rows.draw(1, seed)[0][0]) for seed in range(800)], minlength=6)
    np.testing.assert_array_equal(first[w == 0], 0)
    np.testing.assert_allclose(first / 800, w / w.sum(), atol=0.06)
    places = np.repeat(np.arange(6), w.astype(int))
    twice = RowBlocks.from_arrays(places[:, None], None, np.ones(8), block_rows=5)
    totals = np.zeros(6)
    for seed in range(800):
        index, weight = rows.draw(3, seed)
        assert (np.diff(index) > 0).all()
        np.add.at(totals, index, weight)
        index, weight = twice.draw(3, seed)
        np.subtract.at(totals, places[index], weight)
    np.testing.assert_allclose(totals / 800, 0.0, atol=0.4)  # both stand for all rows
    for scale in (1e-300, 1e300):  # units of weights change nothing
        index, weight = RowBlocks.from_arrays(w, None, scale * w, block_rows=2).draw(2, 5)
        np.testing.assert_array_equal(index, rows.draw(2, 5)[0])
        np.testing.assert_allclose(weight / scale, rows.draw(2, 5)[1])


def test_rows_without_weight_are_none():
    blocks = RowBlocks.from_arrays(np.zeros((8, 1)), None, np.zeros(8), block_rows=5)
    with pytest.raises(InvalidInput, match="all sample weights are zero"):
        blocks.sample(3)
