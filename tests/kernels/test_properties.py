"""Laws on kernels nobody wrote down: random expressions, random points with repeats, any scale."""

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st
from sklearn.base import clone

import mercer
from mercer.errors import InvalidInput
from mercer.kernels import (
    RBF,
    Constant,
    Cosine,
    CosineDifference,
    ExpProduct,
    Kernel,
    Laplacian,
    Linear,
    Matern,
    Periodic,
    Polynomial,
    RationalQuadratic,
    White,
)
from mercer.testing import double_loop

scales = st.sampled_from([0.1, 0.5, 1.0, 2.0, 7.0])
orders = st.sampled_from([0.3, 0.5, 1.0, 1.5, 2.2, 2.5, 45.0, np.inf])

bounded = st.one_of(
    st.builds(RBF, scales | st.lists(scales, min_size=2, max_size=2)),
    st.builds(Matern, scales, orders),
    st.builds(RationalQuadratic, scales, scales),
    st.builds(Laplacian, scales),
    st.builds(Cosine),
    st.builds(Periodic, scales, scales),
    st.builds(CosineDifference),
    st.builds(White, scales),
    st.builds(Constant, st.sampled_from([0.0, 0.5, 3.0])),
)
leaves = bounded | st.one_of(
    st.builds(Linear),
    st.builds(Polynomial, st.integers(1, 3), st.sampled_from([0.0, 0.5, 1.0])),
    st.builds(ExpProduct),
)


def grown(inner):
    return st.one_of(
        st.builds(lambda a, b: a + b, inner, inner),
        st.builds(lambda a, b: a * b, inner, inner),
        st.builds(lambda a, c: c * a, inner, st.sampled_from([0.0, 0.5, 3.0])),
        st.builds(lambda a, p: a**p, inner, st.integers(1, 3)),
        st.builds(Kernel.normalized, inner),
        st.builds(Kernel.exp, bounded),
        st.builds(lambda a: a.series([0.5, 0.0, 1.0]), inner),
        st.builds(
            lambda a, c: a.on(c),
            bounded.filter(lambda k: _any_width(k)),
            st.sampled_from([0, 1, -1]),
        ),
    )


def _any_width(kernel):
    return np.ndim(getattr(kernel, "length_scale", 0.0)) == 0


kernels = st.recursive(leaves, grown, max_leaves=5)


@st.composite
def points(draw, low=-8, high=8):
    n = draw(st.integers(1, 12))
    # few different numbers, so that points and coordinates coincide
    values = st.sampled_from([0.0, 1.0, -1.0, 0.3, 2.5, -0.7])
    X = np.array(draw(st.lists(st.tuples(values, values), min_size=n, max_size=n)))
    return X * 10.0 ** draw(st.integers(low, high))


def evaluated(kernel, X):
    """k(X), unless the kernel rightly overflows on X."""
    try:
        assume(kernel.diag(X).max() < 1e140)
        return kernel(X)
    except InvalidInput as error:
        assert "overflow" in str(error)
        assume(False)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(kernels, points())
def test_symmetric_and_positive_semidefinite(kernel, X):
    K = evaluated(kernel, X)
    assert np.isfinite(K).all()
    np.testing.assert_array_equal(K, K.T)
    top = np.abs(K).max()
    np.testing.assert_allclose(kernel.diag(X), np.diag(K), rtol=1e-10, atol=1e-12 * top)
    if top > 0:
        values = np.linalg.eigvalsh(K / top)
        assert values[0] >= -1e-10 * values[-1], repr(kernel)
    centred = K - K.mean(0) - K.mean(1)[:, None] + K.mean()
    if top > 0:
        assert np.linalg.eigvalsh(centred / top)[0] >= -1e-9 * len(X)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(kernels, points(-3, 2), points(-3, 2))
def test_the_definition_by_two_loops(kernel, X, Y):
    K = evaluated(kernel, X)
    scale = np.abs(K).max()
    np.testing.assert_allclose(K, double_loop(kernel, X), rtol=1e-7, atol=1e-9 * scale)
    evaluated(kernel, Y)
    C = kernel(X, Y)  # |k(x, y)|² ≤ k(x, x)k(y, y): it cannot overflow
    expected = double_loop(kernel, X, Y)
    np.testing.assert_allclose(C, expected, rtol=1e-7, atol=1e-9 * np.abs(expected).max() + 1e-290)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(kernels)
def test_copies_and_printed_form(kernel):
    names = {n: getattr(mercer.kernels, n) for n in mercer.kernels.__all__} | {"inf": np.inf}
    assert eval(repr(kernel), {"__builtins__": {}}, names) == kernel
    assert clone(kernel) == kernel
    assert len(kernel.theta) == len(kernel.theta_names) == len(kernel.bounds)
    np.testing.assert_allclose(kernel.with_theta(kernel.theta).theta, kernel.theta, atol=1e-12)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(kernels, points(-2, 1), st.integers(0, 2**31))
def test_permutation_tiles_and_float32(kernel, X, seed):
    from mercer.engines.tiles import small_tiles

    K = evaluated(kernel, X)
    assume(np.abs(K).max() < 1e30)
    rng = np.random.default_rng(seed)
    order, v = rng.permutation(len(X)), rng.standard_normal(len(X))
    scale = max(np.abs(K).max(), 1e-300)
    np.testing.assert_allclose(
        kernel(X[order]), K[np.ix_(order, order)], rtol=1e-8, atol=1e-10 * scale
    )
    with small_tiles(4):
        np.testing.assert_allclose(kernel(X), K, rtol=1e-8, atol=1e-10 * scale)
        np.testing.assert_allclose(kernel.matmul(X, None, v), K @ v, rtol=1e-7, atol=1e-9 * scale)
    try:
        single = kernel(X.astype(np.float32))
    except InvalidInput as error:
        assert "overflow" in str(error)  # float32 ends at 3e38
    else:
        assert single.dtype == np.float32


@pytest.mark.parametrize("seed", range(3))
def test_the_sum_of_two_gram_matrices_is_that_of_stacked_features(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((6, 2))
    a, b = Polynomial(2, 0.5), Linear()
    phi = np.hstack([a.features(X), b.features(X)])
    np.testing.assert_allclose((a + b)(X), phi @ phi.T, rtol=1e-12)
