"""The tables that come with scikit-learn: names, kinds, the numbers of the source."""

import numpy as np
from sklearn.datasets import load_diabetes, load_wine

from mercer.datasets import load_diabetes_table, load_wine_table


def test_diabetes():
    table, y = load_diabetes_table()
    source = load_diabetes(scaled=False)
    assert table.shape == (442, 10)
    assert sorted(set(table["sex"])) == ["1", "2"]
    np.testing.assert_array_equal(table["bmi"], source.data[:, 2])
    np.testing.assert_array_equal(y, source.target)


def test_wine():
    table, y = load_wine_table()
    source = load_wine()
    np.testing.assert_array_equal(table.numeric(), source.data)
    assert [int((y == f"grower {k}").sum()) for k in (1, 2, 3)] == [59, 71, 48]
