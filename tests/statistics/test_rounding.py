"""Data far from the origin, huge and tiny: a statistic keeps its digits, or the loss is told."""

import warnings

import numpy as np
import pytest

from mercer import RBF, FromFunction, Laplacian, Linear, Polynomial, Precomputed
from mercer.errors import InvalidInput, MercerError
from mercer.statistics import (
    dhsic,
    dhsic_test,
    hsic,
    hsic_test,
    k_sample_test,
    mmd,
    mmd_agg_test,
    mmd_split_test,
    mmd_test,
)

NULLS = ("permutation", "wild", "gamma", "normal")


def two(n=30, m=30, shift=1.0):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 2)), rng.normal(size=(m, 2)) + shift


def every_test(X, Y, kernel):
    """The p-value of every test of two samples."""
    found = [mmd_test(X, Y, kernel, 99, 0, null=null).pvalue for null in NULLS]
    found.append(k_sample_test(X, Y, kernel=kernel, n_permutations=99, rng=0).pvalue)
    found.append(mmd_agg_test(X, Y, [kernel], 99, 0).pvalue)
    found.append(mmd_agg_test(X, Y, [kernel], 99, 0, null="wild").pvalue)
    found.append(mmd_split_test(X, Y, [kernel], 99, 0).pvalue)
    return np.array(found)


@pytest.mark.parametrize("offset", [1e3, 1e6, 1.7e9])
def test_means_are_compared_wherever_they_are(offset):
    """A common offset, such as seconds since 1970, changes no difference of means."""
    X, Y = two()
    for estimator in ("biased", "unbiased"):
        wanted = mmd(X, Y, Linear(), estimator)
        found = mmd(X + offset, Y + offset, Linear(), estimator)
        assert found == pytest.approx(wanted, rel=1e-6)
    wanted = every_test(X, Y, Linear())
    np.testing.assert_allclose(every_test(X + offset, Y + offset, Linear()), wanted, rtol=1e-5)
    assert wanted.max() < 0.06
    w = np.linspace(0.3, 3, 30), np.linspace(2, 0.2, 30)
    a = mmd(X, Y, Linear(), sample_weight=w)
    assert mmd(X + offset, Y + offset, Linear(), sample_weight=w) == pytest.approx(a, rel=1e-6)


def test_gamma_follows_permutations_far_from_the_origin():
    X, Y = two()
    for kernel in (Polynomial(2), Linear() + 0.5 * RBF(), RBF(1e4)):
        for offset in (1e2, 3e4, 1e5):
            drawn = mmd_test(X + offset, Y + offset, kernel, 99, 0).pvalue
            fitted = mmd_test(X + offset, Y + offset, kernel, null="gamma").pvalue
            assert drawn == 0.01 and fitted < 1e-3


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_units_do_not_matter_while_kernel_values_are_in_range(scale):
    X, Y = two()
    wanted = every_test(X, Y, Linear())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = every_test(scale * X, scale * Y, Linear())
    # The ridge of the criterion that splits is the only number with a unit.
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_overflow_is_named():
    X, Y = two()
    calls = [
        lambda: mmd(1e160 * X, 1e160 * Y, Linear()),
        *(lambda n=n: mmd_test(1e160 * X, 1e160 * Y, Linear(), 9, 0, null=n) for n in NULLS),
        lambda: k_sample_test(1e160 * X, 1e160 * Y, kernel=Linear(), n_permutations=9),
        lambda: mmd_agg_test(1e160 * X, 1e160 * Y, [Linear()], 9),
        lambda: mmd_agg_test(1e160 * X, 1e160 * Y, [Linear()], 9, null="wild"),
        lambda: mmd_split_test(1e160 * X, 1e160 * Y, [Linear()], 9),
    ]
    for call in calls:
        with warnings.catch_warnings(), pytest.raises(MercerError, match=r"overflow.*Scale"):
            warnings.simplefilter("error")
            call()


