"""Samples as tests take them: columns by name, points of every kind, errors with a name."""

import numpy as np
import pytest

from mercer import Linear
from mercer.domains import Table
from mercer.errors import InvalidInput
from mercer.statistics import (
    k_sample_test,
    mmd,
    mmd_agg_test,
    mmd_split_test,
    mmd_test,
    witness,
)


def columns(n, seed):
    rng = np.random.default_rng(seed)
    return {"age": rng.normal(40, 10, n), "pay": rng.normal(3000, 500, n)}


def turned(data):
    return {name: data[name] for name in reversed(data)}


def kinds():
    found = [lambda data: data, Table]
    for module in ("pandas", "polars"):
        try:
            found.append(__import__(module).DataFrame)
        except ImportError:
            continue
    return found


@pytest.mark.parametrize("kind", kinds())
def test_columns_are_matched_by_name(kind):
    a, b = columns(60, 0), columns(50, 1)
    A, B = (np.column_stack([data["age"], data["pay"]]) for data in (a, b))
    other = kind(turned(b))
    assert mmd(kind(a), other) == mmd(A, B)
    calls = [
        lambda X, Y: mmd_test(X, Y, None, 99, 0),
        lambda X, Y: mmd_agg_test(X, Y, None, 19, 0, n_bandwidths=2),
        lambda X, Y: mmd_split_test(X, Y, None, 19, 0, n_bandwidths=2),
        lambda X, Y: k_sample_test(X, X, Y, n_permutations=19, rng=0),
    ]
    for call in calls:
        assert call(kind(a), other).pvalue == call(A, B).pvalue
    f, g = witness(kind(a), other), witness(A, B)
    np.testing.assert_allclose(f(A), g(A), atol=1e-15)
    # A sample without names is taken as it is.
    assert mmd(A, kind(b)) == mmd(A, B) == mmd(kind(a), B)


@pytest.mark.parametrize("kind", kinds())
def test_other_columns_are_named(kind):
    a = columns(9, 0)
    few = kind({"age": a["age"], "height": a["pay"]})
    for call in (mmd, mmd_test, mmd_agg_test, mmd_split_test, k_sample_test, witness):
        with pytest.raises(
            InvalidInput, match=f"{call.__name__}: .* lacks pay and has height more"
        ):
            call(kind(a), few)
    with pytest.raises(InvalidInput, match=r"Y lacks pay, compared to the columns of X"):
        mmd(kind(a), kind({"age": a["age"]}))
    with pytest.raises(InvalidInput, match=r"sample 2 has more more, compared"):
        k_sample_test(kind(a), kind(turned(a)), kind({**a, "more": a["age"]}))


def test_a_kernel_is_no_sample():
    X = np.arange(6.0)
    with pytest.raises(InvalidInput, match=r"sample 2 is a kernel.*write kernel=Linear\(\)"):
        k_sample_test(X, X, Linear())