def test_differences_that_rounding_took_are_not_zero():
    """Zero, or p = 1, would be an answer; that there is none is told instead."""
    X, Y = two()
    Z = np.vstack([X, Y])
    K = (Z + 1.7e9) @ (Z + 1.7e9).T
    given = K[:30], K[30:]
    far = X + 1.7e9, Y + 1.7e9, Linear() + Laplacian()
    calls = [
        lambda: mmd(*given, Precomputed()),
        lambda: mmd(*far),
        *(lambda n=n: mmd_test(*far, 9, 0, null=n) for n in NULLS),
        lambda: k_sample_test(*far[:2], kernel=far[2], n_permutations=9),
        lambda: mmd_agg_test(*far[:2], [far[2]], 9),
        lambda: mmd_split_test(*far[:2], [far[2]], 9),
    ]
    for call in calls:
        with pytest.raises(InvalidInput, match=r"lost in the rounding.*[Cc]entre"):
            call()


def test_zero_is_an_answer_where_it_is_one():
    X, _ = two()
    assert mmd(X, X, RBF(), "biased") == 0.0
    assert mmd(X, X, Linear(), "biased") == 0.0
    assert mmd_test(X, X, RBF(), 9, 0, estimator="biased").pvalue == 1.0
    same = FromFunction(lambda a, b: 1e12)
    assert mmd(list(X), list(X), same) == 0.0
    assert mmd_test(X, X, 1e9 + 0.0 * RBF(), 9, 0).pvalue == 1.0


def test_features_and_tiles_agree():
    """Centred features against the whole matrix of kernel values."""
    rng = np.random.default_rng(1)
    X, Y = rng.normal(size=(25, 3)) + 2, rng.normal(size=(18, 3))
    w = rng.uniform(0.2, 3, 25), rng.uniform(0.2, 3, 18)
    counts = rng.integers(0, 4, 25), rng.integers(1, 4, 18)
    for kernel in (Linear(), Polynomial(2), Polynomial(3, 0.0), Linear() * Linear() + 5.0):
        K = kernel(np.vstack([X, Y]))
        for weights in (None, w, counts):
            for estimator in ("biased", "unbiased"):
                a = mmd(X, Y, kernel, estimator, sample_weight=weights)
                b = mmd(K[:25], K[25:], "precomputed", estimator, sample_weight=weights)
                assert a == pytest.approx(b, rel=1e-9)
                if weights is not w:
                    for null in ("permutation", "gamma"):
                        options = {"sample_weight": weights, "null": null, "estimator": estimator}
                        a = mmd_test(X, Y, kernel, 49, 0, **options)
                        b = mmd_test(K[:25], K[25:], "precomputed", 49, 0, **options)
                        assert a.pvalue == pytest.approx(b.pvalue, rel=1e-6)


@pytest.mark.parametrize("offset", [1e4, 1e6, 1e8])
@pytest.mark.parametrize("kernel", [Linear(), RBF(1.0) + 2.0 * Linear()], ids=repr)
def test_dependence_is_the_same_wherever_the_variables_are(offset, kernel):
    """The joint criterion of two variables too, which is `hsic`."""
    A = np.random.default_rng(5).normal(size=(55, 4))
    x, y = (A + offset) - offset, A[:, :1]  # what is left of A
    wanted = hsic(x, y, kernel, kernel)
    assert hsic(A + offset, y - offset, kernel, kernel) == pytest.approx(wanted, rel=1e-6)
    assert dhsic(A + offset, y, kernels=kernel) == pytest.approx(wanted, rel=1e-6)
    assert mmd(A[:30] + offset, A[30:] + offset, kernel) == pytest.approx(
        mmd(x[:30], x[30:], kernel), rel=1e-6
    )
    for far in (0.0, offset):
        assert dhsic_test(A + far, y - far, kernels=kernel, n_permutations=99, rng=0).pvalue == 0.01
        assert hsic_test(A + far, y - far, kernel, kernel, 99, 0).pvalue == 0.01


def test_three_variables_far_from_the_origin_are_told_of():
    """Of three the criterion depends on where the origin is, and then on digits that are lost."""
    A = np.random.default_rng(5).normal(size=(55, 3))
    columns = [A[:, :1], A[:, :1] + A[:, 1:2], A[:, 2:]]
    with pytest.warns(UserWarning, match="Subtract the means of the columns"):
        dhsic(*(x + 1e8 for x in columns), kernels=Linear())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert dhsic_test(*columns, kernels=Linear(), n_permutations=99, rng=0).pvalue == 0.01
